/* cellcount's CPU backend: creates the worker, and runs it through the phases (cc_phase). */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/cellcount/core.h"
#include "app/analysis/cellcount/cpu.h"
#include "app/base/os.h"

/* --- the phases ------------------------------------------------------------------------------ */

static const cc_work *const phases[CC_PHASES] = {
    [CC_SMOOTH] = &cc_preparing,
    [CC_EXTREME] = &cc_preparing,
    [CC_GROUND] = &cc_preparing,
    [CC_LOCAL_MEAN] = &cc_preparing,
    [CC_HISTOGRAM] = &cc_histogram,
    [CC_MASK] = &cc_mask,
    [CC_HOLES] = &cc_holes,
    [CC_HOLE_SEAMS] = &cc_hole_seams,
    [CC_FILL] = &cc_fill,
    [CC_BANDS] = &cc_components,
    [CC_SEAMS] = &cc_seams,
    [CC_BYTES] = &cc_bytes,
    [CC_DISTANCE_X] = &cc_distance_x,
    [CC_DISTANCE_Y] = &cc_distance_y,
    [CC_HEIGHTS] = &cc_heights,
    [CC_ASCEND] = &cc_watershed,
    [CC_EDGES] = &cc_watershed,
    [CC_FLAT] = &cc_watershed,
    [CC_FLAT_JOIN] = &cc_watershed,
    [CC_MAXIMA] = &cc_watershed,
    [CC_SADDLES] = &cc_watershed,
    [CC_CLEAR] = &cc_clear,
    [CC_FIRST] = &cc_first,
    [CC_ROOTS] = &cc_ids, /* replaces the maximum in `up` by its part's first pixel */
    [CC_PARTS] = &cc_parts,
    [CC_IDS] = &cc_ids,
    [CC_STRIPS] = &cc_strips,
    [CC_COUNT] = &cc_count,
    [CC_NUMBER] = &cc_number,
    [CC_AREAS] = &cc_areas,
    [CC_RENUMBER] = &cc_renumber,
    [CC_PAINT] = &cc_paint,
    [CC_MEASURE] = &cc_measuring
};

/* The function ws_map.is_separate for a split by distance. Heights are squared distances. */
static bool separate_by_distance(const void *rule, uint32_t maximum, uint32_t saddle)
{
    (void)rule;
    return cc_is_separate_maximum(maximum, saddle);
}

bool cc_separate_by_intensity(const void *rule, uint32_t maximum, uint32_t saddle)
{
    const cc_params *const p = rule;

    return maximum - saddle >= (uint32_t)p->h;
}

/* The number of parts that a phase is divided into; 0 if these parameters do not need the phase. */
static size_t phase_parts(const cc_worker *w, cc_phase phase)
{
    const cc_params *const p = w->params;

    switch (phase) {
    case CC_SMOOTH:
    case CC_EXTREME:
    case CC_GROUND:
    case CC_LOCAL_MEAN:
        return cc_has_step(p, phase)
                   ? w->bands * cc_prepare_pieces(p, phase, w->nx, cc_band_rows(w->nx))
                   : 0;
    case CC_HISTOGRAM: return cc_finds_threshold(p) ? w->bands : 0;
    case CC_HOLES:
    case CC_HOLE_SEAMS:
    case CC_FILL: return p->fill_holes ? w->bands : 0;
    case CC_BANDS:
    case CC_SEAMS: return p->split ? 0 : w->bands;
    case CC_DISTANCE_X:
    case CC_DISTANCE_Y:
        return p->split == CC_DISTANCE ? edt_parts(&w->edt, phase - CC_DISTANCE_X) : 0;
    case CC_BYTES: return p->split == CC_DISTANCE ? w->bands : 0;
    case CC_HEIGHTS:
    case CC_EDGES:
    case CC_FLAT:
    case CC_FLAT_JOIN: return p->split == CC_INTENSITY ? w->bands : 0;
    case CC_ASCEND:
    case CC_MAXIMA:
    case CC_SADDLES:
    case CC_CLEAR:
    case CC_FIRST:
    case CC_ROOTS: return p->split ? w->bands : 0;
    case CC_PARTS:
    case CC_IDS: return w->up != NULL ? w->bands : 0;
    case CC_STRIPS: return w->strip_rows > 0 ? (w->ny - 1) / w->strip_rows : 0;
    case CC_AREAS:
    case CC_RENUMBER: return w->areas != NULL ? w->bands : 0;
    case CC_MEASURE: return w->measure.sums != NULL ? w->bands : 0;
    default: return w->bands;
    }
}

/* Ends the current phase and begins the next phase that has parts. Sets chunks_done in the state's
 * head to the position from which an interrupted item would continue. */
static tc_status next_phase(cc_worker *w, cc_state *state, tc_err *err)
{
    an_state_head *const head = &state->head;

    do {
        tc_status status = TC_OK;

        if (w->done > 0 && phases[w->phase]->end != NULL)
            status = phases[w->phase]->end(w, err);
        if (status != TC_OK)
            return status;
        if (w->phase == CC_HISTOGRAM && w->done > 0)
            state->threshold = w->threshold;
        w->phase++;
        w->done = 0;
    } while (w->phase < CC_PHASES && phase_parts(w, w->phase) == 0);
    /* With min_contrast an item cannot be resumed at CC_RESUME, as the state does not contain the
     * prepared grey values. */
    if (w->phase == CC_RESUME && w->params->split && !w->params->min_contrast)
        head->chunks_done = (uint64_t)CC_RESUME * w->bands;
    else if (w->phase == CC_CLEAR)
        head->chunks_done = 0; /* this phase overwrites the heights in the plane */
    if (w->phase == CC_PHASES) {
        state->regions = (uint32_t)w->regions;
        state->window = w->resolved.window_auto ? (uint32_t)w->resolved.window : 0;
        state->min_area = w->resolved.min_area_auto ? (uint32_t)w->resolved.min_area : 0;
        head->chunks_done = w->work->plan.chunks;
    }
    return TC_OK;
}

static void run_part(void *user, unsigned thread, size_t part)
{
    cc_worker *const w = user;

    phases[w->phase]->part(w, w->done + part, &w->scratch[thread]);
}

tc_status cc_host_step(void *worker, cc_state *state, cc_phase until, uint64_t *chunks_done,
                       tc_err *err)
{
    cc_worker *const w = worker;
    an_state_head *const head = &state->head;
    const double end = tc_seconds() + AN_STEP_SECONDS;
    size_t parts, n_left;
    tc_status status = TC_OK;

    *chunks_done = head->chunks_done;
    if (head->chunks_done == w->work->plan.chunks || w->phase >= until)
        return TC_OK;
    w->plane = state->plane;
    w->picture.starts = w->starts_buffer != NULL ? w->starts_buffer : w->plane;
    w->table = (cc_region *)(void *)((char *)state + cc_table_at(w->nx, w->ny));
    w->edt.out = (uint32_t *)w->plane;
    w->map.height = w->edt.out;
    w->map.up = w->up;
    /* Runs phases until the time of a step is over. */
    do {
        parts = phase_parts(w, w->phase);
        n_left = parts - w->done;
        if (w->done == 0 && w->phase < CC_HISTOGRAM)
            cc_prepare_step(&w->prepare, w->phase);
        if (w->phase == CC_MEASURE && w->measure.tables == 1)
            n_left = 1; /* only one band may be measured at a time */
        w->done += an_pool_run_until(w->pool, run_part, w, n_left, end);
        for (unsigned t = 0; t < w->work->threads; t++)
            if (w->scratch[t].no_memory)
                return tc_no_memory(err, "the cells");
        /* In the plan, each phase has as many chunks as there are bands. */
        *chunks_done = ((uint64_t)w->phase * parts + w->done) * w->bands / parts;
        if (w->done == parts)
            status = next_phase(w, state, err);
    } while (status == TC_OK && w->phase < until && tc_seconds() < end);
    if (status == TC_OK && w->phase < until)
        return TC_MORE;
    if (w->phase < CC_PHASES)
        return status;
    *chunks_done = head->chunks_done;
    return status;
}

static tc_status cpu_step(void *worker, void *state, uint64_t *chunks_done, tc_err *err)
{
    return cc_host_step(worker, state, CC_PHASES, chunks_done, err);
}

static void cpu_close(void **worker)
{
    cc_worker *const w = *worker;

    *worker = NULL;
    if (w == NULL)
        return;
    an_pool_destroy(&w->pool);
    for (unsigned t = 0; w->scratch != NULL && t < w->work->threads; t++) {
        free(w->scratch[t].edges);
        free(w->scratch[t].row);
        free(w->scratch[t].label);
        free(w->scratch[t].distance);
        free(w->scratch[t].histogram);
        free(w->scratch[t].prepare);
        if (w->found != NULL)
            ws_list_drop(&w->found[t]);
    }
    free(w->found);
    free(w->scratch);
    free(w->picture.bits);
    free(w->bytes);
    free(w->up);
    free(w->picture.ids);
    free(w->starts_buffer);
    free(w->picture.begins);
    free(w->end);
    free(w->first);
    free(w->areas);
    free(w->filter_values);
    cc_measure_free(&w->measure);
    cc_prepare_end(&w->prepare);
    free(w);
}

/* Allocates the scratch memory of all threads. Returns false if there is not enough memory. */
static bool make_scratch(cc_worker *w)
{
    const size_t grey_values = (size_t)1 << w->work->pixels->bits;

    w->scratch = calloc(w->work->threads, sizeof *w->scratch);
    w->found = calloc(w->work->threads, sizeof *w->found);
    if (w->scratch == NULL || w->found == NULL)
        return false;
    for (unsigned t = 0; t < w->work->threads; t++) {
        cc_scratch *const s = &w->scratch[t];

        s->found = &w->found[t];
        s->edges = malloc(((size_t)w->nx + 2) * sizeof *s->edges);
        s->row = malloc(((size_t)w->nx + CC_PAD) * sizeof *s->row);
        s->label = malloc(lab_scratch_bytes(&w->picture));
        s->prepare =
            malloc(cc_has_preparation(w->params) ? cc_prepare_scratch(w->params, w->nx) : 1);
        s->distance = malloc(w->params->split == CC_DISTANCE ? edt_scratch_bytes(&w->edt) : 1);
        s->histogram = calloc(grey_values, sizeof *s->histogram);
        if (s->edges == NULL || s->row == NULL || s->label == NULL || s->distance == NULL ||
            s->histogram == NULL || s->prepare == NULL)
            return false;
    }
    return true;
}

/* Allocates the mask, the ids, the arrays of bands and the planes. Returns false if there is not
 * enough memory. */
static bool make_planes(cc_worker *w)
{
    /* Without labels, the ids of runs are in starts_buffer, with room for the most runs of a row.
     * Otherwise they are in the state's plane, with room for nx in a row. */
    const bool needs_no_labels = w->work->result_only && !w->params->labels && !w->params->split;
    const size_t n = (size_t)w->nx * w->ny;

    w->picture.bits = os_alloc_zeroed(w->picture.stride * w->ny * sizeof *w->picture.bits);
    /* calloc, not os_alloc_zeroed: each band writes only some of its ids, and with the large pages
     * that os_alloc_zeroed requests, all ids would occupy memory. */
    w->picture.ids = calloc(lab_max_ids(w->nx, w->ny), sizeof *w->picture.ids);
    if (!needs_no_labels)
        w->picture.room = w->nx;
    else {
        w->starts_buffer = malloc(w->picture.room * w->ny * sizeof *w->starts_buffer);
        w->picture.begins = calloc(w->ny, sizeof *w->picture.begins);
    }
    w->end = calloc(w->bands, sizeof *w->end);
    w->first = calloc((size_t)w->bands + 1, sizeof *w->first);
    if (w->params->split) {
        w->bytes = os_alloc_zeroed(w->params->split == CC_DISTANCE ? n : 1);
        w->up = os_alloc_zeroed(n * sizeof *w->up);
    }
    w->edt.mask = w->bytes;
    return w->picture.bits != NULL && w->picture.ids != NULL &&
           ((w->starts_buffer != NULL && w->picture.begins != NULL) || !needs_no_labels) &&
           w->end != NULL && w->first != NULL &&
           (!w->params->split || (w->bytes != NULL && w->up != NULL));
}

/* Resumes an item at the phase CC_RESUME. The mask, which the state does not contain, is made anew:
 * cells are the pixels whose heights are not 0. heights: the state's plane. */
static tc_status resume_split(cc_worker *w, const int32_t *heights, tc_err *err)
{
    for (uint32_t y = 0; y < w->ny; y++) {
        const tc_status status = tc_call_poll(w->work->poll, err);
        uint64_t *const words = w->picture.bits + y * w->picture.stride;

        if (status != TC_OK)
            return status;
        memset(words, 0, w->picture.stride * sizeof *words);
        for (uint32_t x = 0; x < w->nx; x++)
            if (heights[(size_t)y * w->nx + x] != 0)
                words[x / 64] |= (uint64_t)1 << x % 64;
    }
    w->phase = CC_RESUME;
    return TC_OK;
}

static tc_status cpu_open(const an_work *work, const void *state_at, void **worker, tc_err *err)
{
    const cc_state *const state = state_at;
    cc_worker *const w = calloc(1, sizeof *w);
    tc_status status;

    *worker = w;
    if (w == NULL)
        return tc_no_memory(err, "cellcount");
    w->work = work;
    w->params = &w->resolved;
    status = cc_resolve_params(work, &w->resolved, err);
    w->nx = work->item->nx;
    w->ny = work->item->ny;
    w->bands = cc_bands(w->nx, w->ny);
    w->threshold = cc_finds_threshold(w->params) ? 0 : cc_threshold(w->params, work->pixels->bits);
    w->picture = (lab_picture){ .nx = w->nx,
                                .ny = w->ny,
                                .stride = lab_stride(w->nx),
                                .room = lab_max_runs(w->nx),
                                .eight_connected = w->params->eight_connected };
    w->edt = (edt_job){ .nx = w->nx, .ny = w->ny, .nz = 1, .sides = EDT_INSIDE };
    w->map =
        (ws_map){ .shape = { (int32_t)w->nx, (int32_t)w->ny, 1, w->params->eight_connected, 0 },
                  .plateaus = w->params->split == CC_INTENSITY,
                  .rule = w->params,
                  .is_separate = w->params->split == CC_INTENSITY ? cc_separate_by_intensity
                                                                  : separate_by_distance };
    if (status == TC_OK)
        status = an_pool_create(work->threads, &w->pool, err);
    if (status == TC_OK && (!make_planes(w) || !make_scratch(w)))
        status = tc_no_memory(err, "cellcount");
    if (status == TC_OK && state->head.chunks_done == (uint64_t)CC_RESUME * w->bands)
        status = resume_split(w, state->plane, err);
    else if (status == TC_OK)
        status = cc_prepare_begin(&w->prepare, w->params, work->pixels, err);
    while (phase_parts(w, w->phase) == 0)
        w->phase++;
    if (status != TC_OK)
        cpu_close(worker);
    return status;
}

/* --- for the OpenCL backend, which uses a worker of this backend (cellcount.h) --------------- */

cc_phase cc_host_phase(const void *worker)
{
    return ((const cc_worker *)worker)->phase;
}

wu_pixels *cc_host_prepared(void *worker)
{
    cc_worker *const w = worker;

    w->prepare.current = &w->prepare.planes[0];
    w->phase = phase_parts(w, CC_HISTOGRAM) > 0 ? CC_HISTOGRAM : CC_MASK;
    return &w->prepare.planes[0];
}

const cc_params *cc_host_params(const void *worker)
{
    return ((const cc_worker *)worker)->params;
}

const uint64_t *cc_host_bits(const void *worker)
{
    return ((const cc_worker *)worker)->picture.bits;
}

int32_t *cc_host_roots(void *worker)
{
    cc_worker *const w = worker;

    if (w->up == NULL)
        w->up = os_alloc_zeroed((size_t)w->nx * w->ny * sizeof *w->up);
    return w->up;
}

tc_status cc_host_resume(void *worker, cc_phase next, uint32_t threshold, uint32_t strip_rows,
                         tc_err *err)
{
    cc_worker *const w = worker;
    assert(w->up != NULL && (next == CC_PARTS || next == CC_SADDLES));

    w->threshold = threshold;
    for (uint32_t y = 0; y < w->ny; y++) {
        uint64_t *const words = w->picture.bits + y * w->picture.stride;
        return_if_error(tc_call_poll(w->work->poll, err));
        memset(words, 0, w->picture.stride * sizeof *words);
        for (uint32_t x = 0; x < w->nx; x++)
            words[x / 64] |= (uint64_t)(w->up[(size_t)y * w->nx + x] >= 0) << x % 64;
    }
    w->strip_rows = strip_rows;
    w->phase = next;
    w->done = 0;
    return TC_OK;
}

const an_backend cc_cpu = { .name = "cpu", .open = cpu_open, .step = cpu_step, .close = cpu_close };
