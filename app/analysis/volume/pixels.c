/*
 * volume: checks whether a stack's voxels can have given these arrays. The number of membrane
 * voxels must be right. Of a stack that is neither smoothed nor repaired, some cells are found
 * again by flood fill from random voxels; of another one, all cells in some boxes are computed
 * again. Of a watershed, random voxels must also have the label of the neighbour that they lead to.
 */
#include <math.h>
#include <string.h>

#include "app/analysis/analyses.h"
#include "app/analysis/bits.h"
#include "app/analysis/common/follow.h"
#include "app/analysis/common/otsu.h"
#include "app/analysis/common/watershed_core.h"
#include "app/analysis/volume/volume.h"
#include "app/base/random.h"

/* "Followed" means: found by an_follow_component. */
enum {
    CELLS = 64,          /* components that are followed, at most */
    FOLLOWED = 256,      /* a component is followed through up to one in this many of all voxels; */
    FOLLOWED_IN_ALL = 8, /* all components together through up to one in this many */
    LOOKS = 256,         /* random voxels whose labels are checked */
    WAYS = 64,           /* voxels of a watershed whose highest neighbour is found */
    MOST_RADIUS = 9      /* largest radius of a blur, in voxels, at which computing a single blurred
                            voxel takes little time */
};

/* The search for missing cells that are too large for the other searches (check_large). */
enum {
    LARGE_LOOKS = 8, /* random voxels; those in no cell's bounding box are examined */
    LARGE = 32       /* a component is followed through up to one in this many of all voxels */
};

/* The numbers and sizes of the boxes that are computed again. */
enum {
    BOXES = 18,      /* boxes are added until their share of the stack is BOXES * BOX, ... */
    MOST_PARTS = 40, /* ... or there are this many; */
    MOST_BOXES = 22, /* if the table has no cell of them: until it is MOST_BOXES * BOX, ... */
    MOST_PARTS_IN_ALL = 48, /* ... or there are this many */
    LEAST_SIDE = 12         /* least side of a box, without its margins, in voxels */
};
/* The least share of the stack that a usual box has. */
static const double BOX = 0.03;
/* If a usual box would have more than this share, the whole item is computed again instead. */
static const double MOST_BOX = 0.2;
/* The search for cells that the table lacks (choose_place). */
enum {
    PLACES = 1024,   /* random voxels that are tried */
    CANDIDATES = 16, /* voxels of these, perhaps in a missing cell, that are examined further */
    COMPONENT = 4,   /* a component is followed through up to this many cells of mean size ... */
    COMPARED = 32,   /* ... but at most through one in this many of all voxels */
    WIDER = 2,       /* voxels between the margin of a box around a component and the component */
    BOX_SIDE = 64 /* least side of such a box along x and y: a blur of shorter rows is no faster */
};
/* The least side of a usual box without its margins, in mean lengths of the table's cells. */
static const double ROOMY = 1.25;

/* The shares of correct items that the check cannot confirm (TC_NO_MATCH), so that they are
 * computed again whole. DOUBTS: no cell is small enough to be followed. DOUBTS_WATERSHED: there are
 * no two cells. DOUBTS_BOXES: the boxes contain no cell. */
static const double DOUBTS = 0.9, DOUBTS_WATERSHED = 0.3, DOUBTS_BOXES = 0.5;

/* Sets *threshold: Otsu's threshold, which the result must state correctly, or the given one. */
static tc_status find_threshold(const an_work *work, const wu_output *out, uint32_t *threshold,
                                tc_err *err)
{
    const vol_params *const p = work->params;

    *threshold = (uint32_t)p->membrane;
    if (p->otsu)
        return_if_error(an_otsu_of(work->pixels, threshold, err));
    if (p->otsu && vol_read_integer(out, "threshold") != *threshold)
        return tc_fail(err, TC_BAD_INPUT, "threshold: is %lld, but Otsu's is %lu",
                       (long long)vol_read_integer(out, "threshold"), (unsigned long)*threshold);
    return TC_OK;
}

/* Checks the number of voxels that were membrane before the repair. */
static tc_status check_membrane(const an_work *work, uint32_t threshold, const wu_output *out,
                                tc_err *err)
{
    const wu_pixels *const px = work->pixels;
    const size_t n = (size_t)px->nx * px->ny * px->nz;
    const int64_t claimed =
        vol_read_integer(out, "membrane_voxels") - vol_read_integer(out, "repair_added_voxels");
    int64_t found = (int64_t)n;

    for (size_t i = 0; i < n; i += 64)
        found -= __builtin_popcountll(
            an_bits_below(px, i, n - i < 64 ? (unsigned)(n - i) : 64, threshold));
    if (claimed != found)
        return tc_fail(err, TC_BAD_INPUT,
                       "membrane_voxels: %lld before a repair, but the stack has %lld",
                       (long long)claimed, (long long)found);
    return TC_OK;
}

/* Checks that random voxels that have a cell's label are not membrane. */
static tc_status check_labels(const an_follow *f, const wu_out_array *labels, uint64_t *random,
                              tc_err *err)
{
    const uint64_t n = (uint64_t)f->px->nx * f->px->ny * f->px->nz;

    for (int k = 0; k < LOOKS; k++) {
        const size_t i = (size_t)tc_random_below(n, random);

        if (((const int32_t *)labels->data)[i] != 0 && !an_follow_accepts(f, i))
            return tc_fail(err, TC_BAD_INPUT, "%s: voxel %zu is membrane", labels->info.name, i);
    }
    return TC_OK;
}

/* Whether a component of voxels that are not membrane must be in the table: it is not connected
 * with the outside, and the parameters do not leave it out. */
static bool must_be_listed(const vol_params *p, const wu_item *item, const an_component *c)
{
    const bool in_end_slice = c->lo[0] == 0 || c->hi[0] == item->nz;
    const bool at_side =
        c->lo[1] == 0 || c->lo[2] == 0 || c->hi[1] == item->ny || c->hi[2] == item->nx;

    return !at_side && !(in_end_slice && (p->is_3d || p->exclude_border)) &&
           (int64_t)c->pixels >= p->min_voxels && (int64_t)c->pixels <= p->max_voxels;
}

/* Whether the table has a cell with the component's number of voxels, box and centroid. */
static bool is_listed(const wu_output *out, const an_component *c)
{
    const size_t n = (size_t)wu_output_find(out, "cell_item")->info.shape[0];
    const int64_t *const voxels = wu_output_data(out, "cell_voxels");
    const int64_t *const bbox = wu_output_data(out, "cell_bbox");
    const double *const centroid = wu_output_data(out, "cell_centroid");

    for (size_t i = 0; i < n; i++) {
        bool same = voxels[i] == (int64_t)c->pixels;

        for (int k = 0; k < 3 && same; k++)
            same = bbox[6 * i + (size_t)k] == c->lo[k] && bbox[6 * i + 3 + (size_t)k] == c->hi[k] &&
                   centroid[3 * i + (size_t)k] == (double)c->sum[k] / (double)c->pixels;
        if (same)
            return true;
    }
    return false;
}

static size_t count_cells(const wu_output *out)
{
    return (size_t)wu_output_find(out, "cell_item")->info.shape[0];
}

static bool is_in_cell_box(const wu_output *out, const uint32_t at[3])
{
    const int64_t *b = wu_output_data(out, "cell_bbox");
    bool in = false;

    for (size_t i = 0; i < count_cells(out) && !in; i++, b += 6) {
        in = true;
        for (int k = 0; k < 3; k++)
            in = in && at[k] >= b[k] && at[k] < b[3 + k];
    }
    return in;
}

/* Checks that random voxels that are in no cell's bounding box do not belong to a missing cell of
 * more than `least` voxels. */
static tc_status check_large(const an_work *work, uint32_t threshold, size_t least,
                             const wu_output *out, uint64_t *random, tc_err *err)
{
    const vol_params *const p = work->params;
    const wu_item *const item = work->item;
    const size_t n = (size_t)item->nx * item->ny * item->nz;
    TC_AUTO(an_follow_end)
    an_follow f = { .px = work->pixels, .threshold = threshold, .is_3d = p->is_3d };
    return_if_error(an_follow_begin(&f, n / LARGE + 64, err));

    for (int looks = 0; looks < LARGE_LOOKS; looks++) {
        an_component c;
        size_t i;

        if (!an_follow_find(&f, n, random, &i))
            break;
        const uint32_t at[3] = { (uint32_t)(i / item->nx / item->ny),
                                 (uint32_t)(i / item->nx % item->ny), (uint32_t)(i % item->nx) };

        if (is_in_cell_box(out, at))
            continue;
        an_follow_component(&f, i, &c);
        if (c.whole && c.pixels > least && must_be_listed(p, item, &c))
            return tc_fail(err, TC_NO_MATCH, "the cell around voxel %zu is not in the table", i);
    }
    return TC_OK;
}

/* Follows components from random voxels: those that must be in the table must be there. If the
 * table has none of them, nothing confirms it: TC_NO_MATCH. */
static tc_status check_cells(const an_work *work, an_follow *f, const wu_output *out,
                             uint64_t *random, tc_err *err)
{
    const size_t n = (size_t)work->item->nx * work->item->ny * work->item->nz;
    size_t start, left = n / FOLLOWED_IN_ALL;
    int looks = 0, known = 0;

    for (; looks < CELLS && left > 0 && an_follow_find(f, n, random, &start); looks++) {
        an_component c;
        bool listed;

        an_follow_component(f, start, &c);
        left -= c.pixels < left ? (size_t)c.pixels : left;
        if (!c.whole)
            continue;
        listed = is_listed(out, &c);
        known += listed;
        if (must_be_listed(work->params, work->item, &c) && !listed)
            return tc_fail(err, TC_NO_MATCH, "the cell around voxel %zu is not in the table",
                           start);
    }
    return looks == 0 || known > 0
               ? TC_OK
               : tc_fail(err, TC_NO_MATCH, "of %d cells that were looked at none is known", looks);
}

/* --- a blur ----------------------------------------------------------------------------------- */

/* A stack whose voxels' blurred grey values are computed one by one (`blurred`), as only few are
 * needed. labels: those of the result, or NULL. */
typedef struct heights {
    const vol_params *params;
    const wu_pixels *px;
    const int32_t *labels;
    uint32_t threshold;
    an_gauss gauss;
} heights;

static int64_t clamped(int64_t i, int64_t n)
{
    return i < 0 ? 0 : i < n ? i : n - 1;
}

/* The blurred grey value of voxel (z, y, x), in 2^-VOL_GREY_BITS, rounded in each direction as by
 * blur.c. */
static uint32_t blurred(const heights *h, const int64_t at[3])
{
    const wu_pixels *const px = h->px;
    const int64_t r = h->gauss.radius, deep = h->params->is_3d ? r : 0;
    const uint64_t half = (uint64_t)1 << (AN_GAUSS_BITS - 1);
    uint64_t in_z = half, in_y = 0, in_x = 0;

    for (int64_t z = -deep; z <= deep; z++) {
        in_y = half;
        for (int64_t y = -r; y <= r; y++) {
            const size_t row =
                (size_t)((clamped(at[0] + z, px->nz) * px->ny + clamped(at[1] + y, px->ny)) *
                         px->nx);

            in_x = (uint64_t)1 << (AN_GAUSS_BITS - VOL_GREY_BITS - 1);
            for (int64_t x = -r; x <= r; x++) {
                const size_t i = row + (size_t)clamped(at[2] + x, px->nx);

                in_x += (uint64_t)h->gauss.weight[x < 0 ? -x : x] * wu_grey(px, i);
            }
            in_y += h->gauss.weight[y < 0 ? -y : y] * (in_x >> (AN_GAUSS_BITS - VOL_GREY_BITS));
        }
        in_z += h->gauss.weight[z < 0 ? -z : z] * (in_y >> AN_GAUSS_BITS);
    }
    return (uint32_t)((h->params->is_3d ? in_z : in_y) >> AN_GAUSS_BITS);
}

/* --- boxes ----------------------------------------------------------------------------------- */

/* The mean length of the table's cells along y and x, in voxels. */
static double length_of_cells(const wu_output *out)
{
    const int64_t *const b = wu_output_data(out, "cell_bbox");
    const size_t n = count_cells(out);
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (double)(b[6 * i + 4] - b[6 * i + 1] + b[6 * i + 5] - b[6 * i + 2]) / 2;
    return sum / (double)n;
}

/* The greatest number of voxels of a component that is followed by find_component. */
static size_t most_followed(const wu_item *item, const wu_output *out)
{
    const size_t cell = (size_t)vol_read_integer(out, "inside_voxels") / count_cells(out),
                 share = (size_t)item->nx * item->ny * item->nz / COMPARED;

    return 64 + (COMPONENT * cell < share ? COMPONENT * cell : share);
}

/* The width of a box's margin, in voxels, within which cells may differ from those of the whole
 * stack: the blur, which decides what is membrane, depends on voxels up to its radius away; two
 * voxels are added. */
static uint32_t margin_of(const heights *h)
{
    return (uint32_t)h->gauss.radius + 2;
}

/* Whether voxel (z, y, x) is membrane. smoothed: judged by its blurred grey value, otherwise by its
 * own. */
static bool is_wall(const heights *h, bool smoothed, const uint32_t at[3])
{
    const int64_t position[3] = { at[0], at[1], at[2] };

    return smoothed ? vol_is_membrane(blurred(h, position), h->threshold << VOL_GREY_BITS)
                    : vol_is_membrane(
                          wu_grey(h->px, ((size_t)at[0] * h->px->ny + at[1]) * h->px->nx + at[2]),
                          h->threshold);
}

/* Moves at[axis] to the middle between the nearest membranes along the axis. False if membrane is
 * missing on one side, or they are more than `most` voxels apart. */
static bool move_to_middle(const heights *h, bool smoothed, int axis, double most, uint32_t at[3])
{
    const uint32_t length[3] = { h->px->nz, h->px->ny, h->px->nx };
    uint32_t low[3], high[3];

    memcpy(low, at, sizeof low);
    memcpy(high, at, sizeof high);
    for (; high[axis] - low[axis] <= most && !is_wall(h, smoothed, low); low[axis]--)
        if (low[axis] == 0)
            return false;
    for (; high[axis] - low[axis] <= most && !is_wall(h, smoothed, high); high[axis]++)
        if (high[axis] + 1 == length[axis])
            return false;
    at[axis] = low[axis] + (high[axis] - low[axis]) / 2;
    return high[axis] - low[axis] <= most;
}

/* Calls move_to_middle for all axes along which cells extend. False if the place is membrane, or if
 * a call returns false. */
static bool move_to_centre(const heights *h, bool smoothed, double most, uint32_t at[3])
{
    return !is_wall(h, smoothed, at) && move_to_middle(h, smoothed, 2, most, at) &&
           move_to_middle(h, smoothed, 1, most, at) &&
           (!h->params->is_3d || move_to_middle(h, smoothed, 0, most, at));
}

/* A box of the stack, from voxel `from` on: z, y, x. A cell between lo and hi, which are positions
 * in the stack, is the same in the box alone as in the stack; hi is exclusive. */
typedef struct part {
    uint32_t from[3], size[3], lo[3], hi[3];
} part;

/* Sets the sides of a usual box: at least `least` voxels and equal along all axes, except where the
 * stack is shorter; the smallest for which the box has at least the share BOX of the stack. */
static void choose_sides(const wu_item *item, uint32_t least, uint32_t side[3])
{
    const uint32_t length[3] = { item->nz, item->ny, item->nx };
    const double wanted = BOX * length[0] * length[1] * length[2];
    double got = 0;

    for (uint32_t s = least; got < wanted && s <= WU_MAX_SIDE; s++) {
        got = 1;
        for (int k = 0; k < 3; k++) {
            side[k] = s < length[k] ? s : length[k];
            got *= side[k];
        }
    }
}

/* The box with these sides around a place, moved so that it lies in the stack. */
static part part_at(const wu_item *item, const uint32_t side[3], uint32_t margin, bool through,
                    const uint32_t place[3])
{
    const uint32_t length[3] = { item->nz, item->ny, item->nx };
    part b;

    for (int k = 0; k < 3; k++) {
        const uint32_t inset = k == 0 && !through ? 0 : margin, last = length[k] - side[k];
        const uint32_t from = place[k] > side[k] / 2 ? place[k] - side[k] / 2 : 0;

        b.size[k] = side[k];
        b.from[k] = from < last ? from : last;
        b.lo[k] = b.from[k] == 0 ? 0 : b.from[k] + inset;
        b.hi[k] = b.from[k] == last ? length[k] : b.from[k] + side[k] - inset;
    }
    return b;
}

/* The boxes that have been computed again. */
typedef struct parts {
    part list[MOST_PARTS_IN_ALL];
    int n;
    double share; /* their share of the stack's voxels */
} parts;

static bool is_seen(const parts *seen, const uint32_t at[3])
{
    for (int i = 0; i < seen->n; i++) {
        const part *const b = &seen->list[i];
        bool in = true;

        for (int k = 0; k < 3; k++)
            in = in && at[k] >= b->lo[k] && at[k] < b->hi[k];
        if (in)
            return true;
    }
    return false;
}

/* Finds the component of voxel `at`. Returns true if membrane surrounds it and it is small enough
 * to be followed: `at` is then moved to the middle of its bounding box, and `side` set to the sides
 * of a box that holds it with margins. */
static bool find_component(const wu_item *item, const heights *h, an_follow *f, uint32_t at[3],
                           uint32_t side[3])
{
    const uint32_t length[3] = { item->nz, item->ny, item->nx };
    an_component c;

    an_follow_component(f, ((size_t)at[0] * item->ny + at[1]) * item->nx + at[2], &c);
    for (int k = f->is_3d ? 0 : 1; k < 3; k++)
        c.whole = c.whole && c.lo[k] > 0 && c.hi[k] < length[k];
    for (int k = 0; c.whole && k < 3; k++) {
        const uint32_t border = k > 0 || f->is_3d ? margin_of(h) + WIDER : 0,
                       least = k > 0 ? BOX_SIDE : 1, exact = c.hi[k] - c.lo[k] + 2 * border,
                       wanted = exact > least ? exact : least;

        at[k] = c.lo[k] + (c.hi[k] - c.lo[k]) / 2;
        side[k] = wanted < length[k] ? wanted : length[k];
    }
    return c.whole;
}

/* Draws random voxels in search of a cell that is not in the table and not in a box seen before:
 * the voxel is between membranes that are no farther apart than twice the mean length of cells. If
 * one is found, `place` becomes its middle. If f is not NULL (it is for a watershed), a component
 * that membrane surrounds before smoothing is preferred: `side` then becomes the size of a box for
 * it. */
static void choose_place(const an_work *work, const heights *h, an_follow *f, const parts *seen,
                         const wu_output *out, uint64_t *random, uint32_t place[3],
                         uint32_t side[3])
{
    const uint32_t length[3] = { h->px->nz, h->px->ny, h->px->nx };
    const bool smooths = f != NULL && h->params->smooth > 0 && h->gauss.radius <= MOST_RADIUS;
    const double most = 2 * length_of_cells(out) + 1;
    int looks = 0;

    for (int tries = 0; tries < PLACES && looks < CANDIDATES; tries++) {
        uint32_t at[3];

        for (int k = 0; k < 3; k++)
            at[k] = (uint32_t)tc_random_below(length[k], random);
        if (is_in_cell_box(out, at) || !move_to_centre(h, false, most, at) || is_seen(seen, at) ||
            is_in_cell_box(out, at))
            continue;
        looks++;
        if (f != NULL && find_component(work->item, h, f, at, side)) {
            memcpy(place, at, sizeof at);
            break;
        }
        if (!smooths || (move_to_centre(h, true, most, at) && !is_in_cell_box(out, at)))
            memcpy(place, at, sizeof at);
        if (f == NULL)
            break;
    }
}

/* Computes the arrays of a box as of a stack of its own. Cells of any size are kept. */
static tc_status compute_part(const an_work *work, uint32_t threshold, const part *b,
                              wu_output *found, tc_err *err)
{
    vol_params params = *(const vol_params *)work->params;
    wu_item item = *work->item;
    TC_AUTO(wu_pixels_free) wu_pixels pixels;
    an_work box_work = {
        .params = &params, .item = &item, .pixels = &pixels, .threads = work->threads
    };
    tc_status status = an_copy_box(work->pixels, b->from, b->size, &pixels, err);

    params.otsu = params.labels = params.exclude_border = false;
    params.membrane = (int32_t)threshold;
    params.min_voxels = 1;
    params.max_voxels = INT64_MAX;
    item.nz = b->size[0], item.ny = b->size[1], item.nx = b->size[2];
    return_if_error(status);
    return_if_error(an_volume.plan(&params, &item, &box_work.plan, err));
    return an_compute(&an_volume, &box_work, 0, 0, found, err);
}

/* Row i of a table, as a component in coordinates of the whole stack. from: the position of the
 * table's stack in it. c.whole: the cell lies between b->lo and b->hi. */
static an_component cell_of(const wu_output *out, size_t i, const uint32_t from[3], const part *b)
{
    const int64_t voxels = ((const int64_t *)wu_output_data(out, "cell_voxels"))[i],
                  *const bbox = (const int64_t *)wu_output_data(out, "cell_bbox") + 6 * i;
    const double *const centroid = (const double *)wu_output_data(out, "cell_centroid") + 3 * i;
    an_component c = { .pixels = (uint64_t)voxels, .whole = true };

    for (int k = 0; k < 3; k++) {
        c.lo[k] = (uint32_t)bbox[k] + from[k];
        c.hi[k] = (uint32_t)bbox[3 + k] + from[k];
        c.sum[k] = (uint64_t)(nearbyint(centroid[k] * (double)voxels) + (double)voxels * from[k]);
        c.whole = c.whole && c.lo[k] >= b->lo[k] && c.hi[k] <= b->hi[k];
    }
    return c;
}

/* Compares the cells between b->lo and b->hi: those of the result must be the cells in `found`,
 * computed from the box, except for cells that the parameters leave out. Adds the number of cells
 * that both have to *known. */
static tc_status compare_cells(const an_work *work, const part *b, const wu_output *out,
                               const wu_output *found, size_t *known, tc_err *err)
{
    static const uint32_t start[3] = { 0, 0, 0 };
    size_t claimed = 0, listed = 0;

    for (size_t i = 0; i < count_cells(out); i++)
        claimed += cell_of(out, i, start, b).whole;
    for (size_t i = 0; i < count_cells(found); i++) {
        const an_component c = cell_of(found, i, b->from, b);
        const bool is_in_table = c.whole && is_listed(out, &c);

        listed += is_in_table;
        if (c.whole && !is_in_table && must_be_listed(work->params, work->item, &c))
            return tc_fail(err, TC_NO_MATCH, "a cell of %llu voxels is not in the table",
                           (unsigned long long)c.pixels);
    }
    *known += listed;
    return listed == claimed
               ? TC_OK
               : tc_fail(err, TC_NO_MATCH, "of %zu cells in a box %zu are there", claimed, listed);
}

/* Computes one box again and compares its cells with the table. */
static tc_status check_box(const an_work *work, uint32_t threshold, const wu_output *out,
                           const part *b, size_t *known, tc_err *err)
{
    TC_AUTO(wu_output_free) wu_output found = { .n = 0 };
    return_if_error(compute_part(work, threshold, b, &found, err));
    return compare_cells(work, b, out, &found, known, err);
}

/* Computes some boxes again and compares their cells with the table. */
static tc_status check_boxes(const an_work *work, uint32_t threshold, const wu_output *out,
                             uint64_t *random, tc_err *err)
{
    const vol_params *const p = work->params;
    const wu_item *const item = work->item;
    const heights h = { p, work->pixels, NULL, threshold, vol_blur_of(p, NULL).gauss };
    const uint32_t length[3] = { item->nz, item->ny, item->nx };
    const double voxels = (double)item->nz * item->ny * item->nx;
    TC_AUTO(an_follow_end)
    an_follow f = { .px = work->pixels, .threshold = threshold, .is_3d = p->is_3d };
    parts seen = { .n = 0 };
    uint32_t usual[3];
    size_t known = 0;

    if (count_cells(out) == 0)
        return tc_fail(err, TC_NO_MATCH, "no cells");
    choose_sides(item, 2 * margin_of(&h) + (uint32_t)fmax(LEAST_SIDE, ROOMY * length_of_cells(out)),
                 usual);
    if ((double)usual[0] * usual[1] * usual[2] > MOST_BOX * voxels)
        return tc_fail(err, TC_NO_MATCH, "is too small for a check of only a part of it");
    if (!p->watershed) {
        return_if_error(check_large(work, threshold, most_followed(item, out), out, random, err));
        return_if_error(an_follow_begin(&f, most_followed(item, out), err));
    }
    /* The first box is at a random place, further ones are around what may be missing cells. After
     * these, boxes at random places follow while no cell is known. */
    for (bool enough = false;
         !enough || (known == 0 && seen.share < MOST_BOXES * BOX && seen.n < MOST_PARTS_IN_ALL);) {
        uint32_t place[3], side[3] = { usual[0], usual[1], usual[2] };
        part *const b = &seen.list[seen.n];

        for (int k = 0; k < 3; k++)
            place[k] = (uint32_t)tc_random_below(length[k], random);
        if (seen.n > 0 && !enough)
            choose_place(work, &h, p->watershed ? NULL : &f, &seen, out, random, place, side);
        *b = part_at(item, side, margin_of(&h), p->is_3d, place);
        return_if_error(check_box(work, threshold, out, b, &known, err));
        seen.share += (double)side[0] * side[1] * side[2] / voxels;
        seen.n++;
        enough = seen.share >= BOXES * BOX || seen.n >= MOST_PARTS;
    }
    return known > 0
               ? TC_OK
               : tc_fail(err, TC_NO_MATCH, "in the boxes that were looked at no cell is known");
}

/* --- a watershed ----------------------------------------------------------------------------- */

/* The neighbour that voxel i leads to: the one with the lowest blurred grey value, which is the
 * highest in the watershed; i itself if none is lower than its own. */
static size_t highest_neighbour(const heights *h, size_t i)
{
    const wu_pixels *const px = h->px;
    const int64_t size[3] = { px->nz, px->ny, px->nx };
    const int64_t at[3] = { (int64_t)(i / px->nx / px->ny), (int64_t)(i / px->nx % px->ny),
                            (int64_t)(i % px->nx) };
    size_t best = i;
    uint32_t least = blurred(h, at);

    for (int step = 0; step < 27; step++) {
        const int dz = step / 9 - 1, dy = step / 3 % 3 - 1, dx = step % 3 - 1;
        const int64_t position[3] = { at[0] + dz, at[1] + dy, at[2] + dx };
        bool within = ws_is_step(dx, dy, dz, h->params->corners) && (h->params->is_3d || dz == 0);
        uint32_t value;

        for (int k = 0; k < 3; k++)
            within = within && position[k] >= 0 && position[k] < size[k];
        value = within ? blurred(h, position) : UINT32_MAX;
        if (value < least) {
            least = value;
            best = (size_t)((position[0] * size[1] + position[1]) * size[2] + position[2]);
        }
    }
    return best;
}

/* Whether voxel i is membrane that belongs to no cell. */
static bool is_membrane(const heights *h, size_t i)
{
    return !h->params->fill && vol_is_membrane(wu_grey(h->px, i), h->threshold);
}

/* Chooses a random voxel for even k. For odd k it continues from there to the next voxel whose
 * successor has another label: labels at the borders of cells are most likely to be wrong. */
static size_t choose_voxel(const heights *h, size_t n, int k, uint64_t *random)
{
    size_t i = (size_t)tc_random_below(n, random);

    for (size_t left = k % 2 == 0 ? 0 : n; left > 0; left--) {
        const size_t next = i + 1 < n ? i + 1 : 0;

        if (h->labels[i] != h->labels[next])
            break;
        i = next;
    }
    return i;
}

/* Checks that some voxels and the neighbours that they lead to have the same label. */
static tc_status check_ways(const heights *h, size_t n, const char *name, uint64_t *random,
                            tc_err *err)
{
    for (int k = 0; k < WAYS; k++) {
        const size_t i = choose_voxel(h, n, k, random), last = highest_neighbour(h, i);

        if (is_membrane(h, i) && h->labels[i] != 0)
            return tc_fail(err, TC_BAD_INPUT, "%s: voxel %zu is membrane", name, i);
        if (!is_membrane(h, i) && !is_membrane(h, last) && h->labels[i] != h->labels[last])
            return tc_fail(err, TC_BAD_INPUT,
                           "%s: voxel %zu leads to %zu, which is of another cell", name, i, last);
    }
    return TC_OK;
}

static tc_status check_watershed(const an_work *work, uint32_t threshold, const wu_output *out,
                                 uint64_t *random, tc_err *err)
{
    const vol_params *const p = work->params;
    const wu_pixels *const px = work->pixels;
    const vol_blur blur = vol_blur_of(p, px);
    const wu_out_array *const labels = &out->arrays[out->n - 1];
    const heights h = { p, px, labels->data, threshold, blur.gauss };

    return_if_error(
        check_ways(&h, (size_t)px->nx * px->ny * px->nz, labels->info.name, random, err));
    if (vol_read_integer(out, "cells") < 2)
        return tc_fail(err, TC_NO_MATCH, "no two cells");
    return check_boxes(work, threshold, out, random, err);
}

/* Whether an item with these parameters can be checked only by computing it again whole. */
static bool is_in_doubt(const vol_params *p)
{
    return p->watershed ? !p->labels || vol_blur_of(p, NULL).gauss.radius > MOST_RADIUS
                        : p->labels && vol_has_blur(p);
}

tc_status vol_check_pixels(const an_work *work, const wu_output *out, uint64_t *random, tc_err *err)
{
    const vol_params *const p = work->params;
    const wu_pixels *const px = work->pixels;
    const size_t n = (size_t)px->nx * px->ny * px->nz;
    TC_AUTO(an_follow_end) an_follow f = { .px = px, .is_3d = p->is_3d };
    return_if_error(find_threshold(work, out, &f.threshold, err));

    /* With smooth, the number of membrane voxels is known only after filtering the whole stack. */
    if (!p->fill && (p->watershed || p->smooth == 0))
        return_if_error(check_membrane(work, f.threshold, out, err));
    if (is_in_doubt(p))
        return tc_fail(err, TC_NO_MATCH,
                       p->watershed ? "a watershed without labels, or of a wide blur"
                                    : "labels of a smoothed or repaired stack");
    if (p->watershed)
        return check_watershed(work, f.threshold, out, random, err);
    if (vol_has_blur(p))
        return check_boxes(work, f.threshold, out, random, err);
    return_if_error(an_follow_begin(&f, n / FOLLOWED + 256, err));
    if (p->labels)
        return_if_error(check_labels(&f, &out->arrays[out->n - 1], random, err));
    return_if_error(check_cells(work, &f, out, random, err));
    return check_large(work, f.threshold, f.room, out, random, err);
}

double vol_pixels_share(const an_work *work)
{
    const vol_params *const p = work->params;

    return is_in_doubt(p)    ? 1
           : p->watershed    ? fmin(DOUBTS_WATERSHED + 0.04 + BOXES * BOX, 1)
           : vol_has_blur(p) ? fmin(DOUBTS_BOXES + BOXES * BOX, 1)
                             : DOUBTS + 0.1;
}
