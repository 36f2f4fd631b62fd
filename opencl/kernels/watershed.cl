/*
 * The device's part of volume's watershed, for a stack or a slab of one: voxels are numbered in the
 * raster's order, fewer than 2^30. A launch has voxels [first, end), or entries of a list.
 *
 *   height[i]  VOL_TOP less the blurred grey value
 *   up[i]      where voxel i leads (app/analysis/common/watershed_core.h), counted through the
 *              whole stack; at a maximum then ~number, in the end the maximum of the cell
 *   top[i]     the maximum that it leads to; before that a list of voxels of plateaus, then a
 *              union-find of those whose plateau is a maximum
 *
 * What is listed is listed in any order, and what becomes of it does not depend on that. While
 * links, ways of plateaus, slots and counts are changed they are touched by atomic functions only.
 *
 * GROUP is the size of a work-group; PIXEL the type of a grey value, SUM one that holds its sums.
 */
//! check: -DGROUP=64 -DPIXEL=uchar -DSUM=uint
//! check: -DGROUP=256 -DPIXEL=ushort -DSUM=ulong
#ifndef GROUP
#define GROUP 256
#endif
#ifndef PIXEL
#define PIXEL uchar
#define SUM uint
#endif
#include "app/analysis/common/core.h"
#include "app/analysis/common/watershed_core.h"
#include "app/analysis/volume/core.h"
#include "app/analysis/volume/layout.h"
#include "opencl/kernels/blur.h"
#include "opencl/kernels/union_find.h"

#define GROUP_ATTRIBUTE __attribute__((reqd_work_group_size(GROUP, 1, 1)))
#include "opencl/kernels/volume_table.h"
#define AT (first + (uint)get_global_id(0))

/* --- blur ------------------------------------------------------------------------------------ */

__kernel GROUP_ATTRIBUTE void ws_blur_x(__global const PIXEL *pixels, __constant uint *weight,
                                        int radius, __global uint *out, int nx, uint first,
                                        uint end)
{
    const uint i = AT;

    if (i < end)
        out[i] = rounded(blurred_pixels(pixels, weight, radius, (int)i, (int)(i % (uint)nx), nx, 1),
                         VOL_WEIGHT_BITS - VOL_GREY_BITS);
}

/* top: what the last blurred value is taken from, which is a height then; else 0. */
static uint height_of(uint value, uint top)
{
    return top != 0 ? top - value : value;
}

__kernel GROUP_ATTRIBUTE void ws_blur_y(__global const uint *in, __constant uint *weight,
                                        int radius, __global uint *out, int nx, int ny, uint top,
                                        uint first, uint end)
{
    const uint i = AT;

    if (i < end)
        out[i] =
            height_of(rounded(blurred(in, weight, radius, (int)i, (int)(i / (uint)nx) % ny, ny, nx),
                              VOL_WEIGHT_BITS),
                      top);
}

/* The slab begins with slice z0, of nz of the stack. */
__kernel GROUP_ATTRIBUTE void ws_blur_z(__global const uint *in, __constant uint *weight,
                                        int radius, __global uint *out, int slice, int z0, int nz,
                                        uint top, uint first, uint end)
{
    const uint i = AT;

    if (i < end)
        out[i] = height_of(
            rounded(blurred(in, weight, radius, (int)i, (int)(i / (uint)slice) + z0, nz, slice),
                    VOL_WEIGHT_BITS),
            top);
}

/* --- uphill ---------------------------------------------------------------------------------- */

/* base: the index of the slab's first voxel in the stack. */
__kernel GROUP_ATTRIBUTE void ws_ways(__global const uint *height, __global int *up, int nx, int ny,
                                      int nz, int corners, int depth, int base, uint first,
                                      uint end)
{
    const ws_shape s = { nx, ny, nz, corners, depth };
    const uint i = AT;

    if (i >= end)
        return;
    const int row = (int)(i / (uint)nx), x = (int)i - row * nx, z = row / ny;
    const int to = ws_highest(height, &s, x, row - z * ny, z, 1);

    up[i] = to == (int)i ? WS_UNKNOWN : to + base;
}

/* For each step (dx, dy, dz) from voxel i of the shape s to a voxel `there`: BODY. */
#define FOR_NEIGHBOURS(i, s, BODY)                                                             \
    do {                                                                                       \
        const int row_ = (int)(i) / (s).nx, x_ = (int)(i) - row_ * (s).nx, z_ = row_ / (s).ny; \
        const int y_ = row_ - z_ * (s).ny;                                                     \
                                                                                               \
        for (int dz = -(s).depth; dz <= (s).depth; dz++)                                       \
            for (int dy = -1; dy <= 1; dy++)                                                   \
                for (int dx = -1; dx <= 1; dx++) {                                             \
                    const int there = (int)(i) + (dz * (s).ny + dy) * (s).nx + dx;             \
                                                                                               \
                    if (!ws_is_step(dx, dy, dz, (s).corners) ||                                \
                        !ws_is_within(&(s), x_ + dx, y_ + dy, z_ + dz))                        \
                        continue;                                                              \
                    BODY                                                                       \
                }                                                                              \
    } while (0)

/* Voxels of plateaus next to one whose way is known are listed: list[0..*count). */
__kernel GROUP_ATTRIBUTE void ws_edges(__global const uint *height, volatile __global int *up,
                                       __global int *list, volatile __global int *count, int nx,
                                       int ny, int nz, int corners, int depth, uint first, uint end)
{
    const ws_shape s = { nx, ny, nz, corners, depth };
    const uint i = AT;
    int best = WS_UNKNOWN;

    if (i >= end || atomic_or(&up[i], 0) != WS_UNKNOWN)
        return;
    FOR_NEIGHBOURS(i, s, {
        if (height[there] == height[i] && atomic_or(&up[there], 0) >= 0)
            best = TC_MAX(best, WS_PENDING(there));
    });
    if (best == WS_UNKNOWN)
        return;
    atomic_xchg(&up[i], best);
    list[atomic_inc(count)] = (int)i;
}

/* What is listed is pending no more. */
__kernel GROUP_ATTRIBUTE void ws_settle(__global int *up, __global const int *list, uint first,
                                        uint end)
{
    if (AT < end)
        up[list[AT]] = WS_PENDING(up[list[AT]]);
}

/* A step further in: from those that are listed to their neighbours, which are listed behind
 * them. */
__kernel GROUP_ATTRIBUTE void ws_step_in(__global const uint *height, volatile __global int *up,
                                         __global int *list, volatile __global int *count, int nx,
                                         int ny, int nz, int corners, int depth, uint first,
                                         uint end)
{
    const ws_shape s = { nx, ny, nz, corners, depth };

    if (AT >= end)
        return;
    const int i = list[AT];

    FOR_NEIGHBOURS(i, s, {
        if (height[there] == height[i] && atomic_max(&up[there], WS_PENDING(i)) == WS_UNKNOWN)
            list[atomic_inc(count)] = there;
    });
}

/* What has no way is of a plateau that is a maximum: a tree, -1 for all others. */
__kernel GROUP_ATTRIBUTE void ws_flat(__global const int *up, __global int *tree, uint first,
                                      uint end)
{
    if (AT < end)
        tree[AT] = up[AT] == WS_UNKNOWN ? (int)AT : -1;
}

__kernel GROUP_ATTRIBUTE void ws_flat_join(__global const uint *height, volatile __global int *tree,
                                           int nx, int ny, int nz, int corners, int depth,
                                           uint first, uint end)
{
    const ws_shape s = { nx, ny, nz, corners, depth };
    const uint i = AT;

    if (i >= end || uf_load(&tree[i]) < 0)
        return;
    FOR_NEIGHBOURS(i, s, {
        if (there < (int)i && height[there] == height[i])
            uf_join_shared(tree, (int)i, there);
    });
}

/* Their voxels lead to the root, which has the maximum's number, as ~number. */
__kernel GROUP_ATTRIBUTE void ws_flat_end(__global int *up, __global const int *tree,
                                          volatile __global int *count, uint first, uint end)
{
    if (AT >= end || tree[AT] < 0)
        return;
    int i = (int)AT;

    while (tree[i] != i)
        i = tree[i];
    up[AT] = i == (int)AT ? ~atomic_inc(count) : i;
}

__kernel GROUP_ATTRIBUTE void ws_tops(__global const int *up, __global int *top, uint first,
                                      uint end)
{
    if (AT >= end)
        return;
    int i = (int)AT;

    while (up[i] >= 0)
        i = up[i];
    top[AT] = i;
}

/* --- saddles --------------------------------------------------------------------------------- */

/*
 * A table by hashing: a slot is taken by a voxel and a step to a neighbour, whose two maxima are
 * its key; saddle[slot] is the highest. by: the steps to voxels that come later, in indices; a
 * slot has voxel * steps + step, VOL_FREE if it is free.
 */
__kernel GROUP_ATTRIBUTE void ws_clear_slots(__global uint *slot, __global uint *saddle, uint first,
                                             uint end)
{
    if (AT < end) {
        slot[AT] = VOL_FREE;
        saddle[AT] = 0;
    }
}

static int2 maxima_of(__global const int *top, __constant int *by, uint steps, uint code)
{
    const int i = (int)(code / steps), a = top[i], b = top[i + by[code % steps]];

    return (int2)(TC_MIN(a, b), TC_MAX(a, b));
}

static void add_saddle(__global const int *top, __constant int *by, uint steps,
                       volatile __global uint *slot, volatile __global uint *saddle,
                       volatile __global int *count, uint mask, uint code, uint height)
{
    const int2 pair = maxima_of(top, by, steps, code);
    uint at = (((uint)pair.x * 2654435769u ^ (uint)pair.y * 2246822519u) >> 3) & mask;

    for (int probe = 0; probe < VOL_PROBES; probe++, at = (at + 1) & mask) {
        const uint was = atomic_cmpxchg(&slot[at], VOL_FREE, code);

        if (was == VOL_FREE)
            atomic_inc(&count[0]);
        else if (any(maxima_of(top, by, steps, was) != pair))
            continue;
        atomic_max(&saddle[at], height);
        return;
    }
    atomic_xchg(&count[1], 1); /* there is no room */
}

__kernel GROUP_ATTRIBUTE void ws_saddles(__global const uint *height, __global const int *top,
                                         __constant int *by, volatile __global uint *slot,
                                         volatile __global uint *saddle,
                                         volatile __global int *count, uint mask, int nx, int ny,
                                         int nz, int corners, int depth, uint steps, uint least,
                                         uint first, uint end)
{
    const ws_shape s = { nx, ny, nz, corners, depth };
    const uint i = AT;

    if (i >= end)
        return;
    FOR_NEIGHBOURS(i, s, {
        uint k = 0;

        if (there < (int)i || top[there] == top[i])
            continue;
        /* Maxima that are apart anyway. */
        if (TC_MIN(height[top[i]], height[top[there]]) - TC_MIN(height[i], height[there]) >= least)
            continue;
        while (by[k] != there - (int)i)
            k++;
        add_saddle(top, by, steps, slot, saddle, count, mask, i * steps + k,
                   TC_MIN(height[i], height[there]));
    });
}

/* The saddles that there are. */
__kernel GROUP_ATTRIBUTE void ws_list(__global const int *up, __global const int *top,
                                      __constant int *by, __global const uint *slot,
                                      __global const uint *saddle, __global int *list,
                                      volatile __global int *count, uint steps, uint first,
                                      uint end)
{
    if (AT >= end || slot[AT] == VOL_FREE)
        return;
    const int2 pair = maxima_of(top, by, steps, slot[AT]);
    __global int *const row = list + (size_t)atomic_inc(count) * VOL_SADDLE;

    row[0] = ~up[pair.x];
    row[1] = ~up[pair.y];
    row[2] = (int)saddle[AT];
}

/* --- joining --------------------------------------------------------------------------------- */

/*
 * In the definition saddles are taken one by one, the highest first. The first that a hill has is
 * met before anything is joined with it; so if it leads to a higher hill, the two are joined,
 * whatever else there is, unless the hill is apart. A round does this for all hills at once: then
 * what is left of a hill's saddles are those of the one that it is joined with, of which all that
 * are higher than theirs are as they were. Saddles within a hill, or between hills that are apart,
 * are left out; the first of all saddles always joins, so rounds come to an end.
 */
#define MAXIMUM(n) (maxima + (size_t)(n) * VOL_MAXIMUM)
/* The hill of one of a saddle's two maxima. */
#define HILL(row, side) MAXIMUM(MAXIMUM((row)[side])[VOL_HILL])

static void clear_best(__global int *m)
{
    m[VOL_BEST] = 0;
    m[VOL_EARLIER] = m[VOL_LATER] = 0x7fffffff;
}

/* The table of maxima. */
__kernel GROUP_ATTRIBUTE void ws_maxima(__global const uint *height, __global const int *up,
                                        __global int *maxima, uint first, uint end)
{
    if (AT >= end || up[AT] >= 0)
        return;
    __global int *const m = MAXIMUM(~up[AT]);

    m[VOL_VOXEL] = (int)AT;
    m[VOL_HEIGHT] = (int)height[AT];
    m[VOL_HILL] = m[VOL_NEXT] = ~up[AT];
    clear_best(m);
}

/* Of a list of saddles those between hills that may be joined: live[0..*count); and the greatest
 * height of each hill's. */
__kernel GROUP_ATTRIBUTE void ws_find_best(volatile __global int *maxima, __global const int *list,
                                           __global int *live, volatile __global int *count,
                                           uint least, uint first, uint end)
{
    if (AT >= end)
        return;
    __global const int *const row = list + (size_t)AT * VOL_SADDLE;
    volatile __global int *const a = HILL(row, 0), *const b = HILL(row, 1);

    const int a_height = a[VOL_HEIGHT], b_height = b[VOL_HEIGHT];

    if (a == b || (uint)(TC_MIN(a_height, b_height) - row[2]) >= least)
        return;
    __global int *const kept = live + (size_t)atomic_inc(count) * VOL_SADDLE;

    for (int i = 0; i < VOL_SADDLE; i++)
        kept[i] = row[i];
    atomic_max(&a[VOL_BEST], row[2]);
    atomic_max(&b[VOL_BEST], row[2]);
}

/* Of equal ones the first is that of the earliest voxels: the earlier of the two, */
__kernel GROUP_ATTRIBUTE void ws_find_earlier(volatile __global int *maxima,
                                              __global const int *live, uint first, uint end)
{
    if (AT >= end)
        return;
    __global const int *const row = live + (size_t)AT * VOL_SADDLE;

    for (int side = 0; side < 2; side++)
        if (HILL(row, side)[VOL_BEST] == row[2])
            atomic_min(&HILL(row, side)[VOL_EARLIER], MAXIMUM(row[0])[VOL_VOXEL]);
}

/* then the later. */
__kernel GROUP_ATTRIBUTE void ws_find_later(volatile __global int *maxima, __global const int *live,
                                            uint first, uint end)
{
    if (AT >= end)
        return;
    __global const int *const row = live + (size_t)AT * VOL_SADDLE;

    for (int side = 0; side < 2; side++)
        if (HILL(row, side)[VOL_BEST] == row[2] &&
            HILL(row, side)[VOL_EARLIER] == MAXIMUM(row[0])[VOL_VOXEL])
            atomic_min(&HILL(row, side)[VOL_LATER], MAXIMUM(row[1])[VOL_VOXEL]);
}

/* The lower hill of a saddle is joined with the higher one, if that is the first of its saddles. */
__kernel GROUP_ATTRIBUTE void ws_join_hills(__global int *maxima, __global const int *live,
                                            uint first, uint end)
{
    if (AT >= end)
        return;
    __global const int *const row = live + (size_t)AT * VOL_SADDLE;
    __global int *const a = HILL(row, 0), *const b = HILL(row, 1);
    const int a_higher = a[VOL_HEIGHT] > b[VOL_HEIGHT] ||
                         (a[VOL_HEIGHT] == b[VOL_HEIGHT] && a[VOL_VOXEL] < b[VOL_VOXEL]);
    __global int *const low = a_higher ? b : a;

    if (low[VOL_BEST] == row[2] && low[VOL_EARLIER] == MAXIMUM(row[0])[VOL_VOXEL] &&
        low[VOL_LATER] == MAXIMUM(row[1])[VOL_VOXEL])
        low[VOL_NEXT] = a_higher ? a[VOL_HILL] : b[VOL_HILL];
}

/* The end of the way that a maximum's hill has been joined. */
__kernel GROUP_ATTRIBUTE void ws_follow_joins(__global int *maxima, uint first, uint end)
{
    if (AT >= end)
        return;
    __global int *const m = MAXIMUM(AT);
    int hill = m[VOL_HILL];

    while (MAXIMUM(hill)[VOL_NEXT] != hill)
        hill = MAXIMUM(hill)[VOL_NEXT];
    m[VOL_HILL] = hill;
    clear_best(m);
}

/* --- cells ----------------------------------------------------------------------------------- */

/* up[maximum] becomes the one that stands for its hill. */
__kernel GROUP_ATTRIBUTE void ws_set_hills(__global int *up, __global const int *maxima, uint first,
                                           uint end)
{
    if (AT < end)
        up[MAXIMUM(AT)[VOL_VOXEL]] = MAXIMUM(MAXIMUM(AT)[VOL_HILL])[VOL_VOXEL];
}

/* The maximum of a voxel's cell, -1 for membrane, which is of none unless there is `fill`. */
static int cell_of(__global const PIXEL *pixels, __global const int *up, __global const int *top,
                   uint i, uint threshold, int fill)
{
    return fill || !vol_is_membrane(pixels[i], threshold) ? up[top[i]] : -1;
}

__kernel GROUP_ATTRIBUTE void ws_clear_firsts(__global int *first_voxel, uint first, uint end)
{
    if (AT < end)
        first_voxel[AT] = 0x7fffffff;
}

/* first_voxel[maximum]: of its cell. */
__kernel GROUP_ATTRIBUTE void ws_find_firsts(__global const PIXEL *pixels, __global const int *up,
                                             __global const int *top,
                                             volatile __global int *first_voxel, uint threshold,
                                             int fill, int nx, uint first, uint end)
{
    const uint i = AT;

    if (i >= end)
        return;
    const int cell = cell_of(pixels, up, top, i, threshold, fill);

    /* Of a run the first voxel is enough. */
    if (cell >= 0 &&
        (i % (uint)nx == 0 || cell_of(pixels, up, top, i - 1, threshold, fill) != cell))
        atomic_min(&first_voxel[cell], (int)i);
}

__kernel GROUP_ATTRIBUTE void ws_list_firsts(__global const PIXEL *pixels, __global const int *up,
                                             __global const int *top,
                                             __global const int *first_voxel, __global int *list,
                                             volatile __global int *count, uint threshold, int fill,
                                             uint first, uint end)
{
    const uint i = AT;

    if (i >= end)
        return;
    const int cell = cell_of(pixels, up, top, i, threshold, fill);

    if (cell >= 0 && first_voxel[cell] == (int)i)
        list[atomic_inc(count)] = (int)i;
}

/* list: the first voxels in order. They give place to ~label. */
__kernel GROUP_ATTRIBUTE void ws_number_cells(__global const int *up, __global const int *top,
                                              __global int *first_voxel, __global const int *list,
                                              uint first, uint end)
{
    if (AT < end)
        first_voxel[up[top[list[AT]]]] = ~((int)AT + 1);
}

/* top becomes the label, 0 for membrane, which is counted. */
__kernel GROUP_ATTRIBUTE void ws_label(__global const PIXEL *pixels, __global const int *up,
                                       __global int *top, __global const int *first_voxel,
                                       volatile __global int *count, uint threshold, int fill,
                                       uint first, uint end)
{
    volatile __local int membrane;
    const uint i = AT;

    if (get_local_id(0) == 0)
        membrane = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (i < end) {
        const int cell = cell_of(pixels, up, top, i, threshold, fill);

        top[i] = cell >= 0 ? ~first_voxel[cell] : 0;
        if (cell < 0)
            atomic_inc(&membrane);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (get_local_id(0) == 0 && membrane > 0)
        atomic_add(count, membrane);
}
