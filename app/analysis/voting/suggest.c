/*
 * voting: suggests parameters from sample pictures. It uses the parameters that the analysis
 * cellcount suggests, and the regions that cellcount finds with them.
 *
 * radius: 1.25 times the radius of a disc with the median area of the regions, as `radius` should
 * be the radius of the larger cells; cells are also found with 0.8 to 1.4 times that radius. The
 * median region is about as large as a cell even if some cells touch.
 *
 * polarity: as cellcount suggests.
 *
 * foreground, only for images: "otsu", unless cells are pale in the middle, or the light is uneven
 * (cellcount suggests a background); then a larger `floor` is to exclude noise. The value "otsu"
 * removes points on the background, where voting also finds some: between dense cells and in noise.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/suggest.h"
#include "app/analysis/voting/voting.h"

/* The value of `floor` that is suggested for uneven light. */
static const double uneven_floor = 5;

/* Returns the radius to suggest for regions of this area, in pixels: `factor` times
 * voting_radius_of, at most a quarter of the smallest picture's shorter side. A radius below 10 is
 * rounded to a multiple of 0.5, others to an integer. */
static double radius_of(const an_pictures *pictures, int64_t area, double factor)
{
    double most = pictures->of_stacks ? VOTING_MAX_RADIUS_3D : VOTING_MAX_RADIUS_2D;
    for (size_t i = 0; i < pictures->n; i++)
        most = fmin(most, fmin(pictures->items[i].nx, pictures->items[i].ny) / 4.0);
    const double radius = fmin(factor * voting_radius_of(area), most);
    return radius < 10 ? fmax(round(2 * radius) / 2, 1) : round(radius);
}

/* Suggests the radius. Each picture has a median area of its regions. The radius is made from the
 * upper quartile of these areas, since too large a radius does less harm than one that is too
 * small. If the areas differ much, the parameter own_radius (a radius for each picture) is
 * suggested as well, and `radius`, then an upper limit, is made from the largest area. cells:
 * parameters for cellcount. */
static tc_status add_radius(an_suggestion *out, const an_pictures *pictures, const json_t *given,
                            const json_t *cells, tc_err *err)
{
    enum {
        MANY = 16,     /* least number of regions from which a spread of sizes is reported */
        MOST_RATIO = 8 /* if the upper quartile is more than this many times the lower one, this is
                          reported */
    };
    int64_t areas[AN_MAX_PICTURES];
    size_t with_cells = 0, regions = 0;
    tc_status status = TC_OK;
    for (size_t i = 0; status == TC_OK && i < pictures->n; i++) {
        const size_t before = regions;
        int64_t quartiles[3];
        status = voting_find_area(pictures, i, cells, quartiles, &regions, err);
        areas[with_cells] = quartiles[1];
        with_cells += quartiles[1] > 0;
        if (regions - before >= MANY && quartiles[2] / MOST_RATIO > quartiles[0])
            snprintf(out->doubt, sizeof out->doubt,
                     "cells that differ much in size: a quarter of those in %.60s have fewer than "
                     "%lld pixels, a quarter more than %lld. The analysis cellcount counts cells "
                     "of all sizes; voting finds cells of about one radius",
                     pictures->items[i].name, (long long)quartiles[0], (long long)quartiles[2]);
    }
    if (status != TC_OK)
        return status;
    if (with_cells == 0)
        return tc_fail(
            err, TC_BAD_INPUT,
            "nothing in the pictures looks like a cell, so there is no radius to suggest: "
            "give --param radius=R");
    qsort(areas, with_cells, sizeof *areas, an_compare_areas);
    /* area: the upper quartile, with its index rounded to the nearest one */
    const int64_t area = areas[(3 * (with_cells - 1) + 2) / 4], most = areas[with_cells - 1];
    const json_t *const own = json_object_get(given, "own_radius");
    const bool differ = !pictures->of_stacks &&
                        (own != NULL ? json_is_true(own) : (double)most > 1.3 * (double)areas[0]);
    /* voting_radius_of includes the factor 1.25; an upper limit gets this factor twice, as a
     * margin. */
    const double radius = differ ? radius_of(pictures, most, 1.25) : radius_of(pictures, area, 1);
    if (differ)
        snprintf(out->why, sizeof out->why,
                 "own_radius: each picture gets its own radius, at most %g pixels: 1.25 times that "
                 "of a disc with the median area of the regions that cellcount finds in the "
                 "picture. The medians are %lld to %lld pixels, of %zu regions in all.",
                 radius, (long long)areas[0], (long long)most, regions);
    else
        snprintf(
            out->why, sizeof out->why,
            "radius %g pixels: 1.25 times that of a disc of %lld pixels, which is the median area "
            "of the regions that cellcount finds (%zu in all); with several pictures, the upper "
            "quartile of their medians.",
            radius, (long long)area, regions);
    if (differ)
        status = an_suggest_value(out, given, "own_radius", json_true(), err);
    return status == TC_OK
               ? an_suggest_value(out, given, "radius", json_real(radius * pictures->unit), err)
               : status;
}

/* Counts the regions that cellcount, with parameters `cells`, finds in picture i: adds their number
 * to *all, and the number of those whose centroid is on the foreground to *on. params:
 * voting_params. */
static tc_status count_centres(const an_pictures *pictures, size_t i, const json_t *cells,
                               const void *params, size_t *on, size_t *all, tc_err *err)
{
    const an_work work = { .params = params,
                           .item = &pictures->items[i],
                           .pixels = &pictures->pixels[i],
                           .threads = pictures->threads,
                           .poll = pictures->poll };
    TC_AUTO(wu_output_free) wu_output out = { .n = 0 };
    return_if_error(
        an_try_parameters(an_find_analysis("cellcount"), pictures, i, cells, &out, err));
    const wu_out_array *const centroids = wu_output_find(&out, "region_centroid");
    const double *const at = centroids->data;
    const size_t n = (size_t)centroids->info.shape[0];
    voting_foreground foreground;
    return_if_error(voting_find_foreground(&work, &foreground, err));
    for (size_t k = 0; k < n; k++)
        *on += voting_is_foreground(work.pixels, &foreground,
                                    (const double[]){ 0, at[2 * k], at[2 * k + 1] });
    *all += n;
    return TC_OK;
}

/* Sets *suits to whether foreground "otsu" suits the pictures and is to be suggested. At least
 * three quarters of the regions must have their centroid on the foreground; rings and cells with a
 * pale middle have not. parameters: the given and the suggested parameters for voting; cells: the
 * parameters for cellcount. */
static tc_status find_foreground(const an_pictures *pictures, const json_t *parameters,
                                 const json_t *cells, bool *suits, tc_err *err)
{
    size_t on = 0, all = 0;
    void *params = NULL;
    json_auto_t *with_otsu = json_deep_copy(parameters);
    if (with_otsu == NULL || json_object_set_new(with_otsu, "foreground", json_string("otsu")) != 0)
        return tc_no_memory(err, "a suggestion");
    tc_status status =
        an_parse_params(an_find_analysis("voting"), with_otsu, "parameters", &params, err);
    for (size_t i = 0; status == TC_OK && i < pictures->n; i++)
        status = count_centres(pictures, i, cells, params, &on, &all, err);
    an_params_free(an_find_analysis("voting"), &params);
    *suits = 4 * on >= 3 * all;
    return status;
}

/* Whether the given parameters allow foreground "otsu": foreground is "otsu" or not given. */
static bool allows_otsu(const json_t *given)
{
    const char *const foreground = json_string_value(json_object_get(given, "foreground"));
    return foreground == NULL || strcmp(foreground, "otsu") == 0;
}

tc_status voting_suggest(const an_pictures *pictures, const json_t *given, an_suggestion *out,
                         tc_err *err)
{
    const an_analysis *const count = an_find_analysis("cellcount");
    TC_AUTO(an_suggestion_free) an_suggestion for_cellcount = { .parameters = json_object() };
    json_auto_t *known = json_object(); /* parameters for cellcount: given, then suggested ones */
    json_t *const polarity = json_object_get(given, "polarity");
    if (for_cellcount.parameters == NULL || known == NULL ||
        (polarity != NULL && json_object_set(known, "polarity", polarity) != 0))
        return tc_no_memory(err, "a suggestion");
    return_if_error(count->suggest(pictures, known, &for_cellcount, err));
    if (json_object_update(known, for_cellcount.parameters) != 0)
        return tc_no_memory(err, "a suggestion");
    return_if_error(an_suggest_value(out, given, "polarity",
                                     json_incref(json_object_get(known, "polarity")), err));
    if (json_object_get(given, "radius") == NULL) {
        return_if_error(add_radius(out, pictures, given, known, err));
        if (for_cellcount.doubt[0] != '\0')
            memcpy(out->doubt, for_cellcount.doubt, sizeof out->doubt);
        out->each_doubt = for_cellcount.each_doubt;
        memcpy(out->curves, for_cellcount.curves, sizeof out->curves);
        out->n_curves = for_cellcount.n_curves;
        for_cellcount.n_curves = 0; /* the curves now belong to `out` */
    }
    if (json_object_get(known, "background") != NULL && !pictures->of_stacks) {
        out->each_doubt = "the light is uneven, which voting does not even out: points may lie in "
                          "the background; to compare: --analysis cellcount";
        snprintf(out->doubt, sizeof out->doubt, "%s", out->each_doubt);
        return an_suggest_value(out, given, "floor", json_real(uneven_floor), err);
    }
    if (pictures->of_stacks)
        return TC_OK;
    json_t *const classes = json_object_get(known, "classes");
    json_auto_t *parameters = json_deep_copy(given);
    bool suits = true;
    if (parameters == NULL || json_object_update(parameters, out->parameters) != 0 ||
        (classes != NULL && json_object_set(parameters, "classes", classes) != 0))
        return tc_no_memory(err, "a suggestion");
    if (json_object_get(given, "foreground") == NULL)
        return_if_error(find_foreground(pictures, parameters, known, &suits, err));
    if (suits)
        return_if_error(an_suggest_value(out, given, "foreground", json_string("otsu"), err));
    return classes != NULL && suits && allows_otsu(given)
               ? an_suggest_value(out, given, "classes", json_incref(classes), err)
               : TC_OK;
}
