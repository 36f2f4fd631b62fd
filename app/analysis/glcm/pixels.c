/*
 * glcm: whether an item's pixels can have given these arrays: the windows of some bands are
 * computed again, which shows whether somebody computed them all, and some others at each number of
 * levels and distance, which show whether that gave these features; of a whole ROI its only one.
 * All are chosen at random when the result is there.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/glcm/glcm.h"
#include "app/analysis/analyses.h"
#include "app/base/numbers.h"
#include "app/base/random.h"

/* About a hundredth of the work: a window alone takes some 30 times as long as one of many side
 * by side, and there are 13 features and half a dozen statistics to make little things of. */
enum { LEAST_WINDOWS = 64, SHARE = 4096, TIMES_AS_LONG = 30 };

/* Places in rows, and as many in columns, whose bands are computed again: one, and one more for
 * every LINES; at most so many. */
enum { LINES = 128, MOST_PLACES = 4 };

static int64_t count_lines(const glcm_view *v)
{
    return v->y1 - v->y0;
}

static int64_t count_places(int64_t lines)
{
    return lines / LINES + 1 < MOST_PLACES ? lines / LINES + 1 : MOST_PLACES;
}

/* The job with one number of levels and one distance. */
typedef struct sample {
    size_t level, distance; /* indices */
    glcm_params params;     /* offsets: owned */
    wu_pixels pixels;       /* the item's, with the sample as its mask (owned) */
    uint64_t windows;       /* in the sample */
    bool is_all;            /* there are no others */
} sample;

static tc_status take_levels_and_distance(const glcm_params *p, const glcm_geometry *g, sample *s,
                                          tc_err *err)
{
    glcm_offset *const offsets = malloc(p->n_offsets * sizeof *offsets);

    s->params = *p;
    s->params.n_levels = s->params.n_distances = 1;
    s->params.levels[0] = p->levels[s->level];
    s->params.distances[0] = p->distances[s->distance];
    s->params.range = GLCM_RANGE_FIXED;
    s->params.range_ends[0] = g->lo;
    s->params.range_ends[1] = g->hi;
    s->params.per_offset = false;
    s->params.n_maps = s->params.n_offsets = 0;
    s->params.offsets = offsets;
    if (offsets == NULL)
        return tc_no_memory(err, "glcm");
    for (size_t o = 0; o < p->n_offsets; o++)
        if (p->offsets[o].distance == s->distance)
            offsets[s->params.n_offsets++] = (glcm_offset){ p->offsets[o].dx, p->offsets[o].dy, 0 };
    return TC_OK;
}

/* A mask of as many windows as are to be computed: of n in the ROI one at random out of each
 * run of them. roi: [voxels], becomes the mask. */
static void take_windows(const glcm_params *p, uint8_t *roi, size_t voxels, uint64_t n,
                         uint64_t *random, sample *s)
{
    const uint64_t wanted = n / SHARE + LEAST_WINDOWS / (p->n_levels * p->n_distances) + 8;
    uint64_t taken = 0, seen = 0, next = 0, run_end = 0;

    s->is_all = wanted >= n;
    s->windows = s->is_all ? n : wanted;
    s->params.roi = GLCM_ROI_MASK;
    s->pixels.mask = roi;
    for (size_t i = 0; i < voxels && !s->is_all; i++) {
        if (roi[i] == 0)
            continue;
        if (seen == run_end) {
            run_end = ++taken * n / wanted;
            next = seen + tc_random_below(run_end - seen, random);
        }
        roi[i] = seen++ == next;
    }
}

static tc_status choose(const an_work *work, uint64_t *random, sample *s, tc_err *err)
{
    const glcm_params *const p = work->params;
    const wu_pixels *const px = work->pixels;
    const size_t voxels = (size_t)px->nx * px->ny * px->nz;
    glcm_geometry g;
    uint64_t n = 0;
    uint8_t *roi;
    tc_status status = glcm_geometry_init(work, &g, err);

    s->pixels = *px;
    s->is_all = true;
    if (status == TC_OK)
        status = take_levels_and_distance(p, &g, s, err);
    if (status != TC_OK || p->window == GLCM_WHOLE_ROI)
        return status;
    roi = malloc(voxels);
    if (roi == NULL)
        return tc_no_memory(err, "the windows");
    for (size_t row = 0; row < (size_t)px->ny * px->nz; row++)
        glcm_roi_row(&g, (uint32_t)(row / px->ny), (uint32_t)(row % px->ny), roi + row * px->nx);
    for (size_t i = 0; i < voxels; i++)
        n += roi[i];
    take_windows(p, roi, voxels, n, random, s);
    return TC_OK;
}

/* The statistics of the sample's windows, as a result has them. */
static tc_status compute(const an_work *work, const sample *s, wu_output *out, tc_err *err)
{
    an_work part = {
        .params = &s->params, .item = work->item, .pixels = &s->pixels, .threads = work->threads
    };
    const tc_status status = an_glcm.plan(&s->params, work->item, &part.plan, err);

    return status == TC_OK ? an_compute(&an_glcm, &part, 0, 0, out, err) : status;
}

/* What is wrong with the five statistics of a feature over its offsets, given those of n of its
 * windows. Six standard errors are hardly ever exceeded. That of the mean is sd / sqrt(n); that of
 * the variance at most range sd / sqrt(n), as no fourth moment is more than range^2 sd^2. */
static const char *fault_of(const double claimed[GLCM_STATISTICS],
                            const double found[GLCM_STATISTICS], double n, double offsets,
                            tc_status *status)
{
    const double range = claimed[GLCM_MAX] - claimed[GLCM_MIN], sd = claimed[GLCM_SD];
    const double slack = 6 * sd / sqrt(n) + 12 * range / n + 1e-9;

    *status = TC_BAD_INPUT;
    if (isnan(found[GLCM_MEAN]))
        return NULL;
    if (!(found[GLCM_MIN] >= claimed[GLCM_MIN] && found[GLCM_MAX] <= claimed[GLCM_MAX]))
        return "a window that was computed again is outside minimum and maximum";
    *status = TC_NO_MATCH;
    if (fabs(found[GLCM_MEAN] - claimed[GLCM_MEAN]) > slack)
        return "windows that were computed again have another mean";
    if (fabs(found[GLCM_SD] * found[GLCM_SD] - sd * sd) > range * slack)
        return "windows that were computed again have another standard deviation";
    if (fabs(found[GLCM_SPREAD] - claimed[GLCM_SPREAD]) > 2 * sqrt(offsets) * slack)
        return "the offsets of windows that were computed again have another range";
    return NULL;
}

static bool same_bits(const void *a, const void *b, size_t bytes)
{
    return memcmp(a, b, bytes) == 0;
}

static tc_status compare(const glcm_params *p, const sample *s, const double *claimed,
                         const double *found, tc_err *err)
{
    size_t known = 0;

    for (size_t f = 0; f < p->n_features;
         f++, claimed += GLCM_STATISTICS, found += GLCM_STATISTICS) {
        tc_status status = TC_BAD_INPUT;
        const char *fault = NULL;

        known += s->is_all || !isnan(found[GLCM_MEAN]);
        if (!s->is_all)
            fault =
                fault_of(claimed, found, (double)s->windows, (double)s->params.n_offsets, &status);
        else if (!same_bits(claimed, found, GLCM_STATISTICS * sizeof *found))
            fault = "not what the windows give when they are computed again";
        if (fault != NULL)
            return tc_fail(err, status, "features: glcm_L%u_d%02u_%s: %s", p->levels[s->level],
                           p->distances[s->distance], p->feature_names[f], fault);
    }
    return known > 0 ? TC_OK
                     : tc_fail(err, TC_NO_MATCH,
                               "features: the windows that were computed again have none");
}

/* s->level and s->distance are set. */
static tc_status check_sample(const an_work *work, const wu_output *out, uint64_t *random,
                              sample *s, tc_err *err)
{
    const glcm_params *const p = work->params;
    wu_output found = { .n = 0 };
    tc_status status = choose(work, random, s, err);

    if (status == TC_OK)
        status = compute(work, s, &found, err);
    if (status == TC_OK)
        status =
            compare(p, s,
                    (const double *)wu_output_data(out, "features") +
                        (s->level * p->n_distances + s->distance) * p->n_features * GLCM_STATISTICS,
                    wu_output_data(&found, "features"), err);
    wu_output_free(&found);
    if (s->pixels.mask != work->pixels->mask)
        free(s->pixels.mask);
    free(s->params.offsets);
    return status;
}

/* The claimed statistics are of these windows as well, and of `all` at most: none is outside
 * minimum and maximum, and what they differ from each other is in the variance. */
static tc_status compare_windows(const an_work *part, const void *state, const double *claimed,
                                 double all, tc_err *err)
{
    const glcm_params *const p = part->params;
    const glcm_stat *const stats = glcm_state_stats_const(state);
    TC_AUTO(wu_output_free) wu_output out = { .n = 0 };
    double least = all; /* windows of an offset */
    return_if_error(an_glcm.finish(part, 0, state, &out, err));
    const double *found = wu_output_data(&out, "features");

    for (size_t i = 0; i < p->n_levels * p->n_offsets; i++)
        least = fmin(least, (double)stats[i].windows);
    for (size_t i = 0; i < p->n_levels * p->n_distances * p->n_features;
         i++, claimed += GLCM_STATISTICS, found += GLCM_STATISTICS) {
        if (isnan(found[GLCM_MEAN]))
            continue;
        if (!(found[GLCM_MIN] >= claimed[GLCM_MIN] && found[GLCM_MAX] <= claimed[GLCM_MAX]))
            return tc_fail(err, TC_BAD_INPUT,
                           "features: a window that was computed again is outside minimum and "
                           "maximum");
        if (claimed[GLCM_SD] < found[GLCM_SD] * sqrt(least / all) * (1 - 1e-9))
            return tc_fail(err, TC_BAD_INPUT,
                           "features: windows that were computed again differ from each other more "
                           "than the standard deviation can be");
    }
    return TC_OK;
}

/* The band of one line in each of some parts. */
static void choose_bands(const glcm_view *v, uint64_t *random, bool bands[GLCM_BANDS])
{
    const int64_t n = count_lines(v), places = count_places(n);

    for (int64_t i = 0; i < places; i++) {
        const int64_t from = v->y0 + n * i / places, to = v->y0 + n * (i + 1) / places;

        bands[glcm_band_of(v, from + (int64_t)tc_random_below((uint64_t)(to - from), random))] =
            true;
    }
}

/* The sums of some bands that have lines, to the bit. */
static tc_status check_bands(const an_work *work, const wu_output *out, uint64_t *random,
                             tc_err *err)
{
    const int64_t *const claimed = wu_output_data(out, "band_sums");
    glcm_params params = *(const glcm_params *)work->params;
    bool bands[GLCM_BANDS] = { false };
    an_work part = *work;
    glcm_geometry g;
    TC_AUTOFREE void *state = NULL;
    return_if_error(glcm_geometry_init(work, &g, err));

    choose_bands(&g.view[0], random, bands);
    choose_bands(&g.view[1], random, bands);
    params.bands = bands;
    params.n_maps = 0;
    part.params = &params;
    return_if_error(an_glcm.plan(&params, work->item, &part.plan, err));
    state = calloc(1, part.plan.state_bytes);
    return_if_error(state == NULL ? tc_no_memory(err, "a band")
                                  : an_work_run(&an_glcm, &glcm_cpu, &part, state, 0, err));
    for (int i = 0; i < GLCM_BANDS; i++)
        if (bands[i] && glcm_state_bands(&params, state)->sum[i] != (uint64_t)claimed[i])
            return tc_fail(err, TC_BAD_INPUT,
                           "band_sums: band %d: its windows give another sum when they are "
                           "computed again",
                           i);
    return compare_windows(
        &part, state, wu_output_data(out, "features"),
        (double)count_lines(&g.view[0]) * (double)count_lines(&g.view[1]) * work->item->nz, err);
}

tc_status glcm_check_pixels(const an_work *work, const wu_output *out, uint64_t *random,
                            tc_err *err)
{
    const glcm_params *const p = work->params;
    const bool one = p->window == GLCM_WHOLE_ROI;
    return_if_error(one ? TC_OK : check_bands(work, out, random, err));

    for (size_t k = 0; k < p->n_levels * p->n_distances; k++) {
        sample s = { .level = k / p->n_distances, .distance = k % p->n_distances };

        return_if_error(check_sample(work, out, random, &s, err));
    }
    return TC_OK;
}

double glcm_pixels_share(const an_work *work)
{
    const glcm_params *const p = work->params;
    const wu_item *const item = work->item;
    const double n = (double)item->nx * item->ny * item->nz,
                 parts = (double)(p->n_levels * p->n_distances);
    const int64_t lines = (int64_t)tc_smaller(item->nx, item->ny);
    const double looked =
        2.0 * (double)count_places(lines) / (double)(lines < GLCM_BANDS ? lines : GLCM_BANDS) +
        TIMES_AS_LONG * (1.0 / SHARE + (LEAST_WINDOWS / parts + 8) / n);

    return p->window != GLCM_WHOLE_ROI && looked < 1 ? looked : 1;
}
