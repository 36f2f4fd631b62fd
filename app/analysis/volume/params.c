#include "app/analysis/volume/volume.h"

#include <stddef.h>
#include <stdio.h>

#include "app/analysis/params.h"
#include "app/analysis/selftest.h"

static const char *const mode_names[] = { "slices", "3d", NULL };

/* --- parameters from JSON ---------------------------------------------------- */

static tc_status get_membrane(const json_t *json, vol_params *p, const char *where, tc_err *err)
{
    int64_t value = 0;
    const tc_status st = an_get_int(json, "membrane", 0, 65535, &value, where, err);

    if (st == TC_OK && json_object_get(json, "membrane") == NULL)
        return tc_fail(err, TC_BAD_INPUT, "%s.membrane: is needed", where);
    p->membrane = (int32_t)value;
    return st;
}

static tc_status get_repair(const json_t *json, vol_params *p, const char *where, tc_err *err)
{
    static const char *const known[] = { "sigma", "threshold", NULL };
    const json_t *const v = json_object_get(json, "repair");
    char inner[TC_ERR_MAX];
    tc_status st;

    if (v == NULL || json_is_null(v))
        return TC_OK;
    snprintf(inner, sizeof inner, "%.900s.repair", where);
    p->repair = true;
    p->sigma = 1.5;
    p->threshold = 64;
    st = an_check_keys(v, known, inner, err);
    if (st == TC_OK)
        st = an_get_number(v, "sigma", 0.3, VOL_MAX_SIGMA, &p->sigma, inner, err);
    if (st == TC_OK)
        st = an_get_int(v, "threshold", 1, VOL_WHITE, &p->threshold, inner, err);
    return st;
}

static tc_status read_params(const json_t *json, void *params, const char *where, tc_err *err)
{
    static const char *const known[] = { "membrane", "mode", "repair", "min_voxels", "max_voxels",
                                         "exclude_border", "labels", NULL };
    vol_params *const p = params;
    int mode = 1;
    tc_status st = an_check_keys(json, known, where, err);

    if (st == TC_OK)
        st = get_membrane(json, p, where, err);
    if (st == TC_OK)
        st = an_get_choice(json, "mode", mode_names, &mode, where, err);
    if (st == TC_OK)
        st = get_repair(json, p, where, err);
    if (st == TC_OK)
        st = an_get_sizes(json, "min_voxels", "max_voxels", &p->min_voxels, &p->max_voxels, where, err);
    if (st == TC_OK)
        st = an_get_bool(json, "exclude_border", &p->exclude_border, where, err);
    if (st == TC_OK)
        st = an_get_bool(json, "labels", &p->labels, where, err);
    p->through = mode == 1;
    return st;
}

static json_t *params_json(const void *params)
{
    const vol_params *const p = params;
    json_t *const repair = p->repair ? json_pack("{s:f,s:I}", "sigma", p->sigma,
                                                 "threshold", (json_int_t)p->threshold)
                                     : json_null();

    return json_pack("{s:i,s:s,s:o,s:I,s:o,s:b,s:b}",
                     "membrane", (int)p->membrane,
                     "mode", mode_names[p->through],
                     "repair", repair,
                     "min_voxels", (json_int_t)p->min_voxels,
                     "max_voxels", p->max_voxels == INT64_MAX ? json_null() : json_integer(p->max_voxels),
                     "exclude_border", (int)p->exclude_border,
                     "labels", (int)p->labels);
}

/* --- items -------------------------------------------------------------------- */

static tc_status check_item(const void *params, const wu_item *item, const char *where, tc_err *err)
{
    const vol_params *const p = params;
    const uint64_t n = (uint64_t)item->nx * item->ny * item->nz;

    if (!item->is_stack)
        return tc_fail(err, TC_BAD_INPUT, "%s: is a picture; volume takes stacks", where);
    if (item->n_masks > 0)
        return tc_fail(err, TC_BAD_INPUT, "%s: has a mask; volume takes none", where);
    if (p->membrane >= 1 << item->bits)
        return tc_fail(err, TC_BAD_INPUT, "%s: has %u bits a voxel, so parameters.membrane cannot be %d",
                       where, item->bits, (int)p->membrane);
    if (p->labels && n * sizeof(int32_t) >= ((uint64_t)4 << 20) * 1023)
        return tc_fail(err, TC_BAD_INPUT, "%s: %llu voxels are too many for a stack of labels; "
                       "set parameters.labels to false", where, (unsigned long long)n);
    return TC_OK;
}

static tc_status plan(const void *params, const wu_item *item, an_plan *out, tc_err *err)
{
    const vol_params *const p = params;
    const uint64_t rows = (uint64_t)item->ny * item->nz, n = rows * item->nx;
    const uint64_t bands = (rows + vol_band_rows(item->nx) - 1) / vol_band_rows(item->nx);

    (void)err;
    out->units = bands * VOL_PHASES;
    out->state_bytes = offsetof(vol_state, nodes) + ((size_t)n + 1) * sizeof(int32_t);
    /* Labels that are returned are the state's. The table of cells comes on top: usual
     * stacks have few. */
    out->memory_bytes = n * (item->bits / 8) + out->state_bytes + rows * sizeof(uint16_t) + ((uint64_t)32 << 20);
    out->flops = (p->repair ? 200.0 : 20.0) * (double)n;
    return TC_OK;
}

static tc_status init(const an_task *task, void *state, tc_err *err)
{
    (void)task;
    (void)state;
    (void)err;
    return TC_OK;
}

/* --- the analysis ------------------------------------------------------------- */

static const an_selftest selftests[] = {
    { "{\"membrane\":110}", 45, 37, 29, 8, false, 0xf92f2e80 },
    { "{\"membrane\":26000,\"mode\":\"slices\",\"min_voxels\":4}", 70, 33, 5, 16, false, 0x04dbbc5e },
    { "{\"membrane\":66,\"repair\":{\"sigma\":1,\"threshold\":120}}", 41, 43, 19, 8, false, 0x32032bec },
    { .parameters = NULL }
};

const an_analysis an_volume = {
    .name = "volume",
    .summary = "measures the inside of membranes in stacks",
    .params_bytes = sizeof(vol_params),
    .read_params = read_params,
    .params_json = params_json,
    .check_item = check_item,
    .plan = plan,
    .init = init,
    .finish = vol_finish,
    .constants = vol_constants,
    .expect = vol_expect,
    .check_result = vol_check_result,
    .cpu = &vol_cpu,
    .selftests = selftests
};
