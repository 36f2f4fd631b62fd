/* The rules of cellcount, for C and OpenCL C. */
#ifndef AN_CELLCOUNT_CORE_H
#define AN_CELLCOUNT_CORE_H

#include "app/analysis/common/core.h"

/* Of n pixels (1 <= n <= 64), as bits: those that are cells. below: those below the
 * threshold. */
TC_INLINE tc_u64 cc_cells(tc_u64 below, tc_u32 n, int bright)
{
    return (bright ? ~below : below) & ~(tc_u64)0 >> (64 - n);
}

/* Whether what the half-open box holds touches the border of the picture. */
TC_INLINE int cc_at_border(tc_u32 x0, tc_u32 y0, tc_u32 x1, tc_u32 y1, tc_u32 nx, tc_u32 ny)
{
    return x0 == 0 || y0 == 0 || x1 == nx || y1 == ny;
}

/* --- grey values ----------------------------------------------------------------------------- */

/* What value v becomes on a ground: by difference or ratio, around `middle`, from 0 to `most`. */
TC_INLINE tc_u32 cc_levelled(tc_u32 v, tc_u32 ground, tc_u32 middle, int ratio, tc_u32 most)
{
    if (ratio) {
        const tc_u64 q = ((tc_u64)v * middle + ground / 2) / (ground > 0 ? ground : 1);

        return q < most ? (tc_u32)q : most;
    }
    return v + middle < ground ? 0 : v + middle - ground < most ? v + middle - ground : most;
}

/* Of the line that fits n values in a row best: n times how far it is above their mean, at u / 2
 * from their middle. moment: the sum of the values times twice how far they are from the middle. */
TC_INLINE tc_i64 cc_rise(tc_i64 moment, tc_i64 u, tc_i64 n)
{
    const tc_i64 by = n > 1 ? n * n - 1 : 1, rise = 3 * u * moment + by / 2;

    return rise / by - (rise % by < 0);
}

/* The ground of n pixels that add up to `sum`; by lines that may be less than 0, or more than n
 * times `most`. */
TC_INLINE tc_u32 cc_ground(tc_i64 sum, tc_i64 n, tc_u32 most)
{
    const tc_i64 mean = (sum + n / 2) / n;

    return sum < 0 ? 0 : mean < most ? (tc_u32)mean : most;
}

/* --- split ----------------------------------------------------------------------------------- */

/* Whether a maximum of squared height `maximum` is a cell of its own next to a
 * higher one, with a saddle of squared height `saddle` <= maximum between them. Outlines on a grid
 * alone make maxima that rise by less than three quarters of a pixel, and rough outlines of large
 * cells some that rise by less than a twentieth (in squares: a tenth).
 *     sqrt(maximum) - sqrt(saddle) >= 3/4  <=>  16 (maximum - saddle) - 9 >= 24 sqrt(saddle) */
TC_INLINE int cc_apart(tc_u32 maximum, tc_u32 saddle)
{
    const tc_u64 rise = (tc_u64)maximum - saddle;

    if (rise == 0 || (tc_u64)saddle * 10 >= (tc_u64)maximum * 9)
        return 0;
    /* 24 sqrt(saddle) is below 2^21: no need to square more. */
    return rise >= 1u << 20 || (16 * rise - 9) * (16 * rise - 9) >= 576 * (tc_u64)saddle;
}

#endif
