/*
 * voting: whether an item's pixels can have given these points. At some of them, and a radius
 * next to each, the votes of the first round are counted, before anybody turns: of those whose
 * gradient points there.
 */
#include <stdlib.h>
#include <string.h>

#include "app/analysis/voting/voting.h"
#include "app/base/random.h"

/* Of the points that are looked at, so many have more votes than what is next to them; and the
 * scores, of the last round, when the votes have come together, are so many times them. */
static const double MORE = 0.75, SCORE_LEAST = 0.5, SCORE_MOST = 1.8;
enum { LEAST_LOOKS = 24, MOST_LOOKS = 64 };
/* Where even the least costs much, so many that all agree are enough, and for each that does not so
 * many more. */
enum { AGREEING = 10, FOR_EACH_OTHER = 6 };
/* So many operations of the plan make room for a pixel that a look takes in, which takes so
 * many. */
static const double SHARE = 16000, LOOK_FLOPS = 16000.0 / 60;

/* The pixels around a place, as far as its ball, the gradient and the blur reach. */
typedef struct around {
    voting_scheme s;  /* of the box as an item; floor and shift: of the whole item */
    wu_pixels pixels; /* owned */
    uint32_t at[3];   /* of the place within the box */
    uint32_t *blurred, *scratch;
} around;

static void free_around(around *a)
{
    wu_pixels_free(&a->pixels);
    free(a->blurred);
    free(a->scratch);
}

static void copy_box(const wu_pixels *px, const uint32_t from[3], wu_pixels *box)
{
    const size_t bytes = px->bits / 8, row = box->nx * bytes;
    const unsigned char *const in = px->u8 != NULL ? px->u8 : (const unsigned char *)px->u16;
    unsigned char *out = box->u8 != NULL ? box->u8 : (unsigned char *)box->u16;

    for (uint32_t z = 0; z < box->nz; z++)
        for (uint32_t y = 0; y < box->ny; y++, out += row)
            memcpy(out,
                   in + (((size_t)(from[0] + z) * px->ny + from[1] + y) * px->nx + from[2]) * bytes,
                   row);
}

/* Blurs what the gradients in the ball are made of: the rest of the box is but for the blur. */
static void blur(around *a)
{
    const voting_scheme *const s = &a->s;
    uint32_t from[2], to[2];

    for (int k = 0; k < 2; k++) {
        const uint32_t length = (uint32_t)s->shape.n[k], reach = (uint32_t)s->shape.reach[k] + 1;

        from[k] = a->at[k] > reach ? a->at[k] - reach : 0;
        to[k] = length - a->at[k] > reach ? a->at[k] + reach + 1 : length;
    }
    for (uint32_t z = from[0]; z < to[0]; z++)
        voting_blur(s, &a->pixels, z, from[1], to[1], a->scratch,
                    a->blurred + ((size_t)z * s->ny + from[1]) * s->nx);
}

/* s: of the whole item. */
static tc_status take_box(const an_work *work, const voting_scheme *s, const uint32_t place[3],
                          around *a, tc_err *err)
{
    const wu_pixels *const px = work->pixels;
    const uint32_t length[3] = { px->nz, px->ny, px->nx };
    uint32_t from[3], size[3];
    size_t n;

    *a = (around){ .s = *s };
    for (int k = 0; k < 3; k++) {
        const uint32_t margin = (uint32_t)(s->shape.reach[k] + s->shape.taps[k] + 1);
        const uint32_t end = length[k] - place[k] > margin ? place[k] + margin + 1 : length[k];

        from[k] = place[k] > margin ? place[k] - margin : 0;
        size[k] = (end < length[k] ? end : length[k]) - from[k];
        a->at[k] = place[k] - from[k];
        a->s.shape.n[k] = (tc_i32)size[k];
    }
    a->pixels = (wu_pixels){
        .nz = a->s.nz = size[0], .ny = a->s.ny = size[1], .nx = a->s.nx = size[2], .bits = px->bits
    };
    n = a->s.n = (size_t)size[0] * size[1] * size[2];
    a->blurred = malloc(n * sizeof *a->blurred);
    a->scratch = malloc(voting_blur_scratch(&a->s, size[1]) * sizeof *a->scratch);
    a->pixels.u8 = px->bits == 8 ? malloc(n) : NULL;
    a->pixels.u16 = px->bits == 16 ? malloc(n * sizeof *a->pixels.u16) : NULL;
    if (a->blurred == NULL || a->scratch == NULL || (a->pixels.u8 == NULL && a->pixels.u16 == NULL))
        return tc_no_memory(err, "voting");
    copy_box(px, from, &a->pixels);
    blur(a);
    return TC_OK;
}

/* The weight of the voter at `at` if it votes for the place, which is at -d from it in the
 * unit of the scales. Most do not, and need no root. */
static uint32_t vote_of(const around *a, const uint32_t at[3], const double d[3], double distance,
                        double cos2)
{
    const voting_shape *const shape = &a->s.shape;
    const size_t i = ((size_t)at[0] * a->s.ny + at[1]) * a->s.nx + at[2];
    uint64_t length;
    int64_t g[3];
    double dot, square;

    voting_gradient(shape, a->blurred + i, (tc_i32)at[0], (tc_i32)at[1], (tc_i32)at[2], g);
    dot = -((double)g[0] * d[0] + (double)g[1] * d[1] + (double)g[2] * d[2]);
    square =
        (double)g[0] * (double)g[0] + (double)g[1] * (double)g[1] + (double)g[2] * (double)g[2];
    if (dot <= 0 || dot * dot < cos2 * square * distance)
        return 0;
    length = voting_length(g[0], g[1], g[2]);
    return length < shape->floor ? 0 : voting_weight(length, shape->root);
}

/* The votes of the first round at a place. */
static tc_status votes_at(const an_work *work, const voting_scheme *s, const uint32_t place[3],
                          double *votes, tc_err *err)
{
    const double cos2 = (double)s->cos2[0] / (1 << 20);
    around a;
    tc_status status = take_box(work, s, place, &a, err);

    *votes = 0;
    for (uint32_t z = 0; status == TC_OK && z < a.s.nz; z++)
        for (uint32_t y = 0; y < a.s.ny; y++)
            for (uint32_t x = 0; x < a.s.nx; x++) {
                const uint32_t at[3] = { z, y, x };
                double d[3], distance = 0;

                for (int k = 0; k < 3; k++) {
                    d[k] = ((double)at[k] - a.at[k]) * s->scale[k];
                    distance += d[k] * d[k];
                }
                if (distance <= (double)(s->radius64 * s->radius64))
                    *votes += vote_of(&a, at, d, distance, cos2);
            }
    free_around(&a);
    return status;
}

/* The pixel of a point of the result. */
static void place_of(const voting_scheme *s, const wu_output *out, size_t point, uint32_t place[3])
{
    const wu_out_array *const points = wu_output_find(out, "point");
    const size_t dims = (size_t)points->info.shape[1];
    const uint32_t length[3] = { s->nz, s->ny, s->nx };

    place[0] = 0;
    for (size_t k = 0; k < dims; k++) {
        const double v = ((const double *)points->data)[point * dims + k] + 0.5;
        const size_t axis = k + 3 - dims;

        place[axis] = v < length[axis] ? (uint32_t)v : length[axis] - 1;
    }
}

/* A place about a radius from another in its slice, along a row or a column. */
static void move_away(const voting_scheme *s, uint32_t place[3], uint64_t *random)
{
    const uint32_t length[3] = { s->nz, s->ny, s->nx };
    const size_t axis = 2 - (size_t)tc_random_below(2, random);
    const uint32_t reach = (uint32_t)s->shape.reach[axis], at = place[axis];
    const bool forth = tc_random_below(2, random) == 0 ? at + reach < length[axis] : at < reach;

    place[axis] = !forth                      ? at > reach ? at - reach : 0
                  : at + reach < length[axis] ? at + reach
                                              : length[axis] - 1;
}

/* What the looks at some points found. */
typedef struct evidence {
    size_t looks, more;   /* how often a point has more votes than the place next to it */
    double votes, scores; /* of the points */
} evidence;

static bool scores_suit(const evidence *e)
{
    return e->scores >= SCORE_LEAST * e->votes && e->scores <= SCORE_MOST * e->votes;
}

/* early: stops where few points say enough. */
static tc_status look_at_points(const an_work *work, const voting_scheme *s, const wu_output *out,
                                size_t looks, bool early, uint64_t *random, evidence *e,
                                tc_err *err)
{
    const uint64_t n = wu_output_find(out, "point_item")->info.shape[0];
    const int64_t *const score = wu_output_data(out, "score");
    tc_status status = TC_OK;

    for (bool enough = false; status == TC_OK && e->looks < looks && !enough;) {
        const size_t point = (size_t)tc_random_below(n, random);
        uint32_t place[3];
        double votes = 0, next = 0;

        place_of(s, out, point, place);
        status = votes_at(work, s, place, &votes, err);
        move_away(s, place, random);
        if (status == TC_OK)
            status = votes_at(work, s, place, &next, err);
        e->more += votes > next;
        e->votes += votes;
        e->scores += (double)score[point];
        e->looks++;
        enough =
            early && e->looks >= AGREEING + FOR_EACH_OTHER * (e->looks - e->more) && scores_suit(e);
    }
    return status;
}

/* In such a picture nobody votes. */
static bool is_flat(const wu_pixels *px)
{
    const size_t n = (size_t)px->nx * px->ny * px->nz;
    size_t i = 1;

    while (i < n && wu_grey(px, i) == wu_grey(px, 0))
        i++;
    return i == n;
}

/* How many looks the work has room for. */
static double room_for_looks(const an_work *work, const voting_scheme *s)
{
    double box = 1;

    for (int k = 0; k < 3; k++)
        box *= 2 * (s->shape.reach[k] + s->shape.taps[k]) + 3;
    return work->plan.flops / (SHARE * box);
}

/* Whether all points are on the foreground, if they have to be. */
static tc_status check_foreground(const an_work *work, const wu_output *out, tc_err *err)
{
    const wu_out_array *const point = wu_output_find(out, "point");
    const size_t n = (size_t)point->info.shape[0], dims = (size_t)point->info.shape[1];
    voting_peaks peaks = { .n = n, .room = n, .list = calloc(n + 1, sizeof *peaks.list) };
    tc_status status = peaks.list == NULL ? tc_no_memory(err, "the points") : TC_OK;

    for (size_t i = 0; status == TC_OK && i < n; i++)
        memcpy(peaks.list[i].at + 3 - dims, (const double *)point->data + i * dims,
               dims * sizeof(double));
    if (status == TC_OK)
        status = voting_keep_foreground(work, &peaks, err);
    if (status == TC_OK && peaks.n < n)
        status = tc_fail(err, TC_BAD_INPUT, "point: %zu of %zu points are not on the foreground",
                         n - peaks.n, n);
    free(peaks.list);
    return status;
}

tc_status voting_check_pixels(const an_work *work, const wu_output *out, uint64_t *random,
                              tc_err *err)
{
    const bool none = wu_output_find(out, "point_item")->info.shape[0] == 0;
    evidence e = { .looks = 0 };
    bool dark = false;
    voting_scheme s;
    size_t looks;
    double wanted;
    tc_status status = voting_scheme_init(work->params, work->item, work->item->name, &s, err);

    if (status == TC_OK)
        status = voting_levels_init(work, &s, err);
    if (status == TC_OK && ((const voting_params *)work->params)->polarity == VOTING_AUTO) {
        status = voting_find_dark(work, &dark, err);
        if (status == TC_OK && (*(const uint8_t *)wu_output_data(out, "bright") != 0) == dark)
            return tc_fail(err, TC_BAD_INPUT, "bright: is not as the picture has it");
    }
    if (status == TC_OK && ((const voting_params *)work->params)->own_radius &&
        *(const double *)wu_output_data(out, "radius") != s.radius)
        return tc_fail(err, TC_BAD_INPUT, "radius: is not as the picture has it");
    if (status == TC_OK)
        status = check_foreground(work, out, err);
    if (status != TC_OK)
        return status;
    wanted = room_for_looks(work, &s);
    looks = wanted < LEAST_LOOKS ? LEAST_LOOKS : wanted > MOST_LOOKS ? MOST_LOOKS : (size_t)wanted;
    if (none)
        return is_flat(work->pixels)
                   ? TC_OK
                   : tc_fail(err, TC_NO_MATCH, "no points, in a picture that is not flat");
    status = look_at_points(work, &s, out, looks, wanted < LEAST_LOOKS, random, &e, err);
    if (status != TC_OK)
        return status;
    if (((double)e.more < MORE * (double)e.looks || !scores_suit(&e)))
        return tc_fail(
            err, TC_NO_MATCH,
            "%zu of %zu points have more votes than their neighbourhood, and scores %.2f times "
            "as high",
            e.more, e.looks, e.scores / (e.votes + 1));
    return TC_OK;
}

double voting_pixels_share(const an_work *work)
{
    voting_scheme s;
    tc_err err;
    double room;

    if (voting_scheme_init(work->params, work->item, work->item->name, &s, &err) != TC_OK)
        return 1;
    room = room_for_looks(work, &s);
    return (room < LEAST_LOOKS  ? AGREEING + FOR_EACH_OTHER
            : room < MOST_LOOKS ? room
                                : MOST_LOOKS) *
           LOOK_FLOPS / (SHARE * room);
}
