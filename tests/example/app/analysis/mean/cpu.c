/* mean on the CPU: threads take rows, and integers do not mind in which order they are added. */
#include "app/analysis/mean/mean.h"

#include <stdlib.h>

#include "app/analysis/mean/core.h"
#include "app/base/pool.h"

typedef struct cpu_worker {
    const an_work *work;
    an_pool *pool;
    mean_state *part; /* [threads] */
    uint64_t first;   /* row of the step */
} cpu_worker;

static void run_row(void *user, unsigned thread, size_t row)
{
    const cpu_worker *const w = user;
    const mean_params *const p = w->work->params;
    const wu_pixels *const px = w->work->pixels;
    const size_t start = (size_t)(w->first + row) * px->nx;
    mean_row sum = { 0, 0 };

    for (size_t x = 0; x < px->nx; x++)
        sum = mean_add(sum, px->bits == 8 ? px->u8[start + x] : px->u16[start + x],
                       (uint32_t)p->threshold);
    w->part[thread].pixels += sum.pixels;
    w->part[thread].sum += sum.sum;
}

static void cpu_close(void **worker)
{
    cpu_worker *const w = *worker;

    *worker = NULL;
    if (w == NULL)
        return;
    an_pool_destroy(&w->pool);
    free(w->part);
    free(w);
}

static tc_status cpu_open(const an_work *work, const void *state, void **worker, tc_err *err)
{
    cpu_worker *const w = calloc(1, sizeof *w);
    tc_status status;

    (void)state;
    *worker = w;
    if (w == NULL)
        return tc_no_memory(err, "mean");
    w->work = work;
    w->part = calloc(work->threads, sizeof *w->part);
    status =
        w->part == NULL ? tc_no_memory(err, "mean") : an_pool_create(work->threads, &w->pool, err);
    if (status != TC_OK)
        cpu_close(worker);
    return status;
}

static tc_status cpu_step(void *worker, void *state, uint64_t *chunks_done, tc_err *err)
{
    cpu_worker *const w = worker;
    mean_state *const s = state;
    const uint64_t left = w->work->plan.chunks - s->head.chunks_done;
    size_t n;

    (void)err;
    w->first = s->head.chunks_done;
    n = an_pool_run_until(w->pool, run_row, w, left, tc_seconds() + AN_STEP_SECONDS);
    for (unsigned t = 0; t < w->work->threads; t++) {
        s->pixels += w->part[t].pixels;
        s->sum += w->part[t].sum;
        w->part[t] = (mean_state){ .pixels = 0 };
    }
    *chunks_done = s->head.chunks_done += n;
    return n == left ? TC_OK : TC_MORE;
}

const an_backend mean_cpu = {
    .name = "cpu", .open = cpu_open, .step = cpu_step, .sync = an_always_synced, .close = cpu_close
};
