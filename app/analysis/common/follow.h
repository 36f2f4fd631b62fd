/*
 * Finds single connected components of the pixels below (or not below) a threshold, each by a flood
 * fill from one of its pixels. This serves to check a few components, as labelling all would cost
 * as much as the analysis.
 */
#ifndef AN_FOLLOW_H
#define AN_FOLLOW_H

#include "workunits/format/job.h"

typedef struct an_component {
    uint64_t pixels, grey; /* number of pixels, sum of their grey values */
    uint64_t sum[3];       /* sums of the pixels' coordinates: z, y, x */
    uint32_t lo[3], hi[3]; /* bounding box; hi is exclusive */
    bool whole;            /* all pixels were found; false: there are more than an_follow.room */
} an_component;

typedef struct an_follow {
    const wu_pixels *px;
    uint32_t threshold; /* components consist of pixels below the threshold ... */
    bool above;         /* ... or, if set, of pixels that are not below it */
    bool corners;       /* pixels of a slice that share only a corner are neighbours */
    /* Set by an_follow_begin: */
    size_t room;     /* the greatest number of pixels of a component */
    size_t *queue;   /* [room]: the pixels found so far */
    uint8_t *queued; /* a bit for each pixel: whether it is in the queue */
} an_follow;

/* Allocates 8 bytes for each of the `room` pixels that a component may have, and a bit for each
 * pixel of the picture. To be freed by an_follow_end, also after a failure. */
tc_status an_follow_begin(an_follow *f, size_t room, tc_err *err);
void an_follow_end(an_follow *f);
/* Whether a pixel is on the side of the threshold that components consist of. */
bool an_follow_accepts(const an_follow *f, size_t pixel);
/* Finds a pixel for which an_follow_accepts is true. Tests at most `most` consecutive pixels,
 * beginning at a random one; after the last pixel of the picture comes the first. Returns false if
 * none of these pixels is accepted. */
bool an_follow_find(const an_follow *f, size_t most, uint64_t *random, size_t *pixel);
/* Finds the component of a pixel for which an_follow_accepts is true. Afterwards f->queue begins
 * with the component's pixels. */
void an_follow_component(an_follow *f, size_t pixel, an_component *out);

#endif
