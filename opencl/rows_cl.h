/*
 * The OpenCL backend of an analysis whose chunks are rows of grey values (of a stack, counted
 * through all slices) and whose state is a sum of what they give, as on the CPU (chunked.h). Some
 * rows go to the device at a time, so no item is too large for it; their sums are added on the
 * host.
 *
 * The kernel NAME_rows takes a row by a work-item:
 *
 *     __kernel void NAME_rows(__global const PIXEL *in, __global SUM *sums, uint nx,
 *                             uint rows, ...)
 *
 * where in[0] is the first pixel of the first row, SUM the struct that an_chunked adds, and `...`
 * the numbers, a uint each. PIXEL is uchar or ushort. A work-item whose row is not below `rows` has
 * nothing to do.
 */
#ifndef OCL_ROWS_CL_H
#define OCL_ROWS_CL_H

#include "app/analysis/chunked.h"
#include "opencl/worker.h"

enum { OCL_ROWS_NUMBERS = 4, OCL_ROWS_MOST = 4096 };

typedef struct ocl_rows {
    ocl_launcher launcher; /* first, so that a worker's launcher is this */
    const ocl_source *source;
    const char *kernel;
    const an_chunked *chunked;
    unsigned n_numbers;
    void (*numbers)(const an_work *work, cl_uint numbers[OCL_ROWS_NUMBERS]); /* NULL: none */
} ocl_rows;

typedef struct ocl_rows_worker {
    ocl_worker ocl;
    ocl_pace pace;       /* in rows */
    unsigned char *sums; /* [OCL_ROWS_MOST] of the chunked sum_bytes */
    cl_uint numbers[OCL_ROWS_NUMBERS];
} ocl_rows_worker;

tc_status ocl_rows_prepare(void *worker, const void *state, tc_err *err);
tc_status ocl_rows_step(void *worker, void *state, uint64_t *chunks_done, tc_err *err);
void ocl_rows_free(void *worker);

/* Defines ocl_NAME with the kernel of opencl/kernels/NAME.cl. */
#define OCL_ROWS_BACKEND(analysis, sums, n_numbers, numbers)                                     \
    extern const ocl_source ocl_source_##analysis;                                               \
    static tc_status analysis##_rows_open(const an_work *work, const void *state, void **worker, \
                                          tc_err *err)                                           \
    {                                                                                            \
        static const ocl_rows rows = { { #analysis, sizeof(ocl_rows_worker), ocl_rows_prepare,   \
                                         ocl_rows_free },                                        \
                                       &ocl_source_##analysis,                                   \
                                       #analysis "_rows",                                        \
                                       &(sums),                                                  \
                                       n_numbers,                                                \
                                       numbers };                                                \
        return ocl_worker_open(&rows.launcher, work, state, worker, err);                        \
    }                                                                                            \
    const an_backend ocl_##analysis = { .name = "opencl",                                        \
                                        .open = analysis##_rows_open,                            \
                                        .step = ocl_rows_step,                                   \
                                        .close = ocl_worker_close }

#endif
