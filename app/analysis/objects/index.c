/*
 * objects: which objects there are, and the runs of each. One pass over the labels counts
 * runs and pixels of each label, a second puts the runs where they belong. Threads
 * take rows, so an object's runs come in any order.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "app/analysis/objects/objects.h"
#include "app/base/pool.h"

enum { ROWS = 16 };            /* of a part */

typedef struct index_step {
    obj_index *ix;
    uint64_t first, n;         /* rows of all slices */
} index_step;

static void take_run(obj_index *ix, uint32_t label, uint64_t row, uint32_t x0, uint32_t x1)
{
    const uint32_t ny = ix->o->pixels->ny;

    if (ix->pass == 0) {
        atomic_fetch_add_explicit(&ix->next[label], 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&ix->pixels[label], x1 - x0 + 1, memory_order_relaxed);
    } else {
        ix->runs[atomic_fetch_add_explicit(&ix->next[label], 1, memory_order_relaxed)] =
            OBJ_RUN(row / ny, row % ny, x0, x1);
    }
}

static void grey_ends(const wu_pixels *px, size_t at, uint32_t *ends)
{
    for (size_t x = 0; x < px->nx; x++) {
        const uint32_t v = obj_grey(px, at + x);

        ends[0] = v < ends[0] ? v : ends[0];
        ends[1] = v > ends[1] ? v : ends[1];
    }
}

static void index_rows(void *user, unsigned thread, size_t part)
{
    const index_step *const s = user;
    const wu_pixels *const px = s->ix->o->pixels;
    const uint64_t from = part * ROWS, to = s->n - from < ROWS ? s->n : from + ROWS;

    for (uint64_t row = s->first + from; row < s->first + to; row++) {
        const uint32_t *const labels = px->labels + row * px->nx;

        for (uint32_t x = 0; x < px->nx;) {
            const uint32_t x0 = x, label = labels[x];

            while (x < px->nx && labels[x] == label)
                x++;
            if (label != 0)
                take_run(s->ix, label, row, x0, x - 1);
        }
        if (s->ix->pass == 0 && s->ix->o->params->range == OBJ_RANGE_IMAGE)
            grey_ends(px, row * px->nx, s->ix->ends + (size_t)2 * thread);
    }
}

static tc_status begin(obj_index *ix, obj_item *o, unsigned threads, tc_err *err)
{
    const size_t labels = (size_t)o->pixels->largest_label + 1;

    ix->o = o;
    ix->n = o->item->n_objects;
    ix->batch = 16;
    ix->next = calloc(labels, sizeof *ix->next);
    ix->pixels = calloc(labels, sizeof *ix->pixels);
    ix->label = malloc(((size_t)ix->n + 1) * sizeof *ix->label);
    ix->area = malloc(((size_t)ix->n + 1) * sizeof *ix->area);
    ix->start = malloc(((size_t)ix->n + 1) * sizeof *ix->start);
    ix->ends = malloc(2 * (size_t)threads * sizeof *ix->ends);
    if (ix->next == NULL || ix->pixels == NULL || ix->label == NULL || ix->area == NULL || ix->start == NULL ||
        ix->ends == NULL)
        return tc_no_memory(err, "the objects");
    for (size_t t = 0; t < threads; t++) {
        ix->ends[2 * t] = 65535;
        ix->ends[2 * t + 1] = 0;
    }
    return TC_OK;
}

/* All is counted: objects in the order of their labels, and where their runs go. */
static tc_status place(obj_index *ix, obj_item *o, unsigned threads, tc_err *err)
{
    uint32_t runs = 0, n = 0;

    for (uint32_t label = 1; label <= o->pixels->largest_label; label++) {
        const uint32_t count = ix->next[label];

        if (count == 0)
            continue;
        if (n == ix->n)
            return tc_fail(err, TC_INTERNAL, "there are more objects than were counted");
        ix->label[n] = label;
        ix->area[n] = ix->pixels[label];
        ix->start[n++] = runs;
        ix->next[label] = runs;
        runs += count;
    }
    ix->n = n;
    ix->start[n] = runs;
    ix->runs = malloc(((size_t)runs + 1) * sizeof *ix->runs);
    o->lo = 65535;
    for (size_t t = 0; t < threads; t++) {
        o->lo = ix->ends[2 * t] < o->lo ? ix->ends[2 * t] : o->lo;
        o->hi = ix->ends[2 * t + 1] > o->hi ? ix->ends[2 * t + 1] : o->hi;
    }
    return ix->runs == NULL ? tc_no_memory(err, "the objects") : TC_OK;
}

tc_status obj_index_step(obj_index *ix, obj_item *o, an_pool *pool, unsigned threads, tc_err *err)
{
    const uint64_t rows = (uint64_t)o->pixels->ny * o->pixels->nz;
    const double start = tc_seconds();
    tc_status st = ix->o == NULL ? begin(ix, o, threads, err) : TC_OK;
    index_step s = { .ix = ix, .first = ix->rows_done };
    uint64_t parts;

    if (st != TC_OK)
        return st;
    s.n = rows - ix->rows_done < ix->batch * ROWS ? rows - ix->rows_done : ix->batch * ROWS;
    parts = (s.n + ROWS - 1) / ROWS;
    an_pool_run(pool, index_rows, &s, parts);
    ix->batch = an_next_batch(ix->batch, parts, threads, tc_seconds() - start);
    ix->rows_done += s.n;
    if (ix->rows_done < rows)
        return TC_MORE;
    ix->rows_done = 0;
    if (ix->pass++ > 0) {
        free(ix->next);
        free(ix->pixels);
        ix->next = ix->pixels = NULL;
        return TC_OK;
    }
    st = place(ix, o, threads, err);
    return st == TC_OK ? TC_MORE : st;
}

void obj_index_free(obj_index *ix)
{
    free(ix->next);
    free(ix->pixels);
    free(ix->label);
    free(ix->area);
    free(ix->start);
    free(ix->runs);
    free(ix->ends);
    *ix = (obj_index){ .o = NULL };
}

static int compare_runs(const void *a, const void *b)
{
    const obj_run r = *(const obj_run *)a, s = *(const obj_run *)b;

    return (r > s) - (r < s);
}

void obj_index_sort(obj_index *ix, size_t object)
{
    obj_run *const runs = ix->runs + ix->start[object];
    const size_t n = ix->start[object + 1] - ix->start[object];

    for (size_t i = 1; i < n; i++)
        if (runs[i] < runs[i - 1]) {
            qsort(runs, n, sizeof *runs, compare_runs);
            return;
        }
}
