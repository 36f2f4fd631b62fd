/*
 * OpenCL found at run time.
 *
 * The program isn't linked with OpenCL: the library that finds the drivers
 * (libOpenCL.so.1, OpenCL.dll) is opened when it is wanted, so that one
 * executable runs on machines with and without it. Every OpenCL call of the
 * program goes through an ocl_api, which is also how tests put another
 * implementation in its place (that library, or a table of their own).
 */
#ifndef OCL_LOADER_H
#define OCL_LOADER_H

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <CL/cl.h>

#include <stdbool.h>

#include "app/base/status.h"

/*
 * Every call that the program may make, once. Four kinds:
 *   STATUS(name, parameters, arguments)        answers a cl_int
 *   ENQUEUE(name, parameters, arguments)       the same, and makes an event where
 *                                              the caller wants one (*event)
 *   OBJECT(type, name, parameters, arguments)  answers an object, or NULL with
 *                                              the error in *status
 *   RELEASE(name, parameters, arguments)       gives something back; nobody can
 *                                              do anything about a failure
 */
#define OCL_CALLS(STATUS, ENQUEUE, OBJECT, RELEASE)                                               \
    STATUS(clGetPlatformIDs, (cl_uint n, cl_platform_id * ids, cl_uint * count), (n, ids, count)) \
    STATUS(clGetPlatformInfo,                                                                     \
           (cl_platform_id of, cl_platform_info what, size_t size, void *value, size_t *length),  \
           (of, what, size, value, length))                                                       \
    STATUS(                                                                                       \
        clGetDeviceIDs,                                                                           \
        (cl_platform_id of, cl_device_type type, cl_uint n, cl_device_id * ids, cl_uint * count), \
        (of, type, n, ids, count))                                                                \
    STATUS(clGetDeviceInfo,                                                                       \
           (cl_device_id of, cl_device_info what, size_t size, void *value, size_t *length),      \
           (of, what, size, value, length))                                                       \
    OBJECT(cl_context, clCreateContext,                                                           \
           (const cl_context_properties *properties, cl_uint n, const cl_device_id *devices,      \
            void(CL_CALLBACK * notify)(const char *, const void *, size_t, void *), void *data,   \
            cl_int *status),                                                                      \
           (properties, n, devices, notify, data, status))                                        \
    RELEASE(clReleaseContext, (cl_context context), (context))                                    \
    OBJECT(cl_command_queue, clCreateCommandQueue,                                                \
           (cl_context context, cl_device_id device, cl_command_queue_properties properties,      \
            cl_int * status),                                                                     \
           (context, device, properties, status))                                                 \
    RELEASE(clReleaseCommandQueue, (cl_command_queue queue), (queue))                             \
    OBJECT(cl_mem, clCreateBuffer,                                                                \
           (cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *status),     \
           (context, flags, size, host, status))                                                  \
    RELEASE(clReleaseMemObject, (cl_mem memory), (memory))                                        \
    OBJECT(cl_program, clCreateProgramWithSource,                                                 \
           (cl_context context, cl_uint n, const char **strings, const size_t *lengths,           \
            cl_int *status),                                                                      \
           (context, n, strings, lengths, status))                                                \
    OBJECT(cl_program, clCreateProgramWithBinary,                                                 \
           (cl_context context, cl_uint n, const cl_device_id *devices, const size_t *lengths,    \
            const unsigned char **binaries, cl_int *taken, cl_int *status),                       \
           (context, n, devices, lengths, binaries, taken, status))                               \
    STATUS(clGetProgramInfo,                                                                      \
           (cl_program of, cl_program_info what, size_t size, void *value, size_t *length),       \
           (of, what, size, value, length))                                                       \
    STATUS(clBuildProgram,                                                                        \
           (cl_program program, cl_uint n, const cl_device_id *devices, const char *options,      \
            void(CL_CALLBACK * notify)(cl_program, void *), void *data),                          \
           (program, n, devices, options, notify, data))                                          \
    STATUS(clGetProgramBuildInfo,                                                                 \
           (cl_program of, cl_device_id device, cl_program_build_info what, size_t size,          \
            void *value, size_t *length),                                                         \
           (of, device, what, size, value, length))                                               \
    RELEASE(clReleaseProgram, (cl_program program), (program))                                    \
    OBJECT(cl_kernel, clCreateKernel, (cl_program program, const char *name, cl_int *status),     \
           (program, name, status))                                                               \
    STATUS(clSetKernelArg, (cl_kernel kernel, cl_uint index, size_t size, const void *value),     \
           (kernel, index, size, value))                                                          \
    STATUS(clGetKernelWorkGroupInfo,                                                              \
           (cl_kernel of, cl_device_id device, cl_kernel_work_group_info what, size_t size,       \
            void *value, size_t *length),                                                         \
           (of, device, what, size, value, length))                                               \
    RELEASE(clReleaseKernel, (cl_kernel kernel), (kernel))                                        \
    ENQUEUE(clEnqueueReadBuffer,                                                                  \
            (cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset, size_t size, \
             void *to, cl_uint n, const cl_event *after, cl_event *event),                        \
            (queue, buffer, blocking, offset, size, to, n, after, event))                         \
    ENQUEUE(clEnqueueWriteBuffer,                                                                 \
            (cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset, size_t size, \
             const void *from, cl_uint n, const cl_event *after, cl_event *event),                \
            (queue, buffer, blocking, offset, size, from, n, after, event))                       \
    OBJECT(void *, clEnqueueMapBuffer,                                                            \
           (cl_command_queue queue, cl_mem buffer, cl_bool blocking, cl_map_flags flags,          \
            size_t offset, size_t size, cl_uint n, const cl_event *after, cl_event *event,        \
            cl_int *status),                                                                      \
           (queue, buffer, blocking, flags, offset, size, n, after, event, status))               \
    RELEASE(clEnqueueUnmapMemObject,                                                              \
            (cl_command_queue queue, cl_mem memory, void *host, cl_uint n, const cl_event *after, \
             cl_event *event),                                                                    \
            (queue, memory, host, n, after, event))                                               \
    ENQUEUE(clEnqueueNDRangeKernel,                                                               \
            (cl_command_queue queue, cl_kernel kernel, cl_uint dimensions, const size_t *start,   \
             const size_t *global, const size_t *local, cl_uint n, const cl_event *after,         \
             cl_event *event),                                                                    \
            (queue, kernel, dimensions, start, global, local, n, after, event))                   \
    ENQUEUE(clEnqueueMarkerWithWaitList,                                                          \
            (cl_command_queue queue, cl_uint n, const cl_event *after, cl_event *event),          \
            (queue, n, after, event))                                                             \
    STATUS(clFlush, (cl_command_queue queue), (queue))                                            \
    STATUS(clFinish, (cl_command_queue queue), (queue))                                           \
    STATUS(clWaitForEvents, (cl_uint n, const cl_event *events), (n, events))                     \
    STATUS(clGetEventInfo,                                                                        \
           (cl_event of, cl_event_info what, size_t size, void *value, size_t *length),           \
           (of, what, size, value, length))                                                       \
    STATUS(clGetEventProfilingInfo,                                                               \
           (cl_event of, cl_profiling_info what, size_t size, void *value, size_t *length),       \
           (of, what, size, value, length))                                                       \
    RELEASE(clReleaseEvent, (cl_event event), (event))

/* The entry points. Plain data: copy it freely; it stays valid for the life of
 * the process, because the library is never closed (drivers run threads and
 * exit handlers of their own, and closing one under them crashes). */
typedef struct ocl_api {
/* NOLINTBEGIN(bugprone-macro-parentheses): names and types cannot have any */
#define OCL_FIELD_STATUS(name, parameters, arguments) cl_int(CL_API_CALL *name) parameters;
#define OCL_FIELD_OBJECT(type, name, parameters, arguments) type(CL_API_CALL *name) parameters;
    OCL_CALLS(OCL_FIELD_STATUS, OCL_FIELD_STATUS, OCL_FIELD_OBJECT, OCL_FIELD_STATUS)
#undef OCL_FIELD_STATUS
#undef OCL_FIELD_OBJECT
    /* NOLINTEND(bugprone-macro-parentheses) */
} ocl_api;

/*
 * Fills *api. The library named by the environment variable TEXCELL_OPENCL_LIBRARY comes
 * first, then an OpenCL that is in the process already (one that was preloaded, as
 * Oclgrind does it), then the system's.
 * TC_DEVICE: this machine has no OpenCL, or one older than 1.2; *api is zeroed.
 */
tc_status ocl_load(ocl_api *api, tc_err *err);

/* Whether no OpenCL that could be loaded has a GPU: only PoCL and Mesa are installed, which take
 * 70 MB when they are loaded, and the system shows no device that they could reach. False where in
 * doubt. */
bool ocl_has_no_gpu(void);

/* The name of an OpenCL error code ("CL_OUT_OF_RESOURCES"); never NULL. */
const char *ocl_error_name(cl_int code);

#endif
