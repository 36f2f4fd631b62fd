/*
 * A library to be preloaded into a program: each reading of the steady clock is a second later than
 * the one before, so that steps, which end after a time, are as short as possible. fsync does
 * nothing, since there are many checkpoints.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <time.h>

static atomic_long readings;

int clock_gettime(clockid_t clock, struct timespec *t)
{
    static int (*next)(clockid_t, struct timespec *);
    int answer;

    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "clock_gettime");
    answer = next(clock, t);
    if (clock == CLOCK_MONOTONIC)
        t->tv_sec += atomic_fetch_add(&readings, 1);
    return answer;
}

int fsync(int fd)
{
    (void)fd;
    return 0;
}
