#include "app/analysis/common/real.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned __int128 u128;

/* The arc tangent of 0 <= x <= 1: halved three times by atan(x) = 2 atan(x / (1 + sqrt(1 + x^2))),
 * then its series, of which x < 0.1 leaves less than 2^-55 behind x^15. */
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

/* Newton's method, from a third of the exponent: the first guess is within 6%, and the error is
 * squared in each step. */
double tc_cbrt(double x)
{
    uint64_t bits;
    double root;

    if (x == 0)
        return 0;
    memcpy(&bits, &x, sizeof bits);
    bits = bits / 3 + 0x2a9f7893782da1ceu;     /* 2/3 of the exponent's bias, centred */
    memcpy(&root, &bits, sizeof root);
    for (int i = 0; i < 5; i++)
        root = (2 * root + x / (root * root)) / 3;
    return root;
}

/* The series below 1/16, u = 1 - exp(-s); then 1 - exp(-2s) = u (2 - u) as often as x was halved. */
double tc_one_minus_exp(double x)
{
    double sum = 0;
    int halved = 0;

    for (; x > 0.0625; halved++)
        x = x / 2;
    for (int k = 12; k >= 1; k--)
        sum = x / k * (1 - sum);
    while (halved-- > 0)
        sum = sum * (2 - sum);
    return sum;
}

/* --- logarithms in fixed point ---------------------------------------------------------- */

u128 tc_mul_q127(u128 a, u128 b)
{
    const uint64_t a1 = (uint64_t)(a >> 64), a0 = (uint64_t)a;
    const uint64_t b1 = (uint64_t)(b >> 64), b0 = (uint64_t)b;
    const u128 mid1 = (u128)a1 * b0, mid2 = (u128)a0 * b1;
    const u128 low = ((u128)a0 * b0 >> 64) + (uint64_t)mid1 + (uint64_t)mid2;
    const u128 high = (u128)a1 * b1 + (mid1 >> 64) + (mid2 >> 64) + (low >> 64);

    return high << 1 | ((low >> 63) & 1);
}

/* Bit by bit: squaring the mantissa doubles its logarithm. A rounding error of
 * 2^-127 in step i enters with weight 2^-i. */
u128 tc_log2_q80(uint64_t k)
{
    const int top = 63 - __builtin_clzll(k);
    u128 m = (u128)k << (127 - top);       /* in [2^127, 2^128): 1.0 is 2^127 */
    u128 result = (u128)top;

    for (int i = 0; i < 80; i++) {
        /* m^2 is in [1, 4): halve the factor first, so that it fits. */
        const u128 square = tc_mul_q127(m, m >> 1);

        result <<= 1;
        if (square >> 127) {
            result |= 1;
            m = square;
        } else {
            m = square << 1;
        }
    }
    return result;
}

/* Computed for primes, summed for products, of which the smallest factor is kept in the table. */
tc_status tc_logs_init(tc_logs *logs, tc_err *err)
{
    u128 *const t = calloc(TC_LOGS, sizeof *t);

    logs->table = t;
    if (t == NULL)
        return tc_no_memory(err, "the table of logarithms");
    for (uint32_t k = 2; k < TC_LOGS; k++) {
        const uint32_t factor = (uint32_t)t[k];

        if (factor != 0) {
            t[k] = t[factor] + t[k / factor];
            continue;
        }
        t[k] = tc_log2_q80(k);
        for (uint64_t m = (uint64_t)k * k; m < TC_LOGS; m += k)
            if (t[m] == 0)
                t[m] = k;
    }
    return TC_OK;
}

void tc_logs_free(tc_logs *logs)
{
    free(logs->table);
    logs->table = NULL;
}
