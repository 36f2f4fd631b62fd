/* Processes one item (a picture or a stack) of a job, from its pixels to its record in the spool:
 * runs steps, writes checkpoints, polls, and continues on the CPU after a device has failed. */
#ifndef APP_ITEM_H
#define APP_ITEM_H

#include "app/prefetch.h"
#include "app/job_files.h"
#include "app/progress.h"
#include "app/view.h"
#include "app/cost_model.h"
#include "opencl/device.h"

/* The device that is used for the job. */
typedef struct job_device {
    const an_backend *backend; /* the analysis' OpenCL backend; NULL if it has none */
    ocl_device *opened;        /* NULL: the CPU is used */
    bool gpu_task; /* the client assigned the device: if the device fails, the task exits, and the
                      client starts it again later */
} job_device;

/* Closes the device; from now on the CPU is used. */
void job_device_release(job_device *d);

/* The arguments of item_process: the item's index, and the objects of the job that item_process
 * uses and changes. */
typedef struct item_work {
    const an_unit *unit;
    size_t index;           /* the item's index */
    double fraction_before; /* fraction of the job that is done before the item */
    double fraction_after;  /* fraction of the job that is done after the item */
    double speed;           /* the device's speed relative to a core: cost_model.h */
    item_times *times;      /* set if the device did all of the item's chunks */
    unsigned threads;       /* the most threads of the CPU */
    bool all_threads;       /* use all `threads` for every item; otherwise fewer for small items */
    double launch_ms;       /* longest launch on a device, in milliseconds */
    job_device *device;
    prefetch *prefetch; /* decodes the next item; it may have decoded this one */
    job_files *files;
    progress *progress;
    view *view; /* the picture for texcell_graphics; NULL if none is written */
} item_work;

/* Processes the item, continuing from files->state if that is not NULL. TC_OK: the item's output is
 * in the spool. TC_TRY_LATER: the program must stop; a checkpoint was written if possible. */
tc_status item_process(const item_work *w, tc_err *err);

/* Called after each item but the last: writes a checkpoint if one is due. Without this, a job of
 * many small items would write none, as item_process writes checkpoints only between steps. */
void item_checkpoint_between(const item_work *w);

#endif
