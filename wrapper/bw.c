/* Chooses the implementation (bw_side.h) and forwards calls to it; catches signals and polls for
 * both implementations. */
#include "wrapper/bw.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "app/base/os.h"
#include "wrapper/bw_side.h"

enum { REASON_MAX = 64 }; /* bytes of the text of a reason */

/* The state that both implementations share; there is one job per process. */
static const bw_side *side = &bw_null_side;
static bw_request last_request = BW_CONTINUE; /* the result of the last bw_poll */
static const char *reason_text = "";          /* the reason of last_request */
static char reason_buffer[REASON_MAX];        /* contains reason_text if a signal was the reason */
static double asleep_seconds;                 /* total time that bw_poll has slept, in seconds */
static _Atomic int signal_number; /* the number of the signal that was caught; 0 if none was. A
                                     signal handler writes it, and all threads read it */

/* Records a signal. The next signal with the same number ends the process by its default action, as
 * a person who presses Ctrl-C twice expects. */
static void on_signal(int number)
{
    signal_number = number;
    signal(number, SIG_DFL);
}

int bw_signal_caught(void)
{
    return signal_number;
}

void bw_init(const bw_options *options)
{
    /* A client's task receives signals, too: Ctrl-C in the client's terminal and the system's
     * shutdown reach all processes of the group. They are caught so that a checkpoint can be
     * written. */
    os_set_stop_handler(on_signal);
#ifdef BW_WITH_BOINC
    if (!options->standalone_command) {
        const bw_side *const boinc = bw_boinc_side();
        if (boinc)
            side = boinc;
    }
#endif
    side->init(options);
}

bool bw_in_slot(void)
{
#ifdef BW_WITH_BOINC
    return bw_boinc_side() != NULL;
#else
    return false;
#endif
}

bool bw_has_client(void)
{
    return side->has_client;
}

tc_status bw_resolve(const char *logical, char **path, tc_err *err)
{
    return side->resolve(logical, path, err);
}

int bw_ncpus(void)
{
    return side->ncpus();
}

int bw_cpu_limit(void)
{
    return side->cpu_limit();
}

void bw_get_gpu(bw_gpu *gpu)
{
    side->get_gpu(gpu);
}

void bw_get_task(bw_task *task)
{
    side->get_task(task);
}

void bw_get_volunteer(bw_volunteer *volunteer)
{
    side->get_volunteer(volunteer);
}

void bw_fraction_done(double fraction)
{
    assert(fraction >= 0 && fraction < 1 + 1e-9);
    side->fraction_done(fraction);
}

bool bw_time_to_checkpoint(void)
{
    return side->time_to_checkpoint();
}

void bw_checkpoint_completed(void)
{
    side->checkpoint_completed();
}

void bw_checkpoint_failed(void)
{
    side->checkpoint_failed();
}

/* Returns the request of the client or of a signal. With BW_QUIT and BW_ABORT sets *reason, which
 * may point to `text`; with BW_CONTINUE sets *suspended. */
static bw_request read_request(const char **reason, char text[REASON_MAX], bool *suspended)
{
    const bw_request request = side->get_request(reason, suspended);

    if (request != BW_CONTINUE || !bw_signal_caught())
        return request;
    snprintf(text, REASON_MAX, "interrupted by signal %d", bw_signal_caught());
    *reason = text;
    return BW_QUIT;
}

bw_request bw_poll(void)
{
    bool suspended = true; /* true at first, so that the client is polled at least once */

    while (last_request == BW_CONTINUE && suspended) {
        last_request = read_request(&reason_text, reason_buffer, &suspended);
        if (last_request == BW_CONTINUE && suspended) {
            const double start = tc_seconds();

            os_sleep(0.1);
            asleep_seconds += tc_seconds() - start;
        }
    }
    return last_request;
}

double bw_suspended_seconds(void)
{
    return asleep_seconds;
}

bool bw_poll_from_thread(void)
{
    char text[REASON_MAX];
    const char *reason = "";
    bool suspended = false;
    const bw_request request = read_request(&reason, text, &suspended);

    if (request == BW_CONTINUE)
        return suspended;
    fputs(os_terminal_columns() > 0 ? "\r\033[K" : "", stderr); /* clears a progress bar */
    fprintf(stderr,
            side->has_client ? "texcell: %s\n"
                             : "texcell: %s; the same command goes on from here\n",
            reason);
    side->exit_on_request(request);
    abort();
}

const char *bw_request_reason(void)
{
    return last_request == BW_CONTINUE ? "" : reason_text;
}

void bw_exit_on_request(void)
{
    assert(last_request != BW_CONTINUE);
    side->exit_on_request(last_request);
    abort();
}

void bw_temporary_exit(const char *reason)
{
    assert(reason[0] != '\0');
    side->temporary_exit(reason);
    abort();
}

void bw_temporary_exit_now(int delay, const char *reason, bool alert)
{
    assert(delay >= 0 && delay <= 86400 && reason[0] != '\0');
    side->temporary_exit_now(delay, reason, alert);
    abort();
}

void bw_finish(int code, const char *message)
{
    assert(last_request == BW_CONTINUE);
    side->finish(code, message);
    abort();
}
