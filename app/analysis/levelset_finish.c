/* levelset: from the final phi to arrays, and what arrays there must be. */
#include <stdio.h>
#include <string.h>

#include "app/analysis/levelset.h"

static void mask_info(const wu_item *item, char *name, size_t size, wu_array_info *info)
{
    const uint64_t shape[3] = { item->nz, item->ny, item->nx };

    snprintf(name, size, "mask_%s", item->name);
    *info = (wu_array_info){ .name = name, .dtype = WU_U8, .ndim = item->is_stack ? 3 : 2 };
    memcpy(info->shape, item->is_stack ? shape : shape + 1, info->ndim * sizeof shape[0]);
}

static tc_status add_row(wu_output *out, const char *name, wu_dtype dtype, const void *value, size_t size,
                         tc_err *err)
{
    const uint64_t one = 1;
    void *data;
    const tc_status st = wu_output_add(out, WU_ROWS, name, dtype, 0, 1, &one, &data, err);

    if (st == TC_OK)
        memcpy(data, value, size);
    return st;
}

tc_status ls_finish(const an_task *task, size_t item_index, const void *state, wu_output *out, tc_err *err)
{
    const ls_params *const p = task->params;
    const wu_item *const item = task->item;
    const ls_head *const head = state;
    const size_t voxels = (size_t)item->nx * item->ny * item->nz;
    const float *const phi = ls_phi_const(state);
    const int64_t iterations = (int64_t)ls_iterations_at(p, head->head.units_done);
    const uint8_t converged = ls_has_converged(p, head);
    /* Square or cubic micrometres, or pixels where no spacing is given. */
    const double unit = item->is_stack ? item->spacing[0] * item->spacing[1] * item->spacing[2] : 1.0;
    char name[WU_MAX_NAME + 16];
    wu_array_info info;
    int64_t inside = 0;
    double measure;
    void *mask;
    tc_status st;

    (void)item_index;
    for (size_t i = 0; i < voxels; i++)
        inside += phi[i] < 0;
    measure = (double)inside * unit;
    st = add_row(out, "inside_voxels", WU_I64, &inside, sizeof inside, err);
    if (st == TC_OK)
        st = add_row(out, "measure", WU_F64, &measure, sizeof measure, err);
    if (st == TC_OK)
        st = add_row(out, "iterations_run", WU_I64, &iterations, sizeof iterations, err);
    if (st == TC_OK)
        st = add_row(out, "converged", WU_BOOL, &converged, sizeof converged, err);
    mask_info(item, name, sizeof name, &info);
    if (st == TC_OK)
        st = wu_output_add(out, WU_OWN, name, info.dtype, 0, info.ndim, info.shape, &mask, err);
    for (size_t i = 0; st == TC_OK && i < voxels; i++)
        ((uint8_t *)mask)[i] = phi[i] < 0;
    return st;
}

/* --- what a result may hold ---------------------------------------------------- */

static tc_status check_counts(const void *params, const wu_array_info *info, const void *data, tc_err *err)
{
    const int64_t *const v = data;

    (void)params;
    for (uint64_t i = 0; i < info->shape[0]; i++)
        if (v[i] < 0 || (uint64_t)v[i] > WU_MAX_VOXELS)
            return tc_fail(err, TC_BAD_INPUT, "%s[%llu]: cannot be %lld", info->name, (unsigned long long)i,
                           (long long)v[i]);
    return TC_OK;
}

static tc_status check_measure(const void *params, const wu_array_info *info, const void *data, tc_err *err)
{
    const double *const v = data;

    (void)params;
    for (uint64_t i = 0; i < info->shape[0]; i++)
        if (!(v[i] >= 0 && v[i] <= 1e300))
            return tc_fail(err, TC_BAD_INPUT, "%s[%llu]: cannot be %g", info->name, (unsigned long long)i, v[i]);
    return TC_OK;
}

static tc_status check_iterations(const void *params, const wu_array_info *info, const void *data, tc_err *err)
{
    const ls_params *const p = params;
    const int64_t *const v = data;

    for (uint64_t i = 0; i < info->shape[0]; i++)
        if (v[i] < 0 || v[i] > p->iterations)
            return tc_fail(err, TC_BAD_INPUT, "%s[%llu]: cannot be %lld", info->name, (unsigned long long)i,
                           (long long)v[i]);
    return TC_OK;
}

static tc_status check_mask(const void *params, const wu_array_info *info, const void *data, tc_err *err)
{
    const uint8_t *const v = data;
    uint64_t n = 1;

    (void)params;
    for (unsigned i = 0; i < info->ndim; i++)
        n *= info->shape[i];
    for (uint64_t i = 0; i < n; i++)
        if (v[i] > 1)
            return tc_fail(err, TC_BAD_INPUT, "%s: a voxel is %u, not 0 or 1", info->name, v[i]);
    return TC_OK;
}

tc_status ls_expect(const void *params, const wu_job *job, an_expected **list, size_t *n, tc_err *err)
{
    char inside[] = "inside_voxels", measure[] = "measure", iterations[] = "iterations_run";
    char converged[] = "converged";
    const an_expected rows[] = {
        { { .name = inside, .dtype = WU_I64, .ndim = 1, .shape = { job->n_items } }, check_counts },
        { { .name = measure, .dtype = WU_F64, .ndim = 1, .shape = { job->n_items } }, check_measure },
        { { .name = iterations, .dtype = WU_I64, .ndim = 1, .shape = { job->n_items } }, check_iterations },
        { { .name = converged, .dtype = WU_BOOL, .ndim = 1, .shape = { job->n_items } }, NULL }
    };
    tc_status st = TC_OK;

    (void)params;
    for (size_t i = 0; st == TC_OK && i < sizeof rows / sizeof rows[0]; i++)
        st = an_expected_add(list, n, &rows[i], err);
    for (size_t i = 0; st == TC_OK && i < job->n_items; i++) {
        char name[WU_MAX_NAME + 16];
        an_expected mask = { .check = check_mask };

        mask_info(&job->items[i], name, sizeof name, &mask.info);
        st = an_expected_add(list, n, &mask, err);
    }
    return st;
}
