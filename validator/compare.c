#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "validator/val.h"
#include "workunits/archive.h"
#include "workunits/result.h"

enum { BLOCK = 1 << 20, SHOWN = 10 };

typedef struct comparison {
    const char *path[2];
    wu_npz_reader *r[2];
    unsigned char *block[2];     /* BLOCK bytes each */
    uint32_t *names;             /* item_names of the first, or NULL */
    uint32_t *features;          /* feature_names of the first, or NULL */
    unsigned shown;
} comparison;

/* --- saying where --------------------------------------------------------------- */

static void print_label(const wu_npz_reader *r, const char *array, const uint32_t *chars, uint64_t index)
{
    const long at = wu_npz_find(r, array);
    const wu_array_info *const info = at < 0 ? NULL : wu_npz_info(r, (size_t)at);
    char text[1024];

    if (chars == NULL || info == NULL || index >= info->shape[0]) {
        printf("%" PRIu64, index);
        return;
    }
    wu_ucs4_to_utf8(chars + index * info->width, info->width, text, sizeof text);
    printf("%s", wu_quote(text).text);
}

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

/* "features[drop_1, glcm_L16_d01_asm_mean]: 0.5 and 0.25" */
static void print_difference(const comparison *c, const wu_array_info *info, uint64_t element,
                             const unsigned char *a, const unsigned char *b)
{
    uint64_t index[WU_MAX_NDIM] = { 0 };
    const long items = wu_npz_find(c->r[0], "item_names");
    const uint64_t n_items = items < 0 ? 0 : wu_npz_info(c->r[0], (size_t)items)->shape[0];

    for (unsigned i = info->ndim; i-- > 0;) {
        index[i] = element % info->shape[i];
        element /= info->shape[i];
    }
    printf("%s[", info->name);
    for (unsigned i = 0; i < info->ndim; i++) {
        if (i > 0)
            printf(", ");
        if (i == 0 && info->shape[0] == n_items && strstr(info->name, "feature_names") == NULL)
            print_label(c->r[0], "item_names", c->names, index[i]);
        else if (i == 1 && strcmp(info->name, "features") == 0)
            print_label(c->r[0], "feature_names", c->features, index[i]);
        else
            printf("%" PRIu64, index[i]);
    }
    printf("]: ");
    print_value(info, a);
    printf(" and ");
    print_value(info, b);
    printf("\n");
}

/* --- comparing ---------------------------------------------------------------------- */

static bool same_info(const wu_array_info *a, const wu_array_info *b)
{
    return strcmp(a->name, b->name) == 0 && a->dtype == b->dtype && a->width == b->width &&
           a->ndim == b->ndim && memcmp(a->shape, b->shape, a->ndim * sizeof a->shape[0]) == 0;
}

static tc_status same_arrays(const comparison *c, tc_err *err)
{
    for (int side = 0; side < 2; side++)
        for (size_t i = 0; i < wu_npz_count(c->r[side]); i++) {
            const char *const name = wu_npz_info(c->r[side], i)->name;

            if (wu_npz_find(c->r[!side], name) < 0)
                return tc_fail(err, TC_NO_MATCH, "%s has no array %s", c->path[!side], name);
        }
    for (size_t i = 0; i < wu_npz_count(c->r[0]); i++) {
        const wu_array_info *const a = wu_npz_info(c->r[0], i);

        if (!same_info(a, wu_npz_info(c->r[1], (size_t)wu_npz_find(c->r[1], a->name))))
            return tc_fail(err, TC_NO_MATCH, "array %s has another shape or type", a->name);
    }
    return TC_OK;
}

static tc_status same_json(const comparison *c, tc_err *err)
{
    const json_t *const a = wu_npz_json(c->r[0]), *const b = wu_npz_json(c->r[1]);
    const char *key;
    json_t *value;

    if (json_equal(a, b))
        return TC_OK;
    json_object_foreach((json_t *)(uintptr_t)a, key, value)
        if (!json_equal(value, json_object_get(b, key)))
            return tc_fail(err, TC_NO_MATCH, "%s: \"%.64s\" differs", WU_RESULT_JSON, key);
    return tc_fail(err, TC_NO_MATCH, "%s: one has keys that the other has not", WU_RESULT_JSON);
}

/* A block of whole elements, read full unless the array ends. */
static tc_status read_block(wu_npz_reader *r, unsigned char *block, size_t want, size_t *got, tc_err *err)
{
    *got = 0;
    while (*got < want) {
        size_t n;
        const tc_status st = wu_npz_stream_read(r, block + *got, want - *got, &n, err);

        if (st != TC_OK)
            return st;
        if (n == 0)
            break;
        *got += n;
    }
    return TC_OK;
}

static void show_differences(comparison *c, const wu_array_info *info, uint64_t first, size_t bytes, size_t size)
{
    for (size_t at = 0; at + size <= bytes && c->shown < SHOWN; at += size) {
        if (memcmp(c->block[0] + at, c->block[1] + at, size) != 0) {
            print_difference(c, info, first + at / size, c->block[0] + at, c->block[1] + at);
            c->shown++;
        }
    }
}

static tc_status compare_array(comparison *c, size_t index, bool *differs, tc_err *err)
{
    const wu_array_info *const info = wu_npz_info(c->r[0], index);
    const size_t other = (size_t)wu_npz_find(c->r[1], info->name);
    const size_t size = wu_dtype_size(info->dtype, info->width);
    const size_t want = size == 0 ? 0 : size > BLOCK ? 0 : BLOCK / size * size;
    uint64_t element = 0;
    size_t got[2];
    tc_status st = wu_npz_stream_begin(c->r[0], index, err);

    if (st == TC_OK)
        st = wu_npz_stream_begin(c->r[1], other, err);
    if (st == TC_OK && want == 0 && size != 0)
        st = tc_fail(err, TC_BAD_INPUT, "%s: array %s: elements of %zu bytes", c->path[0], info->name, size);
    while (st == TC_OK) {
        for (int side = 0; side < 2 && st == TC_OK; side++)
            st = read_block(c->r[side], c->block[side], want == 0 ? 1 : want, &got[side], err);
        if (st != TC_OK || (got[0] == 0 && got[1] == 0))
            break;
        if (got[0] != got[1] || memcmp(c->block[0], c->block[1], got[0]) != 0) {
            *differs = true;
            show_differences(c, info, element, got[0] < got[1] ? got[0] : got[1], size);
            if (c->shown >= SHOWN)
                break;
        }
        element += got[0] / size;
    }
    return st;
}

static void load_names(comparison *c, const char *array, uint32_t **names)
{
    const long at = wu_npz_find(c->r[0], array);
    void *data;

    if (at >= 0 && wu_npz_info(c->r[0], (size_t)at)->dtype == WU_STR &&
        wu_npz_info(c->r[0], (size_t)at)->ndim == 1 &&
        wu_npz_load(c->r[0], (size_t)at, &data, NULL) == TC_OK)
        *names = data;
}

static tc_status compare_open(comparison *c, tc_err *err)
{
    bool differs = false;
    tc_status st = same_json(c, err);

    if (st == TC_OK)
        st = same_arrays(c, err);
    if (st != TC_OK)
        return st;
    load_names(c, "item_names", &c->names);
    load_names(c, "feature_names", &c->features);
    for (size_t i = 0; st == TC_OK && i < wu_npz_count(c->r[0]) && c->shown < SHOWN; i++)
        st = compare_array(c, i, &differs, err);
    if (st == TC_OK && differs)
        st = tc_fail(err, TC_NO_MATCH, "%s and %s differ", c->path[0], c->path[1]);
    return st;
}

tc_status val_compare(const char *a, const char *b, tc_err *err)
{
    comparison c = { .path = { a, b } };
    tc_status st = wu_npz_open(a, 0, &c.r[0], err);

    if (st == TC_OK)
        st = wu_npz_open(b, 0, &c.r[1], err);
    for (int side = 0; side < 2 && st == TC_OK; side++) {
        c.block[side] = malloc(BLOCK);
        if (c.block[side] == NULL)
            st = tc_no_memory(err, "the arrays");
    }
    if (st == TC_OK)
        st = compare_open(&c, err);
    for (int side = 0; side < 2; side++) {
        wu_npz_reader_close(&c.r[side]);
        free(c.block[side]);
    }
    free(c.names);
    free(c.features);
    return st;
}
