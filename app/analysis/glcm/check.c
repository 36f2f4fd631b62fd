/*
 * glcm: checks the arrays of a result, without the pixels, for contradictions. Every feature must
 * be within its bounds, and the relations between features must hold. Values must be NaN exactly
 * where windows have no pair. The arrays features and offset_features, the maps and the band sums
 * must agree.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/glcm/glcm.h"

/* --- where there are pairs ------------------------------------------------------------------- */

/* What the checks need of an item: the sizes of its picture, of the ROI's disc and of a window.
 * Variables of this type are called g. */
typedef struct layout {
    const glcm_params *p;
    int64_t nx, ny; /* size of the picture */
    int64_t cx, cy; /* centre of the ROI's disc */
    /* In row y of a window the pixels with |x| <= width[y + radius] belong to the window; x and y
     * are relative to its centre. */
    int width[2 * GLCM_MAX_RADIUS + 1];
} layout;

/* The largest w with w^2 <= v; v >= 0. */
static int64_t integer_root(int64_t v)
{
    return (int64_t)tc_sqrt_floor((uint64_t)v);
}

static void layout_init(layout *g, const glcm_params *p, const wu_item *item)
{
    *g = (layout){ .p = p,
                   .nx = item->nx,
                   .ny = item->ny,
                   .cx = p->roi_centred ? item->nx / 2 : p->roi_cx,
                   .cy = p->roi_centred ? item->ny / 2 : p->roi_cy };
    for (int y = -p->radius; y <= p->radius; y++)
        g->width[y + p->radius] =
            p->window == GLCM_SQUARE
                ? p->radius
                : (int)integer_root((int64_t)p->radius * p->radius - (int64_t)y * y);
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Sets *lo and *hi to the least and the greatest x, relative to the window's centre, for which the
 * pair (x, y), (x+dx, y+dy) lies in the window. Returns false if there is none. */
static bool window_row(const layout *g, int y, const glcm_offset *o, int64_t *lo, int64_t *hi)
{
    const int r = g->p->radius;

    if (y + o->dy > r)
        return false;
    *lo = larger(-g->width[y + r], -g->width[y + o->dy + r] - o->dx);
    *hi = smaller(g->width[y + r], g->width[y + o->dy + r] - o->dx);
    return *lo <= *hi;
}

/* Whether the window around pixel (cx, cy) has a pair in the picture. */
static bool has_pair(const layout *g, const glcm_offset *o, int64_t cx, int64_t cy)
{
    for (int y = -g->p->radius; y <= g->p->radius; y++) {
        int64_t lo, hi;

        if (cy + y < 0 || cy + y + o->dy >= g->ny || !window_row(g, y, o, &lo, &hi))
            continue;
        lo = larger(lo, -cx - smaller(0, o->dx));
        hi = smaller(hi, g->nx - 1 - cx - larger(0, o->dx));
        if (lo <= hi)
            return true;
    }
    return false;
}

/* Whether pixel (x, y) is in the ROI's disc. A mask is ignored. */
static bool in_roi(const layout *g, int64_t x, int64_t y)
{
    return g->p->roi != GLCM_ROI_DISC ||
           (x - g->cx) * (x - g->cx) + (y - g->cy) * (y - g->cy) <= g->p->roi_r * g->p->roi_r;
}

static int64_t clamp(int64_t v, int64_t lo, int64_t hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

/* Whether some pixel of the ROI, as the centre of a window, has the pair (x, y), (x+dx, y+dy) in
 * the picture; x and y are relative to the centre. Of all centres for which the pair lies in the
 * picture, only the one nearest to the centre of the ROI's disc is tested: if that is not in the
 * ROI, none is. */
static bool has_centre(const layout *g, const glcm_offset *o, int64_t x, int64_t y)
{
    const int64_t x0 = larger(0, -x - smaller(0, o->dx)), y0 = larger(0, -y);
    const int64_t x1 = g->nx - 1 - larger(0, x + larger(0, o->dx)),
                  y1 = g->ny - 1 - larger(0, y + o->dy);

    return x0 <= x1 && y0 <= y1 && in_roi(g, clamp(g->cx, x0, x1), clamp(g->cy, y0, y1));
}

/* For GLCM_WHOLE_ROI: whether the ROI has a pair. This is so if, for some y, the ROI's
 * row y overlaps its row y + dy moved by -dx. */
static bool roi_has_pair(const layout *g, const glcm_offset *o)
{
    const int64_t r = g->p->roi_r;

    for (int64_t y = 0; y + o->dy < g->ny; y++) {
        const int64_t a = y - g->cy, b = y + o->dy - g->cy; /* the two rows, relative to the disc */
        int64_t lo = larger(0, -o->dx), hi = g->nx - 1 - larger(0, o->dx);

        if (g->p->roi == GLCM_ROI_DISC) {
            if (a < -r || a > r || b < -r || b > r)
                continue;
            lo = larger(lo, g->cx + larger(-integer_root(r * r - a * a),
                                           -integer_root(r * r - b * b) - o->dx));
            hi = smaller(hi, g->cx + smaller(integer_root(r * r - a * a),
                                             integer_root(r * r - b * b) - o->dx));
        }
        if (lo <= hi)
            return true;
    }
    return false;
}

/* Whether any window of the item has a pair of this offset. A mask is ignored. */
static bool offset_fits(const layout *g, const glcm_offset *o)
{
    if (g->p->window == GLCM_WHOLE_ROI)
        return roi_has_pair(g, o);
    for (int y = -g->p->radius; y <= g->p->radius; y++) {
        int64_t lo, hi;

        if (window_row(g, y, o, &lo, &hi))
            for (int64_t x = lo; x <= hi; x++)
                if (has_centre(g, o, x, y))
                    return true;
    }
    return false;
}

/* --- one feature ----------------------------------------------------------------------------- */

/* The least and the greatest possible value of each feature (bounds_of). */
typedef struct bounds {
    double lo[COOC_FEATURES], hi[COOC_FEATURES];
} bounds;

/* Returns the bounds of the features of any window, with this number of grey levels. Levels are 1
 * to `levels`, so differences are at most `span`. For values in a range of length s, the variance
 * is at most s^2 / 4, the third central moment at most s^3 / (6 sqrt(3)), and the fourth at most
 * s^4 / 12. Entropies are in bits; the entropy of a histogram with n bins that are not 0 is at most
 * log2(n). */
static bounds bounds_of(const layout *g, double levels)
{
    const double span = levels - 1, side = 2 * g->p->radius + 1;
    const double pairs = g->p->window == GLCM_WHOLE_ROI ? (double)(g->nx * g->ny) : side * side;
    /* the greatest number of cells of a symmetric matrix that are not 0 */
    const double cells = fmin(levels * levels, 2 * pairs);
    /* the greatest third central moment of the sums of two levels, whose range is 2 span */
    const double shade = 8 * span * span * span * sqrt(3) / 18;

    return (bounds){
        .lo = { [GLCM_ASM] = 1 / cells,
                [GLCM_CORRELATION] = -1,
                [GLCM_IDM] = 1 / (1 + span * span),
                [GLCM_SUM_AVERAGE] = 2,
                [GLCM_IMC1] = -1,
                [COOC_JOINT_MAXIMUM] = 1 / cells,
                [COOC_JOINT_AVERAGE] = 1,
                [COOC_INVERSE_DIFFERENCE] = 1 / (1 + span),
                [COOC_INVERSE_DIFFERENCE_NORMALISED] = 1 / (1 + span / levels),
                [COOC_INVERSE_DIFFERENCE_MOMENT_NORMALISED] = 0.5,
                [COOC_AUTOCORRELATION] = 1,
                [COOC_CLUSTER_SHADE] = -shade },
        .hi = { [GLCM_ASM] = 1,
                [GLCM_CONTRAST] = span * span,
                [GLCM_CORRELATION] = 1,
                [GLCM_VARIANCE] = span * span / 4,
                [GLCM_IDM] = 1,
                [GLCM_SUM_AVERAGE] = 2 * levels,
                [GLCM_SUM_VARIANCE] = span * span,
                [GLCM_SUM_ENTROPY] = log2(fmin(2 * levels - 1, pairs)),
                [GLCM_ENTROPY] = log2(cells),
                [GLCM_DIFFERENCE_VARIANCE] = span * span / 4,
                [GLCM_DIFFERENCE_ENTROPY] = log2(fmin(levels, pairs)),
                [GLCM_IMC2] = 1,
                [COOC_JOINT_MAXIMUM] = 1,
                [COOC_JOINT_AVERAGE] = levels,
                [COOC_DIFFERENCE_AVERAGE] = span,
                [COOC_INVERSE_DIFFERENCE] = 1,
                [COOC_INVERSE_DIFFERENCE_NORMALISED] = 1,
                [COOC_INVERSE_DIFFERENCE_MOMENT_NORMALISED] = 1,
                [COOC_INVERSE_VARIANCE] = 1,
                [COOC_AUTOCORRELATION] = levels * levels,
                [COOC_CLUSTER_TENDENCY] = span * span,
                [COOC_CLUSTER_SHADE] = shade,
                [COOC_CLUSTER_PROMINENCE] = 4 * span * span * span * span / 3 },
    };
}

/* Whether v is a multiple of 2^-32, as each feature of a window is. */
static bool is_fixed_point(double v)
{
    return v * 0x1p32 == nearbyint(v * 0x1p32);
}

/* Returns text that says what is impossible in the five statistics v of a feature with the bounds
 * lo and hi, or NULL if they are possible. */
static const char *fault_of(const double v[GLCM_STATISTICS], double lo, double hi)
{
    /* the tolerance for rounding errors: values are rounded to multiples of 2^-32, and sums are in
     * double precision */
    const double slack = 1e-9 + 1e-12 * hi;

    if (!is_fixed_point(v[GLCM_MIN]) || !is_fixed_point(v[GLCM_MAX]))
        return "minimum or maximum is not a multiple of 2^-32";
    if (!(v[GLCM_MIN] >= lo - slack && v[GLCM_MAX] <= hi + slack))
        return "outside the feature's bounds";
    if (!(v[GLCM_MIN] <= v[GLCM_MAX] && v[GLCM_MEAN] >= v[GLCM_MIN] - slack &&
          v[GLCM_MEAN] <= v[GLCM_MAX] + slack))
        return "the mean is not between minimum and maximum";
    if (!(v[GLCM_SPREAD] >= 0 && v[GLCM_SPREAD] <= v[GLCM_MAX] - v[GLCM_MIN] + slack))
        return "the range is not between 0 and maximum - minimum";
    if (!(v[GLCM_SD] >= 0 && v[GLCM_SD] <= (v[GLCM_MAX] - v[GLCM_MIN]) / 2 + slack))
        return "the standard deviation is not between 0 and half of maximum - minimum";
    for (int i = 0; i < GLCM_STATISTICS; i++)
        if (v[i] == 0 && signbit(v[i]))
            return "a negative zero";
    return NULL;
}

/* Returns text that names the first relation between features that the means m violate, or NULL if
 * all relations hold. The relations hold for a single matrix, and also for means over matrices:
 * they are linear equations, or inequalities to which Jensen's inequality applies. m: NaN for
 * features that the result lacks. Comparisons with NaN are false, so the relations of these
 * features count as not violated. */
static const char *relation_fault(const double m[COOC_FEATURES], double levels)
{
    const double slack = 1e-8 + 1e-12 * levels * levels;

    if (fabs(m[GLCM_SUM_VARIANCE] - (4 * m[GLCM_VARIANCE] - m[GLCM_CONTRAST])) > slack)
        return "sum_variance is not 4 variance - contrast";
    if (m[GLCM_DIFFERENCE_VARIANCE] > m[GLCM_CONTRAST] + slack)
        return "difference_variance is above contrast";
    if (m[GLCM_SUM_ENTROPY] > m[GLCM_ENTROPY] + slack ||
        m[GLCM_DIFFERENCE_ENTROPY] > m[GLCM_ENTROPY] + slack)
        return "entropy is below that of sums or differences";
    if (m[GLCM_IDM] < 1 / (1 + m[GLCM_CONTRAST]) - slack)
        return "idm is below 1 / (1 + contrast)";
    if (m[GLCM_ASM] < exp2(-m[GLCM_ENTROPY]) - slack)
        return "asm is below 2^-entropy";
    if (m[GLCM_ASM] > m[COOC_JOINT_MAXIMUM] + slack ||
        m[COOC_JOINT_MAXIMUM] * m[COOC_JOINT_MAXIMUM] > m[GLCM_ASM] + slack)
        return "asm is not between joint_maximum and its square";
    if (fabs(m[COOC_JOINT_AVERAGE] * 2 - m[GLCM_SUM_AVERAGE]) > slack)
        return "joint_average is not half of sum_average";
    if (fabs(m[COOC_CLUSTER_TENDENCY] - m[GLCM_SUM_VARIANCE]) > slack)
        return "cluster_tendency is not sum_variance";
    if (m[COOC_DIFFERENCE_AVERAGE] > m[GLCM_CONTRAST] + slack ||
        m[COOC_DIFFERENCE_AVERAGE] * m[COOC_DIFFERENCE_AVERAGE] + m[GLCM_DIFFERENCE_VARIANCE] >
            m[GLCM_CONTRAST] + slack)
        return "difference_average and contrast contradict each other";
    if (m[GLCM_IDM] > m[COOC_INVERSE_DIFFERENCE] + slack ||
        m[COOC_INVERSE_DIFFERENCE] > m[COOC_INVERSE_DIFFERENCE_NORMALISED] + slack ||
        m[COOC_INVERSE_DIFFERENCE_NORMALISED] >
            m[COOC_INVERSE_DIFFERENCE_MOMENT_NORMALISED] + slack)
        return "inverse differences contradict each other";
    if (m[COOC_INVERSE_VARIANCE] > m[COOC_DIFFERENCE_AVERAGE] + slack)
        return "inverse_variance is above difference_average";
    if (m[GLCM_SUM_VARIANCE] + m[GLCM_SUM_AVERAGE] * m[GLCM_SUM_AVERAGE] - m[GLCM_CONTRAST] >
        4 * m[COOC_AUTOCORRELATION] + slack * levels)
        return "autocorrelation is below what the sums allow";
    if (m[GLCM_SUM_VARIANCE] * m[GLCM_SUM_VARIANCE] >
        m[COOC_CLUSTER_PROMINENCE] * (1 + 1e-9) + 1e-3)
        return "cluster_prominence is below the square of sum_variance";
    return NULL;
}

/* Elements of the array features for one number of levels and one distance. */
static size_t feature_values(const glcm_params *p)
{
    return (size_t)p->n_features * GLCM_STATISTICS;
}

/* Elements of the array offset_features for one number of levels and one offset. */
static size_t offset_values(const glcm_params *p)
{
    return (size_t)p->n_features * GLCM_MOMENTS;
}

/* --- the arrays features and offset_features ------------------------------------------------- */

static bool same_bits(const void *a, const void *b, size_t bytes)
{
    return memcmp(a, b, bytes) == 0;
}

/* Returns 1 if all n numbers are the NaN that glcm_finish writes, 0 if none is NaN, and -1 if only
 * some are NaN or one is a NaN with other bits. */
static int all_nan(const double *v, size_t n)
{
    const double nan = NAN;
    size_t nans = 0;

    for (size_t i = 0; i < n; i++) {
        if (isnan(v[i]) && !same_bits(&v[i], &nan, sizeof nan))
            return -1;
        nans += isnan(v[i]) != 0;
    }
    return nans == 0 ? 0 : nans == n ? 1 : -1;
}

/* Returns text that says why the features in `row` (five statistics each) are impossible, or NULL
 * if they are possible. levels: their number of grey levels. Sets *feature to the number of the
 * feature at fault, or to -1 if a relation between features is violated. */
static const char *features_fault(const glcm_params *p, const double *row, const bounds *b,
                                  double levels, int *feature)
{
    double means[COOC_FEATURES];
    const char *fault;

    for (int f = 0; f < COOC_FEATURES; f++)
        means[f] = NAN;
    for (unsigned i = 0; i < p->n_features; i++) {
        const double *const v = row + (size_t)i * GLCM_STATISTICS;

        *feature = (int)p->feature[i];
        fault = fault_of(v, b->lo[*feature], b->hi[*feature]);
        if (fault != NULL)
            return fault;
        means[*feature] = v[GLCM_MEAN];
    }
    *feature = -1;
    return relation_fault(means, levels);
}

/* Sets fits[d], for each distance d, to whether any window has a pair at this distance. If the ROI
 * is a mask, which this file does not have, fits[d] is whether the distance's first value in
 * `features` is a number; the caller checks that all other values agree with it. */
static void find_distances(const layout *g, const double *features, bool *fits)
{
    const glcm_params *const p = g->p;

    memset(fits, 0, p->n_distances * sizeof *fits);
    for (size_t d = 0; p->roi == GLCM_ROI_MASK && d < p->n_distances; d++)
        fits[d] = !isnan(features[d * feature_values(p)]);
    for (size_t o = 0; p->roi != GLCM_ROI_MASK && o < p->n_offsets; o++)
        if (!fits[p->offsets[o].distance])
            fits[p->offsets[o].distance] = offset_fits(g, &p->offsets[o]);
}

/* Checks the array features, to whose first element `row` points. */
static tc_status check_features(const layout *g, const double *row, tc_err *err)
{
    const glcm_params *const p = g->p;
    bool fits[GLCM_MAX_DISTANCE];

    find_distances(g, row, fits);
    for (size_t level = 0; level < p->n_levels; level++) {
        const bounds b = bounds_of(g, p->levels[level]);

        for (size_t d = 0; d < p->n_distances; d++, row += feature_values(p)) {
            const int nans = all_nan(row, feature_values(p));
            const char *fault = NULL;
            int f = -1;

            if (nans != !fits[d]) /* without pairs all must be NaN (1), with pairs none (0) */
                fault = fits[d] ? "NaN, where windows have pairs"
                                : "not NaN, where no window has a pair";
            else if (fits[d])
                fault = features_fault(p, row, &b, p->levels[level], &f);
            if (fault != NULL)
                return tc_fail(err, TC_BAD_INPUT, "features: glcm_L%u_d%02u%s%s: %s",
                               p->levels[level], p->distances[d], f < 0 ? "" : "_",
                               f < 0 ? "" : cooc_names[f], fault);
        }
    }
    return TC_OK;
}

void glcm_as_statistics(const double m[GLCM_MOMENTS], double v[GLCM_STATISTICS])
{
    v[GLCM_MEAN] = m[0];
    v[GLCM_SPREAD] = 0;
    v[GLCM_SD] = sqrt(m[1]);
    v[GLCM_MIN] = m[2];
    v[GLCM_MAX] = m[3];
}

/* Checks the array offset_features, to whose first element `row` points. */
static tc_status check_offsets(const layout *g, const double *row, tc_err *err)
{
    const glcm_params *const p = g->p;

    for (size_t level = 0; level < p->n_levels; level++) {
        const bounds b = bounds_of(g, p->levels[level]);

        for (size_t o = 0; o < p->n_offsets; o++, row += offset_values(p)) {
            const int nans = all_nan(row, offset_values(p));
            const bool fits = p->roi == GLCM_ROI_MASK ? nans == 0 : offset_fits(g, &p->offsets[o]);
            double five[COOC_FEATURES * GLCM_STATISTICS];
            const char *fault = NULL;
            int f = -1;

            for (size_t i = 0; i < p->n_features; i++)
                glcm_as_statistics(row + i * GLCM_MOMENTS, five + i * GLCM_STATISTICS);
            if (nans != !fits)
                fault =
                    fits ? "NaN, where windows have pairs" : "not NaN, where no window has a pair";
            else if (fits)
                fault = features_fault(p, five, &b, p->levels[level], &f);
            if (fault != NULL)
                return tc_fail(err, TC_BAD_INPUT, "offset_features: L%u offset (%d,%d)%s%s: %s",
                               p->levels[level], p->offsets[o].dx, p->offsets[o].dy,
                               f < 0 ? "" : " ", f < 0 ? "" : cooc_names[f], fault);
        }
    }
    return TC_OK;
}

/* Checks that the array features is, to the bit, the summary of the array offset_features. */
static tc_status check_summaries(const glcm_params *p, const double *features,
                                 const double *offsets, tc_err *err)
{
    const size_t stride = offset_values(p);

    for (size_t level = 0; level < p->n_levels; level++, offsets += p->n_offsets * stride)
        for (unsigned d = 0; d < p->n_distances; d++)
            for (size_t f = 0; f < p->n_features; f++, features += GLCM_STATISTICS) {
                glcm_summary summary = { .n = 0 };
                double five[GLCM_STATISTICS];

                for (size_t o = 0; o < p->n_offsets; o++)
                    if (p->offsets[o].distance == d)
                        glcm_summary_add(&summary, offsets + o * stride + f * GLCM_MOMENTS);
                glcm_summary_end(&summary, five);
                if (!same_bits(five, features, sizeof five))
                    return tc_fail(err, TC_BAD_INPUT,
                                   "features: glcm_L%u_d%02u_%s: not what offset_features gives",
                                   p->levels[level], p->distances[d], p->feature_names[f]);
            }
    return TC_OK;
}

/* --- maps ------------------------------------------------------------------------------------ */

/* Statistics of the values of a map that are not NaN: their sum, minimum, maximum and number. */
typedef struct map_sums {
    double sum, min, max;
    uint64_t n;
} map_sums;

/* Returns text that says what is impossible in the slice v of a map with offset o, or NULL if it is
 * possible. Values must be NaN where the window has no pair, and from bound[0] to bound[1]
 * elsewhere. Adds the slice's values to *s. */
static const char *slice_fault(const layout *g, const glcm_offset *o, const float *v,
                               const double bound[2], map_sums *s)
{
    const float nan = NAN;

    for (int64_t y = 0; y < g->ny; y++)
        for (int64_t x = 0; x < g->nx; x++, v++) {
            const bool possible = in_roi(g, x, y) && has_pair(g, o, x, y);

            if (isnan(*v)) {
                if (!same_bits(v, &nan, sizeof nan))
                    return "a NaN that texcell does not write";
                if (possible && g->p->roi != GLCM_ROI_MASK)
                    return "NaN, where the window has pairs";
                continue;
            }
            if (!possible)
                return "not NaN, where no window has a pair";
            if (!(*v >= (float)bound[0] && *v <= (float)bound[1]))
                return "outside minimum and maximum of the feature";
            s->min = s->n == 0 || *v < s->min ? *v : s->min;
            s->max = s->n == 0 || *v > s->max ? *v : s->max;
            s->sum += *v;
            s->n++;
        }
    return NULL;
}

/* Returns text that says how a map's statistics contradict `moments`, or NULL if they agree.
 * moments: the values in offset_features for the map's feature, number of levels and offset, in the
 * order mean, variance, minimum, maximum. */
static const char *moments_fault(const map_sums *s, const double moments[GLCM_MOMENTS])
{
    if ((s->n == 0) != (isnan(moments[0]) != 0))
        return "only one of the map and offset_features has values";
    if (s->n == 0)
        return NULL;
    if (s->min != (double)(float)moments[2] || s->max != (double)(float)moments[3])
        return "minimum or maximum is not that of offset_features";
    /* The tolerance covers the rounding of each value to float. */
    if (fabs(s->sum / (double)s->n - moments[0]) > 1e-6 * (1 + fabs(s->max)))
        return "the mean is not that of offset_features";
    return NULL;
}

/* Checks a map against the bounds in `features` and the moments in `offset_features`. */
static tc_status check_map(const layout *g, const wu_item *item, const glcm_map *map,
                           const wu_out_array *array, const wu_output *out, tc_err *err)
{
    const glcm_params *const p = g->p;
    const glcm_offset *const o = &p->offsets[map->offset];
    const size_t plane = (size_t)item->nx * item->ny;
    /* index of the map's feature among the features of the job */
    const size_t at = (size_t)__builtin_popcount(p->features & ((1u << map->feature) - 1));
    const double *const features = (const double *)wu_output_data(out, "features") +
                                   (map->level * p->n_distances + o->distance) * feature_values(p) +
                                   at * GLCM_STATISTICS;
    const double bound[2] = { features[GLCM_MIN], features[GLCM_MAX] };
    map_sums sums = { .n = 0 };
    const char *fault = NULL;

    for (uint32_t z = 0; fault == NULL && z < item->nz; z++)
        fault = slice_fault(g, o, (const float *)array->data + z * plane, bound, &sums);
    if (fault == NULL && p->per_offset)
        fault =
            moments_fault(&sums, (const double *)wu_output_data(out, "offset_features") +
                                     (map->level * p->n_offsets + map->offset) * offset_values(p) +
                                     at * GLCM_MOMENTS);
    if (fault != NULL)
        return tc_fail(err, TC_BAD_INPUT, "%s: %s", array->info.name, fault);
    return TC_OK;
}

/* --- band sums ------------------------------------------------------------------------------- */

/* Checks that band_sums is 0 in the bands that contain no windows, as they have neither a row nor a
 * column of the ROI. This happens if the ROI has fewer than GLCM_BANDS rows and columns. */
static tc_status check_bands(const layout *g, const int64_t *sum, tc_err *err)
{
    const glcm_params *const p = g->p;
    const bool disc = p->roi == GLCM_ROI_DISC;
    const int64_t rows = disc ? smaller(g->ny, g->cy + p->roi_r + 1) - larger(0, g->cy - p->roi_r)
                              : g->ny,
                  columns = disc
                                ? smaller(g->nx, g->cx + p->roi_r + 1) - larger(0, g->cx - p->roi_r)
                                : g->nx;
    bool has[GLCM_BANDS] = { false };

    for (int64_t i = 0; i < rows; i++)
        has[GLCM_BAND(i, rows)] = true;
    for (int64_t i = 0; i < columns; i++)
        has[GLCM_BAND(i, columns)] = true;
    for (int i = 0; i < GLCM_BANDS; i++)
        if (!has[i] && sum[i] != 0)
            return tc_fail(err, TC_BAD_INPUT, "band_sums: band %d: is not 0, but has no windows",
                           i);
    return TC_OK;
}

/* Returns the class, 0 to 2r, of coordinate x along a side of n pixels: how the picture's borders
 * cut a window of radius r with this centre. Windows whose centres have equal classes have the same
 * pairs. */
static int64_t cut_of(int64_t x, int64_t n, int64_t r)
{
    return n <= 2 * r || x < r ? x : smaller(r, x) + larger(0, x - (n - 1 - r));
}

/* Returns a coordinate of class `cut`: the inverse of cut_of. */
static int64_t pixel_at(int64_t cut, int64_t n, int64_t r)
{
    return n <= 2 * r || cut <= r ? cut : cut + n - 1 - 2 * r;
}

/* Counts the windows whose centres have class y and class x (cut_of) in at[2r+1][2r+1], zeroed by
 * the caller. mask: [nz][ny][nx], not 0 for pixels that have a window; NULL: all pixels of the ROI
 * have one. Returns the number of all windows. */
static uint64_t count_cuts(const layout *g, const wu_item *item, const uint8_t *mask, uint64_t *at)
{
    const int64_t r = g->p->radius, slices = mask != NULL ? item->nz : 1;
    const uint64_t each = mask != NULL ? 1 : item->nz; /* without a mask, all slices are alike */
    uint64_t n = 0;

    for (int64_t z = 0; z < slices; z++)
        for (int64_t y = 0; y < g->ny; y++) {
            uint64_t *const row = at + cut_of(y, g->ny, r) * (2 * r + 1);
            const uint8_t *const m = mask != NULL ? mask + (z * g->ny + y) * g->nx : NULL;

            for (int64_t x = 0; x < g->nx; x++)
                if (m != NULL ? m[x] != 0 : in_roi(g, x, y)) {
                    row[cut_of(x, g->nx, r)] += each;
                    n += each;
                }
        }
    return n;
}

/* Whether every window has a pair, wherever its centre is. If the picture is wider and higher than
 * 2r, at least a quarter of each window is in the picture. Of a window centred at a corner of the
 * picture only a quarter is. So it suffices that the windows at the four corners have a pair. */
static bool quarters_have_pairs(const layout *g, const glcm_offset *o)
{
    const int64_t side = 2 * (int64_t)g->p->radius;
    bool have = g->nx > side && g->ny > side;

    for (int corner = 0; have && corner < 4; corner++)
        have = has_pair(g, o, corner & 1 ? g->nx - 1 : 0, corner & 2 ? g->ny - 1 : 0);
    return have;
}

/* Returns how many of the n windows have a pair of offset o. at: the counts made by count_cuts. */
static uint64_t count_with_pair(const layout *g, const glcm_offset *o, const uint64_t *at,
                                uint64_t n)
{
    const int64_t r = g->p->radius, side = 2 * r + 1;
    uint64_t with_pair = 0;

    if (quarters_have_pairs(g, o))
        return n;
    for (int64_t y = 0; y < side; y++)
        for (int64_t x = 0; x < side; x++)
            if (at[y * side + x] > 0 &&
                has_pair(g, o, pixel_at(x, g->nx, r), pixel_at(y, g->ny, r)))
                with_pair += at[y * side + x];
    return with_pair;
}

/* The numbers of windows that have a pair, for the offsets of one distance: n is their sum;
 * deviation is the sum of their absolute differences from their mean. */
typedef struct distance_windows {
    double n, deviation;
} distance_windows;

/* windows: [n_offsets], the number of windows that have a pair of each offset. */
static distance_windows windows_of(const glcm_params *p, const uint64_t *windows, unsigned distance)
{
    distance_windows w = { .n = 0 };
    double offsets = 0;

    for (size_t o = 0; o < p->n_offsets; o++)
        if (p->offsets[o].distance == distance && windows[o] > 0) {
            w.n += (double)windows[o];
            offsets++;
        }
    for (size_t o = 0; o < p->n_offsets; o++)
        if (p->offsets[o].distance == distance && windows[o] > 0)
            w.deviation += fabs((double)windows[o] - w.n / offsets);
    return w;
}

/* Checks that the sum of band_sums is, except for rounding, the sum of all means in `features`,
 * each multiplied by its number of windows. If the offsets of a distance have different numbers of
 * windows, the mean over offsets, which `features` has, differs from the mean over windows. The
 * tolerance then allows each offset's mean to differ by the feature's range over the offsets
 * (GLCM_SPREAD). windows: [n_offsets], the number of windows that have a pair. */
static tc_status compare_means(const glcm_params *p, const uint64_t *windows,
                               const double *features, const int64_t *sum, tc_err *err)
{
    double slack = GLCM_BANDS;
    __int128 means = 0;
    uint64_t bands = 0;

    for (int i = 0; i < GLCM_BANDS; i++)
        bands += (uint64_t)sum[i];
    for (unsigned l = 0; l < p->n_levels; l++)
        for (unsigned d = 0; d < p->n_distances; d++) {
            const distance_windows w = windows_of(p, windows, d);

            for (unsigned f = 0; f < p->n_features; f++, features += GLCM_STATISTICS) {
                const int bits = p->feature[f] < GLCM_FEATURES
                                     ? 32
                                     : glcm_fraction_bits(p->feature[f], p->levels[l]);
                const double unit = ldexp(w.n, bits);

                if ((isnan(features[GLCM_MEAN]) != 0) != (w.n == 0))
                    return tc_fail(err, TC_BAD_INPUT,
                                   "features: NaN where windows have pairs, or the reverse");
                if (w.n == 0)
                    continue;
                means += (__int128)(features[GLCM_MEAN] * unit);
                slack += 0x1p-48 * unit * fmax(fabs(features[GLCM_MIN]), fabs(features[GLCM_MAX])) +
                         ldexp(w.deviation, bits) * features[GLCM_SPREAD];
            }
        }
    /* Band sums are modulo 2^64, so the difference cannot be compared with a greater tolerance. */
    if (slack < 0x1p62 && fabs((double)(int64_t)(bands - (uint64_t)means)) > slack)
        return tc_fail(err, TC_BAD_INPUT, "features: their means are not those of band_sums");
    return TC_OK;
}

tc_status glcm_check_means(const glcm_params *p, const wu_item *item, const uint8_t *mask,
                           const wu_output *out, tc_err *err)
{
    const size_t side = 2 * (size_t)p->radius + 1;
    TC_AUTOFREE uint64_t *const at = calloc(side * side, sizeof *at);
    TC_AUTOFREE uint64_t *const windows = calloc(p->n_offsets, sizeof *windows);
    uint64_t n;
    layout g;

    if (at == NULL || windows == NULL)
        return tc_no_memory(err, "the windows");
    layout_init(&g, p, item);
    n = count_cuts(&g, item, mask, at);
    for (size_t o = 0; o < p->n_offsets; o++)
        windows[o] = count_with_pair(&g, &p->offsets[o], at, n);
    return compare_means(p, windows, wu_output_data(out, "features"),
                         wu_output_data(out, "band_sums"), err);
}

/* --- the result ------------------------------------------------------------------------------ */

tc_status glcm_check_result(const void *params, const wu_item *item, const wu_output *out,
                            tc_err *err)
{
    const glcm_params *const p = params;
    const double *const features = wu_output_data(out, "features");
    layout g;

    layout_init(&g, p, item);
    return_if_error(check_features(&g, features, err));
    if (p->window != GLCM_WHOLE_ROI)
        return_if_error(check_bands(&g, wu_output_data(out, "band_sums"), err));
    if (p->window != GLCM_WHOLE_ROI && p->roi != GLCM_ROI_MASK)
        return_if_error(glcm_check_means(p, item, NULL, out, err));
    if (p->per_offset) {
        const double *const offsets = wu_output_data(out, "offset_features");

        return_if_error(check_offsets(&g, offsets, err));
        return_if_error(check_summaries(p, features, offsets, err));
    }
    for (size_t i = 0; i < p->n_maps; i++)
        return_if_error(
            check_map(&g, item, &p->maps[i], &out->arrays[out->n - p->n_maps + i], out, err));
    return TC_OK;
}
