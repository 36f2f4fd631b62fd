/* Reads and checks a work unit: a ZIP archive of job.json and pictures (workunits/FORMAT.md). */
#include "workunits/format/job.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "workunits/format/archive.h"
#include "workunits/format/member_png.h"

#define JOB_JSON "job.json"

/* The state of reading a work unit. */
typedef struct job_reader {
    wu_job *job;
    wu_unzip *zip;
    bool *used;          /* [archive->n] whether each member is job.json, or is named in it */
    size_t sources;      /* total length in bytes of the sources of the items read so far */
    uint64_t compressed; /* compressed bytes of the current item's pictures */
    tc_err *err;
} job_reader;

bool wu_is_item_name(const char *name)
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

bool wu_is_text_line(const char *text, size_t most)
{
    const size_t n = strlen(text);
    if (n == 0 || n > most)
        return false;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            return false;
    return true;
}

/* --- small checks on JSON -------------------------------------------------------------------- */

/* The place in job.json of an error, for messages, such as "items[3].stack[7]". */
typedef struct job_place {
    char text[64];
} job_place;

/* The place of a key of an item, or of the item itself if `key` is NULL. */
static job_place item_place(size_t item, const char *key)
{
    job_place p;
    snprintf(p.text, sizeof p.text, "items[%zu]%s%s", item, key != NULL ? "." : "",
             key != NULL ? key : "");
    return p;
}

/* The place of an element of the list that is the value of a key of an item. */
static job_place element_place(size_t item, const char *key, size_t element)
{
    job_place p;
    snprintf(p.text, sizeof p.text, "items[%zu].%s[%zu]", item, key, element);
    return p;
}

/* Fails with TC_BAD_INPUT and the place in job.json. */
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

/* Rejects an object with keys that are not in the list `known`, which ends with NULL. place: the
 * place of the object, or "" for the whole of job.json. */
static tc_status check_keys(const job_reader *r, json_t *object, const char *place,
                            const char *const *known)
{
    for (void *it = json_object_iter(object); it != NULL; it = json_object_iter_next(object, it)) {
        const char *key = json_object_iter_key(it);
        const char *const *k = known;
        while (*k != NULL && strcmp(*k, key) != 0)
            k++;
        if (*k == NULL)
            return tc_fail(r->err, TC_BAD_INPUT, "%s: " JOB_JSON ": %s%sunknown key \"%s\"",
                           r->job->path, place, place[0] != '\0' ? ": " : "", wu_quote(key).text);
    }
    return TC_OK;
}

/* Values of the argument `required` of get_string. */
enum { OPTIONAL = false, REQUIRED = true };

/* Sets *out to the string that is the value of `key`, or to NULL if there is no such key.
 * TC_BAD_INPUT: the string is empty, or there is no such key although it is `required`. */
static tc_status get_string(const job_reader *r, const json_t *object, const char *key,
                            const char *place, bool required, const char **out)
{
    const json_t *value = json_object_get(object, key);
    *out = NULL;
    if (value == NULL)
        return required ? job_fail(r, place, "missing") : TC_OK;
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

/* --- pictures -------------------------------------------------------------------------------- */

/* Finds the member that a JSON string names, and sets *head to the header of its picture, which is
 * read only once. Unless job->only_heads is set, also checks the picture's data. Sets *member_name
 * to the name, owned by the archive. */
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
    wu_png_info *const known = &r->job->heads[member];
    if (known->width == 0) { /* the header was not read before */
        return_if_error((r->job->only_heads ? wu_member_read_header : wu_member_read_and_check)(
            r->zip, (size_t)member, known, r->err));
    }
    r->used[member] = true;
    r->compressed += r->job->archive->members[member].compressed;
    *member_name = r->job->archive->members[member].name;
    *head = *known;
    return TC_OK;
}

/* --- items ----------------------------------------------------------------------------------- */

static tc_status check_size(const job_reader *r, const wu_item *item, const char *place)
{
    if (item->nx > WU_MAX_SIDE || item->ny > WU_MAX_SIDE)
        return job_fail(r, place, "%u x %u pixels; a side may have at most %u", (unsigned)item->nx,
                        (unsigned)item->ny, WU_MAX_SIDE);
    if ((uint64_t)item->nx * item->ny * item->nz > WU_MAX_VOXELS)
        return job_fail(r, place, "%u x %u x %u pixels, more than the limit of %llu",
                        (unsigned)item->nx, (unsigned)item->ny, (unsigned)item->nz,
                        (unsigned long long)WU_MAX_VOXELS);
    return TC_OK;
}

/* Returns the name of member i. value: a list of names, or a string that names the only member. */
static const json_t *member_of(const json_t *value, size_t i)
{
    return json_is_array(value) ? json_array_get(value, i) : value;
}

static job_place place_of_member(size_t item, const char *key, const json_t *value, size_t i)
{
    return json_is_array(value) ? element_place(item, key, i) : item_place(item, key);
}

/* Sets *n to the number of strips (pictures that one below the other make up an image): the length
 * of a list, or 1 for a string, which names the whole picture. what: the beginning of messages. */
static tc_status count_strips(const job_reader *r, const json_t *value, const char *place,
                              const char *what, size_t *n)
{
    const bool is_list = json_is_array(value);
    *n = is_list ? json_array_size(value) : 1;
    if (!is_list && !json_is_string(value))
        return job_fail(r, place, "%smust be a string or a list of strips, not %s", what,
                        type_name(value));
    if (*n == 0 || *n > WU_MAX_SIDE)
        return job_fail(r, place, "must have 1 to %u strips, not %zu", WU_MAX_SIDE, *n);
    return TC_OK;
}

/* Checks that a strip of an image fits the first strip, and adds the strip's height to the item's.
 */
static tc_status add_strip(const job_reader *r, wu_item *item, const wu_png_info *head,
                           const char *place)
{
    if (head->width != item->nx)
        return job_fail(r, place, "%u pixels wide, but the first strip is %u",
                        (unsigned)head->width, (unsigned)item->nx);
    if (head->bits != item->bits || head->channels != item->channels)
        return job_fail(r, place, "has another depth or number of colours than the first strip");
    if (head->height > WU_MAX_SIDE || item->ny + head->height > WU_MAX_SIDE)
        return job_fail(r, place, "%u x %llu pixels; a side may have at most %u",
                        (unsigned)item->nx, (unsigned long long)item->ny + head->height,
                        WU_MAX_SIDE);
    item->ny += head->height;
    return TC_OK;
}

/* Checks that a slice is grey and has the size and depth of the first slice, which are in `item`.
 */
static tc_status check_slice(const job_reader *r, const wu_item *item, const wu_png_info *head,
                             const char *place)
{
    if (head->channels != 1)
        return job_fail(r, place, "the slices of a stack must be grey, but this one is RGB");
    if (head->width != item->nx || head->height != item->ny)
        return job_fail(r, place, "%u x %u pixels, but the first slice has %u x %u",
                        (unsigned)head->width, (unsigned)head->height, (unsigned)item->nx,
                        (unsigned)item->ny);
    if (head->bits != item->bits)
        return job_fail(r, place, "%u bits, but the first slice has %u", head->bits, item->bits);
    return TC_OK;
}

static tc_status count_slices(const job_reader *r, const json_t *list, const char *place, size_t *n)
{
    if (!json_is_array(list))
        return job_fail(r, place, "must be a list of member names, not %s", type_name(list));
    *n = json_array_size(list);
    if (*n == 0 || *n > WU_MAX_SIDE)
        return job_fail(r, place, "must have 1 to %u slices, not %zu", WU_MAX_SIDE, *n);
    return TC_OK;
}

/* Reads the headers of an item's pictures: the strips of an image, or the slices of a stack. */
static tc_status read_pictures(job_reader *r, wu_item *item, const json_t *value, size_t index)
{
    const char *const key = item->is_stack ? "stack" : "image";
    const job_place place = item_place(index, key);
    size_t n = 0;
    tc_status status = item->is_stack ? count_slices(r, value, place.text, &n)
                                      : count_strips(r, value, place.text, "", &n);
    if (status != TC_OK)
        return status;
    item->images = calloc(n, sizeof *item->images);
    if (item->images == NULL)
        return tc_no_memory(r->err, "a work unit");
    item->nz = item->is_stack ? (uint32_t)n : 1;
    for (size_t i = 0; i < n; i++) {
        const job_place one = place_of_member(index, key, value, i);
        wu_png_info head;
        return_if_error(find_picture(r, member_of(value, i), one.text, &item->images[i], &head));
        item->n_images++;
        if (i == 0) {
            item->nx = head.width;
            item->ny = item->is_stack ? head.height : 0;
            item->bits = head.bits;
            item->channels = head.channels;
        }
        status = item->is_stack ? check_slice(r, item, &head, one.text)
                                : add_strip(r, item, &head, one.text);
        if (status != TC_OK)
            return status;
    }
    return check_size(r, item, place.text);
}

/* A kind of picture that must have the same size as the item: masks or label pictures. */
typedef struct aligned {
    const char *key;        /* the key in job.json: "mask" */
    const char *one, *many; /* words for messages: "a mask", "masks" */
    bool colour;            /* the picture may be RGB */
} aligned;

static const aligned mask_pictures = { "mask", "a mask", "masks", false },
                     label_pictures = { "labels", "a label picture", "label pictures", true };

/* Checks a slice or a strip of a mask or label picture. above: the row of the item at which the
 * strip begins; 0 for a slice. last: whether the picture must end at the item's last row. */
static tc_status check_aligned(const job_reader *r, const wu_item *item, const aligned *what,
                               const wu_png_info *head, uint64_t above, bool last,
                               const char *place)
{
    const uint64_t height = above + head->height;
    if (head->channels != 1 && !what->colour)
        return job_fail(r, place, "%s must be grey, but this one is RGB", what->one);
    if (head->width != item->nx || height > item->ny || (last && height != item->ny))
        return job_fail(r, place, "the %s %u x %llu pixels, but its image has %u x %u",
                        what->colour ? "label picture has" : "mask has", (unsigned)head->width,
                        (unsigned long long)height, (unsigned)item->nx, (unsigned)item->ny);
    return TC_OK;
}

/* Sets *n to the number of mask or label pictures. A stack must have one for each slice. An image
 * may have any number of strips, not necessarily those of its picture. */
static tc_status count_aligned(const job_reader *r, const wu_item *item, const aligned *what,
                               const json_t *value, const char *place, size_t *n)
{
    char text[64];
    snprintf(text, sizeof text, "the %s of an image ", what->key);
    if (!item->is_stack)
        return count_strips(r, value, place, text, n);
    if (!json_is_array(value))
        return job_fail(r, place, "the %s of a stack must be a list, not %s", what->key,
                        type_name(value));
    *n = json_array_size(value);
    if (*n != item->nz)
        return job_fail(r, place, "%zu %s for a stack of %zu slices", *n, what->many,
                        (size_t)item->nz);
    return TC_OK;
}

/* Reads the headers of the item's mask or label pictures. Sets *members to a list of their *n
 * names; the list must be freed with the item, also after a failure. */
static tc_status read_aligned(job_reader *r, const wu_item *item, const aligned *what,
                              const json_t *value, size_t index, char ***members, size_t *n)
{
    const job_place place = item_place(index, what->key);
    size_t count = 0;
    uint64_t above = 0;
    tc_status status = count_aligned(r, item, what, value, place.text, &count);
    if (status != TC_OK)
        return status;
    *members = calloc(count, sizeof **members);
    if (*members == NULL)
        return tc_no_memory(r->err, "a work unit");
    for (size_t i = 0; i < count; i++) {
        const job_place one = place_of_member(index, what->key, value, i);
        wu_png_info head;
        status = find_picture(r, member_of(value, i), one.text, &(*members)[i], &head);
        if (status == TC_OK)
            status = check_aligned(r, item, what, &head, above, item->is_stack || i + 1 == count,
                                   one.text);
        if (status != TC_OK)
            return status;
        above += item->is_stack ? 0 : head.height;
        ++*n;
    }
    return TC_OK;
}

/* Reads the headers of the item's label pictures, and the number of its objects. json: the item. */
static tc_status read_labels(job_reader *r, wu_item *item, const json_t *json, size_t index)
{
    const json_t *labels = json_object_get(json, "labels"),
                 *objects = json_object_get(json, "objects");
    if (labels == NULL && objects == NULL)
        return TC_OK;
    const job_place place = item_place(index, "objects");
    const json_int_t n = json_integer_value(objects);
    if ((labels == NULL) != (objects == NULL))
        return job_fail(r, place.text,
                        labels == NULL ? "must not be given without \"labels\""
                                       : "missing: the number of different labels besides 0");
    if (!json_is_integer(objects) || n < 0 || n > (json_int_t)WU_MAX_LABEL)
        return job_fail(r, place.text, "must be an integer from 0 to %u", WU_MAX_LABEL);
    item->n_objects = (uint32_t)n;
    return read_aligned(r, item, &label_pictures, labels, index, &item->labels, &item->n_labels);
}

/* Reads the item's size of a voxel or pixel. list: the value of "spacing", or NULL. */
static tc_status read_spacing(const job_reader *r, wu_item *item, const json_t *list, size_t index)
{
    double *const to = item->is_stack ? item->spacing : item->pixel; /* [n] */
    const size_t n = item->is_stack ? 3 : 2;
    item->spacing[0] = item->spacing[1] = item->spacing[2] = 1;
    if (list == NULL)
        return TC_OK;
    const job_place place = item_place(index, "spacing");
    bool good = json_is_array(list) && json_array_size(list) == n;
    for (size_t i = 0; good && i < n; i++) {
        const json_t *number = json_array_get(list, i);
        to[i] = json_number_value(number);
        good = json_is_number(number) && wu_is_voxel_size(to[i]);
    }
    item->has_spacing = good && item->is_stack;
    item->has_pixel = good && !item->is_stack;
    return good ? TC_OK
                : job_fail(r, place.text, "must be %s in micrometres, above 1e-9 and below 1e9",
                           item->is_stack ? "three positive numbers [z, y, x]"
                                          : "two positive numbers [y, x]");
}

/* Reads the item's source: the path of the file from which it was made. */
static tc_status read_source(job_reader *r, wu_item *item, const json_t *json, size_t index)
{
    const job_place place = item_place(index, "source");
    const char *source = NULL;
    const tc_status status = get_string(r, json, "source", place.text, OPTIONAL, &source);
    if (status != TC_OK || source == NULL)
        return status;
    if (!wu_is_text_line(source, WU_MAX_SOURCE))
        return job_fail(r, place.text, "must have 1 to %u bytes, none of them a control character",
                        WU_MAX_SOURCE);
    r->sources += strlen(source);
    if (r->sources > WU_MAX_SOURCES)
        return job_fail(r, place.text, "the sources of all items have more than %zu bytes",
                        WU_MAX_SOURCES);
    return copy_string(r, source, &item->source);
}

/* Reads and checks an item. json: element `index` of the list "items". */
static tc_status read_item(job_reader *r, wu_item *item, json_t *json, size_t index)
{
    static const char *const keys[] = { "name",   "image",   "stack",  "spacing", "mask",
                                        "labels", "objects", "source", NULL };
    const job_place place = item_place(index, NULL), name_place = item_place(index, "name");
    const char *name = NULL;
    r->compressed = 0;
    if (!json_is_object(json))
        return job_fail(r, place.text, "must be an object, not %s", type_name(json));
    return_if_error(check_keys(r, json, place.text, keys));
    return_if_error(get_string(r, json, "name", name_place.text, REQUIRED, &name));
    if (!wu_is_item_name(name))
        return job_fail(
            r, name_place.text,
            "\"%s\" is not a name: 1 to %u letters, digits, '.', '_', '-', not beginning with '.'",
            wu_quote(name).text, WU_MAX_NAME);
    return_if_error(copy_string(r, name, &item->name));
    return_if_error(read_source(r, item, json, index));
    const json_t *image = json_object_get(json, "image"), *stack = json_object_get(json, "stack");
    const json_t *mask = json_object_get(json, "mask");
    if ((image == NULL) == (stack == NULL))
        return job_fail(r, place.text, "must have either \"image\" or \"stack\", but has %s",
                        image == NULL ? "neither" : "both");
    item->is_stack = stack != NULL;
    return_if_error(read_pictures(r, item, item->is_stack ? stack : image, index));
    return_if_error(read_spacing(r, item, json_object_get(json, "spacing"), index));
    if (mask != NULL)
        return_if_error(
            read_aligned(r, item, &mask_pictures, mask, index, &item->masks, &item->n_masks));
    return_if_error(read_labels(r, item, json, index));
    item->compressed_bytes = r->compressed;
    return TC_OK;
}

static int compare_strings(const void *a, const void *b)
{
    const char *const *sa = a, *const *sb = b;
    return strcmp(*sa, *sb);
}

/* Rejects items with equal names, which identify items in the result. */
static tc_status check_item_names(const job_reader *r)
{
    const wu_job *job = r->job;
    TC_AUTOFREE const char **sorted = malloc((job->n_items + 1) * sizeof *sorted);
    if (sorted == NULL)
        return tc_no_memory(r->err, "a work unit");
    for (size_t i = 0; i < job->n_items; i++)
        sorted[i] = job->items[i].name;
    qsort(sorted, job->n_items, sizeof *sorted, compare_strings);
    for (size_t i = 1; i < job->n_items; i++) {
        if (strcmp(sorted[i - 1], sorted[i]) == 0)
            return job_fail(r, "items", "two items are named \"%s\"", sorted[i]);
    }
    return TC_OK;
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
        return_if_error(read_item(r, &job->items[i], json_array_get(items, i), i));
    }
    return check_item_names(r);
}

/* --- the whole work unit --------------------------------------------------------------------- */

/* Checks "format" and "version". To be called before other keys are read, since another version may
 * have other keys. */
static tc_status check_format(const job_reader *r, const json_t *json)
{
    const char *format = NULL;
    const json_t *version = json_object_get(json, "version");
    return_if_error(get_string(r, json, "format", "format", REQUIRED, &format));
    if (strcmp(format, WU_FORMAT_NAME) != 0)
        return job_fail(r, "format", "must be \"" WU_FORMAT_NAME "\", not \"%s\"",
                        wu_quote(format).text);
    if (version == NULL)
        return job_fail(r, "version", "missing");
    if (!json_is_integer(version))
        return job_fail(r, "version", "must be an integer, not %s", type_name(version));
    if (json_integer_value(version) != WU_FORMAT_VERSION)
        return job_fail(r, "version", "this program reads version %d, not %lld", WU_FORMAT_VERSION,
                        (long long)json_integer_value(version));
    return TC_OK;
}

static tc_status read_job_json(job_reader *r, json_t *json)
{
    static const char *const keys[] = { "format",     "version", "analysis", "about",
                                        "parameters", "items",   NULL };
    wu_job *job = r->job;
    const char *analysis = NULL, *about = NULL;
    json_t *parameters = json_object_get(json, "parameters");
    return_if_error(check_format(r, json));
    return_if_error(check_keys(r, json, "", keys));
    return_if_error(get_string(r, json, "analysis", "analysis", REQUIRED, &analysis));
    return_if_error(copy_string(r, analysis, &job->analysis));
    return_if_error(get_string(r, json, "about", "about", OPTIONAL, &about));
    if (about != NULL && !wu_is_text_line(about, WU_MAX_ABOUT))
        return job_fail(r, "about", "must have 1 to %u bytes, none of them a control character",
                        WU_MAX_ABOUT);
    if (about != NULL)
        return_if_error(copy_string(r, about, &job->about));
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
            return tc_fail(r->err, TC_BAD_INPUT, "%s: member \"%s\" is not named in " JOB_JSON,
                           a->path, a->members[i].name);
    }
    return TC_OK;
}

/* Reads job.json and the pictures that it names. */
static tc_status read_members(job_reader *r)
{
    const wu_archive *a = r->job->archive;
    json_auto_t *json = NULL;
    const long member = wu_archive_find(a, JOB_JSON);
    if (member < 0 && wu_archive_find(a, "result.json") >= 0)
        return tc_fail(r->err, TC_BAD_INPUT, "%s: is a result, not a work unit", a->path);
    if (member < 0)
        return tc_fail(r->err, TC_BAD_INPUT, "%s: no member \"" JOB_JSON "\" in the archive",
                       a->path);
    r->job->heads = calloc(a->n, sizeof *r->job->heads);
    r->used = calloc(a->n, sizeof *r->used);
    if (r->job->heads == NULL || r->used == NULL)
        return tc_no_memory(r->err, "a work unit");
    r->used[member] = true;
    return_if_error(wu_unzip_open(a, a->poll, &r->zip, r->err));
    return_if_error(
        wu_unzip_json(r->zip, (size_t)member, WU_MAX_JSON, WU_MAX_JSON_VALUES, &json, r->err));
    return_if_error(read_job_json(r, json));
    return check_all_used(r);
}

tc_status wu_job_read(const char *path, wu_job **out, tc_err *err)
{
    return wu_job_read_polled(path, NULL, out, err);
}

/* Reads a work unit. only_heads: as in wu_job. */
static tc_status read_job(const char *path, const tc_poll *poll, bool only_heads, wu_job **out,
                          tc_err *err)
{
    *out = NULL;
    job_reader r = { .job = calloc(1, sizeof *r.job), .err = err };
    if (r.job == NULL)
        return tc_no_memory(err, "a work unit");
    r.job->only_heads = only_heads;
    tc_status status = wu_archive_read(path, WU_MAX_MEMBERS, poll, &r.job->archive, err);
    if (status != TC_OK)
        goto cleanup;
    r.job->path = strdup(path);
    if (r.job->path == NULL) {
        status = tc_no_memory(err, "a work unit");
        goto cleanup;
    }
    status = read_members(&r);
    if (status == TC_OK)
        status = wu_archive_crc_of_read(r.job->archive, &r.job->file_crc, err);
    r.job->file_size = r.job->archive != NULL ? r.job->archive->file_size : 0;
cleanup:
    wu_unzip_close(&r.zip);
    free(r.used);
    if (status == TC_OK)
        *out = r.job;
    else
        wu_job_destroy(&r.job);
    return status;
}

tc_status wu_job_read_polled(const char *path, const tc_poll *poll, wu_job **out, tc_err *err)
{
    return read_job(path, poll, false /* all of the pictures' data */, out, err);
}

tc_status wu_job_read_heads(const char *path, wu_job **out, tc_err *err)
{
    return read_job(path, NULL, true /* only headers */, out, err);
}

tc_status wu_job_read_rest(const wu_job *job, tc_err *err)
{
    TC_AUTO(wu_unzip_close) wu_unzip *zip = NULL;
    return_if_error(wu_unzip_open(job->archive, job->archive->poll, &zip, err));
    for (size_t i = 0; i < job->archive->n; i++) {
        wu_unzip_begin(zip, i);
        return_if_error(wu_unzip_drain(zip, err));
    }
    return TC_OK;
}

tc_status wu_job_compute_sha256(wu_job *job, tc_err *err)
{
    uint32_t crc = job->file_crc;
    if (job->file_sha256[0] != '\0')
        return TC_OK;
    /* If only headers were read, file_crc was computed from unchecked CRCs in the archive's list of
     * members. It may then differ from the CRC of the file although the file is unchanged: so the
     * two are not compared. */
    const tc_status status =
        wu_archive_digest(job->archive, job->only_heads ? NULL : &crc, job->file_sha256, err);
    if (status == TC_OK && crc == job->file_crc)
        return TC_OK;
    job->file_sha256[0] = '\0';
    return status == TC_OK ? tc_fail(err, TC_BAD_INPUT,
                                     "%s: the file has changed since it was checked", job->path)
                           : status;
}

json_t *wu_job_identity_json(const wu_job *job)
{
    assert(job->file_sha256[0] != '\0');
    char crc[9];
    snprintf(crc, sizeof crc, "%08" PRIx32, job->file_crc);
    return json_pack("{s:s, s:I, s:s}", "crc32", crc, "size", (json_int_t)job->file_size, "sha256",
                     job->file_sha256);
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
    free(j->heads);
    free(j->path);
    free(j->analysis);
    free(j->about);
    json_decref(j->parameters);
    wu_archive_destroy(&j->archive);
    free(j);
    *job = NULL;
}
