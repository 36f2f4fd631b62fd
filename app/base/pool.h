/*
 * A pool of worker threads that do the numbered parts of a job in parallel. It is not determined
 * which thread does which part, so results must not depend on it.
 */
#ifndef AN_POOL_H
#define AN_POOL_H

#include <stdint.h>

#include "app/base/poll.h"

typedef struct an_pool an_pool;

/* After this many seconds a step begins no further part. */
#define AN_STEP_SECONDS 0.05

/* Does one part. thread: 0 to threads - 1, to select scratch memory; part: 0 to n_parts - 1. */
typedef void (*an_pool_fn)(void *user, unsigned thread, size_t part);

/* Creates a pool of `threads` threads, one of which is the caller of an_pool_run. If the system
 * refuses to create some, the pool has fewer. */
tc_status an_pool_create(unsigned threads, an_pool **out, tc_err *err);
/* Does all parts; returns when the last one has ended. */
void an_pool_run(an_pool *pool, an_pool_fn fn, void *user, size_t n_parts);
/* Does parts, at least one; once tc_seconds() >= until, begins no further part. Returns how many
 * parts were done: those with the lowest numbers. */
size_t an_pool_run_until(an_pool *pool, an_pool_fn fn, void *user, size_t n_parts, double until);
/* Does all parts, and polls every AN_STEP_SECONDS. TC_TRY_LATER: the poll stopped it, and not all
 * parts were done. */
tc_status an_pool_run_polled(an_pool *pool, an_pool_fn fn, void *user, size_t n_parts,
                             const tc_poll *poll, tc_err *err);
void an_pool_destroy(an_pool **pool);

#endif
