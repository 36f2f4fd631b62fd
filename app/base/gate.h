/*
 * A gate for threads that work beside the main one, when it lets them: they ask at it, as that asks
 * a tc_poll, and wait there while it is down.
 */
#ifndef TC_GATE_H
#define TC_GATE_H

#include <pthread.h>
#include <stdbool.h>

#include "app/base/poll.h"

typedef struct tc_gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned lifts, holds; /* up: some of those and none of these */
    bool is_over;
} tc_gate;

/* It is up, or down until it is lifted. */
void tc_gate_init(tc_gate *gate, bool up);
/* No thread may ask any more. */
void tc_gate_destroy(tc_gate *gate);

/* In pairs, by any thread; NULL is no gate. Up between these: the main thread sleeps, and its
 * processor is free ... */
void tc_gate_lift(tc_gate *gate);
void tc_gate_drop(tc_gate *gate);
/* ... but down between these: the program may be suspended. */
void tc_gate_hold(tc_gate *gate);
void tc_gate_release(tc_gate *gate);

/* From now on whoever asks is to stop. */
void tc_gate_end(tc_gate *gate);
/* The `ask` of a tc_poll whose `user` is a tc_gate; any threads may ask at a time. TC_TRY_LATER,
 * without a message, which nobody would read: stop. */
tc_status tc_gate_ask(void *gate, tc_err *err);

#endif
