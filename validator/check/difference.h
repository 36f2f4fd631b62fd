/*
 * Prints where two results differ: array, item and feature.
 */
#ifndef VAL_DIFFERENCE_H
#define VAL_DIFFERENCE_H

#include <stdbool.h>

#include "workunits/format/result_file.h"

/* How many differences are printed. */
enum { VAL_SHOWN = 10 };

/* The names of items and features, for messages. From a result that cannot be read there are none,
 * and indices are printed instead. */
typedef struct val_names {
    const char *path; /* the result (borrowed); it is opened when the first difference is printed */
    bool loaded;      /* it was opened, or could not be opened */
    wu_result_file file;
    unsigned shown; /* differences so far */
} val_names;
void val_names_free(val_names *names);

/* Stands for the index of an item that the caller does not know. */
#define VAL_NO_ITEM UINT64_MAX

/* Prints one differing element of an array, such as
 * "features[drop_1, glcm_L16_d01_asm_mean]: 0.5 and 0.25" or "area[drop_1, row 3]: 17 and 18",
 * unless VAL_SHOWN were printed. item: the item's index, and `element` counts within the item's
 * rows; VAL_NO_ITEM: `element` counts within the whole array, and the row decides the item. */
void val_show_difference(val_names *names, const wu_array_info *info, uint64_t item,
                         uint64_t element, const void *a, const void *b);

#endif
