/*
 * A result read item by item, each as the wu_output that made it. Opening it
 * checks all that needs no values: that the file is a result as texcell writes
 * them, of this work unit, with the arrays that its analysis gives, in their
 * order, and nothing else. Memory: the rows and pictures of one item, whose
 * sizes the work unit bounds.
 */
#ifndef VAL_ITEMS_H
#define VAL_ITEMS_H

#include "app/analysis/analysis.h"

typedef struct val_items val_items;

tc_status val_items_open(const an_unit *unit, const char *path, val_items **out, tc_err *err);
/* From now on (at first: any) the rows of an item may take so many bytes, else TC_NO_MEMORY. 0:
 * what its plan counts on, a row for PLAN_PIXELS_A_ROW pixels, and half a GiB in any case. */
void val_items_limit(val_items *items, uint64_t bytes);
/* Where the size of the pictures is not known. */
#define VAL_ROWS_BYTES ((uint64_t)512 << 20)
/* The arrays of the next item, of as many as the work unit has. *out: wu_output_free. */
tc_status val_items_next(val_items *items, wu_output *out, tc_err *err);
/* After the last item: whether anything is left. */
tc_status val_items_end(val_items *items, tc_err *err);
void val_items_close(val_items **items);

#endif
