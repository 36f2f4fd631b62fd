/*
 * cellcount: holes filled and touching cells separated. A cell's area is taken for that area such
 * that half of what is cell belongs to larger regions (specks, of which there may be many, hardly
 * count in it); min_area is a third of it. Cells are dark or bright, whichever makes this area
 * smaller: cells are apart, and what is between them hangs together. Where this area differs much
 * from picture to picture, they are not of one kind: then the smallest counts, so that no picture
 * loses its cells, and a doubt is told.
 */
#include <stdlib.h>
#include <string.h>

#include "app/analysis/cellcount/cellcount.h"
#include "app/analysis/analyses.h"
#include "app/analysis/suggest.h"

enum { BINS = 64, MOST_RATIO = 4 };

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
    snprintf(curve->title, sizeof curve->title, "%.100s: greys, and the threshold %lld",
             pictures->items[i].name, (long long)threshold);
    return TC_OK;
}

static int compare_areas(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Two digits, as people say such numbers. */
static int64_t round_off(int64_t value)
{
    int64_t ten = 1;
    while (value / ten >= 100)
        ten *= 10;
    return (value + ten / 2) / ten * ten;
}

/* Regions of all pictures with one polarity, and their thresholds. */
typedef struct trial {
    int64_t *area; /* ascending; owned */
    size_t n;
    int64_t typical;                     /* area; INT64_MAX: there are no regions */
    int64_t of_picture[AN_MAX_PICTURES]; /* likewise */
    int64_t threshold[AN_MAX_PICTURES];
} trial;

/* Sorts them. INT64_MAX: there are none. */
static int64_t find_typical(int64_t *area, size_t n)
{
    int64_t sum = 0, below = 0;
    size_t k = 0;
    if (n == 0)
        return INT64_MAX;
    qsort(area, n, sizeof *area, compare_areas);
    for (size_t i = 0; i < n; i++)
        sum += area[i];
    while (k + 1 < n && 2 * (below += area[k]) < sum)
        k++;
    return area[k];
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

static tc_status add_area(an_suggestion *out, const json_t *given, const trial *t, tc_err *err)
{
    const int64_t least = t->typical / 3 > 0 ? round_off(t->typical / 3) : 1;
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
        "min_area %lld: a third of a cell's area, about %lld pixels here (half of what is cell "
        "%s).",
        (long long)least, (long long)t->typical,
        out->doubt[0] == '\0' ? "is in larger regions"
                              : "is in larger regions, in the picture with the smallest cells");
    return an_suggest(out, given, "min_area", json_integer(least), err);
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

/* All pictures with one polarity. */
static tc_status try_polarity(const an_pictures *pictures, json_t *parameters, const char *polarity,
                              trial *t, tc_err *err)
{
    tc_status status = TC_OK;
    if (json_object_set_new(parameters, "polarity", json_string(polarity)) != 0)
        return tc_no_memory(err, "a suggestion");
    for (size_t i = 0; status == TC_OK && i < pictures->n; i++) {
        wu_output found;
        status = an_try(&an_cellcount, pictures, i, parameters, &found, err);
        if (status == TC_OK) {
            const size_t before = t->n;
            t->threshold[i] = *(const int64_t *)wu_output_data(&found, "threshold");
            status = append_areas(&found, t, err);
            t->of_picture[i] =
                status == TC_OK ? find_typical(t->area + before, t->n - before) : INT64_MAX;
        }
        wu_output_free(&found);
    }
    t->typical = find_typical(t->area, t->n);
    return status;
}

tc_status cc_suggest(const an_pictures *pictures, const json_t *given, an_suggestion *out,
                     tc_err *err)
{
    static const char *const polarities[] = { "dark", "bright" };
    const char *const only = json_string_value(json_object_get(given, "polarity"));
    trial trials[2] = { { .typical = INT64_MAX }, { .typical = INT64_MAX } };
    tc_status status = an_suggest(out, given, "fill_holes", json_true(), err);
    if (status == TC_OK)
        status = an_suggest(out, given, "split", json_string("distance"), err);
    json_t *const parameters = json_deep_copy(given);
    if (status == TC_OK && json_object_update_missing(parameters, out->parameters) != 0)
        status = tc_no_memory(err, "a suggestion");
    for (size_t k = 0; status == TC_OK && k < 2; k++)
        if (only == NULL || strcmp(only, polarities[k]) == 0)
            status = try_polarity(pictures, parameters, polarities[k], &trials[k], err);
    const size_t best = trials[1].typical < trials[0].typical;
    if (status == TC_OK)
        status = an_suggest(out, given, "polarity", json_string(polarities[best]), err);
    for (size_t i = 0; status == TC_OK && i < pictures->n; i++)
        status = add_greys(out, pictures, i, trials[best].threshold[i], err);
    if (json_object_get(given, "min_area") == NULL)
        heed_differences(out, pictures, &trials[best]);
    if (status == TC_OK && trials[best].n > 0)
        status = add_area(out, given, &trials[best], err);
    free(trials[0].area);
    free(trials[1].area);
    json_decref(parameters);
    return status;
}
