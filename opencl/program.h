/*
 * Programs: built on the device from source that is part of the executable.
 *
 * A file opencl/kernels/NAME.cl becomes an ocl_source named ocl_source_NAME at
 * build time (embed.sh): its lines, with the project's headers that it includes
 * put in their places, since a device's compiler sees one text and no files.
 */
#ifndef OCL_PROGRAM_H
#define OCL_PROGRAM_H

#include "opencl/work.h"

typedef struct ocl_source {
    const char *name;         /* "NAME.cl" */
    const char *const *lines; /* each with its newline */
    size_t count;
} ocl_source;

/*
 * Builds a program. The flags are the same for every program: OpenCL C 1.2, and
 * correctly rounded division and square root where floats is set and the device
 * has it; `defines` ("-DLEVELS=16 -DWIDE", may be NULL) is all that an analysis
 * adds. Floating-point contraction is switched off in the source, by
 * #pragma OPENCL FP_CONTRACT OFF, and by -ffp-contract=off where the compiler takes
 * that: Intel's of 2026 does not keep to the pragma in double precision.
 * *program: the device's, one of the last twelve; a kernel outlasts it.
 * TC_DEVICE: the build failed; the message has the log's beginning, the whole
 * log goes to stderr.
 */
tc_status ocl_program_build(ocl_device *device, const ocl_source *source, const char *defines,
                            bool floats, cl_program *program, tc_err *err);
/* The program's kernel of that name (a string that outlives it). It goes on
 * when the program is freed. *kernel: free with ocl_kernel_free. */
tc_status ocl_kernel_new(ocl_device *device, cl_program program, const char *name,
                         ocl_kernel *kernel, tc_err *err);
/* Frees and zeroes; fine for one that is zeroed. */
void ocl_kernel_free(ocl_device *device, ocl_kernel *kernel);

#endif
