/* Finds and reads the label pictures of items, in picture files or in a result, and counts their
 * objects. */
#include "workunits/tools/labels.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "workunits/format/job.h"
#include "workunits/format/result_file.h"

/* --- label pictures of a result -------------------------------------------------------------- */

/* Whether `path` ends with `source`. source: the last parts of the path of the picture from which
 * an item of a result was made; the result records them. If `with_name` is false, both paths are
 * compared without the file names. */
static bool is_source_of(const char *source, const char *path, bool with_name)
{
    const char *const slash = strrchr(source, '/'), *const end = strrchr(path, '/');
    const size_t n = with_name       ? strlen(source)
                     : slash == NULL ? 0
                                     : (size_t)(slash - source),
                 m = with_name     ? strlen(path)
                     : end == NULL ? 0
                                   : (size_t)(end - path);
    /* A source of nearly the maximal length was probably cut at its beginning, perhaps within a
     * part of the path. */
    const bool cut = strlen(source) + 4 > WU_MAX_SOURCE;
    return n <= m && memcmp(path + m - n, source, n) == 0 &&
           (n == 0 || n == m || cut || path[m - n - 1] == '/');
}

/* The item of a result that matches an item being packed. */
typedef struct match {
    size_t index; /* index of the last matching item of the result */
    size_t n;     /* number of items that match equally well, or 0 if no item matches */
} match;

/* The absolute path of an item's picture, as the user gave it, and with symbolic links resolved. */
typedef struct item_paths {
    char *given, *full;
} item_paths;

/* Whether the source of item k of the result agrees with either path. with_name: as for
 * is_source_of. */
static bool source_fits(const wu_result_file *file, size_t k, const item_paths *paths,
                        bool with_name)
{
    const char *const source = file->item_sources == NULL ? "" : file->item_sources[k];
    return is_source_of(source, paths->given, with_name) ||
           is_source_of(source, paths->full, with_name);
}

/* Finds the result's item that matches an item called `name`: an item made from the same file. A
 * time series has several such items; then the item with the same name matches. If no item was made
 * from the same file, an item with the same name matches if the folders agree. named: --names was
 * given, so that only names are compared. */
static match match_picture(const wu_result_file *file, const char *name, bool named,
                           const item_paths *paths)
{
    match same_file = { 0, 0 }, same_name = { 0, 0 };
    for (size_t k = 0; k < file->n_items; k++) {
        const bool known = file->item_sources != NULL && file->item_sources[k][0] != '\0',
                   has_name = strcmp(file->item_names[k], name) == 0;
        if (known && !named && source_fits(file, k, paths, true /* whole paths */)) {
            if (has_name)
                return (match){ k, 1 }; /* the same file and name */
            same_file = (match){ k, same_file.n + 1 };
        }
        if (has_name && (named || source_fits(file, k, paths, false /* folders only */)))
            same_name = (match){ k, 1 };
    }
    return same_file.n > 0 ? same_file : same_name;
}

/* Sets *index to the index of the array with the item's labels. used_by[k]: the item that uses the
 * labels of the result's item k already, or NULL. */
static tc_status find_in_result(const wu_result_file *file, const wu_source *item, bool named,
                                const wu_source **used_by, size_t *index, tc_err *err)
{
    const wu_declaration *labels = NULL;
    const char *source = NULL;
    TC_AUTOFREE char *const given = wu_recorded_path(item->path, false /* links are kept */);
    TC_AUTOFREE char *const full = wu_recorded_path(item->path, true);
    if (given == NULL || full == NULL)
        return tc_no_memory(err, item->path);
    for (size_t i = 0; labels == NULL && i < file->n_declared; i++)
        labels = file->declared[i].role == WU_LABELS ? &file->declared[i] : NULL;
    const match found =
        match_picture(file, item->name, named, &(item_paths){ .given = given, .full = full });
    if (labels != NULL && found.n == 1 && used_by[found.index] == NULL) {
        used_by[found.index] = item;
        return wu_find_declared_array(file, labels, file->item_names[found.index], index, err);
    }
    if (labels != NULL && found.n > 0)
        return tc_fail(err, TC_BAD_INPUT,
                       "%s: another input is called %s too, so their labels in %s cannot be "
                       "distinguished",
                       item->path, file->item_names[found.index], file->path);
    for (size_t k = 0; labels != NULL && source == NULL && k < file->n_items; k++)
        if (strcmp(file->item_names[k], item->name) == 0)
            source = file->item_sources[k];
    return source != NULL
               ? tc_fail(err, TC_BAD_INPUT,
                         "%s: has the labels of %s, which cannot be distinguished by name from the "
                         "labels of %s; compute the latter, or, if both pictures show the same "
                         "objects, name this picture %s with --names",
                         file->path, source, item->path, item->name)
               : tc_fail(err, TC_BAD_INPUT,
                         "%s: has no labels of an item \"%s\"; compute it with \"labels\": true, "
                         "of the same pictures",
                         file->path, item->name);
}

/* Makes the labels of a result the labels of the item, if they have the shape of the item. */
static tc_status take_from_result(const wu_result_file *file, wu_source *item, bool named,
                                  const wu_source **used_by, tc_err *err)
{
    const wu_picture_info *const size = &item->pages.info;
    size_t index = 0;
    return_if_error(find_in_result(file, item, named, used_by, &index, err));
    const wu_array_info *const info = wu_npz_array_info(file->npz, index);
    const uint64_t *const shape = info->shape + info->ndim - 2;
    const uint64_t nz = info->ndim == 3 ? info->shape[0] : 1;
    if (info->dtype != WU_I32 || info->ndim != (item->is_stack ? 3 : 2) || shape[1] != size->nx ||
        shape[0] != size->ny || nz != size->nz)
        return tc_fail(err, TC_BAD_INPUT,
                       "%s: %s has %llu x %llu pixels and %llu slice(s), but %s has %u x %u and %u",
                       file->path, info->name, (unsigned long long)shape[1],
                       (unsigned long long)shape[0], (unsigned long long)nz, item->pages.files[0],
                       size->nx, size->ny, size->nz);
    item->labels_array = (long)index;
    item->labels.info = *size;
    return wu_page_files_add(&item->labels, file->path, err);
}

/* Finds the labels of all items in a result. */
static tc_status add_from_result(wu_sources *sources, const char *path, tc_err *err)
{
    TC_AUTO(wu_result_file_close) wu_result_file file;
    return_if_error(wu_result_file_open(path, NULL, &file, err));
    const wu_source **const used_by = calloc(file.n_items + 1, sizeof(wu_source *));
    tc_status status = used_by == NULL ? tc_no_memory(err, "the labels of items") : TC_OK;
    for (size_t i = 0; status == TC_OK && i < sources->n; i++) {
        wu_source *const item = &sources->items[i];
        if (item->fault == NULL)
            status = wu_source_keep_fault(
                item, take_from_result(&file, item, sources->names != NULL, used_by, err), err);
    }
    free(used_by);
    return status;
}

/* Whether the file is a ZIP archive: a result, not a picture. */
static bool is_result(const char *path)
{
    char magic[4] = "";
    FILE *const file = fopen(path, "rb");
    const bool zip =
        file != NULL && fread(magic, 1, 4, file) == 4 && memcmp(magic, "PK\3\4", 4) == 0;
    if (file != NULL)
        fclose(file);
    return zip;
}

/* --- slices ---------------------------------------------------------------------------------- */

/* Opens the result, and the array with the item's labels. */
static tc_status open_stream(wu_label_reader *r, tc_err *err)
{
    r->result = calloc(1, sizeof *r->result);
    if (r->result == NULL)
        return tc_no_memory(err, "the labels of an item");
    const tc_status status = wu_result_file_open(r->item->labels.files[0], NULL, r->result, err);
    return status == TC_OK
               ? wu_npz_stream_open(r->result->npz, (size_t)r->item->labels_array, &r->stream, err)
               : status;
}

/* Reads the labels of the next slice from a result. */
static tc_status read_result_slice(wu_label_reader *r, uint32_t *labels, size_t n, tc_err *err)
{
    tc_status status = r->stream == NULL ? open_stream(r, err) : TC_OK;
    if (status == TC_OK)
        status = wu_npz_stream_read(r->stream, labels, n * sizeof *labels, err);
    return status == TC_OK && wu_npz_stream_left(r->stream) == 0 ? wu_npz_stream_end(r->stream, err)
                                                                 : status;
}

/* Reads the labels of the next slice from picture files. */
static tc_status read_picture_slice(wu_label_reader *r, uint32_t *labels, size_t n, tc_err *err)
{
    wu_picture_info info;
    r->pages.item = r->item;
    r->pages.kind = WU_KIND_LABELS;
    /* Pages of 32 bits are decoded straight into `labels`, others into r->page. */
    wu_page_buffer direct = { labels, n * sizeof *labels };
    return_if_error(
        wu_page_next(&r->pages, r->item->labels.info.bits == 32 ? &direct : &r->page, &info, err));
    const uint8_t *const u8 = r->page.data;
    const uint16_t *const u16 = r->page.data;
    for (size_t i = 0; i < n && info.bits == 16; i++)
        labels[i] = u16[i];
    /* RGB is one label of 24 bits, with red in the lowest bits. */
    for (size_t i = 0; i < n && info.bits == 8; i++)
        labels[i] = info.channels == 1
                        ? u8[i]
                        : u8[3 * i] | (uint32_t)u8[3 * i + 1] << 8 | (uint32_t)u8[3 * i + 2] << 16;
    return TC_OK;
}

tc_status wu_labels_read_slice(wu_label_reader *r, uint32_t *labels, tc_err *err)
{
    assert(r->item != NULL);
    const size_t n = (size_t)r->item->pages.info.nx * r->item->pages.info.ny;
    const tc_status status = r->item->labels_array >= 0 ? read_result_slice(r, labels, n, err)
                                                        : read_picture_slice(r, labels, n, err);
    for (size_t i = 0; status == TC_OK && i < n; i++)
        if (labels[i] > WU_MAX_LABEL)
            return tc_fail(err, TC_BAD_INPUT,
                           "%s: has a value that is not a label: labels are whole numbers from 0 "
                           "to %u; number the objects again",
                           r->item->labels.files[0], WU_MAX_LABEL);
    return status;
}

void wu_labels_close(wu_label_reader *r)
{
    wu_page_reader_close(&r->pages);
    free(r->page.data);
    wu_npz_stream_close(&r->stream);
    if (r->result != NULL)
        wu_result_file_close(r->result);
    free(r->result);
    *r = (wu_label_reader){ .item = NULL };
}

/* --- counting -------------------------------------------------------------------------------- */

/* Adds the labels of a slice that are not in `seen_labels` yet to the item's count. seen_labels: a
 * bit for each label; updated. */
static void count_slice(wu_source *item, const uint32_t *labels, size_t n, uint64_t *seen_labels)
{
    for (size_t i = 0; i < n; i++) {
        const uint32_t label = labels[i];
        const uint64_t bit = (uint64_t)1 << label % 64;
        if (label == 0 || (seen_labels[label / 64] & bit) != 0)
            continue;
        seen_labels[label / 64] |= bit;
        item->n_objects++;
        item->largest_label = label > item->largest_label ? label : item->largest_label;
    }
}

/* Counts the objects of an item. kept: keeps the labels of its only slice in item->kept_labels
 * until the item is written. */
static tc_status count_labels(wu_source *item, bool kept, tc_err *err)
{
    const size_t n = (size_t)item->pages.info.nx * item->pages.info.ny;
    uint64_t *const seen_labels = calloc(WU_MAX_LABEL / 64 + 1, sizeof *seen_labels);
    uint32_t *const labels = malloc(n * sizeof *labels);
    wu_label_reader reader = { .item = item };
    tc_status status =
        seen_labels == NULL || labels == NULL ? tc_no_memory(err, "the labels of an item") : TC_OK;
    for (uint32_t z = 0; z < item->pages.info.nz && status == TC_OK; z++) {
        status = wu_labels_read_slice(&reader, labels, err);
        if (status == TC_OK)
            count_slice(item, labels, n, seen_labels);
    }
    wu_labels_close(&reader);
    if (kept && status == TC_OK)
        item->kept_labels = labels;
    else
        free(labels);
    free(seen_labels);
    return status;
}

tc_status wu_labels_find(wu_sources *sources, const char *path, bool recursive, tc_err *err)
{
    return_if_error(is_result(path)
                        ? add_from_result(sources, path, err)
                        : wu_sources_add_matching(sources, path, WU_KIND_LABELS, recursive, err));
    for (size_t i = 0; i < sources->n; i++)
        if (sources->items[i].fault == NULL)
            return_if_error(wu_source_keep_fault(
                &sources->items[i],
                count_labels(&sources->items[i],
                             sources->n == 1 && sources->items[i].pages.info.nz == 1, err),
                err));
    return TC_OK;
}
