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

static cl_int CL_API_CALL launch(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                                 const size_t *start, const size_t *global, const size_t *local,
                                 cl_uint n, const cl_event *after, cl_event *event)
{
    cl_ulong items = 1;

    for (cl_uint i = 0; i < dimensions; i++)
        items *= global[i];
    hooks.items += items;
    return hooks.launch(queue, kernel, dimensions, start, global, local, n, after, event);
}

__attribute__((constructor)) static void begin(void)
{
    void *const process = dlopen(NULL, RTLD_NOW);
    void *library = process != NULL && dlsym(process, "clGetPlatformIDs") != NULL ? process : NULL;
    const char *const times = getenv("TEXCELL_TEST_CL_TIMES");
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
