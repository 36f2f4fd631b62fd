/*
 * What becomes of a component that was just followed, whose pixels are the first of the queue; no
 * other pixels count. *parts, which the caller frees, have sums and boxes of the pixels that were
 * followed. *n is 0 where this component alone does not tell what becomes of it.
 */
#ifndef AN_CELLCOUNT_PARTS_H
#define AN_CELLCOUNT_PARTS_H

#include "app/analysis/cellcount/cellcount.h"
#include "app/analysis/common/follow.h"

tc_status cc_parts_of(const cc_params *p, const an_follow *f, const an_component *c,
                      const tc_poll *poll, cc_region **parts, size_t *n, tc_err *err);

#endif
