/*
 * Copies between the host's memory and a device's by way of some that the driver has pinned: while
 * the device transfers one part, several threads copy another to or from its place. A driver by
 * itself does both in turn, with one thread.
 */
#ifndef OCL_STAGING_H
#define OCL_STAGING_H

#include <stdbool.h>

#include "opencl/device.h"

typedef struct ocl_staging ocl_staging;

/* Bytes from which on a copy goes by staging. */
#define OCL_STAGING_LEAST ((size_t)1 << 20)

/* Whether copies of so many bytes are to go by staging, which is made at the first of them: not
 * where device and host share their memory (a CPU), and not where the driver has no pinned memory
 * to give. */
bool ocl_stages(ocl_device *device, size_t bytes);
/* Copies, and waits for the end. The range has been checked. */
tc_status ocl_staged_write(ocl_device *device, cl_mem buffer, size_t offset, const void *from,
                           size_t bytes, tc_err *err);
tc_status ocl_staged_read(ocl_device *device, cl_mem buffer, size_t offset, void *to, size_t bytes,
                          tc_err *err);

#endif
