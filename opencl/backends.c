/* Finds an analysis' OpenCL backend, and runs the self-tests on a device before it is used. */
#include "opencl/backends.h"

#include <string.h>

#include "app/analysis/selftest.h"
#include "opencl/program_cache.h"
#include "opencl/selftest.h"

/* The analyses that have an OpenCL backend. ANALYSIS(NAME, opencl) in analyses.def makes an entry,
 * ANALYSIS(NAME, cpu) makes none. */
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

/* After a failed self-test: restricts the use of the device if that may help, and returns whether
 * the test must be repeated. If a kernel was launched in larger work-groups than it supports (a
 * kernel's limit may be lower than the device's), lowers the device's limit. Otherwise, if the test
 * needs double precision, switches double precision off; analyses that do not need it still run. */
static bool restrict_device(ocl_device *device, const an_selftest *test)
{
    ocl_info *const info = &device->info;
    const size_t limit = device->group_limit;

    device->group_limit = 0;
    if (limit >= OCL_MIN_GROUP && limit < info->max_group) {
        info->max_group = limit;
        return true;
    }
    if (!test->doubles || !info->doubles || device->cache_used)
        return false;
    info->doubles = false;
    info->doubles_wrong = true;
    return true;
}

/* Runs the common self-test, and those known-answer tests of the analysis that use the work unit's
 * kernels. */
static tc_status run_selftests(const an_analysis *analysis, const an_unit *unit, ocl_device *device,
                               const tc_poll *poll, tc_err *err)
{
    const an_backend *const backend = ocl_backend(analysis->name);
    const an_selftest *const tests = analysis->selftests;
    tc_status status = ocl_selftest(device, analysis->uses_floats, poll, err);

    device->kernels = an_unit_kernels(analysis, unit);
    for (size_t i = 0; status == TC_OK && tests[i].parameters != NULL; i++) {
        if (!an_selftest_is_needed(analysis, i, device->kernels))
            continue;
        do
            status = an_selftest_run_one(analysis, i, backend, device, 1, poll, err);
        while (status == TC_DEVICE && restrict_device(device, &tests[i]));
        /* The first test must fit the device. A later test may be too large for it; then similar
         * items of a job are too large as well, and are computed on the CPU. */
        if (status == TC_TOO_LARGE && i > 0)
            status = TC_OK;
    }
    return status;
}

tc_status ocl_check_device(const an_analysis *analysis, const an_unit *unit, ocl_device *device,
                           const tc_poll *poll, tc_err *err)
{
    const char *const name = device->info.name;
    tc_status status = run_selftests(analysis, unit, device, poll, err);

    if (status == TC_DEVICE && device->cache_used) { /* a stored program may be the cause */
        ocl_program_cache_clear(device);
        status = run_selftests(analysis, unit, device, poll, err);
    }
    if (status == TC_TOO_LARGE)
        status = TC_DEVICE; /* a device too small for the first self-test is not used */
    /* The message about a wrong answer comes from the analysis and lacks the device's name. */
    if (status != TC_OK && err != NULL && strncmp(err->message, name, strlen(name)) != 0) {
        const tc_err inner = *err;

        tc_fail(err, status, "%s: %.800s", name, inner.message);
    }
    return status;
}
