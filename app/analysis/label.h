/*
 * Connected components of a bit picture (or stack) by runs: the nodes of the
 * union-find are the runs of equal pixels of a row, each standing at its first
 * pixel in a plane of one int32 per pixel. Nothing grows with the number of
 * runs.
 *
 * Rows are numbered through all slices: row = z * ny + y. A band of rows is
 * labelled by one thread; bands are then joined along their seams, by any
 * number of threads.
 */
#ifndef AN_LABEL_H
#define AN_LABEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/analysis/union_find.h"

typedef struct lab_picture {
    uint32_t nx, ny, nz;
    size_t stride;         /* 64-bit words of a row: lab_stride(nx) */
    uint64_t *bits;        /* [nz*ny][stride], pixel x is bit x % 64 of word x / 64; the rest 0 */
    bool zeros;            /* the components of the zeros, not of the ones */
    bool diagonal;         /* pixels that touch at a corner are connected, within a slice */
    bool through;          /* pixels one above the other in neighbouring slices are connected */
    int32_t *nodes;        /* [nz][ny][nx]; only the first pixels of runs are touched */
} lab_picture;

static inline size_t lab_stride(uint32_t nx)
{
    return ((size_t)nx + 63) / 64;
}

/* The runs of a row of pixels of the wanted kind: run k is [edges[2k],
 * edges[2k+1]). edges has room for nx + 2. Returns the number of runs. */
size_t lab_runs(const lab_picture *p, size_t row, uint32_t *edges);

/* What lab_band and lab_seam need for themselves. */
size_t lab_scratch_bytes(const lab_picture *p);

/* Makes nodes of the runs of rows [row0, row1) and joins them among themselves. */
void lab_band(const lab_picture *p, size_t row0, size_t row1, void *scratch);
/* Joins the rows [row0, row1), which lab_band has done, with the rows before
 * row0 that they touch. Several threads may do so at a time. */
void lab_seam(const lab_picture *p, size_t row0, size_t row1, void *scratch);

#endif
