/*
 * Integer types, address spaces and arithmetic under the same names in C and in OpenCL C, so that
 * code for both (all files *core.h) is written once.
 */
#ifndef AN_CORE_H
#define AN_CORE_H

#ifdef __OPENCL_VERSION__

typedef uchar tc_u8;
typedef ushort tc_u16;
typedef uint tc_u32;
typedef ulong tc_u64;
typedef int tc_i32;
typedef long tc_i64;
typedef uint tc_index;
#define TC_GLOBAL __global
#define TC_CONSTANT __constant
#define TC_INLINE static inline
#define TC_ALWAYS_INLINE static inline
#define tc_mulhi(a, b) mul_hi((tc_u64)(a), (tc_u64)(b))
#define tc_clz64(a) ((int)clz((tc_u64)(a)))
/* The absolute value of a tc_i64, as a tc_u64. The expression that C uses below is avoided here, as
 * OpenCL compilers turn it into an intrinsic that the simulator Oclgrind lacks. */
#define TC_ABS(a) abs((tc_i64)(a))

#else

#include <stddef.h>
#include <stdint.h>

typedef uint8_t tc_u8;
typedef uint16_t tc_u16;
typedef uint32_t tc_u32;
typedef uint64_t tc_u64;
typedef int32_t tc_i32;
typedef int64_t tc_i64;
typedef size_t tc_index; /* an index of an array, of the fastest width */
#define TC_GLOBAL
#define TC_CONSTANT
#define TC_INLINE static inline
#define TC_ALWAYS_INLINE static inline __attribute__((always_inline))
/* The upper half of the 128-bit product a * b. */
TC_INLINE tc_u64 tc_mulhi(tc_u64 a, tc_u64 b)
{
    return (tc_u64)(((unsigned __int128)a * b) >> 64);
}
/* The number of leading zero bits of a nonzero value. */
#define tc_clz64(a) __builtin_clzll(a)
#define TC_ABS(a) ((tc_u64)((a) < 0 ? -(a) : (a)))
#endif

/* The arguments must have the same type; they are evaluated more than once. OpenCL C's min and max
 * are not used, because of a fault of Intel's runtimes of 2021 to 2023, which run eight or sixteen
 * work-items together: in a branch that the first of these work-items does not take, a call is
 * skipped for all of them if its arguments are the same for all of them. As the other built-in
 * functions (abs, clz, mul_hi, popcount) have the same fault, kernels call them outside such
 * branches, or with arguments that differ between work-items. */
#define TC_MIN(a, b) ((a) < (b) ? (a) : (b))
#define TC_MAX(a, b) ((a) > (b) ? (a) : (b))
#define TC_CLAMP(a, lo, hi) TC_MIN(TC_MAX(a, lo), hi)

/* A divisor `den` for tc_div, with its reciprocal as a fixed-point number: rec = 2^(63 + shift) /
 * den, rounded up, where 2^(shift-1) < den <= 2^shift. */
typedef struct tc_divisor {
    tc_u64 rec;
    tc_u32 den, shift;
} tc_divisor;

#ifndef __OPENCL_VERSION__
/* Makes the divisor of den > 0. */
TC_INLINE tc_divisor tc_divisor_of(tc_u32 den)
{
    const tc_u32 shift = den > 1 ? 64 - (tc_u32)tc_clz64((tc_u64)den - 1) : 0;
    const unsigned __int128 one = (unsigned __int128)1 << (63 + shift);

    return (tc_divisor){ (tc_u64)((one + den - 1) / den), den, shift };
}
#endif

/* floor(num / den), exactly, for num < 2^63. The reciprocal rec / 2^(63+shift) is too large by less
 * than 2^-(63+shift). So the product is too large by less than 2^-shift, which is at most 1/den. */
TC_INLINE tc_u64 tc_div(tc_u64 num, tc_divisor d)
{
    return tc_mulhi(num << 1, d.rec) >> d.shift;
}

/* num / den rounded to the nearest integer, halves up; num + den/2 < 2^63. */
TC_INLINE tc_u64 tc_div_round(tc_u64 num, tc_divisor d)
{
    return tc_div(num + (d.den >> 1), d);
}

/* num * 2^32 / den rounded to the nearest integer, halves up. num < 2^63, den < 2^31, and the
 * result must fit 64 bits. */
TC_INLINE tc_u64 tc_div_q32(tc_u64 num, tc_divisor d)
{
    tc_u64 whole = 0;

    if (num >> 31) {
        whole = tc_div(num, d);
        num -= whole * d.den;
    }
    return (whole << 32) + tc_div_round(num << 32, d);
}

/* num * 2^32 / den rounded to the nearest integer, halves up, for any two numbers with num <= den,
 * 0 < den < 2^62. */
TC_INLINE tc_u64 tc_ratio_q32(tc_u64 num, tc_u64 den)
{
    const int shift = tc_clz64(den);
    /* `upper` is the upper 32 bits of the shifted den, plus 1. Dividing by it gives a quotient that
     * is too small by at most 3. The remainder r is exact modulo 2^64. */
    const tc_u64 upper = ((den << shift) >> 32) + 1;
    tc_u64 q = (num << shift) / upper;
    tc_u64 r = (num << 32) - q * den;

    /* This needs at most three iterations; the loop is bounded for devices that divide wrongly. */
    for (int i = 0; i < 4 && r >= den; i++) {
        q++;
        r -= den;
    }
    return q + (2 * r >= den ? 1 : 0);
}

/* The square root of a, rounded down; exact, however the estimate is rounded. */
TC_INLINE tc_u64 tc_sqrt_floor(tc_u64 a)
{
#ifdef __OPENCL_VERSION__
    tc_u64 root = (tc_u64)sqrt((float)a);

    /* Not every device has double precision: a step of Newton's method reduces the relative error
     * of 2^-23 to an absolute error below 2. */
    if (root > 0)
        root = (root + a / root) >> 1;
#else
    tc_u64 root = (tc_u64)(tc_i64)__builtin_sqrt((double)a);
#endif

    if (root > 0xffffffff)
        root = 0xffffffff;
    /* Each loop needs at most two iterations; if a device needs more, it converts numbers wrongly,
     * which the self-tests find. */
    for (int i = 0; i < 4 && root * root > a; i++)
        root--;
    for (int i = 0; i < 4 && a - root * root > 2 * root && root < 0xffffffff; i++)
        root++;
    return root;
}

/* The square root of a, rounded to the nearest integer. */
TC_INLINE tc_u64 tc_sqrt_round(tc_u64 a)
{
    const tc_u64 root = tc_sqrt_floor(a);

    /* (root + 1/2)^2 = root^2 + root + 1/4, so rounding up needs a - root^2 > root. */
    return root + (a - root * root > root ? 1 : 0);
}

#endif
