/*
 * Pixels to bits, 64 at a time, in a way that compilers make vectors of.
 */
#ifndef AN_BITS_H
#define AN_BITS_H

#include <string.h>

#include "workunits/job.h"

/* 64 bytes of 0 or 1 to as many bits: each multiplication gathers eight. */
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

/* Pixels below the threshold, 1 <= n <= 64 of them from pixel `at` on. */
static inline uint64_t an_bits_below(const wu_pixels *px, size_t at, unsigned n, uint32_t threshold)
{
    uint8_t flags[64] = { 0 };

    if (px->u16 != NULL) {
        if (n == 64)
            for (unsigned i = 0; i < 64; i++)
                flags[i] = px->u16[at + i] < threshold;
        else
            for (unsigned i = 0; i < n; i++)
                flags[i] = px->u16[at + i] < threshold;
        return an_bits_gather(flags);
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
    return an_bits_gather(flags);
}

/* Where labels change from one pixel to the next: bit i for row[i] != row[i + 1],
 * of 64. */
static inline uint64_t an_bits_changes(const int32_t *row)
{
    uint8_t flags[64];

    for (int i = 0; i < 64; i++)
        flags[i] = row[i] != row[i + 1];
    return an_bits_gather(flags);
}

#endif
