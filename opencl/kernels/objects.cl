/*
 * The texture of small objects on a device. A work-group takes a matrix: of an object in one direction, or
 * (merged) in all. An object's pixels are runs: z, y, x0, x1 in 16 bits each, from the upper ones down; start[i]
 * is the first run of object i.
 *
 * LEVELS: of grey; GROUP: work-items of a group, LANES of which take a run. Counts of pairs [LEVELS][LEVELS]
 * are in local memory, or, where they are too many, with GLOBAL_COUNTS in global memory.
 */
//! check: -DGROUP=64 -DLANES=16 -DPIXEL=uchar -DLEVELS=32
//! check: -DGROUP=128 -DLANES=32 -DPIXEL=ushort -DLEVELS=256 -DGLOBAL_COUNTS
#ifndef GROUP
#define GROUP 64
#define LANES 16
#define PIXEL uchar
#define LEVELS 32
#endif
#include "app/analysis/objects/core.h"

#ifdef GLOBAL_COUNTS
#define COUNTS __global
#define COUNTS_FENCE CLK_GLOBAL_MEM_FENCE
#else
#define COUNTS __local
#define COUNTS_FENCE CLK_LOCAL_MEM_FENCE
#endif
#define GROUP_ATTRIBUTE __attribute__((reqd_work_group_size(GROUP, 1, 1)))
#define CELLS (LEVELS * LEVELS)
#define WORDS (OBJ_W_MARGINAL + 4 * LEVELS)

#define RUN_Z(r) ((tc_i32)((r) >> 48))
#define RUN_Y(r) ((tc_i32)((r) >> 32 & 0xffff))
#define RUN_X0(r) ((tc_i32)((r) >> 16 & 0xffff))
#define RUN_X1(r) ((tc_i32)((r) & 0xffff))

/* Grey levels of the pixels of object first + its group. ends: lo, hi of each. */
__kernel GROUP_ATTRIBUTE void obj_quantise(__global const PIXEL *grey, __global const tc_u64 *runs,
                                           __global const tc_u32 *start, __global const tc_u32 *ends,
                                           __global tc_u8 *level, tc_u32 nx, tc_u32 ny, tc_u32 first)
{
    const tc_u32 object = get_group_id(0), lane = get_local_id(0) % LANES;
    const tc_u32 lo = ends[2 * object], hi = ends[2 * object + 1], end = start[first + object + 1];

    for (tc_u32 i = start[first + object] + get_local_id(0) / LANES; i < end; i += GROUP / LANES) {
        const tc_u64 r = runs[i];
        const tc_u32 row = ((tc_u32)RUN_Z(r) * ny + (tc_u32)RUN_Y(r)) * nx;

        for (tc_u32 x = RUN_X0(r) + lane; x <= (tc_u32)RUN_X1(r); x += LANES)
            level[row + x] = obj_level(grey[row + x], lo, hi, LEVELS);
    }
}

/* Pairs of an object in one direction, whose step is (dx, dy, dz). */
static void count_pairs(__global const tc_u32 *labels, __global const tc_u8 *level, __global const tc_u64 *runs,
                        tc_u32 begin, tc_u32 end, COUNTS tc_u32 *count, tc_i32 nx, tc_i32 ny, tc_i32 nz, tc_i32 dx,
                        tc_i32 dy, tc_i32 dz)
{
    const tc_i32 lane = get_local_id(0) % LANES;

    for (tc_u32 i = begin + get_local_id(0) / LANES; i < end; i += GROUP / LANES) {
        const tc_u64 r = runs[i];
        const tc_i32 y = RUN_Y(r) + dy, z = RUN_Z(r) + dz, last = min(RUN_X1(r), nx - 1 - dx);
        const tc_u32 row = (RUN_Z(r) * ny + RUN_Y(r)) * nx, there = (z * ny + y) * nx + dx;
        const tc_u32 label = labels[row + RUN_X0(r)];

        if (y < 0 || y >= ny || z >= nz)
            continue;
        for (tc_i32 x = max(RUN_X0(r), -dx) + lane; x <= last; x += LANES)
            if (labels[there + x] == label)
                atomic_inc(&count[obj_cell(level[row + x], level[there + x], LEVELS)]);
    }
}

/* Sums of a work-item, added up over the group. */
typedef struct obj_part {
    tc_u64 squares, low, high;
    tc_u32 pairs, most;
} obj_part;

/* An entry of the matrix, twice off the diagonal: what host code (cooc_add) adds. */
static void add_cell(obj_part *p, tc_u32 a, tc_u32 b, tc_u32 k, __global const tc_u64 *logs)
{
    const tc_u64 entry = a == b ? 2 * k : k, times = a == b ? entry : 2 * entry;
    const tc_u64 low = logs[2 * entry] * times;

    p->pairs += k;
    p->most = max(p->most, (tc_u32)entry);
    p->squares += times * entry;
    p->low += low;
    p->high += tc_mulhi(logs[2 * entry], times) + logs[2 * entry + 1] * times + (p->low < low ? 1 : 0);
}

/* logs: log2 in 2^-80, the low half first. counts: of each group, with GLOBAL_COUNTS. out: [groups][WORDS]. */
__kernel GROUP_ATTRIBUTE void obj_matrices(__global const tc_u32 *labels, __global const tc_u8 *level,
                                           __global const tc_u64 *runs, __global const tc_u32 *start,
                                           __global const tc_u64 *logs, __global tc_u32 *counts,
                                           __global tc_u32 *out, tc_i32 nx, tc_i32 ny, tc_i32 nz, tc_u32 first,
                                           tc_i32 distance, tc_u32 directions, tc_u32 merge)
{
    const tc_u32 item = get_local_id(0), matrices = merge ? 1 : directions;
    const tc_u32 nth = (tc_u32)get_group_id(0) / matrices, object = first + nth;
    __global tc_u32 *const to = out + get_group_id(0) * WORDS;
    __local tc_u32 histogram[4 * LEVELS];
    __local tc_u64 squares[GROUP], low[GROUP], high[GROUP];
    __local tc_u32 pairs[GROUP], most[GROUP];
    obj_part p = { 0, 0, 0, 0, 0 };
#ifdef GLOBAL_COUNTS
    __global tc_u32 *const count = counts + get_group_id(0) * CELLS;
#else
    __local tc_u32 count[CELLS];
#endif

    for (tc_u32 i = item; i < CELLS; i += GROUP)
        count[i] = 0;
    for (tc_u32 i = item; i < 4 * LEVELS; i += GROUP)
        histogram[i] = 0;
    barrier(CLK_LOCAL_MEM_FENCE | COUNTS_FENCE);
    for (tc_u32 d = merge ? 0 : (tc_u32)get_group_id(0) - nth * matrices, n = merge ? directions : 1; n > 0; d++, n--)
        count_pairs(labels, level, runs, start[object], start[object + 1], count, nx, ny, nz,
                    obj_directions[d][0] * distance, obj_directions[d][1] * distance, obj_directions[d][2] * distance);
    barrier(CLK_LOCAL_MEM_FENCE | COUNTS_FENCE);
    for (tc_u32 i = item; i < CELLS; i += GROUP) {
        const tc_u32 k = count[i], a = i / LEVELS, b = i - a * LEVELS;

        if (k == 0)
            continue;
        add_cell(&p, a, b, k, logs);
        atomic_add(&histogram[a], k);
        atomic_add(&histogram[b], k);
        atomic_add(&histogram[LEVELS + a + b], k);
        atomic_add(&histogram[3 * LEVELS + b - a], k);
    }
    squares[item] = p.squares;
    low[item] = p.low;
    high[item] = p.high;
    pairs[item] = p.pairs;
    most[item] = p.most;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (tc_u32 other = GROUP / 2; other > 0; other /= 2) {
        if (item < other) {
            const tc_u64 sum = low[item] + low[item + other];

            high[item] += high[item + other] + (sum < low[item] ? 1 : 0);
            low[item] = sum;
            squares[item] += squares[item + other];
            pairs[item] += pairs[item + other];
            most[item] = max(most[item], most[item + other]);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (tc_u32 i = item; i < 4 * LEVELS; i += GROUP)
        to[OBJ_W_MARGINAL + i] = histogram[i];
    if (item == 0) {
        to[OBJ_W_PAIRS] = pairs[0];
        to[OBJ_W_MOST] = most[0];
        to[OBJ_W_SQUARES] = (tc_u32)squares[0];
        to[OBJ_W_SQUARES + 1] = (tc_u32)(squares[0] >> 32);
        to[OBJ_W_K_LOG_K] = (tc_u32)low[0];
        to[OBJ_W_K_LOG_K + 1] = (tc_u32)(low[0] >> 32);
        to[OBJ_W_K_LOG_K + 2] = (tc_u32)high[0];
        to[OBJ_W_K_LOG_K + 3] = (tc_u32)(high[0] >> 32);
    }
}
