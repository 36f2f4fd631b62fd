/* objects: grey levels and pairs of an object, and from its matrices to the columns. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/objects/core.h"
#include "app/analysis/objects/objects.h"

tc_status obj_pairs_init(const obj_params *p, obj_pairs *pairs, tc_err *err)
{
    const int bits = obj_bits(p);
    const size_t cells = (size_t)1 << 2 * bits;

    pairs->n = 0;
    pairs->bits = bits;
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
    uint32_t from = lo, to = hi;
    uint8_t level[256];
    obj_spread spread;

    obj_range_of(o, &from, &to);
    spread = obj_spread_of(from, to, (uint32_t)o->params->levels);
    for (uint32_t v = lo; px->bits == 8 && v <= hi; v++)
        level[v] = obj_level(v, &spread);
    for (size_t i = 0; i < n; i++) {
        const size_t row = ((size_t)OBJ_RUN_Z(runs[i]) * px->ny + OBJ_RUN_Y(runs[i])) * px->nx;
        const size_t first = row + OBJ_RUN_X0(runs[i]), last = row + OBJ_RUN_X1(runs[i]);

        for (size_t x = first; px->bits == 8 && x <= last; x++)
            o->quantised[x] = level[px->u8[x]];
        for (size_t x = first; px->bits == 16 && x <= last; x++)
            o->quantised[x] = obj_level(px->u16[x], &spread);
    }
}

/* So many pairs, or cells, are taken at once. */
enum { PAIRS = 16, COLUMNS = 4 };
typedef uint8_t pair_levels __attribute__((vector_size(PAIRS)));
typedef uint16_t pair_cells __attribute__((vector_size(2 * PAIRS)));
typedef uint32_t columns __attribute__((vector_size(4 * COLUMNS)));

/* Cells of pairs of levels a[i], b[i]: obj_cell. */
static void find_cells(const uint8_t *a, const uint8_t *b, int bits, uint16_t cell[PAIRS])
{
    pair_levels first, second, lower;
    pair_cells cells;

    memcpy(&first, a, sizeof first);
    memcpy(&second, b, sizeof second);
    lower = (pair_levels)(first < second);
    lower = (first & lower) | (second & ~lower);
    cells = __builtin_convertvector(lower, pair_cells) << bits | __builtin_convertvector(first ^ second ^ lower, pair_cells);
    memcpy(cell, &cells, sizeof cells);
}

/* One more pair in a cell: one more cell that has more than as many as it had. */
static inline void count_pair(uint32_t *count, uint32_t *more)
{
    more[(*count)++]++;
}

/* 1 to PAIRS cells. */
static void count_cells(const uint16_t *cell, size_t n, obj_pairs *pairs)
{
    uint32_t *const count = pairs->count;
    uint16_t *const touched = pairs->touched;
    size_t used = pairs->n, i = 0;

    if (pairs->way == OBJ_COUNTED) {
        /* Neighbours often count in one place: two of them do not wait for each other. */
        for (; n - i >= 2; i += 2) {
            count_pair(&count[cell[i]], pairs->more[0]);
            count_pair(&count[cell[i + 1]], pairs->more[1]);
        }
        if (i < n)
            count_pair(&count[cell[i]], pairs->more[0]);
    } else if (pairs->way == OBJ_DENSE) {
        for (; i < n; i++)
            count[cell[i]]++;
    } else {
        for (; i < n; i++) {
            /* One more is written than is kept: no branch. */
            touched[used] = cell[i];
            used += count[cell[i]]++ == 0;
        }
        pairs->n = used;
    }
}

/* Pairs of levels a[i], b[i]; the last ones of many by a whole vector, too. */
static void add_pairs(const uint8_t *a, const uint8_t *b, size_t n, obj_pairs *pairs)
{
    const int bits = pairs->bits;
    uint16_t cell[PAIRS];
    size_t i = 0;

    for (; n - i >= PAIRS; i += PAIRS) {
        find_cells(a + i, b + i, bits, cell);
        count_cells(cell, PAIRS, pairs);
    }
    if (i == n)
        return;
    if (i > 0) {
        find_cells(a + n - PAIRS, b + n - PAIRS, bits, cell);
        count_cells(cell + PAIRS - (n - i), n - i, pairs);
        return;
    }
    for (; i < n; i++)
        cell[i] = (uint16_t)obj_cell(a[i], b[i], bits);
    count_cells(cell, n, pairs);
}

/* Places in the raster as numbers that rise along it, with so much room between rows and slices that a step leads to no
 * place in another one. */
enum { PLACE_BITS = 20 };
static int64_t place_of(int64_t z, int64_t y, int64_t x)
{
    return z * ((int64_t)1 << 2 * PLACE_BITS) + y * ((int64_t)1 << PLACE_BITS) + x;
}

static int64_t first_place(obj_run r)
{
    return place_of(OBJ_RUN_Z(r), OBJ_RUN_Y(r), OBJ_RUN_X0(r));
}

static int64_t last_place(obj_run r)
{
    return place_of(OBJ_RUN_Z(r), OBJ_RUN_Y(r), OBJ_RUN_X1(r));
}

/* The first run that does not end before a place. */
static size_t run_at(const obj_run *runs, size_t n, int64_t place)
{
    size_t lo = 0;

    while (lo < n) {
        const size_t middle = (lo + n) / 2;

        if (last_place(runs[middle]) < place)
            lo = middle + 1;
        else
            n = middle;
    }
    return lo;
}

void obj_pairs_add(const obj_item *o, const obj_run *runs, size_t n, size_t first, size_t few, obj_step step,
                   obj_pairs *pairs)
{
    const int64_t nx = o->pixels->nx, ny = o->pixels->ny;
    const int64_t apart = place_of(step.dz, step.dy, step.dx), pixels = (step.dz * ny + step.dy) * nx + step.dx;
    /* Where the other ends may be rises from run to run. */
    size_t there = first == 0 ? 0 : run_at(runs, n, first_place(runs[first]) + apart);

    for (size_t i = first; i < first + few; i++) {
        const int64_t begin = first_place(runs[i]) + apart, end = last_place(runs[i]) + apart;
        const uint8_t *const a = o->quantised + (OBJ_RUN_Z(runs[i]) * ny + OBJ_RUN_Y(runs[i])) * nx + OBJ_RUN_X0(runs[i]);

        while (there < n && last_place(runs[there]) < begin)
            there++;
        for (size_t k = there; k < n && first_place(runs[k]) <= end; k++) {
            const int64_t from = first_place(runs[k]) > begin ? first_place(runs[k]) : begin;
            const int64_t to = last_place(runs[k]) < end ? last_place(runs[k]) : end;

            add_pairs(a + (from - begin), a + (from - begin) + pixels, (size_t)(to - from + 1), pairs);
        }
    }
}

void obj_pairs_begin(const obj_item *o, obj_pairs *pairs, uint64_t pixels)
{
    const uint64_t cells = (uint64_t)1 << 2 * pairs->bits, most = pixels * (o->params->merge ? obj_n_directions(o) : 1);

    pairs->way = 16 * most < cells ? OBJ_SPARSE : most < OBJ_MORE ? OBJ_COUNTED : OBJ_DENSE;
}

void obj_pairs_merge(obj_pairs *pairs, obj_pairs *other)
{
    const size_t cells = (size_t)1 << 2 * pairs->bits;

    for (size_t i = 0; i < cells; i++)
        pairs->count[i] += other->count[i];
    memset(other->count, 0, cells * sizeof *other->count);
}

static columns columns_at(const uint32_t *from)
{
    columns c;

    memcpy(&c, from, sizeof c);
    return c;
}

static void add_columns(uint32_t *to, columns c)
{
    const columns sum = columns_at(to) + c;

    memcpy(to, &sum, sizeof sum);
}

/* Row a of the matrix, but for the diagonal; it is 0 then. Pairs by |a - b|, from difference[COLUMNS] on. */
static void take_row(uint32_t *row, uint32_t a, uint32_t width, cooc_sums *sums, uint32_t *difference)
{
    columns ends = { 0 };

    /* Cells before the diagonal have no pairs. */
    for (uint32_t b = a / COLUMNS * COLUMNS; b < width; b += COLUMNS) {
        const columns c = columns_at(row + b);

        memset(row + b, 0, sizeof c);
        ends += c;
        add_columns(sums->marginal + b, c);
        add_columns(sums->sum + a + b, c);
        add_columns(difference + COLUMNS + b - a, c);
    }
    sums->marginal[a] += ends[0] + ends[1] + ends[2] + ends[3];
    sums->pairs += ends[0] + ends[1] + ends[2] + ends[3];
}

/* The entries of C: two a cell, but for the diagonal, where one is twice as large; cells there are 0 then. */
static void take_entries(const obj_item *o, obj_pairs *pairs, cooc_sums *sums)
{
    const uint32_t levels = (uint32_t)o->params->levels;
    uint32_t cells = pairs->more[0][0] + pairs->more[1][0];

    pairs->more[0][0] = pairs->more[1][0] = 0;
    for (uint32_t k = 1; pairs->way == OBJ_COUNTED && cells > 0; k++) {
        const uint32_t more = pairs->more[0][k] + pairs->more[1][k];

        cooc_entries(sums, &o->logs, k, 2 * (uint64_t)(cells - more));
        pairs->more[0][k] = pairs->more[1][k] = 0;
        cells = more;
    }
    for (uint32_t a = 0; a < levels; a++) {
        uint32_t *const row = pairs->count + ((size_t)a << pairs->bits);

        const uint64_t k = row[a];

        for (uint32_t b = a; pairs->way == OBJ_DENSE && b < levels; b++)
            cooc_entries(sums, &o->logs, row[b], 2);
        /* In place of two entries of k one of 2k. */
        sums->most = 2 * k > sums->most ? 2 * k : sums->most;
        sums->squares += 2 * k * k;
        sums->k_log_k += tc_k_log2_k(&o->logs, 2 * k) - 2 * tc_k_log2_k(&o->logs, k);
        sums->pairs += k;
        sums->marginal[a] += 2 * row[a];
        sums->sum[a + a] += row[a];
        sums->difference[0] += row[a];
        row[a] = 0;
    }
}

static void take_dense(const obj_item *o, obj_pairs *pairs, cooc_sums *sums)
{
    const uint32_t levels = (uint32_t)o->params->levels, width = 1u << pairs->bits;
    uint32_t difference[COLUMNS + COOC_MAX_LEVELS] = { 0 };

    take_entries(o, pairs, sums);
    for (uint32_t a = 0; a < levels; a++)
        take_row(pairs->count + (size_t)a * width, a, width, sums, difference);
    for (uint32_t k = 0; k < levels; k++)
        sums->difference[k] += difference[COLUMNS + k];
}

void obj_pairs_take(const obj_item *o, obj_pairs *pairs, cooc_sums *sums)
{
    const uint32_t second = (1u << pairs->bits) - 1;

    cooc_clear(sums, 1u << pairs->bits);
    if (pairs->way != OBJ_SPARSE)
        take_dense(o, pairs, sums);
    for (size_t i = 0; i < pairs->n; i++) {
        const uint32_t cell = pairs->touched[i];

        cooc_add(sums, &o->logs, cell >> pairs->bits, cell & second, pairs->count[cell]);
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
    const obj_params *const p = o->params;
    uint64_t *at = row->words + o->texture_at + distance * p->n_features;

    for (int f = 0; f < COOC_FEATURES; f++)
        if ((p->features >> f & 1) != 0)
            at = obj_put_real(at, t->directions == 0 ? (double)NAN : t->sum[f] / t->directions);
}
