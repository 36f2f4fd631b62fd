/* The tables of a result as CSV. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/glcm/glcm.h"
#include "workunits/format/csv.h"
#include "workunits/tools/export.h"

static tc_status write_rows(const wu_result_file *file, const wu_table *table, wu_csv *out, tc_err *err)
{
    wu_cursor cursor;
    char text[WU_CELL_MAX];
    bool more = true;
    tc_status status = wu_cursor_open(file, table, &cursor, err);
    while (status == TC_OK && more) {
        status = wu_cursor_next(&cursor, &more, err);
        for (size_t c = 0; c < table->n_columns && more && status == TC_OK; c++) {
            status = wu_cursor_text(&cursor, c, text, err);
            if (status == TC_OK)
                wu_csv_put(out, text);
        }
        if (status == TC_OK && more)
            status = wu_csv_end_line(out, err);
    }
    wu_cursor_close(&cursor);
    return status;
}

static tc_status write_table(const wu_result_file *file, const wu_table *table, const char *folder,
                             tc_err *err)
{
    wu_csv out;
    tc_status status = wu_csv_open(folder, table->name, &out, err);
    for (size_t c = 0; c < table->n_columns && status == TC_OK; c++)
        wu_csv_put(&out, table->columns[c].title);
    if (status == TC_OK)
        status = wu_csv_end_line(&out, err);
    if (status == TC_OK)
        status = write_rows(file, table, &out, err);
    return wu_csv_close(&out, status, err);
}

/* --- offset_features: five dimensions as long rows -------------------------------------------- */

typedef struct offset_table {
    const wu_result_file *file;
    const wu_array_info *info;    /* [items, levels, offsets, features, 4] float64 */
    size_t index;
    const json_t *levels;         /* a list of info->shape[1] integers */
    int32_t *offsets;             /* [info->shape[2]][3]: dx, dy, distance (owned) */
} offset_table;

/* Checks that levels, offsets and features fit the array, and loads the offsets. */
static tc_status open_offsets(const wu_result_file *file, size_t index, offset_table *out, tc_err *err)
{
    *out = (offset_table){ .file = file, .info = wu_npz_info(file->npz, index), .index = index };
    const uint64_t *shape = out->info->shape;
    const long at = wu_npz_find(file->npz, "offsets");
    const wu_array_info *offsets = at < 0 ? NULL : wu_npz_info(file->npz, (size_t)at);
    out->levels = json_object_get(json_object_get(wu_npz_json(file->npz), "parameters"), "levels");
    const bool fits = out->info->ndim == 5 && out->info->dtype == WU_F64 && shape[0] == file->n_items
        && shape[1] == json_array_size(out->levels) && shape[3] == GLCM_FEATURES && shape[4] == 4
        && offsets != NULL && offsets->dtype == WU_I32 && offsets->ndim == 2
        && offsets->shape[0] == shape[2] && offsets->shape[1] == 3;
    if (!fits)
        return tc_fail(err, TC_BAD_INPUT, "%s: offset_features: does not fit the items, the parameter "
                       "levels and the array offsets", file->path);
    void *data = NULL;
    const tc_status status = wu_npz_load(file->npz, (size_t)at, &data, err);
    out->offsets = data;
    return status;
}

/* The cells before the numbers, counted by `row`: item, level, offset, feature. */
static void put_place(const offset_table *t, uint64_t row, wu_csv *out)
{
    const uint64_t *shape = t->info->shape;
    const uint64_t feature = row % shape[3];
    const uint64_t offset = row / shape[3] % shape[2];
    const uint64_t level = row / shape[3] / shape[2] % shape[1];
    const uint64_t item = row / shape[3] / shape[2] / shape[1];
    char text[32];
    wu_csv_put(out, t->file->item_names[item]);
    snprintf(text, sizeof text, "%" JSON_INTEGER_FORMAT,
             json_integer_value(json_array_get(t->levels, (size_t)level)));
    wu_csv_put(out, text);
    for (size_t i = 0; i < 2; i++) {
        snprintf(text, sizeof text, "%" PRId32, t->offsets[offset * 3 + i]);
        wu_csv_put(out, text);
    }
    wu_csv_put(out, glcm_feature_names[feature]);
}

static tc_status write_offset_rows(const offset_table *t, wu_csv *out, tc_err *err)
{
    double numbers[4];
    char text[WU_CELL_MAX];
    wu_npz_stream *stream = NULL;
    tc_status status = wu_npz_stream_open(t->file->npz, t->index, &stream, err);
    for (uint64_t row = 0; status == TC_OK && wu_npz_stream_left(stream) > 0; row++) {
        status = wu_npz_stream_read(stream, numbers, sizeof numbers, err);
        if (status != TC_OK)
            break;
        put_place(t, row, out);
        for (size_t i = 0; i < 4; i++) {
            wu_value_text(t->info, &numbers[i], text);
            wu_csv_put(out, text);
        }
        status = wu_csv_end_line(out, err);
    }
    if (status == TC_OK)
        status = wu_npz_stream_end(stream, err);
    wu_npz_stream_close(&stream);
    return status;
}

static tc_status write_offsets(const wu_result_file *file, size_t index, const char *folder, tc_err *err)
{
    static const char *const titles[] = { "item", "levels", "dx", "dy", "feature", "mean", "variance",
                                          "min", "max" };
    offset_table table;
    wu_csv out = { 0 };
    tc_status status = open_offsets(file, index, &table, err);
    if (status == TC_OK)
        status = wu_csv_open(folder, "offset_features", &out, err);
    for (size_t i = 0; i < sizeof titles / sizeof titles[0] && status == TC_OK; i++)
        wu_csv_put(&out, titles[i]);
    if (status == TC_OK)
        status = wu_csv_end_line(&out, err);
    if (status == TC_OK)
        status = write_offset_rows(&table, &out, err);
    free(table.offsets);
    return wu_csv_close(&out, status, err);
}

tc_status wu_export_tables(const wu_result_file *file, const char *folder, bool *used,
                           size_t *written, tc_err *err)
{
    wu_tables tables;
    tc_status status = wu_tables_find(file, &tables, err);
    for (size_t i = 0; i < wu_npz_count(file->npz) && status == TC_OK; i++)
        used[i] = used[i] || tables.used[i];
    for (size_t i = 0; i < tables.n && status == TC_OK; i++, ++*written)
        status = write_table(file, &tables.tables[i], folder, err);
    const long offsets = wu_npz_find(file->npz, "offset_features");
    if (status == TC_OK && offsets >= 0) {
        status = write_offsets(file, (size_t)offsets, folder, err);
        used[offsets] = true;
        ++*written;
    }
    wu_tables_free(&tables);
    return status;
}
