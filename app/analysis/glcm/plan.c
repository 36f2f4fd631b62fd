/* glcm: computes the geometry (glcm.h: windows, their pairs, and how the work is divided) and the
 * plan of an item, and defines the self-tests and the struct an_glcm. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/glcm/glcm.h"
#include "app/analysis/glcm/layout.h"
#include "app/analysis/selftest.h"
#include "app/base/numbers.h"

/* The greatest number of windows in a chunk. */
#define CHUNK_WINDOWS ((int64_t)1 << 17)
/* The greatest number of operations in a chunk; a thread does about five per nanosecond. */
#define CHUNK_FLOPS ((double)(1 << 28))
/* The least number of rows in a band, a range of rows of the ROI's box (glcm_geometry). Preparing a
 * band takes about as long as computing 33 of its rows. */
#define BAND_ROWS 16

/* Whether the pixel (x, y), relative to the window's centre, is in the window. */
static bool in_window(const glcm_params *p, int x, int y)
{
    const int r = p->radius;

    if (p->window == GLCM_SQUARE)
        return x >= -r && x <= r && y >= -r && y <= r;
    return x * x + y * y <= r * r;
}

/* Sets the lens of the offset (dx, dy), except lens->transposed. */
static void lens_rows(const glcm_params *p, int dx, int dy, glcm_lens *lens)
{
    const int r = p->radius;

    memset(lens, 0, sizeof *lens);
    lens->dx = dx;
    lens->dy = dy;
    for (int y = -r; y <= r; y++) {
        int lo = r + 1, hi = -r - 1;

        for (int x = -r; x <= r; x++) {
            if (in_window(p, x, y) && in_window(p, x + dx, y + dy)) {
                lo = x < lo ? x : lo;
                hi = x;
            }
        }
        if (hi < lo)
            continue;
        lens->row[lens->rows] = y;
        lens->lo[lens->rows] = lo;
        lens->hi[lens->rows] = hi;
        lens->pairs += (uint32_t)(hi - lo + 1);
        lens->rows++;
    }
}

void glcm_lens_init(const glcm_params *p, const glcm_offset *o, glcm_lens *lens)
{
    assert(o->dy > 0 || (o->dy == 0 && o->dx > 0));
    glcm_lens other_way;

    lens_rows(p, o->dx, o->dy, lens);
    lens_rows(p, o->dy, o->dx, &other_way);
    if (other_way.rows < lens->rows) {
        *lens = other_way;
        lens->transposed = true;
    }
}

/* The number of bits that v needs: 1 plus the position of its highest bit, or 0 for v = 0. */
static uint32_t bit_length(uint64_t v)
{
    return v == 0 ? 0 : 64 - (uint32_t)__builtin_clzll(v);
}

static glcm_view transposed_view(const glcm_view *v)
{
    return (
        glcm_view){ .nx = v->ny, .ny = v->nx, .x0 = v->y0, .y0 = v->x0, .x1 = v->y1, .y1 = v->x1 };
}

/* Returns the number of operations per window with this number of levels. The terms with the radius
 * r are for the pairs that enter and leave the window; the terms with `levels` are for features
 * beyond the 13, some of which need all cells of the matrix. */
static double window_flops(const glcm_params *p, double levels)
{
    const double r = p->radius;

    return 380 + 80 * r + 0.54 * r * r +
           (p->has_more_features ? 660 + 38 * levels + 1.5 * levels * levels : 0);
}

/* Returns the greatest number of windows in a chunk: at most CHUNK_WINDOWS, and so few that a chunk
 * takes at most CHUNK_FLOPS operations, whatever its number of levels. */
static int64_t chunk_windows(const glcm_params *p)
{
    int64_t windows = CHUNK_WINDOWS;

    for (size_t i = 0; i < p->n_levels; i++) {
        const double most = CHUNK_FLOPS / window_flops(p, p->levels[i]);

        windows = most < (double)windows ? (int64_t)most : windows;
    }
    return windows;
}

/* Sets the part of the geometry that needs no pixels: all but the mask and the range of grey
 * values. */
static tc_status plan_geometry(const glcm_params *p, const wu_item *item, glcm_geometry *g,
                               tc_err *err)
{
    glcm_view *const v = &g->view[0];
    const int64_t most = chunk_windows(p);
    uint64_t window = 1; /* pixels of a window's bounding square */
    int64_t side, bands; /* shorter side of the ROI's box, in pixels; see glcm_geometry */

    memset(g, 0, sizeof *g);
    g->params = p;
    g->nx = v->nx = item->nx;
    g->ny = v->ny = item->ny;
    g->nz = item->nz;
    v->x1 = item->nx;
    v->y1 = item->ny;
    if (p->roi == GLCM_ROI_DISC) {
        g->cx = p->roi_centred ? item->nx / 2 : p->roi_cx;
        g->cy = p->roi_centred ? item->ny / 2 : p->roi_cy;
        v->x0 = g->cx - p->roi_r > 0 ? g->cx - p->roi_r : 0;
        v->y0 = g->cy - p->roi_r > 0 ? g->cy - p->roi_r : 0;
        v->x1 = g->cx + p->roi_r + 1 < v->x1 ? g->cx + p->roi_r + 1 : v->x1;
        v->y1 = g->cy + p->roi_r + 1 < v->y1 ? g->cy + p->roi_r + 1 : v->y1;
        if (v->x0 >= v->x1 || v->y0 >= v->y1)
            return tc_fail(err, TC_BAD_INPUT,
                           "the disc of parameters.roi lies outside the picture");
    }
    g->view[1] = transposed_view(v);
    side = v->x1 - v->x0 < v->y1 - v->y0 ? v->x1 - v->x0 : v->y1 - v->y0;
    bands = ((v->x1 - v->x0) * (v->y1 - v->y0) + most - 1) / most;
    if (bands > side / BAND_ROWS)
        bands = side / BAND_ROWS;
    if (bands < 1 || p->window == GLCM_WHOLE_ROI)
        bands = 1;
    g->bands = (uint32_t)bands;
    g->strips = (uint32_t)(((v->x1 - v->x0) * (v->y1 - v->y0) / bands + most - 1) / most);
    if (g->strips < 1 || p->window == GLCM_WHOLE_ROI)
        g->strips = 1;
    g->chunks = (uint64_t)g->nz * p->n_offsets * g->bands * g->strips * p->n_levels;
    if (p->window != GLCM_WHOLE_ROI)
        window = (uint64_t)(2 * p->radius + 1) * (uint64_t)(2 * p->radius + 1);
    /* An offset is at least one pixel long, so a window has fewer pairs than pixels. */
    g->max_pairs = (uint32_t)window;
    /* The largest number of fraction bits with which 2n log2(2n), for n = max_pairs, in units of
     * 2^-fbits, is below 2^62; but at most 58, as glcm_features requires. */
    g->fbits = 62 - (int)bit_length(2 * window * bit_length(2 * window));
    if (g->fbits > 58)
        g->fbits = 58;
    return TC_OK;
}

/* Sets *lo and *hi to the least and the greatest grey value of all pixels of the item. */
static tc_status value_range(const an_work *work, unsigned *lo, unsigned *hi, tc_err *err)
{
    const wu_pixels *const px = work->pixels;
    const size_t n = (size_t)px->nx * px->ny * px->nz;

    *lo = UINT32_MAX;
    *hi = 0;
    for (size_t i = 0, end; i < n;) {
        for (end = tc_block_end(i, n); i < end; i++) {
            const unsigned v = wu_grey_value(px, i);

            *lo = v < *lo ? v : *lo;
            *hi = v > *hi ? v : *hi;
        }
        return_if_error(tc_call_poll(work->poll, err));
    }
    return TC_OK;
}

tc_status glcm_geometry_init(const an_work *work, glcm_geometry *g, tc_err *err)
{
    const glcm_params *const p = work->params;
    const wu_pixels *const px = work->pixels;
    tc_status status = plan_geometry(p, work->item, g, err);

    if (status != TC_OK)
        return status;
    g->slice_mask = p->roi == GLCM_ROI_MASK ? px->mask : NULL;
    if (g->slice_mask != NULL && memchr(g->slice_mask, 1, (size_t)px->nx * px->ny * px->nz) == NULL)
        return tc_fail(err, TC_BAD_INPUT, "the mask has no pixel inside");
    g->lo = p->range_ends[0];
    g->hi = p->range_ends[1];
    if (p->range == GLCM_RANGE_TYPE) {
        g->lo = 0;
        g->hi = px->bits == 8 ? 255 : 65535;
    } else if (p->range == GLCM_RANGE_IMAGE) {
        status = value_range(work, &g->lo, &g->hi, err);
    }
    return status;
}

void glcm_chunk_at(const glcm_geometry *g, uint64_t index, glcm_chunk *chunk)
{
    assert(index < g->chunks);
    chunk->level = (size_t)(index % g->params->n_levels);
    index /= g->params->n_levels;
    chunk->tile = (uint32_t)(index % ((uint64_t)g->bands * g->strips));
    index /= (uint64_t)g->bands * g->strips;
    chunk->offset = (size_t)(index % g->params->n_offsets);
    chunk->slice = (uint32_t)(index / g->params->n_offsets);
}

glcm_tile glcm_tile_at(const glcm_geometry *g, const glcm_view *v, uint32_t tile)
{
    assert(tile < g->bands * g->strips);
    const int64_t rows = v->y1 - v->y0, columns = v->x1 - v->x0, band = tile / g->strips,
                  strip = tile % g->strips;

    return (glcm_tile){ .x0 = v->x0 + columns * strip / g->strips,
                        .x1 = v->x0 + columns * (strip + 1) / g->strips,
                        .y0 = v->y0 + rows * band / g->bands,
                        .y1 = v->y0 + rows * (band + 1) / g->bands };
}

uint8_t *glcm_quantiser(const glcm_geometry *g, unsigned bits)
{
    assert(bits == 8 || bits == 16);
    const int64_t values = (int64_t)1 << bits, width = (int64_t)g->hi - g->lo + 1;
    uint8_t *const table = malloc((size_t)values * g->params->n_levels);

    for (size_t i = 0; table != NULL && i < g->params->n_levels; i++) {
        const int64_t levels = g->params->levels[i];

        for (int64_t v = 0; v < values; v++) {
            const int64_t q = v < g->lo ? 0 : (v - g->lo) * levels / width;

            table[(int64_t)i * values + v] = (uint8_t)(q >= levels ? levels - 1 : q);
        }
    }
    return table;
}

void glcm_quantise_row(const wu_pixels *px, uint32_t slice, uint32_t y, const uint8_t *levels,
                       uint8_t *out)
{
    assert(slice < px->nz && y < px->ny);
    const size_t at = ((size_t)slice * px->ny + y) * px->nx;

    if (px->bits == 8)
        for (size_t x = 0; x < px->nx; x++)
            out[x] = levels[px->u8[at + x]];
    else
        for (size_t x = 0; x < px->nx; x++)
            out[x] = levels[px->u16[at + x]];
}

void glcm_roi_row(const glcm_geometry *g, uint32_t slice, uint32_t y, uint8_t *out)
{
    assert(y < g->ny);
    const int64_t dy = y - g->cy, rest = g->params->roi_r * g->params->roi_r - dy * dy;

    if (g->params->roi == GLCM_ROI_ALL)
        memset(out, 1, g->nx);
    else if (g->params->roi == GLCM_ROI_MASK)
        memcpy(out, g->slice_mask + ((size_t)slice * g->ny + y) * g->nx, g->nx);
    else
        for (int64_t x = 0; x < g->nx; x++)
            out[x] = (x - g->cx) * (x - g->cx) <= rest;
}

/* --- the analysis ---------------------------------------------------------------------------- */

static tc_status check_item(const void *params, const wu_item *item, const char *where, tc_err *err)
{
    const glcm_params *const p = params;
    glcm_geometry g;

    if (p->roi == GLCM_ROI_MASK && item->n_masks == 0)
        return tc_fail(err, TC_BAD_INPUT, "%s: has no mask, but the parameters' roi is a mask",
                       where);
    if (p->roi != GLCM_ROI_MASK && item->n_masks > 0)
        return tc_fail(err, TC_BAD_INPUT,
                       "%s: has a mask, but the parameters' roi is not "
                       "{\"type\":\"mask\"}",
                       where);
    /* plan_geometry fails only if the ROI's disc lies outside the picture. */
    if (plan_geometry(p, item, &g, NULL) != TC_OK)
        return tc_fail(err, TC_BAD_INPUT, "%s: the region of interest lies outside the picture",
                       where);
    return TC_OK;
}

size_t glcm_state_more_at(const glcm_params *p)
{
    return sizeof(an_state_head) + p->n_levels * p->n_offsets * sizeof(glcm_stat);
}

size_t glcm_state_bands_at(const glcm_params *p)
{
    return glcm_state_more_at(p) +
           (p->has_more_features ? p->n_levels * p->n_offsets * sizeof(glcm_more_stat) : 0);
}

size_t glcm_state_maps_at(const glcm_params *p)
{
    return glcm_state_bands_at(p) + sizeof(glcm_bands);
}

/* Returns an_plan.thread_bytes. With GLCM_WHOLE_ROI a thread has one matrix, or four if there are
 * at most 64 levels, and a cache of logarithms. Otherwise it has the codes of the pairs of a tile
 * with its margin, sums of its columns, and a window's histograms (cpu.c). */
static uint64_t thread_bytes(const glcm_params *p, const glcm_geometry *g)
{
    const uint64_t margin = 2 * (uint64_t)p->radius + 4;
    uint64_t most = 0;

    if (p->window == GLCM_WHOLE_ROI) {
        for (size_t i = 0; i < p->n_levels; i++)
            most = tc_larger(most, (uint64_t)p->levels[i]);
        return tc_larger(most * most * sizeof(uint32_t), 3 << 16) + sizeof(tc_log2_cache) +
               PLAN_THREAD_BYTES;
    }
    for (int turn = 0; turn < 2; turn++) {
        const glcm_view *const v = &g->view[turn];
        const uint64_t columns = (uint64_t)(v->x1 - v->x0) / g->strips + 1,
                       rows = (uint64_t)(v->y1 - v->y0) / g->bands + 1;
        const uint64_t pixels = (columns + margin) * (rows + margin + 8);

        most = pixels > most ? pixels : most;
    }
    return most * 4 + ((uint64_t)128 << 10) + PLAN_THREAD_BYTES;
}

/* Returns the number of operations for one matrix of a whole picture. It depends on the number of
 * pixels and on the number of matrix cells that are not 0. In real pictures these are nearly all
 * cells if there are few levels, and a fifth of the cells if there are 256 levels. */
static double picture_flops(double pixels, double levels)
{
    const double cells = levels * levels / (1 + levels * levels / (128 * 128));

    return 5 * pixels + 3 * levels * levels + 45 * pixels * cells / (pixels + cells);
}

static tc_status plan(const void *params, const wu_item *item, an_plan *out, tc_err *err)
{
    const glcm_params *const p = params;
    const uint64_t plane = (uint64_t)item->nx * item->ny;
    const uint64_t voxels = plane * item->nz;
    const bool whole = p->window == GLCM_WHOLE_ROI;
    glcm_geometry g;
    tc_status status = plan_geometry(p, item, &g, err);
    double windows, chunks = 0;

    if (status != TC_OK)
        return status;
    windows = (double)(g.view[0].x1 - g.view[0].x0) * (double)(g.view[0].y1 - g.view[0].y0);
    out->chunks = g.chunks;
    out->state_bytes = glcm_state_maps_at(p) + p->n_maps * voxels * sizeof(float);
    /* The planes are the levels and the ROI of a slice and, if windows slide, the transposed copies
     * of both. */
    out->memory_bytes =
        PLAN_PROGRAM_BYTES + voxels * (item->bits / 8 + (item->n_masks > 0)) + out->state_bytes +
        plane * (p->n_levels + 1) * (whole ? 1 : 2) +
        (whole ? (uint64_t)5 << 17
               : ((uint64_t)12 << 17) + tc_smaller(g.chunks / g.nz, 1024) * sizeof(glcm_bands));
    out->thread_bytes = thread_bytes(p, &g);
    out->load_flops = an_reading_flops(item) + 10 * (double)voxels;
    out->finish_flops = 0;
    out->compress_flops = 30.0 * (double)p->n_maps * (double)plane;
    out->write_flops = 15.0 * (1 + (double)p->n_maps) * (double)plane;
    out->byte_flops = 60;
    for (size_t i = 0; i < p->n_levels; i++)
        chunks += (double)item->nz * (double)p->n_offsets *
                  (p->window == GLCM_WHOLE_ROI ? picture_flops(windows, p->levels[i])
                                               : windows * window_flops(p, p->levels[i]));
    an_complete_plan(out, item, chunks);
    return TC_OK;
}

void glcm_stat_clear(glcm_stat *stat)
{
    memset(stat, 0, sizeof *stat);
    for (int i = 0; i < GLCM_FEATURES; i++) {
        stat->feature[i].min = INT64_MAX;
        stat->feature[i].max = INT64_MIN;
    }
}

void glcm_more_stat_clear(glcm_more_stat *more)
{
    memset(more, 0, sizeof *more);
    for (int i = 0; i < GLCM_MORE_FEATURES; i++) {
        more->feature[i].min = INT64_MAX;
        more->feature[i].max = INT64_MIN;
    }
}

static tc_status init(const an_work *work, void *state, tc_err *err)
{
    const glcm_params *const p = work->params;
    glcm_stat *const stats = glcm_state_stats(state);
    float *const maps = (float *)(void *)((unsigned char *)state + glcm_state_maps_at(p));
    const size_t n = (work->plan.state_bytes - glcm_state_maps_at(p)) / sizeof(float);

    for (size_t i = 0; i < p->n_levels * p->n_offsets; i++)
        glcm_stat_clear(&stats[i]);
    for (size_t i = 0; p->has_more_features && i < p->n_levels * p->n_offsets; i++)
        glcm_more_stat_clear(&glcm_state_more(p, state)[i]);
    for (size_t i = 0, end; i < n;) {
        for (end = tc_block_end(i, n); i < end; i++)
            maps[i] = __builtin_nanf("");
        return_if_error(tc_call_poll(work->poll, err));
    }
    return TC_OK;
}

/* If some windows need histograms in global memory, a program with histograms in local memory is
 * compiled as well only if the item has more windows than this, counted with all levels and
 * offsets. With fewer windows, compiling takes longer than the program saves. */
enum { FEW_WINDOWS = 1 << 20 };

/* The groups of kernels that an item uses on a device (layout.h). */
static uint32_t kernel_groups(const void *params, const wu_item *item)
{
    const glcm_params *const p = params;
    const int side = 2 * p->radius + 1;
    const double windows =
        (double)item->nx * item->ny * item->nz * (double)p->n_levels * (double)p->n_offsets;
    uint32_t groups =
        (p->has_more_features ? GLCM_KERNELS_MORE : 0) | (p->n_maps > 0 ? GLCM_KERNELS_MAPS : 0);

    if (p->window == GLCM_WHOLE_ROI)
        return GLCM_KERNELS_WHOLE;
    /* A window is narrow if it has fewer than 1024 pairs. The exact number, which depends on the
     * shape and the distance, is not computed: between the two bounds a window may be narrow or
     * wide. */
    if (side * side < 1600)
        groups |= GLCM_KERNELS_NARROW;
    if (side * side >= 1024)
        groups |= GLCM_KERNELS_WIDE;
    /* Histograms of many levels may not fit local memory. */
    for (size_t i = 0; i < p->n_levels; i++)
        groups |= p->levels[i] <= 64 ? 0 : GLCM_KERNELS_GLOBAL;
    if ((groups & GLCM_KERNELS_GLOBAL) == 0 || windows > FEW_WINDOWS)
        groups |= GLCM_KERNELS_LOCAL;
    return groups;
}

/* The self-tests cover borders, every window shape, 8 and 16 bits, several slices, maps, histograms
 * in local and in global memory, and features that need double precision. Jobs without maps, or
 * with few levels, have tests of their own, which use no other kernels. Fields: parameters, nx, ny,
 * nz, bits, mask, state_crc, scene, doubles (an_selftest). */
static const an_selftest selftests[] = {
    { "{\"levels\":[16,64],\"window\":{\"shape\":\"disc\",\"radius\":5},\"distances\":[1,4],"
      "\"maps\":[{\"feature\":\"imc2\",\"levels\":64,\"offset\":[1,0]}]}",
      40, 31, 1, 8, false, 0x4ccb2ed2, AN_BALLS, false },
    { "{\"levels\":[256],\"window\":{\"shape\":\"square\",\"radius\":3},\"distances\":[2],"
      "\"directions\":\"four\",\"range\":\"image\",\"roi\":{\"type\":\"mask\"}}",
      23, 29, 2, 16, true, 0x3f3666c7, AN_BALLS, false },
    { "{\"levels\":[8],\"window\":{\"shape\":\"roi\"},\"distances\":[1,2],"
      "\"roi\":{\"type\":\"disc\",\"r\":20}}",
      50, 45, 1, 8, false, 0x486f0680, AN_BALLS, false },
    { "{\"levels\":[12,200],\"window\":{\"shape\":\"disc\",\"radius\":4},\"distances\":[1,3],"
      "\"features\":\"ibsi\","
      "\"maps\":[{\"feature\":\"cluster_shade\",\"levels\":200,\"offset\":[1,0]}]}",
      33, 37, 1, 16, false, 0x371d4092, AN_BALLS, true },
    { "{\"levels\":[64],\"window\":{\"shape\":\"disc\",\"radius\":6},\"distances\":[2]}", 45, 33, 1,
      8, false, 0x11268790, AN_NOISE, false },
    { "{\"levels\":[16],\"window\":{\"shape\":\"square\",\"radius\":20},\"distances\":[3],"
      "\"directions\":\"four\"}",
      47, 45, 1, 8, false, 0xf27bc294, AN_BALLS, false },
    { "{\"levels\":[24],\"window\":{\"shape\":\"square\",\"radius\":5},\"distances\":[2],"
      "\"directions\":\"four\",\"features\":\"ibsi\"}",
      41, 33, 1, 8, false, 0xa47028a0, AN_BALLS, true },
    { "{\"levels\":[24],\"window\":{\"shape\":\"disc\",\"radius\":4},\"distances\":[1],"
      "\"features\":\"ibsi\","
      "\"maps\":[{\"feature\":\"cluster_shade\",\"levels\":24,\"offset\":[1,0]}]}",
      31, 33, 1, 16, false, 0xd4e443b2, AN_NOISE, true },
    { .parameters = NULL }
};

/* Implements an_analysis.preview: the value v of the first map as v / (1 + v), scaled to 1 to 255;
 * 0 if it is not positive, or if there are no maps. */
static uint8_t preview(const an_work *work, const void *state, size_t voxel)
{
    const glcm_params *const p = work->params;
    const unsigned char *const maps = (const unsigned char *)state + glcm_state_maps_at(p);
    float v;

    if (p->n_maps == 0)
        return 0;
    memcpy(&v, maps + voxel * sizeof v, sizeof v);
    return v > 0 ? (uint8_t)(1 + 254 * v / (1 + v)) : 0;
}

const an_analysis an_glcm = {
    .name = "glcm",
    .summary = "Haralick texture of a whole picture or around each pixel (13 features "
               "of the grey-level co-occurrence matrix)",
    .cite = "R. M. Haralick, K. Shanmugam, I. Dinstein, Textural features "
            "for image classification, IEEE "
            "Transactions on Systems, Man and Cybernetics 3 (1973) 610-621.",
    .shorten_advice =
        "fewer distances, levels or maps, directions four, a smaller radius of the window or roi; "
        "with window {\"shape\":\"roi\"}, one matrix a distance and direction, it takes seconds",
    .params_bytes = sizeof(glcm_params),
    .parameters = glcm_parameters,
    .derive_params = glcm_derive_params,
    .clear_params = glcm_clear_params,
    .check_item = check_item,
    .takes_mask = true,
    .plan = plan,
    .init = init,
    .finish = glcm_finish,
    .preview = preview,
    .preview_amounts = true,
    .note_survey = glcm_note_survey,
    .note_result = glcm_note_result,
    .suggest = glcm_suggest,
    .add_constants = glcm_add_constants,
    .declare_arrays = glcm_declare_arrays,
    .check_result = glcm_check_result,
    .check_pixels = glcm_check_pixels,
    .pixels_share = glcm_pixels_share,
    .flops_inside = glcm_flops_inside,
    .cpu = &glcm_cpu,
    .doubles = AN_SOME_DOUBLES,
    .kernels = kernel_groups,
    .selftests = selftests
};
