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

/* Whether a test that failed is to be done again, with less of the device: a kernel may bear
 * smaller groups than the device says, and what is wrong with double precision only concerns what
 * needs it. */
static bool gives_in(ocl_device *device, const an_selftest *test)
{
    ocl_info *const info = &device->info;
    const size_t limit = device->group_limit;

    device->group_limit = 0;
    if (limit >= OCL_GROUP_FLOOR && limit < info->max_group) {
        info->max_group = limit;
        return true;
    }
    if (!test->doubles || !info->doubles || device->cache_used)
        return false;
    info->doubles = false;
    info->doubles_wrong = true;
    return true;
}

static tc_status known_answers(const an_analysis *analysis, const an_unit *unit, ocl_device *device,
                               const tc_poll *poll, tc_err *err)
{
    const an_backend *const backend = ocl_backend(analysis->name);
    const an_selftest *const tests = analysis->selftests;
    tc_status status = ocl_selftest(device, analysis->uses_floats, poll, err);

    device->kernels = an_unit_kernels(analysis, unit);
    for (size_t i = 0; status == TC_OK && tests[i].parameters != NULL; i++) {
        if (!an_selftest_concerns(analysis, i, device->kernels))
            continue;
        do
            status = an_selftest_one(analysis, i, backend, device, 1, poll, err);
        while (status == TC_DEVICE && gives_in(device, &tests[i]));
        /* Items like a later one go to the CPU. */
        if (status == TC_TOO_LARGE && i > 0)
            status = TC_OK;
    }
    return status;
}

tc_status ocl_check_device(const an_analysis *analysis, const an_unit *unit, ocl_device *device,
                           const tc_poll *poll, tc_err *err)
{
    const char *const name = device->info.name;
    tc_status status = known_answers(analysis, unit, device, poll, err);

    if (status == TC_DEVICE && device->cache_used) {
        ocl_program_cache_clear(device);
        status = known_answers(analysis, unit, device, poll, err);
    }
    if (status == TC_TOO_LARGE)
        status = TC_DEVICE; /* what is too small for the self-tests is of no use */
    /* A wrong answer is reported without the device, which the analyses do not know. */
    if (status != TC_OK && err != NULL && strncmp(err->message, name, strlen(name)) != 0) {
        const tc_err why = *err;

        tc_fail(err, status, "%s: %.800s", name, why.message);
    }
    return status;
}
