#include "workunits/tools/unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/base/os.h"
#include "app/base/pool.h"
#include "workunits/format/archive.h"
#include "workunits/format/job.h"
#include "workunits/format/png_io.h"
#include "workunits/format/zip_writer.h"
#include "workunits/tools/tools.h"

enum { MAX_MEMBER = 256,       /* bytes of a member's name; an item's has up to 128 */
       DEFLATE_LEVEL = 9,      /* of job.json */
       MAX_THREADS = 16,
       BATCH_BYTES = 256 << 20 /* of pixels that wait, about */ };

/* The members of an item; the page's number has four digits or, in a stack of
 * more than 10,000 slices, five, so that any order of names is that of z. */
static void member_name(char out[MAX_MEMBER], const wu_source *item, bool is_mask, uint32_t page)
{
    const char *const folder = item->is_stack ? (is_mask ? "stack_masks" : "stacks")
                                              : (is_mask ? "masks" : "images");
    if (item->is_stack)
        snprintf(out, MAX_MEMBER, "%s/%s/%0*u.png", folder, item->name,
                 item->pages.info.nz > 10000 ? 5 : 4, page);
    else
        snprintf(out, MAX_MEMBER, "%s/%s.png", folder, item->name);
}

/* --- job.json ------------------------------------------------------------------------ */

/* A member's name, or for a stack the list of all of them. NULL: no memory. */
static json_t *members_json(const wu_source *item, bool is_mask)
{
    char name[MAX_MEMBER];
    if (!item->is_stack) {
        member_name(name, item, is_mask, 0);
        return json_string(name);
    }
    json_t *list = json_array();
    for (uint32_t z = 0; list != NULL && z < item->pages.info.nz; z++) {
        member_name(name, item, is_mask, z);
        if (json_array_append_new(list, json_string(name)) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

/* [z, y, x], of a picture [y, x] */
static json_t *spacing_json(const wu_source *item)
{
    return item->is_stack ? json_pack("[f,f,f]", item->um[0], item->um[1], item->um[2])
                          : json_pack("[f,f]", item->um[1], item->um[2]);
}

static json_t *item_json(const wu_source *item)
{
    json_t *json = json_pack("{s:s, s:o}", "name", item->name, item->is_stack ? "stack" : "image",
                             members_json(item, false));
    int bad = json == NULL || json_object_set_new(json, "source", json_string(item->source));
    if (!bad && item->um[2] > 0)
        bad = json_object_set_new(json, "spacing", spacing_json(item));
    if (!bad && item->mask.n_files > 0)
        bad = json_object_set_new(json, "mask", members_json(item, true));
    if (bad) {
        json_decref(json);
        return NULL;
    }
    return json;
}

static json_t *job_json(const wu_unit *unit)
{
    json_t *items = json_array();
    for (size_t i = 0; items != NULL && i < unit->n; i++) {
        if (json_array_append_new(items, item_json(&unit->items[i])) != 0) {
            json_decref(items);
            items = NULL;
        }
    }
    return json_pack("{s:s, s:i, s:s, s:O, s:o}", "format", WU_FORMAT_NAME, "version",
                     WU_FORMAT_VERSION, "analysis", unit->analysis, "parameters", unit->parameters,
                     "items", items);
}

/* The fewest digits that give every number of the job back exactly: 0.29 is
 * to be read as 0.29. */
static size_t real_precision(const wu_unit *unit)
{
    json_t *numbers = json_pack("[O]", unit->parameters);
    size_t precision = 6;
    for (size_t i = 0; i < unit->n; i++)
        json_array_append_new(numbers, spacing_json(&unit->items[i]));
    for (bool same = false; !same && precision < 17; precision += !same) {
        char *text = json_dumps(numbers, JSON_REAL_PRECISION(precision));
        json_t *again = text == NULL ? NULL : json_loads(text, 0, NULL);
        same = json_equal(numbers, again);
        json_decref(again);
        free(text);
    }
    json_decref(numbers);
    return precision;
}

/* --- pages --------------------------------------------------------------------------------- */

/* A page on its way to the archive. */
typedef struct encoded {
    wu_page_buffer page;
    wu_picture_info info;
    char name[MAX_MEMBER];
    unsigned char *png;        /* n bytes of it, room for more */
    size_t n, room;
    tc_status status;
    tc_err err;
} encoded;

typedef struct unit_writer {
    const wu_unit *unit;
    wu_zip_writer *zip;
    an_pool *pool;
    encoded *batch;            /* pages are compressed side by side, and written in their order */
    size_t most, n;            /* room for pages; pages that wait */
    uint64_t bytes;            /* of their pixels */
    tc_err *err;
} unit_writer;

static int keep_bytes(void *user, const void *data, size_t n)
{
    encoded *const e = user;
    if (n > e->room - e->n) {
        const size_t room = e->n + n + e->room / 2 + 4096;
        unsigned char *const more = realloc(e->png, room);
        if (more == NULL)
            return -1;
        e->png = more;
        e->room = room;
    }
    memcpy(e->png + e->n, data, n);
    e->n += n;
    return 0;
}

static void encode(void *user, unsigned thread, size_t part)
{
    const unit_writer *const w = user;
    encoded *const e = &w->batch[part];
    const wu_png_info png = { e->info.nx, e->info.ny, e->info.bits, e->info.channels };
    (void)thread;
    e->n = 0;
    e->status = wu_png_write(keep_bytes, e, w->unit->shown, &png, e->page.data, &e->err);
}

static tc_status write_encoded(unit_writer *w, const encoded *e)
{
    tc_status status = e->status == TC_OK ? wu_zip_begin(w->zip, e->name, false, e->n, w->err)
                                          : tc_fail(w->err, e->status == TC_IO ? TC_NO_MEMORY : e->status, "%s", e->err.message);
    if (status == TC_OK)
        status = wu_zip_write(w->zip, e->png, e->n, w->err);
    return status == TC_OK ? wu_zip_end(w->zip, w->err) : status;
}

/* Compresses and writes the pages that wait. */
static tc_status write_batch(unit_writer *w)
{
    tc_status status = TC_OK;
    an_pool_run(w->pool, encode, w, w->n);
    for (size_t i = 0; status == TC_OK && i < w->n; i++)
        status = write_encoded(w, &w->batch[i]);
    w->n = 0;
    w->bytes = 0;
    return status;
}

static tc_status write_page(unit_writer *w, const wu_source *item, bool is_mask, uint32_t z, wu_page_reader *reader)
{
    encoded *const e = &w->batch[w->n];
    const tc_status status = wu_page_next(reader, &e->page, &e->info, w->err);
    if (status != TC_OK)
        return status;
    member_name(e->name, item, is_mask, z);
    w->n++;
    w->bytes += wu_picture_page_bytes(&e->info);
    return w->n == w->most || w->bytes >= BATCH_BYTES ? write_batch(w) : TC_OK;
}

static tc_status write_pages(unit_writer *w, wu_source *item, bool is_mask)
{
    wu_page_reader reader = { .item = item, .is_mask = is_mask };
    tc_status status = TC_OK;
    for (uint32_t z = 0; z < item->pages.info.nz && status == TC_OK; z++)
        status = write_page(w, item, is_mask, z, &reader);
    wu_page_reader_close(&reader);
    return status;
}

/* --- the archive ---------------------------------------------------------------------- */

static tc_status write_job(unit_writer *w)
{
    json_t *json = job_json(w->unit);
    char *text = json == NULL ? NULL
        : wu_json_text(json, JSON_INDENT(2) | JSON_REAL_PRECISION(real_precision(w->unit)));
    json_decref(json);
    if (text == NULL)
        return tc_no_memory(w->err, "job.json");
    const size_t n = strlen(text);
    tc_status status = TC_OK;
    if (n >= WU_MAX_JSON)
        status = tc_fail(w->err, TC_BAD_INPUT, "%s: job.json would have %zu bytes, %llu are the "
                         "limit; use --split", w->unit->shown, n + 1, (unsigned long long)WU_MAX_JSON);
    if (status == TC_OK)
        status = wu_zip_begin(w->zip, "job.json", true, n + 1, w->err);
    if (status == TC_OK)
        status = wu_zip_write(w->zip, text, n, w->err);
    if (status == TC_OK)
        status = wu_zip_write(w->zip, "\n", 1, w->err);
    free(text);
    return status == TC_OK ? wu_zip_end(w->zip, w->err) : status;
}

static tc_status write_members(unit_writer *w)
{
    tc_status status = write_job(w);
    for (size_t i = 0; i < w->unit->n && status == TC_OK; i++) {
        wu_source *const item = &w->unit->items[i];
        status = write_pages(w, item, false);
        if (status == TC_OK && item->mask.n_files > 0)
            status = write_pages(w, item, true);
        if (status == TC_OK)
            status = w->unit->check(w->unit->user, item, w->err);
    }
    return status == TC_OK ? write_batch(w) : status;
}

static tc_status make_batch(unit_writer *w)
{
    const unsigned processors = os_processors(), threads = processors < MAX_THREADS ? processors : MAX_THREADS;
    w->most = threads;
    w->batch = calloc(w->most, sizeof *w->batch);
    return w->batch == NULL ? tc_no_memory(w->err, "the pages of a work unit") : an_pool_create(threads, &w->pool, w->err);
}

static void free_batch(unit_writer *w)
{
    for (size_t i = 0; w->batch != NULL && i < w->most; i++) {
        free(w->batch[i].page.data);
        free(w->batch[i].png);
    }
    free(w->batch);
    an_pool_destroy(&w->pool);
}

tc_status wu_unit_write(const char *path, const wu_unit *unit, tc_err *err)
{
    unit_writer w = { .unit = unit, .err = err };
    const int fd = os_open(path, OS_NEW);
    if (fd < 0)
        return tc_fail(err, TC_IO, "%s: cannot be written: %s", unit->shown, strerror(errno));
    tc_status status = wu_zip_create(fd, unit->shown, DEFLATE_LEVEL, &w.zip, err);
    if (status == TC_OK)
        status = make_batch(&w);
    if (status == TC_OK)
        status = write_members(&w);
    if (status == TC_OK)
        status = wu_zip_finish(w.zip, err);
    wu_zip_free(&w.zip);
    close(fd);
    free_batch(&w);
    return status;
}
