/*
 * The OpenCL backend of cellcount. The device thresholds, fills holes, labels
 * and computes distances; what is small or sequential (joining summits, areas,
 * what a filter leaves out) is left to phases of the CPU backend, whose worker
 * this one contains.
 *
 * A picture that does not fit the device is thresholded and filled by the
 * host, labelled on the device in strips of rows, and joined along the strips'
 * edges by the host; its split, if any, is the host's altogether.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/cellcount.h"
#include "opencl/backends.h"
#include "opencl/program.h"

extern const ocl_source ocl_source_cellcount;

enum { TILE = 32, PER_ITEM = 16, MAX_GROUP = 256 };

/* Phases of the device. */
typedef enum stage {
    HISTOGRAM, MASK,
    GROUND_TILES, GROUND_ROWS, GROUND_COLUMNS, BORDER_ROOTS, OUTSIDE, FILL,
    TILES, JOIN_ROWS, JOIN_COLUMNS,
    COUNT, NUMBER, PAINT, READ_LABELS,      /* when the labels are final */
    ROOTS, READ_ROOTS,                      /* when the host goes on */
    DISTANCE_COLUMNS, DISTANCE_ROWS, ASCEND, READ_DISTANCES, SUMMITS, READ_SUMMITS,
    STAGES
} stage;

/* For connectivity 4 and 8. */
static const char *const kernel_names[STAGES][2] = {
    [HISTOGRAM] = { "cc_histogram8", "cc_histogram8" },
    [MASK] = { "cc_mask", "cc_mask" },
    [GROUND_TILES] = { "cc_tiles4", "cc_tiles8" },
    [GROUND_ROWS] = { "cc_join_rows4", "cc_join_rows8" },
    [GROUND_COLUMNS] = { "cc_join_columns4", "cc_join_columns8" },
    [BORDER_ROOTS] = { "cc_border_roots", "cc_border_roots" },
    [OUTSIDE] = { "cc_mark_outside", "cc_mark_outside" },
    [FILL] = { "cc_fill", "cc_fill" },
    [TILES] = { "cc_tiles4", "cc_tiles8" },
    [JOIN_ROWS] = { "cc_join_rows4", "cc_join_rows8" },
    [JOIN_COLUMNS] = { "cc_join_columns4", "cc_join_columns8" },
    [COUNT] = { "cc_count", "cc_count" },
    [NUMBER] = { "cc_number", "cc_number" },
    [PAINT] = { "cc_paint", "cc_paint" },
    [ROOTS] = { "cc_roots", "cc_roots" },
    [DISTANCE_COLUMNS] = { "cc_distance_columns", "cc_distance_columns" },
    [DISTANCE_ROWS] = { "cc_distance_rows", "cc_distance_rows" },
    [ASCEND] = { "cc_ascend", "cc_ascend" },
    [SUMMITS] = { "cc_summits", "cc_summits" }
};

typedef struct cl_worker {
    const an_task *task;
    const cc_params *params;
    ocl_device *device;
    void *host;                /* a worker of cc_cpu */
    size_t group;
    ocl_kernel kernel[STAGES];
    ocl_buffer pixels, mask, link, other, histogram, counts, border;
    ocl_slice slice[STAGES];
    uint32_t nx, ny;
    uint32_t stride;           /* words of 32 bits in a row of the mask: as many as the host's */
    uint32_t strip_rows;       /* ny: the whole picture is on the device */
    uint32_t y0, rows;         /* the strip */
    uint32_t threshold;
    stage stage;
    uint64_t done;             /* work of the stage */
    bool host_only;
    double label_ms;           /* device time from pixels to labels, for the bench */
} cl_worker;

/* --- what is done in which order ---------------------------------------------------- */

static bool in_strips(const cl_worker *w)
{
    return w->strip_rows < w->ny;
}

static bool final_labels(const cl_worker *w)
{
    const cc_params *const p = w->params;

    return !in_strips(w) && !p->split && p->min_area <= 1 && p->max_area == INT64_MAX && !p->exclude_border;
}

static bool has_stage(const cl_worker *w, stage s)
{
    const cc_params *const p = w->params;

    if (s == HISTOGRAM)
        return !in_strips(w) && p->threshold == CC_THRESHOLD_OTSU;
    if (s == MASK)
        return !in_strips(w);
    if (s <= FILL)
        return !in_strips(w) && p->fill_holes;
    if (s <= JOIN_COLUMNS)
        return !p->split;
    if (s <= READ_LABELS)
        return final_labels(w);
    if (s <= READ_ROOTS)
        return !final_labels(w) && !p->split;
    return p->split;
}

static uint32_t up_to(uint64_t n, uint64_t unit)
{
    return (uint32_t)((n + unit - 1) / unit);
}

static uint64_t strip_pixels(const cl_worker *w)
{
    return (uint64_t)w->nx * w->rows;
}

/* Whether a stage's components are connected by 8: the ground's are where cells' are not. */
static bool diagonal(const cl_worker *w, stage s)
{
    return w->params->diagonal != (s >= GROUND_TILES && s <= FILL);
}

/* The nodes of a strip's components. */
static uint64_t strip_nodes(const cl_worker *w)
{
    return w->params->diagonal ? (uint64_t)w->rows * ((w->nx + 1) / 2) : strip_pixels(w);
}

/* Work of a stage, in the units that its launches take. */
static uint64_t stage_work(const cl_worker *w, stage s)
{
    switch (s) {
    case GROUND_TILES:
    case TILES:
        return up_to(w->rows, TILE);
    case GROUND_ROWS:
    case JOIN_ROWS:
        return up_to(w->rows, TILE) - 1;
    case BORDER_ROOTS:
    case OUTSIDE:
        return 1;
    case COUNT:
    case NUMBER:
        return up_to(strip_nodes(w), w->group * PER_ITEM);
    case FILL:
        return up_to(w->rows, 2);
    case GROUND_COLUMNS:
    case JOIN_COLUMNS:
        return diagonal(w, s) ? up_to(w->rows, 2) : w->rows;
    case DISTANCE_COLUMNS:
        return w->nx;
    default:
        return w->rows;        /* rows of pixels */
    }
}

/* --- launches ------------------------------------------------------------------------- */

static tc_status launch(cl_worker *w, stage s, const ocl_arg *args, size_t n, size_t items, size_t lines,
                        ocl_batch *batch, tc_err *err)
{
    const size_t local[2] = { w->group, 1 };
    const size_t global[2] = { ocl_round_up(items, w->group), lines };
    tc_status st = ocl_set_args(w->device, &w->kernel[s], args, n, err);

    if (st == TC_OK)
        st = ocl_launch(w->device, &w->kernel[s], 2, NULL, global, local, batch, err);
    return st;
}

/* Tiles and their edges. */
static tc_status launch_components(cl_worker *w, stage s, uint64_t first, uint64_t count, ocl_batch *batch,
                                   tc_err *err)
{
    const cl_int nx = (cl_int)w->nx, ny = (cl_int)w->rows, stride = (cl_int)w->stride;
    const cl_int kind = s >= TILES, end = (cl_int)(first + count);
    /* The upper edge of the first row of tiles is the picture's. */
    const cl_int from = (cl_int)first + (s == GROUND_ROWS || s == JOIN_ROWS);
    const ocl_arg tiles[] = { OCL_BUFFER(w->mask), OCL_BUFFER(w->link), OCL_ARG(nx), OCL_ARG(ny), OCL_ARG(stride),
                              OCL_ARG(from), OCL_ARG(kind) };
    const ocl_arg columns[] = { OCL_BUFFER(w->mask), OCL_BUFFER(w->link), OCL_ARG(nx), OCL_ARG(ny), OCL_ARG(stride),
                                OCL_ARG(from), OCL_ARG(end), OCL_ARG(kind) };

    switch (s) {
    case GROUND_TILES:
    case TILES:
        return launch(w, s, tiles, 7, up_to(w->nx, TILE) * w->group, count, batch, err);
    case GROUND_ROWS:
    case JOIN_ROWS:
        return launch(w, s, tiles, 7, diagonal(w, s) ? up_to(w->nx, 2) : w->nx, count, batch, err);
    default:
        return launch(w, s, columns, 8, count, up_to(w->nx, TILE) - 1, batch, err);
    }
}

/* What is outside, and what is not. */
static tc_status launch_holes(cl_worker *w, stage s, uint64_t first, uint64_t count, ocl_batch *batch, tc_err *err)
{
    const cl_int nx = (cl_int)w->nx, ny = (cl_int)w->rows, stride = (cl_int)w->stride;
    const cl_int from = (cl_int)first, eight = diagonal(w, s), border = 2 * (nx + ny);
    const ocl_arg roots[] = { OCL_BUFFER(w->mask), OCL_BUFFER(w->link), OCL_BUFFER(w->border), OCL_ARG(nx),
                              OCL_ARG(ny), OCL_ARG(stride), OCL_ARG(eight) };
    const ocl_arg mark[] = { OCL_BUFFER(w->border), OCL_BUFFER(w->link), OCL_ARG(border) };
    const ocl_arg fill[] = { OCL_BUFFER(w->link), OCL_BUFFER(w->mask), OCL_ARG(nx), OCL_ARG(ny), OCL_ARG(stride),
                             OCL_ARG(from), OCL_ARG(eight) };

    if (s == BORDER_ROOTS)
        return launch(w, s, roots, 7, (size_t)border, 1, batch, err);
    if (s == OUTSIDE)
        return launch(w, s, mark, 3, (size_t)border, 1, batch, err);
    return launch(w, s, fill, 7, up_to(w->nx, 32), count, batch, err);
}

static tc_status launch_chunks(cl_worker *w, stage s, uint64_t first, uint64_t count, ocl_batch *batch, tc_err *err)
{
    const cl_uint from = (cl_uint)first, n = (cl_uint)strip_nodes(w);
    const ocl_arg args[] = { OCL_BUFFER(w->link), OCL_BUFFER(w->counts), OCL_ARG(from), OCL_ARG(n) };

    return launch(w, s, args, 4, count * w->group, 1, batch, err);
}

static tc_status launch_columns(cl_worker *w, uint64_t first, uint64_t count, ocl_batch *batch, tc_err *err)
{
    const cl_uint from = (cl_uint)first, end = (cl_uint)(first + count), nx = w->nx, ny = w->rows;
    const cl_uint stride = w->stride;
    const ocl_arg args[] = { OCL_BUFFER(w->mask), OCL_BUFFER(w->other), OCL_ARG(from), OCL_ARG(end), OCL_ARG(nx),
                             OCL_ARG(ny), OCL_ARG(stride) };

    return launch(w, DISTANCE_COLUMNS, args, 7, count, 1, batch, err);
}

/* Stages that take rows of pixels, by numbers (x, y). */
static tc_status launch_rows(cl_worker *w, stage s, uint64_t first, uint64_t count, ocl_batch *batch, tc_err *err)
{
    const cl_int nx = (cl_int)w->nx, ny = (cl_int)w->rows, stride = (cl_int)w->stride, from = (cl_int)first;
    const cl_int bright = w->params->bright, eight = w->params->diagonal;
    const cl_uint threshold = w->threshold;
    const ocl_arg mask[] = { OCL_BUFFER(w->pixels), OCL_BUFFER(w->mask), OCL_ARG(nx), OCL_ARG(stride), OCL_ARG(from),
                             OCL_ARG(threshold), OCL_ARG(bright) };
    const ocl_arg from_link[] = { OCL_BUFFER(w->mask), OCL_BUFFER(w->link), OCL_BUFFER(w->other), OCL_ARG(nx),
                                  OCL_ARG(ny), OCL_ARG(stride), OCL_ARG(from), OCL_ARG(eight) };

    if (s == MASK)
        return launch(w, s, mask, 7, w->stride, count, batch, err);
    return launch(w, s, from_link, 8, w->nx, count, batch, err);
}

/* The same, by the index of a pixel. */
static tc_status launch_pixels(cl_worker *w, stage s, uint64_t first_row, uint64_t count, ocl_batch *batch, tc_err *err)
{
    const cl_uint first = (cl_uint)(first_row * w->nx), end = (cl_uint)((first_row + count) * w->nx);
    const cl_uint unsigned_nx = w->nx;
    const cl_int nx = (cl_int)w->nx, ny = (cl_int)w->rows, neighbours = w->params->diagonal ? 8 : 4;
    const size_t n = end - first;
    const ocl_arg histogram[] = { OCL_BUFFER(w->pixels), OCL_BUFFER(w->histogram), OCL_ARG(first), OCL_ARG(end) };
    const ocl_arg to_link[] = { OCL_BUFFER(w->other), OCL_BUFFER(w->link), OCL_ARG(first), OCL_ARG(end),
                                OCL_ARG(unsigned_nx) };
    const ocl_arg ascend[] = { OCL_BUFFER(w->link), OCL_BUFFER(w->other), OCL_ARG(first), OCL_ARG(end), OCL_ARG(nx),
                               OCL_ARG(ny), OCL_ARG(neighbours) };

    switch (s) {
    case HISTOGRAM:
        /* A work-item takes many pixels: a group's own histogram pays then. */
        return launch(w, s, histogram, 4, n / 64 + 1, 1, batch, err);
    case DISTANCE_ROWS:
        return launch(w, s, to_link, 5, n, 1, batch, err);
    case SUMMITS:
        return launch(w, s, to_link, 4, n, 1, batch, err);
    default:
        return launch(w, s, ascend, 7, n, 1, batch, err);
    }
}

static tc_status launch_stage(cl_worker *w, uint64_t first, uint64_t count, ocl_batch *batch, tc_err *err)
{
    switch (w->stage) {
    case GROUND_TILES:
    case GROUND_ROWS:
    case GROUND_COLUMNS:
    case TILES:
    case JOIN_ROWS:
    case JOIN_COLUMNS:
        return launch_components(w, w->stage, first, count, batch, err);
    case BORDER_ROOTS:
    case OUTSIDE:
    case FILL:
        return launch_holes(w, w->stage, first, count, batch, err);
    case COUNT:
    case NUMBER:
        return launch_chunks(w, w->stage, first, count, batch, err);
    case DISTANCE_COLUMNS:
        return launch_columns(w, first, count, batch, err);
    case MASK:
    case PAINT:
    case ROOTS:
        return launch_rows(w, w->stage, first, count, batch, err);
    default:
        return launch_pixels(w, w->stage, first, count, batch, err);
    }
}

/* Rows of int32 from a buffer into a plane of the whole picture. */
static tc_status read_rows(cl_worker *w, const ocl_buffer *from, int32_t *plane, uint64_t first, uint64_t count,
                           tc_err *err)
{
    const size_t row = (size_t)w->nx * sizeof *plane;

    return ocl_read(w->device, from, first * row, plane + (w->y0 + first) * w->nx, count * row, err);
}

/* Some of a stage: one launch, or a read. */
static tc_status do_part(cl_worker *w, cc_state *state, uint64_t count, double *ms, tc_err *err)
{
    ocl_batch batch = { 0 };
    int32_t *roots;
    tc_status st;

    *ms = 0;
    switch (w->stage) {
    case READ_LABELS:
        return read_rows(w, &w->other, state->plane, w->done, count, err);
    case READ_DISTANCES:
        return read_rows(w, &w->link, state->plane, w->done, count, err);
    case READ_ROOTS:
    case READ_SUMMITS:
        roots = cc_host_roots(w->host);
        if (roots == NULL)
            return tc_no_memory(err, "cellcount");
        return read_rows(w, w->stage == READ_ROOTS ? &w->other : &w->link, roots, w->done, count, err);
    default:
        st = launch_stage(w, w->done, count, &batch, err);
        if (st != TC_OK) {
            ocl_batch_drop(w->device, &batch);
            return st;
        }
        return ocl_batch_wait(w->device, &batch, w->slice[w->stage].last_ms, ms, err);
    }
}

/* --- the ends of stages ---------------------------------------------------------------- */

static tc_status end_histogram(cl_worker *w, tc_err *err)
{
    const uint32_t size = (uint32_t)1 << w->task->pixels->bits;
    uint32_t *const counts = malloc(size * sizeof *counts);
    uint64_t *const wide = malloc(size * sizeof *wide);
    tc_status st = counts == NULL || wide == NULL ? tc_no_memory(err, "the histogram")
                 : ocl_read(w->device, &w->histogram, 0, counts, size * sizeof *counts, err);

    if (st == TC_OK) {
        for (uint32_t v = 0; v < size; v++)
            wide[v] = counts[v];
        w->threshold = cc_otsu(wide, size);
    }
    free(counts);
    free(wide);
    return st;
}

/* Counts of the chunks become what is before each. */
static tc_status end_count(cl_worker *w, cc_state *state, tc_err *err)
{
    const size_t n = stage_work(w, COUNT);
    uint32_t *const counts = malloc(n * sizeof *counts);
    uint32_t before = 0;
    tc_status st = counts == NULL ? tc_no_memory(err, "the cells")
                                  : ocl_read(w->device, &w->counts, 0, counts, n * sizeof *counts, err);

    if (st == TC_OK) {
        for (size_t i = 0; i < n; i++) {
            const uint32_t here = counts[i];

            counts[i] = before;
            before += here;
        }
        state->regions = before;
        st = ocl_write(w->device, &w->counts, 0, counts, n * sizeof *counts, err);
    }
    free(counts);
    return st;
}

/* The roots of a strip are counted from its first pixel. */
static void end_roots(cl_worker *w)
{
    int32_t *const roots = cc_host_roots(w->host) + (size_t)w->y0 * w->nx;
    const int32_t base = (int32_t)((size_t)w->y0 * w->nx);

    for (size_t i = 0; base > 0 && i < strip_pixels(w); i++)
        if (roots[i] >= 0)
            roots[i] += base;
}

static tc_status begin_strip(cl_worker *w, uint32_t y0, tc_err *err)
{
    const wu_pixels *const px = w->task->pixels;
    const size_t row = w->stride * sizeof(cl_uint);

    w->y0 = y0;
    w->rows = w->ny - y0 < w->strip_rows ? w->ny - y0 : w->strip_rows;
    w->done = 0;
    w->stage = 0;
    while (!has_stage(w, w->stage))
        w->stage++;
    if (!in_strips(w))
        return ocl_write(w->device, &w->pixels, 0, px->u8 != NULL ? (const void *)px->u8 : (const void *)px->u16,
                         strip_pixels(w) * (px->bits / 8), err);
    return ocl_write(w->device, &w->mask, 0, (const char *)cc_host_bits(w->host) + y0 * row, w->rows * row, err);
}

/* The device has nothing more to do. */
static void finish_device(cl_worker *w, cc_state *state)
{
    if (final_labels(w)) {
        state->head.units_done = w->task->plan.units;
        return;
    }
    w->host_only = true;
    cc_host_resume(w->host, w->params->split ? CC_PASSES : CC_PARTS, in_strips(w) ? w->strip_rows : 0);
    /* The plane holds the distances. */
    if (w->params->split)
        state->head.units_done = (uint64_t)CC_KEPT * cc_bands(w->nx, w->ny);
}

static tc_status end_stage(cl_worker *w, cc_state *state, tc_err *err)
{
    tc_status st = TC_OK;

    if (w->stage == HISTOGRAM)
        st = end_histogram(w, err);
    else if (w->stage == COUNT)
        st = end_count(w, state, err);
    else if (w->stage == READ_ROOTS)
        end_roots(w);
    if (st != TC_OK)
        return st;
    w->done = 0;
    do
        w->stage++;
    while (w->stage < STAGES && !has_stage(w, w->stage));
    if (w->stage == STAGES && w->y0 + w->rows < w->ny)
        return begin_strip(w, w->y0 + w->rows, err);
    if (w->stage == STAGES)
        finish_device(w, state);
    return TC_OK;
}

/* --- the backend ------------------------------------------------------------------------ */

static tc_status cl_sync(void *worker, void *state, tc_err *err)
{
    (void)worker;
    (void)state;
    (void)err;
    return TC_OK;
}

/* Progress in the plan's units: the device's part counts as the first half. */
static uint64_t position(const cl_worker *w)
{
    const double strip = ((double)w->stage + 1) / STAGES;

    return (uint64_t)((double)w->task->plan.units / 2 * (w->y0 + strip * w->rows) / w->ny);
}

static tc_status cl_step(void *worker, void *state_at, uint64_t *units_done, tc_err *err)
{
    cl_worker *const w = worker;
    cc_state *const state = state_at;
    double total = 0;
    tc_status st = TC_OK;

    *units_done = state->head.units_done;
    if (state->head.units_done == w->task->plan.units)
        return TC_OK;
    if (w->host_only)
        return cc_host_step(w->host, state, CC_PHASES, units_done, err);
    if (in_strips(w) && cc_host_phase(w->host) < CC_BANDS) {
        st = cc_host_step(w->host, state, CC_BANDS, units_done, err);
        if (st != TC_OK)
            return st;
        st = begin_strip(w, 0, err);
        return st == TC_OK ? TC_MORE : st;
    }
    if (w->rows == 0)
        st = begin_strip(w, 0, err);
    while (st == TC_OK && !w->host_only && w->stage < STAGES && total < w->task->slice_ms) {
        const uint64_t work = stage_work(w, w->stage);
        const uint64_t count = ocl_slice_next(&w->slice[w->stage], work - w->done);
        double ms = 0;

        if (count > 0)
            st = do_part(w, state, count, &ms, err);
        if (st != TC_OK)
            return st;
        if (count > 0 && kernel_names[w->stage][0] != NULL)
            ocl_slice_took(&w->slice[w->stage], count, ms);
        total += ms;
        if (w->stage == MASK || (w->stage >= TILES && w->stage <= PAINT))
            w->label_ms += ms;
        w->done += count;
        if (w->done == work)
            st = end_stage(w, state, err);
    }
    *units_done = state->head.units_done > 0 ? state->head.units_done : position(w);
    if (st != TC_OK)
        return st;
    return state->head.units_done == w->task->plan.units ? TC_OK : TC_MORE;
}

double cc_opencl_label_ms(const void *worker)
{
    const cl_worker *const w = worker;

    return w->label_ms;
}

static void cl_close(void **worker)
{
    cl_worker *const w = *worker;

    *worker = NULL;
    if (w == NULL)
        return;
    for (int s = 0; s < STAGES; s++)
        ocl_kernel_free(w->device, &w->kernel[s]);
    ocl_buffer_free(w->device, &w->pixels);
    ocl_buffer_free(w->device, &w->mask);
    ocl_buffer_free(w->device, &w->link);
    ocl_buffer_free(w->device, &w->other);
    ocl_buffer_free(w->device, &w->histogram);
    ocl_buffer_free(w->device, &w->counts);
    ocl_buffer_free(w->device, &w->border);
    if (w->host != NULL)
        cc_cpu.close(&w->host);
    free(w);
}

/* The largest group that the device allows, of at most MAX_GROUP. */
static size_t choose_group(const ocl_device *device)
{
    size_t group = MAX_GROUP;

    while (group > device->info.max_group)
        group /= 2;
    return group;
}

static tc_status make_kernels(cl_worker *w, tc_err *err)
{
    const bool deep = w->task->pixels->bits == 16;
    char defines[48];
    cl_program program;
    tc_status st;

    w->group = choose_group(w->device);
    snprintf(defines, sizeof defines, "-DGROUP=%zu -DPIXEL=%s", w->group, deep ? "ushort" : "uchar");
    st = ocl_program_build(w->device, &ocl_source_cellcount, defines, false, &program, err);
    for (int s = 0; st == TC_OK && s < STAGES; s++) {
        const char *name = kernel_names[s][diagonal(w, (stage)s)];

        if (name == NULL || !has_stage(w, (stage)s))
            continue;
        if (deep && s == HISTOGRAM)
            name = "cc_histogram16";
        st = ocl_kernel_new(w->device, program, name, &w->kernel[s], err);
    }
    ocl_program_free(w->device, &program);
    return st;
}

/* Device bytes for a strip of so many rows. */
static uint64_t strip_bytes(const cl_worker *w, uint64_t rows, bool whole)
{
    const uint64_t n = rows * w->nx;

    return n * (2 * sizeof(cl_int) + (whole ? w->task->pixels->bits / 8 : 0)) + n / 64
         + rows * w->stride * sizeof(cl_uint) + ((uint64_t)1 << 19) + 8 * (w->nx + rows);
}

static void choose_strips(cl_worker *w)
{
    const ocl_device *const d = w->device;
    const uint64_t room = d->memory_limit - d->memory_used;
    uint64_t rows = w->ny;

    if (strip_bytes(w, rows, true) > room || rows * w->nx * sizeof(cl_int) > d->info.max_alloc_bytes) {
        rows = TILE;
        while (rows * 2 < w->ny && strip_bytes(w, rows * 2, false) <= room &&
               rows * 2 * w->nx * sizeof(cl_int) <= d->info.max_alloc_bytes)
            rows *= 2;
    }
    w->strip_rows = (uint32_t)rows;
}

static tc_status make_buffers(cl_worker *w, tc_err *err)
{
    const uint64_t n = (uint64_t)w->strip_rows * w->nx;
    const size_t grey_values = (size_t)1 << w->task->pixels->bits;
    const struct {
        ocl_buffer *buffer;
        uint64_t bytes;
        bool wanted;
    } list[] = {
        { &w->pixels, n * (w->task->pixels->bits / 8), !in_strips(w) },
        { &w->mask, (uint64_t)w->strip_rows * w->stride * sizeof(cl_uint), true },
        { &w->link, n * sizeof(cl_int), true },
        { &w->other, n * sizeof(cl_int), true },
        { &w->histogram, grey_values * sizeof(cl_uint), has_stage(w, HISTOGRAM) },
        { &w->counts, up_to(n, w->group * PER_ITEM) * sizeof(cl_uint), final_labels(w) },
        { &w->border, 2 * ((uint64_t)w->nx + w->ny) * sizeof(cl_int), has_stage(w, FILL) },
    };
    tc_status st = TC_OK;

    for (size_t i = 0; st == TC_OK && i < sizeof list / sizeof list[0]; i++)
        if (list[i].wanted)
            st = ocl_buffer_new(w->device, list[i].bytes, CL_MEM_READ_WRITE, "cellcount", list[i].buffer, err);
    if (st == TC_OK && has_stage(w, HISTOGRAM))
        st = ocl_zero(w->device, &w->histogram, err);
    return st;
}

/* The first launch of a stage takes a million pixels or so. */
static void make_slices(cl_worker *w)
{
    w->rows = w->strip_rows;
    for (int s = 0; s < STAGES; s++) {
        const uint64_t work = stage_work(w, (stage)s), pixels = (uint64_t)w->nx * w->strip_rows;

        ocl_slice_init(&w->slice[s], w->task->slice_ms, work * ((uint64_t)1 << 20) / pixels + 1,
                       kernel_names[s][0] != NULL ? work : ((uint64_t)1 << 24) / w->nx + 1);
    }
    w->rows = 0;
}

static tc_status cl_open(const an_task *task, const void *state, void **worker, tc_err *err)
{
    cl_worker *const w = calloc(1, sizeof *w);
    tc_status st;

    *worker = w;
    if (w == NULL)
        return tc_no_memory(err, "cellcount");
    w->task = task;
    w->params = task->params;
    w->device = task->device;
    w->nx = task->item->nx;
    w->ny = task->item->ny;
    w->stride = (uint32_t)lab_stride(w->nx) * 2;
    w->threshold = (uint32_t)w->params->threshold;
    st = cc_cpu.open(task, state, &w->host, err);
    if (st == TC_OK) {
        choose_strips(w);
        w->host_only = cc_host_phase(w->host) >= CC_KEPT || (w->params->split && in_strips(w));
        if (!w->host_only)
            st = make_kernels(w, err);
        if (st == TC_OK && !w->host_only)
            st = make_buffers(w, err);
        /* Without kernels there is no size of a group to count work in. */
        if (st == TC_OK && !w->host_only)
            make_slices(w);
    }
    if (st != TC_OK)
        cl_close(worker);
    return st;
}

const an_backend cc_opencl = {
    .name = "opencl",
    .open = cl_open,
    .step = cl_step,
    .sync = cl_sync,
    .close = cl_close
};
