/*
 * cellcount: finds the values of parameters that depend on the picture. The threshold is computed
 * from the histogram of the prepared grey values (always on the host, even if a device does the
 * rest of the analysis), the polarity from the histogram of the original grey values, and the
 * window of a local threshold from the sizes of the regions in the picture's middle.
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "app/analysis/analyses.h"
#include "app/analysis/cellcount/cellcount.h"
#include "app/analysis/suggest.h"

typedef unsigned __int128 u128;

bool cc_finds_threshold(const cc_params *p)
{
    return p->threshold_word == CC_OTSU || (p->threshold_word == CC_LOCAL && p->offset_percent > 0);
}

/* Returns the offset of a local threshold: `percent` per cent of the difference between the means
 * of the two classes that Otsu's threshold separates, rounded, and limited to 1 to size / 2 - 1.
 * histogram: [size], of the prepared grey values. */
static uint32_t find_offset(const uint64_t *histogram, uint32_t size, int32_t percent)
{
    const uint32_t otsu = an_otsu_threshold(histogram, size);
    uint64_t n[2] = { 0, 0 }, sum[2] = { 0, 0 };
    u128 num, den, offset; /* offset = num / den, rounded; the means are sum[i] / n[i] */

    for (uint32_t v = 0; v < size; v++) {
        n[v >= otsu] += histogram[v];
        sum[v >= otsu] += v * histogram[v];
    }
    if (n[0] == 0 || n[1] == 0)
        return 1;
    num = (u128)(uint32_t)percent * ((u128)sum[1] * n[0] - (u128)sum[0] * n[1]);
    den = (u128)100 * n[0] * n[1];
    offset = (2 * num + den) / (2 * den);
    return offset < 1 ? 1 : offset < size / 2 ? (uint32_t)offset : size / 2 - 1;
}

tc_status cc_find_threshold(const cc_params *p, const uint64_t *histogram, unsigned bits,
                            uint32_t *threshold, tc_err *err)
{
    const uint32_t size = (uint32_t)1 << bits, middle = cc_middle_grey(bits);

    if (p->threshold_word != CC_LOCAL)
        return an_otsu_classes(histogram, size, (an_otsu_scale)p->scale, (unsigned)p->classes,
                               p->bright, threshold, err);
    const uint32_t offset = find_offset(histogram, size, p->offset_percent);
    *threshold = p->bright ? middle + offset : middle - offset;
    return TC_OK;
}

tc_status cc_resolve_polarity(const an_work *work, cc_params *out, tc_err *err)
{
    *out = *(const cc_params *)work->params;
    return out->polarity == CC_AUTO ? an_find_polarity(work->pixels, work->poll, &out->bright, err)
                                    : TC_OK;
}

/* --- the size of cells ----------------------------------------------------------------------- */

int64_t cc_least_area(int64_t half, int64_t tenth, bool bright)
{
    /* Dark cells, as in bright-field pictures, have similar sizes; there, regions much smaller than
     * the quantile 1/10 are dirt or platelets. */
    const int64_t share = half / 25, least = bright ? 0 : tenth / 3;

    return share > least && share > 1 ? share : least > 1 ? least : 1;
}

int64_t cc_full_area(int64_t half)
{
    return half > 3 ? half / 3 : 1;
}

double cc_diameter(int64_t area)
{
    return 2 * sqrt((double)area / 3.14159265358979);
}

int64_t cc_area_quantile(int64_t *area, size_t n, int64_t numerator, int64_t denominator)
{
    assert(numerator >= 0 && numerator <= denominator && denominator > 0);
    int64_t sum = 0, below = 0;
    size_t k = 0;

    if (n == 0)
        return INT64_MAX;
    qsort(area, n, sizeof *area, an_compare_areas);
    for (size_t i = 0; i < n; i++)
        sum += area[i];
    while (k + 1 < n && (below += area[k]) * denominator < numerator * sum)
        k++;
    return area[k];
}

/* Analyses the pixels, and sets *area to the typical area of regions (cc_area_quantile with 1/2):
 * the least A such that at least half of the pixels of all regions are in regions of at most A
 * pixels. Sets *area to INT64_MAX if there are no regions. */
static tc_status find_typical_area(const an_work *work, int64_t *area, tc_err *err)
{
    an_work plan_work = *work;
    const cc_region *regions = NULL;
    TC_AUTOFREE cc_region *owned = NULL;
    *area = INT64_MAX;
    return_if_error(an_cellcount.plan(work->params, work->item, &plan_work.plan, err));

    TC_AUTOFREE void *const state = calloc(1, plan_work.plan.state_bytes);
    if (state == NULL)
        return tc_no_memory(err, "the areas of cells");
    return_if_error(an_run_chunks(&an_cellcount, &cc_cpu, &plan_work, state, 0, err));
    return_if_error(cc_regions(&plan_work, state, &regions, &owned, err));

    const size_t n = ((const cc_state *)state)->regions;
    TC_AUTOFREE int64_t *const areas = calloc(n + 1, sizeof *areas);
    if (areas == NULL)
        return tc_no_memory(err, "the areas of cells");
    for (size_t i = 0; i < n; i++)
        areas[i] = regions[i + 1].area;
    *area = cc_area_quantile(areas, n, 1, 2);
    return TC_OK;
}

tc_status cc_find_radius(const cc_params *p, const wu_pixels *px, unsigned threads,
                         const tc_poll *poll, int64_t *radius, bool *smaller, tc_err *err)
{
    enum {
        LEAST_RADIUS = 4, /* pixels */
        TRIES = 6         /* greatest number of analyses with a local threshold */
    };
    const int64_t most = (px->nx < px->ny ? px->nx : px->ny) / 4;
    const wu_item item = { .name = (char *)(uintptr_t)"the middle of a picture",
                           .nx = px->nx,
                           .ny = px->ny,
                           .nz = 1,
                           .n_images = 1,
                           .bits = px->bits,
                           .channels = 1 };
    cc_params params = *p;
    const an_work work = {
        .params = &params, .item = &item, .pixels = px, .threads = threads, .poll = poll
    };
    int64_t area;

    params.polarity = p->bright ? CC_BRIGHT : CC_DARK;
    params.threshold_word = CC_OTSU;
    params.classes = 2;
    params.scale = AN_OTSU_LINEAR;
    params.window_auto = params.min_area_auto = 0;
    params.labels = false;
    /* No filter is applied, as removed regions would distort the typical area. */
    params.min_contrast = params.exclude_border = false;
    params.min_fill = params.max_aspect = 0;
    params.min_area = 1;
    params.max_area = INT64_MAX;
    tc_status status = find_typical_area(&work, &area, err);
    /* The first radius of the window is the diameter of the cells that Otsu's threshold finds. */
    int64_t r = /* the radius of the next try */
        status == TC_OK && area != INT64_MAX ? (int64_t)(cc_diameter(area) + 0.5) : LEAST_RADIUS;

    params.threshold_word = CC_LOCAL;
    r = r > most ? most : r;
    *smaller = false;
    for (int k = 0; status == TC_OK && k < TRIES && r > LEAST_RADIUS; k++) {
        params.window =
            (int32_t)(2 * r + 1 < 2 * CC_MOST_RADIUS + 1 ? 2 * r + 1 : 2 * CC_MOST_RADIUS + 1);
        status = find_typical_area(&work, &area, err);
        if (status != TC_OK || area == INT64_MAX || cc_diameter(area) >= 0.9 * (double)r)
            break;
        /* The cells are clearly smaller than assumed: tries again with their diameter as radius. */
        r = (int64_t)(cc_diameter(area) + 0.5);
        *smaller = true;
    }
    *radius = r > LEAST_RADIUS ? r : LEAST_RADIUS;
    return status;
}

int32_t cc_window_of(int64_t radius)
{
    /* So the window's side is about 2.4 times the radius that cc_find_radius found. */
    const int64_t half = (int64_t)(1.2 * (double)radius + 0.5);

    return (int32_t)(2 * (half < CC_MOST_RADIUS ? half : CC_MOST_RADIUS) + 1);
}

tc_status cc_resolve_params(const an_work *work, cc_params *out, tc_err *err)
{
    TC_AUTO(wu_pixels_free) wu_pixels middle = { .nz = 1 };
    int64_t radius;
    bool smaller;
    tc_status status = cc_resolve_polarity(work, out, err);

    if (status != TC_OK || !out->window_auto)
        return status;
    return_if_error(an_copy_middle(work->pixels, &middle, err));
    return_if_error(
        cc_find_radius(out, &middle, work->threads, work->poll, &radius, &smaller, err));
    out->window = cc_window_of(radius);
    return TC_OK;
}
