/*
 * NPZ: a ZIP of .npy arrays (NumPy format 1.0) plus one JSON member. Writer
 * and reader, both streaming: no array need be in memory whole.
 *
 * The writer is deterministic: entries in the order they are added, time
 * stamps of 1980-01-01, no extra fields that vary. float arrays are stored,
 * others deflated.
 */
#ifndef WU_NPZ_H
#define WU_NPZ_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "workunits/format/packer.h"

enum {
    WU_MAX_NDIM = 5,
    WU_NPZ_LEVEL = 4 /* of deflate: docs/dev/performance.md */
};

typedef enum wu_dtype {
    WU_BOOL, /* |b1 */
    WU_U8,   /* |u1 */
    WU_I32,  /* <i4 */
    WU_I64,  /* <i8 */
    WU_F32,  /* <f4 */
    WU_F64,  /* <f8 */
    WU_STR   /* <U{width}: UCS-4, zero padded */
} wu_dtype;

/* What an array is, without its data. */
typedef struct wu_array_info {
    char *name; /* without ".npy"; owned */
    wu_dtype dtype;
    uint32_t width; /* characters of WU_STR, else 0 */
    unsigned ndim;  /* 1..WU_MAX_NDIM */
    uint64_t shape[WU_MAX_NDIM];
} wu_array_info;

/* Bytes of one element; 0 for an unknown dtype. */
size_t wu_dtype_size(wu_dtype dtype, uint32_t width);
/* Elements, or bytes, of the array; 0 is returned in *ok on overflow. */
uint64_t wu_array_count(const wu_array_info *info, int *ok);
uint64_t wu_array_bytes(const wu_array_info *info, int *ok);

typedef struct wu_npz_writer wu_npz_writer;

/* Creates PATH.tmp in path's folder. Nothing appears at path before
 * wu_npz_close, which completes, fsyncs and renames. TC_TRY_LATER: another
 * process is writing it. */
tc_status wu_npz_create(const char *path, wu_npz_writer **out, tc_err *err);
/* wu_compressor_use_threads. */
void wu_npz_use_threads(wu_npz_writer *w, unsigned threads);
/* One array: begin, any number of writes that add up to its bytes, end. */
tc_status wu_npz_begin(wu_npz_writer *w, const wu_array_info *info, tc_err *err);
tc_status wu_npz_write(wu_npz_writer *w, const void *data, size_t n, tc_err *err);
tc_status wu_npz_end(wu_npz_writer *w, tc_err *err);
/* The same of an array that was compressed outside: writes that add up to its compressed bytes. */
tc_status wu_npz_begin_compressed(wu_npz_writer *w, const wu_array_info *info,
                                  const wu_compressed *compressed, tc_err *err);
/* Begins such an array in a packer of level WU_NPZ_LEVEL: to be followed by its data
 * (wu_compressor_write) and wu_compressor_end. shown: the file that messages name. */
tc_status wu_npz_compress(wu_compressor *packer, const char *shown, const wu_array_info *info,
                          tc_err *err);
/* The JSON member `name` ("result.json"), keys sorted, indented. */
tc_status wu_npz_add_json(wu_npz_writer *w, const char *name, const json_t *json, tc_err *err);
/* Completes the file but for its name: nothing can be added, and what is left for
 * wu_npz_close to do is quick. */
tc_status wu_npz_complete(wu_npz_writer *w, tc_err *err);
/* Completes the file if need be: fsync, rename, *w = NULL. On an error the temporary file
 * is removed and nothing is left at path. */
tc_status wu_npz_close(wu_npz_writer **w, tc_err *err);
/* Throws the file away: the temporary is removed, *w = NULL. */
void wu_npz_abort(wu_npz_writer **w);

typedef struct wu_npz_reader wu_npz_reader;

/* What a result may have. Zero: as much as any result. */
typedef struct wu_npz_limits {
    uint64_t array_bytes; /* that one array may decompress to */
    uint64_t members;
    uint64_t json_bytes; /* of result.json */
    bool canonical;      /* the file is as texcell writes one, whatever is in it: result.json is
                          * first, and there is nothing that another program could see otherwise
                          * (wu_archive_untidy) */
} wu_npz_limits;

/* Opens and checks the archive: entry names unique and plain, every .npy
 * header well-formed, sizes consistent, result.json parsed. limits may be
 * NULL. Data are checked (CRC) when they are read. */
tc_status wu_npz_open(const char *path, const wu_npz_limits *limits, wu_npz_reader **out,
                      tc_err *err);
void wu_npz_reader_close(wu_npz_reader **r);
size_t wu_npz_count(const wu_npz_reader *r);
const wu_array_info *wu_npz_info(const wu_npz_reader *r, size_t index);
/* The array's index, or -1. */
/* CRC-32 of an array as it stands there: of its header, too. */
uint32_t wu_npz_crc(const wu_npz_reader *r, size_t index);
long wu_npz_find(const wu_npz_reader *r, const char *name);
/* result.json; owned by the reader. */
const json_t *wu_npz_json(const wu_npz_reader *r);
/* Reads array `index` whole; *data is the caller's (free()). */
tc_status wu_npz_load(wu_npz_reader *r, size_t index, void **data, tc_err *err);

/* An array read from its start piece by piece, while others may be open. Close it before
 * its reader. */
typedef struct wu_npz_stream wu_npz_stream;
tc_status wu_npz_stream_open(wu_npz_reader *r, size_t index, wu_npz_stream **out, tc_err *err);
/* The next n bytes; TC_BAD_INPUT where fewer are left. */
tc_status wu_npz_stream_read(wu_npz_stream *s, void *buf, size_t n, tc_err *err);
/* Bytes that are still to be read. */
uint64_t wu_npz_stream_left(const wu_npz_stream *s);
/* After the last byte: whether size and CRC were right. */
tc_status wu_npz_stream_end(wu_npz_stream *s, tc_err *err);
void wu_npz_stream_close(wu_npz_stream **s);

/* Writes everything that a result has, result.json first, so that nothing of the file that it
 * came in is left but its arrays. Memory: a block. */
tc_status wu_npz_copy(wu_npz_writer *w, wu_npz_reader *r, tc_err *err);

/* One UCS-4 string of `width` characters as UTF-8 into out (size out_size);
 * invalid code points become '?'. And back: returns the number of characters,
 * or -1 if text is not UTF-8 or longer than width. Without out: only counts. */
void wu_ucs4_to_utf8(const uint32_t *chars, uint32_t width, char *out, size_t out_size);
long wu_utf8_to_ucs4(const char *text, uint32_t *out, uint32_t width);

#endif
