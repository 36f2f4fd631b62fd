/*
 * Times the labels of volume: from a stack of bytes in memory to labels, by the backends that a
 * task uses.
 *
 *     volume_bench DEVICE WIDTH HEIGHT SLICES MODE THREADS REPEATS FILE
 *
 * DEVICE is an argument of --device; MODE is "3d" or "slices", or "watershed": in 3D with
 * smooth 1.5 and h 2. FILE has a byte for each voxel: 1 is membrane; for a watershed grey values.
 * Prints the best times of REPEATS runs, in milliseconds:
 *
 *     LABELS EVERYTHING TABLE CELLS SAME
 *
 * LABELS: on the CPU the time includes making and freeing memory and threads, and allocating the
 * labels; with one thread it is processor time, which depends less on other programs. On a device
 * it is the time of the kernels, from voxels to labels in device memory. EVERYTHING: labels and
 * tables (on a device with transfers and compilation); TABLE: the same on a device, without labels.
 * CELLS: the number of cells. SAME: whether state and table equal the CPU's.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "app/analysis/analyses.h"
#include "app/analysis/volume/volume.h"
#include "app/base/os.h"
#include "opencl/backends.h"

typedef struct times {
    double labels, everything;
} times;

/* The results of a run, which drop() frees. */
typedef struct given {
    vol_state *state;
    wu_output out;
} given;

static void drop(given *g)
{
    free(g->state);
    wu_output_free(&g->out);
    g->state = NULL;
}

static double seconds(const an_work *work)
{
    return work->device == NULL && work->threads == 1 ? (double)clock() / CLOCKS_PER_SEC
                                                      : tc_seconds();
}

static tc_status once(const an_backend *backend, const an_work *work, given *g, times *t,
                      tc_err *err)
{
    const double start = seconds(work),
                 kernels = work->device != NULL ? work->device->times.kernels : 0;
    vol_state *const state = g->state = os_alloc_zeroed(work->plan.state_bytes);
    void *worker = NULL;
    uint64_t units;
    tc_status status =
        state == NULL ? tc_no_memory(err, "the state") : backend->open(work, state, &worker, err);

    if (status == TC_OK)
        do
            status = backend->step(worker, state, &units, err);
        while (status == TC_MORE);
    if (status == TC_OK)
        status = work->result_only ? backend->finish(worker, state, 0, &g->out, err)
                                   : an_sync(backend, worker, state, err);
    t->labels = work->device != NULL ? work->device->times.kernels - kernels : 0;
    if (worker != NULL)
        backend->close(&worker);
    if (work->device == NULL)
        t->labels = 1e3 * (seconds(work) - start);
    if (status == TC_MORE || (status == TC_OK && !work->result_only))
        status = vol_finish(work, 0, state, &g->out, err);
    t->everything = 1e3 * (seconds(work) - start);
    return status;
}

/* Runs `repeats` times. Sets *best: the shortest times; *g: the results of the last run. */
static tc_status best_of(int repeats, const an_backend *backend, const an_work *work, given *g,
                         times *best, tc_err *err)
{
    tc_status status = TC_OK;

    *best = (times){ 1e30, 1e30 };
    for (int i = 0; status == TC_OK && i < repeats; i++) {
        times t = { 0, 0 };

        drop(g);
        status = once(backend, work, g, &t, err);
        best->labels = t.labels < best->labels ? t.labels : best->labels;
        best->everything = t.everything < best->everything ? t.everything : best->everything;
    }
    return status;
}

static bool same_table(const wu_output *a, const wu_output *b)
{
    bool same = a->n == b->n;

    for (size_t i = 0; same && i < a->n; i++) {
        int ok = 1;

        same = memcmp(a->arrays[i].data, b->arrays[i].data,
                      (size_t)wu_array_bytes(&a->arrays[i].info, &ok)) == 0 &&
               ok;
    }
    return same;
}

static tc_status bench(an_work *work, ocl_device *device, int repeats, tc_err *err)
{
    const size_t bytes = work->plan.state_bytes;
    given cpu = { .state = NULL }, labels = { .state = NULL }, table = { .state = NULL };
    times t, alone = { 0, 0 };
    tc_status status = best_of(device == NULL ? repeats : 1, &vol_cpu, work, &cpu, &t, err);
    bool same = true;

    work->device = device;
    if (status == TC_OK && device != NULL) {
        status = best_of(repeats, &ocl_volume, work, &labels, &t, err);
        work->result_only = true;
        if (status == TC_OK)
            status = best_of(repeats, &ocl_volume, work, &table, &alone, err);
        same = status == TC_OK && memcmp(cpu.state, labels.state, bytes) == 0 &&
               same_table(&cpu.out, &labels.out) && same_table(&cpu.out, &table.out);
    }
    if (status == TC_OK)
        printf("%.3f %.1f %.1f %llu %s\n", t.labels, t.everything, alone.everything,
               (unsigned long long)cpu.state->cells, same ? "same" : "DIFFERENT");
    drop(&cpu);
    drop(&labels);
    drop(&table);
    return status;
}

static tc_status read_file(const char *path, void *to, size_t n, tc_err *err)
{
    FILE *const f = fopen(path, "rb");
    const bool good = f != NULL && fread(to, 1, n, f) == n;

    if (f != NULL)
        fclose(f);
    return good ? TC_OK : tc_fail(err, TC_IO, "%s: cannot be read", path);
}

int main(int argc, char **argv)
{
    char name[] = "stack";
    vol_params params = { .membrane = 1, .min_voxels = 1, .max_voxels = INT64_MAX };
    wu_item item = {
        .name = name, .is_stack = true, .bits = 8, .channels = 1, .spacing = { 1, 1, 1 }
    };
    wu_pixels pixels = { .bits = 8 };
    an_work work = { .params = &params, .item = &item, .pixels = &pixels, .launch_ms = 50 };
    ocl_request request = { 0 };
    ocl_device *device = NULL;
    tc_err err = { "" };
    tc_status status;
    size_t n;

    if (argc != 9 || ocl_request_parse(argv[1], &request, &err) != TC_OK) {
        fprintf(stderr, "volume_bench DEVICE WIDTH HEIGHT SLICES MODE THREADS REPEATS FILE\n%s\n",
                err.message);
        return 1;
    }
    pixels.nx = item.nx = (uint32_t)strtoul(argv[2], NULL, 10);
    pixels.ny = item.ny = (uint32_t)strtoul(argv[3], NULL, 10);
    pixels.nz = item.nz = (uint32_t)strtoul(argv[4], NULL, 10);
    params.is_3d = strcmp(argv[5], "slices") != 0;
    if (strcmp(argv[5], "watershed") == 0) {
        params.watershed = params.fill = true;
        params.smooth = 1.5;
        params.h = 2;
    }
    work.threads = (unsigned)strtoul(argv[6], NULL, 10);
    n = (size_t)item.nx * item.ny * item.nz;
    pixels.u8 = malloc(n);
    status = pixels.u8 == NULL ? tc_no_memory(&err, "the stack")
                               : read_file(argv[8], pixels.u8, n, &err);
    if (status == TC_OK)
        status = an_volume.plan(&params, &item, &work.plan, &err);
    if (status == TC_OK)
        status = ocl_device_find(&request, &device, &err);
    if (status == TC_OK)
        status = bench(&work, device, atoi(argv[7]), &err);
    if (status != TC_OK)
        fprintf(stderr, "volume_bench: %s\n", err.message);
    ocl_device_close(&device);
    free(pixels.u8);
    return tc_exit_code(status);
}
