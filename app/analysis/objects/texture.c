/*
 * objects: computes the texture of an object: the grey levels of its pixels; the co-occurrence
 * matrix, which counts the pairs of levels; and the table's columns from the matrices.
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/objects/core.h"
#include "app/analysis/objects/objects.h"

enum {
    PAIRS_AT_ONCE = 16, /* number of pairs whose cells are computed at a time */
    COLUMNS_AT_ONCE = 4 /* number of cells of a matrix's row that are read at a time */
};
typedef uint8_t pair_levels __attribute__((vector_size(PAIRS_AT_ONCE)));
typedef uint16_t pair_cells __attribute__((vector_size(2 * PAIRS_AT_ONCE)));
typedef uint32_t columns __attribute__((vector_size(4 * COLUMNS_AT_ONCE)));

tc_status obj_pairs_init(const obj_params *p, obj_pairs *pairs, tc_err *err)
{
    const uint32_t levels = (uint32_t)p->levels;
    /* There is at least one column more than there are levels, for pairs whose second pixel is
     * outside the object. With 256 levels there is none, as the level that means outside, 256,
     * would not fit in a uint8_t. The number of columns is a multiple of COLUMNS_AT_ONCE. */
    const uint32_t stride = levels == COOC_MAX_LEVELS
                                ? levels
                                : levels / COLUMNS_AT_ONCE * COLUMNS_AT_ONCE + COLUMNS_AT_ONCE;
    const size_t cells = (size_t)levels * stride;

    pairs->levels = levels;
    pairs->stride = stride;
    pairs->n = 0;
    pairs->count = calloc(cells, sizeof *pairs->count);
    pairs->touched = malloc((cells + 1) * sizeof *pairs->touched);
    pairs->box.bytes = malloc(OBJ_BOX_BYTES + OBJ_PADDING);
    pairs->box.ends[0] = malloc(OBJ_BOX_BYTES + OBJ_PADDING);
    pairs->box.ends[1] = malloc(OBJ_BOX_BYTES + OBJ_PADDING);
    return pairs->count == NULL || pairs->touched == NULL || pairs->box.bytes == NULL ||
                   pairs->box.ends[0] == NULL || pairs->box.ends[1] == NULL
               ? tc_no_memory(err, "a matrix")
               : TC_OK;
}

void obj_pairs_free(obj_pairs *pairs)
{
    free(pairs->count);
    free(pairs->touched);
    free(pairs->box.bytes);
    free(pairs->box.ends[0]);
    free(pairs->box.ends[1]);
    *pairs = (obj_pairs){ .count = NULL };
}

obj_levels obj_levels_of(const obj_item *o)
{
    return (obj_levels){ .level = o->quantised,
                         .row = o->pixels->nx,
                         .slice = (ptrdiff_t)o->pixels->nx * o->pixels->ny };
}

void obj_level_range(const obj_item *o, uint32_t *lo, uint32_t *hi)
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

void obj_quantise(const obj_item *o, const obj_run *runs, size_t n, uint32_t lo, uint32_t hi,
                  const obj_levels *levels)
{
    const wu_pixels *const px = o->pixels;
    uint32_t from = lo, to = hi;
    /* Initialised, as lo and hi of a damaged checkpoint may exclude values of the pixels. */
    uint8_t level[256] = { 0 };
    obj_level_scale spread;

    obj_level_range(o, &from, &to);
    spread = obj_level_scale_of(from, to, (uint32_t)o->params->levels);
    for (uint32_t v = lo; px->bits == 8 && v <= hi; v++)
        level[v] = obj_level(v, &spread);
    for (size_t i = 0; i < n; i++) {
        const size_t start = ((size_t)OBJ_RUN_Z(runs[i]) * px->ny + OBJ_RUN_Y(runs[i])) * px->nx +
                             OBJ_RUN_X0(runs[i]);
        const size_t length = OBJ_RUN_LENGTH(runs[i]);
        uint8_t *const out = obj_level_at(levels, runs[i]);

        if (px->bits == 8) {
            const uint8_t *const v = px->u8 + start;

            for (size_t x = 0; x < length; x++)
                out[x] = level[v[x]];
        } else {
            const uint16_t *const v = px->u16 + start;

            for (size_t x = 0; x < length; x++)
                out[x] = obj_level(v[x], &spread);
        }
    }
}

/* Computes the indices of the cells of PAIRS_AT_ONCE pairs of levels a[i], b[i]: the row of a cell
 * is the lower level, the column the higher one. The higher level is computed as a ^ b ^ lower. */
static void find_cells(const uint8_t *a, const uint8_t *b, uint32_t stride,
                       uint16_t cell[PAIRS_AT_ONCE])
{
    pair_levels first, second, lower;
    pair_cells cells;

    memcpy(&first, a, sizeof first);
    memcpy(&second, b, sizeof second);
    lower = (pair_levels)(first < second);
    lower = (first & lower) | (second & ~lower);
    cells = __builtin_convertvector(lower, pair_cells) * (uint16_t)stride +
            __builtin_convertvector(first ^ second ^ lower, pair_cells);
    memcpy(cell, &cells, sizeof cells);
}

/* Adds 1 to the counts of n cells, where n is 1 to PAIRS_AT_ONCE. */
static inline void count_cells(const uint16_t *cell, size_t n, obj_pairs *pairs)
{
    uint32_t *const count = pairs->count;
    uint16_t *const touched = pairs->touched;
    size_t used = pairs->n;

    if (!pairs->listed) {
#pragma GCC unroll 16
        for (size_t i = 0; i < n; i++)
            count[cell[i]]++;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        /* Without a branch: the cell is always written to the list, but kept only if it is new. */
        touched[used] = cell[i];
        used += count[cell[i]]++ == 0;
    }
    pairs->n = used;
}

/* Counts the n pairs of levels a[i], b[i]. Does not read elements from n on, as another thread may
 * be writing there. */
static void add_pairs(const uint8_t *a, const uint8_t *b, size_t n, obj_pairs *pairs)
{
    uint16_t cell[PAIRS_AT_ONCE];
    size_t i = 0;

    for (; n - i >= PAIRS_AT_ONCE; i += PAIRS_AT_ONCE) {
        find_cells(a + i, b + i, pairs->stride, cell);
        count_cells(cell, PAIRS_AT_ONCE, pairs);
    }
    for (; i < n; i++) {
        const uint8_t lower = a[i] < b[i] ? a[i] : b[i];

        cell[0] = (uint16_t)(lower * pairs->stride + (a[i] ^ b[i] ^ lower));
        count_cells(cell, 1, pairs);
    }
}

/* position_of maps coordinates to a number, in raster order. Rows are 2^POSITION_BITS apart and
 * slices 2^(2 POSITION_BITS), far more than the number of pixels in a row and of rows in a slice.
 * So the sum of a pixel's position and position_of(step) is never the position of a pixel in a
 * wrong row. */
enum { POSITION_BITS = 20 };
static int64_t position_of(int64_t z, int64_t y, int64_t x)
{
    return z * ((int64_t)1 << 2 * POSITION_BITS) + y * ((int64_t)1 << POSITION_BITS) + x;
}

static int64_t first_position(obj_run r)
{
    return position_of(OBJ_RUN_Z(r), OBJ_RUN_Y(r), OBJ_RUN_X0(r));
}

static int64_t last_position(obj_run r)
{
    return position_of(OBJ_RUN_Z(r), OBJ_RUN_Y(r), OBJ_RUN_X1(r));
}

/* The index of the first run that does not end before a position; n if there is no such run. */
static size_t find_run(const obj_run *runs, size_t n, int64_t position)
{
    size_t lo = 0;

    while (lo < n) {
        const size_t middle = (lo + n) / 2;

        if (last_position(runs[middle]) < position)
            lo = middle + 1;
        else
            n = middle;
    }
    return lo;
}

void obj_pairs_add(const obj_levels *levels, const obj_run *runs, size_t n, size_t first,
                   size_t count, obj_step step, obj_pairs *pairs)
{
    assert(first + count <= n);
    const int64_t shift = position_of(step.dz, step.dy, step.dx);
    const ptrdiff_t pixels = obj_step_offset(levels, step);
    /* The index of the first run that can contain second pixels of pairs. It never decreases. */
    size_t candidate = first == 0 ? 0 : find_run(runs, n, first_position(runs[first]) + shift);

    for (size_t i = first; i < first + count; i++) {
        const int64_t begin = first_position(runs[i]) + shift, end = last_position(runs[i]) + shift;
        const uint8_t *const a = obj_level_at(levels, runs[i]);

        while (candidate < n && last_position(runs[candidate]) < begin)
            candidate++;
        for (size_t k = candidate; k < n && first_position(runs[k]) <= end; k++) {
            const int64_t from = first_position(runs[k]) > begin ? first_position(runs[k]) : begin;
            const int64_t to = last_position(runs[k]) < end ? last_position(runs[k]) : end;

            add_pairs(a + (from - begin), a + (from - begin) + pixels, (size_t)(to - from + 1),
                      pairs);
        }
    }
}

/* For each pixel of the runs, copies to `out` the level of the element that is `offset` elements
 * after the pixel's element. Up to OBJ_PADDING - 1 bytes beyond the last one are read and written.
 */
static void copy_levels(const obj_levels *levels, const obj_run *runs, size_t n, ptrdiff_t offset,
                        uint8_t *out)
{
    for (size_t i = 0; i < n; i++) {
        const uint8_t *const from = obj_level_at(levels, runs[i]) + offset;
        const size_t length = OBJ_RUN_LENGTH(runs[i]);

        for (size_t x = 0; x < length; x += OBJ_PADDING)
            memcpy(out + x, from + x, OBJ_PADDING);
        out += length;
    }
}

/* Computes the bounding box of the runs. */
static void find_box(const obj_run *runs, size_t n, obj_box *box)
{
    uint32_t y0 = UINT32_MAX, y1 = 0, x0 = UINT32_MAX, x1 = 0;

    for (size_t i = 0; i < n; i++) {
        y0 = OBJ_RUN_Y(runs[i]) < y0 ? OBJ_RUN_Y(runs[i]) : y0;
        y1 = OBJ_RUN_Y(runs[i]) > y1 ? OBJ_RUN_Y(runs[i]) : y1;
        x0 = OBJ_RUN_X0(runs[i]) < x0 ? OBJ_RUN_X0(runs[i]) : x0;
        x1 = OBJ_RUN_X1(runs[i]) > x1 ? OBJ_RUN_X1(runs[i]) : x1;
    }
    box->from = OBJ_RUN(OBJ_RUN_Z(runs[0]), y0, x0, x1);
    box->size = (obj_step){ (int)(x1 - x0 + 1), (int)(y1 - y0 + 1),
                            (int)(OBJ_RUN_Z(runs[n - 1]) - OBJ_RUN_Z(runs[0]) + 1) };
}

/* In the array, padding with the level that means outside follows each row, the last row of each
 * slice, and the last slice. Along each axis the padding is as long as the longest step, but not
 * longer than the object, as longer steps have no pairs. Padding after a row or slice also serves
 * as padding before the next row or slice; no step leads before the first element. */
bool obj_box_fill(const obj_item *o, const obj_run *runs, size_t n, uint64_t area, uint32_t lo,
                  uint32_t hi, obj_pairs *pairs)
{
    obj_box *const box = &pairs->box;
    int most = 0;
    ptrdiff_t row, slice, bytes;

    for (size_t d = 0; d < o->params->n_distances; d++)
        most = o->params->distances[d] > most ? o->params->distances[d] : most;
    find_box(runs, n, box);
    row = box->size.dx + (most < box->size.dx ? most : box->size.dx);
    slice = row * (box->size.dy + (most < box->size.dy ? most : box->size.dy));
    bytes = slice * (box->size.dz + (most < box->size.dz ? most : box->size.dz));
    if (pairs->stride == pairs->levels || bytes > OBJ_BOX_BYTES ||
        (uint64_t)bytes > OBJ_BOX_SHARE * area)
        return false;
    box->levels = (obj_levels){ .level = box->bytes, .row = row, .slice = slice };
    box->levels.origin = obj_level_at(&box->levels, box->from) - box->bytes;
    memset(box->bytes, (int)pairs->levels, (size_t)bytes);
    obj_quantise(o, runs, n, lo, hi, &box->levels);
    copy_levels(&box->levels, runs, n, 0, box->ends[0]);
    return true;
}

void obj_pairs_add_box(const obj_run *runs, size_t n, uint64_t area, obj_step step,
                       obj_pairs *pairs)
{
    obj_box *const box = &pairs->box;

    if (abs(step.dx) >= box->size.dx || abs(step.dy) >= box->size.dy ||
        abs(step.dz) >= box->size.dz)
        return;
    copy_levels(&box->levels, runs, n, obj_step_offset(&box->levels, step), box->ends[1]);
    add_pairs(box->ends[0], box->ends[1], area, pairs);
}

void obj_pairs_begin(const obj_item *o, obj_pairs *pairs, uint64_t pixels)
{
    const uint64_t most_pairs = pixels * (o->params->merge ? obj_n_directions(o) : 1);

    /* Listing cells saves time if fewer than one in 16 cells can have a pair. */
    pairs->listed = 16 * most_pairs < (uint64_t)pairs->levels * pairs->levels;
}

void obj_pairs_merge(obj_pairs *pairs, obj_pairs *other)
{
    assert(!pairs->listed && !other->listed && pairs->levels == other->levels);
    const size_t cells = (size_t)pairs->levels * pairs->stride;

    for (size_t i = 0; i < cells; i++)
        pairs->count[i] += other->count[i];
    memset(other->count, 0, cells * sizeof *other->count);
}

/* Reads COLUMNS_AT_ONCE elements. */
static columns columns_at(const uint32_t *from)
{
    columns c;

    memcpy(&c, from, sizeof c);
    return c;
}

/* Adds c to COLUMNS_AT_ONCE elements. */
static void add_columns(uint32_t *to, columns c)
{
    const columns sum = columns_at(to) + c;

    memcpy(to, &sum, sizeof sum);
}

/* Adds n entries of the symmetric matrix, each equal to e, to the sums; if e is small, only counts
 * them in pairs->entries. */
static void add_entries(const obj_item *o, obj_pairs *pairs, uint32_t e, uint32_t n,
                        cooc_sums *sums)
{
    if (e < OBJ_ENTRIES)
        pairs->entries[e] += n;
    else
        cooc_add_entries(sums, &o->logs, e, n);
}

/* Adds row a of the matrix to the sums, and clears the row. difference: element COLUMNS_AT_ONCE + d
 * is the number of pairs with b - a = d, where b is the column; the vector that contains column a
 * may begin at a lower column, where d is negative and the counts are 0. Returns a vector; the OR
 * of its elements is the OR of all counts in the row. */
static columns add_and_clear_row(const obj_item *o, obj_pairs *pairs, uint32_t a, cooc_sums *sums,
                                 uint32_t *difference)
{
    uint32_t *const row = pairs->count + (size_t)a * pairs->stride;
    columns row_sums = { 0 }, bits = { 0 };

    if (pairs->levels < pairs->stride)
        row[pairs->levels] = 0; /* pairs with a pixel outside do not count */
    /* In the symmetric matrix a count off the diagonal is two entries, one on the diagonal is one
     * entry of twice the count. */
    add_entries(o, pairs, 2 * row[a], 1, sums);
    for (uint32_t b = a + 1; b < pairs->levels; b++)
        add_entries(o, pairs, row[b], 2, sums);
    /* Columns before the diagonal have no pairs. */
    for (uint32_t b = a / COLUMNS_AT_ONCE * COLUMNS_AT_ONCE; b < pairs->stride;
         b += COLUMNS_AT_ONCE) {
        const columns c = columns_at(row + b);

        memset(row + b, 0, sizeof c);
        row_sums += c;
        bits |= c;
        add_columns(sums->marginal + b, c);
        add_columns(sums->sum + a + b, c);
        add_columns(difference + COLUMNS_AT_ONCE + b - a, c);
    }
    sums->marginal[a] += row_sums[0] + row_sums[1] + row_sums[2] + row_sums[3];
    sums->pairs += row_sums[0] + row_sums[1] + row_sums[2] + row_sums[3];
    return bits;
}

/* Adds all rows to the sums, and clears the matrix. */
static void add_and_clear_matrix(const obj_item *o, obj_pairs *pairs, cooc_sums *sums)
{
    uint32_t difference[COLUMNS_AT_ONCE + COOC_MAX_LEVELS] = { 0 };
    columns bits = { 0 };
    uint32_t most;

    for (uint32_t a = 0; a < pairs->levels; a++)
        bits |= add_and_clear_row(o, pairs, a, sums, difference);
    for (uint32_t k = 0; k < pairs->levels; k++)
        sums->difference[k] += difference[COLUMNS_AT_ONCE + k];
    /* Twice the OR of all counts: an upper bound of the entries of the symmetric matrix. */
    most = 2 * (bits[0] | bits[1] | bits[2] | bits[3]);
    for (uint32_t e = 0; e <= most && e < OBJ_ENTRIES; e++)
        if (pairs->entries[e] > 0) {
            cooc_add_entries(sums, &o->logs, e, pairs->entries[e]);
            pairs->entries[e] = 0;
        }
}

void obj_pairs_to_sums(const obj_item *o, obj_pairs *pairs, cooc_sums *sums)
{
    cooc_clear(sums, pairs->stride);
    if (!pairs->listed)
        add_and_clear_matrix(o, pairs, sums);
    for (size_t i = 0; i < pairs->n; i++) {
        const uint32_t cell = pairs->touched[i], a = cell / pairs->stride, b = cell % pairs->stride;

        if (b < pairs->levels)
            cooc_add(sums, &o->logs, a, b, pairs->count[cell]);
        pairs->count[cell] = 0;
    }
    pairs->n = 0;
}

void obj_texture_add(const obj_item *o, obj_texture *t, const cooc_sums *sums)
{
    double feature[COOC_FEATURES];

    if (sums->pairs == 0)
        return;
    cooc_features(sums, &o->logs, (unsigned)o->params->levels, o->params->features, feature);
    for (int f = 0; f < COOC_FEATURES; f++)
        t->sum[f] += feature[f];
    t->directions++;
}

void obj_put_texture(const obj_item *o, const obj_texture *t, size_t distance, obj_row *row)
{
    assert(distance < o->params->n_distances);
    const obj_params *const p = o->params;
    uint64_t *word = row->words + o->texture_at + distance * p->n_features;

    for (int f = 0; f < COOC_FEATURES; f++)
        if ((p->features >> f & 1) != 0)
            word = obj_put_real(word, t->directions == 0 ? (double)NAN : t->sum[f] / t->directions);
}
