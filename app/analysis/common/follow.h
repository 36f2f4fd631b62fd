/*
 * Components of a threshold, followed one by one from a pixel of each: for a look at some of
 * them, where labelling all would cost as much as the analysis.
 */
#ifndef AN_FOLLOW_H
#define AN_FOLLOW_H

#include "workunits/format/job.h"

typedef struct an_component {
    uint64_t pixels, grey; /* sum of greys */
    uint64_t sum[3];       /* of coordinates: z, y, x */
    uint32_t lo[3], hi[3]; /* half-open */
    bool whole;            /* it was followed to its end */
} an_component;

typedef struct an_follow {
    const wu_pixels *px;
    uint32_t threshold; /* what belongs together is below it ... */
    bool above;         /* ... or not below it */
    bool corners;       /* pixels of a slice that share only a corner are neighbours */
    bool through;       /* and voxels of two slices that share a side */
    /* its own, from an_follow_begin to an_follow_end */
    size_t *queue, room;
    uint8_t *seen; /* a bit for each pixel */
} an_follow;

/* Memory: 8 bytes for each of the `room` pixels that a component is followed for, and a bit
 * for each pixel. an_follow_end also after a failure. */
tc_status an_follow_begin(an_follow *f, size_t room, tc_err *err);
void an_follow_end(an_follow *f);
/* Whether a pixel is on the side that is followed. */
bool an_follow_takes(const an_follow *f, size_t pixel);
/* A pixel chosen at random that is on this side, or the first one behind it within `most`
 * pixels (the last is followed by the first). False: there is none. */
bool an_follow_find(const an_follow *f, size_t most, uint64_t *random, size_t *pixel);
/* The component of a pixel on this side; its pixels are then the first of the queue. */
void an_follow_component(an_follow *f, size_t pixel, an_component *out);

#endif
