#include "app/analysis/common/cooc.h"

#include <math.h>

typedef __int128 i128;
typedef unsigned __int128 u128;

const char *const cooc_names[COOC_FEATURES + 1] = {
    "asm", "contrast", "correlation", "variance", "idm", "sum_average", "sum_variance", "sum_entropy", "entropy",
    "difference_variance", "difference_entropy", "imc1", "imc2",
    "joint_maximum", "joint_average", "difference_average", "inverse_difference", "inverse_difference_normalised",
    "inverse_difference_moment_normalised", "inverse_variance", "autocorrelation", "cluster_tendency", "cluster_shade",
    "cluster_prominence", NULL
};

/* Off the diagonal two entries of C hold k, on it one holds 2k. */
void cooc_count(cooc_sums *m, uint32_t a, uint32_t b, uint32_t k)
{
    const uint64_t entry = a == b ? 2 * (uint64_t)k : k, entries = a == b ? 1 : 2;

    m->pairs += k;
    m->most = entry > m->most ? entry : m->most;
    m->squares += entries * entry * entry;
    m->marginal[a] += k;
    m->marginal[b] += k;
    m->sum[a + b] += k;
    m->difference[b - a] += k;
}

void cooc_add(cooc_sums *m, const tc_logs *logs, uint32_t a, uint32_t b, uint32_t k)
{
    cooc_count(m, a, b, k);
    m->k_log_k += a == b ? tc_k_log2_k(logs, 2 * (uint64_t)k) : 2 * tc_k_log2_k(logs, k);
}

/* The entropy of a histogram of `total`, in bits. */
static double entropy(const uint32_t *h, unsigned bins, uint64_t total, const tc_logs *logs)
{
    u128 sum = 0;

    for (unsigned i = 0; i < bins; i++)
        sum += tc_k_log2_k(logs, h[i]);
    return (double)(tc_k_log2_k(logs, total) - sum) * 0x1p-80 / (double)total;
}

static void entropies(const cooc_sums *m, const tc_logs *logs, unsigned levels, double *out)
{
    const uint64_t total = 2 * m->pairs;
    const u128 all = tc_k_log2_k(logs, total);
    u128 marginal = 0;
    i128 x, y;

    for (unsigned i = 0; i < levels; i++)
        marginal += tc_k_log2_k(logs, m->marginal[i]);
    y = (i128)(all - marginal);                                        /* 2n HX */
    x = (i128)(all + m->k_log_k) - 2 * (i128)marginal;                 /* 2n (2 HX - HXY) */
    if (x < (i128)total << 10)         /* no more than what logarithms are rounded by: there is no information */
        x = 0;
    out[COOC_ENTROPY] = (double)(i128)(all - m->k_log_k) * 0x1p-80 / (double)total;
    out[COOC_SUM_ENTROPY] = entropy(m->sum, 2 * levels - 1, m->pairs, logs);
    out[COOC_DIFFERENCE_ENTROPY] = entropy(m->difference, levels, m->pairs, logs);
    out[COOC_IMC1] = y == 0 || x == 0 ? 0 : -((double)x / (double)y);
    out[COOC_IMC2] = sqrt(tc_one_minus_exp(2 * ((double)x * 0x1p-80 / (double)total)));
}

/* Those that are quotients of integers. */
static void moments(const cooc_sums *m, unsigned levels, double *out)
{
    const i128 n = m->pairs;
    const double pairs = (double)m->pairs, squared = pairs * pairs;
    i128 s1 = 0, s2 = 0, d1 = 0, d2 = 0, variance;

    for (unsigned k = 0; k < 2 * levels - 1; k++) {
        s1 += (i128)k * m->sum[k];
        s2 += (i128)k * k * m->sum[k];
    }
    for (unsigned k = 0; k < levels; k++) {
        d1 += (i128)k * m->difference[k];
        d2 += (i128)k * k * m->difference[k];
    }
    variance = n * (s2 + d2) - s1 * s1;                                /* 4 n^2 times that of the marginal */
    out[COOC_ASM] = (double)m->squares / (4 * squared);
    out[COOC_CONTRAST] = (double)d2 / pairs;
    out[COOC_CORRELATION] = variance == 0 ? 1 : (double)(variance - 2 * n * d2) / (double)variance;
    out[COOC_VARIANCE] = (double)variance / (4 * squared);
    out[COOC_SUM_AVERAGE] = (double)s1 / pairs + 2;
    out[COOC_SUM_VARIANCE] = out[COOC_CLUSTER_TENDENCY] = (double)(n * s2 - s1 * s1) / squared;
    out[COOC_DIFFERENCE_VARIANCE] = (double)(n * d2 - d1 * d1) / squared;
    out[COOC_JOINT_MAXIMUM] = (double)m->most / (2 * pairs);
    out[COOC_JOINT_AVERAGE] = (double)s1 / (2 * pairs) + 1;
    out[COOC_DIFFERENCE_AVERAGE] = (double)d1 / pairs;
    out[COOC_AUTOCORRELATION] = (double)(s2 - d2 + 4 * (s1 + n)) / (4 * pairs);
}

/* Sums over the histograms of |a - b| and a + b, from the first bin to the last. */
static void weighted(const cooc_sums *m, unsigned levels, double *out)
{
    const double pairs = (double)m->pairs, mean = out[COOC_SUM_AVERAGE] - 2;
    double id = 0, idn = 0, idm = 0, idmn = 0, iv = 0, shade = 0, prominence = 0;

    for (unsigned k = 0; k < levels; k++) {
        const double count = m->difference[k], d = k, share = d / levels;

        id += count / (1 + d);
        idn += count / (1 + share);
        idm += count / (1 + d * d);
        idmn += count / (1 + share * share);
        iv += k == 0 ? 0 : count / (d * d);
    }
    for (unsigned k = 0; k < 2 * levels - 1; k++) {
        const double from = k - mean, cube = m->sum[k] * (from * from * from);

        shade += cube;
        prominence += cube * from;
    }
    out[COOC_INVERSE_DIFFERENCE] = id / pairs;
    out[COOC_INVERSE_DIFFERENCE_NORMALISED] = idn / pairs;
    out[COOC_IDM] = idm / pairs;
    out[COOC_INVERSE_DIFFERENCE_MOMENT_NORMALISED] = idmn / pairs;
    out[COOC_INVERSE_VARIANCE] = iv / pairs;
    out[COOC_CLUSTER_SHADE] = shade / pairs;
    out[COOC_CLUSTER_PROMINENCE] = prominence / pairs;
}

void cooc_plain_features(const cooc_sums *m, unsigned levels, double out[COOC_FEATURES])
{
    moments(m, levels, out);
    weighted(m, levels, out);
}

void cooc_features(const cooc_sums *m, const tc_logs *logs, unsigned levels, double out[COOC_FEATURES])
{
    cooc_plain_features(m, levels, out);
    entropies(m, logs, levels, out);
}
