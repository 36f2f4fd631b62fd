#include "app/analysis/glcm/glcm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/params.h"
#include "app/analysis/selftest.h"

const char *const glcm_feature_names[GLCM_FEATURES] = {
    "asm", "contrast", "correlation", "variance", "idm",
    "sum_average", "sum_variance", "sum_entropy", "entropy",
    "difference_variance", "difference_entropy", "imc1", "imc2"
};

static const char *const window_names[] = { "disc", "square", "roi", NULL };
static const char *const roi_names[] = { "all", "disc", "mask", NULL };
static const char *const direction_names[] = { "all", "four", NULL };

/* --- parameters from JSON ---------------------------------------------------- */

/* A list of different integers in [lo, hi], at most `max` of them. */
static tc_status get_list(const json_t *object, const char *key, unsigned lo, unsigned hi, size_t max,
                          unsigned *values, size_t *count, const char *where, tc_err *err)
{
    const json_t *const list = json_object_get(object, key);
    const size_t n = json_array_size(list);

    if (list == NULL)
        return TC_OK;
    if (!json_is_array(list) || n < 1 || n > max)
        return tc_fail(err, TC_BAD_INPUT, "%s.%s: must be a list of 1 to %zu integers", where, key, max);
    for (size_t i = 0; i < n; i++) {
        const json_t *const v = json_array_get(list, i);

        if (!json_is_integer(v) || json_integer_value(v) < lo || json_integer_value(v) > hi)
            return tc_fail(err, TC_BAD_INPUT, "%s.%s[%zu]: must be an integer from %u to %u",
                           where, key, i, lo, hi);
        values[i] = (unsigned)json_integer_value(v);
        for (size_t j = 0; j < i; j++)
            if (values[j] == values[i])
                return tc_fail(err, TC_BAD_INPUT, "%s.%s: %u stands twice", where, key, values[i]);
    }
    *count = n;
    return TC_OK;
}

static tc_status get_range(const json_t *json, glcm_params *p, const char *where, tc_err *err)
{
    const json_t *const range = json_object_get(json, "range");
    const json_t *const lo = json_array_get(range, 0), *const hi = json_array_get(range, 1);

    if (range == NULL || json_is_null(range) ||
        (json_is_string(range) && strcmp(json_string_value(range), "type") == 0)) {
        p->range = GLCM_RANGE_TYPE;
        return TC_OK;
    }
    if (json_is_string(range) && strcmp(json_string_value(range), "image") == 0) {
        p->range = GLCM_RANGE_IMAGE;
        return TC_OK;
    }
    if (json_array_size(range) != 2 || !json_is_integer(lo) || !json_is_integer(hi) ||
        json_integer_value(lo) < 0 || json_integer_value(hi) > 65535 ||
        json_integer_value(lo) > json_integer_value(hi))
        return tc_fail(err, TC_BAD_INPUT, "%s.range: must be [lo,hi] with 0 <= lo <= hi <= 65535, "
                       "\"image\" or \"type\"", where);
    p->range = GLCM_RANGE_FIXED;
    p->lo = (unsigned)json_integer_value(lo);
    p->hi = (unsigned)json_integer_value(hi);
    return TC_OK;
}

static tc_status get_window(const json_t *json, glcm_params *p, const char *where, tc_err *err)
{
    static const char *const known[] = { "shape", "radius", NULL };
    const json_t *const window = json_object_get(json, "window");
    char at[TC_ERR_MAX];
    int shape = GLCM_DISC;
    int64_t radius = 16;
    tc_status st;

    if (window == NULL)
        return TC_OK;
    snprintf(at, sizeof at, "%s.window", where);
    st = an_check_keys(window, known, at, err);
    if (st == TC_OK)
        st = an_get_choice(window, "shape", window_names, &shape, at, err);
    if (st == TC_OK)
        st = an_get_int(window, "radius", 1, GLCM_MAX_RADIUS, &radius, at, err);
    if (st != TC_OK)
        return st;
    if (shape == GLCM_WHOLE_ROI && json_object_get(window, "radius") != NULL)
        return tc_fail(err, TC_BAD_INPUT, "%s.radius: a window of shape \"roi\" has none", at);
    p->window = (glcm_window)shape;
    p->radius = shape == GLCM_WHOLE_ROI ? 0 : (int)radius;
    return TC_OK;
}

static tc_status get_roi(const json_t *json, glcm_params *p, const char *where, tc_err *err)
{
    static const char *const known[] = { "type", "cx", "cy", "r", NULL };
    const json_t *const roi = json_object_get(json, "roi");
    char at[TC_ERR_MAX];
    int type = -1;
    tc_status st;

    if (roi == NULL)
        return TC_OK;
    snprintf(at, sizeof at, "%s.roi", where);
    st = an_check_keys(roi, known, at, err);
    if (st == TC_OK)
        st = an_get_choice(roi, "type", roi_names, &type, at, err);
    if (st != TC_OK)
        return st;
    if (type < 0)
        return tc_fail(err, TC_BAD_INPUT, "%s.type: is missing", at);
    p->roi = (glcm_roi)type;
    if (type != GLCM_ROI_DISC) {
        if (json_object_size(roi) != 1)
            return tc_fail(err, TC_BAD_INPUT, "%s: only a disc has cx, cy and r", at);
        return TC_OK;
    }
    p->roi_centred = json_object_get(roi, "cx") == NULL;
    if (p->roi_centred != (json_object_get(roi, "cy") == NULL))
        return tc_fail(err, TC_BAD_INPUT, "%s: cx and cy go together", at);
    if (json_object_get(roi, "r") == NULL)
        return tc_fail(err, TC_BAD_INPUT, "%s.r: is missing", at);
    st = an_get_int(roi, "r", 0, WU_MAX_SIDE, &p->roi_r, at, err);
    if (st == TC_OK)
        st = an_get_int(roi, "cx", 0, WU_MAX_SIDE, &p->roi_cx, at, err);
    if (st == TC_OK)
        st = an_get_int(roi, "cy", 0, WU_MAX_SIDE, &p->roi_cy, at, err);
    return st;
}

static tc_status get_map(const json_t *entry, glcm_params *p, const char *at, tc_err *err)
{
    static const char *const known[] = { "feature", "levels", "offset", NULL };
    const char *names[GLCM_FEATURES + 1] = { NULL };
    const json_t *const offset = json_object_get(entry, "offset");
    glcm_map *const map = &p->maps[p->n_maps];
    int feature = -1;
    int64_t levels = 0;
    tc_status st = an_check_keys(entry, known, at, err);

    memcpy(names, glcm_feature_names, sizeof glcm_feature_names);
    if (st == TC_OK)
        st = an_get_choice(entry, "feature", names, &feature, at, err);
    if (st == TC_OK)
        st = an_get_int(entry, "levels", 2, GLCM_MAX_LEVELS, &levels, at, err);
    if (st != TC_OK)
        return st;
    if (feature < 0 || levels == 0 || json_array_size(offset) != 2 ||
        !json_is_integer(json_array_get(offset, 0)) || !json_is_integer(json_array_get(offset, 1)))
        return tc_fail(err, TC_BAD_INPUT, "%s: needs feature, levels and offset [dx,dy]", at);
    map->feature = (unsigned)feature;
    for (map->level = 0; map->level < p->n_levels; map->level++)
        if (p->levels[map->level] == (unsigned)levels)
            break;
    if (map->level == p->n_levels)
        return tc_fail(err, TC_BAD_INPUT, "%s.levels: %d is not in the list of levels", at, (int)levels);
    for (map->offset = 0; map->offset < p->n_offsets; map->offset++)
        if (p->offsets[map->offset].dx == json_integer_value(json_array_get(offset, 0)) &&
            p->offsets[map->offset].dy == json_integer_value(json_array_get(offset, 1)))
            break;
    if (map->offset == p->n_offsets)
        return tc_fail(err, TC_BAD_INPUT, "%s.offset: is not one of the offsets of these distances and "
                       "directions (dy > 0, or dy = 0 and dx > 0)", at);
    map->dx = p->offsets[map->offset].dx;
    map->dy = p->offsets[map->offset].dy;
    for (size_t i = 0; i < p->n_maps; i++)
        if (memcmp(&p->maps[i], map, sizeof *map) == 0)
            return tc_fail(err, TC_BAD_INPUT, "%s: stands twice", at);
    p->n_maps++;
    return TC_OK;
}

static tc_status get_maps(const json_t *json, glcm_params *p, const char *where, tc_err *err)
{
    const json_t *const maps = json_object_get(json, "maps");
    const size_t n = json_array_size(maps);

    if (maps == NULL)
        return TC_OK;
    if (!json_is_array(maps) || n > GLCM_MAX_MAPS)
        return tc_fail(err, TC_BAD_INPUT, "%s.maps: must be a list of at most %d maps", where, GLCM_MAX_MAPS);
    if (n > 0 && p->window == GLCM_WHOLE_ROI)
        return tc_fail(err, TC_BAD_INPUT, "%s.maps: a window of shape \"roi\" has no maps", where);
    for (size_t i = 0; i < n; i++) {
        char at[TC_ERR_MAX];
        tc_status st;

        snprintf(at, sizeof at, "%s.maps[%zu]", where, i);
        st = get_map(json_array_get(maps, i), p, at, err);
        if (st != TC_OK)
            return st;
    }
    return TC_OK;
}

/* --- offsets ------------------------------------------------------------------- */

/* Adds the offsets of one distance, ordered by (dy, dx). All directions: every
 * integer offset in the half plane whose length rounds to d. */
static size_t offsets_of(const glcm_params *p, unsigned index, glcm_offset *out)
{
    const int d = (int)p->distances[index];
    const int four[4][2] = { { d, 0 }, { -d, d }, { 0, d }, { d, d } };
    const long lo = (long)(2 * d - 1) * (2 * d - 1), hi = (long)(2 * d + 1) * (2 * d + 1);
    size_t n = 0;

    if (p->four) {
        for (int i = 0; i < 4; i++, n++)
            if (out != NULL)
                out[n] = (glcm_offset){ four[i][0], four[i][1], index };
        return n;
    }
    for (int dy = 0; dy <= d; dy++) {
        for (int dx = dy > 0 ? -d : 1; dx <= d; dx++) {
            const long length = 4L * (dx * dx + dy * dy);

            if (length < lo || length >= hi)
                continue;
            if (out != NULL)
                out[n] = (glcm_offset){ dx, dy, index };
            n++;
        }
    }
    return n;
}

static tc_status make_offsets(glcm_params *p, const char *where, tc_err *err)
{
    size_t n = 0;

    for (unsigned i = 0; i < p->n_distances; i++)
        n += offsets_of(p, i, NULL);
    if (n > GLCM_MAX_OFFSETS)
        return tc_fail(err, TC_BAD_INPUT, "%s.distances: give %zu offsets, %d are allowed",
                       where, n, GLCM_MAX_OFFSETS);
    p->offsets = calloc(n, sizeof *p->offsets);
    if (p->offsets == NULL)
        return tc_no_memory(err, "the offsets");
    for (unsigned i = 0; i < p->n_distances; i++)
        p->n_offsets += offsets_of(p, i, p->offsets + p->n_offsets);
    return TC_OK;
}

/* --- parse, params_json ---------------------------------------------------------- */

static void set_defaults(glcm_params *p, bool hcc)
{
    p->n_levels = 3;
    p->levels[0] = 16;
    p->levels[1] = 32;
    p->levels[2] = 64;
    p->range = GLCM_RANGE_TYPE;
    p->window = GLCM_DISC;
    p->radius = 16;
    p->n_distances = 25;
    for (unsigned i = 0; i < 25; i++)
        p->distances[i] = i + 1;
    p->roi = hcc ? GLCM_ROI_DISC : GLCM_ROI_ALL;
    p->roi_centred = true;
    p->roi_r = 84;
}

static tc_status read_params(const json_t *json, void *params, const char *where, tc_err *err)
{
    glcm_params *const p = params;
    static const char *const known[] = { "preset", "levels", "range", "window", "distances",
                                         "directions", "roi", "per_offset", "maps", NULL };
    static const char *const presets[] = { "hcc", NULL };
    int preset = -1, directions = 0;
    tc_status st = an_check_keys(json, known, where, err);

    if (st == TC_OK)
        st = an_get_choice(json, "preset", presets, &preset, where, err);
    set_defaults(p, preset == 0);
    if (st == TC_OK)
        st = get_list(json, "levels", 2, GLCM_MAX_LEVELS, GLCM_MAX_LEVEL_COUNT,
                      p->levels, &p->n_levels, where, err);
    if (st == TC_OK)
        st = get_range(json, p, where, err);
    if (st == TC_OK)
        st = get_window(json, p, where, err);
    if (st == TC_OK)
        st = get_list(json, "distances", 1, GLCM_MAX_DISTANCE, GLCM_MAX_DISTANCE,
                      p->distances, &p->n_distances, where, err);
    if (st == TC_OK)
        st = an_get_choice(json, "directions", direction_names, &directions, where, err);
    p->four = directions == 1;
    if (st == TC_OK)
        st = get_roi(json, p, where, err);
    if (st == TC_OK)
        st = an_get_bool(json, "per_offset", &p->per_offset, where, err);
    if (st == TC_OK)
        st = make_offsets(p, where, err);
    if (st == TC_OK)
        st = get_maps(json, p, where, err);
    return st;
}

static void clear_params(void *params)
{
    free(((glcm_params *)params)->offsets);
}

static json_t *list_json(const unsigned *values, size_t n)
{
    json_t *const list = json_array();

    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_integer(values[i]));
    return list;
}

static json_t *params_json(const void *params)
{
    const glcm_params *const p = params;
    json_t *const window = json_pack("{s:s}", "shape", window_names[p->window]);
    json_t *const roi = json_pack("{s:s}", "type", roi_names[p->roi]);
    json_t *const maps = json_array();
    json_t *range;

    if (p->window != GLCM_WHOLE_ROI)
        json_object_set_new(window, "radius", json_integer(p->radius));
    if (p->roi == GLCM_ROI_DISC) {
        json_object_set_new(roi, "r", json_integer(p->roi_r));
        if (!p->roi_centred) {
            json_object_set_new(roi, "cx", json_integer(p->roi_cx));
            json_object_set_new(roi, "cy", json_integer(p->roi_cy));
        }
    }
    for (size_t i = 0; i < p->n_maps; i++)
        json_array_append_new(maps, json_pack("{s:s,s:i,s:[ii]}",
                              "feature", glcm_feature_names[p->maps[i].feature],
                              "levels", (int)p->levels[p->maps[i].level],
                              "offset", p->maps[i].dx, p->maps[i].dy));
    range = p->range == GLCM_RANGE_FIXED ? json_pack("[ii]", (int)p->lo, (int)p->hi)
          : json_string(p->range == GLCM_RANGE_IMAGE ? "image" : "type");
    return json_pack("{s:o,s:o,s:o,s:o,s:s,s:o,s:b,s:o}",
                     "levels", list_json(p->levels, p->n_levels),
                     "range", range,
                     "window", window,
                     "distances", list_json(p->distances, p->n_distances),
                     "directions", direction_names[p->four],
                     "roi", roi,
                     "per_offset", (int)p->per_offset,
                     "maps", maps);
}

static tc_status check_item(const void *params, const wu_item *item, const char *where, tc_err *err)
{
    const glcm_params *const p = params;
    glcm_geometry g;

    if (p->roi == GLCM_ROI_MASK && item->n_masks == 0)
        return tc_fail(err, TC_BAD_INPUT, "%s: has no mask, but the parameters' roi is a mask", where);
    if (p->roi != GLCM_ROI_MASK && item->n_masks > 0)
        return tc_fail(err, TC_BAD_INPUT, "%s: has a mask, but the parameters' roi is not "
                       "{\"type\":\"mask\"}", where);
    /* A disc that lies outside the picture is found here. */
    if (glcm_geometry_plan(p, item, &g, NULL) != TC_OK)
        return tc_fail(err, TC_BAD_INPUT, "%s: the region of interest lies outside the picture", where);
    return TC_OK;
}

/* --- plan, init -------------------------------------------------------------------- */

size_t glcm_state_maps_at(const glcm_params *p)
{
    return sizeof(an_state_head) + p->n_levels * p->n_offsets * sizeof(glcm_stat);
}

static tc_status plan(const void *params, const wu_item *item, an_plan *out, tc_err *err)
{
    const glcm_params *const p = params;
    const uint64_t plane = (uint64_t)item->nx * item->ny;
    const uint64_t voxels = plane * item->nz;
    glcm_geometry g;
    tc_status st = glcm_geometry_plan(p, item, &g, err);
    uint64_t windows;

    if (st != TC_OK)
        return st;
    windows = (uint64_t)(g.view[0].x1 - g.view[0].x0) * (uint64_t)(g.view[0].y1 - g.view[0].y0) * item->nz;
    out->units = g.units;
    out->state_bytes = glcm_state_maps_at(p) + p->n_maps * voxels * sizeof(float);
    out->memory_bytes = voxels * (item->bits / 8 + (item->n_masks > 0)) + 2 * out->state_bytes
                      + plane * (2 * p->n_levels + 2) + ((uint64_t)8 << 20);
    out->flops = (p->window == GLCM_WHOLE_ROI ? 45.0 : 1000.0)
               * (double)windows * (double)(p->n_levels * p->n_offsets);
    return TC_OK;
}

void glcm_stat_clear(glcm_stat *stat)
{
    memset(stat, 0, sizeof *stat);
    for (int i = 0; i < GLCM_FEATURES; i++) {
        stat->feature[i].min = INT64_MAX;
        stat->feature[i].max = INT64_MIN;
    }
}

static tc_status init(const an_task *task, void *state, tc_err *err)
{
    const glcm_params *const p = task->params;
    glcm_stat *const stats = glcm_state_stats(state);
    float *const maps = (float *)(void *)((unsigned char *)state + glcm_state_maps_at(p));
    const size_t n = (task->plan.state_bytes - glcm_state_maps_at(p)) / sizeof(float);

    (void)err;
    for (size_t i = 0; i < p->n_levels * p->n_offsets; i++)
        glcm_stat_clear(&stats[i]);
    for (size_t i = 0; i < n; i++)
        maps[i] = __builtin_nanf("");
    return TC_OK;
}

/* Borders, every window shape, 8 and 16 bit, several slices, maps; levels whose
 * histograms fit local memory and levels whose do not. */
static const an_selftest selftests[] = {
    { "{\"levels\":[16,64],\"window\":{\"shape\":\"disc\",\"radius\":5},\"distances\":[1,4],"
      "\"maps\":[{\"feature\":\"imc2\",\"levels\":64,\"offset\":[1,0]}]}", 40, 31, 1, 8, false, 0x7236e44f },
    { "{\"levels\":[256],\"window\":{\"shape\":\"square\",\"radius\":3},\"distances\":[2],"
      "\"directions\":\"four\",\"range\":\"image\",\"roi\":{\"type\":\"mask\"}}", 23, 29, 2, 16, true, 0x9cfe3c4e },
    { "{\"levels\":[8],\"window\":{\"shape\":\"roi\"},\"distances\":[1,2],"
      "\"roi\":{\"type\":\"disc\",\"r\":20}}", 50, 45, 1, 8, false, 0x5e56039e },
    { .parameters = NULL }
};

const an_analysis an_glcm = {
    .name = "glcm",
    .summary = "Haralick texture in a sliding neighbourhood (13 features of the grey-level co-occurrence matrix)",
    .params_bytes = sizeof(glcm_params),
    .read_params = read_params,
    .clear_params = clear_params,
    .params_json = params_json,
    .check_item = check_item,
    .plan = plan,
    .init = init,
    .finish = glcm_finish,
    .constants = glcm_constants,
    .expect = glcm_expect,
    .check_result = glcm_check_result,
    .cpu = &glcm_cpu,
    .selftests = selftests
};
