/*
 * voting: from the last round's sums to points.
 */
#include "app/analysis/voting.h"

#include <stdlib.h>
#include <string.h>

/* --- peaks ------------------------------------------------------------------------ */

/* Whether a sum stands before another in the order: larger, or equal and
 * earlier. */
static bool before(const uint32_t *votes, size_t a, size_t b)
{
    return votes[a] > votes[b] || (votes[a] == votes[b] && a < b);
}

/* Whether (z, y, x) stands before all its neighbours. */
static bool is_peak(const voting_scheme *s, const uint32_t *votes, uint32_t z, uint32_t y, uint32_t x)
{
    const size_t i = ((size_t)z * s->ny + y) * s->nx + x;

    for (int64_t dz = z > 0 ? -1 : 0; dz <= (z + 1 < s->nz ? 1 : 0); dz++)
        for (int64_t dy = y > 0 ? -1 : 0; dy <= (y + 1 < s->ny ? 1 : 0); dy++)
            for (int64_t dx = x > 0 ? -1 : 0; dx <= (x + 1 < s->nx ? 1 : 0); dx++) {
                const size_t j = (size_t)((int64_t)i + (dz * s->ny + dy) * s->nx + dx);

                if (j != i && !before(votes, i, j))
                    return false;
            }
    return true;
}

static tc_status add_peak(voting_peaks *p, const voting_peak *found, tc_err *err)
{
    if (p->n == p->room) {
        const size_t room = p->room == 0 ? 256 : 2 * p->room;
        voting_peak *const list = realloc(p->list, room * sizeof *list);

        if (list == NULL)
            return tc_no_memory(err, "the peaks");
        p->list = list;
        p->room = room;
    }
    p->list[p->n++] = *found;
    return TC_OK;
}

/* The peaks of some rows of a slice. */
static tc_status find_in_rows(const voting_scheme *s, const uint32_t *votes, uint32_t z, uint32_t y0, uint32_t y1,
                              voting_peaks *p, tc_err *err)
{
    size_t i = ((size_t)z * s->ny + y0) * s->nx;
    tc_status st = TC_OK;

    for (uint32_t y = y0; y < y1; y++)
        for (uint32_t x = 0; st == TC_OK && x < s->nx; x++, i++) {
            /* Most pixels are told by four of their neighbours. */
            if (votes[i] == 0 || (x > 0 && votes[i - 1] >= votes[i]) ||
                (x + 1 < s->nx && votes[i + 1] > votes[i]) || (y > 0 && votes[i - s->nx] >= votes[i]) ||
                (y + 1 < s->ny && votes[i + s->nx] > votes[i]))
                continue;
            if (is_peak(s, votes, z, y, x))
                st = add_peak(p, &(voting_peak){ votes[i], z, y, x, { z, y, x } }, err);
        }
    return st;
}

/* What the threads find, each in its bands. */
typedef struct search {
    const voting_scheme *s;
    const uint32_t *votes;
    struct found {
        voting_peaks peaks;
        tc_status status;
        tc_err err;
    } *found;                   /* [threads] */
} search;

static void search_band(void *user, unsigned thread, size_t band)
{
    const search *const all = user;
    struct found *const f = &all->found[thread];
    uint32_t z, y0, y1;

    voting_band_rows(all->s, band, &z, &y0, &y1);
    if (f->status == TC_OK)
        f->status = find_in_rows(all->s, all->votes, z, y0, y1, &f->peaks, &f->err);
}

/* In no order. */
static tc_status find_peaks(const voting_scheme *s, const uint32_t *votes, an_pool *pool, unsigned threads,
                            voting_peaks *p, tc_err *err)
{
    search all = { s, votes, calloc(threads, sizeof *all.found) };
    tc_status st = all.found == NULL ? tc_no_memory(err, "the peaks") : TC_OK;

    if (st == TC_OK)
        an_pool_run(pool, search_band, &all, s->bands);
    for (unsigned i = 0; all.found != NULL && i < threads; i++) {
        const struct found *const f = &all.found[i];

        if (st == TC_OK && f->status != TC_OK)
            st = tc_fail(err, f->status, "%s", f->err.message);
        for (size_t k = 0; st == TC_OK && k < f->peaks.n; k++)
            st = add_peak(p, &f->peaks.list[k], err);
        free(f->peaks.list);
    }
    free(all.found);
    return st;
}

int voting_by_order(const void *a_at, const void *b_at)
{
    const voting_peak *const a = a_at, *const b = b_at;

    if (a->score != b->score)
        return a->score > b->score ? -1 : 1;
    if (a->z != b->z)
        return a->z < b->z ? -1 : 1;
    if (a->y != b->y)
        return a->y < b->y ? -1 : 1;
    return a->x < b->x ? -1 : a->x > b->x;
}

/* --- suppression ---------------------------------------------------------------------- */

/* Kept peaks in boxes no smaller than the reach: those near a place are in its
 * box or one beside it. */
typedef struct grid {
    size_t box[3], n[3];
    int64_t *head;              /* of each box: index of a kept peak, -1: none */
    int64_t *next;              /* of each kept peak */
} grid;

static tc_status grid_init(const voting_scheme *s, size_t n_peaks, grid *g, tc_err *err)
{
    const size_t length[3] = { s->nz, s->ny, s->nx };
    size_t boxes = 1;

    for (int a = 0; a < 3; a++) {
        g->box[a] = (size_t)s->reach[a] + 1;
        g->n[a] = length[a] / g->box[a] + 1;
        boxes *= g->n[a];
    }
    g->head = malloc(boxes * sizeof *g->head);
    g->next = malloc((n_peaks + 1) * sizeof *g->next);
    if (g->head == NULL || g->next == NULL)
        return tc_no_memory(err, "the peaks");
    for (size_t i = 0; i < boxes; i++)
        g->head[i] = -1;
    return TC_OK;
}

static bool close_by(const voting_scheme *s, const voting_peak *a, const voting_peak *b)
{
    const int64_t dz = ((int64_t)a->z - b->z) * s->scale[0], dy = ((int64_t)a->y - b->y) * s->scale[1],
                  dx = ((int64_t)a->x - b->x) * s->scale[2];

    return dz * dz + dy * dy + dx * dx < s->radius64 * s->radius64;
}

static bool is_suppressed(const voting_scheme *s, const grid *g, const voting_peak *list, const voting_peak *p)
{
    const size_t at[3] = { p->z / g->box[0], p->y / g->box[1], p->x / g->box[2] };

    for (size_t z = at[0] > 0 ? at[0] - 1 : 0; z <= at[0] + 1 && z < g->n[0]; z++)
        for (size_t y = at[1] > 0 ? at[1] - 1 : 0; y <= at[1] + 1 && y < g->n[1]; y++)
            for (size_t x = at[2] > 0 ? at[2] - 1 : 0; x <= at[2] + 1 && x < g->n[2]; x++)
                for (int64_t i = g->head[(z * g->n[1] + y) * g->n[2] + x]; i >= 0; i = g->next[i])
                    if (close_by(s, &list[i], p))
                        return true;
    return false;
}

tc_status voting_suppress(const voting_scheme *s, voting_peaks *p, tc_err *err)
{
    grid g = { .head = NULL };
    tc_status st;
    size_t kept = 0;

    if (p->n == 0)
        return TC_OK;
    qsort(p->list, p->n, sizeof *p->list, voting_by_order);
    st = grid_init(s, p->n, &g, err);
    for (size_t i = 0; st == TC_OK && i < p->n; i++) {
        const voting_peak one = p->list[i];
        size_t box;

        if (is_suppressed(s, &g, p->list, &one))
            continue;
        p->list[kept] = one;
        box = (one.z / g.box[0] * g.n[1] + one.y / g.box[1]) * g.n[2] + one.x / g.box[2];
        g.next[kept] = g.head[box];
        g.head[box] = (int64_t)kept++;
    }
    p->n = st == TC_OK ? kept : p->n;
    free(g.head);
    free(g.next);
    return st;
}

/* --- threshold ------------------------------------------------------------------------- */

/* "auto": at least 3/10 of the score at which the best peaks make up half of
 * the sum of all scores. Many weak peaks, noise, hardly move it, and it does not
 * matter how many cells there are. */
static void apply_threshold(const voting_params *params, voting_peaks *p)
{
    uint64_t sum = 0, part = 0;
    size_t middle = 0, n = 0;

    for (size_t i = 0; i < p->n; i++)
        sum += p->list[i].score;
    while (p->n > 0 && 2 * (part += p->list[middle].score) < sum)
        middle++;
    while (n < p->n && (params->automatic ? 10 * (uint64_t)p->list[n].score >= 3 * (uint64_t)p->list[middle].score
                                          : p->list[n].score >= params->threshold))
        n++;
    p->n = n;
}

/* --- refinement --------------------------------------------------------------------------- */

/* The point nearest to the lines along the gradients of the voters around a
 * peak, in the sense of least squares (R. Parthasarathy, Rapid, accurate
 * particle tracking by calculation of radial symmetry centers, 2012).
 * Sums of weight * (|u|^2 I - u u^T) / |u|^2, coordinates relative to the peak
 * in 1/256 of the finest pixel. */
typedef struct lines {
    int64_t m[3][3], v[3];
} lines;

typedef struct refiner {
    const voting_params *params;
    const voting_scheme *s;
    uint64_t floor;
    const uint32_t *blurred;
    voting_peaks *found;
} refiner;

static void gradient_at(const refiner *r, const int64_t at[3], int64_t g[3])
{
    const voting_scheme *const s = r->s;
    const int64_t length[3] = { s->nz, s->ny, s->nx };
    const int64_t stride[3] = { (int64_t)s->nx * s->ny, s->nx, 1 };
    const uint32_t *const here = r->blurred + at[0] * stride[0] + at[1] * stride[1] + at[2];

    for (int a = 0; a < 3; a++) {
        const int64_t up = at[a] + 1 < length[a] ? stride[a] : 0, down = at[a] > 0 ? stride[a] : 0;

        g[a] = ((int64_t)here[up] - here[-down]) * s->inverse[a] * (r->params->dark ? -1 : 1);
    }
}

/* Whether a gradient g at d from the peak looks past it by more than 30
 * degrees. Most do, and need no root and no division: the direction in whole
 * numbers, below, is less than one degree off, and must be within 22.5. */
static bool looks_away(const int64_t d[3], const int64_t g[3])
{
    const double x = (double)d[2], y = (double)d[1], z = (double)d[0];
    const double gx = (double)g[2], gy = (double)g[1], gz = (double)g[0];
    const double dot = -(gz * z + gy * y + gx * x);

    return dot < 0 || dot * dot < 0.75 * (gz * gz + gy * gy + gx * gx) * (z * z + y * y + x * x);
}

/* Direction of a gradient in a cube of half side 64, and weight; 0 for no voter. */
static uint32_t line_of(const refiner *r, const int64_t g[3], int64_t u[3])
{
    const uint64_t most = voting_most(g[0], g[1], g[2]), size = voting_length(g[0], g[1], g[2]);

    if (most == 0 || size < r->floor)
        return 0;
    for (int a = 0; a < 3; a++)
        u[a] = voting_component(g[a], most, 64);
    return voting_weight(size, r->params->root);
}

/* A voter at d (from the peak, in 1/256), with direction u. It counts if it looks
 * to the peak, within 22.5 degrees.
 * |d| < 2^16 and |u|^2 < 2^14: dot^2 * 2^10 < 2^57. A term of the sums is less
 * than 2^12 * 2^12 * 2^16, and there are less than 2^20 of them. */
static void add_line(const int64_t d[3], const int64_t u[3], uint32_t weight, lines *l)
{
    const int64_t cos2 = 874;
    const int64_t d2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
    const int64_t u2 = u[0] * u[0] + u[1] * u[1] + u[2] * u[2];
    const int64_t dot = -(u[0] * d[0] + u[1] * d[1] + u[2] * d[2]);

    if (dot <= 0 || dot * dot * 1024 < cos2 * u2 * d2)
        return;
    const int64_t t = (weight << 12) / (uint32_t)u2;
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++) {
            const int64_t m = t * ((a == b ? u2 : 0) - u[a] * u[b]);

            l->m[a][b] += m;
            l->v[a] += m * d[b];
        }
}

typedef __int128 i128;

/* a/b rounded, b > 0. */
static int64_t quotient(i128 a, i128 b)
{
    return (int64_t)(a < 0 ? -((-a + b / 2) / b) : (a + b / 2) / b);
}

static i128 det3(const int64_t m[3][3])
{
    return m[0][0] * ((i128)m[1][1] * m[2][2] - (i128)m[1][2] * m[2][1])
         - m[0][1] * ((i128)m[1][0] * m[2][2] - (i128)m[1][2] * m[2][0])
         + m[0][2] * ((i128)m[1][0] * m[2][1] - (i128)m[1][1] * m[2][0]);
}

/* Makes entries of m less than 2^34 and of v (at most 2^17 times those) less
 * than 2^52. In an image z has a line of its own, which keeps the point in it. */
static void shorten(lines *l, bool flat)
{
    int shift = 0;

    if (flat) {
        for (int a = 0; a < 3; a++)
            l->m[0][a] = l->m[a][0] = 0;
        l->m[0][0] = l->m[1][1] + l->m[2][2];
        l->v[0] = 0;
    }
    while ((l->m[0][0] + l->m[1][1] + l->m[2][2]) >> shift >= (int64_t)1 << 34)
        shift++;
    for (int a = 0; a < 3; a++) {
        for (int b = 0; b < 3; b++)
            l->m[a][b] /= (int64_t)1 << shift;
        l->v[a] /= (int64_t)1 << shift;
    }
}

/* Whether the lines cross, rather than run side by side. With N the sum of
 * weight * u u^T / |u|^2, m is tr(N) I - N. N's largest eigenvalue must be less than
 * 19/20 of tr(N) (47/48 in a stack, where a cell that the border cuts may show but a
 * cap), so m's smallest more than 1/40 (1/96) of tr(m) = 2 tr(N): then 40 m - tr(m) I
 * is positive definite, which its leading minors tell. Lines from around a place
 * cross; those from one side, outside a bent edge, hardly do. Entries < 2^41. */
static bool lines_cross(const lines *l, bool flat)
{
    const int64_t trace = l->m[0][0] + l->m[1][1] + l->m[2][2];
    int64_t b[3][3];

    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++)
            b[i][k] = (flat ? 40 : 96) * l->m[i][k] - (i == k ? trace : 0);
    return b[0][0] > 0 && (i128)b[0][0] * b[1][1] > (i128)b[0][1] * b[0][1] && det3(b) > 0;
}

/* Solves m c = v by Cramer's rule; no product passes 2^123. det > 0, since the
 * lines cross. False if the point is far outside. */
static bool solve(const lines *l, int64_t c[3])
{
    const i128 det = det3(l->m);

    for (int a = 0; a < 3; a++) {
        int64_t m[3][3];

        memcpy(m, l->m, sizeof m);
        for (int b = 0; b < 3; b++)
            m[b][a] = l->v[b];
        i128 d = det3(m);
        if (d / det > 1 << 20 || d / det < -(1 << 20))
            return false;
        c[a] = quotient(d, det);
    }
    return true;
}

/* What is at a pixel, if it is within 5/4 of the radius. */
static void add_pixel(const refiner *r, const voting_peak *p, int64_t z, int64_t y, int64_t x, lines *l)
{
    const voting_scheme *const s = r->s;
    const int64_t d[3] = { 4 * (z - p->z) * s->scale[0], 4 * (y - p->y) * s->scale[1], 4 * (x - p->x) * s->scale[2] };
    int64_t g[3], u[3];
    uint32_t weight;

    if (d[0] * d[0] + d[1] * d[1] + d[2] * d[2] > 25 * s->radius64 * s->radius64)
        return;
    gradient_at(r, (const int64_t[3]){ z, y, x }, g);
    if (looks_away(d, g))
        return;
    weight = line_of(r, g, u);
    if (weight != 0)
        add_line(d, u, weight, l);
}

static lines lines_around(const refiner *r, const voting_peak *p)
{
    const voting_scheme *const s = r->s;
    const int64_t at[3] = { p->z, p->y, p->x }, length[3] = { s->nz, s->ny, s->nx };
    int64_t from[3], to[3];
    lines l;

    memset(&l, 0, sizeof l);
    for (int a = 0; a < 3; a++) {
        const int64_t reach = length[a] > 1 ? 5 * s->radius64 / (4 * (int64_t)s->scale[a]) : 0;

        from[a] = at[a] > reach ? at[a] - reach : 0;
        to[a] = at[a] + reach < length[a] ? at[a] + reach : length[a] - 1;
    }
    for (int64_t z = from[0]; z <= to[0]; z++)
        for (int64_t y = from[1]; y <= to[1]; y++)
            for (int64_t x = from[2]; x <= to[2]; x++)
                add_pixel(r, p, z, y, x, &l);
    return l;
}

/* Moves a peak by c; not farther than half the radius, nor out of the picture (a
 * cell that the border cuts). */
static void move_peak(const voting_scheme *s, const int64_t c[3], voting_peak *p)
{
    const int64_t at[3] = { p->z, p->y, p->x }, length[3] = { s->nz, s->ny, s->nx };

    if (c[0] * c[0] + c[1] * c[1] + c[2] * c[2] > 4 * s->radius64 * s->radius64)
        return;
    for (int a = 0; a < 3; a++) {
        const int64_t moved = 4 * at[a] * s->scale[a] + c[a];

        if (moved < -2 * (int64_t)s->scale[a] || moved >= (4 * length[a] - 2) * s->scale[a])
            return;
    }
    for (int a = 0; a < 3; a++)
        p->at[a] = (double)(4 * at[a] * s->scale[a] + c[a]) / (double)(4 * s->scale[a]);
}

/* A peak where lines do not cross gets the score 0: it is no cell. */
static void refine_peak(const refiner *r, voting_peak *p)
{
    const bool flat = r->s->nz == 1;
    lines l = lines_around(r, p);
    int64_t c[3];

    shorten(&l, flat);
    if (!lines_cross(&l, flat))
        p->score = 0;
    else if (solve(&l, c))
        move_peak(r->s, c, p);
}

/* So many peaks are a task: long against the pool's lock. */
enum { PEAKS_OF_TASK = 32 };

static void refine_some(void *user, unsigned thread, size_t task)
{
    const refiner *const r = user;
    const size_t end = (task + 1) * PEAKS_OF_TASK;

    (void)thread;
    for (size_t i = task * PEAKS_OF_TASK; i < end && i < r->found->n; i++)
        refine_peak(r, &r->found->list[i]);
}

static void refine(refiner *r, an_pool *pool)
{
    voting_peaks *const p = r->found;
    size_t kept = 0;

    an_pool_run(pool, refine_some, r, p->n / PEAKS_OF_TASK + 1);
    for (size_t i = 0; i < p->n; i++)
        if (p->list[i].score > 0)
            p->list[kept++] = p->list[i];
    p->n = kept;
}

/* --- output -------------------------------------------------------------------------------- */

static tc_status add_points(const an_task *task, size_t item_index, const voting_peaks *p, wu_output *out, tc_err *err)
{
    const size_t dims = task->item->is_stack ? 3 : 2;
    tc_status st = voting_expect(task->params, task->item, out, err);

    if (st == TC_OK)
        st = wu_output_allocate(out, p->n, err);
    if (st != TC_OK)
        return st;
    *(int64_t *)wu_output_data(out, "count") = (int64_t)p->n;
    for (size_t i = 0; i < p->n; i++) {
        ((int64_t *)wu_output_data(out, "point_item"))[i] = (int64_t)item_index;
        ((int64_t *)wu_output_data(out, "score"))[i] = p->list[i].score;
        memcpy((double *)wu_output_data(out, "point") + i * dims, p->list[i].at + 3 - dims, dims * sizeof(double));
    }
    return TC_OK;
}

tc_status voting_finish(const an_task *task, size_t item_index, const void *state, wu_output *out, tc_err *err)
{
    const voting_params *const p = task->params;
    const uint32_t *const votes = voting_votes_const(state);
    voting_peaks found = { 0, 0, NULL };
    an_pool *pool = NULL;
    voting_scheme s;
    voting_levels levels;
    tc_status st = voting_scheme_init(p, task->item, task->item->name, &s, err);

    if (st == TC_OK)
        st = voting_levels_init(p, &s, task->pixels, &levels, err);
    if (st == TC_OK)
        st = an_pool_create(task->threads, &pool, err);
    if (st == TC_OK)
        st = find_peaks(&s, votes, pool, task->threads, &found, err);
    if (st == TC_OK)
        st = voting_suppress(&s, &found, err);
    if (st == TC_OK) {
        refiner r = { p, &s, levels.floor, votes + s.n, &found };

        apply_threshold(p, &found);
        if (p->refine)
            refine(&r, pool);
        st = add_points(task, item_index, &found, out, err);
    }
    an_pool_destroy(&pool);
    free(found.list);
    return st;
}
