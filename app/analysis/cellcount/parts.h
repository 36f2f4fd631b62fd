/*
 * cellcount: computes the regions that a single component is split into, for spot checks.
 */
#ifndef AN_CELLCOUNT_PARTS_H
#define AN_CELLCOUNT_PARTS_H

#include "app/analysis/cellcount/cellcount.h"
#include "app/analysis/common/follow.h"

/* One of the regions that a component is split into. */
typedef struct cc_part {
    cc_region region;  /* sum_grey: of the original grey values */
    uint64_t prepared; /* sum of the prepared grey values */
} cc_part;

/* Computes the regions of component c, which f has just followed; its pixels are the first in
 * f->queue. original: the original grey values, as many as f->px has. Sets *parts, which the caller
 * frees, to the *n regions, in the coordinates of f->px; *n to 0 for
 * a split by intensity with fill_holes. */
tc_status cc_parts_of(const cc_params *p, const an_follow *f, const an_component *c,
                      const wu_pixels *original, const tc_poll *poll, cc_part **parts, size_t *n,
                      tc_err *err);

#endif
