/* Computes elementary functions by IEEE 754 operations only: see real.h. */
#include "app/analysis/common/real.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The arc tangent of 0 <= x <= 1. The argument is reduced three times by atan(x) = 2 atan(x / (1 +
 * sqrt(1 + x^2))); then the series is used, whose remainder after the last term is less than 2^-55
 * for x < 0.1. */
static double arc_tangent(double x)
{
    double square, sum = 0;

    for (int i = 0; i < 3; i++)
        x = x / (1 + sqrt(1 + x * x));
    square = x * x;
    for (int k = 17; k >= 1; k -= 2)
        sum = 1.0 / k - square * sum;
    return 8 * x * sum;
}

double tc_atan2(double y, double x)
{
    const double ay = fabs(y), ax = fabs(x);
    double angle;

    if (ax == 0 && ay == 0)
        return 0;
    angle = ay <= ax ? arc_tangent(ay / ax) : TC_PI / 2 - arc_tangent(ax / ay);
    if (x < 0)
        angle = TC_PI - angle;
    return y < 0 ? -angle : angle;
}

/* Uses Newton's method. Dividing the exponent by three gives a first estimate within 6%, and each
 * step about squares the relative error. */
double tc_cbrt(double x)
{
    assert(x >= 0);
    uint64_t bits;
    double root;

    if (x == 0)
        return 0;
    memcpy(&bits, &x, sizeof bits);
    /* Dividing the bits by three divides the exponent, but also its bias: the constant adds 2/3 of
     * the bias, adjusted so that the errors are centred about 0. */
    bits = bits / 3 + 0x2a9f7893782da1ceu;
    memcpy(&root, &bits, sizeof root);
    for (int i = 0; i < 5; i++)
        root = (2 * root + x / (root * root)) / 3;
    return root;
}

/* --- logarithms of counts -------------------------------------------------------------------- */

/* Computes logarithms of primes and adds them for products. While the table is made, an element
 * that is not computed yet holds the smallest prime factor of its index. */
tc_status tc_logs_init(tc_logs *logs, uint64_t most, tc_err *err)
{
    const size_t n = most < TC_MAX_LOGS ? (size_t)most + 1 : TC_MAX_LOGS;
    tc_u128 *const t = calloc(n, sizeof *t);

    *logs = (tc_logs){ t, n };
    if (t == NULL)
        return tc_no_memory(err, "the table of logarithms");
    for (size_t k = 2; k < n; k++) {
        const uint32_t factor = (uint32_t)t[k];

        if (factor != 0) {
            t[k] = t[factor] + t[k / factor];
            continue;
        }
        t[k] = tc_log2_q80(k);
        for (size_t m = k * k; m < n; m += k)
            if (t[m] == 0)
                t[m] = k;
    }
    for (size_t k = 2; k < n; k++)
        t[k] *= k; /* from log2(k) to k log2(k) */
    return TC_OK;
}

void tc_logs_free(tc_logs *logs)
{
    free(logs->k_log2_k);
    *logs = (tc_logs){ .k_log2_k = NULL };
}

/* log2(1 + r) in units of 2^-120, with an error below 2^-116, for r = above / below < 2^-7. It is 2
 * / ln 2 times the series of artanh(z), z = r / (2 + r), whose remainder after z^13 is less than
 * 2^-120. */
static tc_u128 log2_of_ratio(uint64_t above, uint64_t below)
{
    static const tc_u128 two_by_ln2 = /* in units of 2^-125 */
        (tc_u128)0x5c551d94ae0bf85du << 64 | 0xdf43ff68348e9f44u;
    const uint64_t sum = 2 * below + above;
    const tc_u128 wide = (tc_u128)above << 64, z = wide / sum << 63 | (wide % sum << 63) / sum;
    const tc_u128 one = (tc_u128)1 << 127, square = tc_mul_q127(z, z);
    tc_u128 series = one / 13;

    for (int k = 11; k > 0; k -= 2)
        series = one / (tc_u128)k + tc_mul_q127(square, series);
    return tc_mul_q127(tc_mul_q127(z, series), two_by_ln2) >> 5;
}

tc_log2_cache *tc_log2_cache_create(void)
{
    tc_log2_cache *const logs = calloc(1, sizeof *logs);

    if (logs == NULL)
        return NULL;
    logs->octave[0] = (tc_u128)7 << 120; /* log2(128) */
    for (uint64_t i = 0; i < 128; i++)
        logs->octave[i + 1] = logs->octave[i] + log2_of_ratio(1, 128 + i);
    return logs;
}

void tc_log2_cache_destroy(tc_log2_cache **logs)
{
    free(*logs);
    *logs = NULL;
}

/* The logarithm is the sum of the logarithm of k's first eight binary digits, which is in the
 * table, and that of the remaining factor. The sum is rounded down to a multiple of 2^-80; if it is
 * so near to such a multiple that its error could change the result, tc_log2_q80 is used instead.
 */
tc_u128 tc_log2_cache_compute(const tc_log2_cache *logs, uint64_t k)
{
    assert(k > 0 && k >> 32 == 0);
    enum {
        UNSURE = 1 << 16 /* greater than the error, in units of 2^-120 */
    };
    const int shift = 56 - tc_clz64(k);
    const uint64_t scaled = shift > 0 ? k : k << -shift,
                   unit = shift > 0 ? (uint64_t)1 << shift : 1, first = scaled / unit;
    const tc_u128 fine = logs->octave[first - 128] +
                         log2_of_ratio(scaled - first * unit, first * unit) +
                         ((tc_u128)shift << 120);
    const uint64_t rest = (uint64_t)fine & (((uint64_t)1 << 40) - 1);

    if ((k & (k - 1)) == 0)
        return (tc_u128)(63 - tc_clz64(k)) << 80;
    return rest < UNSURE || rest > ((uint64_t)1 << 40) - UNSURE ? tc_log2_q80(k) : fine >> 40;
}
