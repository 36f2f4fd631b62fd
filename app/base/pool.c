/* A pool of worker threads: see pool.h. */
#include "app/base/pool.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "app/base/os.h"

typedef struct worker {
    an_pool *pool;
    unsigned index; /* the thread's number, from 1 on; the caller of an_pool_run has number 0 */
    pthread_t id;
} worker;

struct an_pool {
    pthread_mutex_t lock;
    pthread_cond_t start, end; /* signalled at the start and end of a run (an_pool_run_until) */
    unsigned n_workers;        /* number of threads without the caller of an_pool_run */
    worker *workers;
    /* The next members describe the current run. */
    an_pool_fn fn;
    void *user;
    size_t n_parts, next; /* number of parts; number of the part that is started next */
    double until;         /* the time (tc_seconds) after which no part is started */
    unsigned n_busy;      /* workers that have not finished this run */
    unsigned long run;    /* the number of the current run, counted from 1 */
    bool stop;            /* the workers must end */
};

/* Runs parts, one after another, until all parts are started or the time pool->until is reached;
 * but always starts part 0. A part takes long compared with locking and reading the clock. thread:
 * the number of the calling thread. */
static void run_parts(an_pool *pool, unsigned thread)
{
    pthread_mutex_lock(&pool->lock);
    while (pool->next < pool->n_parts && (pool->next == 0 || tc_seconds() < pool->until)) {
        const size_t part = pool->next++;

        pthread_mutex_unlock(&pool->lock);
        pool->fn(pool->user, thread, part);
        pthread_mutex_lock(&pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
}

/* A worker thread: takes part in each run until the pool is destroyed. */
static void *worker_main(void *arg)
{
    worker *const w = arg;
    an_pool *const pool = w->pool;
    unsigned long last_run = 0;

    for (;;) {
        pthread_mutex_lock(&pool->lock);
        while (pool->run == last_run && !pool->stop)
            pthread_cond_wait(&pool->start, &pool->lock);
        last_run = pool->run;
        const bool stop = pool->stop;
        pthread_mutex_unlock(&pool->lock);
        if (stop)
            return NULL;
        run_parts(pool, w->index);
        pthread_mutex_lock(&pool->lock);
        if (--pool->n_busy == 0)
            pthread_cond_signal(&pool->end);
        pthread_mutex_unlock(&pool->lock);
    }
}

tc_status an_pool_create(unsigned threads, an_pool **out, tc_err *err)
{
    assert(threads >= 1);
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
        if (!os_create_thread(&w->id, worker_main, w))
            break;
        pool->n_workers++;
    }
    *out = pool;
    return TC_OK;
}

size_t an_pool_run_until(an_pool *pool, an_pool_fn fn, void *user, size_t n_parts, double until)
{
    size_t done;

    pthread_mutex_lock(&pool->lock);
    assert(fn != NULL && pool->n_busy == 0);
    pool->fn = fn;
    pool->user = user;
    pool->n_parts = n_parts;
    pool->next = 0;
    pool->until = until;
    pool->n_busy = pool->n_workers;
    pool->run++;
    pthread_cond_broadcast(&pool->start);
    pthread_mutex_unlock(&pool->lock);
    run_parts(pool, 0);
    pthread_mutex_lock(&pool->lock);
    while (pool->n_busy > 0)
        pthread_cond_wait(&pool->end, &pool->lock);
    done = pool->next;
    pthread_mutex_unlock(&pool->lock);
    return done;
}

void an_pool_run(an_pool *pool, an_pool_fn fn, void *user, size_t n_parts)
{
    an_pool_run_until(pool, fn, user, n_parts, INFINITY);
}

/* The arguments of run_shifted, which runs part number first + i of fn as its part i. */
typedef struct shifted_parts {
    an_pool_fn fn;
    void *user;
    size_t first;
} shifted_parts;

/* An an_pool_fn; user: a shifted_parts. */
static void run_shifted(void *user, unsigned thread, size_t part)
{
    const shifted_parts *const l = user;

    l->fn(l->user, thread, l->first + part);
}

tc_status an_pool_run_polled(an_pool *pool, an_pool_fn fn, void *user, size_t n_parts,
                             const tc_poll *poll, tc_err *err)
{
    shifted_parts l = { fn, user, 0 };

    while (l.first < n_parts) {
        l.first += an_pool_run_until(pool, run_shifted, &l, n_parts - l.first,
                                     tc_seconds() + AN_STEP_SECONDS);
        return_if_error(tc_call_poll(poll, err));
    }
    return TC_OK;
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
