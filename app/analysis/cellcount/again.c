/*
 * cellcount: a spot check of a result. It computes a few random tiles of the picture again, each
 * with a margin so wide that its regions come out as in the whole picture, and compares these
 * regions with those of the result.
 */
#include <math.h>
#include <string.h>

#include "app/analysis/analyses.h"
#include "app/analysis/cellcount/cellcount.h"
#include "app/base/random.h"

/* The side of a tile without its margin, in pixels: SIDE_BOXES times the mean side of a region's
 * box, clamped to LEAST_SIDE to MOST_SIDE. */
enum { SIDE_BOXES = 5, LEAST_SIDE = 96, MOST_SIDE = 512 };
/* The margin around a tile is this share of its side, plus the distance within which a prepared
 * grey value depends on others. */
static const double MARGIN_SHARE = 0.25;
/* The bounds of the number of tiles. */
enum { LEAST_TILES = 4, MOST_TILES = 16 };
/* The share of the picture, margins included, that the tiles should have together. */
static const double TILES_SHARE = 0.16;
/* If LEAST_TILES would have more than this share of the picture, there is no spot check
 * (TC_NO_MATCH): the caller computes the whole picture again. */
static const double MOST_TILES_SHARE = 0.24;
/* The result passes only if at least this number of its regions were found again in the tiles. */
enum { LEAST_CONFIRMED = 4 };

typedef struct tile {
    uint32_t y, x, ny, nx;  /* first pixel in the picture and size, with the margin */
    int64_t y0, x0, y1, x1; /* half-open box: regions whose boxes lie within it are compared */
} tile;

/* Numbers of a tile's regions: `claimed` in the result, `computed` again, and the same in both. */
typedef struct region_counts {
    size_t claimed, computed, same;
} region_counts;

/* Returns a tile's side in pixels, from the boxes of the result's regions. */
static uint32_t choose_side(const wu_output *out)
{
    const wu_out_array *const boxes = wu_output_find(out, "region_bbox");
    const size_t n = (size_t)boxes->info.shape[0];
    const int64_t *b = boxes->data;
    double sum = 0, side;

    for (size_t i = 0; i < n; i++, b += 4)
        sum += (double)(b[2] - b[0] + b[3] - b[1]) / 2;
    side = n == 0 ? LEAST_SIDE : SIDE_BOXES * sum / (double)n;
    return side < LEAST_SIDE ? LEAST_SIDE : side > MOST_SIDE ? MOST_SIDE : (uint32_t)side;
}

/* Chooses a tile's range of pixels along one axis at random, in band number `band` of n. length,
 * side, tile_margin: those of the picture, the tile and its margin, in pixels. Sets *from and *size
 * to the tile with its margin, and [*lo, *hi) to the range of the regions to be compared: the tile
 * without its margin, extended to the picture's border if the margin reaches it. */
static void choose_range(uint32_t length, uint32_t side, uint32_t tile_margin, size_t band,
                         size_t n, uint64_t *random, uint32_t *from, uint32_t *size, int64_t *lo,
                         int64_t *hi)
{
    const uint32_t core = side < length ? side : length;
    const uint64_t places = length - core + 1, least = places * band / n,
                   bound = places * (band + 1) / n;
    const uint32_t first = (uint32_t)(least +
                                      tc_random_below(bound > least ? bound - least : 1, random)),
                   end = length - first - core > tile_margin ? first + core + tile_margin : length;

    *from = first > tile_margin ? first - tile_margin : 0;
    *size = end - *from;
    *lo = *from == 0 ? 0 : first;
    *hi = end == length ? length : first + core;
}

/* Analyses the tile as a picture of its own, with the threshold of the result. */
static tc_status compute_tile(const an_work *work, uint32_t threshold, const tile *t,
                              wu_output *out, tc_err *err)
{
    cc_params params = *(const cc_params *)work->params;
    wu_item item = *work->item;
    TC_AUTO(wu_pixels_free) wu_pixels pixels = { .nx = 0 };
    an_work tile_work = {
        .params = &params, .item = &item, .pixels = &pixels, .threads = work->threads
    };
    const uint32_t from[3] = { 0, t->y, t->x }, size[3] = { 1, t->ny, t->nx };
    tc_status status = an_copy_box(work->pixels, from, size, &pixels, err);

    item.ny = t->ny, item.nx = t->nx;
    params.window_auto = params.min_area_auto = 0;
    params.exclude_border = params.labels = false;
    if (cc_finds_threshold(&params)) {
        params.threshold_word = 0;
        params.threshold = (int32_t)threshold;
    }
    return_if_error(status);
    return_if_error(an_cellcount.plan(&params, &item, &tile_work.plan, err));
    return an_compute(&an_cellcount, &tile_work, 0, 0, out, err);
}

/* A row of the table of regions, in coordinates of the whole picture. */
typedef struct region {
    int64_t area, box[4];
    double mean, centre[2];
} region;

/* Returns row i of the table in `out`, which is the result of tile t or, if t is NULL, of the whole
 * picture. */
static region region_of(const wu_output *out, size_t i, const tile *t)
{
    const int64_t *const box = (const int64_t *)wu_output_data(out, "region_bbox") + 4 * i;
    const double *const centre = (const double *)wu_output_data(out, "region_centroid") + 2 * i;
    const uint32_t y = t != NULL ? t->y : 0, x = t != NULL ? t->x : 0;

    return (region){ .area = ((const int64_t *)wu_output_data(out, "region_area"))[i],
                     .box = { box[0] + y, box[1] + x, box[2] + y, box[3] + x },
                     .mean = ((const double *)wu_output_data(out, "region_mean"))[i],
                     .centre = { centre[0] + y, centre[1] + x } };
}

/* Whether a region lies in the tile and is not excluded for touching the picture's border. */
static bool is_in_tile(const cc_params *p, const wu_item *item, const tile *t, const region *r)
{
    const int64_t *const b = r->box;
    const bool at_border = b[0] == 0 || b[1] == 0 || b[2] == item->ny || b[3] == item->nx;

    return b[0] >= t->y0 && b[1] >= t->x0 && b[2] <= t->y1 && b[3] <= t->x1 &&
           !(at_border && p->exclude_border);
}

static bool is_same(const region *a, const region *b)
{
    return a->area == b->area && memcmp(a->box, b->box, sizeof a->box) == 0 && a->mean == b->mean &&
           fabs(a->centre[0] - b->centre[0]) < 1e-6 && fabs(a->centre[1] - b->centre[1]) < 1e-6;
}

/* Counts the tile's regions in the claimed result and in the recomputed one. */
static region_counts compare_regions(const an_work *work, const tile *t, const wu_output *claimed,
                                     const wu_output *recomputed)
{
    const size_t n = (size_t)wu_output_find(claimed, "region_item")->info.shape[0],
                 m = (size_t)wu_output_find(recomputed, "region_item")->info.shape[0];
    region_counts f = { .claimed = 0 };

    for (size_t k = 0; k < m; k++) {
        const region r = region_of(recomputed, k, t);

        f.computed += is_in_tile(work->params, work->item, t, &r);
    }
    for (size_t i = 0; i < n; i++) {
        const region r = region_of(claimed, i, NULL);
        bool same = false;

        if (!is_in_tile(work->params, work->item, t, &r))
            continue;
        f.claimed++;
        for (size_t k = 0; k < m && !same; k++) {
            const region other = region_of(recomputed, k, t);

            same = is_same(&r, &other);
        }
        f.same += same;
    }
    return f;
}

/* Whether, with these parameters, a region depends only on pixels near it. */
static bool is_local(const cc_params *p)
{
    return !p->min_contrast && !p->offset_percent && !p->full_area_auto;
}

tc_status cc_check_again(const an_work *work, const wu_output *out, uint32_t threshold,
                         uint32_t margin, uint64_t *random, tc_err *err)
{
    const wu_item *const item = work->item;
    const uint32_t side = choose_side(out), tile_margin = margin + (uint32_t)(MARGIN_SHARE * side);
    const double share =
        (side + 2.0 * tile_margin) * (side + 2.0 * tile_margin) / ((double)item->nx * item->ny);
    const size_t tiles = (size_t)fmin(fmax(TILES_SHARE / share, LEAST_TILES), MOST_TILES);
    size_t confirmed = 0, column[MOST_TILES];
    tc_status status = TC_OK;

    if (!is_local(work->params) || LEAST_TILES * share > MOST_TILES_SHARE)
        return TC_NO_MATCH;
    tc_random_order(tiles, column,
                    random); /* so that a tall or wide structure is met by some tile */
    for (size_t k = 0; status == TC_OK && k < tiles; k++) {
        wu_output recomputed = { .n = 0 };
        region_counts f = { .claimed = 0 };
        tile t;

        choose_range(item->ny, side, tile_margin, k, tiles, random, &t.y, &t.ny, &t.y0, &t.y1);
        choose_range(item->nx, side, tile_margin, column[k], tiles, random, &t.x, &t.nx, &t.x0,
                     &t.x1);
        status = compute_tile(work, threshold, &t, &recomputed, err);
        if (status == TC_OK)
            f = compare_regions(work, &t, out, &recomputed);
        wu_output_free(&recomputed);
        confirmed += f.same;
        if (status == TC_OK && (f.same < f.claimed || f.same < f.computed))
            status = TC_NO_MATCH;
    }
    return status == TC_OK && confirmed < LEAST_CONFIRMED ? TC_NO_MATCH : status;
}
