/*
 * volume: the declarations that the files of its CPU backend share. A worker goes through the
 * phases of vol_phase. A phase consists of independent parts, mostly bands of rows, which several
 * threads process; some phases end with a little sequential work.
 */
#ifndef AN_VOLUME_CPU_H
#define AN_VOLUME_CPU_H

#include "app/analysis/volume/volume.h"
#include "app/base/pool.h"

/* The memory of one thread, and its results in the current phase. */
typedef struct vol_scratch {
    uint32_t *edges;     /* [nx + 2]: the runs of a row, as returned by lab_find_runs */
    uint64_t *label;     /* scratch memory of vol_label_scratch bytes */
    uint32_t *blur;      /* [vol_blur_scratch]: scratch memory of vol_blur_part */
    uint64_t *histogram; /* [2^bits]: numbers of voxels by grey value, for Otsu's threshold */
    ws_list *list;       /* watershed: this thread's element of vol_worker.lists */
    /* Numbers of voxels that this thread has counted: */
    uint64_t empty;   /* voxels that are not membrane; in a watershed, voxels of cells */
    uint64_t outside; /* voxels that are connected with the outside */
    uint64_t added;   /* voxels that a repair made membrane */
    uint64_t bias;    /* voxels that a repair took from the inside (vol_repair_bias) */
} vol_scratch;

typedef struct vol_worker {
    const an_work *work;
    const vol_params *params;
    size_t nx, rows, n;      /* voxels of a row; rows and voxels of the stack */
    size_t band_rows, bands; /* rows of a band, and number of bands */
    an_pool *pool;
    vol_scratch *scratch; /* [threads] */
    vol_stack stack;
    vol_blur blur;
    uint32_t threshold; /* grey values >= this are membrane */
    ws_map map;     /* watershed: its `height` is in the state; its `up` belongs to the worker */
    ws_list *lists; /* watershed: [threads], the list that each thread fills */
    size_t saddles; /* watershed: the number of saddles found so far */
    int32_t *cells_before; /* [bands + 1]: the number of cells before each band */
    /* [cells]: until the end of VOL_SIZES, the cell's number of voxels, with the highest bit set if
     * the cell touches the border; then the cell's new label, or 0 if the cell is left out of the
     * result. NULL if no cells can be left out. */
    uint32_t *sizes;
    int32_t cells;
    size_t slab_rows; /* rows of each slab (vol_host_resume) whose components a device has found; 0
                         if no device has */
    vol_phase phase;
    size_t parts_done;   /* number of parts of the phase that are done */
    bool nodes_prepared; /* this worker has prepared the state's nodes */
    bool nodes_zeroed;   /* before VOL_PAINT, the nodes of membrane and outside voxels are 0, except
                            for the first node of each run */
} vol_worker;

/* The rows [from, to) of a band. */
typedef struct vol_range {
    size_t from, to;
} vol_range;

static inline vol_range vol_band(const vol_worker *w, size_t band)
{
    const size_t from = band * w->band_rows;

    return (vol_range){ from, w->rows - from < w->band_rows ? w->rows : from + w->band_rows };
}

/* The functions of a phase: `part` does one part; `end`, if not NULL, is called after the last
 * part. */
typedef struct vol_work {
    void (*part)(vol_worker *w, size_t part, vol_scratch *s); /* s: w->scratch[thread] */
    tc_status (*end)(vol_worker *w, vol_state *state, tc_err *err);
} vol_work;

/* memory.c: the numbers that a stack's memory depends on, or upper bounds of these numbers. */
typedef struct vol_contents {
    uint64_t components, cells; /* number of components, and of those in the result */
    uint64_t saddles, plateaus; /* watershed: saddles in the list, and voxels of plateaus */
    uint64_t written;           /* bytes of the state in pages that are written to */
} vol_contents;
/* Upper bounds for any stack of this size. */
vol_contents vol_most_contents(const vol_params *p, const wu_item *item);
/* Sets the plan's memory_bytes, and adds to its thread_bytes. */
void vol_memory_of(const vol_params *p, const wu_item *item, const vol_contents *c, an_plan *out);
/* The memory of each thread, without the tables that vol_memory_of adds. */
uint64_t vol_thread_bytes(const vol_params *p, const wu_item *item);
/* Implements an_analysis.memory. */
tc_status vol_memory(const an_work *work, an_plan *plan, tc_err *err);

/* Sets node 0, the outside, to the label 0. Called at the end of the phase that replaces links of
 * the union-find by labels. */
tc_status vol_clear_first_node(vol_worker *w, vol_state *state, tc_err *err);
/* watershed.c: the phases of a watershed. vol_uphill is for VOL_ASCEND to VOL_SADDLES; the others
 * have the names of their phases. */
extern const vol_work vol_uphill, vol_clear, vol_first, vol_count_first, vol_number_cells,
    vol_label, vol_copy;

#endif
