/* levelset: checks items, plans the work (chunks, memory, costs), makes the first state, and has
 * the self-tests and the analysis' table of functions. */
#include "app/analysis/levelset/levelset.h"

#include <math.h>
#include <stdio.h>

#include "app/analysis/selftest.h"

bool ls_starts_inside(const ls_params *p, const wu_pixels *px, uint32_t x, uint32_t y, uint32_t z)
{
    const double dx = x - p->centre[0], dy = y - p->centre[1];
    const double dz = p->init_has_z ? z - p->centre[2] : 0;

    switch (p->init) {
    case LS_INIT_BOX:
        return x >= p->box[0] && x < p->box[1] && y >= p->box[2] && y < p->box[3] &&
               z >= p->box[4] && z < p->box[5];
    case LS_INIT_BALL: return dx * dx + dy * dy + dz * dz <= p->r * p->r;
    case LS_INIT_OTSU:
        return (wu_grey_value(px, ((size_t)z * px->ny + y) * px->nx + x) >= p->threshold) !=
               p->dark;
    default: return px->mask[((size_t)z * px->ny + y) * px->nx + x] != 0;
    }
}

/* Returns the error message for a start that has `inside` voxels inside, of `voxels` voxels in the
 * picture; NULL if the start is valid. */
static const char *describe_start(uint64_t inside, uint64_t voxels)
{
    return inside == 0 ? "parameters.init: there is no voxel inside to start from"
           : inside == voxels
               ? "parameters.init: fills the whole picture, there is no interface; make it smaller"
               : NULL;
}

/* Rejects a box or ball that contains all voxels or none. Both shapes are convex, so they contain
 * all voxels if they contain the picture's corners. A ball contains no voxel if it does not contain
 * the one nearest to its centre; a box within the picture always contains some. */
static tc_status check_start(const ls_params *p, const wu_item *item, const char *where,
                             tc_err *err)
{
    const uint32_t last[3] = { item->nx - 1, item->ny - 1, item->nz - 1 };
    uint32_t nearest[3] = { 0, 0, 0 };
    bool all = true;

    for (unsigned i = 0; i < 8; i++) /* bits 0 to 2 of i: last, not first, along x, y and z */
        all = all && ls_starts_inside(p, NULL, i & 1 ? last[0] : 0, i & 2 ? last[1] : 0,
                                      i & 4 ? last[2] : 0);
    if (all)
        return tc_fail(err, TC_BAD_INPUT, "%s: %s", where, describe_start(1, 1));
    for (size_t i = 0; i < 3; i++)
        nearest[i] = !(p->centre[i] > 0)       ? 0
                     : p->centre[i] >= last[i] ? last[i]
                                               : (uint32_t)(p->centre[i] + 0.5);
    if (p->init == LS_INIT_BALL && !ls_starts_inside(p, NULL, nearest[0], nearest[1], nearest[2]))
        return tc_fail(err, TC_BAD_INPUT, "%s: %s", where, describe_start(0, 1));
    return TC_OK;
}

static tc_status check_survey(const void *params, const wu_item *item, const an_survey *survey,
                              const char *where, tc_err *err)
{
    const ls_params *const p = params;
    const char *const fault =
        describe_start(survey->inside, (uint64_t)item->nx * item->ny * item->nz);

    if ((p->otsu || p->init == LS_INIT_OTSU) && survey->lo >= survey->hi)
        return tc_fail(err, TC_BAD_INPUT, "%s: %s", where, ls_flat_message);
    return p->init != LS_INIT_MASK || fault == NULL
               ? TC_OK
               : tc_fail(err, TC_BAD_INPUT, "%s: %s", where, fault);
}

static tc_status check_item(const void *params, const wu_item *item, const char *where, tc_err *err)
{
    const ls_params *const p = params;

    if (p->init == LS_INIT_MASK && item->n_masks == 0)
        return tc_fail(err, TC_BAD_INPUT, "%s: has no mask, but the parameters' init is a mask",
                       where);
    if (p->init != LS_INIT_MASK && item->n_masks > 0)
        return tc_fail(err, TC_BAD_INPUT,
                       "%s: has a mask, but the parameters' init is not {\"type\":\"mask\"}",
                       where);
    if ((p->init == LS_INIT_BOX || p->init == LS_INIT_BALL) && p->init_has_z != item->is_stack)
        return tc_fail(err, TC_BAD_INPUT, "%s: parameters.init %s", where,
                       item->is_stack ? "has no z, but this is a stack"
                                      : "has a z, but this is a single picture");
    if (p->init == LS_INIT_BOX &&
        (p->box[1] > item->nx || p->box[3] > item->ny || p->box[5] > item->nz))
        return tc_fail(err, TC_BAD_INPUT,
                       "%s: the box of parameters.init reaches beyond the picture", where);
    return p->init == LS_INIT_MASK || p->init == LS_INIT_OTSU ? TC_OK
                                                              : check_start(p, item, where, err);
}

/* --- chunks, plan -------------------------------------------------------------------------- */

/* The number of chunks of an item that does not end early (levelset.h, "chunks"). */
static uint64_t count_chunks(const ls_params *p)
{
    const uint64_t n = (uint64_t)p->iterations;

    return 1 + n + (p->reinit_every > 0 ? n / (uint64_t)p->reinit_every : 0) - p->stretch;
}

uint64_t ls_iterations_at(const ls_params *p, uint64_t chunks)
{
    /* cycle: reinit_every iterations and a re-initialisation; rest: chunks without chunk 0 */
    const uint64_t cycle = (uint64_t)p->reinit_every + 1, rest = chunks > 0 ? chunks - 1 : 0;

    return p->reinit_every == 0 ? rest : rest / cycle * (cycle - 1) + rest % cycle;
}

uint64_t ls_chunks_after(const ls_params *p, uint64_t iteration)
{
    return 1 + iteration +
           (p->reinit_every > 0 && iteration > 0 ? (iteration - 1) / (uint64_t)p->reinit_every : 0);
}

bool ls_is_reinit(const ls_params *p, uint64_t chunk)
{
    return chunk == 0 || (p->reinit_every > 0 && chunk % ((uint64_t)p->reinit_every + 1) == 0);
}

uint64_t ls_history_every(const ls_params *p)
{
    const uint64_t n =
        p->reinit_every > 0 ? (uint64_t)p->iterations / (uint64_t)p->reinit_every : 0;

    return n < LS_LEAST_STRETCHES ? 0 : n / LS_HISTORY_BITS + 1;
}

uint32_t ls_history_bit(const ls_params *p, uint64_t chunk)
{
    const uint64_t every = ls_history_every(p) * ((uint64_t)p->reinit_every + 1);

    return every == 0 || chunk % every != 0 ? LS_HISTORY_BITS : (uint32_t)(chunk / every);
}

uint32_t ls_history_count(const ls_params *p, int64_t iterations, bool converged)
{
    const uint64_t every = ls_history_every(p) * (uint64_t)p->reinit_every;

    /* There is no re-initialisation after the last iteration of an evolution that has converged. */
    return every == 0 ? 0 : (uint32_t)((uint64_t)(iterations - converged) / every) + 1;
}

bool ls_has_converged(const ls_params *p, const ls_head *head)
{
    return p->stop_after > 0 && ls_iterations_at(p, head->head.chunks_done) >=
                                    head->last_change + (uint64_t)p->stop_after;
}

bool ls_has_ended(const ls_params *p, const ls_head *head)
{
    return head->head.chunks_done >= count_chunks(p) || ls_has_converged(p, head);
}

float ls_max_time_step(const ls_params *p, const ls_size *size)
{
    const double d = (size->nx > 1) + (size->ny > 1) + (size->nz > 1);
    /* The formula is derived in levelset.h. */
    const double growth = d * __builtin_sqrt(2 * d) * (1 - p->alpha);

    return growth > 0 ? (float)(0.9 / growth) : INFINITY;
}

/* Implements an_analysis.note_item: reports a time step that is too large for the curvature
 * term. */
static bool note(const void *params, const wu_item *item, char *text, size_t size)
{
    const ls_params *const p = params;
    const ls_size s = ls_size_of(item);
    const float bound = ls_max_time_step(p, &s);

    if (p->cfl || p->dt <= bound)
        return false;
    snprintf(text, size,
             "parameters.dt %g is above %.3g, where curvature makes the interface rough instead of "
             "smooth: dt \"cfl\" keeps below",
             p->dt, bound);
    return true;
}

tc_status ls_not_finite(uint64_t iteration, tc_err *err)
{
    return tc_fail(
        err, TC_BAD_INPUT,
        "the level set is no longer finite after iteration %llu: parameters.dt is too large",
        (unsigned long long)iteration);
}

ls_size ls_size_of(const wu_item *item)
{
    ls_size s = { .nx = item->nx, .ny = item->ny, .nz = item->nz };

    s.voxels = (size_t)s.nx * s.ny * s.nz;
    s.bx = (s.nx + LS_BX - 1) / LS_BX;
    s.by = (s.ny + LS_BY - 1) / LS_BY;
    s.bz = (s.nz + LS_BZ - 1) / LS_BZ;
    s.blocks = (size_t)s.bx * s.by * s.bz;
    return s;
}

size_t ls_state_bytes(const ls_params *p, const ls_size *s)
{
    return ls_history_at(s) + (ls_history_every(p) > 0 ? s->voxels * sizeof(uint32_t) : 0);
}

static tc_status plan(const void *params, const wu_item *item, an_plan *out, tc_err *err)
{
    const ls_params *const p = params;
    const ls_size s = ls_size_of(item);
    const uint64_t voxels = s.voxels;

    (void)err;
    out->chunks = count_chunks(p);
    out->state_bytes = ls_state_bytes(p, &s);
    /* The terms, in this order: the program; the pixels and the mask; the state; ls_force and the
     * worker's second phi; the side of each voxel; the list of blocks. */
    out->memory_bytes = PLAN_PROGRAM_BYTES + voxels * (item->bits / 8 + (item->n_masks > 0)) +
                        out->state_bytes + voxels * sizeof(float) * (p->edge_stop > 0 ? 3 : 2) +
                        voxels + s.blocks * 32;
    out->thread_bytes = ls_thread_bytes(&s) +
                        (s.nx + 2 * (uint64_t)AN_GAUSS_MAX_RADIUS) * sizeof(uint32_t) +
                        PLAN_THREAD_BYTES;
    /* The factors of `voxels` are estimates of the operations per voxel. */
    out->load_flops = an_reading_flops(item) + (s.nz > 1 ? 130 : 60) * (double)voxels;
    out->finish_flops = 10 * (double)voxels;
    out->compress_flops = (ls_history_every(p) > 0 ? 40 : 20) * (double)voxels;
    out->write_flops = (ls_history_every(p) > 0 ? 2 : 1) * (double)voxels;
    out->byte_flops = 35;
    an_complete_plan(out, item,
                     (s.nz > 1      ? p->band > 0 ? 11 : 20
                      : p->band > 0 ? 4
                                    : 12) *
                         (double)voxels * (double)out->chunks);
    return TC_OK;
}

/* --- the start ------------------------------------------------------------------------------- */

static tc_status init(const an_work *work, void *state, tc_err *err)
{
    const wu_pixels *const px = work->pixels;
    float *phi = ls_phi(state);
    size_t inside = 0;
    ls_params p;
    tc_status status = ls_resolve(work, &p, err);

    if (status != TC_OK)
        return status;
    for (uint32_t z = 0; z < px->nz; z++)
        for (uint32_t y = 0; y < px->ny; y++) {
            status = tc_call_poll(work->poll, err);
            if (status != TC_OK)
                return status;
            for (uint32_t x = 0; x < px->nx; x++) {
                const bool is_inside = ls_starts_inside(&p, px, x, y, z);

                inside += is_inside;
                *phi++ = is_inside ? -1.0f : 1.0f;
            }
        }
    const char *const fault = describe_start(inside, (uint64_t)px->nx * px->ny * px->nz);
    return fault == NULL ? TC_OK : tc_fail(err, TC_BAD_INPUT, "%s", fault);
}

/* Groups of kernels, as bits of the result of kernels_of. */
enum { PICTURE_KERNELS = 1, STACK_KERNELS = 2, BAND_KERNELS = 4, DENSE_KERNELS = 8 };

static uint32_t kernels_of(const void *params, const wu_item *item)
{
    const ls_params *const p = params;

    return (item->nz == 1 ? PICTURE_KERNELS : STACK_KERNELS) |
           (p->band > 0 ? BAND_KERNELS : DENSE_KERNELS);
}

/* The self-tests cover 2D and 3D, cfl and fixed time steps, dense and narrow band, edge_stop,
 * smoothing, and pixels of 8 and 16 bits. No side is a multiple of a block's. */
static const an_selftest selftests[] = {
    { "{\"target\":180,\"epsilon\":60,\"alpha\":0.02,\"iterations\":40,\"reinit_every\":4,"
      "\"init\":{\"type\":\"box\",\"x0\":10,\"y0\":8,\"x1\":30,\"y1\":29}}",
      67, 45, 1, 8, false, 0x4ba5374a, AN_BALLS, false },
    { "{\"target\":46000,\"epsilon\":15000,\"alpha\":0.0001,\"iterations\":23,\"reinit_every\":3,"
      "\"dt\":0.2,\"smooth\":1.2,\"edge_stop\":0.000001,\"init\":{\"type\":\"mask\"}}",
      35, 21, 19, 16, true, 0xcc8d0685, AN_BALLS, false },
    { "{\"target\":180,\"epsilon\":60,\"alpha\":0.01,\"iterations\":30,\"reinit_every\":7,"
      "\"band\":4,\"stop_after\":9,"
      "\"init\":{\"type\":\"ball\",\"cx\":20,\"cy\":18,\"cz\":9,\"r\":7.5}}",
      41, 37, 22, 8, false, 0x2d62d37e, AN_BALLS, false },
    { "{\"target\":180,\"epsilon\":60,\"alpha\":0.01,\"iterations\":25,\"reinit_every\":3,"
      "\"band\":4,\"init\":{\"type\":\"ball\",\"cx\":20,\"cy\":18,\"r\":9.5}}",
      61, 45, 1, 8, false, 0x26c756e8, AN_NOISE, false },
    { .parameters = NULL }
};

/* Implements an_analysis.preview: returns 1 for a voxel inside, 0 for one outside. */
static uint8_t preview(const an_work *work, const void *state, size_t voxel)
{
    (void)work;
    return ls_phi_const(state)[voxel] < 0;
}

const an_analysis an_levelset = {
    .name = "levelset",
    .summary = "outlines one structure in pictures and stacks (level set)",
    .cite = "A. E. Lefohn, J. M. Kniss, C. D. Hansen, R. T. Whitaker, A streaming narrow-band "
            "algorithm: interactive computation and visualization of level sets, IEEE "
            "Transactions on Visualization and Computer Graphics 10 (2004) 422-433.",
    .shorten_advice = "fewer iterations, a stop_after, or a narrow band",
    .params_bytes = sizeof(ls_params),
    .parameters = ls_parameters,
    .derive_params = ls_derive_params,
    .check_item = check_item,
    .takes_mask = true,
    .note_item = note,
    .check_survey = check_survey,
    .plan = plan,
    .suggest = ls_suggest,
    .init = init,
    .check_state = ls_check_state,
    .finish = ls_finish,
    .preview = preview,
    .note_result = ls_note_result,
    .declare_arrays = ls_declare_arrays,
    .check_result = ls_check_result,
    .count_name = "inside_voxels",
    .check_pixels = ls_check_pixels,
    .pixels_share = ls_pixels_share,
    .most_steps = ls_most_steps,
    .steps_name = "iterations_run",
    .check_end = ls_check_end,
    .cpu = &ls_cpu,
    .uses_floats = true,
    .kernels = kernels_of,
    .selftests = selftests
};
