/*
 * Runs a job, from its work unit to its result file: chooses a device, and loops over the items,
 * with progress, checkpoints and the fallback from a device to the CPU.
 */
#ifndef APP_RUN_H
#define APP_RUN_H

#include <stdbool.h>

#include "app/base/status.h"
#include "app/driver_fault.h"
#include "opencl/device.h"

typedef struct run_options {
    const char *input;           /* path of the work unit */
    const char *output;          /* path of the result, which is created when it is complete */
    const char *checkpoint;      /* path of the checkpoint of an unfinished job */
    const char *spool;           /* path of the spool of an unfinished job */
    const char *label_runs_path; /* path of the file for runs of labels (label_runs.h), or NULL */
    unsigned threads;            /* >= 1; the most threads of the CPU */
    bool all_threads;            /* for tests: use all `threads` even for small items */
    ocl_request request;         /* the device to use */
    tc_guard_fault_handler *driver_fault; /* handles a crash of the driver: driver_fault.h */
    bool gpu_task;    /* the client assigned a GPU; if it fails, the process exits, and the client
                         starts it again later */
    double launch_ms; /* longest duration of a kernel launch on a device, in milliseconds */
    double gpu_share; /* the fraction of time that launches may take, in (0, 1] */
    const char *kernel_folder; /* folder of compiled kernels (opencl/program_cache.h), or NULL */
    bool writes_view; /* while the screensaver texcell_graphics runs, write the picture that it
                     shows (view.h), in the current folder */
    bool quiet;       /* print no progress on stderr */
    bool refuses_to_replace; /* fail with TC_USAGE if the result would replace anything but a result
                          of this work unit, or if the checkpoint is of another work unit */
} run_options;

/* Runs the job from its start or from the checkpoint.
 * TC_OK: the result is at `output`, and checkpoint and spool are removed; a client's task leaves
 * them to the client.
 * TC_TRY_LATER: the program must stop (err has the reason); checkpoint and spool are kept.
 * Other errors: the file at `output` is unchanged, and finished items are kept for another run. If
 * the input is bad and no item was done, or a picture is damaged, no file is left. */
tc_status run_job(const run_options *options, tc_err *err);

#endif
