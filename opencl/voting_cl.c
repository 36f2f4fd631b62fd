/*
 * voting on an OpenCL device: buffers and launches. A step queues the bands that
 * fit a slice of time.
 */
#include "opencl/backends.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/voting.h"
#include "opencl/program.h"
#include "opencl/work.h"

extern const ocl_source ocl_source_voting;

typedef enum kernel_name { CLEAR, BLUR_Z, BLUR_Y, BLUR_X, VOTERS, VOTE, TURN, KERNELS } kernel_name;
static const char *const kernel_names[KERNELS] = {
    "voting_clear", "voting_blur_z", "voting_blur_y", "voting_blur_x", "voting_voters", "voting_vote", "voting_turn"
};

typedef struct cl_worker {
    const an_task *task;
    ocl_device *device;
    voting_scheme s;
    voting_tables tables;
    ocl_kernel kernels[KERNELS];
    ocl_buffer shape, pixels, votes, voters;
    ocl_buffer columns, lines;          /* a slice of the blur between its passes */
    ocl_buffer codes, offsets, spans, rows;
    voting_span *turned_spans;          /* the tables as the device wants them: direction fastest */
    int round;                          /* of the device's tables; -1: none */
    size_t group;
    ocl_slice slices[VOTING_REBLUR + 1];    /* by phase, in bands */
    uint64_t done;
} cl_worker;

/* --- open, close ---------------------------------------------------------------------- */

static void cl_close(void **worker)
{
    cl_worker *const w = *worker;

    *worker = NULL;
    if (w == NULL)
        return;
    ocl_buffer *const buffers[] = { &w->shape, &w->pixels, &w->votes, &w->voters, &w->columns, &w->lines,
                                    &w->codes, &w->offsets, &w->spans, &w->rows };
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        ocl_buffer_free(w->device, buffers[i]);
    for (int i = 0; i < KERNELS; i++)
        ocl_kernel_free(w->device, &w->kernels[i]);
    voting_tables_free(&w->tables);
    free(w->turned_spans);
    free(w);
}

static tc_status make_kernels(cl_worker *w, tc_err *err)
{
    cl_program program = NULL;
    char defines[32];

    w->group = w->device->info.max_group >= 128 ? 128 : OCL_GROUP_FLOOR;
    snprintf(defines, sizeof defines, "-DGROUP=%zu", w->group);
    tc_status st = ocl_program_build(w->device, &ocl_source_voting, defines, false, &program, err);
    for (int i = 0; st == TC_OK && i < KERNELS; i++)
        st = ocl_kernel_new(w->device, program, kernel_names[i], &w->kernels[i], err);
    ocl_program_free(w->device, &program);
    return st;
}

static void fill_shape(const cl_worker *w, const voting_levels *levels, voting_shape *shape)
{
    const voting_scheme *const s = &w->s;
    const voting_params *const p = w->task->params;
    const uint32_t n[3] = { s->nz, s->ny, s->nx };

    memset(shape, 0, sizeof *shape);
    for (int a = 0; a < 3; a++) {
        shape->n[a] = (int32_t)n[a];
        shape->reach[a] = s->reach[a];
        shape->inverse[a] = p->dark ? -s->inverse[a] : s->inverse[a];
        shape->taps[a] = s->half[a];
        memcpy(shape->blur[a], s->kernel[a], sizeof s->kernel[a]);
    }
    shape->floor = levels->floor;
    shape->n_dirs = (int32_t)s->n_dirs;
    shape->side = s->side;
    shape->root = p->root;
    shape->shift = levels->shift;
    shape->wide = w->task->pixels->bits == 16;
}

/* A buffer with its content, which may be NULL. */
static tc_status filled(cl_worker *w, ocl_buffer *buffer, const void *from, size_t bytes, const char *what, tc_err *err)
{
    const tc_status st = ocl_buffer_new(w->device, bytes, CL_MEM_READ_WRITE, what, buffer, err);

    return st == TC_OK && from != NULL ? ocl_write(w->device, buffer, 0, from, bytes, err) : st;
}

static size_t side_of_codes(const voting_scheme *s)
{
    const size_t outer = 2 * (size_t)s->side + 1;

    return s->nz > 1 ? outer * outer * outer : outer * outer;
}

static tc_status make_buffers(cl_worker *w, const voting_shape *shape, const void *state, tc_err *err)
{
    const voting_scheme *const s = &w->s;
    const wu_pixels *const px = w->task->pixels;
    const size_t word = sizeof(uint32_t), rows = voting_offset_rows(s), layers = 2 * (size_t)s->reach[0] + 1;
    const uint32_t *const votes = w->done > 0 ? voting_votes_const(state) : NULL;
    const void *const data = px->bits == 16 ? (const void *)px->u16 : px->u8;
    const size_t slice = ((size_t)s->ny + 2 * (size_t)s->half[1]) * s->nx * word;
    tc_status st = filled(w, &w->shape, shape, sizeof *shape, "the shape", err);

    if (st == TC_OK)
        st = filled(w, &w->pixels, data, s->n * (px->bits / 8), "the pixels", err);
    if (st == TC_OK)
        st = filled(w, &w->votes, votes, s->n * word, "the votes", err);
    if (st == TC_OK)
        st = filled(w, &w->voters, votes != NULL ? votes + s->n : NULL, s->n * word, "the voters", err);
    if (st == TC_OK)
        st = filled(w, &w->columns, NULL, slice, "the blur", err);
    if (st == TC_OK)
        st = filled(w, &w->lines, NULL, slice, "the blur", err);
    if (st == TC_OK)
        st = filled(w, &w->codes, w->tables.dir_of_code, side_of_codes(s) * sizeof(uint16_t), "the directions", err);
    if (st == TC_OK)
        st = filled(w, &w->offsets, w->tables.dir_of_offset, rows * (2 * (size_t)s->reach[2] + 1) * sizeof(uint16_t),
                    "the directions", err);
    if (st == TC_OK)
        st = filled(w, &w->spans, NULL, s->n_dirs * rows * sizeof(voting_span), "the cones", err);
    if (st == TC_OK)
        st = filled(w, &w->rows, NULL, s->n_dirs * layers * sizeof(voting_span), "the cones", err);
    return st;
}

static tc_status clear(cl_worker *w, tc_err *err)
{
    const cl_uint n = (cl_uint)w->s.n;
    const size_t global = ocl_round_up(w->s.n, 64), local = 64;
    const ocl_arg args[] = { OCL_BUFFER(w->votes), OCL_BUFFER(w->voters), OCL_ARG(n) };
    ocl_batch batch = { 0 };
    double ms;
    tc_status st = ocl_set_args(w->device, &w->kernels[CLEAR], args, 3, err);

    if (st == TC_OK)
        st = ocl_launch(w->device, &w->kernels[CLEAR], 1, NULL, &global, &local, &batch, err);
    if (st != TC_OK) {
        ocl_batch_drop(w->device, &batch);
        return st;
    }
    return ocl_batch_wait(w->device, &batch, 0, &ms, err);
}

static void make_slices(cl_worker *w, double slice_ms)
{
    for (int i = 0; i <= VOTING_REBLUR; i++) {
        const bool heavy = i == VOTING_VOTE || i == VOTING_TURN;
        const uint64_t first = heavy ? 4 : 16;

        ocl_slice_init(&w->slices[i], slice_ms, first < w->s.bands ? first : w->s.bands, w->s.bands);
    }
}

static tc_status cl_open(const an_task *task, const void *state, void **worker, tc_err *err)
{
    cl_worker *const w = calloc(1, sizeof *w);
    voting_levels levels = { 0, 0 };
    voting_shape shape;
    tc_status st;

    *worker = w;
    if (w == NULL)
        return tc_no_memory(err, "voting");
    w->task = task;
    w->device = task->device;
    w->round = -1;
    w->done = ((const an_state_head *)state)->units_done;
    st = voting_scheme_init(task->params, task->item, task->item->name, &w->s, err);
    if (st == TC_OK)
        st = voting_levels_init(task->params, &w->s, task->pixels, &levels, err);
    if (st == TC_OK)
        st = voting_tables_init(&w->s, &w->tables, err);
    if (st == TC_OK)
        st = make_kernels(w, err);
    if (st == TC_OK) {
        w->turned_spans = malloc(w->s.n_dirs * voting_offset_rows(&w->s) * sizeof *w->turned_spans);
        st = w->turned_spans == NULL ? tc_no_memory(err, "voting") : TC_OK;
    }
    if (st == TC_OK) {
        fill_shape(w, &levels, &shape);
        st = make_buffers(w, &shape, state, err);
    }
    if (st == TC_OK && w->done == 0)
        st = clear(w, err);
    make_slices(w, task->slice_ms);
    if (st != TC_OK)
        cl_close(worker);
    return st;
}

/* --- steps --------------------------------------------------------------------------------- */

/* [n_dirs][n] to [n][n_dirs] */
static void transpose(const voting_span *from, size_t n_dirs, size_t n, voting_span *to)
{
    for (size_t d = 0; d < n_dirs; d++)
        for (size_t i = 0; i < n; i++)
            to[i * n_dirs + d] = from[d * n + i];
}

static tc_status load_round(cl_worker *w, int round, tc_err *err)
{
    const size_t rows = voting_offset_rows(&w->s), layers = 2 * (size_t)w->s.reach[0] + 1;
    tc_status st;

    if (w->round == round)
        return TC_OK;
    voting_tables_round(&w->s, &w->tables, round);
    transpose(w->tables.rows, w->s.n_dirs, layers, w->turned_spans);
    st = ocl_write(w->device, &w->rows, 0, w->turned_spans, w->rows.bytes, err);
    if (st != TC_OK)
        return st;
    transpose(w->tables.spans, w->s.n_dirs, rows, w->turned_spans);
    st = ocl_write(w->device, &w->spans, 0, w->turned_spans, w->spans.bytes, err);
    w->round = st == TC_OK ? round : -1;
    return st;
}

/* One work-item for each pixel of some rows, or for the vote one for four. */
static tc_status launch_rows(cl_worker *w, kernel_name name, const ocl_arg *args, size_t n_args, size_t rows,
                             ocl_batch *batch, tc_err *err)
{
    const size_t local[2] = { name == VOTE ? w->group : 64, 1 };
    const size_t width = name == VOTE ? (w->s.nx + 3) / 4 : w->s.nx;
    const size_t global[2] = { ocl_round_up(width, local[0]), rows };
    const tc_status st = ocl_set_args(w->device, &w->kernels[name], args, n_args, err);

    return st == TC_OK ? ocl_launch(w->device, &w->kernels[name], 2, NULL, global, local, batch, err) : st;
}

/* Rows [y0, y1) of slice z, blurred to the plane `to`. */
static tc_status blur_rows(cl_worker *w, const ocl_buffer *to, uint32_t z, uint32_t y0, uint32_t y1,
                           ocl_batch *batch, tc_err *err)
{
    const cl_int slice = (cl_int)z, top = (cl_int)y0 - w->s.half[1], first = (cl_int)y0;
    const cl_uint row = z * w->s.ny + y0;
    const size_t rows = y1 - y0, more = rows + 2 * (size_t)w->s.half[1];
    const ocl_arg along_z[] = { OCL_BUFFER(w->shape), OCL_BUFFER(w->pixels), OCL_BUFFER(w->pixels),
                                OCL_BUFFER(w->columns), OCL_ARG(slice), OCL_ARG(top) };
    const ocl_arg along_y[] = { OCL_BUFFER(w->shape), OCL_BUFFER(w->columns), OCL_BUFFER(w->lines), OCL_ARG(first) };
    const ocl_arg along_x[] = { OCL_BUFFER(w->shape), OCL_BUFFER(w->lines), OCL_BUFFER(*to), OCL_ARG(row) };
    tc_status st = launch_rows(w, BLUR_Z, along_z, 6, more, batch, err);

    if (st == TC_OK)
        st = launch_rows(w, BLUR_Y, along_y, 4, rows, batch, err);
    if (st == TC_OK)
        st = launch_rows(w, BLUR_X, along_x, 4, rows, batch, err);
    return st;
}

/* Bands [band, band + n), slice by slice. */
static tc_status blur_bands(cl_worker *w, const ocl_buffer *to, uint64_t band, uint64_t n, ocl_batch *batch, tc_err *err)
{
    const uint64_t end = band + n;
    tc_status st = TC_OK;

    while (st == TC_OK && band < end) {
        const uint64_t rest = w->s.bands_per_slice - band % w->s.bands_per_slice;
        const uint64_t here = rest < end - band ? rest : end - band;
        uint32_t z, y0, y1, ignored;

        voting_band_rows(&w->s, band, &z, &y0, &y1);
        voting_band_rows(&w->s, band + here - 1, &z, &ignored, &y1);
        st = blur_rows(w, to, z, y0, y1, batch, err);
        band += here;
    }
    return st;
}

static tc_status queue_bands(cl_worker *w, voting_phase phase, uint64_t band, uint64_t n, ocl_batch *batch, tc_err *err)
{
    uint32_t z, y0, y1, ignored;

    voting_band_rows(&w->s, band, &z, &y0, &y1);
    const cl_uint first = z * w->s.ny + y0;
    voting_band_rows(&w->s, band + n - 1, &z, &ignored, &y1);
    const size_t rows = (size_t)z * w->s.ny + y1 - first;
    const ocl_arg voters[] = { OCL_BUFFER(w->shape), OCL_BUFFER(w->votes), OCL_BUFFER(w->codes),
                               OCL_BUFFER(w->voters), OCL_ARG(first) };
    const ocl_arg vote[] = { OCL_BUFFER(w->shape), OCL_BUFFER(w->voters), OCL_BUFFER(w->spans),
                             OCL_BUFFER(w->votes), OCL_ARG(first) };
    const ocl_arg turn[] = { OCL_BUFFER(w->shape), OCL_BUFFER(w->votes), OCL_BUFFER(w->spans),
                             OCL_BUFFER(w->rows), OCL_BUFFER(w->offsets), OCL_BUFFER(w->voters), OCL_ARG(first) };

    switch (phase) {
    case VOTING_VOTERS:
        return launch_rows(w, VOTERS, voters, 5, rows, batch, err);
    case VOTING_VOTE:
        return launch_rows(w, VOTE, vote, 5, rows, batch, err);
    case VOTING_TURN:
        return launch_rows(w, TURN, turn, 7, rows, batch, err);
    default:
        return blur_bands(w, phase == VOTING_BLUR ? &w->votes : &w->voters, band, n, batch, err);
    }
}

static tc_status cl_step(void *worker, void *state, uint64_t *units_done, tc_err *err)
{
    cl_worker *const w = worker;
    ocl_batch batch = { 0 };
    voting_phase phase;
    uint64_t band, n;
    double ms = 0;
    tc_status st = TC_OK;
    int round;

    (void)state;
    *units_done = w->done;
    if (w->done >= w->s.units)
        return TC_OK;
    voting_unit_at(&w->s, w->done, &phase, &round, &band);
    ocl_slice *const slice = &w->slices[phase];
    n = ocl_slice_next(slice, w->s.bands - band);
    if (phase == VOTING_VOTE || phase == VOTING_TURN)
        st = load_round(w, round, err);
    if (st == TC_OK)
        st = queue_bands(w, phase, band, n, &batch, err);
    if (st != TC_OK) {
        ocl_batch_drop(w->device, &batch);
        return st;
    }
    st = ocl_batch_wait(w->device, &batch, slice->last_ms, &ms, err);
    if (st != TC_OK)
        return st;
    ocl_slice_took(slice, n, ms);
    w->done += n;
    *units_done = w->done;
    return w->done == w->s.units ? TC_OK : TC_MORE;
}

/* Through memory of its own, so that a device that fails leaves the state whole. */
static tc_status cl_sync(void *worker, void *state, tc_err *err)
{
    cl_worker *const w = worker;
    const size_t bytes = w->s.n * sizeof(uint32_t);
    unsigned char *const copy = malloc(2 * bytes);
    tc_status st = copy == NULL ? tc_no_memory(err, "voting") : ocl_read(w->device, &w->votes, 0, copy, bytes, err);

    if (st == TC_OK)
        st = ocl_read(w->device, &w->voters, 0, copy + bytes, bytes, err);
    if (st == TC_OK) {
        memcpy(voting_votes(state), copy, 2 * bytes);
        ((an_state_head *)state)->units_done = w->done;
    }
    free(copy);
    return st;
}

const an_backend voting_opencl = {
    .name = "opencl",
    .open = cl_open,
    .step = cl_step,
    .sync = cl_sync,
    .close = cl_close
};
