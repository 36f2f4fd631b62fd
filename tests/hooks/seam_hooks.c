/*
 * Linked into texcell_test between the loop of a job and the seam to BOINC (the linker's
 * --wrap), so that tests can interrupt at an exact point. Each variable is a whole
 * number from 1 on:
 *   TEXCELL_TEST_QUIT_AFTER_POLLS=N        SIGTERM comes before the N-th bw_poll
 *   TEXCELL_TEST_KILL_AFTER_POLLS=N        the process is killed at the N-th, as a power cut
 *                                          would
 *   TEXCELL_TEST_CHECKPOINT_EVERY_CALLS=N  every N-th bw_time_to_checkpoint
 *                                          answers true, whatever the clock says
 */
#include <signal.h>
#include <stdlib.h>

#include "wrapper/bw.h"

bw_request __real_bw_poll(void);
bool __real_bw_time_to_checkpoint(void);
bw_request __wrap_bw_poll(void);
bool __wrap_bw_time_to_checkpoint(void);

/* 0: not set */
static unsigned long number(const char *name)
{
    const char *const text = getenv(name);

    return text == NULL ? 0 : strtoul(text, NULL, 10);
}

bw_request __wrap_bw_poll(void)
{
    static unsigned long polls;

    polls++;
    if (polls == number("TEXCELL_TEST_KILL_AFTER_POLLS"))
        raise(SIGKILL);
    if (polls == number("TEXCELL_TEST_QUIT_AFTER_POLLS"))
        raise(SIGTERM);
    return __real_bw_poll();
}

bool __wrap_bw_time_to_checkpoint(void)
{
    static unsigned long calls;
    const unsigned long every = number("TEXCELL_TEST_CHECKPOINT_EVERY_CALLS");

    return every > 0 ? ++calls % every == 0 : __real_bw_time_to_checkpoint();
}
