/* cellcount: what a split by intensity makes of a single component. */
#include <stdlib.h>

#include "app/analysis/cellcount/parts.h"
#include "app/analysis/common/watershed.h"

/* A component's box, and what the watershed takes. */
typedef struct patch {
    const an_follow *f;
    const an_component *c;
    uint32_t nx, ny;
    uint32_t *height; /* in the end, of a maximum, its part's index */
    int32_t *up, *first;
    ws_list found;
} patch;

/* Where the component's k-th pixel is in the box. */
static size_t place_of(const patch *a, size_t k)
{
    const size_t i = a->f->queue[k], nx = a->f->px->nx;

    return (i / nx - a->c->lo[1]) * a->nx + i % nx - a->c->lo[2];
}

static tc_status walk(patch *a, const cc_params *p, const tc_poll *poll, tc_err *err)
{
    const uint32_t top = ((uint32_t)1 << a->f->px->bits) - 1;
    const ws_map map = { .shape = { (int32_t)a->nx, (int32_t)a->ny, 1, p->eight_connected, 0 },
                         .plateaus = true,
                         .height = a->height,
                         .up = a->up,
                         .apart = cc_apart_by_intensity,
                         .rule = p };
    tc_status status = TC_OK;

    for (size_t k = 0; k < a->c->pixels; k++) {
        const uint32_t v = wu_grey(a->f->px, a->f->queue[k]);

        a->height[place_of(a, k)] = (p->bright ? v : top - v) + 1;
    }
    for (size_t i = 0; i < (size_t)a->nx * a->ny; i++)
        a->first[i] = INT32_MAX;
    for (int part = WS_ASCEND; status == TC_OK && part <= WS_SADDLES; part++) {
        ws_rows(&map, (ws_part)part, 0, a->ny, &a->found);
        status = a->found.no_memory ? tc_no_memory(err, "a region")
                                    : ws_end(&map, (ws_part)part, &a->found, 1, poll, err);
    }
    if (status == TC_OK)
        ws_first(&map, 0, a->ny, a->first, NULL, NULL);
    return status;
}

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

static tc_status measure(patch *a, cc_region **parts, size_t *n, tc_err *err)
{
    const size_t nx = a->f->px->nx;

    *n = 0;
    for (size_t k = 0; k < a->c->pixels; k++) {
        const size_t at = place_of(a, k);
        const int32_t maximum = a->up[at];

        if (a->first[maximum] == (int32_t)at)
            a->height[maximum] = (uint32_t)(*n)++;
    }
    *parts = calloc(*n, sizeof **parts);
    if (*parts == NULL)
        return tc_no_memory(err, "a region");
    for (size_t k = 0; k < a->c->pixels; k++) {
        const size_t i = a->f->queue[k];

        extend_region(&(*parts)[a->height[a->up[place_of(a, k)]]], (uint16_t)(i / nx),
                      (uint16_t)(i % nx), wu_grey(a->f->px, i));
    }
    return TC_OK;
}

tc_status cc_parts_of(const cc_params *p, const an_follow *f, const an_component *c,
                      const tc_poll *poll, cc_region **parts, size_t *n, tc_err *err)
{
    patch a = { .f = f, .c = c, .nx = c->hi[2] - c->lo[2], .ny = c->hi[1] - c->lo[1] };
    const size_t box = (size_t)a.nx * a.ny;
    tc_status status;

    a.height = calloc(box, sizeof *a.height);
    a.up = malloc(box * sizeof *a.up);
    a.first = malloc(box * sizeof *a.first);
    *parts = NULL;
    status = a.height == NULL || a.up == NULL || a.first == NULL ? tc_no_memory(err, "a region")
                                                                 : walk(&a, p, poll, err);
    if (status == TC_OK)
        status = measure(&a, parts, n, err);
    ws_list_drop(&a.found);
    free(a.height);
    free(a.up);
    free(a.first);
    return status;
}
