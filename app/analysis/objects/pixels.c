/*
 * objects: checks the arrays of an item's result against the item's pixels. The pixels of each
 * object are counted. Some objects, chosen at random, are measured again and must have the same
 * values. The grey values of random pixels are compared with the range that the result's table
 * states.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/objects/objects.h"
#include "app/analysis/analyses.h"
#include "app/base/numbers.h"
#include "app/base/random.h"

enum {
    /* One in ONE_IN objects and MORE others are measured again; at least LEAST, at most MOST. */
    ONE_IN = 10,
    MORE = 6,
    LEAST = 12,
    MOST = 64,

    OCTAVES = 32, /* octave i: the objects of 2^i to 2^(i + 1) - 1 pixels */
    LOOKS = 512   /* number of random pixels whose grey values are compared */
};

/* The check of a stack takes this many times the time that obj_pixels_share computes from the share
 * of objects that are measured (measured by tests/bench/looks.py units). */
static const double STACKS = 20;

/* --- labels ---------------------------------------------------------------------------------- */

/* The labels of the item's objects, as the result's table states them. */
typedef struct object_labels {
    const int64_t *table; /* [n]: the labels of the table, ascending */
    size_t n;
    uint32_t *border; /* owned; [n_border]: with exclude_border, the labels at the border,
                         ascending; else NULL */
    size_t n_border;
    uint32_t *pixels; /* owned; [largest label + 1]: number of pixels of each label */
} object_labels;

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static int by_label(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* Sets *found to whether the object with this label is in the table, and *row to its row. Label 0
 * is the background. TC_BAD_INPUT: the object is missing from the table. */
static tc_status find_row(const object_labels *l, uint32_t label, size_t *row, bool *found,
                          tc_err *err)
{
    const int64_t wanted = label;
    const int64_t *const at = l->n == 0 || label == 0
                                  ? NULL
                                  : bsearch(&wanted, l->table, l->n, sizeof *l->table, by_value);

    *found = at != NULL;
    if (at != NULL)
        *row = (size_t)(at - l->table);
    else if (label != 0 && (l->n_border == 0 || bsearch(&label, l->border, l->n_border,
                                                        sizeof label, by_label) == NULL))
        return tc_fail(err, TC_BAD_INPUT, "object_label: the object with label %lu has no row",
                       (unsigned long)label);
    return TC_OK;
}

/* Appends n labels, which are `step` elements apart, to `found`, which has k elements and room for
 * n more. Leaves out labels that are 0 or the same as the label before them. Returns the new number
 * of elements. */
static size_t add_labels(const uint32_t *labels, size_t n, size_t step, uint32_t *found, size_t k)
{
    for (size_t i = 0; i < n; i++)
        if (labels[i * step] != 0 && (k == 0 || found[k - 1] != labels[i * step]))
            found[k++] = labels[i * step];
    return k;
}

/* Sets l->border and l->n_border. */
static tc_status find_border(const an_work *work, object_labels *l, tc_err *err)
{
    const wu_pixels *const px = work->pixels;
    const size_t slice = (size_t)px->nx * px->ny, faces = work->item->is_stack ? 2 * slice : 0;
    uint32_t *const found =
        malloc((faces + 2 * (size_t)px->nz * (px->nx + px->ny)) * sizeof *found);
    size_t k = 0;

    l->border = found;
    if (found == NULL)
        return tc_no_memory(err, "the border");
    for (size_t z = 0; z < px->nz; z++) {
        const uint32_t *const labels = px->labels + z * slice;

        if (faces > 0 && (z == 0 || z + 1 == px->nz))
            k = add_labels(labels, slice, 1, found, k);
        k = add_labels(labels, px->nx, 1, found, k);
        k = add_labels(labels + slice - px->nx, px->nx, 1, found, k);
        k = add_labels(labels, px->ny, px->nx, found, k);
        k = add_labels(labels + px->nx - 1, px->ny, px->nx, found, k);
    }
    qsort(found, k, sizeof *found, by_label);
    for (size_t i = 0; i < k; i++)
        if (i == 0 || found[i] != found[i - 1])
            found[l->n_border++] = found[i];
    return TC_OK;
}

/* Sets l->pixels. */
static tc_status count_pixels(const wu_pixels *px, object_labels *l, tc_err *err)
{
    const size_t n = (size_t)px->nx * px->ny * px->nz;

    l->pixels = calloc((size_t)px->largest_label + 1, sizeof *l->pixels);
    if (l->pixels == NULL)
        return tc_no_memory(err, "the objects");
    for (size_t i = 0; i < n;) {
        const uint32_t label = px->labels[i];
        const size_t first = i;

        while (i < n && px->labels[i] == label)
            i++;
        l->pixels[label] += (uint32_t)(i - first);
    }
    return TC_OK;
}

/* Checks the labels of the table: each has pixels, and as many as `area` states, the column of the
 * numbers of pixels, unless it is NULL. With exclude_border it has those of the item's objects that
 * do not touch the border, otherwise as many as the item has. */
static tc_status check_labels(const an_work *work, const object_labels *l, const int64_t *area,
                              tc_err *err)
{
    for (size_t i = 0; i < l->n; i++) {
        const long long label = l->table[i];

        if (label > work->pixels->largest_label || l->pixels[label] == 0)
            return tc_fail(err, TC_BAD_INPUT, "object_label: no pixel has label %lld", label);
        if (area != NULL && area[i] != l->pixels[label])
            return tc_fail(err, TC_BAD_INPUT, "object_label: %lu pixels have label %lld, not %lld",
                           (unsigned long)l->pixels[label], label, (long long)area[i]);
    }
    for (size_t i = 0; i < l->n_border; i++) {
        const int64_t wanted = l->border[i];

        if (l->n > 0 && bsearch(&wanted, l->table, l->n, sizeof *l->table, by_value) != NULL)
            return tc_fail(err, TC_BAD_INPUT, "object_label: object %lld touches the border",
                           (long long)wanted);
    }
    return l->n + l->n_border == work->item->n_objects
               ? TC_OK
               : tc_fail(err, TC_BAD_INPUT,
                         "objects: %zu in the table and %zu at the border, but the item has %lu",
                         l->n, l->n_border, (unsigned long)work->item->n_objects);
}

/* --- objects --------------------------------------------------------------------------------- */

/* The objects that are measured again, in ascending order of their rows in the result's table, and
 * so of their labels. */
typedef struct sample {
    size_t n, row[MOST]; /* [n]: rows of the table */
    uint32_t label[MOST];
} sample;

/* How many of n objects are measured again. */
static size_t count_measured(size_t n)
{
    const size_t share = n / ONE_IN + MORE, wanted = share < LEAST ? LEAST : share;

    return tc_smaller(n, wanted < MOST ? wanted : MOST);
}

/* The octave of an object of this number of pixels. */
static int octave_of(uint32_t pixels)
{
    return 31 - __builtin_clz(pixels);
}

/* Sets wanted[i] to the number of objects of octave i that are measured again, given the numbers of
 * all its objects and of their pixels: about in proportion to the square root of the operations
 * that the octave takes. So no octave that takes much of the work is left out, be its objects few
 * and large or many and small. */
static void divide_sample(const an_work *work, size_t all, const size_t n[OCTAVES],
                          const double pixels[OCTAVES], uint64_t *random, size_t wanted[OCTAVES])
{
    size_t left = count_measured(all); /* objects to choose from octave i and those below */
    double weight[OCTAVES], sum = 0;

    for (int i = 0; i < OCTAVES; i++) {
        weight[i] = n[i] == 0 ? 0
                              : sqrt((double)n[i] * obj_object_flops(work->params, work->item,
                                                                     pixels[i] / (double)n[i]));
        sum += weight[i];
    }
    for (int i = OCTAVES - 1; i >= 0; i--) {
        const double share = n[i] == 0 ? 0 : (double)left * fmin(weight[i] / sum, 1);
        /* `share`, rounded up or down at random */
        const size_t part = (size_t)(share + 0x1p-64 * (double)tc_random(random));

        all -= n[i];
        sum -= weight[i];
        wanted[i] =
            tc_smaller(tc_larger(part, left - tc_smaller(left, all)), tc_smaller(n[i], left));
        left -= wanted[i];
    }
}

/* Chooses the objects of the sample: in each octave each set of objects is equally likely. */
static void choose_objects(const an_work *work, const object_labels *l, uint64_t *random, sample *s)
{
    size_t n[OCTAVES] = { 0 }, wanted[OCTAVES];
    double pixels[OCTAVES] = { 0 };

    for (size_t i = 0; i < l->n; i++) {
        const uint32_t area = l->pixels[l->table[i]];

        n[octave_of(area)]++;
        pixels[octave_of(area)] += area;
    }
    divide_sample(work, l->n, n, pixels, random, wanted);
    s->n = 0;
    for (size_t i = 0; i < l->n; i++) {
        const int octave = octave_of(l->pixels[l->table[i]]);

        if (tc_random_below(n[octave]--, random) < wanted[octave]) {
            wanted[octave]--;
            s->row[s->n] = i;
            s->label[s->n++] = (uint32_t)l->table[i];
        }
    }
}

/* Checks that row `row` of the claimed table and row k of the computed table are the same to the
 * bit. The first three arrays are not compared: they are the number of objects, and each row's item
 * and label. */
static tc_status compare_row(const wu_output *claimed, size_t row, const wu_output *computed,
                             size_t k, tc_err *err)
{
    for (size_t i = 3; i < claimed->n; i++) {
        const wu_out_array *const a = &claimed->arrays[i], *const b = &computed->arrays[i];
        const size_t bytes = (size_t)wu_declaration_elements(&a->declared) *
                             wu_dtype_size(a->info.dtype, a->info.width);

        if (memcmp((const char *)a->data + row * bytes, (const char *)b->data + k * bytes, bytes) !=
            0)
            return tc_fail(err, TC_NO_MATCH,
                           "%s: row %zu: differs when the object is measured again", a->info.name,
                           row);
    }
    return TC_OK;
}

/* Measures the sample's objects and makes their table. */
static tc_status measure_sample(const an_work *work, const sample *s, void *state,
                                wu_output *computed, tc_err *err)
{
    const uint32_t largest = work->pixels->largest_label;
    TC_AUTOFREE uint8_t *const chosen = calloc((size_t)largest + 1, 1);
    uint64_t done = 0;
    void *worker = NULL;
    tc_status status = TC_OK;

    if (chosen == NULL)
        return tc_no_memory(err, "the objects");
    for (size_t k = 0; k < s->n; k++)
        chosen[s->label[k]] = 1; /* check_labels has looked at the labels */
    return_if_error(obj_cpu.open(work, state, &worker, err));
    obj_host_choose(worker, chosen);
    do
        status = obj_cpu.step(worker, state, &done, err);
    while (status == TC_MORE);
    obj_cpu.close(&worker);
    return status == TC_OK ? obj_finish(work, 0, state, computed, err) : status;
}

/* Chooses some objects of the table, measures them again, and compares their rows. */
static tc_status check_objects(const an_work *work, const wu_output *out, const object_labels *l,
                               uint64_t *random, tc_err *err)
{
    sample s;
    wu_item item = *work->item;
    obj_params params = *(const obj_params *)work->params;
    an_work part = {
        .params = &params, .item = &item, .pixels = work->pixels, .threads = work->threads
    };
    wu_output computed = { .n = 0 };
    void *state = NULL;
    tc_status status = TC_OK;

    choose_objects(work, l, random, &s);
    item.n_objects = (uint32_t)s.n;
    params.exclude_border = false;
    if (s.n > 0)
        status = an_objects.plan(&params, &item, &part.plan, err);
    if (status == TC_OK && s.n > 0) {
        state = calloc(1, part.plan.state_bytes);
        status = state == NULL ? tc_no_memory(err, "objects")
                               : measure_sample(&part, &s, state, &computed, err);
    }
    for (size_t k = 0; status == TC_OK && k < s.n; k++)
        status = compare_row(out, s.row[k], &computed, k, err);
    wu_output_free(&computed);
    free(state);
    return status;
}

/* --- greys ----------------------------------------------------------------------------------- */

/* Checks that the grey values of random pixels of objects lie between minimum and maximum of their
 * object. */
static tc_status check_greys(const an_work *work, const wu_output *out, const object_labels *l,
                             uint64_t *random, tc_err *err)
{
    const wu_pixels *const px = work->pixels;
    const int64_t *const lo = wu_output_data(out, "object_intensity_min"),
                         *const hi = wu_output_data(out, "object_intensity_max");

    for (int k = 0; k < LOOKS; k++) {
        const size_t at = (size_t)tc_random_below((uint64_t)px->nx * px->ny * px->nz, random);
        const int64_t grey = wu_grey_value(px, at);
        size_t row = 0;
        bool found = false;

        return_if_error(find_row(l, px->labels[at], &row, &found, err));
        if (found && (grey < lo[row] || grey > hi[row]))
            return tc_fail(err, TC_BAD_INPUT,
                           "object_intensity_min: row %zu: pixel %zu of the object has grey value "
                           "%lld",
                           row, at, (long long)grey);
    }
    return TC_OK;
}

tc_status obj_check_pixels(const an_work *work, const wu_output *out, uint64_t *random, tc_err *err)
{
    const obj_params *const p = work->params;
    object_labels l = { .table = wu_output_data(out, "object_label"),
                        .n = (size_t)wu_output_find(out, "object_item")->info.shape[0] };
    const int64_t *const area =
        (p->families & OBJ_SHAPE) == 0
            ? NULL
            : wu_output_data(out, work->item->is_stack ? "object_voxels" : "object_area");
    tc_status status = count_pixels(work->pixels, &l, err);

    if (status == TC_OK && p->exclude_border)
        status = find_border(work, &l, err);
    if (status == TC_OK)
        status = check_labels(work, &l, area, err);
    if (status == TC_OK && (p->families & OBJ_INTENSITY) != 0)
        status = check_greys(work, out, &l, random, err);
    if (status == TC_OK)
        status = check_objects(work, out, &l, random, err);
    free(l.border);
    free(l.pixels);
    return status;
}

double obj_pixels_share(const an_work *work)
{
    const double n = work->item->n_objects, measured = (double)count_measured((size_t)n),
                 share = 0.008 + measured / fmax(n, 1);

    return fmin(work->item->nz > 1 ? STACKS * share : share, 1);
}
