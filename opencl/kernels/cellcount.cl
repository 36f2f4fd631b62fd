/*
 * The device's part of cellcount. A picture is nx x ny, n = nx * ny <= 2^30.
 *
 * The mask has a bit for each pixel: pixel x is bit x % 32 of word x / 32 of its
 * row; rows are `stride` words apart, and the bits beyond nx are 0. The kind of a
 * component is 1 for cells, 0 for the background.
 *
 * Components are a union-find over nodes. With connectivity 4 a pixel is a
 * node, [ny][nx]. With connectivity 8 the pixels of a block of 2 x 2 are always
 * connected, and are one node: nodes are pairs of pixels, [ny][(nx + 1) / 2], and
 * a block's is the upper of its pairs that is not empty. So nodes have the order
 * of the raster in their first pixels.
 *
 * link[i] is the parent of node i, itself for a root, -1 for what is no node.
 * A root is the smallest of its component. A work-group labels a tile of CC_TILE x
 * CC_TILE pixels in local memory; tiles are then joined along their edges in global
 * memory. While links are changed they are touched by atomic functions only; they are
 * read in launches in which nobody changes them.
 *
 * GROUP is the size of a work-group, a multiple of CC_TILE (64 to 256); PIXEL the
 * type of a grey value, SUM one that holds sums of a window or a filter; PREPARE: with the steps before the threshold.
 */
//! check: -DGROUP=64 -DPIXEL=uchar -DSUM=uint -DPREPARE
//! check: -DGROUP=256 -DPIXEL=ushort -DSUM=ulong -DPREPARE
#ifndef GROUP
#define GROUP 256
#endif
#ifndef PIXEL
#define PIXEL uchar
#define SUM uint
#endif
#include "app/analysis/common/core.h"
#include "app/analysis/common/watershed_core.h"
#include "app/analysis/cellcount/core.h"
#include "app/analysis/cellcount/layout.h"
#include "opencl/kernels/union_find.h"
#include "opencl/kernels/wide.h"

#define GROUP_ATTRIBUTE __attribute__((reqd_work_group_size(GROUP, 1, 1)))

#ifdef PREPARE
#include "opencl/kernels/cellcount_prepare.h"
#endif

/* What is background has distance 0. */
#define EDT_SIDE(l, i) ((l)->d2[i] != 0 ? 1u : 0u)
#define EDT_WANTED(inside) (inside)
#include "opencl/kernels/edt.h"

#define TILE_LOG 5
#define BLOCKS (CC_TILE / 2)              /* of 2 x 2, along a side of a tile */
#define BLOCKS_LOG 4
#define CHUNK (GROUP * CC_PER_ITEM)       /* nodes of a work-group where they are counted */

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

/* The words of the mask of rows from first_row on; along x: words, along y: rows. */
__kernel GROUP_ATTRIBUTE void cc_mask(__global const PIXEL *pixels, __global uint *mask, int nx, int stride,
                                      int first_row, uint threshold, int bright)
{
    const int word = (int)get_global_id(0), y = (int)get_global_id(1) + first_row, x0 = word * 32;
    const int n = min(32, nx - x0);
    uint bits = 0;

    if (word >= stride)
        return;
    for (int k = 0; k < n; k++)
        bits |= (uint)(pixels[y * nx + x0 + k] < threshold) << k;
    mask[y * stride + word] = n > 0 ? (uint)cc_cells(bits, n, bright) : 0;
}

/* --- components ------------------------------------------------------------------- */

/* The root of a node, or what is < 0 at the end of its way. */
static int root_of(__global const int *link, int i)
{
    int parent = link[i];

    while (parent >= 0 && parent != i) {
        i = parent;
        parent = link[i];
    }
    return parent;
}

/* A word of the pixels of a kind; 0 outside of the picture. */
static uint word_at(__global const uint *mask, int nx, int ny, int stride, int word, int y, int kind)
{
    const int n = nx - word * 32;

    if (word < 0 || n <= 0 || y < 0 || y >= ny)
        return 0;
    const uint bits = mask[y * stride + word] ^ (kind ? 0 : ~0u);

    return n < 32 ? bits & ((1u << n) - 1) : bits;
}

/* The four pixels from x on, x >= -1; the first is bit 0. */
static uint four_at(__global const uint *mask, int nx, int ny, int stride, int x, int y, int kind)
{
    const int word = x >> 5, shift = x & 31;
    uint bits = word_at(mask, nx, ny, stride, word, y, kind) >> shift;

    if (shift > 28)
        bits |= word_at(mask, nx, ny, stride, word + 1, y, kind) << (32 - shift);
    return bits & 15;
}

/* The node of pixel (x, y), which is of the kind. */
static int node_of(__global const uint *mask, int nx, int ny, int stride, int x, int y, int kind,
                   int eight_connected)
{
    if (!eight_connected)
        return y * nx + x;
    const uint upper = word_at(mask, nx, ny, stride, x >> 5, y & ~1, kind) >> (x & 30) & 3;

    return (upper != 0 ? y & ~1 : y) * ((nx + 1) / 2) + x / 2;
}

/* The node of a block that is not empty, bx blocks from the left, by from the top. */
static int block_node(__global const uint *mask, int nx, int ny, int stride, int bx, int by, int kind)
{
    const uint upper = word_at(mask, nx, ny, stride, bx >> 4, 2 * by, kind) >> (2 * bx & 30) & 3;

    return (2 * by + (upper == 0)) * ((nx + 1) / 2) + bx;
}

/* Which of the blocks above a block it must be joined with, if blocks side by
 * side are joined anyway: bit 0 the left, 1 the middle, 2 the right one. here:
 * four pixels of the block's upper row, from the one before it on; above: those
 * of the row above. */
static uint joins_above(uint here, uint above)
{
    /* Both continue to the left: the block there sees to that. */
    const int done = (here & 3) == 3 && (above & 3) == 3;
    uint joins = 0;

    if (!done && (here & 6) && (above & 6))
        joins |= 2;
    if ((here & 2) && (above & 3) == 1)
        joins |= 1;
    if ((here & 4) && (above & 12) == 8)
        joins |= 4;
    return joins;
}

/* Where the lowest bit is; v > 0. */
static int lowest(uint v)
{
    return 31 - (int)clz(v & (0 - v));
}

/* A tile's words, one for each of its rows, into local memory. */
static void load_tile(__global const uint *mask, int nx, int ny, int stride, int word, int y0, int kind,
                      __local uint *rows)
{
    const int me = (int)get_local_id(0);

    if (me < CC_TILE)
        rows[me] = word_at(mask, nx, ny, stride, word, y0 + me, kind);
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* Connectivity 4: tiles from row first_tile of tiles on; link becomes the root
 * within the tile. */
__kernel GROUP_ATTRIBUTE void cc_tiles4(__global const uint *mask, __global int *link, int nx, int ny, int stride,
                                        int first_tile, int kind)
{
    __local int node[CC_TILE * CC_TILE];
    __local uint rows[CC_TILE];
    const int lx = (int)get_local_id(0) & (CC_TILE - 1), first_row = (int)get_local_id(0) >> TILE_LOG;
    const int word = (int)get_group_id(0), x0 = word * CC_TILE, y0 = ((int)get_group_id(1) + first_tile) * CC_TILE;

    load_tile(mask, nx, ny, stride, word, y0, kind, rows);
    /* A pixel begins as a child of the first of its run. */
    for (int ly = first_row; ly < CC_TILE; ly += GROUP / CC_TILE) {
        const uint gaps = ~rows[ly] & ((1u << lx) - 1);

        node[ly * CC_TILE + lx] = ly * CC_TILE + (gaps != 0 ? CC_TILE - (int)clz(gaps) : 0);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int ly = first_row + 1; ly < CC_TILE; ly += GROUP / CC_TILE) {
        const uint both = rows[ly] & rows[ly - 1];

        /* Once for each stretch that two rows share. */
        if ((both & ~(both << 1)) >> lx & 1)
            unite_in_tile(node, ly * CC_TILE + lx, (ly - 1) * CC_TILE + lx);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int ly = first_row; ly < CC_TILE; ly += GROUP / CC_TILE) {
        int i = ly * CC_TILE + lx, at = -1;

        if (x0 + lx >= nx || y0 + ly >= ny)
            continue;
        if (rows[ly] >> lx & 1) {
            i = root_in_tile(node, i);
            at = (y0 + (i >> TILE_LOG)) * nx + x0 + (i & (CC_TILE - 1));
        }
        link[(y0 + ly) * nx + x0 + lx] = at;
    }
}

/* In a tile: the node of a block that is not empty. */
static int tile_node(__local const uint *rows, int bx, int by)
{
    return (2 * by + ((rows[2 * by] >> 2 * bx & 3) == 0)) * BLOCKS + bx;
}

/* In a tile: the first node of the blocks that are connected with block (bx, by)
 * side by side. */
static int tile_run(__local const uint *rows, int bx, int by)
{
    const uint upper = rows[2 * by], any = upper | rows[2 * by + 1];
    /* Even bits stand for blocks: not connected with the one to the left. */
    const uint starts = 0x55555555 & ~(any & any << 1), upto = (2u << 2 * bx) - 1;
    const int start = 31 - (int)clz(starts & upto);
    const uint after = starts & ~upto, end = after != 0 ? after & (0 - after) : 0;
    const uint in_upper = (upper | upper >> 1) & 0x55555555 & (end - 1) & ~((1u << start) - 1);

    return in_upper != 0 ? 2 * by * BLOCKS + lowest(in_upper) / 2 : (2 * by + 1) * BLOCKS + start / 2;
}

/* The same for connectivity 8. */
__kernel GROUP_ATTRIBUTE void cc_tiles8(__global const uint *mask, __global int *link, int nx, int ny, int stride,
                                        int first_tile, int kind)
{
    __local int node[CC_TILE * BLOCKS];
    __local uint rows[CC_TILE];
    const int me = (int)get_local_id(0), pairs = (nx + 1) / 2;
    const int word = (int)get_group_id(0), x0 = word * BLOCKS, y0 = ((int)get_group_id(1) + first_tile) * CC_TILE;

    load_tile(mask, nx, ny, stride, word, y0, kind, rows);
    for (int b = me; b < BLOCKS * BLOCKS; b += GROUP) {
        const int bx = b & (BLOCKS - 1), by = b >> BLOCKS_LOG;

        if ((rows[2 * by] | rows[2 * by + 1]) >> 2 * bx & 3)
            node[tile_node(rows, bx, by)] = tile_run(rows, bx, by);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int b = BLOCKS + me; b < BLOCKS * BLOCKS; b += GROUP) {
        const int bx = b & (BLOCKS - 1), by = b >> BLOCKS_LOG;
        const uint here = (uint)(((ulong)rows[2 * by] << 1) >> 2 * bx) & 15;
        const uint above = (uint)(((ulong)rows[2 * by - 1] << 1) >> 2 * bx) & 15;
        const uint joins = joins_above(here, above);

        for (int k = 0; k < 3; k++)
            if (joins >> k & 1)
                unite_in_tile(node, 2 * by * BLOCKS + bx, tile_node(rows, bx + k - 1, by - 1));
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int b = me; b < CC_TILE * BLOCKS; b += GROUP) {
        const int bx = b & (BLOCKS - 1), ly = b >> BLOCKS_LOG;
        const uint here = rows[ly] >> 2 * bx & 3, partner = ly & 1 ? rows[ly - 1] >> 2 * bx & 3 : 0;
        int i = b, at = -1;

        if (x0 + bx >= pairs || y0 + ly >= ny)
            continue;
        if (here != 0 && partner == 0) {
            i = root_in_tile(node, i);
            at = (y0 + (i >> BLOCKS_LOG)) * pairs + x0 + (i & (BLOCKS - 1));
        }
        link[(y0 + ly) * pairs + x0 + bx] = at;
    }
}

/* Connectivity 4: across the upper edges of the rows of tiles from first_tile >= 1
 * on; along x: pixels. */
__kernel GROUP_ATTRIBUTE void cc_join_rows4(__global const uint *mask, volatile __global int *link, int nx, int ny,
                                            int stride, int first_tile, int kind)
{
    const int x = (int)get_global_id(0), y = ((int)get_global_id(1) + first_tile) * CC_TILE;

    if (x >= nx)
        return;
    const uint both = four_at(mask, nx, ny, stride, x - 1, y, kind) & four_at(mask, nx, ny, stride, x - 1, y - 1, kind);

    if ((both & 3) == 2)
        uf_union_shared(link, y * nx + x, (y - 1) * nx + x);
}

/* Across the left edges of the columns of tiles but the first; along x: rows from
 * first_row on, along y: columns of tiles. */
__kernel GROUP_ATTRIBUTE void cc_join_columns4(__global const uint *mask, volatile __global int *link, int nx,
                                               int ny, int stride, int first_row, int end_row, int kind)
{
    const int y = first_row + (int)get_global_id(0), x = ((int)get_global_id(1) + 1) * CC_TILE;

    if (y >= end_row)
        return;
    /* Two rows that are joined within the tiles need one union. */
    if ((four_at(mask, nx, ny, stride, x - 1, y, kind) & 3) == 3 &&
        (y % CC_TILE == 0 || (four_at(mask, nx, ny, stride, x - 1, y - 1, kind) & 3) != 3))
        uf_union_shared(link, y * nx + x, y * nx + x - 1);
}

/* Connectivity 8; along x: blocks. */
__kernel GROUP_ATTRIBUTE void cc_join_rows8(__global const uint *mask, volatile __global int *link, int nx, int ny,
                                            int stride, int first_tile, int kind)
{
    const int bx = (int)get_global_id(0), by = ((int)get_global_id(1) + first_tile) * BLOCKS;

    if (2 * bx >= nx)
        return;
    const uint here = four_at(mask, nx, ny, stride, 2 * bx - 1, 2 * by, kind);
    const uint above = four_at(mask, nx, ny, stride, 2 * bx - 1, 2 * by - 1, kind);
    const uint joins = joins_above(here, above);

    for (int k = 0; k < 3; k++)
        if (joins >> k & 1)
            uf_union_shared(link, 2 * by * ((nx + 1) / 2) + bx,
                            block_node(mask, nx, ny, stride, bx + k - 1, by - 1, kind));
}

/* Connectivity 8; along x: rows of blocks. A corner that touches only through an
 * edge that cc_join_rows8 joins is left to it. */
__kernel GROUP_ATTRIBUTE void cc_join_columns8(__global const uint *mask, volatile __global int *link, int nx,
                                               int ny, int stride, int first_row, int end_row, int kind)
{
    const int by = first_row + (int)get_global_id(0), bx = ((int)get_global_id(1) + 1) * BLOCKS;

    if (by >= end_row)
        return;
    const uint here = four_at(mask, nx, ny, stride, 2 * bx - 1, 2 * by, kind);
    const uint any = here | four_at(mask, nx, ny, stride, 2 * bx - 1, 2 * by + 1, kind);

    if ((any & 3) == 3)
        uf_union_shared(link, block_node(mask, nx, ny, stride, bx, by, kind),
                        block_node(mask, nx, ny, stride, bx - 1, by, kind));
    if (by % BLOCKS == 0)
        return;
    const uint above = four_at(mask, nx, ny, stride, 2 * bx - 1, 2 * by - 1, kind);

    if ((here & 3) == 2 && (above & 3) == 1)
        uf_union_shared(link, block_node(mask, nx, ny, stride, bx, by, kind),
                        block_node(mask, nx, ny, stride, bx - 1, by - 1, kind));
    if ((here & 3) == 1 && (above & 3) == 2)
        uf_union_shared(link, block_node(mask, nx, ny, stride, bx - 1, by, kind),
                        block_node(mask, nx, ny, stride, bx, by - 1, kind));
}

/* --- holes ------------------------------------------------------------------------ */

/* The root of each pixel of the background along the border, 2 nx + 2 ny of them
 * (corners twice); -1 where there is a cell. */
__kernel GROUP_ATTRIBUTE void cc_border_roots(__global const uint *mask, __global const int *link,
                                              __global int *roots, int nx, int ny, int stride, int eight_connected)
{
    const int k = (int)get_global_id(0);

    if (k >= 2 * (nx + ny))
        return;
    const int along_x = k < 2 * nx, at = along_x ? k : k - 2 * nx, length = along_x ? nx : ny;
    const int far = at < length ? 0 : (along_x ? ny : nx) - 1, near = at < length ? at : at - length;
    const int x = along_x ? near : far, y = along_x ? far : near;

    roots[k] = mask[y * stride + x / 32] >> (x & 31) & 1 ? -1
             : root_of(link, node_of(mask, nx, ny, stride, x, y, 0, eight_connected));
}

__kernel GROUP_ATTRIBUTE void cc_mark_outside(__global const int *roots, volatile __global int *link, int n)
{
    const int k = (int)get_global_id(0);

    if (k < n && roots[k] >= 0)
        atomic_xchg(&link[roots[k]], -1);
}

/* Background that does not lead to a marked root becomes cell. Along x: words, along y:
 * pairs of rows, from first_pair on: a block's node is in either, so a work-item
 * has both. */
__kernel GROUP_ATTRIBUTE void cc_fill(__global const int *link, __global uint *mask, int nx, int ny, int stride,
                                      int first_pair, int eight_connected)
{
    const int word = (int)get_global_id(0), y0 = ((int)get_global_id(1) + first_pair) * 2;
    uint filled[2] = { 0, 0 };

    if (word * 32 >= nx)
        return;
    for (int k = 0; k < 2; k++) {
        uint background = word_at(mask, nx, ny, stride, word, y0 + k, 0);

        /* Run by run: a run has one root. */
        while (background != 0) {
            const uint first = background & (0 - background), run = background & ~(background + first);
            const int x = word * 32 + lowest(first);
            const int node = node_of(mask, nx, ny, stride, x, y0 + k, 0, eight_connected);

            if (root_of(link, node) >= 0)
                filled[k] |= run;
            background &= ~run;
        }
    }
    for (int k = 0; k < 2; k++)
        if (filled[k] != 0)
            mask[(y0 + k) * stride + word] |= filled[k];
}

/* --- labels ------------------------------------------------------------------------ */

/* counts[chunk]: roots of CHUNK nodes. */
__kernel GROUP_ATTRIBUTE void cc_count(__global const int *link, __global uint *counts, uint first_chunk, uint n)
{
    volatile __local uint sum;
    const uint chunk = first_chunk + (uint)get_group_id(0);
    const uint base = chunk * CHUNK + (uint)get_local_id(0);
    uint mine = 0;

    if (get_local_id(0) == 0)
        sum = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint k = 0; k < CC_PER_ITEM; k++) {
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
    const uint base = chunk * CHUNK + me * CC_PER_ITEM;
    uint mine = 0, roots = 0, from = 0;

    for (uint k = 0; k < CC_PER_ITEM; k++)
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

    for (uint k = 0; k < CC_PER_ITEM; k++)
        if (roots >> k & 1)
            link[base + k] = ~++label;
}

/* The label of every pixel, 0 for none, of rows from first_row on. Along x: pairs of
 * pixels, which have one label if both are cell; along y: rows. */
__kernel GROUP_ATTRIBUTE void cc_paint(__global const uint *mask, __global const int *link, __global int *labels,
                                       int nx, int ny, int stride, int first_row, int eight_connected)
{
    const int x = (int)get_global_id(0) * 2, y = (int)get_global_id(1) + first_row;

    if (x >= nx)
        return;
    const uint pair = mask[y * stride + x / 32] >> (x & 31) & 3;
    int label = 0;

    if (pair != 0) {
        int v = node_of(mask, nx, ny, stride, x + (pair == 2), y, 1, eight_connected);

        while (v >= 0)
            v = link[v];
        label = ~v;
    }
    labels[y * nx + x] = pair & 1 ? label : 0;
    if (x + 1 < nx)
        labels[y * nx + x + 1] = pair & 2 ? label : 0;
}

/* The first pixel of every pixel's component, -1 for none. */
__kernel GROUP_ATTRIBUTE void cc_roots(__global const uint *mask, __global const int *link, __global int *roots,
                                       int nx, int ny, int stride, int first_row, int eight_connected)
{
    const int x = (int)get_global_id(0), y = (int)get_global_id(1) + first_row;

    if (x >= nx)
        return;
    int first = -1;

    if (mask[y * stride + x / 32] >> (x & 31) & 1) {
        first = root_of(link, node_of(mask, nx, ny, stride, x, y, 1, eight_connected));
        if (eight_connected) {
            const int pairs = (nx + 1) / 2, root_y = first / pairs, root_x = first % pairs * 2;

            first = root_y * nx + root_x + !(mask[root_y * stride + root_x / 32] >> (root_x & 31) & 1);
        }
    }
    roots[y * nx + x] = first;
}

/* --- measuring --------------------------------------------------------------------- */

__kernel GROUP_ATTRIBUTE void cc_clear_table(__global uint *table, uint rows)
{
    const uint row = (uint)get_global_id(0);

    if (row >= rows)
        return;
    for (int k = 0; k < CC_COLUMNS; k++)
        table[row * CC_COLUMNS + k] = k == CC_Y0 || k == CC_X0 ? ~0u : 0;
}

/* A part of a region, added to its row. */
static void add_to_table(volatile __global uint *table, uint label, uint area, ulong sum_y, ulong sum_x,
                         uint sum_grey, uint y0, uint x0, uint y1, uint x1)
{
    volatile __global uint *const row = table + label * CC_COLUMNS;

    add_wide(&row[CC_SUM_Y], sum_y);
    add_wide(&row[CC_SUM_X], sum_x);
    add_wide(&row[CC_SUM_GREY], sum_grey);
    atomic_add(&row[CC_AREA], area);
    atomic_min(&row[CC_Y0], y0);
    atomic_min(&row[CC_X0], x0);
    atomic_max(&row[CC_Y1], y1);
    atomic_max(&row[CC_X1], x1);
}

/* Regions of the tile of GROUP x CC_TILE pixels that a work-group has, in local memory:
 * sums of coordinates count from its corner, so that all fit 32 bits. A region has
 * the place of its label modulo PLACES; if another has taken it, its pixels go to the table. */
#define PLACES 64

/* Adds the regions of rows from first_row on to the table; along x: pixels, along y:
 * stretches of CC_TILE rows. A work-item goes down its column, and adds once for every
 * stretch of one region. */
__kernel GROUP_ATTRIBUTE void cc_measure(__global const int *labels, __global const PIXEL *pixels,
                                         volatile __global uint *table, int nx, int first_row, int end_row)
{
    volatile __local uint owner[PLACES], part[PLACES][CC_COLUMNS];
    const int me = (int)get_local_id(0), x = (int)get_global_id(0), x0 = x - me;
    const int y0 = first_row + (int)get_global_id(1) * CC_TILE, end = min(y0 + CC_TILE, end_row);

    for (int p = me; p < PLACES; p += GROUP) {
        owner[p] = 0;
        for (int k = 0; k < CC_COLUMNS; k++)
            part[p][k] = k == CC_Y0 || k == CC_X0 ? ~0u : 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int y = y0, from = y0; x < nx && y < end; from = y) {
        const uint label = (uint)labels[y * nx + x];
        uint grey = 0;

        do
            grey += pixels[y * nx + x];
        while (++y < end && (uint)labels[y * nx + x] == label);
        if (label == 0)
            continue;
        const uint n = (uint)(y - from), sum = (uint)(from - y0 + y - 1 - y0) * n / 2, p = label % PLACES;
        const uint before = atomic_cmpxchg(&owner[p], 0, label);

        if (before != 0 && before != label) {
            add_to_table(table, label, n, (ulong)y0 * n + sum, (ulong)x * n, grey, (uint)from, (uint)x, (uint)y,
                         (uint)x + 1);
            continue;
        }
        atomic_add(&part[p][CC_SUM_Y], sum);
        atomic_add(&part[p][CC_SUM_X], (uint)me * n);
        atomic_add(&part[p][CC_SUM_GREY], grey);
        atomic_add(&part[p][CC_AREA], n);
        atomic_min(&part[p][CC_Y0], (uint)from);
        atomic_min(&part[p][CC_X0], (uint)x);
        atomic_max(&part[p][CC_Y1], (uint)y);
        atomic_max(&part[p][CC_X1], (uint)x + 1);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int p = me; p < PLACES; p += GROUP)
        if (owner[p] != 0)
            add_to_table(table, owner[p], part[p][CC_AREA], (ulong)y0 * part[p][CC_AREA] + part[p][CC_SUM_Y],
                         (ulong)x0 * part[p][CC_AREA] + part[p][CC_SUM_X], part[p][CC_SUM_GREY], part[p][CC_Y0],
                         part[p][CC_X0], part[p][CC_Y1], part[p][CC_X1]);
}

/* labels[i] becomes now[labels[i]]; now[0] is 0. */
__kernel GROUP_ATTRIBUTE void cc_relabel(__global const int *now, __global int *labels, uint first, uint end)
{
    const uint i = first + (uint)get_global_id(0);

    if (i < end)
        labels[i] = now[labels[i]];
}

/* --- split ------------------------------------------------------------------------- */

/* The squared distance to the nearest background in the same row; a group for each
 * of the rows from first_row on, whose bits are in local memory. */
__kernel GROUP_ATTRIBUTE void cc_distance_rows(__global const uint *mask, __global uint *d2, uint nx, uint stride,
                                               uint first_row, __local uint *bits)
{
    volatile __local uint background;
    const uint me = (uint)get_local_id(0), y = first_row + (uint)get_group_id(1);
    uint gaps = 0;

    if (me == 0)
        background = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint w = me; w < (nx + 31) / 32; w += GROUP) {
        bits[w] = mask[y * stride + w];
        gaps |= ~bits[w] & (nx - w * 32 < 32 ? (1u << (nx - w * 32)) - 1 : ~0u);
    }
    if (gaps != 0)
        atomic_or(&background, 1u);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint x = me; x < nx; x += GROUP)
        d2[y * nx + x] = background ? edt_along_x(bits, x, nx) : EDT_FAR;
}

/* From those in rows to those in the picture. Along x: columns from first on, along y:
 * stretches; a work-item has the runs that begin in one. */
__kernel GROUP_ATTRIBUTE void cc_distance_columns(__global const uint *restrict rows, __global uint *restrict kept,
                                                  __global uint *restrict d2, uint first, uint end, uint nx, uint ny)
{
    const uint x = first + (uint)get_global_id(0);
    edt_walk walk = edt_walk_begin();
    edt_line l;

    if (x >= end)
        return;
    l.d2 = rows;
    l.side = 0;
    l.kept = kept;
    l.at = x;
    l.stride = nx;
    l.n = ny;
    const uint from = (uint)get_global_id(1) * CC_STRETCH, y0 = edt_first(&l, from);
    const uint y1 = edt_find(&l, y0, min(from + CC_STRETCH, ny));

    for (uint y = y0; y < y1; y++)
        d2[y * nx + x] = edt_walk_at(&l, &walk, y, EDT_SIDE(&l, y * nx + x));
}

__kernel GROUP_ATTRIBUTE void cc_ascend(__global const uint *d2, __global int *up, uint first, uint end, int nx,
                                        int ny, int neighbours)
{
    const uint i = first + (uint)get_global_id(0);

    if (i >= end)
        return;
    const int y = (int)(i / (uint)nx), x = (int)i - y * nx;
    const ws_shape s = { nx, ny, 1, neighbours == 8, 0 };

    up[i] = d2[i] == 0 ? WS_GROUND : ws_highest(d2, &s, x, y, 0, 0);
}

/* The regional maximum that each pixel leads up to, -1 on the background. */
__kernel GROUP_ATTRIBUTE void cc_maxima(__global const int *up, __global int *maxima, uint first, uint end)
{
    const uint i = first + (uint)get_global_id(0);

    if (i < end)
        maxima[i] = root_of(up, (int)i);
}
