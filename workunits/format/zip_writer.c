#include "workunits/format/zip_writer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "app/base/array.h"
#include "app/base/files.h"
#include "app/base/os.h"
#include "app/base/pool.h"

enum {
    BUFFER = 1 << 16,
    LOCAL_HEADER = 30, LOCAL_CRC = 14, LOCAL_SIZES = 18, LOCAL_EXTRA = 20,
    ENTRY = 46, ENTRY_EXTRA = 4 + 3 * 8,
    VERSION = 20, VERSION_ZIP64 = 45,
    EPOCH = 1 << 21 | 1 << 16,   /* 1980-01-01 00:00:00, the first moment ZIP knows */
    /* Data are deflated block by block, side by side, each with what stands before it as its dictionary. */
    BLOCK = 1 << 18, WINDOW = 1 << 15, MAX_LANES = 8,
    NOTES_HEAD = 64, FEW_NOTES = 16   /* fewer blocks than that are packed again */
};

/* Of a block that was packed, in the file of wu_zip_go_on. */
typedef struct note {
    uint32_t plain, crc;     /* bytes that it had, and their CRC */
    uint32_t packed, packed_crc;
    uint32_t ends;           /* 1: it begins a member, 2: it ends one, 4: zlib took it for text */
} note;

/* What deflates a block. */
typedef struct lane {
    z_stream z;
    unsigned char *packed;   /* [room] */
    size_t room, n;
    uint32_t crc;            /* of the plain bytes */
    bool text;               /* zlib takes them for text */
} lane;

struct wu_zip_writer {
    int fd;
    const char *shown;
    int level;
    unsigned threads;
    an_pool *pool;           /* NULL: one thread */
    unsigned n_lanes;
    lane lanes[MAX_LANES];
    unsigned char *plain;    /* [WINDOW + room]: the member's bytes that were deflated last, */
    size_t room, waiting;    /*   and those that are to be */
    bool first, last;        /* the blocks at hand begin, end a member */
    uint64_t at;             /* in the file: where the buffer goes */
    size_t n_buffered;
    unsigned char *list;     /* the entries so far */
    size_t list_size, list_room;
    uint64_t count;
    /* the member at hand */
    char *name;
    bool deflated, zip64;    /* zip64: with room for large sizes in front of the data */
    uint64_t header, data;   /* where they begin */
    uint64_t size;
    uint32_t crc;
    bool text;
    /* of all members' blocks */
    char *notes_path;        /* NULL: nothing is noted */
    int notes_fd;            /* -1: there is no file yet */
    note *notes;
    size_t n_notes, notes_room, n_known, n_saved;  /* known from an earlier try; on disk */
    size_t taken;            /* of the blocks at hand, those that are known */
    unsigned char buffer[BUFFER];
};

static tc_status cannot_write(const wu_zip_writer *w, tc_err *err)
{
    return tc_fail(err, TC_IO, "%s: cannot write: %s", w->shown, strerror(errno));
}

/* --- bytes ------------------------------------------------------------------------------ */

static unsigned char *put(unsigned char *p, uint64_t value, unsigned n)
{
    for (; n > 0; n--, value >>= 8)
        *p++ = (unsigned char)value;
    return p;
}

/* What a field of 32 bits can say of a number. */
static uint64_t short_of(uint64_t value)
{
    return value < UINT32_MAX ? value : UINT32_MAX;
}

static uint64_t position(const wu_zip_writer *w)
{
    return w->at + w->n_buffered;
}

static tc_status flush(wu_zip_writer *w, tc_err *err)
{
    if (!tc_write_at(w->fd, w->at, w->buffer, w->n_buffered))
        return cannot_write(w, err);
    w->at += w->n_buffered;
    w->n_buffered = 0;
    return TC_OK;
}

static tc_status append(wu_zip_writer *w, const void *data, size_t n, tc_err *err)
{
    const unsigned char *p = data;
    while (n > 0) {
        const size_t room = BUFFER - w->n_buffered, part = n < room ? n : room;
        memcpy(w->buffer + w->n_buffered, p, part);
        w->n_buffered += part;
        p += part;
        n -= part;
        if (w->n_buffered == BUFFER) {
            const tc_status st = flush(w, err);
            if (st != TC_OK)
                return st;
        }
    }
    return TC_OK;
}

/* --- members ------------------------------------------------------------------------------ */

tc_status wu_zip_create(int fd, const char *shown, int level, wu_zip_writer **out, tc_err *err)
{
    *out = NULL;
    wu_zip_writer *w = calloc(1, sizeof *w);
    if (w == NULL)
        return tc_no_memory(err, shown);
    *w = (wu_zip_writer){ .fd = fd, .shown = shown, .level = level, .threads = 1, .notes_fd = -1 };
    *out = w;
    return TC_OK;
}

void wu_zip_use_threads(wu_zip_writer *w, unsigned threads)
{
    w->threads = threads < MAX_LANES ? threads : MAX_LANES;
}

void wu_zip_free(wu_zip_writer **writer)
{
    wu_zip_writer *w = *writer;
    if (w == NULL)
        return;
    for (unsigned i = 0; i < w->n_lanes; i++) {
        (void)deflateEnd(&w->lanes[i].z);
        free(w->lanes[i].packed);
    }
    an_pool_destroy(&w->pool);
    if (w->notes_fd >= 0)
        close(w->notes_fd);
    free(w->notes_path);
    free(w->notes);
    free(w->plain);
    free(w->name);
    free(w->list);
    free(w);
    *writer = NULL;
}

/* --- what was packed before ---------------------------------------------------------------- */

/* The head of the file of notes: who packs otherwise has another. */
static void notes_head(const wu_zip_writer *w, char head[NOTES_HEAD])
{
    memset(head, 0, NOTES_HEAD);
    snprintf(head, NOTES_HEAD, "texcell packed blocks 1, zlib %.20s, level %d\n", zlibVersion(), w->level);
}

/* The notes of an earlier try, if they are of this program: else there are none. */
static tc_status read_notes(wu_zip_writer *w, uint64_t size, tc_err *err)
{
    char head[NOTES_HEAD], found[NOTES_HEAD];
    const size_t n = size < NOTES_HEAD ? 0 : (size_t)((size - NOTES_HEAD) / sizeof(note));
    size_t got = 0;
    tc_status st = tc_read_at(w->notes_fd, w->notes_path, 0, found, sizeof found, &got, err);
    notes_head(w, head);
    if (st != TC_OK || n == 0 || got != sizeof found || memcmp(head, found, sizeof head) != 0)
        return st;
    w->notes = calloc(n, sizeof *w->notes);
    if (w->notes == NULL)
        return tc_no_memory(err, w->shown);
    w->notes_room = n;
    st = tc_read_at(w->notes_fd, w->notes_path, NOTES_HEAD, w->notes, n * sizeof *w->notes, &got, err);
    w->n_known = st == TC_OK ? got / sizeof *w->notes : 0;
    return st;
}

tc_status wu_zip_go_on(wu_zip_writer *w, const char *path, tc_err *err)
{
    struct stat info;
    tc_status st = TC_OK;
    w->notes_path = strdup(path);
    if (w->notes_path == NULL)
        return tc_no_memory(err, w->shown);
    if (stat(path, &info) == 0) {
        st = tc_open_locked(path, path, &w->notes_fd, err);
        if (st == TC_OK)
            st = read_notes(w, (uint64_t)info.st_size, err);
        w->n_saved = w->n_known;
    }
    if (st == TC_OK && w->n_known == 0 && ftruncate(w->fd, 0) != 0)
        st = cannot_write(w, err);
    return st;
}

bool wu_zip_is_noted(const wu_zip_writer *w)
{
    return w->n_saved > 0;
}

/* The bytes of block i of those that wait. */
static size_t block_size(const wu_zip_writer *w, size_t i)
{
    const size_t left = w->waiting - i * BLOCK;
    return left < BLOCK ? left : BLOCK;
}

static uint32_t ends_of(const wu_zip_writer *w, size_t i)
{
    return (w->first && i == 0 ? 1 : 0) | (w->last && w->waiting - i * BLOCK <= BLOCK ? 2 : 0);
}

/* Whether block i is the next that is known, and its packed bytes, which begin at `at`, are there: then the lane has them. */
static bool take_known(wu_zip_writer *w, size_t i, uint64_t at)
{
    lane *const l = &w->lanes[i];
    const size_t n = block_size(w, i);
    size_t got = 0;
    if (w->n_notes >= w->n_known)
        return false;
    const note *const known = &w->notes[w->n_notes];
    l->crc = (uint32_t)crc32(crc32(0, NULL, 0), w->plain + WINDOW + i * BLOCK, (uInt)n);
    if (known->plain != n || known->crc != l->crc || (known->ends & 3) != ends_of(w, i) || known->packed > l->room ||
        tc_read_at(w->fd, w->shown, at, l->packed, known->packed, &got, NULL) != TC_OK || got != known->packed ||
        crc32(crc32(0, NULL, 0), l->packed, (uInt)got) != known->packed_crc) {
        w->n_known = w->n_saved = w->n_notes;
        return false;
    }
    l->n = got;
    l->text = (known->ends & 4) != 0;
    w->n_notes++;
    return true;
}

/* Notes block i, which was packed. A note that cannot be kept costs the next try time. */
static void add_note(wu_zip_writer *w, size_t i)
{
    const lane *const l = &w->lanes[i];
    note *const grown = w->notes_path == NULL ? NULL : tc_array_grow(w->notes, w->n_notes, &w->notes_room, sizeof *grown);
    if (grown == NULL)
        return;
    w->notes = grown;
    w->notes[w->n_notes++] = (note){ (uint32_t)block_size(w, i), l->crc, (uint32_t)l->n,
                                     (uint32_t)crc32(crc32(0, NULL, 0), l->packed, (uInt)l->n),
                                     ends_of(w, i) | (l->text ? 4 : 0) };
}

static void save_notes(wu_zip_writer *w)
{
    char head[NOTES_HEAD];
    if (w->notes_path == NULL || w->n_notes < FEW_NOTES || w->n_notes == w->n_saved)
        return;
    notes_head(w, head);
    if (w->notes_fd < 0 && tc_open_locked(w->notes_path, w->notes_path, &w->notes_fd, NULL) != TC_OK)
        return;
    if (w->n_saved > 0 || (ftruncate(w->notes_fd, 0) == 0 && tc_write_at(w->notes_fd, 0, head, sizeof head)))
        if (tc_write_at(w->notes_fd, NOTES_HEAD + w->n_saved * sizeof *w->notes, w->notes + w->n_saved,
                        (w->n_notes - w->n_saved) * sizeof *w->notes))
            w->n_saved = w->n_notes;
}

/* Lanes, and room for what a member of so many bytes lets wait. */
static tc_status make_lanes(wu_zip_writer *w, uint64_t bytes, tc_err *err)
{
    const uint64_t blocks = bytes / BLOCK + 1;
    const unsigned lanes = blocks < w->threads ? (unsigned)blocks : w->threads > 0 ? w->threads : 1;
    const size_t room = bytes < BLOCK ? (size_t)bytes + 1 : (size_t)lanes * BLOCK;
    while (w->n_lanes < lanes) {
        lane *const l = &w->lanes[w->n_lanes];
        *l = (lane){ .n = 0 };
        if (deflateInit2(&l->z, w->level, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
            return tc_no_memory(err, w->shown);
        w->n_lanes++;
    }
    if (room > w->room) {
        free(w->plain);
        w->plain = malloc(WINDOW + room);
        w->room = w->plain == NULL ? 0 : room;
    }
    if (w->plain == NULL)
        return tc_no_memory(err, w->shown);
    return lanes > 1 && w->pool == NULL ? an_pool_create(w->threads, &w->pool, err) : TC_OK;
}

/* The 26 bytes that the header in front of the data and the entry have in common. */
static unsigned char *put_shared(const wu_zip_writer *w, unsigned char *p, bool zip64, uint64_t packed, uint64_t size,
                                 size_t extra)
{
    /* How hard zlib tried, as PKWARE's own programs say it. */
    const unsigned effort = !w->deflated ? 0 : w->level >= 8 ? 2 : w->level == 2 ? 4 : w->level == 1 ? 6 : 0;
    p = put(p, zip64 ? VERSION_ZIP64 : VERSION, 2);
    p = put(p, effort, 2);
    p = put(p, w->deflated ? Z_DEFLATED : 0, 2);
    p = put(p, EPOCH, 4);
    p = put(p, w->crc, 4);
    p = put(p, packed, 4);
    p = put(p, size, 4);
    p = put(p, strlen(w->name), 2);
    return put(p, extra, 2);
}

tc_status wu_zip_begin(wu_zip_writer *w, const char *name, bool deflated, uint64_t bytes, tc_err *err)
{
    unsigned char header[LOCAL_HEADER], extra[LOCAL_EXTRA] = { 1, 0, 16, 0 };
    free(w->name);
    w->name = strdup(name);
    if (w->name == NULL)
        return tc_no_memory(err, w->shown);
    w->deflated = deflated;
    /* Deflated data can be larger than the plain ones, by less than 1/1000. */
    w->zip64 = bytes + bytes / 1000 + (1 << 16) >= UINT32_MAX;
    w->header = position(w);
    w->size = 0;
    w->crc = 0;
    w->text = false;
    w->waiting = 0;
    w->first = true;
    tc_status st = deflated ? make_lanes(w, bytes, err) : TC_OK;
    if (st != TC_OK)
        return st;
    const uint64_t later = w->zip64 ? UINT32_MAX : 0;
    put_shared(w, put(header, 0x04034b50, 4), w->zip64, later, later, w->zip64 ? LOCAL_EXTRA : 0);
    st = append(w, header, sizeof header, err);
    if (st == TC_OK)
        st = append(w, name, strlen(name), err);
    if (st == TC_OK && w->zip64)
        st = append(w, extra, sizeof extra, err);
    w->data = position(w);
    return st;
}

/* A part of the pool's: a block of those that wait and are not known, in its lane. */
static void deflate_block(void *user, unsigned thread, size_t part)
{
    wu_zip_writer *const w = user;
    const size_t i = w->taken + part, n = block_size(w, i);
    lane *const l = &w->lanes[i];
    unsigned char *const from = w->plain + WINDOW + i * BLOCK;
    (void)thread;
    l->crc = (uint32_t)crc32(crc32(0, NULL, 0), from, (uInt)n);
    (void)deflateReset(&l->z);
    if (i > 0 || !w->first)
        (void)deflateSetDictionary(&l->z, from - WINDOW, WINDOW);
    l->z.next_in = from;
    l->z.avail_in = (uInt)n;
    l->z.next_out = l->packed;
    l->z.avail_out = (uInt)l->room;
    (void)deflate(&l->z, ends_of(w, i) & 2 ? Z_FINISH : Z_SYNC_FLUSH);
    l->n = l->room - l->z.avail_out;
    l->text = l->z.data_type == Z_TEXT;
}

/* Deflates and writes what waits; last: the member ends with it. */
static tc_status deflate_waiting(wu_zip_writer *w, bool last, tc_err *err)
{
    const size_t blocks = w->waiting == 0 ? 1 : (w->waiting + BLOCK - 1) / BLOCK;
    uint64_t at = position(w);
    tc_status st = TC_OK;
    w->last = last;
    for (size_t i = 0; i < blocks; i++) {
        lane *const l = &w->lanes[i];
        /* An empty block to flush besides what deflate's own bound has. */
        const size_t room = deflateBound(&l->z, block_size(w, i)) + 16;
        if (room > l->room) {
            free(l->packed);
            l->packed = malloc(room);
            l->room = l->packed == NULL ? 0 : room;
        }
        if (l->packed == NULL)
            return tc_no_memory(err, w->shown);
    }
    for (w->taken = 0; w->taken < blocks && take_known(w, w->taken, at); w->taken++)
        at += w->lanes[w->taken].n;
    if (blocks - w->taken > 1 && w->pool != NULL)
        an_pool_run(w->pool, deflate_block, w, blocks - w->taken);
    else
        for (size_t i = 0; w->taken + i < blocks; i++)
            deflate_block(w, 0, i);
    w->text = w->first ? w->lanes[0].text : w->text;
    for (size_t i = 0; st == TC_OK && i < blocks; i++) {
        w->crc = (uint32_t)crc32_combine(w->crc, w->lanes[i].crc, (z_off_t)block_size(w, i));
        st = append(w, w->lanes[i].packed, w->lanes[i].n, err);
        if (i >= w->taken)
            add_note(w, i);
    }
    save_notes(w);
    if (!last)    /* all blocks are full */
        memcpy(w->plain, w->plain + w->waiting, WINDOW);
    w->first = false;
    w->waiting = 0;
    return st;
}

/* Bytes wait until there are more than there is room for: so the last block is known when it comes. */
static tc_status deflate_more(wu_zip_writer *w, const unsigned char *p, size_t n, tc_err *err)
{
    tc_status st = TC_OK;
    while (st == TC_OK && n > 0) {
        if (w->waiting == w->room)
            st = deflate_waiting(w, false, err);
        const size_t room = w->room - w->waiting, part = n < room ? n : room;
        memcpy(w->plain + WINDOW + w->waiting, p, part);
        w->waiting += part;
        p += part;
        n -= part;
    }
    return st;
}

tc_status wu_zip_write(wu_zip_writer *w, const void *data, size_t n, tc_err *err)
{
    w->size += n;
    if (w->deflated)
        return deflate_more(w, data, n, err);
    w->crc = (uint32_t)crc32_z(w->crc, data, n);
    return append(w, data, n, err);
}

/* The member's entry in the list. */
static tc_status add_entry(wu_zip_writer *w, uint64_t packed, tc_err *err)
{
    const size_t name = strlen(w->name), need = w->list_size + ENTRY + name + ENTRY_EXTRA;
    const uint64_t large[3] = { w->size, packed, w->header };
    unsigned char extra[ENTRY_EXTRA], *end = extra + 4;
    if (need > w->list_room) {
        unsigned char *list = realloc(w->list, 2 * need);
        if (list == NULL)
            return tc_no_memory(err, w->shown);
        w->list = list;
        w->list_room = 2 * need;
    }
    for (int i = 0; i < 3; i++)
        end = large[i] >= UINT32_MAX ? put(end, large[i], 8) : end;
    const size_t n = end == extra + 4 ? 0 : (size_t)(end - extra);
    put(put(extra, 1, 2), n - 4, 2);
    unsigned char *p = put(put(w->list + w->list_size, 0x02014b50, 4), 0, 2);
    p = put_shared(w, p, w->zip64 || n > 0, short_of(packed), short_of(w->size), n);
    p = put(p, 0, 4);        /* comment, volume */
    p = put(p, w->text, 2);
    p = put(p, 0, 4);        /* attributes */
    p = put(p, short_of(w->header), 4);
    memcpy(p, w->name, name);
    memcpy(p + name, extra, n);
    w->list_size += ENTRY + name + n;
    w->count++;
    return TC_OK;
}

tc_status wu_zip_end(wu_zip_writer *w, tc_err *err)
{
    unsigned char numbers[12], large[16];
    tc_status st = w->deflated ? deflate_waiting(w, true, err) : TC_OK;
    if (st == TC_OK)
        st = flush(w, err);
    if (st != TC_OK)
        return st;
    const uint64_t packed = w->at - w->data;
    if (!w->zip64 && (packed >= UINT32_MAX || w->size >= UINT32_MAX))
        return tc_fail(err, TC_INTERNAL, "%s: member %s is larger than was said", w->shown, w->name);
    put(put(put(numbers, w->crc, 4), packed, 4), w->size, 4);
    put(put(large, w->size, 8), packed, 8);
    if (!tc_write_at(w->fd, w->header + LOCAL_CRC, numbers, w->zip64 ? LOCAL_SIZES - LOCAL_CRC : sizeof numbers) ||
        (w->zip64 && !tc_write_at(w->fd, w->data - sizeof large, large, sizeof large)))
        return cannot_write(w, err);
    return add_entry(w, packed, err);
}

tc_status wu_zip_finish(wu_zip_writer *w, tc_err *err)
{
    unsigned char record[56 + 20 + 22], *p = record;
    const uint64_t begin = position(w), end = begin + w->list_size, n = w->count < 0xffff ? w->count : 0xffff;
    if (w->count > 0xffff || end >= UINT32_MAX) {
        p = put(put(p, 0x06064b50, 4), 56 - 12, 8);
        p = put(put(put(p, VERSION_ZIP64, 2), VERSION_ZIP64, 2), 0, 8);
        p = put(put(p, w->count, 8), w->count, 8);
        p = put(put(p, w->list_size, 8), begin, 8);
        p = put(put(put(put(p, 0x07064b50, 4), 0, 4), end, 8), 1, 4);
    }
    p = put(put(p, 0x06054b50, 4), 0, 4);
    p = put(put(p, n, 2), n, 2);
    p = put(put(put(p, short_of(w->list_size), 4), short_of(begin), 4), 0, 2);
    tc_status st = append(w, w->list, w->list_size, err);
    if (st == TC_OK)
        st = append(w, record, (size_t)(p - record), err);
    if (st == TC_OK)
        st = flush(w, err);
    /* An earlier try may have come further with what is not known any more. */
    if (st == TC_OK && w->notes_path != NULL && ftruncate(w->fd, (off_t)w->at) != 0)
        st = cannot_write(w, err);
    return st == TC_OK && !os_sync(w->fd) ? cannot_write(w, err) : st;
}
