/*
 * objects: the grey level of a pixel, the directions of pairs and the cell of a pair in a
 * co-occurrence matrix, compiled as C and as OpenCL C.
 */
#ifndef AN_OBJECTS_CORE_H
#define AN_OBJECTS_CORE_H

#include "app/analysis/common/core.h"

/* The mapping of grey values from lo to hi to `levels` levels of equal width. */
typedef struct obj_level_scale {
    tc_u32 lo, hi, levels;
    tc_u64 reciprocal; /* 1 / (hi - lo + 1) in units of 2^-40, rounded up */
} obj_level_scale;

TC_INLINE obj_level_scale obj_level_scale_of(tc_u32 lo, tc_u32 hi, tc_u32 levels)
{
    obj_level_scale s;

    s.lo = lo;
    s.hi = hi;
    s.levels = levels;
    s.reciprocal = ((tc_u64)1 << 40) / (hi - lo + 1) + 1;
    return s;
}

/* The level of a grey value, from 0 to levels - 1: (v - lo) levels / (hi - lo + 1), rounded down; v
 * is first clamped to lo and hi. The result is exact: the reciprocal is too large by at most 2^-40,
 * so the computed quotient is too large by less than 2^24 2^-40 = 2^-16, whereas a quotient that is
 * not an integer is at least 1 / (hi - lo + 1) >= 2^-16 below the next integer. */
TC_INLINE tc_u8 obj_level(tc_u32 v, const obj_level_scale *s)
{
    v = TC_MIN(TC_MAX(v, s->lo), s->hi);
    return (tc_u8)((tc_u64)(v - s->lo) * s->levels * s->reciprocal >> 40);
}

/* The directions of pairs as dx, dy, dz. A stack has 26 directions; of two opposite directions only
 * one is listed. The first four are the directions in a picture. */
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

/* Indices of the 32-bit words in which a device returns the sums of a co-occurrence matrix. If a
 * sum takes several words, the low word comes first. */
enum {
    OBJ_WORD_PAIRS,       /* number of pairs */
    OBJ_WORD_MOST,        /* largest entry */
    OBJ_WORD_SQUARES,     /* sum of the squares of the entries; 2 words */
    OBJ_WORD_K_LOG_K = 4, /* sum of k log k over the entries k; 4 words */
    OBJ_WORD_MARGINAL = 8 /* for L levels: [L] numbers of pairs by the level of a pixel; then [2 L]
                             by the sum of both levels; then [L] by the difference of both levels */
};

/* The index of the matrix's cell for a pair of levels a and b in either order: the row is the lower
 * level, the column the higher one. A row has 2^bits cells. */
TC_INLINE tc_u32 obj_cell(tc_u32 a, tc_u32 b, tc_i32 bits)
{
    return TC_MIN(a, b) << bits | TC_MAX(a, b);
}

#endif
