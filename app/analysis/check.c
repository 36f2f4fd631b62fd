/* Helpers for checking the arrays of a result: see check.h. */
#include "app/analysis/check.h"

#include <assert.h>
#include <math.h>

#include "workunits/format/label_runs.h"

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

/* --- labels ---------------------------------------------------------------------------------- */

/* 16 bytes at any address that is a multiple of 4, as two or as four integers. */
typedef uint64_t lanes __attribute__((vector_size(16), aligned(4), may_alias));

typedef int32_t labels4 __attribute__((vector_size(16), aligned(4), may_alias));

/* The first element of row[first] to row[end - 1] that is neither 0 nor `label`; 0: there is none.
 */
static int32_t find_other(const int32_t *row, uint32_t first, uint32_t end, int32_t label)
{
    uint32_t x = first;

    for (; end - x >= 4; x += 4) {
        const labels4 v = *(const labels4 *)(const void *)(row + x);
        const lanes other = (lanes)((v != 0) & (v != label));

        if ((other[0] | other[1]) != 0)
            break;
    }
    for (; x < end; x++)
        if (row[x] != 0 && row[x] != label)
            return row[x];
    return 0;
}

/* Adds the voxels from x to end - 1 of the row at z and y. */
static void add_run(an_extent *e, int64_t z, int64_t y, int64_t x, int64_t end)
{
    const int64_t lo[3] = { z, y, x }, hi[3] = { z + 1, y + 1, end }, n = end - x;

    for (int k = 0; k < 3; k++) {
        e->lo[k] = e->voxels == 0 || lo[k] < e->lo[k] ? lo[k] : e->lo[k];
        e->hi[k] = e->voxels == 0 || hi[k] > e->hi[k] ? hi[k] : e->hi[k];
    }
    e->sum[0] += z * n;
    e->sum[1] += y * n;
    e->sum[2] += (x + end - 1) * n / 2;
    e->voxels += n;
}

tc_status an_read_labels(const wu_out_array *labels, const wu_item *item, an_separation separation,
                         int32_t n, an_extent *extents, tc_err *err)
{
    assert(labels->info.dtype == WU_I32 && n >= 0);
    const char *const name = labels->info.name;
    const uint32_t nx = item->nx, ny = item->ny, side = separation == AN_APART_8 ? 1 : 0;
    const int32_t *row = labels->data;
    int32_t seen = 0;

    for (uint32_t z = 0; z < item->nz; z++)
        for (uint32_t y = 0; y < ny; y++, row += nx)
            for (uint32_t x = 0, end; x < nx; x = end) {
                const int32_t label = row[x];
                int32_t other = 0;

                if (label < 0 || label > n || label > seen + 1)
                    return tc_fail(err, TC_BAD_INPUT, "%s: label %ld of %ld comes after %ld", name,
                                   (long)label, (long)n, (long)seen);
                seen = label > seen ? label : seen;
                end = (uint32_t)wu_label_run_end((const uint32_t *)row, x, nx);
                if (label == 0)
                    continue;
                if (separation != AN_MAY_TOUCH && x > 0)
                    other = row[x - 1];
                if (separation != AN_MAY_TOUCH && other == 0 && y > 0)
                    other = find_other(row - nx, x > side ? x - side : 0,
                                       end + side < nx ? end + side : nx, label);
                if (separation == AN_APART_6 && other == 0 && z > 0)
                    other = find_other(row - (size_t)nx * ny, x, end, label);
                if (other != 0)
                    return tc_fail(err, TC_BAD_INPUT, "%s: labels %ld and %ld touch", name,
                                   (long)other, (long)label);
                add_run(&extents[label], z, y, x, end);
            }
    return TC_OK;
}
