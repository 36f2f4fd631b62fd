/*
 * The OpenCL kernels of volume's watershed, for a stack or a slab (some slices of a stack) of fewer
 * than 2^30 voxels, numbered in raster order. A launch processes the voxels, or the entries of
 * a list, with numbers [first, end). Each voxel leads uphill to a neighbour, and so in the end to a
 * maximum of the height. A saddle is a pair of neighbouring voxels that lead to different maxima;
 * its height is that of the lower one. Two maxima are joined if the lower one rises only little
 * above the saddle between them. A hill is a set of joined maxima; each hill is a cell.
 *
 * `height`, `up` and `top` are planes with an element for each voxel:
 *   height[i]  VOL_TOP minus the blurred grey value
 *   up[i]      the voxel that voxel i leads to, numbered through the whole stack, or a negative
 *              value of app/analysis/common/watershed_core.h. If voxel i is a maximum,
 *              ws_end_plateaus sets up[i] to ~n, where n is the maximum's number, and ws_set_hills
 *              sets it to the voxel of the maximum that represents the hill.
 *   top[i]     Until ws_grow_inwards is done, the buffer `top` holds a list of voxels of plateaus
 *              (adjacent voxels of the same height). Then it holds the links of a union-find, which
 *              joins the voxels of each plateau that is a maximum. Finally ws_tops sets top[i] to
 *              the maximum that voxel i leads to.
 *
 * The order of entries in lists varies, but the results do not depend on it. A launch that changes
 * slots of the hash table, counts, links of the union-find, or the `up` of voxels of plateaus
 * accesses these by atomic functions only.
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
/* The number of the voxel or list entry that a work-item processes. A work-item with a number of at
 * least `end` does nothing. */
#define ITEM (first + (uint)get_global_id(0))

/* --- blur ------------------------------------------------------------------------------------ */

/* Sets out[i] to the grey values blurred along x; nx is the length of a row. A work-item computes a
 * voxel. weight: [radius + 1], the weight at each distance from the voxel. */
__kernel GROUP_ATTRIBUTE void ws_blur_x(__global const PIXEL *pixels, __constant uint *weight,
                                        int radius, __global uint *out, int nx, uint first,
                                        uint end)
{
    const uint i = ITEM;

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

/* Sets out[i] to `in` blurred along y, in slices of nx x ny voxels. A work-item computes a voxel.
 * top: see height_of. */
__kernel GROUP_ATTRIBUTE void ws_blur_y(__global const uint *in, __constant uint *weight,
                                        int radius, __global uint *out, int nx, int ny, uint top,
                                        uint first, uint end)
{
    const uint i = ITEM;

    if (i < end)
        out[i] =
            height_of(rounded(blurred(in, weight, radius, (int)i, (int)(i / (uint)nx) % ny, ny, nx),
                              VOL_WEIGHT_BITS),
                      top);
}

/* Sets out[i] to `in` blurred along z. A work-item computes a voxel. z0: the first slice of the
 * slab in the stack, which has nz slices. slice: voxels of a slice. top: see height_of. */
__kernel GROUP_ATTRIBUTE void ws_blur_z(__global const uint *in, __constant uint *weight,
                                        int radius, __global uint *out, int slice, int z0, int nz,
                                        uint top, uint first, uint end)
{
    const uint i = ITEM;

    if (i < end)
        out[i] = height_of(
            rounded(blurred(in, weight, radius, (int)i, (int)(i / (uint)slice) + z0, nz, slice),
                    VOL_WEIGHT_BITS),
            top);
}

/* --- the voxel that each voxel leads to ------------------------------------------------------ */

/* Sets up[i] to the highest neighbour of voxel i, or to WS_UNKNOWN if none is higher than the
 * voxel. A work-item processes a voxel. base: the number of the slab's first voxel in the stack. */
__kernel GROUP_ATTRIBUTE void ws_uphill(__global const uint *height, __global int *up, int nx,
                                        int ny, int nz, int corners, int depth, int base,
                                        uint first, uint end)
{
    const ws_shape s = { nx, ny, nz, corners, depth };
    const uint i = ITEM;

    if (i >= end)
        return;
    const int row = (int)(i / (uint)nx), x = (int)i - row * nx, z = row / ny;
    const int to = ws_highest_neighbour(height, &s, x, row - z * ny, z, 1);

    up[i] = to == (int)i ? WS_UNKNOWN : to + base;
}

/* Executes BODY for each neighbour of voxel i in a stack or slab of shape s, with the neighbour's
 * number in the variable `neighbour`. */
#define FOR_NEIGHBOURS(i, s, BODY)                                                             \
    do {                                                                                       \
        const int row_ = (int)(i) / (s).nx, x_ = (int)(i) - row_ * (s).nx, z_ = row_ / (s).ny; \
        const int y_ = row_ - z_ * (s).ny;                                                     \
                                                                                               \
        for (int dz = -(s).depth; dz <= (s).depth; dz++)                                       \
            for (int dy = -1; dy <= 1; dy++)                                                   \
                for (int dx = -1; dx <= 1; dx++) {                                             \
                    const int neighbour = (int)(i) + (dz * (s).ny + dy) * (s).nx + dx;         \
                                                                                               \
                    if (!ws_is_step(dx, dy, dz, (s).corners) ||                                \
                        !ws_is_within(&(s), x_ + dx, y_ + dy, z_ + dz))                        \
                        continue;                                                              \
                    BODY                                                                       \
                }                                                                              \
    } while (0)

/* Lists, in list[0..*count), the voxels with unknown `up` that have a neighbour of the same height
 * with known `up`. Sets the `up` of each listed voxel to a preliminary value ("pending", see
 * WS_PENDING) that stands for the first such neighbour in raster order. A work-item examines a
 * voxel.
 */
__kernel GROUP_ATTRIBUTE void ws_plateau_edges(__global const uint *height,
                                               volatile __global int *up, __global int *list,
                                               volatile __global int *count, int nx, int ny, int nz,
                                               int corners, int depth, uint first, uint end)
{
    const ws_shape s = { nx, ny, nz, corners, depth };
    const uint i = ITEM;
    int best = WS_UNKNOWN;

    if (i >= end || atomic_or(&up[i], 0) != WS_UNKNOWN)
        return;
    FOR_NEIGHBOURS(i, s, {
        if (height[neighbour] == height[i] && atomic_or(&up[neighbour], 0) >= 0)
            best = TC_MAX(best, WS_PENDING(neighbour));
    });
    if (best == WS_UNKNOWN)
        return;
    atomic_xchg(&up[i], best);
    list[atomic_inc(count)] = (int)i;
}

/* Makes the pending `up` of the listed voxels final. A work-item processes an entry of the list. */
__kernel GROUP_ATTRIBUTE void ws_settle(__global int *up, __global const int *list, uint first,
                                        uint end)
{
    if (ITEM < end)
        up[list[ITEM]] = WS_PENDING(up[list[ITEM]]); /* WS_PENDING is its own inverse */
}

/* Goes one step further into the plateaus from the listed voxels [first, end). If a neighbour of
 * the same height has an unknown or pending `up`, makes it pending; if it was unknown, also appends
 * the neighbour to the list. A work-item processes an entry of the list. */
__kernel GROUP_ATTRIBUTE void ws_grow_inwards(__global const uint *height,
                                              volatile __global int *up, __global int *list,
                                              volatile __global int *count, int nx, int ny, int nz,
                                              int corners, int depth, uint first, uint end)
{
    const ws_shape s = { nx, ny, nz, corners, depth };

    if (ITEM >= end)
        return;
    const int i = list[ITEM];

    FOR_NEIGHBOURS(i, s, {
        if (height[neighbour] == height[i] &&
            atomic_max(&up[neighbour], WS_PENDING(i)) == WS_UNKNOWN)
            list[atomic_inc(count)] = neighbour;
    });
}

/* Initialises the union-find of the plateaus that are maxima: tree[i] becomes i for their voxels,
 * whose `up` is still unknown, and -1 for all others. A work-item processes a voxel. */
__kernel GROUP_ATTRIBUTE void ws_plateaus(__global const int *up, __global int *tree, uint first,
                                          uint end)
{
    if (ITEM < end)
        tree[ITEM] = up[ITEM] == WS_UNKNOWN ? (int)ITEM : -1;
}

/* Joins each voxel in the union-find with its neighbours of the same height. A work-item processes
 * a voxel. */
__kernel GROUP_ATTRIBUTE void ws_join_plateaus(__global const uint *height,
                                               volatile __global int *tree, int nx, int ny, int nz,
                                               int corners, int depth, uint first, uint end)
{
    const ws_shape s = { nx, ny, nz, corners, depth };
    const uint i = ITEM;

    if (i >= end || uf_load(&tree[i]) < 0)
        return;
    FOR_NEIGHBOURS(i, s, {
        if (neighbour < (int)i && height[neighbour] == height[i])
            uf_union_shared_fast(tree, (int)i, neighbour);
    });
}

/* Sets the `up` of each voxel of a plateau that is a maximum to the plateau's root in the
 * union-find, the voxel that represents the maximum. Also numbers the maxima: sets up[root] to
 * ~number, and *count to the number of maxima. A work-item processes a voxel. */
__kernel GROUP_ATTRIBUTE void ws_end_plateaus(__global int *up, __global const int *tree,
                                              volatile __global int *count, uint first, uint end)
{
    if (ITEM >= end || tree[ITEM] < 0)
        return;
    int i = (int)ITEM;

    while (tree[i] != i)
        i = tree[i];
    up[ITEM] = i == (int)ITEM ? ~atomic_inc(count) : i;
}

/* Sets top[i] to the maximum that voxel i leads to. A work-item follows the links from a voxel. */
__kernel GROUP_ATTRIBUTE void ws_tops(__global const int *up, __global int *top, uint first,
                                      uint end)
{
    if (ITEM >= end)
        return;
    int i = (int)ITEM;

    while (up[i] >= 0)
        i = up[i];
    top[ITEM] = i;
}

/* --- saddles --------------------------------------------------------------------------------- */

/*
 * A hash table holds the highest saddle between any two maxima. The key of an entry is the pair of
 * maxima. For slot s, saddle[s] is the height of the saddle. slot[s] encodes the key as
 * voxel * steps + step, where `voxel` leads to one of the maxima, and `step` is the index in `by`
 * of the step from it to a neighbour that leads to the other. A free slot is VOL_FREE_SLOT. by:
 * [steps]: the steps to the neighbours that come later in raster order, as differences of voxel
 * numbers.
 */
/* Frees all slots. A work-item clears a slot. */
__kernel GROUP_ATTRIBUTE void ws_clear_slots(__global uint *slot, __global uint *saddle, uint first,
                                             uint end)
{
    if (ITEM < end) {
        slot[ITEM] = VOL_FREE_SLOT;
        saddle[ITEM] = 0;
    }
}

/* Returns the two maxima that `code`, an element of `slot`, encodes; the lower voxel number first.
 */
static int2 maxima_of(__global const int *top, __constant int *by, uint steps, uint code)
{
    const int i = (int)(code / steps), a = top[i], b = top[i + by[code % steps]];

    return (int2)(TC_MIN(a, b), TC_MAX(a, b));
}

/* Enters a saddle in the table, which has mask + 1 slots. If VOL_PROBES slots in succession are
 * used by other pairs, sets count[1] to 1 instead. count[0]: the number of slots in use. */
static void add_saddle(__global const int *top, __constant int *by, uint steps,
                       volatile __global uint *slot, volatile __global uint *saddle,
                       volatile __global int *count, uint mask, uint code, uint height)
{
    const int2 pair = maxima_of(top, by, steps, code);
    /* A multiplicative hash of the pair; the factors are odd constants with well mixed bits. */
    uint slot_index = (((uint)pair.x * 2654435769u ^ (uint)pair.y * 2246822519u) >> 3) & mask;

    for (int probe = 0; probe < VOL_PROBES; probe++, slot_index = (slot_index + 1) & mask) {
        const uint old_code = atomic_cmpxchg(&slot[slot_index], VOL_FREE_SLOT, code);

        if (old_code == VOL_FREE_SLOT)
            atomic_inc(&count[0]);
        else if (any(maxima_of(top, by, steps, old_code) != pair))
            continue;
        atomic_max(&saddle[slot_index], height);
        return;
    }
    atomic_xchg(&count[1], 1);
}

/* Enters the saddles between voxels [first, end) and their later neighbours in the table. A
 * work-item processes a voxel. least: a saddle joins its two maxima only if the lower one rises
 * above it by less than this. */
__kernel GROUP_ATTRIBUTE void ws_saddles(__global const uint *height, __global const int *top,
                                         __constant int *by, volatile __global uint *slot,
                                         volatile __global uint *saddle,
                                         volatile __global int *count, uint mask, int nx, int ny,
                                         int nz, int corners, int depth, uint steps, uint least,
                                         uint first, uint end)
{
    const ws_shape s = { nx, ny, nz, corners, depth };
    const uint i = ITEM;

    if (i >= end)
        return;
    FOR_NEIGHBOURS(i, s, {
        uint k = 0;

        if (neighbour < (int)i || top[neighbour] == top[i])
            continue;
        /* This saddle cannot join the two maxima. */
        if (TC_MIN(height[top[i]], height[top[neighbour]]) - TC_MIN(height[i], height[neighbour]) >=
            least)
            continue;
        while (by[k] != neighbour - (int)i)
            k++;
        add_saddle(top, by, steps, slot, saddle, count, mask, i * steps + k,
                   TC_MIN(height[i], height[neighbour]));
    });
}

/* Copies the saddles of the table to `list`, and sets *count to the number of saddles. A row of the
 * list contains the numbers of the two maxima and the saddle's height. A work-item copies a slot.
 */
__kernel GROUP_ATTRIBUTE void ws_list(__global const int *up, __global const int *top,
                                      __constant int *by, __global const uint *slot,
                                      __global const uint *saddle, __global int *list,
                                      volatile __global int *count, uint steps, uint first,
                                      uint end)
{
    if (ITEM >= end || slot[ITEM] == VOL_FREE_SLOT)
        return;
    const int2 pair = maxima_of(top, by, steps, slot[ITEM]);
    __global int *const row = list + (size_t)atomic_inc(count) * VOL_SADDLE_COLUMNS;

    row[0] = ~up[pair.x];
    row[1] = ~up[pair.y];
    row[2] = (int)saddle[ITEM];
}

/* --- joining --------------------------------------------------------------------------------- */

/*
 * By definition, maxima are joined to hills by processing the saddles in the order of their
 * heights, the highest first. A saddle joins the hills on its two sides unless the lower hill rises
 * above the saddle by `least` or more. So the first saddle of a hill that is processed is the
 * hill's highest one, and no other saddle has joined the hill before. If this saddle leads to a
 * higher hill, it joins the two hills, whatever the other saddles are. A round of the kernels below
 * does this for all hills at once. The other saddles of the lower hill, none of which is higher,
 * then belong to the higher hill. Each round drops the saddles within a hill and the saddles that
 * cannot join their hills. The highest saddle that remains always joins two hills, so the rounds
 * end.
 */
/* The row of maximum number n in the table of maxima (layout.h). */
#define MAXIMUM(n) (maxima + (size_t)(n) * VOL_MAXIMUM_COLUMNS)
/* The hill on one side of a saddle, as the row, in the table of maxima, of the maximum that
 * represents the hill. side: 0 or 1, one of the saddle's two maxima. row: the saddle's row in its
 * list. */
#define HILL(row, side) MAXIMUM(MAXIMUM((row)[side])[VOL_HILL])

/* Resets the record of a hill's highest saddle. m: the hill's row in the table of maxima. */
static void clear_best(__global int *m)
{
    m[VOL_BEST] = 0;
    m[VOL_EARLIER] = m[VOL_LATER] = 0x7fffffff;
}

/* Fills the table of maxima: a row for each voxel that is a maximum; each maximum is a hill of its
 * own. A work-item examines a voxel. */
__kernel GROUP_ATTRIBUTE void ws_maxima(__global const uint *height, __global const int *up,
                                        __global int *maxima, uint first, uint end)
{
    if (ITEM >= end || up[ITEM] >= 0)
        return;
    __global int *const m = MAXIMUM(~up[ITEM]);

    m[VOL_VOXEL] = (int)ITEM;
    m[VOL_HEIGHT] = (int)height[ITEM];
    m[VOL_HILL] = m[VOL_NEXT] = ~up[ITEM];
    clear_best(m);
}

/* Copies the saddles of `list` that can join their two hills to live[0..*count), and sets VOL_BEST
 * of each hill to the height of its highest saddle among these. A work-item processes a saddle. */
__kernel GROUP_ATTRIBUTE void ws_find_best(volatile __global int *maxima, __global const int *list,
                                           __global int *live, volatile __global int *count,
                                           uint least, uint first, uint end)
{
    if (ITEM >= end)
        return;
    __global const int *const row = list + (size_t)ITEM * VOL_SADDLE_COLUMNS;
    volatile __global int *const a = HILL(row, 0), *const b = HILL(row, 1);

    const int a_height = a[VOL_HEIGHT], b_height = b[VOL_HEIGHT];

    if (a == b || (uint)(TC_MIN(a_height, b_height) - row[2]) >= least)
        return;
    __global int *const copy = live + (size_t)atomic_inc(count) * VOL_SADDLE_COLUMNS;

    for (int i = 0; i < VOL_SADDLE_COLUMNS; i++)
        copy[i] = row[i];
    atomic_max(&a[VOL_BEST], row[2]);
    atomic_max(&b[VOL_BEST], row[2]);
}

/* If several saddles of a hill have the height VOL_BEST, the one whose two maxima come first in
 * raster order is taken. This kernel compares the first maxima of these saddles: it sets
 * VOL_EARLIER of each hill to the voxel of the maximum that comes first in raster order. A
 * work-item processes a saddle. */
__kernel GROUP_ATTRIBUTE void ws_find_earlier(volatile __global int *maxima,
                                              __global const int *live, uint first, uint end)
{
    if (ITEM >= end)
        return;
    __global const int *const row = live + (size_t)ITEM * VOL_SADDLE_COLUMNS;

    for (int side = 0; side < 2; side++)
        if (HILL(row, side)[VOL_BEST] == row[2])
            atomic_min(&HILL(row, side)[VOL_EARLIER], MAXIMUM(row[0])[VOL_VOXEL]);
}

/* Compares the second maxima of the highest saddles of a hill whose first maximum is the voxel
 * VOL_EARLIER: sets VOL_LATER of each hill to the voxel of the second maximum that comes first in
 * raster order. A work-item processes a saddle. */
__kernel GROUP_ATTRIBUTE void ws_find_later(volatile __global int *maxima, __global const int *live,
                                            uint first, uint end)
{
    if (ITEM >= end)
        return;
    __global const int *const row = live + (size_t)ITEM * VOL_SADDLE_COLUMNS;

    for (int side = 0; side < 2; side++)
        if (HILL(row, side)[VOL_BEST] == row[2] &&
            HILL(row, side)[VOL_EARLIER] == MAXIMUM(row[0])[VOL_VOXEL])
            atomic_min(&HILL(row, side)[VOL_LATER], MAXIMUM(row[1])[VOL_VOXEL]);
}

/* Links the lower hill of a saddle to the higher hill (VOL_NEXT), if the saddle is the lower hill's
 * highest saddle. A work-item processes a saddle. */
__kernel GROUP_ATTRIBUTE void ws_join_hills(__global int *maxima, __global const int *live,
                                            uint first, uint end)
{
    if (ITEM >= end)
        return;
    __global const int *const row = live + (size_t)ITEM * VOL_SADDLE_COLUMNS;
    __global int *const a = HILL(row, 0), *const b = HILL(row, 1);
    const int a_higher = a[VOL_HEIGHT] > b[VOL_HEIGHT] ||
                         (a[VOL_HEIGHT] == b[VOL_HEIGHT] && a[VOL_VOXEL] < b[VOL_VOXEL]);
    __global int *const lower_hill = a_higher ? b : a;

    if (lower_hill[VOL_BEST] == row[2] && lower_hill[VOL_EARLIER] == MAXIMUM(row[0])[VOL_VOXEL] &&
        lower_hill[VOL_LATER] == MAXIMUM(row[1])[VOL_VOXEL])
        lower_hill[VOL_NEXT] = a_higher ? a[VOL_HILL] : b[VOL_HILL];
}

/* Sets each maximum's hill (VOL_HILL) to the hill at the end of the chain of VOL_NEXT, and resets
 * the record of its highest saddle for the next round. A work-item processes a maximum. */
__kernel GROUP_ATTRIBUTE void ws_follow_joins(__global int *maxima, uint first, uint end)
{
    if (ITEM >= end)
        return;
    __global int *const m = MAXIMUM(ITEM);
    int hill = m[VOL_HILL];

    while (MAXIMUM(hill)[VOL_NEXT] != hill)
        hill = MAXIMUM(hill)[VOL_NEXT];
    m[VOL_HILL] = hill;
    clear_best(m);
}

/* --- cells ----------------------------------------------------------------------------------- */

/* Sets up[v], for the voxel v of each maximum, to the voxel of the maximum that represents its
 * hill. A work-item processes a maximum. */
__kernel GROUP_ATTRIBUTE void ws_set_hills(__global int *up, __global const int *maxima, uint first,
                                           uint end)
{
    if (ITEM < end)
        up[MAXIMUM(ITEM)[VOL_VOXEL]] = MAXIMUM(MAXIMUM(ITEM)[VOL_HILL])[VOL_VOXEL];
}

/* Returns the voxel of the maximum that represents the cell of voxel i, or -1 if the voxel is
 * membrane, which belongs to no cell unless `fill` is set. */
static int cell_of(__global const PIXEL *pixels, __global const int *up, __global const int *top,
                   uint i, uint threshold, int fill)
{
    return fill || !vol_is_membrane(pixels[i], threshold) ? up[top[i]] : -1;
}

/* Sets the elements of first_voxel to a number greater than any voxel's, for ws_find_firsts. */
__kernel GROUP_ATTRIBUTE void ws_clear_firsts(__global int *first_voxel, uint first, uint end)
{
    if (ITEM < end)
        first_voxel[ITEM] = 0x7fffffff;
}

/* Sets first_voxel[maximum] to the first voxel, in raster order, of the maximum's cell. A work-item
 * examines a voxel. */
__kernel GROUP_ATTRIBUTE void ws_find_firsts(__global const PIXEL *pixels, __global const int *up,
                                             __global const int *top,
                                             volatile __global int *first_voxel, uint threshold,
                                             int fill, int nx, uint first, uint end)
{
    const uint i = ITEM;

    if (i >= end)
        return;
    const int cell = cell_of(pixels, up, top, i, threshold, fill);

    /* Only the first voxel of a run along x can be the cell's first. */
    if (cell >= 0 &&
        (i % (uint)nx == 0 || cell_of(pixels, up, top, i - 1, threshold, fill) != cell))
        atomic_min(&first_voxel[cell], (int)i);
}

/* Lists the first voxels of the cells in list[0..*count), in any order. A work-item examines a
 * voxel. */
__kernel GROUP_ATTRIBUTE void ws_list_firsts(__global const PIXEL *pixels, __global const int *up,
                                             __global const int *top,
                                             __global const int *first_voxel, __global int *list,
                                             volatile __global int *count, uint threshold, int fill,
                                             uint first, uint end)
{
    const uint i = ITEM;

    if (i >= end)
        return;
    const int cell = cell_of(pixels, up, top, i, threshold, fill);

    if (cell >= 0 && first_voxel[cell] == (int)i)
        list[atomic_inc(count)] = (int)i;
}

/* Sets first_voxel[maximum] to ~label. list: the cells' first voxels in ascending order; entry i
 * gets label i + 1. A work-item processes an entry. */
__kernel GROUP_ATTRIBUTE void ws_number_cells(__global const int *up, __global const int *top,
                                              __global int *first_voxel, __global const int *list,
                                              uint first, uint end)
{
    if (ITEM < end)
        first_voxel[up[top[list[ITEM]]]] = ~((int)ITEM + 1);
}

/* Replaces top[i] by the label of voxel i, or by 0 if the voxel is membrane that belongs to no
 * cell. Adds the number of these membrane voxels to *count. A work-item processes a voxel. */
__kernel GROUP_ATTRIBUTE void ws_label(__global const PIXEL *pixels, __global const int *up,
                                       __global int *top, __global const int *first_voxel,
                                       volatile __global int *count, uint threshold, int fill,
                                       uint first, uint end)
{
    volatile __local int membrane;
    const uint i = ITEM;

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
