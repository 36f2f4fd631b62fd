/* cellcount: which pictures, and how the work is cut. */
#include "app/analysis/cellcount/cpu.h"

#include "app/analysis/selftest.h"

static tc_status check_item(const void *params, const wu_item *item, const char *where, tc_err *err)
{
    const cc_params *const p = params;
    const uint64_t n = (uint64_t)item->nx * item->ny;

    if (item->is_stack)
        return tc_fail(err, TC_BAD_INPUT, "%s: is a stack; cellcount takes pictures", where);
    if (item->n_masks > 0)
        return tc_fail(err, TC_BAD_INPUT, "%s: has a mask; cellcount takes none", where);
    if (p->threshold_word == CC_LOCAL && (uint32_t)p->offset >= cc_middle(item->bits))
        return tc_fail(err, TC_BAD_INPUT, "%s: has %u bits a pixel, so parameters.offset cannot be %d", where, item->bits,
                       (int)p->offset);
    if (p->threshold_word == 0 && p->threshold >= 1 << item->bits)
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
    const uint64_t apart = p->eight_connected ? (nx + 1) / 2 * ((ny + 1) / 2) : (nx * ny + 1) / 2;
    const uint64_t fit = nx * ny / (uint64_t)(p->min_area > 1 ? p->min_area : 1);

    return fit < apart ? fit : apart;
}

/* Operations a pixel before the threshold. */
static double preparing(const cc_params *p)
{
    const double smooth = p->smooth > 0 ? 60 + 30 * p->smooth : 0, mean = 60;
    const double ground = !p->background ? 0 : p->ground == CC_OPENING ? 120 + 8.0 * p->radius : mean;

    return smooth + ground + (p->threshold_word == CC_LOCAL ? mean : 0);
}

static tc_status plan(const void *params, const wu_item *item, an_plan *out, tc_err *err)
{
    /* of the result: item, label, area; box; centroid; mean; border */
    enum { ROW_BYTES = 3 * 8 + 4 * 8 + 2 * 8 + 8 + 1 };
    const cc_params *const p = params;
    const uint64_t regions = most_regions(p, item);
    const uint64_t n = (uint64_t)item->nx * item->ny;
    const uint64_t usual = n / PLAN_PIXELS_A_ROW < regions ? n / PLAN_PIXELS_A_ROW : regions;
    /* Bits and ids; the threads' tables; another plane with a split or a device, with a split also bytes. */
    const uint64_t work = n / 8 + lab_ids(item->nx, item->ny) * sizeof(int32_t) + n * 4 + (p->split ? n * (1 + 4) : n * 4);
    /* Saddles, twice while they are sorted: some of each part, or of every pixel. */
    const uint64_t saddle = p->split ? 2 * sizeof(ws_saddle) : 0;
    const edt_job edt = { .nx = item->nx, .ny = item->ny, .nz = 1 };

    (void)err;
    out->portions = (uint64_t)cc_bands(item->nx, item->ny) * CC_PHASES;
    out->state_bytes = cc_table_at(item->nx, item->ny) + cc_table_rows(item->nx, item->ny) * sizeof(cc_region);
    /* The state once: labels are lent from it. */
    out->memory_bytes = n * (item->bits / 8) + out->state_bytes + work + ((uint64_t)16 << 20);
    out->most_memory_bytes = out->memory_bytes + regions * (sizeof(cc_region) + ROW_BYTES) + n * saddle;
    out->memory_bytes += usual * (sizeof(cc_region) + ROW_BYTES) + 4 * (n / PLAN_PIXELS_A_ROW) * saddle;
    out->thread_bytes = (item->nx + (uint64_t)CC_PAD) * 7 * sizeof(int32_t) + ((uint64_t)8 << item->bits)
                      + (p->split ? edt_scratch_bytes(&edt) : 0) + PLAN_THREAD;
    if (cc_prepares(p)) {
        out->thread_bytes += cc_prepare_scratch(p, item->nx);
        out->memory_bytes += 3 * n * (item->bits / 8);
        out->most_memory_bytes += 3 * n * (item->bits / 8);
    }
    out->most_rows = regions;
    out->flops = ((p->split ? 200.0 : 40.0) + (p->labels ? 100.0 : 0.0)) * (double)n + preparing(p) * (double)n;
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

/* --- the analysis ------------------------------------------------------------- */

static const an_selftest selftests[] = {
    { "{\"threshold\":\"otsu\",\"polarity\":\"bright\",\"min_area\":3}", 150, 131, 1, 8, false, 0xef5a6226 },
    { "{\"threshold\":30000,\"polarity\":\"bright\",\"connectivity\":4,\"fill_holes\":true,"
      "\"split\":\"distance\",\"max_area\":200}", 127, 140, 1, 16, false, 0x2df7eed6 },
    { "{\"threshold\":70,\"polarity\":\"dark\",\"fill_holes\":true,\"split\":\"distance\","
      "\"exclude_border\":true}", 140, 99, 1, 8, false, 0x740d0fd6 },
    { "{\"smooth\":0.7,\"background\":{\"radius\":6},\"split\":\"intensity\",\"h\":4}", 90, 77, 1, 8, false, 0x655b2ec2 },
    { "{\"threshold\":\"local\",\"window\":21,\"offset\":900,\"polarity\":\"bright\",\"background\":{\"method\":\"lines\","
      "\"radius\":30,\"by\":\"ratio\"}}", 66, 54, 1, 16, false, 0x3e6fe3f5 },
    { .parameters = NULL }
};

static uint8_t found(const an_work *work, const void *state, size_t voxel)
{
    const int32_t label = ((const cc_state *)state)->plane[voxel];

    (void)work;
    return label > 0 ? (uint8_t)(1 + (uint32_t)label * 37 % 255) : 0;
}

const an_analysis an_cellcount = {
    .name = "cellcount",
    .summary = "counts and measures cells (connected components of a thresholded picture)",
    .cite = "N. Otsu, A threshold selection method from gray-level histograms, IEEE Transactions on Systems, "
            "Man and Cybernetics 9 (1979) 62-66.",
    .params_bytes = sizeof(cc_params),
    .parameters = cc_parameters,
    .derive_params = cc_derive_params,
    .check_item = check_item,
    .plan = plan,
    .init = an_starts_zeroed,
    .check_state = cc_check_state,
    .finish = cc_finish,
    .found = found,
    .note_result = cc_note_result,
    .expect = cc_expect,
    .check_result = cc_check_result,
    .check_pixels = cc_check_pixels,
    .pixels_share = cc_pixels_share,
    .suggest = cc_suggest,
    .cpu = &cc_cpu,
    .selftests = selftests
};
