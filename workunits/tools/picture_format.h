/*
 * Between picture.c and the three decoders: what a decoder is.
 */
#ifndef WU_PICTURE_FORMAT_H
#define WU_PICTURE_FORMAT_H

#include <stdbool.h>
#include <stdio.h>

#include "workunits/tools/picture.h"

struct wu_picture {
    char *path;                              /* owned */
    FILE *file;                              /* at its beginning; not used for TIFF */
    const struct wu_picture_decoder *decoder;
    void *state;                             /* the decoder's own */
    wu_picture_info info;
    wu_picture_about about;                  /* set by open */
    bool labels;                             /* it is a label picture */
    uint32_t pages_read;
    bool alpha_dropped;                      /* alpha that was not opaque */
    bool pages_skipped;                      /* thumbnails, masks */
    char note[200];
};

typedef struct wu_picture_decoder {
    const char *name;
    /* Sets state and info. On failure `close` is called all the same. */
    tc_status (*open)(wu_picture *picture, tc_err *err);
    /* Decodes page number pages_read. */
    tc_status (*next)(wu_picture *picture, void *pixels, tc_err *err);
    /* Frees state, which may be NULL. */
    void (*close)(wu_picture *picture);
} wu_picture_decoder;

extern const wu_picture_decoder wu_picture_png;
extern const wu_picture_decoder wu_picture_jpeg;
extern const wu_picture_decoder wu_picture_tiff;

/* Fills info.nx and info.ny after a check against the limits. */
tc_status wu_picture_set_size(wu_picture *picture, uint64_t width, uint64_t height, tc_err *err);

/* TC_BAD_INPUT with a message that says what to do about 16-bit colour. */
tc_status wu_picture_refuse_rgb16(const wu_picture *picture, tc_err *err);

/* --- what files say beside their samples (picture_about.c) ----------------------------- */

/* ImageJ's and OME's descriptions; of other texts nothing. */
void wu_about_description(const char *text, wu_picture_about *out);
/* Pixels per `unit_um` micrometres along x and y, unless a text said the unit or the size. What is usual for
 * print (72 and 300 an inch, and so on) says nothing of what is in the picture. */
void wu_about_resolution(double x, double y, double unit_um, wu_picture_about *out);
/* n bytes of Exif data: the orientation. */
void wu_about_exif(const uint8_t *data, size_t n, wu_picture_about *out);
void wu_about_orientation(unsigned value, wu_picture_about *out);
/* When all is read: sizes that can be none become 0. */
void wu_about_check(wu_picture_about *out);

#endif
