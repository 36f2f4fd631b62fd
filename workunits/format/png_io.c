/*
 * Reads and writes PNG pictures. Simple ones (is_simple) are read without libpng, which is faster,
 * all others with libpng. Pictures are written without libpng.
 */
#include "config.h"

#include "workunits/format/png_io.h"

#include <errno.h>
#include <jansson.h>
#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif
#ifdef HAVE_LIBDEFLATE
#include <libdeflate.h>
#endif

#include "app/base/crc32.h"
#include "app/base/numbers.h"
#include "workunits/format/deflate_rows.h"
#include "workunits/format/new_file.h"

/* The most bytes that one byte of deflate data can decompress to. */
#define MAX_DEFLATE_RATIO 1032u

enum {
    LANES = 16,             /* bytes of a vector */
    MOST_AT_ONCE = 8 << 20, /* the most bytes of samples that wu_png_read decodes without libpng */
    MOST_CONVERTED = 1 << 20, /* the same limit for wu_png_convert */
    SIGNATURE = 8,            /* bytes of the PNG signature */
    FRAME = 12,               /* bytes of a chunk besides its data: length, type and CRC */
};

typedef uint8_t lanes8 __attribute__((vector_size(LANES), aligned(1)));
typedef int8_t signed8 __attribute__((vector_size(LANES)));
typedef uint16_t lanes16 __attribute__((vector_size(LANES)));

/* The state of reading a PNG, for libpng's callbacks and for functions run by call_guarded. It is
 * accessed only through a pointer, so that its members are valid after a longjmp. */
typedef struct png_ctx {
    png_structp png;
    png_infop info;
    wu_read_fn read;
    void *user;
    const char *what;
    uint64_t encoded_bytes;
    wu_png_info head;            /* the header that was read from the PNG */
    const wu_png_info *expected; /* when pixels are read, `head` must be equal to this */
    unsigned char *in_pixels;    /* where the samples are written */
    bool convert;                /* whether to convert any kind of PNG (wu_png_convert) */
    bool numbers;       /* the argument of wu_png_convert: read the numbers in the file, such
                           as indices of a palette, and not the colours */
    bool palette;       /* libpng returns indices of the palette, a byte each */
    unsigned n_colours; /* number of colours of the palette */
    unsigned char colour[PNG_MAX_PALETTE_LENGTH][4]; /* red, green, blue, alpha */
    unsigned char *raw; /* the rows that libpng returns, if they need conversion: pixels with alpha,
                           or indices; else NULL */
    bool alpha_dropped; /* a pixel was not opaque */
    bool has_all;       /* all pixels have been read */
    bool no_end;        /* the file ends after the pixels, without the final chunk */
    tc_status status;   /* the status that call_guarded returns after a longjmp */
    tc_err *err;
} png_ctx;

/* --- libpng's callbacks ---------------------------------------------------------------------- */

/* Jumps back to call_guarded, which returns this status. */
static _Noreturn void stop_reading(png_ctx *c, tc_status status)
{
    c->status = status;
    png_longjmp(c->png, 1);
}

static void on_error(png_structp png, png_const_charp message)
{
    png_ctx *c = png_get_error_ptr(png);
    /* libpng and zlib report a failed allocation only by a message with this word. */
    if (strstr(message, "memory") != NULL)
        stop_reading(c, tc_no_memory(c->err, c->what));
    stop_reading(c, tc_fail(c->err, TC_BAD_INPUT, "%s: damaged PNG: %s", c->what, message));
}

static void on_warning(png_structp png, png_const_charp message)
{
    (void)png;
    (void)message;
}

static void on_read(png_structp png, png_bytep buf, size_t n)
{
    png_ctx *c = png_get_io_ptr(png);
    while (n > 0) {
        const long got = c->read(c->user, buf, n);
        if (got < 0)
            stop_reading(c, tc_fail(c->err, TC_BAD_INPUT, "%s: cannot be read", c->what));
        c->no_end = got == 0 && c->has_all && c->convert;
        if (c->no_end)
            stop_reading(c, TC_OK);
        if (got == 0)
            stop_reading(
                c, tc_fail(c->err, TC_BAD_INPUT, "%s: damaged PNG: it ends too early", c->what));
        buf += got;
        n -= (size_t)got;
    }
}

/* Calls `body`. Returns TC_OK, or the status that `body` or a callback passed to stop_reading. */
static tc_status call_guarded(png_ctx *c, void (*body)(png_ctx *))
{
    if (setjmp(png_jmpbuf(c->png)) != 0)
        return c->status;
    body(c);
    return TC_OK;
}

/* --- reading --------------------------------------------------------------------------------- */

static const char *colour_name(int type)
{
    switch (type) {
    case PNG_COLOR_TYPE_GRAY: return "grey";
    case PNG_COLOR_TYPE_RGB: return "RGB";
    case PNG_COLOR_TYPE_PALETTE: return "palette";
    case PNG_COLOR_TYPE_GRAY_ALPHA: return "grey with alpha";
    default: return "RGB with alpha";
    }
}

/* Whether the pixels that the header declares can be compressed to encoded_bytes bytes. */
static bool can_hold_pixels(const wu_png_info *head, uint64_t encoded_bytes)
{
    const uint64_t row = (uint64_t)head->width * head->channels * (head->bits / 8) + 1;
    const uint64_t most = encoded_bytes < UINT64_MAX / MAX_DEFLATE_RATIO
                              ? encoded_bytes * MAX_DEFLATE_RATIO
                              : UINT64_MAX;
    return most / row >= head->height;
}

/* Refuses a PNG whose header declares more pixels than its bytes can contain. */
static void check_bomb(png_ctx *c)
{
    if (!can_hold_pixels(&c->head, c->encoded_bytes))
        stop_reading(c,
                     tc_fail(c->err, TC_BAD_INPUT,
                             "%s: the PNG claims %ux%u pixels, more than its %llu bytes can hold",
                             c->what, (unsigned)c->head.width, (unsigned)c->head.height,
                             (unsigned long long)c->encoded_bytes));
}

/* Copies the palette of the PNG. If all its colours are grey, the picture becomes grey, else RGB.
 */
static void copy_palette(png_ctx *c)
{
    png_colorp entries = NULL;
    png_bytep alpha = NULL;
    int n = 0, n_alpha = 0;
    bool grey = true;
    png_get_PLTE(c->png, c->info, &entries, &n);
    png_get_tRNS(c->png, c->info, &alpha, &n_alpha, NULL);
    c->palette = true;
    c->n_colours = (unsigned)n;
    for (int i = 0; i < n; i++) {
        const png_color *e = &entries[i];
        const unsigned char entry[4] = { e->red, e->green, e->blue, i < n_alpha ? alpha[i] : 255 };
        memcpy(c->colour[i], entry, sizeof entry);
        grey = grey && e->red == e->green && e->green == e->blue;
    }
    c->head.channels = grey ? 1 : 3;
}

/* Decides whether and how the picture is converted, and sets libpng's transformations. */
static void plan_conversion(png_ctx *c, int type, unsigned bits)
{
    c->head.bits = bits == 16 ? 16 : 8;
    c->head.channels = (type & PNG_COLOR_MASK_COLOR) != 0 ? 3 : 1;
    if (c->numbers && (type == PNG_COLOR_TYPE_PALETTE || bits < 8)) {
        c->head.channels = 1;
        png_set_packing(c->png);
    } else if (type == PNG_COLOR_TYPE_PALETTE) {
        copy_palette(c);
        png_set_packing(c->png);
    } else if (c->convert) {
        png_set_expand(c->png); /* 1, 2, 4 bits to 8; tRNS to alpha */
    }
}

/* Reads the header. A body for call_guarded. */
static void read_head(png_ctx *c)
{
    png_set_crc_action(c->png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
    /* Chunks of text, profiles and gamma are skipped. */
    png_set_keep_unknown_chunks(c->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_set_chunk_malloc_max(c->png, 1 << 20); /* bytes of a chunk */
    png_set_chunk_cache_max(c->png, 16);       /* number of chunks that are kept */
    png_set_user_limits(c->png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_read_info(c->png, c->info);

    const int type = png_get_color_type(c->png, c->info);
    const unsigned bits = png_get_bit_depth(c->png, c->info);
    if (!c->convert && !(type == PNG_COLOR_TYPE_GRAY && (bits == 8 || bits == 16)) &&
        !(type == PNG_COLOR_TYPE_RGB && bits == 8))
        stop_reading(c,
                     tc_fail(c->err, TC_BAD_INPUT,
                             "%s: the PNG is %u-bit %s, but must be 8- or 16-bit grey or 8-bit RGB "
                             "(texcell-wu pack converts)",
                             c->what, bits, colour_name(type)));
    c->head.width = png_get_image_width(c->png, c->info);
    c->head.height = png_get_image_height(c->png, c->info);
    plan_conversion(c, type, bits);
    check_bomb(c);
}

/* Converts the palette's indices to colours. */
static void map_palette(png_ctx *c)
{
    const unsigned channels = c->head.channels;
    const size_t n = (size_t)c->head.width * c->head.height;
    for (size_t i = 0; i < n; i++) {
        const unsigned index = c->raw[i];
        if (index >= c->n_colours)
            stop_reading(c, tc_fail(c->err, TC_BAD_INPUT,
                                    "%s: damaged PNG: a pixel has colour %u of a palette of %u",
                                    c->what, index, c->n_colours));
        memcpy(c->in_pixels + i * channels, c->colour[index], channels);
        c->alpha_dropped = c->alpha_dropped || c->colour[index][3] != 255;
    }
}

/* Copies all channels but the last, which is alpha. A pixel is opaque if all bytes of its alpha
 * (one or two) are 255. */
static void drop_alpha(png_ctx *c)
{
    const size_t sample = c->head.bits / 8, keep = c->head.channels * sample, step = keep + sample;
    const size_t n = (size_t)c->head.width * c->head.height;
    for (size_t i = 0; i < n; i++) {
        const unsigned char *pixel = c->raw + i * step;
        memcpy(c->in_pixels + i * keep, pixel, keep);
        c->alpha_dropped = c->alpha_dropped || pixel[keep] != 255 || pixel[step - 1] != 255;
    }
}

/* Reads header and pixels. A body for call_guarded. */
static void read_all(png_ctx *c)
{
    read_head(c);
    const wu_png_info *e = c->expected, *h = &c->head;
    if (e->width != h->width || e->height != h->height || e->bits != h->bits ||
        e->channels != h->channels)
        stop_reading(c, tc_fail(c->err, TC_BAD_INPUT, "%s: the PNG's header has changed", c->what));
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (h->bits == 16)
        png_set_swap(c->png);
#endif
    const int passes = png_set_interlace_handling(c->png);
    png_read_update_info(c->png, c->info);
    const size_t stride = png_get_rowbytes(c->png, c->info), sample = h->bits / 8;
    const bool alpha = !c->palette && png_get_channels(c->png, c->info) == h->channels + 1;
    if (stride != h->width * (c->palette ? 1 : (h->channels + alpha) * sample))
        stop_reading(c, tc_fail(c->err, TC_INTERNAL, "%s: libpng returns rows of %zu bytes",
                                c->what, stride));
    if (alpha || c->palette) {
        c->raw = malloc(stride * h->height);
        if (c->raw == NULL)
            stop_reading(c, tc_no_memory(c->err, c->what));
    }
    for (int pass = 0; pass < passes; pass++)
        for (uint32_t y = 0; y < h->height; y++)
            png_read_row(c->png, (c->raw != NULL ? c->raw : c->in_pixels) + y * stride, NULL);
    if (c->palette)
        map_palette(c);
    else if (alpha)
        drop_alpha(c);
    c->has_all = true;
    png_read_end(c->png, NULL);
}

/* --- reading without libpng ------------------------------------------------------------------ */

/* Writes a number of 4 bytes, big-endian. */
static void put_number(unsigned char *to, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)(v >> (24 - 8 * i));
}

/* The beginning, or all, of a PNG in memory. */
typedef struct png_bytes {
    unsigned char *data; /* owned */
    size_t n, at;        /* bytes in `data`; how many of them read_bytes has returned */
    wu_read_fn read;     /* reads the bytes of the PNG after those in `data` */
    void *user;          /* the argument of `read` */
} png_bytes;

/* A wu_read_fn that returns the bytes in memory, then those that b->read returns. user: a
 * png_bytes. */
static long read_bytes(void *user, void *buf, size_t n)
{
    png_bytes *const b = user;
    const size_t left = b->n - b->at, part = left < n ? left : n;
    if (part == 0)
        return b->read(b->user, buf, n);
    memcpy(buf, b->data + b->at, part);
    b->at += part;
    return (long)part;
}

/* Reads a number of 4 bytes, big-endian. */
static uint32_t number_at(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

enum {
    IHDR = 13,                       /* bytes of data of the header chunk (IHDR) */
    HEAD = SIGNATURE + FRAME + IHDR, /* bytes of the signature and the header chunk */
    BODY = 8,                        /* offset of a chunk's data within the chunk */
};

bool wu_png_parse_header(const unsigned char begin[WU_PNG_HEADER_BYTES], uint64_t encoded_bytes,
                         wu_png_info *out)
{
    static const unsigned char start[] = { 0, 0, 0, IHDR, 'I', 'H', 'D', 'R' };
    const unsigned char *const chunk = begin + SIGNATURE, *const body = chunk + BODY;
    /* The body: width, height (4 bytes each), bits, colour type, compression, filter, interlacing.
     */
    const unsigned bits = body[8], colour = body[9];
    const wu_png_info head = { .width = number_at(body),
                               .height = number_at(body + 4),
                               .bits = bits,
                               .channels = colour == PNG_COLOR_TYPE_RGB ? 3 : 1 };
    _Static_assert((int)WU_PNG_HEADER_BYTES == (int)HEAD, "signature and first chunk");
    *out = head;
    return png_sig_cmp(begin, 0, SIGNATURE) == 0 && memcmp(chunk, start, sizeof start) == 0 &&
           tc_crc32(0, chunk + 4, IHDR + 4) == number_at(body + IHDR) &&
           ((colour == PNG_COLOR_TYPE_GRAY && (bits == 8 || bits == 16)) ||
            (colour == PNG_COLOR_TYPE_RGB && bits == 8)) &&
           body[10] == 0 && body[11] == 0 && body[12] == 0 && head.width > 0 && head.height > 0 &&
           head.width <= PNG_UINT_31_MAX && head.height <= PNG_UINT_31_MAX &&
           can_hold_pixels(&head, encoded_bytes);
}

#ifdef HAVE_LIBDEFLATE
/* Whether the n bytes are a complete PNG with the header h and correct CRCs, without any chunk
 * besides IHDR, IDAT and IEND that libpng would use. */
static bool is_simple(const unsigned char *png, size_t n, const wu_png_info *h)
{
    /* Bytes 8 to 12 of IHDR: bits, colour type, compression, filter, interlacing (none). */
    const unsigned char kind[] = { (unsigned char)h->bits,
                                   h->channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, 0,
                                   0, 0 };
    bool has_data = false, after_data = false;
    if (n < HEAD || png_sig_cmp(png, 0, SIGNATURE) != 0)
        return false;
    for (size_t at = SIGNATURE; n - at >= FRAME;) {
        const uint32_t size = number_at(png + at);
        const unsigned char *const name = png + at + 4, *const body = png + at + BODY;
        const bool first = at == SIGNATURE;
        if (size > n - at - FRAME || tc_crc32(0, name, size + 4) != number_at(body + size))
            return false;
        at += FRAME + size;
        if (first) {
            if (memcmp(name, "IHDR", 4) != 0 || size != IHDR || number_at(body) != h->width ||
                number_at(body + 4) != h->height || memcmp(body + 8, kind, sizeof kind) != 0)
                return false;
        } else if (memcmp(name, "IDAT", 4) == 0 && !after_data) {
            has_data = true;
        } else if ((name[0] & 0x20) != 0 && memcmp(name, "tRNS", 4) != 0) {
            /* A lower-case first letter marks an ancillary chunk, which can be ignored. */
            after_data = has_data;
        } else {
            return memcmp(name, "IEND", 4) == 0 && size == 0 && at == n && has_data;
        }
    }
    return false;
}

/* Joins the IDAT chunks of a simple PNG into one, in place, and removes all other chunks between
 * IHDR and IEND. Returns the number of bytes of the joined data, which begin at HEAD + BODY. */
static size_t gather_data(png_bytes *png)
{
    static const unsigned char idat[] = { 'I', 'D', 'A', 'T' };
    /* to: where the next data are copied to; name: the type of the joined chunk, just before them
     */
    unsigned char *const all = png->data, *to = all + HEAD + BODY, *const name = to - 4;
    size_t at = HEAD, size;
    for (; memcmp(all + at + 4, "IEND", 4) != 0; at += FRAME + size) {
        size = number_at(all + at);
        if (memcmp(all + at + 4, "IDAT", 4) == 0) {
            memmove(to, all + at + BODY, size);
            to += size;
        }
    }
    size = (size_t)(to - name) - 4;
    memcpy(name, idat, sizeof idat);
    put_number(name - 4, (uint32_t)size);
    memmove(to + 4, all + at, FRAME); /* IEND */
    put_number(to, tc_crc32(0, name, size + 4));
    png->n = (size_t)(to - all) + 4 + FRAME;
    return size;
}

/* Paeth's predictor: the one of the three neighbours that is nearest to left + above - corner. */
static unsigned char find_nearest(int left, int above, int corner)
{
    /* The distances of the neighbours from left + above - corner. */
    const int by_left = abs(above - corner), by_above = abs(left - corner),
              by_corner = abs(left + above - 2 * corner);
    return (unsigned char)(by_left <= by_above && by_left <= by_corner ? left
                           : by_above <= by_corner                     ? above
                                                                       : corner);
}

/* Restores a row of n bytes from its filtered form, which begins with the number of the filter.
 * above: the row above; for the first row, zeros. pixel: bytes of a pixel. Returns false if no
 * filter has this number. */
static bool undo_filter(const unsigned char *filtered, size_t n, size_t pixel,
                        const unsigned char *above, unsigned char *row)
{
    enum { NONE, SUB, UP, AVERAGE, PAETH }; /* the numbers of the filters */
    const unsigned char kind = filtered[0], *const from = filtered + 1;
    size_t i = 0;
    if (kind > PAETH)
        return false;
    if (kind == NONE)
        memcpy(row, from, n);
    for (size_t c = 0; kind == SUB && c < pixel; c++) {
        unsigned char v = 0;
        for (i = c; i < n; i += pixel)
            row[i] = v = (unsigned char)(v + from[i]);
    }
    for (; kind == UP && n - i >= LANES; i += LANES)
        *(lanes8 *)(void *)(row + i) =
            *(const lanes8 *)(const void *)(from + i) + *(const lanes8 *)(const void *)(above + i);
    for (; kind == UP && i < n; i++)
        row[i] = (unsigned char)(from[i] + above[i]);
    for (; kind > UP && i < n; i++) {
        const int left = i < pixel ? 0 : row[i - pixel], corner = i < pixel ? 0 : above[i - pixel];
        row[i] =
            (unsigned char)(from[i] + (kind == AVERAGE ? (left + above[i]) / 2
                                                       : find_nearest(left, above[i], corner)));
    }
    return true;
}

/* Decodes a complete PNG. Returns false if it is not simple (is_simple), or is damaged: libpng must
 * then read it. */
static bool decode_at_once(png_bytes *png, const wu_png_info *h, unsigned char *pixels)
{
    const size_t pixel = (size_t)h->channels * (h->bits / 8), row = h->width * pixel,
                 all = (row + 1) * h->height;
    if (!is_simple(png->data, png->n, h))
        return false;
    const size_t n = gather_data(png);
    const unsigned char *const data = png->data + HEAD + BODY;
    unsigned char *const filtered = malloc(all + row);
    struct libdeflate_decompressor *const inflater = libdeflate_alloc_decompressor();
    size_t used = 0;
    /* 0x78: a zlib stream with the largest window. zlib enforces smaller windows, libdeflate does
     * not. */
    bool good = filtered != NULL && inflater != NULL && n > 0 && data[0] == 0x78 &&
                libdeflate_zlib_decompress_ex(inflater, data, n, filtered, all, &used, NULL) ==
                    LIBDEFLATE_SUCCESS &&
                used == n;
    libdeflate_free_decompressor(inflater);
    if (good)
        memset(filtered + all, 0, row);
    for (uint32_t y = 0; good && y < h->height; y++)
        good = undo_filter(filtered + y * (row + 1), row, pixel,
                           y > 0 ? pixels + (y - 1) * row : filtered + all, pixels + y * row);
    free(filtered);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    for (size_t i = 0; good && h->bits == 16 && i < row * h->height; i += 2) {
        const unsigned char high = pixels[i];
        pixels[i] = pixels[i + 1];
        pixels[i + 1] = high;
    }
#endif
    return good;
}
#endif

/* Reads a PNG of at most `most` bytes of samples to memory, and decodes it if that is possible
 * without libpng. Returns true if it is decoded or reading has failed (c->status); otherwise makes
 * c->read return the PNG's bytes from the beginning again, for libpng. */
static bool read_at_once(png_ctx *c, uint64_t most, png_bytes *png)
{
    enum { CHUNKS = 1 << 16 }; /* bytes reserved for the PNG's bytes other than the samples */
    const wu_png_info *const h = c->expected;
    const uint64_t row = (uint64_t)h->width * h->channels * (h->bits / 8) + 1,
                   room = row * h->height <= most ? row * h->height + CHUNKS : 0;
    *png = (png_bytes){ .read = c->read, .user = c->user };
#ifdef HAVE_LIBDEFLATE
    png->data = room > 0 ? malloc((size_t)room) : NULL;
    /* The file is complete if the reading function returned 0 before `room` was full. */
    for (long got = png->data != NULL; got > 0 && png->n < room; png->n += (size_t)got) {
        got = c->read(c->user, png->data + png->n, (size_t)room - png->n);
        if (got < 0) {
            c->status = tc_fail(c->err, TC_BAD_INPUT, "%s: cannot be read", c->what);
            return true;
        }
    }
    if (png->n > 0 && png->n < room && !c->numbers && decode_at_once(png, h, c->in_pixels))
        return true;
#else
    (void)room;
#endif
    c->read = read_bytes;
    c->user = png;
    return false;
}

uint64_t wu_png_reading_bytes(uint64_t samples, uint64_t rows, uint64_t encoded_bytes)
{
    const uint64_t filtered = samples + rows;
    return filtered > MOST_AT_ONCE ? 0 : filtered + tc_smaller(filtered, encoded_bytes);
}

static tc_status read_with(png_ctx *c, void (*body)(png_ctx *))
{
    tc_status status = TC_OK;
    c->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, c, on_error, on_warning);
    c->info = c->png != NULL ? png_create_info_struct(c->png) : NULL;
    if (c->info == NULL) {
        status = tc_no_memory(c->err, "reading a PNG");
        goto cleanup;
    }
    png_set_read_fn(c->png, c, on_read);
    status = call_guarded(c, body);
cleanup:
    png_destroy_read_struct(&c->png, &c->info, NULL);
    free(c->raw);
    return status;
}

static tc_status read_whole(png_ctx *c, uint64_t most)
{
    png_bytes png;
    const tc_status status = read_at_once(c, most, &png) ? c->status : read_with(c, read_all);
    free(png.data);
    return status;
}

tc_status wu_png_read_info(wu_read_fn read, void *user, uint64_t encoded_bytes, const char *what,
                           wu_png_info *info, tc_err *err)
{
    png_ctx c = {
        .read = read, .user = user, .what = what, .encoded_bytes = encoded_bytes, .err = err
    };
    return_if_error(read_with(&c, read_head));
    *info = c.head;
    return TC_OK;
}

tc_status wu_png_read(wu_read_fn read, void *user, uint64_t encoded_bytes, const char *what,
                      const wu_png_info *expected, void *pixels, tc_err *err)
{
    png_ctx c = { .read = read,
                  .user = user,
                  .what = what,
                  .encoded_bytes = encoded_bytes,
                  .expected = expected,
                  .in_pixels = pixels,
                  .err = err };
    return read_whole(&c, MOST_AT_ONCE);
}

/* The context for wu_png_convert. */
static png_ctx converter_of(wu_read_fn read, void *user, const char *what, bool numbers,
                            tc_err *err)
{
    return (png_ctx){ .read = read,
                      .user = user,
                      .what = what,
                      .encoded_bytes = UINT64_MAX,
                      .convert = true,
                      .numbers = numbers,
                      .err = err };
}

tc_status wu_png_convert_info(wu_read_fn read, void *user, const char *what, bool numbers,
                              wu_png_info *info, tc_err *err)
{
    png_ctx c = converter_of(read, user, what, numbers, err);
    return_if_error(read_with(&c, read_head));
    *info = c.head;
    return TC_OK;
}

tc_status wu_png_convert(wu_read_fn read, void *user, const char *what, bool numbers,
                         const wu_png_info *expected, void *pixels, bool *alpha_dropped,
                         bool *no_end, tc_err *err)
{
    png_ctx c = converter_of(read, user, what, numbers, err);
    c.expected = expected;
    c.in_pixels = pixels;
    const tc_status status = read_whole(&c, MOST_CONVERTED);
    *alpha_dropped = c.alpha_dropped;
    *no_end = c.no_end;
    return status;
}

/* --- writing --------------------------------------------------------------------------------- */

/* All efforts (how a picture is compressed), the slowest first. The first one gives the fewest
 * bytes for most pictures. */
static const wu_png_effort efforts[] = {
    { .level = 4 }, { .matches_anywhere = true }, { .level = 0 }, { .unfiltered = true }
};

enum {
    FILTERED = 1 << 17, /* about how many filtered bytes are compressed at a time */
    PLACES = 4,      /* number of pieces of the picture on which choose_effort tries the efforts */
    MARGIN = 50,     /* a faster effort is used if it gives at most 1 / MARGIN more bytes */
    PAGE_MARGIN = 7, /* the same for a report's page, which is not sent over a network */
    LITTLE = 8,      /* pixels that are compressed to at most 1 / LITTLE of their bytes are said to
                        compress well */
};

typedef struct png_writer {
    wu_write_fn write;
    void *user;
    const char *what;
    tc_err *err;
    const wu_png_info *head;
    wu_png_effort effort;
    size_t row, pixel; /* bytes of a row, and of a pixel */
    wu_row_deflater *rows;
    z_stream z;
    const unsigned char *zeros; /* a row of zeros */
    const unsigned char *above; /* the row above the current one, in PNG's byte order */
    unsigned char *swapped[2];  /* for 16 bits: room for the current row and the row above */
    unsigned char *candidate;   /* the current row filtered by SUB */
    unsigned char *filtered;    /* [WINDOW + room]; the n bytes from WINDOW on are to be compressed.
                                   The `before` bytes in front of them have been compressed already
                                   and are kept for matches */
    size_t before, n, room;
    unsigned char *deflated; /* compressed bytes, with room for WU_ROWS_ROOM(room) and a few more */
    uLong sum;               /* Adler-32 of the filtered bytes */
} png_writer;

enum { WINDOW = 1 << 15 }; /* bytes of deflate's window */

static tc_status write_bytes(png_writer *w, const void *data, size_t n)
{
    errno = 0;
    return n == 0 || w->write(w->user, data, n) == 0
               ? TC_OK
               : tc_fail(w->err, TC_IO, "%s: cannot write%s%s", w->what, errno != 0 ? ": " : "",
                         errno != 0 ? strerror(errno) : "");
}

static tc_status write_chunk(png_writer *w, const char kind[4], const void *data, size_t n)
{
    unsigned char head[8], end[4];
    put_number(head, (uint32_t)n);
    memcpy(head + 4, kind, 4);
    put_number(end, tc_crc32(tc_crc32(0, head + 4, 4), data, n));
    return_if_error(write_bytes(w, head, sizeof head));
    return_if_error(write_bytes(w, data, n));
    return write_bytes(w, end, sizeof end);
}

/* --- filters --------------------------------------------------------------------------------- */

/* Subtracts `from` from the row, byte by byte. Returns the sum of the absolute values of the
 * differences, as signed bytes. */
static uint64_t subtract_row(const unsigned char *row, const unsigned char *from, size_t n,
                             unsigned char *out)
{
    uint64_t total = 0;
    size_t i = 0;
#ifdef __SSE2__
    const __m128i zero = _mm_setzero_si128();
    __m128i sums = zero; /* two sums of 64 bits */
    uint64_t halves[2];
    for (; n - i >= LANES; i += LANES) {
        const __m128i v = _mm_sub_epi8(_mm_loadu_si128((const __m128i *)(const void *)(row + i)),
                                       _mm_loadu_si128((const __m128i *)(const void *)(from + i))),
                      size = _mm_min_epu8(v, _mm_sub_epi8(zero, v)); /* absolute values */
        _mm_storeu_si128((__m128i *)(void *)(out + i), v);
        sums = _mm_add_epi64(sums, _mm_sad_epu8(size, zero));
    }
    _mm_storeu_si128((__m128i *)(void *)halves, sums);
    total = halves[0] + halves[1];
#else
    /* Number of vectors that are added in lanes of 16 bits: each adds at most 2 * 128. */
    enum { MOST = 128 };
    while (n - i >= LANES) {
        lanes16 sums = { 0 };
        for (int k = 0; k < MOST && n - i >= LANES; k++, i += LANES) {
            const lanes8 v = *(const lanes8 *)(const void *)(row + i) -
                             *(const lanes8 *)(const void *)(from + i);
            const signed8 below = (signed8)v < 0;
            const lanes8 size = (v ^ (lanes8)below) - (lanes8)below; /* absolute values */
            *(lanes8 *)(void *)(out + i) = v;
            sums += ((lanes16)size & 255) + ((lanes16)size >> 8); /* even and odd bytes */
        }
        for (int k = 0; k < LANES / 2; k++)
            total += sums[k];
    }
#endif
    for (; i < n; i++) {
        out[i] = (unsigned char)(row[i] - from[i]);
        total += out[i] < 128 ? out[i] : 256u - out[i];
    }
    return total;
}

/* Filters the next row by the filter, SUB or UP, with the smaller sum of absolute values. Paeth's
 * filter is not used, as it is slow to undo. */
static void filter_row(png_writer *w, const unsigned char *samples)
{
    enum { NONE = 0, SUB = 1, UP = 2 };
    const unsigned char *row = samples, *const above = w->above;
    unsigned char *const to = w->filtered + WINDOW + w->n;
    if (w->head->bits == 16) {
        unsigned char *const swapped = w->swapped[0];
        for (size_t i = 0; i < w->row; i += 2) {
            uint16_t v;
            memcpy(&v, samples + i, sizeof v);
            swapped[i] = (unsigned char)(v >> 8);
            swapped[i + 1] = (unsigned char)v;
        }
        w->swapped[0] = w->swapped[1];
        w->swapped[1] = swapped;
        row = swapped;
    }
    w->n += w->row + 1;
    w->above = row;
    to[0] = NONE;
    if (w->effort.unfiltered) {
        memcpy(to + 1, row, w->row);
        return;
    }
    /* The pixel to the left of the first one is zeros, as is the row above the first one. */
    const uint64_t left = subtract_row(row, w->zeros, w->pixel, w->candidate) +
                          subtract_row(row + w->pixel, row, w->row - w->pixel,
                                       w->candidate + w->pixel),
                   up = subtract_row(row, above, w->row, to + 1);
    to[0] = left <= up ? SUB : UP;
    if (left <= up)
        memcpy(to + 1, w->candidate, w->row);
}

/* --- deflating ------------------------------------------------------------------------------- */

static uLong add_to_sum(uLong sum, const unsigned char *data, size_t n)
{
#ifdef HAVE_LIBDEFLATE
    return libdeflate_adler32((uint32_t)sum, data, n);
#else
    return adler32_z(sum, data, n);
#endif
}

/* Compresses the n bytes of w->filtered and writes them as an IDAT chunk. first, last: whether the
 * zlib stream begins or ends with these bytes. Keeps the end of the bytes for later matches. */
static tc_status put_filtered(png_writer *w, bool first, bool last)
{
    unsigned char *const at = w->filtered + WINDOW, *const to = w->deflated;
    const wu_row_layout layout = { w->pixel, w->row + 1, w->effort.matches_anywhere };
    size_t n = 0;
    w->sum = add_to_sum(w->sum, at, w->n);
    if (first) { /* zlib header: a window of 32 KiB, no dictionary */
        to[n++] = 0x78;
        to[n++] = 0x01;
    }
    if (w->rows != NULL) {
        n += wu_deflate_rows(w->rows, layout, at, w->n, w->before, last, to + n,
                             WU_ROWS_ROOM(w->room));
    } else {
        w->z.next_in = at;
        w->z.avail_in = (uInt)w->n;
        w->z.next_out = to + n;
        w->z.avail_out = (uInt)WU_ROWS_ROOM(w->room);
        (void)deflate(&w->z, last ? Z_FINISH : Z_NO_FLUSH);
        n = (size_t)(w->z.next_out - to);
    }
    if (last) {
        put_number(to + n, (uint32_t)w->sum);
        n += 4;
    }
    w->before = w->n < WINDOW ? w->n : WINDOW;
    memcpy(at - w->before, at + w->n - w->before, w->before);
    w->n = 0;
    return n > 0 ? write_chunk(w, "IDAT", to, n) : TC_OK;
}

static tc_status make_deflater(png_writer *w)
{
    bool created = true;
    if (w->effort.level == 0) {
        w->rows = wu_row_deflater_create();
        created = w->rows != NULL;
    } else {
        created =
            deflateInit2(&w->z, w->effort.level, Z_DEFLATED, -MAX_WBITS, 8, Z_FILTERED) == Z_OK;
    }
    return created ? TC_OK : tc_no_memory(w->err, "writing a PNG");
}

static tc_status write_all(png_writer *w, const unsigned char *pixels)
{
    static const unsigned char signature[] = { 137, 'P', 'N', 'G', 13, 10, 26, 10 };
    const wu_png_info *const h = w->head;
    unsigned char head[13] = { [8] = (unsigned char)h->bits,
                               h->channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB };
    put_number(head, h->width);
    put_number(head + 4, h->height);
    return_if_error(write_bytes(w, signature, sizeof signature));
    return_if_error(write_chunk(w, "IHDR", head, sizeof head));
    /* first: 0 until an IDAT chunk is written */
    for (uint32_t y = 0, first = 0; y < h->height; y++) {
        filter_row(w, pixels + y * w->row);
        if (y + 1 == h->height || w->room - w->n <= w->row) {
            return_if_error(put_filtered(w, first == 0, y + 1 == h->height));
            first = y + 1;
        }
    }
    return write_chunk(w, "IEND", "", 0);
}

static size_t bytes_of_row(const wu_png_info *info)
{
    return (size_t)info->width * info->channels * (info->bits / 8);
}

tc_status wu_png_write_with_effort(wu_png_effort effort, wu_write_fn write, void *user,
                                   const char *what, const wu_png_info *info, const void *pixels,
                                   tc_err *err)
{
    const bool grey = info->channels == 1 && (info->bits == 8 || info->bits == 16);
    const bool rgb = info->channels == 3 && info->bits == 8;
    if ((!grey && !rgb) || info->width == 0 || info->height == 0)
        return tc_fail(err, TC_INTERNAL, "%s: pictures of this kind cannot be written as PNG",
                       what);
    png_writer w = { .write = write,
                     .user = user,
                     .what = what,
                     .err = err,
                     .head = info,
                     .effort = effort,
                     .row = bytes_of_row(info),
                     .pixel = (size_t)info->channels * (info->bits / 8),
                     .sum = 1 };
    const size_t all = (w.row + 1) * info->height, most = w.row < FILTERED ? FILTERED : w.row + 1;
    w.room = all < most ? all : most;
    unsigned char *const rows = calloc(4, w.row); /* zeros, candidate, and swapped[2] */
    w.filtered = malloc(WINDOW + w.room);
    w.deflated = malloc(2 + WU_ROWS_ROOM(w.room) + 4); /* with zlib's header and Adler-32 */
    tc_status status = rows == NULL || w.filtered == NULL || w.deflated == NULL
                           ? tc_no_memory(err, "writing a PNG")
                           : make_deflater(&w);
    if (status == TC_OK) {
        w.zeros = w.above = rows;
        w.candidate = rows + w.row;
        w.swapped[0] = rows + 2 * w.row;
        w.swapped[1] = rows + 3 * w.row;
    }
    if (status == TC_OK)
        status = write_all(&w, pixels);
    (void)deflateEnd(&w.z);
    free(w.rows);
    free(rows);
    free(w.filtered);
    free(w.deflated);
    return status;
}

/* A wu_write_fn that only counts the bytes. user: a uint64_t. */
static int count_bytes(void *user, const void *buf, size_t n)
{
    (void)buf;
    *(uint64_t *)user += n;
    return 0;
}

/* Copies PLACES pieces of the picture, one below the other, into a new picture of the size of
 * `part`. Owned by the caller; NULL if there is no memory. */
static unsigned char *copy_part(const wu_png_info *info, const unsigned char *pixels,
                                const wu_png_info *part)
{
    /* The positions of the pieces along x, in eighths of the free width. */
    static const unsigned columns[PLACES] = { 3, 7, 1, 5 };
    const size_t pixel = (size_t)info->channels * (info->bits / 8), stride = bytes_of_row(info),
                 row = bytes_of_row(part);
    const uint32_t rows = part->height / PLACES;
    unsigned char *const copy = malloc(row * part->height);
    for (uint32_t y = 0; copy != NULL && y < part->height; y++) {
        const uint32_t piece = y / rows,
                       from = (uint32_t)((uint64_t)info->height * (2 * piece + 1) / 8) - rows / 2;
        const uint64_t left = info->width - part->width, x = left * columns[piece] / 8;
        memcpy(copy + y * row, pixels + (from + y % rows) * stride + (size_t)x * pixel, row);
    }
    return copy;
}

/* Tries all efforts on a part of the picture. Chooses the fastest one whose result is larger than
 * the smallest result by at most the share 1 / margin. The choice depends only on the samples.
 * Small pictures get the first effort. */
static tc_status choose_effort(const char *what, const wu_png_info *info, const void *pixels,
                               unsigned margin, wu_png_effort *effort, tc_err *err)
{
    enum {
        ROWS = 16,   /* the most rows of a piece */
        LEAST = 128, /* the fewest columns of a piece */
        MOST = 256,  /* the most columns of a piece */
        SHARE = 64,  /* the pieces have about 1 / SHARE of the pixels, within the limits above */
        N = sizeof efforts / sizeof *efforts
    };
    const uint64_t n = (uint64_t)info->width * info->height;
    const uint32_t rows = info->height / PLACES < ROWS ? info->height / PLACES : ROWS;
    const uint64_t share = rows > 0 ? n / SHARE / rows / PLACES : 0, columns = share < LEAST ? LEAST
                                                                               : share > MOST
                                                                                   ? MOST
                                                                                   : share;
    wu_png_info part = *info;
    uint64_t bytes[N] = { 0 }, least = UINT64_MAX;
    tc_status status = TC_OK;
    *effort = efforts[0];
    part.width = columns < info->width ? (uint32_t)columns : info->width;
    part.height = rows * PLACES;
    if (rows == 0 || (uint64_t)part.width * part.height > n / 4) /* a trial would take too long */
        return TC_OK;
    unsigned char *const copy = copy_part(info, pixels, &part);
    if (copy == NULL)
        return tc_no_memory(err, "writing a PNG");
    for (size_t i = 0; status == TC_OK && i < N; i++) {
        status =
            wu_png_write_with_effort(efforts[i], count_bytes, &bytes[i], what, &part, copy, err);
        least = bytes[i] < least ? bytes[i] : least;
    }
    /* If the part compresses well, another effort must save a fifth to replace the first one:
     * compressing such pictures takes little time, and they contain more repetitions than the part.
     */
    const bool compresses_well = least <= bytes_of_row(&part) * part.height / LITTLE;
    const uint64_t most = compresses_well ? bytes[0] / 5 * 4 : least + least / margin;
    for (size_t i = 0; status == TC_OK && i < N; i++)
        if (bytes[i] <= most)
            *effort = efforts[i];
    free(copy);
    return status;
}

tc_status wu_png_choose_effort(const char *what, const wu_png_info *info, const void *pixels,
                               wu_png_effort *effort, tc_err *err)
{
    return choose_effort(what, info, pixels, MARGIN, effort, err);
}

tc_status wu_png_write(wu_write_fn write, void *user, const char *what, const wu_png_info *info,
                       const void *pixels, tc_err *err)
{
    wu_png_effort effort;
    const tc_status status = wu_png_choose_effort(what, info, pixels, &effort, err);
    return status == TC_OK ? wu_png_write_with_effort(effort, write, user, what, info, pixels, err)
                           : status;
}

tc_status wu_png_write_for_page(wu_write_fn write, void *user, const char *what,
                                const wu_png_info *info, const void *pixels, tc_err *err)
{
    wu_png_effort effort;
    const tc_status status = choose_effort(what, info, pixels, PAGE_MARGIN, &effort, err);
    return status == TC_OK ? wu_png_write_with_effort(effort, write, user, what, info, pixels, err)
                           : status;
}

size_t wu_png_strip(unsigned char *png, size_t n)
{
    /* Offsets of fields of the header in the file. */
    enum { BITS = SIGNATURE + 16, COLOUR, INTERLACED = COLOUR + 3 };
    if (n < SIGNATURE + FRAME + 13)
        return 0;
    const bool grey = png[COLOUR] == PNG_COLOR_TYPE_GRAY && (png[BITS] == 8 || png[BITS] == 16);
    if ((!grey && (png[COLOUR] != PNG_COLOR_TYPE_RGB || png[BITS] != 8)) || png[INTERLACED] != 0)
        return 0;
    size_t to = SIGNATURE;
    for (size_t at = to; n - at >= FRAME;) {
        const size_t size = FRAME + ((size_t)png[at] << 24 | (size_t)png[at + 1] << 16 |
                                     (size_t)png[at + 2] << 8 | png[at + 3]);
        const bool end = memcmp(png + at + 4, "IEND", 4) == 0;
        if (size > n - at)
            return 0;
        if (end || memcmp(png + at + 4, "IHDR", 4) == 0 || memcmp(png + at + 4, "IDAT", 4) == 0) {
            memmove(png + to, png + at, size);
            to += size;
        }
        if (end)
            return to;
        at += size;
    }
    return 0;
}

/* Returns log2(n) in units of 2^-8, rounded down; n > 0. Each squaring of the mantissa x gives one
 * more bit of the fraction: the bit is 1 if the square is 2 or more. */
static uint64_t log2_of(uint32_t n)
{
    const unsigned whole = 31 - (unsigned)__builtin_clz(n);
    uint64_t log2 = whole,
             x = (uint64_t)n << (31 - whole); /* x is from 1 to 2, in units of 2^-31 */
    for (int bit = 0; bit < 8; bit++) {
        x = x * x >> 31;
        log2 = 2 * log2 + (x >> 32);
        x >>= x >> 32;
    }
    return log2;
}

/* The number of bits that an ideal code needs for bytes with these counts: the number of bytes
 * times their entropy. */
static uint64_t entropy_of(const uint32_t count[256])
{
    uint32_t all = 0;
    uint64_t bits = 0;
    for (size_t i = 0; i < 256; i++)
        all += count[i];
    for (size_t i = 0; i < 256; i++)
        if (count[i] > 0)
            bits += count[i] * (log2_of(all) - log2_of(count[i]));
    return bits >> 8;
}

bool wu_png_is_incompressible(const wu_png_info *info, const void *pixels, size_t n)
{
    enum {
        NOISE = 3, /* the least entropy of noise, in bits per byte */
        ROOM = 256 /* bytes allowed for chunks and code tables */
    };
    /* The bytes are differences to the pixel on the left, or to the pixel above. */
    const size_t pixel = (size_t)info->channels * (info->bits / 8), stride = info->width * pixel,
                 all = stride * info->height;
    const uint8_t *const bytes = pixels;
    uint32_t left[256] = { 0 }, above[256] = { 0 };
    for (size_t i = pixel; i < all; i++)
        left[(uint8_t)(bytes[i] - bytes[i - pixel])]++;
    for (size_t i = stride; i < all; i++)
        above[(uint8_t)(bytes[i] - bytes[i - stride])]++;
    const uint64_t by_left = entropy_of(left), by_above = entropy_of(above),
                   bits = by_left < by_above ? by_left : by_above;
    return bits >= NOISE * all && n <= bits / 8 + bits / 400 + ROOM; /* within 2% of the entropy */
}

static int write_to_file(void *user, const void *buf, size_t n)
{
    return fwrite(buf, 1, n, user) == n ? 0 : -1;
}

tc_status wu_png_write_file(const char *path, const wu_png_info *info, const void *pixels,
                            tc_err *err)
{
    wu_new_file out;
    tc_status status = wu_new_file_open(path, &out, err);
    if (status == TC_OK)
        status = wu_png_write(write_to_file, out.file, path, info, pixels, err);
    return wu_new_file_close(&out, status, err);
}

void wu_library_versions(char *text, size_t size)
{
    snprintf(text, size, "zlib %s, libpng %s, jansson %s", zlibVersion(), png_get_libpng_ver(NULL),
             JANSSON_VERSION);
}
