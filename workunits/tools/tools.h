/*
 * texcell-wu: what main.c and the verbs share.
 */
#ifndef WU_TOOLS_H
#define WU_TOOLS_H

#include "app/analysis/analysis.h"
#include "app/base/command.h"
#include "app/base/status.h"

/* The verbs, as tc_verb has them. */
tc_status wu_pack(int argc, char **argv, tc_err *err);
tc_status wu_show(int argc, char **argv, tc_err *err);
tc_status wu_export(int argc, char **argv, tc_err *err);
tc_status wu_report_verb(int argc, char **argv, tc_err *err);
tc_status wu_analyse(int argc, char **argv, tc_err *err);
tc_status wu_parameters(int argc, char **argv, tc_err *err);

/* items.csv and groups.csv of an export with marks, as the page has them; columns: columns.csv. */
tc_status wu_write_marks(const char *result, const char *unit, const char *suggested,
                         const char *folder, bool columns, tc_err *err);

extern const char wu_pack_help[];
extern const char wu_show_help[];
extern const char wu_export_help[];
extern const char wu_report_help[];
extern const char wu_analyse_help[];
extern const char wu_parameters_help[];

/* "texcell-wu: note: ..." on stderr. */
TC_FORMAT(1, 2)
void wu_note(const char *format, ...);
/* "texcell-wu: note: FILE: ..." of one file among many: of each kind of note a few; wu_notes_end
 * tells how many others there were. */
TC_FORMAT(2, 3)
void wu_note_of(const char *path, const char *format, ...);
void wu_notes_end(void);
/* On a terminal, in the last line: "WHAT: 12 of 300", ten times a second at most; nothing when done
 * is n. For loops over many files. */
void wu_progress(const char *what, size_t done, size_t n);

/* For a verb that packs, and goes on with the work unit. */
typedef struct wu_pack_into {
    const tc_option *options; /* besides pack's own */
    bool only_read;           /* the command line, and nothing is done */
    bool keep_unit;           /* it is compressed, as one that goes elsewhere */
    bool grey;                /* else nobody will look at its colours, and it may do without */
    bool for_page;            /* what a page shows of the pictures is kept: */
    struct wu_seen *seen;     /* set: [n_seen], or NULL; wu_seen_free */
    size_t n_seen;
    const char *within; /* a folder in what -o names; NULL: that itself */
    const char *folder; /* set: what -o named, which is there now */
    char *place;        /* set: where the work unit is: folder, or the one within; free */
    char *unit;         /* set: the work unit, such that its result can be looked at; free */
    char colour[160];   /* set: what of colours is analysed, in words, or "" */
    struct an_suggestion
        *suggestion; /* NULL: none is wanted. Set: an_suggestion_free, also after a failure */
} wu_pack_into;
tc_status wu_pack_folder(int argc, char **argv, wu_pack_into *into, tc_err *err);

/* The analysis of a name; TC_USAGE with the list of them if there is none. */
tc_status wu_find_analysis(const char *name, const an_analysis **out, tc_err *err);

#endif
