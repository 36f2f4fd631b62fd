/*
 * A pool of worker threads that do numbered parts of a work. Which thread does which
 * part is left to chance; parts must not care.
 */
#ifndef AN_POOL_H
#define AN_POOL_H

#include <stdint.h>

#include "app/base/poll.h"

typedef struct an_pool an_pool;

/* How long a step takes, but for the parts that are begun then. */
#define AN_STEP_SECONDS 0.05

/* thread: 0..threads-1, for scratch memory; part: 0..n_parts-1. */
typedef void (*an_pool_fn)(void *user, unsigned thread, size_t part);

/* A pool of `threads` workers, the caller of an_pool_run being one of them.
 * Threads that the system refuses are done without. */
tc_status an_pool_create(unsigned threads, an_pool **out, tc_err *err);
/* Does all parts and returns when the last has ended. */
void an_pool_run(an_pool *pool, an_pool_fn fn, void *user, size_t n_parts);
/* Begins no further part once tc_seconds() is at `until`, but at least one. How many are done:
 * parts 0 to that. */
size_t an_pool_run_until(an_pool *pool, an_pool_fn fn, void *user, size_t n_parts, double until);
/* All parts, asking every AN_STEP_SECONDS. TC_TRY_LATER: not all are done. */
tc_status an_pool_run_polled(an_pool *pool, an_pool_fn fn, void *user, size_t n_parts,
                             const tc_poll *poll, tc_err *err);
void an_pool_destroy(an_pool **pool);

#endif
