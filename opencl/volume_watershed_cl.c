/*
 * The analysis volume's watershed on an OpenCL device: launches the kernels of watershed.cl, which
 * do the phases of app/analysis/volume/watershed.c. If the result has labels, a worker of the CPU
 * backend ("the host") applies the filters and makes the table of cells; otherwise the device makes
 * the table.
 *
 * Terms: a voxel's height is a constant minus its blurred grey value. Each voxel leads uphill to
 * its highest neighbour ("uphill neighbour"), and over further ones to a maximum. A plateau is a
 * set of connected voxels of equal height. A saddle is a pass between two maxima. Maxima between
 * which there is only a shallow saddle are joined to a hill; each hill is a cell. The voxels
 * between cells are membrane.
 *
 * A stack that does not fit the device is processed in slabs of consecutive slices. A slab has a
 * margin: the slices on either side that its blur and its voxels' neighbours need. The device then
 * only blurs and finds the uphill neighbours; the host does the other phases. The device also stops
 * early if there are more saddles than its table can hold, as in noisy stacks, or if joining maxima
 * takes more than MOST_ROUNDS rounds. Then the host does all phases after the search for the
 * maximum of each voxel.
 */
#include <stdlib.h>

#include "app/analysis/common/watershed_core.h"
#include "app/base/sort.h"
#include "opencl/volume_table.h"
#include "opencl/volume_watershed_cl.h"

extern const ocl_source ocl_source_watershed;

enum {
    MAX_GROUP = 256,  /* the most work-items of a work-group */
    MOST_STEPS = 13,  /* half of the 26 neighbours of a voxel */
    MOST_ROUNDS = 256 /* the most rounds of joining maxima; real stacks take about 20 */
};

/* The device's stages in the order in which they run, each with its kernel. A stage without a
 * kernel copies data to or from the device. The stages FIND_BEST to FOLLOW_JOINS are a round of
 * joining, which is repeated. */
#define EACH_STAGE(STAGE)                                                      \
    STAGE(PUT, NULL)                                                           \
    STAGE(BLUR_X, "ws_blur_x")                                                 \
    STAGE(BLUR_Y, "ws_blur_y")                                                 \
    STAGE(BLUR_Z, "ws_blur_z")                                                 \
    STAGE(UPHILL, "ws_uphill")                                                 \
    STAGE(READ_HEIGHTS, NULL)                                                  \
    STAGE(READ_UPHILL, NULL) /* READ_HEIGHTS and READ_UPHILL: only in slabs */ \
    STAGE(PLATEAU_EDGES, "ws_plateau_edges")                                   \
    STAGE(SETTLE, "ws_settle")                                                 \
    STAGE(GROW_INWARDS, "ws_grow_inwards")                                     \
    STAGE(PLATEAUS, "ws_plateaus")                                             \
    STAGE(JOIN_PLATEAUS, "ws_join_plateaus")                                   \
    STAGE(END_PLATEAUS, "ws_end_plateaus")                                     \
    STAGE(TOPS, "ws_tops")                                                     \
    STAGE(CLEAR_SLOTS, "ws_clear_slots")                                       \
    STAGE(SADDLES, "ws_saddles")                                               \
    STAGE(MAXIMA, "ws_maxima")                                                 \
    STAGE(LIST, "ws_list")                                                     \
    STAGE(FIND_BEST, "ws_find_best")                                           \
    STAGE(FIND_EARLIER, "ws_find_earlier")                                     \
    STAGE(FIND_LATER, "ws_find_later")                                         \
    STAGE(JOIN_HILLS, "ws_join_hills")                                         \
    STAGE(FOLLOW_JOINS, "ws_follow_joins")                                     \
    STAGE(SET_HILLS, "ws_set_hills")                                           \
    STAGE(CLEAR_FIRSTS, "ws_clear_firsts")                                     \
    STAGE(FIND_FIRSTS, "ws_find_firsts")                                       \
    STAGE(LIST_FIRSTS, "ws_list_firsts")                                       \
    STAGE(NUMBER_CELLS, "ws_number_cells")                                     \
    STAGE(LABEL, "ws_label")                                                   \
    STAGE(CLEAR_TABLE, "vol_clear_table")                                      \
    STAGE(MEASURE, "vol_measure") /* if the device makes a table */            \
    STAGE(READ_LABELS, NULL)      /* if the device makes no table */           \
    STAGE(READ_TOPS_HEIGHTS, NULL)                                             \
    STAGE(READ_TOPS, NULL) /* READ_TOPS_HEIGHTS and READ_TOPS: after an overflow */

typedef enum stage { EACH_STAGE(OCL_STAGE_NUMBER) STAGES } stage;
static const char *const kernel_names[STAGES] = { EACH_STAGE(OCL_STAGE_KERNEL) };

/* The device's buffers; watershed.cl describes the planes and the table of saddles. */
enum {
    B_PIXELS,      /* grey values of the slices on the device */
    B_HEIGHT,      /* the plane `height` */
    B_UP,          /* the plane `up` */
    B_TOP,         /* the plane `top` */
    B_WEIGHTS,     /* the Gaussian filter's weights */
    B_STEPS,       /* the steps that later_steps returns */
    B_SLOT,        /* the keys of the hash table of saddles */
    B_SLOT_HEIGHT, /* the heights of the hash table of saddles */
    /* Two lists of saddles: each round of joining copies the saddles that are still needed from one
     * list to the other. */
    B_LIST,
    B_NEXT_LIST,
    B_MAXIMA_TABLE, /* the table of maxima */
    B_CELLS,        /* the first voxels of the cells */
    B_TABLE,        /* the table of cells */
    /* The following are counters of two words; only B_N_SADDLES uses the second word. */
    B_LISTED,      /* number of voxels in the list of voxels of plateaus */
    B_N_MAXIMA,    /* number of maxima */
    B_N_SADDLES,   /* number of slots in use; second word: whether there were too few slots */
    B_LIST_LENGTH, /* number of saddles in the list that is being written */
    B_FIRSTS,      /* number of voxels in B_CELLS */
    B_MEMBRANE,    /* number of voxels of membrane */
    BUFFERS
};

typedef struct ws_worker {
    ocl_worker ocl; /* its kernels are numbered by stage */
    const vol_params *params;
    void *host;            /* a worker of the CPU backend, vol_cpu */
    size_t group;          /* work-items of a work-group */
    ocl_pace pace[STAGES]; /* the work of a launch, in the unit of stage_work */
    an_gauss gauss;        /* the weights of the Gaussian filter */
    uint32_t nx, ny, nz;   /* the size of the stack in voxels */
    uint32_t slab_slices; /* slices of each slab but the last, which may have fewer; nz if the whole
                             stack fits the device */
    uint32_t z0, slices; /* first slice and number of slices of the current slab; slices is 0 before
                            the first slab */
    uint32_t from, to;   /* slices [from, to) are on the device: the slab and its margin */
    uint32_t slots;      /* slots of the hash table of saddles; a power of two */
    uint32_t n_listed;   /* voxels in the list of voxels of plateaus */
    uint32_t n_settled;  /* the first n_settled voxels of that list are final */
    uint32_t n_maxima, n_cells; /* numbers of maxima and of cells */
    uint32_t membrane;          /* voxels of membrane that belong to no cell */
    uint32_t n_saddles;         /* saddles in the list of saddles */
    uint32_t rounds;            /* number of finished rounds of joining */
    bool swapped;   /* the list of saddles is in B_NEXT_LIST, and FIND_BEST copies it to B_LIST */
    stage stage;    /* the current stage; STAGES after the last one */
    uint64_t done;  /* amount of the stage's work, in the unit of stage_work, that is done */
    bool overflow;  /* too many saddles for the device, or too many rounds */
    bool has_table; /* the device makes the table of cells */
    bool host_only; /* the host does all the remaining work */
} ws_worker;

/* Whether the stack does not fit the device, and is processed in slabs. */
static bool in_slabs(const ws_worker *w)
{
    return w->slab_slices < w->nz;
}

/* Returns the number of voxels of a slice. */
static size_t slice_voxels(const ws_worker *w)
{
    return (size_t)w->nx * w->ny;
}

/* Returns the number of slices on either side of a voxel that the blur reads to compute the voxel's
 * height. */
static uint32_t blur_margin(const ws_worker *w)
{
    return w->params->is_3d ? (uint32_t)w->gauss.radius : 0;
}

/* Sets [*first, *end) to the voxels of the current slab with `margin` slices on either side, as
 * numbers counted from the first slice on the device. margin: 1 for heights, as a voxel's
 * neighbours need heights, too; 0 for the links to uphill neighbours. */
static void slices_with_margin(const ws_worker *w, uint32_t margin, uint32_t *first, uint32_t *end)
{
    const uint32_t more = w->params->is_3d ? margin : 0;
    const uint32_t lo = w->z0 > more ? w->z0 - more : 0;
    const uint32_t hi = w->nz - w->z0 - w->slices > more ? w->z0 + w->slices + more : w->nz;

    *first = (uint32_t)((lo - w->from) * slice_voxels(w));
    *end = (uint32_t)((hi - w->from) * slice_voxels(w));
}

static uint32_t voxels_on_device(const ws_worker *w)
{
    return (uint32_t)((w->to - w->from) * slice_voxels(w));
}

/* Sets step[] to the steps from a voxel to the neighbours that come later in raster order (half of
 * all neighbours), as differences of voxel numbers. Returns the number of steps. */
static uint32_t later_steps(const ws_worker *w, int32_t step[MOST_STEPS])
{
    uint32_t n = 0;

    /* Codes 0 to 26 number the 3 x 3 x 3 voxels around a voxel, itself 13, in raster order. */
    for (int code = 14; code < 27; code++) {
        const int dz = code / 9 - 1, dy = code / 3 % 3 - 1, dx = code % 3 - 1;

        if (ws_is_step(dx, dy, dz, w->params->corners) && (w->params->is_3d || dz == 0))
            step[n++] = (dz * (int32_t)w->ny + dy) * (int32_t)w->nx + dx;
    }
    return n;
}

/* Returns the amount of work of a stage in the current slab: a number of voxels, of entries of a
 * list or, for MEASURE, of slices. Returns 0 if the stage is left out. */
static uint64_t stage_work(const ws_worker *w, stage s)
{
    const bool whole = !in_slabs(w);
    uint32_t first, end;

    switch (s) {
    case PUT:
    case BLUR_X:
    case BLUR_Y: return voxels_on_device(w);
    case BLUR_Z:
        slices_with_margin(w, 1, &first, &end);
        return blur_margin(w) > 0 ? end - first : 0;
    case UPHILL: slices_with_margin(w, 0, &first, &end); return end - first;
    case READ_HEIGHTS:
    case READ_UPHILL: return whole ? 0 : w->slices * slice_voxels(w);
    case SETTLE:
    case GROW_INWARDS: return w->n_listed - w->n_settled;
    case CLEAR_SLOTS:
    case LIST: return whole ? w->slots : 0;
    case FIND_BEST:
    case FIND_EARLIER:
    case FIND_LATER:
    case JOIN_HILLS: return w->n_saddles;
    case FOLLOW_JOINS: return w->n_saddles > 0 ? w->n_maxima : 0;
    case SET_HILLS: return w->n_maxima;
    case NUMBER_CELLS: return w->n_cells;
    case CLEAR_TABLE: return w->has_table ? w->n_cells : 0;
    case MEASURE: return w->has_table && w->n_cells > 0 ? w->nz : 0;
    case READ_LABELS: return whole && !w->has_table ? voxels_on_device(w) : 0;
    case READ_TOPS_HEIGHTS:
    case READ_TOPS: return w->overflow ? voxels_on_device(w) : 0;
    default: return whole ? voxels_on_device(w) : 0;
    }
}

/* --- launches -------------------------------------------------------------------------------- */

/* The kernels' arguments nx, ny, nz (of the slices on the device), corners and depth. */
#define SHAPE(w)                                                      \
    OCL_INT((w)->nx), OCL_INT((w)->ny), OCL_INT((w)->to - (w)->from), \
        OCL_INT((w)->params->corners), OCL_INT((w)->params->is_3d)
/* Queues the kernel of the worker's stage for voxels or list entries [first, end); `first` and
 * `end` are the kernel's last arguments. */
#define LAUNCH(w, first, end, err, ...)                                                          \
    OCL_QUEUE(w, (int)(w)->stage, ocl_grid_of((w)->group, (size_t)((end) - (first)), 1, 1), err, \
              __VA_ARGS__, OCL_UINT(first), OCL_UINT(end))

/* Launches a pass of the blur: along x from B_PIXELS to B_UP, along y from B_UP to B_TOP, along z
 * from B_TOP to B_HEIGHT. If there is no pass along z, the pass along y writes to B_HEIGHT. */
static tc_status launch_blur(ws_worker *w, uint64_t first, uint64_t count, tc_err *err)
{
    const int radius = w->gauss.radius;
    /* Whether y is the last axis. The last pass converts sums to heights, below VOL_TOP. */
    const int last = blur_margin(w) == 0;
    uint32_t from = 0, end;

    if (w->stage == BLUR_X)
        return LAUNCH(w, first, first + count, err, OCL_BUFFER_ARG(w, B_PIXELS),
                      OCL_BUFFER_ARG(w, B_WEIGHTS), OCL_INT(radius), OCL_BUFFER_ARG(w, B_UP),
                      OCL_INT(w->nx));
    if (w->stage == BLUR_Y)
        return LAUNCH(w, first, first + count, err, OCL_BUFFER_ARG(w, B_UP),
                      OCL_BUFFER_ARG(w, B_WEIGHTS), OCL_INT(radius),
                      OCL_BUFFER_ARG(w, last ? B_HEIGHT : B_TOP), OCL_INT(w->nx), OCL_INT(w->ny),
                      OCL_UINT(last ? VOL_TOP : 0));
    slices_with_margin(w, 1, &from, &end);
    return LAUNCH(w, from + first, from + first + count, err, OCL_BUFFER_ARG(w, B_TOP),
                  OCL_BUFFER_ARG(w, B_WEIGHTS), OCL_INT(radius), OCL_BUFFER_ARG(w, B_HEIGHT),
                  OCL_INT(slice_voxels(w)), OCL_INT(w->from), OCL_INT(w->nz), OCL_UINT(VOL_TOP));
}

/* Launches a stage that finds uphill neighbours or maxima. */
static tc_status launch_uphill(ws_worker *w, uint64_t first, uint64_t end, tc_err *err)
{
    uint32_t from, to;

    switch (w->stage) {
    case UPHILL:
        slices_with_margin(w, 0, &from, &to);
        return LAUNCH(w, from + first, from + end, err, OCL_BUFFER_ARG(w, B_HEIGHT),
                      OCL_BUFFER_ARG(w, B_UP), SHAPE(w), OCL_INT(w->from * slice_voxels(w)));
    case PLATEAU_EDGES:
        return LAUNCH(w, first, end, err, OCL_BUFFER_ARG(w, B_HEIGHT), OCL_BUFFER_ARG(w, B_UP),
                      OCL_BUFFER_ARG(w, B_TOP), OCL_BUFFER_ARG(w, B_LISTED), SHAPE(w));
    case SETTLE:
        return LAUNCH(w, w->n_settled + first, w->n_settled + end, err, OCL_BUFFER_ARG(w, B_UP),
                      OCL_BUFFER_ARG(w, B_TOP));
    case GROW_INWARDS:
        return LAUNCH(w, w->n_settled + first, w->n_settled + end, err, OCL_BUFFER_ARG(w, B_HEIGHT),
                      OCL_BUFFER_ARG(w, B_UP), OCL_BUFFER_ARG(w, B_TOP),
                      OCL_BUFFER_ARG(w, B_LISTED), SHAPE(w));
    case PLATEAUS:
        return LAUNCH(w, first, end, err, OCL_BUFFER_ARG(w, B_UP), OCL_BUFFER_ARG(w, B_TOP));
    case JOIN_PLATEAUS:
        return LAUNCH(w, first, end, err, OCL_BUFFER_ARG(w, B_HEIGHT), OCL_BUFFER_ARG(w, B_TOP),
                      SHAPE(w));
    case END_PLATEAUS:
        return LAUNCH(w, first, end, err, OCL_BUFFER_ARG(w, B_UP), OCL_BUFFER_ARG(w, B_TOP),
                      OCL_BUFFER_ARG(w, B_N_MAXIMA));
    default: /* TOPS */
        return LAUNCH(w, first, end, err, OCL_BUFFER_ARG(w, B_UP), OCL_BUFFER_ARG(w, B_TOP));
    }
}

/* Launches a stage that finds and lists saddles, or makes the table of maxima. */
static tc_status launch_saddles(ws_worker *w, uint64_t first, uint64_t end, tc_err *err)
{
    int32_t step[MOST_STEPS];
    const uint32_t steps = later_steps(w, step);

    if (w->stage == CLEAR_SLOTS)
        return LAUNCH(w, first, end, err, OCL_BUFFER_ARG(w, B_SLOT),
                      OCL_BUFFER_ARG(w, B_SLOT_HEIGHT));
    if (w->stage == MAXIMA)
        return LAUNCH(w, first, end, err, OCL_BUFFER_ARG(w, B_HEIGHT), OCL_BUFFER_ARG(w, B_UP),
                      OCL_BUFFER_ARG(w, B_MAXIMA_TABLE));
    if (w->stage == LIST)
        return LAUNCH(w, first, end, err, OCL_BUFFER_ARG(w, B_UP), OCL_BUFFER_ARG(w, B_TOP),
                      OCL_BUFFER_ARG(w, B_STEPS), OCL_BUFFER_ARG(w, B_SLOT),
                      OCL_BUFFER_ARG(w, B_SLOT_HEIGHT), OCL_BUFFER_ARG(w, B_LIST),
                      OCL_BUFFER_ARG(w, B_LIST_LENGTH), OCL_UINT(steps));
    /* SADDLES; slots - 1 is the mask that reduces a hash to the number of a slot. */
    return LAUNCH(w, first, end, err, OCL_BUFFER_ARG(w, B_HEIGHT), OCL_BUFFER_ARG(w, B_TOP),
                  OCL_BUFFER_ARG(w, B_STEPS), OCL_BUFFER_ARG(w, B_SLOT),
                  OCL_BUFFER_ARG(w, B_SLOT_HEIGHT), OCL_BUFFER_ARG(w, B_N_SADDLES),
                  OCL_UINT(w->slots - 1), SHAPE(w), OCL_UINT(steps),
                  OCL_UINT(vol_least_rise(w->params)));
}

/* Launches a stage of a round of joining. FIND_BEST copies saddles from one list to the other:
 * B_LIST + B_NEXT_LIST - list is the other list. */
static tc_status launch_joining(ws_worker *w, uint64_t first, uint64_t end, tc_err *err)
{
    const int list = w->swapped ? B_NEXT_LIST : B_LIST;

    if (w->stage == FIND_BEST)
        return LAUNCH(w, first, end, err, OCL_BUFFER_ARG(w, B_MAXIMA_TABLE),
                      OCL_BUFFER_ARG(w, list), OCL_BUFFER_ARG(w, B_LIST + B_NEXT_LIST - list),
                      OCL_BUFFER_ARG(w, B_LIST_LENGTH), OCL_UINT(vol_least_rise(w->params)));
    if (w->stage == FOLLOW_JOINS)
        return LAUNCH(w, first, end, err, OCL_BUFFER_ARG(w, B_MAXIMA_TABLE));
    return LAUNCH(w, first, end, err, OCL_BUFFER_ARG(w, B_MAXIMA_TABLE), OCL_BUFFER_ARG(w, list));
}

/* Launches a stage that makes cells of the hills, labels the cells or measures them. In these
 * stages B_HEIGHT holds the cells' first voxels. */
static tc_status launch_cells(ws_worker *w, uint64_t first, uint64_t end, tc_err *err)
{
    const uint32_t threshold = vol_host_threshold(w->host);
    const int fill = w->params->fill;

    switch (w->stage) {
    case SET_HILLS:
        return LAUNCH(w, first, end, err, OCL_BUFFER_ARG(w, B_UP),
                      OCL_BUFFER_ARG(w, B_MAXIMA_TABLE));
    case CLEAR_FIRSTS: return LAUNCH(w, first, end, err, OCL_BUFFER_ARG(w, B_HEIGHT));
    case FIND_FIRSTS:
        return LAUNCH(w, first, end, err, OCL_BUFFER_ARG(w, B_PIXELS), OCL_BUFFER_ARG(w, B_UP),
                      OCL_BUFFER_ARG(w, B_TOP), OCL_BUFFER_ARG(w, B_HEIGHT), OCL_UINT(threshold),
                      OCL_INT(fill), OCL_INT(w->nx));
    case LIST_FIRSTS:
        return LAUNCH(w, first, end, err, OCL_BUFFER_ARG(w, B_PIXELS), OCL_BUFFER_ARG(w, B_UP),
                      OCL_BUFFER_ARG(w, B_TOP), OCL_BUFFER_ARG(w, B_HEIGHT),
                      OCL_BUFFER_ARG(w, B_CELLS), OCL_BUFFER_ARG(w, B_FIRSTS), OCL_UINT(threshold),
                      OCL_INT(fill));
    case NUMBER_CELLS:
        return LAUNCH(w, first, end, err, OCL_BUFFER_ARG(w, B_UP), OCL_BUFFER_ARG(w, B_TOP),
                      OCL_BUFFER_ARG(w, B_HEIGHT), OCL_BUFFER_ARG(w, B_CELLS));
    case CLEAR_TABLE: return LAUNCH(w, first, end, err, OCL_BUFFER_ARG(w, B_TABLE));
    case MEASURE:
        return OCL_QUEUE(w, MEASURE,
                         ocl_grid_of(w->group, w->nx,
                                     (w->ny + VOL_ROWS_PER_ITEM - 1) / VOL_ROWS_PER_ITEM,
                                     (size_t)(end - first)),
                         err, OCL_BUFFER_ARG(w, B_TOP), OCL_BUFFER_ARG(w, B_TABLE), OCL_INT(w->nx),
                         OCL_INT(w->ny), OCL_INT(first));
    default: /* LABEL */
        return LAUNCH(w, first, end, err, OCL_BUFFER_ARG(w, B_PIXELS), OCL_BUFFER_ARG(w, B_UP),
                      OCL_BUFFER_ARG(w, B_TOP), OCL_BUFFER_ARG(w, B_HEIGHT),
                      OCL_BUFFER_ARG(w, B_MEMBRANE), OCL_UINT(threshold), OCL_INT(fill));
    }
}

/* Launches the worker's stage for `count` units (stage_work), from number `first` on. */
static tc_status launch_stage(ws_worker *w, uint64_t first, uint64_t count, tc_err *err)
{
    if (w->stage <= BLUR_Z)
        return launch_blur(w, first, count, err);
    if (w->stage <= TOPS)
        return launch_uphill(w, first, first + count, err);
    if (w->stage <= LIST)
        return launch_saddles(w, first, first + count, err);
    if (w->stage <= FOLLOW_JOINS)
        return launch_joining(w, first, first + count, err);
    return launch_cells(w, first, first + count, err);
}

/* --- copies ---------------------------------------------------------------------------------- */

/* Copies `count` pixels to B_PIXELS, from pixel number `first` of the slices on the device. */
static tc_status put_pixels(ws_worker *w, uint64_t first, uint64_t count, tc_err *err)
{
    const wu_pixels *const px = w->ocl.work->pixels;
    const size_t bytes = px->bits / 8;

    return ocl_upload(&w->ocl, B_PIXELS, first * bytes,
                      ocl_pixels_from(px, w->from * slice_voxels(w) + first), count * bytes, err);
}

/* Copies voxels [first, first + count) of the current slab, counted without the margin, from a
 * buffer to their place in `to`, a plane of the whole stack. */
static tc_status read_plane(ws_worker *w, int buffer, int32_t *to, uint64_t first, uint64_t count,
                            tc_err *err)
{
    const size_t on_device = (w->z0 - w->from) * slice_voxels(w) + first;

    return ocl_download(&w->ocl, buffer, on_device * sizeof *to,
                        to + w->z0 * slice_voxels(w) + first, count * sizeof *to, err);
}

/* Does `count` units (see stage_work) of the stage's work, from w->done on, by one launch or one
 * copy. */
static tc_status run_part(ws_worker *w, vol_state *state, uint64_t count, tc_err *err)
{
    switch (w->stage) {
    case PUT: return put_pixels(w, w->done, count, err);
    case READ_HEIGHTS:
    case READ_TOPS_HEIGHTS:
    case READ_LABELS:
        state->in_progress = 1;
        state->head.chunks_done = 0;
        return read_plane(w, w->stage == READ_LABELS ? B_TOP : B_HEIGHT, state->nodes + 1, w->done,
                          count, err);
    case READ_UPHILL:
    case READ_TOPS:
        return read_plane(w, w->stage == READ_UPHILL ? B_UP : B_TOP, vol_host_directions(w->host),
                          w->done, count, err);
    default:
        return ocl_end_launch(&w->ocl, launch_stage(w, w->done, count, err), &w->pace[w->stage],
                              count, err);
    }
}

/* Reads the two words of a counter. */
static tc_status read_count(ws_worker *w, int buffer, uint32_t out[2], tc_err *err)
{
    return ocl_download(&w->ocl, buffer, 0, out, 2 * sizeof *out, err);
}

/* --- the ends of stages ---------------------------------------------------------------------- */

/* After PLATEAU_EDGES or GROW_INWARDS: updates n_settled and n_listed. The stages SETTLE and
 * GROW_INWARDS are a round: it extends, by one voxel, the part of each plateau in which the uphill
 * neighbours are known. If GROW_INWARDS has listed further voxels, begins another round with these.
 */
static tc_status end_plateau_round(ws_worker *w, tc_err *err)
{
    uint32_t count[2] = { 0, 0 };
    const tc_status status = read_count(w, B_LISTED, count, err);

    w->n_settled = w->n_listed;
    w->n_listed = count[0];
    if (status == TC_OK && w->stage == GROW_INWARDS && w->n_listed > w->n_settled)
        w->stage = SETTLE - 1; /* so that the next stage is SETTLE */
    return status;
}

/* After SADDLES: allocates the lists of saddles, the table of maxima, and the list of cells, which
 * are at most as many as the maxima. Sets `overflow`, so that the host continues, if the device has
 * too little memory for these or the hash table had too few slots. */
static tc_status end_saddles(ws_worker *w, tc_err *err)
{
    uint32_t n_saddles[2] = { 0, 0 }, n_maxima[2] = { 0, 0 };
    tc_status status = read_count(w, B_N_SADDLES, n_saddles, err);

    if (status == TC_OK)
        status = read_count(w, B_N_MAXIMA, n_maxima, err);
    if (status != TC_OK)
        return status;
    w->n_maxima = n_maxima[0];
    const ocl_buffer_need needs[] = {
        { B_LIST, (n_saddles[0] + (uint64_t)1) * VOL_SADDLE_COLUMNS * sizeof(cl_int), "volume",
          NULL },
        { B_NEXT_LIST, (n_saddles[0] + (uint64_t)1) * VOL_SADDLE_COLUMNS * sizeof(cl_int), "volume",
          NULL },
        { B_MAXIMA_TABLE, w->n_maxima * (uint64_t)VOL_MAXIMUM_COLUMNS * sizeof(cl_int), "volume",
          NULL },
        { B_CELLS, (w->n_maxima + (uint64_t)1) * sizeof(cl_int), "volume", NULL }
    };

    if (n_saddles[1] == 0)
        status = ocl_make_buffers(&w->ocl, needs, sizeof needs / sizeof needs[0], err);
    w->overflow = n_saddles[1] != 0 || status == TC_TOO_LARGE;
    return w->overflow ? TC_OK : status;
}

/* After LIST or FIND_BEST: reads how many saddles the stage has listed, and resets the counter. */
static tc_status end_list(ws_worker *w, tc_err *err)
{
    static const uint32_t zeros[2] = { 0, 0 };
    uint32_t count[2] = { 0, 0 };
    const tc_status status = read_count(w, B_LIST_LENGTH, count, err);

    w->n_saddles = count[0];
    w->swapped = w->stage == FIND_BEST && !w->swapped;
    return status == TC_OK ? ocl_upload(&w->ocl, B_LIST_LENGTH, 0, zeros, sizeof zeros, err)
                           : status;
}

/* For tc_sort: compares two int32_t. */
static int compare_values(const void *va, const void *vb)
{
    const int32_t a = *(const int32_t *)va, b = *(const int32_t *)vb;

    return a < b ? -1 : a > b;
}

/* After LIST_FIRSTS: sorts the list of the cells' first voxels (B_CELLS), so that cells are
 * numbered in raster order. */
static tc_status end_firsts(ws_worker *w, tc_err *err)
{
    uint32_t count[2] = { 0, 0 };
    TC_AUTOFREE int32_t *list = NULL;
    tc_status status = read_count(w, B_FIRSTS, count, err);

    w->n_cells = count[0];
    return_if_error(status);
    if ((list = malloc((w->n_cells + (size_t)1) * sizeof *list)) == NULL)
        return tc_no_memory(err, "the cells");
    return_if_error(ocl_download(&w->ocl, B_CELLS, 0, list, w->n_cells * sizeof *list, err));
    return_if_error(
        tc_sort(list, w->n_cells, sizeof *list, compare_values, w->ocl.work->poll, err));
    return ocl_upload(&w->ocl, B_CELLS, 0, list, w->n_cells * sizeof *list, err);
}

/* Begins the slab whose first slice is z0. */
static tc_status begin_slab(ws_worker *w, uint32_t z0, tc_err *err)
{
    static const uint32_t zeros[2] = { 0, 0 };
    const uint32_t margin = w->params->is_3d ? blur_margin(w) + 1 : 0;

    w->z0 = z0;
    w->slices = w->nz - z0 < w->slab_slices ? w->nz - z0 : w->slab_slices;
    w->from = z0 > margin ? z0 - margin : 0;
    w->to = w->nz - z0 - w->slices > margin ? z0 + w->slices + margin : w->nz;
    w->stage = PUT;
    w->done = 0;
    for (int b = B_LISTED; b < BUFFERS; b++)
        return_if_error(ocl_upload(&w->ocl, b, 0, zeros, sizeof zeros, err));
    return TC_OK;
}

/* After LABEL: reads the number of voxels of membrane, and allocates the table of cells if the
 * device is to make it. */
static tc_status end_labels(ws_worker *w, tc_err *err)
{
    uint32_t membrane[2] = { 0, 0 };
    const tc_status status = read_count(w, B_MEMBRANE, membrane, err);

    w->membrane = membrane[0];
    return status == TC_OK ? vol_table_begin(&w->ocl, B_TABLE, w->n_cells, &w->has_table, err)
                           : status;
}

/* Writes the device's counts to *head, the state or a copy of it. */
static void copy_counts(const ws_worker *w, vol_state *head)
{
    head->membrane = w->membrane;
    head->cells = w->n_cells;
}

/* After the device's last stage: if the device has made the table, the item is done; otherwise the
 * host continues. */
static tc_status finish_device(ws_worker *w, vol_state *state, tc_err *err)
{
    w->host_only = !w->has_table;
    if (w->has_table)
        return TC_OK;
    if (in_slabs(w) || w->overflow)
        return vol_host_resume(w->host, state, in_slabs(w) ? VOL_EDGES : VOL_SADDLES, 0, err);
    copy_counts(w, state);
    return vol_host_resume(w->host, state, VOL_SIZES, 0, err);
}

/* Ends the current stage and sets the next one. After the last stage, begins the next slab, or ends
 * the device's part of the work if there is none. */
static tc_status end_stage(ws_worker *w, vol_state *state, tc_err *err)
{
    tc_status status = TC_OK;

    if (w->stage == PLATEAU_EDGES || w->stage == GROW_INWARDS)
        status = end_plateau_round(w, err);
    else if (w->stage == SADDLES)
        status = end_saddles(w, err);
    else if (w->stage == LIST || w->stage == FIND_BEST)
        status = end_list(w, err);
    else if (w->stage == LIST_FIRSTS)
        status = end_firsts(w, err);
    else if (w->stage == LABEL)
        status = end_labels(w, err);
    if (status != TC_OK)
        return status;
    w->done = 0;
    if (w->stage == FOLLOW_JOINS) {
        w->overflow = ++w->rounds == MOST_ROUNDS;
        w->stage = LIST; /* so that the next stage is FIND_BEST */
    }
    do
        w->stage = w->overflow && w->stage < READ_TOPS_HEIGHTS ? READ_TOPS_HEIGHTS : w->stage + 1;
    while (w->stage < STAGES && stage_work(w, w->stage) == 0);
    if (w->stage < STAGES)
        return TC_OK;
    return w->z0 + w->slices < w->nz ? begin_slab(w, w->z0 + w->slices, err)
                                     : finish_device(w, state, err);
}

/* --- the backend ----------------------------------------------------------------------------- */

/* Returns the progress, in chunks of the plan, for display. The device's stages count as the first
 * half of the plan. */
static uint64_t progress_chunks(const ws_worker *w)
{
    const double slab = ((double)w->stage + 1) / STAGES;

    return (uint64_t)((double)w->ocl.work->plan.chunks / 2 * (w->z0 + slab * w->slices) / w->nz);
}

/* Runs parts of stages until AN_STEP_SECONDS have passed or the stages end. */
static tc_status run_stages(ws_worker *w, vol_state *state, tc_err *err)
{
    tc_status status = w->slices == 0 ? begin_slab(w, 0, err) : TC_OK;
    const double end = tc_seconds() + AN_STEP_SECONDS;

    while (status == TC_OK && !w->host_only && w->stage < STAGES) {
        const uint64_t left = stage_work(w, w->stage) - w->done;
        const uint64_t count = ocl_pace_next(&w->pace[w->stage], left);

        return_if_error(run_part(w, state, count, err));
        w->done += count;
        if (count == left)
            status = end_stage(w, state, err);
        if (tc_seconds() >= end)
            break;
    }
    return status;
}

tc_status vol_watershed_step(void *worker, vol_state *state, uint64_t *chunks_done, tc_err *err)
{
    ws_worker *const w = worker;
    tc_status status;
    bool done;

    if (w->host_only)
        return vol_host_step(w->host, state, VOL_PHASES, chunks_done, err);
    if (vol_host_phase(w->host) < VOL_BLUR) {
        status = vol_host_step(w->host, state, VOL_BLUR, chunks_done, err);
        return status == TC_OK ? TC_MORE : status;
    }
    status = run_stages(w, state, err);
    done = status == TC_OK && w->stage == STAGES && w->has_table;
    *chunks_done = done ? w->ocl.work->plan.chunks : progress_chunks(w);
    return status == TC_OK && !done ? TC_MORE : status;
}

tc_status vol_watershed_finish(void *worker, const vol_state *state, size_t item_index,
                               wu_output *out, tc_err *err)
{
    ws_worker *const w = worker;
    vol_state head = *state;

    if (!w->has_table)
        return TC_MORE;
    copy_counts(w, &head);
    return vol_table_finish(&w->ocl, B_TABLE, &head, item_index, out, err);
}

static void free_worker(void *worker)
{
    ws_worker *const w = worker;

    if (w->host != NULL)
        vol_cpu.close(&w->host);
}

/* The number of slots of the hash table of saddles: a power of two, and at least one slot for every
 * four voxels, which is enough except for noisy stacks. */
static uint32_t choose_slots(uint64_t voxels)
{
    uint32_t slots = 1024;

    while (slots < voxels / 4)
        slots *= 2;
    return slots;
}

/* Returns the bytes of device memory that a slab of `slices` slices and its margin need. If
 * `whole`, returns the bytes for the whole stack with the hash table of saddles (8 bytes for each
 * slot) and with the lists of saddles and cells, which are assumed to need as much as the hash
 * table. */
static uint64_t slab_bytes(const ws_worker *w, uint64_t slices, bool whole)
{
    const uint64_t margin = w->params->is_3d ? 2 * ((uint64_t)blur_margin(w) + 1) : 0;
    const uint64_t on_device = whole || slices + margin > w->nz ? w->nz : slices + margin,
                   n = on_device * slice_voxels(w);

    /* Three planes and the pixels; 4096 bytes for the small buffers. */
    return n * (3 * sizeof(cl_int) + w->ocl.work->pixels->bits / 8) +
           (whole ? 16 * (uint64_t)choose_slots(n) : 0) + 4096;
}

/* Whether the device has slab_bytes of free memory. As no buffer has more than a third of these
 * bytes, the greatest buffer size that the device allows is compared with a third. */
static bool slab_fits(const ws_worker *w, uint64_t slices, bool whole)
{
    const ocl_device *const d = w->ocl.device;
    const uint64_t bytes = slab_bytes(w, slices, whole);

    return bytes <= d->memory_limit - d->memory_used && bytes / 3 <= d->info.max_alloc_bytes;
}

/* Sets slab_slices to nz if the whole stack fits the device and the keys of the hash table of
 * saddles (voxel * steps + step) fit 32 bits; otherwise to the most slices that fit, which may be
 * 0. */
static void choose_slabs(ws_worker *w)
{
    int32_t step[MOST_STEPS];
    uint32_t at_most = w->nz - 1, fitting = 0;

    if (slab_fits(w, w->nz, true) &&
        w->nz * slice_voxels(w) * later_steps(w, step) < VOL_FREE_SLOT) {
        w->slab_slices = w->nz;
        return;
    }
    while (fitting < at_most) {
        const uint32_t middle = at_most - (at_most - fitting) / 2;

        if (slab_fits(w, middle, false))
            fitting = middle;
        else
            at_most = middle - 1;
    }
    w->slab_slices = fitting;
}

static tc_status make_buffers(ws_worker *w, tc_err *err)
{
    const uint32_t margin = w->params->is_3d ? 2 * (blur_margin(w) + 1) : 0;
    const uint64_t slices = w->nz - w->slab_slices > margin ? w->slab_slices + margin : w->nz;
    const uint64_t n = slices * slice_voxels(w), word = sizeof(cl_uint);
    int32_t step[MOST_STEPS] = { 0 };

    w->slots = choose_slots(n);
    later_steps(w, step);
    const ocl_buffer_need needs[] = {
        { B_PIXELS, n * (w->ocl.work->pixels->bits / 8), "volume", NULL },
        { B_HEIGHT, n * word, "volume", NULL },
        { B_UP, n * word, "volume", NULL },
        { B_TOP, n * word, "volume", NULL },
        { B_WEIGHTS, sizeof w->gauss.weight, "volume", w->gauss.weight },
        { B_STEPS, sizeof step, "volume", step },
        { B_SLOT, in_slabs(w) ? 0 : w->slots * word, "volume", NULL },
        { B_SLOT_HEIGHT, in_slabs(w) ? 0 : w->slots * word, "volume", NULL },
        { B_LISTED, 2 * word, "volume", NULL },
        { B_N_MAXIMA, 2 * word, "volume", NULL },
        { B_N_SADDLES, 2 * word, "volume", NULL },
        { B_LIST_LENGTH, 2 * word, "volume", NULL },
        { B_FIRSTS, 2 * word, "volume", NULL },
        { B_MEMBRANE, 2 * word, "volume", NULL }
    };

    return ocl_make_buffers(&w->ocl, needs, sizeof needs / sizeof needs[0], err);
}

/* Initialises the paces. The first launch of a stage processes 2^14 voxels or list entries, or the
 * slices that contain as many voxels. A copy always transfers at most 2^24 voxels. */
static void set_paces(ws_worker *w)
{
    const double first_launch = 1 << 14;

    for (int s = 0; s < STAGES; s++) {
        const uint64_t copied = (uint64_t)1 << 24, voxels = (uint64_t)w->nz * slice_voxels(w);

        if (kernel_names[s] == NULL)
            ocl_pace_begin(&w->ocl, &w->pace[s], (double)copied, copied);
        else
            ocl_pace_begin(&w->ocl, &w->pace[s],
                           s == MEASURE ? first_launch / (double)slice_voxels(w) : first_launch,
                           voxels + w->slots);
    }
}

static tc_status open_worker(void *worker, const void *state, tc_err *err)
{
    ws_worker *const w = worker;
    const an_work *const work = w->ocl.work;
    const bool is_16_bit = work->pixels->bits == 16;
    return_if_error(vol_cpu.open(work, state, &w->host, err));
    w->params = work->params;
    w->nx = work->item->nx;
    w->ny = work->item->ny;
    w->nz = work->item->nz;
    w->gauss = vol_blur_of(w->params, work->pixels).gauss;
    choose_slabs(w);
    w->host_only = w->slab_slices == 0 || vol_host_phase(w->host) >= VOL_RESUME;
    if (w->host_only)
        return TC_OK;
    w->group = ocl_group_size(w->ocl.device, MAX_GROUP);
    return_if_error(ocl_build_kernels(&w->ocl, &ocl_source_watershed, false, kernel_names, STAGES,
                                      err, "-DGROUP=%zu -DPIXEL=%s -DSUM=%s", w->group,
                                      is_16_bit ? "ushort" : "uchar",
                                      is_16_bit ? "ulong" : "uint"));
    return_if_error(make_buffers(w, err));
    set_paces(w);
    return TC_OK;
}

const ocl_launcher vol_watershed_launcher = { "volume", sizeof(ws_worker), open_worker,
                                              free_worker };
