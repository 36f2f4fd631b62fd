/*
 * Makes ZIP files with any members, and PNGs in memory, for tests. A failure ends the test program.
 */
#ifndef MAKE_ZIP_H
#define MAKE_ZIP_H

#include <minizip/zip.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "tests/unit/scratch.h"
#include "workunits/format/png_io.h"

/* --- ZIP ------------------------------------------------------------------------------------- */

static inline void zip_add(zipFile zip, const char *name, const void *data, size_t n)
{
    zip_fileinfo when;
    memset(&when, 0, sizeof when);
    when.tmz_date.tm_mday = 1;
    when.tmz_date.tm_year = 1980;
    MUST(zipOpenNewFileInZip(zip, name, &when, NULL, 0, NULL, 0, NULL, Z_DEFLATED, 6) == ZIP_OK);
    MUST(zipWriteInFileInZip(zip, data, (unsigned)n) == ZIP_OK);
    MUST(zipCloseFileInZip(zip) == ZIP_OK);
}

static inline zipFile zip_create(const char *path)
{
    zipFile zip = zipOpen64(path, APPEND_STATUS_CREATE);
    MUST(zip != NULL);
    return zip;
}

/* --- bytes in memory -------------------------------------------------------------------------- */

typedef struct bytes {
    unsigned char *data;
    size_t n;       /* bytes in use */
    size_t room;    /* bytes allocated */
    size_t pos;     /* offset at which the next bytes_read begins */
    size_t at_most; /* largest number of bytes that a call of bytes_read returns; 0: no limit */
} bytes;

static inline int bytes_write(void *user, const void *buf, size_t n)
{
    bytes *b = user;
    if (b->n + n > b->room) {
        b->room = 2 * (b->n + n);
        b->data = realloc(b->data, b->room);
        MUST(b->data != NULL);
    }
    memcpy(b->data + b->n, buf, n);
    b->n += n;
    return 0;
}

static inline long bytes_read(void *user, void *buf, size_t n)
{
    bytes *b = user;
    size_t part = b->n - b->pos < n ? b->n - b->pos : n;
    if (b->at_most > 0 && part > b->at_most)
        part = b->at_most;
    memcpy(buf, b->data + b->pos, part);
    b->pos += part;
    return (long)part;
}

/* Reads a file. The caller frees the data. */
static inline bytes read_file(const char *path)
{
    bytes b = { 0 };
    unsigned char buf[4096];
    FILE *file = fopen(path, "rb");
    MUST(file != NULL);
    for (size_t n; (n = fread(buf, 1, sizeof buf, file)) > 0;)
        bytes_write(&b, buf, n);
    fclose(file);
    return b;
}

/* Returns sample i (of width*height*channels) of a test picture. make_png uses its lower bits. */
static inline unsigned pattern(unsigned seed, size_t i)
{
    return (unsigned)((i * 2654435761u + (size_t)(seed * 40503u)) >> 7) & 0xffff;
}

/* Makes a PNG of pattern(seed, i). The caller frees the data. */
static inline bytes make_png(uint32_t width, uint32_t height, unsigned bits, unsigned channels,
                             unsigned seed)
{
    const wu_png_info info = { width, height, bits, channels };
    const size_t n = (size_t)width * height * channels;
    uint16_t *wide = malloc(n * sizeof *wide);
    MUST(wide != NULL);
    uint8_t *narrow = (uint8_t *)wide;
    for (size_t i = 0; i < n; i++) {
        if (bits == 8)
            narrow[i] = (uint8_t)pattern(seed, i);
        else
            wide[i] = (uint16_t)pattern(seed, i);
    }
    bytes b = { 0 };
    MUST(wu_png_write(bytes_write, &b, "test", &info, wide, NULL) == TC_OK);
    free(wide);
    return b;
}

#endif
