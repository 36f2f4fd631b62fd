/*
 * What is membrane and what is at the border, for C and OpenCL C.
 */
#ifndef AN_VOLUME_CORE_H
#define AN_VOLUME_CORE_H

#include "app/analysis/common/core.h"

TC_INLINE int vol_is_membrane(tc_u32 grey, tc_u32 membrane)
{
    return grey >= membrane;
}

/* Whether row y of slice z is at the border of the stack, or of its slice where each is
 * by itself: the outside lies behind it. */
TC_INLINE int vol_is_border_row(tc_u32 y, tc_u32 z, tc_u32 ny, tc_u32 nz, int through)
{
    return y == 0 || y + 1 == ny || (through && (z == 0 || z + 1 == nz));
}

/* And whether the run of voxels [a, b) of a row of nx is. */
TC_INLINE int vol_is_border_run(int border_row, tc_u32 a, tc_u32 b, tc_u32 nx)
{
    return border_row || a == 0 || b == nx;
}

/* The first voxels of the runs of ones in a word, or of what two rows share. before: the
 * bit in front of it. */
TC_INLINE tc_u64 vol_starts(tc_u64 word, tc_u64 before)
{
    return word & ~(word << 1 | before);
}

#endif
