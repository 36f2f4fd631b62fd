/*
 * The exact squared Euclidean distance transform of a picture or a stack, on
 * the CPU: for every pixel the squared distance, in pixels, to the nearest
 * pixel of the other side of a mask. Integers throughout. The border of the
 * picture is no side: pixels outside do not count.
 *
 * The work is three passes (x, y, z; a picture has two) of independent parts,
 * so that a caller can stop between any two of them. Each pass must be complete
 * before the next begins.
 */
#ifndef AN_EDT_H
#define AN_EDT_H

#include "app/analysis/common/edt_core.h"

typedef enum edt_sides {
    EDT_INSIDE, /* pixels of the mask: distance to the nearest pixel not of it; others 0 */
    EDT_BOTH    /* every pixel: distance to the nearest pixel of the other side */
} edt_sides;

/* One transform. Each side is at most 65535; x is fastest, then y, then z. */
typedef struct edt_job {
    uint32_t nx, ny, nz;
    const uint8_t *mask; /* [nz][ny][nx], zero or not */
    edt_sides sides;
    uint32_t *out; /* [nz][ny][nx]: min(d^2, EDT_FAR) */
} edt_job;

/* Parts of a pass: 0 and 1, and of stacks 2. */
size_t edt_parts(const edt_job *job, unsigned pass);
/* Bytes of scratch memory that a part needs for itself. */
size_t edt_scratch_bytes(const edt_job *job);
void edt_part(const edt_job *job, unsigned pass, size_t part, void *scratch);

#endif
