/*
 * A pool of worker threads that run the numbered parts of a job in parallel. Which thread runs
 * which part varies, so results must not depend on it.
 */
#ifndef AN_POOL_H
#define AN_POOL_H

#include <stdint.h>

#include "app/base/poll.h"

typedef struct an_pool an_pool;

/* After this time, in seconds, a step of the work (such as a call of an_pool_run_until) starts no
 * further part. */
#define AN_STEP_SECONDS 0.05

/* Runs one part. thread: 0 to threads - 1, to select scratch memory; part: 0 to n_parts - 1. */
typedef void (*an_pool_fn)(void *user, unsigned thread, size_t part);

/* Creates a pool of `threads` threads, one of which is the caller of an_pool_run. The pool has
 * fewer threads if the system refuses to create some. */
tc_status an_pool_create(unsigned threads, an_pool **out, tc_err *err);
/* Runs all parts; returns when the last one has ended. */
void an_pool_run(an_pool *pool, an_pool_fn fn, void *user, size_t n_parts);
/* Starts parts in the order of their numbers: part 0, and further parts until the time `until`
 * (tc_seconds). Waits until these have ended, and returns their number n: parts 0 to n - 1 were
 * run. */
size_t an_pool_run_until(an_pool *pool, an_pool_fn fn, void *user, size_t n_parts, double until);
/* Runs all parts, and polls every AN_STEP_SECONDS. Returns TC_TRY_LATER if the poll stopped it;
 * then not all parts were run. */
tc_status an_pool_run_polled(an_pool *pool, an_pool_fn fn, void *user, size_t n_parts,
                             const tc_poll *poll, tc_err *err);
/* Ends the threads, frees the pool, and sets *pool to NULL. Does nothing if *pool is NULL. */
void an_pool_destroy(an_pool **pool);

#endif
