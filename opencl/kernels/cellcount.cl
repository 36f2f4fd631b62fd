/*
 * The device's part of cellcount. Planes are [ny][nx], n = nx * ny <= 2^30.
 *
 * Components: a work-group labels a tile of TILE x TILE pixels in local memory;
 * tiles are then joined along their edges in global memory. link[i] is the
 * parent of pixel i, itself for a root, -1 for a pixel that takes no part. The
 * root of a component is its smallest index: every union lets a larger root
 * point to a smaller one by atomic_min, and goes on with the value that was
 * there until both ends agree. Each retry is at a smaller index, so it ends
 * however work-items are scheduled.
 *
 * Where links are only read, nobody changes them.
 *
 * GROUP is the size of a work-group, a multiple of TILE (64 to 256).
 */
//! check: -DGROUP=64
//! check: -DGROUP=256
#ifndef GROUP
#define GROUP 256
#endif
#include "app/analysis/core.h"
#include "app/analysis/cellcount_core.h"
#include "app/analysis/edt_core.h"

#define TILE 32
#define TILE_LOG 5
#define PER_ITEM 16                       /* pixels of a work-item where pixels are counted */
#define CHUNK (GROUP * PER_ITEM)          /* and of a work-group */
#define GROUP_ATTRIBUTE __attribute__((reqd_work_group_size(GROUP, 1, 1)))

/* --- threshold -------------------------------------------------------------------- */

/* Adds the grey values of pixels [first, end) to histogram[256 or 65536]. */
__kernel GROUP_ATTRIBUTE void cc_histogram8(__global const uchar *pixels, volatile __global uint *histogram,
                                            uint first, uint end)
{
    volatile __local uint bins[256];
    const uint me = (uint)get_local_id(0);

    for (uint b = me; b < 256; b += GROUP)
        bins[b] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = first + (uint)get_global_id(0); i < end; i += (uint)get_global_size(0))
        atomic_inc(&bins[pixels[i]]);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint b = me; b < 256; b += GROUP)
        if (bins[b] > 0)
            atomic_add(&histogram[b], bins[b]);
}

__kernel GROUP_ATTRIBUTE void cc_histogram16(__global const ushort *pixels, volatile __global uint *histogram,
                                             uint first, uint end)
{
    for (uint i = first + (uint)get_global_id(0); i < end; i += (uint)get_global_size(0))
        atomic_inc(&histogram[pixels[i]]);
}

/* mask: 1 for cells. */
__kernel GROUP_ATTRIBUTE void cc_mask8(__global const uchar *pixels, __global uchar *mask, uint first, uint end,
                                       uint threshold, uint bright)
{
    const uint i = first + (uint)get_global_id(0);

    if (i < end)
        mask[i] = (uchar)((pixels[i] < threshold) ^ (bright != 0));
}

__kernel GROUP_ATTRIBUTE void cc_mask16(__global const ushort *pixels, __global uchar *mask, uint first, uint end,
                                        uint threshold, uint bright)
{
    const uint i = first + (uint)get_global_id(0);

    if (i < end)
        mask[i] = (uchar)((pixels[i] < threshold) ^ (bright != 0));
}

/* --- components ------------------------------------------------------------------- */

/* Links are read while others change them: what is read is the parent of now or
 * of before, and either leads to the root. Oclgrind reports these reads as races
 * with atomic_min, which they are meant to be. (Reading by atomic_or(.., 0) gave
 * wrong links with PoCL, for a reason not yet found.) The compiler takes one function
 * for each address space. */
static int find_local(volatile __local int *node, int i)
{
    int parent = node[i];

    while (parent != i) {
        i = parent;
        parent = node[i];
    }
    return i;
}

static void union_local(volatile __local int *node, int a, int b)
{
    for (;;) {
        a = find_local(node, a);
        b = find_local(node, b);
        if (a == b)
            return;
        const int larger = max(a, b), smaller = min(a, b);
        const int before = atomic_min(&node[larger], smaller);

        if (before == larger)
            return;
        /* It had got another parent: that and the smaller one are to be joined. */
        a = before;
        b = smaller;
    }
}

static int find_global(volatile __global int *node, int i)
{
    int parent = node[i];

    while (parent != i) {
        i = parent;
        parent = node[i];
    }
    return i;
}

static void union_global(volatile __global int *node, int a, int b)
{
    for (;;) {
        a = find_global(node, a);
        b = find_global(node, b);
        if (a == b)
            return;
        const int larger = max(a, b), smaller = min(a, b);
        const int before = atomic_min(&node[larger], smaller);

        if (before == larger)
            return;
        /* It had got another parent: that and the smaller one are to be joined. */
        a = before;
        b = smaller;
    }
}

/* Pixels where mask == kind, in tiles from row first_tile of tiles on: link
 * becomes the root within the tile. */
__kernel GROUP_ATTRIBUTE void cc_tiles(__global const uchar *mask, __global int *link, int nx, int ny,
                                       int first_tile, int kind, int diagonal)
{
    volatile __local int node[TILE * TILE];
    volatile __local uint rows[TILE];
    const int lx = (int)get_local_id(0) & (TILE - 1), first_row = (int)get_local_id(0) >> TILE_LOG;
    const int x0 = (int)get_group_id(0) * TILE, y0 = ((int)get_group_id(1) + first_tile) * TILE;

    if (first_row == 0)
        rows[lx] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int ly = first_row; ly < TILE; ly += GROUP / TILE)
        if (x0 + lx < nx && y0 + ly < ny && mask[(y0 + ly) * nx + x0 + lx] == kind)
            atomic_or(&rows[ly], 1u << lx);
    barrier(CLK_LOCAL_MEM_FENCE);
    /* A pixel begins as a child of the first of its run. */
    for (int ly = first_row; ly < TILE; ly += GROUP / TILE) {
        const uint gaps = ~rows[ly] & ((1u << lx) - 1);

        node[ly * TILE + lx] = ly * TILE + (gaps != 0 ? TILE - (int)clz(gaps) : 0);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int ly = first_row; ly < TILE; ly += GROUP / TILE) {
        const uint row = rows[ly], above = ly > 0 ? rows[ly - 1] : 0;
        const int i = ly * TILE + lx;
        /* The neighbours to the left and right, in both rows. */
        const int left = (row << 1 >> lx) & 1, right = (row >> lx >> 1) & 1;
        const int above_left = (above << 1 >> lx) & 1, above_right = (above >> lx >> 1) & 1;

        if ((row & above) >> lx & 1) {
            if (!(left && above_left))      /* else the left pixel does it */
                union_local(node, i, i - TILE);
        } else if (diagonal && (row >> lx & 1)) {
            if (above_left && !left)
                union_local(node, i, i - TILE - 1);
            if (above_right && !right)
                union_local(node, i, i - TILE + 1);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int ly = first_row; ly < TILE; ly += GROUP / TILE) {
        int i = ly * TILE + lx, at = -1;

        if (x0 + lx >= nx || y0 + ly >= ny)
            continue;
        if (rows[ly] >> lx & 1) {
            while (node[i] != i)
                i = node[i];
            at = (y0 + (i >> TILE_LOG)) * nx + x0 + (i & (TILE - 1));
        }
        link[(y0 + ly) * nx + x0 + lx] = at;
    }
}

static int is_kind(__global const uchar *mask, int nx, int ny, int x, int y, int kind)
{
    return x >= 0 && x < nx && y >= 0 && y < ny && mask[y * nx + x] == kind;
}

/* Across the upper edges of tile rows first_tile.. (>= 1); along x: pixels. */
__kernel GROUP_ATTRIBUTE void cc_join_rows(__global const uchar *mask, volatile __global int *link, int nx, int ny,
                                           int first_tile, int kind, int diagonal)
{
    const int x = (int)get_global_id(0), y = ((int)get_global_id(1) + first_tile) * TILE;
    const int i = y * nx + x;

    if (x >= nx || y >= ny || mask[i] != kind)
        return;
    const int left = is_kind(mask, nx, ny, x - 1, y, kind);
    const int above_left = is_kind(mask, nx, ny, x - 1, y - 1, kind);

    if (mask[i - nx] == kind) {
        if (!(left && above_left))
            union_global(link, i, i - nx);
    } else if (diagonal) {
        if (above_left && !left)
            union_global(link, i, i - nx - 1);
        if (is_kind(mask, nx, ny, x + 1, y - 1, kind) && !is_kind(mask, nx, ny, x + 1, y, kind))
            union_global(link, i, i - nx + 1);
    }
}

/* Across the left edges of tile columns 1.., in rows from first_row; along x:
 * rows, along y: tile columns. */
__kernel GROUP_ATTRIBUTE void cc_join_columns(__global const uchar *mask, volatile __global int *link, int nx,
                                              int ny, int first_row, int end_row, int kind, int diagonal)
{
    const int y = first_row + (int)get_global_id(0), x = ((int)get_global_id(1) + 1) * TILE;
    const int i = y * nx + x;

    if (y >= end_row || x >= nx || mask[i] != kind)
        return;
    if (mask[i - 1] == kind) {
        /* Two rows of one tile that are joined there need one union. */
        if ((y & (TILE - 1)) == 0 || mask[i - nx] != kind || mask[i - nx - 1] != kind)
            union_global(link, i, i - 1);
    } else if (diagonal) {
        if (is_kind(mask, nx, ny, x - 1, y - 1, kind))
            union_global(link, i, i - nx - 1);
        if (is_kind(mask, nx, ny, x - 1, y + 1, kind))
            union_global(link, i, i + nx - 1);
    }
}

/* --- holes ------------------------------------------------------------------------ */

/* The pixels along the border, 2 nx + 2 ny of them (corners twice). */
static int border_pixel(int k, int nx, int ny)
{
    if (k < nx)
        return k;
    k -= nx;
    if (k < nx)
        return (ny - 1) * nx + k;
    k -= nx;
    return k < ny ? k * nx : (k - ny) * nx + nx - 1;
}

/* Roots of the ground at the border; -1 where there is a cell. */
__kernel GROUP_ATTRIBUTE void cc_border_roots(__global const int *link, __global int *roots, int nx, int ny)
{
    const int k = (int)get_global_id(0);

    if (k >= 2 * (nx + ny))
        return;
    int i = border_pixel(k, nx, ny), parent = link[i];

    while (parent >= 0 && parent != i) {
        i = parent;
        parent = link[i];
    }
    roots[k] = parent;
}

__kernel GROUP_ATTRIBUTE void cc_mark_outside(volatile __global int *link, __global const int *roots, int nx, int ny)
{
    const int k = (int)get_global_id(0);

    if (k < 2 * (nx + ny) && roots[k] >= 0)
        atomic_xchg(&link[roots[k]], -1);
}

/* Ground that does not lead to a marked root becomes cell. */
__kernel GROUP_ATTRIBUTE void cc_fill(__global const int *link, __global uchar *mask, uint first, uint end)
{
    const uint at = first + (uint)get_global_id(0);

    if (at >= end || mask[at] != 0)
        return;
    int i = (int)at, parent = link[i];

    while (parent >= 0 && parent != i) {
        i = parent;
        parent = link[i];
    }
    if (parent >= 0)
        mask[at] = 1;
}

/* --- labels ------------------------------------------------------------------------ */

/* counts[chunk]: roots of CHUNK pixels. */
__kernel GROUP_ATTRIBUTE void cc_count(__global const int *link, __global uint *counts, uint first_chunk, uint n)
{
    volatile __local uint sum;
    const uint chunk = first_chunk + (uint)get_group_id(0);
    const uint base = chunk * CHUNK + (uint)get_local_id(0);
    uint mine = 0;

    if (get_local_id(0) == 0)
        sum = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint k = 0; k < PER_ITEM; k++) {
        const uint i = base + k * GROUP;

        mine += i < n && link[i] == (int)i;
    }
    if (mine > 0)
        atomic_add(&sum, mine);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (get_local_id(0) == 0)
        counts[chunk] = sum;
}

/* Roots become ~label; labels of a chunk begin after before[chunk]. */
__kernel GROUP_ATTRIBUTE void cc_number(__global int *link, __global const uint *before, uint first_chunk, uint n)
{
    __local uint sums[2][GROUP];
    const uint me = (uint)get_local_id(0), chunk = first_chunk + (uint)get_group_id(0);
    const uint base = chunk * CHUNK + me * PER_ITEM;
    uint mine = 0, roots = 0, from = 0;

    for (uint k = 0; k < PER_ITEM; k++)
        if (base + k < n && link[base + k] == (int)(base + k)) {
            roots |= 1u << k;
            mine++;
        }
    sums[0][me] = mine;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint step = 1; step < GROUP; step *= 2) {
        sums[1 - from][me] = sums[from][me] + (me >= step ? sums[from][me - step] : 0);
        from = 1 - from;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    int label = (int)(before[chunk] + sums[from][me] - mine);

    for (uint k = 0; k < PER_ITEM; k++)
        if (roots >> k & 1)
            link[base + k] = ~++label;
}

/* The label of every pixel, 0 for none. */
__kernel GROUP_ATTRIBUTE void cc_paint(__global const int *link, __global int *labels, uint first, uint end)
{
    const uint i = first + (uint)get_global_id(0);

    if (i >= end)
        return;
    int v = link[i];

    while (v >= 0)
        v = link[v];
    labels[i] = ~v;
}

/* The root of every pixel, -1 for none. */
__kernel GROUP_ATTRIBUTE void cc_roots(__global const int *link, __global int *roots, uint first, uint end)
{
    const uint at = first + (uint)get_global_id(0);

    if (at >= end)
        return;
    int i = (int)at, parent = link[i];

    while (parent >= 0 && parent != i) {
        i = parent;
        parent = link[i];
    }
    roots[at] = parent;
}

/* --- split ------------------------------------------------------------------------- */

/* The squared distance to the nearest ground in the same column; one work-item
 * for each of the columns from first on. */
__kernel GROUP_ATTRIBUTE void cc_distance_columns(__global const uchar *mask, __global uint *d2, uint first,
                                                  uint end, uint nx, uint ny)
{
    const uint x = first + (uint)get_global_id(0);
    uint d = EDT_FAR;

    if (x >= end)
        return;
    for (uint y = 0; y < ny; y++) {
        if (mask[y * nx + x] == 0)
            d = 0;
        else if (d != EDT_FAR)
            d++;
        d2[y * nx + x] = d;
    }
    d = EDT_FAR;
    for (uint y = ny; y-- > 0;) {
        const uint up = d2[y * nx + x];

        if (up == 0)
            d = 0;
        else if (d != EDT_FAR)
            d++;
        const uint least = up < d ? up : d;
        d2[y * nx + x] = least == EDT_FAR ? EDT_FAR : least * least;
    }
}

/* The least of column[u] + (x - u)^2 along a row: from the pixel outwards, as
 * long as something can be nearer. */
__kernel GROUP_ATTRIBUTE void cc_distance_rows(__global const uint *columns, __global uint *d2, uint first, uint end,
                                               uint nx)
{
    const uint i = first + (uint)get_global_id(0);

    if (i >= end)
        return;
    const uint x = i % nx;
    uint best = columns[i];

    for (uint step = 1; (x >= step || x + step < nx) && (ulong)step * step < best; step++) {
        if (x >= step) {
            const uint v = edt_value(columns[i - step], 0, step);

            best = v < best ? v : best;
        }
        if (x + step < nx) {
            const uint v = edt_value(columns[i + step], 0, step);

            best = v < best ? v : best;
        }
    }
    d2[i] = best;
}

__kernel GROUP_ATTRIBUTE void cc_ascend(__global const uint *d2, __global int *up, uint first, uint end, int nx,
                                        int ny, int neighbours)
{
    const uint i = first + (uint)get_global_id(0);

    if (i >= end)
        return;
    const int y = (int)(i / (uint)nx), x = (int)i - y * nx;

    up[i] = d2[i] == 0 ? -1 : cc_highest(d2, nx, ny, x, y, neighbours);
}
