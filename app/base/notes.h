/*
 * Limits the number of similar notes about many items: the first notes of each kind are printed,
 * then only the number of further ones.
 */
#ifndef APP_BASE_NOTES_H
#define APP_BASE_NOTES_H

#include <stdbool.h>
#include <stddef.h>

#include "app/base/status.h"

enum {
    TC_NOTE_KINDS =
        24, /* the most kinds that are counted; all notes of further kinds are printed */
    TC_NOTES_PRINTED = 2 /* the most notes of one kind that are printed */
};

/* A kind of notes: notes that differ at most in numbers. */
typedef struct tc_note_kind {
    char text[TC_ERR_MAX]; /* the first note of this kind */
    bool differ;           /* later notes contain other numbers than the first */
    size_t n;              /* notes of this kind so far */
} tc_note_kind;

/* Must be zeroed before the first use. */
typedef struct tc_notes {
    tc_note_kind kinds[TC_NOTE_KINDS];
    size_t n; /* number of kinds so far */
} tc_notes;

/* Counts a note and returns whether it is to be printed now. text: the note without the item's
 * name. Notes that differ only in numbers are of one kind. */
bool tc_notes_add(tc_notes *notes, const char *text);

/* Calls `print` for each kind of which some notes were not printed, then resets *notes. more: how
 * many notes of the kind were not printed. differ: whether the numbers in any note of the kind
 * differ from those in the first. text: the first note. */
void tc_notes_end(tc_notes *notes,
                  void (*print)(void *user, size_t more, bool differ, const char *text),
                  void *user);

#endif
