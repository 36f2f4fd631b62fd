/* cellcount: declares the arrays of a result, fills them from the final state, checks states from
 * checkpoints, and writes notes about results. Used with both backends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/cellcount/cellcount.h"
#include "app/analysis/cellcount/core.h"
#include "app/analysis/check.h"
#include "app/base/os.h"

/* --- the arrays ------------------------------------------------------------------------------ */

static tc_status fill_table(const an_work *work, size_t item_index, const cc_region *regions,
                            size_t n, wu_output *out, tc_err *err)
{
    int64_t *const item = wu_output_data(out, "region_item");
    int64_t *const label = wu_output_data(out, "region_label");
    int64_t *const area = wu_output_data(out, "region_area");
    int64_t *const bbox = wu_output_data(out, "region_bbox");
    double *const centroid = wu_output_data(out, "region_centroid");
    double *const mean = wu_output_data(out, "region_mean");
    uint8_t *const border = wu_output_data(out, "region_border");

    for (size_t i = 0; i < n; i++) {
        const cc_region *const r = &regions[i + 1];

        item[i] = (int64_t)item_index;
        label[i] = (int64_t)i + 1;
        area[i] = (int64_t)r->area;
        bbox[4 * i] = r->y0;
        bbox[4 * i + 1] = r->x0;
        bbox[4 * i + 2] = r->y1;
        bbox[4 * i + 3] = r->x1;
        centroid[2 * i] = (double)r->sum_y / (double)r->area;
        centroid[2 * i + 1] = (double)r->sum_x / (double)r->area;
        mean[i] = (double)r->sum_grey / (double)r->area;
        border[i] = cc_at_border(r->x0, r->y0, r->x1, r->y1, work->item->nx, work->item->ny) != 0;
        if (i % 4096 == 0)
            return_if_error(tc_call_poll(work->poll, err));
    }
    return TC_OK;
}

static void measure_band(void *user, unsigned thread, size_t band)
{
    cc_measure_band(user, thread, band);
}

tc_status cc_regions(const an_work *work, const cc_state *state, const cc_region **regions,
                     cc_region **owned, tc_err *err)
{
    const uint32_t nx = work->item->nx, ny = work->item->ny;
    cc_measure m = { .plane = state->plane,
                     .pixels = work->pixels,
                     .poll = work->poll,
                     .nx = nx,
                     .ny = ny,
                     .rows = (size_t)state->regions + 1 };
    an_pool *pool = NULL;
    tc_status status;

    *owned = NULL;
    *regions = (const cc_region *)(const void *)((const char *)state + cc_table_at(nx, ny));
    if (m.rows <= cc_table_rows(nx, ny))
        return TC_OK;
    m.regions = os_alloc_zeroed(m.rows * sizeof *m.regions);
    status = m.regions == NULL ? tc_no_memory(err, "the regions")
                               : cc_measure_begin(&m, work->threads, err);
    if (status == TC_OK)
        status = an_pool_create(m.tables, &pool, err);
    if (status == TC_OK)
        status = an_pool_run_polled(pool, measure_band, &m, cc_bands(nx, ny), work->poll, err);
    an_pool_destroy(&pool);
    if (status == TC_OK)
        status = cc_measure_end(&m, err);
    if (status != TC_OK) {
        cc_measure_free(&m);
        free(m.regions);
        return status;
    }
    *regions = *owned = m.regions;
    return TC_OK;
}

static tc_status refuse_state(tc_err *err)
{
    return tc_fail(err, TC_BAD_INPUT, "the labels are damaged");
}

/* Returns TC_BAD_INPUT unless all values of the plane are from 0 to `most`. */
static tc_status check_plane(const an_work *work, const cc_state *state, uint64_t most, tc_err *err)
{
    const size_t n = (size_t)work->item->nx * work->item->ny;
    tc_status status = TC_OK;

    for (size_t i = 0, end; status == TC_OK && i < n;) {
        bool good = true;

        for (end = tc_block_end(i, n); i < end; i++)
            good = good && state->plane[i] >= 0 && (uint64_t)state->plane[i] <= most;
        status = good ? tc_call_poll(work->poll, err) : refuse_state(err);
    }
    return status;
}

tc_status cc_check_state(const an_work *work, const void *state_at, tc_err *err)
{
    const cc_params *const p = work->params;
    const cc_state *const state = state_at;
    const uint32_t nx = work->item->nx, ny = work->item->ny;
    const uint64_t done = state->head.chunks_done;
    /* Whether the threshold is possible: one that is found in a histogram is at least 1, even if
     * all pixels are equal. */
    const bool threshold_fits =
        cc_finds_threshold(p)
            ? state->threshold >= 1 && state->threshold < (uint32_t)1 << work->item->bits
            : state->threshold == 0;

    if (done == 0)
        return TC_OK;
    const bool window_fits = p->window_auto ? state->window % 2 == 1 && state->window >= 3 &&
                                                  state->window <= 2 * CC_MOST_RADIUS + 1
                                            : state->window == 0;
    const bool area_fits = p->min_area_auto ? state->min_area >= 1 && state->min_area <= INT32_MAX
                                            : state->min_area == 0;
    if (threshold_fits && window_fits && area_fits && done == work->plan.chunks &&
        state->regions <= (uint64_t)nx * ny)
        return check_plane(work, state, state->regions, err);
    /* At CC_RESUME the plane holds heights, or squared distances to the background. */
    if (threshold_fits && p->split && !p->min_contrast &&
        done == (uint64_t)CC_RESUME * cc_bands(nx, ny))
        return check_plane(work, state,
                           p->split == CC_INTENSITY ? (uint64_t)1 << work->item->bits
                                                    : (uint64_t)nx * nx + (uint64_t)ny * ny,
                           err);
    return refuse_state(err);
}

static const wu_axis box_axis = { .n = 4,
                                  .words = (const char *const[]){ "y0", "x0", "y1", "x1" } },
                     centroid_axis = { .n = 2, .words = (const char *const[]){ "y", "x" } };

tc_status cc_declare_arrays(const void *params, const wu_item *item, wu_output *out, tc_err *err)
{
    const wu_declaration arrays[] = {
        { "count", WU_I64, WU_VALUE, "items", .title = "count" },
        { "threshold", WU_I64, WU_VALUE, "items", .title = "threshold" },
        { "bright", WU_BOOL, WU_VALUE, "items", .title = "bright" },
        { "window", WU_I64, WU_VALUE, "items", .title = "window" },
        { "min_area", WU_I64, WU_VALUE, "items", .title = "min_area" },
        { "region_item", WU_I64, WU_ITEM, .table = "regions" },
        { "region_label", WU_I64, WU_KEY, "regions", .title = "label" },
        { "region_area", WU_I64, WU_VALUE, "regions", "area", .unit = "pixel^2" },
        { "region_bbox", WU_I64, WU_VALUE, "regions", "bbox", "pixel", .n_axes = 1,
          .axes = { box_axis } },
        { "region_centroid", WU_F64, WU_VALUE, "regions", "centroid", "pixel", .n_axes = 1,
          .axes = { centroid_axis } },
        { "region_mean", WU_F64, WU_VALUE, "regions", .title = "mean" },
        { "region_border", WU_BOOL, WU_VALUE, "regions", .title = "border" },
        { "labels_{item}", WU_I32, WU_LABELS, "regions", .title = "regions" },
    };
    const cc_params *const p = params;
    /* A local threshold applies to differences from the local mean; it is not a grey value of the
     * picture, so it is returned for validators only. */
    static const wu_declaration local_threshold = { "threshold", WU_I64, WU_PROOF, .table = NULL };
    enum { DECLARED = sizeof arrays / sizeof arrays[0], THRESHOLD = 1, BRIGHT, WINDOW, MIN_AREA };
    wu_declaration declared[DECLARED];
    size_t n = 0;

    for (size_t i = 0; i < (size_t)DECLARED - !p->labels; i++)
        if ((i != BRIGHT || p->polarity == CC_AUTO) && (i != WINDOW || p->window_auto) &&
            (i != MIN_AREA || p->min_area_auto))
            declared[n++] =
                i == THRESHOLD && p->threshold_word == CC_LOCAL ? local_threshold : arrays[i];
    return wu_output_declare(out, declared, n, item, err);
}

tc_status cc_finish(const an_work *work, size_t item_index, const void *state_at, wu_output *out,
                    tc_err *err)
{
    const cc_params *const p = work->params;
    const cc_state *const state = state_at;
    const size_t n = (size_t)state->regions;
    const cc_region *regions = NULL;
    TC_AUTOFREE cc_region *owned = NULL;
    cc_params resolved; /* with `bright` as found for this picture */
    return_if_error(cc_regions(work, state, &regions, &owned, err));

    return_if_error(cc_resolve_polarity(work, &resolved, err));
    return_if_error(cc_declare_arrays(p, work->item, out, err));
    if (p->labels)
        wu_output_lend(&out->arrays[out->n - 1], state->plane);
    return_if_error(wu_output_allocate(out, n, err));
    if (p->polarity == CC_AUTO)
        *(uint8_t *)wu_output_data(out, "bright") = resolved.bright;
    *(int64_t *)wu_output_data(out, "count") = (int64_t)n;
    *(int64_t *)wu_output_data(out, "threshold") =
        cc_finds_threshold(p) ? (int64_t)state->threshold
                              : (int64_t)cc_threshold(&resolved, work->item->bits);
    if (p->window_auto)
        *(int64_t *)wu_output_data(out, "window") = (int64_t)state->window;
    if (p->min_area_auto)
        *(int64_t *)wu_output_data(out, "min_area") = (int64_t)state->min_area;
    return fill_table(work, item_index, regions, n, out, err);
}

/* Whether a region covers half of the picture or more, or the only region covers more than a fifth
 * (0.4 times one half) and reaches from one edge of the picture to the opposite edge. Returns false
 * if the picture's size is not known (0). */
static bool covers_most(const wu_item *item, const wu_output *out, uint64_t n)
{
    const int64_t *const area = wu_output_data(out, "region_area");
    const int64_t *const bbox = wu_output_data(out, "region_bbox");
    const double half = (double)item->nx * item->ny / 2;
    bool covers = half > 0 && n == 1 && (double)area[0] > 0.4 * half &&
                  ((bbox[0] == 0 && bbox[2] == item->ny) || (bbox[1] == 0 && bbox[3] == item->nx));

    for (uint64_t i = 0; half > 0 && i < n; i++)
        covers = covers || (double)area[i] >= half;
    return covers;
}

bool cc_note_result(const void *params, const wu_item *item, const wu_output *out, char *text,
                    size_t size)
{
    enum { SPECK = 9 /* area in pixels: 3 by 3 */, FEW = 4 /* least number of regions */ };
    const cc_params *const p = params;
    const int64_t *const area = wu_output_data(out, "region_area");
    const int64_t *const bbox = wu_output_data(out, "region_bbox");
    const uint64_t n = wu_output_find(out, "region_area")->info.shape[0];
    const int64_t least =
        p->min_area_auto ? *(const int64_t *)wu_output_data(out, "min_area") : p->min_area;
    const char *const other_polarity = p->polarity == CC_AUTO     ? "dark or bright"
                                       : p->polarity == CC_BRIGHT ? "dark"
                                                                  : "bright";

    /* The numbers are untrusted: products of box sides are computed as double, as they may overflow
     * int64. */
    if (n == 0)
        snprintf(text, size,
                 "no cells: %stry another --param polarity or threshold, a smaller min_area, or no "
                 "max_area and exclude_border",
                 item->n_masks > 0 ? "the mask may be empty, else " : "");
    else if (n == 1 && (item->nx > 0 ? area[0] == (int64_t)item->nx * item->ny
                                     : bbox[0] == 0 && bbox[1] == 0 &&
                                           (double)area[0] == (double)bbox[2] * (double)bbox[3]))
        snprintf(
            text, size,
            "one region is the whole picture, so the background was taken for cells: try --param "
            "polarity=%s, or another threshold",
            other_polarity);
    else if (covers_most(item, out, n))
        snprintf(text, size,
                 "one region covers most of the picture or reaches across it: the background was "
                 "taken for cells (try "
                 "--param polarity=%s, or another threshold)%s",
                 other_polarity,
                 p->fill_holes ? ", or what a frame or a ring of cells encloses was filled (try "
                                 "--param fill_holes=false)"
                               : "");
    else if (an_mostly_below(out, "region_area", SPECK, AN_MANY_CELLS))
        snprintf(text, size,
                 "most of the %llu regions have fewer than %d pixels, as noise has: try a larger "
                 "--param min_area (now %lld) or smooth (now %g)",
                 (unsigned long long)n, SPECK, (long long)least, p->smooth);
    else if (least > 1 && least < INT64_MAX / 2 &&
             an_mostly_below(out, "region_area", 2 * least, p->min_area_auto ? AN_MANY_CELLS : FEW))
        snprintf(
            text, size,
            "most of the %llu regions have less than twice min_area (now %lld), which cuts through "
            "what is counted. If these are cells, try a smaller --param min_area; if not, another "
            "threshold or a larger smooth (now %g)",
            (unsigned long long)n, (long long)least, p->smooth);
    else
        return false;
    return true;
}
