/*
 * For targets that read ZIP files: the input as a file, and a mutator that changes the contents of
 * members. Plain mutations hardly get past the CRCs of ZIP and PNG; one in three mutations is a
 * plain one.
 */
#ifndef FUZZ_ZIP_H
#define FUZZ_ZIP_H

#include <stddef.h>
#include <stdint.h>

/* Makes the input a file; returns its name, valid until the next call. fuzz_file: a file in memory
 * (files_input); fuzz_system_file: a name under /proc, which libraries can open, too. A target that
 * calls one of them is linked with the mutator. */
const char *fuzz_file(const uint8_t *data, size_t size);
const char *fuzz_system_file(const uint8_t *data, size_t size);

/* Makes a folder in memory, or in /tmp if there is none; it is removed at exit with all its files.
 */
const char *fuzz_folder(void);

#endif
