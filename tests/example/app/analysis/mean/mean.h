/* Shared by the files of the analysis mean. docs/dev/analyses/mean.md has the definition. */
#ifndef AN_MEAN_H
#define AN_MEAN_H

#include "app/analysis/chunked.h"

typedef struct mean_params {
    an_params_head head;
    int32_t threshold; /* grey value: darker pixels are not counted */
} mean_params;

extern const an_chunked mean_rows; /* a chunk is a row; the rows of all slices are counted */

#endif
