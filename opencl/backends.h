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
 * the analysis' known answers. TC_DEVICE names the device and what differs. */
tc_status ocl_check_device(const an_analysis *analysis, ocl_device *device, tc_err *err);

extern const an_backend glcm_opencl;
extern const an_backend cc_opencl;
/* For the bench: device milliseconds that a worker of cc_opencl has spent from the picture
 * to the labels, both in device memory, Otsu's histogram and holes left out; and on
 * measuring the regions. */
void cc_opencl_times(const void *worker, double *label_ms, double *measure_ms);
extern const an_backend levelset_opencl;
extern const an_backend voting_opencl;
extern const an_backend vol_opencl;
/* For the bench: without what is done for whole blocks; and device milliseconds that
 * a worker of either has spent from voxels to labels, both in device memory. */
extern const an_backend vol_opencl_plain;
double vol_opencl_label_ms(const void *worker);

#endif
