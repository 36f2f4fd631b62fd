/*
 * levelset: arithmetic that the CPU and the OpenCL backend share, compiled as C and as OpenCL C.
 */
#ifndef LEVELSET_CORE_H
#define LEVELSET_CORE_H

#include "app/analysis/common/core.h"

/* 2^-23. It is added to the squared length of a gradient, so that the square root, by which the
 * gradient is divided, is never 0. */
#define LS_EPS 1.1920928955078125e-7f

/* --- narrow band ------------------------------------------------------------------
 *
 * With a narrow band an iteration changes phi only in active blocks of LS_BX * LS_BY * LS_BZ
 * voxels. A voxel is near the interface if |phi| < band. near[block] has the bit LS_NEAR_ANY if a
 * voxel of the block is near. It has the bit of one of the block's six faces if a voxel in the
 * layer at this face is near (LS_NEAR_XL: the lower face along x; U: upper). A block is active if
 * one of its voxels is near, or if a near voxel of an adjacent block lies in the layer at their
 * common face. The list of active blocks is made again every LS_RELIST_EVERY iterations and after
 * each re-initialisation. */
#define LS_BX 8u
#define LS_BY 8u
#define LS_BZ 4u
#define LS_RELIST_EVERY 4u
#define LS_NEAR_ANY 1u
#define LS_NEAR_XL 2u
#define LS_NEAR_XU 4u
#define LS_NEAR_YL 8u
#define LS_NEAR_YU 16u
#define LS_NEAR_ZL 32u
#define LS_NEAR_ZU 64u

/* Whether block (x, y, z) of bx * by * bz blocks is active: 1 or 0. */
TC_INLINE tc_u32 ls_is_active_block(TC_GLOBAL const tc_u8 *near, tc_u32 x, tc_u32 y, tc_u32 z,
                                    tc_u32 bx, tc_u32 by, tc_u32 bz)
{
    const tc_u64 row = bx, plane = (tc_u64)bx * by;
    TC_GLOBAL const tc_u8 *const b = near + (z * plane + y * row + x);
    tc_u32 any = b[0] & LS_NEAR_ANY;

    if (x > 0)
        any |= b[-1] & LS_NEAR_XU;
    if (x + 1 < bx)
        any |= b[1] & LS_NEAR_XL;
    if (y > 0)
        any |= *(b - row) & LS_NEAR_YU;
    if (y + 1 < by)
        any |= *(b + row) & LS_NEAR_YL;
    if (z > 0)
        any |= *(b - plane) & LS_NEAR_ZU;
    if (z + 1 < bz)
        any |= *(b + plane) & LS_NEAR_ZL;
    return any != 0 ? 1u : 0u;
}

/* The bits that a near voxel at (x, y, z) of its block sets in near[block]. (lx, ly, lz): the
 * block's last voxel that is inside the picture. */
TC_INLINE tc_u32 ls_near_bits(tc_u32 x, tc_u32 y, tc_u32 z, tc_u32 lx, tc_u32 ly, tc_u32 lz)
{
    return LS_NEAR_ANY | (x == 0 ? LS_NEAR_XL : 0u) | (x == lx ? LS_NEAR_XU : 0u) |
           (y == 0 ? LS_NEAR_YL : 0u) | (y == ly ? LS_NEAR_YU : 0u) | (z == 0 ? LS_NEAR_ZL : 0u) |
           (z == lz ? LS_NEAR_ZU : 0u);
}

/* --- time ------------------------------------------------------------------------------------ */

/* Returns the largest time step that is at most `bound` and changes phi by at most 0.5 (half a
 * pixel) at every voxel; 0 if nearly nothing moves, and NaN if `most` is NaN. most: the largest
 * |U| = |F |grad phi|| of all voxels. */
TC_INLINE float ls_cfl_step(float most, float bound)
{
    const float wanted = 0.5f / most;

    if (!(most > 1e-30f))   /* also if `most` is NaN */
        return most * 0.0f; /* 0, or NaN */
    return wanted < bound ? wanted : bound;
}

#ifdef __OPENCL_VERSION__
#define ls_sqrt(a) sqrt(a)
#else
#define ls_sqrt(a) __builtin_sqrtf(a)
#endif
/* Returns phi of a voxel: its distance to the interface, negative inside. d2: the squared distance
 * to the nearest voxel on the other side; the interface is half a pixel nearer than this voxel.
 * inside: 1 if the voxel is inside, else 0. */
TC_INLINE float ls_signed_distance(tc_u32 d2, tc_u32 inside)
{
    const float d = ls_sqrt((float)d2);

    return inside != 0 ? 0.5f - d : d - 0.5f;
}

#endif
