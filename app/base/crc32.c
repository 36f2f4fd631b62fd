/* CRC-32: by zlib, and for long data by carry-less multiplication on processors that have it. */
#include "app/base/crc32.h"

#if defined __x86_64__
#include <assert.h>
#include <cpuid.h>
#include <immintrin.h>
#endif
#include <stdbool.h>
#include <zlib.h>

#if defined __x86_64__

/* LANE: bytes of a 128-bit register. STRIDE: bytes that the LANES registers hold together. */
enum { LANES = 4, LANE = 16, STRIDE = LANES * LANE };

/* Returns a times x^distance, modulo the CRC's polynomial, plus b. by: x^(distance + 32) and
 * x^(distance - 32), each modulo the polynomial and with its bits reversed. */
__attribute__((target("pclmul"))) static inline __m128i fold(__m128i a, __m128i by, __m128i b)
{
    return _mm_xor_si128(
        _mm_xor_si128(_mm_clmulepi64_si128(a, by, 0x00), _mm_clmulepi64_si128(a, by, 0x11)), b);
}

static inline __m128i load(const unsigned char *at, size_t lane)
{
    return _mm_loadu_si128((const __m128i *)(const void *)(at + LANE * lane));
}

/* Adds the whole strides of n bytes (n >= STRIDE) to the CRC and sets *done to their number of
 * bytes. Folds them into 16 bytes that have the same CRC, which zlib then computes (Gopal et al.,
 * Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction, Intel 2009). */
__attribute__((target("pclmul"))) static uint32_t add_by_products(uint32_t crc,
                                                                  const unsigned char *at, size_t n,
                                                                  size_t *done)
{
    const __m128i by_stride = _mm_set_epi64x(0x1c6e41596, 0x154442bd4),
                  by_lane = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
    unsigned char rest[LANE];
    /* No array: compilers keep that in memory. */
    __m128i a = load(at, 0), b = load(at, 1), c = load(at, 2), d = load(at, 3);

    a = _mm_xor_si128(a, _mm_cvtsi32_si128((int)~crc));
    for (*done = STRIDE; n - *done >= STRIDE; *done += STRIDE) {
        a = fold(a, by_stride, load(at + *done, 0));
        b = fold(b, by_stride, load(at + *done, 1));
        c = fold(c, by_stride, load(at + *done, 2));
        d = fold(d, by_stride, load(at + *done, 3));
    }
    a = fold(fold(fold(a, by_lane, b), by_lane, c), by_lane, d);
    _mm_storeu_si128((__m128i *)(void *)rest, a);
    return (uint32_t)crc32_z(UINT32_MAX, rest, sizeof rest);
}

/* Whether the processor has PCLMULQDQ (leaf 1 of cpuid). The answer is cached, as cpuid takes 10 us
 * in a virtual machine. */
static bool has_products(void)
{
    static _Atomic int known; /* 1: no, 2: yes */
    unsigned a, b, c, d;

    if (known == 0)
        known = __get_cpuid(1, &a, &b, &c, &d) && (c >> 1 & 1) != 0 ? 2 : 1;
    return known == 2;
}

uint32_t tc_crc32(uint32_t crc, const void *data, size_t n)
{
    assert(data != NULL || n == 0);
    const unsigned char *const from = data;
    size_t done = 0;

    if (n >= STRIDE && has_products())
        crc = add_by_products(crc, from, n, &done);
    return n > done ? (uint32_t)crc32_z(crc, from + done, n - done) : crc;
}

#else

uint32_t tc_crc32(uint32_t crc, const void *data, size_t n)
{
    return n > 0 ? (uint32_t)crc32_z(crc, data, n) : crc;
}

#endif
