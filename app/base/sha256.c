#include "app/base/sha256.h"

#include <stdio.h>
#include <string.h>

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2
};

static uint32_t turned(uint32_t v, unsigned n)
{
    return v >> n | v << (32 - n);
}

/* One of the 64 rounds: of the eight words two change, and the next round calls each by the next name. */
static inline void turn(uint32_t a, uint32_t b, uint32_t c, uint32_t *d, uint32_t e, uint32_t f, uint32_t g, uint32_t *h,
                        uint32_t word)
{
    *h += (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & f) ^ (~e & g)) + word;
    *d += *h;
    *h += (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
}

static void add_block(uint32_t state[8], const unsigned char block[64])
{
    uint32_t w[64], v[8];

    for (size_t i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
               block[4 * i + 3];
    for (int i = 16; i < 64; i++)
        w[i] = (turned(w[i - 2], 17) ^ turned(w[i - 2], 19) ^ w[i - 2] >> 10) + w[i - 7] +
               (turned(w[i - 15], 7) ^ turned(w[i - 15], 18) ^ w[i - 15] >> 3) + w[i - 16];
    memcpy(v, state, sizeof v);
    for (int i = 0; i < 64; i += 8) {
        turn(v[0], v[1], v[2], &v[3], v[4], v[5], v[6], &v[7], constants[i] + w[i]);
        turn(v[7], v[0], v[1], &v[2], v[3], v[4], v[5], &v[6], constants[i + 1] + w[i + 1]);
        turn(v[6], v[7], v[0], &v[1], v[2], v[3], v[4], &v[5], constants[i + 2] + w[i + 2]);
        turn(v[5], v[6], v[7], &v[0], v[1], v[2], v[3], &v[4], constants[i + 3] + w[i + 3]);
        turn(v[4], v[5], v[6], &v[7], v[0], v[1], v[2], &v[3], constants[i + 4] + w[i + 4]);
        turn(v[3], v[4], v[5], &v[6], v[7], v[0], v[1], &v[2], constants[i + 5] + w[i + 5]);
        turn(v[2], v[3], v[4], &v[5], v[6], v[7], v[0], &v[1], constants[i + 6] + w[i + 6]);
        turn(v[1], v[2], v[3], &v[4], v[5], v[6], v[7], &v[0], constants[i + 7] + w[i + 7]);
    }
    for (size_t i = 0; i < 8; i++)
        state[i] += v[i];
}

void tc_sha256_begin(tc_sha256 *s)
{
    /* Those of the square roots of the first 8 primes. */
    *s = (tc_sha256){ .state = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab,
                                 0x5be0cd19 } };
}

void tc_sha256_add(tc_sha256 *s, const void *data, size_t n)
{
    const unsigned char *from = data;

    while (n > 0) {
        const size_t at = s->bytes % 64, part = n < 64 - at ? n : 64 - at;

        memcpy(s->block + at, from, part);
        s->bytes += part;
        from += part;
        n -= part;
        if (at + part == 64)
            add_block(s->state, s->block);
    }
}

/* A one, zeros, and the number of bits in the last 8 bytes of a block. */
void tc_sha256_end(tc_sha256 *s, char text[TC_SHA256_TEXT])
{
    static const unsigned char one = 0x80, zero = 0;
    const uint64_t bits = s->bytes * 8;
    unsigned char length[8];

    tc_sha256_add(s, &one, 1);
    while (s->bytes % 64 != 56)
        tc_sha256_add(s, &zero, 1);
    for (size_t i = 0; i < 8; i++)
        length[i] = (unsigned char)(bits >> (56 - 8 * i));
    tc_sha256_add(s, length, sizeof length);
    for (size_t i = 0; i < 8; i++)
        snprintf(text + 8 * i, 9, "%08lx", (unsigned long)s->state[i]);
}
