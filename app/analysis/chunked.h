/*
 * The CPU backend of an analysis whose chunks do not depend on each other and whose state is a sum
 * of what they give. Threads take chunks, each adds to a sum of its own, and a step adds these sums
 * to the state, in an order that depends on the number of threads: sums of integers alone.
 */
#ifndef AN_CHUNKED_H
#define AN_CHUNKED_H

#include "app/analysis/analysis.h"

typedef struct an_chunked {
    size_t sum_bytes;
    /* Adds a chunk of the item to a sum; a new sum is zero. Called by several threads. */
    void (*run)(const an_work *work, uint64_t chunk, void *sum);
    /* Adds a sum to the state, which begins with an an_state_head. */
    void (*add)(void *state, const void *sum);
} an_chunked;

/* open, step and close of the backend. The caller keeps `chunked` as long as the worker. */
tc_status an_chunked_open(const an_chunked *chunked, const an_work *work, void **worker,
                          tc_err *err);
tc_status an_chunked_step(void *worker, void *state, uint64_t *chunks_done, tc_err *err);
void an_chunked_close(void **worker);

/* Defines the static backend `backend`; sums: an an_chunked with static storage. */
#define AN_CHUNKED_BACKEND(backend, sums)                                                         \
    static tc_status backend##_open(const an_work *work, const void *state, void **worker,        \
                                    tc_err *err)                                                  \
    {                                                                                             \
        (void)state;                                                                              \
        return an_chunked_open(&(sums), work, worker, err);                                       \
    }                                                                                             \
    static const an_backend backend = {                                                           \
        .name = "cpu", .open = backend##_open, .step = an_chunked_step, .close = an_chunked_close \
    }

#endif
