/*
 * Labels of objects, as they come: pictures that go with those of the items, or the label
 * pictures of a result. pack counts them, and writes them as a work unit has them.
 */
#ifndef WU_LABELS_H
#define WU_LABELS_H

#include "workunits/tools/pages.h"

/* Gives the items the labels that `path` has: a file or folder of pictures, found as masks
 * are, or a result, which has labels_<item> for each: of the same file, or else of the same name
 * where the folders that both tell agree, or names are given. They have been read and counted
 * afterwards; what is wrong with one item's is its fault. */
tc_status wu_labels_add(wu_sources *sources, const char *path, bool recursive, tc_err *err);

/* Reads an item's labels slice by slice. A new reader is all zeros but for the item. */
typedef struct wu_label_reader {
    wu_source *item;
    wu_page_reader pages;
    wu_page_buffer page;
    struct wu_result_file *result; /* open, or NULL */
    struct wu_npz_stream *stream;
} wu_label_reader;

/* The next slice, nx * ny of 0 to WU_MAX_LABEL. */
tc_status wu_labels_next(wu_label_reader *reader, uint32_t *labels, tc_err *err);
void wu_labels_close(wu_label_reader *reader);

#endif
