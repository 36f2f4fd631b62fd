#include "app/analysis/cellcount/cpu.h"

#include <stdlib.h>
#include <string.h>

#include "app/analysis/common/edt.h"
#include "app/analysis/selftest.h"

#define FIELD(field) AN_FIELD(cc_params, field)

static const char *const otsu[] = { "otsu", NULL }, *const polarities[] = { "dark", "bright", NULL };
static const char *const neighbours[] = { "4", "8", NULL }, *const splits[] = { "none", "distance", NULL };
static const char *const no_limit[] = { "null", NULL };

static const an_param parameters[] = {
    { "threshold", AN_INT, FIELD(threshold), .min = 0, .max = 65535, .choices = otsu, .word = FIELD(otsu),
      .initial = "otsu", .unit = "grey values",
      .help = "T, up to the greatest value of the item's depth; otsu: the one that separates two classes best." },
    { "polarity", AN_CHOICE, FIELD(bright), .choices = polarities, .initial = "dark",
      .help = "dark: cells are where value < T; bright: where value >= T." },
    { "connectivity", AN_CHOICE, FIELD(diagonal), .choices = neighbours, .initial = "8",
      .help = "How many of a pixel's neighbours belong to the same cell if they are cell." },
    { "fill_holes", AN_BOOL, FIELD(fill_holes), .initial = "false",
      .help = "Whether background that is not connected with the picture's border becomes cell; background is "
              "connected by 4 where cells are by 8, and the reverse." },
    { "min_area", AN_INT, FIELD(min_area), .min = 1, .max = WU_MAX_VOXELS, .initial = "1", .unit = "pixels",
      .help = "Smaller regions are left out." },
    { "max_area", AN_INT, FIELD(max_area), .min = 1, .max = WU_MAX_VOXELS, .choices = no_limit, .initial = "null",
      .unit = "pixels", .help = "Larger regions are left out; null: none." },
    { "exclude_border", AN_BOOL, FIELD(exclude_border), .initial = "false",
      .help = "Whether regions that touch the picture's border are left out." },
    { "split", AN_CHOICE, FIELD(split), .choices = splits, .initial = "none",
      .help = "distance: cells that touch are separated where they are narrow." },
    { "labels", AN_BOOL, FIELD(labels), .initial = "false", .help = "Whether labels_<item> is returned." },
    { .key = NULL }
};

static tc_status derive_params(void *params, const char *where, tc_err *err)
{
    cc_params *const p = params;

    p->threshold = p->otsu ? CC_THRESHOLD_OTSU : p->threshold;
    p->max_area = p->max_area == 0 ? INT64_MAX : p->max_area;
    if (p->max_area < p->min_area)
        return tc_fail(err, TC_BAD_INPUT, "%s.max_area: must not be smaller than min_area", where);
    return TC_OK;
}

/* --- items -------------------------------------------------------------------- */

static tc_status check_item(const void *params, const wu_item *item, const char *where, tc_err *err)
{
    const cc_params *const p = params;
    const uint64_t n = (uint64_t)item->nx * item->ny;

    if (item->is_stack)
        return tc_fail(err, TC_BAD_INPUT, "%s: is a stack; cellcount takes pictures", where);
    if (item->n_masks > 0)
        return tc_fail(err, TC_BAD_INPUT, "%s: has a mask; cellcount takes none", where);
    if (p->threshold >= 1 << item->bits)
        return tc_fail(err, TC_BAD_INPUT, "%s: has %u bits a pixel, so parameters.threshold cannot be %d",
                       where, item->bits, (int)p->threshold);
    if (p->labels && n * sizeof(int32_t) >= ((uint64_t)4 << 20) * 1023)
        return tc_fail(err, TC_BAD_INPUT, "%s: %llu pixels are too many for a label image; "
                       "set parameters.labels to false", where, (unsigned long long)n);
    return TC_OK;
}

/* About a quarter of a million pixels to a band. */
uint32_t cc_band_rows(uint32_t nx)
{
    return ((uint32_t)1 << 18) / nx + 1;
}

uint32_t cc_bands(uint32_t nx, uint32_t ny)
{
    return (ny + cc_band_rows(nx) - 1) / cc_band_rows(nx);
}

/* The most regions that a result can have: isolated pixels, or as many as fit of
 * the least area. A split keeps to it: no two of its markers touch. */
static uint64_t most_regions(const cc_params *p, const wu_item *item)
{
    const uint64_t nx = item->nx, ny = item->ny;
    const uint64_t apart = p->diagonal ? (nx + 1) / 2 * ((ny + 1) / 2) : (nx * ny + 1) / 2;
    const uint64_t fit = nx * ny / (uint64_t)(p->min_area > 1 ? p->min_area : 1);

    return fit < apart ? fit : apart;
}

static tc_status plan(const void *params, const wu_item *item, an_plan *out, tc_err *err)
{
    /* of the result: item, label, area; box; centroid; mean; border */
    enum { ROW_BYTES = 3 * 8 + 4 * 8 + 2 * 8 + 8 + 1 };
    const cc_params *const p = params;
    const uint64_t regions = most_regions(p, item);
    const uint64_t n = (uint64_t)item->nx * item->ny;
    /* bits and ids; the threads' tables; another plane with a split or a device;
     * with a split also bytes and, at worst, the saddles */
    const uint64_t work = n / 8 + lab_ids(item->nx, item->ny) * sizeof(int32_t) + n * 4
                        + (p->split ? n * (1 + 4 + 2 * sizeof(cc_saddle)) : n * 4);

    (void)err;
    out->units = (uint64_t)cc_bands(item->nx, item->ny) * CC_PHASES;
    out->state_bytes = cc_table_at(item->nx, item->ny) + cc_table_rows(item->nx, item->ny) * sizeof(cc_region);
    out->memory_bytes = n * (item->bits / 8) + 2 * out->state_bytes + work + ((uint64_t)16 << 20)
                      + regions * (sizeof(cc_region) + ROW_BYTES);
    out->flops = (p->split ? 400.0 : 50.0) * (double)n;
    return TC_OK;
}

static tc_status init(const an_task *task, void *state, tc_err *err)
{
    (void)task;
    (void)state;
    (void)err;
    return TC_OK;
}

bool cc_filters(const cc_params *p)
{
    return p->min_area > 1 || p->max_area < INT64_MAX || p->exclude_border;
}

bool cc_kept(const cc_params *p, int64_t area, bool border)
{
    return area >= p->min_area && area <= p->max_area && !(p->exclude_border && border);
}

/* --- Otsu --------------------------------------------------------------------- */

typedef unsigned __int128 u128;

/* 256-bit products, as four words, least first. */
typedef struct wide {
    uint64_t word[4];
} wide;

/* a^2 * b, a < 2^80, b < 2^64: below 2^224. */
static wide square_times(u128 a, uint64_t b)
{
    const uint64_t lo = (uint64_t)a, hi = (uint64_t)(a >> 64);
    const u128 low = (u128)lo * lo, cross = (u128)lo * hi, high = (u128)hi * hi;
    uint64_t square[3];
    wide out;
    u128 t = low >> 64;

    square[0] = (uint64_t)low;
    t += (u128)(uint64_t)cross * 2;
    square[1] = (uint64_t)t;
    t = (t >> 64) + (cross >> 64) * 2 + high;
    square[2] = (uint64_t)t;
    t = 0;
    for (int i = 0; i < 3; i++) {
        t += (u128)square[i] * b;
        out.word[i] = (uint64_t)t;
        t >>= 64;
    }
    out.word[3] = (uint64_t)t;
    return out;
}

static bool greater(const wide *a, const wide *b)
{
    for (int i = 3; i >= 0; i--)
        if (a->word[i] != b->word[i])
            return a->word[i] > b->word[i];
    return false;
}

/* With n0, n1 pixels of sums s0, s1 below and above, the between-class variance
 * is (s0 n1 - s1 n0)^2 / (n0 n1), but for a constant. Two of these fractions
 * are compared by cross-multiplication: n < 2^31, s < 2^47, so the difference
 * is below 2^78 and its square times n0 n1 below 2^218. */
uint32_t cc_otsu(const uint64_t *histogram, uint32_t size)
{
    uint64_t n = 0, s = 0, n0 = 0, s0 = 0, best_weight = 1;
    u128 best = 0;
    uint32_t threshold = 0;

    for (uint32_t v = 0; v < size; v++) {
        n += histogram[v];
        s += v * histogram[v];
    }
    for (uint32_t t = 0; t < size; t++) {
        uint64_t weight;
        u128 a, b, difference;
        wide here, there;

        n0 += histogram[t];
        s0 += t * histogram[t];
        weight = n0 * (n - n0);
        if (weight == 0 || histogram[t] == 0)
            continue;
        a = (u128)s0 * (n - n0);
        b = (u128)(s - s0) * n0;
        difference = a > b ? a - b : b - a;
        here = square_times(difference, best_weight);
        there = square_times(best, weight);
        if (greater(&here, &there)) {
            best = difference;
            best_weight = weight;
            threshold = t;
        }
    }
    return threshold + 1;
}

/* --- the analysis ------------------------------------------------------------- */

static const an_selftest selftests[] = {
    { "{\"threshold\":\"otsu\",\"polarity\":\"bright\",\"min_area\":3}", 150, 131, 1, 8, false, 0x92bf0347 },
    { "{\"threshold\":30000,\"polarity\":\"bright\",\"connectivity\":4,\"fill_holes\":true,"
      "\"split\":\"distance\",\"max_area\":200}", 127, 140, 1, 16, false, 0xbeedc18b },
    { "{\"threshold\":70,\"polarity\":\"dark\",\"fill_holes\":true,\"split\":\"distance\","
      "\"exclude_border\":true}", 140, 99, 1, 8, false, 0x86b615a1 },
    { .parameters = NULL }
};

const an_analysis an_cellcount = {
    .name = "cellcount",
    .summary = "counts and measures cells (connected components of a thresholded picture)",
    .params_bytes = sizeof(cc_params),
    .parameters = parameters,
    .derive_params = derive_params,
    .check_item = check_item,
    .plan = plan,
    .init = init,
    .finish = cc_finish,
    .expect = cc_expect,
    .check_result = cc_check_result,
    .cpu = &cc_cpu,
    .selftests = selftests
};
