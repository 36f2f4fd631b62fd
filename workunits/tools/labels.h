/*
 * Reads the labels of objects that --labels gives to pack: a label picture for each item, or the
 * label pictures of a result (RESULT.npz). A label is the number of the object that a pixel belongs
 * to, 0 for none.
 */
#ifndef WU_LABELS_H
#define WU_LABELS_H

#include "workunits/tools/pages.h"

/* Finds the labels of each item in `path`, and counts their objects. path: a file or folder of
 * pictures, which are found by their names like masks; or a result. In a result, an item's labels
 * are the array labels_<item> of the result's item that was made from the same file. If there is no
 * such item, the result's item that has the same name is used, if it comes from folders of the same
 * names. With --names the name alone decides. An error in the labels of one item becomes the item's
 * fault. */
tc_status wu_labels_find(wu_sources *sources, const char *path, bool recursive, tc_err *err);

/* Reads an item's labels slice by slice. A new reader is all zeros except `item`. */
typedef struct wu_label_reader {
    wu_source *item;
    wu_page_reader pages;          /* reads label pictures */
    wu_page_buffer page;           /* the page read last, if its samples do not have 32 bits */
    struct wu_result_file *result; /* the open result, or NULL */
    struct wu_npz_stream *stream;  /* reads the result's array with the item's labels */
} wu_label_reader;

/* Reads the next slice into labels[ny][nx]. TC_BAD_INPUT: a label is larger than WU_MAX_LABEL. */
tc_status wu_labels_read_slice(wu_label_reader *reader, uint32_t *labels, tc_err *err);
void wu_labels_close(wu_label_reader *reader);

#endif
