/*
 * For tests: OpenCL calls that fail on demand.
 *
 *   TEXCELL_TEST_CL_FAIL=N     the N-th call that can fail does so (from 1)
 *   TEXCELL_TEST_CL_FAIL=N+    that one and every later one, as if the device
 *                              had been lost
 *   TEXCELL_TEST_CL_COUNT=FILE written at exit: how many calls there were, and
 *                              how many objects were made but not released
 *
 *   TEXCELL_TEST_CL_MEMORY=N   the program's share of the device is N bytes at
 *                              the most, to see what it does on a small one
 *
 * Calls that can fail are all but the releases, counted over the process in the
 * order they are made. A call made to fail is not passed on. The error is
 * CL_MEM_OBJECT_ALLOCATION_FAILURE where memory is created,
 * CL_BUILD_PROGRAM_FAILURE for a build and CL_OUT_OF_RESOURCES elsewhere.
 *
 * The shim is always compiled in, so that tests exercise the very executable
 * that is shipped; without these variables it does nothing.
 */
#ifndef OCL_FAULT_H
#define OCL_FAULT_H

#include "opencl/loader.h"

/* Puts the shim between the program and *api if the environment asks for it.
 * TC_USAGE: the variable's value is not a number. */
tc_status ocl_fault_install(ocl_api *api, tc_err *err);

/* The share of a device's memory that is to be used, given what would be. */
uint64_t ocl_fault_memory(uint64_t bytes);

#endif
