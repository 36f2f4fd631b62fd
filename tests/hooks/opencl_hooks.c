/*
 * An OpenCL library between a program and the real one, for tests: calls that fail on
 * demand, devices that are smaller or round otherwise than they are. The program
 * loads it where TEXCELL_OPENCL_LIBRARY names it; it passes calls on to an OpenCL that
 * is in the process already (Oclgrind), or to the system's.
 *
 *   TEXCELL_TEST_CL_FAIL=N     the N-th call that can fail does so (from 1)
 *   TEXCELL_TEST_CL_FAIL=N+    that one and every later one, as if the device
 *                              had been lost
 *   TEXCELL_TEST_CL_FAIL_AT=PLACE:N[+]  the N-th of a place (places.h)
 *   TEXCELL_TEST_CL_ERROR=N    with the error -N, not the one below
 *   TEXCELL_TEST_CL_COUNT=FILE how many calls there were, and how many objects were made
 *                              but not released; written anew at each call, since how the
 *                              process ends is its own business
 *   TEXCELL_TEST_CL_PLACES=FILE at exit: the places of calls that can fail, and how many each had
 *   TEXCELL_TEST_CL_MEMORY=N   devices have 2 N bytes at the most: the program uses half
 *   TEXCELL_TEST_CL_CALL_MS=N  each call that can fail takes N ms besides
 *   TEXCELL_TEST_CL_GPU=1      devices say that they are GPUs
 *   TEXCELL_TEST_CL_ROUNDS=1   devices say that they divide correctly; Oclgrind does, but
 *                              does not say so
 *   TEXCELL_TEST_CL_TIMES=FILE when launches that were waited for began and ended, by the
 *                              device's clock: two numbers of nanoseconds a line
 *   TEXCELL_TEST_CL_ITEM_NS=N  they take N ns a work-item by that clock, on whatever device
 *   TEXCELL_TEST_CL_FLIP=KERNEL:N  of what a launch of that kernel changed a bit comes out wrong,
 *                              a random one by the seed N
 *   TEXCELL_TEST_CL_GROUP=N, _LOCAL=N, _BUFFER=N  devices have work-groups of N work-items, N bytes
 *                              of local memory, buffers of N bytes at the most
 *   TEXCELL_TEST_CL_NO_DOUBLES=1, _NO_DENORMALS=1  devices say that they have none
 *   TEXCELL_TEST_CL_LAUNCHED=FILE names of the kernels that were launched
 *
 * Calls that can fail are all but the releases, counted over the process in the
 * order they are made. A call made to fail is not passed on. The error is
 * CL_MEM_OBJECT_ALLOCATION_FAILURE where memory is created,
 * CL_BUILD_PROGRAM_FAILURE for a build and CL_OUT_OF_RESOURCES elsewhere.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "opencl/loader.h"
#include "tests/hooks/places.h"

static struct {
    ocl_api real; /* but for those below, which are ours */
    cl_int(CL_API_CALL *get_device_info)(cl_device_id, cl_device_info, size_t, void *, size_t *);
    cl_int(CL_API_CALL *get_profile)(cl_event, cl_profiling_info, size_t, void *, size_t *);
    cl_int(CL_API_CALL *launch)(cl_command_queue, cl_kernel, cl_uint, const size_t *,
                                const size_t *, const size_t *, cl_uint, const cl_event *,
                                cl_event *);
    cl_kernel(CL_API_CALL *create_kernel)(cl_program, const char *, cl_int *);
    cl_int(CL_API_CALL *set_arg)(cl_kernel, cl_uint, size_t, const void *);
    cl_int(CL_API_CALL *release_kernel)(cl_kernel);
    cl_int(CL_API_CALL *memory_info)(cl_mem, cl_mem_info, size_t, void *, size_t *);
    unsigned long long group, local, buffer; /* 0: as they are */
    char flip[64];                           /* the kernel; "": none */
    unsigned long long random;
    int launched_file;           /* -1: none */
    bool forever;                /* "N+" */
    cl_int error;                /* 0: as it suits */
    unsigned long long fail_at;  /* 0: never */
    unsigned long long memory;   /* 0: as it is */
    unsigned long long call_ms;  /* 0: none */
    int count_file, places_file; /* -1: none */
    FILE *times;                 /* NULL: none */
    cl_ulong began;              /* of the launches that the program asks about, the first */
    cl_ulong items, item_ns;     /* of those launches; 0: the clock is the device's own */
    atomic_ullong calls;
    atomic_llong live; /* objects made and not released */
} hooks;

static void give_up(const char *what)
{
    fprintf(stderr, "opencl_hooks: %s\n", what);
    _exit(99);
}

static void *find(void *library, const char *name)
{
    void *const function = dlsym(library, name);

    if (function == NULL)
        give_up(name);
    return function;
}

static unsigned long long number(const char *name, bool *plus)
{
    const char *const text = getenv(name);
    char *end;
    unsigned long long n;

    if (text == NULL)
        return 0;
    n = strtoull(text, &end, 10);
    *plus = *end == '+';
    if (n == 0 || end[*plus] != '\0')
        give_up(name);
    return n;
}

/* The file that it names, or -1. */
static int opened(const char *name)
{
    const char *const path = getenv(name);

    return path == NULL ? -1 : open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
}

static cl_int CL_API_CALL get_device_info(cl_device_id of, cl_device_info what, size_t size,
                                          void *value, size_t *length)
{
    const cl_int code = hooks.get_device_info(of, what, size, value, length);

    if (code != CL_SUCCESS || value == NULL)
        return code;
    if (what == CL_DEVICE_GLOBAL_MEM_SIZE && hooks.memory != 0 &&
        *(cl_ulong *)value > 2 * hooks.memory)
        *(cl_ulong *)value = 2 * hooks.memory;
    if (what == CL_DEVICE_MAX_WORK_GROUP_SIZE && hooks.group != 0)
        *(size_t *)value = hooks.group;
    if (what == CL_DEVICE_LOCAL_MEM_SIZE && hooks.local != 0)
        *(cl_ulong *)value = hooks.local;
    if (what == CL_DEVICE_MAX_MEM_ALLOC_SIZE && hooks.buffer != 0)
        *(cl_ulong *)value = hooks.buffer;
    if (what == CL_DEVICE_DOUBLE_FP_CONFIG && getenv("TEXCELL_TEST_CL_NO_DOUBLES") != NULL)
        *(cl_device_fp_config *)value = 0;
    if (what == CL_DEVICE_SINGLE_FP_CONFIG && getenv("TEXCELL_TEST_CL_NO_DENORMALS") != NULL)
        *(cl_device_fp_config *)value &= ~(cl_device_fp_config)CL_FP_DENORM;
    if (what == CL_DEVICE_TYPE && getenv("TEXCELL_TEST_CL_GPU") != NULL)
        *(cl_device_type *)value = CL_DEVICE_TYPE_GPU;
    if (what == CL_DEVICE_SINGLE_FP_CONFIG && getenv("TEXCELL_TEST_CL_ROUNDS") != NULL)
        *(cl_device_fp_config *)value |= CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT;
    return code;
}

/* The program asks for the start first, and then for the end. */
static cl_int CL_API_CALL get_profile(cl_event of, cl_profiling_info what, size_t size, void *value,
                                      size_t *length)
{
    const cl_int code = hooks.get_profile(of, what, size, value, length);

    if (code != CL_SUCCESS)
        return code;
    if (what == CL_PROFILING_COMMAND_START) {
        hooks.began = *(cl_ulong *)value;
        return code;
    }
    if (hooks.item_ns != 0)
        *(cl_ulong *)value = hooks.began + hooks.items * hooks.item_ns;
    hooks.items = 0;
    if (hooks.times != NULL && (fprintf(hooks.times, "%llu %llu\n", (unsigned long long)hooks.began,
                                        (unsigned long long)*(cl_ulong *)value) < 0 ||
                                fflush(hooks.times) != 0))
        give_up("the times cannot be written");
    return code;
}

/* --- bits that come out wrong ---------------------------------------------------------------- */

enum { MOST_KERNELS = 4096, MOST_ARGS = 32 };

/* A kernel's name, and the buffers that it was given. */
static struct {
    cl_kernel handle;
    char name[64];
    cl_mem memory[MOST_ARGS];
} kernels[MOST_KERNELS];

/* Where a kernel is, or a new one (handle NULL) may be. */
static size_t place_of(cl_kernel handle)
{
    size_t i = 0;

    while (i < MOST_KERNELS && kernels[i].handle != handle)
        i++;
    if (i == MOST_KERNELS)
        give_up("too many kernels");
    return i;
}

static cl_kernel CL_API_CALL create_kernel(cl_program program, const char *name, cl_int *status)
{
    const cl_kernel made = hooks.create_kernel(program, name, status);

    if (made != NULL) {
        const size_t i = place_of(NULL);

        memset(&kernels[i], 0, sizeof kernels[i]);
        kernels[i].handle = made;
        snprintf(kernels[i].name, sizeof kernels[i].name, "%s", name);
    }
    return made;
}

static cl_int CL_API_CALL release_kernel(cl_kernel kernel)
{
    kernels[place_of(kernel)].handle = NULL;
    return hooks.release_kernel(kernel);
}

static size_t bytes_of(cl_mem memory)
{
    size_t bytes = 0;

    return memory != NULL &&
                   hooks.memory_info(memory, CL_MEM_SIZE, sizeof bytes, &bytes, NULL) == CL_SUCCESS
               ? bytes
               : 0;
}

static cl_int CL_API_CALL set_arg(cl_kernel kernel, cl_uint index, size_t size, const void *value)
{
    cl_mem memory = NULL;

    /* What is as long as a handle may be a number: whether it is one of a buffer is for later. */
    const size_t handle = sizeof(void *);

    if (size == handle && value != NULL && index < MOST_ARGS)
        memcpy(&memory, value, handle);
    if (index < MOST_ARGS)
        kernels[place_of(kernel)].memory[index] = (uintptr_t)memory > 1u << 20 ? memory : NULL;
    return hooks.set_arg(kernel, index, size, value);
}

static unsigned long long next_random(void)
{
    hooks.random = hooks.random * 6364136223846793005u + 1442695040888963407u;
    return hooks.random >> 33;
}

/* What the buffers of a kernel hold, one behind the other; the caller frees. */
static unsigned char *contents_of(cl_command_queue queue, size_t kernel, size_t *bytes)
{
    unsigned char *all = NULL;

    *bytes = 0;
    for (int i = 0; i < MOST_ARGS; i++) {
        const size_t n = bytes_of(kernels[kernel].memory[i]);

        all = realloc(all, *bytes + n + 1);
        if (all == NULL ||
            (n > 0 && hooks.real.clEnqueueReadBuffer(queue, kernels[kernel].memory[i], CL_TRUE, 0,
                                                     n, all + *bytes, 0, NULL, NULL) != CL_SUCCESS))
            give_up("a buffer cannot be read");
        *bytes += n;
    }
    return all;
}

/* Turns a bit of what is not as it was before. */
static void flip_bit(cl_command_queue queue, size_t kernel, const unsigned char *before)
{
    size_t bytes, changed = 0, at = 0;
    unsigned char *const after = contents_of(queue, kernel, &bytes);

    for (size_t i = 0; i < bytes; i++)
        if (after[i] != before[i] && next_random() % ++changed == 0)
            at = i;
    if (changed > 0) {
        unsigned char byte = after[at] ^ (unsigned char)(1u << next_random() % 8);

        for (int i = 0; i < MOST_ARGS; i++) {
            const size_t n = bytes_of(kernels[kernel].memory[i]);

            if (at < n) {
                hooks.real.clEnqueueWriteBuffer(queue, kernels[kernel].memory[i], CL_TRUE, at, 1,
                                                &byte, 0, NULL, NULL);
                break;
            }
            at -= n;
        }
    }
    free(after);
}

static cl_int CL_API_CALL launch(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                                 const size_t *start, const size_t *global, const size_t *local,
                                 cl_uint n, const cl_event *after, cl_event *event)
{
    cl_ulong items = 1;

    for (cl_uint i = 0; i < dimensions; i++)
        items *= global[i];
    hooks.items += items;
    if (hooks.flip[0] == '\0' && hooks.launched_file < 0)
        return hooks.launch(queue, kernel, dimensions, start, global, local, n, after, event);
    const size_t which = place_of(kernel);
    const bool flips = strcmp(kernels[which].name, hooks.flip) == 0;
    size_t bytes;
    unsigned char *const before = flips ? contents_of(queue, which, &bytes) : NULL;
    const cl_int code =
        hooks.launch(queue, kernel, dimensions, start, global, local, n, after, event);

    if (hooks.launched_file >= 0)
        dprintf(hooks.launched_file, "%s\n", kernels[which].name);
    if (flips)
        flip_bit(queue, which, before);
    free(before);
    return code;
}

__attribute__((constructor)) static void begin(void)
{
    void *const process = dlopen(NULL, RTLD_NOW);
    void *library = process != NULL && dlsym(process, "clGetPlatformIDs") != NULL ? process : NULL;
    const char *const times = getenv("TEXCELL_TEST_CL_TIMES");
    const char *const flip = getenv("TEXCELL_TEST_CL_FLIP");
    bool ignored;

    if (library == NULL)
        library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        give_up("no libOpenCL.so.1");
#define FIND_STATUS(name, parameters, arguments) *(void **)&hooks.real.name = find(library, #name);
#define FIND_OBJECT(type, name, parameters, arguments) FIND_STATUS(name, , )
    OCL_CALLS(FIND_STATUS, FIND_STATUS, FIND_OBJECT, FIND_STATUS)
    hooks.get_device_info = hooks.real.clGetDeviceInfo;
    hooks.real.clGetDeviceInfo = get_device_info;
    hooks.get_profile = hooks.real.clGetEventProfilingInfo;
    hooks.real.clGetEventProfilingInfo = get_profile;
    hooks.launch = hooks.real.clEnqueueNDRangeKernel;
    hooks.real.clEnqueueNDRangeKernel = launch;
    hooks.create_kernel = hooks.real.clCreateKernel;
    hooks.set_arg = hooks.real.clSetKernelArg;
    hooks.release_kernel = hooks.real.clReleaseKernel;
    *(void **)&hooks.memory_info = find(library, "clGetMemObjectInfo");
    hooks.launched_file = opened("TEXCELL_TEST_CL_LAUNCHED");
    if (flip != NULL && sscanf(flip, "%63[^:]:%llu", hooks.flip, &hooks.random) != 2)
        give_up("TEXCELL_TEST_CL_FLIP");
    if (flip != NULL || hooks.launched_file >= 0) {
        hooks.real.clCreateKernel = create_kernel;
        hooks.real.clSetKernelArg = set_arg;
        hooks.real.clReleaseKernel = release_kernel;
    }
    hooks.group = number("TEXCELL_TEST_CL_GROUP", &ignored);
    hooks.local = number("TEXCELL_TEST_CL_LOCAL", &ignored);
    hooks.buffer = number("TEXCELL_TEST_CL_BUFFER", &ignored);
    hooks.item_ns = number("TEXCELL_TEST_CL_ITEM_NS", &ignored);
    hooks.fail_at = number("TEXCELL_TEST_CL_FAIL", &hooks.forever);
    hooks.error = -(cl_int)number("TEXCELL_TEST_CL_ERROR", &ignored);
    hooks.memory = number("TEXCELL_TEST_CL_MEMORY", &ignored);
    hooks.call_ms = number("TEXCELL_TEST_CL_CALL_MS", &ignored);
    hooks.count_file = opened("TEXCELL_TEST_CL_COUNT");
    hooks.places_file = opened("TEXCELL_TEST_CL_PLACES");
    choose_place(getenv("TEXCELL_TEST_CL_FAIL_AT"));
    hooks.times = times == NULL ? NULL : fopen(times, "ae");
}

static void write_count(void)
{
    char text[64];

    if (hooks.count_file < 0)
        return;
    snprintf(text, sizeof text, "%20llu %20lld\n", (unsigned long long)hooks.calls,
             (long long)hooks.live);
    if (pwrite(hooks.count_file, text, strlen(text), 0) < 0)
        give_up("the count cannot be written");
}

/* Counts one call; true if it is to fail. */
static bool strike(void)
{
    const unsigned long long call = ++hooks.calls;

    write_count();
    if (hooks.call_ms != 0)
        usleep((useconds_t)hooks.call_ms * 1000);
    return is_chosen(hooks.places_file >= 0) ||
           (hooks.fail_at != 0 && (hooks.forever ? call >= hooks.fail_at : call == hooks.fail_at));
}

static void count_object(int more)
{
    hooks.live += more;
    write_count();
}

static cl_int error_for(const char *name)
{
    if (hooks.error != 0)
        return hooks.error;
    if (strcmp(name, "clCreateBuffer") == 0)
        return CL_MEM_OBJECT_ALLOCATION_FAILURE;
    if (strcmp(name, "clBuildProgram") == 0)
        return CL_BUILD_PROGRAM_FAILURE;
    return CL_OUT_OF_RESOURCES;
}

#define HOOK_STATUS(name, parameters, arguments) \
    cl_int CL_API_CALL name parameters           \
    {                                            \
        if (strike())                            \
            return error_for(#name);             \
        return hooks.real.name arguments;        \
    }
#define HOOK_ENQUEUE(name, parameters, arguments)      \
    cl_int CL_API_CALL name parameters                 \
    {                                                  \
        if (strike())                                  \
            return error_for(#name);                   \
        const cl_int code = hooks.real.name arguments; \
        if (code == CL_SUCCESS && event != NULL)       \
            count_object(1);                           \
        return code;                                   \
    }
#define HOOK_OBJECT(type, name, parameters, arguments) \
    type CL_API_CALL name parameters                   \
    {                                                  \
        if (strike()) {                                \
            if (status != NULL)                        \
                *status = error_for(#name);            \
            return NULL;                               \
        }                                              \
        type const object = hooks.real.name arguments; \
        if (object != NULL)                            \
            count_object(1);                           \
        return object;                                 \
    }
#define HOOK_RELEASE(name, parameters, arguments) \
    cl_int CL_API_CALL name parameters            \
    {                                             \
        count_object(-1);                         \
        return hooks.real.name arguments;         \
    }
OCL_CALLS(HOOK_STATUS, HOOK_ENQUEUE, HOOK_OBJECT, HOOK_RELEASE)

__attribute__((destructor)) static void end(void)
{
    if (hooks.places_file >= 0)
        tell_places(hooks.places_file);
}
