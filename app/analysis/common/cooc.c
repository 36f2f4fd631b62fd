/* Texture features of a grey-level co-occurrence matrix: see cooc.h. */
#include "app/analysis/common/cooc.h"

#include <assert.h>
#include <string.h>

#define NAME(feature, name) name,
const char *const cooc_names[COOC_FEATURES + 1] = { COOC_EACH(NAME) NULL };
#undef NAME

void cooc_clear(cooc_sums *m, unsigned levels)
{
    assert(levels <= COOC_MAX_LEVELS);
    m->pairs = m->most = m->squares = 0;
    m->k_log_k = 0;
    memset(m->marginal, 0, levels * sizeof *m->marginal);
    memset(m->sum, 0, (size_t)2 * levels * sizeof *m->sum);
    memset(m->difference, 0, levels * sizeof *m->difference);
}

/* The sum of k log2 k over the bins of a histogram, in units of 2^-80. */
static tc_u128 logs_of(const tc_logs *logs, const uint32_t *h, unsigned bins)
{
    tc_u128 sum = 0;

    for (unsigned i = 0; i < bins; i++)
        sum += tc_k_log2_k(logs, h[i]);
    return sum;
}

/* Computes the weighted sums over the histograms that the wanted features need. */
static void weigh_histograms(const cooc_sums *m, const cooc_totals *t, unsigned levels,
                             uint32_t wanted, cooc_weights *w)
{
    const uint32_t sum_features = 1u << COOC_CLUSTER_SHADE | 1u << COOC_CLUSTER_PROMINENCE;
    const double mean = cooc_sum_mean(t);

    for (unsigned k = 0; k < levels; k++)
        if (m->difference[k] != 0)
            cooc_add_difference_bin(w, k, m->difference[k], levels, wanted);
    for (unsigned k = 0; (wanted & sum_features) != 0 && k < 2 * levels - 1; k++)
        if (m->sum[k] != 0)
            cooc_add_sum_bin(w, k, m->sum[k], mean);
}

void cooc_features(const cooc_sums *m, const tc_logs *logs, unsigned levels, uint32_t wanted,
                   double out[COOC_FEATURES])
{
    assert(m->pairs > 0 && levels <= COOC_MAX_LEVELS);
    cooc_totals t = {
        .pairs = m->pairs, .most = m->most, .squares = m->squares, .cells = m->k_log_k
    };
    cooc_weights w = { 0 };

    for (uint64_t k = 0; k < 2 * levels - 1; k++) {
        t.s1 += k * m->sum[k];
        t.s2 += k * k * m->sum[k];
    }
    for (uint64_t k = 0; k < levels; k++) {
        t.d1 += k * m->difference[k];
        t.d2 += k * k * m->difference[k];
    }
    weigh_histograms(m, &t, levels, wanted, &w);
    cooc_plain_features(&t, &w, out);
    if (logs == NULL)
        return;
    t.marginal = logs_of(logs, m->marginal, levels);
    t.sums = logs_of(logs, m->sum, 2 * levels - 1);
    t.differences = logs_of(logs, m->difference, levels);
    cooc_entropies(&t, tc_k_log2_k(logs, 2 * m->pairs), tc_k_log2_k(logs, m->pairs), out);
}
