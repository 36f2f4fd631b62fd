#include "app/spool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "app/lockfile.h"

struct spool {
    char *path;
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
    return (uint32_t)crc32_z(crc, data, n);
}

tc_status spool_open(const char *path, spool **out, tc_err *err)
{
    spool *const s = calloc(1, sizeof *s);
    tc_status st;

    *out = NULL;
    if (s == NULL)
        return tc_no_memory(err, "the spool");
    s->fd = -1;
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
    char *p = data;

    while (n > 0) {
        const ssize_t done = pread(s->fd, p, n, (off_t)at);

        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        p += done;
        at += (uint64_t)done;
        n -= (size_t)done;
    }
    return true;
}

static tc_status add_index(spool *s, uint64_t at, tc_err *err)
{
    if (s->items == s->capacity) {
        const size_t more = s->capacity == 0 ? 64 : 2 * s->capacity;
        uint64_t *const grown = realloc(s->at, more * sizeof *grown);

        if (grown == NULL)
            return tc_no_memory(err, "the spool");
        s->at = grown;
        s->capacity = more;
    }
    s->at[s->items++] = at;
    return TC_OK;
}

static bool crc_of_file(const spool *s, uint64_t size, uint32_t *crc)
{
    enum { BLOCK = 1 << 16 };
    unsigned char *const block = malloc(BLOCK);
    bool good = block != NULL;

    *crc = 0;
    for (uint64_t at = 0; good && at < size; at += BLOCK) {
        const size_t n = size - at < BLOCK ? (size_t)(size - at) : BLOCK;

        good = read_at(s, at, block, n);
        if (good)
            *crc = crc_more(*crc, block, n);
    }
    free(block);
    return good;
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
    uint32_t found = 0;
    tc_status st = TC_OK;

    s->items = 0;
    if (!crc_of_file(s, size, &found) || found != crc)
        st = tc_fail(err, TC_BAD_INPUT, "%s: does not fit the checkpoint", s->path);
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

static unsigned char *put(unsigned char *p, const void *data, size_t n)
{
    if (n > 0)
        memcpy(p, data, n);
    return p + n;
}

static void pack_record(const wu_output *output, unsigned char *p)
{
    for (size_t i = 0; i < output->n; i++) {
        const wu_out_array *const a = &output->arrays[i];
        const array_head head = {
            .kind = (uint8_t)a->kind, .dtype = (uint8_t)a->info.dtype, .ndim = (uint8_t)a->info.ndim,
            .width = a->info.width, .name_length = (uint32_t)strlen(a->info.name)
        };

        p = put(p, &head, sizeof head);
        p = put(p, a->info.name, head.name_length);
        p = put(p, a->info.shape, a->info.ndim * sizeof(uint64_t));
        p = put(p, a->data, data_bytes(&a->info));
    }
}

tc_status spool_append(spool *s, const wu_output *output, tc_err *err)
{
    const size_t bytes = record_bytes(output);
    unsigned char *const block = malloc(sizeof(record_head) + bytes);
    record_head head = { .n_arrays = (uint32_t)output->n, .bytes = bytes };
    tc_status st;

    if (block == NULL)
        return tc_no_memory(err, "the spool");
    pack_record(output, block + sizeof head);
    memcpy(head.magic, magic, sizeof magic);
    head.crc = crc_more(0, block + sizeof head, bytes);
    memcpy(block, &head, sizeof head);
    if (!tc_write_at(s->fd, s->size, block, sizeof head + bytes)) {
        st = tc_fail(err, TC_IO, "%s: cannot be written: %s", s->path, strerror(errno));
    } else {
        st = add_index(s, s->size, err);
    }
    if (st == TC_OK) {
        s->crc = crc_more(s->crc, block, sizeof head + bytes);
        s->size += sizeof head + bytes;
    }
    free(block);
    return st;
}

tc_status spool_sync(spool *s, uint64_t *size, uint32_t *crc, tc_err *err)
{
    if (fsync(s->fd) != 0)
        return tc_fail(err, TC_IO, "%s: cannot be written: %s", s->path, strerror(errno));
    *size = s->size;
    *crc = s->crc;
    return TC_OK;
}

/* A reader over a block that never runs past its end. */
typedef struct cursor {
    const unsigned char *p;
    size_t left;
} cursor;

static bool take(cursor *c, void *out, size_t n)
{
    if (n > c->left)
        return false;
    memcpy(out, c->p, n);
    c->p += n;
    c->left -= n;
    return true;
}

static bool unpack_array(cursor *c, wu_output *output)
{
    uint64_t shape[WU_MAX_NDIM] = { 0 };
    char name[4 * WU_MAX_NAME];
    wu_array_info info = { .name = name };
    array_head head;
    uint64_t bytes;
    void *data;
    int ok;

    if (!take(c, &head, sizeof head) || head.kind > WU_ONCE || head.dtype > WU_STR || head.ndim < 1 || head.ndim > WU_MAX_NDIM ||
        head.name_length >= sizeof name || !take(c, name, head.name_length))
        return false;
    name[head.name_length] = '\0';
    if (!take(c, shape, head.ndim * sizeof shape[0]))
        return false;
    memcpy(info.shape, shape, sizeof shape);
    info.dtype = (wu_dtype)head.dtype;
    info.width = head.width;
    info.ndim = head.ndim;
    /* Nothing is allocated that the record cannot fill. */
    bytes = wu_array_bytes(&info, &ok);
    if (!ok || bytes > c->left ||
        wu_output_add(output, (wu_array_kind)head.kind, name, info.dtype, info.width,
                      info.ndim, shape, &data, NULL) != TC_OK)
        return false;
    return data == NULL || take(c, data, (size_t)bytes);
}

tc_status spool_read(void *user, size_t index, wu_output *output, tc_err *err)
{
    const spool *const s = user;
    unsigned char *block = NULL;
    record_head head;
    cursor c;
    bool good;

    memset(output, 0, sizeof *output);
    good = index < s->items && read_at(s, s->at[index], &head, sizeof head) &&
           head.bytes <= s->size - s->at[index] - sizeof head;
    if (good) {
        block = malloc((size_t)head.bytes + 1);
        if (block == NULL)
            return tc_no_memory(err, "the spool");
        good = read_at(s, s->at[index] + sizeof head, block, (size_t)head.bytes) &&
               crc_more(0, block, (size_t)head.bytes) == head.crc;
    }
    c = (cursor){ block, good ? (size_t)head.bytes : 0 };
    for (uint32_t i = 0; good && i < head.n_arrays; i++)
        good = unpack_array(&c, output);
    free(block);
    if (good)
        return TC_OK;
    wu_output_free(output);
    return tc_fail(err, TC_IO, "%s: cannot be read back", s->path);
}
