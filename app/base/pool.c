#include "app/base/pool.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "app/base/os.h"

typedef struct worker {
    an_pool *pool;
    unsigned index;
    pthread_t id;
} worker;

struct an_pool {
    pthread_mutex_t lock;
    pthread_cond_t start, end;
    unsigned n_workers;          /* besides the caller */
    worker *workers;
    /* the current run */
    an_pool_fn fn;
    void *user;
    size_t n_parts, next;
    unsigned busy;               /* workers that have not ended this run */
    unsigned long run;           /* counts runs */
    bool stop;
};

/* Takes parts until none is left. Parts are long against a lock. */
static void take_parts(an_pool *pool, unsigned thread)
{
    pthread_mutex_lock(&pool->lock);
    while (pool->next < pool->n_parts) {
        const size_t part = pool->next++;

        pthread_mutex_unlock(&pool->lock);
        pool->fn(pool->user, thread, part);
        pthread_mutex_lock(&pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
}

static void *worker_main(void *arg)
{
    worker *const w = arg;
    an_pool *const pool = w->pool;
    unsigned long seen = 0;

    for (;;) {
        pthread_mutex_lock(&pool->lock);
        while (pool->run == seen && !pool->stop)
            pthread_cond_wait(&pool->start, &pool->lock);
        seen = pool->run;
        const bool stop = pool->stop;
        pthread_mutex_unlock(&pool->lock);
        if (stop)
            return NULL;
        take_parts(pool, w->index);
        pthread_mutex_lock(&pool->lock);
        if (--pool->busy == 0)
            pthread_cond_signal(&pool->end);
        pthread_mutex_unlock(&pool->lock);
    }
}

tc_status an_pool_create(unsigned threads, an_pool **out, tc_err *err)
{
    an_pool *const pool = calloc(1, sizeof *pool);

    *out = NULL;
    if (pool == NULL)
        return tc_no_memory(err, "threads");
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->start, NULL);
    pthread_cond_init(&pool->end, NULL);
    pool->workers = calloc(threads, sizeof *pool->workers);
    if (pool->workers == NULL) {
        an_pool_destroy(&(an_pool *){ pool });
        return tc_no_memory(err, "threads");
    }
    for (unsigned i = 1; i < threads; i++) {
        worker *const w = &pool->workers[pool->n_workers];

        w->pool = pool;
        w->index = pool->n_workers + 1;
        if (!os_thread(&w->id, worker_main, w))
            break;
        pool->n_workers++;
    }
    *out = pool;
    return TC_OK;
}

/* Parts [first, end). */
static void run_parts(an_pool *pool, an_pool_fn fn, void *user, size_t first, size_t end)
{
    pthread_mutex_lock(&pool->lock);
    pool->fn = fn;
    pool->user = user;
    pool->n_parts = end;
    pool->next = first;
    pool->busy = pool->n_workers;
    pool->run++;
    pthread_cond_broadcast(&pool->start);
    pthread_mutex_unlock(&pool->lock);
    take_parts(pool, 0);
    pthread_mutex_lock(&pool->lock);
    while (pool->busy > 0)
        pthread_cond_wait(&pool->end, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}

void an_pool_run(an_pool *pool, an_pool_fn fn, void *user, size_t n_parts)
{
    run_parts(pool, fn, user, 0, n_parts);
}

tc_status an_pool_run_polled(an_pool *pool, an_pool_fn fn, void *user, size_t n_parts, const tc_poll *poll, tc_err *err)
{
    const unsigned threads = pool->n_workers + 1;
    uint64_t batch = threads;
    tc_status st = TC_OK;

    for (size_t first = 0, n; st == TC_OK && first < n_parts; first += n) {
        const double start = tc_seconds();

        n = n_parts - first < batch ? n_parts - first : (size_t)batch;
        run_parts(pool, fn, user, first, first + n);
        batch = an_next_batch(batch, n, threads, tc_seconds() - start);
        st = tc_ask(poll, err);
    }
    return st;
}

void an_pool_destroy(an_pool **pool_at)
{
    an_pool *const pool = *pool_at;

    *pool_at = NULL;
    if (pool == NULL)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->stop = true;
    pthread_cond_broadcast(&pool->start);
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; i < pool->n_workers; i++)
        pthread_join(pool->workers[i].id, NULL);
    pthread_cond_destroy(&pool->start);
    pthread_cond_destroy(&pool->end);
    pthread_mutex_destroy(&pool->lock);
    free(pool->workers);
    free(pool);
}

uint64_t an_next_batch(uint64_t batch, uint64_t done, unsigned threads, double seconds)
{
    const double short_one = 0.03, wanted = 0.06, long_one = 0.08;
    uint64_t fits;

    if (seconds < short_one && done == batch && batch < (uint64_t)4096 * threads)
        return batch * 2;
    if (seconds <= long_one || batch <= threads)
        return batch;
    fits = (uint64_t)((double)done * (wanted / seconds));
    return fits > threads ? fits : threads;
}
