/* texcell-validate compare: compares two results, element by element. */
#include <stdlib.h>
#include <string.h>

#include "validator/check/difference.h"
#include "validator/check/val.h"
#include "workunits/format/json_text.h"
#include "workunits/format/archive.h"

enum { BLOCK = 1 << 16 }; /* bytes of an array that are compared at a time */

/* The two results that are compared: element 0 and 1 of each array below. */
typedef struct comparison {
    const char *path[2];
    bool quiet; /* differences are not printed */
    wu_npz_reader *r[2];
    unsigned char *block[2]; /* buffers of BLOCK bytes for the current block of an array */
    val_names names;         /* the names of items and features, read from path[0] */
} comparison;

/* Returns whether two arrays have the same name, type and shape. */
static bool same_info(const wu_array_info *a, const wu_array_info *b)
{
    return strcmp(a->name, b->name) == 0 && a->dtype == b->dtype && a->width == b->width &&
           a->ndim == b->ndim && memcmp(a->shape, b->shape, a->ndim * sizeof a->shape[0]) == 0;
}

/* Checks that both results have the same arrays, with the same types and shapes. */
static tc_status same_arrays(const comparison *c, tc_err *err)
{
    for (int side = 0; side < 2; side++)
        for (size_t i = 0; i < wu_npz_array_count(c->r[side]); i++) {
            const char *const name = wu_npz_array_info(c->r[side], i)->name;

            if (wu_npz_find_array(c->r[!side], name) < 0)
                return tc_fail(err, TC_NO_MATCH, "%s has no array %s", c->path[!side], name);
        }
    for (size_t i = 0; i < wu_npz_array_count(c->r[0]); i++) {
        const wu_array_info *const a = wu_npz_array_info(c->r[0], i);

        if (!same_info(a, wu_npz_array_info(c->r[1], (size_t)wu_npz_find_array(c->r[1], a->name))))
            return tc_fail(err, TC_NO_MATCH, "array %s has another shape or type", a->name);
    }
    return TC_OK;
}

/* Compares the files result.json of both results. */
static tc_status same_json(const comparison *c, tc_err *err)
{
    const json_t *const a = wu_npz_json(c->r[0]), *const b = wu_npz_json(c->r[1]);
    const char *key;
    json_t *value;

    if (wu_json_same(a, b))
        return TC_OK;
    json_object_foreach((json_t *)(uintptr_t)a, key, value)
        if (!wu_json_same(value, json_object_get(b, key)))
            return tc_fail(err, TC_NO_MATCH, "%s: \"%s\" differs", WU_RESULT_JSON,
                           wu_quote(key).text);
    return tc_fail(err, TC_NO_MATCH, "%s: one has keys that the other does not have",
                   WU_RESULT_JSON);
}

/* Prints the differing elements of a block. first: index of the block's first element; size: bytes
 * of an element. If c->quiet is set, prints nothing, and makes the comparison end as if
 * VAL_MAX_SHOWN differences had been printed. */
static void show_differences(comparison *c, const wu_array_info *info, uint64_t first, size_t bytes,
                             size_t size)
{
    if (c->quiet)
        c->names.shown = VAL_MAX_SHOWN;
    for (size_t at = 0; at < bytes && c->names.shown < VAL_MAX_SHOWN; at += size)
        if (memcmp(c->block[0] + at, c->block[1] + at, size) != 0)
            val_show_difference(&c->names, info, VAL_NO_ITEM, first + at / size, c->block[0] + at,
                                c->block[1] + at);
}

/* Compares two arrays of the same type and shape, in blocks of whole elements. */
static tc_status compare_streams(comparison *c, const wu_array_info *info,
                                 wu_npz_stream *const s[2], tc_err *err)
{
    /* Bytes of an element, and of the elements that fit a block. */
    const size_t size = wu_dtype_size(info->dtype, info->width), whole = BLOCK / size * size;
    uint64_t element = 0;

    while (wu_npz_stream_left(s[0]) > 0 && c->names.shown < VAL_MAX_SHOWN) {
        const uint64_t left = wu_npz_stream_left(s[0]);
        const size_t n = left < whole ? (size_t)left : whole;

        return_if_error(wu_npz_stream_read(s[0], c->block[0], n, err));
        return_if_error(wu_npz_stream_read(s[1], c->block[1], n, err));
        if (memcmp(c->block[0], c->block[1], n) != 0)
            show_differences(c, info, element, n, size);
        element += n / size;
    }
    for (int side = 0; side < 2; side++)
        return_if_error(wu_npz_stream_end(s[side], err));
    return TC_OK;
}

static tc_status compare_array(comparison *c, size_t index, tc_err *err)
{
    const wu_array_info *const info = wu_npz_array_info(c->r[0], index);
    wu_npz_stream *s[2] = { NULL, NULL };
    tc_status status = wu_npz_stream_open(c->r[0], index, &s[0], err);

    if (status == TC_OK)
        status =
            wu_npz_stream_open(c->r[1], (size_t)wu_npz_find_array(c->r[1], info->name), &s[1], err);
    if (status == TC_OK)
        status = compare_streams(c, info, s, err);
    wu_npz_stream_close(&s[0]);
    wu_npz_stream_close(&s[1]);
    return status;
}

static tc_status compare_results(comparison *c, tc_err *err)
{
    return_if_error(same_json(c, err));

    return_if_error(same_arrays(c, err));
    for (size_t i = 0; i < wu_npz_array_count(c->r[0]) && c->names.shown < VAL_MAX_SHOWN; i++)
        return_if_error(compare_array(c, i, err));
    if (c->names.shown > 0)
        return tc_fail(err, TC_NO_MATCH, "%s and %s differ", c->path[0], c->path[1]);
    return TC_OK;
}

tc_status val_compare(const char *a, const char *b, bool quiet, tc_err *err)
{
    comparison c = { .path = { a, b }, .quiet = quiet };
    tc_status status = wu_npz_open(a, NULL, &c.r[0], err);

    if (status == TC_OK)
        status = wu_npz_open(b, NULL, &c.r[1], err);
    for (int side = 0; side < 2 && status == TC_OK; side++) {
        c.block[side] = malloc(BLOCK);
        if (c.block[side] == NULL)
            status = tc_no_memory(err, "the arrays");
    }
    c.names.path = a;
    if (status == TC_OK)
        status = compare_results(&c, err);
    val_names_free(&c.names);
    for (int side = 0; side < 2; side++) {
        wu_npz_reader_close(&c.r[side]);
        free(c.block[side]);
    }
    return status;
}
