/*
 * levelset: an iteration for boxes of voxels, in the widest vectors that the processor has. All
 * widths give the same bits.
 */
#ifndef LEVELSET_ROWS_H
#define LEVELSET_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The number of floats beyond the end of phi, and of a row in scratch memory, that vector code may
 * access. */
enum { LS_PAD = 32 };

/* A box of voxels: x0 <= x < x1, and so on. */
typedef struct ls_box {
    uint32_t x0, x1, y0, y1, z0, z1;
} ls_box;

/* The fields that a step reads and writes: [nz][ny][nx]. */
typedef struct ls_fields {
    uint32_t nx, ny, nz;
    const float *phi;  /* with LS_PAD more floats that may be read */
    const float *data; /* -alpha D */
    const float *stop; /* a factor of F; NULL stands for 1 */
    float beta;        /* 1 - alpha */
    bool move;         /* out = phi + dt U; otherwise out = U, where U = F |grad phi| */
    float dt;
    float *out;
} ls_fields;

/* Results of a step besides `out`. The caller zeroes the struct before the first call; each call
 * adds to it. Results can be merged in any order. */
typedef struct ls_outcome {
    float most; /* set by `step` without ls_fields.move: the largest |U| that is not NaN */
    /* Set by `step` with ls_fields.move, and by `apply`: */
    bool bad;     /* a new phi is not finite */
    bool changed; /* a voxel has changed sides */
} ls_outcome;

/* The functions for one width of vectors. */
typedef struct ls_simd {
    const char *name;
    uint32_t lanes;                 /* floats in a vector */
    const struct ls_simd *narrower; /* the next narrower vectors; NULL if these are the narrowest */
    /* Computes a step for one box. scratch: ls_scratch_floats floats, aligned to 64 bytes. */
    void (*step)(const ls_fields *f, const ls_box *box, float *scratch, ls_outcome *outcome);
    /* Adds dt * u[i] to phi[i], for i < n. */
    void (*apply)(float *phi, const float *u, size_t n, float dt, ls_outcome *outcome);
} ls_simd;

/* The number of floats of scratch memory for a box of nx columns, ny rows, and any number of
 * slices.
 */
size_t ls_scratch_floats(uint32_t nx, uint32_t ny);

/* The widest vectors that this processor has. */
const ls_simd *ls_simd_best(void);
/* The widest vectors of at most w floats, among `best` and narrower ones. */
const ls_simd *ls_simd_fit(const ls_simd *best, uint32_t w);

#endif
