/*
 * cellcount: suggests parameters from sample pictures, by analysing the pictures with several
 * values of the parameters. The typical area is the area such that half of all pixels of regions
 * are in regions larger than this area; many specks hardly change it.
 *
 * polarity: "dark" or "bright", whichever gives the smaller typical area, as cells are separate
 * from each other while the background between them is connected. "auto" is suggested if the
 * pictures differ in polarity, and "auto" finds for each picture the polarity that gives the
 * smaller typical area. Exception: where cells touch and enclose gaps of background, these gaps are
 * the separate and smaller regions. Then the polarity is that of the larger and rounder regions,
 * and fill_holes is false.
 *
 * background: suggested for dark cells if the outlines of regions are much sharper with evened
 * light than without; both are tried, each with its own polarity.
 *
 * threshold: "local" if any picture has bright cells, or if in any picture a local threshold finds
 * smaller cells than Otsu's threshold does. Its window is 2.4 times the diameter of the cells that
 * it finds.
 *
 * classes: four, if the regions of the darkest of four classes are far smaller than the regions
 * that Otsu's threshold (two classes) gives, at least as numerous, and have sharper outlines: then
 * they are probably nuclei in grey cytoplasm.
 *
 * min_area and min_contrast follow from the areas of all regions with these parameters. If the
 * typical area differs much between pictures, the pictures show different kinds of cells: then
 * window, min_area and full_area become "auto", and a doubt is reported.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/cellcount/cellcount.h"
#include "app/analysis/common/real.h"
#include "app/analysis/analyses.h"
#include "app/analysis/suggest.h"

/* The number of bars of a histogram in the report. */
enum { BINS = 64 };
/* Regions whose typical areas have a ratio greater than this are different kinds of objects. */
enum { MOST_RATIO = 4 };
/* Outlines are sharper than others if they have more than this many times the sharpness. */
static const double sharper = 1.3;
/* The values that are suggested for these parameters. */
enum {
    OFFSET_PERCENT = 20,  /* offset_percent */
    CLASSES = 4,          /* classes */
    EVEN_RADIUS = 60,     /* background.radius, in pixels: more than that of most cells */
    CONTRAST_PERCENT = 40 /* min_contrast.percent */
};

/* Adds to the report's curves the histogram of picture i's grey values, with `threshold`, which is
 * Otsu's threshold, as a mark. */
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
        const uint32_t v = wu_grey_value(p, k);
        lo = v < lo ? v : lo;
        hi = v > hi ? v : hi;
    }
    const double width = (hi - lo + 1.0) / BINS;
    for (size_t k = 0; k < BINS; k++)
        curve->x[k] = lo + ((double)k + 0.5) * width;
    for (size_t k = 0; k < n; k++)
        curve->y[(size_t)((wu_grey_value(p, k) - lo) / width)]++;
    curve->bars = true;
    curve->mark = (double)threshold;
    snprintf(curve->title, sizeof curve->title, "%.100s: greys, and Otsu's threshold %lld",
             pictures->items[i].name, (long long)threshold);
    return TC_OK;
}

/* Rounds to two significant digits. */
static int64_t round_off(int64_t value)
{
    int64_t ten = 1;
    while (value / ten >= 100)
        ten *= 10;
    return (value + ten / 2) / ten * ten;
}

/* Measurements of the regions of a picture that do not touch the picture's border. */
typedef struct uncut_regions {
    int64_t typical; /* the regions' typical area; INT64_MAX if there are no regions */
    /* The other fields leave out regions smaller than a quarter of the typical area. */
    size_t n;      /* number of regions */
    double pixels; /* total number of pixels of the regions */
    double round;  /* share of these pixels that lie in the disc with the area and centroid of their
                      region: 1 if all regions are discs, and less than 0.85 for the gaps between
                      touching discs */
} uncut_regions;

/* The results of an analysis of all pictures with the same parameters. The arrays without a size
 * have one element for each picture. */
typedef struct trial {
    int64_t *area; /* [n]: areas of the regions of all pictures, ascending; the caller frees it */
    size_t n;
    int64_t typical;                     /* typical area; INT64_MAX if there are no regions */
    int64_t of_picture[AN_MAX_PICTURES]; /* typical area of each picture; INT64_MAX if the picture
                                            has no regions */
    size_t cells[AN_MAX_PICTURES];      /* number of regions of at least 1/12 of the typical area of
                                           the picture */
    int64_t threshold[AN_MAX_PICTURES]; /* the threshold that the analysis used */
    bool bright[AN_MAX_PICTURES];       /* polarity "auto": whether cells are bright */
    uncut_regions uncut[AN_MAX_PICTURES];
    double sharp[AN_MAX_PICTURES]; /* sharpness of the regions' outlines */
} trial;

/* Appends the areas of a result's regions to those of t. */
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

/* Counts, for each region, the pixels that lie in the disc with the region's area and centroid, and
 * adds the count to inside[label - 1]. labels: [n], in rows of nx pixels. */
static void count_in_discs(const wu_output *found, const int32_t *labels, uint32_t nx, size_t n,
                           int64_t *inside)
{
    const int64_t *const area = wu_output_data(found, "region_area");
    const double *const centre = wu_output_data(found, "region_centroid");
    for (size_t i = 0; i < n; i++) {
        if (labels[i] == 0)
            continue;
        const size_t r = (size_t)labels[i] - 1;
        const size_t row = i / nx, column = i % nx;
        const double y = (double)row - centre[2 * r], x = (double)column - centre[2 * r + 1];
        inside[r] += TC_PI * (y * y + x * x) <= (double)area[r];
    }
}

/* The labels of a result, its last array. */
static const int32_t *labels_of(const wu_output *found)
{
    return found->arrays[found->n - 1].data;
}

/* Sets *out from `found`, the result of a picture that has nx columns and n_pixels pixels. */
static tc_status measure_uncut(const wu_output *found, uint32_t nx, size_t n_pixels,
                               uncut_regions *out, tc_err *err)
{
    const size_t n = (size_t)wu_output_find(found, "region_area")->info.shape[0];
    const int64_t *const area = wu_output_data(found, "region_area");
    const uint8_t *const border = wu_output_data(found, "region_border");
    TC_AUTOFREE int64_t *const areas = malloc((n + 1) * sizeof *areas);
    TC_AUTOFREE int64_t *const inside = calloc(n + 1, sizeof *inside);
    double in_discs = 0;
    size_t k = 0;
    *out = (uncut_regions){ .typical = INT64_MAX };
    if (areas == NULL || inside == NULL)
        return tc_no_memory(err, "a suggestion");
    for (size_t i = 0; i < n; i++)
        if (border[i] == 0)
            areas[k++] = area[i];
    out->typical = cc_area_quantile(areas, k, 1, 2);
    count_in_discs(found, labels_of(found), nx, n_pixels, inside);
    for (size_t i = 0; i < n; i++) {
        if (border[i] != 0 || area[i] < out->typical / 4)
            continue;
        out->n++;
        out->pixels += (double)area[i];
        in_discs += (double)inside[i];
    }
    out->round = out->pixels > 0 ? in_discs / out->pixels : 0;
    return TC_OK;
}

/* Returns the sharpness of outlines: the mean absolute difference, in grey values, between the two
 * pixels of each pair of horizontal neighbours that has one pixel in a region. labels NULL: of all
 * pairs of horizontal neighbours. */
static double sharpness(const wu_pixels *px, const int32_t *labels)
{
    double sum = 0, n = 0;
    for (size_t i = 0; i + 1 < (size_t)px->nx * px->ny; i++)
        if ((i + 1) % px->nx != 0 && (labels == NULL || (labels[i] == 0) != (labels[i + 1] == 0))) {
            sum += fabs((double)wu_grey_value(px, i) - wu_grey_value(px, i + 1));
            n++;
        }
    return n > 0 ? sum / n : 0;
}

/* Analyses picture i and adds the result to t. */
static tc_status try_picture(const an_pictures *pictures, size_t i, const json_t *parameters,
                             trial *t, tc_err *err)
{
    const wu_pixels *const px = &pictures->pixels[i];
    TC_AUTO(wu_output_free) wu_output found;
    const size_t before = t->n;
    tc_status status = an_try_parameters(&an_cellcount, pictures, i, parameters, &found, err);
    t->of_picture[i] = INT64_MAX;
    t->cells[i] = 0;
    return_if_error(status);
    const wu_out_array *const bright = wu_output_find(&found, "bright");
    t->threshold[i] = *(const int64_t *)wu_output_data(&found, "threshold");
    t->bright[i] = bright != NULL && *(const uint8_t *)bright->data != 0;
    return_if_error(append_areas(&found, t, err));
    return_if_error(measure_uncut(&found, px->nx, (size_t)px->nx * px->ny, &t->uncut[i], err));
    t->sharp[i] = sharpness(px, labels_of(&found));
    t->of_picture[i] = cc_area_quantile(t->area + before, t->n - before, 1, 2);
    for (size_t k = before; k < t->n; k++)
        t->cells[i] += t->area[k] >= t->of_picture[i] / 12;
    return TC_OK;
}

/* Analyses all pictures and fills *t. If key is not NULL, first sets this key of the parameters to
 * `value`; the parameters take over the caller's reference to value. */
static tc_status try_all(const an_pictures *pictures, json_t *parameters, const char *key,
                         json_t *value, trial *t, tc_err *err)
{
    *t = (trial){ .typical = INT64_MAX };
    if (key != NULL && json_object_set_new(parameters, key, value) != 0)
        return tc_no_memory(err, "a suggestion");
    for (size_t i = 0; i < pictures->n; i++)
        return_if_error(try_picture(pictures, i, parameters, t, err));
    t->typical = cc_area_quantile(t->area, t->n, 1, 2);
    return TC_OK;
}

/* Returns whether the typical areas of the pictures differ so much that they cannot be those of one
 * kind of cell; if so, sets out->doubt. */
static bool report_differences(an_suggestion *out, const an_pictures *pictures, const trial *t)
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
        return false;
    snprintf(out->doubt, sizeof out->doubt,
             "pictures that differ: cells seem to have %lld pixels in %.60s, but %lld in %.60s. If "
             "one of these sizes is wrong, analyse that picture separately",
             (long long)t->of_picture[least], pictures->items[least].name,
             (long long)t->of_picture[most], pictures->items[most].name);
    return true;
}

/* --- polarity -------------------------------------------------------------------------------- */

/* Chooses the polarity, and sets it in the parameters and *best. Sets trials[CC_DARK],
 * trials[CC_BRIGHT] and trials[CC_AUTO] to the trials with each polarity. If the parameters already
 * have a polarity, keeps it and makes only the trial with that polarity. */
static tc_status choose_polarity(const an_pictures *pictures, json_t *parameters, trial trials[3],
                                 size_t *best, tc_err *err)
{
    static const char *const words[] = { "dark", "bright", "auto" };
    const char *const given_word = json_string_value(json_object_get(parameters, "polarity"));
    size_t bright = 0, auto_bright = 0, agree = 0; /* numbers of pictures */
    tc_status status = TC_OK;
    for (size_t k = 0; k < 3; k++)
        trials[k].typical = INT64_MAX;
    for (size_t k = 0; status == TC_OK && k < 3; k++) {
        if (given_word != NULL && strcmp(given_word, words[k]) != 0)
            continue;
        status = try_all(pictures, parameters, "polarity", json_string(words[k]), &trials[k], err);
        *best = k;
    }
    if (status != TC_OK || given_word != NULL)
        return status;
    for (size_t i = 0; i < pictures->n; i++) {
        const bool by_area = trials[CC_BRIGHT].of_picture[i] < trials[CC_DARK].of_picture[i],
                   by_auto = trials[CC_AUTO].bright[i];
        bright += by_area;
        auto_bright += by_auto;
        agree += by_area == by_auto;
    }
    /* In order of preference: the polarity that all pictures have by their areas; "auto", if it
     * finds the polarity of every picture; the polarity that "auto" finds in all pictures; the
     * polarity with the smaller typical area of all pictures together. */
    if (bright == 0 || bright == pictures->n)
        *best = bright > 0 ? CC_BRIGHT : CC_DARK;
    else if (agree == pictures->n)
        *best = CC_AUTO;
    else if (auto_bright == 0 || auto_bright == pictures->n)
        *best = auto_bright > 0 ? CC_BRIGHT : CC_DARK;
    else
        *best = trials[CC_BRIGHT].typical < trials[CC_DARK].typical ? CC_BRIGHT : CC_DARK;
    return json_object_set_new(parameters, "polarity", json_string(words[*best])) == 0
               ? TC_OK
               : tc_no_memory(err, "a suggestion");
}

/* find_touching judges only pictures with at least this number of regions. */
enum { MANY_TOUCH = 16 };
/* The least uncut_regions.round that regions have if they are cells and not gaps. */
static const double round_cells = 0.85;

/* Whether picture i may show touching cells, judged by `filled`, the trial with filled holes.
 * Either there are enough regions to be the gaps between such cells, or half of the regions' pixels
 * are in regions of more than a fiftieth of the picture, each of which may be many cells together.
 */
static bool may_touch(const an_pictures *pictures, size_t i, const trial *filled)
{
    const int64_t large = (int64_t)pictures->items[i].nx * pictures->items[i].ny / 50;
    return filled->uncut[i].n >= MANY_TOUCH || filled->of_picture[i] > large;
}

/* Whether the regions `chosen` of a picture may be gaps between cells of the other polarity. Gaps
 * are not round and have no holes; so the typical area of `filled`, the same regions with filled
 * holes, is at most a twentieth greater. (Cells that are pale in the middle have holes.) */
static bool may_be_gaps(const uncut_regions *chosen, const uncut_regions *filled)
{
    return chosen->n >= MANY_TOUCH && chosen->round < round_cells &&
           (filled->n < MANY_TOUCH || filled->typical <= chosen->typical + chosen->typical / 20);
}

/* Whether the regions `other`, of the other polarity, are cells between which the regions `chosen`
 * may be gaps: they are larger, cover more of the picture and are rounder. */
static bool have_gaps(const uncut_regions *other, const uncut_regions *chosen)
{
    return other->n >= MANY_TOUCH && other->typical > chosen->typical &&
           other->pixels > chosen->pixels && other->round > chosen->round + 0.05;
}

/* Finds pictures of cells that touch all around gaps. With fill_holes such cells become one region,
 * so the polarity was chosen as if the gaps were the cells. If most pictures show such cells, sets
 * *best and `parameters` to the polarity of the cells and to fill_holes false, and trials[*best] to
 * the trial with these. */
static tc_status find_touching(const an_pictures *pictures, const json_t *given, an_suggestion *out,
                               json_t *parameters, trial trials[3], size_t *best, tc_err *err)
{
    static const char *const words[] = { "dark", "bright" };
    const size_t other = *best == CC_DARK ? CC_BRIGHT : CC_DARK;
    /* Numbers of pictures: those that may_touch and may_be_gaps accept; those whose regions are
     * gaps between cells of the other polarity; and those whose round cells fill_holes merges. */
    size_t suspects = 0, candidates = 0, gaps = 0, merged = 0;
    trial unfilled[2] = { { .n = 0 } }; /* by polarity: the trials with fill_holes false */
    for (size_t i = 0; i < pictures->n && *best != CC_AUTO; i++)
        suspects += may_touch(pictures, i, &trials[*best]);
    if (json_object_get(given, "fill_holes") != NULL || 2 * suspects <= pictures->n)
        return TC_OK;
    tc_status status = json_object_set_new(parameters, "fill_holes", json_false()) == 0
                           ? TC_OK
                           : tc_no_memory(err, "a suggestion");
    if (status == TC_OK)
        status = try_all(pictures, parameters, "polarity", json_string(words[*best]),
                         &unfilled[*best], err);
    for (size_t i = 0; status == TC_OK && i < pictures->n; i++)
        candidates += may_be_gaps(&unfilled[*best].uncut[i], &trials[*best].uncut[i]);
    /* The other polarity is only tried if gaps may be found in most pictures. */
    if (status == TC_OK && 2 * candidates > pictures->n &&
        json_object_get(given, "polarity") == NULL)
        status = try_all(pictures, parameters, "polarity", json_string(words[other]),
                         &unfilled[other], err);
    for (size_t i = 0; status == TC_OK && i < pictures->n; i++) {
        const uncut_regions *const own = &unfilled[*best].uncut[i];
        gaps +=
            may_be_gaps(own, &trials[*best].uncut[i]) && have_gaps(&unfilled[other].uncut[i], own);
        merged += own->n >= MANY_TOUCH && own->round >= round_cells &&
                  trials[*best].of_picture[i] / MOST_RATIO > own->typical;
    }
    const bool touch = status == TC_OK && 2 * (gaps > merged ? gaps : merged) > pictures->n;
    if (touch) {
        *best = 2 * gaps > pictures->n ? other : *best;
        trial *const chosen = &trials[*best], old = *chosen;
        *chosen = unfilled[*best];
        unfilled[*best] = old;
    }
    free(unfilled[0].area);
    free(unfilled[1].area);
    if (status == TC_OK &&
        (json_object_set_new(parameters, "fill_holes", json_boolean(!touch)) != 0 ||
         json_object_set_new(parameters, "polarity", json_string(words[*best])) != 0 ||
         json_object_set_new(out->parameters, "fill_holes", json_boolean(!touch)) != 0))
        status = tc_no_memory(err, "a suggestion");
    return status;
}

/* Writes to `why`, which has `size` bytes, a sentence for the report that says why the polarity
 * `best` was chosen. */
static void explain_polarity(const trial trials[3], size_t best, char *why, size_t size)
{
    static const char *const words[] = { "dark", "bright" };
    const size_t other = best == CC_DARK ? CC_BRIGHT : CC_DARK;
    if (best == CC_AUTO)
        snprintf(why, size, "polarity auto: some pictures have dark cells, some bright ones. ");
    else if (trials[best].typical > trials[other].typical)
        snprintf(why, size, "polarity %s: in each picture fewer pixels are %s. ", words[best],
                 words[best]);
    else if (trials[other].typical == INT64_MAX)
        snprintf(why, size, "polarity %s: there are no %s regions. ", words[best], words[other]);
    else
        snprintf(why, size,
                 "polarity %s: %s regions have about %lld pixels, %s ones %lld: cells are "
                 "separate from each other, but the background between them is connected. ",
                 words[best], words[best], (long long)trials[best].typical, words[other],
                 (long long)trials[other].typical);
}

/* --- threshold ------------------------------------------------------------------------------- */

/* Sets *inner to whether, in most pictures, the darkest of four classes seems to consist of small
 * objects within larger, paler regions, such as nuclei in cytoplasm. otsu: the trial with two
 * classes. Outlines must be `sharper`. */
static tc_status find_inner(const an_pictures *pictures, const json_t *parameters,
                            const trial *otsu, bool *inner, tc_err *err)
{
    json_t *const copy = json_deep_copy(parameters);
    trial four;
    size_t votes = 0;
    tc_status status = copy == NULL
                           ? tc_no_memory(err, "a suggestion")
                           : try_all(pictures, copy, "classes", json_integer(CLASSES), &four, err);
    for (size_t i = 0; status == TC_OK && i < pictures->n; i++)
        votes += four.of_picture[i] <= otsu->of_picture[i] / MOST_RATIO &&
                 four.cells[i] >= otsu->cells[i] && four.sharp[i] > sharper * otsu->sharp[i];
    *inner = status == TC_OK && 2 * votes > pictures->n;
    if (copy != NULL)
        free(four.area);
    json_decref(copy);
    return status;
}

/* Sets *window to the median, over the pictures, of the side of the window that suits a local
 * threshold. Sets *smaller to whether, in at least one picture, a local threshold finds smaller
 * cells than Otsu's threshold. */
static tc_status find_window(const an_pictures *pictures, const json_t *parameters,
                             const trial *otsu, int32_t *window, bool *smaller, tc_err *err)
{
    json_t *const copy = json_deep_copy(parameters);
    void *params = NULL;
    int64_t radius[AN_MAX_PICTURES];
    tc_status status =
        copy == NULL || json_object_set_new(copy, "threshold", json_string("local")) != 0 ||
                (json_object_get(copy, "offset") == NULL &&
                 json_object_set_new(copy, "offset_percent", json_integer(OFFSET_PERCENT)) != 0)
            ? tc_no_memory(err, "a suggestion")
            : an_parse_params(&an_cellcount, copy, "parameters", &params, err);
    *smaller = false;
    for (size_t i = 0; status == TC_OK && i < pictures->n; i++) {
        cc_params p = *(const cc_params *)params;
        bool smaller_cells = false;
        p.bright = p.polarity == CC_AUTO ? otsu->bright[i] : p.bright;
        status = cc_find_radius(&p, &pictures->pixels[i], pictures->threads, NULL, &radius[i],
                                &smaller_cells, err);
        *smaller = *smaller || smaller_cells;
    }
    an_params_free(&an_cellcount, &params);
    json_decref(copy);
    if (status != TC_OK)
        return status;
    qsort(radius, pictures->n, sizeof *radius, an_compare_areas);
    *window = cc_window_of(radius[pictures->n / 2]);
    return TC_OK;
}

/* Whether `given` has at least one of `keys`, a list that ends with NULL. */
static bool is_given(const json_t *given, const char *const *keys)
{
    while (*keys != NULL && json_object_get(given, *keys) == NULL)
        keys++;
    return *keys != NULL;
}

/* Whether the threshold is "local". */
static bool is_local(const json_t *parameters)
{
    const char *const word = json_string_value(json_object_get(parameters, "threshold"));
    return word != NULL && strcmp(word, "local") == 0;
}

/* Suggests `classes`, or a local threshold with its window and offset, or neither. otsu: the trial
 * with Otsu's threshold; polarity: the polarity of that trial; local: whether the user has asked
 * for a local threshold. Writes a sentence for the report, or "", to `why`, which has `size` bytes.
 */
static tc_status choose_threshold(an_suggestion *out, const an_pictures *pictures,
                                  const json_t *given, const json_t *parameters, size_t polarity,
                                  bool local, const trial *otsu, char *why, size_t size,
                                  tc_err *err)
{
    static const char *const keys[] = { "threshold", "background", "classes", "scale", NULL };
    static const char *const offsets[] = { "offset", "offset_percent", NULL };
    bool inner = false, smaller = false;
    int32_t window = 0;
    tc_status status = TC_OK;
    why[0] = '\0';
    if (!local && is_given(given, keys))
        return TC_OK;
    if (!local && polarity == CC_DARK)
        status = find_inner(pictures, parameters, otsu, &inner, err);
    if (status == TC_OK && inner) {
        snprintf(why, size,
                 "classes %d: the darkest regions lie in larger, paler ones, as nuclei do in "
                 "cytoplasm. ",
                 CLASSES);
        out->each_doubt =
            "the darkest regions, perhaps nuclei, are counted as the cells; to count the larger, "
            "paler regions around them: --param classes=2; in uneven light: --param "
            "threshold=local";
        snprintf(out->doubt, sizeof out->doubt, "%s", out->each_doubt);
        return an_suggest_value(out, given, "classes", json_integer(CLASSES), err);
    }
    if (status == TC_OK)
        status = find_window(pictures, parameters, otsu, &window, &smaller, err);
    if (status != TC_OK || (!local && polarity == CC_DARK && !smaller))
        return status;
    snprintf(why, size,
             "threshold local: each cell is compared with what is around it, in a window of two "
             "to three cells. ");
    status = an_suggest_value(out, given, "threshold", json_string("local"), err);
    if (status == TC_OK)
        status = an_suggest_value(out, given, "window", json_integer(window), err);
    return status != TC_OK || is_given(given, offsets)
               ? status
               : an_suggest_value(out, given, "offset_percent", json_integer(OFFSET_PERCENT), err);
}

/* --- areas ----------------------------------------------------------------------------------- */

/* Returns the min_area to suggest for the regions of trial t, rounded. */
static int64_t least_area(trial *t, bool bright)
{
    return round_off(cc_least_area(t->typical, cc_area_quantile(t->area, t->n, 1, 10), bright));
}

/* Returns the number of regions that are smaller than `least` pixels, but no specks. Sets *from to
 * the index of the first such region in t->area. */
static size_t count_small(const trial *t, int64_t least, size_t *from)
{
    enum { SPECK = 12 /* pixels; smaller regions are specks */ };
    size_t to = 0;
    for (*from = 0; to < t->n && t->area[to] < least; to++)
        *from += t->area[to] < SPECK;
    return to - *from;
}

/* Sets out->doubt if the suggested min_area (`least`) would leave out regions that may also be
 * cells: they are numerous, of similar size, and have enough contrast for min_contrast. parameters:
 * the parameters of trial t. */
static tc_status report_small_kind(an_suggestion *out, const an_pictures *pictures,
                                   const json_t *parameters, const trial *t, int64_t least,
                                   tc_err *err)
{
    /* Small regions are numerous if there are at least FEW of them, and at least one for every
     * SHARE larger regions. */
    enum { FEW = 10, SHARE = 4 };
    json_auto_t *copy = json_deep_copy(parameters);
    json_t *const contrast =
        json_pack("{s:I, s:i}", "full_area", (json_int_t)cc_full_area(t->typical), "percent",
                  (int)CONTRAST_PERCENT);
    trial small = { .n = 0 };
    size_t from, n = count_small(t, least, &from);
    const size_t larger = t->n - from - n; /* regions of at least `least` pixels */
    if (copy == NULL || json_object_set_new(copy, "min_contrast", contrast) != 0)
        return tc_no_memory(err, "a suggestion");
    if (n < FEW || SHARE * n < larger)
        return TC_OK;
    const tc_status status = try_all(pictures, copy, NULL, NULL, &small, err);
    n = status == TC_OK ? count_small(&small, least, &from) : 0;
    /* Small regions are of similar size if the upper quartile of their areas is less than twice the
     * lower one. */
    const int64_t *const area = small.area + from;
    if (n >= FEW && SHARE * n >= larger && area[3 * n / 4] < 2 * area[n / 4])
        snprintf(
            out->doubt, sizeof out->doubt,
            "%zu regions of about %lld pixels are left out, besides %zu larger ones: if they are "
            "cells too, cellcount with --param min_area=%lld counts them",
            n, (long long)area[n / 2], larger, (long long)area[n / 2] / 3);
    free(small.area);
    return status;
}

/* Suggests min_area and min_contrast, explains the whole suggestion in out->why, and adds the
 * histogram of areas to the report's curves. parameters, t: the parameters suggested so far, and
 * the trial with them; dark: whether the chosen polarity is "dark"; differ: whether the pictures
 * show different kinds of cells, so that "auto" is suggested; why: sentences about the other
 * parameters, with which out->why begins. */
static tc_status add_area(an_suggestion *out, const an_pictures *pictures, const json_t *given,
                          const json_t *parameters, trial *t, bool dark, bool differ,
                          const char *why, tc_err *err)
{
    const json_t *const min_area = json_object_get(given, "min_area");
    const bool min_given = json_is_integer(min_area),
               contrast = json_object_get(given, "min_contrast") == NULL;
    const int64_t least = min_given ? json_integer_value(min_area) : least_area(t, !dark),
                  full = round_off(cc_full_area(t->typical));
    char below[60] = ""; /* the end of the explanation: the area below which min_contrast applies */
    an_curve *const curve = an_add_curve(out, "area, pixels", "regions", BINS);
    if (curve == NULL)
        return tc_no_memory(err, "a suggestion");
    /* The last bar ends at three times the typical area, and counts all larger regions, too. */
    const double most = 3.0 * (double)t->typical, width = most / BINS;
    for (size_t i = 0; i < BINS; i++)
        curve->x[i] = ((double)i + 0.5) * width;
    for (size_t i = 0; i < t->n; i++)
        curve->y[(double)t->area[i] < most ? (size_t)((double)t->area[i] / width) : BINS - 1]++;
    curve->bars = true;
    curve->mark = (double)least;
    snprintf(curve->title, sizeof curve->title,
             "Areas of all regions (the last bar: and larger), and min_area %lld%s",
             (long long)least, min_given ? ", as given" : "");
    if (contrast)
        snprintf(below, sizeof below, ", min_contrast below %lld", (long long)full);
    if (differ)
        snprintf(out->why, sizeof out->why,
                 "%sPictures differ, so window, min_area and full_area are found from each "
                 "picture's own cells. Typical cell of all together: %lld pixels.",
                 why, (long long)t->typical);
    else
        snprintf(
            out->why, sizeof out->why,
            "%sTypical cell: %lld pixels (half of all cell area lies in larger ones). min_area "
            "%lld%s%s.",
            why, (long long)t->typical, (long long)least, min_given ? ", as given" : "", below);
    if (!min_given && !differ && out->doubt[0] == '\0')
        return_if_error(report_small_kind(out, pictures, parameters, t, least, err));
    if (differ && json_object_get(out->parameters, "window") != NULL)
        return_if_error(an_suggest_value(out, given, "window", json_string("auto"), err));
    return_if_error(an_suggest_value(out, given, "min_area",
                                     differ ? json_string("auto") : json_integer(least), err));
    return an_suggest_value(out, given, "min_contrast",
                            json_pack("{s:o, s:i}", "full_area",
                                      differ ? json_string("auto") : json_integer(full), "percent",
                                      (int)CONTRAST_PERCENT),
                            err);
}

/* --- colonies on dishes ---------------------------------------------------------------------- */

/* Sets *dish to whether picture i shows a dish, which is a disc that covers at least 0.3 of the
 * picture and is darker or brighter than Otsu's threshold. A region is taken for a disc if the
 * sides of its box differ by less than a tenth and it fills about pi / 4 = 0.785 of the box. Its
 * outline must be sharp, unlike that of the lit middle of a picture: neighbours across it differ at
 * least three times as much as others. */
static tc_status is_dish(const an_pictures *whole, size_t i, bool *dish, tc_err *err)
{
    static const char *const words[] = { "dark", "bright" };
    const double pixels = (double)whole->items[i].nx * whole->items[i].ny;
    tc_status status = TC_OK;
    *dish = false;
    for (size_t k = 0; status == TC_OK && !*dish && k < 2; k++) {
        json_t *const parameters =
            json_pack("{s:s, s:b, s:b, s:i}", "polarity", words[k], "labels", 1, "fill_holes", 1,
                      "min_area", (int)(0.3 * pixels + 1));
        wu_output found = { .n = 0 };
        status = parameters == NULL
                     ? tc_no_memory(err, "a suggestion")
                     : an_try_parameters(&an_cellcount, whole, i, parameters, &found, err);
        if (status == TC_OK) {
            const wu_out_array *const areas = wu_output_find(&found, "region_area");
            const bool sharp = sharpness(&whole->pixels[i], labels_of(&found)) >=
                               3 * sharpness(&whole->pixels[i], NULL);
            const int64_t *const area = areas->data, *const b =
                                                         wu_output_data(&found, "region_bbox");
            for (size_t r = 0; r < (size_t)areas->info.shape[0]; r++) {
                const double height = (double)(b[4 * r + 2] - b[4 * r]),
                             width = (double)(b[4 * r + 3] - b[4 * r + 1]),
                             fill = (double)area[r] / (height * width);
                *dish = *dish || (sharp && fill > 0.74 && fill < 0.82 && height < 1.1 * width &&
                                  width < 1.1 * height);
            }
        }
        wu_output_free(&found);
        json_decref(parameters);
    }
    return status;
}

/* Sets *dishes to whether most pictures show a dish and have a typical area that colonies may have,
 * which is less than a hundredth of the picture. */
static tc_status find_dishes(const an_pictures *pictures, int64_t typical, bool *dishes,
                             tc_err *err)
{
    size_t votes = 0;
    tc_status status = TC_OK;
    for (size_t i = 0; status == TC_OK && pictures->whole != NULL && i < pictures->n; i++) {
        bool dish;
        status = is_dish(pictures->whole, i, &dish, err);
        votes += dish && typical < (int64_t)pictures->items[i].nx * pictures->items[i].ny / 100;
    }
    *dishes = status == TC_OK && 2 * votes > pictures->n;
    return status;
}

/* --- light ----------------------------------------------------------------------------------- */

static void free_trials(trial trials[3])
{
    for (size_t k = 0; k < 3; k++)
        free(trials[k].area);
}

/* Adds to the parameters a background that evens out the light. */
static tc_status add_background(json_t *parameters, tc_err *err)
{
    return json_object_set_new(parameters, "background",
                               json_pack("{s:s, s:i, s:s}", "method", "lines", "radius",
                                         (int)EVEN_RADIUS, "by", "ratio")) == 0
               ? TC_OK
               : tc_no_memory(err, "a suggestion");
}

/* Analyses the pictures without (index 0) and with (1) evened light, and chooses a polarity for
 * each. Sets *uneven to whether, in most pictures, evened light makes the outlines `sharper`: in
 * uneven light, a threshold for the whole picture also outlines parts of the background. On success
 * and failure, the caller frees the trials. */
static tc_status compare_light(const an_pictures *pictures, const json_t *parameters,
                               trial trials[2][3], size_t best[2], bool *uneven, tc_err *err)
{
    /* With a given polarity that is wrong, and with filled holes, the only region may be the whole
     * picture, which has no outline. */
    const bool is_polarity_given = json_object_get(parameters, "polarity") != NULL;
    size_t votes = 0;
    memset(trials, 0, 2 * sizeof *trials);
    for (size_t k = 0; k < 2; k++) {
        json_auto_t *copy = json_deep_copy(parameters);
        if (copy == NULL)
            return tc_no_memory(err, "a suggestion");
        if (k == 1)
            return_if_error(add_background(copy, err));
        return_if_error(choose_polarity(pictures, copy, trials[k], &best[k], err));
    }
    for (size_t i = 0; i < pictures->n; i++)
        votes += trials[1][best[1]].sharp[i] > sharper * trials[0][best[0]].sharp[i] &&
                 (trials[0][best[0]].sharp[i] > 0 || !is_polarity_given);
    *uneven = 2 * votes > pictures->n;
    return TC_OK;
}

/* Sets *uneven to what compare_light finds in the complete pictures. Pictures of dishes, whose rims
 * would be compared, are not judged. */
static tc_status compare_whole(const an_pictures *whole, const json_t *parameters, bool *uneven,
                               tc_err *err)
{
    trial trials[2][3];
    size_t best[2], dishes = 0;
    for (size_t i = 0; i < whole->n; i++) {
        bool dish;
        return_if_error(is_dish(whole, i, &dish, err));
        dishes += dish;
    }
    if (2 * dishes > whole->n)
        return TC_OK;
    const tc_status status = compare_light(whole, parameters, trials, best, uneven, err);
    free_trials(trials[0]);
    free_trials(trials[1]);
    return status;
}

/* Whether some pictures may be only parts of larger ones. */
static bool are_parts(const an_pictures *pictures)
{
    size_t i = 0;
    while (i < pictures->n && pictures->items[i].nx < AN_MIDDLE_SIDE &&
           pictures->items[i].ny < AN_MIDDLE_SIDE)
        i++;
    return pictures->whole != NULL && i < pictures->n;
}

/* Chooses the polarity, and sets it in the parameters and *best. Sets *uneven to whether cells are
 * dark, or were taken for dark, and the light is uneven. If so, adds a background to the
 * parameters, with which the polarity is chosen. Sets the trials with each polarity; their
 * thresholds are those without a background. */
static tc_status choose_light(const an_pictures *pictures, json_t *parameters, trial trials[3],
                              size_t *best, bool *uneven, tc_err *err)
{
    static const char *const words[] = { "dark", "bright", "auto" };
    static const char *const keys[] = { "threshold", "background", "classes", "scale", NULL };
    trial found[2][3];
    size_t polarity[2] = { CC_DARK, CC_DARK };
    *uneven = false;
    if (is_given(parameters, keys))
        return choose_polarity(pictures, parameters, trials, best, err);
    tc_status status = compare_light(pictures, parameters, found, polarity, uneven, err);
    if (status == TC_OK && !*uneven && are_parts(pictures))
        status = compare_whole(pictures->whole, parameters, uneven, err);
    *uneven =
        *uneven && polarity[1] != CC_AUTO && (polarity[0] == CC_DARK || polarity[1] == CC_DARK);
    *best = polarity[*uneven];
    for (size_t k = 0; k < 3; k++) {
        trials[k] = found[*uneven][k];
        memcpy(trials[k].threshold, found[0][k].threshold, sizeof trials[k].threshold);
    }
    free_trials(found[!*uneven]);
    if (status == TC_OK && *uneven)
        status = add_background(parameters, err);
    if (status == TC_OK &&
        json_object_set_new(parameters, "polarity", json_string(words[*best])) != 0)
        status = tc_no_memory(err, "a suggestion");
    return status;
}

/* Returns the greatest difference, over all pictures, between two grey values of the same picture.
 */
static int64_t find_contrast(const an_pictures *pictures)
{
    int64_t most = 0;
    for (size_t i = 0; i < pictures->n; i++) {
        const wu_pixels *const p = &pictures->pixels[i];
        uint32_t lo = UINT32_MAX, hi = 0;
        for (size_t k = 0; k < (size_t)p->nx * p->ny; k++) {
            const uint32_t v = wu_grey_value(p, k);
            lo = v < lo ? v : lo;
            hi = v > hi ? v : hi;
        }
        most = hi - lo > most ? hi - lo : most;
    }
    return most;
}

/* The min_area to suggest for colonies of this typical area. */
static int64_t dish_least(int64_t typical)
{
    return round_off(typical / 4 + 1);
}

/* Suggests parameters for colonies on a dish. Colonies are round and have far more contrast than
 * the dish's rim, print and reflections; where two colonies touch, there is less contrast. */
static tc_status suggest_dish(an_suggestion *out, const an_pictures *pictures, const json_t *given,
                              int64_t typical, tc_err *err)
{
    /* d: the diameter of a colony. smooth: a tenth of it, rounded to a multiple of 0.5; window: 3.6
     * times it. Both are then limited to the ranges that are suggested or allowed. */
    const double d = cc_diameter(typical), smooth = floor(0.2 * d + 0.5) / 2;
    const int64_t window = 2 * (int64_t)(1.8 * d) + 1, least = dish_least(typical);
    snprintf(
        out->why, sizeof out->why,
        "Colonies on a dish, of about %lld pixels each. What is not compact or hardly stands out "
        "is "
        "left out (min_fill, max_aspect, min_area %lld), such as rims and print. Colonies that "
        "touch are split where they stand out least. No holes are filled, as the rim encloses one.",
        (long long)typical, (long long)least);
    const struct {
        const char *key;
        json_t *value;
    } all[] = { { "smooth", json_real(smooth < 0.5  ? 0.5
                                      : smooth > 10 ? 10
                                                    : smooth) },
                { "fill_holes", json_false() },
                { "threshold", json_string("local") },
                { "window",
                  json_integer(window < 2 * CC_MOST_RADIUS + 1 ? window > 3 ? window : 3
                                                               : 2 * CC_MOST_RADIUS + 1) },
                { "offset_percent", json_integer(80) },
                { "split", json_string("intensity") },
                { "h", json_integer(find_contrast(pictures) / 20) },
                { "min_fill", json_real(0.65) },
                { "max_aspect", json_real(1.7) },
                { "min_area", json_integer(least) } };
    tc_status status = TC_OK;
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
        if (status == TC_OK)
            status = an_suggest_value(out, given, all[k].key, all[k].value, err);
        else
            json_decref(all[k].value);
    json_object_del(out->parameters, "classes");
    json_object_del(out->parameters, "background");
    out->doubt[0] = '\0';
    out->each_doubt = NULL;
    return status;
}

/* If the min_area that would be suggested (`least`) is greater than the given max_area, removes the
 * regions larger than max_area from the trial, so that min_area is computed from the smaller ones.
 */
static void keep_to_max_area(trial *t, int64_t least, const json_t *given)
{
    const json_t *const most = json_object_get(given, "max_area");
    if (!json_is_integer(most) || least <= json_integer_value(most))
        return;
    while (t->n > 0 && t->area[t->n - 1] > json_integer_value(most))
        t->n--;
    t->typical = cc_area_quantile(t->area, t->n, 1, 2);
}

/* Suggests the parameters that suit nearly all pictures: smooth, fill_holes and split. Sets *local
 * to whether the user has asked for a local threshold. Sets *parameters, which the caller frees, to
 * the parameters for trials: the given and the suggested ones without filters. In a trial with the
 * wrong polarity, a filter would remove the connected background, and the small spaces between
 * cells would be taken for cells. */
static tc_status suggest_usual(const json_t *given, an_suggestion *out, bool *local,
                               json_t **parameters, tc_err *err)
{
    static const char *const keys[] = { "window", "offset", "offset_percent", NULL };
    static const char *const filters[] = { "min_area", "max_area",   "exclude_border",
                                           "min_fill", "max_aspect", "min_contrast" };
    *local = is_local(given) || (is_given(given, keys) && !json_object_get(given, "threshold"));
    tc_status status = an_suggest_value(out, given, "smooth", json_integer(1), err);
    if (status == TC_OK)
        status = an_suggest_value(out, given, "fill_holes", json_true(), err);
    if (status == TC_OK)
        status = an_suggest_value(out, given, "split", json_string("distance"), err);
    *parameters = json_deep_copy(given);
    return_if_error(status);
    if (*parameters == NULL || json_object_update_missing(*parameters, out->parameters) != 0 ||
        json_object_set_new(*parameters, "labels", json_true()) != 0)
        return tc_no_memory(err, "a suggestion");
    for (size_t k = 0; k < sizeof filters / sizeof *filters; k++)
        json_object_del(*parameters, filters[k]);
    /* The polarity is found with Otsu's threshold, so the keys of a local threshold are removed
     * here; cc_suggest adds them again later. */
    if (*local) {
        json_object_del(*parameters, "threshold");
        for (size_t k = 0; keys[k] != NULL; k++)
            json_object_del(*parameters, keys[k]);
    }
    return TC_OK;
}

tc_status cc_suggest(const an_pictures *pictures, const json_t *given, an_suggestion *out,
                     tc_err *err)
{
    static const char *const local_keys[] = { "threshold", "window", "offset", "offset_percent" };
    trial trials[3] = { { .n = 0 } }, last = { .n = 0 };
    json_t *parameters = NULL;
    size_t best = CC_DARK;
    bool local = false, dishes = false, uneven = false;
    char why[400] = "";
    tc_status status = suggest_usual(given, out, &local, &parameters, err);
    if (status == TC_OK)
        status = choose_light(pictures, parameters, trials, &best, &uneven, err);
    if (status == TC_OK)
        status = find_touching(pictures, given, out, parameters, trials, &best, err);
    if (status == TC_OK)
        status = an_suggest_value(out, given, "polarity",
                                  json_incref(json_object_get(parameters, "polarity")), err);
    if (status == TC_OK && json_object_get(given, "polarity") == NULL)
        explain_polarity(trials, best, why, sizeof why);
    const size_t n_why = strlen(why); /* choose_threshold appends its sentence here */
    for (size_t i = 0; status == TC_OK && i < pictures->n && i + 1 < AN_MAX_CURVES; i++)
        status = add_greys(out, pictures, i, trials[best].threshold[i], err);
    for (size_t k = 0; status == TC_OK && k < 4; k++) {
        json_t *const value = json_object_get(given, local_keys[k]);
        if (value != NULL && json_object_set(parameters, local_keys[k], value) != 0)
            status = tc_no_memory(err, "a suggestion");
    }
    if (status == TC_OK && uneven && best == CC_DARK && !local) {
        snprintf(why + n_why, sizeof why - n_why,
                 "background: the light is uneven; with it evened out, outlines are sharper. ");
        status = an_suggest_value(out, given, "background",
                                  json_incref(json_object_get(parameters, "background")), err);
    } else if (status == TC_OK)
        status = choose_threshold(out, pictures, given, parameters, best, local, &trials[best],
                                  why + n_why, sizeof why - n_why, err);
    if (uneven) /* if it is suggested, it is added again from out->parameters */
        json_object_del(parameters, "background");
    if (status == TC_OK && json_object_update(parameters, out->parameters) != 0)
        status = tc_no_memory(err, "a suggestion");
    if (status == TC_OK)
        status = try_all(pictures, parameters, NULL, NULL, &last, err);
    /* If no regions are found, pictures may be blank: a local threshold is not suggested. */
    for (size_t k = 0; status == TC_OK && last.n == 0 && k < 4; k++)
        json_object_del(out->parameters, local_keys[k]);
    if (status == TC_OK && last.n > 0)
        status = find_dishes(pictures, last.typical, &dishes, err);
    if (status == TC_OK && last.n > 0)
        keep_to_max_area(
            &last, dishes ? dish_least(last.typical) : least_area(&last, best != CC_DARK), given);
    if (status == TC_OK && dishes && last.n > 0)
        status = suggest_dish(out, pictures, given, last.typical, err);
    else if (status == TC_OK && last.n > 0) {
        const bool differ = report_differences(out, pictures, &last) ||
                            (best == CC_AUTO && json_object_get(given, "polarity") == NULL);
        status =
            add_area(out, pictures, given, parameters, &last, best == CC_DARK, differ, why, err);
    }
    for (size_t k = 0; k < 3; k++)
        free(trials[k].area);
    free(last.area);
    json_decref(parameters);
    return status;
}
