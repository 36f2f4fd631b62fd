/*
 * Saying where two results differ: by array, item and feature.
 */
#ifndef VAL_DIFFERENCE_H
#define VAL_DIFFERENCE_H

#include <stdbool.h>

#include "workunits/format/result_file.h"

/* As many are shown. */
enum { VAL_SHOWN = 10 };

/* What a result says of itself; one that cannot be read gives numbers for names. */
typedef struct val_names {
    const char *path; /* the result (borrowed); read when the first difference is shown */
    bool loaded;
    wu_result_file file;
    unsigned shown; /* differences so far */
} val_names;
void val_names_free(val_names *names);

/* An item that is known, or not. */
#define VAL_NO_ITEM UINT64_MAX

/* Prints "features[drop_1, glcm_L16_d01_asm_mean]: 0.5 and 0.25" or
 * "area[drop_1, row 3]: 17 and 18" for one element of an array, unless
 * enough have been shown. item: whose element it is, counted within its rows;
 * with VAL_NO_ITEM the whole array is meant, and the row tells the item. */
void val_show_difference(val_names *names, const wu_array_info *info, uint64_t item,
                         uint64_t element, const void *a, const void *b);

#endif
