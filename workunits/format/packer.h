/*
 * Deflating, block by block and side by side, each block with what stands before it as its
 * dictionary: the bytes are the same for any number of threads (FORMAT.md, 3). What comes of it is
 * the data of a member of a ZIP.
 */
#ifndef WU_PACKER_H
#define WU_PACKER_H

#include <stdbool.h>
#include <stdint.h>

#include "app/base/status.h"
#include "workunits/format/deflate_rows.h"

typedef struct wu_compressor wu_compressor;

/* What a ZIP says of a member's data. */
typedef struct wu_compressed {
    uint64_t size, compressed; /* bytes, and as many as they were compressed to */
    uint32_t crc;              /* CRC-32 of the former */
    bool deflated;             /* or stored as they are */
    bool text;                 /* zlib takes them for text */
} wu_compressed;

/* Takes compressed bytes. */
typedef tc_status (*wu_take)(void *user, const void *data, size_t n, tc_err *err);

/* level: zlib's, 0 to 9. So many threads deflate (0 is 1, 8 at most), a megabyte for each. shown:
 * what messages name; it must outlive the packer, and so must whoever takes the bytes. */
tc_status wu_compressor_create(int level, unsigned threads, const char *shown, wu_take take,
                               void *user, wu_compressor **out, tc_err *err);
void wu_compressor_use_threads(wu_compressor *p, unsigned threads);
/* A member: begin, any number of writes, end. bytes: as many at most. */
tc_status wu_compressor_begin(wu_compressor *p, bool deflated, uint64_t bytes, tc_err *err);
/* After begin, before any write: what is deflated are rows of words, which takes less time and
 * fewer bytes then. */
tc_status wu_compressor_expect_rows(wu_compressor *p, wu_row_layout layout, tc_err *err);
tc_status wu_compressor_write(wu_compressor *p, const void *data, size_t n, tc_err *err);
tc_status wu_compressor_end(wu_compressor *p, wu_compressed *out, tc_err *err);
void wu_compressor_free(wu_compressor **p);

#endif
