/* volume: from labels to tables, and what a result may hold. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/bits.h"
#include "app/analysis/pool.h"
#include "app/analysis/volume.h"

/* --- measuring -------------------------------------------------------------------- */

typedef struct cell {
    uint64_t voxels, sum[3];   /* z, y, x */
    uint32_t lo[3], hi[3];     /* half-open */
} cell;

typedef struct measure {
    const int32_t *plane;
    uint32_t nx, ny;
    size_t rows, n;
    cell *tables;              /* [threads][n] */
    bool *damaged;             /* [threads]: there was a label that cannot be */
} measure;

/* The run [a, x) of a row. Returns x. A checkpoint is not believed blindly: labels
 * index tables. */
static uint32_t end_run(const measure *m, unsigned thread, size_t row, uint32_t a, uint32_t x)
{
    const int32_t label = m->plane[row * m->nx + a];
    const uint32_t at[2] = { (uint32_t)(row / m->ny), (uint32_t)(row % m->ny) };
    const uint64_t length = x - a;
    cell *c;

    if (label == 0)
        return x;
    if (label < 0 || (size_t)label > m->n) {
        m->damaged[thread] = true;
        return x;
    }
    c = &m->tables[thread * m->n + (size_t)label - 1];
    c->voxels += length;
    c->sum[2] += length * ((uint64_t)a + x - 1) / 2;
    c->lo[2] = a < c->lo[2] ? a : c->lo[2];
    c->hi[2] = x > c->hi[2] ? x : c->hi[2];
    for (int i = 0; i < 2; i++) {
        c->sum[i] += length * at[i];
        c->lo[i] = at[i] < c->lo[i] ? at[i] : c->lo[i];
        c->hi[i] = at[i] + 1 > c->hi[i] ? at[i] + 1 : c->hi[i];
    }
    return x;
}

static void measure_row(const measure *m, unsigned thread, size_t row)
{
    const int32_t *const line = m->plane + row * m->nx;
    uint32_t a = 0, x = 0;

    for (; x + 64 < m->nx; x += 64)
        for (uint64_t ends = an_bits_changes(line + x); ends != 0; ends &= ends - 1)
            a = end_run(m, thread, row, a, x + 1 + (uint32_t)__builtin_ctzll(ends));
    for (; x + 1 < m->nx; x++)
        if (line[x] != line[x + 1])
            a = end_run(m, thread, row, a, x + 1);
    end_run(m, thread, row, a, m->nx);
}

static void measure_band(void *user, unsigned thread, size_t band)
{
    const measure *const m = user;
    const size_t from = band * vol_band_rows(m->nx);
    const size_t to = m->rows - from < vol_band_rows(m->nx) ? m->rows : from + vol_band_rows(m->nx);

    for (size_t row = from; row < to; row++)
        measure_row(m, thread, row);
}

static void merge(cell *c, const cell *o)
{
    c->voxels += o->voxels;
    for (int i = 0; i < 3; i++) {
        c->sum[i] += o->sum[i];
        c->lo[i] = o->lo[i] < c->lo[i] ? o->lo[i] : c->lo[i];
        c->hi[i] = o->hi[i] > c->hi[i] ? o->hi[i] : c->hi[i];
    }
}

static tc_status measure_bands(measure *m, unsigned threads, tc_err *err)
{
    an_pool *pool = NULL;
    const tc_status st = an_pool_create(threads, &pool, err);

    if (st != TC_OK)
        return st;
    an_pool_run(pool, measure_band, m, (m->rows + vol_band_rows(m->nx) - 1) / vol_band_rows(m->nx));
    an_pool_destroy(&pool);
    for (unsigned t = 1; t < threads; t++) {
        m->damaged[0] |= m->damaged[t];
        for (size_t i = 0; i < m->n; i++)
            merge(&m->tables[i], &m->tables[t * m->n + i]);
    }
    return TC_OK;
}

/* *out: the cells, the caller's. */
static tc_status measure_cells(const an_task *task, const vol_state *state, cell **out, tc_err *err)
{
    const wu_item *const item = task->item;
    const size_t rows = (size_t)item->ny * item->nz, n = state->cells <= rows * item->nx ? (size_t)state->cells : 0;
    /* A table for each thread, unless they would be large beside the plane. */
    const unsigned threads = task->threads * n * sizeof(cell) > rows * item->nx ? 1 : task->threads;
    measure m = { .plane = state->nodes + 1, .nx = item->nx, .ny = item->ny, .rows = rows, .n = n,
                  .damaged = calloc(threads, sizeof(bool)) };
    tc_status st;

    *out = m.tables = malloc((threads * n + 1) * sizeof *m.tables);
    if (m.tables == NULL || m.damaged == NULL) {
        free(m.damaged);
        return tc_no_memory(err, "the cells");
    }
    for (size_t i = 0; i < threads * n; i++)
        m.tables[i] = (cell){ .lo = { UINT32_MAX, UINT32_MAX, UINT32_MAX } };
    st = measure_bands(&m, threads, err);
    for (size_t i = 0; st == TC_OK && i < n; i++)
        m.damaged[0] |= m.tables[i].voxels == 0;
    if (st == TC_OK && (m.damaged[0] || n != state->cells))
        st = tc_fail(err, TC_INTERNAL, "item \"%s\": the labels are damaged", item->name);
    free(m.damaged);
    return st;
}

/* --- the arrays ------------------------------------------------------------------- */

static double voxel_volume(const wu_item *item)
{
    return item->spacing[0] * item->spacing[1] * item->spacing[2];
}

typedef struct columns {
    int64_t *item, *label, *voxels, *bbox;
    double *volume, *centroid;
    uint8_t *border;
} columns;

static tc_status add_columns(wu_output *out, uint64_t n, columns *c, tc_err *err)
{
    const struct {
        const char *name;
        wu_dtype type;
        uint64_t columns;
        void **data;
    } list[] = {
        { "cell_item", WU_I64, 1, (void **)&c->item },
        { "cell_label", WU_I64, 1, (void **)&c->label },
        { "cell_voxels", WU_I64, 1, (void **)&c->voxels },
        { "cell_volume", WU_F64, 1, (void **)&c->volume },
        { "cell_bbox", WU_I64, 6, (void **)&c->bbox },
        { "cell_centroid", WU_F64, 3, (void **)&c->centroid },
        { "cell_border", WU_BOOL, 1, (void **)&c->border },
    };
    tc_status st = TC_OK;

    for (size_t i = 0; st == TC_OK && i < sizeof list / sizeof list[0]; i++) {
        const uint64_t shape[2] = { n, list[i].columns };
        void *data = NULL;

        st = wu_output_add(out, WU_ROWS, list[i].name, list[i].type, 0, shape[1] > 1 ? 2 : 1, shape, &data, err);
        memcpy(list[i].data, &data, sizeof data);
    }
    return st;
}

static void fill_columns(const wu_item *item, size_t item_index, const cell *cells, size_t n, const columns *c)
{
    const uint32_t size[3] = { item->nz, item->ny, item->nx };

    for (size_t i = 0; i < n; i++) {
        const cell *const from = &cells[i];

        c->item[i] = (int64_t)item_index;
        c->label[i] = (int64_t)i + 1;
        c->voxels[i] = (int64_t)from->voxels;
        c->volume[i] = (double)from->voxels * voxel_volume(item);
        c->border[i] = false;
        for (int k = 0; k < 3; k++) {
            c->bbox[6 * i + (size_t)k] = from->lo[k];
            c->bbox[6 * i + 3 + (size_t)k] = from->hi[k];
            c->centroid[3 * i + (size_t)k] = (double)from->sum[k] / (double)from->voxels;
            c->border[i] |= from->lo[k] == 0 || from->hi[k] == size[k];
        }
    }
}

static tc_status add_row(wu_output *out, const char *name, wu_dtype type, const void *value, tc_err *err)
{
    const uint64_t one = 1;
    void *data;
    const tc_status st = wu_output_add(out, WU_ROWS, name, type, 0, 1, &one, &data, err);

    if (st == TC_OK)
        memcpy(data, value, 8);
    return st;
}

static tc_status add_totals(const an_task *task, const vol_state *state, const cell *cells, wu_output *out,
                            tc_err *err)
{
    const uint64_t n = (uint64_t)task->item->nx * task->item->ny * task->item->nz;
    const double unit = voxel_volume(task->item);
    uint64_t inside = 0;
    double volume;
    tc_status st;

    for (size_t i = 0; i < state->cells; i++)
        inside += cells[i].voxels;
    volume = (double)inside * unit;
    const uint64_t left_out = n - state->membrane - state->outside - inside;
    const struct {
        const char *name;
        wu_dtype type;
        const void *value;
    } rows[] = {
        { "cells", WU_I64, &state->cells },
        { "inside_voxels", WU_I64, &inside },
        { "membrane_voxels", WU_I64, &state->membrane },
        { "external_voxels", WU_I64, &state->outside },
        { "left_out_voxels", WU_I64, &left_out },
        { "repair_added_voxels", WU_I64, &state->repair_added },
        { "repair_bias_voxels", WU_I64, &state->repair_bias },
        { "voxel_volume", WU_F64, &unit },
        { "volume", WU_F64, &volume },
    };

    st = TC_OK;
    for (size_t i = 0; st == TC_OK && i < sizeof rows / sizeof rows[0]; i++)
        st = add_row(out, rows[i].name, rows[i].type, rows[i].value, err);
    return st;
}

static tc_status add_labels(const an_task *task, const vol_state *state, wu_output *out, tc_err *err)
{
    const uint64_t shape[3] = { task->item->nz, task->item->ny, task->item->nx };
    char name[WU_MAX_NAME + 16];

    snprintf(name, sizeof name, "labels_%s", task->item->name);
    return wu_output_lend(out, WU_OWN, name, WU_I32, 3, shape, state->nodes + 1, err);
}

tc_status vol_finish(const an_task *task, size_t item_index, const void *state_at, wu_output *out, tc_err *err)
{
    const vol_params *const p = task->params;
    const vol_state *const state = state_at;
    columns c = { .item = NULL };
    cell *cells = NULL;
    tc_status st = measure_cells(task, state, &cells, err);

    if (st == TC_OK)
        st = add_totals(task, state, cells, out, err);
    if (st == TC_OK)
        st = add_columns(out, state->cells, &c, err);
    if (st == TC_OK)
        fill_columns(task->item, item_index, cells, (size_t)state->cells, &c);
    if (st == TC_OK && p->labels)
        st = add_labels(task, state, out, err);
    free(cells);
    return st;
}

tc_status vol_constants(const void *params, wu_output *out, tc_err *err)
{
    const vol_params *const p = params;
    const uint64_t walls = VOL_WALLS;
    void *gaps;
    tc_status st;

    if (!p->repair)
        return TC_OK;
    st = wu_output_add(out, WU_ONCE, "repair_gap", WU_I64, 0, 1, &walls, &gaps, err);
    if (st == TC_OK)
        vol_repair_gaps(p, gaps);
    return st;
}

/* --- what a result may hold --------------------------------------------------------- */

static tc_status check_least(const wu_array_info *info, const void *data, int64_t least, tc_err *err)
{
    const int64_t *const v = data;
    const uint64_t n = info->shape[0] * (info->ndim > 1 ? info->shape[1] : 1);

    for (uint64_t i = 0; i < n; i++)
        if (v[i] < least || v[i] > (int64_t)WU_MAX_VOXELS)
            return tc_fail(err, TC_BAD_INPUT, "%s: element %llu: %lld is no possible value", info->name,
                           (unsigned long long)i, (long long)v[i]);
    return TC_OK;
}

static tc_status check_from_0(const void *params, const wu_array_info *info, const void *data, tc_err *err)
{
    (void)params;
    return check_least(info, data, 0, err);
}

static tc_status check_from_1(const void *params, const wu_array_info *info, const void *data, tc_err *err)
{
    (void)params;
    return check_least(info, data, 1, err);
}

static tc_status check_repair(const void *params, const wu_array_info *info, const void *data, tc_err *err)
{
    const vol_params *const p = params;
    const int64_t *const v = data;

    for (uint64_t i = 0; !p->repair && i < info->shape[0]; i++)
        if (v[i] != 0)
            return tc_fail(err, TC_BAD_INPUT, "%s: element %llu: %lld, but nothing was repaired", info->name,
                           (unsigned long long)i, (long long)v[i]);
    return check_least(info, data, 0, err);
}

static tc_status check_voxels(const void *params, const wu_array_info *info, const void *data, tc_err *err)
{
    const vol_params *const p = params;
    const int64_t *const v = data;

    for (uint64_t i = 0; i < info->shape[0]; i++)
        if (v[i] < p->min_voxels || v[i] > p->max_voxels)
            return tc_fail(err, TC_BAD_INPUT, "%s: element %llu: %lld is not within min_voxels and max_voxels",
                           info->name, (unsigned long long)i, (long long)v[i]);
    return check_least(info, data, 1, err);
}

static tc_status check_border(const void *params, const wu_array_info *info, const void *data, tc_err *err)
{
    const vol_params *const p = params;
    const uint8_t *const v = data;

    for (uint64_t i = 0; i < info->shape[0]; i++)
        if (v[i] && (p->through || p->exclude_border))
            return tc_fail(err, TC_BAD_INPUT, "%s: element %llu: no cell can be at the border", info->name,
                           (unsigned long long)i);
    return TC_OK;
}

/* Volumes and coordinates. */
static tc_status check_finite(const void *params, const wu_array_info *info, const void *data, tc_err *err)
{
    const double *const v = data;
    const uint64_t n = info->shape[0] * (info->ndim > 1 ? info->shape[1] : 1);

    (void)params;
    for (uint64_t i = 0; i < n; i++)
        if (!(v[i] >= 0))
            return tc_fail(err, TC_BAD_INPUT, "%s: element %llu: %g is no possible value", info->name,
                           (unsigned long long)i, v[i]);
    return TC_OK;
}

static tc_status expect_tables(uint64_t items, an_expected **list, size_t *n, tc_err *err)
{
    static const struct {
        char name[24];
        wu_dtype dtype;
        bool of_cells;
        uint64_t columns;
        tc_status (*check)(const void *params, const wu_array_info *info, const void *data, tc_err *err);
    } all[] = {
        { "cells", WU_I64, false, 1, check_from_0 },
        { "inside_voxels", WU_I64, false, 1, check_from_0 },
        { "membrane_voxels", WU_I64, false, 1, check_from_0 },
        { "external_voxels", WU_I64, false, 1, check_from_0 },
        { "left_out_voxels", WU_I64, false, 1, check_from_0 },
        { "repair_added_voxels", WU_I64, false, 1, check_repair },
        { "repair_bias_voxels", WU_I64, false, 1, check_repair },
        { "voxel_volume", WU_F64, false, 1, check_finite },
        { "volume", WU_F64, false, 1, check_finite },
        { "cell_item", WU_I64, true, 1, check_from_0 },
        { "cell_label", WU_I64, true, 1, check_from_1 },
        { "cell_voxels", WU_I64, true, 1, check_voxels },
        { "cell_volume", WU_F64, true, 1, check_finite },
        { "cell_bbox", WU_I64, true, 6, check_from_0 },
        { "cell_centroid", WU_F64, true, 3, check_finite },
        { "cell_border", WU_BOOL, true, 1, check_border },
    };
    tc_status st = TC_OK;

    for (size_t i = 0; st == TC_OK && i < sizeof all / sizeof all[0]; i++) {
        char name[sizeof all[i].name];
        const an_expected entry = { { .name = name, .dtype = all[i].dtype, .ndim = all[i].columns > 1 ? 2 : 1,
                                      .shape = { all[i].of_cells ? AN_ANY_LENGTH : items, all[i].columns } },
                                    all[i].check };

        memcpy(name, all[i].name, sizeof name);
        st = an_expected_add(list, n, &entry, err);
    }
    return st;
}

tc_status vol_expect(const void *params, const wu_job *job, an_expected **list, size_t *n, tc_err *err)
{
    const vol_params *const p = params;
    tc_status st = expect_tables(job->n_items, list, n, err);

    for (size_t i = 0; st == TC_OK && p->labels && i < job->n_items; i++) {
        const wu_item *const item = &job->items[i];
        char name[WU_MAX_NAME + 16];
        const an_expected labels = { { .name = name, .dtype = WU_I32, .ndim = 3,
                                       .shape = { item->nz, item->ny, item->nx } }, NULL };

        snprintf(name, sizeof name, "labels_%s", item->name);
        st = an_expected_add(list, n, &labels, err);
    }
    return st;
}
