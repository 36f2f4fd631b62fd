/*
 * Makes a work unit without pictures from the description of the unit that a result contains.
 * BOINC's assimilator passes the result to texcell-assimilate, but not the work unit. The
 * description must be consistent, and agree with the result's arrays.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "validator/dataset/dataset.h"

/* A result that is being read. */
typedef struct result_reader {
    const char *path;
    wu_result_file file;
    const json_t *json;
    const wu_declaration *picture; /* the first picture that is declared, or NULL */
    bool stacks;                   /* the items are stacks: one of the arrays has a coordinate z */
} result_reader;

static tc_status bad_key(const result_reader *in, const char *key, tc_err *err)
{
    return tc_fail(err, TC_BAD_INPUT, "%s: %s: \"%s\" is missing or not valid", in->path,
                   WU_RESULT_JSON, key);
}

/* Reads the size and the checksums of the work unit's file from the key "workunit". */
static tc_status read_identity(const result_reader *in, wu_job *job, tc_err *err)
{
    const json_t *const workunit = json_object_get(in->json, "workunit");
    const json_t *const size = json_object_get(workunit, "size");
    const char *const crc = json_string_value(json_object_get(workunit, "crc32"));
    const char *const sha256 = json_string_value(json_object_get(workunit, "sha256"));
    static const char digits[] = "0123456789abcdef";

    if (crc == NULL || strlen(crc) != 8 || strspn(crc, digits) != 8 || !json_is_integer(size) ||
        json_integer_value(size) < 0 || sha256 == NULL || strlen(sha256) != TC_SHA256_TEXT - 1 ||
        strspn(sha256, digits) != TC_SHA256_TEXT - 1)
        return bad_key(in, "workunit", err);
    memcpy(job->file_sha256, sha256, TC_SHA256_TEXT);
    job->file_crc = (uint32_t)strtoul(crc, NULL, 16);
    job->file_size = (uint64_t)json_integer_value(size);
    return TC_OK;
}

/* Sets in->picture and in->stacks, from which the sizes of items are derived. */
static void find_picture_and_stacks(result_reader *in)
{
    for (size_t i = 0; i < in->file.n_declared; i++) {
        const wu_declaration *const d = &in->file.declared[i];

        if (in->picture == NULL && wu_is_picture(d->role))
            in->picture = d;
        in->stacks = in->stacks || (d->n_axes == 1 && d->axes[0].words != NULL &&
                                    strcmp(d->axes[0].words[0], "z") == 0);
    }
}

/* Reads the item's spacing (z, y, x) from the array item_spacing, which wu_add_item_names writes if
 * the unit states a spacing. If z is not known but y and x are, they are the size of a pixel. */
static void read_spacing(const result_reader *in, wu_item *item, size_t number)
{
    const double *const um =
        in->file.item_spacing == NULL ? NULL : in->file.item_spacing + 3 * number;

    item->has_spacing = um != NULL && um[0] > 0 && um[1] > 0 && um[2] > 0;
    item->has_pixel = um != NULL && !(um[0] > 0) && um[1] > 0 && um[2] > 0;
    if (item->has_spacing)
        memcpy(item->spacing, um, sizeof item->spacing);
    if (item->has_pixel)
        memcpy(item->pixel, um + 1, sizeof item->pixel);
}

/* Fills an item. The item's size only serves to bound the number of rows in the tables. It is the
 * size of the item's picture in the result; if there is none, the largest possible size. */
static void make_item(const result_reader *in, wu_item *item, size_t number)
{
    size_t index;

    *item = (wu_item){ .name = item->name,
                       .source = item->source,
                       .is_stack = in->stacks,
                       .nx = WU_MAX_SIDE,
                       .ny = WU_MAX_SIDE,
                       .nz = in->stacks ? WU_MAX_SIDE : 1,
                       .bits = 16,
                       .channels = 1,
                       .spacing = { 1, 1, 1 } };
    if (in->picture != NULL &&
        wu_find_declared_array(&in->file, in->picture, item->name, &index, NULL) == TC_OK) {
        const wu_array_info *const info = wu_npz_array_info(in->file.npz, index);

        item->is_stack = info->ndim == 3;
        item->ny = (uint32_t)info->shape[info->ndim - 2];
        item->nx = (uint32_t)info->shape[info->ndim - 1];
        item->nz = item->is_stack ? (uint32_t)info->shape[0] : 1;
    }
    read_spacing(in, item, number);
    item->n_images = item->nz;
}

/* Copies the name of the item's picture file. Returns false if there is no memory. */
static bool copy_source(const result_reader *in, wu_item *item, size_t index)
{
    const char *const source = in->file.item_sources != NULL ? in->file.item_sources[index] : "";

    item->source = source[0] != '\0' ? strdup(source) : NULL;
    return source[0] == '\0' || item->source != NULL;
}

/* Reads the items from the array item_names. result.json is compared with the items later. */
static tc_status read_items(const result_reader *in, wu_job *job, tc_err *err)
{
    const size_t n = in->file.n_items;
    json_auto_t *names = json_object();

    if (n < 1)
        return bad_key(in, "items", err);
    job->items = calloc(n + 1, sizeof *job->items);
    if (job->items == NULL || names == NULL)
        return tc_no_memory(err, in->path);
    for (size_t i = 0; i < n; i++) {
        const char *const name = in->file.item_names[i];
        wu_item *const item = &job->items[i];

        if (json_object_get(names, name) != NULL)
            return bad_key(in, "items", err);
        job->n_items = i + 1;
        if ((item->name = strdup(name)) == NULL || !copy_source(in, item, i) ||
            json_object_set_new(names, name, json_true()) != 0)
            return tc_no_memory(err, in->path);
        make_item(in, item, i);
    }
    return TC_OK;
}

/* Fills *out from result.json and item_names: identity, analysis, parameters and items. */
static tc_status read_unit(const result_reader *in, an_unit *out, tc_err *err)
{
    const char *const analysis = json_string_value(json_object_get(in->json, "analysis"));
    const json_t *const parameters = json_object_get(in->json, "parameters");
    char where[TC_ERR_MAX];
    return_if_error(read_identity(in, out->job, err));
    out->analysis = analysis == NULL ? NULL : an_find_analysis(analysis);
    if (out->analysis == NULL)
        return tc_fail(err, TC_BAD_INPUT,
                       "%s: %s: \"analysis\" names an analysis that this version does not have",
                       in->path, WU_RESULT_JSON);
    if (!json_is_object(parameters))
        return bad_key(in, "parameters", err);
    out->job->analysis = strdup(analysis);
    if (out->job->analysis == NULL)
        return tc_no_memory(err, in->path);
    snprintf(where, sizeof where, "%.600s: " WU_RESULT_JSON ": parameters", in->path);
    return_if_error(an_parse_params(out->analysis, parameters, where, &out->params, err));
    return read_items(in, out->job, err);
}

tc_status val_unit_of_result(const char *result, an_unit *out, tc_err *err)
{
    result_reader in = { .path = result };
    tc_status status =
        wu_result_file_open(result, &(wu_npz_limits){ .canonical = true }, &in.file, err);

    *out = (an_unit){ .job = status == TC_OK ? calloc(1, sizeof *out->job) : NULL };
    if (status == TC_OK && out->job == NULL)
        status = tc_no_memory(err, result);
    if (status == TC_OK) {
        in.json = wu_npz_json(in.file.npz);
        find_picture_and_stacks(&in);
        status = read_unit(&in, out, err);
    }
    wu_result_file_close(&in.file);
    if (status != TC_OK)
        an_unit_free(out);
    return status;
}
