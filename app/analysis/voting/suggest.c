/*
 * voting: the radius whose scores are sharpest.
 *
 * Where the radius suits, peaks are either cells, with many votes, or chance, with few. How sharply
 * the scores fall into two classes is Otsu's measure: of the roots of the scores of all peaks, the
 * share of the variance that lies between the classes, for the best cut. It rises steeply up to the
 * radius of the larger cells and is flat behind it, until the balls of neighbours meet; so the
 * least radius whose sharpness is within 0.02 of the greatest is taken. Radii go up by a quarter,
 * to an eighth of the shorter side.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/suggest.h"
#include "app/analysis/voting/voting.h"

static const double radii[] = { 3, 4, 5, 6, 8, 10, 12, 15, 19, 24, 30, 38, 48, 60, 76, 95, 119 };
enum { RADII = sizeof radii / sizeof radii[0], LEAST_PEAKS = 8 };
static const double least_loss = 0.02;

/* score: largest first. */
static double sharpness_of(const int64_t *score, size_t n)
{
    double sum = 0, squares = 0, above = 0, best = 0;
    for (size_t i = 0; i < n; i++) {
        sum += sqrt((double)score[i]);
        squares += (double)score[i];
    }
    const double spread = squares - sum * sum / (double)n;
    for (size_t k = 1; k < n; k++) {
        above += sqrt((double)score[k - 1]);
        const double difference = above / (double)k - (sum - above) / (double)(n - k);
        best = fmax(best, (double)k * (double)(n - k) / (double)n * difference * difference);
    }
    return n >= LEAST_PEAKS && spread > 0 ? best / spread : 0;
}

/* Sums up sharpness by radius over the pictures; *n: radii that suit all of them. */
static tc_status measure(const an_pictures *pictures, json_t *parameters, double *sharp, size_t *n,
                         tc_err *err)
{
    const double most = pictures->of_stacks ? VOTING_MAX_RADIUS_3D : VOTING_MAX_RADIUS_2D;
    for (*n = 0; *n < RADII && radii[*n] <= most; ++*n) {
        bool fits = true;
        for (size_t i = 0; i < pictures->n; i++)
            fits = fits && radii[*n] <= fmin(pictures->items[i].nx, pictures->items[i].ny) / 8;
        if (!fits)
            break;
        if (json_object_set_new(parameters, "radius", json_real(radii[*n])) != 0)
            return tc_no_memory(err, "a suggestion");
        for (size_t i = 0; i < pictures->n; i++) {
            wu_output out;
            const tc_status status = an_try(&an_voting, pictures, i, parameters, &out, err);
            if (status == TC_OK)
                sharp[*n] += sharpness_of(wu_output_data(&out, "score"),
                                          (size_t)wu_output_find(&out, "score")->info.shape[0]) /
                             (double)pictures->n;
            wu_output_free(&out);
            if (status != TC_OK)
                return status;
        }
    }
    return *n > 0 ? TC_OK
                  : tc_fail(err, TC_BAD_INPUT,
                            "suggest: pictures of fewer than %g pixels across tell no radius",
                            8 * radii[0]);
}

static tc_status add_radius(an_suggestion *out, const an_pictures *pictures, const json_t *given,
                            const double *sharp, size_t n, tc_err *err)
{
    size_t best = 0, chosen = 0;
    an_curve *const curve = an_add_curve(out, "radius, pixels", "sharpness", n);
    if (curve == NULL)
        return tc_no_memory(err, "a suggestion");
    for (size_t k = 0; k < n; k++)
        best = sharp[k] > sharp[best] ? k : best;
    while (sharp[chosen] < sharp[best] - least_loss)
        chosen++;
    memcpy(curve->x, radii, n * sizeof *radii);
    memcpy(curve->y, sharp, n * sizeof *sharp);
    curve->mark = radii[chosen];
    snprintf(curve->title, sizeof curve->title,
             "How sharply the scores of cells and of chance are apart, by radius");
    snprintf(
        out->why, sizeof out->why,
        "radius %g: the least one whose scores are within %g of the sharpest (%.2f, of 1 at most). "
        "Below 0.8, nothing in the pictures looks like round cells of one size.",
        radii[chosen], least_loss, sharp[best]);
    return an_suggest(out, given, "radius", json_real(radii[chosen] * pictures->unit), err);
}

/* How many pixels have each value. */
static void count_greys(const wu_pixels *p, uint64_t *histogram)
{
    const size_t n = (size_t)p->nx * p->ny;
    for (size_t i = 0; i < n; i++)
        histogram[wu_grey(p, i)]++;
}

/* "bright" or "dark": on which side of the median the mean is, most pixels being background. */
static const char *guess_polarity(const an_pictures *pictures)
{
    int bright = 0;
    for (size_t i = 0; i < pictures->n; i++) {
        const size_t n = (size_t)pictures->pixels[i].nx * pictures->pixels[i].ny;
        uint64_t *const histogram = calloc(65536, sizeof *histogram), below = 0, sum = 0;
        uint32_t median = 0;
        if (histogram == NULL)
            break;
        count_greys(&pictures->pixels[i], histogram);
        for (uint32_t v = 0; v < 65536; v++) {
            sum += histogram[v] * v;
            median = 2 * below <= n ? v : median;
            below += histogram[v];
        }
        bright += sum > (uint64_t)median * n ? 1 : -1;
        free(histogram);
    }
    return bright >= 0 ? "bright" : "dark";
}

tc_status voting_suggest(const an_pictures *pictures, const json_t *given, an_suggestion *out,
                         tc_err *err)
{
    double sharp[RADII] = { 0 };
    size_t n = 0;
    json_t *parameters = NULL;
    tc_status status =
        an_suggest(out, given, "polarity", json_string(guess_polarity(pictures)), err);
    if (status != TC_OK || json_object_get(given, "radius") != NULL)
        return status;
    parameters = json_deep_copy(given);
    if (json_object_update_missing(parameters, out->parameters) != 0 ||
        json_object_set_new(parameters, "threshold", json_integer(0)) != 0 ||
        json_object_set_new(parameters, "refine", json_false()) != 0)
        status = tc_no_memory(err, "a suggestion");
    if (status == TC_OK)
        status = measure(pictures, parameters, sharp, &n, err);
    if (status == TC_OK)
        status = add_radius(out, pictures, given, sharp, n, err);
    json_decref(parameters);
    return status;
}
