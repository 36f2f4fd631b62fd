/*
 * make bench-gpu: voting on every usable OpenCL device.
 *   gpu_voting NX NY NZ RADIUS THREADS [SLICE_MS]
 * Made-up 16-bit balls, closely packed. For each device, three times: build,
 * kernels, transfers, all from open to the state on the host. THREADS above 0: the CPU
 * as well, the ratio, and whether the state is the same, bit for bit.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "app/analysis/selftest.h"
#include "app/analysis/voting.h"
#include "opencl/backends.h"
#include "opencl/work.h"

/* Runs the whole item; *ms is the time from open to the last sync. */
static tc_status run(const an_backend *backend, const an_task *task, void *state, double *ms, tc_err *err)
{
    const double start = ocl_clock_ms();
    void *worker = NULL;
    uint64_t units;
    tc_status st;

    memset(state, 0, task->plan.state_bytes);
    st = backend->open(task, state, &worker, err);
    if (st == TC_OK)
        do
            st = backend->step(worker, state, &units, err);
        while (st == TC_MORE);
    if (st == TC_OK)
        st = backend->sync(worker, state, err);
    if (worker != NULL)
        backend->close(&worker);
    *ms = ocl_clock_ms() - start;
    return st;
}

static unsigned long crc_of(const an_task *task, const void *state)
{
    return crc32_z(crc32_z(0, NULL, 0), state, task->plan.state_bytes);
}

/* cpu_ms: 0 where the CPU was not asked. */
static void bench_device(const ocl_api *api, const ocl_info *info, an_task *task, unsigned long expected, double cpu_ms)
{
    void *const state = malloc(task->plan.state_bytes);
    tc_err err = { "out of memory" };

    printf("%u:%u %s\n", info->platform_index, info->device_index, info->name);
    for (int round = 0; state != NULL && round < 3; round++) {
        ocl_device *device = NULL;
        double ms = 0;
        tc_status st = ocl_device_open(api, info, &device, &err);

        task->device = device;
        if (st == TC_OK)
            st = run(ocl_backend("voting"), task, state, &ms, &err);
        if (st != TC_OK) {
            printf("  %s\n", err.message);
        } else {
            const ocl_times *const t = &device->times;
            const unsigned long crc = crc_of(task, state);

            printf("  build %.0f ms, kernels %.1f ms, transfers %.1f ms (%.1f MB), in all %.1f ms, crc %08lx", t->build,
                   t->kernels, t->transfers, (double)t->bytes * 1e-6, ms, crc);
            if (cpu_ms > 0)
                printf("; %.1f times the CPU (kernels: %.1f); %s", cpu_ms / (ms - t->build), cpu_ms / t->kernels,
                       crc == expected ? "same bits" : "OTHER BITS");
            printf("\n");
        }
        ocl_device_close(&device);
    }
    free(state);
}

static tc_status cpu(an_task *task, unsigned long *crc, double *ms, tc_err *err)
{
    void *const state = malloc(task->plan.state_bytes);
    tc_status st = state == NULL ? tc_no_memory(err, "the state") : run(&voting_cpu, task, state, ms, err);

    if (st == TC_OK) {

        *crc = crc_of(task, state);
        printf("CPU, %u threads: %.0f ms, crc %08lx\n", task->threads, *ms, *crc);
    }
    free(state);
    return st;
}

int main(int argc, char **argv)
{
    char name[] = "bench", text[64];
    an_selftest made = { .bits = 16 };
    wu_item item = { .name = name, .bits = 16, .channels = 1, .spacing = { 1, 1, 1 } };
    wu_pixels px = { 0 };
    an_task task = { .item = &item, .pixels = &px, .slice_ms = argc > 6 ? atof(argv[6]) : 50 };
    ocl_info *list = NULL;
    size_t count = 0;
    void *params = NULL;
    unsigned long crc = 0;
    double cpu_ms = 0;
    tc_err err = { "" };
    ocl_api api;
    tc_status st;

    if (argc < 6) {
        fprintf(stderr, "usage: gpu_voting NX NY NZ RADIUS THREADS [SLICE_MS]\n");
        return 1;
    }
    item.nx = made.nx = (uint32_t)atoi(argv[1]);
    item.ny = made.ny = (uint32_t)atoi(argv[2]);
    item.nz = made.nz = (uint32_t)atoi(argv[3]);
    item.is_stack = item.nz > 1;
    item.n_images = item.nz;
    task.threads = (unsigned)atoi(argv[5]);
    snprintf(text, sizeof text, "{\"radius\":%.9g}", atof(argv[4]));
    json_t *const json = json_loads(text, 0, NULL);
    st = an_selftest_pixels(&made, &px, &err);
    if (st == TC_OK)
        st = an_parse(&an_voting, json, "parameters", &params, &err);
    if (st == TC_OK)
        st = an_voting.plan(params, &item, &task.plan, &err);
    task.params = params;
    if (st == TC_OK && task.threads > 0)
        st = cpu(&task, &crc, &cpu_ms, &err);
    if (st == TC_OK)
        st = ocl_load(&api, &err);
    if (st == TC_OK)
        st = ocl_enumerate(&api, &list, &count, &err);
    for (size_t i = 0; st == TC_OK && i < count; i++)
        if (list[i].refusal[0] == '\0')
            bench_device(&api, &list[i], &task, crc, cpu_ms);
    if (st != TC_OK)
        fprintf(stderr, "gpu_voting: %s\n", err.message);
    free(list);
    an_params_free(&an_voting, &params);
    wu_pixels_free(&px);
    json_decref(json);
    return st == TC_OK ? 0 : 1;
}
