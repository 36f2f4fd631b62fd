/*
 * A Gaussian in fixed point: weights that are the same on every computer.
 */
#ifndef AN_GAUSS_H
#define AN_GAUSS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AN_GAUSS_BITS = 16, AN_GAUSS_MAX_SIGMA = 20, AN_GAUSS_MAX_RADIUS = 3 * AN_GAUSS_MAX_SIGMA };

/* weight[k] is that of a pixel k to either side. weight[0] + 2 * the others is
 * 2^AN_GAUSS_BITS. */
typedef struct an_gauss {
    int radius; /* 3 sigma, rounded up */
    uint32_t weight[AN_GAUSS_MAX_RADIUS + 1];
} an_gauss;

/* 0 < sigma <= AN_GAUSS_MAX_SIGMA, in pixels. */
an_gauss an_gauss_make(double sigma);

/* The blur across 2 radius + 1 lines, for n values of the middle one, which out may be:
 *     out[i] = (the sum of weight[|k|] * lines[radius + k][i] + 2^(shift - 1)) >> shift.
 * NULL is a line of zeros. Along a line the lines are that line itself, from its margin on,
 * each one value further. wide: sums of up to 2^40 or so; else they fit 32 bits, which is
 * faster. */
void an_gauss_blur(const uint32_t *weight, int radius, const uint32_t *const *lines, size_t n,
                   unsigned shift, bool wide, uint32_t *out);

#endif
