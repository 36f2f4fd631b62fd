/*
 * texcell-validate: is a result well-formed and of this work unit (check), are
 * two results equal (compare). All input is hostile.
 */
#ifndef VAL_H
#define VAL_H

#include "app/status.h"

/* Whether RESULT is a well-formed result of WORKUNIT: its identity, analysis,
 * parameters, items, the arrays that its analysis gives and nothing else, with
 * values that the analysis allows. TC_BAD_INPUT with the first fault. */
tc_status val_check(const char *workunit, const char *result, tc_err *err);

/* Whether two results have equal content (not: equal bytes of the files).
 * TC_NO_MATCH: they have not; the first differences are printed to stdout,
 * named by array, item and feature. TC_BAD_INPUT: one is not well-formed. */
tc_status val_compare(const char *a, const char *b, tc_err *err);

#endif
