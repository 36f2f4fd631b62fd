/*
 * Times glcm on the CPU, without files:
 *
 *   glcm_bench PICTURE.png [--distances JSON] [--roi R] [--rounds N]
 *   glcm_bench PICTURE.png --once accumulators|features|all [--distances ..] [--roi R]
 *
 * The parameters are the preset hcc with these distances (default: all 25) and this radius of the
 * ROI (default 84). Runs of different kinds alternate, so that other work of the machine slows all
 * kinds. --once makes one run with one thread, for a profiler; with "all" it also prints the number
 * of matrices.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "app/analysis/analyses.h"
#include "app/analysis/glcm/glcm.h"
#include "app/checkpoint.h"
#include "tests/bench/glcm_bench.h"
#include "workunits/format/png_io.h"

enum { MAX_ROUNDS = 99, CHECKPOINTS = 21 };

typedef struct bench {
    wu_pixels pixels;
    void *params;
    wu_item item;
    an_work work;
    uint64_t matrices; /* number of matrices of one run */
} bench;

/* Wall seconds of a run, and processor seconds. */
typedef struct seconds {
    double wall, cpu;
} seconds;

static void die(const char *what)
{
    fprintf(stderr, "glcm_bench: error: %s\n", what);
    exit(1);
}

static void must(tc_status status, const tc_err *err)
{
    if (status != TC_OK)
        die(err->message);
}

static void *allocate(size_t n)
{
    void *const p = calloc(1, n);

    if (p == NULL)
        die("out of memory");
    return p;
}

/* --- the task -------------------------------------------------------------------------------- */

static long read_file(void *user, void *buf, size_t n)
{
    FILE *const file = user;
    const size_t got = fread(buf, 1, n, file);

    return ferror(file) ? -1 : (long)got;
}

static void load_picture(const char *path, wu_pixels *out)
{
    FILE *const file = fopen(path, "rb");
    wu_png_info info;
    uint8_t *samples;
    uint64_t bytes;
    tc_err err;

    if (file == NULL || fseek(file, 0, SEEK_END) != 0)
        die("the picture cannot be opened");
    bytes = (uint64_t)ftell(file);
    rewind(file);
    must(wu_png_read_info(read_file, file, bytes, path, &info, &err), &err);
    if (info.bits != 8)
        die("the picture must have 8 bits");
    rewind(file);
    samples = allocate((size_t)info.width * info.height * info.channels);
    must(wu_png_read(read_file, file, bytes, path, &info, samples, &err), &err);
    fclose(file);
    *out = (wu_pixels){ .nx = info.width, .ny = info.height, .nz = 1, .bits = 8, .u8 = samples };
    if (info.channels == 3)
        for (size_t i = 0; i < (size_t)info.width * info.height; i++)
            samples[i] = (uint8_t)((samples[3 * i] + samples[3 * i + 1] + samples[3 * i + 2]) / 3);
}

static void prepare(bench *b, const char *path, const char *distances, const char *roi)
{
    static char name[] = "bench";
    char text[1024];
    json_t *json;
    tc_err err;

    load_picture(path, &b->pixels);
    snprintf(text, sizeof text, "{\"preset\":\"hcc\",\"roi\":{\"type\":\"disc\",\"r\":%s}%s%s}",
             roi, distances == NULL ? "" : ",\"distances\":", distances == NULL ? "" : distances);
    json = json_loads(text, 0, NULL);
    if (json == NULL)
        die("--distances or --roi is not JSON");
    must(an_parse_params(&an_glcm, json, "bench", &b->params, &err), &err);
    json_decref(json);
    b->item = (wu_item){ .name = name,
                         .n_images = 1,
                         .spacing = { 1, 1, 1 },
                         .nx = b->pixels.nx,
                         .ny = b->pixels.ny,
                         .nz = 1,
                         .bits = 8,
                         .channels = 1 };
    b->work =
        (an_work){ .params = b->params, .item = &b->item, .pixels = &b->pixels, .launch_ms = 50 };
    must(an_glcm.plan(b->params, &b->item, &b->work.plan, &err), &err);
}

static double clock_now(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Times a whole run, from making tables to the last window. */
static seconds run(bench *b, const an_backend *backend, unsigned threads, void *state)
{
    const double wall = clock_now(CLOCK_MONOTONIC), cpu = clock_now(CLOCK_PROCESS_CPUTIME_ID);
    void *worker;
    uint64_t units;
    tc_status status;
    tc_err err;

    memset(state, 0, b->work.plan.state_bytes);
    b->work.threads = threads;
    must(an_glcm.init(&b->work, state, &err), &err);
    must(backend->open(&b->work, state, &worker, &err), &err);
    do
        status = backend->step(worker, state, &units, &err);
    while (status == TC_MORE);
    must(status, &err);
    must(an_sync(backend, worker, state, &err), &err);
    backend->close(&worker);
    return (seconds){ clock_now(CLOCK_MONOTONIC) - wall,
                      clock_now(CLOCK_PROCESS_CPUTIME_ID) - cpu };
}

static uint64_t count_matrices(const bench *b, const void *state)
{
    const glcm_params *const p = b->params;
    const glcm_stat *const stats = glcm_state_stats_const(state);
    uint64_t n = 0;

    for (size_t i = 0; i < p->n_levels * p->n_offsets; i++)
        n += stats[i].windows;
    return n;
}

/* --- figures --------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values, size_t n)
{
    qsort(values, n, sizeof *values, ascending);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* The values of one figure in all rounds. */
typedef struct series {
    double value[MAX_ROUNDS];
    size_t n;
} series;

static void add(series *s, double value)
{
    s->value[s->n++] = value;
}

/* Prints a series: median, minimum and maximum. Returns the median. */
static double print_series(const char *what, series *s, const char *format, const char *unit)
{
    const double middle = median(s->value, s->n);

    printf("%-44s", what);
    printf(format, s->value[0]);
    printf(format, middle);
    printf(format, s->value[s->n - 1]);
    printf("  %s\n", unit);
    return middle;
}

/* Times checkpoints, with fsync, in the current folder. */
static void time_checkpoints(const bench *b, const void *state, double run_seconds)
{
    char path[64];
    checkpoint c = { .analysis = "glcm", .state_size = b->work.plan.state_bytes };
    double values[CHECKPOINTS], middle;
    tc_err err;

    snprintf(path, sizeof path, "bench-%ld.checkpoint", (long)getpid());
    for (int i = 0; i < CHECKPOINTS; i++) {
        const double start = clock_now(CLOCK_MONOTONIC);

        must(checkpoint_write(path, &c, state, NULL, &err), &err);
        values[i] = clock_now(CLOCK_MONOTONIC) - start;
    }
    unlink(path);
    middle = median(values, CHECKPOINTS);
    printf("%-44s %8.2f MiB, %.1f ms (at most %.1f): %.3f%% of a minute, %.3f%% of the run\n",
           "a checkpoint", (double)b->work.plan.state_bytes / 1048576, 1e3 * middle,
           1e3 * values[CHECKPOINTS - 1], 100 * middle / 60, 100 * middle / run_seconds);
}

/* The figures of all rounds: nanoseconds per matrix, and the speed-up by two threads. */
typedef struct measured {
    series all, accumulators, features,
        statistics;         /* processor time of one thread, and its parts */
    series both;            /* processor time of two threads */
    series wall, both_wall; /* wall time of one thread, of two threads */
    series speedup;         /* wall time of one thread / of two threads */
} measured;

/* Makes four runs: accumulators alone, also with features, everything, and everything with two
 * threads. Adds their figures to m. state, other: memory for a state each. */
static void do_round(bench *b, measured *m, void *state, void *other)
{
    const seconds accumulators = run(b, &glcm_cpu_accumulators, 1, other);
    const seconds features = run(b, &glcm_cpu_features, 1, other);
    const seconds one = run(b, &glcm_cpu, 1, state);
    const seconds two = run(b, &glcm_cpu, 2, other);
    double each;

    if (memcmp(state, other, b->work.plan.state_bytes) != 0)
        die("two threads have computed another state than one thread");
    b->matrices = count_matrices(b, state);
    each = 1e9 / (double)b->matrices;
    add(&m->all, one.cpu * each);
    add(&m->accumulators, accumulators.cpu * each);
    add(&m->features, (features.cpu - accumulators.cpu) * each);
    add(&m->statistics, (one.cpu - features.cpu) * each);
    add(&m->both, two.cpu * each);
    add(&m->wall, one.wall * each);
    add(&m->both_wall, two.wall * each);
    add(&m->speedup, one.wall / two.wall);
}

static void compare(bench *b, size_t rounds, void *state, void *other)
{
    static const char number[] = " %8.1f", ratio[] = " %8.2f", unit[] = "ns a matrix";
    measured *const m = allocate(sizeof *m);
    double all, parts[3], wall;

    for (size_t i = 0; i < rounds; i++)
        do_round(b, m, state, other);
    printf("%llu matrices a run, %zu rounds\n", (unsigned long long)b->matrices, rounds);
    printf("%-44s %8s %8s %8s\n", "", "least", "median", "most");
    all = print_series("one thread, all 13 features: processor time", &m->all, number, unit);
    parts[0] = print_series("  of it accumulators", &m->accumulators, number, unit);
    parts[1] = print_series("  of it features", &m->features, number, unit);
    parts[2] = print_series("  of it statistics over windows", &m->statistics, number, unit);
    print_series("two threads: processor time", &m->both, number, unit);
    wall = print_series("one thread: wall time", &m->wall, number, unit);
    print_series("two threads: wall time", &m->both_wall, number, unit);
    print_series("wall time of one thread / of two threads", &m->speedup, ratio,
                 "(neighbouring runs)");
    printf("shares of the medians: accumulators %.0f%%, features %.0f%%, statistics %.0f%%\n",
           100 * parts[0] / all, 100 * parts[1] / all, 100 * parts[2] / all);
    time_checkpoints(b, state, wall * 1e-9 * (double)b->matrices);
    free(m);
}

/* Prints the peak memory of this program. getrusage would include the resident memory of the parent
 * process at the start of this one. */
static void print_memory(void)
{
    static const char key[] = "VmHWM:";
    FILE *const file = fopen("/proc/self/status", "r");
    char line[256];

    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, key, strlen(key)) == 0)
            printf("%-44s %8.1f MiB (with this program's second state)\n", "peak memory",
                   strtod(line + strlen(key), NULL) / 1024);
    if (file != NULL)
        fclose(file);
}

int main(int argc, char **argv)
{
    const char *picture = NULL, *distances = NULL, *roi = "84", *once = NULL;
    size_t rounds = 3;
    void *state, *other;
    bench b;

    memset(&b, 0, sizeof b);
    for (int i = 1; i < argc; i++) {
        const char *const value = i + 1 < argc ? argv[i + 1] : "";

        if (argv[i][0] != '-') {
            picture = argv[i];
            continue;
        }
        i++;
        if (strcmp(argv[i - 1], "--distances") == 0)
            distances = value;
        else if (strcmp(argv[i - 1], "--roi") == 0)
            roi = value;
        else if (strcmp(argv[i - 1], "--once") == 0)
            once = value;
        else if (strcmp(argv[i - 1], "--rounds") == 0)
            rounds = (size_t)strtoul(value, NULL, 10);
        else
            die("unknown option");
    }
    if (picture == NULL || rounds < 1 || rounds > MAX_ROUNDS)
        die("usage: glcm_bench PICTURE.png [--distances JSON] [--roi R] [--rounds 1..99] "
            "[--once accumulators|features|all]");
    prepare(&b, picture, distances, roi);
    state = allocate(b.work.plan.state_bytes);
    if (once != NULL) {
        run(&b,
            strcmp(once, "accumulators") == 0 ? &glcm_cpu_accumulators
            : strcmp(once, "features") == 0   ? &glcm_cpu_features
                                              : &glcm_cpu,
            1, state);
        printf("%llu\n", (unsigned long long)count_matrices(&b, state));
    } else {
        other = allocate(b.work.plan.state_bytes);
        compare(&b, rounds, state, other);
        print_memory();
        free(other);
    }
    free(state);
    free(b.pixels.u8);
    an_params_free(&an_glcm, &b.params);
    return 0;
}
