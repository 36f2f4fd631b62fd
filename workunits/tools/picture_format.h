/*
 * The interface between picture.c and the decoders of file formats, and the functions that decoders
 * share.
 */
#ifndef WU_PICTURE_FORMAT_H
#define WU_PICTURE_FORMAT_H

#include <stdbool.h>
#include <stdio.h>

#include "workunits/tools/picture.h"

typedef enum wu_sample_type {
    WU_SAMPLE_UNSIGNED,
    WU_SAMPLE_SIGNED,
    WU_SAMPLE_FLOAT
} wu_sample_type;

/* The type of the samples that a decoder returns, in the host's byte order. */
typedef struct wu_samples {
    wu_sample_type type;
    unsigned bits;        /* 8, 16, 32 or 64 */
    unsigned channels;    /* samples per pixel, interleaved, without alpha */
    bool rgb;             /* if channels is 3, they are red, green and blue */
    double slope, offset; /* a value is slope * sample + offset; slope 0: a value is the sample */
} wu_samples;

/* Where a plane is stored: file 0 is the picture's own, file i > 0 is wu_metadata.files[i - 1];
 * page counts from 0. */
typedef struct wu_plane {
    uint32_t file, page;
} wu_plane;
#define WU_NO_PAGE UINT32_MAX /* value of wu_plane.page if the plane is missing */

/* A file's metadata about its pages. Decoders and the readers of texts and tags fill it; only
 * wu_picture_choose_pages decides whether it is accepted. Before the decoder's open, all counts are
 * 1. A "text" is a description in the file, such as TIFF's ImageDescription. */
typedef struct wu_metadata {
    const char *by; /* name of the metadata in messages: "its OME-XML". NULL: no metadata */
    uint64_t channels, frames, slices; /* frames: times */
    uint64_t others;  /* product of the lengths of the axes other than x, y, c (channel), t (time)
                         and  z; files in which it exceeds 1 are refused */
    char other[24];   /* the name of one of these other axes */
    uint64_t images;  /* number of planes, if it is recorded in addition to the axes; else 0 */
    uint64_t series;  /* number of pictures (series of OME) of which this file has planes */
    uint64_t nx, ny;  /* size of a plane; 0: not recorded */
    char order[4];    /* order of planes: c, t and z, the fastest-changing axis first */
    double unit_um;   /* unit of the resolution in micrometres, from a text; 0: no text has it */
    double unit_y_um; /* unit of the resolution along y, if it differs; else 0 */
    bool inches;      /* the unit of the resolution is the inch */
    double slope, offset; /* calibration from a text, as in wu_samples */
    bool indices;         /* the indices of a PNG's palette are the samples */
    bool cut;             /* the file says that another page follows, but has none there */
    wu_plane *planes;     /* [c + channels * (z + slices * t)], owned; NULL: in the order `order` */
    size_t n_planes;      /* number of elements of `planes` */
    char **files;         /* [n_files] paths of other files with planes of the picture; owned */
    size_t n_files;
    char refusal[300]; /* why the file cannot be read, and the remedy; "": it can */
} wu_metadata;

/* An open picture. "Set by open" means by the decoder's function open. */
struct wu_picture {
    char *path; /* owned */
    FILE *file; /* at its beginning when open is called */
    const struct wu_picture_decoder *decoder;
    void *state; /* the state of the decoder */
    wu_picture_want want;
    wu_picture_info info;   /* nx, ny are set by open, the rest by wu_picture_set_info */
    wu_samples samples;     /* set by open */
    wu_picture_about about; /* set by open */
    wu_metadata metadata;   /* set by open */
    uint64_t n_pages;       /* set by open: number of all pages of the file, used or not */
    bool ignores_metadata;  /* the file is read as a part of another picture: its metadata are
                               ignored */
    wu_picture *other;      /* the file of metadata.files that is open, or NULL; owned */
    uint32_t other_file;    /* the number of the file `other`, as in wu_plane */
    uint32_t pages_read;    /* number of wanted pages decoded so far */
    unsigned char *encoded; /* the file as a PNG that a work unit can hold, or NULL; owned */
    size_t n_encoded;
    void *raw;              /* buffer for a decoded page that has to be converted; owned */
    bool not_numbers;       /* some samples were NaN */
    bool infinite;          /* some samples that were scaled were infinite */
    uint64_t n_scaled;      /* number of samples that were scaled (want.scaled) */
    uint64_t n_clipped;     /* number of scaled samples whose values were outside [lo, hi] */
    bool alpha_dropped;     /* alpha that was not opaque was dropped */
    bool premultiplied;     /* the colours are multiplied by the dropped alpha */
    bool has_fourth_sample; /* a fourth sample, whose meaning the file does not state, is treated as
                               alpha */
    bool no_end;            /* the file lacks its end marker */
    bool pages_skipped;     /* thumbnails or masks were left out */
    char note[400];         /* the text that wu_picture_note returns, or "" */
};

/* A file format. */
typedef struct wu_picture_decoder {
    const char *name;
    /* Reads the header and sets the fields of wu_picture that are marked "set by open". `close` is
     * also called after a failure. */
    tc_status (*open)(wu_picture *picture, tc_err *err);
    /* Decodes page `page` of the file into nx * ny pixels of samples. Pages are asked for in
     * ascending order, unless metadata.planes has another order. */
    tc_status (*next)(wu_picture *picture, uint64_t page, void *samples, tc_err *err);
    /* Frees state, which may be NULL. */
    void (*close)(wu_picture *picture);
} wu_picture_decoder;

extern const wu_picture_decoder wu_picture_png;
extern const wu_picture_decoder wu_picture_jpeg;
extern const wu_picture_decoder wu_picture_tiff;
extern const wu_picture_decoder wu_picture_nifti;

/* Sets info.nx and info.ny. TC_BAD_INPUT: 0, or beyond the limits. */
tc_status wu_picture_set_size(wu_picture *picture, uint64_t width, uint64_t height, tc_err *err);

/* Opens a file as a part of another picture: its metadata are ignored. */
tc_status wu_picture_open_part(const char *path, const wu_picture_want *want, wu_picture **out,
                               tc_err *err);

/* --- which pages are wanted (picture_pages.c) ------------------------------------------------ */

/* Decides from metadata, want and n_pages which pages are read: sets info.nz, or refuses the file
 * with the remedy. */
tc_status wu_picture_choose_pages(wu_picture *picture, tc_err *err);
/* Pages can be channels, slices or times. If the metadata do not state which, the caller treats the
 * pages as channels if this function returns true: if the user asked for a channel by its number,
 * and a pixel has only one sample. samples: the number of samples per pixel. */
bool wu_pages_are_channels(const wu_picture *picture, unsigned samples);
/* Returns TC_BAD_INPUT: a colour was asked for by name, but the `channels` channels are not red,
 * green and blue. */
tc_status wu_picture_refuse_colour(const wu_picture *picture, uint64_t channels, tc_err *err);
/* The part of a message that explains how to choose one of several channels. */
const char *wu_channel_advice(const wu_picture *picture);
/* Decodes the k-th of the info.nz wanted pages, from this file or another one. */
tc_status wu_picture_decode(wu_picture *picture, uint32_t k, void *samples, tc_err *err);

/* --- conversion to the wanted samples (picture_wanted.c) ------------------------------------- */

/* Chooses pages and channel, and sets picture->info. To be called after the decoder's open. */
tc_status wu_picture_set_info(wu_picture *picture, tc_err *err);
/* Whether decoded pages need no conversion. */
bool wu_picture_is_unconverted(const wu_picture *picture);
/* The size in bytes of a page as the decoder returns it. */
size_t wu_picture_raw_bytes(const wu_picture *picture);
/* Converts a decoded page into one of the type of info. */
tc_status wu_picture_convert(wu_picture *picture, const void *raw, void *pixels, tc_err *err);
/* Returns TC_BAD_INPUT: the samples need a scale. Reads all pages to find the range of their values
 * for the message. */
tc_status wu_picture_refuse_unscaled(wu_picture *picture, tc_err *err);

/* --- size of pixels, orientation, palettes (picture_about.c) --------------------------------- */

/* Returns the length in micrometres of a unit, given by its name of n bytes, or 0 if the unit is
 * unknown or not a length. */
double wu_unit_micrometres(const char *unit, size_t n);
/* Whether the name is that of a unit which is not a length, such as "pixel". */
bool wu_is_nonlength_unit(const char *unit, size_t n);
/* Sets the size of a pixel from a resolution of x and y pixels per `unit_um` micrometres; a unit
 * from a text (metadata.unit_um) replaces unit_um. Does nothing if the size is set already, or if
 * the pixel is so large that the resolution is probably that of a screen, printer or scanner, which
 * is unrelated to what the picture shows. */
void wu_about_set_resolution(wu_picture *picture, double x, double y, double unit_um);
/* Reads the orientation from n bytes of Exif data. */
void wu_about_read_exif(const uint8_t *data, size_t n, wu_picture_about *out);
/* Sets the orientation, if the value is a valid orientation (1 to 8). */
void wu_about_set_orientation(unsigned value, wu_picture_about *out);
/* Rounds the size of a voxel, and sets impossible sizes to 0. To be called when all metadata were
 * read. */
void wu_about_round_sizes(wu_picture_about *out);
/* Whether a palette of n colours is a ramp of one hue: 256 shades from nearly black to a bright
 * colour. Such a palette is only for display, and its indices are the samples. */
bool wu_is_palette_ramp(const uint8_t (*colour)[3], size_t n);

/* --- texts (picture_texts.c, picture_ome.c) -------------------------------------------------- */

/* The pages of a TIFF file, for the readers of texts. */
typedef struct wu_tiff_pages {
    uint64_t n;
    const uint32_t *number; /* [n] index of each page among all pages of the file, including those
                               that are left out */
    unsigned samples;       /* samples per pixel, without alpha */
    unsigned stored;        /* samples per pixel, with alpha */
} wu_tiff_pages;

/* Whether the text is from a program whose palettes (lookup tables) are only for display. */
bool wu_text_has_display_palettes(const char *text);
/* Fills picture->metadata from a description by ImageJ, SCIFIO or tifffile, or in OME-XML; other
 * texts are ignored. Faults of the text go to metadata.refusal; fails only with TC_NO_MEMORY. */
tc_status wu_metadata_from_text(wu_picture *picture, const char *text,
                                const wu_tiff_pages *tiff_pages, tc_err *err);
/* Fills picture->metadata from a description in XML, in the same way. */
tc_status wu_metadata_from_xml(wu_picture *picture, const char *text,
                               const wu_tiff_pages *tiff_pages, tc_err *err);
/* Sets metadata->refusal, unless it is set already. */
TC_FORMAT(2, 3)
void wu_metadata_refuse(wu_metadata *metadata, const char *format, ...);

#endif
