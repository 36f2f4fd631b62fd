/*
 * The OpenCL backend of levelset: buffers, and launches of the kernels of levelset.cl. A chunk is
 * an iteration or a re-initialisation. A step queues a batch of chunks that takes about launch_ms,
 * and then reads the control words (`ctl`) from the device once; phi stays on the device until
 * sync.
 *
 * An iteration first computes U, the change of phi per unit of time, and then adds dt U to phi,
 * where dt is the time step. With a narrow band (the parameter `band`), it does so only in the
 * active blocks: small boxes of voxels near the zero level of phi, whose numbers are in a list.
 */
#include <string.h>

#include "app/analysis/levelset/layout.h"
#include "app/analysis/levelset/levelset.h"
#include "app/base/numbers.h"
#include "opencl/backends.h"
#include "opencl/worker.h"

extern const ocl_source ocl_source_levelset;

/* Size along z, in voxels, of a wide tile (choose_tile): the largest that levelset.cl allows for a
 * work-group of 32 * 8 work-items. */
#define WIDE_TILE_DEPTH 6

/* Voxels of a kernel's first launch, before the device's speed is known. */
#define FIRST_VOXELS ((uint64_t)1 << 12)

enum { K_STEP, K_APPLY, K_BAND_APPLY, K_LIST, K_EDT_BEGIN, K_EDT_X, K_EDT_LINES, KERNELS };
static const char *const kernel_names[KERNELS] = { "levelset_step",       "levelset_apply",
                                                   "levelset_band_apply", "levelset_list",
                                                   "levelset_edt_begin",  "levelset_edt_x",
                                                   "levelset_edt_lines" };

/* The device's buffers. */
enum {
    B_PHI,
    B_SPARE,     /* U, the next phi or squared distances; swap_phi exchanges it with B_PHI */
    B_PARABOLAS, /* parabolas of the distance transform */
    B_DATA,      /* the data term */
    B_STOP,      /* the factor by which edges slow the motion; unused without has_stop */
    B_SIDES,     /* the side of each voxel: 1 inside, 0 outside */
    B_CTL,       /* the control words (layout.h) */
    B_NEAR,      /* bits of each block: where it is near the zero level (LS_NEAR_...) */
    B_LIST,      /* the active blocks of the narrow band */
    B_HISTORY    /* a word for each voxel: its sides at earlier times (ls_history_bit) */
};

typedef struct cl_worker {
    ocl_worker ocl;
    const ls_params *p;
    ls_size size;
    ls_head head;
    /* Voxels of a tile, which a work-group of tile[0] * tile[1] work-items computes at a time. */
    size_t tile[3];
    cl_uint list_word;        /* index of the word of ctl that counts the blocks of the list */
    cl_uint next_list_word;   /* index of the word of ctl for the next list */
    cl_uint history_bit;      /* the bit of the words in B_HISTORY that the current chunk sets;
                                 LS_HISTORY_BITS if it sets none */
    size_t band_groups;       /* work-groups among which the blocks of the list are divided */
    size_t n_listed;          /* blocks in the list when the host last read ctl */
    ocl_pace pace;            /* the number of chunks of a batch, unless wait_each */
    ocl_pace voxels[KERNELS]; /* the number of voxels of a launch, for each kernel */
    bool long_chunk;          /* the launches of one chunk together took longer than launch_ms */
    bool wait_each;           /* a step processes one chunk, and waits after each launch */
    /* Parameters, in the types of the kernels' arguments. */
    cl_uint cfl;        /* the time step depends on the largest |U|, so U is computed for all voxels
                           before any moves */
    cl_uint has_stop;   /* edges slow the motion (B_STOP) */
    cl_uint stop_after; /* the evolution ends after this many iterations without change; 0: never */
    cl_float beta;      /* 1 - alpha, the weight of the curvature */
    cl_float dt;        /* the time step; with cfl, its upper bound */
    cl_float band;      /* half width of the narrow band, in voxels; 0: no band */
} cl_worker;

/* --- launches -------------------------------------------------------------------------------- */

/* Returns the number of voxels of the kernel's next launch: all voxels, or as many as the pace
 * allows.
 */
static size_t launch_voxels(const cl_worker *w, int kernel)
{
    return (size_t)ocl_pace_next(&w->voxels[kernel], w->size.voxels);
}

/* Called after a launch that processes n voxels. If these are not all voxels, or w->wait_each is
 * set, waits for the launch and calls work->poll. */
static tc_status end_launch(cl_worker *w, int kernel, size_t n, tc_err *err)
{
    if (n >= w->size.voxels && !w->wait_each)
        return TC_OK;
    return_if_error(ocl_end_launch(&w->ocl, TC_OK, &w->voxels[kernel], n, err));
    return ocl_poll_in_step(&w->ocl, err);
}

/* Makes the field in B_SPARE the current phi. */
static void swap_phi(cl_worker *w)
{
    const ocl_buffer phi = w->ocl.buffer[B_PHI];

    w->ocl.buffer[B_PHI] = w->ocl.buffer[B_SPARE];
    w->ocl.buffer[B_SPARE] = phi;
}

/* Kernel arguments: the size of the picture in voxels (SIZES) and in blocks (BLOCKS). */
#define SIZES(w) OCL_UINT((w)->size.nx), OCL_UINT((w)->size.ny), OCL_UINT((w)->size.nz)
#define BLOCKS(w) OCL_UINT((w)->size.bx), OCL_UINT((w)->size.by), OCL_UINT((w)->size.bz)

/* Queues levelset_step, which computes U or, if `move` is 1, the next phi, and writes it to
 * B_SPARE. If list_word is LS_NOT_LISTED, the launch processes `groups` tiles from number `first`
 * on. Otherwise it processes the tiles in entries [first, end) of the list, divided among `groups`
 * work-groups, and word list_word of ctl contains the length of the list. done: the number of
 * iterations before this one. */
static tc_status step_tiles(cl_worker *w, size_t first, size_t end, size_t groups,
                            cl_uint list_word, cl_uint move, cl_uint done, tc_err *err)
{
    const size_t across = tc_div_ceil(w->size.nx, w->tile[0]),
                 down = tc_div_ceil(w->size.ny, w->tile[1]);
    const ocl_grid grid = { { groups * w->tile[0], w->tile[1], 1 },
                            { w->tile[0], w->tile[1], 1 },
                            { 0 } };

    return OCL_QUEUE(
        w, K_STEP, grid, err, OCL_BUFFER_ARG(w, B_PHI), OCL_BUFFER_ARG(w, B_DATA),
        OCL_BUFFER_ARG(w, B_STOP), OCL_BUFFER_ARG(w, B_SPARE), OCL_BUFFER_ARG(w, B_CTL),
        OCL_BUFFER_ARG(w, B_LIST), SIZES(w), OCL_UINT(across), OCL_UINT(down), OCL_UINT(first),
        OCL_UINT(end), OCL_UINT(list_word), OCL_FLOAT(w->beta), OCL_FLOAT(w->dt),
        OCL_UINT(w->has_stop), OCL_UINT(move), OCL_UINT(done), OCL_UINT(w->stop_after));
}

/* Queues the first part of an iteration without a band: computes the next phi or, with w->cfl, U.
 */
static tc_status dense_step(cl_worker *w, cl_uint done, tc_err *err)
{
    const size_t tiles = tc_div_ceil(w->size.nx, w->tile[0]) * tc_div_ceil(w->size.ny, w->tile[1]) *
                         tc_div_ceil(w->size.nz, w->tile[2]);
    const size_t tile = w->tile[0] * w->tile[1] * w->tile[2];

    for (size_t at = 0, n; at < tiles; at += n) {
        const size_t most = launch_voxels(w, K_STEP);

        n = most == w->size.voxels ? tiles : tc_smaller(most / tile + 1, tiles - at);
        return_if_error(step_tiles(w, at, at + n, n, LS_NOT_LISTED, /* move */ !w->cfl, done, err));
        return_if_error(end_launch(w, K_STEP, n < tiles ? n * tile : w->size.voxels, err));
    }
    if (!w->cfl)
        swap_phi(w);
    return TC_OK;
}

/* Queues the second part of an iteration without a band, which is needed only with w->cfl: adds
 * dt U to phi. A work-item processes 4 voxels. */
static tc_status dense_apply(cl_worker *w, cl_uint done, tc_err *err)
{
    for (size_t at = 0, last; at < w->size.voxels; at = last) {
        last = at + tc_smaller(launch_voxels(w, K_APPLY), w->size.voxels - at);

        return_if_error(OCL_QUEUE(w, K_APPLY, ocl_grid_of(LS_GROUP, (last - at + 3) / 4, 1, 1), err,
                                  OCL_BUFFER_ARG(w, B_PHI), OCL_BUFFER_ARG(w, B_SPARE),
                                  OCL_BUFFER_ARG(w, B_CTL), OCL_LONG(at), OCL_LONG(last),
                                  OCL_UINT(w->cfl), OCL_FLOAT(w->dt), OCL_UINT(done),
                                  OCL_UINT(w->stop_after)));
        return_if_error(end_launch(w, K_APPLY, last - at, err));
    }
    return TC_OK;
}

/* --- narrow band ----------------------------------------------------------------------------- */

/* Queues the kernel that rebuilds the list of active blocks from the bits in B_NEAR. The two words
 * of ctl that hold the length of the current and of the next list are exchanged. */
static tc_status list_blocks(cl_worker *w, tc_err *err)
{
    const cl_uint list_word = w->next_list_word;

    w->next_list_word = w->list_word;
    w->list_word = list_word;
    return OCL_QUEUE(w, K_LIST, ocl_grid_of(LS_GROUP, w->size.blocks, 1, 1), err,
                     OCL_BUFFER_ARG(w, B_NEAR), OCL_BUFFER_ARG(w, B_LIST), OCL_BUFFER_ARG(w, B_CTL),
                     BLOCKS(w), OCL_UINT(list_word));
}

/* The number of voxels of a block. */
static size_t block_voxels(const cl_worker *w)
{
    return (size_t)LS_BX * LS_BY * (w->size.nz > 1 ? LS_BZ : 1);
}

/* Returns the end, as an index in the list of blocks, of a launch that begins with entry `at`. The
 * list had n entries when the host last read its length, and may have grown since. So the last
 * launch ends at the greatest possible length, the number of all blocks; the kernel stops at the
 * end of the list. */
static size_t launch_end(const cl_worker *w, int kernel, size_t at, size_t n)
{
    const size_t paced = launch_voxels(w, kernel) / block_voxels(w) + 1;

    return at + paced < n ? at + paced : w->size.blocks;
}

/* Calls end_launch after a launch of entries [at, end) of a list of n blocks. */
static tc_status end_blocks(cl_worker *w, int kernel, size_t at, size_t end, size_t n, tc_err *err)
{
    if (at == 0 && end == w->size.blocks && !w->wait_each) /* the whole list in one launch */
        return TC_OK;
    return end_launch(w, kernel, (tc_smaller(end, n) - at) * block_voxels(w), err);
}

/* If `all` is 0, queues the second part of an iteration in the narrow band: adds dt U to phi in the
 * listed blocks. If it is 1, leaves phi unchanged, and only determines for each block whether it is
 * near the zero level (B_NEAR). renew: whether B_NEAR is updated and the list is rebuilt. */
static tc_status band_apply(cl_worker *w, cl_uint all, cl_uint renew, cl_uint done, tc_err *err)
{
    const size_t n = all ? w->size.blocks : w->n_listed;
    const ocl_grid grid = { { tc_smaller(w->size.blocks, w->band_groups) * LS_BX, LS_BY, 1 },
                            { LS_BX, LS_BY, 1 },
                            { 0 } };

    for (size_t at = 0, end = 0; end < w->size.blocks; at = end) {
        end = launch_end(w, K_BAND_APPLY, at, n);
        return_if_error(OCL_QUEUE(
            w, K_BAND_APPLY, grid, err, OCL_BUFFER_ARG(w, B_PHI), OCL_BUFFER_ARG(w, B_SPARE),
            OCL_BUFFER_ARG(w, B_CTL), OCL_BUFFER_ARG(w, B_LIST), OCL_BUFFER_ARG(w, B_NEAR),
            SIZES(w), BLOCKS(w), OCL_UINT(at), OCL_UINT(end), OCL_UINT(w->list_word),
            OCL_UINT(w->next_list_word), OCL_UINT(all), OCL_UINT(w->cfl), OCL_FLOAT(w->dt),
            OCL_FLOAT(w->band), OCL_UINT(renew), OCL_UINT(done), OCL_UINT(w->stop_after)));
        return_if_error(end_blocks(w, K_BAND_APPLY, at, end, n, err));
    }
    return renew ? list_blocks(w, err) : TC_OK;
}

/* Queues an iteration in the narrow band. The list is rebuilt after every LS_RELIST_EVERY
 * iterations. */
static tc_status band_iteration(cl_worker *w, cl_uint done, tc_err *err)
{
    for (size_t at = 0, end = 0; end < w->size.blocks; at = end) {
        end = launch_end(w, K_STEP, at, w->n_listed);
        return_if_error(step_tiles(w, at, end, tc_smaller(end - at, w->band_groups), w->list_word,
                                   /* move */ 0, done, err));
        return_if_error(end_blocks(w, K_STEP, at, end, w->n_listed, err));
    }
    return band_apply(w, /* all */ 0, (done + 1) % LS_RELIST_EVERY == 0, done, err);
}

/* --- re-initialisation ----------------------------------------------------------------------- */

/* Queues the pass of the distance transform along x, from phi in B_PHI to squared distances in
 * B_SPARE. */
static tc_status edt_rows(cl_worker *w, tc_err *err)
{
    const size_t rows = (size_t)w->size.ny * w->size.nz;
    return_if_error(
        OCL_QUEUE(w, K_EDT_BEGIN, ocl_grid_of(1, 1, 1, 1), err, OCL_BUFFER_ARG(w, B_CTL)));

    for (size_t at = 0, n; at < rows; at += n) {
        n = tc_smaller(tc_div_ceil(launch_voxels(w, K_EDT_X), w->size.nx), rows - at);
        return_if_error(OCL_QUEUE(
            w, K_EDT_X, ocl_grid_of(LS_GROUP, n * LS_GROUP, 1, 1), err, OCL_BUFFER_ARG(w, B_PHI),
            OCL_BUFFER_ARG(w, B_SPARE), OCL_BUFFER_ARG(w, B_SIDES), OCL_BUFFER_ARG(w, B_CTL),
            OCL_UINT(w->size.nx), OCL_LONG(at), OCL_LOCAL(tc_div_ceil(w->size.nx, 32) * 4)));
        return_if_error(end_launch(w, K_EDT_X, n * w->size.nx, err));
    }
    return TC_OK;
}

/* Queues the pass of the distance transform along y (axis 1) or z (axis 2), from the squared
 * distances in buffer `from` to those in buffer `to`; if it is the last pass (last), `to` receives
 * the new phi instead. The pass processes lines of voxels along the axis. A plane consists of the
 * nx lines that differ only in x. A launch processes one or more planes, or some lines of one
 * plane. */
static tc_status edt_lines(cl_worker *w, cl_uint axis, int from, int to, cl_uint last, cl_uint done,
                           tc_err *err)
{
    const size_t planes = axis == 1 ? w->size.nz : w->size.ny,
                 length = axis == 1 ? w->size.ny : w->size.nz; /* voxels of a line */
    const size_t plane_voxels = (size_t)w->size.nx * length;

    /* The next launch begins with line x of plane `at`. */
    for (size_t at = 0, x = 0; at < planes;) {
        const size_t most = launch_voxels(w, K_EDT_LINES);
        const size_t n_planes =
            x == 0 ? tc_smaller(most < plane_voxels ? 1 : most / plane_voxels, planes - at) : 1;
        const size_t n_lines = /* in each of these planes */
            most < plane_voxels
                ? tc_smaller(ocl_round_up(most / length + 1, LS_GROUP), w->size.nx - x)
                : w->size.nx - x;
        ocl_grid grid = ocl_grid_of(LS_GROUP, n_lines, n_planes, 1);

        grid.start[0] = x;
        return_if_error(OCL_QUEUE(
            w, K_EDT_LINES, grid, err, OCL_BUFFER_ARG(w, from), OCL_BUFFER_ARG(w, B_SIDES),
            OCL_BUFFER_ARG(w, B_PARABOLAS), OCL_BUFFER_ARG(w, B_PHI), OCL_BUFFER_ARG(w, to),
            OCL_BUFFER_ARG(w, B_CTL), OCL_BUFFER_ARG(w, B_HISTORY),
            OCL_UINT(last ? w->history_bit : LS_HISTORY_BITS), SIZES(w), OCL_UINT(at),
            OCL_UINT(axis), OCL_UINT(last), OCL_UINT(done), OCL_UINT(w->stop_after)));
        x += n_lines;
        at += x == w->size.nx ? n_planes : 0;
        x = x == w->size.nx ? 0 : x;
        return_if_error(end_launch(w, K_EDT_LINES, n_lines * n_planes * length, err));
    }
    return TC_OK;
}

/* Queues the launches that replace phi by the signed distance to its zero level. The first pass
 * writes the voxels' sides to B_SIDES, so later passes can overwrite phi with squared distances. */
static tc_status reinit_phi(cl_worker *w, cl_uint done, tc_err *err)
{
    const bool is_3d = w->size.nz > 1;

    return_if_error(edt_rows(w, err));
    return_if_error(edt_lines(w, 1, B_SPARE, B_PHI, !is_3d, done, err));
    if (is_3d) {
        return_if_error(edt_lines(w, 2, B_PHI, B_SPARE, 1, done, err));
        swap_phi(w);
    }
    return w->p->band > 0 ? band_apply(w, /* all */ 1, /* renew */ 1, done, err) : TC_OK;
}

/* Queues the launches of a chunk: an iteration or a re-initialisation. */
static tc_status queue_chunk(cl_worker *w, uint64_t chunk, tc_err *err)
{
    const cl_uint done = (cl_uint)ls_iterations_at(w->p, chunk); /* iterations before this chunk */

    w->history_bit = ls_history_bit(w->p, chunk);
    if (ls_is_reinit(w->p, chunk))
        return reinit_phi(w, done, err);
    if (w->p->band > 0)
        return band_iteration(w, done, err);
    return_if_error(dense_step(w, done, err));
    return w->cfl ? dense_apply(w, done, err) : TC_OK;
}

/* --- the backend ----------------------------------------------------------------------------- */

/* Sets the size of a tile. With a narrow band, a tile is a block. Otherwise it is wider along x, so
 * that memory is read contiguously, and deeper along z, if the device has enough work-items in a
 * work-group and enough local memory (24 KiB are used). */
static void choose_tile(cl_worker *w)
{
    const ocl_info *const info = &w->ocl.device->info;
    const bool wide = w->p->band == 0 && info->max_group >= 256 && info->local_bytes >= 32768;

    w->tile[0] = wide ? 32 : LS_BX;
    w->tile[1] = LS_BY;
    w->tile[2] = w->size.nz == 1 ? 1 : wide ? WIDE_TILE_DEPTH : LS_BZ;
}

static tc_status make_buffers(cl_worker *w, const void *state, const ls_force *force, tc_err *err)
{
    const size_t field = w->size.voxels * sizeof(float),
                 blocks = w->p->band > 0 ? w->size.blocks : 0,
                 history = ls_history_every(w->p) > 0 ? w->size.voxels * sizeof(cl_uint) : 0;
    const cl_uint ctl[LS_CTL_WORDS] = {
        [LS_CTL_CHANGE] = (cl_uint)w->head.last_change, [LS_CTL_BAD] = LS_NEVER
    };
    const ocl_buffer_need needs[] = {
        { B_PHI, field, "phi", ls_phi_const(state) },
        { B_SPARE, field, "phi", NULL },
        { B_PARABOLAS, field, "phi", NULL },
        { B_DATA, field, "the data term", force->data },
        { B_STOP, w->has_stop ? field : sizeof(float), "the edges", force->stop },
        { B_SIDES, w->size.voxels, "the sides", NULL },
        { B_CTL, sizeof ctl, "control", ctl },
        { B_NEAR, blocks > 0 ? blocks : 1, "the blocks",
          blocks > 0 ? ls_near_const(state, &w->size) : NULL },
        { B_LIST, (blocks > 0 ? blocks : 1) * sizeof(cl_uint), "the list of blocks", NULL },
        { B_HISTORY, history > 0 ? history : sizeof(cl_uint), "the sides that are kept",
          history > 0 ? (const unsigned char *)state + ls_history_at(&w->size) : NULL }
    };

    return ocl_make_buffers(&w->ocl, needs, sizeof needs / sizeof needs[0], err);
}

static tc_status open_worker(void *worker, const void *state, tc_err *err)
{
    cl_worker *const w = worker;
    const an_work *const work = w->ocl.work;
    const cl_uint units = w->ocl.device->info.compute_units;
    TC_AUTO(ls_force_free) ls_force force = { NULL, NULL };

    w->p = work->params;
    w->size = ls_size_of(work->item);
    memcpy(&w->head, state, sizeof w->head);
    w->cfl = w->p->cfl;
    w->dt = w->cfl ? ls_max_time_step(w->p, &w->size) : (float)w->p->dt;
    w->beta = 1.0f - (float)w->p->alpha;
    w->band = (float)w->p->band;
    w->has_stop = w->p->edge_stop > 0;
    w->stop_after = (cl_uint)w->p->stop_after;
    w->list_word = LS_CTL_LISTED;
    w->next_list_word = LS_CTL_LISTED + 1;
    w->n_listed = w->size.blocks;
    w->band_groups = 16 * (size_t)(units > 0 ? units : 1);
    ocl_pace_begin(&w->ocl, &w->pace, (double)FIRST_VOXELS / (double)w->size.voxels, 1 << 16);
    for (int i = 0; i < KERNELS; i++)
        ocl_pace_begin(&w->ocl, &w->voxels[i], FIRST_VOXELS, w->size.voxels);
    choose_tile(w);
    return_if_error(ocl_build_kernels(&w->ocl, &ocl_source_levelset, true, kernel_names, KERNELS,
                                      err, "-DTILE_X=%zu -DTILE_Y=%zu -DTILE_Z=%zu", w->tile[0],
                                      w->tile[1], w->tile[2]));
    return_if_error(ls_force_make(work, &force, err));
    return_if_error(make_buffers(w, state, &force, err));
    return w->p->band > 0 ? list_blocks(w, err) : TC_OK;
}

/* Called after a batch that completes the first `chunks` chunks of the item: reads ctl, and sets
 * the number of chunks done, which is less than `chunks` if the evolution converged within the
 * batch. */
static tc_status read_control(cl_worker *w, uint64_t chunks, tc_err *err)
{
    cl_uint ctl[LS_CTL_WORDS];

    return_if_error(ocl_download(&w->ocl, B_CTL, 0, ctl, sizeof ctl, err));
    if (ctl[LS_CTL_BAD] != LS_NEVER)
        return ls_not_finite(ctl[LS_CTL_BAD], err);
    w->head.last_change = ctl[LS_CTL_CHANGE];
    w->n_listed = w->p->band > 0 ? ctl[w->list_word] : 0;
    w->head.head.chunks_done = chunks;
    if (ls_has_converged(w->p, &w->head))
        w->head.head.chunks_done =
            ls_chunks_after(w->p, w->head.last_change + (uint64_t)w->p->stop_after);
    return TC_OK;
}

/* Whether an iteration needs more than one launch of this kernel, according to its pace. */
static bool needs_parts(const cl_worker *w, int kernel)
{
    return launch_voxels(w, kernel) <
           (w->p->band > 0 ? tc_smaller(w->n_listed * block_voxels(w), w->size.voxels)
                           : w->size.voxels);
}

/* Queues one or more chunks, waits for them, and reads the control words. */
static tc_status cl_step(void *worker, void *state, uint64_t *chunks_done, tc_err *err)
{
    cl_worker *const w = worker;
    const uint64_t done = w->head.head.chunks_done, chunks = w->ocl.work->plan.chunks;
    w->wait_each =
        w->long_chunk || needs_parts(w, K_STEP) || (w->p->band > 0 && needs_parts(w, K_BAND_APPLY));
    const uint64_t n = w->wait_each ? 1 : ocl_pace_next(&w->pace, chunks - done);
    tc_status status = TC_OK;

    (void)state;
    if (ls_has_ended(w->p, &w->head)) {
        *chunks_done = chunks;
        return TC_OK;
    }
    for (uint64_t i = 0; status == TC_OK && i < n; i++)
        status = queue_chunk(w, done + i, err);
    /* With wait_each all launches of the batch have ended already; an amount of work of 0 leaves
     * w->pace unchanged. */
    status = ocl_end_launch(&w->ocl, status, &w->pace, w->wait_each ? 0 : n, err);
    w->long_chunk = w->long_chunk || (n == 1 && w->ocl.took_ms > w->ocl.work->launch_ms);
    return_if_error(status);
    return_if_error(read_control(w, done + n, err));
    *chunks_done = w->head.head.chunks_done;
    return TC_MORE;
}

/* Copies phi and, if they exist, the blocks' bits and the history to the state. */
static tc_status cl_sync(void *worker, void *state, tc_err *err)
{
    cl_worker *const w = worker;
    const ocl_part parts[] = {
        { B_PHI, w->size.voxels * sizeof(float), ls_phi(state) },
        { B_NEAR, w->p->band > 0 ? w->size.blocks : 0, ls_near(state, &w->size) },
        { B_HISTORY, ls_history_every(w->p) > 0 ? w->size.voxels * sizeof(cl_uint) : 0,
          (unsigned char *)state + ls_history_at(&w->size) }
    };
    return_if_error(ocl_download_parts(&w->ocl, parts, 3, false, err));
    memcpy(state, &w->head, sizeof w->head);
    return TC_OK;
}

static const ocl_launcher launcher = { "levelset", sizeof(cl_worker), open_worker, NULL };

static tc_status cl_open(const an_work *work, const void *state, void **worker, tc_err *err)
{
    return ocl_worker_open(&launcher, work, state, worker, err);
}

const an_backend ocl_levelset = {
    .name = "opencl", .open = cl_open, .step = cl_step, .sync = cl_sync, .close = ocl_worker_close
};
