#include "opencl/fault.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* OpenCL's functions have no argument in which a shim could be handed its own
 * data, hence the only variables of the program that outlive a call. */
static struct {
    ocl_api real;
    bool installed;
    bool forever;          /* "N+" */
    uint64_t fail_at;      /* 0: never */
    atomic_uint_fast64_t calls;
    atomic_int_fast64_t live;  /* objects made and not released */
    const char *count_file;
} shim;

/* Counts one call; true if it is to fail. */
static bool strike(void)
{
    uint64_t call = (uint64_t)atomic_fetch_add(&shim.calls, 1) + 1;
    return shim.fail_at != 0 && (shim.forever ? call >= shim.fail_at : call == shim.fail_at);
}

static cl_int error_for(const char *name)
{
    if (strcmp(name, "clCreateBuffer") == 0)
        return CL_MEM_OBJECT_ALLOCATION_FAILURE;
    if (strcmp(name, "clBuildProgram") == 0)
        return CL_BUILD_PROGRAM_FAILURE;
    return CL_OUT_OF_RESOURCES;
}

#define FAULT_STATUS(name, parameters, arguments)                      \
    static cl_int CL_API_CALL fault_##name parameters                  \
    {                                                                  \
        return strike() ? error_for(#name) : shim.real.name arguments; \
    }
#define FAULT_ENQUEUE(name, parameters, arguments)                     \
    static cl_int CL_API_CALL fault_##name parameters                  \
    {                                                                  \
        if (strike())                                                  \
            return error_for(#name);                                   \
        const cl_int code = shim.real.name arguments;                  \
        if (code == CL_SUCCESS && event != NULL)                       \
            atomic_fetch_add(&shim.live, 1);                           \
        return code;                                                   \
    }
#define FAULT_OBJECT(type, name, parameters, arguments)                \
    static type CL_API_CALL fault_##name parameters                    \
    {                                                                  \
        if (strike()) {                                                \
            if (status != NULL)                                        \
                *status = error_for(#name);                            \
            return NULL;                                               \
        }                                                              \
        type object = shim.real.name arguments;                        \
        if (object != NULL)                                            \
            atomic_fetch_add(&shim.live, 1);                           \
        return object;                                                 \
    }
#define FAULT_RELEASE(name, parameters, arguments)                     \
    static cl_int CL_API_CALL fault_##name parameters                  \
    {                                                                  \
        atomic_fetch_sub(&shim.live, 1);                               \
        return shim.real.name arguments;                               \
    }
OCL_CALLS(FAULT_STATUS, FAULT_ENQUEUE, FAULT_OBJECT, FAULT_RELEASE)

static void write_count(void)
{
    FILE *file = fopen(shim.count_file, "w");
    if (file == NULL)
        return;
    fprintf(file, "%llu %lld\n", (unsigned long long)atomic_load(&shim.calls),
            (long long)atomic_load(&shim.live));
    fclose(file);
}

static tc_status parse_fail(const char *text, tc_err *err)
{
    char *end = NULL;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    bool forever = *end == '+';
    if (errno != 0 || n == 0 || text[0] < '0' || text[0] > '9' || end[forever] != '\0')
        return tc_fail(err, TC_USAGE, "TEXCELL_TEST_CL_FAIL: \"%s\" is not N or N+", text);
    shim.fail_at = n;
    shim.forever = forever;
    return TC_OK;
}

tc_status ocl_fault_install(ocl_api *api, tc_err *err)
{
    const char *fail = getenv("TEXCELL_TEST_CL_FAIL");
    const char *count = getenv("TEXCELL_TEST_CL_COUNT");
    if (fail == NULL && count == NULL)
        return TC_OK;
    if (!shim.installed) {
        if (fail != NULL) {
            tc_status status = parse_fail(fail, err);
            if (status != TC_OK)
                return status;
        }
        shim.real = *api;
        shim.installed = true;
        shim.count_file = count;
        if (count != NULL)
            atexit(write_count);
    }
#define WRAP_STATUS(name, parameters, arguments) api->name = fault_##name;
#define WRAP_OBJECT(type, name, parameters, arguments) api->name = fault_##name;
    OCL_CALLS(WRAP_STATUS, WRAP_STATUS, WRAP_OBJECT, WRAP_STATUS)
    return TC_OK;
}

uint64_t ocl_fault_memory(uint64_t bytes)
{
    const char *text = getenv("TEXCELL_TEST_CL_MEMORY");
    const uint64_t most = text != NULL ? strtoull(text, NULL, 10) : 0;
    return most > 0 && most < bytes ? most : bytes;
}
