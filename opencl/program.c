/* Builds the OpenCL programs of the embedded kernels. */
#include "opencl/program.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opencl/program_cache.h"

/* Sizes in bytes. */
enum {
    LOG_MAX = 256 * 1024, /* the largest build log that is read */
    LOG_SHOWN = 400,      /* the part of a build log that a message contains */
    FLAGS_MAX = 1024      /* the longest build flags */
};

/* Returns the build log, which the caller frees; NULL if it is empty, too long, or unreadable. */
static char *build_log(ocl_device *device, cl_program program)
{
    size_t length = 0;
    if (device->api.clGetProgramBuildInfo(program, device->info.id, CL_PROGRAM_BUILD_LOG, 0, NULL,
                                          &length) != CL_SUCCESS ||
        length <= 1 || length > LOG_MAX)
        return NULL;
    char *log = calloc(length + 1, 1);
    if (log != NULL &&
        device->api.clGetProgramBuildInfo(program, device->info.id, CL_PROGRAM_BUILD_LOG, length,
                                          log, NULL) != CL_SUCCESS) {
        free(log);
        return NULL;
    }
    return log;
}

/* Prints the whole build log to stderr, and returns TC_DEVICE with a message that contains the
 * log's beginning, on one line. */
static tc_status build_failed(ocl_device *device, const ocl_source *source, cl_program program,
                              cl_int code, tc_err *err)
{
    char excerpt[LOG_SHOWN] = "";
    char *log = build_log(device, program);
    if (log != NULL) {
        fprintf(stderr, "texcell: build log of %s on %s:\n%s\n", source->name, device->info.name,
                log);
        snprintf(excerpt, sizeof excerpt, "%s", log);
        for (char *c = excerpt; *c != '\0'; c++)
            if (*c < ' ' || *c > '~')
                *c = ' ';
    }
    free(log);
    return tc_fail(err, TC_DEVICE, "%s: build of %s: %s%s%s", device->info.name, source->name,
                   ocl_error_name(code), excerpt[0] != '\0' ? ": " : "", excerpt);
}

/* Writes the build flags to out. defines: further flags, or NULL; floats: the kernels divide floats
 * or compute their square roots, and the results must be rounded correctly if the device can do so.
 */
static tc_status make_flags(const ocl_device *device, const ocl_source *source, const char *defines,
                            bool floats, char *out, size_t size, tc_err *err)
{
    const bool rounding =
        floats && (device->info.single_fp & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
    const int length = snprintf(out, size, "-cl-std=CL1.2%s%s%s%s",
                                device->contract_off < 0 ? "" : " -ffp-contract=off",
                                rounding ? " -cl-fp32-correctly-rounded-divide-sqrt" : "",
                                defines != NULL ? " " : "", defines != NULL ? defines : "");
    if (length < 0 || (size_t)length >= size)
        return tc_fail(err, TC_INTERNAL, "%s: the build flags are too long", source->name);
    return TC_OK;
}

/* Returns a copy of the array of pointers to the source's lines, as OpenCL requires an array that
 * is not const. The caller frees it. */
static const char **copy_lines(const ocl_source *source)
{
    size_t bytes;
    if (!tc_mul_size(source->count, sizeof(char *), &bytes))
        return NULL;
    const char **lines = malloc(bytes);
    if (lines != NULL)
        memcpy(lines, source->lines, bytes);
    return lines;
}

/* Loads the program from the cache folder, or else compiles it. If TC_OK is returned, *code is the
 * result of clBuildProgram, which may be an error. */
static tc_status compile_or_load(ocl_device *device, const ocl_source *source, const char *flags,
                                 cl_program *program, cl_int *code, tc_err *err)
{
    const ocl_program_source key = { source->lines, source->count, flags };

    *code = CL_SUCCESS;
    *program = ocl_program_cache_load(device, &key);
    if (*program != NULL)
        return TC_OK;
    const char **lines = copy_lines(source);
    if (lines == NULL)
        return tc_no_memory(err, source->name);
    *program = device->api.clCreateProgramWithSource(device->context, (cl_uint)source->count, lines,
                                                     NULL, code);
    free(lines);
    if (*program == NULL || *code != CL_SUCCESS)
        return ocl_fail(device, "clCreateProgramWithSource", *code, err);
    const double start = ocl_clock_ms();

    *code = device->api.clBuildProgram(*program, 1, &device->info.id, flags, NULL, NULL);
    const double build_ms = ocl_clock_ms() - start;
    device->times.build += build_ms;
    if (*code == CL_SUCCESS)
        ocl_program_cache_store(device, &key, *program, build_ms);
    return TC_OK;
}

/* --- programs built before ------------------------------------------------------------------- */

enum { MOST_PROGRAMS = 12 }; /* the most programs that are stored */
/* The programs that were built last on the device. They are stored, since a job often uses the same
 * programs as the self-tests before it. */
struct ocl_programs {
    size_t n_built; /* number of programs built; the next one replaces entries[n_built %
                       MOST_PROGRAMS] */
    struct {
        const ocl_source *source;
        cl_program program; /* NULL if the entry is unused */
        char flags[FLAGS_MAX];
    } entries[MOST_PROGRAMS];
};

/* Implements ocl_device.free_programs. */
static void free_programs(ocl_device *device)
{
    for (size_t i = 0; i < MOST_PROGRAMS; i++)
        if (device->programs->entries[i].program != NULL)
            device->api.clReleaseProgram(device->programs->entries[i].program);
    free(device->programs);
    device->programs = NULL;
}

/* Returns the stored program that was built from this source with these flags, or NULL. */
static cl_program find_program(const ocl_device *device, const ocl_source *source,
                               const char *flags)
{
    const struct ocl_programs *const programs = device->programs;

    for (size_t i = 0; programs != NULL && i < MOST_PROGRAMS; i++)
        if (programs->entries[i].program != NULL && programs->entries[i].source == source &&
            strcmp(programs->entries[i].flags, flags) == 0)
            return programs->entries[i].program;
    return NULL;
}

/* Stores a program in device->programs, which then owns it, in place of the oldest one. Releases
 * the program after an error. (OpenCL keeps a released program as long as it has kernels.) */
static tc_status store_program(ocl_device *device, const ocl_source *source, const char *flags,
                               cl_program program, tc_err *err)
{
    if (device->programs == NULL) {
        device->programs = calloc(1, sizeof *device->programs);
        device->free_programs = free_programs;
    }
    if (device->programs == NULL) {
        device->api.clReleaseProgram(program);
        return tc_no_memory(err, source->name);
    }
    const size_t at = device->programs->n_built++ % MOST_PROGRAMS;

    if (device->programs->entries[at].program != NULL)
        device->api.clReleaseProgram(device->programs->entries[at].program);
    device->programs->entries[at].source = source;
    device->programs->entries[at].program = program;
    snprintf(device->programs->entries[at].flags, FLAGS_MAX, "%s", flags);
    return TC_OK;
}

tc_status ocl_program_build(ocl_device *device, const ocl_source *source, const char *defines,
                            bool floats, cl_program *program, tc_err *err)
{
    assert(source->count > 0);
    char flags[FLAGS_MAX];
    cl_int code = CL_SUCCESS;
    tc_status status;
    bool retry;

    /* If it is not known yet whether the compiler accepts -ffp-contract=off (contract_off is 0),
     * and the build fails, the program is built again without this flag. */
    do {
        *program = NULL;
        status = make_flags(device, source, defines, floats, flags, sizeof flags, err);
        if (status == TC_OK && (*program = find_program(device, source, flags)) != NULL)
            return TC_OK;
        if (status == TC_OK)
            status = compile_or_load(device, source, flags, program, &code, err);
        retry = status == TC_OK && code != CL_SUCCESS && device->contract_off == 0;
        if (status == TC_OK && device->contract_off == 0)
            device->contract_off = code == CL_SUCCESS ? 1 : -1;
        if (status == TC_OK && code != CL_SUCCESS && !retry)
            status = build_failed(device, source, *program, code, err);
        if ((status != TC_OK || retry) && *program != NULL)
            device->api.clReleaseProgram(*program);
    } while (retry);
    if (status == TC_OK)
        status = store_program(device, source, flags, *program, err);
    if (status != TC_OK)
        *program = NULL;
    return status;
}

tc_status ocl_kernel_new(ocl_device *device, cl_program program, const char *name,
                         ocl_kernel *kernel, tc_err *err)
{
    const struct {
        cl_kernel_work_group_info what;
        void *value;
        size_t size;
    } queries[] = {
        { CL_KERNEL_WORK_GROUP_SIZE, &kernel->max_group, sizeof kernel->max_group },
        { CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE, &kernel->multiple,
          sizeof kernel->multiple },
        { CL_KERNEL_LOCAL_MEM_SIZE, &kernel->local_bytes, sizeof kernel->local_bytes },
    };
    cl_int code = CL_SUCCESS;

    memset(kernel, 0, sizeof *kernel);
    kernel->name = name;
    cl_kernel handle = device->api.clCreateKernel(program, name, &code);
    if (handle == NULL || code != CL_SUCCESS)
        return tc_fail(err, TC_DEVICE, "%s: kernel %s: %s", device->info.name, name,
                       ocl_error_name(code));
    kernel->handle = handle;
    for (size_t i = 0; i < sizeof queries / sizeof queries[0]; i++) {
        code = device->api.clGetKernelWorkGroupInfo(handle, device->info.id, queries[i].what,
                                                    queries[i].size, queries[i].value, NULL);
        if (code != CL_SUCCESS) {
            ocl_kernel_free(device, kernel);
            return ocl_fail(device, "clGetKernelWorkGroupInfo", code, err);
        }
    }
    if (kernel->max_group > device->info.max_group)
        kernel->max_group = device->info.max_group;
    if (kernel->multiple == 0)
        kernel->multiple = 1;
    return TC_OK;
}

void ocl_kernel_free(ocl_device *device, ocl_kernel *kernel)
{
    if (kernel->handle != NULL)
        device->api.clReleaseKernel(kernel->handle);
    memset(kernel, 0, sizeof *kernel);
}
