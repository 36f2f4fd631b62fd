/*
 * Helpers for the check.c of each analysis, which searches an item's arrays in a result for
 * values that no picture can give. Messages name array, row and value; the caller puts file and
 * item in front.
 */
#ifndef AN_CHECK_H
#define AN_CHECK_H

#include "app/analysis/analysis.h"

/* Checks that all integers of an array (WU_I64) are in [lo, hi], which is empty if lo > hi. */
tc_status an_check_range(const wu_output *out, const char *name, int64_t lo, int64_t hi,
                         tc_err *err);

/* Whether value is the double nearest to S / den for an integer S from 0 to 2^51. If so, sets *sum
 * to S. */
bool an_is_quotient(double value, int64_t den, int64_t *sum);

/* A result with at least this many cells, most of which are tiny, is probably a segmentation of
 * noise. */
enum { AN_MANY_CELLS = 20 };

/* Whether an array (WU_I64) has at least `fewest` elements, and more than half of them are less
 * than `bound`. */
bool an_mostly_below(const wu_output *out, const char *name, int64_t bound, uint64_t fewest);

/* The number of voxels with a label, the sums of their coordinates, and their bounding box (hi is
 * exclusive). Axes: z, y, x. */
typedef struct an_extent {
    int64_t voxels, sum[3], lo[3], hi[3];
} an_extent;

/* Which pairs of neighbouring voxels must not have two different labels. A voxel without a label
 * may be a neighbour of any. */
typedef enum an_separation {
    AN_MAY_TOUCH, /* none */
    AN_APART_4,   /* neighbours along x or y */
    AN_APART_8,   /* neighbours along x or y, and diagonal ones within a slice */
    AN_APART_6    /* neighbours along x, y or z */
} an_separation;

/* Checks a label picture and fills extents, [n + 1], zeroed by the caller. TC_BAD_INPUT: a label is
 * not from 0 to n, the labels are not numbered in the order of their first voxels, or two labels
 * touch where `separation` forbids it. */
tc_status an_read_labels(const wu_out_array *labels, const wu_item *item, an_separation separation,
                         int32_t n, an_extent *extents, tc_err *err);

/* Fails with TC_BAD_INPUT and the message "NAME: row ROW: WHAT". */
tc_status an_fail_impossible(const char *name, uint64_t row, const char *what, tc_err *err);

#endif
