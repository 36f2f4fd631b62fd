/*
 * glcm: checks whether an item's pixels can have given the arrays of a result (the claimed arrays).
 * All windows of some bands are computed again and must have the claimed band sums and maps. This
 * shows whether every window was computed. For each combination of a number of levels and a
 * distance, a random sample of windows is also computed again. This shows whether the claimed
 * features are those of the windows. With GLCM_WHOLE_ROI the whole matrix is computed again. Bands
 * and windows are chosen at random after the result was returned, so that nobody can know them
 * beforehand.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/glcm/glcm.h"
#include "app/analysis/analyses.h"
#include "app/base/numbers.h"
#include "app/base/random.h"

/* The numbers of windows in the samples (take_windows), which take about a hundredth of the item's
 * time. */
enum {
    SHARE = 4096,       /* a sample has one of every SHARE windows of the ROI, ... */
    LEAST_WINDOWS = 64, /* ... its part of LEAST_WINDOWS windows, which all samples share, ... */
    EACH_WINDOWS = 8,   /* ... and EACH_WINDOWS windows more */
    /* Computing a single window takes this many times as long as sliding a window by a pixel. */
    TIMES_AS_LONG = 30
};

/* Checking the items of a unit with masks takes this many times as long, since those with large
 * masks are chosen more often (glcm_flops_inside; measured with masks of 3 to 79% of a picture). */
static const double MASKED = 1.15;

/* How many random windows are chosen for bands of rows, and how many for bands of columns
 * (count_places). The band of each chosen window is computed again. */
enum {
    LINES = 32,       /* one window, plus one for every LINES rows or columns with windows ... */
    LEAST_PLACES = 3, /* ... but at least this many, ... */
    MOST_PLACES = 4   /* ... and at most this many, and no more than there are rows or columns */
};

/* If there are at least ONE_WHOLE samples, one of them, chosen at random, has all windows. If there
 * are fewer, one of them has all windows only with the probability (number of samples) / ONE_WHOLE.
 */
enum { ONE_WHOLE = 100 };

/* The mean of the logarithm of (found / claimed standard deviation) may be at most RATIO_ERRORS
 * divided by the root of the number of windows in all samples (judge_ratios). */
static const double RATIO_ERRORS = 3;
/* For are_too_large: the item is in doubt if chance makes a sum of squares as large with a
 * probability of at most exp(-RARE). */
static const double RARE = 10;
/* For judge_distances: the item is in doubt if a feature's variance differs so much that, with
 * windows of any distribution, chance makes it differ as much with a probability of at most
 * exp(-RARE_VARIANCE). With windows of pictures it is far less probable. */
static const double RARE_VARIANCE = 2;
/* Windows that follow each other in a band are similar: for judge_distances a band's windows count
 * as one for each APART radii of a line, and those of all bands as MOST_IN_BANDS at most. */
enum { APART = 5, MOST_IN_BANDS = 128 };
/* A feature is left out of the mean logarithm and of the sum of squares above if its minimum or
 * maximum is more than FAR standard deviations from its mean. */
static const double FAR = 6;

/* The centres of windows in a line. A line is a row of a view (glcm_view): a row of the picture, or
 * a column in the transposed view. */
typedef struct centres_line {
    /* The time that its windows take, in units of the time of sliding a window by a pixel
     * (window_cost). */
    uint64_t cost;
    bool has_any;        /* the current slice has a window in the line: ... */
    int64_t first, last; /* ... the first and the last one in this slice */
} centres_line;

typedef struct centres {
    /* [0]: the rows of the picture, [ny], owned; [1]: the columns, [nx], in the same block of
     * memory. */
    centres_line *lines[2];
    uint64_t cost[2]; /* the sums of the lines' costs */
    uint64_t n;       /* the number of all windows */
} centres;

static void centres_free(centres *c)
{
    free(c->lines[0]);
}

/* The cost of a window that is `moves` pixels from the one before. Counting all of its pairs takes
 * about as long as sliding a window by its radius. */
static uint64_t window_cost(const glcm_params *p, int64_t moves)
{
    return (uint64_t)(moves < p->radius ? moves : p->radius);
}

/* Adds the next window of the current slice in a line, at position `at`. The cost of the first one
 * is added by end_slice. */
static void add_centre(const glcm_params *p, centres_line *line, int64_t at)
{
    if (line->has_any)
        line->cost += window_cost(p, at - line->last);
    else
        line->first = at;
    line->has_any = true;
    line->last = at;
}

/* Adds, for each line of the current slice, the cost of the window that is computed first: of the
 * first and the last one, that which is nearer to the last window of the line before (process_row
 * in cpu.c). Clears has_any. */
static void end_slice(const glcm_params *p, centres_line *lines, int64_t n)
{
    /* The last window of the line before. The slice has none before its first window, all pairs of
     * which are counted. */
    int64_t x = -p->radius, y = 0;

    for (int64_t i = 0; i < n; i++) {
        centres_line *const line = &lines[i];

        if (!line->has_any)
            continue;
        const int64_t to_first = llabs(x - line->first), to_last = llabs(x - line->last);

        line->cost += window_cost(p, i - y + (to_first <= to_last ? to_first : to_last));
        x = to_first <= to_last ? line->last : line->first;
        y = i;
        line->has_any = false;
    }
}

/* Counts the centres of all windows of the item. */
static tc_status count_centres(const glcm_geometry *g, centres *c, tc_err *err)
{
    const glcm_params *const p = g->params;
    const uint32_t n[] = { g->ny, g->nx };
    TC_AUTOFREE uint8_t *const row = malloc(g->nx);

    c->lines[0] = calloc((size_t)g->nx + g->ny, sizeof *c->lines[0]);
    if (row == NULL || c->lines[0] == NULL)
        return tc_no_memory(err, "the lines");
    c->lines[1] = c->lines[0] + g->ny;
    for (uint32_t z = 0; z < g->nz; z++) {
        for (uint32_t y = 0; y < g->ny; y++) {
            glcm_roi_row(g, z, y, row);
            for (uint32_t x = 0; x < g->nx; x++) {
                if (row[x] == 0)
                    continue;
                add_centre(p, &c->lines[0][y], x);
                add_centre(p, &c->lines[1][x], y);
                c->n++;
            }
        }
        for (int i = 0; i < 2; i++)
            end_slice(p, c->lines[i], n[i]);
    }
    for (int i = 0; i < 2; i++)
        for (uint32_t k = 0; k < n[i]; k++)
            c->cost[i] += c->lines[i][k].cost;
    return TC_OK;
}

/* The number of random windows from which bands of rows (or columns) are chosen, if this many rows
 * (or columns) have windows. */
static int64_t count_places(int64_t lines)
{
    const uint64_t places =
        tc_larger(tc_smaller((uint64_t)lines / LINES + 1, MOST_PLACES), LEAST_PLACES);

    return (int64_t)tc_smaller(places, (uint64_t)lines);
}

/* A sample of windows that are computed again as a job of its own, with one number of levels and
 * one distance, and with a mask of these windows. */
typedef struct sample {
    size_t level, distance; /* indices into glcm_params.levels and .distances of the job */
    glcm_params params;     /* with one level and distance; its offsets are owned */
    wu_pixels pixels;       /* the item's pixels, with the sample's mask, which is owned */
    uint64_t windows;       /* number of windows in the sample */
    bool whole;             /* the sample was chosen to have all windows */
    bool is_all;            /* the sample has all windows: as chosen, or because they are few */
} sample;

/* Sets s->params: the job's parameters p with the sample's level and distance only, and no maps. */
static tc_status set_sample_params(const glcm_params *p, const glcm_geometry *g, sample *s,
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
    s->params.n_maps = s->params.n_offsets = 0;
    s->params.offsets = offsets;
    if (offsets == NULL)
        return tc_no_memory(err, "glcm");
    for (size_t o = 0; o < p->n_offsets; o++)
        if (p->offsets[o].distance == s->distance)
            offsets[s->params.n_offsets++] = (glcm_offset){ p->offsets[o].dx, p->offsets[o].dy, 0 };
    return TC_OK;
}

/* Makes the sample's mask from roi, [voxels], which has a 1 for each of the n windows. If
 * s->is_all, the mask keeps all windows. Otherwise the windows, in raster order, are divided into
 * `wanted` runs, and the mask keeps one random window of each run. */
static void take_windows(const glcm_params *p, uint8_t *roi, size_t voxels, uint64_t n,
                         uint64_t *random, sample *s)
{
    const uint64_t wanted =
        n / SHARE + LEAST_WINDOWS / (p->n_levels * p->n_distances) + EACH_WINDOWS;
    uint64_t taken = 0, seen = 0, next = 0, run_end = 0;

    s->is_all = s->whole || wanted >= n;
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

/* Sets all fields of the sample except level, distance and whole, which the caller has set. */
static tc_status choose_sample(const an_work *work, uint64_t *random, sample *s, tc_err *err)
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
        status = set_sample_params(p, &g, s, err);
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

/* Makes the result's arrays for the sample's windows alone. */
static tc_status compute_sample(const an_work *work, const sample *s, wu_output *out, tc_err *err)
{
    an_work part = { .params = &s->params,
                     .item = work->item,
                     .pixels = &s->pixels,
                     .threads = work->threads,
                     .result_only = s->is_all };
    const tc_status status = an_glcm.plan(&s->params, work->item, &part.plan, err);

    return status == TC_OK ? an_compute_item(&an_glcm, &part, 0, 0, out, err) : status;
}

/* The greatest distance of a feature's values from `mean`, from their minimum and maximum. */
static double reach_of(const double statistics[GLCM_STATISTICS], double mean)
{
    return fmax(statistics[GLCM_MAX] - mean, mean - statistics[GLCM_MIN]);
}

/* Returns text that says what is wrong with the claimed statistics of a feature, given the
 * statistics found in n of its windows, or NULL if nothing is wrong. Sets *status to the status to
 * fail with. Mean and variance may differ by six standard errors, which chance hardly ever exceeds.
 * For the mean these are 6 sd / sqrt(n). For the variance they are at most `reach` times as much,
 * as the fourth central moment is at most reach^2 sd^2. If a few rare windows cause most of the
 * variance, their number in the sample varies more than the standard error says. Therefore the
 * slack also allows two rare windows too many in the sample: each differs from the mean by at most
 * found_reach, so the two shift the sample's mean by at most 2 found_reach / n. */
static const char *fault_of(const double claimed[GLCM_STATISTICS],
                            const double found[GLCM_STATISTICS], double n, tc_status *status)
{
    const double sd = claimed[GLCM_SD], mean = claimed[GLCM_MEAN];
    const double error = 6 * sd / sqrt(n), reach = reach_of(claimed, mean),
                 found_reach = reach_of(found, mean);
    const double slack = error + 2 * found_reach / n + 1e-9;
    const double excess = found[GLCM_SD] * found[GLCM_SD] - sd * sd; /* found - claimed variance */

    *status = TC_BAD_INPUT;
    if (isnan(found[GLCM_MEAN]))
        return NULL;
    if (!(found[GLCM_MIN] >= claimed[GLCM_MIN] && found[GLCM_MAX] <= claimed[GLCM_MAX]))
        return "a window that was computed again is outside minimum and maximum";
    *status = TC_NO_MATCH;
    if (fabs(found[GLCM_MEAN] - mean) > slack)
        return "windows that were computed again have another mean";
    if (excess > found_reach * slack || -excess > reach * (error + 1e-9) + slack * slack)
        return "windows that were computed again have another standard deviation";
    if (fabs(found[GLCM_SPREAD] - claimed[GLCM_SPREAD]) > 2 * slack)
        return "windows that were computed again have another range over the offsets";
    return NULL;
}

static bool same_bits(const void *a, const void *b, size_t bytes)
{
    return memcmp(a, b, bytes) == 0;
}

/* Returns what fault_of returns, but if the sample has all windows, the statistics must be equal to
 * the bit. */
static const char *sample_fault(const sample *s, const double claimed[GLCM_STATISTICS],
                                const double found[GLCM_STATISTICS], tc_status *status)
{
    *status = TC_BAD_INPUT;
    if (!s->is_all)
        return fault_of(claimed, found, (double)s->windows, status);
    return same_bits(claimed, found, GLCM_STATISTICS * sizeof *found)
               ? NULL
               : "not what the windows give when they are computed again";
}

/* A sum of squared differences of n means, in standard errors. Of means that are of the same
 * windows the average square can be added, as that of one mean. */
typedef struct squares {
    double sum, n;
} squares;

/* Compares the standard deviations and means of features, found in the samples that do not have all
 * windows, with the claimed ones. */
typedef struct ratios {
    double sum;     /* the sum of log(found / claimed) over the features of all samples */
    double n;       /* the number of these features */
    double windows; /* the number of windows in all samples together */
    /* The sums, over the windows of all samples and bands, of the squared distances of a feature's
     * values from the claimed mean, each divided by the square of the greatest distance. */
    struct {
        double claimed; /* the expectation, which follows from the claimed variance */
        double found;
    } distance[COOC_FEATURES]; /* [n_features] */
    /* Of means: those of offsets, averaged over the offsets of a distance, if the result has them
     */
    squares sample;              /* of all features of the last sample */
    squares mean[COOC_FEATURES]; /* [n_features]: of a feature in all samples */
} ratios;

/* Adds the mean of feature f of a sample of n windows, at one of so many offsets. Leaves it out if
 * the claimed standard deviation is 0 or if rare windows in the sample cause most of the variance
 * (FAR). */
static void add_mean(const double claimed[GLCM_STATISTICS], const double found[GLCM_STATISTICS],
                     size_t f, double n, double offsets, ratios *r)
{
    const double sd = claimed[GLCM_SD], mean = claimed[GLCM_MEAN];

    if (sd > 0 && reach_of(found, mean) <= FAR * fmax(sd, found[GLCM_SD])) {
        const double difference = (found[GLCM_MEAN] - mean) / sd;
        squares *const sums[] = { &r->sample, &r->mean[f] };

        for (int i = 0; i < 2; i++) {
            sums[i]->sum += n * difference * difference / offsets;
            sums[i]->n += 1 / offsets;
        }
    }
}

/* Adds a feature to r->sum, with its logarithm limited to [-1, 1]. Leaves it out if one of the
 * standard deviations is 0 or if rare windows cause most of the variance (FAR). */
static void add_ratio(const double claimed[GLCM_STATISTICS], const double found[GLCM_STATISTICS],
                      ratios *r)
{
    const double a = claimed[GLCM_SD], b = found[GLCM_SD];

    if (a > 0 && b > 0 && reach_of(claimed, claimed[GLCM_MEAN]) <= FAR * fmax(a, b)) {
        r->sum += fmin(fmax(log(b / a), -1), 1);
        r->n++;
    }
}

/* Adds the windows of a sample or of bands, which count as n windows, to r->distance[f]. */
static void add_distances(const double claimed[GLCM_STATISTICS],
                          const double found[GLCM_STATISTICS], size_t f, double n, ratios *r)
{
    const double sd = claimed[GLCM_SD], reach = reach_of(claimed, claimed[GLCM_MEAN]);
    const double difference = found[GLCM_MEAN] - claimed[GLCM_MEAN];

    if (sd > 0 && !isnan(difference)) {
        r->distance[f].claimed += n * sd * sd / (reach * reach);
        r->distance[f].found +=
            n * (found[GLCM_SD] * found[GLCM_SD] + difference * difference) / (reach * reach);
    }
}

/* Judges the variance of each feature in all samples and bands together, by Chernoff's bound for
 * sums of independent variables from 0 to 1, which holds for all distributions. So it also judges
 * features whose claimed minimum or maximum is far from the mean. */
static tc_status judge_distances(const glcm_params *p, const ratios *r, tc_err *err)
{
    for (size_t f = 0; f < p->n_features; f++) {
        const double claimed = r->distance[f].claimed, found = r->distance[f].found;

        if (claimed - found + (found > 0 ? found * log(found / claimed) : 0) > RARE_VARIANCE)
            return tc_fail(err, TC_NO_MATCH,
                           "features: windows that were computed again have another variance of %s",
                           p->feature_names[f]);
    }
    return TC_OK;
}

/* Judges the standard deviations of all features together: each alone could differ by chance, but
 * hardly all of them by the same factor. */
static tc_status judge_ratios(const ratios *r, tc_err *err)
{
    return r->n == 0 || fabs(r->sum) / r->n * sqrt(r->windows) <= RATIO_ERRORS
               ? TC_OK
               : tc_fail(err, TC_NO_MATCH,
                         "features: windows that were computed again have standard deviations %.2f "
                         "times as large",
                         exp(r->sum / r->n));
}

/* Whether the sum of the squares of n means is too large for chance, by the bound of Laurent and
 * Massart (2000) for chi-squared variables, which also holds for averages of them, however they
 * depend on each other. */
static bool are_too_large(double sum, double n)
{
    return sum > n + 2 * sqrt(n * RARE) + 2 * RARE;
}

/* Judges the means of all features of the last sample, and clears their squares. The features
 * depend on each other: n of them are judged as sqrt(n) that do not. */
static tc_status judge_sample(const glcm_params *p, const sample *s, ratios *r, tc_err *err)
{
    const double n = sqrt(r->sample.n), sum = n > 0 ? r->sample.sum / n : 0;

    r->sample = (squares){ .n = 0 };
    return are_too_large(sum, n)
               ? tc_fail(err, TC_NO_MATCH,
                         "features: windows that were computed again have other means with %u "
                         "levels at distance %u",
                         p->levels[s->level], p->distances[s->distance])
               : TC_OK;
}

/* Judges the means of each feature in all samples together. */
static tc_status judge_means(const glcm_params *p, const ratios *r, tc_err *err)
{
    for (size_t f = 0; f < p->n_features; f++)
        if (are_too_large(r->mean[f].sum, r->mean[f].n))
            return tc_fail(err, TC_NO_MATCH,
                           "features: windows that were computed again have other means of %s",
                           p->feature_names[f]);
    return TC_OK;
}

/* Compares all features of a sample. claimed: the elements of the array features for the sample's
 * number of levels and distance; found: the sample's array features. */
static tc_status compare_features(const glcm_params *p, const sample *s, const double *claimed,
                                  const double *found, ratios *r, tc_err *err)
{
    size_t compared = 0; /* features that could be compared, as the sample has values of them */

    for (size_t f = 0; f < p->n_features;
         f++, claimed += GLCM_STATISTICS, found += GLCM_STATISTICS) {
        tc_status status;
        const char *const fault = sample_fault(s, claimed, found, &status);

        if (!s->is_all) {
            add_ratio(claimed, found, r);
            add_distances(claimed, found, f, (double)s->windows, r);
            if (!p->per_offset)
                add_mean(claimed, found, f, (double)s->windows, 1, r);
        }
        compared += s->is_all || !isnan(found[GLCM_MEAN]) || isnan(claimed[GLCM_MEAN]);
        if (fault != NULL)
            return tc_fail(err, status, "features: glcm_L%u_d%02u_%s: %s", p->levels[s->level],
                           p->distances[s->distance], p->feature_names[f], fault);
    }
    return compared > 0 ? TC_OK
                        : tc_fail(err, TC_NO_MATCH,
                                  "features: the windows that were computed again have no values");
}

/* Compares the moments of the sample's offsets. claimed: the result's array offset_features; found:
 * that of the sample. The means of offsets are added to r in place of their mean. */
static tc_status compare_offsets(const glcm_params *p, const sample *s, const double *claimed,
                                 const double *found, ratios *r, tc_err *err)
{
    claimed += s->level * p->n_offsets * p->n_features * GLCM_MOMENTS;
    for (size_t o = 0; o < p->n_offsets; o++)
        for (size_t f = 0; f < p->n_features; f++, claimed += GLCM_MOMENTS) {
            double five[2][GLCM_STATISTICS];
            tc_status status;
            const char *fault;

            if (p->offsets[o].distance != s->distance)
                continue;
            glcm_as_statistics(claimed, five[0]);
            glcm_as_statistics(found, five[1]);
            fault = sample_fault(s, five[0], five[1], &status);
            if (!s->is_all)
                add_mean(five[0], five[1], f, (double)s->windows, (double)s->params.n_offsets, r);
            if (fault != NULL)
                return tc_fail(err, status, "offset_features: L%u offset (%d,%d) %s: %s",
                               p->levels[s->level], p->offsets[o].dx, p->offsets[o].dy,
                               p->feature_names[f], fault);
            found += GLCM_MOMENTS;
        }
    return TC_OK;
}

/* Computes the sample's windows again and compares their features with the result. The caller has
 * set s->level, s->distance and s->whole. Adds to r. */
static tc_status check_sample(const an_work *work, const wu_output *out, uint64_t *random,
                              sample *s, ratios *r, tc_err *err)
{
    const glcm_params *const p = work->params;
    wu_output found = { .n = 0 };
    tc_status status = choose_sample(work, random, s, err);

    if (status == TC_OK)
        status = compute_sample(work, s, &found, err);
    if (status == TC_OK)
        status = compare_features(p, s,
                                  (const double *)wu_output_data(out, "features") +
                                      (s->level * p->n_distances + s->distance) * p->n_features *
                                          GLCM_STATISTICS,
                                  wu_output_data(&found, "features"), r, err);
    if (status == TC_OK && !s->is_all)
        r->windows += (double)s->windows;
    if (status == TC_OK && p->per_offset)
        status = compare_offsets(p, s, wu_output_data(out, "offset_features"),
                                 wu_output_data(&found, "offset_features"), r, err);
    if (status == TC_OK)
        status = judge_sample(p, s, r, err);
    wu_output_free(&found);
    if (s->pixels.mask != work->pixels->mask)
        free(s->pixels.mask);
    free(s->params.offsets);
    return status;
}

/* Compares the claimed features with those of the windows that were computed again in `state`. The
 * claimed features are those of at most `all` windows, which include the windows in `state`.
 * Therefore the values in `state` must lie between the claimed minimum and maximum, and their
 * variance, multiplied by their share of all windows, must not exceed the claimed variance. Adds
 * the windows to r->distance. */
static tc_status compare_windows(const an_work *part, const void *state, const double *claimed,
                                 double all, ratios *r, tc_err *err)
{
    const glcm_params *const p = part->params;
    const glcm_stat *const stats = glcm_state_stats_const(state);
    TC_AUTO(wu_output_free) wu_output out = { .n = 0 };
    double least = all; /* the least number of windows of an offset in state */
    return_if_error(an_glcm.finish(part, 0, state, &out, err));
    const double *found = wu_output_data(&out, "features");

    for (size_t i = 0; i < p->n_levels * p->n_offsets; i++)
        least = fmin(least, (double)stats[i].windows);
    const double n =
        fmin(least / (APART * p->radius), MOST_IN_BANDS) / (double)(p->n_levels * p->n_distances);

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
                           "than the claimed standard deviation allows");
        add_distances(claimed, found, i % p->n_features, n, r);
    }
    return TC_OK;
}

/* Chooses bands of rows or of columns: divides the windows, in the order of their lines, into
 * count_places parts of equal cost, and sets bands[] for the band of a random window of each part,
 * in proportion to its cost. cost: that of all windows of the lines. */
static void choose_bands(const glcm_view *v, const centres_line *lines, uint64_t cost,
                         uint64_t *random, bool bands[GLCM_BANDS])
{
    int64_t with_windows = 0, line = v->y0 - 1;
    uint64_t seen = 0; /* cost of the lines up to `line` */

    for (int64_t i = v->y0; i < v->y1; i++)
        with_windows += lines[i].cost > 0;
    const uint64_t places = (uint64_t)count_places(with_windows);

    for (uint64_t i = 0; i < places; i++) {
        const uint64_t from = cost * i / places, to = cost * (i + 1) / places,
                       at = from + tc_random_below(to - from, random);

        while (seen <= at)
            seen += lines[++line].cost;
        bands[glcm_band_of(v, line)] = true;
    }
}

/* Whether two copies of the map are the same, to the bit, at all windows of the bands. */
static bool same_map(const glcm_geometry *g, const glcm_map *map, const bool bands[GLCM_BANDS],
                     const float *claimed, const float *found)
{
    const glcm_params *const p = g->params;
    glcm_lens lens;

    glcm_lens_init(p, &p->offsets[map->offset], &lens);
    const glcm_view *const v = &g->view[lens.transposed];
    const size_t next = lens.transposed ? g->nx : 1, stride = lens.transposed ? 1 : g->nx;

    for (uint32_t z = 0; z < g->nz; z++)
        for (int64_t line = v->y0; line < v->y1; line++) {
            size_t at = (size_t)z * g->nx * g->ny + (size_t)line * stride;

            for (uint32_t i = 0; bands[glcm_band_of(v, line)] && i < v->nx; i++, at += next)
                if (!same_bits(&claimed[at], &found[at], sizeof *found))
                    return false;
        }
    return true;
}

/* Computes all windows of some bands again. The band sums and maps must be the same to the bit;
 * compare_windows checks the features. */
static tc_status check_bands(const an_work *work, const glcm_geometry *g, const centres *c,
                             const wu_output *out, uint64_t *random, ratios *r, tc_err *err)
{
    const int64_t *const claimed = wu_output_data(out, "band_sums");
    glcm_params params = *(const glcm_params *)work->params;
    bool bands[GLCM_BANDS] = { false };
    an_work part = *work;
    TC_AUTOFREE void *state = NULL;

    for (int i = 0; i < 2; i++)
        choose_bands(&g->view[i], c->lines[i], c->cost[i], random, bands);
    params.bands = bands;
    part.params = &params;
    part.result_only = true;
    return_if_error(an_glcm.plan(&params, work->item, &part.plan, err));
    state = calloc(1, part.plan.state_bytes);
    return_if_error(state == NULL ? tc_no_memory(err, "a band")
                                  : an_run_chunks(&an_glcm, &glcm_cpu, &part, state, 0, err));
    for (int i = 0; i < GLCM_BANDS; i++)
        if (bands[i] && glcm_state_bands(&params, state)->sum[i] != (uint64_t)claimed[i])
            return tc_fail(err, TC_BAD_INPUT,
                           "band_sums: band %d: its windows give another sum when they are "
                           "computed again",
                           i);
    const float *const found =
        (const float *)(const void *)((const unsigned char *)state + glcm_state_maps_at(&params));

    for (size_t i = 0; i < params.n_maps; i++) {
        const wu_out_array *const map = &out->arrays[out->n - params.n_maps + i];

        if (!same_map(g, &params.maps[i], bands, map->data,
                      found + i * g->nx * g->ny * (size_t)g->nz))
            return tc_fail(err, TC_BAD_INPUT,
                           "%s: windows give other values when they are computed again",
                           map->info.name);
    }
    return compare_windows(&part, state, wu_output_data(out, "features"), (double)c->n, r, err);
}

/* Checks a result with sliding windows: bands, and a sample for each pair of a number of levels and
 * a distance. With a mask, the means are checked here: the number of windows follows from the mask,
 * which check.c does not have. */
static tc_status check_windows(const an_work *work, const wu_output *out, uint64_t *random,
                               tc_err *err)
{
    const glcm_params *const p = work->params;
    TC_AUTO(centres_free) centres c = { .n = 0 };
    ratios r = { .n = 0 };
    glcm_geometry g;
    return_if_error(glcm_geometry_init(work, &g, err));
    return_if_error(count_centres(&g, &c, err));

    if (c.n == 0)
        return TC_OK;
    if (p->roi == GLCM_ROI_MASK)
        return_if_error(glcm_check_means(p, work->item, g.slice_mask, out, err));
    return_if_error(check_bands(work, &g, &c, out, random, &r, err));
    const uint64_t parts = p->n_levels * p->n_distances,
                   whole = tc_random_below(tc_larger(parts, ONE_WHOLE), random);

    for (uint64_t k = 0; k < parts; k++) {
        sample s = { .level = k / p->n_distances,
                     .distance = k % p->n_distances,
                     .whole = k == whole };

        return_if_error(check_sample(work, out, random, &s, &r, err));
    }
    return_if_error(judge_ratios(&r, err));
    return_if_error(judge_distances(p, &r, err));
    return judge_means(p, &r, err);
}

tc_status glcm_check_pixels(const an_work *work, const wu_output *out, uint64_t *random,
                            tc_err *err)
{
    const glcm_params *const p = work->params;
    ratios r = { .n = 0 };

    if (p->window != GLCM_WHOLE_ROI)
        return check_windows(work, out, random, err);
    for (size_t k = 0; k < p->n_levels * p->n_distances; k++) {
        sample s = { .level = k / p->n_distances, .distance = k % p->n_distances };

        return_if_error(check_sample(work, out, random, &s, &r, err));
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
    /* the bands of rows and of columns; the windows of the samples; the sample with all windows */
    const double share =
        2.0 * (double)count_places(lines) / (double)(lines < GLCM_BANDS ? lines : GLCM_BANDS) +
        TIMES_AS_LONG * (1.0 / SHARE + (LEAST_WINDOWS / parts + EACH_WINDOWS) / n) +
        1 / fmax(parts, ONE_WHOLE);

    if (p->window == GLCM_WHOLE_ROI)
        return 1;
    return fmin(p->roi == GLCM_ROI_MASK ? MASKED * share : share, 1);
}

double glcm_flops_inside(const an_work *work)
{
    const glcm_params *const p = work->params;
    const wu_pixels *const px = work->pixels;
    TC_AUTO(centres_free) centres c = { .n = 0 };

    if (px == NULL || px->mask == NULL || p->window == GLCM_WHOLE_ROI)
        return work->plan.flops;
    const glcm_geometry g = {
        .params = p, .nx = px->nx, .ny = px->ny, .nz = px->nz, .slice_mask = px->mask
    };
    /* With a full mask, the costs of rows and of columns are about 1 for each voxel. */
    const double costs = 2.0 * px->nx * px->ny * px->nz;

    if (count_centres(&g, &c, NULL) != TC_OK)
        return work->plan.flops;
    return work->plan.flops - an_chunks_flops(&work->plan) *
                                  fmax(1 - ((double)c.cost[0] + (double)c.cost[1]) / costs, 0);
}
