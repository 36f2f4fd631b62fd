/*
 * cellcount: computes the regions that a single component is split into, for spot checks.
 */
#ifndef AN_CELLCOUNT_PARTS_H
#define AN_CELLCOUNT_PARTS_H

#include "app/analysis/cellcount/cellcount.h"
#include "app/analysis/common/follow.h"

/* Computes the regions of component c, which f has just followed; its pixels are the first in
 * f->queue. Sets *parts, which the caller frees, to the sums and boxes of the *n regions, in the
 * coordinates of f->px; *n to 0 if the regions depend on pixels around the component. */
tc_status cc_parts_of(const cc_params *p, const an_follow *f, const an_component *c,
                      const tc_poll *poll, cc_region **parts, size_t *n, tc_err *err);

#endif
