/* glcm: the table of its parameters, and the values that are derived from them (offsets, maps). */
#include "app/analysis/glcm/glcm.h"

#include <stdlib.h>
#include <string.h>

_Static_assert((int)COOC_HARALICK == (int)GLCM_FEATURES && (int)COOC_IMC2 == (int)GLCM_IMC2 &&
                   (int)COOC_ASM == (int)GLCM_ASM,
               "cooc_core.h begins with the features of core.h");

#define FIELD(field) AN_FIELD(glcm_params, field)
#define MAP_FIELD(field) AN_FIELD(glcm_map, field)

static const char *const presets[] = { "hcc", NULL };
static const char *const preset_values[] = { "{\"roi\":{\"type\":\"disc\",\"r\":84}}" };
static const char *const ranges[] = { "type", "image", "null", NULL };
static const char *const shapes[] = { "disc", "square", "roi", NULL };
static const char *const directions[] = { "all", "four", NULL };
static const char *const feature_sets[] = { "haralick", "ibsi", NULL };
static const char *const rois[] = { "all", "disc", "mask", NULL };

/* The fields without names in these tables are key, type and field (an_param). */
static const an_param window_keys[] = {
    { "shape", AN_CHOICE, FIELD(window), .choices = shapes, .default_value = "disc",
      .help = "disc, square: a window around each pixel of the ROI; roi: the whole ROI at once." },
    { "radius", AN_INT, FIELD(radius), .min = 1, .max = GLCM_MAX_RADIUS, .default_value = "16",
      .allowed_choices = 1u << GLCM_DISC | 1u << GLCM_SQUARE, .unit = "pixels",
      .measure = AN_LENGTH,
      .help = "Radius of the disc, or half the square's side, rounded down." },
    { .key = NULL }
};

static const an_param roi_keys[] = {
    { "type", AN_CHOICE, FIELD(roi), .choices = rois,
      .help = "all: every pixel; disc: those within r of its centre; mask: where the item's mask "
              "is not 0." },
    { "r", AN_INT, FIELD(roi_r), .min = 0, .max = WU_MAX_SIDE,
      .allowed_choices = 1u << GLCM_ROI_DISC, .unit = "pixels", .measure = AN_LENGTH,
      .help = "Radius of the disc." },
    { "cx", AN_INT, FIELD(roi_cx), .min = 0, .max = WU_MAX_SIDE, .default_value = "",
      .allowed_choices = 1u << GLCM_ROI_DISC, .unit = "pixels",
      .help = "Column of the disc's centre; if absent: width/2, rounded down." },
    { "cy", AN_INT, FIELD(roi_cy), .min = 0, .max = WU_MAX_SIDE, .default_value = "",
      .allowed_choices = 1u << GLCM_ROI_DISC, .unit = "pixels",
      .help = "Row of the disc's centre; if absent: height/2, rounded down." },
    { .key = NULL }
};

static const an_param map_keys[] = {
    { "feature", AN_CHOICE, MAP_FIELD(feature), .choices = cooc_names,
      .help = "One of the features." },
    { "levels", AN_INT, MAP_FIELD(levels), .min = 2, .max = GLCM_MAX_LEVELS,
      .help = "One of the list of levels." },
    { "offset", AN_INTS, MAP_FIELD(vector), .min = -GLCM_MAX_DISTANCE, .max = GLCM_MAX_DISTANCE,
      .unit = "pixels", .help = "[dx,dy], one of the offsets of the distances and directions." },
    { .key = NULL }
};

const an_param glcm_parameters[] = {
    { "preset", AN_PRESET, .choices = presets, .presets = preset_values,
      .help = "hcc: as Help Conquer Cancer computed it: the defaults, with a disc of radius 84 as "
              "ROI. Other keys override it." },
    { "levels", AN_INTS, FIELD(levels), .count = FIELD(n_levels), .min = 2, .max = GLCM_MAX_LEVELS,
      .default_value = "[16,32,64]",
      .help = "Numbers of grey levels; features are computed for each." },
    { "range", AN_INTS, FIELD(range_ends), .min = 0, .max = 65535, .choices = ranges,
      .word = FIELD(range), .default_value = "type", .unit = "grey values",
      .help = "Grey values that are spread over the levels, [lo,hi]; type, null: the item's whole "
              "bit depth; image: from the item's least to its greatest, in all slices, whatever "
              "the ROI." },
    { "window", AN_OBJECT, .keys = window_keys, .default_value = "{}",
      .help = "The pixels that one matrix counts." },
    { "distances", AN_INTS, FIELD(distances), .count = FIELD(n_distances), .min = 1,
      .max = GLCM_MAX_DISTANCE,
      .default_value = "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25]",
      .unit = "pixels",
      .help = "How far apart the two pixels of a pair are; all distances together have at most "
              "65,536 offsets." },
    { "directions", AN_CHOICE, FIELD(four_directions), .choices = directions,
      .default_value = "all",
      .help = "all: every offset whose length rounds to the distance d, but only one of two "
              "opposite offsets; four: (d,0), (d,d), (0,d), (-d,d)." },
    { "roi", AN_OBJECT, .keys = roi_keys, .default_value = "{\"type\":\"all\"}",
      .help = "Region of interest: which pixels have a window." },
    { "per_offset", AN_BOOL, FIELD(per_offset), .default_value = "false",
      .help = "Whether offset_features is returned." },
    { "features", AN_WORDS, FIELD(features), .words = cooc_names, .choices = feature_sets,
      .word = FIELD(feature_set), .default_value = "haralick",
      .help = "haralick: the first 13; ibsi: all. Those beyond the 13 need the CPU, or a device "
              "with double precision." },
    { "maps", AN_OBJECTS, FIELD(maps), .count = FIELD(n_maps), .stride = sizeof(glcm_map),
      .keys = map_keys, .default_value = "[]",
      .help = "Maps of a feature that are returned; not with the window roi." },
    { .key = NULL }
};

/* --- offsets --------------------------------------------------------------------------------- */

/* Writes the offsets of distance number `index`, sorted by dy and dx, into out, unless out is NULL.
 * Returns their number. With all directions these are all integer offsets whose length rounds to
 * the distance, but of two opposite offsets only the one with dy > 0, or dy = 0 and dx > 0. */
static size_t list_offsets(const glcm_params *p, unsigned index, glcm_offset *out)
{
    const int d = (int)p->distances[index];
    const int four[4][2] = { { d, 0 }, { -d, d }, { 0, d }, { d, d } }; /* dx, dy */
    /* A length l rounds to d if (d - 1/2)^2 <= l^2 < (d + 1/2)^2. lo and hi are these bounds times
     * 4, which makes them integers. */
    const long lo = (long)(2 * d - 1) * (2 * d - 1), hi = (long)(2 * d + 1) * (2 * d + 1);
    size_t n = 0;

    if (p->four_directions) {
        for (int i = 0; i < 4; i++, n++)
            if (out != NULL)
                out[n] = (glcm_offset){ four[i][0], four[i][1], index };
        return n;
    }
    for (int dy = 0; dy <= d; dy++) {
        for (int dx = dy > 0 ? -d : 1; dx <= d; dx++) {
            const long square = 4L * (dx * dx + dy * dy);

            if (square < lo || square >= hi)
                continue;
            if (out != NULL)
                out[n] = (glcm_offset){ dx, dy, index };
            n++;
        }
    }
    return n;
}

/* Makes p->offsets, the offsets of all distances. */
static tc_status make_offsets(glcm_params *p, const char *where, tc_err *err)
{
    size_t n = 0;

    for (unsigned i = 0; i < p->n_distances; i++)
        n += list_offsets(p, i, NULL);
    if (n > GLCM_MAX_OFFSETS)
        return tc_fail(err, TC_BAD_INPUT,
                       "%s.distances: they have %zu offsets together; at most %d are allowed",
                       where, n, GLCM_MAX_OFFSETS);
    p->offsets = calloc(n, sizeof *p->offsets);
    if (p->offsets == NULL)
        return tc_no_memory(err, "the offsets");
    for (unsigned i = 0; i < p->n_distances; i++)
        p->n_offsets += list_offsets(p, i, p->offsets + p->n_offsets);
    return TC_OK;
}

/* --- derived parameters ---------------------------------------------------------------------- */

/* Sets the fields level and offset of map number `index`, and checks the map. */
static tc_status find_map(glcm_params *p, size_t index, const char *where, tc_err *err)
{
    glcm_map *const map = &p->maps[index];

    if ((p->features >> map->feature & 1) == 0)
        return tc_fail(err, TC_BAD_INPUT, "%s.maps[%zu].feature: %s is not one of the features",
                       where, index, cooc_names[map->feature]);
    while (map->level < p->n_levels && (int)p->levels[map->level] != map->levels)
        map->level++;
    if (map->level == p->n_levels)
        return tc_fail(err, TC_BAD_INPUT, "%s.maps[%zu].levels: %d is not in the list of levels",
                       where, index, map->levels);
    while (map->offset < p->n_offsets && (p->offsets[map->offset].dx != map->vector[0] ||
                                          p->offsets[map->offset].dy != map->vector[1]))
        map->offset++;
    if (map->offset == p->n_offsets)
        return tc_fail(err, TC_BAD_INPUT,
                       "%s.maps[%zu].offset: is not one of the offsets of these distances and "
                       "directions (dy > 0, or dy = 0 and dx > 0)",
                       where, index);
    for (size_t i = 0; i < index; i++)
        if (memcmp(&p->maps[i], map, sizeof *map) == 0)
            return tc_fail(err, TC_BAD_INPUT, "%s.maps[%zu]: appears twice", where, index);
    return TC_OK;
}

tc_status glcm_derive_params(void *params, const char *where, tc_err *err)
{
    glcm_params *const p = params;
    const json_t *const roi = json_object_get(p->head.as_run, "roi");
    const bool is_centred = json_object_get(roi, "cx") == NULL;

    if (p->range == GLCM_RANGE_FIXED && p->range_ends[0] > p->range_ends[1])
        return tc_fail(err, TC_BAD_INPUT, "%s.range: [lo,hi] must have lo <= hi, not [%u,%u]",
                       where, p->range_ends[0], p->range_ends[1]);
    if (p->range == GLCM_RANGE_NULL) {
        p->range = GLCM_RANGE_TYPE;
        if (json_object_set_new(p->head.as_run, "range", json_string(ranges[0])) != 0)
            return tc_no_memory(err, "the parameters");
    }
    p->roi_centred = is_centred;
    if (is_centred != (json_object_get(roi, "cy") == NULL))
        return tc_fail(err, TC_BAD_INPUT, "%s.roi: cx and cy go together", where);
    if (p->n_maps > 0 && p->window == GLCM_WHOLE_ROI)
        return tc_fail(err, TC_BAD_INPUT, "%s.maps: a window of shape \"roi\" has no maps", where);
    if (p->feature_set > 0)
        p->features = (1u << (p->feature_set == 1 ? COOC_HARALICK : COOC_FEATURES)) - 1;
    for (unsigned f = 0; f < COOC_FEATURES; f++)
        if ((p->features >> f & 1) != 0) {
            p->feature_names[p->n_features] = cooc_names[f];
            p->feature[p->n_features++] = f;
        }
    p->has_more_features = p->features >> GLCM_FEATURES != 0;
    return_if_error(make_offsets(p, where, err));
    for (size_t i = 0; i < p->n_maps; i++)
        return_if_error(find_map(p, i, where, err));
    return TC_OK;
}

void glcm_clear_params(void *params)
{
    free(((glcm_params *)params)->offsets);
}
