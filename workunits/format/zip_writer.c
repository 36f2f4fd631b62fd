/* Writes ZIP archives whose bytes depend only on their members. */
#include "workunits/format/zip_writer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "app/base/files.h"
#include "app/base/os.h"

enum {
    BUFFER = 1 << 16,         /* bytes of the buffer for writing */
    LOCAL_HEADER = 30,        /* bytes of a local header, without name and extra field */
    LOCAL_CRC = 14,           /* offset of the CRC in the local header */
    LOCAL_SIZES = 18,         /* offset of the sizes in the local header */
    LOCAL_EXTRA = 20,         /* bytes of a local header's ZIP64 extra field */
    ENTRY = 46,               /* bytes of an entry of the list, without name and extra field */
    ENTRY_EXTRA = 4 + 3 * 8,  /* the most bytes of an entry's ZIP64 extra field */
    VERSION = 20,             /* version of ZIP that a reader of a member needs */
    VERSION_ZIP64 = 45,       /* version of ZIP for a member with a ZIP64 extra field */
    EPOCH = 1 << 21 | 1 << 16 /* time stamp 1980-01-01 00:00:00, the earliest one in ZIP */
};

/* An archive that is being written. */
struct wu_zip_writer {
    int fd;
    const char *shown; /* name of the file in messages */
    int level;         /* compression level */
    wu_compressor *packer;
    uint64_t at;         /* offset in the file at which the buffer will be written */
    size_t n_buffered;   /* number of bytes in `buffer` */
    unsigned char *list; /* the list of members so far, list_size bytes */
    size_t list_size, list_room;
    uint64_t count; /* number of entries in `list` */
    /* The current member: */
    char *name;            /* the member's name; NULL if there is no current member */
    bool compressed;       /* the caller passes compressed data */
    bool zip64;            /* the local header has a ZIP64 extra field */
    uint64_t header, data; /* offsets of the local header and of the data in the file */
    wu_compressed member;  /* sizes and CRC of the member */
    unsigned char buffer[BUFFER];
};

static tc_status fail_write(const wu_zip_writer *w, tc_err *err)
{
    return tc_fail_write(w->shown, w->shown, err);
}

/* --- bytes ----------------------------------------------------------------------------------- */

/* Writes a number of n bytes at p, little-endian, and returns the address after it. The numbers
 * 0x04034b50 and the like in the functions below are the signatures of ZIP's records, "PK\3\4" and
 * so on. */
static unsigned char *put_number(unsigned char *p, uint64_t value, unsigned n)
{
    for (; n > 0; n--, value >>= 8)
        *p++ = (unsigned char)value;
    return p;
}

/* Returns the value of a 32-bit field for this number: 0xffffffff if the number does not fit, since
 * it is then in a ZIP64 field. */
static uint64_t value_of_32_bits(uint64_t value)
{
    return value < UINT32_MAX ? value : UINT32_MAX;
}

/* Returns the offset in the file at which the next byte will be. */
static uint64_t bytes_written(const wu_zip_writer *w)
{
    return w->at + w->n_buffered;
}

static tc_status flush_buffer(wu_zip_writer *w, tc_err *err)
{
    if (!tc_write_at(w->fd, w->at, w->buffer, w->n_buffered))
        return fail_write(w, err);
    w->at += w->n_buffered;
    w->n_buffered = 0;
    return TC_OK;
}

/* Appends bytes to the file through the buffer. If the buffer is empty, writes all multiples of
 * BUFFER bytes directly. */
static tc_status append_bytes(wu_zip_writer *w, const void *data, size_t n, tc_err *err)
{
    const unsigned char *p = data;
    while (n > 0) {
        if (w->n_buffered == 0 && n >= BUFFER) {
            const size_t whole = n / BUFFER * BUFFER;
            if (!tc_write_at(w->fd, w->at, p, whole))
                return fail_write(w, err);
            w->at += whole;
            p += whole;
            n -= whole;
            continue;
        }
        const size_t room = BUFFER - w->n_buffered, part = n < room ? n : room;
        memcpy(w->buffer + w->n_buffered, p, part);
        w->n_buffered += part;
        p += part;
        n -= part;
        if (w->n_buffered == BUFFER) {
            return_if_error(flush_buffer(w, err));
        }
    }
    return TC_OK;
}

/* Appends compressed bytes to the file. A wu_receive_fn function for the compressor; user: the
 * writer. */
static tc_status append_compressed(void *user, const void *data, size_t n, tc_err *err)
{
    return append_bytes(user, data, n, err);
}

/* --- members --------------------------------------------------------------------------------- */

tc_status wu_zip_create(int fd, const char *shown, int level, wu_zip_writer **out, tc_err *err)
{
    assert(level >= 0 && level <= 9);
    *out = NULL;
    wu_zip_writer *w = calloc(1, sizeof *w);
    if (w == NULL)
        return tc_no_memory(err, shown);
    *w = (wu_zip_writer){ .fd = fd, .shown = shown, .level = level };
    const tc_status status =
        wu_compressor_create(level, 1, shown, append_compressed, w, &w->packer, err);
    if (status == TC_OK)
        *out = w;
    else
        free(w);
    return status;
}

void wu_zip_use_threads(wu_zip_writer *w, unsigned threads)
{
    wu_compressor_use_threads(w->packer, threads);
}

void wu_zip_free(wu_zip_writer **writer)
{
    wu_zip_writer *w = *writer;
    if (w == NULL)
        return;
    wu_compressor_free(&w->packer);
    free(w->name);
    free(w->list);
    free(w);
    *writer = NULL;
}

/* Writes the 26 bytes that a local header and an entry have in common. extra: bytes of the extra
 * field. */
static unsigned char *put_shared(const wu_zip_writer *w, unsigned char *p, bool zip64, uint32_t crc,
                                 uint64_t compressed, uint64_t size, size_t extra)
{
    /* Bits 1 and 2 of the flags: the compression level, as PKWARE's programs write it. */
    const unsigned effort = !w->member.deflated ? 0
                            : w->level >= 8     ? 2
                            : w->level == 2     ? 4
                            : w->level == 1     ? 6
                                                : 0;
    p = put_number(p, zip64 ? VERSION_ZIP64 : VERSION, 2);
    p = put_number(p, effort, 2);
    p = put_number(p, w->member.deflated ? Z_DEFLATED : 0, 2);
    p = put_number(p, EPOCH, 4);
    p = put_number(p, crc, 4);
    p = put_number(p, compressed, 4);
    p = put_number(p, size, 4);
    p = put_number(p, strlen(w->name), 2);
    return put_number(p, extra, 2);
}

/* Writes the local header of a member of at most `bytes` bytes, without CRC and sizes, which
 * wu_zip_end fills in. */
static tc_status begin_member(wu_zip_writer *w, const char *name, bool deflated, uint64_t bytes,
                              tc_err *err)
{
    assert(w->name == NULL);
    unsigned char header[LOCAL_HEADER];
    unsigned char extra[LOCAL_EXTRA] = { 1, 0, 16, 0 }; /* ZIP64: id 1, 16 bytes: two sizes */
    w->name = strdup(name);
    if (w->name == NULL)
        return tc_no_memory(err, w->shown);
    w->member = (wu_compressed){ .deflated = deflated };
    /* Deflating can make the data larger, by less than a thousandth and 2^16 bytes. */
    w->zip64 = bytes + bytes / 1000 + (1 << 16) >= UINT32_MAX;
    w->header = bytes_written(w);
    /* Until wu_zip_end fills in the sizes, they are 0. UINT32_MAX says that they are in the extra
     * field.
     */
    const uint64_t later = w->zip64 ? UINT32_MAX : 0;
    put_shared(w, put_number(header, 0x04034b50 /* "PK\3\4" */, 4), w->zip64, 0, later, later,
               w->zip64 ? LOCAL_EXTRA : 0);
    tc_status status = append_bytes(w, header, sizeof header, err);
    if (status == TC_OK)
        status = append_bytes(w, name, strlen(name), err);
    if (status == TC_OK && w->zip64)
        status = append_bytes(w, extra, sizeof extra, err);
    w->data = bytes_written(w);
    return status;
}

tc_status wu_zip_begin(wu_zip_writer *w, const char *name, bool deflated, uint64_t bytes,
                       tc_err *err)
{
    const tc_status status = begin_member(w, name, deflated, bytes, err);
    w->compressed = false;
    return status == TC_OK ? wu_compressor_begin(w->packer, deflated, bytes, err) : status;
}

tc_status wu_zip_begin_compressed(wu_zip_writer *w, const char *name, const wu_compressed *member,
                                  tc_err *err)
{
    const tc_status status = begin_member(w, name, member->deflated, member->size, err);
    w->compressed = true;
    w->member = *member;
    return status;
}

tc_status wu_zip_expect_rows(wu_zip_writer *w, wu_row_layout layout, tc_err *err)
{
    assert(w->name != NULL && !w->compressed);
    return wu_compressor_expect_rows(w->packer, layout, err);
}

tc_status wu_zip_write(wu_zip_writer *w, const void *data, size_t n, tc_err *err)
{
    assert(w->name != NULL);
    return w->compressed ? append_bytes(w, data, n, err)
                         : wu_compressor_write(w->packer, data, n, err);
}

/* Adds the member's entry to the list. */
static tc_status add_entry(wu_zip_writer *w, tc_err *err)
{
    const size_t name = strlen(w->name), need = w->list_size + ENTRY + name + ENTRY_EXTRA;
    /* The extra field has those of these numbers, in this order, that need more than 32 bits. It
     * begins with an id and its length. */
    const uint64_t large[3] = { w->member.size, w->member.compressed, w->header };
    unsigned char extra[ENTRY_EXTRA], *end = extra + 4;
    if (need > w->list_room) {
        unsigned char *list = realloc(w->list, 2 * need);
        if (list == NULL)
            return tc_no_memory(err, w->shown);
        w->list = list;
        w->list_room = 2 * need;
    }
    for (int i = 0; i < 3; i++)
        end = large[i] >= UINT32_MAX ? put_number(end, large[i], 8) : end;
    const size_t n = end == extra + 4 ? 0 : (size_t)(end - extra);
    put_number(put_number(extra, 1, 2), n - 4, 2);
    /* The signature "PK\1\2", and the version of the program, 0. */
    unsigned char *p = put_number(put_number(w->list + w->list_size, 0x02014b50, 4), 0, 2);
    p = put_shared(w, p, w->zip64 || n > 0, w->member.crc, value_of_32_bits(w->member.compressed),
                   value_of_32_bits(w->member.size), n);
    p = put_number(p, 0, 4); /* comment, volume */
    p = put_number(p, w->member.text, 2);
    p = put_number(p, 0, 4); /* attributes */
    p = put_number(p, value_of_32_bits(w->header), 4);
    memcpy(p, w->name, name);
    memcpy(p + name, extra, n);
    w->list_size += ENTRY + name + n;
    w->count++;
    return TC_OK;
}

tc_status wu_zip_end(wu_zip_writer *w, tc_err *err)
{
    assert(w->name != NULL);
    unsigned char numbers[12], large[16];
    const wu_compressed *const m = &w->member;
    return_if_error(w->compressed ? TC_OK : wu_compressor_end(w->packer, &w->member, err));
    return_if_error(flush_buffer(w, err));
    if (w->at - w->data != m->compressed)
        return tc_fail(err, TC_INTERNAL, "%s: member %s does not have the announced length",
                       w->shown, w->name);
    if (!w->zip64 && (m->compressed >= UINT32_MAX || m->size >= UINT32_MAX))
        return tc_fail(err, TC_INTERNAL, "%s: member %s is larger than announced", w->shown,
                       w->name);
    put_number(put_number(put_number(numbers, m->crc, 4), m->compressed, 4), m->size, 4);
    put_number(put_number(large, m->size, 8), m->compressed, 8);
    if (!tc_write_at(w->fd, w->header + LOCAL_CRC, numbers,
                     w->zip64 ? LOCAL_SIZES - LOCAL_CRC : sizeof numbers) ||
        (w->zip64 && !tc_write_at(w->fd, w->data - sizeof large, large, sizeof large)))
        return fail_write(w, err);
    tc_status status = add_entry(w, err);
    free(w->name);
    w->name = NULL;
    return status;
}

tc_status wu_zip_finish(wu_zip_writer *w, bool sync, tc_err *err)
{
    assert(w->name == NULL);
    /* ZIP64 end record and locator (if needed), and end record; the fields that are written as 0
     * are numbers of volumes and the length of the comment. */
    enum { END64 = 56, LOCATOR = 20, END_RECORD = 22 }; /* bytes of the three records */
    unsigned char record[END64 + LOCATOR + END_RECORD], *p = record;
    const uint64_t begin = bytes_written(w), end = begin + w->list_size,
                   n = w->count < 0xffff ? w->count : 0xffff; /* for the 16-bit fields */
    if (w->count > 0xffff || end >= UINT32_MAX) {
        /* The ZIP64 end record: its size is that of the bytes after these 12. */
        p = put_number(put_number(p, 0x06064b50, 4), END64 - 12, 8);
        p = put_number(put_number(put_number(p, VERSION_ZIP64, 2), VERSION_ZIP64, 2), 0, 8);
        p = put_number(put_number(p, w->count, 8), w->count, 8);
        p = put_number(put_number(p, w->list_size, 8), begin, 8);
        /* The locator: the offset of the ZIP64 end record, and the number of volumes, 1. */
        p = put_number(put_number(put_number(put_number(p, 0x07064b50, 4), 0, 4), end, 8), 1, 4);
    }
    p = put_number(put_number(p, 0x06054b50, 4), 0, 4);
    p = put_number(put_number(p, n, 2), n, 2);
    p = put_number(
        put_number(put_number(p, value_of_32_bits(w->list_size), 4), value_of_32_bits(begin), 4), 0,
        2);
    tc_status status = append_bytes(w, w->list, w->list_size, err);
    if (status == TC_OK)
        status = append_bytes(w, record, (size_t)(p - record), err);
    if (status == TC_OK)
        status = flush_buffer(w, err);
    return status == TC_OK && sync && !os_sync(w->fd) ? fail_write(w, err) : status;
}
