/* The OpenCL backend of an analysis whose state is a sum over rows of grey values. */
#include "opencl/rows_cl.h"

#include <assert.h>
#include <stdlib.h>

enum { PIXELS, SUMS, BUFFERS }; /* the device's buffers */
enum { K_ROWS, KERNELS };       /* the kernel */
enum {
    GROUP = 64,           /* work-items of a work-group */
    MOST_PIXELS = 1 << 22 /* the most pixels of a launch */
};

/* Returns the description of the worker's backend. The cast is valid, as the launcher is the first
 * member of an ocl_rows. */
static const ocl_rows *rows_of(const ocl_rows_worker *w)
{
    return (const ocl_rows *)w->ocl.launcher;
}

tc_status ocl_rows_prepare(void *worker, const void *state, tc_err *err)
{
    ocl_rows_worker *const w = worker;
    const ocl_rows *const rows = rows_of(w);
    const wu_pixels *const px = w->ocl.work->pixels;
    const size_t sum_bytes = rows->chunked->sum_bytes;
    const uint64_t fitting = MOST_PIXELS / px->nx,
                   most = fitting < OCL_ROWS_MOST ? fitting : OCL_ROWS_MOST;
    const ocl_buffer_need needs[] = { { PIXELS, most * px->nx * (px->bits / 8), "the pixels",
                                        NULL },
                                      { SUMS, most * sum_bytes, "the sums", NULL } };

    (void)state;
    assert(rows->n_numbers <= OCL_ROWS_NUMBERS);
    assert(w->ocl.work->plan.chunks == (uint64_t)px->nz * px->ny);
    if (rows->numbers != NULL)
        rows->numbers(w->ocl.work, w->numbers);
    w->sums = malloc(most * sum_bytes);
    if (w->sums == NULL)
        return tc_no_memory(err, "the sums of rows");
    const tc_status status =
        ocl_build_kernels(&w->ocl, rows->source, false, &rows->kernel, KERNELS, err, "-DPIXEL=%s",
                          px->bits == 8 ? "uchar" : "ushort");
    ocl_pace_begin(&w->ocl, &w->pace, 1, most);
    return status == TC_OK ? ocl_make_buffers(&w->ocl, needs, BUFFERS, err) : status;
}

void ocl_rows_free(void *worker)
{
    free(((ocl_rows_worker *)worker)->sums);
}

tc_status ocl_rows_step(void *worker, void *state, uint64_t *chunks_done, tc_err *err)
{
    ocl_rows_worker *const w = worker;
    const ocl_rows *const rows = rows_of(w);
    an_state_head *const head = state;
    const wu_pixels *const px = w->ocl.work->pixels;
    const uint64_t left = w->ocl.work->plan.chunks - head->chunks_done,
                   n = ocl_pace_next(&w->pace, left);
    const size_t bytes = n * px->nx * (px->bits / 8), sum_bytes = rows->chunked->sum_bytes;
    ocl_arg args[4 + OCL_ROWS_NUMBERS] = { OCL_BUFFER_ARG(w, PIXELS), OCL_BUFFER_ARG(w, SUMS),
                                           OCL_UINT(px->nx), OCL_UINT(n) };
    tc_status status =
        ocl_upload(&w->ocl, PIXELS, 0, ocl_pixels_from(px, head->chunks_done * px->nx), bytes, err);

    for (unsigned i = 0; i < rows->n_numbers; i++)
        args[4 + i] = (ocl_arg){ sizeof w->numbers[i], &w->numbers[i] };
    if (status == TC_OK)
        status =
            ocl_queue(&w->ocl, K_ROWS, ocl_grid_of(GROUP, n, 1, 1), args, 4 + rows->n_numbers, err);
    status = ocl_end_launch(&w->ocl, status, &w->pace, n, err);
    if (status == TC_OK)
        status = ocl_download(&w->ocl, SUMS, 0, w->sums, n * sum_bytes, err);
    if (status != TC_OK)
        return status;
    for (uint64_t i = 0; i < n; i++)
        rows->chunked->add(state, w->sums + i * sum_bytes);
    *chunks_done = head->chunks_done += n;
    return n == left ? TC_OK : TC_MORE;
}
