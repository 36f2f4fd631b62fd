/* mean: which arrays a result has, and from the final state to them. */
#include "app/analysis/mean/mean.h"

#include <math.h>

tc_status mean_expect(const void *params, const wu_item *item, wu_output *out, tc_err *err)
{
    static const wu_declared arrays[] = { { "pixels", WU_I64, WU_VALUE, "items", .title = "pixels",
                                            .unit = "pixel" },
                                          { "mean", WU_F64, WU_VALUE, "items", .title = "mean" } };

    (void)params;
    return wu_output_declare(out, arrays, sizeof arrays / sizeof arrays[0], item, err);
}

/* A checkpoint is not believed blindly. */
tc_status mean_check_state(const an_work *work, const void *state, tc_err *err)
{
    const mean_state *const s = state;

    if (s->head.chunks_done > work->plan.chunks ||
        s->pixels > s->head.chunks_done * work->item->nx || s->sum > s->pixels * 65535)
        return tc_fail(err, TC_BAD_INPUT, "the sums are damaged");
    return TC_OK;
}

tc_status mean_finish(const an_work *work, size_t item_index, const void *state, wu_output *out,
                      tc_err *err)
{
    const mean_state *const s = state;
    tc_status status = mean_expect(work->params, work->item, out, err);

    (void)item_index;
    if (status == TC_OK)
        status = wu_output_allocate(out, 0, err);
    if (status != TC_OK)
        return status;
    *(int64_t *)wu_output_data(out, "pixels") = (int64_t)s->pixels;
    *(double *)wu_output_data(out, "mean") =
        s->pixels > 0 ? (double)s->sum / (double)s->pixels : (double)NAN;
    return TC_OK;
}
