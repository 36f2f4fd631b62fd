/* Queues the kernels (cellcount.cl) of cellcount's stages: the size and arguments of each launch.
 */
#include "opencl/cellcount_cl.h"

/* Queues the kernel of stage s with `items` work-items along x and `lines` along y. */
#define LAUNCH(w, s, items, lines, err, ...) \
    OCL_QUEUE(w, (int)(s), ocl_grid_of((w)->group, items, lines, 1), err, __VA_ARGS__)

/* Kernel arguments: the width and the height of the current strip, and the words of a row of its
 * mask. */
#define NX(w) OCL_UINT((w)->nx)
#define NY(w) OCL_UINT((w)->rows)
#define STRIDE(w) OCL_UINT((w)->stride)

/* Launches a stage that prepares grey values. In these stages B_LINK holds sums of grey values. */
static tc_status launch_prepare(cc_cl_worker *w, cc_stage s, uint64_t first, uint64_t count,
                                tc_err *err)
{
    const cc_params *const p = w->params;
    const uint32_t bits = w->ocl.work->pixels->bits, most = (uint32_t)(((uint64_t)1 << bits) - 1),
                   middle = cc_middle_grey(bits);
    const int32_t radius = s >= LOCAL_SUMS ? p->window / 2 : p->radius,
                  ratio = s < LOCAL_SUMS && p->ratio;
    /* An opening by a disc takes the extreme within each pixel's disc (EXTREME), then the opposite
     * extreme of these (GROUND). lines: the estimate is a fitted line, not a mean. */
    const bool ground = s == GROUND, lines = s < LOCAL_SUMS && p->ground == CC_LINES;

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
            OCL_BUFFER_ARG(w, ground ? B_EXTREME : w->values), OCL_BUFFER_ARG(w, w->values),
            OCL_BUFFER_ARG(w, ground ? next_values(w) : B_EXTREME), OCL_BUFFER_ARG(w, B_DISC),
            OCL_INT(radius), OCL_UINT(p->bright != ground ? most : 0), OCL_INT(ground),
            OCL_UINT(!p->bright ? most
                     : ratio    ? middle
                                : 0),
            OCL_INT(ratio), NX(w), NY(w), OCL_INT(first), OCL_INT(first + count));
    case GROUND_SUMS:
    case LOCAL_SUMS:
        return LAUNCH(w, s, w->nx, ocl_unit_count(count, CC_COLUMN_PIXELS), err,
                      OCL_BUFFER_ARG(w, w->values), OCL_BUFFER_ARG(w, B_LINK), OCL_INT(radius),
                      OCL_INT(lines), NX(w), NY(w), OCL_INT(first), OCL_INT(first + count));
    default:
        return LAUNCH(w, s, ocl_unit_count(w->nx, CC_TILE), count, err,
                      OCL_BUFFER_ARG(w, w->values), OCL_BUFFER_ARG(w, B_LINK),
                      OCL_BUFFER_ARG(w, next_values(w)), OCL_INT(radius), OCL_INT(lines),
                      OCL_UINT(middle), OCL_INT(ratio), NX(w), NY(w), OCL_INT(first));
    }
}

/* Launches a stage that finds components: within tiles, or across the edges between tiles. */
static tc_status launch_components(cc_cl_worker *w, cc_stage s, uint64_t first, uint64_t count,
                                   tc_err *err)
{
    const int kind = s >= TILES; /* the value in the mask of the components' pixels: 1 for cells */
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
    default:
        return LAUNCH(w, s, count * (ocl_unit_count(w->nx, CC_TILE) - 1), 1, err,
                      OCL_BUFFER_ARG(w, B_MASK), OCL_BUFFER_ARG(w, B_LINK),
                      OCL_BUFFER_ARG(w, B_ROOTS), NX(w), NY(w), STRIDE(w), OCL_INT(first_tile),
                      OCL_INT(first + count), OCL_INT(kind), OCL_INT(eight_connected(w, s)));
    }
}

/* Launches a stage that marks the background connected with the border, or fills the other
 * background. */
static tc_status launch_holes(cc_cl_worker *w, cc_stage s, uint64_t first, uint64_t count,
                              tc_err *err)
{
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

/* Launches the distance transform along rows or columns. B_LINK holds the parabolas. */
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
    if (s == MASK)
        return LAUNCH(w, s, 2 * (size_t)w->stride, count, err, OCL_BUFFER_ARG(w, w->values),
                      OCL_BUFFER_ARG(w, B_MASK), NX(w), STRIDE(w), OCL_INT(first),
                      OCL_UINT(w->threshold), OCL_INT(w->params->bright));
    if (s == PAINT)
        return LAUNCH(w, s, ocl_unit_count(w->nx, 2), ocl_unit_count(count, CC_PAINT_ROWS), err,
                      OCL_BUFFER_ARG(w, B_MASK), OCL_BUFFER_ARG(w, B_LINK),
                      OCL_BUFFER_ARG(w, B_ROOTS), OCL_BUFFER_ARG(w, B_RANKS),
                      OCL_BUFFER_ARG(w, B_LABELS), NX(w), STRIDE(w), OCL_INT(first),
                      OCL_INT(first + count));
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
    default:
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
    case COUNT:
        return LAUNCH(w, w->stage, count * w->group, 1, err, OCL_BUFFER_ARG(w, B_ROOTS),
                      OCL_BUFFER_ARG(w, B_COUNTS), OCL_UINT(first), OCL_UINT(strip_words(w)));
    case NUMBER:
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
