/*
 * Writing a table as CSV (RFC 4180: commas, quotes doubled), with '\n'.
 */
#ifndef WU_CSV_H
#define WU_CSV_H

#include <stdbool.h>

#include "app/base/status.h"
#include "workunits/format/new_file.h"
#include "workunits/format/result_file.h"

typedef struct wu_csv {
    wu_new_file out;
    bool line_begun;
} wu_csv;

/* Begins folder/NAME.csv. wu_csv_close also after a failure. */
tc_status wu_csv_open(const char *folder, const char *name, wu_csv *out, tc_err *err);
/* The next cell of the line. Text that a spreadsheet would take for a formula gets an
 * apostrophe in front; a value that is a number is written as it is. */
void wu_csv_put(wu_csv *csv, const char *text);
void wu_csv_put_value(wu_csv *csv, const wu_array_info *info, const void *data);
/* Ends the line; a full disk ends the export here rather than at the end. */
tc_status wu_csv_end_line(wu_csv *csv, tc_err *err);
/* Completes the file, or after a failure (`status`) removes it. Gives `status`,
 * or what went wrong here. */
tc_status wu_csv_close(wu_csv *csv, tc_status status, tc_err *err);

/* Makes the folder unless it is there. */
tc_status wu_make_folder(const char *folder, tc_err *err);
/* folder/name + end; the caller's (free()). NULL: no memory. */
char *wu_path_in(const char *folder, const char *name, const char *end);

#endif
