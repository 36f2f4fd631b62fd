/*
 * Giving up rights before untrusted files are read.
 */
#ifndef WU_CONFINE_H
#define WU_CONFINE_H

#include "app/base/status.h"

#include <stddef.h>

/* From now on this process reads the n inputs (NULL: there is none), folders with all that is below
 * them and the files of a file's folder, and writes into the output's folder, or into the
 * folder that it is (NULL: nowhere): see os_confine. TC_TRY_LATER: that could not be done. */
tc_status wu_confine(char *const *inputs, size_t n, const char *output, tc_err *err);

#endif
