/* Lists the OpenCL devices for `texcell devices`. */
#include <stdlib.h>

#include "opencl/backends.h"

/* Prints the analyses that can use the device according to the properties that it reports. Only a
 * self-test checks the device's results. */
static void print_analyses(FILE *out, const ocl_info *info)
{
    const char *separator = "     usable for ", *excluded = NULL;

    for (size_t i = 0; an_analyses[i] != NULL; i++) {
        const an_analysis *const a = an_analyses[i];

        if (ocl_backend(a->name) == NULL)
            continue;
        if (a->doubles == AN_ALL_DOUBLES && !info->doubles) {
            excluded = a->name;
            continue;
        }
        fprintf(out, "%s%s%s", separator, a->name,
                a->doubles == AN_SOME_DOUBLES && !info->doubles
                    ? " (except features that need doubles)"
                    : "");
        separator = ", ";
    }
    if (excluded != NULL)
        fprintf(out, "; not for %s, which needs doubles", excluded);
    fputc('\n', out);
}

/* Prints a device of the list, or a platform that does not list its devices (info->id is NULL). */
static void print_device(FILE *out, const ocl_info *info)
{
    if (info->id == NULL) {
        fprintf(out, "%u:-  %s\n     not usable: %s\n", info->platform_index, info->name,
                info->refusal);
        return;
    }
    fprintf(out, "%u:%u  %s\n", info->platform_index, info->device_index, info->name);
    fprintf(out, "     vendor %s, platform %s, driver %s\n", info->vendor, info->platform_name,
            info->driver);
    fprintf(out, "     %s, %u compute units at %u MHz, %llu MiB of memory, %llu KiB local\n",
            info->type & CL_DEVICE_TYPE_CPU           ? "CPU"
            : info->type & CL_DEVICE_TYPE_GPU         ? "GPU"
            : info->type & CL_DEVICE_TYPE_ACCELERATOR ? "accelerator"
                                                      : "other type",
            info->compute_units, info->clock_mhz, (unsigned long long)(info->global_bytes >> 20),
            (unsigned long long)(info->local_bytes >> 10));
    if (info->refusal[0] != '\0')
        fprintf(out, "     not usable: %s\n", info->refusal);
    else
        print_analyses(out, info);
}

tc_status ocl_list_devices(FILE *out, tc_err *err)
{
    ocl_api api;
    ocl_info *list = NULL;
    size_t count = 0;
    tc_err fault;

    tc_status status = ocl_load_library(&api, &fault);
    if (status == TC_OK)
        status = ocl_enumerate_devices(&api, &list, &count, &fault);
    if (status == TC_DEVICE) {
        fprintf(out, "%s\n", fault.message);
    } else if (status != TC_OK) {
        return tc_fail(err, status, "%s", fault.message);
    } else {
        for (size_t i = 0; i < count; i++)
            print_device(out, &list[i]);
        fputs(count == 0 ? "no OpenCL device: the drivers that are installed have none\n"
                         : "texcell selftest --device P:D says whether one computes right\n",
              out);
    }
    free(list);
    return TC_OK;
}
