/*
 * Picture files of the admin's side: PNG, JPEG, TIFF and NIfTI, recognised by their
 * first bytes, never by their names. A file is read page by page, so that a
 * stack needs the memory of one slice.
 *
 * What a page becomes:
 *
 *   PNG   grey of 1, 2, 4 bits is spread over 0..255; 8 and 16 bits are taken
 *         as they are. A palette whose entries are all grey becomes grey, a ramp of one hue
 *         colours alone and its indices are taken, any other palette becomes RGB.
 *   JPEG  grey, or RGB from YCbCr. CMYK is refused. A JPEG of whose samples
 *         a part would be made up is refused.
 *   TIFF  grey as for PNG (min-is-white inverted; 9 to 16 bits as they are), RGB, palettes of
 *         up to 8 bits; strips or tiles, the usual compressions. Of ImageJ's files and those of
 *         microscopes the samples are taken, whatever lookup table they are to be shown with.
 *         Several pages are a stack and must agree in size and type; smaller copies,
 *         thumbnails and transparency masks are left out.
 *   NIfTI (.nii, .nii.gz): slices along z, rows along y as they are stored; RGB of 8 bits.
 *
 * What the pages are (channels, times, slices, in which order, in which files) the file says:
 * OME-XML, the texts of ImageJ, SCIFIO and tifffile, the tags of Zeiss' LSM, MetaMorph's STK,
 * Olympus' FluoView and MicroManager, NIfTI. What it says and does not have is refused; what it has
 * and does not say is noted. Pages of several channels need one to be chosen; pages of several
 * times are a series.
 *
 * Samples are taken as they are where 8 or 16 bits without a sign hold them: signed ones, too, if
 * none is negative. Floating-point samples, those of 32 and 64 bits, those with a slope (NIfTI,
 * ImageJ's calibration) and RGB of 16 bits need a scale (wu_picture_want).
 *
 * A mask is what is not 0. A label picture is one whose values are numbers of objects: of 32 bits,
 * too, signed or floating-point where all values are whole and not negative. Of both grey of 1, 2,
 * 4 bits is not spread, of a palette the indices are taken, and nothing is inverted.
 *
 * Alpha is dropped; wu_picture_note tells whether any of it was not opaque. Gamma, ICC profiles
 * and orientation tags change nothing: samples are taken as they are stored.
 * wu_picture_get_about has the orientation, the size of a pixel and what is to be noted.
 */
#ifndef WU_PICTURE_H
#define WU_PICTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "app/base/status.h"

/* What pages are of an item. */
typedef enum wu_kind { WU_KIND_IMAGE, WU_KIND_MASK, WU_KIND_LABELS } wu_kind;

/* What a file is to be read as. */
typedef struct wu_picture_want {
    wu_kind kind;
    unsigned channel;   /* from 1: that one alone, where there are several; 0: not said */
    bool colour;        /* the channel is red, green or blue: of others there is none */
    unsigned long time; /* from 1: the pages of this one, of a series. 0: of the first, or of all if
                           each has one page */
    bool alone;         /* that file's own pages, whatever others it says belong to them */
    bool as_it_is;      /* wu_picture_encoded will be asked for */
    bool scaled;        /* lo becomes 0 and hi, which is more, the largest value */
    double lo, hi;
} wu_picture_want;

typedef struct wu_picture_info {
    uint32_t nx, ny;   /* width and height: 1..WU_MAX_SIDE */
    uint32_t nz;       /* pages: 1..WU_MAX_SIDE; nx*ny*nz <= WU_MAX_VOXELS */
    unsigned bits;     /* 8 or 16 per sample; of labels also 32 */
    unsigned channels; /* 1 grey, 3 RGB (8 bits; of a mask also 16) */
    bool chosen;       /* it is the channel that is wanted, of several */
} wu_picture_info;

/* What is to be noted of a file that is taken: bits, with their texts in wu_remarks. */
typedef enum wu_remark {
    WU_PAINTED = 1 << 0,
    WU_PALETTE = 1 << 1,
    WU_INVERTED = 1 << 2,
    WU_NOT_INVERTED = 1 << 3,
    WU_INDICES = 1 << 4,
    WU_COPIES = 1 << 5,
    WU_FEWER_TIMES = 1 << 6,
    WU_UNSAID_PAGES = 1 << 7,
    WU_OTHER_TEXT = 1 << 8,
    WU_BAD_TEXT = 1 << 9,
    WU_ODD_BYTES = 1 << 10,
    WU_PROFILE = 1 << 11,
    WU_OF_SEVERAL = 1 << 12,
    WU_ALONE = 1 << 13,
    WU_CURVED = 1 << 14,
    WU_ONE_OF_MORE = 1 << 15,
    WU_UNIT = 1 << 16,
    WU_NO_NEXT = 1 << 17,
    WU_OTHER_BITS = 1 << 18,
    WU_NO_SLOPE = 1 << 19,
    WU_NO_PLACE = 1 << 20,
    WU_SILENT_PAGES = 1 << 21,
    WU_CHANNELS = 1 << 22
} wu_remark;
enum { WU_REMARKS = 23 };
extern const char *const wu_remarks[WU_REMARKS];

/* What the file says of its picture besides the samples. */
typedef struct wu_picture_about {
    double um[3]; /* z, y, x of a voxel in micrometres; x 0: nothing is said, z 0: not of z */
    unsigned long channels, frames, slices; /* 1 where nothing is said */
    unsigned orientation; /* Exif's: 1 as it is stored, 2 to 8 turned or mirrored */
    unsigned remarks;     /* of wu_remark */
} wu_picture_about;

typedef struct wu_picture wu_picture;

/* Opens a picture and reads what its header says (of every page). Messages
 * begin with the path. TC_BAD_INPUT for a file that cannot be opened, is no
 * picture, or has a type that a work unit cannot hold. On success *out is the
 * caller's, to be freed with wu_picture_close. */
tc_status wu_picture_open(const char *path, const wu_picture_want *want, wu_picture **out,
                          tc_err *err);

/* Owned by the picture. */
const wu_picture_info *wu_picture_get_info(const wu_picture *picture);
const wu_picture_about *wu_picture_get_about(const wu_picture *picture);
/* The paths of the other files that pages are taken from; owned by the picture. */
size_t wu_picture_others(const wu_picture *picture, char *const **paths);
/* "PNG", "JPEG", "TIFF" or "NIfTI". */
const char *wu_picture_format(const wu_picture *picture);

/* Bytes of one page; never overflows, given the limits above. */
size_t wu_picture_page_bytes(const wu_picture_info *info);

/* Decodes the next page, the first one at the first call, into `pixels`:
 * wu_picture_page_bytes of uint8_t, uint16_t or uint32_t (host order), rows from the top,
 * channels interleaved. Reading past the last page is TC_INTERNAL. */
tc_status wu_picture_next(wu_picture *picture, void *pixels, tc_err *err);

/* The page that was decoded last as a PNG of a work unit, *n bytes, which are the caller's to
 * free. NULL: the file has none that needs no change, or it was not wanted. */
unsigned char *wu_picture_encoded(wu_picture *picture, size_t *n);

/* What a person should know about the pages read so far, or NULL. Owned by
 * the picture, valid until the next call. */
const char *wu_picture_note(const wu_picture *picture);

/* Frees the picture and sets *picture to NULL; it may be NULL already. */
void wu_picture_close(wu_picture **picture);

#endif
