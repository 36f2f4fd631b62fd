/*
 * What is on disk of a job under way: the checkpoint, which says how far it is, and the
 * spool, which holds what its finished items gave.
 */
#ifndef APP_JOB_FILES_H
#define APP_JOB_FILES_H

#include <stdbool.h>

#include "app/analysis/analysis.h"
#include "app/base/background.h"
#include "app/checkpoint.h"
#include "app/progress.h"
#include "app/spool.h"

typedef struct job_files {
    tc_poll poll;              /* asked by whatever the job does, wherever something lasts */
    tc_background *background; /* pauses the background threads; NULL: there are none */
    double leave_by; /* when leaving: in tc_seconds, until when there is time for a checkpoint */
    const char *checkpoint_path, *spool_path;
    spool *spool;
    checkpoint mark;   /* whose checkpoint, and where the job is */
    void *state;       /* of the item mark.item, as the checkpoint has it: taken by who
                          goes on with it; NULL: the item has not begun */
    bool item_saved;   /* the checkpoint holds a state of the item that is worked on */
    uint64_t reserved; /* bytes of a state that room is set aside for */
    double pause;      /* seconds from one question whether the disk takes files to the next */
    bool warned;       /* of a checkpoint that could not be written */
    bool keeps_others; /* another work unit's checkpoint is a TC_USAGE, and stays */
} job_files;

/* Opens the spool; fails where another process has it. f is zeroed but for its poll and
 * keeps_others. The paths must last. */
tc_status job_files_open(job_files *f, const char *checkpoint_path, const char *spool_path,
                         const an_unit *unit, tc_err *err);
/* keep: for another try; otherwise both files are removed. */
void job_files_close(job_files *f, bool keep);

/* Finds where the job stands, mark and state: from a checkpoint that fits, or at its start. */
tc_status job_files_find_start(job_files *f, size_t n_items, const progress *p, tc_err *err);

/* Writes a checkpoint. Whether there is one now: a failure is a warning, since
 * the work itself can go on. state_size 0: the item has not begun. */
bool job_files_save(job_files *f, const void *state, size_t state_size, const progress *p);

/* For a client's task, which it would cost to end while the disk is full: room is set aside for a
 * checkpoint with a state of so many bytes, as far as there is time for one when leaving. */
void job_files_reserve(job_files *f, size_t state_size);

/* After each try of something that writes, with what it gave: whether it is to be tried again, as
 * the disk took nothing (TC_DISK) and a while has passed since, a longer one each time. False where
 * the job was asked to stop meanwhile (*status says so), and where no client started it. */
bool job_files_try_again(job_files *f, tc_status *status, const progress *p, tc_err *err);

/* The job is to be left at once: all that asks has a tenth of a second from now, and a checkpoint
 * as long as a slow disk may take. One that takes longer is not written, and the last one counts.
 */
void job_files_leave(job_files *f);

#endif
