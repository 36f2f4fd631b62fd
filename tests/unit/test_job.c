/* Unit tests of reading work units, and of decoding their pixels ahead (prefetch). */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memmem */
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "app/prefetch.h"
#include "tests/unit/make_zip.h"
#include "workunits/format/archive.h"
#include "workunits/format/job.h"

/* Most tests check how a valid work unit is represented in memory, which bad_files.py cannot. */

typedef struct fixture {
    char *folder, *path;
} fixture;

static tc_err err;

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    MUST(f != NULL);
    f->folder = make_folder();
    f->path = join_path(f->folder, "wu.zip");
    memset(&err, 0, sizeof err);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    remove_folder(f->folder);
    free(f->path);
    free(f);
    return 0;
}

static void add_png(zipFile zip, const char *name, uint32_t w, uint32_t h, unsigned bits,
                    unsigned channels, unsigned seed)
{
    bytes b = make_png(w, h, bits, channels, seed);
    zip_add(zip, name, b.data, b.n);
    free(b.data);
}

/* Adds a mask with every third pixel set. */
static void add_mask(zipFile zip, const char *name, uint32_t w, uint32_t h, unsigned bits)
{
    const wu_png_info info = { w, h, bits, 1 };
    const size_t n = (size_t)w * h;
    uint16_t *wide = calloc(n, sizeof *wide);
    MUST(wide != NULL);
    uint8_t *narrow = (uint8_t *)wide;
    bytes b = { 0 };
    for (size_t i = 0; i < n; i++) {
        /* 256 is not zero, although its lower byte is. */
        if (bits == 16)
            wide[i] = i % 3 == 0 ? 256 : 0;
        else
            narrow[i] = i % 3 == 0 ? 1 : 0;
    }
    MUST(wu_png_write(bytes_write, &b, "mask", &info, wide, NULL) == TC_OK);
    zip_add(zip, name, b.data, b.n);
    free(b.data);
    free(wide);
}

static void write_unit(const char *path, const char *items)
{
    char json[4096];
    zipFile zip = zip_create(path);
    snprintf(json, sizeof json,
             "{\"format\": \"texcell-workunit\", \"version\": 3, \"analysis\": \"glcm\","
             " \"parameters\": {\"levels\": [16, 32], \"x\": null}, \"items\": [%s]}",
             items);
    zip_add(zip, "images/", "", 0);
    add_png(zip, "images/grey8.png", 20, 10, 8, 1, 1);
    add_png(zip, "images/grey16.png", 20, 10, 16, 1, 2);
    add_png(zip, "images/rgb.png", 20, 10, 8, 3, 3);
    add_mask(zip, "mask8.png", 20, 10, 8);
    zip_add(zip, "job.json", json, strlen(json));
    add_mask(zip, "mask16.png", 20, 10, 16);
    if (strstr(items, "large.png") != NULL)
        add_png(zip, "large.png", 400, 300, 8, 1, 4);
    zipClose(zip, NULL);
}

#define ALL_ITEMS                                                                     \
    "{\"name\": \"g8\", \"image\": \"images/grey8.png\", \"mask\": \"mask16.png\"},"  \
    "{\"name\": \"g16\", \"image\": \"images/grey16.png\", \"mask\": \"mask8.png\"}," \
    "{\"name\": \"colour\", \"image\": \"images/rgb.png\"},"                          \
    "{\"name\": \"stack\", \"stack\": [\"images/grey8.png\", \"mask8.png\", "         \
    "\"images/grey8.png\"],"                                                          \
    " \"spacing\": [0.29, 0.065, 2], \"mask\": [\"mask8.png\", \"mask16.png\", \"mask16.png\"]}"

static void describes_items(void **state)
{
    const fixture *f = *state;
    wu_job *job = NULL;
    write_unit(f->path, ALL_ITEMS);
    assert_int_equal(wu_job_read(f->path, &job, &err), TC_OK);
    bytes b = read_file(f->path);
    assert_string_equal(job->path, f->path);
    assert_int_equal(job->file_size, b.n);
    assert_int_equal(job->file_crc, crc32(0, b.data, (unsigned)b.n));
    free(b.data);
    assert_string_equal(job->analysis, "glcm");
    assert_int_equal(json_array_size(json_object_get(job->parameters, "levels")), 2);
    assert_int_equal(job->n_items, 4);

    const wu_item *i = &job->items[0];
    assert_string_equal(i->name, "g8");
    assert_false(i->is_stack);
    assert_false(i->has_spacing);
    assert_int_equal(i->n_images, 1);
    assert_int_equal(i->n_masks, 1);
    assert_string_equal(i->images[0], "images/grey8.png");
    assert_string_equal(i->masks[0], "mask16.png");
    assert_true(i->spacing[0] == 1 && i->spacing[1] == 1 && i->spacing[2] == 1);
    assert_true(i->nx == 20 && i->ny == 10 && i->nz == 1 && i->bits == 8 && i->channels == 1);
    i = &job->items[1];
    assert_true(i->bits == 16 && i->channels == 1);
    i = &job->items[2];
    assert_true(i->bits == 8 && i->channels == 3 && i->n_masks == 0);
    i = &job->items[3];
    assert_true(i->is_stack && i->has_spacing && i->n_images == 3 && i->n_masks == 3);
    assert_true(i->spacing[0] == 0.29 && i->spacing[1] == 0.065 && i->spacing[2] == 2);
    assert_true(i->nx == 20 && i->ny == 10 && i->nz == 3 && i->bits == 8 && i->channels == 1);
    assert_string_equal(i->images[1], "mask8.png");
    wu_job_destroy(&job);
    assert_null(job);
    wu_job_destroy(&job);
}

static void loads_pixels(void **state)
{
    const fixture *f = *state;
    wu_job *job = NULL;
    wu_pixels p;
    write_unit(f->path, ALL_ITEMS);
    assert_int_equal(wu_job_read(f->path, &job, &err), TC_OK);

    assert_int_equal(wu_item_load(job, 0, &p, &err), TC_OK);
    assert_true(p.nx == 20 && p.ny == 10 && p.nz == 1 && p.bits == 8);
    assert_null(p.u16);
    for (size_t i = 0; i < 200; i++) {
        assert_int_equal(p.u8[i], (uint8_t)pattern(1, i));
        assert_int_equal(p.mask[i], i % 3 == 0);
    }
    wu_pixels_free(&p);
    assert_null(p.u8);

    assert_int_equal(wu_item_load(job, 1, &p, &err), TC_OK);
    assert_int_equal(p.bits, 16);
    assert_null(p.u8);
    for (size_t i = 0; i < 200; i++) {
        assert_int_equal(p.u16[i], (uint16_t)pattern(2, i));
        assert_int_equal(p.mask[i], i % 3 == 0);
    }
    wu_pixels_free(&p);

    assert_int_equal(wu_item_load(job, 2, &p, &err), TC_OK);
    assert_null(p.mask);
    for (size_t i = 0; i < 200; i++) {
        const unsigned sum = (pattern(3, 3 * i) & 255) + (pattern(3, 3 * i + 1) & 255) +
                             (pattern(3, 3 * i + 2) & 255);
        assert_int_equal(p.u8[i], sum / 3);
    }
    wu_pixels_free(&p);

    assert_int_equal(wu_item_load(job, 3, &p, &err), TC_OK);
    assert_int_equal(p.nz, 3);
    for (size_t i = 0; i < 600; i++) {
        assert_int_equal(p.u8[i], i / 200 == 1 ? (i - 200) % 3 == 0 : (uint8_t)pattern(1, i % 200));
        assert_int_equal(p.mask[i], i % 200 % 3 == 0);
    }
    wu_pixels_free(&p);

    assert_int_equal(wu_item_load(job, 4, &p, &err), TC_INTERNAL);
    wu_job_destroy(&job);
}

static void parameters_may_be_absent(void **state)
{
    const fixture *f = *state;
    wu_job *job = NULL;
    const char json[] = "{\"items\": [{\"image\": \"i.png\", \"name\": \"i\"}], \"analysis\": "
                        "\"x\", \"version\": 3,"
                        " \"format\": \"texcell-workunit\"}";
    zipFile zip = zip_create(f->path);
    zip_add(zip, "job.json", json, strlen(json));
    add_png(zip, "i.png", 1, 1, 8, 1, 1);
    zipClose(zip, NULL);
    assert_int_equal(wu_job_read(f->path, &job, &err), TC_OK);
    assert_true(json_is_object(job->parameters));
    assert_int_equal(json_object_size(job->parameters), 0);
    wu_job_destroy(&job);
}

static void works_without_error_struct(void **state)
{
    const fixture *f = *state;
    wu_job *job = NULL;
    assert_int_equal(wu_job_read("/none/such.zip", &job, NULL), TC_BAD_INPUT);
    assert_null(job);
    write_unit(f->path, "{}");
    assert_int_equal(wu_job_read(f->path, &job, NULL), TC_BAD_INPUT);
    assert_null(job);
}

/* --- the file changes between reading and loading --------------------------------------------- */

/* The file that was checked stays open: deleting or replacing it has no effect. */
static void keeps_checked_file_open(void **state)
{
    const fixture *f = *state;
    wu_job *job = NULL;
    wu_pixels p;
    write_unit(f->path, ALL_ITEMS);
    assert_int_equal(wu_job_read(f->path, &job, &err), TC_OK);
    unlink(f->path);
    write_file(f->path, "PK\3\4 another", 12);
    assert_int_equal(wu_item_load(job, 0, &p, &err), TC_OK);
    for (size_t k = 0; k < 200; k++)
        assert_int_equal(p.u8[k], (uint8_t)pattern(1, k));
    wu_pixels_free(&p);
    wu_job_destroy(&job);
}

/* The callback of a tc_poll. *user: the number of further calls that return TC_OK. */
static tc_status ask_counted(void *user, tc_err *e)
{
    int *const left = user;
    return (*left)-- > 0 ? TC_OK : tc_fail(e, TC_TRY_LATER, "enough");
}

static void wait_for_end(prefetch *a)
{
    const double until = tc_seconds() + 30;
    while (!prefetch_has_ended(a, 1) && tc_seconds() < until)
        ;
    assert_true(prefetch_has_ended(a, 0));
}

/* Prefetched pixels equal those loaded directly. With one thread they are decoded while the main
 * thread sleeps, with several threads at the same time as it works. */
static void decodes_ahead(void **state)
{
    const fixture *f = *state;
    wu_job *job = NULL;
    int often = 1 << 20;
    const tc_poll poll = { ask_counted, &often };
    write_unit(f->path, ALL_ITEMS
               ", {\"name\": \"large\", \"stack\": [\"large.png\", \"large.png\", \"large.png\"]}");
    assert_int_equal(wu_job_read(f->path, &job, &err), TC_OK);
    for (unsigned threads = 1; threads < 4; threads++) {
        prefetch a;
        job->threads = threads;
        prefetch_init(&a, job);
        for (size_t i = 0; i < 5; i++) {
            wu_pixels p, q;
            prefetch_begin(&a, i);
            assert_true(a.has_thread);
            assert_true(threads > 1 || !prefetch_has_ended(&a, 0.01));
            if (threads > 1)
                wait_for_end(&a);
            assert_int_equal(prefetch_take(&a, i, &poll, &p, &err), TC_OK);
            assert_false(a.has_thread);
            assert_int_equal(wu_item_load(job, i, &q, &err), TC_OK);
            const size_t n = (size_t)p.nx * p.ny * p.nz;
            assert_true(p.nx == q.nx && p.ny == q.ny && p.nz == q.nz && p.bits == q.bits &&
                        (p.mask == NULL) == (q.mask == NULL));
            assert_memory_equal(p.bits == 8 ? (void *)p.u8 : p.u16,
                                q.bits == 8 ? (void *)q.u8 : q.u16, n * (p.bits / 8));
            if (p.mask != NULL)
                assert_memory_equal(p.mask, q.mask, n);
            wu_pixels_free(&p);
            wu_pixels_free(&q);
        }
        prefetch_begin(&a, 5); /* there is no item 5 */
        assert_false(a.has_thread);
        prefetch_begin(&a, 1); /* not the item that is taken next */
        wu_pixels p;
        assert_int_equal(prefetch_take(&a, 2, &poll, &p, &err), TC_OK);
        assert_true(p.mask == NULL && a.has_thread);
        wu_pixels_free(&p);
        prefetch_destroy(&a);
    }
    wu_job_destroy(&job);
}

/* While background threads are paused nothing is decoded, and waiting for pixels can be stopped. */
static void pauses_decoding(void **state)
{
    const fixture *f = *state;
    wu_job *job = NULL;
    wu_pixels p;
    prefetch a;
    int none = 0;
    const tc_poll poll = { ask_counted, &none };
    write_unit(f->path, ALL_ITEMS);
    assert_int_equal(wu_job_read(f->path, &job, &err), TC_OK);
    job->threads = 2;
    prefetch_init(&a, job);
    tc_background_pause_threads(&a.background); /* as before the client allows work */
    prefetch_begin(&a, 0);
    assert_int_equal(prefetch_take(&a, 0, &poll, &p, &err), TC_TRY_LATER);
    assert_string_equal(err.message, "enough");
    assert_false(prefetch_has_ended(&a, 0.02));
    tc_background_resume_threads(&a.background);
    wait_for_end(&a);
    prefetch_destroy(&a); /* the pixels were never taken */

    prefetch_init(&a, job);
    tc_background_pause_threads(&a.background);
    prefetch_begin(&a, 3);
    prefetch_destroy(&a);
    assert_int_equal(a.status, TC_TRY_LATER);
    wu_job_destroy(&job);
}

static void detects_changed_file(void **state)
{
    const fixture *f = *state;
    wu_job *job = NULL;
    wu_pixels p;
    write_unit(f->path, ALL_ITEMS);
    bytes b = read_file(f->path);
    assert_int_equal(wu_job_read(f->path, &job, &err), TC_OK);

    write_file(f->path, b.data, b.n - 1);
    assert_int_equal(wu_item_load(job, 0, &p, &err), TC_BAD_INPUT);
    assert_non_null(strstr(err.message, "wu.zip: the file has changed since it was checked"));
    assert_null(p.u8);

    /* A file of the same size in which one byte differs is detected, or gives the same pixels. */
    const unsigned char *local = memmem(b.data, b.n, "images/grey8.png", 16);
    assert_non_null(local);
    const size_t at = (size_t)(local - b.data);
    int harmless = 0;
    for (size_t i = at; i < at + 16 + 40; i++) {
        b.data[i] ^= 1;
        write_file(f->path, b.data, b.n);
        b.data[i] ^= 1;
        if (wu_item_load(job, 0, &p, &err) == TC_OK) {
            for (size_t k = 0; k < 200; k++)
                assert_int_equal(p.u8[k], (uint8_t)pattern(1, k));
            harmless++;
        } else {
            assert_non_null(strstr(err.message, "wu.zip: "));
            assert_non_null(strstr(err.message, "images/grey8.png"));
        }
        wu_pixels_free(&p);
    }
    assert_int_equal(harmless, 16); /* the name in the local header, which is not used */
    /* The content of the same file is overwritten. */
    memset(b.data, 0, b.n);
    write_file(f->path, b.data, b.n);
    assert_int_equal(wu_item_load(job, 0, &p, &err), TC_BAD_INPUT);
    assert_non_null(strstr(err.message, "wu.zip: member \"images/grey8.png\" is corrupt"));
    free(b.data);
    /* If prefetching fails, the error is reported when the item is taken. */
    prefetch a;
    const tc_poll none = { NULL, NULL };
    prefetch_init(&a, job);
    prefetch_begin(&a, 0);
    err.message[0] = '\0';
    assert_int_equal(prefetch_take(&a, 0, &none, &p, &err), TC_BAD_INPUT);
    assert_int_equal(a.status, TC_BAD_INPUT);
    assert_non_null(strstr(err.message, "wu.zip: member \"images/grey8.png\" is corrupt"));
    assert_null(p.u8);
    prefetch_destroy(&a);
    wu_job_destroy(&job);
}

/* --- size ------------------------------------------------------------------------------------ */

/* A job of the largest number of items, which share pictures, and one with more members than the
 * old ZIP format allows: neither may take quadratic time. */
static void reads_largest_job(void **state)
{
    const fixture *f = *state;
    enum { N = 100000, SLICES = 66000 };
    wu_job *job = NULL;
    bytes json = { 0 };
    char text[128];
    zipFile zip = zip_create(f->path);
    const char head[] =
        "{\"format\": \"texcell-workunit\", \"version\": 3, \"analysis\": \"glcm\", \"items\": [";
    bytes_write(&json, head, strlen(head));
    bytes png = make_png(4, 4, 8, 1, 1);
    for (int i = 0; i < N; i++) {
        /* Names with a long common beginning. */
        const int n = snprintf(text, sizeof text,
                               "%s{\"name\": \"item_%06d\", \"image\": \"pictures/%06d.png\"}",
                               i > 0 ? ", " : "", i, i % SLICES);
        bytes_write(&json, text, (size_t)n);
    }
    for (int i = 0; i < SLICES; i++) {
        snprintf(text, sizeof text, "pictures/%06d.png", i);
        zip_add(zip, text, png.data, png.n);
    }
    bytes_write(&json, "]}", 2);
    zip_add(zip, "job.json", json.data, json.n);
    zipClose(zip, NULL);
    if (wu_job_read(f->path, &job, &err) != TC_OK)
        fail_msg("%s", err.message);
    assert_int_equal(job->n_items, N);
    wu_pixels p;
    assert_int_equal(wu_item_load(job, N - 1, &p, &err), TC_OK);
    wu_pixels_free(&p);
    wu_job_destroy(&job);
    free(json.data);
    free(png.data);
}

/* --- names ----------------------------------------------------------------------------------- */

static void checks_names(void **state)
{
    (void)state;
    char longest[WU_MAX_NAME + 2];
    memset(longest, 'x', sizeof longest);
    longest[WU_MAX_NAME] = '\0';
    assert_true(wu_is_item_name("a"));
    assert_true(wu_is_item_name("Drop_0001.v2-b"));
    assert_true(wu_is_item_name("-"));
    assert_true(wu_is_item_name(longest));
    longest[WU_MAX_NAME] = 'x';
    longest[WU_MAX_NAME + 1] = '\0';
    static const char *const bad[] = { "",    ".",   "..",       ".a",  "a/b", "a\\b",
                                       "a b", "a\n", "\xc3\xa9", "a:b", "a*" };
    assert_false(wu_is_item_name(longest));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(wu_is_item_name(bad[i]));
}

static void quotes_text(void **state)
{
    (void)state;
    char text[300];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    assert_string_equal(wu_quote("plain text").text, "plain text");
    assert_string_equal(wu_quote("a\nb\x1b[0m\x7f\xc3\xa9").text, "a?b?[0m???");
    assert_string_equal(wu_quote("").text, "");
    assert_int_equal(strlen(wu_quote(text).text), 131);
    text[128] = '\0';
    assert_string_equal(wu_quote(text).text, text);
    text[128] = 'x';
    text[129] = '\0';
    assert_string_equal(wu_quote(text).text + 125, "xxx...");
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(describes_items),          IN_FOLDER(loads_pixels),
        IN_FOLDER(parameters_may_be_absent), IN_FOLDER(works_without_error_struct),
        IN_FOLDER(keeps_checked_file_open),  IN_FOLDER(decodes_ahead),
        IN_FOLDER(pauses_decoding),          IN_FOLDER(detects_changed_file),
        IN_FOLDER(reads_largest_job),        cmocka_unit_test(checks_names),
        cmocka_unit_test(quotes_text),
    };
    return cmocka_run_group_tests_name("job", tests, NULL, NULL);
}
