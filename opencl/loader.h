/*
 * Loads the OpenCL library at run time.
 *
 * The program is not linked with OpenCL: the library that finds the drivers (libOpenCL.so.1,
 * OpenCL.dll) is opened when a device is needed, so that one executable runs on machines with and
 * without it. The program makes every OpenCL call through an ocl_api. So tests can replace OpenCL
 * by another library or by functions of their own.
 */
#ifndef OCL_LOADER_H
#define OCL_LOADER_H

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <CL/cl.h>

#include <stdbool.h>

#include "app/base/status.h"

/* Lists every OpenCL function that the program calls, by the kind of its result:
 *   STATUS(name, parameters, arguments)        a cl_int, the error code
 *   ENQUEUE(name, parameters, arguments)       the same; also creates *event if event
 *                                              is not NULL
 *   OBJECT(type, name, parameters, arguments)  an object, or NULL with
 *                                              the error code in *status
 *   RELEASE(name, parameters, arguments)       a cl_int that callers ignore; releases an
 *                                              object
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

/* Pointers to the OpenCL functions. The struct may be copied; the pointers stay valid for the life
 * of the process, because the library is never closed (drivers run threads and exit handlers of
 * their own, which would crash). */
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
 * Fills *api from the first library of these that exists: the library named by the environment
 * variable TEXCELL_OPENCL_LIBRARY; an OpenCL library that is already loaded in the process (as by
 * Oclgrind); the system's library.
 * TC_DEVICE: the library cannot be opened, or is older than OpenCL 1.2; *api is zeroed.
 */
tc_status ocl_load_library(ocl_api *api, tc_err *err);

/* Whether it is certain that OpenCL would list no GPU: the only drivers installed are PoCL and
 * Mesa, and the system has no device that they could use. Saves loading these, which takes 70 MB of
 * memory. */
bool ocl_has_no_gpu(void);

/* The name of an OpenCL error code ("CL_OUT_OF_RESOURCES"); never NULL. */
const char *ocl_error_name(cl_int code);

#endif
