/*
 * From what a person names on the command line to the items of a work unit:
 * which files belong to which item, in which order, under which name, with
 * which mask and labels, and whether they fit together.
 */
#ifndef WU_SOURCES_H
#define WU_SOURCES_H

#include <stdbool.h>

#include "app/analysis/analysis.h"
#include "workunits/tools/colour.h"
#include "workunits/tools/picture.h"

/* The pages of an item, or of its mask: one file with all of them, or one file
 * for each. */
typedef struct wu_pages {
    size_t n_files;
    char **files;           /* paths, z ascending */
    wu_picture_info info;   /* nz: all pages; channels: the most of any page */
    wu_picture_about about; /* of the first file */
    wu_picture_want want;   /* how the files are read */
} wu_pages;

typedef struct wu_source {
    char *name;   /* of the item: unique, wu_name_ok */
    char *called; /* what the name comes from, where that is not the path; NULL: it is */
    char *path;   /* the picture's, or that of the folder with the slices */
    char *source; /* the same for the work unit: from the last folder on that all items are in */
    char *base;   /* the path within the input, without extension: finds the mask */
    bool is_stack, is_folder;
    double um[3]; /* z, y, x of a voxel in micrometres; x 0: not known, z 0: a picture */
    wu_pages pages;
    wu_pages mask;           /* n_files 0: none */
    const wu_colour *colour; /* what colours become (not owned); NULL: they stay */
    an_survey survey;        /* of its pixels, once they were read */
    wu_pages labels;         /* n_files 0: none */
    long labels_array; /* the only file is a result, and this its array; -1: they are pictures */
    uint32_t n_objects, largest_label;
    uint32_t *kept_labels; /* of the only slice, once counted; owned; NULL: they are read again */
    char *fault;           /* why it cannot be used; owned. NULL: it can, as far as is known */
} wu_source;

typedef struct wu_sources {
    size_t n;
    size_t n_left_out; /* behind the n items: those with a fault that were set aside */
    wu_source *items;
    uint64_t max_pixels;  /* of an item, from its header; what has more has a fault. 0: any that a
                             work unit takes */
    wu_picture_want want; /* how pictures are read */
    const char *names;    /* a file of their names; NULL: they are called as their files are */
    char *masks_in; /* a folder with masks or label pictures next to pictures; owned, or NULL */
} wu_sources;

/* Finds the items; out->max_pixels, out->want and out->names are said before. A folder gives an
 * item for each picture in it, or with `stacks` one item whose slices are the pictures in it in
 * natural order (slice2 before slice10), or where they are of several series (a_1, a_2, b_1, b_2)
 * one for each; with `recursive` so do the folders in it. A file of several pages is a stack; of
 * several times it gives an item for each, unless `stacks` says that each has one page and all are
 * slices. `mask` is NULL, a picture (for one input) or a folder with a picture, or a folder of
 * slices, of the same name for each item. The header of every file has been read and checked
 * afterwards; what is wrong with an item's own files is its fault, so that all are found. Call
 * wu_sources_free on success and failure. */
tc_status wu_sources_find(char **inputs, size_t n_inputs, bool stacks, bool recursive,
                          const char *mask, wu_sources *out, tc_err *err);
void wu_sources_free(wu_sources *sources);
/* Finds what goes with each item and is called like it: its mask, or its label pictures. */
tc_status wu_sources_add_matching(wu_sources *all, const char *path, wu_kind kind, bool recursive,
                                  tc_err *err);
wu_pages *wu_pages_of(wu_source *item, wu_kind kind);
/* Appends a copy of the path. */
tc_status wu_pages_add(wu_pages *pages, const char *path, tc_err *err);
/* Makes TC_BAD_INPUT the item's fault; gives TC_OK then, and any other status as it is. */
tc_status wu_source_keep_fault(wu_source *item, tc_status status, tc_err *err);
/* The path from the root on, as sources are written: what they end with. follow: behind links. The
 * caller's; NULL: no memory. */
char *wu_plain_full_path(const char *path, bool follow);
/* Sets the items with a fault aside. */
void wu_sources_leave_out(wu_sources *sources);

/* Order by value of the numbers in the names; total, so that no two different
 * names are equal. <0, 0, >0 as strcmp. */
int wu_natural_compare(const char *a, const char *b);

#endif
