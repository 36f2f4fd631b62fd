/*
 * Writes a new file under a temporary name, and renames it when it is complete.
 */
#ifndef WU_NEW_FILE_H
#define WU_NEW_FILE_H

#include <stdbool.h>
#include <stdio.h>

#include "app/base/status.h"

/* A file that is being written under a temporary name. */
typedef struct wu_new_file {
    char *path, *temporary; /* owned */
    FILE *file;             /* the temporary file; NULL if it is not open */
    char *buffer;           /* the buffer of `file`; owned */
    bool synced;            /* set by the caller if the data are already on the disk (fsync) */
} wu_new_file;

/* Checks that writing a file of some kind to `path` does not replace a file of another kind.
 * TC_USAGE: there is a file that is not empty and does not have the text `begins` at byte `at`.
 * kind: what the message calls the file, such as "page". */
tc_status wu_new_file_check_replaceable(const char *path, const char *begins, size_t at,
                                        const char *kind, tc_err *err);
/* Creates PATH.tmp, or empties it if an interrupted process has left it. *out must be closed by
 * wu_new_file_close, also after a failure. TC_TRY_LATER: another process is writing this file. */
tc_status wu_new_file_open(const char *path, wu_new_file *out, tc_err *err);
/* If status is TC_OK, brings the temporary file to the disk (fsync) and renames it to PATH. If
 * status is an error, or if this function fails (for example on a full disk), removes the temporary
 * file. Returns `status`, or the error that occurred here. */
tc_status wu_new_file_close(wu_new_file *out, tc_status status, tc_err *err);

#endif
