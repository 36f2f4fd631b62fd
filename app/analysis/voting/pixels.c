/*
 * voting: checks whether an item's pixels can have given the points of a result. It computes the
 * points in some tiles of the item again. Tiles are chosen partly at random. Each is computed with
 * a margin so wide that the votes in the tile are nearly the same as if the whole item were
 * computed.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/analyses.h"
#include "app/analysis/voting/voting.h"
#include "app/base/array.h"
#include "app/base/random.h"

/* Lengths, in quarters of the radius. A tile is a box of pixels. */
enum {
    LEAST_SIDE = 8, /* least side of a tile */
    MOST_SIDE = 20, /* greatest side of a tile */
    MARGIN = 10     /* margin around a tile, unless margin_of returns a wider one */
};
/* STRATA tiles are around points. No two of these points are in the same third of the rows, of the
 * columns or of the slices. So made-up points are found even if they fill only one third. */
enum {
    STRATA = 3,
    STRATUM_DRAWS = 256 /* greatest number of random points that are tried for a stratum */
};
/* The numbers of tiles, not counting those that check_tiles adds until one has a point of the
 * result. */
enum {
    LARGE_TILES = 1 + STRATA,      /* those at points: one at many, and those in the strata */
    LEAST_TILES = 1 + LARGE_TILES, /* and one at a centre; further tiles are small */
    MOST_TILES = 32
};
/* find_centres looks for edges at random places, at least FEW_EDGES and one more for ONE_EDGE_IN
 * pixels of the item, and estimates votes beside at most LEAST_CENTRES to MOST_CENTRES of the
 * edges, one for ONE_CENTRE_IN pixels. Edges beside points count twice, as do all with the
 * threshold "auto", which is never above all but a few of many like peaks. */
enum {
    FEW_EDGES = 4096,
    ONE_EDGE_IN = 256,
    LEAST_CENTRES = 128,
    MOST_CENTRES = 8192,
    ONE_CENTRE_IN = 1024
};
/* The grid of grey values from which estimate_votes takes gradients: GRID values to a radius. */
enum { GRID = 4, GRID_SIDE = 2 * GRID + 3 };
/* The sectors of directions (sector_of): 24 in a stack; in a picture, 8 of these. */
enum { SECTORS = 24 };
/* find_centre begins this far from an edge, in radii, and estimates the votes of at most MOVES
 * places. */
static const double FROM_EDGE = 0.7;
enum { MOVES = 3 };
/* Places with less than this share of the greatest value so far are not moved. */
static const double HOPELESS = 0.03;
/* find_centre counts at most this many times the mean votes of points in each sector. */
static const double MOST = 1.5;
/* The number of random points that contrast_of_points and choose_faint compare and that
 * most_votes averages. */
enum { AROUND_POINTS = 64 };
/* contrast_of_points. */
enum { PLACES = 4, LOW = AROUND_POINTS / 8 };
/* The number of random points that the second tile is chosen from. */
enum { CROWDS = 16 };
/* find_centres uses all edges with this many times contrast_of_points. */
static const double ENOUGH = 0.7;
/* The least distance of a centre (find_centres) from all points of the result, in radii. */
static const double AWAY = 1.5;
/* A place that is farther than this many radii from all points is treated as being at this distance
 * from the nearest point. */
static const double FAR = 6;
/* The share of the item that a large tile has at most, margin included, unless it has the least
 * side. */
static const double SHARE = 0.025;
/* The number of tiles if one tile has the whole item; see count_tiles. */
static const double TILES = 0.8;
/* Tiles at centres and around points take this many times as long as others
 * (tests/bench/looks.py units). */
static const double CROWDED = 1.8;
/* Coordinates that differ by less than this, in pixels, count as equal: the difference is due to
 * rounding. */
static const double NEAR = 1e-6;
/* Scores in margins, and estimates of sums of scores, may be this many times the right ones, or as
 * many times less. */
static const double TOLERANCE = 1.2;
/* The number of standard errors by which an estimated sum of scores may be wrong. */
static const double ERRORS = 3;
/* The share of the sum of all scores that peaks may have of which no tile has any. */
static const double RARE = 0.05;
/* A peak in a margin that is nearer to a point of the result is taken to be this point, in radii.
 */
static const double SAME = 1;
/* The number of places that add_areas draws. */
enum { PLACES_OF_AREA = 200 };

/* --- tiles ----------------------------------------------------------------------------------- */

/* A tile of the item; axes are z, y, x. */
typedef struct tile {
    uint32_t from[3], size[3]; /* the tile with its margin: first pixel and size */
    double lo[3], hi[3];       /* bounds without the margin: lo <= coordinate < hi */
} tile;

/* A length along an axis, in pixels. quarters: the length in quarters of the radius, which is taken
 * to be shape.reach + 1 pixels, as reach is rounded down. */
static uint32_t length_of(const voting_scheme *s, int axis, uint32_t quarters)
{
    return (uint32_t)(s->shape.reach[axis] + 1) * quarters / 4;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* The margin around a tile along an axis, in pixels: at least two radii, for the votes and the
 * voters' turns, and the reach of the blur. */
static uint32_t margin_of(const voting_scheme *s, int axis)
{
    const uint32_t usual = length_of(s, axis, MARGIN),
                   blurred = length_of(s, axis, 8) + (uint32_t)s->shape.taps[axis];

    return usual > blurred ? usual : blurred;
}

/* The share of the item's pixels that a tile has, margin included. side: the tile's side, in
 * quarters of the radius. */
static double share_of_tile(const voting_scheme *s, uint32_t side)
{
    const uint32_t length[3] = { s->nz, s->ny, s->nx };
    double share = 1;

    for (int k = 0; k < 3; k++)
        share *=
            (double)smaller(length_of(s, k, side) + 2 * margin_of(s, k), length[k]) / length[k];
    return share;
}

/* The side of large tiles, in quarters of the radius: the greatest for which a tile has at most
 * SHARE of the item's pixels; LEAST_SIDE if there is none. */
static uint32_t choose_side(const voting_scheme *s)
{
    uint32_t side = MOST_SIDE;

    while (side > LEAST_SIDE && share_of_tile(s, side) > SHARE)
        side--;
    return side;
}

/* The number of tiles. It grows with the root of the number of small ones that the item has room
 * for. */
static size_t count_tiles(const voting_scheme *s)
{
    const double wanted = TILES / sqrt(share_of_tile(s, LEAST_SIDE));

    return wanted < LEAST_TILES ? LEAST_TILES : wanted > MOST_TILES ? MOST_TILES : (size_t)wanted;
}

/* The time that the tiles take, as a share of the time that the whole item takes. One small tile is
 * added for the choice of places. */
static double cost_of_tiles(const voting_scheme *s)
{
    return CROWDED * (LARGE_TILES * share_of_tile(s, choose_side(s)) +
                      (double)(count_tiles(s) + 1 - LARGE_TILES) * share_of_tile(s, LEAST_SIDE));
}

/* Returns the tile around a pixel, `place`. quarters: the tile's side, in quarters of the radius.
 * If the margin reaches the item's border, the tile is extended to the border, too. */
static tile tile_at(const voting_scheme *s, uint32_t quarters, const uint32_t place[3])
{
    const uint32_t length[3] = { s->nz, s->ny, s->nx };
    tile t;

    for (int k = 0; k < 3; k++) {
        const uint32_t side = smaller(length_of(s, k, quarters), length[k]),
                       margin = margin_of(s, k);
        const uint32_t lo =
            smaller(place[k] > side / 2 ? place[k] - side / 2 : 0, length[k] - side);
        const uint32_t from = lo > margin ? lo - margin : 0;

        t.from[k] = from;
        t.size[k] = smaller(lo + side + margin, length[k]) - from;
        t.lo[k] = from == 0 ? -1.0 : (double)lo;
        t.hi[k] = from + t.size[k] == length[k] ? length[k] : lo + side;
    }
    return t;
}

/* The number of pixels of the tile without its margin. */
static double pixels_of(const tile *t)
{
    double n = 1;

    for (int k = 0; k < 3; k++)
        n *= t->hi[k] - fmax(t->lo[k], 0);
    return n;
}

/* The tile with half of its margin, where peaks and scores are nearly right. */
static tile widen(const tile *t)
{
    tile wide = *t;

    for (int k = 0; k < 3; k++) {
        wide.lo[k] = (t->lo[k] + t->from[k]) / 2;
        wide.hi[k] = (t->hi[k] + t->from[k] + t->size[k]) / 2;
    }
    return wide;
}

/* Whether a point lies in the tile without its margin. */
static bool is_in(const tile *t, const double at[3])
{
    for (int k = 0; k < 3; k++)
        if (!(at[k] >= t->lo[k] && at[k] < t->hi[k]))
            return false;
    return true;
}

/* Finds all peaks of tile t, widened, whatever their score. part: the tile with its
 * margin, as an item, whose final state is `state`. */
static tc_status find_all_peaks(const an_work *part, const voting_scheme *s, const void *state,
                                const tile *t, voting_peaks *peaks, tc_err *err)
{
    voting_params params = *(const voting_params *)part->params;
    an_work all = *part;
    const tile wide = widen(t);
    size_t n = 0;

    all.params = &params;
    params.threshold = 0;
    params.refine = false;
    return_if_error(voting_find_points(&all, s, state, peaks, err));
    for (size_t i = 0; i < peaks->n; i++) {
        voting_peak peak = peaks->list[i];

        for (int k = 0; k < 3; k++)
            peak.point[k] += t->from[k];
        if (is_in(&wide, peak.point))
            peaks->list[n++] = peak;
    }
    peaks->n = n;
    return TC_OK;
}

/* Computes a tile with its margin again, and sets *found to its points with scores of at least
 * `least`, in coordinates of the item. s: the scheme of the item. Unless all is NULL, sets *all to
 * all peaks of the widened tile. */
static tc_status compute_tile(const an_work *work, const voting_scheme *s,
                              const voting_foreground *f, const tile *t, double least,
                              voting_peaks *found, voting_peaks *all, tc_err *err)
{
    voting_params params = *(const voting_params *)work->params;
    wu_item item = *work->item;
    TC_AUTO(wu_pixels_free) wu_pixels pixels = { .nx = 0 };
    an_work part = {
        .params = &params, .item = &item, .pixels = &pixels, .threads = work->threads
    };
    voting_scheme scheme;
    TC_AUTOFREE void *state = NULL;
    return_if_error(an_copy_box(work->pixels, t->from, t->size, &pixels, err));

    item.nz = t->size[0], item.ny = t->size[1], item.nx = t->size[2];
    params.threshold_auto = false;
    params.threshold = least;
    return_if_error(voting_scheme_init(&params, &item, item.name, &scheme, err));
    if (params.radius_per_image)
        return_if_error(voting_set_radius(&params, &item, s->radius, &scheme, err));
    scheme.shape.floor = s->shape.floor;
    scheme.shape.shift = s->shape.shift;
    memcpy(scheme.shape.inverse, s->shape.inverse, sizeof scheme.shape.inverse);
    return_if_error(an_voting.plan(&params, &item, &part.plan, err));
    state = calloc(1, part.plan.state_bytes);
    if (state == NULL)
        return tc_no_memory(err, "a tile");
    return_if_error(voting_cpu_run(&part, &scheme, state, err));
    if (all != NULL)
        return_if_error(find_all_peaks(&part, &scheme, state, t, all, err));
    return_if_error(voting_find_points(&part, &scheme, state, found, err));
    for (size_t i = 0; i < found->n; i++)
        for (int k = 0; k < 3; k++)
            found->list[i].point[k] += t->from[k];
    voting_keep_foreground(work->pixels, f, found);
    return TC_OK;
}

/* --- points ---------------------------------------------------------------------------------- */

/* Sets *peaks to the points of the result, in the result's order: the highest score comes first;
 * and to its threshold "auto" and sum of scores, if it has them. */
static tc_status claimed_points(const voting_params *p, const wu_output *out, voting_peaks *peaks,
                                tc_err *err)
{
    const wu_out_array *const point = wu_output_find(out, "point");
    const int64_t *const score = wu_output_data(out, "score");
    const size_t n = (size_t)point->info.shape[0], dims = (size_t)point->info.shape[1];

    *peaks = (voting_peaks){ .n = n, .room = n, .list = calloc(n + 1, sizeof *peaks->list) };
    if (peaks->list == NULL)
        return tc_no_memory(err, "the points");
    for (size_t i = 0; i < n; i++) {
        memcpy(peaks->list[i].point + 3 - dims, (const double *)point->data + i * dims,
               dims * sizeof(double));
        peaks->list[i].score = (uint32_t)score[i];
    }
    if (p->threshold_auto) {
        peaks->threshold = (uint32_t)*(const int64_t *)wu_output_data(out, "threshold");
        peaks->sum = (uint64_t)*(const int64_t *)wu_output_data(out, "peak_sum");
    }
    return TC_OK;
}

/* The distance of a place from the nearest point, in radii. rows: the points, in the order of their
 * y. Returns FAR if there is no point that is nearer than FAR. */
static double distance_to_points(const voting_scheme *s, const voting_peaks *rows,
                                 const double place[3])
{
    const double reach = FAR * (s->shape.reach[1] + 1.0);
    double least = FAR * FAR;
    size_t first = 0, end = rows->n;

    while (first < end) {
        const size_t middle = first + (end - first) / 2;

        if (rows->list[middle].point[1] < place[1] - reach)
            first = middle + 1;
        else
            end = middle;
    }
    for (size_t i = first; i < rows->n && rows->list[i].point[1] <= place[1] + reach; i++) {
        double sum = 0;

        for (int k = 0; k < 3; k++) {
            const double d = (rows->list[i].point[k] - place[k]) / (s->shape.reach[k] + 1.0);

            sum += d * d;
        }
        least = fmin(least, sum);
    }
    return sqrt(least);
}

/* A peak in a tile that is not among the points of the result. */
typedef struct other_peak {
    double score;
    bool is_point; /* it is a point: neither refinement nor the foreground excludes it */
    bool is_far;   /* it is AWAY from all points of the result */
    bool beside;   /* it is in the margin of its tile */
    bool again;    /* it is also in an earlier tile */
    bool drawn;    /* its tile is around a point */
} other_peak;

/* Numbers of pixels: [0] nearer to a point of the result than AWAY, [1] farther away; estimated. */
typedef struct areas {
    double of[2];
} areas;

/* Estimates the areas of a tile, without its margin, and adds them to *sum. */
static void add_areas(const voting_scheme *s, const voting_peaks *rows, const tile *t,
                      uint64_t *random, areas *sum)
{
    for (int i = 0; i < PLACES_OF_AREA; i++) {
        double at[3];

        for (int k = 0; k < 3; k++)
            at[k] = t->lo[k] + (t->hi[k] - t->lo[k]) * (double)(tc_random(random) >> 32) / 0x1p32;
        sum->of[distance_to_points(s, rows, at) >= AWAY] += pixels_of(t) / PLACES_OF_AREA;
    }
}

/* What the tiles have: `claimed` and `same` without their margins, the rest in the widened tiles.
 */
typedef struct evidence {
    size_t claimed, same; /* numbers of points of the result, and of those of them that were
                             computed again with the same score */
    double pixels;        /* number of pixels */
    areas drawn;          /* those of the tiles around points */
    size_t tiles;         /* number of the tiles in `seen` */
    tile seen[MOST_TILES];
    size_t n, room;     /* used and allocated elements of `others` */
    other_peak *others; /* with a fixed threshold only points */
} evidence;

/* Adds a peak that is not among the points of the result. */
static tc_status add_other(evidence *e, const voting_scheme *s, const voting_peaks *rows,
                           const tile *t, bool drawn, const voting_peak *peak, bool is_point,
                           tc_err *err)
{
    const bool beside = !is_in(t, peak->point);
    const double away = distance_to_points(s, rows, peak->point);
    bool again = false;

    if (beside && away < SAME)
        return TC_OK;
    other_peak *const list = tc_array_grow(e->others, e->n, &e->room, sizeof *list);
    if (list == NULL)
        return tc_no_memory(err, "the peaks");
    e->others = list;
    for (size_t i = 0; i < e->tiles; i++)
        again = again || is_in(&e->seen[i], peak->point);
    e->others[e->n++] = (other_peak){ .score = peak->score,
                                      .is_point = is_point,
                                      .is_far = away >= AWAY,
                                      .beside = beside,
                                      .again = again,
                                      .drawn = drawn };
    return TC_OK;
}

/* A sum of scores that is estimated from some peaks. */
typedef struct estimated_sum {
    double sum, squares; /* of scores, times their weights */
} estimated_sum;

static void add_score(estimated_sum *e, double weighted)
{
    e->sum += weighted;
    e->squares += weighted * weighted;
}

/* Sums of scores, for judge_threshold. */
typedef struct score_sums {
    double points, found;        /* of the points; of the other peaks in the tiles */
    double greater, far_greater; /* of those that are above the middle peak; of the points that
                                    are TOLERANCE times above it */
    double not_less;             /* of the points that are not below it */
    double any;                  /* of all other peaks of the item, estimated, rather too great */
    estimated_sum strong, weak;  /* of those that are not below it; of all, by tiles at points */
    double greatest_score;
} score_sums;

/* lo, hi: the bounds of the score of the middle peak; by_pixel: pixels of the item for one of the
 * tiles'. */
static score_sums add_scores(const voting_peaks *points, const areas *item, const evidence *e,
                             double by_pixel, double lo, double hi)
{
    score_sums sums = { .greatest_score = points->list[0].score };

    for (size_t i = 0; i < points->n; i++) {
        const double score = points->list[i].score;

        sums.points += score;
        sums.greater += score > hi ? score : 0;
        sums.far_greater += score > TOLERANCE * hi ? score : 0;
        sums.not_less += score >= lo ? score : 0;
    }
    for (size_t i = 0; i < e->n; i++) {
        const other_peak *const o = &e->others[i];
        const double least = o->beside ? o->score / TOLERANCE : o->score;

        sums.greatest_score = fmax(sums.greatest_score, o->score);
        sums.any += o->score * by_pixel;
        if (o->score >= lo)
            add_score(&sums.strong, o->score * by_pixel);
        if (o->drawn && e->drawn.of[o->is_far] > 0)
            add_score(&sums.weak, o->score * item->of[o->is_far] / e->drawn.of[o->is_far]);
        sums.found += o->again ? 0 : least;
        sums.greater += !o->again && least > hi ? least : 0;
    }
    return sums;
}

/* Judges the threshold "auto" of the result and the sum of the scores of all peaks, by the peaks in
 * the tiles. The score of the middle peak (voting_apply_threshold) has bounds that follow from the
 * threshold: greater scores are less than half of the sum, others that are not less the rest of it.
 */
static tc_status judge_threshold(const voting_peaks *points, const areas *item, const evidence *e,
                                 double by_pixel, tc_err *err)
{
    const double threshold = points->threshold, all = (double)points->sum,
                 lo = floor((threshold - 1) * 10 / 3) + 1, hi = floor(threshold * 10 / 3);
    const score_sums sums = add_scores(points, item, e, by_pixel, lo, hi);

    if (sums.points + sums.found > all ||
        TOLERANCE * (all - sums.points) < sums.weak.sum - ERRORS * sqrt(sums.weak.squares))
        return tc_fail(err, TC_NO_MATCH, "peak_sum: %.0f is less than the pixels give", all);
    if (2 * sums.greater >= all || 2 * sums.far_greater >= sums.points + sums.any)
        return tc_fail(err, TC_NO_MATCH, "threshold: %.0f is less than the pixels give", threshold);
    return lo > sums.greatest_score ||
                   2 * (sums.not_less + sums.strong.sum + lo + ERRORS * sqrt(sums.strong.squares)) <
                       (1 - RARE) * all
               ? tc_fail(err, TC_NO_MATCH, "threshold: %.0f is more than the pixels give",
                         threshold)
               : TC_OK;
}

/* Judges the points of the tiles that the result lacks. */
static tc_status judge_evidence(const voting_params *p, const voting_scheme *s,
                                const voting_peaks *points, const areas *item, const evidence *e,
                                tc_err *err)
{
    const double least = p->threshold_auto ? points->threshold : p->threshold,
                 pixels = (double)s->nz * s->ny * s->nx;
    size_t missing = 0;

    for (size_t i = 0; i < e->n; i++)
        missing += e->others[i].is_point &&
                   e->others[i].score >= (e->others[i].beside ? TOLERANCE * least : least);
    if (e->same < e->claimed || missing > 0)
        return tc_fail(err, TC_NO_MATCH,
                       "point: of %zu points in some tiles %zu were found again; %zu more were "
                       "computed",
                       e->claimed, e->same, missing);
    return p->threshold_auto ? judge_threshold(points, item, e, pixels / e->pixels, err) : TC_OK;
}

/* Whether two points have the same score and, except for rounding, the same coordinates. */
static bool is_same(const voting_peak *a, const voting_peak *b)
{
    return a->score == b->score && fabs(a->point[0] - b->point[0]) < NEAR &&
           fabs(a->point[1] - b->point[1]) < NEAR && fabs(a->point[2] - b->point[2]) < NEAR;
}

/* Whether a peak is a point in a list. */
static bool is_listed(const voting_peak *peak, const voting_peaks *points)
{
    for (size_t i = 0; i < points->n; i++)
        if (points->list[i].z == peak->z && points->list[i].y == peak->y &&
            points->list[i].x == peak->x)
            return true;
    return false;
}

/* Compares the points of the result in a tile with the points computed again (found), and adds
 * what is in the widened tile to *e. all: all peaks of the tile, or none. Each point of found is
 * the same as at most one of the result: its coordinates are then made NaN. */
static tc_status compare_points(const voting_scheme *s, const tile *t, const tile *wide, bool drawn,
                                const voting_peaks *claimed, const voting_peaks *rows,
                                voting_peaks *found, const voting_peaks *all, evidence *e,
                                tc_err *err)
{
    for (size_t i = 0; i < claimed->n; i++) {
        size_t k = 0;

        if (!is_in(t, claimed->list[i].point))
            continue;
        while (k < found->n && !is_same(&claimed->list[i], &found->list[k]))
            k++;
        e->claimed++;
        if (k < found->n) {
            e->same++;
            found->list[k].point[0] = NAN;
        }
    }
    e->pixels += pixels_of(wide);
    for (size_t k = 0; k < found->n; k++)
        if (is_in(wide, found->list[k].point))
            return_if_error(add_other(e, s, rows, t, drawn, &found->list[k], true, err));
    for (size_t k = 0; k < all->n; k++)
        if (!is_listed(&all->list[k], found))
            return_if_error(add_other(e, s, rows, t, drawn, &all->list[k], false, err));
    if (e->tiles < MOST_TILES)
        e->seen[e->tiles++] = *wide;
    return TC_OK;
}

/* The contrast at a place: the difference between the mean grey values of the two halves of a box
 * around it, divided along the axis that gives the greatest difference. The box reaches a quarter
 * of the radius to all sides, but at least one pixel along the axes along which pixels vote for
 * others. Single bright pixels hardly change the means of large boxes. Unless towards is NULL, sets
 * it to the differences along each axis, positive if a cell lies in this direction. */
static double contrast_at(const wu_pixels *px, const voting_scheme *s, const uint32_t place[3],
                          double towards[3])
{
    const uint32_t length[3] = { px->nz, px->ny, px->nx };
    uint32_t lo[3], hi[3], at[3];
    /* sums of grey values and numbers of pixels: [axis][half] */
    double sum[3][2] = { { 0 } }, n[3][2] = { { 0 } }, most = 0;

    for (int k = 0; k < 3; k++) {
        const uint32_t quarter = length_of(s, k, 1),
                       half = quarter == 0 && s->shape.reach[k] > 0 ? 1 : quarter;

        lo[k] = place[k] > half ? place[k] - half : 0;
        hi[k] = smaller(place[k] + half + 1, length[k]);
    }
    for (at[0] = lo[0]; at[0] < hi[0]; at[0]++)
        for (at[1] = lo[1]; at[1] < hi[1]; at[1]++)
            for (at[2] = lo[2]; at[2] < hi[2]; at[2]++) {
                const uint32_t v =
                    wu_grey_value(px, ((size_t)at[0] * px->ny + at[1]) * px->nx + at[2]);

                for (int k = 0; k < 3; k++)
                    if (at[k] != place[k]) {
                        sum[k][at[k] > place[k]] += v;
                        n[k][at[k] > place[k]]++;
                    }
            }
    for (int k = 0; k < 3; k++) {
        const double difference =
            n[k][0] > 0 && n[k][1] > 0 ? sum[k][1] / n[k][1] - sum[k][0] / n[k][0] : 0;

        most = fmax(most, fabs(difference));
        if (towards != NULL)
            towards[k] = s->shape.inverse[k] < 0 ? -difference : difference;
    }
    return most;
}

/* Sets place to the pixel of a point. */
static void pixel_of(const voting_scheme *s, const voting_peak *point, uint32_t place[3])
{
    const uint32_t length[3] = { s->nz, s->ny, s->nx };

    for (int k = 0; k < 3; k++)
        place[k] = smaller((uint32_t)(point->point[k] + 0.5), length[k] - 1);
}

/* Sets lo[] and hi[] to the bounds of a stratum, lo <= pixel < hi. stratum: its index along each
 * axis. It has at least one pixel, even if the item has fewer than STRATA along an axis. */
static void bounds_of_stratum(const voting_scheme *s, const unsigned stratum[3], uint32_t lo[3],
                              uint32_t hi[3])
{
    const uint32_t length[3] = { s->nz, s->ny, s->nx };

    for (int k = 0; k < 3; k++) {
        lo[k] = length[k] * stratum[k] / STRATA;
        hi[k] = length[k] * (stratum[k] + 1) / STRATA;
        hi[k] = hi[k] > lo[k] ? hi[k] : lo[k] + 1;
    }
}

/* Sets place to a random pixel of a box, lo <= pixel < hi. */
static void choose_pixel(const uint32_t lo[3], const uint32_t hi[3], uint64_t *random,
                         uint32_t place[3])
{
    for (int k = 0; k < 3; k++)
        place[k] = lo[k] + (uint32_t)tc_random_below(hi[k] - lo[k], random);
}

/* Sets place to the pixel of a random point. */
static void choose_point(const voting_scheme *s, const voting_peaks *points, uint64_t *random,
                         uint32_t place[3])
{
    pixel_of(s, &points->list[tc_random_below(points->n, random)], place);
}

/* A random one of the eighth of the points with the lowest scores. */
static const voting_peak *choose_weak(const voting_peaks *points, uint64_t *random)
{
    return &points->list[points->n - 1 - tc_random_below((points->n + 7) / 8, random)];
}

/* Compares two doubles, for qsort. */
static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* A low contrast of the points with the lowest scores: of each of AROUND_POINTS random ones the
 * greatest contrast (contrast_at) at PLACES random places within a radius, along each axis; of
 * these contrasts, ascending, the one of index LOW. */
static double contrast_of_points(const an_work *work, const voting_scheme *s,
                                 const voting_peaks *points, uint64_t *random)
{
    const uint32_t length[3] = { s->nz, s->ny, s->nx };
    double contrasts[AROUND_POINTS] = { 0 };

    for (int i = 0; i < AROUND_POINTS; i++) {
        uint32_t point[3], at[3];

        pixel_of(s, choose_weak(points, random), point);
        for (int n = 0; n < PLACES; n++) {
            for (int k = 0; k < 3; k++) {
                const uint32_t reach = (uint32_t)s->shape.reach[k] + 1,
                               end = smaller(point[k] + reach + 1, length[k]),
                               first = point[k] > reach ? point[k] - reach : 0;

                at[k] = first + (uint32_t)tc_random_below(end - first, random);
            }
            contrasts[i] = fmax(contrasts[i], contrast_at(work->pixels, s, at, NULL));
        }
    }
    qsort(contrasts, AROUND_POINTS, sizeof *contrasts, compare_doubles);
    return contrasts[LOW];
}

/* Sets grey to the sums of `parts` pixels each of a row, or adds them to it. row: the index of the
 * row's first pixel; at: columns. bits is px->bits: as a constant, it makes this fast. */
TC_ALWAYS_INLINE void sample_row(const wu_pixels *px, int bits, size_t row, const uint32_t *at,
                                 int parts, bool add, int32_t grey[GRID_SIDE])
{
    for (int i = 0; i < GRID_SIDE; i++, at += parts) {
        int32_t sum = bits == 8 ? px->u8[row + at[0]] : px->u16[row + at[0]];

        if (parts > 1)
            sum += bits == 8 ? px->u8[row + at[1]] : px->u16[row + at[1]];
        grey[i] = add ? grey[i] + sum : sum;
    }
}

/* Sets grey to grey values on a grid around a place: each, in a picture, the sum of four pixels. */
static void sample_around(const wu_pixels *px, const voting_scheme *s, const double place[3],
                          int32_t grey[GRID_SIDE * GRID_SIDE * GRID_SIDE])
{
    const uint32_t length[3] = { s->nz, s->ny, s->nx };
    const int parts = s->nz == 1 ? 2 : 1, n = GRID_SIDE * parts, slices = s->nz == 1 ? 1 : n;
    uint32_t at[3][2 * GRID_SIDE];

    for (int k = 0; k < 3; k++) {
        const double step = (s->shape.reach[k] + 1.0) / GRID / parts,
                     first = place[k] - step * (n - 1) / 2 + 0.5;

        for (int i = 0; i < n; i++) {
            const double v = first + step * i;

            at[k][i] = v < 0 ? 0 : smaller((uint32_t)v, length[k] - 1);
        }
    }
    for (int z = 0; z < slices; z++)
        for (int y = 0; y < n; y++) {
            const size_t row = ((size_t)at[0][z] * px->ny + at[1][y]) * px->nx;
            int32_t *const to = grey + (size_t)(z * GRID_SIDE + y / parts) * GRID_SIDE;

            if (px->bits == 8)
                sample_row(px, 8, row, at[2], parts, y % parts > 0, to);
            else
                sample_row(px, 16, row, at[2], parts, y % parts > 0, to);
        }
}

/* The sector of a direction: its longest axis and the signs along all axes. */
static int sector_of(int z, int y, int x)
{
    const int axis = abs(z) > abs(y) && abs(z) > abs(x) ? 2 : abs(y) > abs(x);

    return axis * 8 + (z > 0) * 4 + (y > 0) * 2 + (x > 0);
}

/* The votes of a place, estimated in arbitrary units. */
typedef struct estimate {
    double votes[SECTORS]; /* by the directions in which the voters are */
    double shift[3];       /* from the place to about where the gradients of the voters meet */
} estimate;

/* Estimates the votes of a place: the sums of the gradients, at the places of a grid within a
 * radius, that point to it within 30 degrees. */
static void estimate_votes(const an_work *work, const voting_scheme *s, const double place[3],
                           estimate *e)
{
    enum { ROW = GRID_SIDE, SLICE = GRID_SIDE * GRID_SIDE };
    const bool flat = s->nz == 1;
    const int sign = s->shape.inverse[2] < 0 ? 1 : -1, deep = flat ? 0 : GRID;
    int32_t grey[GRID_SIDE * GRID_SIDE * GRID_SIDE];
    double sum = 0;

    sample_around(work->pixels, s, place, grey);
    memset(e, 0, sizeof *e);
    for (int z = -deep; z <= deep; z++)
        for (int y = -GRID; y <= GRID; y++)
            for (int x = -GRID; x <= GRID; x++) {
                const int index = (z + deep + !flat) * SLICE + (y + GRID + 1) * ROW + x + GRID + 1,
                          d2 = z * z + y * y + x * x;
                const int32_t *const here = grey + index;

                if (d2 > GRID * GRID)
                    continue;
                const int64_t gz = flat ? 0 : here[SLICE] - here[-SLICE],
                              gy = here[ROW] - here[-ROW], gx = here[1] - here[-1],
                              dot = sign * (gz * z + gy * y + gx * x),
                              g2 = gz * gz + gy * gy + gx * gx;

                if (dot > 0 && 4 * dot * dot >= 3 * g2 * d2) {
                    const double weight = sqrt((double)g2), along = sign * (double)dot / (double)g2;

                    /* The vector to the nearest point of the line along the gradient is added. */
                    e->votes[sector_of(z, y, x)] += weight;
                    e->shift[0] += weight * (z - along * (double)gz);
                    e->shift[1] += weight * (y - along * (double)gy);
                    e->shift[2] += weight * (x - along * (double)gx);
                    sum += weight;
                }
            }
    /* If the lines have all directions, the point nearest to all is as many times as far away as
     * the mean of these vectors. */
    for (int k = 0; k < 3 && sum > 0; k++)
        e->shift[k] *= (flat ? 2 : 1.5) * (s->shape.reach[k] + 1.0) / GRID / sum;
}

/* Sets most[] to MOST times the mean estimate of votes of random points. */
static void most_votes(const an_work *work, const voting_scheme *s, const voting_peaks *points,
                       uint64_t *random, double most[SECTORS])
{
    memset(most, 0, SECTORS * sizeof *most);
    for (int i = 0; i < AROUND_POINTS; i++) {
        estimate e;

        estimate_votes(work, s, points->list[tc_random_below(points->n, random)].point, &e);
        for (int k = 0; k < SECTORS; k++)
            most[k] += e.votes[k] * MOST / AROUND_POINTS;
    }
}

/* A place that may be the centre of a cell without a point in the result. */
typedef struct centre {
    uint32_t place[3];
    double value; /* the fourth power of its estimated votes times its distance from the points */
} centre;
typedef struct centres {
    size_t n;
    centre *list;
} centres;

/* Sets *best to the place on the foreground of the greatest value beside an edge: a place near the
 * edge, or one to which the gradients lead from there. towards: contrast_at's; most: more estimated
 * votes than these in a sector count as these, so that strong edges on one side of a place count
 * less than weaker ones on all sides; greatest: the greatest value of other centres. */
static void find_centre(const an_work *work, const voting_scheme *s, const voting_foreground *f,
                        const voting_peaks *rows, const uint32_t edge[3], const double towards[3],
                        const double most[SECTORS], double greatest, centre *best)
{
    const uint32_t length[3] = { s->nz, s->ny, s->nx };
    double at[3], size = 0;

    for (int k = 0; k < 3; k++)
        size += towards[k] * towards[k];
    for (int k = 0; k < 3; k++)
        at[k] = edge[k] + FROM_EDGE * (s->shape.reach[k] + 1.0) * towards[k] / sqrt(size);
    best->value = 0;
    for (int i = 0; i < MOVES; i++) {
        double away, sum = 0, value;
        estimate e;

        for (int k = 0; k < 3; k++)
            at[k] = fmin(fmax(at[k], 0), length[k] - 1.0);
        away = distance_to_points(s, rows, at);
        if (away < AWAY)
            return;
        estimate_votes(work, s, at, &e);
        for (int k = 0; k < SECTORS; k++)
            sum += fmin(e.votes[k], most[k]);
        value = sum * sum * sum * sum * away;
        if (value > best->value && voting_is_foreground(work->pixels, f, at)) {
            best->value = value;
            for (int k = 0; k < 3; k++)
                best->place[k] = (uint32_t)(at[k] + 0.5);
        }
        if (value < HOPELESS * greatest)
            return;
        for (int k = 0; k < 3; k++)
            at[k] += e.shift[k];
    }
}

/* Compares two voting_peak by y, for qsort. */
static int compare_rows(const void *a, const void *b)
{
    const double y = ((const voting_peak *)a)->point[1], other = ((const voting_peak *)b)->point[1];

    return (y > other) - (y < other);
}

/* Finds centres beside edges at random places of the item. An edge with less contrast than ENOUGH
 * times that around points is left out at random, the more likely the less contrast it has. The
 * caller frees the list of *out. */
static tc_status find_centres(const an_work *work, const voting_scheme *s,
                              const voting_foreground *f, const voting_peaks *points,
                              const voting_peaks *rows, uint64_t *random, centres *out, tc_err *err)
{
    const uint32_t lo[3] = { 0, 0, 0 }, hi[3] = { s->nz, s->ny, s->nx };
    const size_t pixels = (size_t)s->nz * s->ny * s->nx, edges = FEW_EDGES + pixels / ONE_EDGE_IN,
                 wanted = pixels / ONE_CENTRE_IN,
                 most = wanted < LEAST_CENTRES  ? LEAST_CENTRES
                        : wanted > MOST_CENTRES ? MOST_CENTRES
                                                : wanted;
    const bool fixed = !((const voting_params *)work->params)->threshold_auto;
    const double enough = contrast_of_points(work, s, points, random) * ENOUGH;
    double most_of_sectors[SECTORS], greatest = 0;
    size_t n = 0;

    out->list = malloc(most * sizeof *out->list);
    if (out->list == NULL)
        return tc_no_memory(err, "the points");
    most_votes(work, s, points, random, most_of_sectors);
    for (size_t i = 0; i < edges && n < most; i++) {
        double towards[3], contrast;
        uint32_t at[3];

        choose_pixel(lo, hi, random, at);
        contrast = contrast_at(work->pixels, s, at, towards);
        if (contrast * contrast <= enough * enough * (double)(tc_random(random) >> 32) / 0x1p32)
            continue;
        find_centre(work, s, f, rows, at, towards, most_of_sectors, greatest, &out->list[out->n]);
        greatest = fmax(greatest, out->list[out->n].value);
        n += fixed && out->list[out->n].value > 0 ? 1 : 2;
        out->n += out->list[out->n].value > 0;
    }
    return TC_OK;
}

/* Sets place to the centre of the greatest value in a stratum, or in the whole item if stratum is
 * NULL; without one, to a random pixel. */
static void choose_centre(const voting_scheme *s, const centres *c, const unsigned stratum[3],
                          uint64_t *random, uint32_t place[3])
{
    uint32_t lo[3] = { 0, 0, 0 }, hi[3] = { s->nz, s->ny, s->nx };
    double most = 0;

    if (stratum != NULL)
        bounds_of_stratum(s, stratum, lo, hi);
    choose_pixel(lo, hi, random, place);
    for (size_t i = 0; i < c->n; i++) {
        const uint32_t *const at = c->list[i].place;
        bool better = c->list[i].value > most;

        for (int k = 0; k < 3; k++)
            better = better && at[k] >= lo[k] && at[k] < hi[k];
        if (better) {
            most = c->list[i].value;
            memcpy(place, at, sizeof c->list[i].place);
        }
    }
}

/* Removes the centres in a tile. */
static void remove_centres(const tile *t, centres *c)
{
    size_t n = 0;

    for (size_t i = 0; i < c->n; i++) {
        const uint32_t *const at = c->list[i].place;

        if (!is_in(t, (const double[]){ at[0], at[1], at[2] }))
            c->list[n++] = c->list[i];
    }
    c->n = n;
}

/* Sets place to a crowded point: of CROWDS random points, the one with the most points in a tile
 * around it.
 */
static void choose_crowd(const voting_scheme *s, const voting_peaks *points, uint32_t side,
                         uint64_t *random, uint32_t place[3])
{
    size_t most = 0;

    for (int i = 0; i < CROWDS; i++) {
        uint32_t at[3];
        size_t n = 0;

        choose_point(s, points, random, at);
        const tile t = tile_at(s, side, at);

        for (size_t k = 0; k < points->n; k++)
            n += is_in(&t, points->list[k].point);
        if (i == 0 || n > most) {
            most = n;
            memcpy(place, at, sizeof at);
        }
    }
}

/* The sum of the contrasts (contrast_at) at the six places that are a radius from a point, in both
 * directions along each axis. */
static double contrast_around(const an_work *work, const voting_scheme *s, const voting_peak *point)
{
    const uint32_t length[3] = { s->nz, s->ny, s->nx };
    uint32_t place[3], at[3];
    double sum = 0;

    pixel_of(s, point, place);
    for (int k = 0; k < 6; k++) {
        const uint32_t axis = k / 2, reach = (uint32_t)s->shape.reach[axis];

        memcpy(at, place, sizeof at);
        at[axis] = k % 2 != 0 ? smaller(at[axis] + reach, length[axis] - 1)
                              : at[axis] - smaller(at[axis], reach);
        sum += contrast_at(work->pixels, s, at, NULL);
    }
    return sum;
}

/* Sets place to the one of AROUND_POINTS random points that has the least ratio of the contrast
 * around it to its score, as this point may be made up. */
static void choose_faint(const an_work *work, const voting_scheme *s, const voting_peaks *points,
                         uint64_t *random, uint32_t place[3])
{
    double least = INFINITY;

    choose_point(s, points, random, place);
    for (int i = 0; i < AROUND_POINTS; i++) {
        const voting_peak *const point = &points->list[tc_random_below(points->n, random)];
        const double contrast = contrast_around(work, s, point) / point->score;

        if (contrast < least) {
            least = contrast;
            pixel_of(s, point, place);
        }
    }
}

/* Moves a place at random by up to 3/8 of a tile's side along each axis, so that the point at this
 * place is not always in the centre of the tile. */
static void move_place(const voting_scheme *s, uint64_t *random, uint32_t place[3])
{
    const uint32_t length[3] = { s->nz, s->ny, s->nx };

    for (int k = 0; k < 3; k++) {
        const uint32_t half = length_of(s, k, choose_side(s)) * 3 / 8,
                       at = place[k] + (uint32_t)tc_random_below(2 * half + 1, random);

        place[k] = at > half ? smaller(at - half, length[k] - 1) : 0;
    }
}

/* Chooses a random point in one of STRATA x STRATA x STRATA equal parts of the item. If none of
 * STRATUM_DRAWS random points is in that part, chooses, in a stack, one in the same slices, or
 * otherwise a random pixel of that part. */
static void choose_in_stratum(const voting_scheme *s, const voting_peaks *points,
                              const unsigned stratum[3], uint64_t *random, uint32_t place[3])
{
    uint32_t lo[3], hi[3];
    bool found = false;

    bounds_of_stratum(s, stratum, lo, hi);
    for (int i = 0; i < STRATUM_DRAWS; i++) {
        uint32_t at[3];
        bool in[3];

        choose_point(s, points, random, at);
        for (int k = 0; k < 3; k++)
            in[k] = at[k] >= lo[k] && at[k] < hi[k];
        if (!in[0])
            continue;
        if ((in[1] && in[2]) || (s->nz > 1 && !found)) {
            memcpy(place, at, sizeof at);
            found = true;
        }
        if (in[1] && in[2])
            return;
    }
    if (!found)
        choose_pixel(lo, hi, random, place);
}

/* Sets place to the centre of tile k of check_tiles. order: for each third of the rows, the third
 * of the slices [0] and of the columns [1] that is combined with it. */
static void choose_tile(const an_work *work, const voting_scheme *s, const voting_peaks *points,
                        const centres *c, size_t k, const unsigned order[2][STRATA],
                        uint64_t *random, uint32_t place[3])
{
    const size_t tiles = count_tiles(s);
    const unsigned row = (unsigned)(k - 2); /* the stratum; two tiles come before the strata */

    if (k == 1 || k >= tiles)
        choose_crowd(s, points, choose_side(s), random, place);
    else if (k > 1 && row < STRATA) {
        choose_in_stratum(s, points, (unsigned[]){ order[0][row], row, order[1][row] }, random,
                          place);
        move_place(s, random, place);
    } else if (k % 2 != 0) {
        /* n: the number of this tile among those at centres in strata. They take turns in the
         * strata that were not used above. */
        const unsigned n = (unsigned)(k - LEAST_TILES) / 2, y = order[0][n % STRATA],
                       shift = 1 + n / STRATA % (STRATA - 1);
        const unsigned stratum[3] = { (order[0][y] + shift) % STRATA, y,
                                      (order[1][y] + shift) % STRATA };

        choose_centre(s, c, stratum, random, place);
    } else if (k % 4 == 2)
        choose_faint(work, s, points, random, place);
    else
        choose_centre(s, c, NULL, random, place);
}

/* Sets order[] to a random order of the strata along an axis. As STRATA is a prime number, the
 * steps reach all strata. */
static void shuffle_strata(uint64_t *random, unsigned order[STRATA])
{
    const unsigned shift = (unsigned)tc_random_below(STRATA, random),
                   step = 1 + (unsigned)tc_random_below(STRATA - 1, random);

    for (unsigned i = 0; i < STRATA; i++)
        order[i] = (shift + step * i) % STRATA;
}

/* Computes tiles again and compares their points. The first tile is at a centre (find_centres) far
 * from all points, the second one is around many points, and three are in the strata. Of the other
 * tiles every second one is at a centre in a stratum, by turns, so that structures without points
 * do not get all of these tiles; the rest are by turns around faint points and at centres anywhere.
 * If no tile has a point of the result, tiles around points are added until one has. */
static tc_status check_tiles(const an_work *work, const voting_scheme *s,
                             const voting_foreground *f, const voting_peaks *points,
                             uint64_t *random, tc_err *err)
{
    const voting_params *const p = work->params;
    const size_t tiles = count_tiles(s);
    const uint32_t side = choose_side(s);
    const tile whole = { .lo = { 0, 0, 0 }, .hi = { s->nz, s->ny, s->nx } };
    TC_AUTOFREE voting_peak *const list = malloc(points->n * sizeof *list);
    const voting_peaks rows = { .n = points->n, .list = list };
    unsigned order[2][STRATA];
    evidence e = { .claimed = 0 };
    centres c = { 0, NULL };
    uint64_t places = ~*random; /* the seed of add_areas */
    areas item = { { 0, 0 } };

    if (list == NULL)
        return tc_no_memory(err, "the points");
    memcpy(list, points->list, points->n * sizeof *list);
    qsort(list, points->n, sizeof *list, compare_rows);
    tc_status status = find_centres(work, s, f, points, &rows, random, &c, err);

    shuffle_strata(random, order[0]);
    shuffle_strata(random, order[1]);
    for (size_t k = 0; status == TC_OK && (k < tiles || e.claimed == 0); k++) {
        voting_peaks found = { .n = 0 }, all = { .n = 0 };
        uint32_t place[3];
        tile t, wide;

        choose_tile(work, s, points, &c, k, order, random, place);
        const bool drawn = k >= 1 && k <= LARGE_TILES;

        t = tile_at(s, drawn ? side : LEAST_SIDE, place);
        wide = widen(&t);
        status = compute_tile(work, s, f, &t, p->threshold_auto ? 0 : p->threshold, &found,
                              p->threshold_auto ? &all : NULL, err);
        if (status == TC_OK)
            status = compare_points(s, &t, &wide, drawn, points, &rows, &found, &all, &e, err);
        if (p->threshold_auto && drawn)
            add_areas(s, &rows, &wide, &places, &e.drawn);
        remove_centres(&wide, &c);
        free(found.list);
        free(all.list);
    }
    free(c.list);
    if (p->threshold_auto)
        add_areas(s, &rows, &whole, &places, &item);
    if (status == TC_OK)
        status = judge_evidence(p, s, points, &item, &e, err);
    free(e.others);
    return status;
}

/* Whether all pixels are equal, so that no pixel is a voter. */
static bool is_flat(const wu_pixels *px)
{
    const size_t n = (size_t)px->nx * px->ny * px->nz;
    size_t i = 1;

    while (i < n && wu_grey_value(px, i) == wu_grey_value(px, 0))
        i++;
    return i == n;
}

/* Checks that all points are on the foreground. */
static tc_status check_foreground(const wu_pixels *px, const voting_foreground *f,
                                  const voting_peaks *points, tc_err *err)
{
    size_t n = 0;

    for (size_t i = 0; i < points->n; i++)
        n += !voting_is_foreground(px, f, points->list[i].point);
    return n == 0 ? TC_OK
                  : tc_fail(err, TC_BAD_INPUT, "point: %zu of %zu points are not on the foreground",
                            n, points->n);
}

/* --- the check ------------------------------------------------------------------------------- */

/* Sets *s to the scheme of the item. Checks that the result has the polarity and radius of the
 * pixels. */
static tc_status check_scheme(const an_work *work, const wu_output *out, voting_scheme *s,
                              tc_err *err)
{
    const voting_params *const p = work->params;
    bool dark = false;
    return_if_error(voting_scheme_init(p, work->item, work->item->name, s, err));

    return_if_error(voting_scheme_use_pixels(work, s, err));
    if (p->polarity == VOTING_AUTO) {
        return_if_error(voting_find_dark(work, &dark, err));
        if ((*(const uint8_t *)wu_output_data(out, "bright") != 0) == dark)
            return tc_fail(err, TC_BAD_INPUT, "bright: the picture gives the opposite value");
    }
    if (p->radius_per_image && *(const double *)wu_output_data(out, "radius") != s->radius)
        return tc_fail(err, TC_BAD_INPUT, "radius: the picture gives %g", s->radius);
    return TC_OK;
}

tc_status voting_check_pixels(const an_work *work, const wu_output *out, uint64_t *random,
                              tc_err *err)
{
    voting_peaks points = { .n = 0 };
    voting_foreground foreground;
    voting_scheme s;
    tc_status status = check_scheme(work, out, &s, err);

    if (status == TC_OK)
        status = claimed_points(work->params, out, &points, err);
    if (status == TC_OK)
        status = voting_find_foreground(work, &foreground, err);
    if (status == TC_OK)
        status = check_foreground(work->pixels, &foreground, &points, err);
    if (status == TC_OK && points.n == 0 && !is_flat(work->pixels))
        status = tc_fail(err, TC_NO_MATCH, "no points, in a picture that is not flat");
    if (status == TC_OK && points.n > 0 && cost_of_tiles(&s) >= 1)
        status = tc_fail(err, TC_NO_MATCH, "is too small to check only a part of it");
    if (status == TC_OK && points.n > 0)
        status = check_tiles(work, &s, &foreground, &points, random, err);
    free(points.list);
    return status;
}

double voting_pixels_share(const an_work *work)
{
    voting_scheme s;
    tc_err err;

    if (voting_scheme_init(work->params, work->item, work->item->name, &s, &err) != TC_OK)
        return 1;
    return fmin(cost_of_tiles(&s), 1);
}
