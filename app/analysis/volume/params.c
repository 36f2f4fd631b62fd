#include "app/analysis/volume/volume.h"

#include <stddef.h>
#include <stdio.h>

#include "app/analysis/selftest.h"

#define FIELD(field) AN_FIELD(vol_params, field)

static const char *const modes[] = { "slices", "3d", NULL }, *const null[] = { "null", NULL };

static const an_param repair[] = {
    { "sigma", AN_NUMBER, FIELD(sigma), .min = 0.3, .max = VOL_MAX_SIGMA, .initial = "1.5", .unit = "voxels",
      .help = "S of the Gaussian filter that the membrane is blurred with." },
    { "threshold", AN_INT, FIELD(threshold), .min = 1, .max = VOL_WHITE, .initial = "64",
      .help = "t: voxels become membrane where the blurred one, which is 255 at most, has at least this." },
    { .key = NULL }
};

static const an_param parameters[] = {
    { "membrane", AN_INT, FIELD(membrane), .min = 0, .max = 65535, .unit = "grey values",
      .help = "T, up to the greatest value of the item's depth: membrane is where value >= T." },
    { "mode", AN_CHOICE, FIELD(through), .choices = modes, .initial = "3d",
      .help = "3d: voxels that share a face are connected; slices: only within a slice, each slice by itself." },
    { "repair", AN_OBJECT, FIELD(repair), .keys = repair, .choices = null, .initial = "null",
      .help = "Closes gaps in the membrane; null: it is taken as it is." },
    { "min_voxels", AN_INT, FIELD(min_voxels), .min = 1, .max = WU_MAX_VOXELS, .initial = "1", .unit = "voxels",
      .help = "Smaller cells are left out." },
    { "max_voxels", AN_INT, FIELD(max_voxels), .min = 1, .max = WU_MAX_VOXELS, .choices = null, .initial = "null",
      .unit = "voxels", .help = "Larger cells are left out; null: none." },
    { "exclude_border", AN_BOOL, FIELD(exclude_border), .initial = "false",
      .help = "Whether cells with a voxel in the first or last slice, row or column are left out." },
    { "labels", AN_BOOL, FIELD(labels), .initial = "false", .help = "Whether labels_<item> is returned." },
    { .key = NULL }
};

static tc_status derive_params(void *params, const char *where, tc_err *err)
{
    vol_params *const p = params;

    p->max_voxels = p->max_voxels == 0 ? INT64_MAX : p->max_voxels;
    if (p->max_voxels < p->min_voxels)
        return tc_fail(err, TC_BAD_INPUT, "%s.max_voxels: must not be smaller than min_voxels", where);
    return TC_OK;
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
    .parameters = parameters,
    .derive_params = derive_params,
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
