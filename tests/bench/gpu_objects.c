/*
 * make bench-gpu: objects on an OpenCL device, compared with the CPU.
 *   gpu_objects DEVICE THREADS UNIT.zip [PARAMETERS]
 * Runs the unit's first item, with the unit's or the given parameters (JSON), five times on each.
 * Prints the times of opening (with the build and the transfer of picture and labels), of all
 * steps, and of the kernels; and whether the state has the same bits. DEVICE is an argument of
 * texcell's --device, or "none" for the CPU only.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "app/analysis/analyses.h"
#include "app/analysis/objects/objects.h"
#include "opencl/backends.h"
#include "opencl/work.h"

enum { REPEATS = 5 };

static tc_status run(const an_work *work, const an_backend *backend, unsigned long *crc,
                     tc_err *err)
{
    void *const state = calloc(1, work->plan.state_bytes);
    const double start = ocl_clock_ms();
    void *worker = NULL;
    uint64_t chunks;
    tc_status status =
        state == NULL ? tc_no_memory(err, "the state") : backend->open(work, state, &worker, err);
    const double opened = ocl_clock_ms();

    if (status == TC_OK)
        status = TC_MORE;
    while (status == TC_MORE)
        status = backend->step(worker, state, &chunks, err);
    if (status == TC_OK) {
        *crc = crc32_z(crc32_z(0, NULL, 0), state, work->plan.state_bytes);
        printf("  %s: open %.1f, steps %.1f ms", backend->name, opened - start,
               ocl_clock_ms() - opened);
    }
    if (worker != NULL)
        backend->close(&worker);
    free(state);
    return status;
}

static tc_status on_device(an_work *work, const ocl_request *request, unsigned long expected,
                           tc_err *err)
{
    unsigned long crc = 0;
    tc_status status = ocl_device_find(request, &work->device, err);

    if (status == TC_OK)
        status = run(work, &ocl_objects, &crc, err);
    if (status == TC_OK)
        printf(", kernels %.2f, build %.0f ms, transfers %.1f ms (%.1f MB); %s: %s\n",
               work->device->times.kernels, work->device->times.build,
               work->device->times.transfers, (double)work->device->times.bytes * 1e-6,
               crc == expected ? "same bits" : "OTHER BITS", work->device->info.name);
    ocl_device_close(&work->device);
    return status;
}

int main(int argc, char **argv)
{
    ocl_request request = { .kind = OCL_REQUEST_ANY };
    wu_pixels pixels = { 0 };
    an_work work = { .pixels = &pixels, .launch_ms = 50 };
    json_t *json = NULL;
    wu_job *job = NULL;
    void *params = NULL;
    unsigned long crc = 0;
    tc_err err = { "" };
    tc_status status;

    if (argc < 4 ||
        (strcmp(argv[1], "none") != 0 && ocl_request_parse(argv[1], &request, &err) != TC_OK)) {
        fprintf(stderr, "usage: gpu_objects DEVICE THREADS UNIT.zip [PARAMETERS]\n%s\n",
                err.message);
        return 1;
    }
    work.threads = (unsigned)atoi(argv[2]);
    status = wu_job_read(argv[3], &job, &err);
    if (status == TC_OK)
        status = wu_item_load(job, 0, &pixels, &err);
    json = status != TC_OK ? NULL
           : argc > 4      ? json_loads(argv[4], 0, NULL)
                           : json_incref(job->parameters);
    if (status == TC_OK)
        status = an_parse_params(&an_objects, json, "parameters", &params, &err);
    if (status == TC_OK)
        status = an_objects.plan(params, &job->items[0], &work.plan, &err);
    work.params = params;
    work.item = status == TC_OK ? &job->items[0] : NULL;
    for (int i = 0; status == TC_OK && i < REPEATS; i++) {
        status = run(&work, &obj_cpu, &crc, &err);
        printf(", %u threads\n", work.threads);
        if (status == TC_OK && strcmp(argv[1], "none") != 0)
            status = on_device(&work, &request, crc, &err);
    }
    if (status != TC_OK)
        fprintf(stderr, "gpu_objects: %s\n", err.message);
    wu_pixels_free(&pixels);
    an_params_free(&an_objects, &params);
    json_decref(json);
    wu_job_destroy(&job);
    return status != TC_OK;
}
