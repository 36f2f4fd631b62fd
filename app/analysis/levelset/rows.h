/*
 * The step of a level set over boxes of voxels, in vectors as wide as the
 * processor has. All widths give the same bits.
 */
#ifndef LEVELSET_ROWS_H
#define LEVELSET_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Floats that may be read beyond the last of phi and of scratch memory. */
enum { LS_PAD = 32 };

/* Half-open. */
typedef struct ls_box {
    uint32_t x0, x1, y0, y1, z0, z1;
} ls_box;

/* What a step reads and writes: fields [nz][ny][nx]. */
typedef struct ls_fields {
    uint32_t nx, ny, nz;
    const float *phi;  /* and LS_PAD more */
    const float *data; /* -alpha D */
    const float *stop; /* factor of F, or NULL */
    float beta;        /* 1 - alpha */
    bool move;         /* out = phi + dt U; else out = U, U = F |grad phi| */
    float dt;
    float *out;
} ls_fields;

/* What was met on the way; starts as zeros. Merging is order-free. */
typedef struct ls_found {
    float most;   /* of |U|, numbers only (without `move`) */
    bool bad;     /* a phi that is not finite (with move) */
    bool changed; /* a phi that changed sides (with move) */
} ls_found;

typedef struct ls_simd {
    const char *name;
    uint32_t lanes;
    const struct ls_simd *narrower;
    /* One box; scratch: ls_scratch_floats(box), aligned to 64 bytes. */
    void (*step)(const ls_fields *f, const ls_box *box, float *scratch, ls_found *found);
    /* phi[i] += dt * u[i], i < n */
    void (*apply)(float *phi, const float *u, size_t n, float dt, ls_found *found);
} ls_simd;

size_t ls_scratch_floats(uint32_t nx, uint32_t ny); /* of a box of nx * ny * any */

/* The widest that this processor has; narrower ones depend on it. */
const ls_simd *ls_simd_best(void);
/* The widest, from `best` down, whose vectors fit into rows of w voxels. */
const ls_simd *ls_simd_fit(const ls_simd *best, uint32_t w);

#endif
