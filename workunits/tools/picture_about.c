/* Reads properties that several file formats record in addition to the samples of a picture: the
 * size of pixels and its unit, orientation (Exif), palettes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "workunits/format/job.h"
#include "workunits/tools/picture_format.h"

double wu_unit_micrometres(const char *unit, size_t n)
{
    static const struct {
        const char *name;
        double um;
    } units[] = {
        { "micron", 1 },
        { "microns", 1 },
        { "micrometer", 1 },
        { "micrometers", 1 },
        { "micrometre", 1 },
        { "micrometres", 1 },
        { "um", 1 },
        { "\xc2\xb5m", 1 }, /* micro sign, UTF-8 */
        { "\xce\xbcm", 1 }, /* Greek letter mu, UTF-8 */
        { "\xb5m", 1 },     /* micro sign, Latin-1 */
        /* the escapes of JSON and XML, which some programs write literally */
        { "\\u00B5m", 1 },
        { "\\u00b5m", 1 },
        { "\\u03BCm", 1 },
        { "\\u03bcm", 1 },
        { "&#181;m", 1 },
        { "\xc3\x82\xc2\xb5m", 1 }, /* UTF-8 that was read as Latin-1 and encoded once more */
        { "\xc3\x8e\xc2\xbcm", 1 },
        { "nm", 1e-3 },
        { "nanometer", 1e-3 },
        { "nanometers", 1e-3 },
        { "pm", 1e-6 },
        { "\xc3\x85", 1e-4 },     /* angstrom: A with a ring, UTF-8 */
        { "\xe2\x84\xab", 1e-4 }, /* angstrom sign, UTF-8 */
        { "\xc5", 1e-4 },         /* A with a ring, Latin-1 */
        { "\\u00C5", 1e-4 },
        { "\\u00c5", 1e-4 },
        { "angstrom", 1e-4 },
        { "mm", 1e3 },
        { "millimeter", 1e3 },
        { "millimeters", 1e3 },
        { "cm", 1e4 },
        { "centimeter", 1e4 },
        { "dm", 1e5 },
        { "m", 1e6 },
        { "meter", 1e6 },
        { "km", 1e9 },
        { "inch", 25400 },
        { "inches", 25400 },
        { "in", 25400 },
        { "ft", 304800 },
    };
    while (n > 0 && (unit[n - 1] == ' ' || unit[n - 1] == '\r'))
        n--;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strlen(units[i].name) == n && strncasecmp(unit, units[i].name, n) == 0)
            return units[i].um;
    return 0;
}

bool wu_is_nonlength_unit(const char *unit, size_t n)
{
    static const char *const names[] = { "",     "pixel", "pixels", "reference frame",
                                         "null", "none",  "px",     "unit" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strlen(names[i]) == n && strncasecmp(unit, names[i], n) == 0)
            return true;
    return false;
}

/* x, y: pixels per unit. */
void wu_about_set_resolution(wu_picture *picture, double x, double y, double unit_um)
{
    /* Pixels of screens, print and most scanners are larger than this, those of microscopes
     * smaller. */
    static const double largest_um = 10;
    double *const voxel_um = picture->about.um;
    const wu_metadata *const metadata = &picture->metadata;
    if (metadata->unit_um > 0)
        unit_um = metadata->unit_um;
    if (!(x > 0 && y > 0 && unit_um > 0) || voxel_um[2] > 0)
        return;
    /* A unit that a text names is the user's calibration, of any size, except for inches, which
     * programs for screens and print use. */
    if ((metadata->unit_um == 0 || metadata->inches) &&
        (unit_um / x > largest_um || unit_um / y > largest_um))
        return;
    voxel_um[1] = (metadata->unit_y_um > 0 ? metadata->unit_y_um : unit_um) / y;
    voxel_um[2] = unit_um / x;
}

/* Rounds to six significant digits: 0.065, not 0.06499999761581421. */
static double round_micrometres(double um)
{
    char text[32];
    snprintf(text, sizeof text, "%.6g", um);
    return strtod(text, NULL);
}

void wu_about_round_sizes(wu_picture_about *out)
{
    for (int i = 0; i < 3; i++)
        out->um[i] = round_micrometres(fabs(out->um[i]));
    if (!wu_is_voxel_size(out->um[0]))
        out->um[0] = 0;
    if (!wu_is_voxel_size(out->um[1]) || !wu_is_voxel_size(out->um[2]))
        out->um[0] = out->um[1] = out->um[2] = 0;
}

/* --- Exif ------------------------------------------------------------------------------------ */

/* Reads an unsigned integer of up to 4 bytes. big: whether it is big-endian. */
static unsigned number_at(const uint8_t *data, size_t bytes, bool big)
{
    unsigned value = 0;
    for (size_t i = 0; i < bytes; i++)
        value |= (unsigned)data[big ? bytes - 1 - i : i] << (8 * i);
    return value;
}

/* Exif data have the layout of a TIFF file. The header is "II" (little-endian) or "MM"
 * (big-endian), 2 further bytes, and the offset of a directory. The directory is the number of its
 * entries, followed by the entries: number of the tag, type, count, value. */
void wu_about_read_exif(const uint8_t *data, size_t n, wu_picture_about *out)
{
    enum {
        HEAD = 8,            /* bytes of the header */
        ENTRY = 12,          /* bytes of an entry */
        ORIENTATION = 0x112, /* number of the tag */
        SHORT = 3            /* the type of this tag: 16 bits */
    };
    if (n < HEAD || data[0] != data[1] || (data[0] != 'I' && data[0] != 'M'))
        return;
    const bool big = data[0] == 'M';
    const size_t at = number_at(data + 4, 4, big);
    if (at > n || n - at < 2)
        return;
    size_t entries = number_at(data + at, 2, big);
    for (const uint8_t *entry = data + at + 2; entries > 0 && (size_t)(data + n - entry) >= ENTRY;
         entries--, entry += ENTRY)
        if (number_at(entry, 2, big) == ORIENTATION && number_at(entry + 2, 2, big) == SHORT)
            wu_about_set_orientation(number_at(entry + 8, 2, big), out);
}

void wu_about_set_orientation(unsigned value, wu_picture_about *out)
{
    if (value >= 1 && value <= 8)
        out->orientation = value;
}

/* --- palettes -------------------------------------------------------------------------------- */

/* A ramp goes from nearly black to a bright colour (or the reverse) through multiples of that
 * colour, and does not get darker on the way. */
bool wu_is_palette_ramp(const uint8_t (*colour)[3], size_t n)
{
    enum {
        COLOURS = 256, /* number of colours */
        DISTINCT = 64, /* the fewest different brightnesses */
        NEAR = 3,      /* the largest deviation of a component from the multiple of the brightest
                          colour */
        DARK = 8,      /* the largest value of the darkest colour */
        BRIGHT = 128,  /* the least value of the brightest colour */
        COLOURED = 32  /* the least difference between the largest and the smallest component of the
                         brightest colour, which must not be grey */
    };
    if (n != COLOURS)
        return false;
    const bool reversed = colour[0][0] + colour[0][1] + colour[0][2] >
                          colour[n - 1][0] + colour[n - 1][1] + colour[n - 1][2];
    const uint8_t *const top = colour[reversed ? 0 : n - 1];
    const int most =
        top[0] > top[1] ? (top[0] > top[2] ? top[0] : top[2]) : (top[1] > top[2] ? top[1] : top[2]);
    const int least =
        top[0] < top[1] ? (top[0] < top[2] ? top[0] : top[2]) : (top[1] < top[2] ? top[1] : top[2]);
    if (most < BRIGHT || most - least < COLOURED)
        return false;
    /* The largest component of the brightest colour measures the brightness of each colour. */
    const size_t leading = top[0] == most ? 0 : top[1] == most ? 1 : 2;
    int previous = 0;
    unsigned distinct = 1;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *const c = colour[reversed ? n - 1 - i : i];
        const int current = c[leading];
        /* c[k] should be top[k] * current / most; both sides are multiplied by `most`. */
        for (size_t k = 0; k < 3; k++)
            if (abs(c[k] * most - current * top[k]) > NEAR * most)
                return false;
        if (current < previous || (i == 0 && current > DARK))
            return false;
        distinct += current > previous;
        previous = current;
    }
    return distinct >= DISTINCT;
}
