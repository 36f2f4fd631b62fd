/*
 * texcell-validate: is a result well-formed and of this work unit (check), are
 * two results equal (compare). All input is hostile.
 */
#ifndef VAL_H
#define VAL_H

#include "app/analysis/analysis.h"

/* Whether `result` is a well-formed result of the work unit: its identity, analysis,
 * parameters, items, the arrays that its analysis gives and nothing else, with
 * values that the analysis allows. TC_BAD_INPUT with the first fault. */
tc_status val_check(const an_unit *unit, const char *result, tc_err *err);

/* Whether two results have equal content (not: equal bytes of the files).
 * TC_NO_MATCH: they have not; the first differences are printed to stdout,
 * named by array, item and feature. TC_BAD_INPUT: one is not well-formed. */
tc_status val_compare(const char *a, const char *b, tc_err *err);

/* The same as scripts of BOINC's script_validator. TC_TRY_LATER for what is no
 * fault of the computer that sent the file: it cannot be read now, or its work
 * unit is not found. `workunits` is the folder of the work units, with or
 * without BOINC's fan-out; the name of the upload tells which one it is. */
tc_status val_script_init(const char *workunits, const char *result, tc_err *err);
tc_status val_script_compare(const char *a, const char *b, tc_err *err);

/* What the two scripts and the assimilator's share. Reads a file to its end:
 * TC_TRY_LATER if the server cannot, TC_BAD_INPUT if it is not there. */
tc_status val_try_reading(const char *path, tc_err *err);
/* Length of the work unit's name in the name of an upload, WORKUNIT_0_r123_0;
 * 0: it is not such a name. */
size_t val_workunit_length(const char *name);
/* Looks for the work unit of an upload. *path is the caller's. TC_TRY_LATER:
 * it is not there. */
tc_status val_find_workunit(const char *folder, const char *result, char **path, tc_err *err);

#endif
