/* cellcount: what it may be told. */
#include "app/analysis/cellcount/cellcount.h"

#define FIELD(field) AN_FIELD(cc_params, field)

static const char *const otsu[] = { "otsu", NULL }, *const polarities[] = { "dark", "bright", NULL };
static const char *const neighbours[] = { "4", "8", NULL }, *const splits[] = { "none", "distance", NULL };
static const char *const no_limit[] = { "null", NULL };

const an_param cc_parameters[] = {
    { "threshold", AN_INT, FIELD(threshold), .min = 0, .max = 65535, .choices = otsu, .word = FIELD(otsu),
      .initial = "otsu", .unit = "grey values",
      .help = "T, up to the greatest value of the item's depth; otsu: the one that separates two classes best." },
    { "polarity", AN_CHOICE, FIELD(bright), .choices = polarities, .initial = "dark",
      .help = "dark: cells are where value < T; bright: where value >= T." },
    { "connectivity", AN_CHOICE, FIELD(eight_connected), .choices = neighbours, .initial = "8",
      .help = "How many of a pixel's neighbours belong to the same cell if they are cell." },
    { "fill_holes", AN_BOOL, FIELD(fill_holes), .initial = "false",
      .help = "Whether background that is not connected with the picture's border becomes cell; background is "
              "connected by 4 where cells are by 8, and the reverse." },
    { "min_area", AN_INT, FIELD(min_area), .min = 1, .max = WU_MAX_VOXELS, .initial = "1", .unit = "pixels",
      .measure = AN_AREA, .help = "Smaller regions are left out." },
    { "max_area", AN_INT, FIELD(max_area), .min = 1, .max = WU_MAX_VOXELS, .choices = no_limit, .initial = "null",
      .unit = "pixels", .measure = AN_AREA, .help = "Larger regions are left out; null: none." },
    { "exclude_border", AN_BOOL, FIELD(exclude_border), .initial = "false",
      .help = "Whether regions that touch the picture's border are left out." },
    { "split", AN_CHOICE, FIELD(split), .choices = splits, .initial = "none",
      .help = "distance: cells that touch are separated where they are narrow." },
    { "labels", AN_BOOL, FIELD(labels), .initial = "false", .pictured = true,
      .help = "Whether labels_<item> is returned." },
    { .key = NULL }
};

tc_status cc_derive_params(void *params, const char *where, tc_err *err)
{
    cc_params *const p = params;

    p->threshold = p->otsu ? CC_THRESHOLD_OTSU : p->threshold;
    p->max_area = p->max_area == 0 ? INT64_MAX : p->max_area;
    if (p->max_area < p->min_area)
        return tc_fail(err, TC_BAD_INPUT, "%s.max_area: must not be smaller than min_area", where);
    return TC_OK;
}
