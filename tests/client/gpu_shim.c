/*
 * An OpenCL library that presents any device as an NVIDIA GPU, for texcell under a client with such
 * a GPU in its configuration (TEXCELL_OPENCL_LIBRARY names this library). Environment variables:
 *   GPU_SHIM_LOST=FILE      while the file exists, the GPU is lost: every launch fails
 *   GPU_SHIM_CRASH=FILE     while the file exists, the driver crashes in every launch
 *   GPU_SHIM_HANGS=1        the driver never returns from its exit handler
 *   GPU_SHIM_MEMORY=N       the GPU has N bytes of memory
 *   GPU_SHIM_NAMES=1        devices are named by their number
 */
#define _GNU_SOURCE
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Declares `real`, the function of the next library with this name. */
#define REAL(name) __typeof__(&(name)) const real = (__typeof__(&(name)))dlsym(RTLD_NEXT, #name)

static cl_device_id seen[2]; /* the first two devices that were listed */

/* Lists all devices if GPUs are asked for. */
cl_int clGetDeviceIDs(cl_platform_id platform, cl_device_type type, cl_uint n, cl_device_id *ids,
                      cl_uint *found)
{
    REAL(clGetDeviceIDs);

    const cl_int code =
        real(platform, type & CL_DEVICE_TYPE_GPU ? CL_DEVICE_TYPE_ALL : type, n, ids, found);
    for (cl_uint i = 0; code == CL_SUCCESS && ids != NULL && i < n && i < 2; i++)
        seen[i] = ids[i];
    return code;
}

cl_int clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t size, void *value,
                       size_t *needed)
{
    static const cl_device_type type = CL_DEVICE_TYPE_GPU;
    static const char vendor[] = "NVIDIA Corporation";
    static const char names[2][6] = { "GPU 0", "GPU 1" };
    const bool named = what == CL_DEVICE_NAME && getenv("GPU_SHIM_NAMES") != NULL;
    const char *const memory = getenv("GPU_SHIM_MEMORY");
    REAL(clGetDeviceInfo);
    const void *const answer = what == CL_DEVICE_TYPE     ? (const void *)&type
                               : what == CL_DEVICE_VENDOR ? vendor
                               : named                    ? names[device == seen[1]]
                                                          : NULL;
    const size_t length = what == CL_DEVICE_TYPE ? sizeof type
                          : named                ? sizeof names[0]
                                                 : sizeof vendor;

    if (what == CL_DEVICE_GLOBAL_MEM_SIZE && memory != NULL && value != NULL &&
        size == sizeof(cl_ulong)) {
        *(cl_ulong *)value = strtoull(memory, NULL, 10);
        return CL_SUCCESS;
    }
    if (answer == NULL)
        return real(device, what, size, value, needed);
    if (needed != NULL)
        *needed = length;
    if (value != NULL && size < length)
        return CL_INVALID_VALUE;
    if (value != NULL)
        memcpy(value, answer, length);
    return CL_SUCCESS;
}

__attribute__((destructor)) static void hang_at_exit(void)
{
    while (getenv("GPU_SHIM_HANGS") != NULL)
        pause();
}

cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                              const size_t *offset, const size_t *global, const size_t *local,
                              cl_uint n, const cl_event *wait, cl_event *event)
{
    const char *const lost = getenv("GPU_SHIM_LOST"), *const crash = getenv("GPU_SHIM_CRASH");
    REAL(clEnqueueNDRangeKernel);

    if (crash != NULL && access(crash, F_OK) == 0)
        raise(SIGSEGV);
    if (lost != NULL && access(lost, F_OK) == 0)
        return CL_OUT_OF_RESOURCES;
    return real(queue, kernel, dimensions, offset, global, local, n, wait, event);
}
