/* Decodes the pixels of an item from the members of the archive, in several threads. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "app/base/array.h"
#include "app/base/numbers.h"
#include "app/base/os.h"
#include "app/base/pool.h"
#include "workunits/format/grey.h"
#include "workunits/format/job.h"
#include "workunits/format/member_png.h"

/* If a member has more bytes of samples than this, only the main thread decodes. It calls
 * tc_call_poll while it decodes, so that the caller can interrupt it. Other threads cannot be
 * interrupted within a member, unless loader.any_thread is set. */
#define LONG_MEMBER ((uint64_t)8 << 20)

typedef enum piece_kind { IMAGE, MASK, LABELS } piece_kind;

/* A member that has pixels [first, first + n) of the item. */
typedef struct piece {
    piece_kind kind;
    size_t member, first, n;
} piece;

/* The state of one thread. */
typedef struct decoder {
    wu_unzip *zip;
    const tc_poll *poll; /* the argument of tc_call_poll; NULL if this thread must not use a poll */
    tc_status status;    /* TC_OK, or the status of the first piece that failed */
    tc_err err;
    size_t at; /* index in loader.pieces of the current piece, or of the piece that failed */
} decoder;

/* The loading of an item, or of a slice. */
typedef struct loader {
    const wu_job *job;
    const tc_poll *poll;
    bool any_thread; /* all threads may pass the poll to tc_call_poll, not only the main thread */
    const wu_item *item;
    uint8_t *image; /* the stored samples; if colours are converted, the grey values */
    wu_pixels
        *out; /* the pixels of the item; NULL to fill only `image`, without converting colours */
    piece *pieces;
    size_t n, room;
    decoder *decoders;
} loader;

/* --- the members ----------------------------------------------------------------------------- */

/* Adds members [from, to) of a list to the pieces. The first of these members begins at pixel 0;
 * each further member begins where the one before it ends. */
static tc_status add_pieces(loader *l, piece_kind kind, char *const *members, size_t from,
                            size_t to, tc_err *err)
{
    size_t first = 0;
    for (size_t i = from; i < to; i++) {
        piece *const grown = tc_array_grow(l->pieces, l->n, &l->room, sizeof *grown);
        const long member = wu_archive_find(l->job->archive, members[i]);
        if (grown == NULL)
            return tc_no_memory(err, "the pixels of an item");
        l->pieces = grown;
        if (member < 0)
            return tc_fail(err, TC_INTERNAL, "%s: no member \"%s\"", l->job->path, members[i]);
        const wu_png_info *const head = &l->job->heads[member];
        l->pieces[l->n++] =
            (piece){ kind, (size_t)member, first, (size_t)head->width * head->height };
        first += l->pieces[l->n - 1].n;
    }
    return TC_OK;
}

/* Adds the member of slice z of a stack, or all n members of an image's list. */
static tc_status add_slice(loader *l, piece_kind kind, char *const *members, size_t n, uint32_t z,
                           tc_err *err)
{
    const bool one = l->item->is_stack && n > 0;
    return add_pieces(l, kind, members, one ? z : 0, one ? z + 1 : n, err);
}

/* --- one member ------------------------------------------------------------------------------ */

/* Converts n pixels at p from RGB to grey. `grey` may be equal to p, because grey pixel i is
 * written after the colours of pixels 0 to i have been read. */
static tc_status rgb_to_grey(const uint8_t *p, size_t n, uint8_t *grey, const tc_poll *poll,
                             tc_err *err)
{
    for (size_t i = 0; i < n;) {
        const size_t end = tc_block_end(i, n);
        wu_make_grey(p + 3 * i, end - i, grey + i);
        i = end;
        return_if_error(tc_call_poll(poll, err));
    }
    return TC_OK;
}

/* Whether each member in colour is decoded to a buffer of its own, and converted to grey from
 * there. An item of one member is converted in place. With several members, conversion in place
 * would need memory for the colours of all members. */
static bool uses_colour_buffer(const loader *l)
{
    return l->item->channels == 3 && l->out != NULL && l->item->n_images > 1;
}

/* Decodes a piece of the item's image, and converts colours to grey if l->out is set. */
static tc_status decode_image(const loader *l, decoder *d, const piece *p)
{
    const wu_png_info *const head = &l->job->heads[p->member];
    const size_t pixel = (size_t)head->channels * (head->bits / 8);
    const bool separate = uses_colour_buffer(l);
    uint8_t *const to = l->image + p->first * (separate ? 1 : pixel);
    uint8_t *const samples = separate ? malloc(p->n * pixel) : to;
    if (samples == NULL)
        return tc_no_memory(&d->err, "the pixels of an item");
    tc_status status = wu_member_decode(d->zip, p->member, head, samples, &d->err);
    if (status == TC_OK && head->channels == 3 && l->out != NULL)
        status = rgb_to_grey(samples, p->n, to, d->poll, &d->err);
    if (separate)
        free(samples);
    return status;
}

/* Converts n samples of 8 or 16 bits to 0 or 1. `mask` and `samples` may be the same memory. */
static tc_status threshold_mask(const uint8_t *samples, unsigned bits, size_t n, uint8_t *mask,
                                const tc_poll *poll, tc_err *err)
{
    for (size_t i = 0; i < n;) {
        const size_t end = tc_block_end(i, n);
        for (; i < end; i++)
            mask[i] = bits == 8 ? samples[i] != 0 : (samples[2 * i] | samples[2 * i + 1]) != 0;
        return_if_error(tc_call_poll(poll, err));
    }
    return TC_OK;
}

static tc_status decode_mask(const loader *l, decoder *d, const piece *p)
{
    const wu_png_info *const head = &l->job->heads[p->member];
    /* Samples of 16 bits need a buffer; samples of 8 bits are converted in place. */
    TC_AUTOFREE uint8_t *const buffer = head->bits == 8 ? NULL : malloc(2 * p->n);
    uint8_t *const mask = l->out->mask + p->first;
    uint8_t *const samples = buffer != NULL ? buffer : mask;
    if (head->bits != 8 && buffer == NULL)
        return tc_no_memory(&d->err, "the mask of an item");
    return_if_error(wu_member_decode(d->zip, p->member, head, samples, &d->err));
    return threshold_mask(samples, head->bits, p->n, mask, d->poll, &d->err);
}

/* Converts the samples [from, to) to labels, in place; RGB becomes R + 256 G + 65536 B. Begins with
 * the last sample, since a label takes more bytes than its sample. */
static void widen_labels(uint32_t *labels, size_t from, size_t to, const wu_png_info *head)
{
    const uint8_t *const bytes = (const uint8_t *)labels;
    const size_t size = (size_t)head->channels * (head->bits / 8);
    for (size_t i = to; i-- > from;) {
        const uint8_t *const at = bytes + size * i;
        uint16_t grey = at[0];
        if (size == 2)
            memcpy(&grey, at, sizeof grey);
        labels[i] = size == 3 ? at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 : grey;
    }
}

static tc_status decode_labels(const loader *l, decoder *d, const piece *p)
{
    const wu_png_info *const head = &l->job->heads[p->member];
    uint32_t *const labels = l->out->labels + p->first;
    return_if_error(wu_member_decode(d->zip, p->member, head, labels, &d->err));
    for (size_t to = p->n; to > 0;) {
        const size_t from = to > TC_POLL_BLOCK ? to - TC_POLL_BLOCK : 0;
        widen_labels(labels, from, to, head);
        to = from;
        return_if_error(tc_call_poll(d->poll, &d->err));
    }
    return TC_OK;
}

/* --- all members ----------------------------------------------------------------------------- */

/* Decodes a piece. A function for an_pool_run; user: the loader. A thread gets pieces in ascending
 * order, and decodes none after the first that fails. */
static void decode_piece(void *user, unsigned thread, size_t part)
{
    const loader *const l = user;
    const piece *const p = &l->pieces[part];
    decoder *const d = &l->decoders[thread];
    if (d->status != TC_OK)
        return;
    d->at = part;
    d->status = p->kind == IMAGE  ? decode_image(l, d, p)
                : p->kind == MASK ? decode_mask(l, d, p)
                                  : decode_labels(l, d, p);
}

/* Returns the number of threads that decode. It is 1 if a member is long (LONG_MEMBER) and only the
 * main thread may use the poll. Otherwise each thread should have work for about a millisecond at
 * least, which is bytes_a_thread. */
static unsigned threads_of(const loader *l)
{
    const uint64_t bytes_a_thread = 64 << 10;
    uint64_t most = 0, all = 0;
    for (size_t i = 0; i < l->n; i++) {
        const wu_png_info *const head = &l->job->heads[l->pieces[i].member];
        const uint64_t bytes = (uint64_t)l->pieces[i].n * head->channels * (head->bits / 8);
        most = bytes > most ? bytes : most;
        all += bytes;
    }
    const uint64_t useful = all / bytes_a_thread < l->n ? all / bytes_a_thread : l->n;
    const uint64_t threads = useful < l->job->threads ? useful : l->job->threads;
    return threads < 2 || (!l->any_thread && most > LONG_MEMBER) ? 1 : (unsigned)threads;
}

static tc_status decode_in_pool(loader *l, unsigned threads, tc_err *err)
{
    TC_AUTO(an_pool_destroy) an_pool *pool = NULL;
    return_if_error(an_pool_create(threads, &pool, err));
    return an_pool_run_polled(pool, decode_piece, l, l->n, l->poll, err);
}

/* Returns the error of the first piece that failed: the same for any number of threads. */
static tc_status first_fault(const loader *l, unsigned threads, tc_err *err)
{
    const decoder *first = NULL;
    for (unsigned i = 0; i < threads; i++)
        if (l->decoders[i].status != TC_OK && (first == NULL || l->decoders[i].at < first->at))
            first = &l->decoders[i];
    return first == NULL ? TC_OK : tc_fail(err, first->status, "%s", first->err.message);
}

/* Decodes all pieces, in several threads if that is worthwhile. */
static tc_status decode_pieces(loader *l, tc_err *err)
{
    const unsigned threads = threads_of(l);
    const tc_poll *const poll = threads == 1 || l->any_thread ? l->poll : NULL;
    tc_status status = TC_OK;
    l->decoders = calloc(threads, sizeof *l->decoders);
    if (l->decoders == NULL)
        return tc_no_memory(err, "the pixels of an item");
    for (unsigned i = 0; status == TC_OK && i < threads; i++) {
        l->decoders[i].poll = poll;
        status = wu_unzip_open(l->job->archive, poll, &l->decoders[i].zip, err);
    }
    if (status == TC_OK && threads > 1)
        status = decode_in_pool(l, threads, err);
    for (size_t i = 0; status == TC_OK && threads == 1 && i < l->n; i++)
        decode_piece(l, 0, i);
    if (status == TC_OK)
        status = first_fault(l, threads, err);
    for (unsigned i = 0; i < threads; i++)
        wu_unzip_close(&l->decoders[i].zip);
    free(l->decoders);
    return status;
}

/* Checks that the number of different labels equals the number of objects in job.json, and sets
 * largest_label. */
static tc_status count_labels(const loader *l, size_t n, tc_err *err)
{
    const uint32_t *const labels = l->out->labels;
    /* A bit for each possible label: whether it has occurred. */
    TC_AUTOFREE uint64_t *const seen = calloc(WU_MAX_LABEL / 64 + 1, sizeof *seen);
    uint32_t count = 0, largest = 0, last = 0;
    if (seen == NULL)
        return tc_no_memory(err, "the labels of an item");
    for (size_t i = 0; i < n;) {
        for (const size_t end = tc_block_end(i, n); i < end; i++) {
            if (labels[i] == last || labels[i] == 0)
                continue;
            last = labels[i];
            count += (seen[last / 64] >> last % 64 & 1) == 0;
            seen[last / 64] |= (uint64_t)1 << last % 64;
            largest = last > largest ? last : largest;
        }
        return_if_error(tc_call_poll(l->poll, err));
    }
    l->out->largest_label = largest;
    if (count != l->item->n_objects)
        return tc_fail(err, TC_BAD_INPUT,
                       "%s: job.json: item \"%s\" has %u different labels, not %u objects",
                       l->job->path, l->item->name, (unsigned)count, (unsigned)l->item->n_objects);
    return TC_OK;
}

/* The bytes of memory that decoding one of the n members takes besides its samples. sample: bytes
 * of a pixel. */
static uint64_t decoding_bytes(const wu_item *item, char *const *members, size_t n, uint64_t sample)
{
    if (n == 0 || wu_is_pnm_name(members[0]))
        return 0;
    const uint64_t rows = item->is_stack ? item->ny : (item->ny + n - 1) / n;
    return wu_png_reading_bytes(rows * item->nx * sample, rows, item->compressed_bytes);
}

uint64_t wu_item_loading_bytes(const wu_item *item, uint64_t *thread_bytes)
{
    const loader l = { .item = item, .out = &(wu_pixels){ .nx = 0 } };
    const uint64_t n = (uint64_t)item->nx * item->ny * item->nz,
                   sample = (uint64_t)item->channels * (item->bits / 8);
    const bool separate = uses_colour_buffer(&l);
    *thread_bytes = decoding_bytes(item, item->images, item->n_images, sample) +
                    (separate ? (n + item->n_images - 1) / item->n_images * sample : 0);
    *thread_bytes = tc_larger(*thread_bytes, decoding_bytes(item, item->masks, item->n_masks, 1));
    *thread_bytes = tc_larger(*thread_bytes, decoding_bytes(item, item->labels, item->n_labels, 3));
    return n * ((separate ? 1 : sample) + (item->n_masks > 0) +
                (item->n_labels > 0 ? sizeof(uint32_t) : 0)) +
           *thread_bytes;
}

/* Allocates the memory for the mask and labels of n of the item's pixels. The products do not
 * overflow, since sizes were checked against WU_MAX_SIDE and WU_MAX_VOXELS when the job was read.
 */
static tc_status allocate_regions(const loader *l, size_t n, tc_err *err)
{
    const wu_item *const item = l->item;
    l->out->mask = item->n_masks > 0 ? os_alloc_zeroed(n) : NULL;
    l->out->labels = item->n_labels > 0 ? os_alloc_zeroed(n * sizeof *l->out->labels) : NULL;
    if ((item->n_masks > 0 && l->out->mask == NULL) ||
        (item->n_labels > 0 && l->out->labels == NULL))
        return tc_no_memory(err, "the pixels of an item");
    return TC_OK;
}

/* Moves the grey values to l->out, and frees the memory that only the colours needed. */
static void move_image(loader *l, size_t n)
{
    if (l->item->channels == 3 && !uses_colour_buffer(l)) {
        uint8_t *const less = realloc(l->image, n);
        l->image = less != NULL ? less : l->image;
    }
    if (l->item->bits == 8)
        l->out->u8 = l->image;
    else
        l->out->u16 = (uint16_t *)(void *)l->image;
    l->image = NULL;
}

static tc_status load_pixels(loader *l, tc_err *err)
{
    const wu_item *const item = l->item;
    const size_t n = (size_t)item->nx * item->ny * item->nz;
    l->image = os_alloc_zeroed(n * (item->bits / 8) * (uses_colour_buffer(l) ? 1 : item->channels));
    if (l->image == NULL)
        return tc_no_memory(err, "the pixels of an item");
    return_if_error(allocate_regions(l, n, err));
    return_if_error(add_pieces(l, IMAGE, item->images, 0, item->n_images, err));
    return_if_error(add_pieces(l, MASK, item->masks, 0, item->n_masks, err));
    return_if_error(add_pieces(l, LABELS, item->labels, 0, item->n_labels, err));
    return_if_error(decode_pieces(l, err));
    if (item->n_labels > 0)
        return_if_error(count_labels(l, n, err));
    move_image(l, n);
    return TC_OK;
}

/* Decodes the pixels of an item. poll, any_thread: as in loader. */
static tc_status load_item(const wu_job *job, size_t index, const tc_poll *poll, bool any_thread,
                           wu_pixels *out, tc_err *err)
{
    memset(out, 0, sizeof *out);
    if (index >= job->n_items)
        return tc_fail(err, TC_INTERNAL, "%s: no item %zu", job->path, index);
    const wu_item *const item = &job->items[index];
    loader l = { .job = job, .poll = poll, .any_thread = any_thread, .item = item, .out = out };
    out->nx = item->nx;
    out->ny = item->ny;
    out->nz = item->nz;
    out->bits = item->bits;
    enum { WORTH_TRIM = 1 << 26 }; /* bytes of samples from which on freed memory is given back */
    const tc_status status = load_pixels(&l, err);
    free(l.image);
    free(l.pieces);
    if ((uint64_t)item->nx * item->ny * item->nz * item->channels * (item->bits / 8) >= WORTH_TRIM)
        os_trim_memory();
    if (status != TC_OK)
        wu_pixels_free(out);
    return status;
}

tc_status wu_item_load(const wu_job *job, size_t index, wu_pixels *out, tc_err *err)
{
    return load_item(job, index, job->archive->poll, false /* main thread only */, out, err);
}

tc_status wu_item_load_in_background(const wu_job *job, size_t index, const tc_poll *poll,
                                     wu_pixels *out, tc_err *err)
{
    return load_item(job, index, poll, true /* any thread */, out, err);
}

tc_status wu_item_load_regions(const wu_job *job, size_t index, uint32_t z, wu_pixels *out,
                               tc_err *err)
{
    assert(index < job->n_items && z < job->items[index].nz);
    const wu_item *const item = &job->items[index];
    loader l = { .job = job, .poll = job->archive->poll, .item = item, .out = out };
    *out = (wu_pixels){ .nx = item->nx, .ny = item->ny, .nz = 1, .bits = item->bits };
    tc_status status = allocate_regions(&l, (size_t)item->nx * item->ny, err);
    if (status == TC_OK)
        status = add_slice(&l, MASK, item->masks, item->n_masks, z, err);
    if (status == TC_OK)
        status = add_slice(&l, LABELS, item->labels, item->n_labels, z, err);
    if (status == TC_OK)
        status = decode_pieces(&l, err);
    free(l.pieces);
    if (status != TC_OK)
        wu_pixels_free(out);
    return status;
}

tc_status wu_item_decode_slice(const wu_job *job, size_t index, uint32_t z, void *samples,
                               tc_err *err)
{
    assert(index < job->n_items && z < job->items[index].nz);
    const wu_item *const item = &job->items[index];
    loader l = { .job = job, .poll = job->archive->poll, .item = item, .image = samples };
    tc_status status = add_slice(&l, IMAGE, item->images, item->n_images, z, err);
    if (status == TC_OK)
        status = decode_pieces(&l, err);
    free(l.pieces);
    return status;
}

void wu_pixels_free(wu_pixels *pixels)
{
    free(pixels->u8);
    free(pixels->u16);
    free(pixels->mask);
    free(pixels->labels);
    memset(pixels, 0, sizeof *pixels);
}
