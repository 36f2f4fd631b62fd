/*
 * The OpenCL kernels of cellcount, for a picture or a strip of rows of nx x ny pixels, which are at
 * most 2^30 in total.
 *
 * The mask has a bit for each pixel, 1 for cells and 0 for the background: pixel x is bit x % 32 of
 * word x / 32 of its row; rows are `stride` words apart, and the bits beyond nx are 0. The argument
 * `kind` is 1 in launches that find the components of cells, 0 in those that find the components of
 * the background.
 *
 * Components are found by union-find over nodes. A node is a run of pixels of `kind` within a word
 * of the mask. Words are numbered through all rows. A run that begins at bit b of word i is node 16
 * i + b / 2. This number is unique, since two runs cannot begin at adjacent bits, and nodes are in
 * the raster order of their first pixels.
 *
 * link[i] is the parent of node i, or i if node i is a root; it is undefined if there is no run.
 * The root of a component is its smallest node. Bit b (even) of word i of `roots` is set if node
 * 16 i + b / 2 is a root.
 *
 * A tile is CC_TILE words of the mask, one below the other. A work-group labels TILES tiles, side
 * by side, in local memory, with a work-item for each word. Then tiles are joined along their edges
 * in global memory. A launch that changes links accesses them by atomic functions only.
 *
 * Macros: GROUP, the size of a work-group, a multiple of CC_TILE (64 to 256); PIXEL, the type of a
 * grey value; PIXEL16, a vector of sixteen; SUM, a type that holds sums of a window or a filter;
 * KERNELS, the groups of kernels that are compiled (CC_KERNELS_PREPARE, ...).
 */
/* KERNELS=60: CC_KERNELS_PREPARE, DISC, REGIONS and SPLIT; 20: PREPARE and REGIONS. */
//! check: -DGROUP=64 -DPIXEL=uchar -DPIXEL16=uchar16 -DSUM=uint -DKERNELS=60
//! check: -DGROUP=256 -DPIXEL=ushort -DPIXEL16=ushort16 -DSUM=ulong -DKERNELS=20
#ifndef GROUP
#define GROUP 256
#endif
#ifndef PIXEL
#define PIXEL uchar
#define PIXEL16 uchar16
#define SUM uint
#define KERNELS (CC_KERNELS_PREPARE | CC_KERNELS_DISC | CC_KERNELS_REGIONS | CC_KERNELS_SPLIT)
#endif
#include "app/analysis/common/core.h"
#include "app/analysis/common/watershed_core.h"
#include "app/analysis/cellcount/core.h"
#include "app/analysis/cellcount/layout.h"
#include "opencl/kernels/runs.h"
#include "opencl/kernels/union_find.h"
#include "opencl/kernels/wide.h"

#define GROUP_ATTRIBUTE __attribute__((reqd_work_group_size(GROUP, 1, 1)))

#if KERNELS & CC_KERNELS_PREPARE
#include "opencl/kernels/cellcount_prepare.h"
#endif

/* For edt.h (distance transform): pixels whose distance is 0 are background, and only the other
 * pixels get distances. */
#define EDT_SIDE(l, i) ((l)->d2[i] != 0 ? 1u : 0u)
#define EDT_WANTED(inside) (inside)
#include "opencl/kernels/edt.h"

#define TILE_LOG 5              /* log2(CC_TILE) */
#define NODES_LOG 4             /* log2(CC_NODES); a word of the mask has CC_NODES nodes */
#define TILES (GROUP / CC_TILE) /* tiles of a work-group, side by side */
#define CHUNK (GROUP * CC_WORDS_PER_ITEM) /* words of `roots` that a work-group processes */

#if KERNELS & CC_KERNELS_REGIONS
/* --- threshold ------------------------------------------------------------------------------- */

/* Counts the grey values of pixels [first, end), of 8 bits, in histogram[256]. Work-item i counts
 * pixel first + i, and further pixels at distances of the global size. */
__kernel GROUP_ATTRIBUTE void cc_histogram8(__global const uchar *pixels,
                                            volatile __global uint *histogram, uint first, uint end)
{
    volatile __local uint bins[256];
    const uint local_id = (uint)get_local_id(0);

    for (uint b = local_id; b < 256; b += GROUP)
        bins[b] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = first + (uint)get_global_id(0); i < end; i += (uint)get_global_size(0))
        atomic_inc(&bins[pixels[i]]);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint b = local_id; b < 256; b += GROUP)
        if (bins[b] > 0)
            atomic_add(&histogram[b], bins[b]);
}

/* Does the same as cc_histogram8 for grey values of 16 bits: histogram[65536]. */
__kernel GROUP_ATTRIBUTE void cc_histogram16(__global const ushort *pixels,
                                             volatile __global uint *histogram, uint first,
                                             uint end)
{
    for (uint i = first + (uint)get_global_id(0); i < end; i += (uint)get_global_size(0))
        atomic_inc(&histogram[pixels[i]]);
}

/* Makes the mask of the rows from first_row on: a pixel belongs to a cell if its grey value is at
 * least `threshold` (bright = 1) or below it (bright = 0). A work-item makes half a word of the
 * mask. Global size: x: the half words of a row; y: rows. (PoCL 6's compiler aborts if this kernel
 * calls cc_cell_bits.) */
__kernel GROUP_ATTRIBUTE void cc_mask(__global const PIXEL *pixels, __global ushort *mask, int nx,
                                      int stride, int first_row, uint threshold, int bright)
{
    const int at = (int)get_global_id(0), y = (int)get_global_id(1) + first_row, x0 = at * 16;
    const int n = TC_MIN(16, nx - x0), other = bright != 0;
    __global const PIXEL *const from = pixels + (size_t)y * nx + x0;
    uint bits = 0;

    if (at >= 2 * stride)
        return;
    if (nx % 16 == 0 && n == 16) {
        const PIXEL16 v = *(__global const PIXEL16 *)from;
        const PIXEL each[16] = { v.s0, v.s1, v.s2, v.s3, v.s4, v.s5, v.s6, v.s7,
                                 v.s8, v.s9, v.sa, v.sb, v.sc, v.sd, v.se, v.sf };

        for (int k = 0; k < 16; k++)
            bits |= (uint)((each[k] < threshold) != other) << k;
    } else {
        for (int k = 0; k < n; k++)
            bits |= (uint)((from[k] < threshold) != other) << k;
    }
    mask[y * 2 * stride + at] = (ushort)bits;
}

/* --- components ------------------------------------------------------------------------------ */

/* Returns the root of node i. If the links from node i end with a negative link, returns this
 * negative number. */
static int root_of(__global const int *link, int i)
{
    int parent = link[i];

    while (parent >= 0 && parent != i) {
        i = parent;
        parent = link[i];
    }
    return parent;
}

/* Returns the bits of word number `word` of row y: 1 for pixels of `kind`, 0 for other pixels and
 * outside the picture. */
static uint word_at(__global const uint *mask, int nx, int ny, int stride, int word, int y,
                    int kind)
{
    const int n = nx - word * 32;

    if (word < 0 || n <= 0 || y < 0 || y >= ny)
        return 0;
    const uint bits = mask[y * stride + word] ^ (kind ? 0 : ~0u);

    return n < 32 ? bits & ((1u << n) - 1) : bits;
}

/* Returns the node that contains pixel (x, y), which must be of `kind`. */
static int node_of(__global const uint *mask, int nx, int ny, int stride, int x, int y, int kind)
{
    const uint word = word_at(mask, nx, ny, stride, x >> 5, y, kind);

    return ((y * stride + (x >> 5)) << NODES_LOG) + run_start(word, x & 31) / 2;
}

/* Returns a word whose bits 0, 1 and 2 are set if pixels x - 1, x and x + 1 of row y are of `kind`.
 */
static uint three_pixels(__global const uint *mask, int nx, int ny, int stride, int x, int y,
                         int kind)
{
    const int word = (x - 1) >> 5, shift = (x - 1) & 31;
    uint bits = word_at(mask, nx, ny, stride, word, y, kind) >> shift;

    if (shift > 29)
        bits |= word_at(mask, nx, ny, stride, word + 1, y, kind) << (32 - shift);
    return bits & 7;
}

/*
 * Finds the components within each tile: sets link[i] to the root of node i within the tile, and
 * sets the bits of `roots`. Global size: x: work-groups, each of TILES tiles; y: rows of tiles,
 * from first_tile on. A work-item joins the runs of one word of a tile: row ly of tile `tile`. It
 * reads and writes another word, row `down` of tile `side`, so that adjacent work-items access
 * adjacent words.
 *
 * A run is joined with a run of the row above once: at the first column that both runs contain, or,
 * with connectivity 8, where they only touch at a corner.
 */
__kernel GROUP_ATTRIBUTE void cc_tiles(__global const uint *mask, __global int *link,
                                       __global uint *roots, int nx, int ny, int stride,
                                       int first_tile, int kind, int eight_connected)
{
    volatile __local int node[TILES][CC_TILE * CC_NODES];
    __local uint rows[TILES][CC_TILE + 1], tile_roots[TILES][CC_TILE + 1];
    const int local_id = (int)get_local_id(0), tile = local_id >> TILE_LOG,
              ly = local_id & (CC_TILE - 1);
    const int word0 = (int)get_group_id(0) * TILES,
              y0 = ((int)get_group_id(1) + first_tile) * CC_TILE;
    const int down = (int)((uint)local_id / TILES), side = local_id - down * TILES;
    const int is_written = word0 + side < stride && y0 + down < ny;

    rows[side][down] = word_at(mask, nx, ny, stride, word0 + side, y0 + down, kind);
    barrier(CLK_LOCAL_MEM_FENCE);
    const uint here = rows[tile][ly], above = ly > 0 ? rows[tile][ly - 1] : 0;
    const uint starts = starts_of(here);
    uint is_root = 0;

    for (uint rest = starts; rest != 0; rest &= rest - 1) { /* clears the lowest set bit */
        const int i = ly * CC_NODES + lowest_bit(rest) / 2;

        node[tile][i] = i;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    /* Pixels that can only be joined with a run above at a corner. */
    const uint corners = eight_connected ? here & ~above : 0;

    /* First joins runs at columns that both contain, and at corners where the run above is to the
     * left; then at corners where the run above is to the right. */
    for (int right = 0; right < 2; right++) {
        uint rest = right ? corners & ~(here >> 1) & above >> 1
                          : starts_of(here & above) | (corners & ~(here << 1) & above << 1);

        for (; rest != 0; rest &= rest - 1) {
            const int x = lowest_bit(rest), above_x = right ? x + 1 : x - !(above >> x & 1);

            unite_in_tile(node[tile], ly * CC_NODES + run_start(here, x) / 2,
                          (ly - 1) * CC_NODES + run_start(above, above_x) / 2);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint rest = starts; rest != 0; rest &= rest - 1) {
        const int b = lowest_bit(rest), i = ly * CC_NODES + b / 2;

        if (node[tile][i] == i)
            is_root |= 1u << (b & ~1);
    }
    tile_roots[tile][ly] = is_root;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (is_written)
        roots[(y0 + down) * stride + word0 + side] = tile_roots[side][down];
    for (int k = local_id; k < CC_TILE * TILES * CC_NODES; k += GROUP) {
        const int y = (int)((uint)k / (TILES * CC_NODES)), slot = k - y * (TILES * CC_NODES);
        const int t = slot >> NODES_LOG, p = slot & (CC_NODES - 1);
        int at = -1;

        if (word0 + t >= stride || y0 + y >= ny)
            continue;
        if (starts_of(rows[t][y]) >> 2 * p & 3) {
            const int i = root_in_tile((__local const int *)node[t], y * CC_NODES + p);

            at = (((y0 + (i >> NODES_LOG)) * stride + word0 + t) << NODES_LOG) +
                 (i & (CC_NODES - 1));
        }
        link[(((y0 + y) * stride + word0) << NODES_LOG) + slot] = at;
    }
}

/* Joins the components of nodes a and b. If they were different, clears the bit in `roots` of the
 * node that is no longer a root. */
static void join_components(volatile __global int *link, volatile __global uint *roots, int a,
                            int b)
{
    const int old_root = uf_union_shared(link, a, b);

    if (old_root != 0)
        atomic_and(&roots[old_root >> NODES_LOG], ~(1u << 2 * (old_root & (CC_NODES - 1))));
}

/* Joins components across the upper edges of the rows of tiles from first_tile (>= 1) on. Global
 * size: x: pixels; y: rows of tiles. A work-item has a pixel of the first row of a row of tiles,
 * and joins the run that contains the pixel with the runs above it. But if both runs also contain
 * the column to the left, the work-item of that column joins them. */
__kernel GROUP_ATTRIBUTE void cc_join_rows(__global const uint *mask, volatile __global int *link,
                                           volatile __global uint *roots, int nx, int ny,
                                           int stride, int first_tile, int kind,
                                           int eight_connected)
{
    const int x = (int)get_global_id(0), y = ((int)get_global_id(1) + first_tile) * CC_TILE;

    if (x >= nx)
        return;
    const uint here = three_pixels(mask, nx, ny, stride, x, y, kind);
    const uint above = three_pixels(mask, nx, ny, stride, x, y - 1, kind),
               corners = above & ~here & 5;
    /* Bits 0, 1 and 2: whether to join with the run above at x - 1, x and x + 1. */
    const uint joins = !(here & 2)       ? 0
                       : above & 2       ? 2 & ~((here & above) << 1)
                       : eight_connected ? corners
                                         : 0;

    for (int k = 0; k < 3; k++)
        if (joins >> k & 1)
            join_components(link, roots, node_of(mask, nx, ny, stride, x, y, kind),
                            node_of(mask, nx, ny, stride, x + k - 1, y - 1, kind));
}

/* Joins components across the edges between tiles that are side by side. Global size: x: the edges
 * in rows [first_row, end_row), one row after another. A work-item processes one edge in one row of
 * pixels. It does not join the runs on both sides of the edge if the row above also has runs on
 * both sides, as all these runs are joined through that row. Corners at the upper edges of tiles
 * are left to cc_join_rows. */
__kernel GROUP_ATTRIBUTE void cc_join_columns(__global const uint *mask,
                                              volatile __global int *link,
                                              volatile __global uint *roots, int nx, int ny,
                                              int stride, int first_row, int end_row, int kind,
                                              int eight_connected)
{
    const int edges = (nx + CC_TILE - 1) / CC_TILE - 1, row = (int)get_global_id(0) / edges,
              y = first_row + row;
    const int x = ((int)get_global_id(0) - row * edges + 1) * CC_TILE;

    if (y >= end_row)
        return;
    const uint here = three_pixels(mask, nx, ny, stride, x, y, kind) & 3;
    const uint above =
        y % CC_TILE == 0 ? 0 : three_pixels(mask, nx, ny, stride, x, y - 1, kind) & 3;

    if (here == 3 && above != 3)
        join_components(link, roots, node_of(mask, nx, ny, stride, x, y, kind),
                        node_of(mask, nx, ny, stride, x - 1, y, kind));
    /* Bit 0: the pixel to the left of the edge; bit 1: to the right. Here and above have one each.
     */
    if (eight_connected && here + above == 3 && here != 0 && above != 0)
        join_components(link, roots, node_of(mask, nx, ny, stride, here == 2 ? x : x - 1, y, kind),
                        node_of(mask, nx, ny, stride, here == 2 ? x - 1 : x, y - 1, kind));
}

/* --- holes ----------------------------------------------------------------------------------- */

/* Sets border[k] to the root of pixel k of the picture's border, or to -1 if the pixel is not
 * background. The 2 nx + 2 ny pixels are those of the first row, the last row, the first column and
 * the last column, in this order. A work-item processes a pixel. */
__kernel GROUP_ATTRIBUTE void cc_border_roots(__global const uint *mask, __global const int *link,
                                              __global int *border, int nx, int ny, int stride)
{
    const int k = (int)get_global_id(0);

    if (k >= 2 * (nx + ny))
        return;
    const int along_x = k < 2 * nx, at = along_x ? k : k - 2 * nx, length = along_x ? nx : ny;
    const int far = at < length ? 0 : (along_x ? ny : nx) - 1,
              near = at < length ? at : at - length;
    const int x = along_x ? near : far, y = along_x ? far : near;

    border[k] = mask[y * stride + x / 32] >> (x & 31) & 1
                    ? -1
                    : root_of(link, node_of(mask, nx, ny, stride, x, y, 0));
}

/* Sets the links of those roots of the background that are in border[n] to -1: their components are
 * connected with the border, so they are not holes. A work-item processes a pixel of the border. */
__kernel GROUP_ATTRIBUTE void cc_mark_outside(__global const int *border,
                                              volatile __global int *link, int n)
{
    const int k = (int)get_global_id(0);

    if (k < n && border[k] >= 0)
        atomic_xchg(&link[border[k]], -1);
}

/* Fills holes: sets the mask's bits of the background whose root has not been marked by
 * cc_mark_outside. A work-item processes a word of the mask. Global size: x: words; y: rows from
 * first_row on. */
__kernel GROUP_ATTRIBUTE void cc_fill(__global const int *link, __global uint *mask, int nx, int ny,
                                      int stride, int first_row)
{
    const int word = (int)get_global_id(0), y = (int)get_global_id(1) + first_row,
              at = y * stride + word;
    uint background = word_at(mask, nx, ny, stride, word, y, 0), filled = 0;

    while (background != 0) {
        /* The lowest set bit, and the run of set bits that begins with it: adding the lowest bit
         * clears the run. */
        const uint first = background & (0 - background), run = background & ~(background + first);

        if (root_of(link, (at << NODES_LOG) + lowest_bit(first) / 2) >= 0)
            filled |= run;
        background &= ~run;
    }
    if (filled != 0)
        mask[at] |= filled;
}

/* --- labels ---------------------------------------------------------------------------------- */

/* Sets counts[chunk] to the number of roots in the chunk, which is CHUNK words of `roots`. A
 * work-group counts the roots of a chunk. */
__kernel GROUP_ATTRIBUTE void cc_count(__global const uint *roots, __global uint *counts,
                                       uint first_chunk, uint words)
{
    volatile __local uint sum;
    const uint chunk = first_chunk + (uint)get_group_id(0);
    const uint base = chunk * CHUNK + (uint)get_local_id(0);
    uint my_roots = 0;

    if (get_local_id(0) == 0)
        sum = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint k = 0; k < CC_WORDS_PER_ITEM; k++)
        if (base + k * GROUP < words)
            my_roots += popcount(roots[base + k * GROUP]);
    if (my_roots > 0)
        atomic_add(&sum, my_roots);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (get_local_id(0) == 0)
        counts[chunk] = sum;
}

/* Sets ranks[word] to the number of roots before that word of `roots`. before[chunk]: the number of
 * roots before the chunk. A work-group processes a chunk. */
__kernel GROUP_ATTRIBUTE void cc_number(__global const uint *roots, __global uint *ranks,
                                        __global const uint *before, uint first_chunk, uint words)
{
    __local uint sums[2][GROUP];
    const uint local_id = (uint)get_local_id(0), chunk = first_chunk + (uint)get_group_id(0);
    const uint base = chunk * CHUNK + local_id * CC_WORDS_PER_ITEM;
    uint my_roots = 0, from = 0;

    for (uint k = 0; k < CC_WORDS_PER_ITEM; k++)
        if (base + k < words)
            my_roots += popcount(roots[base + k]);
    sums[0][local_id] = my_roots;
    barrier(CLK_LOCAL_MEM_FENCE);
    /* Prefix sums over the work-group; each step reads one of the arrays and writes the other. */
    for (uint step = 1; step < GROUP; step *= 2) {
        sums[1 - from][local_id] =
            sums[from][local_id] + (local_id >= step ? sums[from][local_id - step] : 0);
        from = 1 - from;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    /* The number of roots before this work-item's first word. */
    uint labels = before[chunk] + sums[from][local_id] - my_roots;

    for (uint k = 0; k < CC_WORDS_PER_ITEM && base + k < words; k++) {
        ranks[base + k] = labels;
        labels += popcount(roots[base + k]);
    }
}

/* Writes the label of every pixel of rows [first_row, end_row), 0 for the background. A component's
 * label is 1 + the number of roots before its root. A work-item labels two pixels side by side,
 * which have the same label if both belong to cells, in each of CC_PAINT_ROWS rows. It follows the
 * links of all these rows in one loop, so that their reads overlap. Global size: x: pairs of
 * pixels; y: groups of CC_PAINT_ROWS rows. */
__kernel GROUP_ATTRIBUTE void cc_paint(__global const uint *mask, __global const int *link,
                                       __global const uint *roots, __global const uint *ranks,
                                       __global int *labels, int nx, int stride, int first_row,
                                       int end_row)
{
    const int x = (int)get_global_id(0) * 2, y0 = (int)get_global_id(1) * CC_PAINT_ROWS + first_row;
    uint pair[CC_PAINT_ROWS]; /* the mask's bits of the two pixels */
    /* node: the node to visit next, or -1 when the label is known */
    int node[CC_PAINT_ROWS], label[CC_PAINT_ROWS], unfinished = 1;

    if (x >= nx)
        return;
    for (int k = 0; k < CC_PAINT_ROWS; k++) {
        const int at = (y0 + k) * stride + x / 32;
        const uint word = y0 + k < end_row ? mask[at] : 0;

        pair[k] = word >> (x & 31) & 3;
        node[k] = pair[k] != 0
                      ? link[(at << NODES_LOG) + run_start(word, (x & 31) + (pair[k] == 2)) / 2]
                      : -1;
        label[k] = 0;
    }
    while (unfinished) {
        unfinished = 0;
        for (int k = 0; k < CC_PAINT_ROWS; k++) {
            if (node[k] < 0)
                continue;
            const uint bit = 1u << 2 * (node[k] & (CC_NODES - 1)),
                       word = (uint)node[k] >> NODES_LOG;
            const uint here = roots[word];

            if (here & bit) {
                label[k] = (int)(ranks[word] + popcount(here & (bit - 1))) + 1;
                node[k] = -1;
            } else {
                node[k] = link[node[k]];
                unfinished = 1;
            }
        }
    }
    for (int k = 0; k < CC_PAINT_ROWS && y0 + k < end_row; k++) {
        __global int *const to = labels + (size_t)(y0 + k) * nx + x;

        to[0] = pair[k] & 1 ? label[k] : 0;
        if (x + 1 < nx)
            to[1] = pair[k] & 2 ? label[k] : 0;
    }
}

/* Sets first[i] to the index of the first pixel, in raster order, of the component that contains
 * pixel i, or to -1 for the background. A work-item processes a pixel; y: rows from first_row on.
 */
__kernel GROUP_ATTRIBUTE void cc_roots(__global const uint *mask, __global const int *link,
                                       __global int *first, int nx, int ny, int stride,
                                       int first_row)
{
    const int x = (int)get_global_id(0), y = (int)get_global_id(1) + first_row;

    if (x >= nx)
        return;
    int at = -1;

    if (mask[y * stride + x / 32] >> (x & 31) & 1) {
        const int node = root_of(link, node_of(mask, nx, ny, stride, x, y, 1)),
                  word = node >> NODES_LOG;
        const int b = 2 * (node & (CC_NODES - 1)), row = word / stride;

        /* The run begins at bit b or, if it does not, at bit b + 1. */
        at = row * nx + (word - row * stride) * CC_TILE + b + !(starts_of(mask[word]) >> b & 1);
    }
    first[y * nx + x] = at;
}

/* --- measuring ------------------------------------------------------------------------------- */

/* Clears the table of regions, [rows][CC_COLUMNS], whose row number is the label. A work-item
 * clears a row. */
__kernel GROUP_ATTRIBUTE void cc_clear_table(__global uint *table, uint rows)
{
    const uint row = (uint)get_global_id(0);

    if (row >= rows)
        return;
    for (int k = 0; k < CC_COLUMNS; k++)
        table[row * CC_COLUMNS + k] = k == CC_Y0 || k == CC_X0 ? ~0u : 0;
}

/* Adds the measurements of a part of a region to the region's row. */
static void add_to_table(volatile __global uint *table, uint label, uint area, ulong sum_y,
                         ulong sum_x, uint sum_grey, uint y0, uint x0, uint y1, uint x1)
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

/* The number of regions that a work-group of cc_measure can measure at the same time in local
 * memory. */
#define SLOTS 64

/* Adds the measurements of the regions in rows [first_row, end_row) to the table. Global size: x:
 * pixels; y: groups of CC_TILE rows. A work-item goes down its column of CC_TILE rows, and adds
 * each run of pixels with the same label. A work-group first adds up its GROUP x CC_TILE pixels in
 * local memory, where a region uses element label % SLOTS. There, coordinates are relative to the
 * work-group's first pixel, so that their sums fit 32 bits. A run whose element is already used by
 * another region is added to the table directly. */
__kernel GROUP_ATTRIBUTE void cc_measure(__global const int *labels, __global const PIXEL *pixels,
                                         volatile __global uint *table, int nx, int first_row,
                                         int end_row)
{
    /* owner: the label of the region that uses the element, or 0; slot_sums: the measurements of
     * this region. */
    volatile __local uint owner[SLOTS], slot_sums[SLOTS][CC_COLUMNS];
    const int local_id = (int)get_local_id(0), x = (int)get_global_id(0), x0 = x - local_id;
    const int y0 = first_row + (int)get_global_id(1) * CC_TILE, end = TC_MIN(y0 + CC_TILE, end_row);

    for (int p = local_id; p < SLOTS; p += GROUP) {
        owner[p] = 0;
        for (int k = 0; k < CC_COLUMNS; k++)
            slot_sums[p][k] = k == CC_Y0 || k == CC_X0 ? ~0u : 0;
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
        /* n: pixels of the run; sum: the sum of their y - y0, which go from `from` to y - 1 */
        const uint n = (uint)(y - from), sum = (uint)(from - y0 + y - 1 - y0) * n / 2,
                   p = label % SLOTS;
        const uint before = atomic_cmpxchg(&owner[p], 0, label);

        if (before != 0 && before != label) {
            add_to_table(table, label, n, (ulong)y0 * n + sum, (ulong)x * n, grey, (uint)from,
                         (uint)x, (uint)y, (uint)x + 1);
            continue;
        }
        atomic_add(&slot_sums[p][CC_SUM_Y], sum);
        atomic_add(&slot_sums[p][CC_SUM_X], (uint)local_id * n);
        atomic_add(&slot_sums[p][CC_SUM_GREY], grey);
        atomic_add(&slot_sums[p][CC_AREA], n);
        atomic_min(&slot_sums[p][CC_Y0], (uint)from);
        atomic_min(&slot_sums[p][CC_X0], (uint)x);
        atomic_max(&slot_sums[p][CC_Y1], (uint)y);
        atomic_max(&slot_sums[p][CC_X1], (uint)x + 1);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int p = local_id; p < SLOTS; p += GROUP)
        if (owner[p] != 0)
            add_to_table(table, owner[p], slot_sums[p][CC_AREA],
                         (ulong)y0 * slot_sums[p][CC_AREA] + slot_sums[p][CC_SUM_Y],
                         (ulong)x0 * slot_sums[p][CC_AREA] + slot_sums[p][CC_SUM_X],
                         slot_sums[p][CC_SUM_GREY], slot_sums[p][CC_Y0], slot_sums[p][CC_X0],
                         slot_sums[p][CC_Y1], slot_sums[p][CC_X1]);
}

/* Replaces the labels of pixels [first, end) by new_label[label]; new_label[0] is 0. A work-item
 * processes a pixel. */
__kernel GROUP_ATTRIBUTE void cc_relabel(__global const int *new_label, __global int *labels,
                                         uint first, uint end)
{
    const uint i = first + (uint)get_global_id(0);

    if (i < end)
        labels[i] = new_label[labels[i]];
}

#endif /* CC_KERNELS_REGIONS */

/* --- split ----------------------------------------------------------------------------------- */

#if KERNELS & CC_KERNELS_SPLIT
/* Sets d2 to the squared distance of each pixel to the nearest background pixel in the same row, or
 * to EDT_FAR if the row has no background. A work-group processes a row, from first_row on. bits:
 * local memory for a row of the mask. */
__kernel GROUP_ATTRIBUTE void cc_distance_rows(__global const uint *mask, __global uint *d2,
                                               uint nx, uint stride, uint first_row,
                                               __local uint *bits)
{
    volatile __local uint background;
    const uint local_id = (uint)get_local_id(0), y = first_row + (uint)get_group_id(1);
    uint gaps = 0;

    if (local_id == 0)
        background = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint w = local_id; w < (nx + 31) / 32; w += GROUP) {
        bits[w] = mask[y * stride + w];
        gaps |= ~bits[w] & (nx - w * 32 < 32 ? (1u << (nx - w * 32)) - 1 : ~0u);
    }
    if (gaps != 0)
        atomic_or(&background, 1u);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint x = local_id; x < nx; x += GROUP)
        d2[y * nx + x] = background ? edt_along_x(bits, x, nx) : EDT_FAR;
}

/* Sets d2 to the squared distance of each pixel to the nearest background pixel of the picture.
 * rows: the squared distances within rows (cc_distance_rows). Global size: x: columns [first, end);
 * y: stretches of CC_COLUMN_PIXELS pixels of a column. A work-item processes the runs of cell
 * pixels that begin in its stretch. parabolas: work space (edt_line), a word for each pixel. */
__kernel GROUP_ATTRIBUTE void cc_distance_columns(__global const uint *restrict rows,
                                                  __global uint *restrict parabolas,
                                                  __global uint *restrict d2, uint first, uint end,
                                                  uint nx, uint ny)
{
    const uint x = first + (uint)get_global_id(0);
    edt_walk walk = edt_walk_begin();
    edt_line l;

    if (x >= end)
        return;
    l.d2 = rows;
    l.side = 0;
    l.parabolas = parabolas;
    l.at = x;
    l.stride = nx;
    l.n = ny;
    const uint from = (uint)get_global_id(1) * CC_COLUMN_PIXELS, y0 = edt_first(&l, from);
    const uint y1 = edt_find(&l, y0, TC_MIN(from + CC_COLUMN_PIXELS, ny));

    for (uint y = y0; y < y1; y++)
        d2[y * nx + x] = edt_walk_at(&l, &walk, y, EDT_SIDE(&l, y * nx + x));
}

/* Sets up[i], for pixels [first, end), to the pixel with the largest squared distance among pixel i
 * and its neighbours (the first in raster order if there are several), or to WS_NO_HILL if i is
 * background. A work-item processes a pixel. */
__kernel GROUP_ATTRIBUTE void cc_ascend(__global const uint *d2, __global int *up, uint first,
                                        uint end, int nx, int ny, int neighbours)
{
    const uint i = first + (uint)get_global_id(0);

    if (i >= end)
        return;
    const int y = (int)(i / (uint)nx), x = (int)i - y * nx;
    const ws_shape s = { nx, ny, 1, neighbours == 8, 0 };

    up[i] = d2[i] == 0 ? WS_NO_HILL : ws_highest_neighbour(d2, &s, x, y, 0, 0);
}

/* Sets maxima[i], for pixels [first, end), to the regional maximum that the links `up` lead to from
 * pixel i, or to -1 on the background. A work-item processes a pixel. */
__kernel GROUP_ATTRIBUTE void cc_maxima(__global const int *up, __global int *maxima, uint first,
                                        uint end)
{
    const uint i = first + (uint)get_global_id(0);

    if (i < end)
        maxima[i] = root_of(up, (int)i);
}
#endif
