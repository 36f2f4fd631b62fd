/*
 * levelset: checks, for a validator, whether a result's arrays can come from the item's pixels. The
 * result contains the side of the interface that each voxel was on at some re-initialisations. The
 * iterations from one of these re-initialisations to the next are a stretch (levelset.h). The check
 * computes some stretches again, and compares the sides at their ends.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/levelset/levelset.h"
#include "app/base/numbers.h"
#include "app/base/random.h"

enum {
    RANDOM = 3,       /* greatest number of stretches chosen at random that are repeated */
    LARGEST = 2,      /* greatest number of stretches that are repeated because more voxels change
                         sides in them than in the others */
    LARGEST_PART = 1, /* the same for the voxels that change sides as a part of those inside */
    AGAINST = 1,      /* the same for the voxels that change sides against the data term */
    NEAR = 4          /* check_reach: the distance up to which cubes of voxels are near */
};
/* Greatest number of stretches that choose_by_changes chooses: the first one, and those above. */
enum { BY_CHANGES = 1 + LARGEST + LARGEST_PART + AGAINST };
/* With a narrow band, repeating a stretch takes this many times as long as the stretch takes when
 * the whole item is computed. */
static const double ALONE = 1.7;
/* ls_check_end: limits of ls_claim. WRONG is for an outline at rest where phi is known exactly;
 * honest results have had 0 there, and at most 0.18 and 0.03 where WRONG_IF_UNKNOWN and
 * WRONG_IF_MOVING apply. */
static const double WRONG = 0.05, WRONG_IF_UNKNOWN = 0.25, WRONG_IF_MOVING = 0.1, DENIED = 0.5;
/* An item of fewer operations is computed again as a whole: that takes some hundredths of a second.
 */
static const double FEW = 6e7;

/* The kept sides of a result: kept sides i are the sides of all voxels at the i-th stored
 * re-initialisation. Stretch i leads from kept sides i to kept sides i + 1; the last stretch leads
 * to the mask. */
typedef struct evolution {
    const an_work *work;
    const ls_params *p;      /* the parameters of the item (ls_resolve) */
    const uint32_t *history; /* [voxels]: bit i: the voxel is inside in kept sides i */
    const uint8_t *mask;
    ls_force force;     /* of the item with the filter; empty if it is not used */
    int64_t every, run; /* iterations of a stretch, and of the whole evolution */
    bool converged;
    uint32_t kept;                   /* number of re-initialisations whose sides are kept */
    uint32_t moves;                  /* bit i: some voxel changes sides in stretch i */
    uint32_t inside;                 /* bit i: some voxel is inside in kept sides i */
    uint32_t outside;                /* bit i: some voxel is outside in kept sides i */
    size_t changes[LS_HISTORY_BITS]; /* number of voxels that change sides in each stretch */
    size_t gains[LS_HISTORY_BITS];   /* number of those of them that are inside at its end */
    size_t against[LS_HISTORY_BITS]; /* number of those of them that the data term pushes to the
                                        side that they leave */
    size_t first_inside;             /* number of voxels that are inside in kept sides 0 */
    uint64_t last_change; /* last iteration in which a voxel changed sides in the stretch that was
                             repeated last; the stretch's beginning if there is none */
} evolution;

/* Whether a voxel is inside in kept sides i; if i is w->kept, in the mask. */
static bool is_inside(const evolution *w, uint32_t i, size_t voxel)
{
    return i < w->kept ? w->history[voxel] >> i & 1 : w->mask[voxel];
}

/* Sets the members from `moves` to `first_inside`, and checks that the first kept sides are those
 * of the start. */
static tc_status gather_sides(evolution *w, tc_err *err)
{
    const wu_pixels *const px = w->work->pixels;
    const uint32_t last = w->kept - 1;
    size_t i = 0;

    for (uint32_t z = 0; z < px->nz; z++)
        for (uint32_t y = 0; y < px->ny; y++)
            for (uint32_t x = 0; x < px->nx; x++, i++) {
                /* The bits of the voxel's sides at the beginnings and at the ends of stretches. */
                const uint32_t sides = w->history[i];
                const uint32_t next = sides >> 1 | (uint32_t)w->mask[i] << last;

                /* Below 0 where the data term pushes the interface outwards. */
                const float data = sides == next ? 0
                                   : w->force.data != NULL
                                       ? w->force.data[i]
                                       : ls_data_term(w->p, (float)wu_grey_value(px, i));

                for (uint32_t moves = sides ^ next; moves != 0; moves &= moves - 1) {
                    const int k = __builtin_ctz(moves);

                    w->changes[k]++;
                    w->gains[k] += next >> k & 1;
                    w->against[k] += (next >> k & 1) != 0 ? data > 0 : data < 0;
                }
                w->first_inside += sides & 1;
                w->moves |= sides ^ next;
                w->inside |= sides;
                w->outside |= ~sides;
                if ((sides & 1) != ls_starts_inside(w->p, px, x, y, z))
                    return tc_fail(err, TC_BAD_INPUT,
                                   "the history does not begin with the sides of init");
            }
    return TC_OK;
}

/* Makes the state at the beginning of stretch `from`, right before its re-initialisation. */
static void begin_stretch(const evolution *w, uint32_t from, void *state)
{
    ls_head *const head = state;
    const size_t voxels = ls_size_of(w->work->item).voxels;

    head->head.chunks_done =
        (uint64_t)from * ls_history_every(w->p) * ((uint64_t)w->p->reinit_every + 1);
    head->last_change = (uint64_t)from * (uint64_t)w->every;
    for (size_t i = 0; i < voxels; i++)
        ls_phi(state)[i] = is_inside(w, from, i) ? -1.0f : 1.0f;
}

/* Repeats the stretches from kept sides `from` to kept sides `to`; if `to` is w->kept, to the mask
 * at the end of the evolution. Sets last_change. Returns TC_BAD_INPUT if they lead to other sides,
 * or if the evolution ends after another number of iterations or for another reason. */
static tc_status repeat_stretch(evolution *w, uint32_t from, uint32_t to, tc_err *err)
{
    const bool to_end = to == w->kept;
    const int64_t end = to_end ? w->run : to * w->every;
    const ls_size size = ls_size_of(w->work->item);
    ls_params p = *w->p;
    an_work work = *w->work;
    void *state;
    bool same = true;
    tc_status status;

    work.params = &p;
    if (!to_end) {
        p.iterations = end;
        p.stretch = true;
    }
    state = calloc(1, ls_state_bytes(&p, &size));
    if (state == NULL)
        return tc_no_memory(err, "levelset");
    begin_stretch(w, from, state);
    status = ls_compute(&work, state, err);
    for (size_t i = 0; status == TC_OK && same && i < size.voxels; i++)
        same = (ls_phi(state)[i] < 0) == is_inside(w, to, i);
    if (status == TC_OK) {
        const ls_head *const head = state;

        same = same && (int64_t)ls_iterations_at(&p, head->head.chunks_done) == end &&
               ls_has_converged(&p, head) == (to_end && w->converged);
        w->last_change = head->last_change;
    }
    free(state);
    return status == TC_OK && !same
               ? tc_fail(err, TC_BAD_INPUT,
                         "the sides in its history after %lld iterations do not lead to the sides "
                         "stored next",
                         (long long)from * (long long)w->every)
               : status;
}

/* Returns the index of the kept sides from which the end of the evolution must be repeated. These
 * are the last kept sides; but if the evolution has converged, the last ones before the final
 * stop_after iterations, in which no voxel may have changed sides, and at most number `moving`. */
static uint32_t find_tail(const evolution *w, uint32_t moving)
{
    const int64_t moved = w->run - w->p->stop_after; /* last iteration that may change sides */
    uint32_t from = w->kept - 1;

    while (w->converged && from > 0 && (from * w->every >= moved || from > moving))
        from--;
    return from;
}

/* Chooses the stretch that has the greatest size, of those of the first n that are not chosen yet.
 */
static void choose_one(const double size[], uint32_t n, uint32_t *chosen)
{
    uint32_t largest = n;

    for (uint32_t i = 0; i < n; i++)
        if ((*chosen >> i & 1) == 0 && (largest == n || size[i] > size[largest]))
            largest = i;
    if (largest < n)
        *chosen |= UINT32_C(1) << largest;
}

/* Chooses up to BY_CHANGES of the first n stretches: the first one; those in which the most
 * voxels change sides; those in which these are the greatest part of all that are inside before or
 * after; and those in which most of them change sides against the data term. A forged history that
 * jumps to made-up sides has such a stretch: by its part if the made-up sides are few and grow
 * later; against the data term if it leaves out a part of the structure that grows later. Returns a
 * mask: bit i is set if stretch i is chosen. */
static uint32_t choose_by_changes(const evolution *w, uint32_t n)
{
    uint32_t chosen = n > 0;
    double number[LS_HISTORY_BITS] = { 0 }, part[LS_HISTORY_BITS] = { 0 },
           against[LS_HISTORY_BITS] = { 0 };
    size_t inside = w->first_inside; /* number of voxels inside at the stretch's beginning */

    for (uint32_t i = 0; i < n; i++) {
        const size_t either = inside + w->gains[i];

        number[i] = (double)w->changes[i];
        against[i] = (double)w->against[i];
        part[i] = number[i] / (double)either;
        inside = either - (w->changes[i] - w->gains[i]);
    }
    for (int k = 0; k < LARGEST; k++)
        choose_one(number, n, &chosen);
    for (int k = 0; k < LARGEST_PART; k++)
        choose_one(part, n, &chosen);
    for (int k = 0; k < AGAINST; k++)
        choose_one(against, n, &chosen);
    return chosen;
}

/* Repeats some stretches. phi after a kept re-initialisation depends on the kept sides alone. So
 * once a stretch ends with the sides that it began with, or with all voxels on one side, no sides
 * can change any more: from there on, only this stretch is repeated. If there is no such stretch,
 * the stretch that ends at the mask is repeated, if the last kept sides are those of the mask. Also
 * repeated are the end of the evolution and, of the earlier stretches, those of choose_by_changes
 * and up to RANDOM others. Returns TC_NO_MATCH if kept sides change after they can no longer
 * change, or if the evolution goes on although it has converged by then. */
static tc_status check_stretches(evolution *w, uint64_t *random, tc_err *err)
{
    /* full: the number of stretches between kept sides; both: a mask of the kept sides with voxels
     * on both sides; tail: iterations follow after the last kept sides; n: the number of stretches
     * before the sides stop changing. */
    const uint32_t full = w->kept - 1, both = w->inside & w->outside;
    const bool tail = full * w->every < w->run;
    uint32_t n = 0, wanted, left, chosen;

    while (n < full && (w->moves & both) >> n & 1)
        n++;
    /* In kept sides n some voxels are inside and some outside. Otherwise n > 0, as the start has
     * voxels on both sides. */
    const bool rests = both >> n & 1;
    const uint32_t first = rests ? n : n - 1; /* the stretch after which no sides can change */
    const bool later = full > n && (w->moves & ~(UINT32_MAX << full)) >> n != 0;

    if (later || (!rests && tail && w->moves >> full & 1))
        return tc_fail(err, TC_NO_MATCH, "the history changes after it had stopped changing");
    if (first < full) {
        return_if_error(repeat_stretch(w, first, first + 1, err));
        /* Voxels that change sides and back in stretch n do so in all later ones, too. */
        const bool ended = !rests || w->last_change == (uint64_t)n * (uint64_t)w->every;

        if (ended && !w->converged && w->p->stop_after > 0 &&
            w->last_change + (uint64_t)w->p->stop_after <= (uint64_t)w->run)
            return tc_fail(err, TC_NO_MATCH,
                           "converged: is false, but no voxel changes sides after iteration %llu",
                           (unsigned long long)w->last_change);
    } else if (!tail && n > 0)
        return_if_error(repeat_stretch(w, --n, full, err));
    chosen = choose_by_changes(w, n);
    left = n - (uint32_t)__builtin_popcount(chosen);
    wanted = left < RANDOM ? left : RANDOM;
    if (tail && (rests || w->converged))
        return_if_error(repeat_stretch(w, find_tail(w, rests ? full : n - 1), w->kept, err));
    for (uint32_t i = 0; i < n; i++) {
        if ((chosen >> i & 1) == 0 && tc_random_below(left--, random) < wanted) {
            wanted--;
            chosen |= UINT32_C(1) << i;
        }
        if ((chosen >> i & 1) != 0)
            return_if_error(repeat_stretch(w, i, i + 1, err));
    }
    return TC_OK;
}

/* Sets *p to the parameters of the item, and *w to the evolution that the result claims, except for
 * the members that gather_sides sets. */
static tc_status begin_check(const an_work *work, const wu_output *out, ls_params *p, evolution *w,
                             tc_err *err)
{
    return_if_error(ls_resolve(work, p, err));
    *w = (evolution){ .work = work,
                      .p = p,
                      .mask = out->arrays[LS_OUT_MASK].data,
                      .every = (int64_t)ls_history_every(p) * p->reinit_every, /* iterations */
                      .run = *(const int64_t *)wu_output_data(out, "iterations_run"),
                      .converged = *(const uint8_t *)wu_output_data(out, "converged") != 0 };
    if (w->every > 0) {
        w->history = out->arrays[LS_OUT_HISTORY].data;
        w->kept = ls_history_count(p, w->run, w->converged);
    }
    return TC_OK;
}

uint64_t ls_most_steps(const void *params)
{
    const ls_params *const p = params;

    return p->stop_after > 0 ? (uint64_t)p->iterations : 0;
}

/* Checks that the outline rests at the mask of an item that has converged: no voxel changed sides
 * in the last stop_after iterations. If there was a re-initialisation in these, the mask gives phi
 * right after it; the iterations up to the next re-initialisation, or up to the end, are computed.
 */
static tc_status check_rest(const evolution *w, tc_err *err)
{
    const ls_params *const p = w->p;
    const int64_t every = p->reinit_every,
                  since = every > 0 ? (w->run - 1) % every + 1 : w->run; /* iterations after it */
    const bool known = since <= p->stop_after;
    const ls_claim rest = { .work = w->work,
                            .p = p,
                            .from = w->mask,
                            .to = w->mask,
                            .iterations = !known ? p->stop_after
                                          : every > 0 && since + every <= p->stop_after ? every
                                                                                        : since,
                            .wrong = known ? WRONG : WRONG_IF_UNKNOWN };

    return ls_check_claim(&rest, err);
}

/* Sets greatest[0] and greatest[1] to the greatest push of the data term inwards and outwards. It
 * pushes outwards most at the grey value nearest to the target. */
static void find_pushes(const evolution *w, double greatest[2])
{
    const wu_pixels *const px = w->work->pixels;
    const size_t voxels = ls_size_of(w->work->item).voxels;
    uint16_t least = UINT16_MAX, most = 0;

    if (px->bits == 8)
        for (size_t i = 0; i < voxels; i++) {
            least = px->u8[i] < least ? px->u8[i] : least;
            most = px->u8[i] > most ? px->u8[i] : most;
        }
    else
        for (size_t i = 0; i < voxels; i++) {
            least = px->u16[i] < least ? px->u16[i] : least;
            most = px->u16[i] > most ? px->u16[i] : most;
        }
    const double nearest = fmin(fmax(w->p->target, least), most);

    greatest[0] = fmax(0, fmax(ls_data_term(w->p, least), ls_data_term(w->p, most)));
    greatest[1] = fmax(0, -ls_data_term(w->p, (float)nearest));
}

/* Returns how far the outline can move at most in some iterations, about, in voxels. A ball of
 * radius r on the side to which it moves gets smaller by `push` and the curvature: after the time t
 * its radius is at least r - push t - sqrt((d - 1) (1 - alpha) t), with d axes. The margins are
 * for the errors of the upwind gradient, and for the re-initialisations, which round the outline
 * to voxels. */
static double reach_of(const evolution *w, int64_t iterations, double push)
{
    const ls_size size = ls_size_of(w->work->item);
    const int axes = (size.nx > 1) + (size.ny > 1) + (size.nz > 1);
    const double most = ls_max_time_step(w->p, &size), dt = w->p->cfl ? most : w->p->dt,
                 time = (double)iterations * dt, way = push * time,
                 bend = sqrt(fmax(axes - 1, 0) * (1 - w->p->alpha) * time);

    if (dt > most || !(time < INFINITY))
        return INFINITY;
    /* A re-initialisation moves the outline by at most half a voxel. */
    const int64_t reinits = w->p->reinit_every > 0 ? iterations / w->p->reinit_every + 1 : 0;
    const double rounding = 0.5 * (double)reinits;

    return 3 + 1.25 * way + fmin(0.75 * way, rounding) + 1.5 * bend;
}

/* Ors to each of n words those that are at most NEAR steps before or after it. */
static void spread(uint32_t *words, size_t n, size_t step, uint32_t *copy)
{
    for (size_t i = 0; i < n; i++)
        copy[i] = words[i * step];
    for (size_t i = 0; i < n; i++)
        for (size_t j = i - tc_smaller(i, NEAR); j < tc_smaller(i + NEAR + 1, n); j++)
            words[i * step] |= copy[j];
}

/* Checks that in each stretch the voxels that get inside (or outside, if `side` is 0) are near
 * those that are inside (outside) at its beginning: within `reach` voxels. Looks at cubes of at
 * least reach / NEAR voxels along each axis. */
static tc_status check_reach(const evolution *w, uint32_t side, double reach, tc_err *err)
{
    const wu_item *const item = w->work->item;
    const size_t size[3] = { item->nx, item->ny, item->nz };

    if (reach >= (double)(size[0] + size[1] + size[2]))
        return TC_OK;
    const size_t length = (size_t)ceil(reach / NEAR);
    const size_t nx = tc_div_ceil(size[0], length), ny = tc_div_ceil(size[1], length),
                 nz = tc_div_ceil(size[2], length), n = nx * ny * nz;
    TC_AUTOFREE uint32_t *const words = calloc(2 * n + nx + ny + nz, sizeof *words);
    const uint32_t flip = side ? 0 : UINT32_MAX, last = w->kept - 1;
    size_t i = 0;

    if (words == NULL)
        return tc_no_memory(err, "levelset");
    uint32_t *const before = words, *const change = words + n, *const copy = words + 2 * n;
    for (size_t z = 0; z < size[2]; z++)
        for (size_t y = 0; y < size[1]; y++) {
            const size_t row = (z / length * ny + y / length) * nx;

            for (size_t x = 0; x < nx; x++) {
                const size_t end = i + tc_smaller(length, size[0] - x * length);
                uint32_t any = 0, moves = 0;

                for (; i < end; i++) {
                    const uint32_t sides = w->history[i],
                                   next = sides >> 1 | (uint32_t)w->mask[i] << last;

                    any |= sides ^ flip;
                    moves |= (sides ^ next) & (next ^ flip);
                }
                before[row + x] |= any;
                change[row + x] |= moves;
            }
        }
    for (size_t k = 0; k < ny * nz; k++)
        spread(before + k * nx, nx, 1, copy);
    for (size_t k = 0; k < nx * nz; k++)
        spread(before + k / nx * nx * ny + k % nx, ny, nx, copy);
    for (size_t k = 0; k < nx * ny; k++)
        spread(before + k, nz, nx * ny, copy);
    for (size_t k = 0; k < n; k++)
        if ((change[k] & ~before[k]) != 0)
            return tc_fail(err, TC_NO_MATCH, "the outline moves further than it can");
    return TC_OK;
}

/* Checks, for both sides, that the outline moves no further than it can. */
static tc_status check_reaches(const evolution *w, tc_err *err)
{
    double pushes[2];

    find_pushes(w, pushes);
    for (uint32_t side = 0; side < 2; side++)
        return_if_error(
            check_reach(w, side, reach_of(w, w->kept > 1 ? w->every : w->run, pushes[side]), err));
    return TC_OK;
}

/* Checks the direction in which the outline moves in stretch i: computes the iterations up to the
 * next re-initialisation. from, to: [voxels]: memory that is used. */
static tc_status check_direction(const evolution *w, uint32_t i, uint8_t *from, uint8_t *to,
                                 tc_err *err)
{
    const int64_t every = w->p->reinit_every, left = w->run - i * w->every;
    const ls_claim direction = { .work = w->work,
                                 .p = w->p,
                                 .from = from,
                                 .to = to,
                                 .iterations = every > 0 && every < left ? every : left,
                                 .denied = DENIED,
                                 .wrong = WRONG_IF_MOVING };
    const size_t voxels = ls_size_of(w->work->item).voxels;

    for (size_t voxel = 0; voxel < voxels; voxel++) {
        from[voxel] = is_inside(w, i, voxel);
        to[voxel] = is_inside(w, i + 1, voxel);
    }
    return ls_check_claim(&direction, err);
}

/* Makes words with the sides of the start alone, for a result that keeps none. */
static uint32_t *make_start(const evolution *w)
{
    const wu_pixels *const px = w->work->pixels;
    uint32_t *const words = malloc(ls_size_of(w->work->item).voxels * sizeof *words);
    size_t i = 0;

    for (uint32_t z = 0; words != NULL && z < px->nz; z++)
        for (uint32_t y = 0; y < px->ny; y++)
            for (uint32_t x = 0; x < px->nx; x++, i++)
                words[i] = ls_starts_inside(w->p, px, x, y, z);
    return words;
}

tc_status ls_check_end(const an_work *work, const wu_output *out, tc_err *err)
{
    const size_t voxels = ls_size_of(work->item).voxels;
    TC_AUTOFREE uint8_t *const sides = malloc(2 * voxels);
    TC_AUTOFREE uint32_t *start = NULL;
    double against[LS_HISTORY_BITS] = { 0 };
    uint32_t chosen = 1;
    ls_params p;
    evolution w;

    if (sides == NULL)
        return tc_no_memory(err, "levelset");
    return_if_error(begin_check(work, out, &p, &w, err));
    if (w.converged)
        return_if_error(check_rest(&w, err));
    if (w.kept == 0) {
        w.history = start = make_start(&w);
        w.kept = 1;
        if (start == NULL)
            return tc_no_memory(err, "levelset");
    }
    return_if_error(gather_sides(&w, err));
    return_if_error(check_reaches(&w, err));
    for (uint32_t i = 0; i < w.kept; i++)
        against[i] = (double)w.against[i];
    choose_one(against, w.kept, &chosen);
    for (uint32_t i = 0; i < w.kept; i++)
        if (chosen >> i & 1)
            return_if_error(check_direction(&w, i, sides, sides + voxels, err));
    return TC_OK;
}

tc_status ls_check_pixels(const an_work *work, const wu_output *out, uint64_t *random, tc_err *err)
{
    ls_params p;
    evolution w;

    if (work->plan.flops < FEW)
        return tc_fail(err, TC_NO_MATCH, "is so small that it is computed again whole");
    return_if_error(begin_check(work, out, &p, &w, err));
    if (w.every == 0)
        return tc_fail(err, TC_NO_MATCH, "no sides are kept, from which a stretch could begin");
    if (p.smooth > 0) {
        ls_params filter = p;
        an_work filtered = *work;

        filter.edge_stop = 0;
        filtered.params = &filter;
        return_if_error(ls_force_make(&filtered, &w.force, err));
    }
    const tc_status status = gather_sides(&w, err);

    ls_force_free(&w.force);
    return_if_error(status);
    return_if_error(check_reaches(&w, err));
    return check_stretches(&w, random, err);
}

double ls_pixels_share(const an_work *work)
{
    const ls_params *const p = work->params;

    if (work->plan.flops < FEW || ls_history_every(p) == 0)
        return 1;
    /* Besides these stretches, check_stretches repeats two: the stretch after which no sides can
     * change, and the end of the evolution. */
    return fmin(1, (p->band > 0 ? ALONE : 1) * (RANDOM + BY_CHANGES + 2) /
                       (ls_history_count(p, p->iterations, false) - 1.0));
}
