/*
 * glcm on the CPU. A window slides along a row; the pairs that leave and the
 * pairs that enter change histograms, and with each change of a count k the
 * sums that the features need change by a table entry that depends on k alone.
 * Nothing is rebuilt while a window can slide.
 */
#include <stdlib.h>
#include <string.h>

#include "app/analysis/glcm/glcm.h"
#include "app/base/os.h"
#include "app/base/pool.h"

/* Pixels of a ROI that a thread counts by itself, and of a band of a larger one. */
enum { LARGE_ROI = 1 << 20 };

/* --- histograms of one window ---------------------------------------------------
 *
 * A count of the 2-D histogram starts at 0 off the diagonal, at `diagonal` on
 * it and at `nowhere` in the cell of pairs that are not there (an end outside
 * the picture), so that one table indexed by the count serves all three.
 * Elsewhere a missing pair counts as one of level 0 with level 0, which
 * without_missing puts right. */
/* Where histograms begin in glcm_bins. The last cell, at L(L+1)/2, is that of missing pairs. */
enum { MAX_L = GLCM_MAX_LEVELS, MARGINALS = 0, DIFFERENCES = MAX_L, SUMS = 2 * MAX_L, FIRST_CELL = 4 * MAX_L };

/* A pair of levels a <= b, kept for its base pixel. */
typedef struct pair_code {
    uint16_t cell;
    uint8_t a, b;
} pair_code;

/* What changes with a count, or with a pair. */
typedef struct level_tables {
    unsigned levels;
    uint32_t diagonal, nowhere;    /* of glcm_tables */
    glcm_steps steps;
} level_tables;

typedef struct sliding {
    glcm_bins bins;
    glcm_sums s;
    unsigned char apart[64];       /* from the next thread's: no line of the cache is shared */
} sliding;

/* --- the worker ------------------------------------------------------------------- */

typedef struct scratch {
    sliding *window;
    pair_code *pairs;        /* pair codes of the band */
    size_t pairs_size;
    uint64_t *counts;        /* whole-ROI matrix */
    tc_status status;
} scratch;

typedef struct cpu_worker {
    const an_work *work;
    const glcm_params *params;
    glcm_geometry g;
    glcm_tables tables;
    level_tables *levels;    /* [n_levels] */
    an_pool *pool;
    scratch *scratch;        /* [threads] */
    /* planes of the current slice, in both orientations */
    uint32_t slice;          /* UINT32_MAX: none yet */
    uint8_t *grey[2];        /* [n_levels][pixels] */
    uint8_t *roi[2];         /* [pixels] */
    uint8_t *quantiser;      /* grey values to levels */
    uint32_t loading;        /* the slice whose planes are being made */
    /* the current step */
    uint64_t first;
    glcm_portion whole;      /* of a large ROI */
    uint64_t batch;          /* portions a step takes now */
    glcm_stat *results;      /* [batch] */
    glcm_more *more;         /* [batch], with more features */
    size_t results_size;
    unsigned char *maps;     /* planes in the state */
} cpu_worker;

/* --- sliding ------------------------------------------------------------------------ */

/* One move of the window by a pixel: `n` pairs leave, `n` enter, at these
 * distances (in codes) from the code of the window's centre before the move. */
typedef struct move {
    int n;
    int32_t leave[2 * GLCM_MAX_RADIUS + 1];
    int32_t enter[2 * GLCM_MAX_RADIUS + 1];
} move;

static inline void pair_moves(sliding *w, const glcm_steps *t, const pair_code *p, glcm_sums *s, const int sign)
{
    glcm_pair_moves(&w->bins, MAX_L, 1, p->a, p->b, p->cell, t, s, sign);
}

static void slide(sliding *w, const level_tables *t, const pair_code *centre, const move *m)
{
    glcm_sums s = w->s;

    for (int i = 0; i < m->n; i++)
        pair_moves(w, &t->steps, &centre[m->leave[i]], &s, -1);
    for (int i = 0; i < m->n; i++)
        pair_moves(w, &t->steps, &centre[m->enter[i]], &s, 1);
    w->s = s;
}

/* Empties the histograms and puts the whole window in. */
static void start_window(sliding *w, const level_tables *t, const pair_code *centre,
                         const glcm_lens *lens, ptrdiff_t stride)
{
    const unsigned levels = t->levels;
    uint16_t *const h = w->bins;
    glcm_sums s;

    memset(h + MARGINALS, 0, levels * sizeof *h);
    memset(h + DIFFERENCES, 0, levels * sizeof *h);
    memset(h + SUMS, 0, (size_t)2 * levels * sizeof *h);
    memset(h + FIRST_CELL, 0, (size_t)levels * (levels + 1) / 2 * sizeof *h);
    for (unsigned a = 0; a < levels; a++)
        h[FIRST_CELL + a * (a + 1) / 2 + a] = (uint16_t)t->diagonal;
    h[FIRST_CELL + levels * (levels + 1) / 2] = (uint16_t)t->nowhere;
    memset(&s, 0, sizeof s);
    for (int i = 0; i < lens->rows; i++)
        for (int x = lens->lo[i]; x <= lens->hi[i]; x++)
            pair_moves(w, &t->steps, &centre[lens->row[i] * stride + x], &s, 1);
    w->s = s;
}

static void moves_of(const glcm_lens *lens, ptrdiff_t stride, move *right, move *left)
{
    right->n = left->n = lens->rows;
    for (int i = 0; i < lens->rows; i++) {
        const ptrdiff_t row = lens->row[i] * stride;

        right->leave[i] = (int32_t)(row + lens->lo[i]);
        right->enter[i] = (int32_t)(row + lens->hi[i] + 1);
        left->leave[i] = (int32_t)(row + lens->hi[i]);
        left->enter[i] = (int32_t)(row + lens->lo[i] - 1);
    }
}

/* Down by a row: in each column of the lens, which is convex, the top pair
 * leaves and one below the bottom enters. */
static void move_down(const glcm_lens *lens, ptrdiff_t stride, move *down)
{
    enum { R = GLCM_MAX_RADIUS };
    int top[2 * R + 1], bottom[2 * R + 1];

    for (int x = 0; x <= 2 * R; x++) {
        top[x] = R + 1;
        bottom[x] = -R - 1;
    }
    for (int i = 0; i < lens->rows; i++) {
        for (int x = lens->lo[i]; x <= lens->hi[i]; x++) {
            top[x + R] = lens->row[i] < top[x + R] ? lens->row[i] : top[x + R];
            bottom[x + R] = lens->row[i];
        }
    }
    down->n = 0;
    for (int x = -R; x <= R; x++) {
        if (bottom[x + R] < top[x + R])
            continue;
        down->leave[down->n] = (int32_t)(top[x + R] * stride + x);
        down->enter[down->n] = (int32_t)((bottom[x + R] + 1) * stride + x);
        down->n++;
    }
}

/* --- pair codes of a band ----------------------------------------------------------- */

/* A rectangle of base pixels and their pair codes. */
typedef struct code_plane {
    pair_code *codes;
    int64_t x0, y0, x1, y1;
    ptrdiff_t stride;
} code_plane;

static void fill_codes(const code_plane *c, const glcm_view *view, const glcm_lens *lens,
                       const uint8_t *grey, unsigned levels)
{
    const pair_code missing = { (uint16_t)(levels * (levels + 1) / 2), 0, 0 };
    const int64_t nx = view->nx, ny = view->ny;
    /* base pixels whose both ends are in the picture */
    const int64_t in0 = lens->dx < 0 ? -lens->dx : 0, in1 = lens->dx > 0 ? nx - lens->dx : nx;

    for (int64_t y = c->y0; y < c->y1; y++) {
        pair_code *const row = c->codes + (y - c->y0) * c->stride;
        const bool row_in = y >= 0 && y < ny && y + lens->dy >= 0 && y + lens->dy < ny;
        int64_t x = c->x0;

        if (row_in) {
            const uint8_t *const p = grey + y * nx;
            const uint8_t *const q = grey + (y + lens->dy) * nx + lens->dx;
            const int64_t end = in1 < c->x1 ? in1 : c->x1;

            for (; x < in0 && x < c->x1; x++)
                row[x - c->x0] = missing;
            for (; x < end; x++) {
                const uint32_t a = p[x] < q[x] ? p[x] : q[x], b = p[x] < q[x] ? q[x] : p[x];

                row[x - c->x0] = (pair_code){ (uint16_t)(b * (b + 1) / 2 + a), (uint8_t)a, (uint8_t)b };
            }
        }
        for (; x < c->x1; x++)
            row[x - c->x0] = missing;
    }
}

/* --- statistics over windows -------------------------------------------------------------
 *
 * The 13 sums of a row of windows, in registers' widths: a feature is below
 * 2^49, so the sum of TOTALS_WINDOWS of them fits 64 bits. */
#define TOTALS_WINDOWS 8192

typedef struct totals {
    uint32_t windows;
    int64_t sum[GLCM_FEATURES], min[GLCM_FEATURES], max[GLCM_FEATURES];
    unsigned __int128 square[GLCM_FEATURES];
} totals;

static void clear_totals(totals *t)
{
    memset(t, 0, sizeof *t);
    for (int i = 0; i < GLCM_FEATURES; i++) {
        t->min[i] = INT64_MAX;
        t->max[i] = INT64_MIN;
    }
}

static inline void count_features(totals *t, const int64_t feature[GLCM_FEATURES])
{
    t->windows++;
    for (int i = 0; i < GLCM_FEATURES; i++) {
        const int64_t v = feature[i];

        t->sum[i] += v;
        t->min[i] = v < t->min[i] ? v : t->min[i];
        t->max[i] = v > t->max[i] ? v : t->max[i];
        t->square[i] += (unsigned __int128)((__int128)v * v);
    }
}

static void flush_totals(totals *t, glcm_stat *stat)
{
    glcm_stat s = { .windows = t->windows };

    for (int i = 0; i < GLCM_FEATURES; i++) {
        s.feature[i].min = t->min[i];
        s.feature[i].max = t->max[i];
        s.feature[i].sum_lo = (uint64_t)t->sum[i];
        s.feature[i].sum_hi = t->sum[i] < 0 ? UINT64_MAX : 0;
        s.feature[i].square_lo = (uint64_t)t->square[i];
        s.feature[i].square_hi = (uint64_t)(t->square[i] >> 64);
    }
    glcm_stat_merge(stat, &s);
    clear_totals(t);
}

/* --- one portion ------------------------------------------------------------------------- */

typedef struct portion_work {
    const cpu_worker *worker;
    const level_tables *tables;
    const glcm_view *view;
    const uint8_t *roi;
    glcm_lens lens;
    glcm_tile tile;
    code_plane plane;
    move right, left, down;
    sliding *window;
    bool started;
    int64_t x, y;            /* where the window is */
    totals totals;           /* not yet in stat */
    glcm_stat *stat;
    glcm_more *more;         /* NULL: none are wanted */
    float *maps[COOC_FEATURES];   /* by feature, or NULL */
} portion_work;

static const pair_code *code_at(const portion_work *u, int64_t x, int64_t y)
{
    return u->plane.codes + (y - u->plane.y0) * u->plane.stride + (x - u->plane.x0);
}

/* Brings the window to (x, y) by sliding, or anew where that is cheaper. */
static void go_to(portion_work *u, int64_t x, int64_t y)
{
    const int64_t across = x > u->x ? x - u->x : u->x - x;
    const int64_t cost = 2 * (across * u->right.n + (y - u->y) * u->down.n);
    const int64_t anew = u->lens.pairs + u->tables->levels * u->tables->levels / 64;

    if (!u->started || cost > anew) {
        start_window(u->window, u->tables, code_at(u, x, y), &u->lens, u->plane.stride);
        u->started = true;
        u->x = x;
        u->y = y;
        return;
    }
    for (; u->y < y; u->y++)
        slide(u->window, u->tables, code_at(u, u->x, u->y), &u->down);
    for (; u->x < x; u->x++)
        slide(u->window, u->tables, code_at(u, u->x, u->y), &u->right);
    for (; u->x > x; u->x--)
        slide(u->window, u->tables, code_at(u, u->x, u->y), &u->left);
}

/* Takes the missing pairs, which counted as (0,0), out of the sums. */
static void without_missing(const portion_work *u, uint32_t missing, glcm_sums *s)
{
    const uint16_t *const h = u->window->bins;
    const glcm_tables *const t = &u->worker->tables;
    const uint64_t *const f = t->f;
    const uint32_t zeros = h[MARGINALS];

    s->fs -= f[h[SUMS]] - f[h[SUMS] - missing];
    s->fd -= f[h[DIFFERENCES]] - f[h[DIFFERENCES] - missing];
    s->marginal -= (glcm_pair64){ t->f60[zeros] - t->f60[zeros - 2 * missing],
                                  t->f12[zeros] - t->f12[zeros - 2 * missing] };
    s->difference -= (glcm_pair64){ 0, missing * t->idm[0] };
}

static void put_map(const portion_work *u, unsigned feature, float value)
{
    const int64_t x = u->lens.transposed ? u->y : u->x, y = u->lens.transposed ? u->x : u->y;

    u->maps[feature][y * u->worker->g.nx + x] = value;
}

/* The largest entry of the matrix, which nothing keeps while the window slides. */
static uint64_t largest_entry(const portion_work *u)
{
    const uint16_t *cell = u->window->bins + FIRST_CELL;
    uint64_t most = 0;

    for (unsigned b = 0; b < u->tables->levels; b++, cell++) {
        for (unsigned a = 0; a < b; a++, cell++)
            most = *cell > most ? *cell : most;
        most = 2 * (uint64_t)(*cell - u->tables->diagonal) > most ? 2 * (uint64_t)(*cell - u->tables->diagonal) : most;
    }
    return most;
}

/* The features beyond the 13, of a window with n pairs. */
static void take_more(const portion_work *u, uint32_t n, uint32_t missing)
{
    const unsigned levels = u->tables->levels;
    const uint16_t *const h = u->window->bins;
    cooc_sums sums;
    int64_t feature[GLCM_MORE];

    sums.pairs = n;
    sums.squares = 0;
    sums.most = (u->worker->params->features >> COOC_JOINT_MAXIMUM & 1) != 0 ? largest_entry(u) : 0;
    for (unsigned k = 0; k < 2 * levels - 1; k++)
        sums.sum[k] = h[SUMS + k];
    for (unsigned k = 0; k < levels; k++)
        sums.difference[k] = h[DIFFERENCES + k];
    sums.sum[0] -= missing;
    sums.difference[0] -= missing;
    glcm_more_features(&sums, levels, feature);
    glcm_more_add(u->more, feature);
    for (unsigned i = 0; i < GLCM_MORE; i++)
        if (u->maps[GLCM_FEATURES + i] != NULL)
            put_map(u, GLCM_FEATURES + i, glcm_more_float(feature[i], GLCM_FEATURES + i, levels));
}

/* The features of the window where it stands. */
static void take_features(portion_work *u)
{
    const glcm_tables *const t = &u->worker->tables;
    const unsigned levels = u->tables->levels;
    const uint32_t missing = u->window->bins[FIRST_CELL + levels * (levels + 1) / 2] - u->tables->nowhere;
    const uint32_t n = u->lens.pairs - missing;
    glcm_sums s = u->window->s;
    int64_t feature[GLCM_FEATURES];

    if (n == 0)
        return;
    if (missing > 0)
        without_missing(u, missing, &s);
    glcm_features(&s, n, t->divisors[n], t->f, t->f60, t->fbits, t->exp_table, feature);
    count_features(&u->totals, feature);
    if (u->totals.windows == TOTALS_WINDOWS)
        flush_totals(&u->totals, u->stat);
    for (unsigned f = 0; f < GLCM_FEATURES; f++)
        if (u->maps[f] != NULL)
            put_map(u, f, glcm_as_float(feature[f]));
    if (u->more != NULL)
        take_more(u, n, missing);
}

/* All windows of row y, from the end that is nearer to where the window is. */
static void do_row(portion_work *u, int64_t y, int64_t x0, int64_t x1)
{
    const uint8_t *const roi = u->roi + y * u->view->nx;

    while (x0 < x1 && !roi[x0])
        x0++;
    while (x1 > x0 && !roi[x1 - 1])
        x1--;
    if (u->started && u->x - x0 > x1 - 1 - u->x) {
        for (int64_t x = x1 - 1; x >= x0; x--)
            if (roi[x]) {
                go_to(u, x, y);
                take_features(u);
            }
    } else {
        for (int64_t x = x0; x < x1; x++)
            if (roi[x]) {
                go_to(u, x, y);
                take_features(u);
            }
    }
}

static bool make_plane(portion_work *u, scratch *s)
{
    const glcm_lens *const l = &u->lens;
    int lo = 0, hi = 0;
    size_t size;

    for (int i = 0; i < l->rows; i++) {
        lo = l->lo[i] < lo ? l->lo[i] : lo;
        hi = l->hi[i] > hi ? l->hi[i] : hi;
    }
    u->plane.x0 = u->tile.x0 + lo - 1;
    u->plane.x1 = u->tile.x1 + hi + 1;
    u->plane.y0 = u->tile.y0 + l->row[0];
    u->plane.y1 = u->tile.y1 + l->row[l->rows - 1] + 1;
    u->plane.stride = (ptrdiff_t)(u->plane.x1 - u->plane.x0);
    size = (size_t)u->plane.stride * (size_t)(u->plane.y1 - u->plane.y0);
    if (size > s->pairs_size) {
        free(s->pairs);
        s->pairs = malloc(size * sizeof *s->pairs);
        s->pairs_size = s->pairs == NULL ? 0 : size;
    }
    u->plane.codes = s->pairs;
    return s->pairs != NULL;
}

static void find_maps(portion_work *u, const glcm_portion *portion)
{
    const cpu_worker *const w = u->worker;
    const size_t plane = (size_t)w->g.nx * w->g.ny;

    for (size_t i = 0; i < w->params->n_maps; i++) {
        const glcm_map *const m = &w->params->maps[i];

        if (m->offset == portion->offset && m->level == portion->level)
            u->maps[m->feature] = (float *)(void *)w->maps + (i * w->g.nz + portion->slice) * plane;
    }
}

/* Windows of one (offset, levels, slice, tile) into *stat. */
static tc_status slide_portion(const cpu_worker *w, const glcm_portion *portion, scratch *s, glcm_stat *stat,
                               glcm_more *more)
{
    portion_work u = { .worker = w, .tables = &w->levels[portion->level], .window = s->window, .stat = stat,
                       .more = more };
    int turn;

    glcm_lens_init(w->params, &w->params->offsets[portion->offset], &u.lens);
    if (u.lens.rows == 0)
        return TC_OK;
    turn = u.lens.transposed;
    u.view = &w->g.view[turn];
    u.roi = w->roi[turn];
    u.tile = glcm_tile_at(&w->g, u.view, portion->tile);
    if (!make_plane(&u, s))
        return TC_NO_MEMORY;
    fill_codes(&u.plane, u.view, &u.lens,
               w->grey[turn] + portion->level * (size_t)w->g.nx * w->g.ny, u.tables->levels);
    moves_of(&u.lens, u.plane.stride, &u.right, &u.left);
    move_down(&u.lens, u.plane.stride, &u.down);
    find_maps(&u, portion);
    clear_totals(&u.totals);
    for (int64_t y = u.tile.y0; y < u.tile.y1; y++)
        do_row(&u, y, u.tile.x0, u.tile.x1);
    flush_totals(&u.totals, stat);
    return TC_OK;
}

/* Adds pairs whose first ends are in rows [y0, y1) to the matrix of the ROI. */
static void count_rows(const cpu_worker *w, const glcm_portion *portion, int64_t y0, int64_t y1, uint64_t *counts)
{
    const glcm_offset *const o = &w->params->offsets[portion->offset];
    const unsigned levels = w->params->levels[portion->level];
    const int64_t nx = w->g.nx, ny = w->g.ny, end = y1 < ny - o->dy ? y1 : ny - o->dy;
    const uint8_t *const grey = w->grey[0] + portion->level * (size_t)nx * (size_t)ny;
    const int64_t x0 = o->dx < 0 ? -o->dx : 0, x1 = o->dx > 0 ? nx - o->dx : nx;

    for (int64_t y = y0; y < end; y++) {
        const ptrdiff_t p = (ptrdiff_t)(y * nx), q = (ptrdiff_t)((y + o->dy) * nx + o->dx);

        for (int64_t x = x0; x < x1; x++) {
            if (w->roi[0][p + x] && w->roi[0][q + x]) {
                counts[grey[p + x] * levels + grey[q + x]]++;
                counts[grey[q + x] * levels + grey[p + x]]++;
            }
        }
    }
}

static void clear_counts(const cpu_worker *w, const glcm_portion *portion, scratch *s)
{
    memset(s->counts, 0, (size_t)w->params->levels[portion->level] * w->params->levels[portion->level] * sizeof *s->counts);
}

static void take_matrix(const cpu_worker *w, const glcm_portion *portion, const scratch *s, glcm_stat *stat,
                        glcm_more *more)
{
    glcm_matrix_take(s->counts, w->params->levels[portion->level], &w->tables, stat, more);
}

/* The one matrix of the ROI. */
static tc_status whole_portion(const cpu_worker *w, const glcm_portion *portion, scratch *s, glcm_stat *stat, glcm_more *more)
{
    clear_counts(w, portion, s);
    count_rows(w, portion, 0, w->g.ny, s->counts);
    take_matrix(w, portion, s, stat, more);
    return TC_OK;
}

static bool is_large_roi(const cpu_worker *w)
{
    return w->params->window == GLCM_WHOLE_ROI && (size_t)w->g.nx * w->g.ny > LARGE_ROI;
}

static void count_band(void *user, unsigned thread, size_t band)
{
    const cpu_worker *const w = user;
    const int64_t rows = LARGE_ROI / w->g.nx + 1;

    count_rows(w, &w->whole, (int64_t)band * rows, ((int64_t)band + 1) * rows, w->scratch[thread].counts);
}

/* That of a large ROI, by all threads together, each with a matrix of its own. */
static tc_status large_portion(cpu_worker *w, glcm_stat *stat, tc_err *err)
{
    const unsigned levels = w->params->levels[w->whole.level];
    const size_t rows = LARGE_ROI / (size_t)w->g.nx + 1;
    tc_status st;

    glcm_stat_clear(stat);
    if (w->more != NULL)
        glcm_more_clear(&w->more[0]);
    for (unsigned t = 0; t < w->work->threads; t++)
        clear_counts(w, &w->whole, &w->scratch[t]);
    st = an_pool_run_polled(w->pool, count_band, w, (w->g.ny + rows - 1) / rows, w->work->poll, err);
    for (unsigned t = 1; t < w->work->threads; t++)
        for (size_t i = 0; i < (size_t)levels * levels; i++)
            w->scratch[0].counts[i] += w->scratch[t].counts[i];
    take_matrix(w, &w->whole, &w->scratch[0], stat, w->more);
    return st;
}

static void run_portion(void *user, unsigned thread, size_t part)
{
    cpu_worker *const w = user;
    scratch *const s = &w->scratch[thread];
    glcm_more *const more = w->more != NULL ? &w->more[part] : NULL;
    tc_status st;
    glcm_portion portion;

    glcm_portion_at(&w->g, w->first + part, &portion);
    glcm_stat_clear(&w->results[part]);
    if (more != NULL)
        glcm_more_clear(more);
    st = w->params->window == GLCM_WHOLE_ROI ? whole_portion(w, &portion, s, &w->results[part], more)
                                             : slide_portion(w, &portion, s, &w->results[part], more);
    if (st != TC_OK)
        s->status = st;
}

/* --- planes of a slice ------------------------------------------------------------------ */

enum { TILE = 64 };

/* TILE rows of a plane into the columns of the transposed one. */
static void transpose_rows(const uint8_t *in, size_t nx, size_t ny, size_t y0, uint8_t *out)
{
    for (size_t x0 = 0; x0 < nx; x0 += TILE)
        for (size_t x = x0; x < x0 + TILE && x < nx; x++)
            for (size_t y = y0; y < y0 + TILE && y < ny; y++)
                out[x * ny + y] = in[y * nx + x];
}

static void load_rows(void *user, unsigned thread, size_t part)
{
    const cpu_worker *const w = user;
    const size_t nx = w->g.nx, ny = w->g.ny, plane = nx * ny, values = (size_t)1 << w->work->pixels->bits;
    const uint32_t y0 = (uint32_t)part * TILE, y1 = ny - y0 < TILE ? (uint32_t)ny : y0 + TILE;

    (void)thread;
    for (size_t i = 0; i < w->params->n_levels; i++) {
        for (uint32_t y = y0; y < y1; y++)
            glcm_quantise_row(w->work->pixels, w->loading, y, w->quantiser + i * values, w->grey[0] + i * plane + y * nx);
        transpose_rows(w->grey[0] + i * plane, nx, ny, y0, w->grey[1] + i * plane);
    }
    for (uint32_t y = y0; y < y1; y++)
        glcm_roi_row(&w->g, w->loading, y, w->roi[0] + y * nx);
    transpose_rows(w->roi[0], nx, ny, y0, w->roi[1]);
}

static tc_status load_slice(cpu_worker *w, uint32_t slice, tc_err *err)
{
    tc_status st;

    if (w->slice == slice)
        return TC_OK;
    w->loading = slice;
    w->slice = UINT32_MAX;
    st = an_pool_run_polled(w->pool, load_rows, w, (w->g.ny + TILE - 1) / TILE, w->work->poll, err);
    if (st == TC_OK)
        w->slice = slice;
    return st;
}

/* --- tables -------------------------------------------------------------------------------- */

static void make_level(const glcm_tables *g, unsigned levels, level_tables *t)
{
    t->levels = levels;
    t->diagonal = g->diagonal;
    t->nowhere = g->nowhere;
    t->steps = (glcm_steps){ .cell = g->cell_step, .marginal = g->marginal_step, .other = g->step };
    for (uint64_t s = 0; s <= 2 * (uint64_t)levels - 2; s++)
        t->steps.sum[s] = GLCM_PACK(s);
    for (uint64_t d = 0; d < levels; d++)
        t->steps.difference[d] = (glcm_pair64){ GLCM_PACK(d), g->idm[d] };
}

/* --- the backend ------------------------------------------------------------------------------ */

static void cpu_close(void **worker)
{
    cpu_worker *const w = *worker;

    *worker = NULL;
    if (w == NULL)
        return;
    an_pool_destroy(&w->pool);
    if (w->scratch != NULL) {
        for (unsigned i = 0; i < w->work->threads; i++) {
            free(w->scratch[i].window);
            free(w->scratch[i].pairs);
            free(w->scratch[i].counts);
        }
    }
    free(w->scratch);
    free(w->levels);
    free(w->grey[0]);
    free(w->grey[1]);
    free(w->roi[0]);
    free(w->roi[1]);
    free(w->quantiser);
    free(w->results);
    free(w->more);
    glcm_tables_free(&w->tables);
    free(w);
}

static bool make_planes(cpu_worker *w)
{
    const size_t plane = (size_t)w->g.nx * w->g.ny;

    w->quantiser = glcm_quantiser(&w->g, w->work->pixels->bits);
    if (w->quantiser == NULL)
        return false;
    for (int i = 0; i < 2; i++) {
        w->grey[i] = os_zeroed(plane * w->params->n_levels);
        w->roi[i] = os_zeroed(plane);
        if (w->grey[i] == NULL || w->roi[i] == NULL)
            return false;
    }
    return true;
}

static bool make_scratch(cpu_worker *w, unsigned threads)
{
    w->scratch = calloc(threads, sizeof *w->scratch);
    if (w->scratch == NULL)
        return false;
    for (unsigned i = 0; i < threads; i++) {
        if (w->params->window == GLCM_WHOLE_ROI) {
            w->scratch[i].counts = malloc((size_t)MAX_L * MAX_L * sizeof(uint64_t));
            if (w->scratch[i].counts == NULL)
                return false;
        } else {
            w->scratch[i].window = malloc(sizeof *w->scratch[i].window);
            if (w->scratch[i].window == NULL)
                return false;
        }
    }
    return true;
}

static tc_status cpu_open(const an_work *work, const void *state, void **worker, tc_err *err)
{
    const glcm_params *const p = work->params;
    cpu_worker *const w = calloc(1, sizeof *w);
    tc_status st;

    (void)state;
    *worker = w;
    if (w == NULL)
        return tc_no_memory(err, "glcm");
    w->work = work;
    w->params = p;
    w->slice = UINT32_MAX;
    w->batch = work->threads;
    st = glcm_geometry_init(work, &w->g, err);
    if (st == TC_OK)
        st = glcm_tables_init(w->g.fbits, w->g.max_pairs, &w->tables, err);
    if (st == TC_OK)
        st = an_pool_create(work->threads, &w->pool, err);
    if (st != TC_OK)
        goto fail;
    w->levels = calloc(p->n_levels, sizeof *w->levels);
    if (w->levels == NULL || !make_planes(w) || !make_scratch(w, work->threads)) {
        st = tc_no_memory(err, "glcm");
        goto fail;
    }
    for (size_t i = 0; i < p->n_levels; i++)
        make_level(&w->tables, p->levels[i], &w->levels[i]);
    return TC_OK;
fail:
    cpu_close(worker);
    return st;
}

/* Portions of one step: within a slice, and for about a tenth of a second. */
static uint64_t step_portions(const cpu_worker *w, uint64_t done)
{
    const uint64_t per_slice = w->g.portions / w->g.nz;
    const uint64_t left = per_slice - done % per_slice;

    if (is_large_roi(w))
        return 1;
    return left < w->batch ? left : w->batch;
}

static tc_status cpu_step(void *worker, void *state, uint64_t *portions_done, tc_err *err)
{
    cpu_worker *const w = worker;
    an_state_head *const head = state;
    const uint64_t done = head->portions_done;
    const double start = tc_seconds();
    glcm_portion portion;
    uint64_t n;
    tc_status st;

    *portions_done = done;
    if (done >= w->g.portions)
        return TC_OK;
    n = step_portions(w, done);
    if (n > w->results_size) {
        free(w->results);
        free(w->more);
        w->results = malloc(n * sizeof *w->results);
        w->more = w->params->more ? malloc(n * sizeof *w->more) : NULL;
        w->results_size = w->results == NULL || (w->params->more && w->more == NULL) ? 0 : n;
        if (w->results_size == 0)
            return tc_no_memory(err, "glcm");
    }
    glcm_portion_at(&w->g, done, &portion);
    st = load_slice(w, portion.slice, err);
    w->first = done;
    w->maps = (unsigned char *)state + glcm_state_maps_at(w->params);
    w->whole = portion;
    if (st == TC_OK && is_large_roi(w))
        st = large_portion(w, &w->results[0], err);
    else if (st == TC_OK)
        an_pool_run(w->pool, run_portion, w, n);
    if (st != TC_OK)
        return st;
    for (unsigned i = 0; i < w->work->threads; i++)
        if (w->scratch[i].status != TC_OK)
            return tc_no_memory(err, "glcm");
    for (uint64_t i = 0; i < n; i++) {
        glcm_portion_at(&w->g, done + i, &portion);
        glcm_stat_merge(&glcm_state_stats(state)[portion.level * w->params->n_offsets + portion.offset],
                        &w->results[i]);
        if (w->more != NULL)
            glcm_more_merge(&glcm_state_more(w->params, state)[portion.level * w->params->n_offsets + portion.offset],
                            &w->more[i]);
    }
    head->portions_done = done + n;
    *portions_done = head->portions_done;
    w->batch = an_next_batch(w->batch, n, w->work->threads, tc_seconds() - start);
    return head->portions_done == w->g.portions ? TC_OK : TC_MORE;
}

/* The state is always up to date. */
const an_backend glcm_cpu = {
    .name = "cpu",
    .open = cpu_open,
    .step = cpu_step,
    .sync = an_always_synced,
    .close = cpu_close
};
