/* mean: whether the arrays of a result can be right. */
#include <math.h>

#include "app/analysis/check.h"
#include "app/analysis/mean/mean.h"

tc_status mean_check_result(const void *params, const wu_item *item, const wu_output *out,
                            tc_err *err)
{
    const mean_params *const p = params;
    const int64_t pixels = *(const int64_t *)wu_output_data(out, "pixels");
    const double mean = *(const double *)wu_output_data(out, "mean");
    const int64_t all = (int64_t)item->nx * item->ny * item->nz;
    int64_t sum;
    tc_status status = an_check_range(out, "pixels", p->threshold == 0 ? all : 0, all, err);

    if (status == TC_OK && (pixels == 0) != isnan(mean))
        status =
            an_impossible("mean", 0, "a number where no pixel counts, or none where one does", err);
    if (status == TC_OK && pixels > 0 && !an_is_quotient(mean, pixels, &sum))
        status = an_impossible("mean", 0, "not a mean of so many pixels", err);
    if (status == TC_OK && pixels > 0 && (mean < p->threshold || mean > (1 << item->bits) - 1))
        status = an_impossible("mean", 0, "not from the threshold to the largest grey value", err);
    return status;
}
