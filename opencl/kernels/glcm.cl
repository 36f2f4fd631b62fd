/*
 * The OpenCL kernels of glcm. The arithmetic is in app/analysis/glcm/core.h, the layout of the
 * buffers in app/analysis/glcm/layout.h, the launches in opencl/glcm_cl.c.
 *
 * In glcm_slide a work-item slides a window along a row, with histograms of its own, and stores the
 * sums of every window. glcm_statistics computes features from these sums, and statistics and maps
 * from the features. glcm_count makes a single matrix of the whole ROI (region of interest).
 *
 * A chunk (glcm_work) is a tile of windows with one offset between the pixels of a pair and one
 * number of grey levels. A move (glcm_move) is one row of pixel pairs of a window: it says which
 * pair leaves the window, and which enters it, when the window moves by one pixel.
 *
 * Macros that may be defined:
 * GLCM_COUNT: only glcm_count is compiled.
 * GLCM_SLIDE_ALONE: only glcm_slide is compiled.
 * GLCM_GLOBAL_BINS: histograms are in global memory.
 * GLCM_SINGLE: work-groups of glcm_slide have one work-item; for CPUs.
 * GLCM_NARROW: a cell's count has 8 bits (see histograms below).
 * GLCM_MORE_TOO: the features beyond Haralick's 13 are compiled; glcm_slide computes them from a
 * window's histograms, in double precision, and stores them after the window's sums.
 * GLCM_MAPS_TOO: maps of features are compiled.
 */
//! check: -DGLCM_COUNT
//! check: -DGLCM_GLOBAL_BINS -DGLCM_SLIDE_ALONE
//! check: -DGLCM_SINGLE
//! check: -DGLCM_NARROW
//! check: -DGLCM_MORE_TOO -DGLCM_MAPS_TOO
//! check: -DGLCM_MORE_TOO -DGLCM_GLOBAL_BINS -DGLCM_SINGLE
//! check: -DGLCM_MORE_TOO -DGLCM_GLOBAL_BINS -DGLCM_NARROW -DGLCM_MAPS_TOO

/* The address space of the histograms. Bin i of work-item k of a work-group (of `items` work-items)
 * is at i * items + k, so that adjacent work-items use different banks of local memory. */
#ifdef GLCM_GLOBAL_BINS
#define GLCM_BINS __global
#else
#define GLCM_BINS __local
#endif
#include "app/analysis/glcm/layout.h"
#ifdef GLCM_MORE_TOO
#pragma OPENCL FP_CONTRACT OFF
#include "app/analysis/glcm/more_core.h"
#endif

#ifndef GLCM_COUNT
/* BIN_STRIDE: the distance from a bin of a work-item to the work-item's next bin.
 * WINDOW_INDEX: the position, among a chunk's windows, at which the sums of window (x, y) are
 * stored. Windows whose sums are stored at the same time (on a CPU: one after another) are
 * adjacent. AHEAD: the number of moves whose pixels are read in advance. Reading a pixel takes as
 * long as counting twenty pairs. Histograms take so much local memory that too few work-items run
 * at once to hide this time. */
#ifdef GLCM_SINGLE
#define BIN_STRIDE(items) 1
#define WINDOW_INDEX(u, x, y) ((long)(y) * (u)->columns + (x))
#else
#define BIN_STRIDE(items) (items)
#define WINDOW_INDEX(u, x, y) ((long)(x) * (u)->rows + (y))
#endif
#if defined(GLCM_SINGLE) || defined(GLCM_GLOBAL_BINS)
#define AHEAD 1
#else
#define AHEAD 4
#endif

/*
 * The histograms of a window's pairs of levels (a, b). bins: three histograms with counts of 16
 * bits: of the levels a and b (the marginal, from bin 0 on), of |a-b| (from bin `levels` on) and of
 * a+b (from bin 2 * levels on). cells: the number of pairs for each a <= b, in the order of a
 * triangular matrix. Cells take most of the local memory, which limits the number of work-items
 * that run at once. With GLCM_NARROW, for windows of fewer than 1024 pairs, a cell has 8 bits and
 * holds its count modulo 256. `full` then contains the index of a cell once for each whole 256 of
 * its count (twice for a count of 700). As there are fewer than 1024 pairs, three elements are
 * enough for all cells together. Unused elements are NOWHERE. items: work-items of the work-group.
 */
#ifdef GLCM_NARROW
typedef uchar cell_count;
#define NOWHERE 0xffffffffu
#else
typedef ushort cell_count;
#endif
typedef struct histograms {
    GLCM_BINS ushort *bins;
    GLCM_BINS cell_count *cells;
    uint items, levels;
#ifdef GLCM_NARROW
    uint full[3];
#endif
} histograms;

#define BIN(h, i) (h)->bins[(i) * BIN_STRIDE((h)->items)]
#define CELL(h, i) (h)->cells[(i) * BIN_STRIDE((h)->items)]

/* The count of a cell. */
static inline uint count_of(const histograms *h, uint cell)
{
    uint count = CELL(h, cell);

#ifdef GLCM_NARROW
    for (int i = 0; i < 3; i++)
        count += h->full[i] == cell ? 256 : 0;
#endif
    return count;
}

/* Sets a cell's count to `count`, which is one more (sign 1) or less (-1) than before. */
static inline void set_count(histograms *h, uint cell, uint count, const int sign)
{
    CELL(h, cell) = (cell_count)count;
#ifdef GLCM_NARROW
    /* If the count crosses a multiple of 256 upwards, the first NOWHERE in `full` is replaced by
     * the cell; downwards, the first element with the cell by NOWHERE. There are no branches, as
     * they would delay the instructions that follow. */
    const uint old = sign > 0 ? NOWHERE : cell, new = sign > 0 ? cell : NOWHERE;
    const bool crosses = (count & 255) == (sign > 0 ? 0 : 255);
    const bool first = h->full[0] == old, second = h->full[1] == old;

    h->full[0] = (crosses & first) ? new : h->full[0];
    h->full[1] = (crosses & !first & second) ? new : h->full[1];
    h->full[2] = (crosses & !first & !second) ? new : h->full[2];
#endif
}

/* Tables. fine, other: the steps f(k + 1) - f(k), indexed by k, with f(k) = k log2(k), from which
 * entropies are computed. When the count of a bin increases from k to k + 1, the sum of f over the
 * bins changes by this step. `fine` is for the marginal and the cells, in units of 2^-60, modulo
 * 16; `other` is for a+b and |a-b|, in units of 2^-fbits. idm: the amount that a pair adds to the
 * sum of the inverse difference moment, indexed by |a-b|. */
typedef struct slide_steps {
    __global const ulong *fine, *other, *idm;
} slide_steps;

/*
 * The sums of a window: the sums of glcm_sums, in a form that needs fewer reads. f is the function
 * of slide_steps.
 * cell: the sum of f over the counts of the cells. From it sums_of computes the sum of f over the
 * entries of the symmetric matrix. There, a cell with count k gives two entries k or, on the
 * diagonal, one entry 2k; and f(2k) = 2 f(k) + 2k. So the sum over the entries is 2 * cell, plus 2
 * for each pair on the diagonal. The bin of |a-b| = 0 counts these pairs.
 * marginal, fs, fd: the sums of f over the histograms of levels, of a+b and of |a-b|.
 * cell12, marginal12: the same as cell and marginal, but with steps rounded down to multiples of
 * 2^-12. They are within 2^15 of the exact sums, which is near enough for glcm_join_sums.
 * idm: the sum of slide_steps.idm; e2: half the sum of the squared entries; s1, ss, d1, d2: the
 * sums of a+b, (a+b)^2, |a-b|, (a-b)^2; n: the number of pairs.
 */
typedef struct slide_sums {
    ulong cell, marginal, fs, fd, idm;
    uint cell12, marginal12, e2, s1, ss, d1, d2, n;
} slide_sums;

/* Returns the step of f from count k to k + 1, in units of 2^-12, rounded down. step: element k of
 * slide_steps.fine. From counts of about 24,000 on, which only the marginal of a large window has,
 * steps are 16 or more, and `fine`, being modulo 16, contains 16 less. Such a step is recognised by
 * a value below 1, since the only true step below 1 is that of k = 0. */
static inline uint coarse(ulong step, uint k)
{
    uint coarse_step = (uint)(step >> (GLCM_F_BITS - GLCM_COARSE_BITS));

#ifndef GLCM_NARROW
    coarse_step += k > 0 && step >> GLCM_F_BITS == 0 ? 16 << GLCM_COARSE_BITS : 0;
#endif
    return coarse_step;
}

/* Adds the pair of levels p and q to the window's histograms and sums (sign 1), or removes it (-1).
 * All counts are read before any is written, so that no read has to wait for a write. */
static inline void count_pair(histograms *h, uint p, uint q, const slide_steps *t, slide_sums *s,
                              const int sign)
{
/* Adds `change` to `total`, or subtracts it if the pair is removed. */
#define STEP(total, change) total = sign > 0 ? (total) + (change) : (total) - (change)
    const uint a = TC_MIN(p, q), b = TC_MAX(p, q), cell = b * (b + 1) / 2 + a, lower = sign < 0,
               sum = a + b, gap = b - a;
    /* For each bin that changes, the smaller of its counts before and after: kc of the cell, ks of
     * a+b, kd of |a-b|, ka of a, kb of b. */
    const uint kc = count_of(h, cell) - lower, ks = BIN(h, 2 * h->levels + sum) - lower;
    const uint kd = BIN(h, h->levels + gap) - lower, ka = BIN(h, a) - lower;
    const uint kb = a == b ? ka + sign : BIN(h, b) - lower;
    const ulong of_cell = t->fine[kc], of_a = t->fine[ka], of_b = t->fine[kb];

    STEP(s->cell, of_cell);
    STEP(s->cell12, coarse(of_cell, kc));
    /* (k + 1)^2 - k^2; twice that on the diagonal, as half of (2k + 2)^2 - (2k)^2 */
    STEP(s->e2, (2 * kc + 1) << (a == b));
    STEP(s->marginal, of_a + of_b);
    STEP(s->marginal12, coarse(of_a, ka) + coarse(of_b, kb));
    STEP(s->fs, t->other[ks]);
    STEP(s->fd, t->other[kd]);
    STEP(s->idm, t->idm[gap]);
    STEP(s->s1, sum);
    STEP(s->ss, sum * sum);
    STEP(s->d1, gap);
    STEP(s->d2, gap * gap);
    STEP(s->n, 1);
    BIN(h, a) = (ushort)(ka + (sign > 0));
    BIN(h, b) = (ushort)(kb + (sign > 0));
    BIN(h, h->levels + gap) = (ushort)(kd + (sign > 0));
    BIN(h, 2 * h->levels + sum) = (ushort)(ks + (sign > 0));
    set_count(h, cell, kc + (sign > 0), sign);
#undef STEP
}

static inline void clear_bins(histograms *h)
{
    for (uint i = 0; i < 4 * h->levels; i++)
        BIN(h, i) = 0;
    for (uint i = 0; i < h->levels * (h->levels + 1) / 2; i++)
        CELL(h, i) = 0;
#ifdef GLCM_NARROW
    for (int i = 0; i < 3; i++)
        h->full[i] = NOWHERE;
#endif
}

/* Converts a window's sums to glcm_sums. */
static inline glcm_sums sums_of(const slide_sums *s, const histograms *h)
{
    const ulong diagonal = BIN(h, h->levels),
                cell12 = 2 * (s->cell12 + (diagonal << GLCM_COARSE_BITS));

    return (glcm_sums){ .sum = s->s1 | (ulong)s->ss << GLCM_PACK_SHIFT,
                        .cell = (ulong2)(2 * (s->cell + (diagonal << GLCM_F_BITS)),
                                         s->e2 | cell12 << GLCM_E2_BITS),
                        .fs = s->fs,
                        .marginal = (ulong2)(s->marginal, s->marginal12),
                        .fd = s->fd,
                        .difference = (ulong2)(s->d1 | (ulong)s->d2 << GLCM_PACK_SHIFT,
                                               s->idm | (ulong)s->n << GLCM_N_SHIFT) };
}

/* Stores a window's sums. windows: the number of windows of the chunk, which is the distance from
 * one word of the sums to the next. */
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

#ifdef GLCM_MORE_TOO
/* Returns the largest entry of the symmetric matrix: a cell's count or, on the diagonal, twice its
 * count. */
static uint largest_entry(const histograms *h)
{
    uint most = 0, cell = 0;

    for (uint b = 0; b < h->levels; b++)
        for (uint a = 0; a <= b; a++, cell++)
            most = TC_MAX(most, count_of(h, cell) << (a == b));
    return most;
}

/* Computes and stores the window's features beyond Haralick's 13, as cooc_features and
 * glcm_more_features do. Does nothing if the window has no pairs. wanted: the set of features, a
 * bit for each. */
static void store_more(__global ulong *words, long windows, const histograms *h, const glcm_sums *s,
                       uint wanted)
{
    const uint levels = h->levels;
    cooc_totals t = { 0, 0, 0, 0, 0, 0, 0, { 0, 0 }, { 0, 0 }, { 0, 0 }, { 0, 0 } };
    cooc_weights w = { 0, 0, 0, 0, 0, 0, 0 };
    double feature[COOC_FEATURES], mean;
    tc_i64 fixed[GLCM_MORE_FEATURES];

    t.pairs = s->difference.y >> GLCM_N_SHIFT;
    if (t.pairs == 0)
        return;
    t.most = COOC_HAS(wanted, COOC_JOINT_MAXIMUM) ? largest_entry(h) : 0;
    t.s1 = s->sum & GLCM_PACK_MASK;
    t.s2 = s->sum >> GLCM_PACK_SHIFT;
    t.d1 = s->difference.x & GLCM_PACK_MASK;
    t.d2 = s->difference.x >> GLCM_PACK_SHIFT;
    mean = cooc_sum_mean(&t);
    for (uint k = 0; k < levels; k++) {
        const uint count = BIN(h, levels + k);

        if (count > 0)
            cooc_add_difference_bin(&w, k, count, levels, ~(1u << COOC_IDM));
    }
    for (uint k = 0; k < 2 * levels - 1; k++) {
        const uint count = BIN(h, 2 * levels + k);

        if (count > 0)
            cooc_add_sum_bin(&w, k, count, mean);
    }
    cooc_plain_features(&t, &w, feature);
    glcm_more_fixed(feature, levels, fixed);
    for (uint i = 0; i < GLCM_MORE_FEATURES; i++)
        words[(GLCM_WORDS + i) * windows] = (ulong)fixed[i];
}
#endif

/* Reads the pixels of AHEAD moves (glcm_move) from move i on: for each move, the two pixels of the
 * pair that leaves the window and the two of the pair that enters it. Beyond the last of the n
 * moves, the pixels of the last move are read again. p: the pixel at the window's centre. moves:
 * for each move the offsets (leave, enter) from p to the first pixels of the two pairs. partner:
 * the offset from the first to the second pixel of a pair. */
static inline void fetch(__global const ushort *p, const __local int *moves, int n, int partner,
                         int i, uint pixels[4 * AHEAD])
{
    for (int j = 0; j < AHEAD; j++) {
        const int at = 2 * TC_MIN(i + j, n - 1), leave = moves[at], enter = moves[at + 1];

        pixels[4 * j] = p[leave];
        pixels[4 * j + 1] = p[leave + partner];
        pixels[4 * j + 2] = p[enter];
        pixels[4 * j + 3] = p[enter + partner];
    }
}

/*
 * Slides windows along rows and stores their sums. A work-item slides one window along one segment
 * of a row. Global size: x: rows of windows, rounded up to the work-group's size; y: segments of a
 * row; z: the chunks listed in `chunks` from first_chunk on. bins: the size of a work-item's
 * histograms in units of 16 bits. all_bins: memory for the histograms of one work-group (local
 * memory), or of all work-groups (global memory). wanted: the set of features, a bit for each; 0 if
 * none is beyond Haralick's 13. For a window outside the ROI, word 2 of the sums, which contains
 * the number of pairs, is set to 0; the other words are not written.
 */
__kernel void glcm_slide(__global const glcm_work *all, __global const uint *chunks,
                         uint first_chunk, __global const ushort *planes,
                         __global const uchar *roi_planes, __global const glcm_move *all_moves,
                         __global const ulong *fine, __global const ulong *other,
                         __global const ulong *idm, __global ulong *all_words, int segment,
                         uint bins, uint wanted, GLCM_BINS ushort *all_bins)
{
    __global const glcm_work *const u = all + chunks[first_chunk + get_global_id(2)];
    const slide_steps t = { fine, other, idm };
    const int y = (int)get_global_id(0);
    int x0 = (int)get_global_id(1) * segment, x1 = TC_MIN(x0 + segment, u->columns);
    const uint items = (uint)get_local_size(0), levels = u->levels;
    const long windows = (long)u->columns * u->rows;
    const int stride = u->stride, partner = u->partner, n_moves = u->moves;
    __global const glcm_move *const moves = all_moves + u->first_move;

    __global const uchar *roi = roi_planes + u->roi + y;
    __global ulong *const words = all_words + u->words;
    const bool idle = y >= u->rows || x0 >= x1;
    int from = idle ? x1 : x0, to = x1;
    __local int move_offsets[2 * GLCM_MAX_LENS_ROWS]; /* `leave` and `enter` of each move */

    for (int i = (int)get_local_id(0); i < n_moves; i += (int)items) {
        move_offsets[2 * i] = moves[i].leave;
        move_offsets[2 * i + 1] = moves[i].enter;
    }

    /* Narrows [from, to) to the windows between the first and the last one in the ROI; the windows
     * outside get no pairs. The work-group uses one range, the union of its work-items' ranges, so
     * that adjacent work-items read adjacent pixels. */
    while (from < to && !roi[(long)from * stride])
        from++;
    while (from < to && !roi[(long)(to - 1) * stride])
        to--;
#ifndef GLCM_SINGLE
    __local int range[2];

    if (get_local_id(0) == 0) {
        range[0] = x1;
        range[1] = x0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (from < to) {
        atomic_min(&range[0], from);
        atomic_max(&range[1], to);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    from = range[0];
    to = range[1];
#endif
    if (idle)
        return;
    for (; x0 < x1 && x0 < from; x0++)
        words[2 * windows + WINDOW_INDEX(u, x0, y)] = 0;
    for (; x0 < x1 && x1 > to; x1--)
        words[2 * windows + WINDOW_INDEX(u, x1 - 1, y)] = 0;
    if (x0 >= x1)
        return;
    roi += (long)x0 * stride;

    __global const ushort *p = planes + u->plane + (long)x0 * stride + y;
#ifdef GLCM_GLOBAL_BINS
    const size_t group =
        get_group_id(0) +
        get_num_groups(0) * (get_group_id(1) + get_num_groups(1) * get_group_id(2));
    GLCM_BINS ushort *const group_bins = all_bins + group * items * bins;
#else
    GLCM_BINS ushort *const group_bins = all_bins;
#endif
    histograms h;
    slide_sums s = { 0 };
    /* Two work-items whose counts of 16 bits share a word have numbers half a work-group apart, so
     * they are in different warps if the group has two. */
    const uint local_id = (uint)get_local_id(0), slot = items % 2 > 0 ? local_id
                                                        : 2 * local_id < items
                                                            ? 2 * local_id
                                                            : 2 * local_id - items + 1;
    uint pixels[4 * AHEAD];

    h.bins = group_bins + slot;
    h.cells = (GLCM_BINS cell_count *)(group_bins + 4 * levels * items) + slot;
    h.items = items;
    h.levels = levels;
    clear_bins(&h);
    for (int i = 0; i < n_moves; i++) {
        const int count = moves[i].count;

        for (int j = 0; j < count; j += AHEAD) {
            for (int k = 0; k < AHEAD; k++) {
                const int at = moves[i].leave + TC_MIN(j + k, count - 1) * stride;

                pixels[2 * k] = p[at];
                pixels[2 * k + 1] = p[at + partner];
            }
            for (int k = 0; k < AHEAD; k++)
                if (j + k < count && ((pixels[2 * k] | pixels[2 * k + 1]) & GLCM_OUTSIDE) == 0)
                    count_pair(&h, pixels[2 * k], pixels[2 * k + 1], &t, &s, 1);
        }
    }
    for (int x = x0;; x++) {
        if (*roi) {
            const glcm_sums sums = sums_of(&s, &h);

            store_sums(words + WINDOW_INDEX(u, x, y), windows, &sums);
#ifdef GLCM_MORE_TOO
            if (wanted != 0)
                store_more(words + WINDOW_INDEX(u, x, y), windows, &h, &sums, wanted);
#endif
        } else {
            words[2 * windows + WINDOW_INDEX(u, x, y)] = 0;
        }
        if (x + 1 >= x1)
            break;
        if (u->interior && n_moves > 0) {
            /* No pixel is outside the picture, so none is checked. With the last moves of a window,
             * the pixels of the first moves of the next window are read. */
            const int ahead = x + 2 < x1 ? stride : 0;

            if (x == x0)
                fetch(p, move_offsets, n_moves, partner, 0, pixels);
            for (int i = 0; i < n_moves; i += AHEAD) {
                const bool last = i + AHEAD >= n_moves;
                uint next[4 * AHEAD];

                fetch(last ? p + ahead : p, move_offsets, n_moves, partner, last ? 0 : i + AHEAD,
                      next);
                for (int j = 0; j < AHEAD; j++)
                    if (i + j < n_moves) {
                        count_pair(&h, pixels[4 * j], pixels[4 * j + 1], &t, &s, -1);
                        count_pair(&h, pixels[4 * j + 2], pixels[4 * j + 3], &t, &s, 1);
                    }
                for (int j = 0; j < 4 * AHEAD; j++)
                    pixels[j] = next[j];
            }
        } else {
            for (int i = 0; i < n_moves; i++) {
                const int leave = move_offsets[2 * i], enter = move_offsets[2 * i + 1];
                const uint a = p[leave], b = p[leave + partner];
                const uint c = p[enter], d = p[enter + partner];

                if (((a | b) & GLCM_OUTSIDE) == 0)
                    count_pair(&h, a, b, &t, &s, -1);
                if (((c | d) & GLCM_OUTSIDE) == 0)
                    count_pair(&h, c, d, &t, &s, 1);
            }
        }
        p += stride;
        roi += stride;
    }
}

#ifndef GLCM_SLIDE_ALONE
/* --- bands ----------------------------------------------------------------------------------- */

/* The features are added up over bands of rows (glcm_bands). A sum has 64 bits, in two words, the
 * low half first. Whether an addition to the low half has a carry follows from the old value that
 * the atomic addition returns, in whatever order work-items add. */

/* The row and column of window number w of a chunk. (If both / and % are used, clang generates an
 * instruction that Oclgrind does not support.) */
#ifdef GLCM_SINGLE
#define ROW(u, w) ((int)(w) / (u)->columns)
#define COLUMN(u, w) ((int)(w) - ROW(u, w) * (u)->columns)
#else
#define COLUMN(u, w) ((int)(w) / (u)->rows)
#define ROW(u, w) ((int)(w) - COLUMN(u, w) * (u)->rows)
#endif

static inline void clear_bands(__local uint *bands)
{
    for (uint i = (uint)get_local_id(0); i < 2 * GLCM_BANDS; i += GLCM_GROUP)
        bands[i] = 0;
}

/* Adds a window's sum of features to its band. */
static inline void add_to_band(__global const glcm_work *u, long window, ulong sum,
                               volatile __local uint *bands)
{
    const int band = GLCM_BAND(u->line0 + ROW(u, window), u->lines);
    const uint low = (uint)sum, old = atomic_add(&bands[2 * band], low);

    atomic_add(&bands[2 * band + 1], (uint)(sum >> 32) + (old + low < old ? 1 : 0));
}

/* Adds the sums of a work-group's bands to the sums of its chunk's bands. */
static inline void merge_bands(const __local uint *bands, volatile __global uint *chunk_bands)
{
    for (uint i = (uint)get_local_id(0); i < GLCM_BANDS; i += GLCM_GROUP)
        if ((bands[2 * i] | bands[2 * i + 1]) != 0) {
            const uint low = bands[2 * i], old = atomic_add(&chunk_bands[2 * i], low);

            atomic_add(&chunk_bands[2 * i + 1], bands[2 * i + 1] + (old + low < old ? 1 : 0));
        }
}

/* --- statistics ------------------------------------------------------------------------------ */

#ifdef GLCM_MAPS_TOO
/* The index of a window's pixel in a plane of the maps. */
static inline long pixel_of(__global const glcm_work *u, long window, int map_width)
{
    const int x = COLUMN(u, window), y = ROW(u, window);

    return (long)(u->map_y0 + (u->transposed ? x : y)) * map_width + u->map_x0 +
           (u->transposed ? y : x);
}
#endif

/* Reads a window's sums, which store_sums has stored, except for the number of pairs. */
static inline void load_sums(__global const ulong *words, long windows, glcm_sums *s)
{
    s->sum = words[0];
    s->difference = (ulong2)(words[windows], words[2 * windows] & (((ulong)1 << GLCM_N_SHIFT) - 1));
    s->fs = words[3 * windows];
    s->fd = words[4 * windows];
    s->cell = (ulong2)(words[5 * windows], words[6 * windows]);
    s->marginal = (ulong2)(words[7 * windows], words[8 * windows]);
}

/* Computes the features of each window, and the features' statistics, bands and maps. Global size:
 * x: a work-group of GLCM_GROUP for every GLCM_GROUP_WINDOWS windows of the largest chunk; y:
 * chunks. The work-items compute the features of a block of GLCM_GROUP windows, one window each,
 * into local memory. Then each work-item adds one feature (my_feature) of every PARTS-th window of
 * the block (from my_part on) to its statistics.
 * partials: [GLCM_FEATURES] for each work-group. counts: for each work-group its number of windows
 * with pairs. all_bands: for each chunk the bands of the features in `wanted`; zeroed before. maps:
 * planes of map_plane pixels, with rows of map_width. */
__kernel __attribute__((reqd_work_group_size(GLCM_GROUP, 1, 1))) void glcm_statistics(
    __global const glcm_work *all, __global const ulong *all_words,
    __global const glcm_divisors *divisors, __global const ulong *f, __global const ulong *f60,
    int fbits, __global const ulong *exp_table, __global glcm_moments *partials,
    __global uint *counts, uint wanted, volatile __global uint *all_bands, __global float *maps,
    long map_plane, int map_width)
{
    enum { PARTS = GLCM_GROUP / GLCM_FEATURES };
    __local long block[GLCM_FEATURES * GLCM_GROUP];
    __local uchar valid[GLCM_GROUP];
    __local glcm_moments part[PARTS * GLCM_FEATURES];
    __local uint bands[2 * GLCM_BANDS];
    __global const glcm_work *const u = all + get_global_id(1);
    const int windows = u->columns * u->rows;
    const int group_of_chunk = (int)(get_global_id(0) / GLCM_GROUP),
              first = group_of_chunk * GLCM_GROUP_WINDOWS;
    const int last = TC_MIN(first + GLCM_GROUP_WINDOWS, windows);
    const uint local_id = (uint)get_local_id(0);
    /* local_id / GLCM_FEATURES, for local_id < 5 * GLCM_FEATURES */
    const uint my_part = (local_id >= GLCM_FEATURES) + (local_id >= 2 * GLCM_FEATURES) +
                         (local_id >= 3 * GLCM_FEATURES) + (local_id >= 4 * GLCM_FEATURES);
    const uint my_feature = local_id - my_part * GLCM_FEATURES;
    glcm_moments my_moments = GLCM_NO_MOMENTS;
    uint counted = 0;

    clear_bands(bands);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int at = first; at < last; at += GLCM_GROUP) {
        const int w = at + (int)local_id;

        valid[local_id] = 0;
        if (w < last) {
            __global const ulong *const words = all_words + u->words + w;
            const uint n = (uint)(words[2 * (long)windows] >> GLCM_N_SHIFT);

            if (n > 0) {
                tc_i64 feature[GLCM_FEATURES];
                ulong sum = 0;
                glcm_sums s;

                load_sums(words, windows, &s);
                glcm_features(&s, n, divisors[n], f, f60, fbits, exp_table, feature);
                valid[local_id] = 1;
                for (int i = 0; i < GLCM_FEATURES; i++) {
                    block[i * GLCM_GROUP + local_id] = feature[i];
                    sum += (wanted >> i & 1) != 0 ? (ulong)feature[i] : 0;
                }
                add_to_band(u, w, sum, bands);
#ifdef GLCM_MAPS_TOO
                const long pixel = pixel_of(u, w, map_width);

                for (int i = 0; i < GLCM_FEATURES; i++)
                    if (u->map[i] >= 0)
                        maps[u->map[i] * map_plane + pixel] = glcm_as_float(feature[i]);
#endif
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (my_part < PARTS) {
            for (uint i = my_part; i < GLCM_GROUP; i += PARTS)
                if (valid[i]) {
                    glcm_moments_add(&my_moments, block[my_feature * GLCM_GROUP + i]);
                    counted++;
                }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (my_part < PARTS)
        part[my_part * GLCM_FEATURES + my_feature] = my_moments;
    /* Each window was counted once for each feature. Only the counts of feature 0 are added up. */
    block[local_id] = my_part < PARTS && my_feature == 0 ? counted : 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    merge_bands(bands, all_bands + 2 * GLCM_BANDS * get_global_id(1));
    if (first < windows && local_id < GLCM_FEATURES) {
        const long group = u->partial + (long)group_of_chunk;

        for (uint i = 1; i < PARTS; i++) {
            const glcm_moments other = part[i * GLCM_FEATURES + local_id];

            glcm_moments_merge(&my_moments, &other);
        }
        partials[group * GLCM_FEATURES + local_id] = my_moments;
        if (local_id == 0) {
            uint total = 0;

            for (uint i = 0; i < GLCM_GROUP; i++)
                total += (uint)block[i];
            counts[group] = total;
        }
    }
}

#ifdef GLCM_MORE_TOO
/* Does the same as glcm_statistics for the features beyond Haralick's 13, which glcm_slide has
 * stored. Global size and arguments are the same, except that partials is [GLCM_MORE_FEATURES] for
 * each work-group and there are no counts. In a work-group, work-item k adds feature k %
 * GLCM_MORE_FEATURES of every PARTS-th window. */
__kernel __attribute__((reqd_work_group_size(GLCM_GROUP, 1, 1))) void glcm_more_statistics(
    __global const glcm_work *all, __global const ulong *all_words, __global glcm_moments *partials,
    uint wanted, volatile __global uint *all_bands, __global float *maps, long map_plane,
    int map_width)
{
    enum { PARTS = GLCM_GROUP / GLCM_MORE_FEATURES };
    __local glcm_moments part[PARTS * GLCM_MORE_FEATURES];
    __local uint bands[2 * GLCM_BANDS];
    __global const glcm_work *const u = all + get_global_id(1);
    const long windows = (long)u->columns * u->rows;
    const long group = (long)(get_global_id(0) / GLCM_GROUP);
    const long first = group * GLCM_GROUP_WINDOWS,
               last = TC_MIN(first + GLCM_GROUP_WINDOWS, windows);
    const uint local_id = (uint)get_local_id(0), my_part = local_id / GLCM_MORE_FEATURES,
               my_feature = local_id - my_part * GLCM_MORE_FEATURES;
    __global const ulong *const words = all_words + u->words;
    const bool is_returned = (wanted >> (GLCM_FEATURES + my_feature) & 1) != 0;
    glcm_moments my_moments = GLCM_NO_MOMENTS;

    clear_bands(bands);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (long w = first + my_part; my_part < PARTS && w < last; w += PARTS)
        if (words[2 * windows + w] >> GLCM_N_SHIFT > 0) {
            const ulong feature = words[(GLCM_WORDS + my_feature) * windows + w];

            glcm_moments_add(&my_moments, (tc_i64)feature);
            if (is_returned)
                add_to_band(u, w, feature, bands);
#ifdef GLCM_MAPS_TOO
            if (u->map[GLCM_FEATURES + my_feature] >= 0)
                maps[u->map[GLCM_FEATURES + my_feature] * map_plane + pixel_of(u, w, map_width)] =
                    glcm_more_float((tc_i64)feature, GLCM_FEATURES + my_feature, u->levels);
#endif
        }
    if (my_part < PARTS)
        part[local_id] = my_moments;
    barrier(CLK_LOCAL_MEM_FENCE);
    merge_bands(bands, all_bands + 2 * GLCM_BANDS * get_global_id(1));
    if (first < windows && local_id < GLCM_MORE_FEATURES) {
        for (uint i = 1; i < PARTS; i++) {
            const glcm_moments other = part[i * GLCM_MORE_FEATURES + local_id];

            glcm_moments_merge(&my_moments, &other);
        }
        partials[(u->partial + group) * GLCM_MORE_FEATURES + local_id] = my_moments;
    }
}
#endif /* GLCM_MORE_TOO */

#endif /* GLCM_SLIDE_ALONE */
#endif /* GLCM_COUNT */

#ifdef GLCM_COUNT
/* --- one matrix of the whole ROI ------------------------------------------------------------- */

/* Counts pairs of pixels. A work-item counts the pair whose first pixel is its own, if both pixels
 * are in the ROI. Global size: x: rows; y: columns; z: chunks. counts: for each chunk a matrix of
 * matrix_size entries, which the caller has set to 0; entry (a, b) with a <= b counts the pairs
 * with levels a and b in either order. */
__kernel void glcm_count(__global const glcm_work *all, __global const ushort *planes,
                         __global const uchar *roi_planes, volatile __global uint *counts,
                         uint matrix_size)
{
    __global const glcm_work *const u = all + get_global_id(2);
    volatile __global uint *const matrix = counts + get_global_id(2) * matrix_size;
    const long at = (long)get_global_id(1) * u->stride + (long)get_global_id(0);
    __global const ushort *const p = planes + u->plane + at;
    __global const uchar *const roi = roi_planes + u->roi + at;

    if (roi[0] && roi[u->partner])
        atomic_inc(&matrix[TC_MIN(p[0], p[u->partner]) * u->levels + TC_MAX(p[0], p[u->partner])]);
}
#endif
