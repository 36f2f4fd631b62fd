/* The rules of cellcount's split, for C and OpenCL C. */
#ifndef AN_CELLCOUNT_CORE_H
#define AN_CELLCOUNT_CORE_H

#include "app/analysis/common/core.h"

/* The order in which pixels are high: by squared distance to the ground, then
 * the smaller index. No two pixels are equal, so every way leads up to one
 * summit. */
TC_INLINE int cc_higher(tc_u32 d2, tc_i32 index, tc_u32 other_d2, tc_i32 other_index)
{
    return d2 > other_d2 || (d2 == other_d2 && index < other_index);
}

/* The highest of a pixel of the mask and its n (4 or 8) neighbours; d2 is 0 on
 * the ground. */
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

/* Whether a summit of squared height `summit` is a cell of its own beside a
 * higher one, the way between them falling to `pass` <= summit: it must rise by
 * three quarters of a pixel, which outlines on a grid do by themselves, and by
 * a twentieth (in squares: a tenth), which rough outlines of large cells do.
 *     sqrt(summit) - sqrt(pass) >= 3/4  <=>  16 (summit - pass) - 9 >= 24 sqrt(pass) */
TC_INLINE int cc_apart(tc_u32 summit, tc_u32 pass)
{
    const tc_u64 rise = (tc_u64)summit - pass;

    if (rise == 0 || (tc_u64)pass * 10 >= (tc_u64)summit * 9)
        return 0;
    /* 24 sqrt(pass) is below 2^21: no need to square more. */
    return rise >= 1u << 20 || (16 * rise - 9) * (16 * rise - 9) >= 576 * (tc_u64)pass;
}

#endif
