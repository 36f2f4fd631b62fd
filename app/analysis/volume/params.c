/* volume: the table of its parameters, and the checks that involve several parameters. */
#include "app/analysis/volume/volume.h"

#define FIELD(field) AN_FIELD(vol_params, field)

static const char *const modes[] = { "slices", "3d", NULL };
static const char *const null[] = { "null", NULL };
static const char *const methods[] = { "threshold", "watershed", NULL };
static const char *const otsu[] = { "otsu", NULL };
static const char *const neighbours[] = { "6", "26", NULL };

static const an_param repair[] = {
    { "sigma", AN_NUMBER, FIELD(sigma), .min = VOL_MIN_SIGMA, .max = VOL_MAX_SIGMA,
      .default_value = "1.5", .unit = "voxels", .measure = AN_LENGTH,
      .help = "Sigma of the Gaussian filter that blurs the membrane." },
    { "threshold", AN_INT, FIELD(threshold), .min = 1, .max = VOL_MEMBRANE_VALUE,
      .default_value = "64",
      .help = "Voxels become membrane where the blurred membrane (0 to 255) is at least this." },
    { .key = NULL }
};

const an_param vol_parameters[] = {
    { "method", AN_CHOICE, FIELD(watershed), .choices = methods, .default_value = "threshold",
      .help = "threshold: cells are what membrane encloses; watershed: dark places, divided along "
              "their brightest lines, so walls may have gaps." },
    { "membrane", AN_INT, FIELD(membrane), .min = 0, .max = 65535, .choices = otsu,
      .word = FIELD(otsu), .default_value = "otsu", .unit = "grey values",
      .help = "T: membrane is where value >= T; otsu: the one that separates two classes best." },
    { "smooth", AN_NUMBER, FIELD(smooth), .min = 0, .max = AN_GAUSS_MAX_SIGMA,
      .default_value = "0.0", .unit = "voxels", .measure = AN_LENGTH,
      .help = "Sigma of a Gaussian filter of the grey values, at least 0.3; 0: none." },
    { "h", AN_NUMBER, FIELD(h), .min = 0, .max = 65535, .default_value = "1.0",
      .unit = "grey values",
      .help = "watershed: how much brighter than a cell its walls must be all around; else it is "
              "joined with the next one." },
    { "connectivity", AN_CHOICE, FIELD(corners), .choices = neighbours, .default_value = "6",
      .help =
          "watershed: neighbours share a face (6), or at least a corner (26); in slices 4 or 8." },
    { "fill", AN_BOOL, FIELD(fill), .default_value = "false",
      .help = "watershed: whether walls belong to the cells on their sides." },
    { "mode", AN_CHOICE, FIELD(is_3d), .choices = modes, .default_value = "3d",
      .help = "3d: voxels that share a face are connected; slices: each slice is by itself." },
    { "repair", AN_OBJECT, FIELD(repair), .keys = repair, .choices = null, .default_value = "null",
      .help = "threshold: closes gaps in the membrane; null: not." },
    { "min_voxels", AN_INT, FIELD(min_voxels), .min = 1, .max = WU_MAX_VOXELS, .default_value = "1",
      .unit = "voxels", .measure = AN_VOLUME, .help = "Smaller cells are left out." },
    { "max_voxels", AN_INT, FIELD(max_voxels), .min = 1, .max = WU_MAX_VOXELS, .choices = null,
      .default_value = "null", .unit = "voxels", .measure = AN_VOLUME,
      .help = "Larger cells are left out; null: none." },
    { "exclude_border", AN_BOOL, FIELD(exclude_border), .default_value = "false",
      .help =
          "Whether cells with a voxel in the first or last slice, row or column are left out." },
    { "labels", AN_BOOL, FIELD(labels), .default_value = "false", .adds_picture = true,
      .help = "Whether labels_<item> is returned." },
    { .key = NULL }
};

tc_status vol_derive_params(void *params, const char *where, tc_err *err)
{
    vol_params *const p = params;

    if (p->watershed && p->repair)
        return tc_fail(err, TC_BAD_INPUT,
                       "%s.repair: is for method threshold; a watershed needs none", where);
    if (p->smooth > 0 && p->smooth < VOL_MIN_SIGMA)
        return tc_fail(err, TC_BAD_INPUT, "%s.smooth: must be 0 or at least %g", where,
                       VOL_MIN_SIGMA);
    if (p->repair && p->smooth > 0)
        return tc_fail(err, TC_BAD_INPUT, "%s.repair: does not go with smooth", where);
    if (!p->watershed && (p->fill || p->corners))
        return tc_fail(err, TC_BAD_INPUT, "%s.%s: is for method watershed", where,
                       p->fill ? "fill" : "connectivity");
    p->max_voxels = p->max_voxels == 0 ? INT64_MAX : p->max_voxels;
    if (p->max_voxels < p->min_voxels)
        return tc_fail(err, TC_BAD_INPUT, "%s.max_voxels: must not be smaller than min_voxels",
                       where);
    return TC_OK;
}
