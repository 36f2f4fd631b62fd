/*
 * backend_try runs an analysis on generated pixels, on the CPU and on an OpenCL device, and
 * compares the states; or, with "result", it runs the self-test of the result. It is for tests
 * under Oclgrind, which is slow: items can be smaller than those of the built-in self-tests. Each
 * process makes one run, as Oclgrind 21.10 reports initialized memory as uninitialized in a second
 * one.
 *
 *     backend_try ANALYSIS PARAMETERS NX NY NZ BITS MASK(0|1) [result]
 *
 * Exit code: 0: the same bits, 1: other bits, 2: failure.
 */
#include <stdio.h>
#include <stdlib.h>

#include "app/analysis/selftest.h"
#include "opencl/backends.h"

int main(int argc, char **argv)
{
    const an_analysis *const a = argc == 8 || argc == 9 ? an_find_analysis(argv[1]) : NULL;
    const bool result = argc == 9;
    ocl_request request = { .kind = OCL_REQUEST_ANY };
    ocl_device *device = NULL;
    uint32_t cpu = 0, cl = 1;
    tc_err err = { "" };
    tc_status status;

    if (a == NULL || ocl_backend(argv[1]) == NULL) {
        fprintf(stderr, "usage: backend_try ANALYSIS PARAMETERS NX NY NZ BITS MASK [result]\n");
        return 2;
    }
    const an_selftest test = { .parameters = argv[2],
                               .nx = (uint32_t)atoi(argv[3]),
                               .ny = (uint32_t)atoi(argv[4]),
                               .nz = (uint32_t)atoi(argv[5]),
                               .bits = (unsigned)atoi(argv[6]),
                               .mask = atoi(argv[7]) != 0 };

    status = ocl_device_find(&request, &device, &err);
    if (status == TC_OK && result) {
        status = an_selftest_result(a, &test, ocl_backend(argv[1]), device, 1, NULL, &err);
        cl = cpu;
    }
    if (status == TC_OK && !result)
        status = an_selftest_crc(a, &test, a->cpu, NULL, 1, NULL, &cpu, &err);
    if (status == TC_OK && !result)
        status = an_selftest_crc(a, &test, ocl_backend(argv[1]), device, 1, NULL, &cl, &err);
    ocl_device_close(&device);
    if (status != TC_OK) {
        fprintf(stderr, "backend_try: %s\n", err.message);
        return 2;
    }
    printf("cpu %08x, OpenCL %08x\n", (unsigned)cpu, (unsigned)cl);
    return cpu != cl;
}
