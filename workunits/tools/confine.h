/*
 * Gives up the process's rights to other files before untrusted files are read.
 */
#ifndef WU_CONFINE_H
#define WU_CONFINE_H

#include "app/base/status.h"

#include <stddef.h>

/* From now on this process can only read the n inputs (NULL entries are ignored) and write to the
 * output; see os_confine. A folder among the inputs can be read with all that is below it; with a
 * file, the other files of its folder can be read. output: a folder, or a file in whose folder
 * files can be written; NULL: none can. TC_TRY_LATER: the operating system refused. */
tc_status wu_confine(char *const *inputs, size_t n, const char *output, tc_err *err);

#endif
