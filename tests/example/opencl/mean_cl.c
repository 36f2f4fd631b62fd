/*
 * The OpenCL backend of mean. The pixels of some rows go to the device at a time, so no
 * item is too large for it; their sums are added on the host.
 */
#include "app/analysis/mean/core.h"
#include "app/analysis/mean/mean.h"
#include "opencl/backends.h"
#include "opencl/worker.h"

extern const ocl_source ocl_source_mean;

enum { PIXELS, ROWS, BUFFERS };
enum { K_ROWS, KERNELS };
enum { GROUP = 64, MOST_PIXELS = 1 << 22, MOST_ROWS = 4096 };

typedef struct cl_worker {
    ocl_worker ocl;
    ocl_pace pace; /* in rows */
    mean_row rows[MOST_ROWS];
} cl_worker;

static tc_status open_parts(void *worker, const void *state, tc_err *err)
{
    static const char *const names[KERNELS] = { "mean_rows" };
    cl_worker *const w = worker;
    const wu_pixels *const px = w->ocl.work->pixels;
    const uint64_t fit = MOST_PIXELS / px->nx, most = fit < MOST_ROWS ? fit : MOST_ROWS;
    const ocl_need needs[] = { { PIXELS, most * px->nx * (px->bits / 8), "the pixels", NULL },
                               { ROWS, most * sizeof(mean_row), "the rows", NULL } };
    const tc_status status = ocl_build(&w->ocl, &ocl_source_mean, false, names, KERNELS, err,
                                       "-DPIXEL=%s", px->bits == 8 ? "uchar" : "ushort");

    (void)state;
    ocl_pace_begin(&w->ocl, &w->pace, 1, most);
    return status == TC_OK ? ocl_make_buffers(&w->ocl, needs, BUFFERS, err) : status;
}

static tc_status cl_step(void *worker, void *state, uint64_t *chunks_done, tc_err *err)
{
    cl_worker *const w = worker;
    mean_state *const s = state;
    const mean_params *const p = w->ocl.work->params;
    const wu_pixels *const px = w->ocl.work->pixels;
    const uint64_t left = w->ocl.work->plan.chunks - s->head.chunks_done,
                   n = ocl_pace_next(&w->pace, left);
    const size_t bytes = n * px->nx * (px->bits / 8);
    tc_status status =
        ocl_put(&w->ocl, PIXELS, 0, ocl_pixels_from(px, s->head.chunks_done * px->nx), bytes, err);

    if (status == TC_OK)
        status =
            OCL_QUEUE(w, K_ROWS, ocl_grid_of(GROUP, n, 1, 1), err, OCL_HELD(w, PIXELS),
                      OCL_HELD(w, ROWS), OCL_UINT(px->nx), OCL_UINT(n), OCL_UINT(p->threshold));
    status = ocl_end_launch(&w->ocl, status, &w->pace, n, err);
    if (status == TC_OK)
        status = ocl_get(&w->ocl, ROWS, 0, w->rows, n * sizeof(mean_row), err);
    if (status != TC_OK)
        return status;
    for (uint64_t i = 0; i < n; i++) {
        s->pixels += w->rows[i].pixels;
        s->sum += w->rows[i].sum;
    }
    *chunks_done = s->head.chunks_done += n;
    return n == left ? TC_OK : TC_MORE;
}

static const ocl_launcher launcher = { "mean", sizeof(cl_worker), open_parts, NULL };

static tc_status cl_open(const an_work *work, const void *state, void **worker, tc_err *err)
{
    return ocl_worker_open(&launcher, work, state, worker, err);
}

const an_backend ocl_mean = { .name = "opencl",
                              .open = cl_open,
                              .step = cl_step,
                              .sync = an_always_synced,
                              .close = ocl_worker_close };
