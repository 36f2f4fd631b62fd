/*
 * volume: whether a stack's voxels can have given these arrays: by the number of those that are
 * membrane, and by some cells, followed from voxels chosen by chance.
 */
#include "app/analysis/common/bits.h"
#include "app/analysis/common/follow.h"
#include "app/analysis/volume/volume.h"
#include "app/base/random.h"

enum { CELLS = 4, LOOKS = 256 };

static int64_t integer(const wu_output *out, const char *name)
{
    return *(const int64_t *)wu_output_data(out, name);
}

/* What was membrane before the repair. */
static tc_status check_membrane(const an_work *work, const wu_output *out, tc_err *err)
{
    const vol_params *const p = work->params;
    const wu_pixels *const px = work->pixels;
    const size_t n = (size_t)px->nx * px->ny * px->nz;
    const int64_t claimed = integer(out, "membrane_voxels") - integer(out, "repair_added_voxels");
    int64_t found = (int64_t)n;

    for (size_t i = 0; i < n; i += 64)
        found -= __builtin_popcountll(an_bits_below(px, i, n - i < 64 ? (unsigned)(n - i) : 64, (uint32_t)p->membrane));
    if (claimed != found)
        return tc_fail(err, TC_BAD_INPUT, "membrane_voxels: %lld before a repair, but the stack has %lld",
                       (long long)claimed, (long long)found);
    return TC_OK;
}

/* Some voxels, chosen by chance: no cell is where membrane is. */
static tc_status check_labels(const an_follow *f, const wu_out_array *labels, uint64_t *random, tc_err *err)
{
    const uint64_t n = (uint64_t)f->px->nx * f->px->ny * f->px->nz;

    for (int k = 0; k < LOOKS; k++) {
        const size_t i = (size_t)tc_random_below(n, random);

        if (((const int32_t *)labels->data)[i] != 0 && !an_follow_takes(f, i))
            return tc_fail(err, TC_BAD_INPUT, "%s: voxel %zu is membrane", labels->info.name, i);
    }
    return TC_OK;
}

/* Whether a component must be in the table: a repair may cut it. */
static bool must_be_told(const vol_params *p, const wu_item *item, const an_component *c)
{
    const bool in_end_slice = c->lo[0] == 0 || c->hi[0] == item->nz;
    const bool at_side = c->lo[1] == 0 || c->lo[2] == 0 || c->hi[1] == item->ny || c->hi[2] == item->nx;

    return c->whole && !p->repair && !at_side && !(in_end_slice && (p->through || p->exclude_border)) &&
           (int64_t)c->pixels >= p->min_voxels && (int64_t)c->pixels <= p->max_voxels;
}

static bool is_told(const wu_output *out, const an_component *c)
{
    const size_t n = (size_t)wu_output_find(out, "cell_item")->info.shape[0];
    const int64_t *const voxels = wu_output_data(out, "cell_voxels"), *const bbox = wu_output_data(out, "cell_bbox");
    const double *const centroid = wu_output_data(out, "cell_centroid");

    for (size_t i = 0; i < n; i++) {
        bool same = voxels[i] == (int64_t)c->pixels;

        for (int k = 0; k < 3 && same; k++)
            same = bbox[6 * i + (size_t)k] == c->lo[k] && bbox[6 * i + 3 + (size_t)k] == c->hi[k] &&
                   centroid[3 * i + (size_t)k] == (double)c->sum[k] / (double)c->pixels;
        if (same)
            return true;
    }
    return false;
}

static tc_status check_cells(const an_work *work, an_follow *f, const wu_output *out, uint64_t *random, tc_err *err)
{
    const size_t n = (size_t)work->item->nx * work->item->ny * work->item->nz;
    size_t start;

    for (int k = 0; k < CELLS && an_follow_find(f, n / 1024 + 64, random, &start); k++) {
        an_component c;

        an_follow_component(f, start, &c);
        if (must_be_told(work->params, work->item, &c) && !is_told(out, &c))
            return tc_fail(err, TC_NO_MATCH, "the cell around voxel %zu is not in the table", start);
    }
    return TC_OK;
}

tc_status vol_check_pixels(const an_work *work, const wu_output *out, uint64_t *random, tc_err *err)
{
    const vol_params *const p = work->params;
    const wu_pixels *const px = work->pixels;
    const size_t n = (size_t)px->nx * px->ny * px->nz;
    an_follow f = { .px = px, .threshold = (uint32_t)p->membrane, .through = p->through };
    tc_status st = check_membrane(work, out, err);

    if (st == TC_OK)
        st = an_follow_begin(&f, n / 4096 + 64, err);
    if (st == TC_OK && p->labels)
        st = check_labels(&f, &out->arrays[out->n - 1], random, err);
    if (st == TC_OK)
        st = check_cells(work, &f, out, random, err);
    an_follow_end(&f);
    return st;
}
