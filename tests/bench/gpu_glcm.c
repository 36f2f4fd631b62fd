/*
 * make bench-gpu: glcm on every usable OpenCL device, compared with the CPU in the same run.
 *   gpu_glcm PICTURE.png [PARAMETERS (JSON)] [THREADS]
 * For each device: times of the build, kernels and transfers; matrices a second; the ratio to the
 * CPU; and whether the state has the same bits.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/analyses.h"
#include "app/analysis/glcm/glcm.h"
#include "opencl/backends.h"
#include "opencl/work.h"
#include "workunits/format/png_io.h"

static long read_file(void *user, void *buf, size_t n)
{
    return (long)fread(buf, 1, n, user);
}

static tc_status load(const char *path, wu_pixels *px, tc_err *err)
{
    FILE *const file = fopen(path, "rb");
    wu_png_info info;
    tc_status status;

    if (file == NULL)
        return tc_fail(err, TC_BAD_INPUT, "%s: cannot be opened", path);
    status = wu_png_read_info(read_file, file, UINT64_MAX, path, &info, err);
    if (status == TC_OK && (info.bits != 8 || info.channels != 1))
        status = tc_fail(err, TC_BAD_INPUT, "%s: is not 8 bit grey", path);
    if (status == TC_OK) {
        *px = (wu_pixels){ .nx = info.width, .ny = info.height, .nz = 1, .bits = 8 };
        px->u8 = malloc((size_t)info.width * info.height);
        rewind(file);
        status = px->u8 == NULL
                     ? tc_no_memory(err, "the picture")
                     : wu_png_read(read_file, file, UINT64_MAX, path, &info, px->u8, err);
    }
    fclose(file);
    return status;
}

/* Runs the whole item; *ms is the time from open to the last sync. */
static tc_status run(const an_backend *backend, const an_work *work, void *state, double *ms,
                     tc_err *err)
{
    const double start = ocl_clock_ms();
    void *worker = NULL;
    uint64_t units;
    tc_status status;

    memset(state, 0, work->plan.state_bytes);
    status = an_glcm.init(work, state, err);
    if (status == TC_OK)
        status = backend->open(work, state, &worker, err);
    if (status == TC_OK) {
        do
            status = backend->step(worker, state, &units, err);
        while (status == TC_MORE);
    }
    if (status == TC_OK)
        status = an_sync(backend, worker, state, err);
    if (worker != NULL)
        backend->close(&worker);
    *ms = ocl_clock_ms() - start;
    return status;
}

static double matrices_of(const an_work *work, const void *state)
{
    const glcm_params *const p = work->params;
    double n = 0;

    for (size_t i = 0; i < p->n_levels * p->n_offsets; i++)
        n += (double)glcm_state_stats_const(state)[i].windows;
    return n;
}

static void bench_device(const ocl_api *api, const ocl_info *info, an_work *work,
                         const void *expected, double cpu_ms)
{
    void *const state = malloc(work->plan.state_bytes);
    const double matrices = matrices_of(work, expected);
    tc_err err = { "" };

    printf("%u:%u %s\n", info->platform_index, info->device_index, info->name);
    for (int round = 0; round < 3; round++) {
        ocl_device *device = NULL;
        double ms = 0;
        tc_status status = ocl_device_open(api, info, &device, &err);

        work->device = device;
        if (status == TC_OK)
            status = run(ocl_backend("glcm"), work, state, &ms, &err);
        if (status != TC_OK) {
            printf("  %s\n", err.message);
        } else {
            const ocl_times *const t = &device->times;

            printf(
                "  %s build %.0f ms, kernels %.1f ms, transfers %.1f ms (%.1f MB), in all %.1f ms: "
                "%.0f million matrices/s of kernel time, %.0f of all but the build; %.1f times the "
                "CPU; %s\n",
                round == 0 ? "first: " : "again: ", t->build, t->kernels, t->transfers,
                (double)t->bytes * 1e-6, ms, matrices / t->kernels * 1e-3,
                matrices / (ms - t->build) * 1e-3, cpu_ms / (ms - t->build),
                memcmp(state, expected, work->plan.state_bytes) == 0 ? "same bits" : "OTHER BITS");
        }
        ocl_device_close(&device);
    }
    free(state);
}

int main(int argc, char **argv)
{
    const char *const text = argc > 2 ? argv[2] : "{\"preset\":\"hcc\"}";
    char name[] = "bench";
    wu_pixels px = { 0 };
    wu_item item = { .name = name, .nz = 1, .bits = 8, .channels = 1, .n_images = 1 };
    an_work work = { .item = &item,
                     .pixels = &px,
                     .threads = argc > 3 ? (unsigned)atoi(argv[3]) : 1,
                     .launch_ms = 50 };
    json_t *const json = json_loads(text, 0, NULL);
    ocl_info *list = NULL;
    size_t count = 0;
    void *params = NULL, *state;
    double cpu_ms = 0;
    tc_err err = { "" };
    ocl_api api;
    tc_status status;

    if (argc < 2 || json == NULL) {
        fprintf(stderr, "usage: gpu_glcm PICTURE.png [PARAMETERS [THREADS]]\n");
        return 1;
    }
    status = load(argv[1], &px, &err);
    item.nx = px.nx;
    item.ny = px.ny;
    if (status == TC_OK)
        status = an_parse_params(&an_glcm, json, "parameters", &params, &err);
    if (status == TC_OK)
        status = an_glcm.plan(params, &item, &work.plan, &err);
    work.params = params;
    state = status == TC_OK ? calloc(1, work.plan.state_bytes) : NULL;
    if (state != NULL)
        status = run(an_glcm.cpu, &work, state, &cpu_ms, &err);
    if (status == TC_OK)
        printf("CPU, %u thread%s: %.0f ms, %.2f million matrices/s (%.1f million matrices)\n",
               work.threads, work.threads == 1 ? "" : "s", cpu_ms,
               matrices_of(&work, state) / cpu_ms * 1e-3, matrices_of(&work, state) * 1e-6);
    if (status == TC_OK && ocl_load_library(&api, &err) == TC_OK &&
        ocl_enumerate_devices(&api, &list, &count, &err) == TC_OK) {
        for (size_t i = 0; i < count; i++)
            if (list[i].refusal[0] == '\0')
                bench_device(&api, &list[i], &work, state, cpu_ms);
    }
    if (status != TC_OK || count == 0)
        fprintf(stderr, "gpu_glcm: %s\n", err.message);
    free(list);
    free(state);
    an_params_free(&an_glcm, &params);
    json_decref(json);
    wu_pixels_free(&px);
    return status != TC_OK;
}
