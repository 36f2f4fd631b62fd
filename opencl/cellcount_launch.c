/* Queues the kernels (cellcount.cl) of cellcount's stages: the size and arguments of each launch.
 */
#include "opencl/cellcount_cl.h"

/* Queues the kernel of stage s with `items` work-items along x and `lines` along y. */
#define LAUNCH(w, s, items, lines, err, ...) \
    OCL_QUEUE(w, (int)(s), ocl_grid_of((w)->group, items, lines, 1), err, __VA_ARGS__)

/* Kernel arguments: the width and the height, in pixels, of the current strip (the rows of the
 * picture that are on the device), and the number of 32-bit words in a row of its mask. */
#define NX(w) OCL_UINT((w)->nx)
#define NY(w) OCL_UINT((w)->rows)
#define STRIDE(w) OCL_UINT((w)->stride)

/* Launches a stage that prepares grey values for the threshold. B_LINK, which holds union-find
 * links in later stages, serves these stages as scratch memory for sums of grey values. */
static tc_status launch_prepare(cc_cl_worker *w, cc_stage s, uint64_t first, uint64_t count,
                                tc_err *err)
{
    const cc_params *const p = w->params;
    const uint32_t bits = w->ocl.work->pixels->bits, most = (uint32_t)(((uint64_t)1 << bits) - 1),
                   middle = cc_middle_grey(bits);
    /* The stages from LOCAL_SUMS on subtract the mean of the window of a local threshold. The
     * stages before remove the background, which is estimated in a disc or square of p->radius. */
    const int32_t radius = s >= LOCAL_SUMS ? p->window / 2 : p->radius,
                  ratio = s < LOCAL_SUMS && p->ratio;
    /* The background of an opening takes two stages: EXTREME computes, for each pixel, the minimum
     * within its disc (dark cells: the maximum). GROUND computes the maximum (dark cells: the
     * minimum) of these values within the disc, and removes this background from the pixel. */
    const bool is_second = s == GROUND;
    /* Whether the background is estimated by fitted lines, not by the mean of a square. */
    const bool fits_lines = s < LOCAL_SUMS && p->ground == CC_LINES;
    /* cc_disc finds maxima, or minima if `flip` has all bits of a grey value set. */
    const uint32_t flip = p->bright != is_second ? most : 0;
    /* The grey value that the background becomes when it is removed by GROUND. */
    const uint32_t level = !p->bright ? most : ratio ? middle : 0;

    switch (s) {
    case SMOOTH_X:
        return LAUNCH(w, s, w->nx, count, err, OCL_BUFFER_ARG(w, w->values),
                      OCL_BUFFER_ARG(w, B_WEIGHTS), OCL_INT(w->gauss.radius),
                      OCL_BUFFER_ARG(w, B_LINK), NX(w), OCL_INT(first));
    case SMOOTH_Y:
        return LAUNCH(w, s, w->nx, count, err, OCL_BUFFER_ARG(w, B_LINK),
                      OCL_BUFFER_ARG(w, B_WEIGHTS), OCL_INT(w->gauss.radius),
                      OCL_BUFFER_ARG(w, next_values(w)), NX(w), NY(w), OCL_INT(first));
    case EXTREME:
    case GROUND:
        return LAUNCH(
            w, s, w->nx, ocl_unit_count(count, CC_DISC_ROWS), err,
            OCL_BUFFER_ARG(w, is_second ? B_EXTREME : w->values), OCL_BUFFER_ARG(w, w->values),
            OCL_BUFFER_ARG(w, is_second ? next_values(w) : B_EXTREME), OCL_BUFFER_ARG(w, B_DISC),
            OCL_INT(radius), OCL_UINT(flip), OCL_INT(is_second), OCL_UINT(level), OCL_INT(ratio),
            NX(w), NY(w), OCL_INT(first), OCL_INT(first + count));
    case GROUND_SUMS:
    case LOCAL_SUMS:
        return LAUNCH(w, s, w->nx, ocl_unit_count(count, CC_COLUMN_PIXELS), err,
                      OCL_BUFFER_ARG(w, w->values), OCL_BUFFER_ARG(w, B_LINK), OCL_INT(radius),
                      OCL_INT(fits_lines), NX(w), NY(w), OCL_INT(first), OCL_INT(first + count));
    default: /* GROUND_MEAN and LOCAL_MEAN */
        return LAUNCH(w, s, ocl_unit_count(w->nx, CC_TILE), count, err,
                      OCL_BUFFER_ARG(w, w->values), OCL_BUFFER_ARG(w, B_LINK),
                      OCL_BUFFER_ARG(w, next_values(w)), OCL_INT(radius), OCL_INT(fits_lines),
                      OCL_UINT(middle), OCL_INT(ratio), NX(w), NY(w), OCL_INT(first));
    }
}

/* Launches a stage that finds components: within tiles, or across the edges between tiles. */
static tc_status launch_components(cc_cl_worker *w, cc_stage s, uint64_t first, uint64_t count,
                                   tc_err *err)
{
    /* The mask's bit of the pixels whose components are found: 1 for cells, 0 for background. */
    const int kind = s >= TILES;
    /* Joining begins with the second row of tiles, as there are no tiles above the first. */
    const uint64_t first_tile = first + (s == BACKGROUND_ROWS || s == JOIN_ROWS);

    switch (s) {
    case BACKGROUND_TILES:
    case TILES:
        return LAUNCH(w, s, (size_t)w->stride * CC_TILE, count, err, OCL_BUFFER_ARG(w, B_MASK),
                      OCL_BUFFER_ARG(w, B_LINK), OCL_BUFFER_ARG(w, B_ROOTS), NX(w), NY(w),
                      STRIDE(w), OCL_INT(first_tile), OCL_INT(kind),
                      OCL_INT(eight_connected(w, s)));
    case BACKGROUND_ROWS:
    case JOIN_ROWS:
        return LAUNCH(w, s, w->nx, count, err, OCL_BUFFER_ARG(w, B_MASK), OCL_BUFFER_ARG(w, B_LINK),
                      OCL_BUFFER_ARG(w, B_ROOTS), NX(w), NY(w), STRIDE(w), OCL_INT(first_tile),
                      OCL_INT(kind), OCL_INT(eight_connected(w, s)));
    default: /* BACKGROUND_COLUMNS and JOIN_COLUMNS: edges between tiles side by side */
        return LAUNCH(w, s, count * (ocl_unit_count(w->nx, CC_TILE) - 1), 1, err,
                      OCL_BUFFER_ARG(w, B_MASK), OCL_BUFFER_ARG(w, B_LINK),
                      OCL_BUFFER_ARG(w, B_ROOTS), NX(w), NY(w), STRIDE(w), OCL_INT(first_tile),
                      OCL_INT(first + count), OCL_INT(kind), OCL_INT(eight_connected(w, s)));
    }
}

/* Launches a stage that fills holes: BORDER_ROOTS and OUTSIDE mark the components of the background
 * that touch the border; FILL makes all other background cell. */
static tc_status launch_holes(cc_cl_worker *w, cc_stage s, uint64_t first, uint64_t count,
                              tc_err *err)
{
    /* The number of border pixels; each corner counts twice. */
    const size_t border = 2 * ((size_t)w->nx + w->rows);

    if (s == BORDER_ROOTS)
        return LAUNCH(w, s, border, 1, err, OCL_BUFFER_ARG(w, B_MASK), OCL_BUFFER_ARG(w, B_LINK),
                      OCL_BUFFER_ARG(w, B_BORDER), NX(w), NY(w), STRIDE(w));
    if (s == OUTSIDE)
        return LAUNCH(w, s, border, 1, err, OCL_BUFFER_ARG(w, B_BORDER), OCL_BUFFER_ARG(w, B_LINK),
                      OCL_INT(border));
    return LAUNCH(w, s, ocl_unit_count(w->nx, 32), count, err, OCL_BUFFER_ARG(w, B_LINK),
                  OCL_BUFFER_ARG(w, B_MASK), NX(w), NY(w), STRIDE(w), OCL_INT(first));
}

/* Launches the distance transform along rows or columns. For columns, B_LINK is scratch memory for
 * the parabolas whose lower envelope gives the squared distances. */
static tc_status launch_distance(cc_cl_worker *w, cc_stage s, uint64_t first, uint64_t count,
                                 tc_err *err)
{
    if (s == DISTANCE_ROWS)
        return LAUNCH(w, s, w->group, count, err, OCL_BUFFER_ARG(w, B_MASK),
                      OCL_BUFFER_ARG(w, B_LABELS), NX(w), STRIDE(w), OCL_UINT(first),
                      OCL_LOCAL(ocl_unit_count(w->nx, 32) * sizeof(cl_uint)));
    return LAUNCH(w, s, count, ocl_unit_count(w->rows, CC_COLUMN_PIXELS), err,
                  OCL_BUFFER_ARG(w, B_LABELS), OCL_BUFFER_ARG(w, B_LINK),
                  OCL_BUFFER_ARG(w, B_DISTANCE), OCL_UINT(first), OCL_UINT(first + count), NX(w),
                  NY(w));
}

/* Launches the stage TABLE, which clears the table of regions, or MEASURE. For TABLE, first and
 * count are in work-groups, each of which clears a row of the table for each of its work-items; for
 * MEASURE they are in bands of CC_TILE rows of pixels. */
static tc_status launch_table(cc_cl_worker *w, cc_stage s, uint64_t first, uint64_t count,
                              tc_err *err)
{
    if (s == TABLE) {
        ocl_grid grid = ocl_grid_of(w->group, count * w->group, 1, 1);

        grid.start[0] = first * w->group;
        return OCL_QUEUE(w, TABLE, grid, err, OCL_BUFFER_ARG(w, B_TABLE), OCL_UINT(w->table_rows));
    }
    return LAUNCH(w, s, w->nx, count, err, OCL_BUFFER_ARG(w, B_LABELS), OCL_BUFFER_ARG(w, B_PIXELS),
                  OCL_BUFFER_ARG(w, B_TABLE), NX(w), OCL_INT(first * CC_TILE), NY(w));
}

/* Launches a stage whose kernel addresses pixels by (x, y). */
static tc_status launch_rows(cc_cl_worker *w, cc_stage s, uint64_t first, uint64_t count,
                             tc_err *err)
{
    if (s == MASK) /* a work-item computes 16 bits, half a word of the mask */
        return LAUNCH(w, s, 2 * (size_t)w->stride, count, err, OCL_BUFFER_ARG(w, w->values),
                      OCL_BUFFER_ARG(w, B_MASK), NX(w), STRIDE(w), OCL_INT(first),
                      OCL_UINT(w->threshold), OCL_INT(w->params->bright));
    if (s == PAINT)
        return LAUNCH(w, s, ocl_unit_count(w->nx, 2), ocl_unit_count(count, CC_PAINT_ROWS), err,
                      OCL_BUFFER_ARG(w, B_MASK), OCL_BUFFER_ARG(w, B_LINK),
                      OCL_BUFFER_ARG(w, B_ROOTS), OCL_BUFFER_ARG(w, B_RANKS),
                      OCL_BUFFER_ARG(w, B_LABELS), NX(w), STRIDE(w), OCL_INT(first),
                      OCL_INT(first + count));
    /* ROOTS */
    return LAUNCH(w, s, w->nx, count, err, OCL_BUFFER_ARG(w, B_MASK), OCL_BUFFER_ARG(w, B_LINK),
                  OCL_BUFFER_ARG(w, B_LABELS), NX(w), NY(w), STRIDE(w), OCL_INT(first));
}

/* Launches a stage whose kernel addresses pixels by their index y * nx + x. */
static tc_status launch_pixels(cc_cl_worker *w, cc_stage s, uint64_t first_row, uint64_t count,
                               tc_err *err)
{
    const uint64_t first = first_row * w->nx, end = (first_row + count) * w->nx;
    const size_t n = (size_t)(end - first);

    switch (s) {
    case HISTOGRAM:
        /* A work-item counts about 64 pixels, so that clearing and adding up the histogram that
         * each work-group has in local memory takes little of the time. */
        return LAUNCH(w, s, n / 64 + 1, 1, err, OCL_BUFFER_ARG(w, w->values),
                      OCL_BUFFER_ARG(w, B_HISTOGRAM), OCL_UINT(first), OCL_UINT(end));
    case RELABEL:
        return LAUNCH(w, s, n, 1, err, OCL_BUFFER_ARG(w, B_FINAL), OCL_BUFFER_ARG(w, B_LABELS),
                      OCL_UINT(first), OCL_UINT(end));
    case MAXIMA:
        return LAUNCH(w, s, n, 1, err, OCL_BUFFER_ARG(w, B_LABELS), OCL_BUFFER_ARG(w, B_LINK),
                      OCL_UINT(first), OCL_UINT(end));
    default: /* ASCEND */
        return LAUNCH(w, s, n, 1, err, OCL_BUFFER_ARG(w, B_DISTANCE), OCL_BUFFER_ARG(w, B_LABELS),
                      OCL_UINT(first), OCL_UINT(end), NX(w), NY(w),
                      OCL_INT(w->params->eight_connected ? 8 : 4));
    }
}

tc_status cc_launch(cc_cl_worker *w, uint64_t first, uint64_t count, tc_err *err)
{
    if (w->stage < READ_VALUES)
        return launch_prepare(w, w->stage, first, count, err);
    switch (w->stage) {
    case BACKGROUND_TILES:
    case BACKGROUND_ROWS:
    case BACKGROUND_COLUMNS:
    case TILES:
    case JOIN_ROWS:
    case JOIN_COLUMNS: return launch_components(w, w->stage, first, count, err);
    case BORDER_ROOTS:
    case OUTSIDE:
    case FILL: return launch_holes(w, w->stage, first, count, err);
    case COUNT: /* a work-group counts the roots, one for each component, in a chunk of B_ROOTS */
        return LAUNCH(w, w->stage, count * w->group, 1, err, OCL_BUFFER_ARG(w, B_ROOTS),
                      OCL_BUFFER_ARG(w, B_COUNTS), OCL_UINT(first), OCL_UINT(strip_words(w)));
    case NUMBER: /* numbers the roots: B_RANKS becomes the number of roots before each word */
        return LAUNCH(w, w->stage, count * w->group, 1, err, OCL_BUFFER_ARG(w, B_ROOTS),
                      OCL_BUFFER_ARG(w, B_RANKS), OCL_BUFFER_ARG(w, B_COUNTS), OCL_UINT(first),
                      OCL_UINT(strip_words(w)));
    case DISTANCE_ROWS:
    case DISTANCE_COLUMNS: return launch_distance(w, w->stage, first, count, err);
    case TABLE:
    case MEASURE: return launch_table(w, w->stage, first, count, err);
    case MASK:
    case PAINT:
    case ROOTS: return launch_rows(w, w->stage, first, count, err);
    default: return launch_pixels(w, w->stage, first, count, err);
    }
}
