/*
 * The checkpoint: one file that says how far a job is; checkpoint.c has its bytes.
 * A checkpoint is whole or it does not count: written to a
 * temporary file, fsynced, renamed; header and state carry CRCs.
 */
#ifndef APP_CHECKPOINT_H
#define APP_CHECKPOINT_H

#include <stddef.h>
#include <stdint.h>

#include "app/base/poll.h"

/* Raise it whenever the meaning of any state or of the spool changes. */
#define CHECKPOINT_VERSION 7

/* Where a job is. The first group says whose checkpoint it is. */
typedef struct checkpoint {
    uint32_t job_crc; /* CRC-32 and size of the work unit */
    uint64_t job_size;
    char analysis[16];

    uint64_t item;       /* index of the item being worked on */
    uint64_t spool_size; /* of the items before it, all done */
    uint32_t spool_crc;  /* CRC-32 of those bytes */
    uint64_t state_size; /* 0: the item has not begun */
} checkpoint;

/* Sets room on the disk aside for the next one with a state of so many bytes, where the file system
 * can. */
void checkpoint_reserve(const char *path, uint64_t state_size);
/* Writes PATH, asking on the way. state has c->state_size bytes. TC_IO when it cannot; an older
 * checkpoint at PATH then still stands. */
tc_status checkpoint_write(const char *path, const checkpoint *c, const void *state,
                           const tc_poll *poll, tc_err *err);

/* Reads PATH. whose: the first group filled in, what the checkpoint has to
 * match. On TC_OK *state is the caller's (NULL when c->state_size is 0).
 * TC_MORE: there is none. TC_BAD_INPUT: there is one, and err says why it is
 * of no use (torn, corrupt, of another version). TC_NO_MATCH: it is of another work unit. */
tc_status checkpoint_read(const char *path, const checkpoint *whose, checkpoint *c, void **state,
                          const tc_poll *poll, tc_err *err);

/* Removes PATH, and what a write that was cut short may have left in its folder. */
void checkpoint_remove(const char *path);

#endif
