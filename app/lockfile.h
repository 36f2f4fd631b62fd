/*
 * A file that one process writes at a time.
 */
#ifndef TC_LOCKFILE_H
#define TC_LOCKFILE_H

#include "app/status.h"

/* Opens PATH for reading and writing, made if need be and otherwise as it is,
 * and locks it until *fd is closed. To replace or remove the file without a
 * gap for another process, do so before closing. shown: the file that messages
 * name. TC_TRY_LATER: another process has it locked. TC_IO: it cannot be
 * opened; a link is refused. Where the file system has no locks it does
 * without. */
tc_status tc_open_locked(const char *path, const char *shown, int *fd, tc_err *err);

#endif
