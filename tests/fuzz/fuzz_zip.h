/*
 * What the targets for ZIP files share: an input as a file without a disk, and
 * a mutator that changes what is inside the members. Plain mutations of the
 * bytes hardly get past the CRCs of ZIP and PNG; they are made as well, one
 * time in three.
 */
#ifndef FUZZ_ZIP_H
#define FUZZ_ZIP_H

#include <stddef.h>
#include <stdint.h>

/* A file that exists in memory only: its path under /proc. */
typedef struct fuzz_file {
    int fd;
    char path[64];
} fuzz_file;

void fuzz_file_open(fuzz_file *file, const uint8_t *data, size_t size);
void fuzz_file_close(fuzz_file *file);

/* A folder in memory, or in /tmp where that has none; it is removed at exit, with all that is in it. */
const char *fuzz_folder(void);

#endif
