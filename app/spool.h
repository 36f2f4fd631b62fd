/*
 * The spool: a file next to the checkpoint with the outputs of all finished items, one record after
 * another. Because of it, memory use does not grow with the number of items, and a checkpoint
 * contains only the current item's state. At the end the result file is made from the spool.
 * spool.c defines the file's format.
 */
#ifndef APP_SPOOL_H
#define APP_SPOOL_H

#include "workunits/format/result.h"

typedef struct spool spool;

/* Opens or creates the file and locks it. Its content is not used before spool_truncate. poll: used
 * by all functions below that have no argument `poll`. TC_TRY_LATER: another process has locked
 * the file. */
tc_status spool_open(const char *path, const tc_poll *poll, spool **out, tc_err *err);
/* Keeps the first `size` bytes, which must contain `items` records and have this CRC-32, and drops
 * the rest; size 0 empties the spool. TC_BAD_INPUT: the bytes are missing or differ; the spool is
 * then empty. After another failure the file is unchanged. */
tc_status spool_truncate(spool *s, uint64_t size, uint32_t crc, uint64_t items, tc_err *err);
/* Appends an item's output. Its WU_PER_ITEM arrays are compressed by up to `threads` threads. poll:
 * used in place of the poll of spool_open. progress: reports the progress; may be NULL. */
tc_status spool_append(spool *s, const wu_output *output, unsigned threads, const tc_poll *poll,
                       const wu_write_progress *progress, tc_err *err);
/* From now on spool_append also writes the runs of label pictures to the file at `path`, if that is
 * possible. */
void spool_write_runs_to(spool *s, const char *path);
/* Returns an estimate of the time for writing the result from all records. The unit is the time for
 * compressing one byte; copying compressed data takes 1 / WU_COPY_SPEEDUP of it a byte. */
double spool_writing_cost(const spool *s);
/* Makes all records durable, and sets *size and *crc to the size and CRC-32 of their bytes, for the
 * checkpoint. */
tc_status spool_sync(spool *s, uint64_t *size, uint32_t *crc, tc_err *err);
/* The functions of a wu_result_source (result.h), whose `user` is the spool. */
tc_status spool_read(void *user, size_t index, const char *only, wu_output *output, tc_err *err);
tc_status spool_copy(void *user, size_t index, const char *array, wu_receive_fn take, void *taker,
                     tc_err *err);
/* Closes the file without removing it, and sets *s to NULL. */
void spool_close(spool **s);

#endif
