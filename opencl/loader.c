/* Loads the OpenCL library at run time. */
#include "opencl/loader.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/base/guard.h"
#include "app/base/os.h"

/* Returns a handle of the process itself if it has already loaded OpenCL, else NULL. */
static void *preloaded_library(void)
{
    void *const self = os_open_library(NULL);
    return self != NULL && os_find_function(self, "clGetPlatformIDs") != NULL ? self : NULL;
}

/* Looks up every function of OCL_CALLS in the library. Returns the name of the first function that
 * is missing, or NULL if there is none. */
static const char *resolve(void *library, ocl_api *api)
{
    os_function function;
#define RESOLVE(name)                            \
    function = os_find_function(library, #name); \
    if (function == NULL)                        \
        return #name;                            \
    memcpy(&api->name, &function, sizeof function);
#define RESOLVE_STATUS(name, parameters, arguments) RESOLVE(name)
#define RESOLVE_OBJECT(type, name, parameters, arguments) RESOLVE(name)
    /* The macros for the four kinds of functions: STATUS, ENQUEUE, OBJECT and RELEASE. */
    OCL_CALLS(RESOLVE_STATUS, RESOLVE_STATUS, RESOLVE_OBJECT, RESOLVE_STATUS)
#undef RESOLVE
#undef RESOLVE_STATUS
#undef RESOLVE_OBJECT
    return NULL;
}

/* --- calls within the guard (guard.h) -------------------------------------------------------- */

/* The library's functions, which the guarded_... functions call. The variable is static, because
 * OpenCL's functions have no parameter by which it could be passed. */
static ocl_api library_api;

/* Leaves the guard after a call, and restores the guard's signal handlers after the first calls of
 * each function: a driver may install its own handlers when it is loaded, or when a function first
 * loads more of the driver. *n_calls: the number of calls of the function, counted up to
 * FIRST_CALLS. */
static void leave_guard(unsigned *n_calls)
{
    enum { FIRST_CALLS = 4 };

    tc_guard_leave();
    if (*n_calls < FIRST_CALLS) {
        ++*n_calls;
        tc_guard_reinstall_handlers();
    }
}

/* Whether the function waits for launches to complete; the guard then gives it more time before it
 * suspends or ends the program. */
static bool waits_for_launches(const char *name)
{
    return strcmp(name, "clWaitForEvents") == 0 || strcmp(name, "clFinish") == 0;
}

/* Defines guarded_NAME, which calls NAME of the library within the guard. */
/* NOLINTBEGIN(bugprone-macro-parentheses): a type cannot be in parentheses here */
#define GUARDED_OBJECT(type, name, parameters, arguments) \
    static type CL_API_CALL guarded_##name parameters     \
    {                                                     \
        static unsigned n_calls;                          \
        tc_guard_enter(#name, waits_for_launches(#name)); \
        type const result = library_api.name arguments;   \
        leave_guard(&n_calls);                            \
        return result;                                    \
    }
/* NOLINTEND(bugprone-macro-parentheses) */
#define GUARDED_STATUS(name, parameters, arguments) \
    GUARDED_OBJECT(cl_int, name, parameters, arguments)
OCL_CALLS(GUARDED_STATUS, GUARDED_STATUS, GUARDED_OBJECT, GUARDED_STATUS)

/* Replaces the functions of *api by guarded ones, so that a crash or hang of the driver is reported
 * with the name of the function. */
static void guard_calls(ocl_api *api)
{
    library_api = *api;
#define PUT_STATUS(name, parameters, arguments) api->name = guarded_##name;
#define PUT_OBJECT(type, name, parameters, arguments) api->name = guarded_##name;
    OCL_CALLS(PUT_STATUS, PUT_STATUS, PUT_OBJECT, PUT_STATUS)
}

/* --- loading --------------------------------------------------------------------------------- */

tc_status ocl_load_library(ocl_api *api, tc_err *err)
{
    memset(api, 0, sizeof *api);
    const char *name = getenv("TEXCELL_OPENCL_LIBRARY");
    const bool is_set = name != NULL && name[0] != '\0';
    if (!is_set)
        name = os_opencl_library_name;
    tc_guard_enter("loading OpenCL", /* waits_for_launch */ false);
    void *library = is_set ? NULL : preloaded_library();
    if (library == NULL)
        library = os_open_library(name);
    tc_guard_leave();
    if (library == NULL && os_open_library(NULL) == NULL)
        return tc_fail(err, TC_DEVICE,
                       "this program was linked statically and can load no library: %s is not used",
                       name);
    if (library == NULL)
        return tc_fail(err, TC_DEVICE, "no OpenCL on this machine: %s could not be opened", name);
    const char *missing = resolve(library, api);
    if (missing != NULL) {
        memset(api, 0, sizeof *api);
        return tc_fail(err, TC_DEVICE, "no OpenCL 1.2 on this machine: %s has no %s", name,
                       missing);
    }
    guard_calls(api);
    return TC_OK;
}

/* --- whether there can be a GPU -------------------------------------------------------------- */

typedef struct drivers {
    const char *folder; /* the folder that has a file NAME.icd for each driver */
    unsigned n;         /* number of drivers found */
} drivers;

/* For os_list: returns 1, which ends the listing, for an .icd file that cannot be read or belongs
 * to a driver other than PoCL and Mesa. PoCL and Mesa use a GPU only through devices that
 * is_gpu_name finds in /dev. */
static int is_other_driver(void *user, const char *name, bool may_be_folder)
{
    drivers *const d = user;
    char path[1024], text[256] = "";
    const char *const end = strrchr(name, '.');

    (void)may_be_folder;
    if (end == NULL || strcmp(end, ".icd") != 0)
        return 0;
    snprintf(path, sizeof path, "%s/%s", d->folder, name);
    const int fd = os_open(path, OS_READ);
    const bool read = fd >= 0 && os_read_at(fd, text, sizeof text - 1, 0) > 0;
    if (fd >= 0)
        close(fd);
    d->n++;
    return !read || (strstr(text, "libpocl") == NULL && strstr(text, "libMesaOpenCL") == NULL &&
                     strstr(text, "libRusticlOpenCL") == NULL);
}

/* For os_list: returns 1 for the name of a file or folder in /dev that a GPU's kernel driver
 * creates. (Some builds of PoCL can use such GPUs.) */
static int is_gpu_name(void *user, const char *name, bool may_be_folder)
{
    static const char *const names[] = { "dri", "nvidia", "nvhost", "nvmap", "nvgpu",
                                         "kfd", "dxg",    "mali",   "kgsl",  "galcore" };

    (void)user;
    (void)may_be_folder;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0)
            return 1;
    return 0;
}

/* Returns false also if it is not known whether there is a GPU. */
bool ocl_has_no_gpu(void)
{
    static const char *const variables[] = { "TEXCELL_OPENCL_LIBRARY", "OCL_ICD_FILENAMES",
                                             "POCL_DEVICES" };
    const char *const vendors = getenv("OCL_ICD_VENDORS");
    drivers d = { .folder = vendors != NULL ? vendors : "/etc/OpenCL/vendors" };

    /* These variables can choose libraries and devices that the test below does not see. */
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        if (getenv(variables[i]) != NULL)
            return false;
    return preloaded_library() == NULL && os_list(d.folder, is_other_driver, &d) == 0 && d.n > 0 &&
           os_list("/dev", is_gpu_name, NULL) == 0;
}

const char *ocl_error_name(cl_int code)
{
    static const struct {
        cl_int code;
        const char *name;
    } names[] = {
#define NAME(code) { code, #code }
        NAME(CL_SUCCESS),
        NAME(CL_DEVICE_NOT_FOUND),
        NAME(CL_DEVICE_NOT_AVAILABLE),
        NAME(CL_COMPILER_NOT_AVAILABLE),
        NAME(CL_MEM_OBJECT_ALLOCATION_FAILURE),
        NAME(CL_OUT_OF_RESOURCES),
        NAME(CL_OUT_OF_HOST_MEMORY),
        NAME(CL_PROFILING_INFO_NOT_AVAILABLE),
        NAME(CL_MEM_COPY_OVERLAP),
        NAME(CL_BUILD_PROGRAM_FAILURE),
        NAME(CL_MAP_FAILURE),
        NAME(CL_MISALIGNED_SUB_BUFFER_OFFSET),
        NAME(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST),
        NAME(CL_COMPILE_PROGRAM_FAILURE),
        NAME(CL_LINKER_NOT_AVAILABLE),
        NAME(CL_LINK_PROGRAM_FAILURE),
        NAME(CL_DEVICE_PARTITION_FAILED),
        NAME(CL_KERNEL_ARG_INFO_NOT_AVAILABLE),
        NAME(CL_INVALID_VALUE),
        NAME(CL_INVALID_DEVICE_TYPE),
        NAME(CL_INVALID_PLATFORM),
        NAME(CL_INVALID_DEVICE),
        NAME(CL_INVALID_CONTEXT),
        NAME(CL_INVALID_QUEUE_PROPERTIES),
        NAME(CL_INVALID_COMMAND_QUEUE),
        NAME(CL_INVALID_HOST_PTR),
        NAME(CL_INVALID_MEM_OBJECT),
        NAME(CL_INVALID_BINARY),
        NAME(CL_INVALID_BUILD_OPTIONS),
        NAME(CL_INVALID_PROGRAM),
        NAME(CL_INVALID_PROGRAM_EXECUTABLE),
        NAME(CL_INVALID_KERNEL_NAME),
        NAME(CL_INVALID_KERNEL_DEFINITION),
        NAME(CL_INVALID_KERNEL),
        NAME(CL_INVALID_ARG_INDEX),
        NAME(CL_INVALID_ARG_VALUE),
        NAME(CL_INVALID_ARG_SIZE),
        NAME(CL_INVALID_KERNEL_ARGS),
        NAME(CL_INVALID_WORK_DIMENSION),
        NAME(CL_INVALID_WORK_GROUP_SIZE),
        NAME(CL_INVALID_WORK_ITEM_SIZE),
        NAME(CL_INVALID_GLOBAL_OFFSET),
        NAME(CL_INVALID_EVENT_WAIT_LIST),
        NAME(CL_INVALID_EVENT),
        NAME(CL_INVALID_OPERATION),
        NAME(CL_INVALID_BUFFER_SIZE),
        NAME(CL_INVALID_GLOBAL_WORK_SIZE),
        NAME(CL_INVALID_PROPERTY),
        NAME(CL_INVALID_COMPILER_OPTIONS),
        NAME(CL_INVALID_LINKER_OPTIONS),
#undef NAME
        { -1001, "CL_PLATFORM_NOT_FOUND_KHR" },
        { -9999, "NVIDIA: illegal read or write to a buffer" },
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].code == code)
            return names[i].name;
    return "an OpenCL error without a name";
}
