/* Computes the weights of a Gaussian filter in fixed point, and applies it: see gauss.h. */
#include "app/analysis/common/gauss.h"

#include <assert.h>
#include <math.h>

/* e^-t for t >= 0, by sums and products in double precision, as the results of libm's exp differ
 * between systems. */
static double exp_minus(double t)
{
    const int halvings = 10; /* e^-t is the series for e^(-t / 2^10), squared ten times */
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

int an_gauss_radius(double sigma)
{
    assert(sigma > 0 && sigma <= AN_GAUSS_MAX_SIGMA);
    return (int)ceil(3 * sigma);
}

an_gauss an_gauss_make(double sigma)
{
    an_gauss g = { .radius = an_gauss_radius(sigma) };
    double value[AN_GAUSS_MAX_RADIUS + 1], sum = 0;
    uint32_t rest =
        (uint32_t)1 << AN_GAUSS_BITS; /* what the other weights leave for the middle one */

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

/* The number of values of a block; compilers vectorize loops over it. */
enum { LANES = 64 };

/* The values of a line from index `first` on; zeros if the line is NULL. */
static inline const uint32_t *values_from(const uint32_t *line, size_t first)
{
    static const uint32_t zeros[LANES];

    return line != NULL ? line + first : zeros;
}

/* The body of blur_block, with sums of the given type. */
#define SUM_BLOCK(type)                                                           \
    do {                                                                          \
        const uint32_t *const middle = values_from(lines[radius], first);         \
        type sums[LANES];                                                         \
                                                                                  \
        for (size_t i = 0; i < m; i++)                                            \
            sums[i] = ((type)1 << (shift - 1)) + (type)weight[0] * middle[i];     \
        for (int k = 1; k <= radius; k++) {                                       \
            const uint32_t *const before = values_from(lines[radius - k], first); \
            const uint32_t *const after = values_from(lines[radius + k], first);  \
                                                                                  \
            for (size_t i = 0; i < m; i++)                                        \
                sums[i] += (type)weight[k] * (before[i] + after[i]);              \
        }                                                                         \
        for (size_t i = 0; i < m; i++)                                            \
            out[first + i] = (uint32_t)(sums[i] >> shift);                        \
    } while (0)

/* Filters m values from index `first` on; see an_gauss_blur for the arguments. This is always
 * inlined, so that m is a constant for full blocks: then GCC vectorizes the loops, even with -O2.
 */
static inline __attribute__((always_inline)) void blur_block(const uint32_t *weight, int radius,
                                                             const uint32_t *const *lines,
                                                             size_t first, size_t m, unsigned shift,
                                                             bool wide, uint32_t *out)
{
    if (wide)
        SUM_BLOCK(uint64_t);
    else
        SUM_BLOCK(uint32_t);
}

void an_gauss_blur(const uint32_t *weight, int radius, const uint32_t *const *lines, size_t n,
                   unsigned shift, bool wide, uint32_t *out)
{
    assert(radius >= 0 && radius <= AN_GAUSS_MAX_RADIUS && shift > 0);
    size_t first = 0;

    for (; first + LANES <= n; first += LANES)
        blur_block(weight, radius, lines, first, LANES, shift, wide, out);
    if (first < n)
        blur_block(weight, radius, lines, first, n - first, shift, wide, out);
}
