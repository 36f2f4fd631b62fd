/* levelset: the table of its parameters, and the checks that involve several parameters. */
#include "app/analysis/levelset/levelset.h"

#define FIELD(field) AN_FIELD(ls_params, field)

static const char *const cfl[] = { "cfl", NULL };
static const char *const dense[] = { "0", NULL };
static const char *const starts[] = { "box", "ball", "mask", "otsu", NULL };
static const char *const otsu[] = { "otsu", NULL };
static const char *const polarities[] = { "bright", "dark", NULL };

/* Entries of the table for a bound of the box (SIDE), and for a coordinate of the ball's centre
 * (CENTRE). The keys of z (z0, z1, cz) have the default "", which makes them optional, as pictures
 * have no z. */
#define SIDE(name, i, default, text)        \
    { name,                                 \
      AN_INT,                               \
      FIELD(box[i]),                        \
      .min = 0,                             \
      .max = WU_MAX_SIDE,                   \
      .default_value = (default),           \
      .allowed_choices = 1u << LS_INIT_BOX, \
      .unit = "pixels",                     \
      .help = (text) }
#define CENTRE(name, i, default, text)       \
    { name,                                  \
      AN_NUMBER,                             \
      FIELD(centre[i]),                      \
      .min = -(double)WU_MAX_SIDE,           \
      .max = 2.0 * WU_MAX_SIDE,              \
      .default_value = (default),            \
      .allowed_choices = 1u << LS_INIT_BALL, \
      .unit = "pixels",                      \
      .help = (text) }

static const an_param init_keys[] = {
    { "type", AN_CHOICE, FIELD(init), .choices = starts,
      .help = "box: within the picture; ball: pixels within r of its centre; mask: that of each "
              "item; otsu: the side of Otsu's threshold that polarity says." },
    SIDE("x0", 0, NULL, "First column of the box."),
    SIDE("x1", 1, NULL, "Column after its last."),
    SIDE("y0", 2, NULL, "First row of the box."),
    SIDE("y1", 3, NULL, "Row after its last."),
    SIDE("z0", 4, "", "First slice of the box; for stacks only."),
    SIDE("z1", 5, "", "Slice after its last."),
    CENTRE("cx", 0, NULL, "Column of the ball's centre."),
    CENTRE("cy", 1, NULL, "Row of the ball's centre."),
    CENTRE("cz", 2, "", "Slice of the ball's centre; for stacks only."),
    { "r", AN_NUMBER, FIELD(r), .min = 0, .max = 2.0 * WU_MAX_SIDE,
      .allowed_choices = 1u << LS_INIT_BALL, .unit = "pixels", .measure = AN_LENGTH,
      .help = "Radius of the ball." },
    { .key = NULL }
};

const an_param ls_parameters[] = {
    { "target", AN_NUMBER, FIELD(target), .min = 0, .max = 65535, .choices = otsu,
      .word = FIELD(otsu), .unit = "grey values",
      .help = "T, the grey value that is sought; otsu: what is on one side of Otsu's threshold." },
    { "epsilon", AN_NUMBER, FIELD(epsilon), .min = 0, .above_min = true, .max = 65535,
      .unit = "grey values",
      .help = "Tolerance: the outline grows where |value - T| < epsilon; with target otsu how "
              "strongly it grows at the mean of the class." },
    { "polarity", AN_CHOICE, FIELD(dark), .choices = polarities, .default_value = "",
      .help = "With otsu: which side is sought; without: bright." },
    { "alpha", AN_NUMBER, FIELD(alpha), .min = 0, .max = 1, .default_value = "0.003",
      .help = "Weight of the grey values; smoothness has the weight 1 - alpha." },
    { "iterations", AN_INT, FIELD(iterations), .min = 0, .max = LS_MAX_ITERATIONS,
      .default_value = "1000", .help = "Greatest number of iterations." },
    { "dt", AN_NUMBER, FIELD(dt), .min = 0, .above_min = true, .max = 1000, .choices = cfl,
      .word = FIELD(cfl), .default_value = "cfl",
      .help = "Time step; cfl: at most half a pixel, and short enough to be stable." },
    { "reinit_every", AN_INT, FIELD(reinit_every), .min = 0, .max = LS_MAX_ITERATIONS,
      .default_value = "50", .unit = "iterations",
      .help =
          "After so many, phi, which is 0 on the outline, is made a distance again; 0: never." },
    { "band", AN_INT, FIELD(band), .min = LS_MIN_BAND, .max = LS_MAX_BAND, .choices = dense,
      .default_value = "0", .unit = "pixels", .measure = AN_LENGTH,
      .help = "Only what is within so many pixels of the outline is computed; 0: all." },
    { "smooth", AN_NUMBER, FIELD(smooth), .min = 0, .max = LS_MAX_SMOOTH, .default_value = "0.0",
      .unit = "pixels", .measure = AN_LENGTH,
      .help = "Sigma of a Gaussian filter before; 0: none." },
    { "edge_stop", AN_NUMBER, FIELD(edge_stop), .min = 0, .max = 1e6, .default_value = "0.0",
      .help =
          "w: slows the outline at edges: the speed is divided by 1 + w |gradient|^2; 0: off." },
    { "stop_after", AN_INT, FIELD(stop_after), .min = 0, .max = LS_MAX_ITERATIONS,
      .default_value = "0", .unit = "iterations",
      .help = "Stops after so many iterations in which no pixel changed sides; 0: never." },
    { "init", AN_OBJECT, .keys = init_keys,
      .help = "The start, with a pixel inside and one outside." },
    { .key = NULL }
};

tc_status ls_derive_params(void *params, const char *where, tc_err *err)
{
    ls_params *const p = params;
    const json_t *const init = json_object_get(p->head.as_run, "init");
    const bool z0 = json_object_get(init, "z0") != NULL, z1 = json_object_get(init, "z1") != NULL;

    p->init_has_z = z0 || json_object_get(init, "cz") != NULL;
    if (p->init != LS_INIT_BOX)
        return TC_OK;
    if (z0 != z1)
        return tc_fail(err, TC_BAD_INPUT, "%s.init: z0 and z1 go together", where);
    p->box[5] = z1 ? p->box[5] : 1; /* a picture is a single slice */
    for (size_t i = 0; i < 3; i++)
        if (p->box[2 * i + 1] <= p->box[2 * i])
            return tc_fail(err, TC_BAD_INPUT, "%s.init: %c1 must be above %c0", where, "xyz"[i],
                           "xyz"[i]);
    return TC_OK;
}
