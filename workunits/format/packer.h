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

typedef struct wu_packer wu_packer;

/* What a ZIP says of a member's data. */
typedef struct wu_packed {
    uint64_t size, packed; /* bytes, and as many as they were packed to */
    uint32_t crc;          /* CRC-32 of the former */
    bool deflated;         /* or stored as they are */
    bool text;             /* zlib takes them for text */
} wu_packed;

/* Takes packed bytes. */
typedef tc_status (*wu_take)(void *user, const void *data, size_t n, tc_err *err);

/* level: zlib's. So many threads deflate, 8 at most, a megabyte for each. shown: what messages
 * name; it must outlive the packer, and so must whoever takes the bytes. */
tc_status wu_packer_create(int level, unsigned threads, const char *shown, wu_take take, void *user,
                           wu_packer **out, tc_err *err);
void wu_packer_use_threads(wu_packer *p, unsigned threads);
/* A member: begin, any number of writes, end. bytes: as many at most. */
tc_status wu_packer_begin(wu_packer *p, bool deflated, uint64_t bytes, tc_err *err);
tc_status wu_packer_write(wu_packer *p, const void *data, size_t n, tc_err *err);
tc_status wu_packer_end(wu_packer *p, wu_packed *out, tc_err *err);
void wu_packer_free(wu_packer **p);

#endif
