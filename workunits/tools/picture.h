/*
 * Reads picture files given to texcell-wu: PNG, JPEG, TIFF and NIfTI, recognised by their first
 * bytes, never by their names. A file is read page by page (a page is a plane of pixels), so that a
 * stack needs the memory of one slice.
 *
 * What the pages of each format become:
 *
 *   PNG    Grey of 1, 2 or 4 bits is scaled to 0..255; 8 and 16 bits stay as they are. A palette
 *          of grey entries becomes grey. A palette that is a ramp of one hue only colours the
 *          picture: its indices are the samples. Any other palette becomes RGB.
 *   JPEG   Grey, or RGB from YCbCr. CMYK is refused, and so is a damaged file, for which libjpeg
 *          would invent samples.
 *   TIFF   Grey as for PNG (min-is-white is inverted; 9 to 16 bits stay as they are), RGB,
 *          palettes of up to 8 bits; strips or tiles; the usual compressions. In files of ImageJ
 *          and of microscopes, the samples are used unchanged, whatever lookup table (palette) they
 *          are shown with. Several pages are a stack and must agree in size and type; smaller
 *          copies, thumbnails and transparency masks are left out.
 *   NIfTI  (.nii, .nii.gz) Slices along z, rows along y as they are stored; RGB of 8 bits.
 *
 * Metadata in the file describe what its pages are (channels, times, slices; in which order, in
 * which files): OME-XML; the texts of ImageJ, SCIFIO and tifffile; the tags of Zeiss' LSM,
 * MetaMorph's STK, Olympus' FluoView and MicroManager; the header of NIfTI. A file that lacks pages
 * which its metadata describe is refused; for pages that the metadata do not describe, a remark is
 * set. If there are several channels, one must be chosen; several times are a series.
 *
 * Samples stay as they are if they fit into 8 or 16 bits without a sign (also signed samples, if
 * none is negative). Samples that are floating-point, have 32 or 64 bits or a slope (NIfTI,
 * ImageJ's calibration), or are RGB of 16 bits, need a scale (wu_picture_want).
 *
 * In a mask, each sample that is not 0 is inside. In a label picture, samples are the numbers of
 * objects; they may have 32 bits, too, and be signed or floating-point if all are whole and not
 * negative. In both, grey of 1, 2 or 4 bits is not scaled, the indices of a palette are the
 * samples, and nothing is inverted.
 *
 * Alpha is dropped; wu_picture_note mentions it if any of it was not opaque. Gamma, ICC profiles
 * and orientation tags are not applied. wu_picture_get_about has the orientation, the size of a
 * pixel and the remarks to be printed.
 */
#ifndef WU_PICTURE_H
#define WU_PICTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "app/base/status.h"

/* What the pages of a file are for. */
typedef enum wu_kind { WU_KIND_IMAGE, WU_KIND_MASK, WU_KIND_LABELS } wu_kind;

/* How a file is to be read. */
typedef struct wu_picture_want {
    wu_kind kind;
    unsigned channel; /* the channel to be read, counted from 1, if the file has several; 0: none
                         chosen */
    bool colour; /* the channel was given as red, green or blue: a pixel must have these channels */
    unsigned long time; /* the time of a series whose pages are read, counted from 1. 0: the first
                           time, or all times if each has one page */
    bool alone; /* only pages in this file are read, even if its metadata name other files */
    bool wants_encoded; /* the file itself is kept, if it is a PNG, for wu_picture_encoded */
    bool scaled;        /* samples are scaled: lo becomes 0, hi (> lo) becomes 255 or 65535 */
    double lo, hi;
} wu_picture_want;

/* The size and type of the pages as wu_picture_next returns them. */
typedef struct wu_picture_info {
    uint32_t nx, ny;   /* width and height: 1..WU_MAX_SIDE */
    uint32_t nz;       /* number of pages: 1..WU_MAX_SIDE; nx*ny*nz <= WU_MAX_VOXELS */
    unsigned bits;     /* bits of a sample: 8 or 16; for labels also 32 */
    unsigned channels; /* 1: grey, 3: RGB (8 bits; for a mask also 16) */
    bool chosen;       /* the file has several channels, and the pages have only the wanted one */
} wu_picture_info;

/* Remarks for the user about how a file was read. Each is a bit; wu_remarks[k] is the text of bit
 * k, which explains the remark. */
typedef enum wu_remark {
    WU_REMARK_LOOKUP_TABLE = 1 << 0,
    WU_REMARK_PALETTE = 1 << 1,
    WU_REMARK_INVERTED = 1 << 2,
    WU_REMARK_NOT_INVERTED = 1 << 3,
    WU_REMARK_INDICES = 1 << 4,
    WU_REMARK_PYRAMID = 1 << 5,
    WU_REMARK_FEWER_TIMES = 1 << 6,
    WU_REMARK_EXTRA_PAGES = 1 << 7,
    WU_REMARK_TEXT_IGNORED = 1 << 8,
    WU_REMARK_TEXT_MALFORMED = 1 << 9,
    WU_REMARK_STRAY_BYTES = 1 << 10,
    WU_REMARK_COLOUR_PROFILE = 1 << 11,
    WU_REMARK_JOINED_FILES = 1 << 12,
    WU_REMARK_FILE_ALONE = 1 << 13,
    WU_REMARK_CURVED_CALIBRATION = 1 << 14,
    WU_REMARK_MORE_IMAGES = 1 << 15,
    WU_REMARK_UNKNOWN_UNIT = 1 << 16,
    WU_REMARK_NO_NEXT_PAGE = 1 << 17,
    WU_REMARK_BIT_MISMATCH = 1 << 18,
    WU_REMARK_INFINITE_SLOPE = 1 << 19,
    WU_REMARK_NO_DATA_OFFSET = 1 << 20,
    WU_REMARK_TAKEN_AS_SLICES = 1 << 21,
    WU_REMARK_TAKEN_AS_CHANNELS = 1 << 22
} wu_remark;
enum { WU_REMARKS = 23 }; /* number of remarks */
extern const char *const wu_remarks[WU_REMARKS];

/* What a file records about its picture besides the samples. */
typedef struct wu_picture_about {
    double um[3]; /* size of a voxel (z, y, x) in micrometres; um[2] is 0 if it is not recorded,
                     um[0] is 0 if only y and x are recorded */
    unsigned long channels, frames, slices; /* frames: times. 1 if not recorded */
    unsigned orientation; /* Exif's number: 1 if the picture is shown as stored, 2 to 8 if it is to
                             be turned or mirrored */
    unsigned remarks;     /* bits of wu_remark */
} wu_picture_about;

typedef struct wu_picture wu_picture;

/* Opens a picture and reads its metadata and the headers of all pages. Messages begin with the
 * path. TC_BAD_INPUT for a file that cannot be opened, is not a picture, or has a type that a work
 * unit cannot hold. Sets *out to the picture, to be closed by wu_picture_close; to NULL after a
 * failure. */
tc_status wu_picture_open(const char *path, const wu_picture_want *want, wu_picture **out,
                          tc_err *err);

/* The picture's size and type, and the properties that its file records. Owned by the picture. */
const wu_picture_info *wu_picture_get_info(const wu_picture *picture);
const wu_picture_about *wu_picture_get_about(const wu_picture *picture);
/* Returns the number of other files that have pages of the picture, and sets *paths to their paths,
 * owned by the picture. */
size_t wu_picture_others(const wu_picture *picture, char *const **paths);
/* The format of the file: "PNG", "JPEG", "TIFF" or "NIfTI". */
const char *wu_picture_format(const wu_picture *picture);

/* The size of a page in bytes; cannot overflow within the limits of wu_picture_info. */
size_t wu_picture_page_bytes(const wu_picture_info *info);

/* Decodes the next page, the first one at the first call, into `pixels`:
 * wu_picture_page_bytes of uint8_t, uint16_t or uint32_t (host order), rows from the top,
 * channels interleaved. Reading past the last page is TC_INTERNAL. */
tc_status wu_picture_next(wu_picture *picture, void *pixels, tc_err *err);

/* Returns the page that was decoded last as a PNG file that a work unit can hold, to be freed by
 * free(), and sets *n to its size. Returns NULL if the picture's file is not such a PNG, or
 * want.wants_encoded was not set. */
unsigned char *wu_picture_encoded(wu_picture *picture, size_t *n);

/* A note for the user about the pages read so far, or NULL. Owned by the picture, valid until the
 * next call. */
const char *wu_picture_note(const wu_picture *picture);

/* Frees the picture and sets *picture to NULL; it may be NULL already. */
void wu_picture_close(wu_picture **picture);

#endif
