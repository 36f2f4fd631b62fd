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
 * higher one, the way between them falling to `pass` <= summit. */
TC_INLINE int cc_apart(tc_u32 summit, tc_u32 pass)
{
    return (tc_u64)pass * 100 < (tc_u64)summit * 64;
}

#endif
