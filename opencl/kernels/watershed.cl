/*
 * The OpenCL kernels of volume's watershed, for a stack or a slab (some slices of a stack) of fewer
 * than 2^30 voxels, numbered in raster order. A launch processes the voxels, or the entries of
 * a list, with numbers [first, end). Each voxel leads uphill to a neighbour, and so to a maximum of
 * the height. Maxima separated only by a shallow saddle are joined to hills; each hill is a cell.
 *
 *   height[i]  VOL_TOP less the blurred grey value
 *   up[i]      the voxel that voxel i leads to, numbered through the whole stack, or a negative
 *              value of app/analysis/common/watershed_core.h; later, if voxel i is a maximum,
 *              ~its number; finally the voxel of the maximum that stands for its hill
 *   top[i]     the maximum that voxel i leads to; before that a list of voxels of plateaus, then
 *              the links of a union-find that joins the voxels of each plateau that is a maximum
 *
 * The order of entries in lists varies, but the results do not depend on it. In launches that
 * change links, the `up` of plateaus, slots or counts, these are accessed by atomic functions only.
 *
 * Macros: GROUP, the size of a work-group; PIXEL, the type of a grey value; SUM, a type that holds
 * weighted sums of grey values.
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
/* The voxel or entry that a work-item processes, if less than `end`. */
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

/* Converts a blurred value to a height if this is the last pass of the blur (top: VOL_TOP);
 * otherwise (top: 0) returns the value itself. */
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

/* z0: the first slice of the slab in the stack, which has nz slices. slice: voxels of a slice. */
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

/* --- the voxel that each voxel leads to ------------------------------------------------------ */

/* Sets up[i] to the highest neighbour of voxel i, to WS_UNKNOWN if none is higher than the voxel.
 * base: the number of the slab's first voxel in the stack. */
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

/* Executes BODY for each neighbour of voxel i in a stack or slab of shape s, with the neighbour's
 * number in the variable `there`. */
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

/* Lists the voxels with unknown `up` that have a neighbour of the same height whose `up` is known,
 * in list[0..*count), and makes their `up` pending. */
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

/* Makes the pending `up` of the listed voxels final. */
__kernel GROUP_ATTRIBUTE void ws_settle(__global int *up, __global const int *list, uint first,
                                        uint end)
{
    if (AT < end)
        up[list[AT]] = WS_PENDING(up[list[AT]]);
}

/* Goes one step further into the plateaus, from the list's entries [first, end): makes `up` of
 * their neighbours of the same height pending if it is unknown or already pending, and appends
 * those neighbours whose `up` was unknown to the list. */
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

/* Begins the union-find of the plateaus that are maxima: the voxels whose `up` is still unknown.
 * tree is -1 for all other voxels. */
__kernel GROUP_ATTRIBUTE void ws_flat(__global const int *up, __global int *tree, uint first,
                                      uint end)
{
    if (AT < end)
        tree[AT] = up[AT] == WS_UNKNOWN ? (int)AT : -1;
}

/* Joins neighbours of the same height in the union-find. */
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

/* Makes the voxels of a plateau that is a maximum lead to the plateau's root in the union-find, the
 * voxel that represents the maximum. Numbers the maxima: sets up[root] to ~number, and *count to
 * the number of maxima. */
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

/* Sets top[i] to the maximum that voxel i leads to. */
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
 * A hash table of the highest saddle between each two maxima. The key is the pair of maxima, and
 * saddle[s] is the height of slot s. slot[s] encodes the key as voxel * steps + step: a voxel that
 * leads to one of the maxima, and the step to a neighbour that leads to the other; VOL_FREE if the
 * slot is free. by[step], step < steps: the steps to neighbours that come later in raster order, as
 * differences of voxel numbers.
 */
__kernel GROUP_ATTRIBUTE void ws_clear_slots(__global uint *slot, __global uint *saddle, uint first,
                                             uint end)
{
    if (AT < end) {
        slot[AT] = VOL_FREE;
        saddle[AT] = 0;
    }
}

/* The two maxima of a slot's code, the lower voxel number first. */
static int2 maxima_of(__global const int *top, __constant int *by, uint steps, uint code)
{
    const int i = (int)(code / steps), a = top[i], b = top[i + by[code % steps]];

    return (int2)(TC_MIN(a, b), TC_MAX(a, b));
}

/* Enters a saddle in the table, whose number of slots is mask + 1. count[0]: the number of slots in
 * use. Sets count[1] to 1 if no slot is found. */
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
    atomic_xchg(&count[1], 1);
}

/* Enters the saddles between voxels [first, end) and their later neighbours in the table. least: a
 * saddle joins its two maxima only if the lower one rises above it by less than this. */
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
        /* This saddle cannot join the two maxima. */
        if (TC_MIN(height[top[i]], height[top[there]]) - TC_MIN(height[i], height[there]) >= least)
            continue;
        while (by[k] != there - (int)i)
            k++;
        add_saddle(top, by, steps, slot, saddle, count, mask, i * steps + k,
                   TC_MIN(height[i], height[there]));
    });
}

/* Copies the *count saddles of the table to `list`, in which maxima are given by number. */
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
 * By definition, maxima are joined to hills by taking the saddles one after another, the highest
 * first: a saddle joins its two hills unless the lower one rises above it by `least` or more. The
 * highest saddle of a hill is taken before the hill is joined with any other; so if that saddle
 * leads to a higher hill, it joins the two, whatever the other saddles are. A round of the kernels
 * below does this for all hills at once. Then the joined hill's other saddles, which are lower,
 * belong to the higher hill, whose saddles above that height are the same as before. Each round
 * drops the saddles within a hill and those that cannot join their hills. The highest saddle that
 * remains always joins two hills, so the rounds end.
 */
/* The row of maximum number n in the table of maxima (layout.h). */
#define MAXIMUM(n) (maxima + (size_t)(n) * VOL_MAXIMUM)
/* The row, in the table of maxima, of the maximum that stands for the hill of a saddle's maximum 0
 * or 1 (side). row: the saddle's row in its list. */
#define HILL(row, side) MAXIMUM(MAXIMUM((row)[side])[VOL_HILL])

/* Forgets the highest saddle of a hill. */
static void clear_best(__global int *m)
{
    m[VOL_BEST] = 0;
    m[VOL_EARLIER] = m[VOL_LATER] = 0x7fffffff;
}

/* Fills the table of maxima from the voxels that are maxima; each is a hill of its own. */
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

/* Copies those saddles of `list` that can join their two hills to live[0..*count), and finds the
 * height of each hill's highest one. */
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

/* If several saddles of a hill are the highest, the one whose two maxima come first is taken. This
 * kernel finds the least voxel among the earlier maxima of these saddles. */
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

/* Finds the least voxel among the later maxima of those highest saddles whose earlier maximum is
 * the one that ws_find_earlier has found. */
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

/* Joins the lower hill of a saddle with the higher hill if the saddle is the lower one's highest.
 */
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

/* Sets each maximum's hill to the one at the end of the chain of joins. */
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

/* Sets up[maximum] to the voxel of the maximum that stands for its hill. */
__kernel GROUP_ATTRIBUTE void ws_set_hills(__global int *up, __global const int *maxima, uint first,
                                           uint end)
{
    if (AT < end)
        up[MAXIMUM(AT)[VOL_VOXEL]] = MAXIMUM(MAXIMUM(AT)[VOL_HILL])[VOL_VOXEL];
}

/* Returns the maximum that stands for the cell of voxel i, or -1 if the voxel is membrane, which
 * belongs to no cell unless `fill` is set. */
static int cell_of(__global const PIXEL *pixels, __global const int *up, __global const int *top,
                   uint i, uint threshold, int fill)
{
    return fill || !vol_is_membrane(pixels[i], threshold) ? up[top[i]] : -1;
}

/* Prepares first_voxel for ws_find_firsts. */
__kernel GROUP_ATTRIBUTE void ws_clear_firsts(__global int *first_voxel, uint first, uint end)
{
    if (AT < end)
        first_voxel[AT] = 0x7fffffff;
}

/* first_voxel[maximum]: the first voxel, in raster order, of the maximum's cell. */
__kernel GROUP_ATTRIBUTE void ws_find_firsts(__global const PIXEL *pixels, __global const int *up,
                                             __global const int *top,
                                             volatile __global int *first_voxel, uint threshold,
                                             int fill, int nx, uint first, uint end)
{
    const uint i = AT;

    if (i >= end)
        return;
    const int cell = cell_of(pixels, up, top, i, threshold, fill);

    /* Only the first voxel of a run along x can be the cell's first. */
    if (cell >= 0 &&
        (i % (uint)nx == 0 || cell_of(pixels, up, top, i - 1, threshold, fill) != cell))
        atomic_min(&first_voxel[cell], (int)i);
}

/* Lists the first voxels of the cells, in any order: list[0..*count). */
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

/* Numbers the cells in the order of their first voxels, which `list` contains in ascending order:
 * sets first_voxel[maximum] to ~label. */
__kernel GROUP_ATTRIBUTE void ws_number_cells(__global const int *up, __global const int *top,
                                              __global int *first_voxel, __global const int *list,
                                              uint first, uint end)
{
    if (AT < end)
        first_voxel[up[top[list[AT]]]] = ~((int)AT + 1);
}

/* Replaces top[i] by the label of voxel i, or 0 for membrane that belongs to no cell. Adds the
 * number of such voxels of membrane to *count. */
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
