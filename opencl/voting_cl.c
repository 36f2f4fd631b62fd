/*
 * voting on an OpenCL device: buffers and launches. A launch takes the rows that
 * fit a slice of time, and a step the launches up to the end of a band.
 *
 * An item that fits the device is there from open to sync. Of a larger one the
 * planes stay in the state, and each phase takes them slab by slab: the rows that
 * it writes, and of the plane that it reads also those that they depend on. In
 * both cases a launch finds what it reads in one plane and leaves what it makes in
 * another, either of them whole or a part of the rows.
 */
#include "opencl/backends.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/voting/voting.h"
#include "opencl/program.h"
#include "opencl/work.h"

extern const ocl_source ocl_source_voting;

enum { TILE_ROWS = 8 };         /* a group of the vote sums as many rows, or fewer */

typedef enum kernel_name { BLUR_Z, BLUR_Y, BLUR_X, VOTERS, VOTE, TURN, KERNELS } kernel_name;
static const char *const kernel_names[KERNELS] = {
    "voting_blur_z", "voting_blur_y", "voting_blur_x", "voting_voters", "voting_vote", "voting_turn"
};

/* Some rows of a plane, counted through all slices. */
typedef struct rows {
    uint64_t first, n;
} rows;

typedef struct cl_worker {
    const an_task *task;
    ocl_device *device;
    voting_scheme s;
    voting_tables tables;
    an_pool *pool;                      /* makes the tables */
    ocl_kernel kernels[KERNELS];
    ocl_buffer shape;
    ocl_buffer columns, lines;          /* a slice of the blur between its passes */
    ocl_buffer codes, offsets, spans, rows;
    ocl_buffer pixels, votes, voters;   /* of an item that fits */
    uint64_t slab_bands;                /* 0: the item fits. Otherwise a slab has as many bands */
    ocl_buffer in, out;                 /* of a slab */
    rows in_rows, out_rows;             /* that they hold */
    uint64_t slab_end;                  /* units of work up to the end of the slab; <= done: none is loaded */
    uint32_t *copy;                     /* rows from the device, on their way to the state */
    int round;                          /* of the device's tables; -1: none */
    size_t group;
    ocl_slice slices[VOTING_REBLUR + 1];    /* by phase, in rows */
    uint64_t done;
} cl_worker;

/* --- open, close ---------------------------------------------------------------------- */

static void cl_close(void **worker)
{
    cl_worker *const w = *worker;

    *worker = NULL;
    if (w == NULL)
        return;
    ocl_buffer *const buffers[] = { &w->shape, &w->pixels, &w->votes, &w->voters, &w->in, &w->out, &w->columns,
                                    &w->lines, &w->codes, &w->offsets, &w->spans, &w->rows };
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        ocl_buffer_free(w->device, buffers[i]);
    for (int i = 0; i < KERNELS; i++)
        ocl_kernel_free(w->device, &w->kernels[i]);
    voting_tables_free(&w->tables);
    an_pool_destroy(&w->pool);
    free(w->copy);
    free(w);
}

static tc_status make_kernels(cl_worker *w, tc_err *err)
{
    cl_program program = NULL;
    char defines[48];

    w->group = w->device->info.max_group >= 128 ? 128 : OCL_GROUP_FLOOR;
    snprintf(defines, sizeof defines, "-DGROUP=%zu -DTILE_ROWS=%d", w->group, TILE_ROWS);
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

/* --- what fits the device -------------------------------------------------------------- */

/* Rows through all slices before a band, or in all. */
static uint64_t rows_before(const voting_scheme *s, uint64_t band)
{
    return band / s->bands_per_slice * s->ny + band % s->bands_per_slice * s->band_rows;
}

static uint64_t all_rows(const voting_scheme *s)
{
    return (uint64_t)s->nz * s->ny;
}

/* Rows on either side of those that a phase writes, of which it reads. */
static uint64_t halo_of(const voting_scheme *s, voting_phase phase)
{
    switch (phase) {
    case VOTING_BLUR:
    case VOTING_REBLUR:
        return (uint64_t)s->half[0] * s->ny + (uint64_t)s->half[1];
    case VOTING_VOTERS:
        return s->nz > 1 ? s->ny : 1;
    default:
        return (uint64_t)s->reach[0] * s->ny + (uint64_t)s->reach[1];
    }
}

/* Rows [first, end) and those around them. */
static rows around(const voting_scheme *s, uint64_t first, uint64_t end, uint64_t halo)
{
    const uint64_t from = first > halo ? first - halo : 0, all = all_rows(s);
    const uint64_t to = end + halo < all ? end + halo : all;

    return (rows){ from, to - from };
}

static bool reads_pixels(voting_phase phase)
{
    return phase == VOTING_BLUR || phase == VOTING_REBLUR;
}

/* Bytes of what a slab of so many bands needs, at the most. */
typedef struct slab_bytes {
    uint64_t in, out, blur;
} slab_bytes;

static slab_bytes bytes_of_slab(const cl_worker *w, uint64_t bands)
{
    const voting_scheme *const s = &w->s;
    const uint64_t most = bands * (s->band_rows < s->ny ? s->band_rows : s->ny), all = all_rows(s);
    const uint64_t n = most < all ? most : all, slice = n < s->ny ? n : s->ny;
    slab_bytes b = { 0, n * s->nx * sizeof(uint32_t),
                     (slice + 2 * (uint64_t)s->half[1]) * s->nx * sizeof(uint32_t) };

    for (voting_phase p = VOTING_BLUR; p <= VOTING_TURN; p++) {
        const uint64_t wanted = n + 2 * halo_of(s, p), held = wanted < all ? wanted : all;
        const uint64_t bytes = held * s->nx * (reads_pixels(p) ? w->task->pixels->bits / 8 : sizeof(uint32_t));

        b.in = bytes > b.in ? bytes : b.in;
    }
    return b;
}

/* Whether there is room for an item, or for a slab of it: 0 bands are all. */
static bool fits(const cl_worker *w, uint64_t bands)
{
    const uint64_t room = w->device->memory_limit - w->device->memory_used, most = w->device->info.max_alloc_bytes;
    const slab_bytes b = bytes_of_slab(w, bands > 0 ? bands : w->s.bands);

    if (bands > 0)
        return b.in + b.out + 2 * b.blur <= room && b.in <= most && b.out <= most && b.blur <= most;
    return (uint64_t)w->s.n * (w->task->pixels->bits / 8) + 2 * b.out + 2 * b.blur <= room && b.out <= most &&
           b.blur <= most;
}

/* The largest that fits; if not even one band does, the buffers will say so. */
static void choose_slabs(cl_worker *w)
{
    uint64_t few = 1, many = w->s.bands;

    w->slab_bands = 0;
    if (fits(w, 0))
        return;
    while (few < many) {
        const uint64_t middle = few + (many - few + 1) / 2;

        if (fits(w, middle))
            few = middle;
        else
            many = middle - 1;
    }
    w->slab_bands = few;
}

/* --- buffers ----------------------------------------------------------------------------- */

static tc_status make_tables(cl_worker *w, const voting_shape *shape, tc_err *err)
{
    const voting_scheme *const s = &w->s;
    const size_t n_rows = voting_offset_rows(s), layers = 2 * (size_t)s->reach[0] + 1;
    tc_status st = filled(w, &w->shape, shape, sizeof *shape, "the shape", err);

    if (st == TC_OK)
        st = filled(w, &w->codes, w->tables.dir_of_code, side_of_codes(s) * sizeof(uint16_t), "the directions", err);
    if (st == TC_OK)
        st = filled(w, &w->offsets, w->tables.dir_of_offset, n_rows * (2 * (size_t)s->reach[2] + 1) * sizeof(uint16_t),
                    "the directions", err);
    if (st == TC_OK)
        st = filled(w, &w->spans, NULL, s->n_dirs * n_rows * sizeof(voting_span), "the cones", err);
    if (st == TC_OK)
        st = filled(w, &w->rows, NULL, s->n_dirs * layers * sizeof(voting_span), "the cones", err);
    return st;
}

static const void *pixel_bytes(const wu_pixels *px)
{
    return px->bits == 16 ? (const void *)px->u16 : px->u8;
}

/* The planes of an item that fits, or what holds those of a slab. */
static tc_status make_planes(cl_worker *w, const void *state, tc_err *err)
{
    const voting_scheme *const s = &w->s;
    const slab_bytes b = bytes_of_slab(w, w->slab_bands > 0 ? w->slab_bands : s->bands);
    const uint32_t *const votes = w->done > 0 ? voting_votes_const(state) : NULL;
    tc_status st = filled(w, &w->columns, NULL, b.blur, "the blur", err);

    if (st == TC_OK)
        st = filled(w, &w->lines, NULL, b.blur, "the blur", err);
    if (w->slab_bands > 0) {
        if (st == TC_OK)
            st = filled(w, &w->in, NULL, b.in, "a slab", err);
        if (st == TC_OK)
            st = filled(w, &w->out, NULL, b.out, "a slab", err);
        w->copy = malloc(b.out);
        return st == TC_OK && w->copy == NULL ? tc_no_memory(err, "a slab") : st;
    }
    w->in_rows = w->out_rows = (rows){ 0, all_rows(s) };
    if (st == TC_OK)
        st = filled(w, &w->pixels, pixel_bytes(w->task->pixels), s->n * (w->task->pixels->bits / 8), "the pixels", err);
    if (st == TC_OK)
        st = filled(w, &w->votes, votes, b.out, "the votes", err);
    if (st == TC_OK)
        st = filled(w, &w->voters, votes != NULL ? votes + s->n : NULL, b.out, "the voters", err);
    return st;
}

/* The first launches are made before anything is known of the device: some eight
 * million times a voter and a row that its cone may cross, or as much else. */
static void make_slices(cl_worker *w)
{
    const uint64_t few = (uint64_t)8 << 20, cone = voting_offset_rows(&w->s);
    const uint64_t taps = 2 * (uint64_t)(w->s.half[0] + w->s.half[1] + w->s.half[2]) + 3;
    const uint64_t cost[VOTING_REBLUR + 1] = { taps, 64, cone, cone * ((uint64_t)w->s.reach[2] / 4 + 1), taps };

    for (int i = 0; i <= VOTING_REBLUR; i++)
        ocl_slice_init(&w->slices[i], w->task->slice_ms, few / (cost[i] * w->s.nx) + 1, all_rows(&w->s));
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
        st = an_pool_create(task->threads, &w->pool, err);
    if (st == TC_OK)
        st = make_kernels(w, err);
    if (st == TC_OK) {
        fill_shape(w, &levels, &shape);
        st = make_tables(w, &shape, err);
    }
    if (st == TC_OK) {
        choose_slabs(w);
        make_slices(w);
        st = make_planes(w, state, err);
    }
    if (st != TC_OK)
        cl_close(worker);
    return st;
}

/* --- steps --------------------------------------------------------------------------------- */

static tc_status load_round(cl_worker *w, int round, tc_err *err)
{
    tc_status st;

    if (w->round == round)
        return TC_OK;
    voting_tables_round(&w->s, &w->tables, round, w->pool);
    st = ocl_write(w->device, &w->rows, 0, w->tables.rows, w->rows.bytes, err);
    if (st == TC_OK)
        st = ocl_write(w->device, &w->spans, 0, w->tables.spans, w->spans.bytes, err);
    w->round = st == TC_OK ? round : -1;
    return st;
}

/* One work-item for each pixel of some rows. */
static tc_status launch_rows(cl_worker *w, kernel_name name, const ocl_arg *args, size_t n_args, size_t n_rows,
                             ocl_batch *batch, tc_err *err)
{
    const size_t local[2] = { 64, 1 };
    const size_t global[2] = { ocl_round_up(w->s.nx, local[0]), n_rows };
    const tc_status st = ocl_set_args(w->device, &w->kernels[name], args, n_args, err);

    return st == TC_OK ? ocl_launch(w->device, &w->kernels[name], 2, NULL, global, local, batch, err) : st;
}

/* What a phase reads and what it writes, on the device. */
static const ocl_buffer *plane_in(const cl_worker *w, voting_phase phase)
{
    if (w->slab_bands > 0)
        return &w->in;
    return reads_pixels(phase) ? &w->pixels : phase == VOTING_VOTE ? &w->voters : &w->votes;
}

static const ocl_buffer *plane_out(const cl_worker *w, voting_phase phase)
{
    if (w->slab_bands > 0)
        return &w->out;
    return phase == VOTING_BLUR || phase == VOTING_VOTE ? &w->votes : &w->voters;
}

/* The same in the state. */
static uint32_t *state_out(const cl_worker *w, voting_phase phase, void *state)
{
    return voting_votes(state) + (phase == VOTING_BLUR || phase == VOTING_VOTE ? 0 : w->s.n);
}

/* Rows [y0, y1) of slice z. */
static tc_status blur_slice(cl_worker *w, voting_phase phase, uint32_t z, uint32_t y0, uint32_t y1, ocl_batch *batch,
                            tc_err *err)
{
    const cl_int slice = (cl_int)z, top = (cl_int)y0 - w->s.half[1], first = (cl_int)y0;
    const cl_uint in_first = (cl_uint)w->in_rows.first;
    const cl_uint row = (cl_uint)((uint64_t)z * w->s.ny + y0 - w->out_rows.first);
    const size_t n = y1 - y0, more = n + 2 * (size_t)w->s.half[1];
    const ocl_buffer *const in = plane_in(w, phase), *const out = plane_out(w, phase);
    const ocl_arg along_z[] = { OCL_BUFFER(w->shape), OCL_BUFFER(*in), OCL_BUFFER(*in), OCL_BUFFER(w->columns),
                                OCL_ARG(slice), OCL_ARG(top), OCL_ARG(in_first) };
    const ocl_arg along_y[] = { OCL_BUFFER(w->shape), OCL_BUFFER(w->columns), OCL_BUFFER(w->lines), OCL_ARG(first) };
    const ocl_arg along_x[] = { OCL_BUFFER(w->shape), OCL_BUFFER(w->lines), OCL_BUFFER(*out), OCL_ARG(row) };
    tc_status st = launch_rows(w, BLUR_Z, along_z, 7, more, batch, err);

    if (st == TC_OK)
        st = launch_rows(w, BLUR_Y, along_y, 4, n, batch, err);
    if (st == TC_OK)
        st = launch_rows(w, BLUR_X, along_x, 4, n, batch, err);
    return st;
}

/* Rows [row, end) through all slices, slice by slice. */
static tc_status blur_rows(cl_worker *w, voting_phase phase, uint64_t row, uint64_t end, ocl_batch *batch, tc_err *err)
{
    const uint64_t ny = w->s.ny;
    tc_status st = TC_OK;

    while (st == TC_OK && row < end) {
        const uint64_t z = row / ny, to = (z + 1) * ny < end ? (z + 1) * ny : end;

        st = blur_slice(w, phase, (uint32_t)z, (uint32_t)(row - z * ny), (uint32_t)(to - z * ny), batch, err);
        row = to;
    }
    return st;
}

/* Rows [y0, y1) of slices [z0, z1). */
static tc_status vote_box(cl_worker *w, uint64_t z0, uint64_t z1, uint64_t y0, uint64_t y1, ocl_batch *batch, tc_err *err)
{
    const cl_int z_first = (cl_int)z0, y_first = (cl_int)y0, y_end = (cl_int)y1;
    const cl_uint in_first = (cl_uint)w->in_rows.first, out_first = (cl_uint)w->out_rows.first;
    const ocl_buffer *const in = plane_in(w, VOTING_VOTE), *const out = plane_out(w, VOTING_VOTE);
    const ocl_arg args[] = { OCL_BUFFER(w->shape), OCL_BUFFER(*in), OCL_BUFFER(w->spans), OCL_BUFFER(w->rows),
                             OCL_BUFFER(*out), OCL_ARG(z_first), OCL_ARG(y_first), OCL_ARG(y_end), OCL_ARG(in_first),
                             OCL_ARG(out_first) };
    const size_t local[3] = { w->group, 1, 1 };
    const size_t global[3] = { ocl_round_up((w->s.nx + 3) / 4, w->group), (size_t)(y1 - y0 + TILE_ROWS - 1) / TILE_ROWS,
                               (size_t)(z1 - z0) };
    const tc_status st = ocl_set_args(w->device, &w->kernels[VOTE], args, sizeof args / sizeof args[0], err);

    return st == TC_OK ? ocl_launch(w->device, &w->kernels[VOTE], 3, NULL, global, local, batch, err) : st;
}

/* Rows [row, end) through all slices: what they have of the first slice, whole
 * slices, what they have of the last. */
static tc_status vote_rows(cl_worker *w, uint64_t row, uint64_t end, ocl_batch *batch, tc_err *err)
{
    const uint64_t ny = w->s.ny;
    tc_status st = TC_OK;

    while (st == TC_OK && row < end) {
        const uint64_t z = row / ny, y = row % ny, whole = y == 0 ? (end - row) / ny : 0;
        const uint64_t rest = end - row < ny - y ? end - row : ny - y;

        if (whole > 0)
            st = vote_box(w, z, z + whole, 0, ny, batch, err);
        else
            st = vote_box(w, z, z + 1, y, y + rest, batch, err);
        row += whole > 0 ? whole * ny : rest;
    }
    return st;
}

static tc_status queue_rows(cl_worker *w, voting_phase phase, uint64_t row, uint64_t end, ocl_batch *batch, tc_err *err)
{
    const cl_uint first = (cl_uint)row, in_first = (cl_uint)w->in_rows.first, out_first = (cl_uint)w->out_rows.first;
    const ocl_buffer *const in = plane_in(w, phase), *const out = plane_out(w, phase);
    const ocl_arg voters[] = { OCL_BUFFER(w->shape), OCL_BUFFER(*in), OCL_BUFFER(w->codes), OCL_BUFFER(*out),
                               OCL_ARG(first), OCL_ARG(in_first), OCL_ARG(out_first) };
    const ocl_arg turn[] = { OCL_BUFFER(w->shape), OCL_BUFFER(*in), OCL_BUFFER(w->spans), OCL_BUFFER(w->rows),
                             OCL_BUFFER(w->offsets), OCL_BUFFER(*out), OCL_ARG(first), OCL_ARG(in_first),
                             OCL_ARG(out_first) };

    switch (phase) {
    case VOTING_VOTERS:
        return launch_rows(w, VOTERS, voters, 7, end - row, batch, err);
    case VOTING_VOTE:
        return vote_rows(w, row, end, batch, err);
    case VOTING_TURN:
        return launch_rows(w, TURN, turn, 9, end - row, batch, err);
    default:
        return blur_rows(w, phase, row, end, batch, err);
    }
}

/* --- slabs ---------------------------------------------------------------------------------- */

static tc_status load_rows(cl_worker *w, const ocl_buffer *to, const void *plane, size_t pixel, rows r, tc_err *err)
{
    const size_t row = w->s.nx * pixel;

    return ocl_write(w->device, to, 0, (const unsigned char *)plane + r.first * row, r.n * row, err);
}

/* The slab that begins with a band, as a phase wants it. */
static tc_status load_slab(cl_worker *w, voting_phase phase, uint64_t band, void *state, tc_err *err)
{
    const voting_scheme *const s = &w->s;
    const uint64_t end = s->bands - band < w->slab_bands ? s->bands : band + w->slab_bands;
    const uint64_t first = rows_before(s, band), last = rows_before(s, end);
    const uint32_t *const votes = voting_votes(state);
    tc_status st;

    w->out_rows = (rows){ first, last - first };
    w->in_rows = around(s, first, last, halo_of(s, phase));
    if (reads_pixels(phase))
        st = load_rows(w, &w->in, pixel_bytes(w->task->pixels), w->task->pixels->bits / 8, w->in_rows, err);
    else
        st = load_rows(w, &w->in, phase == VOTING_VOTE ? votes + s->n : votes, sizeof *votes, w->in_rows, err);
    if (st == TC_OK && phase == VOTING_TURN)
        st = load_rows(w, &w->out, votes + s->n, sizeof *votes, w->out_rows, err);
    if (st == TC_OK)
        w->slab_end = w->done + (end - band);
    return st;
}

/* Rows [row, end) from the slab into the state, all or none of them. */
static tc_status store_rows(cl_worker *w, voting_phase phase, uint64_t row, uint64_t end, void *state, tc_err *err)
{
    const size_t pixels = (size_t)(end - row) * w->s.nx, offset = (size_t)(row - w->out_rows.first) * w->s.nx;
    const tc_status st = ocl_read(w->device, &w->out, offset * sizeof *w->copy, w->copy, pixels * sizeof *w->copy, err);

    if (st == TC_OK)
        memcpy(state_out(w, phase, state) + (size_t)row * w->s.nx, w->copy, pixels * sizeof *w->copy);
    return st;
}

/* --- the backend ------------------------------------------------------------------------------ */

/* The end of the band that a row is in; a row where one begins: that row. */
static uint64_t end_of_band(const voting_scheme *s, uint64_t row)
{
    const uint64_t y = row % s->ny, past = y % s->band_rows;
    const uint64_t end = past == 0 ? y : y - past + s->band_rows;

    return row - y + (end < s->ny ? end : s->ny);
}

/* Launches from a row on, up to the end of a band: as many rows as fit a slice of
 * time, and what is then left of the band. *row: where that led. */
static tc_status launch(cl_worker *w, voting_phase phase, uint64_t *row, uint64_t limit, tc_err *err)
{
    ocl_slice *const slice = &w->slices[phase];
    uint64_t left = limit - *row;
    tc_status st = TC_OK;

    while (st == TC_OK && left > 0) {
        const uint64_t n = ocl_slice_next(slice, left);
        ocl_batch batch = { 0 };
        double ms = 0;

        st = queue_rows(w, phase, *row, *row + n, &batch, err);
        if (st != TC_OK) {
            ocl_batch_drop(w->device, &batch);
            return st;
        }
        st = ocl_batch_wait(w->device, &batch, slice->last_ms, &ms, err);
        if (st == TC_OK)
            ocl_slice_took(slice, n, ms);
        *row += n;
        left = end_of_band(&w->s, *row) - *row;
    }
    return st;
}

static tc_status cl_step(void *worker, void *state, uint64_t *units_done, tc_err *err)
{
    cl_worker *const w = worker;
    const voting_scheme *const s = &w->s;
    voting_phase phase;
    uint64_t band, first, row;
    tc_status st = TC_OK;
    int round;

    *units_done = w->done;
    if (w->done >= s->units)
        return TC_OK;
    voting_unit_at(s, w->done, &phase, &round, &band);
    first = row = rows_before(s, band);
    if (phase == VOTING_VOTE || phase == VOTING_TURN)
        st = load_round(w, round, err);
    if (st == TC_OK && w->slab_bands > 0 && w->slab_end <= w->done)
        st = load_slab(w, phase, band, state, err);
    if (st == TC_OK)
        st = launch(w, phase, &row, w->out_rows.first + w->out_rows.n, err);
    if (st == TC_OK && w->slab_bands > 0)
        st = store_rows(w, phase, first, row, state, err);
    if (st != TC_OK)
        return st;
    while (band < s->bands && rows_before(s, band) < row) {
        band++;
        w->done++;
    }
    if (w->slab_bands > 0)
        ((an_state_head *)state)->units_done = w->done;
    *units_done = w->done;
    return w->done == s->units ? TC_OK : TC_MORE;
}

/* How many pixels of the planes have been written so far; the others are those
 * of the start. */
static void written(const cl_worker *w, size_t *votes, size_t *voters)
{
    const uint64_t bands = w->s.bands, planes = w->done / bands;
    const size_t part = (size_t)rows_before(&w->s, w->done % bands) * w->s.nx;

    *votes = planes == 0 ? part : w->s.n;
    *voters = planes == 0 ? 0 : planes == 1 ? part : w->s.n;
}

static tc_status read_planes(cl_worker *w, uint32_t *to, tc_err *err)
{
    size_t votes, voters;

    written(w, &votes, &voters);
    const tc_status st = ocl_read(w->device, &w->votes, 0, to, votes * sizeof *to, err);

    return st == TC_OK ? ocl_read(w->device, &w->voters, 0, to + w->s.n, voters * sizeof *to, err) : st;
}

/* Through memory of its own, so that a device that fails leaves the state whole;
 * a state that is still that of the start is as easily made again. */
static tc_status cl_sync(void *worker, void *state, tc_err *err)
{
    cl_worker *const w = worker;
    an_state_head *const head = state;
    const size_t bytes = 2 * w->s.n * sizeof(uint32_t);
    const bool fresh = head->units_done == 0;
    uint32_t *const planes = voting_votes(state);
    tc_status st;

    if (w->slab_bands > 0)
        return TC_OK;
    uint32_t *const to = fresh ? planes : malloc(bytes);
    st = to == NULL ? tc_no_memory(err, "voting") : read_planes(w, to, err);
    if (st == TC_OK && !fresh) {
        size_t votes, voters;

        written(w, &votes, &voters);
        memcpy(planes, to, votes * sizeof *to);
        memcpy(planes + w->s.n, to + w->s.n, voters * sizeof *to);
    }
    if (st == TC_OK)
        head->units_done = w->done;
    else if (fresh)
        memset(planes, 0, bytes);
    if (!fresh)
        free(to);
    return st;
}

const an_backend ocl_voting = {
    .name = "opencl",
    .open = cl_open,
    .step = cl_step,
    .sync = cl_sync,
    .close = cl_close
};
