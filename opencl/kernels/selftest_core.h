/*
 * The arithmetic of the self-test that all analyses have in common, for C and OpenCL C.
 */
#ifndef OCL_SELFTEST_CORE_H
#define OCL_SELFTEST_CORE_H

#include "app/analysis/common/core.h"

/* The number of work-groups, of work-items in each, and of work-items in all. */
#define ST_GROUPS 16u
#define ST_GROUP 64u
#define ST_ITEMS (ST_GROUPS * ST_GROUP)
/* The number of bins of a work-group's histogram. */
#define ST_BINS 32u
/* The number of integer and of floating-point results of a work-item. */
#define ST_INTEGERS 8u
#define ST_FLOATS 6u

/* A 64-bit hash of x: the finaliser of MurmurHash3 with the constants of Stafford's variant 13. */
TC_INLINE tc_u64 st_mix(tc_u64 x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* The k-th integer result of work-item i. */
TC_INLINE tc_u64 st_integer(tc_u32 i, tc_u32 k)
{
    const tc_u64 a = st_mix(i), b = st_mix(i + 0x10000u);
    const tc_u64 small = (b >> (8 + i % 48)) | 1;
    const tc_u32 shift = (tc_u32)(a & 63);
    switch (k) {
    case 0: return a * b;
    case 1: return tc_mulhi(a, b);
    case 2: return a / small;
    case 3: return a % small;
    case 4: return (a << shift) ^ (b >> shift);
    case 5: return (tc_u64)((tc_i64)a >> (shift / 2)) + (tc_u64)tc_clz64(small);
    case 6: {
        tc_divisor d;
        d.den = (tc_u32)small;
        d.rec = a;
        d.shift = shift / 2;
        return tc_div_round(b >> 2, d);
    }
    default: return tc_sqrt_round(a) + (tc_u64)(tc_i64)((tc_i32)b / (tc_i32)(small | 0x10001u));
    }
}

/* The bits of an operand of work-item i in single precision: a (which = 0) or b (which = 1).
 * Their magnitudes vary as widely as possible with finite results; a is denormal if i is a
 * multiple of 4. */
TC_INLINE tc_u32 st_float_bits(tc_u32 i, tc_u32 which)
{
    const tc_u32 r = (tc_u32)(st_mix(i * 2 + which) >> 32);
    const tc_u32 exponent =
        which == 0 ? (i % 4 == 0 ? 0 : 64 + (r >> 24) % 64) : 100 + (r >> 24) % 55;
    return (r & 0x7fffffu) | (exponent << 23);
}

#endif
