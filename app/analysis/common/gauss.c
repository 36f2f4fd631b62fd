#include "app/analysis/common/gauss.h"

#include <math.h>

/* e^-t for t >= 0, from sums and products in double precision: libm's exp is
 * not the same everywhere. */
static double exp_minus(double t)
{
    const int halvings = 10;
    const double x = -t / (1 << halvings);
    double term = 1, sum = 1;

    if (t > 50)
        return 0;
    for (int n = 1; n <= 12; n++) {
        term = term * x / n;
        sum += term;
    }
    for (int n = 0; n < halvings; n++)
        sum *= sum;
    return sum;
}

an_gauss an_gauss_make(double sigma)
{
    an_gauss g = { .radius = (int)ceil(3 * sigma) };
    double value[AN_GAUSS_MAX_RADIUS + 1], sum = 0;
    uint32_t rest = (uint32_t)1 << AN_GAUSS_BITS;

    for (int k = g.radius; k >= 0; k--) {
        value[k] = exp_minus((double)k * k / (2 * sigma * sigma));
        sum += k > 0 ? 2 * value[k] : value[k];
    }
    for (int k = g.radius; k > 0; k--) {
        g.weight[k] = (uint32_t)(value[k] / sum * (1 << AN_GAUSS_BITS) + 0.5);
        rest -= 2 * g.weight[k];
    }
    g.weight[0] = rest;
    return g;
}
