#include "workunits/tools/unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/base/os.h"
#include "workunits/format/archive.h"
#include "workunits/format/job.h"
#include "workunits/format/png_io.h"
#include "workunits/format/zip_writer.h"
#include "workunits/tools/labels.h"
#include "workunits/tools/tools.h"

enum { MAX_MEMBER = 256,       /* bytes of a member's name; an item's has up to 128 */
       DEFLATE_LEVEL = 9 };

/* The members of an item; the page's number has four digits or, in a stack of
 * more than 10,000 slices, five, so that any order of names is that of z. */
static void member_name(char out[MAX_MEMBER], const wu_source *item, wu_kind kind, uint32_t page)
{
    static const char *const folders[][2] = { { "images", "stacks" }, { "masks", "stack_masks" },
                                              { "labels", "stack_labels" } };
    if (item->is_stack)
        snprintf(out, MAX_MEMBER, "%s/%s/%0*u.png", folders[kind][1], item->name,
                 item->pages.info.nz > 10000 ? 5 : 4, page);
    else
        snprintf(out, MAX_MEMBER, "%s/%s.png", folders[kind][0], item->name);
}

/* --- job.json ------------------------------------------------------------------------ */

/* A member's name, or for a stack the list of all of them. NULL: no memory. */
static json_t *members_json(const wu_source *item, wu_kind kind)
{
    char name[MAX_MEMBER];
    if (!item->is_stack) {
        member_name(name, item, kind, 0);
        return json_string(name);
    }
    json_t *list = json_array();
    for (uint32_t z = 0; list != NULL && z < item->pages.info.nz; z++) {
        member_name(name, item, kind, z);
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
                             members_json(item, WU_KIND_IMAGE));
    int bad = json == NULL || json_object_set_new(json, "source", json_string(item->source));
    if (!bad && item->um[2] > 0)
        bad = json_object_set_new(json, "spacing", spacing_json(item));
    if (!bad && item->mask.n_files > 0)
        bad = json_object_set_new(json, "mask", members_json(item, WU_KIND_MASK));
    if (!bad && item->labels.n_files > 0)
        bad = json_object_set_new(json, "labels", members_json(item, WU_KIND_LABELS)) ||
              json_object_set_new(json, "objects", json_integer(item->n_objects));
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

/* --- the archive ---------------------------------------------------------------------- */

typedef struct unit_writer {
    const wu_unit *unit;
    wu_zip_writer *zip;
    wu_page_buffer page;
    tc_err *err;
    tc_status status;        /* of the last write for libpng */
} unit_writer;

static int write_bytes(void *user, const void *data, size_t n)
{
    unit_writer *w = user;
    w->status = wu_zip_write(w->zip, data, n, w->err);
    return w->status == TC_OK ? 0 : -1;
}

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

static tc_status write_png(unit_writer *w, const wu_source *item, wu_kind kind, uint32_t z, const wu_png_info *info,
                           const void *pixels)
{
    char name[MAX_MEMBER];
    tc_err png_err = { "" };
    member_name(name, item, kind, z);
    w->status = TC_OK;
    tc_status status = wu_zip_begin(w->zip, name, false, (uint64_t)info->width * info->height * info->channels *
                                    (info->bits / 8), w->err);
    if (status == TC_OK)
        status = wu_png_write(write_bytes, w, w->unit->shown, info, pixels, &png_err);
    if (status != TC_OK)
        return w->status != TC_OK ? w->status : tc_fail(w->err, status, "%s", png_err.message);
    return wu_zip_end(w->zip, w->err);
}

static tc_status write_pages(unit_writer *w, wu_source *item, wu_kind kind)
{
    wu_page_reader reader = { .item = item, .kind = kind };
    tc_status status = TC_OK;
    for (uint32_t z = 0; z < item->pages.info.nz && status == TC_OK; z++) {
        wu_picture_info info;
        status = wu_page_next(&reader, &w->page, &info, w->err);
        if (status != TC_OK)
            break;
        const wu_png_info png = { info.nx, info.ny, info.bits, info.channels };
        status = write_png(w, item, kind, z, &png, w->page.data);
    }
    wu_page_reader_close(&reader);
    return status;
}

/* n labels of as few bytes as the item's largest wants, in place: 1, 2 or (RGB) 3. */
static wu_png_info narrow_labels(const wu_source *item, uint32_t *labels, size_t n)
{
    const unsigned size = item->largest_label > 65535 ? 3 : item->largest_label > 255 ? 2 : 1;
    uint8_t *const bytes = (uint8_t *)labels;
    for (size_t i = 0; i < n; i++) {
        const uint32_t label = labels[i];
        const uint16_t deep = (uint16_t)label;
        if (size == 2)
            memcpy(bytes + 2 * i, &deep, sizeof deep);
        for (unsigned k = 0; k < size && size != 2; k++)
            bytes[size * i + k] = (uint8_t)(label >> 8 * k);
    }
    return (wu_png_info){ item->pages.info.nx, item->pages.info.ny, size == 2 ? 16 : 8, size == 3 ? 3 : 1 };
}

static tc_status write_labels(unit_writer *w, wu_source *item)
{
    const size_t n = (size_t)item->pages.info.nx * item->pages.info.ny;
    uint32_t *const labels = malloc(n * sizeof *labels);
    wu_label_reader reader = { .item = item };
    tc_status status = labels == NULL ? tc_no_memory(w->err, "the labels of an item") : TC_OK;
    for (uint32_t z = 0; z < item->pages.info.nz && status == TC_OK; z++) {
        status = wu_labels_next(&reader, labels, w->err);
        if (status != TC_OK)
            break;
        const wu_png_info png = narrow_labels(item, labels, n);
        status = write_png(w, item, WU_KIND_LABELS, z, &png, labels);
    }
    wu_labels_close(&reader);
    free(labels);
    return status;
}

static tc_status write_members(unit_writer *w)
{
    tc_status status = write_job(w);
    for (size_t i = 0; i < w->unit->n && status == TC_OK; i++) {
        wu_source *const item = &w->unit->items[i];
        status = write_pages(w, item, WU_KIND_IMAGE);
        if (status == TC_OK && item->mask.n_files > 0)
            status = write_pages(w, item, WU_KIND_MASK);
        if (status == TC_OK && item->labels.n_files > 0)
            status = write_labels(w, item);
        if (status == TC_OK)
            status = w->unit->check(w->unit->user, item, w->err);
    }
    return status;
}

tc_status wu_unit_write(const char *path, const wu_unit *unit, tc_err *err)
{
    unit_writer w = { .unit = unit, .err = err };
    const int fd = os_open(path, OS_NEW);
    if (fd < 0)
        return tc_fail(err, TC_IO, "%s: cannot be written: %s", unit->shown, strerror(errno));
    tc_status status = wu_zip_create(fd, unit->shown, DEFLATE_LEVEL, &w.zip, err);
    if (status == TC_OK)
        status = write_members(&w);
    if (status == TC_OK)
        status = wu_zip_finish(w.zip, err);
    wu_zip_free(&w.zip);
    close(fd);
    free(w.page.data);
    return status;
}
