/*
 * What the files of cellcount's CPU backend share: the worker, and the phases that
 * it goes through (cc_phase), each a number of independent parts, mostly bands of
 * rows, with a little sequential work at the end of some.
 */
#ifndef AN_CELLCOUNT_CPU_H
#define AN_CELLCOUNT_CPU_H

#include "app/analysis/cellcount/cellcount.h"
#include "app/analysis/common/edt.h"
#include "app/analysis/common/watershed.h"

/* How much more than it should a function may write into a row of labels. */
enum { CC_PAD = 8 };

/* What a thread has for itself. */
typedef struct cc_scratch {
    uint32_t *edges;         /* [nx + 2]: runs of a row */
    int32_t *row;            /* [nx + CC_PAD]: its labels */
    unsigned char *label;    /* lab_scratch_bytes */
    unsigned char *distance; /* edt_scratch_bytes */
    uint64_t *histogram;
    void *prepare;  /* cc_prepare_scratch */
    ws_list *found; /* split: the worker's, of this thread */
    bool no_memory;
} cc_scratch;

/* What is known of a region where filters need more than its area. */
typedef struct cc_sieve {
    uint64_t sum;            /* of the prepared grey values */
    uint32_t y0, x0, y1, x1; /* half-open */
} cc_sieve;

typedef struct cc_worker {
    const an_work *work;
    cc_params own; /* those of the item */
    const cc_params *params;
    uint32_t nx, ny, bands;
    an_pool *pool;
    cc_scratch *scratch; /* [threads] */
    lab_picture picture; /* of the cells */
    int32_t
        *own_starts; /* where no labels will be asked for: its starts; else the state's plane is */
    int32_t *plane;  /* the state's */
    uint8_t *bytes;  /* split: the mask */
    int32_t *up;     /* split: where each pixel leads, -1 on the background; then its id */
    edt_job edt;
    ws_map map;     /* split: of the plane, to `up` */
    ws_list *found; /* split: [threads], what they find */
    size_t saddles; /* that they have found */
    uint32_t threshold;
    int32_t outside; /* root of the background that touches the border; -1: none does */
    int32_t *end;    /* [bands]: of the ids that each band took */
    int32_t *first;  /* [bands + 1]: regions before each band */
    uint32_t *areas; /* [regions]: area, BORDER where it touches the border; then new labels */
    cc_sieve *sieve; /* [regions]; NULL: areas are enough */
    uint64_t regions;
    cc_region *table; /* the state's */
    cc_measure measure;
    uint32_t strip_rows; /* of a device; 0: there were no strips */
    /* where the work is */
    cc_prepare prepare; /* prepare.now: what the threshold is for */
    cc_phase phase;
    size_t done; /* parts of the phase */
} cc_worker;

/* Rows [*y0, *y1) of a band. */
static inline void cc_band_range(const cc_worker *w, size_t band, uint32_t *y0, uint32_t *y1)
{
    const uint32_t rows = cc_band_rows(w->nx);

    *y0 = (uint32_t)band * rows;
    *y1 = w->ny - *y0 < rows ? w->ny : *y0 + rows;
}

/* A phase: its parts, and what comes after the last of them (may be NULL). */
typedef struct cc_work {
    void (*part)(cc_worker *w, size_t part, cc_scratch *s); /* s: w->scratch[thread] */
    tc_status (*end)(cc_worker *w, tc_err *err);
} cc_work;

/* memory.c: what a picture has, or can have at most, that memory goes by. */
typedef struct cc_contents {
    uint64_t runs, rows; /* of cells or between them, and rows that have any */
    uint64_t ids;        /* of components as they are found, band by band */
    uint64_t components; /* before any are left out */
    uint64_t regions;
    uint64_t saddles;  /* split: between maxima, ... */
    uint64_t plateaus; /* ... and pixels of plateaus, by intensity */
} cc_contents;
cc_contents cc_most_contents(const cc_params *p, const wu_item *item);
/* The plan's memory_bytes, and what it adds to thread_bytes. */
void cc_memory_of(const cc_params *p, const wu_item *item, const cc_contents *c, an_plan *out);
uint64_t cc_thread_bytes(const cc_params *p, const wu_item *item);
tc_status cc_memory(const an_work *work, an_plan *plan, tc_err *err);

/* prepare.c: from pixels to pixels */
extern const cc_work cc_preparing;
/* mask.c: from pixels to bits */
extern const cc_work cc_histogram, cc_mask, cc_holes, cc_hole_seams, cc_fill;
/* label.c: from bits, or the parts of a split, to labels */
extern const cc_work cc_components, cc_seams, cc_parts, cc_ids, cc_strips, cc_count, cc_number,
    cc_areas, cc_renumber, cc_paint, cc_measuring;
/* split.c: from bits to parts */
extern const cc_work cc_bytes, cc_distance_x, cc_distance_y, cc_heights, cc_way, cc_clear, cc_first;

#endif
