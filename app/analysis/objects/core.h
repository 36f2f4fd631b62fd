/* objects: the arithmetic of a pixel and of a pair, compiled as C and as OpenCL C. */
#ifndef AN_OBJECTS_CORE_H
#define AN_OBJECTS_CORE_H

#include "app/analysis/common/core.h"

/* The level of a grey value: lo to hi are spread over `levels`, evenly. From 0 to levels - 1. */
TC_INLINE tc_u8 obj_level(tc_u32 v, tc_u32 lo, tc_u32 hi, tc_u32 levels)
{
    v = v < lo ? lo : v > hi ? hi : v;
    return (tc_u8)((v - lo) * levels / (hi - lo + 1));
}

/* Half of the 26 directions, as dx, dy, dz; the first four are half of a picture's 8. */
#define OBJ_DIRECTIONS 13
#ifdef __OPENCL_VERSION__
__constant tc_i32
#else
static const tc_i32
#endif
obj_directions[OBJ_DIRECTIONS][3] = {
    { 1, 0, 0 }, { -1, 1, 0 }, { 0, 1, 0 }, { 1, 1, 0 },
    { -1, -1, 1 }, { 0, -1, 1 }, { 1, -1, 1 }, { -1, 0, 1 }, { 0, 0, 1 }, { 1, 0, 1 }, { -1, 1, 1 }, { 0, 1, 1 },
    { 1, 1, 1 }
};

/* What a device tells of a matrix, in words: pairs, the largest entry, the sum of squares (2) and of k log k (4), each
 * the low word first; then pairs by the ends' levels [L], by the sum [2 L], by the difference [L]. */
enum { OBJ_W_PAIRS, OBJ_W_MOST, OBJ_W_SQUARES, OBJ_W_K_LOG_K = 4, OBJ_W_MARGINAL = 8 };

/* Of two levels, whichever comes first: the lower one's row. */
TC_INLINE tc_u32 obj_cell(tc_u32 a, tc_u32 b, tc_u32 levels)
{
    return TC_MIN(a, b) * levels + TC_MAX(a, b);
}

#endif
