/* volume: declares the arrays of a result, makes them from the labels of the voxels, checks states
 * from checkpoints, and writes notes about results. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "app/analysis/check.h"
#include "app/analysis/bits.h"
#include "app/base/os.h"
#include "app/base/pool.h"
#include "app/analysis/volume/volume.h"

/* --- measuring ------------------------------------------------------------------------------- */

/* The data that the threads use to measure the cells of a stack. */
typedef struct measure {
    const int32_t *plane; /* [rows][nx]: labels */
    uint32_t nx, ny;
    size_t rows, n;   /* number of rows of the stack, and number of cells */
    vol_cell *tables; /* [threads][n] */
} measure;

/* Adds a run of equal labels, voxels [a, x) of a row, to its cell. Returns x, where the next run
 * begins. */
static uint32_t add_run(const measure *m, unsigned thread, size_t row, uint32_t a, uint32_t x)
{
    const int32_t label = m->plane[row * m->nx + a];
    const uint32_t position[2] = { (uint32_t)(row / m->ny), (uint32_t)(row % m->ny) }; /* z, y */
    const uint64_t length = x - a;
    vol_cell *c;

    if (label == 0)
        return x;
    c = &m->tables[thread * m->n + (size_t)label - 1];
    c->voxels += length;
    c->sum[2] += length * ((uint64_t)a + x - 1) / 2; /* a + (a + 1) + ... + (x - 1) */
    c->lo[2] = a < c->lo[2] ? a : c->lo[2];
    c->hi[2] = x > c->hi[2] ? x : c->hi[2];
    for (int i = 0; i < 2; i++) {
        c->sum[i] += length * position[i];
        c->lo[i] = position[i] < c->lo[i] ? position[i] : c->lo[i];
        c->hi[i] = position[i] + 1 > c->hi[i] ? position[i] + 1 : c->hi[i];
    }
    return x;
}

/* Adds the runs of a row to their cells. an_bits_changes compares 64 labels with their successors
 * at once, and sets a bit where a run ends. */
static void measure_row(const measure *m, unsigned thread, size_t row)
{
    const int32_t *const line = m->plane + row * m->nx;
    uint32_t a = 0, x = 0;

    for (; x + 64 < m->nx; x += 64)
        for (uint64_t ends = an_bits_changes(line + x); ends != 0; ends &= ends - 1)
            a = add_run(m, thread, row, a, x + 1 + (uint32_t)__builtin_ctzll(ends));
    for (; x + 1 < m->nx; x++)
        if (line[x] != line[x + 1])
            a = add_run(m, thread, row, a, x + 1);
    add_run(m, thread, row, a, m->nx);
}

/* Adds the runs of a band of rows to their cells. */
static void measure_band(void *user, unsigned thread, size_t band)
{
    const measure *const m = user;
    const size_t from = band * vol_band_rows(m->nx);
    const size_t to = m->rows - from < vol_band_rows(m->nx) ? m->rows : from + vol_band_rows(m->nx);

    for (size_t row = from; row < to; row++)
        measure_row(m, thread, row);
}

/* Adds the measurements of another part of the same cell to *c. */
static void merge_cells(vol_cell *c, const vol_cell *other)
{
    c->voxels += other->voxels;
    for (int i = 0; i < 3; i++) {
        c->sum[i] += other->sum[i];
        c->lo[i] = other->lo[i] < c->lo[i] ? other->lo[i] : c->lo[i];
        c->hi[i] = other->hi[i] > c->hi[i] ? other->hi[i] : c->hi[i];
    }
}

/* Measures all bands, and merges the threads' tables into the first. */
static tc_status measure_bands(measure *m, unsigned threads, const tc_poll *poll, tc_err *err)
{
    an_pool *pool = NULL;
    tc_status status = an_pool_create(threads, &pool, err);

    if (status == TC_OK)
        status = an_pool_run_polled(pool, measure_band, m,
                                    (m->rows + vol_band_rows(m->nx) - 1) / vol_band_rows(m->nx),
                                    poll, err);
    an_pool_destroy(&pool);
    for (size_t i = 0, end; status == TC_OK && i < m->n; status = tc_call_poll(poll, err))
        for (end = tc_block_end(i, m->n); i < end; i++)
            for (unsigned t = 1; t < threads; t++)
                merge_cells(&m->tables[i], &m->tables[t * m->n + i]);
    return status;
}

/* Measures the cells of a final state. *out: [state->cells], to be freed by the caller, also after
 * a failure. */
static tc_status measure_cells(const an_work *work, const vol_state *state, vol_cell **out,
                               tc_err *err)
{
    const wu_item *const item = work->item;
    const size_t rows = (size_t)item->ny * item->nz, n = (size_t)state->cells;
    /* Each thread gets a table, unless all tables together would exceed a byte a voxel. */
    const unsigned threads = /* if only one table fits, one thread measures all cells */
        work->threads * n * sizeof(vol_cell) > rows * item->nx ? 1 : work->threads;
    /* The state's nodes[0] stands for the outside; a voxel has the node with its index plus 1. */
    measure m = { .plane = state->nodes + 1, .nx = item->nx, .ny = item->ny, .rows = rows, .n = n };

    *out = m.tables = os_alloc_zeroed((threads * n + 1) * sizeof *m.tables);
    if (m.tables == NULL)
        return tc_no_memory(err, "the cells");
    for (size_t i = 0, end; i < threads * n;) {
        for (end = tc_block_end(i, threads * n); i < end; i++)
            m.tables[i] = (vol_cell){ .lo = { UINT32_MAX, UINT32_MAX, UINT32_MAX } };
        return_if_error(tc_call_poll(work->poll, err));
    }
    return measure_bands(&m, threads, work->poll, err);
}

static tc_status refuse_state(tc_err *err)
{
    return tc_fail(err, TC_BAD_INPUT, "the labels are damaged");
}

/* Checks that all nodes except node 0 are from `least` to `most`. occurs: if not NULL, occurs[v] is
 * set to 1 for each value v that occurs. */
static tc_status check_nodes(const an_work *work, const vol_state *state, uint64_t least,
                             uint64_t most, uint8_t *occurs, tc_err *err)
{
    const size_t voxels = (size_t)work->item->nx * work->item->ny * work->item->nz;
    tc_status status = TC_OK;

    for (size_t i = 0, end; status == TC_OK && i < voxels;) {
        bool good = true;

        for (end = tc_block_end(i, voxels); good && i < end; i++) {
            const uint32_t label = (uint32_t)state->nodes[1 + i];

            good = label >= least && label <= most;
            if (good && occurs != NULL)
                occurs[label] = 1;
        }
        status = good ? tc_call_poll(work->poll, err) : refuse_state(err);
    }
    return status;
}

/* Checks that the labels of a final state are from 0 to state->cells, and that each from 1 on
 * occurs. */
static tc_status check_final_labels(const an_work *work, const vol_state *state, tc_err *err)
{
    const uint64_t voxels = (uint64_t)work->item->nx * work->item->ny * work->item->nz;
    TC_AUTOFREE uint8_t *const occurs =
        state->cells <= voxels ? os_alloc_zeroed((size_t)state->cells + 1) : NULL;
    return_if_error(state->cells > voxels ? refuse_state(err)
                    : occurs == NULL      ? tc_no_memory(err, "the cells")
                                          : check_nodes(work, state, 0, state->cells, occurs, err));

    if (state->cells > 0 && memchr(occurs + 1, 0, (size_t)state->cells) != NULL)
        return refuse_state(err);
    return TC_OK;
}

tc_status vol_check_state(const an_work *work, const void *state_data, tc_err *err)
{
    const vol_params *const p = work->params;
    const vol_state *const state = state_data;
    const size_t rows = (size_t)work->item->ny * work->item->nz;
    const size_t band_rows = vol_band_rows(work->item->nx),
                 bands = (rows + band_rows - 1) / band_rows;
    const uint64_t chunks_done = state->head.chunks_done;
    /* Between the start and the end, a state is only saved at the end of the filter. */
    const uint64_t after_filter = (uint64_t)VOL_RESUME * bands;
    /* Without otsu the state's threshold is 0. Otsu's threshold is at least 1, even if all grey
     * values are equal. */
    const bool valid = p->otsu ? state->threshold >= 1 && state->threshold < (uint32_t)1
                                                                                 << work->item->bits
                               : state->threshold == 0;

    if (chunks_done != 0 && !valid)
        return refuse_state(err);
    if (chunks_done == work->plan.chunks)
        return check_final_labels(work, state, err);
    /* If the first chunk was in progress, the nodes may have any value, as they will be cleared.
     * After the filter a node is 0 (membrane) or 1, or, for the watershed, a height. */
    if (chunks_done == 0)
        return state->in_progress != 0 ? TC_OK : check_nodes(work, state, 0, 0, NULL, err);
    if (!vol_has_blur(p) || chunks_done != after_filter)
        return refuse_state(err);
    /* A height is VOL_TOP minus a grey value with VOL_GREY_BITS fractional bits, so the lowest
     * height is that of the greatest grey value. It is above 0, which would mean a voxel that
     * belongs to no hill. */
    return !p->watershed
               ? check_nodes(work, state, 0, 1, NULL, err)
               : check_nodes(work, state,
                             VOL_TOP - ((((uint64_t)1 << work->item->bits) - 1) << VOL_GREY_BITS),
                             VOL_TOP, NULL, err);
}

/* --- the arrays ------------------------------------------------------------------------------ */

static bool is_at_border(const vol_cell *c, const uint32_t size[3])
{
    bool border = false;

    for (size_t k = 0; k < 3; k++)
        border = border || c->lo[k] == 0 || c->hi[k] == size[k];
    return border;
}

static tc_status fill_table(const an_work *work, size_t item_index, const vol_cell *cells, size_t n,
                            const wu_output *out, tc_err *err)
{
    const wu_item *const item = work->item;
    int64_t *const items = wu_output_data(out, "cell_item"), *const label =
                                                                 wu_output_data(out, "cell_label");
    int64_t *const voxels = wu_output_data(out, "cell_voxels");
    int64_t *const bbox = wu_output_data(out, "cell_bbox");
    double *const volume = wu_output_data(out, "cell_volume");
    double *const centroid = wu_output_data(out, "cell_centroid");
    uint8_t *const border = wu_output_data(out, "cell_border");
    const uint32_t size[3] = { item->nz, item->ny, item->nx };

    for (size_t i = 0; i < n; i++) {
        const vol_cell *const c = &cells[i];

        items[i] = (int64_t)item_index;
        label[i] = (int64_t)i + 1;
        voxels[i] = (int64_t)c->voxels;
        volume[i] = vol_volume(item, (int64_t)c->voxels);
        for (size_t k = 0; k < 3; k++) {
            bbox[6 * i + k] = c->lo[k];
            bbox[6 * i + 3 + k] = c->hi[k];
            centroid[3 * i + k] = (double)c->sum[k] / (double)c->voxels;
        }
        border[i] = is_at_border(c, size);
        if (i % 4096 == 0)
            return_if_error(tc_call_poll(work->poll, err));
    }
    return TC_OK;
}

static void set_integer(const wu_output *out, const char *name, uint64_t value)
{
    *(int64_t *)wu_output_data(out, name) = (int64_t)value;
}

double vol_volume(const wu_item *item, int64_t voxels)
{
    return (double)voxels * (item->spacing[0] * item->spacing[1] * item->spacing[2]);
}

static void fill_totals(const wu_item *item, const vol_state *state, const vol_cell *cells,
                        const wu_output *out)
{
    const uint64_t n = (uint64_t)item->nx * item->ny * item->nz;
    uint64_t inside = 0;

    for (size_t i = 0; i < state->cells; i++)
        inside += cells[i].voxels;
    set_integer(out, "cells", state->cells);
    set_integer(out, "inside_voxels", inside);
    set_integer(out, "membrane_voxels", state->membrane);
    set_integer(out, "external_voxels", state->outside);
    set_integer(out, "left_out_voxels", n - state->membrane - state->outside - inside);
    set_integer(out, "repair_added_voxels", state->repair_added);
    set_integer(out, "repair_bias_voxels", state->repair_bias);
    *(double *)wu_output_data(out, "voxel_volume") = vol_volume(item, 1);
    *(double *)wu_output_data(out, "volume") = vol_volume(item, (int64_t)inside);
}

static const wu_axis bbox_axis = { .n = 6,
                                   .words = (const char *const[]){ "z0", "y0", "x0", "z1", "y1",
                                                                   "x1" } },
                     position_axis = { .n = 3, .words = (const char *const[]){ "z", "y", "x" } };

tc_status vol_declare_arrays(const void *params, const wu_item *item, wu_output *out, tc_err *err)
{
    /* Name, type, role, table, title; then the unit and the axes, if the array has them. */
    const wu_declaration arrays[] = {
        { "cells", WU_I64, WU_VALUE, "items", .title = "cells" },
        { "inside_voxels", WU_I64, WU_VALUE, "items", "inside_voxels", .unit = "voxel" },
        { "membrane_voxels", WU_I64, WU_VALUE, "items", "membrane_voxels", .unit = "voxel" },
        { "external_voxels", WU_I64, WU_VALUE, "items", "external_voxels", .unit = "voxel" },
        { "left_out_voxels", WU_I64, WU_VALUE, "items", "left_out_voxels", .unit = "voxel" },
        { "repair_added_voxels", WU_I64, WU_VALUE, "items", "repair_added_voxels",
          .unit = "voxel" },
        { "repair_bias_voxels", WU_I64, WU_VALUE, "items", "repair_bias_voxels", .unit = "voxel" },
        { "voxel_volume", WU_F64, WU_VALUE, "items", "voxel_volume", .unit = "um^3" },
        { "volume", WU_F64, WU_VALUE, "items", "volume", .unit = "um^3" },
        { "threshold", WU_I64, WU_VALUE, "items", .title = "threshold" },
        { "cell_item", WU_I64, WU_ITEM, .table = "cells" },
        { "cell_label", WU_I64, WU_KEY, "cells", .title = "label" },
        { "cell_voxels", WU_I64, WU_VALUE, "cells", "voxels", .unit = "voxel" },
        { "cell_volume", WU_F64, WU_VALUE, "cells", "volume", .unit = "um^3" },
        { "cell_bbox", WU_I64, WU_VALUE, "cells", "bbox", "voxel", .n_axes = 1,
          .axes = { bbox_axis } },
        { "cell_centroid", WU_F64, WU_VALUE, "cells", "centroid", "voxel", .n_axes = 1,
          .axes = { position_axis } },
        { "cell_border", WU_BOOL, WU_VALUE, "cells", .title = "border" },
        { "labels_{item}", WU_I32, WU_LABELS, "cells", .title = "cells" },
    };
    const vol_params *const p = params;
    /* The last array, the labels, is declared only if the parameters ask for labels. */
    const size_t n = sizeof arrays / sizeof arrays[0] - !p->labels;
    /* `threshold` is declared only with otsu: the first call below ends before or after it. */
    const size_t n_before = 9; /* number of arrays before `threshold` */
    tc_status status = wu_output_declare(out, arrays, n_before + p->otsu, item, err);

    return status != TC_OK
               ? status
               : wu_output_declare(out, arrays + n_before + 1, n - n_before - 1, item, err);
}

/* Makes the item's arrays. The array of labels refers to `labels` (wu_output_lend), as a copy would
 * double the memory. */
static tc_status fill_arrays(const an_work *work, size_t item_index, const vol_state *state,
                             const int32_t *labels, const vol_cell *cells, wu_output *out,
                             tc_err *err)
{
    const vol_params *const p = work->params;
    return_if_error(vol_declare_arrays(p, work->item, out, err));

    if (p->labels)
        wu_output_lend(&out->arrays[out->n - 1], labels);
    return_if_error(wu_output_allocate(out, state->cells, err));
    return_if_error(fill_table(work, item_index, cells, (size_t)state->cells, out, err));
    fill_totals(work->item, state, cells, out);
    if (p->otsu)
        set_integer(out, "threshold", state->threshold);
    return TC_OK;
}

tc_status vol_finish(const an_work *work, size_t item_index, const void *state_data, wu_output *out,
                     tc_err *err)
{
    const vol_state *const state = state_data;
    TC_AUTOFREE vol_cell *cells = NULL;
    return_if_error(measure_cells(work, state, &cells, err));

    return fill_arrays(work, item_index, state, state->nodes + 1, cells, out, err);
}

tc_status vol_finish_cells(const an_work *work, size_t item_index, vol_state *head, vol_cell *cells,
                           wu_output *out, tc_err *err)
{
    const wu_item *const item = work->item;
    const uint32_t size[3] = { item->nz, item->ny, item->nx };
    const size_t n = (size_t)head->cells;

    head->cells = 0;
    for (size_t i = 0, end; i < n;) {
        for (end = tc_block_end(i, n); i < end; i++)
            if (vol_is_kept(work->params, (int64_t)cells[i].voxels, is_at_border(&cells[i], size)))
                cells[head->cells++] = cells[i];
        return_if_error(tc_call_poll(work->poll, err));
    }
    return fill_arrays(work, item_index, head, NULL, cells, out, err);
}

int64_t vol_read_integer(const wu_output *out, const char *name)
{
    assert(wu_output_find(out, name)->info.dtype == WU_I64);
    return *(const int64_t *)wu_output_data(out, name);
}

bool vol_note_result(const void *params, const wu_item *item, const wu_output *out, char *text,
                     size_t size)
{
    enum { SPECK = 27 }; /* cells of fewer than 3 * 3 * 3 voxels may be noise */
    const vol_params *const p = params;
    const int64_t membrane = vol_read_integer(out, "membrane_voxels"),
                  cells = vol_read_integer(out, "cells");
    const bool has_other_voxels = vol_read_integer(out, "external_voxels") != 0 ||
                                  vol_read_integer(out, "left_out_voxels") != 0;
    const int threshold = p->otsu ? (int)vol_read_integer(out, "threshold") : (int)p->membrane;
    /* Whether walls seem to have gaps: most cells are specks of noise, and the outside has more
     * than ten times as many voxels as all cells, as the true cells are connected with it. */
    const bool leaks =
        !p->watershed && an_mostly_below(out, "cell_voxels", SPECK, 1) &&
        vol_read_integer(out, "external_voxels") / 10 > vol_read_integer(out, "inside_voxels");

    (void)item;
    if (cells == 1 && p->watershed && !has_other_voxels)
        snprintf(text, size,
                 "there is only one cell: for bright cells without walls use voting; for others "
                 "try a lower --param h (now %g) or smooth (now %g)",
                 p->h, p->smooth);
    else if (cells > 0 && leaks)
        snprintf(
            text, size,
            "most of the %lld cells have fewer than %d voxels, as noise has, and %.0f times as "
            "many voxels as all cells have are connected with the outside: try --param "
            "method=watershed --param smooth=1.5, a smaller membrane (now %d), or repair, which "
            "closes gaps",
            (long long)cells, SPECK,
            (double)vol_read_integer(out, "external_voxels") /
                fmax((double)vol_read_integer(out, "inside_voxels"), 1),
            threshold);
    else if (cells > 0 && !an_mostly_below(out, "cell_voxels", SPECK, AN_MANY_CELLS))
        return false;
    else if (cells > 0)
        snprintf(text, size,
                 "most of the %lld cells have fewer than %d voxels, as noise has: try a larger "
                 "--param smooth (now %g) or min_voxels (now %lld)",
                 (long long)cells, SPECK, p->smooth, (long long)p->min_voxels);
    else if (membrane == 0 && !p->watershed)
        snprintf(text, size,
                 "no cells: no voxel is membrane; try a smaller --param membrane (now %d)",
                 threshold);
    else if (!has_other_voxels && p->otsu && !p->repair)
        snprintf(text, size, "no cells: all voxels have the same grey value");
    else if (!has_other_voxels)
        snprintf(text, size,
                 "no cells: every voxel is membrane; try a larger --param membrane (now %d)",
                 threshold);
    else if (vol_read_integer(out, "left_out_voxels") > 0)
        snprintf(text, size,
                 "no cells: all were left out by --param min_voxels, max_voxels or exclude_border");
    else
        snprintf(text, size,
                 "no cells: all that is not membrane is connected with the outside; try --param "
                 "method=watershed --param smooth=1.5, a smaller membrane (now %d), or repair, "
                 "which closes gaps",
                 threshold);
    return true;
}

tc_status vol_add_constants(const void *params, wu_output *out, tc_err *err)
{
    static const wu_declaration gaps = { "repair_gap",    WU_I64,
                                         WU_VALUE,        .title = "repair_gap",
                                         .unit = "voxel", .rows = VOL_MAX_WALL };
    const vol_params *const p = params;

    if (!p->repair)
        return TC_OK;
    return_if_error(wu_output_declare(out, &gaps, 1, NULL, err));
    return_if_error(wu_output_allocate(out, 0, err));
    vol_repair_gaps(p, wu_output_data(out, gaps.name));
    return TC_OK;
}
