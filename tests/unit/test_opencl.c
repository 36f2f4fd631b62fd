/* Unit tests of the OpenCL code that all analyses share, on the fake OpenCL of fake_opencl.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake_opencl.h"
#include "opencl/backends.h"
#include "opencl/program_cache.h"
#include "opencl/program.h"
#include "opencl/selftest.h"
#include "scratch.h"

/* --- the --device argument ------------------------------------------------------------------- */

static void test_request_parse(void **state)
{
    (void)state;
    static const char *const bad[] = { "",     "gpu",     "AUTO",    "0",    ":",    "0:",
                                       ":1",   "0:1:2",   "-1:0",    "0:-1", "0: 1", " 0:1",
                                       "0:1 ", "99999:0", "1:99999", "0x1:0" };
    ocl_request request;
    tc_err err;
    assert_int_equal(ocl_request_parse("auto", &request, &err), TC_OK);
    assert_int_equal(request.kind, OCL_REQUEST_AUTO);
    assert_int_equal(ocl_request_parse("cpu", &request, &err), TC_OK);
    assert_int_equal(request.kind, OCL_REQUEST_CPU);
    assert_int_equal(ocl_request_parse("opencl", &request, &err), TC_OK);
    assert_int_equal(request.kind, OCL_REQUEST_ANY);
    assert_int_equal(ocl_request_parse("2:13", &request, &err), TC_OK);
    assert_int_equal(request.kind, OCL_REQUEST_INDEX);
    assert_int_equal(request.platform, 2);
    assert_int_equal(request.device, 13);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        err.message[0] = '\0';
        assert_int_equal(ocl_request_parse(bad[i], &request, &err), TC_USAGE);
        assert_non_null(strstr(err.message, "--device"));
    }
}

/* --- choosing a device ------------------------------------------------------------------------ */

/* A computer with five platforms: NVIDIA with two GPUs, AMD with two, Intel with a CPU and its GPU,
 * PoCL with a CPU, and one of other vendors with three devices. */
typedef struct workstation {
    fake_device nvidia[2], amd[2], intel[2], pocl[1], other[3];
    fake_platform platforms[5];
    ocl_api api;
} workstation;

static void make_workstation(workstation *w)
{
    w->nvidia[0] = fake_gpu("GTX 1", "NVIDIA Corporation", 20, 1500);
    w->nvidia[1] = fake_gpu("RTX 2", "NVIDIA Corporation", 80, 1700);
    w->amd[0] = fake_gpu("gfx900", "Advanced Micro Devices, Inc.", 64, 1600);
    w->amd[1] = fake_gpu("gfx1030", "AMD", 40, 2400);
    w->intel[0] = fake_gpu("Xeon", "Intel(R) Corporation", 900, 3000);
    w->intel[0].type = CL_DEVICE_TYPE_CPU;
    w->intel[1] = fake_gpu("UHD", "Intel(R) Corporation", 24, 1100);
    w->pocl[0] = fake_gpu("pthread", "GenuineIntel", 999, 4000);
    w->pocl[0].type = CL_DEVICE_TYPE_CPU;
    w->other[0] = fake_gpu("Mali", "ARM", 4, 800);
    w->other[1] = fake_gpu("FPGA", "Xilinx", 1000, 4000);
    w->other[1].type = CL_DEVICE_TYPE_ACCELERATOR;
    w->other[2] = fake_gpu("Mali 2", "ARM", 4, 900);
    w->platforms[0] = (fake_platform){ "NVIDIA CUDA", "OpenCL 3.0 CUDA", w->nvidia, 2, 0, false };
    w->platforms[1] = (fake_platform){ "AMD", "OpenCL 2.1 AMD-APP", w->amd, 2, 0, false };
    w->platforms[2] = (fake_platform){ "Intel", "OpenCL 3.0 ", w->intel, 2, 0, false };
    w->platforms[3] = (fake_platform){ "PoCL", "OpenCL 3.0 PoCL", w->pocl, 1, 0, false };
    w->platforms[4] = (fake_platform){ "Other", "OpenCL 1.2 ", w->other, 3, 0, false };
    w->api = fake_api(w->platforms, 5);
}

/* Returns the name of the device chosen for a request; "" if there is none, with the reason in
 * err. */
static const char *chosen_name(const ocl_api *api, const ocl_request *request, tc_err *err)
{
    static char name[96];
    ocl_info *list;
    size_t count, chosen = SIZE_MAX;
    err->message[0] = '\0';
    assert_int_equal(ocl_enumerate_devices(api, &list, &count, err), TC_OK);
    const tc_status status = ocl_choose_device(list, count, request, &chosen, err);
    name[0] = '\0';
    if (status == TC_OK) {
        assert_true(chosen < count);
        memcpy(name, list[chosen].name, sizeof name);
    } else {
        assert_int_equal(status, TC_DEVICE);
        assert_true(err->message[0] != '\0');
    }
    free(list);
    return name;
}

static const char *chosen_by_spec(workstation *w, const char *spec, tc_err *err)
{
    ocl_request request;
    assert_int_equal(ocl_request_parse(spec, &request, err), TC_OK);
    return chosen_name(&w->api, &request, err);
}

static const char *chosen_by_client(const ocl_api *api, const char *vendor, int index, int number,
                                    tc_err *err)
{
    ocl_request request = { .kind = OCL_REQUEST_ASSIGNED,
                            .opencl_index = index,
                            .device_number = number };
    strcpy(request.vendor, vendor);
    return chosen_name(api, &request, err);
}

static void test_enumerate(void **state)
{
    (void)state;
    workstation w;
    ocl_info *list;
    size_t count;
    tc_err err;
    make_workstation(&w);
    w.nvidia[0].name = "  GTX\t1 ";
    assert_int_equal(ocl_enumerate_devices(&w.api, &list, &count, &err), TC_OK);
    assert_int_equal(count, 10);
    assert_string_equal(list[0].name, "GTX?1");
    assert_string_equal(list[0].platform_name, "NVIDIA CUDA");
    assert_int_equal(list[5].platform_index, 2);
    assert_int_equal(list[5].device_index, 1);
    assert_int_equal(list[5].gpu_index, 0); /* the CPU before it does not count */
    assert_int_equal(list[4].gpu_index, -1);
    assert_int_equal(list[8].gpu_index, 1); /* the accelerator before it counts */
    for (size_t i = 0; i < count; i++)
        assert_string_equal(list[i].refusal, "");
    free(list);
}

static void test_choose_best(void **state)
{
    (void)state;
    workstation w;
    tc_err err;
    make_workstation(&w);
    assert_string_equal(chosen_by_spec(&w, "auto", &err), "RTX 2");
    assert_string_equal(chosen_by_spec(&w, "opencl", &err), "RTX 2");
    w.nvidia[1].available = CL_FALSE; /* of the others the best by units * MHz is chosen */
    assert_string_equal(chosen_by_spec(&w, "auto", &err), "gfx900");
    w.amd[0].single_fp = CL_FP_DENORM;
    assert_string_equal(chosen_by_spec(&w, "auto", &err), "gfx900");

    /* Without a GPU an accelerator is chosen; a CPU is chosen only by "opencl". */
    fake_device *const gpus[] = { &w.nvidia[0], &w.amd[0],   &w.amd[1],
                                  &w.intel[1],  &w.other[0], &w.other[2] };
    for (size_t i = 0; i < 6; i++)
        gpus[i]->compiler = CL_FALSE;
    assert_string_equal(chosen_by_spec(&w, "auto", &err), "FPGA");
    w.other[1].little = CL_FALSE;
    assert_string_equal(chosen_by_spec(&w, "auto", &err), "");
    assert_non_null(strstr(err.message, "no usable OpenCL GPU"));
    assert_non_null(strstr(err.message, "3:0 pthread: it is not a GPU"));
    assert_non_null(strstr(err.message, "0:1 RTX 2: it is not available"));
    assert_string_equal(chosen_by_spec(&w, "opencl", &err), "pthread");
    /* A device that is both GPU and CPU counts as a CPU. */
    w.pocl[0].type = CL_DEVICE_TYPE_CPU | CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_ACCELERATOR;
    assert_string_equal(chosen_by_spec(&w, "auto", &err), "");
    w.pocl[0].available = w.intel[0].available = CL_FALSE;
    assert_string_equal(chosen_by_spec(&w, "opencl", &err), "");
    assert_non_null(strstr(err.message, "no usable OpenCL device"));
}

static void test_choose_index(void **state)
{
    (void)state;
    workstation w;
    tc_err err;
    make_workstation(&w);
    assert_string_equal(chosen_by_spec(&w, "2:0", &err), "Xeon");
    assert_string_equal(chosen_by_spec(&w, "2:1", &err), "UHD");
    assert_string_equal(chosen_by_spec(&w, "4:2", &err), "Mali 2");
    assert_string_equal(chosen_by_spec(&w, "4:3", &err), "");
    assert_string_equal(err.message, "there is no OpenCL device 4:3");
    assert_string_equal(chosen_by_spec(&w, "5:0", &err), "");
    /* If the requested device is refused, no other one is chosen. */
    w.intel[1].local_bytes = 8192;
    assert_string_equal(chosen_by_spec(&w, "2:1", &err), "");
    assert_string_equal(err.message, "OpenCL device 2:1, UHD, cannot be used: it has 8192 bytes of "
                                     "local memory, 16384 are needed");
}

/* Devices are chosen by the numbers of BOINC's client: gpu_opencl_dev_index counts the GPUs and
 * accelerators of a platform, gpu_device_num those of a vendor. */
static void test_choose_assigned(void **state)
{
    (void)state;
    workstation w;
    tc_err err;
    make_workstation(&w);
    assert_string_equal(chosen_by_client(&w.api, "NVIDIA", 0, 0, &err), "GTX 1");
    assert_string_equal(chosen_by_client(&w.api, "NVIDIA", 1, 1, &err), "RTX 2");
    /* The number may follow CUDA's order, which may differ from OpenCL's: the OpenCL index decides.
     */
    assert_string_equal(chosen_by_client(&w.api, "NVIDIA", 1, 0, &err), "RTX 2");
    assert_string_equal(chosen_by_client(&w.api, "ATI", 0, 0, &err), "gfx900");
    assert_string_equal(chosen_by_client(&w.api, "ATI", 1, -1, &err), "gfx1030");
    assert_string_equal(chosen_by_client(&w.api, "AMD", 1, 1, &err), "gfx1030");
    assert_string_equal(chosen_by_client(&w.api, "intel_gpu", 0, 0, &err), "UHD");
    assert_string_equal(chosen_by_client(&w.api, "Intel", 0, 0, &err), "UHD");
    /* Other vendors are given by name, and their devices are counted within the vendor. */
    assert_string_equal(chosen_by_client(&w.api, "ARM", 1, 0, &err), "Mali 2");
    assert_string_equal(chosen_by_client(&w.api, "Xilinx", 0, 0, &err), "FPGA");
    /* An old client gives the number only. */
    assert_string_equal(chosen_by_client(&w.api, "ATI", -1, 1, &err), "gfx1030");
    assert_string_equal(chosen_by_client(&w.api, "ARM", -1, 1, &err), "Mali 2");

    static const struct {
        const char *vendor;
        int index, number;
    } nobody[] = { { "NVIDIA", 2, 0 },      { "intel_gpu", 1, 0 },
                   { "apple_gpu", 0, 0 },   { "", 0, 0 },
                   { "NVIDIA", -1, -1 },    { "NVIDIA", -1, 2 },
                   { "GenuineIntel", 0, 0 } };
    for (size_t i = 0; i < sizeof nobody / sizeof nobody[0]; i++) {
        assert_string_equal(
            chosen_by_client(&w.api, nobody[i].vendor, nobody[i].index, nobody[i].number, &err),
            "");
        assert_non_null(strstr(err.message, "BOINC client assigned"));
    }
    /* If the assigned device is refused, no other one is chosen: the client may have assigned the
     * others to other tasks. */
    w.nvidia[0].local_bytes = 1024;
    assert_string_equal(chosen_by_client(&w.api, "NVIDIA", 0, 0, &err), "");
    assert_non_null(strstr(err.message, "GTX 1, cannot be used"));
}

/* If two drivers list the same GPUs, the index is valid for both platforms: the number decides. */
static void test_assigned_two_drivers(void **state)
{
    (void)state;
    fake_device first[2], second[2];
    tc_err err;
    first[0] = fake_gpu("old 0", "AMD", 1, 1);
    first[1] = fake_gpu("old 1", "AMD", 1, 1);
    second[0] = fake_gpu("new 0", "AMD", 1, 1);
    second[1] = fake_gpu("new 1", "AMD", 1, 1);
    fake_platform platforms[2] = { { "Old", "OpenCL 1.2", first, 2, 0, false },
                                   { "New", "OpenCL 3.0", second, 2, 0, false } };
    const ocl_api api = fake_api(platforms, 2);
    assert_string_equal(chosen_by_client(&api, "ATI", 0, 0, &err), "old 0");
    assert_string_equal(chosen_by_client(&api, "ATI", 1, 1, &err), "old 1");
    assert_string_equal(chosen_by_client(&api, "ATI", 0, 2, &err), "new 0");
    assert_string_equal(chosen_by_client(&api, "ATI", 1, 3, &err), "new 1");
    assert_string_equal(chosen_by_client(&api, "ATI", 1, -1, &err), "old 1");
}

/* One platform has the devices of all vendors, as on macOS: as in the client, the index counts all
 * GPUs in the order of a list of GPUs alone. */
static void test_assigned_one_platform(void **state)
{
    (void)state;
    fake_device all[3];
    tc_err err;
    all[0] = fake_gpu("Iris", "Intel Inc.", 1, 1);
    all[1] = fake_gpu("Radeon A", "AMD", 1, 1);
    all[2] = fake_gpu("Radeon B", "AMD", 1, 1);
    fake_platform platforms[1] = { { "Apple", "OpenCL 1.2 (Apple)", all, 3, 0, false } };
    const ocl_api api = fake_api(platforms, 1);
    assert_string_equal(chosen_by_client(&api, "ATI", 1, 0, &err), "Radeon A");
    assert_string_equal(chosen_by_client(&api, "ATI", 2, 1, &err), "Radeon B");
    assert_string_equal(chosen_by_client(&api, "ATI", 0, 0, &err), "");
    assert_string_equal(chosen_by_client(&api, "intel_gpu", 0, 0, &err), "Iris");
    platforms[0].gpus_reversed = true;
    assert_string_equal(chosen_by_client(&api, "ATI", 0, 0, &err), "Radeon B");
    assert_string_equal(chosen_by_client(&api, "intel_gpu", 2, 0, &err), "Iris");
}

/* --- capabilities ---------------------------------------------------------------------------- */

static const char *refusal_with(const fake_device *device, const char *platform_version)
{
    static char refusal[160];
    fake_device d = *device;
    fake_platform platform = { "P", platform_version, &d, 1, 0, false };
    const ocl_api api = fake_api(&platform, 1);
    ocl_info *list;
    size_t count;
    tc_err err;
    assert_int_equal(ocl_enumerate_devices(&api, &list, &count, &err), TC_OK);
    assert_int_equal(count, 1);
    memcpy(refusal, list[0].refusal, sizeof refusal);
    free(list);
    return refusal;
}

static void test_capabilities(void **state)
{
    (void)state;
    const fake_device good = fake_gpu("G", "V", 1, 1);
    fake_device d;
    assert_string_equal(refusal_with(&good, "OpenCL 1.2 x"), "");
    assert_non_null(strstr(refusal_with(&good, "OpenCL 1.1 x"), "its platform"));
    assert_non_null(strstr(refusal_with(&good, "CL_OUT"), "its platform"));
#define REFUSES(field, value, words) \
    d = good;                        \
    d.field = value;                 \
    assert_non_null(strstr(refusal_with(&d, "OpenCL 3.0"), words))
    REFUSES(version, "OpenCL 1.1 old", "OpenCL 1.1 old");
    REFUSES(version, "OpenCL 0.9", "1.2 is needed");
    REFUSES(version, "rubbish", "1.2 is needed");
    REFUSES(c_version, "OpenCL C 1.1 ", "OpenCL C 1.2 is needed");
    REFUSES(c_version, "OpenCL 1.2 ", "OpenCL C 1.2 is needed");
    REFUSES(profile, "EMBEDDED_PROFILE", "full profile");
    REFUSES(available, CL_FALSE, "not available");
    REFUSES(compiler, CL_FALSE, "no compiler");
    REFUSES(little, CL_FALSE, "little-endian");
    REFUSES(local_bytes, 16383, "local memory");
    REFUSES(max_group, 63, "work-groups");
    REFUSES(max_x, 32, "32 work-items");
    REFUSES(max_y, 7, "7 rows");
#undef REFUSES
    d = good;
    d.version = d.c_version = "";
    assert_true(refusal_with(&d, "OpenCL 3.0")[0] != '\0');
    d = good;
    d.version = "OpenCL 2.0";
    d.c_version = "OpenCL C 10.0";
    assert_string_equal(refusal_with(&d, "OpenCL 2.1"), "");
}

static void test_no_device(void **state)
{
    (void)state;
    ocl_info *list;
    size_t count;
    tc_err err;
    ocl_api api = fake_api(NULL, 0);
    assert_int_equal(ocl_enumerate_devices(&api, &list, &count, &err), TC_DEVICE);
    assert_null(list);
    assert_non_null(strstr(err.message, "no driver"));
    fake.platforms_error = -1001;
    assert_int_equal(ocl_enumerate_devices(&api, &list, &count, &err), TC_DEVICE);
    assert_non_null(strstr(err.message, "no driver"));
    fake.platforms_error = CL_OUT_OF_HOST_MEMORY;
    assert_int_equal(ocl_enumerate_devices(&api, &list, &count, &err), TC_DEVICE);
    assert_non_null(strstr(err.message, "CL_OUT_OF_HOST_MEMORY"));

    /* A platform without devices, and one that cannot list its devices. */
    fake_device none[1];
    fake_platform platforms[2] = { { "Empty", "OpenCL 1.2", none, 0, 0, false },
                                   { "Broken", "OpenCL 1.2", none, 0, CL_OUT_OF_RESOURCES,
                                     false } };
    api = fake_api(platforms, 1);
    assert_int_equal(ocl_enumerate_devices(&api, &list, &count, &err), TC_OK);
    assert_int_equal(count, 0);
    ocl_request request = { .kind = OCL_REQUEST_ANY };
    assert_string_equal(chosen_name(&api, &request, &err), "");
    assert_non_null(strstr(err.message, "there is no device"));
    api = fake_api(platforms, 2);
    assert_string_equal(chosen_name(&api, &request, &err), "");
    assert_non_null(strstr(err.message, "platform Broken"));
    assert_non_null(strstr(err.message, "CL_OUT_OF_RESOURCES"));
}

/* Makes each OpenCL call of the enumeration fail in turn: either the device is listed as refused,
 * or the enumeration fails; a device with incomplete information is not chosen. */
static void test_enumerate_faults(void **state)
{
    (void)state;
    fake_device d = fake_gpu("G", "NVIDIA", 7, 9);
    fake_platform platform = { "P", "OpenCL 1.2", &d, 1, 0, false };
    ocl_api api = fake_api(&platform, 1);
    ocl_request request = { .kind = OCL_REQUEST_AUTO };
    ocl_info *list;
    size_t count, chosen;
    tc_err err;
    unsigned n, refused = 0, chosen_anyway = 0;

    assert_int_equal(ocl_enumerate_devices(&api, &list, &count, &err), TC_OK);
    const unsigned calls = fake.calls;
    free(list);
    for (n = 1; n <= calls; n++) {
        fake.calls = 0;
        fake.fail_at = n;
        const tc_status status = ocl_enumerate_devices(&api, &list, &count, &err);
        if (status == TC_OK) {
            assert_int_equal(count, 1);
            if (ocl_choose_device(list, count, &request, &chosen, &err) == TC_OK) {
                assert_int_equal(list[0].compute_units, 7);
                assert_string_equal(list[0].name, "G");
                chosen_anyway++;
            } else {
                assert_true(list[0].refusal[0] != '\0');
                assert_non_null(strstr(err.message, "CL_OUT_OF_HOST_MEMORY"));
                refused++;
            }
        } else {
            assert_int_equal(status, TC_DEVICE);
            assert_null(list);
        }
        free(list);
    }
    /* Two failures do not refuse the device: the very first call, and the platform's name, which is
     * only printed. */
    assert_int_equal(refused, calls - 2);
    assert_int_equal(chosen_anyway, 1);
}

/* --- opening a device ------------------------------------------------------------------------- */

typedef struct opened {
    fake_device fake_device;
    fake_platform platform;
    ocl_api api;
    ocl_device *device;
} opened;

static void open_fake(opened *o)
{
    ocl_info *list;
    size_t count;
    tc_err err;
    o->fake_device = fake_gpu("G", "NVIDIA", 7, 9);
    o->platform = (fake_platform){ "P", "OpenCL 1.2", &o->fake_device, 1, 0, false };
    o->api = fake_api(&o->platform, 1);
    assert_int_equal(ocl_enumerate_devices(&o->api, &list, &count, &err), TC_OK);
    assert_int_equal(ocl_device_open(&o->api, &list[0], &o->device, &err), TC_OK);
    free(list);
    fake.calls = 0;
}

static void close_fake(opened *o)
{
    ocl_device_close(&o->device);
    assert_null(o->device);
    assert_int_equal(fake.live, 0);
    ocl_device_close(&o->device); /* closing twice does no harm */
}

static void test_open(void **state)
{
    (void)state;
    opened o;
    tc_err err;
    open_fake(&o);
    assert_int_equal(fake.live, 2);
    const ocl_info info = o.device->info;
    assert_int_equal(o.device->memory_limit, (1 << 20) / 2);
    close_fake(&o);
    for (unsigned n = 1; n <= 2; n++) {
        fake.calls = 0;
        fake.fail_at = n;
        assert_int_equal(ocl_device_open(&o.api, &info, &o.device, &err), TC_DEVICE);
        assert_null(o.device);
        assert_non_null(strstr(err.message, n == 1 ? "G: clCreateContext: CL_DEVICE_NOT_AVAILABLE"
                                                   : "G: clCreateCommandQueue"));
        assert_int_equal(fake.live, 0);
    }
    /* A request for the CPU gives no device, and needs no OpenCL. */
    ocl_request request = { .kind = OCL_REQUEST_CPU };
    assert_int_equal(ocl_device_find(&request, &o.device, &err), TC_OK);
    assert_null(o.device);
}

static void test_buffers(void **state)
{
    (void)state;
    opened o;
    ocl_buffer a, b, c;
    char data[16] = "x";
    tc_err err;
    open_fake(&o); /* texcell uses 512 KiB of its memory, and a buffer has at most 256 KiB */
    ocl_device *d = o.device;
    assert_int_equal(ocl_buffer_new(d, 1 << 18, "A", &a, &err), TC_OK);
    assert_int_equal(ocl_buffer_new(d, (1 << 18) - 1, "B", &b, &err), TC_OK);
    assert_int_equal(d->memory_used, (1 << 19) - 1);
    assert_int_equal(ocl_buffer_new(d, 2, "state", &c, &err), TC_TOO_LARGE);
    assert_non_null(strstr(err.message, "state"));
    assert_null(c.memory);
    assert_int_equal(ocl_buffer_new(d, 1, "C", &c, &err), TC_OK);
    ocl_buffer_free(d, &c);
    assert_null(c.memory);
    ocl_buffer_free(d, &b);
    ocl_buffer_free(d, &b);
    assert_int_equal(ocl_buffer_new(d, (1 << 18) + 1, "B", &b, &err), TC_TOO_LARGE);
    assert_non_null(strstr(err.message, "at most"));
    assert_int_equal(ocl_buffer_new(d, SIZE_MAX, "B", &b, &err), TC_TOO_LARGE);
    assert_int_equal(ocl_buffer_new(d, 0, "B", &b, &err), TC_INTERNAL);

    assert_int_equal(ocl_write(d, &a, (1 << 18) - 16, data, 16, &err), TC_OK);
    assert_int_equal(ocl_write(d, &a, (1 << 18) - 15, data, 16, &err), TC_INTERNAL);
    assert_int_equal(ocl_read(d, &a, SIZE_MAX, data, 16, &err), TC_INTERNAL);
    assert_int_equal(ocl_read(d, &a, 16, data, SIZE_MAX, &err), TC_INTERNAL);
    assert_int_equal(ocl_read(d, &b, 0, data, 16, &err), TC_INTERNAL);
    assert_int_equal(ocl_read(d, &a, 0, data, 16, &err), TC_OK);
    assert_int_equal(ocl_zero_buffer(d, &a, &err), TC_OK);
    fake.fail_at = fake.calls + 1;
    assert_int_equal(ocl_read(d, &a, 0, data, 16, &err), TC_DEVICE);
    assert_string_equal(err.message, "G: clEnqueueReadBuffer: CL_OUT_OF_RESOURCES");
    fake.fail_at = fake.calls + 1;
    assert_int_equal(ocl_buffer_new(d, 16, "votes", &b, &err), TC_DEVICE);
    assert_non_null(strstr(err.message, "votes: CL_MEM_OBJECT_ALLOCATION_FAILURE"));
    ocl_buffer_free(d, &a);
    close_fake(&o);
}

/* --- programs -------------------------------------------------------------------------------- */

static const char *const source_lines[] = { "__kernel void k() {\n", "}\n" };
static const ocl_source source = { "fake.cl", source_lines, 2 };

/* Frees all built programs, so that they are built again. */
static void drop_programs(ocl_device *device)
{
    if (device->programs != NULL)
        device->free_programs(device);
}

static void test_build_flags(void **state)
{
    (void)state;
    static const char rounding[] = "-cl-fp32-correctly-rounded-divide-sqrt";
    opened o;
    cl_program program;
    char defines[2000];
    tc_err err;
    open_fake(&o);
    assert_int_equal(ocl_program_build(o.device, &source, NULL, false, &program, &err), TC_OK);
    assert_string_equal(fake.build_options, "-cl-std=CL1.2 -ffp-contract=off");
    drop_programs(o.device);
    assert_int_equal(ocl_program_build(o.device, &source, "-DA=1", true, &program, &err), TC_OK);
    assert_string_equal(fake.build_options,
                        "-cl-std=CL1.2 -ffp-contract=off -cl-fp32-correctly-rounded-divide-sqrt "
                        "-DA=1");
    drop_programs(o.device);
    o.device->info.single_fp = CL_FP_DENORM; /* without support for it the flag would be an error */
    assert_int_equal(ocl_program_build(o.device, &source, "-DA=1", true, &program, &err), TC_OK);
    assert_null(strstr(fake.build_options, rounding));
    drop_programs(o.device);
    o.device->contract_off = 0; /* some compilers refuse -ffp-contract */
    fake.calls = 0;
    fake.fail_at = 2;
    assert_int_equal(ocl_program_build(o.device, &source, NULL, false, &program, &err), TC_OK);
    assert_string_equal(fake.build_options, "-cl-std=CL1.2");
    drop_programs(o.device);
    memset(defines, 'x', sizeof defines);
    defines[sizeof defines - 1] = '\0';
    assert_int_equal(ocl_program_build(o.device, &source, defines, true, &program, &err),
                     TC_INTERNAL);
    close_fake(&o);
}

static void test_build_failure(void **state)
{
    (void)state;
    opened o;
    cl_program program;
    tc_err err;
    char *log = malloc(300000);
    assert_non_null(log);
    open_fake(&o);
    fake.build_fails = true;
    fake.build_log = "line 1: no such\nthing";
    assert_int_equal(ocl_program_build(o.device, &source, NULL, false, &program, &err), TC_DEVICE);
    assert_string_equal(err.message, "G: build of fake.cl: CL_BUILD_PROGRAM_FAILURE: "
                                     "line 1: no such thing");
    assert_null(program);
    memset(log, 'e', 299999);
    log[299999] = '\0';
    fake.build_log = log; /* a log that is too long is left out of the message */
    assert_int_equal(ocl_program_build(o.device, &source, NULL, false, &program, &err), TC_DEVICE);
    assert_string_equal(err.message, "G: build of fake.cl: CL_BUILD_PROGRAM_FAILURE");
    log[5000] = '\0'; /* of a long log the message has the beginning */
    assert_int_equal(ocl_program_build(o.device, &source, NULL, false, &program, &err), TC_DEVICE);
    assert_in_range(strlen(err.message), 400, 500);
    fake.build_log = NULL;
    assert_int_equal(ocl_program_build(o.device, &source, NULL, false, &program, &err), TC_DEVICE);
    close_fake(&o);
    free(log);
}

/* --- the cache of compiled programs ----------------------------------------------------------- */

typedef struct keeping {
    opened o;
    char *folder;
} keeping;

static void open_keeping(keeping *k)
{
    open_fake(&k->o);
    k->folder = make_folder();
    k->o.device->cache_folder = k->folder;
    fake.build_ms = OCL_CACHE_MIN_BUILD_MS + 20;
}

static void close_keeping(keeping *k)
{
    close_fake(&k->o);
    remove_folder(k->folder);
}

/* Builds a program once. Returns "S" if it was built from source, "B" from the cached binary, "BS"
 * from source after the binary was refused. */
static const char *build_once(keeping *k, const char *defines)
{
    cl_program program;
    tc_err err;

    fake.sources = fake.binaries = 0;
    assert_int_equal(ocl_program_build(k->o.device, &source, defines, false, &program, &err),
                     TC_OK);
    drop_programs(k->o.device);
    return fake.binaries == 0 ? "S" : fake.sources == 0 ? "B" : "BS";
}

static char *cached_file(const keeping *k)
{
    DIR *const dir = opendir(k->folder);
    char *path = NULL;

    assert_non_null(dir);
    for (const struct dirent *e; (e = readdir(dir)) != NULL;)
        if (e->d_name[0] != '.') {
            assert_null(path);
            path = join_path(k->folder, e->d_name);
        }
    closedir(dir);
    assert_non_null(path);
    return path;
}

static void test_program_cache(void **state)
{
    (void)state;
    keeping k;
    open_keeping(&k);
    assert_string_equal(build_once(&k, NULL), "S");
    assert_int_equal(count_files(k.folder), 1);
    assert_false(k.o.device->cache_used);
    assert_string_equal(build_once(&k, NULL), "B");
    assert_true(k.o.device->cache_used);
    /* Other flags, another driver, another device: each gets its own program. */
    assert_string_equal(build_once(&k, "-DA=1"), "S");
    snprintf(k.o.device->info.driver, sizeof k.o.device->info.driver, "2.0");
    assert_string_equal(build_once(&k, NULL), "S");
    snprintf(k.o.device->info.name, sizeof k.o.device->info.name, "H");
    assert_string_equal(build_once(&k, NULL), "S");
    assert_string_equal(build_once(&k, NULL), "B");
    assert_int_equal(count_files(k.folder), 4);
    ocl_program_cache_clear(k.o.device);
    assert_int_equal(count_files(k.folder), 0);
    assert_string_equal(build_once(&k, NULL), "S");
    assert_int_equal(count_files(k.folder), 0);
    close_keeping(&k);
}

static void test_program_cache_not(void **state)
{
    (void)state;
    keeping k;
    open_keeping(&k);
    fake.build_ms = 0; /* a fast build is not cached */
    assert_string_equal(build_once(&k, NULL), "S");
    fake.build_ms = OCL_CACHE_MIN_BUILD_MS + 20;
    k.o.device->cache_folder = "/no/such/folder";
    assert_string_equal(build_once(&k, NULL), "S");
    k.o.device->cache_folder = k.folder;
    for (unsigned n = 3; n <= 4; n++) { /* the driver does not return the binary */
        fake.calls = 0;
        fake.fail_at = n;
        assert_string_equal(build_once(&k, NULL), "S");
    }
    assert_int_equal(count_files(k.folder), 0);
    close_keeping(&k);
}

static void test_program_cache_broken(void **state)
{
    (void)state;
    keeping k;
    open_keeping(&k);
    build_once(&k, NULL);
    char *const path = cached_file(&k);
    char data[1024];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t n = fread(data, 1, sizeof data, file);
    fclose(file);
    assert_in_range(n, 130, 200);
    for (size_t i = 0; i < n; i += 19) { /* one bit of the file is wrong */
        data[i] ^= 4;
        write_file(path, data, n);
        assert_string_equal(build_once(&k, NULL), "S");
        data[i] ^= 4;
        assert_string_equal(build_once(&k, NULL), "B");
    }
    for (size_t length = 0; length < n; length += 31) {
        write_file(path, data, length); /* the file is truncated, as on a full disk */
        assert_string_equal(build_once(&k, NULL), "S");
    }
    fake.binary_refused = true; /* as another driver of the same name and version may do */
    assert_string_equal(build_once(&k, NULL), "BS");
    fake.binary_refused = false;
    fake.binary_fails = true;
    assert_string_equal(build_once(&k, NULL), "BS");
    fake.binary_fails = false;
    assert_string_equal(build_once(&k, NULL), "B");
    assert_int_equal(count_files(k.folder), 1);
    /* While a binary is tried, its file has another name. If the driver crashes, the file keeps
     * this name, and the binary is not tried again. */
    const size_t stem = strlen(path) - strlen("bin");
    char *const tried = malloc(stem + sizeof "tried");
    assert_non_null(tried);
    snprintf(tried, stem + sizeof "tried", "%.*stried", (int)stem, path);
    assert_int_equal(rename(path, tried), 0);
    assert_string_equal(build_once(&k, NULL), "S");
    free(tried);
    free(path);
    close_keeping(&k);
}

/* If a device fails the self-test with cached programs, the test is repeated without them. */
static void test_program_cache_wrong(void **state)
{
    (void)state;
    keeping k;
    tc_err err;
    open_keeping(&k);
    assert_int_equal(ocl_check_device(an_find_analysis("cellcount"), NULL, k.o.device, NULL, &err),
                     TC_DEVICE);
    assert_non_null(strstr(err.message, "G: integer arithmetic is wrong (self-test"));
    assert_int_equal(count_files(k.folder), 1);
    assert_int_equal(fake.sources, 1);
    drop_programs(k.o.device);
    assert_int_equal(ocl_check_device(an_find_analysis("cellcount"), NULL, k.o.device, NULL, &err),
                     TC_DEVICE);
    assert_int_equal(fake.binaries, 1);
    assert_int_equal(fake.sources, 2);
    assert_int_equal(count_files(k.folder), 0);
    assert_null(k.o.device->cache_folder);
    close_keeping(&k);
}

static void test_program_cache_room(void **state)
{
    (void)state;
    keeping k;
    char name[40];
    open_keeping(&k);
    for (int i = 0; i < OCL_CACHE_MOST + 3; i++) {
        snprintf(name, sizeof name, "texcell_kernels_%d.bin", i);
        char *const path = join_path(k.folder, name);
        write_file(path, "old", 3);
        free(path);
    }
    char *const other = join_path(k.folder, "a_picture.zip");
    write_file(other, "mine", 4);
    build_once(&k, NULL);
    assert_int_equal(count_files(k.folder), OCL_CACHE_MOST + 1);
    assert_int_equal(access(other, F_OK), 0);
    free(other);
    assert_string_equal(build_once(&k, NULL), "B");
    close_keeping(&k);
}

/* --- launches -------------------------------------------------------------------------------- */

static void make_kernel(opened *o, ocl_kernel *kernel)
{
    cl_program program;
    tc_err err;
    open_fake(o);
    assert_int_equal(ocl_program_build(o->device, &source, NULL, false, &program, &err), TC_OK);
    assert_int_equal(ocl_kernel_new(o->device, program, "k", kernel, &err), TC_OK);
    drop_programs(o->device);
}

static void test_batch(void **state)
{
    (void)state;
    opened o;
    ocl_kernel k;
    ocl_batch batch = { 0 };
    const size_t global = 64, none = 0;
    double ms = -1;
    tc_background beside;
    tc_err err;
    make_kernel(&o, &k);
    assert_int_equal(k.max_group, 256); /* limited by the device; the kernel's limit is 1024 */
    assert_int_equal(k.multiple, 32);
    assert_int_equal(k.local_bytes, 128);
    ocl_device *d = o.device;
    const int before = fake.live;
    assert_int_equal(ocl_batch_wait(d, &batch, 0, &ms, &err), TC_OK);
    assert_true(ms == 0);
    assert_int_equal(ocl_launch(d, &k, 1, NULL, &none, NULL, &batch, &err), TC_OK);
    assert_int_equal(fake.launches, 0);
    for (int i = 0; i < 5; i++)
        assert_int_equal(ocl_launch(d, &k, 1, NULL, &global, NULL, &batch, &err), TC_OK);
    assert_int_equal(fake.launches, 5);
    assert_int_equal(fake.live, before + 1); /* the event of the first launch */
    tc_background_init(&beside, false);
    d->background = &beside;
    fake.background = &beside;
    assert_int_equal(ocl_batch_wait(d, &batch, 3, &ms, &err), TC_OK);
    assert_true(ms == 3.0);
    assert_int_equal(fake.event_polls, 3); /* the wait slept until the event was complete */
    assert_int_equal(fake.up, 3);          /* background threads could work in this time */
    assert_int_equal(beside.allowed, 0);
    d->background = NULL;
    fake.background = NULL;
    tc_background_destroy(&beside);
    assert_int_equal(fake.live, before);

    /* A driver with wrong profiling times: the host's clock is used. */
    fake.start_ns = 5;
    fake.end_ns = 4;
    assert_int_equal(ocl_launch(d, &k, 1, NULL, &global, NULL, &batch, &err), TC_OK);
    assert_int_equal(ocl_batch_wait(d, &batch, 0, &ms, &err), TC_OK);
    assert_true(ms >= 0 && ms < 60000);

    /* The marker after several launches cannot be enqueued: the batch is emptied. */
    for (int i = 0; i < 2; i++)
        assert_int_equal(ocl_launch(d, &k, 1, NULL, &global, NULL, &batch, &err), TC_OK);
    fake.fail_at = fake.calls + 1;
    assert_int_equal(ocl_batch_wait(d, &batch, 0, &ms, &err), TC_DEVICE);
    assert_string_equal(err.message, "G: clEnqueueMarkerWithWaitList: CL_OUT_OF_RESOURCES");
    assert_int_equal(fake.live, before);

    /* A failed launch leaves the batch as it was; a failed wait empties it. */
    assert_int_equal(ocl_launch(d, &k, 1, NULL, &global, NULL, &batch, &err), TC_OK);
    fake.fail_at = fake.calls + 1;
    assert_int_equal(ocl_launch(d, &k, 1, NULL, &global, NULL, &batch, &err), TC_DEVICE);
    assert_string_equal(err.message, "G: launch of kernel k: CL_OUT_OF_RESOURCES");
    fake.fail_at = fake.calls + 1;
    assert_int_equal(ocl_batch_wait(d, &batch, 0, &ms, &err), TC_DEVICE);
    assert_int_equal(fake.live, before);
    /* The event ends in an error while the wait sleeps. */
    assert_int_equal(ocl_launch(d, &k, 1, NULL, &global, NULL, &batch, &err), TC_OK);
    fake.event_polls = 0;
    fake.event_state = CL_OUT_OF_RESOURCES;
    fake.fail_at = fake.calls + 5; /* clWaitForEvents, after the flush and three polls */
    assert_int_equal(ocl_batch_wait(d, &batch, 3, &ms, &err), TC_DEVICE);
    assert_non_null(strstr(err.message, "clWaitForEvents"));
    /* The event is never complete: after some polls clWaitForEvents is called, which the guard
     * watches. */
    assert_int_equal(ocl_launch(d, &k, 1, NULL, &global, NULL, &batch, &err), TC_OK);
    fake.event_state = CL_RUNNING;
    alarm(60);
    assert_int_equal(ocl_batch_wait(d, &batch, 3, &ms, &err), TC_OK);
    alarm(0);
    assert_true(fake.event_polls > 3);
    assert_int_equal(ocl_launch(d, &k, 1, NULL, &global, NULL, &batch, &err), TC_OK);
    ocl_batch_drop(d, &batch);
    ocl_kernel_free(d, &k);
    ocl_kernel_free(d, &k);
    close_fake(&o);
}

/* Makes every call of the self-test fail in turn: it returns an error and releases all objects. If
 * no call fails, it must fail as well, since the fake's answers are wrong. */
static void test_selftest_faults(void **state)
{
    (void)state;
    opened o;
    tc_err err;
    open_fake(&o);
    const int before = fake.live;
    /* The compiler accepts -ffp-contract, which some refuse. */
    o.device->contract_off = 1;
    fake.calls = 0;
    assert_int_equal(ocl_selftest(o.device, true, NULL, &err), TC_DEVICE);
    assert_non_null(strstr(err.message, "G: integer arithmetic is wrong (self-test"));
    drop_programs(o.device);
    assert_int_equal(fake.live, before);
    const unsigned calls = fake.calls;
    assert_true(calls > 8);
    for (unsigned n = 1; n <= calls; n++) {
        fake.calls = 0;
        fake.fail_at = n;
        assert_int_equal(ocl_selftest(o.device, true, NULL, &err), TC_DEVICE);
        assert_non_null(strstr(err.message, "CL_"));
        drop_programs(o.device);
        assert_int_equal(fake.live, before);
        assert_int_equal(o.device->memory_used, 0);
    }
    close_fake(&o);
}

/* --- sizes of launches (ocl_pace) ------------------------------------------------------------- */

static void test_pace_rules(void **state)
{
    (void)state;
    ocl_pace s;
    ocl_pace_init(&s, 50, 100, 1000);
    assert_int_equal(ocl_pace_next(&s, 5000), 100);
    assert_int_equal(ocl_pace_next(&s, 7), 7);
    assert_int_equal(ocl_pace_next(&s, 0), 0);
    ocl_pace_adjust(&s, 100, 1); /* a launch that was far too short: the size is doubled */
    assert_int_equal(s.next_work, 200);
    ocl_pace_adjust(&s, 50, 1); /* a launch below the current size: no change */
    assert_int_equal(s.next_work, 200);
    ocl_pace_adjust(&s, 200, 0);
    assert_int_equal(s.next_work, 400);
    ocl_pace_adjust(&s, 400, 500); /* a launch ten times too long: the size is reduced at once */
    assert_int_equal(s.next_work, 32);
    ocl_pace_adjust(&s, 16, 400); /* also after a launch below the current size */
    assert_int_equal(s.next_work, 1);
    ocl_pace_adjust(&s, 1, 400); /* the size is at least 1 */
    assert_int_equal(s.next_work, 1);
    for (int i = 0; i < 20; i++)
        ocl_pace_adjust(&s, s.next_work, 0.01);
    assert_int_equal(s.next_work, 1000); /* the size is at most the maximum */
    ocl_pace_adjust(&s, 1000, 45);       /* a launch near the target time: no change */
    assert_int_equal(s.next_work, 1000);
    ocl_pace_init(&s, 50, 10, 1000);
    s.even_units = true;
    ocl_pace_adjust(&s, 10, 5); /* bold: four times as much */
    assert_int_equal(s.next_work, 40);
    ocl_pace_adjust(&s, 40, 6); /* bold, but four times would exceed the target: doubled */
    assert_int_equal(s.next_work, 80);
    ocl_pace_init(&s, 0, 0, 0);
    assert_int_equal(ocl_pace_next(&s, 5), 1);
    ocl_pace_init(&s, 50, UINT64_MAX, UINT64_MAX);
    ocl_pace_adjust(&s, UINT64_MAX, 0.001);
    assert_true(s.next_work == UINT64_MAX);
    ocl_pace_init(&s, 50, 9, 4);
    assert_int_equal(s.next_work, 4);
}

/* On devices of any speed, the time of a launch approaches the target within a few launches, and
 * only the first launch takes much longer. */
static void test_pace_settles(void **state)
{
    (void)state;
    for (uint64_t speed = 1; speed < 10000000; speed *= 3) {
        const double ms_per_unit = 1e-6 * (double)speed;
        ocl_pace s;
        ocl_pace_init(&s, 50, 64, (uint64_t)1 << 40);
        double ms = 0;
        for (int i = 0; i < 40; i++) {
            const uint64_t work = ocl_pace_next(&s, UINT64_MAX);
            ms = (double)work * ms_per_unit + 0.01;
            if (i > 0)
                assert_true(ms <= 50);
            ocl_pace_adjust(&s, work, ms);
        }
        assert_true(ms > 20 && ms <= 50);
    }
}

static void test_error_names(void **state)
{
    (void)state;
    assert_string_equal(ocl_error_name(CL_OUT_OF_RESOURCES), "CL_OUT_OF_RESOURCES");
    assert_string_equal(ocl_error_name(-1001), "CL_PLATFORM_NOT_FOUND_KHR");
    assert_non_null(ocl_error_name(-424242));
}

static void test_round_up(void **state)
{
    (void)state;
    assert_int_equal(ocl_round_up(0, 64), 0);
    assert_int_equal(ocl_round_up(1, 64), 64);
    assert_int_equal(ocl_round_up(64, 64), 64);
    assert_int_equal(ocl_round_up(65, 64), 128);
    assert_int_equal(ocl_round_up(7, 1), 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_request_parse),
        cmocka_unit_test(test_enumerate),
        cmocka_unit_test(test_choose_best),
        cmocka_unit_test(test_choose_index),
        cmocka_unit_test(test_choose_assigned),
        cmocka_unit_test(test_assigned_two_drivers),
        cmocka_unit_test(test_assigned_one_platform),
        cmocka_unit_test(test_capabilities),
        cmocka_unit_test(test_no_device),
        cmocka_unit_test(test_enumerate_faults),
        cmocka_unit_test(test_open),
        cmocka_unit_test(test_buffers),
        cmocka_unit_test(test_build_flags),
        cmocka_unit_test(test_build_failure),
        cmocka_unit_test(test_program_cache),
        cmocka_unit_test(test_program_cache_not),
        cmocka_unit_test(test_program_cache_broken),
        cmocka_unit_test(test_program_cache_wrong),
        cmocka_unit_test(test_program_cache_room),
        cmocka_unit_test(test_batch),
        cmocka_unit_test(test_selftest_faults),
        cmocka_unit_test(test_pace_rules),
        cmocka_unit_test(test_pace_settles),
        cmocka_unit_test(test_error_names),
        cmocka_unit_test(test_round_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
