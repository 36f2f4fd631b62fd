/* Collects the output arrays of items, and writes the result file. */
#include "workunits/format/result.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "app/base/array.h"
#include "app/base/os.h"
#include "workunits/format/archive.h"

/* The number of keys that result.json always has; "sources" and "about" are optional. */
enum { RESULT_KEYS = 7 };

/* --- the output of an item ------------------------------------------------------------------- */

/* Appends an array to the output, which then owns its name and data. */
static tc_status append_array(wu_output *out, const wu_out_array *array, tc_err *err)
{
    const wu_array_info *const info = &array->info;
    if (info->ndim < 1 || info->ndim > WU_MAX_NDIM || wu_dtype_size(info->dtype, info->width) == 0)
        return tc_fail(err, TC_INTERNAL, "array %s has no valid type or shape", info->name);
    wu_out_array *const arrays = tc_array_grow(out->arrays, out->n, &out->room, sizeof *arrays);
    if (arrays == NULL)
        return tc_no_memory(err, "the arrays of an item");
    out->arrays = arrays;
    out->arrays[out->n++] = *array;
    return TC_OK;
}

/* Copies the texts of a declaration to one block of memory: first the array's name, in which {item}
 * is replaced by the item's name, then the declaration's name and title. Makes d->name and d->title
 * point to the copies. Returns the block, or NULL if there is no memory. */
static char *copy_texts(wu_declaration *d, const char *item)
{
    const size_t name = strlen(d->name) + 1, title = d->title != NULL ? strlen(d->title) + 1 : 0;
    const size_t array = name + strlen(item); /* enough bytes for the array's name */
    char *const block = malloc(array + name + title);
    if (block == NULL)
        return NULL;
    wu_declaration_name(d, item, block, array);
    d->name = memcpy(block + array, d->name, name);
    if (title > 0)
        d->title = memcpy(block + array + name, d->title, title);
    return block;
}

/* Whether the table of a declaration has a WU_ITEM array. If so, the table can have any number of
 * rows for an item. */
static bool has_item_column(const wu_output *out, const wu_declaration *d)
{
    bool found = d->role == WU_ITEM;
    for (size_t i = 0; i < out->n && !found; i++) {
        const wu_declaration *const other = &out->arrays[i].declared;
        found = other->role == WU_ITEM &&
                (other->table == d->table || strcmp(other->table, d->table) == 0);
    }
    return found;
}

/* Sets the shape of an array with the declared axes after the axis of rows. Unless d->separate_axes
 * is set, all declared axes become one. */
static void set_shape(wu_array_info *info, const wu_declaration *d, uint64_t rows)
{
    info->ndim = d->separate_axes ? 1 + d->n_axes : d->n_axes > 0 ? 2 : 1;
    info->shape[0] = rows;
    info->shape[1] = wu_declaration_elements(d);
    for (unsigned i = 0; d->separate_axes && i < d->n_axes && i + 1 < WU_MAX_NDIM; i++)
        info->shape[i + 1] = d->axes[i].n;
}

/* Adds a declared array, without data. item: as for wu_output_declare. */
static tc_status declare_array(wu_output *out, const wu_declaration *declared, const wu_item *item,
                               tc_err *err)
{
    wu_out_array array = { .declared = *declared,
                           .info = { .dtype = declared->dtype, .width = declared->width } };
    wu_array_info *const info = &array.info;
    assert(item != NULL || !wu_is_per_item(declared));
    char text[256];
    const char *const fault = wu_declaration_fault(declared, text, sizeof text);
    if (fault != NULL)
        return tc_fail(err, TC_INTERNAL, "%s", fault);
    if (wu_is_per_item(declared)) {
        const uint64_t shape[3] = { item->nz, item->ny, item->nx };
        array.kind = WU_PER_ITEM;
        info->ndim = item->is_stack ? 3 : 2;
        memcpy(info->shape, shape + 3 - info->ndim, info->ndim * sizeof *shape);
    } else {
        array.kind = declared->rows > 0 ? WU_ONCE : WU_ROWS;
        set_shape(info, declared,
                  array.kind == WU_ONCE            ? declared->rows
                  : has_item_column(out, declared) ? WU_ANY_LENGTH
                                                   : 1);
    }
    info->name = copy_texts(&array.declared, item != NULL ? item->name : "");
    if (info->name == NULL)
        return tc_no_memory(err, declared->name);
    const tc_status status = append_array(out, &array, err);
    if (status != TC_OK)
        free(info->name);
    return status;
}

tc_status wu_output_declare(wu_output *out, const wu_declaration *declared, size_t n,
                            const wu_item *item, tc_err *err)
{
    for (size_t i = 0; i < n; i++)
        return_if_error(declare_array(out, &declared[i], item, err));
    return TC_OK;
}

/* Allocates the array's data, zeroed, unless the array is lent (its data belong to another owner).
 * rows: the number of rows of an array whose length is not fixed. */
static tc_status allocate_data(wu_out_array *array, uint64_t rows, tc_err *err)
{
    int ok = 0;
    if (array->lent)
        return TC_OK;
    if (array->info.shape[0] == WU_ANY_LENGTH)
        array->info.shape[0] = rows;
    const uint64_t bytes = wu_array_bytes(&array->info, &ok);
    if (!ok)
        return tc_fail(err, TC_INTERNAL, "array %s has no valid type or shape", array->info.name);
    array->data = bytes > 0 ? os_alloc_zeroed((size_t)bytes) : NULL;
    if (bytes > 0 && array->data == NULL)
        return tc_no_memory(err, array->info.name);
    return TC_OK;
}

tc_status wu_output_add(wu_output *out, wu_array_kind kind, const char *name, wu_dtype dtype,
                        uint32_t width, unsigned ndim, const uint64_t *shape, void **data,
                        tc_err *err)
{
    wu_out_array array = { .kind = kind, .info = { .dtype = dtype, .width = width, .ndim = ndim } };
    *data = NULL;
    memcpy(array.info.shape, shape, (ndim < WU_MAX_NDIM ? ndim : WU_MAX_NDIM) * sizeof *shape);
    array.info.name = strdup(name);
    if (array.info.name == NULL)
        return tc_no_memory(err, name);
    tc_status status = append_array(out, &array, err);
    if (status != TC_OK) {
        free(array.info.name);
        return status;
    }
    status = allocate_data(&out->arrays[out->n - 1], 0, err);
    if (status == TC_OK)
        *data = out->arrays[out->n - 1].data;
    else
        free(out->arrays[--out->n].info.name);
    return status;
}

tc_status wu_output_add_compressed(wu_output *out, const wu_array_info *info,
                                   const wu_compressed *compressed, tc_err *err)
{
    wu_out_array array = { .kind = WU_PER_ITEM, .info = *info, .compressed = *compressed };
    array.info.name = strdup(info->name);
    if (array.info.name == NULL)
        return tc_no_memory(err, info->name);
    const tc_status status = append_array(out, &array, err);
    if (status != TC_OK)
        free(array.info.name);
    return status;
}

void wu_output_lend(wu_out_array *array, const void *data)
{
    assert(array->data == NULL);
    array->data = (void *)(uintptr_t)data;
    array->lent = true;
}

tc_status wu_output_copy_lent(wu_output *out, tc_err *err)
{
    for (size_t i = 0; i < out->n; i++) {
        wu_out_array *array = &out->arrays[i];
        const void *from = array->data;
        if (!array->lent)
            continue;
        array->lent = false;
        array->data = NULL;
        return_if_error(allocate_data(array, 0, err));
        int ok = 0;
        memcpy(array->data, from, (size_t)wu_array_bytes(&array->info, &ok));
    }
    return TC_OK;
}

tc_status wu_output_allocate(wu_output *out, uint64_t rows, tc_err *err)
{
    for (size_t i = 0; i < out->n; i++)
        return_if_error(allocate_data(&out->arrays[i], rows, err));
    return TC_OK;
}

wu_out_array *wu_output_find(const wu_output *out, const char *name)
{
    for (size_t i = 0; i < out->n; i++) {
        if (strcmp(out->arrays[i].info.name, name) == 0)
            return &out->arrays[i];
    }
    return NULL;
}

void *wu_output_data(const wu_output *out, const char *name)
{
    const wu_out_array *const array = wu_output_find(out, name);

    assert(array != NULL);
    return array->data;
}

void wu_output_free(wu_output *out)
{
    for (size_t i = 0; i < out->n; i++) {
        free(out->arrays[i].info.name);
        if (!out->arrays[i].lent)
            free(out->arrays[i].data);
    }
    free(out->arrays);
    memset(out, 0, sizeof *out);
}

/* --- the result of a job --------------------------------------------------------------------- */

/* The state of writing a result. */
typedef struct result_writer {
    const char *path;
    const wu_job *job;
    const tc_poll *poll;
    const wu_output *declared; /* an item's arrays, without data */
    wu_npz_writer *npz;
    const wu_result_source *source;
    const wu_write_progress *written;
    size_t surveyed; /* number of items that survey_item has checked */
    double all;      /* bytes of the arrays of all items surveyed so far; a byte that is compressed
                        already, and only copied, counts as 1 / WU_COPY_SPEEDUP */
    double bytes;    /* bytes of the items' arrays written so far, counted in the same way */
    tc_err *err;
    bool loaded;  /* `current` has all arrays of item `index`, and need not be loaded once more */
    size_t index; /* the item whose arrays are in `current` */
    wu_output current;
    uint64_t
        *rows; /* [declared->n] the number of rows of all items together, for each WU_ROWS array */
    bool has_per_item; /* some item has WU_PER_ITEM arrays, which belong to this item alone */
} result_writer;

static tc_status refuse_mismatch(const result_writer *r, size_t item, const char *array)
{
    return tc_fail(r->err, TC_INTERNAL,
                   "%s: item %s: array %s does not match the arrays of the other items", r->path,
                   r->job->items[item].name, array);
}

/* Loads the arrays of an item to r->current. If `only` is not NULL, only the array of this name and
 * the WU_PER_ITEM arrays (those of a single item) need be loaded. */
static tc_status load_item(result_writer *r, size_t index, const char *only)
{
    if (r->loaded && r->index == index)
        return TC_OK;
    wu_output_free(&r->current);
    r->loaded = false;
    return_if_error(r->source->read(r->source->user, index, only, &r->current, r->err));
    r->loaded = only == NULL;
    r->index = index;
    return TC_OK;
}

/* Reports the share of the work that is done. Surveying the items counts as 1/9, writing as 8/9. */
static void report_progress(const result_writer *r)
{
    const double surveyed = (double)r->surveyed / (double)r->job->n_items;
    const double written = r->all > 0 ? r->bytes / r->all : 0;
    if (r->written != NULL)
        r->written->report(r->written->user, (surveyed + 8 * (written < 1 ? written : 1)) / 9);
}

/* Writes n bytes of an array. weight: what they add to r->bytes, for the progress. */
static tc_status write_piece(result_writer *r, const void *data, size_t n, double weight,
                             tc_err *err)
{
    tc_status status = wu_npz_write(r->npz, data, n, err);
    r->bytes += weight;
    return_if_error(status);
    return_if_error(tc_call_poll(r->poll, err));
    report_progress(r);
    return TC_OK;
}

static tc_status write_data(result_writer *r, const void *data, size_t n)
{
    const unsigned char *const p = data;
    for (size_t at = 0; at < n; at = tc_block_end(at, n))
        return_if_error(write_piece(r, p + at, tc_block_end(at, n) - at,
                                    (double)(tc_block_end(at, n) - at), r->err));
    return TC_OK;
}

/* Writes compressed bytes of an array. A wu_receive_fn function; user: the result_writer. */
static tc_status write_compressed(void *user, const void *data, size_t n, tc_err *err)
{
    return write_piece(user, data, n, (double)n / WU_COPY_SPEEDUP, err);
}

static tc_status write_array(result_writer *r, const wu_out_array *array)
{
    int ok = 0;
    const uint64_t bytes = wu_array_bytes(&array->info, &ok);
    if (!ok)
        return tc_fail(r->err, TC_INTERNAL, "%s: array %s is too large", r->path, array->info.name);
    return_if_error(wu_npz_begin(r->npz, &array->info, r->err));
    return_if_error(write_data(r, array->data, (size_t)bytes));
    return wu_npz_end(r->npz, r->err);
}

/* --- result.json and the arrays of the whole result ------------------------------------------ */

static json_t *item_list(const wu_job *job)
{
    json_t *list = json_array();
    for (size_t i = 0; i < job->n_items; i++) {
        if (json_array_append_new(list, json_string(job->items[i].name)) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* The sources of all items as a list of strings, "" for an unknown source. Returns NULL if there is
 * no memory. */
static json_t *source_list(const wu_job *job)
{
    json_t *list = json_array();
    for (size_t i = 0; list != NULL && i < job->n_items; i++)
        if (json_array_append_new(
                list, json_string(job->items[i].source != NULL ? job->items[i].source : "")) != 0) {
            json_decref(list);
            list = NULL;
        }
    return list;
}

/* A list of the declarations of the WU_ONCE arrays and of an item's arrays. Returns NULL if there
 * is no memory. */
static json_t *declared_list(const wu_output *once, const wu_output *item)
{
    const wu_output *const outputs[2] = { once, item };
    json_t *list = json_array();
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; list != NULL && i < outputs[k]->n; i++)
            if (json_array_append_new(list, wu_declaration_json(&outputs[k]->arrays[i].declared)) !=
                0) {
                json_decref(list);
                list = NULL;
            }
    return list;
}

json_t *wu_result_json(const wu_job *job, const json_t *parameters, const wu_output *once,
                       const wu_output *declared)
{
    size_t n_sources = 0;
    for (size_t i = 0; i < job->n_items; i++)
        n_sources += job->items[i].source != NULL;
    json_t *const json =
        json_pack("{s:s, s:i, s:o*, s:s, s:o*, s:o*, s:o*}", "format", WU_RESULT_FORMAT_NAME,
                  "version", WU_RESULT_FORMAT_VERSION, "workunit", wu_job_identity_json(job),
                  "analysis", job->analysis, "parameters", json_deep_copy(parameters), "items",
                  item_list(job), "arrays", declared_list(once, declared));
    if (json_object_size(json) == RESULT_KEYS &&
        (n_sources == 0 || json_object_set_new(json, "sources", source_list(job)) == 0) &&
        (job->about == NULL || json_object_set_new(json, "about", json_string(job->about)) == 0))
        return json;
    json_decref(json);
    return NULL;
}

/* Writes arrays of the kind WU_ONCE, which belong to the whole result. */
static tc_status write_once(result_writer *r, const wu_output *once)
{
    for (size_t i = 0; i < once->n; i++) {
        if (once->arrays[i].kind != WU_ONCE)
            return tc_fail(r->err, TC_INTERNAL, "%s: array %s does not belong to the whole result",
                           r->path, once->arrays[i].info.name);
        return_if_error(write_array(r, &once->arrays[i]));
    }
    return TC_OK;
}

/* Adds the array item_spacing, if the size of pixels is known for any item. */
static tc_status add_spacing(const wu_job *job, wu_output *out, tc_err *err)
{
    const uint64_t shape[2] = { job->n_items, 3 };
    void *data = NULL;
    bool any = false;
    for (size_t i = 0; i < job->n_items; i++)
        any = any || job->items[i].has_spacing || job->items[i].has_pixel;
    if (!any)
        return TC_OK;
    return_if_error(wu_output_add(out, WU_ONCE, WU_ITEM_SPACING, WU_F64, 0, 2, shape, &data, err));
    double *at = data;
    for (size_t i = 0; i < job->n_items; i++, at += 3) {
        const wu_item *const item = &job->items[i];
        at[0] = item->has_spacing ? item->spacing[0] : (double)NAN;
        for (size_t k = 0; k < 2; k++)
            at[k + 1] = item->has_spacing ? item->spacing[k + 1]
                        : item->has_pixel ? item->pixel[k]
                                          : (double)NAN;
    }
    return TC_OK;
}

tc_status wu_add_item_names(const wu_job *job, wu_output *out, tc_err *err)
{
    const uint64_t n = job->n_items;
    size_t width = 1;
    void *chars = NULL;
    for (size_t i = 0; i < job->n_items; i++)
        width = strlen(job->items[i].name) > width ? strlen(job->items[i].name) : width;
    return_if_error(
        wu_output_add(out, WU_ONCE, "item_names", WU_STR, (uint32_t)width, 1, &n, &chars, err));
    for (size_t i = 0; i < job->n_items; i++)
        wu_utf8_to_ucs4(job->items[i].name, (uint32_t *)chars + i * width, (uint32_t)width);
    return add_spacing(job, out, err);
}

/* --- arrays of the items --------------------------------------------------------------------- */

/* Whether two arrays have the same name, type and shape; their numbers of rows may differ. */
static bool is_same_kind(const wu_array_info *a, const wu_array_info *b)
{
    if (strcmp(a->name, b->name) != 0 || a->dtype != b->dtype || a->width != b->width ||
        a->ndim != b->ndim)
        return false;
    return memcmp(a->shape + 1, b->shape + 1, (a->ndim - 1) * sizeof *a->shape) == 0;
}

/* Checks the arrays of the loaded item against r->declared, and adds their rows and bytes to
 * r->rows and r->all. */
static tc_status survey_item(result_writer *r)
{
    const wu_output *const want = r->declared, *const got = &r->current; /* expected and loaded */
    for (size_t i = 0; i < got->n; i++) {
        const wu_out_array *const array = &got->arrays[i];
        int ok = 0;
        if (i >= want->n || array->kind != want->arrays[i].kind)
            return refuse_mismatch(r, r->index, array->info.name);
        if (array->kind == WU_PER_ITEM) {
            char name[1024];
            wu_declaration_name(&want->arrays[i].declared, r->job->items[r->index].name, name,
                                sizeof name);
            if (strcmp(array->info.name, name) != 0)
                return refuse_mismatch(r, r->index, array->info.name);
            r->all += (double)array->compressed.compressed / WU_COPY_SPEEDUP;
            r->has_per_item = true;
            continue;
        }
        r->all += (double)wu_array_bytes(&array->info, &ok);
        if (!is_same_kind(&want->arrays[i].info, &array->info) ||
            array->info.shape[0] > INT64_MAX - r->rows[i])
            return refuse_mismatch(r, r->index, array->info.name);
        r->rows[i] += array->info.shape[0];
    }
    r->surveyed++;
    report_progress(r);
    return got->n == want->n ? TC_OK : refuse_mismatch(r, r->index, want->arrays[got->n].info.name);
}

/* Writes a WU_ROWS array: the rows of all items, in their order. */
static tc_status write_rows(result_writer *r, size_t array)
{
    wu_array_info info = r->declared->arrays[array].info;
    info.shape[0] = r->rows[array];
    return_if_error(wu_npz_begin(r->npz, &info, r->err));
    for (size_t item = 0; item < r->job->n_items; item++) {
        int ok = 0;
        return_if_error(load_item(r, item, info.name));
        const wu_out_array *const rows = wu_output_find(&r->current, info.name);
        if (rows == NULL || !is_same_kind(&info, &rows->info))
            return refuse_mismatch(r, item, info.name);
        const uint64_t bytes = wu_array_bytes(&rows->info, &ok);
        return_if_error(write_data(r, rows->data, (size_t)bytes));
    }
    return wu_npz_end(r->npz, r->err);
}

/* Copies an array that is compressed already. */
static tc_status copy_array(result_writer *r, size_t item, const wu_out_array *array)
{
    return_if_error(wu_npz_begin_compressed(r->npz, &array->info, &array->compressed, r->err));
    return_if_error(
        r->source->copy(r->source->user, item, array->info.name, write_compressed, r, r->err));
    return wu_npz_end(r->npz, r->err);
}

/* Copies the WU_PER_ITEM arrays of all items. */
static tc_status write_per_item(result_writer *r)
{
    for (size_t item = 0; item < r->job->n_items; item++) {
        return_if_error(load_item(r, item, ""));
        for (size_t i = 0; i < r->current.n; i++) {
            if (r->current.arrays[i].kind == WU_PER_ITEM)
                return_if_error(copy_array(r, item, &r->current.arrays[i]));
        }
    }
    return TC_OK;
}

/* Surveys all items, then writes their arrays. */
static tc_status write_items(result_writer *r)
{
    r->bytes = 0; /* arrays of the whole result do not count */
    for (size_t i = 0; i < r->job->n_items; i++) {
        return_if_error(load_item(r, i, NULL));
        return_if_error(survey_item(r));
    }
    for (size_t i = 0; i < r->declared->n; i++)
        if (r->declared->arrays[i].kind == WU_ROWS)
            return_if_error(write_rows(r, i));
    return r->has_per_item ? write_per_item(r) : TC_OK;
}

static void free_writer(result_writer *r)
{
    wu_npz_abort(&r->npz);
    wu_output_free(&r->current);
    free(r->rows);
}

tc_status wu_result_write(const char *path, const wu_job *job, const json_t *parameters,
                          const wu_output *once, const wu_output *declared,
                          const wu_result_source *source, const wu_write_progress *written,
                          tc_err *err)
{
    TC_AUTO(free_writer)
    result_writer r = { .path = path,
                        .job = job,
                        .poll = job->archive != NULL ? job->archive->poll : NULL,
                        .declared = declared,
                        .source = source,
                        .written = written,
                        .err = err,
                        .rows = calloc(declared->n + 1, sizeof *r.rows) };
    json_auto_t *json = wu_result_json(job, parameters, once, declared);
    TC_AUTO(wu_output_free) wu_output names = { 0 };
    return_if_error(json == NULL || r.rows == NULL ? tc_no_memory(err, WU_RESULT_JSON)
                                                   : wu_npz_create(path, &r.npz, err));
    wu_npz_use_threads(r.npz, job->threads);
    return_if_error(wu_npz_add_json(r.npz, WU_RESULT_JSON, json, err));
    return_if_error(write_once(&r, once));
    return_if_error(wu_add_item_names(job, &names, err));
    return_if_error(write_once(&r, &names));
    return_if_error(write_items(&r));
    return wu_npz_close(&r.npz, err);
}
