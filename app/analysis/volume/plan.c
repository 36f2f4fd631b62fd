/* volume: checks an item, plans its work (chunks, memory, costs), and has the self-tests and the
 * analysis' table of functions. */
#include "app/analysis/volume/cpu.h"

#include "app/analysis/common/phases.h"
#include "app/analysis/selftest.h"

static tc_status check_item(const void *params, const wu_item *item, const char *where, tc_err *err)
{
    const vol_params *const p = params;
    const uint64_t n = (uint64_t)item->nx * item->ny * item->nz;

    if (!item->is_stack)
        return tc_fail(
            err, TC_BAD_INPUT,
            "%s: is a picture; volume takes stacks: a file of several pages, or with --stack "
            "a folder of slices or the times of a file",
            where);
    if (!p->otsu && p->membrane >= 1 << item->bits)
        return tc_fail(err, TC_BAD_INPUT,
                       "%s: has %u bits a voxel, so parameters.membrane cannot be %d", where,
                       item->bits, (int)p->membrane);
    if (p->labels && n * sizeof(int32_t) >= ((uint64_t)4 << 20) * 1023)
        return tc_fail(err, TC_BAD_INPUT,
                       "%s: %llu voxels are too many for a stack of labels; "
                       "set parameters.labels to false",
                       where, (unsigned long long)n);
    return TC_OK;
}

/* Sets costs[phase], in operations a voxel, of the phases of a watershed. The phases take longer
 * without a filter (`rough`), as each peak of the noise is then a hill. */
static void watershed_costs(const vol_params *p, double *costs)
{
    const double neighbours = p->is_3d ? 1 : 0.5; /* relative cost of visiting all neighbours */
    const bool rough = !(p->smooth > 0);

    costs[VOL_ASCEND] = (p->corners ? 115 : rough ? 80 : 50) * neighbours;
    costs[VOL_EDGES] = rough ? 35 : 5;
    costs[VOL_FLAT] = rough ? 6 : 3;
    costs[VOL_FLAT_JOIN] = rough ? 10 : 5;
    costs[VOL_MAXIMA] = 50;
    costs[VOL_SADDLES] = rough ? 350 : (p->corners ? 95 : 60) * neighbours;
    costs[VOL_CLEAR] = 2;
    costs[VOL_FIRST] = rough ? 50 : 25;
    costs[VOL_COUNT_FIRST] = 4;
    costs[VOL_NUMBER_CELLS] = 5;
    costs[VOL_LABEL] = rough ? 20 : 11;
    costs[VOL_COPY] = 1.5;
}

/* Sets costs[phase], in operations a voxel, of all phases, as measured on pictures of many kinds
 * (make bench-progress). */
static void costs_of(const vol_params *p, double costs[VOL_PHASES])
{
    const double sigma = p->repair ? p->sigma : p->smooth;
    const double taps = sigma > 0 ? 2.0 * an_gauss_radius(sigma) + 1 : 0;
    const bool drops_cells = p->min_voxels > 1 || p->max_voxels != INT64_MAX || p->exclude_border;

    for (size_t i = 0; i < VOL_PHASES; i++)
        costs[i] = 0;
    costs[VOL_HISTOGRAM] = p->otsu ? 2 : 0;
    if (vol_has_blur(p)) {
        costs[VOL_BLUR] = 12 + 1.9 * taps;
        costs[VOL_BLUR_Z] = p->is_3d && taps > 0 ? 13 + 2 * taps : 0;
    }
    if (p->watershed) {
        watershed_costs(p, costs);
    } else {
        costs[VOL_BANDS] = 9;
        costs[VOL_SEAMS] = 0.3;
        costs[VOL_COUNT] = 0.2;
        costs[VOL_NUMBER] = 0.2;
        costs[VOL_PAINT] = 4;
    }
    costs[VOL_BIAS] = p->repair ? 17 : 0;
    costs[VOL_SIZES] = drops_cells ? 3 : 0;
    costs[VOL_RELABEL] = p->repair || drops_cells ? 4 : 0;
}

/* Implements an_analysis.time_share. */
static double time_share(const an_work *work, uint64_t chunks_done)
{
    double costs[VOL_PHASES];

    costs_of(work->params, costs);
    return an_phases_spent(costs, VOL_PHASES, work->plan.chunks / VOL_PHASES, chunks_done);
}

static void plan_flops(const vol_params *p, const wu_item *item, an_plan *out)
{
    const double n = (double)item->nx * item->ny * item->nz;
    double costs[VOL_PHASES];

    costs_of(p, costs);
    out->load_flops = an_reading_flops(item);
    out->finish_flops = n * ((p->watershed ? 5 : 4) + (p->labels ? 8 : 0));
    out->compress_flops = n * (p->labels ? 30 : 0);
    out->write_flops = n * 2;
    out->byte_flops = 110;
    an_complete_plan(out, item, n * an_phases_sum(costs, VOL_PHASES));
}

uint64_t vol_thread_bytes(const vol_params *p, const wu_item *item)
{
    const wu_pixels pixels = { .nx = item->nx, .ny = item->ny, .nz = item->nz };
    const vol_blur blur = vol_blur_of(p, &pixels);

    return 4 * (uint64_t)item->nx + 4 * lab_stride(item->nx) * 8 + PLAN_THREAD_BYTES +
           (vol_has_blur(p) ? vol_blur_scratch(&blur) * sizeof(uint32_t) : 0) +
           (p->otsu ? (uint64_t)8 << item->bits : 0);
}

static tc_status plan(const void *params, const wu_item *item, an_plan *out, tc_err *err)
{
    const vol_params *const p = params;
    const vol_contents most = vol_most_contents(p, item);
    const uint64_t rows = (uint64_t)item->ny * item->nz, n = rows * item->nx;
    const uint64_t bands = (rows + vol_band_rows(item->nx) - 1) / vol_band_rows(item->nx);

    (void)err;
    out->chunks = bands * VOL_PHASES;
    out->state_bytes = offsetof(vol_state, nodes) + ((size_t)n + 1) * sizeof(int32_t);
    out->thread_bytes = vol_thread_bytes(p, item);
    vol_memory_of(p, item, &most, out);
    out->most_rows = most.cells;
    plan_flops(p, item, out);
    return TC_OK;
}

/* --- the analysis ---------------------------------------------------------------------------- */

/* Groups and variants of kernels, as bits of the result of kernels_of. */
enum { BITS_8 = 1, BITS_16 = 2, WATERSHED = 4, COMPONENTS = 8, REPAIR = 16 };

static uint32_t kernels_of(const void *params, const wu_item *item)
{
    const vol_params *const p = params;

    return (item->bits == 16 ? BITS_16 : BITS_8) | (p->watershed ? WATERSHED : COMPONENTS) |
           (p->repair ? REPAIR : 0);
}

static const an_selftest selftests[] = {
    { "{\"membrane\":110}", 45, 37, 29, 8, false, 0xe9146a6f, AN_BALLS, false },
    { "{\"membrane\":26000,\"mode\":\"slices\",\"min_voxels\":4}", 70, 33, 5, 16, false, 0x9e1c8477,
      AN_BALLS, false },
    { "{\"membrane\":66,\"repair\":{\"sigma\":1,\"threshold\":120}}", 41, 43, 19, 8, false,
      0x1d856c03, AN_BALLS, false },
    { "{\"method\":\"watershed\",\"smooth\":1,\"h\":3,\"min_voxels\":5}", 38, 27, 22, 8, false,
      0x4eadc516, AN_BALLS, false },
    { "{\"method\":\"watershed\",\"mode\":\"slices\",\"connectivity\":26,\"h\":900,\"fill\":true}",
      45, 33, 6, 16, false, 0xd59fb35c, AN_BALLS, false },
    { "{\"membrane\":140}", 45, 30, 21, 8, false, 0x2ef8f4b1, AN_NOISE, false },
    { "{\"membrane\":80,\"labels\":true}", 45, 30, 21, 8, false, 0xbba651a9, AN_NOISE, false },
    { "{\"membrane\":40000,\"mode\":\"slices\",\"exclude_border\":true,\"labels\":true}", 45, 30, 5,
      16, false, 0xe99b8e6e, AN_NOISE, false },
    { "{\"membrane\":35000}", 37, 30, 21, 16, false, 0xd116564d, AN_NOISE, false },
    { "{\"method\":\"watershed\",\"h\":70,\"smooth\":0.5,\"labels\":true}", 33, 22, 12, 8, false,
      0x996842ae, AN_TIES, false },
    { "{\"method\":\"watershed\",\"connectivity\":26,\"h\":900,\"fill\":true}", 30, 22, 9, 16,
      false, 0x9646c7bb, AN_NOISE, false },
    { "{\"method\":\"watershed\",\"h\":0,\"smooth\":0.3,\"labels\":true}", 37, 30, 16, 8, false,
      0xb6826155, AN_TERRACES, false },
    { .parameters = NULL }
};

/* Implements an_analysis.preview: returns a number from 1 to 255 that depends on the label of the
 * voxel's cell, or 0 if the voxel is in no cell. */
static uint8_t preview(const an_work *work, const void *state, size_t voxel)
{
    const int32_t node = ((const vol_state *)state)->nodes[1 + voxel];

    (void)work;
    return node > 0 ? (uint8_t)(1 + (uint32_t)node * 37 % 255) : 0;
}

const an_analysis an_volume = {
    .name = "volume",
    .summary = "measures cells between membranes in stacks",
    .cite = "A. Rosenfeld, J. L. Pfaltz, Sequential operations in digital picture processing, "
            "Journal of the "
            "ACM 13 (1966) 471-494; of method watershed: S. Beucher, C. Lantuejoul, Use of "
            "watersheds in contour "
            "detection, International Workshop on Image Processing (Rennes, 1979).",
    .params_bytes = sizeof(vol_params),
    .parameters = vol_parameters,
    .derive_params = vol_derive_params,
    .check_item = check_item,
    .plan = plan,
    .memory = vol_memory,
    .time_share = time_share,
    .check_state = vol_check_state,
    .finish = vol_finish,
    .preview = preview,
    .assumes_cubic_voxels = true,
    .note_result = vol_note_result,
    .add_constants = vol_add_constants,
    .suggest = vol_suggest,
    .declare_arrays = vol_declare_arrays,
    .check_result = vol_check_result,
    .count_name = "cells",
    .cpu = &vol_cpu,
    .kernels = kernels_of,
    .selftests = selftests
};
