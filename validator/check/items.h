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

/* max_bytes: that the rows of an item may take; what has more is refused before they are read. 0:
 * an_rows_bytes. */
tc_status val_items_open(const an_unit *unit, const char *path, uint64_t max_bytes, val_items **out,
                         tc_err *err);
/* The arrays of the next item, of as many as the work unit has. *out: wu_output_free. */
tc_status val_items_next(val_items *items, wu_output *out, tc_err *err);
/* After the last item: whether anything is left. */
tc_status val_items_end(val_items *items, tc_err *err);
void val_items_close(val_items **items);

#endif
