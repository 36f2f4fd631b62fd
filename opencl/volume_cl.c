/*
 * The OpenCL backend of the analysis volume; for a watershed it calls volume_watershed_cl.c. The
 * device applies the threshold and labels connected components, and makes the table of cells if the
 * result has no labels. Otherwise "the host", a worker of the CPU backend that the worker of this
 * file owns, makes the table and applies the filters. The host also does the repair.
 *
 * The device divides the stack into tiles. A part is a component within a tile; the stage JOIN
 * joins parts across the faces of tiles (volume.cl). Part 0, the "outside", consists of all
 * components that touch the stack's border. If the stack has more parts than fit in the device's
 * tables, as noisy stacks do, the host labels it. A stack that does not fit the device is labelled
 * in slabs of consecutive slices, whose cells the host joins where slabs meet.
 */
#include <stdlib.h>

#include "app/analysis/volume/layout.h"
#include "app/analysis/volume/volume.h"
#include "opencl/backends.h"
#include "opencl/volume_table.h"
#include "opencl/volume_watershed_cl.h"

extern const ocl_source ocl_source_volume;

enum { MAX_GROUP = 256 }; /* the most work-items of a work-group */

/* The device's stages in the order in which they run, each with its kernel. The stages without a
 * kernel copy from the device: READ_PARTS the number of parts, READ_LABELS the labels. */
#define EACH_STAGE(STAGE)                                                                         \
    STAGE(MASK, "vol_mask")                                                                       \
    STAGE(TILES, "vol_tiles")                                                                     \
    STAGE(READ_PARTS, NULL)                                                                       \
    STAGE(JOIN, "vol_join")                                                                       \
    STAGE(ROOTS, "vol_roots")                                                                     \
    STAGE(CLEAR, "vol_clear")                                                                     \
    STAGE(FIRST_VOXELS, "vol_first_voxels")                                                       \
    STAGE(MARK_FIRSTS, "vol_mark_firsts")                                                         \
    STAGE(COUNT, "vol_count")                                                                     \
    STAGE(SCAN, "vol_scan")                                                                       \
    STAGE(VALUES, "vol_values")                                                                   \
    STAGE(PAINT, "vol_paint")                                                                     \
    STAGE(CLEAR_TABLE, "vol_clear_table")                                                         \
    STAGE(MEASURE, "vol_measure") /* CLEAR_TABLE and MEASURE: only if the device makes a table */ \
    STAGE(READ_LABELS, NULL)

typedef enum stage { EACH_STAGE(OCL_STAGE_NUMBER) STAGES } stage;
static const char *const kernel_names[STAGES] = { EACH_STAGE(OCL_STAGE_KERNEL) };

/* The device's buffers, named after the kernels' arguments; B_TABLE is the table of cells. */
enum { B_PIXELS, B_MASK, B_PLANE, B_N_PARTS, B_LINK, B_FIRST, B_ROOT, B_COUNTS, B_TOTALS, B_TABLE };

typedef struct cl_worker {
    ocl_worker ocl; /* its kernels are numbered by stage */
    const vol_params *params;
    void *host;            /* a worker of the CPU backend, vol_cpu */
    size_t group;          /* work-items of a work-group */
    ocl_pace pace[STAGES]; /* the work of a launch, in the unit of stage_work */
    void *mask_rows; /* memory for piece_rows rows of the mask, which the host makes from blurred
                        voxels; 1 byte without a blur */
    uint32_t nx, ny, nz;  /* the size of the stack in voxels */
    uint32_t stride;      /* 32-bit words of a row of the mask */
    uint32_t piece_rows;  /* rows of pixels or mask that are copied to the device at a time */
    uint32_t slab_slices; /* slices of each slab but the last, which may have fewer; nz if the whole
                             stack fits the device */
    uint32_t max_parts;   /* the most parts that fit in the device's tables */
    uint32_t z0, slices; /* first slice and number of slices of the current slab; slices is 0 before
                            the first slab */
    uint32_t parts;      /* number of parts of the current slab */
    /* The next three members are set only if the whole stack is on the device. */
    uint32_t membrane; /* number of voxels of membrane */
    uint32_t outside;  /* number of voxels that belong to the outside */
    uint32_t cells;    /* number of cells */
    bool has_table;    /* the device makes the table of cells */
    stage stage;       /* the current stage; STAGES after the last one */
    uint64_t done;     /* amount of the stage's work, in the unit of stage_work, that is done */
    bool host_only;    /* the host does all the remaining work */
} cl_worker;

/* Whether the stack does not fit the device, and is labelled in slabs. */
static bool in_slabs(const cl_worker *w)
{
    return w->slab_slices < w->nz;
}

/* The number of rows of the current slab. */
static uint32_t slab_rows(const cl_worker *w)
{
    return w->slices * w->ny;
}

/* The number of voxels of the current slab. */
static uint32_t slab_voxels(const cl_worker *w)
{
    return slab_rows(w) * w->nx;
}

/* The number of 32-bit words of the current slab's mask. */
static uint32_t slab_words(const cl_worker *w)
{
    return slab_rows(w) * w->stride;
}

/* Returns the amount of work of a stage in the current slab: a number of layers of tiles, of slices
 * or of rows, or 1 for a stage that is one launch. Returns 0 if the stage is left out. */
static uint64_t stage_work(const cl_worker *w, stage s)
{
    switch (s) {
    case TILES: return ocl_unit_count(w->slices, VOL_TZ);
    case JOIN: return w->slices;
    case CLEAR_TABLE: return w->has_table && w->cells > 0;
    case MEASURE: return w->has_table && w->cells > 0 ? w->slices : 0;
    case MASK:
    case PAINT: return slab_rows(w);
    case READ_LABELS: return w->has_table ? 0 : slab_rows(w);
    case MARK_FIRSTS:
    case COUNT:
    case SCAN: return in_slabs(w) ? 0 : 1;
    default: return 1;
    }
}

/* --- launches -------------------------------------------------------------------------------- */

/* Queues the kernel of the worker's stage with x * y * z work-items. */
#define LAUNCH(w, x, y, z, err, ...) \
    OCL_QUEUE(w, (int)(w)->stage, ocl_grid_of((w)->group, x, y, z), err, __VA_ARGS__)

/* Kernel arguments: the width and the height of a slice, and the words of a row of the mask. */
#define NX(w) OCL_INT((w)->nx)
#define NY(w) OCL_INT((w)->ny)
#define STRIDE(w) OCL_INT((w)->stride)

/* Makes the mask of `count` rows from the slab's row `first` on. If a piece (w->piece_rows rows)
 * begins with row `first`, first copies the piece's pixels to the device. */
static tc_status launch_mask(cl_worker *w, uint64_t first, uint64_t count, tc_err *err)
{
    const wu_pixels *const px = w->ocl.work->pixels;
    const size_t at = ((size_t)w->z0 * w->ny + first) * w->nx, row_in_piece = first % w->piece_rows;
    const uint64_t left = slab_rows(w) - first,
                   copied_rows = row_in_piece > 0 ? 0 : tc_smaller(left, w->piece_rows);
    return_if_error(ocl_upload(&w->ocl, B_PIXELS, 0, ocl_pixels_from(px, at),
                               copied_rows * w->nx * (px->bits / 8), err));
    /* A work-item makes 8 bits of the mask. */
    return LAUNCH(w, 4 * (size_t)w->stride, count, 1, err, OCL_BUFFER_ARG(w, B_PIXELS),
                  OCL_BUFFER_ARG(w, B_MASK), NX(w), STRIDE(w), OCL_UINT(row_in_piece),
                  OCL_UINT(first), OCL_UINT(vol_host_threshold(w->host)));
}

/* Replaces launch_mask if the host has blurred the voxels: makes the mask of the rows on the host,
 * and copies it to the device. */
static tc_status write_mask(cl_worker *w, const vol_state *state, uint64_t first, uint64_t count,
                            tc_err *err)
{
    const size_t row = w->stride * sizeof(cl_uint);

    vol_host_mask(state, w->nx, (size_t)w->z0 * w->ny + first, count, w->mask_rows);
    return ocl_upload(&w->ocl, B_MASK, first * row, w->mask_rows, count * row, err);
}

/* Launches TILES for `count` layers of tiles along z, from number `first` on. */
static tc_status launch_tiles(cl_worker *w, uint64_t first, uint64_t count, tc_err *err)
{
    return LAUNCH(w, ocl_unit_count(w->nx, VOL_TX) * w->group, ocl_unit_count(w->ny, VOL_TY), count,
                  err, OCL_BUFFER_ARG(w, B_MASK), OCL_BUFFER_ARG(w, B_PLANE),
                  OCL_BUFFER_ARG(w, B_N_PARTS), OCL_BUFFER_ARG(w, B_LINK),
                  OCL_BUFFER_ARG(w, B_FIRST), OCL_INT(w->max_parts), NX(w), NY(w),
                  OCL_INT(w->slices), STRIDE(w), OCL_INT(first), OCL_INT(w->z0), OCL_INT(w->nz),
                  OCL_INT(w->params->is_3d));
}

/* Launches JOIN for `count` slices, from number `first` of the slab on. */
static tc_status launch_join(cl_worker *w, uint64_t first, uint64_t count, tc_err *err)
{
    return LAUNCH(w, (size_t)w->stride * w->ny, count, 1, err, OCL_BUFFER_ARG(w, B_MASK),
                  OCL_BUFFER_ARG(w, B_PLANE), OCL_BUFFER_ARG(w, B_LINK), NX(w), NY(w), STRIDE(w),
                  OCL_INT(first), OCL_INT(w->params->is_3d));
}

/* Launches one of the stages that are one launch each. */
static tc_status launch_tables(cl_worker *w, tc_err *err)
{
    const cl_uint words = in_slabs(w) ? 0 : slab_words(w),
                  chunks = ocl_unit_count(slab_words(w), VOL_WORDS_PER_ITEM), parts = w->parts;
    /* For vol_values: the number of voxels of the stack before the slab, or -1 without slabs; and
     * the value of voxels of the outside, -1 if the host still has to repair membrane, otherwise 0.
     */
    const cl_int voxels_before = in_slabs(w) ? (cl_int)(w->z0 * w->ny * w->nx) : -1,
                 outside = w->params->repair ? -1 : 0;

    switch (w->stage) {
    case CLEAR_TABLE:
        return LAUNCH(w, w->cells, 1, 1, err, OCL_BUFFER_ARG(w, B_TABLE), OCL_UINT(0),
                      OCL_UINT(w->cells));
    case ROOTS:
        return LAUNCH(w, parts, 1, 1, err, OCL_BUFFER_ARG(w, B_LINK), OCL_BUFFER_ARG(w, B_ROOT),
                      OCL_INT(parts));
    case CLEAR:
        return LAUNCH(w, parts > words ? parts : words, 1, 1, err, OCL_BUFFER_ARG(w, B_LINK),
                      OCL_BUFFER_ARG(w, B_MASK), OCL_INT(parts), OCL_UINT(words));
    case FIRST_VOXELS:
        return LAUNCH(w, parts, 1, 1, err, OCL_BUFFER_ARG(w, B_LINK), OCL_BUFFER_ARG(w, B_FIRST),
                      OCL_BUFFER_ARG(w, B_ROOT), OCL_INT(parts));
    case MARK_FIRSTS:
        return LAUNCH(w, parts, 1, 1, err, OCL_BUFFER_ARG(w, B_LINK), OCL_BUFFER_ARG(w, B_ROOT),
                      OCL_BUFFER_ARG(w, B_MASK), OCL_INT(parts));
    case COUNT:
        return LAUNCH(w, chunks, 1, 1, err, OCL_BUFFER_ARG(w, B_MASK), OCL_BUFFER_ARG(w, B_COUNTS),
                      OCL_UINT(words), OCL_INT(chunks));
    case SCAN: return LAUNCH(w, 1, 1, 1, err, OCL_BUFFER_ARG(w, B_COUNTS), OCL_INT(chunks));
    default: /* VALUES */
        return LAUNCH(w, parts, 1, 1, err, OCL_BUFFER_ARG(w, B_LINK), OCL_BUFFER_ARG(w, B_ROOT),
                      OCL_BUFFER_ARG(w, B_MASK), OCL_BUFFER_ARG(w, B_COUNTS),
                      OCL_BUFFER_ARG(w, B_FIRST), OCL_INT(parts), OCL_INT(voxels_before),
                      OCL_INT(outside));
    }
}

/* Launches PAINT for `count` rows of the slab, from first_row on. */
static tc_status launch_paint(cl_worker *w, uint64_t first_row, uint64_t count, tc_err *err)
{
    const uint64_t first = first_row * w->nx, end = first + count * w->nx;
    /* The value that vol_values has given to voxels of the outside (in slabs ~0). */
    const cl_int outside = in_slabs(w) || w->params->repair ? -1 : 0;

    /* A work-item paints VOL_VOXELS_PER_ITEM voxels. */
    return LAUNCH(w, (size_t)ocl_unit_count(end - first, w->group * VOL_VOXELS_PER_ITEM) * w->group,
                  1, 1, err, OCL_BUFFER_ARG(w, B_PLANE), OCL_BUFFER_ARG(w, B_FIRST),
                  OCL_BUFFER_ARG(w, B_TOTALS), OCL_UINT(first), OCL_UINT(end), OCL_INT(outside));
}

/* Launches MEASURE for `count` slices, from number `first` on. */
static tc_status launch_measure(cl_worker *w, uint64_t first, uint64_t count, tc_err *err)
{
    return LAUNCH(w, w->nx, ocl_unit_count(w->ny, VOL_ROWS_PER_ITEM), count, err,
                  OCL_BUFFER_ARG(w, B_PLANE), OCL_BUFFER_ARG(w, B_TABLE), NX(w), NY(w),
                  OCL_INT(first));
}

/* Launches the worker's stage for `count` units (stage_work), from number `first` on. */
static tc_status launch_stage(cl_worker *w, uint64_t first, uint64_t count, tc_err *err)
{
    switch (w->stage) {
    case MASK: return launch_mask(w, first, count, err);
    case TILES: return launch_tiles(w, first, count, err);
    case JOIN: return launch_join(w, first, count, err);
    case PAINT: return launch_paint(w, first, count, err);
    case MEASURE: return launch_measure(w, first, count, err);
    default: return launch_tables(w, err);
    }
}

/* --- copies ---------------------------------------------------------------------------------- */

/* Copies rows [first, first + count) of the slab's plane to their place in the state. An item that
 * is interrupted after that, and before it is done, cannot continue from the state; in_progress
 * records this. */
static tc_status read_rows(cl_worker *w, vol_state *state, uint64_t first, uint64_t count,
                           tc_err *err)
{
    const size_t row = (size_t)w->nx * sizeof(int32_t);

    state->in_progress = 1;
    state->head.chunks_done = 0;
    return ocl_download(&w->ocl, B_PLANE, first * row,
                        state->nodes + 1 + ((size_t)w->z0 * w->ny + first) * w->nx, count * row,
                        err);
}

/* Reads the number of parts. If there are more than the tables can hold, the host labels the stack.
 */
static tc_status read_parts(cl_worker *w, vol_state *state, tc_err *err)
{
    cl_int used = 0;
    return_if_error(ocl_download(&w->ocl, B_N_PARTS, 0, &used, sizeof used, err));

    w->parts = (uint32_t)used;
    if (w->parts > w->max_parts) {
        w->host_only = true;
        return_if_error(vol_host_resume(w->host, state, VOL_BANDS, 0, err));
    }
    return TC_OK;
}

/* Returns the amount of the stage's work that the next launch or copy does. A launch of MASK does
 * not go beyond the end of a piece, as only one piece is on the device. */
static uint64_t next_work(const cl_worker *w)
{
    const uint64_t left = stage_work(w, w->stage) - w->done,
                   left_of_piece = w->piece_rows - w->done % w->piece_rows;

    return ocl_pace_next(&w->pace[w->stage],
                         w->stage == MASK && left_of_piece < left ? left_of_piece : left);
}

/* Does `count` units (stage_work) of the stage's work from w->done on, by one launch or one copy.
 */
static tc_status run_part(cl_worker *w, vol_state *state, uint64_t count, tc_err *err)
{
    if (w->stage == READ_PARTS)
        return read_parts(w, state, err);
    if (w->stage == READ_LABELS)
        return read_rows(w, state, w->done, count, err);
    if (w->stage == MASK && vol_has_blur(w->params))
        return write_mask(w, state, w->done, count, err);
    return ocl_end_launch(&w->ocl, launch_stage(w, w->done, count, err), &w->pace[w->stage], count,
                          err);
}

/* Begins the slab whose first slice is z0. B_N_PARTS, the number of parts, begins with 1, because
 * part 0 is the outside. */
static tc_status begin_slab(cl_worker *w, uint32_t z0, tc_err *err)
{
    const cl_int one = 1, zeros[2] = { 0, 0 };

    w->z0 = z0;
    w->slices = w->nz - z0 < w->slab_slices ? w->nz - z0 : w->slab_slices;
    w->stage = MASK;
    w->done = 0;
    return_if_error(ocl_upload(&w->ocl, B_N_PARTS, 0, &one, sizeof one, err));
    return ocl_upload(&w->ocl, B_TOTALS, 0, zeros, sizeof zeros, err);
}

/* After PAINT of a whole stack: reads the numbers of voxels and cells, and allocates the table of
 * cells if the device is to make it. */
static tc_status end_paint(cl_worker *w, tc_err *err)
{
    cl_uint totals[2] = { 0, 0 }, cells = 0;
    return_if_error(ocl_download(&w->ocl, B_TOTALS, 0, totals, sizeof totals, err));

    return_if_error(ocl_download(&w->ocl, B_COUNTS,
                                 ocl_unit_count(slab_words(w), VOL_WORDS_PER_ITEM) * sizeof cells,
                                 &cells, sizeof cells, err));
    w->membrane = totals[0];
    w->outside = totals[1];
    w->cells = cells;
    return vol_table_begin(&w->ocl, B_TABLE, cells, &w->has_table, err);
}

/* Writes the device's counts to *head, the state or a copy of it. */
static void copy_counts(const cl_worker *w, vol_state *head)
{
    head->membrane = w->membrane;
    head->outside = w->outside;
    head->cells = w->cells;
}

/* After the device's last stage: if the device has made the table, the item is done; otherwise the
 * host continues. */
static tc_status finish_device(cl_worker *w, vol_state *state, tc_err *err)
{
    w->host_only = !w->has_table;
    if (w->has_table)
        return TC_OK;
    if (in_slabs(w))
        return vol_host_resume(w->host, state, VOL_SEAMS, (size_t)w->slab_slices * w->ny, err);
    copy_counts(w, state);
    return vol_host_resume(w->host, state, VOL_BIAS, 0, err);
}

/* Ends the current stage and sets the next one. After the last stage, begins the next slab, or ends
 * the device's part of the work if there is none. */
static tc_status end_stage(cl_worker *w, vol_state *state, tc_err *err)
{
    const tc_status status = w->stage == PAINT && !in_slabs(w) ? end_paint(w, err) : TC_OK;

    if (status != TC_OK || w->host_only)
        return status;
    w->done = 0;
    do
        w->stage++;
    while (w->stage < STAGES && stage_work(w, w->stage) == 0);
    if (w->stage < STAGES)
        return TC_OK;
    if (w->z0 + w->slices < w->nz)
        return begin_slab(w, w->z0 + w->slices, err);
    return finish_device(w, state, err);
}

/* --- the backend ----------------------------------------------------------------------------- */

/* Returns the progress, in chunks of the plan, for display. The device's stages count as the first
 * half of the plan. */
static uint64_t progress_chunks(const cl_worker *w)
{
    const double slab = ((double)w->stage + 1) / STAGES;

    return (uint64_t)((double)w->ocl.work->plan.chunks / 2 * (w->z0 + slab * w->slices) / w->nz);
}

/* Runs parts of stages until AN_STEP_SECONDS have passed or the stages end. */
static tc_status run_stages(cl_worker *w, vol_state *state, tc_err *err)
{
    tc_status status = w->slices == 0 ? begin_slab(w, 0, err) : TC_OK;
    const double end = tc_seconds() + AN_STEP_SECONDS;

    while (status == TC_OK && !w->host_only && w->stage < STAGES) {
        const uint64_t count = next_work(w);

        return_if_error(run_part(w, state, count, err));
        w->done += count;
        if (w->done == stage_work(w, w->stage))
            status = end_stage(w, state, err);
        if (tc_seconds() >= end)
            break;
    }
    return status;
}

static tc_status cl_step(void *worker, void *state_at, uint64_t *chunks_done, tc_err *err)
{
    cl_worker *const w = worker;
    vol_state *const state = state_at;
    tc_status status;
    bool done;

    *chunks_done = state->head.chunks_done;
    if (state->head.chunks_done == w->ocl.work->plan.chunks)
        return TC_OK;
    if (w->ocl.launcher == &vol_watershed_launcher)
        return vol_watershed_step(worker, state, chunks_done, err);
    if (w->host_only)
        return vol_host_step(w->host, state, VOL_PHASES, chunks_done, err);
    if (vol_host_phase(w->host) < VOL_BANDS) {
        status = vol_host_step(w->host, state, VOL_BANDS, chunks_done, err);
        return status == TC_OK ? TC_MORE : status;
    }
    status = run_stages(w, state, err);
    done = status == TC_OK && w->stage == STAGES && w->has_table;
    *chunks_done = done ? w->ocl.work->plan.chunks : progress_chunks(w);
    return status == TC_OK && !done ? TC_MORE : status;
}

static tc_status cl_finish(void *worker, void *state, size_t item_index, wu_output *out,
                           tc_err *err)
{
    cl_worker *const w = worker;
    vol_state head = *(const vol_state *)state;

    if (w->ocl.launcher == &vol_watershed_launcher)
        return vol_watershed_finish(worker, state, item_index, out, err);
    if (!w->has_table)
        return TC_MORE;
    copy_counts(w, &head);
    return vol_table_finish(&w->ocl, B_TABLE, &head, item_index, out, err);
}

static void free_worker(void *worker)
{
    cl_worker *const w = worker;

    free(w->mask_rows);
    if (w->host != NULL)
        vol_cpu.close(&w->host);
}

static tc_status make_kernels(cl_worker *w, tc_err *err)
{
    const bool is_16_bit = w->ocl.work->pixels->bits == 16;

    w->group = ocl_group_size(w->ocl.device, MAX_GROUP);
    return ocl_build_kernels(&w->ocl, &ocl_source_volume, false, kernel_names, STAGES, err,
                             "-DGROUP=%zu -DPIXEL=%s -DPIXEL8=%s", w->group,
                             is_16_bit ? "ushort" : "uchar", is_16_bit ? "ushort8" : "uchar8");
}

/* Returns the number of parts for which the tables are made: a tenth of the number of voxels. The
 * tables (B_LINK, B_FIRST and B_ROOT) need 12 bytes for each part. */
static uint64_t parts_for(uint64_t voxels)
{
    return voxels / 10 + 64;
}

/* Returns the bytes of device memory that a slab of `slices` slices needs, less than 6 for each
 * voxel: the plane, the mask, the tables, the counts, and the pixels of a piece. */
static uint64_t slab_bytes(const cl_worker *w, uint64_t slices)
{
    const uint64_t rows = slices * w->ny, n = rows * w->nx, words = rows * w->stride;

    return 4 * n + 4 * words + 12 * parts_for(n) +
           4 * (uint64_t)ocl_unit_count(words, VOL_WORDS_PER_ITEM) +
           (uint64_t)w->piece_rows * w->nx * (w->ocl.work->pixels->bits / 8) + 64;
}

/* Whether the device has memory for a slab of `slices` slices. */
static bool slab_fits(const cl_worker *w, uint64_t slices)
{
    const ocl_device *const d = w->ocl.device;

    return slab_bytes(w, slices) <= d->memory_limit - d->memory_used &&
           slices * w->ny * w->nx * sizeof(cl_int) <= d->info.max_alloc_bytes;
}

/* Sets slab_slices to nz if the whole stack fits the device; otherwise to the most slices that fit,
 * rounded down to whole layers of tiles if possible; or to 0 if not even one slice fits. */
static void choose_slabs(cl_worker *w)
{
    uint32_t most = w->nz, fitting = 0;

    while (fitting < most) {
        const uint32_t middle = most - (most - fitting) / 2;

        if (slab_fits(w, middle))
            fitting = middle;
        else
            most = middle - 1;
    }
    w->slab_slices = fitting < w->nz && fitting > VOL_TZ ? fitting / VOL_TZ * VOL_TZ : fitting;
}

static tc_status make_buffers(cl_worker *w, tc_err *err)
{
    const uint64_t rows = (uint64_t)w->slab_slices * w->ny, n = rows * w->nx,
                   word = sizeof(cl_uint);
    const ocl_buffer_need needs[] = {
        { B_MASK, rows * w->stride * word, "volume", NULL },
        { B_PLANE, n * word, "volume", NULL },
        { B_N_PARTS, word, "volume", NULL },
        { B_LINK, parts_for(n) * word, "volume", NULL },
        { B_FIRST, parts_for(n) * word, "volume", NULL },
        { B_ROOT, parts_for(n) * word, "volume", NULL },
        { B_COUNTS, ((uint64_t)ocl_unit_count(rows * w->stride, VOL_WORDS_PER_ITEM) + 1) * word,
          "volume", NULL },
        { B_TOTALS, 2 * word, "volume", NULL },
        { B_PIXELS, (uint64_t)w->piece_rows * w->nx * (w->ocl.work->pixels->bits / 8), "volume",
          NULL }
    };

    w->max_parts = (uint32_t)parts_for(n);
    w->mask_rows = malloc(vol_has_blur(w->params) ? (size_t)w->piece_rows * w->stride * word : 1);
    if (w->mask_rows == NULL)
        return tc_no_memory(err, "volume");
    return ocl_make_buffers(&w->ocl, needs, sizeof needs / sizeof needs[0], err);
}

/* Initialises the paces. The first launch of a stage processes about 2^14 voxels. A copy always
 * transfers at most about 2^24 voxels. */
static void set_paces(cl_worker *w)
{
    w->slices = w->slab_slices;
    for (int s = 0; s < STAGES; s++) {
        const uint64_t work = s == MEASURE ? w->slices : stage_work(w, (stage)s),
                       n = slab_voxels(w);
        const uint64_t most = s == MASK          ? w->piece_rows
                              : s == READ_LABELS ? ((uint64_t)1 << 24) / w->nx + 1
                                                 : work;

        ocl_pace_begin(
            &w->ocl, &w->pace[s],
            kernel_names[s] == NULL ? (double)most : (double)work * (1 << 14) / (double)n, most);
    }
    w->slices = 0;
}

static tc_status open_worker(void *worker, const void *state, tc_err *err)
{
    cl_worker *const w = worker;
    const an_work *const work = w->ocl.work;

    w->params = work->params;
    w->nx = work->item->nx;
    w->ny = work->item->ny;
    w->nz = work->item->nz;
    w->stride = ocl_unit_count(w->nx, 32);
    /* B_PIXELS, with piece_rows rows, takes about an eighth of a byte for each voxel of the stack,
     * and has at most about 2^24 pixels. */
    w->piece_rows = ocl_unit_count((uint64_t)w->ny * w->nz, work->pixels->bits);
    if (w->piece_rows > ((uint32_t)1 << 24) / w->nx + 1)
        w->piece_rows = ((uint32_t)1 << 24) / w->nx + 1;
    return_if_error(vol_cpu.open(work, state, &w->host, err));
    choose_slabs(w);
    w->host_only = w->slab_slices == 0;
    if (w->host_only)
        return TC_OK;
    return_if_error(make_kernels(w, err));
    return_if_error(make_buffers(w, err));
    set_paces(w);
    return TC_OK;
}

static const ocl_launcher launcher = { "volume", sizeof(cl_worker), open_worker, free_worker };

/* Opens the worker of this file or, for a watershed, the worker of volume_watershed_cl.c. */
static tc_status cl_open(const an_work *work, const void *state, void **worker, tc_err *err)
{
    const vol_params *const p = work->params;

    return ocl_worker_open(p->watershed ? &vol_watershed_launcher : &launcher, work, state, worker,
                           err);
}

const an_backend ocl_volume = { .name = "opencl",
                                .open = cl_open,
                                .step = cl_step,
                                .close = ocl_worker_close,
                                .finish = cl_finish };
