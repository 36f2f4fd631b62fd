/*
 * Linked into texcell_test between the loop of a job and the seam to BOINC (the linker's
 * --wrap), so that tests can interrupt at an exact point. Each variable is a whole
 * number from 1 on:
 *   TEXCELL_TEST_QUIT_AFTER_STEPS=N        SIGTERM comes after the N-th step, of those that
 *                                          leave more to be done
 *   TEXCELL_TEST_CHECKPOINT_EVERY_CALLS=N  every N-th bw_time_to_checkpoint
 *                                          answers true, whatever the clock says
 */
#include <signal.h>
#include <stdlib.h>

#include "wrapper/bw.h"

void __real_bw_fraction_done(double fraction);
bool __real_bw_time_to_checkpoint(void);
void __wrap_bw_fraction_done(double fraction);
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

bool __wrap_bw_time_to_checkpoint(void)
{
    static unsigned long calls;
    const unsigned long every = number("TEXCELL_TEST_CHECKPOINT_EVERY_CALLS");

    return every > 0 ? ++calls % every == 0 : __real_bw_time_to_checkpoint();
}
