/*
 * The smaller and the larger of two numbers, and quotients rounded up.
 */
#ifndef TC_NUMBERS_H
#define TC_NUMBERS_H

#include <assert.h>
#include <stdint.h>

static inline uint64_t tc_smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t tc_larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* a / b, rounded up. */
static inline uint64_t tc_div_ceil(uint64_t a, uint64_t b)
{
    assert(b > 0);
    return (a + b - 1) / b;
}

#endif
