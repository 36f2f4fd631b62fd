/* Reads the descriptions of a file's pages (TIFF's ImageDescription) that ImageJ, SCIFIO and
 * tifffile write. */
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/base/text.h"
#include "workunits/tools/picture_format.h"

/* 2^21 - 1. Larger counts are reduced to it, so that the product of three counts fits into 64 bits.
 */
#define MAX_COUNT UINT64_C(0x1fffff)
enum { MAX_AXES = 16 }; /* the most axes that are read from a text */

void wu_metadata_refuse(wu_metadata *metadata, const char *format, ...)
{
    va_list args;
    if (metadata->refusal[0] != '\0')
        return;
    va_start(args, format);
    vsnprintf(metadata->refusal, sizeof metadata->refusal, format, args);
    va_end(args);
    tc_make_printable(metadata->refusal);
}

/* --- lines of key=value ---------------------------------------------------------------------- */

/* Returns the value in the line "key=value" of the text, and sets *n to the value's length. Returns
 * NULL if there is no such line. */
static const char *value_of(const char *text, const char *key, size_t *n)
{
    const size_t m = strlen(key);
    for (const char *at = text; at != NULL; at = strpbrk(at, "\r\n")) {
        at += strspn(at, "\r\n");
        if (strncmp(at, key, m) == 0 && at[m] == '=') {
            *n = strcspn(at + m + 1, "\r\n");
            return at + m + 1;
        }
        if (*at == '\0')
            break;
    }
    return NULL;
}

/* The value of a key as a count from 1 to MAX_COUNT; `fallback` if there is none. */
static uint64_t count_of(const char *text, const char *key, uint64_t fallback)
{
    size_t n;
    const char *const at = value_of(text, key, &n);
    const uint64_t count = at == NULL || *at == '-' ? 0 : strtoull(at, NULL, 10);
    return count == 0 ? fallback : count < MAX_COUNT ? count : MAX_COUNT;
}

/* The value of a key as a number; `fallback` if there is none. */
static double number_of(const char *text, const char *key, double fallback)
{
    size_t n;
    const char *const at = value_of(text, key, &n);
    char *end = NULL;
    const double value = at == NULL ? fallback : strtod(at, &end);
    return at == NULL || end == at || !isfinite(value) ? fallback : value;
}

/* Returns the length in micrometres of the unit that is the value of a key, or 0 if the unit is
 * unknown, or `fallback` if there is no such key. */
static double unit_of(const char *text, const char *key, double fallback)
{
    size_t n;
    const char *const at = value_of(text, key, &n);
    return at == NULL ? fallback : wu_unit_micrometres(at, n);
}

/* Reads the calibration of samples in ImageJ's text. The key cf is the number of a function: 0 is
 * the straight line c0 + c1 * sample, 20 is no calibration; other functions are not supported. */
static void read_calibration(wu_picture *picture, const char *text)
{
    wu_metadata *const metadata = &picture->metadata;
    size_t n;
    if (value_of(text, "cf", &n) == NULL)
        return;
    const double function = number_of(text, "cf", -1);
    const double slope = number_of(text, "c1", 1), offset = number_of(text, "c0", 0);
    /* Pairs of < and >, or of <= and >=, stand for != and ==, which compilers warn of for doubles.
     */
    if (function < 0 || function > 0) {
        picture->about.remarks |=
            function >= 20 && function <= 20 ? 0 : WU_REMARK_CURVED_CALIBRATION;
        return;
    }
    if (slope < 0 || slope > 0) {
        const bool is_identity = slope >= 1 && slope <= 1 && offset >= 0 && offset <= 0;
        metadata->slope = is_identity ? 0 : slope; /* 0: values are the samples */
        metadata->offset = offset;
    }
}

/* Reads ImageJ's text. The TIFF file's resolution tags have the number of pixels per unit, and the
 * text names this unit. */
static void read_imagej(wu_picture *picture, const char *text)
{
    wu_metadata *const metadata = &picture->metadata;
    size_t n;
    const double um = unit_of(text, "unit", 0);
    const char *const unit = value_of(text, "unit", &n);
    metadata->by = "ImageJ's text";
    metadata->channels = count_of(text, "channels", 1);
    metadata->frames = count_of(text, "frames", 1);
    metadata->slices = count_of(text, "slices", 1);
    metadata->images = count_of(text, "images", 0);
    memcpy(metadata->order, "czt", sizeof metadata->order);
    metadata->unit_um = um;
    metadata->unit_y_um = unit_of(text, "yunit", 0);
    metadata->inches = unit != NULL && strncmp(unit, "in", 2) == 0;
    if (unit != NULL && um <= 0 && !wu_is_nonlength_unit(unit, n))
        picture->about.remarks |= WU_REMARK_UNKNOWN_UNIT;
    picture->about.um[0] = number_of(text, "spacing", 0) * unit_of(text, "zunit", um);
    read_calibration(picture, text);
}

/* --- SCIFIO ---------------------------------------------------------------------------------- */

/* Returns entry i of a comma-separated list of `length` bytes, and sets *n to the entry's length.
 * Returns NULL if the list has fewer entries. */
static const char *list_entry(const char *list, size_t length, unsigned i, size_t *n)
{
    const char *at = list;
    for (; i > 0 && at != NULL; i--) {
        at = memchr(at, ',', length - (size_t)(at - list));
        if (at != NULL)
            at++;
    }
    *n = at == NULL ? 0 : strcspn(at, ",\r\n");
    return at;
}

/* Sets the size of a voxel along an axis (0: z, 1: y, 2: x) to the number in the text `scale`, if
 * the unit, a name of n bytes, is a length. */
static void set_scale(wu_picture *picture, size_t axis, const char *scale, const char *unit,
                      size_t n)
{
    const double um = unit == NULL ? 0 : wu_unit_micrometres(unit, n);
    if (scale != NULL && um > 0)
        picture->about.um[axis] = strtod(scale, NULL) * um;
}

/* Adds an axis of planes, which changes slower than the axes added before. axis: 'c', 't' or 'z',
 * or 0 for any other axis. name: the name of the axis, n bytes. An axis of another kind, or of a
 * kind that was added before, only multiplies metadata->others by its length. */
static void add_axis(wu_metadata *metadata, char axis, const char *name, size_t n, uint64_t length)
{
    uint64_t *const count = axis == 'c'   ? &metadata->channels
                            : axis == 't' ? &metadata->frames
                                          : &metadata->slices;
    const bool repeated = axis != '\0' && strchr(metadata->order, axis) != NULL;
    if (axis != '\0' && !repeated) {
        metadata->order[strlen(metadata->order)] = axis;
        *count = length;
    } else if (length > 1) {
        metadata->others =
            length < MAX_COUNT / metadata->others ? metadata->others * length : MAX_COUNT;
        snprintf(metadata->other, sizeof metadata->other, "%.*s", (int)(n < 20 ? n : 20), name);
        tc_make_printable(metadata->other);
    }
}

/* Appends to metadata->order the axes that it lacks. */
static void complete_order(wu_metadata *metadata)
{
    for (const char *axis = "czt"; *axis != '\0'; axis++)
        if (strchr(metadata->order, *axis) == NULL)
            metadata->order[strlen(metadata->order)] = *axis;
}

/* Returns the axis that a name in SCIFIO's text stands for: 'c', 't' or 'z', or 0 for another axis.
 */
static char scifio_axis(const char *name, size_t n)
{
    if (n == 7 && memcmp(name, "Channel", n) == 0)
        return 'c';
    if (n == 4 && memcmp(name, "Time", n) == 0)
        return 't';
    return n == 1 && *name == 'Z' ? 'z' : '\0';
}

/* Reads SCIFIO's text: "axes=X,Y,Channel,Z", "lengths=8,8,2,3", the fastest-changing axis first. */
static void read_scifio(wu_picture *picture, const char *text)
{
    wu_metadata *const metadata = &picture->metadata;
    size_t n_axes, n_lengths, n_scales = 0, n_units = 0, name_n, unit_n, unused_n;
    const char *const axes = value_of(text, "axes", &n_axes),
                      *const lengths = value_of(text, "lengths", &n_lengths),
                      *const scales = value_of(text, "scales", &n_scales),
                      *const units = value_of(text, "units", &n_units);
    read_imagej(picture, text);
    metadata->by = "SCIFIO's text";
    if (axes == NULL || lengths == NULL)
        return;
    memset(metadata->order, 0, sizeof metadata->order);
    metadata->channels = metadata->frames = metadata->slices = 1;
    metadata->images = 0;
    for (unsigned i = 0; i < MAX_AXES; i++) {
        const char *const name = list_entry(axes, n_axes, i, &name_n);
        const char *const length = list_entry(lengths, n_lengths, i, &unused_n);
        if (name == NULL || length == NULL)
            break;
        const uint64_t count = strtoull(length, NULL, 10);
        const char *const scale =
            scales == NULL ? NULL : list_entry(scales, n_scales, i, &unused_n);
        const char *const unit = units == NULL ? NULL : list_entry(units, n_units, i, &unit_n);
        const bool x = name_n == 1 && *name == 'X', y = name_n == 1 && *name == 'Y';
        if (x || y || scifio_axis(name, name_n) == 'z')
            set_scale(picture, x ? 2 : y ? 1 : 0, scale, unit, unit == NULL ? 0 : unit_n);
        if (x)
            metadata->nx = count < MAX_COUNT ? count : MAX_COUNT;
        else if (y)
            metadata->ny = count < MAX_COUNT ? count : MAX_COUNT;
        else
            add_axis(metadata, scifio_axis(name, name_n), name, name_n,
                     count == 0          ? 1
                     : count < MAX_COUNT ? count
                                         : MAX_COUNT);
    }
    complete_order(metadata);
    if (metadata->nx == 0 || metadata->ny == 0)
        metadata->nx = metadata->ny = 0;
}

/* --- tifffile -------------------------------------------------------------------------------- */

/* Returns the axis that a letter of tifffile stands for: 'c', 't' or 'z', or 0 for another axis. If
 * `slices` is true, any letter but 'T' stands for 'z'. */
static char tifffile_axis(bool slices, char letter)
{
    if (letter == 'T')
        return 't';
    if (letter == 'Z' || slices)
        return 'z';
    return letter == 'C' || letter == 'S' ? 'c' : '\0';
}

/* Reads the shape of tifffile's array. shape: [n] the lengths of the axes, the slowest-changing
 * axis first. axes: the letters of the axes, or NULL if they are not recorded. The last axes are
 * within a page (y, x and samples); the axes before them are axes of planes. tifffile's letters Q
 * and I do not define what an axis means. If the meaning of a single axis is undefined, it is an
 * axis of slices, or of channels if the user chose a channel. */
static void read_shape(wu_picture *picture, const uint64_t *shape, size_t n, const char *axes,
                       const wu_tiff_pages *tiff_pages)
{
    wu_metadata *const metadata = &picture->metadata;
    size_t unknown = 0;
    metadata->by = "tifffile's text";
    const size_t named = axes == NULL ? 0 : strlen(axes);
    const bool known = named == n;
    /* The axis of the samples of a pixel is the last one, or, if planar, the one before y and x. */
    const uint64_t samples_a_pixel = tiff_pages->stored;
    const uint64_t nx = picture->info.nx, ny = picture->info.ny;
    const uint64_t last = shape[n - 1], second = n >= 2 ? shape[n - 2] : 1,
                   third = n >= 3 ? shape[n - 3] : 1;
    const bool planar =
        n >= 3 && samples_a_pixel > 1 && third == samples_a_pixel && last == nx && second == ny;
    size_t front = n; /* number of axes before those within a page; n: the shape does not fit */
    if (planar && known && strchr("CS", axes[n - 3]) == NULL)
        wu_metadata_refuse(
            metadata,
            "stores the axis %c of %s as the %llu colour samples of its pixels; save it again, "
            "with tifffile's photometric=\"minisblack\"",
            axes[n - 3], metadata->by, (unsigned long long)samples_a_pixel);
    if (n >= 3 &&
        (planar || ((last == samples_a_pixel || last == 1) && second == nx && third == ny)))
        front = n - 3;
    else if (last == nx && second == ny)
        front = n >= 2 ? n - 2 : 0;
    if (front == n) {
        metadata->nx = last;
        metadata->ny = second;
        return;
    }
    for (size_t i = 0; i < front; i++)
        unknown += shape[i] > 1 && (!known || strchr("TCZS", axes[i]) == NULL);
    memset(metadata->order, 0, sizeof metadata->order);
    for (size_t i = front; i-- > 0;) {
        const char letter = (char)(known ? axes[i] : 'Q');
        const bool undefined = unknown == 1 && shape[i] > 1 && strchr("QI", letter) != NULL;
        const bool channels = undefined && wu_pages_are_channels(picture, tiff_pages->samples) &&
                              (!known || strpbrk(axes, "CS") == NULL);
        const char axis = tifffile_axis(undefined && !channels, (char)(channels ? 'C' : letter));
        picture->about.remarks |= channels ? WU_REMARK_TAKEN_AS_CHANNELS
                                  : undefined && picture->want.kind == WU_KIND_IMAGE
                                      ? WU_REMARK_TAKEN_AS_SLICES
                                      : 0;
        add_axis(metadata, axis, known ? &axes[i] : "not named", known ? 1 : strlen("not named"),
                 shape[i]);
    }
    complete_order(metadata);
}

/* Reads tifffile's text in JSON: {"shape": [3, 2, 8, 8], "axes": "ZCYX"} */
static tc_status read_json(wu_picture *picture, const char *text, const wu_tiff_pages *tiff_pages,
                           tc_err *err)
{
    uint64_t shape[MAX_AXES];
    size_t n = 0;
    json_error_t where;
    json_t *const json = json_loads(text, 0, &where);
    const json_t *const sizes = json_object_get(json, "shape"), *size;
    const char *const axes = json_string_value(json_object_get(json, "axes"));
    size_t i;
    if (json == NULL && json_error_code(&where) == json_error_out_of_memory)
        return tc_no_memory(err, picture->path);
    if (json_is_array(sizes) && json_array_size(sizes) > 0 && json_array_size(sizes) <= MAX_AXES) {
        json_array_foreach(sizes, i, size) {
            const json_int_t value = json_integer_value(size);
            shape[n++] = value < 1                       ? 1
                         : value < (json_int_t)MAX_COUNT ? (uint64_t)value
                                                         : MAX_COUNT;
        }
        read_shape(picture, shape, n, axes, tiff_pages);
    }
    json_decref(json);
    return TC_OK;
}

/* Reads the text of tifffile's first versions: "shape=(5, 8, 8)". */
static void read_old_shape(wu_picture *picture, const char *text, const wu_tiff_pages *tiff_pages)
{
    uint64_t shape[MAX_AXES];
    size_t n = 0;
    for (const char *at = strchr(text, '('); at != NULL && n < MAX_AXES;) {
        char *end = NULL;
        const uint64_t value = strtoull(at + 1, &end, 10);
        if (end == at + 1)
            break;
        shape[n++] = value < 1 ? 1 : value < MAX_COUNT ? value : MAX_COUNT;
        at = *end == ',' ? end : NULL;
    }
    if (n > 0)
        read_shape(picture, shape, n, NULL, tiff_pages);
}

/* --- any text -------------------------------------------------------------------------------- */

static bool begins_with(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Whether the text has the start tag of an element OME, with a namespace prefix or without. */
static bool has_ome(const char *text)
{
    const char *at = text;
    while ((at = strstr(at + 1, "OME")) != NULL)
        if ((at[-1] == '<' || at[-1] == ':') && at[3] != '\0' && strchr(" \t\r\n>", at[3]) != NULL)
            return true;
    return false;
}

/* ImageJ's palettes are only for display; so are palettes in files with SCIFIO's text or OME-XML.
 */
bool wu_text_has_display_palettes(const char *text)
{
    return begins_with(text, "ImageJ=") || begins_with(text, "SCIFIO=") ||
           (*text != '\0' && has_ome(text));
}

/* Refuses ScanImage's files of several channels, whose pages alternate between the channels.
 * ScanImage 5 lists the channels in the text ("channelSave = [1;2]" or "[1 2]"); ScanImage 4 writes
 * their number. */
static void refuse_scanimage(wu_metadata *metadata, const char *text)
{
    static const char list_key[] = "channelSave = [", number_key[] = "numberOfChannelsSave=";
    const char *list = strstr(text, list_key), *number = strstr(text, number_key);
    bool several = false;
    if (list != NULL) {
        list += sizeof list_key - 1;
        const size_t n = strcspn(list, "]\n");
        several = memchr(list, ';', n) != NULL || memchr(list, ' ', n) != NULL;
    }
    if (number != NULL)
        several = several || strtoul(number + sizeof number_key - 1, NULL, 10) > 1;
    if (several && (begins_with(text, "SI.") || strstr(text, "\nSI.") != NULL ||
                    strstr(text, "scanimage.") != NULL || begins_with(text, "state.")))
        wu_metadata_refuse(
            metadata,
            "is a ScanImage file of several channels, which is not read: open it in Fiji (File > "
            "Import > Bio-Formats) and save it as OME-TIFF");
}

tc_status wu_metadata_from_text(wu_picture *picture, const char *text,
                                const wu_tiff_pages *tiff_pages, tc_err *err)
{
    static const char byte_order_mark[] = "\xef\xbb\xbf";
    const char *at = text + (begins_with(text, byte_order_mark) ? sizeof byte_order_mark - 1 : 0);
    at += strspn(at, " \t\r\n");
    if (begins_with(text, "\xff\xfe") || begins_with(text, "\xfe\xff")) {
        picture->about.remarks |= WU_REMARK_TEXT_MALFORMED;
        if (tiff_pages->n > 1)
            wu_metadata_refuse(&picture->metadata,
                               "its text is UTF-16, which is not read; save it again "
                               "as OME-TIFF with Fiji");
        return TC_OK;
    }
    if (*at == '<')
        return wu_metadata_from_xml(picture, at, tiff_pages, err);
    if (begins_with(text, "ImageJ="))
        read_imagej(picture, text);
    else if (begins_with(text, "SCIFIO="))
        read_scifio(picture, text);
    else if (*at == '{' && strstr(at, "\"shape\"") != NULL)
        return read_json(picture, at, tiff_pages, err);
    else if (begins_with(text, "shape=("))
        read_old_shape(picture, text, tiff_pages);
    else
        refuse_scanimage(&picture->metadata, text);
    return TC_OK;
}
