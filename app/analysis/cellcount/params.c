/* cellcount: the table of its parameters, checks of parameters that depend on each other, and the
 * threshold that follows from the parameters alone. */
#include "app/analysis/cellcount/cellcount.h"

#define FIELD(field) AN_FIELD(cc_params, field)

static const char *const thresholds[] = { "otsu", "local", NULL };
static const char *const polarities[] = { "dark", "bright", "auto", NULL };
static const char *const neighbours[] = { "4", "8", NULL };
static const char *const splits[] = { "none", "distance", "intensity", NULL };
static const char *const background_methods[] = { "mean", "opening", "lines", NULL };
static const char *const corrections[] = { "difference", "ratio", NULL };
static const char *const scales[] = { "linear", "sqrt", NULL };
static const char *const word_null[] = { "null", NULL };
static const char *const word_auto[] = { "auto", NULL };

static const an_param background[] = {
    { "method", AN_CHOICE, FIELD(ground), .choices = background_methods, .default_value = "opening",
      .help = "How the light is estimated. mean: mean of the pixels around; lines: the same, but "
              "right near the border as well; opening: by a disc; for dark cells, a closing." },
    { "radius", AN_INT, FIELD(radius), .min = 1, .max = CC_MOST_RADIUS, .default_value = "50",
      .unit = "pixels", .measure = AN_LENGTH,
      .help = "Radius of the disc, or half the side of the square: larger than a cell." },
    { "by", AN_CHOICE, FIELD(ratio), .choices = corrections, .default_value = "difference",
      .help = "difference: for light that adds to the picture; ratio: for light that passes "
              "through the sample or falls on it." },
    { .key = NULL }
};

static const an_param contrast[] = {
    { "full_area", AN_INT, FIELD(full_area), .min = 1, .max = WU_MAX_VOXELS, .choices = word_auto,
      .word = FIELD(full_area_auto), .default_value = "100", .unit = "pixels", .measure = AN_AREA,
      .help = "Regions of at least this area stay, and give the contrast that smaller ones are "
              "compared with; auto: a third of a cell's area." },
    { "percent", AN_INT, FIELD(percent), .min = 0, .max = 1000, .default_value = "40",
      .help = "Least contrast of smaller regions, as a percentage of the larger ones'." },
    { .key = NULL }
};

const an_param cc_parameters[] = {
    { "smooth", AN_NUMBER, FIELD(smooth), .min = 0, .max = AN_GAUSS_MAX_SIGMA,
      .default_value = "0.0", .unit = "pixels", .measure = AN_LENGTH,
      .help = "Sigma of a Gaussian filter before the threshold, at least 0.3; 0: none." },
    { "background", AN_OBJECT, FIELD(background), .keys = background, .choices = word_null,
      .default_value = "null", .help = "Evens out the light before the threshold; null: off." },
    { "threshold", AN_INT, FIELD(threshold), .min = 0, .max = 65535, .choices = thresholds,
      .word = FIELD(threshold_word), .default_value = "otsu", .unit = "grey values",
      .help = "T. otsu: the one that separates the classes best; local: the mean around each "
              "pixel, less or plus offset." },
    { "classes", AN_INT, FIELD(classes), .min = 2, .max = AN_OTSU_CLASSES, .default_value = "2",
      .only_if_given = true,
      .help =
          "otsu: number of classes of grey values; cells are the darkest or the brightest one." },
    { "scale", AN_CHOICE, FIELD(scale), .choices = scales, .default_value = "linear",
      .only_if_given = true,
      .help = "otsu: sqrt takes the square root of grey values first, which suits fluorescence." },
    { "window", AN_INT, FIELD(window), .min = 3, .max = 2 * CC_MOST_RADIUS + 1,
      .choices = word_auto, .word = FIELD(window_auto), .default_value = "51", .unit = "pixels",
      .measure = AN_LENGTH,
      .help = "local: side of the square that the mean is taken of, an odd number; auto: 2.4 times "
              "the diameter of the picture's cells." },
    { "offset", AN_INT, FIELD(offset), .min = 0, .max = 32767, .default_value = "10",
      .unit = "grey values",
      .help = "local: by how much cells are darker or brighter than the mean; less than half the "
              "grey range." },
    { "offset_percent", AN_INT, FIELD(offset_percent), .min = 1, .max = 1000, .choices = word_null,
      .default_value = "null", .only_if_given = true,
      .help =
          "local: the offset as a percentage of the picture's contrast; null: offset applies." },
    { "polarity", AN_CHOICE, FIELD(polarity), .choices = polarities, .default_value = "dark",
      .help = "dark: cells are where value < T; bright: where value >= T; auto: whichever has "
              "fewer pixels in each picture." },
    { "connectivity", AN_CHOICE, FIELD(eight_connected), .choices = neighbours,
      .default_value = "8",
      .help = "Which cell pixels are connected: 4 by sides, 8 by corners, too." },
    { "fill_holes", AN_BOOL, FIELD(fill_holes), .default_value = "false",
      .help = "Whether background that is not connected with the border becomes cell; its "
              "connectivity is 4 if the cells' is 8, and vice versa." },
    { "min_area", AN_INT, FIELD(min_area), .min = 1, .max = WU_MAX_VOXELS, .choices = word_auto,
      .word = FIELD(min_area_auto), .default_value = "1", .unit = "pixels", .measure = AN_AREA,
      .help = "Smaller regions are left out; auto: by the area of the picture's cells." },
    { "max_area", AN_INT, FIELD(max_area), .min = 1, .max = WU_MAX_VOXELS, .choices = word_null,
      .default_value = "null", .unit = "pixels", .measure = AN_AREA,
      .help = "Larger regions are left out; null: none." },
    { "exclude_border", AN_BOOL, FIELD(exclude_border), .default_value = "false",
      .help = "Whether regions that touch the picture's border are left out." },
    { "min_fill", AN_NUMBER, FIELD(min_fill), .min = 0, .max = 1, .default_value = "0.0",
      .only_if_given = true,
      .help = "Regions that fill a smaller part of their box are left out; a disc fills 0.79." },
    { "max_aspect", AN_NUMBER, FIELD(max_aspect), .min = 1, .max = WU_MAX_SIDE,
      .choices = word_null, .default_value = "null", .only_if_given = true,
      .help = "Regions whose box is longer than this times its width are left out; null: none." },
    { "min_contrast", AN_OBJECT, FIELD(min_contrast), .keys = contrast, .choices = word_null,
      .default_value = "null", .only_if_given = true,
      .help = "Leaves out small regions with less contrast than large ones have; null: none." },
    { "split", AN_CHOICE, FIELD(split), .choices = splits, .default_value = "none",
      .help = "How cells that touch are separated. distance: where they are narrow; intensity: "
              "where they are least dark or bright." },
    { "h", AN_INT, FIELD(h), .min = 0, .max = 65535, .default_value = "5", .unit = "grey values",
      .help = "intensity: how much the grey value must change between two cells." },
    { "labels", AN_BOOL, FIELD(labels), .default_value = "false", .adds_picture = true,
      .help = "Whether labels_<item> is returned." },
    { .key = NULL }
};

tc_status cc_derive_params(void *params, const char *where, tc_err *err)
{
    cc_params *const p = params;

    p->bright = p->polarity == CC_BRIGHT;
    if (p->threshold_word != CC_OTSU && (p->classes != 2 || p->scale != AN_OTSU_LINEAR))
        return tc_fail(err, TC_BAD_INPUT, "%s.%s: goes only with threshold \"otsu\"", where,
                       p->classes != 2 ? "classes" : "scale");
    if (p->threshold_word != CC_LOCAL && p->offset_percent > 0)
        return tc_fail(err, TC_BAD_INPUT, "%s.offset_percent: goes only with threshold \"local\"",
                       where);
    if (p->smooth > 0 && p->smooth < CC_LEAST_SIGMA)
        return tc_fail(err, TC_BAD_INPUT, "%s.smooth: must be 0 or at least %g", where,
                       CC_LEAST_SIGMA);
    if (p->window_auto && p->threshold_word != CC_LOCAL)
        return tc_fail(err, TC_BAD_INPUT, "%s.window: \"auto\" goes only with threshold \"local\"",
                       where);
    if (!p->window_auto && p->window % 2 == 0)
        return tc_fail(err, TC_BAD_INPUT, "%s.window: must be odd", where);
    p->max_area = p->max_area == 0 ? INT64_MAX : p->max_area;
    if (p->max_area < p->min_area)
        return tc_fail(err, TC_BAD_INPUT, "%s.max_area: must not be smaller than min_area", where);
    return TC_OK;
}

uint32_t cc_threshold(const cc_params *p, unsigned bits)
{
    const uint32_t middle = cc_middle_grey(bits), offset = (uint32_t)p->offset;
    assert(!cc_finds_threshold(p) && (p->threshold_word != CC_LOCAL || offset < middle));

    return p->threshold_word != CC_LOCAL ? (uint32_t)p->threshold
           : p->bright                   ? middle + offset
                                         : middle - offset;
}
