/*
 * The spool: the outputs of the items that are done, one record after another
 * in a file next to the checkpoint. Memory does not grow with the number of
 * items, and a checkpoint need not carry what is finished. The result file is
 * put together from it at the end. spool.c has its bytes.
 */
#ifndef APP_SPOOL_H
#define APP_SPOOL_H

#include "workunits/format/result.h"

typedef struct spool spool;

/* Opens or creates PATH and locks it: TC_TRY_LATER when another process has
 * it. Nothing in it counts yet. The poll is asked by the other functions. */
tc_status spool_open(const char *path, const tc_poll *poll, spool **out, tc_err *err);
/* Keeps the first `size` bytes, which hold `items` records and have this CRC,
 * and drops what follows; size 0 empties the spool. TC_BAD_INPUT when those
 * bytes are not there or not the same: the spool is then empty. After another failure it is as it
 * was, for the next time. */
tc_status spool_keep(spool *s, uint64_t size, uint32_t crc, uint64_t items, tc_err *err);
/* Appends an item's output, its WU_OWN arrays compressed by so many threads. poll: asked meanwhile,
 * in place of the spool's; written: may be NULL. */
tc_status spool_append(spool *s, const wu_output *output, unsigned threads, const tc_poll *poll,
                       const wu_written *written, tc_err *err);
/* Writes the runs of labels that are appended to PATH, too, as far as that is possible. */
void spool_keep_runs(spool *s, const char *path);
/* What writing the result from all records will take, in bytes that are compressed meanwhile: see
 * WU_COPIED. */
double spool_to_write(const spool *s);
/* Makes everything appended durable; size and CRC are for the checkpoint. */
tc_status spool_sync(spool *s, uint64_t *size, uint32_t *crc, tc_err *err);
/* The functions of a wu_result_source, with the spool as `user`. */
tc_status spool_read(void *user, size_t index, const char *only, wu_output *output, tc_err *err);
tc_status spool_copy(void *user, size_t index, const char *array, wu_take take, void *taker,
                     tc_err *err);
/* Closes it; the file stays. */
void spool_close(spool **s);

#endif
