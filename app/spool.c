/* Appends outputs of items to the spool, and reads them back for the result: see spool.h. */
#include "app/spool.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/base/array.h"
#include "app/base/crc32.h"
#include "app/base/files.h"
#include "app/base/os.h"
#include "workunits/format/label_runs.h"

enum { WINDOW = 1 << 16 }; /* the size of the read cache, in bytes */

/* The read cache: n bytes of the file from offset `at` on. Records are read in many small pieces.
 */
typedef struct window {
    uint64_t at;
    size_t n;
    unsigned char bytes[WINDOW];
} window;

struct spool {
    char *path;
    window *read; /* owned */
    const tc_poll *poll;
    wu_run_writer *runs;  /* writes label pictures as runs of labels to another file; may be NULL */
    int fd;               /* the locked file, or -1 */
    uint64_t size;        /* bytes of all records */
    uint32_t crc;         /* CRC-32 of those bytes */
    double work_to_write; /* estimated time for writing the result, see spool_writing_cost */
    size_t items, capacity; /* used and allocated elements of tails */
    uint64_t *tails;        /* [items] the offset of each record's record_tail */
};

/* The end of a record. A record consists of three parts: the data of n_arrays arrays; the heads,
 * which are for each array an array_head, its name and its shape (a u64 per axis); and this tail.
 * All numbers are little-endian, and there is no padding. */
typedef struct record_tail {
    char magic[4];
    uint32_t n_arrays;
    uint64_t bytes;      /* bytes of the arrays' data */
    uint32_t head_bytes; /* bytes between the data and the tail */
    uint32_t crc;        /* CRC-32 of those head_bytes bytes */
} record_tail;

typedef struct array_head {
    uint8_t kind, dtype, ndim; /* wu_array_kind, wu_dtype, number of axes */
    uint8_t compressed; /* 0 if the data are not compressed; otherwise COMPRESSED and further bits
                           of the enum below */
    uint32_t width;     /* characters of an element of a text array; otherwise 0 */
    uint32_t name_length;
    uint32_t crc;         /* CRC-32 of the data in the record */
    uint64_t bytes;       /* bytes of the data in the record */
    uint64_t plain_bytes; /* bytes of the data before compression; 0 if they are not compressed */
    uint32_t plain_crc;   /* CRC-32 of the data before compression; 0 if they are not compressed */
    uint32_t reserved;
} array_head;

/* Bits of array_head.compressed. */
enum {
    COMPRESSED = 1,          /* the array's data are compressed */
    COMPRESSED_DEFLATED = 2, /* wu_compressed.deflated */
    COMPRESSED_TEXT = 4      /* wu_compressed.text */
};

static const char magic[4] = "TXSP";

tc_status spool_open(const char *path, const tc_poll *poll, spool **out, tc_err *err)
{
    spool *const s = calloc(1, sizeof *s);
    tc_status status;

    *out = NULL;
    if (s == NULL)
        return tc_no_memory(err, "the spool");
    s->fd = -1;
    s->poll = poll;
    s->path = strdup(path);
    s->read = malloc(sizeof *s->read);
    if (s->read != NULL)
        s->read->at = s->read->n = 0;
    status = s->path == NULL || s->read == NULL ? tc_no_memory(err, "the spool")
                                                : tc_open_locked(path, path, &s->fd, err);
    if (status == TC_OK)
        *out = s;
    else
        spool_close(&(spool *){ s });
    return status;
}

void spool_close(spool **at)
{
    spool *const s = *at;

    *at = NULL;
    if (s == NULL)
        return;
    if (s->fd >= 0)
        close(s->fd);
    wu_run_writer_close(&s->runs);
    free(s->path);
    free(s->read);
    free(s->tails);
    free(s);
}

void spool_write_runs_to(spool *s, const char *path)
{
    assert(s->runs == NULL);
    s->runs = wu_run_writer_open(path);
}

/* Reads n bytes of the file from offset `at` on, fewer than WINDOW bytes through the window.
 * Returns false if they cannot be read. */
static bool read_at(const spool *s, uint64_t at, void *data, size_t n)
{
    window *const w = s->read;
    unsigned char *to = data;

    if (n >= WINDOW)
        return tc_read_all_at(s->fd, at, data, n);
    for (size_t part; n > 0; at += part, to += part, n -= part) {
        if (at < w->at || at - w->at >= w->n) {
            w->at = at / WINDOW * WINDOW;
            w->n = 0;
            if (tc_read_at(s->fd, s->path, w->at, w->bytes, WINDOW, &w->n, NULL) != TC_OK ||
                at - w->at >= w->n)
                return false;
        }
        part = w->n - (size_t)(at - w->at);
        part = part < n ? part : n;
        memcpy(to, w->bytes + (at - w->at), part);
    }
    return true;
}

/* Empties the window, as the file is about to change or has changed. */
static void empty_window(const spool *s)
{
    s->read->n = 0;
}

/* Checks that the CRC-32 of the file's first `size` bytes is `crc`. */
static tc_status check_crc(const spool *s, uint64_t size, uint32_t crc, tc_err *err)
{
    enum { BLOCK = 1 << 16 };
    TC_AUTOFREE unsigned char *const block = malloc(BLOCK);
    uint32_t file_crc = 0;
    bool good = true;

    if (block == NULL)
        return tc_no_memory(err, "the spool");
    for (uint64_t at = 0; good && at < size; at += BLOCK) {
        const size_t n = size - at < BLOCK ? (size_t)(size - at) : BLOCK;

        good = read_at(s, at, block, n);
        file_crc = good ? tc_crc32(file_crc, block, n) : file_crc;
        return_if_error(tc_call_poll(s->poll, err));
    }
    return good && file_crc == crc
               ? TC_OK
               : tc_fail(err, TC_BAD_INPUT, "%s: does not fit the checkpoint", s->path);
}

/* --- reading records ------------------------------------------------------------------------- */

/* The state of reading a record. next_array sets the current array. */
typedef struct record_reader {
    record_tail tail;
    unsigned char *bytes; /* [tail.head_bytes] the heads, freed by free_reader */
    size_t used;          /* bytes of the heads that have been read */
    uint64_t at;          /* offset in the file of the next array's data */
    uint64_t left;        /* bytes of data of the next array and those after it */
    /* The following members describe the current array. */
    array_head head;
    char name[4 * WU_MAX_NAME];
    wu_array_info info; /* info.name points to `name` */
    uint64_t plain;     /* bytes of the array's data without compression */
    uint64_t data;      /* offset of the array's data in the file */
} record_reader;

static void free_reader(record_reader *h)
{
    free(h->bytes);
}

/* Reads the heads of the record whose tail is at offset `at`. The caller frees *h by free_reader,
 * also after a failure. TC_BAD_INPUT: there is no valid record. */
static tc_status open_reader(const spool *s, uint64_t at, record_reader *h, tc_err *err)
{
    record_tail *const t = &h->tail;

    *h = (record_reader){ .bytes = NULL };
    /* Data and heads lie before the tail, so they must fit into the `at` bytes before it. */
    if (read_at(s, at, t, sizeof *t) && memcmp(t->magic, magic, sizeof magic) == 0 &&
        t->head_bytes <= at && t->bytes <= at - t->head_bytes) {
        h->at = at - t->head_bytes - t->bytes;
        h->left = t->bytes;
        h->bytes = malloc((size_t)t->head_bytes + 1); /* never 0 bytes */
        if (h->bytes == NULL)
            return tc_no_memory(err, "the spool");
        if (read_at(s, at - t->head_bytes, h->bytes, t->head_bytes) &&
            tc_crc32(0, h->bytes, t->head_bytes) == t->crc)
            return TC_OK;
    }
    return tc_fail(err, TC_BAD_INPUT, "%s: is corrupt", s->path);
}

/* Copies the next n bytes of the heads. Returns false if fewer are left. */
static bool read_head_bytes(record_reader *h, void *out, size_t n)
{
    if (n > h->tail.head_bytes - h->used)
        return false;
    memcpy(out, h->bytes + h->used, n);
    h->used += n;
    return true;
}

/* Makes the next array the current one. Returns false if its head is invalid or there is no further
 * array. */
static bool next_array(record_reader *h)
{
    array_head *const a = &h->head;
    wu_array_info *const info = &h->info;
    int ok;

    if (!read_head_bytes(h, a, sizeof *a) || a->kind > WU_ONCE || a->dtype > WU_STR ||
        a->ndim < 1 || a->ndim > WU_MAX_NDIM || a->name_length >= sizeof h->name ||
        !read_head_bytes(h, h->name, a->name_length))
        return false;
    h->name[a->name_length] = '\0';
    *info = (wu_array_info){
        .name = h->name, .dtype = (wu_dtype)a->dtype, .width = a->width, .ndim = a->ndim
    };
    if (!read_head_bytes(h, info->shape, a->ndim * sizeof info->shape[0]) || a->bytes > h->left)
        return false;
    h->plain = wu_array_bytes(info, &ok);
    h->data = h->at;
    h->at += a->bytes;
    h->left -= a->bytes;
    /* An array that is not compressed has all its bytes in the record, so a corrupt head cannot
     * make the program allocate more than that. */
    return ok && wu_dtype_size(info->dtype, info->width) > 0 &&
           (a->compressed != 0) == (a->kind == WU_PER_ITEM) &&
           (a->compressed != 0 || a->bytes == h->plain);
}

/* The description of a compressed array. */
static wu_compressed compressed_of(const array_head *a)
{
    return (wu_compressed){ .size = a->plain_bytes,
                            .compressed = a->bytes,
                            .crc = a->plain_crc,
                            .deflated = (a->compressed & COMPRESSED_DEFLATED) != 0,
                            .text = (a->compressed & COMPRESSED_TEXT) != 0 };
}

static tc_status cannot_be_read(const spool *s, tc_err *err)
{
    return tc_fail(err, TC_IO, "%s: cannot be read back", s->path);
}

/* Passes the data of the current array to `take`, piece by piece. Returns TC_IO if the data cannot
 * be read or their CRC is wrong. */
static tc_status read_data(const spool *s, const record_reader *h, wu_receive_fn take, void *user,
                           tc_err *err)
{
    TC_AUTOFREE unsigned char *const block = malloc(TC_POLL_BLOCK);
    uint32_t crc = 0;

    if (block == NULL)
        return tc_no_memory(err, "the spool");
    for (uint64_t at = 0; at < h->head.bytes; at += TC_POLL_BLOCK) {
        const size_t n =
            h->head.bytes - at < TC_POLL_BLOCK ? (size_t)(h->head.bytes - at) : TC_POLL_BLOCK;

        if (!read_at(s, h->data + at, block, n))
            return cannot_be_read(s, err);
        crc = tc_crc32(crc, block, n);
        return_if_error(tc_call_poll(s->poll, err));
        return_if_error(take(user, block, n, err));
    }
    return crc == h->head.crc ? TC_OK : cannot_be_read(s, err);
}

/* A wu_receive_fn that copies the data to *user, and advances that pointer. */
static tc_status copy_to(void *user, const void *data, size_t n, tc_err *err)
{
    unsigned char **const to = user;

    (void)err;
    memcpy(*to, data, n);
    *to += n;
    return TC_OK;
}

/* Adds the current array to the output, with its data unless it is compressed. */
static tc_status add_array(const spool *s, const record_reader *h, wu_output *output, tc_err *err)
{
    const wu_compressed compressed = compressed_of(&h->head);
    void *data;
    tc_status status;

    if (h->head.compressed != 0)
        return wu_output_add_compressed(output, &h->info, &compressed, err);
    status = wu_output_add(output, (wu_array_kind)h->head.kind, h->name, h->info.dtype,
                           h->info.width, h->info.ndim, h->info.shape, &data, err);
    return status == TC_OK && data != NULL ? read_data(s, h, copy_to, &data, err) : status;
}

/* Reads the heads of the record of item `index`. */
static tc_status open_record(const spool *s, size_t index, record_reader *h, tc_err *err)
{
    const tc_status status =
        index < s->items ? open_reader(s, s->tails[index], h, err) : TC_BAD_INPUT;

    return status == TC_BAD_INPUT ? cannot_be_read(s, err) : status;
}

tc_status spool_read(void *user, size_t index, const char *only, wu_output *output, tc_err *err)
{
    const spool *const s = user;
    record_reader h = { .bytes = NULL };
    tc_status status = open_record(s, index, &h, err);

    memset(output, 0, sizeof *output);
    for (uint32_t i = 0; status == TC_OK && i < h.tail.n_arrays; i++) {
        if (!next_array(&h))
            status = cannot_be_read(s, err);
        else if (only == NULL || h.head.compressed != 0 || strcmp(h.name, only) == 0)
            status = add_array(s, &h, output, err);
    }
    if (status == TC_OK && (h.left > 0 || h.used < h.tail.head_bytes))
        status = cannot_be_read(s, err);
    free(h.bytes);
    if (status != TC_OK)
        wu_output_free(output);
    return status;
}

tc_status spool_copy(void *user, size_t index, const char *array, wu_receive_fn take, void *taker,
                     tc_err *err)
{
    const spool *const s = user;
    TC_AUTO(free_reader) record_reader h = { .bytes = NULL };
    return_if_error(open_record(s, index, &h, err));

    for (uint32_t i = 0; i < h.tail.n_arrays && next_array(&h); i++)
        if (strcmp(h.name, array) == 0)
            return read_data(s, &h, take, taker, err);
    return cannot_be_read(s, err);
}

/* --- the list of records --------------------------------------------------------------------- */

/* Appends a record, whose tail is at offset `at`, to the list of records. */
static tc_status add_record(spool *s, uint64_t at, tc_err *err)
{
    uint64_t *const grown = tc_array_grow(s->tails, s->items, &s->capacity, sizeof *grown);

    if (grown == NULL)
        return tc_no_memory(err, "the spool");
    s->tails = grown;
    s->tails[s->items++] = at;
    return TC_OK;
}

/* The estimated time for writing an array into the result, in the unit of spool_writing_cost. */
static double work_to_write(const array_head *a)
{
    return (double)a->bytes / (a->compressed != 0 ? WU_COPY_SPEEDUP : 1);
}

/* Fills s->tails with the records in the file's first `size` bytes, which must be `items` in
 * number. Finds the last record first, as a record's tail contains the record's length, and finally
 * reverses the list. */
static tc_status index_records(spool *s, uint64_t size, uint64_t items, tc_err *err)
{
    for (uint64_t end = size; end > 0;) {
        TC_AUTO(free_reader) record_reader h = { .bytes = NULL };

        return_if_error(end < sizeof h.tail ? tc_fail(err, TC_BAD_INPUT, "%s: is corrupt", s->path)
                                            : open_reader(s, end - sizeof h.tail, &h, err));
        return_if_error(add_record(s, end - sizeof h.tail, err));
        end = h.at;
        for (uint32_t i = 0; i < h.tail.n_arrays && next_array(&h); i++)
            s->work_to_write += work_to_write(&h.head);
    }
    for (size_t i = 0; i < s->items / 2; i++) {
        const uint64_t first = s->tails[i];

        s->tails[i] = s->tails[s->items - 1 - i];
        s->tails[s->items - 1 - i] = first;
    }
    return s->items == items
               ? TC_OK
               : tc_fail(err, TC_BAD_INPUT, "%s: does not fit the checkpoint", s->path);
}

/* Empties the list of records; the file remains unchanged. */
static void clear_records(spool *s)
{
    s->items = 0;
    s->work_to_write = 0;
}

tc_status spool_truncate(spool *s, uint64_t size, uint32_t crc, uint64_t items, tc_err *err)
{
    tc_status status = check_crc(s, size, crc, err);

    clear_records(s);
    if (status == TC_OK)
        status = index_records(s, size, items, err);
    if (status != TC_OK)
        clear_records(s);
    if (status != TC_OK && status != TC_BAD_INPUT)
        return status; /* the file remains unchanged, for the next run */
    s->size = status == TC_OK ? size : 0;
    s->crc = status == TC_OK ? crc : 0;
    empty_window(s);
    if (ftruncate(s->fd, (off_t)s->size) != 0)
        return tc_fail(err, tc_write_error_status(errno), "%s: cannot be written: %s", s->path,
                       strerror(errno));
    return status;
}

double spool_writing_cost(const spool *s)
{
    return s->work_to_write;
}

/* --- writing a record ------------------------------------------------------------------------ */

/* The state of writing a record. */
typedef struct record_writer {
    const spool *s;
    const tc_poll *poll;
    const wu_write_progress *progress;
    wu_compressor *compressor;
    double done, all;  /* bytes of the arrays' uncompressed data: so far, and in total */
    uint64_t at;       /* offset in the file of the next byte of the record */
    uint32_t crc;      /* CRC-32 of the file up to that offset */
    uint32_t data_crc; /* CRC-32 of the current array's data, or of the heads */
    unsigned char pending[1 << 14]; /* the last n_pending bytes, which are not yet written */
    size_t n_pending;
} record_writer;

static void free_record(record_writer *r)
{
    wu_compressor_free(&r->compressor);
}

/* Writes n bytes to offset `at` of the file. */
static tc_status write_now(const record_writer *r, uint64_t at, const void *data, size_t n,
                           tc_err *err)
{
    empty_window(r->s);
    return tc_write_at(r->s->fd, at, data, n)
               ? TC_OK
               : tc_fail(err, tc_write_error_status(errno), "%s: cannot be written: %s", r->s->path,
                         strerror(errno));
}

/* Writes r->pending to the file, and empties it. */
static tc_status write_pending(record_writer *r, tc_err *err)
{
    const size_t n = r->n_pending;

    r->n_pending = 0;
    return write_now(r, r->at - n, r->pending, n, err);
}

/* A wu_receive_fn that appends bytes to the record. Small pieces are collected in r->pending. */
static tc_status write_piece(void *user, const void *data, size_t n, tc_err *err)
{
    record_writer *const r = user;
    tc_status status = n > sizeof r->pending - r->n_pending ? write_pending(r, err) : TC_OK;

    if (status == TC_OK && n > sizeof r->pending) {
        status = write_now(r, r->at, data, n, err);
    } else if (status == TC_OK) {
        memcpy(r->pending + r->n_pending, data, n);
        r->n_pending += n;
    }
    r->at += n;
    r->crc = tc_crc32(r->crc, data, n);
    r->data_crc = tc_crc32(r->data_crc, data, n);
    return status;
}

/* The number of bytes of an array without compression. */
static size_t data_bytes(const wu_array_info *info)
{
    int ok;
    const uint64_t bytes = wu_array_bytes(info, &ok);

    return ok ? (size_t)bytes : 0;
}

/* Whether the array is a label picture whose runs are to be stored. */
static bool is_picture_of_labels(const spool *s, const wu_out_array *a)
{
    return s->runs != NULL && a->kind == WU_PER_ITEM && a->info.dtype == WU_I32 &&
           a->info.ndim == 2;
}

/* Writes the array's data in blocks, compressed if it is a WU_PER_ITEM array. Calls the poll and
 * reports the progress after each block. */
static tc_status write_data(record_writer *r, const wu_out_array *a, tc_err *err)
{
    const unsigned char *const data = a->data;
    const size_t bytes = data_bytes(&a->info);
    const bool labels = is_picture_of_labels(r->s, a);

    for (size_t at = 0, end; at < bytes; at = end) {
        end = tc_block_end(at, bytes);
        if (labels)
            wu_run_writer_add(r->s->runs, (const uint32_t *)a->data + at / sizeof(uint32_t),
                              (end - at) / sizeof(uint32_t));
        return_if_error(a->kind == WU_PER_ITEM
                            ? wu_compressor_write(r->compressor, data + at, end - at, err)
                            : write_piece(r, data + at, end - at, err));
        r->done += (double)(end - at);
        return_if_error(tc_call_poll(r->poll, err));
        if (r->progress != NULL)
            r->progress->report(r->progress->user, r->done / r->all);
    }
    return TC_OK;
}

/* The head of an array whose data were written from offset `begin`. */
static array_head head_of(const record_writer *r, const wu_out_array *a, uint64_t begin,
                          const wu_compressed *compressed)
{
    array_head head = { .kind = (uint8_t)a->kind,
                        .dtype = (uint8_t)a->info.dtype,
                        .ndim = (uint8_t)a->info.ndim,
                        .width = a->info.width,
                        .name_length = (uint32_t)strlen(a->info.name),
                        .crc = r->data_crc,
                        .bytes = r->at - begin };

    if (a->kind == WU_PER_ITEM) {
        head.compressed = (uint8_t)(COMPRESSED | (compressed->deflated ? COMPRESSED_DEFLATED : 0) |
                                    (compressed->text ? COMPRESSED_TEXT : 0));
        head.plain_bytes = compressed->size;
        head.plain_crc = compressed->crc;
    }
    return head;
}

/* Writes the array's data, and fills its head, which write_heads writes later. */
static tc_status write_array(record_writer *r, const wu_out_array *a, array_head *head, tc_err *err)
{
    const uint64_t begin = r->at;
    wu_compressed compressed = { .size = 0 };

    r->data_crc = 0;
    if (is_picture_of_labels(r->s, a))
        wu_run_writer_begin(r->s->runs);
    if (a->kind == WU_PER_ITEM)
        return_if_error(wu_npz_begin_compressing(r->compressor, r->s->path, &a->info, err));
    return_if_error(write_data(r, a, err));
    if (a->kind == WU_PER_ITEM)
        return_if_error(wu_compressor_end(r->compressor, &compressed, err));
    if (is_picture_of_labels(r->s, a))
        wu_run_writer_end(r->s->runs, compressed.crc);
    *head = head_of(r, a, begin, &compressed);
    return TC_OK;
}

/* Writes all heads, and the tail, which has the CRC-32 of the heads. bytes: the number of bytes of
 * all arrays' data in the record, which the tail contains. */
static tc_status write_heads(record_writer *r, const wu_output *output, const array_head *heads,
                             uint64_t bytes, tc_err *err)
{
    const uint64_t begin = r->at;
    record_tail tail = { .n_arrays = (uint32_t)output->n, .bytes = bytes };

    r->data_crc = 0;
    for (size_t i = 0; i < output->n; i++) {
        const wu_array_info *const info = &output->arrays[i].info;

        return_if_error(write_piece(r, &heads[i], sizeof heads[i], err));
        return_if_error(write_piece(r, info->name, heads[i].name_length, err));
        return_if_error(write_piece(r, info->shape, info->ndim * sizeof info->shape[0], err));
    }
    memcpy(tail.magic, magic, sizeof magic);
    tail.head_bytes = (uint32_t)(r->at - begin);
    tail.crc = r->data_crc;
    return write_piece(r, &tail, sizeof tail, err);
}

tc_status spool_append(spool *s, const wu_output *output, unsigned threads, const tc_poll *poll,
                       const wu_write_progress *progress, tc_err *err)
{
    TC_AUTO(free_record)
    record_writer r = { .s = s, .poll = poll, .progress = progress, .at = s->size, .crc = s->crc };
    TC_AUTOFREE array_head *const heads = calloc(output->n + 1, sizeof *heads);
    double added = 0; /* the record's part of s->work_to_write */

    return_if_error(heads == NULL ? tc_no_memory(err, "the spool")
                                  : wu_compressor_create(WU_NPZ_LEVEL, threads, s->path,
                                                         write_piece, &r, &r.compressor, err));
    for (size_t i = 0; i < output->n; i++)
        r.all += (double)data_bytes(&output->arrays[i].info);
    for (size_t i = 0; i < output->n; i++) {
        return_if_error(write_array(&r, &output->arrays[i], &heads[i], err));
        added += work_to_write(&heads[i]);
    }
    return_if_error(write_heads(&r, output, heads, r.at - s->size, err));
    return_if_error(write_pending(&r, err));
    return_if_error(add_record(s, r.at - sizeof(record_tail), err));
    s->crc = r.crc;
    s->size = r.at;
    s->work_to_write += added;
    return TC_OK;
}

tc_status spool_sync(spool *s, uint64_t *size, uint32_t *crc, tc_err *err)
{
    if (!os_sync(s->fd))
        return tc_fail(err, tc_write_error_status(errno), "%s: cannot be written: %s", s->path,
                       strerror(errno));
    *size = s->size;
    *crc = s->crc;
    return TC_OK;
}
