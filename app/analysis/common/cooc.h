/*
 * Texture features of one grey-level co-occurrence matrix, in double precision from exact
 * counts: all of the Image Biomarker Standardisation Initiative's family, of which the
 * first 13 are Haralick's. docs/analyses/objects.md has the formulas.
 *
 * The matrix C is that of ordered pairs, symmetric: n unordered pairs make 2n. Levels are
 * numbered from 0 here and from 1 in the formulas.
 */
#ifndef AN_COOC_H
#define AN_COOC_H

#include "app/analysis/common/real.h"

enum {
    COOC_ASM, COOC_CONTRAST, COOC_CORRELATION, COOC_VARIANCE, COOC_IDM, COOC_SUM_AVERAGE, COOC_SUM_VARIANCE,
    COOC_SUM_ENTROPY, COOC_ENTROPY, COOC_DIFFERENCE_VARIANCE, COOC_DIFFERENCE_ENTROPY, COOC_IMC1, COOC_IMC2,
    COOC_HARALICK,
    COOC_JOINT_MAXIMUM = COOC_HARALICK, COOC_JOINT_AVERAGE, COOC_DIFFERENCE_AVERAGE, COOC_INVERSE_DIFFERENCE,
    COOC_INVERSE_DIFFERENCE_NORMALISED, COOC_INVERSE_DIFFERENCE_MOMENT_NORMALISED, COOC_INVERSE_VARIANCE,
    COOC_AUTOCORRELATION, COOC_CLUSTER_TENDENCY, COOC_CLUSTER_SHADE, COOC_CLUSTER_PROMINENCE,
    COOC_FEATURES
};

extern const char *const cooc_names[COOC_FEATURES + 1];    /* ended by NULL */

enum { COOC_MAX_LEVELS = 256 };

/* What is known of a matrix. Counts are of unordered pairs, fewer than 2^30. */
typedef struct cooc_sums {
    uint64_t pairs;                                /* n */
    uint64_t most;                                 /* the largest entry of C */
    uint64_t squares;                              /* the sum of C^2 */
    unsigned __int128 k_log_k;                     /* the sum of C log2 C, in 2^-80 */
    uint32_t marginal[COOC_MAX_LEVELS];            /* ends of pairs by level: adds up to 2n */
    uint32_t sum[2 * COOC_MAX_LEVELS];             /* pairs by a + b */
    uint32_t difference[COOC_MAX_LEVELS];          /* by |a - b| */
} cooc_sums;

/* Adds k pairs of levels a <= b: all there are of these two. */
void cooc_add(cooc_sums *m, const tc_logs *logs, uint32_t a, uint32_t b, uint32_t k);
/* The same for all but k_log_k. */
void cooc_count(cooc_sums *m, uint32_t a, uint32_t b, uint32_t k);
/* Those without logarithms; there must be a pair. asm and joint_maximum come from squares and most, all others
 * from pairs and the histograms of sum and difference. */
void cooc_plain_features(const cooc_sums *m, unsigned levels, double out[COOC_FEATURES]);
/* All of them. */
void cooc_features(const cooc_sums *m, const tc_logs *logs, unsigned levels, double out[COOC_FEATURES]);

#endif
