/* Finds the notes about the items of a result, by the analysis' function note_result. */
#include <stdlib.h>
#include <string.h>

#include "workunits/tools/notes.h"

/* State of reading, item by item, the arrays that have the rows of all items. */
typedef struct reading {
    const wu_result_file *file;
    const an_analysis *analysis;
    void *params;
    bool stacks;    /* the items are stacks */
    uint64_t *rows; /* [file->n_items] number of rows of each item in the table of objects */
    size_t n;       /* number of arrays that the analysis declares */
    wu_npz_stream **streams; /* [n] a stream for each array that the analysis declares; NULL for
                                arrays of single items, which no note needs */
} reading;

/* Returns the item `index` as note_result needs it. Its size is that of a picture of the item in
 * the result, or 0 if there is none. */
static wu_item item_of(const reading *r, size_t index)
{
    wu_item item = { .name = r->file->item_names[index],
                     .is_stack = r->stacks,
                     .bits = 16,
                     .channels = 1,
                     .spacing = { 1, 1, 1 } };
    const wu_array_info *const info = wu_first_picture(r->file, index);
    if (info == NULL)
        return item;
    item.is_stack = info->ndim == 3;
    item.nz = item.is_stack ? (uint32_t)info->shape[0] : 1;
    item.ny = (uint32_t)info->shape[info->ndim - 2];
    item.nx = (uint32_t)info->shape[info->ndim - 1];
    return item;
}

/* Counts the rows of each item. index: index of the array that has the item of each row. */
static tc_status count_rows(reading *r, size_t index, tc_err *err)
{
    const uint64_t n = wu_npz_array_info(r->file->npz, index)->shape[0];
    void *data = NULL;
    const tc_status status = wu_npz_load_array(r->file->npz, index, &data, err);
    for (uint64_t i = 0; status == TC_OK && i < n; i++) {
        const int64_t item = ((const int64_t *)data)[i];
        if (item >= 0 && (uint64_t)item < r->file->n_items)
            r->rows[item]++;
    }
    free(data);
    return status;
}

/* Opens a stream for each array that the analysis declares. TC_BAD_INPUT: the arrays of the file
 * are not as declared. */
static tc_status open_streams(reading *r, const wu_output *arrays, tc_err *err)
{
    r->streams = calloc(arrays->n + 1, sizeof(wu_npz_stream *));
    r->rows = calloc(r->file->n_items + 1, sizeof *r->rows);
    if (r->streams == NULL || r->rows == NULL)
        return tc_no_memory(err, "notes");
    r->n = arrays->n;
    for (size_t i = 0; i < r->n; i++) {
        const wu_out_array *const want = &arrays->arrays[i];
        const long at = wu_npz_find_array(r->file->npz, want->info.name);
        const wu_array_info *const info =
            at < 0 ? NULL : wu_npz_array_info(r->file->npz, (size_t)at);
        if (want->kind != WU_ROWS)
            continue;
        if (info == NULL || info->dtype != want->info.dtype || info->ndim != want->info.ndim ||
            memcmp(info->shape + 1, want->info.shape + 1, (info->ndim - 1) * sizeof *info->shape) !=
                0)
            return tc_fail(err, TC_BAD_INPUT, "%s: is not as declared", want->info.name);
        if (want->declared.role == WU_ITEM)
            return_if_error(count_rows(r, (size_t)at, err));
        return_if_error(wu_npz_stream_open(r->file->npz, (size_t)at, &r->streams[i], err));
    }
    return TC_OK;
}

/* Reads the item's rows of every array. The caller frees *out by wu_output_free. */
static tc_status read_item(const reading *r, size_t index, const wu_item *item, wu_output *out,
                           tc_err *err)
{
    return_if_error(r->analysis->declare_arrays(r->params, item, out, err));
    for (size_t i = 0; i < r->n && i < out->n; i++) {
        wu_out_array *const array = &out->arrays[i];
        int ok = 0;
        if (r->streams[i] == NULL)
            continue;
        if (array->info.shape[0] == WU_ANY_LENGTH)
            array->info.shape[0] = r->rows[index];
        const uint64_t bytes = wu_array_bytes(&array->info, &ok);
        if (!ok || bytes > wu_npz_stream_left(r->streams[i]))
            return tc_fail(err, TC_BAD_INPUT, "%s: has too few rows", array->info.name);
        array->data = malloc((size_t)bytes + 1);
        return_if_error(array->data == NULL
                            ? tc_no_memory(err, array->info.name)
                            : wu_npz_stream_read(r->streams[i], array->data, (size_t)bytes, err));
    }
    return TC_OK;
}

/* Finds the analysis and opens the streams. TC_BAD_INPUT: there are no notes for this result. */
static tc_status open_reading(reading *r, tc_err *err)
{
    const json_t *const json = wu_npz_json(r->file->npz);
    const char *const name = json_string_value(json_object_get(json, "analysis"));
    TC_AUTO(wu_output_free) wu_output arrays = { .n = 0 };
    r->analysis = name == NULL ? NULL : an_find_analysis(name);
    if (r->analysis == NULL || r->analysis->note_result == NULL || r->file->n_items == 0)
        return tc_fail(err, TC_BAD_INPUT, "its analysis has no notes"); /* not shown to the user */
    for (size_t i = 0; i < r->file->n_declared; i++) {
        const wu_declaration *const d = &r->file->declared[i];
        /* Positions and centroids of three coordinates show that the items are stacks. */
        const bool place =
            d->role == WU_POSITION || (d->title != NULL && strncmp(d->title, "centroid", 8) == 0);
        r->stacks = r->stacks || (place && d->axes[0].n == 3);
    }
    tc_status status = an_parse_params(r->analysis, json_object_get(json, "parameters"),
                                       "parameters", &r->params, err);
    const wu_item first = item_of(r, 0);
    return_if_error(status);
    return_if_error(r->analysis->declare_arrays(r->params, &first, &arrays, err));
    return open_streams(r, &arrays, err);
}

static void close_reading(reading *r)
{
    for (size_t i = 0; r->streams != NULL && i < r->n; i++)
        wu_npz_stream_close(&r->streams[i]);
    free(r->streams);
    free(r->rows);
    if (r->analysis != NULL)
        an_params_free(r->analysis, &r->params);
}

tc_status wu_notes_read(const wu_result_file *file, char ***out, tc_err *err)
{
    reading r = { .file = file };
    char **const notes = *out = calloc(file->n_items + 1, sizeof *notes);
    if (notes == NULL)
        return tc_no_memory(err, "notes");
    tc_status status = open_reading(&r, err);
    for (size_t i = 0; i < file->n_items && status == TC_OK; i++) {
        const wu_item item = item_of(&r, i);
        wu_output arrays = { .n = 0 };
        char text[TC_ERR_MAX];
        status = read_item(&r, i, &item, &arrays, err);
        if (status == TC_OK &&
            r.analysis->note_result(r.params, &item, &arrays, text, sizeof text)) {
            notes[i] = strdup(text);
            status = notes[i] == NULL ? tc_no_memory(err, "notes") : TC_OK;
        }
        wu_output_free(&arrays);
    }
    close_reading(&r);
    return status == TC_BAD_INPUT ? TC_OK : status;
}

void wu_notes_free(char **notes, size_t n)
{
    for (size_t i = 0; notes != NULL && i < n; i++)
        free(notes[i]);
    free(notes);
}
