/*
 * Makes the title by which an item is shown to people. The title is the item's name, but with the
 * letters and digits of its file's name that a name cannot contain, such as letters with accents.
 */
#ifndef WU_TITLE_H
#define WU_TITLE_H

#include "workunits/format/job.h"

/* The title of an item. */
typedef struct wu_item_title {
    char text[WU_MAX_NAME + 1]; /* UTF-8, with as many bytes as the name */
} wu_item_title;

/* Returns the title of the item `name`. source: the item's source (wu_item.source), or NULL. A
 * title can be used as a part of a file's name. Different names give different titles. */
wu_item_title wu_item_title_of(const char *name, const char *source);

#endif
