/*
 * Reads a result item by item, each into a wu_output as texcell had it when it wrote the item.
 * Opening a result checks everything but the values: result.json, and the names, types, shapes and
 * order of all arrays. Takes the memory of the rows and pictures of one item, whose sizes the work
 * unit limits.
 */
#ifndef VAL_ITEMS_H
#define VAL_ITEMS_H

#include "app/analysis/analysis.h"

typedef struct val_items val_items;

/* Opens the result `path`. max_bytes: limit for the rows of an item, or 0 for the limit of
 * an_rows_bytes; a result with more is refused before the rows are read. */
tc_status val_items_open(const an_unit *unit, const char *path, uint64_t max_bytes, val_items **out,
                         tc_err *err);
/* Reads the array `name`, an int64 of each item. *counts: freed by free(); NULL after a failure. */
tc_status val_items_read_counts(const val_items *items, const char *name, int64_t **counts,
                                tc_err *err);
/* Reads the arrays of the next item. To be called once for each item of the work unit. *out must be
 * freed by wu_output_free before the next call. */
tc_status val_items_next(val_items *items, wu_output *out, tc_err *err);
/* After the last item: checks that the result has no more rows or arrays. */
tc_status val_items_end(val_items *items, tc_err *err);
void val_items_close(val_items **items);

#endif
