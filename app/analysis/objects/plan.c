/* objects: checks an item, plans its work (chunks, memory, costs), and has the self-tests and the
 * analysis' table of functions. */
#include <math.h>

#include "app/analysis/objects/objects.h"

#include "app/analysis/selftest.h"

static tc_status check_item(const void *params, const wu_item *item, const char *where, tc_err *err)
{
    const obj_params *const p = params;
    /* Each row of the table has the words of an obj_row, the item and the label. */
    const uint64_t bytes = 8 * (uint64_t)item->n_objects * (obj_words(p, item) + 2);

    /* FORMAT.md: a result has less than 4 GiB. */
    if (bytes >= (uint64_t)4 << 30)
        return tc_fail(err, TC_BAD_INPUT,
                       "%s: %u objects would give %llu GiB; ask for fewer families, distances or "
                       "features",
                       where, (unsigned)item->n_objects, (unsigned long long)(bytes >> 30));
    return TC_OK;
}

/* Implements an_analysis.time_share. The first chunk, which finds the objects, takes 15 operations
 * a pixel; the other chunks are assumed to take equally long. */
static double time_share(const an_work *work, uint64_t chunks_done)
{
    const an_plan *const plan = &work->plan;
    const double finding =
        15 * (double)work->item->nx * work->item->ny * work->item->nz / an_chunks_flops(plan);

    return chunks_done == 0 ? 0
           : chunks_done >= plan->chunks
               ? 1
               : finding + (1 - finding) * (double)(chunks_done - 1) / (double)(plan->chunks - 1);
}

/* Sets the plan's memory_bytes for an item with `runs` runs, whose largest label is `largest`. */
static void set_memory(const obj_params *p, const wu_item *item, uint64_t runs, uint64_t largest,
                       an_plan *out)
{
    const uint64_t pixels = (uint64_t)item->nx * item->ny * item->nz;
    const bool texture = (p->families & OBJ_TEXTURE) != 0;

    /* The terms, in this order: the program; pixels, labels and grey levels; obj_index.runs and
     * stored_runs, the latter with at most one run for every 16 pixels; the state, and as much for
     * the arrays; obj_index.label, area and start; obj_index.next and pixels. */
    out->memory_bytes = PLAN_PROGRAM_BYTES +
                        pixels * (item->bits / 8 * item->channels + 4 + texture) +
                        (runs < pixels / 16 ? 2 * runs : runs + pixels / 16) * sizeof(obj_run) +
                        2 * (uint64_t)out->state_bytes + 12 * (uint64_t)item->n_objects +
                        (largest + 1) * 2 * sizeof(uint32_t);
}

/* Implements an_analysis.memory: counts the runs of the label picture. */
static tc_status memory(const an_work *work, an_plan *plan, tc_err *err)
{
    const wu_pixels *const px = work->pixels;
    uint64_t runs = 0;

    (void)err;
    for (size_t row = 0; row < (size_t)px->ny * px->nz; row++) {
        const uint32_t *const label = px->labels + row * px->nx;

        for (uint32_t x = 0; x < px->nx; x++)
            runs += label[x] != 0 && (x == 0 || label[x] != label[x - 1]);
    }
    set_memory(work->params, work->item, runs, px->largest_label, plan);
    return TC_OK;
}

/* The number of matrices of an object, and that of directions in which pairs are counted. */
static double count_matrices(const obj_params *p, const wu_item *item, double *directions)
{
    *directions =
        (p->families & OBJ_TEXTURE) == 0
            ? 0
            : (double)p->n_distances * (item->is_stack ? OBJ_DIRECTIONS_3D : OBJ_DIRECTIONS_2D);
    return p->merge && *directions > 0 ? (double)p->n_distances : *directions;
}

/* The operations for the features of a matrix of an object of this number of pixels. Of small
 * objects only the cells that have pairs are read. */
static double matrix_flops(const obj_params *p, double pixels)
{
    return fmin(430.0 * p->levels, 2500 + 70 * pixels);
}

double obj_object_flops(const obj_params *p, const wu_item *item, double pixels)
{
    double directions;
    const double matrices = count_matrices(p, item, &directions);

    return 4000 + pixels * (30 + (item->is_stack ? 40 : 0) + 3 * directions) +
           matrices * matrix_flops(p, pixels);
}

/* Implements an_analysis.flops_inside: the operations of all pixels, of those in objects, and of
 * objects (measured with objects of 36 to 720000 pixels). All slices are taken to have as many
 * pixels in objects as that of work->pixels. */
static double flops_inside(const an_work *work)
{
    const wu_item *const item = work->item;
    const size_t slice = (size_t)item->nx * item->ny;
    size_t inside = work->pixels == NULL ? slice : 0; /* pixels of a slice in objects */
    const double objects = fmax(item->n_objects, 1);

    for (size_t i = 0; work->pixels != NULL && i < slice; i++)
        inside += work->pixels->labels[i] != 0;
    return 35.0 * (double)slice * item->nz +
           objects * obj_object_flops(work->params, item, (double)inside * item->nz / objects);
}

static tc_status plan(const void *params, const wu_item *item, an_plan *out, tc_err *err)
{
    const obj_params *const p = params;
    const uint64_t pixels = (uint64_t)item->nx * item->ny * item->nz, objects = item->n_objects;
    const bool texture = (p->families & OBJ_TEXTURE) != 0;
    double directions;
    const double matrices = count_matrices(p, item, &directions);
    /* Objects are assumed to fill half of the picture. */
    const double per_matrix = matrix_flops(p, (double)pixels / (2 * fmax((double)objects, 1)));
    /* The terms of a thread's memory, in this order: flags of rows and runs of the outline
     * (shape.c); histogram; corners of the outline (32 bytes for each of 16,384 corners); the runs
     * that the thread finds; the matrix, its list of cells and the box; the thread's stack. */
    const uint64_t outline =
        !item->is_stack && (p->families & OBJ_SHAPE) != 0 ? (uint64_t)1 << 19 : 0;
    const uint64_t thread =
        25 * (uint64_t)item->nx + (257 << 10) + outline + obj_index_thread_bytes() +
        (texture ? 24 * (uint64_t)p->levels * (uint64_t)p->levels + 3 * (uint64_t)OBJ_BOX_BYTES
                 : 0) +
        ((uint64_t)256 << 10);

    (void)err;
    out->chunks = 1 + objects * obj_chunks(p);
    out->state_bytes = sizeof(an_state_head) + objects * obj_row_bytes(p, item);
    out->most_rows = objects;
    set_memory(p, item, pixels, ((uint64_t)1 << 24) - 1, out);
    out->thread_bytes = thread;
    out->load_flops = an_reading_flops(item);
    out->finish_flops = (double)pixels;
    out->byte_flops = 250;
    out->write_flops = 8 * (double)pixels;
    an_complete_plan(out, item,
                     (double)pixels * (65 + (item->is_stack ? 40 : 0) + 3 * directions) +
                         (double)objects * (4000 + per_matrix * matrices));
    return TC_OK;
}

/* Bits of kernels_of: variants of kernels. */
enum { LOCAL_COUNTS = 1, GLOBAL_COUNTS = 2 };

/* Implements an_analysis.kernels. Matrices are counted in local or in global memory, depending on
 * their size; for sizes at which it also depends on the device, both variants are returned. */
static uint32_t kernels_of(const void *params, const wu_item *item)
{
    const uint64_t bytes = obj_matrix_bytes(params);

    (void)item;
    return bytes > OBJ_LOCAL_BYTES       ? GLOBAL_COUNTS
           : bytes > OBJ_LOCAL_BYTES / 4 ? LOCAL_COUNTS | GLOBAL_COUNTS
                                         : LOCAL_COUNTS;
}

static const an_selftest selftests[] = {
    { "{\"texture_features\":\"ibsi\",\"distances\":[1,3]}", 61, 47, 1, 8, false, 0x20444faa,
      AN_BALLS, true },
    { "{\"aggregate\":\"merge\",\"levels\":256,\"range\":\"image\"}", 45, 70, 1, 16, false,
      0xb79047fb, AN_BALLS, true },
    { "{\"levels\":9,\"distances\":[2],\"range\":[50,230]}", 37, 31, 12, 8, false, 0x038a68b3,
      AN_BALLS, true },
    { "{\"aggregate\":\"merge\",\"texture_features\":\"ibsi\",\"range\":\"type\"}", 30, 33, 29, 16,
      false, 0x24ab929f, AN_BALLS, true },
    { "{\"levels\":16,\"distances\":[1,2]}", 61, 47, 1, 8, false, 0xcb4de685, AN_NOISE, true },
    { .parameters = NULL }
};

/* Implements an_analysis.preview: returns a number from 1 to 255 that depends on the label, or 0 on
 * the background. */
static uint8_t preview(const an_work *work, const void *state, size_t voxel)
{
    const uint32_t label = work->pixels->labels[voxel];

    (void)state;
    return label > 0 ? (uint8_t)(1 + label * 37 % 255) : 0;
}

const an_analysis an_objects = {
    .name = "objects",
    .summary = "shape, intensity and texture of each object of a label picture or stack",
    .shorten_advice = "fewer families (without \"texture\") or distances",
    .params_bytes = sizeof(obj_params),
    .parameters = obj_parameters,
    .derive_params = obj_derive_params,
    .check_item = check_item,
    .note_result = obj_note_result,
    .plan = plan,
    .memory = memory,
    .time_share = time_share,
    .check_state = obj_check_state,
    .finish = obj_finish,
    .preview = preview,
    .declare_arrays = obj_declare_arrays,
    .check_result = obj_check_result,
    .check_pixels = obj_check_pixels,
    .pixels_share = obj_pixels_share,
    .flops_inside = flops_inside,
    .cpu = &obj_cpu,
    .takes_labels = true,
    .forbids_mixed_kinds = true,
    .assumes_cubic_voxels = true,
    .doubles = AN_ALL_DOUBLES,
    .kernels = kernels_of,
    .selftests = selftests
};
