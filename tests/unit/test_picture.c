/* Unit tests of the picture decoders, for cases that wu_tools.py cannot test, and of the order of
 * slices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <tiffio.h>

#include "tests/unit/scratch.h"
#include "workunits/format/job.h"
#include "workunits/tools/picture.h"
#include "workunits/format/png_io.h"
#include "workunits/tools/sources.h"
#include "workunits/tools/tools.h"

/* sources.c prints notes by calling these functions, which the program defines in main.c. */
void wu_print_note(const char *format, ...)
{
    (void)format;
}

void wu_print_note_of_file(const char *path, const char *format, ...)
{
    (void)path;
    (void)format;
}

enum { NX = 7, NY = 5, PAGES = 3 };

typedef struct fixture {
    char *folder, *path;
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    if (f == NULL)
        return -1;
    f->folder = make_folder();
    f->path = join_path(f->folder, "picture");
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    remove_folder(f->folder);
    free(f->path);
    free(f);
    return 0;
}

/* Writes a page of a TIFF with samples of 16 bits, which count up from `first`. */
static void write_page(TIFF *tiff, uint16_t photometric, uint16_t first, uint32_t kind)
{
    TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, NX);
    TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, NY);
    TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, 16);
    TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, 1);
    TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, photometric);
    TIFFSetField(tiff, TIFFTAG_SUBFILETYPE, kind);
    for (uint32_t y = 0; y < NY; y++) {
        uint16_t row[NX];
        for (uint32_t x = 0; x < NX; x++)
            row[x] = (uint16_t)(first + y * NX + x);
        assert_int_equal(TIFFWriteScanline(tiff, row, y, 0), 1);
    }
    assert_int_equal(TIFFWriteDirectory(tiff), 1);
}

static const wu_picture_want image = { .kind = WU_KIND_IMAGE };

static tc_status open_fails(const fixture *f, const char *word)
{
    tc_err err = { "" };
    wu_picture *picture = NULL;
    const tc_status status = wu_picture_open(f->path, &image, &picture, &err);
    assert_null(picture);
    assert_int_equal(strncmp(err.message, f->path, strlen(f->path)), 0);
    if (strstr(err.message, word) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", err.message, word);
    return status;
}

static void test_png(void **state)
{
    const fixture *f = *state;
    const wu_png_info info = { NX, NY, 16, 1 };
    uint16_t pixels[NX * NY], got[NX * NY];
    for (size_t i = 0; i < sizeof pixels / sizeof pixels[0]; i++)
        pixels[i] = (uint16_t)(i * 1777);
    assert_int_equal(wu_png_write_file(f->path, &info, pixels, NULL), TC_OK);

    wu_picture *picture = NULL;
    tc_err err = { "" };
    assert_int_equal(wu_picture_open(f->path, &image, &picture, &err), TC_OK);
    const wu_picture_info *seen = wu_picture_get_info(picture);
    assert_string_equal(wu_picture_format(picture), "PNG");
    assert_int_equal(seen->nx, NX);
    assert_int_equal(seen->ny, NY);
    assert_int_equal(seen->nz, 1);
    assert_int_equal(seen->bits, 16);
    assert_int_equal(seen->channels, 1);
    assert_int_equal(wu_picture_page_bytes(seen), sizeof pixels);
    assert_int_equal(wu_picture_next(picture, got, &err), TC_OK);
    assert_memory_equal(got, pixels, sizeof pixels);
    assert_null(wu_picture_note(picture));
    assert_int_equal(wu_picture_next(picture, got, &err), TC_INTERNAL);
    wu_picture_close(&picture);
    assert_null(picture);
    wu_picture_close(&picture);
}

static void test_tiff_pages(void **state)
{
    const fixture *f = *state;
    TIFF *tiff = TIFFOpen(f->path, "w");
    assert_non_null(tiff);
    write_page(tiff, PHOTOMETRIC_MINISBLACK, 1000, FILETYPE_REDUCEDIMAGE);
    write_page(tiff, PHOTOMETRIC_MINISBLACK, 2000, FILETYPE_PAGE);
    write_page(tiff, PHOTOMETRIC_MINISWHITE, 3000, FILETYPE_PAGE);
    write_page(tiff, PHOTOMETRIC_MINISBLACK, 4000, FILETYPE_MASK);
    write_page(tiff, PHOTOMETRIC_MINISBLACK, 5000, FILETYPE_PAGE);
    TIFFClose(tiff);

    wu_picture *picture = NULL;
    tc_err err = { "" };
    uint16_t got[NX * NY];
    const uint16_t first[PAGES] = { 2000, 65535 - 3000, 5000 };
    const int step[PAGES] = { 1, -1, 1 };
    assert_int_equal(wu_picture_open(f->path, &image, &picture, &err), TC_OK);
    assert_int_equal(wu_picture_get_info(picture)->nz, PAGES);
    for (size_t page = 0; page < PAGES; page++) {
        assert_int_equal(wu_picture_next(picture, got, &err), TC_OK);
        for (int i = 0; i < NX * NY; i++)
            assert_int_equal(got[i], first[page] + step[page] * i);
    }
    assert_non_null(strstr(wu_picture_note(picture), "left out"));
    assert_int_equal(wu_picture_next(picture, got, &err), TC_INTERNAL);
    wu_picture_close(&picture);
}

/* A TIFF that is truncated anywhere, even within the offset of the next page, is refused. */
static void test_tiff_cut(void **state)
{
    const fixture *f = *state;
    TIFF *tiff = TIFFOpen(f->path, "w");
    assert_non_null(tiff);
    write_page(tiff, PHOTOMETRIC_MINISBLACK, 1, FILETYPE_PAGE);
    TIFFClose(tiff);
    unsigned char bytes[4096];
    FILE *file = fopen(f->path, "rb");
    assert_non_null(file);
    const size_t whole = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    assert_true(whole > 100 && whole < sizeof bytes);
    for (size_t n = 0; n < whole; n++) {
        tc_err err = { "" };
        wu_picture *picture = NULL;
        uint16_t got[NX * NY];
        write_file(f->path, bytes, n);
        tc_status status = wu_picture_open(f->path, &image, &picture, &err);
        if (status == TC_OK)
            status = wu_picture_next(picture, got, &err);
        wu_picture_close(&picture);
        if (status != TC_BAD_INPUT)
            fail_msg("%zu of %zu bytes: status %d", n, whole, (int)status);
    }
}

static void test_refused(void **state)
{
    const fixture *f = *state;
    assert_int_equal(open_fails(f, "No such file"), TC_BAD_INPUT);
    write_file(f->path, "", 0);
    assert_int_equal(open_fails(f, "empty"), TC_BAD_INPUT);
    write_file(f->path, "XY picture", 10);
    assert_int_equal(open_fails(f, "is not a PNG, JPEG, TIFF or NIfTI"), TC_BAD_INPUT);
    write_file(f->path, "BM picture", 10);
    assert_int_equal(open_fails(f, "is a BMP picture, not a PNG"), TC_BAD_INPUT);
    write_file(f->path, "%PDF-1.5", 8);
    assert_int_equal(open_fails(f, "is a PDF document"), TC_BAD_INPUT);
    const fixture folder = { .folder = f->folder, .path = f->folder };
    assert_int_equal(open_fails(&folder, "not a regular file"), TC_BAD_INPUT);
}

/* Sizes in a header are checked before memory is allocated for them. */
static void test_limits(void **state)
{
    const fixture *f = *state;
    const struct {
        uint32_t nx, ny;
        tc_status expected;
    } cases[] = {
        { WU_MAX_SIDE, 1, TC_OK },
        { WU_MAX_SIDE + 1, 1, TC_BAD_INPUT },
        { 1, WU_MAX_SIDE + 1, TC_BAD_INPUT },
        { 32768, 32768, TC_OK },
        { 32768, 32769, TC_BAD_INPUT },
        { WU_MAX_SIDE, WU_MAX_SIDE, TC_BAD_INPUT },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        TIFF *tiff = TIFFOpen(f->path, "w");
        assert_non_null(tiff);
        TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, cases[i].nx);
        TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, cases[i].ny);
        TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, 8);
        TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, 1);
        TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
        TIFFSetField(tiff, TIFFTAG_ROWSPERSTRIP, cases[i].ny);
        char strip[] = "far too little";
        TIFFWriteRawStrip(tiff, 0, strip, sizeof strip);
        TIFFClose(tiff);
        wu_picture *picture = NULL;
        tc_err err = { "" };
        const tc_status status = wu_picture_open(f->path, &image, &picture, &err);
        wu_picture_close(&picture);
        if (status != cases[i].expected)
            fail_msg("%u x %u: status %d %s", cases[i].nx, cases[i].ny, (int)status, err.message);
    }
}

static void test_order(void **state)
{
    (void)state;
    static const char *const sorted[] = { "",
                                          "10",
                                          "a",
                                          "a01",
                                          "a1",
                                          "a1b",
                                          "a2",
                                          "a02b",
                                          "a10",
                                          "a10.1",
                                          "a10.01b",
                                          "a010z",
                                          "a99999999999999999999998",
                                          "a99999999999999999999999",
                                          "ab" };
    const size_t n = sizeof sorted / sizeof sorted[0];
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < n; k++) {
            const int order = wu_natural_compare(sorted[i], sorted[k]);
            if ((order < 0) != (i < k) || (order > 0) != (i > k))
                fail_msg("%s and %s: %d", sorted[i], sorted[k], order);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_png, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tiff_pages, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tiff_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_limits, setup, teardown),
        cmocka_unit_test(test_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
