/* Draws the maps, labels and masks of a result as PNG pictures. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "workunits/tools/canvas.h"
#include "workunits/format/csv.h"
#include "workunits/tools/export.h"
#include "workunits/tools/tools.h"

enum {
    MAX_SLICES = 36,     /* greatest number of slices of a stack that are drawn side by side */
    SMALL_MAP = 400,     /* maps whose longer side has fewer pixels are enlarged */
    LONGEST_SIDE = 8192, /* longest side of the picture of a stack's middle planes, in pixels */
    /* A voxel's side is drawn at most this many times as long as its shortest side. */
    MAX_VOXEL_RATIO = 100
};

static const wu_rgb white = { 255, 255, 255 }, black = { 0, 0, 0 };
static const wu_rgb text_colour = { 40, 40, 40 };        /* colour of text */
static const wu_rgb no_value_colour = { 214, 214, 214 }; /* colour of pixels without a value */
static const wu_rgb mask_colour = { 255, 150, 0 };       /* colour of pixels inside a mask */

/* An array of the result that is a picture of an item, and the item's own picture. */
typedef struct drawing {
    const wu_result_file *file;
    const wu_array_info *info;
    void *data;                     /* the array's data, owned */
    const wu_declaration *declared; /* the array's declaration */
    size_t item;                    /* index of the item */
    uint32_t nx, ny, nz;            /* size of the array */
    wu_pixels pixels; /* the item's own picture; its nx is 0 if the picture is not available */
    unsigned lo, hi;  /* the grey values of `pixels` that are shown as black and white */
    size_t written;   /* number of files written */
} drawing;

/* --- the array ------------------------------------------------------------------------------- */

/* Begins a drawing: loads the array `index`, whose declaration is d. free_drawing must be called,
 * also after a failure. */
static tc_status load_array(const wu_result_file *file, const wu_declaration *d, size_t item,
                            size_t index, drawing *out, tc_err *err)
{
    const wu_array_info *const info = wu_npz_array_info(file->npz, index);
    const uint64_t *const plane = info->shape + info->ndim - 2;
    *out = (drawing){ .file = file,
                      .info = info,
                      .declared = d,
                      .item = item,
                      .ny = (uint32_t)plane[0],
                      .nx = (uint32_t)plane[1],
                      .nz = info->ndim == 3 ? (uint32_t)info->shape[0] : 1 };
    return wu_npz_load_array(file->npz, index, &out->data, err);
}

/* Loads the item's own picture, over which the array is drawn. A picture of 8 bits is shown
 * unchanged, one of 16 bits with the least value as black and the largest as white. */
static tc_status load_picture(const wu_job *images, drawing *d, tc_err *err)
{
    const wu_item *const item = &images->items[d->item];
    if (item->nx != d->nx || item->ny != d->ny || item->nz != d->nz)
        return tc_fail(err, TC_BAD_INPUT, "%s: %s: has another size than item %s", d->file->path,
                       d->info->name, item->name);
    return_if_error(wu_item_load(images, d->item, &d->pixels, err));
    d->lo = 0;
    d->hi = 255;
    if (d->pixels.bits == 16) {
        const size_t n = (size_t)d->nx * d->ny * d->nz;
        d->lo = 65535;
        d->hi = 0;
        for (size_t k = 0; k < n; k++) {
            const unsigned v = d->pixels.u16[k];
            d->lo = v < d->lo ? v : d->lo;
            d->hi = v > d->hi ? v : d->hi;
        }
    }
    return TC_OK;
}

static void free_drawing(drawing *d)
{
    free(d->data);
    wu_pixels_free(&d->pixels);
}

/* The grey of the item's own picture at a voxel, or the colour `fallback` if there is no picture.
 */
static wu_rgb background_colour(const drawing *d, size_t voxel, wu_rgb fallback)
{
    if (d->pixels.nx == 0)
        return fallback;
    const unsigned range = d->hi > d->lo ? d->hi - d->lo : 1;
    const uint8_t grey = (uint8_t)((wu_grey_value(&d->pixels, voxel) - d->lo) * 255u / range);
    return (wu_rgb){ grey, grey, grey };
}

/* --- slices side by side --------------------------------------------------------------------- */

/* The layout of slices on a canvas. */
typedef struct montage {
    uint32_t slices, columns; /* number of slices, and of columns in which they are drawn */
    uint32_t x0, y0, nx, ny;  /* the part of each slice that is shown, in pixels of the slice */
    uint64_t scale;           /* pixels of the canvas per pixel of the slice */
    bool numbered;            /* each slice has its number in a corner */
    uint64_t gap;             /* gap between slices, in pixels of the canvas */
    uint64_t width, height;   /* size of all slices together, in pixels of the canvas */
} montage;

/* Computes the layout for the part of nx x ny pixels at (x0, y0) of the slices. least: the picture
 * is enlarged if its longer side has fewer pixels than this; if it is 0, the picture is not
 * enlarged, and slices have no numbers. */
static montage make_montage(const drawing *d, uint32_t x0, uint32_t y0, uint32_t nx, uint32_t ny,
                            uint64_t least)
{
    montage m = { .x0 = x0, .y0 = y0, .nx = nx, .ny = ny, .scale = 1, .gap = 4 };
    m.slices = d->nz < MAX_SLICES ? d->nz : MAX_SLICES;
    m.columns = (uint32_t)ceil(sqrt(m.slices));
    const uint32_t rows = (m.slices + m.columns - 1) / m.columns;
    const uint64_t side = (uint64_t)(nx > ny ? nx : ny) * m.columns;
    m.scale = wu_enlargement(side, least);
    m.numbered = least > 0 && d->nz > 1;
    m.width = (uint64_t)m.columns * nx * m.scale + (m.columns - 1) * m.gap;
    m.height = (uint64_t)rows * ny * m.scale + (rows - 1) * m.gap;
    if (m.slices < d->nz)
        wu_print_note("%s: %s: %u of %u slices are drawn", d->file->path, d->info->name, m.slices,
                      d->nz);
    return m;
}

/* The z of the i-th slice that is shown. */
static uint32_t slice_at(const drawing *d, const montage *m, uint32_t i)
{
    return m->slices == d->nz ? i : (uint32_t)((uint64_t)i * (d->nz - 1) / (m->slices - 1));
}

/* A function that returns the colour of a voxel. user: the argument of draw_montage. */
typedef wu_rgb (*colour_fn)(const drawing *d, const void *user, uint32_t x, uint32_t y, uint32_t z);

/* Draws the slices side by side; the upper left corner of the first one is at (left, top). */
static void draw_montage(wu_canvas *canvas, uint64_t left, uint64_t top, const drawing *d,
                         const montage *m, colour_fn colour, const void *user)
{
    for (uint32_t i = 0; i < m->slices; i++) {
        const uint32_t z = slice_at(d, m, i);
        const uint64_t slice_x = left + (i % m->columns) * (m->nx * m->scale + m->gap);
        const uint64_t slice_y = top + (i / m->columns) * (m->ny * m->scale + m->gap);
        for (uint32_t y = 0; y < m->ny; y++)
            for (uint32_t x = 0; x < m->nx; x++)
                wu_canvas_fill(canvas, slice_x + x * m->scale, slice_y + y * m->scale, m->scale,
                               m->scale, colour(d, user, m->x0 + x, m->y0 + y, z));
        if (m->numbered)
            wu_canvas_number(canvas, slice_x, slice_y, m->nx * m->scale, m->ny * m->scale, z);
    }
}

static size_t voxel_index(const drawing *d, uint32_t x, uint32_t y, uint32_t z)
{
    return ((size_t)z * d->ny + y) * d->nx + x;
}

/* Writes the canvas as a file named after the array. end: the end of the file name, ".png" or
 * "+WORD.png". */
static tc_status write_canvas(const wu_canvas *canvas, drawing *d, const char *folder,
                              const char *end, tc_err *err)
{
    const wu_file_name name = wu_array_file_name(d->file, d->declared, d->item, d->info->name);
    TC_AUTOFREE char *const path = wu_join_path(folder, name.text, end);
    return_if_error(path == NULL ? tc_no_memory(err, d->info->name)
                                 : wu_export_list_file(folder, name.text, end, err));
    return_if_error(wu_canvas_write(canvas, path, err));
    d->written++;
    return TC_OK;
}

/* --- maps ------------------------------------------------------------------------------------ */

/* What is shown of a map. */
typedef struct map_view {
    double min, max;         /* range of the finite values; min > max: there are none */
    uint32_t x0, y0, x1, y1; /* the part that is shown: [x0, x1) x [y0, y1) */
} map_view;

/* Finds the range of the values, and the part of the picture that has values. This part gets a
 * margin of a quarter of its width or height on each side. */
static map_view find_view(const drawing *d)
{
    const float *values = d->data;
    map_view v = { INFINITY, -INFINITY, d->nx, d->ny, 0, 0 };
    for (uint32_t z = 0; z < d->nz; z++) {
        for (uint32_t y = 0; y < d->ny; y++) {
            for (uint32_t x = 0; x < d->nx; x++) {
                const double value = (double)values[voxel_index(d, x, y, z)];
                if (!isfinite(value))
                    continue;
                v.min = value < v.min ? value : v.min;
                v.max = value > v.max ? value : v.max;
                v.x0 = x < v.x0 ? x : v.x0;
                v.y0 = y < v.y0 ? y : v.y0;
                v.x1 = x >= v.x1 ? x + 1 : v.x1;
                v.y1 = y >= v.y1 ? y + 1 : v.y1;
            }
        }
    }
    if (v.min > v.max)
        return (map_view){ INFINITY, -INFINITY, 0, 0, d->nx, d->ny };
    const uint32_t margin_x = (v.x1 - v.x0) / 4, margin_y = (v.y1 - v.y0) / 4;
    v.x0 = v.x0 > margin_x ? v.x0 - margin_x : 0;
    v.y0 = v.y0 > margin_y ? v.y0 - margin_y : 0;
    v.x1 = d->nx - v.x1 > margin_x ? v.x1 + margin_x : d->nx;
    v.y1 = d->ny - v.y1 > margin_y ? v.y1 + margin_y : d->ny;
    return v;
}

/* The colour of the map; where the map has no value, the item's own picture. A colour_fn whose
 * `user` is the map_view. */
static wu_rgb map_colour(const drawing *d, const void *user, uint32_t x, uint32_t y, uint32_t z)
{
    const map_view *v = user;
    const size_t voxel = voxel_index(d, x, y, z);
    const double value = (double)((const float *)d->data)[voxel];
    if (!isfinite(value))
        return background_colour(d, voxel, no_value_colour);
    return wu_colour_map(v->max > v->min ? (value - v->min) / (v->max - v->min) : 0.5);
}

/* The colour of the item's own picture, without the map: a colour_fn, like the functions below. */
static wu_rgb picture_colour(const drawing *d, const void *user, uint32_t x, uint32_t y, uint32_t z)
{
    (void)user;
    return background_colour(d, voxel_index(d, x, y, z), no_value_colour);
}

/* The colour of the map, blended with the item's own picture in equal shares. */
static wu_rgb overlay_colour(const drawing *d, const void *user, uint32_t x, uint32_t y, uint32_t z)
{
    const wu_rgb below = background_colour(d, voxel_index(d, x, y, z), no_value_colour);
    return wu_blend(below, map_colour(d, user, x, y, z), 0.5);
}

/* The numbers next to the colour bar: least, middle and largest value; one number if all values are
 * equal. */
typedef struct bar_text {
    int n;
    char text[3][32];
    size_t longest; /* characters of the longest text */
} bar_text;

/* Writes the numbers as text. They begin with the least value. */
static bar_text bar_numbers(const map_view *v)
{
    bar_text b = { .n = v->min > v->max ? 0 : v->max > v->min ? 3 : 1 };
    for (int i = 0; i < b.n; i++) {
        snprintf(b.text[i], sizeof b.text[i], "%.4g", v->min + (v->max - v->min) * i / 2);
        const size_t n = strlen(b.text[i]);
        b.longest = n > b.longest ? n : b.longest;
    }
    return b;
}

enum {
    BAR_NX = 10, /* width of the colour bar, in dots of the font */
    BAR_GAP = 3  /* gap between the bar and its numbers, in dots of the font */
};

/* Draws the colour bar next to a map, with the largest value at the top. */
static void draw_bar(wu_canvas *canvas, uint64_t left, uint64_t top, uint64_t height,
                     uint64_t scale, const bar_text *b)
{
    for (uint64_t y = 0; y < height; y++)
        wu_canvas_fill(canvas, left, top + y, BAR_NX * scale, 1,
                       wu_colour_map(b->n == 3 ? 1 - (double)y / (double)height : 0.5));
    for (int i = 0; i < b->n; i++) {
        const double share = b->n == 3 ? 1 - i / 2.0 : 0.5;
        const uint64_t y = (uint64_t)(share * (double)(height - WU_CHAR_NY * scale));
        wu_canvas_text(canvas, left + (BAR_NX + BAR_GAP) * scale, top + y, scale, b->text[i],
                       text_colour);
    }
}

enum { LINE_MAX_CHARS = 300 }; /* greatest length of a line of text, with the final NUL */

/* Draws a line of text, cut to at most `width` pixels; '_' is drawn as a blank. */
static void draw_text_line(wu_canvas *canvas, uint64_t x, uint64_t y, uint64_t scale,
                           const char *text, uint64_t width)
{
    char shown[LINE_MAX_CHARS];
    snprintf(shown, sizeof shown, "%s", text);
    const uint64_t fits = width / (WU_CHAR_NX * scale);
    if (fits < sizeof shown)
        shown[fits] = '\0';
    for (char *c = shown; *c != '\0'; c++)
        if (*c == '_')
            *c = ' ';
    wu_canvas_text(canvas, x, y, scale, shown, text_colour);
}

/* Draws a map: at the top the title; below it, side by side, the item's own picture and the map
 * laid over it (if there is such a picture), the map, and the colour bar. */
static tc_status draw_map(drawing *d, const char *folder, tc_err *err)
{
    const map_view v = find_view(d);
    const montage m = make_montage(d, v.x0, v.y0, v.x1 - v.x0, v.y1 - v.y0, SMALL_MAP);
    const uint64_t panels = d->pixels.nx > 0 ? 3 : 1;
    const uint64_t larger = m.width > m.height ? m.width : m.height;
    /* Pixels of the canvas per dot of the font: about 1/300 of the map's longer side, but at least
     * 2 and at most about 10. */
    const uint64_t scale = larger > 3000 ? 10 : larger < 450 ? 2 : larger / 300 + 1;
    const uint64_t pad = 6 * scale;                 /* width of margins */
    const uint64_t line = (WU_CHAR_NY + 3) * scale; /* height of a line of text */
    const uint64_t top = pad + 2 * line; /* the two lines are the title and the item's name */
    const bar_text numbers = bar_numbers(&v);
    const uint64_t bar = (BAR_NX + BAR_GAP + numbers.longest * WU_CHAR_NX) * scale;
    /* Height of the colour bar, at least 30 dots, so that its three numbers do not overlap. */
    const uint64_t height = m.height < 30 * scale ? 30 * scale : m.height;
    const uint64_t width = pad + panels * (m.width + pad) + bar + pad;
    if (numbers.n == 0)
        wu_print_note("%s: %s: has no value anywhere", d->file->path, d->info->name);

    TC_AUTO(wu_canvas_free) wu_canvas canvas;
    return_if_error(wu_canvas_init(&canvas, width, top + height + pad, white, d->info->name, err));
    draw_text_line(&canvas, pad, pad, scale, d->declared->title != NULL ? d->declared->title : "",
                   width - 2 * pad);
    draw_text_line(&canvas, pad, pad + line, scale, d->file->item_names[d->item], width - 2 * pad);
    uint64_t left = pad;
    if (panels > 1) {
        draw_montage(&canvas, left, top, d, &m, picture_colour, NULL);
        left += m.width + pad;
        draw_montage(&canvas, left, top, d, &m, overlay_colour, &v);
        left += m.width + pad;
    }
    draw_montage(&canvas, left, top, d, &m, map_colour, &v);
    if (numbers.n > 0)
        draw_bar(&canvas, left + m.width + pad, top, height, scale, &numbers);
    return write_canvas(&canvas, d, folder, ".png", err);
}

/* --- labels and masks ------------------------------------------------------------------------ */

/* The label of a voxel; for a mask, 0 or 1. */
static uint32_t label_at(const drawing *d, uint32_t x, uint32_t y, uint32_t z)
{
    const size_t voxel = voxel_index(d, x, y, z);
    if (d->info->dtype == WU_I32)
        return (uint32_t)((const int32_t *)d->data)[voxel];
    return ((const uint8_t *)d->data)[voxel] != 0;
}

/* Whether a voxel has a neighbour with another label (or 0) in the plane that is perpendicular to
 * the axis `across` (0: x, 1: y, 2: z). */
static bool is_on_outline(const drawing *d, unsigned across, uint32_t x, uint32_t y, uint32_t z)
{
    const uint32_t label = label_at(d, x, y, z);
    if (across != 0 && ((x > 0 && label_at(d, x - 1, y, z) != label) ||
                        (x + 1 < d->nx && label_at(d, x + 1, y, z) != label)))
        return true;
    if (across != 1 && ((y > 0 && label_at(d, x, y - 1, z) != label) ||
                        (y + 1 < d->ny && label_at(d, x, y + 1, z) != label)))
        return true;
    return across != 2 && ((z > 0 && label_at(d, x, y, z - 1) != label) ||
                           (z + 1 < d->nz && label_at(d, x, y, z + 1) != label));
}

/* The colour of a voxel of labels or a mask in the plane perpendicular to the axis `across` (as in
 * is_on_outline). Over the item's own picture, outlines have the full colour, and the insides are
 * the picture with a tint of it. Without that picture, the insides have the full colour, and the
 * outlines are darker. */
static wu_rgb plane_colour(const drawing *d, unsigned across, uint32_t x, uint32_t y, uint32_t z)
{
    const uint32_t label = label_at(d, x, y, z);
    const wu_rgb below = background_colour(d, voxel_index(d, x, y, z), black);
    const bool is_mask = d->info->dtype != WU_I32;
    if (label == 0)
        return below;
    if (is_mask && d->pixels.nx == 0)
        return white;
    const wu_rgb colour = is_mask ? mask_colour : wu_label_colour(label);
    const bool outline = is_on_outline(d, across, x, y, z);
    if (d->pixels.nx == 0)
        return outline ? wu_blend(colour, black, 0.45) : colour;
    return outline ? colour : wu_blend(below, colour, is_mask ? 0.2 : 0.35);
}

/* Sums over the pixels of a label, for its centroid. */
typedef struct label_sums {
    uint64_t sum_x, sum_y, area;
} label_sums;

/* Draws each label at the centroid of its region in a 2D picture, if the region's area on the
 * canvas is at least the square of the number's width. scale: pixels of the canvas per pixel. */
static tc_status draw_numbers(wu_canvas *canvas, const drawing *d, uint64_t scale, tc_err *err)
{
    const size_t n = (size_t)d->nx * d->ny;
    uint32_t most = 0;
    for (size_t i = 0; i < n; i++) {
        const uint32_t label = label_at(d, (uint32_t)(i % d->nx), (uint32_t)(i / d->nx), 0);
        most = label > most && label <= INT32_MAX ? label : most;
    }
    /* The labels of a valid result number the regions from 1 on, so none exceeds the number of
     * pixels. */
    if (most > n)
        return TC_OK;
    label_sums *sums = calloc((size_t)most + 1, sizeof *sums);
    if (sums == NULL)
        return tc_no_memory(err, d->info->name);
    for (size_t i = 0; i < n; i++) {
        const uint32_t x = (uint32_t)(i % d->nx), y = (uint32_t)(i / d->nx),
                       label = label_at(d, x, y, 0);
        if (label > most)
            continue;
        sums[label].sum_x += x;
        sums[label].sum_y += y;
        sums[label].area++;
    }
    for (uint32_t label = 1; label <= most; label++) {
        const label_sums *p = &sums[label];
        char text[16];
        const uint64_t width =
            (uint64_t)snprintf(text, sizeof text, "%" PRIu32, label) * WU_CHAR_NX;
        if (p->area * scale * scale < width * width)
            continue;
        const uint64_t x = p->sum_x * scale / p->area, y = p->sum_y * scale / p->area;
        const uint64_t left = x > width / 2 ? x - width / 2 : 0;
        const uint64_t top = y > WU_CHAR_NY / 2 ? y - WU_CHAR_NY / 2 : 0;
        wu_canvas_shadowed_text(canvas, left, top, text);
    }
    free(sums);
    return TC_OK;
}

/* The colour of a voxel of labels or a mask in a slice. */
static wu_rgb label_colour(const drawing *d, const void *user, uint32_t x, uint32_t y, uint32_t z)
{
    (void)user;
    return plane_colour(d, 2, x, y, z);
}

/* White inside a mask, black outside. */
static wu_rgb black_or_white(const drawing *d, const void *user, uint32_t x, uint32_t y, uint32_t z)
{
    (void)user;
    return label_at(d, x, y, z) != 0 ? white : black;
}

/* Draws the slices without a frame or title. least: as in make_montage. end: as in write_canvas. */
static tc_status draw_slices(drawing *d, const char *folder, colour_fn colour, uint64_t least,
                             const char *end, tc_err *err)
{
    const montage m = make_montage(d, 0, 0, d->nx, d->ny, least);
    TC_AUTO(wu_canvas_free) wu_canvas canvas;
    return_if_error(
        wu_canvas_init(&canvas, m.width, m.height, no_value_colour, d->info->name, err));
    draw_montage(&canvas, 0, 0, d, &m, colour, NULL);
    if (d->info->dtype == WU_I32 && d->nz == 1)
        return_if_error(draw_numbers(&canvas, d, m.scale, err));
    return write_canvas(&canvas, d, folder, end, err);
}

static tc_status draw_labels(drawing *d, const char *folder, tc_err *err)
{
    return draw_slices(d, folder, label_colour, WU_SMALL_SIDE, ".png", err);
}

/* Draws the middle plane perpendicular to the axis `across` (as in is_on_outline) into width x
 * height pixels of the canvas, from its column `left` on. The plane's horizontal axis is x, or y if
 * `across` is 0; its vertical axis is z, or y if `across` is 2. */
static void draw_plane(wu_canvas *canvas, const drawing *d, unsigned across, uint64_t left,
                       uint64_t width, uint64_t height)
{
    /* Lengths of the two axes in voxels; (u, v) is a pixel on the canvas, (i, j) its voxel. */
    const uint32_t nu = across == 0 ? d->ny : d->nx, nv = across == 2 ? d->ny : d->nz;
    for (uint64_t v = 0; v < height; v++)
        for (uint64_t u = 0; u < width; u++) {
            const uint32_t i = (uint32_t)(u * nu / width), j = (uint32_t)(v * nv / height);
            wu_canvas_set(canvas, left + u, v,
                          plane_colour(d, across, across == 0 ? d->nx / 2 : i,
                                       across == 0   ? i
                                       : across == 1 ? d->ny / 2
                                                     : j,
                                       across == 2 ? d->nz / 2 : j));
        }
}

/* Draws three middle planes of a stack side by side, with the proportions of its voxels: the plane
 * perpendicular to z (x to the right, y down), the one perpendicular to y (x to the right, z down),
 * and the one perpendicular to x (y to the right, z down). */
static tc_status draw_planes(drawing *d, const char *folder, tc_err *err)
{
    const double *const um =
        d->file->item_spacing == NULL ? NULL : d->file->item_spacing + 3 * d->item;
    const double cubes[3] = { 1, 1, 1 };
    const double *const step = um != NULL && um[0] > 0 && um[1] > 0 && um[2] > 0 ? um : cubes;
    const double least = fmin(step[0], fmin(step[1], step[2]));
    /* Lengths of the axes in units of the voxels' shortest side. */
    const double z = d->nz * fmin(step[0] / least, MAX_VOXEL_RATIO),
                 y = d->ny * fmin(step[1] / least, MAX_VOXEL_RATIO);
    const double x = d->nx * fmin(step[2] / least, MAX_VOXEL_RATIO);
    const double side = fmax(2 * x + y, fmax(y, z)); /* the longer side of all planes together */
    const double scale = side > LONGEST_SIDE
                             ? LONGEST_SIDE / side
                             : (double)wu_enlargement((uint64_t)side, WU_SMALL_SIDE);
    const uint64_t gap = 4, wx = (uint64_t)ceil(x * scale), wy = (uint64_t)ceil(y * scale),
                   wz = (uint64_t)ceil(z * scale);
    TC_AUTO(wu_canvas_free) wu_canvas canvas;
    return_if_error(wu_canvas_init(&canvas, 2 * (wx + gap) + wy, wy > wz ? wy : wz, no_value_colour,
                                   d->info->name, err));
    draw_plane(&canvas, d, 2, 0, wx, wy);
    draw_plane(&canvas, d, 1, wx + gap, wx, wz);
    draw_plane(&canvas, d, 0, 2 * (wx + gap), wy, wz);
    return write_canvas(&canvas, d, folder, "+planes.png", err);
}

/* Draws a mask alone, in its own size. If the item's own picture is available, also draws the mask
 * over that picture, enlarged if it is small. Of a stack, also draws the middle planes. The names
 * of the files cannot collide with those of other items' files, since no item's name has a plus
 * sign. */
static tc_status draw_mask(drawing *d, const char *folder, tc_err *err)
{
    return_if_error(d->pixels.nx > 0 ? draw_labels(d, folder, err)
                                     : draw_slices(d, folder, black_or_white, 0 /* not enlarged */,
                                                   ".png", err));
    if (d->pixels.nx > 0)
        return_if_error(draw_slices(d, folder, black_or_white, 0, "+plain.png", err));
    return d->nz > 1 ? draw_planes(d, folder, err) : TC_OK;
}

/* --- all pictures ---------------------------------------------------------------------------- */

static tc_status draw_picture(drawing *d, const char *folder, tc_err *err)
{
    switch (d->declared->role) {
    case WU_MAP: return draw_map(d, folder, err);
    case WU_MASK: return draw_mask(d, folder, err);
    default: return draw_labels(d, folder, err);
    }
}

tc_status wu_export_pictures(const wu_result_file *file, const wu_job *images, const char *folder,
                             bool *used, size_t *written, tc_err *err)
{
    tc_status status = TC_OK;
    for (size_t k = 0; k < file->n_items * file->n_declared && status == TC_OK; k++) {
        const wu_declaration *const declared = &file->declared[k % file->n_declared];
        const size_t item = k / file->n_declared;
        wu_show_progress("images drawn", item, file->n_items);
        drawing d = { .written = 0 };
        size_t index = 0;
        if (!wu_is_picture(declared->role))
            continue;
        status = wu_find_declared_array(file, declared, file->item_names[item], &index, err);
        if (status == TC_OK)
            status = load_array(file, declared, item, index, &d, err);
        if (status == TC_OK && images != NULL)
            status = load_picture(images, &d, err);
        if (status == TC_OK)
            status = draw_picture(&d, folder, err);
        *written += d.written;
        free_drawing(&d);
        used[index] = used[index] || status == TC_OK;
    }
    wu_show_progress("images drawn", 1, 1);
    return status;
}
