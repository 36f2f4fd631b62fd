/*
 * The OpenCL backend of cellcount. The device prepares grey values, applies the threshold, fills
 * holes, labels and measures regions, and computes distances. The worker owns a worker of the CPU
 * backend ("the host"), which does the other phases. Which these are depends on the parameters:
 * - Cells are split by distance: joining maxima, which is sequential, and all phases after it.
 * - Cells are split by intensity: all phases from the threshold on.
 * - A filter has to remove regions, but their table does not fit the device: all phases after
 *   connected components are found.
 *
 * If the picture does not fit the device, the host prepares it, applies the threshold and fills
 * holes. The device then labels the picture in strips of rows, and the host joins the labels along
 * the edges of the strips. If cells of such a picture are to be split, the host does everything.
 */
#include <stdlib.h>
#include <string.h>

#include "app/analysis/cellcount/core.h"
#include "opencl/backends.h"
#include "opencl/cellcount_cl.h"

extern const ocl_source ocl_source_cellcount;

enum { MAX_GROUP = 256 }; /* the most work-items of a work-group */
/* The greatest radius, in pixels, of the opening's disc for which an OpenCL device of type CPU is
 * used rather than the CPU backend. */
enum { MOST_CPU_RADIUS = 8 };

static const char *const kernel_names[STAGES] = { CC_STAGES(OCL_STAGE_KERNEL) };

/* --- which stages an item has ---------------------------------------------------------------- */

/* Whether the device also does the stages from the threshold on; otherwise it only prepares grey
 * values. */
static bool finds_regions(const cc_cl_worker *w)
{
    return w->params->split != CC_INTENSITY;
}

/* Whether the item has stage s, one of those that prepare grey values (up to READ_VALUES). */
static bool has_preparing_stage(const cc_cl_worker *w, cc_stage s)
{
    const cc_params *const p = w->params;

    if (in_strips(w))
        return false;
    switch (s) {
    case SMOOTH_X:
    case SMOOTH_Y: return cc_has_step(p, CC_SMOOTH);
    case EXTREME:
    case GROUND: return cc_has_step(p, CC_EXTREME);
    case GROUND_SUMS:
    case GROUND_MEAN: return cc_has_step(p, CC_GROUND) && !cc_has_step(p, CC_EXTREME);
    case READ_VALUES:
        return !finds_regions(w) || (w->params->min_contrast && cc_has_preparation(w->params));
    default: return cc_has_step(p, CC_LOCAL_MEAN); /* LOCAL_SUMS and LOCAL_MEAN */
    }
}

/* Whether the device computes the final labels. The returned value may change from true to false
 * when the stage COUNT ends, which may set too_many. */
static bool makes_labels(const cc_cl_worker *w)
{
    const cc_params *const p = w->params;

    return !in_strips(w) && !p->split && !w->too_many && !cc_needs_boxes(p) && !p->window_auto &&
           !p->min_area_auto;
}

/* Whether the labels are copied to the state. They are not needed if the result has no label
 * picture and the state holds the table of regions. */
static bool wants_labels(const cc_cl_worker *w)
{
    return w->params->labels || !w->ocl.work->result_only || !w->has_table;
}

/* Whether the item has stage s. */
static bool has_stage(const cc_cl_worker *w, cc_stage s)
{
    const cc_params *const p = w->params;

    if (s <= READ_VALUES)
        return has_preparing_stage(w, s);
    if (!finds_regions(w))
        return false;
    if (s == HISTOGRAM)
        return !in_strips(w) && cc_finds_threshold(p);
    if (s == MASK)
        return !in_strips(w);
    if (s <= FILL)
        return !in_strips(w) && p->fill_holes;
    if (s <= JOIN_COLUMNS)
        return !p->split;
    if (s == COUNT)
        return makes_labels(w);
    if (s == TABLE || s == MEASURE)
        return makes_labels(w) && w->table_rows > 0;
    if (s == RELABEL)
        return makes_labels(w) && cc_has_filters(p) && wants_labels(w);
    if (s <= PAINT)
        return makes_labels(w);
    if (s == READ_LABELS)
        return makes_labels(w) && wants_labels(w);
    if (s <= READ_ROOTS)
        return !makes_labels(w) && !p->split;
    return p->split; /* DISTANCE_ROWS to READ_MAXIMA */
}

/* Whether the item may have stage s, as far as this is known before the regions are counted. */
static bool may_have_stage(const cc_cl_worker *w, cc_stage s)
{
    const bool whole = makes_labels(w);

    if (s == TABLE || s == MEASURE)
        return whole;
    if (s == ROOTS)
        return !w->params->split;
    return has_stage(w, s);
}

/* The amount of work of a stage in the current strip. The unit is the smallest part of the stage
 * that a launch can do: for most stages a row of pixels, or a row of tiles. */
static uint64_t stage_work(const cc_cl_worker *w, cc_stage s)
{
    switch (s) {
    case BACKGROUND_TILES:
    case TILES: return ocl_unit_count(w->rows, CC_TILE);
    case BACKGROUND_ROWS:
    case JOIN_ROWS: return ocl_unit_count(w->rows, CC_TILE) - 1;
    case BORDER_ROOTS:
    case OUTSIDE: return 1;
    case TABLE: return ocl_unit_count(w->table_rows, w->group);
    case MEASURE: return ocl_unit_count(w->rows, CC_TILE);
    case COUNT:
    case NUMBER: return ocl_unit_count(strip_words(w), w->group * CC_WORDS_PER_ITEM);
    case DISTANCE_COLUMNS: return w->nx;
    default: return w->rows; /* rows of pixels */
    }
}

/* --- steps ----------------------------------------------------------------------------------- */

/* Copies rows [first, first + count) of the current strip from the buffer `from`, which holds an
 * int32 for each pixel, to their place in `plane`, a plane of the whole picture. */
static tc_status read_rows(cc_cl_worker *w, int from, int32_t *plane, uint64_t first,
                           uint64_t count, tc_err *err)
{
    const size_t row = (size_t)w->nx * sizeof *plane;

    return ocl_download(&w->ocl, from, first * row, plane + (w->y0 + first) * w->nx, count * row,
                        err);
}

/* Does `count` units (stage_work) of the stage's work from w->done on, by one launch or by a copy
 * to the host. Sets ocl.took_ms to the device time of the launch, or to 0 after a copy. */
static tc_status run_part(cc_cl_worker *w, cc_state *state, uint64_t count, tc_err *err)
{
    const size_t row = (size_t)w->nx * (w->ocl.work->pixels->bits / 8);
    int32_t *roots;
    wu_pixels *values;

    w->ocl.took_ms = 0;
    switch (w->stage) {
    case READ_VALUES:
        values = cc_host_prepared(w->host);
        return ocl_download(&w->ocl, w->values, w->done * row,
                            (char *)(values->u8 != NULL ? (void *)values->u8 : values->u16) +
                                w->done * row,
                            count * row, err);
    case READ_LABELS: return read_rows(w, B_LABELS, state->plane, w->done, count, err);
    case READ_DISTANCES: return read_rows(w, B_DISTANCE, state->plane, w->done, count, err);
    case READ_ROOTS:
    case READ_MAXIMA:
        roots = cc_host_roots(w->host);
        if (roots == NULL)
            return tc_no_memory(err, "cellcount");
        return read_rows(w, w->stage == READ_ROOTS ? B_LABELS : B_LINK, roots, w->done, count, err);
    default:
        return ocl_end_launch(&w->ocl, cc_launch(w, w->done, count, err), &w->pace[w->stage], count,
                              err);
    }
}

/* --- the ends of stages ---------------------------------------------------------------------- */

/* After HISTOGRAM: finds the threshold. */
static tc_status end_histogram(cc_cl_worker *w, cc_state *state, tc_err *err)
{
    const uint32_t size = (uint32_t)1 << w->ocl.work->pixels->bits;
    uint32_t *const counts = malloc(size * sizeof *counts);
    uint64_t *const counts64 = malloc(size * sizeof *counts64);
    tc_status status =
        counts == NULL || counts64 == NULL
            ? tc_no_memory(err, "the histogram")
            : ocl_download(&w->ocl, B_HISTOGRAM, 0, counts, size * sizeof *counts, err);

    if (status == TC_OK) {
        for (uint32_t v = 0; v < size; v++)
            counts64[v] = counts[v];
        status =
            cc_find_threshold(w->params, counts64, w->ocl.work->pixels->bits, &w->threshold, err);
        state->threshold = w->threshold;
    }
    free(counts);
    free(counts64);
    return status;
}

/* After COUNT: allocates the device's table of regions. If a filter may remove regions, the table
 * is required, and too_many is set if it does not fit the device. Without filters, the table is
 * allocated only if it also fits the state. In that case it always fits the device, as strip_bytes
 * includes the bytes of the largest table that fits the state. */
static tc_status make_table(cc_cl_worker *w, uint32_t regions, tc_err *err)
{
    const ocl_device *const d = w->ocl.device;
    /* Row 0 is not used: labels begin with 1. */
    const uint64_t rows = (uint64_t)regions + 1, bytes = rows * CC_COLUMNS * sizeof(cl_uint);
    const bool filters = cc_has_filters(w->params);
    /* Kernels index the table's elements with 32 bits. */
    const bool fits = bytes <= UINT32_MAX && bytes <= d->info.max_alloc_bytes &&
                      bytes + rows * sizeof(cl_int) <= d->memory_limit - d->memory_used;

    w->too_many = filters && !fits;
    if (w->too_many || (!filters && rows > cc_table_rows(w->nx, w->ny)))
        return TC_OK;
    w->table_rows = (size_t)rows;
    const ocl_buffer_need needs[] = { { B_TABLE, bytes, "cellcount", NULL },
                                      { B_FINAL, filters ? rows * sizeof(cl_int) : 0, "cellcount",
                                        NULL } };
    return ocl_make_buffers(&w->ocl, needs, 2, err);
}

/* Converts a row of the device's table to the state's form. */
static cc_region region_of(const uint32_t *row)
{
    const cc_region r = { .sum_y = row[CC_SUM_Y] | (uint64_t)row[CC_SUM_Y + 1] << 32,
                          .sum_x = row[CC_SUM_X] | (uint64_t)row[CC_SUM_X + 1] << 32,
                          .sum_grey = row[CC_SUM_GREY] | (uint64_t)row[CC_SUM_GREY + 1] << 32,
                          .area = row[CC_AREA],
                          .y0 = (uint16_t)row[CC_Y0],
                          .x0 = (uint16_t)row[CC_X0],
                          .y1 = (uint16_t)row[CC_Y1],
                          .x1 = (uint16_t)row[CC_X1] };

    return r;
}

/* After MEASURE: copies the regions that pass the filters from the device's table to the state's,
 * and writes their final labels to B_FINAL. */
static tc_status end_measure(cc_cl_worker *w, cc_state *state, tc_err *err)
{
    cc_region *const table = (cc_region *)(void *)((char *)state + cc_table_at(w->nx, w->ny));
    const size_t room = cc_table_rows(w->nx, w->ny);
    uint32_t *const rows = malloc(w->table_rows * CC_COLUMNS * sizeof *rows);
    int32_t *const final_label = calloc(w->table_rows, sizeof *final_label);
    size_t label = 0;
    tc_status status = rows == NULL || final_label == NULL
                           ? tc_no_memory(err, "the regions")
                           : ocl_download(&w->ocl, B_TABLE, 0, rows,
                                          w->table_rows * CC_COLUMNS * sizeof *rows, err);

    for (size_t i = 1, end; status == TC_OK && i < w->table_rows;
         status = tc_call_poll(w->ocl.work->poll, err))
        for (end = tc_block_end(i, w->table_rows); i < end; i++) {
            const cc_region r = region_of(rows + i * CC_COLUMNS);

            if (!cc_passes_without_contrast(w->params, r.area,
                                            cc_at_border(r.x0, r.y0, r.x1, r.y1, w->nx, w->ny) != 0,
                                            r.y1 - r.y0, r.x1 - r.x0))
                continue;
            final_label[i] = (int32_t)++label;
            if (label < room)
                table[label] = r;
        }
    if (status == TC_OK && cc_has_filters(w->params))
        status =
            ocl_upload(&w->ocl, B_FINAL, 0, final_label, w->table_rows * sizeof *final_label, err);
    if (status == TC_OK)
        state->regions = (uint32_t)label;
    w->has_table = status == TC_OK && label < room;
    /* The state must contain either the whole table or only zeros. */
    if (!w->has_table)
        memset(table, 0, (label < room ? label + 1 : room) * sizeof *table);
    free(rows);
    free(final_label);
    return status;
}

/* After COUNT: replaces the number of roots in each chunk by the number of roots in all chunks
 * before it. The total is the number of regions. */
static tc_status end_count(cc_cl_worker *w, cc_state *state, tc_err *err)
{
    const size_t n = stage_work(w, COUNT);
    TC_AUTOFREE uint32_t *const counts = malloc(n * sizeof *counts);
    uint32_t before = 0;
    return_if_error(counts == NULL
                        ? tc_no_memory(err, "the cells")
                        : ocl_download(&w->ocl, B_COUNTS, 0, counts, n * sizeof *counts, err));

    for (size_t i = 0; i < n; i++) {
        const uint32_t in_chunk = counts[i];

        counts[i] = before;
        before += in_chunk;
    }
    state->regions = before;
    return_if_error(ocl_upload(&w->ocl, B_COUNTS, 0, counts, n * sizeof *counts, err));
    return make_table(w, before, err);
}

/* After READ_ROOTS: converts the roots of the strip's pixels from pixel numbers within the strip to
 * pixel numbers within the picture. Background pixels, which have no root, have a negative value.
 */
static tc_status end_roots(cc_cl_worker *w, tc_err *err)
{
    int32_t *const roots = cc_host_roots(w->host) + (size_t)w->y0 * w->nx;
    const int32_t base = (int32_t)((size_t)w->y0 * w->nx);
    const size_t n = base > 0 ? strip_pixels(w) : 0;

    for (size_t i = 0, end; i < n;) {
        for (end = tc_block_end(i, n); i < end; i++)
            if (roots[i] >= 0)
                roots[i] += base;
        return_if_error(tc_call_poll(w->ocl.work->poll, err));
    }
    return TC_OK;
}

/* Copies the pixels of the current strip, which is the whole picture, to the device. */
static tc_status put_pixels(cc_cl_worker *w, tc_err *err)
{
    const wu_pixels *const px = w->ocl.work->pixels;

    return ocl_upload(&w->ocl, B_PIXELS, 0, ocl_pixels_from(px, 0),
                      strip_pixels(w) * (px->bits / 8), err);
}

/* Begins the strip whose first row is y0: copies the strip's mask to the device or, if the whole
 * picture is one strip, its pixels. */
static tc_status begin_strip(cc_cl_worker *w, uint32_t y0, tc_err *err)
{
    const size_t row = w->stride * sizeof(cl_uint);

    w->y0 = y0;
    w->rows = w->ny - y0 < w->strip_rows ? w->ny - y0 : w->strip_rows;
    w->done = 0;
    w->stage = 0;
    while (!has_stage(w, w->stage))
        w->stage++;
    if (!in_strips(w))
        return put_pixels(w, err);
    return ocl_upload(&w->ocl, B_MASK, 0, (const char *)cc_host_bits(w->host) + y0 * row,
                      w->rows * row, err);
}

/* After the device's last stage: if the labels are final, the item is done; otherwise the host
 * continues. */
static tc_status finish_device(cc_cl_worker *w, cc_state *state, tc_err *err)
{
    if (!finds_regions(w)) {
        w->host_only = true;
        return TC_OK;
    }
    if (makes_labels(w)) {
        state->head.chunks_done = w->ocl.work->plan.chunks;
        return TC_OK;
    }
    w->host_only = true;
    return_if_error(cc_host_resume(w->host, w->params->split ? CC_SADDLES : CC_PARTS,
                                   cc_finds_threshold(w->params) ? state->threshold : w->threshold,
                                   in_strips(w) ? w->strip_rows : 0, err));
    /* The plane holds the distances, so an interrupted item can continue from here. */
    if (w->params->split && !w->params->min_contrast)
        state->head.chunks_done = (uint64_t)CC_RESUME * cc_bands(w->nx, w->ny);
    return TC_OK;
}

/* Ends the current stage, and sets the next one. */
static tc_status end_stage(cc_cl_worker *w, cc_state *state, tc_err *err)
{
    tc_status status = TC_OK;

    if (w->stage == HISTOGRAM)
        status = end_histogram(w, state, err);
    else if (w->stage == COUNT)
        status = end_count(w, state, err);
    else if (w->stage == MEASURE)
        status = end_measure(w, state, err);
    else if (w->stage == READ_ROOTS)
        status = end_roots(w, err);
    else if (w->stage == SMOOTH_Y || w->stage == GROUND || w->stage == GROUND_MEAN ||
             w->stage == LOCAL_MEAN)
        w->values = next_values(w);
    if (status != TC_OK)
        return status;
    w->done = 0;
    do
        w->stage++;
    while (w->stage < STAGES && !has_stage(w, w->stage));
    if (w->stage == STAGES && w->y0 + w->rows < w->ny)
        return begin_strip(w, w->y0 + w->rows, err);
    return w->stage == STAGES ? finish_device(w, state, err) : TC_OK;
}

/* --- the backend ----------------------------------------------------------------------------- */

/* Returns the progress, in chunks of the plan, for display. The device's stages count as the first
 * half of the plan. */
static uint64_t progress_chunks(const cc_cl_worker *w)
{
    const double strip = ((double)w->stage + 1) / STAGES;

    return (uint64_t)((double)w->ocl.work->plan.chunks / 2 * (w->y0 + strip * w->rows) / w->ny);
}

/* Adds the device time of the last launch to label_ms or measure_ms. */
static void add_time(cc_cl_worker *w)
{
    if (w->stage == MASK || (w->stage >= TILES && w->stage <= PAINT))
        w->label_ms += w->ocl.took_ms;
    else if (w->stage == TABLE || w->stage == MEASURE)
        w->measure_ms += w->ocl.took_ms;
}

/* Runs parts of stages until AN_STEP_SECONDS have passed or the stages end. If the host has to do
 * the next phase, lets it do a step instead. */
static tc_status cl_step(void *worker, void *state_at, uint64_t *chunks_done, tc_err *err)
{
    cc_cl_worker *const w = worker;
    cc_state *const state = state_at;
    const double end = tc_seconds() + AN_STEP_SECONDS;
    tc_status status = TC_OK;

    *chunks_done = state->head.chunks_done;
    if (state->head.chunks_done == w->ocl.work->plan.chunks)
        return TC_OK;
    if (w->host_only)
        return cc_host_step(w->host, state, CC_PHASES, chunks_done, err);
    if (in_strips(w) && cc_host_phase(w->host) < CC_BANDS) {
        return_if_error(cc_host_step(w->host, state, CC_BANDS, chunks_done, err));
        status = begin_strip(w, 0, err);
        return status == TC_OK ? TC_MORE : status;
    }
    if (w->rows == 0)
        status = begin_strip(w, 0, err);
    while (status == TC_OK && !w->host_only && w->stage < STAGES) {
        const uint64_t work = stage_work(w, w->stage);
        const uint64_t count = ocl_pace_next(&w->pace[w->stage], work - w->done);

        if (count > 0) {
            status = run_part(w, state, count, err);
            add_time(w);
        }
        if (status != TC_OK)
            return status;
        w->done += count;
        if (w->done == work)
            status = end_stage(w, state, err);
        if (tc_seconds() >= end)
            break;
    }
    *chunks_done = state->head.chunks_done > 0 ? state->head.chunks_done : progress_chunks(w);
    if (status != TC_OK)
        return status;
    return state->head.chunks_done == w->ocl.work->plan.chunks ? TC_OK : TC_MORE;
}

static void free_worker(void *worker)
{
    cc_cl_worker *const w = worker;

    if (w->host != NULL)
        cc_cpu.close(&w->host);
}

/* Sets w->group, and builds the kernels of the stages that the item may have. */
static tc_status make_kernels(cc_cl_worker *w, tc_err *err)
{
    const bool is_16_bit = w->ocl.work->pixels->bits == 16;
    const char *names[STAGES] = { NULL };
    bool any = false;

    for (int s = 0; s < STAGES; s++)
        if (may_have_stage(w, (cc_stage)s)) {
            names[s] = kernel_names[s];
            any = any || names[s] != NULL;
        }
    if (is_16_bit && names[HISTOGRAM] != NULL)
        names[HISTOGRAM] = "cc_histogram16";
    w->group = ocl_group_size(w->ocl.device, MAX_GROUP);
    if (!any)
        return TC_OK;
    return ocl_build_kernels(&w->ocl, &ocl_source_cellcount, false, names, STAGES, err,
                             "-DGROUP=%zu -DPIXEL=%s -DPIXEL16=%s16 -DSUM=%s -DKERNELS=%d",
                             w->group, is_16_bit ? "ushort" : "uchar",
                             is_16_bit ? "ushort" : "uchar", is_16_bit ? "ulong" : "uint",
                             (int)w->ocl.device->kernels & ~(CC_KERNELS_8 | CC_KERNELS_16));
}

/* Returns the number of planes of grey values that the preparation needs besides B_PIXELS. The
 * results of its steps are written to B_STEPS and B_STEPS + 1 in turn; an opening also needs
 * B_EXTREME. */
static unsigned preparation_planes(const cc_params *p)
{
    const int steps =
        cc_has_step(p, CC_SMOOTH) + cc_has_step(p, CC_GROUND) + cc_has_step(p, CC_LOCAL_MEAN);

    return (unsigned)(steps < 2 ? steps : 2) + cc_has_step(p, CC_EXTREME);
}

/* Returns the size, in bytes, of B_LINK for a strip of `rows` rows. B_LINK has a word for each node
 * or for each pixel, whichever is more, as it also holds the sums of windows and the distance
 * transform's work space. */
static uint64_t link_bytes(const cc_cl_worker *w, uint64_t rows)
{
    const uint64_t nodes = (uint64_t)w->stride * CC_NODES, row = w->nx > nodes ? w->nx : nodes;

    return rows * row * sizeof(cl_int);
}

/* Returns the bytes of device memory that a strip of `rows` rows needs, including small buffers
 * (the terms n / 64, 2^19 and 8 * (nx + rows)). whole: the strip is the whole picture, so the
 * device needs buffers for all stages. */
static uint64_t strip_bytes(const cc_cl_worker *w, uint64_t rows, bool whole)
{
    const uint64_t n = rows * w->nx, table = cc_table_rows(w->nx, (uint32_t)rows) *
                                             (CC_COLUMNS + 1) * sizeof(cl_uint);
    const uint64_t planes = (w->params->split ? 2 : 1) * sizeof(cl_int),
                   grey = 1 + (uint64_t)preparation_planes(w->params);
    const uint64_t pixels = w->ocl.work->pixels->bits / 8 * grey;

    return n * (planes + (whole ? pixels : 0)) + link_bytes(w, rows) + n / 64 +
           (whole ? table : 0) + (whole ? 3 : 2) * rows * w->stride * sizeof(cl_uint) +
           ((uint64_t)1 << 19) + 8 * (w->nx + rows);
}

/* Sets strip_rows to ny if the whole picture fits the device; otherwise to the largest power of two
 * times CC_TILE that fits. */
static void choose_strips(cc_cl_worker *w)
{
    const ocl_device *const d = w->ocl.device;
    const uint64_t room = d->memory_limit - d->memory_used;
    uint64_t rows = w->ny;

    if (strip_bytes(w, rows, /* whole */ true) > room ||
        rows * w->nx * sizeof(cl_int) > d->info.max_alloc_bytes) {
        rows = CC_TILE;
        while (rows * 2 < w->ny && strip_bytes(w, rows * 2, false) <= room &&
               rows * 2 * w->nx * sizeof(cl_int) <= d->info.max_alloc_bytes)
            rows *= 2;
    }
    w->strip_rows = (uint32_t)rows;
}

static tc_status make_buffers(cc_cl_worker *w, tc_err *err)
{
    /* split and whole are 1 or 0, and multiply the sizes of buffers that may not be needed. */
    const uint64_t n = (uint64_t)w->strip_rows * w->nx, split = w->params->split,
                   whole = !in_strips(w);
    const uint64_t grey_values = (uint64_t)1 << w->ocl.work->pixels->bits, word = sizeof(cl_uint);
    const uint64_t pixels = whole * n * (w->ocl.work->pixels->bits / 8),
                   planes = preparation_planes(w->params);
    const uint64_t bits = (uint64_t)w->strip_rows * w->stride * word;
    const bool opening = has_stage(w, EXTREME);
    uint32_t disc[CC_MOST_RADIUS + 1] = { 0 };

    for (int32_t dy = 0; opening && dy <= w->params->radius; dy++)
        disc[dy] = cc_disc_row(w->params->radius, dy);
    const ocl_buffer_need needs[] = {
        { B_PIXELS, pixels, "cellcount", NULL },
        { B_STEPS, planes > 0 ? pixels : 0, "cellcount", NULL },
        { B_STEPS + 1, planes > 1U + opening ? pixels : 0, "cellcount", NULL },
        { B_EXTREME, opening ? pixels : 0, "cellcount", NULL },
        { B_WEIGHTS, has_stage(w, SMOOTH_X) ? sizeof w->gauss.weight : 0, "cellcount",
          w->gauss.weight },
        { B_DISC, opening ? sizeof disc : 0, "cellcount", disc },
        { B_MASK, bits, "cellcount", NULL },
        { B_ROOTS, bits, "cellcount", NULL },
        { B_RANKS, has_stage(w, COUNT) ? bits : 0, "cellcount", NULL },
        { B_LINK, link_bytes(w, w->strip_rows), "cellcount", NULL },
        { B_LABELS, n * word, "cellcount", NULL },
        { B_DISTANCE, split * n * word, "cellcount", NULL },
        { B_HISTOGRAM, has_stage(w, HISTOGRAM) ? grey_values * word : 0, "cellcount", NULL },
        { B_COUNTS,
          has_stage(w, COUNT) ? ocl_unit_count(n, w->group * CC_WORDS_PER_ITEM) * word : 0,
          "cellcount", NULL },
        { B_BORDER, has_stage(w, FILL) ? 2 * ((uint64_t)w->nx + w->ny) * word : 0, "cellcount",
          NULL }
    };
    return_if_error(ocl_make_buffers(&w->ocl, needs, sizeof needs / sizeof needs[0], err));

    return has_stage(w, HISTOGRAM)
               ? ocl_zero_buffer(w->ocl.device, &w->ocl.buffer[B_HISTOGRAM], err)
               : TC_OK;
}

/* Sets the paces so that the first launch of each stage processes about 8192 pixels. A stage that
 * copies to the host always copies about 16 million pixels at a time. */
static void set_paces(cc_cl_worker *w)
{
    w->rows = w->strip_rows;
    for (int s = 0; s < STAGES; s++) {
        const uint64_t work = stage_work(w, (cc_stage)s), pixels = (uint64_t)w->nx * w->strip_rows;

        /* The most work of a launch. The length of the table is not known yet. */
        const uint64_t most = s == TABLE                ? UINT32_MAX
                              : kernel_names[s] != NULL ? work
                                                        : ((uint64_t)1 << 24) / w->nx + 1;

        ocl_pace_begin(&w->ocl, &w->pace[s],
                       kernel_names[s] == NULL ? (double)most
                                               : (double)work * (1 << 13) / (double)pixels,
                       most);
    }
    w->rows = 0;
}

/* Whether the CPU backend, which uses vector instructions, is assumed to be faster than the device.
 * An OpenCL device of type CPU is slow with the work-groups of cc_disc. */
static bool faster_on_host(const cc_cl_worker *w)
{
    return w->ocl.device->info.type == CL_DEVICE_TYPE_CPU && cc_has_step(w->params, CC_EXTREME) &&
           w->params->radius > MOST_CPU_RADIUS;
}

static tc_status open_worker(void *worker, const void *state, tc_err *err)
{
    cc_cl_worker *const w = worker;
    const an_work *const work = w->ocl.work;

    w->nx = work->item->nx;
    w->ny = work->item->ny;
    w->stride = (uint32_t)lab_stride(w->nx) * 2;
    w->values = B_PIXELS;
    return_if_error(cc_cpu.open(work, state, &w->host, err));
    w->params = cc_host_params(w->host);
    w->threshold = cc_finds_threshold(w->params) ? 0 : cc_threshold(w->params, work->pixels->bits);
    if (cc_has_step(w->params, CC_SMOOTH))
        w->gauss = an_gauss_make(w->params->smooth);
    choose_strips(w);
    w->host_only = work->pixels->mask != NULL || cc_host_phase(w->host) >= CC_RESUME ||
                   (w->params->split && in_strips(w)) ||
                   !(finds_regions(w) || cc_has_preparation(w->params)) || faster_on_host(w);
    if (w->host_only)
        return TC_OK;
    return_if_error(make_kernels(w, err));
    return_if_error(make_buffers(w, err));
    /* set_paces needs w->group, which make_kernels has set. */
    set_paces(w);
    return TC_OK;
}

static const ocl_launcher launcher = { "cellcount", sizeof(cc_cl_worker), open_worker,
                                       free_worker };

static tc_status cl_open(const an_work *work, const void *state, void **worker, tc_err *err)
{
    return ocl_worker_open(&launcher, work, state, worker, err);
}

const an_backend ocl_cellcount = {
    .name = "opencl", .open = cl_open, .step = cl_step, .close = ocl_worker_close
};
