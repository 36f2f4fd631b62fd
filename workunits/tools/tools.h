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

/* Writes items.csv and groups.csv into `folder`, with the mark (ok, look, wrong?) that the report's
 * page shows for each image. columns: whether to write columns.csv, too. unit: path of the work
 * unit; suggested: path of a file that wu_suggest_save wrote, or NULL. */
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
void wu_print_note(const char *format, ...);
/* Prints "texcell-wu: note: FILE: ..." about one file among many. If many notes differ only in
 * their numbers, only the first few are printed; wu_print_note_counts prints how many more there
 * were. */
TC_FORMAT(2, 3)
void wu_print_note_of_file(const char *path, const char *format, ...);
void wu_print_note_counts(void);
/* For loops over many files: shows "WHAT: 12 of 300" in the last line of a terminal, updated at
 * most ten times a second. Clears the line when done is n. */
void wu_show_progress(const char *what, size_t done, size_t n);

/* Input and output of wu_pack_folder, which sets the fields marked "out". */
typedef struct wu_pack_into {
    const tc_option *options;        /* options that are accepted in addition to those of pack */
    bool only_read;                  /* only check the command line; pack nothing */
    bool keep_unit;                  /* compress the work unit, because the user keeps it */
    bool grey;                       /* store colours as grey, if the unit is not compressed */
    bool for_page;                   /* set `thumbnails` */
    struct wu_thumbnail *thumbnails; /* out: [n_thumbnails] pictures for the report's page, or NULL;
                                        to be freed by wu_thumbnails_free */
    size_t n_thumbnails;             /* out */
    const char *within; /* name of a folder in the folder that -o names: the work unit is packed
                           into it; NULL to pack into the folder that -o names */
    const char *folder; /* out: the folder that -o names; it exists after success */
    char *
        output_folder; /* out: the folder of the work unit: folder, or folder/within; to be freed */
    char *unit;        /* out: path of the work unit; to be freed */
    char colour[160];  /* out: which channel or stain is analysed, in words, or "" */
    struct an_suggestion *suggestion; /* out: the parameters that the analysis suggests, to be freed
                                         by an_suggestion_free, also after a failure; NULL if the
                                         analysis is not to suggest any */
} wu_pack_into;
/* Runs pack for the verb analyse, which then computes the work unit. Writes workunit.zip into the
 * folder that -o names. Also sets the parameters by which the result gets the arrays that a page
 * needs, such as labels. */
tc_status wu_pack_folder(int argc, char **argv, wu_pack_into *into, tc_err *err);

/* Finds the analysis of this name. TC_USAGE if there is none: the message lists the names. */
tc_status wu_find_analysis(const char *name, const an_analysis **out, tc_err *err);

#endif
