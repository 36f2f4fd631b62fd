/*
 * Random numbers that are the same again for the same seed: SplitMix64 (G. L. Steele, D. Lea,
 * C. H. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
 */
#ifndef TC_RANDOM_H
#define TC_RANDOM_H

#include <stdint.h>

/* The next of 2^64 numbers; *state is the seed at first. */
uint64_t tc_random(uint64_t *state);
/* 0 to n - 1, each as likely as any other; n > 0. */
uint64_t tc_random_below(uint64_t n, uint64_t *state);

#endif
