/* Writes the tables of a result as CSV files. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "workunits/format/csv.h"
#include "workunits/tools/export.h"

tc_status wu_export_open_csv(const char *folder, const char *name, wu_csv *out, tc_err *err)
{
    return_if_error(wu_export_list_file(folder, name, ".csv", err));
    return wu_csv_open(folder, name, out, err);
}

bool wu_is_items_table(const wu_table *table)
{
    return !table->has_item_array && strcmp(table->name, "items") == 0;
}

void wu_export_put_item_cells(const wu_result_file *file, uint64_t item, wu_csv *out)
{
    wu_csv_put_cell(out, wu_result_item_title(file, item).text);
    if (file->item_sources != NULL)
        wu_csv_put_cell(out, file->item_sources[item]);
}

/* Writes the titles of the cells of wu_export_put_item_cells. */
static void put_item_titles(const wu_result_file *file, wu_csv *out)
{
    wu_csv_put_cell(out, "item");
    if (file->item_sources != NULL)
        wu_csv_put_cell(out, "source");
}

void wu_export_put_title_cells(const wu_result_file *file, const wu_table *table, wu_csv *out)
{
    char title[WU_TITLE_MAX];
    put_item_titles(file, out);
    for (size_t c = 0; table != NULL && c < table->n_columns; c++) {
        wu_column_title(table, c, title);
        wu_csv_put_cell(out, title);
    }
}

static tc_status write_rows(const wu_result_file *file, const wu_table *table, wu_csv *out,
                            tc_err *err)
{
    TC_AUTO(wu_cursor_close) wu_cursor cursor;
    const wu_array_info *info;
    tc_status status = wu_cursor_open(file, table, &cursor, err);
    while (wu_cursor_next(&cursor, &status, err)) {
        wu_export_put_item_cells(file, cursor.item, out);
        for (size_t c = 0; c < table->n_columns; c++) {
            const void *const value = wu_cursor_value(&cursor, c, &info);
            wu_csv_put_value(out, info, value);
        }
        status = wu_csv_end_line(out, err);
    }
    return status;
}

tc_status wu_export_put_column_line(wu_csv *columns, const char *table, const char *title,
                                    const char *unit, tc_err *err)
{
    char file[WU_TITLE_MAX];
    snprintf(file, sizeof file, "%s.csv", table);
    wu_csv_put_cell(columns, file);
    wu_csv_put_cell(columns, title);
    wu_csv_put_cell(columns, unit != NULL ? unit : "");
    return wu_csv_end_line(columns, err);
}

tc_status wu_export_open_columns_csv(const wu_tables *tables, const char *folder, wu_csv *out,
                                     tc_err *err)
{
    char title[WU_TITLE_MAX];
    return_if_error(wu_export_open_csv(folder, "columns", out, err));
    wu_csv_put_cell(out, "file");
    wu_csv_put_cell(out, "column");
    wu_csv_put_cell(out, "unit");
    return_if_error(wu_csv_end_line(out, err));
    for (size_t i = 0; i < tables->n; i++)
        for (size_t c = 0; c < tables->tables[i].n_columns; c++) {
            const wu_table *const table = &tables->tables[i];
            wu_column_title(table, c, title);
            return_if_error(
                wu_export_put_column_line(out, table->name, title, wu_column_unit(table, c), err));
        }
    return TC_OK;
}

static tc_status write_table(const wu_result_file *file, const wu_table *table, const char *folder,
                             tc_err *err)
{
    wu_csv out = { 0 };
    tc_status status = wu_export_open_csv(folder, table->name, &out, err);
    if (status == TC_OK) {
        wu_export_put_title_cells(file, table, &out);
        status = wu_csv_end_line(&out, err);
    }
    if (status == TC_OK)
        status = write_rows(file, table, &out, err);
    return wu_csv_close(&out, status, err);
}

/* --- arrays with too many axes for a table --------------------------------------------------- */

/* An array [item][axis 0]...[last axis] that is exported as a table in long format. The entries of
 * the last axis are the columns; there is a row for each item and each combination of entries of
 * the other axes. Each row begins with key cells, which name the item and these entries. An entry
 * is named by a word or a number (wu_axis.words, wu_axis.numbers), or by several numbers. */
typedef struct long_table {
    const wu_result_file *file;
    const wu_declaration *declared;
    const wu_array_info *info;
    size_t index; /* index of the array in the file */
    struct keys {
        /* The array of role WU_KEYS that describes each entry of the axis by several numbers, such
         * as dy and dx; NULL if the axis' own words or numbers describe its entries. */
        const wu_declaration *declared;
        int32_t *rows;   /* [entries][declared->axes[0].n] the data of this array; owned */
    } keys[WU_MAX_AXES]; /* the descriptions of each axis' entries */
} long_table;

/* Loads the WU_KEYS array of an axis, if it has one. */
static tc_status load_keys(long_table *t, unsigned axis, tc_err *err)
{
    const char *const name = t->declared->axes[axis].array;
    void *data = NULL;
    size_t index = 0, i = 0;
    if (name == NULL)
        return TC_OK;
    while (i < t->file->n_declared &&
           (t->file->declared[i].role != WU_KEYS || strcmp(t->file->declared[i].name, name) != 0))
        i++;
    if (i == t->file->n_declared)
        return tc_fail(err, TC_BAD_INPUT, "%s: %s: its keys %s are not declared", t->file->path,
                       t->info->name, name);
    tc_status status = wu_find_declared_array(t->file, &t->file->declared[i], NULL, &index, err);
    if (status == TC_OK)
        status = wu_npz_load_array(t->file->npz, index, &data, err);
    t->keys[axis].declared = &t->file->declared[i];
    t->keys[axis].rows = data;
    return status;
}

/* Checks the array and loads its keys. close_long_table must be called, also after a failure. */
static tc_status open_long_table(const wu_result_file *file, const wu_declaration *d, size_t index,
                                 long_table *out, tc_err *err)
{
    *out = (long_table){
        .file = file, .declared = d, .info = wu_npz_array_info(file->npz, index), .index = index
    };
    if (out->info->shape[0] != file->n_items || d->axes[d->n_axes - 1].words == NULL ||
        out->info->dtype == WU_STR)
        return tc_fail(err, TC_BAD_INPUT,
                       "%s: %s: has another number of items, or columns without names", file->path,
                       out->info->name);
    for (unsigned i = 0; i < d->n_axes; i++)
        return_if_error(load_keys(out, i, err));
    return TC_OK;
}

static void close_long_table(long_table *t)
{
    for (unsigned i = 0; i < WU_MAX_AXES; i++)
        free(t->keys[i].rows);
}

/* Writes the key cells of axis i: one cell for each column of its WU_KEYS array, or a single cell
 * if it has none. *entry: index of the entry that the cells describe. If entry is NULL, writes the
 * titles of these cells. */
static void put_axis_cells(const long_table *t, unsigned i, const uint64_t *entry, wu_csv *out)
{
    const wu_axis *const axis = &t->declared->axes[i];
    const struct keys *const keys = &t->keys[i];
    static const wu_array_info i32 = { .dtype = WU_I32 };
    char text[32];
    if (keys->declared != NULL) {
        const wu_axis *const names = &keys->declared->axes[0];
        for (uint32_t k = 0; k < names->n; k++) {
            if (entry != NULL)
                wu_csv_put_value(out, &i32, &keys->rows[*entry * names->n + k]);
            else
                wu_csv_put_cell(out, names->words[k]);
        }
    } else if (entry == NULL) {
        wu_csv_put_cell(out, axis->name != NULL ? axis->name : "");
    } else if (axis->words != NULL) {
        wu_csv_put_cell(out, axis->words[*entry]);
    } else {
        snprintf(text, sizeof text, "%u", axis->numbers[*entry]);
        wu_csv_put_cell(out, text);
    }
}

/* Writes the first cells of line `row`: the item, and the entry on each axis except the last. `row`
 * counts the combinations of item and entries, the last of these axes fastest. */
static void put_key_cells(const long_table *t, uint64_t row, wu_csv *out)
{
    uint64_t entry[WU_MAX_AXES] = { 0 }, rest = row;
    for (unsigned i = t->declared->n_axes - 1; i-- > 0; rest /= t->declared->axes[i].n)
        entry[i] = rest % t->declared->axes[i].n;
    wu_export_put_item_cells(t->file, rest,
                             out); /* the item is the slowest index: what remains of `row` */
    for (unsigned i = 0; i + 1 < t->declared->n_axes; i++)
        put_axis_cells(t, i, &entry[i], out);
}

/* Writes the line of titles. */
static tc_status write_long_titles(const long_table *t, wu_csv *out, tc_err *err)
{
    const wu_axis *const last = &t->declared->axes[t->declared->n_axes - 1];
    put_item_titles(t->file, out);
    for (unsigned i = 0; i + 1 < t->declared->n_axes; i++)
        put_axis_cells(t, i, NULL, out);
    for (uint32_t i = 0; i < last->n; i++)
        wu_csv_put_cell(out, last->words[i]);
    return wu_csv_end_line(out, err);
}

/* Writes a line for each combination of an item and entries on all axes but the last. */
static tc_status write_long_rows(const long_table *t, wu_csv *out, tc_err *err)
{
    const uint32_t columns = t->declared->axes[t->declared->n_axes - 1].n;
    const size_t size = wu_dtype_size(t->info->dtype, 0);
    TC_AUTOFREE unsigned char *const numbers = calloc(columns, size);
    TC_AUTO(wu_npz_stream_close) wu_npz_stream *stream = NULL;
    return_if_error(numbers == NULL ? tc_no_memory(err, t->info->name)
                                    : wu_npz_stream_open(t->file->npz, t->index, &stream, err));
    for (uint64_t row = 0; wu_npz_stream_left(stream) > 0; row++) {
        return_if_error(wu_npz_stream_read(stream, numbers, columns * size, err));
        put_key_cells(t, row, out);
        for (uint32_t i = 0; i < columns; i++)
            wu_csv_put_value(out, t->info, numbers + i * size);
        return_if_error(wu_csv_end_line(out, err));
    }
    return wu_npz_stream_end(stream, err);
}

/* Writes an array as the file NAME.csv, a table in long format. */
static tc_status write_long_table(const wu_result_file *file, const wu_declaration *d, size_t index,
                                  const char *folder, tc_err *err)
{
    long_table table;
    wu_csv out = { 0 };
    tc_status status = open_long_table(file, d, index, &table, err);
    if (status == TC_OK)
        status = wu_export_open_csv(folder, d->name, &out, err);
    if (status == TC_OK)
        status = write_long_titles(&table, &out, err);
    if (status == TC_OK)
        status = write_long_rows(&table, &out, err);
    close_long_table(&table);
    return wu_csv_close(&out, status, err);
}

tc_status wu_export_tables(const wu_result_file *file, wu_tables *tables, const char *folder,
                           bool without_items_csv, size_t *written, tc_err *err)
{
    assert(folder != NULL && written != NULL);
    wu_csv columns = { 0 };
    tc_status status = TC_OK;
    if (tables->n > 0 && !without_items_csv)
        status =
            wu_csv_close(&columns, wu_export_open_columns_csv(tables, folder, &columns, err), err);
    *written += without_items_csv; /* items.csv, which wu_report_write_marks_csv writes */
    for (size_t i = 0; i < tables->n && status == TC_OK; i++) {
        if (without_items_csv && wu_is_items_table(&tables->tables[i]))
            continue;
        status = write_table(file, &tables->tables[i], folder, err);
        ++*written;
    }
    for (size_t i = 0; i < file->n_declared && status == TC_OK; i++) {
        const wu_declaration *const d = &file->declared[i];
        const long index = wu_npz_find_array(file->npz, d->name);
        if (d->role != WU_VALUE || d->table == NULL || index < 0 || tables->used[index])
            continue;
        status = write_long_table(file, d, (size_t)index, folder, err);
        tables->used[index] = true;
        ++*written;
    }
    return status;
}
