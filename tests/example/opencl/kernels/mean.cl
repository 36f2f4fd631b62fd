/* The OpenCL kernel of mean; opencl/rows_cl.h describes its arguments. */
#include "app/analysis/mean/core.h"

//! check: -DPIXEL=ushort
#ifndef PIXEL
#define PIXEL uchar
#endif

__kernel void mean_rows(__global const PIXEL *in, __global mean_sum *sums, tc_u32 nx, tc_u32 rows,
                        tc_u32 threshold)
{
    const size_t row = get_global_id(0);

    if (row < rows) {
        mean_sum sum = { 0, 0 };

        for (tc_u32 x = 0; x < nx; x++)
            mean_add(&sum, in[row * nx + x], threshold);
        sums[row] = sum;
    }
}
