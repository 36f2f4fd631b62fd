/*
 * What the analyses' check.c share: they look through an item's arrays, as a result has them, for
 * values that no picture can give, and for what deserves a note. Messages name array, row and
 * value; the caller puts file and item in front.
 */
#ifndef AN_CHECK_H
#define AN_CHECK_H

#include "app/analysis/analysis.h"

/* Every one of the integers (WU_I64) of an array is in [lo, hi]. */
tc_status an_check_range(const wu_output *out, const char *name, int64_t lo, int64_t hi,
                         tc_err *err);

/* Whether value is the double nearest to an integer from 0 to 2^51 divided by
 * den; *sum is that integer. */
bool an_is_quotient(double value, int64_t den, int64_t *sum);

enum { AN_MANY = 20 }; /* cells, as noise has */

/* Whether an array has `fewest` integers (WU_I64) or more, and more than half of them are below
 * `bound`. */
bool an_mostly_below(const wu_output *out, const char *name, int64_t bound, uint64_t fewest);

/* What the voxels of a label are together: axes z, y, x; boxes are half-open. */
typedef struct an_extent {
    int64_t voxels, sum[3], lo[3], hi[3];
} an_extent;

/* Which voxels of two labels must not be neighbours. */
typedef enum an_apart { AN_NONE, AN_IN_ROWS, AN_CORNERS, AN_THROUGH } an_apart;

/* Fills extents, [n + 1], zeroed, from an item's labels. These are 0 to n, each appears for the
 * first time after the one before it, and two that must not touch do not: in a slice by sides
 * (AN_IN_ROWS) or by corners too (AN_CORNERS), or by sides in three dimensions (AN_THROUGH). */
tc_status an_read_labels(const wu_out_array *labels, const wu_item *item, an_apart apart, int32_t n,
                         an_extent *extents, tc_err *err);

/* "NAME: row ROW: WHAT", TC_BAD_INPUT. */
tc_status an_impossible(const char *name, uint64_t row, const char *what, tc_err *err);

#endif
