/*
 * glcm: makes the tables that replace logarithms, exponentials and divisions. Only integers are
 * used, so they are the same on every machine.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/common/real.h"
#include "app/analysis/glcm/glcm.h"

typedef unsigned __int128 u128;

/* Sets lg[k] to log2(k) in units of 2^-60, for k up to n. The logarithms are exactly additive: only
 * logarithms of primes are rounded, and the logarithm of a product is the sum of the logarithms of
 * its factors. */
static tc_status additive_logs(uint32_t n, uint64_t *lg, tc_err *err)
{
    /* the smallest prime factor of each k that is not a prime; 0 for primes */
    uint32_t *const factor = calloc((size_t)n + 1, sizeof *factor);

    if (factor == NULL)
        return tc_no_memory(err, "the tables of logarithms");
    lg[0] = lg[1] = 0;
    for (uint32_t k = 2; k <= n; k++) {
        if (factor[k] != 0) {
            lg[k] = lg[factor[k]] + lg[k / factor[k]];
            continue;
        }
        lg[k] = (uint64_t)((tc_log2_q80(k) + (1 << 19)) >> 20); /* rounded from units of 2^-80 */
        for (uint64_t m = (uint64_t)k * k; m <= n; m += k)
            if (factor[m] == 0)
                factor[m] = k;
    }
    free(factor);
    return TC_OK;
}

/* Returns exp(-1/m) in units of 2^-127, computed by its series; m >= 2. */
static u128 exp_minus_reciprocal(uint64_t m)
{
    u128 term = (u128)1 << 127, sum = term;

    for (uint64_t k = 1; term != 0; k++) {
        term /= (u128)m * k;
        sum = k & 1 ? sum - term : sum + term;
    }
    return sum;
}

/* Sets out[i] to exp(-i/m) in units of 2^-63, for i from 0 to n - 1. */
static void exp_table(uint64_t m, size_t n, uint64_t *out)
{
    const u128 base = exp_minus_reciprocal(m);
    u128 power = (u128)1 << 127;

    for (size_t i = 0; i < n; i++) {
        out[i] = (uint64_t)((power + ((u128)1 << 63)) >> 64);
        power = tc_mul_q127(power, base);
    }
}

/* Allocates and fills cell_step, marginal_step and step. */
static tc_status make_steps(glcm_tables *t, tc_err *err)
{
    const uint32_t n = t->max_pairs;

    t->diagonal = n + 1;
    t->cells = 2 * (n + 1);
    t->cell_step = calloc(t->cells, sizeof *t->cell_step);
    t->marginal_step = calloc((size_t)2 * n + 1, sizeof *t->marginal_step);
    t->step = calloc((size_t)2 * n + 1, sizeof *t->step);
    if (t->cell_step == NULL || t->marginal_step == NULL || t->step == NULL)
        return tc_no_memory(err, "the tables");
    for (size_t k = 0; k < 2 * (size_t)n; k++) {
        t->step[k] = t->f[k + 1] - t->f[k];
        t->marginal_step[k] = (glcm_pair64){ t->f60[k + 1] - t->f60[k], t->f12[k + 1] - t->f12[k] };
    }
    for (size_t k = 0; k < n; k++) {
        /* e2 is the sum of C^2 / 2. If a count off the diagonal increases from k to k+1, two
         * elements of C change from k to k+1, and e2 by 2k+1; on the diagonal one element changes
         * from 2k to 2k+2, and e2 by 4k+2. */
        t->cell_step[k] =
            (glcm_pair64){ 2 * (t->f60[k + 1] - t->f60[k]),
                           (2 * k + 1) | 2 * (t->f12[k + 1] - t->f12[k]) << GLCM_E2_BITS };
        t->cell_step[t->diagonal + k] =
            (glcm_pair64){ t->f60[2 * k + 2] - t->f60[2 * k],
                           (4 * k + 2) | (t->f12[2 * k + 2] - t->f12[2 * k]) << GLCM_E2_BITS };
    }
    return TC_OK;
}

tc_status glcm_tables_init(int fbits, uint32_t max_pairs, glcm_tables *t, tc_err *err)
{
    assert(fbits > 32 && fbits <= 58 && max_pairs > 0);
    const uint32_t n = 2 * max_pairs;
    tc_status status;

    memset(t, 0, sizeof *t);
    t->fbits = fbits;
    t->max_pairs = max_pairs;
    t->f = calloc((size_t)n + 1, sizeof *t->f);
    t->f60 = calloc((size_t)n + 1, sizeof *t->f60);
    t->f12 = calloc((size_t)n + 1, sizeof *t->f12);
    t->divisors = calloc((size_t)max_pairs + 1, sizeof *t->divisors);
    t->exp_table = calloc(GLCM_EXP_SIZE, sizeof *t->exp_table);
    if (t->f == NULL || t->f60 == NULL || t->f12 == NULL || t->divisors == NULL ||
        t->exp_table == NULL) {
        status = tc_no_memory(err, "the tables");
        goto fail;
    }
    status = additive_logs(n, t->f60, err);
    if (status != TC_OK)
        goto fail;
    for (uint64_t k = 1; k <= n; k++) {
        /* k log2(k) in units of 2^-60 */
        const u128 product = (u128)t->f60[k] * k;

        t->f[k] = (uint64_t)(product >> (60 - fbits));
        t->f60[k] = (uint64_t)product;
        t->f12[k] = (uint64_t)(product >> 48);
    }
    for (uint32_t k = 1; k <= max_pairs; k++)
        t->divisors[k] =
            (glcm_divisors){ tc_divisor_of(k), tc_divisor_of(k * k), tc_divisor_of(4 * k * k) };
    exp_table(1 << 4, GLCM_EXP_A, t->exp_table);
    exp_table(1 << 12, GLCM_EXP_B, t->exp_table + GLCM_EXP_A);
    exp_table(1 << 20, GLCM_EXP_B, t->exp_table + GLCM_EXP_A + GLCM_EXP_B);
    for (uint64_t k = 0; k < GLCM_MAX_LEVELS; k++)
        t->idm[k] = (((uint64_t)1 << GLCM_IDM_BITS) + (1 + k * k) / 2) / (1 + k * k);
    status = make_steps(t, err);
    if (status == TC_OK)
        return TC_OK;
fail:
    glcm_tables_free(t);
    return status;
}

void glcm_tables_free(glcm_tables *t)
{
    free(t->f);
    free(t->f60);
    free(t->f12);
    free(t->divisors);
    free(t->exp_table);
    free(t->cell_step);
    free(t->marginal_step);
    free(t->step);
    memset(t, 0, sizeof *t);
}
