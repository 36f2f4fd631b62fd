/*
 * volume: which voxels are membrane, and which runs of voxels touch the border of the stack; for C
 * and OpenCL C.
 */
#ifndef AN_VOLUME_CORE_H
#define AN_VOLUME_CORE_H

#include "app/analysis/common/core.h"

TC_INLINE int vol_is_membrane(tc_u32 grey, tc_u32 membrane)
{
    return grey >= membrane;
}

/* Whether all voxels of row y of slice z touch the outside: whether the row is at the border of the
 * stack or, if each slice is analysed by itself (is_3d is 0), at the border of its slice. */
TC_INLINE int vol_is_border_row(tc_u32 y, tc_u32 z, tc_u32 ny, tc_u32 nz, int is_3d)
{
    return y == 0 || y + 1 == ny || (is_3d && (z == 0 || z + 1 == nz));
}

/* Whether the run of voxels [a, b) of a row of nx voxels touches the outside. border_row:
 * vol_is_border_row of its row. */
TC_INLINE int vol_is_border_run(int border_row, tc_u32 a, tc_u32 b, tc_u32 nx)
{
    return border_row || a == 0 || b == nx;
}

/* Returns a bit for the first voxel of each run of ones in a word of a row's bits. before: 1 if the
 * voxel before the word is set, so that its run continues into the word; otherwise 0. */
TC_INLINE tc_u64 vol_starts(tc_u64 word, tc_u64 before)
{
    return word & ~(word << 1 | before);
}

#endif
