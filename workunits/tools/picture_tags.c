/* Reads the private TIFF tags that describe a file's pages (Zeiss' LSM, MetaMorph's STK, NIH Image,
 * Olympus' FluoView, MicroManager), and recognises whole-slide images. Reads the file directly, as
 * libtiff does not support these tags. */
#include <assert.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "workunits/tools/picture_tags.h"

/* 2^21 - 1. Larger counts are reduced to it, so that the product of three counts fits into 64 bits.
 */
#define MAX_COUNT UINT64_C(0x1fffff)

/* --- numbers --------------------------------------------------------------------------------- */

bool wu_tags_read(const wu_tags *tags, uint64_t at, void *bytes, size_t n)
{
    return at <= INT64_MAX &&
           (ftello(tags->file) == (off_t)at || fseeko(tags->file, (off_t)at, SEEK_SET) == 0) &&
           fread(bytes, 1, n, tags->file) == n;
}

/* Reads an unsigned integer of n <= 8 bytes in the file's byte order. */
static uint64_t number_in(const wu_tags *tags, const uint8_t *bytes, size_t n)
{
    uint64_t value = 0;
    for (size_t i = 0; i < n; i++)
        value |= (uint64_t)bytes[tags->big_endian ? n - 1 - i : i] << (8 * i);
    return value;
}

bool wu_tags_number(const wu_tags *tags, uint64_t at, size_t n, uint64_t *value)
{
    assert(n <= 8);
    uint8_t bytes[8];
    if (!wu_tags_read(tags, at, bytes, n))
        return false;
    *value = number_in(tags, bytes, n);
    return true;
}

bool wu_tags_open(FILE *file, wu_tags *out)
{
    uint8_t header[4];
    *out = (wu_tags){ .file = file };
    if (!wu_tags_read(out, 0, header, sizeof header))
        return false;
    out->big_endian = header[0] == 'M';             /* "MM"; "II" is little-endian */
    out->big = number_in(out, header + 2, 2) == 43; /* the version: 42 is TIFF, 43 BigTIFF */
    return header[0] == header[1] && (header[0] == 'I' || header[0] == 'M') &&
           (out->big || number_in(out, header + 2, 2) == 42) &&
           wu_tags_number(out, out->big ? 8 : 4, out->big ? 8 : 4, &out->directory);
}

/* Reads a count of 4 bytes at the offset `at`. Returns at most MAX_COUNT; 0 if it is negative or
 * cannot be read. */
static uint64_t count_at(const wu_tags *tags, uint64_t at)
{
    uint64_t value = 0;
    if (!wu_tags_number(tags, at, 4, &value) || value > INT32_MAX)
        return 0;
    return value < MAX_COUNT ? value : MAX_COUNT;
}

/* Reads a double at the offset `at`. Returns 0 if it is not finite or cannot be read. */
static double double_at(const wu_tags *tags, uint64_t at)
{
    uint64_t bits;
    double value = 0;
    if (wu_tags_number(tags, at, 8, &bits))
        memcpy(&value, &bits, sizeof value);
    return isfinite(value) ? value : 0;
}

/* Reads a fraction of two integers of 4 bytes at the offset `at`. Returns 0 if it cannot be read.
 */
static double ratio_at(const wu_tags *tags, uint64_t at)
{
    uint64_t a, b;
    return wu_tags_number(tags, at, 4, &a) && wu_tags_number(tags, at + 4, 4, &b) && b > 0
               ? (double)a / (double)b
               : 0;
}

/* Reads the entry of the directory (the list of a page's tags) at the offset `at`. Sets *number to
 * the number of the tag, and *bytes to the size of its values, or to 0 if they are in the entry
 * itself. An entry is the tag's number and type (2 bytes each), the count of the values, and the
 * values or their offset (8 bytes each in BigTIFF, else 4). */
static bool read_entry(const wu_tags *tags, uint64_t at, unsigned *number, wu_tag *out,
                       size_t *bytes)
{
    /* the size in bytes of a value of each type; 0: unknown */
    static const uint8_t sizes[] = { 0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8, 8, 8 };
    const size_t field_bytes = tags->big ? 8 : 4;
    uint8_t entry[20];
    if (!wu_tags_read(tags, at, entry, 4 + 2 * field_bytes))
        return false;
    out->type = (unsigned)number_in(tags, entry + 2, 2);
    out->count = number_in(tags, entry + 4, field_bytes);
    const size_t size = out->type < sizeof sizes ? sizes[out->type] : 0;
    const bool inside = size == 0 || out->count <= field_bytes / size;
    *number = (unsigned)number_in(tags, entry, 2);
    /* SIZE_MAX / 2 stands for any size that is too large, so that callers can add to it. */
    *bytes = inside ? 0 : out->count < SIZE_MAX / size ? (size_t)out->count * size : SIZE_MAX / 2;
    out->at = inside ? at + 4 + field_bytes : number_in(tags, entry + 4 + field_bytes, field_bytes);
    return true;
}

/* Sets *at to the offset of the directory's first entry. Returns the number of entries. */
static uint64_t begin_entries(const wu_tags *tags, uint64_t *at)
{
    const size_t bytes = tags->big ? 8 : 2;
    uint64_t n;
    *at = tags->directory + bytes;
    return wu_tags_number(tags, tags->directory, bytes, &n) && n <= 65535 ? n : 0;
}

/* Finds the first entry whose tag's number is one of wanted[n_wanted]. An entry has 20 bytes in a
 * BigTIFF, else 12. */
static bool find_any_tag(const wu_tags *tags, const unsigned *wanted, size_t n_wanted, wu_tag *out)
{
    uint64_t at;
    unsigned number;
    size_t bytes;
    for (uint64_t n = begin_entries(tags, &at); n > 0; n--, at += tags->big ? 20 : 12) {
        if (!read_entry(tags, at, &number, out, &bytes))
            return false;
        for (size_t i = 0; i < n_wanted; i++)
            if (number == wanted[i] && out->count > 0)
                return true;
    }
    return false;
}

bool wu_tags_find(const wu_tags *tags, unsigned tag, wu_tag *out)
{
    return find_any_tag(tags, &tag, 1, out);
}

bool wu_tags_are_outside(const wu_tags *tags, uint64_t from, uint64_t to)
{
    uint64_t at;
    unsigned number;
    size_t bytes;
    wu_tag tag;
    bool outside = tags->directory >= to || tags->directory < from;
    for (uint64_t n = begin_entries(tags, &at); n > 0 && outside; n--, at += tags->big ? 20 : 12)
        outside = read_entry(tags, at, &number, &tag, &bytes) &&
                  (bytes == 0 || tag.at >= to || tag.at + bytes <= from);
    return outside;
}

/* --- Zeiss LSM ------------------------------------------------------------------------------- */

/* Reads the header in the tag CZ_LSMINFO. */
static void read_lsm(wu_picture *picture, const wu_tags *tags, const wu_tag *tag)
{
    enum {
        MAGIC_1 = 0x0300494c, /* valid values of the first field of the header */
        MAGIC_2 = 0x0400494c,
        LONG = 272, /* size in bytes of a header that has the fields P and M */
        /* Offsets of fields of the header: lengths of axes */
        X = 8,
        Y = 12,
        Z = 16,
        C = 20,
        T = 24,
        VOXEL = 40, /* size of a voxel along x, y and z, in metres */
        SCAN = 88,  /* kind of scan */
        P = 264,    /* number of positions */
        M = 268     /* number of tiles of a mosaic */
    };
    wu_metadata *const metadata = &picture->metadata;
    uint64_t magic, size, scan = 0;
    if (!wu_tags_number(tags, tag->at, 4, &magic) || (magic != MAGIC_1 && magic != MAGIC_2) ||
        !wu_tags_number(tags, tag->at + 4, 4, &size) ||
        !wu_tags_number(tags, tag->at + SCAN, 2, &scan)) {
        wu_metadata_refuse(metadata,
                           "is an LSM file with an unknown kind of header: open it in Fiji and "
                           "save it as OME-TIFF");
        return;
    }
    metadata->by = "its LSM header";
    metadata->nx = count_at(tags, tag->at + X);
    metadata->ny = count_at(tags, tag->at + Y);
    metadata->slices = count_at(tags, tag->at + Z);
    metadata->frames = count_at(tags, tag->at + T);
    metadata->channels = count_at(tags, tag->at + C);
    memcpy(metadata->order, "czt", sizeof metadata->order);
    picture->samples.rgb = false; /* channels, not colours */
    for (size_t i = 0; i < 3; i++)
        picture->about.um[2 - i] = double_at(tags, tag->at + VOXEL + 8 * i) * 1e6;
    for (uint64_t at = P; size >= LONG && at <= M; at += 4)
        if (count_at(tags, tag->at + at) > 1) {
            metadata->others *= count_at(tags, tag->at + at);
            snprintf(metadata->other, sizeof metadata->other, "places");
        }
    /* Scans of kind 0, 3 and 6 are planes of x and y, over z or time; other kinds have other axes.
     */
    if (scan != 0 && scan != 3 && scan != 6)
        wu_metadata_refuse(
            metadata,
            "is an LSM file of a scan that is not of x and y (kind %u), which is not "
            "read: open it in Fiji "
            "and save it as OME-TIFF",
            (unsigned)scan);
    if (fseeko(tags->file, 0, SEEK_END) == 0 && ftello(tags->file) > (off_t)UINT32_MAX)
        wu_metadata_refuse(metadata,
                           "is an LSM file of over 4 GB, whose offsets of pages are cut to 32 "
                           "bits: open it in Fiji and save it as OME-TIFF");
}

/* --- MetaMorph STK --------------------------------------------------------------------------- */

/* Reads the size of pixels from the tag UIC1. It has pairs of 4 bytes each: an id, and a value or
 * the offset of a value. */
static void read_uic1(wu_picture *picture, const wu_tags *tags, const wu_tag *tag)
{
    enum {
        X = 4, /* ids of the values that are read */
        Y = 5,
        UNITS = 6,
        MAX_PAIRS = 200 /* the most pairs that are read */
    };
    double size[2] = { 0, 0 }, um = 0; /* size (y, x) in a unit of `um` micrometres */
    for (uint64_t i = 0; i < tag->count && i < MAX_PAIRS; i++) {
        uint64_t id, value, n;
        char unit[24];
        if (!wu_tags_number(tags, tag->at + 8 * i, 4, &id) ||
            !wu_tags_number(tags, tag->at + 8 * i + 4, 4, &value))
            break;
        if (id == X || id == Y)
            size[id == X] = ratio_at(tags, value);
        else if (id == UNITS && wu_tags_number(tags, value, 4, &n) && n > 0 && n < sizeof unit &&
                 wu_tags_read(tags, value + 4, unit, (size_t)n))
            um = wu_unit_micrometres(unit, strnlen(unit, (size_t)n));
    }
    picture->about.um[1] = size[0] * um;
    picture->about.um[2] = size[1] * um;
}

/* Reads the tag UIC2, whose count is the number of planes. It has 24 bytes for each plane: the
 * first 8 are the plane's distance in z from the plane before. */
static void read_stk(wu_picture *picture, const wu_tags *tags, const wu_tag *uic2)
{
    enum {
        UIC1 = 33628, /* number of the tag with the size of pixels */
        UIC3 = 33630, /* number of the tag with the wavelengths of the planes */
        RATIONAL = 5, /* the type of UIC2 and UIC3 */
        EACH = 24     /* bytes of UIC2 for each plane */
    };
    wu_metadata *const metadata = &picture->metadata;
    const uint64_t n = uic2->count;
    wu_tag tag;
    uint64_t last;
    if (uic2->type != RATIONAL || n == 0 || n > MAX_COUNT || picture->n_pages != 1)
        return; /* not STK: files of Prairie have tags with the same numbers */
    /* Only whether the last 4 bytes of the tag are in the file is of interest, not their value. */
    if (n > 1 && !wu_tags_number(tags, uic2->at + EACH * n - 4, 4, &last)) {
        wu_metadata_refuse(metadata,
                           "is an STK file whose list of planes is cut short; save it again with "
                           "MetaMorph, or as OME-TIFF with Fiji");
        return;
    }
    /* The distance in z that is recorded for the first plane. */
    const double z = ratio_at(tags, uic2->at);
    metadata->by = "its STK header";
    metadata->slices = n;
    memcpy(metadata->order, "czt", sizeof metadata->order);
    if (wu_tags_find(tags, UIC1, &tag))
        read_uic1(picture, tags, &tag);
    picture->about.um[0] = picture->about.um[2] > 0 ? z : 0;
    bool all_apart = true, none_apart = true; /* all distances are positive, or none is */
    for (uint64_t i = 0; n > 1 && i < n; i++) {
        const double distance = ratio_at(tags, uic2->at + EACH * i);
        all_apart = all_apart && distance > 0;
        none_apart = none_apart && !(distance > 0);
    }
    if (n > 1 && none_apart) {
        metadata->slices = 1;
        metadata->frames = n;
    } else if (n > 1 && !all_apart) {
        wu_metadata_refuse(metadata,
                           "is an STK file whose %llu planes are partly apart in z and partly not, "
                           "which is not read: open it in Fiji and save it as OME-TIFF",
                           (unsigned long long)n);
    }
    const bool waves =
        n > 1 && wu_tags_find(tags, UIC3, &tag) && tag.type == RATIONAL && tag.count == n;
    for (uint64_t i = 1; waves && i < n; i++)
        if (fabs(ratio_at(tags, tag.at + 8 * i) - ratio_at(tags, tag.at)) > 0)
            wu_metadata_refuse(metadata,
                               "is an STK file of several wavelengths, which is not read: open "
                               "it in Fiji and save it as OME-TIFF");
}

/* --- NIH Image ------------------------------------------------------------------------------- */

/* Reads the number of slices of a stack of NIH Image, of which only the first slice has a
 * directory. */
static void read_nih(wu_picture *picture, const wu_tags *tags, const wu_tag *tag)
{
    enum {
        SHORTS = 256, /* the count of the tag's values */
        SLICES = 260  /* offset of the number of slices in the header */
    };
    uint64_t n;
    if (tag->count != SHORTS || !wu_tags_number(tags, tag->at + SLICES, 2, &n) || n < 2 ||
        picture->n_pages != 1)
        return;
    picture->metadata.by = "its NIH Image header";
    picture->metadata.slices = n;
}

/* --- Olympus FluoView ------------------------------------------------------------------------ */

/* Returns the axis that a name in the header stands for: 'c', 't' or 'z', or 0 for another axis. */
static char axis_of(const char *name)
{
    static const struct {
        const char *name;
        char axis;
    } all[] = { { "Z", 'z' },  { "T", 't' },          { "Time", 't' },
                { "Ch", 'c' }, { "WAVELENGTH", 'c' }, { "Wavelength", 'c' } };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strcmp(name, all[i].name) == 0)
            return all[i].axis;
    return '\0';
}

/* Reads the axes and the size of pixels from the header in the tag. */
static void read_fluoview(wu_picture *picture, const wu_tags *tags, const wu_tag *tag)
{
    enum {
        DIMENSIONS = 284, /* offset of the list of axes in the header */
        EACH = 100,       /* bytes of an axis in the list, which begin with the axis' name */
        NAME = 16,        /* bytes of an axis' name, and of its unit */
        LENGTH = NAME,    /* offset of the axis' length from the beginning of the axis */
        RESOLUTION = 28,  /* offset of the size of a pixel along the axis */
        UNIT = 36,        /* offset of the unit of this size */
        N = 10,           /* number of axes in the list */
        BYTES = DIMENSIONS + N * EACH /* the fewest bytes of the header */
    };
    wu_metadata *const metadata = &picture->metadata;
    if (tag->count < BYTES)
        return;
    metadata->by = "its FluoView header";
    memset(metadata->order, 0, sizeof metadata->order);
    for (uint64_t i = 0; i < N; i++) {
        const uint64_t at = tag->at + DIMENSIONS + EACH * i;
        char name[NAME + 1] = "", unit[NAME + 1] = "";
        if (!wu_tags_read(tags, at, name, NAME) || !wu_tags_read(tags, at + UNIT, unit, NAME))
            return;
        const uint64_t n = count_at(tags, at + LENGTH);
        const double size =
            double_at(tags, at + RESOLUTION) * wu_unit_micrometres(unit, strlen(unit));
        const char axis = axis_of(name);
        if (n == 0 || name[0] == '\0')
            continue;
        if (i == 0 || i == 1) { /* x and y, whatever their names */
            *(i == 0 ? &metadata->nx : &metadata->ny) = n;
            picture->about.um[2 - i] = size;
        } else if (axis != '\0' && strchr(metadata->order, axis) == NULL) {
            metadata->order[strlen(metadata->order)] = axis;
            *(axis == 'c'   ? &metadata->channels
              : axis == 't' ? &metadata->frames
                            : &metadata->slices) = n;
            if (axis == 'z')
                picture->about.um[0] = size;
        } else if (n > 1) {
            metadata->others = n;
            snprintf(metadata->other, sizeof metadata->other, "places or others");
        }
    }
    for (const char *axis = "czt"; *axis != '\0'; axis++)
        if (strchr(metadata->order, *axis) == NULL)
            metadata->order[strlen(metadata->order)] = *axis;
}

/* --- MicroManager ---------------------------------------------------------------------------- */

/* Returns a count in the summary; 1 if it is missing. */
static uint64_t count_member(const json_t *json, const char *key)
{
    const json_int_t n = json_integer_value(json_object_get(json, key));
    return n < 1 ? 1 : n < (json_int_t)MAX_COUNT ? (uint64_t)n : MAX_COUNT;
}

/* Reads the summary metadata, a JSON text before the first page. */
static tc_status read_summary(wu_picture *picture, const wu_tags *tags, tc_err *err)
{
    enum {
        AT = 32, /* offset of the field MAGIC, which precedes the length and the text */
        MAGIC = 2355492,
        MAX_JSON = 1 << 24 /* the most bytes of the text */
    };
    wu_metadata *const metadata = &picture->metadata;
    uint64_t magic, n;
    if (!wu_tags_number(tags, AT, 4, &magic) || magic != MAGIC ||
        !wu_tags_number(tags, AT + 4, 4, &n) || n > MAX_JSON)
        return TC_OK;
    char *const text = malloc((size_t)n + 1);
    if (text == NULL)
        return tc_no_memory(err, picture->path);
    const bool read = wu_tags_read(tags, AT + 8, text, (size_t)n);
    json_t *const json = read ? json_loadb(text, (size_t)n, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
    free(text);
    if (json != NULL) {
        metadata->by = "MicroManager's summary";
        metadata->channels = count_member(json, "Channels");
        metadata->frames = count_member(json, "Frames");
        metadata->slices = count_member(json, "Slices");
        metadata->others = count_member(json, "Positions");
        snprintf(metadata->other, sizeof metadata->other, "positions");
        const bool slices_first = !json_is_false(json_object_get(json, "SlicesFirst"));
        const bool time_first = json_is_true(json_object_get(json, "TimeFirst"));
        memcpy(metadata->order,
               time_first     ? (slices_first ? "tzc" : "tcz")
               : slices_first ? "zct"
                              : "czt",
               4);
        picture->about.um[1] = picture->about.um[2] =
            json_number_value(json_object_get(json, "PixelSize_um"));
        picture->about.um[0] = json_number_value(json_object_get(json, "z-step_um"));
    }
    json_decref(json);
    return TC_OK;
}

/* A page, and the offset of its directory. */
typedef struct page_offset {
    uint64_t offset;
    uint32_t page;
} page_offset;

static int compare_offsets(const void *left, const void *right)
{
    const page_offset *const a = left, *const b = right;
    return a->offset < b->offset ? -1 : a->offset > b->offset;
}

/* Reads the index map: for each plane, its channel, slice, time and position, and the offset of its
 * page's directory. offsets: [n_pages] offsets of the pages' directories. */
static tc_status read_index(wu_picture *picture, const wu_tags *tags, const uint64_t *offsets,
                            tc_err *err)
{
    enum {
        AT = 8, /* offset of the field MAGIC, which precedes the offset of the list */
        MAGIC = 54773648,
        LIST = 3453623, /* the first field of the list, which precedes the number of planes */
        EACH = 20       /* bytes of the list for each plane */
    };
    wu_metadata *const metadata = &picture->metadata;
    uint64_t magic, at, n;
    enum { CHANNEL, SLICE, TIME, POSITION, DIRECTORY, FIELDS }; /* the fields of a plane */
    uint64_t v[FIELDS];
    if (metadata->by == NULL || !wu_tags_number(tags, AT, 4, &magic) || magic != MAGIC ||
        !wu_tags_number(tags, AT + 4, 4, &at) || !wu_tags_number(tags, at, 4, &magic) ||
        magic != LIST || !wu_tags_number(tags, at + 4, 4, &n))
        return TC_OK;
    const uint64_t planes = metadata->channels <= MAX_COUNT && metadata->frames <= MAX_COUNT
                                ? metadata->channels * metadata->frames
                                : UINT64_MAX;
    if (planes > MAX_COUNT || planes * metadata->slices > MAX_COUNT || n > MAX_COUNT ||
        metadata->others > 1)
        return TC_OK;
    metadata->n_planes = (size_t)(planes * metadata->slices);
    metadata->planes = malloc(metadata->n_planes * sizeof *metadata->planes);
    TC_AUTOFREE page_offset *const pages = malloc(picture->n_pages * sizeof *pages);
    if (metadata->planes == NULL || pages == NULL)
        return tc_no_memory(err, picture->path);
    for (size_t i = 0; i < metadata->n_planes; i++)
        metadata->planes[i] = (wu_plane){ 0, WU_NO_PAGE };
    for (size_t i = 0; i < picture->n_pages; i++)
        pages[i] = (page_offset){ offsets[i], (uint32_t)i };
    qsort(pages, picture->n_pages, sizeof *pages, compare_offsets);
    for (uint64_t i = 0; i < n; i++) {
        bool good = true;
        for (size_t k = 0; k < FIELDS; k++)
            good = good && wu_tags_number(tags, at + 8 + EACH * i + 4 * k, 4, &v[k]);
        if (!good)
            break;
        const page_offset key = { v[DIRECTORY], 0 };
        const page_offset *const page =
            bsearch(&key, pages, picture->n_pages, sizeof *pages, compare_offsets);
        if (page != NULL && v[CHANNEL] < metadata->channels && v[SLICE] < metadata->slices &&
            v[TIME] < metadata->frames && v[POSITION] == 0)
            metadata
                ->planes[v[CHANNEL] + metadata->channels * (v[SLICE] + metadata->slices * v[TIME])]
                .page = page->page;
    }
    return TC_OK;
}

/* Refuses a file with several of the axes c, t and z if it has no index map: then the order of its
 * planes is unknown. Files of several positions are refused elsewhere. */
static void check_index(wu_metadata *metadata)
{
    const int axes = (metadata->channels > 1) + (metadata->frames > 1) + (metadata->slices > 1);
    if (metadata->planes == NULL && axes > 1 && metadata->others == 1)
        wu_metadata_refuse(metadata,
                           "is a MicroManager file without its list of planes: open it in Fiji "
                           "(File > Import > Bio-Formats) and save it as OME-TIFF");
}

/* --- any file -------------------------------------------------------------------------------- */

bool wu_tags_palette_is_display(const wu_tags *tags)
{
    /* LSM, UIC2, FLUOVIEW and MICROMANAGER of wu_metadata_from_tags */
    static const unsigned all[] = { 34412, 33629, 34361, 51123 };
    wu_tag tag;
    return find_any_tag(tags, all, sizeof all / sizeof all[0], &tag);
}

void wu_metadata_from_slide(wu_metadata *metadata, const char *text, const wu_tags *tags)
{
    enum { HAMAMATSU = 65420 }; /* the number of a tag that only NDPI files have */
    wu_tag tag;
    const char *const words = text == NULL ? "" : text;
    const char *const scanner =
        wu_tags_find(tags, HAMAMATSU, &tag)                                 ? "Hamamatsu (NDPI)"
        : strncmp(words, "Aperio", 6) == 0                                  ? "Aperio (SVS)"
        : strstr(words, "<scn") != NULL || strstr(words, ":scn ") != NULL   ? "Leica (SCN)"
        : strstr(words, "DPUfsImport") != NULL                              ? "Philips"
        : strstr(words, "PerkinElmer-QPI") != NULL                          ? "Akoya (QPTIFF)"
        : strncmp(words, "level=", 6) == 0 && strstr(words, "mag=") != NULL ? "Ventana (BIF)"
                                                                            : NULL;
    if (scanner != NULL)
        wu_metadata_refuse(
            metadata,
            "is a slide of %s, which is too large as a whole; export the region of interest "
            "from QuPath as OME-TIFF",
            scanner);
}

tc_status wu_metadata_from_tags(wu_picture *picture, const wu_tags *tags, const uint64_t *offsets,
                                tc_err *err)
{
    /* Numbers of tags. */
    enum { LSM = 34412, UIC2 = 33629, FLUOVIEW = 34361, MICROMANAGER = 51123, NIH = 43314 };
    enum {
        GEL = 33445,    /* number of the tag with the kind of values in files of gel scanners */
        SQUARE_ROOT = 2 /* value of the tag GEL if samples are square roots */
    };
    wu_tag tag;
    uint64_t value;
    tc_status status = TC_OK;
    if (wu_tags_find(tags, GEL, &tag) && wu_tags_number(tags, tag.at, 4, &value) &&
        value == SQUARE_ROOT)
        picture->about.remarks |= WU_REMARK_CURVED_CALIBRATION;
    if (wu_tags_find(tags, LSM, &tag))
        read_lsm(picture, tags, &tag);
    else if (picture->metadata.by != NULL)
        return TC_OK;
    else if (wu_tags_find(tags, UIC2, &tag))
        read_stk(picture, tags, &tag);
    else if (wu_tags_find(tags, NIH, &tag))
        read_nih(picture, tags, &tag);
    else if (wu_tags_find(tags, FLUOVIEW, &tag))
        read_fluoview(picture, tags, &tag);
    else if (wu_tags_find(tags, MICROMANAGER, &tag)) {
        status = read_summary(picture, tags, err);
        if (status == TC_OK && picture->n_pages > 1)
            status = read_index(picture, tags, offsets, err);
        check_index(&picture->metadata);
    }
    return status;
}
