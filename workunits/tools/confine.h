/*
 * Drops the process's rights to other files before untrusted files are read.
 */
#ifndef WU_CONFINE_H
#define WU_CONFINE_H

#include "app/base/status.h"

#include <stddef.h>

/* Restricts this process to reading the n inputs (NULL entries are ignored) and writing to the
 * output (os_confine). If an input is a folder, everything below it can be read. If an input is a
 * file, the other files in its folder can be read, too. output: a folder in which files can be
 * written, or a file in such a folder; NULL if the process writes no file. TC_TRY_LATER: the
 * operating system refused. */
tc_status wu_confine(char *const *inputs, size_t n, const char *output, tc_err *err);

#endif
