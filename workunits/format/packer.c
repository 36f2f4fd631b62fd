/* Compresses data in several threads, to the same bytes for any number of threads. */
#include "workunits/format/packer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "app/base/crc32.h"
#include "app/base/pool.h"

enum {
    BLOCK = 1 << 18,  /* bytes of a block, the data that a thread compresses at a time */
    WINDOW = 1 << 15, /* the bytes before a block that are its dictionary */
    MAX_LANES = 8     /* the most lanes, and so the most threads */
};

/* The state of compressing one block. Block i of the waiting bytes is compressed in lane i, by any
 * thread; there are as many lanes as threads. */
typedef struct lane {
    z_stream z;
    wu_row_deflater *rows;     /* NULL before the first call of wu_compressor_expect_rows */
    unsigned char *compressed; /* [room] a buffer; its first n bytes are the compressed block */
    size_t room, n;
    uint32_t crc; /* CRC of the block before compression */
    bool text;    /* zlib considers the block text */
} lane;

/* The compressor: its options, and the state of the current member. */
struct wu_compressor {
    const char *shown;  /* name of the file in messages */
    wu_receive_fn take; /* receives the compressed bytes, with the argument `user` */
    void *user;
    int level;
    unsigned threads;
    an_pool *pool; /* the threads, or NULL if there is only one */
    unsigned n_lanes;
    lane lanes[MAX_LANES];
    unsigned char *plain; /* [WINDOW + room] bytes of the member: WINDOW bytes that have been
                             compressed already, then `waiting` bytes that have not */
    size_t room, waiting;
    bool first, last;     /* the waiting bytes are the first, or the last, bytes of the member */
    wu_row_layout layout; /* layout of the data's rows; if layout.word is 0, the data are not known
                             to consist of rows */
    wu_compressed member; /* sizes and CRC of the bytes of the member so far */
    uint64_t most;        /* the most bytes of the member, given to wu_compressor_begin */
};

tc_status wu_compressor_create(int level, unsigned threads, const char *shown, wu_receive_fn take,
                               void *user, wu_compressor **out, tc_err *err)
{
    assert(level >= 0 && level <= 9 && take != NULL);
    wu_compressor *const p = calloc(1, sizeof *p);
    *out = p;
    if (p == NULL)
        return tc_no_memory(err, shown);
    *p = (wu_compressor){ .level = level, .shown = shown, .take = take, .user = user };
    wu_compressor_use_threads(p, threads);
    return TC_OK;
}

void wu_compressor_use_threads(wu_compressor *p, unsigned threads)
{
    p->threads = threads < MAX_LANES ? threads : MAX_LANES;
}

void wu_compressor_free(wu_compressor **packer)
{
    wu_compressor *const p = *packer;
    if (p == NULL)
        return;
    for (unsigned i = 0; i < p->n_lanes; i++) {
        (void)deflateEnd(&p->lanes[i].z);
        free(p->lanes[i].rows);
        free(p->lanes[i].compressed);
    }
    an_pool_destroy(&p->pool);
    free(p->plain);
    free(p);
    *packer = NULL;
}

/* Passes compressed bytes to `take`. */
static tc_status output_bytes(wu_compressor *p, const void *data, size_t n, tc_err *err)
{
    p->member.compressed += n;
    return p->take(p->user, data, n, err);
}

/* The size of block i of the waiting bytes. */
static size_t block_size(const wu_compressor *p, size_t i)
{
    const size_t left = p->waiting - i * BLOCK;
    return left < BLOCK ? left : BLOCK;
}

/* Makes the lanes, and allocates the buffer for waiting bytes, that a member of `bytes` bytes
 * needs. */
static tc_status make_lanes(wu_compressor *p, uint64_t bytes, tc_err *err)
{
    const uint64_t blocks = bytes / BLOCK + 1;
    const unsigned lanes = blocks < p->threads ? (unsigned)blocks : p->threads > 0 ? p->threads : 1;
    const size_t room = bytes < BLOCK ? (size_t)bytes + 1 : (size_t)lanes * BLOCK;
    while (p->n_lanes < lanes) {
        lane *const l = &p->lanes[p->n_lanes];
        *l = (lane){ .n = 0 };
        if (deflateInit2(&l->z, p->level, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
            return tc_no_memory(err, p->shown);
        p->n_lanes++;
    }
    if (room > p->room) {
        free(p->plain);
        p->plain = malloc(WINDOW + room);
        p->room = p->plain == NULL ? 0 : room;
    }
    if (p->plain == NULL)
        return tc_no_memory(err, p->shown);
    return lanes > 1 && p->pool == NULL ? an_pool_create(p->threads, &p->pool, err) : TC_OK;
}

tc_status wu_compressor_begin(wu_compressor *p, bool deflated, uint64_t bytes, tc_err *err)
{
    p->member = (wu_compressed){ .deflated = deflated };
    p->most = bytes;
    p->layout = (wu_row_layout){ .word = 0 };
    p->waiting = 0;
    p->first = true;
    return deflated ? make_lanes(p, bytes, err) : TC_OK;
}

tc_status wu_compressor_expect_rows(wu_compressor *p, wu_row_layout layout, tc_err *err)
{
    assert(p->member.size == 0 && layout.word > 0);
    p->layout = layout;
    for (unsigned i = 0; i < p->n_lanes; i++) {
        lane *const l = &p->lanes[i];
        if (l->rows == NULL)
            l->rows = wu_row_deflater_create();
        if (l->rows == NULL)
            return tc_no_memory(err, p->shown);
    }
    return TC_OK;
}

/* Compresses block i by wu_deflate_rows. ends: whether the member ends with this block. Returns
 * false if the member does not consist of rows, or if the block does not become small enough. zlib
 * must then compress the block. */
static bool deflate_rows(const wu_compressor *p, lane *l, size_t i, bool ends)
{
    /* before: number of bytes in front of the block that matches may refer to; limit: the most
     * compressed bytes */
    const size_t before = p->first ? i * BLOCK : WINDOW, n = block_size(p, i),
                 limit = n / WU_ROWS_MIN_RATIO < l->room ? n / WU_ROWS_MIN_RATIO : l->room;
    if (p->layout.word == 0)
        return false;
    l->n = wu_deflate_rows(l->rows, p->layout, p->plain + WINDOW + i * BLOCK, n, before, ends,
                           l->compressed, limit);
    l->text = false;
    return l->n > 0;
}

/* Compresses block i of the waiting bytes in lane i. A function for an_pool_run; user: the
 * compressor. */
static void deflate_block(void *user, unsigned thread, size_t i)
{
    wu_compressor *const p = user;
    const size_t n = block_size(p, i);
    const bool ends = p->last && p->waiting - i * BLOCK <= BLOCK;
    lane *const l = &p->lanes[i];
    unsigned char *const from = p->plain + WINDOW + i * BLOCK;
    (void)thread;
    l->crc = tc_crc32(0, from, n);
    if (deflate_rows(p, l, i, ends))
        return;
    (void)deflateReset(&l->z);
    if (i > 0 || !p->first)
        (void)deflateSetDictionary(&l->z, from - WINDOW, WINDOW);
    l->z.next_in = from;
    l->z.avail_in = (uInt)n;
    l->z.next_out = l->compressed;
    l->z.avail_out = (uInt)l->room;
    (void)deflate(&l->z, ends ? Z_FINISH : Z_SYNC_FLUSH);
    l->n = l->room - l->z.avail_out;
    l->text = l->z.data_type == Z_TEXT;
}

/* Compresses all waiting bytes and passes them to `take`. last: whether the member ends with them.
 */
static tc_status deflate_waiting(wu_compressor *p, bool last, tc_err *err)
{
    /* An empty member has one block, of no bytes. */
    const size_t blocks = p->waiting == 0 ? 1 : (p->waiting + BLOCK - 1) / BLOCK;
    tc_status status = TC_OK;
    p->last = last;
    for (size_t i = 0; i < blocks; i++) {
        lane *const l = &p->lanes[i];
        /* 16: enough bytes for the empty block that a flush adds */
        const size_t room = deflateBound(&l->z, block_size(p, i)) + 16;
        if (room > l->room) {
            free(l->compressed);
            l->compressed = malloc(room);
            l->room = l->compressed == NULL ? 0 : room;
        }
        if (l->compressed == NULL)
            return tc_no_memory(err, p->shown);
    }
    if (blocks > 1 && p->pool != NULL)
        an_pool_run(p->pool, deflate_block, p, blocks);
    else
        for (size_t i = 0; i < blocks; i++)
            deflate_block(p, 0, i);
    p->member.text = p->first ? p->lanes[0].text : p->member.text;
    for (size_t i = 0; status == TC_OK && i < blocks; i++) {
        p->member.crc =
            (uint32_t)crc32_combine(p->member.crc, p->lanes[i].crc, (z_off_t)block_size(p, i));
        status = output_bytes(p, p->lanes[i].compressed, p->lanes[i].n, err);
    }
    if (!last) /* all blocks are full in this case, and p->waiting is at least WINDOW */
        memcpy(p->plain, p->plain + p->waiting, WINDOW);
    p->first = false;
    p->waiting = 0;
    return status;
}

/* Appends n bytes to the waiting bytes. Compresses the waiting bytes only when the buffer is full
 * and more bytes follow, so that the last bytes of a member are left to wu_compressor_end. */
static tc_status deflate_more(wu_compressor *p, const unsigned char *data, size_t n, tc_err *err)
{
    tc_status status = TC_OK;
    while (status == TC_OK && n > 0) {
        if (p->waiting == p->room)
            status = deflate_waiting(p, false /* not the last bytes */, err);
        const size_t room = p->room - p->waiting, part = n < room ? n : room;
        memcpy(p->plain + WINDOW + p->waiting, data, part);
        p->waiting += part;
        data += part;
        n -= part;
    }
    return status;
}

tc_status wu_compressor_write(wu_compressor *p, const void *data, size_t n, tc_err *err)
{
    assert(n <= p->most - p->member.size);
    p->member.size += n;
    if (p->member.deflated)
        return deflate_more(p, data, n, err);
    p->member.crc = tc_crc32(p->member.crc, data, n);
    return output_bytes(p, data, n, err);
}

tc_status wu_compressor_end(wu_compressor *p, wu_compressed *out, tc_err *err)
{
    const tc_status status =
        p->member.deflated ? deflate_waiting(p, true /* the last bytes */, err) : TC_OK;
    *out = p->member;
    return status;
}
