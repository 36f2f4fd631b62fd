/* cellcount's OpenCL backend: the worker and stages that cellcount_cl.c and cellcount_launch.c
 * share. */
#ifndef OCL_CELLCOUNT_CL_H
#define OCL_CELLCOUNT_CL_H

#include "app/analysis/cellcount/cellcount.h"
#include "app/analysis/cellcount/layout.h"
#include "opencl/worker.h"

/* The device's stages in the order in which they run, each with its kernel. A stage without a
 * kernel copies a buffer to the host. */
#define CC_STAGES(STAGE)                                \
    STAGE(SMOOTH_X, "cc_smooth_x")                      \
    STAGE(SMOOTH_Y, "cc_smooth_y")                      \
    STAGE(EXTREME, "cc_disc")                           \
    STAGE(GROUND, "cc_disc")                            \
    STAGE(GROUND_SUMS, "cc_sums")                       \
    STAGE(GROUND_MEAN, "cc_mean")                       \
    STAGE(LOCAL_SUMS, "cc_sums")                        \
    STAGE(LOCAL_MEAN, "cc_mean")                        \
    STAGE(READ_VALUES, NULL) /* the grey values */      \
    STAGE(HISTOGRAM, "cc_histogram8")                   \
    STAGE(MASK, "cc_mask")                              \
    STAGE(BACKGROUND_TILES, "cc_tiles")                 \
    STAGE(BACKGROUND_ROWS, "cc_join_rows")              \
    STAGE(BACKGROUND_COLUMNS, "cc_join_columns")        \
    STAGE(BORDER_ROOTS, "cc_border_roots")              \
    STAGE(OUTSIDE, "cc_mark_outside")                   \
    STAGE(FILL, "cc_fill")                              \
    STAGE(TILES, "cc_tiles")                            \
    STAGE(JOIN_ROWS, "cc_join_rows")                    \
    STAGE(JOIN_COLUMNS, "cc_join_columns")              \
    STAGE(COUNT, "cc_count")                            \
    STAGE(NUMBER, "cc_number")                          \
    STAGE(PAINT, "cc_paint")                            \
    STAGE(TABLE, "cc_clear_table")                      \
    STAGE(MEASURE, "cc_measure")                        \
    STAGE(RELABEL, "cc_relabel")                        \
    STAGE(READ_LABELS, NULL) /* the item's result */    \
    STAGE(ROOTS, "cc_roots")                            \
    STAGE(READ_ROOTS, NULL) /* for the host to label */ \
    STAGE(DISTANCE_ROWS, "cc_distance_rows")            \
    STAGE(DISTANCE_COLUMNS, "cc_distance_columns")      \
    STAGE(ASCEND, "cc_ascend")                          \
    STAGE(READ_DISTANCES, NULL)                         \
    STAGE(MAXIMA, "cc_maxima")                          \
    STAGE(READ_MAXIMA, NULL)

typedef enum cc_stage { CC_STAGES(OCL_STAGE_NUMBER) STAGES } cc_stage;

/* The device's buffers. */
enum {
    B_PIXELS, /* the item's grey values */
    B_STEPS,  /* B_STEPS and B_STEPS + 1: prepared grey values; each preparing stage reads one of
                 these buffers and writes the other */
    B_EXTREME = B_STEPS + 2, /* the extreme grey value within each pixel's disc */
    B_WEIGHTS,               /* the weights of the Gaussian filter */
    B_DISC,                  /* half widths of the rows of the opening's disc */
    B_MASK,                  /* a bit for each pixel: 1 in a cell */
    B_ROOTS,                 /* a bit for each union-find node: 1 if it is a root */
    B_RANKS,                 /* the number of roots before each word of B_ROOTS */
    B_LINK,     /* parents of the union-find nodes; before MASK, sums of grey values; in
                   DISTANCE_COLUMNS, parabolas; then the output of cc_maxima */
    B_LABELS,   /* an int32 for each pixel: its label; or the output of cc_roots, of
                   cc_distance_rows, then of cc_ascend */
    B_DISTANCE, /* for each pixel: the squared distance from the background */
    B_HISTOGRAM,
    B_COUNTS, /* the number of roots in each chunk of B_ROOTS */
    B_BORDER, /* the roots of the background's border pixels */
    B_TABLE,  /* the regions' measurements */
    B_FINAL   /* for each preliminary label: the final label, or 0 if a filter removes the region */
};

typedef struct cc_cl_worker {
    ocl_worker ocl; /* its kernels are numbered by stage */
    const cc_params *params;
    void *host;            /* a worker of the CPU backend, cc_cpu */
    size_t group;          /* work-items of a work-group */
    ocl_pace pace[STAGES]; /* the work of a launch, in the unit of stage_work */
    uint32_t nx, ny;       /* the size of the picture in pixels */
    uint32_t stride;       /* 32-bit words of a row of the mask; a multiple of 2, as on the host */
    uint32_t strip_rows;   /* rows of each strip but the last, which may have fewer; ny if the whole
                              picture fits the device */
    uint32_t y0, rows;  /* first row and number of rows of the current strip; rows is 0 before the
                           first strip */
    uint32_t threshold; /* the given threshold, or 0 until end_histogram finds one */
    an_gauss gauss;     /* the weights of the Gaussian filter */
    int values;         /* the buffer with the grey values after the last preparing stage */
    cc_stage stage;     /* the current stage; STAGES after the last one */
    uint64_t done;      /* amount of the stage's work, in the unit of stage_work, that is done */
    size_t table_rows;  /* 1 + number of regions if the device measures them, else 0 */
    bool has_table;     /* the state holds the table of regions */
    bool too_many;     /* a filter has to remove regions, but their table does not fit the device */
    bool host_only;    /* the host does all the remaining work */
    double label_ms;   /* device time of the stages MASK and TILES to PAINT */
    double measure_ms; /* device time of the stages TABLE and MEASURE */
} cc_cl_worker;

/* Whether the picture does not fit the device, and is processed in strips of rows. */
static inline bool in_strips(const cc_cl_worker *w)
{
    return w->strip_rows < w->ny;
}

/* The number of pixels of the current strip. */
static inline uint64_t strip_pixels(const cc_cl_worker *w)
{
    return (uint64_t)w->nx * w->rows;
}

/* Whether a stage's components have connectivity 8. If cells have connectivity 8, the background
 * has 4, and vice versa. */
static inline bool eight_connected(const cc_cl_worker *w, cc_stage s)
{
    return w->params->eight_connected != (s >= BACKGROUND_TILES && s <= FILL);
}

/* The number of 32-bit words in the mask of the current strip. */
static inline uint64_t strip_words(const cc_cl_worker *w)
{
    return (uint64_t)w->rows * w->stride;
}

/* The buffer that the next preparing stage writes the grey values to. */
static inline int next_values(const cc_cl_worker *w)
{
    return w->values == B_STEPS ? B_STEPS + 1 : B_STEPS;
}

/* Queues launches for a part of the work of the worker's stage: `count` units from `first` on, in
 * the unit of stage_work (cellcount_cl.c). */
tc_status cc_launch(cc_cl_worker *w, uint64_t first, uint64_t count, tc_err *err);

#endif
