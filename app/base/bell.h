/*
 * A condition of pthreads that is waited for no longer than for a while, by a clock that nobody
 * sets.
 */
#ifndef TC_BELL_H
#define TC_BELL_H

#include <pthread.h>

typedef struct tc_bell {
    pthread_cond_t rung;
    clockid_t clock;
} tc_bell;

void tc_bell_init(tc_bell *bell);
void tc_bell_destroy(tc_bell *bell);
/* Until it is rung, for so many seconds (0 to 1000), or for less: whoever waits looks again. lock:
 * as of pthread_cond_wait. */
void tc_bell_wait(tc_bell *bell, pthread_mutex_t *lock, double seconds);
void tc_bell_ring(tc_bell *bell);

#endif
