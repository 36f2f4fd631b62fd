#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "app/analysis/glcm/glcm.h"

static tc_err err;

/* The parameters, or NULL with the message in err. */
static glcm_params *read(const char *text)
{
    json_t *const json = json_loads(text, 0, NULL);
    void *params = NULL;
    tc_status st;

    assert_non_null(json);
    err.message[0] = '\0';
    st = an_parse(&an_glcm, json, "F: p", &params, &err);
    json_decref(json);
    assert_true(st == TC_OK || st == TC_BAD_INPUT);
    assert_int_equal(st == TC_OK, params != NULL);
    assert_int_equal(st == TC_OK, err.message[0] == '\0');
    return params;
}

static void drop(glcm_params *p)
{
    void *params = p;

    an_params_free(&an_glcm, &params);
    assert_null(params);
}

static char *text_of(const glcm_params *p)
{
    json_t *const json = an_glcm.params_json(p);
    char *text;

    assert_non_null(json);
    text = json_dumps(json, JSON_SORT_KEYS | JSON_COMPACT);
    json_decref(json);
    assert_non_null(text);
    return text;
}

/* The parameters as run, read again, are the same. */
static void survives(const char *text)
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

static void refused(const char *text, const char *message)
{
    glcm_params *const p = read(text);

    if (p != NULL)
        fail_msg("accepted: %s", text);
    assert_string_equal(err.message, message);
}

static void accepted(const char *text)
{
    glcm_params *const p = read(text);

    if (p == NULL)
        fail_msg("%s: %s", text, err.message);
    drop(p);
    survives(text);
}

static void has_defaults(void **state)
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
    assert_false(p->four);
    assert_int_equal(p->roi, GLCM_ROI_ALL);
    assert_false(p->per_offset);
    assert_int_equal(p->n_maps, 0);
    assert_int_equal(p->n_offsets, 1026);
    drop(p);
    survives("{}");
}

static void has_a_preset(void **state)
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
    /* what stands beside it counts, wherever it stands */
    p = read("{\"levels\":[8],\"roi\":{\"type\":\"disc\",\"cx\":9,\"cy\":7,\"r\":5},\"preset\":\"hcc\","
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
    assert_true(p->four);
    assert_true(p->per_offset);
    assert_int_equal(p->range, GLCM_RANGE_FIXED);
    assert_int_equal(p->lo, 5);
    assert_int_equal(p->hi, 5);
    assert_int_equal(p->window, GLCM_DISC);
    assert_int_equal(p->radius, 16);
    drop(p);
    survives("{\"preset\":\"hcc\"}");
    survives("{\"preset\":\"hcc\",\"roi\":{\"type\":\"all\"}}");
}

/* Every offset whose length rounds to the distance, one of each pair of
 * opposite ones; together the offsets of 1..d fill a half disc. */
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

static void keeps_limits(void **state)
{
    (void)state;
    accepted("{\"levels\":[2,256]}");
    accepted("{\"levels\":[2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]}");
    accepted("{\"range\":[0,65535]}");
    accepted("{\"range\":\"image\"}");
    accepted("{\"range\":\"type\"}");
    accepted("{\"range\":null}");
    accepted("{\"window\":{}}");
    accepted("{\"window\":{\"shape\":\"disc\",\"radius\":1}}");
    accepted("{\"window\":{\"shape\":\"square\",\"radius\":63}}");
    accepted("{\"window\":{\"radius\":3}}");
    accepted("{\"window\":{\"shape\":\"roi\"}}");
    accepted("{\"distances\":[1,255]}");
    accepted("{\"distances\":[255,1],\"directions\":\"four\"}");
    accepted("{\"directions\":\"all\"}");
    accepted("{\"roi\":{\"type\":\"all\"}}");
    accepted("{\"roi\":{\"type\":\"mask\"}}");
    accepted("{\"roi\":{\"type\":\"disc\",\"r\":0}}");
    accepted("{\"roi\":{\"type\":\"disc\",\"r\":65535,\"cx\":0,\"cy\":65535}}");
    accepted("{\"per_offset\":true}");
    accepted("{\"maps\":[]}");
    accepted("{\"maps\":[{\"feature\":\"imc2\",\"levels\":64,\"offset\":[-3,4]},"
             "{\"feature\":\"asm\",\"levels\":16,\"offset\":[25,0]}]}");
}

static void refuses(void **state)
{
    static const char range[] = "F: p.range: must be [lo,hi] with 0 <= lo <= hi <= 65535, \"image\" or \"type\"";
    static const char needs[] = "F: p.maps[0]: needs feature, levels and offset [dx,dy]";
    static const char offset[] = "F: p.maps[0].offset: is not one of the offsets of these distances and "
                                 "directions (dy > 0, or dy = 0 and dx > 0)";
    static const char list[] = "F: p.levels: must be a list of 1 to 16 integers";
    static const char *const cases[][2] = {
        { "[]", "F: p: must be an object" },
        { "{\"level\":[16]}", "F: p: unknown key \"level\"; there are \"preset\", \"levels\", \"range\", "
          "\"window\", \"distances\", \"directions\", \"roi\", \"per_offset\", \"maps\"" },
        { "{\"preset\":\"HCC\"}", "F: p.preset: must be one of \"hcc\"" },
        { "{\"preset\":1}", "F: p.preset: must be one of \"hcc\"" },
        { "{\"levels\":16}", list },
        { "{\"levels\":[]}", list },
        { "{\"levels\":{}}", list },
        { "{\"levels\":null}", list },
        { "{\"levels\":[2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18]}", list },
        { "{\"levels\":[1]}", "F: p.levels[0]: must be an integer from 2 to 256" },
        { "{\"levels\":[16,257]}", "F: p.levels[1]: must be an integer from 2 to 256" },
        { "{\"levels\":[16.0]}", "F: p.levels[0]: must be an integer from 2 to 256" },
        { "{\"levels\":[-16]}", "F: p.levels[0]: must be an integer from 2 to 256" },
        { "{\"levels\":[4294967312]}", "F: p.levels[0]: must be an integer from 2 to 256" },
        { "{\"levels\":[16,32,16]}", "F: p.levels: 16 stands twice" },
        { "{\"range\":\"full\"}", range },
        { "{\"range\":[0]}", range },
        { "{\"range\":[0,1,2]}", range },
        { "{\"range\":[1,0]}", range },
        { "{\"range\":[-1,5]}", range },
        { "{\"range\":[0,65536]}", range },
        { "{\"range\":[0,4294967297]}", range },
        { "{\"range\":[0.0,5]}", range },
        { "{\"range\":7}", range },
        { "{\"window\":5}", "F: p.window: must be an object" },
        { "{\"window\":{\"shape\":\"round\"}}", "F: p.window.shape: must be one of \"disc\", \"square\", \"roi\"" },
        { "{\"window\":{\"size\":5}}", "F: p.window: unknown key \"size\"; there are \"shape\", \"radius\"" },
        { "{\"window\":{\"radius\":0}}", "F: p.window.radius: must be an integer from 1 to 63" },
        { "{\"window\":{\"radius\":64}}", "F: p.window.radius: must be an integer from 1 to 63" },
        { "{\"window\":{\"radius\":null}}", "F: p.window.radius: must be an integer from 1 to 63" },
        { "{\"window\":{\"shape\":\"roi\",\"radius\":5}}", "F: p.window.radius: a window of shape \"roi\" has none" },
        { "{\"distances\":[0]}", "F: p.distances[0]: must be an integer from 1 to 255" },
        { "{\"distances\":[256]}", "F: p.distances[0]: must be an integer from 1 to 255" },
        { "{\"distances\":[1,1]}", "F: p.distances: 1 stands twice" },
        { "{\"distances\":[]}", "F: p.distances: must be a list of 1 to 255 integers" },
        { "{\"directions\":\"eight\"}", "F: p.directions: must be one of \"all\", \"four\"" },
        { "{\"directions\":[0,45]}", "F: p.directions: must be one of \"all\", \"four\"" },
        { "{\"roi\":\"all\"}", "F: p.roi: must be an object" },
        { "{\"roi\":{}}", "F: p.roi.type: is missing" },
        { "{\"roi\":{\"type\":\"ring\"}}", "F: p.roi.type: must be one of \"all\", \"disc\", \"mask\"" },
        { "{\"roi\":{\"type\":\"all\",\"r\":5}}", "F: p.roi: only a disc has cx, cy and r" },
        { "{\"roi\":{\"type\":\"mask\",\"cx\":5}}", "F: p.roi: only a disc has cx, cy and r" },
        { "{\"roi\":{\"type\":\"disc\"}}", "F: p.roi.r: is missing" },
        { "{\"roi\":{\"type\":\"disc\",\"r\":-1}}", "F: p.roi.r: must be an integer from 0 to 65535" },
        { "{\"roi\":{\"type\":\"disc\",\"r\":65536}}", "F: p.roi.r: must be an integer from 0 to 65535" },
        { "{\"roi\":{\"type\":\"disc\",\"r\":5,\"cx\":5}}", "F: p.roi: cx and cy go together" },
        { "{\"roi\":{\"type\":\"disc\",\"r\":5,\"cy\":5}}", "F: p.roi: cx and cy go together" },
        { "{\"roi\":{\"type\":\"disc\",\"r\":5,\"cx\":-1,\"cy\":0}}", "F: p.roi.cx: must be an integer from 0 to 65535" },
        { "{\"roi\":{\"type\":\"disc\",\"r\":5,\"cx\":0,\"cy\":65536}}", "F: p.roi.cy: must be an integer from 0 to 65535" },
        { "{\"per_offset\":1}", "F: p.per_offset: must be true or false" },
        { "{\"maps\":{}}", "F: p.maps: must be a list of at most 256 maps" },
        { "{\"maps\":null}", "F: p.maps: must be a list of at most 256 maps" },
        { "{\"maps\":[7]}", "F: p.maps[0]: must be an object" },
        { "{\"maps\":[{}]}", needs },
        { "{\"maps\":[{\"feature\":\"asm\",\"levels\":16}]}", needs },
        { "{\"maps\":[{\"feature\":\"asm\",\"offset\":[1,0]}]}", needs },
        { "{\"maps\":[{\"levels\":16,\"offset\":[1,0]}]}", needs },
        { "{\"maps\":[{\"feature\":\"asm\",\"levels\":16,\"offset\":[1,0,0]}]}", needs },
        { "{\"maps\":[{\"feature\":\"asm\",\"levels\":16,\"offset\":[1.0,0]}]}", needs },
        { "{\"maps\":[{\"feature\":\"asm\",\"levels\":8,\"offset\":[1,0]}]}",
          "F: p.maps[0].levels: 8 is not in the list of levels" },
        { "{\"maps\":[{\"feature\":\"asm\",\"levels\":1,\"offset\":[1,0]}]}",
          "F: p.maps[0].levels: must be an integer from 2 to 256" },
        { "{\"maps\":[{\"feature\":\"asm\",\"levels\":16,\"offset\":[-1,0]}]}", offset },
        { "{\"maps\":[{\"feature\":\"asm\",\"levels\":16,\"offset\":[26,0]}]}", offset },
        { "{\"maps\":[{\"feature\":\"asm\",\"levels\":16,\"offset\":[4294967297,0]}]}", offset },
        { "{\"directions\":\"four\",\"maps\":[{\"feature\":\"asm\",\"levels\":16,\"offset\":[1,2]}]}", offset },
        { "{\"maps\":[{\"feature\":\"asm\",\"levels\":16,\"offset\":[1,0],\"x\":1}]}",
          "F: p.maps[0]: unknown key \"x\"; there are \"feature\", \"levels\", \"offset\"" },
        { "{\"maps\":[{\"feature\":\"asm\",\"levels\":16,\"offset\":[1,0]},"
          "{\"feature\":\"asm\",\"levels\":16,\"offset\":[1,0]}]}", "F: p.maps[1]: stands twice" },
        { "{\"window\":{\"shape\":\"roi\"},\"maps\":[{\"feature\":\"asm\",\"levels\":16,\"offset\":[1,0]}]}",
          "F: p.maps: a window of shape \"roi\" has no maps" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        refused(cases[i][0], cases[i][1]);
    refused("{\"maps\":[{\"feature\":\"energy\",\"levels\":16,\"offset\":[1,0]}]}",
            "F: p.maps[0].feature: must be one of \"asm\", \"contrast\", \"correlation\", \"variance\", \"idm\", "
            "\"sum_average\", \"sum_variance\", \"sum_entropy\", \"entropy\", \"difference_variance\", "
            "\"difference_entropy\", \"imc1\", \"imc2\"");
}

/* Lists at their limits and one beyond. */
static void counts_long_lists(void **state)
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
            accepted(text);
            free(text);
        }
        json_array_append_new(list, json_pack("{s:s,s:i,s:[ii]}", "feature", glcm_feature_names[i / 26 % 13],
                                              "levels", i / 338 == 0 ? 16 : 32, "offset", k == 26 ? -3 : k,
                                              k == 26 ? 3 : 0));
    }
    text = json_dumps(object, JSON_COMPACT);
    refused(text, "F: p.maps: must be a list of at most 256 maps");
    free(text);
    json_decref(object);
    /* all distances: the offsets of a half disc of radius 255.5 are too many */
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
        assert_non_null(strstr(err.message, "F: p.distances: give "));
        assert_non_null(strstr(err.message, " offsets, 65536 are allowed"));
        free(text);
        json_decref(all);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_defaults),
        cmocka_unit_test(has_a_preset),
        cmocka_unit_test(finds_offsets),
        cmocka_unit_test(keeps_limits),
        cmocka_unit_test(refuses),
        cmocka_unit_test(counts_long_lists),
    };
    return cmocka_run_group_tests_name("params", tests, NULL, NULL);
}
