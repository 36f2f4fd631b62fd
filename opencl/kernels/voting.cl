/* voting on a device: see app/analysis/voting/voting.h. Rows are counted through all
 * slices. A plane may be a part of the item: the first row that it holds is
 * in_first or out_first. GROUP, the size of a work-group, and PIXEL, the type of a
 * pixel, come with the build. */
//! check: -DPIXEL=ushort -DGROUP=128
#include "app/analysis/voting/core.h"

#ifndef GROUP
#define GROUP 64
#endif
#ifndef PIXEL
#define PIXEL uchar
#endif
#define SEGMENT (4 * GROUP)     /* pixels along x of a tile */
#define TILE_ROWS VOTING_TILE_ROWS

static inline int clamped(int i, int n)
{
    return clamp(i, 0, n - 1);
}

/* --- blur: one slice z, rows first + [0, size of the launch) to out[rows][nx]; three
 * passes. Rows outside the picture are left out by the first and not asked for
 * by the second. --------------------------------------------------------------- */

__kernel void voting_blur_z(__constant voting_shape *s, __global const PIXEL *pixels, __global tc_u32 *out, int z,
                            int first, tc_u32 in_first)
{
    const int x = (int)get_global_id(0), y = first + (int)get_global_id(1);
    tc_u32 sum = 0;

    if (x >= s->n[2] || y < 0 || y >= s->n[1])
        return;
    for (int i = -s->taps[0]; i <= s->taps[0]; i++) {
        const size_t row = (size_t)clamped(z + i, s->n[0]) * s->n[1] + y - in_first;

        sum += (s->blur[0][abs(i)] << s->shift) * pixels[row * s->n[2] + x];
    }
    out[get_global_id(1) * s->n[2] + x] = VOTING_ROUND_FIRST(sum);
}

/* in: rows from first - half on. */
__kernel void voting_blur_y(__constant voting_shape *s, __global const tc_u32 *in, __global tc_u32 *out, int first)
{
    const int x = (int)get_global_id(0), y = first + (int)get_global_id(1), h = s->taps[1];
    tc_u32 sum = 0;

    if (x >= s->n[2])
        return;
    for (int i = -h; i <= h; i++)
        sum += s->blur[1][abs(i)] * in[(size_t)(clamped(y + i, s->n[1]) - first + h) * s->n[2] + x];
    out[get_global_id(1) * s->n[2] + x] = VOTING_ROUND_NEXT(sum);
}

/* out: a plane; row: where in it the first row goes. */
__kernel void voting_blur_x(__constant voting_shape *s, __global const tc_u32 *in, __global tc_u32 *out, tc_u32 row)
{
    const int x = (int)get_global_id(0), h = s->taps[2];
    const size_t from = get_global_id(1) * s->n[2];
    tc_u32 sum = 0;

    if (x >= s->n[2])
        return;
    for (int i = -h; i <= h; i++)
        sum += s->blur[2][abs(i)] * in[from + clamped(x + i, s->n[2])];
    out[(size_t)row * s->n[2] + from + x] = VOTING_ROUND_NEXT(sum);
}

/* --- voters ------------------------------------------------------------------------- */

__kernel void voting_voters(__constant voting_shape *s, __global const tc_u32 *blurred,
                            __global const ushort *dir_of_code, __global tc_u32 *voters, tc_u32 first,
                            tc_u32 in_first, tc_u32 out_first)
{
    const int x = (int)get_global_id(0), row = (int)(first + get_global_id(1));
    const int nx = s->n[2], ny = s->n[1], z = row / ny, y = row - z * ny;
    tc_i64 g[3];

    if (x >= nx)
        return;
    voting_gradient(s, blurred + (size_t)(row - in_first) * nx + x, z, y, x, g);
    voters[(size_t)(row - out_first) * nx + x] = voting_voter(s, g, dir_of_code);
}

/* --- vote: a group sums a tile: a segment of some rows of a slice -------------------------- */

/* Adds the voters of a row, which lies `above` rows before the tile's first, to the
 * tile, which is dz slices further. */
static inline void add_row(__global const tc_u32 *row, __global const voting_span *spans,
                           __global const voting_span *rows, int dz, int rz, int ry, int above, int n_rows, int from,
                           int to, int start, volatile __local tc_u32 *sums)
{
    for (int x = from + (int)get_local_id(0); x < to; x += GROUP) {
        const tc_u32 voter = row[x], weight = VOTING_WEIGHT(voter);

        if (weight == 0)
            continue;
        const size_t layer = voting_layer_at(VOTING_DIR(voter), dz, rz);
        const voting_span ys = rows[layer];
        const int last = min((int)ys.y, n_rows - 1 + above);
        for (int dy = max((int)ys.x, above); dy <= last; dy++) {
            const voting_span span = spans[layer * (2 * ry + 1) + dy + ry];
            const int lo = x + VOTING_LO(span) - start, end = x + VOTING_HI(span) + 1 - start;
            volatile __local tc_u32 *line = sums + (dy - above) * SEGMENT;

            if (span.x > span.y || end <= 0 || lo >= SEGMENT)
                continue;
            atomic_add(&line[max(lo, 0)], weight);
            if (end < SEGMENT)
                atomic_sub(&line[end], weight);
        }
    }
}

/* Differences to sums: four by each work-item, then over the work-items. What is
 * before a work-item's four is left to be added: parts of the one before it. */
static inline void to_sums(int me, __local tc_u32 *sums, __local tc_u32 *parts)
{
    for (int r = 0; r < TILE_ROWS; r++) {
        tc_u32 sum = 0;
        for (int i = 0; i < 4; i++)
            sums[r * SEGMENT + 4 * me + i] = sum += sums[r * SEGMENT + 4 * me + i];
        parts[r * GROUP + me] = sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int step = 1; step < GROUP; step *= 2) {
        tc_u32 before[TILE_ROWS];

        for (int r = 0; r < TILE_ROWS; r++)
            before[r] = me >= step ? parts[r * GROUP + me - step] : 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int r = 0; r < TILE_ROWS; r++)
            parts[r * GROUP + me] += before[r];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

/* Rows [y_first, y_end) of the slices from z_first on, as many as the launch is deep. */
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void voting_vote(__constant voting_shape *s, __global const tc_u32 *voters, __global const voting_span *spans,
                 __global const voting_span *rows, __global tc_u32 *votes, int z_first, int y_first, int y_end,
                 tc_u32 in_first, tc_u32 out_first)
{
    __local tc_u32 sums[TILE_ROWS * SEGMENT];
    __local tc_u32 parts[TILE_ROWS * GROUP];
    const int me = (int)get_local_id(0), start = (int)get_group_id(0) * SEGMENT;
    const int z = z_first + (int)get_group_id(2), y0 = y_first + (int)get_group_id(1) * TILE_ROWS;
    const int n_rows = min(TILE_ROWS, y_end - y0);
    const int rz = s->reach[0], ry = s->reach[1], rx = s->reach[2], ny = s->n[1], nx = s->n[2];
    const int from = max(start - rx, 0), to = min(start + SEGMENT + rx, nx);
    const int top = max(y0 - ry, 0), bottom = min(y0 + n_rows + ry, ny);

    for (int i = me; i < TILE_ROWS * SEGMENT; i += GROUP)
        sums[i] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int dz = -rz; dz <= rz; dz++) {
        if (z - dz < 0 || z - dz >= s->n[0])
            continue;
        for (int y = top; y < bottom; y++)
            add_row(voters + ((size_t)(z - dz) * ny + y - in_first) * nx, spans, rows, dz, rz, ry, y0 - y, n_rows, from,
                    to, start, sums);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    to_sums(me, sums, parts);
    for (int r = 0; r < n_rows; r++) {
        const size_t row = (size_t)z * ny + y0 + r - out_first;

        for (int i = me; i < SEGMENT && start + i < nx; i += GROUP)
            votes[row * nx + start + i] = sums[r * SEGMENT + i] + (i >= 4 ? parts[r * GROUP + i / 4 - 1] : 0);
    }
}

/* --- turn: a work-item for each pixel ------------------------------------------------------- */

__kernel void voting_turn(__constant voting_shape *s, __global const tc_u32 *votes, __global const voting_span *spans,
                          __global const voting_span *rows, __global const ushort *dir_of_offset,
                          __global tc_u32 *voters, tc_u32 first, tc_u32 in_first, tc_u32 out_first)
{
    const int x = (int)get_global_id(0), row = (int)(first + get_global_id(1));
    const int nx = s->n[2], ny = s->n[1], z = row / ny, y = row - z * ny;
    const size_t i = (size_t)(row - out_first) * nx + x;

    if (x >= nx || VOTING_WEIGHT(voters[i]) == 0)
        return;
    voters[i] = voting_turned(s, voters[i], z, y, x, votes + (size_t)(row - in_first) * nx + x, spans, rows,
                              dir_of_offset);
}
