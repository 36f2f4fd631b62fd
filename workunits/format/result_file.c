/* Reads results: their items, declarations and tables. */
#include "workunits/format/result_file.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "workunits/format/archive.h"
#include "workunits/format/job.h"
#include "workunits/format/result.h"

/* --- the file -------------------------------------------------------------------------------- */

/* Sets file->item_names from the array item_names. info: the array's type and shape; chars: its
 * data, info->width UCS-4 characters for each name. */
static tc_status decode_names(wu_result_file *file, const wu_array_info *info,
                              const uint32_t *chars, tc_err *err)
{
    char text[4 * WU_MAX_NAME + 1]; /* UTF-8 has at most 4 bytes for each character */
    file->item_names = calloc((size_t)info->shape[0] + 1, sizeof *file->item_names);
    if (file->item_names == NULL)
        return tc_no_memory(err, info->name);
    for (; file->n_items < info->shape[0]; file->n_items++) {
        wu_ucs4_to_utf8(chars + file->n_items * info->width, info->width, text, sizeof text);
        if (!wu_is_item_name(text))
            return tc_fail(err, TC_BAD_INPUT, "%s: item_names: \"%s\" cannot be an item's name",
                           file->path, wu_quote(text).text);
        file->item_names[file->n_items] = strdup(text);
        if (file->item_names[file->n_items] == NULL)
            return tc_no_memory(err, info->name);
    }
    return TC_OK;
}

static tc_status read_names(wu_result_file *file, tc_err *err)
{
    const long index = wu_npz_find_array(file->npz, "item_names");
    if (index < 0)
        return tc_fail(err, TC_BAD_INPUT, "%s: the array item_names is missing", file->path);
    const wu_array_info *const info = wu_npz_array_info(file->npz, (size_t)index);
    if (info->dtype != WU_STR || info->ndim != 1 || info->shape[0] > WU_MAX_ITEMS ||
        info->width > WU_MAX_NAME)
        return tc_fail(err, TC_BAD_INPUT, "%s: item_names: must be a list of names", file->path);
    TC_AUTOFREE void *chars = NULL;
    return_if_error(wu_npz_load_array(file->npz, (size_t)index, &chars, err));
    return decode_names(file, info, chars, err);
}

/* Sets file->item_sources. The strings are owned by the parsed result.json. */
static tc_status read_sources(wu_result_file *file, tc_err *err)
{
    const json_t *const list = json_object_get(wu_npz_json(file->npz), "sources");
    if (list == NULL)
        return TC_OK;
    bool good = json_is_array(list) && json_array_size(list) == file->n_items;
    file->item_sources = calloc(file->n_items + 1, sizeof *file->item_sources);
    if (file->item_sources == NULL)
        return tc_no_memory(err, "the sources of items");
    for (size_t i = 0; good && i < file->n_items; i++) {
        const char *const source = json_string_value(json_array_get(list, i));
        good = source != NULL && (source[0] == '\0' || wu_is_text_line(source, WU_MAX_SOURCE));
        file->item_sources[i] = source;
    }
    return good ? TC_OK
                : tc_fail(err, TC_BAD_INPUT,
                          "%s: %s: \"sources\" must be a list of a path for each item", file->path,
                          WU_RESULT_JSON);
}

/* Sets file->item_spacing, if the result has this array. */
static tc_status read_spacing(wu_result_file *file, tc_err *err)
{
    const long index = wu_npz_find_array(file->npz, WU_ITEM_SPACING);
    const wu_array_info *const info =
        index < 0 ? NULL : wu_npz_array_info(file->npz, (size_t)index);
    void *data = NULL;
    if (info == NULL)
        return TC_OK;
    if (info->dtype != WU_F64 || info->ndim != 2 || info->shape[0] != file->n_items ||
        info->shape[1] != 3)
        return tc_fail(err, TC_BAD_INPUT,
                       "%s: " WU_ITEM_SPACING ": must have three numbers for each item",
                       file->path);
    const tc_status status = wu_npz_load_array(file->npz, (size_t)index, &data, err);
    file->item_spacing = data;
    return status;
}

/* Sets the length of an axis whose positions are named by the rows of a WU_KEYS array. Does nothing
 * for other axes. */
static tc_status measure_axis(const wu_result_file *file, wu_axis *axis, tc_err *err)
{
    const long keys = axis->array == NULL ? -1 : wu_npz_find_array(file->npz, axis->array);
    const wu_array_info *const info = keys < 0 ? NULL : wu_npz_array_info(file->npz, (size_t)keys);
    if (axis->array == NULL)
        return TC_OK;
    if (info == NULL || info->ndim != 2 || info->shape[0] < 1 || info->shape[0] > UINT32_MAX)
        return tc_fail(err, TC_BAD_INPUT, "%s: the array %s is missing, or is not a list of keys",
                       file->path, axis->array);
    axis->n = (uint32_t)info->shape[0];
    return TC_OK;
}

static tc_status read_declared(wu_result_file *file, tc_err *err)
{
    const json_t *const json = wu_npz_json(file->npz);
    char where[TC_ERR_MAX];
    if (json_integer_value(json_object_get(json, "version")) != WU_RESULT_FORMAT_VERSION)
        return tc_fail(err, TC_BAD_INPUT, "%s: %s: \"version\" is not %d", file->path,
                       WU_RESULT_JSON, WU_RESULT_FORMAT_VERSION);
    snprintf(where, sizeof where, "%.600s: %s", file->path, WU_RESULT_JSON);
    return_if_error(wu_declarations_read(json_object_get(json, "arrays"), where, &file->declared,
                                         &file->n_declared, err));
    for (size_t i = 0; i < file->n_declared; i++)
        for (unsigned k = 0; k < file->declared[i].n_axes; k++)
            return_if_error(measure_axis(file, &file->declared[i].axes[k], err));
    return TC_OK;
}

tc_status wu_result_file_open(const char *path, const wu_npz_limits *limits, wu_result_file *out,
                              tc_err *err)
{
    *out = (wu_result_file){ .path = path };
    return_if_error(wu_npz_open(path, limits, &out->npz, err));
    return_if_error(read_declared(out, err));
    return_if_error(read_names(out, err));
    return_if_error(read_sources(out, err));
    return read_spacing(out, err);
}

void wu_result_file_close(wu_result_file *file)
{
    for (size_t i = 0; i < file->n_items; i++)
        free(file->item_names[i]);
    free(file->item_names);
    free(file->item_sources);
    free(file->item_spacing);
    wu_declarations_free(file->declared, file->n_declared);
    wu_npz_reader_close(&file->npz);
    *file = (wu_result_file){ 0 };
}

/* --- arrays and their declarations ----------------------------------------------------------- */

/* Whether the array has the type and shape of a picture of this role. */
static bool is_picture_of(const wu_array_info *info, wu_role role)
{
    const wu_dtype dtype = role == WU_MAP ? WU_F32 : role == WU_MASK ? WU_U8 : WU_I32;
    const unsigned n = info->ndim;
    uint64_t voxels = 1;
    if (info->dtype != dtype || (n != 2 && n != 3))
        return false;
    for (unsigned i = 0; i < n; i++) {
        if (info->shape[i] < 1 || info->shape[i] > WU_MAX_SIDE)
            return false;
        voxels *= info->shape[i];
    }
    return voxels <= WU_MAX_VOXELS;
}

/* Whether the array's axes fit the declaration. The first axis may have any length. An array of
 * more than two axes must have the declared lengths after it. An array of two axes must have the
 * product of the declared lengths as its second length, and no declared axis may be named by a
 * WU_KEYS array. */
static bool axes_fit(const wu_array_info *info, const wu_declaration *d)
{
    uint64_t n = 1;
    if (info->ndim > 2 && info->ndim != d->n_axes + 1)
        return false;
    for (unsigned i = 0; i < d->n_axes; i++) {
        const wu_axis *const axis = &d->axes[i];
        if (info->ndim > 2 ? axis->n != info->shape[i + 1] : axis->array != NULL)
            return false;
        n = info->ndim > 2 ? n : n * axis->n;
        if (n > UINT32_MAX)
            return false;
    }
    return info->ndim > 2 ||
           (info->ndim == 2 ? d->n_axes > 0 && info->shape[1] == n : d->n_axes == 0);
}

static bool matches_declaration(const wu_array_info *info, const wu_declaration *d)
{
    if (wu_is_per_item(d))
        return is_picture_of(info, d->role);
    if (d->role == WU_ITEM && info->dtype != WU_I64)
        return false;
    if (d->role == WU_POSITION && info->dtype != WU_F64)
        return false;
    if (d->role == WU_KEYS && (info->dtype != WU_I32 || info->ndim != 2))
        return false;
    return axes_fit(info, d);
}

tc_status wu_find_declared_array(const wu_result_file *file, const wu_declaration *d,
                                 const char *item, size_t *index, tc_err *err)
{
    char name[WU_TITLE_MAX];
    wu_declaration_name(d, item, name, sizeof name);
    const long at = wu_npz_find_array(file->npz, name);
    if (at < 0)
        return tc_fail(err, TC_BAD_INPUT, "%s: the array %s is missing", file->path, name);
    *index = (size_t)at;
    if (!matches_declaration(wu_npz_array_info(file->npz, *index), d))
        return tc_fail(err, TC_BAD_INPUT, "%s: %s: does not have the declared type and shape",
                       file->path, name);
    return TC_OK;
}

const wu_array_info *wu_first_picture(const wu_result_file *file, size_t item)
{
    assert(item < file->n_items);
    size_t index;
    for (size_t i = 0; i < file->n_declared; i++)
        if (wu_is_picture(file->declared[i].role) &&
            wu_find_declared_array(file, &file->declared[i], file->item_names[item], &index,
                                   NULL) == TC_OK)
            return wu_npz_array_info(file->npz, index);
    return NULL;
}

/* --- sorting arrays into tables -------------------------------------------------------------- */

enum { MAX_COLUMNS = 1000000 }; /* the most columns of a table */

/* Whether an array is part of a table: it names one, and its role is one of those up to
 * WU_POSITION. */
static bool is_column(const wu_declaration *d)
{
    return d->table != NULL && d->role <= WU_POSITION;
}

/* Adds an array to the table, which must be the last table made so far. */
static tc_status add_array(const wu_result_file *file, wu_table *table, const wu_table_array *array,
                           tc_err *err)
{
    const uint64_t elements = wu_declaration_elements(array->declared),
                   rows = array->info->shape[0];
    const bool is_item = array->declared->role == WU_ITEM;
    const char *const name = array->info->name;
    if (is_item && table->n_arrays > 0)
        return tc_fail(err, TC_BAD_INPUT, "%s: %s: does not precede the other arrays of its table",
                       file->path, name);
    if (table->n_arrays > 0 && rows != table->rows)
        return tc_fail(err, TC_BAD_INPUT, "%s: %s has %" PRIu64 " rows, but %s has %" PRIu64,
                       file->path, name, rows, table->arrays[0].info->name, table->rows);
    table->has_item_array = table->has_item_array || is_item;
    if (!table->has_item_array && rows != file->n_items)
        return tc_fail(err, TC_BAD_INPUT, "%s: %s has %" PRIu64 " rows, but there are %zu items",
                       file->path, name, rows, file->n_items);
    if (elements > MAX_COLUMNS - table->n_columns)
        return tc_fail(err, TC_BAD_INPUT, "%s: %s: the table has too many columns", file->path,
                       name);
    table->arrays[table->n_arrays++] = *array;
    table->rows = rows;
    table->n_columns += is_item ? 0 : (size_t)elements;
    return TC_OK;
}

/* Returns the index in a spacing (z, y, x) of the axis that a word such as "y" or "x1" names, or -1
 * if the word names no axis. */
static int axis_of(const char *word)
{
    static const char axes[] = "zyx";
    const char *const at = word[0] == '\0' ? NULL : strchr(axes, word[0]);
    return at == NULL || word[1 + strspn(word + 1, "0123456789")] != '\0' ? -1 : (int)(at - axes);
}

/* Returns the factor that converts a value in pixels to micrometres or square micrometres, or NaN
 * if there is none. Sets *power to 1 for a length or position, 2 for an area, 0 for other values.
 * element: index in a row of the array. spacing: z, y, x. */
static double micrometre_factor(const wu_declaration *d, size_t element, const double *spacing,
                                int *power)
{
    const bool is_in_pixels =
        d->unit != NULL && (strcmp(d->unit, "pixel") == 0 || strcmp(d->unit, "voxel") == 0);
    const double y = spacing[1], x = spacing[2];
    *power = 0;
    if (is_in_pixels && d->n_axes == 1 && d->axes[0].words != NULL &&
        axis_of(d->axes[0].words[element]) >= 0) {
        *power = 1;
        return spacing[axis_of(d->axes[0].words[element])];
    }
    if (d->n_axes == 0 && d->unit != NULL && strcmp(d->unit, "pixel^2") == 0) {
        *power = 2;
        return y * x;
    }
    /* A length in pixels of any direction can be converted only if pixels are square. */
    if (d->n_axes == 0 && is_in_pixels && d->unit[0] == 'p') {
        *power = 1;
        return y == x ? y : (double)NAN;
    }
    return NAN;
}

/* The power that micrometre_factor sets for a column. */
static int power_of(const wu_table *table, const wu_column *c)
{
    static const double unit_spacing[3] = { 1, 1, 1 };
    int power;
    (void)micrometre_factor(table->arrays[c->array].declared, c->element, unit_spacing, &power);
    return power;
}

/* Whether the array is "measure": the area of the segmented part of an image in pixels, or its
 * volume in um^3 in a stack. */
static bool is_measure(const wu_declaration *d)
{
    return d->unit == NULL && d->title != NULL && strcmp(d->title, "measure") == 0;
}

/* If the analysis has converted an array's values to micrometres, returns the power in their unit:
 * 1 for um, 2 for um^2, 3 for um^3. Otherwise returns 0. */
static int scaled_power(const wu_table *table, const wu_declaration *d)
{
    static const char *const units[] = { "um", "um^2", "um^3" };
    if (d->unit == NULL)
        return is_measure(d) && !table->flat ? 3 : 0;
    for (int power = 1; power <= 3; power++)
        if (strcmp(d->unit, units[power - 1]) == 0)
            return power;
    return 0;
}

/* Whether the size of the item's voxels is known. */
static bool is_scaled(const wu_result_file *file, size_t item)
{
    return file->item_spacing != NULL && file->item_spacing[3 * item] > 0;
}

static bool is_any_scaled(const wu_result_file *file)
{
    size_t i = 0;
    while (i < file->n_items && !is_scaled(file, i))
        i++;
    return i < file->n_items;
}

/* Whether the array is "voxel_volume" in a result without any known voxel size, where it has no
 * meaning. */
static bool is_meaningless(const wu_table *table, const wu_declaration *d)
{
    return table->in_voxels && d->title != NULL && strcmp(d->title, "voxel_volume") == 0;
}

/* Makes the list of columns. The columns of an array are adjacent: first the elements of a row,
 * then additional columns, in micrometres, for the elements that can be converted. */
static tc_status number_columns(const wu_result_file *file, wu_table *table, tc_err *err)
{
    const size_t n = table->n_columns, most = file->item_spacing != NULL ? 2 * n : n;
    table->n_columns = 0;
    table->columns = calloc(most + 1, sizeof *table->columns);
    if (table->columns == NULL)
        return tc_no_memory(err, "the columns of a table");
    for (size_t i = table->has_item_array; i < table->n_arrays; i++)
        for (int in_um = 0; in_um < (file->item_spacing != NULL ? 2 : 1); in_um++)
            for (size_t k = 0;
                 table->n_columns < most && k < wu_declaration_elements(table->arrays[i].declared);
                 k++) {
                const wu_column column = { i, k, in_um };
                if (in_um ? power_of(table, &column) > 0
                          : !is_meaningless(table, table->arrays[i].declared))
                    table->columns[table->n_columns++] = column;
            }
    return TC_OK;
}

/* Makes the table to which file->declared[first] belongs, from this and later declarations. */
static tc_status make_table(const wu_result_file *file, wu_tables *out, size_t first, tc_err *err)
{
    wu_table *const table = &out->tables[out->n];
    const wu_table *const previous = out->n > 0 ? table - 1 : NULL;
    const wu_array_info *const first_picture = file->n_items > 0 ? wu_first_picture(file, 0) : NULL;
    tc_status status = TC_OK;
    *table = (wu_table){ .name = file->declared[first].table,
                         .in_voxels = !is_any_scaled(file),
                         .flat = first_picture != NULL && first_picture->ndim == 2,
                         .arrays = previous != NULL ? previous->arrays + previous->n_arrays
                                                    : out->arrays };
    for (size_t i = first; i < file->n_declared && status == TC_OK; i++) {
        wu_table_array array = { .declared = &file->declared[i] };
        if (!is_column(array.declared) || strcmp(array.declared->table, table->name) != 0)
            continue;
        return_if_error(wu_find_declared_array(file, array.declared, NULL, &array.index, err));
        array.info = wu_npz_array_info(file->npz, array.index);
        if (array.info->ndim > 2)
            continue;
        status = add_array(file, table, &array, err);
        out->used[array.index] = true;
    }
    if (status == TC_OK && table->n_arrays > 0) {
        out->n++;
        status = number_columns(file, table, err);
    }
    return status;
}

/* Whether the table of this name was made already. */
static bool is_made(const wu_tables *tables, const char *name)
{
    size_t i = 0;
    while (i < tables->n && strcmp(tables->tables[i].name, name) != 0)
        i++;
    return i < tables->n;
}

tc_status wu_tables_find(const wu_result_file *file, wu_tables *out, tc_err *err)
{
    *out = (wu_tables){ 0 };
    out->tables = calloc(file->n_declared + 1, sizeof *out->tables);
    out->arrays = calloc(file->n_declared + 1, sizeof *out->arrays);
    out->used = calloc(wu_npz_array_count(file->npz) + 1, sizeof *out->used);
    if (out->tables == NULL || out->arrays == NULL || out->used == NULL)
        return tc_no_memory(err, "tables");
    out->used[wu_npz_find_array(file->npz, "item_names")] = true;
    if (file->item_spacing != NULL)
        out->used[wu_npz_find_array(file->npz, WU_ITEM_SPACING)] = true;
    for (size_t i = 0; i < file->n_declared; i++) {
        const wu_declaration *const d = &file->declared[i];
        size_t index = 0;
        if (is_column(d) && !is_made(out, d->table))
            return_if_error(make_table(file, out, i, err));
        if (d->role >= WU_TITLES && !wu_is_per_item(d)) {
            return_if_error(wu_find_declared_array(file, d, NULL, &index, err));
            out->used[index] = true;
        }
    }
    return TC_OK;
}

void wu_tables_free(wu_tables *tables)
{
    for (size_t i = 0; tables->tables != NULL && i < tables->n; i++)
        free(tables->tables[i].columns);
    free(tables->tables);
    free(tables->arrays);
    free(tables->used);
    *tables = (wu_tables){ 0 };
}

/* Whether a column's values are in voxels although the declared unit is micrometres. This is so if
 * no voxel size is known. */
static bool is_in_voxels(const wu_table *table, size_t column)
{
    const wu_column *const c = &table->columns[column];
    const wu_declaration *const d = table->arrays[c->array].declared;
    return table->in_voxels && !c->in_um && scaled_power(table, d) > 0;
}

void wu_column_title(const wu_table *table, size_t column, char out[WU_TITLE_MAX])
{
    assert(column < table->n_columns);
    const wu_column *const c = &table->columns[column];
    wu_declaration_title(table->arrays[c->array].declared, c->element, 0, out);
    const size_t n = strlen(out);
    if (c->in_um)
        snprintf(out + n, WU_TITLE_MAX - n, "%s", power_of(table, c) == 2 ? "_um2" : "_um");
    else if (is_in_voxels(table, column)) {
        const size_t end = n > 4 && strcmp(out + n - 4, "_um3") == 0 ? n - 4 : n;
        snprintf(out + end, WU_TITLE_MAX - end, "_voxels");
    }
}

/* Whether an array's values are grey values, for which declarations have no unit. */
static bool is_grey(const wu_declaration *d)
{
    static const char *const titles[] = { "mean",
                                          "threshold",
                                          "intensity_min",
                                          "intensity_max",
                                          "intensity_mean",
                                          "intensity_std",
                                          "intensity_median",
                                          "intensity_percentile",
                                          "intensity_integrated" };
    for (size_t i = 0; d->title != NULL && i < sizeof titles / sizeof *titles; i++)
        if (strcmp(d->title, titles[i]) == 0)
            return d->n_axes == 0 || d->axes[0].numbers != NULL;
    return false;
}

const char *wu_column_unit(const wu_table *table, size_t column)
{
    assert(column < table->n_columns);
    const wu_column *const c = &table->columns[column];
    const wu_declaration *const d = table->arrays[c->array].declared;
    if (c->in_um)
        return power_of(table, c) == 2 ? "um^2" : "um";
    if (is_in_voxels(table, column))
        return scaled_power(table, d) == 2 ? "voxel^2" : "voxel";
    if (is_measure(d))
        return table->flat ? "pixel^2" : "um^3";
    return d->unit == NULL && is_grey(d) ? "grey values" : d->unit;
}

wu_dtype wu_column_dtype(const wu_table *table, size_t column)
{
    assert(column < table->n_columns);
    const wu_column *const c = &table->columns[column];
    return c->in_um ? WU_F64 : table->arrays[c->array].info->dtype;
}

/* --- rows ------------------------------------------------------------------------------------ */

static tc_status open_array(wu_cursor *cursor, size_t i, tc_err *err)
{
    struct wu_cursor_array *const to = &cursor->arrays[i];
    const wu_table_array *const array = &cursor->table->arrays[i];
    if (!tc_mul_size((size_t)wu_declaration_elements(array->declared),
                     wu_dtype_size(array->info->dtype, array->info->width), &to->row_bytes))
        return tc_fail(err, TC_BAD_INPUT, "%s: %s: a row is too long", cursor->file->path,
                       array->info->name);
    to->data = malloc(to->row_bytes + 1);
    if (to->data == NULL)
        return tc_no_memory(err, array->info->name);
    return wu_npz_stream_open(cursor->file->npz, array->index, &to->stream, err);
}

tc_status wu_cursor_open(const wu_result_file *file, const wu_table *table, wu_cursor *out,
                         tc_err *err)
{
    *out = (wu_cursor){ .file = file, .table = table };
    out->arrays = calloc(table->n_arrays + 1, sizeof *out->arrays);
    tc_status status = out->arrays == NULL ? tc_no_memory(err, "a table") : TC_OK;
    for (size_t i = 0; i < table->n_arrays && status == TC_OK; i++)
        status = open_array(out, i, err);
    out->row = UINT64_MAX; /* wu_cursor_next makes this 0 */
    return status;
}

/* Sets cursor->item for the current row. */
static tc_status find_item(wu_cursor *cursor, tc_err *err)
{
    const wu_table *const table = cursor->table;
    int64_t item = (int64_t)cursor->row;
    if (table->has_item_array)
        memcpy(&item, cursor->arrays[0].data, sizeof item);
    if (item < 0 || (uint64_t)item >= cursor->file->n_items)
        return tc_fail(err, TC_BAD_INPUT,
                       "%s: %s: row %" PRIu64 " is of item %" PRId64 ", but there are %zu items",
                       cursor->file->path, table->arrays[0].info->name, cursor->row, item,
                       cursor->file->n_items);
    cursor->item = (size_t)item;
    return TC_OK;
}

bool wu_cursor_next(wu_cursor *cursor, tc_status *status, tc_err *err)
{
    if (*status != TC_OK)
        return false;
    const bool has_row = ++cursor->row < cursor->table->rows;
    for (size_t i = 0; i < cursor->table->n_arrays && *status == TC_OK; i++)
        *status = has_row ? wu_npz_stream_read(cursor->arrays[i].stream, cursor->arrays[i].data,
                                               cursor->arrays[i].row_bytes, err)
                          : wu_npz_stream_end(cursor->arrays[i].stream, err);
    if (*status == TC_OK && has_row)
        *status = find_item(cursor, err);
    return *status == TC_OK && has_row;
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

double wu_value_number(const wu_array_info *info, const void *data)
{
    union {
        uint8_t u8;
        int32_t i32;
        int64_t i64;
        float f32;
        double f64;
    } value = { 0 };
    memcpy(&value, data, wu_dtype_size(info->dtype, 0));
    switch (info->dtype) {
    case WU_BOOL:
    case WU_U8: return value.u8;
    case WU_I32: return value.i32;
    case WU_I64: return (double)value.i64;
    case WU_F32: return (double)value.f32;
    case WU_F64: return value.f64;
    default: return NAN;
    }
}

const void *wu_cursor_value(wu_cursor *cursor, size_t column, const wu_array_info **info)
{
    assert(cursor->row < cursor->table->rows && column < cursor->table->n_columns);
    static const wu_array_info f64 = { .dtype = WU_F64 };
    static const double unknown = NAN;
    const wu_column *const c = &cursor->table->columns[column];
    const wu_table_array *const array = &cursor->table->arrays[c->array];
    const void *const data = cursor->arrays[c->array].data +
                             c->element * wu_dtype_size(array->info->dtype, array->info->width);
    int power;
    *info = array->info;
    if (!c->in_um && !cursor->table->in_voxels && array->info->dtype == WU_F64 &&
        scaled_power(cursor->table, array->declared) > 0 && !is_scaled(cursor->file, cursor->item))
        return &unknown;
    if (!c->in_um)
        return data;
    *info = &f64;
    cursor->um = wu_value_number(array->info, data) *
                 micrometre_factor(array->declared, c->element,
                                   cursor->file->item_spacing + 3 * cursor->item, &power);
    return &cursor->um;
}

typedef unsigned __int128 u128;

/* Writes the number digits / 10^decimals as text, without zeros at the end of its fraction. */
static void put_decimal(uint64_t digits, int decimals, bool negative, char *out)
{
    char text[32] = "";
    int n = 0;
    for (; decimals > 0 && digits % 10 == 0; decimals--)
        digits /= 10;
    for (; digits > 0 || n <= decimals; digits /= 10)
        text[n++] = (char)('0' + digits % 10);
    if (negative)
        *out++ = '-';
    while (n > 0) {
        *out++ = text[--n];
        if (n == decimals && n > 0)
            *out++ = '.';
    }
    *out = '\0';
}

/* Writes the same text as put_shortest, but by integer arithmetic, which is faster. Returns false
 * and writes nothing for some numbers: very small and large ones, which %g may write with an
 * exponent, 0, fractions that are powers of 2, and numbers for which no decimal is found. is_float:
 * whether the number is a float, not a double. */
static bool put_plain(double number, bool is_float, char *out)
{
    static const double tens[] = { 1e-3, 1e-2, 1e-1, 1e0, 1e1,  1e2,  1e3,  1e4,  1e5,
                                   1e6,  1e7,  1e8,  1e9, 1e10, 1e11, 1e12, 1e13, 1e14 };
    const double size = fabs(number);
    const int bits = is_float ? 24 : 53; /* of the mantissa */
    /* The number of decimals with which a number from 1e-4 on has 6 or 15 significant digits; it is
     * reduced below for larger numbers. */
    int power, decimals = (is_float ? 6 : 15) + 3;
    if (!(size < (is_float ? 1e5 : 1e14)) || size < 2e-4) /* also excludes 0 and -0 */
        return false;
    if (size >= 1 && size <= floor(size)) { /* an integer */
        put_decimal((uint64_t)size, 0, signbit(number), out);
        return true;
    }
    for (size_t i = 0; size >= tens[i]; i++)
        decimals--;
    /* The number is mantissa / 2^shift. A decimal is read as the same number if it differs from it
     * by less than half of 1 / 2^shift, or by exactly half if the mantissa is even. */
    const uint64_t mantissa = (uint64_t)ldexp(frexp(size, &power), bits);
    const int shift = bits - power;
    u128 ten = 1;
    /* Below a power of 2, numbers are closer to each other than above it. */
    if (mantissa == UINT64_C(1) << (bits - 1))
        return false;
    for (int i = 0; i < decimals; i++)
        ten *= 10;
    /* Tries 6, 7, 8 and 9 digits for a float, 15, 16 and 17 for a double. ten: 10^decimals. */
    for (int extra = 0; extra < (is_float ? 4 : 3); extra++, decimals++, ten *= 10) {
        const u128 exact = mantissa * ten, half = (u128)1 << (shift - 1);
        u128 digits = exact >> shift; /* rounded to the nearest integer below, halves to even */
        const u128 rest = exact - (digits << shift);
        digits += rest > half || (rest == half && (digits & 1) == 1);
        /* error: of the decimal, in units of 1 / (10^decimals 2^shift) */
        const u128 read = digits << shift, error = read > exact ? read - exact : exact - read;
        if (2 * error < ten || (2 * error == ten && mantissa % 2 == 0)) {
            put_decimal((uint64_t)digits, decimals, signbit(number), out);
            return true;
        }
    }
    return false;
}

/* Writes the number with the fewest digits that are read as the same number. Need not try fewer
 * than 15 digits (6 for floats): a shorter decimal survives the conversion to binary, and %g with
 * 15 digits prints it without the zeros at its end. */
static void put_shortest(double number, bool is_float, char out[WU_CELL_MAX])
{
    const int most = is_float ? 9 : 17;
    if (put_plain(number, is_float, out))
        return;
    for (int digits = is_float ? 6 : 15; digits <= most; digits++) {
        snprintf(out, WU_CELL_MAX, "%.*g", digits, number);
        const double back = is_float ? (double)strtof(out, NULL) : strtod(out, NULL);
        if (back >= number && back <= number)
            return;
    }
}

void wu_value_text(const wu_array_info *info, const void *data, char out[WU_CELL_MAX])
{
    const double number = info->dtype == WU_STR ? 0 : wu_value_number(info, data);
    int64_t exact;
    if (info->dtype == WU_STR) {
        wu_ucs4_to_utf8(data, info->width, out, WU_CELL_MAX);
    } else if (info->dtype == WU_I64) {
        memcpy(&exact, data, sizeof exact);
        put_decimal(exact < 0 ? -(uint64_t)exact : (uint64_t)exact, 0, exact < 0, out);
    } else if (isnan(number) || isinf(number)) { /* printf's text for these depends on the system */
        snprintf(out, WU_CELL_MAX, "%s", isnan(number) ? "nan" : number > 0 ? "inf" : "-inf");
    } else {
        put_shortest(number, info->dtype == WU_F32, out);
    }
}

double wu_cursor_number(wu_cursor *cursor, size_t column)
{
    const wu_array_info *info;
    const void *const data = wu_cursor_value(cursor, column, &info);
    return wu_value_number(info, data);
}

void wu_cursor_text(wu_cursor *cursor, size_t column, char out[WU_CELL_MAX])
{
    const wu_array_info *info;
    const void *const data = wu_cursor_value(cursor, column, &info);
    wu_value_text(info, data, out);
}
