/*
 * The OpenCL backend of voting: buffers, and launches of the kernels of voting.cl. A launch
 * processes as many rows as the pace allows. A step makes launches up to the end of a band, which
 * is the range of rows that one chunk processes.
 *
 * A voter is a pixel with a weight and a direction. In each round, VOTE adds up, at every pixel,
 * the weights of the voters whose cones contain the pixel; then TURN turns every voter towards the
 * pixel with the largest sum in its cone. The peaks of the last sums are the cells.
 *
 * If the item fits the device, its planes (pixels, votes, voters) stay there until sync. Otherwise
 * the planes are in the state, and each phase processes one slab, which is a range of consecutive
 * bands, after another. B_OUT then holds the slab's rows of the plane that the phase writes, and
 * B_IN the slab's rows, and some rows before and after them, of the plane that the phase reads. In
 * both cases a launch reads from one buffer and writes to another.
 */
#include "opencl/backends.h"

#include <stdlib.h>
#include <string.h>

#include "app/analysis/voting/voting.h"
#include "opencl/worker.h"

extern const ocl_source ocl_source_voting;

enum { BLUR_Z, BLUR_Y, BLUR_X, VOTERS, VOTE, TURN, PEAKS, LINES, KERNELS };
static const char *const kernel_names[KERNELS] = { "voting_blur_z", "voting_blur_y",
                                                   "voting_blur_x", "voting_voters",
                                                   "voting_vote",   "voting_turn",
                                                   "voting_peaks",  "voting_lines_around" };

/* The device's buffers. */
enum {
    B_SHAPE,   /* a voting_shape */
    B_COLUMNS, /* slices after the blur along z; when the result is made, the list of peaks */
    B_LINES,   /* slices after the blur along y; when the result is made, the number of peaks, then
                  the sums (voting_lines) around the peaks */
    B_CODES,   /* voting_tables.dir_of_code */
    B_OFFSETS, /* voting_tables.dir_of_offset */
    B_SPANS,   /* voting_tables.spans of the current round */
    B_ROWS,    /* voting_tables.rows of the current round */
    B_PIXELS,  /* B_PIXELS, B_VOTES and B_VOTERS: the planes of an item that fits the device */
    B_VOTES,
    B_VOTERS,
    B_IN, /* rows of a slab that a phase reads */
    B_OUT /* rows of a slab that a phase writes */
};

enum {
    BLUR_BYTES = 16 << 20, /* the most bytes of the slices that one launch blurs */
    TURN_COLUMNS = 32,     /* size along x, in work-items, of a work-group of TURN */
    TURN_GROUP = 256,      /* the most work-items of a work-group of TURN */
    SEGMENT = 256 /* as in voting.cl: width, in pixels, of the tile whose votes a work-group
                     adds up */
};

/* Indices of cl_worker.pace. Elements 0 to VOTING_REBLUR are the paces of the phases
 * (voting_phase), as numbers of rows. */
enum {
    FIND_PACE = VOTING_REBLUR + 1, /* pace of finding peaks: number of rows */
    SUMS_PACE,                     /* pace of computing the sums around peaks: number of peaks */
    PACES
};

/* Consecutive rows of a plane. Rows are numbered through all slices. */
typedef struct row_range {
    uint64_t first, n;
} row_range;

typedef struct cl_worker {
    ocl_worker ocl;
    voting_scheme s; /* the sizes and parameters of the method for this item */
    voting_tables tables;
    an_pool *pool;        /* makes the tables */
    uint64_t slab_bands;  /* bands of a slab; 0: the item fits the device */
    row_range in_rows;    /* the rows in the buffer that the phase reads */
    row_range out_rows;   /* the rows in the buffer that the phase writes */
    uint64_t slab_end;    /* the value that `done` has when the loaded slab is finished; when `done`
                             has    reached it, the next slab must be loaded */
    uint32_t *copy;       /* memory for the rows that are copied from the device to the state */
    int round;            /* the round of voting whose tables are in B_SPANS and B_ROWS; -1: none */
    size_t group;         /* GROUP of voting.cl: work-items of a work-group that votes */
    size_t tile_rows;     /* TILE_ROWS of voting.cl */
    ocl_pace pace[PACES]; /* the work of a launch */
    uint64_t done;        /* number of chunks that are done */
} cl_worker;

/* --- open, close ----------------------------------------------------------------------------- */

static void free_worker(void *worker)
{
    cl_worker *const w = worker;

    voting_tables_free(&w->tables);
    an_pool_destroy(&w->pool);
    free(w->copy);
}

/* --- what fits the device -------------------------------------------------------------------- */

/* The number of rows before a band; bands and rows are numbered through all slices. */
static uint64_t rows_before(const voting_scheme *s, uint64_t band)
{
    return band / s->bands_per_slice * s->ny + band % s->bands_per_slice * s->band_rows;
}

/* The number of rows of the item, in all slices. */
static uint64_t item_rows(const voting_scheme *s)
{
    return (uint64_t)s->nz * s->ny;
}

/* The number of rows that a phase reads before, and also after, the rows that it writes. */
static uint64_t halo_rows(const voting_scheme *s, voting_phase phase)
{
    switch (phase) {
    case VOTING_BLUR:
    case VOTING_REBLUR: return (uint64_t)s->shape.taps[0] * s->ny + (uint64_t)s->shape.taps[1];
    case VOTING_VOTERS: return s->nz > 1 ? s->ny : 1;
    default: return (uint64_t)s->shape.reach[0] * s->ny + (uint64_t)s->shape.reach[1];
    }
}

/* Returns the range of the rows [first, end) and the `halo` rows on either side, as far as the item
 * has them. */
static row_range rows_with_halo(const voting_scheme *s, uint64_t first, uint64_t end, uint64_t halo)
{
    const uint64_t from = first > halo ? first - halo : 0, all = item_rows(s);
    const uint64_t to = end + halo < all ? end + halo : all;

    return (row_range){ from, to - from };
}

/* Whether a phase reads the pixels, rather than votes or voters. */
static bool reads_pixels(voting_phase phase)
{
    return phase == VOTING_BLUR || phase == VOTING_REBLUR;
}

/* The greatest number of bytes that a slab needs in B_IN (in), in B_OUT (out), and in each of
 * B_COLUMNS and B_LINES (blur). */
typedef struct slab_bytes {
    uint64_t in, out, blur;
} slab_bytes;

/* The greatest number of slices that one launch blurs; 1 if the item is processed in slabs. */
static uint64_t blur_depth(const voting_scheme *s, bool slabs)
{
    const uint64_t fit = BLUR_BYTES / ((uint64_t)s->nx * s->ny * sizeof(uint32_t));

    return slabs || fit < 1 ? 1 : fit < s->nz ? fit : s->nz;
}

/* The buffer sizes for slabs of slab_bands bands; if slab_bands is 0, for the whole item. */
static slab_bytes bytes_of_slab(const cl_worker *w, uint64_t slab_bands)
{
    const voting_scheme *const s = &w->s;
    const uint64_t bands = slab_bands > 0 ? slab_bands : s->bands;
    const uint64_t most = bands * (s->band_rows < s->ny ? s->band_rows : s->ny), all = item_rows(s);
    /* n: rows of the slab; slice: its rows in one slice */
    const uint64_t n = most < all ? most : all, slice = n < s->ny ? n : s->ny;
    slab_bytes b = { 0, n * s->nx * sizeof(uint32_t),
                     blur_depth(s, slab_bands > 0) * (slice + 2 * (uint64_t)s->shape.taps[1]) *
                         s->nx * sizeof(uint32_t) };

    for (voting_phase p = VOTING_BLUR; p <= VOTING_TURN; p++) {
        const uint64_t wanted = n + 2 * halo_rows(s, p), held = wanted < all ? wanted : all;
        const uint64_t bytes =
            held * s->nx * (reads_pixels(p) ? w->ocl.work->pixels->bits / 8 : sizeof(uint32_t));

        b.in = bytes > b.in ? bytes : b.in;
    }
    return b;
}

/* Whether a slab of `bands` bands fits the device's memory; if `bands` is 0, whether the whole item
 * does. */
static bool bands_fit(const cl_worker *w, uint64_t bands)
{
    const uint64_t room = w->ocl.device->memory_limit - w->ocl.device->memory_used,
                   most = w->ocl.device->info.max_alloc_bytes;
    const slab_bytes b = bytes_of_slab(w, bands);

    if (bands > 0)
        return b.in + b.out + 2 * b.blur <= room && b.in <= most && b.out <= most && b.blur <= most;
    return (uint64_t)w->s.n * (w->ocl.work->pixels->bits / 8) + 2 * b.out + 2 * b.blur <= room &&
           b.out <= most && b.blur <= most;
}

/* Sets slab_bands to 0 if the item fits the device, otherwise to the most bands that fit, but at
 * least 1. If not even 1 band fits, the allocation of the buffers will fail. */
static void choose_slabs(cl_worker *w)
{
    uint64_t fits = 1, most = w->s.bands;

    w->slab_bands = 0;
    if (bands_fit(w, 0))
        return;
    while (fits < most) {
        const uint64_t middle = fits + (most - fits + 1) / 2;

        if (bands_fit(w, middle))
            fits = middle;
        else
            most = middle - 1;
    }
    w->slab_bands = fits;
}

/* --- buffers --------------------------------------------------------------------------------- */

/* Allocates the buffers of tables, and copies the tables that are the same in all rounds. */
static tc_status make_tables(cl_worker *w, tc_err *err)
{
    const voting_scheme *const s = &w->s;
    /* layers: the slices around a voter that its cone may cross */
    const size_t n_rows = voting_offset_rows(s), layers = 2 * (size_t)s->shape.reach[0] + 1;
    const ocl_buffer_need needs[] = {
        { B_SHAPE, sizeof s->shape, "the shape", &s->shape },
        { B_CODES, voting_code_count(s) * sizeof(uint16_t), "the directions",
          w->tables.dir_of_code },
        { B_OFFSETS, n_rows * (2 * (size_t)s->shape.reach[2] + 1) * sizeof(uint16_t),
          "the directions", w->tables.dir_of_offset },
        { B_SPANS, voting_span_count(s) * sizeof(voting_span), "the cones", NULL },
        { B_ROWS, s->n_dirs * layers * sizeof(voting_span), "the cones", NULL }
    };

    return ocl_make_buffers(&w->ocl, needs, sizeof needs / sizeof needs[0], err);
}

/* Allocates the buffers of planes: for the whole item, with the state's content, or for slabs. */
static tc_status make_planes(cl_worker *w, const void *state, tc_err *err)
{
    const voting_scheme *const s = &w->s;
    const wu_pixels *const px = w->ocl.work->pixels;
    /* 1 or 0; they multiply the sizes of the buffers that only slabs or only whole items need. */
    const uint64_t slabs = w->slab_bands > 0, whole = !slabs;
    const slab_bytes b = bytes_of_slab(w, w->slab_bands);
    const uint32_t *const votes = w->done > 0 ? voting_votes_const(state) : NULL;
    const ocl_buffer_need needs[] = {
        { B_COLUMNS, b.blur, "the blur", NULL },
        { B_LINES, b.blur, "the blur", NULL },
        { B_IN, slabs * b.in, "a slab", NULL },
        { B_OUT, slabs * b.out, "a slab", NULL },
        { B_PIXELS, whole * s->n * (px->bits / 8), "the pixels", ocl_pixels_from(px, 0) },
        { B_VOTES, whole * b.out, "the votes", votes },
        { B_VOTERS, whole * b.out, "the voters", votes != NULL ? votes + s->n : NULL }
    };

    if (slabs) {
        w->copy = malloc(b.out);
        if (w->copy == NULL)
            return tc_no_memory(err, "a slab");
    } else {
        w->in_rows = w->out_rows = (row_range){ 0, item_rows(s) };
    }
    return ocl_make_buffers(&w->ocl, needs, sizeof needs / sizeof needs[0], err);
}

/* Sets the paces so that the first launch of each phase, before the device's speed is known, does
 * 2^15 units of work. A unit is the work for one voter and one of the rows that its cone may cross;
 * the work of the other phases is estimated in the same unit. cost[] has, for each pace, the units
 * of one pixel. A peak of SUMS_PACE is assumed to cost as much as a row of pixels. */
static void set_paces(cl_worker *w)
{
    const double first_units = 1 << 15;
    const uint64_t cone = voting_offset_rows(&w->s);
    /* The weights of the three passes of the blur; shape.taps counts those on one side of a pixel.
     */
    const uint64_t taps =
        2 * (uint64_t)(w->s.shape.taps[0] + w->s.shape.taps[1] + w->s.shape.taps[2]) + 3;
    const uint64_t cost[PACES] = { taps, 64, cone, cone * ((uint64_t)w->s.shape.reach[2] / 4 + 1),
                                   taps, 32, cone };

    for (int i = 0; i < PACES; i++)
        ocl_pace_begin(&w->ocl, &w->pace[i], first_units / (double)(cost[i] * w->s.nx),
                       item_rows(&w->s));
}

static tc_status open_worker(void *worker, const void *state, tc_err *err)
{
    cl_worker *const w = worker;
    const an_work *const work = w->ocl.work;
    return_if_error(voting_scheme_init(work->params, work->item, work->item->name, &w->s, err));

    w->round = -1;
    w->done = ((const an_state_head *)state)->chunks_done;
    w->group = ocl_group_size(w->ocl.device, 512);
    w->tile_rows = w->ocl.device->info.local_bytes < (24 << 10) ? 8 : 16;
    return_if_error(voting_scheme_use_pixels(work, &w->s, err));
    return_if_error(voting_tables_init(&w->s, &w->tables, err));
    return_if_error(an_pool_create(work->threads, &w->pool, err));
    return_if_error(ocl_build_kernels(&w->ocl, &ocl_source_voting, false, kernel_names, KERNELS,
                                      err, "-DGROUP=%zu -DTILE_ROWS=%zu -DPIXEL=%s", w->group,
                                      w->tile_rows, work->pixels->bits == 16 ? "ushort" : "uchar"));
    return_if_error(make_tables(w, err));
    choose_slabs(w);
    set_paces(w);
    return make_planes(w, state, err);
}

/* --- steps ----------------------------------------------------------------------------------- */

/* Makes the tables of the cones of a round, and copies them to the device. Does nothing if the
 * device already has them. */
static tc_status load_round(cl_worker *w, int round, tc_err *err)
{
    if (w->round == round)
        return TC_OK;
    w->round = -1;
    return_if_error(voting_tables_set_round(w->ocl.work, &w->s, &w->tables, round, w->pool, err));
    return_if_error(
        ocl_upload(&w->ocl, B_ROWS, 0, w->tables.rows, w->ocl.buffer[B_ROWS].bytes, err));
    return_if_error(
        ocl_upload(&w->ocl, B_SPANS, 0, w->tables.spans, w->ocl.buffer[B_SPANS].bytes, err));
    w->round = round;
    return TC_OK;
}

/* The size of a launch with a work-item for each pixel of n_rows rows. */
static ocl_grid row_grid(const cl_worker *w, uint64_t n_rows)
{
    return ocl_grid_of(OCL_MIN_GROUP, w->s.nx, (size_t)n_rows, 1);
}

/* The buffer that a phase reads. */
static int plane_in(const cl_worker *w, voting_phase phase)
{
    if (w->slab_bands > 0)
        return B_IN;
    return reads_pixels(phase) ? B_PIXELS : phase == VOTING_VOTE ? B_VOTERS : B_VOTES;
}

/* The buffer that a phase writes. */
static int plane_out(const cl_worker *w, voting_phase phase)
{
    if (w->slab_bands > 0)
        return B_OUT;
    return phase == VOTING_BLUR || phase == VOTING_VOTE ? B_VOTES : B_VOTERS;
}

/* The plane of the state that a phase writes. */
static uint32_t *state_out(const cl_worker *w, voting_phase phase, void *state)
{
    return voting_votes(state) + (phase == VOTING_BLUR || phase == VOTING_VOTE ? 0 : w->s.n);
}

/* Rows [y0, y1) of slices [z0, z1). */
typedef struct row_box {
    uint64_t z0, z1, y0, y1;
} row_box;

/* Queues the three passes of the blur of a box, along z, y and x. The pass along z also covers the
 * rows before and after the box that the pass along y reads. */
static tc_status blur_box(cl_worker *w, voting_phase phase, row_box b, tc_err *err)
{
    /* row: index in the output buffer of the box's first row */
    const uint64_t n = b.y1 - b.y0, row = b.z0 * w->s.ny + b.y0 - w->out_rows.first,
                   half = (uint64_t)w->s.shape.taps[1];
    const int in = plane_in(w, phase), out = plane_out(w, phase);
    const ocl_grid grid = ocl_grid_of(OCL_MIN_GROUP, w->s.nx, (size_t)n, (size_t)(b.z1 - b.z0));
    ocl_grid wider = grid;

    wider.global[1] += (size_t)(2 * half);
    return_if_error(OCL_QUEUE(w, BLUR_Z, wider, err, OCL_BUFFER_ARG(w, B_SHAPE),
                              OCL_BUFFER_ARG(w, in), OCL_BUFFER_ARG(w, B_COLUMNS), OCL_INT(b.z0),
                              OCL_INT((int64_t)b.y0 - w->s.shape.taps[1]),
                              OCL_UINT(w->in_rows.first)));
    return_if_error(OCL_QUEUE(w, BLUR_Y, grid, err, OCL_BUFFER_ARG(w, B_SHAPE),
                              OCL_BUFFER_ARG(w, B_COLUMNS), OCL_BUFFER_ARG(w, B_LINES),
                              OCL_INT(b.y0)));
    return OCL_QUEUE(w, BLUR_X, grid, err, OCL_BUFFER_ARG(w, B_SHAPE), OCL_BUFFER_ARG(w, B_LINES),
                     OCL_BUFFER_ARG(w, out), OCL_UINT(row));
}

/* Queues voting for the pixels of a box. A work-group computes a tile: SEGMENT pixels of
 * w->tile_rows rows. */
static tc_status vote_box(cl_worker *w, row_box b, tc_err *err)
{
    const size_t segments = (w->s.nx + SEGMENT - 1) / SEGMENT,
                 tiles = (size_t)((b.y1 - b.y0 + w->tile_rows - 1) / w->tile_rows);
    const ocl_grid grid = ocl_grid_of(w->group, segments * w->group, tiles, (size_t)(b.z1 - b.z0));
    const int in = plane_in(w, VOTING_VOTE), out = plane_out(w, VOTING_VOTE);

    return OCL_QUEUE(w, VOTE, grid, err, OCL_BUFFER_ARG(w, B_SHAPE), OCL_BUFFER_ARG(w, in),
                     OCL_BUFFER_ARG(w, B_SPANS), OCL_BUFFER_ARG(w, B_ROWS), OCL_BUFFER_ARG(w, out),
                     OCL_INT(b.z0), OCL_INT(b.y0), OCL_INT(b.y1), OCL_UINT(w->in_rows.first),
                     OCL_UINT(w->out_rows.first));
}

/* Queues blurring or voting of rows [row, end), which are numbered through all slices. The rows are
 * divided into boxes: rows of the first slice, whole slices, and rows of the last slice. */
static tc_status queue_boxes(cl_worker *w, voting_phase phase, uint64_t row, uint64_t end,
                             tc_err *err)
{
    const uint64_t ny = w->s.ny,
                   most = phase == VOTING_VOTE ? w->s.nz : blur_depth(&w->s, w->slab_bands > 0);

    while (row < end) {
        const uint64_t z = row / ny, y = row % ny, full = y == 0 ? (end - row) / ny : 0,
                       whole = full < most ? full : most;
        const uint64_t rest = end - row < ny - y ? end - row : ny - y;
        const row_box b =
            whole > 0 ? (row_box){ z, z + whole, 0, ny } : (row_box){ z, z + 1, y, y + rest };

        return_if_error(phase == VOTING_VOTE ? vote_box(w, b, err) : blur_box(w, phase, b, err));
        row += (b.z1 - b.z0) * (b.y1 - b.y0);
    }
    return TC_OK;
}

/* Queues the kernel that turns the voters of rows [row, end), with a work-item for each pixel. A
 * work-group covers several short pieces of rows, as voters near each other read the same votes. */
static tc_status turn_rows(cl_worker *w, uint64_t row, uint64_t end, tc_err *err)
{
    const size_t most =
        w->ocl.kernel[TURN].max_group < w->group ? w->ocl.kernel[TURN].max_group : w->group;
    const size_t group_rows = (most < TURN_GROUP ? most : TURN_GROUP) / TURN_COLUMNS;
    const ocl_grid grid = { { ocl_round_up(w->s.nx, TURN_COLUMNS),
                              ocl_round_up((size_t)(end - row), group_rows), 1 },
                            { TURN_COLUMNS, group_rows, 1 },
                            { 0 } };
    const int in = plane_in(w, VOTING_TURN), out = plane_out(w, VOTING_TURN);

    return OCL_QUEUE(w, TURN, grid, err, OCL_BUFFER_ARG(w, B_SHAPE), OCL_BUFFER_ARG(w, in),
                     OCL_BUFFER_ARG(w, B_SPANS), OCL_BUFFER_ARG(w, B_ROWS),
                     OCL_BUFFER_ARG(w, B_OFFSETS), OCL_BUFFER_ARG(w, out), OCL_UINT(row),
                     OCL_UINT(end), OCL_UINT(w->in_rows.first), OCL_UINT(w->out_rows.first));
}

/* Queues the launches of a phase for rows [row, end). */
static tc_status queue_rows(cl_worker *w, voting_phase phase, uint64_t row, uint64_t end,
                            tc_err *err)
{
    const int in = plane_in(w, phase), out = plane_out(w, phase);

    switch (phase) {
    case VOTING_VOTERS:
        return OCL_QUEUE(w, VOTERS, row_grid(w, end - row), err, OCL_BUFFER_ARG(w, B_SHAPE),
                         OCL_BUFFER_ARG(w, in), OCL_BUFFER_ARG(w, B_CODES), OCL_BUFFER_ARG(w, out),
                         OCL_UINT(row), OCL_UINT(w->in_rows.first), OCL_UINT(w->out_rows.first));
    case VOTING_TURN: return turn_rows(w, row, end, err);
    default: return queue_boxes(w, phase, row, end, err);
    }
}

/* --- slabs ----------------------------------------------------------------------------------- */

/* Copies the slab that begins with band `band` to the device: the rows that the phase reads and,
 * for VOTING_TURN, which changes voters in place, also the rows that it writes. */
static tc_status load_slab(cl_worker *w, voting_phase phase, uint64_t band, void *state,
                           tc_err *err)
{
    const voting_scheme *const s = &w->s;
    const uint64_t end = s->bands - band < w->slab_bands ? s->bands : band + w->slab_bands;
    const uint64_t first = rows_before(s, band), last = rows_before(s, end);
    const wu_pixels *const px = w->ocl.work->pixels;
    const uint32_t *const votes = voting_votes(state), *const voters = votes + s->n;
    const size_t word = sizeof *votes;

    w->out_rows = (row_range){ first, last - first };
    w->in_rows = rows_with_halo(s, first, last, halo_rows(s, phase));
    if (reads_pixels(phase))
        return_if_error(ocl_upload(&w->ocl, B_IN, 0, ocl_pixels_from(px, w->in_rows.first * s->nx),
                                   w->in_rows.n * s->nx * (px->bits / 8), err));
    else
        return_if_error(ocl_upload(
            &w->ocl, B_IN, 0, (phase == VOTING_VOTE ? voters : votes) + w->in_rows.first * s->nx,
            w->in_rows.n * s->nx * word, err));
    if (phase == VOTING_TURN)
        return_if_error(ocl_upload(&w->ocl, B_OUT, 0, voters + w->out_rows.first * s->nx,
                                   w->out_rows.n * s->nx * word, err));
    w->slab_end = w->done + (end - band);
    return TC_OK;
}

/* Copies rows [row, end) from the slab to the state; on an error the state is unchanged. */
static tc_status store_rows(cl_worker *w, voting_phase phase, uint64_t row, uint64_t end,
                            void *state, tc_err *err)
{
    const size_t pixels = (size_t)(end - row) * w->s.nx,
                 offset = (size_t)(row - w->out_rows.first) * w->s.nx;
    return_if_error(ocl_download(&w->ocl, B_OUT, offset * sizeof *w->copy, w->copy,
                                 pixels * sizeof *w->copy, err));

    memcpy(state_out(w, phase, state) + (size_t)row * w->s.nx, w->copy, pixels * sizeof *w->copy);
    return TC_OK;
}

/* --- the backend ----------------------------------------------------------------------------- */

/* Returns the row after the last one of the band that contains `row`; but `row` itself if it is the
 * first row of a band. */
static uint64_t end_of_band(const voting_scheme *s, uint64_t row)
{
    const uint64_t y = row % s->ny, rows_done = y % s->band_rows;
    const uint64_t end = rows_done == 0 ? y : y - rows_done + s->band_rows;

    return row - y + (end < s->ny ? end : s->ny);
}

/* Makes launches from *row on. The first launch processes as many rows as the pace allows, but none
 * from `limit` on; further launches process the rest of the band in which it ended. Sets *row to
 * the row after the last one processed. */
static tc_status launch_phase(cl_worker *w, voting_phase phase, uint64_t *row, uint64_t limit,
                              tc_err *err)
{
    ocl_pace *const pace = &w->pace[phase];
    uint64_t left = limit - *row;

    while (left > 0) {
        const uint64_t n = ocl_pace_next(pace, left);

        return_if_error(
            ocl_end_launch(&w->ocl, queue_rows(w, phase, *row, *row + n, err), pace, n, err));
        *row += n;
        left = end_of_band(&w->s, *row) - *row;
        if (left > 0)
            return_if_error(ocl_poll_in_step(&w->ocl, err));
    }
    return TC_OK;
}

/* Processes one or more bands of a phase. If the item does not fit the device, loads the next slab
 * when needed, and copies the rows that were written to the state. */
static tc_status cl_step(void *worker, void *state, uint64_t *chunks_done, tc_err *err)
{
    cl_worker *const w = worker;
    const voting_scheme *const s = &w->s;
    voting_phase phase;
    uint64_t band, first, row;
    int round;

    *chunks_done = w->done;
    if (w->done >= s->chunks)
        return TC_OK;
    voting_chunk_at(s, w->done, &phase, &round, &band);
    first = row = rows_before(s, band);
    if (phase == VOTING_VOTE || phase == VOTING_TURN)
        return_if_error(load_round(w, round, err));
    if (w->slab_bands > 0 && w->slab_end <= w->done)
        return_if_error(load_slab(w, phase, band, state, err));
    return_if_error(launch_phase(w, phase, &row, w->out_rows.first + w->out_rows.n, err));
    if (w->slab_bands > 0)
        return_if_error(store_rows(w, phase, first, row, state, err));
    while (band < s->bands && rows_before(s, band) < row) {
        band++;
        w->done++;
    }
    if (w->slab_bands > 0)
        ((an_state_head *)state)->chunks_done = w->done;
    *chunks_done = w->done;
    return w->done == s->chunks ? TC_OK : TC_MORE;
}

/* Copies the planes to the state as far as they have been written. The first phase, the blur,
 * writes B_VOTES, and the second one B_VOTERS; later phases change these planes. The rest of the
 * state still contains its initial zeros. */
static tc_status cl_sync(void *worker, void *state, tc_err *err)
{
    cl_worker *const w = worker;
    an_state_head *const head = state;
    const uint64_t planes = w->done / w->s.bands; /* finished phases; each has s.bands chunks */
    /* The number of pixels that the current phase has written. */
    const size_t part = (size_t)rows_before(&w->s, w->done % w->s.bands) * w->s.nx;
    const size_t votes = planes == 0 ? part : w->s.n, voters = planes == 0   ? 0
                                                               : planes == 1 ? part
                                                                             : w->s.n;
    const ocl_part parts[] = { { B_VOTES, votes * sizeof(uint32_t), voting_votes(state) },
                               { B_VOTERS, voters * sizeof(uint32_t),
                                 voting_votes(state) + w->s.n } };

    if (w->slab_bands > 0) /* each step copies its rows to the state */
        return TC_OK;
    return_if_error(ocl_download_parts(&w->ocl, parts, 2, head->chunks_done == 0, err));
    head->chunks_done = w->done;
    return TC_OK;
}

/* --- points ---------------------------------------------------------------------------------- */

/* An entry of the list of peaks that the kernel voting_peaks makes. */
typedef struct listed_peak {
    cl_uint score, z, y, x;
} listed_peak;

/* Returns the number of peaks that fit in B_COLUMNS. Returns 0 if not even the sums of one peak fit
 * in B_LINES, which has the same size. */
static uint64_t room_for_peaks(const cl_worker *w)
{
    const uint64_t bytes = w->ocl.buffer[B_COLUMNS].bytes;

    return bytes < VOTING_LINE_SUMS * sizeof(cl_long) ? 0 : bytes / sizeof(listed_peak);
}

/* Ends a launch of PEAKS or LINES, and calls work->poll. pace: FIND_PACE or SUMS_PACE; n: the work
 * of the launch in the unit of this pace. */
static tc_status end_peak_launch(cl_worker *w, tc_status status, int pace, uint64_t n, tc_err *err)
{
    return_if_error(ocl_end_launch(&w->ocl, status, &w->pace[pace], n, err));
    return tc_call_poll(w->ocl.work->poll, err);
}

/* Finds all peaks, in any order. Sets *n to the number of peaks; if it exceeds room_for_peaks,
 * *peaks stays empty. */
static tc_status find_peaks(cl_worker *w, voting_peaks *peaks, uint64_t *n, tc_err *err)
{
    const uint64_t room = room_for_peaks(w);
    const voting_scheme *const s = &w->s;
    cl_uint count = 0;
    return_if_error(ocl_upload(&w->ocl, B_LINES, 0, &count, sizeof count, err));

    for (uint64_t row = 0, n_rows; row < item_rows(s); row += n_rows) {
        n_rows = ocl_pace_next(&w->pace[FIND_PACE], item_rows(s) - row);
        return_if_error(end_peak_launch(
            w,
            OCL_QUEUE(w, PEAKS, row_grid(w, n_rows), err, OCL_BUFFER_ARG(w, B_SHAPE),
                      OCL_BUFFER_ARG(w, B_VOTES), OCL_BUFFER_ARG(w, B_COLUMNS),
                      OCL_BUFFER_ARG(w, B_LINES), OCL_UINT(row), OCL_UINT(room)),
            FIND_PACE, n_rows, err));
    }
    return_if_error(ocl_download(&w->ocl, B_LINES, 0, &count, sizeof count, err));
    *n = count;
    if (count > room)
        return TC_OK;
    TC_AUTOFREE listed_peak *const list = malloc((count + (size_t)1) * sizeof *list);
    peaks->list = calloc(count + (size_t)1, sizeof *peaks->list);
    return_if_error(list == NULL || peaks->list == NULL
                        ? tc_no_memory(err, "the peaks")
                        : ocl_download(&w->ocl, B_COLUMNS, 0, list, count * sizeof *list, err));
    for (; peaks->n < count; peaks->n++) {
        const listed_peak *const found = &list[peaks->n];

        peaks->list[peaks->n] = (voting_peak){
            found->score, found->z, found->y, found->x, { found->z, found->y, found->x }
        };
    }
    return TC_OK;
}

/* Computes the sums (voting_lines) around n peaks, for which B_COLUMNS and B_LINES must be large
 * enough. list: [n], work space. sums: [n][VOTING_LINE_SUMS], receives the result. */
static tc_status lines_of_batch(cl_worker *w, const voting_peak *peaks, uint64_t n,
                                listed_peak *list, cl_long *sums, tc_err *err)
{
    const voting_scheme *const s = &w->s;

    for (uint64_t i = 0; i < n; i++)
        list[i] = (listed_peak){ peaks[i].score, peaks[i].z, peaks[i].y, peaks[i].x };
    return_if_error(ocl_upload(&w->ocl, B_COLUMNS, 0, list, n * sizeof *list, err));
    for (uint64_t i = 0, count; i < n; i += count) {
        count = ocl_pace_next(&w->pace[SUMS_PACE], n - i);
        const ocl_grid grid = ocl_grid_of(VOTING_LINE_GROUP, count * VOTING_LINE_GROUP, 1, 1);
        return_if_error(end_peak_launch(
            w,
            OCL_QUEUE(w, LINES, grid, err, OCL_BUFFER_ARG(w, B_SHAPE), OCL_BUFFER_ARG(w, B_VOTERS),
                      OCL_BUFFER_ARG(w, B_COLUMNS), OCL_BUFFER_ARG(w, B_LINES), OCL_UINT(i),
                      OCL_INT(s->scale[0]), OCL_INT(s->scale[1]), OCL_INT(s->scale[2]),
                      OCL_LONG(s->radius64)),
            SUMS_PACE, count, err));
    }
    return ocl_download(&w->ocl, B_LINES, 0, sums, n * VOTING_LINE_SUMS * sizeof *sums, err);
}

/* Computes lines[i], the sums around the peak, for each peak i. */
static tc_status lines_around(cl_worker *w, const voting_peaks *p, voting_lines *lines, tc_err *err)
{
    const uint64_t most = w->ocl.buffer[B_LINES].bytes / (VOTING_LINE_SUMS * sizeof(cl_long));
    TC_AUTOFREE listed_peak *const list = malloc((size_t)most * sizeof *list);
    TC_AUTOFREE cl_long *const sums = malloc((size_t)most * VOTING_LINE_SUMS * sizeof *sums);
    if (list == NULL || sums == NULL)
        return tc_no_memory(err, "the peaks");

    for (uint64_t at = 0, n; at < p->n; at += n) {
        n = p->n - at < most ? p->n - at : most;
        return_if_error(lines_of_batch(w, p->list + at, n, list, sums, err));
        for (uint64_t i = 0; i < n; i++) {
            const cl_long *const from = sums + i * VOTING_LINE_SUMS;

            lines[at + i] = (voting_lines){
                { { from[0] }, { from[1], from[2] }, { from[3], from[4], from[5] } },
                { from[6], from[7], from[8] }
            };
        }
    }
    return TC_OK;
}

/* Makes the result from the peaks as voting_finish does, but computes the sums around the peaks on
 * the device. */
static tc_status output_points(cl_worker *w, voting_peaks *peaks, size_t item_index, wu_output *out,
                               tc_err *err)
{
    const an_work *const work = w->ocl.work;
    const voting_params *const p = work->params;
    return_if_error(voting_suppress_peaks(&w->s, peaks, work->poll, err));

    voting_apply_threshold(p, peaks);
    if (p->refine) {
        TC_AUTOFREE voting_lines *const lines = malloc((peaks->n + 1) * sizeof *lines);
        return_if_error(lines == NULL ? tc_no_memory(err, "the peaks")
                                      : lines_around(w, peaks, lines, err));
        return_if_error(voting_refine(&w->s, NULL, lines, w->pool, peaks, work->poll, err));
    }
    return voting_add_points(work, w->s.radius, item_index, peaks, out, err);
}

/* Makes the result on the device. Returns TC_MORE if the caller must make it from the state
 * instead: if there are more peaks than room_for_peaks, as in noisy images, or the item does not
 * fit the device. */
static tc_status cl_finish(void *worker, void *state, size_t item_index, wu_output *out,
                           tc_err *err)
{
    cl_worker *const w = worker;
    voting_peaks peaks = { .n = 0 };
    uint64_t n = 0;
    tc_status status = w->slab_bands > 0 ? TC_MORE : find_peaks(w, &peaks, &n, err);

    (void)state;
    if (status == TC_OK)
        status = n > room_for_peaks(w) ? TC_MORE : output_points(w, &peaks, item_index, out, err);
    free(peaks.list);
    return status;
}

static const ocl_launcher launcher = { "voting", sizeof(cl_worker), open_worker, free_worker };

static tc_status cl_open(const an_work *work, const void *state, void **worker, tc_err *err)
{
    return ocl_worker_open(&launcher, work, state, worker, err);
}

const an_backend ocl_voting = { .name = "opencl",
                                .open = cl_open,
                                .step = cl_step,
                                .sync = cl_sync,
                                .close = ocl_worker_close,
                                .finish = cl_finish };
