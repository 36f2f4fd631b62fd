/*
 * What people see of an item: its name, with the letters and digits of its file's that a name
 * cannot have.
 */
#ifndef WU_TITLE_H
#define WU_TITLE_H

#include "workunits/format/job.h"

typedef struct wu_item_title {
    char text[WU_MAX_NAME + 1]; /* UTF-8, as long as the name */
} wu_item_title;

/* source: the item's, or NULL. Fit for the name of a file; items of other names have other titles.
 */
wu_item_title wu_item_title_of(const char *name, const char *source);

#endif
