/* Otsu's threshold of a histogram, in exact integers. */
#include "app/analysis/common/otsu.h"

#include <assert.h>
#include <stdlib.h>

typedef unsigned __int128 u128;

/* 256-bit products, as four words, least first. */
typedef struct wide {
    uint64_t word[4];
} wide;

/* a^2 * b, a < 2^80, b < 2^64: below 2^224. */
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

static bool is_greater(const wide *a, const wide *b)
{
    for (int i = 3; i >= 0; i--)
        if (a->word[i] != b->word[i])
            return a->word[i] > b->word[i];
    return false;
}

/* With n0, n1 pixels of sums s0, s1 below and above, the between-class variance
 * is (s0 n1 - s1 n0)^2 / (n0 n1), but for a constant. Two of these fractions
 * are compared by cross-multiplication: n < 2^31, s < 2^47, so the difference
 * is below 2^78 and its square times n0 n1 below 2^218. */
uint32_t an_otsu(const uint64_t *histogram, uint32_t size)
{
    assert(size >= 2);
    uint64_t n = 0, s = 0, n0 = 0, s0 = 0, best_weight = 1;
    u128 best = 0;
    uint32_t threshold = 0;

    for (uint32_t v = 0; v < size; v++) {
        n += histogram[v];
        s += v * histogram[v];
    }
    for (uint32_t t = 0; t < size; t++) {
        uint64_t weight;
        u128 a, b, difference;
        wide here, there;

        n0 += histogram[t];
        s0 += t * histogram[t];
        weight = n0 * (n - n0);
        if (weight == 0 || histogram[t] == 0)
            continue;
        a = (u128)s0 * (n - n0);
        b = (u128)(s - s0) * n0;
        difference = a > b ? a - b : b - a;
        here = square_times(difference, best_weight);
        there = square_times(best, weight);
        if (is_greater(&here, &there)) {
            best = difference;
            best_weight = weight;
            threshold = t;
        }
    }
    return threshold + 1;
}

void an_histogram(const wu_pixels *px, size_t from, size_t to, uint64_t *histogram)
{
    if (px->u8 != NULL)
        for (size_t i = from; i < to; i++)
            histogram[px->u8[i]]++;
    else
        for (size_t i = from; i < to; i++)
            histogram[px->u16[i]]++;
}

tc_status an_otsu_of(const wu_pixels *px, uint32_t *threshold, tc_err *err)
{
    const uint32_t size = (uint32_t)1 << px->bits;
    uint64_t *const histogram = calloc(size, sizeof *histogram);

    if (histogram == NULL)
        return tc_no_memory(err, "the grey values");
    an_histogram(px, 0, (size_t)px->nx * px->ny * px->nz, histogram);
    *threshold = an_otsu(histogram, size);
    free(histogram);
    return TC_OK;
}
