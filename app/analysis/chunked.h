/*
 * The CPU backend for analyses whose chunks are independent of each other and whose state is the
 * sum of the chunks' results. Each thread adds its chunks to a sum of its own, and at the end of a
 * step these sums are added to the state. The order of additions depends on the number of threads,
 * so the sums must be of integers.
 */
#ifndef AN_CHUNKED_H
#define AN_CHUNKED_H

#include "app/analysis/analysis.h"

typedef struct an_chunked {
    size_t sum_bytes; /* bytes of a thread's sum */
    /* Computes a chunk and adds its result to a sum, which is zero at first. Called by several
     * threads. */
    void (*run)(const an_work *work, uint64_t chunk, void *sum);
    /* Adds a sum to the state, which begins with an an_state_head. */
    void (*add)(void *state, const void *sum);
} an_chunked;

/* The backend's open, step and close. `chunked` must outlive the worker. */
tc_status an_chunked_open(const an_chunked *chunked, const an_work *work, void **worker,
                          tc_err *err);
tc_status an_chunked_step(void *worker, void *state, uint64_t *chunks_done, tc_err *err);
void an_chunked_close(void **worker);

/* Defines a static an_backend of the name `backend`. sums: an an_chunked with static storage. */
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
