/*
 * Reads directories of TIFF files without libtiff, for the private tags of microscopes' software.
 */
#ifndef WU_PICTURE_TAGS_H
#define WU_PICTURE_TAGS_H

#include "workunits/tools/picture_format.h"

/* A directory (the tags of a page) of a file. */
typedef struct wu_tags {
    FILE *file;
    bool big_endian;
    bool big;           /* the file is a BigTIFF */
    uint64_t directory; /* offset of the directory in the file */
} wu_tags;

/* A tag of a directory. */
typedef struct wu_tag {
    unsigned type;  /* the type of the values, as TIFF numbers types (libtiff's TIFF_SHORT, ...) */
    uint64_t count; /* number of values */
    uint64_t at;    /* offset of the values in the file */
} wu_tag;

/* Finds the first directory of a file. Returns false if the file is not a TIFF. */
bool wu_tags_open(FILE *file, wu_tags *out);
/* Finds a tag by its number. Returns false if the directory does not have it, or it has no values.
 */
bool wu_tags_find(const wu_tags *tags, unsigned tag, wu_tag *out);
/* Whether neither the beginning of the directory nor any values of its tags are within the bytes
 * [from, to) of the file. */
bool wu_tags_are_outside(const wu_tags *tags, uint64_t from, uint64_t to);
/* Reads n bytes at the offset `at`. Returns false if the file has fewer. */
bool wu_tags_read(const wu_tags *tags, uint64_t at, void *bytes, size_t n);
/* Reads an unsigned integer of n <= 8 bytes at the offset `at`, in the file's byte order. Returns
 * false if the file has fewer bytes. */
bool wu_tags_number(const wu_tags *tags, uint64_t at, size_t n, uint64_t *value);

/* Sets metadata->refusal if the file is a whole-slide image. To be called before its pages are
 * read, which may be very large. text: the file's description, or NULL. */
void wu_metadata_from_slide(wu_metadata *metadata, const char *text, const wu_tags *tags);
/* Whether the file was written by a microscope's software whose palettes are only for display. */
bool wu_tags_palette_is_display(const wu_tags *tags);
/* Fills picture->metadata from the private tags of the first directory. If a description (a text in
 * the file) has filled it already, only LSM's tags replace it. offsets: [n_pages] the offset of
 * each page's directory. */
tc_status wu_metadata_from_tags(wu_picture *picture, const wu_tags *tags, const uint64_t *offsets,
                                tc_err *err);

#endif
