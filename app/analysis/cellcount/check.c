/* cellcount: checks, without the picture's pixels, whether the arrays of a result agree with each
 * other and with the parameters, and have values that a picture can give. */
#include <stdlib.h>

#include "app/analysis/cellcount/cellcount.h"
#include "app/analysis/cellcount/core.h"
#include "app/analysis/check.h"

/* --- the table ------------------------------------------------------------------------------- */

/* A row of the table: a region. */
typedef struct row {
    int64_t label, area, y0, x0, y1, x1;
    double cy, cx, mean;
    bool border;
} row;

/* The columns of the table, which has n rows. */
typedef struct table {
    size_t n;
    const int64_t *label, *area, *bbox;
    const double *centroid, *mean;
    const uint8_t *border;
} table;

static table table_of(const wu_output *out)
{
    return (table){ .n = (size_t)wu_output_find(out, "region_item")->info.shape[0],
                    .label = wu_output_data(out, "region_label"),
                    .area = wu_output_data(out, "region_area"),
                    .bbox = wu_output_data(out, "region_bbox"),
                    .centroid = wu_output_data(out, "region_centroid"),
                    .mean = wu_output_data(out, "region_mean"),
                    .border = wu_output_data(out, "region_border") };
}

static row row_of(const table *t, size_t i)
{
    const int64_t *const bbox = t->bbox + 4 * i;

    return (row){ .label = t->label[i],
                  .area = t->area[i],
                  .y0 = bbox[0],
                  .x0 = bbox[1],
                  .y1 = bbox[2],
                  .x1 = bbox[3],
                  .cy = t->centroid[2 * i],
                  .cx = t->centroid[2 * i + 1],
                  .mean = t->mean[i],
                  .border = t->border[i] != 0 };
}

/* The functions named ..._fault return a message about what is wrong with a row, or NULL. */
static const char *bbox_fault(const cc_params *p, const wu_item *item, const row *r)
{
    int64_t h, w, least;

    if (r->y0 < 0 || r->x0 < 0 || r->y1 > item->ny || r->x1 > item->nx || r->y0 >= r->y1 ||
        r->x0 >= r->x1)
        return "region_bbox: not a box within the picture";
    h = r->y1 - r->y0;
    w = r->x1 - r->x0;
    /* A region is connected and reaches all sides of its box, of h rows and w columns. So it has at
     * least h + w - 1 pixels or, if it may continue diagonally, as many as the longer side. */
    least = !p->eight_connected ? h + w - 1 : h > w ? h : w;
    if (r->area > h * w || r->area < least)
        return "region_area: does not go with region_bbox";
    return NULL;
}

/* Whether the centroid is the mean of `area` integers from lo to hi - 1. */
static bool centroid_fits(double centroid, int64_t area, int64_t lo, int64_t hi)
{
    int64_t sum;

    return centroid >= (double)lo && centroid <= (double)(hi - 1) &&
           an_is_quotient(centroid, area, &sum);
}

static const char *mean_fault(const cc_params *p, const wu_item *item, int64_t threshold,
                              const row *r)
{
    const double most = item->bits == 8 ? 255 : 65535;
    bool outside;
    int64_t sum;

    if (!(r->mean >= 0 && r->mean <= most) || !an_is_quotient(r->mean, r->area, &sum))
        return "region_mean: not the mean of region_area grey values";
    /* The mean is computed from the original grey values, but the threshold applies to the prepared
     * ones. So the two can be compared only if nothing is prepared and no holes are filled. */
    outside = p->bright ? r->mean<(double)threshold : r->mean>(double)(threshold - 1);
    if (!p->fill_holes && !cc_has_preparation(p) && outside)
        return "region_mean: on the wrong side of the threshold";
    return NULL;
}

static const char *row_fault(const cc_params *p, const wu_item *item, int64_t threshold, size_t i,
                             const row *r)
{
    const char *fault;

    if (r->label != (int64_t)i + 1)
        return "region_label: labels must count from 1";
    if (r->area < 1 || r->area < p->min_area || r->area > p->max_area)
        return "region_area: not within min_area and max_area";
    fault = bbox_fault(p, item, r);
    if (fault != NULL)
        return fault;
    if (!cc_passes_without_contrast(p, r->area, false, r->y1 - r->y0, r->x1 - r->x0))
        return "region_bbox: not within min_fill and max_aspect";
    if (!centroid_fits(r->cy, r->area, r->y0, r->y1) ||
        !centroid_fits(r->cx, r->area, r->x0, r->x1))
        return "region_centroid: not the centroid of region_area pixels in region_bbox";
    if (r->border != cc_at_border((uint32_t)r->x0, (uint32_t)r->y0, (uint32_t)r->x1,
                                  (uint32_t)r->y1, item->nx, item->ny))
        return "region_border: does not go with region_bbox";
    if (r->border && p->exclude_border)
        return "region_border: regions at the border are excluded";
    return mean_fault(p, item, threshold, r);
}

static tc_status check_table(const cc_params *p, const wu_item *item, const wu_output *out,
                             tc_err *err)
{
    const table t = table_of(out);
    const size_t n = t.n;
    const int64_t threshold = *(const int64_t *)wu_output_data(out, "threshold");
    cc_params resolved = *p;
    uint64_t pixels = 0;
    int64_t y0 = 0;

    if (cc_finds_threshold(p) ? threshold < 1 || threshold >= 1 << item->bits
                              : threshold != (int64_t)cc_threshold(p, item->bits))
        return tc_fail(err, TC_BAD_INPUT, "threshold: %lld is not possible", (long long)threshold);
    if (p->window_auto) {
        const int64_t window = *(const int64_t *)wu_output_data(out, "window");

        if (window < 3 || window > 2 * CC_MOST_RADIUS + 1 || window % 2 == 0)
            return tc_fail(err, TC_BAD_INPUT, "window: %lld is not possible", (long long)window);
    }
    if (p->min_area_auto) {
        const int64_t least = *(const int64_t *)wu_output_data(out, "min_area");

        if (least < 1 || least > (int64_t)item->nx * item->ny)
            return tc_fail(err, TC_BAD_INPUT, "min_area: %lld is not possible", (long long)least);
    }
    if (*(const int64_t *)wu_output_data(out, "count") != (int64_t)n)
        return tc_fail(err, TC_BAD_INPUT, "count: is %lld, but there are %zu regions",
                       (long long)*(const int64_t *)wu_output_data(out, "count"), n);
    resolved.min_area =
        p->min_area_auto ? *(const int64_t *)wu_output_data(out, "min_area") : p->min_area;
    for (size_t i = 0; i < n; i++) {
        const row r = row_of(&t, i);
        const char *fault = row_fault(&resolved, item, threshold, i, &r);

        /* Regions are numbered by their first pixels, row by row. */
        if (fault == NULL && r.y0 < y0)
            fault = "region_bbox: the regions are not in the order of their first pixels";
        if (fault != NULL)
            return tc_fail(err, TC_BAD_INPUT, "region %zu: %s", i + 1, fault);
        y0 = r.y0;
        pixels += (uint64_t)r.area;
    }
    if (pixels > (uint64_t)item->nx * item->ny)
        return tc_fail(err, TC_BAD_INPUT, "region_area: more pixels than the picture has");
    return TC_OK;
}

/* --- the label image ------------------------------------------------------------------------- */

/* Whether the pixels of a label have the area, box and centroid of row r. */
static bool same_region(const an_extent *e, const row *r)
{
    return e->voxels == r->area && e->lo[1] == r->y0 && e->lo[2] == r->x0 && e->hi[1] == r->y1 &&
           e->hi[2] == r->x1 && (double)e->sum[1] / (double)e->voxels == r->cy &&
           (double)e->sum[2] / (double)e->voxels == r->cx;
}

static tc_status check_labels(const cc_params *p, const wu_item *item, const wu_output *out,
                              tc_err *err)
{
    const wu_out_array *const labels = &out->arrays[out->n - 1];
    const an_separation separation = p->split             ? AN_MAY_TOUCH
                                     : p->eight_connected ? AN_APART_8
                                                          : AN_APART_4;
    const table t = table_of(out);
    const size_t n = t.n;
    TC_AUTOFREE an_extent *const extents = calloc(n + 1, sizeof *extents);
    if (extents == NULL)
        return tc_no_memory(err, "the regions");

    return_if_error(an_read_labels(labels, item, separation, (int32_t)n, extents, err));
    for (size_t i = 0; i < n; i++) {
        const row r = row_of(&t, i);

        if (!same_region(&extents[i + 1], &r))
            return tc_fail(err, TC_BAD_INPUT, "region %zu: area, box or centroid differs from %s",
                           i + 1, labels->info.name);
    }
    return TC_OK;
}

tc_status cc_check_result(const void *params, const wu_item *item, const wu_output *out,
                          tc_err *err)
{
    cc_params resolved = *(const cc_params *)params, *const p = &resolved;

    if (p->polarity == CC_AUTO)
        resolved.bright = *(const uint8_t *)wu_output_data(out, "bright") != 0;
    return_if_error(check_table(p, item, out, err));

    return p->labels ? check_labels(p, item, out, err) : TC_OK;
}
