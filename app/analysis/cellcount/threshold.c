/*
 * cellcount: what is left to the picture. The threshold comes from the histogram of the prepared
 * grey values, on the host whatever computes the rest; the polarity from that of the picture as it
 * came.
 */
#include <stdlib.h>

#include "app/analysis/cellcount/cellcount.h"

typedef unsigned __int128 u128;

bool cc_finds_threshold(const cc_params *p)
{
    return p->threshold_word == CC_OTSU || (p->threshold_word == CC_LOCAL && p->offset_percent > 0);
}

/* offset_percent of the difference of the means of Otsu's two classes, to the nearest integer, at
 * least 1. */
static uint32_t find_offset(const uint64_t *histogram, uint32_t size, int32_t percent)
{
    const uint32_t otsu = an_otsu(histogram, size);
    uint64_t n[2] = { 0, 0 }, sum[2] = { 0, 0 };
    u128 share, by, offset;

    for (uint32_t v = 0; v < size; v++) {
        n[v >= otsu] += histogram[v];
        sum[v >= otsu] += v * histogram[v];
    }
    if (n[0] == 0 || n[1] == 0)
        return 1;
    share = (u128)(uint32_t)percent * ((u128)sum[1] * n[0] - (u128)sum[0] * n[1]);
    by = (u128)100 * n[0] * n[1];
    offset = (2 * share + by) / (2 * by);
    return offset < 1 ? 1 : offset < size / 2 ? (uint32_t)offset : size / 2 - 1;
}

tc_status cc_find_threshold(const cc_params *p, const uint64_t *histogram, unsigned bits,
                            uint32_t *threshold, tc_err *err)
{
    const uint32_t size = (uint32_t)1 << bits, middle = cc_middle(bits);

    if (p->threshold_word != CC_LOCAL)
        return an_otsu_classes(histogram, size, (an_otsu_scale)p->scale, (unsigned)p->classes,
                               p->bright, threshold, err);
    const uint32_t offset = find_offset(histogram, size, p->offset_percent);
    *threshold = p->bright ? middle + offset : middle - offset;
    return TC_OK;
}

/* Cells are the smaller one of Otsu's two classes. */
static tc_status find_polarity(const an_work *work, bool *bright, tc_err *err)
{
    const wu_pixels *const px = work->pixels;
    const size_t n = (size_t)px->nx * px->ny;
    const uint32_t size = (uint32_t)1 << px->bits;
    uint64_t *const histogram = calloc(size, sizeof *histogram);
    tc_status status = histogram == NULL ? tc_no_memory(err, "the grey values") : TC_OK;

    for (size_t i = 0; status == TC_OK && i < n; status = tc_ask(work->poll, err)) {
        const size_t end = tc_block_end(i, n);

        an_histogram(px, i, end, histogram);
        i = end;
    }
    if (status == TC_OK) {
        const uint32_t otsu = an_otsu(histogram, size);
        uint64_t below = 0;

        for (uint32_t v = 0; v < otsu; v++)
            below += histogram[v];
        *bright = 2 * below > n;
    }
    free(histogram);
    return status;
}

tc_status cc_resolve(const an_work *work, cc_params *out, tc_err *err)
{
    *out = *(const cc_params *)work->params;
    return out->polarity == CC_AUTO ? find_polarity(work, &out->bright, err) : TC_OK;
}
