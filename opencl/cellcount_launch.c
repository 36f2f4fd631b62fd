/* What the stages of cellcount are as launches of kernels (cellcount.cl). */
#include "opencl/cellcount_cl.h"

static tc_status launch(cc_cl_worker *w, cc_stage s, const ocl_arg *args, size_t n, size_t items, size_t lines,
                        ocl_batch *batch, tc_err *err)
{
    const size_t local[2] = { w->group, 1 };
    const size_t global[2] = { ocl_round_up(items, w->group), lines };
    tc_status st = ocl_set_args(w->device, &w->kernel[s], args, n, err);

    if (st == TC_OK)
        st = ocl_launch(w->device, &w->kernel[s], 2, NULL, global, local, batch, err);
    return st;
}

/* Tiles and their edges. */
static tc_status launch_components(cc_cl_worker *w, cc_stage s, uint64_t first, uint64_t count, ocl_batch *batch,
                                   tc_err *err)
{
    const cl_int nx = (cl_int)w->nx, ny = (cl_int)w->rows, stride = (cl_int)w->stride;
    const cl_int kind = s >= TILES, end = (cl_int)(first + count);
    /* The upper edge of the first row of tiles is the picture's. */
    const cl_int from = (cl_int)first + (s == GROUND_ROWS || s == JOIN_ROWS);
    const ocl_arg tiles[] = { OCL_BUFFER(w->mask), OCL_BUFFER(w->link), OCL_ARG(nx), OCL_ARG(ny), OCL_ARG(stride),
                              OCL_ARG(from), OCL_ARG(kind) };
    const ocl_arg columns[] = { OCL_BUFFER(w->mask), OCL_BUFFER(w->link), OCL_ARG(nx), OCL_ARG(ny), OCL_ARG(stride),
                                OCL_ARG(from), OCL_ARG(end), OCL_ARG(kind) };

    switch (s) {
    case GROUND_TILES:
    case TILES:
        return launch(w, s, tiles, 7, up_to(w->nx, TILE) * w->group, count, batch, err);
    case GROUND_ROWS:
    case JOIN_ROWS:
        return launch(w, s, tiles, 7, diagonal(w, s) ? up_to(w->nx, 2) : w->nx, count, batch, err);
    default:
        return launch(w, s, columns, 8, count, up_to(w->nx, TILE) - 1, batch, err);
    }
}

/* What is outside, and what is not. */
static tc_status launch_holes(cc_cl_worker *w, cc_stage s, uint64_t first, uint64_t count, ocl_batch *batch,
                              tc_err *err)
{
    const cl_int nx = (cl_int)w->nx, ny = (cl_int)w->rows, stride = (cl_int)w->stride;
    const cl_int from = (cl_int)first, eight = diagonal(w, s), border = 2 * (nx + ny);
    const ocl_arg roots[] = { OCL_BUFFER(w->mask), OCL_BUFFER(w->link), OCL_BUFFER(w->border), OCL_ARG(nx),
                              OCL_ARG(ny), OCL_ARG(stride), OCL_ARG(eight) };
    const ocl_arg mark[] = { OCL_BUFFER(w->border), OCL_BUFFER(w->link), OCL_ARG(border) };
    const ocl_arg fill[] = { OCL_BUFFER(w->link), OCL_BUFFER(w->mask), OCL_ARG(nx), OCL_ARG(ny), OCL_ARG(stride),
                             OCL_ARG(from), OCL_ARG(eight) };

    if (s == BORDER_ROOTS)
        return launch(w, s, roots, 7, (size_t)border, 1, batch, err);
    if (s == OUTSIDE)
        return launch(w, s, mark, 3, (size_t)border, 1, batch, err);
    return launch(w, s, fill, 7, up_to(w->nx, 32), count, batch, err);
}

static tc_status launch_chunks(cc_cl_worker *w, cc_stage s, uint64_t first, uint64_t count, ocl_batch *batch,
                               tc_err *err)
{
    const cl_uint from = (cl_uint)first, n = (cl_uint)strip_nodes(w);
    const ocl_arg args[] = { OCL_BUFFER(w->link), OCL_BUFFER(w->counts), OCL_ARG(from), OCL_ARG(n) };

    return launch(w, s, args, 4, count * w->group, 1, batch, err);
}

/* Along rows, or along columns: kept parabolas take the place of links. */
static tc_status launch_distance(cc_cl_worker *w, cc_stage s, uint64_t first, uint64_t count, ocl_batch *batch,
                                 tc_err *err)
{
    const cl_uint from = (cl_uint)first, end = (cl_uint)(first + count), nx = w->nx, ny = w->rows;
    const cl_uint stride = w->stride;
    const ocl_arg rows[] = { OCL_BUFFER(w->mask), OCL_BUFFER(w->other), OCL_ARG(nx), OCL_ARG(stride), OCL_ARG(from),
                             OCL_LOCAL(up_to(w->nx, 32) * sizeof(cl_uint)) };
    const ocl_arg columns[] = { OCL_BUFFER(w->other), OCL_BUFFER(w->link), OCL_BUFFER(w->distance), OCL_ARG(from),
                                OCL_ARG(end), OCL_ARG(nx), OCL_ARG(ny) };

    if (s == DISTANCE_ROWS)
        return launch(w, s, rows, 6, w->group, count, batch, err);
    return launch(w, s, columns, 7, count, 1, batch, err);
}

/* first, count: of stretches of TILE rows. */
static tc_status launch_table(cc_cl_worker *w, cc_stage s, uint64_t first, uint64_t count, ocl_batch *batch,
                              tc_err *err)
{
    const cl_uint rows = (cl_uint)w->table_rows;
    const cl_int nx = (cl_int)w->nx, from = (cl_int)first * TILE, ny = (cl_int)w->rows;
    const ocl_arg clear[] = { OCL_BUFFER(w->table), OCL_ARG(rows) };
    const ocl_arg measure[] = { OCL_BUFFER(w->other), OCL_BUFFER(w->pixels), OCL_BUFFER(w->table), OCL_ARG(nx),
                                OCL_ARG(from), OCL_ARG(ny) };

    if (s == TABLE)
        return launch(w, s, clear, 2, w->table_rows, 1, batch, err);
    return launch(w, s, measure, 6, w->nx, count, batch, err);
}

/* Stages that take rows of pixels, by numbers (x, y). */
static tc_status launch_rows(cc_cl_worker *w, cc_stage s, uint64_t first, uint64_t count, ocl_batch *batch, tc_err *err)
{
    const cl_int nx = (cl_int)w->nx, ny = (cl_int)w->rows, stride = (cl_int)w->stride, from = (cl_int)first;
    const cl_int bright = w->params->bright, eight = w->params->diagonal;
    const cl_uint threshold = w->threshold;
    const ocl_arg mask[] = { OCL_BUFFER(w->pixels), OCL_BUFFER(w->mask), OCL_ARG(nx), OCL_ARG(stride), OCL_ARG(from),
                             OCL_ARG(threshold), OCL_ARG(bright) };
    const ocl_arg from_link[] = { OCL_BUFFER(w->mask), OCL_BUFFER(w->link), OCL_BUFFER(w->other), OCL_ARG(nx),
                                  OCL_ARG(ny), OCL_ARG(stride), OCL_ARG(from), OCL_ARG(eight) };

    if (s == MASK)
        return launch(w, s, mask, 7, w->stride, count, batch, err);
    return launch(w, s, from_link, 8, s == PAINT ? up_to(w->nx, 2) : w->nx, count, batch, err);
}

/* The same, by the index of a pixel. */
static tc_status launch_pixels(cc_cl_worker *w, cc_stage s, uint64_t first_row, uint64_t count, ocl_batch *batch,
                               tc_err *err)
{
    const cl_uint first = (cl_uint)(first_row * w->nx), end = (cl_uint)((first_row + count) * w->nx);
    const cl_int nx = (cl_int)w->nx, ny = (cl_int)w->rows, neighbours = w->params->diagonal ? 8 : 4;
    const size_t n = end - first;
    const ocl_arg histogram[] = { OCL_BUFFER(w->pixels), OCL_BUFFER(w->histogram), OCL_ARG(first), OCL_ARG(end) };
    const ocl_arg summits[] = { OCL_BUFFER(w->other), OCL_BUFFER(w->link), OCL_ARG(first), OCL_ARG(end) };
    const ocl_arg relabel[] = { OCL_BUFFER(w->now), OCL_BUFFER(w->other), OCL_ARG(first), OCL_ARG(end) };
    const ocl_arg ascend[] = { OCL_BUFFER(w->distance), OCL_BUFFER(w->other), OCL_ARG(first), OCL_ARG(end), OCL_ARG(nx),
                               OCL_ARG(ny), OCL_ARG(neighbours) };

    switch (s) {
    case HISTOGRAM:
        /* A work-item takes many pixels: a group's own histogram pays then. */
        return launch(w, s, histogram, 4, n / 64 + 1, 1, batch, err);
    case RELABEL:
        return launch(w, s, relabel, 4, n, 1, batch, err);
    case SUMMITS:
        return launch(w, s, summits, 4, n, 1, batch, err);
    default:
        return launch(w, s, ascend, 7, n, 1, batch, err);
    }
}

tc_status cc_launch(cc_cl_worker *w, uint64_t first, uint64_t count, ocl_batch *batch, tc_err *err)
{
    switch (w->stage) {
    case GROUND_TILES:
    case GROUND_ROWS:
    case GROUND_COLUMNS:
    case TILES:
    case JOIN_ROWS:
    case JOIN_COLUMNS:
        return launch_components(w, w->stage, first, count, batch, err);
    case BORDER_ROOTS:
    case OUTSIDE:
    case FILL:
        return launch_holes(w, w->stage, first, count, batch, err);
    case COUNT:
    case NUMBER:
        return launch_chunks(w, w->stage, first, count, batch, err);
    case DISTANCE_ROWS:
    case DISTANCE_COLUMNS:
        return launch_distance(w, w->stage, first, count, batch, err);
    case TABLE:
    case MEASURE:
        return launch_table(w, w->stage, first, count, batch, err);
    case MASK:
    case PAINT:
    case ROOTS:
        return launch_rows(w, w->stage, first, count, batch, err);
    default:
        return launch_pixels(w, w->stage, first, count, batch, err);
    }
}
