/* volume: checks whether the arrays of a result are consistent with each other, with the parameters
 * and with the size of the stack, without reading the stack's grey values. Functions named
 * ..._fault return a message about what is wrong in a row of the table of cells, or NULL. */
#include <math.h>
#include <stdlib.h>

#include "app/analysis/check.h"
#include "app/analysis/volume/volume.h"

/* Whether a and b are the same number. Unlike ==, it distinguishes -0 from 0, which other programs
 * print differently. */
static bool is_same(double a, double b)
{
    return a == b && (signbit(a) != 0) == (signbit(b) != 0);
}

/* --- the table ------------------------------------------------------------------------------- */

/* A row of the table, which describes a cell. The fields have the values of the columns named
 * cell_...; lo and hi are the bounding box, in the order z, y, x; hi is exclusive. */
typedef struct row {
    int64_t label, voxels;
    const int64_t *lo, *hi;
    const double *centroid;
    double volume;
    bool border;
} row;

/* The columns of the table, which has n rows. */
typedef struct table {
    size_t n;
    const int64_t *label, *voxels, *bbox;
    const double *centroid, *volume;
    const uint8_t *border;
} table;

static table table_of(const wu_output *out)
{
    return (table){ .n = (size_t)wu_output_find(out, "cell_item")->info.shape[0],
                    .label = wu_output_data(out, "cell_label"),
                    .voxels = wu_output_data(out, "cell_voxels"),
                    .bbox = wu_output_data(out, "cell_bbox"),
                    .centroid = wu_output_data(out, "cell_centroid"),
                    .volume = wu_output_data(out, "cell_volume"),
                    .border = wu_output_data(out, "cell_border") };
}

static row row_of(const table *t, size_t i)
{
    return (row){ .label = t->label[i],
                  .voxels = t->voxels[i],
                  .lo = t->bbox + 6 * i,
                  .hi = t->bbox + 6 * i + 3,
                  .centroid = t->centroid + 3 * i,
                  .volume = t->volume[i],
                  .border = t->border[i] != 0 };
}

/* The least number of voxels of a cell with this bounding box. A cell is connected through faces,
 * or with p->corners through corners. So the smallest cell is a path between opposite corners of
 * the box: through faces it takes side - 1 steps along each axis; through corners as many steps as
 * along the longest side. But a watershed without `fill` removes membrane voxels from cells, after
 * which only the two ends of the path may be left. */
static int64_t least_voxels(const vol_params *p, const row *r)
{
    int64_t face_path = 1, longest = 1;

    for (int k = 0; k < 3; k++) {
        const int64_t side = r->hi[k] - r->lo[k];

        face_path += side - 1;
        longest = side > longest ? side : longest;
    }
    if (p->watershed && !p->fill)
        return longest > 1 ? 2 : 1;
    return p->corners ? longest : face_path;
}

/* Checks the bounding box. With method threshold, non-membrane voxels at the border of the stack
 * (or of their slice) belong to the outside, so cells do not touch the border: margin is 1. A
 * watershed has no outside. */
static const char *bbox_fault(const vol_params *p, const wu_item *item, const row *r)
{
    const int64_t size[3] = { item->nz, item->ny, item->nx };
    int64_t box = 1;

    for (int k = 0; k < 3; k++) {
        const int64_t margin = !p->watershed && (k > 0 || p->is_3d) ? 1 : 0;

        if (r->lo[k] < margin || r->hi[k] > size[k] - margin || r->lo[k] >= r->hi[k])
            return "cell_bbox: is empty or reaches the outside";
        box *= r->hi[k] - r->lo[k];
    }
    if (!p->is_3d && r->hi[0] != r->lo[0] + 1)
        return "cell_bbox: with mode \"slices\" a cell is in a single slice";
    if (r->voxels > box || r->voxels < least_voxels(p, r))
        return "cell_voxels: does not go with cell_bbox";
    return NULL;
}

/* Whether the bounding box touches the border of the stack. */
static bool at_border(const wu_item *item, const row *r)
{
    return r->lo[0] == 0 || r->lo[1] == 0 || r->lo[2] == 0 || r->hi[0] == item->nz ||
           r->hi[1] == item->ny || r->hi[2] == item->nx;
}

/* Checks row i of the table. */
static const char *row_fault(const vol_params *p, const wu_item *item, size_t i, const row *r)
{
    const char *fault;

    if (r->label != (int64_t)i + 1)
        return "cell_label: labels must count from 1";
    if (r->voxels < 1 || r->voxels < p->min_voxels || r->voxels > p->max_voxels)
        return "cell_voxels: not within min_voxels and max_voxels";
    fault = bbox_fault(p, item, r);
    if (fault != NULL)
        return fault;
    for (int k = 0; k < 3; k++) {
        int64_t sum;

        if (!(r->centroid[k] >= (double)r->lo[k] && r->centroid[k] <= (double)(r->hi[k] - 1)) ||
            !an_is_quotient(r->centroid[k], r->voxels, &sum))
            return "cell_centroid: cannot be the centroid of cell_voxels voxels in cell_bbox";
    }
    if (!is_same(r->volume, vol_volume(item, r->voxels)))
        return "cell_volume: is not cell_voxels times the volume of a voxel";
    if (r->border != at_border(item, r))
        return "cell_border: does not go with cell_bbox";
    if (r->border && p->exclude_border)
        return "cell_border: cells at the border are excluded";
    return NULL;
}

/* Checks the table, and sets *voxels to the number of voxels of all cells together. */
static tc_status check_table(const vol_params *p, const wu_item *item, const wu_output *out,
                             int64_t *voxels, tc_err *err)
{
    const table t = table_of(out);
    int64_t z0 = 0; /* the first slice of the previous cell */

    *voxels = 0;
    if (vol_read_integer(out, "cells") != (int64_t)t.n)
        return tc_fail(err, TC_BAD_INPUT, "cells: is %lld, but there are %zu cells",
                       (long long)vol_read_integer(out, "cells"), t.n);
    for (size_t i = 0; i < t.n; i++) {
        const row r = row_of(&t, i);
        const char *fault = row_fault(p, item, i, &r);

        /* Cells are numbered by their first voxels, slice by slice. */
        if (fault == NULL && r.lo[0] < z0)
            fault = "cell_bbox: the cells are not in the order of their first voxels";
        if (fault != NULL)
            return tc_fail(err, TC_BAD_INPUT, "cell %zu: %s", i + 1, fault);
        z0 = r.lo[0];
        *voxels += r.voxels;
    }
    return TC_OK;
}

/* --- numbers of voxels of each kind ---------------------------------------------------------- */

/* Checks the numbers of voxels of each kind. voxels: the number of voxels of all cells together. */
static tc_status check_totals(const vol_params *p, const wu_item *item, const wu_output *out,
                              int64_t voxels, tc_err *err)
{
    const int64_t n = (int64_t)item->nx * item->ny * item->nz,
                  left_out = vol_read_integer(out, "left_out_voxels");
    const int64_t inside = vol_read_integer(out, "inside_voxels"),
                  membrane = vol_read_integer(out, "membrane_voxels");
    /* bias: voxels that would be in cells without the repair (vol_repair_bias) */
    const int64_t added = vol_read_integer(out, "repair_added_voxels"),
                  bias = vol_read_integer(out, "repair_bias_voxels");
    static const char *const counts[] = { "inside_voxels",       "membrane_voxels",
                                          "external_voxels",     "left_out_voxels",
                                          "repair_added_voxels", "repair_bias_voxels" };
    tc_status status = TC_OK;

    for (size_t i = 0; status == TC_OK && i < sizeof counts / sizeof counts[0]; i++)
        status = an_check_range(out, counts[i], 0, n, err);
    if (status != TC_OK)
        return status;
    if (p->otsu)
        status = an_check_range(out, "threshold", 1, ((int64_t)1 << item->bits) - 1, err);
    if (status != TC_OK)
        return status;
    if (inside != voxels)
        return an_fail_impossible("inside_voxels", 0, "not the sum of cell_voxels", err);
    if (inside + membrane + vol_read_integer(out, "external_voxels") + left_out != n)
        return an_fail_impossible("external_voxels", 0,
                                  "the numbers of voxels of all kinds do not add up to the stack's",
                                  err);
    if (p->watershed && vol_read_integer(out, "external_voxels") != 0)
        return an_fail_impossible("external_voxels", 0, "a watershed has no outside", err);
    if (p->fill && membrane != 0)
        return an_fail_impossible("membrane_voxels", 0, "with fill all voxels belong to cells",
                                  err);
    if (left_out > 0 && p->min_voxels <= 1 && p->max_voxels == INT64_MAX && !p->exclude_border)
        return an_fail_impossible("left_out_voxels", 0, "nothing was to be left out", err);
    if (added > (p->repair ? membrane : 0))
        return an_fail_impossible("repair_added_voxels", 0, "more than can have been added", err);
    if (bias > added)
        return an_fail_impossible("repair_bias_voxels", 0, "more than repair_added_voxels", err);
    if (!is_same(*(const double *)wu_output_data(out, "voxel_volume"), vol_volume(item, 1)))
        return an_fail_impossible("voxel_volume", 0, "does not follow from spacing", err);
    if (!is_same(*(const double *)wu_output_data(out, "volume"), vol_volume(item, inside)))
        return an_fail_impossible("volume", 0, "is not inside_voxels times voxel_volume", err);
    return TC_OK;
}

/* --- the labels ------------------------------------------------------------------------------ */

/* Whether the voxels with the cell's label have the number, bounding box and centroid that the row
 * states. */
static bool same_cell(const an_extent *e, const row *r)
{
    bool good = e->voxels == r->voxels;

    for (int k = 0; good && k < 3; k++)
        good = e->lo[k] == r->lo[k] && e->hi[k] == r->hi[k] &&
               is_same((double)e->sum[k] / (double)e->voxels, r->centroid[k]);
    return good;
}

/* Checks the array of labels against the table: the voxels of each label, and that cells do not
 * touch where they must be separated by membrane. */
static tc_status check_labels(const vol_params *p, const wu_item *item, const wu_output *out,
                              tc_err *err)
{
    const wu_out_array *const labels = &out->arrays[out->n - 1]; /* see vol_declare_arrays */
    const an_separation separation = p->watershed ? AN_MAY_TOUCH
                                     : p->is_3d   ? AN_APART_6
                                                  : AN_APART_4;
    const table t = table_of(out);
    TC_AUTOFREE an_extent *const extents = calloc(t.n + 1, sizeof *extents);
    return_if_error(extents == NULL
                        ? tc_no_memory(err, "the cells")
                        : an_read_labels(labels, item, separation, (int32_t)t.n, extents, err));

    for (size_t i = 0; i < t.n; i++) {
        const row r = row_of(&t, i);

        if (!same_cell(&extents[i + 1], &r))
            return tc_fail(err, TC_BAD_INPUT,
                           "cell %zu: voxels, box or centroid are not those of %s", i + 1,
                           labels->info.name);
    }
    return TC_OK;
}

tc_status vol_check_result(const void *params, const wu_item *item, const wu_output *out,
                           tc_err *err)
{
    const vol_params *const p = params;
    int64_t voxels = 0;
    return_if_error(check_table(p, item, out, &voxels, err));

    return_if_error(check_totals(p, item, out, voxels, err));
    return p->labels ? check_labels(p, item, out, err) : TC_OK;
}
