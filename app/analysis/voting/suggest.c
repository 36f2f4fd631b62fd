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

#include "app/analysis/common/real.h"
#include "app/analysis/suggest.h"
#include "app/analysis/voting/voting.h"

static const double by_median = 5.0 / 4;

/* The areas of cellcount's regions in all pictures, ascending. *area: free, also after a
 * failure. */
static tc_status find_areas(const an_pictures *pictures, const an_analysis *count,
                            const json_t *parameters, int64_t **area, size_t *n, tc_err *err)
{
    tc_status status = TC_OK;
    *area = NULL;
    *n = 0;
    for (size_t i = 0; status == TC_OK && i < pictures->n; i++) {
        wu_output out;
        status = an_try(count, pictures, i, parameters, &out, err);
        if (status == TC_OK) {
            const size_t more = (size_t)wu_output_find(&out, "region_area")->info.shape[0];
            int64_t *const bigger = realloc(*area, (*n + more + 1) * sizeof *bigger);
            if (bigger == NULL) {
                status = tc_no_memory(err, "a suggestion");
            } else {
                memcpy(bigger + *n, wu_output_data(&out, "region_area"), more * sizeof *bigger);
                *area = bigger;
                *n += more;
            }
        }
        wu_output_free(&out);
    }
    if (status == TC_OK && *n > 0)
        qsort(*area, *n, sizeof **area, an_compare_areas);
    return status;
}

/* Pixels, as people say such numbers; 0: there is no region to go by. */
static double radius_of(const an_pictures *pictures, const int64_t *area, size_t n)
{
    double most = pictures->of_stacks ? VOTING_MAX_RADIUS_3D : VOTING_MAX_RADIUS_2D;
    if (n == 0)
        return 0;
    for (size_t i = 0; i < pictures->n; i++)
        most = fmin(most, fmin(pictures->items[i].nx, pictures->items[i].ny) / 4.0);
    const size_t middle = n / 2;
    const double radius = fmin(by_median * sqrt((double)area[middle] / TC_PI), most);
    return radius < 10 ? fmax(round(2 * radius) / 2, 1) : round(radius);
}

static tc_status add_radius(an_suggestion *out, const an_pictures *pictures, const json_t *given,
                            const int64_t *area, size_t n, tc_err *err)
{
    const double radius = radius_of(pictures, area, n);
    if (radius == 0)
        return tc_fail(err, TC_BAD_INPUT,
                       "suggest: nothing in the pictures looks like a cell: they tell no radius, "
                       "give --param radius=R");
    snprintf(
        out->why, sizeof out->why,
        "radius %g pixels: a quarter more than that of a disc of %lld pixels, the median of the "
        "%zu regions that cellcount finds in these pictures.",
        radius, (long long)area[n / 2], n);
    return an_suggest(out, given, "radius", json_real(radius * pictures->unit), err);
}

static bool is_dark(const json_t *parameters)
{
    const char *const polarity = json_string_value(json_object_get(parameters, "polarity"));
    return polarity != NULL && strcmp(polarity, "dark") == 0;
}

/* What cellcount takes, with its curves. */
static tc_status go_by_cells(const an_pictures *pictures, const json_t *given, an_suggestion *out,
                             tc_err *err)
{
    const an_analysis *const count = an_find("cellcount");
    an_suggestion cells = { .parameters = json_object() };
    json_t *const known = json_object(), *polarity = json_object_get(given, "polarity");
    int64_t *area = NULL;
    size_t n = 0;
    tc_status status = TC_OK;
    if (cells.parameters == NULL || known == NULL ||
        (polarity != NULL && json_object_set(known, "polarity", polarity) != 0))
        status = tc_no_memory(err, "a suggestion");
    if (status == TC_OK)
        status = count->suggest(pictures, known, &cells, err);
    if (status == TC_OK && json_object_update(known, cells.parameters) != 0)
        status = tc_no_memory(err, "a suggestion");
    if (status == TC_OK)
        status = an_suggest(out, given, "polarity", json_string(is_dark(known) ? "dark" : "bright"),
                            err);
    if (status == TC_OK && json_object_get(given, "radius") == NULL) {
        status = find_areas(pictures, count, known, &area, &n, err);
        if (status == TC_OK)
            status = add_radius(out, pictures, given, area, n, err);
        memcpy(out->doubt, cells.doubt, sizeof out->doubt);
        memcpy(out->curves, cells.curves, sizeof out->curves);
        out->n_curves = cells.n_curves;
        cells.n_curves = 0;
    }
    free(area);
    json_decref(known);
    an_suggestion_free(&cells);
    return status;
}

tc_status voting_suggest(const an_pictures *pictures, const json_t *given, an_suggestion *out,
                         tc_err *err)
{
    const tc_status status = go_by_cells(pictures, given, out, err);
    return status == TC_OK && !pictures->of_stacks
               ? an_suggest(out, given, "foreground", json_string("otsu"), err)
               : status;
}
