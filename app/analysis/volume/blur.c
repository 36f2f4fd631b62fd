/*
 * volume's Gaussian filter, in slices or in the stack. A repair blurs the membrane as 0 and 255:
 * what then reaches the threshold becomes membrane as well; nothing outside the stack is
 * membrane. `smooth` blurs the grey values, for the threshold or a watershed; outside the stack
 * are those of its border.
 *
 * Fixed point: the blurred membrane is a fraction in 2^-15, so sums of at most 1
 * times weights of 2^16 in all fit 32 bits. Grey values have 8 bits behind the point; those of
 * 8 bits fit as well, those of 16 take 64.
 */
#include <assert.h>
#include <string.h>

#include "app/analysis/volume/volume.h"

enum { ONE_BITS = 15, LANES = 64 };

static size_t lanes_up(size_t n)
{
    return (n + LANES - 1) / LANES * LANES;
}

static bool is_membrane(const vol_blur *r, size_t at)
{
    return vol_is_membrane(wu_grey(r->pixels, at), r->threshold);
}

/* Whether there is a pass along z; else the last one is that along y. */
static bool along_z(const vol_blur *r)
{
    return r->params->through && r->gauss.radius > 0;
}

static bool needs_64_bits(const vol_blur *r)
{
    return r->what != VOL_REPAIR && r->pixels->bits == 16;
}

/* blurred: 2^-15. */
static bool reaches_threshold(const vol_blur *r, uint32_t blurred)
{
    return blurred * VOL_WHITE >= (uint32_t)r->params->threshold << ONE_BITS;
}

vol_blur vol_blur_of(const vol_params *p, const wu_pixels *pixels)
{
    const double sigma = p->repair ? p->sigma : p->smooth;

    return (vol_blur){ .params = p,
                       .pixels = pixels,
                       .threshold = (uint32_t)p->membrane,
                       .what = p->watershed ? VOL_HEIGHTS
                               : p->repair  ? VOL_REPAIR
                                            : VOL_SMOOTH,
                       .gauss = sigma > 0
                                    ? an_gauss_make(sigma)
                                    : (an_gauss){ .weight = { (uint32_t)1 << AN_GAUSS_BITS } } };
}

static size_t bands_of_slice(const vol_blur *r)
{
    return (r->pixels->ny + VOL_BLUR_ROWS - 1) / VOL_BLUR_ROWS;
}

/* Voxels along x of a part along z: fewer of a high stack, for no part to last long. */
static size_t chunk_of(const vol_blur *r)
{
    return r->pixels->nz > VOL_HIGH ? LANES : VOL_BLUR_CHUNK;
}

static size_t chunks_of_row(const vol_blur *r)
{
    return (r->pixels->nx + chunk_of(r) - 1) / chunk_of(r);
}

size_t vol_blur_parts(const vol_blur *r, vol_phase phase)
{
    assert(phase == VOL_BLUR || phase == VOL_BLUR_Z);
    if (phase == VOL_BLUR)
        return bands_of_slice(r) * r->pixels->nz;
    return along_z(r) ? chunks_of_row(r) * r->pixels->ny : 0;
}

/* A row with its margins; the rows (or slices) of a blur; sums. */
size_t vol_blur_scratch(const vol_blur *r)
{
    const size_t taps = 2 * (size_t)r->gauss.radius + 1, width = lanes_up(r->pixels->nx);
    const size_t chunk = width < VOL_BLUR_CHUNK ? VOL_BLUR_CHUNK : width;

    return width + taps + LANES + (taps + 1) * chunk;
}

/* Row y of slice z blurred along x. line: the row between margins of `radius`, zeros to
 * begin with. */
static void blur_x(const vol_blur *r, uint32_t z, uint32_t y, uint32_t *line, size_t width,
                   uint32_t *out)
{
    const size_t nx = r->pixels->nx, at = ((size_t)z * r->pixels->ny + y) * nx;
    const size_t radius = (size_t)r->gauss.radius;
    const bool grey = r->what != VOL_REPAIR;
    const uint32_t *lines[2 * AN_GAUSS_MAX_RADIUS + 1];

    for (size_t x = 0; x < nx; x++)
        line[radius + x] = grey ? wu_grey(r->pixels, at + x) : is_membrane(r, at + x);
    for (size_t k = 0; grey && k < radius; k++) {
        line[k] = line[radius];
        line[radius + nx + k] = line[radius + nx - 1];
    }
    for (size_t k = 0; k <= 2 * radius; k++)
        lines[k] = line + k;
    an_gauss_blur(r->gauss.weight, r->gauss.radius, lines, width,
                  AN_GAUSS_BITS - (grey ? VOL_GREY_BITS : ONE_BITS), needs_64_bits(r), out);
}

/* Line i of `n` lines blurred across them. ring: of 2 radius + 1 lines, line j in place
 * j % (2 radius + 1). */
static void blur_across(const vol_blur *r, const uint32_t *ring, size_t width, int64_t i, int64_t n,
                        uint32_t *out)
{
    const int64_t h = r->gauss.radius, taps = 2 * h + 1;
    const uint32_t *lines[2 * AN_GAUSS_MAX_RADIUS + 1];

    for (int64_t j = i - h; j <= i + h; j++) {
        const int64_t at = r->what == VOL_REPAIR ? j : j < 0 ? 0 : j < n ? j : n - 1;

        lines[j - i + h] = at >= 0 && at < n ? ring + (size_t)(at % taps) * width : NULL;
    }
    an_gauss_blur(r->gauss.weight, r->gauss.radius, lines, width, AN_GAUSS_BITS, needs_64_bits(r),
                  out);
}

/* Voxels [at, at + n), blurred along all axes. Returns how many are new membrane. */
static uint64_t decide_voxels(const vol_blur *r, size_t at, size_t n, const uint32_t *blurred)
{
    uint64_t added = 0;

    if (r->what != VOL_REPAIR) {
        for (size_t i = 0; i < n; i++)
            r->plane[at + i] = r->what == VOL_HEIGHTS
                                   ? VOL_TOP - (int32_t)blurred[i]
                                   : !vol_is_membrane(blurred[i], r->threshold << VOL_GREY_BITS);
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        const bool was = is_membrane(r, at + i), is = was || reaches_threshold(r, blurred[i]);

        r->plane[at + i] = !is;
        added += is && !was;
    }
    return added;
}

/* VOL_BLUR_ROWS rows of a slice. */
static uint64_t blur_slice(const vol_blur *r, size_t part, uint32_t *scratch)
{
    const int64_t ny = r->pixels->ny, h = r->gauss.radius, taps = 2 * h + 1;
    const size_t nx = r->pixels->nx, width = lanes_up(nx);
    const uint32_t z = (uint32_t)(part / bands_of_slice(r));
    const int64_t y0 = (int64_t)(part % bands_of_slice(r)) * VOL_BLUR_ROWS;
    const int64_t y1 = ny - y0 < VOL_BLUR_ROWS ? ny : y0 + VOL_BLUR_ROWS;
    uint32_t *const line = scratch, *const ring = line + width + 2 * h + LANES;
    uint32_t *const out = ring + (size_t)taps * width;
    uint64_t added = 0;

    memset(line, 0, (size_t)(ring - line) * sizeof *line);
    for (int64_t y = y0 - h; y < y1 + h; y++) {
        const int64_t done = y - h;

        if (y >= 0 && y < ny)
            blur_x(r, z, (uint32_t)y, line, width, ring + (size_t)(y % taps) * width);
        if (done < y0)
            continue;
        blur_across(r, ring, width, done, ny, out);
        if (along_z(r))
            memcpy(r->plane + ((size_t)z * ny + done) * nx, out, nx * sizeof *out);
        else
            added += decide_voxels(r, ((size_t)z * ny + done) * nx, nx, out);
    }
    return added;
}

/* A piece of one row, in all slices: the ring has the values that are written
 * over. */
static uint64_t blur_z(const vol_blur *r, size_t part, uint32_t *scratch)
{
    const int64_t nz = r->pixels->nz, h = r->gauss.radius, taps = 2 * h + 1;
    const size_t chunk = chunk_of(r), x0 = part % chunks_of_row(r) * chunk,
                 slice = (size_t)r->pixels->ny * r->pixels->nx;
    const size_t at = part / chunks_of_row(r) * r->pixels->nx + x0;
    const size_t n = r->pixels->nx - x0 < chunk ? r->pixels->nx - x0 : chunk;
    const size_t width = lanes_up(n);
    uint32_t *const ring = scratch, *const out = ring + (size_t)taps * width;
    uint64_t added = 0;

    for (int64_t z = -h; z < nz; z++) {
        if (z + h < nz)
            memcpy(ring + (size_t)((z + h) % taps) * width, r->plane + (size_t)(z + h) * slice + at,
                   n * sizeof *ring);
        if (z < 0)
            continue;
        blur_across(r, ring, width, z, nz, out);
        added += decide_voxels(r, (size_t)z * slice + at, n, out);
    }
    return added;
}

uint64_t vol_blur_part(const vol_blur *r, vol_phase phase, size_t part, uint32_t *scratch)
{
    assert(part < vol_blur_parts(r, phase));
    return phase == VOL_BLUR ? blur_slice(r, part, scratch) : blur_z(r, part, scratch);
}

/* --- voxels that a repair takes from cells ---------------------------------------------------- */

/* Steps along an axis from a voxel to the first that is no membrane, through what the
 * repair added; 0 where there is none. left: voxels on that side. */
static size_t way_out(const vol_blur *r, size_t at, ptrdiff_t step, size_t left, size_t most,
                      bool *inside)
{
    for (size_t i = 1; i <= left && i <= most; i++) {
        at += (size_t)step;
        if (r->plane[at] != 0) {
            *inside = r->plane[at] > 0;
            return i;
        }
        if (is_membrane(r, at))
            return 0;
    }
    return 0;
}

/* Whether the nearest voxel along the axes that is no membrane is inside a cell,
 * and none as near is outside. */
static bool taken_from_inside(const vol_blur *r, size_t x, size_t y, size_t z)
{
    const wu_pixels *const px = r->pixels;
    const size_t nx = px->nx, slice = nx * px->ny, at = z * slice + y * nx + x;
    const struct {
        ptrdiff_t step;
        size_t left;
    } ways[6] = { { -1, x },
                  { 1, nx - 1 - x },
                  { -(ptrdiff_t)nx, y },
                  { (ptrdiff_t)nx, px->ny - 1 - y },
                  { -(ptrdiff_t)slice, z },
                  { (ptrdiff_t)slice, px->nz - 1 - z } };
    size_t nearest = (size_t)r->gauss.radius + 1;
    bool inside = false;

    for (int i = 0; i < (r->params->through ? 6 : 4); i++) {
        bool there = false;
        const size_t steps = way_out(r, at, ways[i].step, ways[i].left, nearest, &there);

        if (steps > 0 && steps < nearest) {
            nearest = steps;
            inside = there;
        } else if (steps == nearest && steps > 0) {
            inside &= there;
        }
    }
    return inside;
}

uint64_t vol_repair_bias(const vol_blur *r, size_t row0, size_t row1)
{
    assert(row0 <= row1 && row1 <= (size_t)r->pixels->ny * r->pixels->nz);
    const size_t nx = r->pixels->nx;
    uint64_t taken = 0;

    for (size_t row = row0; row < row1; row++)
        for (size_t x = 0; x < nx; x++)
            if (r->plane[row * nx + x] == 0 && !is_membrane(r, row * nx + x))
                taken += taken_from_inside(r, x, row % r->pixels->ny, row / r->pixels->ny);
    return taken;
}

/* --- what it closes -------------------------------------------------------------------------- */

/* The part of the weights that n voxels in a row have, seen from one of them:
 * 2^-16. from: voxels before that one. */
static uint32_t edge_weight(const an_gauss *g, int n, int from)
{
    uint32_t sum = 0;

    for (int i = -from; i < n - from; i++)
        if (i >= -g->radius && i <= g->radius)
            sum += g->weight[i < 0 ? -i : i];
    return sum;
}

/* The blur is a product: along the wall's normal it keeps the share of the
 * wall's voxels, across the slit it loses that of the slit's. A layer of the wall that is
 * closed closes the slit; the middle one keeps the most. Each of the passes may round
 * down, by 2^-15 at the most. */
void vol_repair_gaps(const vol_params *p, int64_t *gaps)
{
    const an_gauss g = an_gauss_make(p->sigma);

    for (int wall = 1; wall <= VOL_WALLS; wall++) {
        const uint64_t kept = edge_weight(&g, wall, wall / 2);
        int gap = 0;

        for (;;) {
            /* The slit's middle loses most. */
            const uint64_t left =
                ((uint32_t)1 << AN_GAUSS_BITS) - edge_weight(&g, gap + 1, (gap + 1) / 2);
            const uint64_t blurred = kept * left >> (2 * AN_GAUSS_BITS - ONE_BITS);
            const uint64_t sure = blurred > 3 ? blurred - 3 : 0;

            if (gap > 2 * g.radius || sure * VOL_WHITE < (uint64_t)p->threshold << ONE_BITS)
                break;
            gap++;
        }
        gaps[wall - 1] = gap;
    }
}
