/*
 * Times cellcount's labels on an OpenCL device, and compares them with the CPU's.
 *
 *     gpu_cellcount DEVICE WIDTH HEIGHT CONNECTIVITY REPEATS FILE
 *
 * FILE has WIDTH*HEIGHT bytes; bytes other than 0 are cells. Prints in milliseconds: the best
 * device time of the labels (from picture to labels, both in device memory, without waits between
 * launches); the best of measuring the regions (0: too many for the state's table); the best wall
 * time of everything (with transfers, compilation and waits), with the labels and with the table
 * alone; and "same" or "DIFFERENT".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "app/analysis/analyses.h"
#include "app/analysis/cellcount/cellcount.h"
#include "app/base/os.h"
#include "opencl/backends.h"
#include "opencl/cellcount_cl.h"

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static tc_status once(const an_backend *backend, const an_work *work, cc_state *state, double *ms,
                      tc_err *err)
{
    void *worker = NULL;
    uint64_t units;
    tc_status status;

    state->head.chunks_done = 0;
    status = backend->open(work, state, &worker, err);
    if (status == TC_OK)
        do
            status = backend->step(worker, state, &units, err);
        while (status == TC_MORE);
    if (status == TC_OK)
        status = an_sync(backend, worker, state, err);
    if (worker != NULL) {
        if (ms != NULL) {
            ms[0] = ((const cc_cl_worker *)worker)->label_ms;
            ms[1] = ((const cc_cl_worker *)worker)->measure_ms;
        }
        backend->close(&worker);
    }
    return status;
}

static tc_status compare(an_work *work, ocl_device *device, int repeats, tc_err *err)
{
    cc_state *const cpu = calloc(1, work->plan.state_bytes), *const gpu =
                                                                 calloc(1, work->plan.state_bytes);
    double labels = 1e30, measure = 1e30, all[2] = { 1e30, 1e30 };
    tc_status status = cpu == NULL || gpu == NULL ? tc_no_memory(err, "the states")
                                                  : once(&cc_cpu, work, cpu, NULL, err);

    work->device = device;
    /* Runs with and without labels alternate; the last one has labels. */
    for (int i = 2 * repeats; status == TC_OK && i-- > 0;) {
        const double start = now_ms();
        double ms[2] = { 0 }, *const best = &all[i % 2];

        work->result_only = i % 2 == 1;
        status = once(&ocl_cellcount, work, gpu, ms, err);
        labels = ms[0] < labels ? ms[0] : labels;
        measure = ms[1] < measure ? ms[1] : measure;
        *best = now_ms() - start < *best ? now_ms() - start : *best;
    }
    if (status == TC_OK)
        printf("%.3f %.3f %.3f %.3f %s\n", labels, measure, all[0], all[1],
               memcmp(cpu, gpu, work->plan.state_bytes) == 0 ? "same" : "DIFFERENT");
    free(cpu);
    free(gpu);
    return status;
}

int main(int argc, char **argv)
{
    cc_params params = { .threshold = 1, .bright = true, .min_area = 1, .max_area = INT64_MAX };
    wu_item item = { .nz = 1, .bits = 8, .channels = 1 };
    wu_pixels pixels = { .nz = 1, .bits = 8 };
    an_work work = { .params = &params, .item = &item, .pixels = &pixels, .launch_ms = 50 };
    ocl_request request = { .kind = OCL_REQUEST_ANY };
    ocl_device *device = NULL;
    tc_err err = { "" };
    tc_status status;
    FILE *file;
    size_t n;

    if (argc != 7 || ocl_request_parse(argv[1], &request, &err) != TC_OK) {
        fprintf(stderr, "usage: gpu_cellcount DEVICE WIDTH HEIGHT CONNECTIVITY REPEATS FILE\n%s\n",
                err.message);
        return 1;
    }
    pixels.nx = item.nx = (uint32_t)atoi(argv[2]);
    pixels.ny = item.ny = (uint32_t)atoi(argv[3]);
    work.threads = os_processors();
    params.eight_connected = atoi(argv[4]) == 8;
    n = (size_t)item.nx * item.ny;
    pixels.u8 = malloc(n);
    file = fopen(argv[6], "rb");
    if (pixels.u8 == NULL || file == NULL || fread(pixels.u8, 1, n, file) != n) {
        fprintf(stderr, "%s: cannot be read\n", argv[6]);
        return 2;
    }
    fclose(file);
    status = an_cellcount.plan(&params, &item, &work.plan, &err);
    if (status == TC_OK)
        status = ocl_device_find(&request, &device, &err);
    if (status == TC_OK)
        status = compare(&work, device, atoi(argv[5]), &err);
    if (status != TC_OK)
        fprintf(stderr, "gpu_cellcount: %s\n", err.message);
    ocl_device_close(&device);
    free(pixels.u8);
    return status == TC_OK ? 0 : 3;
}
