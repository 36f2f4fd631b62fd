/*
 * cellcount: whether an item's pixels can have given these arrays: by the number of pixels on
 * the cells' side of the threshold, and by some regions, chosen by chance.
 */
#include "app/analysis/cellcount/cellcount.h"
#include "app/analysis/common/bits.h"
#include "app/analysis/common/follow.h"
#include "app/analysis/common/watershed_core.h"
#include "app/base/random.h"

enum { LOOKS = 32, LABELS = 256 };

/* The table as the result has it. */
typedef struct table {
    size_t n;
    const int64_t *area, *bbox;
    const double *mean, *centroid;
    bool prepared;             /* means are not of the grey values that are looked at */
} table;

static table table_of(const cc_params *p, const wu_output *out)
{
    return (table){ .n = (size_t)wu_output_find(out, "region_item")->info.shape[0],
                    .prepared = cc_prepares(p), .area = wu_output_data(out, "region_area"), .bbox = wu_output_data(out, "region_bbox"),
                    .mean = wu_output_data(out, "region_mean"), .centroid = wu_output_data(out, "region_centroid") };
}

/* --- the threshold ------------------------------------------------------------------- */

/* How many pixels are on the cells' side. */
static uint64_t count_cells(const cc_params *p, const wu_pixels *px, uint32_t threshold)
{
    const size_t n = (size_t)px->nx * px->ny;
    uint64_t below = 0;

    for (size_t i = 0; i < n; i += 64)
        below += (unsigned)__builtin_popcountll(an_bits_below(px, i, n - i < 64 ? (unsigned)(n - i) : 64, threshold));
    return p->bright ? n - below : below;
}

/* Regions are what is cell, and with fill_holes more; without what was left out. */
static tc_status check_totals(const cc_params *p, uint64_t cells, const table *t, tc_err *err)
{
    uint64_t pixels = 0;

    for (size_t i = 0; i < t->n; i++)
        pixels += (uint64_t)t->area[i];
    if ((!p->fill_holes && pixels > cells) || (!cc_filters(p) && pixels < cells))
        return tc_fail(err, TC_BAD_INPUT, "region_area: %llu pixels, but the picture has %llu on the cells' side of the "
                       "threshold", (unsigned long long)pixels, (unsigned long long)cells);
    return TC_OK;
}

/* --- labels ---------------------------------------------------------------------------- */

/* Some pixels, chosen by chance: what has a label is cell, and what is cell has one. */
static tc_status check_labels(const cc_params *p, const an_follow *f, const wu_out_array *labels, uint64_t *random,
                              tc_err *err)
{
    const int32_t *const plane = labels->data;

    for (int k = 0; k < LABELS; k++) {
        const size_t i = (size_t)tc_random_below((uint64_t)f->px->nx * f->px->ny, random);
        const bool cell = an_follow_takes(f, i);

        if ((plane[i] != 0 && !cell && !p->fill_holes) || (plane[i] == 0 && cell && !cc_filters(p)))
            return tc_fail(err, TC_BAD_INPUT, "%s: pixel %zu is on the %s side of the threshold", labels->info.name, i,
                           cell ? "cells'" : "other");
    }
    return TC_OK;
}

/* Where a pixel of a cell leads, of a split by intensity, if it has a higher neighbour; else itself. */
static size_t uphill(const an_follow *f, size_t i)
{
    const wu_pixels *const px = f->px;
    const int64_t nx = px->nx, ny = px->ny, x = (int64_t)i % nx, y = (int64_t)i / nx;
    int64_t most = wu_grey(px, i);
    size_t best = i;

    for (int step = 0; step < 9; step++) {
        const int dy = step / 3 - 1, dx = step % 3 - 1;
        const size_t there = (size_t)((y + dy) * nx + x + dx);
        int64_t v;

        if (!ws_is_step(dx, dy, 0, f->corners) || x + dx < 0 || x + dx >= nx || y + dy < 0 || y + dy >= ny)
            continue;
        v = wu_grey(px, there);
        if (f->above ? v > most : v < most) {
            most = v;
            best = there;
        }
    }
    return best;
}

/* Some pixels, every other one where labels change: a pixel is of the region of the one that it leads to. */
static tc_status check_ways(const an_follow *f, const wu_out_array *labels, uint64_t *random, tc_err *err)
{
    const int32_t *const plane = labels->data;
    const size_t n = (size_t)f->px->nx * f->px->ny;

    for (int k = 0; k < LABELS; k++) {
        size_t i = (size_t)tc_random_below(n, random);

        for (size_t left = k % 2 == 0 ? 0 : n; left > 0 && plane[i] == plane[i + 1 < n ? i + 1 : 0]; left--)
            i = i + 1 < n ? i + 1 : 0;
        if (an_follow_takes(f, i) && plane[uphill(f, i)] != plane[i])
            return tc_fail(err, TC_BAD_INPUT, "%s: pixel %zu leads to another region", labels->info.name, i);
    }
    return TC_OK;
}

/* --- regions ----------------------------------------------------------------------------- */

/* A row of the table: its box, half-open. */
typedef struct region {
    size_t row;
    uint32_t y0, x0, y1, x1;
} region;

static region region_of(const table *t, size_t row)
{
    const int64_t *const b = t->bbox + 4 * row;

    return (region){ row, (uint32_t)b[0], (uint32_t)b[1], (uint32_t)b[2], (uint32_t)b[3] };
}

/* Whether the outline crosses a side of a box: of n pixels along a row (step 1) or a column
 * (step nx) one is a cell's, and not the next one outside, if there is one (out; else 0). */
static bool crosses(const an_follow *f, size_t at, size_t step, uint32_t n, ptrdiff_t out)
{
    for (uint32_t i = 0; i < n; i++, at += step)
        if (an_follow_takes(f, at) && (out == 0 || !an_follow_takes(f, (size_t)((ptrdiff_t)at + out))))
            return true;
    return false;
}

/* A region reaches all sides of its box, and what was filled lies within. */
static bool reaches_sides(const an_follow *f, const region *r)
{
    const size_t nx = f->px->nx, ny = f->px->ny, first = r->y0 * nx + r->x0;
    const size_t bottom = (r->y1 - 1) * nx + r->x0, right = r->y0 * nx + r->x1 - 1;

    return crosses(f, first, 1, r->x1 - r->x0, r->y0 > 0 ? -(ptrdiff_t)nx : 0) &&
           crosses(f, bottom, 1, r->x1 - r->x0, r->y1 < ny ? (ptrdiff_t)nx : 0) &&
           crosses(f, first, nx, r->y1 - r->y0, r->x0 > 0 ? -1 : 0) &&
           crosses(f, right, nx, r->y1 - r->y0, r->x1 < nx ? 1 : 0);
}

static bool is_component(const table *t, const region *r, const an_component *c)
{
    const double n = (double)c->pixels;

    return c->whole && t->area[r->row] == (int64_t)c->pixels && (t->prepared || t->mean[r->row] == (double)c->grey / n) &&
           t->centroid[2 * r->row] == (double)c->sum[1] / n && t->centroid[2 * r->row + 1] == (double)c->sum[2] / n &&
           c->lo[1] == r->y0 && c->lo[2] == r->x0 && c->hi[1] == r->y1 && c->hi[2] == r->x1;
}

/* Whether a component that begins in the box's first row is what the table says. */
static bool is_there(an_follow *f, const table *t, const region *r)
{
    const size_t at = (size_t)r->y0 * f->px->nx;

    for (uint32_t x = r->x0; x < r->x1; x++) {
        an_component c = { .whole = false };

        if (an_follow_takes(f, at + x) && (x == r->x0 || !an_follow_takes(f, at + x - 1)))
            an_follow_component(f, at + x, &c);
        if (is_component(t, r, &c))
            return true;
    }
    return false;
}

/* Some regions, chosen by chance. Components are followed, where they are not too large. Where
 * a split cuts them, boxes have sides without an outline, but not many. */
static tc_status check_regions(const cc_params *p, an_follow *f, const table *t, uint64_t *random, tc_err *err)
{
    size_t left = f->room;
    int crossed = 0;

    for (int k = 0; k < LOOKS && t->n > 0; k++) {
        const region r = region_of(t, (size_t)tc_random_below(t->n, random));
        const size_t area = (size_t)t->area[r.row];
        const bool reaches = reaches_sides(f, &r);

        crossed += reaches;
        if (!reaches && !p->split)
            return tc_fail(err, TC_BAD_INPUT, "region %zu: no outline reaches the sides of region_bbox", r.row + 1);
        if (p->split || p->fill_holes || area >= left)
            continue;
        left -= area;
        if (!is_there(f, t, &r))
            return tc_fail(err, TC_BAD_INPUT, "region %zu: the picture has no such region", r.row + 1);
    }
    if (t->n > 0 && 2 * crossed < LOOKS && p->split != CC_INTENSITY)
        return tc_fail(err, TC_NO_MATCH, "outlines reach %d of %d boxes", crossed, (int)LOOKS);
    return TC_OK;
}

/* Whether cells are more frequent in the boxes than in the picture: at some pixels of each of
 * some regions. */
static tc_status check_boxes(const an_follow *f, uint64_t cells, const table *t, uint64_t *random, tc_err *err)
{
    const double all = (double)cells / ((double)f->px->nx * f->px->ny);
    double found = 0;

    for (int k = 0; k < LABELS && t->n > 0; k++) {
        const region r = region_of(t, (size_t)tc_random_below(t->n, random));
        const uint32_t y = r.y0 + (uint32_t)tc_random_below(r.y1 - r.y0, random);
        const uint32_t x = r.x0 + (uint32_t)tc_random_below(r.x1 - r.x0, random);

        found += an_follow_takes(f, (size_t)y * f->px->nx + x) ? 1.0 / LABELS : 0;
    }
    if (t->n > 0 && all < 0.8 && found < all + 0.08)
        return tc_fail(err, TC_NO_MATCH, "cells are %.0f%% of the boxes and %.0f%% of the picture", 100 * found, 100 * all);
    return TC_OK;
}

/* What a blank picture gives: no region, or one that is the whole picture. */
static bool says_nothing(uint64_t cells, const table *t, uint64_t pixels)
{
    return t->n == 0 ? cells > 0 : t->n == 1 && (uint64_t)t->area[0] == pixels && cells < pixels;
}

/* px: what the threshold is for. */
static tc_status check_prepared(const an_work *work, const wu_pixels *px, const wu_output *out, uint64_t *random, tc_err *err)
{
    const cc_params *const p = work->params;
    const size_t n = (size_t)px->nx * px->ny;
    const table t = table_of(p, out);
    an_follow f = { .px = px, .threshold = cc_threshold(p, px->bits), .above = p->bright, .corners = p->eight_connected };
    const int64_t claimed = *(const int64_t *)wu_output_data(out, "threshold");
    uint64_t cells = 0;
    tc_status st = p->threshold_word == CC_OTSU ? an_otsu_of(px, &f.threshold, err) : TC_OK;

    if (st == TC_OK && claimed != f.threshold)
        st = tc_fail(err, TC_BAD_INPUT, "threshold: is %lld, but Otsu's is %lu", (long long)claimed,
                     (unsigned long)f.threshold);
    if (st == TC_OK) {
        cells = count_cells(p, px, f.threshold);
        st = check_totals(p, cells, &t, err);
    }
    if (st == TC_OK)
        st = an_follow_begin(&f, n / 1024 + 64, err);
    if (st == TC_OK && p->labels)
        st = check_labels(p, &f, &out->arrays[out->n - 1], random, err);
    if (st == TC_OK && p->labels && p->split == CC_INTENSITY)
        st = check_ways(&f, &out->arrays[out->n - 1], random, err);
    if (st == TC_OK)
        st = check_regions(p, &f, &t, random, err);
    if (st == TC_OK && p->split)
        st = check_boxes(&f, cells, &t, random, err);
    if (st == TC_OK && p->split == CC_INTENSITY && !p->labels)
        st = tc_fail(err, TC_NO_MATCH, "a split by intensity without labels");
    if (st == TC_OK && says_nothing(cells, &t, n))
        st = tc_fail(err, TC_NO_MATCH, "no cells, or nothing else");
    an_follow_end(&f);
    return st;
}

tc_status cc_check_pixels(const an_work *work, const wu_output *out, uint64_t *random, tc_err *err)
{
    cc_prepare prepare = { .now = NULL };
    tc_status st = cc_prepare_all(&prepare, work->params, work->pixels, err);

    if (st == TC_OK)
        st = check_prepared(work, prepare.now, out, random, err);
    cc_prepare_end(&prepare);
    return st;
}

double cc_pixels_share(const void *params, const wu_item *item)
{
    const cc_params *const p = params;

    (void)item;
    return p->threshold_word == CC_OTSU ? 0.061 : p->threshold_word == CC_LOCAL ? 0.47 : 0.018;
}
