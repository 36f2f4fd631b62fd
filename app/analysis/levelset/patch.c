/*
 * levelset: a test, for a validator, whether the outline moves as a result claims. It costs nearly
 * nothing, so it is made for every item that may have converged: a forger would claim this of the
 * item that takes most of the work. Right after a re-initialisation phi depends on the sides of the
 * voxels alone, and in some iterations nearby pixels alone change it. So the test computes these
 * iterations in a small box (a patch), where the data term moves the outline most against what the
 * result claims.
 */
#include <stdlib.h>
#include <string.h>

#include "app/analysis/levelset/levelset.h"
#include "app/analysis/levelset/rows.h"
#include "app/base/numbers.h"

enum {
    BLOCK = 8, /* length of a side of the blocks of which one is tested, in voxels */
    MARGIN =
        8 /* voxels, at least, around this block that are computed too; a multiple of LS_BX, LS_BY
             and LS_BZ, so that the patch has the same blocks of a narrow band as the item */
};

/* The index of the block that has voxel i. */
static size_t block_of(const ls_claim *c, size_t i)
{
    const wu_item *const item = c->work->item;
    const size_t x = i % item->nx, y = i / item->nx % item->ny, z = i / item->nx / item->ny;

    return (z / BLOCK * tc_div_ceil(item->ny, BLOCK) + y / BLOCK) * tc_div_ceil(item->nx, BLOCK) +
           x / BLOCK;
}

/* The box of voxels of the block that begins at `at`, with a margin around it. */
static ls_box box_around(const wu_item *item, const size_t at[3], size_t margin)
{
    return (ls_box){ .x0 = (uint32_t)(at[0] - tc_smaller(at[0], margin)),
                     .x1 = (uint32_t)tc_smaller(at[0] + BLOCK + margin, item->nx),
                     .y0 = (uint32_t)(at[1] - tc_smaller(at[1], margin)),
                     .y1 = (uint32_t)tc_smaller(at[1] + BLOCK + margin, item->ny),
                     .z0 = (uint32_t)(at[2] - tc_smaller(at[2], margin)),
                     .z1 = (uint32_t)tc_smaller(at[2] + BLOCK + margin, item->nz) };
}

/* The push of the data term on faces between voxels on two sides of the outline. */
typedef struct pushes {
    float *denied; /* [blocks]: on those of the block where the outline does not move so by the
                      result */
    double all_denied, all;
} pushes;

/* Adds the face between voxels i and j. */
static void add_face(const ls_claim *c, size_t i, size_t j, pushes *sums)
{
    const size_t in = c->from[i] ? i : j, out = c->from[i] ? j : i;
    const float data = ls_data_term(c->p, (float)wu_grey_value(c->work->pixels, in)) +
                       ls_data_term(c->p, (float)wu_grey_value(c->work->pixels, out)),
                push = __builtin_fabsf(data);

    sums->all += push;
    if (data < 0 ? !c->to[out] : c->to[in]) {
        sums->all_denied += push;
        sums->denied[block_of(c, data < 0 ? out : in)] += push;
    }
}

/* Adds the faces between voxels [at, at + n) and the next ones, `step` voxels further. */
static void add_faces(const ls_claim *c, size_t at, size_t n, size_t step, pushes *sums)
{
    const uint8_t *const from = c->from + at;

    for (size_t i = 0, end; i < n; i = end) {
        uint64_t here, next; /* the sides of 8 voxels */

        end = tc_smaller(i + sizeof here, n);
        if (end - i == sizeof here) {
            memcpy(&here, from + i, sizeof here);
            memcpy(&next, from + i + step, sizeof next);
            if (here == next)
                continue;
        }
        for (; i < end; i++)
            if (from[i] != from[i + step])
                add_face(c, at + i, at + i + step, sums);
    }
}

/* Sets *block to the block where the data term pushes most against the claim, and *share to the
 * part of all pushes that is against it. */
static tc_status choose_block(const ls_claim *c, size_t *block, double *share, tc_err *err)
{
    const wu_item *const item = c->work->item;
    const size_t nx = item->nx, ny = item->ny, nz = item->nz,
                 n = tc_div_ceil(nx, BLOCK) * tc_div_ceil(ny, BLOCK) * tc_div_ceil(nz, BLOCK);
    TC_AUTOFREE float *const denied = calloc(n, sizeof *denied);
    pushes sums = { .denied = denied };

    if (denied == NULL)
        return tc_no_memory(err, "levelset");
    for (size_t z = 0; z < nz; z++)
        for (size_t y = 0; y < ny; y++) {
            const size_t at = (z * ny + y) * nx;

            add_faces(c, at, nx - 1, 1, &sums);
            if (y + 1 < ny)
                add_faces(c, at, nx, nx, &sums);
            if (z + 1 < nz)
                add_faces(c, at, nx, nx * ny, &sums);
        }
    *block = 0;
    for (size_t i = 1; i < n; i++)
        if (denied[i] > denied[*block])
            *block = i;
    *share = sums.all > 0 ? sums.all_denied / sums.all : 0;
    return TC_OK;
}

/* The least time step of the item, about: with `cfl` that at the greatest data term of any pixel
 * and the curvature of a ball of one voxel. */
static double least_step(const ls_claim *c)
{
    const wu_pixels *const px = c->work->pixels;
    const ls_size size = ls_size_of(c->work->item);
    float most = 0; /* the greatest data term */

    if (!c->p->cfl)
        return c->p->dt;
    for (size_t i = 0; i < size.voxels; i++) {
        const float data = __builtin_fabsf(ls_data_term(c->p, (float)wu_grey_value(px, i)));

        most = data > most ? data : most;
    }
    return ls_cfl_step(1.5f * (most + 1.0f - (float)c->p->alpha), ls_max_time_step(c->p, &size));
}

tc_status ls_compute(const an_work *work, void *state, tc_err *err)
{
    void *worker = NULL;
    uint64_t chunks = 0;
    tc_status status = ls_cpu.open(work, state, &worker, err);

    if (status == TC_OK)
        status = TC_MORE;
    while (status == TC_MORE)
        status = ls_cpu.step(worker, state, &chunks, err);
    if (status == TC_OK)
        status = ls_cpu.sync(worker, state, err);
    if (worker != NULL)
        ls_cpu.close(&worker);
    return status;
}

/* Copies a box from an array [nz][ny][nx] of elements of `width` bytes. */
static void copy_box(const wu_item *item, const ls_box *b, const void *from, size_t width, void *to)
{
    const size_t row = (b->x1 - b->x0) * width;
    unsigned char *out = to;

    for (size_t z = b->z0; z < b->z1; z++)
        for (size_t y = b->y0; y < b->y1; y++, out += row)
            memcpy(out,
                   (const unsigned char *)from + ((z * item->ny + y) * item->nx + b->x0) * width,
                   row);
}

/* Sets *wrong to the share of the block's voxels that change sides in the patch, although by the
 * result they do not. */
static tc_status compute_wrong(const ls_claim *c, size_t block, double *wrong, tc_err *err)
{
    const wu_item *const item = c->work->item;
    const wu_pixels *const px = c->work->pixels;
    const size_t bx = tc_div_ceil(item->nx, BLOCK), by = tc_div_ceil(item->ny, BLOCK),
                 at[3] = { block % bx * BLOCK, block / bx % by * BLOCK, block / bx / by * BLOCK },
                 width = px->bits / 8;
    const int reach = c->p->smooth > 0 ? an_gauss_radius(c->p->smooth) : MARGIN;
    const size_t margin = tc_div_ceil((size_t)reach, MARGIN) * MARGIN;
    const ls_box b = box_around(item, at, margin), core = box_around(item, at, 0);
    wu_item small = *item;
    wu_pixels pixels = { .bits = px->bits };
    ls_params p = *c->p;
    an_work patch = *c->work;

    small.nx = pixels.nx = b.x1 - b.x0;
    small.ny = pixels.ny = b.y1 - b.y0;
    small.nz = pixels.nz = b.z1 - b.z0;
    p.iterations = c->iterations;
    p.reinit_every = p.stop_after = 0;
    p.dt = least_step(c);
    p.cfl = false;
    const ls_size size = ls_size_of(&small);
    TC_AUTOFREE void *const grey = malloc(size.voxels * width);
    TC_AUTOFREE uint8_t *const from = malloc(size.voxels);
    TC_AUTOFREE void *const state = calloc(1, ls_state_bytes(&p, &size));

    if (grey == NULL || from == NULL || state == NULL)
        return tc_no_memory(err, "levelset");
    copy_box(item, &b, px->bits == 8 ? (const void *)px->u8 : px->u16, width, grey);
    copy_box(item, &b, c->from, 1, from);
    if (px->bits == 8)
        pixels.u8 = grey;
    else
        pixels.u16 = grey;
    patch.params = &p;
    patch.item = &small;
    patch.pixels = &pixels;
    patch.threads = 1;
    for (size_t i = 0; i < size.voxels; i++)
        ls_phi(state)[i] = from[i] ? -1.0f : 1.0f;
    size_t changed = 0;
    return_if_error(ls_compute(&patch, state, err));
    for (size_t z = core.z0; z < core.z1; z++)
        for (size_t y = core.y0; y < core.y1; y++)
            for (size_t x = core.x0; x < core.x1; x++) {
                const size_t i = (z * item->ny + y) * item->nx + x,
                             j = ((z - b.z0) * size.ny + (y - b.y0)) * size.nx + (x - b.x0);

                changed += (ls_phi(state)[j] < 0) != c->from[i] && c->from[i] == c->to[i];
            }
    *wrong =
        (double)changed / ((double)(core.x1 - core.x0) * (core.y1 - core.y0) * (core.z1 - core.z0));
    return TC_OK;
}

tc_status ls_check_claim(const ls_claim *c, tc_err *err)
{
    size_t block = 0;
    double share = 0, wrong = 0;
    tc_status status = choose_block(c, &block, &share, err);

    if (status == TC_OK && share > c->denied)
        status = compute_wrong(c, block, &wrong, err);
    /* phi of the patch may overflow though that of the item did not. */
    if (status == TC_BAD_INPUT || (status == TC_OK && wrong >= c->wrong))
        status = tc_fail(err, TC_NO_MATCH, "the outline would move in another way");
    return status;
}
