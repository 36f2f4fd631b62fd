/* SHA-256 (FIPS 180-4), in portable C and by the SHA instructions of x86-64. */
#include "app/base/sha256.h"

#if defined __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif
#include <assert.h>
#include <stdbool.h>
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

static uint32_t rotate_right(uint32_t v, unsigned n)
{
    return v >> n | v << (32 - n);
}

/* Computes one of the 64 rounds. It changes only d and h. The standard then moves the words a to h
 * by one position; here the caller passes them in shifted positions instead. word: the sum of the
 * round's constant and message word. */
static inline void do_round(uint32_t a, uint32_t b, uint32_t c, uint32_t *d, uint32_t e, uint32_t f,
                            uint32_t g, uint32_t *h, uint32_t word)
{
    *h += (rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25)) + ((e & f) ^ (~e & g)) +
          word;
    *d += *h;
    *h += (rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22)) +
          ((a & b) ^ (a & c) ^ (b & c));
}

/* Updates the hash state with a block. */
static void add_block(uint32_t state[8], const unsigned char block[64])
{
    uint32_t w[64], v[8]; /* the message words; the words a to h */

    for (size_t i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < 64; i++)
        w[i] =
            (rotate_right(w[i - 2], 17) ^ rotate_right(w[i - 2], 19) ^ w[i - 2] >> 10) + w[i - 7] +
            (rotate_right(w[i - 15], 7) ^ rotate_right(w[i - 15], 18) ^ w[i - 15] >> 3) + w[i - 16];
    memcpy(v, state, sizeof v);
    for (int i = 0; i < 64; i += 8) {
        do_round(v[0], v[1], v[2], &v[3], v[4], v[5], v[6], &v[7], constants[i] + w[i]);
        do_round(v[7], v[0], v[1], &v[2], v[3], v[4], v[5], &v[6], constants[i + 1] + w[i + 1]);
        do_round(v[6], v[7], v[0], &v[1], v[2], v[3], v[4], &v[5], constants[i + 2] + w[i + 2]);
        do_round(v[5], v[6], v[7], &v[0], v[1], v[2], v[3], &v[4], constants[i + 3] + w[i + 3]);
        do_round(v[4], v[5], v[6], &v[7], v[0], v[1], v[2], &v[3], constants[i + 4] + w[i + 4]);
        do_round(v[3], v[4], v[5], &v[6], v[7], v[0], v[1], &v[2], constants[i + 5] + w[i + 5]);
        do_round(v[2], v[3], v[4], &v[5], v[6], v[7], v[0], &v[1], constants[i + 6] + w[i + 6]);
        do_round(v[1], v[2], v[3], &v[4], v[5], v[6], v[7], &v[0], constants[i + 7] + w[i + 7]);
    }
    for (size_t i = 0; i < 8; i++)
        state[i] += v[i];
}

void tc_sha256_portable(uint32_t state[8], const unsigned char *blocks, size_t n)
{
    for (size_t i = 0; i < n; i++)
        add_block(state, blocks + 64 * i);
}

#if defined __x86_64__

/* Computes rounds `from` to from + 3, with the message words in w0. w0 to w3 hold 16 consecutive
 * message words. If has_next, w0 then receives the four words that follow these 16. */
#define FOUR(from, w0, w1, w2, w3, has_next)                                                  \
    do {                                                                                      \
        const __m128i k = _mm_add_epi32(                                                      \
            w0, _mm_loadu_si128((const __m128i *)(const void *)(constants + (from))));        \
        cdgh = _mm_sha256rnds2_epu32(cdgh, abef, k);                                          \
        abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_srli_si128(k, 8));                       \
        if (has_next)                                                                         \
            (w0) = _mm_sha256msg2_epu32(                                                      \
                _mm_add_epi32(_mm_sha256msg1_epu32(w0, w1), _mm_alignr_epi8(w3, w2, 4)), w3); \
    } while (0)

/* A tc_sha256_blocks that uses SHA256RNDS2, SHA256MSG1 and SHA256MSG2 (Intel's manual, volume 2).
 * The instructions hold the words a, b, e, f and c, d, g, h of the state in one register each. */
__attribute__((target("sha,sse4.1"))) static void add_blocks_sha(uint32_t state[8],
                                                                 const unsigned char *blocks,
                                                                 size_t n)
{
    /* Shuffles the bytes of each 32-bit word into reverse order. */
    const __m128i big_endian = _mm_set_epi32(0x0c0d0e0f, 0x08090a0b, 0x04050607, 0x00010203);
    __m128i abef = _mm_set_epi32((int)state[0], (int)state[1], (int)state[4], (int)state[5]);
    __m128i cdgh = _mm_set_epi32((int)state[2], (int)state[3], (int)state[6], (int)state[7]);
    uint32_t words[8];

    for (const unsigned char *at = blocks; n > 0; n--, at += 64) {
        const __m128i abef_before = abef, cdgh_before = cdgh;
        __m128i w[4];

        for (size_t i = 0; i < 4; i++)
            w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)(at + 16 * i)),
                                    big_endian);
        for (int i = 0; i < 64; i += 16) {
            FOUR(i, w[0], w[1], w[2], w[3], i < 48);
            FOUR(i + 4, w[1], w[2], w[3], w[0], i < 48);
            FOUR(i + 8, w[2], w[3], w[0], w[1], i < 48);
            FOUR(i + 12, w[3], w[0], w[1], w[2], i < 48);
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    _mm_storeu_si128((__m128i *)(void *)words, abef);
    _mm_storeu_si128((__m128i *)(void *)(words + 4), cdgh);
    /* words: f, e, b, a, h, g, d, c. */
    for (int i = 0; i < 2; i++) {
        state[i] = words[3 - i];
        state[i + 2] = words[7 - i];
        state[i + 4] = words[1 - i];
        state[i + 6] = words[5 - i];
    }
}

/* Whether the processor has the instructions that add_blocks_sha uses: leaf 1 of cpuid has the bits
 * of SSSE3 and SSE4.1, leaf 7 the bit of SHA. They use the SSE registers that every x86-64
 * processor has. */
static bool has_instructions(void)
{
    const unsigned sse = 1u << 9 | 1u << 19, sha = 1u << 29;
    unsigned a, b, c, d;

    return __get_cpuid(1, &a, &b, &c, &d) && (c & sse) == sse &&
           __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & sha) != 0;
}

/* Returns the fastest implementation for this processor. It is stored, as cpuid takes 10 us in a
 * virtual machine. */
static tc_sha256_blocks *fastest_blocks(void)
{
    static tc_sha256_blocks *_Atomic best;

    if (best == NULL)
        best = has_instructions() ? add_blocks_sha : tc_sha256_portable;
    return best;
}

#else

static tc_sha256_blocks *fastest_blocks(void)
{
    return tc_sha256_portable;
}

#endif

void tc_sha256_begin(tc_sha256 *s)
{
    /* The first 32 bits of the fractional parts of the square roots of the first 8 primes. */
    *s = (tc_sha256){ .add = fastest_blocks(),
                      .state = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                                 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 } };
}

void tc_sha256_add(tc_sha256 *s, const void *data, size_t n)
{
    assert(s->add != NULL);
    const unsigned char *from = data;

    while (n > 0) {
        const size_t at = s->bytes % 64, room = 64 - at;
        const bool whole = at == 0 && n >= 64;
        const size_t part = whole ? n / 64 * 64 : n < room ? n : room;

        if (whole)
            s->add(s->state, from, n / 64);
        else
            memcpy(s->block + at, from, part);
        if (!whole && part == room)
            s->add(s->state, s->block, 1);
        s->bytes += part;
        from += part;
        n -= part;
    }
}

/* Pads the message by a one bit, zero bits, and its length in bits as the last 8 bytes of a block.
 */
void tc_sha256_end(tc_sha256 *s, char text[TC_SHA256_TEXT])
{
    assert(s->add != NULL);
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
