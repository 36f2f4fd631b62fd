/*
 * Functions for files that must survive crashes: locks, so that one process at a time writes, and
 * complete reads and writes.
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

/* Opens `path` for reading and writing, creates it if it does not exist, keeps its content, and
 * locks it until *fd is closed. Rename or remove the file before closing *fd, so that no other
 * process can lock it in between. shown_name: the file's name in messages. TC_TRY_LATER: another
 * process has locked it. TC_IO, TC_DISK: it cannot be opened; a symbolic link is refused. On a file
 * system without locks the file stays unlocked. */
tc_status tc_open_locked(const char *path, const char *shown_name, int *fd, tc_err *err);

/* Returns the status for an errno of opening a file for reading: TC_BAD_INPUT if the name itself is
 * wrong; TC_TRY_LATER for all other errors (no descriptors, no memory, a disk that does not
 * answer), which may be temporary. */
tc_status tc_open_error_status(int error);

/* Returns the status for an errno of writing a file: TC_DISK if the disk is full, over a quota,
 * mounted read-only, or failing, which may end without a change to the file; TC_IO for all other
 * errors. */
tc_status tc_write_error_status(int error);

/* Fails because `path` cannot be opened for writing, or not be written; errno has the reason. The
 * message names `shown_name`, and the folder of `path` if that does not exist. */
tc_status tc_fail_write(const char *path, const char *shown_name, tc_err *err);

/* Opens a regular file for reading, and sets *size to its size in bytes. Other kinds of files are
 * refused, as they could block or have no end. TC_BAD_INPUT: there is no regular file of this name.
 * TC_TRY_LATER: it cannot be opened now, but neither the name nor the file is wrong. */
tc_status tc_open_regular(const char *path, int *fd, uint64_t *size, tc_err *err);

/* Reads n bytes from offset `at`, and sets *n_read to the number of bytes read, which is less than
 * n only if the file ends before. TC_TRY_LATER: the system cannot read the file now; the message
 * names `shown_name`. */
tc_status tc_read_at(int fd, const char *shown_name, uint64_t at, void *data, size_t n,
                     size_t *n_read, tc_err *err);

/* Reads n bytes from offset `at`. Returns false if the file ends before them or cannot be read. */
bool tc_read_all_at(int fd, uint64_t at, void *data, size_t n);

/* Writes n bytes to offset `at`, in as many calls as necessary. Returns false and sets errno if not
 * all bytes could be written. */
bool tc_write_at(int fd, uint64_t at, const void *data, size_t n);

/* From now on tc_write_at also waits until the pieces written earlier are on the disk. On a slow
 * disk each call then takes a short time, and the caller can poll between calls. Otherwise the
 * final fsync would take all of that time at once. */
void tc_enable_write_sync(void);

/* Increments a counter that is stored as the size of a file in bytes: appends one byte and returns
 * the new size, or 1 if that fails. Safe in a signal handler. */
uint64_t tc_increment_file_counter(const char *path);

/* Returns the folder of a path, "." if the path has none; the caller frees it. NULL if there is not
 * enough memory. */
char *tc_folder_of(const char *path);

#if defined(__cplusplus)
}
#endif

#endif
