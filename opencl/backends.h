/*
 * The OpenCL backends of the analyses, by name. They are not in the table of analyses
 * (an_analyses), so that programs which only compute on the CPU are linked without OpenCL.
 */
#ifndef OCL_BACKENDS_H
#define OCL_BACKENDS_H

#include "app/analysis/analysis.h"
#include "opencl/device.h"

/* The backend of an analysis, or NULL where there is none. */
const an_backend *ocl_backend(const char *analysis);

/* Checks that the device computes correctly: runs the common self-test (selftest.h), then the
 * known-answer tests of the analysis with its OpenCL backend. Only those tests are run that use the
 * work unit's kernels, or all if unit is NULL. Returns TC_DEVICE if a test failed; the message
 * names the device and what differs. poll: may be NULL. */
tc_status ocl_check_device(const an_analysis *analysis, const an_unit *unit, ocl_device *device,
                           const tc_poll *poll, tc_err *err);

/* Declares the backend ocl_NAME of each analysis that has one according to analyses.def. */
#define ANALYSIS(name, devices) extern const an_backend ocl_##name;
#include "app/analysis/analyses.def"
#undef ANALYSIS

#endif
