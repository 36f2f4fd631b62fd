/*
 * levelset: computes the terms of F (levelset.h) that depend on the pixels: the grey values are
 * smoothed in fixed point, and from them come the data term and the factor that slows the interface
 * at edges. This is done on the CPU for both backends.
 */
#include <stdlib.h>

#include "app/analysis/levelset/levelset.h"
#include "app/base/os.h"

/* The grey value 1 in fixed point with 8 fractional bits. */
#define GREY_ONE 256u
/* The approximate number of voxels in a part, which a thread processes at a time. */
enum { PART_VOXELS = 1 << 16 };

/* The arguments of a computation that several threads do row by row. */
typedef struct field_rows {
    const ls_params *p;
    const wu_pixels *px;
    const tc_poll *poll;
    an_pool *pool;
    an_gauss blur;
    unsigned axis; /* axis of the blur: 0 x, 1 y, 2 z */
    uint32_t *from,
        *to; /* [nz][ny][nx]: grey values in fixed point; `row` reads `from` and writes `to` */
    ls_force *force;
    size_t rows_per_part;
    uint32_t *padded_rows; /* [threads][padded_nx]: a row with a margin of blur.radius voxels on
                              both sides */
    size_t padded_nx;
    /* Computes row y of slice z. */
    void (*row)(const struct field_rows *w, uint32_t y, uint32_t z, unsigned thread);
} field_rows;

static size_t row_index(const field_rows *w, uint32_t y, uint32_t z)
{
    return ((size_t)z * w->px->ny + y) * w->px->nx;
}

static void load_row(const field_rows *w, uint32_t y, uint32_t z, unsigned thread)
{
    const size_t at = row_index(w, y, z);

    (void)thread;
    for (size_t x = 0; x < w->px->nx; x++)
        w->to[at + x] = GREY_ONE * wu_grey_value(w->px, at + x);
}

/* Returns the index v, or the nearest index within the picture: the filter repeats the border. */
static size_t clamp_index(int64_t v, uint32_t n)
{
    return v < 0 ? 0 : v >= n ? n - 1 : (size_t)v;
}

/* Filters a row along w->axis. sources[k + h] is the row of voxels that get the filter's weight k:
 * along x it is a shifted copy of the same row, along y and z another row of the picture. */
static void blur_row(const field_rows *w, uint32_t y, uint32_t z, unsigned thread)
{
    const wu_pixels *const px = w->px;
    const int64_t h = w->blur.radius;
    uint32_t *const padded = w->padded_rows + thread * w->padded_nx;
    const uint32_t *sources[2 * AN_GAUSS_MAX_RADIUS + 1];
    const uint32_t *const row = w->from + row_index(w, y, z);

    if (w->axis == 0)
        for (int64_t x = -h; x < (int64_t)px->nx + h; x++)
            padded[x + h] = row[clamp_index(x, px->nx)];
    for (int64_t k = -h; k <= h; k++)
        sources[k + h] =
            w->axis == 0 ? padded + h + k
            : w->axis == 1
                ? w->from + row_index(w, (uint32_t)clamp_index((int64_t)y + k, px->ny), z)
                : w->from + row_index(w, y, (uint32_t)clamp_index((int64_t)z + k, px->nz));
    an_gauss_blur(w->blur.weight, w->blur.radius, sources, px->nx, AN_GAUSS_BITS, true,
                  w->to + row_index(w, y, z));
}

/* The grey value of a voxel in w->from. */
static float grey_value(const field_rows *w, uint32_t x, uint32_t y, uint32_t z)
{
    return (float)w->from[row_index(w, y, z) + x] * (1.0f / GREY_ONE);
}

/* The central difference of the grey values along an axis: the next voxel minus the previous one,
 * divided by 2; 0 on the border. */
static float central_difference(const field_rows *w, uint32_t x, uint32_t y, uint32_t z,
                                unsigned axis)
{
    const uint32_t n[3] = { w->px->nx, w->px->ny, w->px->nz }, at[3] = { x, y, z };
    const uint32_t dx = axis == 0, dy = axis == 1, dz = axis == 2;

    if (at[axis] == 0 || at[axis] + 1 >= n[axis])
        return 0;
    return (grey_value(w, x + dx, y + dy, z + dz) - grey_value(w, x - dx, y - dy, z - dz)) * 0.5f;
}

/* Computes a row of the data term, and of `stop` if it is used, from w->from. */
static void force_row(const field_rows *w, uint32_t y, uint32_t z, unsigned thread)
{
    const float weight = (float)w->p->edge_stop;
    const size_t at = row_index(w, y, z);

    (void)thread;
    for (uint32_t x = 0; x < w->px->nx; x++) {
        w->force->data[at + x] = ls_data_term(w->p, grey_value(w, x, y, z));
        if (w->force->stop != NULL) {
            const float gx = central_difference(w, x, y, z, 0),
                        gy = central_difference(w, x, y, z, 1),
                        gz = central_difference(w, x, y, z, 2);

            w->force->stop[at + x] = 1.0f / (1.0f + weight * ((gx * gx + gy * gy) + gz * gz));
        }
    }
}

/* Calls w->row for the rows of a part. */
static void run_rows(void *user, unsigned thread, size_t part)
{
    const field_rows *const w = user;
    const size_t rows = (size_t)w->px->ny * w->px->nz;

    for (size_t r = part * w->rows_per_part; r < rows && r < (part + 1) * w->rows_per_part; r++)
        w->row(w, (uint32_t)(r % w->px->ny), (uint32_t)(r / w->px->ny), thread);
}

/* Calls w->row for all rows, by all threads. */
static tc_status run_all_rows(field_rows *w, tc_err *err)
{
    const size_t rows = (size_t)w->px->ny * w->px->nz;

    return an_pool_run_polled(w->pool, run_rows, w,
                              (rows + w->rows_per_part - 1) / w->rows_per_part, w->poll, err);
}

/* Filters along each axis in turn, swapping w->from and w->to. The result is in w->to. */
static tc_status smooth_field(field_rows *w, tc_err *err)
{
    w->row = blur_row;
    for (w->axis = 0; w->axis < (w->px->nz > 1 ? 3 : 2); w->axis++) {
        uint32_t *const swap = w->to;

        w->to = w->from;
        w->from = swap;
        return_if_error(run_all_rows(w, err));
    }
    return TC_OK;
}

tc_status ls_force_make(const an_work *work, ls_force *force, tc_err *err)
{
    ls_params params;
    const ls_params *const p = &params;
    const wu_pixels *const px = work->pixels;
    const size_t n = (size_t)px->nx * px->ny * px->nz, bytes = n * sizeof(float) + LS_PAD_BYTES;
    field_rows w = { .p = p,
                     .px = px,
                     .poll = work->poll,
                     .force = force,
                     .rows_per_part = PART_VOXELS / px->nx + 1,
                     .row = load_row };
    tc_status status = ls_resolve(work, &params, err);

    force->data = force->stop = NULL;
    if (status != TC_OK)
        return status;
    w.blur = an_gauss_make(p->smooth > 0 ? p->smooth : 1); /* without `smooth` it is not used */
    w.padded_nx = px->nx + 2 * (size_t)w.blur.radius;
    w.padded_rows = malloc(w.padded_nx * work->threads * sizeof *w.padded_rows);
    w.from = os_alloc_zeroed(bytes);
    w.to = os_alloc_zeroed(bytes);
    force->stop = p->edge_stop > 0 ? os_alloc_zeroed(bytes) : NULL;
    if (w.padded_rows == NULL || w.from == NULL || w.to == NULL ||
        (p->edge_stop > 0 && force->stop == NULL)) {
        status = tc_no_memory(err, "levelset");
        goto end;
    }
    status = an_pool_create(work->threads, &w.pool, err);
    if (status == TC_OK)
        status = run_all_rows(&w, err);
    if (status == TC_OK && p->smooth > 0)
        status = smooth_field(&w, err);
    /* The grey values are in w.to. The other buffer, which is no longer needed, becomes the memory
     * of force->data; an element has 4 bytes in both. */
    force->data = (float *)w.from;
    w.from = w.to;
    w.to = NULL;
    w.row = force_row;
    if (status == TC_OK)
        status = run_all_rows(&w, err);
end:
    an_pool_destroy(&w.pool);
    free(w.padded_rows);
    free(w.from);
    free(w.to);
    if (status != TC_OK)
        ls_force_free(force);
    return status;
}

void ls_force_free(ls_force *force)
{
    free(force->data);
    free(force->stop);
    force->data = force->stop = NULL;
}
