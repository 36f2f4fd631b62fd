/*
 * levelset on an OpenCL device: buffers and launches. A step queues as many
 * units as take about slice_ms and then looks once at what was met; phi stays on
 * the device until sync.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/levelset/levelset.h"
#include "opencl/backends.h"
#include "opencl/program.h"

extern const ocl_source ocl_source_levelset;

/* As in the kernels. */
enum { CTL_MOST = 0, CTL_CHANGE = 2, CTL_BAD = 3, CTL_LISTED = 5, CTL_WORDS = 8, GROUP = 64 };
#define NOT_LISTED UINT32_MAX
/* Voxels of one launch, at most (or a slice): a slow device takes some 50 ms. */
#define LAUNCH_VOXELS ((size_t)1 << 24)

typedef enum kernel_id {
    K_STEP, K_APPLY, K_BAND_APPLY, K_LIST, K_EDT_BEGIN, K_EDT_X, K_EDT_LINES, KERNELS
} kernel_id;

static const char *const kernel_names[KERNELS] = {
    "levelset_step", "levelset_apply", "levelset_band_apply", "levelset_list",
    "levelset_edt_begin", "levelset_edt_x", "levelset_edt_lines"
};

/* What a kernel's argument was set to last; 0 bytes: not known. */
typedef struct set_arg {
    size_t bytes;
    unsigned char value[8];
} set_arg;
enum { MAX_ARGS = 24 };

typedef struct cl_worker {
    const an_task *task;
    const ls_params *p;
    ocl_device *device;
    ls_size size;
    ls_head head;
    ocl_kernel kernels[KERNELS];
    set_arg args[KERNELS][MAX_ARGS];
    size_t tile[3];             /* voxels that a group of a step does at once; it has [0] * [1] items */
    ocl_buffer field[3];        /* phi and two to work in; field[0] is phi */
    ocl_buffer data, stop, sides, ctl, near, list;
    cl_uint listed, other;      /* words of ctl: blocks in the list, in the next one */
    size_t band_groups;         /* that share the list of blocks */
    ocl_pace slice;
    ocl_batch batch;
    /* scalars as arguments want them */
    cl_uint nx, ny, nz, bx, by, bz, cfl, has_stop, stop_after;
    cl_float beta, dt, band;
} cl_worker;

/* --- launches --------------------------------------------------------------------- */

/* Most arguments are the same at every launch; to set them all again would take
 * longer than a small kernel does. */
static tc_status set_changed_args(cl_worker *w, kernel_id k, const ocl_arg *args, size_t n, tc_err *err)
{
    tc_status st = TC_OK;

    for (size_t i = 0; st == TC_OK && i < n; i++) {
        set_arg *const old = &w->args[k][i];

        if (args[i].value != NULL && old->bytes == args[i].bytes
            && memcmp(old->value, args[i].value, args[i].bytes) == 0)
            continue;
        st = ocl_set_arg(w->device, &w->kernels[k], i, &args[i], err);
        old->bytes = 0;
        if (st == TC_OK && args[i].value != NULL && args[i].bytes <= sizeof old->value) {
            memcpy(old->value, args[i].value, args[i].bytes);
            old->bytes = args[i].bytes;
        }
    }
    return st;
}

static tc_status launch(cl_worker *w, kernel_id k, const ocl_arg *args, size_t n, const size_t global[3],
                        const size_t local[3], tc_err *err)
{
    tc_status st = set_changed_args(w, k, args, n, err);

    if (st == TC_OK)
        st = ocl_launch(w->device, &w->kernels[k], 3, NULL, global, local, &w->batch, err);
    return st;
}
#define LAUNCH(w, k, args, global, local, err) launch(w, k, args, sizeof(args) / sizeof(args)[0], global, local, err)

static const size_t group_64[3] = { GROUP, 1, 1 };

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t quotient_up(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

static void swap(ocl_buffer *a, ocl_buffer *b)
{
    const ocl_buffer t = *a;

    *a = *b;
    *b = t;
}

/* U, or the next phi, in the tiles from `first` on: `groups` of them, or those of
 * the list. */
static tc_status step_tiles(cl_worker *w, cl_uint first, size_t groups, cl_uint listed, cl_uint move, cl_uint done,
                            tc_err *err)
{
    const cl_uint across = (cl_uint)quotient_up(w->nx, w->tile[0]), down = (cl_uint)quotient_up(w->ny, w->tile[1]);
    const size_t global[3] = { groups * w->tile[0], w->tile[1], 1 }, local[3] = { w->tile[0], w->tile[1], 1 };
    const ocl_arg args[] = {
        OCL_BUFFER(w->field[0]), OCL_BUFFER(w->data), OCL_BUFFER(w->stop), OCL_BUFFER(w->field[1]),
        OCL_BUFFER(w->ctl), OCL_BUFFER(w->list), OCL_ARG(w->nx), OCL_ARG(w->ny), OCL_ARG(w->nz), OCL_ARG(across),
        OCL_ARG(down), OCL_ARG(first), OCL_ARG(listed), OCL_ARG(w->beta), OCL_ARG(w->dt), OCL_ARG(w->has_stop),
        OCL_ARG(move), OCL_ARG(done), OCL_ARG(w->stop_after)
    };

    return LAUNCH(w, K_STEP, args, global, local, err);
}

static tc_status dense_step(cl_worker *w, cl_uint done, tc_err *err)
{
    const cl_uint move = !w->cfl;
    const size_t tiles = quotient_up(w->nx, w->tile[0]) * quotient_up(w->ny, w->tile[1])
                       * quotient_up(w->nz, w->tile[2]);
    const size_t each = LAUNCH_VOXELS / (w->tile[0] * w->tile[1] * w->tile[2]);
    tc_status st = TC_OK;

    for (size_t at = 0; st == TC_OK && at < tiles; at += each)
        st = step_tiles(w, (cl_uint)at, smaller(each, tiles - at), NOT_LISTED, move, done, err);
    if (move)
        swap(&w->field[0], &w->field[1]);
    return st;
}

static tc_status dense_apply(cl_worker *w, cl_uint done, tc_err *err)
{
    const size_t each = LAUNCH_VOXELS * 4;
    tc_status st = TC_OK;

    for (size_t at = 0; st == TC_OK && at < w->size.voxels; at += each) {
        const cl_ulong first = at, last = smaller(at + each, w->size.voxels);
        const size_t global[3] = { ocl_round_up((last - first + 3) / 4, GROUP), 1, 1 };
        const ocl_arg args[] = {
            OCL_BUFFER(w->field[0]), OCL_BUFFER(w->field[1]), OCL_BUFFER(w->ctl), OCL_ARG(first), OCL_ARG(last),
            OCL_ARG(w->cfl), OCL_ARG(w->dt), OCL_ARG(done), OCL_ARG(w->stop_after)
        };

        st = LAUNCH(w, K_APPLY, args, global, group_64, err);
    }
    return st;
}

/* --- narrow band --------------------------------------------------------------------- */

static tc_status list_blocks(cl_worker *w, tc_err *err)
{
    const cl_uint listed = w->other;
    const size_t global[3] = { ocl_round_up(w->size.blocks, GROUP), 1, 1 };
    const ocl_arg args[] = { OCL_BUFFER(w->near), OCL_BUFFER(w->list), OCL_BUFFER(w->ctl), OCL_ARG(w->bx),
                             OCL_ARG(w->by), OCL_ARG(w->bz), OCL_ARG(listed) };

    w->other = w->listed;
    w->listed = listed;
    return LAUNCH(w, K_LIST, args, global, group_64, err);
}

/* Moves phi in the listed blocks, and with `renew` makes the list anew; with `all`
 * nothing moves, and all blocks are looked at. */
static tc_status band_apply(cl_worker *w, cl_uint all, cl_uint renew, cl_uint done, tc_err *err)
{
    const size_t global[3] = { smaller(w->size.blocks, w->band_groups) * LS_BX, LS_BY, 1 };
    const size_t local[3] = { LS_BX, LS_BY, 1 };
    const ocl_arg args[] = {
        OCL_BUFFER(w->field[0]), OCL_BUFFER(w->field[1]), OCL_BUFFER(w->ctl), OCL_BUFFER(w->list),
        OCL_BUFFER(w->near), OCL_ARG(w->nx), OCL_ARG(w->ny), OCL_ARG(w->nz), OCL_ARG(w->bx), OCL_ARG(w->by),
        OCL_ARG(w->bz), OCL_ARG(w->listed), OCL_ARG(w->other), OCL_ARG(all), OCL_ARG(w->cfl), OCL_ARG(w->dt),
        OCL_ARG(w->band), OCL_ARG(renew), OCL_ARG(done), OCL_ARG(w->stop_after)
    };
    const tc_status st = LAUNCH(w, K_BAND_APPLY, args, global, local, err);

    return st == TC_OK && renew ? list_blocks(w, err) : st;
}

static tc_status band_iteration(cl_worker *w, cl_uint done, tc_err *err)
{
    const size_t groups = smaller(w->size.blocks, w->band_groups);
    const tc_status st = step_tiles(w, 0, groups, w->listed, 0, done, err);

    return st == TC_OK ? band_apply(w, 0, (done + 1) % LS_REFLAG == 0, done, err) : st;
}

/* --- re-initialisation ------------------------------------------------------------------- */

static tc_status edt_rows(cl_worker *w, tc_err *err)
{
    const size_t rows = (size_t)w->ny * w->nz, each = LAUNCH_VOXELS / w->nx + 1, one[3] = { 1, 1, 1 };
    const ocl_arg begin[] = { OCL_BUFFER(w->ctl) };
    tc_status st = LAUNCH(w, K_EDT_BEGIN, begin, one, one, err);

    for (size_t at = 0; st == TC_OK && at < rows; at += each) {
        const cl_ulong first = at;
        const size_t global[3] = { smaller(each, rows - at) * GROUP, 1, 1 };
        const ocl_arg args[] = { OCL_BUFFER(w->field[0]), OCL_BUFFER(w->field[1]), OCL_BUFFER(w->sides),
                                 OCL_BUFFER(w->ctl), OCL_ARG(w->nx), OCL_ARG(first),
                                 OCL_LOCAL(((size_t)w->nx + 31) / 32 * 4) };

        st = LAUNCH(w, K_EDT_X, args, global, group_64, err);
    }
    return st;
}

/* The pass along y (axis 1) or z (2) over distances in *d; the last one makes phi
 * of them. field[2] is its scratch memory. */
static tc_status edt_lines(cl_worker *w, cl_uint axis, const ocl_buffer *d, const ocl_buffer *out, cl_uint last,
                           cl_uint done, tc_err *err)
{
    const size_t others = axis == 1 ? w->nz : w->ny, n = axis == 1 ? w->ny : w->nz;
    const size_t each = LAUNCH_VOXELS / ((size_t)w->nx * n) + 1;
    tc_status st = TC_OK;

    for (size_t at = 0; st == TC_OK && at < others; at += each) {
        const cl_uint first = (cl_uint)at;
        const size_t global[3] = { ocl_round_up(w->nx, GROUP), smaller(each, others - at), 1 };
        const ocl_arg args[] = {
            OCL_BUFFER(*d), OCL_BUFFER(w->sides), OCL_BUFFER(w->field[2]), OCL_BUFFER(w->field[0]),
            OCL_BUFFER(*out), OCL_BUFFER(w->ctl), OCL_ARG(w->nx), OCL_ARG(w->ny), OCL_ARG(w->nz),
            OCL_ARG(first), OCL_ARG(axis), OCL_ARG(last), OCL_ARG(done), OCL_ARG(w->stop_after)
        };

        st = LAUNCH(w, K_EDT_LINES, args, global, group_64, err);
    }
    return st;
}

/* The sides are kept apart, so phi's own memory can take distances in between. */
static tc_status reinit(cl_worker *w, cl_uint done, tc_err *err)
{
    const bool deep = w->nz > 1;
    tc_status st = edt_rows(w, err);

    if (st == TC_OK)
        st = edt_lines(w, 1, &w->field[1], &w->field[0], !deep, done, err);
    if (st == TC_OK && deep) {
        st = edt_lines(w, 2, &w->field[0], &w->field[1], 1, done, err);
        swap(&w->field[0], &w->field[1]);
    }
    if (st == TC_OK && w->p->band > 0)
        st = band_apply(w, 1, 1, done, err);
    return st;
}

static tc_status queue_unit(cl_worker *w, uint64_t unit, tc_err *err)
{
    const cl_uint done = (cl_uint)ls_iterations_at(w->p, unit);
    tc_status st;

    if (ls_is_reinit(w->p, unit))
        return reinit(w, done, err);
    if (w->p->band > 0)
        return band_iteration(w, done, err);
    st = dense_step(w, done, err);
    if (st == TC_OK && w->cfl)
        st = dense_apply(w, done, err);
    return st;
}

/* --- the backend ------------------------------------------------------------------------- */

static void cl_close(void **worker)
{
    cl_worker *const w = *worker;

    *worker = NULL;
    if (w == NULL)
        return;
    ocl_batch_drop(w->device, &w->batch);
    for (int i = 0; i < KERNELS; i++)
        ocl_kernel_free(w->device, &w->kernels[i]);
    for (int i = 0; i < 3; i++)
        ocl_buffer_free(w->device, &w->field[i]);
    ocl_buffer_free(w->device, &w->data);
    ocl_buffer_free(w->device, &w->stop);
    ocl_buffer_free(w->device, &w->sides);
    ocl_buffer_free(w->device, &w->ctl);
    ocl_buffer_free(w->device, &w->near);
    ocl_buffer_free(w->device, &w->list);
    free(w);
}

/* A group's tile: a block of the band; without one wide along x, as memory is
 * read, where the device has groups and local memory (17 KiB) for that. */
static void choose_tile(cl_worker *w)
{
    const ocl_info *const info = &w->device->info;
    const bool wide = w->p->band == 0 && info->max_group >= 256 && info->local_bytes >= 32768;

    w->tile[0] = wide ? 32 : LS_BX;
    w->tile[1] = LS_BY;
    w->tile[2] = w->nz > 1 ? LS_BZ : 1;
}

static tc_status make_kernels(cl_worker *w, tc_err *err)
{
    char defines[64];
    cl_program program = NULL;
    tc_status st;

    choose_tile(w);
    snprintf(defines, sizeof defines, "-DTILE_X=%zu -DTILE_Y=%zu -DTILE_Z=%zu", w->tile[0], w->tile[1],
             w->tile[2]);
    st = ocl_program_build(w->device, &ocl_source_levelset, defines, true, &program, err);
    for (int i = 0; st == TC_OK && i < KERNELS; i++)
        st = ocl_kernel_new(w->device, program, kernel_names[i], &w->kernels[i], err);
    ocl_program_free(w->device, &program);
    return st;
}

static tc_status make_field(cl_worker *w, size_t bytes, const char *what, ocl_buffer *b, tc_err *err)
{
    return ocl_buffer_new(w->device, bytes, CL_MEM_READ_WRITE, what, b, err);
}

static tc_status make_buffers(cl_worker *w, tc_err *err)
{
    const size_t field = w->size.voxels * sizeof(float);
    const size_t blocks = w->p->band > 0 ? w->size.blocks : 1;
    tc_status st = TC_OK;

    for (int i = 0; st == TC_OK && i < 3; i++)
        st = make_field(w, field, "phi", &w->field[i], err);
    if (st == TC_OK)
        st = make_field(w, field, "the data term", &w->data, err);
    if (st == TC_OK)
        st = make_field(w, w->has_stop ? field : sizeof(float), "the edges", &w->stop, err);
    if (st == TC_OK)
        st = make_field(w, w->size.voxels, "the sides", &w->sides, err);
    if (st == TC_OK)
        st = make_field(w, CTL_WORDS * sizeof(cl_uint), "control", &w->ctl, err);
    if (st == TC_OK)
        st = make_field(w, blocks, "the blocks", &w->near, err);
    if (st == TC_OK)
        st = make_field(w, blocks * sizeof(cl_uint), "the list of blocks", &w->list, err);
    return st;
}

static tc_status write_all(cl_worker *w, const void *state, tc_err *err)
{
    const size_t field = w->size.voxels * sizeof(float);
    cl_uint ctl[CTL_WORDS] = { 0 };
    ls_force force = { NULL, NULL };
    tc_status st = ls_force_make(w->task, NULL, &force, err);

    ctl[CTL_CHANGE] = (cl_uint)w->head.last_change;
    ctl[CTL_BAD] = UINT32_MAX;
    if (st == TC_OK)
        st = ocl_write(w->device, &w->field[0], 0, ls_phi_const(state), field, err);
    if (st == TC_OK)
        st = ocl_write(w->device, &w->data, 0, force.data, field, err);
    if (st == TC_OK && w->has_stop)
        st = ocl_write(w->device, &w->stop, 0, force.stop, field, err);
    if (st == TC_OK)
        st = ocl_write(w->device, &w->ctl, 0, ctl, sizeof ctl, err);
    ls_force_free(&force);
    if (st == TC_OK && w->p->band > 0) {
        st = ocl_write(w->device, &w->near, 0,
                       (const unsigned char *)state + LS_PHI_AT + field + LS_PAD_BYTES, w->size.blocks, err);
        if (st == TC_OK)
            st = list_blocks(w, err);
    }
    return st;
}

static tc_status cl_open(const an_task *task, const void *state, void **worker, tc_err *err)
{
    cl_worker *const w = calloc(1, sizeof *w);
    tc_status st;

    *worker = w;
    if (w == NULL)
        return tc_no_memory(err, "levelset");
    w->task = task;
    w->p = task->params;
    w->device = task->device;
    w->size = ls_size_of(task->item);
    memcpy(&w->head, state, sizeof w->head);
    w->nx = w->size.nx;
    w->ny = w->size.ny;
    w->nz = w->size.nz;
    w->bx = w->size.bx;
    w->by = w->size.by;
    w->bz = w->size.bz;
    w->cfl = w->p->cfl;
    w->dt = (float)w->p->dt;
    w->beta = 1.0f - (float)w->p->alpha;
    w->band = (float)w->p->band;
    w->has_stop = w->p->edge_stop > 0;
    w->stop_after = (cl_uint)w->p->stop_after;
    w->listed = CTL_LISTED;
    w->other = CTL_LISTED + 1;
    w->band_groups = 16 * (size_t)(w->device->info.compute_units > 0 ? w->device->info.compute_units : 1);
    ocl_pace_init(&w->slice, task->slice_ms, 1, 1 << 16);
    st = make_kernels(w, err);
    if (st == TC_OK)
        st = make_buffers(w, err);
    if (st == TC_OK)
        st = write_all(w, state, err);
    if (st != TC_OK)
        cl_close(worker);
    return st;
}

/* What the batch up to `units` units met: the position it really reached. */
static tc_status look(cl_worker *w, uint64_t units, tc_err *err)
{
    cl_uint ctl[CTL_WORDS];
    const tc_status st = ocl_read(w->device, &w->ctl, 0, ctl, sizeof ctl, err);

    if (st != TC_OK)
        return st;
    if (ctl[CTL_BAD] != UINT32_MAX)
        return ls_not_finite(ctl[CTL_BAD], err);
    w->head.last_change = ctl[CTL_CHANGE];
    w->head.head.units_done = units;
    if (ls_has_converged(w->p, &w->head))
        w->head.head.units_done = ls_units_after(w->p, w->head.last_change + (uint64_t)w->p->stop_after);
    return TC_OK;
}

static tc_status cl_step(void *worker, void *state, uint64_t *units_done, tc_err *err)
{
    cl_worker *const w = worker;
    const uint64_t done = w->head.head.units_done;
    const uint64_t n = ocl_pace_next(&w->slice, w->task->plan.units - done);
    tc_status st = TC_OK;
    double ms = 0;

    (void)state;
    if (ls_has_ended(w->p, &w->head)) {
        *units_done = w->task->plan.units;
        return TC_OK;
    }
    for (uint64_t i = 0; st == TC_OK && i < n; i++)
        st = queue_unit(w, done + i, err);
    if (st == TC_OK)
        st = ocl_batch_wait(w->device, &w->batch, w->slice.last_ms, &ms, err);
    else
        ocl_batch_drop(w->device, &w->batch);
    if (st == TC_OK)
        st = look(w, done + n, err);
    if (st != TC_OK)
        return st;
    ocl_pace_took(&w->slice, n, ms);
    *units_done = w->head.head.units_done;
    return TC_MORE;
}

static tc_status cl_sync(void *worker, void *state, tc_err *err)
{
    cl_worker *const w = worker;
    const size_t field = w->size.voxels * sizeof(float);
    void *const copy = malloc(field + w->size.blocks);
    tc_status st;

    if (copy == NULL)
        return tc_no_memory(err, "levelset");
    st = ocl_read(w->device, &w->field[0], 0, copy, field, err);
    if (st == TC_OK && w->p->band > 0)
        st = ocl_read(w->device, &w->near, 0, (unsigned char *)copy + field, w->size.blocks, err);
    if (st == TC_OK) {
        memcpy(ls_phi(state), copy, field);
        if (w->p->band > 0)
            memcpy(ls_near(state, &w->size), (unsigned char *)copy + field, w->size.blocks);
        memcpy(state, &w->head, sizeof w->head);
    }
    free(copy);
    return st;
}

const an_backend ocl_levelset = {
    .name = "opencl",
    .open = cl_open,
    .step = cl_step,
    .sync = cl_sync,
    .close = cl_close
};
