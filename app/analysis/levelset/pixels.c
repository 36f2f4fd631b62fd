/*
 * levelset: whether an item's pixels can have given these arrays. Where an interface went can
 * only be found by letting it run again. In a band a result keeps sides on the way, and from some
 * of these it runs to the next. Else it runs on pixels f times as wide, of which there are f^2 or
 * f^3 times fewer, and with fewer steps.
 *
 * Such a pixel divides phi by f and leaves its gradient; curvature is multiplied by f. So in the
 * time of the fine pixels d phi / dt = (-alpha D / f + (1 - alpha) kappa / f^2) |grad phi|. How
 * long the fine steps are ("cfl") is known about; so the claimed mask must be where the interface
 * is at one of the times that may be the last one.
 */
#include <math.h>
#include <stdlib.h>

#include "app/analysis/common/edt.h"
#include "app/analysis/levelset/levelset.h"
#include "app/analysis/levelset/rows.h"
#include "app/base/os.h"
#include "app/base/random.h"

/* f of pictures and of stacks. Where these are too coarse to tell, pictures are looked at with that
 * of stacks, and stacks with FINER. */
enum { PICTURE = 5, STACK = 3, FINER = 2, LEAST_INSIDE = 24, LEAST_SIDE = 12 };
/* So many stretches of a band run again, of those that nothing makes suspicious. */
enum { STRETCHES = 4 };
/* What one takes by itself, compared with its part in a run. */
static const double ALONE = 1.7;
/* The last time is after so much of the iterations, as many as there are at least by the coarse
 * picture's fastest pixel: of honest results from two thirds on, of those with half of the
 * iterations to 0.55. */
static const double FROM = 0.6;
/* The masks are compared so often. */
enum { TIMES = 30 };
/* Twice the pixels that both masks have, divided by those of each: interfaces that followed the
 * same pixels are hardly ever below it; and so much more than a blank picture's. Or, as a blank
 * part of a picture moves an interface as a blank picture does, they are so few pixels apart, and
 * the start is farther away. */
static const double ALIKE = 0.85, MORE_ALIKE = 0.01, CLOSE = 1.8, MOVED = 5;
/* Who stops sooner has a mask that is so much more like an earlier one than the last ones. */
static const double SOONER = 0.005;
/* So few operations are done again at once: some hundredths of a second. */
static const double FEW = 6e7;
/* So many of honest results are in doubt and computed again, or looked at twice for so much. */
static const double DOUBTS = 0.08;
/* Classes of distances from the start, and their width. */
enum { CLASSES = 4096, MIDDLE = CLASSES / 2, PER_PIXEL = 8 };

typedef struct coarse {
    uint32_t f;
    ls_params own;      /* of the fine evolution, */
    const ls_params *p; /* here */
    wu_item item;
    wu_pixels pixels;         /* greys in 16 bits; owned */
    uint8_t *claimed;         /* the result's mask; owned */
    double scale;             /* of greys */
    uint64_t started, inside; /* pixels of the start and of the claimed mask */
    uint64_t rim;             /* of that mask, and 1 */
    float bound;              /* of the fine time step, by curvature */
    /* The evolution; all owned. */
    ls_size size;
    ls_force force;
    float *phi, *motion, *scratch;
    uint8_t *sides;
    an_pool *pool;
} coarse;

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* --- coarse pixels --------------------------------------------------------------------------- */

/* What a coarse pixel holds. */
typedef struct block {
    uint64_t grey;
    uint32_t pixels, claimed;
} block;

static block block_of(const wu_pixels *px, const uint8_t *mask, uint32_t f, uint32_t z0,
                      uint32_t y0, uint32_t x0)
{
    block b = { .grey = 0 };

    for (uint32_t z = z0; z < z0 + f && z < px->nz; z++)
        for (uint32_t y = y0; y < y0 + f && y < px->ny; y++)
            for (uint32_t x = x0; x < x0 + f && x < px->nx; x++) {
                const size_t i = ((size_t)z * px->ny + y) * px->nx + x;

                b.grey += wu_grey(px, i);
                b.claimed += mask[i];
                b.pixels++;
            }
    return b;
}

/* Greys, start and claimed mask. The start is phi's sign. */
static void shrink_item(const an_work *work, const uint8_t *mask, coarse *c)
{
    const wu_pixels *const px = work->pixels;
    const uint32_t f = c->f, half = f / 2;
    size_t i = 0;

    for (uint32_t z = 0; z < px->nz; z += f)
        for (uint32_t y = 0; y < px->ny; y += f)
            for (uint32_t x = 0; x < px->nx; x += f, i++) {
                const block b = block_of(px, mask, f, z, y, x);
                const bool start =
                    ls_starts_inside(c->p, px, smaller(x + half, px->nx - 1),
                                     smaller(y + half, px->ny - 1), smaller(z + half, px->nz - 1));

                c->pixels.u16[i] = (uint16_t)(c->scale * (double)b.grey / b.pixels + 0.5);
                c->claimed[i] = 2 * b.claimed >= b.pixels;
                c->phi[i] = start ? -1.0f : 1.0f;
                c->started += start;
                c->inside += c->claimed[i];
            }
}

static void free_coarse(coarse *c)
{
    an_pool_destroy(&c->pool);
    ls_force_free(&c->force);
    wu_pixels_free(&c->pixels);
    free(c->claimed);
    free(c->phi);
    free(c->motion);
    os_aligned_free(c->scratch);
    free(c->sides);
}

/* alpha -D / f and the factor at edges. */
static tc_status make_force(coarse *c, tc_err *err)
{
    const double f = c->f;
    ls_params p = *c->p;
    const an_work work = { .params = &p, .item = &c->item, .pixels = &c->pixels, .threads = 1 };

    p.target *= c->scale;
    p.epsilon *= c->scale;
    p.alpha /= f * c->scale;
    p.smooth = p.smooth / f < 0.3 ? 0 : p.smooth / f;
    p.edge_stop /= f * c->scale * f * c->scale;
    return ls_force_make(&work, &c->force, err);
}

static tc_status make_coarse(const an_work *work, const uint8_t *mask, uint32_t f, coarse *c,
                             tc_err *err)
{
    const wu_item *const item = work->item;
    const ls_size fine = ls_size_of(item);

    *c = (coarse){ .f = f, .p = &c->own, .item = *item, .scale = item->bits == 8 ? 257 : 1 };
    c->item.nx = c->pixels.nx = (item->nx + f - 1) / f;
    c->item.ny = c->pixels.ny = (item->ny + f - 1) / f;
    c->item.nz = c->pixels.nz = (item->nz + f - 1) / f;
    c->item.bits = c->pixels.bits = 16;
    c->size = ls_size_of(&c->item);
    return_if_error(ls_resolve(work, &c->own, err));
    c->bound = ls_bound(c->p, &fine);
    c->pixels.u16 = malloc(c->size.voxels * sizeof *c->pixels.u16);
    c->claimed = malloc(c->size.voxels);
    c->sides = malloc(c->size.voxels);
    c->phi = os_zeroed(c->size.voxels * sizeof *c->phi + LS_PAD_BYTES);
    c->motion = os_zeroed(c->size.voxels * sizeof *c->motion + LS_PAD_BYTES);
    c->scratch = os_aligned(ls_scratch_floats(c->size.nx, c->size.ny) * sizeof *c->scratch);
    if (c->pixels.u16 == NULL || c->claimed == NULL || c->sides == NULL || c->phi == NULL ||
        c->motion == NULL || c->scratch == NULL)
        return tc_no_memory(err, "levelset");
    return_if_error(an_pool_create(1, &c->pool, err));
    shrink_item(work, mask, c);
    return TC_OK;
}

/* --- the evolution --------------------------------------------------------------------------- */

/* phi becomes a distance, where there is an interface. */
static tc_status make_distance(coarse *c, tc_err *err)
{
    const edt_job edt = { .nx = c->size.nx,
                          .ny = c->size.ny,
                          .nz = c->size.nz,
                          .mask = c->sides,
                          .sides = EDT_BOTH,
                          .out = (uint32_t *)(void *)c->motion };
    size_t inside = 0;

    for (size_t i = 0; i < c->size.voxels; i++)
        inside += c->sides[i] = c->phi[i] < 0;
    if (inside == 0 || inside == c->size.voxels)
        return TC_OK;
    return_if_error(edt_transform(&edt, c->pool, 1, err));
    for (size_t i = 0; i < c->size.voxels; i++)
        c->phi[i] = ls_signed_distance(edt.out[i], c->sides[i]);
    return TC_OK;
}

/* How fast phi moves, and the most. */
static float find_motion(coarse *c)
{
    const ls_fields f = { .nx = c->size.nx,
                          .ny = c->size.ny,
                          .nz = c->size.nz,
                          .phi = c->phi,
                          .data = c->force.data,
                          .stop = c->force.stop,
                          .beta = (float)((1 - c->p->alpha) / (c->f * c->f)),
                          .out = c->motion };
    ls_found found = { 0 };

    const ls_box all = { 0, f.nx, 0, f.ny, 0, f.nz };

    ls_simd_fit(ls_simd_best(), f.nx)->step(&f, &all, c->scratch, &found);
    return found.most;
}

static void move_surface(coarse *c, float dt)
{
    ls_found found = { 0 };

    ls_simd_fit(ls_simd_best(), c->size.nx)->apply(c->phi, c->motion, c->size.voxels, dt, &found);
}

/* --- masks ----------------------------------------------------------------------------------- */

static double dice_coefficient(uint64_t both, uint64_t a, uint64_t b)
{
    return a + b == 0 ? 1 : 2 * (double)both / (double)(a + b);
}

/* How alike the claimed mask and the interface's are, and how far apart in fine pixels: pixels that
 * differ for one at the claimed mask's rim. */
typedef struct match {
    double alike, apart;
} match;

static match match_of(const coarse *c)
{
    uint64_t found = 0, both = 0;

    for (size_t i = 0; i < c->size.voxels; i++) {
        const bool in = c->phi[i] < 0;

        found += in;
        both += in & c->claimed[i];
    }
    return (match){ dice_coefficient(both, c->inside, found),
                    (double)(found + c->inside - 2 * both) * c->f / (double)c->rim };
}

/* Pairs of neighbours of which the claimed mask has one. */
static uint64_t count_rim(const coarse *c)
{
    const size_t nx = c->size.nx, slice = nx * c->size.ny;
    uint64_t rim = 0;

    for (size_t i = 0; i < c->size.voxels; i++) {
        const uint8_t in = c->claimed[i];

        rim += i % nx + 1 < nx && in != c->claimed[i + 1];
        rim += i % slice + nx < slice && in != c->claimed[i + nx];
        rim += i + slice < c->size.voxels && in != c->claimed[i + slice];
    }
    return rim;
}

/* Pixels at about one distance from the start. */
typedef struct ring {
    uint32_t all, claimed;
} ring;

/* How alike the claimed mask and the start are when that has grown or shrunk as much as is best:
 * what a blank picture gives. phi: the distance from the start. */
static tc_status likeness_when_blank(const coarse *c, double *alike, tc_err *err)
{
    ring *const rings = calloc(CLASSES, sizeof *rings);
    uint64_t found = 0, both = 0;

    *alike = 0;
    if (rings == NULL)
        return tc_no_memory(err, "levelset");
    for (size_t i = 0; i < c->size.voxels; i++) {
        const float at = c->phi[i] * PER_PIXEL + MIDDLE;
        ring *const r = &rings[at < 0 ? 0 : at < CLASSES ? (size_t)at : CLASSES - 1];

        r->all++;
        r->claimed += c->claimed[i];
    }
    for (size_t k = 0; k < CLASSES; k++) {
        found += rings[k].all;
        both += rings[k].claimed;
        *alike = fmax(*alike, dice_coefficient(both, c->inside, found));
    }
    free(rings);
    return TC_OK;
}

/* --- all of it ------------------------------------------------------------------------------- */

static void keep_better(match now, match *best)
{
    best->alike = fmax(best->alike, now.alike);
    best->apart = fmin(best->apart, now.apart);
}

/* How the masks match at best at a time that may be the last one, and at those before. */
static tc_status evolve(coarse *c, int64_t iterations, match *early, match *best, tc_err *err)
{
    const double all = (double)iterations, from = all * FROM;
    const double every = (double)c->p->reinit_every;
    double done = 0, next_look = 0, next_distance = every;
    tc_status status = TC_OK;

    *best = *early = (match){ 0, INFINITY };
    for (int64_t steps = 0; status == TC_OK && done < all && steps < iterations; steps++) {
        const float most = find_motion(c), f = (float)c->f;
        const double longest = c->p->cfl ? (double)ls_cfl(f * most, c->bound) : c->p->dt;
        double dt = (double)ls_cfl(most, f * f * c->bound);

        if (!(dt > 0 && longest > 0 && isfinite(most)))
            break;
        dt = fmin(dt, (all - done) * longest * (1 + 1e-9));
        move_surface(c, (float)dt);
        done += dt / longest;
        if (done >= next_look) {
            next_look = done + all / TIMES;
            keep_better(match_of(c), done >= from ? best : early);
        }
        if (every > 0 && done >= next_distance) {
            next_distance += (floor((done - next_distance) / every) + 1) * every;
            status = make_distance(c, err);
        }
    }
    keep_better(match_of(c), best);
    return status;
}

static tc_status look_at_surface(coarse *c, int64_t iterations, tc_err *err)
{
    match early, best = { 0, INFINITY }, start;
    double blank = 0;
    tc_status status = make_force(c, err);

    if (status == TC_OK)
        status = make_distance(c, err);
    if (status == TC_OK)
        status = likeness_when_blank(c, &blank, err);
    start = match_of(c);
    if (status == TC_OK)
        status = evolve(c, iterations, &early, &best, err);
    if (status == TC_OK && early.alike > best.alike + SOONER)
        return tc_fail(err, TC_NO_MATCH,
                       "the mask is where the interface is before (likeness %.3f, at the end %.3f)",
                       early.alike, best.alike);
    /* Curvature alone treats all pictures as blank. */
    if (c->p->alpha == 0 && c->p->edge_stop == 0)
        blank = 0;
    return status != TC_OK ||
                   (best.alike >= ALIKE && (best.alike >= fmin(blank + MORE_ALIKE, 1) ||
                                            (best.apart <= CLOSE && start.apart >= MOVED)))
               ? status
               : tc_fail(err, TC_NO_MATCH,
                         "the mask is not where the interface goes (likeness %.2f, to a blank "
                         "picture's %.2f)",
                         best.alike, blank);
}

static tc_status look_at(const an_work *work, const wu_output *out, uint32_t f, tc_err *err)
{
    TC_AUTO(free_coarse) coarse c;
    return_if_error(make_coarse(work, out->arrays[LS_OUT_MASK].data, f, &c, err));

    c.rim = count_rim(&c) + 1;
    if (f == PICTURE && (c.started < LEAST_INSIDE || c.inside < LEAST_INSIDE))
        return tc_fail(err, TC_NO_MATCH, "too little inside");
    return look_at_surface(&c, *(const int64_t *)wu_output_data(out, "iterations_run"), err);
}

/* --- a band: stretches ----------------------------------------------------------------------- */

/* A result's way from the start to its mask. Stretch i goes from the sides that are kept as i to
 * the next, or the last of them to the mask. */
typedef struct way {
    const an_work *work;
    const ls_params *p; /* of the item */
    const uint32_t *history;
    const uint8_t *mask;
    int64_t every, run; /* iterations of a stretch, and all */
    bool converged;
    uint32_t kept;
    uint32_t moves, inside, outside; /* bits: sides that differ from the next ones; that a voxel is
                                        on */
} way;

static bool is_inside(const way *w, uint32_t kept, size_t voxel)
{
    return kept < w->kept ? w->history[voxel] >> kept & 1 : w->mask[voxel];
}

/* Bits of all the sides, and whether the first are the start's. */
static tc_status gather_sides(way *w, tc_err *err)
{
    const wu_pixels *const px = w->work->pixels;
    const uint32_t last = w->kept - 1;
    size_t i = 0;

    for (uint32_t z = 0; z < px->nz; z++)
        for (uint32_t y = 0; y < px->ny; y++)
            for (uint32_t x = 0; x < px->nx; x++, i++) {
                const uint32_t sides = w->history[i];
                const uint32_t next = sides >> 1 | (uint32_t)w->mask[i] << last;

                w->moves |= sides ^ next;
                w->inside |= sides;
                w->outside |= ~sides;
                if ((sides & 1) != ls_starts_inside(w->p, px, x, y, z))
                    return tc_fail(err, TC_BAD_INPUT, "the history begins elsewhere than at init");
            }
    return TC_OK;
}

/* The state at the beginning of stretch `from`. */
static void begin_stretch(const way *w, uint32_t from, void *state)
{
    ls_head *const head = state;
    const size_t voxels = ls_size_of(w->work->item).voxels;

    head->head.chunks_done =
        (uint64_t)from * ls_kept_every(w->p) * ((uint64_t)w->p->reinit_every + 1);
    head->last_change = (uint64_t)from * (uint64_t)w->every;
    for (size_t i = 0; i < voxels; i++)
        ls_phi(state)[i] = is_inside(w, from, i) ? -1.0f : 1.0f;
}

/* Whether what goes on from the sides that are kept as `from` is at those kept as `to` then. */
static tc_status repeat_stretch(const way *w, uint32_t from, uint32_t to, tc_err *err)
{
    const bool to_end = to == w->kept;
    const ls_size size = ls_size_of(w->work->item);
    ls_params p = *w->p;
    an_work work = *w->work;
    void *worker = NULL, *state;
    uint64_t chunks = 0;
    bool same = true;
    tc_status status;

    work.params = &p;
    if (!to_end) {
        p.iterations = to * w->every;
        p.stop_after = 0;
        p.stretch = true;
    }
    state = calloc(1, ls_state_bytes(&p, &size));
    if (state == NULL)
        return tc_no_memory(err, "levelset");
    begin_stretch(w, from, state);
    status = ls_cpu.open(&work, state, &worker, err);
    if (status == TC_OK)
        status = TC_MORE;
    while (status == TC_MORE)
        status = ls_cpu.step(worker, state, &chunks, err);
    if (status == TC_OK)
        status = ls_cpu.sync(worker, state, err);
    if (worker != NULL)
        ls_cpu.close(&worker);
    for (size_t i = 0; status == TC_OK && same && i < size.voxels; i++)
        same = (ls_phi(state)[i] < 0) == is_inside(w, to, i);
    if (status == TC_OK && to_end) {
        const ls_head *const head = state;

        same = same && (int64_t)ls_iterations_at(&p, head->head.chunks_done) == w->run &&
               ls_has_converged(&p, head) == w->converged;
    }
    free(state);
    return status == TC_OK && !same
               ? tc_fail(err, TC_BAD_INPUT,
                         "what its history has after %lld iterations does not lead to what it has "
                         "later",
                         (long long)from * (long long)w->every)
               : status;
}

/* The last stretch, to the end. What has converged has not moved for stop_after iterations, and is
 * followed from before these. */
static uint32_t find_tail(const way *w, uint32_t moving)
{
    const int64_t moved = w->run - w->p->stop_after;
    uint32_t from = w->kept - 1;

    while (w->converged && from > 0 && (from * w->every >= moved || from > moving))
        from--;
    return from;
}

/* From when on the sides stay as they are, for the same sides go the same way, or are all the same
 * one, phi is not followed: the stretch that says so is repeated, and those before it by `random`.
 */
static tc_status check_way(way *w, uint64_t *random, tc_err *err)
{
    const uint32_t full = w->kept - 1, both = w->inside & w->outside;
    const bool tail = full * w->every < w->run;
    uint32_t n = 0, wanted, left;

    while (n < full && (w->moves & both) >> n & 1)
        n++;
    const bool rests = both >> n & 1; /* else it has vanished, or fills everything */
    const bool later = full > n && (w->moves & ~(UINT32_MAX << full)) >> n != 0;

    if (later || (!rests && tail && w->moves >> full & 1))
        return tc_fail(err, TC_NO_MATCH, "it moves after it stood still");
    left = n;
    wanted = left < STRETCHES ? left : STRETCHES;
    if (rests && n < full)
        return_if_error(repeat_stretch(w, n, n + 1, err));
    if (tail && (rests || w->converged))
        return_if_error(repeat_stretch(w, find_tail(w, rests ? full : n - 1), w->kept, err));
    for (uint32_t i = 0; i < n; i++, left--)
        if (tc_random_below(left, random) < wanted) {
            wanted--;
            return_if_error(repeat_stretch(w, i, i + 1, err));
        }
    return TC_OK;
}

static tc_status look_at_band(const an_work *work, const wu_output *out, uint64_t *random,
                              tc_err *err)
{
    ls_params p;
    way w = { .work = work, .p = &p, .mask = out->arrays[LS_OUT_MASK].data };
    return_if_error(ls_resolve(work, &p, err));
    if (ls_kept_every(&p) == 0)
        return tc_fail(err, TC_NO_MATCH, "keeps nothing to go on from");
    w.history = out->arrays[LS_OUT_HISTORY].data;
    w.every = (int64_t)ls_kept_every(&p) * p.reinit_every;
    w.run = *(const int64_t *)wu_output_data(out, "iterations_run");
    w.converged = *(const uint8_t *)wu_output_data(out, "converged") != 0;
    w.kept = ls_kept_count(&p, w.run, w.converged);
    return_if_error(gather_sides(&w, err));
    return check_way(&w, random, err);
}

tc_status ls_check_pixels(const an_work *work, const wu_output *out, uint64_t *random, tc_err *err)
{
    const wu_item *const item = work->item;
    const bool large = item->nz == 1 && smaller(item->nx, item->ny) >= PICTURE * LEAST_SIDE;
    const uint32_t f[2] = { large ? PICTURE : STACK, large ? STACK : FINER };
    tc_status status = TC_NO_MATCH;

    if (work->plan.flops < FEW)
        return tc_fail(err, TC_NO_MATCH, "takes hardly any time");
    if (((const ls_params *)work->params)->band > 0)
        return look_at_band(work, out, random, err);
    if (item->nx < LEAST_SIDE || item->ny < LEAST_SIDE || (item->nz > 1 && item->nz < LEAST_SIDE))
        return tc_fail(err, TC_NO_MATCH, "is too narrow for a coarser one");
    for (int k = 0; k < 2 && status == TC_NO_MATCH; k++)
        status = look_at(work, out, f[k], err);
    return status;
}

double ls_pixels_share(const an_work *work)
{
    const ls_params *const p = work->params;

    if (work->plan.flops < FEW || (p->band > 0 && ls_kept_every(p) == 0))
        return 1;
    return p->band > 0
               ? fmin(1, ALONE * (STRETCHES + 1) / (ls_kept_count(p, p->iterations, false) - 1.0))
               : DOUBTS + (work->item->nz > 1 ? 0.024 : 0.02);
}
