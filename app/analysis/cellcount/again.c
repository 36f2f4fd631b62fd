/*
 * cellcount: a spot check of a result. It computes a few random tiles of the picture again, each
 * with a margin so wide that its regions come out as in the whole picture, and compares these
 * regions with those of the result. The inner part of a tile, without the margin, is called its
 * core. Where the margin reaches the picture's border, the core extends to the border.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/analyses.h"
#include "app/analysis/cellcount/cellcount.h"
#include "app/base/random.h"

/* The side of a tile's core is BOXES_PER_SIDE times the mean side of the boxes of regions, but at
 * least LEAST_SIDE and at most MOST_SIDE pixels. */
enum { BOXES_PER_SIDE = 5, LEAST_SIDE = 96, MOST_SIDE = 512 };
/* The width of the margin around a core is this share of the core's side, plus cc_check_again's
 * `margin`. That is how far away a pixel of the picture can still change a grey value after the
 * filters that precede the threshold. */
static const double MARGIN_SHARE = 0.25;
/* The bounds of the number of tiles. */
enum { LEAST_TILES = 4, MOST_TILES = 16 };
/* The number of tiles is chosen such that their areas, with margins, add up to this share of the
 * picture's area. */
static const double TILES_SHARE = 0.16;
/* If the areas of LEAST_TILES tiles add up to more than this share of the picture's area, there is
 * no spot check (TC_NO_MATCH): the caller computes the whole picture again. */
static const double MOST_TILES_SHARE = 0.24;
/* The least number of the result's regions that must be found again in the tiles. */
enum { LEAST_CONFIRMED = 4 };
/* At most 1 / CUT_DIVISOR of the pixels of recomputed regions may be in regions that are too large
 * for their tiles (is_cut), and so may those of regions of the result that reach out of a core and
 * were not computed again. */
enum { CUT_DIVISOR = 8 };
/* Of the pixels of regions that overlap the cores, at least 1 / COMPARED_DIVISOR must be in regions
 * that were compared. */
enum { COMPARED_DIVISOR = 4 };

typedef struct tile {
    uint32_t y, x, ny, nx;  /* first pixel in the picture and size, with the margin */
    int64_t y0, x0, y1, x1; /* half-open box of the core; regions whose boxes lie within are
                               compared */
} tile;

/* Counts of a tile's regions. */
typedef struct region_counts {
    size_t claimed;   /* regions of the result within the core */
    size_t computed;  /* recomputed regions within the core */
    size_t same;      /* regions of the result that were computed again */
    int64_t pixels;   /* pixels of all regions that were computed again, margin included */
    int64_t cut;      /* pixels of recomputed regions that the tile may cut off (is_cut), and which
                         therefore are not compared */
    int64_t inner;    /* pixels of recomputed regions whose boxes overlap the core */
    int64_t compared; /* pixels of recomputed regions that are compared */
    int64_t reaching; /* pixels of regions of the result that overlap the core, do not lie within it
                         and were not computed again */
} region_counts;

/* Returns the side of a core, in pixels, which follows from the boxes of the result's regions. */
static uint32_t choose_side(const wu_output *out)
{
    const wu_out_array *const boxes = wu_output_find(out, "region_bbox");
    const size_t n = (size_t)boxes->info.shape[0];
    const int64_t *b = boxes->data;
    double sum = 0, side;

    for (size_t i = 0; i < n; i++, b += 4)
        sum += (double)(b[2] - b[0] + b[3] - b[1]) / 2;
    side = n == 0 ? LEAST_SIDE : BOXES_PER_SIDE * sum / (double)n;
    return side < LEAST_SIDE ? LEAST_SIDE : side > MOST_SIDE ? MOST_SIDE : (uint32_t)side;
}

/* The first pixel, along one axis, of a core that is placed at random. The possible positions are
 * divided into n equal ranges, and the position is chosen from range number `band`. */
static uint32_t choose_first(uint32_t length, uint32_t side, size_t band, size_t n,
                             uint64_t *random)
{
    /* The core can begin at n_positions pixels; range `band` of them is [least, bound). */
    const uint64_t n_positions = length - (side < length ? side : length) + 1,
                   least = n_positions * band / n, bound = n_positions * (band + 1) / n;

    return (uint32_t)(least + tc_random_below(bound > least ? bound - least : 1, random));
}

/* The first pixel, along one axis, of a core around [lo, hi). */
static uint32_t first_around(uint32_t length, uint32_t side, uint32_t lo, uint32_t hi)
{
    const uint32_t core = side < length ? side : length, middle = lo + (hi - lo) / 2,
                   first = middle > core / 2 ? middle - core / 2 : 0;

    return first < length - core ? first : length - core;
}

/* Places a tile along one axis. length, side, tile_margin: the lengths, in pixels, of the picture,
 * the core and the margin; first: the core's first pixel. Sets *from and *size to the first pixel
 * and the length of the tile. Sets [*lo, *hi) to the core, but extended to the picture's border if
 * the margin reaches it. */
static void set_range(uint32_t length, uint32_t side, uint32_t tile_margin, uint32_t first,
                      uint32_t *from, uint32_t *size, int64_t *lo, int64_t *hi)
{
    const uint32_t core = side < length ? side : length;
    const uint32_t end = length - first - core > tile_margin ? first + core + tile_margin : length;

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
    an_work part = {
        .params = &params, .item = &item, .pixels = &pixels, .threads = work->threads
    };
    const uint32_t from[3] = { 0, t->y, t->x }, size[3] = { 1, t->ny, t->nx };
    tc_status status = an_copy_box(work->pixels, from, size, &pixels, err);

    item.ny = t->ny, item.nx = t->nx;
    /* The window and the least area have been found in the whole picture; they must not be found
     * again in the tile. Regions at the tile's border are needed, and a label image is not. */
    params.window_auto = params.min_area_auto = 0;
    params.exclude_border = params.labels = false;
    if (cc_finds_threshold(&params)) {
        params.threshold_word = 0;
        params.threshold = (int32_t)threshold;
    }
    return_if_error(status);
    return_if_error(an_cellcount.plan(&params, &item, &part.plan, err));
    return an_compute_item(&an_cellcount, &part, 0, 0, out, err);
}

/* A row of the table of regions, in coordinates of the whole picture. */
typedef struct region {
    int64_t area, box[4];
    double mean, centre[2];
} region;

/* Returns row i of the table in `out`, which is the result of tile t, or, if t is NULL, of the
 * whole picture. */
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

/* Whether a region lies within the tile's core, and is not left out by exclude_border. */
static bool is_in_core(const cc_params *p, const wu_item *item, const tile *t, const region *r)
{
    const int64_t *const b = r->box;
    const bool at_border = b[0] == 0 || b[1] == 0 || b[2] == item->ny || b[3] == item->nx;

    return b[0] >= t->y0 && b[1] >= t->x0 && b[2] <= t->y1 && b[3] <= t->x1 &&
           !(at_border && p->exclude_border);
}

/* Whether the box of a region overlaps the tile's core. */
static bool overlaps_core(const tile *t, const region *r)
{
    const int64_t *const b = r->box;

    return b[0] < t->y1 && b[1] < t->x1 && b[2] > t->y0 && b[3] > t->x0;
}

/* Whether a region overlaps the tile's core and also touches a side of the tile that is not a side
 * of the picture. Such a region may continue outside the tile. */
static bool is_cut(const wu_item *item, const tile *t, const region *r)
{
    const int64_t *const b = r->box, y1 = (int64_t)t->y + t->ny, x1 = (int64_t)t->x + t->nx;
    const bool at_side = (b[0] == t->y && t->y > 0) || (b[1] == t->x && t->x > 0) ||
                         (b[2] == y1 && y1 < item->ny) || (b[3] == x1 && x1 < item->nx);

    return at_side && overlaps_core(t, r);
}

/* Whether two regions are equal. The centres of a tile's regions may have rounding errors, as the
 * tile's position has been added to them. */
static bool is_same(const region *a, const region *b)
{
    return a->area == b->area && memcmp(a->box, b->box, sizeof a->box) == 0 && a->mean == b->mean &&
           fabs(a->centre[0] - b->centre[0]) < 1e-6 && fabs(a->centre[1] - b->centre[1]) < 1e-6;
}

/* Counts the tile's regions in the claimed result and in the recomputed one. A recomputed region
 * is the same as one row of the claimed result at most, so that copies of a row are not the same.
 */
static tc_status compare_regions(const an_work *work, const tile *t, const wu_output *claimed,
                                 const wu_output *recomputed, region_counts *out, tc_err *err)
{
    const size_t n = (size_t)wu_output_find(claimed, "region_item")->info.shape[0],
                 m = (size_t)wu_output_find(recomputed, "region_item")->info.shape[0];
    region_counts f = { .claimed = 0 };
    TC_AUTOFREE bool *const matched = calloc(m + 1, sizeof *matched);

    if (matched == NULL)
        return tc_no_memory(err, "the regions");
    for (size_t k = 0; k < m; k++) {
        const region r = region_of(recomputed, k, t);

        const bool compared = is_in_core(work->params, work->item, t, &r);

        f.computed += compared;
        f.pixels += r.area;
        f.inner += overlaps_core(t, &r) ? r.area : 0;
        f.compared += compared ? r.area : 0;
        f.cut += is_cut(work->item, t, &r) ? r.area : 0;
    }
    for (size_t i = 0; i < n; i++) {
        const region r = region_of(claimed, i, NULL);
        const bool inside = is_in_core(work->params, work->item, t, &r);
        bool same = false;

        if (!overlaps_core(t, &r))
            continue;
        for (size_t k = 0; k < m && !same; k++) {
            const region other = region_of(recomputed, k, t);

            same = !matched[k] && is_same(&r, &other);
            matched[k] = matched[k] || same;
        }
        f.claimed += inside;
        f.same += inside && same;
        f.reaching += inside || same ? 0 : r.area;
    }
    *out = f;
    return TC_OK;
}

/* Whether a region's row in the table, or its absence, depends only on pixels near the region. This
 * does not hold for the parameters named here, whose effect depends on the whole picture. */
static bool is_local(const cc_params *p)
{
    return !p->min_contrast && !p->offset_percent && !p->full_area_auto && !p->min_area_auto;
}

tc_status cc_check_again(const an_work *work, const wu_output *out, uint32_t threshold,
                         uint32_t margin, const uint32_t doubtful[4], uint64_t *random, tc_err *err)
{
    const wu_item *const item = work->item;
    const uint32_t side = choose_side(out), tile_margin = margin + (uint32_t)(MARGIN_SHARE * side);
    const double share =
        (side + 2.0 * tile_margin) * (side + 2.0 * tile_margin) / ((double)item->nx * item->ny);
    const size_t tiles = (size_t)fmin(fmax(TILES_SHARE / share, LEAST_TILES), MOST_TILES);
    size_t confirmed = 0, column[MOST_TILES];
    int64_t pixels = 0, cut = 0, inner = 0, compared = 0, reaching = 0;
    tc_status status = TC_OK;

    if (!is_local(work->params) || LEAST_TILES * share > MOST_TILES_SHARE)
        return TC_NO_MATCH;
    /* Each band of rows and each band of columns gets one tile, so that a tall or wide object is
     * likely to be met. If a box is doubtful, the first tile is placed around it instead. */
    tc_random_order(tiles, column, random);
    for (size_t k = 0; status == TC_OK && k < tiles; k++) {
        const bool around = k == 0 && doubtful[2] > 0;
        const uint32_t y = around ? first_around(item->ny, side, doubtful[0], doubtful[2])
                                  : choose_first(item->ny, side, k, tiles, random),
                       x = around ? first_around(item->nx, side, doubtful[1], doubtful[3])
                                  : choose_first(item->nx, side, column[k], tiles, random);
        wu_output recomputed = { .n = 0 };
        region_counts f = { .claimed = 0 };
        tile t;

        set_range(item->ny, side, tile_margin, y, &t.y, &t.ny, &t.y0, &t.y1);
        set_range(item->nx, side, tile_margin, x, &t.x, &t.nx, &t.x0, &t.x1);
        if (around &&
            (doubtful[0] < t.y0 || doubtful[1] < t.x0 || doubtful[2] > t.y1 || doubtful[3] > t.x1))
            return TC_NO_MATCH; /* the box is larger than the core */
        status = compute_tile(work, threshold, &t, &recomputed, err);
        if (status == TC_OK)
            status = compare_regions(work, &t, out, &recomputed, &f, err);
        wu_output_free(&recomputed);
        confirmed += f.same;
        pixels += f.pixels;
        cut += f.cut;
        inner += f.inner;
        compared += f.compared;
        reaching += f.reaching;
        if (status == TC_OK && (f.same < f.claimed || f.claimed != f.computed))
            status = TC_NO_MATCH;
    }
    return status == TC_OK &&
                   (confirmed < LEAST_CONFIRMED || CUT_DIVISOR * cut > pixels ||
                    CUT_DIVISOR * reaching > pixels || COMPARED_DIVISOR * compared < inner)
               ? TC_NO_MATCH
               : status;
}
