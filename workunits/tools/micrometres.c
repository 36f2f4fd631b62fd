/* Converts parameters that are given in micrometres into pixels. */
#include "workunits/tools/micrometres.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "workunits/tools/tools.h"

/* --- measures -------------------------------------------------------------------------------- */

/* A length, area or volume given by the user. */
typedef struct um_measure {
    double um; /* the value, in micrometres to the power of `power` */
    int power; /* 1: a length, 2: an area, 3: a volume */
} um_measure;

/* Reads a measure such as "12um", "50 um2" or "0.1mm^2". Returns false if the text is no measure.
 */
static bool read_measure(const char *text, um_measure *out)
{
    static const struct {
        const char *name;
        double um;
    } units[] = {
        { "um", 1 }, { "\xc2\xb5m", 1 }, { "\xce\xbcm", 1 }, { "nm", 1e-3 }, { "mm", 1e3 },
    };
    /* The spellings of powers 1, 2 and 3; the last ones are superscript digits in UTF-8. */
    static const char *const powers[][3] = { { "", "2", "3" },
                                             { "", "^2", "^3" },
                                             { "", "\xc2\xb2", "\xc2\xb3" } };
    char *at = NULL;
    const double value = strtod(text, &at);
    if (at == text || !isfinite(value))
        return false;
    while (*at == ' ')
        at++;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        const size_t n = strlen(units[i].name);
        for (size_t k = 0; strncmp(at, units[i].name, n) == 0 && k < 9; k++) /* 9: all of powers */
            if (strcmp(at + n, powers[k / 3][k % 3]) == 0) {
                out->power = (int)(k % 3) + 1;
                out->um = value;
                for (int p = 0; p < out->power; p++)
                    out->um *= units[i].um;
                return true;
            }
    }
    return false;
}

/* Whether the parameter's value is a measure in micrometres; if so, sets *out to it. */
static bool is_measured(const an_param *param, const json_t *value, um_measure *out)
{
    return param->measure != AN_NO_MEASURE && json_is_string(value) &&
           read_measure(json_string_value(value), out);
}

bool wu_has_micrometres(const an_param *table, const json_t *parameters)
{
    um_measure m;
    for (const an_param *p = table; p->key != NULL; p++) {
        const json_t *const value = json_object_get(parameters, p->key);
        if (is_measured(p, value, &m) ||
            (p->type == AN_OBJECT && json_is_object(value) && wu_has_micrometres(p->keys, value)))
            return true;
    }
    return false;
}

/* --- conversion to pixels -------------------------------------------------------------------- */

/* Whether two sizes differ by at most 1 % of b. */
static bool about_equal(double a, double b)
{
    return fabs(a - b) <= 0.01 * b;
}

/* Checks that pixels have the same size in all items, and sets *example to an item with this size.
 * given_text: the parameter and its value, for messages. */
static tc_status find_size(const wu_sources *sources, const char *given_text,
                           const wu_source **example, tc_err *err)
{
    const wu_source *first = NULL;
    for (size_t i = 0; i < sources->n; i++) {
        const wu_source *const item = &sources->items[i];
        if (item->fault != NULL)
            continue;
        if (item->um[2] == 0)
            return tc_fail(
                err, TC_BAD_INPUT,
                "%s: does not say how large a pixel is, which %s needs; give --spacing %sY,X in "
                "micrometres, or pixels",
                item->pages.files[0], given_text, item->is_stack ? "Z," : "");
        first = first == NULL ? item : first;
        for (int k = 0; k < 3; k++)
            if (!about_equal(item->um[k], first->um[k]))
                return tc_fail(
                    err, TC_BAD_INPUT,
                    "%s: a pixel has %g, %g micrometres (y, x), but in %s %g, %g, so %s is not the "
                    "same number of pixels; pack these files into separate work units",
                    item->pages.files[0], item->um[1], item->um[2], first->pages.files[0],
                    first->um[1], first->um[2], given_text);
    }
    *example = first;
    return first != NULL ? TC_OK
                         : tc_fail(err, TC_BAD_INPUT, "pack: no input is left that can be used");
}

/* Sets *pixel to the length, area or volume in micrometres that is 1 in the unit of the parameter
 * p. */
static tc_status pixel_of(const an_param *p, const wu_source *item, double *pixel, tc_err *err)
{
    const double z = item->is_stack ? item->um[0] : item->um[2], y = item->um[1], x = item->um[2];
    const double shortest_side = fmin(z, fmin(y, x));
    /* In stacks, AN_LENGTH_SPACED is in the unit of the spacing, which is the micrometre. */
    const bool spaced = p->measure == AN_LENGTH_SPACED && item->is_stack;
    *pixel = p->measure == AN_AREA     ? y * x
             : p->measure == AN_VOLUME ? z * y * x
             : spaced                  ? 1
                                       : shortest_side;
    if ((p->measure == AN_LENGTH || (p->measure == AN_LENGTH_SPACED && !spaced)) &&
        !(about_equal(y, x) && about_equal(z, x)))
        return tc_fail(
            err, TC_BAD_INPUT,
            "%s: a pixel has different lengths along the axes (%g, %g, %g micrometres): give %s in "
            "pixels",
            item->pages.files[0], z, y, x, p->key);
    return TC_OK;
}

/* Rounds to six significant digits, as measures are not more exact. */
static double round_to_digits(double value)
{
    char text[32];
    snprintf(text, sizeof text, "%.6g", value);
    return strtod(text, NULL);
}

/* Replaces the value of parameter p, which is the measure m, by a number of pixels. */
static tc_status replace_one(const an_param *p, json_t *parameters, const um_measure *m,
                             const wu_sources *sources, tc_err *err)
{
    const int power = p->measure == AN_AREA ? 2 : p->measure == AN_VOLUME ? 3 : 1;
    static const char *const kinds[] = { "a length", "an area", "a volume" }, *const powers[] = {
        "", "2", "3"
    };
    const wu_source *item = NULL;
    double pixel = 1;
    char given_text[80];
    const char *const text = json_string_value(json_object_get(parameters, p->key));
    snprintf(given_text, sizeof given_text, "%s \"%.40s\"", p->key, text);
    if (m->power != power)
        /* Shows the value with the right unit: "12um2" for an area. */
        return tc_fail(err, TC_BAD_INPUT, "pack: parameters: %s: it is %s: %.*s%s", given_text,
                       kinds[power - 1], (int)(strrchr(text, 'm') + 1 - text), text,
                       powers[power - 1]);
    return_if_error(find_size(sources, given_text, &item, err));
    return_if_error(pixel_of(p, item, &pixel, err));
    const double value = round_to_digits(m->um / pixel);
    if (!isfinite(value))
        return tc_fail(err, TC_BAD_INPUT, "pack: parameters: %s: is too large", given_text);
    /* Below 1e15, a double represents every integer exactly. */
    const bool whole = p->type == AN_INT && fabs(value) < 1e15;
    wu_print_note("%s: %g %s", given_text, whole ? floor(value + 0.5) : value,
                  p->measure == AN_LENGTH_SPACED && item->is_stack ? "in the unit of spacing"
                  : item->is_stack                                 ? "voxels"
                                                                   : "pixels");
    json_t *const number = whole ? json_integer((json_int_t)floor(value + 0.5)) : json_real(value);
    return json_object_set_new(parameters, p->key, number) == 0 ? TC_OK
                                                                : tc_no_memory(err, "parameters");
}

tc_status wu_micrometres_to_pixels(const an_param *table, json_t *parameters,
                                   const wu_sources *sources, tc_err *err)
{
    assert(json_is_object(parameters));
    um_measure m;
    for (const an_param *p = table; p->key != NULL; p++) {
        json_t *const value = json_object_get(parameters, p->key);
        if (is_measured(p, value, &m))
            return_if_error(replace_one(p, parameters, &m, sources, err));
        else if (p->type == AN_OBJECT && json_is_object(value))
            return_if_error(wu_micrometres_to_pixels(p->keys, value, sources, err));
    }
    return TC_OK;
}
