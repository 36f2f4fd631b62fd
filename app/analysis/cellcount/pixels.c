/*
 * cellcount: checks whether an item's pixels can have given the arrays of a result: by the number
 * of pixels on the cells' side of the threshold, and by some regions and pixels chosen at random.
 * If grey values are prepared before the threshold, which may be nearly all of the work, only some
 * tiles are prepared and checked, each with a margin as wide as prepared values depend on.
 *
 * A component of the pixels of cells is "known" if all of it was followed from one of its pixels
 * and its regions were computed: one region, or several if cells are split.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/cellcount/core.h"
#include "app/analysis/cellcount/parts.h"
#include "app/analysis/suggest.h"
#include "app/analysis/bits.h"
#include "app/analysis/common/follow.h"
#include "app/analysis/common/watershed_core.h"
#include "app/base/random.h"

/* In the whole picture, or in each tile if there are tiles: the number of boxes of random regions
 * that are checked, and of components of random pixels or regions that are followed. */
enum { LOOKS = 160, LOOKS_IN_TILE = 64 };
/* In a whole picture, up to MORE further random pixels are followed, until LEAST_DRAWN components
 * of random pixels have a region in the table or are not known. Of up to MORE pixels at which
 * regions start (starts_at), those are passed over whose components are known and have no region in
 * the table. */
enum { MORE = 8 * LOOKS };
/* The first SOLID of these further pixels are corners of squares that are all cell (solid_at):
 * small components, which min_area leaves out, have no such squares. */
enum { SOLID = 40, LEAST_SIDE = 2, MOST_SIDE = 4 };
/* The number of random pixels at which labels are compared with the picture. */
enum { LABELS = 256 };
/* The number of random places at which two pixels of cells touch only by a corner. The components
 * of these pixels are checked. */
enum { CORNERS = 16 };
/* A result passes only if at least this many components are known: LEAST_KNOWN in a whole picture,
 * or LEAST_IN_TILES in all tiles together. */
enum { LEAST_KNOWN = 2, LEAST_IN_TILES = 4 };
/* A result checked in the whole picture passes only if components were followed from at least this
 * many random pixels of cells. */
enum { LEAST_DRAWN = 40 };
/* A component is followed for at most `room` pixels: LEAST_ROOM plus 1 / ROOM_SHARE of the pixels
 * of the whole picture, or LEAST_ROOM plus 1 / ROOM_IN_TILE of the pixels of a tile. All components
 * of a part together are followed for about ROOMS or, in a tile, ROOMS_IN_TILE times `room` pixels.
 */
enum { ROOM_SHARE = 128, ROOM_IN_TILE = 6, LEAST_ROOM = 256, ROOMS = 12, ROOMS_IN_TILE = 5 };
/* fill_holes: of each part, the background around at most this many listed components, which need
 * not be in the box of another region, is followed to see whether they lie in a hole. */
enum { OUTSIDES = 4 };
/* A component is too wide for the number of its pixels if its box has more pixels than LEAST_ROOM
 * plus SPARSE times that number. */
enum { SPARSE = 16 };
/* Every other search for a pixel of a cell first tries up to HITS random pixels. A pixel of a cell
 * that is found so is a "hit". In tiles, the components of at least 1 / KNOWN_HITS of the hits must
 * be known. At most 1 / BARE_HITS of the hits may have a component that is not known and at the
 * same time lie in no box of the table. */
enum { HITS = 16, KNOWN_HITS = 4, BARE_HITS = 8 };
/* With a split, one of the tiles around regions is placed around the largest of LARGEST_OF random
 * ones. Smaller tiles are added: NEAREST around the regions nearest to pixels far from each other,
 * one around that of CANDIDATES random regions, or of fewer with ODD_PIXELS pixels in their boxes,
 * that differs least from its surroundings before any preparation, and, with a split, one around
 * the longest of LARGEST_OF random regions. */
enum { NEAREST = 2, CANDIDATES = 256, ODD_PIXELS = 1 << 17, LARGEST_OF = 2048 };
enum { MOST_CHOSEN = NEAREST + 2 };
/* The side of a tile without its margin, in pixels, is between the larger of LEAST_TILE and the
 * margin's width, and MOST_TILE. Within these bounds it is the largest for which MANY_TILES tiles,
 * with their margins, have at most the share TILED of the picture's pixels. */
enum { LEAST_TILE = 48, MOST_TILE = 128, MANY_TILES = 8 };
static const double TILED = 0.15;
/* The bounds of the number of tiles. */
enum { LEAST_TILES = 6, MOST_TILES = 24 };
/* One tile, and another for each PER_BARE tiles, is added where a region may be missing: around
 * that of SAMPLES random pixels, or of fewer, one in SAMPLED pixels of the picture, which is in no
 * box and stands out most from its surroundings before any preparation. Each is the one farthest on
 * the cells' side of NEAR pixels, as far apart as the mean side of a box at most. */
enum { PER_BARE = 8, SAMPLED = 64, SAMPLES = 4096, NEAR = 8 };
/* With a split, where the component of a region reaches out of a tile's core, another tile is
 * placed around it, up to MOST_BEYOND times. */
enum { MOST_BEYOND = 4 };
/* A threshold that the result found in the histogram of the whole picture may differ from the
 * threshold of the tiles in one of two ways. Either the difference is at most ERRORS standard
 * errors, and these are at most MOST_DEVIATIONS standard deviations of the grey values; or between
 * the two thresholds lie at most one in FEW_IN pixels, and as many as at most one in FEW_OF pixels
 * of cells. */
enum { ERRORS = 3, FEW_IN = 1000, FEW_OF = 20 };
static const double MOST_DEVIATIONS = 0.25;
/* The greatest number of groups of tiles from which the standard error is estimated. */
enum { GROUPS = 8 };
/* If at most 1 / SOME_SHARE of the contrast, summed over all pixels of cells, is missing from the
 * table, the mean contrast of the missing pixels is not checked. */
enum { SOME_SHARE = 10 };
/* The search for a pixel of a cell passes at most LEAST_PIXELS pixels plus a sixteenth of all. */
enum { LEAST_PIXELS = 16384 };
/* Tolerances, as factors, of the limit that min_contrast sets: the contrast of regions that are not
 * in the table may be this many times the limit, and the limit this many times the contrast of
 * regions that are. AS_FAINT applies if the limit is an estimate; ROUNDED, if it follows from the
 * table and only rounding errors are possible. */
static const double AS_FAINT = 1.25, ROUNDED = 1 + 1e-9;
/* The share of the pixels of cells that lie in regions that are not in the table is estimated from
 * the hits. The true share may be greater than the estimate by this much. */
static const double ABSENT_ERROR = 0.2;
/* The upper bound of the number of pixels of cells in a picture, as a multiple of the estimate from
 * its tiles. */
static const double ROUGHLY = 1.5;
/* If the tiles with their margins would have more than this share of the picture's pixels, they are
 * not checked (TC_NO_MATCH). */
static const double MOST_TILED = 0.65;
/* The share of honest results that are in doubt, and so computed again, as measured with
 * tests/bench/looks.py units. */
static const double DOUBTS = 0.8;
/* The result's table of regions. */
typedef struct table {
    size_t n;                      /* rows */
    const int64_t *area, *bbox;    /* [n], [n][4]: y0, x0, y1, x1 */
    const double *mean, *centroid; /* [n], [n][2]: y, x */
    int64_t tallest;               /* the greatest height of a box */
    const int32_t *labels; /* the label image of the whole picture; NULL: the result has none */
} table;

static table table_of(const cc_params *p, const wu_output *out)
{
    table t = { .n = (size_t)wu_output_find(out, "region_item")->info.shape[0],
                .area = wu_output_data(out, "region_area"),
                .bbox = wu_output_data(out, "region_bbox"),
                .mean = wu_output_data(out, "region_mean"),
                .centroid = wu_output_data(out, "region_centroid"),
                .labels = p->labels ? out->arrays[out->n - 1].data : NULL };

    for (size_t i = 0; i < t.n; i++) {
        const int64_t height = t.bbox[4 * i + 2] - t.bbox[4 * i];

        t.tallest = height > t.tallest ? height : t.tallest;
    }
    return t;
}

/* A part of the picture: a tile with its margin, or the whole picture. Its core is the part without
 * the margin, where prepared grey values are those of the whole picture. */
typedef struct part {
    an_follow f;               /* follows components; f.px: the part's prepared grey values */
    const wu_pixels *original; /* the part's grey values before any preparation */
    uint32_t y, x;             /* where the part begins in the picture */
    uint32_t ny, nx;           /* size of the whole picture */
    uint32_t y0, x0, y1, x1;   /* the core, half-open, in coordinates of the part */
    size_t *rows, n_rows;      /* rows of the table whose boxes lie in the core; NULL, for the whole
                                  picture: all rows */
    /* Components that are known and have a region in the table are followed once: `seen` has a bit
     * for each pixel of the part, set in such components; confirmed[row], with rows numbered as
     * region_of takes them, is true for their rows. NULL if sums over components are needed, in
     * which each counts as often as it is met. */
    uint8_t *seen;
    bool *confirmed;
    size_t looks; /* components that are not known, or have a region in the table */
    size_t known; /* components that have a region in the table */
    size_t drawn; /* components that were followed from a random pixel */
    int outsides; /* see OUTSIDES */
    bool suspect; /* the part is a CHOSEN or SUSPECT tile */
    bool large;   /* a component was too large, or too wide for the number of its pixels, to be
                     followed */
    uint32_t doubtful[4]; /* after a failure of check_part: box of the component or row that does
                             not seem to be right, in the picture; all 0: of none in particular */
    uint32_t beyond[4]; /* box, in the picture, of a random row's component that is not known as it
                           reaches out of the core; or all 0 */
    size_t hits;        /* random pixels of cells (HITS); each pixel of cells is equally likely */
    double known_hits;  /* hits whose component is known */
    size_t bare_hits;   /* hits whose component is not known and that lie in no box of the table:
                           their regions may be missing */
    /* Sums over the known hits of a share of the component's pixels. absent: the share in regions
     * that are not in the table but pass the filters other than min_contrast and min_area "auto";
     * areas "auto" follow from such regions, too. small: the share in those absent regions that are
     * smaller than min_area. */
    double absent, small;
    /* The fields from here on are for min_contrast. Contrast is the mean difference of a region's
     * grey values from the threshold. "Large" regions are those of at least full_area pixels. */
    int64_t missing_area; /* greatest area of a region that is not in the table though it passes the
                             other filters */
    double contrast;      /* contrast times area, summed over the large regions in the table */
    double area;          /* the area summed over the same regions */
    double squares;       /* squared contrast times area, summed over the same regions */
    double large_regions; /* the number of these regions */
    double missing;  /* greatest contrast of a region that is not in the table though it passes the
                        other filters */
    double faintest; /* least contrast of a region in the table that is smaller than full_area */
} part;

/* Returns the index, in the part, of a random pixel of the core. */
static size_t pixel_of(const part *q, uint64_t *random)
{
    const size_t y = q->y0 + (size_t)tc_random_below(q->y1 - q->y0, random);

    return y * q->f.px->nx + q->x0 + (size_t)tc_random_below(q->x1 - q->x0, random);
}

/* The index, in the whole picture, of pixel i of the part. */
static size_t in_picture(const part *q, size_t i)
{
    return (q->y + i / q->f.px->nx) * q->nx + q->x + i % q->f.px->nx;
}

/* --- the threshold --------------------------------------------------------------------------- */

/* The number of pixels on the cells' side of the threshold. */
static uint64_t count_cells(const cc_params *p, const wu_pixels *px, uint32_t threshold)
{
    const size_t n = (size_t)px->nx * px->ny;
    uint64_t below = 0;

    for (size_t i = 0; i < n; i += 64)
        below += (unsigned)__builtin_popcountll(
            an_bits_below(px, i, n - i < 64 ? (unsigned)(n - i) : 64, threshold));
    return p->bright ? n - below : below;
}

/* Checks that the regions' areas add up to the number of pixels of cells. The sum may be greater
 * only with fill_holes, and smaller only if filters leave regions out. */
static tc_status check_totals(const cc_params *p, uint64_t cells, const table *t, tc_err *err)
{
    uint64_t pixels = 0;

    for (size_t i = 0; i < t->n; i++)
        pixels += (uint64_t)t->area[i];
    if ((!p->fill_holes && pixels > cells) || (!cc_has_filters(p) && pixels < cells))
        return tc_fail(
            err, TC_BAD_INPUT,
            "region_area: %llu pixels, but the picture has %llu on the cells' side of the "
            "threshold",
            (unsigned long long)pixels, (unsigned long long)cells);
    return TC_OK;
}

/* --- labels ---------------------------------------------------------------------------------- */

/* Checks pixels chosen at random: a pixel with a label must be on the cells' side of the threshold,
 * unless holes are filled. A pixel on that side must have a label, unless filters leave regions
 * out.
 */
static tc_status check_labels(const cc_params *p, const part *q, const table *t, uint64_t *random,
                              tc_err *err)
{
    for (int k = 0; k < LABELS; k++) {
        const size_t i = pixel_of(q, random), at = in_picture(q, i);
        const bool cell = an_follow_accepts(&q->f, i);

        if ((t->labels[at] != 0 && !cell && !p->fill_holes) ||
            (t->labels[at] == 0 && cell && !cc_has_filters(p)))
            return tc_fail(err, TC_BAD_INPUT,
                           "labels: pixel %zu is on the %s side of the threshold", at,
                           cell ? "cells'" : "other");
    }
    return TC_OK;
}

/* Split by intensity: returns the highest neighbour of pixel i (the brightest or, for dark cells,
 * the darkest), or i if no neighbour is higher. A split by watershed gives both the same label. */
static size_t highest_neighbour(const an_follow *f, size_t i)
{
    const wu_pixels *const px = f->px;
    const int64_t nx = px->nx, ny = px->ny, x = (int64_t)i % nx, y = (int64_t)i / nx;
    int64_t most = wu_grey_value(px, i);
    size_t best = i;

    for (int step = 0; step < 9; step++) {
        const int dy = step / 3 - 1, dx = step % 3 - 1;
        const size_t neighbour = (size_t)((y + dy) * nx + x + dx);
        int64_t v;

        if (!ws_is_step(dx, dy, 0, f->corners) || x + dx < 0 || x + dx >= nx || y + dy < 0 ||
            y + dy >= ny)
            continue;
        v = wu_grey_value(px, neighbour);
        if (f->above ? v > most : v < most) {
            most = v;
            best = neighbour;
        }
    }
    return best;
}

/* Split by intensity: checks, at random pixels of cells, that the pixel has the label of its
 * highest neighbour. Every other pixel is moved along its row to the last one before the label
 * changes, where two regions may meet. */
static tc_status check_ways(const part *q, const table *t, uint64_t *random, tc_err *err)
{
    const size_t nx = q->f.px->nx, inner = q->x1 - q->x0;

    for (int k = 0; k < LABELS; k++) {
        size_t i = pixel_of(q, random);
        int32_t label = t->labels[in_picture(q, i)];

        /* Moves i along the core's row to the last pixel with this label; after the end of the row
         * it continues at the row's beginning. */
        for (size_t left = k % 2 == 0 ? 0 : inner; left > 0; left--) {
            const size_t next = i - i % nx + q->x0 + (i % nx - q->x0 + 1) % inner;
            const int32_t other = t->labels[in_picture(q, next)];

            if (other != label)
                break;
            i = next;
        }
        label = t->labels[in_picture(q, i)];
        if (an_follow_accepts(&q->f, i) &&
            t->labels[in_picture(q, highest_neighbour(&q->f, i))] != label)
            return tc_fail(err, TC_BAD_INPUT, "labels: pixel %zu leads to another region",
                           in_picture(q, i));
    }
    return TC_OK;
}

/* --- regions --------------------------------------------------------------------------------- */

/* A row of the table, and its box, half-open, in coordinates of a part. */
typedef struct region {
    size_t row;
    uint32_t y0, x0, y1, x1;
} region;

/* Returns the region in row number `index` of the rows whose boxes lie in the part's core. */
static region region_of(const part *q, const table *t, size_t index)
{
    const size_t row = q->rows != NULL ? q->rows[index] : index;
    const int64_t *const b = t->bbox + 4 * row;

    return (region){ row, (uint32_t)b[0] - q->y, (uint32_t)b[1] - q->x, (uint32_t)b[2] - q->y,
                     (uint32_t)b[3] - q->x };
}

/* Sets rows[k], for k < n, to a random row number as region_of takes it, in proportion to the
 * areas: all areas together are divided into n equal ranges, and each gets a row. The part has
 * rows. */
static void choose_by_area(const part *q, const table *t, uint64_t *random, size_t n, size_t *rows)
{
    uint64_t all = 0, sum = 0; /* areas of all rows; of those up to `row` */
    size_t row = 0;

    for (size_t i = 0; i < q->n_rows; i++)
        all += (uint64_t)t->area[region_of(q, t, i).row];
    sum = (uint64_t)t->area[region_of(q, t, 0).row];
    for (size_t k = 0; k < n; k++) {
        const uint64_t from = all * k / n, to = all * (k + 1) / n,
                       wanted = from + tc_random_below(to > from ? to - from : 1, random);

        while (sum <= wanted && row + 1 < q->n_rows)
            sum += (uint64_t)t->area[region_of(q, t, ++row).row];
        rows[k] = row;
    }
}

/* Whether the outline of a cell touches a side of a box. The side consists of the n pixels from
 * index `at` on, along a row (step 1) or a column (step nx). The outline touches it if one of these
 * pixels is cell and its neighbour outside the box, at index distance `out`, is not. At the
 * picture's border, where there is no such neighbour, `out` is 0 and a pixel that is cell is
 * enough. */
static bool has_outline(const an_follow *f, size_t at, size_t step, uint32_t n, ptrdiff_t out)
{
    for (uint32_t i = 0; i < n; i++, at += step)
        if (an_follow_accepts(f, at) &&
            (out == 0 || !an_follow_accepts(f, (size_t)((ptrdiff_t)at + out))))
            return true;
    return false;
}

/* Whether an outline touches all four sides of a region's box. This holds for filled regions, too,
 * as filled pixels lie within the outline. */
static bool reaches_sides(const an_follow *f, const region *r)
{
    const size_t nx = f->px->nx, ny = f->px->ny, first = r->y0 * nx + r->x0;
    const size_t bottom = (r->y1 - 1) * nx + r->x0, right = r->y0 * nx + r->x1 - 1;

    return has_outline(f, first, 1, r->x1 - r->x0, r->y0 > 0 ? -(ptrdiff_t)nx : 0) &&
           has_outline(f, bottom, 1, r->x1 - r->x0, r->y1 < ny ? (ptrdiff_t)nx : 0) &&
           has_outline(f, first, nx, r->y1 - r->y0, r->x0 > 0 ? -1 : 0) &&
           has_outline(f, right, nx, r->y1 - r->y0, r->x1 < nx ? 1 : 0);
}

/* The number of looks at a part (LOOKS). */
static int looks_of(const part *q)
{
    return q->rows != NULL ? LOOKS_IN_TILE : LOOKS;
}

/* Checks that the outline of a cell touches all four sides of the boxes of random regions. Where a
 * split cuts a component, the side of a box may have no outline: with a split by distance only half
 * of the boxes must pass, unless the part is suspect, and with a split by intensity the check does
 * not apply. */
static tc_status check_regions(const cc_params *p, const part *q, const table *t, uint64_t *random,
                               tc_err *err)
{
    const int looks = looks_of(q);
    int reached = 0;

    for (int k = 0; k < looks && q->n_rows > 0; k++) {
        const region r = region_of(q, t, (size_t)tc_random_below(q->n_rows, random));
        const bool reaches = reaches_sides(&q->f, &r);

        reached += reaches;
        if (!reaches && !p->split)
            return tc_fail(err, TC_BAD_INPUT,
                           "region %zu: no outline reaches the sides of region_bbox", r.row + 1);
    }
    if (q->n_rows > 0 && 2 * reached < looks && p->split != CC_INTENSITY && !q->suspect)
        return tc_fail(err, TC_NO_MATCH, "outlines reach all sides of only %d of %d boxes", reached,
                       looks);
    return TC_OK;
}

/* --- components ------------------------------------------------------------------------------ */

/* The number, among the rows of the part, of the first one whose box does not begin above y. Rows
 * are sorted by y0. */
static size_t first_row(const part *q, const table *t, uint32_t y)
{
    size_t first = 0, end = q->n_rows;

    while (first < end) {
        const size_t middle = first + (end - first) / 2;

        if (region_of(q, t, middle).y0 < y)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

/* Finds the row of the table with the measurements of region c, which was computed here. Returns
 * the row's number among those of the part, or n_rows if there is none. */
static size_t row_of_part(const part *q, const table *t, const cc_region *c)
{
    const double n = c->area;

    for (size_t first = first_row(q, t, c->y0); first < q->n_rows; first++) {
        const region r = region_of(q, t, first);

        if (r.y0 != c->y0)
            break;
        if (r.x0 == c->x0 && r.y1 == c->y1 && r.x1 == c->x1 && t->area[r.row] == (int64_t)c->area &&
            t->mean[r.row] == (double)c->sum_grey / n &&
            t->centroid[2 * r.row] == (double)(c->sum_y + (uint64_t)c->area * q->y) / n &&
            t->centroid[2 * r.row + 1] == (double)(c->sum_x + (uint64_t)c->area * q->x) / n)
            return first;
    }
    return q->n_rows;
}

/* The state of a search for a row of the table among components. */
typedef struct sought {
    size_t row;      /* number of the row among those of the part; n_rows: none in particular */
    size_t left;     /* pixels that may still be followed */
    bool found;      /* the row is a region of one of the components */
    bool unknown;    /* a component is not known: it reaches out of the core, or is too large */
    bool listed_any; /* at least one region of the components is in the table */
    bool large;      /* a component is too large, or too wide for its pixels, to be followed */
    bool of_hit;     /* the component is that of a hit: `absent` and `small` are needed */
    bool in_hole;    /* the last component lies in a hole of another one, and so is no region */
    uint32_t box[4]; /* in the part, of a component that reaches out of the core; or all 0 */
    double pixels;   /* pixels of all regions of the components */
    double absent, small; /* numbers of pixels of the regions that `part` describes */
} sought;

/* The distance of a mean grey value from the threshold, positive on the cells' side. */
static double contrast_of(const cc_params *p, double mean, uint32_t threshold)
{
    return p->bright ? mean - (double)threshold : (double)threshold - mean;
}

/* Records the contrast of region c in q: among the large or small regions if it is in the table
 * (listed); as missing if it is not, though it passes the filters other than min_contrast. */
static void note_contrast(const cc_params *p, part *q, const cc_part *c, bool listed, bool border)
{
    const cc_region *const r = &c->region;
    const double area = r->area,
                 contrast = contrast_of(p, (double)c->prepared / area, q->f.threshold);

    if (listed && (int64_t)r->area >= p->full_area) {
        q->contrast += contrast * area;
        q->area += area;
        q->squares += contrast * contrast * area;
        q->large_regions++;
    } else if (listed) {
        q->faintest = fmin(q->faintest, contrast);
    } else if (cc_passes_without_contrast(p, r->area, border, r->y1 - r->y0, r->x1 - r->x0)) {
        q->missing = fmax(q->missing, contrast);
        q->missing_area = r->area > q->missing_area ? r->area : q->missing_area;
    }
}

/* Adds the pixels of region r to the numbers of pixels in s. listed: it is in the table; border: it
 * touches the picture's border. */
static void note_pixels(const cc_params *p, const cc_region *r, bool listed, bool border, sought *s)
{
    cc_params any_area = *p;

    any_area.min_area = p->min_area_auto ? 1 : p->min_area;
    s->pixels += r->area;
    if (!listed &&
        cc_passes_without_contrast(&any_area, r->area, border, r->y1 - r->y0, r->x1 - r->x0)) {
        s->absent += r->area;
        s->small += r->area < p->min_area ? r->area : 0;
    }
}

/* Returns the tolerance, as a factor, of a limit that follows from the mean contrast of the large
 * regions of q: 1 plus ERRORS standard errors of this mean as a share of it, at most AS_FAINT. */
static double tolerance_of(const part *q)
{
    const double mean = q->contrast / q->area,
                 variance = fmax(q->squares / q->area - mean * mean, 0);

    return q->large_regions < 2 || mean <= 0
               ? AS_FAINT
               : fmin(1 + ERRORS * sqrt(variance / (q->large_regions - 1)) / mean, AS_FAINT);
}

/* The limit of min_contrast that follows from the large regions of q. */
static double limit_of(const cc_params *p, const part *q)
{
    return q->area > 0 ? p->percent * q->contrast / q->area / 100 : 0;
}

/* Checks that, within the tolerance (a factor), no missing region has more contrast than the limit
 * of min_contrast, and no small region of the table has less. The limit is between two bounds. */
static tc_status judge_contrast(const cc_params *p, const part *q, double one_bound,
                                double other_bound, double tolerance, tc_err *err)
{
    if (p->min_contrast && q->missing > tolerance * fmax(one_bound, other_bound))
        return tc_fail(err, TC_NO_MATCH, "a region with a contrast of %.1f is missing", q->missing);
    return !p->min_contrast || tolerance * q->faintest >= fmin(one_bound, other_bound)
               ? TC_OK
               : tc_fail(err, TC_NO_MATCH, "a region has a contrast of only %.1f", q->faintest);
}

/* Sets q->doubtful to a box in coordinates of the part. */
static void set_doubtful(part *q, uint32_t y0, uint32_t x0, uint32_t y1, uint32_t x1)
{
    const uint32_t box[4] = { q->y + y0, q->x + x0, q->y + y1, q->x + x1 };

    memcpy(q->doubtful, box, sizeof box);
}

/* Reduces s->left by the pixels of a component that was followed. */
static void spend(sought *s, const an_component *c)
{
    s->left -= c->pixels < s->left ? (size_t)c->pixels : s->left;
}

/* Follows the background around a component, from the pixel above `first`, the first pixel of the
 * component in the raster; at most `room` pixels. Returns whether that is all of a hole. */
static bool follow_hole(const part *q, size_t first, size_t room, an_component *hole)
{
    const uint32_t nx = q->f.px->nx;
    an_follow outside = q->f;

    *hole = (an_component){ .whole = true };
    if (first < nx)
        return false;
    outside.above = !q->f.above;
    outside.corners = !q->f.corners;
    outside.room = room < outside.room ? room : outside.room;
    an_follow_component(&outside, first - nx, hole);
    return hole->whole &&
           !cc_at_border(hole->lo[2], hole->lo[1], hole->hi[2], hole->hi[1], nx, q->f.px->ny);
}

/* The first pixel in the raster of component c, which q->f has just followed. */
static size_t first_pixel(const part *q, const an_component *c)
{
    size_t first = q->f.queue[0];

    for (size_t k = 1; k < c->pixels; k++)
        first = q->f.queue[k] < first ? q->f.queue[k] : first;
    return first;
}

/* Whether the box of c lies within the half-open box y0, x0, y1, x1, and reaches none of its sides.
 */
static bool is_inside(const an_component *c, uint32_t y0, uint32_t x0, uint32_t y1, uint32_t x1)
{
    return c->lo[1] > y0 && c->lo[2] > x0 && c->hi[1] < y1 && c->hi[2] < x1;
}

/* fill_holes: checks that component c, which q->f has just followed and which has a region in the
 * table, lies in no hole of another one. It is enough to follow the background around those in a
 * box of the table; OUTSIDES others may be in a hole of a component that is split, or left out. */
static tc_status check_outside(part *q, const table *t, const an_component *c, sought *s,
                               tc_err *err)
{
    const size_t first = first_pixel(q, c);
    bool fills = false, large = false; /* in a hole; in one that is too large to be followed */
    an_component hole;

    for (size_t k = first_row(q, t, c->lo[1]); k > 0 && !fills && !large; k--) {
        const region r = region_of(q, t, k - 1);

        if (r.y0 + t->tallest <= c->hi[1])
            break;
        if (!is_inside(c, r.y0, r.x0, r.y1, r.x1))
            continue;
        fills = follow_hole(q, first, (size_t)t->area[r.row], &hole);
        spend(s, &hole);
        large = !hole.whole && (size_t)t->area[r.row] > q->f.room &&
                is_inside(&hole, r.y0, r.x0, r.y1, r.x1);
    }
    if (!fills && !large && q->outsides < OUTSIDES) {
        q->outsides++;
        fills = follow_hole(q, first, q->f.room / 2, &hole);
    }
    /* What encloses a hole must lie in the core. */
    fills = fills && is_inside(&hole, q->y0, q->x0, q->y1, q->x1);
    if (!fills && !large)
        return TC_OK;
    set_doubtful(q, c->lo[1], c->lo[2], c->hi[1], c->hi[2]);
    return tc_fail(err, fills ? TC_BAD_INPUT : TC_NO_MATCH,
                   "regions: the one around pixel %zu lies in a hole of another",
                   in_picture(q, first));
}

/* Whether row s->row of the table could be a region of component c, by its box: not if c is another
 * region or, with a split, if all of c is in the part and does not reach around the row's box. */
static bool may_have_row(const cc_params *p, const part *q, const table *t, const sought *s,
                         const an_component *c)
{
    const region r = region_of(q, t, s->row);
    const bool around =
        c->lo[1] <= r.y0 && c->lo[2] <= r.x0 && c->hi[1] >= r.y1 && c->hi[2] >= r.x1;

    if (p->split)
        return around ||
               cc_at_border(c->lo[2], c->lo[1], c->hi[2], c->hi[1], q->f.px->nx, q->f.px->ny);
    return around && c->lo[1] == r.y0 && c->lo[2] == r.x0 && c->hi[1] == r.y1 && c->hi[2] == r.x1;
}

/* Checks that all pixels of region k of component c, which q->f has just followed, have this label.
 * For a split by intensity, check_ways does that at random pixels. */
static tc_status check_label(const cc_params *p, const part *q, const table *t,
                             const an_component *c, const cc_parts *parts, size_t k, int32_t label,
                             tc_err *err)
{
    const size_t nx = parts->x1 - parts->x0;
    const size_t n = parts->plane != NULL       ? nx * (parts->y1 - parts->y0)
                     : p->split == CC_INTENSITY ? 0
                                                : c->pixels;

    for (size_t i = 0; i < n; i++) {
        const size_t pixel = parts->plane != NULL
                                 ? (parts->y0 + i / nx) * q->f.px->nx + parts->x0 + i % nx
                                 : q->f.queue[i];

        if ((parts->plane == NULL || parts->plane[i] == (int32_t)k + 1) &&
            t->labels[in_picture(q, pixel)] != label)
            return tc_fail(err, TC_BAD_INPUT, "labels: pixel %zu does not belong to region %ld",
                           in_picture(q, pixel), (long)t->labels[in_picture(q, pixel)]);
    }
    return TC_OK;
}

/* Follows the component of pixel i. If the component is then known, checks that its regions are in
 * the table. Updates s. */
static tc_status check_component(const an_work *work, part *q, const table *t, size_t i, sought *s,
                                 tc_err *err)
{
    const cc_params *const p = work->params;
    an_component c, hole;
    bool listed = false; /* a region of the component is in the table */
    TC_AUTO(cc_parts_free) cc_parts parts = { .n = 0 };

    if (q->seen != NULL && (q->seen[i / 8] >> i % 8 & 1) != 0) {
        s->listed_any = true;
        return TC_OK;
    }
    an_follow_component(&q->f, i, &c);
    {
        const uint32_t ny = c.hi[1] - c.lo[1], nx = c.hi[2] - c.lo[2];

        s->large = !c.whole || ny > q->y1 - q->y0 || nx > q->x1 - q->x0 ||
                   (uint64_t)ny * nx > SPARSE * c.pixels + LEAST_ROOM;
    }
    s->unknown = s->large || c.pixels > s->left || c.lo[1] < q->y0 || c.lo[2] < q->x0 ||
                 c.hi[1] > q->y1 || c.hi[2] > q->x1;
    spend(s, &c);
    if (s->unknown && !s->large && s->left > 0 && s->row < q->n_rows &&
        !may_have_row(p, q, t, s, &c)) {
        s->unknown = false;
        return TC_OK;
    }
    const int64_t most = p->fill_holes ? (int64_t)(c.hi[1] - c.lo[1]) * (c.hi[2] - c.lo[2])
                                       : (int64_t)c.pixels; /* pixels of a region */

    /* Regions that min_area leaves out need not be computed. */
    if (!s->unknown && !(p->min_area_auto && s->of_hit) && t->labels == NULL &&
        most < p->min_area) {
        s->pixels += (double)c.pixels;
        return TC_OK;
    }
    if (s->unknown && !s->large)
        memcpy(s->box, (uint32_t[]){ c.lo[1], c.lo[2], c.hi[1], c.hi[2] }, sizeof s->box);
    if (!s->unknown)
        return_if_error(cc_parts_of(p, &q->f, &c, q->original, work->poll, &parts, err));
    s->unknown = s->unknown || parts.n == 0;
    s->in_hole = false;
    for (size_t k = 0; k < parts.n; k++) {
        const cc_region *const r = &parts.part[k].region;
        const bool border = cc_at_border(q->x + r->x0, q->y + r->y0, q->x + r->x1, q->y + r->y1,
                                         work->item->nx, work->item->ny);
        const size_t found = row_of_part(q, t, r);
        const bool missing =
            found == q->n_rows &&
            cc_passes_at_any_contrast(p, r->area, border, r->y1 - r->y0, r->x1 - r->x0);

        /* With fill_holes what lies in a hole of another component is no region. */
        if (missing && p->fill_holes) {
            s->in_hole = follow_hole(q, first_pixel(q, &c), q->f.room, &hole);
            spend(s, &hole);
        }
        if (s->in_hole)
            return TC_OK;
        note_contrast(p, q, &parts.part[k], found < q->n_rows, border);
        note_pixels(p, r, found < q->n_rows, border, s);
        listed = listed || found < q->n_rows;
        s->found = s->found || (found < q->n_rows && found == s->row);
        if (q->seen != NULL && found < q->n_rows)
            q->confirmed[found] = true;
        if (missing) {
            set_doubtful(q, c.lo[1], c.lo[2], c.hi[1], c.hi[2]);
            /* With fill_holes the component may still lie in a large hole of another one. */
            return tc_fail(err, p->fill_holes || p->full_area_auto ? TC_NO_MATCH : TC_BAD_INPUT,
                           "regions: one of those around pixel %zu is missing", in_picture(q, i));
        }
        const int32_t label = found < q->n_rows ? (int32_t)region_of(q, t, found).row + 1 : 0;

        /* What is left out has no label, unless it lies in a hole of another region. */
        if (t->labels != NULL && (label > 0 || !p->fill_holes))
            return_if_error(check_label(p, q, t, &c, &parts, k, label, err));
    }
    s->listed_any = s->listed_any || listed;
    for (size_t k = 0; q->seen != NULL && listed && k < c.pixels; k++)
        q->seen[q->f.queue[k] / 8] |= (uint8_t)(1u << q->f.queue[k] % 8);
    return listed && p->fill_holes ? check_outside(q, t, &c, s, err) : TC_OK;
}

/* Checks that row s->row of the table is a region of a component that has a pixel in the top row of
 * the region's box. */
static tc_status check_row(const an_work *work, part *q, const table *t, sought *s, tc_err *err)
{
    const region r = region_of(q, t, s->row);
    const size_t at = (size_t)r.y0 * q->f.px->nx;
    /* With a split, a region of filled pixels may have no pixel on the cells' side in that row. */
    const bool fills = ((const cc_params *)work->params)->fill_holes;

    if (q->seen != NULL && q->confirmed[s->row])
        s->found = s->listed_any = true;
    for (uint32_t x = r.x0; !s->unknown && !s->found && x < r.x1; x++)
        if (an_follow_accepts(&q->f, at + x) &&
            (x == r.x0 || !an_follow_accepts(&q->f, at + x - 1)))
            return_if_error(check_component(work, q, t, at + x, s, err));
    if (s->unknown || s->found)
        return TC_OK;
    set_doubtful(q, r.y0, r.x0, r.y1, r.x1);
    return tc_fail(err, fills ? TC_NO_MATCH : TC_BAD_INPUT,
                   "region %zu: the picture has no such region", r.row + 1);
}

/* Finds a pixel *i of the core on the cells' side. First tries up to `tries` random pixels, and
 * sets *hit if one of them is a cell's. Otherwise takes the first pixel of a cell from another
 * random pixel on, in the order of the raster; that favours regions with much background before
 * them. Returns false if there is none within the limit of the search. */
static bool find_cell(const part *q, int tries, uint64_t *random, bool *hit, size_t *i)
{
    const size_t nx = q->f.px->nx;
    size_t left = (size_t)(q->x1 - q->x0) * (q->y1 - q->y0) / 16 + LEAST_PIXELS;

    *hit = false;
    for (int k = 0; k < tries && !*hit; k++) {
        *i = pixel_of(q, random);
        *hit = an_follow_accepts(&q->f, *i);
    }
    if (*hit)
        return true;
    for (*i = pixel_of(q, random); left > 0 && !an_follow_accepts(&q->f, *i); left--) {
        const size_t y = *i / nx, x = *i % nx;

        *i = x + 1 < q->x1 ? *i + 1 : (y + 1 < q->y1 ? y + 1 : q->y0) * nx + q->x0;
    }
    return left > 0;
}

/* Whether pixel i of the part lies in the box of a region of the table, row `first` or below. */
static bool is_in_box(const part *q, const table *t, size_t first, size_t i)
{
    const int64_t y = (int64_t)(q->y + i / q->f.px->nx), x = (int64_t)(q->x + i % q->f.px->nx);

    for (size_t row = first; row < t->n && t->bbox[4 * row] <= y; row++) {
        const int64_t *const b = t->bbox + 4 * row;

        if (x >= b[1] && y < b[2] && x < b[3])
            return true;
    }
    return false;
}

/* Returns a bit for each of the n <= 64 pixels of a row from pixel i on, the last excepted. A bit
 * is set if the square of 2 x 2 pixels whose top left pixel this is has exactly two pixels of
 * cells, and these touch only by a corner. */
static uint64_t corners_at(const part *q, const cc_params *p, size_t i, unsigned n)
{
    const uint64_t dark = an_bits_below(q->f.px, i, n, q->f.threshold),
                   dark_below = an_bits_below(q->f.px, i + q->f.px->nx, n, q->f.threshold),
                   a = p->bright ? ~dark : dark, b = p->bright ? ~dark_below : dark_below;

    /* The pixels of each diagonal are equal, and the two pixels of the first column differ. */
    return ~(a ^ b >> 1) & ~(a >> 1 ^ b) & (a ^ b) & ~(UINT64_MAX << (n - 1));
}

/* Returns a bit for each of the n <= 64 pixels of the row below pixel i, the first and the last
 * excepted. A bit is set if a region may start there: the pixel is cell, and of its neighbours the
 * left one and the three above are not. A region has few such pixels, however large it is. */
static uint64_t starts_at(const part *q, const cc_params *p, size_t i, unsigned n)
{
    const uint64_t dark = an_bits_below(q->f.px, i, n, q->f.threshold),
                   dark_below = an_bits_below(q->f.px, i + q->f.px->nx, n, q->f.threshold),
                   above = p->bright ? ~dark : dark, own = p->bright ? ~dark_below : dark_below;

    return own & ~(own << 1 | above << 1 | above | above >> 1) & ~(UINT64_MAX << (n - 1)) & ~1ull;
}

/* The side of the squares of solid_at: about half of that of a square of min_area pixels. */
static unsigned side_of_solid(const cc_params *p)
{
    unsigned side = MOST_SIDE;

    while (side >= LEAST_SIDE && 4 * (int64_t)side * side > p->min_area)
        side--;
    return side;
}

/* Returns a bit for each of the n <= 64 pixels of a row from pixel i on, set if the pixel is cell.
 */
static uint64_t cells_at(const part *q, const cc_params *p, size_t i, unsigned n)
{
    const uint64_t dark = an_bits_below(q->f.px, i, n, q->f.threshold);

    return (p->bright ? ~dark : dark) & (n < 64 ? ~(UINT64_MAX << n) : UINT64_MAX);
}

/* Returns a bit for each of the n <= 64 pixels of a row from pixel i on, the last few excepted. A
 * bit is set if the square of which this is the top left pixel is all cell. */
static uint64_t solid_at(const part *q, const cc_params *p, size_t i, unsigned n)
{
    const unsigned side = side_of_solid(p);
    uint64_t cells = UINT64_MAX, solid;

    for (unsigned k = 0; k < side && cells != 0; k++)
        cells &= cells_at(q, p, i + (size_t)k * q->f.px->nx, n);
    solid = cells;
    for (unsigned k = 1; k < side; k++)
        solid &= cells >> k;
    return solid;
}

/* What find_places finds: the pixels of bits that `at` sets; of 64 pixels of a row, it tests
 * `step`, and it reads `rows` rows. */
typedef struct places {
    uint64_t (*at)(const part *q, const cc_params *p, size_t i, unsigned n);
    unsigned step, rows;
} places;

/* Returns the number of places in the core. Sets place[k], for k < most, to the pixel of place
 * number wanted[k] in the order of the raster; `wanted` must be in ascending order. */
static uint64_t find_places(const part *q, const cc_params *p, const places *of,
                            const uint64_t *wanted, size_t most, size_t *place)
{
    const size_t nx = q->f.px->nx;
    uint64_t n = 0;

    for (size_t y = q->y0, k = 0; y + of->rows <= q->y1; y++)
        for (size_t x = q->x0; x + 1 < q->x1; x += of->step) {
            const size_t i = y * nx + x;
            const uint64_t found = of->at(q, p, i, q->x1 - x < 64 ? (unsigned)(q->x1 - x) : 64);
            const uint64_t before = n;

            n += (unsigned)__builtin_popcountll(found);
            for (; k < most && wanted[k] < n; k++) {
                uint64_t left = found;

                for (uint64_t skip = wanted[k] - before; skip > 0; skip--)
                    left &= left - 1; /* clears the lowest set bit */
                place[k] = i + (unsigned)__builtin_ctzll(left);
            }
        }
    return n;
}

/* Chooses up to `most` random places, one in each of as many ranges of about equal size. Returns
 * their number. */
static size_t choose_places(const part *q, const cc_params *p, const places *of, size_t most,
                            uint64_t *random, uint64_t *wanted, size_t *place)
{
    const uint64_t all = find_places(q, p, of, wanted, 0, place);
    const size_t n = all < most ? (size_t)all : most;

    for (size_t k = 0; k < n; k++)
        wanted[k] = k * all / n + tc_random_below((k + 1) * all / n - k * all / n, random);
    find_places(q, p, of, wanted, n, place);
    return n;
}

/* The pixels of the square around a row's box. 0 at the picture's border, which may cut regions. */
static int64_t square_of(const part *q, const table *t, size_t row)
{
    const int64_t *const b = t->bbox + 4 * row;
    const int64_t ny = b[2] - b[0], nx = b[3] - b[1], side = ny > nx ? ny : nx;

    return b[0] > 0 && b[1] > 0 && b[2] < q->ny && b[3] < q->nx ? side * side : 0;
}

/* Returns the number, among the rows of the part, which has rows, of the longest of n random rows:
 * that with the smallest area for the square around its box. Two cells that should have been split
 * are longer than each of them, whatever their size. */
static size_t choose_long(const part *q, const table *t, size_t n, uint64_t *random)
{
    size_t best = (size_t)tc_random_below(q->n_rows, random);
    double longest = 0;

    for (size_t k = 1; k < n; k++) {
        const size_t index = (size_t)tc_random_below(q->n_rows, random),
                     row = region_of(q, t, index).row;
        const double by = (double)square_of(q, t, row) / (double)t->area[row];

        if (by > longest) {
            longest = by;
            best = index;
        }
    }
    return best;
}

/* Fails with TC_NO_MATCH if a component was too large to be followed. */
static tc_status judge_large(bool large, tc_err *err)
{
    return large ? tc_fail(err, TC_NO_MATCH, "a component is too large to be followed") : TC_OK;
}

/* Checks, for random rows of the table, half of them by area, and random pixels in turn, that the
 * picture has the row's region and that the table has the regions of the pixel's component. With a
 * split, some of the rows are long ones. */
static tc_status check_parts(const an_work *work, part *q, const table *t, uint64_t *random,
                             tc_err *err)
{
    const places of = { starts_at, 62, 2 };
    uint64_t wanted[MORE] = { 0 };
    const int looks = looks_of(q);
    size_t left = (q->rows != NULL ? ROOMS_IN_TILE : ROOMS) * q->f.room, i = 0,
           by_area[LOOKS / 4] = { 0 }, listed = 0;
    size_t start[MORE] = { 0 }, order[MORE], next = 0;
    const bool of_split = ((const cc_params *)work->params)->split != 0;
    const size_t most = 2 * q->n_rows < LARGEST_OF ? 2 * q->n_rows : LARGEST_OF;
    const size_t starts = choose_places(q, work->params, &of, MORE, random, wanted, start);
    const unsigned side = side_of_solid(work->params);
    const places solid = { solid_at, 65 - side, side };
    const places cell = { cells_at, 64, 1 };
    size_t solids = 0, rare[LEAST_DRAWN] = { 0 }, rares = 0; /* pixels of cells that are rare */
    tc_status status = TC_OK;

    tc_random_order(starts, order, random);
    if (q->n_rows > 0)
        choose_by_area(q, t, random, (size_t)looks / 4, by_area);
    for (int k = 0; status == TC_OK && left > 0 &&
                    (k < looks || (q->rows == NULL && listed < LEAST_DRAWN && k < looks + MORE));
         k++) {
        /* otherwise the check begins at a pixel */
        const bool of_row = k < looks && k % 2 == 0 && q->n_rows > 0;
        const size_t row =
            !of_row      ? q->n_rows
            : k % 4 == 0 ? by_area[k / 4]
                         : choose_long(q, t, of_split && k % 16 == 2 ? most >> k / 16 : 1, random);
        sought s = { .row = row, .left = left };

        if (k == looks && side >= LEAST_SIDE)
            solids = choose_places(q, work->params, &solid, SOLID, random, wanted, start);
        const bool is_solid = k >= looks && (size_t)(k - looks) < solids;
        if (of_row)
            status = check_row(work, q, t, &s, err);
        else if (is_solid)
            status = check_component(work, q, t, start[k - looks], &s, err);
        else if (k < looks && k % 8 == 7 && next < starts)
            do
                status = check_component(work, q, t, start[order[next++]] + q->f.px->nx, &s, err);
            while (status == TC_OK && next < starts && !s.unknown && !s.listed_any);
        else {
            if (rares == 0 &&
                !find_cell(q, k % 4 == 1 || k >= looks ? HITS : 0, random, &s.of_hit, &i)) {
                rares = choose_places(q, work->params, &cell, LEAST_DRAWN, random, wanted, rare);
                if (rares == 0)
                    break;
            }
            status = check_component(work, q, t, rares > 0 ? rare[q->drawn % rares] : i, &s, err);
        }
        left = s.left;
        for (int d = 0; of_row && s.box[2] > 0 && d < 4; d++)
            q->beyond[d] = s.box[d] + (d % 2 == 0 ? q->y : q->x);
        q->looks +=
            s.unknown || s.listed_any; /* known components without a listed region do not count */
        q->known += s.listed_any;
        q->drawn += !of_row;
        listed += !of_row && !is_solid && (s.unknown || s.listed_any);
        q->large = q->large || s.large;
        q->hits += s.of_hit && !s.in_hole;
        q->bare_hits += s.of_hit && s.unknown && !is_in_box(q, t, 0, i);
        if (s.of_hit && !s.unknown && !s.in_hole) {
            q->known_hits++;
            q->absent += s.pixels > 0 ? s.absent / s.pixels : 0;
            q->small += s.pixels > 0 ? s.small / s.pixels : 0;
        }
        if (status == TC_OK && q->rows == NULL)
            status = judge_large(q->large, err);
    }
    return status;
}

/* Checks the components of the pixels of cells in up to CORNERS of the squares that corners_at
 * finds, where connectivity 4 and connectivity 8 give different components. */
static tc_status check_corners(const an_work *work, part *q, const table *t, uint64_t *random,
                               tc_err *err)
{
    const cc_params *const p = work->params;
    const size_t diagonal = q->f.px->nx + 1;
    const places of = { corners_at, 63, 2 };
    uint64_t wanted[CORNERS] = { 0 };
    size_t place[CORNERS] = { 0 };
    const size_t n = choose_places(q, p, &of, CORNERS, random, wanted, place);
    sought s = { .row = q->n_rows, .left = q->f.room };

    for (size_t k = 0; k < n && s.left > 0; k++) {
        /* Whether the two pixels of cells are the top left and the bottom right one of the square.
         */
        const bool falls = an_follow_accepts(&q->f, place[k]);
        const size_t first = falls ? place[k] : place[k] + 1;

        return_if_error(check_component(work, q, t, first, &s, err));
        if (!p->eight_connected)
            return_if_error(check_component(
                work, q, t, falls ? first + diagonal : first + diagonal - 2, &s, err));
    }
    return TC_OK;
}

/* Fails with TC_NO_MATCH unless at least `least` components and at least half of `looks` are known.
 * A picture without cells passes. */
static tc_status judge_known(uint64_t cells, size_t looks, size_t known, size_t least, tc_err *err)
{
    return cells == 0 || (known >= least && 2 * known >= looks)
               ? TC_OK
               : tc_fail(err, TC_NO_MATCH, "only %zu of %zu components are known", known, looks);
}

/* Fails with TC_NO_MATCH if a region of the table has more than `most` pixels, or a box with a side
 * of more than `side`: no component so large can be followed, so its values may be made up. */
static tc_status judge_sizes(const table *t, size_t most, uint32_t side, tc_err *err)
{
    for (size_t i = 0; i < t->n; i++) {
        const int64_t *const b = t->bbox + 4 * i;

        if ((uint64_t)t->area[i] > most || b[2] - b[0] > side || b[3] - b[1] > side)
            return tc_fail(err, TC_NO_MATCH, "region %zu is too large to be followed", i + 1);
    }
    return TC_OK;
}

/* Whether the threshold makes every pixel cell. */
static bool is_all_cell(const cc_params *p, const an_follow *f)
{
    return p->bright ? f->threshold == 0 : f->threshold >> f->px->bits != 0;
}

/* The greatest number of pixels for which a component of the part is followed. */
static size_t room_of(const part *q)
{
    const size_t share = q->rows != NULL ? ROOM_IN_TILE : ROOM_SHARE;

    return (size_t)q->f.px->nx * q->f.px->ny / share + LEAST_ROOM;
}

static void end_part(part *q)
{
    an_follow_end(&q->f);
    free(q->rows);
    free(q->seen);
    free(q->confirmed);
}

/* Does the checks of a part, which may be a tile or the whole picture. */
static tc_status check_part(const an_work *work, part *q, const table *t, uint64_t *random,
                            tc_err *err)
{
    const cc_params *const p = work->params;
    return_if_error(an_follow_begin(&q->f, room_of(q), err));

    if (!p->min_contrast && !p->min_area_auto) {
        q->seen = calloc((size_t)q->f.px->nx * q->f.px->ny / 8 + 1, 1);
        q->confirmed = calloc(q->n_rows + 1, sizeof *q->confirmed);
        if (q->seen == NULL || q->confirmed == NULL)
            return tc_no_memory(err, "the components");
    }
    if (t->labels != NULL)
        return_if_error(check_labels(p, q, t, random, err));
    if (t->labels != NULL && p->split == CC_INTENSITY)
        return_if_error(check_ways(q, t, random, err));
    if (!is_all_cell(p, &q->f)) {
        return_if_error(check_parts(work, q, t, random, err));
        return_if_error(check_corners(work, q, t, random, err));
    }
    return check_regions(p, q, t, random, err);
}

/* --- Otsu ------------------------------------------------------------------------------------ */

/* Compares the claimed threshold with the threshold of the tiles' pixels. The standard error of the
 * latter is estimated by the jackknife, from the thresholds found when one group of tiles at a time
 * is left out. histograms: [groups][2^bits], one of each group. */
static tc_status judge_found(const cc_params *p, const uint64_t *histograms, size_t groups,
                             unsigned bits, uint32_t claimed, tc_err *err)
{
    const size_t size = (size_t)1 << bits;
    TC_AUTOFREE uint64_t *const all = calloc(size, sizeof *all);
    TC_AUTOFREE uint64_t *const others = calloc(size, sizeof *others);
    double sum = 0, squares = 0, mean = 0, variance = 0;
    /* pixels; pixels of cells; pixels between the claimed and the expected threshold */
    uint64_t n = 0, cells = 0, between = 0;
    uint32_t expected;

    if (all == NULL || others == NULL)
        return tc_no_memory(err, "the grey values");
    for (size_t i = 0; i < groups * size; i++)
        all[i % size] += histograms[i];
    return_if_error(cc_find_threshold(p, all, bits, &expected, err));
    for (size_t k = 0; k < groups; k++) {
        uint32_t found;

        for (size_t v = 0; v < size; v++)
            others[v] = all[v] - histograms[k * size + v];
        return_if_error(cc_find_threshold(p, others, bits, &found, err));
        const double difference = (double)found - (double)expected;
        sum += difference;
        squares += difference * difference;
    }
    const double count = (double)groups,
                 error = sqrt(fmax(squares - sum * sum / count, 0) * (count - 1) / count);
    for (size_t v = 0; v < size; v++) {
        n += all[v];
        cells += (v >= expected) == p->bright ? all[v] : 0;
        between += (v >= expected) != (v >= claimed) ? all[v] : 0;
        mean += (double)v * (double)all[v];
    }
    mean /= (double)n;
    for (size_t v = 0; v < size; v++)
        variance += ((double)v - mean) * ((double)v - mean) * (double)all[v] / (double)n;
    return (fabs((double)claimed - (double)expected) <= ERRORS * error &&
            ERRORS * error <= MOST_DEVIATIONS * sqrt(variance)) ||
                   (FEW_IN * between <= n && FEW_OF * between <= cells)
               ? TC_OK
               : tc_fail(err, TC_NO_MATCH, "threshold: is %lu, but %lu in the tiles",
                         (unsigned long)claimed, (unsigned long)expected);
}

/* Checks that the claimed threshold is that of all pixels. */
static tc_status check_threshold(const cc_params *p, const wu_pixels *px, uint32_t claimed,
                                 tc_err *err)
{
    TC_AUTOFREE uint64_t *histogram = NULL;
    uint32_t expected;
    return_if_error(an_histogram_of(px, NULL, &histogram, err));

    return_if_error(cc_find_threshold(p, histogram, px->bits, &expected, err));
    return expected == claimed ? TC_OK
                               : tc_fail(err, TC_BAD_INPUT, "threshold: is %lu, not %lu",
                                         (unsigned long)claimed, (unsigned long)expected);
}

/* min_contrast: judges the pixels of cells that are in no region of the table. `pixels` is their
 * number; `all` and `rest` are the contrast summed over all pixels of cells and over these pixels.
 * If rest is more than 1 / SOME_SHARE of all, the mean contrast rest / pixels must be at most
 * AS_FAINT times the limit below which regions are left out: p->percent % of the mean contrast of
 * the large regions, q->contrast / q->area. */
static tc_status judge_rest(const cc_params *p, const part *q, double all, double rest,
                            double pixels, tc_err *err)
{
    return SOME_SHARE * rest <= all ||
                   (q->area > 0 &&
                    rest * 100 * q->area <= AS_FAINT * p->percent * q->contrast * pixels)
               ? TC_OK
               : tc_fail(err, TC_NO_MATCH, "regions of %.0f pixels are missing", pixels);
}

/* min_contrast, in a check of the whole picture: calls judge_rest with sums that it computes from
 * the picture's histogram and from the table. */
static tc_status check_rest(const cc_params *p, const part *q, const table *t, tc_err *err)
{
    TC_AUTOFREE uint64_t *histogram = NULL;
    const wu_pixels *const px = q->f.px;
    double all = 0, rest = 0, pixels = 0;
    return_if_error(an_histogram_of(px, NULL, &histogram, err));

    for (uint32_t v = 0; v < (uint32_t)1 << px->bits; v++)
        if ((v >= q->f.threshold) == p->bright) {
            all += (double)histogram[v] * contrast_of(p, v, q->f.threshold);
            pixels += (double)histogram[v];
        }
    rest = all;
    for (size_t i = 0; i < t->n; i++) {
        rest -= (double)t->area[i] * contrast_of(p, t->mean[i], q->f.threshold);
        pixels -= (double)t->area[i];
    }
    return judge_rest(p, q, all, rest, pixels, err);
}

/* --- areas that follow from those of regions ------------------------------------------------- */

/* Sets *area to the areas of the table's regions in ascending order, which the caller frees, and
 * *sum to the sum of these areas. */
static tc_status sort_areas(const table *t, int64_t **area, double *sum, tc_err *err)
{
    *area = malloc((t->n + 1) * sizeof **area);
    if (*area == NULL)
        return tc_no_memory(err, "the areas");
    if (t->n > 0) /* else t->area may be NULL */
        memcpy(*area, t->area, t->n * sizeof **area);
    qsort(*area, t->n, sizeof **area, an_compare_areas);
    *sum = 0;
    for (size_t i = 0; i < t->n; i++)
        *sum += (double)t->area[i];
    return TC_OK;
}

/* Returns the number of pixels in regions that are not in the table, if this is the given share of
 * the pixels of all regions; the regions in the table have `sum` pixels. */
static double pixels_of(double share, double sum)
{
    return share < 1 ? sum * share / (1 - share) : INFINITY;
}

/* Returns the area such that the regions of up to this area contain 1/parts of the pixels of all
 * regions. area: the areas of the n regions in the table, ascending; rest: the number of pixels in
 * smaller regions that are not in the table, each of which is assumed to have the area `small`. */
static int64_t quantile(const int64_t *area, size_t n, double parts, double rest, int64_t small)
{
    double all = rest, sum = rest;
    size_t k = 0;

    for (size_t i = 0; i < n; i++)
        all += (double)area[i];
    if (rest * parts >= all)
        return small;
    while (k + 1 < n && (sum += (double)area[k]) * parts < all)
        k++;
    return area[k];
}

/* Sets *full to a lower bound of full_area "auto". Where regions are missing, the table alone gives
 * too large a full_area; so the estimated number of missing pixels is taken into account, as
 * regions of one pixel. side: an upper bound of the number of pixels of all regions. */
static tc_status find_least_full_area(const part *q, const table *t, double side, int64_t *full,
                                      tc_err *err)
{
    TC_AUTOFREE int64_t *area = NULL;
    const double share = q->known_hits > 0 ? fmin(q->absent / q->known_hits + ABSENT_ERROR, 1) : 1;
    double sum = 0;
    return_if_error(sort_areas(t, &area, &sum, err));

    *full =
        cc_full_area(quantile(area, t->n, 2, fmin(pixels_of(share, sum), fmax(side - sum, 0)), 1));
    return TC_OK;
}

/* full_area "auto", of which `least` is a lower bound: checks that every missing region is smaller,
 * as min_contrast removes only such regions. */
static tc_status judge_full_area(const cc_params *p, const part *q, int64_t least, tc_err *err)
{
    return !p->min_contrast || !p->full_area_auto || q->missing_area == 0 || q->missing_area < least
               ? TC_OK
               : tc_fail(err, TC_NO_MATCH, "a region of %lld pixels is missing",
                         (long long)q->missing_area);
}

/* --- the whole picture ----------------------------------------------------------------------- */

/* What a check of the whole picture or of tiles finds. */
typedef struct outcome {
    bool of_regions;      /* a failure concerns regions, so that cc_check_again can decide */
    uint32_t doubtful[4]; /* as in `part` */
    double side;          /* upper bound of the number of pixels on the cells' side */
    double small;         /* estimated share of pixels in regions smaller than min_area */
} outcome;

/* min_contrast: replaces the sums in q over followed components by sums over the whole table, where
 * regions of at least `full` pixels are large. */
static void sum_contrast(const cc_params *p, part *q, const table *t, int64_t full)
{
    q->contrast = q->area = 0;
    q->faintest = INFINITY;
    for (size_t i = 0; p->min_contrast && i < t->n; i++) {
        const double contrast = contrast_of(p, t->mean[i], q->f.threshold);

        if (t->area[i] >= full) {
            q->contrast += contrast * (double)t->area[i];
            q->area += (double)t->area[i];
        } else {
            q->faintest = fmin(q->faintest, contrast);
        }
    }
}

/* Checks the whole picture, if grey values are not prepared. */
static tc_status check_whole(const an_work *work, const table *t, uint32_t threshold,
                             uint64_t *random, outcome *o, tc_err *err)
{
    const cc_params *const p = work->params;
    const wu_pixels *const px = work->pixels;
    const uint64_t cells = count_cells(p, px, threshold);
    TC_AUTO(end_part)
    part q = { .f = { .px = px,
                      .threshold = threshold,
                      .above = p->bright,
                      .corners = p->eight_connected },
               .original = px,
               .ny = px->ny,
               .nx = px->nx,
               .y1 = px->ny,
               .x1 = px->nx,
               .n_rows = t->n,
               .faintest = INFINITY };

    int64_t least_full = p->full_area; /* lower bound of full_area */

    o->side = (double)cells;
    if (cc_finds_threshold(p))
        return_if_error(check_threshold(p, px, threshold, err));
    return_if_error(check_totals(p, cells, t, err));
    return_if_error(judge_sizes(t, room_of(&q), UINT32_MAX, err));
    const tc_status status = check_part(work, &q, t, random, err);
    o->of_regions = !q.large; /* tiles around small regions do not show a large one */
    memcpy(o->doubtful, q.doubtful, sizeof q.doubtful);
    return_if_error(status);
    o->small = q.known_hits > 0 ? q.small / q.known_hits : 0;
    /* p->full_area may be too large (find_full_area). */
    if (p->min_contrast && p->full_area_auto)
        return_if_error(
            find_least_full_area(&q, t, p->fill_holes ? INFINITY : o->side, &least_full, err));
    sum_contrast(p, &q, t, p->full_area);
    const double limit = limit_of(p, &q);
    sum_contrast(p, &q, t, least_full);
    return_if_error(judge_contrast(p, &q, limit, limit_of(p, &q), ROUNDED, err));
    return_if_error(judge_full_area(p, &q, least_full, err));
    if (p->min_contrast && !p->fill_holes)
        return_if_error(check_rest(p, &q, t, err));
    if (cells > 0 && q.drawn < LEAST_DRAWN)
        return tc_fail(err, TC_NO_MATCH, "only %zu components of pixels were followed", q.drawn);
    return judge_known(cells, q.looks, q.known, LEAST_KNOWN, err);
}

/* --- tiles ----------------------------------------------------------------------------------- */

/* The width of a tile's margin: one more than the greatest distance, in pixels, of a pixel that a
 * prepared grey value depends on. */
static uint32_t margin_of(const cc_params *p)
{
    const int smooth = p->smooth > 0 ? an_gauss_radius(p->smooth) : 0;
    const int ground = p->background ? p->ground == CC_OPENING ? 2 * p->radius : p->radius : 0;

    return (uint32_t)(smooth + ground + (p->threshold_word == CC_LOCAL ? p->window / 2 : 0)) + 1;
}

/* The share of the picture that is prepared for a tile of this side, margin included. */
static double share_of_tile(const cc_params *p, const wu_item *item, uint32_t side)
{
    const double whole = side + 2.0 * margin_of(p);

    return whole * whole / ((double)item->nx * item->ny);
}

/* The side of a tile without its margin. */
static uint32_t side_of(const cc_params *p, const wu_item *item)
{
    const uint32_t margin = margin_of(p), least = margin > LEAST_TILE ? margin : LEAST_TILE;
    uint32_t side = MOST_TILE;

    while (side > least && MANY_TILES * share_of_tile(p, item, side) > TILED)
        side--;
    return side > least ? side : least;
}

static size_t count_tiles(const cc_params *p, const wu_item *item)
{
    const double wanted = TILED / share_of_tile(p, item, side_of(p, item));

    return wanted < LEAST_TILES ? LEAST_TILES : wanted > MOST_TILES ? MOST_TILES : (size_t)wanted;
}

/* The number of tiles, where regions may be missing, that are added to n tiles. */
static size_t bare_of(size_t n)
{
    return 1 + n / PER_BARE;
}

/* The number of tiles that choose_rows adds. */
static size_t chosen_of(const cc_params *p)
{
    return p->split ? MOST_CHOSEN : MOST_CHOSEN - 1;
}

/* The share of the picture that is prepared for all tiles. */
static double share_of_tiles(const cc_params *p, const wu_item *item)
{
    const size_t n = count_tiles(p, item);
    const uint32_t side = side_of(p, item);

    return (double)(n + bare_of(n)) * share_of_tile(p, item, side) +
           (double)chosen_of(p) * share_of_tile(p, item, side / 2);
}

/* Sums over all tiles. Pixels are counted in the tiles' cores only. */
typedef struct found {
    uint64_t pixels;     /* all pixels */
    uint64_t cells;      /* pixels of cells */
    uint64_t claimed;    /* pixels with a label, or, without labels, in a box of the table */
    uint64_t both;       /* pixels of cells that are claimed */
    size_t looks, known; /* as in `part`; only tiles IN_BANDS count */
    bool large;          /* as in `part`; CHOSEN and SUSPECT tiles do not count */
    double contrast;     /* the contrast summed over all pixels of cells */
    double rest;         /* the contrast summed over the pixels of cells that are not claimed */
    part sums;           /* only the fields from `hits` on are used. Only tiles IN_BANDS count in
                            hits, known_hits, bare_hits, absent and small */
    uint64_t *histogram; /* the histogram to which the tile's pixels are added: that of its group of
                            tiles; NULL if the threshold is not found in a histogram */
} found;

/* The extent of a tile along an axis. */
typedef struct extent {
    uint32_t first, end; /* the core, half-open */
    uint32_t from, to;   /* the core with the margin */
} extent;

/* Returns the extent of a tile along an axis of `length` pixels. The core has n pixels, or hi - lo
 * if that is more; its middle is the middle of [lo, hi) unless it must be moved to lie within the
 * axis.
 */
static extent extent_of(uint32_t length, uint32_t n, uint32_t lo, uint32_t hi, uint32_t margin)
{
    const uint32_t wanted = hi - lo > n ? hi - lo : n, core = wanted < length ? wanted : length,
                   middle = lo + (hi - lo) / 2;
    const uint32_t least = middle > core / 2 ? middle - core / 2 : 0,
                   first = least < length - core ? least : length - core;

    return (extent){ first, first + core, first > margin ? first - margin : 0,
                     length - first - core > margin ? first + core + margin : length };
}

/* Sets place, y0, x0, y1, x1, to a random pixel in band `row` of n bands of rows and in band
 * `column` of n bands of columns: a tile is placed around it. */
static void choose_place(const wu_pixels *px, size_t row, size_t column, size_t n, uint64_t *random,
                         uint32_t place[4])
{
    const size_t y0 = px->ny * row / n, y1 = px->ny * (row + 1) / n, x0 = px->nx * column / n,
                 x1 = px->nx * (column + 1) / n;

    place[0] = (uint32_t)(y0 + tc_random_below(y1 > y0 ? y1 - y0 : 1, random));
    place[1] = (uint32_t)(x0 + tc_random_below(x1 > x0 ? x1 - x0 : 1, random));
    place[2] = place[0] + 1;
    place[3] = place[1] + 1;
}

/* The grey value of the pixel of the picture that is nearest to (y, x). */
static int64_t value_near(const wu_pixels *px, int64_t y, int64_t x)
{
    y = y < 0 ? 0 : y;
    x = x < 0 ? 0 : x;
    return wu_grey_value(px, (size_t)(y < px->ny ? y : px->ny - 1) * px->nx +
                                 (size_t)(x < px->nx ? x : px->nx - 1));
}

/* Returns how much brighter, or for dark cells darker, the picture is around a pixel than at a
 * distance of `reach` pixels: the sum of eight differences. */
static int64_t stands_out(const cc_params *p, const wu_pixels *px, uint32_t y, uint32_t x,
                          int64_t reach)
{
    int64_t sum = 0;

    for (int k = 0; k < 9; k++) {
        const int64_t near = reach / 8 > 0 ? reach / 8 : 1, dy = k / 3 - 1, dx = k % 3 - 1;

        sum += value_near(px, y + near * dy, x + near * dx) -
               value_near(px, y + reach * dy, x + reach * dx);
    }
    return p->bright ? sum : -sum;
}

/* The grey value of a pixel, greater the farther on the cells' side. */
static int64_t height_at(const cc_params *p, const wu_pixels *px, int64_t y, int64_t x)
{
    const int64_t v = wu_grey_value(px, (size_t)y * px->nx + (size_t)x);

    return p->bright ? v : -v;
}

/* Sets *y and *x to the one farthest on the cells' side of NEAR pixels in a random square of this
 * side. Returns how much its value differs from the least one. */
static int64_t choose_near(const cc_params *p, const wu_pixels *px, int64_t side, uint64_t *random,
                           uint32_t *y, uint32_t *x)
{
    const uint32_t ny = side < px->ny ? (uint32_t)side : px->ny,
                   nx = side < px->nx ? (uint32_t)side : px->nx,
                   y0 = (uint32_t)tc_random_below(px->ny - ny + 1, random),
                   x0 = (uint32_t)tc_random_below(px->nx - nx + 1, random);
    int64_t least = INT64_MAX, most = INT64_MIN;

    for (int k = 0; k < NEAR; k++) {
        const uint64_t i = tc_random_below((uint64_t)ny * nx, random);
        const uint32_t y1 = y0 + (uint32_t)(i / nx), x1 = x0 + (uint32_t)(i % nx);
        const int64_t height = height_at(p, px, y1, x1);

        least = height < least ? height : least;
        if (height > most) {
            most = height;
            *y = y1;
            *x = x1;
        }
    }
    return most - least;
}

/* Sets place[n], as choose_place does, to the random pixel that stands out most (SAMPLES).
 * Leaves out pixels in boxes of the table, whose sides are at most `side`, and pixels nearer than
 * `side` to one of the n places before. Returns false if no pixel remains. */
static bool choose_bare(const cc_params *p, const wu_pixels *px, const table *t, uint32_t side,
                        uint64_t *random, size_t n, uint32_t (*place)[4])
{
    const part whole = { .f = { .px = px }, .n_rows = t->n };
    const uint64_t wanted = (uint64_t)px->nx * px->ny / SAMPLED,
                   samples = wanted < SAMPLES ? wanted : SAMPLES;
    int64_t sides = 0, most = INT64_MIN;

    for (size_t i = 0; i < t->n; i++) {
        const int64_t *const b = t->bbox + 4 * i;

        sides += b[2] - b[0] + b[3] - b[1];
    }
    const int64_t mean = t->n > 0 ? sides / (2 * (int64_t)t->n) : 1;
    for (uint64_t k = 0; k < samples; k++) {
        uint32_t y = 0, x = 0;
        /* Where values are so even, stands_out hardly returns more than `most`. */
        if (16 * choose_near(p, px, mean, random, &y, &x) < most)
            continue;
        const int64_t by = t->n > 0 ? stands_out(p, px, y, x, mean) : 0;
        bool bare = by > most;

        for (size_t i = 0; bare && i < n; i++)
            bare =
                llabs((int64_t)y - place[i][0]) >= side || llabs((int64_t)x - place[i][1]) >= side;
        if (bare && !is_in_box(&whole, t, first_row(&whole, t, y < side ? 0 : y - side),
                               (size_t)y * px->nx + x)) {
            most = by;
            memcpy(place[n], (uint32_t[]){ y, x, y + 1, x + 1 }, sizeof place[n]);
        }
    }
    return most > INT64_MIN;
}

/* Sets q->rows and q->n_rows: the rows of the table whose boxes lie in the core. */
static tc_status find_rows(part *q, const table *t, tc_err *err)
{
    q->rows = malloc((t->n + 1) * sizeof *q->rows);
    if (q->rows == NULL)
        return tc_no_memory(err, "a tile");
    for (size_t row = 0; row < t->n; row++) {
        const int64_t *const b = t->bbox + 4 * row;

        if (b[0] >= q->y + q->y0 && b[2] <= q->y + q->y1 && b[1] >= q->x + q->x0 &&
            b[3] <= q->x + q->x1)
            q->rows[q->n_rows++] = row;
    }
    return TC_OK;
}

/* Sets marks, [ny][nx] of the part, to 1 for the core's pixels that lie in a box of the table. */
static void mark_boxes(const part *q, const table *t, uint8_t *marks)
{
    for (size_t row = 0; row < t->n; row++) {
        const int64_t *const b = t->bbox + 4 * row;
        const int64_t y0 = b[0] > q->y + q->y0 ? b[0] - q->y : q->y0,
                      y1 = b[2] < q->y + q->y1 ? b[2] - q->y : q->y1;
        const int64_t x0 = b[1] > q->x + q->x0 ? b[1] - q->x : q->x0,
                      x1 = b[3] < q->x + q->x1 ? b[3] - q->x : q->x1;

        for (int64_t y = y0; y < y1 && x0 < x1; y++)
            memset(marks + y * q->f.px->nx + x0, 1, (size_t)(x1 - x0));
    }
}

/* Adds the pixels of the core to the sums in `all`. */
static tc_status count_core(const cc_params *p, const part *q, const table *t, found *all,
                            tc_err *err)
{
    const wu_pixels *const px = q->f.px;
    uint8_t *const marks = t->labels == NULL ? calloc((size_t)px->nx * px->ny, 1) : NULL;

    if (t->labels == NULL && marks == NULL)
        return tc_no_memory(err, "a tile");
    if (marks != NULL)
        mark_boxes(q, t, marks);
    for (uint32_t y = q->y0; y < q->y1; y++)
        for (uint32_t x = q->x0; x < q->x1; x++) {
            const size_t i = (size_t)y * px->nx + x;
            const bool cell = an_follow_accepts(&q->f, i),
                       claimed = marks != NULL ? marks[i] != 0 : t->labels[in_picture(q, i)] != 0;

            all->pixels++;
            all->cells += cell;
            all->claimed += claimed;
            all->both += cell && claimed;
            if (cell) {
                const double contrast = contrast_of(p, wu_grey_value(px, i), q->f.threshold);

                all->contrast += contrast;
                all->rest += claimed ? 0 : contrast;
            }
            if (all->histogram != NULL)
                all->histogram[wu_grey_value(px, i)]++;
        }
    free(marks);
    return TC_OK;
}

/* Where a tile lies: in a band of rows and a band of columns, around a region chosen by area,
 * around one that choose_rows chooses, or where a region may be wrong or missing. */
typedef enum tile_kind { IN_BANDS, OF_REGION, CHOSEN, SUSPECT } tile_kind;

/* Prepares and checks the tile around `place`, and adds what it finds to `all`. Sets doubtful and
 * beyond, as in `part`. */
static tc_status check_tile(const an_work *work, const table *t, uint32_t threshold,
                            const uint32_t place[4], tile_kind kind, uint64_t *random, found *all,
                            uint32_t doubtful[4], uint32_t beyond[4], tc_err *err)
{
    const cc_params *const p = work->params;
    const wu_pixels *const px = work->pixels;
    const uint32_t margin = margin_of(p), side = side_of(p, work->item);
    uint32_t core[2];
    extent y, x;
    cc_prepare prepare = { .current = NULL };
    wu_pixels tile = { .nx = 0 };
    part q = { .f = { .threshold = threshold, .above = p->bright, .corners = p->eight_connected },
               .original = &tile,
               .ny = px->ny,
               .nx = px->nx,
               .suspect = kind == CHOSEN || kind == SUSPECT,
               .faintest = INFINITY };
    tc_status status;

    for (int d = 0; d < 2; d++) /* a chosen row needs little around it */
        core[d] = kind == CHOSEN ? (side + 3 * (place[d + 2] - place[d])) / 4 : side;
    y = extent_of(px->ny, core[0], place[0], place[2], margin);
    x = extent_of(px->nx, core[1], place[1], place[3], margin);
    q.y = y.from, q.y0 = y.first - y.from, q.y1 = y.end - y.from;
    q.x = x.from, q.x0 = x.first - x.from, q.x1 = x.end - x.from;
    {
        const uint32_t from[3] = { 0, y.from, x.from },
                       size[3] = { 1, y.to - y.from, x.to - x.from };

        status = an_copy_box(px, from, size, &tile, err);
    }
    if (status == TC_OK)
        status = cc_prepare_all(&prepare, p, &tile, err);
    q.f.px = prepare.current;
    if (status == TC_OK)
        status = find_rows(&q, t, err);
    if (status == TC_OK)
        status = check_part(work, &q, t, random, err);
    if (q.doubtful[2] > 0)
        memcpy(doubtful, q.doubtful, sizeof q.doubtful);
    memcpy(beyond, q.beyond, sizeof q.beyond);
    if (status == TC_OK && kind != SUSPECT)
        status = count_core(p, &q, t, all, err);
    if (kind == IN_BANDS) { /* a table might be right only where it has regions */
        all->looks += q.looks;
        all->known += q.known;
        all->sums.hits += q.hits;
        all->sums.known_hits += q.known_hits;
        all->sums.bare_hits += q.bare_hits;
        all->sums.absent += q.absent;
        all->sums.small += q.small;
    }
    if (q.missing_area > all->sums.missing_area)
        all->sums.missing_area = q.missing_area;
    all->large = all->large || (kind < CHOSEN && q.large);
    all->sums.contrast += q.contrast;
    all->sums.area += q.area;
    all->sums.squares += q.squares;
    all->sums.large_regions += q.large_regions;
    all->sums.missing = fmax(all->sums.missing, q.missing);
    all->sums.faintest = fmin(all->sums.faintest, q.faintest);
    end_part(&q);
    cc_prepare_end(&prepare);
    wu_pixels_free(&tile);
    return status;
}

/* Compares the pixels that the result claims to be cells with those that are: at least half of the
 * cells must be claimed; with labels, at least half of the claimed pixels must be cells; with
 * boxes, cells must be more frequent in them than outside. */
static tc_status judge_tiles(const found *all, bool boxes, tc_err *err)
{
    const uint64_t other = all->pixels - all->claimed;
    const bool missed = 2 * all->both < all->cells,
               invented = !boxes && 2 * all->both < all->claimed;
    /* both / claimed <= (cells - both) / other, without divisions */
    const bool blind = boxes && other > 0 && all->claimed > 0 &&
                       all->both * other <= (all->cells - all->both) * all->claimed;

    return !missed && !invented && !blind
               ? TC_OK
               : tc_fail(err, TC_NO_MATCH,
                         "the tiles have %llu pixels of cells in %llu; the result claims %llu of "
                         "them among %llu",
                         (unsigned long long)all->cells, (unsigned long long)all->pixels,
                         (unsigned long long)all->both, (unsigned long long)all->claimed);
}

/* Returns the largest of LARGEST_OF random rows of the table, which has rows. Where cells touch
 * that should have been split, it is likely to be two of them. */
static size_t choose_large(const table *t, uint64_t *random)
{
    size_t best = (size_t)tc_random_below(t->n, random);

    for (int k = 1; k < LARGEST_OF; k++) {
        const size_t row = (size_t)tc_random_below(t->n, random);

        best = t->area[row] > t->area[best] ? row : best;
    }
    return best;
}

/* Returns the row of the table, which has rows, whose region is nearest to (y, x). */
static size_t choose_nearest(const table *t, double y, double x)
{
    double least = INFINITY;
    size_t best = 0;

    for (size_t row = 0; row < t->n; row++) {
        const double dy = t->centroid[2 * row] - y, dx = t->centroid[2 * row + 1] - x,
                     by = dy * dy + dx * dx;

        if (by < least) {
            least = by;
            best = row;
        }
    }
    return best;
}

/* Returns how much the greatest of n values along a row (dy 0) or a column (dx 0), from (y, x) on,
 * exceeds the greatest of their neighbours `out` pixels to the side; 0 if there are none. */
static int64_t step_at_side(const cc_params *p, const wu_pixels *px, int64_t y, int64_t x,
                            int64_t dy, int64_t dx, int64_t n, int64_t out)
{
    const int64_t other_y = y + out * dx, other_x = x + out * dy;
    int64_t inside = INT64_MIN / 2, outside = INT64_MIN / 2;

    if (other_y < 0 || other_x < 0 || other_y >= px->ny || other_x >= px->nx)
        return 0;
    for (int64_t k = 0; k < n; k++) {
        const int64_t in = height_at(p, px, y + k * dy, x + k * dx),
                      beside = height_at(p, px, other_y + k * dy, other_x + k * dx);

        inside = in > inside ? in : inside;
        outside = beside > outside ? beside : outside;
    }
    return inside - outside;
}

/* Returns the mean step of grey values at the sides of a row's box, INFINITY if there are none. */
static double mean_step(const cc_params *p, const wu_pixels *px, const table *t, size_t row)
{
    const int64_t *const b = t->bbox + 4 * row;
    const int64_t ny = b[2] - b[0], nx = b[3] - b[1];
    const int sides = (b[0] > 0) + (b[1] > 0) + (b[2] < px->ny) + (b[3] < px->nx);
    const int64_t steps = step_at_side(p, px, b[0], b[1], 0, 1, nx, -1) +
                          step_at_side(p, px, b[2] - 1, b[1], 0, 1, nx, 1) +
                          step_at_side(p, px, b[0], b[1], 1, 0, ny, -1) +
                          step_at_side(p, px, b[0], b[3] - 1, 1, 0, ny, 1);

    return sides > 0 ? (double)steps / sides : INFINITY;
}

/* Returns the random row of the table, which has rows, with the least mean step. */
static size_t choose_odd(const cc_params *p, const wu_pixels *px, const table *t, uint64_t *random)
{
    double least = INFINITY;
    int64_t pixels = 0;
    size_t best = 0;

    for (int k = 0; k < CANDIDATES && pixels < ODD_PIXELS; k++) {
        const size_t row = (size_t)tc_random_below(t->n, random);
        const int64_t *const b = t->bbox + 4 * row;
        const double by = mean_step(p, px, t, row);

        pixels += (b[2] - b[0]) * (b[3] - b[1]);
        if (k == 0 || by < least) {
            least = by;
            best = row;
        }
    }
    return best;
}

/* Sets rows[k], for k < chosen_of(p), to rows of the table, which has rows, around which tiles are
 * placed. Regions nearest to random pixels are found at any density. The second pixel is half the
 * picture away from the first along both axes, so that the two are not in one dense part. */
static void choose_rows(const cc_params *p, const wu_pixels *px, const table *t, uint64_t *random,
                        size_t rows[MOST_CHOSEN])
{
    const part whole = { .ny = px->ny, .nx = px->nx, .n_rows = t->n };
    const uint64_t y = tc_random_below(px->ny, random), x = tc_random_below(px->nx, random);

    rows[0] = choose_nearest(t, (double)y, (double)x);
    rows[1] =
        choose_nearest(t, (double)((y + px->ny / 2) % px->ny), (double)((x + px->nx / 2) % px->nx));
    rows[2] = choose_odd(p, px, t, random);
    if (p->split)
        rows[3] = choose_long(&whole, t, LARGEST_OF, random);
}

/* Of n rows of the table, which has `all` rows, replaces each that is among those before it by the
 * next row that is not, so that few regions in a picture are all looked at. Without such a row
 * nothing is replaced. */
static void replace_repeated(size_t all, size_t *rows, size_t n)
{
    for (size_t k = 1; k < n && k < all; k++)
        for (size_t i = 0; i < k;)
            if (rows[i] == rows[k]) {
                rows[k] = (rows[k] + 1) % all;
                i = 0;
            } else {
                i++;
            }
}

/* Checks tiles, if grey values are prepared. A quarter of the tiles is placed around regions of the
 * table, in proportion to their areas. The others lie in different bands of rows and different
 * bands of columns, one in each, so that no tall or wide structure is missed. The tiles of
 * choose_rows follow, and those where regions may be missing. */
static tc_status check_tiles(const an_work *work, const table *t, uint32_t threshold,
                             uint64_t *random, outcome *o, tc_err *err)
{
    const cc_params *const p = work->params;
    const wu_pixels *const px = work->pixels;
    const size_t n = count_tiles(p, work->item), bands = t->n > 0 ? n - n / 4 : n,
                 end = t->n > 0 ? n + chosen_of(p) : n; /* tiles in bands and around rows */
    size_t column[MOST_TILES], around_rows[MOST_TILES + MOST_CHOSEN] = { 0 };
    uint32_t bare[1 + MOST_TILES / PER_BARE][4];
    const part whole = { .n_rows = t->n };
    const uint32_t size = (uint32_t)1 << px->bits;
    const bool finds = cc_finds_threshold(p);
    const size_t groups = bands < GROUPS ? bands : GROUPS;
    TC_AUTOFREE uint64_t *const histograms =
        finds ? calloc(groups * size, sizeof *histograms) : NULL;
    size_t around = 0; /* tiles around components that reach out of other tiles */
    found all = { .sums.faintest = INFINITY };
    int64_t least_full = p->full_area; /* lower bound of full_area */
    tc_status doubt = TC_OK;

    if (finds && histograms == NULL)
        return tc_no_memory(err, "the grey values");
    return_if_error(judge_sizes(t, SIZE_MAX, side_of(p, work->item), err));
    tc_random_order(bands, column, random);
    if (t->n > 0) {
        choose_by_area(&whole, t, random, n - bands, around_rows);
        choose_rows(p, px, t, random, around_rows + n - bands);
    }
    if (t->n > 0 && p->split)
        around_rows[0] = choose_large(t, random);
    replace_repeated(t->n, around_rows, end - bands);
    for (size_t k = 0; k < end + bare_of(n); k++) {
        const tile_kind kind = k < bands ? IN_BANDS
                               : k < n   ? OF_REGION
                               : k < end ? CHOSEN
                                         : SUSPECT;
        uint32_t place[4];

        /* Tiles around regions would bias the threshold, as they have a greater share of cells. */
        all.histogram = finds && kind == IN_BANDS ? histograms + k % groups * size : NULL;
        if (kind == IN_BANDS)
            choose_place(px, k, column[k], bands, random, place);
        else if (k < end)
            for (int d = 0; d < 4; d++)
                place[d] = (uint32_t)t->bbox[4 * around_rows[k - bands] + (size_t)d];
        else if (choose_bare(p, px, t, side_of(p, work->item), random, k - end, bare))
            memcpy(place, bare[k - end], sizeof place);
        else
            break;
        uint32_t beyond[4];
        tc_status status =
            check_tile(work, t, threshold, place, kind, random, &all, o->doubtful, beyond, err);
        if (status == TC_OK && beyond[2] > 0 && around < MOST_BEYOND) {
            around++;
            memcpy(place, beyond, sizeof place);
            status = check_tile(work, t, threshold, place, SUSPECT, random, &all, o->doubtful,
                                beyond, err);
        }
        if (doubt == TC_OK)
            o->of_regions = !finds && !all.large; /* again.c does not show large regions */
        /* The other tiles are checked as well, unless cc_check_again looks where the doubt is, or
         * is not called. */
        if (status == TC_NO_MATCH && o->doubtful[2] == 0 && o->of_regions)
            doubt = status;
        else
            return_if_error(status);
        if (doubt == TC_OK)
            return_if_error(judge_large(all.large, err));
        if (finds && k + 1 == bands)
            return_if_error(judge_found(p, histograms, groups, px->bits, threshold, err));
    }
    return_if_error(doubt);
    o->side = (double)px->nx * px->ny * ROUGHLY * (double)all.cells / (double)all.pixels;
    return_if_error(judge_tiles(&all, t->labels == NULL, err));
    if (all.cells == 0)
        return tc_fail(err, TC_NO_MATCH, "no cell in the tiles");
    o->of_regions = true;
    const double limit = limit_of(p, &all.sums);
    return_if_error(judge_contrast(p, &all.sums, limit, limit, tolerance_of(&all.sums), err));
    if (p->min_contrast && p->full_area_auto)
        return_if_error(find_least_full_area(&all.sums, t, INFINITY, &least_full, err));
    return_if_error(judge_full_area(p, &all.sums, least_full, err));
    if (p->min_contrast)
        return_if_error(
            judge_rest(p, &all.sums, all.contrast, all.rest, (double)(all.cells - all.both), err));
    o->small = all.sums.known_hits > 0 ? all.sums.small / all.sums.known_hits : 0;
    if (KNOWN_HITS * all.sums.known_hits < (double)all.sums.hits)
        return tc_fail(err, TC_NO_MATCH, "only %.0f of %zu components of pixels are known",
                       all.sums.known_hits, all.sums.hits);
    if (BARE_HITS * all.sums.bare_hits > all.sums.hits)
        return tc_fail(err, TC_NO_MATCH,
                       "%zu of %zu random pixels are in no known component and in no region's box",
                       all.sums.bare_hits, all.sums.hits);
    return judge_known(all.cells, all.looks, all.known, LEAST_IN_TILES, err);
}

/* --- parameters that follow from the areas --------------------------------------------------- */

/* The value of full_area "auto", from the regions in the table. It may be too large, but not too
 * small, since only small regions are missing from the table. */
static tc_status find_full_area(const table *t, int64_t *full, tc_err *err)
{
    TC_AUTOFREE int64_t *const area = malloc((t->n + 1) * sizeof *area);

    if (area == NULL)
        return tc_no_memory(err, "the areas");
    if (t->n > 0)
        memcpy(area, t->area, t->n * sizeof *area);
    *full = cc_full_area(cc_area_quantile(area, t->n, 1, 2));
    return TC_OK;
}

/* min_area "auto": checks that p->min_area, the value in the result, lies within the bounds that
 * follow from the regions in the table and the pixels of cells in no region. side: upper bound of
 * the number of pixels of cells in the picture; small: share of pixels in regions smaller than
 * min_area.
 */
static tc_status check_least(const cc_params *p, const table *t, double side, double small,
                             tc_err *err)
{
    TC_AUTOFREE int64_t *area = NULL;
    cc_params rest = *p;  /* the parameters without the filter min_area */
    double sum = 0, left; /* pixels of regions in the table; pixels of cells in no region of it */
    int64_t lo, hi;

    return_if_error(sort_areas(t, &area, &sum, err));
    left = fmax(side - sum, 0);
    rest.min_area = 1;
    rest.min_area_auto = 0;
    /* The lower bound assumes that all these pixels are regions of one pixel, the upper bound that
     * they are regions of min_area pixels. 2 and 10: cc_least_area takes the quantiles 1/2 and
     * 1/10.
     */
    lo = cc_least_area(quantile(area, t->n, 2, left, 1), quantile(area, t->n, 10, left, 1),
                       p->bright);
    if (cc_has_filters(&rest) || cc_has_preparation(p))
        left = pixels_of(small, sum); /* pixels may be in no region for other reasons */
    else if (p->fill_holes)
        left = fmax(left, pixels_of(small, sum)); /* `sum` includes pixels of holes */
    hi = t->n == 0 ? 1
                   : cc_least_area(quantile(area, t->n, 2, left, p->min_area),
                                   quantile(area, t->n, 10, left, p->min_area), p->bright);
    return p->min_area >= lo && p->min_area <= hi
               ? TC_OK
               : tc_fail(err, TC_NO_MATCH, "min_area: is %lld, but the regions give %lld to %lld",
                         (long long)p->min_area, (long long)lo, (long long)hi);
}

/* --- the check ------------------------------------------------------------------------------- */

tc_status cc_check_pixels(const an_work *given, const wu_output *out, uint64_t *random, tc_err *err)
{
    cc_params resolved_params;
    const cc_params *const p = &resolved_params;
    an_work resolved = *given, *const work = &resolved;
    outcome o = { .of_regions = false };

    if (given->item->n_masks > 0)
        return tc_fail(err, TC_NO_MATCH, "the item has a mask");
    return_if_error(cc_resolve_params(given, &resolved_params, err));
    resolved.params = p;
    if (p->polarity == CC_AUTO &&
        (*(const uint8_t *)wu_output_data(out, "bright") != 0) != p->bright)
        return tc_fail(err, TC_BAD_INPUT, "bright: differs from the polarity of the picture");
    resolved_params.polarity =
        p->bright ? CC_BRIGHT : CC_DARK; /* tiles must use the whole picture's polarity */
    if (p->window_auto && *(const int64_t *)wu_output_data(out, "window") != p->window)
        return tc_fail(err, TC_BAD_INPUT, "window: differs from the window found in the picture");
    if (p->min_area_auto)
        resolved_params.min_area = *(const int64_t *)wu_output_data(out, "min_area");
    const table t = table_of(p, out);
    if (p->full_area_auto)
        return_if_error(find_full_area(&t, &resolved_params.full_area, err));
    const int64_t claimed = *(const int64_t *)wu_output_data(out, "threshold");
    const uint32_t threshold =
        cc_finds_threshold(p) ? (uint32_t)claimed : cc_threshold(p, work->pixels->bits);

    if (claimed != threshold)
        return tc_fail(err, TC_BAD_INPUT, "threshold: is %lld, not %lu", (long long)claimed,
                       (unsigned long)threshold);
    if (cc_has_preparation(p) && share_of_tiles(p, work->item) > MOST_TILED)
        return tc_fail(err, TC_NO_MATCH, "the picture is too small for a check of a part of it");
    tc_status status = cc_has_preparation(p) ? check_tiles(work, &t, threshold, random, &o, err)
                                             : check_whole(work, &t, threshold, random, &o, err);
    /* If no box is doubtful, a place where a region may be missing is. */
    if (status == TC_NO_MATCH && o.of_regions && o.doubtful[2] == 0)
        (void)choose_bare(p, work->pixels, &t, side_of(p, work->item), random, 0, &o.doubtful);
    if (status == TC_NO_MATCH && o.of_regions)
        status = cc_check_again(work, out, threshold, margin_of(p), o.doubtful, random, err);
    return status == TC_OK && p->min_area_auto ? check_least(p, &t, o.side, o.small, err) : status;
}

double cc_pixels_share(const an_work *work)
{
    const cc_params *const p = work->params;
    if (work->item->n_masks > 0) /* such items are computed again */
        return 1;
    /* The cost of the check itself; 0.03 is the share that check_whole costs. */
    const double check = cc_has_preparation(p) ? share_of_tiles(p, work->item) : 0.03;

    return check > MOST_TILED ? 1 : fmin(DOUBTS + check, 1);
}
