/*
 * Converts colours to the grey values that analyses use, (R + G + B) / 3 rounded down, and computes
 * the range of grey values.
 */
#ifndef WU_GREY_H
#define WU_GREY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#ifdef __SSE2__
/* Converts 16 pixels of 3 bytes each, after separating their channels. Interleaving the two halves
 * of the 48 bytes moves byte p to 2 p modulo 47. So four interleavings move byte p to 16 p modulo
 * 47: channel c of pixel j, which was byte 3 j + c, is then at j + 16 c. */
static inline __m128i wu_grey16(const uint8_t *rgb)
{
    const __m128i zero = _mm_setzero_si128(),
                  third = _mm_set1_epi16(21846); /* 2^16 / 3, rounded up: exact for sums to 765 */
    __m128i r = _mm_loadu_si128((const __m128i *)(const void *)rgb),
            g = _mm_loadu_si128((const __m128i *)(const void *)(rgb + 16)),
            b = _mm_loadu_si128((const __m128i *)(const void *)(rgb + 32));

    for (int i = 0; i < 4; i++) {
        const __m128i first = _mm_unpacklo_epi8(r, _mm_srli_si128(g, 8)),
                      second = _mm_unpacklo_epi8(_mm_srli_si128(r, 8), b),
                      last = _mm_unpacklo_epi8(g, _mm_srli_si128(b, 8));

        r = first;
        g = second;
        b = last;
    }
    const __m128i low =
        _mm_add_epi16(_mm_unpacklo_epi8(r, zero),
                      _mm_add_epi16(_mm_unpacklo_epi8(g, zero), _mm_unpacklo_epi8(b, zero)));
    const __m128i high =
        _mm_add_epi16(_mm_unpackhi_epi8(r, zero),
                      _mm_add_epi16(_mm_unpackhi_epi8(g, zero), _mm_unpackhi_epi8(b, zero)));
    return _mm_packus_epi16(_mm_mulhi_epu16(low, third), _mm_mulhi_epu16(high, third));
}
#endif

/* Converts n pixels of three channels; `grey` may be the same address as `rgb`. */
static inline void wu_make_grey(const uint8_t *rgb, size_t n, uint8_t *grey)
{
    size_t i = 0;

#ifdef __SSE2__
    for (; n - i >= 16; i += 16)
        _mm_storeu_si128((__m128i *)(void *)(grey + i), wu_grey16(rgb + 3 * i));
#endif
    for (; i < n; i++)
        grey[i] = (uint8_t)((rgb[3 * i] + rgb[3 * i + 1] + rgb[3 * i + 2]) / 3);
}

/* Returns how many of the n grey values are 255. */
static inline size_t wu_count_white(const uint8_t *grey, size_t n)
{
    size_t i = 0, found = 0;

#ifdef __SSE2__
    const __m128i zero = _mm_setzero_si128(), white = _mm_set1_epi8(-1);
    __m128i sums = zero;
    uint64_t halves[2];

    for (; n - i >= 16; i += 16) {
        const __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(grey + i)),
                      ones = _mm_sub_epi8(zero, _mm_cmpeq_epi8(v, white));

        sums = _mm_add_epi64(sums, _mm_sad_epu8(ones, zero));
    }
    _mm_storeu_si128((__m128i *)(void *)halves, sums);
    found = (size_t)(halves[0] + halves[1]);
#endif
    for (; i < n; i++)
        found += grey[i] == UINT8_MAX;
    return found;
}

/* Extends the range from *lo to *hi so that it contains the n grey values. */
static inline void wu_widen_range(const uint8_t *grey, size_t n, uint8_t *lo, uint8_t *hi)
{
    size_t i = 0;

#ifdef __SSE2__
    uint8_t ends[2][16];
    __m128i least = _mm_set1_epi8((char)*lo), most = _mm_set1_epi8((char)*hi);

    for (; n - i >= 16; i += 16) {
        const __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(grey + i));

        least = _mm_min_epu8(least, v);
        most = _mm_max_epu8(most, v);
    }
    _mm_storeu_si128((__m128i *)(void *)ends[0], least);
    _mm_storeu_si128((__m128i *)(void *)ends[1], most);
    for (size_t k = 0; k < 16; k++) {
        *lo = ends[0][k] < *lo ? ends[0][k] : *lo;
        *hi = ends[1][k] > *hi ? ends[1][k] : *hi;
    }
#endif
    for (; i < n; i++) {
        *lo = grey[i] < *lo ? grey[i] : *lo;
        *hi = grey[i] > *hi ? grey[i] : *hi;
    }
}

#endif
