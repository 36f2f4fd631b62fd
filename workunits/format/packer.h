/*
 * Compresses the data of a ZIP member in several threads. The data are divided into blocks of fixed
 * size; each is deflated with the bytes before it as its dictionary, so that the compressed bytes
 * are the same for any number of threads (FORMAT.md, section 3).
 */
#ifndef WU_PACKER_H
#define WU_PACKER_H

#include <stdbool.h>
#include <stdint.h>

#include "app/base/status.h"
#include "workunits/format/deflate_rows.h"

typedef struct wu_compressor wu_compressor;

/* What the header of a ZIP member contains about its data. */
typedef struct wu_compressed {
    uint64_t size, compressed; /* bytes before and after compression */
    uint32_t crc;              /* CRC-32 of the bytes before compression */
    bool deflated;             /* false if the data are stored without compression */
    bool text;                 /* zlib considers the data text */
} wu_compressed;

/* A callback that receives n compressed bytes. */
typedef tc_status (*wu_receive_fn)(void *user, const void *data, size_t n, tc_err *err);

/* Creates a compressor. level: zlib's compression level, 0 to 9. threads: as in
 * wu_compressor_use_threads. shown: the name of the file in messages. take: called with `user` and
 * the compressed bytes. shown and user must outlive the compressor. */
tc_status wu_compressor_create(int level, unsigned threads, const char *shown, wu_receive_fn take,
                               void *user, wu_compressor **out, tc_err *err);
/* Sets the number of threads that compress: at least 1 and at most 8 are used. Each takes about a
 * megabyte of memory. */
void wu_compressor_use_threads(wu_compressor *p, unsigned threads);
/* To compress a member, call begin, write any number of times, and end. deflated: false to store
 * the data. bytes: the most bytes that will be written. */
tc_status wu_compressor_begin(wu_compressor *p, bool deflated, uint64_t bytes, tc_err *err);
/* Declares that the data are rows of words, so that wu_deflate_rows can compress them faster and to
 * fewer bytes. May be called after begin and before the first write. */
tc_status wu_compressor_expect_rows(wu_compressor *p, wu_row_layout layout, tc_err *err);
tc_status wu_compressor_write(wu_compressor *p, const void *data, size_t n, tc_err *err);
/* Ends the member. Sets *out to its sizes and CRC. */
tc_status wu_compressor_end(wu_compressor *p, wu_compressed *out, tc_err *err);
void wu_compressor_free(wu_compressor **p);

#endif
