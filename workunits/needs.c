/* What a work unit will take: the plans of its items, summed up. */
#include "workunits/needs.h"

#include <string.h>

#include "app/analysis/analysis.h"
#include "workunits/archive.h"

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Sums up to a number that no file reaches rather than around. */
static uint64_t plus(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static tc_status add_items(const an_analysis *analysis, const void *params, const wu_job *job,
                           wu_needs *out, tc_err *err)
{
    for (size_t i = 0; i < job->n_items; i++) {
        const wu_item *item = &job->items[i];
        an_plan plan = { 0 };
        tc_status status = analysis->check_item(params, item, item->name, err);
        if (status == TC_OK)
            status = analysis->plan(params, item, &plan, err);
        if (status != TC_OK)
            return status;
        out->operations += plan.flops;
        out->memory_bytes = larger(out->memory_bytes, plan.memory_bytes);
        out->state_bytes = larger(out->state_bytes, plan.state_bytes);
        out->pixels += (uint64_t)item->nx * item->ny * item->nz;
    }
    return TC_OK;
}

static void add_array(const wu_array_info *expected, wu_needs *out)
{
    wu_array_info info = *expected;
    int ok = 1;
    const bool any_length = info.shape[0] == AN_ANY_LENGTH;
    if (any_length)
        info.shape[0] = 1;
    const uint64_t bytes = wu_array_bytes(&info, &ok);
    uint64_t *const sum = any_length ? &out->row_bytes : &out->output_bytes;
    *sum = plus(*sum, ok ? bytes : UINT64_MAX);
}

static tc_status add_outputs(const an_analysis *analysis, const void *params, const wu_job *job,
                             wu_needs *out, tc_err *err)
{
    an_expected *list = NULL;
    size_t n = 0;
    const tc_status status = analysis->expect(params, job, &list, &n, err);
    for (size_t i = 0; i < n && status == TC_OK; i++)
        add_array(&list[i].info, out);
    an_expected_free(&list, n);
    return status;
}

tc_status wu_needs_find(const wu_job *job, wu_needs *out, tc_err *err)
{
    const an_analysis *analysis = an_find(job->analysis);
    void *params = NULL;
    memset(out, 0, sizeof *out);
    if (analysis == NULL || analysis->plan == NULL)
        return tc_fail(err, TC_BAD_INPUT, "this program has no analysis %s", wu_quote(job->analysis).text);
    tc_status status = an_parse(analysis, job->parameters, "parameters", &params, err);
    if (status == TC_OK)
        status = add_items(analysis, params, job, out, err);
    if (status == TC_OK)
        status = add_outputs(analysis, params, job, out, err);
    an_params_free(analysis, &params);
    return status;
}
