/* mean: what its files share. docs/dev/analyses/mean.md has the definition. */
#ifndef AN_MEAN_H
#define AN_MEAN_H

#include "app/analysis/chunked.h"

typedef struct mean_params {
    an_params_head head;
    int32_t threshold; /* grey value: darker pixels do not count */
} mean_params;

extern const an_chunked mean_rows; /* a chunk is a row; of a stack, counted through all slices */

#endif
