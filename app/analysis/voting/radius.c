/*
 * voting: finds the radius of the cells of a picture (the parameter own_radius) from the areas of
 * the regions that the analysis cellcount finds in the picture's middle. The median region is about
 * as large as a cell, even if some cells touch.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/common/real.h"
#include "app/analysis/suggest.h"
#include "app/analysis/voting/voting.h"

tc_status voting_find_area(const an_pictures *pictures, size_t i, const json_t *parameters,
                           int64_t area[3], size_t *n, tc_err *err)
{
    wu_output out;
    tc_status status =
        an_try_parameters(an_find_analysis("cellcount"), pictures, i, parameters, &out, err);

    area[0] = area[1] = area[2] = 0;
    if (status == TC_OK) {
        const wu_out_array *const areas = wu_output_find(&out, "region_area");
        const size_t regions = (size_t)areas->info.shape[0];
        int64_t *const sorted = malloc((regions + 1) * sizeof *sorted);

        if (sorted == NULL)
            status = tc_no_memory(err, "the areas of cells");
        else if (regions > 0) {
            memcpy(sorted, areas->data, regions * sizeof *sorted);
            qsort(sorted, regions, sizeof *sorted, an_compare_areas);
            for (size_t q = 0; q < 3; q++)
                area[q] = sorted[regions * (q + 1) / 4]; /* the quartiles */
            *n += regions;
        }
        free(sorted);
    }
    wu_output_free(&out);
    return status;
}

/* A disc's radius is sqrt(area / pi); 5/4 of it is a margin for larger cells. */
double voting_radius_of(int64_t area)
{
    return 5.0 / 4 * sqrt((double)area / TC_PI);
}

/* A quarter of the given radius, but at least one pixel. */
double voting_least_radius(const voting_params *p)
{
    return p->radius > 4 ? p->radius / 4 : 1;
}

tc_status voting_find_radius(const an_work *work, double *radius, tc_err *err)
{
    const voting_params *const p = work->params;
    an_pictures pictures = { .n = 1, .unit = 1, .threads = work->threads, .poll = work->poll };
    const double least = voting_least_radius(p);
    json_t *parameters = NULL;
    int64_t area[3] = { 0 };
    size_t n = 0;
    bool dark;
    tc_status status = voting_find_dark(work, &dark, err);

    if (status == TC_OK)
        status = an_copy_middle(work->pixels, &pictures.pixels[0], err);
    pictures.items[0] = (wu_item){ .name = work->item->name,
                                   .nx = pictures.pixels[0].nx,
                                   .ny = pictures.pixels[0].ny,
                                   .nz = 1,
                                   .n_images = 1,
                                   .bits = work->item->bits,
                                   .channels = 1,
                                   .spacing = { 1, 1, 1 } };
    if (status == TC_OK) {
        parameters = json_pack("{s:i, s:b, s:s, s:s, s:s, s:{s:s}}", "smooth", 1, "fill_holes", 1,
                               "split", "distance", "polarity", dark ? "dark" : "bright",
                               "min_area", "auto", "min_contrast", "full_area", "auto");
        json_t *const threshold = p->classes > 2
                                      ? json_pack("{s:i}", "classes", (int)p->classes)
                                      : json_pack("{s:s, s:s, s:i}", "threshold", "local", "window",
                                                  "auto", "offset_percent", 20);
        if (parameters == NULL || json_object_update(parameters, threshold) != 0)
            status = tc_no_memory(err, "the radius");
        json_decref(threshold);
    }
    if (status == TC_OK)
        status = voting_find_area(&pictures, 0, parameters, area, &n, err);
    *radius = area[1] > 0 ? voting_radius_of(area[1]) : p->radius;
    *radius = *radius < least ? least : *radius < p->radius ? *radius : p->radius;
    json_decref(parameters);
    wu_pixels_free(&pictures.pixels[0]);
    return status;
}
