/*
 * Times the labelling of cellcount alone: from a picture of bytes in memory to labels and
 * statistics, by the backend that a task uses.
 *
 *     cellcount_bench WIDTH HEIGHT THREADS FILE
 *
 * FILE has WIDTH*HEIGHT bytes; bytes other than 0 are cells. For each line of standard input it
 * labels the picture once and prints milliseconds and the number of regions, so that the caller can
 * measure something else in between. The time includes allocating and freeing working memory and
 * starting and ending threads, but not allocating the labels.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "app/analysis/analyses.h"
#include "app/analysis/cellcount/cellcount.h"

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static tc_status once(an_work *work, cc_state *state, double *ms, tc_err *err)
{
    const double start = now_ms();
    const cc_region *regions;
    cc_region *owned = NULL;
    void *worker = NULL;
    uint64_t units;
    tc_status status;

    state->head.chunks_done = 0;
    status = cc_cpu.open(work, state, &worker, err);
    if (status == TC_OK)
        do
            status = cc_cpu.step(worker, state, &units, err);
        while (status == TC_MORE);
    if (worker != NULL)
        cc_cpu.close(&worker);
    if (status == TC_OK)
        status = cc_regions(work, state, &regions, &owned, err);
    free(owned);
    *ms = now_ms() - start;
    return status;
}

static bool read_file(const char *path, void *to, size_t n)
{
    FILE *const f = fopen(path, "rb");
    const bool good = f != NULL && fread(to, 1, n, f) == n;

    if (f != NULL)
        fclose(f);
    return good;
}

int main(int argc, char **argv)
{
    cc_params params = { .threshold = 1,
                         .bright = true,
                         .eight_connected = true,
                         .min_area = 1,
                         .max_area = INT64_MAX };
    wu_item item = { .nz = 1, .bits = 8, .channels = 1 };
    wu_pixels pixels = { .nz = 1, .bits = 8 };
    an_work work = { .params = &params, .item = &item, .pixels = &pixels, .launch_ms = 50 };
    tc_err err;
    cc_state *state;
    char line[8];

    if (argc != 5) {
        fprintf(stderr, "usage: cellcount_bench WIDTH HEIGHT THREADS FILE\n");
        return 1;
    }
    pixels.nx = item.nx = (uint32_t)atoi(argv[1]);
    pixels.ny = item.ny = (uint32_t)atoi(argv[2]);
    work.threads = (unsigned)atoi(argv[3]);
    pixels.u8 = malloc((size_t)item.nx * item.ny);
    if (pixels.u8 == NULL || !read_file(argv[4], pixels.u8, (size_t)item.nx * item.ny) ||
        an_cellcount.plan(&params, &item, &work.plan, &err) != TC_OK)
        return 2;
    state = calloc(1, work.plan.state_bytes);
    while (state != NULL && fgets(line, sizeof line, stdin) != NULL) {
        double ms = 0;

        if (once(&work, state, &ms, &err) != TC_OK)
            return 3;
        printf("%.3f %llu\n", ms, (unsigned long long)state->regions);
        fflush(stdout);
    }
    free(state);
    free(pixels.u8);
    return 0;
}
