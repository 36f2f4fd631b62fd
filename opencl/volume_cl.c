/*
 * The OpenCL backend of volume. The device thresholds and labels; the repair, what
 * a filter leaves out and the table are left to the CPU's backend, whose worker
 * this one contains.
 *
 * A stack that does not fit the device is labelled in slabs of slices, whose cells the
 * host joins where slabs meet. What has more parts than the device's tables have room for
 * is noise, and is the host's altogether.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/volume/volume.h"
#include "opencl/backends.h"
#include "opencl/bench.h"
#include "opencl/program.h"

extern const ocl_source ocl_source_volume;

/* As in the kernels. */
enum { TX = 32, TY = 8, TZ = 8, CHUNK = 128, PER_ITEM = 16, MAX_GROUP = 256 };

/* Phases of the device. */
typedef enum stage {
    MASK, TILES, USED, JOIN,
    ROOTS, CLEAR, LEAST, MARK, COUNT, SCAN, GIVE, PAINT,
    READ, STAGES
} stage;

static const char *const kernel_names[STAGES] = {
    [MASK] = "vol_mask", [TILES] = "vol_tiles",
    [JOIN] = "vol_join",
    [ROOTS] = "vol_roots", [CLEAR] = "vol_clear", [LEAST] = "vol_least", [MARK] = "vol_mark",
    [COUNT] = "vol_count", [SCAN] = "vol_scan", [GIVE] = "vol_give", [PAINT] = "vol_paint"
};

typedef struct cl_worker {
    const an_task *task;
    const vol_params *params;
    ocl_device *device;
    void *host;                /* a worker of vol_cpu */
    bool blocks;
    size_t group;
    ocl_kernel kernel[STAGES];
    ocl_buffer pixels, mask, plane, used, link, first, root, counts, totals;
    ocl_pace slice[STAGES];
    void *rows;                /* of the mask, made by the host after a repair */
    uint32_t nx, ny, nz;
    uint32_t stride;           /* of the mask, in words */
    uint32_t piece;            /* rows that go to the device at a time */
    uint32_t slab_slices;      /* nz: the whole stack is on the device */
    uint32_t room;             /* parts that the tables can hold */
    uint32_t z0, slices;       /* the slab; no slices: it has not begun */
    uint32_t parts;
    stage stage;
    uint64_t done;             /* work of the stage */
    bool host_only;
    double label_ms;           /* device time from voxels to labels, for the bench */
} cl_worker;

static bool in_slabs(const cl_worker *w)
{
    return w->slab_slices < w->nz;
}

static uint32_t up_to(uint64_t n, uint64_t unit)
{
    return (uint32_t)((n + unit - 1) / unit);
}

static uint32_t rows_of(const cl_worker *w)
{
    return w->slices * w->ny;
}

static uint32_t voxels_of(const cl_worker *w)
{
    return rows_of(w) * w->nx;
}

static uint32_t words_of(const cl_worker *w)
{
    return rows_of(w) * w->stride;
}

/* Work of a stage, in the units that its launches take; 0 where it does not
 * apply. */
static uint64_t stage_work(const cl_worker *w, stage s)
{
    switch (s) {
    case TILES:
        return up_to(w->slices, TZ);
    case JOIN:
        return w->slices;
    case MASK:
    case PAINT:
    case READ:
        return rows_of(w);
    case MARK:
    case COUNT:
    case SCAN:
        return in_slabs(w) ? 0 : 1;
    default:
        return 1;
    }
}

/* --- launches ------------------------------------------------------------------------- */

static tc_status launch(cl_worker *w, const ocl_arg *args, size_t n, size_t x, size_t y, size_t z, ocl_batch *batch,
                        tc_err *err)
{
    const size_t local[3] = { w->group, 1, 1 };
    const size_t global[3] = { ocl_round_up(x, w->group), y, z };
    tc_status st = ocl_set_args(w->device, &w->kernel[w->stage], args, n, err);

    if (st == TC_OK)
        st = ocl_launch(w->device, &w->kernel[w->stage], 3, NULL, global, local, batch, err);
    return st;
}

/* Pixels of `count` rows from the slab's row `first` on, and their bits. */
static tc_status launch_mask(cl_worker *w, uint64_t first, uint64_t count, ocl_batch *batch, tc_err *err)
{
    const wu_pixels *const px = w->task->pixels;
    const size_t bytes = px->bits / 8, at = ((size_t)w->z0 * w->ny + first) * w->nx;
    const cl_int nx = (cl_int)w->nx, stride = (cl_int)w->stride;
    const cl_uint first_row = (cl_uint)first, threshold = (cl_uint)w->params->membrane;
    const ocl_arg args[] = { OCL_BUFFER(w->pixels), OCL_BUFFER(w->mask), OCL_ARG(nx), OCL_ARG(stride),
                             OCL_ARG(first_row), OCL_ARG(threshold) };
    const tc_status st = ocl_write(w->device, &w->pixels, 0,
                                   px->u8 != NULL ? (const void *)(px->u8 + at) : (const void *)(px->u16 + at),
                                   count * w->nx * bytes, err);

    return st != TC_OK ? st : launch(w, args, 6, 4 * (size_t)w->stride, count, 1, batch, err);
}

/* The same after a repair, from what the host has. */
static tc_status write_mask(cl_worker *w, const vol_state *state, uint64_t first, uint64_t count, tc_err *err)
{
    const size_t row = w->stride * sizeof(cl_uint);

    vol_host_mask(state, w->nx, (size_t)w->z0 * w->ny + first, count, w->rows);
    return ocl_write(w->device, &w->mask, first * row, w->rows, count * row, err);
}

static tc_status launch_tiles(cl_worker *w, uint64_t first, uint64_t count, ocl_batch *batch, tc_err *err)
{
    const cl_int nx = (cl_int)w->nx, ny = (cl_int)w->ny, nz = (cl_int)w->slices, stride = (cl_int)w->stride;
    const cl_int layer = (cl_int)first, before = (cl_int)w->z0, all = (cl_int)w->nz, room = (cl_int)w->room;
    const cl_int through = w->params->through, blocks = w->blocks;
    const ocl_arg args[] = { OCL_BUFFER(w->mask), OCL_BUFFER(w->plane), OCL_BUFFER(w->used), OCL_BUFFER(w->link),
                             OCL_BUFFER(w->first), OCL_ARG(room), OCL_ARG(nx), OCL_ARG(ny), OCL_ARG(nz),
                             OCL_ARG(stride), OCL_ARG(layer), OCL_ARG(before), OCL_ARG(all), OCL_ARG(through),
                             OCL_ARG(blocks) };

    return launch(w, args, 15, up_to(w->nx, TX) * w->group, up_to(w->ny, TY), count, batch, err);
}

static tc_status launch_join(cl_worker *w, uint64_t first, uint64_t count, ocl_batch *batch, tc_err *err)
{
    const cl_int nx = (cl_int)w->nx, ny = (cl_int)w->ny, stride = (cl_int)w->stride, from = (cl_int)first;
    const cl_int through = w->params->through;
    const ocl_arg args[] = { OCL_BUFFER(w->mask), OCL_BUFFER(w->plane), OCL_BUFFER(w->link), OCL_ARG(nx), OCL_ARG(ny),
                             OCL_ARG(stride), OCL_ARG(from), OCL_ARG(through) };

    return launch(w, args, 8, (size_t)w->stride * w->ny, count, 1, batch, err);
}

/* Stages that take the tables of parts at once. */
static tc_status launch_tables(cl_worker *w, ocl_batch *batch, tc_err *err)
{
    const cl_int parts = (cl_int)w->parts, chunks = (cl_int)up_to(words_of(w), CHUNK);
    const cl_int numbers = in_slabs(w) ? (cl_int)(w->z0 * w->ny * w->nx) : -1, outside = w->params->repair ? -1 : 0;
    const cl_uint words = in_slabs(w) ? 0 : words_of(w);
    const ocl_arg roots[] = { OCL_BUFFER(w->link), OCL_BUFFER(w->root), OCL_ARG(parts) };
    const ocl_arg clear[] = { OCL_BUFFER(w->link), OCL_BUFFER(w->mask), OCL_ARG(parts), OCL_ARG(words) };
    const ocl_arg least[] = { OCL_BUFFER(w->link), OCL_BUFFER(w->first), OCL_BUFFER(w->root), OCL_ARG(parts) };
    const ocl_arg mark[] = { OCL_BUFFER(w->link), OCL_BUFFER(w->root), OCL_BUFFER(w->mask), OCL_ARG(parts) };
    const ocl_arg count[] = { OCL_BUFFER(w->mask), OCL_BUFFER(w->counts), OCL_ARG(words), OCL_ARG(chunks) };
    const ocl_arg scan[] = { OCL_BUFFER(w->counts), OCL_ARG(chunks) };
    const ocl_arg give[] = { OCL_BUFFER(w->link), OCL_BUFFER(w->root), OCL_BUFFER(w->mask), OCL_BUFFER(w->counts),
                             OCL_BUFFER(w->first), OCL_ARG(parts), OCL_ARG(numbers), OCL_ARG(outside) };

    switch (w->stage) {
    case ROOTS:
        return launch(w, roots, 3, w->parts, 1, 1, batch, err);
    case CLEAR:
        return launch(w, clear, 4, w->parts > words ? w->parts : words, 1, 1, batch, err);
    case LEAST:
        return launch(w, least, 4, w->parts, 1, 1, batch, err);
    case MARK:
        return launch(w, mark, 4, w->parts, 1, 1, batch, err);
    case COUNT:
        return launch(w, count, 4, (size_t)chunks, 1, 1, batch, err);
    case SCAN:
        return launch(w, scan, 2, 1, 1, 1, batch, err);
    default:
        return launch(w, give, 8, w->parts, 1, 1, batch, err);
    }
}

static tc_status launch_paint(cl_worker *w, uint64_t first_row, uint64_t count, ocl_batch *batch, tc_err *err)
{
    const cl_uint first = (cl_uint)first_row * w->nx, end = first + (cl_uint)count * w->nx;
    const cl_int outside = in_slabs(w) || w->params->repair ? -1 : 0;
    const ocl_arg args[] = { OCL_BUFFER(w->plane), OCL_BUFFER(w->first), OCL_BUFFER(w->totals), OCL_ARG(first),
                             OCL_ARG(end), OCL_ARG(outside) };

    return launch(w, args, 6, (size_t)up_to(end - first, w->group * PER_ITEM) * w->group, 1, 1, batch, err);
}

static tc_status launch_stage(cl_worker *w, uint64_t first, uint64_t count, ocl_batch *batch, tc_err *err)
{
    switch (w->stage) {
    case MASK:
        return launch_mask(w, first, count, batch, err);
    case TILES:
        return launch_tiles(w, first, count, batch, err);
    case JOIN:
        return launch_join(w, first, count, batch, err);
    case PAINT:
        return launch_paint(w, first, count, batch, err);
    default:
        return launch_tables(w, batch, err);
    }
}

/* --- what is not a launch ------------------------------------------------------------- */

/* Rows of the plane into the state, which from here on is no resting place. */
static tc_status read_rows(cl_worker *w, vol_state *state, uint64_t first, uint64_t count, tc_err *err)
{
    const size_t row = (size_t)w->nx * sizeof(int32_t);

    state->begun = 1;
    state->head.units_done = 0;
    return ocl_read(w->device, &w->plane, first * row, state->nodes + 1 + ((size_t)w->z0 * w->ny + first) * w->nx,
                    count * row, err);
}

/* How many parts there are. Too many: all of it is for the host. */
static tc_status read_used(cl_worker *w, vol_state *state, tc_err *err)
{
    cl_int used = 0;
    const tc_status st = ocl_read(w->device, &w->used, 0, &used, sizeof used, err);

    w->parts = (uint32_t)used;
    if (st == TC_OK && w->parts > w->room) {
        w->host_only = true;
        vol_host_resume(w->host, state, VOL_BANDS, 0);
    }
    return st;
}

/* Some of a stage. */
static tc_status do_part(cl_worker *w, vol_state *state, uint64_t count, double *ms, tc_err *err)
{
    ocl_batch batch = { 0 };
    tc_status st;

    *ms = 0;
    if (w->stage == USED)
        return read_used(w, state, err);
    if (w->stage == READ)
        return read_rows(w, state, w->done, count, err);
    if (w->stage == MASK && w->params->repair)
        return write_mask(w, state, w->done, count, err);
    st = launch_stage(w, w->done, count, &batch, err);
    if (st != TC_OK) {
        ocl_batch_drop(w->device, &batch);
        return st;
    }
    return ocl_batch_wait(w->device, &batch, w->slice[w->stage].last_ms, ms, err);
}

/* Part 0 is the outside, which there always is. */
static tc_status begin_slab(cl_worker *w, uint32_t z0, tc_err *err)
{
    const cl_int one = 1, none[2] = { 0, 0 };
    tc_status st;

    w->z0 = z0;
    w->slices = w->nz - z0 < w->slab_slices ? w->nz - z0 : w->slab_slices;
    w->stage = MASK;
    w->done = 0;
    st = ocl_write(w->device, &w->used, 0, &one, sizeof one, err);
    if (st == TC_OK)
        st = ocl_write(w->device, &w->totals, 0, none, sizeof none, err);
    return st;
}

/* The device has nothing more to do. */
static tc_status finish_device(cl_worker *w, vol_state *state, tc_err *err)
{
    cl_int totals[2] = { 0, 0 }, cells = 0;
    tc_status st = TC_OK;

    w->host_only = true;
    if (in_slabs(w)) {
        vol_host_resume(w->host, state, VOL_SEAMS, (size_t)w->slab_slices * w->ny);
        return TC_OK;
    }
    st = ocl_read(w->device, &w->totals, 0, totals, sizeof totals, err);
    if (st == TC_OK)
        st = ocl_read(w->device, &w->counts, up_to(words_of(w), CHUNK) * sizeof cells, &cells, sizeof cells, err);
    if (st != TC_OK)
        return st;
    state->membrane = (uint64_t)totals[0];
    state->outside = (uint64_t)totals[1];
    state->cells = (uint64_t)cells;
    vol_host_resume(w->host, state, VOL_BIAS, 0);
    return TC_OK;
}

static tc_status end_stage(cl_worker *w, vol_state *state, tc_err *err)
{
    if (w->host_only)
        return TC_OK;
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

/* --- the backend ------------------------------------------------------------------------ */

/* Progress in the plan's units: the device's part counts as the first half. */
static uint64_t position(const cl_worker *w)
{
    const double slab = ((double)w->stage + 1) / STAGES;

    return (uint64_t)((double)w->task->plan.units / 2 * (w->z0 + slab * w->slices) / w->nz);
}

/* Launches until slice_ms are used. */
static tc_status work(cl_worker *w, vol_state *state, tc_err *err)
{
    tc_status st = w->slices == 0 ? begin_slab(w, 0, err) : TC_OK;
    double total = 0;

    while (st == TC_OK && !w->host_only && total < w->task->slice_ms) {
        const uint64_t left = stage_work(w, w->stage) - w->done;
        const uint64_t count = ocl_pace_next(&w->slice[w->stage], left);
        double ms = 0;

        st = do_part(w, state, count, &ms, err);
        if (st != TC_OK)
            return st;
        if (ms > 0)
            ocl_pace_took(&w->slice[w->stage], count, ms);
        total += ms;
        w->label_ms += ms;
        w->done += count;
        if (count == left)
            st = end_stage(w, state, err);
    }
    return st;
}

static tc_status cl_step(void *worker, void *state_at, uint64_t *units_done, tc_err *err)
{
    cl_worker *const w = worker;
    vol_state *const state = state_at;
    tc_status st;

    if (w->host_only)
        return vol_host_step(w->host, state, VOL_PHASES, units_done, err);
    if (vol_host_phase(w->host) < VOL_BANDS) {
        st = vol_host_step(w->host, state, VOL_BANDS, units_done, err);
        return st == TC_OK ? TC_MORE : st;
    }
    st = work(w, state, err);
    *units_done = position(w);
    return st == TC_OK ? TC_MORE : st;
}

double vol_opencl_label_ms(const void *worker)
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
    ocl_buffer_free(w->device, &w->plane);
    ocl_buffer_free(w->device, &w->used);
    ocl_buffer_free(w->device, &w->link);
    ocl_buffer_free(w->device, &w->first);
    ocl_buffer_free(w->device, &w->root);
    ocl_buffer_free(w->device, &w->counts);
    ocl_buffer_free(w->device, &w->totals);
    free(w->rows);
    if (w->host != NULL)
        vol_cpu.close(&w->host);
    free(w);
}

static tc_status make_kernels(cl_worker *w, tc_err *err)
{
    const bool deep = w->task->pixels->bits == 16;
    char defines[64];
    cl_program program;
    tc_status st;

    w->group = MAX_GROUP;
    while (w->group > w->device->info.max_group)
        w->group /= 2;
    snprintf(defines, sizeof defines, "-DGROUP=%zu -DPIXEL=%s -DPIXEL8=%s", w->group, deep ? "ushort" : "uchar",
             deep ? "ushort8" : "uchar8");
    st = ocl_program_build(w->device, &ocl_source_volume, defines, false, &program, err);
    for (int s = 0; st == TC_OK && s < STAGES; s++)
        if (kernel_names[s] != NULL)
            st = ocl_kernel_new(w->device, program, kernel_names[s], &w->kernel[s], err);
    ocl_program_free(w->device, &program);
    return st;
}

/* Parts that so many voxels may have: the tables take 1.2 bytes a voxel. */
static uint64_t room_for(uint64_t voxels)
{
    return voxels / 10 + 64;
}

/* Device bytes for so many slices: less than 6 a voxel. */
static uint64_t slab_bytes(const cl_worker *w, uint64_t slices)
{
    const uint64_t rows = slices * w->ny, n = rows * w->nx, words = rows * w->stride;

    return 4 * n + 4 * words + 12 * room_for(n) + 4 * (uint64_t)up_to(words, CHUNK)
         + (uint64_t)w->piece * w->nx * (w->task->pixels->bits / 8) + 64;
}

static bool fits(const cl_worker *w, uint64_t slices)
{
    const ocl_device *const d = w->device;

    return slab_bytes(w, slices) <= d->memory_limit - d->memory_used &&
           slices * w->ny * w->nx * sizeof(cl_int) <= d->info.max_alloc_bytes;
}

/* All slices, or as many whole layers of tiles as fit; 0: not even one slice. */
static void choose_slabs(cl_worker *w)
{
    uint32_t most = w->nz, fitting = 0;

    while (fitting < most) {
        const uint32_t middle = most - (most - fitting) / 2;

        if (fits(w, middle))
            fitting = middle;
        else
            most = middle - 1;
    }
    w->slab_slices = fitting < w->nz && fitting > TZ ? fitting / TZ * TZ : fitting;
}

static tc_status make_buffers(cl_worker *w, tc_err *err)
{
    const uint64_t rows = (uint64_t)w->slab_slices * w->ny, n = rows * w->nx;
    const struct {
        ocl_buffer *buffer;
        uint64_t bytes;
    } list[] = {
        { &w->mask, rows * w->stride * sizeof(cl_uint) },
        { &w->plane, n * sizeof(cl_int) },
        { &w->used, sizeof(cl_int) },
        { &w->link, room_for(n) * sizeof(cl_int) },
        { &w->first, room_for(n) * sizeof(cl_int) },
        { &w->root, room_for(n) * sizeof(cl_int) },
        { &w->counts, ((uint64_t)up_to(rows * w->stride, CHUNK) + 1) * sizeof(cl_int) },
        { &w->totals, 2 * sizeof(cl_int) },
        { &w->pixels, (uint64_t)w->piece * w->nx * (w->task->pixels->bits / 8) },
    };
    tc_status st = TC_OK;

    w->room = (uint32_t)room_for(n);
    for (size_t i = 0; st == TC_OK && i < sizeof list / sizeof list[0]; i++)
        st = ocl_buffer_new(w->device, list[i].bytes, CL_MEM_READ_WRITE, "volume", list[i].buffer, err);
    w->rows = malloc(w->params->repair ? (size_t)w->piece * w->stride * sizeof(cl_uint) : 1);
    if (st == TC_OK && w->rows == NULL)
        st = tc_no_memory(err, "volume");
    return st;
}

/* The first launch of a stage takes a million voxels or so. */
static void make_slices(cl_worker *w)
{
    w->slices = w->slab_slices;
    for (int s = 0; s < STAGES; s++) {
        const uint64_t work = stage_work(w, (stage)s), n = voxels_of(w);
        const uint64_t most = s == MASK ? w->piece : s == READ ? ((uint64_t)1 << 24) / w->nx + 1 : work;

        ocl_pace_init(&w->slice[s], w->task->slice_ms,
                       kernel_names[s] == NULL || s == MASK ? most : work * ((uint64_t)1 << 20) / n + 1, most);
    }
    w->slices = 0;
}

static tc_status open_worker(const an_task *task, const void *state, bool blocks, void **worker, tc_err *err)
{
    cl_worker *const w = calloc(1, sizeof *w);
    tc_status st;

    *worker = w;
    if (w == NULL)
        return tc_no_memory(err, "volume");
    w->task = task;
    w->params = task->params;
    w->device = task->device;
    w->blocks = blocks;
    w->nx = task->item->nx;
    w->ny = task->item->ny;
    w->nz = task->item->nz;
    w->stride = up_to(w->nx, 32);
    /* An eighth of a byte of staging for each voxel, but a row at least. */
    w->piece = up_to((uint64_t)w->ny * w->nz, task->pixels->bits);
    if (w->piece > ((uint32_t)1 << 24) / w->nx + 1)
        w->piece = ((uint32_t)1 << 24) / w->nx + 1;
    st = vol_cpu.open(task, state, &w->host, err);
    if (st == TC_OK) {
        choose_slabs(w);
        w->host_only = w->slab_slices == 0;
    }
    if (st == TC_OK && !w->host_only)
        st = make_kernels(w, err);
    if (st == TC_OK && !w->host_only)
        st = make_buffers(w, err);
    if (st == TC_OK && !w->host_only)
        make_slices(w);
    if (st != TC_OK)
        cl_close(worker);
    return st;
}

static tc_status cl_open(const an_task *task, const void *state, void **worker, tc_err *err)
{
    return open_worker(task, state, true, worker, err);
}

static tc_status cl_open_plain(const an_task *task, const void *state, void **worker, tc_err *err)
{
    return open_worker(task, state, false, worker, err);
}

const an_backend ocl_volume = {
    .name = "opencl",
    .open = cl_open,
    .step = cl_step,
    .sync = an_always_synced,
    .close = cl_close
};

const an_backend vol_opencl_plain = {
    .name = "opencl, voxel by voxel",
    .open = cl_open_plain,
    .step = cl_step,
    .sync = an_always_synced,
    .close = cl_close
};
