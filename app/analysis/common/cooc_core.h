/*
 * Computes the features of a co-occurrence matrix from sums over it; compiled as C and as OpenCL C.
 * cooc.h describes the features.
 */
#ifndef AN_COOC_CORE_H
#define AN_COOC_CORE_H

#include "app/analysis/common/real_core.h"

/* The features with their names in results; the first COOC_HARALICK are Haralick's. */
#define COOC_EACH(FEATURE)                                                                     \
    FEATURE(COOC_ASM, "asm")                                                                   \
    FEATURE(COOC_CONTRAST, "contrast")                                                         \
    FEATURE(COOC_CORRELATION, "correlation")                                                   \
    FEATURE(COOC_VARIANCE, "variance")                                                         \
    FEATURE(COOC_IDM, "idm")                                                                   \
    FEATURE(COOC_SUM_AVERAGE, "sum_average")                                                   \
    FEATURE(COOC_SUM_VARIANCE, "sum_variance")                                                 \
    FEATURE(COOC_SUM_ENTROPY, "sum_entropy")                                                   \
    FEATURE(COOC_ENTROPY, "entropy")                                                           \
    FEATURE(COOC_DIFFERENCE_VARIANCE, "difference_variance")                                   \
    FEATURE(COOC_DIFFERENCE_ENTROPY, "difference_entropy")                                     \
    FEATURE(COOC_IMC1, "imc1")                                                                 \
    FEATURE(COOC_IMC2, "imc2")                                                                 \
    FEATURE(COOC_JOINT_MAXIMUM, "joint_maximum")                                               \
    FEATURE(COOC_JOINT_AVERAGE, "joint_average")                                               \
    FEATURE(COOC_DIFFERENCE_AVERAGE, "difference_average")                                     \
    FEATURE(COOC_INVERSE_DIFFERENCE, "inverse_difference")                                     \
    FEATURE(COOC_INVERSE_DIFFERENCE_NORMALISED, "inverse_difference_normalised")               \
    FEATURE(COOC_INVERSE_DIFFERENCE_MOMENT_NORMALISED, "inverse_difference_moment_normalised") \
    FEATURE(COOC_INVERSE_VARIANCE, "inverse_variance")                                         \
    FEATURE(COOC_AUTOCORRELATION, "autocorrelation")                                           \
    FEATURE(COOC_CLUSTER_TENDENCY, "cluster_tendency")                                         \
    FEATURE(COOC_CLUSTER_SHADE, "cluster_shade")                                               \
    FEATURE(COOC_CLUSTER_PROMINENCE, "cluster_prominence")

/* Number the features from 0. COOC_FEATURES is the number of all features, COOC_HARALICK the number
 * of those before COOC_JOINT_MAXIMUM. */
#define COOC_NUMBER(feature, name) feature,
enum { COOC_EACH(COOC_NUMBER) COOC_FEATURES, COOC_HARALICK = COOC_JOINT_MAXIMUM };
#undef COOC_NUMBER

/* Whether a set of features (bit i: feature i) contains a feature. */
#define COOC_HAS(set, feature) (((set) >> (feature) & 1) != 0)

/* An integer for products of the sums in cooc_totals. The largest product, pairs * s2, is below
 * 2^78. On devices there are fewer than 2^20 pairs, so that the product is below 2^59. */
#ifdef __OPENCL_VERSION__
typedef tc_i64 cooc_wide;
#else
typedef __int128 cooc_wide;
#endif

/* Exact sums over n unordered pairs of pixels; a and b are the levels of a pair's two pixels. The
 * co-occurrence matrix C counts each pair in both orders, so its entries add up to 2n.
 */
typedef struct cooc_totals {
    tc_u64 pairs;          /* n */
    tc_u64 most;           /* the greatest entry of C */
    tc_u64 squares;        /* the sum of the squares of the entries of C */
    tc_u64 s1, s2, d1, d2; /* sums over all pairs of a + b, (a + b)^2, |a - b| and (a - b)^2 */
    /* The sums of k log2 k, in units of 2^-80, over the entries of C, its marginal distribution,
     * and the histograms of a + b and |a - b|. */
    tc_u128 cells, marginal, sums, differences;
} cooc_totals;

/* Weighted sums over the histograms of |a - b| and a + b; divided by n, they are features. As the
 * sums are in double precision, bins must be added in ascending order; empty bins add nothing. */
typedef struct cooc_weights {
    /* Over the histogram of |a - b|: inverse_difference, inverse_difference_normalised, idm,
     * inverse_difference_moment_normalised and inverse_variance. */
    double id, idn, idm, idmn, iv;
    double shade, prominence; /* over the histogram of a + b: cluster_shade, cluster_prominence */
} cooc_weights;

/* Adds a bin of the histogram of |a - b|, with this count, to the sums of the wanted features (bit
 * i: feature i). */
TC_INLINE void cooc_add_difference_bin(cooc_weights *w, tc_u32 bin, double count, tc_u32 levels,
                                       tc_u32 wanted)
{
    const double d = bin, share = d / levels;

    if (COOC_HAS(wanted, COOC_IDM))
        w->idm += count / (1 + d * d);
    if (COOC_HAS(wanted, COOC_INVERSE_DIFFERENCE))
        w->id += count / (1 + d);
    if (COOC_HAS(wanted, COOC_INVERSE_DIFFERENCE_NORMALISED))
        w->idn += count / (1 + share);
    if (COOC_HAS(wanted, COOC_INVERSE_DIFFERENCE_MOMENT_NORMALISED))
        w->idmn += count / (1 + share * share);
    if (COOC_HAS(wanted, COOC_INVERSE_VARIANCE) && bin > 0)
        w->iv += count / (d * d);
}

/* Adds a bin of the histogram of a + b to the sums. mean: the mean of a + b. */
TC_INLINE void cooc_add_sum_bin(cooc_weights *w, tc_u32 bin, double count, double mean)
{
    const double deviation = bin - mean, cube = count * (deviation * deviation * deviation);

    w->shade += cube;
    w->prominence += cube * deviation;
}

/* The mean of a + b for cooc_add_sum_bin. Formulas number levels from 1, so the feature sum_average
 * is greater by 2. Adding and subtracting 2 gives the mean the same rounding error as that feature.
 */
TC_INLINE double cooc_sum_mean(const cooc_totals *t)
{
    return ((double)t->s1 / (double)t->pairs + 2) - 2;
}

/* Computes the features without logarithms; n must be > 0. */
TC_INLINE void cooc_plain_features(const cooc_totals *t, const cooc_weights *w, double *out)
{
    /* variance: 4 n^2 times the variance of the marginal distribution. In formulas levels are
     * numbered from 1; so 1 is added to mean levels, 2 to mean sums of two levels. */
    const cooc_wide n = (cooc_wide)t->pairs, s1 = (cooc_wide)t->s1, s2 = (cooc_wide)t->s2,
                    d1 = (cooc_wide)t->d1, d2 = (cooc_wide)t->d2,
                    variance = n * (s2 + d2) - s1 * s1;
    const double pairs = (double)t->pairs, squared = pairs * pairs;

    out[COOC_ASM] = (double)t->squares / (4 * squared);
    out[COOC_CONTRAST] = (double)d2 / pairs;
    out[COOC_CORRELATION] = variance == 0 ? 1 : (double)(variance - 2 * n * d2) / (double)variance;
    out[COOC_VARIANCE] = (double)variance / (4 * squared);
    out[COOC_IDM] = w->idm / pairs;
    out[COOC_SUM_AVERAGE] = (double)s1 / pairs + 2;
    out[COOC_SUM_VARIANCE] = out[COOC_CLUSTER_TENDENCY] = (double)(n * s2 - s1 * s1) / squared;
    out[COOC_DIFFERENCE_VARIANCE] = (double)(n * d2 - d1 * d1) / squared;
    out[COOC_JOINT_MAXIMUM] = (double)t->most / (2 * pairs);
    out[COOC_JOINT_AVERAGE] = (double)s1 / (2 * pairs) + 1;
    out[COOC_DIFFERENCE_AVERAGE] = (double)d1 / pairs;
    out[COOC_INVERSE_DIFFERENCE] = w->id / pairs;
    out[COOC_INVERSE_DIFFERENCE_NORMALISED] = w->idn / pairs;
    out[COOC_INVERSE_DIFFERENCE_MOMENT_NORMALISED] = w->idmn / pairs;
    out[COOC_INVERSE_VARIANCE] = w->iv / pairs;
    /* the mean of (a + 1) (b + 1), as (a + b)^2 - (a - b)^2 = 4 a b */
    out[COOC_AUTOCORRELATION] = (double)(s2 - d2 + 4 * (s1 + n)) / (4 * pairs);
    out[COOC_CLUSTER_SHADE] = w->shade / pairs;
    out[COOC_CLUSTER_PROMINENCE] = w->prominence / pairs;
}

/* Computes the features with logarithms. log_2n, log_n: k log2 k for k = 2n and k = n, in units of
 * 2^-80. HX in the comments is the entropy of the marginal distribution, HXY the entropy of C. */
TC_INLINE void cooc_entropies(const cooc_totals *t, tc_u128 log_2n, tc_u128 log_n, double *out)
{
    const double pairs = (double)t->pairs, total = (double)(2 * t->pairs);
    const tc_u128 y = tc_u128_sub(log_2n, t->marginal); /* 2n HX */
    tc_u128 x = tc_u128_sub(tc_u128_sub(tc_u128_add(log_2n, t->cells), t->marginal),
                            t->marginal); /* 2n (2 HX - HXY) */

    /* If x is not greater than the rounding errors of logarithms, the mutual information is 0. */
    if (TC_HIGH(x) >> 63 != 0 || (TC_HIGH(x) == 0 && TC_LOW(x) < (2 * t->pairs) << 10))
        x = tc_make_u128(0, 0);
    out[COOC_ENTROPY] = tc_u128_to_double(tc_u128_sub(log_2n, t->cells)) * 0x1p-80 / total;
    out[COOC_SUM_ENTROPY] = tc_u128_to_double(tc_u128_sub(log_n, t->sums)) * 0x1p-80 / pairs;
    out[COOC_DIFFERENCE_ENTROPY] =
        tc_u128_to_double(tc_u128_sub(log_n, t->differences)) * 0x1p-80 / pairs;
    out[COOC_IMC1] = (TC_HIGH(y) | TC_LOW(y)) == 0 || (TC_HIGH(x) | TC_LOW(x)) == 0
                         ? 0
                         : -(tc_u128_to_double(x) / tc_u128_to_double(y));
    out[COOC_IMC2] = tc_sqrt(tc_one_minus_exp(2 * (tc_u128_to_double(x) * 0x1p-80 / total)));
}

#endif
