/*
 * Compiled programs that outlast the process, for drivers that keep none themselves: a
 * folder has a file of each, named by what it was made from and for. It only saves time:
 * what is wrong with a file, or with writing one, costs a compilation and no more.
 */
#ifndef OCL_KEPT_H
#define OCL_KEPT_H

#include "opencl/program.h"

/*
 * The program of this source and these flags, built, from the folder device->kept_in; NULL: there
 * is none, or the driver does not take it. While the driver has it in hand the file
 * bears another name, so that one over which a driver crashes is not tried again.
 * Free with ocl_program_free.
 */
cl_program ocl_kept_take(ocl_device *device, const ocl_source *source, const char *flags);

/* Keeps a program that took build_ms to build, if that was long and the device is no CPU: there
 * are OCL_KEPT_MOST files at most, the oldest go. */
enum { OCL_KEPT_MOST = 64, OCL_KEPT_SLOW_MS = 100 };
void ocl_kept_add(ocl_device *device, const ocl_source *source, const char *flags, cl_program program,
                  double build_ms);

/* Throws away all that the folder has, and uses it no more. */
void ocl_kept_drop(ocl_device *device);

#endif
