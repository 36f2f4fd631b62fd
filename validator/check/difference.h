/*
 * Prints where two results differ: array, item and feature.
 */
#ifndef VAL_DIFFERENCE_H
#define VAL_DIFFERENCE_H

#include <stdbool.h>

#include "workunits/format/result_file.h"

/* The most differences that are printed. */
enum { VAL_MAX_SHOWN = 10 };

/* The names of items and features, for messages, read from a result. If it cannot be read, indices
 * are printed instead of names. */
typedef struct val_names {
    const char *path; /* the result (borrowed); it is opened when the first difference is printed */
    bool loaded;      /* opening it was tried, with or without success */
    wu_result_file file;
    unsigned shown; /* number of differences printed so far */
} val_names;
void val_names_free(val_names *names);

/* The value of `item` for an item that the caller does not know. */
#define VAL_NO_ITEM UINT64_MAX

/* Prints one differing element of an array, such as
 * "features[drop_1, glcm_L16_d01_asm_mean]: 0.5 and 0.25" or "area[drop_1, row 3]: 17 and 18",
 * unless VAL_MAX_SHOWN were printed already. item: the item's index; `element` is then the index
 * within the item's part of the array. With VAL_NO_ITEM, `element` is the index within the whole
 * array, and its row determines the item. a, b: the two values. */
void val_show_difference(val_names *names, const wu_array_info *info, uint64_t item,
                         uint64_t element, const void *a, const void *b);

#endif
