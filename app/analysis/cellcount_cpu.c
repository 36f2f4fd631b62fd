/*
 * The CPU backend of cellcount: phases of independent tasks (bands of rows),
 * with a little sequential work at the end of some.
 */
#include <stdlib.h>
#include <string.h>

#include "app/analysis/cellcount.h"
#include "app/analysis/cellcount_core.h"
#include "app/analysis/edt.h"

typedef struct scratch {
    uint32_t *edges;           /* [nx + 2]: runs of a row */
    int32_t *labels;           /* [nx + 1]: of its segments */
    unsigned char *label;      /* lab_scratch_bytes */
    unsigned char *distance;   /* edt_scratch_bytes */
    uint64_t *histogram;
    cc_passes passes;
    bool no_memory;
} scratch;

typedef struct cpu_worker {
    const an_task *task;
    const cc_params *params;
    uint32_t nx, ny, bands;
    an_pool *pool;
    scratch *scratch;          /* [threads] */
    lab_picture picture;       /* of the cells; starts: the state's plane */
    int32_t *plane;            /* the state's */
    uint8_t *bytes;            /* split: the mask */
    int32_t *up;               /* split: where each pixel leads, -1 on the ground; then its id */
    edt_job edt;
    uint32_t threshold;
    int32_t outside;           /* root of the ground that touches the border; -1: none does */
    int32_t *end;              /* [bands]: of the ids that each band took */
    int32_t *first;            /* [bands + 1]: regions before each band */
    uint32_t *areas;           /* [regions]: area, BORDER where it touches the border; then new labels */
    uint64_t regions;
    uint32_t strip_rows;       /* of a device; 0: there were no strips */
    /* where the work is */
    cc_phase phase;
    size_t done;               /* tasks of the phase */
    size_t batch;
} cpu_worker;

/* In an area, which is at most 2^30. */
#define BORDER ((uint32_t)1 << 31)

static void band_rows(const cpu_worker *w, size_t band, uint32_t *y0, uint32_t *y1)
{
    const uint32_t rows = cc_band_rows(w->nx);

    *y0 = (uint32_t)band * rows;
    *y1 = w->ny - *y0 < rows ? w->ny : *y0 + rows;
}

/* --- pixels to bits ------------------------------------------------------------- */

static void histogram_band(cpu_worker *w, size_t band, scratch *s)
{
    const wu_pixels *const px = w->task->pixels;
    uint32_t y0, y1;

    band_rows(w, band, &y0, &y1);
    for (size_t i = (size_t)y0 * w->nx; i < (size_t)y1 * w->nx; i++)
        s->histogram[px->u8 != NULL ? px->u8[i] : px->u16[i]]++;
}

static tc_status end_histogram(cpu_worker *w, tc_err *err)
{
    const uint32_t size = (uint32_t)1 << w->task->pixels->bits;
    uint64_t *const sum = w->scratch[0].histogram;

    (void)err;
    for (unsigned t = 1; t < w->task->threads; t++)
        for (uint32_t v = 0; v < size; v++)
            sum[v] += w->scratch[t].histogram[v];
    w->threshold = cc_otsu(sum, size);
    return TC_OK;
}

/* 64 bytes of 0 or 1 to as many bits: each multiplication gathers eight. */
static uint64_t gather(const uint8_t *flags)
{
    uint64_t word = 0;

    for (size_t i = 0; i < 8; i++) {
        uint64_t eight;

        memcpy(&eight, flags + 8 * i, 8);
        word |= (eight * 0x0102040810204080u >> 56) << 8 * i;
    }
    return word;
}

/* Pixels below the threshold, 1 <= n <= 64 of them. */
static uint64_t below(const wu_pixels *px, size_t at, unsigned n, uint32_t threshold)
{
    uint8_t flags[64] = { 0 };

    if (px->u16 != NULL) {
        if (n == 64)
            for (unsigned i = 0; i < 64; i++)
                flags[i] = px->u16[at + i] < threshold;
        else
            for (unsigned i = 0; i < n; i++)
                flags[i] = px->u16[at + i] < threshold;
        return gather(flags);
    }
    if (threshold > 255)
        return ~(uint64_t)0 >> (64 - n);
    if (n == 64) {
        const uint8_t t = (uint8_t)threshold;

        for (unsigned i = 0; i < 64; i++)
            flags[i] = px->u8[at + i] < t;
    } else {
        for (unsigned i = 0; i < n; i++)
            flags[i] = px->u8[at + i] < threshold;
    }
    return gather(flags);
}

static void mask_band(cpu_worker *w, size_t band, scratch *s)
{
    const wu_pixels *const px = w->task->pixels;
    uint32_t y0, y1;

    (void)s;
    band_rows(w, band, &y0, &y1);
    for (uint32_t y = y0; y < y1; y++) {
        uint64_t *const words = w->picture.bits + y * w->picture.stride;

        for (size_t i = 0; i < w->picture.stride; i++) {
            const unsigned n = w->nx - i * 64 < 64 ? (unsigned)(w->nx - i * 64) : 64;
            const uint64_t dark = below(px, (size_t)y * w->nx + i * 64, n, w->threshold);

            words[i] = w->params->bright ? ~dark & ~(uint64_t)0 >> (64 - n) : dark;
        }
    }
}

/* --- holes ---------------------------------------------------------------------- */

/* The ground is connected the other way: 4 where cells are 8, and the reverse. */
static lab_picture ground(const cpu_worker *w)
{
    lab_picture p = w->picture;

    p.zeros = true;
    p.diagonal = !w->params->diagonal;
    return p;
}

static void holes_band(cpu_worker *w, size_t band, scratch *s)
{
    const lab_picture p = ground(w);
    uint32_t y0, y1;

    band_rows(w, band, &y0, &y1);
    lab_band(&p, y0, y1, s->label);
}

static void holes_seam(cpu_worker *w, size_t band, scratch *s)
{
    const lab_picture p = ground(w);
    uint32_t y0, y1;

    band_rows(w, band, &y0, &y1);
    lab_seam(&p, y0, y1, s->label);
}

/* Makes one component of all ground at the border. */
static tc_status end_hole_seams(cpu_worker *w, tc_err *err)
{
    const lab_picture p = ground(w);
    uint32_t *const edges = w->scratch[0].edges;

    (void)err;
    w->outside = -1;
    for (uint32_t y = 0; y < w->ny; y++) {
        const size_t runs = lab_runs(&p, y, edges);

        for (size_t k = 0; k < runs; k++) {
            const int32_t id = p.starts[(size_t)y * w->nx + edges[2 * k]];

            if (y > 0 && y + 1 < w->ny && edges[2 * k] > 0 && edges[2 * k + 1] < w->nx)
                continue;
            if (w->outside < 0)
                w->outside = uf_find(p.ids, id);
            else
                uf_union_shared(p.ids, w->outside, id);
        }
    }
    if (w->outside >= 0)
        w->outside = uf_find(p.ids, w->outside);
    return TC_OK;
}

/* Sets bits [a, b) of a row. */
static void set_bits(uint64_t *words, uint32_t a, uint32_t b)
{
    for (uint32_t i = a / 64; i <= (b - 1) / 64; i++) {
        const uint64_t from = i == a / 64 ? ~(uint64_t)0 << a % 64 : ~(uint64_t)0;
        const uint64_t to = i == (b - 1) / 64 ? ~(uint64_t)0 >> (63 - (b - 1) % 64) : ~(uint64_t)0;

        words[i] |= from & to;
    }
}

static void fill_band(cpu_worker *w, size_t band, scratch *s)
{
    const lab_picture p = ground(w);
    uint32_t y0, y1;

    band_rows(w, band, &y0, &y1);
    for (uint32_t y = y0; y < y1; y++) {
        const size_t runs = lab_runs(&p, y, s->edges);

        for (size_t k = 0; k < runs; k++)
            if (uf_find_shared(p.ids, p.starts[(size_t)y * w->nx + s->edges[2 * k]]) != w->outside)
                set_bits(p.bits + y * p.stride, s->edges[2 * k], s->edges[2 * k + 1]);
    }
}

/* --- components ------------------------------------------------------------------- */

static void label_band(cpu_worker *w, size_t band, scratch *s)
{
    uint32_t y0, y1;

    band_rows(w, band, &y0, &y1);
    w->end[band] = lab_band(&w->picture, y0, y1, s->label);
}

static void label_seam(cpu_worker *w, size_t band, scratch *s)
{
    uint32_t y0, y1;

    band_rows(w, band, &y0, &y1);
    lab_seam(&w->picture, y0, y1, s->label);
}

/* --- split ------------------------------------------------------------------------ */

static void bytes_band(cpu_worker *w, size_t band, scratch *s)
{
    uint32_t y0, y1;

    band_rows(w, band, &y0, &y1);
    for (uint32_t y = y0; y < y1; y++) {
        uint8_t *const row = w->bytes + (size_t)y * w->nx;
        const size_t runs = lab_runs(&w->picture, y, s->edges);

        memset(row, 0, w->nx);
        for (size_t k = 0; k < runs; k++)
            memset(row + s->edges[2 * k], 1, s->edges[2 * k + 1] - s->edges[2 * k]);
    }
}

static void distance_x(cpu_worker *w, size_t task, scratch *s)
{
    edt_task(&w->edt, 0, task, s->distance);
}

static void distance_y(cpu_worker *w, size_t task, scratch *s)
{
    edt_task(&w->edt, 1, task, s->distance);
}

static void ascend_band(cpu_worker *w, size_t band, scratch *s)
{
    const uint32_t *const d2 = (const uint32_t *)w->plane;
    uint32_t y0, y1;

    (void)s;
    band_rows(w, band, &y0, &y1);
    for (uint32_t y = y0; y < y1; y++)
        for (uint32_t x = 0; x < w->nx; x++) {
            const size_t i = (size_t)y * w->nx + x;

            w->up[i] = d2[i] == 0 ? -1 : cc_highest(d2, (int32_t)w->nx, (int32_t)w->ny, (int32_t)x,
                                                   (int32_t)y, w->params->diagonal ? 8 : 4);
        }
}

/* Follows the way from i to its end, and points all of it there. Others may do
 * the same: whatever they write leads to the same end. */
static int32_t follow(int32_t *up, int32_t i)
{
    int32_t end = i, next;

    while ((next = uf_load(&up[end])) != end)
        end = next;
    while (i != end) {
        next = uf_load(&up[i]);
        uf_store(&up[i], end);
        i = next;
    }
    return end;
}

static void summits_band(cpu_worker *w, size_t band, scratch *s)
{
    uint32_t y0, y1;

    (void)s;
    band_rows(w, band, &y0, &y1);
    for (size_t i = (size_t)y0 * w->nx; i < (size_t)y1 * w->nx; i++)
        if (uf_load(&w->up[i]) >= 0)
            follow(w->up, (int32_t)i);
}

/* The pass from pixel i to its neighbour j, if they belong to two summits. */
static bool add_pass(const cpu_worker *w, cc_passes *p, size_t i, size_t j)
{
    const uint32_t *const d2 = (const uint32_t *)w->plane;
    const int32_t a = w->up[i], b = w->up[j];
    const uint32_t low = d2[i] < d2[j] ? d2[i] : d2[j];
    cc_pass *const last = p->n > 0 ? &p->list[p->n - 1] : NULL;

    if (a == b || b < 0)
        return true;
    if (last != NULL && last->a == (a < b ? a : b) && last->b == (a < b ? b : a)) {
        last->d2 = low > last->d2 ? low : last->d2;
        return true;
    }
    return cc_passes_add(p, a, b, low);
}

/* Passes between the rows of a band, and to the row after it. */
static void passes_band(cpu_worker *w, size_t band, scratch *s)
{
    const bool diagonal = w->params->diagonal;
    const size_t nx = w->nx, before = s->passes.n;
    uint32_t y0, y1;
    bool good = true;

    band_rows(w, band, &y0, &y1);
    for (uint32_t y = y0; y < y1; y++)
        for (size_t x = 0; x < nx; x++) {
            const size_t i = y * nx + x;

            if (w->up[i] < 0)
                continue;
            if (x + 1 < nx)
                good &= add_pass(w, &s->passes, i, i + 1);
            if (y + 1 == w->ny)
                continue;
            good &= add_pass(w, &s->passes, i, i + nx);
            if (diagonal && x > 0)
                good &= add_pass(w, &s->passes, i, i + nx - 1);
            if (diagonal && x + 1 < nx)
                good &= add_pass(w, &s->passes, i, i + nx + 1);
        }
    /* Many passes twice: not for long. */
    if (s->passes.n > 2 * before)
        cc_passes_merge(&s->passes);
    s->no_memory |= !good;
}

static tc_status end_passes(cpu_worker *w, tc_err *err)
{
    cc_passes all = { 0 };

    for (unsigned t = 0; t < w->task->threads; t++) {
        cc_passes *const p = &w->scratch[t].passes;

        for (size_t i = 0; i < p->n; i++)
            if (!cc_passes_add(&all, p->list[i].a, p->list[i].b, p->list[i].d2)) {
                free(all.list);
                return tc_no_memory(err, "the cells");
            }
        free(p->list);
        memset(p, 0, sizeof *p);
    }
    cc_passes_merge(&all);
    cc_join_summits(&all, (const uint32_t *)w->plane, w->up);
    free(all.list);
    return TC_OK;
}

static void clear_band(cpu_worker *w, size_t band, scratch *s)
{
    uint32_t y0, y1;

    (void)s;
    band_rows(w, band, &y0, &y1);
    for (size_t i = (size_t)y0 * w->nx; i < (size_t)y1 * w->nx; i++)
        w->plane[i] = INT32_MAX;
}

/* plane[summit] becomes the first of the pixels that lead there. */
static void first_band(cpu_worker *w, size_t band, scratch *s)
{
    uint32_t y0, y1;

    (void)s;
    band_rows(w, band, &y0, &y1);
    for (size_t i = (size_t)y0 * w->nx; i < (size_t)y1 * w->nx; i++) {
        int32_t *at, was;

        if (uf_load(&w->up[i]) < 0)
            continue;
        at = &w->plane[follow(w->up, (int32_t)i)];
        was = uf_load(at);
        while ((int32_t)i < was &&
               !__atomic_compare_exchange_n(at, &was, (int32_t)i, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            ;
    }
}

static void roots_band(cpu_worker *w, size_t band, scratch *s)
{
    uint32_t y0, y1;

    (void)s;
    band_rows(w, band, &y0, &y1);
    for (size_t i = (size_t)y0 * w->nx; i < (size_t)y1 * w->nx; i++)
        if (w->up[i] >= 0)
            w->up[i] = w->plane[w->up[i]];
}

/* --- from ids to labels ----------------------------------------------------------- */

/*
 * A segment is a stretch of a row that has one id: a run of the mask, whose id
 * stands in the plane at its first pixel, or with a split a part of a run, all
 * of whose pixels have it in `up`. Segments of a row are visited by
 *     for (seg s = first_segment(...); s.a < s.b; next_segment(w, &s))
 */
typedef struct seg {
    const uint32_t *edges;
    size_t runs, k;
    size_t base;               /* index of the row's first pixel */
    uint32_t a, b;             /* [a, b); empty: there are no more */
} seg;

/* With a split: the end of the part that begins at a. */
static inline void cut(const cpu_worker *w, seg *s)
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

/* The row's runs are in edges. */
static inline seg segments(const cpu_worker *w, uint32_t y, const uint32_t *edges, size_t runs)
{
    seg s = { .edges = edges, .runs = runs, .base = (size_t)y * w->nx };

    if (runs > 0) {
        s.a = edges[0];
        cut(w, &s);
    }
    return s;
}

static inline seg first_segment(const cpu_worker *w, uint32_t y, uint32_t *edges)
{
    return segments(w, y, edges, lab_runs(&w->picture, y, edges));
}

static inline void next_segment(const cpu_worker *w, seg *s)
{
    if (s->b < s->edges[2 * s->k + 1]) {
        s->a = s->b;
    } else if (++s->k < s->runs) {
        s->a = s->edges[2 * s->k];
    } else {
        s->a = s->b;
        return;
    }
    cut(w, s);
}

/* The parts whose first pixel is in the band get ids, which are written there
 * in the plane. */
static void parts_band(cpu_worker *w, size_t band, scratch *s)
{
    uint32_t y0, y1;
    int32_t id;

    band_rows(w, band, &y0, &y1);
    id = (int32_t)lab_ids(w->nx, y0);
    for (uint32_t y = y0; y < y1; y++)
        for (seg g = first_segment(w, y, s->edges); g.a < g.b; next_segment(w, &g)) {
            const int32_t node = (int32_t)(g.base + g.a);

            if (w->up[node] == node) {
                w->plane[node] = id;
                w->picture.ids[id] = ~id;
                id++;
            }
        }
    w->end[band] = id;
}

static void ids_band(cpu_worker *w, size_t band, scratch *s)
{
    uint32_t y0, y1;

    (void)s;
    band_rows(w, band, &y0, &y1);
    for (size_t i = (size_t)y0 * w->nx; i < (size_t)y1 * w->nx; i++)
        if (w->up[i] >= 0)
            w->up[i] = w->plane[w->up[i]];
}

/* Joins the components of a strip with those of the strip before. */
static void strip_seam(cpu_worker *w, size_t strip, scratch *s)
{
    const uint32_t y = ((uint32_t)strip + 1) * w->strip_rows;
    const int32_t *const here = w->up + (size_t)y * w->nx, *const above = here - w->nx;
    const int reach = w->params->diagonal ? 1 : 0;

    (void)s;
    for (int64_t x = 0; x < w->nx; x++)
        for (int64_t at = x - reach; here[x] >= 0 && at <= x + reach; at++)
            if (at >= 0 && at < w->nx && above[at] >= 0)
                uf_union_shared(w->picture.ids, here[x], above[at]);
}

/* Flattens the ids of the band, and counts its roots. */
static void count_band(cpu_worker *w, size_t band, scratch *s)
{
    int32_t roots = 0;
    uint32_t y0, y1;

    (void)s;
    band_rows(w, band, &y0, &y1);
    for (int32_t id = (int32_t)lab_ids(w->nx, y0); id < w->end[band]; id++) {
        const int32_t root = uf_find_shared(w->picture.ids, id);

        uf_store(&w->picture.ids[id], ~root);
        roots += root == id;
    }
    w->first[band + 1] = roots;
}

static tc_status end_count(cpu_worker *w, tc_err *err)
{
    const bool all = w->params->min_area <= 1 && w->params->max_area == INT64_MAX && !w->params->exclude_border;

    for (uint32_t i = 0; i < w->bands; i++)
        w->first[i + 1] += w->first[i];
    w->regions = (uint64_t)w->first[w->bands];
    if (all)
        return TC_OK;
    w->areas = calloc((size_t)w->regions + 1, sizeof *w->areas);
    return w->areas == NULL ? tc_no_memory(err, "the cells") : TC_OK;
}

/* The roots get their numbers, which are >= 0 as no link is, in the order of
 * the raster. */
static void number_band(cpu_worker *w, size_t band, scratch *s)
{
    int32_t *const ids = w->picture.ids;
    int32_t label = w->first[band];
    uint32_t y0, y1;

    (void)s;
    band_rows(w, band, &y0, &y1);
    for (int32_t id = (int32_t)lab_ids(w->nx, y0); id < w->end[band]; id++)
        if (ids[id] == ~id)
            ids[id] = ++label;
}

static inline int32_t label_of(const cpu_worker *w, const seg *g)
{
    const int32_t id = w->up != NULL ? w->up[g->base + g->a] : w->plane[g->base + g->a];
    const int32_t v = w->picture.ids[id];

    return v >= 0 ? v : w->picture.ids[~v];
}

static void areas_band(cpu_worker *w, size_t band, scratch *s)
{
    uint32_t y0, y1;

    band_rows(w, band, &y0, &y1);
    for (uint32_t y = y0; y < y1; y++)
        for (seg g = first_segment(w, y, s->edges); g.a < g.b; next_segment(w, &g)) {
            uint32_t *const area = &w->areas[label_of(w, &g) - 1];

            __atomic_fetch_add(area, g.b - g.a, __ATOMIC_RELAXED);
            if (y == 0 || y + 1 == w->ny || g.a == 0 || g.b == w->nx)
                __atomic_fetch_or(area, BORDER, __ATOMIC_RELAXED);
        }
}

/* Areas become new labels, 0 for what is left out. */
static tc_status end_areas(cpu_worker *w, tc_err *err)
{
    const cc_params *const p = w->params;
    uint32_t label = 0;

    (void)err;
    for (int32_t i = 0; i < w->first[w->bands]; i++) {
        const int64_t area = w->areas[i] & ~BORDER;
        const bool kept = area >= p->min_area && area <= p->max_area &&
                          !(p->exclude_border && (w->areas[i] & BORDER));

        w->areas[i] = kept ? ++label : 0;
    }
    w->regions = label;
    return TC_OK;
}

static void renumber_band(cpu_worker *w, size_t band, scratch *s)
{
    int32_t *const ids = w->picture.ids;
    uint32_t y0, y1;

    (void)s;
    band_rows(w, band, &y0, &y1);
    for (int32_t id = (int32_t)lab_ids(w->nx, y0); id < w->end[band]; id++)
        if (ids[id] >= 0)
            ids[id] = (int32_t)w->areas[ids[id] - 1];
}

static void paint_band(cpu_worker *w, size_t band, scratch *s)
{
    uint32_t y0, y1;

    band_rows(w, band, &y0, &y1);
    for (uint32_t y = y0; y < y1; y++) {
        int32_t *const row = w->plane + (size_t)y * w->nx;
        const size_t runs = lab_runs(&w->picture, y, s->edges);
        size_t k = 0;

        /* The ids are in the row that is painted over. */
        for (seg g = segments(w, y, s->edges, runs); g.a < g.b; next_segment(w, &g))
            s->labels[k++] = label_of(w, &g);
        memset(row, 0, w->nx * sizeof *row);
        k = 0;
        for (seg g = segments(w, y, s->edges, runs); g.a < g.b; next_segment(w, &g), k++)
            for (uint32_t x = g.a; x < g.b; x++)
                row[x] = s->labels[k];
    }
}

/* --- the phases ------------------------------------------------------------------- */

typedef struct phase_functions {
    void (*task)(cpu_worker *w, size_t task, scratch *s);
    tc_status (*end)(cpu_worker *w, tc_err *err);
} phase_functions;

static const phase_functions phases[CC_PHASES] = {
    [CC_HISTOGRAM] = { histogram_band, end_histogram },
    [CC_MASK] = { mask_band, NULL },
    [CC_HOLES] = { holes_band, NULL },
    [CC_HOLE_SEAMS] = { holes_seam, end_hole_seams },
    [CC_FILL] = { fill_band, NULL },
    [CC_BANDS] = { label_band, NULL },
    [CC_SEAMS] = { label_seam, NULL },
    [CC_BYTES] = { bytes_band, NULL },
    [CC_DISTANCE_X] = { distance_x, NULL },
    [CC_DISTANCE_Y] = { distance_y, NULL },
    [CC_ASCEND] = { ascend_band, NULL },
    [CC_SUMMITS] = { summits_band, NULL },
    [CC_PASSES] = { passes_band, end_passes },
    [CC_CLEAR] = { clear_band, NULL },
    [CC_FIRST] = { first_band, NULL },
    [CC_ROOTS] = { roots_band, NULL },
    [CC_PARTS] = { parts_band, NULL },
    [CC_IDS] = { ids_band, NULL },
    [CC_STRIPS] = { strip_seam, NULL },
    [CC_COUNT] = { count_band, end_count },
    [CC_NUMBER] = { number_band, NULL },
    [CC_AREAS] = { areas_band, end_areas },
    [CC_RENUMBER] = { renumber_band, NULL },
    [CC_PAINT] = { paint_band, NULL }
};

/* Tasks of a phase; 0 where it does not apply. */
static size_t phase_tasks(const cpu_worker *w, cc_phase phase)
{
    const cc_params *const p = w->params;

    switch (phase) {
    case CC_HISTOGRAM:
        return p->threshold == CC_THRESHOLD_OTSU ? w->bands : 0;
    case CC_HOLES:
    case CC_HOLE_SEAMS:
    case CC_FILL:
        return p->fill_holes ? w->bands : 0;
    case CC_BANDS:
    case CC_SEAMS:
        return p->split ? 0 : w->bands;
    case CC_DISTANCE_X:
    case CC_DISTANCE_Y:
        return p->split ? edt_tasks(&w->edt, phase - CC_DISTANCE_X) : 0;
    case CC_BYTES:
    case CC_ASCEND:
    case CC_SUMMITS:
    case CC_PASSES:
    case CC_CLEAR:
    case CC_FIRST:
    case CC_ROOTS:
        return p->split ? w->bands : 0;
    case CC_PARTS:
    case CC_IDS:
        return w->up != NULL ? w->bands : 0;
    case CC_STRIPS:
        return w->strip_rows > 0 ? (w->ny - 1) / w->strip_rows : 0;
    case CC_AREAS:
    case CC_RENUMBER:
        return w->areas != NULL ? w->bands : 0;
    default:
        return w->bands;
    }
}

/* To the next phase that has something to do. */
static tc_status go_on(cpu_worker *w, cc_state *state, tc_err *err)
{
    an_state_head *const head = &state->head;

    do {
        tc_status st = TC_OK;

        if (w->done > 0 && phases[w->phase].end != NULL)
            st = phases[w->phase].end(w, err);
        if (st != TC_OK)
            return st;
        w->phase++;
        w->done = 0;
    } while (w->phase < CC_PHASES && phase_tasks(w, w->phase) == 0);
    if (w->phase == CC_KEPT && w->params->split)
        head->units_done = (uint64_t)CC_KEPT * w->bands;
    else if (w->phase == CC_CLEAR)
        head->units_done = 0;       /* the distances go */
    if (w->phase == CC_PHASES) {
        state->regions = w->regions;
        head->units_done = w->task->plan.units;
    }
    return TC_OK;
}

static void run_task(void *user, unsigned thread, size_t task)
{
    cpu_worker *const w = user;

    phases[w->phase].task(w, w->done + task, &w->scratch[thread]);
}

tc_status cc_host_step(void *worker, cc_state *state, cc_phase until, uint64_t *units_done, tc_err *err)
{
    cpu_worker *const w = worker;
    an_state_head *const head = &state->head;
    const double start = tc_seconds();
    size_t tasks, left;
    tc_status st = TC_OK;

    *units_done = head->units_done;
    if (head->units_done == w->task->plan.units || w->phase >= until)
        return TC_OK;
    w->plane = w->picture.starts = state->plane;
    w->edt.out = (uint32_t *)w->plane;
    /* A small picture is done in one step. */
    do {
        tasks = phase_tasks(w, w->phase);
        left = tasks - w->done;
        if (left > w->batch)
            left = w->batch;
        an_pool_run(w->pool, run_task, w, left);
        w->done += left;
        for (unsigned t = 0; t < w->task->threads; t++)
            if (w->scratch[t].no_memory)
                return tc_no_memory(err, "the cells");
        *units_done = ((uint64_t)w->phase * tasks + w->done) * w->bands / tasks;
        if (w->done == tasks)
            st = go_on(w, state, err);
    } while (st == TC_OK && w->phase < until && tc_seconds() - start < 0.05);
    if (st == TC_OK && w->phase < until)
        return TC_MORE;
    if (w->phase < CC_PHASES)
        return st;
    *units_done = head->units_done;
    return st;
}

static tc_status cpu_step(void *worker, void *state, uint64_t *units_done, tc_err *err)
{
    return cc_host_step(worker, state, CC_PHASES, units_done, err);
}

static void cpu_close(void **worker)
{
    cpu_worker *const w = *worker;

    *worker = NULL;
    if (w == NULL)
        return;
    an_pool_destroy(&w->pool);
    for (unsigned t = 0; w->scratch != NULL && t < w->task->threads; t++) {
        free(w->scratch[t].edges);
        free(w->scratch[t].labels);
        free(w->scratch[t].label);
        free(w->scratch[t].distance);
        free(w->scratch[t].histogram);
        free(w->scratch[t].passes.list);
    }
    free(w->scratch);
    free(w->picture.bits);
    free(w->bytes);
    free(w->up);
    free(w->picture.ids);
    free(w->end);
    free(w->first);
    free(w->areas);
    free(w);
}

static bool make_scratch(cpu_worker *w)
{
    const size_t grey_values = (size_t)1 << w->task->pixels->bits;

    w->scratch = calloc(w->task->threads, sizeof *w->scratch);
    if (w->scratch == NULL)
        return false;
    for (unsigned t = 0; t < w->task->threads; t++) {
        scratch *const s = &w->scratch[t];

        s->edges = malloc(((size_t)w->nx + 2) * sizeof *s->edges);
        s->labels = malloc(((size_t)w->nx + 1) * sizeof *s->labels);
        s->label = malloc(lab_scratch_bytes(&w->picture));
        s->distance = malloc(w->params->split ? edt_scratch_bytes(&w->edt) : 1);
        s->histogram = calloc(grey_values, sizeof *s->histogram);
        if (s->edges == NULL || s->labels == NULL || s->label == NULL || s->distance == NULL || s->histogram == NULL)
            return false;
    }
    return true;
}

static bool make_planes(cpu_worker *w)
{
    const size_t n = (size_t)w->nx * w->ny;

    w->picture.bits = malloc(w->picture.stride * w->ny * sizeof *w->picture.bits);
    w->picture.ids = malloc(lab_ids(w->nx, w->ny) * sizeof *w->picture.ids);
    w->end = calloc(w->bands, sizeof *w->end);
    w->first = calloc((size_t)w->bands + 1, sizeof *w->first);
    if (w->params->split) {
        w->bytes = malloc(n);
        w->up = malloc(n * sizeof *w->up);
    }
    w->edt.mask = w->bytes;
    return w->picture.bits != NULL && w->picture.ids != NULL && w->end != NULL && w->first != NULL &&
           (!w->params->split || (w->bytes != NULL && w->up != NULL));
}

/* An item that was left after the distance transform: the mask is where the
 * distance is not 0. */
static void resume_split(cpu_worker *w, const int32_t *distances)
{
    for (uint32_t y = 0; y < w->ny; y++) {
        uint64_t *const words = w->picture.bits + y * w->picture.stride;

        memset(words, 0, w->picture.stride * sizeof *words);
        for (uint32_t x = 0; x < w->nx; x++)
            if (distances[(size_t)y * w->nx + x] != 0)
                words[x / 64] |= (uint64_t)1 << x % 64;
    }
    w->phase = CC_KEPT;
}

static tc_status cpu_open(const an_task *task, const void *state_at, void **worker, tc_err *err)
{
    const cc_state *const state = state_at;
    cpu_worker *const w = calloc(1, sizeof *w);
    tc_status st;

    *worker = w;
    if (w == NULL)
        return tc_no_memory(err, "cellcount");
    w->task = task;
    w->params = task->params;
    w->nx = task->item->nx;
    w->ny = task->item->ny;
    w->bands = cc_bands(w->nx, w->ny);
    w->batch = (size_t)task->threads * 16;
    w->threshold = (uint32_t)w->params->threshold;
    w->picture = (lab_picture){ .nx = w->nx, .ny = w->ny, .nz = 1, .stride = lab_stride(w->nx),
                                .diagonal = w->params->diagonal };
    w->edt = (edt_job){ .nx = w->nx, .ny = w->ny, .nz = 1, .sides = EDT_INSIDE };
    st = an_pool_create(task->threads, &w->pool, err);
    if (st == TC_OK && (!make_planes(w) || !make_scratch(w)))
        st = tc_no_memory(err, "cellcount");
    if (st != TC_OK) {
        cpu_close(worker);
        return st;
    }
    if (state->head.units_done == (uint64_t)CC_KEPT * w->bands)
        resume_split(w, state->plane);
    else if (phase_tasks(w, CC_HISTOGRAM) == 0)
        w->phase = CC_MASK;
    return TC_OK;
}

/* --- with a device ---------------------------------------------------------------- */

cc_phase cc_host_phase(const void *worker)
{
    const cpu_worker *const w = worker;

    return w->phase;
}

const uint64_t *cc_host_bits(const void *worker)
{
    const cpu_worker *const w = worker;

    return w->picture.bits;
}

int32_t *cc_host_roots(void *worker)
{
    cpu_worker *const w = worker;

    if (w->up == NULL)
        w->up = malloc((size_t)w->nx * w->ny * sizeof *w->up);
    return w->up;
}

void cc_host_resume(void *worker, cc_phase next, uint32_t strip_rows)
{
    cpu_worker *const w = worker;

    for (uint32_t y = 0; y < w->ny; y++) {
        uint64_t *const words = w->picture.bits + y * w->picture.stride;

        memset(words, 0, w->picture.stride * sizeof *words);
        for (uint32_t x = 0; x < w->nx; x++)
            words[x / 64] |= (uint64_t)(w->up[(size_t)y * w->nx + x] >= 0) << x % 64;
    }
    w->strip_rows = strip_rows;
    w->phase = next;
    w->done = 0;
}

const an_backend cc_cpu = {
    .name = "cpu",
    .open = cpu_open,
    .step = cpu_step,
    .sync = an_always_synced,
    .close = cpu_close
};
