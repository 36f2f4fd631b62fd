/* CRC-32: by zlib, and for long data by carry-less multiplication on processors that have it. */
#include "app/base/crc32.h"

#if defined __x86_64__
#include <assert.h>
#include <cpuid.h>
#include <immintrin.h>
#endif
#include <zlib.h>

#if defined __x86_64__

enum {
    LANES = 4,             /* registers that are folded side by side */
    LANE = 16,             /* bytes of a 128-bit register */
    STRIDE = LANES * LANE, /* bytes that the 128-bit registers hold together */
    WIDE = 2 * LANE,       /* bytes of a 256-bit register */
    WIDE_STRIDE = LANES * WIDE,
    WORTH_WIDE = 512 /* bytes from which on 256-bit registers are faster */
};

/* Returns a times x^distance, modulo the CRC's polynomial, plus b. by: the two factors x^(distance
 * + 32) and x^(distance - 32), each modulo the polynomial and with its bits reversed. */
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
    /* These are not an array, as compilers keep arrays in memory. */
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

__attribute__((target("avx2,vpclmulqdq"))) static inline __m256i fold_wide(__m256i a, __m256i by,
                                                                           __m256i b)
{
    return _mm256_xor_si256(_mm256_xor_si256(_mm256_clmulepi64_epi128(a, by, 0x00),
                                             _mm256_clmulepi64_epi128(a, by, 0x11)),
                            b);
}

__attribute__((target("avx2"))) static inline __m256i load_wide(const unsigned char *at,
                                                                size_t lane)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)(at + WIDE * lane));
}

/* Does the same as add_by_products, with registers of twice the size. */
__attribute__((target("avx2,vpclmulqdq"))) static uint32_t add_by_wide_products(
    uint32_t crc, const unsigned char *at, size_t n, size_t *done)
{
    const __m256i by_stride = _mm256_broadcastsi128_si256(_mm_set_epi64x(0x14a7fe880, 0x1e88ef372)),
                  by_lane = _mm256_broadcastsi128_si256(_mm_set_epi64x(0x15a546366, 0x0f1da05aa));
    unsigned char rest[WIDE];
    __m256i a = load_wide(at, 0), b = load_wide(at, 1), c = load_wide(at, 2), d = load_wide(at, 3);

    a = _mm256_xor_si256(a, _mm256_set_epi32(0, 0, 0, 0, 0, 0, 0, (int)~crc));
    for (*done = WIDE_STRIDE; n - *done >= WIDE_STRIDE; *done += WIDE_STRIDE) {
        a = fold_wide(a, by_stride, load_wide(at + *done, 0));
        b = fold_wide(b, by_stride, load_wide(at + *done, 1));
        c = fold_wide(c, by_stride, load_wide(at + *done, 2));
        d = fold_wide(d, by_stride, load_wide(at + *done, 3));
    }
    a = fold_wide(fold_wide(fold_wide(a, by_lane, b), by_lane, c), by_lane, d);
    _mm256_storeu_si256((__m256i *)(void *)rest, a);
    return (uint32_t)crc32_z(UINT32_MAX, rest, sizeof rest);
}

/* The carry-less products of this processor: none, of 128-bit registers, and of 256-bit ones too.
 */
typedef enum products { UNKNOWN, NONE, NARROW, WIDE_TOO } products;

/* Finds which of these instructions can be used. Leaf 1 of cpuid has PCLMULQDQ and OSXSAVE (XCR0
 * can be read; it says whether the system saves 256-bit registers), leaf 7 AVX2 and VPCLMULQDQ. */
static products find_products(void)
{
    const unsigned pclmul = 1u << 1, osxsave = 1u << 27, ymm = 6, avx2 = 1u << 5,
                   vpclmul = 1u << 10;
    unsigned a, b, c, d, kept = 0;

    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & pclmul) == 0)
        return NONE;
    if ((c & osxsave) != 0)
        __asm__("xgetbv" : "=a"(kept), "=d"(d) : "c"(0));
    return (kept & ymm) == ymm && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & avx2) != 0 &&
                   (c & vpclmul) != 0
               ? WIDE_TOO
               : NARROW;
}

uint32_t tc_crc32(uint32_t crc, const void *data, size_t n)
{
    static _Atomic products known; /* stored, as finding it takes 10 us in a virtual machine */
    assert(data != NULL || n == 0);
    const unsigned char *const from = data;
    size_t done = 0;

    if (known == UNKNOWN)
        known = find_products();
    if (n >= WORTH_WIDE && known == WIDE_TOO)
        crc = add_by_wide_products(crc, from, n, &done);
    else if (n >= STRIDE && known != NONE)
        crc = add_by_products(crc, from, n, &done);
    return n > done ? (uint32_t)crc32_z(crc, from + done, n - done) : crc;
}

#else

uint32_t tc_crc32(uint32_t crc, const void *data, size_t n)
{
    return n > 0 ? (uint32_t)crc32_z(crc, data, n) : crc;
}

#endif
