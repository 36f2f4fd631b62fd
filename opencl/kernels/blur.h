/*
 * A Gaussian filter in fixed point (app/analysis/common/gauss.h), for PIXEL, the type of a grey
 * value, and SUM, one that holds its sums. Beyond a line is what lies at its ends.
 */
#ifndef OCL_BLUR_H
#define OCL_BLUR_H

/* weight[|k|]: of the value k further on a line. in[i] is value `at` of n, `step` apart. */
static SUM blurred_pixels(__global const PIXEL *in, __constant uint *weight, int radius, int i,
                          int at, int n, int step)
{
    SUM sum = 0;

    for (int k = -radius; k <= radius; k++)
        sum += (SUM)weight[TC_MAX(k, -k)] * in[i + (TC_CLAMP(at + k, 0, n - 1) - at) * step];
    return sum;
}

static SUM blurred(__global const uint *in, __constant uint *weight, int radius, int i, int at,
                   int n, int step)
{
    SUM sum = 0;

    for (int k = -radius; k <= radius; k++)
        sum += (SUM)weight[TC_MAX(k, -k)] * in[i + (TC_CLAMP(at + k, 0, n - 1) - at) * step];
    return sum;
}

static uint rounded(SUM sum, uint shift)
{
    return (uint)((sum + ((SUM)1 << (shift - 1))) >> shift);
}

#endif
