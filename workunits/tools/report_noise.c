/* Finds doubts about a count. Checks whether the counted objects of an image stand out from their
 * surroundings more than noise does: compares the mean grey value of a disc at each object with the
 * mean of a ring around the disc. Searches other places in the same way for objects that were
 * missed. Also checks whether the image has any edges. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/common/otsu.h"
#include "workunits/tools/report.h"

enum {
    LAG = 3,           /* noise is estimated from differences of two pixels, LAG apart along x */
    MOST_PLACES = 400, /* the most objects of an image that are measured, evenly chosen */
    MOST_SAMPLES = 1 << 20, /* approximate limit of the differences that are used for the noise */
    MOST_RADIUS = 20,       /* approximate limit of the pixels that are read along a radius: larger
                               discs are subsampled */
    MOST_IN_TARGET = 5000, /* the most pixels of a disc and its ring. The ring's outer radius is 1.6
                              times the object's, so this exceeds (2 * 1.6 * MOST_RADIUS)^2 */
    LEAST_COMPARED = 60,   /* is_normal needs at least this many discs on its grid */
    MOST_COMPARED = 1000,  /* approximate limit of the discs on the grid of is_normal */
    LEAST_MISSED = 4,      /* the fewest missed objects that are reported */
    MISSED_SHARE = 5, /* missed objects are reported if they are at least 1 / MISSED_SHARE of the
                         number of counted objects */
    MOST_SEARCHED = 1 << 18 /* the most places of an image where missed objects are searched for */
};

/* The contrast of an object is the difference of the mean grey values of disc and ring, divided by
 * the standard deviation that this difference has because of noise. The contrast of noise alone is
 * up to 5, that of cells 15 and more. In blurred pictures, where neighbouring pixels are alike, the
 * contrast of noise may be more than 5, but is less than sure_contrast. */
static const double least_contrast = 8, sure_contrast = 100, pi = 3.14159265358979323846;
/* An object was missed if its contrast is at least clear_contrast, and its difference of disc and
 * ring is at least least_part times the median difference of the counted objects. */
static const double clear_contrast = 15, least_part = 0.05;

/* A region that was counted. */
typedef struct region {
    int64_t area;  /* number of pixels */
    double box[4]; /* y0, x0, y1, x1 */
} region;

static int compare_doubles(const void *a, const void *b)
{
    const double m = *(const double *)a, n = *(const double *)b;
    return m < n ? -1 : m > n;
}

/* Sets *noise to the standard deviation of the noise in the grey values, but at least to that of
 * rounding. The noise is estimated from the first quartile of the absolute differences of pixels
 * LAG apart, on which edges have little influence. If the picture has at most LAG columns, *noise
 * stays unchanged. */
static tc_status find_noise(const wu_pixels *px, double *noise, tc_err *err)
{
    const uint64_t rows = (uint64_t)px->ny * px->nz;
    const uint64_t step = rows * px->nx / MOST_SAMPLES + 1;
    uint64_t n = 0, below = 0;
    if (px->nx <= LAG)
        return TC_OK;
    uint64_t *const histogram = calloc((size_t)1 << px->bits, sizeof *histogram);
    if (histogram == NULL)
        return tc_no_memory(err, "noise");
    for (uint64_t row = 0; row < rows; row += step)
        for (uint32_t x = LAG; x < px->nx; x++, n++) {
            const uint64_t at = row * px->nx + x;
            const int32_t a = (int32_t)wu_grey_value(px, at),
                          b = (int32_t)wu_grey_value(px, at - LAG);
            histogram[abs(a - b)]++;
        }
    const double quarter = (double)n / 4;
    uint32_t v = 0;
    for (; (double)(below + histogram[v]) <= quarter; v++)
        below += histogram[v];
    /* Interpolates within the bin v of the histogram: differences from v - 0.5 to v + 0.5, or up to
     * 0.5 for v = 0. */
    const double part = (quarter - (double)below) / (double)histogram[v],
                 quartile = v == 0 ? 0.5 * part : v - 0.5 + part;
    /* 0.3186 is the first quartile of |x| for a standard normal x. The difference of two pixels has
     * twice the variance of a pixel, hence sqrt(2). 0.29 is 1 / sqrt(12), the standard deviation of
     * rounding to integers. */
    *noise = fmax(quartile / (0.3186 * sqrt(2)), 0.29);
    free(histogram);
    return TC_OK;
}

/* The pixels of a disc and of a ring around it, relative to the centre. The pixels of the disc are
 * at the beginning of `at`, the pixels of the ring at its end. */
typedef struct target {
    int64_t reach; /* the ring extends less than this many pixels from the centre */
    size_t n[2];   /* number of pixels of the disc, and of the ring */
    struct {
        int32_t y, x;
        int64_t offset; /* y * nx + x, with nx columns of the image */
    } at[MOST_IN_TARGET];
} target;

/* Sets `out` for an object of radius r in an image of nx columns: a disc up to 0.8 r, and a ring
 * from 1.2 r to 1.6 r. The pixels are subsampled to about `most`, at most MOST_RADIUS, along a
 * radius. */
static void make_target(uint32_t nx, double radius, int32_t most, target *out)
{
    const double r = fmax(radius, 1.5), inner = 0.8 * r, from = 1.2 * r,
                 to = fmax(1.6 * r, from + 1);
    const int32_t reach = (int32_t)fmin(to, UINT16_MAX) + 1,
                  step = (int32_t)fmin(r, UINT16_MAX) / most + 1;
    out->reach = reach;
    out->n[0] = out->n[1] = 0;
    for (int32_t y = -reach; y <= reach; y += step)
        for (int32_t x = -reach; x <= reach; x += step) {
            const double distance = sqrt((double)y * y + (double)x * x);
            if (distance > to || (distance > inner && distance <= from))
                continue;
            assert(out->n[0] + out->n[1] < MOST_IN_TARGET);
            const size_t i = distance <= inner ? out->n[0]++ : MOST_IN_TARGET - ++out->n[1];
            out->at[i].y = y;
            out->at[i].x = x;
            out->at[i].offset = (int64_t)y * nx + x;
        }
}

/* For the disc (index 0) and the ring (index 1) around `at` (y, x) in slice z, sets mean[] to the
 * mean grey values and n[] to the numbers of pixels that are in the image. Returns false if the
 * disc or the ring has no pixel in the image. */
static bool means_of(const wu_pixels *px, int64_t z, const double at[2], const target *t,
                     double mean[2], double n[2])
{
    const int64_t cy = llround(at[0]), cx = llround(at[1]), nx = px->nx, ny = px->ny,
                  centre = (z * ny + cy) * nx + cx;
    /* Whether all pixels are in the image, which need not be checked for each pixel then. */
    const bool whole = cy >= t->reach && cx >= t->reach && cy + t->reach < ny && cx + t->reach < nx;
    for (int k = 0; k < 2; k++) {
        const size_t from = k == 0 ? 0 : MOST_IN_TARGET - t->n[1], to = from + t->n[k];
        uint64_t sum = 0, count = whole ? t->n[k] : 0;
        for (size_t i = from; whole && px->bits == 8 && i < to; i++)
            sum += px->u8[centre + t->at[i].offset];
        for (size_t i = from; whole && px->bits != 8 && i < to; i++)
            sum += px->u16[centre + t->at[i].offset];
        for (size_t i = from; !whole && i < to; i++) {
            const int64_t y = cy + t->at[i].y, x = cx + t->at[i].x;
            if (y < 0 || x < 0 || y >= ny || x >= nx)
                continue;
            sum += wu_grey_value(px, (size_t)(centre + t->at[i].offset));
            count++;
        }
        n[k] = (double)count;
        mean[k] = (double)sum / n[k];
    }
    return n[0] > 0 && n[1] > 0;
}

/* Returns the contrast (defined at least_contrast) of an object at `at` (y, x) in slice z. Returns
 * NaN if no pixel of the disc, or none of the ring, is in the image. */
static double contrast_of(const wu_pixels *px, int64_t z, const double at[2], const target *t,
                          double noise)
{
    double mean[2], n[2];
    return means_of(px, z, at, t, mean, n)
               ? (mean[0] - mean[1]) / (noise * sqrt(1 / n[0] + 1 / n[1]))
               : NAN;
}

/* Returns the ratio of a region's area to its area at half of its contrast. The latter is the
 * number of pixels in the region's box that are closer to the mean of the disc than to the mean of
 * the ring. Returns NaN if the ratio cannot be computed, or if the box has more than MOST_IN_BOX
 * pixels: for such large regions, the exact position of the outline matters little. */
static double excess_of(const wu_pixels *px, const double at[2], const region *own, const target *t)
{
    enum { MOST_IN_BOX = 10000 };
    double mean[2], n[2];
    uint64_t inside = 0;
    if (!(own->box[0] >= 0 && own->box[1] >= 0 && own->box[2] <= px->ny && own->box[3] <= px->nx &&
          own->box[0] < own->box[2] && own->box[1] < own->box[3]) ||
        (own->box[2] - own->box[0]) * (own->box[3] - own->box[1]) > MOST_IN_BOX ||
        !means_of(px, 0, at, t, mean, n))
        return NAN;
    const double half = (mean[0] + mean[1]) / 2, sign = mean[0] > mean[1] ? 1 : -1;
    for (uint32_t y = (uint32_t)own->box[0]; y < (uint32_t)own->box[2]; y++)
        for (uint32_t x = (uint32_t)own->box[1]; x < (uint32_t)own->box[3]; x++)
            inside += sign * (wu_grey_value(px, (size_t)y * px->nx + x) - half) > 0;
    return inside > 0 ? (double)own->area / (double)inside : NAN;
}

/* Returns the radius, in pixels, of the cells that the analysis searched for in an image, or 0 if
 * it has no radius. */
static double radius_of(const wu_report *r, size_t item)
{
    const json_t *const parameters = json_object_get(wu_npz_json(r->file->npz), "parameters");
    const wu_item *const head = &r->images->items[item];
    const double radius = r->radii != NULL
                              ? r->radii[item]
                              : json_number_value(json_object_get(parameters, "radius"));
    /* The parameter "radius" of voting is 1.25 times the radius of the cells. */
    return 0.8 * (head->has_spacing ? radius / head->spacing[2] : radius);
}

/* Whether the image looks like pure noise. This is so if the contrasts of discs on a grid all over
 * the image have a normal distribution, and if `typical`, the median contrast of the counted
 * objects, is less than 2.5 standard deviations of this distribution. Cells make the distribution
 * skewed, or its tails heavy. */
static bool is_normal(const wu_pixels *px, double radius, double noise, double typical)
{
    const uint64_t rows = (uint64_t)px->ny * px->nz;
    const double r = fmax(radius, 1.5), reach = ceil(fmax(1.6 * r, 1.2 * r + 1)),
                 area = ((double)px->ny - 2 * reach) * ((double)px->nx - 2 * reach) * px->nz;
    double sum[5] = { 0 }; /* sums of the powers 0 to 4 of the contrasts */
    target disc;
    if (px->nx <= 2 * reach || px->ny <= 2 * reach)
        return false;
    make_target(px->nx, radius, MOST_RADIUS, &disc);
    const uint64_t step = (uint64_t)ceil(fmax(sqrt(area / MOST_COMPARED), 1.0)),
                   edge = (uint64_t)reach;
    for (uint64_t row = edge; row < rows; row += step)
        for (uint64_t x = edge; x + edge < px->nx; x += step) {
            const uint64_t y = row % px->ny;
            if (y < edge || y + edge >= px->ny)
                break;
            const double at[] = { (double)y, (double)x },
                         value = contrast_of(px, (int64_t)(row / px->ny), at, &disc, noise);
            double power = 1;
            for (int k = 0; k < 5; k++) {
                sum[k] += power;
                power *= value;
            }
        }
    /* var, third, fourth: the central moments of order 2, 3 and 4; the limits below bound the
     * skewness and the excess kurtosis. */
    const double n = sum[0], mean = sum[1] / n, var = sum[2] / n - mean * mean,
                 third = sum[3] / n - mean * (3 * sum[2] / n - 2 * mean * mean),
                 fourth = sum[4] / n -
                          mean * (4 * sum[3] / n - mean * (6 * sum[2] / n - 3 * mean * mean));
    return n >= LEAST_COMPARED && area > LEAST_COMPARED * pi * reach * reach &&
           fabs(third) < 0.3 * pow(var, 1.5) && fabs(fourth / (var * var) - 3) < 0.6 &&
           typical < 2.5 * sqrt(var);
}

/* Finds the range and the median of the grey values in evenly spaced rows. Sets *all to whether
 * these are all rows of the image. */
static tc_status find_range(const wu_pixels *px, wu_range *out, bool *all, tc_err *err)
{
    const uint64_t rows = (uint64_t)px->ny * px->nz,
                   step = rows * px->nx / (4 * (uint64_t)MOST_SAMPLES) + 1;
    uint64_t *const histogram = calloc((size_t)1 << px->bits, sizeof *histogram), below = 0, n = 0;
    if (histogram == NULL)
        return tc_no_memory(err, "greys");
    *all = step == 1;
    for (uint64_t row = 0; row < rows; row += step, n += px->nx)
        an_histogram_add(px, row * px->nx, (row + 1) * px->nx, histogram);
    *out = (wu_range){ .hi = (1u << px->bits) - 1 };
    while (histogram[out->lo] == 0)
        out->lo++;
    while (histogram[out->hi] == 0)
        out->hi--;
    out->median = out->lo;
    while (2 * (below += histogram[out->median]) < n)
        out->median++;
    free(histogram);
    return TC_OK;
}

/* --- edges ----------------------------------------------------------------------------------- */

/* The mean grey values of the square blocks that a slice is divided into. */
typedef struct blocks {
    size_t side, ny, nx; /* pixels along a block's side; numbers of blocks */
    double *mean;        /* [ny * nx]; owned */
} blocks;

/* Sets the means of all blocks in slice z. */
static void find_means(const wu_pixels *px, size_t z, const blocks *b)
{
    memset(b->mean, 0, b->ny * b->nx * sizeof *b->mean);
    for (size_t y = 0; y < b->ny * b->side; y++) {
        double *const sum = b->mean + y / b->side * b->nx;
        size_t i = (z * px->ny + y) * px->nx;

        for (size_t x = 0; x < b->nx; x++)
            for (size_t k = 0; k < b->side; k++)
                sum[x] += wu_grey_value(px, i++);
    }
    for (size_t i = 0; i < b->ny * b->nx; i++)
        b->mean[i] /= (double)(b->side * b->side);
}

/* Returns the greatest absolute second difference of neighbouring blocks along x and y. Sets *range
 * to the difference of the greatest and the least mean. */
static double find_steepest(const blocks *b, double *range)
{
    double lo = b->mean[0], hi = lo, most = 0;
    for (size_t y = 0; y < b->ny; y++)
        for (size_t x = 0; x < b->nx; x++) {
            const double *const at = &b->mean[y * b->nx + x];
            lo = fmin(lo, *at);
            hi = fmax(hi, *at);
            if (x > 0 && x + 1 < b->nx)
                most = fmax(most, fabs(at[-1] - 2 * at[0] + at[1]));
            if (y > 0 && y + 1 < b->ny)
                most = fmax(most, fabs(*(at - b->nx) - 2 * at[0] + at[b->nx]));
        }
    *range = hi - lo;
    return most;
}

/* Sets *smooth to whether the grey values change only gradually, as in a picture of uneven light
 * without any object. The image is divided into blocks whose side is 1/BLOCKS of the image's
 * shorter side. From block to block, the slope of the grey values may change by at most
 * gradual_share of their range, plus an allowance for noise; at edges of objects it changes by half
 * of the range and more. *smooth is also false if this cannot be judged: if noise hides such
 * changes, if the blocks have fewer than LEAST_SIDE pixels along a side, or if an object (`area`,
 * in pixels) is smaller than four blocks. */
static tc_status find_smooth(const wu_pixels *px, double noise, double area, bool *smooth,
                             tc_err *err)
{
    enum { BLOCKS = 32, LEAST_SIDE = 3 };
    static const double gradual_share = 0.09, hidden_share = 0.4;
    blocks b = { .side = (px->nx < px->ny ? px->nx : px->ny) / BLOCKS };
    *smooth = false;
    if (b.side < LEAST_SIDE || area < 4 * (double)(b.side * b.side))
        return TC_OK;
    b.ny = px->ny / b.side;
    b.nx = px->nx / b.side;
    b.mean = malloc(b.ny * b.nx * sizeof *b.mean);
    if (b.mean == NULL)
        return tc_no_memory(err, "edges");
    /* Five standard deviations of a second difference, whose variance is 1 + 4 + 1 times that of
     * the mean of a block. */
    const double of_noise = 5 * noise * sqrt(6) / (double)b.side;
    *smooth = true;
    for (size_t z = 0; z < px->nz && *smooth; z++) {
        double range;
        find_means(px, z, &b);
        const double most = find_steepest(&b, &range);
        *smooth = most < gradual_share * range + of_noise && of_noise < hidden_share * range;
    }
    free(b.mean);
    return TC_OK;
}

/* --- objects that were not counted ---------------------------------------------------------- */

/* The places where objects that were not counted are searched for: a grid of sy rows of sx places,
 * `step` pixels apart. The first place is (y0, x0). */
typedef struct search {
    const wu_pixels *px;
    double noise, radius, sign; /* sign: 1 if objects are bright, -1 if dark */
    int64_t y0, x0, step;
    size_t sy, sx;
    float *contrast; /* [sy * sx] contrast of a disc at each place; 0 where a region is; owned */
    target disc;     /* the disc and ring for the radius of the regions */
    target core;     /* the disc and ring for half of this radius */
} search;

/* The difference of the mean grey values of disc and ring, in grey values: the contrast without its
 * division. It is positive for objects of the polarity `sign`. */
static double difference_of(const search *s, const double at[2], const target *t)
{
    return s->sign * contrast_of(s->px, 0, at, t, s->noise) *
           sqrt(1 / (double)t->n[0] + 1 / (double)t->n[1]) * s->noise;
}

/* Sets the contrast to 0 at the places where a disc would overlap the region's box. */
static void exclude_box(const search *s, const double box[4])
{
    const double last[2] = { (double)s->sy - 1, (double)s->sx - 1 };
    const int64_t first[2] = { s->y0, s->x0 };
    size_t from[2], to[2];
    for (int k = 0; k < 2; k++) {
        const double lo = ceil((box[k] - s->radius - (double)first[k]) / (double)s->step),
                     hi = floor((box[k + 2] - 1 + s->radius - (double)first[k]) / (double)s->step);
        if (!(lo <= last[k] && hi >= 0 && lo <= hi))
            return;
        from[k] = (size_t)fmax(lo, 0);
        to[k] = (size_t)fmin(hi, last[k]);
    }
    for (size_t y = from[0]; y <= to[0]; y++)
        for (size_t x = from[1]; x <= to[1]; x++)
            s->contrast[y * s->sx + x] = 0;
}

/* Whether place (y, x) has the greatest contrast of all places within twice the radius. Of places
 * with equal contrast, only the first one (row by row) is a peak. */
static bool is_peak(const search *s, size_t y, size_t x)
{
    const size_t reach = (size_t)(2 * s->radius) / (size_t)s->step + 1;
    const size_t from_y = y < reach ? 0 : y - reach, from_x = x < reach ? 0 : x - reach;
    const float own = s->contrast[y * s->sx + x];
    for (size_t v = from_y; v <= y + reach && v < s->sy; v++)
        for (size_t u = from_x; u <= x + reach && u < s->sx; u++) {
            const float other = s->contrast[v * s->sx + u];
            if (other > own || (other == own && (v < y || (v == y && u < x))))
                return false;
        }
    return true;
}

/* Counts objects that are as large as the regions and stand out, but are not regions. typical: the
 * median difference of disc and ring at the regions. Smaller objects, such as dirt, are not
 * counted: they are recognised by a difference that is at least twice as large with `core` as with
 * `disc`. */
static size_t count_missed(const search *s, double typical)
{
    size_t missed = 0;
    for (size_t y = 0; y < s->sy; y++)
        for (size_t x = 0; x < s->sx; x++) {
            const double at[] = { (double)(s->y0 + (int64_t)y * s->step),
                                  (double)(s->x0 + (int64_t)x * s->step) };
            if (s->contrast[y * s->sx + x] < (float)clear_contrast || !is_peak(s, y, x))
                continue;
            const double difference = difference_of(s, at, &s->disc);
            missed += difference >= least_part * typical &&
                      difference_of(s, at, &s->core) < 2 * difference;
        }
    return missed;
}

/* Sets doubt->missed of an image. regions, points: the regions of all images, and their centres;
 * rows: the number of regions in this image. radius: the median radius of the regions. Of a large
 * image, only rows in the middle are searched. */
static tc_status find_missed(const wu_pixels *px, const wu_points *points, const region *regions,
                             size_t item, uint64_t rows, double radius, double noise,
                             wu_count_doubt *doubt, tc_err *err)
{
    enum { ALONG_RADIUS = 4 }; /* the most pixels along a radius of these targets */
    search s = { .px = px, .noise = noise, .radius = fmax(radius, 1.5), .sign = 1 };
    double found[MOST_PLACES];
    size_t n = 0, seen = 0;
    size_t positive = 0; /* number of regions that are brighter than their rings */
    size_t counted = 0;  /* number of regions in the rows that are searched */
    make_target(px->nx, radius, ALONG_RADIUS, &s.disc);
    make_target(px->nx, radius / 2, ALONG_RADIUS, &s.core);
    s.step = (int64_t)fmax(s.radius / 2, 1);
    const int64_t reach = s.disc.reach;
    if (px->nx <= 2 * reach || px->ny <= 2 * reach)
        return TC_OK;
    s.sx = (size_t)((px->nx - 2 * reach - 1) / s.step + 1);
    s.sy = (size_t)((px->ny - 2 * reach - 1) / s.step + 1);
    s.x0 = s.y0 = reach;
    if (s.sx > MOST_SEARCHED)
        return TC_OK;
    if (s.sy > MOST_SEARCHED / s.sx) {
        s.y0 += (int64_t)(s.sy - MOST_SEARCHED / s.sx) / 2 * s.step;
        s.sy = MOST_SEARCHED / s.sx;
    }
    const double end = (double)(s.y0 + (int64_t)s.sy * s.step); /* of the rows that are searched */
    s.contrast = malloc(s.sx * s.sy * sizeof *s.contrast);
    if (s.contrast == NULL)
        return tc_no_memory(err, "places");
    for (size_t i = 0; i < s.sx * s.sy; i++)
        s.contrast[i] = 1; /* until exclude_box sets it to 0, or it is computed below */
    for (size_t i = 0; i < points->n; i++) {
        const double *const at = points->position + 2 * i;
        if (points->item[i] != (int64_t)item)
            continue;
        exclude_box(&s, regions[i].box);
        counted += at[0] >= (double)s.y0 && at[0] < end;
        if (seen++ % (rows / MOST_PLACES + 1) != 0 || !(fabs(at[0]) < px->ny) ||
            !(fabs(at[1]) < px->nx))
            continue;
        const double value = difference_of(&s, at, &s.disc);
        if (isnan(value))
            continue;
        positive += value > 0;
        found[n++] = fabs(value);
    }
    s.sign = 2 * positive >= n ? 1 : -1;
    qsort(found, n, sizeof *found, compare_doubles);
    for (size_t i = 0; i < s.sx * s.sy; i++) {
        const double at[] = { (double)(s.y0 + (int64_t)(i / s.sx) * s.step),
                              (double)(s.x0 + (int64_t)(i % s.sx) * s.step) };
        if (s.contrast[i] > 0)
            s.contrast[i] = (float)(s.sign * contrast_of(px, 0, at, &s.disc, noise));
    }
    const size_t missed = n > 0 ? count_missed(&s, found[n / 2]) : 0;
    free(s.contrast);
    doubt->missed = missed >= LEAST_MISSED && MISSED_SHARE * missed >= counted ? missed : 0;
    return TC_OK;
}

/* Whether the analysis should have counted all regions that stand out, except small ones. This is
 * so if no filter is set, the threshold is not a given grey value, and the image has no mask. */
static bool is_all_counted(const wu_report *r, size_t item)
{
    const json_t *const parameters = json_object_get(wu_npz_json(r->file->npz), "parameters");
    static const char *const filters[] = { "max_area", "max_aspect", "min_fill" };
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) {
        const json_t *const value = json_object_get(parameters, filters[i]);
        if (json_is_number(value) && json_number_value(value) > 0)
            return false;
    }
    return r->images->items[item].n_masks == 0 &&
           !json_is_number(json_object_get(parameters, "threshold"));
}

/* What find_blunt collects from the rows of an image. */
typedef struct steps {
    double sum[2], n[2]; /* grey values, and pixels, outside (0) and inside (1) regions */
    uint64_t *across;    /* [2 << bits] histogram of the differences inside - outside, plus
                            1 << bits, of pixels on both sides of an outline; owned */
    uint64_t n_across;
} steps;

static void add_row(const wu_pixels *px, uint32_t y, const uint32_t *labels, uint32_t lag, steps *s)
{
    for (uint32_t x = 0; x < px->nx; x++) {
        const uint64_t at = (uint64_t)y * px->nx + x;
        const bool in = labels[x] != 0;
        const int32_t value = (int32_t)wu_grey_value(px, at);
        s->sum[in] += value;
        s->n[in]++;
        if (x < lag || in == (labels[x - lag] != 0))
            continue;
        const int32_t step = value - (int32_t)wu_grey_value(px, at - lag);
        s->across[(in ? step : -step) + (1 << px->bits)]++;
        s->n_across++;
    }
}

/* Whether the median difference across outlines is less than a sixth of that of the means. */
static bool is_blunt(const steps *s, unsigned bits)
{
    int32_t median = 0;
    uint64_t below = 0;
    if (s->n_across == 0 || s->n[0] == 0 || s->n[1] == 0)
        return false;
    while (2 * (below += s->across[median]) < s->n_across)
        median++;
    return 6 * abs(median - (1 << bits)) < fabs(s->sum[1] / s->n[1] - s->sum[0] / s->n[0]);
}

/* Sets *blunt to whether the outlines of an image's regions follow no edges, as where a threshold
 * separates lit from dim parts: whether most pixels across them, 1/64 of the image's width apart,
 * differ less than a sixth as much as the means of what is inside and outside. */
static tc_status find_blunt(const wu_report *r, size_t item, const wu_pixels *px, bool *blunt,
                            tc_err *err)
{
    const wu_result_file *const file = r->file;
    const wu_declaration *labels = NULL;
    size_t index;
    for (size_t i = 0; i < file->n_declared; i++)
        labels = file->declared[i].role == WU_LABELS ? &file->declared[i] : labels;
    if (labels == NULL)
        return TC_OK;
    return_if_error(wu_find_declared_array(file, labels, file->item_names[item], &index, err));
    const wu_array_info *const info = wu_npz_array_info(file->npz, index);
    if (info->ndim != 2 || info->shape[0] != px->ny || info->shape[1] != px->nx)
        return TC_OK;
    TC_AUTOFREE uint32_t *const row = malloc(px->nx * sizeof *row);
    steps s = { .across = calloc((size_t)2 << px->bits, sizeof *s.across) };
    wu_npz_stream *stream = NULL;
    tc_status status = row == NULL || s.across == NULL
                           ? tc_no_memory(err, "labels")
                           : wu_npz_stream_open(file->npz, index, &stream, err);
    for (uint32_t y = 0; status == TC_OK && y < px->ny; y++) {
        status = wu_npz_stream_read(stream, row, px->nx * sizeof *row, err);
        if (status == TC_OK)
            add_row(px, y, row, px->nx / 64 + 1, &s);
    }
    wu_npz_stream_close(&stream);
    *blunt = status == TC_OK && is_blunt(&s, px->bits);
    free(s.across);
    return status;
}

/* --- an image -------------------------------------------------------------------------------- */

/* Sets the doubts about an image. points: the objects of all images. regions: [points->n] the
 * regions of these objects, or NULL if the analysis finds points only; their radius is then
 * radius_of. */
static tc_status find_doubts(const wu_report *r, const wu_points *points, const region *regions,
                             size_t item, wu_count_doubt *doubt, tc_err *err)
{
    TC_AUTO(wu_pixels_free) wu_pixels px = { .bits = 8 };
    double noise = 0, contrast[MOST_PLACES], radii[MOST_PLACES], excess[MOST_PLACES];
    uint64_t rows = 0, seen = 0, drawn = 0;
    size_t n = 0, n_excess = 0;
    int64_t largest = 0; /* pixels of the largest region */
    wu_range range;
    target disc;
    for (uint64_t i = 0; i < points->n; i++)
        rows += points->item[i] == (int64_t)item;
    const uint64_t step = rows / MOST_PLACES + 1;
    if (rows == 0)
        return TC_OK;
    return_if_error(wu_item_load(r->images, item, &px, err));
    return_if_error(find_noise(&px, &noise, err));
    return_if_error(find_range(&px, &range, &doubt->surveyed, err));
    doubt->survey = (an_survey){ .lo = range.lo, .hi = range.hi };
    return_if_error(wu_find_labels(&px, &range, &doubt->labels, err));
    doubt->frame = wu_find_frame(&px, &range);
    /* wide: a cell would have about a quarter of the image's shorter side (2 * 0.12) as its
     * diameter */
    doubt->wide = regions == NULL && radius_of(r, item) > 0.12 * (px.nx < px.ny ? px.nx : px.ny);
    for (uint64_t i = 0; i < points->n && noise > 0; i++) {
        const double *const at = points->position + i * points->dims;
        if (points->item[i] != (int64_t)item || seen++ % step != 0)
            continue;
        const double z = points->dims == 3 ? at[0] : 0;
        if (!(z >= 0 && z < px.nz && fabs(at[points->dims - 1]) < px.nx &&
              fabs(at[points->dims - 2]) < px.ny))
            continue;
        const double radius =
            regions != NULL ? sqrt((double)regions[i].area / pi) : radius_of(r, item);
        make_target(px.nx, radius, MOST_RADIUS, &disc);
        const double value = contrast_of(&px, (int64_t)z, at + points->dims - 2, &disc, noise);
        if (isnan(value))
            continue;
        drawn += wu_is_drawn(&px, (size_t)z, at + points->dims - 2, radius, value > 0, &range);
        if (regions != NULL) {
            largest = regions[i].area > largest ? regions[i].area : largest;
            excess[n_excess] = excess_of(&px, at, &regions[i], &disc);
            n_excess += !isnan(excess[n_excess]);
        }
        radii[n] = radius;
        contrast[n++] = fabs(value);
    }
    if (largest > (int64_t)px.nx * px.ny / 5)
        return_if_error(find_blunt(r, item, &px, &doubt->blunt, err));
    doubt->drawn = drawn > 0 && 2 * drawn < n; /* some, but fewer than half */
    if (n == 0)
        return TC_OK;
    qsort(contrast, n, sizeof *contrast, compare_doubles);
    qsort(radii, n, sizeof *radii, compare_doubles);
    qsort(excess, n_excess, sizeof *excess, compare_doubles);
    doubt->excess = 2 * n_excess > n ? excess[n_excess / 2] : 0;
    const double typical = contrast[n / 2], median_area = pi * radii[n / 2] * radii[n / 2];
    return_if_error(find_smooth(&px, noise, median_area, &doubt->smooth, err));
    doubt->noise = typical < least_contrast ||
                   (typical < sure_contrast && is_normal(&px, radii[n / 2], noise, typical));
    return regions == NULL || !is_all_counted(r, item)
               ? TC_OK
               : find_missed(&px, points, regions, item, rows, radii[n / 2], noise, doubt, err);
}

/* Sets doubt->smooth for an image in which the analysis searched for an outline. */
static tc_status find_outline_doubt(const wu_report *r, size_t item, wu_count_doubt *doubt,
                                    tc_err *err)
{
    TC_AUTO(wu_pixels_free) wu_pixels px = { .bits = 8 };
    double noise = 0;
    return_if_error(wu_item_load(r->images, item, &px, err));
    return_if_error(find_noise(&px, &noise, err));
    return find_smooth(&px, noise, INFINITY /* any size */, &doubt->smooth, err);
}

/* Whether the result declares a mask. If so, the analysis searched for one outline in each image.
 */
static bool has_mask(const wu_result_file *file)
{
    size_t i = 0;
    while (i < file->n_declared && file->declared[i].role != WU_MASK)
        i++;
    return i < file->n_declared;
}

/* Loads the centroids of regions as points, and their areas and boxes; out->n is 0 if the table
 * lacks them. Also after a failure, *out must be freed by wu_points_free and *regions by free(). */
static tc_status load_regions(const wu_report *r, const wu_table *table, wu_points *out,
                              region **regions, tc_err *err)
{
    enum { Y, X, AREA, BOX, COLUMNS = BOX + 4 };
    static const char *const names[COLUMNS] = { "centroid_y", "centroid_x", "area",   "bbox_y0",
                                                "bbox_x0",    "bbox_y1",    "bbox_x1" };
    size_t at[COLUMNS];
    TC_AUTO(wu_cursor_close) wu_cursor cursor = { 0 };
    for (int k = 0; k < COLUMNS; k++) {
        const long column = wu_report_find_column(table, names[k]);
        if (column < 0 || table->rows == 0)
            return TC_OK;
        at[k] = (size_t)column;
    }
    out->dims = 2;
    out->item = calloc(table->rows, sizeof *out->item);
    out->position = calloc(2 * table->rows, sizeof *out->position);
    *regions = calloc(table->rows, sizeof **regions);
    if (out->item == NULL || out->position == NULL || *regions == NULL)
        return tc_no_memory(err, "regions");
    tc_status status = wu_cursor_open(r->file, table, &cursor, err);
    while (wu_cursor_next(&cursor, &status, err)) {
        region *const own = &(*regions)[out->n];
        out->item[out->n] = (int64_t)cursor.item;
        out->position[2 * out->n] = wu_cursor_number(&cursor, at[Y]);
        out->position[2 * out->n + 1] = wu_cursor_number(&cursor, at[X]);
        own->area = (int64_t)wu_cursor_number(&cursor, at[AREA]);
        for (int k = 0; k < 4; k++)
            own->box[k] = wu_cursor_number(&cursor, at[BOX + k]);
        out->n++;
    }
    return status;
}

tc_status wu_report_find_doubts(const wu_report *r, wu_count_doubt *doubts, tc_err *err)
{
    const char *const name =
        json_string_value(json_object_get(wu_npz_json(r->file->npz), "analysis"));
    const an_analysis *const analysis = name != NULL ? an_find_analysis(name) : NULL;
    tc_status status = TC_OK;
    for (size_t i = 0; r->images != NULL && analysis != NULL && i < r->n_items; i++)
        doubts[i].cubes = analysis->assumes_cubic_voxels && r->images->items[i].is_stack &&
                          !r->images->items[i].has_spacing;
    for (size_t i = 0; r->images != NULL && has_mask(r->file) && i < r->n_items; i++)
        return_if_error(find_outline_doubt(r, i, &doubts[i], err));
    for (size_t t = 0; t < r->tables->n && r->images != NULL && status == TC_OK; t++) {
        const bool regions = strcmp(r->tables->tables[t].name, "regions") == 0;
        const wu_points *points = &r->points[t];
        wu_points centroids = { .n = 0 };
        region *measured = NULL;
        if (regions)
            status = load_regions(r, &r->tables->tables[t], &centroids, &measured, err);
        else if (strcmp(r->tables->tables[t].name, "points") != 0)
            continue;
        points = regions ? &centroids : points;
        for (size_t i = 0; status == TC_OK && points->n > 0 && i < r->n_items; i++)
            status = find_doubts(r, points, measured, i, &doubts[i], err);
        wu_points_free(&centroids);
        free(measured);
    }
    return status;
}
