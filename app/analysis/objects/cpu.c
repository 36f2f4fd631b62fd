/*
 * objects: the CPU backend. An object is stored as runs: pixels that follow each other in a row. A
 * small object is measured completely by one thread. A large object, or one that was begun before a
 * checkpoint, is measured by all threads together: each thread processes some of the object's runs.
 * In both cases a step takes about a tenth of a second.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/objects/core.h"
#include "app/analysis/objects/objects.h"
#include "app/base/pool.h"

enum {
    LARGE = 1 << 18,        /* least number of pixels of a large object */
    STEP_OBJECTS = 1 << 16, /* greatest number of small objects that a step measures */
    PART_PIXELS = 1 << 16,  /* approximate number of pixels in a part of a large object */
    PART_RUNS = 64          /* greatest number of runs in a part of a large object */
};

/* The memory of one thread. */
typedef struct scratch {
    uint8_t *rows; /* scratch memory of obj_sums_add */
    obj_sums sums;
    obj_grey_sums grey;
    obj_pairs pairs;
} scratch;

/* The passes over the runs of a large object. Each pass is done in parts; end_pass then merges the
 * threads' results. */
typedef enum large_pass {
    MEASURE,  /* sums for shape and intensity */
    OUTLINE,  /* convex hull and pieces, for pictures with OBJ_SHAPE */
    QUANTISE, /* grey levels of the texture */
    PAIRS     /* co-occurrence matrix; repeated for each direction of each distance */
} large_pass;

typedef struct large_object {
    bool is_begun; /* this worker has begun the object */
    large_pass pass;
    size_t direction;    /* the current direction, in pass PAIRS */
    uint64_t run;        /* index of the first run that the current pass has not done */
    obj_texture texture; /* the features for the current distance */
} large_object;

typedef struct cpu_worker {
    const an_work *work;
    const obj_params *params;
    obj_item o;      /* the item's sizes and tables, which most obj_ functions need */
    obj_index index; /* the runs of each object */
    bool has_index;  /* the index is complete */
    an_pool *pool;
    scratch *scratch;      /* [threads] */
    obj_outline *outlines; /* [threads]: for pictures with OBJ_SHAPE, otherwise NULL */
    void *state;
    uint64_t object;    /* index of the first object that is not complete; updated after a step */
    uint64_t chunk;     /* the next chunk (see obj_chunks) of that object */
    large_object large; /* the progress of that object, if it is large or chunk > 0 */
    uint64_t first_run; /* in this step: the first run of part 0 */
    uint64_t run_step;  /* in this step: the number of runs of a part */
} cpu_worker;

static bool has_outline(const cpu_worker *w)
{
    return w->outlines != NULL;
}

static obj_row *row_at(const cpu_worker *w, uint64_t object)
{
    return obj_row_of(w->state, w->o.row_bytes, object);
}

/* Returns an object's runs, and sets *n to their number. */
static const obj_run *runs_of(const cpu_worker *w, uint64_t object, size_t *n)
{
    *n = w->index.start[object + 1] - w->index.start[object];
    return w->index.runs + w->index.start[object];
}

/* --- an object's columns --------------------------------------------------------------------- */

/* Writes the object's row, except for the texture, from the sums in *s; then clears the sums. */
static void write_measures(const cpu_worker *w, uint64_t object, scratch *s, obj_outline *outline)
{
    obj_row *const row = row_at(w, object);
    uint64_t *word = row->words;

    row->label = w->index.label[object];
    row->border = obj_at_border(&w->o, &s->sums);
    obj_grey_range(&s->grey, &row->lo, &row->hi);
    if ((w->params->families & OBJ_SHAPE) != 0)
        word = obj_put_shape(&w->o, &s->sums, outline, word);
    if ((w->params->families & OBJ_INTENSITY) != 0)
        obj_put_intensity(&w->o, &s->grey, s->sums.area, word);
    obj_grey_clear(&s->grey);
    obj_sums_clear(&s->sums);
}

/* The displacement between the pixels of a pair. distance, direction: indices in
 * obj_params.distances and in obj_directions. */
static obj_step step_of(const cpu_worker *w, size_t distance, size_t direction)
{
    const int d = w->params->distances[distance];
    const int32_t *const s = obj_directions[direction];

    return (obj_step){ d * s[0], d * s[1], d * s[2] };
}

/* Called when all pairs of a direction are in the matrix `pairs`: adds the features of the matrix
 * to *texture, and clears the matrix. With `merge` all directions are counted in the same matrix,
 * whose features are added only after the last direction. */
static void end_direction(const cpu_worker *w, size_t direction, obj_pairs *pairs,
                          obj_texture *texture)
{
    cooc_sums sums;

    if (w->params->merge && direction + 1 < obj_n_directions(&w->o))
        return;
    obj_pairs_to_sums(&w->o, pairs, &sums);
    obj_texture_add(&w->o, texture, &sums);
}

/* Measures an object, and writes its row except for the texture. */
static void measure_object(void *user, unsigned thread, size_t part)
{
    cpu_worker *const w = user;
    scratch *const s = &w->scratch[thread];
    obj_outline *const outline = has_outline(w) ? &w->outlines[thread] : NULL;
    const uint64_t object = w->object + part;
    size_t n;
    const obj_run *const runs = runs_of(w, object, &n);

    obj_sums_add(&w->o, runs, n, s->rows, &s->sums);
    obj_grey_add(&w->o, runs, n, &s->grey);
    if (outline != NULL) {
        obj_outline_clear(outline);
        obj_outline_add(outline, runs, n);
    }
    write_measures(w, object, s, outline);
}

/* Computes all columns of the small object w->object + part. */
static void do_small_object(void *user, unsigned thread, size_t part)
{
    cpu_worker *const w = user;
    scratch *const s = &w->scratch[thread];
    obj_row *const row = row_at(w, w->object + part);
    size_t n;
    const obj_run *const runs = runs_of(w, w->object + part, &n);
    const obj_levels levels = obj_levels_of(&w->o);
    uint64_t area;
    bool boxed; /* the object's levels are in an array of their own, which makes pairs cheap */

    measure_object(w, thread, part);
    if (obj_chunks(w->params) == 1 /* without texture */ || !obj_is_kept(w->params, row))
        return;
    area = w->index.area[w->object + part];
    boxed = obj_box_fill(&w->o, runs, n, area, row->lo, row->hi, &s->pairs);
    if (!boxed)
        obj_quantise(&w->o, runs, n, row->lo, row->hi, &levels);
    obj_pairs_begin(&w->o, &s->pairs, area);
    for (size_t d = 0; d < w->params->n_distances; d++) {
        obj_texture texture = { .directions = 0 };

        for (size_t direction = 0; direction < obj_n_directions(&w->o); direction++) {
            const obj_step step = step_of(w, d, direction);

            if (boxed)
                obj_pairs_add_box(runs, n, area, step, &s->pairs);
            else
                obj_pairs_add(&levels, runs, n, 0, n, step, &s->pairs);
            end_direction(w, direction, &s->pairs, &texture);
        }
        obj_put_texture(&w->o, &texture, d, row);
    }
}

/* --- a large object -------------------------------------------------------------------------- */

/* Processes a part (w->run_step runs) of a large object in the current pass. */
static void do_large_part(void *user, unsigned thread, size_t part)
{
    cpu_worker *const w = user;
    scratch *const s = &w->scratch[thread];
    const obj_row *const row = row_at(w, w->object);
    size_t n, first = (size_t)(w->first_run + part * w->run_step), n_part;
    const obj_run *const all_runs = runs_of(w, w->object, &n), *const runs = all_runs + first;
    const obj_levels levels = obj_levels_of(&w->o);

    n_part = n - first < w->run_step ? n - first : (size_t)w->run_step;
    if (w->large.pass == MEASURE) {
        obj_sums_add(&w->o, runs, n_part, s->rows, &s->sums);
        obj_grey_add(&w->o, runs, n_part, &s->grey);
    } else if (w->large.pass == OUTLINE) {
        obj_outline_add(&w->outlines[0], runs, n_part);
    } else if (w->large.pass == QUANTISE) {
        obj_quantise(&w->o, runs, n_part, row->lo, row->hi, &levels);
    } else {
        obj_pairs_begin(&w->o, &s->pairs, w->index.area[w->object]);
        obj_pairs_add(&levels, all_runs, n, first, n_part,
                      step_of(w, (size_t)w->chunk - 1, w->large.direction), &s->pairs);
    }
}

/* Completes a pass after its last part: merges the threads' results into those of thread 0. Then
 * sets the next pass. Returns whether a chunk of the object is complete. */
static bool end_pass(cpu_worker *w)
{
    large_object *const g = &w->large;
    scratch *const first = &w->scratch[0];

    for (unsigned t = 0; g->pass == PAIRS && t < w->work->threads; t++)
        /* A thread without a part has not begun its matrix, which may still be listed. */
        obj_pairs_begin(&w->o, &w->scratch[t].pairs, w->index.area[w->object]);
    for (unsigned t = 1; t < w->work->threads; t++) {
        scratch *const s = &w->scratch[t];

        if (g->pass == MEASURE) {
            obj_sums_merge(&first->sums, &s->sums);
            obj_sums_clear(&s->sums);
            obj_grey_merge(&first->grey, &s->grey);
        } else if (g->pass == PAIRS) {
            obj_pairs_merge(&first->pairs, &s->pairs);
        }
    }
    g->run = 0;
    if (g->pass == MEASURE && has_outline(w)) {
        obj_outline_clear(&w->outlines[0]);
        g->pass = OUTLINE;
        return false;
    }
    if (g->pass == MEASURE || g->pass == OUTLINE) {
        write_measures(w, w->object, first, has_outline(w) ? &w->outlines[0] : NULL);
        g->pass = QUANTISE;
        return true;
    }
    if (g->pass == QUANTISE) {
        g->pass = PAIRS;
        return false;
    }
    end_direction(w, g->direction, &first->pairs, &g->texture);
    if (++g->direction < obj_n_directions(&w->o))
        return false;
    obj_put_texture(&w->o, &g->texture, (size_t)w->chunk - 1, row_at(w, w->object));
    g->texture = (obj_texture){ .directions = 0 };
    g->direction = 0;
    return true;
}

/* Measures a large object further, for a step. Returns whether all chunks of the object are done.
 */
static bool do_large_step(cpu_worker *w)
{
    large_object *const g = &w->large;
    const double end = tc_seconds() + AN_STEP_SECONDS;
    const uint64_t area = w->index.area[w->object];
    uint64_t parts = 0, left;
    size_t n;

    runs_of(w, w->object, &n);
    if (!g->is_begun)
        *g = (large_object){ .is_begun = true, .pass = w->chunk == 0 ? MEASURE : QUANTISE };
    /* A part has about PART_PIXELS pixels if runs are of average length, but not more than
     * PART_RUNS runs, as some may be much longer. */
    w->run_step = (uint64_t)PART_PIXELS * n / area;
    w->run_step = w->run_step < 1 ? 1 : w->run_step > PART_RUNS ? PART_RUNS : w->run_step;
    w->first_run = g->run;
    left = (n - g->run + w->run_step - 1) / w->run_step;
    if (g->pass != OUTLINE)
        parts = an_pool_run_until(w->pool, do_large_part, w, left, end);
    else /* this thread alone adds the runs, in raster order */
        do
            do_large_part(w, 0, parts++);
        while (parts < left && tc_seconds() < end);
    g->run += parts * w->run_step;
    if (parts < left)
        return false;
    if (end_pass(w))
        w->chunk++;
    /* An object that will not be in the table gets no texture. */
    if (w->chunk == 1 && !obj_is_kept(w->params, row_at(w, w->object)))
        w->chunk = obj_chunks(w->params);
    return w->chunk == obj_chunks(w->params);
}

/* --- the worker ------------------------------------------------------------------------------ */

static void cpu_close(void **worker)
{
    cpu_worker *const w = *worker;

    *worker = NULL;
    if (w == NULL)
        return;
    an_pool_destroy(&w->pool);
    for (unsigned t = 0; t < w->work->threads; t++) {
        if (w->scratch != NULL) {
            free(w->scratch[t].rows);
            obj_grey_free(&w->scratch[t].grey);
            obj_pairs_free(&w->scratch[t].pairs);
        }
        if (w->outlines != NULL)
            obj_outline_free(&w->outlines[t]);
    }
    free(w->scratch);
    free(w->outlines);
    free(w->o.quantised);
    tc_logs_free(&w->o.logs);
    obj_index_free(&w->index);
    free(w);
}

static tc_status open_scratch(cpu_worker *w, tc_err *err)
{
    const wu_item *const item = w->work->item;
    const bool texture = (w->params->families & OBJ_TEXTURE) != 0;
    const bool outline = (w->params->families & OBJ_SHAPE) != 0 && w->o.dims == 2;

    w->scratch = calloc(w->work->threads, sizeof *w->scratch);
    w->outlines = outline ? calloc(w->work->threads, sizeof *w->outlines) : NULL;
    w->o.quantised = texture ? calloc((size_t)item->nx * item->ny * item->nz, 1) : NULL;
    if (w->scratch == NULL || (outline && w->outlines == NULL) ||
        (texture && w->o.quantised == NULL))
        return tc_no_memory(err, "objects");
    for (unsigned t = 0; t < w->work->threads; t++) {
        scratch *const s = &w->scratch[t];

        obj_sums_clear(&s->sums);
        s->rows = malloc(obj_rows_bytes(item));
        return_if_error(s->rows == NULL ? tc_no_memory(err, "objects")
                                        : obj_grey_init(&s->grey, err));
        if (texture)
            return_if_error(obj_pairs_init(w->params, &s->pairs, err));
        if (outline)
            return_if_error(obj_outline_init(item, &w->outlines[t], err));
    }
    return TC_OK;
}

static tc_status cpu_open(const an_work *work, const void *state, void **worker, tc_err *err)
{
    cpu_worker *const w = calloc(1, sizeof *w);
    const uint64_t done = ((const an_state_head *)state)->chunks_done;
    tc_status status;

    *worker = w;
    if (w == NULL)
        return tc_no_memory(err, "objects");
    w->work = work;
    w->params = work->params;
    w->o = (obj_item){ .params = work->params,
                       .item = work->item,
                       .pixels = work->pixels,
                       .dims = work->item->is_stack ? 3 : 2,
                       .row_bytes = obj_row_bytes(work->params, work->item),
                       .texture_at = obj_texture_at(work->params, work->item) };
    /* The item's first chunk finds the objects, so obj_chunks counts from the second chunk on. */
    w->object = done == 0 ? 0 : (done - 1) / obj_chunks(w->params);
    w->chunk = done == 0 ? 0 : (done - 1) % obj_chunks(w->params);
    obj_mesh_init(work->item->spacing, &w->o.mesh);
    status = open_scratch(w, err);
    if (status == TC_OK)
        status = an_pool_create(work->threads, &w->pool, err);
    if (status != TC_OK)
        cpu_close(worker);
    return status;
}

/* Returns the number of successive objects, from w->object on, that have fewer than `large` pixels
 * each; at most `most`. Returns 0 if w->object has been begun, or if the objects have not been
 * found yet. */
static uint64_t count_small(const cpu_worker *w, uint32_t large, uint64_t most)
{
    uint64_t n = 0;

    if (!w->has_index || w->chunk > 0 || w->large.is_begun)
        return 0;
    while (n < most && w->object + n < w->index.n && w->index.area[w->object + n] < large)
        n++;
    return n;
}

/* Sets chunks_done in the state's head, and *chunks_done. Returns TC_OK if all objects are done,
 * otherwise TC_MORE. */
static tc_status report_progress(cpu_worker *w, uint64_t *chunks_done)
{
    an_state_head *const head = w->state;

    if (w->has_index)
        head->chunks_done = 1 + w->object * obj_chunks(w->params) + w->chunk;
    *chunks_done = head->chunks_done;
    return w->has_index && w->object == w->index.n ? TC_OK : TC_MORE;
}

/* Returns the largest number whose logarithm is put into the table: the largest that the features
 * may use, which is a number of pixels, or an entry of a symmetric matrix, which counts each pair
 * of pixels twice. */
static uint64_t largest_count(const cpu_worker *w)
{
    /* Few objects do not need a large table. Logarithms of larger counts are computed when they are
     * needed. */
    enum { FEW_OBJECTS_LOGS = 256 };
    const uint64_t pixels = w->index.largest;

    if (w->index.chosen != NULL)
        return FEW_OBJECTS_LOGS;
    return (w->params->families & OBJ_TEXTURE) == 0
               ? pixels
               : 2 * pixels * (w->params->merge ? obj_n_directions(&w->o) : 1);
}

static tc_status cpu_step(void *worker, void *state, uint64_t *chunks_done, tc_err *err)
{
    cpu_worker *const w = worker;
    const uint64_t small = count_small(w, LARGE, STEP_OBJECTS);
    tc_status status = TC_OK;

    w->state = state;
    if (!w->has_index) {
        status = obj_index_step(&w->index, &w->o, w->pool, w->work->threads, err);
        if (status == TC_OK)
            status = tc_logs_init(&w->o.logs, largest_count(w), err);
        w->has_index = status == TC_OK;
    } else if (small > 0) {
        w->object +=
            an_pool_run_until(w->pool, do_small_object, w, small, tc_seconds() + AN_STEP_SECONDS);
    } else if (w->object < w->index.n && do_large_step(w)) {
        w->large.is_begun = false;
        w->chunk = 0;
        w->object++;
    }
    return status == TC_OK || status == TC_MORE ? report_progress(w, chunks_done) : status;
}

void obj_host_choose(void *worker, const uint8_t *chosen)
{
    cpu_worker *const w = worker;

    assert(w->index.o == NULL);
    w->index.chosen = chosen;
}

/* --- for the OpenCL backend ------------------------------------------------------------------- */

uint64_t obj_host_count_small(const void *worker, uint32_t large, uint64_t most, uint64_t pixels)
{
    const cpu_worker *const w = worker;
    const uint64_t n = count_small(w, large, most);
    uint64_t sum = 0, i = 0;

    while (i < n && (i == 0 || sum + w->index.area[w->object + i] <= pixels))
        sum += w->index.area[w->object + i++];
    return i;
}

const obj_index *obj_host_index(const void *worker, uint64_t *next)
{
    const cpu_worker *const w = worker;

    *next = w->object;
    return w->has_index ? &w->index : NULL;
}

void obj_host_measure(void *worker, void *state, uint64_t n)
{
    cpu_worker *const w = worker;

    assert(w->object + n <= w->index.n);
    w->state = state;
    an_pool_run(w->pool, measure_object, w, n);
}

tc_status obj_host_advance(void *worker, uint64_t n, uint64_t *chunks_done)
{
    cpu_worker *const w = worker;

    w->object += n;
    assert(w->object <= w->index.n);
    return report_progress(w, chunks_done);
}

const an_backend obj_cpu = {
    .name = "cpu", .open = cpu_open, .step = cpu_step, .close = cpu_close
};
