/*
 * One item of a job, from its pixels to its record in the spool: steps, checkpoints,
 * suspending, and the CPU in place of a device that fails.
 */
#ifndef APP_ITEM_H
#define APP_ITEM_H

#include "app/prefetch.h"
#include "app/job_files.h"
#include "app/progress.h"
#include "app/view.h"
#include "app/cost_model.h"
#include "opencl/device.h"

/* The device that works for the job, as long as it does. */
typedef struct job_device {
    const an_backend *backend; /* the analysis' on devices; NULL: it has none */
    ocl_device *open;          /* NULL: the CPU works */
    bool gpu_task;             /* the client gave it: should it fail, leave and try later */
} job_device;

/* Gives the device back; the CPU works from now on. */
void job_device_release(job_device *d);

/* What an item is to be done with, and what it changes. */
typedef struct item_work {
    const an_unit *unit;
    size_t index;
    double from, to;   /* share of the job's work before and after the item */
    double speed;      /* of a device, in those of a core: cost_model.h */
    item_times *times; /* set where the device did all of the item's chunks */
    unsigned threads;
    bool all_threads; /* for any item; else fewer for one that is too small for them */
    double launch_ms; /* longest launch on a device */
    job_device *device;
    prefetch *prefetch; /* has the item, perhaps, and begins with the next */
    job_files *files;
    progress *progress;
    view *view; /* NULL: nobody can watch */
} item_work;

/* Goes on with the item from files->state, or begins it. TC_OK: it is in the spool.
 * TC_TRY_LATER: asked to stop, with a checkpoint if one could be written. */
tc_status item_do(const item_work *w, tc_err *err);

/* After an item that is not the last: a checkpoint, where one is due. An item that is a single step
 * asks for none. */
void item_save_between(const item_work *w);

#endif
