/*
 * Unit tests of writing and reading NPZ files. With arguments, for test_npz_numpy.py, which
 * compares both with NumPy: "--write FILE" writes arrays of every type, "--read FILE" lists the
 * arrays that the reader finds in a file.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memmem */
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "tests/unit/make_zip.h"
#include "workunits/format/npz.h"

typedef struct fixture {
    char *folder, *path, *temporary; /* a new folder; the result's path in it, and that with .tmp */
} fixture;

static tc_err err;

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    MUST(f != NULL);
    f->folder = make_folder();
    f->path = join_path(f->folder, "r.npz");
    f->temporary = join_path(f->folder, "r.npz.tmp");
    memset(&err, 0, sizeof err);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    remove_folder(f->folder);
    free(f->path);
    free(f->temporary);
    free(f);
    return 0;
}

/* --- sizes ----------------------------------------------------------------------------------- */

static void computes_sizes(void **state)
{
    (void)state;
    int ok;
    const size_t sizes[] = { 1, 1, 4, 8, 4, 8 };
    for (unsigned d = WU_BOOL; d <= WU_F64; d++)
        assert_int_equal(wu_dtype_size((wu_dtype)d, 0), sizes[d]);
    assert_int_equal(wu_dtype_size(WU_STR, 5), 20);
    assert_int_equal(wu_dtype_size((wu_dtype)99, 5), 0);
    wu_array_info info = { .dtype = WU_I32, .ndim = 3, .shape = { 2, 3, 5 } };
    assert_int_equal(wu_array_count(&info, &ok), 30);
    assert_int_equal(wu_array_bytes(&info, &ok), 120);
    assert_true(ok);
    info.shape[1] = 0;
    assert_int_equal(wu_array_bytes(&info, &ok), 0);
    assert_true(ok);
}

static void reports_overflow(void **state)
{
    (void)state;
    int ok;
    wu_array_info info = { .dtype = WU_F64,
                           .ndim = 2,
                           .shape = { (uint64_t)1 << 32, (uint64_t)1 << 30 } };
    assert_int_equal(wu_array_count(&info, &ok), (uint64_t)1 << 62);
    assert_true(ok);
    wu_array_bytes(&info, &ok);
    assert_false(ok);
    info.shape[1] = (uint64_t)1 << 32;
    wu_array_count(&info, &ok);
    assert_false(ok);
    /* An overflow is noticed even if another axis is empty. */
    info.ndim = 3;
    info.shape[2] = 0;
    wu_array_count(&info, &ok);
    assert_false(ok);
}

/* --- text ------------------------------------------------------------------------------------ */

static void converts_text(void **state)
{
    (void)state;
    const char *text = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x94\xac";
    const uint32_t chars[] = { 'a', 0xe9, 0x20ac, 0x1f52c };
    uint32_t out[6] = { 9, 9, 9, 9, 9, 9 };
    char back[32];
    assert_int_equal(wu_utf8_to_ucs4(text, NULL, 0), 4);
    assert_int_equal(wu_utf8_to_ucs4(text, out, 3), -1);
    assert_int_equal(wu_utf8_to_ucs4(text, out, 6), 4);
    assert_memory_equal(out, chars, sizeof chars);
    assert_int_equal(out[4], 0);
    assert_int_equal(out[5], 0);
    wu_ucs4_to_utf8(out, 6, back, sizeof back);
    assert_string_equal(back, text);
    wu_ucs4_to_utf8(out, 2, back, sizeof back);
    assert_string_equal(back, "a\xc3\xa9");
    wu_ucs4_to_utf8(out, 6, back, 5);
    assert_string_equal(back, "a\xc3\xa9"); /* a character that does not fit is left out */
}

static void refuses_bad_text(void **state)
{
    (void)state;
    static const char *const bad[] = { "\x80",
                                       "\xc3",
                                       "\xc3(",
                                       "\xc0\xaf",
                                       "\xe0\x80\xaf",
                                       "\xed\xa0\x80",
                                       "\xf4\x90\x80\x80",
                                       "\xf8\x88\x80\x80\x80",
                                       "\xff",
                                       "a\xe2\x82" };
    const uint32_t chars[] = { 0xd800, 0x110000, 0xffffffff, 0x10ffff };
    char back[32];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(wu_utf8_to_ucs4(bad[i], NULL, 0), -1);
    wu_ucs4_to_utf8(chars, 4, back, sizeof back);
    assert_string_equal(back, "???\xf4\x8f\xbf\xbf");
}

/* --- writing --------------------------------------------------------------------------------- */

static wu_array_info array_info(char *name, wu_dtype dtype, uint32_t width, unsigned ndim,
                                uint64_t a, uint64_t b)
{
    const wu_array_info info = {
        .name = name, .dtype = dtype, .width = width, .ndim = ndim, .shape = { a, b }
    };
    return info;
}

static void add(wu_npz_writer *w, const char *name, wu_dtype dtype, uint32_t width, unsigned ndim,
                uint64_t a, uint64_t b, const void *data)
{
    char *copy = strdup(name);
    int ok;
    const wu_array_info info = array_info(copy, dtype, width, ndim, a, b);
    const size_t n = (size_t)wu_array_bytes(&info, &ok);
    assert_int_equal(wu_npz_begin(w, &info, &err), TC_OK);
    /* Data may be written in several parts: here in two. */
    assert_int_equal(wu_npz_write(w, data, n / 3, &err), TC_OK);
    assert_int_equal(wu_npz_write(w, (const char *)data + n / 3, n - n / 3, &err), TC_OK);
    assert_int_equal(wu_npz_end(w, &err), TC_OK);
    free(copy);
}

static const uint8_t bools[3] = { 1, 0, 1 };
static const uint8_t u8s[6] = { 0, 1, 2, 127, 128, 255 };
static const int32_t i32s[4] = { -2147483647 - 1, -1, 0, 2147483647 };
static const int64_t i64s[2] = { INT64_MIN, INT64_MAX };
static const float f32s[4] = { 0.5f, -1e-30f, 3e38f, 0 };
static const double f64s[6] = { 1.0 / 3, -2.5, 1e-300, 1e300, 0, -0.0 };
static const uint32_t strs[2][4] = { { 'n', 0xe9, 0, 0 }, { 'a', 'b', 'c', 'd' } };

/* Writes an array of every type, and some of unusual shapes. */
static void write_sample(const char *path)
{
    wu_npz_writer *w = NULL;
    json_t *json = json_pack("{s:s, s:[i,i], s:f}", "format", "test", "list", 1, 2, "number", 0.1);
    assert_int_equal(wu_npz_create(path, &w, &err), TC_OK);
    assert_int_equal(wu_npz_add_json(w, "result.json", json, &err), TC_OK);
    add(w, "bools", WU_BOOL, 0, 1, 3, 0, bools);
    add(w, "u8s", WU_U8, 0, 2, 2, 3, u8s);
    add(w, "i32s", WU_I32, 0, 2, 4, 1, i32s);
    add(w, "i64s", WU_I64, 0, 1, 2, 0, i64s);
    add(w, "f32s", WU_F32, 0, 1, 4, 0, f32s);
    add(w, "f64s", WU_F64, 0, 2, 2, 3, f64s);
    add(w, "strs", WU_STR, 4, 1, 2, 0, strs);
    add(w, "empty", WU_F64, 0, 2, 0, 7, "");
    add(w, "a.long-name_with.everything-in_it", WU_U8, 0, 1, 1, 0, u8s);
    assert_int_equal(wu_npz_close(&w, &err), TC_OK);
    assert_null(w);
    json_decref(json);
}

static void writes_and_reads(void **state)
{
    const fixture *f = *state;
    wu_npz_reader *r = NULL;
    void *data = NULL;
    write_sample(f->path);
    assert_int_equal(count_files(f->folder), 1);
    assert_int_equal(wu_npz_open(f->path, NULL, &r, &err), TC_OK);
    assert_int_equal(wu_npz_array_count(r), 9);
    assert_string_equal(json_string_value(json_object_get(wu_npz_json(r), "format")), "test");
    static const struct {
        const char *name;
        wu_dtype dtype;
        const void *data;
        size_t n;
    } all[] = {
        { "bools", WU_BOOL, bools, sizeof bools }, { "u8s", WU_U8, u8s, sizeof u8s },
        { "i32s", WU_I32, i32s, sizeof i32s },     { "i64s", WU_I64, i64s, sizeof i64s },
        { "f32s", WU_F32, f32s, sizeof f32s },     { "f64s", WU_F64, f64s, sizeof f64s },
        { "strs", WU_STR, strs, sizeof strs },     { "empty", WU_F64, "", 0 },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        int ok;
        assert_int_equal(wu_npz_find_array(r, all[i].name), i);
        assert_string_equal(wu_npz_array_info(r, i)->name, all[i].name);
        assert_int_equal(wu_npz_array_info(r, i)->dtype, all[i].dtype);
        assert_int_equal(wu_array_bytes(wu_npz_array_info(r, i), &ok), all[i].n);
        assert_int_equal(wu_npz_load_array(r, i, &data, &err), TC_OK);
        assert_memory_equal(data, all[i].data, all[i].n);
        free(data);
    }
    assert_int_equal(wu_npz_array_info(r, 1)->shape[0], 2);
    assert_int_equal(wu_npz_array_info(r, 1)->shape[1], 3);
    assert_int_equal(wu_npz_array_info(r, 6)->width, 4);
    assert_int_equal(wu_npz_find_array(r, "result"), -1);
    assert_int_equal(wu_npz_find_array(r, "result.json"), -1);
    assert_int_equal(wu_npz_find_array(r, "none"), -1);
    assert_int_equal(wu_npz_find_array(r, "../u8s"), -1);
    wu_npz_reader_close(&r);
    assert_null(r);
}

/* An array whose rows have no columns is written, although it has no data to deflate. */
static void writes_no_columns(void **state)
{
    const fixture *f = *state;
    wu_npz_writer *w = NULL;
    wu_npz_reader *r = NULL;
    json_t *json = json_object();
    int ok;
    assert_int_equal(wu_npz_create(f->path, &w, &err), TC_OK);
    assert_int_equal(wu_npz_add_json(w, "result.json", json, &err), TC_OK);
    add(w, "none", WU_I32, 0, 2, 3, 0, "");
    assert_int_equal(wu_npz_close(&w, &err), TC_OK);
    json_decref(json);
    assert_int_equal(wu_npz_open(f->path, NULL, &r, &err), TC_OK);
    assert_int_equal(wu_array_bytes(wu_npz_array_info(r, 0), &ok), 0);
    assert_int_equal(wu_npz_array_info(r, 0)->shape[0], 3);
    wu_npz_reader_close(&r);
}

static void reads_streams(void **state)
{
    const fixture *f = *state;
    wu_npz_reader *r = NULL;
    wu_npz_stream *one = NULL, *other = NULL;
    unsigned char buf[8];
    size_t total = 0;
    write_sample(f->path);
    assert_int_equal(wu_npz_open(f->path, NULL, &r, &err), TC_OK);
    const size_t index = (size_t)wu_npz_find_array(r, "f64s");
    assert_int_equal(wu_npz_stream_open(r, index, &one, &err), TC_OK);
    assert_int_equal(wu_npz_stream_read(one, buf, 5, &err), TC_OK);
    assert_int_equal(wu_npz_stream_open(r, index, &other, &err), TC_OK); /* independent of `one` */
    for (size_t n; (n = (size_t)wu_npz_stream_left(other)) > 0; total += n) {
        n = n < 7 ? n : 7;
        assert_int_equal(wu_npz_stream_read(other, buf, n, &err), TC_OK);
        assert_memory_equal(buf, (const char *)f64s + total, n);
    }
    assert_int_equal(total, sizeof f64s);
    assert_int_equal(wu_npz_stream_end(other, &err), TC_OK);
    assert_int_equal(wu_npz_stream_read(other, buf, 1, &err), TC_BAD_INPUT);
    wu_npz_stream_close(&other);
    assert_null(other);
    assert_int_equal(wu_npz_stream_read(one, buf, 8, &err), TC_OK); /* continues after byte 5 */
    assert_memory_equal(buf, (const char *)f64s + 5, 8);
    wu_npz_stream_close(&one);
    wu_npz_reader_close(&r);
}

static void writes_the_same_bytes(void **state)
{
    const fixture *f = *state;
    write_sample(f->path);
    bytes a = read_file(f->path);
    sleep(2); /* longer than the resolution of a ZIP file's time stamps */
    write_sample(f->path);
    bytes b = read_file(f->path);
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.data, b.data, a.n);
    free(a.data);
    free(b.data);
}

/* The header of an array has the same bytes as NumPy's. */
static void writes_numpy_headers(void **state)
{
    const fixture *f = *state;
    write_sample(f->path);
    bytes b = read_file(f->path);
    const char text[] =
        "\x93NUMPY\x01\x00\x76\x00{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }"
        "                                                          \n";
    const char flat[] =
        "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }"
        "                                                            \n";
    assert_int_equal(sizeof text - 1, 128);
    assert_non_null(memmem(b.data, b.n, text, sizeof text - 1));
    assert_non_null(memmem(b.data, b.n, flat, sizeof flat - 2)); /* floats are not compressed */
    free(b.data);
}

static void makes_no_file_before_close(void **state)
{
    const fixture *f = *state;
    wu_npz_writer *w = NULL;
    write_file(f->path, "earlier", 7);
    write_file(f->temporary, "left by a crash", 15);
    assert_int_equal(wu_npz_create(f->path, &w, &err), TC_OK);
    add(w, "u8s", WU_U8, 0, 1, 6, 0, u8s);
    bytes b = read_file(f->path);
    assert_memory_equal(b.data, "earlier", 7);
    wu_npz_abort(&w);
    assert_null(w);
    assert_int_not_equal(access(f->temporary, F_OK), 0);
    free(b.data);
    b = read_file(f->path);
    assert_memory_equal(b.data, "earlier", 7);
    free(b.data);
}

/* Data of several blocks, and data that fill a block exactly, compressed by several threads. */
static void deflates_equally_with_all_threads(void **state)
{
    enum { N = 9 << 18 };
    const fixture *f = *state;
    int32_t *const many = malloc(N * sizeof *many);
    json_t *const json = json_object();
    bytes first = { 0 };
    assert_non_null(many);
    for (int32_t i = 0; i < N; i++)
        many[i] = i % 1000 < 500 ? i / 7 : (int32_t)(i * INT64_C(7919) % 10007);
    for (unsigned threads = 0; threads <= 9; threads += 3) {
        wu_npz_writer *w = NULL;
        wu_npz_reader *r = NULL;
        void *data = NULL;
        assert_int_equal(wu_npz_create(f->path, &w, &err), TC_OK);
        wu_npz_use_threads(w, threads);
        assert_int_equal(wu_npz_add_json(w, "result.json", json, &err), TC_OK);
        add(w, "many", WU_I32, 0, 1, N, 0, many);
        add(w, "fewer", WU_I32, 0, 1, (1 << 16) - 32, 0, many); /* a block, with its header */
        add(w, "none", WU_I32, 0, 1, 0, 0, many);
        assert_int_equal(wu_npz_close(&w, &err), TC_OK);
        assert_int_equal(wu_npz_open(f->path, NULL, &r, &err), TC_OK);
        assert_int_equal(wu_npz_load_array(r, (size_t)wu_npz_find_array(r, "many"), &data, &err),
                         TC_OK);
        assert_memory_equal(data, many, N * sizeof *many);
        free(data);
        wu_npz_reader_close(&r);
        bytes b = read_file(f->path);
        if (threads == 0)
            first = b;
        assert_int_equal(b.n, first.n);
        assert_memory_equal(b.data, first.data, first.n);
        if (threads > 0)
            free(b.data);
    }
    free(first.data);
    free(many);
    json_decref(json);
}

static tc_status keep(void *user, const void *data, size_t n, tc_err *e)
{
    bytes *const b = user;
    (void)e;
    memcpy(b->data + b->n, data, n);
    b->n += n;
    return TC_OK;
}

/* Writes a file with one array and returns its bytes. how: 0 if the writer compresses the array,
 * otherwise the number of threads that compress it beforehand. */
static bytes write_one(const fixture *f, const wu_array_info *info, const void *data, unsigned how)
{
    json_t *const json = json_object();
    int ok = 0;
    const size_t n = (size_t)wu_array_bytes(info, &ok);
    bytes stream = { .data = malloc(n + 65536) };
    wu_npz_writer *w = NULL;
    wu_compressor *p = NULL;
    wu_compressed compressed;
    assert_non_null(stream.data);
    assert_int_equal(wu_npz_create(f->path, &w, &err), TC_OK);
    assert_int_equal(wu_npz_add_json(w, "result.json", json, &err), TC_OK);
    if (how > 0) {
        assert_int_equal(wu_compressor_create(WU_NPZ_LEVEL, how, "x", keep, &stream, &p, &err),
                         TC_OK);
        assert_int_equal(wu_npz_begin_compressing(p, "x", info, &err), TC_OK);
        assert_int_equal(wu_compressor_write(p, data, n, &err), TC_OK);
        assert_int_equal(wu_compressor_end(p, &compressed, &err), TC_OK);
        wu_compressor_free(&p);
        assert_int_equal(compressed.compressed, stream.n);
        assert_int_equal(wu_npz_begin_compressed(w, info, &compressed, &err), TC_OK);
        assert_int_equal(wu_npz_write(w, stream.data, stream.n - 1, &err), TC_OK);
        assert_int_equal(wu_npz_end(w, &err), TC_INTERNAL);                   /* too few */
        assert_int_equal(wu_npz_write(w, stream.data, 2, &err), TC_INTERNAL); /* too many */
        assert_int_equal(wu_npz_write(w, stream.data + stream.n - 1, 1, &err), TC_OK);
    } else {
        assert_int_equal(wu_npz_begin(w, info, &err), TC_OK);
        assert_int_equal(wu_npz_write(w, data, n, &err), TC_OK);
    }
    assert_int_equal(wu_npz_end(w, &err), TC_OK);
    assert_int_equal(wu_npz_close(&w, &err), TC_OK);
    free(stream.data);
    json_decref(json);
    return read_file(f->path);
}

/* --- rows ------------------------------------------------------------------------------------- */

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* Makes rows of random runs, most of which repeat the row above. */
static void make_rows(unsigned char *data, size_t n, wu_row_layout layout, uint32_t *seed)
{
    const unsigned noise = next_random(seed) % 3 == 0 ? 6 : 600;
    for (size_t at = 0; at < n;) {
        const unsigned kind = next_random(seed) % noise;
        const size_t words = 1 + next_random(seed) % (noise > 6 ? 900 : 3);
        uint64_t value = kind == 2 ? next_random(seed) : next_random(seed) % 5;
        for (size_t i = 0; i < words * layout.word && at < n; i++, at++)
            data[at] = kind > 3 && at >= layout.row
                           ? data[at - layout.row]
                           : (unsigned char)(value >> 8 * (i % layout.word % 8));
    }
}

/* Checks that zlib decompresses a block to these data. The block may refer to the `before` bytes
 * before them. */
static void check_inflated(const unsigned char *block, size_t size, const unsigned char *data,
                           size_t n, size_t before, bool last)
{
    z_stream z = { .next_in = (Bytef *)(uintptr_t)block, .avail_in = (uInt)size };
    unsigned char *const out = malloc(n + 1);
    assert_non_null(out);
    assert_int_equal(inflateInit2(&z, -15), Z_OK);
    if (before > 0)
        assert_int_equal(inflateSetDictionary(&z, data - before, (uInt)before), Z_OK);
    z.next_out = out;
    z.avail_out = (uInt)n + 1;
    assert_int_equal(inflate(&z, Z_SYNC_FLUSH), last ? Z_STREAM_END : Z_OK);
    assert_int_equal(z.avail_in, 0);
    assert_int_equal(z.avail_out, 1);
    assert_memory_equal(out, data, n);
    inflateEnd(&z);
    free(out);
}

static void deflates_rows(void **state)
{
    enum { ROOM = 1 << 17, WINDOW = 1 << 15 };
    unsigned char *const data = malloc(WINDOW + ROOM), *const out = malloc(WU_ROWS_ROOM(ROOM));
    wu_row_deflater *const d = wu_row_deflater_create();
    unsigned deflated = 0, left = 0;
    uint32_t seed = 1;
    (void)state;
    assert_true(data != NULL && out != NULL && d != NULL);
    for (unsigned i = 0; i < 1500; i++) {
        const size_t words[] = { 1, 2, 3, 4, 8 };
        wu_row_layout layout = { .word = words[next_random(&seed) % 5] };
        layout.row = layout.word * (1 + next_random(&seed) % (i % 2 ? 300 : 9000)) + i % 4 / 3;
        const size_t n = i % 50 == 0 ? i / 50 : 1 + next_random(&seed) % ROOM;
        const size_t before = i % 3 == 0 ? 0 : i % 3 == 1 ? WINDOW : next_random(&seed) % WINDOW;
        const bool last = i % 2 == 0;
        make_rows(data, WINDOW + n, layout, &seed);
        const size_t size = wu_deflate_rows(d, layout, data + WINDOW, n, before, last, out, n / 8);
        deflated += size > 0;
        left += size == 0;
        assert_true(size <= n / 8);
        const size_t any =
            wu_deflate_rows(d, layout, data + WINDOW, n, before, last, out, WU_ROWS_ROOM(n));
        assert_true(any > 0 && (size == 0 || size == any));
        check_inflated(out, any, data + WINDOW, n, before, last);
        if (size > 0)
            assert_int_equal(
                wu_deflate_rows(d, layout, data + WINDOW, n, before, last, out, size - 1), 0);
        layout.matches_anywhere = true;
        const size_t more =
            wu_deflate_rows(d, layout, data + WINDOW, n, before, last, out, WU_ROWS_ROOM(n));
        assert_true(more > 0);
        check_inflated(out, more, data + WINDOW, n, before, last);
        if (before == 0) /* compressing again gives the same bytes */
            assert_int_equal(
                wu_deflate_rows(d, layout, data + WINDOW, n, before, last, out, WU_ROWS_ROOM(n)),
                more);
    }
    assert_true(deflated > 300 && left > 300);
    free(d);
    free(out);
    free(data);
}

/* The file is the same whether an array is compressed beforehand or by the writer. */
static void accepts_packed_arrays(void **state)
{
    enum { N = 5 * (1 << 16) + 1000 };
    const fixture *f = *state;
    char name[] = "many";
    const wu_array_info infos[] = {
        array_info(name, WU_I32, 0, 1, N, 0),         array_info(name, WU_F32, 0, 1, N, 0),
        array_info(name, WU_U8, 0, 1, 9, 0),          array_info(name, WU_I32, 0, 1, 0, 0),
        array_info(name, WU_I32, 0, 2, N / 500, 500), array_info(name, WU_U8, 0, 2, N / 100, 100)
    };
    int32_t *const many = malloc(N * sizeof *many);
    assert_non_null(many);
    for (int32_t i = 0; i < N; i++)
        many[i] = i % 1000 < 500 ? i / 7 : (int32_t)(i * INT64_C(7919) % 10007);
    for (size_t k = 0; k < sizeof infos / sizeof *infos; k++) {
        const bytes whole = write_one(f, &infos[k], many, 0);
        for (unsigned threads = 1; threads < 4; threads++) {
            const bytes b = write_one(f, &infos[k], many, threads);
            assert_int_equal(b.n, whole.n);
            assert_memory_equal(b.data, whole.data, whole.n);
            free(b.data);
        }
        free(whole.data);
    }
    free(many);
}

static void refuses_misuse(void **state)
{
    const fixture *f = *state;
    wu_npz_writer *w = NULL;
    char name[] = "x", bad_name[] = "../x", dot[] = ".x", empty[] = "", twice[] = "twice";
    wu_array_info info = array_info(name, WU_I32, 0, 1, 2, 0);
    assert_int_equal(wu_npz_create(f->path, &w, &err), TC_OK);
    assert_int_equal(wu_npz_begin(w, &info, &err), TC_OK);
    assert_int_equal(wu_npz_begin(w, &info, &err), TC_INTERNAL);
    assert_int_equal(wu_npz_write(w, i32s, 4, &err), TC_OK);
    assert_int_equal(wu_npz_end(w, &err), TC_INTERNAL);            /* too few */
    assert_int_equal(wu_npz_write(w, i32s, 5, &err), TC_INTERNAL); /* too many */
    assert_int_equal(wu_npz_write(w, i32s, 4, &err), TC_OK);
    assert_int_equal(wu_npz_end(w, &err), TC_OK);
    assert_int_equal(wu_npz_end(w, &err), TC_INTERNAL);
    assert_int_equal(wu_npz_write(w, i32s, 4, &err), TC_INTERNAL);
    const wu_array_info bad[] = {
        array_info(name, WU_I32, 0, 1, 2, 0), /* the name is taken */
        array_info(bad_name, WU_I32, 0, 1, 2, 0),
        array_info(dot, WU_I32, 0, 1, 2, 0),
        array_info(empty, WU_I32, 0, 1, 2, 0),
        array_info(twice, WU_I32, 0, 0, 2, 0),
        array_info(twice, WU_I32, 0, 6, 2, 0),
        array_info(twice, WU_I32, 3, 1, 2, 0),
        array_info(twice, WU_STR, 0, 1, 2, 0),
        array_info(twice, (wu_dtype)9, 0, 1, 2, 0),
        array_info(twice, WU_F64, 0, 2, (uint64_t)1 << 40, (uint64_t)1 << 40),
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(wu_npz_begin(w, &bad[i], &err), TC_INTERNAL);
    info.name = twice;
    assert_int_equal(wu_npz_begin(w, &info, &err), TC_OK);
    assert_int_equal(wu_npz_close(&w, &err), TC_INTERNAL);
    assert_null(w);
    assert_int_equal(count_files(f->folder), 0);
}

static void reports_unwritable_paths(void **state)
{
    const fixture *f = *state;
    wu_npz_writer *w = NULL;
    char *path = join_path(f->folder, "none/r.npz");
    assert_int_equal(wu_npz_create(path, &w, &err), TC_IO);
    assert_null(w);
    assert_non_null(strstr(err.message, "none/r.npz: cannot write: the folder "));
    assert_int_equal(wu_npz_create(f->folder, &w, &err), TC_IO);
    assert_non_null(strstr(err.message, "cannot write: Is a directory"));
    assert_int_equal(wu_npz_create("/dev/null", &w, &err), TC_IO);
    assert_string_equal(err.message, "/dev/null: cannot write: not a regular file");
    assert_int_equal(count_files(f->folder), 0);
    free(path);
}

/* Limits files to `limit` bytes: writing then fails as on a full disk. */
static void limit_files(rlim_t limit)
{
    struct rlimit l;
    MUST(getrlimit(RLIMIT_FSIZE, &l) == 0);
    l.rlim_cur = limit;
    MUST(setrlimit(RLIMIT_FSIZE, &l) == 0);
}

/* Writes a file with one array of n bytes of noise. */
static tc_status write_noise(const char *path, size_t n)
{
    wu_npz_writer *w = NULL;
    char name[] = "noise";
    const wu_array_info info = array_info(name, WU_U8, 0, 1, n, 0);
    unsigned char *noise = malloc(n);
    MUST(noise != NULL);
    for (size_t i = 0; i < n; i++)
        noise[i] = (unsigned char)pattern(1, i * i);
    tc_status status = wu_npz_create(path, &w, &err);
    if (status == TC_OK)
        status = wu_npz_begin(w, &info, &err);
    if (status == TC_OK)
        status = wu_npz_write(w, noise, n, &err);
    if (status == TC_OK)
        status = wu_npz_end(w, &err);
    if (status == TC_OK)
        status = wu_npz_close(&w, &err);
    wu_npz_abort(&w);
    free(noise);
    return status;
}

/* Writing fails in the data, in a buffer or in the last record: each is reported. */
static void reports_a_full_disk(void **state)
{
    const fixture *f = *state;
    const size_t n = 20000;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(write_noise(f->path, n), TC_OK);
    struct stat info;
    assert_int_equal(stat(f->path, &info), 0);
    unlink(f->path);
    const rlim_t limits[] = {
        0, 1, 100, 4096, 9000, (rlim_t)info.st_size - 60, (rlim_t)info.st_size - 1
    };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        limit_files(limits[i]);
        const tc_status failed = write_noise(f->path, n);
        limit_files(RLIM_INFINITY);
        assert_int_equal(failed, TC_IO);
        assert_non_null(strstr(err.message, "r.npz: cannot write: File too large"));
        assert_int_equal(count_files(f->folder), 0);
    }
    limit_files((rlim_t)info.st_size);
    assert_int_equal(write_noise(f->path, n), TC_OK);
    limit_files(RLIM_INFINITY);
}

/* --- reading files of other programs ---------------------------------------------------------- */

/* Reads a file with result.json and one member with this header and `data` bytes. */
static tc_status read_header(const fixture *f, const char *text, size_t data)
{
    unsigned char *npy = calloc(1, 10 + strlen(text) + data);
    const size_t n = strlen(text);
    wu_npz_reader *r = NULL;
    MUST(npy != NULL);
    memcpy(npy, "\x93NUMPY\x01\x00", 8);
    npy[8] = (unsigned char)(n & 255);
    npy[9] = (unsigned char)(n >> 8);
    memcpy(npy + 10, text, n);
    zipFile zip = zip_create(f->path);
    zip_add(zip, "result.json", "{}", 2);
    zip_add(zip, "x.npy", npy, 10 + n + data);
    zipClose(zip, NULL);
    free(npy);
    const tc_status status = wu_npz_open(f->path, NULL, &r, &err);
    wu_npz_reader_close(&r);
    return status;
}

#define HEAD(descr, shape) "{'descr': '" descr "', 'fortran_order': False, 'shape': " shape ", }"

static void accepts_good_headers(void **state)
{
    const fixture *f = *state;
    assert_int_equal(read_header(f, HEAD("<f8", "(3,)") "\n", 24), TC_OK);
    assert_int_equal(read_header(f, HEAD("<f8", "(3, 2)") "        \n", 48), TC_OK);
    assert_int_equal(read_header(f, HEAD("|b1", "(1, 1, 1, 1, 2)") "\n", 2), TC_OK);
    assert_int_equal(read_header(f, HEAD("<U10", "(0,)") "\n", 0), TC_OK);
    assert_int_equal(read_header(f, HEAD("<U65536", "(1,)") "\n", (size_t)65536 * 4), TC_OK);
    assert_int_equal(read_header(f, HEAD("<i8", "(0, 7)") "\n", 0), TC_OK);
}

static void refuses_bad_headers(void **state)
{
    const fixture *f = *state;
    static const char *const bad[] = {
        "",
        "\n",
        "{}\n",
        HEAD("<f8", "(3,)"),
        HEAD("<f8", "(3,)") " \n\n",
        HEAD("<f8", "(3,)") "x\n",
        HEAD("<f8", "(3,)") "\t\n",
        " " HEAD("<f8", "(3,)") "\n",
        HEAD("<f8", "()") "\n",
        HEAD("<f8", "(3)") "\n",
        HEAD("<f8", "(3, )") "\n",
        HEAD("<f8", "( 3,)") "\n",
        HEAD("<f8", "(3,1)") "\n",
        HEAD("<f8", "(3, 1,)") "\n",
        HEAD("<f8", "(03,)") "\n",
        HEAD("<f8", "(-3,)") "\n",
        HEAD("<f8", "(+3,)") "\n",
        HEAD("<f8", "(3L,)") "\n",
        HEAD("<f8", "(0x3,)") "\n",
        HEAD("<f8", "(3e0,)") "\n",
        HEAD("<f8", "(1, 1, 1, 1, 1, 3)") "\n",
        HEAD("<f8", "(18446744073709551619,)") "\n",
        HEAD("<f8", "(9223372036854775808,)") "\n",
        HEAD("<f8", "(4294967296, 4294967296)") "\n",
        HEAD("<f8", "(0, 4294967296, 4294967296)") "\n",
        HEAD(">f8", "(3,)") "\n",
        HEAD("<f2", "(3,)") "\n",
        HEAD("<i2", "(3,)") "\n",
        HEAD("|O", "(3,)") "\n",
        HEAD("|S8", "(3,)") "\n",
        HEAD("<U0", "(3,)") "\n",
        HEAD("<U65537", "(0,)") "\n",
        HEAD("<U06", "(1,)") "\n",
        HEAD("<U", "(3,)") "\n",
        HEAD("<f8'", "(3,)") "\n",
        HEAD("", "(3,)") "\n",
        "{'descr': '<f8', 'fortran_order': True, 'shape': (3,), }\n",
        "{'descr': '<f8', 'fortran_order': 0, 'shape': (3,), }\n",
        "{'fortran_order': False, 'descr': '<f8', 'shape': (3,), }\n",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (3,)}\n",
        "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (3,), }\n",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (3,), 'x': 1, }\n",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (read_header(f, bad[i], 24) != TC_BAD_INPUT)
            fail_msg("header accepted: %s", bad[i]);
        assert_non_null(strstr(err.message, "r.npz: member \"x.npy\": "));
    }
    char long_head[1200];
    snprintf(long_head, sizeof long_head, "%s%1000s\n", HEAD("<f8", "(3,)"), "");
    assert_int_equal(read_header(f, long_head, 24), TC_BAD_INPUT);
    assert_non_null(strstr(err.message, "header is too long"));
}

static void refuses_sizes_that_disagree(void **state)
{
    const fixture *f = *state;
    assert_int_equal(read_header(f, HEAD("<f8", "(3,)") "\n", 23), TC_BAD_INPUT);
    assert_non_null(strstr(err.message, "size is not what its header says"));
    assert_int_equal(read_header(f, HEAD("<f8", "(3,)") "\n", 25), TC_BAD_INPUT);
    assert_int_equal(read_header(f, HEAD("<f8", "(0,)") "\n", 1), TC_BAD_INPUT);
}

static void refuses_other_formats(void **state)
{
    const fixture *f = *state;
    static const struct {
        const char *data;
        size_t n;
    } bad[] = {
        { "", 0 },
        { "\x93NUMPY\x01\x00\x76", 9 },
        { "\x93NUMPY\x02\x00\x76\x00\x00\x00", 12 },
        { "\x93NUMPY\x01\x01\x01\x00\n", 11 },
        { "\x92NUMPY\x01\x00\x01\x00\n", 11 },
        { "\x93NUMPY\x01\x00\x05\x00\n", 11 },
        { "hello, this is text", 19 },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        wu_npz_reader *r = NULL;
        zipFile zip = zip_create(f->path);
        zip_add(zip, "x.npy", bad[i].data, bad[i].n);
        zip_add(zip, "result.json", "{}", 2);
        zipClose(zip, NULL);
        assert_int_equal(wu_npz_open(f->path, NULL, &r, &err), TC_BAD_INPUT);
        assert_null(r);
    }
}

static tc_status open_members(const fixture *f, const char *const *names, const char *json)
{
    char npy[] = "\x93NUMPY\x01\x00_\x00" HEAD("|u1", "(1,)") "\nz";
    wu_npz_reader *r = NULL;
    zipFile zip = zip_create(f->path);
    npy[8] = sizeof npy - 1 - 10 - 1; /* prefix, data */
    if (json != NULL)
        zip_add(zip, "result.json", json, strlen(json));
    for (; *names != NULL; names++)
        zip_add(zip, *names, npy, sizeof npy - 1);
    zipClose(zip, NULL);
    const tc_status status = wu_npz_open(f->path, NULL, &r, &err);
    wu_npz_reader_close(&r);
    return status;
}

static void refuses_odd_members(void **state)
{
    const fixture *f = *state;
    static const char *const good[] = { "a.npy", "b.c-d_e.npy", NULL };
    static const char *const bad[][3] = {
        { "a.npy", "a.npy", NULL }, { "a.txt", NULL },      { "a", NULL },
        { ".npy", NULL },           { "b/a.npy", NULL },    { "b/", NULL },
        { "a b.npy", NULL },        { ".a.npy", NULL },     { "a.npy.bak", NULL },
        { "../a.npy", NULL },       { "other.json", NULL }, { "result.json", NULL },
    };
    assert_int_equal(open_members(f, good, "{}"), TC_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (open_members(f, bad[i], "{}") != TC_BAD_INPUT)
            fail_msg("member accepted: %s", bad[i][0]);
        assert_non_null(strstr(err.message, f->path));
    }
}

static void refuses_bad_json(void **state)
{
    const fixture *f = *state;
    static const char *const names[] = { "a.npy", NULL };
    assert_int_equal(open_members(f, names, NULL), TC_BAD_INPUT);
    assert_non_null(strstr(err.message, "no member \"result.json\""));
    static const char *const bad[] = { "",      "[]",          "\"x\"", "{", "{\"a\": 1, \"a\": 2}",
                                       "{} {}", "{\"a\": NaN}" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(open_members(f, names, bad[i]), TC_BAD_INPUT);
        assert_non_null(strstr(err.message, "result.json: "));
    }
}

static void limits_arrays(void **state)
{
    const fixture *f = *state;
    wu_npz_reader *r = NULL;
    write_sample(f->path);
    assert_int_equal(wu_npz_open(f->path, &(wu_npz_limits){ .array_bytes = sizeof f64s }, &r, &err),
                     TC_OK);
    wu_npz_reader_close(&r);
    assert_int_equal(
        wu_npz_open(f->path, &(wu_npz_limits){ .array_bytes = sizeof f64s - 1 }, &r, &err),
        TC_BAD_INPUT);
    assert_non_null(strstr(err.message, "f64s.npy\": larger than the limit"));
}

/* Changes each byte of an uncompressed array's data in the file. */
static void detects_changed_data(void **state)
{
    const fixture *f = *state;
    wu_npz_reader *r = NULL;
    void *data = NULL;
    write_sample(f->path);
    bytes b = read_file(f->path);
    unsigned char *at = memmem(b.data, b.n, f64s, sizeof f64s);
    assert_non_null(at);
    at[17] ^= 4;
    write_file(f->path, b.data, b.n);
    assert_int_equal(wu_npz_open(f->path, NULL, &r, &err), TC_OK);
    assert_int_equal(wu_npz_load_array(r, (size_t)wu_npz_find_array(r, "f64s"), &data, &err),
                     TC_BAD_INPUT);
    assert_non_null(strstr(err.message, "f64s.npy\" is corrupt: its CRC is wrong"));
    assert_null(data);
    assert_int_equal(wu_npz_load_array(r, (size_t)wu_npz_find_array(r, "f32s"), &data, &err),
                     TC_OK);
    free(data);
    wu_npz_reader_close(&r);
    free(b.data);
}

/* Every truncated file is refused, and no changed byte leads to a crash. */
static void survives_damage(void **state)
{
    const fixture *f = *state;
    write_sample(f->path);
    bytes b = read_file(f->path);
    for (size_t n = 0; n < b.n; n++) {
        wu_npz_reader *r = NULL;
        write_file(f->path, b.data, n);
        assert_int_equal(wu_npz_open(f->path, NULL, &r, &err), TC_BAD_INPUT);
    }
    for (size_t i = 0; i < b.n; i++) {
        wu_npz_reader *r = NULL;
        b.data[i] ^= 0x11;
        write_file(f->path, b.data, b.n);
        if (wu_npz_open(f->path, NULL, &r, &err) == TC_OK) {
            for (size_t k = 0; k < wu_npz_array_count(r); k++) {
                void *data = NULL;
                if (wu_npz_load_array(r, k, &data, &err) == TC_OK)
                    free(data);
            }
        }
        wu_npz_reader_close(&r);
        b.data[i] ^= 0x11;
    }
    free(b.data);
}

/* An NPZ file with more members than the old ZIP format allows. */
static void reads_many_arrays(void **state)
{
    const fixture *f = *state;
    enum { N = 66000 };
    wu_npz_writer *w = NULL;
    wu_npz_reader *r = NULL;
    json_t *json = json_object();
    char name[32];
    assert_int_equal(wu_npz_create(f->path, &w, &err), TC_OK);
    assert_int_equal(wu_npz_add_json(w, "result.json", json, &err), TC_OK);
    for (int i = 0; i < N; i++) {
        const float value = (float)i;
        snprintf(name, sizeof name, "map_%d", i);
        add(w, name, WU_F32, 0, 1, 1, 0, &value);
    }
    assert_int_equal(wu_npz_close(&w, &err), TC_OK);
    assert_int_equal(wu_npz_open(f->path, NULL, &r, &err), TC_OK);
    assert_int_equal(wu_npz_array_count(r), N);
    float *value = NULL;
    assert_int_equal(wu_npz_find_array(r, "map_65999"), 65999);
    assert_int_equal(wu_npz_load_array(r, 65999, (void **)&value, &err), TC_OK);
    assert_true(*value == 65999);
    free(value);
    wu_npz_reader_close(&r);
    json_decref(json);
}

/* --- for test_npz_numpy.py ------------------------------------------------------------------- */

static int list_file(const char *path)
{
    wu_npz_reader *r = NULL;
    if (wu_npz_open(path, NULL, &r, &err) != TC_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    for (size_t i = 0; i < wu_npz_array_count(r); i++) {
        const wu_array_info *info = wu_npz_array_info(r, i);
        int ok;
        void *data = NULL;
        if (wu_npz_load_array(r, i, &data, &err) != TC_OK) {
            fprintf(stderr, "%s\n", err.message);
            return 1;
        }
        printf("%s %d %u", info->name, (int)info->dtype, info->width);
        for (unsigned d = 0; d < info->ndim; d++)
            printf(" %llu", (unsigned long long)info->shape[d]);
        printf(" %08lx\n", crc32(0, data, (unsigned)wu_array_bytes(info, &ok)));
        free(data);
    }
    wu_npz_reader_close(&r);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--write") == 0) {
        write_sample(argv[2]);
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "--read") == 0)
        return list_file(argv[2]);
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(deflates_equally_with_all_threads),
        IN_FOLDER(accepts_packed_arrays),
        cmocka_unit_test(deflates_rows),
        cmocka_unit_test(computes_sizes),
        cmocka_unit_test(reports_overflow),
        cmocka_unit_test(converts_text),
        cmocka_unit_test(refuses_bad_text),
        IN_FOLDER(writes_and_reads),
        IN_FOLDER(writes_no_columns),
        IN_FOLDER(reads_streams),
        IN_FOLDER(writes_the_same_bytes),
        IN_FOLDER(writes_numpy_headers),
        IN_FOLDER(makes_no_file_before_close),
        IN_FOLDER(refuses_misuse),
        IN_FOLDER(reports_unwritable_paths),
        IN_FOLDER(reports_a_full_disk),
        IN_FOLDER(accepts_good_headers),
        IN_FOLDER(refuses_bad_headers),
        IN_FOLDER(refuses_sizes_that_disagree),
        IN_FOLDER(refuses_other_formats),
        IN_FOLDER(refuses_odd_members),
        IN_FOLDER(refuses_bad_json),
        IN_FOLDER(limits_arrays),
        IN_FOLDER(detects_changed_data),
        IN_FOLDER(survives_damage),
        IN_FOLDER(reads_many_arrays),
    };
    return cmocka_run_group_tests_name("npz", tests, NULL, NULL);
}
