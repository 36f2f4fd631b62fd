/* mean: the arithmetic of a pixel, compiled as C and as OpenCL C. */
#ifndef MEAN_CORE_H
#define MEAN_CORE_H

#include "app/analysis/common/core.h"

/* Of a row: how many pixels count, and their grey values; 65,535 times 65,535 fit. */
typedef struct mean_row {
    tc_u32 pixels, sum;
} mean_row;

TC_INLINE mean_row mean_add(mean_row row, tc_u32 pixel, tc_u32 threshold)
{
    if (pixel >= threshold) {
        row.pixels++;
        row.sum += pixel;
    }
    return row;
}

#endif
