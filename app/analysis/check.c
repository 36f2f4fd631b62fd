/* Helpers for the checks of a result: values that no picture can give. */
#include "app/analysis/check.h"

#include <assert.h>
#include <math.h>

tc_status an_check_range(const wu_output *out, const char *name, int64_t lo, int64_t hi,
                         tc_err *err)
{
    assert(wu_output_find(out, name)->info.dtype == WU_I64);
    assert(lo <= hi);
    const wu_out_array *const array = wu_output_find(out, name);
    const int64_t *const v = array->data;
    int ok = 0;
    const uint64_t n = wu_array_count(&array->info, &ok);

    for (uint64_t i = 0; i < n; i++)
        if (v[i] < lo || v[i] > hi)
            return tc_fail(err, TC_BAD_INPUT, "%s: row %llu: %lld is not from %lld to %lld", name,
                           (unsigned long long)(i / (n / array->info.shape[0])), (long long)v[i],
                           (long long)lo, (long long)hi);
    return TC_OK;
}

bool an_is_quotient(double value, int64_t den, int64_t *sum)
{
    assert(den > 0);
    const double product = value * (double)den;

    if (!(product >= 0 && product <= 0x1p51) || signbit(value))
        return false;
    *sum = (int64_t)(product + 0.5);
    return (double)*sum / (double)den == value;
}

bool an_mostly_below(const wu_output *out, const char *name, int64_t bound, uint64_t fewest)
{
    assert(wu_output_find(out, name)->info.dtype == WU_I64);
    const int64_t *const v = wu_output_data(out, name);
    const uint64_t n = wu_output_find(out, name)->info.shape[0];
    uint64_t below = 0;

    for (uint64_t i = 0; i < n; i++)
        below += v[i] < bound;
    return n >= fewest && below > n / 2;
}

tc_status an_impossible(const char *name, uint64_t row, const char *what, tc_err *err)
{
    return tc_fail(err, TC_BAD_INPUT, "%s: row %llu: %s", name, (unsigned long long)row, what);
}
