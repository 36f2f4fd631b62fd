/* The decoder for TIFF files, which uses libtiff. */
#include <errno.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <tiffio.h>

#include "app/base/array.h"
#include "workunits/tools/picture_tags.h"
#include "workunits/tools/tiff_open.h"

/* The most bytes that libtiff may allocate at once; also the most bytes of a tile. */
#define MAX_BLOCK_BYTES ((tmsize_t)1 << 30)
enum { MAX_PAGES = 1 << 20 }; /* the most pages of a file */
/* The longest side, in pixels, of a tile that is larger than the picture: with larger tiles, a file
 * of a few bytes could cause minutes of decoding. */
enum { MAX_TILE_SIDE = 4096 };

/* How the samples of a page are stored. */
typedef struct tiff_layout {
    uint32_t nx, ny;
    wu_samples out;   /* the type of the samples after decoding */
    unsigned bits;    /* bits per sample in the file: 1, 2, 4, 8 to 16, 32 or 64 */
    unsigned samples; /* samples per pixel, including alpha */
    bool planar;      /* each sample of the pixels has a plane of its own */
    bool inverted;    /* 0 is white: values are inverted */
    bool has_alpha;   /* the sample after the colours is alpha */
    bool multiplied;  /* the colours are multiplied by alpha */
    bool differences; /* samples are stored as differences (predictor) that libtiff does not undo */
    bool palette;     /* samples are indices of `colour`, and are replaced by its entries */
    unsigned n_colours;
    uint8_t colour[256][3];
} tiff_layout;

/* The state of the decoder. */
typedef struct tiff_state {
    TIFF *tiff; /* the same as listener.tiff */
    wu_tiff_listener listener;
    tiff_layout layout; /* the layout of libtiff's current page */
    uint64_t wanted;    /* index of the page to be decoded into `pixels` */
    void *pixels;
    uint64_t *offsets; /* [n_pages] offsets of the pages' directories; owned */
    uint32_t *numbers; /* [n_pages] indices of the pages among all directories of the file; owned */
    size_t n_pages, offsets_room, numbers_room;
    char *text; /* the description, owned by libtiff; valid until it reads another directory */
    bool display_palettes; /* palettes are not applied to samples: they are only for display */
    bool planes_follow;    /* only the first plane has a directory; the others follow its samples */
    uint64_t samples_at;   /* if `planes_follow`: offset of the first sample */
    uint64_t plane_bytes;  /* if `planes_follow`: bytes of a plane */
    unsigned index;        /* a palette index in the picture that the palette does not have, or 0 */
    bool decoding;         /* pixels are being decoded: warnings are errors */
    bool damaged;          /* libtiff has reported an error */
    bool no_memory;        /* the reported error is that memory ran out */
    bool guarded;          /* call_guarded is running: on_error may jump to `out` */
    jmp_buf out;           /* the place in call_guarded to which on_error jumps */
    uint8_t *block;        /* buffer for a decoded row or tile */
    char message[300];     /* libtiff's first error message */
} tiff_state;

/* The function that libtiff calls on an error. Keeps the first message: later messages are
 * consequences of the first error. Leaves libtiff by longjmp in two cases: if memory ran out, since
 * libtiff 4.5 may go on without the memory, and if pixels are damaged, since libtiff would go on
 * with all remaining rows. */
static void on_error(void *user, const char *format, va_list args)
{
    tiff_state *const state = user;
    if (!state->damaged) {
        state->no_memory = errno == ENOMEM;
        vsnprintf(state->message, sizeof state->message, format, args);
    }
    state->damaged = true;
    if (state->guarded && (state->decoding || errno == ENOMEM))
        longjmp(state->out, 1);
}

/* The function that libtiff calls on a warning. Warnings about tags are common and harmless. A
 * warning while pixels are decoded is an error: libtiff made up some of the pixels. Only the
 * warning about the first version of LZW is harmless. */
static void on_warning(void *user, const char *format, va_list args)
{
    const tiff_state *const state = user;
    if (state->decoding && strncmp(format, "Old-style LZW", 13) != 0)
        on_error(user, format, args);
}

static tc_status fail_tiff(const wu_picture *picture, tc_err *err)
{
    const tiff_state *state = picture->state;
    if (state->no_memory)
        return tc_no_memory(err, picture->path);
    return tc_fail(err, TC_BAD_INPUT, "%s: damaged TIFF: %s", picture->path,
                   state->damaged ? state->message : "a page cannot be read");
}

/* The value or the default of a tag of the current page; `fallback` if the tag has neither. */
static uint16_t read_tag16(TIFF *tiff, uint32_t tag, uint16_t fallback)
{
    uint16_t value = fallback;
    if (TIFFGetFieldDefaulted(tiff, tag, &value) != 1)
        value = fallback;
    return value;
}

/* Whether libtiff has read a directory (the tags of a page). status: the return value of the
 * libtiff function. If it is 1 (success), any error was about a tag that libtiff ignored, and is
 * cleared. */
static bool directory_was_read(tiff_state *state, int status)
{
    if (status == 1 && !state->no_memory)
        state->damaged = false;
    return status == 1 && !state->damaged;
}

/* --- the layout of a page -------------------------------------------------------------------- */

/* Fails because samples have an unsupported type. what: a phrase that follows "is a TIFF". */
static tc_status refuse_tiff(const wu_picture *picture, const char *what, tc_err *err)
{
    return tc_fail(err, TC_BAD_INPUT,
                   "%s: is a TIFF %s, which a work unit cannot hold; "
                   "save it as grey or RGB of 8 or 16 bits",
                   picture->path, what);
}

/* The directory of libtiff's current page. */
static wu_tags tags_of(const wu_picture *picture)
{
    const tiff_state *state = picture->state;
    return (wu_tags){ picture->file, TIFFIsBigEndian(state->tiff) != 0, state->listener.big,
                      TIFFCurrentDirOffset(state->tiff) };
}

/* The value of a tag as stored in the current page's directory, or `fallback`. Unlike read_tag16 it
 * returns values that tiff_open.c hides from libtiff, and values that libtiff changes. The tag's
 * value has 2 bytes (TIFF_SHORT) or 4. */
static uint64_t stored_tag(const wu_picture *picture, unsigned number, uint64_t fallback)
{
    const wu_tags tags = tags_of(picture);
    wu_tag tag;
    uint64_t value;
    return wu_tags_find(&tags, number, &tag) &&
                   wu_tags_number(&tags, tag.at, tag.type == TIFF_SHORT ? 2 : 4, &value)
               ? value
               : fallback;
}

/* Reads a palette of more or fewer than 2^bits colours, which libtiff does not return. Sets *n to
 * the number of colours read, at most 2^bits. Returns false if there is no valid palette. */
static bool read_other_palette(const wu_picture *picture, unsigned bits, uint16_t entries[3][256],
                               unsigned *n)
{
    enum { MAX_COLOURS = 1 << 16 }; /* the most colours of a palette in a valid file */
    const wu_tags tags = tags_of(picture);
    wu_tag tag;
    uint64_t value;
    if (bits > 8 || !wu_tags_find(&tags, TIFFTAG_COLORMAP, &tag) || tag.type != TIFF_SHORT ||
        tag.count < 3 || tag.count % 3 != 0)
        return false;
    /* The palette has the reds of all entries first, then the greens, then the blues. */
    const uint64_t each = tag.count / 3;
    *n = each < 1u << bits ? (unsigned)each : 1u << bits;
    for (unsigned c = 0; c < 3; c++)
        for (unsigned i = 0; i < *n; i++) {
            if (each > MAX_COLOURS ||
                !wu_tags_number(&tags, tag.at + 2 * (c * each + i), 2, &value))
                return false;
            entries[c][i] = (uint16_t)value;
        }
    return true;
}

/* Reads the palette, and decides whether its colours replace the samples, or are only for display,
 * so that the indices are the samples. Palettes with indices of more than 8 bits must be only for
 * display.
 */
static tc_status read_palette(wu_picture *picture, tiff_layout *layout, tc_err *err)
{
    const tiff_state *state = picture->state;
    uint16_t *red = NULL, *green = NULL, *blue = NULL, entries[3][256];
    const unsigned last = (1u << (layout->bits <= 8 ? layout->bits : 8)) - 1; /* last index used */
    unsigned n = last + 1;
    if (TIFFGetField(state->tiff, TIFFTAG_COLORMAP, &red, &green, &blue) != 1) {
        if (!read_other_palette(picture, layout->bits, entries, &n))
            return picture->want.kind == WU_KIND_LABELS
                       ? TC_OK
                       : tc_fail(err, TC_BAD_INPUT, "%s: damaged TIFF: the palette is missing",
                                 picture->path);
        red = entries[0];
        green = entries[1];
        blue = entries[2];
    }
    if (layout->out.channels > 1)
        return refuse_tiff(picture, "with a palette and several samples a pixel", err);
    layout->n_colours = n;
    /* Entries have 16 bits, but some programs write values of 8 bits. */
    unsigned used_bits = 0; /* the bits that are set in any entry */
    for (unsigned i = 0; i < n; i++)
        used_bits |= (unsigned)red[i] | green[i] | blue[i];
    const unsigned shift = used_bits > 255 ? 8 : 0;
    bool grey = true;
    bool is_identity = layout->bits <= 8; /* evenly spaced greys, which change nothing */
    for (unsigned i = 0; i < n; i++) {
        uint8_t *c = layout->colour[i];
        c[0] = (uint8_t)(red[i] >> shift);
        c[1] = (uint8_t)(green[i] >> shift);
        c[2] = (uint8_t)(blue[i] >> shift);
        grey = grey && c[0] == c[1] && c[1] == c[2];
        is_identity = is_identity && grey && c[0] == i * 255 / last;
    }
    const uint8_t *const first = layout->colour[0];
    if (picture->want.kind != WU_KIND_IMAGE) {
        picture->about.remarks |= (first[0] | first[1] | first[2]) != 0 ? WU_REMARK_INDICES : 0;
        return TC_OK;
    }
    if (state->display_palettes || (layout->bits == 8 && wu_is_palette_ramp(layout->colour, n))) {
        picture->about.remarks |= is_identity ? 0 : WU_REMARK_LOOKUP_TABLE;
        return TC_OK;
    }
    if (layout->bits > 8)
        return refuse_tiff(picture, "with a palette of 16 bits", err);
    picture->about.remarks |= is_identity ? 0 : WU_REMARK_PALETTE;
    layout->out = (wu_samples){ .bits = 8, .channels = grey ? 1 : 3, .rgb = true };
    layout->palette = true;
    return TC_OK;
}

/* For pictures in which 0 is white: decides whether values are inverted, and sets the remark. */
static void read_inversion(wu_picture *picture, tiff_layout *layout)
{
    const tiff_state *state = picture->state;
    const bool image = picture->want.kind == WU_KIND_IMAGE;
    layout->inverted = image && !state->display_palettes &&
                       layout->out.type == WU_SAMPLE_UNSIGNED && layout->bits <= 16;
    picture->about.remarks |= !image             ? WU_REMARK_INDICES
                              : layout->inverted ? WU_REMARK_INVERTED
                                                 : WU_REMARK_NOT_INVERTED;
}

/* Reads the kind of colours, and whether one more sample is alpha. */
static tc_status read_colours(wu_picture *picture, tiff_layout *layout, tc_err *err)
{
    const tiff_state *state = picture->state;
    TIFF *tiff = state->tiff;
    const uint16_t photometric = read_tag16(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
    uint16_t n_extra = 0;
    const uint16_t *extra = NULL;
    TIFFGetFieldDefaulted(tiff, TIFFTAG_EXTRASAMPLES, &n_extra, &extra);

    unsigned file_channels = 1;
    switch (photometric) {
    case PHOTOMETRIC_MINISWHITE: read_inversion(picture, layout); break;
    case PHOTOMETRIC_MINISBLACK:
    case PHOTOMETRIC_PALETTE: break;
    case PHOTOMETRIC_YCBCR:
        if (read_tag16(tiff, TIFFTAG_COMPRESSION, COMPRESSION_NONE) != COMPRESSION_JPEG)
            return refuse_tiff(picture, "with YCbCr colours", err);
        TIFFSetField(tiff, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
        /* fall through */
    case PHOTOMETRIC_RGB:
        file_channels = 3;
        layout->out.rgb = true;
        break;
    case PHOTOMETRIC_SEPARATED: return refuse_tiff(picture, "with CMYK colours", err);
    case PHOTOMETRIC_CIELAB:
    case PHOTOMETRIC_ICCLAB:
    case PHOTOMETRIC_ITULAB: return refuse_tiff(picture, "with CIE L*a*b* colours", err);
    case PHOTOMETRIC_CFA: return refuse_tiff(picture, "of a camera's raw samples", err);
    default: return refuse_tiff(picture, "with colours other than grey, RGB or a palette", err);
    }
    /* A fourth sample that the file does not describe may be alpha or data: it is treated as alpha,
     * unless the user chose channel 4. */
    const bool undescribed = n_extra == 1 && extra[0] == EXTRASAMPLE_UNSPECIFIED;
    layout->has_alpha = layout->samples == file_channels + 1 && n_extra == 1 &&
                        (!undescribed || (file_channels == 3 && !state->display_palettes &&
                                          picture->want.channel <= 3));
    picture->has_fourth_sample = layout->has_alpha && undescribed;
    layout->multiplied = layout->has_alpha && extra[0] == EXTRASAMPLE_ASSOCALPHA;
    layout->out.channels = layout->samples - layout->has_alpha;
    return stored_tag(picture, TIFFTAG_PHOTOMETRIC, 0) == PHOTOMETRIC_PALETTE
               ? read_palette(picture, layout, err)
               : TC_OK;
}

/* Accepts only common codecs: libtiff has others that are little tested, and pictures may be
 * untrusted. */
static tc_status check_codec(const wu_picture *picture, tc_err *err)
{
    const tiff_state *state = picture->state;
    const uint16_t codec = read_tag16(state->tiff, TIFFTAG_COMPRESSION, COMPRESSION_NONE);
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
    case COMPRESSION_CCITTFAX4: return TC_OK;
    }
    known = TIFFFindCODEC(codec);
    return tc_fail(err, TC_BAD_INPUT,
                   "%s: is a TIFF compressed by %s (%u); save it without compression, or by LZW, "
                   "deflate, PackBits, JPEG or CCITT",
                   picture->path, known != NULL ? known->name : "something unknown", codec);
}

/* Reads the type of samples. Samples of up to 16 bits are decoded to 8 or 16 bits. */
static tc_status read_type(const wu_picture *picture, tiff_layout *layout, tc_err *err)
{
    const tiff_state *state = picture->state;
    const unsigned bits = layout->bits;
    const bool whole = bits == 8 || bits == 16 || bits == 32 || bits == 64;
    layout->out.bits = bits <= 8 ? 8 : bits <= 16 ? 16 : bits;
    switch (read_tag16(state->tiff, TIFFTAG_SAMPLEFORMAT, SAMPLEFORMAT_UINT)) {
    case SAMPLEFORMAT_UINT:
    case SAMPLEFORMAT_VOID:
        layout->out.type = WU_SAMPLE_UNSIGNED;
        return bits == 1 || bits == 2 || bits == 4 || (bits >= 8 && bits <= 16) || whole
                   ? TC_OK
                   : refuse_tiff(picture, "of an unusual number of bits a sample", err);
    case SAMPLEFORMAT_INT:
        layout->out.type = WU_SAMPLE_SIGNED;
        return whole ? TC_OK : refuse_tiff(picture, "of an unusual number of bits a sample", err);
    case SAMPLEFORMAT_IEEEFP:
        layout->out.type = WU_SAMPLE_FLOAT;
        return bits == 32 || bits == 64
                   ? TC_OK
                   : refuse_tiff(picture, "of floating-point samples of unusual size", err);
    default: return refuse_tiff(picture, "of complex samples", err);
    }
}

/* Reads the predictor of files without compression or with PackBits, for which libtiff ignores the
 * predictor. With LZW and deflate, libtiff undoes it. Without compression a predictor is refused;
 * with PackBits only the horizontal one (differences) is accepted. */
static tc_status read_predictor(const wu_picture *picture, tiff_layout *layout, tc_err *err)
{
    const tiff_state *state = picture->state;
    const uint16_t codec = read_tag16(state->tiff, TIFFTAG_COMPRESSION, COMPRESSION_NONE);
    const uint64_t predictor = codec == COMPRESSION_NONE || codec == COMPRESSION_PACKBITS
                                   ? stored_tag(picture, TIFFTAG_PREDICTOR, PREDICTOR_NONE)
                                   : PREDICTOR_NONE;
    const unsigned bits = layout->bits;
    layout->differences = predictor == PREDICTOR_HORIZONTAL;
    if (predictor == PREDICTOR_NONE || (layout->differences && codec == COMPRESSION_PACKBITS &&
                                        (bits == 8 || bits == 16 || bits == 32 || bits == 64)))
        return TC_OK;
    return tc_fail(err, TC_BAD_INPUT,
                   "%s: says that its samples are stored by predictor %llu, which TIFFs of its "
                   "compression do not have; save it with deflate or LZW, or without a predictor",
                   picture->path, (unsigned long long)predictor);
}

/* Reads the layout of the current page. */
static tc_status read_layout(wu_picture *picture, tiff_layout *layout, tc_err *err)
{
    const tiff_state *state = picture->state;
    TIFF *tiff = state->tiff;
    *layout = (tiff_layout){ 0 };
    uint32_t width = 0, height = 0;
    TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &width);
    TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &height);
    return_if_error(wu_picture_set_size(picture, width, height, err));
    return_if_error(check_codec(picture, err));
    layout->nx = width;
    layout->ny = height;
    layout->bits = read_tag16(tiff, TIFFTAG_BITSPERSAMPLE, 1);
    layout->samples = read_tag16(tiff, TIFFTAG_SAMPLESPERPIXEL, 1);
    uint32_t depth = 1;
    if (TIFFGetField(tiff, TIFFTAG_IMAGEDEPTH, &depth) == 1 && depth != 1)
        return refuse_tiff(picture, "with volumes as pages", err);
    if (layout->samples == 0)
        return tc_fail(err, TC_BAD_INPUT, "%s: damaged TIFF: no samples", picture->path);
    layout->planar =
        layout->samples > 1 &&
        read_tag16(tiff, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG) == PLANARCONFIG_SEPARATE;
    return_if_error(read_type(picture, layout, err));
    return_if_error(read_predictor(picture, layout, err));
    return read_colours(picture, layout, err);
}

/* --- pages ----------------------------------------------------------------------------------- */

/* Whether the current page is a thumbnail, a smaller copy or a mask. */
static bool is_secondary(TIFF *tiff)
{
    uint32_t type = 0;
    TIFFGetFieldDefaulted(tiff, TIFFTAG_SUBFILETYPE, &type);
    return (type & (FILETYPE_REDUCEDIMAGE | FILETYPE_MASK)) != 0;
}

/* Sets *pointer to the offset of the next directory, which stands after the entries of the
 * directory at the offset `at`. Returns false if the file ends before the pointer. A directory is
 * the number of its entries (8 bytes in BigTIFF, else 2), the entries (20 or 12 bytes each) and the
 * pointer (8 or 4 bytes). */
static bool read_next_pointer(const wu_tags *tags, uint64_t at, uint64_t *pointer)
{
    const bool big = tags->big;
    uint64_t entries = 0;
    return wu_tags_number(tags, at, big ? 8 : 2, &entries) && entries < 65536 &&
           wu_tags_number(tags, at + (big ? 8 + 20 * entries : 2 + 12 * entries), big ? 8 : 4,
                          pointer);
}

/* Checks that the file contains the current directory's pointer to the next one. If the file is cut
 * short before the pointer, libtiff treats this page as the last one, and a stack would lose
 * slices. */
static tc_status check_next_pointer(const wu_picture *picture, tc_err *err)
{
    const wu_tags tags = tags_of(picture);
    uint64_t pointer;
    return read_next_pointer(&tags, tags.directory, &pointer)
               ? TC_OK
               : tc_fail(err, TC_BAD_INPUT, "%s: damaged TIFF: ends in its directory",
                         picture->path);
}

/* Whether the directory at the offset `from`, the last one that libtiff could read, counts as the
 * file's last one: its pointer leads beyond the end of the file, to an empty directory, or back to
 * an earlier one. */
static bool is_last_directory(wu_picture *picture, uint64_t from)
{
    const tiff_state *const state = picture->state;
    wu_metadata *const metadata = &picture->metadata;
    const wu_tags tags = tags_of(picture);
    uint64_t pointer, n_entries;
    if (state->no_memory || !read_next_pointer(&tags, from, &pointer))
        return false;
    metadata->cut = !wu_tags_number(&tags, pointer, tags.big ? 8 : 2, &n_entries) || n_entries == 0;
    bool circle = false;
    for (size_t i = 0; i < state->n_pages && !circle; i++)
        circle = state->offsets[i] == pointer;
    if (metadata->cut || circle)
        picture->about.remarks |= WU_REMARK_NO_NEXT_PAGE;
    return metadata->cut || circle;
}

/* Makes libtiff read the next directory that is not secondary. Sets *found to whether there is one.
 * *number: index of the current directory among all directories of the file; it is updated. */
static tc_status next_directory(wu_picture *picture, uint32_t *number, bool *found, tc_err *err)
{
    tiff_state *state = picture->state;
    *found = false;
    while (!*found) {
        if (TIFFLastDirectory(state->tiff))
            return check_next_pointer(picture, err);
        const uint64_t from = TIFFCurrentDirOffset(state->tiff);
        if (!directory_was_read(state, TIFFReadDirectory(state->tiff))) {
            if (!is_last_directory(picture, from))
                return fail_tiff(picture, err);
            state->damaged = false;
            return TC_OK;
        }
        ++*number;
        *found = !is_secondary(state->tiff);
        if (!*found)
            picture->pages_skipped = true;
    }
    return TC_OK;
}

/* Whether two pages can be slices of the same stack. */
static bool is_alike(const tiff_layout *a, const tiff_layout *b)
{
    return a->nx == b->nx && a->ny == b->ny && a->out.type == b->out.type &&
           a->out.bits == b->out.bits && a->out.channels == b->out.channels;
}

/* Whether the page has the size of the first page reduced to 1/2, 1/4, 1/8, ... or 1/1024, rounded
 * down or up. If the first page is one pixel wide or high, no page counts as its copy. */
static bool is_copy(const tiff_layout *first, const tiff_layout *page)
{
    for (uint32_t factor = 2; factor <= 1024; factor *= 2)
        if (page->nx >= first->nx / factor && page->nx <= first->nx / factor + 1 &&
            page->ny >= first->ny / factor && page->ny <= first->ny / factor + 1)
            return first->nx > 1 && first->ny > 1;
    return false;
}

/* Whether one of the page's SubIFDs is wider than the page. Sets a remark if there are SubIFDs. */
static bool has_larger_sub(wu_picture *picture)
{
    const tiff_state *const state = picture->state;
    uint16_t n = 0;
    const uint64_t *sub = NULL;
    if (TIFFGetField(state->tiff, TIFFTAG_SUBIFD, &n, &sub) != 1 || n == 0)
        return false;
    picture->about.remarks |= WU_REMARK_PYRAMID;
    wu_tags tags = tags_of(picture);
    for (uint16_t i = 0; i < n; i++) {
        wu_tag tag;
        uint64_t nx;
        tags.directory = sub[i];
        if (wu_tags_find(&tags, TIFFTAG_IMAGEWIDTH, &tag) &&
            wu_tags_number(&tags, tag.at, tag.type == TIFF_SHORT ? 2 : 4, &nx) &&
            nx > state->layout.nx)
            return true;
    }
    return false;
}

/* Appends the current page to the list of pages. number: index of its directory among all. */
static tc_status add_page(wu_picture *picture, uint32_t number, tc_err *err)
{
    tiff_state *state = picture->state;
    uint64_t *const offsets =
        tc_array_grow(state->offsets, state->n_pages, &state->offsets_room, sizeof *offsets);
    if (offsets != NULL)
        state->offsets = offsets;
    uint32_t *const numbers =
        tc_array_grow(state->numbers, state->n_pages, &state->numbers_room, sizeof *numbers);
    if (numbers != NULL)
        state->numbers = numbers;
    if (offsets == NULL || numbers == NULL)
        return tc_no_memory(err, picture->path);
    offsets[state->n_pages] = TIFFCurrentDirOffset(state->tiff);
    numbers[state->n_pages++] = number;
    return state->n_pages <= MAX_PAGES
               ? TC_OK
               : tc_fail(err, TC_BAD_INPUT, "%s: too many pages: more than %d", picture->path,
                         MAX_PAGES);
}

/* Reads the directories of all pages and checks that all pages have the same size and type. Leaves
 * out secondary pages and smaller copies of the first page. */
static tc_status scan_pages(wu_picture *picture, tc_err *err)
{
    tiff_state *state = picture->state;
    bool found = !is_secondary(state->tiff);
    uint32_t number = 0;
    tc_status status = TC_OK;
    if (!found) {
        picture->pages_skipped = true;
        status = next_directory(picture, &number, &found, err);
    }
    if (status == TC_OK && !found)
        return tc_fail(err, TC_BAD_INPUT, "%s: holds only thumbnails or masks", picture->path);
    tiff_layout first_layout = { 0 };
    while (status == TC_OK && found) {
        status = read_layout(picture, &state->layout, err);
        if (status != TC_OK)
            break;
        const bool first = state->n_pages == 0;
        if (has_larger_sub(picture))
            return tc_fail(err, TC_BAD_INPUT,
                           "%s: page %zu has a larger picture of its own (SubIFD), of which it may "
                           "be a thumbnail; save the larger one to a file of its own",
                           picture->path, state->n_pages + 1);
        first_layout = first ? state->layout : first_layout;
        if (!first && is_copy(&first_layout, &state->layout))
            picture->about.remarks |= WU_REMARK_PYRAMID;
        else if (!is_alike(&first_layout, &state->layout))
            return tc_fail(err, TC_BAD_INPUT, "%s: page %zu differs from page 1 in size or type",
                           picture->path, state->n_pages + 1);
        else
            status = add_page(picture, number, err);
        if (status == TC_OK)
            status = next_directory(picture, &number, &found, err);
    }
    picture->n_pages = state->n_pages;
    picture->samples = first_layout.out;
    return status;
}

/* Makes libtiff read the directory of a page, which becomes its current page, and reads its layout.
 */
static tc_status select_page(wu_picture *picture, uint64_t page, tc_err *err)
{
    tiff_state *state = picture->state;
    if (!directory_was_read(state, TIFFSetSubDirectory(state->tiff, state->offsets[page])))
        return fail_tiff(picture, err);
    return read_layout(picture, &state->layout, err);
}

/* --- texts and tags -------------------------------------------------------------------------- */

static char *read_description(TIFF *tiff)
{
    char *text = NULL;
    return TIFFGetField(tiff, TIFFTAG_IMAGEDESCRIPTION, &text) == 1 ? text : NULL;
}

/* Reads resolution, orientation and colour profile of the current page. */
static void read_about(wu_picture *picture)
{
    const tiff_state *state = picture->state;
    float x = 0, y = 0;
    uint32_t n = 0;
    const void *data = NULL;
    /* The length in micrometres of each unit; 0 for number 0 and RESUNIT_NONE (1). tifffile also
     * writes the units 4 (millimetre) and 5 (micrometre), which libtiff would replace by the
     * default. */
    static const double units[] = { [RESUNIT_INCH] = 25400, [RESUNIT_CENTIMETER] = 1e4, 1e3, 1 };
    enum { UNITS = sizeof units / sizeof units[0] };
    const uint64_t unit = stored_tag(picture, TIFFTAG_RESOLUTIONUNIT, RESUNIT_INCH);
    if (TIFFGetField(state->tiff, TIFFTAG_XRESOLUTION, &x) == 1 &&
        TIFFGetField(state->tiff, TIFFTAG_YRESOLUTION, &y) == 1) {
        wu_about_set_resolution(picture, (double)x, (double)y, unit < UNITS ? units[unit] : 0);
        if ((unit == 0 || unit >= UNITS) && !(picture->about.um[2] > 0))
            picture->about.remarks |= WU_REMARK_UNKNOWN_UNIT;
    }
    wu_about_set_orientation(read_tag16(state->tiff, TIFFTAG_ORIENTATION, ORIENTATION_TOPLEFT),
                             &picture->about);
    if (TIFFGetField(state->tiff, TIFFTAG_ICCPROFILE, &n, &data) == 1)
        picture->about.remarks |= WU_REMARK_COLOUR_PROFILE;
}

/* Sets state->planes_follow if the file has a single page (one directory), but contains all planes
 * that the metadata describe, one after another. The page's samples must be contiguous and not
 * compressed, and the file must be long enough. ImageJ and MetaMorph write such files. */
static void find_following_planes(wu_picture *picture)
{
    tiff_state *state = picture->state;
    const wu_metadata *const metadata = &picture->metadata;
    const tiff_layout *const layout = &state->layout;
    const uint64_t *offsets = NULL, *sizes = NULL;
    const wu_tags tags = tags_of(picture);
    uint64_t n = metadata->channels * metadata->frames * metadata->slices; /* number of planes */
    n = n > metadata->images ? n : metadata->images;
    const bool is_power_of_2 = (layout->bits & (layout->bits - 1)) == 0;
    /* Whether the samples of a plane are contiguous in the file, each of 1, 2, 4 or 8 bytes. */
    const bool plain =
        read_tag16(state->tiff, TIFFTAG_COMPRESSION, COMPRESSION_NONE) == COMPRESSION_NONE &&
        layout->bits % 8 == 0 && is_power_of_2 && !layout->planar && TIFFIsTiled(state->tiff) == 0;
    if (picture->n_pages != 1 || n < 2 || n > MAX_PAGES || metadata->planes != NULL ||
        metadata->others > 1 || !plain ||
        TIFFGetField(state->tiff, TIFFTAG_STRIPOFFSETS, &offsets) != 1 ||
        TIFFGetField(state->tiff, TIFFTAG_STRIPBYTECOUNTS, &sizes) != 1)
        return;
    state->samples_at = offsets[0];
    state->plane_bytes = (uint64_t)layout->nx * layout->ny * layout->samples * (layout->bits / 8);
    uint64_t at = offsets[0];
    for (uint32_t i = 0; i < TIFFNumberOfStrips(state->tiff); i++) {
        if (offsets[i] != at)
            return;
        at += sizes[i];
    }
    if (at - offsets[0] < state->plane_bytes || fseeko(picture->file, 0, SEEK_END) != 0 ||
        state->samples_at + n * state->plane_bytes > (uint64_t)ftello(picture->file) ||
        !wu_tags_are_outside(&tags, state->samples_at, state->samples_at + n * state->plane_bytes))
        return;
    state->planes_follow = true;
    picture->n_pages = n;
}

/* Reads the metadata in the description and the tags of the first page. Not called by call_guarded:
 * a longjmp would leak memory. */
static tc_status read_metadata(wu_picture *picture, tc_err *err)
{
    tiff_state *state = picture->state;
    wu_metadata *const metadata = &picture->metadata;
    const wu_tags tags = tags_of(picture);
    const wu_tiff_pages tiff_pages = { picture->n_pages, state->numbers, state->layout.out.channels,
                                       state->layout.samples };
    tc_status status =
        state->text == NULL ? TC_OK : wu_metadata_from_text(picture, state->text, &tiff_pages, err);
    if (status == TC_OK)
        status = wu_metadata_from_tags(picture, &tags, state->offsets, err);
    /* If the pixels have n samples, and the metadata describe n planes for each page, the metadata
     * count each sample as a channel. */
    const uint64_t samples = state->layout.out.channels,
                   planes = metadata->channels * metadata->frames * metadata->slices;
    if (metadata->planes == NULL && samples > 1 && metadata->channels % samples == 0 &&
        planes == samples * picture->n_pages) {
        metadata->channels /= samples;
        metadata->images /= metadata->images == planes ? samples : 1;
    }
    /* A calibration is not applied to masks and labels, unless it only shifts the values, as for
     * signed samples. */
    const wu_samples *const s = &picture->samples;
    const bool shift = metadata->slope >= 1 && metadata->slope <= 1;
    if (s->type == WU_SAMPLE_UNSIGNED && s->bits <= 16 && s->channels == 1 &&
        (picture->want.kind == WU_KIND_IMAGE || shift)) {
        picture->samples.slope = metadata->slope;
        picture->samples.offset = metadata->offset;
    }
    return status;
}

/* Calls body, from which on_error may jump back to here by longjmp. */
static tc_status call_guarded(wu_picture *picture, tc_status (*body)(wu_picture *, tc_err *),
                              tc_err *err)
{
    tiff_state *const state = picture->state;
    tc_status status;
    errno = 0;
    state->guarded = true;
    if (setjmp(state->out) == 0)
        status = body(picture, err);
    else
        status = fail_tiff(picture, err);
    state->guarded = false;
    state->decoding = false;
    return status;
}

/* Reads all directories, unless the file is a whole-slide image, which is refused. */
static tc_status read_directories(wu_picture *picture, tc_err *err)
{
    tiff_state *state = picture->state;
    if (!directory_was_read(state, TIFFSetDirectory(state->tiff, 0)))
        return fail_tiff(picture, err);
    const wu_tags tags = tags_of(picture);
    const char *const text = read_description(state->tiff);
    state->display_palettes =
        wu_tags_palette_is_display(&tags) || (text != NULL && wu_text_has_display_palettes(text));
    wu_metadata_from_slide(&picture->metadata, text, &tags);
    return picture->metadata.refusal[0] == '\0' ? scan_pages(picture, err) : TC_OK;
}

/* Makes the first page current, and sets state->text to its description. */
static tc_status return_to_first(wu_picture *picture, tc_err *err)
{
    tiff_state *state = picture->state;
    const tc_status status = select_page(picture, 0, err);
    state->text = status == TC_OK ? read_description(state->tiff) : NULL;
    return status;
}

/* Finds planes without a directory, and reads the first page's resolution and orientation. */
static tc_status finish_first(wu_picture *picture, tc_err *err)
{
    (void)err;
    find_following_planes(picture);
    read_about(picture);
    return TC_OK;
}

static tc_status open_pages(wu_picture *picture, tc_err *err)
{
    tc_status status = call_guarded(picture, read_directories, err);
    if (status != TC_OK || picture->metadata.refusal[0] != '\0')
        return status;
    return_if_error(call_guarded(picture, return_to_first, err));
    if (!picture->ignores_metadata)
        return_if_error(read_metadata(picture, err));
    return call_guarded(picture, finish_first, err);
}

static tc_status open_tiff(wu_picture *picture, tc_err *err)
{
    tiff_state *state = calloc(1, sizeof *state);
    picture->state = state;
    if (state == NULL)
        return tc_no_memory(err, picture->path);
    state->listener = (wu_tiff_listener){ .error = on_error, .warning = on_warning, .user = state };
    errno = 0;
    state->tiff = wu_tiff_read(&state->listener, picture->path, picture->file, MAX_BLOCK_BYTES);
    state->no_memory =
        state->no_memory || (state->tiff == NULL && !state->damaged && errno == ENOMEM);
    if (state->tiff == NULL || state->damaged)
        return fail_tiff(picture, err);
    return open_pages(picture, err);
}

/* --- samples --------------------------------------------------------------------------------- */

/* Returns sample i of a row whose samples have up to 16 bits each, packed as in the file. */
static unsigned get_sample(const uint8_t *row, unsigned bits, size_t i)
{
    if (bits == 8)
        return row[i];
    if (bits == 16) {
        uint16_t value;
        memcpy(&value, row + 2 * i, sizeof value);
        return value;
    }
    unsigned value = 0;
    /* Samples are packed from the most significant bit of each byte on. */
    for (size_t bit = i * bits; bit < (i + 1) * bits; bit++)
        value = value << 1 | (row[bit / 8] >> (7 - bit % 8) & 1u);
    return value;
}

/* Puts a sample of up to 16 bits into the page, unless it is alpha. Replaces a palette's index by
 * its colour, inverts, and scales 1, 2 or 4 bits to 0..255, as the layout requires. pixel: index in
 * the page; sample: index within the pixel. */
static void put_sample(wu_picture *picture, void *page, size_t pixel, unsigned sample,
                       unsigned value)
{
    tiff_state *state = picture->state;
    const tiff_layout *layout = &state->layout;
    const unsigned channels = layout->out.channels;
    const unsigned max = (1u << layout->bits) - 1;
    if (layout->has_alpha && sample == layout->samples - 1) {
        if (value != max)
            picture->alpha_dropped = true;
        picture->premultiplied = picture->premultiplied || (value != max && layout->multiplied);
    } else if (layout->palette) {
        state->index = value >= layout->n_colours ? value : state->index;
        memcpy((uint8_t *)page + pixel * channels, layout->colour[value], channels);
    } else {
        if (layout->inverted)
            value = max - value;
        if (layout->bits > 8)
            ((uint16_t *)page)[pixel * channels + sample] = (uint16_t)value;
        else
            ((uint8_t *)page)[pixel * channels + sample] =
                (uint8_t)(picture->want.kind == WU_KIND_LABELS ? value : value * (255 / max));
    }
}

/* Puts sample i of the row, of 32 or 64 bits, into the page, unless it is alpha. pixel: index in
 * the page; sample: index within the pixel. */
static void put_wide(const wu_picture *picture, void *page, size_t pixel, unsigned sample,
                     const uint8_t *row, size_t i)
{
    const tiff_state *state = picture->state;
    const size_t bytes = state->layout.bits / 8;
    if (sample < state->layout.out.channels)
        memcpy((uint8_t *)page + (pixel * state->layout.out.channels + sample) * bytes,
               row + i * bytes, bytes);
}

/* Undoes the horizontal predictor of a row of n samples: adds to each sample the one `step` samples
 * before it. */
static void undo_predictor(uint8_t *row, size_t n, unsigned step, unsigned bits)
{
    for (size_t i = step; i < n; i++) {
        const size_t bytes = bits / 8;
        /* Each sample is in the first bytes of a and b: in either byte order of the host, the first
         * bytes of a + b are the sum modulo 2^bits. */
        uint64_t a = 0, b = 0;
        memcpy(&a, row + (i - step) * bytes, bytes);
        memcpy(&b, row + i * bytes, bytes);
        a += b;
        memcpy(row + i * bytes, &a, bytes);
    }
}

/* Puts n pixels of a decoded row into the page, the first one at the index `pixel`. The row has all
 * samples of each pixel or, if the file is planar, only sample number `sample`. */
static void put_row(wu_picture *picture, void *page, size_t pixel, uint8_t *row, size_t n,
                    unsigned sample)
{
    const tiff_state *state = picture->state;
    const tiff_layout *layout = &state->layout;
    const unsigned step = layout->planar ? 1 : layout->samples;
    if (layout->differences)
        undo_predictor(row, n * step, step, layout->bits);
    const bool whole = layout->bits % 8 == 0 && layout->bits == layout->out.bits;
    if (whole && step == layout->out.channels && sample == 0 && !layout->has_alpha &&
        !layout->palette && !layout->inverted) {
        const size_t bytes = (size_t)step * (layout->bits / 8);
        memcpy((uint8_t *)page + pixel * bytes, row, n * bytes);
        return;
    }
    for (size_t i = 0; i < n; i++)
        for (unsigned s = 0; s < step; s++)
            if (layout->bits > 16)
                put_wide(picture, page, pixel + i, sample + s, row, i * step + s);
            else
                put_sample(picture, page, pixel + i, sample + s,
                           get_sample(row, layout->bits, i * step + s));
}

/* Decodes a page without tiles, row by row. plane: if the page is planar, the number of the sample
 * whose plane is read; else 0. row: a buffer for one row. */
static tc_status read_strips(wu_picture *picture, unsigned plane, void *page, uint8_t *row,
                             tc_err *err)
{
    tiff_state *state = picture->state;
    const wu_picture_info *info = &picture->info;
    for (uint32_t y = 0; y < info->ny; y++) {
        if (TIFFReadScanline(state->tiff, row, y, (uint16_t)plane) != 1 || state->damaged)
            return fail_tiff(picture, err);
        put_row(picture, page, (size_t)y * info->nx, row, info->nx, plane);
    }
    return TC_OK;
}

/* Puts the part of a tile that is within the picture into the page. */
static void put_tile(wu_picture *picture, void *page, uint8_t *tile, uint32_t x0, uint32_t y0,
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

/* Decodes a page with tiles. plane: as for read_strips. tile: a buffer for one tile. */
static tc_status read_tiles(wu_picture *picture, unsigned plane, void *page, uint8_t *tile,
                            uint32_t tile_nx, uint32_t tile_ny, tc_err *err)
{
    tiff_state *state = picture->state;
    const wu_picture_info *info = &picture->info;
    for (uint64_t y = 0; y < info->ny; y += tile_ny) {
        for (uint64_t x = 0; x < info->nx; x += tile_nx) {
            if (TIFFReadTile(state->tiff, tile, (uint32_t)x, (uint32_t)y, 0, (uint16_t)plane) < 0 ||
                state->damaged)
                return fail_tiff(picture, err);
            put_tile(picture, page, tile, (uint32_t)x, (uint32_t)y, tile_nx, tile_ny, plane);
        }
    }
    return TC_OK;
}

/* Whether a plane of a planar file must be read. Only planes of unwanted channels need not be. The
 * plane after the channels is alpha, which is always read. */
static bool is_wanted(const wu_picture *picture, unsigned plane)
{
    const tiff_state *state = picture->state;
    const unsigned channels = picture->samples.channels;
    return !state->layout.planar || state->layout.palette || picture->info.channels == channels ||
           plane >= channels || plane == picture->want.channel - 1;
}

/* Decodes the current page. Checks first that the sizes which libtiff states for rows and tiles are
 * at least as large as what the functions above read of them. */
static tc_status read_page(wu_picture *picture, tc_err *err)
{
    tiff_state *state = picture->state;
    const bool tiled = TIFFIsTiled(state->tiff) != 0;
    uint32_t row_nx = picture->info.nx, tile_nx = 0, tile_ny = 1;
    if (tiled) {
        TIFFGetField(state->tiff, TIFFTAG_TILEWIDTH, &tile_nx);
        TIFFGetField(state->tiff, TIFFTAG_TILELENGTH, &tile_ny);
        row_nx = tile_nx;
        if ((tile_nx > picture->info.nx && tile_nx > MAX_TILE_SIDE) ||
            (tile_ny > picture->info.ny && tile_ny > MAX_TILE_SIDE))
            return tc_fail(err, TC_BAD_INPUT,
                           "%s: damaged TIFF: a picture of %u x %u pixels in tiles of %u x %u",
                           picture->path, picture->info.nx, picture->info.ny, tile_nx, tile_ny);
    }
    const uint64_t samples = state->layout.planar ? 1 : state->layout.samples;
    const uint64_t row_bytes = (row_nx * samples * state->layout.bits + 7) / 8; /* rounded up */
    /* Sizes in bytes, as libtiff states them, of a row, and of the block (row or tile) that it
     * decodes at once. */
    const uint64_t row_size =
        tiled ? TIFFTileRowSize64(state->tiff) : TIFFScanlineSize64(state->tiff);
    const uint64_t block_size = tiled ? TIFFTileSize64(state->tiff) : row_size;
    if (row_nx == 0 || tile_ny == 0 || row_size < row_bytes || block_size / tile_ny < row_size ||
        block_size > (uint64_t)MAX_BLOCK_BYTES)
        return tc_fail(err, TC_BAD_INPUT, "%s: damaged TIFF: odd size of rows or tiles",
                       picture->path);

    free(state->block);
    state->block = malloc((size_t)block_size);
    if (state->block == NULL)
        return tc_no_memory(err, picture->path);
    const unsigned planes = state->layout.planar ? state->layout.samples : 1;
    for (unsigned plane = 0; plane < planes; plane++)
        if (is_wanted(picture, plane))
            return_if_error(tiled ? read_tiles(picture, plane, state->pixels, state->block, tile_nx,
                                               tile_ny, err)
                                  : read_strips(picture, plane, state->pixels, state->block, err));
    if (state->index > 0)
        return tc_fail(err, TC_BAD_INPUT,
                       "%s: a pixel has the palette index %u, but the palette has only %u colours; "
                       "save it again with the program that made it",
                       picture->path, state->index, state->layout.n_colours);
    return TC_OK;
}

/* Reads a plane that has no directory (state->planes_follow is set). */
static tc_status read_following_plane(wu_picture *picture, tc_err *err)
{
    tiff_state *state = picture->state;
    const size_t row_bytes = (size_t)(state->plane_bytes / picture->info.ny),
                 sample_bytes = state->layout.bits / 8;
    const wu_tags tags = tags_of(picture);
    uint64_t at = state->samples_at + state->wanted * state->plane_bytes;
    free(state->block);
    state->block = malloc(row_bytes);
    if (state->block == NULL)
        return tc_no_memory(err, picture->path);
    const bool swapped = TIFFIsByteSwapped(state->tiff) && sample_bytes > 1;
    for (uint32_t y = 0; y < picture->info.ny; y++, at += row_bytes) {
        if (!wu_tags_read(&tags, at, state->block, row_bytes))
            return tc_fail(err, TC_BAD_INPUT, "%s: damaged TIFF: ends too early", picture->path);
        /* Reverse the bytes of each sample if the file's byte order is not the host's. */
        for (size_t i = 0; swapped && i < row_bytes; i += sample_bytes)
            for (size_t k = 0; k < sample_bytes / 2; k++) {
                const uint8_t byte = state->block[i + k];
                state->block[i + k] = state->block[i + sample_bytes - 1 - k];
                state->block[i + sample_bytes - 1 - k] = byte;
            }
        put_row(picture, state->pixels, (size_t)y * picture->info.nx, state->block,
                picture->info.nx, 0);
    }
    return TC_OK;
}

/* Decodes the page state->wanted into state->pixels. */
static tc_status decode_wanted(wu_picture *picture, tc_err *err)
{
    tiff_state *state = picture->state;
    const tiff_layout first = { .nx = picture->info.nx,
                                .ny = picture->info.ny,
                                .out = picture->samples };
    if (state->planes_follow && state->wanted > 0)
        return read_following_plane(picture, err);
    return_if_error(select_page(picture, state->wanted, err));
    /* scan_pages read the same layout, unless the file was changed meanwhile. */
    if (!is_alike(&first, &state->layout))
        return tc_fail(err, TC_BAD_INPUT, "%s: changed while it was read", picture->path);
    state->decoding = true;
    return read_page(picture, err);
}

static tc_status next_tiff(wu_picture *picture, uint64_t page, void *samples, tc_err *err)
{
    tiff_state *state = picture->state;
    state->wanted = page;
    state->pixels = samples;
    return call_guarded(picture, decode_wanted, err);
}

static void close_tiff(wu_picture *picture)
{
    tiff_state *state = picture->state;
    if (state == NULL)
        return;
    wu_tiff_close(&state->listener);
    free(state->block);
    free(state->offsets);
    free(state->numbers);
    free(state);
    picture->state = NULL;
}

const wu_picture_decoder wu_picture_tiff = { "TIFF", open_tiff, next_tiff, close_tiff };
