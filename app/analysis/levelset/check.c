/* levelset: checks whether the arrays of a result are consistent with each other and with the
 * parameters, without computing the item again. */
#include <math.h>

#include "app/analysis/check.h"
#include "app/analysis/levelset/levelset.h"

/* Checks that the mask consists of zeros and `inside` ones. */
static tc_status check_mask(const wu_out_array *mask, int64_t inside, tc_err *err)
{
    const uint8_t *const v = mask->data;
    int64_t ones = 0;
    int ok = 0;
    const uint64_t voxels = wu_array_count(&mask->info, &ok);

    for (uint64_t i = 0; i < voxels; i++) {
        if (v[i] > 1)
            return tc_fail(err, TC_BAD_INPUT, "%s: voxel %llu is %u, neither 0 nor 1",
                           mask->info.name, (unsigned long long)i, v[i]);
        ones += v[i];
    }
    if (ones != inside)
        return tc_fail(err, TC_BAD_INPUT, "inside_voxels: is %lld, but %s has %lld",
                       (long long)inside, mask->info.name, (long long)ones);
    return TC_OK;
}

/* Checks the words of kept sides (levelset.h, "stretches"). A word must not have more bits than
 * there are kept re-initialisations. If the sides are kept at the re-initialisation after the last
 * iteration, their bit must be equal to the mask. */
static tc_status check_history(const ls_params *p, const wu_output *out, int64_t iterations,
                               bool converged, tc_err *err)
{
    const uint32_t n = ls_history_count(p, iterations, converged);
    const uint64_t every = ls_history_every(p) * (uint64_t)p->reinit_every;
    const wu_out_array *const array = &out->arrays[LS_OUT_HISTORY];
    const uint32_t *const history = array->data;
    const uint8_t *const mask = out->arrays[LS_OUT_MASK].data;
    const bool at_end = !converged && (uint64_t)iterations % every == 0;
    int ok = 0;
    const uint64_t voxels = wu_array_count(&array->info, &ok);

    for (uint64_t i = 0; i < voxels; i++) {
        if (n < LS_HISTORY_BITS && history[i] >> n != 0)
            return an_fail_impossible(array->info.name, i, "has more bits than sides were kept",
                                      err);
        if (at_end && history[i] >> (n - 1) != mask[i])
            return an_fail_impossible(array->info.name, i, "is not the mask at the end", err);
    }
    return TC_OK;
}

tc_status ls_check_result(const void *params, const wu_item *item, const wu_output *out,
                          tc_err *err)
{
    const ls_params *const p = params;
    const int64_t inside = *(const int64_t *)wu_output_data(out, "inside_voxels");
    const double measure = *(const double *)wu_output_data(out, "measure");
    const int64_t iterations = *(const int64_t *)wu_output_data(out, "iterations_run");
    const bool converged = *(const uint8_t *)wu_output_data(out, "converged") != 0;
    return_if_error(check_mask(&out->arrays[LS_OUT_MASK], inside, err));
    /* -0 is equal to 0 but a different value in the file, so the sign is checked, too. */
    if (measure != ls_inside_volume(item, inside) || signbit(measure))
        return tc_fail(err, TC_BAD_INPUT, "measure: is %.17g, but that of inside_voxels is %.17g",
                       measure, ls_inside_volume(item, inside));
    if (iterations < 0 || iterations > p->iterations)
        return tc_fail(err, TC_BAD_INPUT, "iterations_run: %lld is not from 0 to %lld",
                       (long long)iterations, (long long)p->iterations);
    if (converged && (p->stop_after == 0 || iterations < p->stop_after))
        return tc_fail(err, TC_BAD_INPUT,
                       "converged: not after %lld iterations with stop_after %lld",
                       (long long)iterations, (long long)p->stop_after);
    if (!converged && iterations != p->iterations)
        return tc_fail(err, TC_BAD_INPUT, "iterations_run: %lld of %lld, but not converged",
                       (long long)iterations, (long long)p->iterations);
    return ls_history_every(p) > 0 ? check_history(p, out, iterations, converged, err) : TC_OK;
}
