/*
 * Controls when background threads, which work in parallel with the main thread, may run. A
 * background thread calls tc_background_wait_allowed regularly, as the main thread calls
 * tc_call_poll; the call blocks while background threads may not run.
 */
#ifndef TC_BACKGROUND_H
#define TC_BACKGROUND_H

#include <pthread.h>
#include <stdbool.h>

#include "app/base/poll.h"

typedef struct tc_background {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned allowed, pauses; /* threads may run if allowed > 0 and pauses == 0 */
    bool stopped;             /* tc_background_stop_threads was called */
} tc_background;

/* allowed: whether background threads may always run; otherwise they may run only after
 * tc_background_allow_threads, until tc_background_disallow_threads. */
void tc_background_init(tc_background *background, bool allowed);
/* Must not be called while a thread may still call tc_background_wait_allowed. */
void tc_background_destroy(tc_background *background);

/* Background threads may run between tc_background_allow_threads and
 * tc_background_disallow_threads: the caller sleeps or waits meanwhile, so its processor core is
 * free. Any thread may call these two, always in pairs; pairs may overlap. NULL is ignored. */
void tc_background_allow_threads(tc_background *background);
void tc_background_disallow_threads(tc_background *background);
/* Between tc_background_pause_threads and tc_background_resume_threads background threads must not
 * run, even if they are allowed: the program may be suspended. Called in pairs, by any thread. NULL
 * is ignored.
 */
void tc_background_pause_threads(tc_background *background);
void tc_background_resume_threads(tc_background *background);

/* From now on tc_background_wait_allowed returns TC_TRY_LATER, so that background threads end. */
void tc_background_stop_threads(tc_background *background);
/* The callback of a tc_poll whose `user` is a tc_background. Returns TC_OK as soon as
 * background threads may run, or TC_TRY_LATER after tc_background_stop_threads. It leaves err
 * unchanged, as nobody reads that message. Several threads may call it at the same time. */
tc_status tc_background_wait_allowed(void *background, tc_err *err);

#endif
