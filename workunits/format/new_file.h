/*
 * Writing a file that is whole, or is not there under its name.
 */
#ifndef WU_NEW_FILE_H
#define WU_NEW_FILE_H

#include <stdbool.h>
#include <stdio.h>

#include "app/base/status.h"

typedef struct wu_new_file {
    char *path, *temporary; /* owned */
    FILE *file;             /* NULL: none is open */
    char *buffer;           /* of the file; owned */
    bool synced;            /* all of it is on the disk already */
} wu_new_file;

/* TC_USAGE: there is a file PATH that is none of its kind, and is not to be replaced: it has
 * something in it, but not `begins` at this byte. kind: "page". */
tc_status wu_new_file_replaces(const char *path, const char *begins, size_t at, const char *kind,
                               tc_err *err);
/* Begins PATH.tmp, or what somebody who was killed left of it anew. wu_new_file_close also after a
 * failure. TC_TRY_LATER: another process is at it. */
tc_status wu_new_file_open(const char *path, wu_new_file *out, tc_err *err);
/* Gives the file its name, all of its bytes on the disk; or after a failure, earlier (`status`) or
 * here, removes it. Gives `status`, or what went wrong here: a full disk is found here at the
 * latest. */
tc_status wu_new_file_close(wu_new_file *out, tc_status status, tc_err *err);

#endif
