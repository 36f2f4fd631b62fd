/* voting: checks the arrays of a result, without the pixels, for values that no item can give. */
#include <math.h>
#include <stdlib.h>

#include "app/analysis/check.h"
#include "app/analysis/voting/voting.h"

/* --- points ---------------------------------------------------------------------------------- */

/* Whether v is a coordinate that voting_finish can return, on an axis of `length` pixels: a
 * multiple of 1/(4 scale) pixel within the picture, and without `refine` an integer. If so, sets
 * *pixel to the pixel that v is in. */
static bool coordinate_fits(const voting_params *p, double v, int64_t scale, int64_t length,
                            uint32_t *pixel)
{
    const int64_t den = 4 * scale;
    int64_t k;

    if (!(v >= -0.5 && v < (double)length - 0.5))
        return false;
    k = (int64_t)floor(v * (double)den + 0.5);
    if ((double)k / (double)den != v || (signbit(v) != 0) != (k < 0)) /* -0 is not allowed */
        return false;
    *pixel = (uint32_t)((k + 2 * scale) / den); /* v rounded to the nearest integer */
    return p->refine || k == (int64_t)*pixel * den;
}

/* Reads the result's points into peaks->list, with their pixels. */
static tc_status read_points(const voting_params *p, const voting_scheme *s, const wu_output *out,
                             voting_peaks *peaks, tc_err *err)
{
    const wu_out_array *const point = wu_output_find(out, "point");
    const int64_t *const score = wu_output_data(out, "score");
    const size_t dims = (size_t)point->info.shape[1];
    const int64_t length[3] = { s->nz, s->ny, s->nx };

    for (size_t i = 0; i < peaks->n; i++) {
        uint32_t pixel[3] = { 0, 0, 0 };

        for (size_t a = 3 - dims; a < 3; a++) {
            const double v = ((const double *)point->data)[i * dims + a - (3 - dims)];

            if (!coordinate_fits(p, v, s->scale[a], length[a], &pixel[a]))
                return tc_fail(
                    err, TC_BAD_INPUT,
                    "point: row %zu: %.17g is not a coordinate that a point of this item can have",
                    i, v);
        }
        peaks->list[i] = (voting_peak){
            .score = (uint32_t)score[i], .z = pixel[0], .y = pixel[1], .x = pixel[2]
        };
    }
    return TC_OK;
}

/* Checks that points have descending scores and that, unless refinement has moved them, points with
 * equal scores are in the order of their pixels in the picture. */
static tc_status check_order(const voting_params *p, const voting_peaks *peaks, tc_err *err)
{
    for (size_t i = 1; i < peaks->n; i++) {
        const voting_peak *const a = &peaks->list[i - 1], *const b = &peaks->list[i];

        if (a->score < b->score || (!p->refine && voting_compare_peaks(a, b) >= 0))
            return an_fail_impossible("score", i, "the points are not sorted", err);
    }
    return TC_OK;
}

/* Checks the bounds of scores. The least possible score is 1, or the threshold if one is given. The
 * greatest is the greatest weight, 4095, times the number of pixels of the box around the ball of
 * the radius. */
static tc_status check_scores(const voting_params *p, const voting_scheme *s, const wu_output *out,
                              tc_err *err)
{
    int64_t lo = 1, hi = VOTING_WEIGHT_LIMIT - 1;

    for (int a = 0; a < 3; a++)
        hi *= 2 * s->shape.reach[a] + 1;
    if (hi > UINT32_MAX)
        hi = UINT32_MAX;
    if (!p->threshold_auto && p->threshold > 1)
        lo = (int64_t)ceil(p->threshold);
    return an_check_range(out, "score", lo, hi, err);
}

/* Checks the threshold "auto" and the sum of the scores of all peaks, from which it follows. The
 * score of the middle peak (voting_apply_threshold) is between two bounds that follow from the
 * threshold. Unless refinement or the foreground excludes peaks, this peak is a point. */
static tc_status check_threshold(const voting_params *p, const wu_output *out,
                                 const voting_peaks *peaks, tc_err *err)
{
    const int64_t threshold = *(const int64_t *)wu_output_data(out, "threshold"),
                  all = *(const int64_t *)wu_output_data(out, "peak_sum");
    uint64_t sum = 0, part = 0, greater = 0;
    size_t middle = 0;

    if (threshold < 0 || threshold > UINT32_MAX ||
        (peaks->n > 0 && peaks->list[peaks->n - 1].score < threshold))
        return tc_fail(err, TC_BAD_INPUT, "threshold: %lld is above the lowest score, or negative",
                       (long long)threshold);
    for (size_t i = 0; i < peaks->n; i++) {
        const uint32_t score = peaks->list[i].score;

        sum += score;
        greater += voting_threshold_of(score) > threshold ? score : 0;
    }
    bool agree = all >= 0 && (uint64_t)all >= sum && (all > 0) == (threshold > 0) &&
                 (all == 0 || 2 * greater < (uint64_t)all);

    if (agree && all > 0 && !p->refine && !p->foreground) {
        while (middle < peaks->n && 2 * (part += peaks->list[middle].score) < (uint64_t)all)
            middle++;
        agree = middle < peaks->n && voting_threshold_of(peaks->list[middle].score) == threshold;
    }
    return agree ? TC_OK
                 : tc_fail(err, TC_BAD_INPUT, "peak_sum: %lld does not give the threshold %lld",
                           (long long)all, (long long)threshold);
}

tc_status voting_check_result(const void *params, const wu_item *item, const wu_output *out,
                              tc_err *err)
{
    const voting_params *const p = params;
    const size_t n = (size_t)wu_output_find(out, "point_item")->info.shape[0];
    TC_AUTOFREE voting_peak *const list = calloc(n + 1, sizeof *list);
    voting_peaks peaks = { .n = n, .room = n, .list = list };
    voting_scheme s;

    if (list == NULL)
        return tc_no_memory(err, "the points");
    if (*(const int64_t *)wu_output_data(out, "count") != (int64_t)n)
        return tc_fail(err, TC_BAD_INPUT, "count: is %lld, but there are %zu points",
                       (long long)*(const int64_t *)wu_output_data(out, "count"), n);
    return_if_error(voting_scheme_init(p, item, item->name, &s, err));
    if (p->radius_per_image) {
        const double radius = *(const double *)wu_output_data(out, "radius");

        if (!(radius >= voting_least_radius(p) && radius <= p->radius))
            return tc_fail(err, TC_BAD_INPUT, "radius: is %g, but must be from %g to %g", radius,
                           voting_least_radius(p), p->radius);
        return_if_error(voting_set_radius(p, item, radius, &s, err));
    }
    return_if_error(check_scores(p, &s, out, err));
    return_if_error(read_points(p, &s, out, &peaks, err));
    return_if_error(check_order(p, &peaks, err));
    if (p->threshold_auto)
        return_if_error(check_threshold(p, out, &peaks, err));
    if (p->refine) /* refined points may be closer to each other than the radius */
        return TC_OK;
    return_if_error(voting_suppress_peaks(&s, &peaks, NULL, err));
    return peaks.n == n
               ? TC_OK
               : tc_fail(err, TC_BAD_INPUT, "point: two points are closer than the radius");
}
