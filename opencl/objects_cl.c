/*
 * The OpenCL backend of objects. The device takes the texture of all objects but large ones, for whose counts
 * its table of logarithms ends; finding and measuring objects, and features from a matrix' sums, are left to
 * the CPU's backend, whose worker this one contains.
 */
#include <stdlib.h>
#include <string.h>

#include "app/analysis/objects/core.h"
#include "app/analysis/objects/objects.h"
#include "opencl/backends.h"
#include "opencl/worker.h"

extern const ocl_source ocl_source_objects;

enum { GREY, LABELS, LEVEL, RUNS, START, ENDS, LOGS, COUNTS, SUMS, BUFFERS };
enum { K_QUANTISE, K_MATRICES, KERNELS };
enum { GROUP = 128, LANES = 32,
       LARGE = TC_LOGS / 2,            /* an entry of the matrix may be twice as many */
       LOCAL_BYTES = 16384,            /* that counts may take of local memory */
       SUM_BYTES = 32 << 20, COUNT_BYTES = 64 << 20 };

typedef struct cl_worker {
    ocl_worker ocl;
    const obj_params *params;
    void *host;                /* a worker of obj_cpu */
    size_t group;
    bool global_counts;
    bool indexed;              /* runs are on the device */
    uint32_t directions, matrices;     /* of an object: matrices of one distance */
    size_t words;              /* of a matrix' sums */
    uint64_t most;             /* objects at a time */
    uint32_t *ends, *sums;     /* [most][2], [most][matrices][words] */
    ocl_pace pace;             /* in pixels times directions */
} cl_worker;

static void free_parts(void *worker)
{
    cl_worker *const w = worker;

    if (w->host != NULL)
        obj_cpu.close(&w->host);
    free(w->ends);
    free(w->sums);
}

/* log2 in 2^-80, as two words of 64 bits each. */
static tc_status put_logs(cl_worker *w, tc_err *err)
{
    tc_logs logs;
    tc_status st = tc_logs_init(&logs, err);
    uint64_t *const halves = malloc((size_t)2 * TC_LOGS * sizeof *halves);

    if (st == TC_OK && halves == NULL)
        st = tc_no_memory(err, "the table of logarithms");
    for (size_t i = 0; st == TC_OK && i < TC_LOGS; i++) {
        halves[2 * i] = (uint64_t)logs.table[i];
        halves[2 * i + 1] = (uint64_t)(logs.table[i] >> 64);
    }
    if (st == TC_OK)
        st = ocl_put(&w->ocl, LOGS, 0, halves, (size_t)2 * TC_LOGS * sizeof *halves, err);
    free(halves);
    tc_logs_free(&logs);
    return st;
}

static tc_status open_device(cl_worker *w, tc_err *err)
{
    static const char *const names[KERNELS] = { "obj_quantise", "obj_matrices" };
    const an_work *const work = w->ocl.work;
    const uint64_t pixels = (uint64_t)work->item->nx * work->item->ny * work->item->nz;
    const uint64_t cells = 4 * (uint64_t)w->params->levels * (uint64_t)w->params->levels;
    uint64_t most;

    w->directions = work->item->is_stack ? OBJ_DIRECTIONS_3D : OBJ_DIRECTIONS_2D;
    w->matrices = w->params->merge ? 1 : w->directions;
    w->words = OBJ_W_MARGINAL + 4 * (size_t)w->params->levels;
    w->global_counts = cells > LOCAL_BYTES;
    most = SUM_BYTES / (4 * w->words * w->matrices);
    if (w->global_counts && COUNT_BYTES / (cells * w->matrices) < most)
        most = COUNT_BYTES / (cells * w->matrices);
    w->most = most < work->item->n_objects ? most : work->item->n_objects;
    w->ends = malloc(w->most * 2 * sizeof *w->ends);
    w->sums = malloc(w->most * w->matrices * w->words * sizeof *w->sums);
    if (w->ends == NULL || w->sums == NULL)
        return tc_no_memory(err, "objects");
    const ocl_need needs[] = {
        { GREY, pixels * (work->pixels->bits / 8), "the pixels", ocl_pixels_from(work->pixels, 0) },
        { LABELS, pixels * 4, "the labels", work->pixels->labels },
        { LEVEL, pixels, "the grey levels", NULL },
        { ENDS, w->most * 2 * sizeof *w->ends, "the ranges", NULL },
        { LOGS, (uint64_t)TC_LOGS * 16, "the table of logarithms", NULL },
        { COUNTS, w->global_counts ? w->most * w->matrices * cells : 4, "the matrices", NULL },
        { SUMS, w->most * w->matrices * w->words * 4, "the sums", NULL }
    };
    tc_status st = ocl_build(&w->ocl, &ocl_source_objects, false, names, KERNELS, err,
                             "-DGROUP=%zu -DLANES=%zu -DPIXEL=%s -DLEVELS=%d%s", w->group,
                             w->group < LANES ? w->group : LANES, work->pixels->bits == 8 ? "uchar" : "ushort",
                             (int)w->params->levels, w->global_counts ? " -DGLOBAL_COUNTS" : "");

    if (st == TC_OK)
        st = ocl_make_buffers(&w->ocl, needs, sizeof needs / sizeof needs[0], err);
    return st == TC_OK ? put_logs(w, err) : st;
}

static tc_status open_parts(void *worker, const void *state, tc_err *err)
{
    cl_worker *const w = worker;
    const an_work *const work = w->ocl.work;
    tc_status st;

    w->params = work->params;
    w->group = ocl_group_size(w->ocl.device, GROUP);
    ocl_pace_init(&w->pace, work->launch_ms, 1 << 20, (uint64_t)1 << 34);
    st = obj_cpu.open(work, state, &w->host, err);
    /* Without texture there is nothing for the device to do. */
    return st == TC_OK && obj_portions(w->params) > 1 && work->item->n_objects > 0 ? open_device(w, err) : st;
}

/* The runs, once they are known. */
static tc_status put_index(cl_worker *w, const obj_index *index, tc_err *err)
{
    const uint64_t runs = index->start[index->n];
    const ocl_need needs[] = {
        { RUNS, (runs > 0 ? runs : 1) * sizeof *index->runs, "the runs", runs > 0 ? index->runs : NULL },
        { START, ((uint64_t)index->n + 1) * sizeof *index->start, "the objects", index->start }
    };
    const tc_status st = ocl_make_buffers(&w->ocl, needs, 2, err);

    w->indexed = st == TC_OK;
    return st;
}

static void take_sums(void *user, size_t matrix, cooc_sums *out)
{
    const cl_worker *const w = user;
    const uint32_t *const words = w->sums + matrix * w->words, *at = words + OBJ_W_MARGINAL;
    const size_t levels = (size_t)w->params->levels;
    unsigned __int128 k_log_k = 0;

    for (int i = 4; i-- > 0;)
        k_log_k = k_log_k << 32 | words[OBJ_W_K_LOG_K + i];
    out->pairs = words[OBJ_W_PAIRS];
    out->most = words[OBJ_W_MOST];
    out->squares = words[OBJ_W_SQUARES] | (uint64_t)words[OBJ_W_SQUARES + 1] << 32;
    out->k_log_k = k_log_k;
    memcpy(out->marginal, at, levels * sizeof *at);
    memcpy(out->sum, at + levels, 2 * levels * sizeof *at);
    memcpy(out->difference, at + 3 * levels, levels * sizeof *at);
}

static tc_status quantise(cl_worker *w, void *state, uint64_t first, uint64_t n, tc_err *err)
{
    const wu_item *const item = w->ocl.work->item;
    obj_item o;
    uint64_t next;

    o = *obj_host_index(w->host, &next)->o;
    for (uint64_t i = 0; i < n; i++) {
        const obj_row *const row = obj_row_of(w->params, item, state, first + i);

        w->ends[2 * i] = row->lo;
        w->ends[2 * i + 1] = row->hi;
        obj_range_of(&o, &w->ends[2 * i], &w->ends[2 * i + 1]);
    }
    const tc_status st = ocl_put(&w->ocl, ENDS, 0, w->ends, n * 2 * sizeof *w->ends, err);

    if (st != TC_OK)
        return st;
    return OCL_QUEUE(w, K_QUANTISE, ocl_grid_of(w->group, n * w->group, 1, 1), err, OCL_HELD(w, GREY), OCL_HELD(w, RUNS),
                     OCL_HELD(w, START), OCL_HELD(w, ENDS), OCL_HELD(w, LEVEL), OCL_UINT(item->nx), OCL_UINT(item->ny),
                     OCL_UINT(first));
}

static tc_status textures(cl_worker *w, void *state, uint64_t first, uint64_t n, uint64_t pace, tc_err *err)
{
    const wu_item *const item = w->ocl.work->item;
    const size_t matrices = n * w->matrices;
    tc_status st = quantise(w, state, first, n, err);

    for (size_t d = 0; st == TC_OK && d < w->params->n_distances; d++) {
        st = OCL_QUEUE(w, K_MATRICES, ocl_grid_of(w->group, matrices * w->group, 1, 1), err, OCL_HELD(w, LABELS),
                       OCL_HELD(w, LEVEL), OCL_HELD(w, RUNS), OCL_HELD(w, START), OCL_HELD(w, LOGS), OCL_HELD(w, COUNTS),
                       OCL_HELD(w, SUMS), OCL_INT(item->nx), OCL_INT(item->ny), OCL_INT(item->nz), OCL_UINT(first),
                       OCL_INT(w->params->distances[d]), OCL_UINT(w->directions), OCL_UINT(w->params->merge));
        st = ocl_end_launch(&w->ocl, st, &w->pace, pace, err);
        if (st == TC_OK)
            st = ocl_get(&w->ocl, SUMS, 0, w->sums, matrices * w->words * sizeof *w->sums, err);
        if (st == TC_OK)
            obj_host_texture(w->host, n, d, take_sums, w);
    }
    return st;
}

static tc_status cl_step(void *worker, void *state, uint64_t *portions_done, tc_err *err)
{
    cl_worker *const w = worker;
    const uint64_t budget = ocl_pace_next(&w->pace, (uint64_t)1 << 34);
    uint64_t n = 0, first, pixels = 0;
    const obj_index *const index = obj_host_index(w->host, &first);
    tc_status st = TC_OK;

    if (index != NULL && w->most > 0)
        n = obj_host_small(w->host, LARGE, w->most, budget / w->directions);
    if (n == 0)
        return obj_cpu.step(w->host, state, portions_done, err);
    if (!w->indexed)
        st = put_index(w, index, err);
    if (st != TC_OK)
        return st;
    for (uint64_t i = 0; i < n; i++)
        pixels += index->area[first + i];
    obj_host_measure(w->host, state, n);
    st = textures(w, state, first, n, pixels * w->directions, err);
    if (st == TC_OK)
        return obj_host_done(w->host, n, portions_done);
    /* The state is as it was before the step. */
    memset(obj_row_of(w->params, w->ocl.work->item, state, first), 0, n * obj_row_bytes(w->params, w->ocl.work->item));
    return st;
}

static const ocl_launcher launcher = { "objects", sizeof(cl_worker), open_parts, free_parts };

static tc_status cl_open(const an_work *work, const void *state, void **worker, tc_err *err)
{
    return ocl_worker_open(&launcher, work, state, worker, err);
}

const an_backend ocl_objects = {
    .name = "opencl",
    .open = cl_open,
    .step = cl_step,
    .sync = an_always_synced,
    .close = ocl_worker_close
};
