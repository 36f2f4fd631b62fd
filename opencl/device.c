/* Lists OpenCL devices, chooses one, and opens it. */
#include "opencl/device.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/selftest.h"
#include "app/base/array.h"

enum {
    PLATFORMS_MAX = 64, /* the most platforms that are listed; others are ignored */
    DEVICES_MAX = 256   /* the most devices of a platform that are listed */
};

/* --- a device's properties ------------------------------------------------------------------- */

/* Copies text that a driver has returned, without leading and trailing spaces, and with "?" in
 * place of every byte that is not printable ASCII. */
static void clean_copy(char *out, size_t size, const char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    size_t n = 0;
    for (; text[n] != '\0' && n + 1 < size; n++)
        out[n] = (char)(text[n] >= ' ' && text[n] <= '~' ? text[n] : '?');
    while (n > 0 && out[n - 1] == ' ')
        n--;
    out[n] = '\0';
}

/* Records in info->refusal why a device cannot be used. */
static void refuse_device(ocl_info *info, const char *format, ...)
{
    va_list args;
    if (info->refusal[0] != '\0')
        return; /* the first reason stays */
    va_start(args, format);
    vsnprintf(info->refusal, sizeof info->refusal, format, args);
    va_end(args);
}

/* Queries the property `what` of the device. After a failure, records that the device cannot be
 * used and zeroes *value, so that the caller need not check after each query. */
static void query_info(const ocl_api *api, ocl_info *info, cl_device_info what,
                       const char *what_name, void *value, size_t size)
{
    memset(value, 0, size);
    const cl_int code = api->clGetDeviceInfo(info->id, what, size, value, NULL);
    if (code != CL_SUCCESS) {
        memset(value, 0, size);
        refuse_device(info, "it does not report its %s: %s", what_name, ocl_error_name(code));
    }
}
/* QUERY and QUERY_TEXT need the variables `api` and `info`. */
#define QUERY(what, value) query_info(api, info, what, #what, &(value), sizeof(value))

/* Queries a property that is text. After a failure, records that the device cannot be used and sets
 * out to "". */
static void query_text(const ocl_api *api, ocl_info *info, cl_device_info what,
                       const char *what_name, char *out, size_t out_size)
{
    char text[1024] = "";
    const cl_int code = api->clGetDeviceInfo(info->id, what, sizeof text - 1, text, NULL);
    text[sizeof text - 1] = '\0';
    clean_copy(out, out_size, code == CL_SUCCESS ? text : "");
    if (code != CL_SUCCESS)
        refuse_device(info, "it does not report its %s: %s", what_name, ocl_error_name(code));
}
#define QUERY_TEXT(what, out) query_text(api, info, what, #what, out, sizeof(out))

/* Whether a version string is `prefix` ("OpenCL " or "OpenCL C ") followed by 1.2 or a later
 * version.
 */
static bool is_12(const char *version, const char *prefix)
{
    unsigned major = 0, minor = 0;
    const size_t n = strlen(prefix);
    /* NOLINTNEXTLINE(cert-err34-c): numbers of three digits do not overflow */
    if (strncmp(version, prefix, n) != 0 || sscanf(version + n, "%3u.%3u", &major, &minor) != 2)
        return false;
    return major > 1 || (major == 1 && minor >= 2);
}

/* Refuses the device unless it, its platform and its compiler support OpenCL 1.2 in the full
 * profile. */
static void check_versions(const ocl_api *api, ocl_info *info, const char *platform_version)
{
    char version[64], c_version[64], profile[64];
    QUERY_TEXT(CL_DEVICE_VERSION, version);
    QUERY_TEXT(CL_DEVICE_OPENCL_C_VERSION, c_version);
    QUERY_TEXT(CL_DEVICE_PROFILE, profile);
    if (!is_12(platform_version, "OpenCL "))
        refuse_device(info, "its platform is \"%.40s\", OpenCL 1.2 is needed", platform_version);
    if (!is_12(version, "OpenCL "))
        refuse_device(info, "it is \"%.40s\", OpenCL 1.2 is needed", version);
    if (!is_12(c_version, "OpenCL C "))
        refuse_device(info, "it compiles \"%.40s\", OpenCL C 1.2 is needed", c_version);
    if (strcmp(profile, "FULL_PROFILE") != 0)
        refuse_device(info, "its profile is \"%.40s\", the full profile is needed", profile);
}

/* Refuses the device if it cannot be used now or is big-endian. */
static void check_flags(const ocl_api *api, ocl_info *info)
{
    cl_bool available, compiler, little;
    QUERY(CL_DEVICE_AVAILABLE, available);
    QUERY(CL_DEVICE_COMPILER_AVAILABLE, compiler);
    QUERY(CL_DEVICE_ENDIAN_LITTLE, little);
    if (!available)
        refuse_device(info, "it is not available");
    if (!compiler)
        refuse_device(info, "it has no compiler");
    if (!little)
        refuse_device(info, "it is not little-endian");
}

/* Reads the sizes and floating-point properties, and refuses the device if it has less than the
 * minima of device.h (OCL_MIN_...). */
static void check_sizes(const ocl_api *api, ocl_info *info)
{
    /* The most work-items of a work-group along each dimension. Devices have at least three
     * dimensions; some have more. */
    size_t along[16];
    cl_device_fp_config double_fp = 0;
    QUERY(CL_DEVICE_MAX_COMPUTE_UNITS, info->compute_units);
    QUERY(CL_DEVICE_MAX_CLOCK_FREQUENCY, info->clock_mhz);
    QUERY(CL_DEVICE_GLOBAL_MEM_SIZE, info->global_bytes);
    QUERY(CL_DEVICE_MAX_MEM_ALLOC_SIZE, info->max_alloc_bytes);
    QUERY(CL_DEVICE_LOCAL_MEM_SIZE, info->local_bytes);
    QUERY(CL_DEVICE_MAX_WORK_GROUP_SIZE, info->max_group);
    QUERY(CL_DEVICE_MAX_WORK_ITEM_SIZES, along);
    QUERY(CL_DEVICE_SINGLE_FP_CONFIG, info->single_fp);
    QUERY(CL_DEVICE_DOUBLE_FP_CONFIG, double_fp);
    info->doubles = double_fp != 0;
    if (info->max_group > along[0])
        info->max_group = along[0];
    if (info->local_bytes < OCL_MIN_LOCAL_BYTES)
        refuse_device(info, "it has %llu bytes of local memory, %d are needed",
                      (unsigned long long)info->local_bytes, OCL_MIN_LOCAL_BYTES);
    if (along[1] < OCL_MIN_GROUP_ROWS)
        refuse_device(info, "its work-groups have %zu rows at most, %d are needed", along[1],
                      OCL_MIN_GROUP_ROWS);
    if (info->max_group < OCL_MIN_GROUP)
        refuse_device(info, "its work-groups have %zu work-items at most, %d are needed",
                      info->max_group, OCL_MIN_GROUP);
}

/* Reads all properties of the device info->id into *info. */
static void describe_device(const ocl_api *api, ocl_info *info, const char *platform_version)
{
    QUERY_TEXT(CL_DEVICE_NAME, info->name);
    if (info->name[0] == '\0')
        snprintf(info->name, sizeof info->name, "a device without a name");
    QUERY_TEXT(CL_DEVICE_VENDOR, info->vendor);
    QUERY_TEXT(CL_DRIVER_VERSION, info->driver);
    QUERY(CL_DEVICE_TYPE, info->type);
    check_versions(api, info, platform_version);
    check_flags(api, info);
    check_sizes(api, info);
}

/* --- the list -------------------------------------------------------------------------------- */

typedef struct device_list {
    ocl_info *entries; /* [capacity], of which the first `count` are used */
    size_t count, capacity;
} device_list;

/* Appends a copy of the entry to the list. */
static tc_status add_entry(device_list *list, const ocl_info *entry, tc_err *err)
{
    ocl_info *const grown =
        tc_array_grow(list->entries, list->count, &list->capacity, sizeof *grown);
    if (grown == NULL)
        return tc_no_memory(err, "the list of devices");
    list->entries = grown;
    grown[list->count++] = *entry;
    return TC_OK;
}

/* Lists the platform's devices of the given types. Returns CL_SUCCESS and sets *count to 0 if there
 * are none. */
static cl_int get_devices(const ocl_api *api, cl_platform_id platform, cl_device_type types,
                          cl_device_id ids[DEVICES_MAX], cl_uint *count)
{
    *count = 0;
    const cl_int code = api->clGetDeviceIDs(platform, types, DEVICES_MAX, ids, count);
    if (*count > DEVICES_MAX)
        *count = DEVICES_MAX;
    if (code != CL_SUCCESS)
        *count = 0;
    return code == CL_DEVICE_NOT_FOUND ? CL_SUCCESS : code;
}

/* Sets out to a property of the platform; after a failure to the name of the error. */
static void platform_text(const ocl_api *api, cl_platform_id platform, cl_platform_info what,
                          char *out, size_t out_size)
{
    char text[1024] = "";
    const cl_int code = api->clGetPlatformInfo(platform, what, sizeof text - 1, text, NULL);
    text[sizeof text - 1] = '\0';
    clean_copy(out, out_size, code == CL_SUCCESS ? text : ocl_error_name(code));
}

/* Adds the platform's devices to the list. If the platform does not report its devices, adds an
 * entry without a device that contains the reason. */
static tc_status add_platform(const ocl_api *api, device_list *list, cl_platform_id platform,
                              unsigned index, tc_err *err)
{
    cl_device_id all[DEVICES_MAX], gpus[DEVICES_MAX];
    cl_uint count, gpu_count;
    char version[64];
    ocl_info base = { .platform_index = index, .gpu_index = -1, .platform = platform };

    platform_text(api, platform, CL_PLATFORM_NAME, base.platform_name, sizeof base.platform_name);
    platform_text(api, platform, CL_PLATFORM_VERSION, version, sizeof version);
    cl_int code = get_devices(api, platform, CL_DEVICE_TYPE_ALL, all, &count);
    if (code == CL_SUCCESS)
        code = get_devices(api, platform, CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_ACCELERATOR, gpus,
                           &gpu_count);
    if (code != CL_SUCCESS) {
        snprintf(base.name, sizeof base.name, "platform %.80s", base.platform_name);
        refuse_device(&base, "it does not list its devices: %s", ocl_error_name(code));
        return add_entry(list, &base, err);
    }
    for (cl_uint d = 0; d < count; d++) {
        ocl_info info = base;
        info.device_index = d;
        info.id = all[d];
        for (cl_uint g = 0; g < gpu_count; g++)
            if (gpus[g] == all[d])
                info.gpu_index = (int)g;
        describe_device(api, &info, version);
        return_if_error(add_entry(list, &info, err));
    }
    return TC_OK;
}

tc_status ocl_enumerate_devices(const ocl_api *api, ocl_info **list, size_t *count, tc_err *err)
{
    cl_platform_id platforms[PLATFORMS_MAX];
    cl_uint platform_count = 0;
    device_list found = { .count = 0 };

    *list = NULL;
    *count = 0;
    const cl_int code = api->clGetPlatformIDs(PLATFORMS_MAX, platforms, &platform_count);
    if (code == -1001 /* CL_PLATFORM_NOT_FOUND_KHR */
        || (code == CL_SUCCESS && platform_count == 0))
        return tc_fail(err, TC_DEVICE, "no OpenCL device: no driver for one is installed");
    if (code != CL_SUCCESS)
        return tc_fail(err, TC_DEVICE, "OpenCL: clGetPlatformIDs: %s", ocl_error_name(code));
    if (platform_count > PLATFORMS_MAX)
        platform_count = PLATFORMS_MAX;
    for (cl_uint p = 0; p < platform_count; p++) {
        const tc_status status = add_platform(api, &found, platforms[p], p, err);
        if (status != TC_OK) {
            free(found.entries);
            return status;
        }
    }
    *list = found.entries;
    *count = found.count;
    return TC_OK;
}

/* --- the choice ------------------------------------------------------------------------------ */

tc_status ocl_request_parse(const char *spec, ocl_request *request, tc_err *err)
{
    unsigned platform, device;
    int length = 0;
    memset(request, 0, sizeof *request);
    request->opencl_index = request->device_number = -1;
    if (strcmp(spec, "auto") == 0) {
        request->kind = OCL_REQUEST_AUTO;
    } else if (strcmp(spec, "cpu") == 0) {
        request->kind = OCL_REQUEST_CPU;
    } else if (strcmp(spec, "opencl") == 0) {
        request->kind = OCL_REQUEST_ANY;
    } else if (isdigit((unsigned char)spec[0]) &&
               strspn(spec, "0123456789:") == strlen(spec)
               /* NOLINTNEXTLINE(cert-err34-c): numbers of four digits do not overflow */
               && sscanf(spec, "%4u:%4u%n", &platform, &device, &length) == 2 &&
               spec[length] == '\0') {
        request->kind = OCL_REQUEST_INDEX;
        request->platform = platform;
        request->device = device;
    } else {
        return tc_fail(err, TC_USAGE, "--device: \"%s\" is none of auto, cpu, opencl, P:D", spec);
    }
    return TC_OK;
}

const char *ocl_describe_no_doubles(const ocl_info *info)
{
    return info->doubles_wrong ? "computes wrongly in" : "has no";
}

/* Why this device cannot be used, or NULL if it can. */
static const char *refusal_of(const ocl_info *info)
{
    return info->refusal[0] != '\0' ? info->refusal : NULL;
}

/* Ranks a device by type: 3 for a GPU, 2 for an accelerator, 1 for all others. A device that has
 * the type CPU ranks as a CPU, even if it has other types as well (simulators have all types). */
static int type_rank(const ocl_info *info)
{
    if (info->type & CL_DEVICE_TYPE_CPU)
        return 1;
    if (info->type & CL_DEVICE_TYPE_GPU)
        return 3;
    return info->type & CL_DEVICE_TYPE_ACCELERATOR ? 2 : 1;
}

/* Whether device a is preferred to b: by type, then by the product of compute units and clock. */
static bool is_better(const ocl_info *a, const ocl_info *b)
{
    const int rank_a = type_rank(a), rank_b = type_rank(b);
    if (rank_a != rank_b)
        return rank_a > rank_b;
    /* Some drivers report a clock frequency of 0. */
    if (a->clock_mhz == 0 || b->clock_mhz == 0)
        return a->compute_units > b->compute_units;
    return (uint64_t)a->compute_units * a->clock_mhz > (uint64_t)b->compute_units * b->clock_mhz;
}

/* Appends "P:D NAME: why" to a message, after "; " unless the message is empty. Text that does not
 * fit the buffer is cut off. */
static void add_reason(char *text, size_t size, const ocl_info *info, const char *why)
{
    const size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%u:%u %s: %s", used > 0 ? "; " : "", info->platform_index,
             info->device_index, info->name, why);
}

/* Sets *chosen to the index of the best usable device. A CPU is chosen only for OCL_REQUEST_ANY. */
static tc_status choose_best(const ocl_info *list, size_t count, const ocl_request *request,
                             size_t *chosen, tc_err *err)
{
    const bool allows_cpu = request->kind == OCL_REQUEST_ANY;
    char reasons[700] = "";
    bool found = false;
    for (size_t i = 0; i < count; i++) {
        const char *why = refusal_of(&list[i]);
        if (why == NULL && !allows_cpu && type_rank(&list[i]) == 1)
            why = "it is not a GPU";
        if (why != NULL) {
            add_reason(reasons, sizeof reasons, &list[i], why);
        } else if (!found || is_better(&list[i], &list[*chosen])) {
            *chosen = i;
            found = true;
        }
    }
    if (found)
        return TC_OK;
    return tc_fail(err, TC_DEVICE, "no usable OpenCL %s (%s)", allows_cpu ? "device" : "GPU",
                   count > 0 ? reasons : "there is no device");
}

/* Sets *chosen to `index`, or returns TC_DEVICE if that device cannot be used. */
static tc_status accept_device(const ocl_info *list, size_t index, size_t *chosen, tc_err *err)
{
    const char *why = refusal_of(&list[index]);
    if (why != NULL)
        return tc_fail(err, TC_DEVICE, "OpenCL device %u:%u, %s, cannot be used: %s",
                       list[index].platform_index, list[index].device_index, list[index].name, why);
    *chosen = index;
    return TC_OK;
}

/* Sets *chosen to the index of the device that P:D names. */
static tc_status choose_index(const ocl_info *list, size_t count, const ocl_request *request,
                              size_t *chosen, tc_err *err)
{
    for (size_t i = 0; i < count; i++)
        if (list[i].platform_index == request->platform && list[i].device_index == request->device)
            return accept_device(list, i, chosen, err);
    return tc_fail(err, TC_DEVICE, "there is no OpenCL device %u:%u", request->platform,
                   request->device);
}

/* Whether text contains `word`, which is in lower case, ignoring the case of text. */
static bool contains_word(const char *text, const char *word)
{
    for (; *text != '\0'; text++) {
        size_t n = 0;
        while (word[n] != '\0' && tolower((unsigned char)text[n]) == word[n])
            n++;
        if (word[n] == '\0')
            return true;
    }
    return false;
}

/* Returns the BOINC client's gpu_type for a vendor's name as OpenCL reports it, or the name itself
 * if the client has no type for the vendor. */
static const char *client_type(const char *vendor)
{
    if (contains_word(vendor, "nvidia"))
        return "NVIDIA";
    /* Case matters: "Corporation" contains "ati". */
    if (strstr(vendor, "ATI") != NULL || strstr(vendor, "AMD") != NULL ||
        strstr(vendor, "Advanced Micro Devices") != NULL)
        return "ATI";
    if (contains_word(vendor, "intel"))
        return "intel_gpu";
    if (contains_word(vendor, "apple"))
        return "apple_gpu";
    return vendor;
}

/* Whether the BOINC client has defined this gpu_type for a vendor's GPUs. */
static bool has_own_type(const char *type)
{
    return strcmp(type, "NVIDIA") == 0 || strcmp(type, "ATI") == 0 ||
           strcmp(type, "intel_gpu") == 0 || strcmp(type, "apple_gpu") == 0;
}

/* Converts a vendor's common name to the BOINC client's gpu_type for that vendor. */
static const char *canonical_type(const char *type)
{
    if (strcmp(type, "AMD") == 0)
        return "ATI";
    if (strcmp(type, "Intel") == 0)
        return "intel_gpu";
    return strcmp(type, "Apple") == 0 ? "apple_gpu" : type;
}

/* Chooses the device that the BOINC client assigned; see ocl_choose_device. */
static tc_status choose_assigned(const ocl_info *list, size_t count, const ocl_request *request,
                                 size_t *chosen, tc_err *err)
{
    const char *type = canonical_type(request->vendor);
    /* Whether gpu_opencl_dev_index counts the GPUs of one platform, or those of all platforms. */
    const bool by_platform = has_own_type(type);
    int ordinal = 0;      /* the position of list[i] among the vendor's devices of all platforms */
    size_t found = count; /* index of the best candidate so far: the first candidate, or the one
                             whose ordinal is device_number; `count` before one is found */
    for (size_t i = 0; i < count; i++) {
        if (list[i].gpu_index < 0 || strcmp(client_type(list[i].vendor), type) != 0)
            continue;
        const int index = by_platform ? list[i].gpu_index : ordinal;
        const bool candidate = request->opencl_index >= 0 ? index == request->opencl_index
                                                          : ordinal == request->device_number;
        if (candidate && (found == count || ordinal == request->device_number))
            found = i;
        ordinal++;
    }
    if (found < count)
        return accept_device(list, found, chosen, err);
    return tc_fail(err, TC_DEVICE,
                   "the GPU that the BOINC client assigned (type \"%s\", OpenCL index %d, number "
                   "%d) is not among the OpenCL devices",
                   request->vendor, request->opencl_index, request->device_number);
}

tc_status ocl_choose_device(const ocl_info *list, size_t count, const ocl_request *request,
                            size_t *chosen, tc_err *err)
{
    switch (request->kind) {
    case OCL_REQUEST_AUTO:
    case OCL_REQUEST_ANY: return choose_best(list, count, request, chosen, err);
    case OCL_REQUEST_INDEX: return choose_index(list, count, request, chosen, err);
    case OCL_REQUEST_ASSIGNED: return choose_assigned(list, count, request, chosen, err);
    case OCL_REQUEST_CPU: break;
    }
    return tc_fail(err, TC_INTERNAL,
                   "an OpenCL device was to be chosen although none was requested");
}

/* --- an open device -------------------------------------------------------------------------- */

tc_status ocl_fail(const ocl_device *device, const char *call, cl_int code, tc_err *err)
{
    return tc_fail(err, TC_DEVICE, "%s: %s: %s", device->info.name, call, ocl_error_name(code));
}

tc_status ocl_device_open(const ocl_api *api, const ocl_info *info, ocl_device **device,
                          tc_err *err)
{
    const cl_context_properties properties[] = { CL_CONTEXT_PLATFORM,
                                                 (cl_context_properties)info->platform, 0 };
    cl_int code = CL_SUCCESS;
    tc_status status = TC_OK;

    *device = NULL;
    ocl_device *d = calloc(1, sizeof *d);
    if (d == NULL)
        return tc_no_memory(err, "an OpenCL device");
    d->api = *api;
    d->info = *info;
    d->memory_limit = info->global_bytes / 2;
    d->kernels = AN_ALL_KERNELS;
    d->context = api->clCreateContext(properties, 1, &info->id, NULL, NULL, &code);
    if (d->context == NULL || code != CL_SUCCESS) {
        status = ocl_fail(d, "clCreateContext", code, err);
        goto done;
    }
    d->queue = api->clCreateCommandQueue(d->context, info->id, CL_QUEUE_PROFILING_ENABLE, &code);
    if (d->queue == NULL || code != CL_SUCCESS)
        status = ocl_fail(d, "clCreateCommandQueue", code, err);
done:
    if (status != TC_OK)
        ocl_device_close(&d);
    *device = d;
    return status;
}

tc_status ocl_device_find(const ocl_request *request, ocl_device **device, tc_err *err)
{
    ocl_api api;
    ocl_info *list = NULL;
    size_t count = 0, chosen = 0;

    *device = NULL;
    if (request->kind == OCL_REQUEST_CPU)
        return TC_OK;
    if (request->kind == OCL_REQUEST_AUTO && ocl_has_no_gpu())
        return tc_fail(err, TC_DEVICE, "no usable OpenCL GPU (there is no device for one)");
    return_if_error(ocl_load_library(&api, err));
    tc_status status = ocl_enumerate_devices(&api, &list, &count, err);
    if (status == TC_OK)
        status = ocl_choose_device(list, count, request, &chosen, err);
    if (status == TC_OK)
        status = ocl_device_open(&api, &list[chosen], device, err);
    free(list);
    return status;
}

void ocl_device_close(ocl_device **device)
{
    ocl_device *d = *device;
    *device = NULL;
    if (d == NULL)
        return;
    if (d->programs != NULL)
        d->free_programs(d);
    if (d->queue != NULL) {
        if (d->staging != NULL)
            d->free_staging(d);
        d->api.clFinish(d->queue);
        d->api.clReleaseCommandQueue(d->queue);
    }
    if (d->context != NULL)
        d->api.clReleaseContext(d->context);
    free(d);
}
