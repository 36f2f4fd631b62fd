/* Whether most of an image's regions have ragged outlines, as what is cut from its surroundings
 * at a wrong place has: half of them fill less of their convex hulls than cells do. */
#include <stdlib.h>

#include "workunits/tools/report.h"

enum {
    LEAST_REGIONS = 8,
    LEAST_PERCENT = 92,   /* of the hull, which round and oval cells fill to 95 and more */
    MOST_PIXELS = 1 << 24 /* that are read: of a larger picture the first rows */
};

typedef struct point {
    int64_t y, x;
} point;

/* A side of the convex hull of the middles of the pixels' sides, in half pixels. */
typedef struct side {
    size_t n, room;
    point *corner; /* owned */
} side;

typedef struct region {
    int64_t area, y, x0, x1; /* y, x0, x1: the last row of it, which is in no side yet */
    side sides[2];           /* left, right */
} region;

static int64_t cross_product(point a, point b, point c)
{
    return (b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x);
}

/* By Andrew's monotone chain: p is not above the last one. sign: -1 of the left side, 1 of the
 * right one. */
static bool add_corner(side *s, point p, int sign)
{
    if (s->n == s->room) {
        const size_t room = s->room > 0 ? 2 * s->room : 8;
        point *const bigger = realloc(s->corner, room * sizeof *bigger);
        if (bigger == NULL)
            return false;
        s->corner = bigger;
        s->room = room;
    }
    if (s->n > 0 && s->corner[s->n - 1].y == p.y) {
        if (sign * (p.x - s->corner[s->n - 1].x) <= 0)
            return true;
        s->n--;
    }
    while (s->n > 1 && sign * cross_product(s->corner[s->n - 2], s->corner[s->n - 1], p) <= 0)
        s->n--;
    s->corner[s->n++] = p;
    return true;
}

static bool end_row(region *r)
{
    bool good = true;
    for (int64_t dy = -1; dy <= 1 && good && r->area > 0; dy++)
        good = add_corner(&r->sides[0], (point){ 2 * r->y + dy, 2 * r->x0 - (dy == 0) }, -1) &&
               add_corner(&r->sides[1], (point){ 2 * r->y + dy, 2 * r->x1 + (dy == 0) }, 1);
    return good;
}

/* The runs of a row of labels. */
static bool add_row(region *regions, size_t n, const uint32_t *row, uint32_t nx, int64_t y)
{
    for (uint32_t x = 0, end; x < nx; x = end) {
        const uint32_t label = row[x];
        for (end = x + 1; end < nx && row[end] == label;)
            end++;
        if (label == 0 || label > n)
            continue;
        region *const r = &regions[label - 1];
        if (r->area == 0 || r->y != y) {
            if (!end_row(r))
                return false;
            r->y = y;
            r->x0 = x;
        }
        r->x1 = end - 1;
        r->area += end - x;
    }
    return true;
}

/* Eight times the hull's area in pixels. */
static int64_t hull_area(const region *r)
{
    int64_t sum = 0;
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i + 1 < r->sides[k].n; i++) {
            const point p = r->sides[k].corner[i], q = r->sides[k].corner[i + 1];
            sum += (k == 0 ? -1 : 1) * (p.x + q.x) * (q.y - p.y);
        }
    return sum;
}

static tc_status read_labels(const wu_report *r, size_t index, region *regions, size_t n,
                             tc_err *err)
{
    const wu_array_info *const info = wu_npz_info(r->file->npz, index);
    const uint64_t ny = info->shape[0];
    const uint32_t nx = (uint32_t)info->shape[1];
    uint32_t *const row = malloc((size_t)nx * sizeof *row + 1);
    wu_npz_stream *stream = NULL;
    tc_status status = row == NULL ? tc_no_memory(err, r->page->path)
                                   : wu_npz_stream_open(r->file->npz, index, &stream, err);
    bool good = true;
    for (uint32_t y = 0; status == TC_OK && y < ny && (uint64_t)y * nx < MOST_PIXELS; y++) {
        status = wu_npz_stream_read(stream, row, (size_t)nx * sizeof *row, err);
        good = good && status == TC_OK && add_row(regions, n, row, nx, y);
    }
    for (size_t i = 0; i < n; i++)
        good = good && end_row(&regions[i]);
    if (status == TC_OK && !good)
        status = tc_no_memory(err, r->page->path);
    wu_npz_stream_close(&stream);
    free(row);
    return status;
}

tc_status wu_report_ragged(const wu_report *r, size_t item, size_t count, bool *ragged, tc_err *err)
{
    const wu_result_file *const file = r->file;
    const wu_declared *labels = NULL;
    size_t index, n = 0, few = 0;
    *ragged = false;
    for (size_t i = 0; i < file->n_declared; i++)
        labels = file->declared[i].role == WU_LABELS ? &file->declared[i] : labels;
    if (labels == NULL || count < LEAST_REGIONS || item >= r->n_items)
        return TC_OK;
    tc_status status = wu_find_declared(file, labels, file->item_names[item], &index, err);
    const wu_array_info *const info = status == TC_OK ? wu_npz_info(file->npz, index) : NULL;
    if (status != TC_OK || info->ndim != 2 || info->shape[1] == 0 || info->shape[1] > MOST_PIXELS)
        return status;
    region *const regions = calloc(count, sizeof *regions);
    status = regions == NULL ? tc_no_memory(err, r->page->path)
                             : read_labels(r, index, regions, count, err);
    for (size_t i = 0; status == TC_OK && i < count; i++) {
        n += regions[i].area > 0;
        few +=
            regions[i].area > 0 && 800 * regions[i].area < LEAST_PERCENT * hull_area(&regions[i]);
    }
    for (size_t i = 0; regions != NULL && i < count; i++) {
        free(regions[i].sides[0].corner);
        free(regions[i].sides[1].corner);
    }
    free(regions);
    *ragged = n >= LEAST_REGIONS && 2 * few > n;
    return status;
}
