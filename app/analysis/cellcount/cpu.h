/*
 * Declarations that the files of cellcount's CPU backend share: the worker, and its phases
 * (cc_phase). The work of a phase is divided into independent parts, mostly bands of rows; in some
 * phases sequential work follows after the last part. ("Part" has a second meaning in the context
 * of a split, which divides a component into parts, one for each cell.)
 *
 * An id is the number of a run of pixels, or of a part of a split. Ids are the nodes of a
 * union-find, picture.ids (common/union_find.h): the element of a node is ~parent, a negative
 * number, until CC_NUMBER writes labels into the roots.
 */
#ifndef AN_CELLCOUNT_CPU_H
#define AN_CELLCOUNT_CPU_H

#include "app/analysis/cellcount/cellcount.h"
#include "app/analysis/common/edt.h"
#include "app/analysis/common/watershed.h"

/* The number of values that put_label (label.c) may write past the end of a run. */
enum { CC_PAD = 8 };

/* Scratch memory of a thread. */
typedef struct cc_scratch {
    uint32_t *edges;         /* [nx + 2]: the runs of a row, as lab_find_row_runs writes them */
    int32_t *row;            /* [nx + CC_PAD]: labels of a row */
    unsigned char *label;    /* [lab_scratch_bytes] */
    unsigned char *distance; /* [edt_scratch_bytes] */
    uint64_t *histogram;     /* [2^bits]: the histogram of the bands that this thread processed */
    void *prepare;           /* [cc_prepare_scratch] */
    ws_list *found;          /* split: this thread's entry of cc_worker.found */
    bool no_memory;
} cc_scratch;

/* A region's grey values and box, for filters that need more than its area (cc_needs_boxes). */
typedef struct cc_filter_values {
    uint64_t sum; /* sum of the prepared grey values, if min_contrast is set */
    /* The box, half-open. In this struct y0 is ny minus the first row and x0 is nx minus the first
     * column, so that all members only grow, and zeros are an empty box. */
    uint32_t y0, x0, y1, x1;
} cc_filter_values;

typedef struct cc_worker {
    const an_work *work;
    cc_params resolved;      /* the item's parameters after cc_resolve_params */
    const cc_params *params; /* &resolved */
    uint32_t nx, ny, bands;
    an_pool *pool;
    cc_scratch *scratch;    /* [threads] */
    lab_picture picture;    /* the mask of the cells, its runs and the union-find over ids */
    int32_t *starts_buffer; /* picture.starts if no labels are needed; otherwise NULL, and
                               picture.starts is the plane */
    int32_t *plane;         /* [ny][nx]: cc_state.plane */
    uint8_t *bytes;         /* split by distance: the mask, [ny][nx] */
    int32_t *up; /* split, or with a device: [ny][nx], the pixel that each pixel leads to, -1 on the
                    background; from CC_IDS on, the id of the pixel's part */
    edt_job edt; /* split by distance: from `bytes` to the plane */
    ws_map map;  /* split: watershed of the heights in the plane, into `up` */
    ws_list *found;     /* split: [threads], saddles and pixels that each thread found */
    size_t saddles;     /* split: number of saddles found */
    uint32_t threshold; /* threshold of the prepared grey values */
    int32_t outside;    /* root of the background that touches the border; -1 if there is none */
    int32_t *end;       /* [bands]: for each band, 1 + the last id that it uses */
    int32_t *first;     /* [bands + 1]: number of components before each band */
    /* [components]: until the end of CC_AREAS, the area of the component, with the bit BORDER
     * (label.c) if the component touches the border; then its label, or 0 if a filter removes it.
     * NULL if there are no filters. */
    uint32_t *areas;
    cc_filter_values *filter_values; /* [components]; NULL if the filters need only the areas */
    uint64_t regions;   /* number of components; from the end of CC_AREAS on, of those that pass the
                           filters */
    cc_region *table;   /* the state's table of regions */
    cc_measure measure; /* the measurement that CC_MEASURE does */
    uint32_t strip_rows; /* rows of the strips that a device labelled; 0 if there are no strips */
    cc_prepare prepare;  /* prepare.current: grey values that the threshold applies to */
    cc_phase phase;      /* the current phase */
    size_t done;         /* number of the phase's parts that are done */
} cc_worker;

/* The rows of a band are [*y0, *y1). */
static inline void cc_band_range(const cc_worker *w, size_t band, uint32_t *y0, uint32_t *y1)
{
    const uint32_t rows = cc_band_rows(w->nx);

    *y0 = (uint32_t)band * rows;
    *y1 = w->ny - *y0 < rows ? w->ny : *y0 + rows;
}

/* The functions of a phase. */
typedef struct cc_work {
    /* Processes a part; several threads call it at the same time. s: w->scratch[thread]. */
    void (*part)(cc_worker *w, size_t part, cc_scratch *s);
    /* Called once after the last part; NULL if nothing is to be done. */
    tc_status (*end)(cc_worker *w, tc_err *err);
} cc_work;

/* memory.c: the numbers that the memory for a picture depends on: either as counted in the picture,
 * or the greatest that a picture of its size can have. */
typedef struct cc_contents {
    uint64_t runs;       /* runs of cells, or with fill_holes of background */
    uint64_t ids;        /* ids that all bands use in the union-find */
    uint64_t components; /* components before filters */
    uint64_t regions;    /* regions after filters */
    uint64_t saddles;    /* split: saddles between maxima */
    uint64_t plateaus;   /* split by intensity: pixels of plateaus */
} cc_contents;
cc_contents cc_most_contents(const cc_params *p, const wu_item *item);
/* Sets out->memory_bytes, and adds the threads' tables to out->thread_bytes. */
void cc_memory_of(const cc_params *p, const wu_item *item, const cc_contents *c, an_plan *out);
/* plan.c: an_plan.thread_bytes without the threads' tables of regions. */
uint64_t cc_thread_bytes(const cc_params *p, const wu_item *item);
tc_status cc_memory(const an_work *work, an_plan *plan, tc_err *err);

/* prepare.c: the phases CC_SMOOTH to CC_LOCAL_MEAN */
extern const cc_work cc_preparing;
/* mask.c: from grey values to the mask */
extern const cc_work cc_histogram, cc_mask, cc_holes, cc_hole_seams, cc_fill;
/* label.c: from the mask, or the parts of a split, to labels */
extern const cc_work cc_components, cc_seams, cc_parts, cc_ids, cc_strips, cc_count, cc_number,
    cc_areas, cc_renumber, cc_paint, cc_measuring;
/* split.c: from the mask to the parts */
extern const cc_work cc_bytes, cc_distance_x, cc_distance_y, cc_heights, cc_watershed, cc_clear,
    cc_first;

#endif
