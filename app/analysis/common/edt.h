/*
 * The exact squared Euclidean distance transform of a picture or a stack, on
 * the CPU, in integers. A mask divides the pixels into two sides (mask and background); for each
 * pixel the transform gives the squared distance, in pixels, to the nearest pixel of the other
 * side. Pixels outside the picture belong to no side.
 *
 * The work is done in passes along x, y and z (a picture needs only the first two). A pass consists
 * of independent parts, so that a caller can stop after any part. All parts of a pass must be
 * complete before the next pass begins.
 */
#ifndef AN_EDT_H
#define AN_EDT_H

#include "app/analysis/common/edt_core.h"

typedef enum edt_sides {
    EDT_INSIDE, /* the distance to the background for pixels of the mask; 0 for others */
    EDT_BOTH    /* the distance to the other side for every pixel */
} edt_sides;

/* One transform. nx, ny and nz are at most 65535; in arrays x varies fastest, then y, then z. */
typedef struct edt_job {
    uint32_t nx, ny, nz;
    const uint8_t *mask; /* [nz][ny][nx], nonzero: in the mask */
    edt_sides sides;
    uint32_t *out; /* [nz][ny][nx] the squared distances, at most EDT_FAR */
} edt_job;

/* The number of parts of a pass: 0 (x), 1 (y), and for stacks 2 (z). */
size_t edt_parts(const edt_job *job, unsigned pass);
/* The bytes of scratch memory for one part. Parts that run at the same time need memory of their
 * own. */
size_t edt_scratch_bytes(const edt_job *job);
/* Does one part of a pass. */
void edt_part(const edt_job *job, unsigned pass, size_t part, void *scratch);

#endif
