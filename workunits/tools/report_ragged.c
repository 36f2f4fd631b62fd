/* Finds images whose regions have ragged outlines, as they have with a wrong threshold: more than
 * half of the regions are indented, that is, fill less of their convex hulls than cells do.
 * Indented regions that are larger than the median are counted as merged: they are likely several
 * cells that touch. Regions that are several times as large as the median are counted, too,
 * whatever their outlines. */
#include <assert.h>
#include <stdlib.h>

#include "app/base/os.h"
#include "app/base/pool.h"
#include "workunits/tools/report.h"

enum {
    LEAST_REGIONS = 8, /* images with fewer regions are not judged */
    MERGED_PART = 20,  /* merged regions are reported if they exceed 1/MERGED_PART of all regions */
    LEAST_PERCENT = 92,   /* a region is indented if it fills less than this share, in %, of its
                             convex hull; round and oval cells fill 95 % */
    MOST_PIXELS = 1 << 24 /* the most pixels of a picture that are read; of a larger picture, only
                             the first rows are read */
};

/* The centre of a pixel. */
typedef struct point {
    int32_t y, x; /* below MOST_PIXELS */
} point;

/* The left or right half of a convex hull. */
typedef struct side {
    size_t n, room;
    point *corner; /* [n] with ascending y; owned */
} side;

/* A region. Its rows are read from the top down. */
typedef struct region {
    int64_t area;      /* number of pixels read so far */
    int32_t y, x0, x1; /* the last row read, from x0 to x1 inclusive; not yet added to `sides` */
    side sides[2];     /* left and right side of the convex hull of its pixels' centres */
} region;

/* The cross product of the vectors from a to b and from a to c. */
static int64_t cross_product(point a, point b, point c)
{
    return (int64_t)(b.x - a.x) * (c.y - a.y) - (int64_t)(b.y - a.y) * (c.x - a.x);
}

/* Adds the point p to a side by Andrew's monotone chain algorithm. p must not be above the point
 * added before. sign: -1 for the left side, 1 for the right. Returns false if there is no memory.
 */
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
    /* Drops corners that would not be convex any more. */
    while (s->n > 1 && sign * cross_product(s->corner[s->n - 2], s->corner[s->n - 1], p) <= 0)
        s->n--;
    s->corner[s->n++] = p;
    return true;
}

/* Adds the region's last row to its sides. Returns false if there is no memory. */
static bool end_row(region *r)
{
    return r->area == 0 || (add_corner(&r->sides[0], (point){ r->y, r->x0 }, -1) &&
                            add_corner(&r->sides[1], (point){ r->y, r->x1 }, 1));
}

/* Adds pixels [x, end) of row y to the region of their label, 1 to n; other labels are ignored.
 * Returns false if there is no memory. */
static inline bool add_run(region *regions, size_t n, uint32_t label, int32_t y, int32_t x,
                           int32_t end)
{
    if (label == 0 || label > n)
        return true;
    region *const r = &regions[label - 1];
    if (r->area == 0 || r->y != y) {
        if (!end_row(r))
            return false;
        r->y = y;
        r->x0 = x;
    }
    r->x1 = end - 1;
    r->area += end - x;
    return true;
}

/* Adds a row of labels to the n regions. Returns false if there is no memory. */
static bool add_row(region *regions, size_t n, const uint32_t *row, uint32_t nx, int32_t y)
{
    bool good = true;
    for (uint32_t x = 0, end; good && x < nx; x = end) {
        end = (uint32_t)wu_label_run_end(row, x, nx);
        good = add_run(regions, n, row[x], y, (int32_t)x, (int32_t)end);
    }
    return good;
}

/* Adds all rows of a picture that is given as runs of equal labels, and samples them into `out` if
 * out->grid is not NULL. row: a buffer for nx labels. Returns false if there is no memory. */
static bool add_runs(region *regions, size_t n, const wu_label_run *runs, size_t n_runs,
                     const wu_sample_grid *out, uint32_t nx, uint32_t *row)
{
    uint32_t y = 0, x = 0;
    bool good = true;
    for (size_t i = 0; good && i < n_runs; i++)
        for (uint32_t left = runs[i].n, part; good && left > 0; left -= part) {
            part = left < nx - x ? left : nx - x;
            good = add_run(regions, n, runs[i].label, (int32_t)y, (int32_t)x, (int32_t)(x + part));
            if (out->grid != NULL && wu_row_is_sampled(out, y))
                for (uint32_t k = x; k < x + part; k++)
                    row[k] = runs[i].label;
            x += part;
            if (x < nx)
                continue;
            if (out->grid != NULL)
                wu_sample_row(out, y, row, true /* labels */);
            x = 0;
            y++;
        }
    return good;
}

/* Eight times the area, in pixels, of the convex hull of the midpoints of the pixels' sides. This
 * hull is the Minkowski sum of the hull of the pixels' centres and of a square that stands on its
 * corner and has diagonals of one pixel. So its area is the sum of three: the area of the hull of
 * the centres; for each edge of that hull, half of max(|dx|, |dy|); the area of the square, 1/2. */
static int64_t hull_area(const region *r)
{
    const side *const left = &r->sides[0], *const right = &r->sides[1];
    int64_t twice = 0;   /* twice the area of the hull of the centres */
    int64_t extents = 0; /* sum of max(|dx|, |dy|) of all edges */
    assert(left->n > 0 && right->n > 0);
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i + 1 < r->sides[k].n; i++) {
            const point p = r->sides[k].corner[i], q = r->sides[k].corner[i + 1];
            const int64_t dx = abs(q.x - p.x), dy = q.y - p.y;
            twice += (k == 0 ? -1 : 1) * dy * (p.x + q.x);
            extents += dx > dy ? dx : dy;
        }
    extents += right->corner[0].x - left->corner[0].x; /* the edges along the first and last row */
    extents += right->corner[right->n - 1].x - left->corner[left->n - 1].x;
    return 4 * twice + 4 * extents + 4; /* 8 (twice / 2 + extents / 2 + 1/2) */
}

/* Reads the label picture in array `index` into the n regions, and samples it into `out` if
 * out->grid is not NULL. Reads the labels from r->runs, the file of runs that belongs to the
 * result, if this file has them; else from the NPZ. */
static tc_status read_labels(const wu_report *r, size_t index, region *regions, size_t n,
                             const wu_sample_grid *out, tc_err *err)
{
    const wu_array_info *const info = wu_npz_array_info(r->file->npz, index);
    const uint64_t ny = info->shape[0];
    const uint32_t nx = (uint32_t)info->shape[1];
    uint32_t *const row = malloc((size_t)nx * sizeof *row + 1);
    size_t n_runs = 0;
    TC_AUTOFREE wu_label_run *const runs =
        wu_run_reader_load(r->runs, wu_npz_array_crc(r->file->npz, index), ny * nx, &n_runs);
    wu_npz_stream *stream = NULL;
    tc_status status = row == NULL    ? tc_no_memory(err, r->page->path)
                       : runs != NULL ? TC_OK
                                      : wu_npz_stream_open(r->file->npz, index, &stream, err);
    bool has_memory = true; /* false after a failed allocation */
    if (status == TC_OK && runs != NULL)
        has_memory = add_runs(regions, n, runs, n_runs, out, nx, row);
    for (uint32_t y = 0;
         status == TC_OK && runs == NULL && y < ny && (uint64_t)y * nx < MOST_PIXELS; y++) {
        status = wu_npz_stream_read(stream, row, (size_t)nx * sizeof *row, err);
        has_memory = has_memory && (status != TC_OK || add_row(regions, n, row, nx, (int32_t)y));
        if (status == TC_OK && out->grid != NULL)
            wu_sample_row(out, y, row, true /* labels */);
    }
    if (status == TC_OK && stream != NULL && out->grid != NULL)
        status = wu_npz_stream_end(stream, err);
    for (size_t i = 0; i < n; i++)
        has_memory = has_memory && end_row(&regions[i]);
    if (status == TC_OK && !has_memory)
        status = tc_no_memory(err, r->page->path);
    wu_npz_stream_close(&stream);
    free(row);
    return status;
}

static int compare_areas(const void *a, const void *b)
{
    const region *const x = a, *const y = b;
    return (x->area > y->area) - (x->area < y->area);
}

/* Returns the number of regions that are likely several cells each, because they are far larger
 * than the median region, which is assumed to be one cell. If the clusters (regions of more than
 * CLUSTER times the median area) hide at least n / MERGED_PART cells, these clusters are counted.
 * Otherwise the pairs (regions of about two cells) are counted, if they are at least n /
 * MERGED_PART and few regions have a size between those of one cell and of two. Otherwise the
 * number is 0. regions: [n], with ascending areas. */
static size_t count_several(const region *regions, size_t n)
{
    enum { CLUSTER = 3 };
    static const double pair = 1.6, single = 1.25; /* least area of a pair, greatest of one cell, as
                                                      multiples of the median area */
    const size_t middle = n / 2;
    const double median = (double)regions[middle].area;
    double hidden = 0; /* number of cells that the clusters contain besides one each */
    size_t clusters = 0, pairs = 0, between = 0;
    for (size_t i = 0; i < n; i++) {
        const double cells = (double)regions[i].area / median;
        clusters += cells > CLUSTER;
        hidden += cells > CLUSTER ? cells - 1 : 0;
        pairs += cells >= pair && cells <= CLUSTER;
        between += cells > single && cells < pair;
    }
    if (MERGED_PART * hidden >= (double)n)
        return clusters;
    return pairs > 1 && MERGED_PART * pairs >= n && 3 * between <= pairs ? pairs : 0;
}

/* Makes the runs of equal labels among n labels, to be freed by free(). Returns NULL if the runs
 * would take as many bytes as the labels, or there is no memory. */
static wu_label_run *runs_of(const uint32_t *labels, size_t n, size_t *n_runs)
{
    wu_label_run *runs = NULL;
    *n_runs = 0;
    for (size_t i = 0; i < n; i = wu_label_run_end(labels, i, n))
        ++*n_runs;
    if (*n_runs * sizeof *runs < n * sizeof *labels)
        runs = malloc(*n_runs * sizeof *runs);
    for (size_t i = 0, end, k = 0; runs != NULL && i < n; i = end) {
        end = wu_label_run_end(labels, i, n);
        runs[k++] = (wu_label_run){ .label = labels[i], .n = (uint32_t)(end - i) };
    }
    return runs;
}

/* Measures the regions of an image, which has `count` of them, and sets *out: the numbers of merged
 * regions and of regions of several cells, whether the outlines are ragged, and the sampled labels
 * as runs (NULL if they are not kept). */
static tc_status find_ragged(const wu_report *r, const wu_declaration *labels, size_t item,
                             size_t count, wu_outlines *out, tc_err *err)
{
    /* Runs are kept only if the samples of all images together are at most MOST_KEPT labels. */
    enum { MOST_KEPT = 1 << 22 };
    const wu_result_file *const file = r->file;
    size_t index, first = 0, n_indented = 0, large = 0;
    if (count < LEAST_REGIONS)
        return TC_OK;
    tc_status status = wu_find_declared_array(file, labels, file->item_names[item], &index, err);
    const wu_array_info *const info = status == TC_OK ? wu_npz_array_info(file->npz, index) : NULL;
    if (status != TC_OK || info->ndim != 2 || info->shape[1] == 0 || info->shape[1] > MOST_PIXELS)
        return status;
    wu_sample_grid kept = wu_report_sample_grid(r, item);
    region *const regions = calloc(count, sizeof *regions);
    if (kept.nx == info->shape[1] && kept.ny == info->shape[0] &&
        (uint64_t)kept.nx * kept.ny <= MOST_PIXELS &&
        (uint64_t)kept.sx * kept.sy * r->n_items <= MOST_KEPT)
        kept.grid = calloc((size_t)kept.sx * kept.sy, sizeof *kept.grid);
    status = regions == NULL ? tc_no_memory(err, r->page->path)
                             : read_labels(r, index, regions, count, &kept, err);
    if (status == TC_OK && kept.grid != NULL)
        out->runs = runs_of(kept.grid, (size_t)kept.sx * kept.sy, &out->n_runs);
    free(kept.grid);
    if (regions != NULL)
        qsort(regions, count, sizeof *regions, compare_areas);
    while (status == TC_OK && first < count && regions[first].area == 0)
        first++;
    const size_t n = count - first;
    for (size_t i = first; status == TC_OK && i < count; i++) {
        /* 800: 100 for percent, times 8 as hull_area is 8 times the area */
        const bool indented = 800 * regions[i].area < LEAST_PERCENT * hull_area(&regions[i]);
        n_indented += indented;
        large += indented && regions[i].area > regions[first + n / 2].area;
    }
    const size_t several = status == TC_OK && n > 0 ? count_several(regions + first, n) : 0;
    for (size_t i = 0; regions != NULL && i < count; i++) {
        free(regions[i].sides[0].corner);
        free(regions[i].sides[1].corner);
    }
    free(regions);
    out->ragged = n >= LEAST_REGIONS && 2 * n_indented > n;
    out->merged = n >= LEAST_REGIONS && MERGED_PART * large > n ? large : 0;
    out->several = n >= LEAST_REGIONS ? several : 0;
    out->n = n;
    return status;
}

/* --- all images ------------------------------------------------------------------------------ */

enum { MAX_THREADS = 8 };

/* The state of wu_report_find_outlines. */
typedef struct finder {
    wu_report *r;
    const wu_declaration *labels;
    const size_t *counts;
    struct fault {
        size_t item; /* the first item for which the thread failed */
        tc_status status;
        tc_err err;
    } faults[MAX_THREADS]; /* the error of each thread */
} finder;

/* Calls find_ragged for one image. A function for an_pool_run; user: a finder. */
static void find_in_image(void *user, unsigned thread, size_t item)
{
    finder *const f = user;
    struct fault *const fault = &f->faults[thread];
    if (fault->status != TC_OK)
        return;
    fault->item = item;
    fault->status =
        find_ragged(f->r, f->labels, item, f->counts[item], &f->r->outlined[item], &fault->err);
}

tc_status wu_report_find_outlines(wu_report *r, const size_t *counts, tc_err *err)
{
    assert(r->outlined == NULL);
    const wu_result_file *const file = r->file;
    finder f = { .r = r, .counts = counts };
    const unsigned processors = os_processors();
    an_pool *pool = NULL;
    r->outlined = calloc(r->n_items + 1, sizeof *r->outlined);
    if (r->outlined == NULL)
        return tc_no_memory(err, "outlines");
    for (size_t i = 0; i < file->n_declared; i++)
        f.labels = file->declared[i].role == WU_LABELS ? &file->declared[i] : f.labels;
    if (f.labels == NULL)
        return TC_OK;
    const unsigned most = r->n_items < MAX_THREADS ? (unsigned)r->n_items : MAX_THREADS;
    const tc_status status = an_pool_create(processors < most ? processors
                                            : most > 0        ? most
                                                              : 1,
                                            &pool, err);
    if (status != TC_OK)
        return status;
    an_pool_run(pool, find_in_image, &f, r->n_items);
    an_pool_destroy(&pool);
    const struct fault *first = &f.faults[0];
    for (size_t i = 1; i < MAX_THREADS; i++)
        if (f.faults[i].status != TC_OK &&
            (first->status == TC_OK || f.faults[i].item < first->item))
            first = &f.faults[i];
    return first->status == TC_OK ? TC_OK : tc_fail(err, first->status, "%s", first->err.message);
}
