/* What picture files say beside their samples, as far as texts and tags are alike in several
 * formats. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "workunits/tools/picture_format.h"

/* A length in micrometres that may be the size of a voxel. */
static bool is_length(double um)
{
    return isfinite(um) && um > 1e-9 && um < 1e9;
}

/* Micrometres of a unit that ends at one of `ends`; 0: no length, or not known. */
static double micrometres_of_unit(const char *unit, const char *ends)
{
    static const struct {
        const char *name;
        double um;
    } units[] = {
        { "micron", 1 },    { "microns", 1 },     { "micrometer", 1 }, { "um", 1 },
        { "\xc2\xb5m", 1 }, { "\xce\xbcm", 1 },   { "\\u00B5m", 1 },   { "\\u00b5m", 1 },
        { "&#181;m", 1 },   { "\xb5m", 1 },       { "nm", 1e-3 },      { "nanometer", 1e-3 },
        { "pm", 1e-6 },     { "\xc3\x85", 1e-4 }, { "mm", 1e3 },       { "millimeter", 1e3 },
        { "cm", 1e4 },      { "m", 1e6 },         { "inch", 25400 },   { "in", 25400 },
    };
    const size_t n = strcspn(unit, ends);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strlen(units[i].name) == n && strncmp(unit, units[i].name, n) == 0)
            return units[i].um;
    return 0;
}

/* What stands behind key in text, or NULL. */
static const char *text_after(const char *text, const char *key)
{
    const char *const at = strstr(text, key);
    return at == NULL ? NULL : at + strlen(key);
}

static unsigned long count_after(const char *text, const char *key)
{
    const char *const at = text_after(text, key);
    const unsigned long n = at == NULL ? 1 : strtoul(at, NULL, 10);
    return n == 0 ? 1 : n;
}

static double number_after(const char *text, const char *key)
{
    const char *const at = text_after(text, key);
    return at == NULL ? 0 : strtod(at, NULL);
}

/* ImageJ's "key=value" lines: the resolution tags count pixels per unit. */
static void read_imagej(const char *text, wu_picture_about *out)
{
    const char *const unit = text_after(text, "\nunit=");
    const double um = unit == NULL ? 0 : micrometres_of_unit(unit, "\r\n");
    out->channels = count_after(text, "\nchannels=");
    out->frames = count_after(text, "\nframes=");
    out->slices = count_after(text, "\nslices=");
    out->images = count_after(text, "\nimages=");
    memcpy(out->order, "czt", sizeof out->order);
    out->unit_um = um;
    if (um > 0)
        out->um[0] = number_after(text, "\nspacing=") * um;
}

/* The tag that begins at `at`, of at most `room` - 1 bytes, in `out`; longer ones are cut. */
static void copy_tag(const char *at, char *out, size_t room)
{
    const size_t n = strcspn(at, ">");
    snprintf(out, room, "%.*s", (int)(n < room ? n : room - 1), at);
}

/* DimensionOrder has all five axes; x and y come first. */
static void read_order(const char *pixels, wu_picture_about *out)
{
    const char *const text = text_after(pixels, " DimensionOrder=\"XY");
    size_t n = 0;
    for (; text != NULL && n < 3 && strchr("CTZ", text[n]) != NULL && text[n] != '\0'; n++)
        out->order[n] = (char)(text[n] + ('a' - 'A'));
    if (n < 3 || out->order[0] == out->order[1] || out->order[1] == out->order[2] ||
        out->order[0] == out->order[2])
        memcpy(out->order, "czt", sizeof out->order);
}

/* The page that a TiffData element should name. */
static unsigned long page_of(const char *data, const wu_picture_about *about)
{
    unsigned long page = 0, stride = 1;
    for (const char *axis = about->order; *axis != '\0'; axis++) {
        const char *const first = text_after(data, *axis == 'c'   ? " FirstC=\""
                                                   : *axis == 't' ? " FirstT=\""
                                                                  : " FirstZ=\"");
        page += stride * (first == NULL ? 0 : strtoul(first, NULL, 10));
        stride *= *axis == 'c' ? about->channels : *axis == 't' ? about->frames : about->slices;
    }
    return page;
}

/* What the first Pixels element says, and whether the pages are in its order. */
static void read_ome(const char *text, wu_picture_about *out)
{
    static const struct {
        const char *size, *unit;
    } keys[3] = {
        { " PhysicalSizeZ=\"", " PhysicalSizeZUnit=\"" },
        { " PhysicalSizeY=\"", " PhysicalSizeYUnit=\"" },
        { " PhysicalSizeX=\"", " PhysicalSizeXUnit=\"" },
    };
    char pixels[2048], data[256];
    const char *const begin = strstr(text, "<Pixels "), *at;
    if (begin == NULL)
        return;
    copy_tag(begin, pixels, sizeof pixels);
    out->channels = count_after(pixels, " SizeC=\"");
    out->frames = count_after(pixels, " SizeT=\"");
    out->slices = count_after(pixels, " SizeZ=\"");
    read_order(pixels, out);
    for (int i = 0; i < 3; i++) {
        const char *const unit = text_after(pixels, keys[i].unit);
        out->um[i] = number_after(pixels, keys[i].size) *
                     (unit == NULL ? 1 : micrometres_of_unit(unit, "\""));
    }
    const char *const next = strstr(begin + 1, "<Pixels "), *const end =
                                                                next != NULL
                                                                    ? next
                                                                    : begin + strlen(begin);
    for (at = begin; (at = strstr(at + 1, "<TiffData ")) != NULL && at < end;) {
        copy_tag(at, data, sizeof data);
        const char *const page = text_after(data, " IFD=\"");
        if (page != NULL && strtoul(page, NULL, 10) != page_of(data, out))
            out->irregular = true;
    }
    for (at = next; at != NULL; at = strstr(at + 1, "<Pixels "))
        out->series++;
}

void wu_about_description(const char *text, wu_picture_about *out)
{
    if (strncmp(text, "ImageJ=", 7) == 0)
        read_imagej(text, out);
    else if (strstr(text, "<OME ") != NULL)
        read_ome(text, out);
}

/* Print resolutions that programs write into pictures that have no size: of 1 inch. */
static bool is_print_resolution(double per_inch)
{
    static const double usual[] = { 72,  90,  96,  100, 120, 150, 180, 200,
                                    240, 300, 350, 360, 400, 600, 720, 1200 };
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++)
        if (fabs(per_inch - usual[i]) < 0.002 * usual[i])
            return true;
    return false;
}

void wu_about_resolution(double x, double y, double unit_um, wu_picture_about *out)
{
    if (out->unit_um > 0)
        unit_um = out->unit_um;
    else if (unit_um > 0 && is_print_resolution(x * 25400 / unit_um))
        return;
    if (x > 0 && y > 0 && unit_um > 0 && out->um[2] == 0) {
        out->um[1] = unit_um / y;
        out->um[2] = unit_um / x;
    }
}

/* With as many digits as such numbers are known to: 0.065, not 0.06499999761581421. */
static double round_micrometres(double um)
{
    char text[32];
    snprintf(text, sizeof text, "%.6g", um);
    return strtod(text, NULL);
}

void wu_about_check(wu_picture_about *out)
{
    for (int i = 0; i < 3; i++)
        out->um[i] = round_micrometres(out->um[i]);
    if (!is_length(out->um[0]))
        out->um[0] = 0;
    if (!is_length(out->um[1]) || !is_length(out->um[2]))
        out->um[0] = out->um[1] = out->um[2] = 0;
}

/* --- Exif ------------------------------------------------------------------------------------ */

static unsigned number_at(const uint8_t *data, size_t bytes, bool big)
{
    unsigned value = 0;
    for (size_t i = 0; i < bytes; i++)
        value |= (unsigned)data[big ? bytes - 1 - i : i] << (8 * i);
    return value;
}

/* A TIFF file in short: a header, and at the offset that it tells entries of 12 bytes. */
void wu_about_exif(const uint8_t *data, size_t n, wu_picture_about *out)
{
    enum { HEAD = 8, ENTRY = 12, ORIENTATION = 0x112, SHORT = 3 };
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
            wu_about_orientation(number_at(entry + 8, 2, big), out);
}

void wu_about_orientation(unsigned value, wu_picture_about *out)
{
    if (value >= 1 && value <= 8)
        out->orientation = value;
}
