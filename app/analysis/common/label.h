/*
 * Connected components of a bit picture by runs of equal pixels.
 * Every run gets the number of the tree it belongs to, an id, which is written
 * for it, in the order of the row; a union-find over the
 * ids says which trees are one. Ids rise with the raster, so the smallest id of
 * a component is that of its first pixel.
 *
 * A band of rows is labelled by one thread and takes its ids from a range of its
 * own; bands are then joined along their seams, by any number of threads.
 */
#ifndef AN_LABEL_H
#define AN_LABEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/analysis/common/union_find.h"

typedef struct lab_picture {
    uint32_t nx, ny;
    size_t stride;        /* 64-bit words of a row: lab_stride(nx) */
    uint64_t *bits;       /* [ny][stride], pixel x is bit x % 64 of word x / 64; the rest 0 */
    bool zeros;           /* the components of the zeros, not of the ones */
    bool eight_connected; /* pixels that touch at a corner are connected */
    size_t room;          /* for runs of a row: lab_room(nx), or more */
    int32_t *starts; /* [ny][room]: ids of the runs; those behind a row's last are not touched */
    int32_t *ids;    /* the union-find; room for lab_ids(nx, ny) */
} lab_picture;

/* Sides are at most 65535. */
enum { LAB_MAX_STRIDE = 1024 };

static inline size_t lab_stride(uint32_t nx)
{
    return ((size_t)nx + 63) / 64;
}

static inline size_t lab_room(uint32_t nx)
{
    return ((size_t)nx + 1) / 2;
}

/* The most ids that so many rows can take. A band beginning at row0 has those
 * from lab_ids(nx, row0) on. */
static inline size_t lab_ids(uint32_t nx, size_t rows)
{
    return rows * lab_room(nx);
}

/* The runs of ones (zeros: of zeros) in nx bits: run k is [edges[2k], edges[2k+1]).
 * edges has room for nx + 2. Returns the number of runs. */
size_t lab_edges(const uint64_t *words, uint32_t nx, bool zeros, uint32_t *edges);
/* The runs of a row of the picture: of ones, or of zeros where it says so. */
size_t lab_runs(const lab_picture *p, size_t row, uint32_t *edges);

/* What lab_band and lab_seam need for themselves. */
size_t lab_scratch_bytes(const lab_picture *p);

/* Gives ids to the runs of rows [row0, row1) and joins them among themselves.
 * Returns the end of the ids that were taken. */
int32_t lab_band(const lab_picture *p, size_t row0, size_t row1, void *scratch);
/* Joins the first row of a band with the row before it, if there is one. Several threads may do so
 * at a time. */
void lab_seam(const lab_picture *p, size_t row, void *scratch);

#endif
