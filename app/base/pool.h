/*
 * A pool of worker threads that runs numbered tasks. Which thread runs which
 * task is left to chance; tasks must not care.
 */
#ifndef AN_POOL_H
#define AN_POOL_H

#include <stdint.h>

#include "app/base/status.h"

typedef struct an_pool an_pool;

/* thread: 0..threads-1, for scratch memory; task: 0..n_tasks-1. */
typedef void (*an_pool_fn)(void *user, unsigned thread, size_t task);

/* A pool of `threads` workers, the caller of an_pool_run being one of them.
 * Threads that the system refuses are done without. */
tc_status an_pool_create(unsigned threads, an_pool **out, tc_err *err);
/* Runs all tasks and returns when the last has ended. */
void an_pool_run(an_pool *pool, an_pool_fn fn, void *user, size_t n_tasks);
void an_pool_destroy(an_pool **pool);

/* How many units the next step should take, so that it lasts about a tenth of a
 * second: the last was meant to take `batch`, and took `units` in `seconds`. */
uint64_t an_next_batch(uint64_t batch, uint64_t units, unsigned threads, double seconds);

#endif
