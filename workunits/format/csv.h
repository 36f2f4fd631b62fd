/*
 * Writes a table as CSV as RFC 4180 defines it (cells separated by commas, quotation marks
 * doubled), but with lines that end with '\n'.
 */
#ifndef WU_CSV_H
#define WU_CSV_H

#include <stdbool.h>

#include "app/base/status.h"
#include "workunits/format/new_file.h"
#include "workunits/format/result_file.h"

/* A CSV file that is being written. */
typedef struct wu_csv {
    wu_new_file out;
    bool line_begun; /* the current line has a cell already */
    int error;       /* errno of the first write that failed; 0 if none has */
    size_t n;        /* bytes of `waiting`, which are not yet written to the file */
    char waiting[2 * WU_CELL_MAX];
} wu_csv;

/* Begins the file folder/NAME.csv. *out must be closed by wu_csv_close, also after a failure. */
tc_status wu_csv_open(const char *folder, const char *name, wu_csv *out, tc_err *err);
/* Writes the next cell of the line. An apostrophe is put before text that a spreadsheet program
 * would treat as a formula. */
void wu_csv_put_cell(wu_csv *csv, const char *text);
/* Writes the next cell: an element of an array. Numbers get no apostrophe. */
void wu_csv_put_value(wu_csv *csv, const wu_array_info *info, const void *data);
/* Ends the line. TC_IO: writing has failed, for example on a full disk; the export can then end
 * early. */
tc_status wu_csv_end_line(wu_csv *csv, tc_err *err);
/* Completes the file if status is TC_OK, otherwise removes it. Returns `status`, or the error that
 * occurred here. */
tc_status wu_csv_close(wu_csv *csv, tc_status status, tc_err *err);

/* Makes the folder unless it exists. TC_IO: it cannot be made. */
tc_status wu_make_folder(const char *folder, tc_err *err);
/* Returns the path "folder/name" followed by `end`, to be freed by the caller, or NULL if there is
 * no memory. */
char *wu_join_path(const char *folder, const char *name, const char *end);

#endif
