/* mean: what it may be told. */
#include "app/analysis/mean/mean.h"

const an_param mean_parameters[] = {
    { "threshold", AN_INT, AN_FIELD(mean_params, threshold), .min = 0, .max = 65535, .initial = "0",
      .unit = "grey values", .help = "Pixels below it do not count." },
    { .key = NULL }
};
