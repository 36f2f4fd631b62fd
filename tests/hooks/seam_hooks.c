/*
 * Linked into texcell_test between the loop of a job and the seam to BOINC (the linker's
 * --wrap), so that tests can interrupt at an exact point. Each variable is a whole
 * number from 1 on:
 *   TEXCELL_TEST_QUIT_AFTER_STEPS=N        SIGTERM comes after the N-th step, of those that
 *                                          leave more to be done
 *   TEXCELL_TEST_GAPS=FILE                 a line for each 20 ms or more without a bw_poll: when it
 *                                          began, in seconds, how long it was, and how much
 *                                          processor time the program used in it
 *   TEXCELL_TEST_CHECKPOINT_EVERY_CALLS=N  every N-th bw_time_to_checkpoint
 *                                          answers true, whatever the clock says
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "wrapper/bw.h"

void __real_bw_fraction_done(double fraction);
bw_request __real_bw_poll(void);
bool __real_bw_time_to_checkpoint(void);
void __wrap_bw_fraction_done(double fraction);
bw_request __wrap_bw_poll(void);
bool __wrap_bw_time_to_checkpoint(void);

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

static double seconds_of(clockid_t which)
{
    struct timespec now;

    clock_gettime(which, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

bw_request __wrap_bw_poll(void)
{
    static const double shortest = 0.02;
    static double first, last, last_used;
    const char *const path = getenv("TEXCELL_TEST_GAPS");
    const double now = seconds_of(CLOCK_MONOTONIC);

    if (path != NULL && last > 0 && now - last >= shortest) {
        FILE *const file = fopen(path, "a");

        if (file != NULL) {
            fprintf(file, "%.4f %.4f %.4f\n", last - first, now - last, seconds_of(CLOCK_PROCESS_CPUTIME_ID) - last_used);
            fclose(file);
        }
    }
    first = first > 0 ? first : now;
    last = now;
    if (path != NULL)
        last_used = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    return __real_bw_poll();
}

bool __wrap_bw_time_to_checkpoint(void)
{
    static unsigned long calls;
    const unsigned long every = number("TEXCELL_TEST_CHECKPOINT_EVERY_CALLS");

    return every > 0 ? ++calls % every == 0 : __real_bw_time_to_checkpoint();
}
