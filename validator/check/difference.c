/* Prints the elements in which two results differ, with the names of array, item and feature. */
#include "validator/check/difference.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "app/base/text.h"
#include "workunits/format/archive.h"

void val_names_free(val_names *names)
{
    wu_result_file_close(&names->file);
    *names = (val_names){ .path = NULL };
}

/* --- the item of a table's row ---------------------------------------------------------------- */

/* Returns the declaration of an array that is part of a table, or NULL if the array is not declared
 * or belongs to no table. */
static const wu_declaration *declared_of(const val_names *n, const char *array)
{
    for (size_t i = 0; i < n->file.n_declared; i++) {
        const wu_declaration *const d = &n->file.declared[i];

        if (strcmp(d->name, array) == 0)
            return d->role <= WU_POSITION && d->table != NULL ? d : NULL;
    }
    return NULL;
}

/* Returns the name of the array that holds the item's index for each row of d's table, or NULL. */
static const char *item_column(const val_names *n, const wu_declaration *d)
{
    for (size_t i = 0; d != NULL && i < n->file.n_declared; i++) {
        const wu_declaration *const other = &n->file.declared[i];

        if (other->role == WU_ITEM && strcmp(other->table, d->table) == 0)
            return other->name;
    }
    return NULL;
}

/* Returns the element `row` of the int64 array `column`, or VAL_NO_ITEM if there is none or it is
 * negative. */
static uint64_t element_of(const val_names *n, const char *column, uint64_t row)
{
    const long at = wu_npz_find_array(n->file.npz, column);
    const wu_array_info *const info = at < 0 ? NULL : wu_npz_array_info(n->file.npz, (size_t)at);
    wu_npz_stream *stream = NULL;
    int64_t skipped[1024], value = -1; /* the elements before `row`; the element */
    tc_status status;

    if (info == NULL || info->dtype != WU_I64 || info->ndim != 1 || row >= info->shape[0])
        return VAL_NO_ITEM;
    status = wu_npz_stream_open(n->file.npz, (size_t)at, &stream, NULL);
    while (status == TC_OK && row > 0) {
        const uint64_t part = row < 1024 ? row : 1024;

        status = wu_npz_stream_read(stream, skipped, (size_t)part * sizeof value, NULL);
        row -= part;
    }
    if (status == TC_OK)
        status = wu_npz_stream_read(stream, &value, sizeof value, NULL);
    wu_npz_stream_close(&stream);
    return status == TC_OK && value >= 0 ? (uint64_t)value : VAL_NO_ITEM;
}

/* --- printing -------------------------------------------------------------------------------- */

static void print_value(const wu_array_info *info, const void *p)
{
    char text[WU_CELL_MAX];

    wu_value_text(info, p, text);
    if (info->dtype == WU_STR)
        printf("\"%s\"", wu_quote(text).text);
    else
        printf("%s", text);
}

/* Prints the place of an element as "ARRAY[ITEM, INDEX, ...]: ", or, if a table may have several
 * rows for an item, as "ARRAY[ITEM, row ROW, ...]: ". If the second index selects a feature, the
 * feature's title is printed in place of the index. */
static void print_place(const val_names *n, const wu_array_info *info, uint64_t item,
                        uint64_t element)
{
    const wu_declaration *const d = declared_of(n, info->name);
    const char *const column = item_column(n, d);
    uint64_t index[WU_MAX_NDIM] = { 0 };
    char title[WU_TITLE_MAX];

    for (unsigned i = info->ndim; i-- > 0;) {
        index[i] = element % info->shape[i];
        element /= info->shape[i];
    }
    if (d == NULL)
        item = VAL_NO_ITEM;
    else if (item == VAL_NO_ITEM)
        item = column != NULL ? element_of(n, column, index[0]) : index[0];
    printf("%s[", info->name);
    if (item < n->file.n_items)
        printf("%s", n->file.item_names[item]);
    if (item >= n->file.n_items || column != NULL)
        printf("%s%" PRIu64, item < n->file.n_items ? ", row " : "", index[0]);
    for (unsigned i = 1; i < info->ndim; i++) {
        snprintf(title, sizeof title, "%" PRIu64, index[i]);
        if (d != NULL && info->ndim == 2 && wu_declaration_elements(d) == info->shape[1])
            wu_declaration_title(d, index[i], 0, title);
        printf(", %s", tc_make_printable(title));
    }
    printf("]: ");
}

void val_show_difference(val_names *names, const wu_array_info *info, uint64_t item,
                         uint64_t element, const void *a, const void *b)
{
    assert(names->path != NULL && info->ndim > 0);
    if (names->shown++ >= VAL_MAX_SHOWN)
        return;
    if (!names->loaded && wu_result_file_open(names->path, NULL, &names->file, NULL) != TC_OK)
        wu_result_file_close(&names->file);
    names->loaded = true;
    print_place(names, info, item, element);
    print_value(info, a);
    printf(" and ");
    print_value(info, b);
    printf("\n");
}
