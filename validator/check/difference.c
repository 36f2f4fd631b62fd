#include "validator/check/difference.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "workunits/format/archive.h"

/* Names that are longer together are not loaded: 100,000 items of 128 characters. */
#define MAX_NAMES ((uint64_t)64 << 20)

/* --- names ----------------------------------------------------------------------- */

static const wu_array_info *info_of(const val_names *n, const char *array)
{
    const long at = wu_npz_find(n->r, array);

    return at < 0 ? NULL : wu_npz_info(n->r, (size_t)at);
}

static uint32_t *load_names(const val_names *n, const char *array)
{
    const wu_array_info *const info = info_of(n, array);
    int ok = 0;
    void *data = NULL;

    if (info == NULL || info->dtype != WU_STR || info->ndim != 1 || wu_array_bytes(info, &ok) > MAX_NAMES || !ok ||
        wu_npz_load(n->r, (size_t)wu_npz_find(n->r, array), &data, NULL) != TC_OK)
        return NULL;
    return data;
}

void val_names_free(val_names *names)
{
    free(names->items);
    free(names->features);
    *names = (val_names){ .r = NULL };
}

static void print_name(const val_names *n, const char *array, const uint32_t *chars, uint64_t index)
{
    const wu_array_info *const info = info_of(n, array);
    char text[1024];

    if (chars == NULL || index >= info->shape[0]) {
        printf("%" PRIu64, index);
        return;
    }
    wu_ucs4_to_utf8(chars + index * info->width, info->width, text, sizeof text);
    printf("%s", wu_quote(text).text);
}

/* --- items of rows ------------------------------------------------------------------- */

static bool begins(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* The array that tells the items of a table's rows, for an array of the table. */
static const char *item_column(const char *array)
{
    return begins(array, "region_") ? "region_item" : begins(array, "cell_") ? "cell_item"
         : begins(array, "point") || begins(array, "score") ? "point_item" : NULL;
}

/* Arrays whose first axis has nothing to do with items: their name says whose they are. */
static bool has_own_axis(const char *array)
{
    return begins(array, "labels_") || begins(array, "mask_") || begins(array, "map_") ||
           begins(array, "feature_names") || begins(array, "offsets");
}

/* One element of a column of integers; VAL_NO_ITEM if there is none. */
static uint64_t element_of(const val_names *n, const char *column, uint64_t row)
{
    const wu_array_info *const info = info_of(n, column);
    wu_npz_stream *stream = NULL;
    int64_t skipped[1024], value = -1;
    tc_status st;

    if (info == NULL || info->dtype != WU_I64 || info->ndim != 1 || row >= info->shape[0])
        return VAL_NO_ITEM;
    st = wu_npz_stream_open(n->r, (size_t)wu_npz_find(n->r, column), &stream, NULL);
    while (st == TC_OK && row > 0) {
        const uint64_t part = row < 1024 ? row : 1024;

        st = wu_npz_stream_read(stream, skipped, (size_t)part * sizeof value, NULL);
        row -= part;
    }
    if (st == TC_OK)
        st = wu_npz_stream_read(stream, &value, sizeof value, NULL);
    wu_npz_stream_close(&stream);
    return st == TC_OK && value >= 0 ? (uint64_t)value : VAL_NO_ITEM;
}

/* --- printing ---------------------------------------------------------------------------- */

static void print_value(const wu_array_info *info, const unsigned char *p)
{
    char text[256];
    int64_t i64;
    int32_t i32;
    double f64;
    float f32;

    switch (info->dtype) {
    case WU_BOOL:
    case WU_U8: printf("%u", (unsigned)*p); break;
    case WU_I32: memcpy(&i32, p, sizeof i32); printf("%" PRId32, i32); break;
    case WU_I64: memcpy(&i64, p, sizeof i64); printf("%" PRId64, i64); break;
    case WU_F32: memcpy(&f32, p, sizeof f32); printf("%.9g", (double)f32); break;
    case WU_F64: memcpy(&f64, p, sizeof f64); printf("%.17g", f64); break;
    case WU_STR:
        wu_ucs4_to_utf8((const uint32_t *)(const void *)p, info->width, text, sizeof text);
        printf("\"%s\"", wu_quote(text).text);
        break;
    }
}

/* The row's item: itself in an array of one row per item, and what its table
 * says in a table. */
static uint64_t item_of(const val_names *n, const wu_array_info *info, uint64_t row)
{
    const wu_array_info *const items = info_of(n, "item_names");
    const char *const column = item_column(info->name);

    if (column != NULL)
        return element_of(n, column, row);
    return items != NULL && info->shape[0] == items->shape[0] ? row : VAL_NO_ITEM;
}

/* "NAME[ITEM, INDEX, ...]"; a row of a table is "NAME[ITEM, row ROW, ...]". */
static void print_place(const val_names *n, const wu_array_info *info, uint64_t item, uint64_t element)
{
    uint64_t index[WU_MAX_NDIM] = { 0 };

    for (unsigned i = info->ndim; i-- > 0;) {
        index[i] = element % info->shape[i];
        element /= info->shape[i];
    }
    if (has_own_axis(info->name))
        item = VAL_NO_ITEM;
    else if (item == VAL_NO_ITEM)
        item = item_of(n, info, index[0]);
    printf("%s[", info->name);
    if (item != VAL_NO_ITEM)
        print_name(n, "item_names", n->items, item);
    if (item_column(info->name) != NULL || item == VAL_NO_ITEM)
        printf("%s%" PRIu64, item == VAL_NO_ITEM ? "" : ", row ", index[0]);
    for (unsigned i = 1; i < info->ndim; i++) {
        printf(", ");
        if (i == 1 && strcmp(info->name, "features") == 0)
            print_name(n, "feature_names", n->features, index[i]);
        else
            printf("%" PRIu64, index[i]);
    }
    printf("]: ");
}

void val_show_difference(val_names *names, const wu_array_info *info, uint64_t item, uint64_t element,
                         const void *a, const void *b)
{
    if (names->shown++ >= VAL_SHOWN)
        return;
    if (!names->loaded) {
        names->items = load_names(names, "item_names");
        names->features = load_names(names, "feature_names");
        names->loaded = true;
    }
    print_place(names, info, item, element);
    print_value(info, a);
    printf(" and ");
    print_value(info, b);
    printf("\n");
}
