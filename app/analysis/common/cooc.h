/*
 * Texture features of a grey-level co-occurrence matrix, in double precision from exact
 * counts: all features of the Image Biomarker Standardisation Initiative's family, of which the
 * first 13 are Haralick's. docs/dev/analyses/objects.md has the formulas.
 *
 * The matrix C counts ordered pairs of grey levels, so it is symmetric: n unordered pairs give 2n
 * entries in total. Levels are numbered from 0 here and from 1 in the formulas.
 */
#ifndef AN_COOC_H
#define AN_COOC_H

#include "app/analysis/common/cooc_core.h"
#include "app/analysis/common/real.h"

/* The features' names, in the order of COOC_EACH, ended by NULL. */
extern const char *const cooc_names[COOC_FEATURES + 1];

enum { COOC_MAX_LEVELS = 256 }; /* greatest number of grey levels */

/* The sums over a matrix from which its features are computed. Pairs are unordered, and fewer than
 * 2^30. */
typedef struct cooc_sums {
    uint64_t pairs;   /* n, the number of pairs */
    uint64_t most;    /* the greatest entry of C */
    uint64_t squares; /* the sum of the squares of the entries of C */
    tc_u128 k_log_k;  /* the sum of c log2 c over the entries c of C, in units of 2^-80 */
    uint32_t marginal[COOC_MAX_LEVELS]; /* histogram of the levels of all pairs' two pixels: adds up
                                           to 2n */
    uint32_t sum[2 * COOC_MAX_LEVELS];  /* histogram of a + b over all pairs of levels (a, b) */
    uint32_t difference[COOC_MAX_LEVELS]; /* histogram of |a - b| */
} cooc_sums;

/* Sets the sums to zero, the histograms for the first `levels` levels. */
void cooc_clear(cooc_sums *m, unsigned levels);

/* Adds n entries of C that have the value `entry`. logs: NULL leaves k_log_k unchanged. */
static inline void cooc_add_entries(cooc_sums *m, const tc_logs *logs, uint64_t entry, uint64_t n)
{
    m->most = entry > m->most ? entry : m->most;
    m->squares += n * entry * entry;
    if (logs != NULL)
        m->k_log_k += n * tc_k_log2_k(logs, entry);
}

/* Adds all k pairs of the levels a <= b. In C they are two entries of the value k, or if a = b one
 * entry of the value 2k. */
static inline void cooc_add(cooc_sums *m, const tc_logs *logs, uint32_t a, uint32_t b, uint32_t k)
{
    cooc_add_entries(m, logs, (uint64_t)k << (a == b), a == b ? 1 : 2);
    m->pairs += k;
    m->marginal[a] += k;
    m->marginal[b] += k;
    m->sum[a + b] += k;
    m->difference[b - a] += k;
}

/* Computes the features of the set `wanted` (bit i: feature i); other elements of `out` are
 * undefined. There must be at least one pair. logs: NULL leaves out the features with logarithms.
 */
void cooc_features(const cooc_sums *m, const tc_logs *logs, unsigned levels, uint32_t wanted,
                   double out[COOC_FEATURES]);

#endif
