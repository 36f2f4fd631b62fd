/*
 * The OpenCL backend of objects. The device computes the texture of objects, except for large
 * objects (LARGE), whose sums do not fit 64 bits. The worker owns a worker of the CPU backend,
 * which computes the texture of large objects, and finds and measures all objects.
 *
 * A run is a sequence of adjacent pixels of an object in a row. The texture is computed from
 * matrices. Each matrix counts the pairs of grey levels of pixels that are a given distance apart
 * in a given direction.
 */
#include <stdlib.h>
#include <string.h>

#include "app/analysis/objects/core.h"
#include "app/analysis/objects/objects.h"
#include "opencl/backends.h"
#include "opencl/worker.h"

extern const ocl_source ocl_source_objects;

/* The device's buffers, named after the kernels' arguments. */
enum { GREY, LABELS, LEVEL, RUNS, START, ENDS, LOGS, COUNTS, SUMS, FEATURES, AVERAGES, BUFFERS };
/* The kernels. */
enum { K_QUANTISE, K_MATRICES, K_FEATURES, K_AVERAGE, KERNELS };
enum {
    GROUP = 128,       /* work-items of a work-group */
    LANES = 32,        /* as in objects.cl: work-items that process a run together */
    SUMMED_BYTES = 32, /* bytes of local memory for the sums (obj_part) of a work-item */
    /* An object of LARGE pixels or more is large. In a smaller object a matrix of all 13 directions
     * has fewer than 2^20 pairs, as cooc_core.h requires. */
    LARGE = 1 << 15,
    SUM_BYTES = 32 << 20,  /* the most bytes of the buffer SUMS */
    COUNT_BYTES = 64 << 20 /* the most bytes of the buffer COUNTS */
};

typedef struct cl_worker {
    ocl_worker ocl;
    const obj_params *params;
    void *host;          /* a worker of the CPU backend, obj_cpu */
    size_t group;        /* work-items of a work-group */
    bool global_counts;  /* the matrices are in global memory */
    bool has_index;      /* the objects' runs are on the device */
    uint32_t directions; /* the number of directions in which pairs of pixels are counted */
    uint32_t matrices;   /* matrices of an object at one distance: one for each direction, or 1 for
                            all directions if merged */
    size_t matrix_words; /* 32-bit words of the sums and histograms of a matrix */
    uint64_t most;       /* the most objects of a launch */
    uint32_t *ends;      /* [most][2]: the range of grey values that is divided into levels */
    double *features;    /* [most][n_features] */
    ocl_pace pace;       /* the pace of launches, in pixels times directions */
} cl_worker;

static void free_worker(void *worker)
{
    cl_worker *const w = worker;

    if (w->host != NULL)
        obj_cpu.close(&w->host);
    free(w->ends);
    free(w->features);
}

/* Bytes of local memory for the histograms of a matrix. */
static uint64_t histogram_bytes(const cl_worker *w)
{
    return 4 * sizeof(cl_uint) * (uint64_t)w->params->levels;
}

/* Sets the sizes that depend on the device, builds the kernels, and allocates the buffers. */
static tc_status open_device(cl_worker *w, tc_err *err)
{
    const an_work *const work = w->ocl.work;
    const obj_params *const p = w->params;
    const char *const names[KERNELS] = { work->pixels->bits == 8 ? "obj_quantise8"
                                                                 : "obj_quantise16",
                                         "obj_matrices", "obj_features", "obj_average" };
    const uint64_t pixels = (uint64_t)work->item->nx * work->item->ny * work->item->nz;
    const uint64_t matrix_bytes = obj_matrix_bytes(p);
    uint64_t most;

    if (!w->ocl.device->info.doubles)
        return tc_fail(err, TC_TOO_LARGE,
                       "%s %s double precision, which the texture of objects needs",
                       w->ocl.device->info.name, ocl_describe_no_doubles(&w->ocl.device->info));
    w->directions = work->item->is_stack ? OBJ_DIRECTIONS_3D : OBJ_DIRECTIONS_2D;
    w->matrices = p->merge ? 1 : w->directions;
    w->matrix_words = OBJ_WORD_MARGINAL + 4 * (size_t)p->levels;
    w->global_counts = matrix_bytes > OBJ_LOCAL_BYTES ||
                       matrix_bytes + histogram_bytes(w) + w->group * SUMMED_BYTES >
                           w->ocl.device->info.local_bytes;
    most = SUM_BYTES / (4 * w->matrix_words * w->matrices); /* 4 bytes a word */
    if (w->global_counts && COUNT_BYTES / (matrix_bytes * w->matrices) < most)
        most = COUNT_BYTES / (matrix_bytes * w->matrices);
    w->most = most < work->item->n_objects ? most : work->item->n_objects;
    w->ends = malloc(w->most * 2 * sizeof *w->ends);
    w->features = malloc(w->most * p->n_features * sizeof *w->features);
    if (w->ends == NULL || w->features == NULL)
        return tc_no_memory(err, "objects");
    const ocl_buffer_need needs[] = {
        { GREY, pixels * (work->pixels->bits / 8), "the pixels", ocl_pixels_from(work->pixels, 0) },
        { LABELS, pixels * 4, "the labels", work->pixels->labels },
        { LEVEL, pixels, "the grey levels", NULL },
        { ENDS, w->most * 2 * sizeof *w->ends, "the ranges", NULL },
        { COUNTS, w->global_counts ? w->most * w->matrices * matrix_bytes : 4, "the matrices",
          NULL },
        { SUMS, w->most * w->matrices * w->matrix_words * 4, "the sums", NULL },
        { FEATURES, w->most * w->matrices * p->n_features * sizeof(double), "the features", NULL },
        { AVERAGES, w->most * p->n_features * sizeof(double), "the averages", NULL }
    };
    const tc_status status = ocl_build_kernels(
        &w->ocl, &ocl_source_objects, false, names, KERNELS, err, "-DGROUP=%zu -DLANES=%zu%s",
        w->group, w->group < LANES ? w->group : LANES, w->global_counts ? " -DGLOBAL_COUNTS" : "");

    return status == TC_OK ? ocl_make_buffers(&w->ocl, needs, sizeof needs / sizeof needs[0], err)
                           : status;
}

static tc_status open_worker(void *worker, const void *state, tc_err *err)
{
    cl_worker *const w = worker;
    const an_work *const work = w->ocl.work;
    tc_status status;

    w->params = work->params;
    w->group = ocl_group_size(w->ocl.device, GROUP);
    ocl_pace_begin(&w->ocl, &w->pace, 1 << 15, (uint64_t)1 << 34);
    status = obj_cpu.open(work, state, &w->host, err);
    /* Without texture the device has nothing to do. */
    return status == TC_OK && obj_chunks(w->params) > 1 && work->item->n_objects > 0
               ? open_device(w, err)
               : status;
}

/* Copies the runs of all objects, which the CPU backend has found, to the device. */
static tc_status put_index(cl_worker *w, const obj_index *index, tc_err *err)
{
    const uint64_t runs = index->start[index->n];
    const tc_logs *const logs = &index->o->logs;
    const ocl_buffer_need needs[] = {
        { RUNS, (runs > 0 ? runs : 1) * sizeof *index->runs, "the runs",
          runs > 0 ? index->runs : NULL },
        { START, ((uint64_t)index->n + 1) * sizeof *index->start, "the objects", index->start },
        { LOGS, logs->n * sizeof *logs->k_log2_k, "the table of logarithms", logs->k_log2_k }
    };
    const tc_status status = ocl_make_buffers(&w->ocl, needs, sizeof needs / sizeof needs[0], err);

    w->has_index = status == TC_OK;
    return status;
}

/* Queues the conversion of the pixels of n objects, from `first` on, to grey levels. */
static tc_status quantise_objects(cl_worker *w, const obj_item *o, void *state, uint64_t first,
                                  uint64_t n, tc_err *err)
{
    for (uint64_t i = 0; i < n; i++) {
        const obj_row *const row = obj_row_of(state, o->row_bytes, first + i);

        w->ends[2 * i] = row->lo;
        w->ends[2 * i + 1] = row->hi;
        obj_level_range(o, &w->ends[2 * i], &w->ends[2 * i + 1]);
    }
    return_if_error(ocl_upload(&w->ocl, ENDS, 0, w->ends, n * 2 * sizeof *w->ends, err));
    return OCL_QUEUE(w, K_QUANTISE, ocl_grid_of(w->group, n * w->group, 1, 1), err,
                     OCL_BUFFER_ARG(w, GREY), OCL_BUFFER_ARG(w, RUNS), OCL_BUFFER_ARG(w, START),
                     OCL_BUFFER_ARG(w, ENDS), OCL_BUFFER_ARG(w, LEVEL), OCL_UINT(o->item->nx),
                     OCL_UINT(o->item->ny), OCL_UINT(first), OCL_UINT(w->params->levels));
}

/* Queues the computation of the texture of n objects, from `first` on, at one distance. */
static tc_status queue_distance(cl_worker *w, const obj_item *o, uint64_t first, uint64_t n,
                                size_t distance, tc_err *err)
{
    const wu_item *const item = o->item;
    const obj_params *const p = w->params;
    const size_t matrices = n * w->matrices, averages = n * p->n_features;
    const ocl_arg counts = OCL_LOCAL(obj_matrix_bytes(p));

    return_if_error(
        OCL_QUEUE(w, K_MATRICES, ocl_grid_of(w->group, matrices * w->group, 1, 1), err,
                  OCL_BUFFER_ARG(w, LABELS), OCL_BUFFER_ARG(w, LEVEL), OCL_BUFFER_ARG(w, RUNS),
                  OCL_BUFFER_ARG(w, START), OCL_BUFFER_ARG(w, LOGS), OCL_UINT(o->logs.n),
                  w->global_counts ? (ocl_arg)OCL_BUFFER_ARG(w, COUNTS) : counts,
                  OCL_LOCAL(histogram_bytes(w)), OCL_BUFFER_ARG(w, SUMS), OCL_INT(item->nx),
                  OCL_INT(item->ny), OCL_INT(item->nz), OCL_UINT(first),
                  OCL_INT(p->distances[distance]), OCL_UINT(w->directions), OCL_UINT(p->merge),
                  OCL_UINT(p->levels), OCL_INT(obj_level_bits(p))));
    return_if_error(OCL_QUEUE(w, K_FEATURES, ocl_grid_of(w->group, matrices, 1, 1), err,
                              OCL_BUFFER_ARG(w, SUMS), OCL_BUFFER_ARG(w, LOGS), OCL_UINT(o->logs.n),
                              OCL_UINT(matrices), OCL_UINT(p->levels), OCL_UINT(p->features),
                              OCL_BUFFER_ARG(w, FEATURES)));
    return OCL_QUEUE(w, K_AVERAGE, ocl_grid_of(w->group, averages, 1, 1), err,
                     OCL_BUFFER_ARG(w, FEATURES), OCL_UINT(w->matrices), OCL_UINT(averages),
                     OCL_UINT(p->n_features), OCL_BUFFER_ARG(w, AVERAGES));
}

/* Computes the texture of n objects, from `first` on, at all distances, and writes it to the state.
 * work: the work of each launch, in the unit of the pace. */
static tc_status measure_textures(cl_worker *w, const obj_item *o, void *state, uint64_t first,
                                  uint64_t n, uint64_t work, tc_err *err)
{
    const size_t features = w->params->n_features;
    tc_status status = quantise_objects(w, o, state, first, n, err);

    for (size_t d = 0; status == TC_OK && d < w->params->n_distances; d++) {
        status = queue_distance(w, o, first, n, d, err);
        status = ocl_end_launch(&w->ocl, status, &w->pace, work, err);
        if (status == TC_OK)
            status = ocl_download(&w->ocl, AVERAGES, 0, w->features,
                                  n * features * sizeof *w->features, err);
        for (uint64_t i = 0; status == TC_OK && i < n; i++) {
            obj_row *const row = obj_row_of(state, o->row_bytes, first + i);

            if (obj_is_kept(w->params, row))
                memcpy(row->words + o->texture_at + d * features, w->features + i * features,
                       features * sizeof *w->features);
        }
    }
    return status;
}

/* Measures the next small objects, as many as the pace allows, and computes their texture. If the
 * objects are not found yet, or the next one is large, lets the CPU backend do a step. */
static tc_status cl_step(void *worker, void *state, uint64_t *chunks_done, tc_err *err)
{
    cl_worker *const w = worker;
    /* budget and work: in pixels times directions; the second argument is no limit in practice. */
    const uint64_t budget = ocl_pace_next(&w->pace, (uint64_t)1 << 34);
    uint64_t n = 0, first, work = 0;
    const obj_index *const index = obj_host_index(w->host, &first);

    if (index != NULL && w->most > 0)
        n = obj_host_count_small(w->host, LARGE, w->most, budget / w->directions);
    if (n == 0)
        return obj_cpu.step(w->host, state, chunks_done, err);
    if (!w->has_index)
        return_if_error(put_index(w, index, err));
    for (uint64_t i = 0; i < n; i++)
        work += index->area[first + i];
    obj_host_measure(w->host, state, n);
    work *= w->directions;
    /* A launch processes only whole objects. If one more object would have exceeded the pace, the
     * launch counts as all the work that the pace allowed, so that the pace can grow. */
    if (work < budget && n < w->most && first + n < index->n)
        work = budget;
    tc_status status = measure_textures(w, index->o, state, first, n, work, err);
    if (status == TC_OK)
        return obj_host_advance(w->host, n, chunks_done);
    /* Restores the state from before the step. */
    memset(obj_row_of(state, index->o->row_bytes, first), 0, n * index->o->row_bytes);
    return status;
}

static const ocl_launcher launcher = { "objects", sizeof(cl_worker), open_worker, free_worker };

static tc_status cl_open(const an_work *work, const void *state, void **worker, tc_err *err)
{
    return ocl_worker_open(&launcher, work, state, worker, err);
}

const an_backend ocl_objects = {
    .name = "opencl", .open = cl_open, .step = cl_step, .close = ocl_worker_close
};
