/* Finds an analysis' OpenCL backend, and tests a device before it is used. */
#include "opencl/backends.h"

#include <string.h>

#include "app/analysis/selftest.h"
#include "opencl/program_cache.h"
#include "opencl/selftest.h"

static const struct {
    const char *analysis;
    const an_backend *backend;
} table[] = {
#define ROW_cpu(name)
#define ROW_opencl(name) { #name, &ocl_##name },
#define ANALYSIS(name, devices) ROW_##devices(name)
#include "app/analysis/analyses.def"
#undef ANALYSIS
    { NULL, NULL }
};

const an_backend *ocl_backend(const char *analysis)
{
    for (size_t i = 0; table[i].analysis != NULL; i++)
        if (strcmp(table[i].analysis, analysis) == 0)
            return table[i].backend;
    return NULL;
}

static tc_status known_answers(const an_analysis *analysis, ocl_device *device, const tc_poll *poll,
                               tc_err *err)
{
    const tc_status status = ocl_selftest(device, analysis->uses_floats, poll, err);

    return status == TC_OK
               ? an_selftest_run(analysis, ocl_backend(analysis->name), device, 1, poll, err)
               : status;
}

tc_status ocl_check_device(const an_analysis *analysis, ocl_device *device, const tc_poll *poll,
                           tc_err *err)
{
    const char *const name = device->info.name;
    tc_status status = known_answers(analysis, device, poll, err);

    if (status == TC_DEVICE && device->cache_used) {
        ocl_program_cache_clear(device);
        status = known_answers(analysis, device, poll, err);
    }
    if (status == TC_TOO_LARGE)
        status = TC_DEVICE; /* what is too small for the self-tests is of no use */
    /* A wrong answer is told without the device, which the analyses do not know. */
    if (status != TC_OK && err != NULL && strncmp(err->message, name, strlen(name)) != 0) {
        const tc_err why = *err;

        tc_fail(err, status, "%s: %.800s", name, why.message);
    }
    return status;
}
