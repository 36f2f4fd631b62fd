/*
 * Between picture.c and the decoders: what a decoder is, and what it has to say of its file.
 */
#ifndef WU_PICTURE_FORMAT_H
#define WU_PICTURE_FORMAT_H

#include <stdbool.h>
#include <stdio.h>

#include "workunits/tools/picture.h"

/* Samples as a decoder gives them, in the order of the host's bytes. */
typedef enum wu_sample_type {
    WU_SAMPLE_UNSIGNED,
    WU_SAMPLE_SIGNED,
    WU_SAMPLE_FLOAT
} wu_sample_type;

typedef struct wu_samples {
    wu_sample_type type;
    unsigned bits;        /* 8, 16, 32 or 64 */
    unsigned channels;    /* of a pixel, interleaved, without alpha */
    bool rgb;             /* three of them are colours */
    double slope, offset; /* a value is slope * sample + offset; slope 0: it is the sample */
} wu_samples;

/* Where a plane is: in this file (0) or in another one, from 1. */
typedef struct wu_plane {
    uint32_t file, page;
} wu_plane;
#define WU_NO_PAGE UINT32_MAX

/* What a file says its pages are. Decoders and the readers of texts fill it and refuse nothing that
 * they understand; wu_picture_choose_pages decides. Set by open, counts being 1 before. */
typedef struct wu_said {
    const char *by; /* who says it: "its OME-XML". NULL: nobody */
    uint64_t channels, frames, slices;
    uint64_t others;      /* along axes that are none of these, multiplied */
    char other[24];       /* what such an axis is called */
    uint64_t images;      /* planes, counted apart from the axes; 0: they are not */
    uint64_t series;      /* pictures */
    uint64_t nx, ny;      /* of a plane; 0: nothing is said */
    char order[4];        /* of planes: c, t and z, the one that changes first in front */
    double unit_um;       /* of the resolution, where a text says it; 0: none does */
    double unit_y_um;     /* of that along y, where it is another */
    bool inches;          /* that text says so */
    double slope, offset; /* of the samples; slope 0: they are the values */
    bool indices;         /* a PNG's palette colours */
    bool cut;             /* a page more than there are, somewhere beyond the end of the file */
    wu_plane
        *planes; /* of c + channels * (z + slices * t); NULL: the pages in their order; owned */
    size_t n_planes;
    char **files; /* the paths of others; owned */
    size_t n_files;
    char refusal[300]; /* why it cannot be taken, with the remedy */
} wu_said;

struct wu_picture {
    char *path; /* owned */
    FILE *file; /* at its beginning */
    const struct wu_picture_decoder *decoder;
    void *state; /* the decoder's own */
    wu_picture_want want;
    wu_picture_info info;   /* nx, ny are set by open, the rest by wu_picture_settle */
    wu_samples samples;     /* set by open */
    wu_picture_about about; /* set by open */
    wu_said said;           /* set by open */
    uint64_t n_pages;       /* set by open: of the file, whatever they are of */
    bool bare;              /* it is one of several files: what it says does not count */
    wu_picture *other;      /* the one of said.files that is open, or NULL; owned */
    uint32_t other_file;    /* its number */
    uint32_t pages_read;
    unsigned char *encoded; /* the PNG that was decoded, if it is one of a work unit; owned */
    size_t n_encoded;
    void *raw;          /* a page as decoded, where it is not one as wanted; owned */
    bool not_numbers;   /* there were NaN */
    uint64_t taken;     /* samples that --scale was for */
    uint64_t beyond;    /* of them those out of it */
    bool alpha_dropped; /* alpha that was not opaque */
    bool multiplied;    /* colours by that alpha */
    bool fourth;        /* nobody says that it is alpha */
    bool no_end;        /* the file ends without saying so */
    bool pages_skipped; /* thumbnails, masks */
    char note[400];
};

typedef struct wu_picture_decoder {
    const char *name;
    /* Sets state and what is said above. On failure `close` is called all the same. */
    tc_status (*open)(wu_picture *picture, tc_err *err);
    /* Decodes page `page` of the file into nx * ny pixels of samples; where planes are NULL each is
     * after the one before. */
    tc_status (*next)(wu_picture *picture, uint64_t page, void *samples, tc_err *err);
    /* Frees state, which may be NULL. */
    void (*close)(wu_picture *picture);
} wu_picture_decoder;

extern const wu_picture_decoder wu_picture_png;
extern const wu_picture_decoder wu_picture_jpeg;
extern const wu_picture_decoder wu_picture_tiff;
extern const wu_picture_decoder wu_picture_nifti;

/* Fills info.nx and info.ny after a check against the limits. */
tc_status wu_picture_set_size(wu_picture *picture, uint64_t width, uint64_t height, tc_err *err);

/* Opens a picture without deciding anything. */
tc_status wu_picture_open_bare(const char *path, const wu_picture_want *want, wu_picture **out,
                               tc_err *err);

/* --- which pages are wanted (picture_pages.c) ------------------------------------------------ */

/* The one decision on what a file says of its pages: sets info.nz, or refuses with the remedy. */
tc_status wu_picture_choose_pages(wu_picture *picture, tc_err *err);
/* Whether pages of which nothing is said are channels: one was asked for by its number, and there
 * is none within a pixel. */
bool wu_wants_silent_channel(const wu_picture *picture, unsigned samples);
/* A colour was asked for by name, and these channels are others. TC_BAD_INPUT. */
tc_status wu_picture_refuse_colour(const wu_picture *picture, uint64_t channels, tc_err *err);
/* How one of several channels is had. */
const char *wu_one_channel(const wu_picture *picture);
/* Decodes number k of the wanted pages, whatever file it is in. */
tc_status wu_picture_decode(wu_picture *picture, uint32_t k, void *samples, tc_err *err);

/* --- from what is there to what is wanted (picture_wanted.c) --------------------------------- */

/* After open: the pages, channel and type of sample that are wanted. */
tc_status wu_picture_settle(wu_picture *picture, tc_err *err);
/* Whether samples are as wanted. If not: bytes of the page as decoded, and what makes it one as
 * wanted. */
bool wu_picture_is_plain(const wu_picture *picture);
size_t wu_picture_raw_bytes(const wu_picture *picture);
tc_status wu_picture_convert(wu_picture *picture, const void *raw, void *pixels, tc_err *err);
/* Reads the pages, for the error that their samples need a scale: it tells their range. */
tc_status wu_picture_refuse_unscaled(wu_picture *picture, tc_err *err);

/* --- what files say besides their samples (picture_about.c) ---------------------------------- */

/* Micrometres of a unit of n bytes; 0: no length, or not known. */
double wu_micrometres(const char *unit, size_t n);
/* Whether sizes in this unit say nothing of lengths. */
bool wu_is_no_length(const char *unit, size_t n);
/* Pixels per `unit_um` micrometres along x and y, unless a text said the unit or the size. What is
 * usual for screens, print and scanners says nothing of what is in the picture. */
void wu_about_resolution(wu_picture *picture, double x, double y, double unit_um);
/* n bytes of Exif data: the orientation. */
void wu_about_exif(const uint8_t *data, size_t n, wu_picture_about *out);
void wu_about_orientation(unsigned value, wu_picture_about *out);
/* When all is read: sizes that can be none become 0. */
void wu_about_check(wu_picture_about *out);
/* Whether 256 colours are a ramp of one hue: such a palette colours, and its indices are data. */
bool wu_is_ramp(const uint8_t (*colour)[3], size_t n);

/* --- texts (picture_texts.c, picture_ome.c) -------------------------------------------------- */

/* What the reader of a text learns of a file's pages. */
typedef struct wu_pages_there {
    uint64_t n;
    const uint32_t *number; /* of each in the file, pages that are left out counted */
    unsigned samples;       /* of a pixel, alpha aside */
    unsigned stored;        /* with it */
} wu_pages_there;

/* Whether the text is of a program whose palettes colour. */
bool wu_text_paints(const char *text);
/* Fills picture->said from a description: ImageJ's, SCIFIO's, tifffile's, OME-XML; of other texts
 * nothing. TC_OK but without memory. */
tc_status wu_say_description(wu_picture *picture, const char *text, const wu_pages_there *there,
                             tc_err *err);
/* The same for XML. */
tc_status wu_say_xml(wu_picture *picture, const char *text, const wu_pages_there *there,
                     tc_err *err);
/* "%s" and more, as the refusal; the first counts. */
TC_FORMAT(2, 3)
void wu_say_refusal(wu_said *said, const char *format, ...);

#endif
