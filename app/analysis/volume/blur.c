/*
 * volume: the Gaussian filter of a stack, or of each of its slices. With `repair` it filters a
 * stack that is 255 at membrane and 0 elsewhere, also outside the stack. Voxels whose filtered
 * value reaches the repair's threshold become membrane, too. With `smooth` it filters the grey
 * values, before the membrane's threshold or a watershed; outside the stack the values of its
 * border are repeated.
 *
 * Values are in fixed point. In the computation membrane is 1 instead of 255, and its filtered
 * values have ONE_BITS = 15 fractional bits. The weights have 16 fractional bits and the sum 1, so
 * weighted sums fit in 32 bits. Filtered grey values have VOL_GREY_BITS = 8 fractional bits:
 * weighted sums of 8-bit values fit in 32 bits, those of 16-bit values need 64.
 */
#include <assert.h>
#include <string.h>

#include "app/analysis/volume/volume.h"

enum {
    ONE_BITS = 15, /* fractional bits of filtered membrane */
    LANES = 64     /* the length of lines in scratch memory is a multiple of this number, for vector
                      instructions */
};

/* Rounds n up to a multiple of LANES. */
static size_t lanes_up(size_t n)
{
    return (n + LANES - 1) / LANES * LANES;
}

static bool is_membrane(const vol_blur *r, size_t voxel)
{
    return vol_is_membrane(wu_grey_value(r->pixels, voxel), r->threshold);
}

/* Whether the last pass of the filter is along z; otherwise it is along y. */
static bool filters_z(const vol_blur *r)
{
    return r->params->is_3d && r->gauss.radius > 0;
}

/* Whether weighted sums may exceed 32 bits. */
static bool needs_64_bits(const vol_blur *r)
{
    return r->kind != VOL_REPAIR && r->pixels->bits == 16;
}

/* Whether a voxel becomes membrane by the repair. blurred: the filtered membrane there, in units of
 * 2^-ONE_BITS. */
static bool reaches_threshold(const vol_blur *r, uint32_t blurred)
{
    return blurred * VOL_MEMBRANE_VALUE >= (uint32_t)r->params->threshold << ONE_BITS;
}

vol_blur vol_blur_of(const vol_params *p, const wu_pixels *pixels)
{
    const double sigma = p->repair ? p->sigma : p->smooth;

    return (vol_blur){ .params = p,
                       .pixels = pixels,
                       .threshold = (uint32_t)p->membrane,
                       .kind = p->watershed ? VOL_HEIGHTS
                               : p->repair  ? VOL_REPAIR
                                            : VOL_SMOOTH,
                       .gauss = sigma > 0
                                    ? an_gauss_make(sigma)
                                    : (an_gauss){ .weight = { (uint32_t)1 << AN_GAUSS_BITS } } };
}

/* The number of parts of VOL_BLUR in a slice. */
static size_t bands_of_slice(const vol_blur *r)
{
    return (r->pixels->ny + VOL_BLUR_ROWS - 1) / VOL_BLUR_ROWS;
}

/* The number of voxels along x that a part of VOL_BLUR_Z filters: fewer in a stack of many slices,
 * so that a part does not take too long. */
static size_t chunk_of(const vol_blur *r)
{
    return r->pixels->nz > VOL_MANY_SLICES ? LANES : VOL_BLUR_CHUNK;
}

/* The number of parts of VOL_BLUR_Z that a row is divided into. */
static size_t chunks_of_row(const vol_blur *r)
{
    return (r->pixels->nx + chunk_of(r) - 1) / chunk_of(r);
}

size_t vol_blur_parts(const vol_blur *r, vol_phase phase)
{
    assert(phase == VOL_BLUR || phase == VOL_BLUR_Z);
    if (phase == VOL_BLUR)
        return bands_of_slice(r) * r->pixels->nz;
    return filters_z(r) ? chunks_of_row(r) * r->pixels->ny : 0;
}

/* Scratch memory holds a row with its margins, the `taps` = 2 radius + 1 lines that one filtered
 * line depends on, and the filtered line. */
size_t vol_blur_scratch(const vol_blur *r)
{
    const size_t taps = 2 * (size_t)r->gauss.radius + 1, width = lanes_up(r->pixels->nx);
    const size_t chunk = width < VOL_BLUR_CHUNK ? VOL_BLUR_CHUNK : width;

    return width + taps + LANES + (taps + 1) * chunk;
}

/* Filters row y of slice z along x. Writes `width` values to `out`, of which the first nx are used.
 * line: memory for the row between margins of `radius` values each; the margins must be 0 at the
 * first call. */
static void blur_x(const vol_blur *r, uint32_t z, uint32_t y, uint32_t *line, size_t width,
                   uint32_t *out)
{
    const size_t nx = r->pixels->nx, row_start = ((size_t)z * r->pixels->ny + y) * nx;
    const size_t radius = (size_t)r->gauss.radius;
    const bool grey = r->kind != VOL_REPAIR;
    const uint32_t *lines[2 * AN_GAUSS_MAX_RADIUS + 1];

    for (size_t x = 0; x < nx; x++)
        line[radius + x] =
            grey ? wu_grey_value(r->pixels, row_start + x) : is_membrane(r, row_start + x);
    for (size_t k = 0; grey && k < radius; k++) {
        line[k] = line[radius];
        line[radius + nx + k] = line[radius + nx - 1];
    }
    for (size_t k = 0; k <= 2 * radius; k++)
        lines[k] = line + k;
    an_gauss_blur(r->gauss.weight, r->gauss.radius, lines, width,
                  AN_GAUSS_BITS - (grey ? VOL_GREY_BITS : ONE_BITS), needs_64_bits(r), out);
}

/* Filters line i of n lines (rows of a slice, or pieces of a row in all slices) across the lines,
 * into `out`. ring: contains the 2 radius + 1 lines around line i; line j is at index j % (2 radius
 * + 1). */
static void blur_across_lines(const vol_blur *r, const uint32_t *ring, size_t width, int64_t i,
                              int64_t n, uint32_t *out)
{
    const int64_t h = r->gauss.radius, taps = 2 * h + 1;
    const uint32_t *lines[2 * AN_GAUSS_MAX_RADIUS + 1];

    for (int64_t j = i - h; j <= i + h; j++) {
        const int64_t source = r->kind == VOL_REPAIR ? j : j < 0 ? 0 : j < n ? j : n - 1;

        lines[j - i + h] =
            source >= 0 && source < n ? ring + (size_t)(source % taps) * width : NULL;
    }
    an_gauss_blur(r->gauss.weight, r->gauss.radius, lines, width, AN_GAUSS_BITS, needs_64_bits(r),
                  out);
}

/* Sets the elements [first, first + n) of the plane, as stated at vol_blur_kind, from the voxels'
 * values filtered along all axes. Returns how many of these voxels a repair makes membrane. */
static uint64_t decide_voxels(const vol_blur *r, size_t first, size_t n, const uint32_t *blurred)
{
    uint64_t added = 0;

    if (r->kind != VOL_REPAIR) {
        for (size_t i = 0; i < n; i++)
            r->plane[first + i] = r->kind == VOL_HEIGHTS
                                      ? VOL_TOP - (int32_t)blurred[i]
                                      : !vol_is_membrane(blurred[i], r->threshold << VOL_GREY_BITS);
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        const bool was_membrane = is_membrane(r, first + i),
                   is_membrane_now = was_membrane || reaches_threshold(r, blurred[i]);

        r->plane[first + i] = !is_membrane_now;
        added += is_membrane_now && !was_membrane;
    }
    return added;
}

/* Does a part of VOL_BLUR: filters VOL_BLUR_ROWS rows of a slice along x and y. Returns the number
 * of voxels that a repair makes membrane. */
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
        const int64_t row = y - h;

        if (y >= 0 && y < ny)
            blur_x(r, z, (uint32_t)y, line, width, ring + (size_t)(y % taps) * width);
        if (row < y0)
            continue;
        blur_across_lines(r, ring, width, row, ny, out);
        if (filters_z(r))
            memcpy(r->plane + ((size_t)z * ny + row) * nx, out, nx * sizeof *out);
        else
            added += decide_voxels(r, ((size_t)z * ny + row) * nx, nx, out);
    }
    return added;
}

/* Does a part of VOL_BLUR_Z: filters a piece of a row along z, in all slices. As results overwrite
 * the plane, the ring buffer has copies of the 2 radius + 1 lines around the current one. Returns
 * the number of voxels that a repair makes membrane. */
static uint64_t blur_z(const vol_blur *r, size_t part, uint32_t *scratch)
{
    const int64_t nz = r->pixels->nz, h = r->gauss.radius, taps = 2 * h + 1;
    const size_t chunk = chunk_of(r), x0 = part % chunks_of_row(r) * chunk,
                 slice = (size_t)r->pixels->ny * r->pixels->nx;
    const size_t first = part / chunks_of_row(r) * r->pixels->nx + x0;
    const size_t n = r->pixels->nx - x0 < chunk ? r->pixels->nx - x0 : chunk;
    const size_t width = lanes_up(n);
    uint32_t *const ring = scratch, *const out = ring + (size_t)taps * width;
    uint64_t added = 0;

    for (int64_t z = -h; z < nz; z++) {
        if (z + h < nz)
            memcpy(ring + (size_t)((z + h) % taps) * width,
                   r->plane + (size_t)(z + h) * slice + first, n * sizeof *ring);
        if (z < 0)
            continue;
        blur_across_lines(r, ring, width, z, nz, out);
        added += decide_voxels(r, (size_t)z * slice + first, n, out);
    }
    return added;
}

uint64_t vol_blur_part(const vol_blur *r, vol_phase phase, size_t part, uint32_t *scratch)
{
    assert(part < vol_blur_parts(r, phase));
    return phase == VOL_BLUR ? blur_slice(r, part, scratch) : blur_z(r, part, scratch);
}

/* --- voxels that a repair takes from cells ---------------------------------------------------- */

/* Goes from a voxel in a straight line, through voxels that the repair added, to the first voxel
 * that is not membrane. Returns the number of steps, and sets *inside to whether this voxel is in a
 * cell. Returns 0 if the line first meets original membrane, or if it meets no non-membrane voxel
 * within `most` steps. step: the difference between the indices of two successive voxels of the
 * line. to_border: the number of steps from the start to the last voxel before the border. */
static size_t steps_out(const vol_blur *r, size_t voxel, ptrdiff_t step, size_t to_border,
                        size_t most, bool *inside)
{
    for (size_t i = 1; i <= to_border && i <= most; i++) {
        voxel += (size_t)step;
        if (r->plane[voxel] != 0) {
            *inside = r->plane[voxel] > 0;
            return i;
        }
        if (is_membrane(r, voxel))
            return 0;
    }
    return 0;
}

/* Whether the non-membrane voxels that are nearest to (x, y, z) are all in cells. Considered are
 * the voxels that steps_out finds in both directions along each axis; the result is false if it
 * finds none. */
static bool is_taken_from_inside(const vol_blur *r, size_t x, size_t y, size_t z)
{
    const wu_pixels *const px = r->pixels;
    const size_t nx = px->nx, slice = nx * px->ny, voxel = z * slice + y * nx + x;
    const struct {
        ptrdiff_t step;
        size_t left;
    } directions[6] = { { -1, x },
                        { 1, nx - 1 - x },
                        { -(ptrdiff_t)nx, y },
                        { (ptrdiff_t)nx, px->ny - 1 - y },
                        { -(ptrdiff_t)slice, z },
                        { (ptrdiff_t)slice, px->nz - 1 - z } };
    size_t nearest = (size_t)r->gauss.radius + 1;
    bool inside = false;

    for (int i = 0; i < (r->params->is_3d ? 6 : 4); i++) {
        bool in_cell = false;
        const size_t steps =
            steps_out(r, voxel, directions[i].step, directions[i].left, nearest, &in_cell);

        if (steps > 0 && steps < nearest) {
            nearest = steps;
            inside = in_cell;
        } else if (steps == nearest && steps > 0) {
            inside &= in_cell;
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
                taken += is_taken_from_inside(r, x, row % r->pixels->ny, row / r->pixels->ny);
    return taken;
}

/* --- the gaps that a repair closes ----------------------------------------------------------- */

/* Returns the sum of the weights, in units of 2^-AN_GAUSS_BITS, of n adjacent voxels in the
 * filtered value of one of these voxels. before: how many of the n voxels precede this voxel. */
static uint32_t edge_weight(const an_gauss *g, int n, int before)
{
    uint32_t sum = 0;

    for (int i = -before; i < n - before; i++)
        if (i >= -g->radius && i <= g->radius)
            sum += g->weight[i < 0 ? -i : i];
    return sum;
}

/* The filtered value of a voxel in a slit of a flat wall is the product of two sums of weights:
 * wall_weight, of the wall's voxels along the wall's normal; and outside_weight, of the voxels
 * outside the slit, along the direction across the slit. The slit is closed if all its voxels in
 * one layer of the wall become membrane; wall_weight is largest in the middle layer. As each of the
 * filter's three passes may round down by up to 2^-ONE_BITS, 3 is subtracted. */
void vol_repair_gaps(const vol_params *p, int64_t *gaps)
{
    const an_gauss g = an_gauss_make(p->sigma);

    for (int wall = 1; wall <= VOL_MAX_WALL; wall++) {
        const uint64_t wall_weight = edge_weight(&g, wall, wall / 2);
        int gap = 0;

        for (;;) {
            /* Tries a slit that is one voxel wider, at its middle, where the filtered value is
             * smallest. */
            const uint64_t outside_weight =
                ((uint32_t)1 << AN_GAUSS_BITS) - edge_weight(&g, gap + 1, (gap + 1) / 2);
            const uint64_t blurred = wall_weight * outside_weight >> (2 * AN_GAUSS_BITS - ONE_BITS);
            const uint64_t lower_bound = blurred > 3 ? blurred - 3 : 0;

            if (gap > 2 * g.radius || lower_bound * VOL_MEMBRANE_VALUE < (uint64_t)p->threshold
                                                                             << ONE_BITS)
                break;
            gap++;
        }
        gaps[wall - 1] = gap;
    }
}
