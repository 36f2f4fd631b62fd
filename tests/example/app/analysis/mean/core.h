/* The arithmetic of the analysis mean for a pixel, compiled as C and as OpenCL C. */
#ifndef MEAN_CORE_H
#define MEAN_CORE_H

#include "app/analysis/common/core.h"

/* The number of pixels that are not below the threshold, and the sum of their grey values. */
typedef struct mean_sum {
    tc_u64 pixels, grey;
} mean_sum;

TC_INLINE void mean_add(mean_sum *sum, tc_u32 pixel, tc_u32 threshold)
{
    sum->pixels += pixel >= threshold;
    sum->grey += pixel >= threshold ? pixel : 0;
}

#endif
