/*
 * volume: suggests parameters. The method is a watershed, since real walls are dim and have gaps,
 * through which method threshold would connect cells with the outside. The contrast between walls
 * and cells is taken to be the difference between the 90% and the 25% quantiles of the grey values;
 * h is a tenth of it. `smooth` depends on the noise, which is estimated from the output of a filter
 * that removes smooth structures (J. Immerkaer, Fast noise variance estimation, 1996).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/common/otsu.h"
#include "app/analysis/common/real.h"
#include "app/analysis/suggest.h"
#include "app/analysis/volume/volume.h"

/* The number of possible grey values. */
enum { GREYS = 65536 };
/* The suggested h as a share of the contrast. */
static const double h_share = 0.1;
/* Noise whose standard deviation is at least this share of the contrast is strong. */
static const double noisy = 0.15;
/* The suggested sigma, in voxels: smooth_quiet for weak noise, smooth_noisy for strong noise. */
static const double smooth_quiet = 1.5, smooth_noisy = 2;

/* Estimates the standard deviation of Gaussian noise, in grey values, from the mean absolute output
 * of the filter over the first slice. If each pixel has noise of standard deviation s, the filter's
 * output has 6 s, 6 being the root of the sum of its squared weights; the mean of its absolute
 * value is sqrt(2 / pi) times as large. */
static double noise_of(const wu_pixels *p)
{
    double sum = 0;
    if (p->nx < 3 || p->ny < 3)
        return 0;
    for (size_t y = 1; y + 1 < p->ny; y++)
        for (size_t x = 1; x + 1 < p->nx; x++) {
            int64_t v = 0;
            for (size_t k = 0; k < 9; k++) {
                static const int64_t filter[9] = { 1, -2, 1, -2, 4, -2, 1, -2, 1 };
                v += filter[k] * wu_grey_value(p, (y - 1 + k / 3) * p->nx + x - 1 + k % 3);
            }
            sum += (double)(v < 0 ? -v : v);
        }
    return sqrt(TC_PI / 2) / 6 * sum / ((double)(p->nx - 2) * (double)(p->ny - 2));
}

/* The quantile of the first slice's grey values: this share of the voxels, 0 to 1, is at or below
 * it. */
static uint32_t quantile(const wu_pixels *p, const uint64_t *histogram, double share)
{
    const double wanted = share * p->nx * p->ny;
    uint32_t v = 0;
    for (uint64_t sum = histogram[0]; (double)sum <= wanted && v + 1 < GREYS; sum += histogram[v])
        v++;
    return v;
}

/* Adds to *contrast the number of grey values by which walls are brighter than cells. */
static tc_status measure_contrast(const wu_pixels *p, double *contrast, tc_err *err)
{
    uint64_t *const histogram = calloc(GREYS, sizeof *histogram);
    if (histogram == NULL)
        return tc_no_memory(err, "a suggestion");
    an_histogram_add(p, 0, (size_t)p->nx * p->ny, histogram);
    *contrast += quantile(p, histogram, 0.9) - (double)quantile(p, histogram, 0.25);
    free(histogram);
    return TC_OK;
}

/* Rounds to two significant digits, and below 10 to tenths. */
static double round_off(double value)
{
    double unit = 1;
    while (value >= 100 * unit)
        unit *= 10;
    return value >= 10 ? round(value / unit) * unit : round(value * 10) / 10;
}

/* Sets the suggestion's doubt if bright objects lie apart in the slices, as nuclei do, instead of
 * surrounding dark cells: this is assumed if the suggestion for cellcount has polarity bright. */
static tc_status report_nuclei(const an_pictures *pictures, an_suggestion *out, tc_err *err)
{
    TC_AUTO(an_suggestion_free) an_suggestion cells = { .parameters = json_object() };
    json_auto_t *no_parameters = json_object();
    if (cells.parameters == NULL || no_parameters == NULL)
        return tc_no_memory(err, "a suggestion");
    return_if_error(an_find_analysis("cellcount")->suggest(pictures, no_parameters, &cells, err));
    const char *const polarity = json_string_value(json_object_get(cells.parameters, "polarity"));
    if (polarity != NULL && strcmp(polarity, "bright") == 0)
        snprintf(
            out->doubt, sizeof out->doubt,
            "here bright objects are separate from each other, as nuclei are, but volume looks "
            "for cells that bright walls surround: voting counts nuclei, and objects measures "
            "label pictures");
    return TC_OK;
}

/* Adds to *n the number of cells in slice i, analysed with these parameters but with `factor` times
 * their h. */
static tc_status count_cells(const an_pictures *slices, size_t i, const json_t *parameters,
                             double factor, size_t *n, tc_err *err)
{
    const double h = json_number_value(json_object_get(parameters, "h"));
    json_auto_t *changed = json_deep_copy(parameters);
    TC_AUTO(wu_output_free) wu_output out = { .n = 0 };
    if (changed == NULL ||
        json_object_set_new(changed, "h", json_real(fmin(factor * h, UINT16_MAX))) != 0)
        return tc_no_memory(err, "a suggestion");
    return_if_error(an_try_parameters(an_find_analysis("volume"), slices, i, changed, &out, err));
    *n += (size_t)wu_output_find(&out, "cell_label")->info.shape[0];
    return TC_OK;
}

/* Sets the suggestion's doubt if the number of cells depends much on h: if the number with half of
 * h exceeds the number with twice h by more than a third of the number with h. */
static tc_status report_instability(const an_pictures *pictures, const json_t *given,
                                    an_suggestion *out, tc_err *err)
{
    an_pictures slices = *pictures;
    size_t n[3] = { 0 }; /* numbers of cells with h times 1/2, 1 and 2 */
    json_auto_t *parameters = json_deep_copy(given);
    if (parameters == NULL || json_object_update(parameters, out->parameters) != 0)
        return tc_no_memory(err, "a suggestion");
    for (size_t i = 0; i < slices.n; i++) {
        slices.items[i].is_stack = true;
        for (int k = 0; k < 3; k++)
            return_if_error(count_cells(&slices, i, parameters, ldexp(1, k - 1), &n[k], err));
    }
    if (3 * n[0] > 3 * n[2] + n[1])
        snprintf(out->doubt, sizeof out->doubt,
                 "the number of cells depends on h: a slice has %zu with half of it, %zu, and %zu "
                 "with twice as much (--sweep h=A,B shows which suits)",
                 n[0], n[1], n[2]);
    return TC_OK;
}

tc_status vol_suggest(const an_pictures *pictures, const json_t *given, an_suggestion *out,
                      tc_err *err)
{
    const char *const method = json_string_value(json_object_get(given, "method"));
    double contrast = 0, noise = 0;
    tc_status status = TC_OK;
    if ((method != NULL && strcmp(method, "watershed") != 0) ||
        json_is_object(json_object_get(given, "repair")))
        return TC_OK;
    for (size_t i = 0; status == TC_OK && i < pictures->n; i++) {
        status = measure_contrast(&pictures->pixels[i], &contrast, err);
        noise += noise_of(&pictures->pixels[i]) / (double)pictures->n;
    }
    contrast /= (double)pictures->n;
    const double h = contrast > 1 ? round_off(h_share * contrast) : 1,
                 smooth = noise < noisy * contrast ? smooth_quiet : smooth_noisy;
    return_if_error(status);
    return_if_error(an_suggest_value(out, given, "method", json_string("watershed"), err));
    return_if_error(an_suggest_value(out, given, "smooth", json_real(smooth), err));
    return_if_error(an_suggest_value(out, given, "h", json_real(h), err));
    return_if_error(an_suggest_value(out, given, "fill", json_true(), err));
    snprintf(
        out->why, sizeof out->why,
        "A watershed, since real walls are dim and have gaps. Walls are brighter than cells by "
        "about %.3g grey values here%s. The noise is %.2g grey values, %s compared with the "
        "walls%s. With fill, sizes include walls, and what lies around the tissue is cells, too.",
        contrast, json_object_get(given, "h") == NULL ? "; h is a tenth of that" : "", noise,
        smooth > smooth_quiet ? "much" : "little",
        json_object_get(given, "smooth") == NULL ? ", which smooth is chosen by" : "");
    return_if_error(report_instability(pictures, given, out, err));
    return report_nuclei(pictures, out, err);
}
