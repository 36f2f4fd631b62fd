/*
 * Integers of 128 bits, logarithms in fixed point and an exponential; compiled as C and as OpenCL
 * C, for devices with double precision. Both are compiled without contraction of floating-point
 * operations (fused multiply-add), so that each operation is rounded as IEEE 754 says.
 */
#ifndef AN_REAL_CORE_H
#define AN_REAL_CORE_H

#include "app/analysis/common/core.h"

#ifdef __OPENCL_VERSION__

/* An unsigned integer of 128 bits; in sums and differences modulo 2^128. */
typedef struct tc_u128 {
    tc_u64 lo, hi;
} tc_u128;

TC_INLINE tc_u128 tc_make_u128(tc_u64 hi, tc_u64 lo)
{
    tc_u128 a;

    a.lo = lo;
    a.hi = hi;
    return a;
}

#define TC_LOW(a) ((a).lo)
#define TC_HIGH(a) ((a).hi)
#define tc_sqrt(a) sqrt(a)

TC_INLINE tc_u128 tc_u128_add(tc_u128 a, tc_u128 b)
{
    const tc_u64 lo = a.lo + b.lo;

    return tc_make_u128(a.hi + b.hi + (lo < a.lo ? 1 : 0), lo);
}

TC_INLINE tc_u128 tc_u128_sub(tc_u128 a, tc_u128 b)
{
    return tc_make_u128(a.hi - b.hi - (a.lo < b.lo ? 1 : 0), a.lo - b.lo);
}

/* The double nearest to a signed number (two's complement), ties to even. The number is shifted so
 * that its highest bit that is set is bit 127. Of the lower 64 bits it then only matters whether
 * any is set, which decides a tie. */
TC_INLINE double tc_u128_to_double(tc_u128 a)
{
    const bool negative = (a.hi >> 63) != 0;
    const tc_u128 size = negative ? tc_u128_sub(tc_make_u128(0, 0), a) : a;
    const tc_u32 shift = size.hi != 0 ? tc_clz64(size.hi)
                                      : 64 + tc_clz64(size.lo); /* leading zeros; 128: size is 0 */
    tc_u64 upper = size.hi, rest = size.lo;
    double value;

    if (shift >= 128)
        return 0;
    if (shift >= 64) {
        upper = rest;
        rest = 0;
    }
    if (shift % 64 != 0) {
        upper = upper << shift % 64 | rest >> (64 - shift % 64);
        rest <<= shift % 64;
    }
    value = (double)(upper | (rest != 0 ? 1 : 0)) * as_double((tc_u64)(1023 + 64 - shift) << 52);
    return negative ? -value : value;
}

#else

typedef unsigned __int128 tc_u128;

#define tc_sqrt(a) __builtin_sqrt(a)
#define TC_LOW(a) ((tc_u64)(a))
#define TC_HIGH(a) ((tc_u64)((a) >> 64))

TC_INLINE tc_u128 tc_make_u128(tc_u64 hi, tc_u64 lo)
{
    return (tc_u128)hi << 64 | lo;
}

TC_INLINE tc_u128 tc_u128_add(tc_u128 a, tc_u128 b)
{
    return a + b;
}

TC_INLINE tc_u128 tc_u128_sub(tc_u128 a, tc_u128 b)
{
    return a - b;
}

TC_INLINE double tc_u128_to_double(tc_u128 a)
{
    return (double)(__int128)a;
}

#endif

/* a * b modulo 2^128. */
TC_INLINE tc_u128 tc_u128_times(tc_u128 a, tc_u64 b)
{
    return tc_make_u128(TC_HIGH(a) * b + tc_mulhi(TC_LOW(a), b), TC_LOW(a) * b);
}

/* a * b / 2^127, rounded down. */
TC_INLINE tc_u128 tc_mul_q127(tc_u128 a, tc_u128 b)
{
    const tc_u64 a1 = TC_HIGH(a), a0 = TC_LOW(a), b1 = TC_HIGH(b), b0 = TC_LOW(b);
    tc_u128 low = tc_make_u128(0, tc_mulhi(a0, b0)), high = tc_make_u128(tc_mulhi(a1, b1), a1 * b1);

    low = tc_u128_add(tc_u128_add(low, tc_make_u128(0, a1 * b0)), tc_make_u128(0, a0 * b1));
    high = tc_u128_add(tc_u128_add(high, tc_make_u128(0, tc_mulhi(a1, b0))),
                       tc_make_u128(0, tc_mulhi(a0, b1)));
    high = tc_u128_add(high, tc_make_u128(0, TC_HIGH(low)));
    return tc_make_u128(TC_HIGH(high) << 1 | TC_LOW(high) >> 63,
                        TC_LOW(high) << 1 | TC_LOW(low) >> 63);
}

/* log2(k) in units of 2^-80, for k > 0, with an error below 2^-79. It is computed bit by bit:
 * squaring the mantissa doubles its logarithm. The rounding error of step i, 2^-127, changes the
 * result by only about 2^-(127 + i). */
TC_INLINE tc_u128 tc_log2_q80(tc_u64 k)
{
    const int shift = tc_clz64(k);
    tc_u128 m = tc_make_u128(k << shift, 0); /* in [2^127, 2^128): 1.0 is 2^127 */
    tc_u128 result = tc_make_u128(0, 63 - (tc_u64)shift);

    for (int i = 0; i < 80; i++) {
        /* m^2 is in [1, 4): one factor is halved first, so that the product fits. */
        const tc_u128 square =
            tc_mul_q127(m, tc_make_u128(TC_HIGH(m) >> 1, TC_HIGH(m) << 63 | TC_LOW(m) >> 1));
        const tc_u64 bit = TC_HIGH(square) >> 63;

        result =
            tc_make_u128(TC_HIGH(result) << 1 | TC_LOW(result) >> 63, TC_LOW(result) << 1 | bit);
        m = bit != 0
                ? square
                : tc_make_u128(TC_HIGH(square) << 1 | TC_LOW(square) >> 63, TC_LOW(square) << 1);
    }
    return result;
}

/* 1 - exp(-x) for 0 <= x <= 64. x is halved until it is at most 1/16, where a series is used; then
 * u = 1 - exp(-s) is replaced by 1 - exp(-2s) = u (2 - u) as many times as x was halved. */
TC_INLINE double tc_one_minus_exp(double x)
{
    double sum = 0;
    int halved = 0;

    for (; x > 0.0625; halved++)
        x = x / 2;
    for (int k = 12; k >= 1; k--)
        sum = x / k * (1 - sum);
    while (halved-- > 0)
        sum = sum * (2 - sum);
    return sum;
}

#endif
