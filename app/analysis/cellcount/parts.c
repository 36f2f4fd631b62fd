/* cellcount: computes the regions that a single component is split into, for spot checks. */
#include <stdlib.h>
#include <string.h>

#include "app/analysis/cellcount/core.h"

#include "app/analysis/analyses.h"
#include "app/analysis/cellcount/parts.h"
#include "app/analysis/common/watershed.h"

/* A component, and the arrays of the watershed that splits it. The arrays are [ny][nx] and cover
 * the component's bounding box. */
typedef struct component_box {
    const an_follow *f;
    const an_component *c;
    const size_t *pixel; /* [n]: the component's pixels, those of filled holes included, by their
                            index in f->px */
    size_t n;
    const wu_pixels *original;
    uint32_t nx, ny; /* size of the box */
    /* Outside the component 0. In the component 1 plus the grey value or, for dark cells, 1 plus
     * the difference of the grey value from the greatest possible one. After the watershed,
     * measure_parts sets the element of each maximum to the index of the maximum's part. */
    uint32_t *height;
    int32_t *up;    /* ws_map.up */
    int32_t *first; /* the first pixel of each maximum's part (ws_find_first_pixels) */
    ws_list found;  /* the saddles and pixels that the watershed finds (ws_process_rows) */
} component_box;

/* The index, in the box, of the component's k-th pixel. */
static size_t box_index(const component_box *a, size_t k)
{
    const size_t i = a->pixel[k], nx = a->f->px->nx;

    return (i / nx - a->c->lo[1]) * a->nx + i % nx - a->c->lo[2];
}

static tc_status run_watershed(component_box *a, const cc_params *p, const tc_poll *poll,
                               tc_err *err)
{
    const uint32_t top = ((uint32_t)1 << a->f->px->bits) - 1;
    const ws_map map = { .shape = { (int32_t)a->nx, (int32_t)a->ny, 1, p->eight_connected, 0 },
                         .plateaus = true,
                         .height = a->height,
                         .up = a->up,
                         .is_separate = cc_separate_by_intensity,
                         .rule = p };

    for (size_t k = 0; k < a->n; k++) {
        const uint32_t v = wu_grey_value(a->f->px, a->pixel[k]);

        a->height[box_index(a, k)] = (p->bright ? v : top - v) + 1;
    }
    for (size_t i = 0; i < (size_t)a->nx * a->ny; i++)
        a->first[i] = INT32_MAX;
    for (int part = WS_ASCEND; part <= WS_SADDLES; part++) {
        ws_process_rows(&map, (ws_part)part, 0, a->ny, &a->found);
        return_if_error(a->found.no_memory
                            ? tc_no_memory(err, "a region")
                            : ws_complete_part(&map, (ws_part)part, &a->found, 1, poll, err));
    }
    ws_find_first_pixels(&map, 0, a->ny, a->first, NULL, NULL);
    return TC_OK;
}

/* Adds a pixel to a region. */
static void extend_region(cc_region *r, uint16_t y, uint16_t x, uint32_t grey)
{
    r->y0 = r->area == 0 || y < r->y0 ? y : r->y0;
    r->x0 = r->area == 0 || x < r->x0 ? x : r->x0;
    r->y1 = y >= r->y1 ? (uint16_t)(y + 1) : r->y1;
    r->x1 = x >= r->x1 ? (uint16_t)(x + 1) : r->x1;
    r->sum_y += y;
    r->sum_x += x;
    r->sum_grey += grey;
    r->area++;
}

/* Sets *parts to the measurements of the parts that the watershed has found, in coordinates of the
 * picture. */
static tc_status measure_parts(component_box *a, cc_parts *parts, tc_err *err)
{
    const size_t nx = a->f->px->nx;

    for (size_t k = 0; k < a->n; k++) {
        const size_t at = box_index(a, k);
        const int32_t maximum = a->up[at];

        if (a->first[maximum] == (int32_t)at)
            a->height[maximum] = (uint32_t)parts->n++;
    }
    parts->part = calloc(parts->n, sizeof *parts->part);
    if (parts->part == NULL)
        return tc_no_memory(err, "a region");
    for (size_t k = 0; k < a->n; k++) {
        const size_t i = a->pixel[k];
        cc_part *const part = &parts->part[a->height[a->up[box_index(a, k)]]];

        extend_region(&part->region, (uint16_t)(i / nx), (uint16_t)(i % nx),
                      wu_grey_value(a->original, i));
        part->prepared += wu_grey_value(a->f->px, i);
    }
    return TC_OK;
}

/* pixel: the n pixels of the component, as in component_box. */
static tc_status split_by_intensity(const cc_params *p, const an_follow *f, const an_component *c,
                                    const size_t *pixel, size_t n, const wu_pixels *original,
                                    const tc_poll *poll, cc_parts *parts, tc_err *err)
{
    component_box a = { .f = f,
                        .c = c,
                        .pixel = pixel,
                        .n = n,
                        .original = original,
                        .nx = c->hi[2] - c->lo[2],
                        .ny = c->hi[1] - c->lo[1] };
    const size_t box = (size_t)a.nx * a.ny;
    tc_status status;

    a.height = calloc(box, sizeof *a.height);
    a.up = malloc(box * sizeof *a.up);
    a.first = malloc(box * sizeof *a.first);
    status = a.height == NULL || a.up == NULL || a.first == NULL ? tc_no_memory(err, "a region")
                                                                 : run_watershed(&a, p, poll, err);
    if (status == TC_OK)
        status = measure_parts(&a, parts, err);
    ws_list_drop(&a.found);
    free(a.height);
    free(a.up);
    free(a.first);
    return status;
}

/* --- for fill_holes or a split by distance: analyses the component as a picture --------------- */

/* Makes the pixels of px, of the size of the box `at`. Only the component's pixels are cells.
 * Other components do not matter: those in its holes are filled with the holes, and those outside
 * are farther than the nearest background. */
static tc_status cut_out(const an_follow *f, const an_component *c, const cc_parts *at,
                         wu_pixels *px, tc_err *err)
{
    const size_t nx = f->px->nx, n = (size_t)px->nx * px->ny;
    const uint32_t other = f->threshold - 1; /* the greatest value below the threshold */

    px->u16 = malloc(n * sizeof *px->u16);
    if (px->u16 == NULL)
        return tc_no_memory(err, "a region");
    for (size_t i = 0; i < n; i++)
        px->u16[i] = (uint16_t)(f->above ? other : f->threshold);
    for (size_t k = 0; k < c->pixels; k++) {
        const size_t i = f->queue[k];

        px->u16[(i / nx - at->y0) * px->nx + i % nx - at->x0] =
            (uint16_t)(f->above ? f->threshold : other);
    }
    return TC_OK;
}

/* Sets parts->part to the regions in `state`, the final state of the cut-out (cut_out), in
 * coordinates of the picture. */
static tc_status copy_regions(const an_work *work, const cc_state *state, const an_follow *f,
                              const wu_pixels *original, cc_parts *parts, tc_err *err)
{
    const cc_region *found = NULL;
    cc_region *owned = NULL;
    tc_status status = cc_regions(work, state, &found, &owned, err);

    parts->n = state->regions;
    parts->part = calloc(parts->n + 1, sizeof *parts->part);
    if (status == TC_OK && parts->part == NULL)
        status = tc_no_memory(err, "a region");
    for (size_t k = 0; status == TC_OK && k < parts->n; k++) {
        cc_region r = found[k + 1];

        r.sum_y += (uint64_t)r.area * parts->y0;
        r.sum_x += (uint64_t)r.area * parts->x0;
        r.y0 = (uint16_t)(r.y0 + parts->y0);
        r.y1 = (uint16_t)(r.y1 + parts->y0);
        r.x0 = (uint16_t)(r.x0 + parts->x0);
        r.x1 = (uint16_t)(r.x1 + parts->x0);
        r.sum_grey = 0;
        parts->part[k].region = r;
    }
    for (size_t y = parts->y0, k = 0; status == TC_OK && y < parts->y1; y++)
        for (size_t x = parts->x0; x < parts->x1; x++, k++)
            if (state->plane[k] > 0) {
                cc_part *const part = &parts->part[state->plane[k] - 1];

                part->region.sum_grey += wu_grey_value(original, y * original->nx + x);
                part->prepared += wu_grey_value(f->px, y * original->nx + x);
            }
    free(owned);
    return status;
}

/* Cuts the component out (cut_out) and analyses it as a picture. */
static tc_status analyse_component(const cc_params *p, const an_follow *f, const an_component *c,
                                   const wu_pixels *original, const tc_poll *poll, cc_parts *parts,
                                   tc_err *err)
{
    /* At each side that is not the picture's, one row or column around the component's box. */
    parts->y0 = c->lo[1] - (c->lo[1] > 0);
    parts->x0 = c->lo[2] - (c->lo[2] > 0);
    parts->y1 = c->hi[1] + (c->hi[1] < f->px->ny);
    parts->x1 = c->hi[2] + (c->hi[2] < f->px->nx);
    const uint32_t nx = parts->x1 - parts->x0, ny = parts->y1 - parts->y0;
    cc_params params = *p;
    TC_AUTO(wu_pixels_free)
    wu_pixels px = { .nx = nx, .ny = ny, .nz = 1, .bits = 16 };
    const wu_item item = {
        .name = (char *)(uintptr_t)"", .nx = nx, .ny = ny, .nz = 1, .bits = 16, .channels = 1
    };
    an_work work = { .params = &params, .item = &item, .pixels = &px, .threads = 1, .poll = poll };
    TC_AUTOFREE void *state = NULL;
    return_if_error(cut_out(f, c, parts, &px, err));

    params.threshold = (int32_t)f->threshold;
    params.threshold_word = 0;
    params.smooth = 0;
    params.background = params.labels = params.exclude_border = false;
    params.min_contrast = false;
    params.window_auto = params.min_area_auto = 0;
    params.min_area = 1;
    params.max_area = INT64_MAX;
    params.min_fill = params.max_aspect = 0;
    return_if_error(an_cellcount.plan(&params, &item, &work.plan, err));
    state = calloc(1, work.plan.state_bytes);
    return_if_error(state == NULL
                        ? tc_no_memory(err, "a region")
                        : an_run_chunks(&an_cellcount, an_cellcount.cpu, &work, state, 0, err));
    return_if_error(copy_regions(&work, state, f, original, parts, err));
    if (!p->labels)
        return TC_OK;
    parts->plane = malloc((size_t)nx * ny * sizeof *parts->plane);
    if (parts->plane == NULL)
        return tc_no_memory(err, "the labels of a region");
    memcpy(parts->plane, ((const cc_state *)state)->plane, (size_t)nx * ny * sizeof *parts->plane);
    return TC_OK;
}

/* Splits a component by intensity after its holes are filled. */
static tc_status split_filled(const cc_params *p, const an_follow *f, const an_component *c,
                              const wu_pixels *original, const tc_poll *poll, cc_parts *parts,
                              tc_err *err)
{
    cc_params fills = *p;
    TC_AUTO(cc_parts_free) cc_parts filled = { .n = 0 };
    TC_AUTOFREE size_t *pixel = NULL;
    size_t n = 0;

    fills.split = 0;
    fills.labels = true; /* for filled.plane */
    return_if_error(analyse_component(&fills, f, c, original, poll, &filled, err));
    pixel = malloc((size_t)(filled.y1 - filled.y0) * (filled.x1 - filled.x0) * sizeof *pixel);
    if (pixel == NULL)
        return tc_no_memory(err, "a region");
    for (size_t y = filled.y0, k = 0; y < filled.y1; y++)
        for (size_t x = filled.x0; x < filled.x1; x++)
            if (filled.plane[k++] > 0)
                pixel[n++] = y * f->px->nx + x;
    return split_by_intensity(p, f, c, pixel, n, original, poll, parts, err);
}

tc_status cc_parts_of(const cc_params *p, const an_follow *f, const an_component *c,
                      const wu_pixels *original, const tc_poll *poll, cc_parts *parts, tc_err *err)
{
    *parts = (cc_parts){ .n = 0 };
    if (p->split == CC_INTENSITY)
        return p->fill_holes ? split_filled(p, f, c, original, poll, parts, err)
                             : split_by_intensity(p, f, c, f->queue, (size_t)c->pixels, original,
                                                  poll, parts, err);
    if (p->split || p->fill_holes)
        return analyse_component(p, f, c, original, poll, parts, err);
    parts->part = calloc(1, sizeof *parts->part);
    if (parts->part == NULL)
        return tc_no_memory(err, "a region");
    parts->part->region = (cc_region){ .sum_y = c->sum[1],
                                       .sum_x = c->sum[2],
                                       .area = (uint32_t)c->pixels,
                                       .y0 = (uint16_t)c->lo[1],
                                       .x0 = (uint16_t)c->lo[2],
                                       .y1 = (uint16_t)c->hi[1],
                                       .x1 = (uint16_t)c->hi[2] };
    parts->part->prepared = c->grey;
    for (size_t k = 0; k < c->pixels; k++)
        parts->part->region.sum_grey += wu_grey_value(original, f->queue[k]);
    parts->n = 1;
    return TC_OK;
}

void cc_parts_free(cc_parts *parts)
{
    free(parts->part);
    free(parts->plane);
}
