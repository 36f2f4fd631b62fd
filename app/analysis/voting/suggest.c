/*
 * voting: the radius that cellcount's regions have, since these are about as large as cells even
 * where some touch: the radius of a disc as large as the median of them, and a quarter more, as the
 * radius is to be that of the larger cells and 0.8 to 1.4 times it does as well. Bright or dark is
 * what cellcount takes. In pictures, points must be on the foreground: where cells are dense
 * gradients also meet between them, and noise has centres anywhere.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/suggest.h"
#include "app/analysis/voting/voting.h"

/* Pixels, as people say such numbers. */
static double radius_of(const an_pictures *pictures, int64_t area, double by)
{
    double most = pictures->of_stacks ? VOTING_MAX_RADIUS_3D : VOTING_MAX_RADIUS_2D;
    for (size_t i = 0; i < pictures->n; i++)
        most = fmin(most, fmin(pictures->items[i].nx, pictures->items[i].ny) / 4.0);
    const double radius = fmin(by * voting_radius_of(area), most);
    return radius < 10 ? fmax(round(2 * radius) / 2, 1) : round(radius);
}

/* Of pictures whose cells differ in size the third quarter's: too large a radius does less harm
 * than one that is too small. */
static tc_status add_radius(an_suggestion *out, const an_pictures *pictures, const json_t *given,
                            const json_t *cells, tc_err *err)
{
    int64_t areas[AN_MAX_PICTURES];
    size_t with_cells = 0, regions = 0;
    tc_status status = TC_OK;
    for (size_t i = 0; status == TC_OK && i < pictures->n; i++) {
        status = voting_find_area(pictures, i, cells, &areas[with_cells], &regions, err);
        with_cells += areas[with_cells] > 0;
    }
    if (status != TC_OK)
        return status;
    if (with_cells == 0)
        return tc_fail(
            err, TC_BAD_INPUT,
            "nothing in the pictures looks like a cell, so there is no radius to suggest: "
            "give --param radius=R");
    qsort(areas, with_cells, sizeof *areas, an_compare_areas);
    const int64_t area = areas[(3 * (with_cells - 1) + 2) / 4], most = areas[with_cells - 1];
    const json_t *const own = json_object_get(given, "own_radius");
    const bool differ = !pictures->of_stacks &&
                        (own != NULL ? json_is_true(own) : (double)most > 1.3 * (double)areas[0]);
    const double radius = differ ? radius_of(pictures, most, 1.25) : radius_of(pictures, area, 1);
    if (differ)
        snprintf(out->why, sizeof out->why,
                 "own_radius: each picture's own radius, up to %g pixels; cells have %lld to %lld "
                 "pixels. It is a quarter more than that of a disc as large as the median of the "
                 "regions that cellcount finds in it (%zu in all).",
                 radius, (long long)areas[0], (long long)most, regions);
    else
        snprintf(
            out->why, sizeof out->why,
            "radius %g pixels: a quarter more than that of a disc of %lld pixels. So large are "
            "the regions that cellcount finds (%zu in all): the median in a picture, of "
            "several pictures the upper quartile of these.",
            radius, (long long)area, regions);
    if (differ)
        status = an_suggest(out, given, "own_radius", json_true(), err);
    return status == TC_OK
               ? an_suggest(out, given, "radius", json_real(radius * pictures->unit), err)
               : status;
}

static bool is_otsu(const json_t *given)
{
    const char *const foreground = json_string_value(json_object_get(given, "foreground"));
    return foreground == NULL || strcmp(foreground, "otsu") == 0;
}

/* What cellcount takes, with its curves. */
tc_status voting_suggest(const an_pictures *pictures, const json_t *given, an_suggestion *out,
                         tc_err *err)
{
    const an_analysis *const count = an_find("cellcount");
    TC_AUTO(an_suggestion_free) an_suggestion cells = { .parameters = json_object() };
    json_auto_t *known = json_object();
    json_t *const polarity = json_object_get(given, "polarity");
    if (cells.parameters == NULL || known == NULL ||
        (polarity != NULL && json_object_set(known, "polarity", polarity) != 0))
        return tc_no_memory(err, "a suggestion");
    return_if_error(count->suggest(pictures, known, &cells, err));
    if (json_object_update(known, cells.parameters) != 0)
        return tc_no_memory(err, "a suggestion");
    return_if_error(
        an_suggest(out, given, "polarity", json_incref(json_object_get(known, "polarity")), err));
    if (json_object_get(given, "radius") == NULL) {
        return_if_error(add_radius(out, pictures, given, known, err));
        memcpy(out->doubt, cells.doubt, sizeof out->doubt);
        memcpy(out->curves, cells.curves, sizeof out->curves);
        out->n_curves = cells.n_curves;
        cells.n_curves = 0;
    }
    if (pictures->of_stacks)
        return TC_OK;
    json_t *const classes = json_object_get(known, "classes");
    return_if_error(an_suggest(out, given, "foreground", json_string("otsu"), err));
    return classes != NULL && is_otsu(given)
               ? an_suggest(out, given, "classes", json_incref(classes), err)
               : TC_OK;
}
