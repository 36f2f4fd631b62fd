/*
 * glcm: suggests parameters from sample pictures. With these parameters the analysis takes only
 * seconds, as it computes one matrix of the whole picture for each distance and direction. The
 * suggested range leaves out the darkest and the brightest thousandth of all pixels. It is the same
 * for all pictures, so that a difference in brightness between pictures is a difference in
 * features.
 */
#include <stdlib.h>

#include "app/analysis/glcm/glcm.h"
#include "app/analysis/suggest.h"

enum {
    BINS = 64,     /* greatest number of bars in the report's histogram */
    LEVELS = 32,   /* suggested number of levels; fewer if the range has fewer grey values */
    GREYS = 65536, /* possible grey values */
    CUT_OFF = 1000 /* 1 / CUT_OFF of the pixels are below the range, and 1 / CUT_OFF above it */
};

/* The least grey value v such that more than `skipped` pixels have values of at most v. */
static uint32_t grey_after(const uint64_t *histogram, uint64_t skipped)
{
    uint32_t v = 0;
    for (uint64_t sum = histogram[0]; sum <= skipped && v + 1 < GREYS; sum += histogram[v])
        v++;
    return v;
}

/* Adds the histogram of grey values lo to hi to the report's curves. */
static tc_status add_greys(an_suggestion *out, const uint64_t *histogram, uint32_t lo, uint32_t hi,
                           tc_err *err)
{
    const uint32_t bins = hi - lo + 1 < BINS ? hi - lo + 1 : BINS;
    const double width = (hi - lo + 1.0) / bins;
    an_curve *const curve = an_add_curve(out, "grey value", "pixels", bins);
    if (curve == NULL)
        return tc_no_memory(err, "a suggestion");
    for (uint32_t i = 0; i < bins; i++)
        curve->x[i] = lo + (i + 0.5) * width;
    for (uint32_t v = lo; v <= hi; v++)
        curve->y[(size_t)((v - lo) / width)] += (double)histogram[v];
    curve->bars = true;
    curve->mark = lo; /* the lower end of the range */
    snprintf(curve->title, sizeof curve->title,
             "Greys of the pictures within the range, from %u to %u", lo, hi);
    return TC_OK;
}

/* If `given` is a valid range [lo,hi], sets *lo and *hi to it, and *reason to the report's words
 * for why this range is suggested. */
static void take_range(const json_t *given, uint32_t *lo, uint32_t *hi, const char **reason)
{
    const json_t *const from = json_array_get(given, 0), *const to = json_array_get(given, 1);
    if (!json_is_integer(from) || !json_is_integer(to) || json_integer_value(from) < 0 ||
        json_integer_value(to) < json_integer_value(from) || json_integer_value(to) >= GREYS)
        return;
    *lo = (uint32_t)json_integer_value(from);
    *hi = (uint32_t)json_integer_value(to);
    *reason = "as given";
}

/* Suggests range and levels, explains them, and adds the histogram of grey values. */
static tc_status suggest_range(const an_pictures *pictures, const json_t *given, an_suggestion *out,
                               tc_err *err)
{
    uint64_t *const histogram = calloc(GREYS, sizeof *histogram), pixels = 0;
    if (histogram == NULL)
        return tc_no_memory(err, "a suggestion");
    for (size_t i = 0; i < pictures->n; i++) {
        const size_t n = (size_t)pictures->pixels[i].nx * pictures->pixels[i].ny;
        for (size_t k = 0; k < n; k++)
            histogram[wu_grey_value(&pictures->pixels[i], k)]++;
        pixels += n;
    }
    uint32_t lo = grey_after(histogram, pixels / CUT_OFF),
             hi = grey_after(histogram, pixels - 1 - pixels / CUT_OFF);
    const char *reason = "the greys of all but a thousandth of the pixels at either end";
    take_range(json_object_get(given, "range"), &lo, &hi, &reason);
    tc_status status = add_greys(out, histogram, lo, hi, err);
    free(histogram);
    return_if_error(status);
    return_if_error(
        an_suggest_value(out, given, "range", json_pack("[i,i]", (int)lo, (int)hi), err));
    if (json_object_get(given, "maps") == NULL)
        return_if_error(an_suggest_value(out, given, "levels",
                                         json_pack("[i]", hi - lo + 1 >= LEVELS ? LEVELS
                                                          : hi > lo             ? (int)(hi - lo + 1)
                                                                                : 2),
                                         err));
    snprintf(out->why, sizeof out->why,
             "range [%u,%u]: %s. One matrix for each distance and direction over the whole "
             "picture takes seconds; "
             "a window that slides, and preset hcc, take hundreds of times as long.",
             lo, hi, reason);
    return TC_OK;
}

tc_status glcm_suggest(const an_pictures *pictures, const json_t *given, an_suggestion *out,
                       tc_err *err)
{
    /* With a preset nothing is suggested; with maps only the range is, as maps have windows and
     * offsets of their own. */
    if (json_object_get(given, "preset") != NULL)
        return TC_OK;
    tc_status status = suggest_range(pictures, given, out, err);
    if (status != TC_OK || json_object_get(given, "maps") != NULL)
        return status;
    return_if_error(
        an_suggest_value(out, given, "window", json_pack("{s:s}", "shape", "roi"), err));
    return_if_error(an_suggest_value(out, given, "distances", json_pack("[i,i,i]", 1, 2, 4), err));
    return an_suggest_value(out, given, "directions", json_string("four"), err);
}
