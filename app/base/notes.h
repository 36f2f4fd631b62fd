/*
 * Notes of many items, told by kind: the first few by themselves, of the others how many there are.
 */
#ifndef APP_BASE_NOTES_H
#define APP_BASE_NOTES_H

#include <stdbool.h>
#include <stddef.h>

#include "app/base/status.h"

enum { TC_NOTE_KINDS = 24, TC_NOTES_TOLD = 2 };

typedef struct tc_note_kind {
    char text[TC_ERR_MAX]; /* of the first */
    bool differ;           /* others have other numbers */
    size_t n;
} tc_note_kind;

/* All 0 to begin with. */
typedef struct tc_notes {
    tc_note_kind kinds[TC_NOTE_KINDS];
    size_t n;
} tc_notes;

/* Whether this note, which names no item, is to be told now. Notes that differ in numbers alone are
 * of one kind. */
bool tc_notes_tells(tc_notes *notes, const char *text);

/* Tells of each kind how many were not, with the first one's text and whether the numbers differ,
 * and forgets all. */
void tc_notes_end(tc_notes *notes,
                  void (*tell)(void *user, size_t more, bool differ, const char *text), void *user);

#endif
