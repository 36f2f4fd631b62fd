/* objects: statistics of an object's grey values, from its histogram. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/objects/objects.h"

typedef __int128 i128;
typedef unsigned __int128 u128;

const unsigned obj_percentiles[OBJ_PERCENTILES] = { 5, 10, 25, 75, 90, 95 };

tc_status obj_grey_init(obj_grey_sums *g, tc_err *err)
{
    g->fine = calloc(65536, sizeof *g->fine);
    g->coarse = calloc(256, sizeof *g->coarse);
    return g->fine == NULL || g->coarse == NULL ? tc_no_memory(err, "a histogram") : TC_OK;
}

void obj_grey_free(obj_grey_sums *g)
{
    free(g->fine);
    free(g->coarse);
    *g = (obj_grey_sums){ .fine = NULL };
}

/* Counts only the least and the greatest value of each run. This suffices for the object's least
 * and greatest value. */
static void add_extremes(const obj_item *o, const obj_run *runs, size_t n, obj_grey_sums *g)
{
    const wu_pixels *const px = o->pixels;

    for (size_t i = 0; i < n; i++) {
        const size_t row_start =
            ((size_t)OBJ_RUN_Z(runs[i]) * px->ny + OBJ_RUN_Y(runs[i])) * px->nx;
        const size_t first = row_start + OBJ_RUN_X0(runs[i]),
                     last = row_start + OBJ_RUN_X1(runs[i]);
        uint32_t lo = 65535, hi = 0;

        for (size_t x = first; px->bits == 8 && x <= last; x++) {
            lo = px->u8[x] < lo ? px->u8[x] : lo;
            hi = px->u8[x] > hi ? px->u8[x] : hi;
        }
        for (size_t x = first; px->bits == 16 && x <= last; x++) {
            lo = px->u16[x] < lo ? px->u16[x] : lo;
            hi = px->u16[x] > hi ? px->u16[x] : hi;
        }
        g->fine[lo]++;
        g->fine[hi]++;
        g->coarse[lo >> 8]++;
        g->coarse[hi >> 8]++;
    }
}

/* With v the grey value of a pixel, the sums of v z, v y and v x in g->weighted are those from
 * which the weighted centroid is computed. The upper byte of 8-bit values is 0, so coarse[0] is
 * increased once for each run instead of each pixel. */
void obj_grey_add(const obj_item *o, const obj_run *runs, size_t n, obj_grey_sums *g)
{
    const wu_pixels *const px = o->pixels;

    if ((o->params->families & OBJ_INTENSITY) == 0) {
        add_extremes(o, runs, n, g);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const uint32_t z = OBJ_RUN_Z(runs[i]), y = OBJ_RUN_Y(runs[i]), x0 = OBJ_RUN_X0(runs[i]);
        const uint32_t length = OBJ_RUN_X1(runs[i]) - x0 + 1;
        const size_t start = ((size_t)z * px->ny + y) * px->nx + x0;
        uint64_t sum = 0, sum_by_x = 0; /* sums of v and of v (x - x0) */

        for (uint32_t x = 0; x < length; x++) {
            const uint32_t v = wu_grey_value(px, start + x);

            g->fine[v]++;
            g->coarse[v >> 8] += px->bits > 8;
            sum += v;
            sum_by_x += (uint64_t)v * x;
        }
        g->coarse[0] += px->bits > 8 ? 0 : length;
        g->weighted[0] += sum * z;
        g->weighted[1] += sum * y;
        g->weighted[2] += sum_by_x + sum * x0;
    }
}

void obj_grey_merge(obj_grey_sums *g, obj_grey_sums *other)
{
    for (int i = 0; i < 3; i++)
        g->weighted[i] += other->weighted[i];
    for (uint32_t c = 0; c < 256; c++) {
        if (other->coarse[c] == 0)
            continue;
        g->coarse[c] += other->coarse[c];
        for (uint32_t v = c << 8; v < (c + 1) << 8; v++)
            g->fine[v] += other->fine[v];
    }
    obj_grey_clear(other);
}

void obj_grey_clear(obj_grey_sums *g)
{
    for (uint32_t c = 0; c < 256; c++) {
        if (g->coarse[c] == 0)
            continue;
        g->coarse[c] = 0;
        memset(g->fine + ((size_t)c << 8), 0, 256 * sizeof *g->fine);
    }
    g->weighted[0] = g->weighted[1] = g->weighted[2] = 0;
}

void obj_grey_range(const obj_grey_sums *g, uint16_t *lo, uint16_t *hi)
{
    uint32_t least = 0, most = 255;

    while (g->coarse[least] == 0)
        least++;
    while (g->coarse[most] == 0)
        most--;
    for (least <<= 8; g->fine[least] == 0;)
        least++;
    for (most = most << 8 | 255; g->fine[most] == 0;)
        most--;
    *lo = (uint16_t)least;
    *hi = (uint16_t)most;
}

/* The value with index `rank`, from 0 on, in the sorted list of all values. */
static uint32_t value_of_rank(const obj_grey_sums *g, uint64_t rank)
{
    uint32_t c = 0, v;

    while (rank >= g->coarse[c])
        rank -= g->coarse[c++];
    for (v = c << 8; rank >= g->fine[v]; v++)
        rank -= g->fine[v];
    return v;
}

/* The percentile of the n values, as numpy.percentile defines it: linear interpolation between the
 * two values on either side of the rank (n - 1) percent / 100. */
static double percentile(const obj_grey_sums *g, uint64_t n, unsigned percent)
{
    const uint64_t hundredths = (n - 1) * percent, below = hundredths / 100,
                   rest = hundredths % 100;
    const uint32_t v = value_of_rank(g, below);

    return rest == 0 ? v : v + (double)(value_of_rank(g, below + 1) - v) * (double)rest / 100.0;
}

/* Sums over all pixels of an object. v is a pixel's grey value, and c an integer near the mean grey
 * value, the argument of powers_of. */
typedef struct grey_powers {
    int64_t first; /* sum of v - c */
    i128 power[3]; /* sums of (v - c) to the powers 2, 3, 4 */
    u128 k_log_k;  /* sum of k log2 k over the counts k of the histogram, in units of 2^-80 */
} grey_powers;

/* Computes the sums from the histogram, with the given c. */
static grey_powers powers_of(const obj_item *o, const obj_grey_sums *g, int64_t c)
{
    grey_powers p = { .first = 0 };

    for (uint32_t upper = 0; upper < 256; upper++) /* the upper byte of v */
        for (uint32_t v = upper << 8; g->coarse[upper] != 0 && v < (upper + 1) << 8; v++) {
            const int64_t deviation = (int64_t)v - c, count = g->fine[v];

            if (count == 0)
                continue;
            p.first += count * deviation;
            p.power[0] += (i128)(count * deviation) * deviation;
            p.power[1] += (i128)(count * deviation) * deviation * deviation;
            p.power[2] += (i128)(count * deviation) * ((i128)deviation * deviation * deviation);
            p.k_log_k += tc_k_log2_k(&o->logs, (uint64_t)count);
        }
    return p;
}

/* The sum of all grey values. */
static uint64_t sum_of(const obj_grey_sums *g)
{
    uint64_t sum = 0;

    for (uint32_t upper = 0; upper < 256; upper++)
        for (uint32_t v = upper << 8; g->coarse[upper] != 0 && v < (upper + 1) << 8; v++)
            sum += (uint64_t)g->fine[v] * v;
    return sum;
}

uint64_t *obj_put_intensity(const obj_item *o, const obj_grey_sums *g, uint64_t area,
                            uint64_t *word)
{
    assert(area > 0);
    const double n = (double)area;
    const uint64_t sum = sum_of(g);
    /* c is the integer nearest to the mean, so that the sums of powers of v - c are exact integers.
     * The moments about the mean (m2, m3, m4) are computed from the moments about c (a2, a3, a4);
     * as the two differ little, this loses no precision. e: the mean minus c. */
    const uint64_t c = (2 * sum + area) / (2 * area);
    const grey_powers p = powers_of(o, g, (int64_t)c);
    const double e = (double)p.first / n, a2 = (double)p.power[0] / n, a3 = (double)p.power[1] / n,
                 a4 = (double)p.power[2] / n;
    const double m2 = a2 - e * e, m3 = a3 - 3 * e * a2 + 2 * e * e * e,
                 m4 = a4 - 4 * e * a3 + 6 * e * e * a2 - 3 * e * e * e * e;
    uint16_t lo, hi;

    /* Words are written in the order of `intensity` in output.c. Standard deviation, skewness and
     * kurtosis are 0 if all values are equal. */
    obj_grey_range(g, &lo, &hi);
    word = obj_put_int(word, lo);
    word = obj_put_int(word, hi);
    word = obj_put_real(word, (double)sum / n);
    word = obj_put_real(word, lo == hi ? 0 : sqrt(m2));
    word = obj_put_real(word, percentile(g, area, 50)); /* median */
    for (int i = 0; i < OBJ_PERCENTILES; i++)
        word = obj_put_real(word, percentile(g, area, obj_percentiles[i]));
    word = obj_put_real(word, lo == hi ? 0 : m3 / (m2 * sqrt(m2))); /* skewness */
    word = obj_put_real(word, lo == hi ? 0 : m4 / (m2 * m2) - 3);   /* kurtosis */
    /* The entropy: log2 n - (sum of k log2 k) / n. */
    word =
        obj_put_real(word, (double)(i128)(tc_k_log2_k(&o->logs, area) - p.k_log_k) * 0x1p-80 / n);
    word = obj_put_int(word, (int64_t)sum);
    for (int i = 3 - o->dims; i < 3; i++) /* the weighted centroid */
        word = obj_put_real(word, sum == 0 ? (double)NAN : (double)g->weighted[i] / (double)sum);
    return word;
}
