/*
 * Files in the memory of the process, with names in FILES_FOLDER: files of the kernel would take
 * half of a reader's time. Calls of texcell and the targets with such a name, or a descriptor of
 * such a file, come here (the linker replaces the calls, targets.mk). Other names and descriptors,
 * and calls of libraries, go to the system.
 */
#ifndef FUZZ_FILES_H
#define FUZZ_FILES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define FILES_FOLDER "/fuzz"

/* Makes the input a read-only file. Returns its name, which is valid until the next call. The bytes
 * still belong to the caller. */
const char *files_input(const uint8_t *data, size_t size);

/* Makes a file with a copy of these bytes, and replaces a file with the same name. */
void files_put(const char *path, const uint8_t *data, size_t size);

/* Like the system calls of these names. */
int files_open(const char *path, int flags, int permissions);
ssize_t files_pread(int fd, void *p, size_t n, off_t at);
ssize_t files_pwrite(int fd, const void *p, size_t n, off_t at);
int files_ftruncate(int fd, off_t n);
int files_fsync(int fd);
int files_rename(const char *from, const char *to);

#endif
