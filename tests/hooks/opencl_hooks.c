/*
 * An OpenCL library for tests: it passes calls on to a real OpenCL library (the one that is already
 * in the process, such as Oclgrind, otherwise the system's), makes calls fail on demand, and
 * reports changed properties of devices. The program loads it if TEXCELL_OPENCL_LIBRARY names it.
 * Environment variables:
 *
 *   TEXCELL_TEST_CL_FAIL=N     the N-th call that can fail, from 1, fails
 *   TEXCELL_TEST_CL_FAIL=N+    that call and every later one fail, as if the device had been lost
 *   TEXCELL_TEST_CL_FAIL_AT=PLACE:N[+]  the N-th call from a place in the code fails (places.h)
 *   TEXCELL_TEST_CL_ERROR=N    calls fail with the error -N, instead of the errors named below
 *   TEXCELL_TEST_CL_COUNT=FILE gets the number of calls, and of objects that were made and not
 *                              released; rewritten at each call, as the process may be killed
 *   TEXCELL_TEST_CL_PLACES=FILE gets, at exit, the places of calls that can fail, and the number of
 *                              calls from each
 *   TEXCELL_TEST_CL_MEMORY=N   devices report at most 2 N bytes of memory, of which the program
 *                              uses half
 *   TEXCELL_TEST_CL_CALL_MS=N  each call that can fail takes N ms longer
 *   TEXCELL_TEST_CL_GPU=1      devices report that they are GPUs
 *   TEXCELL_TEST_CL_ROUNDS=1   devices report correctly rounded division, which Oclgrind has but
 *                              does not report
 *   TEXCELL_TEST_CL_TIMES=FILE gets a line with the start and the end, in nanoseconds of the
 *                              device's clock, of launches that the program has waited for
 *   TEXCELL_TEST_CL_ITEM_NS=N  launches take N ns a work-item by that clock
 *   TEXCELL_TEST_CL_FLIP=KERNEL:N  each launch of this kernel flips one bit of the bytes that it
 *                              changed, a random one (seed N)
 *   TEXCELL_TEST_CL_GROUP=N    devices report work-groups of N work-items
 *   TEXCELL_TEST_CL_LOCAL=N    devices report N bytes of local memory
 *   TEXCELL_TEST_CL_BUFFER=N   devices report N bytes as the size of the largest buffer
 *   TEXCELL_TEST_CL_NO_DOUBLES=1, _NO_DENORMALS=1  devices report that they have none
 *   TEXCELL_TEST_CL_LAUNCHED=FILE gets the names of the kernels that were launched
 *
 * All calls can fail except releases; they are counted over the whole process. A call that is made
 * to fail is not passed on. The error is CL_MEM_OBJECT_ALLOCATION_FAILURE if a buffer is created,
 * CL_BUILD_PROGRAM_FAILURE for a build, and otherwise CL_OUT_OF_RESOURCES.
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
    ocl_api real; /* the real functions, except for the replaced ones, which follow */
    cl_int(CL_API_CALL *get_device_info)(cl_device_id, cl_device_info, size_t, void *, size_t *);
    cl_int(CL_API_CALL *get_profile)(cl_event, cl_profiling_info, size_t, void *, size_t *);
    cl_int(CL_API_CALL *launch)(cl_command_queue, cl_kernel, cl_uint, const size_t *,
                                const size_t *, const size_t *, cl_uint, const cl_event *,
                                cl_event *);
    cl_kernel(CL_API_CALL *create_kernel)(cl_program, const char *, cl_int *);
    cl_int(CL_API_CALL *set_arg)(cl_kernel, cl_uint, size_t, const void *);
    cl_int(CL_API_CALL *release_kernel)(cl_kernel);
    cl_int(CL_API_CALL *memory_info)(cl_mem, cl_mem_info, size_t, void *, size_t *);
    unsigned long long group, local, buffer; /* limits to report; 0: the device's own */
    char flip[64];                           /* kernel in whose output a bit is flipped, or "" */
    unsigned long long random;               /* state of next_random */
    int launched_file;                       /* file descriptor; -1: none */
    bool forever;                            /* the call fail_at and all later ones fail */
    cl_int error;                            /* error of failing calls; 0: as error_for chooses */
    unsigned long long fail_at;              /* number of the call that fails; 0: none */
    unsigned long long memory;               /* half of the memory to report; 0: the device's own */
    unsigned long long call_ms;              /* additional time of a call */
    int count_file, places_file;             /* file descriptors; -1: none */
    FILE *times;                             /* TEXCELL_TEST_CL_TIMES; NULL: not set */
    cl_ulong began;   /* start of the first launch whose time the program asks for */
    cl_ulong items;   /* work-items launched since the program last asked for an end */
    cl_ulong item_ns; /* reported time of a work-item; 0: the device's clock */
    atomic_ullong calls;
    atomic_llong live; /* objects that were made and not released */
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

/* Returns the number in an environment variable, or 0. Sets *plus: whether "+" follows it. */
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

/* Opens the file that an environment variable names. Returns its descriptor, or -1 if the variable
 * is not set. */
static int open_named(const char *name)
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

/* Replaces clGetEventProfilingInfo. The program asks for the start first, and then for the end. */
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

/* --- wrong bits ------------------------------------------------------------------------------- */

enum { MOST_KERNELS = 4096, MOST_ARGS = 32 };

/* The kernels that exist, and for each argument its buffer, or NULL. */
static struct {
    cl_kernel handle;
    char name[64];
    cl_mem memory[MOST_ARGS];
} kernels[MOST_KERNELS];

/* Returns the index of a kernel in `kernels`, or of a free entry if handle is NULL. */
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

/* Returns the size of a buffer in bytes, or 0 if `memory` is NULL or not a buffer. */
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

    /* A value of a handle's size may also be a number: bytes_of returns 0 unless it is a buffer. */
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

/* Returns the contents of all buffers of a kernel, one after the other; the caller frees them. */
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

/* Flips one random bit in the bytes of the kernel's buffers that differ from `before`. */
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
    hooks.launched_file = open_named("TEXCELL_TEST_CL_LAUNCHED");
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
    hooks.count_file = open_named("TEXCELL_TEST_CL_COUNT");
    hooks.places_file = open_named("TEXCELL_TEST_CL_PLACES");
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

/* Counts a call; returns whether it must fail. */
static bool must_fail(void)
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
        if (must_fail())                         \
            return error_for(#name);             \
        return hooks.real.name arguments;        \
    }
#define HOOK_ENQUEUE(name, parameters, arguments)      \
    cl_int CL_API_CALL name parameters                 \
    {                                                  \
        if (must_fail())                               \
            return error_for(#name);                   \
        const cl_int code = hooks.real.name arguments; \
        if (code == CL_SUCCESS && event != NULL)       \
            count_object(1);                           \
        return code;                                   \
    }
#define HOOK_OBJECT(type, name, parameters, arguments) \
    type CL_API_CALL name parameters                   \
    {                                                  \
        if (must_fail()) {                             \
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

/* Writes the files at exit. */
__attribute__((destructor)) static void end(void)
{
    if (hooks.places_file >= 0)
        tell_places(hooks.places_file);
}
