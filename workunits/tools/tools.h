/*
 * Declarations that main.c of texcell-wu and the sources of its verbs (pack, show, ...) share.
 */
#ifndef WU_TOOLS_H
#define WU_TOOLS_H

#include "app/analysis/analysis.h"
#include "app/base/command.h"
#include "app/base/status.h"

/* One function per verb; argv[0] is the verb (see tc_verb in command.h). */
tc_status wu_pack(int argc, char **argv, tc_err *err);
tc_status wu_show(int argc, char **argv, tc_err *err);
tc_status wu_export(int argc, char **argv, tc_err *err);
tc_status wu_report_verb(int argc, char **argv, tc_err *err);
tc_status wu_analyse(int argc, char **argv, tc_err *err);
tc_status wu_parameters(int argc, char **argv, tc_err *err);

/* Writes items.csv and groups.csv with the marks (ok, look, wrong?) that the report's page shows of
 * each image into `folder`; columns: columns.csv is written, too. unit: the work unit's file;
 * suggested: a file of wu_suggest_save, or NULL. */
tc_status wu_write_marks(const char *result, const char *unit, const char *suggested,
                         const char *folder, bool columns, tc_err *err);

/* The text that --help prints for each verb. */
extern const char wu_pack_help[];
extern const char wu_show_help[];
extern const char wu_export_help[];
extern const char wu_report_help[];
extern const char wu_analyse_help[];
extern const char wu_parameters_help[];

/* Prints "texcell-wu: note: ..." to stderr. */
TC_FORMAT(1, 2)
void wu_note(const char *format, ...);
/* Prints "texcell-wu: note: FILE: ..." about one file among many. Of notes that differ only in
 * their numbers the first few are printed; wu_notes_end prints how many more there were. */
TC_FORMAT(2, 3)
void wu_note_of(const char *path, const char *format, ...);
void wu_notes_end(void);
/* For loops over many files: shows "WHAT: 12 of 300" in the last line of a terminal, updated at
 * most ten times a second. Clears that line when done is n. */
void wu_progress(const char *what, size_t done, size_t n);

/* Input and output of wu_pack_folder. Fields marked "out" are set by it. */
typedef struct wu_pack_into {
    const tc_option *options; /* options that are accepted besides those of pack */
    bool only_read;           /* only checks the command line; packs nothing */
    bool keep_unit;           /* compresses the work unit, as for one that is sent elsewhere */
    bool grey;                /* colours may be stored as grey, if the unit is not compressed */
    bool for_page;            /* sets `seen` */
    struct wu_seen *seen;     /* out: [n_seen] pictures for the report's page, or NULL;
                                 wu_seen_free */
    size_t n_seen;            /* out */
    const char *within; /* subfolder of the folder -o to pack into; NULL: that folder itself */
    const char *folder; /* out: the folder that -o names; it exists after success */
    char *place;        /* out: the folder of the work unit: folder, or folder/within; free */
    char *unit;         /* out: path of the work unit; free */
    char colour[160];   /* out: which channel or stain is analysed, in words, or "" */
    struct an_suggestion *suggestion; /* NULL: the parameters are not chosen from the pictures. Else
                                         out: an_suggestion_free, also after a failure */
} wu_pack_into;
/* Runs pack for a verb that goes on to use the work unit (analyse): writes workunit.zip into the
 * folder that -o names. The analysis is asked for the arrays that a page needs, such as labels. */
tc_status wu_pack_folder(int argc, char **argv, wu_pack_into *into, tc_err *err);

/* Finds the analysis of this name. TC_USAGE if there is none: the message lists the names. */
tc_status wu_find_analysis(const char *name, const an_analysis **out, tc_err *err);

#endif
