/*
 * levelset: the CPU backend. A chunk (an iteration or a re-initialisation) is a sequence of phases.
 * A phase consists of parts, which the threads of a pool process. A call of `step` processes parts
 * for about a tenth of a second and may end within a chunk. phi then has the values after the last
 * completed chunk, unless the current phase changes phi in place; in this case `sync` completes the
 * chunk before it writes the state.
 */
#include <stdlib.h>
#include <string.h>

#include "app/analysis/common/edt.h"
#include "app/analysis/levelset/levelset.h"
#include "app/analysis/levelset/rows.h"
#include "app/base/numbers.h"
#include "app/base/os.h"

enum {
    STRIP_ROWS = 32,       /* in stacks: rows of each slice in the box of a part */
    PART_VOXELS = 1 << 18, /* approximate number of voxels in a part */
    MOST_RUNS = 64         /* greatest number of runs of active blocks in a part */
};

typedef enum phase {
    PHASE_NONE, /* between chunks */
    /* Phases of a re-initialisation: */
    PHASE_SIDES, /* finds each voxel's side */
    PHASE_EDT_X, /* the passes of a Euclidean distance transform */
    PHASE_EDT_Y,
    PHASE_EDT_Z,
    PHASE_DISTANCE, /* sets phi from the distances */
    /* Phases of an iteration: */
    PHASE_STEP,  /* computes the next phi; with cfl or a band, U = F |grad phi| (levelset.h) */
    PHASE_APPLY, /* adds dt U to phi; only with cfl or a band */
    /* A phase at the end of some chunks, with a band: */
    PHASE_NEAR /* sets near[block] (core.h) of all blocks */
} phase;

/* The memory of one thread, and its results in the current phase. */
typedef struct scratch {
    float *rows;        /* scratch memory of ls_simd.step */
    void *edt;          /* scratch memory of edt_part */
    ls_outcome outcome; /* results of this thread in the current phase */
    unsigned side_bits; /* bit 0: some voxel is outside; bit 1: some voxel is inside */
} scratch;

typedef struct cpu_worker {
    const an_work *work;
    const ls_params *p;
    ls_size size;
    an_pool *pool;
    const ls_simd *simd;
    ls_force force;
    unsigned char *state;
    ls_head head;
    float *phi;        /* is in the state's memory or in own_buffer */
    float *spare;      /* the other one of these two buffers: holds the next phi, U, or squared
                          distances */
    float *own_buffer; /* [voxels], and LS_PAD_BYTES bytes; allocated by the worker */
    uint8_t *sides;    /* [voxels], for a re-initialisation: 1 for a voxel inside, otherwise 0 */
    edt_job edt;
    phase phase;
    size_t next, parts; /* the next part of the phase, and the number of parts of the phase */
    float dt;           /* the time step of the current iteration */
    ls_outcome outcome; /* results of all threads in the current phase */
    ls_box *runs;       /* with a band: each is a run of active blocks adjacent along x */
    size_t n_runs;
    size_t part_runs; /* number of runs in a part: fewer in wide pictures, where runs can be long */
    scratch *scratch; /* [threads] */
} cpu_worker;

/* --- boxes ----------------------------------------------------------------------------------- */

/* Without a band a part is a box of whole rows. Returns the number of its rows in each slice. */
static uint32_t strip_rows(const ls_size *s)
{
    const uint32_t rows = s->nz > 1 ? STRIP_ROWS : (PART_VOXELS / 8) / s->nx + STRIP_ROWS;

    return rows < s->ny ? rows : s->ny;
}

/* The number of slices of the box of a part, without a band. */
static uint32_t slab_slices(const ls_size *s)
{
    const size_t slices = PART_VOXELS / ((size_t)strip_rows(s) * s->nx) + 1;

    return (uint32_t)tc_smaller(slices, s->nz);
}

/* The number of boxes, and so of parts, without a band. */
static size_t dense_parts(const ls_size *s)
{
    return tc_div_ceil(s->ny, strip_rows(s)) * tc_div_ceil(s->nz, slab_slices(s));
}

/* The box of a part, without a band. */
static ls_box dense_box(const ls_size *s, size_t part)
{
    const size_t strips = tc_div_ceil(s->ny, strip_rows(s));
    ls_box b = { .x1 = s->nx };

    b.y0 = (uint32_t)(part % strips) * strip_rows(s);
    b.z0 = (uint32_t)(part / strips) * slab_slices(s);
    b.y1 = (uint32_t)tc_smaller(b.y0 + (size_t)strip_rows(s), s->ny);
    b.z1 = (uint32_t)tc_smaller(b.z0 + (size_t)slab_slices(s), s->nz);
    return b;
}

/* Returns the box of voxels of the blocks x0 to x1 - 1 in row y of slice z of blocks. */
static ls_box blocks_box(const ls_size *s, uint32_t x0, uint32_t x1, uint32_t y, uint32_t z)
{
    return (ls_box){ .x0 = x0 * LS_BX,
                     .x1 = (uint32_t)tc_smaller((size_t)x1 * LS_BX, s->nx),
                     .y0 = y * LS_BY,
                     .y1 = (uint32_t)tc_smaller((size_t)(y + 1) * LS_BY, s->ny),
                     .z0 = z * LS_BZ,
                     .z1 = (uint32_t)tc_smaller((size_t)(z + 1) * LS_BZ, s->nz) };
}

/* Makes the list of runs of active blocks, from near[block]. */
static void list_runs(cpu_worker *w)
{
    const ls_size *const s = &w->size;
    const uint8_t *const near = ls_near(w->state, s);

    w->n_runs = 0;
    for (uint32_t z = 0; z < s->bz; z++)
        for (uint32_t y = 0; y < s->by; y++)
            for (uint32_t x = 0, end; x < s->bx; x = end + 1) {
                for (end = x;
                     end < s->bx && ls_is_active_block(near, end, y, z, s->bx, s->by, s->bz); end++)
                    ;
                if (end > x)
                    w->runs[w->n_runs++] = blocks_box(s, x, end, y, z);
            }
}

/* Computes near[block] of block (bx, by, bz). */
static uint8_t block_near_bits(const cpu_worker *w, uint32_t bx, uint32_t by, uint32_t bz)
{
    const ls_size *const s = &w->size;
    const ls_box b = blocks_box(s, bx, bx + 1, by, bz);
    const float band = (float)w->p->band;
    uint32_t bits = 0;

    for (uint32_t z = b.z0; z < b.z1; z++)
        for (uint32_t y = b.y0; y < b.y1; y++) {
            const float *const row = w->phi + ((size_t)z * s->ny + y) * s->nx;

            for (uint32_t x = b.x0; x < b.x1; x++)
                if (__builtin_fabsf(row[x]) < band)
                    bits |= ls_near_bits(x - b.x0, y - b.y0, z - b.z0, b.x1 - b.x0 - 1,
                                         b.y1 - b.y0 - 1, b.z1 - b.z0 - 1);
        }
    return (uint8_t)bits;
}

/* --- parts of the phases --------------------------------------------------------------------- */

/* Computes U, or the next phi, in a box. */
static void step_box(cpu_worker *w, scratch *s, const ls_box *box)
{
    const ls_fields f = { .nx = w->size.nx,
                          .ny = w->size.ny,
                          .nz = w->size.nz,
                          .phi = w->phi,
                          .data = w->force.data,
                          .stop = w->force.stop,
                          .beta = 1.0f - (float)w->p->alpha,
                          .move = !w->p->cfl && w->p->band == 0,
                          .dt = w->dt,
                          .out = w->spare };

    ls_simd_fit(w->simd, box->x1 - box->x0)->step(&f, box, s->rows, &s->outcome);
}

/* Adds dt U to phi in a box. */
static void apply_run(cpu_worker *w, scratch *s, const ls_box *b)
{
    const ls_simd *const simd = ls_simd_fit(w->simd, b->x1 - b->x0);

    for (uint32_t z = b->z0; z < b->z1; z++)
        for (uint32_t y = b->y0; y < b->y1; y++) {
            const size_t at = ((size_t)z * w->size.ny + y) * w->size.nx + b->x0;

            simd->apply(w->phi + at, w->spare + at, b->x1 - b->x0, w->dt, &s->outcome);
        }
}

/* With a band: processes a part of PHASE_STEP or PHASE_APPLY. */
static void process_runs(cpu_worker *w, scratch *s, size_t part)
{
    const size_t end = tc_smaller((part + 1) * w->part_runs, w->n_runs);

    for (size_t i = part * w->part_runs; i < end; i++) {
        if (w->phase == PHASE_STEP)
            step_box(w, s, &w->runs[i]);
        else
            apply_run(w, s, &w->runs[i]);
    }
}

/* Processes a part of PHASE_NEAR: sets near[block] of the blocks in a row of blocks. */
static void flag_blocks(cpu_worker *w, size_t part)
{
    const ls_size *const s = &w->size;
    uint8_t *const near = ls_near(w->state, s);
    const uint32_t y = (uint32_t)(part % s->by), z = (uint32_t)(part / s->by);
    uint8_t *const row = near + ((size_t)z * s->by + y) * s->bx;

    for (uint32_t x = 0; x < s->bx; x++)
        row[x] = block_near_bits(w, x, y, z);
}

/* Processes a part of PHASE_SIDES. Also sets the bit of the stored sides, if this
 * re-initialisation's sides are stored (levelset.h, "stretches"). */
static void run_sides(cpu_worker *w, scratch *s, size_t part)
{
    const size_t end = tc_smaller((part + 1) * PART_VOXELS, w->size.voxels);
    const uint32_t bit = ls_history_bit(w->p, w->head.head.chunks_done);
    uint32_t *const history = (uint32_t *)(void *)(w->state + ls_history_at(&w->size));
    unsigned inside = 0, outside = 0;

    for (size_t i = part * PART_VOXELS; i < end; i++) {
        w->sides[i] = w->phi[i] < 0;
        inside |= w->sides[i];
        outside |= !w->sides[i];
    }
    /* If a checkpoint interrupts this phase, the phase runs again and sets the same bits. */
    for (size_t i = part * PART_VOXELS; bit < LS_HISTORY_BITS && i < end; i++)
        history[i] |= (uint32_t)w->sides[i] << bit;
    s->side_bits |= outside | inside << 1;
}

/* Processes a part of PHASE_DISTANCE. */
static void run_distance(cpu_worker *w, size_t part)
{
    const size_t end = tc_smaller((part + 1) * PART_VOXELS, w->size.voxels);

    for (size_t i = part * PART_VOXELS; i < end; i++)
        w->phi[i] = ls_signed_distance(w->edt.out[i], w->sides[i]);
}

/* Processes a part of the current phase. part: counted from w->next on. */
static void run_part(void *user, unsigned thread, size_t part)
{
    cpu_worker *const w = user;
    scratch *const s = &w->scratch[thread];
    const bool band = w->p->band > 0;

    part += w->next;
    switch (w->phase) {
    case PHASE_SIDES: run_sides(w, s, part); break;
    case PHASE_EDT_X:
    case PHASE_EDT_Y:
    case PHASE_EDT_Z: edt_part(&w->edt, w->phase - PHASE_EDT_X, part, s->edt); break;
    case PHASE_DISTANCE: run_distance(w, part); break;
    case PHASE_STEP:
    case PHASE_APPLY:
        if (band) {
            process_runs(w, s, part);
        } else if (w->phase == PHASE_STEP) {
            const ls_box box = dense_box(&w->size, part);

            step_box(w, s, &box);
        } else {
            const size_t at = part * PART_VOXELS;

            w->simd->apply(w->phi + at, w->spare + at, tc_smaller(PART_VOXELS, w->size.voxels - at),
                           w->dt, &s->outcome);
        }
        break;
    case PHASE_NEAR: flag_blocks(w, part); break;
    case PHASE_NONE: break;
    }
}

/* --- from phase to phase --------------------------------------------------------------------- */

/* The number of parts of a phase. */
static size_t phase_parts(const cpu_worker *w, phase p)
{
    const size_t ranges = tc_div_ceil(w->size.voxels, PART_VOXELS); /* ranges of voxels */
    const bool band = w->p->band > 0;

    switch (p) {
    case PHASE_SIDES:
    case PHASE_DISTANCE: return ranges;
    case PHASE_EDT_X:
    case PHASE_EDT_Y:
    case PHASE_EDT_Z: return edt_parts(&w->edt, p - PHASE_EDT_X);
    case PHASE_STEP: return band ? tc_div_ceil(w->n_runs, w->part_runs) : dense_parts(&w->size);
    case PHASE_APPLY: return band ? tc_div_ceil(w->n_runs, w->part_runs) : ranges;
    case PHASE_NEAR: return (size_t)w->size.by * w->size.bz;
    default: return 0;
    }
}

/* Makes p the current phase, and clears the results of the previous phase. */
static void enter_phase(cpu_worker *w, phase p)
{
    w->phase = p;
    w->next = 0;
    w->parts = phase_parts(w, p);
    w->outcome = (ls_outcome){ 0 };
    for (unsigned i = 0; i < w->work->threads; i++) {
        w->scratch[i].outcome = (ls_outcome){ 0 };
        w->scratch[i].side_bits = 0;
    }
}

static void begin_chunk(cpu_worker *w)
{
    w->dt = (float)w->p->dt;
    w->edt.out = (uint32_t *)w->spare;
    enter_phase(w, ls_is_reinit(w->p, w->head.head.chunks_done) ? PHASE_SIDES : PHASE_STEP);
}

static void end_chunk(cpu_worker *w)
{
    w->head.head.chunks_done++;
    w->phase = PHASE_NONE;
}

/* Called when a chunk's phi is complete. If there is a band and renew_list is set, enters
 * PHASE_NEAR to make the list of active blocks again; otherwise ends the chunk. */
static void end_phi(cpu_worker *w, bool renew_list)
{
    if (renew_list && w->p->band > 0)
        enter_phase(w, PHASE_NEAR);
    else
        end_chunk(w);
}

/* Returns scratch.side_bits of all threads together. */
static unsigned merge_side_bits(const cpu_worker *w)
{
    unsigned side_bits = 0;

    for (unsigned i = 0; i < w->work->threads; i++)
        side_bits |= w->scratch[i].side_bits;
    return side_bits;
}

/* Called when the iteration's phi is complete: checks that it is finite, and records in the head
 * whether a voxel has changed sides. */
static tc_status end_iteration(cpu_worker *w, tc_err *err)
{
    const uint64_t iteration = ls_iterations_at(w->p, w->head.head.chunks_done) + 1;

    if (w->outcome.bad)
        return ls_not_finite(iteration, err);
    if (w->outcome.changed)
        w->head.last_change = iteration;
    end_phi(w, iteration % LS_RELIST_EVERY == 0);
    return TC_OK;
}

/* Completes a phase whose parts are all done, and enters the next one. */
static tc_status end_phase(cpu_worker *w, tc_err *err)
{
    float *const phi = w->phi;

    for (unsigned i = 0; i < w->work->threads; i++) {
        const ls_outcome *const f = &w->scratch[i].outcome;

        w->outcome.most = f->most > w->outcome.most ? f->most : w->outcome.most;
        w->outcome.bad |= f->bad;
        w->outcome.changed |= f->changed;
    }
    switch (w->phase) {
    case PHASE_SIDES:
        /* There is an interface only if there are voxels on both sides (scratch.side_bits);
         * otherwise phi remains unchanged. */
        if (merge_side_bits(w) == 3)
            enter_phase(w, PHASE_EDT_X);
        else
            end_phi(w, true);
        break;
    case PHASE_EDT_X: enter_phase(w, PHASE_EDT_Y); break;
    case PHASE_EDT_Y: enter_phase(w, w->size.nz > 1 ? PHASE_EDT_Z : PHASE_DISTANCE); break;
    case PHASE_EDT_Z: enter_phase(w, PHASE_DISTANCE); break;
    case PHASE_DISTANCE: end_phi(w, true); break;
    case PHASE_STEP:
        if (w->p->cfl || w->p->band > 0) {
            if (w->p->cfl)
                w->dt = ls_cfl_step(w->outcome.most, ls_max_time_step(w->p, &w->size));
            enter_phase(w, PHASE_APPLY);
            break;
        }
        w->phi = w->spare;
        w->spare = phi;
        return end_iteration(w, err);
    case PHASE_APPLY: return end_iteration(w, err);
    case PHASE_NEAR:
        list_runs(w);
        end_chunk(w);
        break;
    case PHASE_NONE: break;
    }
    return TC_OK;
}

/* Processes parts of the phase for about AN_STEP_SECONDS, and ends the phase after its last part.
 */
static tc_status advance_phase(cpu_worker *w, tc_err *err)
{
    const size_t n_left = w->parts - w->next;

    if (n_left == 1)
        run_part(w, 0, 0);
    w->next += n_left <= 1 ? n_left
                           : an_pool_run_until(w->pool, run_part, w, n_left,
                                               tc_seconds() + AN_STEP_SECONDS);
    return w->next == w->parts ? end_phase(w, err) : TC_OK;
}

/* --- the backend ----------------------------------------------------------------------------- */

static void cpu_close(void **worker)
{
    cpu_worker *const w = *worker;

    *worker = NULL;
    if (w == NULL)
        return;
    an_pool_destroy(&w->pool);
    ls_force_free(&w->force);
    for (unsigned i = 0; w->scratch != NULL && i < w->work->threads; i++) {
        os_free_aligned(w->scratch[i].rows);
        free(w->scratch[i].edt);
    }
    free(w->scratch);
    free(w->runs);
    free(w->sides);
    free(w->own_buffer);
    free(w);
}

/* The bytes of scratch memory for ls_simd.step. */
static size_t scratch_bytes(const ls_size *s)
{
    return ls_scratch_floats(s->nx, s->ny < STRIP_ROWS ? s->ny : strip_rows(s)) * sizeof(float);
}

uint64_t ls_thread_bytes(const ls_size *s)
{
    const edt_job edt = { .nx = s->nx, .ny = s->ny, .nz = s->nz };

    return scratch_bytes(s) + edt_scratch_bytes(&edt);
}

static bool allocate_scratch(cpu_worker *w)
{
    const size_t bytes = scratch_bytes(&w->size);

    w->scratch = calloc(w->work->threads, sizeof *w->scratch);
    if (w->scratch == NULL)
        return false;
    for (unsigned i = 0; i < w->work->threads; i++) {
        w->scratch[i].rows = os_alloc_aligned(bytes);
        w->scratch[i].edt = malloc(edt_scratch_bytes(&w->edt));
        if (w->scratch[i].rows == NULL || w->scratch[i].edt == NULL)
            return false;
    }
    return true;
}

static bool allocate_fields(cpu_worker *w)
{
    const size_t n = w->size.voxels;

    w->own_buffer = os_alloc_zeroed(n * sizeof(float) + LS_PAD_BYTES);
    w->sides = os_alloc_zeroed(n);
    /* Between two runs in a row there is at least one block, so a row of n blocks has at most
     * n / 2 + 1 runs. */
    w->runs = malloc((w->size.blocks / 2 + (size_t)w->size.by * w->size.bz + 1) * sizeof *w->runs);
    return w->own_buffer != NULL && w->sides != NULL && w->runs != NULL;
}

static tc_status cpu_open(const an_work *work, const void *state, void **worker, tc_err *err)
{
    cpu_worker *const w = calloc(1, sizeof *w);
    tc_status status;

    *worker = w;
    if (w == NULL)
        return tc_no_memory(err, "levelset");
    w->work = work;
    w->p = work->params;
    w->size = ls_size_of(work->item);
    w->simd = ls_simd_best();
    memcpy(&w->head, state, sizeof w->head);
    /* Runs of a part: such that they have at most about 4 * PART_VOXELS voxels if each run is as
     * wide as the picture. */
    w->part_runs = tc_smaller(
        4 * (size_t)PART_VOXELS / ((size_t)w->size.nx * LS_BY * (w->size.nz > 1 ? LS_BZ : 1)) + 1,
        MOST_RUNS);
    status = ls_force_make(work, &w->force, err);
    if (status == TC_OK)
        status = an_pool_create(work->threads, &w->pool, err);
    if (status == TC_OK) {
        w->edt =
            (edt_job){ .nx = w->size.nx, .ny = w->size.ny, .nz = w->size.nz, .sides = EDT_BOTH };
        if (!allocate_fields(w) || !allocate_scratch(w))
            status = tc_no_memory(err, "levelset");
        w->edt.mask = w->sides;
    }
    if (status != TC_OK)
        cpu_close(worker);
    return status;
}

/* Sets the worker's pointers to the state's memory, which the first call of `step` or `sync`
 * passes.
 */
static void attach_state(cpu_worker *w, void *state)
{
    if (w->state != NULL)
        return;
    w->state = state;
    w->phi = ls_phi(state);
    w->spare = w->own_buffer;
    if (w->p->band > 0)
        list_runs(w);
}

static tc_status cpu_step(void *worker, void *state, uint64_t *chunks_done, tc_err *err)
{
    cpu_worker *const w = worker;
    const double end = tc_seconds() + 0.05; /* advance_phase may take longer by AN_STEP_SECONDS */
    tc_status status = TC_OK;

    attach_state(w, state);
    do {
        if (w->phase == PHASE_NONE) {
            if (ls_has_ended(w->p, &w->head)) {
                *chunks_done = w->work->plan.chunks;
                return TC_OK;
            }
            begin_chunk(w);
        }
        status = advance_phase(w, err);
    } while (status == TC_OK && tc_seconds() < end);
    *chunks_done = w->head.head.chunks_done;
    return status == TC_OK ? TC_MORE : status;
}

/* Whether phi may already have changed in this phase, but its chunk is not complete. */
static bool changes_phi(phase p)
{
    return p == PHASE_APPLY || p == PHASE_DISTANCE || p == PHASE_NEAR;
}

static tc_status copy_phi(const cpu_worker *w, float *to, tc_err *err)
{
    for (size_t i = 0; i < w->size.voxels; i = tc_block_end(i, w->size.voxels)) {
        memcpy(to + i, w->phi + i, (tc_block_end(i, w->size.voxels) - i) * sizeof *to);
        return_if_error(tc_call_poll(w->work->poll, err));
    }
    return TC_OK;
}

static tc_status cpu_sync(void *worker, void *state, tc_err *err)
{
    cpu_worker *const w = worker;

    attach_state(w, state);
    while (changes_phi(w->phase)) {
        return_if_error(advance_phase(w, err));
        return_if_error(tc_call_poll(w->work->poll, err));
    }
    if (w->phi == w->own_buffer) {
        /* phi is copied to the state's memory. This overwrites what the current phase may have
         * written there, so the chunk will begin again. */
        w->phase = PHASE_NONE;
        return_if_error(copy_phi(w, ls_phi(state), err));
    }
    if (w->phi == w->own_buffer) {
        w->phi = ls_phi(state);
        w->spare = w->own_buffer;
    }
    memcpy(state, &w->head, sizeof w->head);
    return TC_OK;
}

const an_backend ls_cpu = {
    .name = "cpu", .open = cpu_open, .step = cpu_step, .sync = cpu_sync, .close = cpu_close
};
