/*
 * The OpenCL backends of the analyses, by name. A table of their own, so that
 * programs which only compute on the CPU do not carry OpenCL.
 */
#ifndef OCL_BACKENDS_H
#define OCL_BACKENDS_H

#include "app/analysis/analysis.h"
#include "opencl/device.h"

/* The backend of an analysis, or NULL where there is none. */
const an_backend *ocl_backend(const char *analysis);

/* Whether the device computes right: the common self-test and, on its backend,
 * the analysis' known answers, those that concern the work unit, or all (NULL). TC_DEVICE names the
 * device and what differs. poll: may be NULL. */
tc_status ocl_check_device(const an_analysis *analysis, const an_unit *unit, ocl_device *device,
                           const tc_poll *poll, tc_err *err);

/* A backend's struct, where analyses.def says that there is one: ocl_NAME. */
#define ANALYSIS(name, devices) extern const an_backend ocl_##name;
#include "app/analysis/analyses.def"
#undef ANALYSIS

#endif
