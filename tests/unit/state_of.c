/*
 * state_of WORKUNIT ITEM DEVICE THREADS OUT [STEPS]: writes the final state of the analysis of one
 * item to OUT, for tests that need more than the result. With STEPS the backend is closed after
 * every STEPS steps and opened again with a copy of the state. DEVICE may then be two devices,
 * separated by a comma, which take turns; after all chunks are done each is opened once more.
 * Prints the seconds between open and close. The exit code is that of the status (tc_exit_code).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "app/analysis/analysis.h"
#include "app/analysis/levelset/rows.h"
#include "opencl/backends.h"

/* The linker's --wrap replaces levelset's choice of vector instructions: the environment variable
 * TEXCELL_TEST_SIMD selects narrower ones. */
const ls_simd *__real_ls_simd_best(void);
const ls_simd *__wrap_ls_simd_best(void);

const ls_simd *__wrap_ls_simd_best(void)
{
    const char *const request = getenv("TEXCELL_TEST_SIMD");
    const ls_simd *s = __real_ls_simd_best();

    while (request != NULL && strcmp(s->name, request) != 0 && s->narrower != NULL)
        s = s->narrower;
    return s;
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct run {
    wu_job *job;
    const an_analysis *analysis;
    const an_backend *backend;
    const char *devices[2]; /* --device arguments; the second may be NULL */
    ocl_device *device[2];
    void *params;
    wu_pixels pixels;
    an_work work;
    void *state;
} run;

/* Runs at most `steps` steps of the backend, and adds their time to *seconds. */
static tc_status do_steps(run *r, unsigned long steps, double *seconds, tc_err *err)
{
    void *worker = NULL;
    tc_status status = r->backend->open(&r->work, r->state, &worker, err);
    const double start = now();
    uint64_t units;

    if (status == TC_OK) {
        unsigned long n = 0;

        do
            status = r->backend->step(worker, r->state, &units, err);
        while (status == TC_MORE && (steps == 0 || ++n < steps));
    }
    if (status == TC_OK || status == TC_MORE) {
        const tc_status synced = an_sync(r->backend, worker, r->state, err);

        status = synced == TC_OK ? status : synced;
    }
    *seconds += now() - start;
    if (worker != NULL)
        r->backend->close(&worker);
    return status;
}

/* Moves the state to another address, so that a backend cannot rely on the old one. */
static tc_status move_state(run *r, tc_err *err)
{
    void *const copy = malloc(r->work.plan.state_bytes);

    if (copy == NULL)
        return tc_no_memory(err, "the state");
    memcpy(copy, r->state, r->work.plan.state_bytes);
    free(r->state);
    r->state = copy;
    return TC_OK;
}

/* Makes devices[which] the current device, and opens it if it is not open. */
static tc_status use_device(run *r, unsigned which, tc_err *err)
{
    ocl_request request = { 0 };
    tc_status status = ocl_request_parse(r->devices[which], &request, err);

    if (status == TC_OK && r->device[which] == NULL)
        status = ocl_device_find(&request, &r->device[which], err);
    r->work.device = r->device[which];
    r->backend = r->work.device != NULL ? ocl_backend(r->analysis->name) : r->analysis->cpu;
    if (status == TC_OK && r->backend == NULL)
        status = tc_fail(err, TC_DEVICE, "%s: has no OpenCL", r->analysis->name);
    return status;
}

/* Opens each of two devices once more after all chunks are done, for the few steps by which it
 * prepares. */
static tc_status begin_at_end(run *r, double *seconds, tc_err *err)
{
    tc_status status = TC_OK;

    for (unsigned i = 0; status == TC_OK && i < 2 && r->devices[1] != NULL; i++) {
        status = use_device(r, i, err);
        if (status == TC_OK)
            status = do_steps(r, 1000, seconds, err);
        if (status == TC_MORE)
            status = tc_fail(err, TC_DEVICE, "all chunks are done, but %s goes on", r->devices[i]);
    }
    return status;
}

static tc_status work(run *r, unsigned long steps, const char *path, tc_err *err)
{
    double seconds = 0;
    unsigned long more =
        0; /* added to STEPS: the number of turns without progress before this one */
    tc_status status = r->analysis->plan(r->params, r->work.item, &r->work.plan, err);
    FILE *out;

    if (status != TC_OK)
        return status;
    r->state = calloc(1, r->work.plan.state_bytes);
    if (r->state == NULL)
        return tc_no_memory(err, "the state");
    status = an_init(r->analysis, &r->work, r->state, err);
    if (status != TC_OK)
        return status;
    for (unsigned turn = 0;; turn++) {
        const an_state_head *const head = r->state;
        const uint64_t before = head->chunks_done;

        status = use_device(r, turn % (r->devices[1] != NULL ? 2 : 1), err);
        if (status == TC_OK)
            status = do_steps(r, steps > 0 ? steps + more : 0, &seconds, err);
        more = head->chunks_done > before ? 0 : more + 1;
        if (status == TC_MORE)
            status = move_state(r, err) == TC_OK ? TC_MORE : TC_NO_MEMORY;
        if (status != TC_MORE)
            break;
    }
    if (status == TC_OK)
        status = begin_at_end(r, &seconds, err);
    if (status != TC_OK)
        return status;
    printf("%.6f\n", seconds);
    out = fopen(path, "wb");
    if (out == NULL ||
        fwrite(r->state, 1, r->work.plan.state_bytes, out) != r->work.plan.state_bytes)
        status = tc_fail(err, TC_IO, "%s: cannot be written", path);
    if (out != NULL)
        fclose(out);
    return status;
}

int main(int argc, char **argv)
{
    run r = { 0 };
    tc_err err = { "" };
    tc_status status;

    if (argc < 6) {
        fputs("state_of WORKUNIT ITEM DEVICE THREADS OUT [STEPS]\n", stderr);
        return 1;
    }
    status = wu_job_read(argv[1], &r.job, &err);
    if (status == TC_OK) {
        const size_t item = strtoul(argv[2], NULL, 10) % r.job->n_items;

        r.analysis = an_find_analysis(r.job->analysis);
        r.work = (an_work){ .item = &r.job->items[item],
                            .pixels = &r.pixels,
                            .launch_ms = 50,
                            .threads = (unsigned)strtoul(argv[4], NULL, 10) };
        status = r.analysis == NULL
                     ? tc_fail(&err, TC_BAD_INPUT, "no such analysis")
                     : an_parse_params(r.analysis, r.job->parameters, argv[1], &r.params, &err);
        r.work.params = r.params;
        if (status == TC_OK)
            status = wu_item_load(r.job, item, &r.pixels, &err);
    }
    r.devices[0] = strtok(argv[3], ",");
    r.devices[1] = strtok(NULL, ",");
    if (status == TC_OK)
        status = work(&r, argc > 6 ? strtoul(argv[6], NULL, 10) : 0, argv[5], &err);
    if (status != TC_OK)
        fprintf(stderr, "state_of: %s\n", err.message);
    free(r.state);
    for (int i = 0; i < 2; i++)
        if (r.device[i] != NULL)
            ocl_device_close(&r.device[i]);
    wu_pixels_free(&r.pixels);
    an_params_free(r.analysis, &r.params);
    wu_job_destroy(&r.job);
    return tc_exit_code(status);
}
