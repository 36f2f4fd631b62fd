/*
 * Limits similar notes about many items: the first notes of each kind are printed one by one, of
 * the others only their number.
 */
#ifndef APP_BASE_NOTES_H
#define APP_BASE_NOTES_H

#include <stdbool.h>
#include <stddef.h>

#include "app/base/status.h"

/* TC_NOTE_KINDS: how many kinds are distinguished; notes of further kinds are all printed.
 * TC_NOTES_TOLD: how many notes of one kind are printed. */
enum { TC_NOTE_KINDS = 24, TC_NOTES_TOLD = 2 };

typedef struct tc_note_kind {
    char text[TC_ERR_MAX]; /* of the first note */
    bool differ;           /* later notes contain other numbers than the first */
    size_t n;              /* notes of this kind so far */
} tc_note_kind;

/* Must be zeroed before the first use. */
typedef struct tc_notes {
    tc_note_kind kinds[TC_NOTE_KINDS];
    size_t n;
} tc_notes;

/* Counts a note and returns whether it is to be printed now. text: the note without the item's
 * name. Notes that differ only in numbers are of one kind. */
bool tc_notes_tells(tc_notes *notes, const char *text);

/* Calls `tell` for each kind of which some notes were not printed: more: how many; differ: whether
 * their numbers differ; text: the first note. Then resets *notes. */
void tc_notes_end(tc_notes *notes,
                  void (*tell)(void *user, size_t more, bool differ, const char *text), void *user);

#endif
