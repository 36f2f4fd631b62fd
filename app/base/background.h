/*
 * A background for threads that work beside the main one, when it lets them: they ask at it, as
 * that asks a tc_poll, and wait there while it is down.
 */
#ifndef TC_BACKGROUND_H
#define TC_BACKGROUND_H

#include <pthread.h>
#include <stdbool.h>

#include "app/base/poll.h"

typedef struct tc_background {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned allowed, pauses; /* up: some of those and none of these */
    bool stopped;
} tc_background;

/* It is up, or down until it is lifted. */
void tc_background_init(tc_background *background, bool up);
/* No thread may ask any more. */
void tc_background_destroy(tc_background *background);

/* In pairs, by any thread; NULL is no background. Up between these: the main thread sleeps, and its
 * processor is free ... */
void tc_background_allow(tc_background *background);
void tc_background_disallow(tc_background *background);
/* ... but down between these: the program may be suspended. */
void tc_background_pause(tc_background *background);
void tc_background_resume(tc_background *background);

/* From now on whoever asks is to stop. */
void tc_background_stop(tc_background *background);
/* The `ask` of a tc_poll whose `user` is a tc_background; any threads may ask at a time.
 * TC_TRY_LATER, without a message, which nobody would read: stop. */
tc_status tc_background_ask(void *background, tc_err *err);

#endif
