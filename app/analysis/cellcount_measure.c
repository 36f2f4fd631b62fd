/* Areas, places and grey values of the regions of a label plane. */
#include <stdlib.h>
#include <string.h>

#include "app/analysis/cellcount.h"

typedef struct measure {
    const int32_t *plane;
    const wu_pixels *pixels;
    uint32_t nx, ny, bands;
    size_t n;
    cc_region *tables;         /* [threads][n] */
} measure;

/* A stretch [a, b) of row y of one region. */
static void add_run(cc_region *r, uint32_t y, uint32_t a, uint32_t b, uint64_t grey)
{
    const uint64_t length = b - a;

    r->area += length;
    r->sum_y += length * y;
    r->sum_x += length * ((uint64_t)a + b - 1) / 2;
    r->sum_grey += grey;
    r->x0 = a < r->x0 ? a : r->x0;
    r->x1 = b > r->x1 ? b : r->x1;
    r->y0 = y < r->y0 ? y : r->y0;
    r->y1 = y + 1 > r->y1 ? y + 1 : r->y1;
}

/* Less than 2^16 pixels of less than 2^16: fits 32 bits. */
static uint32_t sum_grey(const wu_pixels *px, size_t at, uint32_t n)
{
    uint32_t sum = 0;

    if (px == NULL)
        return 0;
    if (px->u8 != NULL)
        for (uint32_t i = 0; i < n; i++)
            sum += px->u8[at + i];
    else
        for (uint32_t i = 0; i < n; i++)
            sum += px->u16[at + i];
    return sum;
}

/* Where the label changes from one pixel to the next, of 64 pixels from row[1]
 * on: bit i for row[i] != row[i + 1]. */
static uint64_t changes(const int32_t *row)
{
    uint8_t flags[64];
    uint64_t word = 0;

    for (int i = 0; i < 64; i++)
        flags[i] = row[i] != row[i + 1];
    for (size_t i = 0; i < 8; i++) {
        uint64_t eight;

        memcpy(&eight, flags + 8 * i, 8);
        word |= (eight * 0x0102040810204080u >> 56) << 8 * i;
    }
    return word;
}

/* The run that ends before x. Returns x. */
static uint32_t end_run(const measure *m, uint32_t y, uint32_t a, uint32_t x, cc_region *table)
{
    const size_t at = (size_t)y * m->nx + a;
    const int32_t label = m->plane[at];

    if (label != 0)
        add_run(&table[label - 1], y, a, x, sum_grey(m->pixels, at, x - a));
    return x;
}

static void measure_row(const measure *m, uint32_t y, cc_region *table)
{
    const int32_t *const row = m->plane + (size_t)y * m->nx;
    uint32_t a = 0, x = 0;

    for (; x + 64 < m->nx; x += 64)
        for (uint64_t ends = changes(row + x); ends != 0; ends &= ends - 1)
            a = end_run(m, y, a, x + 1 + (uint32_t)__builtin_ctzll(ends), table);
    for (; x + 1 < m->nx; x++)
        if (row[x] != row[x + 1])
            a = end_run(m, y, a, x + 1, table);
    end_run(m, y, a, m->nx, table);
}

static void measure_band(void *user, unsigned thread, size_t band)
{
    const measure *const m = user;
    const uint32_t rows = cc_band_rows(m->nx), y0 = (uint32_t)band * rows;
    const uint32_t y1 = m->ny - y0 < rows ? m->ny : y0 + rows;

    for (uint32_t y = y0; y < y1; y++)
        measure_row(m, y, m->tables + thread * m->n);
}

static void merge(cc_region *r, const cc_region *o)
{
    r->area += o->area;
    r->sum_y += o->sum_y;
    r->sum_x += o->sum_x;
    r->sum_grey += o->sum_grey;
    r->x0 = o->x0 < r->x0 ? o->x0 : r->x0;
    r->x1 = o->x1 > r->x1 ? o->x1 : r->x1;
    r->y0 = o->y0 < r->y0 ? o->y0 : r->y0;
    r->y1 = o->y1 > r->y1 ? o->y1 : r->y1;
}

tc_status cc_measure(const int32_t *plane, const wu_pixels *pixels, uint32_t nx, uint32_t ny, size_t n,
                     unsigned threads, cc_region *regions, tc_err *err)
{
    measure m = { plane, pixels, nx, ny, cc_bands(nx, ny), n, NULL };
    an_pool *pool = NULL;
    tc_status st;

    /* A table for each thread, unless they would be larger than the plane. */
    if (n == 0)
        return TC_OK;
    if (threads * n * sizeof *regions > (size_t)nx * ny * sizeof *plane)
        threads = 1;
    m.tables = malloc(threads * n * sizeof *m.tables);
    if (m.tables == NULL)
        return tc_no_memory(err, "the regions");
    for (size_t i = 0; i < threads * n; i++)
        m.tables[i] = (cc_region){ .y0 = UINT32_MAX, .x0 = UINT32_MAX };
    st = an_pool_create(threads, &pool, err);
    if (st == TC_OK) {
        an_pool_run(pool, measure_band, &m, m.bands);
        memcpy(regions, m.tables, n * sizeof *regions);
        for (unsigned t = 1; t < threads; t++)
            for (size_t i = 0; i < n; i++)
                merge(&regions[i], &m.tables[t * n + i]);
        an_pool_destroy(&pool);
    }
    free(m.tables);
    return st;
}
