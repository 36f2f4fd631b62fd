#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/analysis.h"
#include "validator/val.h"

typedef struct checking {
    const char *path;            /* of the result */
    wu_job *job;
    const an_analysis *analysis;
    void *params;
    wu_npz_reader *r;
    bool *known;                 /* [arrays of r]: expected, and found right */
} checking;

/* --- result.json ------------------------------------------------------------------- */

static tc_status differs(const checking *c, const char *key, tc_err *err)
{
    return tc_fail(err, TC_BAD_INPUT, "%s: %s: \"%s\" is not that of the work unit", c->path, WU_RESULT_JSON, key);
}

static tc_status check_json(const checking *c, tc_err *err)
{
    const json_t *const json = wu_npz_json(c->r);
    json_t *const parameters = c->analysis->params_json(c->params);
    char crc[16];
    json_t *unit, *items = json_array();
    tc_status st = TC_OK;

    snprintf(crc, sizeof crc, "%08x", (unsigned)c->job->file_crc);
    unit = json_pack("{s:s,s:I}", "crc32", crc, "size", (json_int_t)c->job->file_size);
    for (size_t i = 0; i < c->job->n_items; i++)
        json_array_append_new(items, json_string(c->job->items[i].name));
    if (parameters == NULL || unit == NULL || json_array_size(items) != c->job->n_items)
        st = tc_no_memory(err, WU_RESULT_JSON);
    else if (json_object_size(json) != 6)
        st = tc_fail(err, TC_BAD_INPUT, "%s: %s: has %zu keys, not 6", c->path, WU_RESULT_JSON, json_object_size(json));
    else if (strcmp(WU_RESULT_FORMAT_NAME, json_is_string(json_object_get(json, "format"))
                    ? json_string_value(json_object_get(json, "format")) : "") != 0)
        st = tc_fail(err, TC_BAD_INPUT, "%s: is not a texcell result", c->path);
    else if (json_integer_value(json_object_get(json, "version")) != WU_RESULT_FORMAT_VERSION)
        st = tc_fail(err, TC_BAD_INPUT, "%s: is of an unknown version of the format", c->path);
    else if (strcmp(c->analysis->name, json_is_string(json_object_get(json, "analysis"))
                    ? json_string_value(json_object_get(json, "analysis")) : "") != 0)
        st = differs(c, "analysis", err);
    else if (!json_equal(unit, json_object_get(json, "workunit")))
        st = differs(c, "workunit", err);
    else if (!json_equal(parameters, json_object_get(json, "parameters")))
        st = differs(c, "parameters", err);
    else if (!json_equal(items, json_object_get(json, "items")))
        st = differs(c, "items", err);
    json_decref(parameters);
    json_decref(unit);
    json_decref(items);
    return st;
}

/* --- arrays ---------------------------------------------------------------------------- */

static tc_status find_array(const checking *c, const wu_array_info *want, size_t *index, tc_err *err)
{
    const long at = wu_npz_find(c->r, want->name);
    const wu_array_info *info;

    if (at < 0)
        return tc_fail(err, TC_BAD_INPUT, "%s: has no array %s", c->path, want->name);
    info = wu_npz_info(c->r, (size_t)at);
    if (info->dtype != want->dtype || info->width != want->width || info->ndim != want->ndim)
        return tc_fail(err, TC_BAD_INPUT, "%s: array %s: is of a wrong type", c->path, want->name);
    for (unsigned d = 0; d < want->ndim; d++)
        if (want->shape[d] != AN_ANY_LENGTH && info->shape[d] != want->shape[d])
            return tc_fail(err, TC_BAD_INPUT, "%s: array %s: axis %u has %llu entries, not %llu", c->path, want->name,
                           d, (unsigned long long)info->shape[d], (unsigned long long)want->shape[d]);
    *index = (size_t)at;
    return TC_OK;
}

static tc_status check_same(const checking *c, size_t index, const void *want, tc_err *err)
{
    const wu_array_info *const info = wu_npz_info(c->r, index);
    int ok;
    const uint64_t bytes = wu_array_bytes(info, &ok);
    void *data;
    tc_status st = wu_npz_load(c->r, index, &data, err);

    if (st != TC_OK)
        return st;
    if (!ok || memcmp(data, want, (size_t)bytes) != 0)
        st = tc_fail(err, TC_BAD_INPUT, "%s: array %s: is not what the work unit gives", c->path, info->name);
    free(data);
    return st;
}

/* item_names, as wu_result_write makes it: as wide as the longest name. */
static tc_status check_item_names(const checking *c, tc_err *err)
{
    wu_output names = { 0, NULL };
    const uint64_t n = c->job->n_items;
    size_t width = 1, index = 0;
    uint32_t *chars;
    void *data;
    tc_status st;

    for (size_t i = 0; i < c->job->n_items; i++)
        width = strlen(c->job->items[i].name) > width ? strlen(c->job->items[i].name) : width;
    st = wu_output_add(&names, WU_ONCE, "item_names", WU_STR, (uint32_t)width, 1, &n, &data, err);
    if (st != TC_OK)
        return st;
    chars = data;
    for (size_t i = 0; i < c->job->n_items; i++)
        wu_utf8_to_ucs4(c->job->items[i].name, chars + i * width, (uint32_t)width);
    st = find_array(c, &names.arrays[0].info, &index, err);
    if (st == TC_OK)
        st = check_same(c, index, data, err);
    if (st == TC_OK)
        c->known[index] = true;
    wu_output_free(&names);
    return st;
}

/* The arrays of WU_ONCE are the same for everyone. */
static tc_status check_constants(const checking *c, tc_err *err)
{
    wu_output once = { 0, NULL };
    tc_status st = c->analysis->constants(c->params, &once, err);

    for (size_t i = 0; st == TC_OK && i < once.n; i++) {
        size_t index;

        st = find_array(c, &once.arrays[i].info, &index, err);
        if (st == TC_OK)
            st = check_same(c, index, once.arrays[i].data, err);
        if (st == TC_OK)
            c->known[index] = true;
    }
    wu_output_free(&once);
    return st;
}

/* Arrays that the analysis announces, and what it says of their values. */
static tc_status check_expected(const checking *c, tc_err *err)
{
    an_expected *list = NULL;
    size_t n = 0;
    tc_status st = c->analysis->expect(c->params, c->job, &list, &n, err);

    for (size_t i = 0; st == TC_OK && i < n; i++) {
        size_t index;
        void *data;

        st = find_array(c, &list[i].info, &index, err);
        if (st != TC_OK)
            break;
        c->known[index] = true;
        st = wu_npz_load(c->r, index, &data, err);
        if (st != TC_OK)
            break;
        if (list[i].check != NULL) {
            tc_err why;

            st = list[i].check(c->params, wu_npz_info(c->r, index), data, &why);
            if (st != TC_OK)
                tc_fail(err, st, "%s: array %s: %.600s", c->path, list[i].info.name, why.message);
        }
        free(data);
    }
    an_expected_free(&list, n);
    return st;
}

static tc_status check_nothing_else(const checking *c, tc_err *err)
{
    for (size_t i = 0; i < wu_npz_count(c->r); i++)
        if (!c->known[i])
            return tc_fail(err, TC_BAD_INPUT, "%s: array %s: does not belong there", c->path, wu_npz_info(c->r, i)->name);
    return TC_OK;
}

/* --- all ------------------------------------------------------------------------------------ */

tc_status val_check(const an_unit *unit, const char *result, tc_err *err)
{
    checking c = { .path = result, .job = unit->job, .analysis = unit->analysis, .params = unit->params };
    tc_status st = wu_npz_open(result, 0, &c.r, err);

    if (st == TC_OK) {
        c.known = calloc(wu_npz_count(c.r) + 1, sizeof *c.known);
        if (c.known == NULL)
            st = tc_no_memory(err, "the arrays");
    }
    if (st == TC_OK)
        st = check_json(&c, err);
    if (st == TC_OK)
        st = check_item_names(&c, err);
    if (st == TC_OK)
        st = check_constants(&c, err);
    if (st == TC_OK)
        st = check_expected(&c, err);
    if (st == TC_OK)
        st = check_nothing_else(&c, err);
    free(c.known);
    wu_npz_reader_close(&c.r);
    return st;
}
