/*
 * What the targets for ZIP files share: an input as a file, and a mutator that changes what is
 * inside the members. Plain mutations of the bytes hardly get past the CRCs of ZIP and PNG; they
 * are made as well, one time in three.
 */
#ifndef FUZZ_ZIP_H
#define FUZZ_ZIP_H

#include <stddef.h>
#include <stdint.h>

/* The input as a file until the next call: its name, as files_input() gives it, or one under /proc
 * that libraries can open as well. Whoever calls these is linked with the mutator. */
const char *fuzz_file(const uint8_t *data, size_t size);
const char *fuzz_system_file(const uint8_t *data, size_t size);

/* A folder in memory, or in /tmp where that has none; it is removed at exit, with all that is in
 * it. */
const char *fuzz_folder(void);

#endif
