/*
 * Pseudo-random numbers, reproducible by their seed: SplitMix64 (G. L. Steele, D. Lea,
 * C. H. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
 */
#ifndef TC_RANDOM_H
#define TC_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* Returns the next number, 0 to 2^64 - 1. *state is the seed before the first call. */
uint64_t tc_random(uint64_t *state);
/* Returns a number from 0 to n - 1, all equally likely; n > 0. */
uint64_t tc_random_below(uint64_t n, uint64_t *state);
/* Sets order[0] to order[n - 1] to the numbers from 0 to n - 1 in a random order; all orders are
 * equally likely. */
void tc_random_order(size_t n, size_t *order, uint64_t *state);

#endif
