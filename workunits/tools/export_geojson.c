/* Writes the regions and points of a result as GeoJSON (RFC 7946), which QuPath reads: a file for
 * each item, with coordinates in pixels from the picture's upper left corner. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/base/array.h"
#include "workunits/format/csv.h"
#include "workunits/tools/export.h"
#include "workunits/tools/outline.h"

/* A position in the pixel grid: either a pixel (column x, row y), or the corner that is the upper
 * left corner of this pixel. */
typedef struct grid_position {
    int64_t x, y;
} grid_position;

/* A ring: a closed path around a region, or around a hole in a region, that visits no corner twice.
 */
typedef struct ring {
    uint32_t label;  /* label of the region */
    size_t first, n; /* its corners are rings.corners[first, first + n); the last is equal to the
                        first */
    int64_t area;    /* enclosed area in pixels; negative for a hole */
    grid_position edge_pixel; /* a pixel of the region whose upper side is part of the ring. If the
                                 ring is the border of a hole, the pixel above is in the hole */
    size_t outer;             /* for a hole: index of the ring around it */
} ring;

/* All rings of a slice. */
typedef struct rings {
    size_t n, room, n_corners, corner_room, n_walk, walk_room;
    ring *list;             /* [n] */
    grid_position *corners; /* [n_corners] the corners of all rings */
    grid_position *walk;  /* [n_walk] the corners of the outline that is being traced (the walk), in
                             their order; a corner may occur twice */
    uint32_t *walk_index; /* [ny + 1][nx + 1] for each corner of pixels: its index in `walk` plus 1;
                             0 if it is not in `walk` */
    bool no_memory;
} rings;

/* The file being written. */
typedef struct geojson {
    wu_new_file out;
    size_t features; /* number of features written so far */
} geojson;

/* --- rings ----------------------------------------------------------------------------------- */

/* The signed area that the corners enclose: half the sum of their cross products. */
static int64_t enclosed_area(const grid_position *c, size_t n)
{
    int64_t sum = 0;
    for (size_t i = 0; i + 1 < n; i++)
        sum += c[i].x * c[i + 1].y - c[i + 1].x * c[i].y;
    return sum / 2;
}

/* Appends a corner to the walk. Called by wu_outline_follow; user: the rings. */
static void add_corner(void *user, int64_t x, int64_t y)
{
    rings *const r = user;
    grid_position *const walk = tc_array_grow(r->walk, r->n_walk, &r->walk_room, sizeof *walk);
    if (walk == NULL) {
        r->no_memory = true;
        return;
    }
    r->walk = walk;
    r->walk[r->n_walk++] = (grid_position){ x, y };
}

/* Adds the corners [from, to) of the walk as a closed ring. Returns false if there is no memory. */
static bool add_ring(rings *r, uint32_t label, size_t from, size_t to)
{
    ring *const list = tc_array_grow(r->list, r->n, &r->room, sizeof *list);
    if (list == NULL)
        return false;
    r->list = list;
    ring *const added = &r->list[r->n++];
    *added = (ring){ .label = label, .first = r->n_corners, .n = to - from + 1 };
    for (size_t i = from; i <= to; i++) {
        grid_position *const corners =
            tc_array_grow(r->corners, r->n_corners, &r->corner_room, sizeof *corners);
        if (corners == NULL)
            return false;
        r->corners = corners;
        const grid_position c = r->walk[i < to ? i : from], last = i > from ? r->walk[i - 1] : c;
        if (c.x > last.x) /* where the path goes to the right, the region is below it */
            added->edge_pixel = last;
        r->corners[r->n_corners++] = c;
    }
    added->area = enclosed_area(r->corners + added->first, added->n);
    return true;
}

/* Splits the walk into rings: where it visits a corner for the second time, the part since the
 * first visit becomes a ring. This happens at a corner where a hole touches the outside or another
 * hole, and at the end, where the walk returns to its start. nx: the width of the picture. Returns
 * false if there is no memory. */
static bool split_walk(rings *r, uint32_t label, uint32_t nx)
{
    size_t n = 0;
    bool good = true;
    for (size_t i = 0; i < r->n_walk && good; i++) {
        const grid_position c = r->walk[i];
        uint32_t *const corner_index = &r->walk_index[(size_t)c.y * (nx + (size_t)1) + (size_t)c.x];
        if (*corner_index != 0) {
            const size_t from = *corner_index - 1;
            good = add_ring(r, label, from, n);
            /* Remove the ring from the walk, except for the corner that was visited twice. */
            for (; n > from + 1; n--) {
                const grid_position removed = r->walk[n - 1];
                r->walk_index[(size_t)removed.y * (nx + (size_t)1) + (size_t)removed.x] = 0;
            }
        } else {
            r->walk[n++] = c;
            *corner_index = (uint32_t)n;
        }
    }
    /* What remains is the starting point alone. */
    if (n > 0)
        r->walk_index[(size_t)r->walk[0].y * (nx + (size_t)1) + (size_t)r->walk[0].x] = 0;
    return good;
}

/* Orders rings by label, and the rings of a label in the order in which they were added. */
static int compare_rings(const void *left, const void *right)
{
    const ring *const a = left, *const b = right;
    if (a->label != b->label)
        return a->label < b->label ? -1 : 1;
    return a->first < b->first ? -1 : a->first > b->first;
}

/* Whether the ring `outer` encloses the centre of a pixel, that is, whether a line from there to
 * the left crosses the ring an odd number of times. */
static bool ring_encloses(const rings *r, const ring *outer, grid_position pixel)
{
    bool inside = false;
    for (size_t i = outer->first; i + 1 < outer->first + outer->n; i++) {
        /* Only vertical sides to the left of the pixel, at its height, are crossed. */
        const grid_position *const a = &r->corners[i], *const b = a + 1;
        if (a->x == b->x && a->x <= pixel.x && (a->y <= pixel.y) != (b->y <= pixel.y))
            inside = !inside;
    }
    return inside;
}

/* Sets `outer` of each hole to the smallest ring of its region that encloses it. The rings must be
 * sorted by label. */
static void assign_holes(rings *r)
{
    for (size_t i = 0; i < r->n; i++) {
        ring *const hole = &r->list[i];
        size_t k = i;
        hole->outer = i; /* stands for "none found" */
        if (hole->area > 0)
            continue;
        while (k > 0 && r->list[k - 1].label == hole->label)
            k--;
        for (; k < r->n && r->list[k].label == hole->label; k++) {
            const ring *const outer = &r->list[k];
            if (outer->area > 0 && (hole->outer == i || outer->area < r->list[hole->outer].area) &&
                ring_encloses(r, outer,
                              (grid_position){ hole->edge_pixel.x, hole->edge_pixel.y - 1 }))
                hole->outer = k;
        }
    }
}

/* Finds all rings of a slice, sorted by label. what: names the array in messages. */
static tc_status find_rings(const wu_label_grid *grid, rings *r, const char *what, tc_err *err)
{
    r->n = r->n_corners = 0;
    for (size_t i = 0; i < (size_t)grid->nx * grid->ny; i++) {
        const grid_position pixel = { (int64_t)(i % grid->nx), (int64_t)(i / grid->nx) };
        if (!wu_outline_begins(grid, pixel.x, pixel.y))
            continue;
        r->n_walk = 0;
        wu_outline_follow(grid, pixel.x, pixel.y, add_corner, r);
        if (r->no_memory || !split_walk(r, grid->label[i], grid->nx))
            return tc_no_memory(err, what);
    }
    if (r->n > 0)
        qsort(r->list, r->n, sizeof *r->list, compare_rings);
    assign_holes(r);
    return TC_OK;
}

/* --- features -------------------------------------------------------------------------------- */

static void put_ring(geojson *g, const rings *r, const ring *drawn)
{
    fputc('[', g->out.file);
    for (size_t i = 0; i < drawn->n; i++)
        fprintf(g->out.file, "%s[%" PRId64 ",%" PRId64 "]", i > 0 ? "," : "",
                r->corners[drawn->first + i].x, r->corners[drawn->first + i].y);
    fputc(']', g->out.file);
}

/* Writes a polygon: an outer ring and the holes in it. [from, to): the indices of the region's
 * rings. */
static void put_polygon(geojson *g, const rings *r, size_t outer, size_t from, size_t to)
{
    fputc('[', g->out.file);
    put_ring(g, r, &r->list[outer]);
    for (size_t i = from; i < to; i++)
        if (r->list[i].area < 0 && r->list[i].outer == outer) {
            fputc(',', g->out.file);
            put_ring(g, r, &r->list[i]);
        }
    fputc(']', g->out.file);
}

/* Begins a feature. kind: the GeoJSON type of its geometry. */
static void begin_feature(geojson *g, const char *kind)
{
    fprintf(g->out.file, "%s\n{\"type\":\"Feature\",\"geometry\":{\"type\":\"%s\",\"coordinates\":",
            g->features++ > 0 ? "," : "", kind);
}

/* Ends a feature. z: the index of its slice, which is written as QuPath's "plane" (c: -1 means all
 * channels), or a negative number if the item has no slices. title: is not escaped, as titles
 * consist of a-z, 0-9 and '_'. */
static void end_feature(geojson *g, const char *title, uint64_t number, int64_t z)
{
    if (z >= 0)
        fprintf(g->out.file, ",\"plane\":{\"c\":-1,\"z\":%" PRId64 ",\"t\":0}", z);
    fprintf(g->out.file,
            "},\"properties\":{\"objectType\":\"detection\",\"name\":\"%s %" PRIu64
            "\",\"label\":%" PRIu64 "}}",
            title, number, number);
}

/* Writes each region as a feature. */
static void put_regions(geojson *g, const rings *r, const char *title, int64_t z)
{
    for (size_t from = 0, to; from < r->n; from = to) {
        size_t outers = 0; /* number of rings that are not holes: separate parts of the region */
        for (to = from; to < r->n && r->list[to].label == r->list[from].label; to++)
            outers += r->list[to].area > 0;
        begin_feature(g, outers > 1 ? "MultiPolygon" : "Polygon");
        if (outers > 1)
            fputc('[', g->out.file);
        for (size_t i = from, n = 0; i < to; i++) {
            if (r->list[i].area < 0)
                continue;
            if (n++ > 0)
                fputc(',', g->out.file);
            put_polygon(g, r, i, from, to);
        }
        if (outers > 1)
            fputc(']', g->out.file);
        end_feature(g, title, r->list[from].label, z);
    }
}

/* --- files ----------------------------------------------------------------------------------- */

/* Opens the file NAME.geojson and writes its beginning. end_file must be called, also after a
 * failure. */
static tc_status begin_file(geojson *g, const char *folder, const char *name, tc_err *err)
{
    TC_AUTOFREE char *const path = wu_join_path(folder, name, ".geojson");
    *g = (geojson){ .features = 0 };
    /* The file is listed in the folder, so that the next export may replace it. */
    return_if_error(path == NULL ? tc_no_memory(err, name)
                                 : wu_export_list_file(folder, name, ".geojson", err));
    return_if_error(wu_new_file_open(path, &g->out, err));
    fputs("{\"type\":\"FeatureCollection\",\"features\":[", g->out.file);
    return TC_OK;
}

/* Writes the end of the file and closes it; removes the file if `status` is an error. *written is
 * increased by 1 if the file was written. */
static tc_status end_file(geojson *g, tc_status status, size_t *written, tc_err *err)
{
    const bool is_open = g->out.file != NULL;
    if (is_open)
        fputs("\n]}\n", g->out.file);
    status = wu_new_file_close(&g->out, status, err);
    *written += is_open && status == TC_OK;
    return status;
}

static void free_rings(rings *r)
{
    free(r->list);
    free(r->corners);
    free(r->walk);
    free(r->walk_index);
}

/* Writes the file of an item's labels or mask, slice by slice. */
static tc_status write_regions(const wu_result_file *file, const wu_declaration *d, size_t item,
                               size_t index, const char *folder, size_t *written, tc_err *err)
{
    const wu_array_info *const info = wu_npz_array_info(file->npz, index);
    const uint32_t nx = (uint32_t)info->shape[info->ndim - 1],
                   ny = (uint32_t)info->shape[info->ndim - 2];
    const uint32_t nz = info->ndim == 3 ? (uint32_t)info->shape[0] : 1;
    const size_t n = (size_t)nx * ny;
    TC_AUTOFREE uint32_t *const label = malloc(n * sizeof *label);
    TC_AUTOFREE bool *const traced = malloc(n * sizeof *traced);
    TC_AUTOFREE void *data = NULL;
    TC_AUTO(free_rings) rings r = { .n = 0 };
    geojson g = { .features = 0 };
    r.walk_index = calloc((size_t)(nx + 1) * (ny + 1), sizeof *r.walk_index);
    tc_status status = label == NULL || traced == NULL || r.walk_index == NULL
                           ? tc_no_memory(err, info->name)
                           : wu_npz_load_array(file->npz, index, &data, err);
    if (status == TC_OK)
        status = begin_file(&g, folder, wu_array_file_name(file, d, item, info->name).text, err);
    for (uint32_t z = 0; status == TC_OK && z < nz; z++) {
        for (size_t i = 0; i < n; i++)
            label[i] = d->role == WU_LABELS ? ((const uint32_t *)data)[z * n + i]
                                            : ((const uint8_t *)data)[z * n + i] != 0;
        memset(traced, 0, n * sizeof *traced);
        status = find_rings(&(wu_label_grid){ nx, ny, label, traced }, &r, info->name, err);
        if (status == TC_OK)
            put_regions(&g, &r, d->title != NULL ? d->title : "region",
                        info->ndim == 3 ? (int64_t)z : -1);
    }
    return end_file(&g, status, written, err);
}

/* The index of the slice nearest to z; -1 if no stack can have such a slice. */
static int64_t slice_at(double z)
{
    const double nearest = floor(z + 0.5);
    return nearest >= 0 && nearest < WU_MAX_SIDE ? (int64_t)nearest : -1;
}

/* Writes the file of an item's points. 0.5 is added to x and y, as an integer position is the
 * centre of a pixel in the result, but its upper left corner in the file. */
static tc_status write_points(const wu_result_file *file, const wu_table *table, const wu_points *p,
                              size_t item, const char *folder, size_t *written, tc_err *err)
{
    char name[2 * WU_MAX_NAME];
    geojson g;
    snprintf(name, sizeof name, "%s_%s", table->name, wu_result_item_title(file, item).text);
    const tc_status status = begin_file(&g, folder, name, err);
    for (uint64_t i = 0; status == TC_OK && i < p->n; i++) {
        /* y, x or z, y, x: x is the last element */
        const double *const position = p->position + i * p->dims;
        if (p->item[i] != (int64_t)item || !isfinite(position[0]) || !isfinite(position[1]) ||
            !isfinite(position[p->dims - 1]))
            continue;
        begin_feature(&g, "Point");
        fprintf(g.out.file, "[%.17g,%.17g]", position[p->dims - 1] + 0.5,
                position[p->dims - 2] + 0.5);
        end_feature(&g, table->name, i + 1, p->dims == 3 ? slice_at(position[0]) : -1);
    }
    return end_file(&g, status, written, err);
}

tc_status wu_export_geojson(const wu_result_file *file, const wu_tables *tables, const char *folder,
                            size_t *written, tc_err *err)
{
    tc_status status = TC_OK;
    for (size_t k = 0; k < file->n_items * file->n_declared && status == TC_OK; k++) {
        const wu_declaration *const d = &file->declared[k % file->n_declared];
        size_t index;
        if (d->role != WU_LABELS && d->role != WU_MASK)
            continue;
        status =
            wu_find_declared_array(file, d, file->item_names[k / file->n_declared], &index, err);
        if (status == TC_OK)
            status = write_regions(file, d, k / file->n_declared, index, folder, written, err);
    }
    for (size_t t = 0; status == TC_OK && t < tables->n; t++) {
        wu_points p;
        status = wu_points_load(file, &tables->tables[t], &p, err);
        for (size_t i = 0; status == TC_OK && p.dims > 0 && i < file->n_items; i++)
            status = write_points(file, &tables->tables[t], &p, i, folder, written, err);
        wu_points_free(&p);
    }
    return status;
}
