/*
 * Lets tests interrupt texcell_test at an exact point. The linker's --wrap puts these functions
 * between the program and the functions of wrapper/bw.h. Environment variables; numbers are from 1:
 *   TEXCELL_TEST_QUIT_AFTER_STEPS=N        SIGTERM after the N-th step; an item's last step does
 *                                          not count
 *   TEXCELL_TEST_SHORT_STEPS=1             steps are as short as possible: each reading of their
 *                                          clock is a second later than the one before
 *   TEXCELL_TEST_GAPS=FILE                 gets a line "gap" for each time of 20 ms or more without
 *                                          a bw_poll or bw_poll_from_thread, and "sync" for each
 *                                          fsync; with start (CLOCK_REALTIME), length and the
 *                                          program's processor time in seconds
 *   TEXCELL_TEST_CHECKPOINT_EVERY_CALLS=N  every N-th bw_time_to_checkpoint returns true, others
 *                                          false
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
bool __real_bw_poll_from_thread(void);
bool __real_bw_time_to_checkpoint(void);
bool __real_os_sync(int fd);
double __real_tc_seconds(void);
void __wrap_bw_fraction_done(double fraction);
bw_request __wrap_bw_poll(void);
bool __wrap_bw_poll_from_thread(void);
bool __wrap_bw_time_to_checkpoint(void);
double __wrap_tc_seconds(void);
/* Calls os_sync and records its time, for file_hooks.c. */
bool time_sync(int fd);

/* Returns the number in an environment variable, or 0 if it is not set. */
static unsigned long number(const char *name)
{
    const char *const text = getenv(name);

    return text == NULL ? 0 : strtoul(text, NULL, 10);
}

/* The program reports the fraction done after each step, so this function counts steps. */
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

/* Appends a line to the file that TEXCELL_TEST_GAPS names. when: seconds of CLOCK_REALTIME;
 * seconds: the length; used: seconds of processor time. */
static void write_line(const char *word, double when, double seconds, double used)
{
    FILE *const file = fopen(getenv("TEXCELL_TEST_GAPS"), "a");

    if (file == NULL)
        return;
    fprintf(file, "%s %.4f %.4f %.4f\n", word, when, seconds, used);
    fclose(file);
}

/* Records a gap since the last call. Called on the main thread, or on another one while the main
 * thread is in a call of a library. */
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

bool __wrap_bw_poll_from_thread(void)
{
    asked();
    return __real_bw_poll_from_thread();
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
