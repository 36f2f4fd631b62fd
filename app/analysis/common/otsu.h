/*
 * Otsu's threshold, exactly.
 */
#ifndef AN_OTSU_H
#define AN_OTSU_H

#include "workunits/format/job.h"

/* Otsu's threshold T of a histogram of `size` grey values: 1 + the smallest t
 * that maximises the between-class variance of v <= t and v > t. */
uint32_t an_otsu(const uint64_t *histogram, uint32_t size);

/* Adds pixels [from, to) to a histogram of all values of their depth. */
void an_histogram(const wu_pixels *px, size_t from, size_t to, uint64_t *histogram);

/* That of all pixels, on the thread of the caller. TC_NO_MEMORY. */
tc_status an_otsu_of(const wu_pixels *px, uint32_t *threshold, tc_err *err);

#endif
