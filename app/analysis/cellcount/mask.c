/*
 * cellcount on the CPU: finds the threshold, makes the mask of the cells, and fills holes in it.
 * Each phase has a function for one band of rows, which several threads call for different bands,
 * and may have a function that is called once after the last band (cc_work). A seam is the border
 * between a band and the band before it.
 */
#include <string.h>

#include "app/analysis/bits.h"
#include "app/analysis/cellcount/core.h"
#include "app/analysis/cellcount/cpu.h"

/* --- pixels to bits -------------------------------------------------------------------------- */

/* Adds the band's grey values to the thread's histogram. prepare.current: the grey values that the
 * threshold applies to. */
static void histogram_band(cc_worker *w, size_t band, cc_scratch *s)
{
    const wu_pixels *const px = w->prepare.current;
    uint32_t y0, y1;

    cc_band_range(w, band, &y0, &y1);
    an_histogram_add_masked(px, w->work->pixels->mask, (size_t)y0 * w->nx, (size_t)y1 * w->nx,
                            s->histogram);
}

/* Adds up the threads' histograms, and finds the threshold in the sum. */
static tc_status end_histogram(cc_worker *w, tc_err *err)
{
    const uint32_t size = (uint32_t)1 << w->work->pixels->bits;
    uint64_t *const sum = w->scratch[0].histogram;

    for (unsigned t = 1; t < w->work->threads; t++)
        for (uint32_t v = 0; v < size; v++)
            sum[v] += w->scratch[t].histogram[v];
    return cc_find_threshold(w->params, sum, w->work->pixels->bits, &w->threshold, err);
}

/* Clears the bits of row y that are outside the item's mask, if it has one. */
static void clear_outside(const cc_worker *w, uint32_t y)
{
    const uint8_t *const mask = w->work->pixels->mask;
    uint64_t *const words = w->picture.bits + y * w->picture.stride;

    for (uint32_t x = 0; mask != NULL && x < w->nx; x++)
        if (!mask[(size_t)y * w->nx + x])
            words[x / 64] &= ~((uint64_t)1 << x % 64);
}

/* Applies the threshold to the band. */
static void mask_band(cc_worker *w, size_t band, cc_scratch *s)
{
    const wu_pixels *const px = w->prepare.current;
    uint32_t y0, y1;

    (void)s;
    cc_band_range(w, band, &y0, &y1);
    for (uint32_t y = y0; y < y1; y++) {
        uint64_t *const words = w->picture.bits + y * w->picture.stride;

        for (size_t i = 0; i < w->picture.stride; i++) {
            const unsigned n = w->nx - i * 64 < 64 ? (unsigned)(w->nx - i * 64) : 64;
            const uint64_t below = an_bits_below(px, (size_t)y * w->nx + i * 64, n, w->threshold);

            words[i] = cc_cell_bits(below, n, w->params->bright);
        }
        clear_outside(w, y);
    }
}

/* --- holes ----------------------------------------------------------------------------------- */

/* Returns the mask as a lab_picture whose components are the components of the background. The
 * background's connectivity is 4 if the cells' connectivity is 8, and vice versa. */
static lab_picture background_picture(const cc_worker *w)
{
    lab_picture p = w->picture;

    p.zeros = true;
    p.eight_connected = !w->params->eight_connected;
    return p;
}

/* Labels the components of the background, holes or not, within the band. */
static void background_band(cc_worker *w, size_t band, cc_scratch *s)
{
    const lab_picture p = background_picture(w);
    uint32_t y0, y1;

    cc_band_range(w, band, &y0, &y1);
    lab_label_band(&p, y0, y1, s->label);
}

/* Joins the components of the background across the seam before the band. */
static void background_seam(cc_worker *w, size_t band, cc_scratch *s)
{
    const lab_picture p = background_picture(w);
    uint32_t y0, y1;

    cc_band_range(w, band, &y0, &y1);
    lab_join_seam(&p, y0, s->label);
}

/* Joins all background that touches the picture's border into one component, and sets w->outside to
 * its root. */
static tc_status end_background_seams(cc_worker *w, tc_err *err)
{
    const lab_picture p = background_picture(w);
    uint32_t *const edges = w->scratch[0].edges;

    w->outside = -1;
    for (uint32_t y = 0; y < w->ny; y++) {
        const tc_status status = tc_call_poll(w->work->poll, err);
        const size_t runs = status == TC_OK ? lab_find_row_runs(&p, y, edges) : 0;

        if (status != TC_OK)
            return status;

        for (size_t k = 0; k < runs; k++) {
            const int32_t id = lab_row_starts(&p, y)[k];

            if (!cc_at_border(edges[2 * k], y, edges[2 * k + 1], y + 1, w->nx, w->ny))
                continue;
            if (w->outside < 0)
                w->outside = uf_find(p.ids, id);
            else
                uf_union_shared(p.ids, w->outside, id);
        }
    }
    if (w->outside >= 0)
        w->outside = uf_find(p.ids, w->outside);
    return TC_OK;
}

/* Sets bits [a, b) of a row of the mask, a < b. */
static void set_bits(uint64_t *words, uint32_t a, uint32_t b)
{
    for (uint32_t i = a / 64; i <= (b - 1) / 64; i++) {
        const uint64_t first_bits = i == a / 64 ? ~(uint64_t)0 << a % 64 : ~(uint64_t)0;
        const uint64_t last_bits =
            i == (b - 1) / 64 ? ~(uint64_t)0 >> (63 - (b - 1) % 64) : ~(uint64_t)0;

        words[i] |= first_bits & last_bits;
    }
}

/* Sets the bits of all background that is not connected with the border. */
static void fill_band(cc_worker *w, size_t band, cc_scratch *s)
{
    const lab_picture p = background_picture(w);
    uint32_t y0, y1;

    cc_band_range(w, band, &y0, &y1);
    for (uint32_t y = y0; y < y1; y++) {
        const size_t runs = lab_find_row_runs(&p, y, s->edges);

        for (size_t k = 0; k < runs; k++)
            if (uf_find_shared(p.ids, lab_row_starts(&p, y)[k]) != w->outside)
                set_bits(p.bits + y * p.stride, s->edges[2 * k], s->edges[2 * k + 1]);
        clear_outside(w, y);
    }
}

/* The phases: the function for a band, and the function after the last band. */
const cc_work cc_histogram = { histogram_band, end_histogram };
const cc_work cc_mask = { mask_band, NULL };
const cc_work cc_holes = { background_band, NULL };
const cc_work cc_hole_seams = { background_seam, end_background_seams };
const cc_work cc_fill = { fill_band, NULL };
