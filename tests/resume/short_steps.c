/*
 * Preloaded into a program, makes every reading of the steady clock a second
 * later than the one before: a step that ends after so much time does the
 * least that it can. Nothing waits for a disk: there are many checkpoints.
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
