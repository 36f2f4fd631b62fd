/*
 * Histograms of grey values and thresholds by Otsu's method, computed exactly (N. Otsu, "A
 * threshold selection method from gray-level histograms", IEEE Trans. SMC-9 (1979) 62-66).
 */
#ifndef AN_OTSU_H
#define AN_OTSU_H

#include "workunits/format/job.h"

/* Otsu's threshold of a histogram of `size` >= 2 grey values: 1 + the smallest t that maximises the
 * between-class variance of the values v <= t and v > t. */
uint32_t an_otsu_threshold(const uint64_t *histogram, uint32_t size);

/* How grey values are scaled before the threshold is computed. */
typedef enum an_otsu_scale {
    AN_OTSU_LINEAR, /* they are not scaled */
    AN_OTSU_SQRT    /* they become 256 times their square root, rounded down */
} an_otsu_scale;

/* Otsu's method for 2 to AN_OTSU_CLASSES classes. Sets *threshold to the least grey value of the
 * second-darkest class or, if `highest` is set, of the brightest class. For more than two classes
 * the grey values are first combined to at most 256 groups (docs/dev/analyses/cellcount.md). May
 * return TC_NO_MEMORY. */
enum { AN_OTSU_CLASSES = 4 };
tc_status an_otsu_classes(const uint64_t *histogram, uint32_t size, an_otsu_scale scale,
                          unsigned classes, bool highest, uint32_t *threshold, tc_err *err);

/* Adds pixels [from, to) to a histogram of [2^bits] grey values. */
void an_histogram_add(const wu_pixels *px, size_t from, size_t to, uint64_t *histogram);

/* Does the same, but adds only the pixels that are in the mask, unless mask is NULL. */
void an_histogram_add_masked(const wu_pixels *px, const uint8_t *mask, size_t from, size_t to,
                             uint64_t *histogram);

/* Sets *threshold to Otsu's threshold of all pixels. Runs in the calling thread, without a poll.
 * May return TC_NO_MEMORY. */
tc_status an_otsu_of_pixels(const wu_pixels *px, uint32_t *threshold, tc_err *err);

/* Computes the histogram, [2^bits], of all pixels or, if there is a mask, of those in the mask.
 * *histogram: released with free(), also after a failure. */
tc_status an_histogram_of(const wu_pixels *px, const tc_poll *poll, uint64_t **histogram,
                          tc_err *err);

/* Sets *bright to whether the brighter one of Otsu's two classes has fewer pixels. Uses the same
 * pixels as an_histogram_of. */
tc_status an_find_polarity(const wu_pixels *px, const tc_poll *poll, bool *bright, tc_err *err);

#endif
