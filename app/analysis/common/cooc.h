/*
 * Texture features of one grey-level co-occurrence matrix, in double precision from exact
 * counts: all of the Image Biomarker Standardisation Initiative's family, of which the
 * first 13 are Haralick's. docs/dev/analyses/objects.md has the formulas.
 *
 * The matrix C is that of ordered pairs, symmetric: n unordered pairs make 2n. Levels are
 * numbered from 0 here and from 1 in the formulas.
 */
#ifndef AN_COOC_H
#define AN_COOC_H

#include "app/analysis/common/cooc_core.h"
#include "app/analysis/common/real.h"

extern const char *const cooc_names[COOC_FEATURES + 1]; /* ended by NULL */

enum { COOC_MAX_LEVELS = 256 };

/* What is known of a matrix. Counts are of unordered pairs, fewer than 2^30. */
typedef struct cooc_sums {
    uint64_t pairs;                       /* n */
    uint64_t most;                        /* the largest entry of C */
    uint64_t squares;                     /* the sum of C^2 */
    tc_u128 k_log_k;                      /* the sum of C log2 C, in 2^-80 */
    uint32_t marginal[COOC_MAX_LEVELS];   /* ends of pairs by level: adds up to 2n */
    uint32_t sum[2 * COOC_MAX_LEVELS];    /* pairs by a + b */
    uint32_t difference[COOC_MAX_LEVELS]; /* by |a - b| */
} cooc_sums;

/* Clears the sums, of the first `levels` levels. */
void cooc_clear(cooc_sums *m, unsigned levels);

/* n entries of C have this value. logs NULL: without k_log_k. */
static inline void cooc_entries(cooc_sums *m, const tc_logs *logs, uint64_t entry, uint64_t n)
{
    m->most = entry > m->most ? entry : m->most;
    m->squares += n * entry * entry;
    if (logs != NULL)
        m->k_log_k += n * tc_k_log2_k(logs, entry);
}

/* Adds k pairs of levels a <= b: all there are of these two. Off the diagonal two entries of C hold
 * k, on it one holds 2k. */
static inline void cooc_add(cooc_sums *m, const tc_logs *logs, uint32_t a, uint32_t b, uint32_t k)
{
    cooc_entries(m, logs, (uint64_t)k << (a == b), a == b ? 1 : 2);
    m->pairs += k;
    m->marginal[a] += k;
    m->marginal[b] += k;
    m->sum[a + b] += k;
    m->difference[b - a] += k;
}

/* Computes the features of the set `wanted`; the others in `out` are undefined. There must be a
 * pair. logs NULL: without those that need logarithms. */
void cooc_features(const cooc_sums *m, const tc_logs *logs, unsigned levels, uint32_t wanted,
                   double out[COOC_FEATURES]);

#endif
