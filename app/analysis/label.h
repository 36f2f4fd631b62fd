/*
 * Connected components of a bit picture (or stack) by runs of equal pixels.
 * Every run gets the number of the tree it belongs to, an id, which is written
 * at its first pixel in a plane of one int32 per pixel; a union-find over the
 * ids says which trees are one. Ids rise with the raster, so the smallest id of
 * a component is that of its first pixel.
 *
 * Rows are numbered through all slices: row = z * ny + y. A band of rows is
 * labelled by one thread and takes its ids from a range of its own; bands are
 * then joined along their seams, by any number of threads.
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
    /* Where bits is NULL: makes the words of a row, at most LAB_MAX_STRIDE. */
    void (*row)(const void *source, size_t row, uint64_t *words);
    const void *source;
    bool zeros;            /* the components of the zeros, not of the ones */
    bool diagonal;         /* pixels that touch at a corner are connected, within a slice */
    bool through;          /* pixels one above the other in neighbouring slices are connected */
    /* [nz][ny][nx]: ids; only the first pixels of runs are touched. NULL: the id
     * of a run is 1 + the index of its first pixel, but 0, the outside, for runs that reach
     * the border of the picture (with `through` of the stack). */
    int32_t *starts;
    int32_t *ids;          /* the union-find; room for lab_ids(nx, rows), or 1 + all pixels */
} lab_picture;

/* Sides are at most 65535. */
enum { LAB_MAX_STRIDE = 1024 };

static inline size_t lab_stride(uint32_t nx)
{
    return ((size_t)nx + 63) / 64;
}

/* The most ids that so many rows can take. A band beginning at row0 has those
 * from lab_ids(nx, row0) on. */
static inline size_t lab_ids(uint32_t nx, size_t rows)
{
    return rows * (((size_t)nx + 1) / 2);
}

/* The runs of a row of pixels of the wanted kind: run k is [edges[2k],
 * edges[2k+1]). edges has room for nx + 2. Returns the number of runs. */
size_t lab_runs(const lab_picture *p, size_t row, uint32_t *edges);

/* Without starts: whether all runs of a row reach the border. */
bool lab_border_row(const lab_picture *p, size_t row);
/* Without starts: the id of the run [a, b) of a row; border: lab_border_row. */
static inline int32_t lab_id(const lab_picture *p, size_t row, bool border, uint32_t a, uint32_t b)
{
    return border || a == 0 || b == p->nx ? 0 : (int32_t)(row * p->nx + a + 1);
}

/* What lab_band and lab_seam need for themselves. */
size_t lab_scratch_bytes(const lab_picture *p);

/* Gives ids to the runs of rows [row0, row1) and joins them among themselves.
 * Returns the end of the ids that were taken. */
int32_t lab_band(const lab_picture *p, size_t row0, size_t row1, void *scratch);
/* Joins the rows [row0, row1), which lab_band has done, with the rows before
 * row0 that they touch. Several threads may do so at a time. */
void lab_seam(const lab_picture *p, size_t row0, size_t row1, void *scratch);

#endif
