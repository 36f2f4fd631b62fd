/*
 * The checkpoint file: the position of a job and the state of its current item, from which a later
 * run continues. checkpoint.c defines the file's format. A checkpoint is complete or invalid: it is
 * written to a temporary file, fsynced and renamed, and header and state have CRCs.
 */
#ifndef APP_CHECKPOINT_H
#define APP_CHECKPOINT_H

#include <stddef.h>
#include <stdint.h>

#include "app/base/poll.h"

/* The version of the format. Must be raised whenever the meaning of an analysis' state or of the
 * spool changes. */
#define CHECKPOINT_VERSION 7

/* The position of a job. The first three fields identify the job. */
typedef struct checkpoint {
    uint32_t job_crc;  /* CRC-32 of the work unit's file */
    uint64_t job_size; /* bytes of the work unit's file */
    char analysis[16]; /* name of the analysis, filled with zeros */

    uint64_t item;       /* index of the current item */
    uint64_t spool_size; /* bytes of the spool with the outputs of the items before `item` */
    uint32_t spool_crc;  /* CRC-32 of those bytes */
    uint64_t state_size; /* bytes of the item's state; 0: the item has not been started */
} checkpoint;

/* Reserves disk space, if the file system can do so, for the next checkpoint with a state of
 * state_size bytes. */
void checkpoint_reserve(const char *path, uint64_t state_size);
/* Writes the checkpoint to `path`, polling meanwhile. state: c->state_size bytes. After a failure
 * an older checkpoint at `path` remains valid. TC_IO: the file cannot be written. TC_TRY_LATER: the
 * poll requested to stop. */
tc_status checkpoint_write(const char *path, const checkpoint *c, const void *state,
                           const tc_poll *poll, tc_err *err);

/* Reads the checkpoint at `path`. expected: the job that it must belong to (the first three
 * fields). On TC_OK the caller owns *state, which is NULL if c->state_size is 0. TC_MORE: there is
 * no checkpoint. TC_BAD_INPUT: the checkpoint cannot be used, and err says why (cut off, corrupt,
 * of another version). TC_NO_MATCH: it belongs to another work unit. TC_TRY_LATER, TC_NO_MEMORY: it
 * could not be read now. */
tc_status checkpoint_read(const char *path, const checkpoint *expected, checkpoint *c, void **state,
                          const tc_poll *poll, tc_err *err);

/* Removes the checkpoint, and the temporary file that an interrupted write may have left. */
void checkpoint_remove(const char *path);

#endif
