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

/* The regions that a component is split into, in the coordinates of an_follow.px. */
typedef struct cc_parts {
    cc_part *part; /* [n] */
    size_t n;
    /* With labels, and with fill_holes or a split by distance but no split by intensity:
     * [y1 - y0][x1 - x0], the index of each pixel's region plus 1, or 0; otherwise NULL. */
    int32_t *plane;
    uint32_t y0, x0, y1, x1;
} cc_parts;

/* Computes the regions of component c, which f has just followed; its pixels are the first in
 * f->queue. original: the original grey values, as many as f->px has. Sets *parts, to be freed by
 * cc_parts_free, also after a failure. */
tc_status cc_parts_of(const cc_params *p, const an_follow *f, const an_component *c,
                      const wu_pixels *original, const tc_poll *poll, cc_parts *parts, tc_err *err);
void cc_parts_free(cc_parts *parts);

#endif
