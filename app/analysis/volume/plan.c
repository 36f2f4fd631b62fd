/* volume: which stacks, and how the work is cut. */
#include "app/analysis/volume/volume.h"

#include "app/analysis/selftest.h"

static tc_status check_item(const void *params, const wu_item *item, const char *where, tc_err *err)
{
    const vol_params *const p = params;
    const uint64_t n = (uint64_t)item->nx * item->ny * item->nz;

    if (!item->is_stack)
        return tc_fail(err, TC_BAD_INPUT, "%s: is a picture; volume takes stacks: a file of several pages, or with --stack a folder of slices", where);
    if (item->n_masks > 0)
        return tc_fail(err, TC_BAD_INPUT, "%s: has a mask; volume takes none", where);
    if (!p->otsu && p->membrane >= 1 << item->bits)
        return tc_fail(err, TC_BAD_INPUT, "%s: has %u bits a voxel, so parameters.membrane cannot be %d",
                       where, item->bits, (int)p->membrane);
    if (p->labels && n * sizeof(int32_t) >= ((uint64_t)4 << 20) * 1023)
        return tc_fail(err, TC_BAD_INPUT, "%s: %llu voxels are too many for a stack of labels; "
                       "set parameters.labels to false", where, (unsigned long long)n);
    return TC_OK;
}

/* The ways uphill; then saddles, twice while they are sorted, and before that the borders of plateaus:
 * some of them, or in noise as many as voxels. */
static void plan_watershed(uint64_t n, an_plan *out)
{
    const uint64_t saddles = 2 * sizeof(ws_saddle);

    out->memory_bytes += n * sizeof(int32_t);
    out->most_memory_bytes = out->memory_bytes + 2 * n * saddles;
    out->memory_bytes += n / 4 * saddles;
}

static tc_status plan(const void *params, const wu_item *item, an_plan *out, tc_err *err)
{
    const vol_params *const p = params;
    const uint64_t rows = (uint64_t)item->ny * item->nz, n = rows * item->nx;
    const uint64_t bands = (rows + vol_band_rows(item->nx) - 1) / vol_band_rows(item->nx);

    (void)err;
    out->portions = bands * VOL_PHASES;
    out->state_bytes = offsetof(vol_state, nodes) + ((size_t)n + 1) * sizeof(int32_t);
    /* Labels that are returned are the state's. The table of cells comes on top: usual
     * stacks have few. */
    out->memory_bytes = n * (item->bits / 8) + out->state_bytes + rows * lab_stride(item->nx) * sizeof(uint64_t) + ((uint64_t)32 << 20);
    out->thread_bytes = 4 * (uint64_t)item->nx + 4 * lab_stride(item->nx) * 8 + PLAN_THREAD;
    if (vol_blurs(p)) {
        const wu_pixels pixels = { .nx = item->nx, .ny = item->ny, .nz = item->nz };
        const vol_blur blur = vol_blur_of(p, &pixels);

        out->thread_bytes += vol_blur_scratch(&blur) * sizeof(uint32_t);
    }
    if (p->otsu)
        out->thread_bytes += (uint64_t)8 << item->bits;
    if (p->watershed)
        plan_watershed(n, out);
    /* Cells have membrane between them in every row, and no fewer voxels than is asked for. */
    out->most_rows = n / (uint64_t)(p->min_voxels > 2 ? p->min_voxels : 1);
    if (out->most_rows > rows * ((item->nx + (uint64_t)1) / 2))
        out->most_rows = rows * ((item->nx + (uint64_t)1) / 2);
    /* Most of it is reading the slices, and packing the labels. */
    out->flops = ((p->watershed ? p->corners ? 450.0 : 350.0 : p->repair || p->smooth > 0 ? 90.0 : 40.0) + (p->labels ? 100.0 : 0.0)) * (double)n;
    return TC_OK;
}

/* --- the analysis ------------------------------------------------------------- */

static const an_selftest selftests[] = {
    { "{\"membrane\":110}", 45, 37, 29, 8, false, 0xe9146a6f },
    { "{\"membrane\":26000,\"mode\":\"slices\",\"min_voxels\":4}", 70, 33, 5, 16, false, 0x9e1c8477 },
    { "{\"membrane\":66,\"repair\":{\"sigma\":1,\"threshold\":120}}", 41, 43, 19, 8, false, 0x1d856c03 },
    { "{\"method\":\"watershed\",\"smooth\":1,\"h\":3,\"min_voxels\":5}", 38, 27, 22, 8, false, 0x4eadc516 },
    { "{\"method\":\"watershed\",\"mode\":\"slices\",\"connectivity\":26,\"h\":900,\"fill\":true}", 45, 33, 6, 16,
      false, 0xd59fb35c },
    { .parameters = NULL }
};

static uint8_t found(const an_work *work, const void *state, size_t voxel)
{
    const int32_t node = ((const vol_state *)state)->nodes[1 + voxel];

    (void)work;
    return node > 0 ? (uint8_t)(1 + (uint32_t)node * 37 % 255) : 0;
}

const an_analysis an_volume = {
    .name = "volume",
    .summary = "measures the inside of membranes in stacks",
    .cite = "A. Rosenfeld, J. L. Pfaltz, Sequential operations in digital picture processing, Journal of the "
            "ACM 13 (1966) 471-494; of method watershed: S. Beucher, C. Lantuejoul, Use of watersheds in contour "
            "detection, International Workshop on Image Processing (Rennes, 1979).",
    .params_bytes = sizeof(vol_params),
    .parameters = vol_parameters,
    .derive_params = vol_derive_params,
    .check_item = check_item,
    .plan = plan,
    .init = an_starts_zeroed,
    .check_state = vol_check_state,
    .finish = vol_finish,
    .found = found,
    .note_result = vol_note_result,
    .constants = vol_constants,
    .expect = vol_expect,
    .check_result = vol_check_result,
    .check_pixels = vol_check_pixels,
    .pixels_share = vol_pixels_share,
    .cpu = &vol_cpu,
    .selftests = selftests
};
