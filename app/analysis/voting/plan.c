/*
 * voting: derives the scheme from the parameters, the item's shape and its pixels (noise floor),
 * blurs pictures, plans the work, and defines the self-tests and the struct an_voting.
 */
#include "app/analysis/voting/voting.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/common/gauss.h"
#include "app/analysis/common/phases.h"
#include "app/analysis/selftest.h"
#include "app/analysis/suggest.h"
#include "app/base/numbers.h"

enum {
    KERNEL_SUM = 4096,      /* sum of the weights of a blur along an axis */
    SIDE_2D = 64,           /* voting_shape.side of images */
    SIDE_3D = 16,           /* voting_shape.side of stacks */
    BAND_PIXELS = 1 << 17,  /* approximate number of pixels of a band */
    NOISE_SAMPLES = 1 << 20 /* approximate number of pixels from which the noise is estimated, if
                               the item has more */
};

/* Rounds a value >= 0 to the nearest integer; halves are rounded up. */
static int64_t round_half_up(double value)
{
    return (int64_t)(value + 0.5);
}

/* exp(-t) for 0 <= t < 32: the series for exp(-t/64), squared six times. libm is not used, as
 * its results differ between systems. */
static double exp_minus(double t)
{
    const double x = -t / 64;
    double sum = 1, term = 1;

    for (int i = 1; i < 16; i++) {
        term = term * x / i;
        sum += term;
    }
    for (int i = 0; i < 6; i++)
        sum *= sum;
    return sum;
}

/* Sets the weights of the blur along an axis of `length` pixels: a Gaussian function, cut off
 * at 3.5 sigma. sigma256: sigma in 1/256 pixel of this axis; if sigma is less than 1/4 pixel, there
 * is no blur. */
static void make_kernel(voting_scheme *s, int axis, uint32_t length, int64_t sigma256)
{
    double g[VOTING_MAX_HALF + 1], sum = 1;
    uint32_t rest = KERNEL_SUM;

    s->shape.taps[axis] = 0;
    if (length > 1 && sigma256 >= 64) /* 3.5 * sigma256 / 256, rounded up */
        s->shape.taps[axis] = (int)((7 * sigma256 + 511) / 512);
    for (int i = 1; i <= s->shape.taps[axis]; i++) {
        /* exp(-i^2 / (2 sigma^2)); 32768 is 256^2 / 2 */
        g[i] = exp_minus((double)((int64_t)i * i * 32768) / (double)(sigma256 * sigma256));
        sum += 2 * g[i];
    }
    for (int i = 1; i <= s->shape.taps[axis]; i++) {
        s->shape.blur[axis][i] = (uint32_t)round_half_up(KERNEL_SUM * g[i] / sum);
        rest -= 2 * s->shape.blur[axis][i];
    }
    s->shape.blur[axis][0] = rest; /* so that all weights add up to KERNEL_SUM */
}

/* Sets the number of rounds and their cos2. The half-angle a is halved from round to round, until
 * the cone is narrower than a pixel at its end: radius * tan a < 1. The formula for halving is
 * cos(a/2)^2 = (1 + cos a) / 2. */
static void make_rounds(const voting_params *p, voting_scheme *s)
{
    static const uint32_t one = 1 << 20;
    const uint64_t r2 = (uint64_t)(s->radius64 * s->radius64);
    uint32_t c2 = 0; /* cos(a)^2 in units of 2^-20; a is 90 degrees at first */

    for (int i = 0; i < p->cone; i++)
        c2 = (uint32_t)((one + tc_sqrt_floor((uint64_t)c2 << 20)) >> 1);
    s->rounds = 0;
    do {
        s->cos2[s->rounds++] = c2;
        if (r2 * (one - c2) < (uint64_t)c2 * 4096) /* radius^2 * sin^2 < cos^2; 4096 is 64^2 */
            break;
        c2 = (uint32_t)((one + tc_sqrt_floor((uint64_t)c2 << 20)) >> 1);
    } while (s->rounds < VOTING_MAX_ROUNDS);
}

/* Sets the fields that depend on the radius and the spacings: radius64, scale, shape.inverse and
 * shape.reach. */
static tc_status make_scale(const voting_params *p, const wu_item *item, const char *where,
                            voting_scheme *s, tc_err *err)
{
    const uint32_t length[3] = { item->nz, item->ny, item->nx };
    const int most = item->is_stack ? VOTING_MAX_RADIUS_3D : VOTING_MAX_RADIUS_2D;
    double least = item->spacing[0]; /* the smallest spacing, without z if the item is an image */

    for (int a = 1; a < 3; a++)
        least = item->spacing[a] < least ? item->spacing[a] : least;
    if (!item->is_stack)
        least = item->spacing[1] < item->spacing[2] ? item->spacing[1] : item->spacing[2];
    if (p->radius / least > 65535)
        return tc_fail(err, TC_BAD_INPUT, "%s: a radius of %g is too large for this spacing", where,
                       p->radius);
    s->radius64 = round_half_up(64 * (p->radius / least));
    for (int a = 0; a < 3; a++) {
        const double ratio = item->is_stack || a > 0 ? item->spacing[a] / least : 1;

        if (!(ratio <= VOTING_MAX_RATIO))
            return tc_fail(err, TC_BAD_INPUT, "%s: the spacings differ by more than a factor of %d",
                           where, VOTING_MAX_RATIO);
        s->scale[a] = (int)round_half_up(64 * ratio);
        s->shape.inverse[a] =
            (4096 + s->scale[a] / 2) / s->scale[a] * (p->polarity == VOTING_DARK ? -1 : 1);
        s->shape.reach[a] = length[a] > 1 ? (int)(s->radius64 / s->scale[a]) : 0;
        if (s->radius64 / s->scale[a] > most)
            return tc_fail(err, TC_BAD_INPUT,
                           "%s: a radius of %lld pixels is too large: at most %d are allowed in %s",
                           where, (long long)(s->radius64 / s->scale[a]), most,
                           item->is_stack ? "a stack" : "an image");
    }
    if (s->radius64 < 64)
        return tc_fail(err, TC_BAD_INPUT, "%s: the radius is less than one pixel", where);
    return TC_OK;
}

tc_status voting_scheme_init(const voting_params *p, const wu_item *item, const char *where,
                             voting_scheme *s, tc_err *err)
{
    const uint32_t length[3] = { item->nz, item->ny, item->nx };

    memset(s, 0, sizeof *s);
    s->nx = item->nx;
    s->ny = item->ny;
    s->nz = item->nz;
    s->n = (size_t)item->nx * item->ny * item->nz;
    for (int a = 0; a < 3; a++)
        s->shape.n[a] = (tc_i32)length[a];
    s->shape.root = p->root;
    s->radius = p->radius;
    return_if_error(make_scale(p, item, where, s, err));
    for (int a = 0; a < 3; a++)
        make_kernel(s, a, length[a], round_half_up(256 * p->sigma * 64 / s->scale[a]));
    make_rounds(p, s);
    s->shape.side = item->nz > 1 ? SIDE_3D : SIDE_2D;
    { /* The directions are the points on the surface of a cube: all its points except the inner
       * ones. outer, inner: points along an edge of the cube, and of the cube of inner points. */
        const size_t outer = 2 * (size_t)s->shape.side + 1, inner = outer - 2;

        s->n_dirs = item->nz > 1 ? outer * outer * outer - inner * inner * inner
                                 : outer * outer - inner * inner;
        s->shape.dirs = (tc_i32)s->n_dirs;
    }
    /* about BAND_PIXELS pixels, but from 16 to 64 rows */
    s->band_rows = BAND_PIXELS / s->nx;
    s->band_rows = s->band_rows < 16 ? 16 : s->band_rows > 64 ? 64 : s->band_rows;
    s->bands_per_slice = (s->ny + s->band_rows - 1) / s->band_rows;
    s->bands = s->bands_per_slice * s->nz;
    /* BLUR and VOTERS; VOTE in each round, followed by TURN in all but the last; REBLUR */
    s->phases = 2 * s->rounds + 1 + (p->refine ? 1 : 0);
    s->chunks = s->bands * (uint64_t)s->phases;
    return TC_OK;
}

tc_status voting_set_radius(const voting_params *p, const wu_item *item, double radius,
                            voting_scheme *s, tc_err *err)
{
    assert(radius > 0);
    voting_params changed = *p;
    const int rounds = s->rounds, phases = s->phases;
    const uint64_t chunks = s->chunks;

    changed.radius = radius;
    return_if_error(voting_scheme_init(&changed, item, item->name, s, err));
    while (s->rounds < rounds) {
        s->cos2[s->rounds] = s->cos2[s->rounds - 1];
        s->rounds++;
    }
    s->phases = phases;
    s->chunks = chunks;
    return TC_OK;
}

void voting_chunk_at(const voting_scheme *s, uint64_t chunk, voting_phase *phase, int *round,
                     uint64_t *band)
{
    assert(chunk < s->chunks);
    const int index = (int)(chunk / s->bands);

    *band = chunk % s->bands;
    *round = 0;
    if (index < 2) {
        *phase = index == 0 ? VOTING_BLUR : VOTING_VOTERS;
        return;
    }
    *round = (index - 2) / 2;
    *phase = index == 2 * s->rounds + 1 ? VOTING_REBLUR
             : index % 2 == 0           ? VOTING_VOTE
                                        : VOTING_TURN;
}

void voting_band_rows(const voting_scheme *s, uint64_t band, uint32_t *z, uint32_t *y0,
                      uint32_t *y1)
{
    assert(band < s->bands);
    *z = (uint32_t)(band / s->bands_per_slice);
    *y0 = (uint32_t)(band % s->bands_per_slice) * s->band_rows;
    *y1 = s->ny - *y0 > s->band_rows ? *y0 + s->band_rows : s->ny;
}

/* --- grey levels ----------------------------------------------------------------------------- */

/* Sets shape.shift, which depends on the highest bit of the largest pixel. The bitwise OR of all
 * pixels has the same highest bit; it is computed eight bytes at a time. */
static tc_status find_shift(const an_work *work, voting_scheme *s, tc_err *err)
{
    const wu_pixels *const px = work->pixels;
    const unsigned char *const bytes = px->bits == 8 ? px->u8 : (const unsigned char *)px->u16;
    const size_t n = s->n * (px->bits / 8), words = n / 8;
    uint64_t all = 0, word = 0;
    uint32_t bits = 1;
    tc_status status = TC_OK;

    for (size_t i = 0; status == TC_OK && i < words; status = tc_call_poll(work->poll, err))
        for (const size_t end = tc_block_end(i, words); i < end; i++) {
            memcpy(&word, bytes + 8 * i, 8);
            all |= word;
        }
    word = 0; /* the bytes after the last whole word */
    memcpy(&word, bytes + 8 * words, n % 8);
    for (all |= word; all != 0; all >>= px->bits)
        bits |= (uint32_t)all & (px->bits == 8 ? 0xff : 0xffff);
    s->shape.shift = 0;
    while (bits << (s->shape.shift + 1) < 65536)
        s->shape.shift++;
    return status;
}

static int pixel_at(const wu_pixels *px, size_t i)
{
    return (int)wu_grey_value(px, i);
}

/* The absolute value of the filter 1 -2 1; -2 4 -2; 1 -2 1 at a pixel: it responds to noise, but
 * not to edges and slopes (J. Immerkaer, Fast noise variance estimation, 1996). */
static uint32_t roughness_at(const wu_pixels *px, size_t i, size_t nx)
{
    const int corners = pixel_at(px, i - nx - 1) + pixel_at(px, i - nx + 1) +
                        pixel_at(px, i + nx - 1) + pixel_at(px, i + nx + 1);
    const int sides =
        pixel_at(px, i - nx) + pixel_at(px, i + nx) + pixel_at(px, i - 1) + pixel_at(px, i + 1);
    const int value = corners - 2 * sides + 4 * pixel_at(px, i);

    return (uint32_t)(value < 0 ? -value : value);
}

/* Sets *median to the lower median of the roughness of the pixels that are not at the border. In a
 * large item only every `step`-th row is used. A roughness is less than 8 * 65,536, as the filter's
 * positive weights add up to 8. */
static tc_status median_roughness(const voting_scheme *s, const wu_pixels *px, uint32_t *median,
                                  tc_err *err)
{
    const uint32_t bins = 8 * 65536;
    uint64_t rows, step, n_counted = 0, n_below = 0;
    uint32_t *histogram;

    *median = 0;
    if (s->nx < 3 || s->ny < 3)
        return TC_OK;
    histogram = calloc(bins, sizeof *histogram);
    if (histogram == NULL)
        return tc_no_memory(err, "the noise floor");
    rows = (uint64_t)s->nz * (s->ny - 2);
    step = (rows * (s->nx - 2) + NOISE_SAMPLES - 1) / NOISE_SAMPLES;
    for (uint64_t row = 0; row < rows; row += step) {
        const size_t start = (size_t)((row / (s->ny - 2) * s->ny + row % (s->ny - 2) + 1) * s->nx);

        for (size_t x = 1; x + 1 < s->nx; x++)
            histogram[roughness_at(px, start + x, s->nx)]++;
        n_counted += s->nx - 2;
    }
    while (2 * (n_below += histogram[*median]) < n_counted)
        (*median)++;
    free(histogram);
    return TC_OK;
}

/* The variance of a component of the gradient of the blurred picture if the pixels are white noise
 * of variance 1; the greatest value of all axes is returned. The gradient is in grey values per two
 * pixels of the finest axis. */
static double gradient_gain(const voting_scheme *s)
{
    /* for each axis, sums of the squares of the blur's weights, and of their differences, as the
     * gradient is a difference of blurred pixels */
    double square[3], slope[3], most = 0;
    const double scale = (double)KERNEL_SUM * KERNEL_SUM;

    for (int a = 0; a < 3; a++) {
        const int h = s->shape.taps[a];

        square[a] = slope[a] = 0;
        for (int i = -h - 1; i <= h + 1; i++) {
            const int l = abs(i - 1), r = abs(i + 1), m = abs(i);
            const double d = (l <= h ? (double)s->shape.blur[a][l] : 0) -
                             (r <= h ? (double)s->shape.blur[a][r] : 0);

            square[a] += m <= h ? (double)s->shape.blur[a][m] * s->shape.blur[a][m] : 0;
            slope[a] += d * d;
        }
    }
    for (int a = s->nz > 1 ? 0 : 1; a < 3; a++) {
        /* inverse / 64 is 1 on the finest axis; 4096 is 64^2 */
        double gain = slope[a] / scale * s->shape.inverse[a] * s->shape.inverse[a] / 4096;

        for (int b = 0; b < 3; b++)
            gain *= b == a ? 1 : square[b] / scale;
        most = gain > most ? gain : most;
    }
    return most;
}

tc_status voting_scheme_use_pixels(const an_work *work, voting_scheme *s, tc_err *err)
{
    const voting_params *const p = work->params;
    /* The median roughness of Gaussian noise, in standard deviations of the noise. It is the
     * product of 0.6745, the median of the absolute value of a normal variable, and 6, the root of
     * the sum of the squares of the filter's weights. */
    const double deviations = 4.047;
    uint32_t median;
    double radius;
    bool dark = false;
    tc_status status = median_roughness(s, work->pixels, &median, err);

    if (status == TC_OK && p->radius_per_image)
        status = voting_find_radius(work, &radius, err);
    if (status == TC_OK && p->radius_per_image)
        status = voting_set_radius(p, work->item, radius, s, err);

    if (status == TC_OK && p->polarity == VOTING_AUTO)
        status = voting_find_dark(work, &dark, err);
    for (int a = 0; dark && a < 3; a++)
        s->shape.inverse[a] = -s->shape.inverse[a];
    if (status == TC_OK)
        status = find_shift(work, s, err);
    if (status != TC_OK)
        return status;
    /* The units of voting_gradient are 16 * 64 times as small as those of the gradient in
     * gradient_gain: blurred pixels have 4 fraction bits, and shape.inverse is 64 on the finest
     * axis. */
    s->shape.floor = (uint64_t)(p->floor * (median / deviations) * (double)(1u << s->shape.shift) *
                                (16 * 64) * __builtin_sqrt(gradient_gain(s)));
    return TC_OK;
}

/* --- blur ------------------------------------------------------------------------------------ */

size_t voting_blur_scratch(const voting_scheme *s, uint32_t rows)
{
    return ((size_t)rows + 2 * (size_t)s->shape.taps[1] + 1) * s->nx + s->nx +
           2 * (size_t)s->shape.taps[2];
}

/* Returns i, or the nearest number from 0 to n - 1. */
static uint32_t clamp_index(int64_t i, uint32_t n)
{
    return i < 0 ? 0 : i >= (int64_t)n ? n - 1 : (uint32_t)i;
}

/* Adds the n pixels from index `from` on, multiplied by weight, to sum[0] to sum[n - 1]. */
static void add_pixels(const wu_pixels *px, size_t from, size_t n, uint32_t weight, uint32_t *sum)
{
    if (px->bits == 8)
        for (size_t x = 0; x < n; x++)
            sum[x] += weight * px->u8[from + x];
    else
        for (size_t x = 0; x < n; x++)
            sum[x] += weight * px->u16[from + x];
}

/* Sets out to row y of slice z, blurred along z. */
static void blur_z(const voting_scheme *s, const wu_pixels *px, uint32_t z, uint32_t y,
                   uint32_t *out)
{
    memset(out, 0, s->nx * sizeof *out);
    for (int i = -s->shape.taps[0]; i <= s->shape.taps[0]; i++) {
        const size_t row = (size_t)clamp_index((int64_t)z + i, s->nz) * s->ny + y;

        add_pixels(px, row * s->nx, s->nx, s->shape.blur[0][abs(i)] << s->shape.shift, out);
    }
    for (size_t x = 0; x < s->nx; x++)
        out[x] = VOTING_ROUND_FIRST(out[x]);
}

/* Sets out[nx] to a row blurred along x. row: nx pixels, with margins of taps[2] pixels on either
 * side, which this function fills with the outermost pixels. */
static void blur_x(const voting_scheme *s, uint32_t *row, uint32_t *out)
{
    const uint32_t *lines[2 * VOTING_MAX_HALF + 1];
    const int h = s->shape.taps[2];

    for (int i = 0; i < h; i++) {
        row[i] = row[h];
        row[h + s->nx + (size_t)i] = row[h + s->nx - 1];
    }
    for (int i = 0; i <= 2 * h; i++)
        lines[i] = row + i;
    an_gauss_blur(s->shape.blur[2], h, lines, s->nx, VOTING_NEXT_BITS, false, out);
}

void voting_blur(const voting_scheme *s, const wu_pixels *px, uint32_t z, uint32_t y0, uint32_t y1,
                 uint32_t *scratch, uint32_t *out)
{
    assert(z < s->nz && y0 <= y1 && y1 <= s->ny);
    const uint32_t *lines[2 * VOTING_MAX_HALF + 1];
    const int h = s->shape.taps[1];
    /* a row, with margins, for blur_x; it follows the rows of the picture in scratch */
    uint32_t *const padded = scratch + ((size_t)(y1 - y0) + 2 * (size_t)h) * s->nx;

    for (int64_t y = (int64_t)y0 - h; y < (int64_t)y1 + h; y++)
        if (y >= 0 && y < (int64_t)s->ny)
            blur_z(s, px, z, (uint32_t)y, scratch + (size_t)(y - ((int64_t)y0 - h)) * s->nx);
    for (uint32_t y = y0; y < y1; y++) {
        for (int i = -h; i <= h; i++)
            lines[i + h] =
                scratch +
                (size_t)((int64_t)clamp_index((int64_t)y + i, s->ny) - ((int64_t)y0 - h)) * s->nx;
        an_gauss_blur(s->shape.blur[1], h, lines, s->nx, VOTING_NEXT_BITS, false,
                      padded + s->shape.taps[2]);
        blur_x(s, padded, out + (size_t)(y - y0) * s->nx);
    }
}

/* --- the analysis ---------------------------------------------------------------------------- */

static tc_status check_item(const void *params, const wu_item *item, const char *where, tc_err *err)
{
    const voting_params *const p = params;
    voting_scheme s;

    if (p->radius_per_image && item->is_stack)
        return tc_fail(err, TC_BAD_INPUT, "%s: own_radius goes only with images", where);

    return voting_scheme_init(params, item, where, &s, err);
}

/* The greatest number of peaks that an item can have: one in each block of two pixels along each
 * axis. */
static uint64_t most_peaks(const voting_scheme *s)
{
    uint64_t n = 1;

    for (int a = 0; a < 3; a++)
        n *= ((uint64_t)s->shape.n[a] + 1) / 2;
    return n;
}

/* The greatest number of points that voting_suppress_peaks can leave: one in each block of pixels
 * that are all nearer to each other than the radius. A block's side is at most the radius /
 * sqrt(number of axes), so its diagonal is shorter than the radius. */
static uint64_t most_points(const voting_params *p, const voting_scheme *s)
{
    const uint64_t axes = s->nz > 1 ? 3 : 2;
    /* the least possible radius (voting_least_radius), in 1/64 of the smallest spacing */
    const int64_t least = !p->radius_per_image   ? s->radius64
                          : s->radius64 / 4 > 64 ? s->radius64 / 4
                                                 : 64;
    const uint64_t side64 = tc_sqrt_floor(((uint64_t)(least * least) - 1) / axes);
    const uint64_t peaks = most_peaks(s);
    uint64_t n = 1;

    for (int a = 0; a < 3; a++) {
        const uint64_t block = side64 / (uint64_t)s->scale[a] + 1; /* in pixels */

        n *= ((uint64_t)s->shape.n[a] + block - 1) / block;
    }
    return tc_smaller(peaks, n);
}

/* Sets *rows and *pixels to how many rows and pixels a cone with this half-angle covers, averaged
 * over all directions. By Cauchy's formula, the average extent of a convex figure is 1/pi of the
 * length of its outline, and the average projected area of a convex body is 1/4 of its surface. */
static void mean_cone(const voting_scheme *s, double angle, double *rows, double *pixels)
{
    const double pi = 3.14159265358979, y = s->shape.reach[1], x = s->shape.reach[2],
                 z = s->shape.reach[0];

    if (s->nz == 1) {
        *rows = 1 + y * (2 + 2 * angle) / pi;
        *pixels = angle * x * y;
    } else {
        const double cap = 1 - cos(angle);

        *rows = 1 + pi * y * z * (2 * cap + sin(angle)) / 4;
        *pixels = 2 * pi / 3 * x * y * z * cap;
    }
}

/* Sets `costs` to the operations per pixel of each phase if nearly all pixels are voters. The
 * constants were measured on pictures of all kinds (make bench-progress). Returns the number of
 * phases. */
static size_t costs_of(const voting_params *p, const voting_scheme *s,
                       double costs[2 * VOTING_MAX_ROUNDS + 2])
{
    const bool flat = s->nz == 1;
    const double taps =
        2 * (s->shape.taps[0] + s->shape.taps[1] + s->shape.taps[2]) + (flat ? 2 : 3);
    const double slices = 2 * s->shape.reach[0] + 1;
    double angle = 1.5707963267949, rows, pixels;
    size_t n = 0;

    for (int i = 0; i < p->cone; i++)
        angle /= 2;
    costs[n++] = (flat ? 10 : 15) + (flat ? 0.85 : 1.3) * taps;
    costs[n++] = flat ? 90 : 100;
    for (int round = 0; round < s->rounds; round++) {
        mean_cone(s, angle, &rows, &pixels);
        angle /= 2;
        costs[n++] = flat ? 42 + 4.2 * rows : 29 * slices + 5 * rows;
        if (round + 1 < s->rounds)
            costs[n++] =
                flat ? 10 + 23 * rows + 2.9 * pixels : 40 * slices + 17 * rows + 2.9 * pixels;
    }
    if (p->refine)
        costs[n++] = (flat ? 0.85 : 1.3) * taps;
    return n;
}

/* Implements an_analysis.time_share. */
static double time_share(const an_work *work, uint64_t chunks_done)
{
    double costs[2 * VOTING_MAX_ROUNDS + 2];
    voting_scheme s;
    tc_err ignored;

    if (voting_scheme_init(work->params, work->item, work->item->name, &s, &ignored) != TC_OK)
        return 0;
    return an_phases_spent(costs, costs_of(work->params, &s, costs), s.bands, chunks_done);
}

/* Sets the operations of the plan (an_plan). */
static void plan_flops(const voting_params *p, const voting_scheme *s, const wu_item *item,
                       an_plan *out)
{
    double costs[2 * VOTING_MAX_ROUNDS + 2];
    const size_t phases = costs_of(p, s, costs);

    out->load_flops = an_reading_flops(item) + 10.0 * (double)s->n;
    if (p->radius_per_image) /* takes as long as eight cellcount analyses of the picture's middle */
        out->load_flops += 8 * 250 * an_middle_pixels(item);
    out->finish_flops =
        (s->nz == 1 ? 60.0 : 50.0) * (double)s->n + (p->refine ? 85.0 : 0.0) * (double)s->n;
    out->write_flops = 5.0 * (double)s->n;
    out->byte_flops = 200;
    an_complete_plan(out, item, (double)s->n * an_phases_sum(costs, phases));
}

static tc_status plan(const void *params, const wu_item *item, an_plan *out, tc_err *err)
{
    voting_scheme s;
    return_if_error(voting_scheme_init(params, item, item->name, &s, err));
    out->chunks = s.chunks;
    out->most_rows = most_points(params, &s);
    out->state_bytes = sizeof(an_state_head) + 2 * s.n * sizeof(uint32_t);
    /* Memory besides program, pixels and state is largest at one of three moments. `working`:
     * during the rounds (the tables and the bands of turned voters). `peaks`: when all chunks are
     * done (the peaks, and a buffer of half their size for sorting). `points`: later (the points,
     * together with the peaks or with the rows of the result). The sizes below are bytes of a peak
     * (candidate in output.c) and of a row of the result. */
    enum { PEAK_BYTES = 8, ROW_BYTES = 8 + 3 * 8 + 8 };
    const uint64_t working = voting_tables_bytes(&s) + voting_turned_bytes(&s),
                   peaks = PEAK_BYTES * most_peaks(&s),
                   points =
                       tc_larger(peaks + out->most_rows * (sizeof(voting_peak) + sizeof(int64_t)),
                                 out->most_rows * (sizeof(voting_peak) + ROW_BYTES));
    out->memory_bytes = PLAN_PROGRAM_BYTES + (uint64_t)s.n * (item->bits / 8) + out->state_bytes +
                        tc_larger(working, tc_larger(peaks + peaks / 2, points));
    out->thread_bytes = voting_thread_bytes(&s) + PLAN_THREAD_BYTES;
    plan_flops(params, &s, item, out);
    return TC_OK;
}

/* Bits of an_analysis.kernels: the kernels for pixels of 8 bits, and those for pixels of 16 bits.
 */
enum { BITS_8 = 1, BITS_16 = 2 };

/* Implements an_analysis.kernels. */
static uint32_t kernels_of(const void *params, const wu_item *item)
{
    (void)params;
    return item->bits == 16 ? BITS_16 : BITS_8;
}

/* The self-tests cover both polarities, 8 and 16 bits, stacks, and cones of every width. Fields:
 * parameters, nx, ny, nz, bits, mask, state_crc, scene, doubles (an_selftest). */
static const an_selftest selftests[] = {
    { "{\"radius\":6}", 61, 47, 1, 8, false, 0x8a177fe2, AN_BALLS, false },
    { "{\"radius\":5.3,\"sigma\":1.2,\"polarity\":\"dark\","
      "\"cone\":90,\"weight\":\"gradient\",\"floor\":0}",
      43, 70, 1, 16, false, 0x55a464eb, AN_BALLS, false },
    { "{\"radius\":4,\"sigma\":1,\"refine\":false}", 31, 25, 19, 16, false, 0x35261573, AN_BALLS,
      false },
    { "{\"radius\":2.5,\"floor\":0}", 333, 20, 1, 8, false, 0xb4462ee1, AN_NOISE, false },
    { "{\"radius\":2,\"floor\":0,\"sigma\":0.5}", 33, 21, 12, 8, false, 0x2e58b20e, AN_TIES,
      false },
    { "{\"radius\":3,\"floor\":0,\"sigma\":0.5}", 270, 21, 1, 16, false, 0x977c086d, AN_TIES,
      false },
    { .parameters = NULL }
};

/* Implements an_analysis.preview. */
static uint8_t preview(const an_work *work, const void *state, size_t voxel)
{
    uint32_t votes = voting_votes_const(state)[voxel];
    uint8_t value = 0;

    (void)work;
    /* The logarithm of the votes to base 2, times 8, and linear between powers of two. */
    for (; votes > 15; votes >>= 1)
        value = (uint8_t)(value + 8);
    return (uint8_t)(value + (votes > 8 ? votes - 8 : 0));
}

const an_analysis an_voting = { .name = "voting",
                                .summary = "finds the centres of round cells (iterative voting)",
                                .cite = "L. Saadatifard, L. C. Abbott, L. Montier, J. Ziburkus, D. "
                                        "Mayerich, Robust cell detection for "
                                        "large-scale 3D microscopy using GPU-accelerated iterative "
                                        "voting, Frontiers in Neuroanatomy 12 (2018) 28.",
                                .shorten_advice =
                                    "a smaller radius, a smaller cone or a higher floor",
                                .params_bytes = sizeof(voting_params),
                                .parameters = voting_parameters,
                                .derive_params = voting_derive_params,
                                .check_item = check_item,
                                .plan = plan,
                                .time_share = time_share,
                                .check_state = voting_check_state,
                                .finish = voting_finish,
                                .preview = preview,
                                .preview_amounts = true,
                                .declare_arrays = voting_declare_arrays,
                                .note_result = voting_note_result,
                                .check_result = voting_check_result,
                                .count_name = "count",
                                .check_pixels = voting_check_pixels,
                                .pixels_share = voting_pixels_share,
                                .suggest = voting_suggest,
                                .cpu = &voting_cpu,
                                .forbids_mixed_kinds = true,
                                .assumes_cubic_voxels = true,
                                .kernels = kernels_of,
                                .selftests = selftests };
