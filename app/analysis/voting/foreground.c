/*
 * voting: removes the points that are not on the foreground. The foreground is the pixels on the
 * cells' side of Otsu's threshold: above it if cells are bright, below it if they are dark. Voting
 * also finds points on the background, as gradients also meet between dense cells, and anywhere in
 * a background of noise.
 */
#include "app/analysis/common/otsu.h"
#include "app/analysis/voting/voting.h"

enum {
    REACH = 2 /* is_cell averages the pixels up to this distance from a point along x and y */
};

/* Sets *threshold to Otsu's threshold of the item's pixels. dark: cells are dark. */
static tc_status find_threshold(const an_work *work, bool dark, uint32_t *threshold, tc_err *err)
{
    const wu_pixels *const px = work->pixels;
    const voting_params *const p = work->params;
    TC_AUTOFREE uint64_t *histogram = NULL;
    return_if_error(an_histogram_of(px, work->poll, &histogram, err));

    return an_otsu_classes(histogram, (uint32_t)1 << px->bits, AN_OTSU_LINEAR, (unsigned)p->classes,
                           !dark, threshold, err);
}

tc_status voting_find_dark(const an_work *work, bool *dark, tc_err *err)
{
    const voting_params *const p = work->params;
    bool bright = p->polarity == VOTING_BRIGHT;
    const tc_status status = p->polarity == VOTING_AUTO
                                 ? an_find_polarity(work->pixels, work->poll, &bright, err)
                                 : TC_OK;

    *dark = !bright;
    return status;
}

/* Whether the mean of the pixels around pixel (z, y, x), in its slice, is on the cells' side of the
 * threshold. */
static bool is_cell(const wu_pixels *px, uint32_t z, uint32_t y, uint32_t x, uint32_t threshold,
                    bool dark)
{
    const uint32_t y0 = y > REACH ? y - REACH : 0, x0 = x > REACH ? x - REACH : 0,
                   y1 = px->ny - y > REACH ? y + REACH + 1 : px->ny,
                   x1 = px->nx - x > REACH ? x + REACH + 1 : px->nx;
    uint64_t sum = 0;

    for (uint32_t row = y0; row < y1; row++)
        for (uint32_t column = x0; column < x1; column++)
            sum += wu_grey_value(px, ((size_t)z * px->ny + row) * px->nx + column);
    return (sum >= (uint64_t)threshold * (y1 - y0) * (x1 - x0)) != dark;
}

tc_status voting_keep_foreground(const an_work *work, voting_peaks *p, tc_err *err)
{
    const voting_params *const params = work->params;
    uint32_t threshold = 0;
    bool dark = false;
    size_t n_kept = 0;

    if (!params->foreground)
        return TC_OK;
    return_if_error(voting_find_dark(work, &dark, err));
    return_if_error(find_threshold(work, dark, &threshold, err));
    for (size_t i = 0; i < p->n; i++) {
        const double *const point = p->list[i].point; /* at least -1/2 (refine.c) */

        if (is_cell(work->pixels, (uint32_t)(point[0] + 0.5), (uint32_t)(point[1] + 0.5),
                    (uint32_t)(point[2] + 0.5), threshold, dark))
            p->list[n_kept++] = p->list[i];
    }
    p->n = n_kept;
    return TC_OK;
}
