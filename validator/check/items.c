/* Opens a result and reads it item by item. */
#include "validator/check/items.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "workunits/format/json_text.h"

/* An array that has the rows of all items, one item after the other, and is read once from its
 * start to its end. */
typedef struct row_array {
    size_t index; /* index of the array in the NPZ */
    wu_npz_stream *stream;
    size_t row_bytes;
    bool is_table; /* true: the array has any number of rows for each item; false: one row */
} row_array;

/* An open result of the work unit `unit`, and the state of reading it item by item. */
struct val_items {
    const an_unit *unit;
    const char *path;
    wu_npz_reader *r;
    wu_output once;  /* the arrays that a result has once, with the data that they must have */
    wu_output first; /* the arrays of the first item, without data */
    size_t n_rows;   /* number of elements of `rows` */
    row_array *rows; /* the arrays with rows of all items */

    wu_npz_buffer *own; /* [first.n] buffers for the data of an item's own arrays: those that only
                           this item has, such as labels_NAME */
    uint64_t max_bytes; /* the most bytes of the rows of an item; 0: as many as an_rows_bytes */
    size_t index;       /* index of the next item */
    size_t next_own;    /* index in the NPZ of the next array to open or to read */
    /* The first array of the tables has the index of each row's item. */
    uint64_t unread;  /* number of rows of this array that have not been read */
    int64_t row_item; /* the item of the row that was read last */
    bool row_waits;   /* this row was read ahead: it belongs to a later item */
};

/* --- result.json ----------------------------------------------------------------------------- */

static tc_status refuse_difference(const val_items *v, const char *key, tc_err *err)
{
    return tc_fail(err, TC_BAD_INPUT, "%s: %s: \"%s\" differs from that of the work unit", v->path,
                   WU_RESULT_JSON, key);
}

/* Returns an error that names the first parameter whose value differs from `want`. */
static tc_status refuse_parameters(const val_items *v, const json_t *want, const json_t *found,
                                   tc_err *err)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)want, key, value)
        if (!wu_json_same(value, json_object_get(found, key))) {
            char name[128];

            snprintf(name, sizeof name, "parameters.%.64s", key);
            return refuse_difference(v, name, err);
        }
    return refuse_difference(v, "parameters", err);
}

/* Returns the error that the result is of another work unit. If the work unit itself is damaged,
 * returns TC_TRY_LATER. */
static tc_status refuse_unit(const val_items *v, tc_err *err)
{
    const wu_job *const job = v->unit->job;

    if (job->only_heads && wu_job_read_rest(job, err) != TC_OK)
        return TC_TRY_LATER;
    return refuse_difference(v, "workunit", err);
}

/* Compares the result's result.json with the one that texcell would have written. */
static tc_status compare_json(const val_items *v, const json_t *want, tc_err *err)
{
    const json_t *const json = wu_npz_json(v->r);
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)want, key, value) {
        if (wu_json_same(value, json_object_get(json, key)))
            continue;
        if (strcmp(key, "format") == 0)
            return tc_fail(err, TC_BAD_INPUT, "%s: %s: \"format\" is not that of a result", v->path,
                           WU_RESULT_JSON);
        if (strcmp(key, "version") == 0)
            return tc_fail(err, TC_BAD_INPUT, "%s: %s: \"version\" is not %d", v->path,
                           WU_RESULT_JSON, WU_RESULT_FORMAT_VERSION);
        if (strcmp(key, "workunit") == 0)
            return refuse_unit(v, err);
        return strcmp(key, "parameters") == 0
                   ? refuse_parameters(v, value, json_object_get(json, key), err)
                   : refuse_difference(v, key, err);
    }
    if (json_object_size(json) != json_object_size(want))
        return tc_fail(err, TC_BAD_INPUT, "%s: %s: has %zu keys, not %zu", v->path, WU_RESULT_JSON,
                       json_object_size(json), json_object_size(want));
    return TC_OK;
}

/* --- names and types of arrays --------------------------------------------------------------- */

/* Checks that array `index` of the file has the name, type and shape of `want`. */
static tc_status check_info(const val_items *v, size_t index, const wu_array_info *want,
                            tc_err *err)
{
    const bool exists = index < wu_npz_array_count(v->r);
    const wu_array_info *const info = exists ? wu_npz_array_info(v->r, index) : NULL;

    if (info == NULL || strcmp(info->name, want->name) != 0) {
        if (wu_npz_find_array(v->r, want->name) < 0)
            return tc_fail(err, TC_BAD_INPUT, "%s: has no array %s", v->path, want->name);
        if (info != NULL)
            return tc_fail(err, TC_BAD_INPUT, "%s: array %s stands where %s belongs", v->path,
                           info->name, want->name);
    }
    return_if_error(exists ? wu_npz_read_header(v->r, index, err) : TC_OK);
    if (info == NULL || info->dtype != want->dtype || info->width != want->width)
        return tc_fail(err, TC_BAD_INPUT, "%s: array %s: has the wrong type", v->path, want->name);
    if (info->ndim != want->ndim)
        return tc_fail(err, TC_BAD_INPUT, "%s: array %s: has %u axes, not %u", v->path, want->name,
                       info->ndim, want->ndim);
    for (unsigned d = 0; d < want->ndim; d++)
        if (want->shape[d] != WU_ANY_LENGTH && info->shape[d] != want->shape[d])
            return tc_fail(err, TC_BAD_INPUT, "%s: array %s: axis %u has %llu entries, not %llu",
                           v->path, want->name, d, (unsigned long long)info->shape[d],
                           (unsigned long long)want->shape[d]);
    return TC_OK;
}

/* Checks that array `index` is equal to `want`, including its data. */
static tc_status check_same(const val_items *v, size_t index, const wu_out_array *want, tc_err *err)
{
    int ok = 0;
    const uint64_t bytes = wu_array_bytes(&want->info, &ok);
    TC_AUTOFREE void *data = NULL;
    return_if_error(check_info(v, index, &want->info, err));

    return_if_error(wu_npz_load_array(v->r, index, &data, err));
    if (memcmp(data, want->data, (size_t)bytes) != 0)
        return tc_fail(err, TC_BAD_INPUT, "%s: array %s: differs from what the work unit defines",
                       v->path, want->info.name);
    return TC_OK;
}

/* Checks the arrays of the whole result, which depend only on the work unit: the constants of the
 * analysis, and item_names. */
static tc_status check_constants(val_items *v, tc_err *err)
{
    return_if_error(wu_add_item_names(v->unit->job, &v->once, err));

    for (size_t i = 0; i < v->once.n; i++)
        return_if_error(check_same(v, v->next_own++, &v->once.arrays[i], err));
    return TC_OK;
}

/* Sets *out to the arrays, without data, that the result must have for the item. */
static tc_status compute_expected(const val_items *v, size_t item, wu_output *out, tc_err *err)
{
    return v->unit->analysis->declare_arrays(v->unit->params, &v->unit->job->items[item], out, err);
}

/* Sets *most to the most rows of the tables that an item may have: the number that the analysis can
 * find or, if it is smaller, the number that fits into max_bytes. */
static tc_status find_most_rows(const val_items *v, size_t index, uint64_t *most, tc_err *err)
{
    const wu_item *const item = &v->unit->job->items[index];
    an_plan plan = { 0 };
    tc_err why = { "" };
    const tc_status status = v->unit->analysis->plan(v->unit->params, item, &plan, &why);
    const uint64_t bytes = an_row_bytes(&v->first),
                   bound = (v->max_bytes > 0 ? v->max_bytes : an_rows_bytes(item, bytes)) /
                           (bytes > 0 ? bytes : 1);

    *most = an_most_rows(&plan, item);
    *most = *most < bound ? *most : bound;
    return status == TC_OK ? TC_OK : tc_fail(err, status, "%.500s: %.500s", v->path, why.message);
}

/* Checks the number of rows of an array of a table. All these arrays must have the same number,
 * which must be at most the sum of find_most_rows over all items. */
static tc_status check_length(val_items *v, const wu_array_info *info, tc_err *err)
{
    uint64_t most = 0, all = 0;

    if (v->unread == WU_ANY_LENGTH) {
        for (size_t i = 0; i < v->unit->job->n_items; i++, all += most) {
            return_if_error(find_most_rows(v, i, &most, err));
        }
        v->unread = info->shape[0];
        if (info->shape[0] > all)
            return tc_fail(err, TC_BAD_INPUT,
                           "%s: array %s: %llu rows, but there can be at most %llu, or "
                           "--max-memory allows no more",
                           v->path, info->name, (unsigned long long)info->shape[0],
                           (unsigned long long)all);
    }
    if (info->shape[0] != v->unread)
        return tc_fail(err, TC_BAD_INPUT, "%s: array %s: axis 0 has %llu entries, not %llu",
                       v->path, info->name, (unsigned long long)info->shape[0],
                       (unsigned long long)v->unread);
    return TC_OK;
}

/* Opens the array next_own, which has rows of all items. want: the array as the first item has it.
 */
static tc_status open_rows(val_items *v, const wu_array_info *want, tc_err *err)
{
    wu_array_info whole = *want;
    row_array *const rows = &v->rows[v->n_rows];
    const wu_array_info *info;
    int ok = 0;

    rows->index = v->next_own;
    rows->is_table = want->shape[0] == WU_ANY_LENGTH;
    if (!rows->is_table)
        whole.shape[0] = v->unit->job->n_items;
    return_if_error(check_info(v, v->next_own, &whole, err));
    info = wu_npz_array_info(v->r, v->next_own);
    if (rows->is_table)
        return_if_error(check_length(v, info, err));
    return_if_error(wu_npz_stream_open(v->r, v->next_own++, &rows->stream, err));
    v->n_rows++;
    whole.shape[0] = 1;
    rows->row_bytes = (size_t)wu_array_bytes(&whole, &ok);
    return TC_OK;
}

/* Opens all arrays with rows of all items, which are the WU_ROWS arrays that the first item
 * declares. */
static tc_status open_all_rows(val_items *v, tc_err *err)
{
    v->rows = calloc(v->first.n + 1, sizeof *v->rows);
    v->own = calloc(v->first.n + 1, sizeof *v->own);
    if (v->rows == NULL || v->own == NULL)
        return tc_no_memory(err, "the arrays");
    for (size_t i = 0; i < v->first.n; i++)
        if (v->first.arrays[i].kind == WU_ROWS)
            return_if_error(open_rows(v, &v->first.arrays[i].info, err));
    return TC_OK;
}

/* Returns whether the file, which was refused for its size or form, has a small result.json that
 * says that it is of another work unit. */
static bool is_of_another_unit(const val_items *v, const json_t *want)
{
    const wu_npz_limits few = { .headers_later = true, .json_bytes = 1 << 16, .members = 1000 };
    wu_npz_reader *r = NULL;
    const json_t *identity = NULL;

    if (wu_npz_open(v->path, &few, &r, NULL) == TC_OK)
        identity = json_object_get(wu_npz_json(r), "workunit");
    const bool other =
        json_is_object(identity) && !wu_json_same(identity, json_object_get(want, "workunit"));

    wu_npz_reader_close(&r);
    return other;
}

/* Opens the file. Refuses it if it has more than twice the members, or four times the bytes of
 * JSON, that texcell would write. Below these limits, later checks name the superfluous array or
 * key. */
static tc_status open_file(val_items *v, tc_err *err)
{
    json_auto_t *parameters = an_params_as_run(v->unit->params);
    json_auto_t *want = wu_result_json(v->unit->job, parameters, &v->once, &v->first);
    wu_npz_limits limits = { .canonical = true,
                             .headers_later = true,
                             .json_bytes = 4 * wu_json_size(want, WU_JSON_LAYOUT),
                             .members = 2 + v->once.n };
    tc_status status =
        want == NULL || limits.json_bytes == 0 ? tc_no_memory(err, WU_RESULT_JSON) : TC_OK;

    for (size_t i = 0; i < v->first.n; i++)
        limits.members += v->first.arrays[i].kind == WU_PER_ITEM ? v->unit->job->n_items : 1;
    limits.members *= 2;
    return_if_error(status);
    status = wu_npz_open(v->path, &limits, &v->r, err);
    if (status == TC_BAD_INPUT && is_of_another_unit(v, want))
        return refuse_unit(v, err);
    return_if_error(status);
    return compare_json(v, want, err);
}

static tc_status open_items(val_items *v, tc_err *err)
{
    const an_unit *const unit = v->unit;

    if (unit->analysis->add_constants != NULL)
        return_if_error(unit->analysis->add_constants(unit->params, &v->once, err));
    return_if_error(compute_expected(v, 0, &v->first, err));
    if (wu_job_compute_sha256(unit->job, err) != TC_OK)
        return TC_TRY_LATER; /* the fault is in the work unit, not in the result */
    return_if_error(open_file(v, err));
    return_if_error(check_constants(v, err));
    return open_all_rows(v, err);
}

tc_status val_items_open(const an_unit *unit, const char *path, uint64_t max_bytes, val_items **out,
                         tc_err *err)
{
    tc_status status;

    *out = calloc(1, sizeof **out);
    if (*out == NULL)
        return tc_no_memory(err, "a result");
    (*out)->unit = unit;
    (*out)->path = path;
    (*out)->max_bytes = max_bytes;
    (*out)->unread = WU_ANY_LENGTH;
    status = open_items(*out, err);
    if (status != TC_OK)
        val_items_close(out);
    return status;
}

tc_status val_items_read_counts(const val_items *v, const char *name, int64_t **counts, tc_err *err)
{
    const long index = wu_npz_find_array(v->r, name);
    void *data = NULL;

    assert(index >= 0); /* an array that the analysis declares: val_items_open checked its shape */
    const tc_status status = wu_npz_load_array(v->r, (size_t)index, &data, err);
    *counts = data;
    return status;
}

void val_items_close(val_items **items)
{
    val_items *const v = *items;

    if (v == NULL)
        return;
    for (size_t i = 0; i < v->n_rows; i++)
        wu_npz_stream_close(&v->rows[i].stream);
    for (size_t i = 0; v->own != NULL && i < v->first.n; i++)
        wu_npz_buffer_free(&v->own[i]);
    free(v->own);
    free(v->rows);
    wu_output_free(&v->once);
    wu_output_free(&v->first);
    wu_npz_reader_close(&v->r);
    free(v);
    *items = NULL;
}

/* --- values ---------------------------------------------------------------------------------- */

static const char *item_name(const val_items *v)
{
    return v->unit->job->items[v->index].name;
}

static const row_array *first_table(const val_items *v)
{
    for (size_t i = 0; i < v->n_rows; i++)
        if (v->rows[i].is_table)
            return &v->rows[i];
    return NULL;
}

/* Sets *rows to the number of rows of the tables that belong to the item: reads the first table
 * array up to a row of a later item, or to its end. */
static tc_status count_rows(val_items *v, uint64_t *rows, tc_err *err)
{
    const row_array *const table = first_table(v);
    uint64_t most = 0;
    tc_status status = table == NULL ? TC_OK : find_most_rows(v, v->index, &most, err);

    *rows = 0;
    while (table != NULL && status == TC_OK && (v->row_waits || v->unread > 0)) {
        if (!v->row_waits) {
            status = wu_npz_stream_read(table->stream, &v->row_item, sizeof v->row_item, err);
            v->unread--;
            v->row_waits = true;
        }
        if (status == TC_OK &&
            (v->row_item < (int64_t)v->index || v->row_item >= (int64_t)v->unit->job->n_items))
            return tc_fail(err, TC_BAD_INPUT,
                           "%s: array %s: a row of item %lld follows rows of item %zu", v->path,
                           wu_npz_array_info(v->r, table->index)->name, (long long)v->row_item,
                           v->index);
        if (v->row_item != (int64_t)v->index)
            break;
        v->row_waits = false;
        if (++*rows > most)
            return tc_fail(err, TC_BAD_INPUT,
                           "%s: array %s: more rows of item \"%s\" than it can have, or than "
                           "--max-memory allows",
                           v->path, wu_npz_array_info(v->r, table->index)->name, item_name(v));
    }
    return status;
}

static tc_status check_bools(const val_items *v, const wu_out_array *array, uint64_t bytes,
                             tc_err *err)
{
    const uint8_t *const data = array->data;

    for (uint64_t i = 0; array->info.dtype == WU_BOOL && i < bytes; i++)
        if (data[i] > 1)
            return tc_fail(err, TC_BAD_INPUT, "%s: item \"%s\": %s: %u is not a bool", v->path,
                           item_name(v), array->info.name, data[i]);
    return TC_OK;
}

/* Reads the item's rows of an array. The first table array, which count_rows has read already, has
 * the item's index in each row. */
static tc_status read_rows(const val_items *v, const row_array *rows, const wu_out_array *array,
                           tc_err *err)
{
    const uint64_t n = array->info.shape[0];

    if (rows == first_table(v)) {
        for (uint64_t i = 0; i < n; i++)
            ((int64_t *)array->data)[i] = (int64_t)v->index;
        return TC_OK;
    }
    return_if_error(
        wu_npz_stream_read(rows->stream, array->data, (size_t)n * rows->row_bytes, err));
    return check_bools(v, array, n * rows->row_bytes, err);
}

/* Reads an item's own array into the buffer, to whose memory array->data then points. */
static tc_status read_own(val_items *v, wu_npz_buffer *buffer, wu_out_array *array, tc_err *err)
{
    const size_t index = v->next_own++;
    int ok = 0;
    const void *data = NULL;

    if (index < wu_npz_array_count(v->r))
        return_if_error(wu_npz_load_array_into(v->r, index, &array->info, buffer, &data, err));
    if (data == NULL) { /* the wrong array, or its header has another padding */
        return_if_error(check_info(v, index, &array->info, err));
        return_if_error(wu_npz_load_array_into(v->r, index, &array->info, buffer, &data, err));
    }
    wu_output_lend(array, data);
    return check_bools(v, array, wu_array_bytes(&array->info, &ok), err);
}

tc_status val_items_next(val_items *v, wu_output *out, tc_err *err)
{
    assert(v->index < v->unit->job->n_items);
    uint64_t rows = 0;
    size_t next = 0;
    tc_status status = count_rows(v, &rows, err);

    if (status == TC_OK)
        status = compute_expected(v, v->index, out, err);
    assert(status != TC_OK || out->n == v->first.n);
    for (size_t i = 0; status == TC_OK && i < out->n; i++)
        if (out->arrays[i].kind == WU_PER_ITEM)
            status = read_own(v, &v->own[i], &out->arrays[i], err);
    if (status == TC_OK)
        status = wu_output_allocate(out, rows, err);
    for (size_t i = 0; status == TC_OK && i < out->n; i++)
        if (out->arrays[i].kind == WU_ROWS)
            status = read_rows(v, &v->rows[next++], &out->arrays[i], err);
    v->index++;
    return status;
}

tc_status val_items_end(val_items *v, tc_err *err)
{
    assert(v->index == v->unit->job->n_items);

    for (size_t i = 0; i < v->n_rows; i++)
        return_if_error(wu_npz_stream_end(v->rows[i].stream, err));
    return v->next_own == wu_npz_array_count(v->r)
               ? TC_OK
               : tc_fail(err, TC_BAD_INPUT, "%s: array %s: does not belong there", v->path,
                         wu_npz_array_info(v->r, v->next_own)->name);
}
