/*
 * cellcount on the CPU: separating cells that touch. Every pixel leads up the distance
 * map to a regional maximum; the saddles between maxima say which of them are cells.
 */
#include <stdlib.h>
#include <string.h>

#include "app/analysis/cellcount/core.h"
#include "app/analysis/cellcount/cpu.h"
#include "app/base/array.h"
#include "app/base/sort.h"

/* Appends; false without memory. */
static bool saddles_add(cc_saddles *p, int32_t a, int32_t b, uint32_t d2)
{
    cc_saddle *const list = tc_array_grow(p->list, p->n, &p->room, sizeof *list);

    if (list == NULL)
        return false;
    p->list = list;
    p->list[p->n++] = (cc_saddle){ a < b ? a : b, a < b ? b : a, d2 };
    return true;
}

static int by_pair(const void *va, const void *vb)
{
    const cc_saddle *const a = va, *const b = vb;

    if (a->a != b->a)
        return a->a < b->a ? -1 : 1;
    if (a->b != b->b)
        return a->b < b->b ? -1 : 1;
    return a->d2 != b->d2 ? (a->d2 > b->d2 ? -1 : 1) : 0;
}

static int by_height(const void *va, const void *vb)
{
    const cc_saddle *const a = va, *const b = vb;

    if (a->d2 != b->d2)
        return a->d2 > b->d2 ? -1 : 1;
    return by_pair(a, b);
}

/* Leaves the highest of each pair, of those from `from` on, which are sorted. */
static void keep_highest(cc_saddles *p, size_t from)
{
    size_t kept = from;

    for (size_t i = from; i < p->n; i++)
        if (kept == from || p->list[i].a != p->list[kept - 1].a || p->list[i].b != p->list[kept - 1].b)
            p->list[kept++] = p->list[i];
    p->n = kept;
}

static int32_t maximum_of(int32_t *up, int32_t i)
{
    while (up[i] != i) {
        up[i] = up[up[i]];
        i = up[i];
    }
    return i;
}

/* From the highest saddle down, a maximum that does not rise enough above the one
 * to a higher maximum becomes part of that.
 * up[maximum] becomes the maximum it is joined with. */
static tc_status merge_maxima(cc_saddles *p, const uint32_t *d2, int32_t *up, const tc_poll *poll, tc_err *err)
{
    tc_status st = tc_sort(p->list, p->n, sizeof *p->list, by_height, poll, err);

    for (size_t i = 0; st == TC_OK && i < p->n; i++) {
        const int32_t a = maximum_of(up, p->list[i].a), b = maximum_of(up, p->list[i].b);
        const bool a_higher = cc_higher(d2[a], a, d2[b], b);
        const int32_t low = a_higher ? b : a, high = a_higher ? a : b;

        if (a != b && !cc_apart(d2[low], p->list[i].d2))
            up[low] = high;
        st = tc_ask(poll, err);
    }
    return st;
}

/* --- the phases ------------------------------------------------------------------------ */

static void bytes_band(cc_worker *w, size_t band, cc_scratch *s)
{
    uint32_t y0, y1;

    cc_band_range(w, band, &y0, &y1);
    for (uint32_t y = y0; y < y1; y++) {
        uint8_t *const row = w->bytes + (size_t)y * w->nx;
        const size_t runs = lab_runs(&w->picture, y, s->edges);

        memset(row, 0, w->nx);
        for (size_t k = 0; k < runs; k++)
            memset(row + s->edges[2 * k], 1, s->edges[2 * k + 1] - s->edges[2 * k]);
    }
}

static void distance_x(cc_worker *w, size_t part, cc_scratch *s)
{
    edt_part(&w->edt, 0, part, s->distance);
}

static void distance_y(cc_worker *w, size_t part, cc_scratch *s)
{
    edt_part(&w->edt, 1, part, s->distance);
}

static void ascend_band(cc_worker *w, size_t band, cc_scratch *s)
{
    const uint32_t *const d2 = (const uint32_t *)w->plane;
    uint32_t y0, y1;

    (void)s;
    cc_band_range(w, band, &y0, &y1);
    for (uint32_t y = y0; y < y1; y++)
        for (uint32_t x = 0; x < w->nx; x++) {
            const size_t i = (size_t)y * w->nx + x;

            w->up[i] = d2[i] == 0 ? -1 : cc_highest(d2, (int32_t)w->nx, (int32_t)w->ny, (int32_t)x,
                                                   (int32_t)y, w->params->eight_connected ? 8 : 4);
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

static void maxima_band(cc_worker *w, size_t band, cc_scratch *s)
{
    uint32_t y0, y1;

    (void)s;
    cc_band_range(w, band, &y0, &y1);
    for (size_t i = (size_t)y0 * w->nx; i < (size_t)y1 * w->nx; i++)
        if (uf_load(&w->up[i]) >= 0)
            follow(w->up, (int32_t)i);
}

/* The saddle from pixel i to its neighbour j, if they belong to two maxima. */
static bool add_saddle(const cc_worker *w, cc_saddles *p, size_t i, size_t j)
{
    const uint32_t *const d2 = (const uint32_t *)w->plane;
    const int32_t a = w->up[i], b = w->up[j];
    const uint32_t low = d2[i] < d2[j] ? d2[i] : d2[j];
    cc_saddle *const last = p->n > 0 ? &p->list[p->n - 1] : NULL;

    if (a == b || b < 0)
        return true;
    if (last != NULL && last->a == (a < b ? a : b) && last->b == (a < b ? b : a)) {
        last->d2 = low > last->d2 ? low : last->d2;
        return true;
    }
    return saddles_add(p, a, b, low);
}

/* Saddles between the rows of a band, and to the row after it. */
static void saddles_band(cc_worker *w, size_t band, cc_scratch *s)
{
    const bool eight_connected = w->params->eight_connected;
    const size_t nx = w->nx, before = s->saddles.n;
    uint32_t y0, y1;
    bool good = true;

    cc_band_range(w, band, &y0, &y1);
    for (uint32_t y = y0; y < y1; y++)
        for (size_t x = 0; x < nx; x++) {
            const size_t i = y * nx + x;

            if (w->up[i] < 0)
                continue;
            if (x + 1 < nx)
                good &= add_saddle(w, &s->saddles, i, i + 1);
            if (y + 1 == w->ny)
                continue;
            good &= add_saddle(w, &s->saddles, i, i + nx);
            if (eight_connected && x > 0)
                good &= add_saddle(w, &s->saddles, i, i + nx - 1);
            if (eight_connected && x + 1 < nx)
                good &= add_saddle(w, &s->saddles, i, i + nx + 1);
        }
    /* Many saddles were found more than once. */
    if (s->saddles.n > before)
        qsort(s->saddles.list + before, s->saddles.n - before, sizeof *s->saddles.list, by_pair);
    keep_highest(&s->saddles, before);
    s->no_memory |= !good;
}

/* The saddles of all threads. */
static tc_status gather(cc_worker *w, cc_saddles *all, tc_err *err)
{
    tc_status st = TC_OK;
    size_t n = 0;

    for (unsigned t = 0; t < w->work->threads; t++)
        n += w->scratch[t].saddles.n;
    all->list = malloc((n + 1) * sizeof *all->list);
    if (all->list == NULL)
        return tc_no_memory(err, "the cells");
    for (unsigned t = 0; t < w->work->threads; t++) {
        cc_saddles *const p = &w->scratch[t].saddles;

        for (size_t i = 0, end; st == TC_OK && i < p->n; i = end, st = tc_ask(w->work->poll, err)) {
            end = tc_block_end(i, p->n);
            memcpy(all->list + all->n, p->list + i, (end - i) * sizeof *p->list);
            all->n += end - i;
        }
        free(p->list);
        memset(p, 0, sizeof *p);
    }
    return st;
}

static tc_status end_saddles(cc_worker *w, tc_err *err)
{
    const tc_poll *const poll = w->work->poll;
    cc_saddles all = { 0 };
    tc_status st = gather(w, &all, err);

    if (st == TC_OK)
        st = tc_sort(all.list, all.n, sizeof *all.list, by_pair, poll, err);
    if (st == TC_OK) {
        keep_highest(&all, 0);
        st = merge_maxima(&all, (const uint32_t *)w->plane, w->up, poll, err);
    }
    free(all.list);
    return st;
}

static void clear_band(cc_worker *w, size_t band, cc_scratch *s)
{
    uint32_t y0, y1;

    (void)s;
    cc_band_range(w, band, &y0, &y1);
    for (size_t i = (size_t)y0 * w->nx; i < (size_t)y1 * w->nx; i++)
        w->plane[i] = INT32_MAX;
}

/* plane[maximum] becomes the first of the pixels that lead there. */
static void first_band(cc_worker *w, size_t band, cc_scratch *s)
{
    uint32_t y0, y1;

    (void)s;
    cc_band_range(w, band, &y0, &y1);
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

const cc_work cc_bytes = { bytes_band, NULL };
const cc_work cc_distance_x = { distance_x, NULL };
const cc_work cc_distance_y = { distance_y, NULL };
const cc_work cc_ascend = { ascend_band, NULL };
const cc_work cc_maxima = { maxima_band, NULL };
const cc_work cc_find_saddles = { saddles_band, end_saddles };
const cc_work cc_clear = { clear_band, NULL };
const cc_work cc_first = { first_band, NULL };
