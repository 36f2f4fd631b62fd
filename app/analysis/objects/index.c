/*
 * objects: finds the objects of a label picture or stack, and the runs of each object (a run is a
 * series of adjacent pixels with the same label in a row). A first pass over the labels counts the
 * runs and pixels of each label. A second pass puts the runs into an array, sorted by label; if
 * there are few runs, the first pass stores them, so that they need not be found again. Several
 * threads find the runs, each in a part of the rows; one thread then processes these runs, in the
 * order of the parts.
 */
#include <stdlib.h>
#include <string.h>

#include "app/analysis/objects/objects.h"
#include "app/base/pool.h"

enum {
    PARTS = 1,             /* number of parts for each thread in a call of index_rows */
    PART_PIXELS = 1 << 16, /* greatest number of pixels in a part; a row never has more */
    LABELS = 1 << 21,      /* greatest number of labels that a call of start_objects processes */
    LONG_RUN = 16          /* the first pass stores the runs if the picture has on average at least
                              this many pixels for each run */
};
/* A step ends after this time, in seconds. */
static const double STEP_SECONDS = 0.05;

/* The rows that a call of index_rows searches for runs. */
typedef struct index_step {
    obj_index *ix;
    uint64_t first, n; /* first row, numbered through all slices, and number of rows */
} index_step;

uint64_t obj_index_thread_bytes(void)
{
    return PARTS * (PART_PIXELS * sizeof(obj_run) + sizeof(uint32_t)) + 2 * sizeof(uint32_t);
}

/* Finds the runs of a row and returns their number. Most pixels are background, which is skipped by
 * comparing four labels at a time with 0. */
static uint32_t find_runs(const uint32_t *labels, uint32_t nx, uint64_t z, uint64_t y,
                          obj_run *runs)
{
    uint32_t n = 0;

    for (uint32_t x = 0; x < nx;) {
        const uint32_t x0 = x, label = labels[x];
        uint64_t two[2] = { 0, 0 };

        if (label != 0) {
            while (x < nx && labels[x] == label)
                x++;
            runs[n++] = OBJ_RUN(z, y, x0, x - 1);
            continue;
        }
        for (; nx - x >= 4 && (two[0] | two[1]) == 0; x += 4)
            memcpy(two, labels + x, sizeof two);
        /* The last four labels were not all 0: goes back to them. */
        x -= (two[0] | two[1]) != 0 ? 4 : 0;
        while (x < nx && labels[x] == 0)
            x++;
    }
    return n;
}

/* Updates ends[0] and ends[1], the least and the greatest grey value, with the pixels of the row
 * that begins at pixel `start`. */
static void update_grey_ends(const wu_pixels *px, size_t start, uint32_t *ends)
{
    for (size_t x = 0; x < px->nx; x++) {
        const uint32_t v = wu_grey_value(px, start + x);

        ends[0] = v < ends[0] ? v : ends[0];
        ends[1] = v > ends[1] ? v : ends[1];
    }
}

/* Keeps those of a row's n runs whose label is chosen. Returns their number. */
static uint32_t keep_chosen(const uint8_t *chosen, const uint32_t *labels, obj_run *runs,
                            uint32_t n)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < n; i++) {
        runs[kept] = runs[i];
        kept += chosen[labels[OBJ_RUN_X0(runs[i])]];
    }
    return kept;
}

/* Finds the runs of a part, and with OBJ_RANGE_IMAGE its least and greatest grey value. */
static void index_part(void *user, unsigned thread, size_t part)
{
    const index_step *const s = user;
    obj_index *const ix = s->ix;
    const wu_pixels *const px = ix->o->pixels;
    const uint64_t from = s->first + part * ix->rows, end = s->first + s->n,
                   to = end - from < ix->rows ? end : from + ix->rows;
    obj_run *const runs = ix->part_runs + part * PART_PIXELS;
    uint32_t n = 0;

    for (uint64_t row = from; row < to; row++) {
        const uint32_t *const labels = px->labels + row * px->nx;
        const uint32_t found = find_runs(labels, px->nx, row / px->ny, row % px->ny, runs + n);

        n += ix->chosen == NULL ? found : keep_chosen(ix->chosen, labels, runs + n, found);
        if (ix->pass == 0 && ix->o->params->range == OBJ_RANGE_IMAGE)
            update_grey_ends(px, row * px->nx, ix->ends + (size_t)2 * thread);
    }
    ix->n_part_runs[part] = n;
}

/* Puts n runs into ix->runs, each at the index ix->next[label], which it increases. Must be called
 * in raster order, since each object's runs are in this order. */
static void place_runs(obj_index *ix, const obj_run *runs, size_t n)
{
    const wu_pixels *const px = ix->o->pixels;

    for (size_t i = 0; i < n; i++)
        ix->runs[ix->next[obj_labels(px, OBJ_RUN_Z(runs[i]),
                                     OBJ_RUN_Y(runs[i]))[OBJ_RUN_X0(runs[i])]]++] = runs[i];
}

/* Adds n runs to the numbers of runs and pixels of their labels, and stores the runs as long as all
 * fit. */
static void count_runs(obj_index *ix, const obj_run *runs, size_t n)
{
    const wu_pixels *const px = ix->o->pixels;

    for (size_t i = 0; i < n; i++) {
        const uint32_t label =
            obj_labels(px, OBJ_RUN_Z(runs[i]), OBJ_RUN_Y(runs[i]))[OBJ_RUN_X0(runs[i])];

        ix->next[label]++;
        ix->pixels[label] += OBJ_RUN_X1(runs[i]) - OBJ_RUN_X0(runs[i]) + 1;
    }
    ix->n_runs += n;
    if (ix->n_runs <= ix->max_stored)
        memcpy(ix->stored_runs + ix->n_runs - n, runs, n * sizeof *runs);
}

/* Allocates the memory of the index, and prepares the first pass. */
static tc_status begin_index(obj_index *ix, obj_item *o, unsigned threads, tc_err *err)
{
    const size_t labels = (size_t)o->pixels->largest_label + 1, parts = (size_t)PARTS * threads;

    ix->o = o;
    ix->n = o->item->n_objects;
    ix->rows = PART_PIXELS / o->pixels->nx;
    ix->next = calloc(labels, sizeof *ix->next);
    ix->pixels = calloc(labels, sizeof *ix->pixels);
    ix->label = malloc(((size_t)ix->n + 1) * sizeof *ix->label);
    ix->area = malloc(((size_t)ix->n + 1) * sizeof *ix->area);
    ix->start = malloc(((size_t)ix->n + 1) * sizeof *ix->start);
    ix->ends = malloc(2 * (size_t)threads * sizeof *ix->ends);
    ix->part_runs = malloc(parts * PART_PIXELS * sizeof *ix->part_runs);
    ix->n_part_runs = malloc(parts * sizeof *ix->n_part_runs);
    ix->max_stored = (size_t)o->pixels->nz * o->pixels->ny * o->pixels->nx / LONG_RUN;
    ix->stored_runs = malloc((ix->max_stored + 1) * sizeof *ix->stored_runs);
    if (ix->next == NULL || ix->pixels == NULL || ix->label == NULL || ix->area == NULL ||
        ix->start == NULL || ix->ends == NULL || ix->part_runs == NULL || ix->n_part_runs == NULL ||
        ix->stored_runs == NULL)
        return tc_no_memory(err, "the objects");
    for (size_t t = 0; t < threads; t++) {
        ix->ends[2 * t] = 65535;
        ix->ends[2 * t + 1] = 0;
    }
    return TC_OK;
}

/* Called when all runs are counted: lists the objects by ascending label, and computes at which
 * index of ix->runs the runs of each object begin. Processes up to LABELS labels; returns TC_MORE
 * if it must be called again. */
static tc_status start_objects(obj_index *ix, obj_item *o, unsigned threads, tc_err *err)
{
    const uint32_t last = o->pixels->largest_label,
                   end = last - ix->labels_done < LABELS ? last : ix->labels_done + LABELS;

    for (uint32_t label = ix->labels_done + 1; label <= end; label++) {
        const uint32_t count = ix->next[label], n = ix->objects_placed;

        if (count == 0)
            continue;
        if (n == ix->n)
            return tc_fail(err, TC_INTERNAL, "there are more objects than were counted");
        ix->label[n] = label;
        ix->area[n] = ix->pixels[label];
        ix->largest = ix->area[n] > ix->largest ? ix->area[n] : ix->largest;
        ix->start[n] = ix->next[label] = ix->runs_placed;
        ix->runs_placed += count;
        ix->objects_placed++;
    }
    ix->labels_done = end;
    if (end < last)
        return TC_MORE;
    ix->n = ix->objects_placed;
    ix->start[ix->n] = ix->runs_placed;
    ix->runs = malloc(((size_t)ix->runs_placed + 1) * sizeof *ix->runs);
    o->lo = 65535;
    for (size_t t = 0; t < threads; t++) {
        o->lo = ix->ends[2 * t] < o->lo ? ix->ends[2 * t] : o->lo;
        o->hi = ix->ends[2 * t + 1] > o->hi ? ix->ends[2 * t + 1] : o->hi;
    }
    return ix->runs == NULL ? tc_no_memory(err, "the objects") : TC_OK;
}

/* Frees the memory that only the making of the index needs. */
static void free_scratch(obj_index *ix)
{
    free(ix->next);
    free(ix->pixels);
    free(ix->ends);
    free(ix->part_runs);
    free(ix->n_part_runs);
    free(ix->stored_runs);
    ix->next = ix->pixels = ix->ends = ix->n_part_runs = NULL;
    ix->part_runs = ix->stored_runs = NULL;
}

/* Finds the runs in the next rows, as many as the parts have room for, and counts or places them.
 */
static void index_rows(obj_index *ix, uint64_t rows, an_pool *pool, unsigned threads)
{
    index_step s = { .ix = ix, .first = ix->rows_done, .n = (uint64_t)PARTS * threads * ix->rows };
    size_t parts;

    s.n = rows - s.first < s.n ? rows - s.first : s.n;
    parts = (size_t)((s.n + ix->rows - 1) / ix->rows);
    an_pool_run(pool, index_part, &s, parts);
    for (size_t i = 0; i < parts; i++)
        (ix->pass == 0 ? count_runs : place_runs)(ix, ix->part_runs + i * PART_PIXELS,
                                                  ix->n_part_runs[i]);
    ix->rows_done += s.n;
}

tc_status obj_index_step(obj_index *ix, obj_item *o, an_pool *pool, unsigned threads, tc_err *err)
{
    const uint64_t rows = (uint64_t)o->pixels->ny * o->pixels->nz;
    const double start = tc_seconds();
    tc_status status = ix->o == NULL ? begin_index(ix, o, threads, err) : TC_OK;

    if (status != TC_OK)
        return status;
    while (ix->rows_done < rows) {
        index_rows(ix, rows, pool, threads);
        if (tc_seconds() - start > STEP_SECONDS && ix->rows_done < rows)
            return TC_MORE;
    }
    if (ix->pass == 0) {
        status = start_objects(ix, o, threads, err);
        if (status != TC_OK)
            return status;
        ix->pass = 1;
        if (ix->n_runs > ix->max_stored)
            ix->rows_done = 0;
        return TC_MORE;
    }
    while (ix->n_runs <= ix->max_stored && ix->stored_placed < ix->n_runs) {
        const size_t n = ix->n_runs - ix->stored_placed < PART_PIXELS
                             ? ix->n_runs - ix->stored_placed
                             : PART_PIXELS;

        place_runs(ix, ix->stored_runs + ix->stored_placed, n);
        ix->stored_placed += n;
        if (tc_seconds() - start > STEP_SECONDS && ix->stored_placed < ix->n_runs)
            return TC_MORE;
    }
    free_scratch(ix);
    return TC_OK;
}

void obj_index_free(obj_index *ix)
{
    free_scratch(ix);
    free(ix->label);
    free(ix->area);
    free(ix->start);
    free(ix->runs);
    *ix = (obj_index){ .o = NULL };
}
