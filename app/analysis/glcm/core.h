/*
 * glcm: Haralick's features of one grey-level co-occurrence matrix, in fixed point with 32 fraction
 * bits, from exact integer sums over its pairs. Compiled as C and as OpenCL C.
 *
 * Formulas: R. M. Haralick, K. Shanmugam, I. Dinstein, "Textural features for
 * image classification", IEEE Trans. SMC-3 (1973) 610-621, in the form of the
 * Image Biomarker Standardisation Initiative (symmetric matrix, logarithms to
 * base 2, levels numbered from 1).
 *
 * A window has n unordered pairs (a,b) of grey levels, which are numbered from 0 here.
 * C is the symmetric matrix of 2n ordered pairs, p = C/(2n). With these sums over the n pairs,
 *
 *   s1 = sum(a+b)   ss = sum((a+b)^2)   d1 = sum|a-b|   d2 = sum((a-b)^2)
 *
 * and f(k) = k*log2(k), every feature is one of the quotients in glcm_features. HXY is the entropy
 * of p, and HX the entropy of the marginal distribution of p. Haralick's HXY1 and HXY2, which use
 * the product of the marginals, are both 2 HX, as the matrix is symmetric. A feature is the exact
 * quotient of the sums, rounded to the nearest multiple of 2^-32, so it does not depend on how the
 * division is done.
 *
 * f is a table in fixed point, built from logarithms that are exactly additive (log(ab) = log(a) +
 * log(b), to the last bit). So the mutual information of a matrix that is the product of its
 * marginals is exactly 0. Near 0 the feature imc2 is proportional to the square root of the mutual
 * information, which is the difference of two sums. For imc2 these sums must be more precise than
 * 64 bits allow. Therefore each sum is stored twice. The fine form is in units of 2^-60 modulo
 * 2^64; a small difference of two such sums is exact. The coarse form is in units of 2^-12. It
 * determines the multiple of 2^64 by which the fine form differs from the sum (glcm_join_sums).
 */
#ifndef GLCM_CORE_H
#define GLCM_CORE_H

#include "app/analysis/common/core.h"

/* Haralick's 13 features. */
enum {
    GLCM_ASM,
    GLCM_CONTRAST,
    GLCM_CORRELATION,
    GLCM_VARIANCE,
    GLCM_IDM,
    GLCM_SUM_AVERAGE,
    GLCM_SUM_VARIANCE,
    GLCM_SUM_ENTROPY,
    GLCM_ENTROPY,
    GLCM_DIFFERENCE_VARIANCE,
    GLCM_DIFFERENCE_ENTROPY,
    GLCM_IMC1,
    GLCM_IMC2,
    GLCM_FEATURES
};

/* Two sums side by side, each modulo 2^64. */
#ifdef __OPENCL_VERSION__
typedef ulong2 glcm_pair64;
#define GLCM_FIRST(v) ((v).x)
#define GLCM_SECOND(v) ((v).y)
#else
typedef tc_u64 glcm_pair64 __attribute__((vector_size(16)));
#define GLCM_FIRST(v) ((v)[0])
#define GLCM_SECOND(v) ((v)[1])
#endif

/* The sums of one window. Several sums share a 64-bit word, so that one addition changes them all.
 * They do not overflow for n < 2^14 pairs (a square window of radius 63 has at most 127*126) and
 * 256 levels. */
typedef struct glcm_sums {
    tc_u64 sum; /* s1 in the low 24 bits, ss above */
    /* First: fxy, the sum of f over the cells of C, in units of 2^-60 modulo 2^64.
     * Second: e2, half of the sum of C^2, in the low 30 bits, and fxy in units of 2^-12 above. */
    glcm_pair64 cell;
    tc_u64 fs; /* sum of f over the histogram of a+b, in units of 2^-fbits */
    /* First: fx, the sum of f over the marginal (which adds up to 2n), in units of 2^-60 modulo
     * 2^64. Second: fx12, the same in units of 2^-12. */
    glcm_pair64 marginal;
    tc_u64 fd; /* sum of f over the histogram of |a-b|, in units of 2^-fbits */
    /* First: dif, d1 in the low 24 bits, d2 above. Second: idm, the sum of 1/(1+(a-b)^2) in units
     * of 2^-GLCM_IDM_BITS. */
    glcm_pair64 difference;
} glcm_sums;

#define GLCM_E2_BITS 30 /* bits of e2 */
#define GLCM_E2_MASK (((tc_u64)1 << GLCM_E2_BITS) - 1)
#define GLCM_F_BITS 60      /* fraction bits of fxy and fx */
#define GLCM_COARSE_BITS 12 /* fraction bits of the coarse copies of fxy and fx */

#define GLCM_PACK_SHIFT 24 /* bits of s1 and of d1 */
#define GLCM_PACK_MASK (((tc_u64)1 << GLCM_PACK_SHIFT) - 1)
#define GLCM_IDM_BITS 36 /* fraction bits of idm */
/* The amount that a pair adds to `sum`, for k = a+b, or to dif, for k = |a-b|. */
#define GLCM_PACK(k) ((tc_u64)(k) | (tc_u64)((tc_u32)(k) * (tc_u32)(k)) << GLCM_PACK_SHIFT)

/* --- a window that slides -------------------------------------------------------------------- */

/* The histograms of a window on a CPU; opencl/kernels/glcm.cl has those of devices. Counts are
 * below 2^15. The counts of the marginal and of cells are stored doubled, as they are indices into
 * tables of 16-byte entries: the address of an entry is then the table plus 8 times the stored
 * count, which a CPU computes within one instruction. */
#ifndef __OPENCL_VERSION__
#define GLCM_DOUBLED 2 /* the amount that a pair adds to a doubled count */
typedef struct glcm_bins {
    /* cell: the triangle a <= b of the matrix, cell (a, b) at b (b + 1) / 2 + a */
    tc_u16 marginal[256], difference[256], sum[512], cell[256 * 257 / 2];
    /* Tables of the amounts that a pair adds to glcm_sums.difference, indexed by |a-b|, and to
     * glcm_sums.sum, indexed by a+b. They are in this struct so that their addresses need no
     * register besides that of the bins. */
    glcm_pair64 difference_term[256];
    tc_u64 sum_term[512];
} glcm_bins;

/* Tables whose entry k is the change of a sum when a bin's count goes from k to k+1 (glcm_tables).
 */
typedef struct glcm_steps {
    const glcm_pair64 *cell, *marginal; /* changes of glcm_sums.cell and of glcm_sums.marginal */
    const tc_u64 *other;                /* changes of glcm_sums.fs and of glcm_sums.fd */
} glcm_steps;

/* Adds `amount` to `total`, or subtracts it if the caller's variable `sign` is negative. */
#define GLCM_STEP(total, amount) total = sign > 0 ? (total) + (amount) : (total) - (amount)
/* The entry of a table for a doubled count. */
TC_INLINE glcm_pair64 glcm_entry(const glcm_pair64 *table, tc_index doubled)
{
    return *(const glcm_pair64 *)(const void *)((const tc_u64 *)(const void *)table + doubled);
}

/* Adds `unit` to the count of bin `at`, or subtracts it if the caller's variable `sign` is
 * negative. Sets `lower` to the lesser of the old and the new count. The empty assembly generates
 * no instruction. It hides from the compiler that the count to change is the one that was just
 * read. So the compiler changes the count in memory by one instruction, without first computing the
 * count's address. (This is a macro, as a function would need the address of `bins` as an argument,
 * which would take an instruction to compute.) */
#define GLCM_CHANGE(bins, at, unit, lower)                                           \
    do {                                                                             \
        (lower) = sign > 0 ? (bins)[at] : (tc_index)(bins)[at] - (unit);             \
        __asm__("" : "+r"(at));                                                      \
        (bins)[at] = (tc_u16)(sign > 0 ? (bins)[at] + (unit) : (bins)[at] - (unit)); \
    } while (0)

/* Updates the histograms and sums when a pair of levels a <= b enters the window (sign 1) or leaves
 * it (-1). cell: the pair's index in h->cell. The marginal changes twice: the change for level a
 * goes to s->marginal, and that for level b to *marginal_b, which the caller adds to s->marginal
 * after the last pair. With two sums the two additions take one instruction each; with a single sum
 * they would take three together. */
TC_INLINE void glcm_update_pair(glcm_bins *h, tc_index a, tc_index b, tc_index cell,
                                const glcm_steps *t, glcm_sums *s, glcm_pair64 *marginal_b,
                                const int sign)
{
    tc_index k, bin = a + b;

    GLCM_CHANGE(h->cell, cell, GLCM_DOUBLED, k);
    GLCM_STEP(s->cell, glcm_entry(t->cell, k));
    GLCM_STEP(s->sum, h->sum_term[bin]);
    GLCM_CHANGE(h->sum, bin, 1, k);
    GLCM_STEP(s->fs, t->other[k]);
    GLCM_CHANGE(h->marginal, a, GLCM_DOUBLED, k);
    GLCM_STEP(s->marginal, glcm_entry(t->marginal, k));
    GLCM_CHANGE(h->marginal, b, GLCM_DOUBLED, k);
    GLCM_STEP(*marginal_b, glcm_entry(t->marginal, k));
    bin = b - a;
    GLCM_CHANGE(h->difference, bin, 1, k);
    GLCM_STEP(s->fd, t->other[k]);
    GLCM_STEP(s->difference, h->difference_term[bin]);
}
#undef GLCM_STEP
#endif

/* --- features -------------------------------------------------------------------------------- */

/* The divisors of the features of a window with n pairs. */
typedef struct glcm_divisors {
    tc_divisor n, n2, n4; /* n, n^2, 4 n^2 */
} glcm_divisors;

/* The table of exponentials has three parts: GLCM_EXP_A entries exp(-i/2^4), GLCM_EXP_B entries
 * exp(-j/2^12), and as many exp(-k/2^20). */
#define GLCM_EXP_A 257
#define GLCM_EXP_B 256
#define GLCM_EXP_SIZE (GLCM_EXP_A + 2 * GLCM_EXP_B)

/* exp(-t) in units of 2^-63; t is in units of 2^-58, 0 <= t <= 16. It is the product of
 * exp(-i/2^4), exp(-j/2^12), exp(-k/2^20), which `table` has in this order in units of 2^-63, and
 * the first terms of the series for the rest of t, which is below 2^-20. */
TC_INLINE tc_u64 glcm_exp_neg(tc_u64 t, TC_GLOBAL const tc_u64 *table)
{
    const tc_u64 a = table[t >> 54];
    const tc_u64 b = table[GLCM_EXP_A + ((t >> 46) & 255)];
    const tc_u64 c = table[GLCM_EXP_A + GLCM_EXP_B + ((t >> 38) & 255)];
    /* r: the rest of t, in units of 2^-63; it is below 2^43 */
    const tc_u64 r = (t & (((tc_u64)1 << 38) - 1)) << 5;
    const tc_u64 one = (tc_u64)1 << 63;
    const tc_u64 rest = one - r + tc_mulhi(r, r); /* 1 - r + r^2/2 */
    /* A factor of exactly 1 is 2^63, which cannot be shifted left. */
    tc_u64 product = a == one ? b : tc_mulhi(a << 1, b);

    product = tc_mulhi(product, c) << 1;
    return tc_mulhi(product, rest) << 1;
}

/* Returns a sum in units of 2^-fbits, computed from its two forms: `fine`, in units of 2^-60 modulo
 * 2^64, and `coarse`, in units of 2^-12. The multiple of 2^64 that `fine` lacks is a multiple of
 * 2^16 in units of 2^-12. So the difference of the two forms, rounded to a multiple of 2^16, is
 * that multiple, if `coarse` has an error of less than 2^15. It has: it is a sum of rounded table
 * entries, over less than 2^14 cells on a CPU, and over less than 2^15 ordered pairs on a device.
 */
TC_INLINE tc_u64 glcm_join_sums(tc_u64 fine, tc_u64 coarse, int fbits)
{
    const tc_u64 multiple = (coarse - (fine >> (GLCM_F_BITS - GLCM_COARSE_BITS)) + (1 << 15)) >> 16;

    return (multiple << (64 - GLCM_F_BITS + fbits)) + (fine >> (GLCM_F_BITS - fbits));
}

/* Computes the features of the set (bit i: feature i) that need only sums over pairs, without
 * histograms; does not change other elements of `feature`. This is always inlined, as glcm_features
 * calls it with a constant set. */
TC_ALWAYS_INLINE void glcm_linear_features(const glcm_sums *w, tc_u32 n, glcm_divisors d,
                                           tc_u32 set, tc_i64 *feature)
{
    const tc_u64 dif = GLCM_FIRST(w->difference), idm = GLCM_SECOND(w->difference);
    const tc_u64 s1 = w->sum & GLCM_PACK_MASK, ss = w->sum >> GLCM_PACK_SHIFT;
    const tc_u64 d1 = dif & GLCM_PACK_MASK, d2 = dif >> GLCM_PACK_SHIFT;
    /* var: 4 n^2 times the variance of the marginal. contrast: 2 n^2 times the feature contrast;
     * var - contrast is 4 n^2 times the covariance. */
    const tc_u64 var = n * (ss + d2) - s1 * s1, contrast = 2 * (tc_u64)n * d2;

    if (set >> GLCM_CONTRAST & 1)
        feature[GLCM_CONTRAST] = (tc_i64)tc_div_round(d2 << 32, d.n);
    if ((set >> GLCM_CORRELATION & 1) && var == 0)
        feature[GLCM_CORRELATION] = (tc_i64)1 << 32;
    else if (set >> GLCM_CORRELATION & 1)
        feature[GLCM_CORRELATION] = var >= contrast ? (tc_i64)tc_ratio_q32(var - contrast, var)
                                                    : -(tc_i64)tc_ratio_q32(contrast - var, var);
    if (set >> GLCM_VARIANCE & 1)
        feature[GLCM_VARIANCE] = (tc_i64)tc_div_q32(var, d.n4);
    if (set >> GLCM_IDM & 1)
        feature[GLCM_IDM] = (tc_i64)tc_div(
            (idm + ((tc_u64)n << (GLCM_IDM_BITS - 33))) >> (GLCM_IDM_BITS - 32), d.n);
    if (set >> GLCM_SUM_AVERAGE & 1) /* plus 2, as formulas number levels from 1 */
        feature[GLCM_SUM_AVERAGE] = (tc_i64)(tc_div_round(s1 << 32, d.n) + ((tc_u64)2 << 32));
    if (set >> GLCM_SUM_VARIANCE & 1)
        feature[GLCM_SUM_VARIANCE] = (tc_i64)tc_div_q32(var - n * d2, d.n2);
    if (set >> GLCM_DIFFERENCE_VARIANCE & 1)
        feature[GLCM_DIFFERENCE_VARIANCE] = (tc_i64)tc_div_q32(n * d2 - d1 * d1, d.n2);
}

/* Computes the 13 features, in units of 2^-32, from the sums of a window with n > 0 pairs. d: the
 * divisors of this n; f, f60: tables of k*log2(k) for k up to 2n, in units of 2^-fbits
 * (32 < fbits <= 58), and of 2^-60 modulo 2^64; exp_table: see glcm_exp_neg. */
TC_INLINE void glcm_features(const glcm_sums *w, tc_u32 n, glcm_divisors d,
                             TC_GLOBAL const tc_u64 *f, TC_GLOBAL const tc_u64 *f60, int fbits,
                             TC_GLOBAL const tc_u64 *exp_table, tc_i64 *feature)
{
    const tc_u64 fxy60 = GLCM_FIRST(w->cell), e2 = GLCM_SECOND(w->cell);
    const tc_u64 fx60 = GLCM_FIRST(w->marginal), fx12 = GLCM_SECOND(w->marginal);
    const int k = fbits - 32; /* bits to drop from units of 2^-fbits to units of 2^-32 */
    const tc_u64 fn = f[n], f2n = f[2 * (tc_u64)n];
    const tc_u64 rounding = (tc_u64)n << (k - 1); /* half of 2^-32, times n, in units of 2^-fbits */
    const tc_u64 fxy = glcm_join_sums(fxy60, e2 >> GLCM_E2_BITS, fbits);
    const tc_u64 fx = glcm_join_sums(fx60, fx12, fbits);
    const tc_u64 y = f2n - fx;               /* 2n HX */
    tc_i64 x = (tc_i64)(f2n - 2 * fx + fxy); /* 2n (2 HX - HXY) */
    tc_u64 t;                                /* 2 (HXY2 - HXY) in units of 2^-58 */

    /* If x is small, t is computed from the sums in units of 2^-60, whose difference is exact. A
     * signed integer in these units is below 8; the limit for x is 4.
     */
    if (x >= (tc_i64)4 << fbits) {
        t = tc_div_round((tc_u64)x, d.n) << (58 - fbits);
    } else {
        tc_i64 fine = (tc_i64)(f60[2 * (tc_u64)n] - 2 * fx60 + fxy60);

        fine = fine < 0 ? 0 : fine;
        x = fine >> (GLCM_F_BITS - fbits);
        t = tc_div_round((tc_u64)fine >> 2, d.n);
    }
    glcm_linear_features(w, n, d, ~(tc_u32)0, feature);
    feature[GLCM_ASM] = (tc_i64)tc_div_round((e2 & GLCM_E2_MASK) << 31, d.n2);
    feature[GLCM_SUM_ENTROPY] = (tc_i64)tc_div((fn - w->fs + rounding) >> k, d.n);
    feature[GLCM_ENTROPY] = (tc_i64)tc_div((f2n - fxy + 2 * rounding) >> (k + 1), d.n);
    feature[GLCM_DIFFERENCE_ENTROPY] = (tc_i64)tc_div((fn - w->fd + rounding) >> k, d.n);
    feature[GLCM_IMC1] = y == 0 ? 0 : -(tc_i64)tc_ratio_q32((tc_u64)x, y);
    /* 1 - exp(-t) in units of 2^-64, and its square root in units of 2^-32 */
    feature[GLCM_IMC2] =
        (tc_i64)tc_sqrt_round((((tc_u64)1 << 63) - glcm_exp_neg(t, exp_table)) << 1);
}

/* The value of a map's pixel, from a feature in units of 2^-32. */
TC_INLINE float glcm_as_float(tc_i64 feature)
{
    return (float)feature * (1.0f / 4294967296.0f);
}

/* --- statistics ------------------------------------------------------------------------------ */

/* The lines of a picture, or of its transpose (glcm_view), are divided into GLCM_BANDS bands
 * (glcm_bands). GLCM_BAND is the band of line number `line` of `lines`. */
#define GLCM_BANDS 512
#define GLCM_BAND(line, lines) ((line) * GLCM_BANDS / (lines))

/* Exact statistics of one feature over windows: minimum, maximum, sum and sum of squares. The
 * feature is in fixed point; a sum has 128 bits in two's complement, in two halves. */
typedef struct glcm_moments {
    tc_i64 min, max;
    tc_u64 sum_lo, sum_hi;
    tc_u64 square_lo, square_hi;
} glcm_moments;

#define GLCM_NO_MOMENTS { 0x7fffffffffffffff, -0x7fffffffffffffff - 1, 0, 0, 0, 0 }

/* m += other */
TC_INLINE void glcm_moments_merge(glcm_moments *m, const glcm_moments *other)
{
    m->min = TC_MIN(m->min, other->min);
    m->max = TC_MAX(m->max, other->max);
    m->sum_lo += other->sum_lo;
    m->sum_hi += other->sum_hi + (m->sum_lo < other->sum_lo ? 1 : 0);
    m->square_lo += other->square_lo;
    m->square_hi += other->square_hi + (m->square_lo < other->square_lo ? 1 : 0);
}

/* Adds the value v of a feature of one window. */
TC_INLINE void glcm_moments_add(glcm_moments *m, tc_i64 v)
{
    const tc_u64 size = TC_ABS(v);
    const glcm_moments one = { v,           v,
                               (tc_u64)v,   v < 0 ? ~(tc_u64)0 : 0,
                               size * size, tc_mulhi(size, size) };

    glcm_moments_merge(m, &one);
}

#endif
