/*
 * Otsu's threshold, exactly.
 */
#ifndef AN_OTSU_H
#define AN_OTSU_H

#include "workunits/format/job.h"

/* Otsu's threshold T of a histogram of `size` grey values: 1 + the smallest t
 * that maximises the between-class variance of v <= t and v > t. */
uint32_t an_otsu(const uint64_t *histogram, uint32_t size);

/* What grey values count for where a threshold is looked for. */
typedef enum an_otsu_scale {
    AN_OTSU_LINEAR, /* themselves */
    AN_OTSU_SQRT    /* 256 times their square root, rounded down */
} an_otsu_scale;

/* Of 2 to AN_OTSU_CLASSES classes the first value of the second, or (highest) of the last one. More
 * than two are of groups of grey values, at most 256 (docs/dev/analyses/cellcount.md).
 * TC_NO_MEMORY. */
enum { AN_OTSU_CLASSES = 4 };
tc_status an_otsu_classes(const uint64_t *histogram, uint32_t size, an_otsu_scale scale,
                          unsigned classes, bool highest, uint32_t *threshold, tc_err *err);

/* Adds pixels [from, to) to a histogram of all values of their depth. */
void an_histogram(const wu_pixels *px, size_t from, size_t to, uint64_t *histogram);

/* The same of those that are inside a mask: NULL: all. */
void an_histogram_inside(const wu_pixels *px, const uint8_t *mask, size_t from, size_t to,
                         uint64_t *histogram);

/* That of all pixels, on the thread of the caller. TC_NO_MEMORY. */
tc_status an_otsu_of(const wu_pixels *px, uint32_t *threshold, tc_err *err);

/* That of all pixels, inside the mask if there is one. *histogram: free, also after a failure. */
tc_status an_histogram_of(const wu_pixels *px, const tc_poll *poll, uint64_t **histogram,
                          tc_err *err);

/* Whether what is smaller of Otsu's two classes of all pixels, inside the mask if there is one, is
 * the bright one. */
tc_status an_find_polarity(const wu_pixels *px, const tc_poll *poll, bool *bright, tc_err *err);

#endif
