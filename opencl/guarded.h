/*
 * Every OpenCL call within the guard (app/base/guard.h): a driver that crashes or hangs
 * is told by the name of the call.
 */
#ifndef OCL_GUARDED_H
#define OCL_GUARDED_H

#include "opencl/loader.h"

/* Puts the guard between the program and *api, which must be the process' only one. */
void ocl_guarded(ocl_api *api);

#endif
