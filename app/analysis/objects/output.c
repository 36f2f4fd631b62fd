/* objects: declares the arrays of a result, makes them from the final state, checks states from
 * checkpoints, and writes notes about results. */
#include <stdio.h>

#include "app/analysis/objects/objects.h"

/* Axes of arrays (wu_axis). */
#define PLACE2 { .n = 2, .words = (const char *const[]){ "y", "x" } }
#define PLACE3 { .n = 3, .words = (const char *const[]){ "z", "y", "x" } }
#define BOX2 { .n = 4, .words = (const char *const[]){ "y0", "x0", "y1", "x1" } }
#define BOX3 { .n = 6, .words = (const char *const[]){ "z0", "y0", "x0", "z1", "y1", "x1" } }
#define LENGTHS { .n = 3, .words = (const char *const[]){ "major", "middle", "minor" } }
#define PERCENTS \
    { "percentile", OBJ_PERCENTILES, .numbers = obj_percentiles, .prefix = "p", .digits = 2 }

/* Declarations of a column: COLUMN has values of any type, REAL doubles, INTEGER integers; SEVERAL
 * has several values in each row, along an axis. */
#define COLUMN(title_, type_, unit_) \
    { "object_" title_, type_, WU_VALUE, "objects", title_, .unit = (unit_) }
#define REAL(title_, unit_) COLUMN(title_, WU_F64, unit_)
#define INTEGER(title_, unit_) COLUMN(title_, WU_I64, unit_)
#define SEVERAL(title_, type_, unit_, axis_)                                                \
    {                                                                                       \
        "object_" title_, type_, WU_VALUE, "objects", title_, .unit = (unit_), .n_axes = 1, \
            .axes = {                                                                       \
                axis_                                                                       \
            }                                                                               \
    }
#define LENGTH(list) (sizeof(list) / sizeof(list)[0])

/* The columns of each family, in the order of their words in obj_row. */
static const wu_declaration shape2[] = { INTEGER("area", "pixel^2"),
                                         SEVERAL("bbox", WU_I64, "pixel", BOX2),
                                         SEVERAL("centroid", WU_F64, "pixel", PLACE2),
                                         COLUMN("border", WU_BOOL, NULL),
                                         REAL("perimeter", "pixel"),
                                         REAL("axis_major_length", "pixel"),
                                         REAL("axis_minor_length", "pixel"),
                                         REAL("eccentricity", NULL),
                                         REAL("orientation", "rad"),
                                         REAL("equivalent_diameter_area", "pixel"),
                                         INTEGER("area_convex", "pixel^2"),
                                         REAL("solidity", NULL),
                                         REAL("extent", NULL),
                                         INTEGER("euler_number", NULL),
                                         INTEGER("holes", NULL),
                                         REAL("feret_diameter_max", "pixel"),
                                         REAL("form_factor", NULL) },
                            shape3[] = { INTEGER("voxels", "voxel"),
                                         SEVERAL("bbox", WU_I64, "voxel", BOX3),
                                         SEVERAL("centroid", WU_F64, "voxel", PLACE3),
                                         COLUMN("border", WU_BOOL, NULL),
                                         REAL("volume_um3", "um^3"),
                                         SEVERAL("axis_length", WU_F64, "um", LENGTHS),
                                         REAL("surface", "um^2"),
                                         REAL("mesh_volume", "um^3"),
                                         REAL("sphericity", NULL),
                                         REAL("extent", NULL),
                                         INTEGER("euler_number", NULL) },
                            intensity[] = { INTEGER("intensity_min", NULL),
                                            INTEGER("intensity_max", NULL),
                                            REAL("intensity_mean", NULL),
                                            REAL("intensity_std", NULL),
                                            REAL("intensity_median", NULL),
                                            SEVERAL("intensity_percentile", WU_F64, NULL, PERCENTS),
                                            REAL("intensity_skewness", NULL),
                                            REAL("intensity_kurtosis", NULL),
                                            REAL("intensity_entropy", "bit"),
                                            INTEGER("intensity_integrated", NULL) },
                            weighted2[] = { SEVERAL("centroid_weighted", WU_F64, "pixel", PLACE2) },
                            weighted3[] = { SEVERAL("centroid_weighted", WU_F64, "voxel", PLACE3) };

/* The number of words that n columns have in a row of the state. */
static size_t words_of(const wu_declaration *columns, size_t n)
{
    uint64_t words = 0;

    for (size_t i = 0; i < n; i++)
        words += wu_declaration_elements(&columns[i]);
    return (size_t)words;
}

size_t obj_texture_at(const obj_params *p, const wu_item *item)
{
    size_t words = 0;

    if ((p->families & OBJ_SHAPE) != 0)
        words +=
            item->is_stack ? words_of(shape3, LENGTH(shape3)) : words_of(shape2, LENGTH(shape2));
    if ((p->families & OBJ_INTENSITY) != 0)
        words += words_of(intensity, LENGTH(intensity)) + (item->is_stack ? 3 : 2);
    return words;
}

size_t obj_words(const obj_params *p, const wu_item *item)
{
    return obj_texture_at(p, item) +
           ((p->families & OBJ_TEXTURE) != 0 ? p->n_distances * p->n_features : 0);
}

static tc_status declare_texture(const obj_params *p, const wu_item *item, wu_output *out,
                                 tc_err *err)
{
    const wu_declaration glcm = {
        "object_glcm",
        WU_F64,
        WU_VALUE,
        "objects",
        "glcm",
        .n_axes = 2,
        .axes = { { "distance", (uint32_t)p->n_distances, .numbers = p->distance_numbers,
                    .prefix = "d", .digits = 2 },
                  { "feature", p->n_features, .words = p->feature_names } }
    };

    return wu_output_declare(out, &glcm, 1, item, err);
}

tc_status obj_declare_arrays(const void *params, const wu_item *item, wu_output *out, tc_err *err)
{
    static const wu_declaration keys[] = {
        { "objects", WU_I64, WU_VALUE, "items", .title = "objects" },
        { "object_item", WU_I64, WU_ITEM, .table = "objects" },
        { "object_label", WU_I64, WU_KEY, "objects", .title = "label" }
    };
    const obj_params *const p = params;
    return_if_error(wu_output_declare(out, keys, LENGTH(keys), item, err));

    if ((p->families & OBJ_SHAPE) != 0)
        return_if_error(item->is_stack ? wu_output_declare(out, shape3, LENGTH(shape3), item, err)
                                       : wu_output_declare(out, shape2, LENGTH(shape2), item, err));
    if ((p->families & OBJ_INTENSITY) != 0)
        return_if_error(wu_output_declare(out, intensity, LENGTH(intensity), item, err));
    if ((p->families & OBJ_INTENSITY) != 0)
        return_if_error(
            wu_output_declare(out, item->is_stack ? weighted3 : weighted2, 1, item, err));
    return (p->families & OBJ_TEXTURE) != 0 ? declare_texture(p, item, out, err) : TC_OK;
}

/* The number of rows that are copied at a time, column by column, so that the rows are still in the
 * cache for the next column. */
enum { BLOCK = 4096 };

/* Copies one column of the objects first to end - 1 to the rows row_index and following of the
 * array. Leaves out objects that obj_is_kept excludes. word: the index in obj_row.words of the
 * column's first word. */
static void copy_column(const an_work *work, const void *state, const wu_out_array *array,
                        size_t word, size_t first, size_t end, size_t row_index)
{
    const obj_params *const p = work->params;
    const size_t n = (size_t)wu_declaration_elements(&array->declared),
                 row_bytes = obj_row_bytes(p, work->item);
    uint64_t *words = array->data;
    uint8_t *flags = array->data;

    if (array->data == NULL) /* the array has no rows */
        return;
    words += array->info.dtype == WU_BOOL ? 0 : row_index * n;
    flags += row_index;
    for (size_t i = first; i < end; i++) {
        const obj_row *const row = obj_row_of_const(state, row_bytes, i);

        if (!obj_is_kept(p, row))
            continue;
        if (array->info.dtype == WU_BOOL)
            *flags++ = row->words[word] != 0;
        else
            for (size_t k = 0; k < n; k++)
                *words++ = row->words[word + k];
    }
}

/* The number of objects from first to end - 1 that will be in the table. */
static uint64_t count_kept(const an_work *work, const void *state, size_t first, size_t end)
{
    const size_t row_bytes = obj_row_bytes(work->params, work->item);
    uint64_t n = 0;

    for (size_t i = first; i < end; i++)
        n += obj_is_kept(work->params, obj_row_of_const(state, row_bytes, i));
    return n;
}

/* Copies all columns of objects first to end - 1 to rows row_index and following of the arrays.
 * Returns the index of the row after the last one. */
static size_t copy_block(const an_work *work, size_t item_index, const void *state,
                         const wu_output *out, size_t first, size_t end, size_t row_index)
{
    const size_t row_bytes = obj_row_bytes(work->params, work->item);
    int64_t *const item = wu_output_data(out, "object_item");
    int64_t *const label = wu_output_data(out, "object_label");

    /* The first three arrays are those of `keys` in obj_declare_arrays. */
    for (size_t i = 3, word = 0; i < out->n; i++) {
        copy_column(work, state, &out->arrays[i], word, first, end, row_index);
        word += (size_t)wu_declaration_elements(&out->arrays[i].declared);
    }
    for (size_t i = first; i < end; i++) {
        const obj_row *const row = obj_row_of_const(state, row_bytes, i);

        if (!obj_is_kept(work->params, row))
            continue;
        item[row_index] = (int64_t)item_index;
        label[row_index++] = (int64_t)row->label;
    }
    return row_index;
}

tc_status obj_finish(const an_work *work, size_t item_index, const void *state, wu_output *out,
                     tc_err *err)
{
    const size_t n = work->item->n_objects;
    tc_status status = obj_declare_arrays(work->params, work->item, out, err);
    uint64_t rows = 0;
    size_t row_index = 0;

    for (size_t i = 0; status == TC_OK && i < n; i += BLOCK) {
        rows += count_kept(work, state, i, n - i < BLOCK ? n : i + BLOCK);
        status = tc_call_poll(work->poll, err);
    }
    return_if_error(status);
    return_if_error(wu_output_allocate(out, rows, err));
    *(int64_t *)wu_output_data(out, "objects") = (int64_t)rows;
    for (size_t i = 0; i < n; i += BLOCK) {
        row_index =
            copy_block(work, item_index, state, out, i, n - i < BLOCK ? n : i + BLOCK, row_index);
        return_if_error(tc_call_poll(work->poll, err));
    }
    return TC_OK;
}

/* Checks that the objects measured so far have labels, in ascending order, and valid grey values.
 * The other words of a row may have any value. */
tc_status obj_check_state(const an_work *work, const void *state, tc_err *err)
{
    const obj_params *const p = work->params;
    const uint64_t done = ((const an_state_head *)state)->chunks_done;
    const size_t row_bytes = obj_row_bytes(p, work->item);
    /* Number of objects of which at least one chunk is done. The item's first chunk is of no
     * object.
     */
    const uint64_t reached = done == 0 ? 0 : (done - 1 + obj_chunks(p) - 1) / obj_chunks(p);
    uint64_t label = 0;

    for (size_t i = 0; i < work->item->n_objects; i++) {
        const obj_row *const row = obj_row_of_const(state, row_bytes, i);

        if (i < reached ? row->label <= label || row->label > WU_MAX_LABEL || row->border > 1 ||
                              row->lo > row->hi || row->hi >> work->item->bits != 0
                        : row->label != 0)
            return tc_fail(err, TC_BAD_INPUT, "the objects are damaged");
        label = row->label;
        if (i % BLOCK == 0)
            return_if_error(tc_call_poll(work->poll, err));
    }
    return TC_OK;
}

/* Whether the only object probably comes from a mask: its label is 255 or 65535, or it consists of
 * several pieces, whose number is holes + Euler number (columns of pictures with OBJ_SHAPE). */
static bool is_mask(const wu_output *out)
{
    const int64_t label = *(const int64_t *)wu_output_data(out, "object_label");
    const wu_out_array *const holes = wu_output_find(out, "object_holes");

    if (label == 255 || label == 65535)
        return true;
    return holes != NULL &&
           (double)*(const int64_t *)holes->data +
                   (double)*(const int64_t *)wu_output_data(out, "object_euler_number") >
               1;
}

/* Whether each object has only one grey value, which is its label. */
static bool are_greys(const wu_output *out, uint64_t n)
{
    const wu_out_array *const lo = wu_output_find(out, "object_intensity_min"),
                              *const hi = wu_output_find(out, "object_intensity_max");
    const int64_t *const label = wu_output_data(out, "object_label");
    bool same = lo != NULL && hi != NULL;

    for (uint64_t i = 0; same && i < n; i++)
        same = ((const int64_t *)lo->data)[i] == label[i] &&
               ((const int64_t *)hi->data)[i] == label[i];
    return same;
}

/* The bounding boxes and sizes of the n objects of a result. */
typedef struct boxes {
    uint64_t n, dims;
    const int64_t *size; /* [n], numbers of pixels */
    const int64_t *box;  /* [n][2 dims], lower and upper bounds */
    int64_t end[3];      /* [dims], the largest upper bounds: assumed to be the picture's size */
    double picture_size; /* number of pixels of a picture with the sides `end` */
} boxes;

/* Fills *b from the result. Returns false if the result has no sizes or boxes. */
static bool find_boxes(const wu_output *out, uint64_t n, boxes *b)
{
    const wu_out_array *const area = wu_output_find(out, "object_area"),
                              *const size =
                                  area != NULL ? area : wu_output_find(out, "object_voxels"),
                              *const box = wu_output_find(out, "object_bbox");

    if (size == NULL || box == NULL)
        return false;
    *b = (boxes){ n, box->info.shape[1] / 2, size->data, box->data, { 0 }, 1 };
    for (uint64_t k = 0; k < b->dims; k++) {
        for (uint64_t i = 0; i < n; i++)
            b->end[k] = TC_MAX(b->end[k], b->box[2 * b->dims * i + b->dims + k]);
        b->picture_size *= (double)b->end[k];
    }
    return true;
}

/* Returns the index of an object that probably is the background: the largest one, if it reaches
 * all sides of the picture, and either it is more than half of the picture, or all objects together
 * are more than 99% of it. Returns b->n if there is no such object. */
static uint64_t find_background(const boxes *b)
{
    double sum = 0;
    uint64_t largest = 0;

    for (uint64_t i = 0; i < b->n; i++) {
        sum += (double)b->size[i];
        largest = b->size[i] > b->size[largest] ? i : largest;
    }
    bool is_background =
        2 * (double)b->size[largest] > b->picture_size || sum > 0.99 * b->picture_size;
    for (uint64_t k = 0; k < b->dims; k++) {
        const int64_t *const box = b->box + 2 * b->dims * largest;
        is_background = is_background && box[k] == 0 && box[b->dims + k] == b->end[k];
    }
    return is_background ? largest : b->n;
}

/* Whether most objects are scattered. In a picture, an object is scattered if it has at least
 * PIECES pieces; in a stack, if its box is more than half of the stack and less than half filled. A
 * stack must have at least FEW objects. */
static bool are_scattered(const wu_output *out, const boxes *b)
{
    enum { PIECES = 5, FEW = 4 };
    const wu_out_array *const holes = wu_output_find(out, "object_holes");
    uint64_t scattered = 0;

    for (uint64_t i = 0; i < b->n; i++) {
        const int64_t *const box = b->box + 2 * b->dims * i;
        double volume = 1;
        for (uint64_t k = 0; k < b->dims; k++)
            volume *= (double)box[b->dims + k] - (double)box[k];
        scattered += holes != NULL
                         ? (double)((const int64_t *)holes->data)[i] +
                                   (double)((const int64_t *)wu_output_data(
                                       out, "object_euler_number"))[i] >=
                               PIECES
                         : 2 * volume > b->picture_size && (double)b->size[i] < volume / 2;
    }
    return 2 * scattered > b->n && (holes != NULL || b->n >= FEW);
}

/* Writes a note, and returns true, if the n labels probably do not mark objects: if they are grey
 * values, classes of pixels, or include the background. */
static bool note_several(const wu_output *out, uint64_t n, char *text, size_t size)
{
    const int64_t *const label = wu_output_data(out, "object_label");
    boxes b;

    if (are_greys(out, n)) {
        snprintf(text, size,
                 "each object's label is its only grey value: the labels are the picture itself");
        return true;
    }
    if (!find_boxes(out, n, &b))
        return false;
    const uint64_t background = find_background(&b);
    if (are_scattered(out, &b))
        snprintf(text, size,
                 "most of the %llu objects are scattered over the picture, as the greys of a "
                 "photograph or classes of pixels are, not labels of objects: number these first",
                 (unsigned long long)n);
    else if (background < n)
        snprintf(text, size,
                 "object %lld is %.0f%% of the picture and reaches all its sides: the labels' "
                 "background is numbered; it must be 0",
                 (long long)label[background], 100 * (double)b.size[background] / b.picture_size);
    else
        return false;
    return true;
}

bool obj_note_result(const void *params, const wu_item *item, const wu_output *out, char *text,
                     size_t size)
{
    const obj_params *const p = params;

    const int64_t objects = *(const int64_t *)wu_output_data(out, "objects");
    const uint64_t rows = wu_output_find(out, "object_label")->info.shape[0];

    if (objects > 1 || (objects == 1 && !is_mask(out)))
        return rows > 1 && note_several(out, rows, text, size);
    if (objects == 1)
        snprintf(text, size, "there is only one object, as in a mask: number its pieces first");
    else if (item->n_objects == 0)
        snprintf(text, size, "no objects: all its labels are 0");
    else
        snprintf(text, size, "no objects are left: all touch the border%s",
                 p->exclude_border ? ", and --param exclude_border=true leaves them out" : "");
    return true;
}
