/* CRC-32: by libdeflate, or else by zlib, and for long data by carry-less multiplication of 256-bit
 * registers on processors that have it. */
#include "config.h"

#include "app/base/crc32.h"

#include <assert.h>
#ifdef HAVE_LIBDEFLATE
#include <libdeflate.h>
#else
#include <zlib.h>
#endif
#if defined __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

/* Adds n > 0 bytes to the CRC by a library. */
static uint32_t add_by_library(uint32_t crc, const unsigned char *at, size_t n)
{
#ifdef HAVE_LIBDEFLATE
    return libdeflate_crc32(crc, at, n);
#else
    return (uint32_t)crc32_z(crc, at, n);
#endif
}

#if defined __x86_64__

enum {
    LANES = 4,             /* registers that are folded (see fold) side by side */
    LANE = 32,             /* bytes of a register */
    STRIDE = LANES * LANE, /* bytes that the registers hold together */
    WORTH = 512            /* the least number of bytes for which this is faster than the library */
};

/* Folds a into b, separately for both 128-bit halves: returns a value that is congruent to
 * a x^distance + b modulo the CRC's polynomial. Here a and b are polynomials over GF(2), and
 * distance is the number of bits by which a lies before b in the data. by: the two factors
 * x^(distance + 32) and x^(distance - 32), each modulo the polynomial and with its bits reversed.
 */
__attribute__((target("avx2,vpclmulqdq"))) static inline __m256i fold(__m256i a, __m256i by,
                                                                      __m256i b)
{
    return _mm256_xor_si256(_mm256_xor_si256(_mm256_clmulepi64_epi128(a, by, 0x00),
                                             _mm256_clmulepi64_epi128(a, by, 0x11)),
                            b);
}

/* Loads register number `lane` of the bytes at `at`. */
__attribute__((target("avx2"))) static inline __m256i load(const unsigned char *at, size_t lane)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)(at + LANE * lane));
}

/* Adds as many whole strides as n bytes contain (n >= STRIDE) to the CRC, and sets *done to the
 * number of bytes added. Folds them into 32 bytes that have the same CRC, which a library then
 * computes (Gopal et al., Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction,
 * Intel 2009). */
__attribute__((target("avx2,vpclmulqdq"))) static uint32_t add_by_products(uint32_t crc,
                                                                           const unsigned char *at,
                                                                           size_t n, size_t *done)
{
    const __m256i by_stride = _mm256_broadcastsi128_si256(_mm_set_epi64x(0x14a7fe880, 0x1e88ef372)),
                  by_lane = _mm256_broadcastsi128_si256(_mm_set_epi64x(0x15a546366, 0x0f1da05aa));
    unsigned char rest[LANE];
    /* These are not an array, as compilers keep arrays in memory. */
    __m256i a = load(at, 0), b = load(at, 1), c = load(at, 2), d = load(at, 3);

    a = _mm256_xor_si256(a, _mm256_set_epi32(0, 0, 0, 0, 0, 0, 0, (int)~crc));
    for (*done = STRIDE; n - *done >= STRIDE; *done += STRIDE) {
        a = fold(a, by_stride, load(at + *done, 0));
        b = fold(b, by_stride, load(at + *done, 1));
        c = fold(c, by_stride, load(at + *done, 2));
        d = fold(d, by_stride, load(at + *done, 3));
    }
    a = fold(fold(fold(a, by_lane, b), by_lane, c), by_lane, d);
    _mm256_storeu_si256((__m256i *)(void *)rest, a);
    return add_by_library(UINT32_MAX, rest, sizeof rest);
}

/* Whether carry-less multiplication of 256-bit registers can be used: not known yet, no, or yes. */
typedef enum products { UNKNOWN, NONE, WIDE } products;

/* Returns NONE or WIDE. Leaf 1 of cpuid has the bit OSXSAVE: XCR0 can be read, which contains
 * whether the system saves 256-bit registers. Leaf 7 has the bits of AVX2 and VPCLMULQDQ. */
static products find_products(void)
{
    const unsigned osxsave = 1u << 27, ymm = 6 /* XMM and YMM registers */, avx2 = 1u << 5,
                   vpclmul = 1u << 10;
    unsigned a, b, c, d, kept = 0;

    if (__get_cpuid(1, &a, &b, &c, &d) && (c & osxsave) != 0)
        __asm__("xgetbv" : "=a"(kept), "=d"(d) : "c"(0));
    return (kept & ymm) == ymm && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & avx2) != 0 &&
                   (c & vpclmul) != 0
               ? WIDE
               : NONE;
}

uint32_t tc_crc32(uint32_t crc, const void *data, size_t n)
{
    static _Atomic products known; /* stored, as finding it takes 10 us in a virtual machine */
    assert(data != NULL || n == 0);
    const unsigned char *const from = data;
    size_t done = 0;

    if (known == UNKNOWN)
        known = find_products();
    if (n >= WORTH && known == WIDE)
        crc = add_by_products(crc, from, n, &done);
    return n > done ? add_by_library(crc, from + done, n - done) : crc;
}

#else

uint32_t tc_crc32(uint32_t crc, const void *data, size_t n)
{
    return n > 0 ? add_by_library(crc, data, n) : crc;
}

#endif
