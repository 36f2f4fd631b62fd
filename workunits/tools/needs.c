/* Estimates the operations, memory and disk space that a work unit needs. The estimates are made
 * from an_plan, which the analysis computes for each item. */
#include "app/base/numbers.h"
#include "workunits/tools/needs.h"

#include <string.h>

#include "app/analysis/analysis.h"
#include "app/base/os.h"
#include "workunits/format/archive.h"

/* Returns a + b, or UINT64_MAX if that is too large. */
static uint64_t add_capped(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* Adds the sizes of the arrays of an item's result to the needs. Arrays of WU_ANY_LENGTH are the
 * columns of a table, whose number of rows is not known beforehand: for them, the size of a row is
 * set, and two limits for all rows of the item that can have the most. */
static tc_status add_outputs(const an_analysis *analysis, const void *params, const wu_item *item,
                             const an_plan *plan, wu_needs *out, tc_err *err)
{
    wu_output arrays = { 0 };
    const tc_status status = analysis->declare_arrays(params, item, &arrays, err);
    for (size_t i = 0; i < arrays.n && status == TC_OK; i++) {
        int ok = 1;
        if (arrays.arrays[i].info.shape[0] == WU_ANY_LENGTH)
            continue;
        const uint64_t bytes = wu_array_bytes(&arrays.arrays[i].info, &ok);
        out->output_bytes = add_capped(out->output_bytes, ok ? bytes : UINT64_MAX);
    }
    const uint64_t row = status == TC_OK ? an_row_bytes(&arrays) : 0;
    out->row_bytes = tc_larger(out->row_bytes, row);
    if (row > 0 && an_most_rows(plan, item) * row >= out->most_rows_bytes) {
        out->most_rows_bytes = an_most_rows(plan, item) * row;
        out->taken_rows_bytes = an_rows_bytes(item, row);
    }
    wu_output_free(&arrays);
    return status;
}

static uint64_t voxels_of(const wu_item *item)
{
    return (uint64_t)item->nx * item->ny * item->nz;
}

/* Raises the plan's memory to the memory that decoding the item takes, if decoding takes more: the
 * item is decoded before the analysis' state is allocated. The members (files) of an item are
 * decoded by up to one thread each. If decoding with that many threads exceeds the plan's memory,
 * also raises the plan's memory for each thread. */
static void count_loading(const wu_item *item, an_plan *plan)
{
    uint64_t each = 0; /* bytes for each further thread */
    const uint64_t loading = PLAN_PROGRAM_BYTES + wu_item_loading_bytes(item, &each),
                   members = item->n_images + item->n_masks + item->n_labels;
    plan->memory_bytes = tc_larger(plan->memory_bytes, loading);
    if (loading + members * each > plan->memory_bytes)
        plan->thread_bytes =
            tc_larger(plan->thread_bytes, members > 1 ? each + PLAN_THREAD_BYTES : 0);
}

/* The plan's memory is enough for any pixels. Lowers it to the memory that the analysis needs for
 * the actual pixels of the item. */
static tc_status lower_memory_to_pixels(const wu_job *job, size_t index,
                                        const an_analysis *analysis, const void *params,
                                        an_plan *plan, tc_err *err)
{
    TC_AUTO(wu_pixels_free) wu_pixels pixels = { .nx = 0 };
    const an_work work = { .params = params,
                           .item = &job->items[index],
                           .pixels = &pixels,
                           .plan = *plan,
                           /* small items are not worth starting threads */
                           .threads = plan->flops < 1e7 ? 1 : os_processors(),
                           .result_only = true };
    tc_status status = TC_OK;
    if (analysis->memory == NULL)
        return status;
    return_if_error(wu_item_load(job, index, &pixels, err));
    return analysis->memory(&work, plan, err);
}

/* Adds the needs of an item to *out: operations, pixels and sizes of arrays are summed over the
 * items; each of the other needs is the largest of any item. */
static tc_status add_item(const wu_job *job, size_t index, const an_analysis *analysis,
                          const void *params, wu_needs *out, tc_err *err)
{
    const wu_item *const item = &job->items[index];
    an_plan plan = { 0 };
    return_if_error(an_check_item(analysis, params, item, item->name, err));
    return_if_error(analysis->plan(params, item, &plan, err));
    out->operations += plan.flops;
    count_loading(item, &plan); /* here the plan's memory is enough for any pixels */
    out->most_memory_bytes = tc_larger(out->most_memory_bytes, plan.memory_bytes);
    return_if_error(lower_memory_to_pixels(job, index, analysis, params, &plan, err));
    count_loading(item, &plan); /* here it is the memory for the item's own pixels */
    out->memory_bytes = tc_larger(out->memory_bytes, plan.memory_bytes);
    out->thread_bytes = tc_larger(out->thread_bytes, plan.thread_bytes);
    out->device_bytes = tc_larger(out->device_bytes, plan.state_bytes + plan.device_bytes);
    out->state_bytes = tc_larger(out->state_bytes, plan.state_bytes);
    out->pixels += voxels_of(item);
    return add_outputs(analysis, params, item, &plan, out, err);
}

tc_status wu_needs_find(const wu_job *job, wu_needs *out, tc_err *err)
{
    const an_analysis *analysis = an_find_analysis(job->analysis);
    void *params = NULL;
    /* ahead: the most memory for loading an item while the item before it is analysed */
    uint64_t ahead = 0, thread_bytes;
    memset(out, 0, sizeof *out);
    if (analysis == NULL || analysis->plan == NULL)
        return tc_fail(err, TC_BAD_INPUT, "this program has no analysis %s",
                       wu_quote(job->analysis).text);
    tc_status status = an_parse_params(analysis, job->parameters, "parameters", &params, err);
    for (size_t i = 0; i < job->n_items && status == TC_OK; i++) {
        status = add_item(job, i, analysis, params, out, err);
        ahead = tc_larger(ahead, wu_item_loading_bytes(&job->items[i], &thread_bytes));
    }
    if (job->n_items > 1) { /* an item is loaded ahead, by another thread */
        out->thread_bytes += PLAN_THREAD_BYTES;
        out->memory_bytes = add_capped(out->memory_bytes, ahead);
        out->most_memory_bytes = add_capped(out->most_memory_bytes, ahead);
    }
    an_params_free(analysis, &params);
    return status;
}
