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

/* Of two levels, whichever comes first: the lower one's row. */
TC_INLINE tc_u32 obj_cell(tc_u32 a, tc_u32 b, tc_u32 levels)
{
    return TC_MIN(a, b) * levels + TC_MAX(a, b);
}

#endif
