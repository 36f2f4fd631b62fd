/*
 * gpu_lag DEVICE SECONDS: measures how long a short kernel takes while other programs use the
 * OpenCL device. By itself the kernel runs for about a millisecond, as those of a desktop do. It is
 * launched again 20 ms after each end. Prints the milliseconds from launch to end: minimum (about
 * the time when nothing else runs on the device), median, 99th percentile, maximum. DEVICE is an
 * argument of texcell's --device.
 */
#include <stdio.h>
#include <stdlib.h>

#include "app/base/os.h"
#include "opencl/device.h"
#include "opencl/program.h"

static const char *const lines[] = {
    "__kernel void spin(__global uint *out, uint turns)\n",
    "{\n",
    "    uint x = (uint)get_global_id(0);\n",
    "    for (uint i = 0; i < turns; i++)\n",
    "        x = x * 1664525u + 1013904223u;\n",
    "    out[get_global_id(0)] = x;\n",
    "}\n",
};
static const ocl_source source = { "spin.cl", lines, sizeof lines / sizeof lines[0] };
enum {
    ITEMS = 1024, /* work-items of a launch */
    MOST = 100000 /* largest number of launches */
};

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Times one launch, in milliseconds. */
static tc_status once(ocl_device *d, ocl_kernel *k, ocl_buffer *out, cl_uint turns, double *ms,
                      tc_err *err)
{
    const ocl_arg args[] = { OCL_BUFFER(*out), OCL_ARG(turns) };
    const size_t global = ITEMS;
    ocl_batch batch = { 0 };
    double ignored;
    tc_status status = ocl_set_args(d, k, args, 2, err);
    const double start = ocl_clock_ms();

    if (status == TC_OK)
        status = ocl_launch(d, k, 1, NULL, &global, NULL, &batch, err);
    if (status == TC_OK)
        status = ocl_batch_wait(d, &batch, 0, &ignored, err);
    *ms = ocl_clock_ms() - start;
    return status;
}

static tc_status measure(ocl_device *d, double seconds, tc_err *err)
{
    static double ms[MOST];
    cl_program program = NULL;
    ocl_kernel kernel = { 0 };
    ocl_buffer out = { 0 };
    cl_uint turns = 1000;
    size_t n = 0;
    double took = 0;
    tc_status status = ocl_program_build(d, &source, NULL, false, &program, err);

    if (status == TC_OK)
        status = ocl_kernel_new(d, program, "spin", &kernel, err);
    if (status == TC_OK)
        status = ocl_buffer_new(d, ITEMS * sizeof(cl_uint), "the output", &out, err);
    while (status == TC_OK && (status = once(d, &kernel, &out, turns, &took, err)) == TC_OK &&
           took < 1 && turns < 1u << 30)
        turns *= 2;
    const double end = ocl_clock_ms() + seconds * 1e3;

    while (status == TC_OK && n < MOST && ocl_clock_ms() < end) {
        status = once(d, &kernel, &out, turns, &ms[n++], err);
        os_sleep(0.02);
    }
    ocl_buffer_free(d, &out);
    ocl_kernel_free(d, &kernel);
    if (status != TC_OK || n == 0)
        return status;
    qsort(ms, n, sizeof ms[0], by_size);
    printf("%.2f %.2f %.2f %.2f\n", ms[0], ms[n / 2], ms[n - 1 - n / 100], ms[n - 1]);
    return TC_OK;
}

int main(int argc, char **argv)
{
    ocl_device *device = NULL;
    ocl_request request;
    tc_err err;

    if (argc != 3) {
        fputs("usage: gpu_lag DEVICE SECONDS\n", stderr);
        return 1;
    }
    tc_status status = ocl_request_parse(argv[1], &request, &err);

    if (status == TC_OK)
        status = ocl_device_find(&request, &device, &err);
    if (status == TC_OK && device != NULL)
        status = measure(device, strtod(argv[2], NULL), &err);
    if (device != NULL)
        ocl_device_close(&device);
    if (status != TC_OK)
        fprintf(stderr, "gpu_lag: %s\n", err.message);
    return status == TC_OK ? 0 : tc_exit_code(status);
}
