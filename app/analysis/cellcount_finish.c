/* From labels to tables: what both backends share. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/cellcount.h"

/* --- measuring -------------------------------------------------------------------- */

typedef struct measure {
    const int32_t *plane;
    const wu_pixels *pixels;
    uint32_t nx, ny, bands;
    size_t n;
    cc_region *tables;         /* [threads][n] */
} measure;

/* A stretch [a, b) of row y of one region. */
static void add_run(cc_region *r, uint32_t y, uint32_t a, uint32_t b, uint64_t grey)
{
    const uint64_t length = b - a;

    r->area += length;
    r->sum_y += length * y;
    r->sum_x += length * ((uint64_t)a + b - 1) / 2;
    r->sum_grey += grey;
    r->x0 = a < r->x0 ? a : r->x0;
    r->x1 = b > r->x1 ? b : r->x1;
    r->y0 = y < r->y0 ? y : r->y0;
    r->y1 = y + 1 > r->y1 ? y + 1 : r->y1;
}

/* Less than 2^16 pixels of less than 2^16: fits 32 bits. */
static uint32_t sum_grey(const wu_pixels *px, size_t at, uint32_t n)
{
    uint32_t sum = 0;

    if (px == NULL)
        return 0;
    if (px->u8 != NULL)
        for (uint32_t i = 0; i < n; i++)
            sum += px->u8[at + i];
    else
        for (uint32_t i = 0; i < n; i++)
            sum += px->u16[at + i];
    return sum;
}

/* Where the label changes from one pixel to the next, of 64 pixels from row[1]
 * on: bit i for row[i] != row[i + 1]. */
static uint64_t changes(const int32_t *row)
{
    uint8_t flags[64];
    uint64_t word = 0;

    for (int i = 0; i < 64; i++)
        flags[i] = row[i] != row[i + 1];
    for (size_t i = 0; i < 8; i++) {
        uint64_t eight;

        memcpy(&eight, flags + 8 * i, 8);
        word |= (eight * 0x0102040810204080u >> 56) << 8 * i;
    }
    return word;
}

/* The run that ends before x. Returns x. */
static uint32_t end_run(const measure *m, uint32_t y, uint32_t a, uint32_t x, cc_region *table)
{
    const size_t at = (size_t)y * m->nx + a;
    const int32_t label = m->plane[at];

    if (label != 0)
        add_run(&table[label - 1], y, a, x, sum_grey(m->pixels, at, x - a));
    return x;
}

static void measure_row(const measure *m, uint32_t y, cc_region *table)
{
    const int32_t *const row = m->plane + (size_t)y * m->nx;
    uint32_t a = 0, x = 0;

    for (; x + 64 < m->nx; x += 64)
        for (uint64_t ends = changes(row + x); ends != 0; ends &= ends - 1)
            a = end_run(m, y, a, x + 1 + (uint32_t)__builtin_ctzll(ends), table);
    for (; x + 1 < m->nx; x++)
        if (row[x] != row[x + 1])
            a = end_run(m, y, a, x + 1, table);
    end_run(m, y, a, m->nx, table);
}

static void measure_band(void *user, unsigned thread, size_t band)
{
    const measure *const m = user;
    const uint32_t rows = cc_band_rows(m->nx), y0 = (uint32_t)band * rows;
    const uint32_t y1 = m->ny - y0 < rows ? m->ny : y0 + rows;

    for (uint32_t y = y0; y < y1; y++)
        measure_row(m, y, m->tables + thread * m->n);
}

static void merge(cc_region *r, const cc_region *o)
{
    r->area += o->area;
    r->sum_y += o->sum_y;
    r->sum_x += o->sum_x;
    r->sum_grey += o->sum_grey;
    r->x0 = o->x0 < r->x0 ? o->x0 : r->x0;
    r->x1 = o->x1 > r->x1 ? o->x1 : r->x1;
    r->y0 = o->y0 < r->y0 ? o->y0 : r->y0;
    r->y1 = o->y1 > r->y1 ? o->y1 : r->y1;
}

tc_status cc_measure(const int32_t *plane, const wu_pixels *pixels, uint32_t nx, uint32_t ny, size_t n,
                     unsigned threads, cc_region *regions, tc_err *err)
{
    measure m = { plane, pixels, nx, ny, cc_bands(nx, ny), n, NULL };
    an_pool *pool = NULL;
    tc_status st;

    /* A table for each thread, unless they would be larger than the plane. */
    if (n == 0)
        return TC_OK;
    if (threads * n * sizeof *regions > (size_t)nx * ny * sizeof *plane)
        threads = 1;
    m.tables = malloc(threads * n * sizeof *m.tables);
    if (m.tables == NULL)
        return tc_no_memory(err, "the regions");
    for (size_t i = 0; i < threads * n; i++)
        m.tables[i] = (cc_region){ .y0 = UINT32_MAX, .x0 = UINT32_MAX };
    st = an_pool_create(threads, &pool, err);
    if (st == TC_OK) {
        an_pool_run(pool, measure_band, &m, m.bands);
        memcpy(regions, m.tables, n * sizeof *regions);
        for (unsigned t = 1; t < threads; t++)
            for (size_t i = 0; i < n; i++)
                merge(&regions[i], &m.tables[t * n + i]);
        an_pool_destroy(&pool);
    }
    free(m.tables);
    return st;
}

/* --- the arrays ------------------------------------------------------------------- */

static tc_status add_rows(wu_output *out, const char *name, wu_dtype type, uint64_t n, uint64_t columns,
                          void **data, tc_err *err)
{
    const uint64_t shape[2] = { n, columns };

    return wu_output_add(out, WU_ROWS, name, type, 0, columns > 1 ? 2 : 1, shape, data, err);
}

typedef struct columns {
    int64_t *item, *label, *area, *bbox;
    double *centroid, *mean;
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
        { "region_item", WU_I64, 1, (void **)&c->item },
        { "region_label", WU_I64, 1, (void **)&c->label },
        { "region_area", WU_I64, 1, (void **)&c->area },
        { "region_bbox", WU_I64, 4, (void **)&c->bbox },
        { "region_centroid", WU_F64, 2, (void **)&c->centroid },
        { "region_mean", WU_F64, 1, (void **)&c->mean },
        { "region_border", WU_BOOL, 1, (void **)&c->border },
    };
    tc_status st = TC_OK;

    for (size_t i = 0; st == TC_OK && i < sizeof list / sizeof list[0]; i++) {
        void *data = NULL;

        st = add_rows(out, list[i].name, list[i].type, n, list[i].columns, &data, err);
        memcpy(list[i].data, &data, sizeof data);
    }
    return st;
}

static void fill_columns(const an_task *task, size_t item_index, const cc_region *regions, size_t n,
                         const columns *c)
{
    for (size_t i = 0; i < n; i++) {
        const cc_region *const r = &regions[i];

        c->item[i] = (int64_t)item_index;
        c->label[i] = (int64_t)i + 1;
        c->area[i] = (int64_t)r->area;
        c->bbox[4 * i] = r->y0;
        c->bbox[4 * i + 1] = r->x0;
        c->bbox[4 * i + 2] = r->y1;
        c->bbox[4 * i + 3] = r->x1;
        c->centroid[2 * i] = (double)r->sum_y / (double)r->area;
        c->centroid[2 * i + 1] = (double)r->sum_x / (double)r->area;
        c->mean[i] = (double)r->sum_grey / (double)r->area;
        c->border[i] = r->y0 == 0 || r->x0 == 0 || r->y1 == task->item->ny || r->x1 == task->item->nx;
    }
}

static tc_status add_regions(const an_task *task, size_t item_index, const cc_state *state, wu_output *out,
                             tc_err *err)
{
    const uint64_t one = 1;
    const size_t n = (size_t)state->regions;
    cc_region *const regions = malloc((n + 1) * sizeof *regions);
    columns c = { .item = NULL };
    void *count = NULL;
    tc_status st = TC_OK;

    if (regions == NULL)
        return tc_no_memory(err, "the regions");
    st = cc_measure(state->plane, task->pixels, task->item->nx, task->item->ny, n, task->threads, regions, err);
    if (st == TC_OK)
        st = wu_output_add(out, WU_ROWS, "count", WU_I64, 0, 1, &one, &count, err);
    if (st == TC_OK) {
        *(int64_t *)count = (int64_t)n;
        st = add_columns(out, n, &c, err);
    }
    if (st == TC_OK)
        fill_columns(task, item_index, regions, n, &c);
    free(regions);
    return st;
}

/* A checkpoint is not believed blindly: labels index tables. */
static tc_status check_state(const an_task *task, const cc_state *state, tc_err *err)
{
    const size_t n = (size_t)task->item->nx * task->item->ny;
    uint32_t most = 0;

    for (size_t i = 0; i < n; i++)
        most = (uint32_t)state->plane[i] > most ? (uint32_t)state->plane[i] : most;
    if (state->regions > n || most > state->regions)
        return tc_fail(err, TC_INTERNAL, "item \"%s\": the labels are damaged", task->item->name);
    return TC_OK;
}

tc_status cc_finish(const an_task *task, size_t item_index, const void *state_at, wu_output *out, tc_err *err)
{
    const cc_params *const p = task->params;
    const cc_state *const state = state_at;
    const uint64_t shape[2] = { task->item->ny, task->item->nx };
    tc_status st = check_state(task, state, err);

    if (st == TC_OK)
        st = add_regions(task, item_index, state, out, err);
    if (st == TC_OK && p->labels) {
        char name[WU_MAX_NAME + 16];
        void *data;

        snprintf(name, sizeof name, "labels_%s", task->item->name);
        st = wu_output_add(out, WU_OWN, name, WU_I32, 0, 2, shape, &data, err);
        if (st == TC_OK)
            memcpy(data, state->plane, (size_t)shape[0] * shape[1] * sizeof *state->plane);
    }
    return st;
}

tc_status cc_constants(const void *params, wu_output *out, tc_err *err)
{
    (void)params;
    (void)out;
    (void)err;
    return TC_OK;
}

/* --- what a result may hold --------------------------------------------------------- */

static tc_status check_least(const wu_array_info *info, const void *data, int64_t least, tc_err *err)
{
    const int64_t *const v = data;
    uint64_t n = 1;

    for (unsigned i = 0; i < info->ndim; i++)
        n *= info->shape[i];
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

static tc_status check_area(const void *params, const wu_array_info *info, const void *data, tc_err *err)
{
    const cc_params *const p = params;
    const int64_t *const area = data;

    for (uint64_t i = 0; i < info->shape[0]; i++)
        if (area[i] < p->min_area || area[i] > p->max_area)
            return tc_fail(err, TC_BAD_INPUT, "%s: element %llu: %lld is not within min_area and max_area",
                           info->name, (unsigned long long)i, (long long)area[i]);
    return check_least(info, data, 1, err);
}

static tc_status check_finite(const void *params, const wu_array_info *info, const void *data, tc_err *err)
{
    const double *const v = data;
    const uint64_t n = info->shape[0] * (info->ndim > 1 ? info->shape[1] : 1);

    (void)params;
    for (uint64_t i = 0; i < n; i++)
        if (!(v[i] >= 0 && v[i] <= 65535))
            return tc_fail(err, TC_BAD_INPUT, "%s: element %llu: %g is no possible value", info->name,
                           (unsigned long long)i, v[i]);
    return TC_OK;
}

tc_status cc_expect(const void *params, const wu_job *job, an_expected **list, size_t *n, tc_err *err)
{
    const cc_params *const p = params;
    char names[][16] = { "count", "region_item", "region_label", "region_area", "region_bbox",
                         "region_centroid", "region_mean", "region_border" };
    const an_expected all[] = {
        { { .name = names[0], .dtype = WU_I64, .ndim = 1, .shape = { job->n_items } }, check_from_0 },
        { { .name = names[1], .dtype = WU_I64, .ndim = 1, .shape = { AN_ANY_LENGTH } }, check_from_0 },
        { { .name = names[2], .dtype = WU_I64, .ndim = 1, .shape = { AN_ANY_LENGTH } }, check_from_1 },
        { { .name = names[3], .dtype = WU_I64, .ndim = 1, .shape = { AN_ANY_LENGTH } }, check_area },
        { { .name = names[4], .dtype = WU_I64, .ndim = 2, .shape = { AN_ANY_LENGTH, 4 } }, check_from_0 },
        { { .name = names[5], .dtype = WU_F64, .ndim = 2, .shape = { AN_ANY_LENGTH, 2 } }, check_finite },
        { { .name = names[6], .dtype = WU_F64, .ndim = 1, .shape = { AN_ANY_LENGTH } }, check_finite },
        { { .name = names[7], .dtype = WU_BOOL, .ndim = 1, .shape = { AN_ANY_LENGTH } }, NULL },
    };
    tc_status st = TC_OK;

    for (size_t i = 0; st == TC_OK && i < sizeof all / sizeof all[0]; i++)
        st = an_expected_add(list, n, &all[i], err);
    for (size_t i = 0; st == TC_OK && p->labels && i < job->n_items; i++) {
        char name[WU_MAX_NAME + 16];
        const an_expected labels = { { .name = name, .dtype = WU_I32, .ndim = 2,
                                       .shape = { job->items[i].ny, job->items[i].nx } }, NULL };

        snprintf(name, sizeof name, "labels_%s", job->items[i].name);
        st = an_expected_add(list, n, &labels, err);
    }
    return st;
}
