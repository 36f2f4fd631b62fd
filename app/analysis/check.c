/* Helpers for checking the arrays of a result: see check.h. */
#include "app/analysis/check.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "app/analysis/bits.h"

tc_status an_check_range(const wu_output *out, const char *name, int64_t lo, int64_t hi,
                         tc_err *err)
{
    assert(wu_output_find(out, name)->info.dtype == WU_I64);
    const wu_out_array *const array = wu_output_find(out, name);
    const int64_t *const v = array->data;
    int ok = 0;
    const uint64_t n = wu_array_count(&array->info, &ok);

    for (uint64_t i = 0; i < n; i++)
        if (v[i] < lo || v[i] > hi) /* a row has n / shape[0] elements */
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

tc_status an_fail_impossible(const char *name, uint64_t row, const char *what, tc_err *err)
{
    return tc_fail(err, TC_BAD_INPUT, "%s: row %llu: %s", name, (unsigned long long)row, what);
}

/* --- labels ---------------------------------------------------------------------------------- */

/* Vectors of 16 bytes at any address that is a multiple of 4: two or four integers. */
typedef uint64_t lanes __attribute__((vector_size(16), aligned(4), may_alias));

typedef int32_t labels4 __attribute__((vector_size(16), aligned(4), may_alias));

/* Returns the first of the labels row[first] to row[end - 1] that is neither 0 nor `label`, or 0 if
 * there is none. */
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

/* Adds the voxels from x to end - 1 of the row at z and y to the extent *e. */
static void add_run(an_extent *e, int64_t z, int64_t y, int64_t x, int64_t end)
{
    const int64_t lo[3] = { z, y, x }, hi[3] = { z + 1, y + 1, end }, n = end - x;

    for (int k = 0; k < 3; k++) {
        e->lo[k] = e->voxels == 0 || lo[k] < e->lo[k] ? lo[k] : e->lo[k];
        e->hi[k] = e->voxels == 0 || hi[k] > e->hi[k] ? hi[k] : e->hi[k];
    }
    e->sum[0] += z * n;
    e->sum[1] += y * n;
    e->sum[2] += (x + end - 1) * n / 2; /* x + (x + 1) + ... + (end - 1) */
    e->voxels += n;
}

/* The pixels from begin to end - 1 of a row, which have the same label. */
typedef struct label_run {
    uint32_t begin, end;
    int32_t label;
} label_run;

/* Appends the run [begin, x) to the n runs, unless its label is 0. Returns the new number of runs.
 */
static inline size_t end_run(const int32_t *row, uint32_t begin, uint32_t x, label_run *runs,
                             size_t n)
{
    runs[n] = (label_run){ begin, x, row[begin] };
    return n + (row[begin] != 0);
}

/* Lists the runs of labels other than 0 of a row with nx pixels. runs: room for nx + 1. Returns
 * their number. */
static size_t list_runs(const int32_t *row, uint32_t nx, label_run *runs)
{
    enum { WORD = 64 }; /* pixels that an_bits_changes compares with the pixels after them */
    uint32_t begin = 0, x = 0;
    size_t n = 0;

    while (nx > WORD && x + 1 < nx) {
        /* The last word begins before x, so that the pixel after it is in the row; its bits before
         * x are cleared. */
        const uint32_t at = x + WORD < nx ? x : nx - WORD - 1;

        for (uint64_t bits = an_bits_changes(row + at) >> (x - at) << (x - at); bits != 0;
             bits &= bits - 1) { /* for each bit that is set */
            const uint32_t end = at + (uint32_t)__builtin_ctzll(bits) + 1;

            n = end_run(row, begin, end, runs, n);
            begin = end;
        }
        x = at + WORD;
    }
    for (x++; nx <= WORD && x < nx; x++)
        if (row[x] != row[x - 1]) {
            n = end_run(row, begin, x, runs, n);
            begin = x;
        }
    return end_run(row, begin, nx, runs, n);
}

/* Returns the label of a run that touches r and has another label, or 0 if there is none: the run
 * to the left of r (r[-1], if has_left is set) or one of the n runs of the row above. side: 1 if
 * pixels that share only a corner touch, else 0. *first: the index in `above` to begin at, which
 * this advances to the first run that does not end before r, for the next call. */
static int32_t find_touching(const label_run *r, bool has_left, const label_run *above, size_t n,
                             uint32_t side, size_t *first)
{
    if (has_left && r[-1].end == r->begin)
        return r[-1].label;
    while (*first < n && above[*first].end + side <= r->begin)
        ++*first;
    for (size_t i = *first; i < n && above[i].begin < r->end + side; i++)
        if (above[i].label != r->label)
            return above[i].label;
    return 0;
}

tc_status an_read_labels(const wu_out_array *labels, const wu_item *item, an_separation separation,
                         int32_t n, an_extent *extents, tc_err *err)
{
    assert(labels->info.dtype == WU_I32 && n >= 0);
    const char *const name = labels->info.name;
    const uint32_t nx = item->nx, ny = item->ny, side = separation == AN_APART_8 ? 1 : 0;
    const size_t room = (size_t)nx + 1;
    const int32_t *row = labels->data;
    int32_t seen = 0;
    TC_AUTOFREE label_run *const lists = malloc(2 * room * sizeof *lists);
    if (lists == NULL)
        return tc_no_memory(err, name);
    size_t n_above = 0; /* number of runs of the previous row */

    for (uint32_t z = 0; z < item->nz; z++)
        for (uint32_t y = 0; y < ny; y++, row += nx) {
            label_run *const runs = lists + y % 2 * room, *const above = lists + (y + 1) % 2 * room;
            const size_t n_runs = list_runs(row, nx, runs);
            size_t first = 0;

            for (size_t i = 0; i < n_runs; i++) {
                const label_run *const r = &runs[i];
                int32_t other = 0;

                if (r->label < 0 || r->label > n || r->label > seen + 1)
                    return tc_fail(err, TC_BAD_INPUT, "%s: label %ld of %ld comes after %ld", name,
                                   (long)r->label, (long)n, (long)seen);
                seen = r->label > seen ? r->label : seen;
                if (separation != AN_MAY_TOUCH)
                    other = find_touching(r, i > 0, above, y > 0 ? n_above : 0, side, &first);
                if (separation == AN_APART_6 && other == 0 && z > 0)
                    other = find_other(row - (size_t)nx * ny, r->begin, r->end, r->label);
                if (other != 0)
                    return tc_fail(err, TC_BAD_INPUT, "%s: labels %ld and %ld touch", name,
                                   (long)other, (long)r->label);
                add_run(&extents[r->label], z, y, r->begin, r->end);
            }
            n_above = n_runs;
        }
    return TC_OK;
}
