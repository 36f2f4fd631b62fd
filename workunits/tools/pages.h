/*
 * The pages of an item as a work unit holds them, read one after the other.
 */
#ifndef WU_PAGES_H
#define WU_PAGES_H

#include "workunits/tools/sources.h"

/* Reads the pages of an item, of its mask or its labels, whatever files they are in. */
typedef struct wu_page_reader {
    wu_source *item;
    wu_kind kind;
    bool quiet;             /* no notes */
    bool aside;             /* on a thread of its own: a note waits until it is closed */
    char *note;             /* that waits; owned */
    bool surveyed;          /* the item's survey is asked for, */
    bool grey_later;        /* but of colours that become grey without their greys */
    bool as_it_is;          /* pages of which `encoded` is of use */
    unsigned char *encoded; /* the page as a PNG of a work unit, if it is that and want.as_it_is;
                               owned until it is taken */
    size_t n_encoded, next_file;
    wu_picture *picture; /* open file, or NULL */
    uint32_t left;       /* pages not yet read of it */
    bool became_grey;    /* a colour slice */
} wu_page_reader;

typedef struct wu_page_buffer {
    void *data; /* grown as needed; free() */
    size_t size;
} wu_page_buffer;

/* Room for so many bytes; what was in it is gone where it had less. `what` stands in a message. */
tc_status wu_page_room(wu_page_buffer *buffer, size_t bytes, const char *what, tc_err *err);

/* Decodes the next page into the buffer and makes it what a work unit holds: colours become
 * what the item's colour says, else colour slices grey, masks 0 and 255; labels are as they are in
 * the file (labels.h). *info tells what it is (nz is 1). Adds it to the item's survey, if asked
 * for. Notes about a file go to stderr after its last page. */
tc_status wu_page_next(wu_page_reader *reader, wu_page_buffer *buffer, wu_picture_info *info,
                       tc_err *err);
/* Closes what is open, and tells of colour slices. */
void wu_page_reader_close(wu_page_reader *reader);

/* Adds the greys of a page to a survey. */
void wu_survey_greys(const void *data, const wu_picture_info *info, an_survey *out);
/* What is to be said of an item for which its analysis has no such rule of its own: its greys are
 * so few that what is found depends on them. False: nothing. */
bool wu_few_greys(const an_survey *survey, char *text, size_t size);
/* Of colours of which only one is there, which are a third of it as grey: says so. */
bool wu_one_colour(const an_survey *survey, char *text, size_t size);

/* Whether an item's pixels suit by their survey, once all of its pages were read; TC_BAD_INPUT is
 * its fault. NULL: nobody asks. */
typedef tc_status wu_item_check(void *user, wu_source *item, tc_err *err);

/* Decodes all files of the items without a fault, for faults that no header shows. */
tc_status wu_sources_decode(wu_sources *sources, wu_item_check *check, void *user, tc_err *err);

#endif
