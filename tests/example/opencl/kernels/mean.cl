/* mean on a device: see app/analysis/mean/mean.h. A work-item takes a row; rows[i] is row
 * first + i of the item, whose pixels begin at in[0]. */
#include "app/analysis/mean/core.h"

//! check: -DPIXEL=ushort
#ifndef PIXEL
#define PIXEL uchar
#endif

__kernel void mean_rows(__global const PIXEL *in, __global mean_row *rows, tc_u32 nx, tc_u32 n,
                        tc_u32 threshold)
{
    const size_t i = get_global_id(0);
    mean_row sum = { 0, 0 };

    if (i >= n)
        return;
    for (tc_u32 x = 0; x < nx; x++)
        sum = mean_add(sum, in[i * nx + x], threshold);
    rows[i] = sum;
}
