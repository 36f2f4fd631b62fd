/* voting: the table of its parameters, and how they depend on each other. */
#include "app/analysis/common/otsu.h"
#include "app/analysis/voting/voting.h"

#define FIELD(field) AN_FIELD(voting_params, field)

static const char *const polarities[] = { "bright", "dark", "auto", NULL };
static const char *const automatic[] = { "auto", NULL };
/* Each angle is half of the angle before it: make_rounds (plan.c) halves 90 degrees as many times
 * as the index of the choice. */
static const char *const cones[] = { "90.0", "45.0", "22.5", NULL };
static const char *const foregrounds[] = { "none", "otsu", NULL };
static const char *const weights[] = { "gradient", "root", NULL };

const an_param voting_parameters[] = {
    { "radius", AN_NUMBER, FIELD(radius), .min = 1e-3, .max = 65535,
      .unit = "pixels; stacks: as spacing", .measure = AN_LENGTH_SPACED,
      .help = "Radius of the largest cells: at least 1 pixel of the finest axis, at most 127 "
              "pixels along any axis of "
              "an image, 32 of a stack." },
    { "own_radius", AN_BOOL, FIELD(radius_per_image), .default_value = "false",
      .only_if_given = true,
      .help = "Images: whether a radius from radius / 4 to radius is determined for each." },
    { "sigma", AN_NUMBER, FIELD(sigma), .min = 0, .max = VOTING_MAX_SIGMA, .default_value = "2.0",
      .unit = "pixels of the finest axis", .measure = AN_LENGTH_FINEST,
      .help = "Sigma of the Gaussian filter; below 1/4 pixel along an axis none is applied." },
    { "polarity", AN_CHOICE, FIELD(polarity), .choices = polarities, .default_value = "bright",
      .help = "bright: cells on dark background; dark: the reverse; auto: whichever has fewer "
              "pixels, in each item." },
    { "threshold", AN_NUMBER, FIELD(threshold), .min = 0, .max = UINT32_MAX, .choices = automatic,
      .word = FIELD(threshold_auto), .default_value = "auto", .unit = "votes",
      .help = "Least score of a point; auto: 3/10 of the score down to which points have half the "
              "sum of all scores." },
    { "cone", AN_CHOICE, FIELD(cone), .choices = cones, .default_value = "45.0", .unit = "degrees",
      .help = "Half-angle of the first round's cones; it halves from round to round." },
    { "weight", AN_CHOICE, FIELD(root), .choices = weights, .default_value = "root",
      .help = "Weight of a pixel's vote: the length of its gradient, or the square root of it." },
    { "floor", AN_NUMBER, FIELD(floor), .min = 0, .max = 1000, .default_value = "3.0",
      .unit = "standard deviations of noise",
      .help = "Pixels with a smaller gradient do not vote." },
    { "refine", AN_BOOL, FIELD(refine), .default_value = "true",
      .help = "Whether points are moved to where the gradients around them meet, and left out if "
              "they hardly do." },
    { "foreground", AN_CHOICE, FIELD(foreground), .choices = foregrounds, .default_value = "",
      .help = "otsu: points are left out if the mean of the 5 x 5 pixels around them is on the "
              "background's side of Otsu's threshold; none: none are." },
    { "classes", AN_INT, FIELD(classes), .min = 2, .max = AN_OTSU_CLASSES, .default_value = "2",
      .only_if_given = true,
      .help = "foreground otsu: number of classes of grey values; cells are the darkest or the "
              "brightest one." },
    { .key = NULL }
};

tc_status voting_derive_params(void *params, const char *where, tc_err *err)
{
    const voting_params *const p = params;

    return p->classes > 2 && !p->foreground
               ? tc_fail(err, TC_BAD_INPUT, "%s.classes: goes only with foreground \"otsu\"", where)
               : TC_OK;
}
