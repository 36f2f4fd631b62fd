/*
 * levelset: whether an item's pixels can have given these arrays. Where an interface went can
 * only be told by letting it go again: here at a third of the resolution, where there are 9 or
 * 27 times fewer pixels and a step of curvature takes nine times as long.
 *
 * A pixel f times as wide divides phi by f and leaves its gradient; curvature is multiplied by f.
 * So with coarse pixels d phi / dt = (-alpha D / f + (1 - alpha) kappa / f^2) |grad phi|, which is the
 * same equation with another alpha and another clock.
 */
#include <math.h>
#include <stdlib.h>

#include "app/analysis/levelset/levelset.h"

enum { FACTOR = 3, LEAST_SIDE = 12, LEAST_INSIDE = 16, LEAST_REINIT = 4 };
/* Twice the pixels that both have, divided by those of each: interfaces that followed the
 * same pixels are hardly ever below it. */
static const double ALIKE = 0.9;
/* So few operations are done again at once: some hundredths of a second. */
static const double FEW = 6e7;

typedef struct coarse {
    ls_params params;
    wu_item item;
    wu_pixels pixels;          /* greys in 16 bits, the start as mask; both owned */
    uint8_t *claimed;          /* the result's mask; owned */
    double scale;              /* of greys */
    double most;               /* the largest |D|, in its greys */
} coarse;

static uint32_t shrunk(uint32_t n)
{
    return (n + FACTOR - 1) / FACTOR;
}

/* What a coarse pixel holds. */
typedef struct block {
    double grey;
    int pixels, start, claimed;
} block;

static block block_of(const wu_pixels *px, const float *phi, const uint8_t *mask, const uint32_t at[3])
{
    block b = { .grey = 0 };

    for (uint32_t z = at[0] * FACTOR; z < (at[0] + 1) * FACTOR && z < px->nz; z++)
        for (uint32_t y = at[1] * FACTOR; y < (at[1] + 1) * FACTOR && y < px->ny; y++)
            for (uint32_t x = at[2] * FACTOR; x < (at[2] + 1) * FACTOR && x < px->nx; x++) {
                const size_t i = ((size_t)z * px->ny + y) * px->nx + x;

                b.grey += wu_grey(px, i);
                b.start += phi[i] < 0;
                b.claimed += mask[i];
                b.pixels++;
            }
    return b;
}

/* phi: of the start. */
static void shrink(const an_work *work, const float *phi, const uint8_t *mask, coarse *c)
{
    const ls_params *const p = work->params;
    size_t i = 0;

    for (uint32_t z = 0; z < c->item.nz; z++)
        for (uint32_t y = 0; y < c->item.ny; y++)
            for (uint32_t x = 0; x < c->item.nx; x++, i++) {
                const block b = block_of(work->pixels, phi, mask, (const uint32_t[]){ z, y, x });
                const double grey = c->scale * b.grey / b.pixels;
                const double d = fabs(c->scale * p->epsilon - fabs(grey - c->scale * p->target));

                c->pixels.u16[i] = (uint16_t)(grey + 0.5);
                c->pixels.mask[i] = 2 * b.start >= b.pixels;
                c->claimed[i] = 2 * b.claimed >= b.pixels;
                c->most = d > c->most ? d : c->most;
            }
}

/* About the time step that "cfl" finds. */
static double step_of(const ls_params *p, const wu_item *item, double most)
{
    const ls_size size = ls_size_of(item);
    const double wanted = 0.5 / (p->alpha * most), bound = (double)ls_bound(p, &size);

    return !p->cfl ? p->dt : wanted < bound ? wanted : bound;
}

/* The parameters of the same evolution, of so many iterations, on coarse pixels. */
static void set_params(const an_work *work, int64_t iterations, coarse *c)
{
    const ls_params *const p = work->params;
    const double f = FACTOR, a = p->alpha * f / c->scale, rest = 1 - p->alpha;
    const double time = (double)iterations * step_of(p, work->item, c->most / c->scale);
    double clock, steps;

    c->params = *p;
    c->params.target = p->target * c->scale;
    c->params.epsilon = p->epsilon * c->scale;
    c->params.alpha = a / (a + rest);
    clock = p->alpha > 0 ? p->alpha / (f * c->scale * c->params.alpha) : 1 / (f * f);
    c->params.cfl = true;
    c->params.dt = step_of(&c->params, &c->item, c->most);
    steps = ceil(time * clock / c->params.dt);
    c->params.cfl = false;
    c->params.iterations = steps < (double)iterations ? (int64_t)steps : iterations;
    c->params.smooth = p->smooth / f < 0.3 ? 0 : p->smooth / f;
    c->params.edge_stop = p->edge_stop / (f * c->scale * f * c->scale);
    if (p->reinit_every > 0)
        c->params.reinit_every = p->reinit_every * c->params.iterations / (iterations + 1) + LEAST_REINIT;
    c->params.band = c->params.stop_after = 0;
    c->params.init = LS_INIT_MASK;
}

static tc_status make_coarse(const an_work *work, const wu_output *out, coarse *c, tc_err *err)
{
    const wu_item *const item = work->item;
    size_t n;
    void *state = calloc(1, work->plan.state_bytes);
    tc_status st = state == NULL ? tc_no_memory(err, "levelset") : an_levelset.init(work, state, err);

    c->scale = item->bits == 8 ? 257 : 1;
    c->item = *item;
    c->item.nx = c->pixels.nx = shrunk(item->nx);
    c->item.ny = c->pixels.ny = shrunk(item->ny);
    c->item.nz = c->pixels.nz = shrunk(item->nz);
    c->item.bits = c->pixels.bits = 16;
    n = (size_t)c->item.nx * c->item.ny * c->item.nz;
    c->pixels.u16 = malloc(n * sizeof *c->pixels.u16);
    c->pixels.mask = malloc(n);
    c->claimed = malloc(n);
    if (st == TC_OK && (c->pixels.u16 == NULL || c->pixels.mask == NULL || c->claimed == NULL))
        st = tc_no_memory(err, "levelset");
    if (st == TC_OK)
        shrink(work, ls_phi(state), out->arrays[out->n - 1].data, c);
    free(state);
    return st;
}

/* How alike the claimed mask and the coarse evolution's are. */
static double likeness(const coarse *c, const void *state)
{
    const float *const phi = ls_phi_const(state);
    uint64_t claimed = 0, found = 0, both = 0;

    for (size_t i = 0; i < ls_size_of(&c->item).voxels; i++) {
        claimed += c->claimed[i];
        found += phi[i] < 0;
        both += c->claimed[i] && phi[i] < 0;
    }
    return claimed < LEAST_INSIDE && found < LEAST_INSIDE ? 1 : 2 * (double)both / (double)(claimed + found);
}

static tc_status evolve(const an_work *work, const coarse *c, tc_err *err)
{
    an_work small = { .params = &c->params, .item = &c->item, .pixels = &c->pixels, .threads = work->threads };
    void *state = NULL;
    double alike = 0;
    tc_status st = an_levelset.plan(&c->params, &c->item, &small.plan, err);

    if (st == TC_OK) {
        state = calloc(1, small.plan.state_bytes);
        st = state == NULL ? tc_no_memory(err, "levelset")
                           : an_work_run(&an_levelset, &ls_cpu, &small, state, 0, err);
    }
    if (st == TC_OK)
        alike = likeness(c, state);
    free(state);
    /* A start too small for coarse pixels, or a time step too long for them. */
    if (st == TC_BAD_INPUT || (st == TC_OK && alike < ALIKE))
        return tc_fail(err, TC_NO_MATCH, "the mask is not where the interface goes (likeness %.2f)", alike);
    return st;
}

tc_status ls_check_pixels(const an_work *work, const wu_output *out, uint64_t *random, tc_err *err)
{
    const wu_item *const item = work->item;
    coarse c = { .scale = 1 };
    tc_status st;

    (void)random;
    if (work->plan.flops < FEW)
        return tc_fail(err, TC_NO_MATCH, "takes hardly any time");
    if (item->nx < LEAST_SIDE || item->ny < LEAST_SIDE || (item->nz > 1 && item->nz < LEAST_SIDE))
        return TC_OK;
    st = make_coarse(work, out, &c, err);
    if (st == TC_OK) {
        set_params(work, *(const int64_t *)wu_output_data(out, "iterations_run"), &c);
        st = evolve(work, &c, err);
    }
    wu_pixels_free(&c.pixels);
    free(c.claimed);
    return st;
}

double ls_pixels_share(const void *params, const wu_item *item)
{
    (void)item;
    return ((const ls_params *)params)->band > 0 ? 0.07 : 0.023;
}
