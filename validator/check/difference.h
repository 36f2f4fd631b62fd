/*
 * Saying where two results differ: by array, item and feature.
 */
#ifndef VAL_DIFFERENCE_H
#define VAL_DIFFERENCE_H

#include <stdbool.h>

#include "workunits/format/npz.h"

/* As many are shown. */
enum { VAL_SHOWN = 10 };

/* Names out of a result; an array that is not there or too long gives numbers. */
typedef struct val_names {
    wu_npz_reader *r;          /* borrowed */
    bool loaded;
    uint32_t *items, *features;    /* UCS-4 of item_names and feature_names */
    unsigned shown;            /* differences so far */
} val_names;
void val_names_free(val_names *names);

/* An item that is known, or not. */
#define VAL_NO_ITEM UINT64_MAX

/* Prints "features[drop_1, glcm_L16_d01_asm_mean]: 0.5 and 0.25" or
 * "region_area[drop_1, row 3]: 17 and 18" for one element of an array, unless
 * enough have been shown. item: whose element it is, counted within its rows;
 * with VAL_NO_ITEM the whole array is meant, and the row tells the item. */
void val_show_difference(val_names *names, const wu_array_info *info, uint64_t item, uint64_t element,
                         const void *a, const void *b);

#endif
