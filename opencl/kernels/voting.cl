/* voting on a device: see app/analysis/voting/voting.h. Rows are counted through all
 * slices. A plane may be a part of the item: the first row that it holds is
 * in_first or out_first. GROUP, the size of a work-group, and TILE_ROWS come with
 * the build. */
#include "app/analysis/voting/core.h"

#ifndef GROUP
#define GROUP 64
#endif
#ifndef TILE_ROWS
#define TILE_ROWS 8
#endif
#define SEGMENT (4 * GROUP)     /* pixels along x of a tile */
#ifdef __NV_CL_C_VERSION
#define NO_UNROLL _Pragma("unroll 1")
#else
#define NO_UNROLL
#endif

static inline int clamped(int i, int n)
{
    return clamp(i, 0, n - 1);
}

static inline tc_u32 pixel(__global const uchar *px8, __global const ushort *px16, int wide, size_t i)
{
    return wide ? px16[i] : px8[i];
}

/* --- blur: one slice z, rows first + [0, size of the launch) to out[rows][nx]; three
 * passes. Rows outside the picture are left out by the first and not asked for
 * by the second. --------------------------------------------------------------- */

__kernel void voting_blur_z(__constant voting_shape *s, __global const uchar *px8, __global const ushort *px16,
                            __global tc_u32 *out, int z, int first, tc_u32 in_first)
{
    const int x = (int)get_global_id(0), y = first + (int)get_global_id(1);
    tc_u32 sum = 0;

    if (x >= s->n[2] || y < 0 || y >= s->n[1])
        return;
    for (int i = -s->taps[0]; i <= s->taps[0]; i++) {
        const size_t row = (size_t)clamped(z + i, s->n[0]) * s->n[1] + y - in_first;

        sum += (s->blur[0][abs(i)] << s->shift) * pixel(px8, px16, s->wide, row * s->n[2] + x);
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
    const int nx = s->n[2], ny = s->n[1], nz = s->n[0], z = row / ny, y = row - z * ny;
    const size_t i = (size_t)(row - in_first) * nx + x, plane = (size_t)nx * ny;
    tc_u32 voter = 0;

    if (x >= nx)
        return;
    const tc_i64 gz = s->inverse[0] * ((tc_i64)blurred[z + 1 < nz ? i + plane : i] - (tc_i64)blurred[z > 0 ? i - plane : i]);
    const tc_i64 gy = s->inverse[1] * ((tc_i64)blurred[y + 1 < ny ? i + nx : i] - (tc_i64)blurred[y > 0 ? i - nx : i]);
    const tc_i64 gx = s->inverse[2] * ((tc_i64)blurred[x + 1 < nx ? i + 1 : i] - (tc_i64)blurred[x > 0 ? i - 1 : i]);
    const tc_u64 most = voting_most(gz, gy, gx);
    if (most != 0) {
        const tc_u64 length = voting_length(gz, gy, gx);

        if (length >= s->floor)
            voter = voting_weight(length, s->root) << 16
                  | dir_of_code[voting_code(gz, gy, gx, most, s->side, nz == 1)];
    }
    voters[(size_t)(row - out_first) * nx + x] = voter;
}

/* --- vote: a group sums a tile: a segment of some rows of a slice -------------------------- */

/* Adds the voters of a row, which lies `above` rows before the tile's first, to the
 * tile, which is in layer `layer` of their cones. spans: [n_dirs][layers][2 ry + 1],
 * rows: [n_dirs][layers], the first and last row with a span. */
static inline void add_row(__global const tc_u32 *row, __global const char2 *spans, __global const char2 *rows,
                           int layers, int layer, int ry, int above, int n_rows, int from, int to, int start,
                           volatile __local tc_u32 *sums)
{
    for (int x = from + (int)get_local_id(0); x < to; x += GROUP) {
        const tc_u32 voter = row[x], weight = VOTING_WEIGHT(voter);

        if (weight == 0)
            continue;
        const size_t at = (size_t)VOTING_DIR(voter) * layers + layer;
        const char2 ys = rows[at];
        const int last = min((int)ys.y, n_rows - 1 + above);
        for (int dy = max((int)ys.x, above); dy <= last; dy++) {
            const char2 span = spans[at * (2 * ry + 1) + dy + ry];
            const int lo = x + span.x - start, end = x + span.y + 1 - start;
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
void voting_vote(__constant voting_shape *s, __global const tc_u32 *voters, __global const char2 *spans,
                 __global const char2 *rows, __global tc_u32 *votes, int z_first, int y_first, int y_end,
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
            add_row(voters + ((size_t)(z - dz) * ny + y - in_first) * nx, spans, rows, 2 * rz + 1, dz + rz, ry, y0 - y,
                    n_rows, from, to, start, sums);
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

__kernel void voting_turn(__constant voting_shape *s, __global const tc_u32 *votes, __global const char2 *spans,
                          __global const char2 *rows, __global const ushort *dir_of_offset,
                          __global tc_u32 *voters, tc_u32 first, tc_u32 in_first, tc_u32 out_first)
{
    const int x = (int)get_global_id(0), row = (int)(first + get_global_id(1));
    const int nx = s->n[2], ny = s->n[1], z = row / ny, y = row - z * ny;
    const int rz = s->reach[0], ry = s->reach[1], rx = s->reach[2];
    const size_t i = (size_t)(row - out_first) * nx + x;

    if (x >= nx)
        return;
    const tc_u32 voter = voters[i], dir = VOTING_DIR(voter);
    const int cone_rows = (2 * rz + 1) * (2 * ry + 1);
    tc_u32 best = 0;
    int offset = 0;
    if (VOTING_WEIGHT(voter) == 0)
        return;
    for (int dz = -rz; dz <= rz; dz++) {
        if (z + dz < 0 || z + dz >= s->n[0])
            continue;
        const char2 ys = rows[(size_t)dir * (2 * rz + 1) + dz + rz];
        const int y1 = min((int)ys.y, ny - 1 - y);
        for (int dy = max((int)ys.x, -y); dy <= y1; dy++) {
            const int at = (dz + rz) * (2 * ry + 1) + dy + ry;
            const char2 span = spans[(size_t)dir * cone_rows + at];
            __global const tc_u32 *line = votes + ((size_t)(z + dz) * ny + (y + dy) - in_first) * nx + x;
            const int x1 = min((int)span.y, nx - 1 - x);
            /* Unrolled, this loop finds other votes than there are on NVIDIA's
             * driver 580.159 (H100). Nothing in it is undefined: the PTX that the
             * compiler makes is right, and gives the right votes when the driver
             * translates it without optimising, wrong ones at its levels 1 to 4. */
            NO_UNROLL
            for (int dx = max((int)span.x, -x); dx <= x1; dx++)
                if (line[dx] > best) {
                    best = line[dx];
                    offset = at * (2 * rx + 1) + dx + rx;
                }
        }
    }
    if (best != 0)
        voters[i] = (voter & ~0xffffu) | dir_of_offset[offset];
}
