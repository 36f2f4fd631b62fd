/*
 * Copies between a device and ordinary host memory through a staging buffer: host memory that the
 * driver has pinned, from and to which devices copy fast. While the device transfers one half of
 * the staging buffer, several threads copy the other half to or from ordinary memory. Without this,
 * drivers do these two steps one after the other, with one thread.
 */
#ifndef OCL_STAGING_H
#define OCL_STAGING_H

#include <stdbool.h>

#include "opencl/device.h"

typedef struct ocl_staging ocl_staging;

/* The size in bytes of the smallest copy that is made through the staging buffer. */
#define OCL_STAGING_LEAST ((size_t)1 << 20)

/* Whether to copy `bytes` bytes through the staging buffer, which the first call for a large enough
 * copy allocates. False if device and host share their memory (a device of type CPU), or the driver
 * has no pinned memory. */
bool ocl_uses_staging(ocl_device *device, size_t bytes);
/* Copy to or from the device's buffer, from `offset` on, and return when the copy is complete. May
 * be called only after ocl_uses_staging has returned true; the caller has checked the range. */
tc_status ocl_staged_write(ocl_device *device, cl_mem buffer, size_t offset, const void *from,
                           size_t bytes, tc_err *err);
tc_status ocl_staged_read(ocl_device *device, cl_mem buffer, size_t offset, void *to, size_t bytes,
                          tc_err *err);

#endif
