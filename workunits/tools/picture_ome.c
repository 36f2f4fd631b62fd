/* Reads OME-XML with expat: which planes a picture has, in which order and in which files, and the
 * size of pixels. Also reads the size of pixels from MetaMorph's XML. Namespace prefixes of
 * elements are ignored. DTDs are refused, so that no entities can be defined. */
#include <expat.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "app/base/array.h"
#include "app/base/os.h"
#include "app/base/text.h"
#include "workunits/tools/picture_tags.h"

/* 2^21 - 1. Larger counts are reduced to it, so that the product of three counts fits into 64 bits.
 */
#define MAX_COUNT UINT64_C(0x1fffff)
enum { DESCRIPTION = 270 }; /* the TIFF tag ImageDescription */
enum {
    MAX_PLANES = 1 << 20,          /* the most planes of a picture */
    MAX_COMPANION_BYTES = 1 << 26, /* the most bytes of the text of a companion file */
    MAX_NAME = 512,                /* the most bytes of a file name or UUID, with the final NUL */
    /* Special values of ome_data.file: */
    NO_FILE = -1, /* the element names no file */
    OWN_FILE = -2 /* the element names the file being read */
};

/* A Pixels element: a picture. */
typedef struct ome_pixels {
    uint64_t nx, ny, c, t, z; /* lengths of the axes */
    char order[4];            /* order of planes, as in wu_metadata */
    double um[3];             /* z, y, x: size of a voxel in micrometres; 0: not recorded */
    bool sized;   /* the element states a size of pixels in a known or unknown unit, but not in one
                     such as "pixel", which is not a length */
    size_t n_own; /* number of its TiffData elements that name the file being read, or that
                     name no file */
} ome_pixels;

/* A TiffData element: some planes of a picture, and the file and pages that contain them. */
typedef struct ome_data {
    size_t pixels;     /* index of the enclosing Pixels element */
    uint64_t first[3]; /* c, t, z of the first plane */
    int64_t ifd;       /* index of the first page in the file; -1: not given */
    int64_t count;     /* number of planes; -1: not given */
    long file;         /* index in ome_text.files, OWN_FILE or NO_FILE */
} ome_data;

/* State of parsing, and what was read. */
typedef struct ome_text {
    XML_Parser parser;
    bool is_ome;  /* the root element is OME */
    bool is_root; /* the root element was read */
    bool no_memory, has_dtd;
    bool in_data; /* the parser is within a TiffData element */
    bool in_uuid; /* the parser is within the UUID element of a TiffData element */
    size_t n_pixels, pixels_room, n_data, data_room, n_files, files_room;
    ome_pixels *pixels;
    ome_data *data;
    char **files;             /* [n_files] file names (or UUIDs) as the text has them; owned */
    json_t *by_name;          /* maps the strings in `files` to their indices */
    char uuid[MAX_NAME];      /* the UUID of the OME element, or "" */
    char companion[MAX_NAME]; /* if the metadata are in another file, the companion, its name ("?"
                                 if the text does not have the name); else "" */
    char named[MAX_NAME];     /* the file name in the current UUID element */
    char text[MAX_NAME];      /* the text of the current UUID element, text_length bytes */
    size_t text_length;
    const char *own_name; /* name of the file being read; not owned */
    const char *own_uuid; /* UUID of the file being read, if the XML is in a companion file; not
                             owned. NULL: the XML is in the file itself, whose UUID is `uuid` */
    bool calibrated;      /* MetaMorph: the size of pixels is known */
    double prop_um[2];    /* MetaMorph: the size of pixels (y, x), in units of prop_unit */
    double prop_unit;     /* MetaMorph: the unit of this size in micrometres */
    bool in_modulo;  /* the parser is within a ModuloAlong element, which says that an axis combines
                        two axes, an outer and an inner one */
    uint64_t modulo; /* the length of the inner axis */
    char modulo_type[24]; /* the name of the inner axis */
} ome_text;

/* --- elements -------------------------------------------------------------------------------- */

/* The name of an element without its namespace prefix. */
static const char *local_name(const char *name)
{
    const char *const colon = strrchr(name, ':');
    return colon == NULL ? name : colon + 1;
}

/* Returns the value of an attribute, or NULL if the element does not have it. attributes: the names
 * and values of the element's attributes in turn (name, value, name, ...), followed by NULL. */
static const char *find_attribute(const XML_Char **attributes, const char *name)
{
    for (; *attributes != NULL; attributes += 2)
        if (strcmp(local_name(attributes[0]), name) == 0)
            return attributes[1];
    return NULL;
}

/* The value of an attribute as a count; 1 if it is missing, 0 if it is not a number. */
static uint64_t count_in(const XML_Char **attributes, const char *name)
{
    const char *const text = find_attribute(attributes, name);
    const uint64_t n = text == NULL || strchr(text, '-') != NULL ? 0 : strtoull(text, NULL, 10);
    return text == NULL ? 1 : n < MAX_COUNT ? n : MAX_COUNT;
}

/* The value of an attribute as an index; -1 if it is missing or not a number. */
static int64_t index_in(const XML_Char **attributes, const char *name)
{
    const char *const text = find_attribute(attributes, name);
    char *end = NULL;
    const unsigned long long n = text == NULL ? 0 : strtoull(text, &end, 10);
    return text == NULL || end == text || strchr(text, '-') != NULL ? -1
           : n < MAX_COUNT                                          ? (int64_t)n
                                                                    : (int64_t)MAX_COUNT;
}

/* Converts DimensionOrder, such as "XYCZT", to the order of planes in lower case ("czt"). If `text`
 * is NULL or invalid, sets the order "czt". */
static void read_order(const char *text, char order[4])
{
    static const char axes[] = "CTZ";
    size_t n = 0;
    memset(order, 0, 4);
    for (const char *at = text == NULL || strncmp(text, "XY", 2) != 0 ? "" : text + 2;
         *at != '\0' && n < 3 && strchr(axes, *at) != NULL; at++)
        order[n++] = (char)(*at + ('a' - 'A'));
    if (n < 3 || order[0] == order[1] || order[1] == order[2] || order[0] == order[2])
        memcpy(order, "czt", 4);
}

/* Returns a size in micrometres; 0 if it is missing. size, unit: names of the attributes that have
 * the number and its unit, which is the micrometre by default. */
static double size_in(const XML_Char **attributes, const char *size, const char *unit)
{
    const char *const number = find_attribute(attributes, size), *const word = find_attribute(
                                                                     attributes, unit);
    const double um = word == NULL ? 1 : wu_unit_micrometres(word, strlen(word));
    return number == NULL ? 0 : strtod(number, NULL) * um;
}

/* Whether the element has the size of a pixel in a unit that may be a length (ome_pixels.sized). */
static bool is_sized(const XML_Char **attributes)
{
    static const char *const units[] = { "PhysicalSizeXUnit", "PhysicalSizeYUnit" };
    for (size_t i = 0; i < 2; i++) {
        const char *const unit = find_attribute(attributes, units[i]);
        if (unit != NULL && wu_is_nonlength_unit(unit, strlen(unit)))
            return false;
    }
    return find_attribute(attributes, "PhysicalSizeX") != NULL ||
           find_attribute(attributes, "PhysicalSizeY") != NULL;
}

/* Begins a Pixels element. attributes: as for find_attribute, also in the functions below. */
static void begin_pixels(ome_text *o, const XML_Char **attributes)
{
    ome_pixels *const grown = tc_array_grow(o->pixels, o->n_pixels, &o->pixels_room, sizeof *grown);
    if (grown == NULL) {
        o->no_memory = true;
        return;
    }
    o->pixels = grown;
    ome_pixels *const p = &o->pixels[o->n_pixels++];
    *p = (ome_pixels){ .nx = count_in(attributes, "SizeX"),
                       .ny = count_in(attributes, "SizeY"),
                       .c = count_in(attributes, "SizeC"),
                       .t = count_in(attributes, "SizeT"),
                       .z = count_in(attributes, "SizeZ"),
                       .sized = is_sized(attributes),
                       .um = { size_in(attributes, "PhysicalSizeZ", "PhysicalSizeZUnit"),
                               size_in(attributes, "PhysicalSizeY", "PhysicalSizeYUnit"),
                               size_in(attributes, "PhysicalSizeX", "PhysicalSizeXUnit") } };
    if (find_attribute(attributes, "SizeX") == NULL || find_attribute(attributes, "SizeY") == NULL)
        p->nx = p->ny = 0; /* not recorded */
    read_order(find_attribute(attributes, "DimensionOrder"), p->order);
}

/* Begins a TiffData element. */
static void begin_data(ome_text *o, const XML_Char **attributes)
{
    static const char *const firsts[] = { "FirstC", "FirstT", "FirstZ" };
    if (o->n_pixels == 0)
        return;
    ome_data *const grown = tc_array_grow(o->data, o->n_data, &o->data_room, sizeof *grown);
    if (grown == NULL) {
        o->no_memory = true;
        return;
    }
    o->data = grown;
    ome_data *const d = &o->data[o->n_data++];
    *d = (ome_data){ .pixels = o->n_pixels - 1,
                     .ifd = index_in(attributes, "IFD"),
                     .count = index_in(attributes, "PlaneCount"),
                     .file = NO_FILE };
    for (size_t i = 0; i < 3; i++) {
        const int64_t first = index_in(attributes, firsts[i]);
        d->first[i] = first < 0 ? 0 : (uint64_t)first;
    }
    o->in_data = true;
}

static void copy_text(char out[MAX_NAME], const char *text)
{
    snprintf(out, MAX_NAME, "%s", text == NULL ? "" : text);
}

/* Reads a "prop" element of MetaMorph's XML, of which only the size of a pixel is used. */
static void read_prop(ome_text *o, const XML_Char **attributes)
{
    const char *const id = find_attribute(attributes, "id"), *const value = find_attribute(
                                                                 attributes, "value");
    if (id == NULL || value == NULL)
        return;
    if (strcmp(id, "spatial-calibration-state") == 0)
        o->calibrated = strcmp(value, "on") == 0;
    else if (strcmp(id, "spatial-calibration-x") == 0)
        o->prop_um[1] = strtod(value, NULL);
    else if (strcmp(id, "spatial-calibration-y") == 0)
        o->prop_um[0] = strtod(value, NULL);
    else if (strcmp(id, "spatial-calibration-units") == 0)
        o->prop_unit = wu_unit_micrometres(value, strlen(value));
}

/* Begins a ModuloAlong element. Its attributes give the positions on the inner axis as a range;
 * without a range, each position has a Label element. */
static void begin_modulo(ome_text *o, const XML_Char **attributes)
{
    const char *const start = find_attribute(attributes, "Start"),
                      *const end = find_attribute(attributes, "End"),
                      *const step = find_attribute(attributes, "Step"),
                      *const type = find_attribute(attributes, "Type");
    const double step_length = step == NULL ? 1 : strtod(step, NULL),
                 n = start == NULL || end == NULL
                         ? 0
                         /* 1 + range / step, to which 1/2 is added for rounding, as the step may
                            be inexact */
                         : floor((strtod(end, NULL) - strtod(start, NULL)) / step_length + 1.5);
    o->in_modulo = true;
    if (n > 1)
        o->modulo = n < (double)MAX_COUNT ? (uint64_t)n : MAX_COUNT;
    snprintf(o->modulo_type, sizeof o->modulo_type, "%s", type == NULL ? "not named" : type);
    tc_make_printable(o->modulo_type);
}

/* expat calls this at the beginning of an element; user: the ome_text. */
static void XMLCALL begin_element(void *user, const XML_Char *name, const XML_Char **attributes)
{
    ome_text *const o = user;
    const char *const what = local_name(name);
    if (!o->is_root) {
        o->is_root = true;
        o->is_ome = strcmp(what, "OME") == 0;
        if (o->is_ome)
            copy_text(o->uuid, find_attribute(attributes, "UUID"));
    } else if (!o->is_ome) {
        if (strcmp(what, "prop") == 0)
            read_prop(o, attributes);
    } else if (strcmp(what, "BinaryOnly") == 0) {
        copy_text(o->companion, find_attribute(attributes, "MetadataFile"));
        if (o->companion[0] == '\0')
            copy_text(o->companion, "?");
    } else if (strcmp(what, "Pixels") == 0) {
        begin_pixels(o, attributes);
    } else if (strcmp(what, "TiffData") == 0) {
        begin_data(o, attributes);
    } else if (strncmp(what, "ModuloAlong", 11) == 0) {
        begin_modulo(o, attributes);
    } else if (strcmp(what, "Label") == 0 && o->in_modulo) {
        o->modulo++;
    } else if (strcmp(what, "UUID") == 0 && o->in_data) {
        copy_text(o->named, find_attribute(attributes, "FileName"));
        o->in_uuid = true;
        o->text_length = 0;
    }
}

/* expat calls this for text; only that of UUID elements is kept, without white space. */
static void XMLCALL add_text(void *user, const XML_Char *text, int n)
{
    ome_text *const o = user;
    for (int i = 0; o->in_uuid && i < n && o->text_length + 1 < MAX_NAME; i++)
        if (strchr(" \t\r\n", text[i]) == NULL)
            o->text[o->text_length++] = text[i];
}

/* Returns the index of this file name in o->files, after adding it there if necessary. Returns
 * NO_FILE if there is no memory. */
static long find_file(ome_text *o, const char *name)
{
    const json_t *const known = json_object_get(o->by_name, name);
    if (known != NULL)
        return (long)json_integer_value(known);
    char **const grown = tc_array_grow(o->files, o->n_files, &o->files_room, sizeof *grown);
    if (grown == NULL) {
        o->no_memory = true;
        return NO_FILE;
    }
    o->files = grown;
    o->files[o->n_files] = strdup(name);
    if (o->files[o->n_files] == NULL ||
        json_object_set_new(o->by_name, name, json_integer((json_int_t)o->n_files)) != 0) {
        free(o->files[o->n_files]);
        o->no_memory = true;
        return NO_FILE;
    }
    return (long)o->n_files++;
}

/* Sets the file of the last TiffData element from its UUID element. The element's text is a UUID;
 * an attribute may have a file name. If either of them belongs to the file being read, the file is
 * OWN_FILE, else an index in o->files. */
static void end_uuid(ome_text *o)
{
    const char *const uuid_read = o->own_uuid != NULL ? o->own_uuid : o->uuid;
    ome_data *const d = &o->data[o->n_data - 1];
    o->text[o->text_length] = '\0';
    o->in_uuid = false;
    if ((uuid_read[0] != '\0' && strcmp(o->text, uuid_read) == 0) ||
        strcmp(o->named, o->own_name) == 0)
        d->file = OWN_FILE;
    else if (o->named[0] != '\0' || o->text[0] != '\0')
        d->file = find_file(o, o->named[0] != '\0' ? o->named : o->text);
}

/* expat calls this at the end of an element. */
static void XMLCALL end_element(void *user, const XML_Char *name)
{
    ome_text *const o = user;
    const char *const what = local_name(name);
    if (o->in_uuid && strcmp(what, "UUID") == 0)
        end_uuid(o);
    else if (strcmp(what, "TiffData") == 0)
        o->in_data = false;
    else if (strncmp(what, "ModuloAlong", 11) == 0)
        o->in_modulo = false;
    if (o->no_memory)
        XML_StopParser(o->parser, XML_FALSE);
}

/* expat calls this at a document type declaration, because of which parsing is stopped. */
static void XMLCALL begin_doctype(void *user, const XML_Char *name, const XML_Char *system,
                                  const XML_Char *public, int internal)
{
    ome_text *const o = user;
    (void)name;
    (void)system;
    (void)public;
    (void)internal;
    o->has_dtd = true;
    XML_StopParser(o->parser, XML_FALSE);
}

/* --- parsing --------------------------------------------------------------------------------- */

static void free_text(ome_text *o)
{
    for (size_t i = 0; i < o->n_files; i++)
        free(o->files[i]);
    free(o->files);
    free(o->pixels);
    free(o->data);
    json_decref(o->by_name);
    if (o->parser != NULL)
        XML_ParserFree(o->parser);
    *o = (ome_text){ .parser = NULL };
}

/* Parses the text. Sets *good to whether it is well-formed; other text may follow the root element.
 * encoding: NULL for the encoding that the text declares. */
static tc_status parse_as(ome_text *o, const char *encoding, const char *text, bool *good,
                          tc_err *err)
{
    const size_t n = strlen(text);
    const char *const own_name = o->own_name, *const own_uuid = o->own_uuid;
    free_text(o);
    o->own_name = own_name;
    o->own_uuid = own_uuid;
    o->by_name = json_object();
    o->parser = XML_ParserCreate(encoding);
    if (o->parser == NULL || o->by_name == NULL)
        return tc_no_memory(err, own_name);
    XML_SetUserData(o->parser, o);
    XML_SetElementHandler(o->parser, begin_element, end_element);
    XML_SetCharacterDataHandler(o->parser, add_text);
    XML_SetStartDoctypeDeclHandler(o->parser, begin_doctype);
    const enum XML_Status status =
        n > INT32_MAX ? XML_STATUS_ERROR : XML_Parse(o->parser, text, (int)n, 1);
    const enum XML_Error error = XML_GetErrorCode(o->parser);
    *good = status == XML_STATUS_OK || error == XML_ERROR_JUNK_AFTER_DOC_ELEMENT;
    return o->no_memory || error == XML_ERROR_NO_MEMORY ? tc_no_memory(err, own_name) : TC_OK;
}

/* Parses the text, trying other encodings if necessary: some programs write UTF-8 and declare
 * UTF-16, or write Latin-1 and declare UTF-8. */
static tc_status parse_text(ome_text *o, const char *text, bool *good, tc_err *err)
{
    static const char *const encodings[] = { NULL, "UTF-8", "ISO-8859-1" };
    tc_status status = TC_OK;
    *good = false;
    for (size_t i = 0; i < 3 && status == TC_OK && !*good && !o->has_dtd; i++)
        status = parse_as(o, encodings[i], text, good, err);
    return status;
}

/* --- other files of the picture -------------------------------------------------------------- */

/* Sets *out to the path of the file `name` in the folder of the picture's file, or to NULL if the
 * name is empty, begins with a dot or contains a folder. *out must be freed by free(). */
static tc_status neighbour_path(const wu_picture *picture, const char *name, char **out,
                                tc_err *err)
{
    const size_t n = (size_t)(os_base_name(picture->path) - picture->path), m = strlen(name);
    *out = NULL;
    if (m == 0 || name[0] == '.' || strpbrk(name, "/\\:") != NULL)
        return TC_OK;
    *out = malloc(n + m + 1);
    if (*out == NULL)
        return tc_no_memory(err, picture->path);
    memcpy(*out, picture->path, n);
    memcpy(*out + n, name, m + 1);
    return TC_OK;
}

/* Returns the text of a companion file: the description of its first page if it is a TIFF, else the
 * whole file. To be freed by free(). Returns NULL if the file cannot be read. */
static char *load_text(const char *path)
{
    struct stat info;
    FILE *const file = os_kind_of(path) == OS_FILE ? fopen(path, "rb") : NULL;
    wu_tags tags;
    wu_tag tag = { 0, 0, 0 };
    char *text = NULL;
    if (file == NULL)
        return NULL;
    const bool has_size = fstat(fileno(file), &info) == 0;
    if (!wu_tags_open(file, &tags) || !wu_tags_find(&tags, DESCRIPTION, &tag))
        tag = (wu_tag){ .at = 0, .count = has_size ? (uint64_t)info.st_size : 0 }; /* whole file */
    if (has_size && tag.count < MAX_COMPANION_BYTES)
        text = malloc((size_t)tag.count + 1);
    if (text != NULL)
        text[wu_tags_read(&tags, tag.at, text, (size_t)tag.count) ? tag.count : 0] = '\0';
    fclose(file);
    return text;
}

/* Reads the OME-XML from the companion file that the text names. Sets *good to whether it was read;
 * if not, sets the refusal. */
static tc_status read_companion(wu_picture *picture, ome_text *o, bool *good, tc_err *err)
{
    char name[MAX_NAME], uuid[MAX_NAME], *path = NULL;
    memcpy(name, o->companion, sizeof name);
    memcpy(uuid, o->uuid, sizeof uuid);
    tc_status status = neighbour_path(picture, name, &path, err);
    char *const text = path == NULL ? NULL : load_text(path);
    *good = false;
    if (status == TC_OK && text != NULL) {
        o->own_uuid = uuid; /* the companion file may name this file by the UUID */
        status = parse_text(o, text + (strncmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0), good, err);
        o->own_uuid = NULL;
        *good = *good && o->is_ome && o->n_pixels > 0;
    }
    if (status == TC_OK && !*good)
        wu_metadata_refuse(
            &picture->metadata,
            "the metadata about its pages are in another file, %.100s, which %s; put it into "
            "the same folder",
            name,
            path == NULL   ? "is not in the same folder"
            : text == NULL ? "is not there"
                           : "is not OME-XML");
    free(text);
    free(path);
    return status;
}

/* Sets *chosen to the index of the Pixels element with planes in this file. If the text has no
 * TiffData elements, any Pixels element counts as such. Returns false if there is no such element,
 * or more than one. */
static bool choose_pixels(ome_text *o, wu_metadata *metadata, size_t *chosen)
{
    size_t n = 0;
    for (size_t i = 0; i < o->n_data; i++)
        o->pixels[o->data[i].pixels].n_own += o->data[i].file < 0;
    for (size_t i = 0; i < o->n_pixels; i++)
        if (o->pixels[i].n_own > 0 || o->n_data == 0) {
            *chosen = n == 0 ? i : *chosen;
            n++;
        }
    /* If all planes are in one file of another name, this is that file, and it was renamed. */
    if (n == 0 && o->n_files == 1) {
        for (size_t i = 0; i < o->n_data; i++)
            o->data[i].file = OWN_FILE;
        return choose_pixels(o, metadata, chosen);
    }
    if (n == 0)
        wu_metadata_refuse(
            metadata,
            "its OME-XML describes planes in %zu other files, %.80s and so on, but none in "
            "this one; was it given another name?",
            o->n_files, o->n_files > 0 ? o->files[0] : "");
    metadata->series = n > 0 ? n : 1; /* several series are refused later */
    return n == 1;
}

/* --- planes ---------------------------------------------------------------------------------- */

/* The index in tiff_pages->number (ascending) of the page whose index in the file is `number`, or
 * WU_NO_PAGE. */
static uint32_t page_of(const wu_tiff_pages *tiff_pages, uint64_t number)
{
    uint64_t lo = 0, hi = tiff_pages->n;
    while (lo < hi) {
        const uint64_t mid = (lo + hi) / 2;
        if (tiff_pages->number[mid] < number)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < tiff_pages->n && tiff_pages->number[lo] == number ? (uint32_t)lo : WU_NO_PAGE;
}

/* The index of the first plane of a TiffData element, counted in the order metadata->order;
 * SIZE_MAX if a coordinate of the plane exceeds the axis. samples: samples per pixel. */
static uint64_t first_plane_of(const ome_data *d, const wu_metadata *metadata, unsigned samples)
{
    uint64_t at = 0, stride = 1;
    for (const char *axis = metadata->order; *axis != '\0'; axis++) {
        const uint64_t n = *axis == 'c'   ? metadata->channels
                           : *axis == 't' ? metadata->frames
                                          : metadata->slices;
        uint64_t first = d->first[*axis == 'c' ? 0 : *axis == 't' ? 1 : 2];
        if (*axis == 'c' && first >= n && first % samples == 0)
            first /= samples; /* this FirstC counts each sample of a pixel as a channel */
        if (first >= n)
            return SIZE_MAX;
        at += stride * first;
        stride *= n;
    }
    return at;
}

/* Converts the index of a plane in the order metadata->order to that in metadata->planes. */
static size_t plane_index(const wu_metadata *metadata, uint64_t at)
{
    uint64_t c = 0, t = 0, z = 0;
    for (const char *axis = metadata->order; *axis != '\0'; axis++) {
        const uint64_t n = *axis == 'c'   ? metadata->channels
                           : *axis == 't' ? metadata->frames
                                          : metadata->slices;
        *(*axis == 'c' ? &c : *axis == 't' ? &t : &z) = at % n;
        at /= n;
    }
    return (size_t)(c + metadata->channels * (z + metadata->slices * t));
}

/* Refuses the file. what: the fault of the TiffData elements, a phrase with a verb. */
static void refuse_data(wu_metadata *metadata, const char *what)
{
    wu_metadata_refuse(
        metadata,
        "its OME-XML (TiffData) %s; save it again with the program that made it, or as "
        "OME-TIFF with Fiji",
        what);
}

/* Sets the elements of metadata->planes that a TiffData element describes: `count` planes from
 * `from` on, which are in as many pages from `ifd` on. If the element has no count, it describes
 * one plane if it has an IFD, and else all pages of the file. */
static void set_planes(const ome_data *d, wu_metadata *metadata, const wu_tiff_pages *tiff_pages)
{
    const uint64_t n = metadata->n_planes, from = first_plane_of(d, metadata, tiff_pages->samples);
    const uint64_t ifd = d->ifd < 0 ? 0 : (uint64_t)d->ifd;
    const uint64_t pages = d->file >= 0 || tiff_pages->n == 0
                               ? 1
                               : tiff_pages->number[tiff_pages->n - 1] + UINT64_C(1);
    uint64_t count = d->count >= 0 ? (uint64_t)d->count : d->ifd >= 0 ? 1 : pages;
    if (from >= n) {
        refuse_data(metadata, "has a plane outside the axes (SizeC, SizeT, SizeZ)");
        return;
    }
    if (d->count < 0 && d->ifd < 0 && d->file < 0 && count > n - from) {
        refuse_data(metadata, "describes fewer planes than the file has pages");
        count = n - from;
    }
    for (uint64_t i = 0; i < count && i < n - from; i++) {
        wu_plane *const plane = &metadata->planes[plane_index(metadata, from + i)];
        const wu_plane found = { d->file < 0 ? 0 : (uint32_t)d->file + 1,
                                 d->file < 0 ? page_of(tiff_pages, ifd + i) : (uint32_t)(ifd + i) };
        if (plane->page != WU_NO_PAGE && (plane->file != found.file || plane->page != found.page))
            refuse_data(metadata, "names two pages for one plane");
        *plane = found;
    }
}

/* Sets metadata->files to the paths of the other files with planes of the picture. Renumbers the
 * files in metadata->planes: files of other pictures, which o->files may have, are left out. */
static tc_status name_files(wu_picture *picture, ome_text *o, tc_err *err)
{
    wu_metadata *const metadata = &picture->metadata;
    /* The new number of each file; 0: not listed yet. The index is the old number. */
    uint32_t *const number = calloc(o->n_files + 1, sizeof *number);
    tc_status status = number == NULL ? tc_no_memory(err, picture->path) : TC_OK;
    metadata->files = status == TC_OK ? calloc(o->n_files + 1, sizeof *metadata->files) : NULL;
    if (status == TC_OK && metadata->files == NULL)
        status = tc_no_memory(err, picture->path);
    for (size_t i = 0; status == TC_OK && i < metadata->n_planes; i++) {
        wu_plane *const plane = &metadata->planes[i];
        if (plane->file == 0 || plane->page == WU_NO_PAGE)
            continue;
        if (number[plane->file] == 0) {
            const char *const name = o->files[plane->file - 1];
            char *path;
            status = neighbour_path(picture, name, &path, err);
            if (status == TC_OK && path == NULL)
                wu_metadata_refuse(
                    metadata, "its OME-XML names a file that is not in the same folder: %.100s",
                    name);
            if (path == NULL)
                break;
            metadata->files[metadata->n_files++] = path;
            number[plane->file] = (uint32_t)metadata->n_files;
        }
        plane->file = number[plane->file];
    }
    free(number);
    return status;
}

/* Checks that no page of this file is used for two planes; sets a remark if a page is not used for
 * any plane. */
static tc_status check_own_pages(wu_picture *picture, uint64_t n_pages, tc_err *err)
{
    wu_metadata *const metadata = &picture->metadata;
    bool *const used_pages = calloc((size_t)n_pages + 1, sizeof *used_pages);
    uint64_t n = 0;
    if (used_pages == NULL)
        return tc_no_memory(err, picture->path);
    for (size_t i = 0; i < metadata->n_planes; i++) {
        const wu_plane *const plane = &metadata->planes[i];
        if (plane->file > 0 || plane->page == WU_NO_PAGE)
            continue;
        if (used_pages[plane->page])
            refuse_data(metadata, "names one page for two planes");
        used_pages[plane->page] = true;
        n++;
    }
    free(used_pages);
    if (n < n_pages)
        picture->about.remarks |= WU_REMARK_MORE_IMAGES;
    return TC_OK;
}

/* Fills metadata->planes from the TiffData elements, if there are any. */
static tc_status fill_planes(wu_picture *picture, ome_text *o, size_t chosen,
                             const wu_tiff_pages *tiff_pages, tc_err *err)
{
    wu_metadata *const metadata = &picture->metadata;
    if (o->n_data == 0 || metadata->channels * metadata->frames > MAX_PLANES ||
        metadata->channels * metadata->frames * metadata->slices > MAX_PLANES) {
        if (o->n_data > 0)
            refuse_data(metadata, "describes too many planes");
        return TC_OK;
    }
    const size_t n = (size_t)(metadata->channels * metadata->frames * metadata->slices);
    metadata->planes = malloc(n * sizeof *metadata->planes);
    if (metadata->planes == NULL)
        return tc_no_memory(err, picture->path);
    metadata->n_planes = n;
    for (size_t i = 0; i < n; i++)
        metadata->planes[i] = (wu_plane){ 0, WU_NO_PAGE };
    for (size_t i = 0; i < o->n_data; i++)
        if (o->data[i].pixels == chosen)
            set_planes(&o->data[i], metadata, tiff_pages);
    const tc_status status = check_own_pages(picture, tiff_pages->n, err);
    return status == TC_OK ? name_files(picture, o, err) : status;
}

/* Fills picture->metadata from the parsed OME-XML. */
static tc_status fill_from_ome(wu_picture *picture, ome_text *o, const wu_tiff_pages *tiff_pages,
                               tc_err *err)
{
    wu_metadata *const metadata = &picture->metadata;
    size_t chosen = 0;
    if (o->n_pixels == 0 || !choose_pixels(o, metadata, &chosen))
        return TC_OK;
    const ome_pixels *const p = &o->pixels[chosen];
    /* SizeC counts each sample of a pixel as a channel. It includes alpha if it is a multiple of
     * the stored samples per pixel. */
    const unsigned samples =
        p->c % tiff_pages->stored == 0 ? tiff_pages->stored : tiff_pages->samples;
    const wu_tiff_pages pages = { tiff_pages->n, tiff_pages->number, samples, tiff_pages->stored };
    metadata->by = "its OME-XML";
    metadata->channels = p->c % samples == 0 ? p->c / samples : p->c;
    metadata->frames = p->t;
    metadata->slices = p->z;
    metadata->nx = p->nx;
    metadata->ny = p->ny;
    if (p->c == 0 || p->t == 0 || p->z == 0) {
        wu_metadata_refuse(
            metadata, "its OME-XML has a SizeC, SizeT or SizeZ of 0; save it again as OME-TIFF "
                      "with Fiji");
        return TC_OK;
    }
    /* A ModuloAlong element only matters if there are several planes. */
    metadata->others = o->modulo > 1 && p->c * p->t * p->z > 1 ? o->modulo : 1;
    memcpy(metadata->other, o->modulo_type, sizeof metadata->other);
    memcpy(metadata->order, p->order, sizeof metadata->order);
    memcpy(picture->about.um, p->um, sizeof p->um);
    if (p->sized && !(fabs(p->um[1]) > 0 && fabs(p->um[2]) > 0))
        picture->about.remarks |= WU_REMARK_UNKNOWN_UNIT;
    return fill_planes(picture, o, chosen, &pages, err);
}

/* Sets the size of a pixel from MetaMorph's XML. */
static void fill_from_metamorph(wu_picture *picture, const ome_text *o)
{
    if (o->calibrated && o->prop_unit > 0) {
        picture->about.um[1] = o->prop_um[0] * o->prop_unit;
        picture->about.um[2] = o->prop_um[1] * o->prop_unit;
    }
}

tc_status wu_metadata_from_xml(wu_picture *picture, const char *text,
                               const wu_tiff_pages *tiff_pages, tc_err *err)
{
    ome_text o = { .own_name = os_base_name(picture->path) };
    bool good = false; /* the text is well-formed XML */
    tc_status status = parse_text(&o, text, &good, err);
    if (status == TC_OK && o.has_dtd)
        wu_metadata_refuse(
            &picture->metadata,
            "its XML has a DTD, which is not read; save it again as OME-TIFF with Fiji");
    else if (status == TC_OK && !good && (o.is_ome || strstr(text, "OME") != NULL) &&
             tiff_pages->n > 1)
        wu_metadata_refuse(&picture->metadata,
                           "its OME-XML is cut short or not well-formed, so that it is not known "
                           "what its %llu pages are; save it again as OME-TIFF with Fiji",
                           (unsigned long long)tiff_pages->n);
    else if (status == TC_OK && !good)
        picture->about.remarks |= WU_REMARK_TEXT_MALFORMED;
    else if (status == TC_OK && o.is_ome && o.companion[0] != '\0' && o.n_pixels == 0)
        status = read_companion(picture, &o, &good, err);
    if (status == TC_OK && good && !o.has_dtd && o.is_ome)
        status = fill_from_ome(picture, &o, tiff_pages, err);
    else if (status == TC_OK && good && !o.is_ome)
        fill_from_metamorph(picture, &o);
    free_text(&o);
    return status;
}
