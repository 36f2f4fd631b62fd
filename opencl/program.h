/*
 * Builds OpenCL programs and kernels from source that is embedded in the executable.
 *
 * When the executable is built, embed.sh converts each file opencl/kernels/NAME.cl to an ocl_source
 * named ocl_source_NAME: its lines, with the project's headers in place of the #include lines,
 * since a device's compiler is passed one text and no files.
 */
#ifndef OCL_PROGRAM_H
#define OCL_PROGRAM_H

#include "opencl/work.h"

typedef struct ocl_source {
    const char *name;         /* "NAME.cl" */
    const char *const *lines; /* each ends with its newline */
    size_t count;
} ocl_source;

/* Builds a program, or returns the program that was built earlier from the same source and flags.
 * Every program is built as OpenCL C 1.2. floats: with correctly rounded division and square root
 * in single precision, if the device has them. defines: further flags ("-DLEVELS=16 -DWIDE"), or
 * NULL. Floating-point contraction is switched off in the source, by #pragma OPENCL FP_CONTRACT
 * OFF, and by -ffp-contract=off if the compiler accepts this flag: Intel's compiler of 2026 ignores
 * the pragma in double precision. *program: belongs to the device, which releases it when twelve
 * others have been built since; kernels made from it stay valid. TC_DEVICE: the build failed; the
 * message contains the beginning of the build log, and the whole log is printed on stderr.
 */
tc_status ocl_program_build(ocl_device *device, const ocl_source *source, const char *defines,
                            bool floats, cl_program *program, tc_err *err);
/* Makes the program's kernel `name`, a string that must outlive the kernel. The kernel stays valid
 * when the program is released. *kernel: free with ocl_kernel_free. */
tc_status ocl_kernel_new(ocl_device *device, cl_program program, const char *name,
                         ocl_kernel *kernel, tc_err *err);
/* Frees and zeroes the kernel, which may be zeroed already. */
void ocl_kernel_free(ocl_device *device, ocl_kernel *kernel);

#endif
