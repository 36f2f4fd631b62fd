/*
 * The OpenCL kernels that compute the texture of small objects. A work-group makes a co-occurrence
 * matrix of an object, which counts the pairs of grey levels a and b of pixels at a given distance,
 * in one direction or, with `merge`, in all directions. Then a work-item computes the features of
 * the matrix. An object's pixels are given as runs along x. A run is a 64-bit number: z, y, x0 (the
 * first pixel) and x1 (the last pixel) in 16 bits each, from the highest bits down. The runs of
 * object i are runs[start[i]] to runs[start[i + 1] - 1].
 *
 * Macros: GROUP, the size of a work-group; LANES, the number of work-items that process a run
 * together. Grey values are converted to `levels` grey levels, which have `bits` bits. The matrix
 * counts pairs of levels, [2^bits][2^bits], in local memory, or if GLOBAL_COUNTS is defined in
 * global memory. wanted: the set of features to be computed, a bit for each. Values that differ
 * between work units are arguments rather than macros, so that all work units use the same program:
 * compiling takes longer than most work units.
 */
//! check: -DGROUP=64 -DLANES=16
//! check: -DGROUP=128 -DLANES=32 -DGLOBAL_COUNTS
#ifndef GROUP
#define GROUP 64
#define LANES 16
#endif
#pragma OPENCL FP_CONTRACT OFF
#include "app/analysis/common/cooc_core.h"
#include "app/analysis/objects/core.h"

#ifdef GLOBAL_COUNTS
#define COUNTS __global
#define COUNTS_FENCE CLK_GLOBAL_MEM_FENCE
#else
#define COUNTS __local
#define COUNTS_FENCE CLK_LOCAL_MEM_FENCE
#endif
#define GROUP_ATTRIBUTE __attribute__((reqd_work_group_size(GROUP, 1, 1)))
/* The number of words of a matrix' sums and histograms (OBJ_W_...). */
#define WORDS(levels) (OBJ_WORD_MARGINAL + 4 * (levels))
#define NOT_A_NUMBER as_double(0x7ff8000000000000L) /* C's NAN */

#define RUN_Z(r) ((tc_i32)((r) >> 48))
#define RUN_Y(r) ((tc_i32)((r) >> 32 & 0xffff))
#define RUN_X0(r) ((tc_i32)((r) >> 16 & 0xffff))
#define RUN_X1(r) ((tc_i32)((r) & 0xffff))

/* Defines the kernel `name`, which converts the pixels of the objects from `first` on to grey
 * levels, in `level`. A work-group converts an object; LANES work-items together convert a run.
 * ends: [objects][2], the range (lo, hi) of grey values that is divided into levels. */
#define QUANTISE(name, PIXEL)                                                                     \
    __kernel GROUP_ATTRIBUTE void name(__global const PIXEL *grey, __global const tc_u64 *runs,   \
                                       __global const tc_u32 *start, __global const tc_u32 *ends, \
                                       __global tc_u8 *level, tc_u32 nx, tc_u32 ny, tc_u32 first, \
                                       tc_u32 levels)                                             \
    {                                                                                             \
        const tc_u32 object = get_group_id(0), lane = get_local_id(0) % LANES;                    \
        const tc_u32 end = start[first + object + 1];                                             \
        const obj_level_scale spread =                                                            \
            obj_level_scale_of(ends[2 * object], ends[2 * object + 1], levels);                   \
                                                                                                  \
        for (tc_u32 i = start[first + object] + get_local_id(0) / LANES; i < end;                 \
             i += GROUP / LANES) {                                                                \
            const tc_u64 r = runs[i];                                                             \
            const tc_u32 row = ((tc_u32)RUN_Z(r) * ny + (tc_u32)RUN_Y(r)) * nx;                   \
                                                                                                  \
            for (tc_u32 x = RUN_X0(r) + lane; x <= (tc_u32)RUN_X1(r); x += LANES)                 \
                level[row + x] = obj_level(grey[row + x], &spread);                               \
        }                                                                                         \
    }

QUANTISE(obj_quantise8, uchar)
QUANTISE(obj_quantise16, ushort)

/* Counts, in the matrix `count`, the pairs of pixels of an object that are (dx, dy, dz) apart. The
 * object has the runs [begin, end). */
static void count_pairs(__global const tc_u32 *labels, __global const tc_u8 *level,
                        __global const tc_u64 *runs, tc_u32 begin, tc_u32 end, COUNTS tc_u32 *count,
                        tc_i32 bits, tc_i32 nx, tc_i32 ny, tc_i32 nz, tc_i32 dx, tc_i32 dy,
                        tc_i32 dz)
{
    const tc_i32 lane = get_local_id(0) % LANES;

    for (tc_u32 i = begin + get_local_id(0) / LANES; i < end; i += GROUP / LANES) {
        const tc_u64 r = runs[i];
        const tc_i32 y = RUN_Y(r) + dy, z = RUN_Z(r) + dz, last = TC_MIN(RUN_X1(r), nx - 1 - dx);
        const tc_u32 row = (RUN_Z(r) * ny + RUN_Y(r)) * nx, moved_row = (z * ny + y) * nx + dx;
        const tc_u32 label = labels[row + RUN_X0(r)];

        if (y < 0 || y >= ny || z >= nz)
            continue;
        for (tc_i32 x = TC_MAX(RUN_X0(r), -dx) + lane; x <= last; x += LANES)
            if (labels[moved_row + x] == label)
                atomic_inc(&count[obj_cell(level[row + x], level[moved_row + x], bits)]);
    }
}

/* Returns k log2(k) in units of 2^-80, the same value as tc_k_log2_k; for k < n_logs from the table
 * `logs`. */
static tc_u128 k_log2_k(__global const tc_u128 *logs, tc_u32 n_logs, tc_u64 k)
{
    return k < n_logs ? logs[k] : tc_u128_times(tc_log2_q80(k), k);
}

/* The sums over the matrix' entries that a work-item processes; they are then added up over the
 * work-group. */
typedef struct obj_part {
    tc_u64 squares; /* of the squared entries of the symmetric matrix */
    tc_u128 cells;  /* of k log2(k) over these entries k, in units of 2^-80 */
    tc_u32 pairs;   /* number of pairs */
    tc_u32 most;    /* the largest entry of the symmetric matrix */
} obj_part;

/* Adds entry (a, b) of the matrix, a count of k pairs, to the sums, as cooc_add does. The symmetric
 * matrix contains an entry off the diagonal twice, and an entry on the diagonal doubled. */
static void add_cell(obj_part *p, tc_u32 a, tc_u32 b, tc_u32 k, __global const tc_u128 *logs,
                     tc_u32 n_logs)
{
    const tc_u64 entry = a == b ? 2 * (tc_u64)k : k, times = a == b ? 1 : 2;
    const tc_u128 log = k_log2_k(logs, n_logs, entry);

    p->pairs += k;
    p->most = TC_MAX(p->most, (tc_u32)entry);
    p->squares += times * entry * entry;
    p->cells = tc_u128_add(p->cells, a == b ? log : tc_u128_add(log, log));
}

/* Computes a matrix and its sums in each work-group. Work-group g processes object first + g /
 * matrices, where `matrices` is the number of matrices of an object: 1 with `merge`, otherwise one
 * for each direction. LANES work-items together process a run. logs: [n_logs]: k log2(k) in units
 * of 2^-80. counts: the matrix of the
 * work-group (local memory), or of all work-groups (GLOBAL_COUNTS). histogram: [4 * levels], the
 * counts of a and b (`levels` bins), of a + b (2 * levels), and of b - a (levels). out:
 * [groups][WORDS]. */
__kernel GROUP_ATTRIBUTE void obj_matrices(
    __global const tc_u32 *labels, __global const tc_u8 *level, __global const tc_u64 *runs,
    __global const tc_u32 *start, __global const tc_u128 *logs, tc_u32 n_logs,
    COUNTS tc_u32 *counts, volatile __local tc_u32 *histogram, __global tc_u32 *out, tc_i32 nx,
    tc_i32 ny, tc_i32 nz, tc_u32 first, tc_i32 distance, tc_u32 directions, tc_u32 merge,
    tc_u32 levels, tc_i32 bits)
{
    const tc_u32 local_id = get_local_id(0), matrices = merge ? 1 : directions;
    const tc_u32 object_index = (tc_u32)get_group_id(0) / matrices, object = first + object_index;
    const tc_u32 n_cells = 1u << 2 * bits;
    __global tc_u32 *const words = out + get_group_id(0) * WORDS(levels);
    __local tc_u64 squares[GROUP];
    __local tc_u128 cells[GROUP];
    __local tc_u32 pairs[GROUP], most[GROUP];
    obj_part p = { 0, { 0, 0 }, 0, 0 };
#ifdef GLOBAL_COUNTS
    COUNTS tc_u32 *const count = counts + get_group_id(0) * n_cells;
#else
    COUNTS tc_u32 *const count = counts;
#endif

    for (tc_u32 i = local_id; i < n_cells; i += GROUP)
        count[i] = 0;
    for (tc_u32 i = local_id; i < 4 * levels; i += GROUP)
        histogram[i] = 0;
    barrier(CLK_LOCAL_MEM_FENCE | COUNTS_FENCE);
    for (tc_u32 d = merge ? 0 : (tc_u32)get_group_id(0) - object_index * matrices,
                n = merge ? directions : 1;
         n > 0; d++, n--)
        count_pairs(labels, level, runs, start[object], start[object + 1], count, bits, nx, ny, nz,
                    obj_directions[d][0] * distance, obj_directions[d][1] * distance,
                    obj_directions[d][2] * distance);
    barrier(CLK_LOCAL_MEM_FENCE | COUNTS_FENCE);
    for (tc_u32 i = local_id; i < n_cells; i += GROUP) {
        const tc_u32 k = count[i], a = i >> bits, b = i & ((1 << bits) - 1);

        if (k == 0)
            continue;
        add_cell(&p, a, b, k, logs, n_logs);
        atomic_add(&histogram[a], k);
        atomic_add(&histogram[b], k);
        atomic_add(&histogram[levels + a + b], k);
        atomic_add(&histogram[3 * levels + b - a], k);
    }
    squares[local_id] = p.squares;
    cells[local_id] = p.cells;
    pairs[local_id] = p.pairs;
    most[local_id] = p.most;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (tc_u32 step = GROUP / 2; step > 0; step /= 2) {
        if (local_id < step) {
            cells[local_id] = tc_u128_add(cells[local_id], cells[local_id + step]);
            squares[local_id] += squares[local_id + step];
            pairs[local_id] += pairs[local_id + step];
            most[local_id] = TC_MAX(most[local_id], most[local_id + step]);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (tc_u32 i = local_id; i < 4 * levels; i += GROUP)
        words[OBJ_WORD_MARGINAL + i] = histogram[i];
    if (local_id == 0) {
        words[OBJ_WORD_PAIRS] = pairs[0];
        words[OBJ_WORD_MOST] = most[0];
        words[OBJ_WORD_SQUARES] = (tc_u32)squares[0];
        words[OBJ_WORD_SQUARES + 1] = (tc_u32)(squares[0] >> 32);
        words[OBJ_WORD_K_LOG_K] = (tc_u32)cells[0].lo;
        words[OBJ_WORD_K_LOG_K + 1] = (tc_u32)(cells[0].lo >> 32);
        words[OBJ_WORD_K_LOG_K + 2] = (tc_u32)cells[0].hi;
        words[OBJ_WORD_K_LOG_K + 3] = (tc_u32)(cells[0].hi >> 32);
    }
}

/* A 64-bit number from two words, the low half first. */
static tc_u64 two_words(__global const tc_u32 *words)
{
    return words[0] | (tc_u64)words[1] << 32;
}

/* The sum of k log2(k) over the counts k of a histogram of n bins, in units of 2^-80. */
static tc_u128 add_logs(__global const tc_u32 *histogram, tc_u32 n, __global const tc_u128 *logs,
                        tc_u32 n_logs)
{
    tc_u128 sum = { 0, 0 };

    for (tc_u32 k = 0; k < n; k++)
        sum = tc_u128_add(sum, k_log2_k(logs, n_logs, histogram[k]));
    return sum;
}

/* Adds the sums over the histograms of a + b and of |a - b| that the features need to *t and *w, as
 * cooc_features does. marginal: the three histograms, as obj_matrices makes them. */
static void add_histograms(__global const tc_u32 *marginal, tc_u32 levels, tc_u32 wanted,
                           cooc_totals *t, cooc_weights *w)
{
    __global const tc_u32 *const sum = marginal + levels, *const difference = marginal + 3 * levels;
    double mean;

    for (tc_u32 k = 0; k < 2 * levels - 1; k++) {
        t->s1 += (tc_u64)k * sum[k];
        t->s2 += (tc_u64)(k * k) * sum[k];
    }
    for (tc_u32 k = 0; k < levels; k++) {
        t->d1 += (tc_u64)k * difference[k];
        t->d2 += (tc_u64)(k * k) * difference[k];
        cooc_add_difference_bin(w, k, difference[k], levels, wanted);
    }
    if ((wanted & (1 << COOC_CLUSTER_SHADE | 1 << COOC_CLUSTER_PROMINENCE)) == 0)
        return;
    mean = cooc_sum_mean(t);
    for (tc_u32 k = 0; k < 2 * levels - 1; k++)
        cooc_add_sum_bin(w, k, sum[k], mean);
}

/* Computes the features of each matrix; a work-item computes those of one matrix. out:
 * [matrices][number of wanted features]; the first feature is NaN if the matrix has no pair. */
__kernel void obj_features(__global const tc_u32 *sums, __global const tc_u128 *logs, tc_u32 n_logs,
                           tc_u32 matrices, tc_u32 levels, tc_u32 wanted, __global double *out)
{
    const tc_u32 matrix = (tc_u32)get_global_id(0);
    __global const tc_u32 *const words = sums + (size_t)matrix * WORDS(levels);
    cooc_totals t = { 0, 0, 0, 0, 0, 0, 0, { 0, 0 }, { 0, 0 }, { 0, 0 }, { 0, 0 } };
    cooc_weights w = { 0, 0, 0, 0, 0, 0, 0 };
    double feature[COOC_FEATURES];

    if (matrix >= matrices)
        return;
    out += (size_t)matrix * popcount(wanted);
    t.pairs = words[OBJ_WORD_PAIRS];
    if (t.pairs == 0) {
        *out = NOT_A_NUMBER;
        return;
    }
    t.most = words[OBJ_WORD_MOST];
    t.squares = two_words(words + OBJ_WORD_SQUARES);
    t.cells =
        tc_make_u128(two_words(words + OBJ_WORD_K_LOG_K + 2), two_words(words + OBJ_WORD_K_LOG_K));
    add_histograms(words + OBJ_WORD_MARGINAL, levels, wanted, &t, &w);
    /* The three histograms are processed in a loop, so that the code of k_log2_k is compiled once:
     * 0: by a pixel's level, 1: by the sum, 2: by the difference of both levels. */
    for (tc_u32 which = 0, at = OBJ_WORD_MARGINAL; which < 3; which++) {
        const tc_u32 bins = which == 1 ? 2 * levels : levels;
        const tc_u128 sum = add_logs(words + at, bins, logs, n_logs);

        at += bins;
        if (which == 0)
            t.marginal = sum;
        else if (which == 1)
            t.sums = sum;
        else
            t.differences = sum;
    }
    cooc_plain_features(&t, &w, feature);
    cooc_entropies(&t, k_log2_k(logs, n_logs, 2 * t.pairs), k_log2_k(logs, n_logs, t.pairs),
                   feature);
    for (tc_u32 f = 0; f < COOC_FEATURES; f++)
        if (COOC_HAS(wanted, f))
            *out++ = feature[f];
}

/* Averages each feature over the matrices of an object that have at least one pair; the result is
 * NaN if there are none. A work-item computes a feature of an object. features:
 * [objects][matrices][per_matrix]; out: [n], n = objects * per_matrix. */
__kernel void obj_average(__global const double *features, tc_u32 matrices, tc_u32 n,
                          tc_u32 per_matrix, __global double *out)
{
    const tc_u32 index = (tc_u32)get_global_id(0), object = index / per_matrix;
    __global const double *const object_features =
        features + (size_t)object * matrices * per_matrix;
    double sum = 0;
    tc_u32 directions = 0;

    if (index >= n)
        return;
    for (tc_u32 m = 0; m < matrices; m++)
        if (!isnan(object_features[m * per_matrix])) {
            sum += object_features[m * per_matrix + index % per_matrix];
            directions++;
        }
    out[index] = directions == 0 ? NOT_A_NUMBER : sum / directions;
}
