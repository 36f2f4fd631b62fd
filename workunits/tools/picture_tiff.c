/* TIFF through libtiff. */
#include <stdlib.h>
#include <string.h>

#include <tiffio.h>

#include "workunits/format/job.h"
#include "workunits/tools/picture_format.h"

/* The most that libtiff may allocate at once, and the largest tile. */
#define MAX_BLOCK ((tmsize_t)1 << 30)

/* How the samples of one page lie in the file. */
typedef struct tiff_layout {
    wu_picture_info info;        /* nz unused */
    unsigned bits;               /* 1, 2, 4, 8, 16 or 32 in the file */
    bool is_float;
    unsigned samples;            /* per pixel, alpha included */
    bool planar;                 /* one plane after the other */
    bool inverted;               /* min is white */
    bool has_alpha;              /* the sample after the colours is alpha */
    bool palette;
    uint8_t colour[256][3];
} tiff_layout;

typedef struct tiff_state {
    TIFF *tiff;
    tiff_layout layout;          /* of the page the file stands at */
    bool decoding;               /* warnings are damage from here on */
    bool damaged;
    char message[300];
} tiff_state;

/* The first message counts: later ones are its consequences. */
static void keep_message(tiff_state *state, const char *format, va_list args)
{
    if (!state->damaged)
        vsnprintf(state->message, sizeof state->message, format, args);
    state->damaged = true;
}

static int on_error(TIFF *tiff, void *user, const char *module, const char *format, va_list args)
{
    (void)tiff;
    (void)module;
    keep_message(user, format, args);
    return 1;
}

/* Warnings about tags are common and harmless; warnings while pixels are
 * decoded mean that a part of them is made up. */
static int on_warning(TIFF *tiff, void *user, const char *module, const char *format, va_list args)
{
    tiff_state *state = user;
    (void)tiff;
    (void)module;
    if (state->decoding)
        keep_message(state, format, args);
    return 1;
}

static tc_status fail_tiff(const wu_picture *picture, tc_err *err)
{
    const tiff_state *state = picture->state;
    return tc_fail(err, TC_BAD_INPUT, "%s: damaged TIFF: %s", picture->path,
                   state->damaged ? state->message : "a page cannot be read");
}

static uint16_t tag16(TIFF *tiff, uint32_t tag, uint16_t fallback)
{
    uint16_t value = fallback;
    if (TIFFGetFieldDefaulted(tiff, tag, &value) != 1)
        value = fallback;
    return value;
}

/* --- what tags say beside the pages --------------------------------------------- */

/* ImageJ and OME write pages of several channels and times one after the
 * other; read as a stack they would be nonsense. */
static tc_status check_about(const wu_picture *picture, tc_err *err)
{
    const tiff_state *state = picture->state;
    const wu_picture_about *const about = &picture->about;
    if (about->channels > 1 && state->layout.samples == 1)
        return tc_fail(err, TC_BAD_INPUT, "%s: holds %lu channels as pages; save one channel "
                       "to a file of its own", picture->path, about->channels);
    if (about->frames > 1 && about->slices > 1)
        return tc_fail(err, TC_BAD_INPUT, "%s: holds %lu times of %lu slices as pages; save one "
                       "time to a file of its own", picture->path, about->frames, about->slices);
    if (about->images > 1 && picture->info.nz == 1 && state->layout.samples == 1)
        return tc_fail(err, TC_BAD_INPUT, "%s: says that it holds %lu pictures, but lists one "
                       "(an ImageJ file of over 4 GB); save it as single slices", picture->path,
                       about->images);
    return TC_OK;
}

/* Description, resolution and orientation, of the page the file stands at. */
static tc_status read_about(wu_picture *picture, tc_err *err)
{
    const tiff_state *state = picture->state;
    char *text = NULL;
    float x = 0, y = 0;
    const uint16_t unit = tag16(state->tiff, TIFFTAG_RESOLUTIONUNIT, RESUNIT_INCH);
    if (TIFFGetField(state->tiff, TIFFTAG_IMAGEDESCRIPTION, &text) == 1 && text != NULL)
        wu_about_description(text, &picture->about);
    if (TIFFGetField(state->tiff, TIFFTAG_XRESOLUTION, &x) == 1 && TIFFGetField(state->tiff, TIFFTAG_YRESOLUTION, &y) == 1)
        wu_about_resolution((double)x, (double)y, unit == RESUNIT_INCH ? 25400 : unit == RESUNIT_CENTIMETER ? 1e4 : 0,
                            &picture->about);
    wu_about_orientation(tag16(state->tiff, TIFFTAG_ORIENTATION, ORIENTATION_TOPLEFT), &picture->about);
    return check_about(picture, err);
}

/* --- the layout of a page ------------------------------------------------------- */

static tc_status refuse(const wu_picture *picture, const char *what, tc_err *err)
{
    return tc_fail(err, TC_BAD_INPUT, "%s: is a TIFF %s, which a work unit cannot hold; "
                   "convert it to grey of 8 or 16 bits or RGB of 8 bits first", picture->path, what);
}

static tc_status read_palette(const wu_picture *picture, tiff_layout *layout, tc_err *err)
{
    const tiff_state *state = picture->state;
    uint16_t *red = NULL, *green = NULL, *blue = NULL;
    if (TIFFGetField(state->tiff, TIFFTAG_COLORMAP, &red, &green, &blue) != 1)
        return tc_fail(err, TC_BAD_INPUT, "%s: damaged TIFF: the palette is missing", picture->path);
    const unsigned n = 1u << layout->bits;
    /* Entries have 16 bits, but some programs fill them with 8-bit values. */
    unsigned largest = 0;
    for (unsigned i = 0; i < n; i++) {
        const unsigned all = red[i] | green[i] | blue[i];
        largest |= all;
    }
    const unsigned shift = largest > 255 ? 8 : 0;
    bool grey = true;
    for (unsigned i = 0; i < n; i++) {
        uint8_t *c = layout->colour[i];
        c[0] = (uint8_t)(red[i] >> shift);
        c[1] = (uint8_t)(green[i] >> shift);
        c[2] = (uint8_t)(blue[i] >> shift);
        grey = grey && c[0] == c[1] && c[1] == c[2];
    }
    layout->info.channels = grey ? 1 : 3;
    layout->palette = true;
    return TC_OK;
}

/* Colours, and whether one more sample is alpha. */
static tc_status read_colours(const wu_picture *picture, tiff_layout *layout, tc_err *err)
{
    const tiff_state *state = picture->state;
    TIFF *tiff = state->tiff;
    const uint16_t photometric = tag16(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
    uint16_t n_extra = 0;
    const uint16_t *extra = NULL;
    TIFFGetFieldDefaulted(tiff, TIFFTAG_EXTRASAMPLES, &n_extra, &extra);

    unsigned file_channels = 1;
    layout->info.channels = 1;
    switch (photometric) {
    case PHOTOMETRIC_MINISWHITE:
        layout->inverted = !picture->labels;
        break;
    case PHOTOMETRIC_MINISBLACK:
        break;
    case PHOTOMETRIC_YCBCR:
        if (tag16(tiff, TIFFTAG_COMPRESSION, COMPRESSION_NONE) != COMPRESSION_JPEG)
            return refuse(picture, "with YCbCr colours", err);
        TIFFSetField(tiff, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
        /* fall through */
    case PHOTOMETRIC_RGB:
        file_channels = layout->info.channels = 3;
        if (layout->bits == 16)
            return wu_picture_refuse_rgb16(picture, err);
        break;
    case PHOTOMETRIC_PALETTE:
        if (picture->labels)
            break;
        if (layout->bits > 8)
            return refuse(picture, "with a palette of 16 bits", err);
        break;
    default:
        return refuse(picture, "with colours other than grey, RGB or a palette", err);
    }
    if (layout->samples == file_channels + 1 && n_extra == 1
        && (extra[0] != EXTRASAMPLE_UNSPECIFIED || file_channels == 3))
        layout->has_alpha = true;
    else if (layout->samples != file_channels)
        return tc_fail(err, TC_BAD_INPUT, "%s: has %u samples a pixel; save one channel to a file "
                       "of its own", picture->path, layout->samples);
    return photometric == PHOTOMETRIC_PALETTE && !picture->labels ? read_palette(picture, layout, err) : TC_OK;
}

/* libtiff has many more codecs, some little used and less tested; pictures may be strangers'. */
static tc_status check_codec(const wu_picture *picture, tc_err *err)
{
    const tiff_state *state = picture->state;
    const uint16_t codec = tag16(state->tiff, TIFFTAG_COMPRESSION, COMPRESSION_NONE);
    const TIFFCodec *known;
    switch (codec) {
    case COMPRESSION_NONE:
    case COMPRESSION_LZW:
    case COMPRESSION_ADOBE_DEFLATE:
    case COMPRESSION_DEFLATE:
    case COMPRESSION_PACKBITS:
    case COMPRESSION_JPEG:
    case COMPRESSION_CCITTRLE:
    case COMPRESSION_CCITTRLEW:
    case COMPRESSION_CCITTFAX3:
    case COMPRESSION_CCITTFAX4:
        return TC_OK;
    }
    known = TIFFFindCODEC(codec);
    return tc_fail(err, TC_BAD_INPUT, "%s: is a TIFF compressed by %s (%u); save it without compression, or by LZW, "
                   "deflate, PackBits, JPEG or CCITT", picture->path, known != NULL ? known->name : "something unknown",
                   codec);
}

static tc_status read_layout(wu_picture *picture, tiff_layout *layout, tc_err *err)
{
    const tiff_state *state = picture->state;
    TIFF *tiff = state->tiff;
    *layout = (tiff_layout){ 0 };
    uint32_t width = 0, height = 0;
    TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &width);
    TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &height);
    tc_status status = wu_picture_set_size(picture, width, height, err);
    if (status == TC_OK)
        status = check_codec(picture, err);
    if (status != TC_OK)
        return status;
    layout->info.nx = width;
    layout->info.ny = height;

    layout->bits = tag16(tiff, TIFFTAG_BITSPERSAMPLE, 1);
    layout->samples = tag16(tiff, TIFFTAG_SAMPLESPERPIXEL, 1);
    const uint16_t sample_format = tag16(tiff, TIFFTAG_SAMPLEFORMAT, SAMPLEFORMAT_UINT);
    const bool labels = picture->labels && layout->bits == 32 && layout->samples == 1;
    layout->is_float = labels && sample_format == SAMPLEFORMAT_IEEEFP;
    if (sample_format == SAMPLEFORMAT_IEEEFP && !labels)
        return refuse(picture, "of floating-point samples", err);
    if (sample_format == SAMPLEFORMAT_INT && !labels)
        return refuse(picture, "of signed samples", err);
    if (sample_format > SAMPLEFORMAT_VOID)
        return refuse(picture, "of complex samples", err);
    if (layout->bits > 16 && !labels)
        return refuse(picture, "of more than 16 bits a sample", err);
    if (layout->bits != 1 && layout->bits != 2 && layout->bits != 4 && layout->bits != 8
        && layout->bits != 16 && !labels)
        return refuse(picture, "of an unusual number of bits a sample", err);
    uint32_t depth = 1;
    if (TIFFGetField(tiff, TIFFTAG_IMAGEDEPTH, &depth) == 1 && depth != 1)
        return refuse(picture, "with volumes as pages", err);
    layout->info.bits = layout->bits >= 16 ? layout->bits : 8;
    layout->planar = layout->samples > 1
        && tag16(tiff, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG) == PLANARCONFIG_SEPARATE;
    return read_colours(picture, layout, err);
}

/* --- pages ------------------------------------------------------------------------ */

static bool is_secondary(TIFF *tiff)
{
    uint32_t type = 0;
    TIFFGetFieldDefaulted(tiff, TIFFTAG_SUBFILETYPE, &type);
    return (type & (FILETYPE_REDUCEDIMAGE | FILETYPE_MASK)) != 0;
}

/* n bytes at `offset` as a number, least significant first after a swap. */
static bool read_number(const wu_picture *picture, uint64_t offset, size_t n, uint64_t *value)
{
    const tiff_state *state = picture->state;
    uint8_t bytes[8];
    if (offset > INT64_MAX || fseeko(picture->file, (off_t)offset, SEEK_SET) != 0
        || fread(bytes, 1, n, picture->file) != n)
        return false;
    *value = 0;
    for (size_t i = 0; i < n; i++)
        *value |= (uint64_t)bytes[TIFFIsBigEndian(state->tiff) ? n - 1 - i : i] << (8 * i);
    return true;
}

/* Where a file is cut short within the pointer to the next page, libtiff says
 * that there is none: a stack would silently lose slices. */
static tc_status check_next_pointer(const wu_picture *picture, tc_err *err)
{
    const tiff_state *state = picture->state;
    uint64_t entries = 0, pointer = 0;
    const uint64_t at = TIFFCurrentDirOffset(state->tiff);
    const bool big = TIFFIsBigTIFF(state->tiff) != 0;
    const bool good = read_number(picture, at, big ? 8 : 2, &entries) && entries < 65536
        && read_number(picture, at + (big ? 8 + 20 * entries : 2 + 12 * entries), big ? 8 : 4, &pointer);
    return good ? TC_OK : tc_fail(err, TC_BAD_INPUT, "%s: damaged TIFF: ends in its directory", picture->path);
}

/* Moves on to the next page that is no thumbnail; *found tells whether. */
static tc_status next_directory(wu_picture *picture, bool *found, tc_err *err)
{
    tiff_state *state = picture->state;
    *found = false;
    while (!*found) {
        if (TIFFLastDirectory(state->tiff))
            return check_next_pointer(picture, err);
        if (TIFFReadDirectory(state->tiff) != 1 || state->damaged)
            return fail_tiff(picture, err);
        *found = !is_secondary(state->tiff);
        if (!*found)
            picture->pages_skipped = true;
    }
    return TC_OK;
}

/* Looks at every page, counts them, and goes back to the first. */
static tc_status scan_pages(wu_picture *picture, tc_err *err)
{
    tiff_state *state = picture->state;
    bool found = !is_secondary(state->tiff);
    tc_status status = TC_OK;
    if (!found) {
        picture->pages_skipped = true;
        status = next_directory(picture, &found, err);
    }
    if (status == TC_OK && !found)
        return tc_fail(err, TC_BAD_INPUT, "%s: holds only thumbnails or masks", picture->path);
    const tdir_t first = TIFFCurrentDirectory(state->tiff);
    uint32_t pages = 0;
    wu_picture_info info = { 0 };
    while (status == TC_OK && found) {
        status = read_layout(picture, &state->layout, err);
        if (status != TC_OK)
            break;
        const wu_picture_info *page = &state->layout.info;
        if (pages == 0)
            info = *page;
        else if (page->nx != info.nx || page->ny != info.ny || page->bits != info.bits
                 || page->channels != info.channels)
            return tc_fail(err, TC_BAD_INPUT, "%s: page %u differs from page 1 in size or type",
                           picture->path, pages + 1);
        pages++;
        if (pages > WU_MAX_SIDE || (uint64_t)info.nx * info.ny * pages > WU_MAX_VOXELS)
            return tc_fail(err, TC_BAD_INPUT, "%s: %u and more pages of %u x %u pixels are too "
                           "many for a work unit", picture->path, pages, info.nx, info.ny);
        status = next_directory(picture, &found, err);
    }
    if (status != TC_OK)
        return status;
    picture->info = info;
    picture->info.nz = pages;
    if (TIFFSetDirectory(state->tiff, first) != 1 || state->damaged)
        return fail_tiff(picture, err);
    status = read_layout(picture, &state->layout, err);
    return status == TC_OK ? read_about(picture, err) : status;
}

static tc_status open_tiff(wu_picture *picture, tc_err *err)
{
    tiff_state *state = calloc(1, sizeof *state);
    picture->state = state;
    TIFFOpenOptions *options = TIFFOpenOptionsAlloc();
    if (state == NULL || options == NULL) {
        TIFFOpenOptionsFree(options);
        return tc_no_memory(err, picture->path);
    }
    TIFFOpenOptionsSetErrorHandlerExtR(options, on_error, state);
    TIFFOpenOptionsSetWarningHandlerExtR(options, on_warning, state);
    TIFFOpenOptionsSetMaxSingleMemAlloc(options, MAX_BLOCK);
    /* "m": not mapped, so that a file cut short meanwhile is an error and not a signal. */
    state->tiff = TIFFOpenExt(picture->path, "rm", options);
    TIFFOpenOptionsFree(options);
    if (state->tiff == NULL || state->damaged)
        return fail_tiff(picture, err);
    return scan_pages(picture, err);
}

/* --- samples ---------------------------------------------------------------------- */

/* Sample number i of a row as the file packs it. */
static unsigned get_sample(const uint8_t *row, unsigned bits, size_t i)
{
    if (bits == 8)
        return row[i];
    if (bits == 16) {
        uint16_t value;
        memcpy(&value, row + 2 * i, sizeof value);
        return value;
    }
    const size_t at = i * bits;
    return row[at / 8] >> (8 - bits - at % 8) & ((1u << bits) - 1);
}

/* One sample into the page; `pixel` counts from the page's first pixel. */
static void put_sample(wu_picture *picture, void *page, size_t pixel, unsigned sample, unsigned value)
{
    const tiff_state *state = picture->state;
    const tiff_layout *layout = &state->layout;
    const unsigned channels = picture->info.channels;
    const unsigned max = (1u << layout->bits) - 1;
    if (layout->has_alpha && sample == layout->samples - 1) {
        if (value != max)
            picture->alpha_dropped = true;
    } else if (layout->palette) {
        memcpy((uint8_t *)page + pixel * channels, layout->colour[value], channels);
    } else {
        if (layout->inverted)
            value = max - value;
        if (layout->bits == 16)
            ((uint16_t *)page)[pixel * channels + sample] = (uint16_t)value;
        else
            ((uint8_t *)page)[pixel * channels + sample] = (uint8_t)(picture->labels ? value : value * (255 / max));
    }
}

/* n label samples of 32 bits. What is no label becomes more than any. */
static void put_labels(const tiff_layout *layout, uint32_t *page, const uint8_t *row, size_t n)
{
    memcpy(page, row, n * sizeof *page);
    for (size_t i = 0; i < n && layout->is_float; i++) {
        float value;
        memcpy(&value, &page[i], sizeof value);
        page[i] = value >= 0 && value <= (float)WU_MAX_LABEL && value == (float)(uint32_t)value ? (uint32_t)value
                                                                                                : UINT32_MAX;
    }
}

/* n pixels of a decoded row, which holds all samples of a pixel, or of planar
 * files the one `sample`. */
static void put_row(wu_picture *picture, void *page, size_t pixel, const uint8_t *row, size_t n,
                    unsigned sample)
{
    const tiff_state *state = picture->state;
    const tiff_layout *layout = &state->layout;
    if (layout->bits == 32) {
        put_labels(layout, (uint32_t *)page + pixel, row, n);
        return;
    }
    if (layout->planar) {
        for (size_t i = 0; i < n; i++)
            put_sample(picture, page, pixel + i, sample, get_sample(row, layout->bits, i));
        return;
    }
    for (size_t i = 0; i < n; i++)
        for (unsigned s = 0; s < layout->samples; s++)
            put_sample(picture, page, pixel + i, s,
                       get_sample(row, layout->bits, i * layout->samples + s));
}

static tc_status read_strips(wu_picture *picture, void *page, uint8_t *row, tc_err *err)
{
    tiff_state *state = picture->state;
    const wu_picture_info *info = &picture->info;
    const unsigned planes = state->layout.planar ? state->layout.samples : 1;
    for (unsigned plane = 0; plane < planes; plane++) {
        for (uint32_t y = 0; y < info->ny; y++) {
            if (TIFFReadScanline(state->tiff, row, y, (uint16_t)plane) != 1 || state->damaged)
                return fail_tiff(picture, err);
            put_row(picture, page, (size_t)y * info->nx, row, info->nx, plane);
        }
    }
    return TC_OK;
}

/* The part of one tile that lies in the picture. */
static void put_tile(wu_picture *picture, void *page, const uint8_t *tile, uint32_t x0, uint32_t y0,
                     uint32_t tile_nx, uint32_t tile_ny, unsigned plane)
{
    const tiff_state *state = picture->state;
    const wu_picture_info *info = &picture->info;
    const size_t row_bytes = (size_t)TIFFTileRowSize64(state->tiff);
    const uint32_t nx = info->nx - x0 < tile_nx ? info->nx - x0 : tile_nx;
    const uint32_t ny = info->ny - y0 < tile_ny ? info->ny - y0 : tile_ny;
    for (uint32_t y = 0; y < ny; y++)
        put_row(picture, page, (size_t)(y0 + y) * info->nx + x0, tile + y * row_bytes, nx, plane);
}

static tc_status read_tiles(wu_picture *picture, void *page, uint8_t *tile, uint32_t tile_nx,
                            uint32_t tile_ny, tc_err *err)
{
    tiff_state *state = picture->state;
    const wu_picture_info *info = &picture->info;
    const unsigned planes = state->layout.planar ? state->layout.samples : 1;
    for (unsigned plane = 0; plane < planes; plane++) {
        for (uint64_t y = 0; y < info->ny; y += tile_ny) {
            for (uint64_t x = 0; x < info->nx; x += tile_nx) {
                if (TIFFReadTile(state->tiff, tile, (uint32_t)x, (uint32_t)y, 0, (uint16_t)plane) < 0
                    || state->damaged)
                    return fail_tiff(picture, err);
                put_tile(picture, page, tile, (uint32_t)x, (uint32_t)y, tile_nx, tile_ny, plane);
            }
        }
    }
    return TC_OK;
}

/* Decodes the page the file stands at. What libtiff calls the size of a row
 * or tile must be at least what the loops above will read of it. */
static tc_status read_page(wu_picture *picture, void *pixels, tc_err *err)
{
    tiff_state *state = picture->state;
    const bool tiled = TIFFIsTiled(state->tiff) != 0;
    uint32_t row_nx = picture->info.nx, tile_nx = 0, tile_ny = 1;
    if (tiled) {
        TIFFGetField(state->tiff, TIFFTAG_TILEWIDTH, &tile_nx);
        TIFFGetField(state->tiff, TIFFTAG_TILELENGTH, &tile_ny);
        row_nx = tile_nx;
    }
    const uint64_t samples = state->layout.planar ? 1 : state->layout.samples;
    const uint64_t row_bytes = (row_nx * samples * state->layout.bits + 7) / 8;
    const uint64_t has_row = tiled ? TIFFTileRowSize64(state->tiff) : TIFFScanlineSize64(state->tiff);
    const uint64_t has = tiled ? TIFFTileSize64(state->tiff) : has_row;
    if (row_nx == 0 || tile_ny == 0 || has_row < row_bytes || has / tile_ny < has_row
        || has > (uint64_t)MAX_BLOCK)
        return tc_fail(err, TC_BAD_INPUT, "%s: damaged TIFF: odd size of rows or tiles", picture->path);

    uint8_t *block = malloc((size_t)has);
    if (block == NULL)
        return tc_no_memory(err, picture->path);
    const tc_status status = tiled ? read_tiles(picture, pixels, block, tile_nx, tile_ny, err)
                                   : read_strips(picture, pixels, block, err);
    free(block);
    return status;
}

static tc_status next_tiff(wu_picture *picture, void *pixels, tc_err *err)
{
    tiff_state *state = picture->state;
    if (picture->pages_read > 0) {
        bool found = false;
        tc_status status = next_directory(picture, &found, err);
        if (status == TC_OK && !found)
            status = fail_tiff(picture, err);
        if (status == TC_OK) {
            const wu_picture_info before = picture->info;
            status = read_layout(picture, &state->layout, err);
            picture->info = before;
        }
        if (status != TC_OK)
            return status;
        /* scan_pages saw the same, unless the file was changed meanwhile. */
        const wu_picture_info *page = &state->layout.info;
        if (page->nx != picture->info.nx || page->ny != picture->info.ny
            || page->bits != picture->info.bits || page->channels != picture->info.channels)
            return tc_fail(err, TC_BAD_INPUT, "%s: changed while it was read", picture->path);
    }
    state->decoding = true;
    const tc_status status = read_page(picture, pixels, err);
    state->decoding = false;
    return status;
}

static void close_tiff(wu_picture *picture)
{
    tiff_state *state = picture->state;
    if (state == NULL)
        return;
    if (state->tiff != NULL)
        TIFFClose(state->tiff);
    free(state);
    picture->state = NULL;
}

const wu_picture_decoder wu_picture_tiff = { "TIFF", open_tiff, next_tiff, close_tiff };
