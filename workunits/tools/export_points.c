/* Draws the points of a result over the pictures of its work unit. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "workunits/tools/canvas.h"
#include "workunits/format/csv.h"
#include "workunits/tools/export.h"

#define ANY_Z 1e9 /* larger than any z: all points are in [-ANY_Z, ANY_Z) */
enum {
    MAX_SLICES = 36, /* greatest number of slices of a stack that are drawn side by side */
    ARM = 3,         /* length of the arms of a cross, in pixels of the canvas */
    GAP = 4          /* gap between slices, in pixels of the canvas */
};

static const wu_rgb point_colour = { 255, 70, 40 }, background = { 214, 214, 214 };

tc_status wu_points_load(const wu_result_file *file, const wu_table *table, wu_points *p,
                         tc_err *err)
{
    const wu_table_array *coordinates = NULL;
    void *data = NULL;
    *p = (wu_points){ .n = 0 };
    for (size_t i = 0; i < table->n_arrays; i++)
        coordinates =
            table->arrays[i].declared->role == WU_POSITION ? &table->arrays[i] : coordinates;
    if (coordinates == NULL || !table->has_item_array)
        return TC_OK;
    p->dims = coordinates->info->shape[1];
    if (table->rows == 0)
        return TC_OK;
    tc_status status = wu_npz_load_array(file->npz, coordinates->index, &data, err);
    p->position = data;
    data = NULL;
    /* arrays[0] of such a table has the item of each row. */
    if (status == TC_OK)
        status = wu_npz_load_array(file->npz, table->arrays[0].index, &data, err);
    p->item = data;
    p->n = status == TC_OK ? table->rows : 0;
    return status;
}

void wu_points_free(wu_points *points)
{
    free(points->position);
    free(points->item);
    *points = (wu_points){ .n = 0 };
}

/* The largest grey value of the slices [z0, z1) at (x, y). */
static unsigned projected_grey(const wu_pixels *px, uint32_t x, uint32_t y, uint32_t z0,
                               uint32_t z1)
{
    unsigned most = 0;
    for (uint32_t z = z0; z < z1; z++) {
        const unsigned v = wu_grey_value(px, ((size_t)z * px->ny + y) * px->nx + x);
        most = v > most ? v : most;
    }
    return most;
}

/* One picture on the canvas: a slice, or the projection of several, with points. */
typedef struct view {
    uint32_t z0, z1;           /* the maximum of the slices [z0, z1) is shown */
    double first, last;        /* the points whose z is in [first, last) are shown */
    unsigned lo, hi;           /* grey values that are shown as black and white */
    uint64_t left, top, scale; /* position on the canvas, and pixels of the canvas per pixel */
    bool has_number;           /* the slice's number is drawn, as there are several slices */
} view;

/* Draws a cross at the position (y, x) of the picture, in pixels; whole numbers are the centres of
 * pixels. Arms are cut at the border of the picture. */
static void draw_cross(wu_canvas *canvas, const view *v, const wu_pixels *px, double y, double x)
{
    const int64_t scale = (int64_t)v->scale, nx = px->nx * scale, ny = px->ny * scale;
    const int64_t cx = (int64_t)floor((x + 0.5) * (double)scale),
                  cy = (int64_t)floor((y + 0.5) * (double)scale);
    for (int i = -ARM; i <= ARM; i++) {
        if (cx + i >= 0 && cx + i < nx && cy >= 0 && cy < ny)
            wu_canvas_set(canvas, v->left + (uint64_t)(cx + i), v->top + (uint64_t)cy,
                          point_colour);
        if (cy + i >= 0 && cy + i < ny && cx >= 0 && cx < nx)
            wu_canvas_set(canvas, v->left + (uint64_t)cx, v->top + (uint64_t)(cy + i),
                          point_colour);
    }
}

/* Draws the picture of a view, its number, and the item's points that it shows. */
static void draw_view(wu_canvas *canvas, const view *v, const wu_pixels *px, const wu_points *p,
                      size_t item)
{
    const unsigned range = v->hi > v->lo ? v->hi - v->lo : 1;
    for (uint32_t y = 0; y < px->ny; y++)
        for (uint32_t x = 0; x < px->nx; x++) {
            const uint8_t grey =
                (uint8_t)((projected_grey(px, x, y, v->z0, v->z1) - v->lo) * 255u / range);
            wu_canvas_fill(canvas, v->left + x * v->scale, v->top + y * v->scale, v->scale,
                           v->scale, (wu_rgb){ grey, grey, grey });
        }
    if (v->has_number)
        wu_canvas_number(canvas, v->left, v->top, px->nx * v->scale, px->ny * v->scale, v->z0);
    for (uint64_t i = 0; i < p->n; i++) {
        const double *const position = p->position + i * p->dims;
        const double z = p->dims == 3 ? position[0] : 0;
        /* Points outside the picture by more than a pixel are left out. The comparisons are negated
         * so that NaN, in a damaged result, is left out, too. */
        if (p->item[i] != (int64_t)item || !(z >= v->first && z < v->last) ||
            !(position[p->dims - 2] >= -1 && position[p->dims - 2] <= px->ny) ||
            !(position[p->dims - 1] >= -1 && position[p->dims - 1] <= px->nx))
            continue;
        draw_cross(canvas, v, px, position[p->dims - 2], position[p->dims - 1]);
    }
}

/* Draws n views in `columns` columns and writes the canvas as the file NAME.png. */
static tc_status write_views(const view *views, size_t n, size_t columns, const wu_pixels *px,
                             const wu_points *p, size_t item, const char *folder, const char *name,
                             tc_err *err)
{
    const uint64_t rows = (n + columns - 1) / columns;
    const uint64_t scale =
        wu_enlargement(columns * (px->nx > px->ny ? px->nx : px->ny), WU_SMALL_SIDE);
    const uint64_t nx = px->nx * scale, ny = px->ny * scale;
    TC_AUTOFREE char *const path = wu_join_path(folder, name, ".png");
    TC_AUTO(wu_canvas_free) wu_canvas canvas = { 0 };
    return_if_error(path == NULL
                        ? tc_no_memory(err, name)
                        : wu_canvas_init(&canvas, columns * nx + (columns - 1) * GAP,
                                         rows * ny + (rows - 1) * GAP, background, name, err));
    for (size_t i = 0; i < n; i++) {
        view v = views[i];
        v.scale = scale;
        v.has_number = n > 1;
        v.left = i % columns * (nx + GAP);
        v.top = i / columns * (ny + GAP);
        draw_view(&canvas, &v, px, p, item);
    }
    return_if_error(wu_export_list_file(folder, name, ".png", err));
    return wu_canvas_write(&canvas, path, err);
}

/* Sets *lo and *hi to the least and the largest grey value. */
static void find_grey_range(const wu_pixels *px, unsigned *lo, unsigned *hi)
{
    const size_t n = (size_t)px->nx * px->ny * px->nz;
    *lo = 65535;
    *hi = 0;
    for (size_t i = 0; i < n; i++) {
        const unsigned v = wu_grey_value(px, i);
        *lo = v < *lo ? v : *lo;
        *hi = v > *hi ? v : *hi;
    }
}

/* Writes TABLE_<item>.png: the image, or the maximum projection of a stack, with all points. For a
 * stack also writes TABLE_<item>_slices.png: several slices, each with the points nearest to it. */
static tc_status draw_item(const wu_job *images, const char *table, const wu_points *p, size_t item,
                           const char *folder, size_t *written, tc_err *err)
{
    const wu_item_title title =
        wu_item_title_of(images->items[item].name, images->items[item].source);
    char name[2 * WU_MAX_NAME];
    TC_AUTO(wu_pixels_free) wu_pixels px = { .nx = 0 };
    view whole_view = { .first = -ANY_Z, .last = ANY_Z }, views[MAX_SLICES];
    return_if_error(wu_item_load(images, item, &px, err));
    find_grey_range(&px, &whole_view.lo, &whole_view.hi);
    whole_view.z1 = px.nz;
    snprintf(name, sizeof name, "%s_%s", table, title.text);
    return_if_error(write_views(&whole_view, 1, 1, &px, p, item, folder, name, err));
    ++*written;
    if (px.nz > 1) {
        const uint32_t n = px.nz < MAX_SLICES ? px.nz : MAX_SLICES;
        for (uint32_t i = 0; i < n; i++) {
            /* evenly spaced, from the first slice to the last */
            const uint32_t z = (uint32_t)((uint64_t)i * (px.nz - 1) / (n - 1));
            views[i] = whole_view;
            views[i].z0 = z;
            views[i].z1 = z + 1;
            /* Each slice shows the points up to the middle between it and the next slice drawn. */
            views[i].first = i == 0 ? -ANY_Z : (views[i - 1].z0 + z) / 2.0;
            if (i > 0)
                views[i - 1].last = views[i].first;
        }
        snprintf(name, sizeof name, "%s_%s_slices", table, title.text);
        return_if_error(
            write_views(views, n, (size_t)ceil(sqrt(n)), &px, p, item, folder, name, err));
        ++*written;
    }
    return TC_OK;
}

tc_status wu_export_points(const wu_result_file *file, const wu_table *table, const wu_job *images,
                           const char *folder, size_t *written, tc_err *err)
{
    TC_AUTO(wu_points_free) wu_points p;
    return_if_error(wu_points_load(file, table, &p, err));
    for (size_t i = 0; p.dims > 0 && i < file->n_items; i++)
        return_if_error(draw_item(images, table->name, &p, i, folder, written, err));
    return TC_OK;
}
