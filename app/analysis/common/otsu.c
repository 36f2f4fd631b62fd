/* Computes histograms and Otsu's thresholds. For two classes thresholds are exact; for more classes
 * they are computed from groups of grey values. See otsu.h. */
#include "app/analysis/common/otsu.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

typedef unsigned __int128 u128;

/* An integer of 256 bits, as four words, the least significant first. */
typedef struct wide {
    uint64_t word[4];
} wide;

/* Returns a^2 * b, for a < 2^80 and b < 2^64: less than 2^224. */
static wide square_times(u128 a, uint64_t b)
{
    const uint64_t lo = (uint64_t)a, hi = (uint64_t)(a >> 64);
    const u128 low = (u128)lo * lo, cross = (u128)lo * hi, high = (u128)hi * hi;
    uint64_t square[3];
    wide out;
    u128 t = low >> 64;

    square[0] = (uint64_t)low;
    t += (u128)(uint64_t)cross * 2;
    square[1] = (uint64_t)t;
    t = (t >> 64) + (cross >> 64) * 2 + high;
    square[2] = (uint64_t)t;
    t = 0;
    for (int i = 0; i < 3; i++) {
        t += (u128)square[i] * b;
        out.word[i] = (uint64_t)t;
        t >>= 64;
    }
    out.word[3] = (uint64_t)t;
    return out;
}

/* Whether a > b. */
static bool is_greater(const wide *a, const wide *b)
{
    for (int i = 3; i >= 0; i--)
        if (a->word[i] != b->word[i])
            return a->word[i] > b->word[i];
    return false;
}

/* The grey value v on this scale: v itself, or the square root of v with 8 fractional bits, which
 * is 256 sqrt(v) rounded down. Either is less than 2^16. */
static uint32_t scaled_value(uint32_t v, an_otsu_scale scale)
{
    const uint64_t square = (uint64_t)v << 16;
    uint64_t root;

    if (scale == AN_OTSU_LINEAR)
        return v;
    root = (uint64_t)sqrt((double)square);
    while (root * root > square)
        root--;
    while ((root + 1) * (root + 1) <= square)
        root++;
    return (uint32_t)root;
}

/* Otsu's threshold for two classes. A threshold divides the pixels into a lower class of n0 pixels,
 * whose values have the sum s0, and an upper class of n1 pixels with the sum s1. Then the
 * between-class variance is (s0 n1 - s1 n0)^2 / (n0 n1), except for a constant factor. Two of these
 * fractions are compared by cross-multiplication: n < 2^31, s < 2^47, so the difference is below
 * 2^78 and its square times n0 n1 below 2^218. */
static uint32_t find_threshold(const uint64_t *histogram, uint32_t size, an_otsu_scale scale)
{
    assert(size >= 2);
    /* best: |s0 n1 - s1 n0| of the best threshold so far; best_weight: its n0 n1 */
    uint64_t n = 0, s = 0, n0 = 0, s0 = 0, best_weight = 1;
    u128 best = 0;
    uint32_t threshold = 0; /* the greatest value of the lower class */

    for (uint32_t v = 0; v < size; v++) {
        n += histogram[v];
        s += scaled_value(v, scale) * histogram[v];
    }
    for (uint32_t t = 0; t < size; t++) {
        uint64_t weight;
        u128 a, b, difference;
        wide candidate, to_exceed; /* the two sides of the comparison by cross-multiplication */

        n0 += histogram[t];
        s0 += scaled_value(t, scale) * histogram[t];
        weight = n0 * (n - n0);
        if (weight == 0 || histogram[t] == 0)
            continue;
        a = (u128)s0 * (n - n0);
        b = (u128)(s - s0) * n0;
        difference = a > b ? a - b : b - a;
        candidate = square_times(difference, best_weight);
        to_exceed = square_times(best, weight);
        if (is_greater(&candidate, &to_exceed)) {
            best = difference;
            best_weight = weight;
            threshold = t;
        }
    }
    return threshold + 1;
}

uint32_t an_otsu_threshold(const uint64_t *histogram, uint32_t size)
{
    return find_threshold(histogram, size, AN_OTSU_LINEAR);
}

/* --- more than two classes ------------------------------------------------------------------ */

enum { GROUPS = 256 }; /* greatest number of groups */

/* Groups of consecutive grey values: the values v of a group have the same v >> shift. Groups
 * without pixels are left out. */
typedef struct groups {
    unsigned n, shift;
    uint32_t first[GROUPS]; /* the first grey value of each group */
    /* The number of pixels in all groups before each group, and the sum of their scaled values.
     * Both are exact, as they are below 2^53. */
    double count[GROUPS + 1], sum[GROUPS + 1];
} groups;

/* Groups the values of the histogram, using the smallest shift that gives at most GROUPS groups. */
static groups group_values(const uint64_t *histogram, uint32_t size, an_otsu_scale scale)
{
    uint32_t lo = 0, hi = size - 1;
    groups g = { .n = 0 };

    while (lo < hi && histogram[lo] == 0)
        lo++;
    while (hi > lo && histogram[hi] == 0)
        hi--;
    while ((hi >> g.shift) - (lo >> g.shift) >= GROUPS)
        g.shift++;
    for (uint32_t v = lo; v <= hi;) {
        const uint32_t group = v >> g.shift;
        uint64_t count = 0, sum = 0;

        for (; v <= hi && v >> g.shift == group; v++) {
            count += histogram[v];
            sum += scaled_value(v, scale) * histogram[v];
        }
        if (count == 0)
            continue;
        g.first[g.n] = group << g.shift;
        g.count[g.n + 1] = g.count[g.n] + (double)count;
        g.sum[g.n + 1] = g.sum[g.n] + (double)sum;
        g.n++;
    }
    return g;
}

/* The contribution to the between-class variance of a class that consists of groups [i, j): the sum
 * of its values times their mean. */
static double class_score(const groups *g, unsigned i, unsigned j)
{
    const double sum = g->sum[j] - g->sum[i];

    return sum * sum / (g->count[j] - g->count[i]);
}

/* Does a step of dynamic programming over the number of classes. Sets scores[j] to the greatest sum
 * of class_score for dividing the first j groups into `classes` classes, and begins[j] to the first
 * group of the last of these classes. previous: the scores for one class less. */
static void add_class(const groups *g, unsigned classes, const double *previous, double *scores,
                      uint16_t *begins)
{
    for (unsigned j = classes; j <= g->n; j++) {
        scores[j] = -1;
        for (unsigned i = classes - 1; i < j; i++) {
            const double total = previous[i] + class_score(g, i, j);

            if (total > scores[j]) {
                scores[j] = total;
                begins[j] = (uint16_t)i;
            }
        }
    }
}

tc_status an_otsu_classes(const uint64_t *histogram, uint32_t size, an_otsu_scale scale,
                          unsigned classes, bool highest, uint32_t *threshold, tc_err *err)
{
    assert(classes >= 2 && classes <= AN_OTSU_CLASSES);
    groups *const g = malloc(sizeof *g);
    double scores[2][GROUPS + 1];
    uint16_t begins[AN_OTSU_CLASSES + 1][GROUPS + 1];
    unsigned group;

    if (g == NULL)
        return tc_no_memory(err, "the grey values");
    *g = group_values(histogram, size, scale);
    classes = g->n < classes ? g->n : classes;
    if (classes <= 2) {
        free(g);
        *threshold = find_threshold(histogram, size, scale);
        return TC_OK;
    }
    for (unsigned j = 1; j <= g->n; j++)
        scores[1][j] = class_score(g, 0, j);
    for (unsigned c = 2; c <= classes; c++)
        add_class(g, c, scores[(c - 1) % 2], scores[c % 2], begins[c]);
    group = begins[classes][g->n]; /* the first group of the highest class */
    /* Unless the highest class is wanted, goes down to the first group of the second class. */
    for (unsigned c = classes - 1; c >= 2 && !highest; c--)
        group = begins[c][group];
    *threshold = g->first[group];
    free(g);
    return TC_OK;
}

void an_histogram_add(const wu_pixels *px, size_t from, size_t to, uint64_t *histogram)
{
    assert(from <= to && to <= (size_t)px->nx * px->ny * px->nz);
    if (px->u8 != NULL)
        for (size_t i = from; i < to; i++)
            histogram[px->u8[i]]++;
    else
        for (size_t i = from; i < to; i++)
            histogram[px->u16[i]]++;
}

void an_histogram_add_masked(const wu_pixels *px, const uint8_t *mask, size_t from, size_t to,
                             uint64_t *histogram)
{
    if (mask == NULL)
        an_histogram_add(px, from, to, histogram);
    for (size_t i = from; mask != NULL && i < to; i++)
        if (mask[i])
            histogram[wu_grey_value(px, i)]++;
}

tc_status an_otsu_of_pixels(const wu_pixels *px, uint32_t *threshold, tc_err *err)
{
    const uint32_t size = (uint32_t)1 << px->bits;
    uint64_t *const histogram = calloc(size, sizeof *histogram);

    if (histogram == NULL)
        return tc_no_memory(err, "the grey values");
    an_histogram_add(px, 0, (size_t)px->nx * px->ny * px->nz, histogram);
    *threshold = an_otsu_threshold(histogram, size);
    free(histogram);
    return TC_OK;
}

tc_status an_histogram_of(const wu_pixels *px, const tc_poll *poll, uint64_t **histogram,
                          tc_err *err)
{
    const size_t n = (size_t)px->nx * px->ny * px->nz;
    tc_status status = TC_OK;

    *histogram = calloc((size_t)1 << px->bits, sizeof **histogram);
    if (*histogram == NULL)
        return tc_no_memory(err, "the grey values");
    for (size_t i = 0, end; status == TC_OK && i < n; i = end, status = tc_call_poll(poll, err)) {
        end = tc_block_end(i, n);
        an_histogram_add_masked(px, px->mask, i, end, *histogram);
    }
    return status;
}

tc_status an_find_polarity(const wu_pixels *px, const tc_poll *poll, bool *bright, tc_err *err)
{
    const uint32_t size = (uint32_t)1 << px->bits;
    uint64_t *histogram, below = 0, all = 0;
    const tc_status status = an_histogram_of(px, poll, &histogram, err);
    const uint32_t otsu = status == TC_OK ? an_otsu_threshold(histogram, size) : 0;

    for (uint32_t v = 0; status == TC_OK && v < size; v++) {
        all += histogram[v];
        below += v < otsu ? histogram[v] : 0;
    }
    *bright = 2 * below > all; /* the darker class has more than half of the pixels */
    free(histogram);
    return status;
}
