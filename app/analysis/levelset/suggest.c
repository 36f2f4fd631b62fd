/*
 * levelset: suggests parameters that contain neither coordinates nor grey values. The outline
 * starts at Otsu's threshold of each picture. The structure is taken to be on the side of the
 * threshold that is not the background in most of the pictures. So the iterations only smooth the
 * outline and close gaps.
 */
#include "app/analysis/levelset/levelset.h"
#include "app/analysis/common/otsu.h"
#include "app/analysis/suggest.h"

/* Adds 1 to *bright if the structure is bright, otherwise subtracts 1. The side of the picture's
 * Otsu threshold that has nine tenths of the pixels at the picture's border, or else the side that
 * has more pixels, is taken for the background. */
static tc_status count_bright(const wu_pixels *p, int *bright, tc_err *err)
{
    const size_t n = (size_t)p->nx * p->ny;
    size_t above = 0;                     /* pixels that reach the threshold */
    size_t at_border = 0, above_here = 0; /* pixels at the border, and those that reach it there */
    uint32_t threshold = 0;
    const tc_status status = an_otsu_of_pixels(p, &threshold, err);
    for (size_t i = 0; status == TC_OK && i < n; i++) {
        const size_t y = i / p->nx, x = i % p->nx;
        const bool reaches = wu_grey_value(p, i) >= threshold,
                   border = y == 0 || x == 0 || y + 1 == p->ny || x + 1 == p->nx;
        above += reaches;
        at_border += border;
        above_here += border && reaches;
    }
    const bool dark_border = 10 * above_here <= at_border,
               bright_border = 10 * above_here >= 9 * at_border;
    *bright += dark_border || (!bright_border && 2 * above <= n) ? 1 : -1;
    return status;
}

tc_status ls_suggest(const an_pictures *pictures, const json_t *given, an_suggestion *out,
                     tc_err *err)
{
    const char *const polarity = json_string_value(json_object_get(given, "polarity"));
    const an_pictures *const all = pictures->whole != NULL ? pictures->whole : pictures;
    int bright = 0;
    /* If the user gives a numeric target, nothing is suggested: the start, which the target does
     * not determine, must be given, too. */
    if (json_is_number(json_object_get(given, "target")))
        return TC_OK;
    for (size_t i = 0; i < all->n; i++)
        return_if_error(count_bright(&all->pixels[i], &bright, err));
    return_if_error(an_suggest_value(out, given, "target", json_string("otsu"), err));
    return_if_error(an_suggest_value(out, given, "polarity",
                                     json_string(bright >= 0 ? "bright" : "dark"), err));
    return_if_error(an_suggest_value(out, given, "epsilon", json_real(50), err));
    return_if_error(an_suggest_value(out, given, "alpha", json_real(0.05), err));
    return_if_error(an_suggest_value(out, given, "iterations", json_integer(200), err));
    return_if_error(an_suggest_value(out, given, "stop_after", json_integer(20), err));
    /* Each re-initialisation moves phi a little, after which the outline oscillates for some tens
     * of iterations. With the default of 50 iterations from one re-initialisation to the next,
     * stop_after is never reached; with 10 the outline comes to rest. In stacks it does not come to
     * rest, and re-initialisations take a larger share of the time. */
    if (!pictures->of_stacks)
        return_if_error(an_suggest_value(out, given, "reinit_every", json_integer(10), err));
    return_if_error(an_suggest_value(out, given, "init", json_pack("{s:s}", "type", "otsu"), err));
    snprintf(out->why, sizeof out->why,
             "The outline starts at Otsu's threshold of each picture and seeks what is %s than "
             "that, %s. A smaller alpha makes it smoother, a larger one keeps details.",
             polarity != NULL ? polarity[0] == 'b' ? "brighter" : "darker"
             : bright >= 0    ? "brighter"
                              : "darker",
             polarity != NULL ? "as given" : "what is not the background");
    return TC_OK;
}
