/* cellcount: its parameters. */
#include "app/analysis/cellcount/cellcount.h"

#define FIELD(field) AN_FIELD(cc_params, field)

static const char *const thresholds[] = { "otsu", "local", NULL };
static const char *const polarities[] = { "dark", "bright", NULL };
static const char *const neighbours[] = { "4", "8", NULL };
static const char *const splits[] = { "none", "distance", "intensity", NULL };
static const char *const grounds[] = { "mean", "opening", "lines", NULL };
static const char *const ways[] = { "difference", "ratio", NULL };
static const char *const no_limit[] = { "null", NULL };

static const an_param background[] = {
    { "method", AN_CHOICE, FIELD(ground), .choices = grounds, .initial = "opening",
      .help = "mean: of the pixels around; lines: the same, but light that rises towards the "
              "picture's border is "
              "followed; opening: what an opening by a disc leaves, of dark cells a closing." },
    { "radius", AN_INT, FIELD(radius), .min = 1, .max = CC_MOST_RADIUS, .initial = "50",
      .unit = "pixels", .measure = AN_LENGTH,
      .help =
          "Of the disc, or half the side of the square that is looked at: larger than cells are." },
    { "by", AN_CHOICE, FIELD(ratio), .choices = ways, .initial = "difference",
      .help = "difference: light that was added; ratio: light that falls unevenly through or on "
              "what is seen." },
    { .key = NULL }
};

const an_param cc_parameters[] = {
    { "smooth", AN_NUMBER, FIELD(smooth), .min = 0, .max = AN_GAUSS_MAX_SIGMA, .initial = "0.0",
      .unit = "pixels", .measure = AN_LENGTH,
      .help = "Sigma of the Gaussian filter of the grey values before, at least 0.3; 0: none." },
    { "background", AN_OBJECT, FIELD(background), .keys = background, .choices = no_limit,
      .initial = "null",
      .help =
          "Takes uneven light off before the threshold; null: grey values are taken as they are." },
    { "threshold", AN_INT, FIELD(threshold), .min = 0, .max = 65535, .choices = thresholds,
      .word = FIELD(threshold_word), .initial = "otsu", .unit = "grey values",
      .help = "T, up to the greatest value of the item's depth; otsu: the one that separates two "
              "classes best; local: "
              "the mean around a pixel, and offset." },
    { "window", AN_INT, FIELD(window), .min = 3, .max = 2 * CC_MOST_RADIUS + 1, .initial = "51",
      .unit = "pixels", .measure = AN_LENGTH,
      .help = "local: the side of the square that the mean is of, an odd number." },
    { "offset", AN_INT, FIELD(offset), .min = 0, .max = 32767, .initial = "10",
      .unit = "grey values",
      .help = "local: how much darker or brighter than the mean cells are at least, less than half "
              "of all values." },
    { "polarity", AN_CHOICE, FIELD(bright), .choices = polarities, .initial = "dark",
      .help = "dark: cells are where value < T; bright: where value >= T." },
    { "connectivity", AN_CHOICE, FIELD(eight_connected), .choices = neighbours, .initial = "8",
      .help = "How many of a pixel's neighbours belong to the same cell if they are cell." },
    { "fill_holes", AN_BOOL, FIELD(fill_holes), .initial = "false",
      .help = "Whether background that is not connected with the picture's border becomes cell; "
              "background is "
              "connected by 4 where cells are by 8, and the reverse." },
    { "min_area", AN_INT, FIELD(min_area), .min = 1, .max = WU_MAX_VOXELS, .initial = "1",
      .unit = "pixels", .measure = AN_AREA, .help = "Smaller regions are left out." },
    { "max_area", AN_INT, FIELD(max_area), .min = 1, .max = WU_MAX_VOXELS, .choices = no_limit,
      .initial = "null", .unit = "pixels", .measure = AN_AREA,
      .help = "Larger regions are left out; null: none." },
    { "exclude_border", AN_BOOL, FIELD(exclude_border), .initial = "false",
      .help = "Whether regions that touch the picture's border are left out." },
    { "split", AN_CHOICE, FIELD(split), .choices = splits, .initial = "none",
      .help = "distance: cells that touch are separated where they are narrow; intensity: where "
              "they are least dark or "
              "bright between." },
    { "h", AN_INT, FIELD(h), .min = 0, .max = 65535, .initial = "5", .unit = "grey values",
      .help = "intensity: a darkest or brightest place is a cell of its own if the way to another "
              "leads over at least this "
              "much." },
    { "labels", AN_BOOL, FIELD(labels), .initial = "false", .pictured = true,
      .help = "Whether labels_<item> is returned." },
    { .key = NULL }
};

tc_status cc_derive_params(void *params, const char *where, tc_err *err)
{
    cc_params *const p = params;

    if (p->smooth > 0 && p->smooth < CC_LEAST_SIGMA)
        return tc_fail(err, TC_BAD_INPUT, "%s.smooth: must be 0 or at least %g", where,
                       CC_LEAST_SIGMA);
    if (p->window % 2 == 0)
        return tc_fail(err, TC_BAD_INPUT, "%s.window: must be odd", where);
    p->max_area = p->max_area == 0 ? INT64_MAX : p->max_area;
    if (p->max_area < p->min_area)
        return tc_fail(err, TC_BAD_INPUT, "%s.max_area: must not be smaller than min_area", where);
    return TC_OK;
}

uint32_t cc_threshold(const cc_params *p, unsigned bits)
{
    const uint32_t middle = cc_middle(bits), offset = (uint32_t)p->offset;

    return p->threshold_word != CC_LOCAL ? (uint32_t)p->threshold
           : p->bright                   ? middle + offset
                                         : middle - offset;
}
