#include "workunits/format/result_file.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "workunits/format/archive.h"
#include "workunits/format/job.h"

/* --- the file ---------------------------------------------------------------------------- */

void wu_free_strings(char **strings, size_t n)
{
    for (size_t i = 0; strings != NULL && i < n; i++)
        free(strings[i]);
    free(strings);
}

static tc_status decode_strings(const wu_array_info *info, const uint32_t *chars, char ***out,
                                tc_err *err)
{
    const size_t n = (size_t)info->shape[0];
    const size_t room = (size_t)info->width * 4 + 1;    /* the longest UTF-8 of one string */
    char **strings = calloc(n + 1, sizeof *strings);
    char *text = malloc(room);
    tc_status status = strings == NULL || text == NULL ? tc_no_memory(err, info->name) : TC_OK;
    for (size_t i = 0; i < n && status == TC_OK; i++) {
        wu_ucs4_to_utf8(chars + i * info->width, info->width, text, room);
        strings[i] = strdup(text);
        if (strings[i] == NULL)
            status = tc_no_memory(err, info->name);
    }
    free(text);
    if (status != TC_OK) {
        wu_free_strings(strings, n);
        strings = NULL;
    }
    *out = strings;
    return status;
}

tc_status wu_load_strings(const wu_result_file *file, const char *name, char ***out, size_t *n,
                          tc_err *err)
{
    *out = NULL;
    *n = 0;
    const long index = wu_npz_find(file->npz, name);
    if (index < 0)
        return tc_fail(err, TC_BAD_INPUT, "%s: the array %s is missing", file->path, name);
    const wu_array_info *info = wu_npz_info(file->npz, (size_t)index);
    if (info->dtype != WU_STR || info->ndim != 1)
        return tc_fail(err, TC_BAD_INPUT, "%s: %s: must be a list of strings", file->path, name);
    void *chars = NULL;
    tc_status status = wu_npz_load(file->npz, (size_t)index, &chars, err);
    if (status == TC_OK)
        status = decode_strings(info, chars, out, err);
    if (status == TC_OK)
        *n = (size_t)info->shape[0];
    free(chars);
    return status;
}

tc_status wu_result_file_open(const char *path, wu_result_file *out, tc_err *err)
{
    *out = (wu_result_file){ .path = path };
    tc_status status = wu_npz_open(path, NULL, &out->npz, err);
    if (status == TC_OK)
        status = wu_load_strings(out, "item_names", &out->item_names, &out->n_items, err);
    for (size_t i = 0; i < out->n_items && status == TC_OK; i++)
        if (!wu_name_ok(out->item_names[i]))
            status = tc_fail(err, TC_BAD_INPUT, "%s: item_names: \"%s\" cannot be an item's name", path,
                             wu_quote(out->item_names[i]).text);
    return status;
}

void wu_result_file_close(wu_result_file *file)
{
    wu_npz_reader_close(&file->npz);
    wu_free_strings(file->item_names, file->n_items);
    *file = (wu_result_file){ 0 };
}

/* --- sorting arrays into tables ------------------------------------------------------------ */

enum { MAX_COLUMNS = 1000000, MAX_ELEMENTS = 16 };

/* Arrays whose name is the prefix, or begins with it and '_', are columns of
 * the table. */
static const struct { const char *prefix, *table; } groups[] = {
    { "region", "regions" },
    { "cell", "cells" },
    { "point", "points" },
    { "score", "points" },
};

/* Tables in the order in which they are shown. */
static const char *const table_names[] = { "features", "items", "regions", "cells", "points" };
enum { TABLES = sizeof table_names / sizeof table_names[0] };

static size_t table_index(const char *name)
{
    size_t i = 0;
    while (strcmp(table_names[i], name) != 0)
        i++;
    return i;
}

/* What the elements of a row are called: the last part of the array's name
 * tells, and how many there are. */
static const char *element_name(const char *array, uint64_t n, size_t element)
{
    static const char *const box2[] = { "y0", "x0", "y1", "x1" };
    static const char *const box3[] = { "z0", "y0", "x0", "z1", "y1", "x1" };
    static const char *const place[] = { "z", "y", "x" };
    const char *last = strrchr(array, '_');
    last = last != NULL ? last + 1 : array;
    if (strcmp(last, "bbox") == 0 && n == 4)
        return box2[element];
    if (strcmp(last, "bbox") == 0 && n == 6)
        return box3[element];
    if ((strcmp(last, "centroid") == 0 || strcmp(last, "point") == 0) && (n == 2 || n == 3))
        return place[element + 3 - n];
    return NULL;
}

/* "region_bbox", 2 to "bbox_y1"; "point", 0 to "y"; "score", 0 to "score". */
static char *column_title(const wu_array_info *info, size_t prefix, size_t element)
{
    const char *own = info->name + prefix;
    if (*own == '_')
        own++;
    const uint64_t n = info->ndim == 2 ? info->shape[1] : 1;
    const size_t room = strlen(info->name) + 32;
    char *title = malloc(room);
    if (title == NULL)
        return NULL;
    const char *part = info->ndim == 2 ? element_name(info->name, n, element) : NULL;
    if (info->ndim == 1)
        snprintf(title, room, "%s", *own != '\0' ? own : info->name);
    else if (part != NULL)
        snprintf(title, room, "%s%s%s", own, *own != '\0' ? "_" : "", part);
    else
        snprintf(title, room, "%s_%zu", *own != '\0' ? own : info->name, element);
    return title;
}

/* Appends a column, which owns the title from then on. */
static tc_status add_column(wu_table *table, wu_column column, tc_err *err)
{
    const size_t n = table->n_columns;
    if (column.title != NULL && (n & (n - 1)) == 0) {
        wu_column *bigger = realloc(table->columns, (n == 0 ? 1 : 2 * n) * sizeof *bigger);
        if (bigger == NULL) {
            free(column.title);
            column.title = NULL;
        } else {
            table->columns = bigger;
        }
    }
    if (column.title == NULL)
        return tc_no_memory(err, "the columns of a table");
    table->columns[table->n_columns++] = column;
    return TC_OK;
}

static tc_status add_array(const wu_result_file *file, wu_table *table, size_t array, tc_err *err)
{
    const wu_array_info *info = wu_npz_info(file->npz, array);
    if (table->n_arrays > 0 && info->shape[0] != table->rows)
        return tc_fail(err, TC_BAD_INPUT, "%s: %s has %" PRIu64 " rows, but %s has %" PRIu64,
                       file->path, info->name, info->shape[0],
                       wu_npz_info(file->npz, table->arrays[0])->name, table->rows);
    size_t *bigger = realloc(table->arrays, (table->n_arrays + 1) * sizeof *bigger);
    if (bigger == NULL)
        return tc_no_memory(err, "a table");
    table->arrays = bigger;
    table->arrays[table->n_arrays++] = array;
    table->rows = info->shape[0];
    return TC_OK;
}

static tc_status add_row_names(wu_table *table, tc_err *err)
{
    return add_column(table, (wu_column){ strdup("item"), WU_COLUMN_ROW_NAME, 0, 0 }, err);
}

/* The columns of one array. Item numbers become the column "item". */
static tc_status add_array_columns(const wu_result_file *file, wu_table *table, size_t array,
                                   size_t prefix, tc_err *err)
{
    const wu_array_info *info = wu_npz_info(file->npz, array);
    tc_status status = add_array(file, table, array, err);
    const size_t n = info->ndim == 2 ? (size_t)info->shape[1] : 1;
    const bool numbers = prefix > 0 && strcmp(info->name + prefix, "_item") == 0 && info->ndim == 1
        && (info->dtype == WU_I64 || info->dtype == WU_I32);
    for (size_t i = 0; i < n && status == TC_OK; i++)
        status = add_column(table, (wu_column){ column_title(info, prefix, i),
                            numbers ? WU_COLUMN_ITEM_NAME : WU_COLUMN_VALUE, table->n_arrays - 1, i },
                            err);
    return status;
}

static tc_status add_features(const wu_result_file *file, wu_table *table, size_t array, tc_err *err)
{
    const wu_array_info *info = wu_npz_info(file->npz, array);
    char **names = NULL;
    size_t n = 0;
    tc_status status = wu_load_strings(file, "feature_names", &names, &n, err);
    if (status == TC_OK && (info->ndim != 2 || info->shape[0] != file->n_items || info->shape[1] != n
                            || n > MAX_COLUMNS || info->dtype != WU_F64))
        status = tc_fail(err, TC_BAD_INPUT, "%s: features: must be float64 of %zu items and %zu features",
                         file->path, file->n_items, n);
    if (status == TC_OK)
        status = add_array(file, table, array, err);
    if (status == TC_OK)
        status = add_row_names(table, err);
    for (size_t i = 0; i < n && status == TC_OK; i++) {
        status = add_column(table, (wu_column){ names[i], WU_COLUMN_VALUE, 0, i }, err);
        names[i] = NULL;
    }
    wu_free_strings(names, n);
    return status;
}

/* Puts an array where it belongs, if it belongs in a table. */
static tc_status place_array(const wu_result_file *file, wu_tables *out, size_t array, tc_err *err)
{
    const wu_array_info *info = wu_npz_info(file->npz, array);
    out->used[array] = true;
    if (strcmp(info->name, "item_names") == 0 || strcmp(info->name, "feature_names") == 0)
        return TC_OK;
    if (strcmp(info->name, "features") == 0)
        return add_features(file, &out->tables[table_index("features")], array, err);
    const bool narrow = info->ndim == 1 || (info->ndim == 2 && info->shape[1] <= MAX_ELEMENTS);
    for (size_t i = 0; narrow && i < sizeof groups / sizeof groups[0]; i++) {
        const size_t n = strlen(groups[i].prefix);
        if (strncmp(info->name, groups[i].prefix, n) == 0 && (info->name[n] == '_' || info->name[n] == '\0'))
            return add_array_columns(file, &out->tables[table_index(groups[i].table)], array, n, err);
    }
    /* `offsets` belongs to the whole result, however many there are. */
    if (narrow && info->shape[0] == file->n_items && strcmp(info->name, "offsets") != 0) {
        wu_table *items = &out->tables[table_index("items")];
        const tc_status status = items->n_columns == 0 ? add_row_names(items, err) : TC_OK;
        return status == TC_OK ? add_array_columns(file, items, array, 0, err) : status;
    }
    out->used[array] = false;
    return TC_OK;
}

static void free_table(wu_table *table)
{
    for (size_t i = 0; i < table->n_columns; i++)
        free(table->columns[i].title);
    free(table->columns);
    free(table->arrays);
}

/* Tables without columns are not kept. */
static void drop_empty(wu_tables *tables)
{
    size_t kept = 0;
    for (size_t i = 0; i < tables->n; i++) {
        if (tables->tables[i].n_columns > 0)
            tables->tables[kept++] = tables->tables[i];
        else
            free_table(&tables->tables[i]);
    }
    tables->n = kept;
}

tc_status wu_tables_find(const wu_result_file *file, wu_tables *out, tc_err *err)
{
    *out = (wu_tables){ 0 };
    const size_t n_arrays = wu_npz_count(file->npz);
    out->tables = calloc(TABLES, sizeof *out->tables);
    out->used = calloc(n_arrays + 1, sizeof *out->used);
    if (out->tables == NULL || out->used == NULL)
        return tc_no_memory(err, "tables");
    out->n = TABLES;
    for (size_t i = 0; i < TABLES; i++)
        out->tables[i].name = table_names[i];
    tc_status status = TC_OK;
    for (size_t i = 0; i < n_arrays && status == TC_OK; i++)
        status = place_array(file, out, i, err);
    drop_empty(out);
    return status;
}

void wu_tables_free(wu_tables *tables)
{
    for (size_t i = 0; i < tables->n; i++)
        free_table(&tables->tables[i]);
    free(tables->tables);
    free(tables->used);
    *tables = (wu_tables){ 0 };
}

/* --- rows ------------------------------------------------------------------------------------ */

static tc_status open_array(wu_cursor *cursor, size_t i, tc_err *err)
{
    struct wu_cursor_array *array = &cursor->arrays[i];
    const size_t index = cursor->table->arrays[i];
    array->info = wu_npz_info(cursor->file->npz, index);
    const uint64_t n = array->info->ndim == 2 ? array->info->shape[1] : 1;
    if (!tc_mul_size((size_t)n, wu_dtype_size(array->info->dtype, array->info->width),
                     &array->row_bytes))
        return tc_fail(err, TC_BAD_INPUT, "%s: %s: a row is too long", cursor->file->path,
                       array->info->name);
    array->data = malloc(array->row_bytes + 1);
    if (array->data == NULL)
        return tc_no_memory(err, array->info->name);
    return wu_npz_stream_open(cursor->file->npz, index, &array->stream, err);
}

tc_status wu_cursor_open(const wu_result_file *file, const wu_table *table, wu_cursor *out,
                         tc_err *err)
{
    *out = (wu_cursor){ .file = file, .table = table };
    out->arrays = calloc(table->n_arrays + 1, sizeof *out->arrays);
    tc_status status = out->arrays == NULL ? tc_no_memory(err, "a table") : TC_OK;
    for (size_t i = 0; i < table->n_arrays && status == TC_OK; i++)
        status = open_array(out, i, err);
    out->row = UINT64_MAX;    /* before the first */
    return status;
}

tc_status wu_cursor_next(wu_cursor *cursor, bool *more, tc_err *err)
{
    cursor->row++;
    *more = cursor->row < cursor->table->rows;
    tc_status status = TC_OK;
    for (size_t i = 0; i < cursor->table->n_arrays && status == TC_OK; i++)
        status = *more ? wu_npz_stream_read(cursor->arrays[i].stream, cursor->arrays[i].data,
                                            cursor->arrays[i].row_bytes, err)
                       : wu_npz_stream_end(cursor->arrays[i].stream, err);
    return status;
}

void wu_cursor_close(wu_cursor *cursor)
{
    for (size_t i = 0; cursor->arrays != NULL && i < cursor->table->n_arrays; i++) {
        wu_npz_stream_close(&cursor->arrays[i].stream);
        free(cursor->arrays[i].data);
    }
    free(cursor->arrays);
    *cursor = (wu_cursor){ 0 };
}

/* C's printf spells these in more than one way. */
static int special_text(double value, char out[WU_CELL_MAX])
{
    if (!isnan(value) && !isinf(value))
        return 0;
    snprintf(out, WU_CELL_MAX, "%s", isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
    return 1;
}

void wu_value_text(const wu_array_info *info, const void *data, char out[WU_CELL_MAX])
{
    union { uint8_t u8; int32_t i32; int64_t i64; float f32; double f64; } value = { 0 };
    if (info->dtype == WU_STR) {
        wu_ucs4_to_utf8(data, info->width, out, WU_CELL_MAX);
        return;
    }
    memcpy(&value, data, wu_dtype_size(info->dtype, 0));
    switch (info->dtype) {
    case WU_BOOL:
    case WU_U8: snprintf(out, WU_CELL_MAX, "%u", value.u8); break;
    case WU_I32: snprintf(out, WU_CELL_MAX, "%" PRId32, value.i32); break;
    case WU_I64: snprintf(out, WU_CELL_MAX, "%" PRId64, value.i64); break;
    case WU_F32:
        if (!special_text((double)value.f32, out))
            snprintf(out, WU_CELL_MAX, "%.9g", (double)value.f32);
        break;
    default:
        if (!special_text(value.f64, out))
            snprintf(out, WU_CELL_MAX, "%.17g", value.f64);
        break;
    }
}

tc_status wu_cursor_text(const wu_cursor *cursor, size_t column, char out[WU_CELL_MAX], tc_err *err)
{
    const wu_column *c = &cursor->table->columns[column];
    const wu_result_file *file = cursor->file;
    if (c->kind == WU_COLUMN_ROW_NAME) {
        snprintf(out, WU_CELL_MAX, "%s", file->item_names[cursor->row]);
        return TC_OK;
    }
    const struct wu_cursor_array *array = &cursor->arrays[c->source];
    const size_t size = wu_dtype_size(array->info->dtype, array->info->width);
    wu_value_text(array->info, array->data + c->element * size, out);
    if (c->kind == WU_COLUMN_VALUE)
        return TC_OK;
    const long long number = strtoll(out, NULL, 10);
    if (number < 0 || (unsigned long long)number >= file->n_items)
        return tc_fail(err, TC_BAD_INPUT, "%s: %s: row %" PRIu64 " is of item %lld, there are %zu items",
                       file->path, array->info->name, cursor->row, number, file->n_items);
    snprintf(out, WU_CELL_MAX, "%s", file->item_names[number]);
    return TC_OK;
}
