/* libFuzzer target: a checkpoint and the spool beside it. Byte 0 of an input
 * says what is put right afterwards, so that mutations get past the CRCs; bytes
 * 1 and 2 how long the checkpoint is; what follows it is the spool. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "app/checkpoint.h"
#include "app/spool.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

enum { MEND_CHECKPOINT = 1, MEND_RECORDS = 2, MEND_SPOOL = 4, HEADER = 80, RECORD = 24 };

static char folder[64] = "/dev/shm/texcell-fuzz-XXXXXX";
static char checkpoint_path[80], spool_path[80];

static void clean_up(void)
{
    remove(checkpoint_path);
    remove(spool_path);
    rmdir(folder);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    if (mkdtemp(folder) == NULL) {
        strcpy(folder, "/tmp/texcell-fuzz-XXXXXX");
        if (mkdtemp(folder) == NULL)
            abort();
    }
    snprintf(checkpoint_path, sizeof checkpoint_path, "%s/c", folder);
    snprintf(spool_path, sizeof spool_path, "%s/s", folder);
    atexit(clean_up);
    return 0;
}

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

static void mend_records(uint8_t *s, size_t n)
{
    uint64_t bytes;
    for (size_t at = 0; n - at >= RECORD; at += RECORD + (size_t)bytes) {
        memcpy(&bytes, s + at + 8, sizeof bytes);
        if (bytes > n - at - RECORD)
            return;
        put_crc(s + at + 16, s + at + RECORD, (size_t)bytes);
    }
}

static void write_file(const char *path, const uint8_t *data, size_t n)
{
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(data, 1, n, file) != n || fclose(file) != 0)
        abort();
}

static void check_message(const tc_err *err, const char *path)
{
    if (strncmp(err->message, path, strlen(path)) != 0)
        abort();
}

/* What was read goes in again and comes out the same. */
static void append_again(spool *s, const wu_output *out, size_t index)
{
    wu_output again;
    if (spool_append(s, out, NULL) != TC_OK || spool_read(s, index, NULL, &again, NULL) != TC_OK || again.n != out->n)
        abort();
    for (size_t i = 0; i < out->n; i++) {
        const wu_array_info *a = &out->arrays[i].info, *b = &again.arrays[i].info;
        int ok;
        if (strcmp(a->name, b->name) != 0 || a->dtype != b->dtype || a->width != b->width || a->ndim != b->ndim ||
            out->arrays[i].kind != again.arrays[i].kind || memcmp(a->shape, b->shape, sizeof a->shape) != 0)
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
    if (spool_open(spool_path, NULL, &s, &err) != TC_OK)
        abort();
    if (spool_keep(s, size, crc, items, &err) != TC_OK) {
        check_message(&err, spool_path);
        items = 0;
    }
    for (uint64_t i = 0; i < items; i++) {
        if (spool_read(s, i, NULL, &out, &err) == TC_OK) {
            if (i < 4)
                append_again(s, &out, items + i);
            wu_output_free(&out);
        } else {
            check_message(&err, spool_path);
            break;
        }
    }
    spool_close(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const checkpoint whose = { .job_crc = 0x12345678, .job_size = 4321, .analysis = "glcm" };
    checkpoint found;
    void *state;
    tc_err err;
    if (size < 3)
        return 0;
    const int mend = data[0];
    size_t n = data[1] | (size_t)data[2] << 8;
    n = n > size - 3 ? size - 3 : n;
    uint8_t *copy = malloc(size);
    if (copy == NULL)
        abort();
    memcpy(copy, data + 3, size - 3);
    uint8_t *s = copy + n;
    const size_t spool_size = size - 3 - n;
    if (mend & MEND_CHECKPOINT)
        mend_checkpoint(copy, n);
    if (mend & MEND_RECORDS)
        mend_records(s, spool_size);
    write_file(checkpoint_path, copy, n);
    write_file(spool_path, s, spool_size);

    const tc_status st = checkpoint_read(checkpoint_path, &whose, &found, &state, NULL, &err);
    if (st != TC_OK && (st != TC_BAD_INPUT || state != NULL))
        abort();
    if (st != TC_OK)
        check_message(&err, checkpoint_path);
    else if (found.state_size != n - HEADER || (found.state_size > 0) != (state != NULL))
        abort();
    if (st == TC_OK)
        read_spool(found.spool_size, found.spool_crc, found.item);
    if (mend & MEND_SPOOL) {
        uint64_t records = 0, bytes;
        for (size_t at = 0; spool_size - at >= RECORD; at += RECORD + (size_t)bytes, records++) {
            memcpy(&bytes, s + at + 8, sizeof bytes);
            if (bytes > spool_size - at - RECORD)
                break;
        }
        write_file(spool_path, s, spool_size);
        read_spool(spool_size, (uint32_t)crc32(0, s, (uInt)spool_size), records);
    }
    free(state);
    free(copy);
    return 0;
}
