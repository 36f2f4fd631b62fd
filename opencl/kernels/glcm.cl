/*
 * glcm: see app/analysis/glcm/core.h for the arithmetic, app/analysis/glcm/layout.h
 * for the buffers, opencl/glcm_cl.c for the launches.
 *
 * glcm_slide: a work-item slides one window along a row, with histograms of its
 * own, and leaves the sums of every window. glcm_statistics: features from the
 * sums, and their statistics. glcm_count: the one matrix of a whole ROI.
 *
 * GLCM_WANTED: the set of features, where some are not of the 13. These are taken from a window's histograms where it
 * stands, in double precision, and kept behind its sums.
 */
//! check: -DGLCM_GLOBAL_BINS
//! check: -DGLCM_SINGLE
//! check: -DGLCM_WANTED=0xffffff
//! check: -DGLCM_WANTED=0x4000 -DGLCM_GLOBAL_BINS -DGLCM_SINGLE

/* Histograms in local memory where they fit, else in global memory. Bin i of
 * work-item k of a group is at i * items + k: neighbours use different banks.
 * A CPU has groups of one, and no need of the product; PLACE is where a window's
 * words are, so that what is written next lies beside. */
#ifdef GLCM_GLOBAL_BINS
#define GLCM_BINS __global
#else
#define GLCM_BINS __local
#endif
#include "app/analysis/glcm/layout.h"
#ifdef GLCM_WANTED
#pragma OPENCL FP_CONTRACT OFF
#include "app/analysis/glcm/more_core.h"
#endif

#ifdef GLCM_SINGLE
#define APART(items) 1
#define PLACE(u, x, y) ((long)(y) * (u)->columns + (x))
#define UNROLL
#else
#define APART(items) (items)
#define PLACE(u, x, y) ((long)(x) * (u)->rows + (y))
#ifdef __NV_CL_C_VERSION
#define UNROLL _Pragma("unroll 4")
#else
#define UNROLL          /* others say that they would rather not */
#endif
#endif

/* The pair of levels p and q enters the window, or leaves it. */
static inline void pair_moves(glcm_histograms h, uint items, uint levels, uint p, uint q, const glcm_steps *t,
                              glcm_sums *s, const int sign)
{
    const uint a = min(p, q), b = max(p, q);

    glcm_pair_moves(h, levels, APART(items), a, b, b * (b + 1) / 2 + a, t, s, sign);
}

static inline void clear_bins(GLCM_BINS ushort *h, uint items, uint levels, uint diagonal)
{
    const uint bins = 4 * levels + levels * (levels + 1) / 2;

    for (uint i = 0; i < bins; i++)
        h[i * APART(items)] = 0;
    for (uint b = 0; b < levels; b++)
        h[(4 * levels + b * (b + 1) / 2 + b) * APART(items)] = (ushort)diagonal;
}

static inline void store_sums(__global ulong *words, long windows, const glcm_sums *s)
{
    words[0] = s->sum;
    words[windows] = s->difference.x;
    words[2 * windows] = s->difference.y;
    words[3 * windows] = s->fs;
    words[4 * windows] = s->fd;
    words[5 * windows] = s->cell.x;
    words[6 * windows] = s->cell.y;
    words[7 * windows] = s->marginal.x;
    words[8 * windows] = s->marginal.y;
}

#ifdef GLCM_WANTED
/* The largest entry of C: a cell's count, that on the diagonal counted from `diagonal` and twice. */
static uint largest_entry(glcm_histograms h, uint items, uint levels, uint diagonal)
{
    uint most = 0, cell = 4 * levels;

    for (uint b = 0; b < levels; b++, cell++) {
        for (uint a = 0; a < b; a++, cell++)
            most = max(most, (uint)h[cell * APART(items)]);
        most = max(most, 2 * (h[cell * APART(items)] - diagonal));
    }
    return most;
}

/* The features beyond the 13 of a window that has a pair: as cooc_features and glcm_more_features have them. */
static void store_more(__global ulong *words, long windows, glcm_histograms h, uint items, uint levels, uint diagonal,
                       const glcm_sums *s)
{
    cooc_totals t = { 0, 0, 0, 0, 0, 0, 0, { 0, 0 }, { 0, 0 }, { 0, 0 }, { 0, 0 } };
    cooc_weights w = { 0, 0, 0, 0, 0, 0, 0 };
    double feature[COOC_FEATURES], mean;
    tc_i64 fixed[GLCM_MORE];

    t.pairs = s->difference.y >> GLCM_N_SHIFT;
    if (t.pairs == 0)
        return;
    t.most = COOC_HAS(GLCM_WANTED, COOC_JOINT_MAXIMUM) ? largest_entry(h, items, levels, diagonal) : 0;
    t.s1 = s->sum & GLCM_PACK_MASK;
    t.s2 = s->sum >> GLCM_PACK_SHIFT;
    t.d1 = s->difference.x & GLCM_PACK_MASK;
    t.d2 = s->difference.x >> GLCM_PACK_SHIFT;
    mean = cooc_mean(&t);
    for (uint k = 0; k < levels; k++) {
        const uint count = h[(levels + k) * APART(items)];

        if (count > 0)
            cooc_difference(&w, k, count, levels, ~(1u << COOC_IDM));
    }
    for (uint k = 0; k < 2 * levels - 1; k++) {
        const uint count = h[(2 * levels + k) * APART(items)];

        if (count > 0)
            cooc_sum(&w, k, count, mean);
    }
    cooc_plain_features(&t, &w, feature);
    glcm_more_fixed(feature, levels, fixed);
    for (uint i = 0; i < GLCM_MORE; i++)
        words[(GLCM_WORDS + i) * windows] = (ulong)fixed[i];
}
#endif

/*
 * Global size: x: rows of windows, rounded up to the group; y: segments of a
 * row; z: the portions listed in `portions`. bins: room for one group (local), or for
 * all groups (global), of 4L + L(L+1)/2 counts a work-item.
 */
__kernel void glcm_slide(__global const glcm_work *all, __global const uint *portions, uint first_portion,
                         __global const ushort *planes, __global const uchar *roi_planes,
                         __global const glcm_move *all_moves, __global const ulong2 *cell_steps,
                         __global const ulong2 *marginal_steps, __global const ulong2 *difference,
                         __global const ulong *steps, uint diagonal, __global ulong *all_words,
                         GLCM_BINS ushort *bins)
{
    __global const glcm_work *const u = all + portions[first_portion + get_global_id(2)];
    const glcm_steps t = { cell_steps, marginal_steps, steps, difference };
    const int y = (int)get_global_id(0);
    int x0 = (int)get_global_id(1) * GLCM_SEGMENT;
    int x1 = min(x0 + GLCM_SEGMENT, u->columns);
    const uint items = (uint)get_local_size(0), levels = u->levels;
    const long windows = (long)u->columns * u->rows;
    const int stride = u->stride, partner = u->partner, n_moves = u->moves;
    __global const glcm_move *const moves = all_moves + u->first_move;

    if (y >= u->rows || x0 >= x1)
        return;

    __global const uchar *roi = roi_planes + u->roi + y;
    __global ulong *const words = all_words + u->words;

#ifdef GLCM_SINGLE
    /* Windows before the first and after the last of the ROI have no pairs. On
     * a GPU neighbours slide in step, and there is nothing to be saved. */
    while (x0 < x1 && !roi[(long)x0 * stride])
        words[2 * windows + PLACE(u, x0++, y)] = 0;
    while (x0 < x1 && !roi[(long)(x1 - 1) * stride])
        words[2 * windows + PLACE(u, --x1, y)] = 0;
    if (x0 >= x1)
        return;
#endif
    roi += (long)x0 * stride;

    __global const ushort *p = planes + u->plane + (long)x0 * stride + y;
#ifdef GLCM_GLOBAL_BINS
    const size_t group = get_group_id(0)
        + get_num_groups(0) * (get_group_id(1) + get_num_groups(1) * get_group_id(2));
    GLCM_BINS ushort *const h = bins + group * items * (4 * levels + levels * (levels + 1) / 2)
                         + get_local_id(0);
#else
    GLCM_BINS ushort *const h = bins + get_local_id(0);
#endif
    glcm_sums s = { 0 };

    clear_bins(h, items, levels, diagonal);
    for (int i = 0; i < n_moves; i++) {
        for (int j = 0; j < moves[i].count; j++) {
            const int at = moves[i].leave + j * stride;
            const uint a = p[at], b = p[at + partner];

            if (((a | b) & GLCM_OUTSIDE) == 0)
                pair_moves(h, items, levels, a, b, &t, &s, 1);
        }
    }
    for (int x = x0; ; x++) {
        if (*roi) {
            store_sums(words + PLACE(u, x, y), windows, &s);
#ifdef GLCM_WANTED
            store_more(words + PLACE(u, x, y), windows, h, items, levels, diagonal, &s);
#endif
        } else {
            words[2 * windows + PLACE(u, x, y)] = 0;
        }
        if (x + 1 >= x1)
            break;
        if (u->interior) {
            /* Nothing to ask about a pair: the next ones' pixels can be on their
             * way while one is counted. */
            UNROLL
            for (int i = 0; i < n_moves; i++) {
                const int leave = moves[i].leave, enter = moves[i].enter;
                const uint a = p[leave], b = p[leave + partner];
                const uint c = p[enter], d = p[enter + partner];

                pair_moves(h, items, levels, a, b, &t, &s, -1);
                pair_moves(h, items, levels, c, d, &t, &s, 1);
            }
        } else {
            for (int i = 0; i < n_moves; i++) {
                const int leave = moves[i].leave, enter = moves[i].enter;
                const uint a = p[leave], b = p[leave + partner];
                const uint c = p[enter], d = p[enter + partner];

                if (((a | b) & GLCM_OUTSIDE) == 0)
                    pair_moves(h, items, levels, a, b, &t, &s, -1);
                if (((c | d) & GLCM_OUTSIDE) == 0)
                    pair_moves(h, items, levels, c, d, &t, &s, 1);
            }
        }
        p += stride;
        roi += stride;
    }
}

/* --- statistics ---------------------------------------------------------------- */

static inline void load_sums(__global const ulong *words, long windows, glcm_sums *s)
{
    s->sum = words[0];
    s->difference = (ulong2)(words[windows], words[2 * windows] & (((ulong)1 << GLCM_N_SHIFT) - 1));
    s->fs = words[3 * windows];
    s->fd = words[4 * windows];
    s->cell = (ulong2)(words[5 * windows], words[6 * windows]);
    s->marginal = (ulong2)(words[7 * windows], words[8 * windows]);
}

/*
 * Global size: x: groups of GLCM_GROUP for every GLCM_GROUP_WINDOWS windows of
 * the largest portion; y: portions. Work-items compute the features of a block of
 * windows into local memory; then each takes one feature of a part of the
 * block, whose statistics it keeps.
 * partials: [group][GLCM_FEATURES] of each portion, and the windows counted.
 */
__kernel __attribute__((reqd_work_group_size(GLCM_GROUP, 1, 1)))
void glcm_statistics(__global const glcm_work *all, __global const ulong *all_words,
                     __global const glcm_divisors *divisors, __global const ulong *f,
                     __global const ulong *f60, int fbits, __global const ulong *exp_table,
                     __global glcm_moments *partials, __global uint *counts)
{
    enum { PARTS = GLCM_GROUP / GLCM_FEATURES };
    __local long block[GLCM_FEATURES * GLCM_GROUP];
    __local uchar valid[GLCM_GROUP];
    __local glcm_moments part[PARTS * GLCM_FEATURES];
    __global const glcm_work *const u = all + get_global_id(1);
    const int windows = u->columns * u->rows;
    const int first = (int)get_group_id(0) * GLCM_GROUP_WINDOWS;
    const int last = min(first + GLCM_GROUP_WINDOWS, windows);
    const uint me = (uint)get_local_id(0);
    const uint my_part = (me >= GLCM_FEATURES) + (me >= 2 * GLCM_FEATURES) + (me >= 3 * GLCM_FEATURES)
                       + (me >= 4 * GLCM_FEATURES);
    const uint my_feature = me - my_part * GLCM_FEATURES;
    glcm_moments mine = GLCM_NO_MOMENTS;
    uint counted = 0;

    for (int at = first; at < last; at += GLCM_GROUP) {
        const int w = at + (int)me;

        valid[me] = 0;
        if (w < last) {
            __global const ulong *const words = all_words + u->words + w;
            const uint n = (uint)(words[2 * (long)windows] >> GLCM_N_SHIFT);

            if (n > 0) {
                tc_i64 feature[GLCM_FEATURES];
                glcm_sums s;

                load_sums(words, windows, &s);
                glcm_features(&s, n, divisors[n], f, f60, fbits, exp_table, feature);
                valid[me] = 1;
                for (int i = 0; i < GLCM_FEATURES; i++)
                    block[i * GLCM_GROUP + me] = feature[i];
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (my_part < PARTS) {
            for (uint i = my_part; i < GLCM_GROUP; i += PARTS)
                if (valid[i]) {
                    glcm_moments_add(&mine, block[my_feature * GLCM_GROUP + i]);
                    counted++;
                }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (my_part < PARTS)
        part[my_part * GLCM_FEATURES + my_feature] = mine;
    /* The counts of feature 0 are those of all. */
    block[me] = my_part < PARTS && my_feature == 0 ? counted : 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (first < windows && me < GLCM_FEATURES) {
        const long group = u->partial + (long)get_group_id(0);

        for (uint i = 1; i < PARTS; i++) {
            const glcm_moments other = part[i * GLCM_FEATURES + me];

            glcm_moments_merge(&mine, &other);
        }
        partials[group * GLCM_FEATURES + me] = mine;
        if (me == 0) {
            uint total = 0;

            for (uint i = 0; i < GLCM_GROUP; i++)
                total += (uint)block[i];
            counts[group] = total;
        }
    }
}

/*
 * The maps of one portion. Global size: x: rows of windows; y: columns. maps:
 * [planes][height][width]; window (0,0) is at pixel (x0, y0).
 */
__kernel void glcm_maps(__global const glcm_work *all, uint portion, __global const ulong *all_words,
                        __global const glcm_divisors *divisors, __global const ulong *f,
                        __global const ulong *f60, int fbits, __global const ulong *exp_table,
                        __global float *maps, long map_plane, int map_width)
{
    __global const glcm_work *const u = all + portion;
    const long x = (long)get_global_id(1), y = (long)get_global_id(0);
    const long px = u->map_x0 + (u->transposed ? y : x), py = u->map_y0 + (u->transposed ? x : y);
    const long windows = (long)u->columns * u->rows;
    __global const ulong *const words = all_words + u->words + PLACE(u, x, y);
    const uint n = (uint)(words[2 * windows] >> GLCM_N_SHIFT);
    tc_i64 feature[GLCM_FEATURES];
    glcm_sums s;

    if (n == 0)
        return;
    load_sums(words, windows, &s);
    glcm_features(&s, n, divisors[n], f, f60, fbits, exp_table, feature);
    for (int i = 0; i < GLCM_FEATURES; i++)
        if (u->map[i] >= 0)
            maps[u->map[i] * map_plane + py * map_width + px] = glcm_as_float(feature[i]);
}

#ifdef GLCM_WANTED
/* The statistics of the features beyond the 13, as glcm_statistics, without what is known from there. */
__kernel __attribute__((reqd_work_group_size(GLCM_GROUP, 1, 1)))
void glcm_more_statistics(__global const glcm_work *all, __global const ulong *all_words, __global glcm_moments *partials)
{
    enum { PARTS = GLCM_GROUP / GLCM_MORE };
    __local glcm_moments part[PARTS * GLCM_MORE];
    __global const glcm_work *const u = all + get_global_id(1);
    const long windows = (long)u->columns * u->rows;
    const long first = (long)get_group_id(0) * GLCM_GROUP_WINDOWS, last = min(first + GLCM_GROUP_WINDOWS, windows);
    const uint me = (uint)get_local_id(0), my_part = me / GLCM_MORE, my_feature = me - my_part * GLCM_MORE;
    __global const ulong *const words = all_words + u->words;
    glcm_moments mine = GLCM_NO_MOMENTS;

    for (long w = first + my_part; my_part < PARTS && w < last; w += PARTS)
        if (words[2 * windows + w] >> GLCM_N_SHIFT > 0)
            glcm_moments_add(&mine, (tc_i64)words[(GLCM_WORDS + my_feature) * windows + w]);
    if (my_part < PARTS)
        part[me] = mine;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (first < windows && me < GLCM_MORE) {
        for (uint i = 1; i < PARTS; i++) {
            const glcm_moments other = part[i * GLCM_MORE + me];

            glcm_moments_merge(&mine, &other);
        }
        partials[(u->partial + (long)get_group_id(0)) * GLCM_MORE + me] = mine;
    }
}

/* The maps of these, as glcm_maps. */
__kernel void glcm_more_maps(__global const glcm_work *all, uint portion, __global const ulong *all_words,
                             __global float *maps, long map_plane, int map_width)
{
    __global const glcm_work *const u = all + portion;
    const long x = (long)get_global_id(1), y = (long)get_global_id(0);
    const long px = u->map_x0 + (u->transposed ? y : x), py = u->map_y0 + (u->transposed ? x : y);
    const long windows = (long)u->columns * u->rows;
    __global const ulong *const words = all_words + u->words + PLACE(u, x, y);

    if (words[2 * windows] >> GLCM_N_SHIFT == 0)
        return;
    for (uint i = 0; i < GLCM_MORE; i++)
        if (u->map[GLCM_FEATURES + i] >= 0)
            maps[u->map[GLCM_FEATURES + i] * map_plane + py * map_width + px] =
                glcm_more_float((tc_i64)words[(GLCM_WORDS + i) * windows], GLCM_FEATURES + i, u->levels);
}
#endif

/* --- one matrix of the whole ROI --------------------------------------------------- */

/*
 * Global size: x: rows; y: columns; z: portions. counts: a zeroed matrix for each
 * portion; entry (a,b) with a <= b counts unordered pairs.
 */
__kernel void glcm_count(__global const glcm_work *all, __global const ushort *planes,
                         __global const uchar *roi_planes, volatile __global uint *counts, uint matrix_size)
{
    __global const glcm_work *const u = all + get_global_id(2);
    volatile __global uint *const matrix = counts + get_global_id(2) * matrix_size;
    const long at = (long)get_global_id(1) * u->stride + (long)get_global_id(0);
    __global const ushort *const p = planes + u->plane + at;
    __global const uchar *const roi = roi_planes + u->roi + at;

    if (roi[0] && roi[u->partner])
        atomic_inc(&matrix[min(p[0], p[u->partner]) * u->levels + max(p[0], p[u->partner])]);
}
