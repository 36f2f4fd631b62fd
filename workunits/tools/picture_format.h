/*
 * Between picture.c and the decoders: what a decoder is.
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

struct wu_picture {
    char *path; /* owned */
    FILE *file; /* at its beginning; not used for TIFF */
    const struct wu_picture_decoder *decoder;
    void *state; /* the decoder's own */
    wu_picture_want want;
    wu_picture_info info;           /* nx, ny are set by open, the rest by wu_picture_settle */
    wu_samples samples;             /* set by open */
    wu_picture_about about;         /* set by open */
    uint64_t n_pages;               /* set by open: of the file, whatever they are of */
    uint64_t first_page, page_step; /* those that are wanted */
    uint32_t pages_read;
    void *raw;          /* a page as decoded, where it is not one as wanted; owned */
    bool not_numbers;   /* there were NaN */
    bool alpha_dropped; /* alpha that was not opaque */
    bool pages_skipped; /* thumbnails, masks */
    char note[200];
};

typedef struct wu_picture_decoder {
    const char *name;
    /* Sets state and what is said above. On failure `close` is called all the same. */
    tc_status (*open)(wu_picture *picture, tc_err *err);
    /* Decodes page `page` of the file, which is after the one before, into nx * ny pixels of
     * samples. */
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

/* --- what files say beside their samples (picture_about.c) ----------------------------------- */

/* ImageJ's and OME's descriptions; of other texts nothing. */
void wu_about_description(const char *text, wu_picture_about *out);
/* Pixels per `unit_um` micrometres along x and y, unless a text said the unit or the size. What is
 * usual for print (72 and 300 an inch, and so on) says nothing of what is in the picture. */
void wu_about_resolution(double x, double y, double unit_um, wu_picture_about *out);
/* n bytes of Exif data: the orientation. */
void wu_about_exif(const uint8_t *data, size_t n, wu_picture_about *out);
void wu_about_orientation(unsigned value, wu_picture_about *out);
/* When all is read: sizes that can be none become 0. */
void wu_about_check(wu_picture_about *out);

#endif
