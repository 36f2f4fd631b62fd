/*
 * cellcount: what pictures of cells suggest. A cell's area is taken for that area such that half of
 * what is cell belongs to larger regions (specks, of which there may be many, hardly count in it).
 *
 * Polarity: whichever makes this area smaller, for cells are apart, and what is between them hangs
 * together. Where pictures differ in it, but each as the smaller of its two classes says, it is
 * left to them. Threshold: a local one, in a window of twice the diameter of the cells that it
 * finds itself, for fluorescence and wherever it finds smaller cells than Otsu's does. Where the
 * darkest of four classes is far smaller, as frequent and has sharper outlines, cells are in larger
 * ones, as nuclei in cytoplasm: four classes. min_area and min_contrast: from the areas that all
 * pictures have with that. Where a cell's area differs much from picture to picture, they are not
 * of one kind: then the smallest counts, so that no picture loses its cells, and a doubt is
 * reported.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/cellcount/cellcount.h"
#include "app/analysis/analyses.h"
#include "app/analysis/suggest.h"

enum {
    BINS = 64,
    MOST_RATIO = 4,
    /* Of a local threshold: the least radius of its square, and how often a smaller one is
     * tried. */
    LEAST_RADIUS = 4,
    TRIES = 6,
    OFFSET_PERCENT = 20,
    CLASSES = 4,
    /* Regions stay from a 25th of a cell's area on, with a third of that area or with contrast. */
    LEAST_SHARE = 25,
    FULL_SHARE = 3,
    CONTRAST_PERCENT = 40
};

static tc_status add_greys(an_suggestion *out, const an_pictures *pictures, size_t i,
                           int64_t threshold, tc_err *err)
{
    const wu_pixels *const p = &pictures->pixels[i];
    const size_t n = (size_t)p->nx * p->ny;
    uint32_t lo = UINT32_MAX, hi = 0;
    an_curve *const curve = an_add_curve(out, "grey value", "pixels", BINS);
    if (curve == NULL)
        return tc_no_memory(err, "a suggestion");
    for (size_t k = 0; k < n; k++) {
        const uint32_t v = wu_grey(p, k);
        lo = v < lo ? v : lo;
        hi = v > hi ? v : hi;
    }
    const double width = (hi - lo + 1.0) / BINS;
    for (size_t k = 0; k < BINS; k++)
        curve->x[k] = lo + ((double)k + 0.5) * width;
    for (size_t k = 0; k < n; k++)
        curve->y[(size_t)((wu_grey(p, k) - lo) / width)]++;
    curve->bars = true;
    curve->mark = (double)threshold;
    snprintf(curve->title, sizeof curve->title, "%.100s: greys, and Otsu's threshold %lld",
             pictures->items[i].name, (long long)threshold);
    return TC_OK;
}

/* Two digits, as people say such numbers. */
static int64_t round_off(int64_t value)
{
    int64_t ten = 1;
    while (value / ten >= 100)
        ten *= 10;
    return (value + ten / 2) / ten * ten;
}

/* Regions of all pictures with the same parameters. */
typedef struct trial {
    int64_t *area; /* ascending; owned */
    size_t n;
    int64_t typical;                     /* area; INT64_MAX: there are no regions */
    int64_t of_picture[AN_MAX_PICTURES]; /* likewise */
    size_t cells[AN_MAX_PICTURES];       /* regions that are no specks */
    int64_t threshold[AN_MAX_PICTURES];
    bool bright[AN_MAX_PICTURES]; /* of polarity "auto" */
} trial;

/* The area such that so much of all is in larger regions; sorts them. INT64_MAX: there are none. */
static int64_t find_quantile(int64_t *area, size_t n, double share)
{
    double sum = 0, below = 0;
    size_t k = 0;
    if (n == 0)
        return INT64_MAX;
    qsort(area, n, sizeof *area, an_compare_areas);
    for (size_t i = 0; i < n; i++)
        sum += (double)area[i];
    while (k + 1 < n && (below += (double)area[k]) < share * sum)
        k++;
    return area[k];
}

static double diameter_of(int64_t area)
{
    return 2 * sqrt((double)area / 3.14159265358979);
}

static tc_status append_areas(const wu_output *found, trial *t, tc_err *err)
{
    const size_t more = (size_t)wu_output_find(found, "region_area")->info.shape[0];
    int64_t *const bigger = realloc(t->area, (t->n + more + 1) * sizeof *bigger);
    if (bigger == NULL)
        return tc_no_memory(err, "a suggestion");
    t->area = bigger;
    const int64_t *const area = wu_output_data(found, "region_area");
    for (size_t i = 0; i < more; i++)
        bigger[t->n++] = area[i];
    return TC_OK;
}

static tc_status try_picture(const an_pictures *pictures, size_t i, const json_t *parameters,
                             trial *t, tc_err *err)
{
    wu_output found;
    const size_t before = t->n;
    tc_status status = an_try(&an_cellcount, pictures, i, parameters, &found, err);
    t->of_picture[i] = INT64_MAX;
    t->cells[i] = 0;
    if (status == TC_OK) {
        const wu_out_array *const bright = wu_output_find(&found, "bright");
        t->threshold[i] = *(const int64_t *)wu_output_data(&found, "threshold");
        t->bright[i] = bright != NULL && *(const uint8_t *)bright->data != 0;
        status = append_areas(&found, t, err);
    }
    if (status == TC_OK)
        t->of_picture[i] = find_quantile(t->area + before, t->n - before, 0.5);
    for (size_t k = before; status == TC_OK && k < t->n; k++)
        t->cells[i] += t->area[k] >= t->of_picture[i] / 12;
    wu_output_free(&found);
    return status;
}

/* parameters: the caller's; it is given key and value first, if there is a key. */
static tc_status try_all(const an_pictures *pictures, json_t *parameters, const char *key,
                         json_t *value, trial *t, tc_err *err)
{
    tc_status status = TC_OK;
    *t = (trial){ .typical = INT64_MAX };
    if (key != NULL && json_object_set_new(parameters, key, value) != 0)
        return tc_no_memory(err, "a suggestion");
    for (size_t i = 0; status == TC_OK && i < pictures->n; i++)
        status = try_picture(pictures, i, parameters, t, err);
    if (status == TC_OK)
        t->typical = find_quantile(t->area, t->n, 0.5);
    return status;
}

/* Where pictures are not of one kind, says so and makes the smallest area the typical one. */
static void heed_differences(an_suggestion *out, const an_pictures *pictures, trial *t)
{
    size_t least = 0, most = 0;
    for (size_t i = 0; i < pictures->n; i++) {
        const int64_t area = t->of_picture[i];
        least = area < t->of_picture[least] ? i : least;
        most = area != INT64_MAX && (t->of_picture[most] == INT64_MAX || area > t->of_picture[most])
                   ? i
                   : most;
    }
    if (t->of_picture[most] / MOST_RATIO <= t->of_picture[least])
        return;
    t->typical = t->of_picture[least];
    snprintf(
        out->doubt, sizeof out->doubt,
        "pictures that differ: cells of about %lld pixels in %.60s, of %lld in %.60s; min_area "
        "goes by the smaller ones. Analyse pictures of one kind at a time",
        (long long)t->of_picture[least], pictures->items[least].name,
        (long long)t->of_picture[most], pictures->items[most].name);
}

/* --- polarity -------------------------------------------------------------------------------- */

/* What is taken: "dark", "bright" or "auto". otsu: of this polarity, without regions of other
 * pictures' own. */
static tc_status choose_polarity(const an_pictures *pictures, json_t *parameters, trial trials[3],
                                 size_t *best, tc_err *err)
{
    static const char *const words[] = { "dark", "bright", "auto" };
    const char *const only = json_string_value(json_object_get(parameters, "polarity"));
    size_t bright = 0, smaller_bright = 0, agree = 0;
    tc_status status = TC_OK;
    for (size_t k = 0; k < 3; k++)
        trials[k].typical = INT64_MAX;
    for (size_t k = 0; status == TC_OK && k < 3; k++) {
        if (only != NULL && strcmp(only, words[k]) != 0)
            continue;
        status = try_all(pictures, parameters, "polarity", json_string(words[k]), &trials[k], err);
        *best = k;
    }
    if (status != TC_OK || only != NULL)
        return status;
    for (size_t i = 0; i < pictures->n; i++) {
        const bool area = trials[CC_BRIGHT].of_picture[i] < trials[CC_DARK].of_picture[i],
                   class = trials[CC_AUTO].bright[i];
        bright += area;
        smaller_bright += class;
        agree += area == class;
    }
    if (bright == 0 || bright == pictures->n)
        *best = bright > 0 ? CC_BRIGHT : CC_DARK;
    else if (agree == pictures->n)
        *best = CC_AUTO;
    else if (smaller_bright == 0 || smaller_bright == pictures->n)
        *best = smaller_bright > 0 ? CC_BRIGHT : CC_DARK;
    else
        *best = trials[CC_BRIGHT].typical < trials[CC_DARK].typical ? CC_BRIGHT : CC_DARK;
    return json_object_set_new(parameters, "polarity", json_string(words[*best])) == 0
               ? TC_OK
               : tc_no_memory(err, "a suggestion");
}

/* --- threshold ------------------------------------------------------------------------------- */

/* How sharp an outline is: the mean difference of neighbours on both sides of a threshold. */
static double sharpness(const wu_pixels *px, int64_t threshold)
{
    double sum = 0, n = 0;
    for (size_t y = 0; y < px->ny; y++)
        for (size_t x = 0; x + 1 < px->nx; x++) {
            const int64_t a = wu_grey(px, y * px->nx + x), b = wu_grey(px, y * px->nx + x + 1);
            if ((a < threshold) != (b < threshold)) {
                sum += fabs((double)(a - b));
                n++;
            }
        }
    return n > 0 ? sum / n : 0;
}

/* Whether the darkest of four classes is in larger, paler things, in most pictures. */
static tc_status find_inner(const an_pictures *pictures, const json_t *parameters,
                            const trial *otsu, bool *inner, tc_err *err)
{
    json_t *const own = json_deep_copy(parameters);
    trial four;
    size_t votes = 0;
    tc_status status = own == NULL
                           ? tc_no_memory(err, "a suggestion")
                           : try_all(pictures, own, "classes", json_integer(CLASSES), &four, err);
    for (size_t i = 0; status == TC_OK && i < pictures->n; i++)
        votes += four.of_picture[i] <= otsu->of_picture[i] / MOST_RATIO &&
                 four.cells[i] >= otsu->cells[i] &&
                 sharpness(&pictures->pixels[i], four.threshold[i]) >
                     1.3 * sharpness(&pictures->pixels[i], otsu->threshold[i]);
    *inner = status == TC_OK && 2 * votes > pictures->n;
    if (own != NULL)
        free(four.area);
    json_decref(own);
    return status;
}

static tc_status set_local(json_t *parameters, int64_t radius, tc_err *err)
{
    json_t *const local = json_pack("{s:s, s:i, s:i}", "threshold", "local", "window",
                                    (int)(2 * radius + 1), "offset_percent", (int)OFFSET_PERCENT);
    const bool good = local != NULL && json_object_update(parameters, local) == 0;
    json_decref(local);
    return good ? TC_OK : tc_no_memory(err, "a suggestion");
}

/* A radius that is about the diameter of the cells that are found with it, no greater than that of
 * Otsu's. */
static tc_status find_radius(const an_pictures *pictures, size_t i, json_t *parameters,
                             int64_t area, int64_t *radius, bool *smaller, tc_err *err)
{
    const wu_pixels *const px = &pictures->pixels[i];
    const int64_t most = (px->nx < px->ny ? px->nx : px->ny) / 4;
    int64_t r = area != INT64_MAX ? (int64_t)(diameter_of(area) + 0.5) : LEAST_RADIUS;
    tc_status status = TC_OK;
    r = r > most ? most : r;
    *smaller = false;
    for (int k = 0; status == TC_OK && k < TRIES && r > LEAST_RADIUS; k++) {
        trial t = { .n = 0 };
        status = set_local(parameters, r, err);
        if (status == TC_OK)
            status = try_picture(pictures, i, parameters, &t, err);
        free(t.area);
        if (status != TC_OK || t.of_picture[i] == INT64_MAX ||
            diameter_of(t.of_picture[i]) >= 0.9 * (double)r)
            break;
        r = (int64_t)(diameter_of(t.of_picture[i]) + 0.5);
        *smaller = true;
    }
    *radius = r > LEAST_RADIUS ? r : LEAST_RADIUS;
    return status;
}

/* The median of all pictures; *smaller: one of them has smaller cells than Otsu's threshold
 * finds. */
static tc_status find_window(const an_pictures *pictures, const json_t *parameters,
                             const trial *otsu, int64_t *window, bool *smaller, tc_err *err)
{
    json_t *const own = json_deep_copy(parameters);
    int64_t radius[AN_MAX_PICTURES];
    tc_status status = own == NULL ? tc_no_memory(err, "a suggestion") : TC_OK;
    *smaller = false;
    for (size_t i = 0; status == TC_OK && i < pictures->n; i++) {
        bool here;
        status = find_radius(pictures, i, own, otsu->of_picture[i], &radius[i], &here, err);
        *smaller = *smaller || here;
    }
    json_decref(own);
    if (status != TC_OK)
        return status;
    qsort(radius, pictures->n, sizeof *radius, an_compare_areas);
    const size_t middle = pictures->n / 2;
    *window = 2 * (int64_t)(1.2 * (double)radius[middle] + 0.5) + 1;
    *window = *window < 2 * CC_MOST_RADIUS + 1 ? *window : 2 * CC_MOST_RADIUS + 1;
    return TC_OK;
}

static bool is_given(const json_t *given, const char *const *keys)
{
    while (*keys != NULL && json_object_get(given, *keys) == NULL)
        keys++;
    return *keys != NULL;
}

/* polarity: of the trial `otsu`. why: of `size` bytes, for people. */
static tc_status choose_threshold(an_suggestion *out, const an_pictures *pictures,
                                  const json_t *given, const json_t *parameters, size_t polarity,
                                  const trial *otsu, char *why, size_t size, tc_err *err)
{
    static const char *const keys[] = { "threshold", "background", "classes", "scale", NULL };
    bool inner = false, smaller = false;
    int64_t window = 0;
    tc_status status = TC_OK;
    why[0] = '\0';
    if (is_given(given, keys) || json_object_get(out->parameters, "threshold") != NULL)
        return TC_OK;
    if (polarity == CC_DARK)
        status = find_inner(pictures, parameters, otsu, &inner, err);
    if (status == TC_OK && inner) {
        snprintf(why, size,
                 "classes %d: what is darkest lies in larger, paler things, as nuclei do in "
                 "cytoplasm. ",
                 CLASSES);
        snprintf(
            out->doubt, sizeof out->doubt,
            "the darkest things are taken for the cells, nuclei perhaps; for the larger, paler "
            "things around them: --param classes=2");
        return an_suggest(out, given, "classes", json_integer(CLASSES), err);
    }
    if (status == TC_OK)
        status = find_window(pictures, parameters, otsu, &window, &smaller, err);
    if (status != TC_OK || (polarity == CC_DARK && !smaller))
        return status;
    snprintf(why, size,
             "threshold local: each cell is compared with what is around it, in a window of two "
             "to three cells. ");
    status = an_suggest(out, given, "threshold", json_string("local"), err);
    if (status == TC_OK)
        status = an_suggest(out, given, "window", json_integer(window), err);
    return status == TC_OK
               ? an_suggest(out, given, "offset_percent", json_integer(OFFSET_PERCENT), err)
               : status;
}

/* --- areas ----------------------------------------------------------------------------------- */

static tc_status add_area(an_suggestion *out, const json_t *given, trial *t, bool dark,
                          const char *why, tc_err *err)
{
    const int64_t share = t->typical / LEAST_SHARE;
    /* Cells in bright field are much of one size, and what is smaller is dirt or platelets. */
    const int64_t few = dark ? find_quantile(t->area, t->n, 0.1) / 3 : 0;
    const int64_t least = round_off(share > few && share > 1 ? share
                                    : few > 1                ? few
                                                             : 1),
                  full = round_off(t->typical > FULL_SHARE ? t->typical / FULL_SHARE : 1);
    an_curve *const curve = an_add_curve(out, "area, pixels", "regions", BINS);
    if (curve == NULL)
        return tc_no_memory(err, "a suggestion");
    const double most = 3.0 * (double)t->typical, width = most / BINS;
    for (size_t i = 0; i < BINS; i++)
        curve->x[i] = ((double)i + 0.5) * width;
    for (size_t i = 0; i < t->n; i++)
        curve->y[(double)t->area[i] < most ? (size_t)((double)t->area[i] / width) : BINS - 1]++;
    curve->bars = true;
    curve->mark = (double)least;
    snprintf(curve->title, sizeof curve->title,
             "Areas of all regions (the last bar: and larger), and min_area %lld",
             (long long)least);
    snprintf(
        out->why, sizeof out->why,
        "%smin_area %lld, min_contrast below %lld: a cell has about %lld pixels here (half of what "
        "is cell %s).",
        why, (long long)least, (long long)full, (long long)t->typical,
        out->doubt[0] == '\0' ? "is in larger regions"
                              : "is in larger regions, in the picture with the smallest cells");
    tc_status status = an_suggest(out, given, "min_area", json_integer(least), err);
    return status == TC_OK ? an_suggest(out, given, "min_contrast",
                                        json_pack("{s:I, s:i}", "full_area", (json_int_t)full,
                                                  "percent", (int)CONTRAST_PERCENT),
                                        err)
                           : status;
}

tc_status cc_suggest(const an_pictures *pictures, const json_t *given, an_suggestion *out,
                     tc_err *err)
{
    static const char *const local_keys[] = { "window", "offset", "offset_percent", NULL };
    trial trials[3] = { { .n = 0 } }, last = { .n = 0 };
    size_t best = CC_DARK;
    char why[200] = "";
    tc_status status = an_suggest(out, given, "smooth", json_integer(1), err);
    if (status == TC_OK)
        status = an_suggest(out, given, "fill_holes", json_true(), err);
    if (status == TC_OK)
        status = an_suggest(out, given, "split", json_string("distance"), err);
    /* Who says something of a local threshold is to get one. */
    if (status == TC_OK && is_given(given, local_keys))
        status = an_suggest(out, given, "threshold", json_string("local"), err);
    json_t *const parameters = json_deep_copy(given);
    if (status == TC_OK &&
        (parameters == NULL || json_object_update_missing(parameters, out->parameters) != 0 ||
         json_object_set_new(parameters, "labels", json_false()) != 0))
        status = tc_no_memory(err, "a suggestion");
    if (status == TC_OK)
        status = choose_polarity(pictures, parameters, trials, &best, err);
    if (status == TC_OK)
        status = an_suggest(out, given, "polarity",
                            json_incref(json_object_get(parameters, "polarity")), err);
    for (size_t i = 0; status == TC_OK && i < pictures->n; i++)
        status = add_greys(out, pictures, i, trials[best].threshold[i], err);
    if (status == TC_OK)
        status = choose_threshold(out, pictures, given, parameters, best, &trials[best], why,
                                  sizeof why, err);
    if (status == TC_OK && json_object_update(parameters, out->parameters) != 0)
        status = tc_no_memory(err, "a suggestion");
    if (status == TC_OK)
        status = try_all(pictures, parameters, NULL, NULL, &last, err);
    /* A blank picture is above no mean. */
    for (size_t k = 0; status == TC_OK && last.n == 0 && k < 3; k++)
        json_object_del(out->parameters,
                        (const char *[]){ "threshold", "window", "offset_percent" }[k]);
    if (status == TC_OK && json_object_get(given, "min_area") == NULL)
        heed_differences(out, pictures, &last);
    if (status == TC_OK && last.n > 0)
        status = add_area(out, given, &last, best == CC_DARK, why, err);
    for (size_t k = 0; k < 3; k++)
        free(trials[k].area);
    free(last.area);
    json_decref(parameters);
    return status;
}
