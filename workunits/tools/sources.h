/*
 * Turns the files and folders named on the command line of pack into the items of a work unit:
 * which files belong to which item, in which order, under which name, with which mask and labels,
 * and whether their sizes and types agree.
 */
#ifndef WU_SOURCES_H
#define WU_SOURCES_H

#include <stdbool.h>

#include "app/analysis/analysis.h"
#include "workunits/tools/colour.h"
#include "workunits/tools/picture.h"

/* The files with the pages of an item, of its mask or its labels: one file with all of them, or one
 * file per page. Also used as a plain list of paths. */
typedef struct wu_page_files {
    size_t n_files;
    char **files;           /* paths, z ascending; owned */
    wu_picture_info info;   /* of all files together: nz counts all pages, channels is the greatest
                               number of any page */
    wu_picture_about about; /* metadata of the first file */
    wu_picture_want want;   /* how the files are read */
} wu_page_files;

/* An item of the work unit to be written. Its strings are owned. */
typedef struct wu_source {
    char *name;     /* the item's name: unique, wu_is_item_name */
    char *raw_name; /* the text from which `name` is made; NULL if it is the name of `path` */
    char *path;     /* path of the picture, or of the folder with the slices */
    char *source;   /* the path that the work unit records: `path`, beginning with the name of the
                       innermost folder that contains all items */
    char *base; /* the item's path within the input folder, without extension: the files of masks
                   and labels are found by it */
    bool is_stack, is_folder; /* is_folder: `path` is a folder, and each slice is a file in it */
    double um[3]; /* size of a voxel (z, y, x) in micrometres. um[2] is 0 if the size is not known,
                     um[0] is 0 if the item is not a stack */
    wu_page_files pages;
    wu_page_files mask;      /* n_files is 0 if the item has no mask */
    const wu_colour *colour; /* how to convert colours to grey (not owned); NULL to keep colours */
    an_survey survey;        /* the survey of the item's pixels, set once they were read */
    wu_page_files labels;    /* n_files is 0 if the item has no labels */
    long labels_array; /* index of the array with the labels if labels.files[0] is a result; -1
                          if the labels are pictures */
    uint32_t n_objects, largest_label; /* number of different labels besides 0; the largest one */
    uint32_t *kept_labels; /* [ny][nx] labels of the only slice, kept from counting to writing;
                              owned. NULL if the files are to be read again */
    char *fault;           /* a message why the item cannot be used; owned. NULL if there is none */
} wu_source;

/* The items found. max_pixels, want, names and output must be set before wu_sources_find is called.
 */
typedef struct wu_sources {
    size_t n;
    size_t n_left_out;    /* number of items with a fault that wu_sources_drop_faulty moved to
                             items[n] and following */
    wu_source *items;     /* owned */
    uint64_t max_pixels;  /* an item whose header declares more pixels gets a fault; 0 if only the
                             limit of work units applies */
    wu_picture_want want; /* how pictures are read */
    const char *names;    /* path of the file given to --names; NULL to use the names of files */
    const char *output;   /* the folder into which analyse writes, which must be none of the folders
                             whose pictures are read; or NULL */
    char *masks_in;       /* the first input folder in which files named like masks or label
                             pictures were left out; owned, or NULL */
} wu_sources;

/* Finds the items. Each picture in a folder becomes an item. With `stacks`, the pictures in a
 * folder are the slices of one item, in natural order (slice2 before slice10), or of several items
 * if the names show several series (a_1, a_2, b_1, b_2). With `recursive`, the folders in a folder
 * are searched, too. A file of several pages is a stack. Each time in a file of several times
 * becomes an item; but with `stacks`, if each time has one page, these pages are the slices of one
 * stack. `mask` is NULL, a picture (for one input), or a folder that has, for each item, a picture
 * or a folder of slices of the same name. The header of every file is read and checked. An error in
 * an item's own files is kept as the item's fault and does not end the search. Call wu_sources_free
 * on success and failure. */
tc_status wu_sources_find(char **inputs, size_t n_inputs, bool stacks, bool recursive,
                          const char *mask, wu_sources *out, tc_err *err);
void wu_sources_free(wu_sources *sources);
/* Finds the masks or the label pictures (kind) of all items by their names. path: a file, or the
 * folder that contains them. */
tc_status wu_sources_add_matching(wu_sources *all, const char *path, wu_kind kind, bool recursive,
                                  tc_err *err);
/* The item's pages, mask or labels, depending on kind. */
wu_page_files *wu_page_files_of(wu_source *item, wu_kind kind);
/* Appends a copy of the path to pages->files. */
tc_status wu_page_files_add(wu_page_files *pages, const char *path, tc_err *err);
/* If status is TC_BAD_INPUT: makes the message in err the item's fault, and returns TC_OK. Else
 * returns status. */
tc_status wu_source_keep_fault(wu_source *item, tc_status status, tc_err *err);
/* Returns the absolute path in the form in which work units record sources (separator '/', no "."
 * and
 * ".."), so that it ends with the item's source. follow: whether to resolve symbolic links. Owned
 * by the caller; NULL if there is no memory. */
char *wu_recorded_path(const char *path, bool follow);
/* Moves the items that have a fault to the end of the list, and adds their number to n_left_out
 * instead of n. */
void wu_sources_drop_faulty(wu_sources *sources);

/* Compares names by the values of the numbers in them: "a2" is less than "a10". Returns <0, 0 or >0
 * as strcmp does, and 0 only for equal strings. */
int wu_natural_compare(const char *a, const char *b);

#endif
