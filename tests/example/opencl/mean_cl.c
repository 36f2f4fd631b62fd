/* The OpenCL backend of mean: each work-item sums a row. */
#include "app/analysis/mean/mean.h"
#include "opencl/backends.h"
#include "opencl/rows_cl.h"

static void get_numbers(const an_work *work, cl_uint numbers[OCL_ROWS_NUMBERS])
{
    numbers[0] = (cl_uint)((const mean_params *)work->params)->threshold;
}

OCL_ROWS_BACKEND(mean, mean_rows, 1, get_numbers);
