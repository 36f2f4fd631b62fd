/*
 * PNG reading and writing through libpng: grey 8/16 bit and RGB 8 bit, what work units
 * have; other kinds are converted for those who ask for it. The reader pulls bytes through a
 * callback, so that a picture inside a ZIP needs no buffer of its own.
 */
#ifndef WU_PNG_IO_H
#define WU_PNG_IO_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "app/base/status.h"

typedef struct wu_png_info {
    uint32_t width, height;
    unsigned bits;     /* 8 or 16 */
    unsigned channels; /* 1 or 3 */
} wu_png_info;

/* Reads up to n bytes into buf and returns how many (0 at the end); a negative
 * value is a read error. */
typedef long (*wu_read_fn)(void *user, void *buf, size_t n);

/* Reads the header only. `what` names the picture in messages;
 * `encoded_bytes` is the size of the PNG file: a header that claims more
 * pixels than deflate could decompress from it is refused. */
tc_status wu_png_read_info(wu_read_fn read, void *user, uint64_t encoded_bytes, const char *what,
                           wu_png_info *info, tc_err *err);

/* Whether a PNG that begins so is of a kind that is in most work units, and what it is then: the
 * same as wu_png_read_info gives, if nothing is wrong behind it. */
enum { WU_PNG_HEAD = 33 };
bool wu_png_plain_head(const unsigned char begin[WU_PNG_HEAD], uint64_t encoded_bytes,
                       wu_png_info *out);

/* Bytes that reading `rows` rows takes in memory besides their `samples` bytes, of a PNG of so many
 * bytes. */
uint64_t wu_png_reading_bytes(uint64_t samples, uint64_t rows, uint64_t encoded_bytes);

/* Reads header and pixels, through to the end of the PNG (CRCs checked).
 * `pixels` receives width*height*channels samples of uint8_t or uint16_t (host
 * order), and must have been sized by the caller from an earlier
 * wu_png_read_info; a header that disagrees with *expected is an error. */
tc_status wu_png_read(wu_read_fn read, void *user, uint64_t encoded_bytes, const char *what,
                      const wu_png_info *expected, void *pixels, tc_err *err);

/* The same for PNGs as people have them, of any kind: 1, 2 and 4 bits are spread over 0..255, a
 * palette becomes grey where all its colours are, else RGB, alpha is dropped. RGB of 16 bits
 * is for the caller to refuse or take. *alpha_dropped: some of it was not opaque. *no_end: the file
 * ends behind its pixels. numbers: samples are no shades: 1, 2 and 4 bits are not spread, and of a
 * palette the indices are taken. */
tc_status wu_png_convert_info(wu_read_fn read, void *user, const char *what, bool numbers,
                              wu_png_info *info, tc_err *err);
tc_status wu_png_convert(wu_read_fn read, void *user, const char *what, bool numbers,
                         const wu_png_info *expected, void *pixels, bool *alpha_dropped,
                         bool *no_end, tc_err *err);

/* Appends n bytes somewhere; returns 0, or nonzero on a write error. */
typedef int (*wu_write_fn)(void *user, const void *buf, size_t n);

/* Writes a PNG (deterministic bytes: no time stamp) of a kind that work units have, else
 * TC_INTERNAL. pixels as above. */
tc_status wu_png_write(wu_write_fn write, void *user, const char *what, const wu_png_info *info,
                       const void *pixels, tc_err *err);
/* The same in less time, a seventh larger at most. */
tc_status wu_png_write_for_page(wu_write_fn write, void *user, const char *what,
                                const wu_png_info *info, const void *pixels, tc_err *err);

/* The same into a file (created or truncated). */
tc_status wu_png_write_file(const char *path, const wu_png_info *info, const void *pixels,
                            tc_err *err);

/* Of a PNG that was read without a fault: leaves what a work unit takes as it is, header and
 * pixels, at the beginning, and returns its bytes; 0: a work unit takes another kind. */
size_t wu_png_strip(unsigned char *png, size_t n);
/* Whether a PNG of n bytes is as small as wu_png_write would make it of these samples: they are
 * noise, and it needs no more than their entropy. */
bool wu_png_is_small(const wu_png_info *info, const void *pixels, size_t n);

/* The libraries that files are read and written with, and their versions: "zlib 1.2.13, ...". */
void wu_libraries(char *text, size_t size);

#endif
