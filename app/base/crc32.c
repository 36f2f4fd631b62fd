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
    LANES = 4,                  /* registers that are folded side by side */
    LANE = 16,                  /* bytes of a 128-bit register */
    STRIDE = LANES * LANE,      /* bytes that the 128-bit registers hold together */
    WIDE = 2 * LANE,            /* bytes of a 256-bit register */
    WIDE_STRIDE = LANES * WIDE, /* bytes that the 256-bit registers hold together */
    LEAST_WIDE = 512 /* for data of at least this number of bytes 256-bit registers are faster */
};

/* Returns a times x^distance, modulo the CRC's polynomial, plus b. factors: the two
 * numbers x^(distance + 32) and x^(distance - 32), each modulo the polynomial and with its bits
 * reversed. */
__attribute__((target("pclmul"))) static inline __m128i fold(__m128i a, __m128i factors, __m128i b)
{
    return _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(a, factors, 0x00),
                                       _mm_clmulepi64_si128(a, factors, 0x11)),
                         b);
}

static inline __m128i load(const unsigned char *data, size_t lane)
{
    return _mm_loadu_si128((const __m128i *)(const void *)(data + LANE * lane));
}

/* Adds the whole strides of n bytes (n >= STRIDE) to the CRC and sets *done to their number of
 * bytes. Folds them into 16 bytes that have the same CRC, which zlib then computes (Gopal et al.,
 * Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction, Intel 2009). */
__attribute__((target("pclmul"))) static uint32_t add_narrow(uint32_t crc,
                                                             const unsigned char *data, size_t n,
                                                             size_t *done)
{
    const __m128i stride_factors = _mm_set_epi64x(0x1c6e41596, 0x154442bd4),
                  lane_factors = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
    unsigned char rest[LANE];
    /* These are not an array, as compilers keep arrays in memory. */
    __m128i a = load(data, 0), b = load(data, 1), c = load(data, 2), d = load(data, 3);

    a = _mm_xor_si128(a, _mm_cvtsi32_si128((int)~crc));
    for (*done = STRIDE; n - *done >= STRIDE; *done += STRIDE) {
        a = fold(a, stride_factors, load(data + *done, 0));
        b = fold(b, stride_factors, load(data + *done, 1));
        c = fold(c, stride_factors, load(data + *done, 2));
        d = fold(d, stride_factors, load(data + *done, 3));
    }
    a = fold(fold(fold(a, lane_factors, b), lane_factors, c), lane_factors, d);
    _mm_storeu_si128((__m128i *)(void *)rest, a);
    return (uint32_t)crc32_z(UINT32_MAX, rest, sizeof rest);
}

__attribute__((target("avx2,vpclmulqdq"))) static inline __m256i fold_wide(__m256i a,
                                                                           __m256i factors,
                                                                           __m256i b)
{
    return _mm256_xor_si256(_mm256_xor_si256(_mm256_clmulepi64_epi128(a, factors, 0x00),
                                             _mm256_clmulepi64_epi128(a, factors, 0x11)),
                            b);
}

__attribute__((target("avx2"))) static inline __m256i load_wide(const unsigned char *data,
                                                                size_t lane)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)(data + WIDE * lane));
}

/* Does the same as add_narrow, with registers of twice the size. */
__attribute__((target("avx2,vpclmulqdq"))) static uint32_t add_wide(uint32_t crc,
                                                                    const unsigned char *data,
                                                                    size_t n, size_t *done)
{
    const __m256i stride_factors =
                      _mm256_broadcastsi128_si256(_mm_set_epi64x(0x14a7fe880, 0x1e88ef372)),
                  lane_factors =
                      _mm256_broadcastsi128_si256(_mm_set_epi64x(0x15a546366, 0x0f1da05aa));
    unsigned char rest[WIDE];
    __m256i a = load_wide(data, 0), b = load_wide(data, 1), c = load_wide(data, 2),
            d = load_wide(data, 3);

    a = _mm256_xor_si256(a, _mm256_set_epi32(0, 0, 0, 0, 0, 0, 0, (int)~crc));
    for (*done = WIDE_STRIDE; n - *done >= WIDE_STRIDE; *done += WIDE_STRIDE) {
        a = fold_wide(a, stride_factors, load_wide(data + *done, 0));
        b = fold_wide(b, stride_factors, load_wide(data + *done, 1));
        c = fold_wide(c, stride_factors, load_wide(data + *done, 2));
        d = fold_wide(d, stride_factors, load_wide(data + *done, 3));
    }
    a = fold_wide(fold_wide(fold_wide(a, lane_factors, b), lane_factors, c), lane_factors, d);
    _mm256_storeu_si256((__m256i *)(void *)rest, a);
    return (uint32_t)crc32_z(UINT32_MAX, rest, sizeof rest);
}

/* The carry-less products that this processor has: not determined yet, none, those of 128-bit
 * registers, or also those of 256-bit registers. */
typedef enum products { UNKNOWN, NONE, NARROW, NARROW_AND_WIDE } products;

/* Determines which of these instructions can be used. Leaf 1 of cpuid has the bits of PCLMULQDQ and
 * OSXSAVE; with OSXSAVE, XCR0 can be read, which shows whether the system saves 256-bit registers.
 * Leaf 7 has the bits of AVX2 and VPCLMULQDQ. */
static products find_products(void)
{
    const unsigned pclmul = 1u << 1, osxsave = 1u << 27, ymm = 6, avx2 = 1u << 5,
                   vpclmul = 1u << 10;
    unsigned a, b, c, d, saved_registers = 0;

    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & pclmul) == 0)
        return NONE;
    if ((c & osxsave) != 0)
        __asm__("xgetbv" : "=a"(saved_registers), "=d"(d) : "c"(0));
    return (saved_registers & ymm) == ymm && __get_cpuid_count(7, 0, &a, &b, &c, &d) &&
                   (b & avx2) != 0 && (c & vpclmul) != 0
               ? NARROW_AND_WIDE
               : NARROW;
}

uint32_t tc_crc32(uint32_t crc, const void *data, size_t n)
{
    static _Atomic products usable; /* stored, as finding it takes 10 us in a virtual machine */
    assert(data != NULL || n == 0);
    const unsigned char *const from = data;
    size_t done = 0;

    if (usable == UNKNOWN)
        usable = find_products();
    if (n >= LEAST_WIDE && usable == NARROW_AND_WIDE)
        crc = add_wide(crc, from, n, &done);
    else if (n >= STRIDE && usable != NONE)
        crc = add_narrow(crc, from, n, &done);
    return n > done ? (uint32_t)crc32_z(crc, from + done, n - done) : crc;
}

#else

uint32_t tc_crc32(uint32_t crc, const void *data, size_t n)
{
    return n > 0 ? (uint32_t)crc32_z(crc, data, n) : crc;
}

#endif
