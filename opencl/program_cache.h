/*
 * Compiled programs that outlast the process, for drivers that keep none themselves: a
 * folder has a file of each, named by what it was made from and for. It only saves time:
 * what is wrong with a file, or with writing one, costs a compilation and no more.
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
 * The program of this source and these flags, built, from the folder device->cache_folder; NULL:
 * there is none, or the driver does not take it. While the driver has it in hand the file bears
 * another name, so that one over which a driver crashes is not tried again. The caller releases it.
 */
cl_program ocl_program_cache_load(ocl_device *device, const ocl_program_source *of);

/* Keeps a program that took build_ms to build, if that was long: there are OCL_CACHE_MOST files at
 * most, the oldest go. */
enum { OCL_CACHE_MOST = 64, OCL_CACHE_SLOW_MS = 100 };
void ocl_program_cache_store(ocl_device *device, const ocl_program_source *of, cl_program program,
                             double build_ms);

/* Throws away all that the folder has, and uses it no more. */
void ocl_program_cache_clear(ocl_device *device);

#endif
