/*
 * An OpenCL backend for analyses whose chunks are rows of grey values (of all slices of a stack)
 * and whose state is a sum over the chunks, as on the CPU (chunked.h). Each step copies some rows
 * to the device, so that no item is too large for it; the host adds the rows' sums to the state.
 *
 * A work-item of the kernel NAME_rows computes the sum of one row:
 *
 *     __kernel void NAME_rows(__global const PIXEL *in, __global SUM *sums, uint nx,
 *                             uint rows, ...)
 *
 * where in[0] is the first pixel of the first row, sums[i] is for row i, SUM is the struct that
 * an_chunked's add takes, and `...` are n_numbers arguments of type uint. PIXEL is uchar or ushort.
 * There are more work-items than rows; a work-item whose number is not below `rows` does nothing.
 */
#ifndef OCL_ROWS_CL_H
#define OCL_ROWS_CL_H

#include "app/analysis/chunked.h"
#include "opencl/worker.h"

enum {
    OCL_ROWS_NUMBERS = 4, /* the most numbers that a kernel has as its last arguments */
    OCL_ROWS_MOST = 4096  /* the most rows of a launch */
};

/* The description of such a backend. */
typedef struct ocl_rows {
    ocl_launcher launcher; /* the first member, so that a pointer to it can be cast to ocl_rows * */
    const ocl_source *source;
    const char *kernel;
    const an_chunked *chunked;
    unsigned n_numbers;
    /* Sets `numbers`, the kernel's last arguments, for the item; NULL if n_numbers is 0. */
    void (*numbers)(const an_work *work, cl_uint numbers[OCL_ROWS_NUMBERS]);
} ocl_rows;

typedef struct ocl_rows_worker {
    ocl_worker ocl;
    ocl_pace pace;       /* the number of rows of a launch */
    unsigned char *sums; /* the sums of a launch's rows, of an_chunked.sum_bytes bytes each */
    cl_uint numbers[OCL_ROWS_NUMBERS]; /* the kernel's last arguments */
} ocl_rows_worker;

/* The functions for open and free of the launcher, and for step of the backend. */
tc_status ocl_rows_prepare(void *worker, const void *state, tc_err *err);
tc_status ocl_rows_step(void *worker, void *state, uint64_t *chunks_done, tc_err *err);
void ocl_rows_free(void *worker);

/* Defines the backend ocl_NAME of analysis NAME with the kernel of opencl/kernels/NAME.cl. sums: an
 * an_chunked; n_numbers and numbers: as in ocl_rows. */
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
