/*
 * glcm's CPU backend. A window slides along a row of pixels. At each move some pairs of pixels
 * leave the window and others enter it, and the window's histograms are updated for these pairs
 * only. The features are computed from sums over the histograms. When a count of a histogram
 * changes from k to k+1, a sum changes by an amount that depends only on k and is read from a
 * table. All pairs of a window are counted afresh only if that takes less time than sliding the
 * window to its new position.
 */
#include <stdlib.h>
#include <string.h>

#include "app/analysis/glcm/glcm.h"
#include "app/base/os.h"
#include "app/base/pool.h"

/* A number of pixels. With GLCM_WHOLE_ROI, if a picture has more, all threads count its pairs
 * together, each a range of rows with about this many pixels at a time. */
enum { LARGE_ROI = 1 << 20 };
/* The greatest number of chunks (glcm_chunk) in a step. */
enum { MOST_CHUNKS = 1024 };

/* --- histograms of one window ---------------------------------------------------
 *
 * The count of a cell of the matrix starts at 0 off the diagonal and at `diagonal` (glcm_tables) on
 * it, so that the count is the index into glcm_tables.cell_step for both kinds of cells. A pair
 * with a pixel outside the picture is called missing. It is counted as a pair of two levels 0;
 * subtract_missing corrects the sums.
 */
enum { MAX_L = GLCM_MAX_LEVELS }; /* greatest number of grey levels */

/* The levels a <= b of a pair, stored at its first pixel, and its index in glcm_bins.cell. */
typedef struct pair_code {
    uint16_t cell;
    uint8_t a, b;
} pair_code;

/* A window: its histograms and sums. */
typedef struct sliding_window {
    glcm_bins bins;
    glcm_sums s;               /* the sums over the pairs of the window */
    unsigned char padding[64]; /* keeps windows of two threads out of the same cache line */
} sliding_window;

/* The sums of glcm_sums from which the features of the set LINEAR_FEATURES are computed. */
typedef struct linear_sums {
    glcm_pair64 difference;
    uint64_t sum;
} linear_sums;

/* --- the worker ------------------------------------------------------------------------------ */

/* The memory of one thread. With GLCM_WHOLE_ROI only counts and logs are used, with other windows
 * only the rest. */
typedef struct scratch {
    sliding_window *window;
    pair_code *pairs;     /* [pairs_size]: chunk_work.plane.codes */
    size_t pairs_size;    /* allocated elements of `pairs`; columns_size likewise */
    linear_sums *columns; /* [columns_size]: chunk_work.columns */
    size_t columns_size;
    uint32_t *counts; /* [count_tables][levels][levels]: pairs of the ROI, by the level of the first
                         pixel and that of the second */
    tc_log2_cache *logs;
    tc_status status; /* status of the thread's chunks in this step */
} scratch;

typedef struct cpu_worker {
    const an_work *work;
    const glcm_params *params;
    glcm_geometry g;
    glcm_tables tables;
    an_pool *pool;
    scratch *scratch; /* [threads] */
    uint32_t slice;   /* the current slice; UINT32_MAX before the first one */
    /* Planes of the current slice: [0] in the orientation of the picture, [1] transposed. */
    uint8_t *grey[2];   /* [n_levels][pixels]: the level of each pixel */
    uint8_t *roi[2];    /* [pixels]: 1 for pixels that have a window, else 0 */
    uint8_t *quantiser; /* made by glcm_quantiser */
    uint32_t new_slice; /* the slice whose planes load_rows makes */
    /* Data of the current step: */
    uint64_t first;       /* its first chunk */
    glcm_chunk roi_chunk; /* the only chunk of the step, if the ROI is large (is_large_roi) */
    glcm_stat *results;   /* [results_size]: statistics of each chunk */
    glcm_bands *bands;    /* [results_size]: band sums of each chunk */
    /* [results_size]: statistics of each chunk, of the features beyond the 13; NULL if none of
     * these features is wanted. */
    glcm_more_stat *more;
    size_t results_size; /* at most MOST_CHUNKS */
    unsigned char *maps; /* the planes of the state's maps */
} cpu_worker;

/* --- sliding --------------------------------------------------------------------------------- */

/* A move of the window by one pixel, in which n pairs leave the window and n pairs enter it. leave,
 * enter: for each pair, the distance of its first pixel from the window's centre before the move,
 * in elements of code_plane.codes. */
typedef struct move {
    int n;
    int32_t leave[2 * GLCM_MAX_RADIUS + 1];
    int32_t enter[2 * GLCM_MAX_RADIUS + 1];
} move;

static inline glcm_steps steps_of(const glcm_tables *t)
{
    return (glcm_steps){ t->cell_step, t->marginal_step, t->step };
}

/* Moves the window by one pixel. centre: the code of its centre before the move. */
static void slide_window(sliding_window *w, const glcm_tables *t, const pair_code *centre,
                         const move *m)
{
    const glcm_steps steps = steps_of(t);
    glcm_sums s = w->s;
    glcm_pair64 marginal_b = { 0, 0 };

    for (const int32_t *at = m->leave, *const end = at + m->n; at != end; at++) {
        const pair_code *const p = &centre[*at];
        glcm_update_pair(&w->bins, p->a, p->b, p->cell, &steps, &s, &marginal_b, -1);
    }
    for (const int32_t *at = m->enter, *const end = at + m->n; at != end; at++) {
        const pair_code *const p = &centre[*at];
        glcm_update_pair(&w->bins, p->a, p->b, p->cell, &steps, &s, &marginal_b, 1);
    }
    s.marginal += marginal_b;
    w->s = s;
}

/* Fills the tables sum_term and difference_term of a window (glcm_bins). */
static void make_terms(const glcm_tables *t, unsigned levels, sliding_window *w)
{
    for (uint64_t k = 0; k <= 2 * (uint64_t)levels - 2; k++) /* sums of two levels */
        w->bins.sum_term[k] = GLCM_PACK(k);
    for (uint64_t k = 0; k < levels; k++)
        w->bins.difference_term[k] = (glcm_pair64){ GLCM_PACK(k), t->idm[k] };
}

/* --- features without histograms --------------------------------------------------------------
 *
 * The features of the set LINEAR_FEATURES are computed from sums to which a pair adds an amount
 * that depends only on its own two levels, so they need no histograms. */
enum {
    LINEAR_FEATURES = 1 << GLCM_CONTRAST | 1 << GLCM_CORRELATION | 1 << GLCM_VARIANCE |
                      1 << GLCM_IDM | 1 << GLCM_SUM_AVERAGE | 1 << GLCM_SUM_VARIANCE |
                      1 << GLCM_DIFFERENCE_VARIANCE
};

/* Whether the state is used for the result only, and all features of the result, maps included, are
 * in LINEAR_FEATURES. */
static bool is_linear(const cpu_worker *w)
{
    return w->work->result_only && (w->params->features & ~(uint32_t)LINEAR_FEATURES) == 0;
}

static inline void add_linear(linear_sums *s, const linear_sums *other)
{
    s->sum += other->sum;
    s->difference += other->difference;
}

static inline void subtract_linear(linear_sums *s, const linear_sums *other)
{
    s->sum -= other->sum;
    s->difference -= other->difference;
}

/* The amounts that a pair adds to the linear sums (glcm_bins). */
static inline linear_sums pair_terms(const glcm_bins *bins, const pair_code *p)
{
    return (linear_sums){ bins->difference_term[p->b - p->a], bins->sum_term[p->a + p->b] };
}

/* The linear sums among the sums of a window. */
static linear_sums get_linear(const glcm_sums *s)
{
    return (linear_sums){ s->difference, s->sum };
}

static void set_linear(glcm_sums *s, const linear_sums *l)
{
    s->difference = l->difference;
    s->sum = l->sum;
}

/* Does the same as slide_window, but updates only the linear sums. */
static void slide_linear(sliding_window *w, const pair_code *centre, const move *m)
{
    linear_sums s = get_linear(&w->s);

    for (int i = 0; i < m->n; i++) {
        const linear_sums leaves = pair_terms(&w->bins, &centre[m->leave[i]]),
                          enters = pair_terms(&w->bins, &centre[m->enter[i]]);

        subtract_linear(&s, &leaves);
        add_linear(&s, &enters);
    }
    set_linear(&w->s, &s);
}

/* Does the same as start_window, but computes only the linear sums. */
static void start_linear(sliding_window *w, const pair_code *centre, const glcm_lens *lens,
                         ptrdiff_t stride)
{
    linear_sums s = { .sum = 0 };

    for (int i = 0; i < lens->rows; i++)
        for (int x = lens->lo[i]; x <= lens->hi[i]; x++) {
            const linear_sums one = pair_terms(&w->bins, &centre[lens->row[i] * stride + x]);

            add_linear(&s, &one);
        }
    set_linear(&w->s, &s);
}

/* Clears the histograms and counts all pairs of the window. centre: the code of its centre; stride:
 * elements of a row of codes. */
static void start_window(sliding_window *w, const glcm_tables *t, unsigned levels,
                         const pair_code *centre, const glcm_lens *lens, ptrdiff_t stride)
{
    const glcm_steps steps = steps_of(t);
    glcm_bins *const h = &w->bins;
    glcm_pair64 marginal_b;
    glcm_sums s;

    memset(h->marginal, 0, levels * sizeof *h->marginal);
    memset(h->difference, 0, levels * sizeof *h->difference);
    memset(h->sum, 0, (size_t)2 * levels * sizeof *h->sum);
    memset(h->cell, 0, (size_t)levels * (levels + 1) / 2 * sizeof *h->cell);
    for (unsigned a = 0; a < levels; a++)
        h->cell[a * (a + 1) / 2 + a] = (uint16_t)(GLCM_DOUBLED * t->diagonal);
    memset(&s, 0, sizeof s);
    memset(&marginal_b, 0, sizeof marginal_b);
    for (int i = 0; i < lens->rows; i++)
        for (int x = lens->lo[i]; x <= lens->hi[i]; x++) {
            const pair_code *const p = &centre[lens->row[i] * stride + x];

            glcm_update_pair(h, p->a, p->b, p->cell, &steps, &s, &marginal_b, 1);
        }
    s.marginal += marginal_b;
    w->s = s;
}

/* Sets the moves of the window to the next (right) and to the previous pixel (left) of a row. In
 * each row of the lens, the pair at one end leaves, and the pair beyond the other end enters.
 * stride: elements of a row of codes. */
static void set_moves(const glcm_lens *lens, ptrdiff_t stride, move *right, move *left)
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

/* Sets the move of the window to the next row: in each column of the lens, which is convex, the top
 * pair leaves, and the pair below the bottom one enters. */
static void set_move_down(const glcm_lens *lens, ptrdiff_t stride, move *down)
{
    enum { R = GLCM_MAX_RADIUS };
    /* the first and the last row of each column x, at index x + R; of columns without pairs, top >
     * bottom */
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

/* The codes of the pairs whose first pixels are in a rectangle of the view. */
typedef struct code_plane {
    pair_code *codes;
    int64_t x0, y0, x1, y1; /* the rectangle, half-open; it may be partly outside the picture */
    ptrdiff_t stride;       /* elements of a row */
    glcm_tile present;      /* the first pixels of all pairs of the picture that are not missing */
} code_plane;

/* Fills the codes of the plane. grey: the levels of the view's pixels; nx: elements of a row of
 * `grey`. */
static void fill_codes(const code_plane *c, int64_t nx, const glcm_lens *lens, const uint8_t *grey)
{
    const pair_code missing = { 0, 0, 0 };

    for (int64_t y = c->y0; y < c->y1; y++) {
        pair_code *const row = c->codes + (y - c->y0) * c->stride;
        int64_t x = c->x0;

        if (y >= c->present.y0 && y < c->present.y1) {
            const uint8_t *const p = grey + y * nx;
            const uint8_t *const q = grey + (y + lens->dy) * nx + lens->dx;
            const int64_t end = c->present.x1 < c->x1 ? c->present.x1 : c->x1;

            for (; x < c->present.x0 && x < c->x1; x++)
                row[x - c->x0] = missing;
            for (; x < end; x++) { /* a, b: the smaller and the larger level of the pair */
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
 * The features of up to KEPT_WINDOWS windows are collected, and then added to the statistics one
 * feature after another, so that the sums of a feature stay in registers. A feature is below 2^49,
 * so the sum over KEPT_WINDOWS windows fits 64 bits. */
enum { KEPT_WINDOWS = 64 };

typedef struct kept_features {
    uint32_t windows;
    int64_t feature[KEPT_WINDOWS][GLCM_FEATURES];
} kept_features;

/* Adds the kept features to *stat and empties k. features: the set of features that were computed.
 * Returns the sum, modulo 2^64, of the kept features that are in the set `returned`. */
static uint64_t flush_kept(kept_features *k, uint32_t features, uint32_t returned, glcm_stat *stat)
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
        /* The halves of 128-bit numbers: UINT64_MAX extends the sign of a negative sum. */
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

/* The data of a thread that slides windows over the tile of a chunk; variables of this type are
 * called u. */
typedef struct chunk_work {
    const cpu_worker *worker;
    unsigned levels;
    const glcm_view *view;
    const uint8_t *roi; /* ROI of the slice, in the view's orientation */
    glcm_lens lens;
    glcm_tile tile;   /* the centres of the windows to compute: lines of the chunk's tile */
    glcm_tile inside; /* the centres of the windows without missing pairs */
    code_plane plane;
    move right, left, down;
    sliding_window *window;
    bool linear;          /* only linear_sums are computed, no histograms */
    bool started;         /* x, y and the window's sums are valid: it has been counted before */
    linear_sums *columns; /* [plane.stride]: for each column of codes the sums over the lens's rows;
                             NULL unless `linear` is set and the lens is a rectangle */
    uint32_t computed;    /* set of the features that are computed (bit i: feature i) */
    int64_t x, y;         /* centre of the window */
    const pair_code *centre; /* the centre's element of plane.codes; not used with `columns` */
    kept_features kept;      /* features that are not yet added to stat */
    glcm_stat *stat;
    glcm_more_stat *more; /* NULL: no features beyond the 13 */
    uint64_t sum; /* sum of the returned features of the windows of the current row, so far */
    glcm_bands *bands;
    bool has_maps;              /* any element of `maps` is not NULL */
    float *maps[COOC_FEATURES]; /* for each feature: the slice of its map, or NULL */
} chunk_work;

/* Moves the window by m. codes: the distance from the old centre to the new one, in elements of
 * plane.codes. */
static void move_by(chunk_work *u, const move *m, ptrdiff_t codes)
{
    if (u->linear)
        slide_linear(u->window, u->centre, m);
    else
        slide_window(u->window, &u->worker->tables, u->centre, m);
    u->centre += codes;
}

/* Adds the pairs of row new_row of the codes to u->columns, and subtracts the pairs of row
 * *old_row, unless old_row is NULL. */
static void update_columns(chunk_work *u, int64_t new_row, const int64_t *old_row)
{
    const code_plane *const p = &u->plane;
    const pair_code *const added = p->codes + (new_row - p->y0) * p->stride;
    const pair_code *const removed =
        p->codes + (old_row != NULL ? *old_row - p->y0 : 0) * p->stride;

    for (ptrdiff_t x = 0; x < p->stride; x++) {
        const linear_sums enters = pair_terms(&u->window->bins, &added[x]),
                          leaves = pair_terms(&u->window->bins, &removed[x]);

        add_linear(&u->columns[x], &enters);
        if (old_row != NULL)
            subtract_linear(&u->columns[x], &leaves);
    }
}

/* Does the same as slide_to, but adds and subtracts whole columns of the window (u->columns), for a
 * lens that is a rectangle. y must not be less than u->y. */
static void slide_by_columns(chunk_work *u, int64_t x, int64_t y)
{
    const glcm_lens *const l = &u->lens;
    const linear_sums *const column = u->columns + (x - u->plane.x0);
    linear_sums s = get_linear(&u->window->s);
    /* whether all columns of the window are added up, not only those that enter and leave */
    bool recount = !u->started || x - u->x > 1 || u->x - x > 1;

    if (!u->started) {
        memset(u->columns, 0, (size_t)u->plane.stride * sizeof *u->columns);
        for (int i = 0; i < l->rows; i++)
            update_columns(u, y + l->row[i], NULL);
        u->y = y;
        u->started = true;
    }
    for (; u->y < y; u->y++) {
        const int64_t top = u->y + l->row[0], below = u->y + l->row[l->rows - 1] + 1;

        update_columns(u, below, &top);
        recount = true;
    }
    if (recount) {
        s = (linear_sums){ .sum = 0 };
        for (int k = l->lo[0]; k <= l->hi[0]; k++)
            add_linear(&s, &column[k]);
    } else if (x > u->x) {
        add_linear(&s, &column[l->hi[0]]);
        subtract_linear(&s, &column[l->lo[0] - 1]);
    } else if (x < u->x) {
        add_linear(&s, &column[l->lo[0]]);
        subtract_linear(&s, &column[l->hi[0] + 1]);
    }
    u->x = x;
    set_linear(&u->window->s, &s);
}

/* Moves the window to (x, y): slides it there, or counts all its pairs if that takes less time. A
 * move by one pixel updates 2 n pairs (move.n). Counting adds lens.pairs pairs and clears the
 * histograms, which takes about as long as updating levels^2 / 64 pairs. */
static void slide_to(chunk_work *u, int64_t x, int64_t y)
{
    const code_plane *const p = &u->plane;

    if (u->columns != NULL) {
        slide_by_columns(u, x, y);
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

/* The number of missing pairs of the window. */
static uint32_t missing_pairs(const chunk_work *u)
{
    const glcm_lens *const l = &u->lens;
    const glcm_tile *const b = &u->plane.present;
    uint32_t present = 0;

    for (int i = 0; i < l->rows; i++) {
        const int64_t y = u->y + l->row[i], x0 = u->x + l->lo[i], x1 = u->x + l->hi[i] + 1;
        const int64_t lo = x0 > b->x0 ? x0 : b->x0, hi = x1 < b->x1 ? x1 : b->x1;

        present += y >= b->y0 && y < b->y1 && lo < hi ? (uint32_t)(hi - lo) : 0;
    }
    return l->pairs - present;
}

/* Subtracts from the sums what the missing pairs, counted as pairs of two levels 0, have added. */
static void subtract_missing(const chunk_work *u, uint32_t missing, glcm_sums *s)
{
    const glcm_bins *const h = &u->window->bins;
    const glcm_tables *const t = &u->worker->tables;
    const uint64_t *const f = t->f;
    /* zeros: element 0 of the marginal; entry: element (0, 0) of C; rest: `entry` without missing
     * pairs */
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

/* Writes a feature of the current window into the feature's map. */
static void put_map(const chunk_work *u, unsigned feature, float value)
{
    const int64_t x = u->lens.transposed ? u->y : u->x, y = u->lens.transposed ? u->x : u->y;

    u->maps[feature][y * u->worker->g.nx + x] = value;
}

/* Returns the largest element of C. The whole matrix is searched, as no sum of a sliding window
 * contains it. */
static uint64_t largest_entry(const chunk_work *u, uint32_t missing)
{
    const uint16_t *cell = u->window->bins.cell;
    const uint32_t diagonal = u->worker->tables.diagonal;
    uint64_t most = 0;

    for (unsigned b = 0; b < u->levels; b++, cell++) {
        /* the number of pairs of two levels b, whose cell is the last one of row b; the element of
         * C is twice this number */
        const uint64_t present = *(cell + b) / GLCM_DOUBLED - diagonal - (b == 0 ? missing : 0);

        for (unsigned a = 0; a < b; a++, cell++)
            most = *cell / GLCM_DOUBLED > most ? *cell / GLCM_DOUBLED : most;
        most = 2 * present > most ? 2 * present : most;
    }
    return most;
}

/* Computes the features beyond the 13 of the current window, and adds them to the statistics, the
 * band's sum and the maps. n: the number of the window's pairs; missing: the number of missing
 * pairs. */
static void add_more_features(chunk_work *u, uint32_t n, uint32_t missing)
{
    const unsigned levels = u->levels;
    const glcm_bins *const h = &u->window->bins;
    cooc_sums sums;
    int64_t feature[GLCM_MORE_FEATURES];

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
    glcm_more_stat_add(u->more, feature);
    /* for each feature that is wanted: a bit of the set, of which the lowest is cleared each time
     */
    for (uint32_t set = u->worker->params->features >> GLCM_FEATURES; set != 0; set &= set - 1)
        u->sum += (uint64_t)feature[__builtin_ctz(set)];
    for (unsigned i = 0; i < GLCM_MORE_FEATURES; i++)
        if (u->maps[GLCM_FEATURES + i] != NULL)
            put_map(u, GLCM_FEATURES + i, glcm_more_float(feature[i], GLCM_FEATURES + i, levels));
}

/* Computes the features of the current window, and adds them to the statistics and maps. */
static void add_features(chunk_work *u)
{
    const glcm_tables *const t = &u->worker->tables;
    const bool inside =
        u->x >= u->inside.x0 && u->x < u->inside.x1 && u->y >= u->inside.y0 && u->y < u->inside.y1;
    const uint32_t missing = inside ? 0 : missing_pairs(u), n = u->lens.pairs - missing;
    const glcm_sums *sums = &u->window->s;
    int64_t *const feature = u->kept.feature[u->kept.windows];
    glcm_sums present;

    if (missing > 0) {
        if (n == 0)
            return;
        present = *sums;
        if (u->linear)
            present.difference -= (glcm_pair64){ 0, missing * t->idm[0] };
        else
            subtract_missing(u, missing, &present);
        sums = &present;
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
        add_more_features(u, n, missing);
}

/* Computes the features of the windows of row y from x0 to x1 - 1, beginning at the end that is
 * nearer to the current window. */
static void process_row(chunk_work *u, int64_t y, int64_t x0, int64_t x1)
{
    const uint8_t *const roi = u->roi + y * u->view->nx;
    bool back;

    while (x0 < x1 && !roi[x0])
        x0++;
    while (x1 > x0 && !roi[x1 - 1])
        x1--;
    back = u->started && u->x - x0 > x1 - 1 - u->x; /* from the last window to the first */
    for (int64_t i = 0; i < x1 - x0; i++) {
        const int64_t x = back ? x1 - 1 - i : x0 + i;

        if (roi[x]) {
            slide_to(u, x, y);
            add_features(u);
        }
    }
    u->sum += flush_kept(&u->kept, u->computed, u->worker->params->features, u->stat);
    u->bands->sum[glcm_band_of(u->view, y)] += u->sum;
    u->sum = 0;
}

/* Whether the windows of a line are to be computed (glcm_params.bands). */
static bool is_selected(const chunk_work *u, int64_t line)
{
    const bool *const bands = u->worker->params->bands;

    return bands == NULL || bands[glcm_band_of(u->view, line)];
}

/* Sets u->tile.y0 and u->tile.y1 to the next range of adjacent selected lines from tile.y0 on and
 * before `end`. Returns false if there are no more selected lines. */
static bool next_lines(chunk_work *u, int64_t end)
{
    glcm_tile *const t = &u->tile;

    while (t->y0 < end && !is_selected(u, t->y0))
        t->y0++;
    t->y1 = t->y0;
    while (t->y1 < end && is_selected(u, t->y1))
        t->y1++;
    return t->y0 < t->y1;
}

/* Sets u->plane and u->inside, and allocates the codes of the pairs of all windows of the tile.
 * Returns false if there is not enough memory. */
static bool make_plane(chunk_work *u, scratch *s)
{
    const glcm_lens *const l = &u->lens;
    glcm_tile *const b = &u->plane.present;
    int lo = 0, hi = 0; /* least and greatest x of the lens */
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

/* Whether all rows of the lens have the same columns, and there is no row between them. */
static bool is_rectangle(const glcm_lens *l)
{
    bool same = true;

    for (int i = 1; i < l->rows; i++)
        same = same && l->lo[i] == l->lo[0] && l->hi[i] == l->hi[0] && l->row[i] == l->row[0] + i;
    return same;
}

/* Allocates u->columns if slide_by_columns is to be used. Returns false if there is not enough
 * memory. */
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

/* Sets u->maps to the maps of this chunk's offset and number of levels. */
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

/* Computes the features of all windows of the tile. */
static tc_status slide_tile(chunk_work *u, const glcm_chunk *chunk, scratch *s)
{
    const cpu_worker *const w = u->worker;

    if (!make_plane(u, s))
        return TC_NO_MEMORY;
    fill_codes(&u->plane, u->view->nx, &u->lens,
               w->grey[u->lens.transposed] + chunk->level * (size_t)w->g.nx * w->g.ny);
    set_moves(&u->lens, u->plane.stride, &u->right, &u->left);
    set_move_down(&u->lens, u->plane.stride, &u->down);
    if (!make_columns(u, s))
        return TC_NO_MEMORY;
    u->started = false;
    for (int64_t y = u->tile.y0; y < u->tile.y1; y++)
        process_row(u, y, u->tile.x0, u->tile.x1);
    return TC_OK;
}

/* Computes the features of the windows of a chunk, and adds them to *stat, *more and *bands. */
static tc_status slide_chunk(const cpu_worker *w, const glcm_chunk *chunk, scratch *s,
                             glcm_stat *stat, glcm_more_stat *more, glcm_bands *bands)
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
    make_terms(&w->tables, u.levels, u.window);
    u.linear = is_linear(w);
    u.computed = u.linear ? w->params->features : UINT32_MAX;
    for (end = u.tile.y1; status == TC_OK && next_lines(&u, end); u.tile.y0 = u.tile.y1)
        status = slide_tile(&u, chunk, s);
    return status;
}

/* If there are at most TABLES_LEVELS levels, the pairs of a ROI are counted in MOST_TABLES tables
 * in turn. With a single table, if a pair has the same levels as the pair before it, the processor
 * must store the count before it can load it again, and waits. With more levels, equal pairs in
 * succession are less frequent, and several tables would not fit in the cache. */
enum {
    MOST_TABLES = 4,   /* number of tables for few levels */
    TABLES_LEVELS = 64 /* greatest number of levels for which MOST_TABLES tables are used */
};

/* The number of tables that the pairs are counted in. */
static unsigned count_tables(unsigned levels)
{
    return levels <= TABLES_LEVELS ? MOST_TABLES : 1;
}

/* Counts the n pairs (p[i], q[i]). */
static void count_run(const uint8_t *p, const uint8_t *q, size_t n, size_t levels, uint32_t *counts)
{
    /* elements from one table to the next; 0 if there is only one table: then all four pointers are
     * equal */
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

/* Counts the pairs of the ROI whose first pixels are in rows [y0, y1). */
static void count_rows(const cpu_worker *w, const glcm_chunk *chunk, int64_t y0, int64_t y1,
                       uint32_t *counts)
{
    const glcm_offset *const o = &w->params->offsets[chunk->offset];
    const unsigned levels = w->params->levels[chunk->level];
    const int64_t nx = w->g.nx, ny = w->g.ny, end = y1 < ny - o->dy ? y1 : ny - o->dy;
    const uint8_t *const grey = w->grey[0] + chunk->level * (size_t)nx * (size_t)ny;
    const int64_t x0 = o->dx < 0 ? -o->dx : 0, x1 = o->dx > 0 ? nx - o->dx : nx;
    const bool all = w->params->roi == GLCM_ROI_ALL; /* all pixels are in the ROI */

    for (int64_t y = y0; y < end; y++) {
        /* p, q: indices of the first and the second pixel of the pair at x = 0 */
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

/* The number of elements of all tables of counts together. */
static size_t counts_size(unsigned levels)
{
    return (size_t)count_tables(levels) * levels * levels;
}

static void clear_counts(const cpu_worker *w, const glcm_chunk *chunk, scratch *s)
{
    memset(s->counts, 0, counts_size(w->params->levels[chunk->level]) * sizeof *s->counts);
}

/* Adds all tables to the first one, and in it element (b, a) to element (a, b) for a < b. */
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

/* Adds the features of the counted matrix to *stat and *more. */
static void add_matrix_features(const cpu_worker *w, const glcm_chunk *chunk, scratch *s,
                                glcm_stat *stat, glcm_more_stat *more)
{
    const unsigned levels = w->params->levels[chunk->level];

    fold_counts(s->counts, levels);
    glcm_add_matrix(s->counts, levels, &w->tables, s->logs, stat, more);
}

/* GLCM_WHOLE_ROI: computes a chunk, which is one matrix of all pairs of the ROI. */
static tc_status whole_chunk(const cpu_worker *w, const glcm_chunk *chunk, scratch *s,
                             glcm_stat *stat, glcm_more_stat *more)
{
    clear_counts(w, chunk, s);
    count_rows(w, chunk, 0, w->g.ny, s->counts);
    add_matrix_features(w, chunk, s, stat, more);
    return TC_OK;
}

static bool is_large_roi(const cpu_worker *w)
{
    return w->params->window == GLCM_WHOLE_ROI && (size_t)w->g.nx * w->g.ny > LARGE_ROI;
}

/* Called by the pool's threads: counts the pairs of a band of a large ROI. A band here is a range
 * of rows that have about LARGE_ROI pixels. */
static void count_band(void *user, unsigned thread, size_t band)
{
    const cpu_worker *const w = user;
    const int64_t rows = LARGE_ROI / w->g.nx + 1;

    count_rows(w, &w->roi_chunk, (int64_t)band * rows, ((int64_t)band + 1) * rows,
               w->scratch[thread].counts);
}

/* Computes the chunk w->roi_chunk of a large ROI by all threads together; each thread counts pairs
 * in tables of its own. */
static tc_status large_chunk(cpu_worker *w, glcm_stat *stat, tc_err *err)
{
    const unsigned levels = w->params->levels[w->roi_chunk.level];
    const size_t rows = LARGE_ROI / (size_t)w->g.nx + 1;
    tc_status status;

    glcm_stat_clear(stat);
    if (w->more != NULL)
        glcm_more_stat_clear(&w->more[0]);
    for (unsigned t = 0; t < w->work->threads; t++)
        clear_counts(w, &w->roi_chunk, &w->scratch[t]);
    status =
        an_pool_run_polled(w->pool, count_band, w, (w->g.ny + rows - 1) / rows, w->work->poll, err);
    for (unsigned t = 1; t < w->work->threads; t++)
        for (size_t i = 0; i < counts_size(levels); i++)
            w->scratch[0].counts[i] += w->scratch[t].counts[i];
    add_matrix_features(w, &w->roi_chunk, &w->scratch[0], stat, w->more);
    return status;
}

/* Called by the pool's threads: computes chunk number w->first + part. */
static void run_chunk(void *user, unsigned thread, size_t part)
{
    cpu_worker *const w = user;
    scratch *const s = &w->scratch[thread];
    glcm_more_stat *const more = w->more != NULL ? &w->more[part] : NULL;
    tc_status status;
    glcm_chunk chunk;

    glcm_chunk_at(&w->g, w->first + part, &chunk);
    glcm_stat_clear(&w->results[part]);
    if (more != NULL)
        glcm_more_stat_clear(more);
    /* With GLCM_WHOLE_ROI the band sums are not used. They are not written either, so that the
     * system does not allocate their pages. */
    if (w->params->window != GLCM_WHOLE_ROI)
        w->bands[part] = (glcm_bands){ { 0 } };
    status = w->params->window == GLCM_WHOLE_ROI
                 ? whole_chunk(w, &chunk, s, &w->results[part], more)
                 : slide_chunk(w, &chunk, s, &w->results[part], more, &w->bands[part]);
    if (status != TC_OK)
        s->status = status;
}

/* --- planes of a slice ----------------------------------------------------------------------- */

/* The side, in pixels, of the squares in which planes are transposed. A part of load_rows has this
 * many rows. */
enum { SQUARE = 64 };

/* Writes SQUARE rows of a plane, from y0 on, into the transposed plane. */
static void transpose_rows(const uint8_t *in, size_t nx, size_t ny, size_t y0, uint8_t *out)
{
    for (size_t x0 = 0; x0 < nx; x0 += SQUARE)
        for (size_t x = x0; x < x0 + SQUARE && x < nx; x++)
            for (size_t y = y0; y < y0 + SQUARE && y < ny; y++)
                out[x * ny + y] = in[y * nx + x];
}

/* Called by the pool's threads: makes SQUARE rows of the planes of slice w->new_slice. */
static void load_rows(void *user, unsigned thread, size_t part)
{
    const cpu_worker *const w = user;
    const size_t nx = w->g.nx, ny = w->g.ny, plane = nx * ny,
                 values = (size_t)1 << w->work->pixels->bits;
    const bool slides = w->params->window != GLCM_WHOLE_ROI;
    const uint32_t y0 = (uint32_t)part * SQUARE, y1 = ny - y0 < SQUARE ? (uint32_t)ny : y0 + SQUARE;

    (void)thread;
    for (size_t i = 0; i < w->params->n_levels; i++) {
        for (uint32_t y = y0; y < y1; y++)
            glcm_quantise_row(w->work->pixels, w->new_slice, y, w->quantiser + i * values,
                              w->grey[0] + i * plane + y * nx);
        if (slides)
            transpose_rows(w->grey[0] + i * plane, nx, ny, y0, w->grey[1] + i * plane);
    }
    for (uint32_t y = y0; y < y1; y++)
        glcm_roi_row(&w->g, w->new_slice, y, w->roi[0] + y * nx);
    if (slides)
        transpose_rows(w->roi[0], nx, ny, y0, w->roi[1]);
}

/* Makes the planes of a slice, unless they are those of the current slice. */
static tc_status load_slice(cpu_worker *w, uint32_t slice, tc_err *err)
{
    if (w->slice == slice)
        return TC_OK;
    w->new_slice = slice;
    w->slice = UINT32_MAX;
    return_if_error(an_pool_run_polled(w->pool, load_rows, w, (w->g.ny + SQUARE - 1) / SQUARE,
                                       w->work->poll, err));
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
            tc_log2_cache_destroy(&w->scratch[i].logs);
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

/* Makes the quantiser and allocates the planes. */
static tc_status make_planes(cpu_worker *w, tc_err *err)
{
    const size_t plane = (size_t)w->g.nx * w->g.ny;
    /* windows of a whole ROI do not slide, so no transposed planes are needed */
    const int orientations = w->params->window == GLCM_WHOLE_ROI ? 1 : 2;

    w->quantiser = glcm_quantiser(&w->g, w->work->pixels->bits);
    if (w->quantiser == NULL)
        return tc_no_memory(err, "glcm");
    for (int i = 0; i < orientations; i++) {
        w->grey[i] = os_alloc_zeroed(plane * w->params->n_levels);
        w->roi[i] = os_alloc_zeroed(plane);
        if (w->grey[i] == NULL || w->roi[i] == NULL)
            return tc_no_memory(err, "glcm");
    }
    if (orientations == 1)
        return TC_OK;
    /* Touches the pages of the transposed planes under work->poll, since the first rows that are
     * transposed would touch them all at once. */
    return_if_error(tc_clear_memory(w->grey[1], plane * w->params->n_levels, w->work->poll, err));
    return tc_clear_memory(w->roi[1], plane, w->work->poll, err);
}

/* Allocates the memory of the threads. Returns false if there is not enough. */
static bool make_scratch(cpu_worker *w, unsigned threads)
{
    w->scratch = calloc(threads, sizeof *w->scratch);
    if (w->scratch == NULL)
        return false;
    for (unsigned i = 0; i < threads; i++) {
        if (w->params->window == GLCM_WHOLE_ROI) {
            /* one table of MAX_L levels, or MOST_TABLES tables of TABLES_LEVELS levels */
            w->scratch[i].counts = malloc((size_t)MAX_L * MAX_L * sizeof(uint32_t));
            w->scratch[i].logs = tc_log2_cache_create();
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

/* Makes the geometry, tables, pool, scratch memory and planes of a new worker. */
static tc_status init_worker(cpu_worker *w, tc_err *err)
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
    status = init_worker(w, err);
    if (status != TC_OK)
        cpu_close(worker);
    return status;
}

/* The greatest number of chunks that the next step may do, after `done` chunks. A step does only
 * chunks of one slice. */
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
        w->more = w->params->has_more_features ? malloc(n * sizeof *w->more) : NULL;
        w->results_size = w->results == NULL || w->bands == NULL ||
                                  (w->params->has_more_features && w->more == NULL)
                              ? 0
                              : n;
        if (w->results_size == 0)
            return tc_no_memory(err, "glcm");
    }
    glcm_chunk_at(&w->g, done, &chunk);
    status = load_slice(w, chunk.slice, err);
    w->first = done;
    w->maps = (unsigned char *)state + glcm_state_maps_at(w->params);
    w->roi_chunk = chunk;
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
            glcm_more_stat_merge(
                &glcm_state_more(w->params,
                                 state)[chunk.level * w->params->n_offsets + chunk.offset],
                &w->more[i]);
    }
    head->chunks_done = done + n;
    *chunks_done = head->chunks_done;
    return head->chunks_done == w->g.chunks ? TC_OK : TC_MORE;
}

/* There is no sync, as the state always contains everything done so far. */
const an_backend glcm_cpu = {
    .name = "cpu", .open = cpu_open, .step = cpu_step, .close = cpu_close
};
