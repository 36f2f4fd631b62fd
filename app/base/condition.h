/*
 * A condition variable of pthreads with a timeout that does not depend on changes of the wall
 * clock.
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
/* Waits until tc_condition_signal is called, but at most `seconds` (0 to 1000). The function may
 * also return earlier, so the caller must check what it waits for. lock: as for pthread_cond_wait,
 * locked by the caller. */
void tc_condition_wait(tc_condition *condition, pthread_mutex_t *lock, double seconds);
void tc_condition_signal(tc_condition *condition);

#endif
