/* Unit tests of reading and writing PNG. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <png.h>

#include "tests/unit/make_zip.h"

static tc_err err;

static tc_status read_info(bytes *b, wu_png_info *info)
{
    b->pos = 0;
    memset(&err, 0, sizeof err);
    return wu_png_read_info(bytes_read, b, b->n, "F: p.png", info, &err);
}

static tc_status read_pixels(bytes *b, const wu_png_info *info, void *pixels)
{
    b->pos = 0;
    memset(&err, 0, sizeof err);
    return wu_png_read(bytes_read, b, b->n, "F: p.png", info, pixels, &err);
}

static void check_round_trip(uint32_t width, uint32_t height, unsigned bits, unsigned channels)
{
    const size_t n = (size_t)width * height * channels;
    bytes b = make_png(width, height, bits, channels, 5);
    uint16_t *wide = calloc(n, sizeof *wide);
    const uint8_t *narrow = (const uint8_t *)wide;
    wu_png_info info;
    b.at_most = 7;
    assert_int_equal(read_info(&b, &info), TC_OK);
    assert_int_equal(info.width, width);
    assert_int_equal(info.height, height);
    assert_int_equal(info.bits, bits);
    assert_int_equal(info.channels, channels);
    assert_int_equal(read_pixels(&b, &info, wide), TC_OK);
    assert_int_equal(b.pos, b.n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(bits == 8 ? narrow[i] : wide[i],
                         pattern(5, i) & (bits == 8 ? 0xffu : 0xffffu));
    free(wide);
    free(b.data);
}

static void reads_written_files(void **state)
{
    (void)state;
    check_round_trip(1, 1, 8, 1);
    check_round_trip(37, 23, 8, 1);
    check_round_trip(37, 23, 16, 1);
    check_round_trip(37, 23, 8, 3);
    check_round_trip(65535, 2, 16, 1);
    check_round_trip(3, 1000, 8, 3);
}

/* Noise, runs and uniform pictures use every deflate method, over several blocks and chunks. */
static void reads_any_pixels(void **state)
{
    static const wu_png_info infos[] = {
        { 700, 500, 8, 1 }, { 700, 500, 16, 1 }, { 700, 500, 8, 3 }, { 65535, 3, 8, 3 },
        { 3, 4000, 8, 1 },  { 33000, 9, 8, 1 },  { 16, 40, 16, 1 },
    };
    (void)state;
    for (size_t k = 0; k < sizeof infos / sizeof *infos; k++)
        for (uint32_t most = 1; most <= 256; most *= 4) {
            const wu_png_info *const h = &infos[k];
            const size_t n = (size_t)h->width * h->height * h->channels * (h->bits / 8);
            uint8_t *const pixels = malloc(n), *const seen = malloc(n);
            bytes b = { 0 };
            uint32_t seed = most;
            assert_true(pixels != NULL && seen != NULL);
            for (size_t i = 0; i < n; i++) {
                seed = seed * 1664525u + 1013904223u;
                pixels[i] = (uint8_t)((seed >> 16) % most);
                for (uint32_t run = most < 256 ? (seed >> 8) % 1000 : 0; run > 0 && i + 1 < n;
                     run--, i++)
                    pixels[i + 1] = i < 5000 ? pixels[i] : pixels[i - 4999];
            }
            assert_int_equal(wu_png_write(bytes_write, &b, "F", h, pixels, &err), TC_OK);
            assert_true(b.n < n + h->height + n / 50 + 400);
            assert_int_equal(read_pixels(&b, h, seen), TC_OK);
            assert_memory_equal(pixels, seen, n);
            free(b.data);
            free(pixels);
            free(seen);
        }
}

/* libpng's callback for writing. libpng writes the kinds of PNG that wu_png_write does not. */
static void to_bytes(png_structp png, png_bytep data, size_t n)
{
    bytes_write(png_get_io_ptr(png), data, n);
}

/* Reads a PNG whose rows have this filter, written by libpng. */
static void check_filter(const wu_png_info *h, int filter)
{
    const size_t row = (size_t)h->width * h->channels * (h->bits / 8);
    uint8_t *const pixels = malloc(row * h->height), *const seen = malloc(row * h->height);
    bytes b = { 0 };
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    assert_true(pixels != NULL && seen != NULL);
    for (size_t i = 0; i < row * h->height; i++)
        pixels[i] = (uint8_t)(pattern(3, i) >> i % 5);
    MUST(setjmp(png_jmpbuf(png)) == 0);
    png_set_write_fn(png, &b, to_bytes, NULL);
    png_set_IHDR(png, info, h->width, h->height, (int)h->bits,
                 h->channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, 0, 0, 0);
    png_set_filter(png, 0, filter);
    png_set_gAMA(png, info, 0.3);
    png_write_info(png, info);
    png_set_swap(png);
    for (uint32_t y = 0; y < h->height; y++)
        png_write_row(png, pixels + y * row);
    png_write_end(png, NULL);
    png_destroy_write_struct(&png, &info);
    assert_int_equal(read_pixels(&b, h, seen), TC_OK);
    assert_memory_equal(pixels, seen, row * h->height);
    for (size_t i = 0; i < b.n; i += 1 + b.n / 97) { /* a wrong byte is noticed by a CRC */
        b.data[i] ^= 16;
        assert_int_not_equal(read_pixels(&b, h, seen), TC_OK);
        b.data[i] ^= 16;
    }
    free(b.data);
    free(pixels);
    free(seen);
}

static void reads_every_filter(void **state)
{
    static const int filters[] = { PNG_FILTER_NONE, PNG_FILTER_SUB,   PNG_FILTER_UP,
                                   PNG_FILTER_AVG,  PNG_FILTER_PAETH, PNG_ALL_FILTERS };
    static const wu_png_info infos[] = { { 61, 23, 8, 1 }, { 61, 23, 16, 1 }, { 61, 23, 8, 3 },
                                         { 1, 9, 8, 3 },   { 1, 1, 8, 1 },    { 200, 3, 8, 3 } };
    (void)state;
    for (size_t k = 0; k < sizeof infos / sizeof *infos; k++)
        for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
            check_filter(&infos[k], filters[i]);
}

static void writes_the_same_bytes(void **state)
{
    (void)state;
    bytes a = make_png(64, 48, 16, 1, 3), b = make_png(64, 48, 16, 1, 3);
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.data, b.data, a.n);
    free(a.data);
    free(b.data);
}

static bytes foreign_png(int bits, int colour, int interlace, size_t comment)
{
    bytes b = { 0 };
    unsigned char row[64 * 8];
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    const png_color grey[2] = { { 0, 0, 0 }, { 255, 255, 255 } };
    MUST(setjmp(png_jmpbuf(png)) == 0);
    png_set_write_fn(png, &b, to_bytes, NULL);
    png_set_IHDR(png, info, 13, 11, bits, colour, interlace, 0, 0);
    if (colour == PNG_COLOR_TYPE_PALETTE)
        png_set_PLTE(png, info, grey, 2);
    png_set_gAMA(png, info, 0.3);
    if (comment > 0) {
        char *text = malloc(comment + 1);
        char key[] = "Comment";
        png_text t = { .compression = PNG_TEXT_COMPRESSION_NONE,
                       .key = key,
                       .text = text,
                       .text_length = comment };
        MUST(text != NULL);
        memset(text, 'x', comment);
        text[comment] = '\0';
        png_set_text(png, info, &t, 1);
        free(text);
    }
    png_write_info(png, info);
    const int passes = png_set_interlace_handling(png);
    for (int pass = 0; pass < passes; pass++) {
        for (int y = 0; y < 11; y++) {
            for (size_t x = 0; x < sizeof row; x++)
                row[x] =
                    colour == PNG_COLOR_TYPE_PALETTE ? 1 : (unsigned char)(x * 3 + (size_t)y * 17);
            png_write_row(png, row);
        }
    }
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    return b;
}

static void reads_interlaced(void **state)
{
    (void)state;
    bytes plain = foreign_png(8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE, 0);
    bytes laced = foreign_png(8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_ADAM7, 0);
    uint8_t a[13 * 11 * 3], b[13 * 11 * 3];
    wu_png_info info;
    assert_int_equal(read_info(&laced, &info), TC_OK);
    assert_int_equal(read_pixels(&plain, &info, a), TC_OK);
    assert_int_equal(read_pixels(&laced, &info, b), TC_OK);
    assert_memory_equal(a, b, sizeof a);
    assert_int_equal(a[3], 9);
    free(plain.data);
    free(laced.data);
}

/* A gamma chunk does not change samples, and a long text chunk takes no memory. */
static void skips_other_chunks(void **state)
{
    (void)state;
    bytes b = foreign_png(8, PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE, 5 << 20);
    uint8_t p[13 * 11];
    wu_png_info info;
    assert_true(b.n > 5 << 20);
    assert_int_equal(read_info(&b, &info), TC_OK);
    assert_int_equal(read_pixels(&b, &info, p), TC_OK);
    for (size_t i = 0; i < sizeof p; i++)
        assert_int_equal(p[i], (uint8_t)(i % 13 * 3 + i / 13 * 17));
    free(b.data);
}

static void refuses_other_kinds(void **state)
{
    (void)state;
    static const struct {
        int bits, colour;
        const char *words;
    } kinds[] = {
        { 1, PNG_COLOR_TYPE_GRAY, "1-bit grey," },
        { 2, PNG_COLOR_TYPE_GRAY, "2-bit grey," },
        { 4, PNG_COLOR_TYPE_GRAY, "4-bit grey," },
        { 1, PNG_COLOR_TYPE_PALETTE, "1-bit palette," },
        { 8, PNG_COLOR_TYPE_PALETTE, "8-bit palette," },
        { 8, PNG_COLOR_TYPE_GRAY_ALPHA, "8-bit grey with alpha," },
        { 16, PNG_COLOR_TYPE_RGB, "16-bit RGB," },
        { 8, PNG_COLOR_TYPE_RGB_ALPHA, "8-bit RGB with alpha," },
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        bytes b = foreign_png(kinds[i].bits, kinds[i].colour, PNG_INTERLACE_NONE, 0);
        wu_png_info info;
        assert_int_equal(read_info(&b, &info), TC_BAD_INPUT);
        assert_non_null(strstr(err.message, "F: p.png: the PNG is "));
        assert_non_null(strstr(err.message, kinds[i].words));
        assert_non_null(strstr(err.message, "texcell-wu pack"));
        free(b.data);
    }
}

static void refuses_every_truncation(void **state)
{
    (void)state;
    bytes b = make_png(9, 7, 16, 1, 1);
    const size_t whole = b.n;
    const wu_png_info info = { 9, 7, 16, 1 };
    uint16_t p[9 * 7];
    for (b.n = 0; b.n < whole; b.n++) {
        assert_int_equal(read_pixels(&b, &info, p), TC_BAD_INPUT);
        assert_non_null(strstr(err.message, "F: p.png: damaged PNG"));
    }
    assert_int_equal(read_pixels(&b, &info, p), TC_OK);
    free(b.data);
}

/* Every byte of a PNG is covered by a CRC, or has only one valid value. */
static void detects_every_changed_byte(void **state)
{
    (void)state;
    bytes b = make_png(9, 7, 8, 3, 1);
    const wu_png_info info = { 9, 7, 8, 3 };
    uint8_t p[9 * 7 * 3];
    for (size_t i = 0; i < b.n; i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            b.data[i] ^= (unsigned char)(1u << bit);
            assert_int_equal(read_pixels(&b, &info, p), TC_BAD_INPUT);
            b.data[i] ^= (unsigned char)(1u << bit);
        }
    }
    assert_int_equal(read_pixels(&b, &info, p), TC_OK);
    free(b.data);
}

static void refuses_another_header(void **state)
{
    (void)state;
    bytes b = make_png(9, 7, 8, 1, 1);
    const wu_png_info others[] = {
        { 7, 9, 8, 1 }, { 9, 6, 8, 1 }, { 9, 7, 16, 1 }, { 9, 7, 8, 3 }
    };
    uint8_t p[9 * 7 * 6];
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(read_pixels(&b, &others[i], p), TC_BAD_INPUT);
        assert_non_null(strstr(err.message, "header has changed"));
    }
    free(b.data);
}

/* The file's size limits the number of pixels that its header may claim. */
static void refuses_bombs(void **state)
{
    (void)state;
    bytes b = make_png(5000, 5000, 8, 1, 1);
    wu_png_info info;
    assert_int_equal(wu_png_read_info(bytes_read, &b, 5000 * 5001 / 1032 + 1, "F", &info, &err),
                     TC_OK);
    b.pos = 0;
    assert_int_equal(wu_png_read_info(bytes_read, &b, 5000 * 5001 / 1032 - 1, "F", &info, &err),
                     TC_BAD_INPUT);
    assert_non_null(strstr(
        err.message, "F: the PNG claims 5000x5000 pixels, more than its 24228 bytes can hold"));
    free(b.data);
}

static long no_read(void *user, void *buf, size_t n)
{
    (void)user;
    (void)buf;
    (void)n;
    return -1;
}

static int no_write(void *user, const void *buf, size_t n)
{
    int *left = user;
    (void)buf;
    (void)n;
    errno = ENOSPC;
    return (*left)-- > 0 ? 0 : -1;
}

static void reports_failing_callbacks(void **state)
{
    (void)state;
    const wu_png_info info = { 100, 100, 8, 1 };
    wu_png_info seen;
    uint8_t *pixels = calloc(100, 100);
    assert_int_equal(wu_png_read_info(no_read, NULL, 1000, "F", &seen, &err), TC_BAD_INPUT);
    assert_string_equal(err.message, "F: cannot be read");
    int calls = 1000;
    assert_int_equal(wu_png_write(no_write, &calls, "F", &info, pixels, &err), TC_OK);
    const int needed = 1000 - calls;
    assert_true(needed > 3);
    for (int n = 0; n < needed; n++) {
        calls = n;
        assert_int_equal(wu_png_write(no_write, &calls, "F", &info, pixels, &err), TC_IO);
        assert_string_equal(err.message, "F: cannot write: No space left on device");
    }
    free(pixels);
}

static void refuses_to_write_other_kinds(void **state)
{
    (void)state;
    const wu_png_info kinds[] = {
        { 1, 1, 16, 3 }, { 1, 1, 8, 2 }, { 1, 1, 4, 1 }, { 0, 1, 8, 1 }, { 1, 0, 8, 1 }
    };
    uint8_t p[16] = { 0 };
    bytes b = { 0 };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        assert_int_equal(wu_png_write(bytes_write, &b, "F", &kinds[i], p, &err), TC_INTERNAL);
    assert_int_equal(b.n, 0);
}

static void writes_files(void **state)
{
    (void)state;
    char *folder = make_folder();
    char *path = join_path(folder, "p.png"), *bad = join_path(folder, "none/p.png");
    const wu_png_info info = { 300, 200, 8, 1 };
    uint8_t *pixels = calloc(300, 200);
    assert_int_equal(wu_png_write_file(path, &info, pixels, &err), TC_OK);
    bytes b = read_file(path);
    assert_int_equal(read_pixels(&b, &info, pixels), TC_OK);
    assert_int_equal(wu_png_write_file(bad, &info, pixels, &err), TC_IO);
    assert_non_null(strstr(err.message, "/none/p.png: cannot write: the folder "));
    assert_int_equal(wu_png_write_file("/dev/full", &info, pixels, &err), TC_IO);
    assert_string_equal(err.message, "/dev/full: cannot write: not a regular file");
    assert_int_equal(access("/dev/full", F_OK), 0);
    free(b.data);
    free(pixels);
    free(path);
    free(bad);
    remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_written_files),
        cmocka_unit_test(reads_any_pixels),
        cmocka_unit_test(reads_every_filter),
        cmocka_unit_test(writes_the_same_bytes),
        cmocka_unit_test(reads_interlaced),
        cmocka_unit_test(skips_other_chunks),
        cmocka_unit_test(refuses_other_kinds),
        cmocka_unit_test(refuses_every_truncation),
        cmocka_unit_test(detects_every_changed_byte),
        cmocka_unit_test(refuses_another_header),
        cmocka_unit_test(refuses_bombs),
        cmocka_unit_test(reports_failing_callbacks),
        cmocka_unit_test(refuses_to_write_other_kinds),
        cmocka_unit_test(writes_files),
    };
    return cmocka_run_group_tests_name("png", tests, NULL, NULL);
}
