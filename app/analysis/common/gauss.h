/*
 * A Gaussian filter in fixed point, with weights that are the same on every computer.
 */
#ifndef AN_GAUSS_H
#define AN_GAUSS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    AN_GAUSS_BITS = 16,                          /* fractional bits of weights */
    AN_GAUSS_MAX_SIGMA = 20,                     /* greatest sigma, in pixels */
    AN_GAUSS_MAX_RADIUS = 3 * AN_GAUSS_MAX_SIGMA /* greatest radius, in pixels */
};

/* weight[k] is the weight of a pixel at distance k. weight[0] plus twice the sum of the others is
 * 2^AN_GAUSS_BITS. */
typedef struct an_gauss {
    int radius; /* 3 sigma, rounded up */
    uint32_t weight[AN_GAUSS_MAX_RADIUS + 1];
} an_gauss;

/* The radius of the filter; 0 < sigma <= AN_GAUSS_MAX_SIGMA, in pixels. */
int an_gauss_radius(double sigma);
/* Computes the weights; 0 < sigma <= AN_GAUSS_MAX_SIGMA, in pixels. */
an_gauss an_gauss_make(double sigma);

/* Filters across 2 radius + 1 lines, for n values of the middle one:
 *     out[i] = (the sum of weight[|k|] * lines[radius + k][i] + 2^(shift - 1)) >> shift.
 * A line that is NULL consists of zeros. out may be the middle line. To filter along a line, pass
 * as lines[k] pointers to the value at k - radius of this same line, which needs a margin. wide:
 * the sums are computed with 64 bits; otherwise they must fit in 32 bits, which is faster. */
void an_gauss_blur(const uint32_t *weight, int radius, const uint32_t *const *lines, size_t n,
                   unsigned shift, bool wide, uint32_t *out);

#endif
