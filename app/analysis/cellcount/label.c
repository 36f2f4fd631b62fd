/*
 * cellcount on the CPU: finds the connected components of the mask, removes the components that do
 * not pass the filters, and writes the labels and the table of regions. Each function xxx_band or
 * xxx_seam is the `part` of a phase (cc_work), and end_xxx its `end`.
 *
 * An id is the number of a run of the mask, or of a part of a split, and a node of a union-find
 * (picture.ids). The ids of a band of rows are consecutive. In ids[], a negative element ~i is a
 * link to id i; an element >= 0 is the number or label of a root.
 */
#include <string.h>

#include "app/analysis/cellcount/core.h"
#include "app/analysis/cellcount/cpu.h"
#include "app/base/os.h"

/* The bit of an element of cc_worker.areas that is set if the component touches the picture's
 * border. Areas, which are at most 2^30, do not use this bit. */
#define BORDER ((uint32_t)1 << 31)

/* --- components ------------------------------------------------------------------------------ */

static void label_band(cc_worker *w, size_t band, cc_scratch *s)
{
    uint32_t y0, y1;

    cc_band_range(w, band, &y0, &y1);
    w->end[band] = lab_label_band(&w->picture, y0, y1, s->label);
}

static void label_seam(cc_worker *w, size_t band, cc_scratch *s)
{
    uint32_t y0, y1;

    cc_band_range(w, band, &y0, &y1);
    lab_join_seam(&w->picture, y0, s->label);
}

/* --- from ids to labels ---------------------------------------------------------------------- */

/*
 * A segment is a sequence of pixels of a row that have the same id. Without w->up it is a run of
 * the mask, and its id is in picture.starts. With w->up (cells are split, or a device has labelled
 * strips of rows) it is a run or a piece of a run, and all its pixels have the same value in w->up.
 * A loop over the segments of a row:
 *     for (segment s = first_segment(...); s.a < s.b; next_segment(w, &s))
 */
typedef struct segment {
    const uint32_t *edges; /* the runs of the row (lab_find_row_runs) */
    size_t runs, k;        /* number of runs, and the run that contains the segment */
    size_t base;           /* index of the row's first pixel */
    const int32_t *start;  /* [runs]: ids of the row's runs */
    uint32_t a, b;         /* columns [a, b) of the segment; empty after the last segment */
} segment;

/* Sets the end of the segment that begins at s->a. */
static inline void end_segment(const cc_worker *w, segment *s)
{
    s->b = s->edges[2 * s->k + 1];
    if (w->up != NULL) {
        const int32_t *const up = w->up + s->base;
        uint32_t b = s->a + 1;

        while (b < s->b && up[b] == up[s->a])
            b++;
        s->b = b;
    }
}

static inline segment first_segment(const cc_worker *w, uint32_t y, uint32_t *edges)
{
    segment s = { .edges = edges,
                  .runs = lab_find_row_runs(&w->picture, y, edges),
                  .base = (size_t)y * w->nx,
                  .start = lab_row_starts(&w->picture, y) };

    if (s.runs > 0) {
        s.a = edges[0];
        end_segment(w, &s);
    }
    return s;
}

static inline void next_segment(const cc_worker *w, segment *s)
{
    if (s->b < s->edges[2 * s->k + 1]) {
        s->a = s->b;
    } else if (++s->k < s->runs) {
        s->a = s->edges[2 * s->k];
    } else {
        s->a = s->b;
        return;
    }
    end_segment(w, s);
}

/* Gives an id to each part whose first pixel is in the band, and writes the id into the plane at
 * this pixel. A part is a cell of a split component, or a component within a strip. up[i] is the
 * first pixel of the part of pixel i, so it is i at that pixel itself. */
static void parts_band(cc_worker *w, size_t band, cc_scratch *s)
{
    uint32_t y0, y1;
    int32_t id;

    cc_band_range(w, band, &y0, &y1);
    id = (int32_t)lab_max_ids(w->nx, y0);
    for (uint32_t y = y0; y < y1; y++)
        for (segment g = first_segment(w, y, s->edges); g.a < g.b; next_segment(w, &g)) {
            const int32_t node = (int32_t)(g.base + g.a);

            if (w->up[node] == node) {
                w->plane[node] = id;
                w->picture.ids[id] = ~id;
                id++;
            }
        }
    w->end[band] = id;
}

/* Replaces the value i of each pixel in `up` by plane[i]; background pixels have negative values
 * and keep them. */
static void ids_band(cc_worker *w, size_t band, cc_scratch *s)
{
    uint32_t y0, y1;

    (void)s;
    cc_band_range(w, band, &y0, &y1);
    for (size_t i = (size_t)y0 * w->nx; i < (size_t)y1 * w->nx; i++)
        if (w->up[i] >= 0)
            w->up[i] = w->plane[w->up[i]];
}

/* Joins the components of strips `strip` and strip + 1 that touch. */
static void strip_seam(cc_worker *w, size_t strip, cc_scratch *s)
{
    const uint32_t y = ((uint32_t)strip + 1) * w->strip_rows;
    const int32_t *const row = w->up + (size_t)y * w->nx, *const above = row - w->nx;
    const int diagonal = w->params->eight_connected ? 1 : 0;

    (void)s;
    for (int64_t x = 0; x < w->nx; x++)
        for (int64_t at = x - diagonal; row[x] >= 0 && at <= x + diagonal; at++)
            if (at >= 0 && at < w->nx && above[at] >= 0)
                uf_union_shared(w->picture.ids, row[x], above[at]);
}

/* Makes every id of the band link to its root directly, and counts the roots among these ids. */
static void count_band(cc_worker *w, size_t band, cc_scratch *s)
{
    int32_t roots = 0;
    uint32_t y0, y1;

    (void)s;
    cc_band_range(w, band, &y0, &y1);
    for (int32_t id = (int32_t)lab_max_ids(w->nx, y0); id < w->end[band]; id++) {
        const int32_t root = uf_find_shared(w->picture.ids, id);

        uf_store(&w->picture.ids[id], ~root);
        roots += root == id;
    }
    w->first[band + 1] = roots;
}

/* Replaces the number of components of each band by the number of components before the band, and
 * allocates the arrays that filters need. */
static tc_status end_count(cc_worker *w, tc_err *err)
{
    for (uint32_t i = 0; i < w->bands; i++)
        w->first[i + 1] += w->first[i];
    w->regions = (uint64_t)w->first[w->bands];
    if (!cc_has_filters(w->params))
        return TC_OK;
    w->areas = os_alloc_zeroed(((size_t)w->regions + 1) * sizeof *w->areas);
    if (cc_needs_boxes(w->params))
        w->filter_values = os_alloc_zeroed(((size_t)w->regions + 1) * sizeof *w->filter_values);
    return w->areas == NULL || (cc_needs_boxes(w->params) && w->filter_values == NULL)
               ? tc_no_memory(err, "the cells")
               : TC_OK;
}

/* Replaces the link of each root to itself by the root's number, counted from 1 in raster order. */
static void number_band(cc_worker *w, size_t band, cc_scratch *s)
{
    int32_t *const ids = w->picture.ids;
    int32_t label = w->first[band];
    uint32_t y0, y1;

    (void)s;
    cc_band_range(w, band, &y0, &y1);
    for (int32_t id = (int32_t)lab_max_ids(w->nx, y0); id < w->end[band]; id++)
        if (ids[id] == ~id)
            ids[id] = ++label;
}

static inline int32_t segment_label(const cc_worker *w, const segment *g)
{
    const int32_t id = w->up != NULL ? w->up[g->base + g->a] : g->start[g->k];
    const int32_t v = w->picture.ids[id];

    /* v is the label or, if id is no root, ~root; the root's element then holds the label. There is
     * no branch, as it would be unpredictable. */
    return w->picture.ids[v >= 0 ? id : ~v];
}

/* Atomic maximum: *at becomes `value` if that is greater. */
static void atomic_max(uint32_t *at, uint32_t value)
{
    uint32_t old = __atomic_load_n(at, __ATOMIC_RELAXED);

    while (old < value &&
           !__atomic_compare_exchange_n(at, &old, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

/* Adds pixels [a, b) of row y to a component's box and, for min_contrast, to its sum. */
static void add_filter_values(const cc_worker *w, cc_filter_values *s, uint32_t y, uint32_t a,
                              uint32_t b)
{
    const wu_pixels *const px = w->prepare.current;
    uint64_t sum = 0;

    /* y0 and x0 hold the distances from the far ends of the axes, so that the zeroed elements need
     * no other initial value. */
    atomic_max(&s->y0, w->ny - y);
    atomic_max(&s->x0, w->nx - a);
    atomic_max(&s->y1, y + 1);
    atomic_max(&s->x1, b);
    for (size_t i = (size_t)y * w->nx + a; w->params->min_contrast && i < (size_t)y * w->nx + b;
         i++)
        sum += wu_grey_value(px, i);
    __atomic_fetch_add(&s->sum, sum, __ATOMIC_RELAXED);
}

static void areas_band(cc_worker *w, size_t band, cc_scratch *s)
{
    uint32_t y0, y1;

    cc_band_range(w, band, &y0, &y1);
    for (uint32_t y = y0; y < y1; y++)
        for (segment g = first_segment(w, y, s->edges); g.a < g.b; next_segment(w, &g)) {
            uint32_t *const area = &w->areas[segment_label(w, &g) - 1];

            __atomic_fetch_add(area, g.b - g.a, __ATOMIC_RELAXED);
            if (cc_at_border(g.a, y, g.b, y + 1, w->nx, w->ny))
                __atomic_fetch_or(area, BORDER, __ATOMIC_RELAXED);
            if (w->filter_values != NULL)
                add_filter_values(w, &w->filter_values[area - w->areas], y, g.a, g.b);
        }
}

/* Returns the contrast of component i times its area: the sum over its pixels of the difference
 * between grey value and threshold, with a positive sign on the cells' side of the threshold. */
static __int128 scaled_contrast(const cc_worker *w, size_t i)
{
    const __int128 sum = w->filter_values[i].sum,
                   threshold_sum = (__int128)w->threshold * (w->areas[i] & ~BORDER);

    return w->params->bright ? sum - threshold_sum : threshold_sum - sum;
}

/* For min_contrast: sets the area of a region smaller than full_area to 0 if its mean contrast is
 * less than `percent` per cent of the mean contrast of the larger regions. */
static tc_status remove_faint(cc_worker *w, tc_err *err)
{
    const size_t n = (size_t)w->first[w->bands];
    const int64_t full = w->params->full_area;
    __int128 contrast = 0;
    uint64_t pixels = 0;

    for (size_t i = 0, end; i < n;) {
        for (end = tc_block_end(i, n); i < end; i++)
            if ((w->areas[i] & ~BORDER) >= full) {
                contrast += scaled_contrast(w, i);
                pixels += w->areas[i] & ~BORDER;
            }
        return_if_error(tc_call_poll(w->work->poll, err));
    }
    /* pixels < 2^31, contrasts < 2^47, percent <= 1000: the products are below 2^89. */
    for (size_t i = 0, end; i < n;) {
        for (end = tc_block_end(i, n); i < end; i++) {
            const uint32_t area = w->areas[i] & ~BORDER;

            if (area < full && 100 * scaled_contrast(w, i) * (__int128)pixels <
                                   w->params->percent * contrast * (__int128)area)
                w->areas[i] = 0;
        }
        return_if_error(tc_call_poll(w->work->poll, err));
    }
    return TC_OK;
}

/* Whether component i passes all filters but min_contrast. */
static bool passes_filters(const cc_worker *w, size_t i)
{
    /* If no filter needs boxes, a box of 1 x 1 pixel stands for all. */
    const cc_filter_values unbounded = { .y1 = 1, .x1 = 1 }, *const s = w->filter_values != NULL
                                                                            ? &w->filter_values[i]
                                                                            : &unbounded;

    return cc_passes_without_contrast(
        w->params, w->areas[i] & ~BORDER, (w->areas[i] & BORDER) != 0,
        (int64_t)s->y1 + s->y0 - (w->filter_values != NULL ? w->ny : 0),
        (int64_t)s->x1 + s->x0 - (w->filter_values != NULL ? w->nx : 0));
}

/* Considers only the components that pass the filters. Sets *area to the least area A such that the
 * components of at most A pixels have at least 1 / parts of the pixels of all; to 1 if no component
 * passes. Finds A by bisection, after a first loop that counts all pixels. */
static tc_status area_quantile(const cc_worker *w, uint64_t parts, int64_t *area, tc_err *err)
{
    const size_t n = (size_t)w->first[w->bands];
    uint64_t all = 0;
    int64_t lo = 1, hi = INT32_MAX;
    tc_status status = TC_OK;

    for (bool first = true; status == TC_OK && (first || lo < hi); first = false) {
        const int64_t most = first ? INT32_MAX : (lo + hi) / 2;
        uint64_t sum = 0;

        for (size_t i = 0, end; status == TC_OK && i < n; status = tc_call_poll(w->work->poll, err))
            for (end = tc_block_end(i, n); i < end; i++)
                if ((w->areas[i] & ~BORDER) <= most && passes_filters(w, i))
                    sum += w->areas[i] & ~BORDER;
        if (first)
            all = sum;
        else if (sum * parts >= all)
            hi = most;
        else
            lo = most + 1;
    }
    *area = all > 0 ? lo : 1;
    return status;
}

/* Sets min_area and full_area of w->resolved where they are "auto". */
static tc_status resolve_areas(cc_worker *w, tc_err *err)
{
    int64_t half = 1, tenth = 1;
    tc_status status = TC_OK;

    if (w->params->min_area_auto || (w->params->min_contrast && w->params->full_area_auto))
        status = area_quantile(w, 2, &half, err);
    if (status == TC_OK && w->params->min_area_auto)
        status = area_quantile(w, 10, &tenth, err);
    if (w->resolved.min_area_auto)
        w->resolved.min_area = cc_least_area(half, tenth, w->resolved.bright);
    if (w->resolved.full_area_auto)
        w->resolved.full_area = cc_full_area(half);
    return status;
}

/* Replaces each component's area by the component's final label, or by 0 if the component does not
 * pass the filters. */
static tc_status end_areas(cc_worker *w, tc_err *err)
{
    const size_t n = (size_t)w->first[w->bands];
    uint32_t label = 0;
    tc_status status = resolve_areas(w, err);

    if (status == TC_OK && w->params->min_contrast)
        status = remove_faint(w, err);

    for (size_t i = 0, end; status == TC_OK && i < n; status = tc_call_poll(w->work->poll, err))
        for (end = tc_block_end(i, n); i < end; i++) {
            w->areas[i] = passes_filters(w, i) ? label + 1 : 0;
            label += w->areas[i] != 0;
        }
    w->regions = label;
    return status;
}

/* Replaces the numbers of the roots by their final labels. */
static void renumber_band(cc_worker *w, size_t band, cc_scratch *s)
{
    int32_t *const ids = w->picture.ids;
    uint32_t y0, y1;

    (void)s;
    cc_band_range(w, band, &y0, &y1);
    for (int32_t id = (int32_t)lab_max_ids(w->nx, y0); id < w->end[band]; id++)
        if (ids[id] >= 0)
            ids[id] = (int32_t)w->areas[ids[id] - 1];
}

/* Writes a label into elements [a, b) of a row. Also writes up to CC_PAD - 1 elements from b on,
 * which the caller overwrites later. This avoids a branch that would be unpredictable, as segments
 * are short. */
static inline void put_label(int32_t *row, uint32_t a, uint32_t b, int32_t label)
{
    do {
        for (uint32_t i = 0; i < CC_PAD; i++)
            row[a + i] = label;
        a += CC_PAD;
    } while (a < b);
}

/* Whether no labels have to be written into the plane, as the result only needs the table of
 * regions. */
static bool needs_no_labels(const cc_worker *w)
{
    return w->starts_buffer != NULL && w->up == NULL &&
           (size_t)w->regions + 1 <= cc_table_rows(w->nx, w->ny);
}

static void paint_band(cc_worker *w, size_t band, cc_scratch *s)
{
    uint32_t y0, y1;

    if (needs_no_labels(w))
        return;
    cc_band_range(w, band, &y0, &y1);
    for (uint32_t y = y0; y < y1; y++) {
        uint32_t end = 0;

        /* The labels are written to scratch memory first, as the plane may still hold the ids of
         * the row's runs. */
        for (segment g = first_segment(w, y, s->edges); g.a < g.b; next_segment(w, &g)) {
            if (g.a > end)
                put_label(s->row, end, g.a, 0);
            put_label(s->row, g.a, g.b, segment_label(w, &g));
            end = g.b;
        }
        if (end < w->nx)
            put_label(s->row, end, w->nx, 0);
        memcpy(w->plane + (size_t)y * w->nx, s->row, w->nx * sizeof *s->row);
    }
}

/* Prepares w->measure for CC_MEASURE, if the regions fit in the state's table. */
static tc_status end_painting(cc_worker *w, tc_err *err)
{
    const size_t rows = (size_t)w->regions + 1;

    if (rows > cc_table_rows(w->nx, w->ny))
        return TC_OK;
    w->measure = (cc_measure){ .plane = w->plane,
                               .pixels = w->work->pixels,
                               .poll = w->work->poll,
                               .nx = w->nx,
                               .ny = w->ny,
                               .rows = rows,
                               .regions = w->table };
    return cc_measure_begin(&w->measure, w->work->threads, err);
}

static void measure_band(cc_worker *w, size_t band, cc_scratch *s)
{
    const unsigned thread = (unsigned)(s - w->scratch);
    uint32_t y0, y1;

    if (!needs_no_labels(w)) {
        cc_measure_band(&w->measure, thread, band);
        return;
    }
    cc_band_range(w, band, &y0, &y1);
    for (uint32_t y = y0; y < y1; y++) {
        const cc_row row = cc_measure_row(&w->measure, thread, y);
        uint32_t end = 0;

        for (segment g = first_segment(w, y, s->edges); g.a < g.b; next_segment(w, &g)) {
            if (g.a > end)
                cc_measure_run(&row, end, g.a, 0);
            cc_measure_run(&row, g.a, g.b, segment_label(w, &g));
            end = g.b;
        }
        if (end < w->nx)
            cc_measure_run(&row, end, w->nx, 0);
    }
}

static tc_status end_measuring(cc_worker *w, tc_err *err)
{
    return cc_measure_end(&w->measure, err);
}

const cc_work cc_components = { label_band, NULL };
const cc_work cc_seams = { label_seam, NULL };
const cc_work cc_parts = { parts_band, NULL };
const cc_work cc_ids = { ids_band, NULL };
const cc_work cc_strips = { strip_seam, NULL };
const cc_work cc_count = { count_band, end_count };
const cc_work cc_number = { number_band, NULL };
const cc_work cc_areas = { areas_band, end_areas };
const cc_work cc_renumber = { renumber_band, NULL };
const cc_work cc_paint = { paint_band, end_painting };
const cc_work cc_measuring = { measure_band, end_measuring };
