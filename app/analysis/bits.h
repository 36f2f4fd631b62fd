/*
 * Compares up to 64 pixels at a time, and returns the outcomes as the bits of a 64-bit word. Uses
 * SSE2 where the processor has it, and otherwise loops that compilers vectorize.
 */
#ifndef AN_BITS_H
#define AN_BITS_H

#include <assert.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "workunits/format/job.h"

/* Packs 64 bytes, each 0 or 1, into the bits of a word: byte i becomes bit i. Each multiplication
 * moves the lowest bits of eight bytes into the product's highest byte. */
static inline uint64_t an_bits_gather(const uint8_t *flags)
{
    uint64_t word = 0;

    for (size_t i = 0; i < 8; i++) {
        uint64_t eight;

        memcpy(&eight, flags + 8 * i, 8);
        word |= (eight * 0x0102040810204080u >> 56) << 8 * i;
    }
    return word;
}

#ifdef __SSE2__
/* Returns 16 bits: bit i is set if pixels[i] <= most. */
static inline uint64_t an_bits_at_most16(const uint8_t *pixels, __m128i most)
{
    const __m128i v = _mm_loadu_si128((const __m128i *)(const void *)pixels);

    return (uint64_t)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(v, most), v));
}
#endif

/* Returns 64 bits: bit i is set if pixels[i] < threshold. 1 <= threshold <= 255. */
static inline uint64_t an_bits_below64(const uint8_t *pixels, uint32_t threshold)
{
    assert(threshold >= 1 && threshold <= 255);
#ifdef __SSE2__
    const __m128i most = _mm_set1_epi8((char)(threshold - 1));

    return an_bits_at_most16(pixels, most) | an_bits_at_most16(pixels + 16, most) << 16 |
           an_bits_at_most16(pixels + 32, most) << 32 | an_bits_at_most16(pixels + 48, most) << 48;
#else
    const uint8_t t = (uint8_t)threshold;
    uint8_t flags[64];

    for (unsigned i = 0; i < 64; i++)
        flags[i] = pixels[i] < t;
    return an_bits_gather(flags);
#endif
}

/* Does the same as an_bits_below64 for pixels of 16 bits. 1 <= threshold <= 65535. */
static inline uint64_t an_bits_below64_u16(const uint16_t *pixels, uint32_t threshold)
{
    assert(threshold >= 1 && threshold <= 65535);
#ifdef __SSE2__
    /* SSE2 does not compare unsigned 16-bit integers. v <= most if the difference v - most, which
     * the subtraction below limits to at least 0, is 0. */
    const __m128i most = _mm_set1_epi16((short)(threshold - 1)), zero = _mm_setzero_si128();
    uint64_t word = 0;

    for (unsigned i = 0; i < 64; i += 16) {
        const __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(pixels + i));
        const __m128i u = _mm_loadu_si128((const __m128i *)(const void *)(pixels + i + 8));
        const __m128i below = _mm_packs_epi16(_mm_cmpeq_epi16(_mm_subs_epu16(v, most), zero),
                                              _mm_cmpeq_epi16(_mm_subs_epu16(u, most), zero));

        word |= (uint64_t)_mm_movemask_epi8(below) << i;
    }
    return word;
#else
    uint8_t flags[64];

    for (unsigned i = 0; i < 64; i++)
        flags[i] = pixels[i] < threshold;
    return an_bits_gather(flags);
#endif
}

/* Returns n bits, 1 <= n <= 64: bit i is set if pixel first + i of the picture is less than
 * threshold. */
static inline uint64_t an_bits_below(const wu_pixels *px, size_t first, unsigned n,
                                     uint32_t threshold)
{
    assert(n >= 1 && n <= 64);
    uint8_t flags[64] = { 0 };

    if (px->u8 != NULL && (threshold == 0 || threshold > 255))
        return threshold == 0 ? 0 : ~(uint64_t)0 >> (64 - n);
    if (px->u8 != NULL && n == 64)
        return an_bits_below64(px->u8 + first, threshold);
    if (px->u8 != NULL) {
        for (unsigned i = 0; i < n; i++)
            flags[i] = px->u8[first + i] < threshold;
    } else if (n == 64 && threshold > 0 && threshold <= 65535) {
        return an_bits_below64_u16(px->u16 + first, threshold);
    } else {
        for (unsigned i = 0; i < n; i++)
            flags[i] = px->u16[first + i] < threshold;
    }
    return an_bits_gather(flags);
}

#ifdef __SSE2__
/* Compares four labels with the labels that follow each of them: sets a lane to all ones where they
 * are equal. */
static inline __m128i an_bits_equal4(const int32_t *row)
{
    return _mm_cmpeq_epi32(_mm_loadu_si128((const __m128i *)(const void *)row),
                           _mm_loadu_si128((const __m128i *)(const void *)(row + 1)));
}
#endif

/* Returns 64 bits: bit i is set if row[i] != row[i + 1]. row: 65 labels. */
static inline uint64_t an_bits_changes(const int32_t *row)
{
#ifdef __SSE2__
    uint64_t equal = 0;

    for (unsigned i = 0; i < 64; i += 16) {
        const __m128i lower = _mm_packs_epi32(an_bits_equal4(row + i), an_bits_equal4(row + i + 4)),
                      upper = _mm_packs_epi32(an_bits_equal4(row + i + 8),
                                              an_bits_equal4(row + i + 12));

        equal |= (uint64_t)(unsigned)_mm_movemask_epi8(_mm_packs_epi16(lower, upper)) << i;
    }
    return ~equal;
#else
    uint8_t flags[64];

    for (int i = 0; i < 64; i++)
        flags[i] = row[i] != row[i + 1];
    return an_bits_gather(flags);
#endif
}

#endif
