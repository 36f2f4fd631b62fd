/*
 * cellcount on the CPU: separates touching cells by a watershed (app/analysis/common/watershed.h).
 * Heights are squared distances to the background, or grey values. From every pixel of a cell a
 * path leads uphill to a regional maximum. Whether two maxima belong to one cell depends on the
 * height of the saddle between them.
 */
#include <string.h>

#include "app/analysis/cellcount/cpu.h"

/* --- the phases ------------------------------------------------------------------------------ */

/* Expands the bits of the mask to bytes, 1 for cells. */
static void bytes_band(cc_worker *w, size_t band, cc_scratch *s)
{
    uint32_t y0, y1;

    cc_band_range(w, band, &y0, &y1);
    for (uint32_t y = y0; y < y1; y++) {
        uint8_t *const row = w->bytes + (size_t)y * w->nx;
        const size_t runs = lab_find_row_runs(&w->picture, y, s->edges);

        memset(row, 0, w->nx);
        for (size_t k = 0; k < runs; k++)
            memset(row + s->edges[2 * k], 1, s->edges[2 * k + 1] - s->edges[2 * k]);
    }
}

static void distance_x(cc_worker *w, size_t part, cc_scratch *s)
{
    edt_part(&w->edt, 0, part, s->distance);
}

static void distance_y(cc_worker *w, size_t part, cc_scratch *s)
{
    edt_part(&w->edt, 1, part, s->distance);
}

/* Computes the heights from grey values: 1 to 2^bits, greatest for the darkest value or, if cells
 * are bright, for the brightest; 0 on the background. */
static void heights_band(cc_worker *w, size_t band, cc_scratch *s)
{
    const wu_pixels *const px = w->prepare.current;
    const uint32_t top = ((uint32_t)1 << px->bits) - 1;
    uint32_t y0, y1;

    cc_band_range(w, band, &y0, &y1);
    for (uint32_t y = y0; y < y1; y++) {
        const size_t runs = lab_find_row_runs(&w->picture, y, s->edges), at = (size_t)y * w->nx;

        memset(w->plane + at, 0, w->nx * sizeof *w->plane);
        for (size_t k = 0; k < runs; k++)
            for (size_t i = at + s->edges[2 * k]; i < at + s->edges[2 * k + 1]; i++) {
                const uint32_t v = wu_grey_value(px, i);

                w->plane[i] = (int32_t)(w->params->bright ? v : top - v) + 1;
            }
    }
}

/* Returns the part of the watershed that the current phase, CC_ASCEND to CC_SADDLES, does. */
static ws_part watershed_part(const cc_worker *w)
{
    return (ws_part)(w->phase - CC_ASCEND + WS_ASCEND);
}

static void watershed_band(cc_worker *w, size_t band, cc_scratch *s)
{
    uint32_t y0, y1;

    cc_band_range(w, band, &y0, &y1);
    ws_process_rows(&w->map, watershed_part(w), y0, y1, s->found);
    s->no_memory |= s->found->no_memory;
}

static tc_status end_watershed(cc_worker *w, tc_err *err)
{
    for (unsigned t = 0; t < w->work->threads; t++)
        w->saddles += w->found[t].n;
    return ws_complete_part(&w->map, watershed_part(w), w->found, w->work->threads, w->work->poll,
                            err);
}

static void clear_band(cc_worker *w, size_t band, cc_scratch *s)
{
    uint32_t y0, y1;

    (void)s;
    cc_band_range(w, band, &y0, &y1);
    for (size_t i = (size_t)y0 * w->nx; i < (size_t)y1 * w->nx; i++)
        w->plane[i] = INT32_MAX;
}

/* Sets plane[maximum], for each maximum, to the first pixel in raster order that leads to it. */
static void first_band(cc_worker *w, size_t band, cc_scratch *s)
{
    uint32_t y0, y1;

    (void)s;
    cc_band_range(w, band, &y0, &y1);
    ws_find_first_pixels(&w->map, y0, y1, w->plane, NULL, NULL);
}

const cc_work cc_bytes = { bytes_band, NULL };
const cc_work cc_distance_x = { distance_x, NULL };
const cc_work cc_distance_y = { distance_y, NULL };
const cc_work cc_heights = { heights_band, NULL };
const cc_work cc_watershed = { watershed_band, end_watershed };
const cc_work cc_clear = { clear_band, NULL };
const cc_work cc_first = { first_band, NULL };
