/* A fake OpenCL for unit tests: it computes nothing, and any call can be made to fail. The global
 * `fake` (fake_opencl.h) has its settings and its counts of calls and objects. */
#include "fake_opencl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

fake_world fake;

fake_device fake_gpu(const char *name, const char *vendor, cl_uint units, cl_uint mhz)
{
    const fake_device device = { .name = name,
                                 .vendor = vendor,
                                 .driver = "1.0",
                                 .version = "OpenCL 3.0 FAKE",
                                 .c_version = "OpenCL C 1.2 ",
                                 .profile = "FULL_PROFILE",
                                 .type = CL_DEVICE_TYPE_GPU,
                                 .units = units,
                                 .mhz = mhz,
                                 .global_bytes = 1 << 20,
                                 .max_alloc = 1 << 18,
                                 .local_bytes = 32768,
                                 .max_group = 256,
                                 .max_x = 256,
                                 .max_y = 256,
                                 .available = CL_TRUE,
                                 .compiler = CL_TRUE,
                                 .little = CL_TRUE,
                                 .single_fp = CL_FP_DENORM | CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT |
                                              CL_FP_FMA };
    return device;
}

/* Counts a call; returns whether it must fail. */
static bool must_fail(void)
{
    return ++fake.calls == fake.fail_at;
}
/* Counts a call, and returns the error `code` from it if it must fail. */
#define MAY_FAIL(code) \
    if (must_fail())   \
    return code

/* Answers a query of a property as OpenCL does: copies from_size bytes to `value`, which has `size`
 * bytes, and sets *length to from_size; either pointer may be NULL. */
static cl_int answer(const void *from, size_t from_size, size_t size, void *value, size_t *length)
{
    if (length != NULL)
        *length = from_size;
    if (value == NULL)
        return CL_SUCCESS;
    if (size < from_size)
        return CL_INVALID_VALUE;
    memcpy(value, from, from_size);
    return CL_SUCCESS;
}

static cl_int answer_text(const char *text, size_t size, void *value, size_t *length)
{
    return answer(text, strlen(text) + 1, size, value, length);
}

static cl_int CL_API_CALL get_platforms(cl_uint n, cl_platform_id *ids, cl_uint *count)
{
    MAY_FAIL(CL_OUT_OF_HOST_MEMORY);
    if (fake.platforms_error != 0)
        return fake.platforms_error;
    *count = fake.count;
    for (cl_uint i = 0; i < n && i < fake.count; i++)
        ids[i] = (cl_platform_id)&fake.platforms[i];
    return CL_SUCCESS;
}

static cl_int CL_API_CALL platform_info(cl_platform_id of, cl_platform_info what, size_t size,
                                        void *value, size_t *length)
{
    const fake_platform *p = (const fake_platform *)of;
    MAY_FAIL(CL_OUT_OF_HOST_MEMORY);
    return answer_text(what == CL_PLATFORM_NAME ? p->name : p->version, size, value, length);
}

static cl_int CL_API_CALL get_devices(cl_platform_id of, cl_device_type type, cl_uint n,
                                      cl_device_id *ids, cl_uint *count)
{
    const fake_platform *p = (const fake_platform *)of;
    cl_uint found = 0;
    MAY_FAIL(CL_OUT_OF_HOST_MEMORY);
    if (p->list_error != 0)
        return p->list_error;
    for (unsigned i = 0; i < p->count; i++) {
        const bool reverse = p->gpus_reversed && type != CL_DEVICE_TYPE_ALL;
        fake_device *d = &p->devices[reverse ? p->count - 1 - i : i];
        if (d->type & type && found < n)
            ids[found++] = (cl_device_id)d;
    }
    *count = found;
    return found > 0 ? CL_SUCCESS : CL_DEVICE_NOT_FOUND;
}

static cl_int CL_API_CALL device_info(cl_device_id of, cl_device_info what, size_t size,
                                      void *value, size_t *length)
{
    const fake_device *d = (const fake_device *)of;
    const size_t along[3] = { d->max_x, d->max_y, 64 };
    MAY_FAIL(CL_OUT_OF_HOST_MEMORY);
#define VALUE(name, field) \
    case name: return answer(&(field), sizeof(field), size, value, length)
#define TEXT(name, field) \
    case name: return answer_text(field, size, value, length)
    switch (what) {
        TEXT(CL_DEVICE_NAME, d->name);
        TEXT(CL_DEVICE_VENDOR, d->vendor);
        TEXT(CL_DRIVER_VERSION, d->driver);
        TEXT(CL_DEVICE_VERSION, d->version);
        TEXT(CL_DEVICE_OPENCL_C_VERSION, d->c_version);
        TEXT(CL_DEVICE_PROFILE, d->profile);
        VALUE(CL_DEVICE_TYPE, d->type);
        VALUE(CL_DEVICE_AVAILABLE, d->available);
        VALUE(CL_DEVICE_COMPILER_AVAILABLE, d->compiler);
        VALUE(CL_DEVICE_ENDIAN_LITTLE, d->little);
        VALUE(CL_DEVICE_MAX_COMPUTE_UNITS, d->units);
        VALUE(CL_DEVICE_MAX_CLOCK_FREQUENCY, d->mhz);
        VALUE(CL_DEVICE_GLOBAL_MEM_SIZE, d->global_bytes);
        VALUE(CL_DEVICE_MAX_MEM_ALLOC_SIZE, d->max_alloc);
        VALUE(CL_DEVICE_LOCAL_MEM_SIZE, d->local_bytes);
        VALUE(CL_DEVICE_MAX_WORK_GROUP_SIZE, d->max_group);
        VALUE(CL_DEVICE_MAX_WORK_ITEM_SIZES, along);
    case CL_DEVICE_SINGLE_FP_CONFIG: VALUE(CL_DEVICE_DOUBLE_FP_CONFIG, d->single_fp);
    default: return CL_INVALID_VALUE;
    }
}

/* An object is a byte on the heap, so that ASan sees a leak or a second free. */
static void *make(cl_int *status, cl_int error)
{
    if (must_fail()) {
        *status = error;
        return NULL;
    }
    fake.live++;
    *status = CL_SUCCESS;
    return calloc(1, 1);
}

static cl_int drop(void *object)
{
    fake.live--;
    free(object);
    return CL_SUCCESS;
}

static cl_context CL_API_CALL make_context(const cl_context_properties *properties, cl_uint n,
                                           const cl_device_id *devices,
                                           void(CL_CALLBACK *notify)(const char *, const void *,
                                                                     size_t, void *),
                                           void *data, cl_int *status)
{
    (void)properties, (void)n, (void)devices, (void)notify, (void)data;
    return make(status, CL_DEVICE_NOT_AVAILABLE);
}
static cl_int CL_API_CALL drop_context(cl_context x)
{
    return drop(x);
}

static cl_command_queue CL_API_CALL make_queue(cl_context context, cl_device_id device,
                                               cl_command_queue_properties properties,
                                               cl_int *status)
{
    (void)context, (void)device, (void)properties;
    return make(status, CL_OUT_OF_RESOURCES);
}
static cl_int CL_API_CALL drop_queue(cl_command_queue x)
{
    return drop(x);
}

static cl_mem CL_API_CALL make_buffer(cl_context context, cl_mem_flags flags, size_t size,
                                      void *host, cl_int *status)
{
    (void)context, (void)flags, (void)size, (void)host;
    return make(status, CL_MEM_OBJECT_ALLOCATION_FAILURE);
}
static cl_int CL_API_CALL drop_buffer(cl_mem x)
{
    return drop(x);
}

static cl_program CL_API_CALL make_program(cl_context context, cl_uint n, const char **strings,
                                           const size_t *lengths, cl_int *status)
{
    (void)context, (void)n, (void)strings, (void)lengths;
    fake.sources++;
    return make(status, CL_OUT_OF_HOST_MEMORY);
}

/* The "binary" of a compiled program is this text, followed by its build flags. */
static const char compiled[] = "compiled:";

static cl_program CL_API_CALL make_program_from_binary(cl_context context, cl_uint n,
                                                       const cl_device_id *devices,
                                                       const size_t *lengths,
                                                       const unsigned char **binaries,
                                                       cl_int *taken, cl_int *status)
{
    (void)context, (void)n, (void)devices;
    fake.binaries++;
    *taken = fake.binary_refused || lengths[0] < sizeof compiled ||
                     memcmp(binaries[0], compiled, sizeof compiled - 1) != 0
                 ? CL_INVALID_BINARY
                 : CL_SUCCESS;
    unsigned char *const made = make(status, CL_INVALID_BINARY);
    if (made != NULL)
        *made = 1; /* marks a program that was made from a binary */
    return (cl_program)made;
}

static cl_int CL_API_CALL program_info(cl_program of, cl_program_info what, size_t size,
                                       void *value, size_t *length)
{
    char text[sizeof compiled + sizeof fake.build_options];
    const size_t n = (size_t)snprintf(text, sizeof text, "%s%s", compiled, fake.build_options);
    (void)of;
    MAY_FAIL(CL_OUT_OF_RESOURCES);
    if (what == CL_PROGRAM_BINARY_SIZES)
        return answer(&n, sizeof n, size, value, length);
    memcpy(*(unsigned char **)value, text, n);
    return CL_SUCCESS;
}
static cl_int CL_API_CALL drop_program(cl_program x)
{
    return drop(x);
}

static cl_int CL_API_CALL build(cl_program program, cl_uint n, const cl_device_id *devices,
                                const char *options, void(CL_CALLBACK *notify)(cl_program, void *),
                                void *data)
{
    const bool from_binary = *(const unsigned char *)program == 1;
    (void)n, (void)devices, (void)notify, (void)data;
    MAY_FAIL(CL_BUILD_PROGRAM_FAILURE);
    if (from_binary)
        return fake.binary_fails ? CL_INVALID_BINARY : CL_SUCCESS;
    usleep(fake.build_ms * 1000);
    snprintf(fake.build_options, sizeof fake.build_options, "%s", options);
    return fake.build_fails ? CL_BUILD_PROGRAM_FAILURE : CL_SUCCESS;
}

static cl_int CL_API_CALL build_info(cl_program of, cl_device_id device, cl_program_build_info what,
                                     size_t size, void *value, size_t *length)
{
    (void)of, (void)device, (void)what;
    MAY_FAIL(CL_OUT_OF_RESOURCES);
    return answer_text(fake.build_log != NULL ? fake.build_log : "", size, value, length);
}

static cl_kernel CL_API_CALL make_kernel(cl_program program, const char *name, cl_int *status)
{
    (void)program, (void)name;
    return make(status, CL_INVALID_KERNEL_NAME);
}
static cl_int CL_API_CALL drop_kernel(cl_kernel x)
{
    return drop(x);
}

static cl_int CL_API_CALL set_arg(cl_kernel kernel, cl_uint index, size_t size, const void *value)
{
    (void)kernel, (void)index, (void)size, (void)value;
    MAY_FAIL(CL_INVALID_ARG_VALUE);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL group_info(cl_kernel of, cl_device_id device,
                                     cl_kernel_work_group_info what, size_t size, void *value,
                                     size_t *length)
{
    const size_t group = 1024, multiple = 32;
    const cl_ulong local = 128;
    (void)of, (void)device;
    MAY_FAIL(CL_OUT_OF_RESOURCES);
    if (what == CL_KERNEL_WORK_GROUP_SIZE)
        return answer(&group, sizeof group, size, value, length);
    if (what == CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE)
        return answer(&multiple, sizeof multiple, size, value, length);
    return answer(&local, sizeof local, size, value, length);
}

static cl_int CL_API_CALL read_buffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                                      size_t offset, size_t size, void *to, cl_uint n,
                                      const cl_event *after, cl_event *event)
{
    (void)queue, (void)buffer, (void)blocking, (void)offset, (void)n, (void)after, (void)event;
    MAY_FAIL(CL_OUT_OF_RESOURCES);
    memset(to, 0, size);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL write_buffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                                       size_t offset, size_t size, const void *from, cl_uint n,
                                       const cl_event *after, cl_event *event)
{
    (void)queue, (void)buffer, (void)blocking, (void)offset, (void)size, (void)from, (void)n;
    (void)after, (void)event;
    MAY_FAIL(CL_OUT_OF_RESOURCES);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL launch(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                                 const size_t *start, const size_t *global, const size_t *local,
                                 cl_uint n, const cl_event *after, cl_event *event)
{
    cl_int status;
    (void)queue, (void)kernel, (void)dimensions, (void)start, (void)global, (void)local, (void)n;
    (void)after;
    if (event != NULL) {
        *event = make(&status, CL_OUT_OF_RESOURCES);
    } else {
        status = must_fail() ? CL_OUT_OF_RESOURCES : CL_SUCCESS;
    }
    fake.launches += status == CL_SUCCESS;
    return status;
}

static cl_int CL_API_CALL marker(cl_command_queue queue, cl_uint n, const cl_event *after,
                                 cl_event *event)
{
    cl_int status;
    (void)queue, (void)n, (void)after;
    *event = make(&status, CL_OUT_OF_RESOURCES);
    return status;
}
static cl_int CL_API_CALL drop_event(cl_event x)
{
    return drop(x);
}

static cl_int CL_API_CALL queue_call(cl_command_queue queue)
{
    (void)queue;
    MAY_FAIL(CL_OUT_OF_RESOURCES);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL wait_events(cl_uint n, const cl_event *events)
{
    (void)n, (void)events;
    MAY_FAIL(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
    return CL_SUCCESS;
}

/* The event is running in the first two calls; then its state is fake.event_state. */
static cl_int CL_API_CALL event_info(cl_event of, cl_event_info what, size_t size, void *value,
                                     size_t *length)
{
    const cl_int state = ++fake.event_polls < 3 ? CL_RUNNING : fake.event_state;
    (void)of, (void)what;
    fake.up += fake.background != NULL && fake.background->allowed > 0;
    MAY_FAIL(CL_OUT_OF_RESOURCES);
    return answer(&state, sizeof state, size, value, length);
}

static cl_int CL_API_CALL profiling(cl_event of, cl_profiling_info what, size_t size, void *value,
                                    size_t *length)
{
    (void)of;
    MAY_FAIL(CL_OUT_OF_RESOURCES);
    return answer(what == CL_PROFILING_COMMAND_START ? &fake.start_ns : &fake.end_ns,
                  sizeof fake.start_ns, size, value, length);
}

ocl_api fake_api(fake_platform *platforms, unsigned count)
{
    memset(&fake, 0, sizeof fake);
    fake.platforms = platforms;
    fake.count = count;
    fake.end_ns = 3000000;
    const ocl_api api = { .clGetPlatformIDs = get_platforms,
                          .clGetPlatformInfo = platform_info,
                          .clGetDeviceIDs = get_devices,
                          .clGetDeviceInfo = device_info,
                          .clCreateContext = make_context,
                          .clReleaseContext = drop_context,
                          .clCreateCommandQueue = make_queue,
                          .clReleaseCommandQueue = drop_queue,
                          .clCreateBuffer = make_buffer,
                          .clReleaseMemObject = drop_buffer,
                          .clCreateProgramWithSource = make_program,
                          .clCreateProgramWithBinary = make_program_from_binary,
                          .clGetProgramInfo = program_info,
                          .clReleaseProgram = drop_program,
                          .clBuildProgram = build,
                          .clGetProgramBuildInfo = build_info,
                          .clCreateKernel = make_kernel,
                          .clReleaseKernel = drop_kernel,
                          .clSetKernelArg = set_arg,
                          .clGetKernelWorkGroupInfo = group_info,
                          .clEnqueueReadBuffer = read_buffer,
                          .clEnqueueWriteBuffer = write_buffer,
                          .clEnqueueNDRangeKernel = launch,
                          .clEnqueueMarkerWithWaitList = marker,
                          .clFlush = queue_call,
                          .clFinish = queue_call,
                          .clWaitForEvents = wait_events,
                          .clGetEventInfo = event_info,
                          .clGetEventProfilingInfo = profiling,
                          .clReleaseEvent = drop_event };
    return api;
}
