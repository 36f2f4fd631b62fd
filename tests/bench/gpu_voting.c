/*
 * make bench-gpu: voting on an OpenCL device, by phase.
 *   gpu_voting DEVICE THREADS NX NY NZ RADIUS [SLICE_MS]   generated, closely packed 16-bit balls
 *   gpu_voting DEVICE THREADS UNIT.zip [SLICE_MS]          the unit's first item
 * DEVICE is an argument of texcell's --device. Runs three times, and prints the host's times (open,
 * with the build and the transfers; points; sync, and points by the host), the kernels' times in
 * each phase, and the CRC of the state. The host's part of a run uses THREADS threads. If THREADS
 * is negative, it uses -THREADS threads, and the item is also computed on the CPU with this number
 * of threads; then the ratio is printed, and whether the state has the same bits.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "app/analysis/selftest.h"
#include "app/analysis/analyses.h"
#include "app/analysis/voting/voting.h"
#include "opencl/backends.h"
#include "opencl/work.h"

enum { PHASES = VOTING_REBLUR + 1, REPEATS = 3 };
static const char *const phase_names[PHASES] = { "blur", "voters", "vote", "turn", "blur again" };

/* The item, which was generated or read from a work unit. */
typedef struct bench {
    an_selftest made;
    wu_item made_item;
    wu_job *job;
    wu_pixels pixels;
    void *params;
    an_work work;
} bench;

/* Times of a run in milliseconds: by the wall clock, except `kernels`. */
typedef struct spent {
    double open, steps, sync;
    double points;          /* finding the points by the backend, without a sync */
    double finish;          /* finding the points by the host, after a sync */
    double phase[PHASES];   /* steps of each phase */
    double kernels[PHASES]; /* by the device's clock */
} spent;

static tc_status load_unit(bench *b, const char *path, tc_err *err)
{
    const double start = ocl_clock_ms();
    tc_status status = wu_job_read(path, &b->job, err);
    const double read = ocl_clock_ms();

    if (status == TC_OK)
        status = wu_item_load(b->job, 0, &b->pixels, err);
    if (status == TC_OK)
        status = an_parse_params(&an_voting, b->job->parameters, path, &b->params, err);
    if (status != TC_OK)
        return status;
    printf("unit checked in %.0f ms, pixels read in %.0f ms\n", read - start,
           ocl_clock_ms() - read);
    b->work.item = &b->job->items[0];
    return TC_OK;
}

static tc_status make_up(bench *b, char **argv, tc_err *err)
{
    static char name[] = "bench";
    char text[64];
    tc_status status;

    b->made = (an_selftest){ .nx = (uint32_t)atoi(argv[0]),
                             .ny = (uint32_t)atoi(argv[1]),
                             .nz = (uint32_t)atoi(argv[2]),
                             .bits = 16 };
    b->made_item = (wu_item){ .name = name,
                              .is_stack = b->made.nz > 1,
                              .n_images = b->made.nz,
                              .bits = 16,
                              .channels = 1,
                              .spacing = { 1, 1, 1 },
                              .nx = b->made.nx,
                              .ny = b->made.ny,
                              .nz = b->made.nz };
    snprintf(text, sizeof text, "{\"radius\":%.9g}", atof(argv[3]));
    json_t *const json = json_loads(text, 0, NULL);
    status = an_selftest_pixels(&b->made, false, &b->pixels, err);
    if (status == TC_OK)
        status = an_parse_params(&an_voting, json, "parameters", &b->params, err);
    json_decref(json);
    b->work.item = &b->made_item;
    return status;
}

/* Runs steps to the end; the time of a step is added to the phase in which it begins. */
static tc_status do_steps(const bench *b, const an_backend *backend, void *worker, void *state,
                          spent *t, tc_err *err)
{
    const ocl_device *const device = b->work.device;
    voting_scheme s;
    uint64_t units = 0, band;
    tc_status status = voting_scheme_init(b->params, b->work.item, "bench", &s, err);

    if (status == TC_OK)
        status = TC_MORE;
    while (status == TC_MORE) {
        const double start = ocl_clock_ms(), kernels = device != NULL ? device->times.kernels : 0;
        voting_phase phase;
        int round;

        voting_chunk_at(&s, units, &phase, &round, &band);
        status = backend->step(worker, state, &units, err);
        t->phase[phase] += ocl_clock_ms() - start;
        t->kernels[phase] += (device != NULL ? device->times.kernels : 0) - kernels;
    }
    return status;
}

static tc_status run(const bench *b, const an_backend *backend, void *state, spent *t, tc_err *err)
{
    wu_output output = { .n = 0 };
    void *worker = NULL;
    double at[6] = { ocl_clock_ms() };
    tc_status status = backend->open(&b->work, state, &worker, err);

    at[1] = ocl_clock_ms();
    if (status == TC_OK)
        status = do_steps(b, backend, worker, state, t, err);
    at[2] = ocl_clock_ms();
    if (status == TC_OK && backend->finish != NULL)
        status = backend->finish(worker, state, 0, &output, err);
    status = status == TC_MORE ? TC_OK : status;
    wu_output_free(&output);
    at[3] = ocl_clock_ms();
    if (status == TC_OK)
        status = an_sync(backend, worker, state, err);
    at[4] = ocl_clock_ms();
    if (status == TC_OK)
        status = an_voting.finish(&b->work, 0, state, &output, err);
    at[5] = ocl_clock_ms();
    wu_output_free(&output);
    if (worker != NULL)
        backend->close(&worker);
    t->open = at[1] - at[0];
    t->steps = at[2] - at[1];
    t->points = at[3] - at[2];
    t->sync = at[4] - at[3];
    t->finish = at[5] - at[4];
    return status;
}

/* Runs the item once on a backend. Sets *crc: the CRC of the state; *ms: the time of all. */
static tc_status run_once(const bench *b, const an_backend *backend, unsigned long *crc, double *ms,
                          tc_err *err)
{
    void *const state = calloc(1, b->work.plan.state_bytes);
    spent t = { .open = 0 };
    tc_status status =
        state == NULL ? tc_no_memory(err, "the state") : run(b, backend, state, &t, err);

    if (status == TC_OK) {
        *crc = crc32_z(crc32_z(0, NULL, 0), state, b->work.plan.state_bytes);
        *ms = t.open + t.steps + (backend->finish != NULL ? t.points : t.sync + t.finish);
        printf("  open %.0f, steps %.0f, points by the device %.0f, in all %.0f ms; sync %.0f, "
               "points by the host %.0f; crc %08lx\n   ",
               t.open, t.steps, t.points, *ms, t.sync, t.finish, *crc);
        for (int i = 0; i < PHASES; i++)
            printf(b->work.device != NULL ? " %s %.1f (kernels %.1f)," : " %s %.1f,",
                   phase_names[i], t.phase[i], t.kernels[i]);
        printf("\n");
    }
    free(state);
    return status;
}

/* cpu_ms: the CPU's time, or 0 if it was not measured. */
static tc_status run_device(bench *b, const ocl_request *request, unsigned long expected,
                            double cpu_ms, tc_err *err)
{
    tc_status status = TC_OK;

    for (int i = 0; status == TC_OK && i < REPEATS; i++) {
        unsigned long crc = 0;
        double ms = 0;

        status = ocl_device_find(request, &b->work.device, err);
        if (status == TC_OK && i == 0)
            printf("%s\n", b->work.device->info.name);
        if (status == TC_OK)
            status = run_once(b, ocl_backend("voting"), &crc, &ms, err);
        if (status == TC_OK) {
            const ocl_times *const t = &b->work.device->times;

            printf("    build %.0f ms, kernels %.1f ms (longest launch %.1f), transfers %.1f ms "
                   "(%.1f MB)",
                   t->build, t->kernels, t->longest, t->transfers, (double)t->bytes * 1e-6);
            if (cpu_ms > 0)
                printf("; %.1f times the CPU (kernels: %.1f); %s", cpu_ms / (ms - t->build),
                       cpu_ms / t->kernels, crc == expected ? "same bits" : "OTHER BITS");
            printf("\n");
        }
        ocl_device_close(&b->work.device);
    }
    return status;
}

int main(int argc, char **argv)
{
    bench b = { .work = { .pixels = &b.pixels } };
    const bool unit = argc == 4 || argc == 5;
    ocl_request request = { .kind = OCL_REQUEST_ANY };
    unsigned long crc = 0;
    double cpu_ms = 0;
    tc_err err = { "" };
    tc_status status;

    if (!(unit || argc == 7 || argc == 8) || ocl_request_parse(argv[1], &request, &err) != TC_OK) {
        fprintf(stderr,
                "usage: gpu_voting DEVICE THREADS (UNIT.zip | NX NY NZ RADIUS) [SLICE_MS]\n%s\n",
                err.message);
        return 1;
    }
    b.work.threads = (unsigned)abs(atoi(argv[2]));
    b.work.launch_ms = argc == 5 || argc == 8 ? atof(argv[argc - 1]) : 50;
    status = unit ? load_unit(&b, argv[3], &err) : make_up(&b, argv + 3, &err);
    if (status == TC_OK)
        status = an_voting.plan(b.params, b.work.item, &b.work.plan, &err);
    b.work.params = b.params;
    if (status == TC_OK && argv[2][0] == '-') {
        printf("CPU, %u threads\n", b.work.threads);
        status = run_once(&b, &voting_cpu, &crc, &cpu_ms, &err);
    }
    if (status == TC_OK)
        status = run_device(&b, &request, crc, cpu_ms, &err);
    if (status != TC_OK)
        fprintf(stderr, "gpu_voting: %s\n", err.message);
    if (b.params != NULL)
        an_params_free(&an_voting, &b.params);
    wu_pixels_free(&b.pixels);
    wu_job_destroy(&b.job);
    return status == TC_OK ? 0 : 1;
}
