/*
 * objects: checks the arrays of an item's result against the item's pixels. Some objects, chosen at
 * random, are measured again and must have the same values. The grey values of random pixels are
 * compared with the range that the result's table states.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/objects/objects.h"
#include "app/analysis/analyses.h"
#include "app/base/random.h"

enum {
    /* The objects that are measured again: BY_PIXELS objects are chosen by random pixels, so that
     * an object of half of all pixels is missed with a probability of 1 / 64. In addition one in
     * ONE_IN objects, but at least LEAST, is chosen at random. In total they are at most MOST. */
    BY_PIXELS = 6,
    ONE_IN = 10,
    LEAST = 6,
    MOST = 64,

    TRIES = 1 << 14, /* greatest number of random pixels drawn until one belongs to an object */
    REPEATS = 256,   /* and how many of them may belong to objects that were chosen before */
    LOOKS = 512      /* number of random pixels whose grey values are compared */
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

/* Checks the labels of the table: with exclude_border it has those of the item's objects that do
 * not touch the border, otherwise as many as the item has. */
static tc_status check_labels(const an_work *work, const object_labels *l, tc_err *err)
{
    if (l->n > 0 && l->table[l->n - 1] > work->pixels->largest_label)
        return tc_fail(err, TC_BAD_INPUT, "object_label: no pixel has label %lld",
                       (long long)l->table[l->n - 1]);
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

static int by_row(const void *a, const void *b)
{
    const size_t x = *(const size_t *)a, y = *(const size_t *)b;

    return (x > y) - (x < y);
}

/* Whether `row` is among the n rows. */
static bool is_taken(const size_t *rows, size_t n, size_t row)
{
    for (size_t i = 0; i < n; i++)
        if (rows[i] == row)
            return true;
    return false;
}

/* Sets *row to the row of the object that a random pixel belongs to, so that large objects are
 * chosen more often, and that is not among the n rows of `taken`; to a random row if none is found.
 */
static tc_status row_of_pixel(const wu_pixels *px, const object_labels *l, const size_t *taken,
                              size_t n, uint64_t *random, size_t *row, tc_err *err)
{
    bool found = false;

    for (int k = 0, repeated = 0; k < TRIES && repeated < REPEATS && !found; k++) {
        return_if_error(
            find_row(l, px->labels[tc_random_below((uint64_t)px->nx * px->ny * px->nz, random)],
                     row, &found, err));
        if (found && is_taken(taken, n, *row)) {
            repeated++;
            found = false;
        }
    }
    if (!found)
        *row = (size_t)tc_random_below(l->n, random);
    return TC_OK;
}

/* How many of n objects are measured again. */
static size_t count_measured(size_t n)
{
    const size_t share = n / ONE_IN < LEAST ? LEAST : n / ONE_IN,
                 wanted = share + BY_PIXELS > MOST ? MOST : share + BY_PIXELS;

    return wanted < n ? wanted : n;
}

/* Chooses the objects of the sample: BY_PIXELS of them by random pixels, the others by random rows.
 */
static tc_status choose_objects(const wu_pixels *px, const object_labels *l, uint64_t *random,
                                sample *s, tc_err *err)
{
    s->n = count_measured(l->n);
    for (size_t k = 0; k < s->n; k++) {
        if (k < BY_PIXELS)
            return_if_error(row_of_pixel(px, l, s->row, k, random, &s->row[k], err));
        else
            s->row[k] = (size_t)tc_random_below(l->n, random);
        while (is_taken(s->row, k, s->row[k]))
            s->row[k] = (size_t)tc_random_below(l->n, random);
    }
    qsort(s->row, s->n, sizeof *s->row, by_row);
    for (size_t k = 0; k < s->n; k++)
        s->label[k] = (uint32_t)l->table[s->row[k]];
    return TC_OK;
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
    const size_t row_bytes = obj_row_bytes(work->params, work->item);
    TC_AUTOFREE uint8_t *const chosen = calloc((size_t)largest + 1, 1);
    uint64_t done = 0;
    void *worker = NULL;
    tc_status status = TC_OK;

    if (chosen == NULL)
        return tc_no_memory(err, "the objects");
    for (size_t k = 0; k < s->n; k++)
        chosen[s->label[k]] = 1; /* check_labels has compared the greatest label with `largest` */
    return_if_error(obj_cpu.open(work, state, &worker, err));
    obj_host_choose(worker, chosen);
    do
        status = obj_cpu.step(worker, state, &done, err);
    while (status == TC_MORE);
    obj_cpu.close(&worker);
    /* The state has the objects that were found, in the order of the labels. */
    for (size_t k = 0; status == TC_OK && k < s->n; k++)
        if (obj_row_of_const(state, row_bytes, k)->label != s->label[k])
            return tc_fail(err, TC_BAD_INPUT, "object_label: no pixel has label %lu",
                           (unsigned long)s->label[k]);
    return status == TC_OK ? obj_finish(work, 0, state, computed, err) : status;
}

/* Chooses some objects of the table, measures them again, and compares their rows. */
static tc_status check_objects(const an_work *work, const wu_output *out, const object_labels *l,
                               uint64_t *random, tc_err *err)
{
    sample s = { .n = 0 };
    wu_item item = *work->item;
    obj_params params = *(const obj_params *)work->params;
    an_work part = {
        .params = &params, .item = &item, .pixels = work->pixels, .threads = work->threads
    };
    wu_output computed = { .n = 0 };
    void *state = NULL;
    tc_status status = choose_objects(work->pixels, l, random, &s, err);

    item.n_objects = (uint32_t)s.n;
    params.exclude_border = false;
    if (status == TC_OK && s.n > 0)
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
    tc_status status = p->exclude_border ? find_border(work, &l, err) : TC_OK;

    if (status == TC_OK)
        status = check_labels(work, &l, err);
    if (status == TC_OK && (p->families & OBJ_INTENSITY) != 0)
        status = check_greys(work, out, &l, random, err);
    if (status == TC_OK)
        status = check_objects(work, out, &l, random, err);
    free(l.border);
    return status;
}

double obj_pixels_share(const an_work *work)
{
    const double n = work->item->n_objects, measured = (double)count_measured((size_t)n),
                 share = 0.008 + measured / fmax(n, 1);

    return fmin(work->item->nz > 1 ? STACKS * share : share, 1);
}
