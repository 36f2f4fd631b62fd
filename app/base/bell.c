#include "app/base/bell.h"

#include <stdbool.h>
#include <time.h>

/* Somebody may set the clock of the day, by hours: only where there is no other one is it waited by
 * that. */
void tc_bell_init(tc_bell *bell)
{
    pthread_condattr_t by;
    const bool has_attributes = pthread_condattr_init(&by) == 0;
    const bool steady = has_attributes && pthread_condattr_setclock(&by, CLOCK_MONOTONIC) == 0;

    bell->clock = steady ? CLOCK_MONOTONIC : CLOCK_REALTIME;
    pthread_cond_init(&bell->rung, steady ? &by : NULL);
    if (has_attributes)
        pthread_condattr_destroy(&by);
}

void tc_bell_destroy(tc_bell *bell)
{
    pthread_cond_destroy(&bell->rung);
}

void tc_bell_wait(tc_bell *bell, pthread_mutex_t *lock, double seconds)
{
    const long second = 1000000000;
    const long whole = (long)seconds;
    struct timespec until;

    clock_gettime(bell->clock, &until);
    until.tv_sec += whole;
    until.tv_nsec += (long)((seconds - (double)whole) * 1e9);
    until.tv_sec += until.tv_nsec / second;
    until.tv_nsec %= second;
    pthread_cond_timedwait(&bell->rung, lock, &until);
}

void tc_bell_ring(tc_bell *bell)
{
    pthread_cond_signal(&bell->rung);
}
