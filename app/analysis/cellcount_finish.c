/* From labels to tables: what both backends share. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/cellcount.h"

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
        const cc_region *const r = &regions[i + 1];

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

static void measure_band(void *user, unsigned thread, size_t band)
{
    cc_measure_band(user, thread, band);
}

tc_status cc_regions(const an_task *task, const cc_state *state, const cc_region **regions, cc_region **owned,
                     tc_err *err)
{
    const uint32_t nx = task->item->nx, ny = task->item->ny;
    cc_measure m = { .plane = state->plane, .pixels = task->pixels, .nx = nx, .ny = ny,
                     .rows = (size_t)state->regions + 1 };
    an_pool *pool = NULL;
    tc_status st;

    *owned = NULL;
    *regions = (const cc_region *)(const void *)((const char *)state + cc_table_at(nx, ny));
    if (m.rows <= cc_table_rows(nx, ny))
        return TC_OK;
    m.regions = malloc(m.rows * sizeof *m.regions);
    st = m.regions == NULL ? tc_no_memory(err, "the regions") : cc_measure_begin(&m, task->threads, err);
    if (st == TC_OK)
        st = an_pool_create(m.tables, &pool, err);
    if (st != TC_OK) {
        cc_measure_drop(&m);
        free(m.regions);
        return st;
    }
    an_pool_run(pool, measure_band, &m, cc_bands(nx, ny));
    an_pool_destroy(&pool);
    cc_measure_end(&m);
    *regions = *owned = m.regions;
    return TC_OK;
}

static tc_status add_regions(const an_task *task, size_t item_index, const cc_state *state, wu_output *out,
                             tc_err *err)
{
    const uint64_t one = 1;
    const size_t n = (size_t)state->regions;
    const cc_region *regions;
    cc_region *owned;
    columns c = { .item = NULL };
    void *count = NULL;
    tc_status st = cc_regions(task, state, &regions, &owned, err);

    if (st == TC_OK)
        st = wu_output_add(out, WU_ROWS, "count", WU_I64, 0, 1, &one, &count, err);
    if (st == TC_OK) {
        *(int64_t *)count = (int64_t)n;
        st = add_columns(out, n, &c, err);
    }
    if (st == TC_OK)
        fill_columns(task, item_index, regions, n, &c);
    free(owned);
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
