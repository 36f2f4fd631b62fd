/* libFuzzer target: reads a checkpoint and its spool. Byte 0 of an input selects the CRCs to
 * correct after the mutation (MEND_...), so that the readers get further; bytes 1 and 2 are the
 * length of the checkpoint that follows; the rest is the spool. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "app/checkpoint.h"
#include "app/spool.h"
#include "tests/fuzz/fuzz_fail.h"
#include "tests/fuzz/fuzz_files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    MEND_CHECKPOINT = 1,
    MEND_RECORDS = 2,
    MEND_SPOOL = 4,
    HEADER = 80, /* bytes of a checkpoint's header */
    TAIL = 24    /* bytes at the end of a record of the spool */
};

static const char checkpoint_path[] = FILES_FOLDER "/c", spool_path[] = FILES_FOLDER "/s",
                  again_path[] = FILES_FOLDER "/a";

static void put_crc(uint8_t *at, const uint8_t *data, size_t n)
{
    const uint32_t crc = (uint32_t)crc32(0, data, (uInt)n);
    memcpy(at, &crc, sizeof crc);
}

static void mend_checkpoint(uint8_t *c, size_t n)
{
    if (n < HEADER)
        return;
    const uint64_t state = n - HEADER;
    memcpy(c + 56, &state, sizeof state);
    put_crc(c + 68, c + HEADER, n - HEADER);
    put_crc(c + 76, c, 76);
}

/* Returns the offset of the spool's record that ends at the offset `end`. mend: whether to correct
 * the CRC of the record's headers. Sets *good to 0 if there is no record. */
static size_t record_before(uint8_t *s, size_t end, int mend, int *good)
{
    uint64_t bytes;
    uint32_t heads;
    *good = 0;
    if (end < TAIL)
        return 0;
    memcpy(&bytes, s + end - TAIL + 8, sizeof bytes);
    memcpy(&heads, s + end - 8, sizeof heads);
    if (heads > end - TAIL || bytes > end - TAIL - heads)
        return 0;
    *good = 1;
    if (mend)
        put_crc(s + end - 4, s + end - TAIL - heads, heads);
    return end - TAIL - heads - (size_t)bytes;
}

/* Returns the number of records, and corrects their CRCs if `mend`. */
static uint64_t each_record(uint8_t *s, size_t n, int mend)
{
    uint64_t records = 0;
    int good = n > 0;
    for (size_t end = n; end > 0 && good; records += (uint64_t)good)
        end = record_before(s, end, mend, &good);
    return records;
}

static void check_message(const tc_err *err, const char *path)
{
    if (strncmp(err->message, path, strlen(path)) != 0)
        fuzz_wrong();
}

/* Writes the checkpoint that was read, and checks that reading it again gives the same. */
static void write_again(const checkpoint *c, const void *state)
{
    checkpoint found;
    void *again = NULL;
    if (checkpoint_write(again_path, c, state, NULL, NULL) != TC_OK ||
        checkpoint_read(again_path, c, &found, &again, NULL, NULL) != TC_OK ||
        found.item != c->item || found.spool_size != c->spool_size ||
        found.spool_crc != c->spool_crc || found.state_size != c->state_size ||
        (c->state_size > 0 && memcmp(again, state, c->state_size) != 0))
        fuzz_wrong();
    free(again);
    checkpoint_remove(again_path);
}

static tc_status count(void *user, const void *data, size_t n, tc_err *err)
{
    (void)data;
    (void)err;
    *(uint64_t *)user += n;
    return TC_OK;
}

/* Appends an output that was read, and checks that reading it again gives the same. Of compressed
 * arrays only the number of bytes is compared. */
static void append_again(spool *s, wu_output *out, size_t index, size_t end)
{
    wu_output again;
    tc_err err;
    size_t kept = 0;
    uint64_t size = 0;
    uint32_t crc;
    for (size_t i = 0; i < out->n; i++) {
        wu_out_array *const a = &out->arrays[i];
        uint64_t n = 0;
        if (a->kind == WU_PER_ITEM) {
            const tc_status status = spool_copy(s, index, a->info.name, count, &n, &err);
            int first = 1;
            for (size_t k = 0; k < i; k++)
                first = first && strcmp(out->arrays[k].info.name, a->info.name) != 0;
            if (status == TC_OK && first && n != a->compressed.compressed)
                fuzz_wrong();
            if (status != TC_OK)
                check_message(&err, spool_path);
        }
    }
    for (size_t i = 0; i < out->n; i++) { /* keeps the arrays that are not compressed */
        if (out->arrays[i].kind == WU_PER_ITEM)
            free(out->arrays[i].info.name);
        else
            out->arrays[kept++] = out->arrays[i];
    }
    out->n = kept;
    if (spool_append(s, out, 1, NULL, NULL, NULL) != TC_OK ||
        spool_sync(s, &size, &crc, NULL) != TC_OK || size == 0 ||
        spool_read(s, end, NULL, &again, NULL) != TC_OK) {
        fuzz_wrong();
        return;
    }
    if (again.n != out->n)
        abort();
    for (size_t i = 0; i < out->n; i++) {
        const wu_array_info *a = &out->arrays[i].info, *b = &again.arrays[i].info;
        int ok;
        if (strcmp(a->name, b->name) != 0 || a->dtype != b->dtype || a->width != b->width ||
            a->ndim != b->ndim || out->arrays[i].kind != again.arrays[i].kind ||
            memcmp(a->shape, b->shape, sizeof a->shape) != 0)
            abort();
        const uint64_t bytes = wu_array_bytes(a, &ok);
        if (!ok || (bytes > 0 && memcmp(out->arrays[i].data, again.arrays[i].data, bytes) != 0))
            abort();
    }
    wu_output_free(&again);
}

static void read_spool(uint64_t size, uint32_t crc, uint64_t items)
{
    spool *s;
    tc_err err;
    wu_output out;
    if (spool_open(spool_path, NULL, &s, &err) != TC_OK) {
        fuzz_wrong();
        return;
    }
    if (spool_truncate(s, size, crc, items, &err) != TC_OK) {
        check_message(&err, spool_path);
        items = 0;
    }
    for (uint64_t i = 0; i < items; i++) {
        if (spool_read(s, i, NULL, &out, &err) == TC_OK) {
            if (i < 4)
                append_again(s, &out, i, items + i);
            wu_output_free(&out);
        } else {
            check_message(&err, spool_path);
            break;
        }
    }
    spool_close(&s);
}

static void read_input(const uint8_t *data, size_t size)
{
    const checkpoint whose = { .job_crc = 0x12345678, .job_size = 4321, .analysis = "glcm" };
    checkpoint found;
    void *state;
    tc_err err;
    if (size < 3)
        return;
    const int mend = data[0];
    size_t n = data[1] | (size_t)data[2] << 8;
    n = n > size - 3 ? size - 3 : n;
    const bool may = fuzz_may_fail(false);
    uint8_t *copy = malloc(size);
    (void)fuzz_may_fail(may);
    if (copy == NULL)
        abort();
    memcpy(copy, data + 3, size - 3);
    uint8_t *s = copy + n;
    const size_t spool_size = size - 3 - n;
    if (mend & MEND_CHECKPOINT)
        mend_checkpoint(copy, n);
    if (mend & MEND_RECORDS)
        each_record(s, spool_size, 1);
    files_put(checkpoint_path, copy, n);

    const tc_status status = checkpoint_read(checkpoint_path, &whose, &found, &state, NULL, &err);
    if (status != TC_OK && ((status != TC_BAD_INPUT && status != TC_NO_MATCH) || state != NULL))
        fuzz_wrong();
    if (status != TC_OK)
        check_message(&err, checkpoint_path);
    else if (found.state_size != n - HEADER || (found.state_size > 0) != (state != NULL))
        abort();
    if (status == TC_OK) {
        write_again(&found, state);
        files_put(spool_path, s, spool_size);
        read_spool(found.spool_size, found.spool_crc, found.item);
    }
    if (mend & MEND_SPOOL) {
        files_put(spool_path, s, spool_size);
        read_spool(spool_size, (uint32_t)crc32(0, s, (uInt)spool_size),
                   each_record(s, spool_size, 0));
    }
    free(state);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_with_failures(data, size, read_input);
    return 0;
}
