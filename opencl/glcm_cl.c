/*
 * glcm on an OpenCL device: buffers and launches. The arithmetic is in
 * app/analysis/glcm/core.h, the kernels in opencl/kernels/glcm.cl.
 *
 * A step takes a batch of units: for each entry of levels one launch of
 * glcm_slide over its units of the batch, then one of glcm_statistics over all.
 * What comes back is the statistics of each unit, which the host adds to its
 * own copy of the state. Maps stay on the device until a sync, which brings the
 * two together: the caller's state never holds half of what was done.
 */
#include <stdlib.h>
#include <string.h>

#include "app/analysis/glcm/glcm.h"
#include "opencl/backends.h"
#include "app/analysis/glcm/layout.h"
#include "opencl/program.h"

extern const ocl_source ocl_source_glcm;

_Static_assert(sizeof(glcm_partial) == sizeof(glcm_moments), "the kernels' statistics are the state's");
_Static_assert(sizeof(glcm_work) % 8 == 0, "arrays of glcm_work have no holes");

enum {
    MAX_BATCH = 4096,           /* units of a step */
    MAX_GROUP = 64              /* work-items of a sliding group */
};

/* A crop of the slice in one orientation: see glcm_layout.h. */
typedef struct crop {
    int64_t x0, y0;             /* its first pixel in the view */
    int64_t columns, rows;
} crop;

typedef struct cl_worker {
    const an_task *task;
    const glcm_params *params;
    ocl_device *device;
    glcm_geometry g;
    glcm_tables tables;
    crop crop[2];
    size_t crop_pixels;         /* of one orientation */
    bool interior;              /* the crop lies within the picture */
    glcm_lens *lenses;          /* [n_offsets] */
    int64_t *first_move;        /* [n_offsets + 1] */
    size_t group[GLCM_MAX_LEVEL_COUNT];     /* work-items of a sliding group, by level */
    bool global_bins[GLCM_MAX_LEVEL_COUNT]; /* histograms in global memory */

    ocl_kernel slide, slide_global, statistics, map, count;
    ocl_buffer cell_steps, marginal_steps, difference, steps, divisors, f, f60, exp_table, moves;
    ocl_buffer planes, roi, work, units, words, bins, partials, counts, maps, matrices;

    unsigned char *state;       /* the copy that steps add to; its maps are as of the last sync */
    uint32_t slice;             /* whose planes are on the device; UINT32_MAX: none */
    ocl_slice pace;
    uint64_t most;              /* units that the buffers have room for */
    glcm_work *host_work;       /* [most] */
    uint32_t *host_units;       /* [most] by level */
    glcm_moments *host_partials;
    uint32_t *host_counts;
    uint32_t groups_per_unit;
    uint64_t unit_windows;      /* the most of any unit */
} cl_worker;

/* --- tables and moves ------------------------------------------------------------- */

/* Makes a buffer with this content. */
static tc_status upload(cl_worker *w, const void *data, size_t bytes, const char *what, ocl_buffer *buffer,
                        tc_err *err)
{
    tc_status st = ocl_buffer_new(w->device, bytes, CL_MEM_READ_ONLY, what, buffer, err);

    return st == TC_OK ? ocl_write(w->device, buffer, 0, data, bytes, err) : st;
}

static tc_status upload_tables(cl_worker *w, tc_err *err)
{
    const glcm_tables *const t = &w->tables;
    const size_t n = t->max_pairs;
    uint64_t difference[GLCM_MAX_LEVELS][2];
    tc_status st = upload(w, t->cell_step, t->nowhere * sizeof *t->cell_step, "tables", &w->cell_steps, err);

    if (st == TC_OK)
        st = upload(w, t->marginal_step, (2 * n + 1) * sizeof *t->marginal_step, "tables", &w->marginal_steps, err);
    if (st == TC_OK)
        st = upload(w, t->step, (2 * n + 1) * sizeof *t->step, "tables", &w->steps, err);

    for (uint64_t d = 0; d < GLCM_MAX_LEVELS; d++) {
        difference[d][0] = d | (d * d) << GLCM_PACK_SHIFT;
        difference[d][1] = t->idm[d] | (uint64_t)1 << GLCM_N_SHIFT;
    }
    if (st == TC_OK)
        st = upload(w, difference, sizeof difference, "tables", &w->difference, err);
    if (st == TC_OK)
        st = upload(w, t->divisors, (n + 1) * sizeof *t->divisors, "tables", &w->divisors, err);
    if (st == TC_OK)
        st = upload(w, t->f, (2 * n + 1) * sizeof *t->f, "tables", &w->f, err);
    if (st == TC_OK)
        st = upload(w, t->f60, (2 * n + 1) * sizeof *t->f60, "tables", &w->f60, err);
    if (st == TC_OK)
        st = upload(w, t->exp_table, GLCM_EXP_SIZE * sizeof *t->exp_table, "tables", &w->exp_table, err);
    return st;
}

static tc_status make_lenses(cl_worker *w, tc_err *err)
{
    const glcm_params *const p = w->params;

    w->lenses = calloc(p->n_offsets, sizeof *w->lenses);
    w->first_move = calloc(p->n_offsets + 1, sizeof *w->first_move);
    if (w->lenses == NULL || w->first_move == NULL)
        return tc_no_memory(err, "the offsets");
    for (size_t o = 0; o < p->n_offsets; o++) {
        if (p->window == GLCM_WHOLE_ROI)
            w->lenses[o] = (glcm_lens){ .dx = p->offsets[o].dx, .dy = p->offsets[o].dy };
        else
            glcm_lens_init(p, &p->offsets[o], &w->lenses[o]);
        w->first_move[o + 1] = w->first_move[o] + w->lenses[o].rows;
    }
    return TC_OK;
}

static tc_status upload_moves(cl_worker *w, tc_err *err)
{
    const size_t n = (size_t)w->first_move[w->params->n_offsets];
    glcm_move *const moves = calloc(n + 1, sizeof *moves);
    tc_status st;

    if (moves == NULL)
        return tc_no_memory(err, "the offsets");
    for (size_t o = 0; o < w->params->n_offsets; o++) {
        const glcm_lens *const lens = &w->lenses[o];
        const tc_i32 stride = (tc_i32)w->crop[lens->transposed].rows;

        for (int i = 0; i < lens->rows; i++)
            moves[w->first_move[o] + i] = (glcm_move){
                .leave = lens->lo[i] * stride + lens->row[i],
                .enter = (lens->hi[i] + 1) * stride + lens->row[i],
                .count = lens->hi[i] - lens->lo[i] + 1
            };
    }
    st = upload(w, moves, (n + 1) * sizeof *moves, "the offsets", &w->moves, err);
    free(moves);
    return st;
}

/* --- planes -------------------------------------------------------------------------- */

/* The ROI's bounding box with the margin that a window in it can reach. */
static void make_crops(cl_worker *w)
{
    int64_t margin = w->params->radius + 1;

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

/* Copies a plane [ny][nx] of the picture into a crop, column by column; its
 * part outside the picture becomes `outside`. */
static void crop_grey(const cl_worker *w, int turn, const uint8_t *plane, uint16_t *out)
{
    const crop *const c = &w->crop[turn];

    for (int64_t x = 0; x < c->columns; x++)
        for (int64_t y = 0; y < c->rows; y++) {
            const int64_t px = turn ? c->y0 + y : c->x0 + x, py = turn ? c->x0 + x : c->y0 + y;
            const bool in = px >= 0 && px < w->g.nx && py >= 0 && py < w->g.ny;

            out[x * c->rows + y] = in ? plane[py * w->g.nx + px] : GLCM_OUTSIDE;
        }
}

static void crop_roi(const cl_worker *w, int turn, const uint8_t *plane, uint8_t *out)
{
    const crop *const c = &w->crop[turn];

    for (int64_t x = 0; x < c->columns; x++)
        for (int64_t y = 0; y < c->rows; y++) {
            const int64_t px = turn ? c->y0 + y : c->x0 + x, py = turn ? c->x0 + x : c->y0 + y;
            const bool in = px >= 0 && px < w->g.nx && py >= 0 && py < w->g.ny;

            out[x * c->rows + y] = in ? plane[py * w->g.nx + px] : 0;
        }
}

/* Brings a slice's planes to the device. */
static tc_status load_slice(cl_worker *w, uint32_t slice, tc_err *err)
{
    const size_t plane = (size_t)w->g.nx * w->g.ny, n = w->crop_pixels, levels = w->params->n_levels;
    uint8_t *const full = malloc(plane);
    uint16_t *const grey = malloc(2 * levels * n * sizeof *grey);
    uint8_t *const roi = malloc(2 * n);
    tc_status st = TC_OK;

    if (full == NULL || grey == NULL || roi == NULL) {
        st = tc_no_memory(err, "glcm");
        goto end;
    }
    for (size_t i = 0; i < levels; i++) {
        glcm_quantise(&w->g, w->task->pixels, slice, w->params->levels[i], full);
        crop_grey(w, 0, full, grey + 2 * i * n);
        crop_grey(w, 1, full, grey + (2 * i + 1) * n);
    }
    glcm_roi_plane(&w->g, slice, full);
    crop_roi(w, 0, full, roi);
    crop_roi(w, 1, full, roi + n);
    st = ocl_write(w->device, &w->planes, 0, grey, 2 * levels * n * sizeof *grey, err);
    if (st == TC_OK)
        st = ocl_write(w->device, &w->roi, 0, roi, 2 * n, err);
    if (st == TC_OK)
        w->slice = slice;
end:
    free(full);
    free(grey);
    free(roi);
    return st;
}

/* --- buffers and kernels ----------------------------------------------------------------- */

static size_t bins_of(unsigned levels)
{
    return (size_t)4 * levels + (size_t)levels * (levels + 1) / 2;
}

/* Whether the work-items of a group run one after another: on a CPU. Oclgrind,
 * which says it is a CPU and a GPU, is to see what a GPU does. */
static bool runs_in_turn(const ocl_device *device)
{
    return (device->info.type & (CL_DEVICE_TYPE_CPU | CL_DEVICE_TYPE_GPU)) == CL_DEVICE_TYPE_CPU;
}

/* How many work-items a sliding group has: as many histograms as fit in local
 * memory, or a small group with histograms in global memory. */
static void choose_groups(cl_worker *w)
{
    const bool cpu = runs_in_turn(w->device);
    /* A driver may need some local memory of its own. */
    const size_t local = (size_t)(w->device->info.local_bytes < (48 << 10) ? w->device->info.local_bytes : 48 << 10) - 256;

    for (size_t i = 0; i < w->params->n_levels; i++) {
        size_t items = local / (bins_of(w->params->levels[i]) * sizeof(uint16_t));

        w->global_bins[i] = items < (cpu ? 1 : 2);
        if (w->global_bins[i])
            items = 32;
        if (items > 32 && items < MAX_GROUP)
            items = 32;
        items = items > MAX_GROUP ? MAX_GROUP : items;
        items = items > w->device->info.max_group ? w->device->info.max_group : items;
        w->group[i] = cpu ? 1 : items;
    }
}

static tc_status make_kernels(cl_worker *w, tc_err *err)
{
    const bool single = runs_in_turn(w->device);
    cl_program program = NULL;
    bool any_global = false;
    tc_status st = ocl_program_build(w->device, &ocl_source_glcm, single ? "-DGLCM_SINGLE" : NULL, false,
                                     &program, err);

    if (st == TC_OK)
        st = ocl_kernel_new(w->device, program, "glcm_slide", &w->slide, err);
    if (st == TC_OK)
        st = ocl_kernel_new(w->device, program, "glcm_statistics", &w->statistics, err);
    if (st == TC_OK)
        st = ocl_kernel_new(w->device, program, "glcm_maps", &w->map, err);
    if (st == TC_OK)
        st = ocl_kernel_new(w->device, program, "glcm_count", &w->count, err);
    ocl_program_free(w->device, &program);
    for (size_t i = 0; i < w->params->n_levels; i++) {
        any_global = any_global || w->global_bins[i];
        if (w->group[i] > w->slide.max_group && w->slide.max_group > 0)
            w->group[i] = w->slide.max_group;
    }
    if (st != TC_OK || !any_global || w->params->window == GLCM_WHOLE_ROI)
        return st;
    st = ocl_program_build(w->device, &ocl_source_glcm, single ? "-DGLCM_GLOBAL_BINS -DGLCM_SINGLE" : "-DGLCM_GLOBAL_BINS", false,
                           &program, err);
    if (st == TC_OK)
        st = ocl_kernel_new(w->device, program, "glcm_slide", &w->slide_global, err);
    ocl_program_free(w->device, &program);
    return st;
}

/* Work-items of one unit's launch with histograms in global memory. */
static uint64_t global_bin_items(const cl_worker *w, size_t level)
{
    const glcm_view *const v = &w->g.view[0];
    const uint64_t side = (uint64_t)(v->x1 - v->x0 > v->y1 - v->y0 ? v->x1 - v->x0 : v->y1 - v->y0);
    const uint64_t segments = (side + GLCM_SEGMENT - 1) / GLCM_SEGMENT;

    return ocl_round_up(side, w->group[level]) * segments;
}

/* Most bytes that a unit takes in the buffers of a batch. */
static uint64_t unit_bytes(const cl_worker *w)
{
    uint64_t bins = 0;

    if (w->params->window == GLCM_WHOLE_ROI)
        return (uint64_t)GLCM_MAX_LEVELS * GLCM_MAX_LEVELS * sizeof(uint32_t) + sizeof(glcm_work);
    for (size_t i = 0; i < w->params->n_levels; i++) {
        const uint64_t bytes = w->global_bins[i] ? global_bin_items(w, i) * bins_of(w->params->levels[i]) * 2 : 0;

        bins = bytes > bins ? bytes : bins;
    }
    return w->unit_windows * GLCM_WORDS * sizeof(uint64_t) + bins + sizeof(glcm_work) + 4
         + w->groups_per_unit * (GLCM_FEATURES * sizeof(glcm_partial) + sizeof(uint32_t));
}

/* Windows of the largest unit, in either orientation. */
static void measure_units(cl_worker *w)
{
    for (int turn = 0; turn < 2; turn++) {
        const glcm_view *const v = &w->g.view[turn];

        for (uint32_t band = 0; band < w->g.bands; band++) {
            int64_t y0, y1;
            uint64_t windows;

            glcm_band_rows(&w->g, v, band, &y0, &y1);
            windows = (uint64_t)(v->x1 - v->x0) * (uint64_t)(y1 - y0);
            w->unit_windows = windows > w->unit_windows ? windows : w->unit_windows;
        }
    }
    w->groups_per_unit = (uint32_t)((w->unit_windows + GLCM_GROUP_WINDOWS - 1) / GLCM_GROUP_WINDOWS);
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Units of a batch: what there is, what the memory holds, what one buffer may. */
static uint64_t choose_most(const cl_worker *w)
{
    const uint64_t each = unit_bytes(w);
    const uint64_t fixed = w->crop_pixels * (4 * w->params->n_levels + 2) + w->params->n_maps * sizeof(float)
                           * (uint64_t)w->g.nx * w->g.ny * w->g.nz + ((uint64_t)8 << 20);
    const uint64_t limit = w->device->memory_limit > fixed ? (w->device->memory_limit - fixed) / 2 : 0;
    uint64_t most = least(w->g.units / w->g.nz, MAX_BATCH);

    /* More than this serves no device. */
    most = least(most, least(limit, (uint64_t)2 << 30) / each);
    most = least(most, w->device->info.max_alloc_bytes / each);
    /* A CPU's caches should hold what one kernel leaves for the next. */
    if (runs_in_turn(w->device))
        most = least(most, (uint64_t)w->params->n_levels * w->device->info.compute_units);
    return most < 1 ? 1 : most;
}

static tc_status make_buffers(cl_worker *w, tc_err *err)
{
    ocl_device *const d = w->device;
    const uint64_t n = w->most;
    const size_t groups = (size_t)(n * w->groups_per_unit);
    const size_t map_bytes = w->params->n_maps * w->g.nx * (size_t)w->g.ny * w->g.nz * sizeof(float);
    size_t bins = 1;
    tc_status st;

    for (size_t i = 0; i < w->params->n_levels; i++)
        if (w->global_bins[i]) {
            const size_t bytes = (size_t)(global_bin_items(w, i) * n) * bins_of(w->params->levels[i]) * 2;

            bins = bytes > bins ? bytes : bins;
        }
    st = ocl_buffer_new(d, 2 * w->params->n_levels * w->crop_pixels * sizeof(uint16_t), CL_MEM_READ_ONLY,
                        "the picture", &w->planes, err);
    if (st == TC_OK)
        st = ocl_buffer_new(d, 2 * w->crop_pixels, CL_MEM_READ_ONLY, "the picture", &w->roi, err);
    if (st == TC_OK)
        st = ocl_buffer_new(d, (size_t)n * sizeof(glcm_work), CL_MEM_READ_ONLY, "the units", &w->work, err);
    if (st == TC_OK && w->params->window == GLCM_WHOLE_ROI)
        return ocl_buffer_new(d, (size_t)n * GLCM_MAX_LEVELS * GLCM_MAX_LEVELS * sizeof(uint32_t),
                              CL_MEM_READ_WRITE, "the matrices", &w->matrices, err);
    if (st == TC_OK)
        st = ocl_buffer_new(d, (size_t)n * sizeof(uint32_t), CL_MEM_READ_ONLY, "the units", &w->units, err);
    if (st == TC_OK)
        st = ocl_buffer_new(d, (size_t)(n * w->unit_windows) * GLCM_WORDS * sizeof(uint64_t), CL_MEM_READ_WRITE,
                            "the sums", &w->words, err);
    if (st == TC_OK)
        st = ocl_buffer_new(d, bins, CL_MEM_READ_WRITE, "the histograms", &w->bins, err);
    if (st == TC_OK)
        st = ocl_buffer_new(d, groups * GLCM_FEATURES * sizeof(glcm_partial), CL_MEM_WRITE_ONLY,
                            "the statistics", &w->partials, err);
    if (st == TC_OK)
        st = ocl_buffer_new(d, groups * sizeof(uint32_t), CL_MEM_WRITE_ONLY, "the statistics", &w->counts, err);
    if (st == TC_OK)
        st = ocl_buffer_new(d, map_bytes > 0 ? map_bytes : sizeof(float), CL_MEM_READ_WRITE, "the maps",
                            &w->maps, err);
    return st;
}

static tc_status make_host_memory(cl_worker *w, tc_err *err)
{
    const size_t n = (size_t)w->most, groups = n * w->groups_per_unit;
    const size_t matrices = w->params->window == GLCM_WHOLE_ROI
                          ? n * GLCM_MAX_LEVELS * GLCM_MAX_LEVELS : 1;

    w->host_work = calloc(n, sizeof *w->host_work);
    w->host_units = calloc(n, sizeof *w->host_units);
    w->host_partials = calloc(groups + 1, GLCM_FEATURES * sizeof *w->host_partials);
    w->host_counts = calloc(groups + 1 > matrices ? groups + 1 : matrices, sizeof *w->host_counts);
    if (w->host_work == NULL || w->host_units == NULL || w->host_partials == NULL || w->host_counts == NULL)
        return tc_no_memory(err, "glcm");
    return TC_OK;
}

/* --- one batch ------------------------------------------------------------------------------ */

static void find_maps(const cl_worker *w, const glcm_unit *unit, glcm_work *work)
{
    for (int f = 0; f < GLCM_FEATURES; f++)
        work->map[f] = -1;
    for (size_t i = 0; i < w->params->n_maps; i++) {
        const glcm_map *const m = &w->params->maps[i];

        if (m->offset == unit->offset && m->level == unit->level)
            work->map[m->feature] = (tc_i32)(i * w->g.nz + unit->slice);
    }
}

static void describe_unit(const cl_worker *w, uint64_t index, uint64_t place, glcm_unit *unit)
{
    glcm_work *const work = &w->host_work[place];
    const glcm_lens *lens;
    const glcm_view *v;
    const crop *c;
    int64_t y0, y1, at;

    glcm_unit_at(&w->g, index, unit);
    lens = &w->lenses[unit->offset];
    v = &w->g.view[lens->transposed];
    c = &w->crop[lens->transposed];
    glcm_band_rows(&w->g, v, unit->band, &y0, &y1);
    at = (v->x0 - c->x0) * c->rows + (y0 - c->y0);
    *work = (glcm_work){
        .plane = (tc_i64)((2 * unit->level + lens->transposed) * w->crop_pixels) + at,
        .roi = (tc_i64)(lens->transposed * w->crop_pixels) + at,
        .words = (tc_i64)(place * w->unit_windows * GLCM_WORDS),
        .stride = (tc_i32)c->rows,
        .partner = (tc_i32)(lens->dx * c->rows + lens->dy),
        .columns = (tc_i32)(v->x1 - v->x0),
        .rows = (tc_i32)(y1 - y0),
        .first_move = (tc_i32)w->first_move[unit->offset],
        .moves = lens->rows,
        .levels = w->params->levels[unit->level],
        .partial = (tc_i32)(place * w->groups_per_unit),
        .transposed = lens->transposed,
        .interior = w->interior,
        .map_x0 = (tc_i32)(lens->transposed ? y0 : v->x0),
        .map_y0 = (tc_i32)(lens->transposed ? v->x0 : y0)
    };
    find_maps(w, unit, work);
}

static tc_status launch_slides(cl_worker *w, uint64_t n, ocl_batch *batch, tc_err *err)
{
    const glcm_view *const v = &w->g.view[0];
    const size_t side = (size_t)(v->x1 - v->x0 > v->y1 - v->y0 ? v->x1 - v->x0 : v->y1 - v->y0);
    const size_t segments = (side + GLCM_SEGMENT - 1) / GLCM_SEGMENT;
    size_t rows = 0;
    uint32_t listed = 0, first[GLCM_MAX_LEVEL_COUNT + 1] = { 0 };
    tc_status st;

    /* The units of each level, one level after another. */
    for (size_t level = 0; level < w->params->n_levels; level++) {
        first[level] = listed;
        for (uint64_t i = 0; i < n; i++)
            if (w->host_work[i].levels == w->params->levels[level])
                w->host_units[listed++] = (uint32_t)i;
    }
    first[w->params->n_levels] = listed;
    for (uint64_t i = 0; i < n; i++)
        rows = (size_t)w->host_work[i].rows > rows ? (size_t)w->host_work[i].rows : rows;
    st = ocl_write(w->device, &w->units, 0, w->host_units, listed * sizeof *w->host_units, err);
    for (size_t level = 0; st == TC_OK && level < w->params->n_levels; level++) {
        const size_t items = w->group[level];
        const size_t bytes = items * bins_of(w->params->levels[level]) * sizeof(uint16_t);
        const size_t local[3] = { items, 1, 1 };
        const size_t global[3] = { ocl_round_up(rows, items), segments, first[level + 1] - first[level] };
        const ocl_kernel *const kernel = w->global_bins[level] ? &w->slide_global : &w->slide;
        ocl_arg args[] = {
            OCL_BUFFER(w->work), OCL_BUFFER(w->units), OCL_ARG(first[level]), OCL_BUFFER(w->planes),
            OCL_BUFFER(w->roi), OCL_BUFFER(w->moves), OCL_BUFFER(w->cell_steps), OCL_BUFFER(w->marginal_steps),
            OCL_BUFFER(w->difference), OCL_BUFFER(w->steps), OCL_ARG(w->tables.diagonal), OCL_BUFFER(w->words),
            OCL_LOCAL(bytes)
        };

        if (global[2] == 0)
            continue;
        if (w->global_bins[level])
            args[12] = (ocl_arg)OCL_BUFFER(w->bins);
        st = ocl_set_args(w->device, kernel, args, sizeof args / sizeof args[0], err);
        if (st == TC_OK)
            st = ocl_launch(w->device, kernel, 3, NULL, global, local, batch, err);
    }
    return st;
}

static tc_status launch_statistics(cl_worker *w, uint64_t n, ocl_batch *batch, tc_err *err)
{
    const size_t local[2] = { GLCM_GROUP, 1 };
    const size_t global[2] = { (size_t)w->groups_per_unit * GLCM_GROUP, (size_t)n };
    const tc_i32 fbits = w->tables.fbits;
    const ocl_arg args[] = {
        OCL_BUFFER(w->work), OCL_BUFFER(w->words), OCL_BUFFER(w->divisors), OCL_BUFFER(w->f), OCL_BUFFER(w->f60),
        OCL_ARG(fbits), OCL_BUFFER(w->exp_table), OCL_BUFFER(w->partials), OCL_BUFFER(w->counts)
    };
    tc_status st = ocl_set_args(w->device, &w->statistics, args, sizeof args / sizeof args[0], err);

    return st == TC_OK ? ocl_launch(w->device, &w->statistics, 2, NULL, global, local, batch, err) : st;
}

/* The maps of those units of the batch that have any. */
static tc_status launch_maps(cl_worker *w, uint64_t n, ocl_batch *batch, tc_err *err)
{
    const tc_i64 map_plane = (tc_i64)w->g.nx * w->g.ny;
    const tc_i32 map_width = (tc_i32)w->g.nx, fbits = w->tables.fbits;
    tc_status st = TC_OK;

    for (uint32_t i = 0; st == TC_OK && i < n; i++) {
        const glcm_work *const work = &w->host_work[i];
        const size_t global[2] = { (size_t)work->rows, (size_t)work->columns };
        const ocl_arg args[] = {
            OCL_BUFFER(w->work), OCL_ARG(i), OCL_BUFFER(w->words), OCL_BUFFER(w->divisors), OCL_BUFFER(w->f),
            OCL_BUFFER(w->f60), OCL_ARG(fbits), OCL_BUFFER(w->exp_table), OCL_BUFFER(w->maps),
            OCL_ARG(map_plane), OCL_ARG(map_width)
        };
        int maps = 0;

        for (int f = 0; f < GLCM_FEATURES; f++)
            maps += work->map[f] >= 0;
        if (maps == 0)
            continue;
        st = ocl_set_args(w->device, &w->map, args, sizeof args / sizeof args[0], err);
        if (st == TC_OK)
            st = ocl_launch(w->device, &w->map, 2, NULL, global, NULL, batch, err);
    }
    return st;
}

static tc_status read_statistics(cl_worker *w, uint64_t n, tc_err *err)
{
    const size_t groups = (size_t)(n * w->groups_per_unit);
    tc_status st = ocl_read(w->device, &w->partials, 0, w->host_partials,
                            groups * GLCM_FEATURES * sizeof *w->host_partials, err);

    return st == TC_OK ? ocl_read(w->device, &w->counts, 0, w->host_counts, groups * sizeof *w->host_counts, err)
                       : st;
}

/* Adds what came back to the state. */
static void add_statistics(const cl_worker *w, uint64_t first, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t windows = (uint64_t)w->host_work[i].columns * (uint64_t)w->host_work[i].rows;
        const size_t at = (size_t)(i * w->groups_per_unit);
        glcm_unit unit;

        glcm_unit_at(&w->g, first + i, &unit);
        for (size_t k = 0; k * GLCM_GROUP_WINDOWS < windows; k++) {
            glcm_stat stat = { .windows = w->host_counts[at + k] };

            memcpy(stat.feature, w->host_partials + (at + k) * GLCM_FEATURES, sizeof stat.feature);
            glcm_stat_merge(&glcm_state_stats(w->state)[unit.level * w->params->n_offsets + unit.offset], &stat);
        }
    }
}

static tc_status slide_batch(cl_worker *w, uint64_t first, uint64_t n, tc_err *err)
{
    ocl_batch batch = { 0 };
    double ms = 0;
    tc_status st = ocl_write(w->device, &w->work, 0, w->host_work, (size_t)n * sizeof *w->host_work, err);

    if (st == TC_OK)
        st = launch_slides(w, n, &batch, err);
    if (st == TC_OK)
        st = launch_statistics(w, n, &batch, err);
    if (st == TC_OK)
        st = launch_maps(w, n, &batch, err);
    if (st == TC_OK)
        st = ocl_batch_wait(w->device, &batch, w->pace.last_ms, &ms, err);
    ocl_batch_drop(w->device, &batch);
    if (st == TC_OK)
        st = read_statistics(w, n, err);
    if (st != TC_OK)
        return st;
    ocl_slice_took(&w->pace, n, ms);
    add_statistics(w, first, n);
    return TC_OK;
}

/* --- a batch of whole-ROI matrices ------------------------------------------------------------ */

/* From counts of unordered pairs, a <= b, to the symmetric matrix. */
static void add_matrix(const cl_worker *w, const glcm_unit *unit, const uint32_t *counts, uint64_t *matrix)
{
    const unsigned levels = w->params->levels[unit->level];
    int64_t feature[GLCM_FEATURES];

    for (unsigned a = 0; a < levels; a++)
        for (unsigned b = a; b < levels; b++) {
            const uint64_t c = counts[a * levels + b];

            matrix[a * levels + b] = a == b ? 2 * c : c;
            matrix[b * levels + a] = matrix[a * levels + b];
        }
    if (glcm_matrix_features(matrix, levels, &w->tables, feature))
        glcm_stat_add(&glcm_state_stats(w->state)[unit->level * w->params->n_offsets + unit->offset], feature);
}

static tc_status count_batch(cl_worker *w, uint64_t first, uint64_t n, tc_err *err)
{
    const uint32_t matrix_size = GLCM_MAX_LEVELS * GLCM_MAX_LEVELS;
    const size_t bytes = (size_t)n * matrix_size * sizeof(uint32_t);
    const size_t global[3] = { (size_t)w->host_work[0].rows, (size_t)w->host_work[0].columns, (size_t)n };
    const ocl_arg args[] = {
        OCL_BUFFER(w->work), OCL_BUFFER(w->planes), OCL_BUFFER(w->roi), OCL_BUFFER(w->matrices),
        OCL_ARG(matrix_size)
    };
    uint64_t *const matrix = malloc(matrix_size * sizeof *matrix);
    ocl_batch batch = { 0 };
    double ms = 0;
    tc_status st = matrix == NULL ? tc_no_memory(err, "glcm")
                 : ocl_write(w->device, &w->work, 0, w->host_work, (size_t)n * sizeof *w->host_work, err);

    if (st == TC_OK)
        st = ocl_zero(w->device, &w->matrices, err);
    if (st == TC_OK)
        st = ocl_set_args(w->device, &w->count, args, sizeof args / sizeof args[0], err);
    if (st == TC_OK)
        st = ocl_launch(w->device, &w->count, 3, NULL, global, NULL, &batch, err);
    if (st == TC_OK)
        st = ocl_batch_wait(w->device, &batch, w->pace.last_ms, &ms, err);
    ocl_batch_drop(w->device, &batch);
    if (st == TC_OK)
        st = ocl_read(w->device, &w->matrices, 0, w->host_counts, bytes, err);
    if (st == TC_OK) {
        ocl_slice_took(&w->pace, n, ms);
        for (uint64_t i = 0; i < n; i++) {
            glcm_unit unit;

            glcm_unit_at(&w->g, first + i, &unit);
            add_matrix(w, &unit, w->host_counts + i * matrix_size, matrix);
        }
    }
    free(matrix);
    return st;
}

/* --- the backend ---------------------------------------------------------------------------------- */

static void cl_close(void **worker)
{
    cl_worker *const w = *worker;
    ocl_device *d;

    *worker = NULL;
    if (w == NULL)
        return;
    d = w->device;
    ocl_buffer *const buffers[] = {
        &w->cell_steps, &w->marginal_steps, &w->difference, &w->steps, &w->divisors, &w->f, &w->f60, &w->exp_table,
        &w->moves, &w->planes, &w->roi, &w->work, &w->units, &w->words, &w->bins, &w->partials, &w->counts,
        &w->maps, &w->matrices
    };
    ocl_kernel *const kernels[] = { &w->slide, &w->slide_global, &w->statistics, &w->map, &w->count };

    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        ocl_buffer_free(d, buffers[i]);
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++)
        ocl_kernel_free(d, kernels[i]);
    free(w->state);
    free(w->lenses);
    free(w->first_move);
    free(w->host_work);
    free(w->host_units);
    free(w->host_partials);
    free(w->host_counts);
    glcm_tables_free(&w->tables);
    free(w);
}

static tc_status open_parts(cl_worker *w, const void *state, tc_err *err)
{
    const glcm_params *const p = w->params;
    const size_t map_bytes = w->task->plan.state_bytes - glcm_state_maps_at(p);
    tc_status st = glcm_geometry_init(w->task, &w->g, err);

    w->state = malloc(w->task->plan.state_bytes);
    if (w->state == NULL)
        return tc_no_memory(err, "glcm");
    memcpy(w->state, state, w->task->plan.state_bytes);
    if (st == TC_OK)
        st = glcm_tables_init(w->g.fbits, w->g.max_pairs, &w->tables, err);
    if (st == TC_OK)
        st = make_lenses(w, err);
    if (st != TC_OK)
        return st;
    make_crops(w);
    choose_groups(w);
    measure_units(w);
    st = make_kernels(w, err);
    if (st != TC_OK)
        return st;
    w->most = choose_most(w);
    ocl_slice_init(&w->pace, w->task->slice_ms, least(w->most, 8 * p->n_levels), w->most);
    st = make_buffers(w, err);
    if (st == TC_OK)
        st = make_host_memory(w, err);
    if (st == TC_OK)
        st = upload_moves(w, err);
    if (st == TC_OK && p->window != GLCM_WHOLE_ROI)
        st = upload_tables(w, err);
    if (st == TC_OK && map_bytes > 0)
        st = ocl_write(w->device, &w->maps, 0, w->state + glcm_state_maps_at(p), map_bytes, err);
    return st;
}

static tc_status cl_open(const an_task *task, const void *state, void **worker, tc_err *err)
{
    cl_worker *const w = calloc(1, sizeof *w);
    tc_status st;

    *worker = w;
    if (w == NULL)
        return tc_no_memory(err, "glcm");
    w->task = task;
    w->params = task->params;
    w->device = task->device;
    w->slice = UINT32_MAX;
    st = open_parts(w, state, err);
    if (st != TC_OK)
        cl_close(worker);
    return st;
}

static tc_status cl_step(void *worker, void *state, uint64_t *units_done, tc_err *err)
{
    cl_worker *const w = worker;
    an_state_head *const head = (an_state_head *)(void *)w->state;
    const uint64_t done = head->units_done, per_slice = w->g.units / w->g.nz;
    glcm_unit unit;
    tc_status st = TC_OK;
    uint64_t n;

    (void)state;
    *units_done = done;
    if (done >= w->g.units)
        return TC_OK;
    n = ocl_slice_next(&w->pace, per_slice - done % per_slice);
    for (uint64_t i = 0; i < n; i++)
        describe_unit(w, done + i, i, &unit);
    if (unit.slice != w->slice)
        st = load_slice(w, unit.slice, err);
    if (st == TC_OK)
        st = w->params->window == GLCM_WHOLE_ROI ? count_batch(w, done, n, err)
                                                 : slide_batch(w, done, n, err);
    if (st != TC_OK)
        return st;
    head->units_done = done + n;
    *units_done = head->units_done;
    return head->units_done == w->g.units ? TC_OK : TC_MORE;
}

static tc_status cl_sync(void *worker, void *state, tc_err *err)
{
    cl_worker *const w = worker;
    const size_t at = glcm_state_maps_at(w->params);
    const size_t bytes = w->task->plan.state_bytes - at;
    tc_status st = TC_OK;

    if (bytes > 0)
        st = ocl_read(w->device, &w->maps, 0, w->state + at, bytes, err);
    if (st == TC_OK)
        memcpy(state, w->state, w->task->plan.state_bytes);
    return st;
}

const an_backend ocl_glcm = {
    .name = "opencl",
    .open = cl_open,
    .step = cl_step,
    .sync = cl_sync,
    .close = cl_close
};
