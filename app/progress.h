/*
 * What a person sees of a job under way: a bar on a terminal, lines in a file.
 */
#ifndef APP_PROGRESS_H
#define APP_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>

#include "app/base/notes.h"
#include "app/base/status.h"

typedef struct progress {
    bool quiet;    /* only warnings and errors */
    bool terminal; /* stderr is one: draw the bar */
    size_t n_items;
    double shown;       /* time of the last drawing; 0: none */
    double start, from; /* time and share of the work at the first */
    double reported_at; /* time of the last line on an item; 0: none */
    tc_notes notes;     /* of items */
} progress;

/* by_client: a client has started the job and shows how far it is. */
progress progress_begin(bool quiet, bool by_client);

/* Draws the bar, ten times a second at most. fraction: of the whole job, in [0, 1]; item: the
 * index of the one that is worked on, name: its name. */
void progress_show(progress *p, double fraction, const char *name, size_t item);

/* Whether a line is to tell that this item is done: of a hundred items each; of more one a quarter
 * of them and one a minute, the first and the last. */
bool progress_tells(progress *p, size_t item);

/* A line, in place of the bar: "texcell: WHAT: DETAIL". */
void progress_say(const progress *p, const char *what, const char *detail);
/* The same where not even the bar was wanted, unless quiet. printf style. */
TC_FORMAT(2, 3)
void progress_note(const progress *p, const char *format, ...);
/* "NAME: note: TEXT", of each kind of note a few; progress_end_notes tells how many others there
 * were. */
void progress_note_item(progress *p, const char *name, const char *text);
void progress_end_notes(progress *p);
/* Takes the bar away. */
void progress_clear(const progress *p);

#endif
