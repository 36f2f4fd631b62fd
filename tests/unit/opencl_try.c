/*
 * opencl_try runs the OpenCL code that all analyses share on real devices, for opencl_common.py:
 *   opencl_try list
 *   opencl_try selftest DEVICE [floats]
 *   opencl_try broken DEVICE      builds a program that does not compile
 *   opencl_try race DEVICE        runs a program with a data race, for Oclgrind to find
 * The exit code is that of the status (tc_exit_code).
 */
#include <stdio.h>
#include <string.h>

#include "opencl/selftest.h"

static const char *const broken_lines[] = { "__kernel void k(__global int *p)\n", "{\n",
                                            "    *p = no_such_thing;\n", "}\n" };
static const char *const race_lines[] = { "__kernel void k(__global int *p)\n", "{\n",
                                          "    *p = (int)get_global_id(0);\n", "}\n" };

/* Builds a program of four lines, and launches its kernel k with 64 work-items on one buffer. */
static tc_status launch(ocl_device *device, const char *const lines[4], tc_err *err)
{
    const ocl_source source = { "try.cl", lines, 4 };
    const size_t global = 64;
    cl_program program = NULL;
    ocl_kernel kernel = { 0 };
    ocl_buffer buffer = { 0 };
    ocl_batch batch = { 0 };
    double ms;

    tc_status status = ocl_program_build(device, &source, NULL, false, &program, err);
    if (status == TC_OK)
        status = ocl_kernel_new(device, program, "k", &kernel, err);
    if (status == TC_OK)
        status = ocl_buffer_new(device, 4, "a test", &buffer, err);
    if (status == TC_OK) {
        const ocl_arg args[] = { OCL_BUFFER(buffer) };
        status = ocl_set_args(device, &kernel, args, 1, err);
    }
    if (status == TC_OK)
        status = ocl_launch(device, &kernel, 1, NULL, &global, NULL, &batch, err);
    if (status == TC_OK)
        status = ocl_batch_wait(device, &batch, 0, &ms, err);
    ocl_buffer_free(device, &buffer);
    ocl_kernel_free(device, &kernel);
    return status;
}

static tc_status on_device(int argc, char **argv, tc_err *err)
{
    ocl_device *device = NULL;
    ocl_request request;
    tc_status status = ocl_request_parse(argv[2], &request, err);
    if (status != TC_OK)
        return status;
    status = ocl_device_find(&request, &device, err);
    if (status != TC_OK || device == NULL)
        return status;
    printf("%u:%u %s\n", device->info.platform_index, device->info.device_index, device->info.name);
    if (strcmp(argv[1], "selftest") == 0)
        status = ocl_selftest(device, argc > 3 && strcmp(argv[3], "floats") == 0, NULL, err);
    else
        status = launch(device, strcmp(argv[1], "race") == 0 ? race_lines : broken_lines, err);
    if (device->memory_used != 0)
        status = tc_fail(err, TC_INTERNAL, "%llu bytes of device memory are left",
                         (unsigned long long)device->memory_used);
    ocl_device_close(&device);
    return status;
}

int main(int argc, char **argv)
{
    tc_err err = { "" };
    tc_status status = TC_USAGE;
    if (argc == 2 && strcmp(argv[1], "list") == 0)
        status = ocl_list_devices(stdout, &err);
    else if (argc >= 3)
        status = on_device(argc, argv, &err);
    if (status != TC_OK)
        fprintf(stderr, "opencl_try: error: %s\n", err.message);
    return tc_exit_code(status);
}
