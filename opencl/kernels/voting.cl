/* The OpenCL kernels of voting; app/analysis/voting/voting.h describes the method. Planes are
 * [nz][ny][nx]; rows are numbered through all slices. A buffer may hold only some rows of a plane.
 * The argument in_first is the number of the first row in the buffer that a kernel reads, and
 * out_first the number of the first row in the buffer that it writes. In all kernels but
 * voting_vote and voting_lines_around a work-item computes one pixel.
 *
 * A voter (voting_voter) is a pixel's weight and the number of its direction in 32 bits. A cone is
 * the set of pixels for which a voter votes. In each row of pixels a cone is an interval, the span
 * (voting_span), whose ends are relative to the voter.
 *
 * Macros: GROUP, the size of a work-group that votes; PIXEL, the type of a pixel; TILE_ROWS, see
 * below. */
//! check: -DPIXEL=ushort -DGROUP=128 -DTILE_ROWS=16
#include "app/analysis/voting/core.h"

#ifndef GROUP
#define GROUP 64
#endif
#ifndef PIXEL
#define PIXEL uchar
#endif
#ifndef TILE_ROWS
#define TILE_ROWS 8 /* rows of a tile, whose votes a work-group sums; divides GROUP */
#endif
#define SEGMENT 256 /* pixels of a tile along x */
#define TILE_STRIDE \
    (SEGMENT + 1)  /* words from a row of a tile to the next; odd, so that all banks are used */
#define READERS 32 /* work-items that read voters side by side along x */

/* Returns i, the index of a pixel along an axis of n pixels, or the nearest index within the
 * picture. */
static inline int clamped(int i, int n)
{
    return TC_CLAMP(i, 0, n - 1);
}

/* --- blur ------------------------------------------------------------------------------------ */

/* Three passes blur the rows from `first` on of the slices from z on; the launch's size along y and
 * z is the number of rows and of slices. The intermediate results are [slices][rows][nx]. */

/* The index of this work-item's row among the rows of the launch. */
static inline size_t launch_row(void)
{
    return get_global_id(2) * get_global_size(1) + get_global_id(1);
}

/* The pass along z. The launch also includes the taps[1] rows before and after that the pass along
 * y reads. Rows outside the picture are not written, and voting_blur_y does not read them. */
__kernel void voting_blur_z(__constant voting_shape *s, __global const PIXEL *pixels,
                            __global tc_u32 *out, int z, int first, tc_u32 in_first)
{
    const int x = (int)get_global_id(0), y = first + (int)get_global_id(1);
    tc_u32 sum = 0;

    z += (int)get_global_id(2);
    if (x >= s->n[2] || y < 0 || y >= s->n[1])
        return;
    for (int i = -s->taps[0]; i <= s->taps[0]; i++) {
        const size_t row = (size_t)clamped(z + i, s->n[0]) * s->n[1] + y - in_first;

        sum += (s->blur[0][TC_MAX(i, -i)] << s->shift) * pixels[row * s->n[2] + x];
    }
    out[launch_row() * s->n[2] + x] = VOTING_ROUND_FIRST(sum);
}

/* The pass along y. in: the launch's rows of each slice, with taps[1] rows on either side. */
__kernel void voting_blur_y(__constant voting_shape *s, __global const tc_u32 *in,
                            __global tc_u32 *out, int first)
{
    const int x = (int)get_global_id(0), y = first + (int)get_global_id(1), h = s->taps[1];
    __global const tc_u32 *const slice =
        in + get_global_id(2) * (get_global_size(1) + 2 * h) * s->n[2];
    tc_u32 sum = 0;

    if (x >= s->n[2])
        return;
    for (int i = -h; i <= h; i++)
        sum += s->blur[1][TC_MAX(i, -i)] *
               slice[(size_t)(clamped(y + i, s->n[1]) - first + h) * s->n[2] + x];
    out[launch_row() * s->n[2] + x] = VOTING_ROUND_NEXT(sum);
}

/* The pass along x. out: a plane, or some rows of one. row: the row of `out` to which the launch's
 * first row is written. */
__kernel void voting_blur_x(__constant voting_shape *s, __global const tc_u32 *in,
                            __global tc_u32 *out, tc_u32 row)
{
    const int x = (int)get_global_id(0), h = s->taps[2];
    const size_t from = launch_row() * s->n[2];
    tc_u32 sum = 0;

    if (x >= s->n[2])
        return;
    for (int i = -h; i <= h; i++)
        sum += s->blur[2][TC_MAX(i, -i)] * in[from + clamped(x + i, s->n[2])];
    out[(size_t)row * s->n[2] + from + x] = VOTING_ROUND_NEXT(sum);
}

/* --- voters ---------------------------------------------------------------------------------- */

/* Computes the voters of the rows from `first` on from the blurred picture: each pixel's direction
 * and weight. */
__kernel void voting_voters(__constant voting_shape *s, __global const tc_u32 *blurred,
                            __global const ushort *dir_of_code, __global tc_u32 *voters,
                            tc_u32 first, tc_u32 in_first, tc_u32 out_first)
{
    const int x = (int)get_global_id(0), row = (int)(first + get_global_id(1));
    const int nx = s->n[2], ny = s->n[1], z = row / ny, y = row - z * ny;
    tc_i64 g[3];

    if (x >= nx)
        return;
    voting_gradient(s, blurred + (size_t)(row - in_first) * nx + x, z, y, x, g);
    voters[(size_t)(row - out_first) * nx + x] = voting_voter(s, g, dir_of_code);
}

/* --- vote ------------------------------------------------------------------------------------ */

/* A work-group adds up the votes of a tile, which is SEGMENT pixels of TILE_ROWS rows of a slice. A
 * voter adds its weight to all pixels of its spans. For each span, the weight is added at the first
 * pixel and subtracted after the last one; the running sums of these differences along a row are
 * the votes. */

/* Adds a span of votes to a row of the tile. x: the voter's position, relative to the tile. */
static inline void add_span(volatile __local tc_u32 *line, tc_u32 weight, int x, voting_span span)
{
    const int lo = x + VOTING_LO(span), end = x + VOTING_HI(span) + 1;

    if (lo >= end || end <= 0 || lo >= SEGMENT)
        return;
    atomic_add(&line[TC_MAX(lo, 0)], weight);
    if (end < SEGMENT)
        atomic_sub(&line[end], weight);
}

/* Adds the votes of every READERS-th voter in columns [from, to) of a row of voters to the tile
 * (sums). The row of voters is rows_above rows before the tile's first row, and dz slices before
 * the tile's slice. row: the voters. rows: for each direction, the first and last row, relative to
 * the voter, that the cone has in slice dz. n_rows: rows of the tile. start: the column of the
 * tile's first pixel. */
static inline void add_row(__constant voting_shape *s, __global const tc_u32 *row,
                           __global const voting_span *spans, __global const voting_span *rows,
                           int dz, int rows_above, int n_rows, int from, int to, int start,
                           volatile __local tc_u32 *sums)
{
    const int ry = s->reach[1];

    tc_u32 next = from < to ? row[from] : 0; /* read one iteration ahead */

    for (int x = from; x < to; x += READERS) {
        const tc_u32 voter = next, weight = VOTING_WEIGHT(voter);

        next = x + READERS < to ? row[x + READERS] : 0;
        if (weight == 0)
            continue;
        const voting_span ys = rows[VOTING_DIR(voter)];
        const int first = TC_MAX((int)ys.x, rows_above),
                  last = TC_MIN((int)ys.y, n_rows - 1 + rows_above);
        if (first > last)
            continue;
        __global const voting_span *const layer = spans + voting_spans_at(s, VOTING_DIR(voter), dz);
        volatile __local tc_u32 *line = sums - rows_above * TILE_STRIDE;

        /* Reads the spans of four rows at a time, from a multiple of four on. */
        for (int i = (first + ry) & ~3; i <= last + ry; i += 4) {
            const char8 four = *(__global const char8 *)(layer + i);
            const int dy = i - ry;

            if (dy >= first)
                add_span(line + dy * TILE_STRIDE, weight, x - start, four.s01);
            if (dy + 1 >= first && dy + 1 <= last)
                add_span(line + (dy + 1) * TILE_STRIDE, weight, x - start, four.s23);
            if (dy + 2 >= first && dy + 2 <= last)
                add_span(line + (dy + 2) * TILE_STRIDE, weight, x - start, four.s45);
            if (dy + 3 <= last)
                add_span(line + (dy + 3) * TILE_STRIDE, weight, x - start, four.s67);
        }
    }
}

/* Replaces the differences in the tile by their running sums along each row. A work-item sums up a
 * part of a row, then adds the sum of the parts before it. Adjacent work-items process different
 * rows, which lie in different banks of local memory. parts: [GROUP]: local memory. */
static inline void sum_rows(uint local_id, __local tc_u32 *sums, __local tc_u32 *parts)
{
    const int length = SEGMENT / (GROUP / TILE_ROWS), row = (int)(local_id % TILE_ROWS),
              part = (int)(local_id / TILE_ROWS);
    __local tc_u32 *const my_sums = sums + row * TILE_STRIDE + part * length;
    tc_u32 sum = 0;

    for (int i = 0; i < length; i++)
        sum += my_sums[i];
    parts[local_id] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    sum = 0;
    for (int i = row; i < (int)local_id; i += TILE_ROWS)
        sum += parts[i];
    for (int i = 0; i < length; i++)
        my_sums[i] = sum += my_sums[i];
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* Computes the votes of rows [y_first, y_end) of the slices from z_first on. Global size: x: GROUP
 * work-items for each SEGMENT of a row; y: tiles of TILE_ROWS rows; z: slices. Together, the
 * work-items of a work-group add the votes of all voters that reach the tile. */
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void voting_vote(
    __constant voting_shape *s, __global const tc_u32 *voters, __global const voting_span *spans,
    __global const voting_span *rows, __global tc_u32 *votes, int z_first, int y_first, int y_end,
    tc_u32 in_first, tc_u32 out_first)
{
    __local tc_u32 sums[TILE_ROWS * TILE_STRIDE];
    __local tc_u32 parts[GROUP];
    const uint local_id = (uint)get_local_id(0); /* unsigned, so that divisions become shifts */
    const int start = (int)get_group_id(0) * SEGMENT;
    const int z = z_first + (int)get_group_id(2), y0 = y_first + (int)get_group_id(1) * TILE_ROWS;
    const int n_rows = TC_MIN(TILE_ROWS, y_end - y0);
    const int rz = s->reach[0], ry = s->reach[1], rx = s->reach[2], ny = s->n[1], nx = s->n[2];
    const int from = TC_MAX(start - rx, 0), to = TC_MIN(start + SEGMENT + rx, nx);
    const int top = TC_MAX(y0 - ry, 0), bottom = TC_MIN(y0 + n_rows + ry, ny);

    for (uint i = local_id; i < TILE_ROWS * TILE_STRIDE; i += GROUP)
        sums[i] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int dz = -rz; dz <= rz; dz++) {
        if (z - dz < 0 || z - dz >= s->n[0])
            continue;
        for (int y = top + (int)(local_id / READERS); y < bottom; y += GROUP / READERS)
            add_row(s, voters + ((size_t)(z - dz) * ny + y - in_first) * nx, spans,
                    rows + voting_rows_at(s, 0, dz), dz, y0 - y, n_rows,
                    from + (int)(local_id % READERS), to, start, sums);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    sum_rows(local_id, sums, parts);
    for (int r = 0; r < n_rows; r++) {
        const size_t row = (size_t)z * ny + y0 + r - out_first;

        for (int i = (int)local_id; i < SEGMENT && start + i < nx; i += GROUP)
            votes[row * nx + start + i] = sums[r * TILE_STRIDE + i];
    }
}

/* --- turn ------------------------------------------------------------------------------------ */

/* Turns the voters of rows [first, end): gives each voter a new direction, towards the pixel with
 * the most votes within its cone. */
__kernel void voting_turn(__constant voting_shape *s, __global const tc_u32 *votes,
                          __global const voting_span *spans, __global const voting_span *rows,
                          __global const ushort *dir_of_offset, __global tc_u32 *voters,
                          tc_u32 first, tc_u32 end, tc_u32 in_first, tc_u32 out_first)
{
    const int x = (int)get_global_id(0), row = (int)(first + get_global_id(1));
    const int nx = s->n[2], ny = s->n[1], z = row / ny, y = row - z * ny;
    const size_t i = (size_t)(row - out_first) * nx + x;

    if (x >= nx || row >= (int)end || VOTING_WEIGHT(voters[i]) == 0)
        return;
    voters[i] = voting_turned(s, voters[i], z, y, x, votes + (size_t)(row - in_first) * nx + x,
                              spans, rows, dir_of_offset);
}

/* --- peaks, of a whole item ------------------------------------------------------------------ */

/* Whether pixel i, at (z, y, x), is a peak: no neighbour has more votes, and none with the same
 * number comes before it in raster order. */
static inline bool is_peak(__constant voting_shape *s, __global const tc_u32 *votes, size_t i,
                           int z, int y, int x)
{
    const int z1 = TC_MIN(z + 1, s->n[0] - 1), y1 = TC_MIN(y + 1, s->n[1] - 1),
              x1 = TC_MIN(x + 1, s->n[2] - 1);
    const tc_u32 n_votes = votes[i];

    VOTING_NO_UNROLL
    for (int nz = TC_MAX(z - 1, 0); nz <= z1; nz++)
        VOTING_NO_UNROLL
    for (int ny = TC_MAX(y - 1, 0); ny <= y1; ny++)
        VOTING_NO_UNROLL
    for (int nx = TC_MAX(x - 1, 0); nx <= x1; nx++) {
        const size_t j = ((size_t)nz * s->n[1] + ny) * s->n[2] + nx;

        if (votes[j] > n_votes || (j < i && votes[j] == n_votes))
            return false;
    }
    return true;
}

/* Lists the peaks in the rows from `first` on: list[room][4] gets the votes, z, y and x of each.
 * Adds the number of peaks to *count; peaks beyond `room` are counted, but not listed. */
__kernel void voting_peaks(__constant voting_shape *s, __global const tc_u32 *votes,
                           __global tc_u32 *list, volatile __global tc_u32 *count, tc_u32 first,
                           tc_u32 room)
{
    const int x = (int)get_global_id(0), row = (int)(first + get_global_id(1));
    const int nx = s->n[2], ny = s->n[1], z = row / ny, y = row - z * ny;
    const size_t i = (size_t)row * nx + x;

    if (x >= nx || votes[i] == 0 || (x > 0 && votes[i - 1] >= votes[i]) ||
        (x + 1 < nx && votes[i + 1] > votes[i]))
        return;
    if (is_peak(s, votes, i, z, y, x)) {
        const tc_u32 slot = atomic_inc(count);

        if (slot < room) {
            list[4 * slot] = votes[i];
            list[4 * slot + 1] = (tc_u32)z;
            list[4 * slot + 2] = (tc_u32)y;
            list[4 * slot + 3] = (tc_u32)x;
        }
    }
}

/* Computes the sums (voting_lines) of the gradients within 5/4 of the radius around each peak of
 * `peaks`, a list that voting_peaks has made, from peak number `first` on. A work-group computes
 * the sums of a peak; its work-items share the pixels. sums: [peaks][VOTING_LINE_SUMS]. scale_z,
 * scale_y, scale_x: spacings in units of 1/64 of the smallest spacing; radius64: the radius in the
 * same unit. */
__kernel __attribute__((reqd_work_group_size(VOTING_LINE_GROUP, 1, 1))) void voting_lines_around(
    __constant voting_shape *s, __global const tc_u32 *blurred, __global const tc_u32 *peaks,
    __global long *sums, tc_u32 first, int scale_z, int scale_y, int scale_x, long radius64)
{
    __local long part[VOTING_LINE_SUMS * VOTING_LINE_GROUP];
    const int scale[3] = { scale_z, scale_y, scale_x };
    const uint local_id = (uint)get_local_id(0);
    const size_t peak_number = first + get_group_id(0);
    const int peak[3] = { (int)peaks[4 * peak_number + 1], (int)peaks[4 * peak_number + 2],
                          (int)peaks[4 * peak_number + 3] };
    voting_lines l = { { { 0 } }, { 0 } };
    int from[3], to[3];

    for (int a = 0; a < 3; a++) {
        const int reach = s->n[a] > 1 ? (int)(5 * radius64 / (4 * scale[a])) : 0;

        from[a] = TC_MAX(peak[a] - reach, 0);
        to[a] = TC_MIN(peak[a] + reach, s->n[a] - 1);
    }
    VOTING_NO_UNROLL
    for (int z = from[0]; z <= to[0]; z++)
        VOTING_NO_UNROLL
    for (int y = from[1]; y <= to[1]; y++)
        VOTING_NO_UNROLL
    for (int x = from[2] + (int)local_id; x <= to[2]; x += VOTING_LINE_GROUP) {
        const tc_i64 d[3] = { 4 * (tc_i64)(z - peak[0]) * scale[0],
                              4 * (tc_i64)(y - peak[1]) * scale[1],
                              4 * (tc_i64)(x - peak[2]) * scale[2] };
        tc_i64 g[3];

        /* d is four times the distance from the peak, so 5 radius64 is 5/4 of the radius. */
        if (d[0] * d[0] + d[1] * d[1] + d[2] * d[2] > 25 * radius64 * radius64)
            continue;
        voting_gradient(s, blurred + ((size_t)z * s->n[1] + y) * s->n[2] + x, z, y, x, g);
        voting_add_line(s, d, g, &l);
    }
    const long my_sums[VOTING_LINE_SUMS] = { l.m[0][0], l.m[1][0], l.m[1][1], l.m[2][0], l.m[2][1],
                                             l.m[2][2], l.v[0],    l.v[1],    l.v[2] };
    for (int k = 0; k < VOTING_LINE_SUMS; k++)
        part[k * VOTING_LINE_GROUP + local_id] = my_sums[k];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint k = local_id; k < VOTING_LINE_SUMS; k += VOTING_LINE_GROUP) {
        long sum = 0;

        for (uint i = 0; i < VOTING_LINE_GROUP; i++)
            sum += part[k * VOTING_LINE_GROUP + i];
        sums[peak_number * VOTING_LINE_SUMS + k] = sum;
    }
}
