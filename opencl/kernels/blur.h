/*
 * A Gaussian filter along one axis in fixed point (app/analysis/common/gauss.h). The includer
 * defines PIXEL, the type of a grey value, and SUM, a type that holds the weighted sums. Beyond the
 * ends of a line, the filter uses the value at the end.
 */
#ifndef OCL_BLUR_H
#define OCL_BLUR_H

/* Returns the weighted sum of the values around in[i], which is value number `at` of a line of n
 * values that are `step` elements apart. weight[|k|] is the weight of the value at distance k. */
static SUM blurred_pixels(__global const PIXEL *in, __constant uint *weight, int radius, int i,
                          int at, int n, int step)
{
    SUM sum = 0;

    for (int k = -radius; k <= radius; k++)
        sum += (SUM)weight[TC_MAX(k, -k)] * in[i + (TC_CLAMP(at + k, 0, n - 1) - at) * step];
    return sum;
}

/* Does the same as blurred_pixels for values that have been filtered along another axis. */
static SUM blurred(__global const uint *in, __constant uint *weight, int radius, int i, int at,
                   int n, int step)
{
    SUM sum = 0;

    for (int k = -radius; k <= radius; k++)
        sum += (SUM)weight[TC_MAX(k, -k)] * in[i + (TC_CLAMP(at + k, 0, n - 1) - at) * step];
    return sum;
}

/* Returns sum / 2^shift, rounded to the nearest integer. */
static uint rounded(SUM sum, uint shift)
{
    return (uint)((sum + ((SUM)1 << (shift - 1))) >> shift);
}

#endif
