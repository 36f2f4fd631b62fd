/* The rules of cellcount's split, for C and OpenCL C. */
#ifndef AN_CELLCOUNT_CORE_H
#define AN_CELLCOUNT_CORE_H

#include "app/analysis/core.h"

/* The order in which pixels are high: by squared distance to the ground, then
 * the smaller index. No two pixels are equal, so every way leads up to one
 * summit. */
TC_INLINE int cc_higher(tc_u32 d2, tc_i32 index, tc_u32 other_d2, tc_i32 other_index)
{
    return d2 > other_d2 || (d2 == other_d2 && index < other_index);
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
