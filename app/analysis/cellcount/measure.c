/* cellcount: measures areas, boxes, sums of coordinates and of grey values of the regions of a
 * label plane. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/bits.h"
#include "app/analysis/cellcount/cellcount.h"
#include "app/base/os.h"

/* Adds the pixels [a, b) of row y to a region. grey: the sum of their grey values. */
static inline void add_run(cc_region *r, uint32_t y, uint32_t a, uint32_t b, uint32_t grey)
{
    const uint32_t length = b - a;

    r->area += length;
    r->sum_y += (uint64_t)length * y;
    r->sum_x += (uint64_t)length * (a + b - 1) / 2;
    r->sum_grey += grey;
    r->x0 = (uint16_t)(a < r->x0 ? a : r->x0);
    r->x1 = (uint16_t)(b > r->x1 ? b : r->x1);
    r->y0 = (uint16_t)(y < r->y0 ? y : r->y0);
    r->y1 = (uint16_t)(y + 1 > r->y1 ? y + 1 : r->y1);
}

/* Computes eight prefix sums at a time, if the processor can: sets sums[x], for x from 1 on, to the
 * sum of the first x of the n grey values. Returns the number of grey values that were added, a
 * multiple of eight. */
static uint32_t sum_eights(const uint8_t *greys, uint32_t n, uint32_t *sums)
{
    uint32_t i = 0;
#ifdef __SSE2__
    const __m128i zero = _mm_setzero_si128();
    __m128i before = zero; /* four copies of the sum of all values before these eight */

    for (; i + 8 <= n; i += 8) {
        const void *const eight = greys + i;
        __m128i sum = _mm_unpacklo_epi8(_mm_loadl_epi64(eight), zero);

        /* Adds to each of the eight values the values 1, then 2, then 4 places before it. */
        sum = _mm_add_epi16(sum, _mm_slli_si128(sum, 2));
        sum = _mm_add_epi16(sum, _mm_slli_si128(sum, 4));
        sum = _mm_add_epi16(sum, _mm_slli_si128(sum, 8));
        const __m128i lo = _mm_add_epi32(before, _mm_unpacklo_epi16(sum, zero)),
                      hi = _mm_add_epi32(before, _mm_unpackhi_epi16(sum, zero));

        _mm_storeu_si128((__m128i *)(void *)(sums + i + 1), lo);
        _mm_storeu_si128((__m128i *)(void *)(sums + i + 5), hi);
        before = _mm_shuffle_epi32(hi, 0xff); /* copies the last sum to all four elements */
    }
#else
    (void)greys, (void)n, (void)sums;
#endif
    return i;
}

/* Sets sums[x], for x from 0 to n, to the sum of the first x grey values from index `at` on. Grey
 * values are below 2^16 and n is at most 65535, so the sums fit in 32 bits. */
static void sum_row(const wu_pixels *px, size_t at, uint32_t n, uint32_t *sums)
{
    sums[0] = 0;
    uint32_t i = px->u8 != NULL ? sum_eights(px->u8 + at, n, sums) : 0, sum = sums[i];

    if (px->u8 != NULL)
        for (; i < n; i++)
            sums[i + 1] = sum += px->u8[at + i];
    else
        for (; i < n; i++)
            sums[i + 1] = sum += px->u16[at + i];
}

/* Adds the run [a, x) of a row of labels to its region. Returns x, where the next run begins. */
static inline uint32_t end_run(const int32_t *row, uint32_t y, uint32_t a, uint32_t x,
                               const uint32_t *sums, cc_region *table)
{
    /* Runs of the background are added to table[0], which takes less time than testing for them. */
    add_run(&table[row[a]], y, a, x, sums[x] - sums[a]);
    return x;
}

/* Adds the runs of row y of the plane to their regions. an_bits_changes compares 64 labels with
 * their successors at once, and sets a bit where a run ends. sums: scratch memory, [nx + 1]. */
static void measure_row(const cc_measure *m, uint32_t y, uint32_t *sums, cc_region *table)
{
    const int32_t *const row = m->plane + (size_t)y * m->nx;
    uint32_t a = 0, x = 0;

    sum_row(m->pixels, (size_t)y * m->nx, m->nx, sums);
    for (; x + 64 < m->nx; x += 64)
        for (uint64_t ends = an_bits_changes(row + x); ends != 0; ends &= ends - 1)
            a = end_run(row, y, a, x + 1 + (uint32_t)__builtin_ctzll(ends), sums, table);
    for (; x + 1 < m->nx; x++)
        if (row[x] != row[x + 1])
            a = end_run(row, y, a, x + 1, sums, table);
    end_run(row, y, a, m->nx, sums, table);
}

/* Returns the regions of table number `table`. */
static cc_region *table_regions(const cc_measure *m, unsigned table)
{
    return table == 0 ? m->regions : m->others + (table - 1) * m->rows;
}

/* The number of the table that a thread adds to: 0 for all threads if there is only one table. */
static unsigned thread_table(const cc_measure *m, unsigned thread)
{
    return thread < m->tables ? thread : 0;
}

void cc_measure_band(const cc_measure *m, unsigned thread, size_t band)
{
    assert(band < cc_bands(m->nx, m->ny));
    const uint32_t rows = cc_band_rows(m->nx), y0 = (uint32_t)band * rows;
    const uint32_t y1 = m->ny - y0 < rows ? m->ny : y0 + rows;
    const unsigned table = thread_table(m, thread);

    for (uint32_t y = y0; y < y1; y++)
        measure_row(m, y, m->sums + table * ((size_t)m->nx + 1), table_regions(m, table));
}

cc_row cc_measure_row(const cc_measure *m, unsigned thread, uint32_t y)
{
    assert(y < m->ny);
    const unsigned table = thread_table(m, thread);
    uint32_t *const sums = m->sums + table * ((size_t)m->nx + 1);

    sum_row(m->pixels, (size_t)y * m->nx, m->nx, sums);
    return (cc_row){ y, sums, table_regions(m, table) };
}

void cc_measure_run(const cc_row *row, uint32_t a, uint32_t b, int32_t label)
{
    add_run(&row->table[label], row->y, a, b, row->sums[b] - row->sums[a]);
}

/* Adds the measurements of `other` to those of `r`. */
static void merge_regions(cc_region *r, const cc_region *other)
{
    r->area += other->area;
    r->sum_y += other->sum_y;
    r->sum_x += other->sum_x;
    r->sum_grey += other->sum_grey;
    r->x0 = other->x0 < r->x0 ? other->x0 : r->x0;
    r->x1 = other->x1 > r->x1 ? other->x1 : r->x1;
    r->y0 = other->y0 < r->y0 ? other->y0 : r->y0;
    r->y1 = other->y1 > r->y1 ? other->y1 : r->y1;
}

static tc_status clear_table(const cc_measure *m, cc_region *table, size_t rows, tc_err *err)
{
    for (size_t i = 0, end; i < rows;) {
        for (end = tc_block_end(i, rows); i < end; i++)
            table[i] = (cc_region){ .y0 = UINT16_MAX, .x0 = UINT16_MAX };
        return_if_error(tc_call_poll(m->poll, err));
    }
    return TC_OK;
}

tc_status cc_measure_begin(cc_measure *m, unsigned threads, tc_err *err)
{
    assert(threads >= 1 && m->rows >= 1);
    /* Each thread gets a table, unless the tables together would be larger than the plane. */
    m->tables = threads * m->rows * sizeof *m->regions <= (size_t)m->nx * m->ny * sizeof *m->plane
                    ? threads
                    : 1;
    m->others = os_alloc_zeroed(((m->tables - 1) * m->rows + 1) * sizeof *m->others);
    m->sums = malloc(m->tables * ((size_t)m->nx + 1) * sizeof *m->sums);
    tc_status status =
        m->others == NULL || m->sums == NULL ? tc_no_memory(err, "the regions") : TC_OK;
    if (status == TC_OK)
        status = clear_table(m, m->regions, m->rows, err);
    if (status == TC_OK)
        status = clear_table(m, m->others, (m->tables - 1) * m->rows, err);
    if (status != TC_OK)
        cc_measure_free(m);
    return status;
}

tc_status cc_measure_end(cc_measure *m, tc_err *err)
{
    tc_status status = TC_OK;

    for (size_t i = 0, end; status == TC_OK && i < m->rows; status = tc_call_poll(m->poll, err))
        for (end = tc_block_end(i, m->rows); i < end; i++)
            for (size_t t = 0; t + 1 < m->tables; t++)
                merge_regions(&m->regions[i], &m->others[t * m->rows + i]);
    memset(&m->regions[0], 0, sizeof m->regions[0]);
    cc_measure_free(m);
    return status;
}

void cc_measure_free(cc_measure *m)
{
    free(m->others);
    free(m->sums);
    m->others = NULL;
    m->sums = NULL;
}
