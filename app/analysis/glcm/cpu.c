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

/* Pixels of a ROI that a thread counts by itself, and of a band of a larger one; chunks of a
 * step. */
enum { LARGE_ROI = 1 << 20, MOST_CHUNKS = 1024 };

/* --- histograms of one window ---------------------------------------------------
 *
 * A count of the 2-D histogram starts at 0 off the diagonal and at `diagonal` on
 * it, so that one table indexed by the count serves both. A pair that is missing
 * (an end outside the picture) counts as one of level 0 with level 0, which
 * without_missing puts right. */
enum { MAX_L = GLCM_MAX_LEVELS };

/* A pair of levels a <= b, kept for its base pixel. */
typedef struct pair_code {
    uint16_t cell;
    uint8_t a, b;
} pair_code;

typedef struct sliding {
    glcm_bins bins;
    glcm_sums s;
    unsigned char padding[64]; /* no line of the cache is shared with the next thread's */
} sliding;

/* The sums of pairs that some features need alone (LINEAR). */
typedef struct linear {
    glcm_pair64 difference;
    uint64_t sum;
} linear;

/* --- the worker ------------------------------------------------------------------------------ */

typedef struct scratch {
    sliding *window;
    pair_code *pairs; /* pair codes of the band */
    size_t pairs_size;
    linear *columns; /* of the band */
    size_t columns_size;
    uint32_t *counts; /* [tables][L][L]: pairs of the whole ROI, first level, second level */
    tc_log2s *logs;
    tc_status status;
} scratch;

typedef struct cpu_worker {
    const an_work *work;
    const glcm_params *params;
    glcm_geometry g;
    glcm_tables tables;
    an_pool *pool;
    scratch *scratch; /* [threads] */
    /* planes of the current slice, in both orientations */
    uint32_t slice;     /* UINT32_MAX: none yet */
    uint8_t *grey[2];   /* [n_levels][pixels] */
    uint8_t *roi[2];    /* [pixels] */
    uint8_t *quantiser; /* grey values to levels */
    uint32_t loading;   /* the slice whose planes are being made */
    /* the current step */
    uint64_t first;
    glcm_chunk whole;   /* of a large ROI */
    glcm_stat *results; /* [MOST_CHUNKS], or fewer */
    glcm_bands *bands;  /* the same */
    glcm_more *more;    /* the same, with more features */
    size_t results_size;
    unsigned char *maps; /* planes in the state */
} cpu_worker;

/* --- sliding --------------------------------------------------------------------------------- */

/* One move of the window by a pixel: `n` pairs leave, `n` enter, at these
 * distances (in codes) from the code of the window's centre before the move. */
typedef struct move {
    int n;
    int32_t leave[2 * GLCM_MAX_RADIUS + 1];
    int32_t enter[2 * GLCM_MAX_RADIUS + 1];
} move;

static inline glcm_steps steps_of(const glcm_tables *t)
{
    return (glcm_steps){ t->cell_step, t->marginal_step, t->step };
}

static void slide_window(sliding *w, const glcm_tables *t, const pair_code *centre, const move *m)
{
    const glcm_steps steps = steps_of(t);
    glcm_sums s = w->s;
    glcm_pair64 of_b = { 0, 0 };

    for (const int32_t *at = m->leave, *const end = at + m->n; at != end; at++) {
        const pair_code *const p = &centre[*at];
        glcm_pair_moves(&w->bins, p->a, p->b, p->cell, &steps, &s, &of_b, -1);
    }
    for (const int32_t *at = m->enter, *const end = at + m->n; at != end; at++) {
        const pair_code *const p = &centre[*at];
        glcm_pair_moves(&w->bins, p->a, p->b, p->cell, &steps, &s, &of_b, 1);
    }
    s.marginal += of_b;
    w->s = s;
}

static void make_steps(const glcm_tables *t, unsigned levels, sliding *w)
{
    for (uint64_t k = 0; k <= 2 * (uint64_t)levels - 2; k++)
        w->bins.of_sum[k] = GLCM_PACK(k);
    for (uint64_t k = 0; k < levels; k++)
        w->bins.of_difference[k] = (glcm_pair64){ GLCM_PACK(k), t->idm[k] };
}

/* --- without histograms ----------------------------------------------------------------------
 *
 * What these features need are sums over pairs alone, whatever else there is in the window. */
enum {
    LINEAR = 1 << GLCM_CONTRAST | 1 << GLCM_CORRELATION | 1 << GLCM_VARIANCE | 1 << GLCM_IDM |
             1 << GLCM_SUM_AVERAGE | 1 << GLCM_SUM_VARIANCE | 1 << GLCM_DIFFERENCE_VARIANCE
};

/* Whether the result needs no others, not even as maps. */
static bool is_linear(const cpu_worker *w)
{
    return w->work->result_only && (w->params->features & ~(uint32_t)LINEAR) == 0;
}

static inline void add_linear(linear *s, const linear *other)
{
    s->sum += other->sum;
    s->difference += other->difference;
}

static inline void take_linear(linear *s, const linear *other)
{
    s->sum -= other->sum;
    s->difference -= other->difference;
}

static inline linear linear_of(const glcm_bins *bins, const pair_code *p)
{
    return (linear){ bins->of_difference[p->b - p->a], bins->of_sum[p->a + p->b] };
}

static linear linear_sums(const glcm_sums *s)
{
    return (linear){ s->difference, s->sum };
}

static void put_linear(glcm_sums *s, const linear *l)
{
    s->difference = l->difference;
    s->sum = l->sum;
}

static void slide_linear(sliding *w, const pair_code *centre, const move *m)
{
    linear s = linear_sums(&w->s);

    for (int i = 0; i < m->n; i++) {
        const linear leaves = linear_of(&w->bins, &centre[m->leave[i]]),
                     enters = linear_of(&w->bins, &centre[m->enter[i]]);

        take_linear(&s, &leaves);
        add_linear(&s, &enters);
    }
    put_linear(&w->s, &s);
}

static void start_linear(sliding *w, const pair_code *centre, const glcm_lens *lens,
                         ptrdiff_t stride)
{
    linear s = { .sum = 0 };

    for (int i = 0; i < lens->rows; i++)
        for (int x = lens->lo[i]; x <= lens->hi[i]; x++) {
            const linear one = linear_of(&w->bins, &centre[lens->row[i] * stride + x]);

            add_linear(&s, &one);
        }
    put_linear(&w->s, &s);
}

/* Empties the histograms and puts the whole window in. */
static void start_window(sliding *w, const glcm_tables *t, unsigned levels, const pair_code *centre,
                         const glcm_lens *lens, ptrdiff_t stride)
{
    const glcm_steps steps = steps_of(t);
    glcm_bins *const h = &w->bins;
    glcm_pair64 of_b;
    glcm_sums s;

    memset(h->marginal, 0, levels * sizeof *h->marginal);
    memset(h->difference, 0, levels * sizeof *h->difference);
    memset(h->sum, 0, (size_t)2 * levels * sizeof *h->sum);
    memset(h->cell, 0, (size_t)levels * (levels + 1) / 2 * sizeof *h->cell);
    for (unsigned a = 0; a < levels; a++)
        h->cell[a * (a + 1) / 2 + a] = (uint16_t)(GLCM_DOUBLED * t->diagonal);
    memset(&s, 0, sizeof s);
    memset(&of_b, 0, sizeof of_b);
    for (int i = 0; i < lens->rows; i++)
        for (int x = lens->lo[i]; x <= lens->hi[i]; x++) {
            const pair_code *const p = &centre[lens->row[i] * stride + x];

            glcm_pair_moves(h, p->a, p->b, p->cell, &steps, &s, &of_b, 1);
        }
    s.marginal += of_b;
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

/* --- pair codes of a band -------------------------------------------------------------------- */

/* A rectangle of base pixels and their pair codes. */
typedef struct code_plane {
    pair_code *codes;
    int64_t x0, y0, x1, y1;
    ptrdiff_t stride;
    glcm_tile there; /* base pixels with both ends in the picture */
} code_plane;

static void fill_codes(const code_plane *c, int64_t nx, const glcm_lens *lens, const uint8_t *grey)
{
    const pair_code missing = { 0, 0, 0 };

    for (int64_t y = c->y0; y < c->y1; y++) {
        pair_code *const row = c->codes + (y - c->y0) * c->stride;
        int64_t x = c->x0;

        if (y >= c->there.y0 && y < c->there.y1) {
            const uint8_t *const p = grey + y * nx;
            const uint8_t *const q = grey + (y + lens->dy) * nx + lens->dx;
            const int64_t end = c->there.x1 < c->x1 ? c->there.x1 : c->x1;

            for (; x < c->there.x0 && x < c->x1; x++)
                row[x - c->x0] = missing;
            for (; x < end; x++) {
                const uint32_t a = p[x] < q[x] ? p[x] : q[x], b = p[x] < q[x] ? q[x] : p[x];

                row[x - c->x0] =
                    (pair_code){ (uint16_t)(b * (b + 1) / 2 + a), (uint8_t)a, (uint8_t)b };
            }
        }
        for (; x < c->x1; x++)
            row[x - c->x0] = missing;
    }
}

/* --- statistics over windows -------------------------------------------------------------
 *
 * Features of some windows are kept, and then each is gone through by itself: its sums stay in
 * registers. A feature is below 2^49, so the sum of as many fits 64 bits. */
enum { KEPT_WINDOWS = 64 };

typedef struct kept {
    uint32_t windows;
    int64_t feature[KEPT_WINDOWS][GLCM_FEATURES];
} kept;

/* Adds up what is kept of some features, bits of a set; the sum of those that are returned. */
static uint64_t flush_kept(kept *k, uint32_t features, uint32_t returned, glcm_stat *stat)
{
    glcm_stat s = { .windows = k->windows };
    uint64_t all = 0;

    if (k->windows == 0)
        return 0;
    for (int i = 0; i < GLCM_FEATURES; i++) {
        int64_t sum = 0, min = INT64_MAX, max = INT64_MIN;
        unsigned __int128 square = 0;

        if ((features >> i & 1) == 0)
            continue;
        for (const int64_t *p = &k->feature[0][i], *const end =
                                                       p + (size_t)k->windows * GLCM_FEATURES;
             p != end; p += GLCM_FEATURES) {
            const int64_t v = *p;

            sum += v;
            min = v < min ? v : min;
            max = v > max ? v : max;
            square += (unsigned __int128)((__int128)v * v);
        }
        all += (returned >> i & 1) != 0 ? (uint64_t)sum : 0;
        s.feature[i] = (glcm_moments){ min,
                                       max,
                                       (uint64_t)sum,
                                       sum < 0 ? UINT64_MAX : 0,
                                       (uint64_t)square,
                                       (uint64_t)(square >> 64) };
    }
    glcm_stat_merge(stat, &s);
    k->windows = 0;
    return all;
}

/* --- one chunk ----------------------------------------------------------------------------- */

typedef struct chunk_work {
    const cpu_worker *worker;
    unsigned levels;
    const glcm_view *view;
    const uint8_t *roi;
    glcm_lens lens;
    glcm_tile tile;
    glcm_tile inside; /* windows that miss no pair */
    code_plane plane;
    move right, left, down;
    sliding *window;
    bool linear, started;
    linear *columns;         /* [plane.stride]: sums of the window's rows, if it is a rectangle */
    uint32_t computed;       /* features, bits of a set */
    int64_t x, y;            /* where the window is */
    const pair_code *centre; /* and its code */
    kept kept;               /* not yet in stat */
    glcm_stat *stat;
    glcm_more *more; /* NULL: none are wanted */
    uint64_t sum;    /* of the features that are returned, of the row's windows so far */
    glcm_bands *bands;
    bool has_maps;
    float *maps[COOC_FEATURES]; /* by feature, or NULL */
} chunk_work;

static void move_by(chunk_work *u, const move *m, ptrdiff_t codes)
{
    if (u->linear)
        slide_linear(u->window, u->centre, m);
    else
        slide_window(u->window, &u->worker->tables, u->centre, m);
    u->centre += codes;
}

/* Adds a row of pairs to the columns, and takes another off, unless that is NULL. */
static void change_columns(chunk_work *u, int64_t enters, const int64_t *leaves)
{
    const code_plane *const p = &u->plane;
    const pair_code *const in = p->codes + (enters - p->y0) * p->stride, *const out =
                                                                             p->codes +
                                                                             (leaves != NULL
                                                                                  ? *leaves - p->y0
                                                                                  : 0) *
                                                                                 p->stride;

    for (ptrdiff_t x = 0; x < p->stride; x++) {
        const linear more = linear_of(&u->window->bins, &in[x]),
                     less = linear_of(&u->window->bins, &out[x]);

        add_linear(&u->columns[x], &more);
        if (leaves != NULL)
            take_linear(&u->columns[x], &less);
    }
}

/* Brings a window that is a rectangle to (x, y), which is not above where it is. */
static void go_by_columns(chunk_work *u, int64_t x, int64_t y)
{
    const glcm_lens *const l = &u->lens;
    const linear *const column = u->columns + (x - u->plane.x0);
    linear s = linear_sums(&u->window->s);
    bool anew = !u->started || x - u->x > 1 || u->x - x > 1;

    if (!u->started) {
        memset(u->columns, 0, (size_t)u->plane.stride * sizeof *u->columns);
        for (int i = 0; i < l->rows; i++)
            change_columns(u, y + l->row[i], NULL);
        u->y = y;
        u->started = true;
    }
    for (; u->y < y; u->y++) {
        const int64_t top = u->y + l->row[0], below = u->y + l->row[l->rows - 1] + 1;

        change_columns(u, below, &top);
        anew = true;
    }
    if (anew) {
        s = (linear){ .sum = 0 };
        for (int k = l->lo[0]; k <= l->hi[0]; k++)
            add_linear(&s, &column[k]);
    } else if (x > u->x) {
        add_linear(&s, &column[l->hi[0]]);
        take_linear(&s, &column[l->lo[0] - 1]);
    } else if (x < u->x) {
        add_linear(&s, &column[l->lo[0]]);
        take_linear(&s, &column[l->hi[0] + 1]);
    }
    u->x = x;
    put_linear(&u->window->s, &s);
}

/* Brings the window to (x, y) by sliding, or anew where that is cheaper. */
static void go_to(chunk_work *u, int64_t x, int64_t y)
{
    const code_plane *const p = &u->plane;

    if (u->columns != NULL) {
        go_by_columns(u, x, y);
        return;
    }
    const int64_t across = x > u->x ? x - u->x : u->x - x, down = y - u->y;

    if (!u->started || (across + down > 1 && 2 * (across * u->right.n + down * u->down.n) >
                                                 u->lens.pairs + u->levels * u->levels / 64)) {
        u->centre = p->codes + (y - p->y0) * p->stride + (x - p->x0);
        if (u->linear)
            start_linear(u->window, u->centre, &u->lens, p->stride);
        else
            start_window(u->window, &u->worker->tables, u->levels, u->centre, &u->lens, p->stride);
        u->started = true;
        u->x = x;
        u->y = y;
        return;
    }
    for (; u->y < y; u->y++)
        move_by(u, &u->down, p->stride);
    for (; u->x < x; u->x++)
        move_by(u, &u->right, 1);
    for (; u->x > x; u->x--)
        move_by(u, &u->left, -1);
}

/* Pairs of the window that are not there. */
static uint32_t missing_pairs(const chunk_work *u)
{
    const glcm_lens *const l = &u->lens;
    const glcm_tile *const b = &u->plane.there;
    uint32_t there = 0;

    for (int i = 0; i < l->rows; i++) {
        const int64_t y = u->y + l->row[i], x0 = u->x + l->lo[i], x1 = u->x + l->hi[i] + 1;
        const int64_t lo = x0 > b->x0 ? x0 : b->x0, hi = x1 < b->x1 ? x1 : b->x1;

        there += y >= b->y0 && y < b->y1 && lo < hi ? (uint32_t)(hi - lo) : 0;
    }
    return l->pairs - there;
}

/* Takes the missing pairs, which counted as (0,0), out of the sums. */
static void without_missing(const chunk_work *u, uint32_t missing, glcm_sums *s)
{
    const glcm_bins *const h = &u->window->bins;
    const glcm_tables *const t = &u->worker->tables;
    const uint64_t *const f = t->f;
    const uint32_t zeros = h->marginal[0] / GLCM_DOUBLED,
                   entry = 2 * (h->cell[0] / GLCM_DOUBLED - t->diagonal);
    const uint32_t rest = entry - 2 * missing;

    s->cell -= (glcm_pair64){ t->f60[entry] - t->f60[rest],
                              ((uint64_t)entry * entry - (uint64_t)rest * rest) / 2 +
                                  ((t->f12[entry] - t->f12[rest]) << GLCM_E2_BITS) };
    s->fs -= f[h->sum[0]] - f[h->sum[0] - missing];
    s->fd -= f[h->difference[0]] - f[h->difference[0] - missing];
    s->marginal -= (glcm_pair64){ t->f60[zeros] - t->f60[zeros - 2 * missing],
                                  t->f12[zeros] - t->f12[zeros - 2 * missing] };
    s->difference -= (glcm_pair64){ 0, missing * t->idm[0] };
}

static void put_map(const chunk_work *u, unsigned feature, float value)
{
    const int64_t x = u->lens.transposed ? u->y : u->x, y = u->lens.transposed ? u->x : u->y;

    u->maps[feature][y * u->worker->g.nx + x] = value;
}

/* The largest entry of the matrix, which nothing keeps while the window slides. */
static uint64_t largest_entry(const chunk_work *u, uint32_t missing)
{
    const uint16_t *cell = u->window->bins.cell;
    const uint32_t diagonal = u->worker->tables.diagonal;
    uint64_t most = 0;

    for (unsigned b = 0; b < u->levels; b++, cell++) {
        const uint64_t there = *(cell + b) / GLCM_DOUBLED - diagonal - (b == 0 ? missing : 0);

        for (unsigned a = 0; a < b; a++, cell++)
            most = *cell / GLCM_DOUBLED > most ? *cell / GLCM_DOUBLED : most;
        most = 2 * there > most ? 2 * there : most;
    }
    return most;
}

/* The features beyond the 13, of a window with n pairs. */
static void take_more(chunk_work *u, uint32_t n, uint32_t missing)
{
    const unsigned levels = u->levels;
    const glcm_bins *const h = &u->window->bins;
    cooc_sums sums;
    int64_t feature[GLCM_MORE];

    sums.pairs = n;
    sums.squares = 0;
    sums.most = (u->worker->params->features >> COOC_JOINT_MAXIMUM & 1) != 0
                    ? largest_entry(u, missing)
                    : 0;
    for (unsigned k = 0; k < 2 * levels - 1; k++)
        sums.sum[k] = h->sum[k];
    for (unsigned k = 0; k < levels; k++)
        sums.difference[k] = h->difference[k];
    sums.sum[0] -= missing;
    sums.difference[0] -= missing;
    glcm_more_features(&sums, levels, feature);
    glcm_more_add(u->more, feature);
    for (uint32_t set = u->worker->params->features >> GLCM_FEATURES; set != 0; set &= set - 1)
        u->sum += (uint64_t)feature[__builtin_ctz(set)];
    for (unsigned i = 0; i < GLCM_MORE; i++)
        if (u->maps[GLCM_FEATURES + i] != NULL)
            put_map(u, GLCM_FEATURES + i, glcm_more_float(feature[i], GLCM_FEATURES + i, levels));
}

/* The features of the window where it stands. */
static void take_features(chunk_work *u)
{
    const glcm_tables *const t = &u->worker->tables;
    const bool inside =
        u->x >= u->inside.x0 && u->x < u->inside.x1 && u->y >= u->inside.y0 && u->y < u->inside.y1;
    const uint32_t missing = inside ? 0 : missing_pairs(u), n = u->lens.pairs - missing;
    const glcm_sums *sums = &u->window->s;
    int64_t *const feature = u->kept.feature[u->kept.windows];
    glcm_sums there;

    if (missing > 0) {
        if (n == 0)
            return;
        there = *sums;
        if (u->linear)
            there.difference -= (glcm_pair64){ 0, missing * t->idm[0] };
        else
            without_missing(u, missing, &there);
        sums = &there;
    }
    if (u->linear)
        glcm_linear_features(sums, n, t->divisors[n], u->computed, feature);
    else
        glcm_features(sums, n, t->divisors[n], t->f, t->f60, t->fbits, t->exp_table, feature);
    if (++u->kept.windows == KEPT_WINDOWS)
        u->sum += flush_kept(&u->kept, u->computed, u->worker->params->features, u->stat);
    if (u->has_maps)
        for (unsigned f = 0; f < GLCM_FEATURES; f++)
            if (u->maps[f] != NULL)
                put_map(u, f, glcm_as_float(feature[f]));
    if (u->more != NULL)
        take_more(u, n, missing);
}

/* All windows of row y, from the end that is nearer to where the window is. */
static void do_row(chunk_work *u, int64_t y, int64_t x0, int64_t x1)
{
    const uint8_t *const roi = u->roi + y * u->view->nx;
    bool back;

    while (x0 < x1 && !roi[x0])
        x0++;
    while (x1 > x0 && !roi[x1 - 1])
        x1--;
    back = u->started && u->x - x0 > x1 - 1 - u->x;
    for (int64_t i = 0; i < x1 - x0; i++) {
        const int64_t x = back ? x1 - 1 - i : x0 + i;

        if (roi[x]) {
            go_to(u, x, y);
            take_features(u);
        }
    }
    u->sum += flush_kept(&u->kept, u->computed, u->worker->params->features, u->stat);
    u->bands->sum[glcm_band_of(u->view, y)] += u->sum;
    u->sum = 0;
}

/* Whether windows of a line are computed. */
static bool is_wanted(const chunk_work *u, int64_t line)
{
    const bool *const bands = u->worker->params->bands;

    return bands == NULL || bands[glcm_band_of(u->view, line)];
}

/* Cuts the tile down to the first of its lines that are wanted, up to `end`; false: there are no
 * more. */
static bool take_lines(chunk_work *u, int64_t end)
{
    glcm_tile *const t = &u->tile;

    while (t->y0 < end && !is_wanted(u, t->y0))
        t->y0++;
    t->y1 = t->y0;
    while (t->y1 < end && is_wanted(u, t->y1))
        t->y1++;
    return t->y0 < t->y1;
}

/* Room for the pair codes of all windows, and where pairs are missing. */
static bool make_plane(chunk_work *u, scratch *s)
{
    const glcm_lens *const l = &u->lens;
    glcm_tile *const b = &u->plane.there;
    int lo = 0, hi = 0;
    size_t size;

    for (int i = 0; i < l->rows; i++) {
        lo = l->lo[i] < lo ? l->lo[i] : lo;
        hi = l->hi[i] > hi ? l->hi[i] : hi;
    }
    *b = (glcm_tile){ l->dx < 0 ? -l->dx : 0, l->dy < 0 ? -l->dy : 0,
                      (int64_t)u->view->nx - (l->dx > 0 ? l->dx : 0),
                      (int64_t)u->view->ny - (l->dy > 0 ? l->dy : 0) };
    u->inside =
        (glcm_tile){ b->x0 - lo, b->y0 - l->row[0], b->x1 - hi, b->y1 - l->row[l->rows - 1] };
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

static bool is_rectangle(const glcm_lens *l)
{
    bool is = true;

    for (int i = 1; i < l->rows; i++)
        is = is && l->lo[i] == l->lo[0] && l->hi[i] == l->hi[0] && l->row[i] == l->row[0] + i;
    return is;
}

static bool make_columns(chunk_work *u, scratch *s)
{
    const size_t size = (size_t)u->plane.stride;

    if (!u->linear || !is_rectangle(&u->lens))
        return true;
    if (size > s->columns_size) {
        free(s->columns);
        s->columns = malloc(size * sizeof *s->columns);
        s->columns_size = s->columns == NULL ? 0 : size;
    }
    u->columns = s->columns;
    return s->columns != NULL;
}

static void find_maps(chunk_work *u, const glcm_chunk *chunk)
{
    const cpu_worker *const w = u->worker;
    const size_t plane = (size_t)w->g.nx * w->g.ny;

    for (size_t i = 0; i < w->params->n_maps; i++) {
        const glcm_map *const m = &w->params->maps[i];

        if (m->offset == chunk->offset && m->level == chunk->level) {
            u->has_maps = true;
            u->maps[m->feature] = (float *)(void *)w->maps + (i * w->g.nz + chunk->slice) * plane;
        }
    }
}

/* All windows of the tile. */
static tc_status slide_tile(chunk_work *u, const glcm_chunk *chunk, scratch *s)
{
    const cpu_worker *const w = u->worker;

    if (!make_plane(u, s))
        return TC_NO_MEMORY;
    fill_codes(&u->plane, u->view->nx, &u->lens,
               w->grey[u->lens.transposed] + chunk->level * (size_t)w->g.nx * w->g.ny);
    moves_of(&u->lens, u->plane.stride, &u->right, &u->left);
    move_down(&u->lens, u->plane.stride, &u->down);
    if (!make_columns(u, s))
        return TC_NO_MEMORY;
    u->started = false;
    for (int64_t y = u->tile.y0; y < u->tile.y1; y++)
        do_row(u, y, u->tile.x0, u->tile.x1);
    return TC_OK;
}

/* Windows of one (offset, levels, slice, tile) into *stat. */
static tc_status slide_chunk(const cpu_worker *w, const glcm_chunk *chunk, scratch *s,
                             glcm_stat *stat, glcm_more *more, glcm_bands *bands)
{
    chunk_work u = { .worker = w,
                     .levels = w->params->levels[chunk->level],
                     .window = s->window,
                     .stat = stat,
                     .more = more,
                     .bands = bands };
    tc_status status = TC_OK;
    int64_t end;

    glcm_lens_init(w->params, &w->params->offsets[chunk->offset], &u.lens);
    if (u.lens.rows == 0)
        return TC_OK;
    u.view = &w->g.view[u.lens.transposed];
    u.roi = w->roi[u.lens.transposed];
    u.tile = glcm_tile_at(&w->g, u.view, chunk->tile);
    find_maps(&u, chunk);
    make_steps(&w->tables, u.levels, u.window);
    u.linear = is_linear(w);
    u.computed = u.linear ? w->params->features : UINT32_MAX;
    for (end = u.tile.y1; status == TC_OK && take_lines(&u, end); u.tile.y0 = u.tile.y1)
        status = slide_tile(&u, chunk, s);
    return status;
}

/* Tables that a ROI's pairs are counted in. With one alone, a pair that is like the one before
 * would wait until that one's count is stored; large ones would not stay in the cache, and have few
 * such pairs. */
enum { MOST_TABLES = 4, TABLES_LEVELS = 64 };

static unsigned count_tables(unsigned levels)
{
    return levels <= TABLES_LEVELS ? MOST_TABLES : 1;
}

/* Adds n pairs of neighbouring pixels. */
static void count_run(const uint8_t *p, const uint8_t *q, size_t n, size_t levels, uint32_t *counts)
{
    const size_t table = count_tables((unsigned)levels) > 1 ? levels * levels : 0;
    uint32_t *const second = counts + table, *const third = second + table,
                    *const fourth = third + table;
    size_t i = 0;

    for (; i + 4 <= n; i += 4) {
        counts[p[i] * levels + q[i]]++;
        second[p[i + 1] * levels + q[i + 1]]++;
        third[p[i + 2] * levels + q[i + 2]]++;
        fourth[p[i + 3] * levels + q[i + 3]]++;
    }
    for (; i < n; i++)
        counts[p[i] * levels + q[i]]++;
}

/* Adds pairs whose first ends are in rows [y0, y1) to the matrix of the ROI. */
static void count_rows(const cpu_worker *w, const glcm_chunk *chunk, int64_t y0, int64_t y1,
                       uint32_t *counts)
{
    const glcm_offset *const o = &w->params->offsets[chunk->offset];
    const unsigned levels = w->params->levels[chunk->level];
    const int64_t nx = w->g.nx, ny = w->g.ny, end = y1 < ny - o->dy ? y1 : ny - o->dy;
    const uint8_t *const grey = w->grey[0] + chunk->level * (size_t)nx * (size_t)ny;
    const int64_t x0 = o->dx < 0 ? -o->dx : 0, x1 = o->dx > 0 ? nx - o->dx : nx;
    const bool all = w->params->roi == GLCM_ROI_ALL;

    for (int64_t y = y0; y < end; y++) {
        const ptrdiff_t p = (ptrdiff_t)(y * nx), q = (ptrdiff_t)((y + o->dy) * nx + o->dx);
        const uint8_t *const first = w->roi[0] + p, *const second = w->roi[0] + q;

        for (int64_t x = x0, to; x < x1; x = to + 1) {
            for (to = all ? x1 : x; to < x1 && (first[to] & second[to]) != 0;)
                to++;
            if (x < to)
                count_run(grey + p + x, grey + q + x, (size_t)(to - x), levels, counts);
        }
    }
}

static size_t counts_size(unsigned levels)
{
    return (size_t)count_tables(levels) * levels * levels;
}

static void clear_counts(const cpu_worker *w, const glcm_chunk *chunk, scratch *s)
{
    memset(s->counts, 0, counts_size(w->params->levels[chunk->level]) * sizeof *s->counts);
}

/* The tables' sums, of both orders of a pair, where a <= b in the first. */
static void fold_counts(uint32_t *counts, size_t levels)
{
    const size_t table = levels * levels, end = counts_size((unsigned)levels);

    for (size_t at = table; at < end; at += table)
        for (size_t i = 0; i < table; i++)
            counts[i] += counts[at + i];
    for (size_t a = 0; a < levels; a++)
        for (size_t b = a + 1; b < levels; b++)
            counts[a * levels + b] += counts[b * levels + a];
}

static void take_matrix(const cpu_worker *w, const glcm_chunk *chunk, scratch *s, glcm_stat *stat,
                        glcm_more *more)
{
    const unsigned levels = w->params->levels[chunk->level];

    fold_counts(s->counts, levels);
    glcm_matrix_take(s->counts, levels, &w->tables, s->logs, stat, more);
}

/* The one matrix of the ROI. */
static tc_status whole_chunk(const cpu_worker *w, const glcm_chunk *chunk, scratch *s,
                             glcm_stat *stat, glcm_more *more)
{
    clear_counts(w, chunk, s);
    count_rows(w, chunk, 0, w->g.ny, s->counts);
    take_matrix(w, chunk, s, stat, more);
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

    count_rows(w, &w->whole, (int64_t)band * rows, ((int64_t)band + 1) * rows,
               w->scratch[thread].counts);
}

/* That of a large ROI, by all threads together, each with a matrix of its own. */
static tc_status large_chunk(cpu_worker *w, glcm_stat *stat, tc_err *err)
{
    const unsigned levels = w->params->levels[w->whole.level];
    const size_t rows = LARGE_ROI / (size_t)w->g.nx + 1;
    tc_status status;

    glcm_stat_clear(stat);
    if (w->more != NULL)
        glcm_more_clear(&w->more[0]);
    for (unsigned t = 0; t < w->work->threads; t++)
        clear_counts(w, &w->whole, &w->scratch[t]);
    status =
        an_pool_run_polled(w->pool, count_band, w, (w->g.ny + rows - 1) / rows, w->work->poll, err);
    for (unsigned t = 1; t < w->work->threads; t++)
        for (size_t i = 0; i < counts_size(levels); i++)
            w->scratch[0].counts[i] += w->scratch[t].counts[i];
    take_matrix(w, &w->whole, &w->scratch[0], stat, w->more);
    return status;
}

static void run_chunk(void *user, unsigned thread, size_t part)
{
    cpu_worker *const w = user;
    scratch *const s = &w->scratch[thread];
    glcm_more *const more = w->more != NULL ? &w->more[part] : NULL;
    tc_status status;
    glcm_chunk chunk;

    glcm_chunk_at(&w->g, w->first + part, &chunk);
    glcm_stat_clear(&w->results[part]);
    if (more != NULL)
        glcm_more_clear(more);
    if (w->params->window != GLCM_WHOLE_ROI) /* else they take no memory */
        w->bands[part] = (glcm_bands){ { 0 } };
    status = w->params->window == GLCM_WHOLE_ROI
                 ? whole_chunk(w, &chunk, s, &w->results[part], more)
                 : slide_chunk(w, &chunk, s, &w->results[part], more, &w->bands[part]);
    if (status != TC_OK)
        s->status = status;
}

/* --- planes of a slice ----------------------------------------------------------------------- */

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
    const size_t nx = w->g.nx, ny = w->g.ny, plane = nx * ny,
                 values = (size_t)1 << w->work->pixels->bits;
    const bool slides = w->params->window != GLCM_WHOLE_ROI;
    const uint32_t y0 = (uint32_t)part * TILE, y1 = ny - y0 < TILE ? (uint32_t)ny : y0 + TILE;

    (void)thread;
    for (size_t i = 0; i < w->params->n_levels; i++) {
        for (uint32_t y = y0; y < y1; y++)
            glcm_quantise_row(w->work->pixels, w->loading, y, w->quantiser + i * values,
                              w->grey[0] + i * plane + y * nx);
        if (slides)
            transpose_rows(w->grey[0] + i * plane, nx, ny, y0, w->grey[1] + i * plane);
    }
    for (uint32_t y = y0; y < y1; y++)
        glcm_roi_row(&w->g, w->loading, y, w->roi[0] + y * nx);
    if (slides)
        transpose_rows(w->roi[0], nx, ny, y0, w->roi[1]);
}

static tc_status load_slice(cpu_worker *w, uint32_t slice, tc_err *err)
{
    if (w->slice == slice)
        return TC_OK;
    w->loading = slice;
    w->slice = UINT32_MAX;
    return_if_error(
        an_pool_run_polled(w->pool, load_rows, w, (w->g.ny + TILE - 1) / TILE, w->work->poll, err));
    w->slice = slice;
    return TC_OK;
}

/* --- the backend ----------------------------------------------------------------------------- */

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
            free(w->scratch[i].columns);
            free(w->scratch[i].counts);
            tc_log2s_destroy(&w->scratch[i].logs);
        }
    }
    free(w->scratch);
    free(w->grey[0]);
    free(w->grey[1]);
    free(w->roi[0]);
    free(w->roi[1]);
    free(w->quantiser);
    free(w->results);
    free(w->bands);
    free(w->more);
    glcm_tables_free(&w->tables);
    free(w);
}

static tc_status make_planes(cpu_worker *w, tc_err *err)
{
    const size_t plane = (size_t)w->g.nx * w->g.ny;
    const int turns = w->params->window == GLCM_WHOLE_ROI ? 1 : 2;

    w->quantiser = glcm_quantiser(&w->g, w->work->pixels->bits);
    if (w->quantiser == NULL)
        return tc_no_memory(err, "glcm");
    for (int i = 0; i < turns; i++) {
        w->grey[i] = os_zeroed(plane * w->params->n_levels);
        w->roi[i] = os_zeroed(plane);
        if (w->grey[i] == NULL || w->roi[i] == NULL)
            return tc_no_memory(err, "glcm");
    }
    if (turns == 1)
        return TC_OK;
    /* A few rows of a picture go all over the transposed ones. */
    return_if_error(tc_clear(w->grey[1], plane * w->params->n_levels, w->work->poll, err));
    return tc_clear(w->roi[1], plane, w->work->poll, err);
}

static bool make_scratch(cpu_worker *w, unsigned threads)
{
    w->scratch = calloc(threads, sizeof *w->scratch);
    if (w->scratch == NULL)
        return false;
    for (unsigned i = 0; i < threads; i++) {
        if (w->params->window == GLCM_WHOLE_ROI) {
            w->scratch[i].counts = malloc((size_t)MAX_L * MAX_L * sizeof(uint32_t));
            w->scratch[i].logs = tc_log2s_create();
            if (w->scratch[i].counts == NULL || w->scratch[i].logs == NULL)
                return false;
        } else {
            w->scratch[i].window = malloc(sizeof *w->scratch[i].window);
            if (w->scratch[i].window == NULL)
                return false;
        }
    }
    return true;
}

static tc_status open_parts(cpu_worker *w, tc_err *err)
{
    return_if_error(glcm_geometry_init(w->work, &w->g, err));
    return_if_error(glcm_tables_init(w->g.fbits, w->g.max_pairs, &w->tables, err));
    return_if_error(an_pool_create(w->work->threads, &w->pool, err));
    return make_scratch(w, w->work->threads) ? make_planes(w, err) : tc_no_memory(err, "glcm");
}

static tc_status cpu_open(const an_work *work, const void *state, void **worker, tc_err *err)
{
    const glcm_params *const p = work->params;
    cpu_worker *const w = calloc(1, sizeof *w);
    tc_status status;

    (void)state;
    *worker = w;
    if (w == NULL)
        return tc_no_memory(err, "glcm");
    w->work = work;
    w->params = p;
    w->slice = UINT32_MAX;
    status = open_parts(w, err);
    if (status != TC_OK)
        cpu_close(worker);
    return status;
}

/* Most chunks of one step: within a slice. */
static uint64_t step_chunks(const cpu_worker *w, uint64_t done)
{
    const uint64_t per_slice = w->g.chunks / w->g.nz;
    const uint64_t left = per_slice - done % per_slice;

    if (is_large_roi(w))
        return 1;
    return left < MOST_CHUNKS ? left : MOST_CHUNKS;
}

static tc_status cpu_step(void *worker, void *state, uint64_t *chunks_done, tc_err *err)
{
    cpu_worker *const w = worker;
    an_state_head *const head = state;
    const uint64_t done = head->chunks_done;
    glcm_chunk chunk;
    uint64_t n;
    tc_status status;

    *chunks_done = done;
    if (done >= w->g.chunks)
        return TC_OK;
    n = step_chunks(w, done);
    if (n > w->results_size) {
        free(w->results);
        free(w->bands);
        free(w->more);
        w->results = malloc(n * sizeof *w->results);
        w->bands = malloc(n * sizeof *w->bands);
        w->more = w->params->more ? malloc(n * sizeof *w->more) : NULL;
        w->results_size =
            w->results == NULL || w->bands == NULL || (w->params->more && w->more == NULL) ? 0 : n;
        if (w->results_size == 0)
            return tc_no_memory(err, "glcm");
    }
    glcm_chunk_at(&w->g, done, &chunk);
    status = load_slice(w, chunk.slice, err);
    w->first = done;
    w->maps = (unsigned char *)state + glcm_state_maps_at(w->params);
    w->whole = chunk;
    if (status == TC_OK && is_large_roi(w))
        status = large_chunk(w, &w->results[0], err);
    else if (status == TC_OK)
        n = an_pool_run_until(w->pool, run_chunk, w, n, tc_seconds() + AN_STEP_SECONDS);
    if (status != TC_OK)
        return status;
    for (unsigned i = 0; i < w->work->threads; i++)
        if (w->scratch[i].status != TC_OK)
            return tc_no_memory(err, "glcm");
    for (uint64_t i = 0; i < n; i++) {
        glcm_chunk_at(&w->g, done + i, &chunk);
        glcm_stat_merge(&glcm_state_stats(state)[chunk.level * w->params->n_offsets + chunk.offset],
                        &w->results[i]);
        if (w->params->window != GLCM_WHOLE_ROI)
            glcm_bands_merge(glcm_state_bands(w->params, state), &w->bands[i]);
        if (w->more != NULL)
            glcm_more_merge(
                &glcm_state_more(w->params,
                                 state)[chunk.level * w->params->n_offsets + chunk.offset],
                &w->more[i]);
    }
    head->chunks_done = done + n;
    *chunks_done = head->chunks_done;
    return head->chunks_done == w->g.chunks ? TC_OK : TC_MORE;
}

/* The state is always up to date. */
const an_backend glcm_cpu = {
    .name = "cpu", .open = cpu_open, .step = cpu_step, .close = cpu_close
};
