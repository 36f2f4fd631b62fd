/*
 * What the files of volume's CPU backend share: the worker, and the phases that it goes through
 * (vol_phase), each a number of independent parts, mostly bands of rows, with a little sequential
 * work at the end of some.
 */
#ifndef AN_VOLUME_CPU_H
#define AN_VOLUME_CPU_H

#include "app/analysis/volume/volume.h"
#include "app/base/pool.h"

typedef struct vol_scratch {
    uint32_t *edges;                      /* [nx + 2]: runs of a row */
    uint64_t *label;                      /* vol_label_scratch */
    uint32_t *blur;                       /* vol_blur_scratch */
    uint64_t *histogram;                  /* for Otsu */
    ws_list *found;                       /* watershed: the worker's, of this thread */
    uint64_t empty, outside, added, bias; /* sums over a phase */
} vol_scratch;

typedef struct vol_worker {
    const an_work *work;
    const vol_params *params;
    size_t nx, rows, n, band_rows, bands;
    an_pool *pool;
    vol_scratch *scratch; /* [threads] */
    vol_stack stack;
    vol_blur blur;
    uint32_t threshold; /* of membrane */
    ws_map map;         /* watershed: of the plane; `up` is the worker's */
    ws_list *found;     /* watershed: [threads], what they find */
    size_t saddles;     /* that they have found */
    int32_t *first;     /* [bands + 1]: cells before each band */
    uint32_t *sizes;    /* [cells]: voxels, BORDER; then new labels */
    int32_t cells;
    size_t slab_rows; /* of a device; 0: there were no slabs */
    vol_phase phase;
    size_t done; /* parts of the phase */
    bool started;
    bool zeros; /* membrane and what is outside is 0 to begin with */
} vol_worker;

/* Rows of a band. */
typedef struct vol_range {
    size_t from, to; /* rows */
} vol_range;

static inline vol_range vol_band(const vol_worker *w, size_t band)
{
    const size_t from = band * w->band_rows;

    return (vol_range){ from, w->rows - from < w->band_rows ? w->rows : from + w->band_rows };
}

/* A phase: its parts, and what comes after the last of them (may be NULL). */
typedef struct vol_work {
    void (*part)(vol_worker *w, size_t part, vol_scratch *s); /* s: w->scratch[thread] */
    tc_status (*end)(vol_worker *w, vol_state *state, tc_err *err);
} vol_work;

/* memory.c: what a stack has, or can have at most, that memory goes by. */
typedef struct vol_contents {
    uint64_t components, cells; /* before and after some are left out */
    uint64_t saddles, plateaus; /* watershed: between maxima, and voxels of plateaus */
    uint64_t written;           /* bytes of the state in pages that are */
} vol_contents;
vol_contents vol_most_contents(const vol_params *p, const wu_item *item);
/* The plan's memory_bytes, and what it adds to thread_bytes. */
void vol_memory_of(const vol_params *p, const wu_item *item, const vol_contents *c, an_plan *out);
uint64_t vol_thread_bytes(const vol_params *p, const wu_item *item);
tc_status vol_memory(const an_work *work, an_plan *plan, tc_err *err);

/* Label 0 for the outside: from here on node 0 is none of the nodes. */
tc_status vol_clear_first_node(vol_worker *w, vol_state *state, tc_err *err);
/* watershed.c */
extern const vol_work vol_way, vol_clear, vol_first, vol_firsts, vol_name, vol_label, vol_copy;

#endif
