/*
 * Pauses threads that work in the background, in parallel with the main thread: they call
 * tc_background_ask as the main thread asks its tc_poll, and wait there while they may not run.
 */
#ifndef TC_BACKGROUND_H
#define TC_BACKGROUND_H

#include <pthread.h>
#include <stdbool.h>

#include "app/base/poll.h"

typedef struct tc_background {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned allowed, pauses; /* they run if allowed > 0 and pauses == 0 */
    bool stopped;
} tc_background;

/* allowed: whether they may run from the start, or only once they are allowed to. */
void tc_background_init(tc_background *background, bool allowed);
/* No thread may ask any more. */
void tc_background_destroy(tc_background *background);

/* In pairs, by any thread; NULL is no background. They may run between these two: the main thread
 * sleeps, and its processor is free ... */
void tc_background_allow(tc_background *background);
void tc_background_disallow(tc_background *background);
/* ... but not between these: the program may be suspended. */
void tc_background_pause(tc_background *background);
void tc_background_resume(tc_background *background);

/* From now on whoever asks is to stop. */
void tc_background_stop(tc_background *background);
/* The `ask` of a tc_poll whose `user` is a tc_background; any threads may ask at a time.
 * TC_TRY_LATER, without a message, which nobody would read: stop. */
tc_status tc_background_ask(void *background, tc_err *err);

#endif
