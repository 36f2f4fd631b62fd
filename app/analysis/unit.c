/* Reads a work unit with its parameters, checks its items, estimates costs, and processes an item
 * without checkpoints. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/analysis.h"

tc_status an_check_item(const an_analysis *analysis, const void *params, const wu_item *item,
                        const char *where, tc_err *err)
{
    if (!analysis->takes_labels && item->n_labels > 0)
        return tc_fail(err, TC_BAD_INPUT, "%s: has labels; %s takes none", where, analysis->name);
    if (analysis->takes_labels && item->n_labels == 0)
        return tc_fail(
            err, TC_BAD_INPUT,
            "%s: has no labels; %s measures the objects that they mark, --labels gives them", where,
            analysis->name);
    if (!analysis->takes_mask && item->n_masks > 0)
        return tc_fail(err, TC_BAD_INPUT, "%s: has a mask; %s takes none", where, analysis->name);
    return analysis->check_item != NULL ? analysis->check_item(params, item, where, err) : TC_OK;
}

/* Checks that the analysis can be done on every item, and that one work unit may contain all of
 * them. */
static tc_status check_items(const an_unit *u, tc_err *err)
{
    const wu_job *const job = u->job;
    char where[TC_ERR_MAX];
    const size_t n = (size_t)snprintf(where, sizeof where, "%.600s: item ", job->path);

    for (size_t i = 0; i < job->n_items; i++) {
        snprintf(where + n, sizeof where - n, "\"%s\"", job->items[i].name);
        return_if_error(an_check_item(u->analysis, u->params, &job->items[i], where, err));
        if (u->analysis->forbids_mixed_kinds && job->items[i].is_stack != job->items[0].is_stack)
            return tc_fail(err, TC_BAD_INPUT,
                           "%s: %s takes images or stacks, not both in one work unit", where,
                           u->analysis->name);
    }
    return TC_OK;
}

/* --- names of arrays ------------------------------------------------------------------------- */

/* Adds the names of an item's WU_PER_ITEM arrays to `owners`, which maps the name of an array to
 * the index of its item. Fails if another item has an array of the same name. */
static tc_status add_names(const wu_job *job, size_t item, const wu_output *out, json_t *owners,
                           tc_err *err)
{
    for (size_t i = 0; i < out->n; i++) {
        const char *const name = out->arrays[i].info.name;
        const json_t *const owner = json_object_get(owners, name);

        if (out->arrays[i].kind != WU_PER_ITEM)
            continue;
        if (owner != NULL)
            return tc_fail(
                err, TC_BAD_INPUT,
                "%.400s: items \"%s\" and \"%s\" would both have an array %s in the result: "
                "give one of them another name",
                job->path, job->items[json_integer_value(owner)].name, job->items[item].name, name);
        if (json_object_set_new(owners, name, json_integer((json_int_t)item)) != 0)
            return tc_no_memory(err, "the names of arrays");
    }
    return TC_OK;
}

/* Checks that no two items have arrays of the same name. The name of an array consists of the
 * item's name and the name of its content, so two items can have the same array name: item "a" with
 * a map of sum_variance, and item "a_sum" with a map of variance. */
static tc_status check_names(const an_unit *u, tc_err *err)
{
    const wu_job *const job = u->job;
    json_auto_t *owners = json_object();

    if (owners == NULL)
        return tc_no_memory(err, "the names of arrays");
    for (size_t i = 0; i < job->n_items; i++) {
        TC_AUTO(wu_output_free) wu_output out = { .n = 0 };

        return_if_error(u->analysis->declare_arrays(u->params, &job->items[i], &out, err));
        return_if_error(add_names(job, i, &out, owners, err));
    }
    return TC_OK;
}

/* --- parameters ------------------------------------------------------------------------------ */

tc_status an_parse_params(const an_analysis *analysis, const json_t *json, const char *where,
                          void **params, tc_err *err)
{
    tc_status status;

    *params = calloc(1, analysis->params_bytes);
    if (*params == NULL)
        return tc_no_memory(err, "the parameters");
    status = an_params_read(analysis->parameters, json, *params, where, err);
    if (status == TC_OK && analysis->derive_params != NULL)
        status = analysis->derive_params(*params, where, err);
    if (status != TC_OK)
        an_params_free(analysis, params);
    return status;
}

void an_params_free(const an_analysis *analysis, void **params)
{
    if (*params != NULL && analysis->clear_params != NULL)
        analysis->clear_params(*params);
    if (*params != NULL)
        json_decref(((an_params_head *)*params)->as_run);
    free(*params);
    *params = NULL;
}

json_t *an_params_as_run(const void *params)
{
    return json_incref(((const an_params_head *)params)->as_run);
}

/* --- work units and work --------------------------------------------------------------------- */

tc_status an_unit_read(const char *path, an_unit *out, tc_err *err)
{
    return an_unit_read_polled(path, NULL, out, err);
}

/* Completes a unit whose job has been read: finds the analysis, reads the parameters and checks the
 * items. The caller frees *out by an_unit_free, also after a failure. */
static tc_status read_unit(const char *path, an_unit *out, tc_err *err)
{
    char where[TC_ERR_MAX];

    out->analysis = an_find_analysis(out->job->analysis);
    if (out->analysis == NULL)
        return tc_fail(err, TC_BAD_INPUT,
                       "%s: job.json: analysis: \"%.64s\" is not known to this version", path,
                       out->job->analysis);
    snprintf(where, sizeof where, "%.600s: job.json: parameters", path);
    return_if_error(an_parse_params(out->analysis, out->job->parameters, where, &out->params, err));
    return_if_error(check_items(out, err));
    return check_names(out, err);
}

/* Calls read_unit if `status`, the result of reading the job, is TC_OK. On an error frees *out. */
static tc_status complete_unit(tc_status status, const char *path, an_unit *out, tc_err *err)
{
    if (status == TC_OK)
        status = read_unit(path, out, err);
    if (status != TC_OK)
        an_unit_free(out);
    return status;
}

tc_status an_unit_read_polled(const char *path, const tc_poll *poll, an_unit *out, tc_err *err)
{
    *out = (an_unit){ .job = NULL };
    return complete_unit(wu_job_read_polled(path, poll, &out->job, err), path, out, err);
}

tc_status an_unit_read_heads(const char *path, an_unit *out, tc_err *err)
{
    *out = (an_unit){ .job = NULL };
    return complete_unit(wu_job_read_heads(path, &out->job, err), path, out, err);
}

void an_unit_free(an_unit *unit)
{
    an_params_free(unit->analysis, &unit->params);
    wu_job_destroy(&unit->job);
}

/* Decompression (Deflate) spends most time on bytes that are not part of a match. The share of
 * these bytes grows with the ratio of compressed to decompressed bytes; at a ratio of about 0.43
 * hardly any byte is part of a match. The constants are measured. */
double an_reading_flops(const wu_item *item)
{
    const unsigned pixel_bytes =
        item->bits / 8 * item->channels + (item->n_masks > 0) + 2 * (item->n_labels > 0);
    const double bytes = (double)item->nx * item->ny * item->nz * pixel_bytes;
    const double compressed =
        item->compressed_bytes > 0 ? (double)item->compressed_bytes / bytes : 0.3;

    return bytes * (12.5 + 70 * (compressed < 0.43 ? compressed : 0.43));
}

uint64_t an_most_rows(const an_plan *plan, const wu_item *item)
{
    return plan->most_rows > 0 ? plan->most_rows : (uint64_t)item->nx * item->ny * item->nz;
}

uint64_t an_rows_bytes(const wu_item *item, uint64_t row_bytes)
{
    const uint64_t planned =
        (uint64_t)item->nx * item->ny * item->nz / PLAN_PIXELS_A_ROW * row_bytes;

    return planned > AN_ROWS_BYTES ? planned : AN_ROWS_BYTES;
}

uint64_t an_row_bytes(const wu_output *expected)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < expected->n; i++) {
        wu_array_info row = expected->arrays[i].info;
        int ok = 0;

        if (row.shape[0] != WU_ANY_LENGTH) /* not an array with the table's rows */
            continue;
        row.shape[0] = 1;
        bytes += wu_array_bytes(&row, &ok);
    }
    return bytes;
}

/* Opening reads all bytes of the file and computes their CRC; identifying computes their SHA-256.
 */
void an_complete_plan(an_plan *plan, const wu_item *item, double chunks)
{
    plan->open_flops = 10 * (double)item->compressed_bytes;
    plan->identify_flops = 6 * (double)item->compressed_bytes;
    plan->flops = plan->open_flops + plan->load_flops + chunks + plan->finish_flops +
                  plan->compress_flops + plan->identify_flops + plan->write_flops;
}

double an_item_cost(const an_plan *plan, double speed)
{
    assert(speed > 0);
    return plan->load_flops + an_chunks_flops(plan) / speed + plan->finish_flops +
           plan->compress_flops;
}

/* The speed at which the chunks are done, relative to a core. */
static double speed_of(const an_work *work)
{
    return work->device == NULL ? 1 : work->speed > 0 ? work->speed : AN_DEVICE_SPEED;
}

/* The share of the total time of all chunks, 0 to 1, that the first chunks_done chunks take. */
static double chunks_time_share(const an_analysis *analysis, const an_work *work,
                                uint64_t chunks_done)
{
    return analysis->time_share != NULL ? analysis->time_share(work, chunks_done)
                                        : (double)chunks_done / (double)work->plan.chunks;
}

double an_spent_share(const an_analysis *analysis, const an_work *work, uint64_t chunks_done)
{
    assert(chunks_done <= work->plan.chunks);
    const double total = an_item_cost(&work->plan, speed_of(work));
    const double chunks =
        total - work->plan.load_flops - work->plan.finish_flops - work->plan.compress_flops;

    return (work->plan.load_flops + chunks * chunks_time_share(analysis, work, chunks_done)) /
           total;
}

double an_spent_share_compressing(const an_work *work, double share)
{
    assert(share >= 0 && share <= 1);
    return 1 - work->plan.compress_flops / an_item_cost(&work->plan, speed_of(work)) * (1 - share);
}

tc_status an_run_chunks(const an_analysis *analysis, const an_backend *backend, const an_work *work,
                        void *state, double deadline, tc_err *err)
{
    assert(work->threads >= 1);
    void *worker = NULL;
    uint64_t chunks;
    tc_status status = an_init(analysis, work, state, err);

    if (status == TC_OK)
        status = backend->open(work, state, &worker, err);
    if (status == TC_OK)
        status = TC_MORE;
    while (status == TC_MORE) {
        if (deadline > 0 && tc_seconds() > deadline)
            status = tc_fail(err, TC_TRY_LATER, "item \"%s\": the time limit is exceeded",
                             work->item->name);
        else
            status = backend->step(worker, state, &chunks, err);
    }
    if (status == TC_OK)
        status = an_sync(backend, worker, state, err);
    if (worker != NULL)
        backend->close(&worker);
    return status;
}

tc_status an_compute_item(const an_analysis *analysis, const an_work *work, size_t index,
                          double deadline, wu_output *out, tc_err *err)
{
    TC_AUTOFREE void *const state = calloc(1, work->plan.state_bytes);
    return_if_error(state == NULL
                        ? tc_no_memory(err, "the state of an item")
                        : an_run_chunks(analysis, analysis->cpu, work, state, deadline, err));

    return_if_error(analysis->finish(work, index, state, out, err));
    return wu_output_copy_lent(out, err);
}

tc_status an_use_worker(const an_backend *backend, const an_work *work,
                        tc_status (*use)(void *worker, void *state, void *result, tc_err *err),
                        void *result, tc_err *err)
{
    TC_AUTOFREE void *const state = calloc(1, work->plan.state_bytes);
    void *worker = NULL;
    tc_status status = state == NULL ? tc_no_memory(err, "the state of an item")
                                     : backend->open(work, state, &worker, err);

    if (status == TC_OK)
        status = use(worker, state, result, err);
    if (worker != NULL)
        backend->close(&worker);
    return status;
}

tc_status an_copy_box(const wu_pixels *px, const uint32_t from[3], const uint32_t size[3],
                      wu_pixels *out, tc_err *err)
{
    assert(from[0] + size[0] <= px->nz && from[1] + size[1] <= px->ny &&
           from[2] + size[2] <= px->nx);
    const size_t bytes = px->bits / 8, row = size[2] * bytes;
    const char *const in = px->u8 != NULL ? (const char *)px->u8 : (const char *)px->u16;
    char *to = malloc((size_t)size[0] * size[1] * row);

    *out = (wu_pixels){ .nz = size[0], .ny = size[1], .nx = size[2], .bits = px->bits };
    if (to == NULL)
        return tc_no_memory(err, "a part of a picture");
    if (px->u8 != NULL)
        out->u8 = (uint8_t *)to;
    else
        out->u16 = (uint16_t *)(void *)to;
    for (size_t z = from[0]; z < from[0] + size[0]; z++)
        for (size_t y = from[1]; y < from[1] + size[1]; y++, to += row)
            memcpy(to, in + ((z * px->ny + y) * px->nx + from[2]) * bytes, row);
    return TC_OK;
}
