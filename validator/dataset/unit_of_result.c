/*
 * A work unit without pictures, as a result describes it. BOINC's assimilator
 * hands over the result alone; its own words about itself must still fit
 * together, and with its arrays.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "validator/dataset/dataset.h"

typedef struct reading {
    const char *path;
    const wu_npz_reader *r;
    const json_t *json;
} reading;

static tc_status bad_key(const reading *in, const char *key, tc_err *err)
{
    return tc_fail(err, TC_BAD_INPUT, "%s: %s: \"%s\" is not as it should be", in->path, WU_RESULT_JSON, key);
}

static tc_status read_identity(const reading *in, wu_job *job, tc_err *err)
{
    const json_t *const of = json_object_get(in->json, "workunit"), *const size = json_object_get(of, "size");
    const char *const crc = json_string_value(json_object_get(of, "crc32"));

    if (crc == NULL || strlen(crc) != 8 || strspn(crc, "0123456789abcdef") != 8 || !json_is_integer(size) ||
        json_integer_value(size) < 0)
        return bad_key(in, "workunit", err);
    job->file_crc = (uint32_t)strtoul(crc, NULL, 16);
    job->file_size = (uint64_t)json_integer_value(size);
    return TC_OK;
}

/* An array of one item: the first by name among labels, mask and the first of
 * the maps that were asked for. */
static const wu_array_info *own_array(const reading *in, const char *item)
{
    const json_t *const map = json_array_get(json_object_get(json_object_get(in->json, "parameters"), "maps"), 0);
    const json_t *const offset = json_object_get(map, "offset");
    const char *const feature = json_string_value(json_object_get(map, "feature"));
    char names[3][WU_MAX_NAME + 128];

    snprintf(names[0], sizeof names[0], "labels_%s", item);
    snprintf(names[1], sizeof names[1], "mask_%s", item);
    snprintf(names[2], sizeof names[2], "map_%s_%.32s_L%lld_%lld_%lld", item, feature != NULL ? feature : "",
             (long long)json_integer_value(json_object_get(map, "levels")),
             (long long)json_integer_value(json_array_get(offset, 0)),
             (long long)json_integer_value(json_array_get(offset, 1)));
    for (size_t i = 0; i < 3; i++) {
        const long at = wu_npz_find(in->r, names[i]);

        if (at >= 0)
            return wu_npz_info(in->r, (size_t)at);
    }
    return NULL;
}

/* How large the pictures were, where an array tells; else as large as may be. */
static void guess_size(const reading *in, wu_item *item)
{
    const wu_array_info *const own = own_array(in, item->name);
    const long at = wu_npz_find(in->r, "point");
    const wu_array_info *const point = at < 0 ? NULL : wu_npz_info(in->r, (size_t)at);

    item->is_stack = own != NULL ? own->ndim == 3 : point != NULL && point->ndim == 2 && point->shape[1] == 3;
    item->nx = item->ny = WU_MAX_SIDE;
    item->nz = item->is_stack ? WU_MAX_SIDE : 1;
    item->bits = 16;
    item->channels = 1;
    item->n_images = item->nz;
    item->spacing[0] = item->spacing[1] = item->spacing[2] = 1;
    if (own == NULL || own->ndim < 2)
        return;
    /* What does not fit 32 bits becomes 0, and then differs from the array. */
    item->nx = own->shape[own->ndim - 1] <= WU_MAX_SIDE ? (uint32_t)own->shape[own->ndim - 1] : 0;
    item->ny = own->shape[own->ndim - 2] <= WU_MAX_SIDE ? (uint32_t)own->shape[own->ndim - 2] : 0;
    if (item->is_stack)
        item->nz = own->shape[0] <= WU_MAX_SIDE ? (uint32_t)own->shape[0] : 0;
}

static tc_status read_items(const reading *in, wu_job *job, tc_err *err)
{
    const json_t *const items = json_object_get(in->json, "items");
    const size_t n = json_array_size(items);
    json_t *const seen = json_object();
    tc_status st = n < 1 || n > WU_MAX_ITEMS ? bad_key(in, "items", err) : TC_OK;

    job->items = st == TC_OK ? calloc(n, sizeof *job->items) : NULL;
    if (st == TC_OK && (job->items == NULL || seen == NULL))
        st = tc_no_memory(err, in->path);
    for (size_t i = 0; st == TC_OK && i < n; i++) {
        const char *const name = json_string_value(json_array_get(items, i));

        if (name == NULL || !wu_name_ok(name) || json_object_get(seen, name) != NULL)
            st = bad_key(in, "items", err);
        else if ((job->items[i].name = strdup(name)) == NULL || json_object_set_new(seen, name, json_true()) != 0)
            st = tc_no_memory(err, in->path);
        job->n_items = st == TC_OK || job->items[i].name != NULL ? i + 1 : i;
        if (st == TC_OK)
            guess_size(in, &job->items[i]);
    }
    json_decref(seen);
    return st;
}

static tc_status read_all(const reading *in, an_unit *out, tc_err *err)
{
    const char *const analysis = json_string_value(json_object_get(in->json, "analysis"));
    const json_t *const parameters = json_object_get(in->json, "parameters");
    char where[TC_ERR_MAX];
    tc_status st = read_identity(in, out->job, err);

    if (st != TC_OK)
        return st;
    out->analysis = analysis == NULL ? NULL : an_find(analysis);
    if (out->analysis == NULL)
        return tc_fail(err, TC_BAD_INPUT, "%s: %s: \"analysis\" is none that is known to this version", in->path,
                       WU_RESULT_JSON);
    if (!json_is_object(parameters))
        return bad_key(in, "parameters", err);
    out->job->analysis = strdup(analysis);
    if (out->job->analysis == NULL)
        return tc_no_memory(err, in->path);
    snprintf(where, sizeof where, "%.600s: " WU_RESULT_JSON ": parameters", in->path);
    st = an_parse(out->analysis, parameters, where, &out->params, err);
    return st == TC_OK ? read_items(in, out->job, err) : st;
}

tc_status val_unit_of_result(const char *result, an_unit *out, tc_err *err)
{
    wu_npz_reader *r = NULL;
    reading in = { .path = result };
    tc_status st = wu_npz_open(result, &(wu_npz_limits){ .canonical = true }, &r, err);

    *out = (an_unit){ .job = NULL };
    if (st != TC_OK)
        return st;
    in.r = r;
    in.json = wu_npz_json(r);
    out->job = calloc(1, sizeof *out->job);
    st = out->job == NULL ? tc_no_memory(err, result) : read_all(&in, out, err);
    wu_npz_reader_close(&r);
    if (st != TC_OK)
        an_unit_free(out);
    return st;
}
