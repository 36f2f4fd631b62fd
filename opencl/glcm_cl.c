/*
 * The OpenCL backend of glcm (grey-level co-occurrence matrices): buffers, and launches of the
 * kernels of opencl/kernels/glcm.cl. The arithmetic is in app/analysis/glcm/core.h.
 *
 * A chunk is the work for one tile of a slice, one offset between the pixels of a pair, and one
 * number of grey levels: a window around each pixel of the tile, with the matrix of its pixel
 * pairs. A step processes a batch of chunks: one launch of glcm_slide for each number of grey
 * levels (the parameter `levels` lists one or more), over the batch's chunks with that number, then
 * one launch of glcm_statistics over all chunks. If one chunk takes longer than a launch should, a
 * step processes one chunk, in several launches. The host reads the statistics of each chunk, and
 * adds them to its own copy of the state's statistics. Maps stay on the device. cl_sync copies the
 * statistics and the maps to the caller's state together, so that both always cover the same
 * chunks.
 *
 * A lens is the set of pixel pairs of one offset within a window. A move (glcm_move) describes one
 * row of a lens: which pair leaves the window, and which enters it, when the window moves by one
 * pixel. An index into params->levels is called `level`. A lens may be transposed: its windows then
 * move along y, and the chunk reads a transposed copy of the slice. With window GLCM_WHOLE_ROI,
 * each chunk has one matrix of the whole region of interest (ROI) instead of a window around each
 * pixel.
 */
#include <stdlib.h>
#include <string.h>

#include "app/analysis/glcm/glcm.h"
#include "app/base/numbers.h"
#include "app/base/os.h"
#include "app/base/pool.h"
#include "opencl/backends.h"
#include "app/analysis/glcm/layout.h"
#include "opencl/worker.h"

extern const ocl_source ocl_source_glcm;

_Static_assert(sizeof(glcm_work) % 8 == 0, "arrays of glcm_work have no holes");
_Static_assert(GLCM_MAX_LENS_ROWS == 2 * GLCM_MAX_RADIUS + 1,
               "a lens has at most GLCM_MAX_LENS_ROWS rows");
_Static_assert(GLCM_ALL_FEATURES == GLCM_FEATURES + GLCM_MORE_FEATURES,
               "glcm_work.map has an element for each feature");

enum {
    MAX_BATCH = 4096, /* the most chunks of a step */
    MAX_GROUP = 64,   /* the most work-items of a work-group of glcm_slide */
    MATRIX = GLCM_MAX_LEVELS * GLCM_MAX_LEVELS, /* the most entries of a whole-ROI matrix */
    FIRST_PIXELS = 1 << 16,                     /* pixels of the first launch of glcm_count */
    /* The work of the first launch of glcm_slide: the number of its windows times the number of
     * moves of a lens. */
    FIRST_MOVES = 1 << 15,
    /* The most cells of matrices that a work-item reads, over all windows of its segment, for the
     * features beyond Haralick's 13. */
    ITEM_CELLS = 1 << 18
};

/* The device's buffers; layout.h and glcm.cl describe their contents. */
enum {
    FINE_STEPS,    /* GLCM_FIRST of glcm_tables.marginal_step */
    STEPS,         /* glcm_tables.step */
    IDM,           /* glcm_tables.idm */
    DIVISORS,      /* glcm_tables.divisors */
    F,             /* glcm_tables.f */
    F60,           /* glcm_tables.f60 */
    EXP_TABLE,     /* glcm_tables.exp_table */
    MOVES,         /* the moves of all lenses */
    PLANES,        /* the grey levels of both crops, for each entry of params->levels */
    ROI,           /* for both crops: 1 for pixels that have a window */
    WORK,          /* the batch's chunks (glcm_work) */
    CHUNKS,        /* indices into WORK, sorted by level */
    WORDS,         /* the sums of each window */
    BINS,          /* histograms in global memory */
    PARTIALS,      /* statistics of Haralick's 13 features, of each work-group */
    MORE_PARTIALS, /* statistics of the other features, of each work-group */
    COUNTS,        /* the number of windows with pairs, of each work-group */
    BANDS,         /* the bands of each chunk (glcm_bands) */
    MAPS,          /* the maps of features, of the whole item */
    MATRICES       /* the matrix of each chunk, for whole-ROI matrices */
};

/* The kernels; SLIDE_GLOBAL is glcm_slide with histograms in global memory. */
enum { SLIDE, SLIDE_GLOBAL, STATISTICS, COUNT, MORE_STATISTICS, KERNELS };
/* The number of kernels if there are no features beyond Haralick's 13. */
enum { KERNELS_OF_13 = MORE_STATISTICS };

/* The part of a slice, or of the transposed slice, that is on the device. */
typedef struct crop {
    int64_t x0, y0; /* the crop's first pixel, in coordinates of the glcm_view */
    int64_t columns, rows;
} crop;

typedef struct cl_worker {
    ocl_worker ocl;
    const glcm_params *params;
    glcm_geometry g;
    glcm_tables tables;
    crop crop[2];        /* [0]: of the slice; [1]: of the transposed slice */
    size_t crop_pixels;  /* pixels of one crop */
    bool interior;       /* the crop lies within the picture */
    glcm_lens *lenses;   /* [n_offsets]: the lens of each offset */
    int64_t *first_move; /* [n_offsets + 1]: index of each offset's first move in the table */
    /* The arrays of GLCM_MAX_LEVEL_COUNT have an element for each entry of params->levels. */
    size_t group[GLCM_MAX_LEVEL_COUNT];     /* work-items of a work-group of glcm_slide */
    bool global_bins[GLCM_MAX_LEVEL_COUNT]; /* histograms are in global, not local memory */
    bool any_global;                        /* any of global_bins is set */
    bool all_global; /* all of global_bins are set; no kernel for local memory is compiled */
    bool narrow;     /* GLCM_NARROW of glcm.cl: counts of the histograms have 8 bits, not 16 */
    bool more;       /* the device computes features beyond Haralick's 13 */
    size_t words;    /* 64-bit words that store a window's sums and further features */

    unsigned char *state; /* a copy of the state without the maps, to which steps add */
    uint32_t slice; /* the slice whose planes are on the device; UINT32_MAX if there is none */
    ocl_pace pace;  /* adapts the number of chunks of a batch to the measured times; for whole-ROI
                       matrices, the number of rows of pixels */
    bool divided;   /* each chunk is processed by itself, in several launches, as one launch would
                       take too long */
    size_t fitting; /* if divided: how many chunks, up to the last one, have in succession taken so
                       little time that one launch could have processed each */
    ocl_pace slides[GLCM_MAX_LEVEL_COUNT]; /* if divided: work-groups of a launch of glcm_slide */
    ocl_pace features;     /* if divided: work-groups of a launch of glcm_statistics */
    uint64_t most;         /* the most chunks of a batch, for which the buffers are large enough */
    glcm_work *host_work;  /* [most] */
    uint32_t *host_chunks; /* [most]: the batch's chunks, sorted by level */
    /* Copies of the device's PARTIALS, MORE_PARTIALS and COUNTS; for a whole ROI host_counts holds
     * the MATRICES instead. */
    glcm_moments *host_partials, *host_more;
    uint32_t *host_counts;
    glcm_bands *host_bands;    /* [most] */
    uint32_t groups_per_chunk; /* work-groups of glcm_statistics of the largest chunk */
    uint64_t chunk_windows;    /* the most windows of any chunk */
    size_t chunk_rows;         /* the most rows of windows of any chunk */
    size_t chunk_columns;      /* the most columns of windows of any chunk */
} cl_worker;

/* Whether each chunk has one matrix of the whole ROI, rather than one of a window around each
 * pixel.
 */
static bool whole_roi(const cl_worker *w)
{
    return w->params->window == GLCM_WHOLE_ROI;
}

/* --- moves ----------------------------------------------------------------------------------- */

/* Makes the lens of each offset, and numbers the moves of all lenses consecutively. */
static tc_status make_lenses(cl_worker *w, tc_err *err)
{
    const glcm_params *const p = w->params;

    w->lenses = calloc(p->n_offsets, sizeof *w->lenses);
    w->first_move = calloc(p->n_offsets + 1, sizeof *w->first_move);
    if (w->lenses == NULL || w->first_move == NULL)
        return tc_no_memory(err, "the offsets");
    for (size_t o = 0; o < p->n_offsets; o++) {
        if (whole_roi(w))
            w->lenses[o] = (glcm_lens){ .dx = p->offsets[o].dx, .dy = p->offsets[o].dy };
        else
            glcm_lens_init(p, &p->offsets[o], &w->lenses[o]);
        w->first_move[o + 1] = w->first_move[o] + w->lenses[o].rows;
    }
    return TC_OK;
}

/* Returns the table of moves of all offsets, with room for one more move; the caller frees it.
 * Returns NULL if there is not enough memory. leave and enter are offsets of pixels in the crop,
 * from the pixel around which the window lies. */
static glcm_move *make_moves(const cl_worker *w)
{
    glcm_move *const moves = calloc((size_t)w->first_move[w->params->n_offsets] + 1, sizeof *moves);

    for (size_t o = 0; moves != NULL && o < w->params->n_offsets; o++) {
        const glcm_lens *const lens = &w->lenses[o];
        const tc_i32 stride = (tc_i32)w->crop[lens->transposed].rows;

        for (int i = 0; i < lens->rows; i++)
            moves[w->first_move[o] + i] =
                (glcm_move){ .leave = lens->lo[i] * stride + lens->row[i],
                             .enter = (lens->hi[i] + 1) * stride + lens->row[i],
                             .count = lens->hi[i] - lens->lo[i] + 1 };
    }
    return moves;
}

/* --- planes ---------------------------------------------------------------------------------- */

/* Sets the crops to the ROI's bounding box plus a margin, which contains all pixels that a window
 * around a pixel of the ROI can reach. */
static void make_crops(cl_worker *w)
{
    int64_t margin = w->params->radius + 1; /* the pixel that enters is 1 beyond the radius */

    for (size_t o = 0; o < w->params->n_offsets; o++) {
        const int64_t dx = llabs(w->params->offsets[o].dx), dy = llabs(w->params->offsets[o].dy);

        margin = w->params->radius + 1 + dx > margin ? w->params->radius + 1 + dx : margin;
        margin = w->params->radius + 1 + dy > margin ? w->params->radius + 1 + dy : margin;
    }
    for (int turn = 0; turn < 2; turn++) {
        const glcm_view *const v = &w->g.view[turn];

        w->crop[turn] = (crop){ v->x0 - margin, v->y0 - margin, v->x1 - v->x0 + 2 * margin,
                                v->y1 - v->y0 + 2 * margin };
    }
    w->crop_pixels = (size_t)(w->crop[0].columns * w->crop[0].rows);
    w->interior = w->crop[0].x0 >= 0 && w->crop[0].x0 + w->crop[0].columns <= w->g.nx &&
                  w->crop[0].y0 >= 0 && w->crop[0].y0 + w->crop[0].rows <= w->g.ny;
}

/* The arguments of load_rows. The threads of a pool run it to make the planes of a slice in the
 * device's layout. */
typedef struct load_job {
    const cl_worker *w;
    const wu_pixels *px;
    uint32_t slice;
    const uint8_t *quantiser; /* glcm_quantiser */
    uint16_t *grey;           /* [n_levels][2][crop_pixels] */
    uint8_t *roi;             /* [2][crop_pixels] */
    uint8_t *rows;            /* [threads][nx]: the row of the picture that each thread copies */
} load_job;

/* Copies row y of the picture to crop number `turn`, which is stored column by column. The
 * destination is `greys`, or `roi` if greys is NULL. Crop 1 is transposed: there the row becomes a
 * column. */
static void put_row(const cl_worker *w, size_t turn, int64_t y, const uint8_t *row, uint16_t *greys,
                    uint8_t *roi)
{
    const crop *const c = &w->crop[turn];
    /* The row's first and number of pixels in the crop, the index of the first one in the crop's
     * memory, and the distance there between neighbours. The crop's axes are swapped if `turn`. */
    const int64_t from = turn ? c->y0 : c->x0, n = turn ? c->rows : c->columns;
    const size_t at = (size_t)(turn ? (y - c->x0) * c->rows : y - c->y0),
                 step = turn ? 1 : (size_t)c->rows;

    for (int64_t i = from < 0 ? -from : 0; i < n && from + i < w->g.nx; i++)
        if (greys != NULL)
            greys[at + (size_t)i * step] = row[from + i];
        else
            roi[at + (size_t)i * step] = row[from + i];
}

/* The rows of the picture that a thread copies at a time. */
enum { LOAD_ROWS = 64 };

/* Copies LOAD_ROWS rows of the picture to both crops, from row number part * LOAD_ROWS of those
 * that the crops contain. The caller has set the crops' pixels outside the picture. */
static void load_rows(void *user, unsigned thread, size_t part)
{
    const load_job *const l = user;
    const cl_worker *const w = l->w;
    const size_t n = w->crop_pixels, values = (size_t)1 << l->px->bits;
    const int64_t first = w->crop[0].y0 > 0 ? w->crop[0].y0 : 0,
                  last = w->crop[0].y0 + w->crop[0].rows;
    uint8_t *const row = l->rows + (size_t)thread * w->g.nx;

    for (int64_t y = first + (int64_t)part * LOAD_ROWS; y < first + ((int64_t)part + 1) * LOAD_ROWS;
         y++) {
        if (y >= last || y >= w->g.ny)
            return;
        for (size_t i = 0; i < w->params->n_levels; i++) {
            glcm_quantise_row(l->px, l->slice, (uint32_t)y, l->quantiser + i * values, row);
            for (size_t turn = 0; turn < 2; turn++)
                put_row(w, turn, y, row, l->grey + (2 * i + turn) * n, NULL);
        }
        glcm_roi_row(&w->g, l->slice, (uint32_t)y, row);
        for (size_t turn = 0; turn < 2; turn++)
            put_row(w, turn, y, row, NULL, l->roi + turn * n);
    }
}

/* Makes a slice's planes, and copies them to the device. */
static tc_status load_slice(cl_worker *w, uint32_t slice, tc_err *err)
{
    const an_work *const work = w->ocl.work;
    const size_t n = w->crop_pixels, words = 2 * w->params->n_levels * n;
    uint8_t *const quantiser = glcm_quantiser(&w->g, work->pixels->bits);
    load_job l = { .w = w,
                   .px = work->pixels,
                   .slice = slice,
                   .quantiser = quantiser,
                   .grey = os_alloc_zeroed(words * sizeof *l.grey),
                   .roi = os_alloc_zeroed(2 * n),
                   .rows = malloc((size_t)work->threads * w->g.nx) };
    an_pool *pool = NULL;
    tc_status status = l.grey == NULL || l.roi == NULL || l.rows == NULL || quantiser == NULL
                           ? tc_no_memory(err, "glcm")
                           : an_pool_create(work->threads, &pool, err);

    for (size_t i = 0, end; status == TC_OK && i < words; status = tc_call_poll(work->poll, err))
        for (end = tc_block_end(i, words); i < end; i++)
            l.grey[i] = GLCM_OUTSIDE;
    /* Touches all memory of the crops, in blocks between which work->poll is called. Otherwise the
     * first rows that load_rows writes would touch nearly all of it, as the pixels of a row are
     * spread over a whole crop. */
    if (status == TC_OK)
        status = tc_clear_memory(l.roi, 2 * n, work->poll, err);
    if (status == TC_OK)
        status = an_pool_run_polled(pool, load_rows, &l, (size_t)w->g.ny / LOAD_ROWS + 1,
                                    work->poll, err);
    if (status == TC_OK)
        status = ocl_upload(&w->ocl, PLANES, 0, l.grey, words * sizeof *l.grey, err);
    if (status == TC_OK)
        status = ocl_upload(&w->ocl, ROI, 0, l.roi, 2 * n, err);
    if (status == TC_OK)
        w->slice = slice;
    an_pool_destroy(&pool);
    free(quantiser);
    free(l.grey);
    free(l.roi);
    free(l.rows);
    return status;
}

/* --- buffers and kernels --------------------------------------------------------------------- */

/* Whether the device runs the work-items of a group one after another, as a CPU does. False for
 * Oclgrind, which reports both types, CPU and GPU, so that it tests the code for GPUs. */
static bool runs_in_turn(const ocl_device *device)
{
    return (device->info.type & (CL_DEVICE_TYPE_CPU | CL_DEVICE_TYPE_GPU)) == CL_DEVICE_TYPE_CPU;
}

/* Whether the counts of the histograms are to have 8 bits (GLCM_NARROW of glcm.cl). Such counts
 * save local memory, but take more time, so a CPU does not use them. */
static bool use_narrow(const cl_worker *w)
{
    int most = 0; /* pairs of the largest lens */

    for (size_t o = 0; !whole_roi(w) && o < w->params->n_offsets; o++) {
        const glcm_lens *const lens = &w->lenses[o];
        int pairs = 0;

        for (int i = 0; i < lens->rows; i++)
            pairs += lens->hi[i] - lens->lo[i] + 1;
        most = pairs > most ? pairs : most;
    }
    /* GLCM_NARROW needs fewer than 1024 pairs in a window. */
    return most < 1024 && !runs_in_turn(w->ocl.device);
}

/* The size of a window's histograms in units of 16 bits. A unit holds one count of 16 bits or two
 * of 8 bits. */
static size_t bins_size(const cl_worker *w, size_t level)
{
    const size_t levels = w->params->levels[level], cells = levels * (levels + 1) / 2;

    /* 4 * levels: the histograms of levels (`levels` bins), of their differences (as many) and of
     * their sums (twice as many); cells: the entries of the symmetric matrix */
    return 4 * levels + (w->narrow ? (cells + 1) / 2 : cells);
}

/* Sets the size of the work-groups of glcm_slide for each level: the most work-items whose
 * histograms fit local memory; or, if these are too few, a small group with histograms in global
 * memory. All levels use global memory if the program has no kernels for local memory
 * (GLCM_KERNELS_LOCAL). */
static void choose_groups(cl_worker *w)
{
    const bool cpu = runs_in_turn(w->ocl.device);
    /* Bytes of local memory for histograms: at most 48 KiB, less the table of moves and 256 bytes
     * that a driver may need. */
    const size_t local =
        (size_t)(w->ocl.device->info.local_bytes < (48 << 10) ? w->ocl.device->info.local_bytes
                                                              : 48 << 10) -
        2 * sizeof(cl_int) * GLCM_MAX_LENS_ROWS - 256;

    w->all_global = (w->ocl.device->kernels & GLCM_KERNELS_LOCAL) == 0;
    for (size_t i = 0; i < w->params->n_levels; i++) {
        size_t items = local / (bins_size(w, i) * sizeof(uint16_t));

        w->global_bins[i] = w->all_global || items < (cpu ? 1 : 2);
        if (w->global_bins[i]) {
            items = 32; /* local memory does not limit the group */
            w->any_global = true;
        }
        /* Rounds down to a power of two, by clearing the lowest bit until one bit is left. Other
         * work-groups can use the rest of the memory. */
        while ((items & (items - 1)) != 0)
            items &= items - 1;
        items = items > MAX_GROUP ? MAX_GROUP : items;
        items = items > w->ocl.device->info.max_group ? w->ocl.device->info.max_group : items;
        w->group[i] = cpu ? 1 : items;
    }
}

/* Builds the kernels that the job needs, and reduces w->group to the greatest work-groups that
 * these kernels allow. */
static tc_status make_kernels(cl_worker *w, tc_err *err)
{
    const char *const single = runs_in_turn(w->ocl.device) ? "-DGLCM_SINGLE"
                               : w->narrow                 ? "-DGLCM_NARROW"
                                                           : "";
    const ocl_device *const d = w->ocl.device;
    /* These features and the maps are also compiled if only another item of the job, or a
     * self-test, uses them, so that all of them share one program. */
    const char *const more = w->more || ((d->kernels & GLCM_KERNELS_MORE) != 0 && d->info.doubles)
                                 ? " -DGLCM_MORE_TOO"
                                 : "";
    const char *const maps =
        w->params->n_maps > 0 || (d->kernels & GLCM_KERNELS_MAPS) != 0 ? " -DGLCM_MAPS_TOO" : "";
    const char *names[KERNELS] = {
        [STATISTICS] = "glcm_statistics", [MORE_STATISTICS] = "glcm_more_statistics"
    };

    if (whole_roi(w))
        return ocl_build_kernels(&w->ocl, &ocl_source_glcm, false,
                                 (const char *[KERNELS]){ [COUNT] = "glcm_count" }, KERNELS, err,
                                 "-DGLCM_COUNT");
    names[w->all_global ? SLIDE_GLOBAL : SLIDE] = "glcm_slide";
    return_if_error(ocl_build_kernels(
        &w->ocl, &ocl_source_glcm, false, names, w->more ? KERNELS : KERNELS_OF_13, err, "%s%s%s%s",
        w->all_global ? "-DGLCM_GLOBAL_BINS " : "", single, more, maps));
    if (w->any_global && !w->all_global) /* a second program, of this kernel alone */
        return_if_error(
            ocl_build_kernels(&w->ocl, &ocl_source_glcm, false,
                              (const char *[KERNELS]){ [SLIDE_GLOBAL] = "glcm_slide" }, KERNELS,
                              err, "-DGLCM_GLOBAL_BINS -DGLCM_SLIDE_ALONE %s%s", single, more));
    for (size_t i = 0; i < w->params->n_levels; i++) {
        const size_t most = w->ocl.kernel[w->global_bins[i] ? SLIDE_GLOBAL : SLIDE].max_group;

        w->group[i] = tc_smaller(w->group[i], most);
    }
    return TC_OK;
}

/* The number of windows in a segment, the part of a row of windows that one work-item slides over.
 * If a launch for `chunks` chunks with undivided rows has fewer than 8 work-groups for each compute
 * unit, rows are divided into up to 4 segments. */
static size_t segment_size(const cl_worker *w, size_t level, size_t chunks)
{
    const size_t groups =
        (w->chunk_rows + w->group[level] - 1) / w->group[level] * (chunks > 0 ? chunks : 1);
    const size_t wanted = 8 * (size_t)w->ocl.device->info.compute_units / groups;
    const size_t parts = runs_in_turn(w->ocl.device) || w->global_bins[level] || wanted < 1 ? 1
                         : wanted > 4                                                       ? 4
                                      : wanted;
    const size_t segment = (w->chunk_columns + parts - 1) / parts;
    const size_t cells = (size_t)w->params->levels[level] * (w->params->levels[level] + 1) / 2;
    const size_t most =
        w->more && ITEM_CELLS / cells < GLCM_SEGMENT ? ITEM_CELLS / cells : GLCM_SEGMENT;

    return segment < most ? segment : most;
}

/* The number of segments of a row of windows, if a segment has `segment` windows. */
static size_t segment_count(const cl_worker *w, size_t segment)
{
    return (w->chunk_columns + segment - 1) / segment;
}

/* The number of work-items that process a chunk with histograms in global memory. */
static uint64_t global_bin_items(const cl_worker *w, size_t level)
{
    return ocl_round_up(w->chunk_rows, w->group[level]) *
           segment_count(w, segment_size(w, level, 1));
}

/* The most bytes that a chunk needs in the buffers whose size depends on the batch. */
static uint64_t chunk_bytes(const cl_worker *w)
{
    uint64_t bins = 0;

    if (whole_roi(w))
        return (uint64_t)MATRIX * sizeof(uint32_t) + sizeof(glcm_work);
    for (size_t i = 0; i < w->params->n_levels; i++) {
        const uint64_t bytes = w->global_bins[i] ? global_bin_items(w, i) * bins_size(w, i) * 2 : 0;

        bins = bytes > bins ? bytes : bins;
    }
    return w->chunk_windows * w->words * sizeof(uint64_t) + bins + sizeof(glcm_work) + 4 +
           w->groups_per_chunk * (GLCM_ALL_FEATURES * sizeof(glcm_moments) + sizeof(uint32_t)) +
           sizeof(glcm_bands);
}

/* Sets chunk_columns, chunk_rows, chunk_windows and groups_per_chunk. The tiles of chunks with a
 * transposed lens are those of the transposed slice (turn 1). */
static void measure_chunks(cl_worker *w)
{
    for (int turn = 0; turn < 2; turn++) {
        const glcm_view *const v = &w->g.view[turn];

        for (uint32_t i = 0; i < w->g.bands * w->g.strips; i++) {
            const glcm_tile tile = glcm_tile_at(&w->g, v, i);
            const size_t columns = (size_t)(tile.x1 - tile.x0), rows = (size_t)(tile.y1 - tile.y0);

            w->chunk_columns = columns > w->chunk_columns ? columns : w->chunk_columns;
            w->chunk_rows = rows > w->chunk_rows ? rows : w->chunk_rows;
            w->chunk_windows =
                columns * rows > w->chunk_windows ? columns * rows : w->chunk_windows;
        }
    }
    w->groups_per_chunk =
        (uint32_t)((w->chunk_windows + GLCM_GROUP_WINDOWS - 1) / GLCM_GROUP_WINDOWS);
}

/* Returns the most chunks of a batch, which is limited by the number of chunks of a slice, the
 * device's memory, and the largest size of a buffer. */
static uint64_t choose_batch(const cl_worker *w)
{
    const uint64_t each = chunk_bytes(w);
    /* Bytes that do not depend on the batch: planes, maps, and at most 8 MiB of tables. */
    const uint64_t fixed =
        w->crop_pixels * (4 * w->params->n_levels + 2) + /* both crops: grey levels, ROI */
        w->params->n_maps * sizeof(float) * (uint64_t)w->g.nx * w->g.ny * w->g.nz +
        ((uint64_t)8 << 20);
    const uint64_t limit =
        w->ocl.device->memory_limit > fixed ? (w->ocl.device->memory_limit - fixed) / 2 : 0;
    uint64_t most = tc_smaller(w->g.chunks / w->g.nz, MAX_BATCH);

    /* Buffers of more than 4 GiB make no device faster. */
    most = tc_smaller(most, tc_smaller(limit, (uint64_t)4 << 30) / each);
    most = tc_smaller(most, w->ocl.device->info.max_alloc_bytes / each);
    /* On a CPU, caches should hold what one kernel writes and the next reads. */
    if (runs_in_turn(w->ocl.device))
        most = tc_smaller(most, (uint64_t)w->params->n_levels * w->ocl.device->info.compute_units);
    return most < 1 ? 1 : most;
}

/* Allocates all buffers. maps: the maps of the state, map_bytes long. */
static tc_status make_buffers(cl_worker *w, const void *maps, uint64_t map_bytes, tc_err *err)
{
    const glcm_tables *const t = &w->tables;
    /* sliding and matrices are 1 or 0, and multiply the sizes of buffers that only sliding windows
     * or only whole-ROI matrices need. steps: length of the tables indexed by pairs. */
    const uint64_t n = w->most, sliding = !whole_roi(w), matrices = whole_roi(w),
                   steps = 2 * (uint64_t)t->max_pairs + 1;
    const uint64_t n_moves = (uint64_t)w->first_move[w->params->n_offsets] + 1,
                   groups = n * w->groups_per_chunk;
    const uint64_t planes = 2 * w->params->n_levels * w->crop_pixels * sizeof(uint16_t);
    TC_AUTOFREE glcm_move *const moves = make_moves(w);
    TC_AUTOFREE uint64_t *const fine = malloc((size_t)steps * sizeof *fine);
    uint64_t bins = 1;

    if (moves == NULL || fine == NULL)
        return tc_no_memory(err, "the offsets");
    for (uint64_t k = 0; k < steps; k++)
        fine[k] = GLCM_FIRST(t->marginal_step[k]);
    for (size_t i = 0; i < w->params->n_levels; i++)
        if (w->global_bins[i]) {
            const uint64_t bytes = global_bin_items(w, i) * n * bins_size(w, i) * 2;

            bins = bytes > bins ? bytes : bins;
        }
    const ocl_buffer_need needs[] = {
        { PLANES, planes, "the picture", NULL },
        { ROI, 2 * w->crop_pixels, "the picture", NULL },
        { WORK, n * sizeof(glcm_work), "the chunks", NULL },
        { MATRICES, matrices * n * MATRIX * sizeof(uint32_t), "the matrices", NULL },
        { CHUNKS, sliding * n * sizeof(uint32_t), "the chunks", NULL },
        { WORDS, sliding * n * w->chunk_windows * w->words * sizeof(uint64_t), "the sums", NULL },
        { BINS, sliding * bins, "the histograms", NULL },
        { PARTIALS, sliding * groups * GLCM_FEATURES * sizeof(glcm_moments), "the statistics",
          NULL },
        { MORE_PARTIALS, w->more ? groups * GLCM_MORE_FEATURES * sizeof(glcm_moments) : 0,
          "the statistics", NULL },
        { COUNTS, sliding * groups * sizeof(uint32_t), "the statistics", NULL },
        { BANDS, sliding * n * sizeof(glcm_bands), "the bands", NULL },
        { MAPS, sliding * (map_bytes > 0 ? map_bytes : sizeof(float)), "the maps",
          map_bytes > 0 ? maps : NULL },
        { MOVES, n_moves * sizeof *moves, "the offsets", moves },
        { FINE_STEPS, sliding * steps * sizeof *fine, "tables", fine },
        { STEPS, sliding * steps * sizeof *t->step, "tables", t->step },
        { IDM, sliding * sizeof t->idm, "tables", t->idm },
        { DIVISORS, sliding * ((uint64_t)t->max_pairs + 1) * sizeof *t->divisors, "tables",
          t->divisors },
        { F, sliding * steps * sizeof *t->f, "tables", t->f },
        { F60, sliding * steps * sizeof *t->f60, "tables", t->f60 },
        { EXP_TABLE, sliding * GLCM_EXP_SIZE * sizeof *t->exp_table, "tables", t->exp_table }
    };
    return ocl_make_buffers(&w->ocl, needs, sizeof needs / sizeof needs[0], err);
}

/* Allocates the host's arrays for a batch. */
static tc_status make_host_memory(cl_worker *w, tc_err *err)
{
    const size_t n = (size_t)w->most, groups = n * w->groups_per_chunk;
    const size_t matrices = whole_roi(w) ? n * MATRIX : 1;

    w->host_work = calloc(n, sizeof *w->host_work);
    w->host_chunks = calloc(n, sizeof *w->host_chunks);
    w->host_partials = calloc(groups + 1, GLCM_FEATURES * sizeof *w->host_partials);
    w->host_more = calloc(groups + 1, GLCM_MORE_FEATURES * sizeof *w->host_more);
    w->host_counts = calloc(groups + 1 > matrices ? groups + 1 : matrices, sizeof *w->host_counts);
    w->host_bands = calloc(n, sizeof *w->host_bands);
    if (w->host_work == NULL || w->host_bands == NULL || w->host_chunks == NULL ||
        w->host_partials == NULL || w->host_more == NULL || w->host_counts == NULL)
        return tc_no_memory(err, "glcm");
    return TC_OK;
}

/* --- one batch ------------------------------------------------------------------------------- */

/* Sets work->map: for each feature, the plane of the map that the chunk writes, or -1. */
static void find_maps(const cl_worker *w, const glcm_chunk *chunk, glcm_work *work)
{
    for (int f = 0; f < GLCM_ALL_FEATURES; f++)
        work->map[f] = -1;
    for (size_t i = 0; i < w->params->n_maps; i++) {
        const glcm_map *const m = &w->params->maps[i];

        if (m->offset == chunk->offset && m->level == chunk->level)
            work->map[m->feature] = (tc_i32)(i * w->g.nz + chunk->slice);
    }
}

/* Sets host_work[place] and *chunk to the description of chunk number `index` of the item. */
static void describe_chunk(const cl_worker *w, uint64_t index, uint64_t place, glcm_chunk *chunk)
{
    glcm_work *const work = &w->host_work[place];
    const glcm_lens *lens;
    const glcm_view *view;
    glcm_tile tile;
    const crop *c;
    int64_t at;

    glcm_chunk_at(&w->g, index, chunk);
    lens = &w->lenses[chunk->offset];
    view = &w->g.view[lens->transposed];
    tile = glcm_tile_at(&w->g, view, chunk->tile);
    c = &w->crop[lens->transposed];
    at = (tile.x0 - c->x0) * c->rows + (tile.y0 - c->y0);
    *work =
        (glcm_work){ .plane = (tc_i64)((2 * chunk->level + lens->transposed) * w->crop_pixels) + at,
                     .roi = (tc_i64)(lens->transposed * w->crop_pixels) + at,
                     .words = (tc_i64)(place * w->chunk_windows * w->words),
                     .stride = (tc_i32)c->rows,
                     .partner = (tc_i32)(lens->dx * c->rows + lens->dy),
                     .columns = (tc_i32)(tile.x1 - tile.x0),
                     .rows = (tc_i32)(tile.y1 - tile.y0),
                     .first_move = (tc_i32)w->first_move[chunk->offset],
                     .moves = lens->rows,
                     .levels = w->params->levels[chunk->level],
                     .partial = (tc_i32)(place * w->groups_per_chunk),
                     .transposed = lens->transposed,
                     .interior = w->interior,
                     .line0 = (tc_i32)(tile.y0 - view->y0),
                     .lines = (tc_i32)(view->y1 - view->y0),
                     .map_x0 = (tc_i32)(lens->transposed ? tile.y0 : tile.x0),
                     .map_y0 = (tc_i32)(lens->transposed ? tile.x0 : tile.y0) };
    find_maps(w, chunk, work);
}

/* Queues glcm_slide for the chunks of a level, which are those in host_chunks from index `listed`
 * on; their number is the grid's size along z. segment: windows of a segment. */
static tc_status queue_slides(cl_worker *w, size_t level, uint32_t listed, size_t segment,
                              ocl_grid grid, tc_err *err)
{
    const bool global = w->global_bins[level];
    const size_t bins = bins_size(w, level), bytes = w->group[level] * bins * sizeof(uint16_t);

    return OCL_QUEUE(w, global ? SLIDE_GLOBAL : SLIDE, grid, err, OCL_BUFFER_ARG(w, WORK),
                     OCL_BUFFER_ARG(w, CHUNKS), OCL_UINT(listed), OCL_BUFFER_ARG(w, PLANES),
                     OCL_BUFFER_ARG(w, ROI), OCL_BUFFER_ARG(w, MOVES),
                     OCL_BUFFER_ARG(w, FINE_STEPS), OCL_BUFFER_ARG(w, STEPS),
                     OCL_BUFFER_ARG(w, IDM), OCL_BUFFER_ARG(w, WORDS), OCL_INT(segment),
                     OCL_UINT(bins), OCL_UINT(w->more ? w->params->features : 0),
                     global ? (ocl_arg)OCL_BUFFER_ARG(w, BINS) : (ocl_arg)OCL_LOCAL(bytes));
}

/* Queues glcm_slide for the n chunks of a batch, a launch for each level. */
static tc_status launch_slides(cl_worker *w, uint64_t n, tc_err *err)
{
    size_t rows = 0;
    uint32_t listed = 0, first[GLCM_MAX_LEVEL_COUNT + 1] = { 0 };

    /* Lists the chunks level by level; the chunks of a level begin at host_chunks[first[level]]. */
    for (size_t level = 0; level < w->params->n_levels; level++) {
        first[level] = listed;
        for (uint64_t i = 0; i < n; i++)
            if (w->host_work[i].levels == w->params->levels[level])
                w->host_chunks[listed++] = (uint32_t)i;
    }
    first[w->params->n_levels] = listed;
    for (uint64_t i = 0; i < n; i++)
        rows = (size_t)w->host_work[i].rows > rows ? (size_t)w->host_work[i].rows : rows;
    return_if_error(
        ocl_upload(&w->ocl, CHUNKS, 0, w->host_chunks, listed * sizeof *w->host_chunks, err));
    for (size_t level = 0; level < w->params->n_levels; level++) {
        const size_t chunks = first[level + 1] - first[level],
                     segment = segment_size(w, level, chunks);

        return_if_error(queue_slides(
            w, level, first[level], segment,
            ocl_grid_of(w->group[level], rows, segment_count(w, segment), chunks), err));
    }
    return TC_OK;
}

/* Queues glcm_statistics and, if needed, glcm_more_statistics for n chunks: for each chunk
 * work-groups `from` to `from + groups - 1`, which process GLCM_GROUP_WINDOWS windows each. */
static tc_status launch_statistics(cl_worker *w, uint64_t n, size_t from, size_t groups,
                                   tc_err *err)
{
    const tc_i64 map_plane = (tc_i64)w->g.nx * w->g.ny;
    ocl_grid grid = ocl_grid_of(GLCM_GROUP, groups * GLCM_GROUP, (size_t)n, 1);

    grid.start[0] = from * GLCM_GROUP;
    return_if_error(OCL_QUEUE(
        w, STATISTICS, grid, err, OCL_BUFFER_ARG(w, WORK), OCL_BUFFER_ARG(w, WORDS),
        OCL_BUFFER_ARG(w, DIVISORS), OCL_BUFFER_ARG(w, F), OCL_BUFFER_ARG(w, F60),
        OCL_INT(w->tables.fbits), OCL_BUFFER_ARG(w, EXP_TABLE), OCL_BUFFER_ARG(w, PARTIALS),
        OCL_BUFFER_ARG(w, COUNTS), OCL_UINT(w->params->features), OCL_BUFFER_ARG(w, BANDS),
        OCL_BUFFER_ARG(w, MAPS), OCL_LONG(map_plane), OCL_INT(w->g.nx)));
    return w->more ? OCL_QUEUE(w, MORE_STATISTICS, grid, err, OCL_BUFFER_ARG(w, WORK),
                               OCL_BUFFER_ARG(w, WORDS), OCL_BUFFER_ARG(w, MORE_PARTIALS),
                               OCL_UINT(w->params->features), OCL_BUFFER_ARG(w, BANDS),
                               OCL_BUFFER_ARG(w, MAPS), OCL_LONG(map_plane), OCL_INT(w->g.nx))
                   : TC_OK;
}

/* Copies the statistics of n chunks from the device to host_partials, host_more, host_counts and
 * host_bands. */
static tc_status read_statistics(cl_worker *w, uint64_t n, tc_err *err)
{
    const size_t groups = (size_t)(n * w->groups_per_chunk);
    return_if_error(ocl_download(&w->ocl, PARTIALS, 0, w->host_partials,
                                 groups * GLCM_FEATURES * sizeof *w->host_partials, err));

    if (w->more)
        return_if_error(ocl_download(&w->ocl, MORE_PARTIALS, 0, w->host_more,
                                     groups * GLCM_MORE_FEATURES * sizeof *w->host_more, err));
    return_if_error(
        ocl_download(&w->ocl, COUNTS, 0, w->host_counts, groups * sizeof *w->host_counts, err));
    return ocl_download(&w->ocl, BANDS, 0, w->host_bands, (size_t)n * sizeof *w->host_bands, err);
}

/* Adds the statistics of n chunks, from number `first` of the item on, to the worker's state. */
static void add_statistics(const cl_worker *w, uint64_t first, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t windows = (uint64_t)w->host_work[i].columns * (uint64_t)w->host_work[i].rows;
        const size_t at = (size_t)(i * w->groups_per_chunk);
        glcm_chunk chunk;
        size_t entry;

        glcm_chunk_at(&w->g, first + i, &chunk);
        entry = chunk.level * w->params->n_offsets + chunk.offset;
        glcm_bands_merge(glcm_state_bands(w->params, w->state), &w->host_bands[i]);
        for (size_t k = 0; k * GLCM_GROUP_WINDOWS < windows; k++) {
            glcm_stat stat = { .windows = w->host_counts[at + k] };

            memcpy(stat.feature, w->host_partials + (at + k) * GLCM_FEATURES, sizeof stat.feature);
            glcm_stat_merge(&glcm_state_stats(w->state)[entry], &stat);
            if (w->more) {
                glcm_more_stat more;

                memcpy(more.feature, w->host_more + (at + k) * GLCM_MORE_FEATURES,
                       sizeof more.feature);
                glcm_more_stat_merge(&glcm_state_more(w->params, w->state)[entry], &more);
            }
        }
    }
}

/* Ends a launch that processed a part of a chunk, adds the launch's device time (ms) to *took, and
 * calls work->poll. If the poll stops the work, the whole chunk is processed again later. work: the
 * amount of work of the launch, in the unit of the pace. */
static tc_status end_part(cl_worker *w, tc_status status, ocl_pace *pace, uint64_t work,
                          double *took, tc_err *err)
{
    status = ocl_end_launch(&w->ocl, status, pace, work, err);
    *took += w->ocl.took_ms;
    return status == TC_OK ? tc_call_poll(w->ocl.work->poll, err) : status;
}

/* Slides over the chunk of host_work[0]. A launch processes all segments of the rows of one or more
 * work-groups, or some segments of one work-group's rows. Adds the device time (ms) to *took. */
static tc_status slide_parts(cl_worker *w, size_t level, double *took, tc_err *err)
{
    const size_t items = w->group[level], rows = (size_t)w->host_work[0].rows,
                 groups = (rows + items - 1) / items;
    const size_t segment = segment_size(w, level, 1), segments = segment_count(w, segment);
    ocl_pace *const pace = &w->slides[level];
    const uint32_t only = 0; /* the list of chunks, which contains only host_work[0] */
    return_if_error(ocl_upload(&w->ocl, CHUNKS, 0, &only, sizeof only, err));

    for (size_t group = 0, n_groups = 1; group < groups; group += n_groups)
        for (size_t at = 0, n = segments; at < segments; at += n) {
            /* allowed: the number of work-groups that the pace allows; each processes one segment
             * of `items` rows. whole: for how many groups of rows that is enough with all segments.
             */
            const uint64_t allowed = ocl_pace_next(pace, pace->max_work),
                           whole = allowed / segments;
            ocl_grid grid;

            n_groups = at > 0 || whole < 1 ? 1 : (size_t)tc_smaller(whole, groups - group);
            n = (size_t)tc_smaller(whole < 1 ? allowed : segments, segments - at);
            grid = ocl_grid_of(items, n_groups * items, n, 1);
            grid.start[0] = group * items;
            grid.start[1] = at;
            /* If only the rounding to whole rows of work-groups made the launch smaller than the
             * pace allowed, the launch counts as all of that work, so that the pace can grow. */
            return_if_error(end_part(w, queue_slides(w, level, 0, segment, grid, err), pace,
                                     at == 0 && n_groups == whole ? allowed : n_groups * n, took,
                                     err));
        }
    return TC_OK;
}

/* Computes the statistics of the chunk of host_work[0], in several launches. Adds the device time
 * (ms) to *took. */
static tc_status feature_parts(cl_worker *w, double *took, tc_err *err)
{
    for (size_t at = 0, n_groups; at < w->groups_per_chunk; at += n_groups) {
        n_groups = (size_t)ocl_pace_next(&w->features, w->groups_per_chunk - at);
        return_if_error(end_part(w, launch_statistics(w, 1, at, n_groups, err), &w->features,
                                 n_groups, took, err));
    }
    return TC_OK;
}

/* Sets w->divided. Also records it for the job's next item, in the growth of w->pace: 0 means that
 * chunks are divided (begin_paces reads it). */
static void set_divided(cl_worker *w, bool divided)
{
    w->divided = divided;
    w->fitting = 0;
    if (w->pace.growth != NULL)
        *w->pace.growth = divided ? 0 : (double)w->pace.next_work / w->pace.first;
}

/* Processes chunk number `first` of the item in several launches. */
static tc_status slide_divided(cl_worker *w, uint64_t first, tc_err *err)
{
    double took = 0;
    glcm_chunk chunk;

    glcm_chunk_at(&w->g, first, &chunk);
    return_if_error(slide_parts(w, chunk.level, &took, err));
    return_if_error(feature_parts(w, &took, err));
    /* If n_levels chunks in succession, one of each level, would each have fitted one launch, the
     * next chunks are not divided. */
    w->fitting = took <= w->pace.target_ms ? w->fitting + 1 : 0;
    if (w->fitting == w->params->n_levels)
        set_divided(w, false);
    return TC_OK;
}

/* Processes a batch of n whole chunks. */
static tc_status slide_whole(cl_worker *w, uint64_t n, tc_err *err)
{
    tc_status status = launch_slides(w, n, err);

    if (status == TC_OK)
        status = launch_statistics(w, n, 0, w->groups_per_chunk, err);
    status = ocl_end_launch(&w->ocl, status, &w->pace, n, err);
    if (status == TC_OK && n == 1 && w->ocl.took_ms > w->pace.target_ms)
        set_divided(w, true);
    return status;
}

/* Processes n chunks from number `first` of the item on, and adds their statistics to the state. */
static tc_status slide_batch(cl_worker *w, uint64_t first, uint64_t n, tc_err *err)
{
    memset(w->host_bands, 0, (size_t)n * sizeof *w->host_bands);
    return_if_error(
        ocl_upload(&w->ocl, BANDS, 0, w->host_bands, (size_t)n * sizeof *w->host_bands, err));

    return_if_error(w->divided ? slide_divided(w, first, err) : slide_whole(w, n, err));
    return_if_error(read_statistics(w, n, err));
    add_statistics(w, first, n);
    return TC_OK;
}

/* --- a batch of whole-ROI matrices ----------------------------------------------------------- */

/* Counts the pairs of n matrices, row by row of the ROI's pixels. If n > 1, one launch counts all
 * rows of all matrices. */
static tc_status count_rows(cl_worker *w, uint64_t n, tc_err *err)
{
    const size_t rows = (size_t)w->host_work[0].rows, columns = (size_t)w->host_work[0].columns;
    double took = 0;

    for (size_t row = 0, n_rows; row < rows; row += n_rows) {
        n_rows = n > 1 ? rows : (size_t)ocl_pace_next(&w->pace, rows - row);
        const ocl_grid grid = { .global = { n_rows, columns, (size_t)n }, .start = { row } };

        /* Several matrices are only counted as a whole. If one more matrix would have exceeded what
         * the pace allows, the launch is recorded as all the work that was allowed, so that the
         * pace can grow. */
        return_if_error(end_part(
            w,
            OCL_QUEUE(w, COUNT, grid, err, OCL_BUFFER_ARG(w, WORK), OCL_BUFFER_ARG(w, PLANES),
                      OCL_BUFFER_ARG(w, ROI), OCL_BUFFER_ARG(w, MATRICES), OCL_UINT(MATRIX)),
            &w->pace,
            n > 1 && n_rows * (n + 1) > w->pace.next_work ? w->pace.next_work : n_rows * n, &took,
            err));
    }
    return TC_OK;
}

/* Processes n chunks of whole-ROI matrices from number `first` of the item on. The host computes
 * the features from the matrices. */
static tc_status count_batch(cl_worker *w, uint64_t first, uint64_t n, tc_err *err)
{
    TC_AUTO(tc_log2_cache_destroy) tc_log2_cache *logs = tc_log2_cache_create();
    return_if_error(logs == NULL ? tc_no_memory(err, "glcm")
                                 : ocl_zero_buffer(w->ocl.device, &w->ocl.buffer[MATRICES], err));

    return_if_error(count_rows(w, n, err));
    return_if_error(ocl_download(&w->ocl, MATRICES, 0, w->host_counts,
                                 (size_t)n * MATRIX * sizeof *w->host_counts, err));
    for (uint64_t i = 0; i < n; i++) {
        glcm_chunk chunk;

        glcm_chunk_at(&w->g, first + i, &chunk);
        const size_t entry = chunk.level * w->params->n_offsets + chunk.offset;

        glcm_add_matrix(w->host_counts + i * MATRIX, w->params->levels[chunk.level], &w->tables,
                        logs, &glcm_state_stats(w->state)[entry],
                        w->params->has_more_features ? &glcm_state_more(w->params, w->state)[entry]
                                                     : NULL);
    }
    return TC_OK;
}

/* --- the backend ----------------------------------------------------------------------------- */

static void free_worker(void *worker)
{
    cl_worker *const w = worker;

    free(w->state);
    free(w->lenses);
    free(w->first_move);
    free(w->host_work);
    free(w->host_chunks);
    free(w->host_partials);
    free(w->host_more);
    free(w->host_counts);
    free(w->host_bands);
    glcm_tables_free(&w->tables);
}

/* Initialises the paces. Sets w->divided if a chunk has more work than FIRST_MOVES and no earlier
 * item of the job has shown that a launch can process a whole chunk. A first launch processes at
 * least as many chunks (or work-groups, if `divided`) as there are compute units: as these run at
 * the same time, that many chunks take no longer than one. */
static void begin_paces(cl_worker *w)
{
    const glcm_params *const p = w->params;
    const double moves = (double)(w->first_move[p->n_offsets] + 1) / (double)p->n_offsets;
    const double first_chunks = FIRST_MOVES / (moves * (double)w->chunk_windows),
                 units = (double)w->ocl.device->info.compute_units;

    ocl_pace_begin(&w->ocl, &w->pace, first_chunks > units ? first_chunks : units, w->most);
    w->pace.even_units = true;
    w->divided = first_chunks < 1 && (w->pace.growth == NULL || *w->pace.growth <= 0);
    ocl_pace_begin(&w->ocl, &w->features, units, w->groups_per_chunk);
    for (size_t i = 0; i < p->n_levels; i++) {
        const size_t groups = (w->chunk_rows + w->group[i] - 1) / w->group[i],
                     segment = segment_size(w, i, 1);
        const double first_groups = FIRST_MOVES / (moves * (double)(w->group[i] * segment));

        ocl_pace_begin(&w->ocl, &w->slides[i], first_groups > units ? first_groups : units,
                       groups * segment_count(w, segment));
    }
}

static tc_status open_worker(void *worker, const void *state, tc_err *err)
{
    cl_worker *const w = worker;
    const an_work *const work = w->ocl.work;
    const glcm_params *const p = w->params = work->params;
    const size_t maps_at = glcm_state_maps_at(p);

    return_if_error(glcm_geometry_init(work, &w->g, err));
    w->more = p->has_more_features && !whole_roi(w);
    w->words = GLCM_WORDS + (w->more ? GLCM_MORE_FEATURES : 0);
    if (w->more && !w->ocl.device->info.doubles)
        return tc_fail(err, TC_TOO_LARGE,
                       "%s %s double precision, which features beyond Haralick's 13 need",
                       w->ocl.device->info.name, ocl_describe_no_doubles(&w->ocl.device->info));
    w->slice = UINT32_MAX;
    w->state = malloc(maps_at);
    if (w->state == NULL)
        return tc_no_memory(err, "glcm");
    memcpy(w->state, state, maps_at);
    return_if_error(glcm_tables_init(w->g.fbits, w->g.max_pairs, &w->tables, err));
    return_if_error(make_lenses(w, err));
    make_crops(w);
    w->narrow = use_narrow(w);
    choose_groups(w);
    measure_chunks(w);
    return_if_error(make_kernels(w, err));
    w->most = choose_batch(w);
    if (whole_roi(w))
        ocl_pace_begin(&w->ocl, &w->pace, (double)FIRST_PIXELS / (double)w->chunk_columns,
                       w->most * w->chunk_rows);
    else
        begin_paces(w);
    return_if_error(make_buffers(w, (const unsigned char *)state + maps_at,
                                 work->plan.state_bytes - maps_at, err));
    return make_host_memory(w, err);
}

static const ocl_launcher launcher = { "glcm", sizeof(cl_worker), open_worker, free_worker };

static tc_status cl_open(const an_work *work, const void *state, void **worker, tc_err *err)
{
    return ocl_worker_open(&launcher, work, state, worker, err);
}

/* Processes a batch: whole chunks of one slice, or one chunk if w->divided. */
static tc_status cl_step(void *worker, void *state, uint64_t *chunks_done, tc_err *err)
{
    cl_worker *const w = worker;
    an_state_head *const head = (an_state_head *)(void *)w->state;
    const uint64_t done = head->chunks_done, per_slice = w->g.chunks / w->g.nz;
    glcm_chunk chunk;
    uint64_t n;

    (void)state;
    *chunks_done = done;
    if (done >= w->g.chunks)
        return TC_OK;
    n = per_slice - done % per_slice;
    if (whole_roi(w))
        n = ocl_pace_next(&w->pace, tc_smaller(n, w->most) * w->chunk_rows) / w->chunk_rows;
    else
        n = w->divided ? 1 : ocl_pace_next(&w->pace, n);
    n = n > 0 ? n : 1;
    for (uint64_t i = 0; i < n; i++)
        describe_chunk(w, done + i, i, &chunk);
    if (chunk.slice != w->slice)
        return_if_error(load_slice(w, chunk.slice, err));
    return_if_error(
        ocl_upload(&w->ocl, WORK, 0, w->host_work, (size_t)n * sizeof *w->host_work, err));
    return_if_error(whole_roi(w) ? count_batch(w, done, n, err) : slide_batch(w, done, n, err));
    head->chunks_done = done + n;
    *chunks_done = head->chunks_done;
    return head->chunks_done == w->g.chunks ? TC_OK : TC_MORE;
}

static tc_status cl_sync(void *worker, void *state, tc_err *err)
{
    cl_worker *const w = worker;
    const size_t at = glcm_state_maps_at(w->params);
    const ocl_part maps = { MAPS, w->ocl.work->plan.state_bytes - at, (unsigned char *)state + at };
    return_if_error(ocl_download_parts(&w->ocl, &maps, 1, false, err));
    memcpy(state, w->state, at);
    return TC_OK;
}

const an_backend ocl_glcm = {
    .name = "opencl", .open = cl_open, .step = cl_step, .sync = cl_sync, .close = ocl_worker_close
};
