/* The parts of cellcount's OpenCL backend: the worker, and its launches. */
#ifndef OCL_CELLCOUNT_CL_H
#define OCL_CELLCOUNT_CL_H

#include "app/analysis/cellcount/cellcount.h"
#include "app/analysis/cellcount/layout.h"
#include "opencl/worker.h"

/* Phases of the device, and the kernel of each. */
#define CC_STAGES(STAGE)                                       \
    STAGE(SMOOTH_X, "cc_smooth_x")                             \
    STAGE(SMOOTH_Y, "cc_smooth_y")                             \
    STAGE(EXTREME, "cc_disc")                                  \
    STAGE(GROUND, "cc_disc")                                   \
    STAGE(GROUND_SUMS, "cc_sums")                              \
    STAGE(GROUND_MEAN, "cc_mean")                              \
    STAGE(LOCAL_SUMS, "cc_sums")                               \
    STAGE(LOCAL_MEAN, "cc_mean")                               \
    STAGE(READ_VALUES, NULL) /* then all else is the host's */ \
    STAGE(HISTOGRAM, "cc_histogram8")                          \
    STAGE(MASK, "cc_mask")                                     \
    STAGE(BACKGROUND_TILES, "cc_tiles")                        \
    STAGE(BACKGROUND_ROWS, "cc_join_rows")                     \
    STAGE(BACKGROUND_COLUMNS, "cc_join_columns")               \
    STAGE(BORDER_ROOTS, "cc_border_roots")                     \
    STAGE(OUTSIDE, "cc_mark_outside")                          \
    STAGE(FILL, "cc_fill")                                     \
    STAGE(TILES, "cc_tiles")                                   \
    STAGE(JOIN_ROWS, "cc_join_rows")                           \
    STAGE(JOIN_COLUMNS, "cc_join_columns")                     \
    STAGE(COUNT, "cc_count")                                   \
    STAGE(NUMBER, "cc_number")                                 \
    STAGE(PAINT, "cc_paint")                                   \
    STAGE(TABLE, "cc_clear_table")                             \
    STAGE(MEASURE, "cc_measure")                               \
    STAGE(RELABEL, "cc_relabel")                               \
    STAGE(READ_LABELS, NULL) /* when the device does it all */ \
    STAGE(ROOTS, "cc_roots")                                   \
    STAGE(READ_ROOTS, NULL) /* when the host goes on */        \
    STAGE(DISTANCE_ROWS, "cc_distance_rows")                   \
    STAGE(DISTANCE_COLUMNS, "cc_distance_columns")             \
    STAGE(ASCEND, "cc_ascend")                                 \
    STAGE(READ_DISTANCES, NULL)                                \
    STAGE(MAXIMA, "cc_maxima")                                 \
    STAGE(READ_MAXIMA, NULL)

typedef enum cc_stage { CC_STAGES(OCL_STAGE_NUMBER) STAGES } cc_stage;

/* B_STEPS: two planes that grey values go to in turn. */
enum {
    B_PIXELS,
    B_STEPS,
    B_EXTREME = B_STEPS + 2,
    B_WEIGHTS,
    B_DISC,
    B_MASK,
    B_ROOTS,
    B_RANKS,
    B_LINK,
    B_OTHER,
    B_DISTANCE,
    B_HISTOGRAM,
    B_COUNTS,
    B_BORDER,
    B_TABLE,
    B_NOW
};

typedef struct cc_cl_worker {
    ocl_worker ocl; /* kernel s is that of stage s */
    const cc_params *params;
    void *host; /* a worker of cc_cpu */
    size_t group;
    ocl_pace pace[STAGES];
    uint32_t nx, ny;
    uint32_t stride;     /* words of 32 bits in a row of the mask: as many as the host's */
    uint32_t strip_rows; /* ny: the whole picture is on the device */
    uint32_t y0, rows;   /* the strip */
    uint32_t threshold;
    an_gauss gauss;
    int values; /* the buffer that grey values are in */
    cc_stage stage;
    uint64_t done;     /* work of the stage */
    size_t table_rows; /* 1 + regions, if the device measures them */
    bool has_table;    /* the regions stand in the state */
    bool too_many;     /* regions to measure on the device, and some are to be left out */
    bool host_only;
    double label_ms; /* device time from the picture to the labels, Otsu's histogram and holes left
                        out */
    double measure_ms; /* and of measuring the regions */
} cc_cl_worker;

static inline bool in_strips(const cc_cl_worker *w)
{
    return w->strip_rows < w->ny;
}

static inline uint64_t strip_pixels(const cc_cl_worker *w)
{
    return (uint64_t)w->nx * w->rows;
}

/* Whether a stage's components are connected by 8: the background's are where cells' are not. */
static inline bool eight_connected(const cc_cl_worker *w, cc_stage s)
{
    return w->params->eight_connected != (s >= BACKGROUND_TILES && s <= FILL);
}

/* The words of a strip's mask. */
static inline uint64_t strip_words(const cc_cl_worker *w)
{
    return (uint64_t)w->rows * w->stride;
}

/* The buffer that a step of preparing grey values leaves them in. */
static inline int next_values(const cc_cl_worker *w)
{
    return w->values == B_STEPS ? B_STEPS + 1 : B_STEPS;
}

/* Queues some of the worker's stage, from `first` of its work on (stage_work). */
tc_status cc_launch(cc_cl_worker *w, uint64_t first, uint64_t count, tc_err *err);

#endif
