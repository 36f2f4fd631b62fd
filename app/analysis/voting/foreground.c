/*
 * voting: removes the points that are not on the foreground. The foreground is the pixels on the
 * cells' side of Otsu's threshold: above it if cells are bright, below it if they are dark. Voting
 * also finds points on the background, as gradients also meet between dense cells, and anywhere in
 * a background of noise.
 */
#include "app/analysis/common/otsu.h"
#include "app/analysis/voting/voting.h"

enum {
    REACH = 2 /* voting_is_foreground averages the pixels up to this distance from a point along x
                 and y */
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

tc_status voting_find_foreground(const an_work *work, voting_foreground *f, tc_err *err)
{
    *f = (voting_foreground){ .is_all = !((const voting_params *)work->params)->foreground };
    if (f->is_all)
        return TC_OK;
    return_if_error(voting_find_dark(work, &f->dark, err));
    return find_threshold(work, f->dark, &f->threshold, err);
}

bool voting_is_foreground(const wu_pixels *px, const voting_foreground *f, const double point[3])
{
    /* The coordinates are at least -1/2 (refine.c). */
    const uint32_t z = (uint32_t)(point[0] + 0.5), y = (uint32_t)(point[1] + 0.5),
                   x = (uint32_t)(point[2] + 0.5);
    const uint32_t y0 = y > REACH ? y - REACH : 0, x0 = x > REACH ? x - REACH : 0,
                   y1 = px->ny - y > REACH ? y + REACH + 1 : px->ny,
                   x1 = px->nx - x > REACH ? x + REACH + 1 : px->nx;
    uint64_t sum = 0;

    if (f->is_all)
        return true;
    for (uint32_t row = y0; row < y1; row++)
        for (uint32_t column = x0; column < x1; column++)
            sum += wu_grey_value(px, ((size_t)z * px->ny + row) * px->nx + column);
    return (sum >= (uint64_t)f->threshold * (y1 - y0) * (x1 - x0)) != f->dark;
}

void voting_keep_foreground(const wu_pixels *px, const voting_foreground *f, voting_peaks *p)
{
    size_t n = 0;

    for (size_t i = 0; i < p->n; i++)
        if (voting_is_foreground(px, f, p->list[i].point))
            p->list[n++] = p->list[i];
    p->n = n;
}
