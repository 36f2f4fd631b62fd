/*
 * volume: the CPU backend. A step processes parts (mostly bands of rows) of the current phase in
 * several threads, and after the last part does the sequential end of the phase. This file has the
 * phases of method threshold and the phases that both methods have; watershed.c has those of a
 * watershed alone. Each function xxx_band is the `part` of a phase (vol_work), and end_xxx its
 * `end`.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/bits.h"
#include "app/analysis/common/otsu.h"
#include "app/analysis/volume/cpu.h"
#include "app/base/os.h"

/* A bit of an element of vol_worker.sizes: the cell touches the border. The other bits are the
 * cell's number of voxels. */
#define BORDER ((uint32_t)1 << 31)

/* --- the bits of non-membrane voxels --------------------------------------------------------- */

/* Implements vol_stack.row, from the grey values. */
static void row_of_pixels(const void *source, size_t row, uint64_t *words)
{
    const vol_worker *const w = source;

    for (size_t x = 0; x < w->nx; x += 64)
        words[x / 64] = an_bits_below(w->work->pixels, row * w->nx + x,
                                      w->nx - x < 64 ? (unsigned)(w->nx - x) : 64, w->threshold);
}

/* Implements vol_stack.row, from the nodes. It is used when the nodes of membrane are 0: after the
 * filter, and after a device has joined runs. */
static void row_of_plane(const void *source, size_t row, uint64_t *words)
{
    const vol_worker *const w = source;
    const int32_t *const line = w->stack.nodes + 1 + row * w->nx;

    for (size_t x = 0; x < w->nx; x += 64) {
        const size_t n = w->nx - x < 64 ? w->nx - x : 64;
        uint8_t flags[64] = { 0 };

        for (size_t k = 0; k < n; k++)
            flags[k] = uf_load(&line[x + k]) != 0;
        words[x / 64] = an_bits_gather(flags);
    }
}

/* --- components ------------------------------------------------------------------------------ */

static void label_band(vol_worker *w, size_t band, vol_scratch *s)
{
    const vol_range r = vol_band(w, band);

    vol_label_band(&w->stack, r.from, r.to, s->label);
}

/* Joins the components of a band with those of the rows before it. After a device has found the
 * components of slabs, joins those of the first slice of slab part + 1 with those of the slab
 * before it. */
static void label_seam(vol_worker *w, size_t part, vol_scratch *s)
{
    const size_t slice = w->stack.ny;
    vol_range r = vol_band(w, w->slab_rows > 0 ? 0 : part);

    if (w->slab_rows > 0) {
        r.from = (part + 1) * w->slab_rows;
        r.to = r.from + slice < w->rows ? r.from + slice : w->rows;
    }
    vol_label_seam(&w->stack, r.from, r.to, s->label);
}

/* Sets the row's bits in stack.roots. This is needed after a device has found the components of
 * slabs, as the device does not set these bits. */
static void find_roots(vol_worker *w, size_t row, const vol_scratch *s)
{
    const size_t runs = vol_runs(&w->stack, row, s->edges);
    const bool border = vol_border_row(&w->stack, row);

    for (size_t k = 0; k < runs; k++) {
        const uint32_t a = s->edges[2 * k];
        const int32_t node = vol_node(&w->stack, row, border, a, s->edges[2 * k + 1]);

        if (node > 0 && w->stack.nodes[node] == ~node)
            w->stack.roots[row * w->stack.stride + a / 64] |= (uint64_t)1 << a % 64;
    }
}

/* Counts the roots of a band. */
static void count_band(vol_worker *w, size_t band, vol_scratch *s)
{
    const vol_range r = vol_band(w, band);

    w->cells_before[band + 1] = 0;
    for (size_t row = r.from; w->slab_rows > 0 && row < r.to; row++)
        find_roots(w, row, s);
    for (size_t i = r.from * w->stack.stride; i < r.to * w->stack.stride; i++)
        if (w->stack.roots[i] != 0)
            w->cells_before[band + 1] += __builtin_popcountll(w->stack.roots[i]);
}

static tc_status end_count(vol_worker *w, vol_state *state, tc_err *err)
{
    (void)state;
    (void)err;
    for (size_t i = 0; i < w->bands; i++)
        w->cells_before[i + 1] += w->cells_before[i];
    w->cells = w->cells_before[w->bands];
    return TC_OK;
}

/* Replaces the link in the node of each root of a band by a label. Labels are numbered in raster
 * order. A label is > 0, a link (~parent) < 0. */
static void number_band(vol_worker *w, size_t band, vol_scratch *s)
{
    int32_t label = w->cells_before[band];
    const vol_range r = vol_band(w, band);
    const uint64_t *roots = w->stack.roots + r.from * w->stack.stride;

    (void)s;
    for (size_t row = r.from; row < r.to; row++)
        for (size_t x = 0; x < w->nx; x += 64)
            for (uint64_t left = *roots++; left != 0; left &= left - 1)
                w->stack.nodes[1 + row * w->nx + x + (size_t)__builtin_ctzll(left)] = ++label;
}

tc_status vol_clear_first_node(vol_worker *w, vol_state *state, tc_err *err)
{
    (void)w;
    (void)err;
    state->nodes[0] = 0;
    return TC_OK;
}

/* --- labels ---------------------------------------------------------------------------------- */

/* Returns the label of a node's component, which is 0 for the outside. A root, and a node in which
 * paint_band has already put its label, holds the label. Any other node holds the link ~parent, and
 * in most cases its parent holds a label. Other threads label other nodes at the same time. The
 * first step does not branch on whether the node holds a label, as the processor could not predict
 * this branch: toggle ^ node is the parent if the node holds a link, otherwise the node. */
static int32_t label_of(const vol_worker *w, int32_t node)
{
    const int32_t link = uf_load(&w->stack.nodes[node]), toggle = -(link < 0) & (~link ^ node);
    int32_t v = uf_load(&w->stack.nodes[toggle ^ node]);

    while (v < 0)
        v = uf_load(&w->stack.nodes[~v]);
    return v;
}

/* Sets the nodes [a, b) of a row to a label. */
static void fill_run(int32_t *row, size_t a, size_t b, int32_t label)
{
    /* Sets up to 4 voxels without a branch. In noise, where the processor cannot predict the
     * lengths of runs, most runs have at most 4 voxels. */
    uf_store(&row[a], label);
    uf_store(&row[a + 1 < b ? a + 1 : a], label);
    uf_store(&row[a + 2 < b ? a + 2 : a], label);
    uf_store(&row[b - 1], label);
    if (b - a <= 4)
        return;
    a += 3;
#ifdef __SSE2__
    const __m128i four = _mm_set1_epi32(label);

    if (b - a >= 4) {
        for (; a + 4 < b; a += 4)
            _mm_storeu_si128((__m128i *)(void *)(row + a), four);
        a = b;
        _mm_storeu_si128((__m128i *)(void *)(row + b - 4), four);
    }
#endif
    for (; a < b; a++)
        row[a] = label;
}

/* Replaces links by labels in a band's nodes. The nodes of membrane voxels are already 0. If
 * w->nodes_zeroed, so are those of outside voxels, except for the first node of each run. */
static void paint_band(vol_worker *w, size_t band, vol_scratch *s)
{
    const vol_range r = vol_band(w, band);
    const bool fills_outside = !w->nodes_zeroed;
    const int32_t outside = w->params->repair ? -1 : 0;
    uint64_t empty = 0, n_outside = 0;

    for (size_t row = r.from; row < r.to; row++) {
        int32_t *const line = w->stack.nodes + 1 + row * w->nx;
        const size_t runs = vol_runs(&w->stack, row, s->edges);
        const bool border = vol_border_row(&w->stack, row);

        for (size_t k = 0; k < runs; k++) {
            const uint32_t a = s->edges[2 * k], b = s->edges[2 * k + 1];
            const int32_t node = vol_node(&w->stack, row, border, a, b), label = label_of(w, node);

            empty += b - a;
            n_outside += label == 0 ? b - a : 0;
            /* If nodes are zeroed, an outside run needs at most its first node cleared. */
            if (label != 0 || fills_outside || (node > 0 && b - a <= 4))
                fill_run(line, a, b, label == 0 ? outside : label);
            else if (node > 0)
                uf_store(&line[a], 0);
        }
    }
    s->empty += empty;
    s->outside += n_outside;
}

static tc_status end_paint(vol_worker *w, vol_state *state, tc_err *err)
{
    (void)err;
    state->membrane = w->n;
    state->outside = 0;
    for (unsigned t = 0; t < w->work->threads; t++) {
        state->membrane -= w->scratch[t].empty;
        state->outside += w->scratch[t].outside;
    }
    state->cells = (uint64_t)w->cells;
    return TC_OK;
}

/* Counts the band's voxels that the repair took from the inside. */
static void bias_band(vol_worker *w, size_t band, vol_scratch *s)
{
    const vol_range r = vol_band(w, band);

    s->bias += vol_repair_bias(&w->blur, r.from, r.to);
}

static tc_status end_bias(vol_worker *w, vol_state *state, tc_err *err)
{
    (void)err;
    state->repair_bias = 0;
    for (unsigned t = 0; t < w->work->threads; t++)
        state->repair_bias += w->scratch[t].bias;
    return TC_OK;
}

/* Whether cells may be left out of the result. */
static bool drops_cells(const vol_params *p)
{
    return p->min_voxels > 1 || p->max_voxels != INT64_MAX || p->exclude_border;
}

/* Adds the band's voxels to the sizes of the cells, and marks those that touch the border. */
static void sizes_band(vol_worker *w, size_t band, vol_scratch *s)
{
    const vol_range r = vol_band(w, band);
    const size_t slice = w->stack.ny;

    (void)s;
    for (size_t row = r.from; row < r.to; row++) {
        const int32_t *const line = w->stack.nodes + 1 + row * w->nx;
        const size_t y = row % slice;
        const bool border = row < slice || row >= w->rows - slice || y == 0 || y + 1 == slice;

        for (size_t x = 0, b; x < w->nx; x = b) {
            for (b = x + 1; b < w->nx && line[b] == line[x]; b++)
                ;
            if (line[x] <= 0)
                continue;
            __atomic_fetch_add(&w->sizes[line[x] - 1], b - x, __ATOMIC_RELAXED);
            if (border || x == 0 || b == w->nx)
                __atomic_fetch_or(&w->sizes[line[x] - 1], BORDER, __ATOMIC_RELAXED);
        }
    }
}

/* Replaces each cell's size by its new label, which is 0 if the cell is left out. */
static tc_status end_sizes(vol_worker *w, vol_state *state, tc_err *err)
{
    const vol_params *const p = w->params;
    const size_t cells = (size_t)w->cells;
    uint32_t label = 0;
    tc_status status = TC_OK;

    for (size_t i = 0, end; status == TC_OK && i < cells; status = tc_call_poll(w->work->poll, err))
        for (end = tc_block_end(i, cells); i < end; i++) {
            const bool is_kept = vol_is_kept(p, w->sizes[i] & ~BORDER, (w->sizes[i] & BORDER) != 0);

            w->sizes[i] = is_kept ? ++label : 0;
        }
    state->cells = label;
    return status;
}

/* VOL_RELABEL: replaces the label of each voxel by the new label of its cell, and the -1 of the
 * outside by 0. */
static void relabel_band(vol_worker *w, size_t band, vol_scratch *s)
{
    const vol_range r = vol_band(w, band);
    int32_t *const plane = w->stack.nodes + 1;

    (void)s;
    for (size_t i = r.from * w->nx; i < r.to * w->nx; i++)
        if (plane[i] < 0)
            plane[i] = 0;
        else if (plane[i] > 0 && w->sizes != NULL)
            plane[i] = (int32_t)w->sizes[plane[i] - 1];
}

/* --- the phases ------------------------------------------------------------------------------ */

/* Processes a part of VOL_BLUR or VOL_BLUR_Z. */
static void blur_part(vol_worker *w, size_t part, vol_scratch *s)
{
    s->added += vol_blur_part(&w->blur, w->phase, part, s->blur);
}

static tc_status end_blur(vol_worker *w, vol_state *state, tc_err *err)
{
    (void)err;
    for (unsigned t = 0; t < w->work->threads; t++) {
        state->repair_added += w->scratch[t].added;
        w->scratch[t].added = 0;
    }
    return TC_OK;
}

static void histogram_band(vol_worker *w, size_t band, vol_scratch *s)
{
    const vol_range r = vol_band(w, band);

    an_histogram_add(w->work->pixels, r.from * w->nx, r.to * w->nx, s->histogram);
}

static tc_status end_histogram(vol_worker *w, vol_state *state, tc_err *err)
{
    const uint32_t size = (uint32_t)1 << w->work->pixels->bits;
    uint64_t *const sum = w->scratch[0].histogram;

    (void)err;
    for (unsigned t = 1; t < w->work->threads; t++)
        for (uint32_t v = 0; v < size; v++)
            sum[v] += w->scratch[t].histogram[v];
    w->threshold = w->blur.threshold = state->threshold = an_otsu_threshold(sum, size);
    return TC_OK;
}

/* The functions of the phases of method threshold and of both methods; empty for a watershed's. */
static const vol_work other_phases[VOL_PHASES] = {
    [VOL_HISTOGRAM] = { histogram_band, end_histogram },
    [VOL_BLUR] = { blur_part, end_blur },
    [VOL_BLUR_Z] = { blur_part, end_blur },
    [VOL_BANDS] = { label_band, NULL },
    [VOL_SEAMS] = { label_seam, NULL },
    [VOL_COUNT] = { count_band, end_count },
    [VOL_NUMBER] = { number_band, vol_clear_first_node },
    [VOL_PAINT] = { paint_band, end_paint },
    [VOL_BIAS] = { bias_band, end_bias },
    [VOL_SIZES] = { sizes_band, end_sizes },
    [VOL_RELABEL] = { relabel_band, NULL }
};

/* The functions of the phases from VOL_ASCEND to VOL_COPY. */
static const vol_work *const watershed_phases[] = {
    &vol_uphill, &vol_uphill, &vol_uphill,      &vol_uphill,       &vol_uphill, &vol_uphill,
    &vol_clear,  &vol_first,  &vol_count_first, &vol_number_cells, &vol_label,  &vol_copy
};

/* Whether only a watershed has this phase. */
static bool is_watershed_phase(vol_phase phase)
{
    return phase >= VOL_ASCEND && phase <= VOL_COPY;
}

static const vol_work *work_of(vol_phase phase)
{
    return is_watershed_phase(phase) ? watershed_phases[phase - VOL_ASCEND] : &other_phases[phase];
}

/* The number of parts of a phase; 0 if the parameters do not need the phase. */
static size_t phase_parts(const vol_worker *w, vol_phase phase)
{
    const vol_params *const p = w->params;

    if (is_watershed_phase(phase))
        return p->watershed ? w->bands : 0;
    switch (phase) {
    case VOL_HISTOGRAM: return p->otsu ? w->bands : 0;
    case VOL_BLUR:
    case VOL_BLUR_Z: return vol_has_blur(p) ? vol_blur_parts(&w->blur, phase) : 0;
    case VOL_SEAMS:
        return p->watershed ? 0 : w->slab_rows > 0 ? (w->rows - 1) / w->slab_rows : w->bands;
    case VOL_BIAS: return p->repair ? w->bands : 0;
    case VOL_SIZES: return drops_cells(p) ? w->bands : 0;
    case VOL_RELABEL: return p->repair || drops_cells(p) ? w->bands : 0;
    default: return p->watershed ? 0 : w->bands;
    }
}

/* Prepares the state and the worker for a phase. */
static tc_status begin_phase(vol_worker *w, vol_state *state, tc_err *err)
{
    if (w->phase == VOL_BANDS)
        state->nodes[0] = ~0; /* node 0, the outside, is a root: its own parent */
    if (w->phase == VOL_SIZES) {
        w->cells = (int32_t)state->cells;
        w->sizes = calloc((size_t)w->cells + 1, sizeof *w->sizes);
        if (w->sizes == NULL)
            return tc_no_memory(err, "the cells");
    }
    return TC_OK;
}

/* Makes `next` the current phase or, if it has no parts, the first later phase that has some.
 * Updates chunks_done where an interrupted item can continue. */
static void go_to_phase(vol_worker *w, vol_state *state, vol_phase next)
{
    const bool was_filtering = w->phase < VOL_RESUME && vol_has_blur(w->params);

    w->phase = next;
    w->parts_done = 0;
    while (w->phase < VOL_PHASES && phase_parts(w, w->phase) == 0)
        w->phase++;
    if (was_filtering && w->phase >= VOL_RESUME)
        state->head.chunks_done = (uint64_t)VOL_RESUME * w->bands;
    if (w->phase == VOL_PHASES) {
        state->head.chunks_done = w->work->plan.chunks;
        state->in_progress = 0;
    }
}

/* Processes a part of the current phase. part: counted from w->parts_done on. */
static void run_part(void *user, unsigned thread, size_t part)
{
    vol_worker *const w = user;

    work_of(w->phase)->part(w, w->parts_done + part, &w->scratch[thread]);
}

/* Sets the worker's pointers to the state's memory. The first phase needs nodes that are 0, so the
 * state is cleared if another worker has written to the nodes (in_progress) and the item begins
 * again from the first phase. */
static tc_status attach_nodes(vol_worker *w, vol_state *state, tc_err *err)
{
    const size_t bytes = w->work->plan.state_bytes;
    const bool must_clear =
        !w->nodes_prepared && state->in_progress && state->head.chunks_done == 0;
    tc_status status = TC_OK;

    if (must_clear)
        status = tc_clear_memory(state, bytes, w->work->poll, err);
    state->in_progress = 1;
    w->nodes_prepared = status == TC_OK;
    w->stack.nodes = state->nodes;
    w->blur.plane = state->nodes + 1;
    w->map.height = (const uint32_t *)w->blur.plane;
    return status;
}

tc_status vol_host_step(void *worker, vol_state *state, vol_phase until, uint64_t *chunks_done,
                        tc_err *err)
{
    vol_worker *const w = worker;
    const double end = tc_seconds() + AN_STEP_SECONDS;
    tc_status status = TC_OK;

    *chunks_done = state->head.chunks_done;
    if (state->head.chunks_done == w->work->plan.chunks || w->phase >= until)
        return TC_OK;
    return_if_error(attach_nodes(w, state, err));
    /* Processes several phases if there is time, so that a small stack takes one step. */
    do {
        const size_t parts = phase_parts(w, w->phase);

        if (w->parts_done == 0)
            status = begin_phase(w, state, err);
        if (status != TC_OK)
            return status;
        if (w->phase == VOL_BANDS || w->phase == VOL_CLEAR)
            state->head.chunks_done = 0; /* this phase overwrites the filtered values */
        w->parts_done += an_pool_run_until(w->pool, run_part, w, parts - w->parts_done, end);
        for (unsigned t = 0; t < w->work->threads; t++)
            if (w->lists[t].no_memory)
                return tc_no_memory(err, "the cells");
        /* Each phase counts as `bands` chunks, however many parts it has. */
        *chunks_done = ((uint64_t)w->phase * parts + w->parts_done) * w->bands / parts;
        if (w->parts_done < parts)
            continue;
        if (work_of(w->phase)->end != NULL)
            status = work_of(w->phase)->end(w, state, err);
        go_to_phase(w, state, w->phase + 1);
    } while (status == TC_OK && w->phase < until && tc_seconds() < end);
    if (status == TC_OK && w->phase < until)
        return TC_MORE;
    if (w->phase == VOL_PHASES)
        *chunks_done = state->head.chunks_done;
    return status;
}

static tc_status cpu_step(void *worker, void *state, uint64_t *chunks_done, tc_err *err)
{
    return vol_host_step(worker, state, VOL_PHASES, chunks_done, err);
}

static void cpu_close(void **worker)
{
    vol_worker *const w = *worker;

    *worker = NULL;
    if (w == NULL)
        return;
    an_pool_destroy(&w->pool);
    for (unsigned t = 0; w->scratch != NULL && t < w->work->threads; t++) {
        free(w->scratch[t].edges);
        free(w->scratch[t].label);
        free(w->scratch[t].blur);
        free(w->scratch[t].histogram);
        if (w->lists != NULL)
            ws_list_drop(&w->lists[t]);
    }
    free(w->lists);
    free(w->map.up);
    free(w->scratch);
    free(w->cells_before);
    free(w->stack.roots);
    free(w->sizes);
    free(w);
}

static tc_status make_memory(vol_worker *w, tc_err *err)
{
    bool good;

    w->cells_before = calloc(w->bands + 1, sizeof *w->cells_before);
    w->stack.roots = calloc(w->rows * w->stack.stride, sizeof *w->stack.roots);
    w->scratch = calloc(w->work->threads, sizeof *w->scratch);
    w->lists = calloc(w->work->threads, sizeof *w->lists);
    if (w->params->watershed)
        w->map.up = os_alloc_zeroed(w->n * sizeof *w->map.up);
    good = w->cells_before != NULL && w->stack.roots != NULL && w->scratch != NULL &&
           w->lists != NULL && (w->map.up != NULL || !w->params->watershed);
    for (unsigned t = 0; good && t < w->work->threads; t++) {
        vol_scratch *const s = &w->scratch[t];

        s->edges = malloc((w->nx + 2) * sizeof *s->edges);
        s->label = malloc(vol_label_scratch(&w->stack));
        s->blur =
            malloc(vol_has_blur(w->params) ? vol_blur_scratch(&w->blur) * sizeof *s->blur : 1);
        s->histogram =
            calloc(w->params->otsu ? (size_t)1 << w->work->pixels->bits : 1, sizeof *s->histogram);
        s->list = &w->lists[t];
        good = s->edges != NULL && s->label != NULL && s->blur != NULL && s->histogram != NULL;
    }
    return good ? TC_OK : tc_no_memory(err, "volume");
}

/* Sets the worker's members that depend on the item and need no memory. */
static void init_worker(vol_worker *w, const an_work *work)
{
    const wu_item *const item = work->item;

    w->work = work;
    w->params = work->params;
    w->nodes_zeroed = !vol_has_blur(w->params);
    w->nx = item->nx;
    w->rows = (size_t)item->ny * item->nz;
    w->n = w->rows * w->nx;
    w->band_rows = vol_band_rows(item->nx);
    w->bands = (w->rows + w->band_rows - 1) / w->band_rows;
    w->stack = (vol_stack){ .nx = item->nx,
                            .ny = item->ny,
                            .nz = item->nz,
                            .stride = lab_stride(item->nx),
                            .is_3d = w->params->is_3d,
                            .source = w,
                            .row = vol_has_blur(w->params) ? row_of_plane : row_of_pixels };
    w->threshold = (uint32_t)w->params->membrane;
    w->blur = vol_blur_of(w->params, work->pixels);
    w->map = vol_map_of(w->params, item);
}

static tc_status cpu_open(const an_work *work, const void *state_at, void **worker, tc_err *err)
{
    const vol_state *const state = state_at;
    vol_worker *const w = calloc(1, sizeof *w);
    tc_status status;

    *worker = w;
    if (w == NULL)
        return tc_no_memory(err, "volume");
    init_worker(w, work);
    status = an_pool_create(work->threads, &w->pool, err);
    if (status == TC_OK)
        status = make_memory(w, err);
    if (status != TC_OK) {
        cpu_close(worker);
        return status;
    }
    w->phase = VOL_HISTOGRAM;
    if (state->head.chunks_done == (uint64_t)VOL_RESUME * w->bands) {
        w->phase = VOL_RESUME;
        if (w->params->otsu)
            w->threshold = w->blur.threshold = state->threshold;
    }
    while (phase_parts(w, w->phase) == 0)
        w->phase++;
    return TC_OK;
}

/* --- for an OpenCL backend ------------------------------------------------------------------- */

vol_phase vol_host_phase(const void *worker)
{
    return ((const vol_worker *)worker)->phase;
}

int32_t *vol_host_directions(void *worker)
{
    return ((vol_worker *)worker)->map.up;
}

uint32_t vol_host_threshold(const void *worker)
{
    return ((const vol_worker *)worker)->threshold;
}

void vol_host_mask(const vol_state *state, size_t nx, size_t row, size_t count, uint32_t *words)
{
    for (size_t r = row; r < row + count; r++) {
        const int32_t *const line = state->nodes + 1 + r * nx;

        for (size_t x = 0; x < nx; x += 32, words++) {
            *words = 0;
            for (size_t i = 0; i < 32 && x + i < nx; i++)
                *words |= (uint32_t)(line[x + i] != 0) << i;
        }
    }
}

tc_status vol_host_resume(void *worker, vol_state *state, vol_phase next, size_t slab_rows,
                          tc_err *err)
{
    assert((next == VOL_SEAMS) == (slab_rows > 0));
    vol_worker *const w = worker;
    tc_status status;

    /* attach_nodes must not clear the nodes if the device or the filter has made them. */
    if (next != VOL_BANDS || vol_has_blur(w->params))
        w->nodes_prepared = true;
    w->nodes_zeroed = false;
    status = attach_nodes(w, state, err);
    state->nodes[0] = next == VOL_SEAMS ? ~0 : 0;
    w->phase = next;
    if (next == VOL_EDGES || next == VOL_SADDLES)
        state->head.chunks_done = (uint64_t)VOL_RESUME * w->bands;
    if (next == VOL_SIZES)
        w->cells = (int32_t)state->cells;
    if (next == VOL_SEAMS) {
        w->stack.row = row_of_plane;
        w->slab_rows = slab_rows;
    }
    go_to_phase(w, state, next);
    return status;
}

const an_backend vol_cpu = {
    .name = "cpu", .open = cpu_open, .step = cpu_step, .close = cpu_close
};
