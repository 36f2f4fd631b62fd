/* libFuzzer target: opens a result and reads every array in two ways. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz_fail.h"
#include "tests/fuzz/fuzz_files.h"
#include "tests/fuzz/fuzz_zip.h"
#include "workunits/format/npz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A file in the current folder, as stdio cannot write to the files in memory. */
static const char copied[] = "copy.npz";

/* Reads an array as a whole and in pieces of various lengths: both must agree. */
static void read_array(wu_npz_reader *r, size_t index)
{
    const wu_array_info *info = wu_npz_array_info(r, index);
    unsigned char piece[999];
    void *whole = NULL;
    wu_npz_stream *s = NULL;
    int ok = 0;
    size_t total = 0;
    const uint64_t bytes = wu_array_bytes(info, &ok);
    if (!ok || bytes > 1 << 18 || wu_npz_find_array(r, info->name) != (long)index)
        abort();
    const tc_status loaded = wu_npz_load_array(r, index, &whole, NULL);
    tc_status status = wu_npz_stream_open(r, index, &s, NULL);
    while (status == TC_OK && wu_npz_stream_left(s) > 0) {
        const size_t left = (size_t)wu_npz_stream_left(s),
                     n = left < sizeof piece ? left : sizeof piece;
        status = wu_npz_stream_read(s, piece, n, NULL);
        if (n > bytes - total ||
            (status == TC_OK && loaded == TC_OK && memcmp((char *)whole + total, piece, n) != 0))
            abort();
        total += n;
    }
    if (status == TC_OK)
        status = wu_npz_stream_end(s, NULL);
    wu_npz_stream_close(&s);
    if (status != loaded || (loaded == TC_OK && total != bytes))
        fuzz_wrong();
    if (loaded == TC_OK && info->dtype == WU_STR && bytes > 0) {
        char text[64];
        wu_ucs4_to_utf8(whole, info->width, text, sizeof text);
        if (wu_utf8_to_ucs4(text, NULL, 0) < 0)
            abort();
    }
    free(whole);
}

/* Writes all readable arrays to a file: reading this must give the same arrays. */
static void copy(wu_npz_reader *r)
{
    wu_npz_writer *w = NULL;
    wu_npz_reader *again = NULL;
    void *a = NULL, *b = NULL;
    int ok = 0;
    if (wu_npz_create(copied, &w, NULL) != TC_OK) {
        fuzz_wrong();
        return;
    }
    if (wu_npz_copy(w, r, NULL) != TC_OK) {
        wu_npz_abort(&w);
        return;
    }
    if (wu_npz_close(&w, NULL) != TC_OK ||
        wu_npz_open(copied, &(wu_npz_limits){ .canonical = true }, &again, NULL) != TC_OK ||
        wu_npz_array_count(again) != wu_npz_array_count(r) ||
        !json_equal(wu_npz_json(again), wu_npz_json(r)))
        fuzz_wrong();
    for (size_t i = 0; again != NULL && i < wu_npz_array_count(r); i++, free(a), free(b)) {
        const bool loaded = wu_npz_load_array(r, i, &a, NULL) == TC_OK,
                   too = wu_npz_load_array(again, i, &b, NULL) == TC_OK;
        if (!loaded || !too)
            fuzz_wrong();
        else if (memcmp(a, b, wu_array_bytes(wu_npz_array_info(r, i), &ok)) != 0)
            abort();
    }
    wu_npz_reader_close(&again);
}

static void read_input(const uint8_t *data, size_t size)
{
    const char *const path = fuzz_file(data, size);
    wu_npz_reader *r = NULL;
    tc_err err = { "" };
    if (wu_npz_open(path, &(wu_npz_limits){ .array_bytes = 1 << 18 }, &r, &err) == TC_OK) {
        if (!json_is_object(wu_npz_json(r)))
            abort();
        for (size_t i = 0; i < wu_npz_array_count(r); i++)
            read_array(r, i);
        if (size % 8 == 0)
            copy(r);
    } else if (strncmp(err.message, path, strlen(path)) != 0) {
        fuzz_wrong();
    }
    wu_npz_reader_close(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_with_failures(data, size, read_input);
    return 0;
}
