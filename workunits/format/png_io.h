/*
 * Reads and writes PNG pictures of the kinds that work units have: grey of 8 or 16 bits and RGB of
 * 8 bits per sample. Other kinds can be read by converting them. The readers get the file's bytes
 * from a callback, so that a picture in a ZIP needs no buffer of its own.
 */
#ifndef WU_PNG_IO_H
#define WU_PNG_IO_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "app/base/status.h"

typedef struct wu_png_info {
    uint32_t width, height;
    unsigned bits;     /* bits of a sample: 8 or 16 */
    unsigned channels; /* 1 or 3 */
} wu_png_info;

/* A callback that reads up to n bytes into buf. Returns their number, 0 at the end, or a negative
 * value after an error. */
typedef long (*wu_read_fn)(void *user, void *buf, size_t n);

/* Reads only the header. what: the picture's name in messages. encoded_bytes: the size of the PNG;
 * a header with more pixels than deflate can compress to this size is an error. */
tc_status wu_png_read_info(wu_read_fn read, void *user, uint64_t encoded_bytes, const char *what,
                           wu_png_info *info, tc_err *err);

/* The bytes of a PNG's signature and header. */
enum { WU_PNG_HEADER_BYTES = 33 };
/* Reads the header from the first bytes of a PNG into *out. Returns true if the PNG is of a kind
 * that work units have; *out is then what wu_png_read_info would set, unless the rest of the PNG is
 * damaged. */
bool wu_png_parse_header(const unsigned char begin[WU_PNG_HEADER_BYTES], uint64_t encoded_bytes,
                         wu_png_info *out);

/* The bytes of memory that reading a PNG of encoded_bytes bytes takes besides its `samples` bytes
 * of samples in `rows` rows. */
uint64_t wu_png_reading_bytes(uint64_t samples, uint64_t rows, uint64_t encoded_bytes);

/* Reads the whole PNG, and checks its CRCs. expected: the header that was read before; a different
 * header is an error. pixels: receives height * width * channels samples, uint8_t or uint16_t (in
 * the byte order of memory) depending on the bits. */
tc_status wu_png_read(wu_read_fn read, void *user, uint64_t encoded_bytes, const char *what,
                      const wu_png_info *expected, void *pixels, tc_err *err);

/* Like wu_png_read_info and wu_png_read, but for PNGs of any kind, which are converted: samples of
 * 1, 2 and 4 bits are scaled to 0 to 255; a palette becomes grey if all its colours are grey,
 * otherwise RGB; alpha is dropped. RGB of 16 bits stays unchanged, and the caller decides whether
 * to accept it. numbers: whether samples are numbers, not shades. If so, samples of 1, 2 and 4 bits
 * are not scaled, and the indices of a palette are returned. Sets *alpha_dropped to whether some
 * pixel was not opaque, and *no_end to whether the file ends after its pixels, without the final
 * chunk. */
tc_status wu_png_convert_info(wu_read_fn read, void *user, const char *what, bool numbers,
                              wu_png_info *info, tc_err *err);
tc_status wu_png_convert(wu_read_fn read, void *user, const char *what, bool numbers,
                         const wu_png_info *expected, void *pixels, bool *alpha_dropped,
                         bool *no_end, tc_err *err);

/* A callback that writes n bytes. Returns 0, or another value after an error. */
typedef int (*wu_write_fn)(void *user, const void *buf, size_t n);

/* A way to compress samples: by zlib, or by wu_deflate_rows, which for noise and labels gives as
 * few bytes in a third of the time. */
typedef struct wu_png_effort {
    int level;             /* zlib's compression level; 0 to use wu_deflate_rows */
    bool matches_anywhere; /* as in wu_row_layout */
    bool unfiltered;       /* do not filter rows */
} wu_png_effort;

/* Finds the effort for a picture by trying all of them on a part of it. The choice depends only on
 * the samples. */
tc_status wu_png_choose_effort(const char *what, const wu_png_info *info, const void *pixels,
                               wu_png_effort *effort, tc_err *err);
/* Writes a PNG with an effort, which may have been chosen for a larger picture that contains this
 * one. The other arguments are as for wu_png_write. */
tc_status wu_png_write_with_effort(wu_png_effort effort, wu_write_fn write, void *user,
                                   const char *what, const wu_png_info *info, const void *pixels,
                                   tc_err *err);

/* Writes a PNG. The same samples always give the same bytes. pixels: as in wu_png_read.
 * TC_INTERNAL: *info is not of a kind that work units have. */
tc_status wu_png_write(wu_write_fn write, void *user, const char *what, const wu_png_info *info,
                       const void *pixels, tc_err *err);
/* Like wu_png_write, in less time, but with up to about a seventh more bytes. */
tc_status wu_png_write_for_page(wu_write_fn write, void *user, const char *what,
                                const wu_png_info *info, const void *pixels, tc_err *err);

/* Writes a PNG to a file by wu_png_write. The file is replaced if it exists. */
tc_status wu_png_write_file(const char *path, const wu_png_info *info, const void *pixels,
                            tc_err *err);

/* Removes all chunks except the header, the pixels and the final one from a PNG of n bytes that was
 * read without an error, in place. Returns the number of bytes that remain, or 0 if the PNG is not
 * of a kind that work units have. */
size_t wu_png_strip(unsigned char *png, size_t n);
/* Whether the samples are noise and a PNG of them with n bytes is hardly larger than their entropy,
 * so that wu_png_write would not make it smaller. */
bool wu_png_is_incompressible(const wu_png_info *info, const void *pixels, size_t n);

/* Writes the names and versions of the libraries that read and write files: "zlib 1.2.13, ...". */
void wu_library_versions(char *text, size_t size);

#endif
