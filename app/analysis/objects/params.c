/* objects: the table of its parameters, and the fields of obj_params that are derived from them. */
#include "app/analysis/objects/objects.h"

#define FIELD(field) AN_FIELD(obj_params, field)

static const char *const families[] = { "shape", "intensity", "texture", NULL };
static const char *const ranges[] = { "object", "image", "type", NULL };
static const char *const aggregates[] = { "average", "merge", NULL };
static const char *const feature_sets[] = { "haralick", "ibsi", NULL };

const an_param obj_parameters[] = {
    { "families", AN_WORDS, FIELD(families), .words = families,
      .default_value = "[\"shape\",\"intensity\",\"texture\"]", .help = "What is measured." },
    { "levels", AN_INT, FIELD(levels), .min = 2, .max = COOC_MAX_LEVELS, .default_value = "32",
      .help = "Number of grey levels of the texture." },
    { "range", AN_INTS, FIELD(range_ends), .min = 0, .max = 65535, .choices = ranges,
      .word = FIELD(range), .default_value = "object", .unit = "grey values",
      .help = "Grey values [lo,hi] mapped to the levels; object: each object's least to greatest; "
              "image: least to greatest of all pixels; type: all that the item's bits allow." },
    { "distances", AN_INTS, FIELD(distances), .count = FIELD(n_distances), .min = 1,
      .max = OBJ_MAX_DISTANCE, .default_value = "[1]", .unit = "pixels",
      .help = "How far apart the two pixels of a pair are, along each axis of its direction." },
    { "aggregate", AN_CHOICE, FIELD(merge), .choices = aggregates, .default_value = "average",
      .help = "average: of the features over the directions; merge: the directions' matrices are "
              "added first." },
    { "texture_features", AN_WORDS, FIELD(features), .words = cooc_names, .choices = feature_sets,
      .word = FIELD(feature_set), .default_value = "haralick",
      .help = "haralick: the first 13; ibsi: all." },
    { "exclude_border", AN_BOOL, FIELD(exclude_border), .default_value = "false",
      .help = "Whether objects that touch the border of the picture or stack are left out." },
    { .key = NULL }
};

tc_status obj_derive_params(void *params, const char *where, tc_err *err)
{
    obj_params *const p = params;

    if (p->range == OBJ_RANGE_FIXED && p->range_ends[0] > p->range_ends[1])
        return tc_fail(err, TC_BAD_INPUT, "%s.range: %d is more than %d", where,
                       (int)p->range_ends[0], (int)p->range_ends[1]);
    if (p->feature_set > 0)
        p->features = (1u << (p->feature_set == 1 ? COOC_HARALICK : COOC_FEATURES)) - 1;
    for (unsigned f = 0; f < COOC_FEATURES; f++)
        if ((p->features >> f & 1) != 0)
            p->feature_names[p->n_features++] = cooc_names[f];
    for (size_t i = 0; i < p->n_distances; i++)
        p->distance_numbers[i] = (unsigned)p->distances[i];
    return TC_OK;
}
