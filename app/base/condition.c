/* A condition variable whose timeout is measured by a monotonic clock. */
#include "app/base/condition.h"

#include <assert.h>
#include <stdbool.h>
#include <time.h>

/* Uses the monotonic clock where the system can: the wall clock may be set forward or back by
 * hours. */
void tc_condition_init(tc_condition *condition)
{
    pthread_condattr_t attributes;
    const bool has_attributes = pthread_condattr_init(&attributes) == 0;
    const bool steady =
        has_attributes && pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0;

    condition->clock = steady ? CLOCK_MONOTONIC : CLOCK_REALTIME;
    pthread_cond_init(&condition->changed, steady ? &attributes : NULL);
    if (has_attributes)
        pthread_condattr_destroy(&attributes);
}

void tc_condition_destroy(tc_condition *condition)
{
    pthread_cond_destroy(&condition->changed);
}

void tc_condition_wait(tc_condition *condition, pthread_mutex_t *lock, double seconds)
{
    assert(seconds >= 0 && seconds <= 1000);
    const long second = 1000000000;
    const long whole = (long)seconds;
    struct timespec until;

    clock_gettime(condition->clock, &until);
    until.tv_sec += whole;
    until.tv_nsec += (long)((seconds - (double)whole) * 1e9);
    until.tv_sec += until.tv_nsec / second;
    until.tv_nsec %= second;
    pthread_cond_timedwait(&condition->changed, lock, &until);
}

void tc_condition_signal(tc_condition *condition)
{
    pthread_cond_signal(&condition->changed);
}
