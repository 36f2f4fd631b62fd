/* Opens picture files, whose format is recognised by their first bytes, and reads their pages. */
#include "workunits/tools/picture.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "app/base/files.h"
#include "workunits/format/job.h"
#include "workunits/tools/picture_format.h"

enum { MAGIC_BYTES = 8 }; /* number of first bytes by which formats are recognised */

/* The decoder for a file that begins with these n bytes, or NULL. */
static const wu_picture_decoder *find_decoder(const unsigned char *magic, size_t n)
{
    static const struct {
        unsigned char bytes[MAGIC_BYTES];
        size_t n;
        const wu_picture_decoder *decoder;
    } table[] = {
        { { 0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n' }, 8, &wu_picture_png },
        { { 0xff, 0xd8, 0xff }, 3, &wu_picture_jpeg },
        { { 'I', 'I', 42, 0 }, 4, &wu_picture_tiff },
        { { 'M', 'M', 0, 42 }, 4, &wu_picture_tiff },
        { { 'I', 'I', 43, 0 }, 4, &wu_picture_tiff }, /* BigTIFF */
        { { 'M', 'M', 0, 43 }, 4, &wu_picture_tiff },
        { { 0x5c, 1, 0, 0 }, 4, &wu_picture_nifti }, /* NIfTI-1: 348, the size of its header */
        { { 0, 0, 1, 0x5c }, 4, &wu_picture_nifti }, /* the same, big-endian */
        { { 0x1c, 2, 0, 0 }, 4, &wu_picture_nifti }, /* NIfTI-2: 540 */
        { { 0, 0, 2, 0x1c }, 4, &wu_picture_nifti },
        { { 0x1f, 0x8b, 8 }, 3, &wu_picture_nifti }, /* gzip */
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (n >= table[i].n && memcmp(magic, table[i].bytes, table[i].n) == 0)
            return table[i].decoder;
    return NULL;
}

/* Returns TC_BAD_INPUT: the file has no format that can be read. For common formats the message
 * names the format and the remedy. */
static tc_status refuse_kind(const wu_picture *picture, const unsigned char *magic, size_t n,
                             tc_err *err)
{
    static const char convert[] = "save it as PNG or TIFF",
                      fiji[] = "Fiji (File > Import > Bio-Formats) saves it as TIFF";
    static const struct {
        const char *bytes;
        size_t n;
        const char *what, *cure;
    } known[] = {
        { "%PDF", 4, "a PDF document", "save its pictures as PNG or TIFF" },
        { "GIF8", 4, "a GIF picture", convert },
        { "BM", 2, "a BMP picture", convert },
        { "RIFF", 4, "a WebP picture or a film", convert },
        { "ZISRAWFI", 8, "a CZI file of Zeiss", fiji },
        { "\xda\xce\xbe\x0a", 4, "an ND2 file of Nikon", fiji },
        { "p\0\0\0", 4, "a LIF file of Leica", fiji },
        { "\xd0\xcf\x11\xe0", 4, "an Office document, or a file of a microscope (OIB, ZVI)", fiji },
        { "\x93NUMPY", 6, "an array of NumPy",
          "save it as TIFF; Cellpose saves masks as PNG and TIFF, too" },
        { "\x89HDF", 4, "an HDF5 file", fiji },
        { "PK\3\4", 4, "a ZIP archive, or an Office document", "unpack its pictures" },
        { "<svg", 4, "an SVG drawing", convert },
        { "<?xm", 4, "an XML file", convert },
        { "\0\0\0\x0cjP  ", 8, "a JPEG 2000 picture", convert },
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (n >= known[i].n && memcmp(magic, known[i].bytes, known[i].n) == 0)
            return tc_fail(err, TC_BAD_INPUT,
                           "%s: is %s, not a PNG, JPEG, TIFF or NIfTI picture; %s", picture->path,
                           known[i].what, known[i].cure);
    return tc_fail(err, TC_BAD_INPUT, "%s: is not a PNG, JPEG, TIFF or NIfTI picture",
                   picture->path);
}

/* Opens picture->file. First checks that the path is a regular file, because opening a pipe would
 * wait until another process writes to it. */
static tc_status open_file(wu_picture *picture, tc_err *err)
{
    struct stat info;
    if (stat(picture->path, &info) == 0 && !S_ISREG(info.st_mode))
        return tc_fail(err, TC_BAD_INPUT, "%s: is not a regular file", picture->path);
    picture->file = fopen(picture->path, "rb");
    if (picture->file == NULL)
        return tc_fail(err, tc_open_error_status(errno), "%s: cannot be opened: %s", picture->path,
                       strerror(errno));
    return TC_OK;
}

static tc_status choose_decoder(wu_picture *picture, tc_err *err)
{
    unsigned char magic[MAGIC_BYTES];
    const size_t n = fread(magic, 1, sizeof magic, picture->file);
    if (ferror(picture->file))
        return tc_fail(err, TC_BAD_INPUT, "%s: cannot be read: %s", picture->path, strerror(errno));
    if (n == 0)
        return tc_fail(err, TC_BAD_INPUT, "%s: the file is empty", picture->path);
    picture->decoder = find_decoder(magic, n);
    if (picture->decoder == NULL)
        return refuse_kind(picture, magic, n, err);
    rewind(picture->file);
    return TC_OK;
}

/* Opens a picture. is_part: the file is a part of another picture, and its metadata are ignored. */
static tc_status open_picture(const char *path, const wu_picture_want *want, bool is_part,
                              wu_picture **out, tc_err *err)
{
    assert(!want->scaled || want->hi > want->lo);
    wu_picture *picture = calloc(1, sizeof *picture);
    *out = NULL;
    if (picture == NULL)
        return tc_no_memory(err, path);
    picture->want = *want;
    picture->ignores_metadata = is_part;
    picture->path = strdup(path);
    tc_status status = picture->path == NULL ? tc_no_memory(err, path) : open_file(picture, err);
    if (status == TC_OK)
        status = choose_decoder(picture, err);
    if (status == TC_OK) {
        picture->n_pages = 1;
        /* The values for a file without metadata. `about` has what callers can ask for. `metadata`
         * has what is needed to find the pages. */
        picture->about =
            (wu_picture_about){ .channels = 1, .frames = 1, .slices = 1, .orientation = 1 };
        picture->metadata = (wu_metadata){
            .channels = 1, .frames = 1, .slices = 1, .others = 1, .series = 1, .order = "czt"
        };
        status = picture->decoder->open(picture, err);
        /* Rounds the voxel's size, so that errors of floating point are not shown. */
        wu_about_round_sizes(&picture->about);
    }
    if (status == TC_OK)
        status =
            is_part ? wu_picture_choose_pages(picture, err) : wu_picture_set_info(picture, err);
    assert(status != TC_OK || (picture->info.nx >= 1 && picture->info.ny >= 1));
    if (status != TC_OK)
        wu_picture_close(&picture);
    *out = picture;
    return status;
}

tc_status wu_picture_open(const char *path, const wu_picture_want *want, wu_picture **out,
                          tc_err *err)
{
    return open_picture(path, want, false /* not a part */, out, err);
}

tc_status wu_picture_open_part(const char *path, const wu_picture_want *want, wu_picture **out,
                               tc_err *err)
{
    return open_picture(path, want, true /* a part of another picture */, out, err);
}

void wu_picture_close(wu_picture **picture)
{
    if (*picture == NULL)
        return;
    if ((*picture)->decoder != NULL)
        (*picture)->decoder->close(*picture);
    if ((*picture)->file != NULL)
        fclose((*picture)->file);
    /* A file that the metadata name, and that has some of the pages. */
    wu_picture_close(&(*picture)->other);
    for (size_t i = 0; i < (*picture)->metadata.n_files; i++)
        free((*picture)->metadata.files[i]);
    free((*picture)->metadata.files);
    free((*picture)->metadata.planes);
    free((*picture)->raw);
    free((*picture)->encoded);
    free((*picture)->path);
    free(*picture);
    *picture = NULL;
}

const wu_picture_info *wu_picture_get_info(const wu_picture *picture)
{
    return &picture->info;
}

const wu_picture_about *wu_picture_get_about(const wu_picture *picture)
{
    return &picture->about;
}

const char *wu_picture_format(const wu_picture *picture)
{
    return picture->decoder->name;
}

size_t wu_picture_page_bytes(const wu_picture_info *info)
{
    return (size_t)info->nx * info->ny * info->channels * (info->bits / 8);
}

/* Decodes the next page and converts it to the wanted type. */
static tc_status decode_page(wu_picture *picture, void *pixels, tc_err *err)
{
    const uint32_t page = picture->pages_read;
    if (wu_picture_is_unconverted(picture))
        return wu_picture_decode(picture, page, pixels, err);
    /* Labels whose size in bytes does not change are converted in place, in `pixels`. */
    const size_t bytes = wu_picture_raw_bytes(picture);
    const bool in_place =
        picture->want.kind == WU_KIND_LABELS && bytes == wu_picture_page_bytes(&picture->info);
    if (!in_place && picture->raw == NULL)
        picture->raw = malloc(bytes);
    if (!in_place && picture->raw == NULL)
        return tc_no_memory(err, picture->path);
    void *const raw = in_place ? pixels : picture->raw;
    const tc_status status = wu_picture_decode(picture, page, raw, err);
    return status == TC_OK ? wu_picture_convert(picture, raw, pixels, err) : status;
}

/* Sets picture->note to remarks about the pages read so far, or to "". */
static void write_note(wu_picture *picture)
{
    /* The share of clipped samples, in per cent; the note has it rounded down to 50, 10 or 1. */
    const double clipped =
        picture->n_scaled > 0 ? 100.0 * (double)picture->n_clipped / (double)picture->n_scaled : 0;
    char clipping[100];
    snprintf(clipping, sizeof clipping, "more than %d%% of its samples lie beyond --scale %g,%g",
             clipped > 50   ? 50
             : clipped > 10 ? 10
                            : 1,
             picture->want.lo, picture->want.hi);
    /* A fourth sample is mentioned if it did not have its greatest value everywhere, or if this is
     * not known because samples have more than 16 bits. */
    const char *const notes[] = {
        picture->has_fourth_sample && (picture->alpha_dropped || picture->samples.bits > 16)
            ? "its fourth sample, which is not declared to be transparency, was left out; "
              "--channel "
              "4 takes it"
        : picture->premultiplied
            ? "partly transparent: the transparency was dropped; the colours are stored multiplied "
              "by it (premultiplied alpha), and taken as they are stored"
        : picture->alpha_dropped
            ? "partly transparent: the transparency was dropped, the colours under it were kept"
            : NULL,
        picture->pages_skipped ? "pages marked as thumbnails or masks were left out" : NULL,
        /* a PNG without its final chunk */
        picture->no_end ? "the file ends without saying so, but all samples came" : NULL,
        clipped > 1 ? clipping : NULL,
        picture->not_numbers ? "samples that are not numbers (NaN) became 0" : NULL,
        picture->infinite ? "infinite samples became black or white" : NULL,
    };
    size_t n = 0;
    for (size_t i = 0; i < sizeof notes / sizeof notes[0]; i++)
        if (notes[i] != NULL)
            n += (size_t)snprintf(picture->note + n, sizeof picture->note - n, "%s%s",
                                  n > 0 ? "; " : "", notes[i]);
}

/* Whether all pixels of a page are equal, and not 0. */
static bool is_one_value(const wu_picture_info *info, const uint8_t *page)
{
    const size_t n = wu_picture_page_bytes(info),
                 pixel_bytes = (size_t)info->channels * (info->bits / 8);
    bool empty = true; /* the first pixel is 0 */
    for (size_t i = 0; i < pixel_bytes; i++)
        empty = empty && page[i] == 0;
    /* All pixels are equal if the page is equal to itself moved by one pixel. */
    return !empty && memcmp(page, page + pixel_bytes, n - pixel_bytes) == 0;
}

tc_status wu_picture_next(wu_picture *picture, void *pixels, tc_err *err)
{
    if (picture->pages_read >= picture->info.nz)
        return tc_fail(err, TC_INTERNAL, "%s: page %u was requested, but it has %u", picture->path,
                       picture->pages_read + 1, picture->info.nz);
    const tc_status status = decode_page(picture, pixels, err);
    if (status == TC_OK)
        picture->pages_read++;
    write_note(picture);
    /* If all pixels of a mask or of labels have one colour, only the dropped transparency showed
     * the areas. */
    if (status == TC_OK && picture->want.kind != WU_KIND_IMAGE && picture->alpha_dropped &&
        is_one_value(&picture->info, pixels))
        return tc_fail(err, TC_BAD_INPUT,
                       "%s: shows its areas by transparency alone, which is dropped: save them as "
                       "white on black, or with a number for each, without transparency",
                       picture->path);
    return status;
}

/* Hands picture->encoded over to the caller. */
unsigned char *wu_picture_encoded(wu_picture *picture, size_t *n)
{
    unsigned char *const encoded = picture->encoded;
    if (!wu_picture_is_unconverted(picture))
        return NULL;
    *n = picture->n_encoded;
    picture->encoded = NULL;
    return encoded;
}

const char *wu_picture_note(const wu_picture *picture)
{
    return picture->note[0] == '\0' ? NULL : picture->note;
}

tc_status wu_picture_set_size(wu_picture *picture, uint64_t width, uint64_t height, tc_err *err)
{
    if (width == 0 || height == 0)
        return tc_fail(err, TC_BAD_INPUT, "%s: the picture has no pixels", picture->path);
    if (width > WU_MAX_SIDE || height > WU_MAX_SIDE || width * height > WU_MAX_VOXELS)
        return tc_fail(err, TC_BAD_INPUT,
                       "%s: %llu x %llu pixels are too many: a work unit takes sides of up to %u "
                       "and %llu pixels in all",
                       picture->path, (unsigned long long)width, (unsigned long long)height,
                       WU_MAX_SIDE, (unsigned long long)WU_MAX_VOXELS);
    picture->info.nx = (uint32_t)width;
    picture->info.ny = (uint32_t)height;
    return TC_OK;
}
