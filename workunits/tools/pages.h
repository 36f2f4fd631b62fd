/*
 * Reads the pages (slices) of an item, or of its mask or labels, one after the other, in the form
 * in which a work unit stores them.
 */
#ifndef WU_PAGES_H
#define WU_PAGES_H

#include "workunits/tools/sources.h"

/* A reader of pages, which are in one file or each in a file of its own. The caller sets the fields
 * up to wants_encoded; the others must be 0. */
typedef struct wu_page_reader {
    wu_source *item;
    wu_kind kind;
    bool quiet;       /* print no notes */
    bool defer_notes; /* print notes when the reader is closed, as it is used in a thread */
    bool survey;      /* add the pixels to item->survey */
    bool defer_grey;  /* do not survey RGB pages of images: the caller surveys their colours,
                         converts them to grey and surveys these */
    bool
        wants_encoded; /* keep the page's file in `encoded`, if a work unit can hold it unchanged */
    char *note;        /* the note to be printed when the reader is closed; owned */
    unsigned char *encoded; /* the last page as a PNG file that a work unit can hold, if its file is
                               such a PNG; else NULL. Owned, unless the caller takes it and sets
                               this field to NULL */
    size_t n_encoded;       /* bytes of `encoded` */
    size_t next_file;       /* index of the file to be opened next */
    wu_picture *picture;    /* the open file, or NULL */
    uint32_t pages_left;    /* number of pages of `picture` that were not read yet */
    bool became_grey;       /* an RGB slice of a stack was converted to grey */
} wu_page_reader;

/* Memory for a page, which grows if necessary. */
typedef struct wu_page_buffer {
    void *data;  /* to be freed by free() */
    size_t size; /* bytes allocated */
} wu_page_buffer;

/* Makes the buffer hold at least `bytes` bytes. Its old content is lost if it has to grow. `what`
 * names the data in the message of TC_NO_MEMORY. */
tc_status wu_page_buffer_reserve(wu_page_buffer *buffer, size_t bytes, const char *what,
                                 tc_err *err);

/* Decodes the next page into the buffer and converts it to what a work unit holds: colours are
 * converted as item->colour says or, if that is NULL, to grey in stacks; masks become 0 and 255;
 * labels stay as they are in the file (labels.h reads them). Sets *info to the size and type of the
 * page (nz is 1). If reader->survey is set, adds the page to the item's survey. Notes about a file
 * are printed to stderr after its last page. */
tc_status wu_page_next(wu_page_reader *reader, wu_page_buffer *buffer, wu_picture_info *info,
                       tc_err *err);
/* Closes the open file and prints the notes that were not printed yet. */
void wu_page_reader_close(wu_page_reader *reader);

/* Returns the number of bits, 8, 10, 12, 14 or 16, of which this is the greatest value, in the low
 * or the high bits of 16; 0 if it is none. */
unsigned wu_bits_of_greatest(uint32_t value);

/* Adds the sums of red, green and blue of RGB pixels to a survey. */
void wu_survey_colours(const uint8_t *data, size_t n_pixels, an_survey *out);
/* Extends the range of grey values of a survey to the grey values of a page of 8 or 16 bits. */
void wu_survey_greys(const void *data, const wu_picture_info *info, an_survey *out);
/* Whether an item's grey values span so few levels that the results depend on single levels; if so,
 * sets `text` to the note to print. For analyses that have no note_survey function. */
bool wu_has_few_greys(const an_survey *survey, char *text, size_t size);
/* Whether nearly all of the signal of a colour picture is in one of red, green and blue, so that
 * the grey value (R+G+B)/3 is only a third of that colour; if so, sets `text` to the note to print.
 */
bool wu_has_one_colour(const an_survey *survey, char *text, size_t size);

/* A function of this type checks an item's survey. It is called when all pages of the item have
 * been read. If it returns TC_BAD_INPUT, its message becomes the fault of the item. If the pointer
 * to the function is NULL, nothing is checked. */
typedef tc_status wu_item_check(void *user, wu_source *item, tc_err *err);

/* Decodes the files of all items that have no fault yet, to find faults that headers do not show.
 * Sets item->fault for these. check: called for each item, with `user`; may be NULL. */
tc_status wu_sources_decode(wu_sources *sources, wu_item_check *check, void *user, tc_err *err);

#endif
