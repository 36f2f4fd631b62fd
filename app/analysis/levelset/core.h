/*
 * What both backends of levelset compute, as C and as OpenCL C.
 */
#ifndef LEVELSET_CORE_H
#define LEVELSET_CORE_H

#include "app/analysis/common/core.h"

/* Added under the root of a normal's length: 2^-23. */
#define LS_EPS 1.1920928955078125e-7f

/* --- narrow band ------------------------------------------------------------------
 *
 * Blocks of LS_BX * LS_BY * LS_BZ voxels. near[block] has LS_NEAR_ANY if a voxel
 * of the block has |phi| < band, and LS_NEAR_... if one in that face's layer of
 * voxels has. A block is worked on if a voxel of its own is near, or one of a
 * neighbour's layer that touches it. The list is made anew every LS_REFLAG
 * iterations and after each re-initialisation; what is not on it keeps phi. */
#define LS_BX 8u
#define LS_BY 8u
#define LS_BZ 4u
#define LS_REFLAG 4u
#define LS_NEAR_ANY 1u
#define LS_NEAR_XL 2u
#define LS_NEAR_XU 4u
#define LS_NEAR_YL 8u
#define LS_NEAR_YU 16u
#define LS_NEAR_ZL 32u
#define LS_NEAR_ZU 64u

/* Whether block (x, y, z) of bx*by*bz is worked on. */
TC_INLINE tc_u32 ls_active(TC_GLOBAL const tc_u8 *near, tc_u32 x, tc_u32 y, tc_u32 z, tc_u32 bx,
                           tc_u32 by, tc_u32 bz)
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

/* The bits of a voxel that is near, at (x, y, z) of its block, whose last voxel
 * inside the picture is (lx, ly, lz). */
TC_INLINE tc_u32 ls_near_bits(tc_u32 x, tc_u32 y, tc_u32 z, tc_u32 lx, tc_u32 ly, tc_u32 lz)
{
    return LS_NEAR_ANY | (x == 0 ? LS_NEAR_XL : 0u) | (x == lx ? LS_NEAR_XU : 0u) |
           (y == 0 ? LS_NEAR_YL : 0u) | (y == ly ? LS_NEAR_YU : 0u) | (z == 0 ? LS_NEAR_ZL : 0u) |
           (z == lz ? LS_NEAR_ZU : 0u);
}

/* --- time ------------------------------------------------------------------------------------ */

/* The time step that moves nothing by more than half a pixel and is not above the
 * bound; 0 where hardly anything moves. most: the largest |F |grad phi||. */
TC_INLINE float ls_cfl(float most, float bound)
{
    const float wanted = 0.5f / most;

    if (!(most > 1e-30f))
        return most * 0.0f;
    return wanted < bound ? wanted : bound;
}

/* phi from the squared distance to the nearest voxel of the other side. */
#ifdef __OPENCL_VERSION__
#define ls_root(a) sqrt(a)
#else
#define ls_root(a) __builtin_sqrtf(a)
#endif
TC_INLINE float ls_signed_distance(tc_u32 d2, tc_u32 inside)
{
    const float d = ls_root((float)d2);

    return inside != 0 ? 0.5f - d : d - 0.5f;
}

#endif
