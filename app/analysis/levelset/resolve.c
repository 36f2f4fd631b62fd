/*
 * levelset: computes the parameters that depend on the picture's Otsu threshold. The threshold
 * divides the pixels into a bright and a dark class; the parameter `polarity` selects one of them.
 * With target "otsu" the interface grows over the pixels of the selected class. The data term at
 * the mean of this class is always the parameter `epsilon`, whatever the picture's exposure. With a
 * start of type "otsu" the pixels of the selected class are inside at first.
 */
#include <stdlib.h>

#include "app/analysis/common/otsu.h"
#include "app/analysis/levelset/levelset.h"

const char ls_flat_message[] =
    "all pixels are of one grey value: Otsu's threshold, which parameters.target "
    "or init asks for, has nothing to separate";

/* Adds the item's pixels to the histogram. */
static tc_status make_histogram(const an_work *work, uint64_t *histogram, tc_err *err)
{
    const wu_pixels *const px = work->pixels;
    const size_t n = (size_t)px->nx * px->ny * px->nz;
    tc_status status = TC_OK;

    for (size_t i = 0, end; status == TC_OK && i < n;
         i = end, status = tc_call_poll(work->poll, err)) {
        end = tc_block_end(i, n);
        an_histogram_add(px, i, end, histogram);
    }
    return status;
}

/* Sets target to the mean of the class that `polarity` selects, and epsilon to the distance of this
 * mean from the boundary of the classes, which lies between the threshold and the next lower grey
 * value. Sets gain so that the data term at the mean, gain * epsilon, is the given epsilon. There
 * must be pixels in both classes. size: the number of elements of the histogram. */
static void resolve_target(const uint64_t *histogram, uint32_t size, ls_params *p)
{
    uint64_t n = 0, sum = 0;

    for (uint32_t v = p->dark ? 0 : p->threshold; v < (p->dark ? p->threshold : size); v++) {
        n += histogram[v];
        sum += v * histogram[v];
    }
    const double mean = (double)sum / (double)n, boundary = p->threshold - 0.5,
                 distance = p->dark ? boundary - mean : mean - boundary;

    p->gain = p->epsilon / distance;
    p->epsilon = distance;
    p->target = mean;
}

tc_status ls_resolve(const an_work *work, ls_params *out, tc_err *err)
{
    const uint32_t size = (uint32_t)1 << work->pixels->bits;
    uint64_t *histogram, below = 0;
    tc_status status;

    *out = *(const ls_params *)work->params;
    if (out->resolved || !(out->otsu || out->init == LS_INIT_OTSU))
        return TC_OK;
    out->resolved = true;
    histogram = calloc(size, sizeof *histogram);
    status = histogram == NULL ? tc_no_memory(err, "the grey values")
                               : make_histogram(work, histogram, err);
    if (status == TC_OK) {
        out->threshold = an_otsu_threshold(histogram, size);
        for (uint32_t v = 0; v < out->threshold && v < size; v++)
            below += histogram[v];
        if (below == 0 || below == (uint64_t)work->pixels->nx * work->pixels->ny * work->pixels->nz)
            status = tc_fail(err, TC_BAD_INPUT, "%s: %s", work->item->name, ls_flat_message);
        else if (out->otsu)
            resolve_target(histogram, size, out);
    }
    free(histogram);
    return status;
}
