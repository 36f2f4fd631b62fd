/*
 * A TIFF's directory read by hand, for the tags of microscopes.
 */
#ifndef WU_PICTURE_TAGS_H
#define WU_PICTURE_TAGS_H

#include "workunits/tools/picture_format.h"

/* A directory of a file. */
typedef struct wu_tags {
    FILE *file;
    bool big_endian, big; /* BigTIFF */
    uint64_t directory;   /* where it is */
} wu_tags;

typedef struct wu_tag {
    unsigned type;
    uint64_t count, at; /* where the values are */
} wu_tag;

/* The first directory of a file; false: it is no TIFF. */
bool wu_tags_open(FILE *file, wu_tags *out);
bool wu_tags_find(const wu_tags *tags, unsigned tag, wu_tag *out);
/* Whether the directory and its values are not within [from, to). */
bool wu_tags_are_outside(const wu_tags *tags, uint64_t from, uint64_t to);
bool wu_tags_read(const wu_tags *tags, uint64_t at, void *bytes, size_t n);
/* n bytes, 8 at most, as a number. */
bool wu_tags_number(const wu_tags *tags, uint64_t at, size_t n, uint64_t *value);

/* Refuses a slide, which may be too large or too odd to be looked at page by page. text: its
 * description, or NULL. */
void wu_say_slide(wu_said *said, const char *text, const wu_tags *tags);
/* Whether the file is of a microscope, whose palettes colour. */
bool wu_tags_paint(const wu_tags *tags);
/* Fills picture->said from the tags of the first directory, where no text has; offsets: where the
 * directory of each page is. */
tc_status wu_say_tags(wu_picture *picture, const wu_tags *tags, const uint64_t *offsets,
                      tc_err *err);

#endif
