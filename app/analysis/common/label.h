/*
 * Labels the connected components of a binary picture, run by run (a run is a series of equal
 * pixels in a row). Every run gets a number, its id: the id of a touching run in the row above,
 * otherwise a new one. A union-find over the ids records which of them belong to one component. Ids
 * ascend in raster order, so the smallest id of a component is that of its first pixel.
 *
 * The picture is divided into bands of rows. One thread labels a band, with ids from a range of
 * the band's own; then bands are joined along their common borders (seams), by any number of
 * threads.
 */
#ifndef AN_LABEL_H
#define AN_LABEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/analysis/common/union_find.h"

typedef struct lab_picture {
    uint32_t nx, ny;
    size_t stride;        /* 64-bit words per row: lab_stride(nx) */
    uint64_t *bits;       /* [ny][stride] pixel x is bit x % 64 of word x / 64; unused bits are 0 */
    bool zeros;           /* label the zeros, not the ones */
    bool eight_connected; /* pixels that touch at a corner are connected */
    size_t room;          /* elements of `starts` per row: at least lab_max_runs(nx) */
    int32_t *starts;      /* [ny * room] the ids of each row's runs: those of a row are at
                             lab_row_starts, all other elements are unused */
    size_t *begins; /* [ny] the index in `starts` of each row's first run, set by lab_label_band:
                       the rows of a band follow each other without gaps, so that they occupy few
                       pages of memory. NULL: row * room */
    int32_t *ids;   /* [lab_max_ids(nx, ny)] the union-find: nodes of union_find.h */
} lab_picture;

/* The stride of the widest pictures, of 65535 pixels. */
enum { LAB_MAX_STRIDE = 1024 };

/* The number of 64-bit words that a row of nx pixels takes. */
static inline size_t lab_stride(uint32_t nx)
{
    return ((size_t)nx + 63) / 64;
}

/* The greatest number of runs that a row of nx pixels can have. */
static inline size_t lab_max_runs(uint32_t nx)
{
    return ((size_t)nx + 1) / 2;
}

/* The greatest number of ids that this many rows can need. The ids of a band that begins at row0
 * are from lab_max_ids(nx, row0) on. */
static inline size_t lab_max_ids(uint32_t nx, size_t rows)
{
    return rows * lab_max_runs(nx);
}

/* The ids of a row's runs. */
static inline int32_t *lab_row_starts(const lab_picture *p, size_t row)
{
    return p->starts + (p->begins != NULL ? p->begins[row] : row * p->room);
}

/* Finds the runs of ones, or if `zeros` of zeros, in nx bits: run k is [edges[2k], edges[2k+1]).
 * edges must have room for nx + 2 elements. Returns the number of runs. */
size_t lab_find_runs(const uint64_t *words, uint32_t nx, bool zeros, uint32_t *edges);
/* Finds the runs of a row of the picture: of zeros if p->zeros is set, otherwise of ones. */
size_t lab_find_row_runs(const lab_picture *p, size_t row, uint32_t *edges);

/* The bytes of scratch memory for lab_label_band and lab_join_seam; each thread needs its own. */
size_t lab_scratch_bytes(const lab_picture *p);

/* Labels the band of rows [row0, row1). Returns the end of the range of ids that were used. */
int32_t lab_label_band(const lab_picture *p, size_t row0, size_t row1, void *scratch);
/* Joins a band, whose first row is `row`, with the row before it, if there is one. Several threads
 * may join bands at the same time. */
void lab_join_seam(const lab_picture *p, size_t row, void *scratch);

#endif
