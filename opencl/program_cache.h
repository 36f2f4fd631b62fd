/*
 * Stores compiled OpenCL programs in a folder, and loads them in later runs, for drivers that do
 * not do so themselves. Each program is a file, named by a hash of its source, flags, device and
 * driver. If a file is damaged or cannot be written, the program is compiled again.
 */
#ifndef OCL_PROGRAM_CACHE_H
#define OCL_PROGRAM_CACHE_H

#include "opencl/device.h"

/* A program's source and the flags that it is built with. */
typedef struct ocl_program_source {
    const char *const *lines;
    size_t count;
    const char *flags;
} ocl_program_source;

/*
 * Loads and builds the program of this source and these flags from the folder device->cache_folder.
 * Returns NULL if there is none, or the driver rejects it. The file is renamed while the driver
 * reads its content, so that a file with which the driver crashes is not loaded again. The caller
 * releases the program.
 */
cl_program ocl_program_cache_load(ocl_device *device, const ocl_program_source *source);

enum {
    OCL_CACHE_MOST = 64,         /* the most files in the folder */
    OCL_CACHE_MIN_BUILD_MS = 100 /* programs that took less time to build are not stored */
};
/* Stores a program that took build_ms to build, if build_ms is at least OCL_CACHE_MIN_BUILD_MS.
 * Deletes the oldest files so that there are at most OCL_CACHE_MOST. */
void ocl_program_cache_store(ocl_device *device, const ocl_program_source *source,
                             cl_program program, double build_ms);

/* Deletes the folder's programs, releases the programs built so far, and sets device->cache_folder
 * to NULL, so that the folder is not used any more. */
void ocl_program_cache_clear(ocl_device *device);

#endif
