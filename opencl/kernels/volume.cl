/*
 * The OpenCL kernels that find volume's cells as components surrounded by membrane, for a stack or
 * a slab (some slices of a stack) of nx * ny * nz voxels, fewer than 2^30, numbered in raster
 * order.
 *
 * The mask has a bit for each voxel, 0 for membrane: voxel x is bit x % 32 of word x / 32 of its
 * row; rows are `stride` words apart, and the bits beyond nx are 0.
 *
 * A work-group labels a tile of 32 x 8 x 8 voxels in local memory. A component within a tile is
 * called a part. Part 0, the "outside", consists of all components that touch the stack's border;
 * the other parts are numbered in the order in which the work-groups happen to run. plane[i] is the
 * part of voxel i, or -1 for membrane, until vol_paint replaces it by the result. Parts are joined
 * across the faces of tiles. These arrays have an element for each part p:
 *   link[p]   the parent of part p in the union-find; later, if p is a root, the first voxel of the
 *             cell that p represents
 *   first[p]  the first voxel of part p; later the value that the part's voxels get as the result
 *   root[p]   the root of part p
 *
 * Finally the mask is reused to mark the first voxel of each cell: a cell's label is 1 + the number
 * of marks before its own.
 *
 * Macros: GROUP, the size of a work-group (64 to 256, a power of 2); PIXEL, the type of a grey
 * value; PIXEL8, a vector of eight PIXELs.
 */
//! check: -DGROUP=64 -DPIXEL=uchar -DPIXEL8=uchar8
//! check: -DGROUP=256 -DPIXEL=ushort -DPIXEL8=ushort8
#ifndef GROUP
#define GROUP 256
#endif
#ifndef PIXEL
#define PIXEL uchar
#define PIXEL8 uchar8
#endif
#include "app/analysis/volume/core.h"
#include "app/analysis/volume/layout.h"
#include "opencl/kernels/runs.h"
#include "opencl/kernels/union_find.h"

#define TX_LOG 5               /* log2(VOL_TX) */
#define TY_LOG 3               /* log2(VOL_TY) */
#define ROWS (VOL_TY * VOL_TZ) /* rows of a tile, which are numbered z * VOL_TY + y */
#define GROUP_ATTRIBUTE __attribute__((reqd_work_group_size(GROUP, 1, 1)))
#include "opencl/kernels/volume_table.h"

/* Makes the mask. Global size: x: bytes of a row; y: rows. A work-item makes a byte, the bits of
 * eight voxels. Row pixel_row + i of `pixels` becomes row first_row + i of the mask. */
__kernel GROUP_ATTRIBUTE void vol_mask(__global const PIXEL *pixels, __global uchar *mask, int nx,
                                       int stride, uint pixel_row, uint first_row, uint threshold)
{
    const int at = (int)get_global_id(0), x0 = at * 8, n = TC_MIN(8, nx - x0);
    const size_t row = get_global_id(1);
    __global const PIXEL *const from = pixels + (pixel_row + row) * nx + x0;
    uint bits = 0;

    if (at >= 4 * stride)
        return;
    if ((nx & 7) == 0 && n == 8) {
        const PIXEL8 v = *(__global const PIXEL8 *)from;

        const PIXEL values[8] = { v.s0, v.s1, v.s2, v.s3, v.s4, v.s5, v.s6, v.s7 };

        for (int k = 0; k < 8; k++)
            bits |= (uint)!vol_is_membrane(values[k], threshold) << k;
    } else {
        for (int k = 0; k < n; k++)
            bits |= (uint)!vol_is_membrane(from[k], threshold) << k;
    }
    mask[(first_row + row) * 4 * stride + at] = (uchar)bits;
}

/* --- parts ----------------------------------------------------------------------------------- */

/*
 * Labels tiles: finds the parts of each tile, and sets plane, link and first. A work-group labels a
 * tile; layers of tiles (z) are numbered from first_layer on. Adds the number of new parts to
 * *n_parts. link and first have `room` elements; further parts are counted, but not written.
 * z_before: the number of slices of the stack before this slab. z_all: the number of slices of the
 * stack. through: whether slices are connected with each other. A uniform tile, which has no
 * membrane or nothing but membrane, is processed without finding runs.
 */
__kernel GROUP_ATTRIBUTE void vol_tiles(__global const uint *mask, __global int *plane,
                                        volatile __global int *n_parts, __global int *link,
                                        __global int *first, int room, int nx, int ny, int nz,
                                        int stride, int first_layer, int z_before, int z_all,
                                        int through)
{
    volatile __local int node[1 + VOL_TX * ROWS];
    __local uint rows[ROWS];
    /* parts: the number of the tile's parts; any_inside: whether the tile has voxels that are not
     * membrane; any_membrane: whether it has membrane; base: the number of its first part */
    volatile __local int parts, any_inside, any_membrane;
    __local int base;
    const int local_id = (int)get_local_id(0);
    const int x0 = (int)get_group_id(0) * VOL_TX, y0 = (int)get_group_id(1) * VOL_TY;
    const int z0 = ((int)get_group_id(2) + first_layer) * VOL_TZ;
    /* If right < 32, the tile contains the end of the stack's rows, and this is the last voxel's
     * bit.
     */
    const int right = nx - 1 - x0;

    if (local_id == 0)
        parts = any_inside = any_membrane = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int row = local_id; row < ROWS; row += GROUP) {
        const int y = y0 + (row & (VOL_TY - 1)), z = z0 + (row >> TY_LOG);
        const uint word =
            y < ny && z < nz ? mask[((size_t)z * ny + y) * stride + get_group_id(0)] : 0;

        rows[row] = word;
        if (word != 0)
            atomic_or(&any_inside, 1);
        if (word != ~0u)
            atomic_or(&any_membrane, 1);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    /* Node 1 + 32 row + x is the run that starts at voxel x of the tile's row, node 0 is the
     * outside. A work-item processes the runs that start in one byte of a row. */
    const int is_uniform = !any_inside || (!any_membrane && through),
              bytes = is_uniform ? 0 : 4 * ROWS;

    for (int k = local_id; k < bytes; k += GROUP) {
        const int row = k >> 2, y = y0 + (row & (VOL_TY - 1)), z = z_before + z0 + (row >> TY_LOG);
        const uint word = rows[row];
        const int edge = vol_is_border_row(y, z, ny, z_all, through);
        const int last = right < VOL_TX && word >> right & 1 ? run_start(word, right) : -1;

        for (uint rest = starts_of(word) & (0xffu << 8 * (k & 3)); rest != 0; rest &= rest - 1) {
            const int x = lowest_bit(rest);

            node[1 + 32 * row + x] =
                vol_is_border_run(edge, x0 + x, x == last ? nx : 0, nx) ? 0 : 1 + 32 * row + x;
        }
    }
    if (local_id == 0)
        node[0] = 0;
    /* A uniform tile has one part, node 1, or is outside if it touches the stack's border. */
    if (local_id == 0 && is_uniform)
        node[1] = x0 == 0 || right < VOL_TX || y0 == 0 || y0 + VOL_TY == ny || z_before + z0 == 0 ||
                          z_before + z0 + VOL_TZ == z_all
                      ? 0
                      : 1;
    barrier(CLK_LOCAL_MEM_FENCE);
    /* Joins each row's runs with those of the row above it in the slice, and with those of the same
     * row in the previous slice: once for each sequence of voxels that belong to runs of both rows.
     * (PoCL 3.1 compiles two calls instead of a loop to wrong code.) */
    for (int k = local_id; k < bytes; k += GROUP) {
        const int row = k >> 2;

        for (int d = 0; d < 2; d++) {
            const int other = d == 0 ? row - 1 : row - VOL_TY;
            const int has_neighbour = d == 0 ? (row & (VOL_TY - 1)) > 0 : through && row >= VOL_TY;
            uint rest =
                has_neighbour ? starts_of(rows[row] & rows[other]) & (0xffu << 8 * (k & 3)) : 0;

            for (; rest != 0; rest &= rest - 1) {
                const int x = lowest_bit(rest);

                unite_in_tile(node, 1 + 32 * row + run_start(rows[row], x),
                              1 + 32 * other + run_start(rows[other], x));
            }
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    /* Numbers the roots of the tile: sets node[i] to ~number, which is < 0, unlike a link. (The
     * variable `end` exists because PoCL 6's compiler aborts if a loop's condition reads local
     * memory.) */
    const int end = is_uniform ? any_inside : bytes;

    for (int k = local_id; k < end; k += GROUP)
        for (uint rest = starts_of(rows[k >> 2]) & (0xffu << 8 * (k & 3)); rest != 0;
             rest &= rest - 1) {
            const int i = 1 + 32 * (k >> 2) + lowest_bit(rest);

            if (node[i] == i)
                node[i] = ~atomic_inc(&parts);
        }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (local_id == 0)
        base = parts > 0 ? atomic_add(n_parts, parts) : 0;
    if (local_id + x0 + y0 + z0 == 0)
        link[0] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = local_id; k < VOL_TX * ROWS; k += GROUP) {
        const int row = k >> TX_LOG, x = k & (VOL_TX - 1), y = y0 + (row & (VOL_TY - 1)),
                  z = z0 + (row >> TY_LOG);
        const size_t at = ((size_t)z * ny + y) * nx + x0 + x;
        int part = -1;

        if (x0 + x >= nx || y >= ny || z >= nz)
            continue;
        if (rows[row] >> x & 1) {
            const int start = is_uniform ? 1 : 1 + 32 * row + run_start(rows[row], x);
            int i = start;

            while (i > 0 && node[i] >= 0)
                i = node[i];
            part = i == 0 ? 0 : base + ~node[i];
            /* The part's first voxel: in raster order within the tile, the voxels have the same
             * order as in the stack. */
            if (i == 1 + k && part < room) {
                link[part] = part;
                first[part] = (int)at;
            }
        }
        plane[at] = part;
    }
}

/* --- where tiles meet ------------------------------------------------------------------------ */

/* Returns word number `word` of the mask's row y in slice z. */
static uint word_of(__global const uint *mask, int ny, int stride, int word, int y, int z)
{
    return mask[((size_t)z * ny + y) * stride + word];
}

/*
 * Joins parts across the faces of tiles: the parts of each tile with the parts of the previous
 * tiles along x, y and z. Global size: x: the words of all rows of a slice; y: slices from first_z
 * on. A work-item processes a word. It joins two parts once for each run of voxels that have a
 * neighbour across the face. It skips a run if the row above, or the row in the previous slice, is
 * in the same tile and joins the same parts where the run begins.
 */
__kernel GROUP_ATTRIBUTE void vol_join(__global const uint *mask, __global const int *plane,
                                       volatile __global int *link, int nx, int ny, int stride,
                                       int first_z, int through)
{
    const int at = (int)get_global_id(0), z = first_z + (int)get_global_id(1);
    const int y = at / stride, tile = at - y * stride;

    if (y >= ny)
        return;
    const uint here = word_of(mask, ny, stride, tile, y, z);
    /* Whether the row above (y) and the row in the previous slice (z) are in the same tile. */
    const int same_tile_y = (y & (VOL_TY - 1)) > 0, same_tile_z = through && (z & (VOL_TZ - 1)) > 0;

    for (int d = 0; d < 3; d++) {
        const int dx = d == 0, dy = d == 1, dz = d == 2;
        const int has_neighbour = d == 0   ? tile > 0
                                  : d == 1 ? !same_tile_y && y > 0
                                           : through && !same_tile_z && z > 0;
        uint both = 0;

        if (!has_neighbour)
            continue;
        /* Finds the first voxel of each run with neighbours across the face (d == 0: voxel 0 of the
         * word, whose neighbour is bit 31 of the previous word). Then removes the voxels where the
         * row above or the row in the previous slice joins the same parts. */
        if (d == 0)
            both = here & word_of(mask, ny, stride, tile - 1, y, z) >> 31;
        else
            both = starts_of(here & word_of(mask, ny, stride, tile, y - dy, z - dz));
        if (both != 0 && same_tile_y) {
            const uint up = word_of(mask, ny, stride, tile, y - 1, z);

            both &= ~(up & (d == 0 ? word_of(mask, ny, stride, tile - 1, y - 1, z) >> 31
                                   : word_of(mask, ny, stride, tile, y - 1, z - dz)));
        }
        if (both != 0 && same_tile_z) {
            const uint back = word_of(mask, ny, stride, tile, y, z - 1);

            both &= ~(back & (d == 0 ? word_of(mask, ny, stride, tile - 1, y, z - 1) >> 31
                                     : word_of(mask, ny, stride, tile, y - dy, z - 1)));
        }
        for (; both != 0; both &= both - 1) {
            const size_t i = ((size_t)z * ny + y) * nx + 32 * tile + lowest_bit(both);

            uf_union_shared(link, plane[i],
                            plane[i - dx - (dy ? nx : 0) - (dz ? (size_t)nx * ny : 0)]);
        }
    }
}

/* --- labels ---------------------------------------------------------------------------------- */

/* Sets root[p] to the root of part p. A work-item processes a part. */
__kernel GROUP_ATTRIBUTE void vol_roots(__global const int *link, __global int *root, int parts)
{
    const int p = (int)get_global_id(0);
    int i = p;

    if (p >= parts)
        return;
    while (link[i] != i)
        i = link[i];
    root[p] = i;
}

/* Sets the elements of `link`, which vol_first_voxels uses as first_voxel, to INT_MAX, and clears
 * the first `words` words of the mask. */
__kernel GROUP_ATTRIBUTE void vol_clear(__global int *link, __global uint *mask, int parts,
                                        uint words)
{
    const size_t i = get_global_id(0);

    if (i < parts)
        link[i] = INT_MAX;
    if (i < words)
        mask[i] = 0;
}

/* Sets first_voxel[root] to the first voxel of the root's cell: the least of the first voxels of
 * the cell's parts. A work-item processes a part. */
__kernel GROUP_ATTRIBUTE void vol_first_voxels(volatile __global int *first_voxel,
                                               __global const int *first, __global const int *root,
                                               int parts)
{
    const int p = (int)get_global_id(0);

    if (p > 0 && p < parts && root[p] > 0)
        atomic_min(&first_voxel[root[p]], first[p]);
}

/* Marks the first voxel of each cell in the mask: bit i % 32 of word i / 32 for voxel i. A
 * work-item processes a part. */
__kernel GROUP_ATTRIBUTE void vol_mark_firsts(__global const int *first_voxel,
                                              __global const int *root,
                                              volatile __global uint *mask, int parts)
{
    const int p = (int)get_global_id(0);

    if (p > 0 && p < parts && root[p] == p)
        atomic_or(&mask[first_voxel[p] >> 5], 1u << (first_voxel[p] & 31));
}

/* Sets counts[chunk] to the number of marks in the chunk, which is VOL_WORDS_PER_ITEM words of the
 * mask. A work-item counts the marks of a chunk. */
__kernel GROUP_ATTRIBUTE void vol_count(__global const uint *mask, __global int *counts, uint words,
                                        int chunks)
{
    const int chunk = (int)get_global_id(0);
    uint sum = 0;

    if (chunk >= chunks)
        return;
    for (uint i = chunk * VOL_WORDS_PER_ITEM;
         i < TC_MIN(words, (uint)(chunk + 1) * VOL_WORDS_PER_ITEM); i++)
        sum += popcount(mask[i]);
    counts[chunk] = (int)sum;
}

/* Replaces the count of each chunk by the sum of the counts before it, and sets counts[chunks] to
 * the sum of all counts. For a launch of one work-group. */
__kernel GROUP_ATTRIBUTE void vol_scan(__global int *counts, int chunks)
{
    __local int sums[2][GROUP];
    const int local_id = (int)get_local_id(0), share = (chunks + GROUP - 1) / GROUP;
    const int begin = TC_MIN(local_id * share, chunks), end = TC_MIN(begin + share, chunks);
    int sum = 0, from = 0; /* sum of the work-item's share; index in sums of the array to read */

    for (int i = begin; i < end; i++)
        sum += counts[i];
    sums[0][local_id] = sum;
    for (int step = 1; step < GROUP; step *= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        sums[1 - from][local_id] =
            sums[from][local_id] + (local_id >= step ? sums[from][local_id - step] : 0);
        from = 1 - from;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    int before = sums[from][local_id] - sum;

    for (int i = begin; i < end; i++) {
        const int count_here = counts[i];

        counts[i] = before;
        before += count_here;
    }
    if (local_id == GROUP - 1)
        counts[chunks] = before;
}

/*
 * Sets values[p] to the value that the voxels of part p get as the result. A work-item processes a
 * part. For a whole stack, voxels_before is negative, and the value is the cell's label, or
 * `outside` for the outside. For a slab, voxels_before is the number of voxels of the stack before
 * the slab. The value is then a link in the form that the state has: ~(1 + the first voxel of the
 * cell in the stack), or ~0 for the outside.
 */
__kernel GROUP_ATTRIBUTE void vol_values(__global const int *first_voxel, __global const int *root,
                                         __global const uint *mask, __global const int *counts,
                                         __global int *values, int parts, int voxels_before,
                                         int outside)
{
    const int p = (int)get_global_id(0);

    if (p >= parts)
        return;
    if (p == 0 || root[p] == 0) {
        values[p] = voxels_before >= 0 ? ~0 : outside;
        return;
    }
    const int at = first_voxel[root[p]], chunk = at / (32 * VOL_WORDS_PER_ITEM);

    if (voxels_before >= 0) {
        values[p] = ~(1 + voxels_before + at);
        return;
    }
    int label = counts[chunk] + 1 + (int)popcount(mask[at >> 5] & ((1u << (at & 31)) - 1));

    for (int word = chunk * VOL_WORDS_PER_ITEM; word < at >> 5; word++)
        label += (int)popcount(mask[word]);
    values[p] = label;
}

/* Replaces the parts of voxels [first, end) by the values of vol_values, and membrane by 0. A
 * work-item processes VOL_VOXELS_PER_ITEM voxels. Adds the number of voxels of membrane to
 * totals[0], and the number of voxels that get the value `outside` to totals[1]. */
__kernel GROUP_ATTRIBUTE void vol_paint(__global int *plane, __global const int *values,
                                        volatile __global int *totals, uint first, uint end,
                                        int outside)
{
    volatile __local int sums[2];
    const int local_id = (int)get_local_id(0);
    const uint base = first + (uint)get_group_id(0) * GROUP * VOL_VOXELS_PER_ITEM + local_id;
    int membrane = 0, n_outside = 0;

    if (local_id < 2)
        sums[local_id] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint k = 0; k < VOL_VOXELS_PER_ITEM; k++) {
        const uint i = base + k * GROUP;

        if (i < end) {
            const int part = plane[i], value = part < 0 ? 0 : values[part];

            membrane += part < 0;
            n_outside += part >= 0 && value == outside;
            plane[i] = value;
        }
    }
    if (membrane > 0)
        atomic_add(&sums[0], membrane);
    if (n_outside > 0)
        atomic_add(&sums[1], n_outside);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (local_id < 2 && sums[local_id] > 0)
        atomic_add(&totals[local_id], sums[local_id]);
}
