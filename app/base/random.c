/* SplitMix64, a pseudo-random number generator: see random.h. */
#include "app/base/random.h"

#include <assert.h>

uint64_t tc_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Rejects the last 2^64 mod n of the 2^64 possible numbers, so that all remainders modulo n are
 * equally likely. */
uint64_t tc_random_below(uint64_t n, uint64_t *state)
{
    assert(n > 0);
    const uint64_t rest = (UINT64_MAX % n + 1) % n; /* 2^64 mod n */
    uint64_t r;

    do
        r = tc_random(state);
    while (r > UINT64_MAX - rest);
    return r % n;
}

/* The "inside-out" form of the Fisher-Yates shuffle. */
void tc_random_order(size_t n, size_t *order, uint64_t *state)
{
    for (size_t i = 0; i < n; i++) {
        const size_t other = (size_t)tc_random_below(i + 1, state);

        order[i] = i; /* also initialises order[other] if other == i */
        order[i] = order[other];
        order[other] = i;
    }
}
