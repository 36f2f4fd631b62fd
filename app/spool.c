#include "app/spool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "app/base/array.h"
#include "app/base/files.h"
#include "app/base/os.h"

struct spool {
    char *path;
    const tc_poll *poll;
    int fd;
    uint64_t size;           /* of the records that count */
    uint32_t crc;            /* of those bytes */
    size_t items, capacity;
    uint64_t *at;            /* [items] where each record begins */
};

/* A record: this header, then n_arrays times { array_head, name, shape, data }. */
typedef struct record_head {
    char magic[4];
    uint32_t n_arrays;
    uint64_t bytes;          /* of what follows */
    uint32_t crc;            /* of what follows */
    uint32_t reserved;
} record_head;

typedef struct array_head {
    uint8_t kind, dtype, ndim, reserved;
    uint32_t width;
    uint32_t name_length;
    uint32_t reserved2;
} array_head;

static const char magic[4] = "TXSP";

static uint32_t crc_more(uint32_t crc, const void *data, size_t n)
{
    return n == 0 ? crc : (uint32_t)crc32_z(crc, data, n);   /* zlib starts anew at NULL */
}

tc_status spool_open(const char *path, const tc_poll *poll, spool **out, tc_err *err)
{
    spool *const s = calloc(1, sizeof *s);
    tc_status st;

    *out = NULL;
    if (s == NULL)
        return tc_no_memory(err, "the spool");
    s->fd = -1;
    s->poll = poll;
    s->path = strdup(path);
    st = s->path == NULL ? tc_no_memory(err, "the spool") : tc_open_locked(path, path, &s->fd, err);
    if (st == TC_OK)
        *out = s;
    else
        spool_close(&(spool *){ s });
    return st;
}

void spool_close(spool **at)
{
    spool *const s = *at;

    *at = NULL;
    if (s == NULL)
        return;
    if (s->fd >= 0)
        close(s->fd);
    free(s->path);
    free(s->at);
    free(s);
}

static bool read_at(const spool *s, uint64_t at, void *data, size_t n)
{
    size_t got = 0;

    return tc_read_at(s->fd, s->path, at, data, n, &got, NULL) == TC_OK && got == n;
}

static tc_status add_index(spool *s, uint64_t at, tc_err *err)
{
    uint64_t *const grown = tc_array_grow(s->at, s->items, &s->capacity, sizeof *grown);

    if (grown == NULL)
        return tc_no_memory(err, "the spool");
    s->at = grown;
    s->at[s->items++] = at;
    return TC_OK;
}

/* Whether the first `size` bytes are there and have this CRC. */
static tc_status check_crc(const spool *s, uint64_t size, uint32_t crc, tc_err *err)
{
    enum { BLOCK = 1 << 16 };
    unsigned char *const block = malloc(BLOCK);
    tc_status st = block == NULL ? tc_no_memory(err, "the spool") : TC_OK;
    uint32_t found = 0;
    bool good = true;

    for (uint64_t at = 0; st == TC_OK && good && at < size; at += BLOCK) {
        const size_t n = size - at < BLOCK ? (size_t)(size - at) : BLOCK;

        good = read_at(s, at, block, n);
        found = good ? crc_more(found, block, n) : found;
        st = tc_ask(s->poll, err);
    }
    free(block);
    if (st == TC_OK && (!good || found != crc))
        st = tc_fail(err, TC_BAD_INPUT, "%s: does not fit the checkpoint", s->path);
    return st;
}

/* Finds the records in the first `size` bytes. */
static tc_status index_records(spool *s, uint64_t size, uint64_t items, tc_err *err)
{
    uint64_t at = 0;

    while (at < size) {
        record_head head;
        tc_status st;

        if (size - at < sizeof head || !read_at(s, at, &head, sizeof head) ||
            memcmp(head.magic, magic, sizeof magic) != 0 || head.bytes > size - at - sizeof head)
            return tc_fail(err, TC_BAD_INPUT, "%s: is corrupt", s->path);
        st = add_index(s, at, err);
        if (st != TC_OK)
            return st;
        at += sizeof head + head.bytes;
    }
    if (s->items != items)
        return tc_fail(err, TC_BAD_INPUT, "%s: does not fit the checkpoint", s->path);
    return TC_OK;
}

tc_status spool_keep(spool *s, uint64_t size, uint32_t crc, uint64_t items, tc_err *err)
{
    tc_status st = check_crc(s, size, crc, err);

    s->items = 0;
    if (st == TC_TRY_LATER)
        return st;             /* all is kept for the next time */
    if (st == TC_OK)
        st = index_records(s, size, items, err);
    if (st != TC_OK) {
        s->items = 0;
        size = 0;
        crc = 0;
    }
    s->size = size;
    s->crc = crc;
    if (ftruncate(s->fd, (off_t)size) != 0)
        return tc_fail(err, TC_IO, "%s: cannot be written: %s", s->path, strerror(errno));
    return st;
}

/* --- one record ------------------------------------------------------------------ */

static size_t data_bytes(const wu_array_info *info)
{
    int ok;
    const uint64_t bytes = wu_array_bytes(info, &ok);

    return ok ? (size_t)bytes : 0;
}

static size_t record_bytes(const wu_output *output)
{
    size_t bytes = 0;

    for (size_t i = 0; i < output->n; i++) {
        const wu_array_info *const info = &output->arrays[i].info;

        bytes += sizeof(array_head) + strlen(info->name) + info->ndim * sizeof(uint64_t) + data_bytes(info);
    }
    return bytes;
}

/* Hands the bytes of a record behind its head to `take`, piece by piece, none of them large. */
typedef bool (*take_fn)(void *user, const void *data, size_t n);

static bool take_all(const void *data, size_t n, take_fn take, void *user)
{
    const unsigned char *const p = data;
    bool good = true;

    for (size_t at = 0; good && at < n; at = tc_block_end(at, n))
        good = take(user, p + at, tc_block_end(at, n) - at);
    return good;
}

static bool each_piece(const wu_output *output, take_fn take, void *user)
{
    bool good = true;

    for (size_t i = 0; good && i < output->n; i++) {
        const wu_out_array *const a = &output->arrays[i];
        const array_head head = {
            .kind = (uint8_t)a->kind, .dtype = (uint8_t)a->info.dtype, .ndim = (uint8_t)a->info.ndim,
            .width = a->info.width, .name_length = (uint32_t)strlen(a->info.name)
        };

        good = take(user, &head, sizeof head) && take(user, a->info.name, head.name_length) &&
               take(user, a->info.shape, a->info.ndim * sizeof(uint64_t)) &&
               take_all(a->data, data_bytes(&a->info), take, user);
    }
    return good;
}

/* Where the next piece goes, and the CRC of the file up to there. */
typedef struct spool_end {
    const spool *s;
    uint64_t size;
    uint32_t crc, record_crc;
    tc_status status;          /* after a piece that was refused */
    tc_err *err;
} spool_end;

static bool add_to_crc(void *user, const void *data, size_t n)
{
    spool_end *const end = user;

    end->record_crc = crc_more(end->record_crc, data, n);
    end->status = tc_ask(end->s->poll, end->err);
    return end->status == TC_OK;
}

static bool write_piece(void *user, const void *data, size_t n)
{
    spool_end *const end = user;

    if (tc_write_at(end->s->fd, end->size, data, n))
        end->status = tc_ask(end->s->poll, end->err);
    else
        end->status = tc_fail(end->err, TC_IO, "%s: cannot be written: %s", end->s->path, strerror(errno));
    end->size += n;
    end->crc = crc_more(end->crc, data, n);
    return end->status == TC_OK;
}

tc_status spool_append(spool *s, const wu_output *output, tc_err *err)
{
    record_head head = { .n_arrays = (uint32_t)output->n, .bytes = record_bytes(output) };
    spool_end end = { .s = s, .size = s->size, .crc = s->crc, .err = err };
    tc_status st;

    memcpy(head.magic, magic, sizeof magic);
    if (!each_piece(output, add_to_crc, &end))
        return end.status;
    head.crc = end.record_crc;
    if (!write_piece(&end, &head, sizeof head) || !each_piece(output, write_piece, &end))
        return end.status;
    st = add_index(s, s->size, err);
    if (st == TC_OK) {
        s->crc = end.crc;
        s->size = end.size;
    }
    return st;
}

uint64_t spool_size(const spool *s)
{
    return s->size;
}

tc_status spool_sync(spool *s, uint64_t *size, uint32_t *crc, tc_err *err)
{
    if (!os_sync(s->fd))
        return tc_fail(err, TC_IO, "%s: cannot be written: %s", s->path, strerror(errno));
    *size = s->size;
    *crc = s->crc;
    return TC_OK;
}

/* Reads a record in order, never past its end. */
typedef struct cursor {
    const spool *s;
    uint64_t at, left;
    uint32_t crc;              /* of what was read */
    tc_status status;          /* TC_TRY_LATER: asked to stop */
    tc_err *err;
} cursor;

static bool next_bytes(cursor *c, void *out, size_t n)
{
    unsigned char *const p = out;

    if (n > c->left)
        return false;
    for (size_t at = 0, end; at < n; at = end) {
        end = tc_block_end(at, n);
        if (!read_at(c->s, c->at + at, p + at, end - at))
            return false;
        c->crc = crc_more(c->crc, p + at, end - at);
        c->status = tc_ask(c->s->poll, c->err);
        if (c->status != TC_OK)
            return false;
    }
    c->at += n;
    c->left -= n;
    return true;
}

/* The next array; one that is not `only` (NULL: all are wanted) is passed by. */
static bool unpack_array(cursor *c, const char *only, wu_output *output)
{
    uint64_t shape[WU_MAX_NDIM] = { 0 };
    char name[4 * WU_MAX_NAME];
    wu_array_info info = { .name = name };
    array_head head;
    uint64_t bytes;
    void *data;
    int ok;

    if (!next_bytes(c, &head, sizeof head) || head.kind > WU_ONCE || head.dtype > WU_STR || head.ndim < 1 || head.ndim > WU_MAX_NDIM ||
        head.name_length >= sizeof name || !next_bytes(c, name, head.name_length))
        return false;
    name[head.name_length] = '\0';
    if (!next_bytes(c, shape, head.ndim * sizeof shape[0]))
        return false;
    memcpy(info.shape, shape, sizeof shape);
    info.dtype = (wu_dtype)head.dtype;
    info.width = head.width;
    info.ndim = head.ndim;
    /* Nothing is allocated that the record cannot fill. */
    bytes = wu_array_bytes(&info, &ok);
    if (!ok || bytes > c->left)
        return false;
    if (only != NULL && strcmp(name, only) != 0) {
        c->at += bytes;
        c->left -= bytes;
        return true;
    }
    if (wu_output_add(output, (wu_array_kind)head.kind, name, info.dtype, info.width,
                      info.ndim, shape, &data, NULL) != TC_OK)
        return false;
    return data == NULL || next_bytes(c, data, (size_t)bytes);
}

tc_status spool_read(void *user, size_t index, const char *only, wu_output *output, tc_err *err)
{
    const spool *const s = user;
    record_head head;
    cursor c = { .s = s, .err = err };
    bool good;

    memset(output, 0, sizeof *output);
    good = index < s->items && read_at(s, s->at[index], &head, sizeof head) &&
           head.bytes <= s->size - s->at[index] - sizeof head;
    if (good) {
        c.at = s->at[index] + sizeof head;
        c.left = head.bytes;
    }
    for (uint32_t i = 0; good && i < head.n_arrays; i++)
        good = unpack_array(&c, only, output);
    good = good && c.left == 0 && (only != NULL || c.crc == head.crc);
    if (good)
        return TC_OK;
    wu_output_free(output);
    return c.status != TC_OK ? c.status : tc_fail(err, TC_IO, "%s: cannot be read back", s->path);
}
