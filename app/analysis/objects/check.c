/* objects: checks whether the arrays of a result are consistent with each other, with the
 * parameters and with the size of the item, without reading the pixels. Functions named ..._fault
 * return a message about what is wrong in a row of the table of objects, or NULL. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "app/analysis/check.h"
#include "app/analysis/objects/objects.h"

/* Relative tolerance for comparisons: more than the rounding errors of sums and roots. */
#define SLACK 1e-9

/* The size of a column_cache: no row needs more reads of columns. */
enum { MOST_READS = 64 };

/* A cache of the addresses of columns, in the order in which they are read. As the columns are read
 * in the same order for most rows, column_of finds most of them here. */
typedef struct column_cache {
    struct {
        const char *name; /* compared as a pointer, not as text */
        const void *data;
    } column[MOST_READS];
    size_t next;
} column_cache;

/* The least and the greatest value of a column. */
typedef struct bounds {
    double lo, hi;
} bounds;

/* A row of the table, and the size of its object. */
typedef struct row {
    const obj_params *params;
    const wu_item *item;
    const wu_output *out;
    column_cache *column_cache; /* shared by all rows */
    const bounds *bounds;       /* [COOC_FEATURES]: of the texture features */
    size_t i;                   /* index of the row */
    int dims;                   /* 3 for stacks, 2 for pictures */
    bool has_shape;             /* the result has the columns of OBJ_SHAPE */
    int64_t area;               /* pixels or voxels; 0 without OBJ_SHAPE */
    int64_t size[3]; /* sides of the bounding box, z, y, x; without OBJ_SHAPE those of the item */
    int64_t lo[3];   /* first pixel of the box */
} row;

/* Returns the data of a column. */
static const void *column_of(const row *r, const char *name)
{
    const size_t i = r->column_cache->next++ % MOST_READS;

    if (r->column_cache->column[i].name != name) {
        r->column_cache->column[i].name = name;
        r->column_cache->column[i].data = wu_output_data(r->out, name);
    }
    return r->column_cache->column[i].data;
}

static int64_t integer_of(const row *r, const char *name)
{
    return ((const int64_t *)column_of(r, name))[r->i];
}

static double real_of(const row *r, const char *name)
{
    return ((const double *)column_of(r, name))[r->i];
}

/* Returns the row's n values of a column that has n values in each row. */
static const double *reals_of(const row *r, const char *name, size_t n)
{
    return (const double *)column_of(r, name) + r->i * n;
}

/* Whether a <= b, except for rounding; false if one is NaN. */
static bool at_most(double a, double b)
{
    return a <= b + SLACK * (1 + fabs(a) + fabs(b));
}

/* Whether a <= b, except for rounding, where b >= 0 may be far smaller than 1, as lengths in
 * micrometres may be. The tolerance is relative to b alone. */
static bool at_most_scaled(double a, double b)
{
    return a <= b + SLACK * b;
}

/* Whether a = b, except for rounding. */
static bool is_about(double a, double b)
{
    return at_most(a, b) && at_most(b, a);
}

/* Whether lo <= v <= hi, except for rounding. */
static bool is_within(double v, double lo, double hi)
{
    return at_most(lo, v) && at_most(v, hi);
}

/* --- shape ------------------------------------------------------------------------------------ */

/* Checks the bounding box and what depends on it. Sets r->lo and r->size. */
static const char *box_fault(row *r)
{
    const int64_t size[3] = { r->item->nz, r->item->ny, r->item->nx };
    const int64_t *const box =
        (const int64_t *)column_of(r, "object_bbox") + r->i * 2 * (size_t)r->dims;
    const double *const centroid = reals_of(r, "object_centroid", (size_t)r->dims);
    int64_t pixels = 1, sum;
    bool border = false;

    for (int k = 0; k < r->dims; k++) {
        const int axis = k + 3 - r->dims;

        if (box[k] < 0 || box[k] >= box[r->dims + k] || box[r->dims + k] > size[axis])
            return "object_bbox: not a box within the picture";
        r->lo[axis] = box[k];
        r->size[axis] = box[r->dims + k] - box[k];
        pixels *= r->size[axis];
        border = border || box[k] == 0 || box[r->dims + k] == size[axis];
    }
    /* A box of more than one pixel needs at least two pixels, at opposite corners. */
    if (r->area < (pixels > 1 ? 2 : 1) || r->area > pixels)
        return r->dims == 3 ? "object_voxels: does not go with object_bbox"
                            : "object_area: does not go with object_bbox";
    for (int k = 0; k < r->dims; k++)
        if (!(centroid[k] >= (double)box[k] && centroid[k] <= (double)box[r->dims + k] - 1) ||
            !an_is_quotient(centroid[k], r->area, &sum))
            return "object_centroid: cannot be the centroid of this number of pixels in "
                   "object_bbox";
    if ((((const uint8_t *)column_of(r, "object_border"))[r->i] != 0) != border)
        return "object_border: does not go with object_bbox";
    if (border && r->params->exclude_border)
        return "object_border: objects at the border are excluded";
    if (real_of(r, "object_extent") != (double)r->area / (double)pixels)
        return "object_extent: is not the share of object_bbox that the object fills";
    return NULL;
}

/* Whether `trace`, the sum of the variances of the object's pixels along all axes, is possible.
 * Along an axis on which the box has the length L between its outermost pixels, the variance is
 * least, L^2 / (2 area), if one pixel is at each end and all others are in the middle; it is
 * greatest, L^2 / 4, if half of the pixels are at each end. */
static bool trace_fits(const row *r, double trace, const double spacing[3])
{
    double least = 0, most = 0;

    for (int k = 0; k < 3; k++) {
        const double length = (double)(r->size[k] - 1) * spacing[k];

        least += length * length / (2 * (double)r->area);
        most += length * length / 4;
    }
    return at_most_scaled(least, trace) && at_most_scaled(trace, most);
}

/* Whether p is a possible perimeter of `area` pixels: the sum of at most one term for each pixel,
 * which is 1, sqrt(2) or (1 + sqrt(2)) / 2. So 2p = ones + roots sqrt(2), where `ones` and `roots`
 * are integers whose difference is even. */
static bool is_perimeter(double p, int64_t area)
{
    if (!(p >= 0) || p > sqrt(2) * (double)area + 1e-6)
        return false;
    for (int64_t roots = 0; roots <= 2 * area; roots++) {
        const double rest = 2 * p - (double)roots * sqrt(2);

        if (rest < -1e-6)
            return false;
        const int64_t ones = (int64_t)(rest + 0.5); /* the nearest integer, faster than by floor */
        if (fabs(rest - (double)ones) < 1e-9 * (1 + p) && (ones - roots) % 2 == 0)
            return true;
    }
    return false;
}

static const char *ellipse_fault(const row *r)
{
    static const double pixel[3] = { 1, 1, 1 };
    const double major = real_of(r, "object_axis_major_length"),
                 minor = real_of(r, "object_axis_minor_length"),
                 eccentricity = real_of(r, "object_eccentricity"),
                 orientation = real_of(r, "object_orientation");

    /* An axis of the ellipse is 4 times the root of the variance along it. */
    if (!(minor >= 0) || !(major >= minor) ||
        !trace_fits(r, (major * major + minor * minor) / 16, pixel))
        return "object_axis_major_length, object_axis_minor_length: impossible for an object in "
               "object_bbox";
    if (!(eccentricity >= 0 && eccentricity <= 1) ||
        !is_about(eccentricity * eccentricity,
                  major == 0 ? 0 : 1 - minor / major * (minor / major)))
        return "object_eccentricity: does not go with the axes";
    if (!(fabs(orientation) <= TC_PI / 2))
        return "object_orientation: not from -pi/2 to pi/2";
    return NULL;
}

static const char *hull_fault(const row *r)
{
    const int64_t convex = integer_of(r, "object_area_convex"),
                  euler = integer_of(r, "object_euler_number"),
                  holes = integer_of(r, "object_holes"), pixels = r->size[1] * r->size[2];
    const double feret = real_of(r, "object_feret_diameter_max"), square = 4 * feret * feret,
                 longest = (double)(r->size[1] > r->size[2] ? r->size[1] : r->size[2]);

    if (convex < r->area || convex > pixels)
        return "object_area_convex: is less than object_area or greater than the area of "
               "object_bbox";
    if (real_of(r, "object_solidity") != (double)r->area / (double)convex)
        return "object_solidity: is not object_area / object_area_convex";
    if (holes < 0 || holes > convex - r->area)
        return "object_holes: more than the hull has room for";
    /* euler + holes is the number of pieces, from 1 to the number of pixels. */
    if (euler < 1 - holes || euler > r->area - holes)
        return "object_euler_number: does not go with object_holes";
    /* feret is the distance of two points with integer coordinates in half pixels, so 4 feret^2 is
     * an integer. */
    if (!(feret >= longest &&
          at_most(feret, sqrt((double)(r->size[1] * r->size[1] + r->size[2] * r->size[2])))) ||
        sqrt(floor(square + 0.5)) / 2 != feret)
        return "object_feret_diameter_max: impossible for an object in object_bbox";
    return NULL;
}

static const char *picture_shape_fault(const row *r)
{
    const double perimeter = real_of(r, "object_perimeter"), area = (double)r->area,
                 form = real_of(r, "object_form_factor");
    const char *fault;

    if (!is_perimeter(perimeter, r->area))
        return "object_perimeter: impossible for this number of pixels";
    if (perimeter > 0 ? form != 4 * TC_PI * area / (perimeter * perimeter) : !isnan(form))
        return "object_form_factor: does not go with area and perimeter";
    if (real_of(r, "object_equivalent_diameter_area") != sqrt(4 * area / TC_PI))
        return "object_equivalent_diameter_area: does not follow from object_area";
    fault = ellipse_fault(r);
    return fault == NULL ? hull_fault(r) : fault;
}

/* The largest area of the surface within a cube of eight voxels. */
static double most_area(const obj_mesh *mesh)
{
    double most = 0;

    for (int w = 0; w < 256; w++)
        most = mesh->area[w] > most ? mesh->area[w] : most;
    return most;
}

/* most: the result of most_area. */
static const char *stack_shape_fault(const row *r, double most)
{
    const double *const s = r->item->spacing, *const axes = reals_of(r, "object_axis_length", 3);
    const double volume = real_of(r, "object_volume_um3"), surface = real_of(r, "object_surface"),
                 enclosed = real_of(r, "object_mesh_volume");
    const int64_t euler = integer_of(r, "object_euler_number");

    if (volume != (double)r->area * (s[0] * s[1] * s[2]))
        return "object_volume_um3: is not object_voxels times the volume of a voxel";
    /* An axis of the ellipsoid is the root of 20 times the variance along it. */
    if (!(axes[2] >= 0) || !(axes[1] >= axes[2]) || !(axes[0] >= axes[1]) ||
        !trace_fits(r, (axes[0] * axes[0] + axes[1] * axes[1] + axes[2] * axes[2]) / 20, s))
        return "object_axis_length: impossible for an object in object_bbox";
    /* Each voxel lies in 8 windows of 2 x 2 x 2 voxels, in each of which the surface has at most
     * the area `most` and encloses at most the volume of a voxel. */
    if (!(surface > 0) || !at_most_scaled(surface, 8 * (double)r->area * most))
        return "object_surface: impossible for this number of voxels";
    if (!(enclosed > 0) || !at_most_scaled(enclosed, 8 * volume))
        return "object_mesh_volume: impossible for this number of voxels";
    if (real_of(r, "object_sphericity") != tc_cbrt(36 * TC_PI * enclosed * enclosed) / surface)
        return "object_sphericity: does not go with mesh_volume and surface";
    /* The Euler number is vertices - edges + faces - voxels. A voxel has 12 edges, and there are
     * more faces than voxels. */
    if (euler > r->size[0] * r->size[1] * r->size[2] || euler < -12 * r->area)
        return "object_euler_number: impossible for this number of voxels";
    return NULL;
}

/* --- intensity -------------------------------------------------------------------------------- */

/* lo, hi: the least and the greatest grey value of the object. */
static const char *percentiles_fault(const row *r, double lo, double hi)
{
    const double *const p = reals_of(r, "object_intensity_percentile", OBJ_PERCENTILES);
    const double median = real_of(r, "object_intensity_median");
    const double order[] = { lo, p[0], p[1], p[2], median, p[3], p[4], p[5], hi };

    for (size_t k = 1; k < sizeof order / sizeof order[0]; k++)
        if (!(order[k] >= order[k - 1]))
            return "object_intensity_percentile: not in order with minimum, median and maximum";
    for (size_t k = 0; k < OBJ_PERCENTILES; k++)
        if (fabs(p[k] * 100 - (double)(int)(p[k] * 100 + 0.5)) > 1e-6)
            return "object_intensity_percentile: not a multiple of 0.01 grey values";
    return 2 * median == floor(2 * median)
               ? NULL
               : "object_intensity_median: neither a grey value nor halfway between two";
}

/* Checks the moments of the grey values by inequalities that hold for any n values from lo to hi:
 * (hi - lo)^2 / (2n) <= std^2 <= (hi - mean) (mean - lo), skewness^2 - 2 <= kurtosis <= n - 3 and
 * |skewness| <= sqrt(n). kurtosis is the excess kurtosis, 0 for a normal distribution. n: the
 * number of pixels, or 0 if it is not known. */
static const char *moments_fault(const row *r, double lo, double hi, double n)
{
    const double mean = real_of(r, "object_intensity_mean"),
                 std = real_of(r, "object_intensity_std"),
                 skewness = real_of(r, "object_intensity_skewness"),
                 kurtosis = real_of(r, "object_intensity_kurtosis"),
                 entropy = real_of(r, "object_intensity_entropy");

    if (lo == hi)
        return std == 0 && skewness == 0 && kurtosis == 0 && entropy == 0
                   ? NULL
                   : "object_intensity_std: all pixels have the same grey value, but standard "
                     "deviation, skewness, kurtosis or entropy is not 0";
    if (!(std > 0) || !at_most(std * std, (hi - mean) * (mean - lo)) ||
        (n > 0 && !at_most((hi - lo) * (hi - lo) / (2 * n), std * std)))
        return "object_intensity_std: impossible with this mean, minimum and maximum";
    if (!at_most(skewness * skewness - 2, kurtosis) || (n > 0 && !at_most(kurtosis, n - 3)))
        return "object_intensity_kurtosis: does not go with skewness and number of pixels";
    if (n > 0 && !at_most(fabs(skewness), sqrt(n)))
        return "object_intensity_skewness: greater than the number of pixels allows";
    /* Among n values at most n are different, so 2^entropy <= n. */
    if (!(entropy > 0 && entropy <= 16) || (n > 0 && entropy < 16 && !at_most(exp2(entropy), n)) ||
        !at_most(exp2(entropy), hi - lo + 1))
        return "object_intensity_entropy: impossible for this number of pixels and grey values";
    return NULL;
}

/* sum: the sum of the object's grey values. */
static const char *weighted_fault(const row *r, int64_t sum)
{
    const double *const at = reals_of(r, "object_centroid_weighted", (size_t)r->dims);

    for (int k = 0; k < r->dims; k++) {
        const int axis = k + 3 - r->dims;
        const double lo = (double)r->lo[axis], hi = (double)(r->lo[axis] + r->size[axis] - 1);

        if (sum == 0 ? !isnan(at[k]) : !is_within(at[k], lo, hi))
            return "object_centroid_weighted: not within object_bbox";
    }
    return NULL;
}

static const char *intensity_fault(const row *r)
{
    const int64_t lo = integer_of(r, "object_intensity_min"),
                  hi = integer_of(r, "object_intensity_max"),
                  sum = integer_of(r, "object_intensity_integrated");
    const double mean = real_of(r, "object_intensity_mean");
    const char *fault;

    if (lo < 0 || hi < lo || hi > (1 << r->item->bits) - 1)
        return "object_intensity_min, object_intensity_max: not two grey values in order";
    if (!(mean >= (double)lo && mean <= (double)hi))
        return "object_intensity_mean: not from minimum to maximum";
    if (sum < lo || (r->has_shape && mean != (double)sum / (double)r->area))
        return "object_intensity_integrated: does not go with mean and area";
    if (r->area == 1 && lo < hi)
        return "object_intensity_min: one pixel cannot have two grey values";
    fault = percentiles_fault(r, (double)lo, (double)hi);
    if (fault == NULL)
        fault = moments_fault(r, (double)lo, (double)hi, (double)r->area);
    return fault == NULL ? weighted_fault(r, sum) : fault;
}

/* --- texture ---------------------------------------------------------------------------------- */

/* Sets the least and the greatest value of a feature with this number of grey levels: 0 and 1
 * unless the switch sets others. */
static void bounds_of(int feature, double levels, double *lo, double *hi)
{
    const double span = levels - 1;

    *lo = 0;
    *hi = 1;
    switch (feature) {
    case COOC_CORRELATION: *lo = -1; break;
    case COOC_IMC1:
        *lo = -1;
        *hi = 0;
        break;
    case COOC_CONTRAST:
    case COOC_SUM_VARIANCE:
    case COOC_CLUSTER_TENDENCY: *hi = span * span; break;
    case COOC_VARIANCE:
    case COOC_DIFFERENCE_VARIANCE: *hi = span * span / 4; break;
    case COOC_SUM_AVERAGE:
        *lo = 2;
        *hi = 2 * levels;
        break;
    case COOC_JOINT_AVERAGE:
        *lo = 1;
        *hi = levels;
        break;
    case COOC_DIFFERENCE_AVERAGE: *hi = span; break;
    case COOC_AUTOCORRELATION:
        *lo = 1;
        *hi = levels * levels;
        break;
    case COOC_SUM_ENTROPY: *hi = log2(2 * levels - 1); break;
    case COOC_ENTROPY: *hi = 2 * log2(levels); break;
    case COOC_DIFFERENCE_ENTROPY: *hi = log2(levels); break;
    /* Third and fourth central moments of the sum of two levels, whose range is R = 2 span. They
     * are at most R^3 sqrt(3) / 18 and R^4 / 12. */
    case COOC_CLUSTER_SHADE:
        *hi = 8 * span * span * span * sqrt(3) / 18;
        *lo = -*hi;
        break;
    case COOC_CLUSTER_PROMINENCE: *hi = 16 * span * span * span * span / 12; break;
    default: break;
    }
}

/* Pairs of features: in every matrix, and so in averages over matrices, the first is at most the
 * second. */
static const struct {
    int lesser, greater;
} orders[] = { { COOC_ASM, COOC_JOINT_MAXIMUM },
               { COOC_SUM_ENTROPY, COOC_ENTROPY },
               { COOC_DIFFERENCE_ENTROPY, COOC_ENTROPY },
               { COOC_DIFFERENCE_VARIANCE, COOC_CONTRAST },
               { COOC_DIFFERENCE_AVERAGE, COOC_CONTRAST },
               { COOC_IDM, COOC_INVERSE_DIFFERENCE },
               { COOC_INVERSE_DIFFERENCE, COOC_INVERSE_DIFFERENCE_NORMALISED },
               { COOC_INVERSE_DIFFERENCE_NORMALISED, COOC_INVERSE_DIFFERENCE_MOMENT_NORMALISED },
               { COOC_INVERSE_VARIANCE, COOC_DIFFERENCE_AVERAGE } };

/* Checks relations between features. f: [COOC_FEATURES]: the values of all features; NaN for those
 * that the result lacks, and for all if the object has no pair. A relation with a NaN holds. */
static const char *relations_fault(const double *f)
{
    const double squared = f[COOC_SUM_AVERAGE] * f[COOC_SUM_AVERAGE];

    for (size_t k = 0; k < sizeof orders / sizeof orders[0]; k++)
        if (f[orders[k].lesser] > f[orders[k].greater] &&
            !at_most(f[orders[k].lesser], f[orders[k].greater]))
            return "object_glcm: one feature is greater than another that bounds it";
    if (!isnan(f[COOC_SUM_VARIANCE] + f[COOC_CONTRAST] + f[COOC_VARIANCE]) &&
        !is_about(4 * f[COOC_VARIANCE], f[COOC_SUM_VARIANCE] + f[COOC_CONTRAST]))
        return "object_glcm: variance, sum_variance and contrast do not go together";
    if (!isnan(f[COOC_SUM_VARIANCE] + f[COOC_CLUSTER_TENDENCY]) &&
        f[COOC_SUM_VARIANCE] != f[COOC_CLUSTER_TENDENCY])
        return "object_glcm: cluster_tendency is not sum_variance";
    if (!isnan(f[COOC_SUM_AVERAGE] + f[COOC_JOINT_AVERAGE]) &&
        !is_about(f[COOC_SUM_AVERAGE], 2 * f[COOC_JOINT_AVERAGE]))
        return "object_glcm: joint_average is not half of sum_average";
    /* The mean of squares is no less than the square of the mean. */
    if (f[COOC_DIFFERENCE_AVERAGE] * f[COOC_DIFFERENCE_AVERAGE] + f[COOC_DIFFERENCE_VARIANCE] >
            f[COOC_CONTRAST] &&
        !at_most(f[COOC_DIFFERENCE_AVERAGE] * f[COOC_DIFFERENCE_AVERAGE] +
                     f[COOC_DIFFERENCE_VARIANCE],
                 f[COOC_CONTRAST]))
        return "object_glcm: contrast is too small for difference_average and difference_variance";
    /* With levels a and b: 4 a b = (a + b)^2 - (a - b)^2. */
    if (f[COOC_SUM_VARIANCE] + squared - f[COOC_CONTRAST] > 4 * f[COOC_AUTOCORRELATION] &&
        !at_most(f[COOC_SUM_VARIANCE] + squared - f[COOC_CONTRAST], 4 * f[COOC_AUTOCORRELATION]))
        return "object_glcm: autocorrelation is less than sum_average, sum_variance and contrast "
               "allow";
    if (f[COOC_JOINT_MAXIMUM] * f[COOC_JOINT_MAXIMUM] > f[COOC_ASM] &&
        !at_most(f[COOC_JOINT_MAXIMUM] * f[COOC_JOINT_MAXIMUM], f[COOC_ASM]))
        return "object_glcm: asm is less than the square of joint_maximum";
    return NULL;
}

/* Checks the features of the object for one distance. found: [n_features]: the features. */
static const char *distance_fault(const row *r, const double *found, int distance)
{
    const obj_params *const p = r->params;
    double f[COOC_FEATURES];
    unsigned nans = 0, k = 0; /* features that are NaN; index in `found` */
    bool fits = false;        /* the bounding box is long enough for a pair */

    for (int i = 0; i < 3; i++)
        fits = fits || r->size[i] > distance;
    for (int i = 0; i < COOC_FEATURES; i++) {
        f[i] = NAN;
        if ((p->features >> i & 1) == 0)
            continue;
        f[i] = found[k++];
        nans += isnan(f[i]) != 0; /* isnan returns 1 on some systems and other numbers on others */
        if (!isnan(f[i]) && !is_within(f[i], r->bounds[i].lo, r->bounds[i].hi))
            return "object_glcm: a feature is beyond its bounds";
    }
    if (nans != 0 && nans != p->n_features)
        return "object_glcm: some features are numbers and some are not";
    if (nans == 0 && (!fits || r->area == 1))
        return "object_glcm: has numbers, but the object has no pair";
    return relations_fault(f);
}

static const char *texture_fault(const row *r)
{
    const obj_params *const p = r->params;
    const double *const all = reals_of(r, "object_glcm", p->n_distances * p->n_features);
    const char *fault = NULL;

    for (size_t d = 0; fault == NULL && d < p->n_distances; d++)
        fault = distance_fault(r, all + d * p->n_features, p->distances[d]);
    return fault;
}

/* --- the table -------------------------------------------------------------------------------- */

/* most: the result of most_area, for stacks. */
static const char *row_fault(row *r, double most)
{
    const uint32_t families = r->params->families;
    const char *fault = NULL;

    if (r->has_shape) {
        r->area = integer_of(r, r->dims == 3 ? "object_voxels" : "object_area");
        fault = box_fault(r);
        if (fault == NULL)
            fault = r->dims == 3 ? stack_shape_fault(r, most) : picture_shape_fault(r);
    }
    if (fault == NULL && (families & OBJ_INTENSITY) != 0)
        fault = intensity_fault(r);
    if (fault == NULL && (families & OBJ_TEXTURE) != 0)
        fault = texture_fault(r);
    return fault;
}

tc_status obj_check_result(const void *params, const wu_item *item, const wu_output *out,
                           tc_err *err)
{
    const obj_params *const p = params;
    const int64_t *const label = wu_output_data(out, "object_label");
    const uint64_t n = wu_output_find(out, "object_label")->info.shape[0];
    uint64_t pixels = 0;
    column_cache cache = { .next = 0 };
    bounds of_features[COOC_FEATURES];
    double most = 0;

    for (int i = 0; i < COOC_FEATURES; i++)
        bounds_of(i, p->levels, &of_features[i].lo, &of_features[i].hi);
    if (item->is_stack) {
        obj_mesh mesh;

        obj_mesh_init(item->spacing, &mesh);
        most = most_area(&mesh);
    }
    if (*(const int64_t *)wu_output_data(out, "objects") != (int64_t)n)
        return tc_fail(err, TC_BAD_INPUT, "objects: is %lld, but there are %llu rows",
                       (long long)*(const int64_t *)wu_output_data(out, "objects"),
                       (unsigned long long)n);
    if (n > item->n_objects || (n < item->n_objects && !p->exclude_border))
        return tc_fail(err, TC_BAD_INPUT, "objects: the table has %llu, but the item has %u",
                       (unsigned long long)n, (unsigned)item->n_objects);
    for (size_t i = 0; i < n; i++) {
        row r = { .params = p,
                  .item = item,
                  .out = out,
                  .column_cache = &cache,
                  .bounds = of_features,
                  .i = i,
                  .dims = item->is_stack ? 3 : 2,
                  .has_shape = (p->families & OBJ_SHAPE) != 0,
                  .size = { item->nz, item->ny, item->nx } };
        const char *fault = NULL;

        cache.next = 0;
        if (label[i] < 1 || label[i] > (int64_t)WU_MAX_LABEL || (i > 0 && label[i] <= label[i - 1]))
            fault = "object_label: labels must rise, from 1 to 16777215";
        if (fault == NULL)
            fault = row_fault(&r, most);
        if (fault != NULL)
            return tc_fail(err, TC_BAD_INPUT, "object %zu: %s", i + 1, fault);
        /* Checked for each row, not at the end: the time of is_perimeter is proportional to the
         * area, so that areas greater than the picture must be rejected early. */
        pixels += (uint64_t)r.area;
        if (pixels > (uint64_t)item->nx * item->ny * item->nz)
            return tc_fail(err, TC_BAD_INPUT, "object_%s: in total more than the picture has",
                           item->is_stack ? "voxels" : "area");
    }
    return TC_OK;
}
