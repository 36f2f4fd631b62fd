/* texcell-wu pack: packs pictures into a work unit. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/analysis/analysis.h"
#include "app/base/command.h"
#include "app/base/files.h"
#include "app/base/os.h"
#include "app/base/text.h"
#include "workunits/format/archive.h"
#include "workunits/format/csv.h"
#include "workunits/format/job.h"
#include "workunits/format/json_text.h"
#include "workunits/format/new_file.h"
#include "workunits/format/page.h"
#include "workunits/tools/confine.h"
#include "workunits/tools/export.h"
#include "workunits/tools/labels.h"
#include "workunits/tools/micrometres.h"
#include "workunits/tools/pack_about.h"
#include "workunits/tools/pages.h"
#include "workunits/tools/shrink.h"
#include "workunits/tools/suggest.h"
#include "workunits/tools/tools.h"
#include "workunits/tools/unit.h"

const char wu_pack_help[] =
    "usage: texcell-wu pack --analysis NAME [OPTION]... -o WU.zip INPUT...\n"
    "\n"
    "Packs pictures into a work unit. Everything is checked before anything is\n"
    "written.\n"
    "\n"
    "INPUT is a picture (PNG, JPEG, TIFF, NIfTI) or a folder of pictures. Each\n"
    "picture becomes an item, named after its file. A file with several pages is a\n"
    "stack; one with several times gives an item for each. With --stack, a folder is\n"
    "one stack and its pictures are the slices (slice2 before slice10), or several\n"
    "stacks if the names tell several series; times are slices, too. The work unit\n"
    "keeps where each item came from, as FOLDER/FILE.png.\n"
    "\n"
    "  --analysis NAME      what to compute; texcell-wu parameters lists the names\n"
    "  --preset P           the same as --param preset=P\n"
    "  --params FILE.json   parameters from a file: a JSON object\n"
    "  --param KEY=VALUE    one parameter, in JSON; other words are strings:\n"
    "                       --param 'distances=[1,2,3]' --param directions=four\n"
    "                       The last one given for a KEY counts. Where the size of a\n"
    "                       pixel is known, lengths, areas and volumes may be in\n"
    "                       micrometres (also nm, mm): --param radius=12um\n"
    "                       --param min_area=50um2 --param min_voxels=90um3\n"
    "  --spacing Z,Y,X      size of a voxel in micrometres, for pictures Y,X or one\n"
    "                       number for both\n"
    "                       (default: what the file says: OME-XML, ImageJ and\n"
    "                       the resolution of TIFF, PNG and JPEG, but not of pixels\n"
    "                       over 10 um, as screens, print and scanners have)\n"
    "  --scale LO,HI        samples from LO to HI become 0 to 65535 (of colours and\n"
    "                       of 8 bits: 0 to 255); those beyond are clipped.\n"
    "                       Required for samples of floating point or 32 bits, and\n"
    "                       for RGB of 16 bits: without it, pack prints their range\n"
    "  --channel C          of a colour picture red, green, blue, or grey, (R+G+B)/3;\n"
    "                       of a TIFF or NIfTI the number of one, from 1\n"
    "  --stain S --stains T the amount of a stain in a colour picture, by colour\n"
    "                       deconvolution: hematoxylin or eosin of he, hematoxylin\n"
    "                       or dab of hdab, or one of a file {\"NAME\": [R,G,B], ...}\n"
    "                       of optical densities. A density of 1 becomes 170, 255 at\n"
    "                       most: what is stained is bright\n"
    "  --mask FILE|FOLDER   which pixels count (those that are not 0): for one input\n"
    "                       a PNG or TIFF; for several a folder with a picture of\n"
    "                       the same name (without extension) for each, or with a\n"
    "                       folder of slices for each stack. For a single stack the\n"
    "                       folder may hold the slices\n"
    "  --labels FILE|FOLDER which object each pixel belongs to, 0: none. Pictures as\n"
    "                       for --mask (TIFF of 32 bits too), or a RESULT.npz with\n"
    "                       labels_<item>\n"
    "  --names FILE         the names of the items and of the times in each, one a\n"
    "                       line; masks and labels are found by them\n"
    "  --stack              a folder is a stack of slices\n"
    "  --recursive          also the folders within a folder (with --stack one stack\n"
    "                       each); masks are looked for in folders of the same names\n"
    "  --suggest            choose parameters that are not given by a look at the\n"
    "                       pictures, as analyse does\n"
    "  --defaults           do not look at them (this is pack's default)\n"
    "  --suggested FILE     also write what it chose, and what is doubtful, as JSON\n"
    "  --about TEXT         what this work is for, in a sentence or two, for\n"
    "                       volunteers\n"
    "  --skip-bad           leave out inputs that cannot be packed, and list them\n"
    "  --max-pixels N       refuse inputs of more pixels (of all slices): a small\n"
    "                       untrusted file may be a very large picture\n"
    "  --split N            several work units of N items each: WU_0001.zip, ...\n"
    "  -o, --output WU.zip  the file to write; an older one is replaced\n"
    "\n"
    "What a file says of its pages is read: OME-XML (also of several files in a\n"
    "folder), ImageJ, SCIFIO, tifffile, MicroManager, LSM, STK and FluoView. A file\n"
    "that says more than it has is refused; a note says what is not taken as it is.\n"
    "\n"
    "Taken as they are: grey of 8 to 16 bits, RGB of 8 bits, signed samples if none\n"
    "is negative, samples under a lookup table of ImageJ or of one hue. Grey of 1, 2\n"
    "or 4 bits is spread over 0 to 255, other palettes become grey or RGB, TIFF's\n"
    "min-is-white is inverted (but not ImageJ's), transparency is dropped. In masks\n"
    "and labels, what is not 0 counts, whatever its colour. Colour slices of stacks\n"
    "become (R+G+B)/3.\n"
    "Refused: CMYK, slides (SVS, NDPI, SCN), TIFF with other compressions than LZW,\n"
    "deflate, PackBits, JPEG or CCITT, and damaged files.\n"
    "\n"
    "The same input gives the same bytes, on every computer.\n";

/* The most bytes of samples of a work unit that is written without compression. A larger one is
 * always compressed: else it would take too much disk space, and could be too large to read. */
#define MOST_STORED ((uint64_t)1 << 30)

typedef struct pack_options {
    const char *analysis, *about;
    json_t *parameters; /* owned */
    const char *params_file;
    /* --spacing: z, y, x in micrometres. x is 0 if the option was not given. z is 0 if only y and x
     * were given, and -1 if one number was given for both. */
    double spacing[3];
    double scale[2]; /* --scale: samples that become black and white; both 0 if it was not given */
    const char *channel, *stain, *stains;
    const char *mask, *labels, *names, *suggested;
    bool stacks, recursive, skip_bad, defaults, suggest;
    uint64_t split;      /* items per work unit; 0 if all items are in one work unit */
    uint64_t max_pixels; /* the most pixels of an item; 0 if only the limit of work units applies */
    const char *output;
    char **inputs;
    size_t n_inputs;
} pack_options;

/* The longest KEY of --param. */
enum { MAX_KEY = 200 };

/* --- the command line ------------------------------------------------------------------------ */

/* Reads the parameters in the file that --params names. A function for tc_option.take, as are the
 * read_ functions up to read_spacing. */
static tc_status read_params(void *to, const char *path, tc_err *err)
{
    pack_options *o = to;
    struct stat info;
    if (stat(path, &info) != 0)
        return tc_fail(err, TC_BAD_INPUT, "%s: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode) || (uint64_t)info.st_size > WU_MAX_JSON)
        return tc_fail(err, TC_BAD_INPUT, "%s: is not a file of parameters", path);
    json_error_t where;
    json_t *json = wu_json_load_file(path, JSON_REJECT_DUPLICATES, &where);
    if (json == NULL)
        return tc_fail(err, TC_BAD_INPUT, "%s: line %d: %s%s", path, where.line, where.text,
                       strstr(where.text, "string or '}' expected") != NULL ||
                               strstr(where.text, "invalid token") != NULL
                           ? "; names and words stand in double quotes"
                           : "");
    tc_status status = TC_OK;
    if (!json_is_object(json))
        status = tc_fail(err, TC_BAD_INPUT, "%s: must be a JSON object of parameters", path);
    else if (json_object_update(o->parameters, json) != 0)
        status = tc_no_memory(err, "parameters");
    json_decref(json);
    o->params_file = path;
    return status;
}

/* Whether a parameter's value is accepted as a string without quotes. It may have letters, digits,
 * '_', '-', '.', and the other characters of a measure such as "50 um^2": a blank, '^', and the
 * UTF-8 bytes of the superscripts 2 and 3 and of both characters for micro. */
static bool is_word(const char *text)
{
    static const char all[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-. "
                              "^\xc2\xb2\xb3\xb5\xce\xbc";
    return text[0] != '\0' && text[strspn(text, all)] == '\0';
}

/* Sets a parameter to a value given as text. A number with a decimal comma, such as 0,5, gets a
 * message of its own. */
static tc_status set_param(pack_options *o, const char *key, size_t key_length, const char *value,
                           tc_err *err)
{
    json_error_t where;
    json_t *json = json_loads(value, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &where);
    if (json == NULL && is_word(value))
        json = json_string(value);
    const size_t whole = strspn(value, "-0123456789"), comma = value[whole] == ',' ? whole + 1 : 0;
    if (json == NULL && whole > 0 && comma > 0 && value[comma] != '\0' &&
        value[comma + strspn(value + comma, "0123456789")] == '\0')
        return tc_fail(err, TC_USAGE,
                       "pack: --param %.*s: write %.*s.%s, with a point; a list is [%s]",
                       (int)key_length, key, (int)whole, value, value + comma, value);
    if (json == NULL)
        return tc_fail(err, TC_USAGE, "pack: --param %.*s: \"%s\" is neither JSON nor a word: %s",
                       (int)key_length, key, value, where.text);
    char name[MAX_KEY + 1];
    snprintf(name, sizeof name, "%.*s", (int)key_length, key);
    if (json_object_set_new(o->parameters, name, json) != 0)
        return tc_fail(err, TC_USAGE, "pack: --param %s: is not a name", name);
    return TC_OK;
}

static tc_status read_param(void *to, const char *text, tc_err *err)
{
    const char *equals = strchr(text, '=');
    if (equals == NULL || equals == text || equals - text > MAX_KEY)
        return tc_fail(err, TC_USAGE, "pack: --param %s: must be KEY=VALUE, without blanks", text);
    return set_param(to, text, (size_t)(equals - text), equals + 1, err);
}

static tc_status read_preset(void *to, const char *text, tc_err *err)
{
    return set_param(to, "preset", 6, text, err);
}

static tc_status read_analysis(void *to, const char *text, tc_err *err)
{
    const char **const name = to;
    if (*name != NULL)
        return tc_fail(err, TC_USAGE, "pack: --analysis %s: there is --analysis %s already", text,
                       *name);
    *name = text;
    return TC_OK;
}

static tc_status read_about(void *to, const char *text, tc_err *err)
{
    json_t *const as_utf8 = json_string(text);
    const bool good = as_utf8 != NULL && wu_is_text_line(text, WU_MAX_ABOUT);
    json_decref(as_utf8);
    *(const char **)to = text;
    return good ? TC_OK
                : tc_fail(err, TC_USAGE,
                          "pack: --about: must have 1 to %u bytes of UTF-8, none of them a control "
                          "character",
                          WU_MAX_ABOUT);
}

static tc_status read_scale(void *to, const char *text, tc_err *err)
{
    pack_options *const o = to;
    char *end = NULL;
    o->scale[0] = strtod(text, &end);
    const bool two = end != text && *end == ',';
    const char *const second = two ? end + 1 : text;
    o->scale[1] = strtod(second, &end);
    if (!two || end == second || *end != '\0' || !isfinite(o->scale[0]) ||
        !isfinite(o->scale[1] - o->scale[0]) || o->scale[1] <= o->scale[0])
        return tc_fail(err, TC_USAGE,
                       "pack: --scale %s: must be two numbers LO,HI, LO below HI: what becomes "
                       "black and white",
                       text);
    return TC_OK;
}

/* Reads one to three numbers, and stores them as described at pack_options.spacing. */
static tc_status read_spacing(void *to, const char *text, tc_err *err)
{
    pack_options *o = to;
    double all[3] = { 0, 0, 0 };
    const char *at = text;
    bool good = true;
    size_t n = 0;
    for (bool more = true; more && good; n++) {
        char *end = NULL;
        good = n < 3;
        all[good ? n : 0] = strtod(at, &end);
        more = *end == ',';
        good = good && end != at && wu_is_voxel_size(all[n]) && (more || *end == '\0');
        at = end + 1;
    }
    if (!good)
        return tc_fail(err, TC_USAGE,
                       "pack: --spacing %s: must be positive numbers, above 1e-9 and below 1e9, in "
                       "micrometres, "
                       "without a unit: three, Z,Y,X, or for pictures two, Y,X, or one",
                       text);
    if (n == 1)
        all[1] = all[0];
    o->spacing[0] = n == 3 ? all[0] : n == 2 ? 0 : -1;
    memcpy(o->spacing + 1, all + (n == 3 ? 1 : 0), 2 * sizeof *all); /* y and x */
    return TC_OK;
}

static bool is_parameter(const char *key)
{
    for (const an_analysis *const *a = an_analyses; *a != NULL; a++)
        for (const an_param *p = (*a)->parameters; p->key != NULL; p++)
            if (strcmp(p->key, key) == 0)
                return true;
    return false;
}

/* Improves the message about an unknown option: if it is the name of a parameter, or another
 * program's name for --spacing, the message says what to write instead. */
static tc_status explain_unknown(void *to, const char *message, tc_err *err)
{
    static const char beginning[] = "unknown option \"--";
    const tc_err cause = *err;
    char key[64] = "";
    (void)to;
    (void)message;
    if (strncmp(cause.message, beginning, strlen(beginning)) != 0)
        return TC_USAGE;
    const char *const at = cause.message + strlen(beginning);
    /* n, m: lengths of the option without and with =VALUE */
    const size_t n = strcspn(at, "=\""), m = strcspn(at, "\"");
    for (size_t i = 0; i < n && i + 1 < sizeof key; i++)
        key[i] = (char)(at[i] == '-' ? '_' : at[i]);
    if (is_parameter(key))
        return tc_fail(err, TC_USAGE, "%s%.*s\": is a parameter: write --param %s%.*s", beginning,
                       (int)m, at, key, n < m ? (int)(m - n) : 6, n < m ? at + n : "=VALUE");
    if (strcmp(key, "pixel_size") == 0 || strcmp(key, "voxel_size") == 0)
        return tc_fail(err, TC_USAGE, "%s%.*s\" (did you mean \"--spacing\"?)", beginning, (int)n,
                       at);
    return TC_USAGE;
}

/* Fails with a message that lists the analyses. */
static tc_status fail_no_analysis(tc_err *err)
{
    char names[200] = "";
    for (const an_analysis *const *a = an_analyses; *a != NULL; a++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s",
                 names[0] != '\0' ? ", " : "", (*a)->name);
    return tc_fail(err, TC_USAGE,
                   "pack: --analysis NAME is missing, which says what to compute: %s", names);
}

static tc_status parse_options(int argc, char **argv, const wu_pack_into *into, pack_options *o,
                               tc_err *err)
{
    tc_option options[32] = {
        { "analysis", 0, TC_TAKE, .to = &o->analysis, .take = read_analysis },
        { "about", 0, TC_TAKE, .to = &o->about, .take = read_about },
        { "preset", 0, TC_TAKE, .to = o, .take = read_preset },
        { "params", 0, TC_TAKE, .to = o, .take = read_params },
        { "param", 0, TC_TAKE, .to = o, .take = read_param },
        { "spacing", 0, TC_TAKE, .to = o, .take = read_spacing },
        { "scale", 0, TC_TAKE, .to = o, .take = read_scale },
        { "channel", 0, TC_TEXT, .to = &o->channel },
        { "stain", 0, TC_TEXT, .to = &o->stain },
        { "stains", 0, TC_TEXT, .to = &o->stains },
        { "mask", 0, TC_TEXT, .to = &o->mask },
        { "labels", 0, TC_TEXT, .to = &o->labels },
        { "names", 0, TC_TEXT, .to = &o->names },
        { "stack", 0, TC_FLAG, .to = &o->stacks },
        { "recursive", 0, TC_FLAG, .to = &o->recursive },
        { "skip-bad", 0, TC_FLAG, .to = &o->skip_bad },
        { "max-pixels", 0, TC_COUNT, .to = &o->max_pixels, .least = 1, .most = WU_MAX_VOXELS },
        { "split", 0, TC_COUNT, .to = &o->split, .least = 1, .most = WU_MAX_ITEMS },
        { "output", 'o', TC_TEXT, .to = &o->output },
        { into == NULL ? "defaults" : NULL, 0, TC_FLAG, .to = &o->defaults },
        { "suggest", 0, TC_FLAG, .to = &o->suggest },
        { "suggested", 0, TC_TEXT, .to = &o->suggested },
        { .name = NULL }
    };
    int n_inputs, n = 0;
    while (options[n].name != NULL)
        n++;
    for (const tc_option *more = into != NULL ? into->options : NULL;
         more != NULL && more->name != NULL; more++)
        options[n++] = *more;
    options[n] = (tc_option){ .name = NULL, .take = explain_unknown };
    return_if_error(tc_read_options(argc, argv, options, &n_inputs, err));
    o->inputs = argv + 1;
    o->n_inputs = (size_t)n_inputs;
    if (o->analysis == NULL)
        return fail_no_analysis(err);
    if (o->output == NULL)
        return tc_fail(err, TC_USAGE,
                       into != NULL ? "analyse: -o DIR is missing" : "pack: -o WU.zip is missing");
    if (o->defaults && o->suggest)
        return tc_fail(err, TC_USAGE, "pack: --defaults and --suggest exclude each other");
    if (into != NULL && o->split > 0)
        return tc_fail(err, TC_USAGE, "analyse: packs one work unit; --split is for pack");
    if (o->n_inputs == 0)
        return tc_fail(err, TC_USAGE, "pack: INPUT is missing: a picture or a folder of pictures");
    return TC_OK;
}

/* --- checks by the analysis ------------------------------------------------------------------ */

/* Returns the item as wu_job_read will return it, without the names of its members. */
static wu_item describe_item(const wu_source *source)
{
    const wu_picture_info *info = &source->pages.info;
    wu_item item = {
        .name = source->name,
        .is_stack = source->is_stack,
        .n_images = info->nz,
        .n_masks = source->mask.n_files > 0 ? info->nz : 0,
        .n_labels = source->labels.n_files > 0 ? info->nz : 0,
        .n_objects = source->n_objects,
        .has_spacing = source->is_stack && source->um[2] > 0,
        .spacing = { 1, 1, 1 },
        .nx = info->nx,
        .ny = info->ny,
        .nz = info->nz,
        .bits = info->bits,
        .channels = source->is_stack || source->colour != NULL ? 1 : info->channels,
    };
    if (item.has_spacing)
        memcpy(item.spacing, source->um, sizeof item.spacing);
    return item;
}

/* Applies --channel or --stain to all items. An item that has no such colours gets a fault. */
static tc_status use_colour(wu_sources *sources, const wu_colour *colour, tc_err *err)
{
    for (size_t i = 0; colour->option != NULL && i < sources->n; i++) {
        wu_source *const source = &sources->items[i];
        if (source->fault != NULL)
            continue;
        source->colour = colour->channel > 0 ? NULL : colour;
        const wu_picture_info *const info = &source->pages.info;
        if (colour->is_stain ? info->channels == 1 : colour->channel > 0 && !info->chosen)
            return_if_error(wu_source_keep_fault(
                source,
                tc_fail(err, TC_BAD_INPUT, "%s: is %sgrey, but %s is for colours%s",
                        source->pages.files[0], info->nz > 1 ? "a stack of slices, " : "",
                        colour->option, colour->is_stain ? "" : " and channels"),
                err));
    }
    return TC_OK;
}

/* Whether the item's labels are the item's own picture file. */
static bool is_own_labels(const wu_source *item)
{
    return item->labels.n_files > 0 && os_same_file(item->labels.files[0], item->pages.files[0]);
}

/* Refuses items whose own picture was given as their labels, as happens when --labels names the
 * folder of the pictures. If only shapes are measured, such items are accepted: a label picture is
 * enough for shapes. */
static tc_status refuse_own_labels(wu_sources *sources, const json_t *parameters, tc_err *err)
{
    const json_t *const families = json_object_get(parameters, "families");
    const bool shapes = json_array_size(families) == 1 &&
                        strcmp(json_string_value(json_array_get(families, 0)), "shape") == 0;
    bool has_others = false; /* some item has labels in a file other than its picture */
    for (size_t i = 0; !has_others && i < sources->n; i++)
        has_others = sources->items[i].labels.n_files > 0 && !is_own_labels(&sources->items[i]);
    for (size_t i = 0; !shapes && i < sources->n; i++) {
        wu_source *const item = &sources->items[i];
        if (item->fault != NULL || !is_own_labels(item))
            continue;
        const char *const path = item->pages.files[0];
        const tc_status status =
            has_others
                ? tc_fail(err, TC_BAD_INPUT,
                          "%s: no label picture for %s: a picture called %s_labels or "
                          "%s_cp_masks was looked for",
                          path, item->name, os_base_name(item->base), os_base_name(item->base))
                : tc_fail(err, TC_BAD_INPUT,
                          "%s: is the picture itself, not its labels. To find cells first, "
                          "run cellcount and give --labels its result.npz; labels alone are "
                          "measured with --param 'families=[\"shape\"]'",
                          path);
        return_if_error(wu_source_keep_fault(item, status, err));
    }
    return TC_OK;
}

/* Sets `text` to a note if the analysis will assume that the item's voxels are cubes. Returns
 * whether there is a note. */
static bool note_cubes(const an_analysis *analysis, const wu_item *item, char *text, size_t size)
{
    if (!analysis->assumes_cubic_voxels || !item->is_stack || item->has_spacing)
        return false;
    snprintf(text, size,
             "the size of voxels is not known, so they are taken for cubes: give --spacing Z,Y,X");
    return true;
}

/* Lets the analysis check the items by their headers, and prints the analysis' notes about them. A
 * note that is the same for several items in succession is printed once. */
static tc_status check_items(const an_analysis *analysis, const void *params, wu_sources *sources,
                             tc_err *err)
{
    tc_status status = TC_OK;
    const wu_source *first = NULL;
    char last[TC_ERR_MAX] = "", text[TC_ERR_MAX];
    for (size_t i = 0; i < sources->n && status == TC_OK; i++) {
        wu_source *const source = &sources->items[i];
        if (source->fault != NULL)
            continue;
        const wu_item item = describe_item(source);
        status = wu_source_keep_fault(
            source, an_check_item(analysis, params, &item, source->pages.files[0], err), err);
        if (status != TC_OK || source->fault != NULL)
            continue;
        first = first == NULL ? source : first;
        if (analysis->forbids_mixed_kinds && item.is_stack != first->is_stack)
            status = tc_fail(err, TC_BAD_INPUT,
                             "%s: %s takes images or stacks, not both in one work unit",
                             source->pages.files[0], analysis->name);
        if (status == TC_OK &&
            (note_cubes(analysis, &item, text, sizeof text) ||
             (analysis->note_item != NULL &&
              analysis->note_item(params, &item, text, sizeof text))) &&
            strcmp(text, last) != 0) {
            wu_print_note_of_file(source->pages.files[0], "%s", text);
            memcpy(last, text, sizeof last);
        }
    }
    return status;
}

/* The argument of check_pixels. */
typedef struct pixel_check {
    const an_analysis *analysis;
    const void *params;
    char last[TC_ERR_MAX]; /* the last note printed */
} pixel_check;

/* Prints a note if many of the pixels are overexposed. Colours, of which white is often the
 * background, and a picture of two values, such as a mask, have none. */
static void note_overexposed(const wu_source *source, const wu_item *item)
{
    enum { LEAST_PERCENT = 5 };
    const uint64_t n = (uint64_t)item->nx * item->ny * item->nz;
    const bool as_recorded =
        source->pages.info.channels == 1 && source->colour == NULL && !source->pages.want.scaled;
    if (as_recorded && source->survey.n_values > 2 &&
        source->survey.saturated * 100 > LEAST_PERCENT * n)
        wu_print_note_of_file(source->pages.files[0],
                              "%u%% of its pixels have the greatest value of %u bits, %u: where "
                              "they are overexposed, their true greys are lost",
                              (unsigned)(source->survey.saturated * 100 / n),
                              wu_bits_of_greatest(source->survey.hi), source->survey.hi);
}

/* Checks an item's pixels by their survey, and prints notes about them. A wu_item_check function;
 * user: a pixel_check. */
static tc_status check_pixels(void *user, wu_source *source, tc_err *err)
{
    pixel_check *const c = user;
    if (c->params == NULL) /* the parameters have a fault: only the files are checked */
        return TC_OK;
    const wu_item item = describe_item(source);
    const char *const path = source->pages.files[0];
    char text[TC_ERR_MAX];
    if (c->analysis->check_survey != NULL)
        return_if_error(c->analysis->check_survey(c->params, &item, &source->survey, path, err));
    if (item.n_masks > 0 && source->survey.inside == 0)
        wu_print_note_of_file(
            path, "all values of its mask are 0, so no pixel is analysed: in a mask, 0 is outside");
    if (item.n_masks > 0 && source->survey.inside == (uint64_t)item.nx * item.ny * item.nz)
        wu_print_note_of_file(
            path, "no value of its mask is 0, so every pixel is analysed: in a mask, 0 is outside");
    if ((wu_has_one_colour(&source->survey, text, sizeof text) ||
         (c->analysis->note_survey != NULL
              ? c->analysis->note_survey(c->params, &item, &source->survey, text, sizeof text)
              : wu_has_few_greys(&source->survey, text, sizeof text))) &&
        strcmp(text, c->last) != 0) {
        wu_print_note_of_file(path, "%s", text);
        memcpy(c->last, text, sizeof text);
    }
    note_overexposed(source, &item);
    return TC_OK;
}

/* Returns check_pixels, or NULL if the analysis is not known yet. */
static wu_item_check *pixel_check_of(const pixel_check *c)
{
    return c->analysis != NULL ? check_pixels : NULL;
}

static size_t count_bad(const wu_sources *sources)
{
    size_t bad = 0;
    for (size_t i = 0; i < sources->n; i++)
        bad += sources->items[i].fault != NULL;
    return bad;
}

/* Prints the faults of all inputs. Equal faults of consecutive items, such as the times of one
 * file, are printed once. With --skip-bad the inputs with faults are left out; without it, any
 * fault is an error. */
static tc_status report_faults(const pack_options *o, wu_sources *sources, tc_err *err)
{
    const size_t n = sources->n, bad = count_bad(sources);
    const char *last = "";
    for (size_t i = 0; i < n; i++) {
        char *const fault = sources->items[i].fault;
        if (fault == NULL || strcmp(tc_make_printable(fault), last) == 0)
            continue;
        if (o->skip_bad)
            wu_print_note("left out: %s", fault);
        else if (bad == 1)
            return tc_fail(err, TC_BAD_INPUT, "%s%s", fault,
                           n > 1 ? "; --skip-bad leaves it out" : "");
        else
            fprintf(stderr, "texcell-wu: error: %s\n", fault);
        last = fault;
    }
    if (bad > 0 && !o->skip_bad)
        return bad == n
                   ? tc_fail(err, TC_BAD_INPUT, "pack: none of %zu inputs can be used", n)
                   : tc_fail(err, TC_BAD_INPUT,
                             "pack: %zu of %zu inputs cannot be used; --skip-bad leaves them out",
                             bad, n);
    wu_sources_drop_faulty(sources);
    return sources->n > 0 ? TC_OK
                          : tc_fail(err, TC_BAD_INPUT, "pack: no input is left that can be used");
}

/* --- output ---------------------------------------------------------------------------------- */

/* The work units to be written. */
typedef struct outputs {
    size_t n;           /* number of work units */
    size_t per_unit;    /* number of items in each work unit, except the last */
    char **paths;       /* [n] paths of the work units; owned */
    char **temporaries; /* [n] temporary paths under which the work units are written; owned. NULL
                           before a work unit is written and after it was renamed */
    int first;          /* temporaries[0], which is locked until all are renamed; or -1 */
} outputs;

/* Inserts a number into the path of a work unit: "WU.zip" and 3 give "WU_0003.zip". The caller owns
 * the path, which is NULL if there is no memory. */
static char *numbered_path(const char *path, size_t number)
{
    const size_t n = strlen(path);
    const size_t stem = n > 4 && strcmp(path + n - 4, ".zip") == 0 ? n - 4 : n;
    char *out = malloc(n + 32);
    if (out != NULL)
        snprintf(out, n + 32, "%.*s_%04zu%s", (int)stem, path, number, path + stem);
    return out;
}

static tc_status name_outputs(const pack_options *o, size_t n_items, outputs *out, tc_err *err)
{
    out->per_unit = o->split > 0 ? o->split : n_items;
    const size_t n = (n_items + out->per_unit - 1) / out->per_unit;
    out->paths = calloc(n, sizeof *out->paths);
    out->temporaries = calloc(n, sizeof *out->temporaries);
    if (out->paths == NULL || out->temporaries == NULL)
        return tc_no_memory(err, "the names of the work units");
    out->n = n;
    for (size_t i = 0; i < n; i++) {
        out->paths[i] = o->split > 0 ? numbered_path(o->output, i + 1) : strdup(o->output);
        if (out->paths[i] == NULL)
            return tc_no_memory(err, "the names of the work units");
    }
    return TC_OK;
}

/* Frees the paths, and deletes the temporary files that were not renamed. */
static void free_outputs(outputs *out)
{
    for (size_t i = 0; i < out->n; i++) {
        if (out->temporaries[i] != NULL)
            unlink(out->temporaries[i]);
        free(out->temporaries[i]);
        free(out->paths[i]);
    }
    if (out->first >= 0)
        close(out->first);
    free(out->temporaries);
    free(out->paths);
}

static bool is_one_of(const char *file, const wu_page_files *pages)
{
    for (size_t i = 0; i < pages->n_files; i++)
        if (os_same_file(file, pages->files[i]))
            return true;
    return false;
}

static bool is_input(const char *file, const pack_options *o, const wu_sources *sources)
{
    bool is = (o->params_file != NULL && os_same_file(file, o->params_file)) ||
              (o->names != NULL && os_same_file(file, o->names));
    for (size_t i = 0; !is && i < sources->n + sources->n_left_out; i++)
        is = is_one_of(file, &sources->items[i].pages) ||
             is_one_of(file, &sources->items[i].mask) || is_one_of(file, &sources->items[i].labels);
    return is;
}

/* Checks that each output either does not exist or is an older work unit, so that no other file is
 * replaced. */
static tc_status check_outputs(const outputs *out, const pack_options *o, const wu_sources *sources,
                               tc_err *err)
{
    for (size_t i = 0; i < out->n; i++) {
        struct stat info;
        if (stat(out->paths[i], &info) != 0)
            continue;
        if (!S_ISREG(info.st_mode))
            return tc_fail(err, TC_USAGE, "pack: -o %s: exists and is not a file", out->paths[i]);
        if (is_input(out->paths[i], o, sources))
            return tc_fail(err, TC_USAGE, "pack: -o %s: is one of the inputs", out->paths[i]);
        /* "job.json", the name of a work unit's first member, is at byte 30 of the file. */
        return_if_error(
            wu_new_file_check_replaceable(out->paths[i], "job.json", 30, "work unit", err));
    }
    return TC_OK;
}

/* Reads the file `temporary` back as a volunteer's computer will, and compares it with `unit`.
 * path: the name of the work unit in messages. */
static tc_status check_written(const char *path, const char *temporary, const wu_unit *unit,
                               tc_err *err)
{
    tc_err reason = { "" };
    wu_job *job = NULL;
    tc_status status = wu_job_read(temporary, &job, &reason);
    if (status != TC_OK && status != TC_BAD_INPUT)
        return tc_fail(err, status, "%s", reason.message);
    bool same = status == TC_OK && job->n_items == unit->n &&
                strcmp(job->analysis, unit->analysis) == 0 &&
                json_equal(job->parameters, unit->parameters);
    for (size_t i = 0; same && i < unit->n; i++) {
        const wu_item *a = &job->items[i];
        const wu_picture_info *b = &unit->items[i].pages.info;
        same = strcmp(a->name, unit->items[i].name) == 0 &&
               strcmp(a->source, unit->items[i].source) == 0 && a->nx == b->nx && a->ny == b->ny &&
               a->nz == b->nz && a->bits == b->bits && a->n_objects == unit->items[i].n_objects;
    }
    if (!same)
        status = tc_fail(err, TC_INTERNAL, "%s: does not read back as it was written: %s", path,
                         reason.message[0] != '\0' ? reason.message : "something differs");
    wu_job_destroy(&job);
    return status;
}

/* Writes a work unit under a temporary name. A file of this name, which a killed process left, is
 * emptied. */
static tc_status write_unit(outputs *out, size_t index, const wu_unit *unit, tc_err *err)
{
    const char *const path = out->paths[index];
    const size_t size = strlen(path) + sizeof ".tmp";
    char *temporary = malloc(size);
    int fd = -1;
    if (temporary == NULL)
        return tc_no_memory(err, "the name of a work unit");
    snprintf(temporary, size, "%s.tmp", path);
    tc_status status = tc_open_locked(temporary, path, &fd, err);
    if (status != TC_OK) {
        free(temporary);
        return status;
    }
    out->temporaries[index] = temporary;
    status =
        ftruncate(fd, 0) == 0 ? wu_unit_write(fd, unit, err) : tc_fail_write(temporary, path, err);
    if (index == 0)
        out->first = fd;
    else
        close(fd);
    return status == TC_OK && !unit->stored /* analyse reads a stored work unit right away */
               ? check_written(out->paths[index], temporary, unit, err)
               : status;
}

/* Renames the work units from their temporary to their final names, and prints the final names. To
 * be called when all work units are complete. */
static tc_status rename_outputs(outputs *out, size_t n_items, tc_err *err)
{
    /* The first one is renamed last: until then it keeps other processes from writing these. */
    for (size_t i = out->n; i-- > 0;) {
        if (!os_replace(out->temporaries[i], out->paths[i]))
            return tc_fail_write(out->paths[i], out->paths[i], err);
        free(out->temporaries[i]);
        out->temporaries[i] = NULL;
    }
    for (size_t i = 0; i < out->n; i++) {
        struct stat info;
        if (stat(out->paths[i], &info) != 0)
            return tc_fail_write(out->paths[i], out->paths[i], err);
        const size_t first = i * out->per_unit;
        const size_t n = n_items - first < out->per_unit ? n_items - first : out->per_unit;
        printf("%s: %zu %s, %lld bytes\n", out->paths[i], n, n == 1 ? "item" : "items",
               (long long)info.st_size);
    }
    return TC_OK;
}

/* The size in bytes of the samples, masks and labels of all items, without compression. A label
 * takes up to 3 bytes. */
static uint64_t count_bytes(const wu_sources *sources)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < sources->n; i++) {
        const wu_picture_info *const info = &sources->items[i].pages.info;
        const uint64_t voxels = (uint64_t)info->nx * info->ny * info->nz;
        bytes += voxels * info->channels * (info->bits / 8) +
                 (sources->items[i].mask.n_files > 0 ? voxels : 0) +
                 (sources->items[i].labels.n_files > 0 ? 3 * voxels : 0);
    }
    return bytes;
}

/* Writes all work units. The command analyse (`into` is not NULL) has one work unit, which stays on
 * this computer: it is not compressed unless the user keeps it or it is larger than MOST_STORED. */
static tc_status write_all(const pack_options *o, const wu_sources *sources, wu_pack_into *into,
                           pixel_check *check, tc_err *err)
{
    TC_AUTO(free_outputs) outputs out = { .first = -1 };
    const bool stored = into != NULL && !into->keep_unit && count_bytes(sources) <= MOST_STORED;
    return_if_error(name_outputs(o, sources->n, &out, err));
    if (into != NULL && into->for_page) {
        into->n_thumbnails = sources->n < WU_REPORT_ITEMS ? sources->n : WU_REPORT_ITEMS;
        into->thumbnails = calloc(into->n_thumbnails, sizeof *into->thumbnails);
        if (into->thumbnails == NULL)
            return tc_no_memory(err, "a page");
    }
    return_if_error(check_outputs(&out, o, sources, err));
    for (size_t i = 0; i < out.n; i++) {
        const size_t first = i * out.per_unit;
        const size_t left = sources->n - first;
        const wu_unit unit = {
            .shown = out.paths[i],
            .analysis = o->analysis,
            .about = o->about,
            .parameters = o->parameters,
            .items = sources->items + first,
            .n = left < out.per_unit ? left : out.per_unit,
            .stored = stored,
            .grey = stored && into->grey,
            .thumbnails = into != NULL ? into->thumbnails : NULL,
            .n_thumbnails = into != NULL ? into->n_thumbnails : 0,
            .check = pixel_check_of(check),
            .user = check,
        };
        return_if_error(write_unit(&out, i, &unit, err));
    }
    return rename_outputs(&out, sources->n, err);
}

/* Sets the paths in `into` from the folder that -o names, makes the work unit in this folder the
 * output, and sets the parameters that add pictures to the result (labels, maps), unless the user
 * gave them. */
static tc_status set_up_folder(wu_pack_into *into, const an_analysis *analysis, pack_options *o,
                               tc_err *err)
{
    for (const an_param *p = analysis->parameters; p->key != NULL; p++)
        if (p->adds_picture && json_object_get(o->parameters, p->key) == NULL &&
            json_object_set_new(o->parameters, p->key, json_true()) != 0)
            return tc_no_memory(err, "parameters");
    into->folder = o->output;
    into->output_folder =
        into->within != NULL ? wu_join_path(into->folder, into->within, "") : strdup(into->folder);
    into->unit =
        into->output_folder == NULL ? NULL : wu_join_path(into->output_folder, "workunit", ".zip");
    o->output = into->unit;
    return into->unit == NULL ? tc_no_memory(err, into->folder) : TC_OK;
}

/* Returns TC_USAGE if the folder has a result, or the files of an interrupted run, that must not be
 * overwritten: it is of another analysis, or has none of the pictures in `sources`. Also fails if
 * texcell is still running in the folder, or if a file that the user made has the name of a file to
 * be written. */
static tc_status protect_others(const wu_pack_into *into, const char *analysis,
                                const wu_sources *sources, tc_err *err)
{
    TC_AUTOFREE char *const result = wu_join_path(into->output_folder, "result", ".npz");
    TC_AUTOFREE char *const spool = wu_join_path(into->output_folder, "result", ".npz.spool");
    TC_AUTO(wu_job_destroy) wu_job *job = NULL;
    if (result == NULL || spool == NULL)
        return tc_no_memory(err, into->folder);
    const bool finished = os_kind_of(result) == OS_FILE,
               interrupted = !finished && os_kind_of_link(spool) == OS_FILE;
    if (interrupted) {
        int fd = -1;
        return_if_error(tc_open_locked(spool, into->folder, &fd, err));
        close(fd);
    }
    bool other = (interrupted || finished) && wu_job_read(into->unit, &job, NULL) == TC_OK &&
                 job->n_items > 0;
    const char *const what = interrupted ? "interrupted work" : "the result";
    if (other && strcmp(job->analysis, analysis) != 0)
        return tc_fail(err, TC_USAGE,
                       "pack: -o %s: holds %s of %s: give another folder, or remove that one",
                       into->folder, what, job->analysis);
    for (size_t i = 0; other && i < job->n_items; i++)
        for (size_t k = 0; other && k < sources->n; k++)
            other = job->items[i].source != NULL &&
                    strcmp(job->items[i].source, sources->items[k].source) != 0;
    if (other)
        return tc_fail(err, TC_USAGE,
                       "pack: -o %s: holds %s of other pictures, such as %s: give another folder, "
                       "or remove that one",
                       into->folder, what, job->items[0].source);
    TC_AUTOFREE char *const page = wu_join_path(into->output_folder, "report", ".html");
    return_if_error(page == NULL ? tc_no_memory(err, into->folder)
                                 : wu_page_check_replaceable(page, err));
    return wu_export_check_folder(into->output_folder, err);
}

/* Checks the parameters and converts them to *params, the form in which the analysis uses them. */
static tc_status read_parameters(const an_analysis *analysis, const pack_options *o, void **params,
                                 tc_err *err)
{
    const tc_status status =
        an_parse_params(analysis, o->parameters, "pack: parameters", params, err);
    const tc_err fault = *err;
    return status != TC_BAD_INPUT
               ? status
               : tc_fail(err, status, "%s; texcell-wu parameters %s says what each is%s",
                         fault.message, analysis->name,
                         analysis->suggest != NULL ? ", and analyse finds some" : "");
}

/* Looks at the pictures. A picture that cannot be read gets a fault, which is reported later, with
 * those of all others, unless no item is left. */
static tc_status suggest_parameters(const an_analysis *analysis, const pack_options *o,
                                    wu_sources *sources, an_suggestion *suggestion, tc_err *err)
{
    const tc_status status = wu_suggest(analysis, sources, o->parameters, suggestion, err);
    return count_bad(sources) == sources->n ? report_faults(o, sources, err) : status;
}

/* Drops this process's rights to all files except the inputs and the output's folder. Not called
 * for analyse, which starts texcell later. */
static tc_status drop_rights(const pack_options *o, tc_err *err)
{
    const size_t n = o->n_inputs + 3; /* with the files of --mask, --labels and --names */
    char **const inputs = calloc(n, sizeof *inputs);
    if (inputs == NULL)
        return tc_no_memory(err, "the names of inputs");
    memcpy(inputs, o->inputs, o->n_inputs * sizeof *inputs);
    inputs[n - 1] = (char *)(uintptr_t)o->mask;
    inputs[n - 2] = (char *)(uintptr_t)o->labels;
    inputs[n - 3] = (char *)(uintptr_t)o->names;
    const tc_status status = wu_confine(inputs, n, o->output, err);
    free(inputs);
    return status;
}

/* Runs the command pack (`into` is NULL), or packs the work unit for analyse. The parameters are
 * read at once or, if some are in micrometres or suggested from the pictures, after the pictures.
 */
static tc_status pack_inputs(int argc, char **argv, wu_pack_into *into, tc_err *err)
{
    pack_options o = { .parameters = json_object() };
    const an_analysis *analysis = NULL;
    void *params = NULL;
    wu_sources sources = { 0 };
    pixel_check check = { .analysis = NULL };
    wu_colour colour = { .option = NULL };
    an_suggestion pack_suggestion = { .parameters = NULL };
    an_suggestion *const suggestion = into != NULL ? into->suggestion : &pack_suggestion;
    tc_err other;
    if (o.parameters == NULL)
        return tc_no_memory(err, "parameters");
    tc_status status = parse_options(argc, argv, into, &o, err);
    if (into != NULL && into->only_read) {
        json_decref(o.parameters);
        return status;
    }
    if (status == TC_OK)
        status = wu_colour_choose(o.channel, o.stain, o.stains, &colour, err);
    if (into != NULL && o.stain != NULL)
        snprintf(into->colour, sizeof into->colour,
                 "how much %.80s there is, by colour deconvolution: what is stained is bright",
                 o.stain);
    else if (into != NULL && o.channel != NULL)
        snprintf(into->colour, sizeof into->colour, "the channel %.80s alone", o.channel);
    if (status == TC_OK && into == NULL)
        status = drop_rights(&o, err);
    if (status == TC_OK)
        status = wu_find_analysis(o.analysis, &analysis, err);
    if (status == TC_OK && into != NULL)
        status = set_up_folder(into, analysis, &o, err);
    const bool has_lengths =
        status == TC_OK && wu_has_micrometres(analysis->parameters, o.parameters);
    const bool suggested = status == TC_OK && (into != NULL ? suggestion != NULL : o.suggest) &&
                           analysis->suggest != NULL;
    if (status == TC_OK && !has_lengths && !suggested)
        status = read_parameters(analysis, &o, &params, err);
    sources.max_pixels = o.max_pixels;
    sources.names = o.names;
    sources.output = into != NULL ? into->folder : NULL;
    sources.want = (wu_picture_want){ .channel = colour.channel,
                                      .colour = colour.is_name,
                                      .scaled = o.scale[1] > o.scale[0],
                                      .lo = o.scale[0],
                                      .hi = o.scale[1] };
    if (status == TC_OK)
        status =
            wu_sources_find(o.inputs, o.n_inputs, o.stacks, o.recursive, o.mask, &sources, err);
    if (status == TC_OK && into != NULL)
        status = protect_others(into, analysis->name, &sources, err);
    if (status == TC_OK && o.labels == NULL && analysis->takes_labels && sources.masks_in != NULL)
        status = tc_fail(err, TC_USAGE, "pack: %s measures label pictures: give --labels %s",
                         analysis->name, sources.masks_in);
    if (status == TC_OK && o.labels != NULL)
        status = wu_labels_find(&sources, o.labels, o.recursive, err);
    if (status == TC_OK)
        status = refuse_own_labels(&sources, o.parameters, err);
    if (status == TC_OK)
        status = wu_use_recorded_sizes(&sources, o.spacing, err);
    if (status == TC_OK && count_bad(&sources) == sources.n) /* no item can be used */
        status = report_faults(&o, &sources, err);
    if (status == TC_OK && has_lengths)
        status = wu_micrometres_to_pixels(analysis->parameters, o.parameters, &sources, err);
    if (status == TC_OK)
        status = use_colour(&sources, &colour, err);
    if (status == TC_OK && count_bad(&sources) == sources.n) /* no item has that colour */
        status = report_faults(&o, &sources, err);
    if (status == TC_OK && suggested)
        status = suggest_parameters(analysis, &o, &sources, suggestion, err);
    if (status == TC_OK && (has_lengths || suggested))
        status = read_parameters(analysis, &o, &params, err);
    if (status == TC_OK)
        status = check_items(analysis, params, &sources, err);
    if (status == TC_OK && suggested && count_bad(&sources) < sources.n)
        status =
            wu_suggest_print(suggestion, into != NULL ? " (--defaults: not to look)" : "", err);
    if (status == TC_OK && suggested && o.suggested != NULL)
        status = wu_suggest_save(suggestion, o.suggested, err);
    check = (pixel_check){ .analysis = analysis, .params = params };
    if (status == TC_OK && (o.skip_bad || count_bad(&sources) > 0))
        status = wu_sources_decode(&sources, pixel_check_of(&check), &check, err);
    if (status == TC_OK)
        status = report_faults(&o, &sources, err);
    if (status == TC_OK && into != NULL)
        status = wu_make_folder(into->folder, err);
    if (status == TC_OK && into != NULL)
        status = wu_make_folder(into->output_folder, err);
    if (status == TC_OK)
        status = write_all(&o, &sources, into, &check, err);
    /* If a damaged file was found while writing, checks all other files, too, to report all at
     * once. */
    if (status == TC_BAD_INPUT && params != NULL && !o.skip_bad && count_bad(&sources) == 0 &&
        wu_sources_decode(&sources, pixel_check_of(&check), &check, &other) == TC_OK &&
        count_bad(&sources) > 0)
        status = report_faults(&o, &sources, err);
    wu_print_note_counts();
    wu_sources_free(&sources);
    an_params_free(analysis, &params);
    an_suggestion_free(&pack_suggestion);
    json_decref(o.parameters);
    return status;
}

tc_status wu_pack(int argc, char **argv, tc_err *err)
{
    wu_json_install_allocator();
    return wu_json_check_memory(pack_inputs(argc, argv, NULL, err), err);
}

tc_status wu_pack_folder(int argc, char **argv, wu_pack_into *into, tc_err *err)
{
    static const char prefix[] = "pack: ";
    wu_json_install_allocator();
    const tc_status status = wu_json_check_memory(pack_inputs(argc, argv, into, err), err);
    const tc_err cause = *err;
    /* Messages begin with the command that the user gave. */
    if (status != TC_OK && strncmp(cause.message, prefix, strlen(prefix)) == 0)
        tc_fail(err, status, "analyse: %s", cause.message + strlen(prefix));
    return status;
}
