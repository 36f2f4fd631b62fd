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

/* --- split ---------------------------------------------------------------------- */

/* The order in which pixels are high: by squared distance to the background, then
 * the smaller index. No two pixels are equal, so going uphill ends at one regional
 * maximum. */
TC_INLINE int cc_higher(tc_u32 d2, tc_i32 index, tc_u32 other_d2, tc_i32 other_index)
{
    return d2 > other_d2 || (d2 == other_d2 && index < other_index);
}

/* The highest of a pixel of the mask and its n (4 or 8) neighbours; d2 is 0 on
 * the background. */
TC_INLINE tc_i32 cc_highest(TC_GLOBAL const tc_u32 *d2, tc_i32 nx, tc_i32 ny, tc_i32 x, tc_i32 y, int n)
{
    const tc_i32 here = y * nx + x;
    tc_i32 best = here;
    tc_u32 best_d2 = d2[here];

    for (int k = 0; k < n; k++) {
        /* The first four share a side with it, the others a corner. */
        const int dx = k < 4 ? (k == 1) - (k == 2) : (k & 1) * 2 - 1;
        const int dy = k < 4 ? (k == 3) - (k == 0) : (k & 2) - 1;
        const tc_i32 there = here + dy * nx + dx;

        if (x + dx < 0 || x + dx >= nx || y + dy < 0 || y + dy >= ny)
            continue;
        if (cc_higher(d2[there], there, best_d2, best)) {
            best = there;
            best_d2 = d2[there];
        }
    }
    return best;
}

/* Whether a maximum of squared height `maximum` is a cell of its own beside a
 * higher one, with a saddle of squared height `saddle` <= maximum between them: it must rise by
 * three quarters of a pixel, which outlines on a grid do by themselves, and by
 * a twentieth (in squares: a tenth), which rough outlines of large cells do.
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
