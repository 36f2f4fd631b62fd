/*
 * mean: the mean of the pixels that are bright enough. docs/analyses/mean.md has the
 * definition. A unit is a row: of a stack, rows are counted through all slices.
 */
#ifndef AN_MEAN_H
#define AN_MEAN_H

#include "app/analysis/analysis.h"

typedef struct mean_params {
    an_params_head head;
    int32_t threshold; /* grey value: darker pixels do not count */
} mean_params;

typedef struct mean_state {
    an_state_head head;   /* rows that are done */
    uint64_t pixels, sum; /* of these rows: how many count, and their grey values */
} mean_state;

extern const an_param mean_parameters[];
extern const an_backend mean_cpu;

tc_status mean_expect(const void *params, const wu_item *item, wu_output *out, tc_err *err);
tc_status mean_finish(const an_work *work, size_t item_index, const void *state, wu_output *out,
                      tc_err *err);
tc_status mean_check_state(const an_work *work, const void *state, tc_err *err);
tc_status mean_check_result(const void *params, const wu_item *item, const wu_output *out,
                            tc_err *err);

#endif
