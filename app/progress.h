/*
 * Shows the progress of a job on stderr: a progress bar on a terminal, and log lines.
 */
#ifndef APP_PROGRESS_H
#define APP_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>

#include "app/base/notes.h"
#include "app/base/status.h"

typedef struct progress {
    bool quiet;    /* print only warnings and errors */
    bool terminal; /* stderr is a terminal: draw the bar */
    size_t n_items;
    double drawn_at;       /* when the bar was last drawn (tc_seconds); 0: never */
    double first_drawn_at; /* when the bar was first drawn */
    double first_fraction; /* the fraction of the job that was done then */
    double reported_at;    /* when progress_reports_item last returned true; 0: never */
    tc_notes notes;        /* notes about items */
} progress;

/* Returns the state at the start of a job. by_client: a BOINC client has started the job and shows
 * its progress, so no bar is drawn. */
progress progress_begin(bool quiet, bool by_client);

/* Draws the bar, at most ten times a second. fraction: of the whole job, in [0, 1]; item, name:
 * index and name of the current item. */
void progress_show(progress *p, double fraction, const char *name, size_t item);

/* Whether to print a line when this item is done. In a job of up to 100 items, a line is printed
 * for each item; in a larger job for the first item, the last item, items that complete a quarter
 * of the job, and otherwise if a minute has passed since the last line. */
bool progress_reports_item(progress *p, size_t item);

/* Prints the line "texcell: WHAT: DETAIL" in place of the bar, even if quiet. */
void progress_print(const progress *p, const char *what, const char *detail);
/* Prints the line "texcell: TEXT" in place of the bar, unless quiet. printf style. */
TC_FORMAT(2, 3)
void progress_note(const progress *p, const char *format, ...);
/* Prints "NAME: note: TEXT" about an item, but only the first notes of each kind;
 * progress_end_notes prints how many others there were (app/base/notes.h). */
void progress_note_item(progress *p, const char *name, const char *text);
void progress_end_notes(progress *p);
/* Erases the bar from the terminal. */
void progress_clear(const progress *p);

#endif
