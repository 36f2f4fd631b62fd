/* Writes a work unit: job.json and the items' pictures, which several threads compress. */
#include "workunits/tools/unit.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/base/array.h"
#include "app/base/condition.h"
#include "app/base/files.h"
#include "app/base/os.h"
#include "app/base/pool.h"
#include "workunits/format/archive.h"
#include "workunits/format/grey.h"
#include "workunits/format/job.h"
#include "workunits/format/json_text.h"
#include "workunits/format/member_png.h"
#include "workunits/format/png_io.h"
#include "workunits/format/zip_writer.h"
#include "workunits/tools/labels.h"
#include "workunits/tools/tools.h"

enum {
    MAX_MEMBER = 256, /* bytes of the name of a file in the archive; an item's name has up to 128 */
    DEFLATE_LEVEL = 9, /* compression level of job.json */
    MAX_THREADS = 16,
    PAGES_A_THREAD = 4 /* pages per thread that are collected before they are compressed */
};

/* --- members: the files in the archive ------------------------------------------------------- */

/* Returns how many rows of a page a member has: all rows or, if the image is large, the rows of a
 * strip. A strip has about half of WU_WHOLE_PIXELS pixels. */
static uint32_t rows_of_member(const wu_source *item)
{
    const wu_picture_info *const info = &item->pages.info;
    const uint64_t pixels = (uint64_t)info->nx * info->ny;
    if (item->is_stack || pixels <= WU_WHOLE_PIXELS)
        return info->ny;
    const uint64_t strips = (pixels + WU_WHOLE_PIXELS / 2 - 1) / (WU_WHOLE_PIXELS / 2);
    return (uint32_t)((info->ny + strips - 1) / strips);
}

/* The number of members of an item's images; its masks or labels have as many. */
static uint32_t count_members(const wu_source *item)
{
    const uint32_t rows = rows_of_member(item);
    return item->is_stack ? item->pages.info.nz : (item->pages.info.ny + rows - 1) / rows;
}

/* Sets `out` to the name of member i of the item. Numbers in names have four digits, or five if
 * there are more than 10,000, so that sorting the names as text sorts slices and strips. */
static void member_name(char out[MAX_MEMBER], const wu_unit *unit, const wu_source *item,
                        wu_kind kind, uint32_t i)
{
    static const char *const folders[][2] = { { "images", "stacks" },
                                              { "masks", "stack_masks" },
                                              { "labels", "stack_labels" } };
    const char *const end = unit->stored ? ".pnm" : ".png";
    const uint32_t n = count_members(item);
    if (item->is_stack || n > 1)
        snprintf(out, MAX_MEMBER, "%s/%s/%0*u%s", folders[kind][item->is_stack], item->name,
                 n > 10000 ? 5 : 4, i, end);
    else
        snprintf(out, MAX_MEMBER, "%s/%s%s", folders[kind][0], item->name, end);
}

/* --- job.json -------------------------------------------------------------------------------- */

/* Returns the name of the item's member as a string, or the names of its slices or strips as a list
 * of strings. Returns NULL if there is no memory. */
static json_t *members_json(const wu_unit *unit, const wu_source *item, wu_kind kind)
{
    const uint32_t n = count_members(item);
    char name[MAX_MEMBER];
    if (!item->is_stack && n == 1) {
        member_name(name, unit, item, kind, 0);
        return json_string(name);
    }
    json_t *list = json_array();
    for (uint32_t i = 0; list != NULL && i < n; i++) {
        member_name(name, unit, item, kind, i);
        if (json_array_append_new(list, json_string(name)) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

/* The size of a voxel in micrometres: [z, y, x], or [y, x] if the item is not a stack. */
static json_t *spacing_json(const wu_source *item)
{
    return item->is_stack ? json_pack("[f,f,f]", item->um[0], item->um[1], item->um[2])
                          : json_pack("[f,f]", item->um[1], item->um[2]);
}

/* Returns an item as job.json describes it; NULL if there is no memory. */
static json_t *item_json(const wu_unit *unit, const wu_source *item)
{
    json_t *json = json_pack("{s:s, s:o}", "name", item->name, item->is_stack ? "stack" : "image",
                             members_json(unit, item, WU_KIND_IMAGE));
    int failed = json == NULL || json_object_set_new(json, "source", json_string(item->source));
    if (!failed && item->um[2] > 0)
        failed = json_object_set_new(json, "spacing", spacing_json(item));
    if (!failed && item->mask.n_files > 0)
        failed = json_object_set_new(json, "mask", members_json(unit, item, WU_KIND_MASK));
    if (!failed && item->labels.n_files > 0)
        failed = json_object_set_new(json, "labels", members_json(unit, item, WU_KIND_LABELS)) ||
                 json_object_set_new(json, "objects", json_integer(item->n_objects));
    if (failed) {
        json_decref(json);
        return NULL;
    }
    return json;
}

/* Returns the content of job.json; NULL if there is no memory. */
static json_t *job_json(const wu_unit *unit)
{
    json_t *items = json_array();
    for (size_t i = 0; items != NULL && i < unit->n; i++) {
        if (json_array_append_new(items, item_json(unit, &unit->items[i])) != 0) {
            json_decref(items);
            items = NULL;
        }
    }
    return json_pack("{s:s, s:i, s:s, s:s*, s:O, s:o}", "format", WU_FORMAT_NAME, "version",
                     WU_FORMAT_VERSION, "analysis", unit->analysis, "about", unit->about,
                     "parameters", unit->parameters, "items", items);
}

/* Returns the fewest significant digits, 6 to 17, with which every number in job.json is read back
 * exactly. With them, 0.29 is written as 0.29 and not as 0.28999999999999998. */
static size_t real_precision(const wu_unit *unit)
{
    json_t *numbers = json_pack("[O]", unit->parameters);
    size_t precision = 6;
    for (size_t i = 0; i < unit->n; i++)
        json_array_append_new(numbers, spacing_json(&unit->items[i]));
    for (bool same = false; !same && precision < 17; precision += !same) {
        char *text = json_dumps(numbers, JSON_REAL_PRECISION(precision));
        json_t *parsed = text == NULL ? NULL : wu_json_load(text, strlen(text), 0, NULL);
        same = json_equal(numbers, parsed);
        json_decref(parsed);
        free(text);
    }
    json_decref(numbers);
    return precision;
}

/* --- pages ----------------------------------------------------------------------------------- */

/* A member to be written, which has some or all rows of a page in unit_writer.pages. */
typedef struct strip {
    char name[MAX_MEMBER];
    wu_png_info png;
    unsigned char *pixels; /* the first of the strip's rows in the page (not owned) */
    unsigned char *copy;   /* [n_copy] the PNG file from which the page was read, if this file can
                              become   the member unchanged; else NULL; owned */
    size_t n_copy;
    size_t page; /* index of the strip's page in unit_writer.pages */
} strip;

/* How hard the PNGs of a page of several strips are compressed. The effort is chosen once for all
 * strips of the page, since trying the efforts takes time. */
typedef struct page_effort {
    wu_png_info png; /* size and type of the whole page; width is 0 if the page is a single strip */
    wu_png_effort effort;
    tc_status status; /* of choosing the effort */
    tc_err err;
} page_effort;

/* The PNG that a thread has made from a strip. */
typedef struct encoded_strip {
    unsigned char *bytes; /* [n]; owned */
    size_t n, room;       /* room: number of allocated bytes */
    tc_status status;     /* of making the PNG */
    tc_err err;
} encoded_strip;

/* A picture that a thread has read while other threads read other pictures (write_ahead). */
typedef struct ahead_picture {
    wu_page_reader reader;
    wu_picture_info info;
    tc_status status; /* of reading */
    tc_err err;
} ahead_picture;

/* The state of writing a work unit. */
typedef struct unit_writer {
    const wu_unit *unit;
    wu_zip_writer *zip;
    an_pool *pool;
    unsigned threads;
    ahead_picture ahead[PAGES_A_THREAD *
                        MAX_THREADS]; /* pictures of items first_ahead, first_ahead + 1, ... */
    size_t first_ahead;
    wu_page_buffer
        *pages; /* [most_pages] page buffers; the pages in the first n_pages wait to be written */
    page_effort *efforts;              /* [most_pages] one for each page */
    size_t most_pages, n_pages, bytes; /* bytes: total size of the pages that wait */
    strip *strips;          /* [n_strips] strips of the pages that wait, in the order of writing */
    size_t n_strips, room;  /* room: elements of `strips` that are allocated */
    encoded_strip *encoded; /* [most_encoded] PNGs of the strips from index `at` on */
    size_t most_encoded, at;
    tc_err *err;
} unit_writer;

/* Appends bytes of a PNG to an encoded_strip (user). A wu_write_fn for wu_png_write. Returns -1 if
 * there is no memory. */
static int keep_bytes(void *user, const void *data, size_t n)
{
    encoded_strip *const e = user;
    if (n > e->room - e->n) {
        const size_t room = e->n + n + e->room / 2 + 4096;
        unsigned char *const grown = realloc(e->bytes, room);
        if (grown == NULL)
            return -1;
        e->bytes = grown;
        e->room = room;
    }
    memcpy(e->bytes + e->n, data, n);
    e->n += n;
    return 0;
}

/* Chooses the effort for page `part`, if it has several strips. A function for an_pool_run;
 * user: the unit_writer. */
static void choose_effort(void *user, unsigned thread, size_t part)
{
    const unit_writer *const w = user;
    page_effort *const page = &w->efforts[part];
    (void)thread;
    if (page->png.width > 0)
        page->status = wu_png_choose_effort(w->unit->shown, &page->png, w->pages[part].data,
                                            &page->effort, &page->err);
}

/* Makes the PNG of strip w->at + part. A function for an_pool_run; user: the unit_writer. */
static void encode_strip(void *user, unsigned thread, size_t part)
{
    const unit_writer *const w = user;
    const strip *const s = &w->strips[w->at + part];
    encoded_strip *const e = &w->encoded[part];
    (void)thread;
    e->n = 0;
    /* The file is used as it is only if compressing its pixels again would hardly make it smaller.
     */
    if (s->copy != NULL && wu_png_is_incompressible(&s->png, s->pixels, s->n_copy)) {
        e->status =
            keep_bytes(e, s->copy, s->n_copy) == 0 ? TC_OK : tc_no_memory(&e->err, w->unit->shown);
        return;
    }
    const page_effort *const page = &w->efforts[s->page];
    if (page->png.width == 0)
        e->status = wu_png_write(keep_bytes, e, w->unit->shown, &s->png, s->pixels, &e->err);
    else if (page->status != TC_OK)
        e->status = tc_fail(&e->err, page->status, "%s", page->err.message);
    else
        e->status = wu_png_write_with_effort(page->effort, keep_bytes, e, w->unit->shown, &s->png,
                                             s->pixels, &e->err);
    if (e->status == TC_IO) /* keep_bytes has failed */
        e->status = tc_no_memory(&e->err, w->unit->shown);
}

static tc_status write_encoded(unit_writer *w, const strip *s, const encoded_strip *e)
{
    if (e->status != TC_OK)
        return tc_fail(w->err, e->status, "%s", e->err.message);
    return_if_error(wu_zip_begin(w->zip, s->name, false, e->n, w->err));
    return_if_error(wu_zip_write(w->zip, e->bytes, e->n, w->err));
    return wu_zip_end(w->zip, w->err);
}

/* Writes a strip as PNM. Swaps the bytes of samples of 16 bits in place, since the pixels are not
 * used afterwards. */
static tc_status write_pnm(unit_writer *w, const strip *s)
{
    char head[WU_PNM_HEADER_MAX];
    const size_t begin = wu_format_pnm_header(&s->png, head),
                 n = (size_t)s->png.width * s->png.height * s->png.channels * (s->png.bits / 8);
    if (s->png.bits == 16)
        wu_swap_pnm_bytes(s->pixels, n);
    return_if_error(wu_zip_begin(w->zip, s->name, false, begin + n, w->err));
    return_if_error(wu_zip_write(w->zip, head, begin, w->err));
    return_if_error(wu_zip_write(w->zip, s->pixels, n, w->err));
    return wu_zip_end(w->zip, w->err);
}

static void free_copies(unit_writer *w)
{
    for (size_t i = 0; i < w->n_strips; i++) {
        free(w->strips[i].copy);
        w->strips[i].copy = NULL;
    }
}

/* Compresses the waiting strips in all threads, and writes them in order. Frees page buffers beyond
 * WU_BATCH_BYTES. */
static tc_status write_batch(unit_writer *w)
{
    tc_status status = TC_OK;
    for (size_t i = 0; w->unit->stored && status == TC_OK && i < w->n_strips; i++)
        status = write_pnm(w, &w->strips[i]);
    if (!w->unit->stored && status == TC_OK)
        an_pool_run(w->pool, choose_effort, w, w->n_pages);
    for (w->at = 0; !w->unit->stored && status == TC_OK && w->at < w->n_strips;) {
        const size_t left = w->n_strips - w->at,
                     n = left < w->most_encoded ? left : w->most_encoded;
        an_pool_run(w->pool, encode_strip, w, n);
        for (size_t i = 0; status == TC_OK && i < n; i++)
            status = write_encoded(w, &w->strips[w->at + i], &w->encoded[i]);
        w->at += n;
    }
    free_copies(w);
    for (size_t i = 0, kept = 0; i < w->most_pages; i++) {
        wu_page_buffer *const page = &w->pages[i];
        kept += page->size;
        if (kept > WU_BATCH_BYTES) {
            kept -= page->size;
            free(page->data);
            *page = (wu_page_buffer){ .size = 0 };
        }
    }
    w->n_strips = w->n_pages = w->bytes = 0;
    return status;
}

/* Adds page z of the item, which was read into w->pages[w->n_pages], to the waiting pages. Writes
 * all waiting pages when there are enough of them. reader: the page's reader, or NULL. If the page
 * is one strip, reader->encoded, the PNG from which it was read, passes to the strip. */
static tc_status add_page(unit_writer *w, const wu_source *item, wu_kind kind, uint32_t z,
                          const wu_picture_info *info, wu_page_reader *reader)
{
    const wu_png_info all = { info->nx, info->ny, info->bits, info->channels }, *const page = &all;
    const uint32_t rows = rows_of_member(item), strips = (page->height + rows - 1) / rows;
    const size_t row = (size_t)page->width * page->channels * (page->bits / 8);
    const size_t index = w->n_pages++;
    const wu_page_buffer *const buffer = &w->pages[index];
    w->efforts[index].png = strips > 1 ? *page : (wu_png_info){ .width = 0 };
    for (uint32_t i = 0; i < strips; i++) {
        strip *const grown = tc_array_grow(w->strips, w->n_strips, &w->room, sizeof *grown);
        const uint32_t y = i * rows;
        if (grown == NULL)
            return tc_no_memory(w->err, w->unit->shown);
        w->strips = grown;
        strip *const s = &grown[w->n_strips++];
        member_name(s->name, w->unit, item, kind, item->is_stack ? z : i);
        s->png = *page;
        s->png.height = page->height - y < rows ? page->height - y : rows;
        s->pixels = (unsigned char *)buffer->data + y * row;
        s->copy = NULL;
        s->page = index;
        if (strips == 1 && reader != NULL) {
            s->copy = reader->encoded;
            s->n_copy = reader->n_encoded;
            reader->encoded = NULL;
        }
    }
    w->bytes += row * page->height;
    return w->n_pages == w->most_pages || w->bytes >= WU_BATCH_BYTES ? write_batch(w) : TC_OK;
}

/* Returns the scaled-down picture that is kept of an image for the report's page, or NULL if none
 * is kept. */
static wu_thumbnail *thumbnail_of(const unit_writer *w, const wu_source *item)
{
    const size_t i = (size_t)(item - w->unit->items);
    return item->is_stack || i >= w->unit->n_thumbnails ? NULL : &w->unit->thumbnails[i];
}

/* Surveys the colours of an RGB page, scales it down, converts it to grey and surveys that: some
 * rows at a time, which stay in the processor's cache. */
static tc_status make_grey_page(const unit_writer *w, const wu_page_reader *reader, uint8_t *page,
                                wu_picture_info *info, tc_err *err)
{
    enum { ROWS = 8 }; /* rows at a time if the picture is not scaled down */
    wu_thumbnail *const small = thumbnail_of(w, reader->item);
    const uint32_t step = small != NULL ? wu_shrink_step(info, w->unit->n_thumbnails) : ROWS;
    const size_t row = 3 * (size_t)info->nx, small_row = 3 * (size_t)((info->nx + step - 1) / step);
    an_survey *const survey = reader->survey ? &reader->item->survey : NULL;
    TC_AUTOFREE uint32_t *const sums = small != NULL ? malloc(row * sizeof *sums) : NULL;
    if (small != NULL) {
        small->channels = 3;
        small->small = malloc(small_row * ((info->ny + step - 1) / step));
        if (small->small == NULL || sums == NULL)
            return tc_no_memory(err, w->unit->shown);
    }
    for (uint32_t y = 0, n; y < info->ny; y += n) {
        n = info->ny - y < step ? info->ny - y : step;
        const uint8_t *const rgb = page + y * row;
        uint8_t *const grey = page + (size_t)y * info->nx; /* these pixels were converted before */
        const wu_picture_info part = { .nx = info->nx, .ny = n, .nz = 1, .bits = 8, .channels = 1 };
        if (survey != NULL)
            wu_survey_colours(rgb, (size_t)n * info->nx, survey);
        if (small != NULL)
            wu_shrink_rows(info, step, n, rgb, sums,
                           (uint8_t *)small->small + y / step * small_row);
        wu_make_grey(rgb, (size_t)n * info->nx, grey);
        if (survey != NULL)
            wu_survey_greys(grey, &part, survey);
    }
    info->channels = 1;
    return TC_OK;
}

/* Reads the next page, keeps its scaled-down picture, and converts it to grey if the unit is grey.
 */
static tc_status read_page(const unit_writer *w, wu_page_reader *reader, wu_page_buffer *buffer,
                           wu_picture_info *info, tc_err *err)
{
    return_if_error(wu_page_next(reader, buffer, info, err));
    wu_thumbnail *const small =
        reader->kind == WU_KIND_IMAGE ? thumbnail_of(w, reader->item) : NULL;
    if (reader->defer_grey && info->channels == 3)
        return make_grey_page(w, reader, buffer->data, info, err);
    if (small == NULL)
        return TC_OK;
    small->channels = info->channels;
    return wu_shrink_picture(info, wu_shrink_step(info, w->unit->n_thumbnails), buffer->data,
                             w->unit->shown, &small->small, err);
}

static wu_page_reader reader_of(const unit_writer *w, wu_source *item, wu_kind kind)
{
    return (wu_page_reader){ .item = item,
                             .kind = kind,
                             .survey = w->unit->check != NULL,
                             .defer_grey = w->unit->grey && kind == WU_KIND_IMAGE,
                             .wants_encoded =
                                 !w->unit->stored && rows_of_member(item) == item->pages.info.ny };
}

static tc_status write_pages(unit_writer *w, wu_source *item, wu_kind kind)
{
    wu_page_reader reader = reader_of(w, item, kind);
    tc_status status = TC_OK;
    for (uint32_t z = 0; z < item->pages.info.nz && status == TC_OK; z++) {
        wu_picture_info info;
        status = read_page(w, &reader, &w->pages[w->n_pages], &info, w->err);
        if (status == TC_OK)
            status = add_page(w, item, kind, z, &info, &reader);
    }
    wu_page_reader_close(&reader);
    return status;
}

/* Keeps the survey of item i and calls the unit's check. To be called when all its pages were read.
 */
static tc_status end_item(const unit_writer *w, size_t i)
{
    wu_source *const item = &w->unit->items[i];
    if (i < w->unit->n_thumbnails)
        w->unit->thumbnails[i].survey = item->survey;
    return w->unit->check != NULL ? w->unit->check(w->unit->user, item, w->err) : TC_OK;
}

/* --- several pictures at a time -------------------------------------------------------------- */

/* Reads the picture of item first_ahead + part into pages[n_pages + part]. A function for
 * an_pool_run; user: the unit_writer. */
static void read_ahead(void *user, unsigned thread, size_t part)
{
    unit_writer *const w = user;
    ahead_picture *const a = &w->ahead[part];
    (void)thread;
    a->reader = reader_of(w, &w->unit->items[w->first_ahead + part], WU_KIND_IMAGE);
    a->reader.defer_notes = true;
    a->status = read_page(w, &a->reader, &w->pages[w->n_pages + part], &a->info, &a->err);
}

/* Returns how many items from the i-th on are read at the same time: images without mask and
 * labels, at most as many as there are free page buffers. Returns 1 if these items together are too
 * small to be worth starting threads. */
static size_t count_ahead(const unit_writer *w, size_t i)
{
    const size_t worth_a_thread = 1 << 20; /* bytes */
    size_t n = 0, bytes = w->bytes;
    for (; w->n_pages + n < w->most_pages && i + n < w->unit->n && bytes < WU_BATCH_BYTES; n++) {
        const wu_source *const item = &w->unit->items[i + n];
        if (item->is_stack || item->mask.n_files > 0 || item->labels.n_files > 0)
            break;
        bytes += wu_picture_page_bytes(&item->pages.info);
    }
    return w->threads > 1 && bytes - w->bytes > worth_a_thread ? n : 1;
}

/* Reads n items from the i-th on at the same time, and adds their pages in order. n: from
 * count_ahead. */
static tc_status write_ahead(unit_writer *w, size_t i, size_t n)
{
    tc_status status = TC_OK;
    w->first_ahead = i;
    an_pool_run(w->pool, read_ahead, w, n);
    for (size_t k = 0; k < n; k++) {
        ahead_picture *const a = &w->ahead[k];
        if (status == TC_OK && a->status != TC_OK)
            status = tc_fail(w->err, a->status, "%s", a->err.message);
        if (status == TC_OK)
            status = add_page(w, a->reader.item, WU_KIND_IMAGE, 0, &a->info, &a->reader);
        wu_page_reader_close(&a->reader);
        if (status == TC_OK)
            status = end_item(w, i + k);
    }
    return status;
}

/* Stores n labels in place in the number of bytes that the item's largest label needs: grey of 8 or
 * 16 bits, or RGB for three bytes, with the lowest byte in red. Returns the type of the page. */
static wu_picture_info narrow_labels(const wu_source *item, uint32_t *labels, size_t n)
{
    const unsigned size = item->largest_label > 65535 ? 3 : item->largest_label > 255 ? 2 : 1;
    uint8_t *const bytes = (uint8_t *)labels;
    for (size_t i = 0; i < n; i++) {
        const uint32_t label = labels[i];
        const uint16_t label16 = (uint16_t)label;
        if (size == 2)
            memcpy(bytes + 2 * i, &label16, sizeof label16);
        for (unsigned k = 0; k < size && size != 2; k++)
            bytes[size * i + k] = (uint8_t)(label >> 8 * k);
    }
    return (wu_picture_info){ .nx = item->pages.info.nx,
                              .ny = item->pages.info.ny,
                              .bits = size == 2 ? 16 : 8,
                              .channels = size == 3 ? 3 : 1 };
}

/* Adds the item's labels, slice by slice, to the pages that wait. */
static tc_status write_labels(unit_writer *w, wu_source *item)
{
    const size_t n = (size_t)item->pages.info.nx * item->pages.info.ny;
    wu_label_reader reader = { .item = item };
    tc_status status = TC_OK;
    for (uint32_t z = 0; z < item->pages.info.nz && status == TC_OK; z++) {
        wu_page_buffer *const buffer = &w->pages[w->n_pages];
        if (item->kept_labels != NULL) {
            free(buffer->data);
            *buffer = (wu_page_buffer){ item->kept_labels, n * sizeof(uint32_t) };
            item->kept_labels = NULL;
        } else {
            status = wu_page_buffer_reserve(buffer, n * sizeof(uint32_t), item->name, w->err);
            if (status == TC_OK)
                status = wu_labels_read_slice(&reader, buffer->data, w->err);
        }
        if (status != TC_OK)
            break;
        const wu_picture_info info = narrow_labels(item, buffer->data, n);
        status = add_page(w, item, WU_KIND_LABELS, z, &info, NULL);
    }
    wu_labels_close(&reader);
    return status;
}

/* --- the archive ----------------------------------------------------------------------------- */

/* Writes the member job.json. */
static tc_status write_job(unit_writer *w)
{
    json_t *json = job_json(w->unit);
    TC_AUTOFREE char *text =
        json == NULL
            ? NULL
            : wu_json_text(json, JSON_INDENT(2) | JSON_REAL_PRECISION(real_precision(w->unit)));
    json_decref(json);
    if (text == NULL)
        return tc_no_memory(w->err, "job.json");
    const size_t n = strlen(text);
    if (n >= WU_MAX_JSON)
        return tc_fail(
            w->err, TC_BAD_INPUT,
            "%s: job.json would have %zu bytes, more than the limit of %llu; use --split",
            w->unit->shown, n + 1, (unsigned long long)WU_MAX_JSON);
    return_if_error(wu_zip_begin(w->zip, "job.json", true, n + 1, w->err));
    return_if_error(wu_zip_write(w->zip, text, n, w->err));
    return_if_error(wu_zip_write(w->zip, "\n", 1, w->err));
    return wu_zip_end(w->zip, w->err);
}

static tc_status write_item(unit_writer *w, size_t i)
{
    wu_source *const item = &w->unit->items[i];
    return_if_error(write_pages(w, item, WU_KIND_IMAGE));
    if (item->mask.n_files > 0)
        return_if_error(write_pages(w, item, WU_KIND_MASK));
    if (item->labels.n_files > 0)
        return_if_error(write_labels(w, item));
    return end_item(w, i);
}

static tc_status write_members(unit_writer *w)
{
    tc_status status = write_job(w);
    for (size_t i = 0, n; i < w->unit->n && status == TC_OK; i += n) {
        wu_show_progress("files compressed", i, w->unit->n);
        n = count_ahead(w, i);
        status = n > 1 ? write_ahead(w, i, n) : write_item(w, i);
    }
    wu_show_progress("files compressed", 1, 1);
    return status == TC_OK ? write_batch(w) : status;
}

/* Starts the threads, and allocates the buffers for pages and for PNGs. */
static tc_status make_threads(unit_writer *w)
{
    const unsigned processors = os_processors(),
                   threads = processors < MAX_THREADS ? processors : MAX_THREADS;
    w->most_encoded = (size_t)PAGES_A_THREAD * threads;
    w->threads = threads;
    /* If the unit is stored without compression, only the pages that are read at the same time need
     * buffers. With one thread, each page is written before the next one is read. */
    w->most_pages = w->unit->stored || threads == 1 ? threads : w->most_encoded;
    w->pages = calloc(w->most_pages, sizeof *w->pages);
    w->efforts = calloc(w->most_pages, sizeof *w->efforts);
    w->encoded = calloc(w->most_encoded, sizeof *w->encoded);
    return w->pages == NULL || w->efforts == NULL || w->encoded == NULL
               ? tc_no_memory(w->err, w->unit->shown)
               : an_pool_create(threads, &w->pool, w->err);
}

static void free_writer(unit_writer *w)
{
    for (size_t i = 0; w->pages != NULL && i < w->most_pages; i++)
        free(w->pages[i].data);
    for (size_t i = 0; w->encoded != NULL && i < w->most_encoded; i++)
        free(w->encoded[i].bytes);
    free_copies(w);
    free(w->pages);
    free(w->efforts);
    free(w->encoded);
    free(w->strips);
    an_pool_destroy(&w->pool);
    wu_zip_free(&w->zip);
}

/* A thread that brings a file to the disk while it is being written, so that the fsync at the end
 * takes little time. */
typedef struct syncer {
    int fd;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock; /* for `ended` */
    tc_condition changed;
    bool ended; /* the file is complete */
    int error;  /* errno of an fsync that failed, else 0; a later fsync would not fail again */
} syncer;

static void *sync_until_ended(void *user)
{
    const double seconds = 0.1; /* between two calls of fsync */
    syncer *const s = user;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        if (!s->ended)
            tc_condition_wait(&s->changed, &s->lock, seconds);
        if (s->ended)
            break;
        pthread_mutex_unlock(&s->lock);
        if (!os_sync(s->fd) && s->error == 0)
            s->error = errno;
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* Starts the thread. If there can be no thread, the fsync at the end does all. */
static void begin_syncing(syncer *s, int fd)
{
    *s = (syncer){ .fd = fd };
    pthread_mutex_init(&s->lock, NULL);
    tc_condition_init(&s->changed);
    s->has_thread = os_create_thread(&s->thread, sync_until_ended, s);
}

/* Ends the thread. Returns false (errno) if a part of the file could not be brought to the disk. */
static bool end_syncing(syncer *s)
{
    pthread_mutex_lock(&s->lock);
    s->ended = true;
    tc_condition_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
    if (s->has_thread)
        pthread_join(s->thread, NULL);
    tc_condition_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    errno = s->error;
    return s->error == 0;
}

tc_status wu_unit_write(int fd, const wu_unit *unit, tc_err *err)
{
    assert(json_is_object(unit->parameters) && unit->n > 0);
    unit_writer w = { .unit = unit, .err = err };
    syncer s;
    if (!unit->stored)
        begin_syncing(&s, fd);
    tc_status status = wu_zip_create(fd, unit->shown, DEFLATE_LEVEL, &w.zip, err);
    if (status == TC_OK)
        status = make_threads(&w);
    if (status == TC_OK)
        status = write_members(&w);
    if (!unit->stored && !end_syncing(&s) && status == TC_OK)
        status = tc_fail_write(unit->shown, unit->shown, err);
    if (status == TC_OK)
        status = wu_zip_finish(w.zip, !unit->stored, err);
    free_writer(&w);
    return status;
}
