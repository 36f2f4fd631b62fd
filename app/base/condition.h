/*
 * A condition of pthreads that is waited for no longer than for a while, by a clock that nobody
 * sets.
 */
#ifndef TC_CONDITION_H
#define TC_CONDITION_H

#include <pthread.h>

typedef struct tc_condition {
    pthread_cond_t changed;
    clockid_t clock;
} tc_condition;

void tc_condition_init(tc_condition *condition);
void tc_condition_destroy(tc_condition *condition);
/* Until it is changed, for so many seconds (0 to 1000), or for less: whoever waits looks again.
 * lock: as of pthread_cond_wait. */
void tc_condition_wait(tc_condition *condition, pthread_mutex_t *lock, double seconds);
void tc_condition_signal(tc_condition *condition);

#endif
