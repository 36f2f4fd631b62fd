/* What a work unit will take: the plans of its items, summed up. */
#include "workunits/tools/needs.h"

#include <string.h>

#include "app/analysis/analysis.h"
#include "workunits/format/archive.h"

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Sums up to a number that no file reaches rather than around. */
static uint64_t plus(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* The arrays of an item's result. */
static tc_status add_outputs(const an_analysis *analysis, const void *params, const wu_item *item,
                             wu_needs *out, tc_err *err)
{
    wu_output arrays = { 0 };
    uint64_t rows = 0;
    const tc_status status = analysis->expect(params, item, &arrays, err);
    for (size_t i = 0; i < arrays.n && status == TC_OK; i++) {
        wu_array_info info = arrays.arrays[i].info;
        const bool any_length = info.shape[0] == WU_ANY_LENGTH;
        int ok = 1;
        if (any_length)
            info.shape[0] = 1;
        const uint64_t bytes = wu_array_bytes(&info, &ok);
        uint64_t *const sum = any_length ? &rows : &out->output_bytes;
        *sum = plus(*sum, ok ? bytes : UINT64_MAX);
    }
    out->row_bytes = larger(out->row_bytes, rows);
    wu_output_free(&arrays);
    return status;
}

static tc_status add_item(const an_analysis *analysis, const void *params, const wu_item *item,
                          wu_needs *out, tc_err *err)
{
    an_plan plan = { 0 };
    tc_status status = an_check_item(analysis, params, item, item->name, err);
    if (status == TC_OK)
        status = analysis->plan(params, item, &plan, err);
    if (status != TC_OK)
        return status;
    out->operations += plan.flops;
    out->memory_bytes = larger(out->memory_bytes, plan.memory_bytes);
    out->state_bytes = larger(out->state_bytes, plan.state_bytes);
    out->pixels += (uint64_t)item->nx * item->ny * item->nz;
    return add_outputs(analysis, params, item, out, err);
}

tc_status wu_needs_find(const wu_job *job, wu_needs *out, tc_err *err)
{
    const an_analysis *analysis = an_find(job->analysis);
    void *params = NULL;
    memset(out, 0, sizeof *out);
    if (analysis == NULL || analysis->plan == NULL)
        return tc_fail(err, TC_BAD_INPUT, "this program has no analysis %s", wu_quote(job->analysis).text);
    tc_status status = an_parse(analysis, job->parameters, "parameters", &params, err);
    for (size_t i = 0; i < job->n_items && status == TC_OK; i++)
        status = add_item(analysis, params, &job->items[i], out, err);
    an_params_free(analysis, &params);
    return status;
}
