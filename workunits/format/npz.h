/*
 * Writes and reads NPZ files: ZIP archives of .npy arrays (NumPy format 1.0). texcell's also have
 * one JSON member, result.json. Arrays are written and read piece by piece, so that no array must
 * be in memory as a whole.
 *
 * The same data always give the same file: members are in the order in which they are added, time
 * stamps are 1980-01-01, and there are no extra fields that vary. Arrays of floating-point numbers
 * are stored, others deflated.
 */
#ifndef WU_NPZ_H
#define WU_NPZ_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "workunits/format/packer.h"

enum {
    WU_MAX_NDIM = 5, /* the most axes of an array */
    WU_NPZ_LEVEL = 4 /* zlib's compression level: docs/dev/performance.md has the reasons */
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

/* An array's name, type and shape. */
typedef struct wu_array_info {
    char *name; /* the name without ".npy"; owned */
    wu_dtype dtype;
    uint32_t width; /* for WU_STR: characters of an element; otherwise 0 */
    unsigned ndim;  /* number of axes: 1..WU_MAX_NDIM */
    uint64_t shape[WU_MAX_NDIM];
} wu_array_info;

/* Bytes of one element; 0 for an unknown dtype. */
size_t wu_dtype_size(wu_dtype dtype, uint32_t width);
/* Return the number of elements of an array, or the number of bytes. Set *ok to 0 if the number
 * overflows, otherwise to 1. */
uint64_t wu_array_count(const wu_array_info *info, int *ok);
uint64_t wu_array_bytes(const wu_array_info *info, int *ok);

typedef struct wu_npz_writer wu_npz_writer;

/* Creates PATH.tmp, which wu_npz_close completes and renames. TC_TRY_LATER: another process is
 * writing this file. */
tc_status wu_npz_create(const char *path, wu_npz_writer **out, tc_err *err);
/* Sets the number of threads that compress, as wu_compressor_use_threads does. */
void wu_npz_use_threads(wu_npz_writer *w, unsigned threads);
/* To write an array, call begin, write any number of times, together all of its bytes, and end. */
tc_status wu_npz_begin(wu_npz_writer *w, const wu_array_info *info, tc_err *err);
tc_status wu_npz_write(wu_npz_writer *w, const void *data, size_t n, tc_err *err);
tc_status wu_npz_end(wu_npz_writer *w, tc_err *err);
/* Begins an array that is already compressed (wu_npz_begin_compressing). Its compressed bytes must
 * be passed to wu_npz_write. */
tc_status wu_npz_begin_compressed(wu_npz_writer *w, const wu_array_info *info,
                                  const wu_compressed *compressed, tc_err *err);
/* Begins to compress an array for wu_npz_begin_compressed: passes the array's header to the
 * compressor. The caller then passes the data to wu_compressor_write and calls wu_compressor_end.
 * packer: a compressor of level WU_NPZ_LEVEL. shown: the name of the file in messages. */
tc_status wu_npz_begin_compressing(wu_compressor *packer, const char *shown,
                                   const wu_array_info *info, tc_err *err);
/* Adds the JSON member `name` ("result.json"), with sorted keys and indentation. */
tc_status wu_npz_add_json(wu_npz_writer *w, const char *name, const json_t *json, tc_err *err);
/* Writes the rest of the file and brings it to the disk (fsync), but does not rename it. Nothing
 * can be added afterwards. wu_npz_close then only renames the file. */
tc_status wu_npz_complete(wu_npz_writer *w, tc_err *err);
/* Calls wu_npz_complete if the caller has not, renames the file to PATH, and sets *w to NULL. On an
 * error removes the temporary file and leaves PATH unchanged. */
tc_status wu_npz_close(wu_npz_writer **w, tc_err *err);
/* Removes the temporary file, and sets *w to NULL. */
void wu_npz_abort(wu_npz_writer **w);

typedef struct wu_npz_reader wu_npz_reader;

/* Limits for a result. A limit of 0 means that only the limits for all results apply. */
typedef struct wu_npz_limits {
    uint64_t array_bytes; /* the most decompressed bytes of an array */
    uint64_t members;     /* the most members */
    uint64_t json_bytes;  /* the most bytes of result.json */
    bool canonical;       /* the file must have the form that texcell writes: result.json is
                           * first, and wu_archive_form_fault finds nothing */
    bool headers_later;   /* the header of an array is not read before wu_npz_read_header or
                           * wu_npz_load_array_into; until then only its name is known */
} wu_npz_limits;

/* Opens the file and checks the names of members, the headers and sizes of all arrays, and
 * result.json. Data are checked by their CRC when they are read. limits: may be NULL. */
tc_status wu_npz_open(const char *path, const wu_npz_limits *limits, wu_npz_reader **out,
                      tc_err *err);
void wu_npz_reader_close(wu_npz_reader **r);
/* The number of arrays. */
size_t wu_npz_array_count(const wu_npz_reader *r);
/* Reads and checks the header of array `index`, unless that has been done. */
tc_status wu_npz_read_header(wu_npz_reader *r, size_t index, tc_err *err);
const wu_array_info *wu_npz_array_info(const wu_npz_reader *r, size_t index);
/* The CRC-32 of an array with its .npy header, from the archive's list. */
uint32_t wu_npz_array_crc(const wu_npz_reader *r, size_t index);
/* The index of the array of this name (without ".npy"), or -1. */
long wu_npz_find_array(const wu_npz_reader *r, const char *name);
/* result.json; owned by the reader. */
const json_t *wu_npz_json(const wu_npz_reader *r);
/* Reads all of array `index`. Sets *data to its data, to be freed by free(). */
tc_status wu_npz_load_array(wu_npz_reader *r, size_t index, void **data, tc_err *err);

/* Memory for an array, which can be used again for further arrays. */
typedef struct wu_npz_buffer {
    unsigned char *bytes; /* [room]; NULL before the first use */
    size_t room;
} wu_npz_buffer;
/* Like wu_npz_load_array, but reads into the buffer, which grows if necessary. *data is in the
 * buffer. want: the name, type and shape that the array must have. If its header has not been read
 * before and is not the one that texcell writes for `want`, sets *data to NULL; if then
 * wu_npz_read_header finds the array to be as wanted, it can be loaded. */
tc_status wu_npz_load_array_into(wu_npz_reader *r, size_t index, const wu_array_info *want,
                                 wu_npz_buffer *buffer, const void **data, tc_err *err);
void wu_npz_buffer_free(wu_npz_buffer *buffer);

/* Reads an array piece by piece. Several streams of a reader may be open. A stream must be closed
 * before its reader, which keeps the data of small arrays in memory, up to 16 MiB, for further
 * streams. */
typedef struct wu_npz_stream wu_npz_stream;
tc_status wu_npz_stream_open(wu_npz_reader *r, size_t index, wu_npz_stream **out, tc_err *err);
/* Reads the next n bytes. TC_BAD_INPUT: fewer are left. */
tc_status wu_npz_stream_read(wu_npz_stream *s, void *buf, size_t n, tc_err *err);
/* The number of bytes that have not been read yet. */
uint64_t wu_npz_stream_left(const wu_npz_stream *s);
/* Checks the size and the CRC. Must be called after the last byte was read. */
tc_status wu_npz_stream_end(wu_npz_stream *s, tc_err *err);
void wu_npz_stream_close(wu_npz_stream **s);

/* Copies a result's JSON and arrays, and nothing else of its file, to the writer, result.json
 * first. Takes little memory. */
tc_status wu_npz_copy(wu_npz_writer *w, wu_npz_reader *r, tc_err *err);

/* Converts an element of WU_STR (UCS-4, up to `width` characters) to UTF-8; cuts it to out_size - 1
 * bytes. Invalid code points become '?'. */
void wu_ucs4_to_utf8(const uint32_t *chars, uint32_t width, char *out, size_t out_size);
/* Converts UTF-8 to an element of WU_STR, padded with zeros. Returns the number of characters, or
 * -1 if the text is not UTF-8 or has more than `width` characters. If `out` is NULL, only counts
 * the characters. */
long wu_utf8_to_ucs4(const char *text, uint32_t *out, uint32_t width);

#endif
