/*
 * A library to be preloaded into a program: at each reading the wall clock jumps forward by a day
 * more than at the reading before, or, with the environment variable CLOCK_BACK, back. The steady
 * clock does not change.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static atomic_long days;

static time_t jump(void)
{
    return (time_t)86400 * (atomic_fetch_add(&days, 1) + 1) *
           (getenv("CLOCK_BACK") != NULL ? -1 : 1);
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
    static int (*next)(clockid_t, struct timespec *);
    int answer;

    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "clock_gettime");
    answer = next(clock, t);
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
        t->tv_sec += jump();
    return answer;
}

time_t time(time_t *to)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    if (to != NULL)
        *to = t.tv_sec;
    return t.tv_sec;
}

int gettimeofday(struct timeval *to, void *unused)
{
    struct timespec t;

    (void)unused;
    clock_gettime(CLOCK_REALTIME, &t);
    *to = (struct timeval){ t.tv_sec, t.tv_nsec / 1000 };
    return 0;
}
