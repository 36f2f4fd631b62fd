/* The CPU backend for analyses whose state is a sum over independent chunks: see chunked.h. */
#include "app/analysis/chunked.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "app/base/pool.h"

enum { LINE = 64 }; /* bytes of a cache line; sums of different threads must not share one */

typedef struct chunked_worker {
    const an_chunked *chunked;
    const an_work *work;
    an_pool *pool;
    size_t stride;       /* bytes from one thread's sum to the next */
    unsigned char *sums; /* [threads][stride] */
    uint64_t first;      /* the first chunk of this step */
} chunked_worker;

void an_chunked_close(void **worker)
{
    chunked_worker *const w = *worker;

    *worker = NULL;
    if (w == NULL)
        return;
    an_pool_destroy(&w->pool);
    free(w->sums);
    free(w);
}

tc_status an_chunked_open(const an_chunked *chunked, const an_work *work, void **worker,
                          tc_err *err)
{
    assert(chunked->sum_bytes > 0 && work->threads > 0);
    chunked_worker *const w = calloc(1, sizeof *w);
    tc_status status;

    *worker = w;
    if (w == NULL)
        return tc_no_memory(err, "the sums of threads");
    w->chunked = chunked;
    w->work = work;
    w->stride = (chunked->sum_bytes + LINE - 1) / LINE * LINE;
    w->sums = calloc(work->threads, w->stride);
    status = w->sums == NULL ? tc_no_memory(err, "the sums of threads")
                             : an_pool_create(work->threads, &w->pool, err);
    if (status != TC_OK)
        an_chunked_close(worker);
    return status;
}

/* Called by the pool's threads: computes chunk number w->first + chunk. */
static void run_chunk(void *user, unsigned thread, size_t chunk)
{
    const chunked_worker *const w = user;

    w->chunked->run(w->work, w->first + chunk, w->sums + thread * w->stride);
}

tc_status an_chunked_step(void *worker, void *state, uint64_t *chunks_done, tc_err *err)
{
    chunked_worker *const w = worker;
    an_state_head *const head = state;
    const uint64_t left = w->work->plan.chunks - head->chunks_done;

    (void)err;
    w->first = head->chunks_done;
    const size_t n = an_pool_run_until(w->pool, run_chunk, w, left, tc_seconds() + AN_STEP_SECONDS);
    for (unsigned t = 0; t < w->work->threads; t++)
        w->chunked->add(state, w->sums + t * w->stride);
    memset(w->sums, 0, w->work->threads * w->stride);
    *chunks_done = head->chunks_done += n;
    return n == left ? TC_OK : TC_MORE;
}
