/* The two files of an unfinished job: the checkpoint, which contains the job's position, and the
 * spool, which contains the outputs of the finished items. */
#ifndef APP_JOB_FILES_H
#define APP_JOB_FILES_H

#include <stdbool.h>

#include "app/analysis/analysis.h"
#include "app/base/background.h"
#include "app/checkpoint.h"
#include "app/progress.h"
#include "app/spool.h"

typedef struct job_files {
    tc_poll poll;              /* the poll of all functions of the job */
    tc_background *background; /* the job's background threads; NULL if there are none */
    double write_deadline;     /* the time (tc_seconds) at which writing is abandoned; 0 before
                                  job_files_set_deadline is called */
    const char *checkpoint_path, *spool_path;
    spool *spool;
    checkpoint position; /* identifies the job, and contains its position */
    void *state; /* the state of item position.item that was read from the checkpoint; NULL if the
                    checkpoint has none, and after item_process has taken it */
    bool item_saved;    /* the checkpoint on disk contains a state of the current item */
    uint64_t reserved;  /* bytes of the state for which disk space is reserved */
    double retry_pause; /* seconds between two tries to write to a full disk; 0: the disk is not
                           full */
    bool has_warned;    /* a warning about a failed checkpoint was printed */
    bool refuses_to_replace; /* if the checkpoint is of another work unit: keep it and fail with
                                TC_USAGE; false: start over */
} job_files;

/* Opens the spool. Before the call only f->poll and f->refuses_to_replace may be set; the rest must
 * be zero. The paths must remain valid until job_files_close. TC_TRY_LATER: another process has the
 * spool open. */
tc_status job_files_open(job_files *f, const char *checkpoint_path, const char *spool_path,
                         const an_unit *unit, tc_err *err);
/* Closes the spool. keep: the files stay, for another run; otherwise both are removed. */
void job_files_close(job_files *f, bool keep);

/* Sets f->position and f->state to the position in the checkpoint, if it is valid, otherwise to the
 * start of the job. */
tc_status job_files_find_start(job_files *f, size_t n_items, const progress *p, tc_err *err);

/* Writes a checkpoint and returns whether that succeeded. A failure only prints a warning, as the
 * job can continue. state_size: 0 if the item has not been started. */
bool job_files_save(job_files *f, const void *state, size_t state_size, const progress *p);

/* In a client's task: reserves disk space for a checkpoint with a state of state_size bytes, so
 * that the task can still be stopped without loss when the disk is full. Does nothing for states
 * that are too large to be written when the task is stopped. */
void job_files_reserve(job_files *f, size_t state_size);

/* Called after each try of an operation that writes, with its status. If the disk was full
 * (TC_DISK) and a client has started the program, pauses, longer after each try, and returns true:
 * the caller then tries again. Otherwise returns false. If the poll requests to stop during the
 * pause, also returns false, and sets *status to TC_TRY_LATER. */
bool job_files_try_again(job_files *f, tc_status *status, const progress *p, tc_err *err);

/* Called when the program must stop at once: all polls fail from a tenth of a second later on, but
 * writing a checkpoint may take some more seconds. If writing takes longer, it is abandoned, and
 * the previous checkpoint remains. */
void job_files_set_deadline(job_files *f);

#endif
