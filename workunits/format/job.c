#include "workunits/format/job.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/base/os.h"
#include "workunits/format/archive.h"
#include "workunits/format/png_io.h"

#define JOB_JSON "job.json"

/* What is known while job.json is being gone through. */
typedef struct job_reader {
    wu_job *job;
    wu_unzip *zip;
    wu_png_info *heads;      /* per member: its PNG header, width 0 = not read yet */
    bool *used;              /* per member: something in job.json names it */
    json_int_t version;
    size_t sources;          /* bytes of those that were read */
    tc_err *err;
} job_reader;

bool wu_name_ok(const char *name)
{
    const size_t n = strlen(name);
    if (n == 0 || n > WU_MAX_NAME || name[0] == '.')
        return false;
    for (size_t i = 0; i < n; i++) {
        const char c = name[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '.' || c == '_' || c == '-'))
            return false;
    }
    return true;
}

bool wu_source_ok(const char *source)
{
    const size_t n = strlen(source);
    if (n == 0 || n > WU_MAX_SOURCE)
        return false;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)source[i] < 0x20 || source[i] == 0x7f)
            return false;
    return true;
}

/* --- small checks on JSON ----------------------------------------------------------- */

/* The place of a fault: "items[3].stack[7]"; without a key, the item. */
typedef struct job_place {
    char text[64];
} job_place;

static job_place place_of(size_t item, const char *key)
{
    job_place p;
    snprintf(p.text, sizeof p.text, "items[%zu]%s%s", item, key != NULL ? "." : "", key != NULL ? key : "");
    return p;
}

static job_place place_in(size_t item, const char *key, size_t element)
{
    job_place p;
    snprintf(p.text, sizeof p.text, "items[%zu].%s[%zu]", item, key, element);
    return p;
}

TC_FORMAT(3, 4)
static tc_status job_fail(const job_reader *r, const char *place, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return tc_fail(r->err, TC_BAD_INPUT, "%s: " JOB_JSON ": %s: %s", r->job->path, place, text);
}

static const char *type_name(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "a list";
    case JSON_STRING: return "a string";
    case JSON_INTEGER: return "an integer";
    case JSON_REAL: return "a number";
    case JSON_TRUE:
    case JSON_FALSE: return "true or false";
    default: return "null";
    }
}

/* Refuses keys that are not in `known` (ended by NULL). place may be "". */
static tc_status check_keys(const job_reader *r, json_t *object, const char *place,
                            const char *const *known)
{
    for (void *it = json_object_iter(object); it != NULL; it = json_object_iter_next(object, it)) {
        const char *key = json_object_iter_key(it);
        const char *const *k = known;
        while (*k != NULL && strcmp(*k, key) != 0)
            k++;
        if (*k == NULL)
            return tc_fail(r->err, TC_BAD_INPUT, "%s: " JOB_JSON ": %s%sunknown key \"%s\"", r->job->path,
                           place, place[0] != '\0' ? ": " : "", wu_quote(key).text);
    }
    return TC_OK;
}

/* The string at key; NULL and TC_OK if the key is absent and not needed. */
static tc_status get_string(const job_reader *r, const json_t *object, const char *key,
                            const char *place, bool needed, const char **out)
{
    const json_t *value = json_object_get(object, key);
    *out = NULL;
    if (value == NULL)
        return needed ? job_fail(r, place, "missing") : TC_OK;
    if (!json_is_string(value))
        return job_fail(r, place, "must be a string, not %s", type_name(value));
    *out = json_string_value(value);
    if (**out == '\0')
        return job_fail(r, place, "must not be empty");
    return TC_OK;
}

static tc_status copy_string(const job_reader *r, const char *text, char **out)
{
    *out = strdup(text);
    return *out != NULL ? TC_OK : tc_no_memory(r->err, "a work unit");
}

/* --- pictures -------------------------------------------------------------------------- */

/* Where a PNG comes from. Why it cannot be read is kept for the one who asked. */
typedef struct png_source {
    wu_unzip *zip;
    tc_status status;
    tc_err err;
} png_source;

static long read_from_zip(void *user, void *buf, size_t n)
{
    png_source *const s = user;
    size_t got = 0;
    s->status = wu_unzip_read(s->zip, buf, n, &got, &s->err);
    return s->status == TC_OK ? (long)got : -1;
}

/* After libpng was done with a member, having said `png`: reads it to its end. A member
 * that is corrupt, or cannot be read, is reported as such rather than as a bad PNG. */
static tc_status end_png(const png_source *s, size_t member, tc_status png, const tc_err *png_err, tc_err *err)
{
    if (s->status != TC_OK)
        return tc_fail(err, s->status, "%s", s->err.message);
    if (png == TC_BAD_INPUT)
        wu_unzip_begin(s->zip, member);
    const tc_status st = png == TC_OK || png == TC_BAD_INPUT ? wu_unzip_drain(s->zip, err) : TC_OK;
    return st == TC_OK && png != TC_OK ? tc_fail(err, png, "%s", png_err->message) : st;
}

/* Unpacks a member to its end, reading the PNG header on the way. */
static tc_status read_head(const wu_archive *a, wu_unzip *zip, size_t member, wu_png_info *head, tc_err *err)
{
    const wu_member *m = &a->members[member];
    png_source s = { .zip = zip };
    char what[TC_ERR_MAX];
    tc_err png_err = { "" };
    snprintf(what, sizeof what, "%s: %s", a->path, m->name);
    wu_unzip_begin(zip, member);
    return end_png(&s, member, wu_png_read_info(read_from_zip, &s, m->size, what, head, &png_err), &png_err, err);
}

/* Finds the member that a string names and reads its header once. *member_name
 * becomes the archive's own copy of the name. */
static tc_status find_picture(job_reader *r, const json_t *value, const char *place,
                              char **member_name, wu_png_info *head)
{
    if (!json_is_string(value))
        return job_fail(r, place, "must be a string, not %s", type_name(value));
    const char *name = json_string_value(value);
    const long member = wu_archive_find(r->job->archive, name);
    if (member < 0)
        return job_fail(r, place, "no member \"%s\" in the archive", wu_quote(name).text);
    if (strcmp(name, JOB_JSON) == 0)
        return job_fail(r, place, "\"%s\" is not a picture", name);
    if (r->heads[member].width == 0) {
        const tc_status st = read_head(r->job->archive, r->zip, (size_t)member, &r->heads[member], r->err);
        if (st != TC_OK)
            return st;
    }
    r->used[member] = true;
    *member_name = r->job->archive->members[member].name;
    *head = r->heads[member];
    return TC_OK;
}

/* --- items ------------------------------------------------------------------------------ */

static tc_status check_size(const job_reader *r, const wu_item *item, const char *place)
{
    if (item->nx > WU_MAX_SIDE || item->ny > WU_MAX_SIDE)
        return job_fail(r, place, "%u x %u pixels; a side may have at most %u", (unsigned)item->nx,
                        (unsigned)item->ny, WU_MAX_SIDE);
    if ((uint64_t)item->nx * item->ny * item->nz > WU_MAX_VOXELS)
        return job_fail(r, place, "%u x %u x %u pixels, more than the limit of %llu", (unsigned)item->nx,
                        (unsigned)item->ny, (unsigned)item->nz, (unsigned long long)WU_MAX_VOXELS);
    return TC_OK;
}

static tc_status read_image(job_reader *r, wu_item *item, const json_t *value, size_t index)
{
    const job_place place = place_of(index, "image");
    wu_png_info head;
    item->images = calloc(1, sizeof *item->images);
    if (item->images == NULL)
        return tc_no_memory(r->err, "a work unit");
    tc_status st = find_picture(r, value, place.text, &item->images[0], &head);
    if (st != TC_OK)
        return st;
    item->n_images = 1;
    item->nx = head.width;
    item->ny = head.height;
    item->nz = 1;
    item->bits = head.bits;
    item->channels = head.channels;
    return check_size(r, item, place.text);
}

static tc_status check_slice(const job_reader *r, const wu_item *item, const wu_png_info *head,
                             const char *place)
{
    if (head->channels != 1)
        return job_fail(r, place, "the slices of a stack must be grey, this one is RGB");
    if (head->width != item->nx || head->height != item->ny)
        return job_fail(r, place, "%u x %u pixels, but the first slice has %u x %u",
                        (unsigned)head->width, (unsigned)head->height, (unsigned)item->nx,
                        (unsigned)item->ny);
    if (head->bits != item->bits)
        return job_fail(r, place, "%u bits, but the first slice has %u", head->bits, item->bits);
    return TC_OK;
}

static tc_status read_stack(job_reader *r, wu_item *item, const json_t *list, size_t index)
{
    const job_place place = place_of(index, "stack");
    if (!json_is_array(list))
        return job_fail(r, place.text, "must be a list of member names, not %s", type_name(list));
    const size_t n = json_array_size(list);
    if (n == 0 || n > WU_MAX_SIDE)
        return job_fail(r, place.text, "must have 1 to %u slices, not %zu", WU_MAX_SIDE, n);
    item->is_stack = true;
    item->images = calloc(n, sizeof *item->images);
    if (item->images == NULL)
        return tc_no_memory(r->err, "a work unit");
    item->nz = (uint32_t)n;
    for (size_t z = 0; z < n; z++) {
        const job_place slice = place_in(index, "stack", z);
        wu_png_info head;
        tc_status st = find_picture(r, json_array_get(list, z), slice.text, &item->images[z], &head);
        if (st != TC_OK)
            return st;
        item->n_images++;
        if (z == 0) {
            item->nx = head.width;
            item->ny = head.height;
            item->bits = head.bits;
            item->channels = 1;
        }
        st = check_slice(r, item, &head, slice.text);
        if (st != TC_OK)
            return st;
    }
    return check_size(r, item, place.text);
}

/* Pictures that go with those of an item, pixel by pixel: its mask, or its labels. */
typedef struct beside {
    const char *key, *one, *many;   /* "mask", "a mask", "masks" */
    bool colour;                    /* RGB is taken as well */
} beside;

static const beside mask_pictures = { "mask", "a mask", "masks", false },
                    label_pictures = { "labels", "a label picture", "label pictures", true };

static tc_status check_beside(const job_reader *r, const wu_item *item, const beside *what, const wu_png_info *head,
                              const char *place)
{
    if (head->channels != 1 && !what->colour)
        return job_fail(r, place, "%s must be grey, this one is RGB", what->one);
    if (head->width != item->nx || head->height != item->ny)
        return job_fail(r, place, "the %s %u x %u pixels, its image %u x %u",
                        what->colour ? "label picture has" : "mask has", (unsigned)head->width,
                        (unsigned)head->height, (unsigned)item->nx, (unsigned)item->ny);
    return TC_OK;
}

/* *members: the list is the item's, even on failure; *n counts what is in it. */
static tc_status read_beside(job_reader *r, const wu_item *item, const beside *what, const json_t *value, size_t index,
                             char ***members, size_t *n)
{
    const job_place place = place_of(index, what->key);
    if (!item->is_stack && !json_is_string(value))
        return job_fail(r, place.text, "the %s of an image must be a string, not %s", what->key, type_name(value));
    if (item->is_stack && !json_is_array(value))
        return job_fail(r, place.text, "the %s of a stack must be a list, not %s", what->key, type_name(value));
    if (item->is_stack && json_array_size(value) != item->n_images)
        return job_fail(r, place.text, "%zu %s for a stack of %zu slices", json_array_size(value), what->many,
                        item->n_images);
    *members = calloc(item->n_images, sizeof **members);
    if (*members == NULL)
        return tc_no_memory(r->err, "a work unit");
    for (size_t z = 0; z < item->n_images; z++) {
        const job_place slice = item->is_stack ? place_in(index, what->key, z) : place;
        wu_png_info head;
        tc_status st = find_picture(r, item->is_stack ? json_array_get(value, z) : value, slice.text,
                                    &(*members)[z], &head);
        if (st == TC_OK)
            st = check_beside(r, item, what, &head, slice.text);
        if (st != TC_OK)
            return st;
        ++*n;
    }
    return TC_OK;
}

static tc_status read_labels(job_reader *r, wu_item *item, const json_t *json, size_t index)
{
    const json_t *labels = json_object_get(json, "labels"), *objects = json_object_get(json, "objects");
    const job_place place = place_of(index, "objects");
    const json_int_t n = json_integer_value(objects);
    if ((labels == NULL) != (objects == NULL))
        return job_fail(r, place.text, labels == NULL ? "only labels have objects" :
                        "missing: how many different labels there are beside 0");
    if (labels == NULL)
        return TC_OK;
    if (!json_is_integer(objects) || n < 0 || n > (json_int_t)WU_MAX_LABEL)
        return job_fail(r, place.text, "must be an integer from 0 to %u", WU_MAX_LABEL);
    item->n_objects = (uint32_t)n;
    return read_beside(r, item, &label_pictures, labels, index, &item->labels, &item->n_labels);
}

static tc_status read_spacing(const job_reader *r, wu_item *item, const json_t *list, size_t index)
{
    const job_place place = place_of(index, "spacing");
    double *const to = item->is_stack ? item->spacing : item->pixel;
    const size_t n = item->is_stack ? 3 : 2;
    item->spacing[0] = item->spacing[1] = item->spacing[2] = 1;
    if (list == NULL)
        return TC_OK;
    if (!item->is_stack && r->version == 1)
        return job_fail(r, place.text, "only a stack has a spacing");
    bool good = json_is_array(list) && json_array_size(list) == n;
    for (size_t i = 0; good && i < n; i++) {
        const json_t *number = json_array_get(list, i);
        to[i] = json_number_value(number);
        good = json_is_number(number) && isfinite(to[i]) && to[i] > 0;
    }
    item->has_spacing = good && item->is_stack;
    item->has_pixel = good && !item->is_stack;
    return good ? TC_OK : job_fail(r, place.text, "must be %s positive numbers %s in micrometres",
                                   item->is_stack ? "three" : "two", item->is_stack ? "[z, y, x]" : "[y, x]");
}

static tc_status read_source(job_reader *r, wu_item *item, const json_t *json, size_t index)
{
    const job_place place = place_of(index, "source");
    const char *source = NULL;
    const tc_status st = get_string(r, json, "source", place.text, false, &source);
    if (st != TC_OK || source == NULL)
        return st;
    if (!wu_source_ok(source))
        return job_fail(r, place.text, "must have 1 to %u bytes, none of them a control character", WU_MAX_SOURCE);
    r->sources += strlen(source);
    if (r->sources > WU_MAX_SOURCES)
        return job_fail(r, place.text, "the sources of all items have more than %zu bytes", WU_MAX_SOURCES);
    return copy_string(r, source, &item->source);
}

static tc_status read_item(job_reader *r, wu_item *item, json_t *json, size_t index)
{
    static const char *const keys[] = { "name", "image", "stack", "spacing", "mask", "labels", "objects", "source", NULL };
    static const char *const keys_1[] = { "name", "image", "stack", "spacing", "mask", NULL };
    const job_place place = place_of(index, NULL), name_place = place_of(index, "name");
    const char *name = NULL;
    if (!json_is_object(json))
        return job_fail(r, place.text, "must be an object, not %s", type_name(json));
    tc_status st = check_keys(r, json, place.text, r->version == 1 ? keys_1 : keys);
    if (st == TC_OK)
        st = get_string(r, json, "name", name_place.text, true, &name);
    if (st != TC_OK)
        return st;
    if (!wu_name_ok(name))
        return job_fail(r, name_place.text,
                        "\"%s\" is not a name: 1 to %u letters, digits, '.', '_', '-', not beginning with '.'",
                        wu_quote(name).text, WU_MAX_NAME);
    st = copy_string(r, name, &item->name);
    if (st == TC_OK)
        st = read_source(r, item, json, index);
    if (st != TC_OK)
        return st;
    const json_t *image = json_object_get(json, "image"), *stack = json_object_get(json, "stack");
    const json_t *mask = json_object_get(json, "mask");
    if ((image == NULL) == (stack == NULL))
        return job_fail(r, place.text, "must have either \"image\" or \"stack\", not %s",
                        image == NULL ? "neither" : "both");
    st = image != NULL ? read_image(r, item, image, index) : read_stack(r, item, stack, index);
    if (st == TC_OK)
        st = read_spacing(r, item, json_object_get(json, "spacing"), index);
    if (st == TC_OK && mask != NULL)
        st = read_beside(r, item, &mask_pictures, mask, index, &item->masks, &item->n_masks);
    return st == TC_OK ? read_labels(r, item, json, index) : st;
}

static int compare_strings(const void *a, const void *b)
{
    const char *const *sa = a, *const *sb = b;
    return strcmp(*sa, *sb);
}

/* Names of items are keys of the result: no two may be equal. */
static tc_status check_item_names(const job_reader *r)
{
    const wu_job *job = r->job;
    tc_status st = TC_OK;
    const char **sorted = malloc((job->n_items + 1) * sizeof *sorted);
    if (sorted == NULL)
        return tc_no_memory(r->err, "a work unit");
    for (size_t i = 0; i < job->n_items; i++)
        sorted[i] = job->items[i].name;
    qsort(sorted, job->n_items, sizeof *sorted, compare_strings);
    for (size_t i = 1; i < job->n_items && st == TC_OK; i++) {
        if (strcmp(sorted[i - 1], sorted[i]) == 0)
            st = job_fail(r, "items", "two items are named \"%s\"", sorted[i]);
    }
    free(sorted);
    return st;
}

static tc_status read_items(job_reader *r, const json_t *items)
{
    wu_job *job = r->job;
    if (items == NULL)
        return job_fail(r, "items", "missing");
    if (!json_is_array(items))
        return job_fail(r, "items", "must be a list, not %s", type_name(items));
    const size_t n = json_array_size(items);
    if (n == 0 || n > WU_MAX_ITEMS)
        return job_fail(r, "items", "must have 1 to %u items, not %zu", WU_MAX_ITEMS, n);
    job->items = calloc(n, sizeof *job->items);
    if (job->items == NULL)
        return tc_no_memory(r->err, "a work unit");
    job->n_items = n;
    for (size_t i = 0; i < n; i++) {
        const tc_status st = read_item(r, &job->items[i], json_array_get(items, i), i);
        if (st != TC_OK)
            return st;
    }
    return check_item_names(r);
}

/* --- the whole work unit ------------------------------------------------------------------ */

/* "format" and "version" come first: a later version may have other keys. */
static tc_status check_format(job_reader *r, const json_t *json)
{
    const char *format = NULL;
    const json_t *version = json_object_get(json, "version");
    const tc_status st = get_string(r, json, "format", "format", true, &format);
    if (st != TC_OK)
        return st;
    if (strcmp(format, WU_FORMAT_NAME) != 0)
        return job_fail(r, "format", "must be \"" WU_FORMAT_NAME "\", not \"%s\"", wu_quote(format).text);
    if (version == NULL)
        return job_fail(r, "version", "missing");
    if (!json_is_integer(version))
        return job_fail(r, "version", "must be an integer, not %s", type_name(version));
    r->version = json_integer_value(version);
    if (r->version < 1 || r->version > WU_FORMAT_VERSION)
        return job_fail(r, "version", "this program reads versions 1 to %d, not %lld", WU_FORMAT_VERSION,
                        (long long)r->version);
    return TC_OK;
}

static tc_status read_job_json(job_reader *r, json_t *json)
{
    static const char *const keys[] = { "format", "version", "analysis", "parameters", "items", NULL };
    wu_job *job = r->job;
    const char *analysis = NULL;
    json_t *parameters = json_object_get(json, "parameters");
    tc_status st = check_format(r, json);
    if (st == TC_OK)
        st = check_keys(r, json, "", keys);
    if (st == TC_OK)
        st = get_string(r, json, "analysis", "analysis", true, &analysis);
    if (st == TC_OK)
        st = copy_string(r, analysis, &job->analysis);
    if (st != TC_OK)
        return st;
    if (parameters != NULL && !json_is_object(parameters))
        return job_fail(r, "parameters", "must be an object, not %s", type_name(parameters));
    job->parameters = parameters != NULL ? json_incref(parameters) : json_object();
    if (job->parameters == NULL)
        return tc_no_memory(r->err, "a work unit");
    return read_items(r, json_object_get(json, "items"));
}

static tc_status check_all_used(const job_reader *r)
{
    const wu_archive *a = r->job->archive;
    for (size_t i = 0; i < a->n; i++) {
        if (!r->used[i] && !a->members[i].is_folder)
            return tc_fail(r->err, TC_BAD_INPUT, "%s: member \"%s\" is not named in " JOB_JSON, a->path,
                           a->members[i].name);
    }
    return TC_OK;
}

static tc_status read_members(job_reader *r)
{
    const wu_archive *a = r->job->archive;
    json_t *json = NULL;
    const long member = wu_archive_find(a, JOB_JSON);
    if (member < 0 && wu_archive_find(a, "result.json") >= 0)
        return tc_fail(r->err, TC_BAD_INPUT, "%s: is a result, not a work unit", a->path);
    if (member < 0)
        return tc_fail(r->err, TC_BAD_INPUT, "%s: no member \"" JOB_JSON "\" in the archive", a->path);
    r->heads = calloc(a->n, sizeof *r->heads);
    r->used = calloc(a->n, sizeof *r->used);
    if (r->heads == NULL || r->used == NULL)
        return tc_no_memory(r->err, "a work unit");
    r->used[member] = true;
    tc_status st = wu_unzip_open(a, &r->zip, r->err);
    if (st == TC_OK)
        st = wu_unzip_json(r->zip, (size_t)member, WU_MAX_JSON, WU_MAX_JSON_VALUES, &json, r->err);
    if (st == TC_OK)
        st = read_job_json(r, json);
    if (st == TC_OK)
        st = check_all_used(r);
    json_decref(json);
    return st;
}

tc_status wu_job_read(const char *path, wu_job **out, tc_err *err)
{
    return wu_job_read_polled(path, NULL, out, err);
}

tc_status wu_job_read_polled(const char *path, const tc_poll *poll, wu_job **out, tc_err *err)
{
    *out = NULL;
    job_reader r = { .job = calloc(1, sizeof *r.job), .err = err };
    if (r.job == NULL)
        return tc_no_memory(err, "a work unit");
    tc_status st = wu_archive_read(path, WU_MAX_MEMBERS, poll, &r.job->archive, err);
    if (st != TC_OK)
        goto cleanup;
    r.job->path = strdup(path);
    if (r.job->path == NULL) {
        st = tc_no_memory(err, "a work unit");
        goto cleanup;
    }
    st = read_members(&r);
    if (st == TC_OK)
        st = wu_archive_crc(r.job->archive, &r.job->file_crc, &r.job->file_size, err);
cleanup:
    wu_unzip_close(&r.zip);
    free(r.heads);
    free(r.used);
    if (st == TC_OK)
        *out = r.job;
    else
        wu_job_destroy(&r.job);
    return st;
}

void wu_job_destroy(wu_job **job)
{
    wu_job *j = *job;
    if (j == NULL)
        return;
    for (size_t i = 0; i < j->n_items; i++) {
        free(j->items[i].name);
        free(j->items[i].source);
        free(j->items[i].images);
        free(j->items[i].masks);
        free(j->items[i].labels);
    }
    free(j->items);
    free(j->path);
    free(j->analysis);
    json_decref(j->parameters);
    wu_archive_destroy(&j->archive);
    free(j);
    *job = NULL;
}

/* --- the pixels of an item ------------------------------------------------------------------ */

typedef struct item_loader {
    const wu_job *job;
    const wu_item *item;
    wu_unzip *zip;
    tc_err *err;
} item_loader;

/* Decodes one member into `samples`. */
static tc_status decode(const item_loader *l, const char *member, const wu_png_info *expected, void *samples)
{
    const wu_archive *a = l->job->archive;
    const long index = wu_archive_find(a, member);
    char what[TC_ERR_MAX];
    png_source s = { .zip = l->zip };
    tc_err png_err = { "" };
    if (index < 0)
        return tc_fail(l->err, TC_INTERNAL, "%s: no member \"%s\"", a->path, member);
    snprintf(what, sizeof what, "%s: %s", a->path, member);
    wu_unzip_begin(l->zip, (size_t)index);
    const tc_status png = wu_png_read(read_from_zip, &s, a->members[index].size, what, expected, samples, &png_err);
    return end_png(&s, (size_t)index, png, &png_err, l->err);
}

/* RGB to grey in place: sample i is written where samples 3i.. were read. */
static tc_status rgb_to_grey(uint8_t *p, size_t n, const tc_poll *poll, tc_err *err)
{
    tc_status st = TC_OK;
    for (size_t i = 0; st == TC_OK && i < n;) {
        const size_t end = tc_block_end(i, n);
        for (; i < end; i++)
            p[i] = (uint8_t)(((unsigned)p[3 * i] + p[3 * i + 1] + p[3 * i + 2]) / 3);
        st = tc_ask(poll, err);
    }
    return st;
}

/* The sizes were held against WU_MAX_SIDE and WU_MAX_VOXELS on reading, so the
 * products below fit. */
static tc_status load_images(const item_loader *l, wu_pixels *out)
{
    const wu_item *item = l->item;
    const wu_png_info head = { item->nx, item->ny, item->bits, item->channels };
    const size_t slice = (size_t)item->nx * item->ny, sample = item->bits / 8;
    uint8_t *data = os_zeroed(slice * item->nz * sample * item->channels);
    tc_status st = TC_OK;
    if (data == NULL)
        return tc_no_memory(l->err, "the pixels of an item");
    for (size_t z = 0; st == TC_OK && z < item->n_images; z++)
        st = decode(l, item->images[z], &head, data + z * slice * sample);
    if (st == TC_OK && item->channels == 3)
        st = rgb_to_grey(data, slice, l->job->archive->poll, l->err);
    if (st != TC_OK) {
        free(data);
        return st;
    }
    if (item->channels == 3) {
        uint8_t *less = realloc(data, slice);
        data = less != NULL ? less : data;
    }
    if (item->bits == 8)
        out->u8 = data;
    else
        out->u16 = (uint16_t *)(void *)data;
    return TC_OK;
}

/* A mask or a label picture may have another depth than its image, so its header is
 * read once more; the samples, 4 bytes a pixel at most, come with it. */
static tc_status decode_beside(const item_loader *l, const beside *what, const char *member, wu_png_info *head,
                               void *samples)
{
    const wu_archive *a = l->job->archive;
    const long index = wu_archive_find(a, member);
    if (index < 0)
        return tc_fail(l->err, TC_INTERNAL, "%s: no member \"%s\"", a->path, member);
    const tc_status st = read_head(a, l->zip, (size_t)index, head, l->err);
    if (st == TC_OK && (head->width != l->item->nx || head->height != l->item->ny ||
                        (head->channels != 1 && !what->colour)))
        return tc_fail(l->err, TC_BAD_INPUT, "%s: %s: the PNG's header has changed", a->path, member);
    return st == TC_OK ? decode(l, member, head, samples) : st;
}

/* Samples to 0 and 1. */
static tc_status threshold_mask(const item_loader *l, const uint16_t *samples, unsigned bits, size_t n, uint8_t *mask)
{
    const uint8_t *bytes = (const uint8_t *)samples;
    tc_status st = TC_OK;
    for (size_t i = 0; st == TC_OK && i < n;) {
        const size_t end = tc_block_end(i, n);
        for (; i < end; i++)
            mask[i] = bits == 8 ? bytes[i] != 0 : samples[i] != 0;
        st = tc_ask(l->job->archive->poll, l->err);
    }
    return st;
}

static tc_status load_masks(const item_loader *l, wu_pixels *out)
{
    const wu_item *item = l->item;
    const size_t slice = (size_t)item->nx * item->ny;
    tc_status st = TC_OK;
    uint16_t *samples = malloc(slice * sizeof *samples);
    out->mask = malloc(slice * item->nz);
    if (samples == NULL || out->mask == NULL)
        st = tc_no_memory(l->err, "the mask of an item");
    for (size_t z = 0; z < item->n_masks && st == TC_OK; z++) {
        wu_png_info head;
        st = decode_beside(l, &mask_pictures, item->masks[z], &head, samples);
        if (st == TC_OK)
            st = threshold_mask(l, samples, head.bits, slice, out->mask + z * slice);
    }
    free(samples);
    return st;
}

/* Labels from to to - 1 from samples of that kind, in place. From the last to the first: no sample lies
 * behind what it becomes. RGB: R + 256 G + 65536 B. */
static void widen_labels(uint32_t *labels, size_t from, size_t to, const wu_png_info *head)
{
    const uint8_t *const bytes = (const uint8_t *)labels;
    const size_t size = (size_t)head->channels * (head->bits / 8);
    for (size_t i = to; i-- > from;) {
        const uint8_t *const at = bytes + size * i;
        uint16_t deep = at[0];
        if (size == 2)
            memcpy(&deep, at, sizeof deep);
        labels[i] = size == 3 ? at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 : deep;
    }
}

/* What is known of an item's labels. */
typedef struct label_count {
    uint64_t *seen;          /* a bit for each */
    uint32_t n, largest, last;
} label_count;

static void count_labels(const uint32_t *labels, size_t n, label_count *c)
{
    for (size_t i = 0; i < n; i++) {
        const uint64_t bit = (uint64_t)1 << labels[i] % 64;
        if (labels[i] == c->last || labels[i] == 0)
            continue;
        c->last = labels[i];
        c->n += (c->seen[c->last / 64] & bit) == 0;
        c->seen[c->last / 64] |= bit;
        c->largest = c->last > c->largest ? c->last : c->largest;
    }
}

static tc_status take_labels(const item_loader *l, uint32_t *labels, size_t n, const wu_png_info *head, label_count *c)
{
    tc_status st = TC_OK;
    for (size_t to = n; st == TC_OK && to > 0;) {
        const size_t from = to > TC_BLOCK ? to - TC_BLOCK : 0;
        widen_labels(labels, from, to, head);
        count_labels(labels + from, to - from, c);
        to = from;
        st = tc_ask(l->job->archive->poll, l->err);
    }
    return st;
}

static tc_status load_labels(const item_loader *l, wu_pixels *out)
{
    const wu_item *item = l->item;
    const size_t slice = (size_t)item->nx * item->ny;
    label_count count = { .seen = calloc(WU_MAX_LABEL / 64 + 1, sizeof *count.seen) };
    tc_status st = TC_OK;
    out->labels = malloc(slice * item->nz * sizeof *out->labels);
    if (out->labels == NULL || count.seen == NULL)
        st = tc_no_memory(l->err, "the labels of an item");
    for (size_t z = 0; z < item->n_labels && st == TC_OK; z++) {
        uint32_t *const plane = out->labels + z * slice;
        wu_png_info head;
        st = decode_beside(l, &label_pictures, item->labels[z], &head, plane);
        if (st == TC_OK)
            st = take_labels(l, plane, slice, &head, &count);
    }
    out->largest_label = count.largest;
    if (st == TC_OK && count.n != item->n_objects)
        st = tc_fail(l->err, TC_BAD_INPUT, "%s: " JOB_JSON ": item \"%s\" has %u different labels, not %u objects",
                     l->job->path, item->name, (unsigned)count.n, (unsigned)item->n_objects);
    free(count.seen);
    return st;
}

tc_status wu_item_load(const wu_job *job, size_t index, wu_pixels *out, tc_err *err)
{
    item_loader l = { .job = job, .err = err };
    memset(out, 0, sizeof *out);
    if (index >= job->n_items)
        return tc_fail(err, TC_INTERNAL, "%s: no item %zu", job->path, index);
    l.item = &job->items[index];
    out->nx = l.item->nx;
    out->ny = l.item->ny;
    out->nz = l.item->nz;
    out->bits = l.item->bits;
    tc_status st = wu_unzip_open(job->archive, &l.zip, err);
    if (st == TC_OK)
        st = load_images(&l, out);
    if (st == TC_OK && l.item->n_masks > 0)
        st = load_masks(&l, out);
    if (st == TC_OK && l.item->n_labels > 0)
        st = load_labels(&l, out);
    wu_unzip_close(&l.zip);
    if (st != TC_OK)
        wu_pixels_free(out);
    return st;
}

tc_status wu_item_image(const wu_job *job, size_t index, uint32_t z, void *samples, tc_err *err)
{
    const wu_item *const item = &job->items[index];
    const wu_png_info head = { item->nx, item->ny, item->bits, item->channels };
    item_loader l = { .job = job, .item = item, .err = err };
    tc_status st = wu_unzip_open(job->archive, &l.zip, err);
    if (st == TC_OK)
        st = decode(&l, item->images[z], &head, samples);
    wu_unzip_close(&l.zip);
    return st;
}

void wu_pixels_free(wu_pixels *pixels)
{
    free(pixels->u8);
    free(pixels->u16);
    free(pixels->mask);
    free(pixels->labels);
    memset(pixels, 0, sizeof *pixels);
}
