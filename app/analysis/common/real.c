/* exp, log and their like from IEEE operations alone. */
#include "app/analysis/common/real.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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
    bits = bits / 3 + 0x2a9f7893782da1ceu; /* 2/3 of the exponent's bias, centred */
    memcpy(&root, &bits, sizeof root);
    for (int i = 0; i < 5; i++)
        root = (2 * root + x / (root * root)) / 3;
    return root;
}

/* --- logarithms of counts -------------------------------------------------------------------- */

/* Logarithms are computed for primes and summed for products, of which the smallest factor is kept
 * in the table. */
tc_status tc_logs_init(tc_logs *logs, uint64_t most, tc_err *err)
{
    const size_t n = most < TC_LOGS ? (size_t)most + 1 : TC_LOGS;
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
        t[k] *= k;
    return TC_OK;
}

void tc_logs_free(tc_logs *logs)
{
    free(logs->k_log2_k);
    *logs = (tc_logs){ .k_log2_k = NULL };
}
