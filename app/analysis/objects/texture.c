/* objects: grey levels and pairs of an object, and from its matrices to the columns. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/objects/core.h"
#include "app/analysis/objects/objects.h"

tc_status obj_pairs_init(const obj_params *p, obj_pairs *pairs, tc_err *err)
{
    const size_t cells = (size_t)p->levels * (size_t)p->levels;

    pairs->n = 0;
    pairs->count = calloc(cells, sizeof *pairs->count);
    pairs->touched = malloc((cells + 1) * sizeof *pairs->touched);
    return pairs->count == NULL || pairs->touched == NULL ? tc_no_memory(err, "a matrix") : TC_OK;
}

void obj_pairs_free(obj_pairs *pairs)
{
    free(pairs->count);
    free(pairs->touched);
    *pairs = (obj_pairs){ .count = NULL };
}

void obj_range_of(const obj_item *o, uint32_t *lo, uint32_t *hi)
{
    const obj_params *const p = o->params;

    if (p->range == OBJ_RANGE_FIXED) {
        *lo = (uint32_t)p->range_ends[0];
        *hi = (uint32_t)p->range_ends[1];
    } else if (p->range != OBJ_RANGE_OBJECT) {
        *lo = p->range == OBJ_RANGE_IMAGE ? o->lo : 0;
        *hi = p->range == OBJ_RANGE_IMAGE ? o->hi : (1u << o->pixels->bits) - 1;
    }
}

void obj_quantise(const obj_item *o, const obj_run *runs, size_t n, uint32_t lo, uint32_t hi)
{
    const wu_pixels *const px = o->pixels;
    const obj_params *const p = o->params;

    obj_range_of(o, &lo, &hi);
    for (size_t i = 0; i < n; i++) {
        const size_t row = ((size_t)OBJ_RUN_Z(runs[i]) * px->ny + OBJ_RUN_Y(runs[i])) * px->nx;

        for (size_t x = row + OBJ_RUN_X0(runs[i]); x <= row + OBJ_RUN_X1(runs[i]); x++)
            o->quantised[x] = obj_level(obj_grey(px, x), lo, hi, (uint32_t)p->levels);
    }
}

/* Pairs of levels a[i], b[i] where their labels agree. */
static size_t add_pairs(const uint8_t *a, const uint8_t *b, const uint32_t *labels, uint32_t label, uint32_t n,
                        uint32_t levels, obj_pairs *pairs)
{
    uint32_t *const count = pairs->count, *const touched = pairs->touched;
    size_t used = pairs->n;

    for (uint32_t i = 0; i < n; i++)
        if (labels[i] == label) {
            const uint32_t cell = obj_cell(a[i], b[i], levels);

            /* One more is written than is kept: no branch. */
            touched[used] = cell;
            used += count[cell]++ == 0;
        }
    return used;
}

void obj_pairs_add(const obj_item *o, const obj_run *runs, size_t n, obj_step step, obj_pairs *pairs)
{
    const wu_pixels *const px = o->pixels;

    for (size_t i = 0; i < n; i++) {
        const uint32_t z = OBJ_RUN_Z(runs[i]), y = OBJ_RUN_Y(runs[i]);
        const uint32_t *const there = obj_labels(px, (int64_t)z + step.dz, (int64_t)y + step.dy);
        const size_t row = ((size_t)z * px->ny + y) * px->nx;
        int64_t x0 = OBJ_RUN_X0(runs[i]), x1 = OBJ_RUN_X1(runs[i]);
        const uint32_t label = px->labels[row + (size_t)x0];

        x0 = x0 + step.dx < 0 ? -step.dx : x0;
        x1 = x1 + step.dx >= px->nx ? (int64_t)px->nx - 1 - step.dx : x1;
        if (there != NULL && x0 <= x1)
            pairs->n = add_pairs(o->quantised + row + x0, o->quantised + (there - px->labels) + x0 + step.dx,
                                 there + x0 + step.dx, label, (uint32_t)(x1 - x0 + 1), (uint32_t)o->params->levels,
                                 pairs);
    }
}

void obj_pairs_merge(obj_pairs *pairs, obj_pairs *other)
{
    for (size_t i = 0; i < other->n; i++) {
        const uint32_t cell = other->touched[i];

        if (pairs->count[cell] == 0)
            pairs->touched[pairs->n++] = cell;
        pairs->count[cell] += other->count[cell];
        other->count[cell] = 0;
    }
    other->n = 0;
}

void obj_pairs_take(const obj_item *o, obj_pairs *pairs, cooc_sums *sums)
{
    const uint32_t levels = (uint32_t)o->params->levels;

    memset(sums, 0, sizeof *sums);
    for (size_t i = 0; i < pairs->n; i++) {
        const uint32_t cell = pairs->touched[i];

        cooc_add(sums, &o->logs, cell / levels, cell % levels, pairs->count[cell]);
        pairs->count[cell] = 0;
    }
    pairs->n = 0;
}

void obj_texture_add(const obj_item *o, obj_texture *t, const cooc_sums *sums)
{
    double feature[COOC_FEATURES];

    if (sums->pairs == 0)
        return;
    cooc_features(sums, &o->logs, (unsigned)o->params->levels, feature);
    for (int f = 0; f < COOC_FEATURES; f++)
        t->sum[f] += feature[f];
    t->directions++;
}

void obj_put_texture(const obj_item *o, const obj_texture *t, size_t distance, obj_row *row)
{
    const obj_params *const p = o->params;
    uint64_t *at = row->words + obj_texture_at(p, o->item) + distance * p->n_features;

    for (int f = 0; f < COOC_FEATURES; f++)
        if ((p->features >> f & 1) != 0)
            at = obj_put_real(at, t->directions == 0 ? (double)NAN : t->sum[f] / t->directions);
}
