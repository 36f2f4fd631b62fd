/* mean: which items, and how the work is cut. */
#include "app/analysis/mean/mean.h"

#include "app/analysis/selftest.h"

static tc_status check_item(const void *params, const wu_item *item, const char *where, tc_err *err)
{
    (void)params;
    if (item->n_masks > 0)
        return tc_fail(err, TC_BAD_INPUT, "%s: has a mask; mean takes none", where);
    return TC_OK;
}

static tc_status plan(const void *params, const wu_item *item, an_plan *out, tc_err *err)
{
    const uint64_t rows = (uint64_t)item->ny * item->nz, pixels = rows * item->nx;

    (void)params;
    (void)err;
    out->chunks = rows;
    out->state_bytes = sizeof(mean_state);
    out->memory_bytes = pixels * (item->bits / 8) + ((uint64_t)8 << 20);
    out->thread_bytes = PLAN_THREAD;
    out->load_flops = an_reading_flops(item);
    out->flops = out->load_flops + 10.0 * (double)pixels;
    return TC_OK;
}

/* Both depths, a picture and a stack. */
static const an_selftest selftests[] = { { "{}", 61, 47, 1, 8, false, 0xb44639e1 },
                                         { "{\"threshold\":30000}", 37, 29, 11, 16, false,
                                           0xd583543a },
                                         { .parameters = NULL } };

const an_analysis an_mean = { .name = "mean",
                              .summary = "the mean of the pixels that are bright enough",
                              .params_bytes = sizeof(mean_params),
                              .parameters = mean_parameters,
                              .check_item = check_item,
                              .plan = plan,
                              .init = an_starts_zeroed,
                              .check_state = mean_check_state,
                              .finish = mean_finish,
                              .expect = mean_expect,
                              .check_result = mean_check_result,
                              .cpu = &mean_cpu,
                              .selftests = selftests };
