/* Unit tests of the checkpoint, and of the spool, the file with the outputs of finished items. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "app/checkpoint.h"
#include "app/spool.h"
#include "tests/unit/make_zip.h"

enum { STATE = 100 }; /* bytes of the test's state */
enum { HEADER = 80 }; /* bytes of a checkpoint file's header */

typedef struct fixture {
    char *folder, *checkpoint, *spool; /* paths: a new folder, and the two files in it */
    unsigned char state[STATE];
    checkpoint mark; /* what the test writes to the checkpoint, and expects in it */
} fixture;

static tc_err err;

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);

    MUST(f != NULL);
    f->folder = make_folder();
    f->checkpoint = join_path(f->folder, "c");
    f->spool = join_path(f->folder, "s");
    for (int i = 0; i < STATE; i++)
        f->state[i] = (unsigned char)(7 * i + 3);
    f->mark = (checkpoint){ .job_crc = 0xdeadbeef,
                            .job_size = 123456789012,
                            .analysis = "glcm",
                            .item = 5,
                            .spool_size = 77,
                            .spool_crc = 0x1234,
                            .state_size = STATE };
    memset(&err, 0, sizeof err);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;

    remove_folder(f->folder);
    free(f->checkpoint);
    free(f->spool);
    free(f);
    return 0;
}

/* Reads a whole file into a buffer that is larger than it, which the caller frees. */
static unsigned char *read_content(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    unsigned char *data = malloc(1 << 16);

    MUST(file != NULL && data != NULL);
    *size = fread(data, 1, 1 << 16, file);
    MUST(*size < 1 << 16);
    fclose(file);
    return data;
}

/* --- checkpoint ------------------------------------------------------------------------------ */

static void write_checkpoint(const fixture *f)
{
    assert_int_equal(checkpoint_write(f->checkpoint, &f->mark, f->state, NULL, &err), TC_OK);
}

/* Checks that the checkpoint has the values of f->mark and the state `data`. */
static void expect_good(const fixture *f, const unsigned char *data)
{
    checkpoint found;
    void *state;

    memset(&found, 0xff, sizeof found);
    assert_int_equal(checkpoint_read(f->checkpoint, &f->mark, &found, &state, NULL, &err), TC_OK);
    assert_int_equal(found.job_crc, f->mark.job_crc);
    assert_int_equal(found.job_size, f->mark.job_size);
    assert_string_equal(found.analysis, f->mark.analysis);
    assert_int_equal(found.item, f->mark.item);
    assert_int_equal(found.spool_size, f->mark.spool_size);
    assert_int_equal(found.spool_crc, f->mark.spool_crc);
    assert_int_equal(found.state_size, f->mark.state_size);
    assert_memory_equal(state, data, STATE);
    free(state);
}

/* Checks that reading the checkpoint fails for the job `whose`: with TC_BAD_INPUT for the job of
 * f->mark, otherwise with TC_NO_MATCH. words: the message's text after the file's name, or NULL to
 * leave it unchecked. */
static void expect_refused(const fixture *f, const checkpoint *whose, const char *words)
{
    checkpoint found;
    void *state = NULL;

    err.message[0] = '\0';
    assert_int_equal(checkpoint_read(f->checkpoint, whose, &found, &state, NULL, &err),
                     whose == &f->mark ? TC_BAD_INPUT : TC_NO_MATCH);
    assert_null(state);
    assert_memory_equal(err.message, f->checkpoint, strlen(f->checkpoint));
    if (words != NULL)
        assert_string_equal(err.message + strlen(f->checkpoint), words);
}

static void restores_state(void **state)
{
    fixture *f = *state;
    checkpoint found;
    void *data;

    assert_int_equal(checkpoint_read(f->checkpoint, &f->mark, &found, &data, NULL, &err), TC_MORE);
    write_checkpoint(f);
    expect_good(f, f->state);
    f->mark.item = 6;
    f->state[50] ^= 1;
    write_checkpoint(f);
    expect_good(f, f->state);
    assert_int_equal(count_files(f->folder), 1);
    /* A checkpoint between two items has no state. */
    f->mark.state_size = 0;
    assert_int_equal(checkpoint_write(f->checkpoint, &f->mark, NULL, NULL, &err), TC_OK);
    assert_int_equal(checkpoint_read(f->checkpoint, &f->mark, &found, &data, NULL, &err), TC_OK);
    assert_null(data);
    assert_int_equal(found.state_size, 0);
    checkpoint_remove(f->checkpoint);
    assert_int_equal(count_files(f->folder), 0);
}

static void detects_every_changed_byte(void **state)
{
    static const unsigned char patterns[] = { 0x01, 0x80, 0xff };
    fixture *f = *state;
    unsigned char *data;
    size_t size;

    write_checkpoint(f);
    data = read_content(f->checkpoint, &size);
    assert_int_equal(size, HEADER + STATE);
    for (size_t i = 0; i < size; i++) {
        for (size_t k = 0; k < sizeof patterns; k++) {
            data[i] ^= patterns[k];
            write_file(f->checkpoint, data, size);
            expect_refused(f, &f->mark, NULL);
            data[i] ^= patterns[k];
        }
    }
    write_file(f->checkpoint, data, size);
    expect_good(f, f->state);
    free(data);
}

static void refuses_every_other_length(void **state)
{
    fixture *f = *state;
    unsigned char *data;
    size_t size;

    write_checkpoint(f);
    data = read_content(f->checkpoint, &size);
    for (size_t n = 0; n < size; n++) {
        write_file(f->checkpoint, data, n);
        expect_refused(f, &f->mark, ": is incomplete");
    }
    data[size] = 0;
    write_file(f->checkpoint, data, size + 1);
    expect_refused(f, &f->mark, ": is incomplete");
    free(data);
}

/* Corrects the CRC of a header that the test changed. */
static void correct_header(unsigned char *data)
{
    const uint32_t crc = (uint32_t)crc32(0, data, HEADER - 4);

    memcpy(data + HEADER - 4, &crc, sizeof crc);
}

static void refuses_foreign_checkpoints(void **state)
{
    static const char text[] = "this is not a checkpoint, but it is long enough to be one: "
                               "there are at least eighty bytes.";
    fixture *f = *state;
    checkpoint other = f->mark;
    unsigned char *data;
    size_t size;

    write_checkpoint(f);
    other.job_crc++;
    expect_refused(f, &other, ": is of another work unit");
    other = f->mark;
    other.job_size++;
    expect_refused(f, &other, ": is of another work unit");
    other = f->mark;
    snprintf(other.analysis, sizeof other.analysis, "voting");
    expect_refused(f, &other, ": is of another work unit");

    data = read_content(f->checkpoint, &size);
    data[8] = CHECKPOINT_VERSION + 1;
    correct_header(data);
    write_file(f->checkpoint, data, size);
    expect_refused(f, &f->mark, ": is of another version of texcell");
    free(data);
    write_file(f->checkpoint, text, sizeof text);
    expect_refused(f, &f->mark, ": is not a checkpoint");
    remove(f->checkpoint);
    MUST(mkdir(f->checkpoint, 0777) == 0);
    expect_refused(f, &f->mark, NULL);
    assert_int_equal(checkpoint_write(f->checkpoint, &f->mark, f->state, NULL, &err), TC_IO);
    assert_int_equal(count_files(f->folder), 1);
    rmdir(f->checkpoint);
}

static void limit_files_to(rlim_t size)
{
    struct rlimit limit;

    MUST(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    limit.rlim_cur = size == RLIM_INFINITY ? limit.rlim_max : size;
    MUST(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

static void full_disk_keeps_old_checkpoint(void **state)
{
    fixture *f = *state;
    const unsigned char old = f->state[0];

    write_checkpoint(f);
    for (rlim_t n = 0; n < HEADER + STATE; n += 9) {
        f->state[0] = (unsigned char)n;
        f->mark.item = 99;
        limit_files_to(n);
        assert_int_equal(checkpoint_write(f->checkpoint, &f->mark, f->state, NULL, &err), TC_IO);
        limit_files_to(RLIM_INFINITY);
        assert_non_null(strstr(err.message, "c.tmp: cannot be written: File too large"));
        assert_int_equal(count_files(f->folder), 1);
        f->state[0] = old;
        f->mark.item = 5;
        expect_good(f, f->state);
    }
}

static void missing_folder_is_an_error(void **state)
{
    fixture *f = *state;
    char *path = join_path(f->folder, "none/c");

    assert_int_equal(checkpoint_write(path, &f->mark, f->state, NULL, &err), TC_IO);
    assert_non_null(strstr(err.message, "none/c.tmp: cannot be created: No such file"));
    free(path);
}

/* Runs in a child process: writes checkpoints one after the other until the process is killed. */
static void keep_writing(fixture *f)
{
    for (unsigned i = 0;; i++) {
        memset(f->state, (int)(i & 0xff), STATE);
        f->mark.item = i & 0xff;
        if (checkpoint_write(f->checkpoint, &f->mark, f->state, NULL, NULL) != TC_OK)
            _exit(1);
    }
}

/* A reader finds a complete checkpoint at any time, also after a kill at any time. */
static void replaces_atomically(void **state)
{
    fixture *f = *state;
    unsigned char expected[STATE] = { 0 };

    memset(f->state, 0, STATE);
    f->mark.item = 0;
    write_checkpoint(f);
    for (int round = 0; round < 10; round++) {
        const pid_t child = fork();
        int status;

        MUST(child >= 0);
        if (child == 0)
            keep_writing(f);
        for (int i = 0; i < 200; i++) {
            checkpoint found;
            void *data;

            assert_int_equal(checkpoint_read(f->checkpoint, &f->mark, &found, &data, NULL, &err),
                             TC_OK);
            memset(expected, (int)found.item, STATE);
            assert_memory_equal(data, expected, STATE);
            free(data);
        }
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
    }
    checkpoint_remove(f->checkpoint);
    assert_int_equal(count_files(f->folder), 0);
}

/* --- spool ----------------------------------------------------------------------------------- */

/* Makes the output of item i: rows of numbers, names, and two arrays (WU_PER_ITEM), one of them
 * empty.
 */
static void make_output(unsigned i, wu_output *out)
{
    const uint64_t shape[2] = { i + 1, 3 }, none[1] = { 0 }, own[2] = { 40, i + 1 };
    char name[24];
    void *data;

    memset(out, 0, sizeof *out);
    MUST(wu_output_add(out, WU_ROWS, "features", WU_F64, 0, 2, shape, &data, &err) == TC_OK);
    for (unsigned k = 0; k < 3 * (i + 1); k++)
        ((double *)data)[k] = 100.0 * i + k;
    snprintf(name, sizeof name, "labels_%u", i);
    MUST(wu_output_add(out, WU_PER_ITEM, name, WU_I32, 0, 2, own, &data, &err) == TC_OK);
    for (unsigned k = 0; k < 40 * (i + 1); k++)
        ((int32_t *)data)[k] = (int32_t)(k / 7);
    MUST(wu_output_add(out, WU_ROWS, "names", WU_STR, 4, 1, shape, &data, &err) == TC_OK);
    for (unsigned k = 0; k < 4 * (i + 1); k++)
        ((uint32_t *)data)[k] = 'a' + i;
    snprintf(name, sizeof name, "own_%u", i);
    MUST(wu_output_add(out, WU_PER_ITEM, name, WU_U8, 0, 1, none, &data, &err) == TC_OK);
}

typedef struct compressed_bytes {
    unsigned char *data;
    size_t n;
} compressed_bytes;

/* Callback of spool_copy: appends the bytes to a compressed_bytes. */
static tc_status keep(void *user, const void *data, size_t n, tc_err *e)
{
    compressed_bytes *const b = user;
    unsigned char *const grown = realloc(b->data, b->n + n + 1);

    (void)e;
    MUST(grown != NULL);
    b->data = grown;
    memcpy(b->data + b->n, data, n);
    b->n += n;
    return TC_OK;
}

/* Checks a WU_PER_ITEM array, which is spooled compressed: zlib decompresses it to its NumPy header
 * of 128 bytes and its data. */
static void expect_compressed(spool *s, unsigned i, const wu_out_array *want,
                              const wu_out_array *got)
{
    compressed_bytes b = { NULL, 0 };
    int ok;
    const size_t n = (size_t)wu_array_bytes(&want->info, &ok), room = n + 4096;
    unsigned char *const plain = malloc(room);
    z_stream z = { .next_out = plain, .avail_out = (uInt)room };

    MUST(plain != NULL);
    assert_null(got->data);
    assert_int_equal(spool_copy(s, i, want->info.name, keep, &b, &err), TC_OK);
    assert_int_equal(b.n, got->compressed.compressed);
    assert_true(got->compressed.deflated);
    assert_int_equal(got->compressed.size, n + 128);
    z.next_in = b.data;
    z.avail_in = (uInt)b.n;
    assert_int_equal(inflateInit2(&z, -MAX_WBITS), Z_OK);
    assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
    assert_int_equal(z.total_out, got->compressed.size);
    assert_int_equal(crc32(0, plain, (uInt)z.total_out), got->compressed.crc);
    if (n > 0)
        assert_memory_equal(plain + 128, want->data, n);
    (void)inflateEnd(&z);
    free(plain);
    free(b.data);
}

static void expect_array(spool *s, unsigned i, const wu_out_array *want, const wu_out_array *got)
{
    const wu_array_info *const a = &want->info, *const b = &got->info;
    int ok;

    assert_string_equal(a->name, b->name);
    assert_int_equal(want->kind, got->kind);
    assert_int_equal(a->dtype, b->dtype);
    assert_int_equal(a->width, b->width);
    assert_int_equal(a->ndim, b->ndim);
    assert_memory_equal(a->shape, b->shape, a->ndim * sizeof a->shape[0]);
    if (want->kind == WU_PER_ITEM)
        expect_compressed(s, i, want, got);
    else
        assert_memory_equal(want->data, got->data, wu_array_bytes(a, &ok));
}

static void expect_output(spool *s, unsigned i)
{
    wu_output want, got;

    make_output(i, &want);
    assert_int_equal(spool_read(s, i, NULL, &got, &err), TC_OK);
    assert_int_equal(got.n, want.n);
    for (size_t k = 0; k < want.n; k++)
        expect_array(s, i, &want.arrays[k], &got.arrays[k]);
    wu_output_free(&got);
    assert_int_equal(spool_read(s, i, "names", &got, &err),
                     TC_OK); /* reads only "names" and the compressed arrays */
    assert_int_equal(got.n, 3);
    for (size_t k = 0; k < 3; k++)
        expect_array(s, i, &want.arrays[k + 1], &got.arrays[k]);
    wu_output_free(&got);
    assert_int_equal(spool_copy(s, i, "other", keep, NULL, &err), TC_IO);
    wu_output_free(&want);
}

static spool *open_spool(const fixture *f)
{
    spool *s = NULL;

    assert_int_equal(spool_open(f->spool, NULL, &s, &err), TC_OK);
    return s;
}

static void append(spool *s, unsigned i)
{
    wu_output output;

    make_output(i, &output);
    assert_int_equal(spool_append(s, &output, i % 3, NULL, NULL, &err), TC_OK);
    wu_output_free(&output);
}

/* Writes a spool of n items; sets its size and CRC in f->mark. */
static void write_spool(fixture *f, unsigned n)
{
    spool *s = open_spool(f);

    assert_int_equal(spool_truncate(s, 0, 0, 0, &err), TC_OK);
    for (unsigned i = 0; i < n; i++)
        append(s, i);
    assert_int_equal(spool_sync(s, &f->mark.spool_size, &f->mark.spool_crc, &err), TC_OK);
    spool_close(&s);
    assert_null(s);
}

static void reads_spooled_items(void **state)
{
    fixture *f = *state;
    wu_output out;
    struct stat info;
    spool *s;

    write_spool(f, 3);
    s = open_spool(f);
    assert_int_equal(spool_read(s, 0, NULL, &out, &err),
                     TC_IO); /* before spool_truncate: no items */
    assert_int_equal(spool_truncate(s, f->mark.spool_size, f->mark.spool_crc, 3, &err), TC_OK);
    for (unsigned i = 0; i < 3; i++)
        expect_output(s, i);
    assert_int_equal(spool_read(s, 3, NULL, &out, &err), TC_IO);
    /* Items spooled after the last checkpoint are dropped, and spooled again. */
    append(s, 3);
    append(s, 4);
    spool_close(&s);
    s = open_spool(f);
    assert_int_equal(spool_truncate(s, f->mark.spool_size, f->mark.spool_crc, 3, &err), TC_OK);
    assert_int_equal(stat(f->spool, &info), 0);
    assert_int_equal(info.st_size, f->mark.spool_size);
    append(s, 3);
    for (unsigned i = 0; i < 4; i++)
        expect_output(s, i);
    for (unsigned i = 4; i < 200; i++)
        append(s, i);
    expect_output(s, 199);
    expect_output(s, 0);
    spool_close(&s);
    spool_close(&s);
}

static void expect_emptied(const fixture *f, uint64_t items)
{
    spool *s = open_spool(f);
    wu_output out;
    struct stat info;

    assert_int_equal(spool_truncate(s, f->mark.spool_size, f->mark.spool_crc, items, &err),
                     TC_BAD_INPUT);
    assert_int_equal(stat(f->spool, &info), 0);
    assert_int_equal(info.st_size, 0);
    assert_int_equal(spool_read(s, 0, NULL, &out, &err), TC_IO);
    append(s, 0);
    expect_output(s, 0);
    spool_close(&s);
}

static void detects_damaged_spool(void **state)
{
    fixture *f = *state;
    unsigned char *data;
    uint64_t kept = 1;
    uint32_t crc = 1;
    size_t size;
    spool *s;

    write_spool(f, 2);
    data = read_content(f->spool, &size);
    assert_int_equal(size, f->mark.spool_size);
    for (size_t i = 0; i < size; i++) {
        data[i] ^= (unsigned char)(1u << (i % 8));
        write_file(f->spool, data, size);
        expect_emptied(f, 2);
        data[i] ^= (unsigned char)(1u << (i % 8));
    }
    for (size_t n = 0; n < size; n++) {
        write_file(f->spool, data, n);
        expect_emptied(f, 2);
    }
    write_file(f->spool, data, size);
    expect_emptied(f, 1);
    write_file(f->spool, data, size);
    expect_emptied(f, 3);
    /* Bytes after the end recorded in the checkpoint are ignored. */
    data[size] = data[size + 1] = 'x';
    write_file(f->spool, data, size + 2);
    s = open_spool(f);
    assert_int_equal(spool_truncate(s, f->mark.spool_size, f->mark.spool_crc, 2, &err), TC_OK);
    expect_output(s, 1);
    /* A checkpoint may record an empty spool. */
    assert_int_equal(spool_truncate(s, 0, 0, 0, &err), TC_OK);
    assert_int_equal(spool_sync(s, &kept, &crc, &err), TC_OK);
    assert_int_equal(kept, 0);
    assert_int_equal(crc, 0);
    spool_close(&s);
    free(data);
}

#ifndef __has_feature /* of clang */
#define __has_feature(feature) 0
#endif
/* Sanitizers need more memory than the tests' limit. */
#if !defined(__SANITIZE_ADDRESS__) && !__has_feature(address_sanitizer) && \
    !__has_feature(thread_sanitizer)
#define LIMITS_MEMORY
#endif

#ifdef LIMITS_MEMORY
/* Reading the records' headers fails without memory, and succeeds later. */
static void keeps_a_spool_without_memory(void **state)
{
    enum { N = 8000, NAME = 500 };
    fixture *f = *state;
    const uint64_t none[1] = { 0 };
    struct rlimit before, tight;
    wu_output out = { .n = 0 };
    spool *s = open_spool(f);
    tc_status status;

    for (unsigned i = 0; i < N; i++) {
        char name[NAME + 1];
        void *data;

        snprintf(name, sizeof name, "%0*u", NAME, i);
        MUST(wu_output_add(&out, WU_ROWS, name, WU_U8, 0, 1, none, &data, &err) == TC_OK);
    }
    assert_int_equal(spool_append(s, &out, 1, NULL, NULL, &err), TC_OK);
    assert_int_equal(spool_sync(s, &f->mark.spool_size, &f->mark.spool_crc, &err), TC_OK);
    MUST(getrlimit(RLIMIT_AS, &before) == 0);
    tight = before;
    tight.rlim_cur = 1;
    MUST(setrlimit(RLIMIT_AS, &tight) == 0);
    status = spool_truncate(s, f->mark.spool_size, f->mark.spool_crc, 1, &err);
    MUST(setrlimit(RLIMIT_AS, &before) == 0);
    assert_int_equal(status, TC_NO_MEMORY);
    wu_output_free(&out);
    spool_close(&s);
    s = open_spool(f);
    assert_int_equal(spool_truncate(s, f->mark.spool_size, f->mark.spool_crc, 1, &err), TC_OK);
    assert_int_equal(spool_read(s, 0, NULL, &out, &err), TC_OK);
    assert_int_equal(out.n, N);
    wu_output_free(&out);
    spool_close(&s);
}
#endif

/* A spool with damaged records is read safely, even if its CRCs are right. */
static void reads_invalid_records_safely(void **state)
{
    fixture *f = *state;
    unsigned char *data;
    uint32_t right;
    size_t size;

    write_spool(f, 1);
    data = read_content(f->spool, &size);
    memcpy(&right, data + size - 4, sizeof right);
    for (size_t i = 0; i < size; i++) {
        for (int bit = 0; bit < 8; bit++) {
            uint32_t crc, heads;
            wu_output out;
            spool *s;

            data[i] ^= (unsigned char)(1u << bit);
            memcpy(&heads, data + size - 8, sizeof heads);
            if (heads <= size - 24) {
                crc = (uint32_t)crc32(0, data + size - 24 - heads, heads);
                memcpy(data + size - 4, &crc, sizeof crc); /* the record's CRC */
            }
            f->mark.spool_crc = (uint32_t)crc32(0, data, (uInt)size);
            write_file(f->spool, data, size);
            s = open_spool(f);
            if (spool_truncate(s, size, f->mark.spool_crc, 1, &err) == TC_OK &&
                spool_read(s, 0, NULL, &out, &err) == TC_OK) {
                for (size_t k = 0; k < out.n; k++) {
                    compressed_bytes b = { NULL, 0 };

                    if (out.arrays[k].kind == WU_PER_ITEM &&
                        spool_copy(s, 0, out.arrays[k].info.name, keep, &b, &err) == TC_OK)
                        assert_int_equal(b.n, out.arrays[k].compressed.compressed);
                    free(b.data);
                }
                wu_output_free(&out);
            }
            spool_close(&s);
            data[i] ^= (unsigned char)(1u << bit);
            memcpy(data + size - 4, &right, sizeof right);
        }
    }
    free(data);
}

static void locks_files(void **state)
{
    fixture *f = *state;
    spool *s = open_spool(f), *other = NULL;
    int status;
    pid_t child;

    assert_int_equal(spool_open(f->spool, NULL, &other, &err), TC_TRY_LATER);
    assert_null(other);
    assert_non_null(strstr(err.message, "s: another texcell is at work on it"));
    child = fork();
    MUST(child >= 0);
    if (child == 0)
        _exit(spool_open(f->spool, NULL, &other, NULL) == TC_TRY_LATER ? 0 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    spool_close(&s);
    /* The lock of a killed process is released. */
    child = fork();
    MUST(child >= 0);
    if (child == 0) {
        if (spool_open(f->spool, NULL, &other, NULL) != TC_OK)
            _exit(1);
        kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    s = open_spool(f);
    spool_close(&s);
}

static void refuses_non_files(void **state)
{
    fixture *f = *state;
    char *victim = join_path(f->folder, "victim"),
         *temporary = malloc(strlen(f->checkpoint) + sizeof ".tmp");
    spool *s = NULL;
    struct stat info;

    write_file(victim, "precious", 8);
    sprintf(temporary, "%s.tmp", f->checkpoint);
    MUST(symlink(victim, temporary) == 0);
    assert_int_equal(checkpoint_write(f->checkpoint, &f->mark, f->state, NULL, &err), TC_IO);
    MUST(stat(victim, &info) == 0);
    assert_int_equal(info.st_size, 8);
    remove(temporary);
    free(temporary);
    MUST(symlink(victim, f->spool) == 0);
    assert_int_equal(spool_open(f->spool, NULL, &s, &err), TC_IO);
    assert_null(s);
    remove(f->spool);
    MUST(mkdir(f->spool, 0777) == 0);
    assert_int_equal(spool_open(f->spool, NULL, &s, &err), TC_IO);
    assert_null(s);
    rmdir(f->spool);
    MUST(mkfifo(f->checkpoint, 0600) == 0);
    expect_refused(f, &f->mark, ": is incomplete"); /* reading does not wait at a FIFO */
    remove(f->checkpoint);
    free(victim);
}

static void full_disk_keeps_spooled_items(void **state)
{
    fixture *f = *state;
    wu_output output;
    spool *s;

    write_spool(f, 2);
    s = open_spool(f);
    assert_int_equal(spool_truncate(s, f->mark.spool_size, f->mark.spool_crc, 2, &err), TC_OK);
    make_output(2, &output);
    for (rlim_t more = 0; more < 100; more += 33) {
        limit_files_to(f->mark.spool_size + more);
        assert_int_equal(spool_append(s, &output, 1, NULL, NULL, &err), TC_IO);
        limit_files_to(RLIM_INFINITY);
        assert_non_null(strstr(err.message, "s: cannot be written: File too large"));
        expect_output(s, 0);
        expect_output(s, 1);
    }
    assert_int_equal(spool_append(s, &output, 1, NULL, NULL, &err), TC_OK);
    assert_int_equal(spool_sync(s, &f->mark.spool_size, &f->mark.spool_crc, &err), TC_OK);
    spool_close(&s);
    wu_output_free(&output);
    s = open_spool(f);
    assert_int_equal(spool_truncate(s, f->mark.spool_size, f->mark.spool_crc, 3, &err), TC_OK);
    expect_output(s, 2);
    spool_close(&s);
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(restores_state),
        IN_FOLDER(detects_every_changed_byte),
        IN_FOLDER(refuses_every_other_length),
        IN_FOLDER(refuses_foreign_checkpoints),
        IN_FOLDER(full_disk_keeps_old_checkpoint),
        IN_FOLDER(missing_folder_is_an_error),
        IN_FOLDER(replaces_atomically),
        IN_FOLDER(reads_spooled_items),
        IN_FOLDER(detects_damaged_spool),
        IN_FOLDER(reads_invalid_records_safely),
#ifdef LIMITS_MEMORY
        IN_FOLDER(keeps_a_spool_without_memory),
#endif
        IN_FOLDER(locks_files),
        IN_FOLDER(refuses_non_files),
        IN_FOLDER(full_disk_keeps_spooled_items),
    };

    signal(SIGXFSZ, SIG_IGN);
    return cmocka_run_group_tests_name("checkpoint", tests, NULL, NULL);
}
