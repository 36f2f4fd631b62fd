/*
 * The loop of a job: items, steps, progress, checkpoints, fallback from a
 * device to the CPU. The only place where they meet.
 */
#ifndef APP_RUN_H
#define APP_RUN_H

#include <stdbool.h>

#include "app/base/status.h"
#include "app/driver_fault.h"
#include "opencl/device.h"

typedef struct run_options {
    const char *input;      /* the work unit */
    const char *output;     /* the result; appears when it is complete */
    const char *checkpoint; /* the two files of a job under way */
    const char *spool;
    const char *runs; /* where the runs of labels are kept; NULL: nowhere */
    unsigned threads; /* >= 1; the most, or as tests want it, for any item exactly so many: */
    bool all_threads;
    ocl_request request;        /* which device */
    tc_guard_act *driver_fault; /* what becomes of a driver's crash (driver_fault.h) */
    bool gpu_task;       /* the client gave a GPU: without one that works, leave and try later */
    double launch_ms;    /* longest launch on a device */
    double gpu_share;    /* of the time that launches may take, in (0, 1] */
    const char *kernels; /* a folder for compiled programs (opencl/program_cache.h), or NULL */
    bool watched;        /* a graphics program may look: what it reads lies in the current folder */
    bool quiet;          /* no progress on stderr */
    bool keeps_others;   /* TC_USAGE where the result would replace anything but one of this work
                            unit, or the checkpoint is of another one */
} run_options;

/* Does the job from where it stands: begins it, or goes on from the checkpoint.
 * TC_OK: the result is at output, checkpoint and spool are gone.
 * TC_TRY_LATER: asked to stop; checkpoint and spool are kept (err says why).
 * Else nothing stands at output that was not there before, and what was done
 * is kept for another try; a job of which nothing was done leaves no file when
 * its input is bad. */
tc_status run_job(const run_options *options, tc_err *err);

#endif
