/*
 * Files in this process' memory, under names in FILES_FOLDER: the kernel's take half of a reader's
 * time. What texcell and the targets open by such a name is one of them (the linker puts these
 * functions in the calls' place, targets.mk); any other name and descriptor is the system's, and so
 * are those that a library opens.
 */
#ifndef FUZZ_FILES_H
#define FUZZ_FILES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define FILES_FOLDER "/fuzz"

/* The input as a file, which cannot be written to, until the next call: its name. The bytes stay
 * the caller's. */
const char *files_input(const uint8_t *data, size_t size);

/* A file with a copy of these bytes, in place of what had the name. */
void files_put(const char *path, const uint8_t *data, size_t size);

/* As the calls of these names. */
int files_open(const char *path, int flags, int permissions);
ssize_t files_pread(int fd, void *p, size_t n, off_t at);
ssize_t files_pwrite(int fd, const void *p, size_t n, off_t at);
int files_ftruncate(int fd, off_t n);
int files_fsync(int fd);
int files_rename(const char *from, const char *to);

#endif
