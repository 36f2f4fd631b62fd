/* Unit tests of reading the parameters of analyses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "app/analysis/analyses.h"
#include "app/analysis/glcm/glcm.h"
#include "app/analysis/selftest.h"

static tc_err err;

/* Returns the parameters; NULL if they are refused, with a printable message in err. */
static void *read_any(const an_analysis *analysis, const json_t *json)
{
    void *params = NULL;
    tc_status status;

    assert_non_null(json);
    err.message[0] = '\0';
    status = an_parse_params(analysis, json, "F: p", &params, &err);
    assert_true(status == TC_OK || status == TC_BAD_INPUT);
    assert_int_equal(status == TC_OK, params != NULL);
    assert_int_equal(status == TC_OK, err.message[0] == '\0');
    for (const char *c = err.message; *c != '\0'; c++)
        assert_in_range(*c, ' ', '~');
    return params;
}

static glcm_params *read(const char *text)
{
    json_t *const json = json_loads(text, 0, NULL);
    glcm_params *const p = read_any(&an_glcm, json);

    json_decref(json);
    return p;
}

static void drop(glcm_params *p)
{
    void *params = p;

    an_params_free(&an_glcm, &params);
    assert_null(params);
}

static char *text_of(const glcm_params *p)
{
    json_t *const json = an_params_as_run(p);
    char *text;

    assert_non_null(json);
    text = json_dumps(json, JSON_SORT_KEYS | JSON_COMPACT);
    json_decref(json);
    assert_non_null(text);
    return text;
}

/* Checks that parameters are the same after they were read, written as `run` writes them, and read
 * again. */
static void check_round_trip(const char *text)
{
    glcm_params *p = read(text), *again;
    char *first, *second;

    assert_non_null(p);
    first = text_of(p);
    again = read(first);
    assert_non_null(again);
    second = text_of(again);
    assert_string_equal(first, second);
    assert_int_equal(p->n_offsets, again->n_offsets);
    assert_memory_equal(p->offsets, again->offsets, p->n_offsets * sizeof *p->offsets);
    assert_int_equal(p->n_maps, again->n_maps);
    assert_memory_equal(p->maps, again->maps, sizeof p->maps);
    free(first);
    free(second);
    drop(p);
    drop(again);
}

static void check_refused(const char *text, const char *message)
{
    glcm_params *const p = read(text);

    if (p != NULL)
        fail_msg("accepted: %s", text);
    assert_string_equal(err.message, message);
}

static void check_accepted(const char *text)
{
    glcm_params *const p = read(text);

    if (p == NULL)
        fail_msg("%s: %s", text, err.message);
    drop(p);
    check_round_trip(text);
}

static void applies_defaults(void **state)
{
    glcm_params *const p = read("{}");

    (void)state;
    assert_non_null(p);
    assert_int_equal(p->n_levels, 3);
    assert_int_equal(p->levels[0], 16);
    assert_int_equal(p->levels[1], 32);
    assert_int_equal(p->levels[2], 64);
    assert_int_equal(p->range, GLCM_RANGE_TYPE);
    assert_int_equal(p->window, GLCM_DISC);
    assert_int_equal(p->radius, 16);
    assert_int_equal(p->n_distances, 25);
    assert_int_equal(p->distances[0], 1);
    assert_int_equal(p->distances[24], 25);
    assert_false(p->four_directions);
    assert_int_equal(p->roi, GLCM_ROI_ALL);
    assert_false(p->per_offset);
    assert_int_equal(p->n_maps, 0);
    assert_int_equal(p->n_offsets, 1026);
    drop(p);
    check_round_trip("{}");
}

static void applies_preset(void **state)
{
    glcm_params *p = read("{\"preset\":\"hcc\"}");

    (void)state;
    assert_non_null(p);
    assert_int_equal(p->n_levels, 3);
    assert_int_equal(p->n_offsets, 1026);
    assert_int_equal(p->roi, GLCM_ROI_DISC);
    assert_true(p->roi_centred);
    assert_int_equal(p->roi_r, 84);
    drop(p);
    /* Keys next to the preset override it in any order. */
    p = read(
        "{\"levels\":[8],\"roi\":{\"type\":\"disc\",\"cx\":9,\"cy\":7,\"r\":5},\"preset\":\"hcc\","
        "\"distances\":[3,1],\"directions\":\"four\",\"per_offset\":true,\"range\":[5,5]}");
    assert_non_null(p);
    assert_int_equal(p->n_levels, 1);
    assert_int_equal(p->levels[0], 8);
    assert_int_equal(p->roi, GLCM_ROI_DISC);
    assert_false(p->roi_centred);
    assert_int_equal(p->roi_cx, 9);
    assert_int_equal(p->roi_cy, 7);
    assert_int_equal(p->roi_r, 5);
    assert_int_equal(p->n_offsets, 8);
    assert_true(p->four_directions);
    assert_true(p->per_offset);
    assert_int_equal(p->range, GLCM_RANGE_FIXED);
    assert_int_equal(p->range_ends[0], 5);
    assert_int_equal(p->range_ends[1], 5);
    assert_int_equal(p->window, GLCM_DISC);
    assert_int_equal(p->radius, 16);
    drop(p);
    check_round_trip("{\"preset\":\"hcc\"}");
    check_round_trip("{\"preset\":\"hcc\",\"roi\":{\"type\":\"all\"}}");
}

/* A distance has all offsets whose length rounds to it, but only one of two opposite ones. So the
 * offsets of the distances 1..d fill a half disc. */
static void finds_offsets(void **state)
{
    (void)state;
    for (int d = 1; d <= GLCM_MAX_DISTANCE; d += d < 30 ? 1 : 25) {
        char text[64];
        glcm_params *p;
        size_t want = 0;

        snprintf(text, sizeof text, "{\"distances\":[%d]}", d);
        p = read(text);
        assert_non_null(p);
        for (int dy = -d - 1; dy <= d + 1; dy++)
            for (int dx = -d - 1; dx <= d + 1; dx++) {
                const int q = 4 * (dx * dx + dy * dy);

                want += q >= (2 * d - 1) * (2 * d - 1) && q < (2 * d + 1) * (2 * d + 1);
            }
        assert_int_equal(2 * p->n_offsets, want);
        for (size_t i = 0; i < p->n_offsets; i++) {
            const glcm_offset *const o = &p->offsets[i];

            assert_true(o->dy > 0 || (o->dy == 0 && o->dx > 0));
            assert_int_equal(o->distance, 0);
            assert_true(i == 0 || o[-1].dy < o->dy || (o[-1].dy == o->dy && o[-1].dx < o->dx));
        }
        drop(p);
    }
}

static void checks_limits(void **state)
{
    (void)state;
    check_accepted("{\"levels\":[2,256]}");
    check_accepted("{\"levels\":[2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]}");
    check_accepted("{\"range\":[0,65535]}");
    check_accepted("{\"range\":\"image\"}");
    check_accepted("{\"range\":\"type\"}");
    check_accepted("{\"range\":null}");
    check_accepted("{\"window\":{}}");
    check_accepted("{\"window\":{\"shape\":\"disc\",\"radius\":1}}");
    check_accepted("{\"window\":{\"shape\":\"square\",\"radius\":63}}");
    check_accepted("{\"window\":{\"radius\":3}}");
    check_accepted("{\"window\":{\"shape\":\"roi\"}}");
    check_accepted("{\"distances\":[1,255]}");
    check_accepted("{\"distances\":[255,1],\"directions\":\"four\"}");
    check_accepted("{\"directions\":\"all\"}");
    check_accepted("{\"roi\":{\"type\":\"all\"}}");
    check_accepted("{\"roi\":{\"type\":\"mask\"}}");
    check_accepted("{\"roi\":{\"type\":\"disc\",\"r\":0}}");
    check_accepted("{\"roi\":{\"type\":\"disc\",\"r\":65535,\"cx\":0,\"cy\":65535}}");
    check_accepted("{\"per_offset\":true}");
    check_accepted("{\"maps\":[]}");
    check_accepted("{\"features\":\"ibsi\"}");
    check_accepted("{\"features\":[\"imc2\",\"asm\"]}");
    check_accepted("{\"maps\":[{\"feature\":\"imc2\",\"levels\":64,\"offset\":[-3,4]},"
                   "{\"feature\":\"asm\",\"levels\":16,\"offset\":[25,0]}]}");
}

static void refuses_bad_values(void **state)
{
    static const char features[] =
        "F: p.maps[0].feature: is required: \"asm\", \"contrast\", \"correlation\", \"variance\", "
        "\"idm\", "
        "\"sum_average\", \"sum_variance\", \"sum_entropy\", \"entropy\", \"difference_variance\", "
        "\"difference_entropy\", \"imc1\", \"imc2\", \"joint_maximum\", \"joint_average\", "
        "\"difference_average\", \"inverse_difference\", \"inverse_difference_normalised\", "
        "\"inverse_difference_moment_normalised\", \"inverse_variance\", \"autocorrelation\", "
        "\"cluster_tendency\", "
        "\"cluster_shade\" or \"cluster_prominence\"";
    static const char offset[] =
        "F: p.maps[0].offset: is not one of the offsets of these distances and "
        "directions (dy > 0, or dy = 0 and dx > 0)";
    static const char *const cases[][2] = {
        { "[]", "F: p: must be an object, not a list of length 0" },
        { "{\"level\":[16]}",
          "F: p: unknown key \"level\" (did you mean \"levels\"?); valid keys are "
          "\"preset\", \"levels\", \"range\", "
          "\"window\", \"distances\", \"directions\", \"roi\", \"per_offset\", "
          "\"features\", \"maps\"" },
        { "{\"preset\":\"HCC\"}", "F: p.preset: must be \"hcc\", not \"HCC\"" },
        { "{\"preset\":1}", "F: p.preset: must be \"hcc\", not 1" },
        { "{\"levels\":16}",
          "F: p.levels: must be a list of 1 to 16 different integers from 2 to 256, not 16" },
        { "{\"levels\":[]}", "F: p.levels: must be a list of 1 to 16 different integers from 2 to "
                             "256, not a list of length 0" },
        { "{\"levels\":{}}", "F: p.levels: must be a list of 1 to 16 different integers from 2 to "
                             "256, not an object" },
        { "{\"levels\":null}",
          "F: p.levels: must be a list of 1 to 16 different integers from 2 to 256, not null" },
        { "{\"levels\":[2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18]}",
          "F: p.levels: must be a list of 1 to 16 different integers from 2 to 256, not a list of "
          "length "
          "17" },
        { "{\"levels\":[1]}", "F: p.levels[0]: must be an integer from 2 to 256, not 1" },
        { "{\"levels\":[16,257]}", "F: p.levels[1]: must be an integer from 2 to 256, not 257" },
        { "{\"levels\":[16.0]}", "F: p.levels[0]: must be an integer from 2 to 256, not 16.0" },
        { "{\"levels\":[-16]}", "F: p.levels[0]: must be an integer from 2 to 256, not -16" },
        { "{\"levels\":[4294967312]}",
          "F: p.levels[0]: must be an integer from 2 to 256, not 4294967312" },
        { "{\"levels\":[16,32,16]}", "F: p.levels: 16 appears twice" },
        { "{\"range\":\"full\"}", "F: p.range: must be \"type\", \"image\", null or a list of 2 "
                                  "integers from 0 to 65535, not \"full\"" },
        { "{\"range\":[0]}", "F: p.range: must be \"type\", \"image\", null or a list of 2 "
                             "integers from 0 to 65535, not a list of length 1" },
        { "{\"range\":[0,1,2]}", "F: p.range: must be \"type\", \"image\", null or a list of 2 "
                                 "integers from 0 to 65535, not a list of length 3" },
        { "{\"range\":[1,0]}", "F: p.range: [lo,hi] must have lo <= hi, not [1,0]" },
        { "{\"range\":[-1,5]}", "F: p.range[0]: must be an integer from 0 to 65535, not -1" },
        { "{\"range\":[0,65536]}", "F: p.range[1]: must be an integer from 0 to 65535, not 65536" },
        { "{\"range\":[0,4294967297]}",
          "F: p.range[1]: must be an integer from 0 to 65535, not 4294967297" },
        { "{\"range\":[0.0,5]}", "F: p.range[0]: must be an integer from 0 to 65535, not 0.0" },
        { "{\"range\":7}", "F: p.range: must be \"type\", \"image\", null or a list of 2 integers "
                           "from 0 to 65535, not 7" },
        { "{\"window\":5}", "F: p.window: must be an object {\"KEY\": VALUE}, not 5" },
        { "{\"window\":{\"shape\":\"round\"}}",
          "F: p.window.shape: must be \"disc\", \"square\" or \"roi\", not \"round\"" },
        { "{\"window\":{\"size\":5}}",
          "F: p.window: unknown key \"size\"; valid keys are \"shape\", \"radius\"" },
        { "{\"window\":{\"radius\":0}}",
          "F: p.window.radius: must be an integer from 1 to 63, not 0" },
        { "{\"window\":{\"radius\":64}}",
          "F: p.window.radius: must be an integer from 1 to 63, not 64" },
        { "{\"window\":{\"radius\":null}}",
          "F: p.window.radius: must be an integer from 1 to 63, not null" },
        { "{\"window\":{\"shape\":\"roi\",\"radius\":5}}",
          "F: p.window.radius: goes only with shape \"disc\" or \"square\"" },
        { "{\"distances\":[0]}", "F: p.distances[0]: must be an integer from 1 to 255, not 0" },
        { "{\"distances\":[256]}", "F: p.distances[0]: must be an integer from 1 to 255, not 256" },
        { "{\"distances\":[1,1]}", "F: p.distances: 1 appears twice" },
        { "{\"distances\":[]}", "F: p.distances: must be a list of 1 to 255 different integers "
                                "from 1 to 255, not a list of length 0" },
        { "{\"directions\":\"eight\"}",
          "F: p.directions: must be \"all\" or \"four\", not \"eight\"" },
        { "{\"directions\":[0,45]}",
          "F: p.directions: must be \"all\" or \"four\", not a list of length 2" },
        { "{\"roi\":\"all\"}", "F: p.roi: must be an object {\"KEY\": VALUE}, not \"all\"" },
        { "{\"roi\":{}}", "F: p.roi.type: is required: \"all\", \"disc\" or \"mask\"" },
        { "{\"roi\":{\"type\":\"ring\"}}",
          "F: p.roi.type: must be \"all\", \"disc\" or \"mask\", not \"ring\"" },
        { "{\"roi\":{\"type\":\"all\",\"r\":5}}", "F: p.roi.r: goes only with type \"disc\"" },
        { "{\"roi\":{\"type\":\"mask\",\"cx\":5}}", "F: p.roi.cx: goes only with type \"disc\"" },
        { "{\"roi\":{\"type\":\"disc\"}}", "F: p.roi.r: is required: an integer from 0 to 65535" },
        { "{\"roi\":{\"type\":\"disc\",\"r\":-1}}",
          "F: p.roi.r: must be an integer from 0 to 65535, not -1" },
        { "{\"roi\":{\"type\":\"disc\",\"r\":65536}}",
          "F: p.roi.r: must be an integer from 0 to 65535, not 65536" },
        { "{\"roi\":{\"type\":\"disc\",\"r\":5,\"cx\":5}}", "F: p.roi: cx and cy go together" },
        { "{\"roi\":{\"type\":\"disc\",\"r\":5,\"cy\":5}}", "F: p.roi: cx and cy go together" },
        { "{\"roi\":{\"type\":\"disc\",\"r\":5,\"cx\":-1,\"cy\":0}}",
          "F: p.roi.cx: must be an integer from 0 to 65535, not -1" },
        { "{\"roi\":{\"type\":\"disc\",\"r\":5,\"cx\":0,\"cy\":65536}}",
          "F: p.roi.cy: must be an integer from 0 to 65535, not 65536" },
        { "{\"per_offset\":1}", "F: p.per_offset: must be true or false, not 1" },
        { "{\"maps\":{}}", "F: p.maps: must be a list of at most 256 objects, not an object" },
        { "{\"features\":[\"asm\",\"asm\"]}", "F: p.features: \"asm\" appears twice" },
        { "{\"features\":[\"asm\"],\"maps\":[{\"feature\":\"idm\",\"levels\":16,\"offset\":[1,0]}]"
          "}",
          "F: p.maps[0].feature: idm is not one of the features" },
        { "{\"maps\":null}", "F: p.maps: must be a list of at most 256 objects, not null" },
        { "{\"maps\":[7]}", "F: p.maps[0]: must be an object, not 7" },
        { "{\"maps\":[{}]}", features },
        { "{\"maps\":[{\"feature\":\"asm\",\"levels\":16}]}",
          "F: p.maps[0].offset: is required: a list of 2 integers from -255 to 255" },
        { "{\"maps\":[{\"feature\":\"asm\",\"offset\":[1,0]}]}",
          "F: p.maps[0].levels: is required: an integer from 2 to 256" },
        { "{\"maps\":[{\"levels\":16,\"offset\":[1,0]}]}", features },
        { "{\"maps\":[{\"feature\":\"asm\",\"levels\":16,\"offset\":[1,0,0]}]}",
          "F: p.maps[0].offset: must be a list of 2 integers from -255 to 255, not a list of "
          "length 3" },
        { "{\"maps\":[{\"feature\":\"asm\",\"levels\":16,\"offset\":[1.0,0]}]}",
          "F: p.maps[0].offset[0]: must be an integer from -255 to 255, not 1.0" },
        { "{\"maps\":[{\"feature\":\"asm\",\"levels\":8,\"offset\":[1,0]}]}",
          "F: p.maps[0].levels: 8 is not in the list of levels" },
        { "{\"maps\":[{\"feature\":\"asm\",\"levels\":1,\"offset\":[1,0]}]}",
          "F: p.maps[0].levels: must be an integer from 2 to 256, not 1" },
        { "{\"maps\":[{\"feature\":\"asm\",\"levels\":16,\"offset\":[-1,0]}]}", offset },
        { "{\"maps\":[{\"feature\":\"asm\",\"levels\":16,\"offset\":[26,0]}]}", offset },
        { "{\"maps\":[{\"feature\":\"asm\",\"levels\":16,\"offset\":[4294967297,0]}]}",
          "F: p.maps[0].offset[0]: must be an integer from -255 to 255, not 4294967297" },
        { "{\"directions\":\"four\",\"maps\":[{\"feature\":\"asm\",\"levels\":16,\"offset\":[1,2]}]"
          "}",
          offset },
        { "{\"maps\":[{\"feature\":\"asm\",\"levels\":16,\"offset\":[1,0],\"x\":1}]}",
          "F: p.maps[0]: unknown key \"x\"; valid keys are \"feature\", \"levels\", \"offset\"" },
        { "{\"maps\":[{\"feature\":\"asm\",\"levels\":16,\"offset\":[1,0]},"
          "{\"feature\":\"asm\",\"levels\":16,\"offset\":[1,0]}]}",
          "F: p.maps[1]: appears twice" },
        { "{\"window\":{\"shape\":\"roi\"},\"maps\":[{\"feature\":\"asm\",\"levels\":16,\"offset\":"
          "[1,0]}]}",
          "F: p.maps: a window of shape \"roi\" has no maps" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_refused(cases[i][0], cases[i][1]);
    check_refused(
        "{\"maps\":[{\"feature\":\"energy\",\"levels\":16,\"offset\":[1,0]}]}",
        "F: p.maps[0].feature: must be \"asm\", \"contrast\", \"correlation\", \"variance\", "
        "\"idm\", "
        "\"sum_average\", \"sum_variance\", \"sum_entropy\", \"entropy\", \"difference_variance\", "
        "\"difference_entropy\", \"imc1\", \"imc2\", \"joint_maximum\", \"joint_average\", "
        "\"difference_average\", \"inverse_difference\", \"inverse_difference_normalised\", "
        "\"inverse_difference_moment_normalised\", \"inverse_variance\", \"autocorrelation\", "
        "\"cluster_tendency\", "
        "\"cluster_shade\" or \"cluster_prominence\", not \"energy\"");
}

/* Lists of the largest length are accepted, and longer ones refused. */
static void limits_lengths_of_lists(void **state)
{
    json_t *const object = json_object(), *const list = json_array();
    glcm_params *p;
    char *text;

    (void)state;
    json_object_set_new(object, "levels", json_pack("[i,i]", 16, 32));
    json_object_set_new(object, "maps", list);
    for (int i = 0; i <= GLCM_MAX_MAPS; i++) {
        const int k = i % 26 + 1;

        if (i == GLCM_MAX_MAPS) {
            text = json_dumps(object, JSON_COMPACT);
            check_accepted(text);
            free(text);
        }
        json_array_append_new(
            list, json_pack("{s:s,s:i,s:[ii]}", "feature", cooc_names[i / 26 % 13], "levels",
                            i / 338 == 0 ? 16 : 32, "offset", k == 26 ? -3 : k, k == 26 ? 3 : 0));
    }
    text = json_dumps(object, JSON_COMPACT);
    check_refused(text,
                  "F: p.maps: must be a list of at most 256 objects, not a list of length 257");
    free(text);
    json_decref(object);
    /* With all distances the half disc of radius 255.5 has too many offsets. */
    {
        json_t *const all = json_object(), *const distances = json_array();

        for (int d = 1; d <= 203; d++)
            json_array_append_new(distances, json_integer(d));
        json_object_set_new(all, "distances", distances);
        text = json_dumps(all, JSON_COMPACT);
        p = read(text);
        free(text);
        assert_non_null(p);
        assert_in_range(p->n_offsets, 60000, GLCM_MAX_OFFSETS);
        drop(p);
        for (int d = 204; d <= 255; d++)
            json_array_append_new(distances, json_integer(d));
        text = json_dumps(all, JSON_COMPACT);
        assert_null(read(text));
        assert_non_null(strstr(err.message, "F: p.distances: they have "));
        assert_non_null(strstr(err.message, " offsets together; at most 65536 are allowed"));
        free(text);
        json_decref(all);
    }
}

/* --- every key of every analysis ------------------------------------------------------------- */

/* A key in the parameters of a self-test: object[p->key]. */
typedef struct key_place {
    const an_analysis *analysis;
    json_t *all, *object;
    const an_param *keys, *p;
    char path[192];
} key_place;

/* Checks that the parameters with another value of the key are refused with this message. value:
 * its reference is taken; NULL removes the key. */
static void check_bad_value(const key_place *at, json_t *value, const char *message)
{
    json_t *const before = json_incref(json_object_get(at->object, at->p->key));
    void *params;

    if (value == NULL)
        json_object_del(at->object, at->p->key);
    else
        json_object_set_new(at->object, at->p->key, value);
    params = read_any(at->analysis, at->all);
    if (params != NULL)
        fail_msg("%s.%s: accepted", at->analysis->name, at->path);
    assert_string_equal(err.message, message);
    json_object_del(at->object, at->p->key);
    if (before != NULL)
        json_object_set_new(at->object, at->p->key, before);
}

static void check_wrong_value(const key_place *at, json_t *value, const char *shown)
{
    char message[TC_ERR_MAX];

    snprintf(message, sizeof message, "F: p.%s: must be %s%s, not %s", at->path,
             an_value_in_words(at->p).text, at->p->type == AN_OBJECT ? " {\"KEY\": VALUE}" : "",
             shown);
    check_bad_value(at, value, message);
}

static void check_misspelt_key(const key_place *at)
{
    char key[64], message[TC_ERR_MAX];
    const int outer = (int)strlen(at->path) - (int)strlen(at->p->key) - 1;

    snprintf(key, sizeof key, "%s\n\x1b", at->p->key);
    json_object_set_new(at->object, key, json_null());
    assert_null(read_any(at->analysis, at->all));
    json_object_del(at->object, key);
    snprintf(
        message, sizeof message, "F: p%s%.*s: unknown key \"%s\?\?\"%s%s%s; valid keys are \"%s\"",
        outer > 0 ? "." : "", outer > 0 ? outer : 0, at->path, at->p->key,
        strlen(at->p->key) > 3 ? " (did you mean \"" : "", strlen(at->p->key) > 3 ? at->p->key : "",
        strlen(at->p->key) > 3 ? "\"?)" : "", at->keys->key);
    if (strncmp(err.message, message, strlen(message)) != 0)
        fail_msg("%s, not %s", err.message, message);
}

/* Reads the parameters without the key, and without other keys that are errors then, such as
 * glcm's maps if levels are missing. */
static void *read_without(const key_place *at)
{
    json_t *const rest = json_copy(at->all);
    char other[32];
    void *params;

    json_object_del(rest, at->p->key);
    params = read_any(at->analysis, rest);
    while (params == NULL && sscanf(err.message, "F: p.%31[a-z_]", other) == 1 &&
           json_object_del(rest, other) == 0)
        params = read_any(at->analysis, rest);
    json_decref(rest);
    return params;
}

/* Checks that the default is used without the key, or that the message says that it is required. */
static void check_missing_key(const key_place *at)
{
    json_t *const value = json_incref(json_object_get(at->object, at->p->key));
    char message[TC_ERR_MAX];
    void *params;

    snprintf(message, sizeof message, "F: p.%s: is required: %s", at->path,
             an_value_in_words(at->p).text);
    if (at->p->default_value == NULL && at->p->type != AN_PRESET) {
        check_bad_value(at, NULL, message);
    } else if (at->object == at->all && at->p->type != AN_PRESET) {
        json_t *as_run, *want = an_parse_default(at->p->default_value);

        params = read_without(at);
        if (params == NULL)
            fail_msg("%s without %s: %s", at->analysis->name, at->path, err.message);
        as_run = an_params_as_run(params);
        if (at->p->default_value[0] == '\0' || at->p->only_if_given)
            assert_null(json_object_get(as_run, at->p->key));
        else if (!json_is_object(want) && !json_equal(json_object_get(as_run, at->p->key), want))
            fail_msg("%s.%s: not its default", at->analysis->name, at->path);
        json_decref(as_run);
        json_decref(want);
        an_params_free(at->analysis, &params);
    }
    json_decref(value);
}

static void check_key(const key_place *at)
{
    const an_param *const p = at->p;
    char shown[64];

    assert_in_range(strlen(p->key), 1, 31);
    check_misspelt_key(at);
    if (p->allowed_choices != 0 && json_object_get(at->object, p->key) == NULL)
        return; /* the key belongs to another choice than the one in the self-test */
    check_missing_key(at);
    check_wrong_value(at, json_string("\x1b[31m\n"), "\"?[31m?\"");
    if (p->type == AN_BOOL)
        check_wrong_value(at, json_integer(1), "1");
    if (p->type == AN_INT || p->type == AN_NUMBER) {
        assert_true(p->min < p->max);
        snprintf(shown, sizeof shown, "%.15g", p->max + 1);
        check_wrong_value(at, json_integer((json_int_t)p->max + 1), shown);
        check_wrong_value(at, json_integer(INT64_MIN), "-9223372036854775808");
    }
    if (p->type == AN_INT)
        check_wrong_value(at, json_real(0.5), "0.5");
    if (p->above_min)
        check_wrong_value(at, json_real(p->min), "0.0");
}

static void check_keys(const key_place *outer)
{
    for (const an_param *p = outer->keys; p->key != NULL; p++) {
        json_t *const value = json_object_get(outer->object, p->key);
        key_place at = *outer;

        at.p = p;
        snprintf(at.path, sizeof at.path, "%.99s%s%.31s", outer->path,
                 outer->path[0] != '\0' ? "." : "", p->key);
        check_key(&at);
        if (p->type == AN_OBJECT && json_is_object(value)) {
            at.object = value;
            at.keys = p->keys;
            check_keys(&at);
        }
    }
}

static void checks_every_key(void **state)
{
    (void)state;
    for (size_t a = 0; an_analyses[a] != NULL; a++) {
        const an_selftest *test = an_analyses[a]->selftests;

        for (; test->parameters != NULL; test++) {
            json_t *const all = json_loads(test->parameters, 0, NULL);
            const key_place outer = { .analysis = an_analyses[a],
                                      .all = all,
                                      .object = all,
                                      .keys = an_analyses[a]->parameters };
            void *params = read_any(an_analyses[a], all), *again;
            json_t *const as_run = an_params_as_run(params);

            check_keys(&outer);
            again = read_any(an_analyses[a], as_run);
            assert_non_null(again);
            assert_true(json_equal(as_run, ((const an_params_head *)again)->as_run));
            json_decref(all);
            json_decref(as_run);
            an_params_free(an_analyses[a], &params);
            an_params_free(an_analyses[a], &again);
        }
    }
}

/* --- allocations that fail -------------------------------------------------------------------- */

static size_t until_failure; /* 1: the next allocation fails, 2: the one after it, ...; 0: none */

static void *malloc_or_fail(size_t size)
{
    return until_failure > 0 && --until_failure == 0 ? NULL : malloc(size);
}

/* If any one allocation of jansson fails, reading fails with TC_NO_MEMORY; no parameter is lost or
 * reported as wrong. */
static void test_each_failure(const an_analysis *analysis, const char *text)
{
    json_t *const json = json_loads(text, 0, NULL);
    bool failed = true;

    assert_non_null(json);
    for (size_t n = 1; failed; n++) {
        void *params = NULL;
        tc_status status;

        until_failure = n;
        status = an_parse_params(analysis, json, "F: p", &params, &err);
        failed = until_failure == 0;
        until_failure = 0;
        if (status != (failed ? TC_NO_MEMORY : TC_OK))
            fail_msg("%s, allocation %zu: %s", analysis->name, n,
                     status == TC_OK ? "taken" : err.message);
        an_params_free(analysis, &params);
    }
    json_decref(json);
}

static void survives_no_memory(void **state)
{
    (void)state;
    json_set_alloc_funcs(malloc_or_fail, free);
    for (size_t a = 0; an_analyses[a] != NULL; a++)
        for (const an_selftest *test = an_analyses[a]->selftests; test->parameters != NULL; test++)
            test_each_failure(an_analyses[a], test->parameters);
    test_each_failure(&an_glcm, "{\"preset\":\"hcc\",\"range\":null}");
    json_set_alloc_funcs(malloc, free);
}

/* A table of parameters that does not fit its struct is reported with the key. The tables of all
 * analyses fit. */
static void reports_unfitting_table(void **unused)
{
    static const char *const words[] = { "a", NULL };
    static const an_param keys[] = { { .key = NULL } };
    static const an_field byte = { 0, 1 }, four = { 0, 4 }, seven = { 0, 7 };
    const an_param odd[] = {
        { .key = "k", .type = AN_INT, .field = byte },
        { .key = "k", .type = AN_NUMBER, .field = four },
        { .key = "k", .type = AN_BOOL, .field = four },
        { .key = "k", .type = AN_CHOICE, .field = four },
        { .key = "k", .type = AN_CHOICE, .field = seven, .choices = words },
        { .key = "k", .type = AN_INTS, .field = byte },
        { .key = "k", .type = AN_WORDS, .field = four },
        { .key = "k", .type = AN_OBJECT },
        { .key = "k", .type = AN_OBJECTS, .field = four, .keys = keys },
        { .key = "k", .type = AN_PRESET, .choices = words },
        { .key = "k of more bytes than messages have room for", .type = AN_BOOL, .field = byte },
    };
    char text[256];

    (void)unused;
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        const an_param table[] = { odd[i], { .key = NULL } };

        assert_non_null(an_params_fault(table, text, sizeof text));
        assert_memory_equal(text, "parameter k ", 12);
    }
    for (size_t i = 0; an_analyses[i] != NULL; i++)
        assert_null(an_params_fault(an_analyses[i]->parameters, text, sizeof text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(applies_defaults),       cmocka_unit_test(applies_preset),
        cmocka_unit_test(finds_offsets),          cmocka_unit_test(checks_limits),
        cmocka_unit_test(refuses_bad_values),     cmocka_unit_test(limits_lengths_of_lists),
        cmocka_unit_test(checks_every_key),       cmocka_unit_test(survives_no_memory),
        cmocka_unit_test(reports_unfitting_table)
    };
    return cmocka_run_group_tests_name("params", tests, NULL, NULL);
}
