/* Implements bw_side.h for a program without a client: checkpoints are due by the clock. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/base/os.h"
#include "wrapper/bw_side.h"

static const double default_checkpoint_seconds = 60;

/* The clock by which checkpoints are due. */
static struct {
    double checkpoint_every; /* seconds between two checkpoints */
    double last_checkpoint;  /* time of the last checkpoint (tc_seconds) */
} null;

static void null_init(const bw_options *options)
{
    null.checkpoint_every =
        options->checkpoint_every > 0 ? options->checkpoint_every : default_checkpoint_seconds;
    null.last_checkpoint = tc_seconds();
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

static int null_cpu_limit(void)
{
    return 0;
}

static void null_get_gpu(bw_gpu *gpu)
{
    *gpu = (bw_gpu){ .opencl_index = -1, .device_number = -1 };
}

static void null_get_task(bw_task *task)
{
    *task = (bw_task){ .seconds_before = 0 };
}

static void null_get_volunteer(bw_volunteer *volunteer)
{
    memset(volunteer, 0, sizeof *volunteer);
}

static void null_fraction_done(double fraction)
{
    (void)fraction;
}

static bool null_time_to_checkpoint(void)
{
    return tc_seconds() - null.last_checkpoint >= null.checkpoint_every;
}

/* Restarts the clock after a checkpoint, whether it was completed or failed. */
static void null_restart_clock(void)
{
    null.last_checkpoint = tc_seconds();
}

static bw_request null_get_request(const char **why, bool *suspended)
{
    (void)why;
    *suspended = false;
    return BW_CONTINUE; /* bw.c checks for signals */
}

static void end_process(int code)
{
    fflush(NULL);
    os_exit_now(code);
}

static void null_exit_on_request(bw_request request)
{
    (void)request;
    end_process(tc_exit_code(TC_TRY_LATER));
}

static void null_temporary_exit(const char *reason)
{
    (void)reason;
    end_process(tc_exit_code(TC_TRY_LATER));
}

static void null_temporary_exit_now(int delay, const char *reason, bool alert)
{
    (void)delay;
    (void)reason;
    (void)alert;
    os_exit_now(tc_exit_code(TC_TRY_LATER));
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
    .cpu_limit = null_cpu_limit,
    .get_gpu = null_get_gpu,
    .get_volunteer = null_get_volunteer,
    .get_task = null_get_task,
    .fraction_done = null_fraction_done,
    .time_to_checkpoint = null_time_to_checkpoint,
    .checkpoint_completed = null_restart_clock,
    .checkpoint_failed = null_restart_clock,
    .get_request = null_get_request,
    .exit_on_request = null_exit_on_request,
    .temporary_exit = null_temporary_exit,
    .temporary_exit_now = null_temporary_exit_now,
    .finish = null_finish,
};
