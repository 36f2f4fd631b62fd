/*
 * Times the labelling of cellcount alone: a raw picture of bytes in memory to
 * labels and statistics, through the same backend that a task uses.
 *
 *     cellcount_bench WIDTH HEIGHT THREADS FILE
 *
 * FILE has WIDTH*HEIGHT bytes, cells are those that are not 0. Labels them once for
 * every line that it reads, so that whoever writes them can measure something else
 * in between, and answers with a line: milliseconds of labels (from bytes; working
 * memory and threads are made and freed in it, the labels' plane is there), of labels
 * and statistics, and the number of regions.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "app/analysis/cellcount.h"

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static tc_status once(an_task *task, cc_state *state, double *label_ms, double *all_ms, int32_t *count, tc_err *err)
{
    void *worker = NULL;
    uint64_t units;
    cc_region *regions;
    tc_status st;
    double start;

    state->head.units_done = 0;
    start = now_ms();
    st = cc_cpu.open(task, state, &worker, err);
    if (st == TC_OK)
        do
            st = cc_cpu.step(worker, state, &units, err);
        while (st == TC_MORE);
    if (worker != NULL)
        cc_cpu.close(&worker);
    *label_ms = now_ms() - start;
    if (st != TC_OK)
        return st;
    start = now_ms();
    *count = (int32_t)state->regions;
    regions = malloc(((size_t)*count + 1) * sizeof *regions);
    if (regions == NULL)
        return tc_no_memory(err, "the regions");
    st = cc_measure(state->plane, task->pixels, task->item->nx, task->item->ny, (size_t)*count,
                    task->threads, regions, err);
    *all_ms = *label_ms + now_ms() - start;
    free(regions);
    return st;
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
    cc_params params = { .threshold = 1, .bright = true, .diagonal = true, .min_area = 1, .max_area = INT64_MAX };
    wu_item item = { .nz = 1, .bits = 8, .channels = 1 };
    wu_pixels pixels = { .nz = 1, .bits = 8 };
    an_task task = { .params = &params, .item = &item, .pixels = &pixels, .slice_ms = 50 };
    int32_t count = 0;
    tc_err err;
    cc_state *state;
    char line[8];

    if (argc != 5) {
        fprintf(stderr, "usage: cellcount_bench WIDTH HEIGHT THREADS FILE\n");
        return 1;
    }
    pixels.nx = item.nx = (uint32_t)atoi(argv[1]);
    pixels.ny = item.ny = (uint32_t)atoi(argv[2]);
    task.threads = (unsigned)atoi(argv[3]);
    pixels.u8 = malloc((size_t)item.nx * item.ny);
    if (pixels.u8 == NULL || !read_file(argv[4], pixels.u8, (size_t)item.nx * item.ny) ||
        an_cellcount.plan(&params, &item, &task.plan, &err) != TC_OK)
        return 2;
    state = calloc(1, task.plan.state_bytes);
    while (state != NULL && fgets(line, sizeof line, stdin) != NULL) {
        double labels = 0, all = 0;

        if (once(&task, state, &labels, &all, &count, &err) != TC_OK)
            return 3;
        printf("%.3f %.3f %d\n", labels, all, (int)count);
        fflush(stdout);
    }
    free(state);
    free(pixels.u8);
    return 0;
}
