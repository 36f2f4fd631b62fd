/*
 * What files that must survive need: one writer at a time, and names that last.
 */
#ifndef TC_FILES_H
#define TC_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/base/status.h"

#if defined(__cplusplus)
extern "C" {
#endif

/* Opens PATH for reading and writing, made if need be and otherwise as it is,
 * and locks it until *fd is closed. To replace or remove the file without a
 * gap for another process, do so before closing. shown: the file that messages
 * name. TC_TRY_LATER: another process has it locked. TC_IO, TC_DISK: it cannot
 * be opened; a link is refused. Where the file system has no locks it does
 * without. */
tc_status tc_open_locked(const char *path, const char *shown, int *fd, tc_err *err);

/* What an errno of opening a file is: TC_BAD_INPUT where the name itself is to blame. All
 * else (no descriptors, no memory, a disk that does not answer) may be mended in a minute:
 * TC_TRY_LATER. */
tc_status tc_open_fault(int error);

/* What an errno of writing is. TC_DISK: full, over a quota, mounted read-only, or failing, which
 * may pass without anything being done to the file. TC_IO: all else. */
tc_status tc_write_fault(int error);

/* Opens a regular file for reading; anything else could block or have no end.
 * TC_BAD_INPUT: there is none of this name. TC_TRY_LATER: it is no fault of the
 * name or of the file that it cannot be opened now. */
tc_status tc_open_regular(const char *path, int *fd, uint64_t *size, tc_err *err);

/* Reads from offset `at` on; *got is less than n only where the file ends.
 * TC_TRY_LATER, naming `shown`: the system cannot read it now. */
tc_status tc_read_at(int fd, const char *shown, uint64_t at, void *data, size_t n, size_t *got,
                     tc_err *err);

/* Whether all n bytes from offset `at` on are there, and could be read. */
bool tc_read_all_at(int fd, uint64_t at, void *data, size_t n);

/* Writes all n bytes from offset `at` on, however many calls it takes; errno
 * says why not. */
bool tc_write_at(int fd, uint64_t at, const void *data, size_t n);

/* From now on tc_write_at waits for a slow disk, piece by piece, not one fsync for all of them: who
 * writes asks between the pieces whether to go on. */
void tc_write_out_at_once(void);

/* Counts by a file of as many bytes: puts one more there, and answers how many there are, or 1
 * where that fails. Safe in a signal handler. */
uint64_t tc_count_in_file(const char *path);

/* The folder that a path lies in, "." where it names none; the caller frees. NULL: no memory. */
char *tc_folder_of(const char *path);

#if defined(__cplusplus)
}
#endif

#endif
