/* objects: the arithmetic of a pixel and of a pair, compiled as C and as OpenCL C. */
#ifndef AN_OBJECTS_CORE_H
#define AN_OBJECTS_CORE_H

#include "app/analysis/common/core.h"

/* Grey values lo to hi spread over `levels`, evenly. */
typedef struct obj_spread {
    tc_u32 lo, hi, levels;
    tc_u64 reciprocal; /* of hi - lo + 1, in 2^-40, rounded up */
} obj_spread;

TC_INLINE obj_spread obj_spread_of(tc_u32 lo, tc_u32 hi, tc_u32 levels)
{
    obj_spread s;

    s.lo = lo;
    s.hi = hi;
    s.levels = levels;
    s.reciprocal = ((tc_u64)1 << 40) / (hi - lo + 1) + 1;
    return s;
}

/* The level of a grey value, from 0 to levels - 1: (v - lo) levels / (hi - lo + 1), rounded down.
 * The reciprocal is too large by less than 2^-40, the quotient by less than 2^24 2^-40: less than
 * what it lacks to the next integer, 2^-16 at least. */
TC_INLINE tc_u8 obj_level(tc_u32 v, const obj_spread *s)
{
    v = TC_MIN(TC_MAX(v, s->lo), s->hi);
    return (tc_u8)((tc_u64)(v - s->lo) * s->levels * s->reciprocal >> 40);
}

/* Half of the 26 directions, as dx, dy, dz; the first four are half of a picture's 8. */
#define OBJ_DIRECTIONS 13
#ifdef __OPENCL_VERSION__
__constant tc_i32
#else
static const tc_i32
#endif
    obj_directions[OBJ_DIRECTIONS][3] = { { 1, 0, 0 },   { -1, 1, 0 }, { 0, 1, 0 },  { 1, 1, 0 },
                                          { -1, -1, 1 }, { 0, -1, 1 }, { 1, -1, 1 }, { -1, 0, 1 },
                                          { 0, 0, 1 },   { 1, 0, 1 },  { -1, 1, 1 }, { 0, 1, 1 },
                                          { 1, 1, 1 } };

/* What a device keeps of a matrix, in words: pairs, the largest entry, the sum of squares (2) and
 * of k log k (4), each the low word first; then pairs by the ends' levels [L], by the sum [2 L], by
 * the difference [L]. */
enum { OBJ_W_PAIRS, OBJ_W_MOST, OBJ_W_SQUARES, OBJ_W_K_LOG_K = 4, OBJ_W_MARGINAL = 8 };

/* Of two levels, whichever comes first: the lower one's row, of 2^bits cells. */
TC_INLINE tc_u32 obj_cell(tc_u32 a, tc_u32 b, tc_i32 bits)
{
    return TC_MIN(a, b) << bits | TC_MAX(a, b);
}

#endif
