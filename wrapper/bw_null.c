/* The side without a client: the clock tells when to checkpoint, and tests can
 * interrupt at an exact point (the variables are described in bw.h). */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wrapper/bw_side.h"

static const double default_checkpoint_seconds = 60;

static struct {
    double checkpoint_every;   /* seconds */
    double last_checkpoint;    /* seconds of the monotonic clock */
    unsigned long polls, checkpoint_calls;
    unsigned long quit_after_polls, kill_after_polls, checkpoint_every_calls; /* 0: off */
} null;

/* A whole number >= 1 from the environment; 0 when the variable is not set. */
static tc_status test_number(const char *name, unsigned long *number, tc_err *err)
{
    const char *const text = getenv(name);
    *number = 0;
    if (!text || !*text)
        return TC_OK;
    char *end;
    errno = 0;
    const unsigned long value = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno || value == 0)
        return tc_fail(err, TC_USAGE, "%s: %s is not a whole number from 1 on", name, text);
    *number = value;
    return TC_OK;
}

static tc_status null_init(const bw_options *options, tc_err *err)
{
    memset(&null, 0, sizeof null);
    null.checkpoint_every =
        options->checkpoint_every > 0 ? options->checkpoint_every : default_checkpoint_seconds;
    null.last_checkpoint = tc_seconds();
    tc_status s = test_number("TEXCELL_TEST_QUIT_AFTER_POLLS", &null.quit_after_polls, err);
    if (s == TC_OK)
        s = test_number("TEXCELL_TEST_KILL_AFTER_POLLS", &null.kill_after_polls, err);
    if (s == TC_OK)
        s = test_number("TEXCELL_TEST_CHECKPOINT_EVERY_CALLS", &null.checkpoint_every_calls, err);
    return s;
}

static tc_status null_resolve(const char *logical, char **path, tc_err *err)
{
    const size_t size = strlen(logical) + 1;
    *path = malloc(size);
    if (!*path)
        return tc_no_memory(err, "a file name");
    memcpy(*path, logical, size);
    return TC_OK;
}

static int null_ncpus(void)
{
    return 0;
}

static void null_get_gpu(bw_gpu *gpu)
{
    *gpu = (bw_gpu){ .opencl_index = -1, .device_number = -1 };
}

static void null_fraction_done(double fraction)
{
    (void)fraction;
}

static bool null_time_to_checkpoint(void)
{
    if (null.checkpoint_every_calls)
        return ++null.checkpoint_calls % null.checkpoint_every_calls == 0;
    return tc_seconds() - null.last_checkpoint >= null.checkpoint_every;
}

static void null_restart_clock(void)
{
    null.last_checkpoint = tc_seconds();
}

static void null_critical(void)
{
}

static bw_request null_poll(const char **why)
{
    null.polls++;
#ifdef SIGKILL
    if (null.polls == null.kill_after_polls)
        raise(SIGKILL);
#endif
    if (null.polls != null.quit_after_polls)
        return BW_GO_ON;
    *why = "interrupted by TEXCELL_TEST_QUIT_AFTER_POLLS";
    return BW_QUIT;
}

static void leave(int code)
{
    fflush(NULL);
    _Exit(code);
}

static void null_exit_on_request(bw_request request)
{
    (void)request;
    leave(tc_exit_code(TC_TRY_LATER));
}

static void null_temporary_exit(int delay, const char *reason)
{
    (void)delay;
    (void)reason;
    leave(tc_exit_code(TC_TRY_LATER));
}

static void null_leave_now(int delay, const char *reason, bool alert)
{
    (void)delay;
    (void)reason;
    (void)alert;
    _Exit(tc_exit_code(TC_TRY_LATER));
}

static void null_finish(int code, const char *message)
{
    (void)message;
    exit(code);
}

const bw_side bw_null_side = {
    .has_client = false,
    .init = null_init,
    .resolve = null_resolve,
    .ncpus = null_ncpus,
    .get_gpu = null_get_gpu,
    .fraction_done = null_fraction_done,
    .time_to_checkpoint = null_time_to_checkpoint,
    .checkpoint_completed = null_restart_clock,
    .checkpoint_failed = null_restart_clock,
    .begin_critical = null_critical,
    .end_critical = null_critical,
    .poll = null_poll,
    .exit_on_request = null_exit_on_request,
    .temporary_exit = null_temporary_exit,
    .leave_now = null_leave_now,
    .finish = null_finish,
};
