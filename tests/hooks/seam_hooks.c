/*
 * Linked into texcell_test between the loop of a job and the seam to BOINC (the linker's
 * --wrap), so that tests can interrupt at an exact point. Each variable is a whole
 * number from 1 on:
 *   TEXCELL_TEST_QUIT_AFTER_STEPS=N        SIGTERM comes after the N-th step, of those that
 *                                          leave more to be done
 *   TEXCELL_TEST_SHORT_STEPS=1             steps do the least that they can: their clock goes on
 *                                          by a second each time
 *   TEXCELL_TEST_GAPS=FILE                 a line "gap" for each 20 ms or more without a bw_poll
 *                                          or bw_listen, and "sync" for each fsync: when it began
 *                                          (CLOCK_REALTIME), how long it was, and how much
 *                                          processor time the program used in it
 *   TEXCELL_TEST_CHECKPOINT_EVERY_CALLS=N  every N-th bw_time_to_checkpoint answers true,
 *                                          whatever the clock says
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "wrapper/bw.h"

void __real_bw_fraction_done(double fraction);
bw_request __real_bw_poll(void);
bool __real_bw_listen(void);
bool __real_bw_time_to_checkpoint(void);
bool __real_os_sync(int fd);
double __real_tc_seconds(void);
void __wrap_bw_fraction_done(double fraction);
bw_request __wrap_bw_poll(void);
bool __wrap_bw_listen(void);
bool __wrap_bw_time_to_checkpoint(void);
double __wrap_tc_seconds(void);
/* For file_hooks.c. */
bool time_sync(int fd);

/* 0: not set */
static unsigned long number(const char *name)
{
    const char *const text = getenv(name);

    return text == NULL ? 0 : strtoul(text, NULL, 10);
}

/* It is called after each step. */
void __wrap_bw_fraction_done(double fraction)
{
    static unsigned long steps;

    if (++steps == number("TEXCELL_TEST_QUIT_AFTER_STEPS"))
        raise(SIGTERM);
    __real_bw_fraction_done(fraction);
}

double __wrap_tc_seconds(void)
{
    static atomic_long readings;

    return __real_tc_seconds() +
           (number("TEXCELL_TEST_SHORT_STEPS") != 0 ? (double)atomic_fetch_add(&readings, 1) : 0);
}

static double seconds_of(clockid_t which)
{
    struct timespec now;

    clock_gettime(which, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Appends a line to the file that TEXCELL_TEST_GAPS names. */
static void write_line(const char *word, double when, double seconds, double used)
{
    FILE *const file = fopen(getenv("TEXCELL_TEST_GAPS"), "a");

    if (file == NULL)
        return;
    fprintf(file, "%s %.4f %.4f %.4f\n", word, when, seconds, used);
    fclose(file);
}

/* In the main thread, or in another while that one is in a library's call. */
static void asked(void)
{
    static const double shortest = 0.02;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static double last, last_used;
    const double now = seconds_of(CLOCK_REALTIME), used = seconds_of(CLOCK_PROCESS_CPUTIME_ID);

    if (getenv("TEXCELL_TEST_GAPS") == NULL)
        return;
    pthread_mutex_lock(&lock);
    if (last > 0 && now - last >= shortest)
        write_line("gap", last, now - last, used - last_used);
    last = now;
    last_used = used;
    pthread_mutex_unlock(&lock);
}

bw_request __wrap_bw_poll(void)
{
    asked();
    return __real_bw_poll();
}

bool __wrap_bw_listen(void)
{
    asked();
    return __real_bw_listen();
}

bool time_sync(int fd)
{
    const double start = seconds_of(CLOCK_REALTIME), used = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    const bool done = __real_os_sync(fd);

    if (getenv("TEXCELL_TEST_GAPS") != NULL)
        write_line("sync", start, seconds_of(CLOCK_REALTIME) - start,
                   seconds_of(CLOCK_PROCESS_CPUTIME_ID) - used);
    return done;
}

bool __wrap_bw_time_to_checkpoint(void)
{
    static unsigned long calls;
    const unsigned long every = number("TEXCELL_TEST_CHECKPOINT_EVERY_CALLS");

    return every > 0 ? ++calls % every == 0 : __real_bw_time_to_checkpoint();
}
