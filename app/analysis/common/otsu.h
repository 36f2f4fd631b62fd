/*
 * Otsu's threshold, exactly (N. Otsu, "A threshold selection method from gray-level histograms",
 * IEEE Trans. SMC-9 (1979) 62-66).
 */
#ifndef AN_OTSU_H
#define AN_OTSU_H

#include "workunits/format/job.h"

/* Otsu's threshold T of a histogram of `size` grey values, two at least: 1 + the smallest t
 * that maximises the between-class variance of v <= t and v > t. */
uint32_t an_otsu(const uint64_t *histogram, uint32_t size);

/* The scale of grey values on which a threshold is looked for. */
typedef enum an_otsu_scale {
    AN_OTSU_LINEAR, /* themselves */
    AN_OTSU_SQRT    /* 256 times their square root, rounded down */
} an_otsu_scale;

/* For 2 to AN_OTSU_CLASSES classes. *threshold: the first value of the second class, or with
 * `highest` of the last. More than two are looked for among at most 256 groups of grey values
 * (docs/dev/analyses/cellcount.md). TC_NO_MEMORY. */
enum { AN_OTSU_CLASSES = 4 };
tc_status an_otsu_classes(const uint64_t *histogram, uint32_t size, an_otsu_scale scale,
                          unsigned classes, bool highest, uint32_t *threshold, tc_err *err);

/* Adds pixels [from, to), x fastest, to a histogram of all values of their depth: [2^bits]. */
void an_histogram(const wu_pixels *px, size_t from, size_t to, uint64_t *histogram);

/* The same for the pixels inside a mask; NULL: for all. */
void an_histogram_inside(const wu_pixels *px, const uint8_t *mask, size_t from, size_t to,
                         uint64_t *histogram);

/* Otsu's threshold of all pixels, found on the calling thread. TC_NO_MEMORY. */
tc_status an_otsu_of(const wu_pixels *px, uint32_t *threshold, tc_err *err);

/* The histogram, [2^bits], of all pixels, or of those inside the mask if there is one. *histogram:
 * free, also after a failure. */
tc_status an_histogram_of(const wu_pixels *px, const tc_poll *poll, uint64_t **histogram,
                          tc_err *err);

/* *bright: whether the bright one of Otsu's two classes is the smaller. Pixels as for
 * an_histogram_of. */
tc_status an_find_polarity(const wu_pixels *px, const tc_poll *poll, bool *bright, tc_err *err);

#endif
