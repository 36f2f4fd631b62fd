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

static tc_status find_peaks(const voting_scheme *s, const uint32_t *votes, voting_peaks *p, tc_err *err)
{
    tc_status st = TC_OK;
    size_t i = 0;

    for (uint32_t z = 0; z < s->nz; z++)
        for (uint32_t y = 0; y < s->ny; y++)
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
    int64_t *next;              /* of each kept voting_peak */
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
} refiner;

/* Direction in a cube of half side 64 and weight; 0 for no voter. */
static uint32_t line_at(const refiner *r, int64_t z, int64_t y, int64_t x, int64_t u[3])
{
    const voting_scheme *const s = r->s;
    const int64_t at[3] = { z, y, x }, length[3] = { s->nz, s->ny, s->nx };
    const int64_t stride[3] = { (int64_t)s->nx * s->ny, s->nx, 1 };
    const int64_t i = z * stride[0] + y * stride[1] + x;
    int64_t g[3];
    uint64_t most, size;

    for (int a = 0; a < 3; a++) {
        const int64_t up = at[a] + 1 < length[a] ? stride[a] : 0, down = at[a] > 0 ? stride[a] : 0;

        g[a] = ((int64_t)r->blurred[i + up] - r->blurred[i - down]) * s->inverse[a] * (r->params->dark ? -1 : 1);
    }
    most = voting_most(g[0], g[1], g[2]);
    size = voting_length(g[0], g[1], g[2]);
    if (most == 0 || size < r->floor)
        return 0;
    for (int a = 0; a < 3; a++)
        u[a] = voting_component(g[a], most, 64);
    return voting_weight(size, r->params->root);
}

/* A voter at d (from the peak, in 1/256), with direction u. It counts within
 * 5/4 of the radius and if it looks to the peak, within 22.5 degrees.
 * |d| < 2^16 and |u|^2 < 2^14: dot^2 * 2^10 < 2^57. A term of the sums is less
 * than 2^12 * 2^12 * 2^16, and there are less than 2^20 of them. */
static void add_line(const voting_scheme *s, const int64_t d[3], const int64_t u[3], uint32_t weight, lines *l)
{
    const int64_t cos2 = 874, most = 5 * s->radius64;
    const int64_t d2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
    const int64_t u2 = u[0] * u[0] + u[1] * u[1] + u[2] * u[2];
    const int64_t dot = -(u[0] * d[0] + u[1] * d[1] + u[2] * d[2]);
    const int64_t t = ((int64_t)weight << 12) / u2;

    if (d2 > most * most || dot <= 0 || dot * dot * 1024 < cos2 * u2 * d2)
        return;
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

/* Solves m c = v by Cramer's rule, after a shift that makes entries of m less
 * than 2^34 and of v (at most 2^17 times those) less than 2^52: no product
 * passes 2^123. False if there is no single point. */
static bool solve(lines *l, bool flat, int64_t c[3])
{
    int shift = 0;
    i128 det;

    if (flat) {
        for (int a = 0; a < 3; a++)
            l->m[0][a] = l->m[a][0] = 0;
        l->m[0][0] = l->m[1][1] + l->m[2][2] > 0 ? l->m[1][1] + l->m[2][2] : 1;
        l->v[0] = 0;
    }
    while ((l->m[0][0] + l->m[1][1] + l->m[2][2]) >> shift >= (int64_t)1 << 34)
        shift++;
    for (int a = 0; a < 3; a++) {
        for (int b = 0; b < 3; b++)
            l->m[a][b] /= (int64_t)1 << shift;
        l->v[a] /= (int64_t)1 << shift;
    }
    det = det3(l->m);
    if (det <= 0)
        return false;
    for (int a = 0; a < 3; a++) {
        int64_t m[3][3];

        memcpy(m, l->m, sizeof m);
        for (int b = 0; b < 3; b++)
            m[b][a] = l->v[b];
        i128 d = det3(m);
        /* Far outside: whatever comes of it is not used. */
        if (d / det > 1 << 20 || d / det < -(1 << 20))
            return false;
        c[a] = quotient(d, det);
    }
    return true;
}

static int64_t lower(int64_t centre, int64_t reach)
{
    return centre > reach ? centre - reach : 0;
}

static int64_t upper(int64_t centre, int64_t reach, int64_t n)
{
    return centre + reach < n ? centre + reach : n - 1;
}

/* A point farther than half the radius from its peak, or outside the picture
 * (a cell that the border cuts), is not taken: the peak stays. */
static void refine_peak(const refiner *r, voting_peak *p)
{
    const voting_scheme *const s = r->s;
    const int64_t at[3] = { p->z, p->y, p->x }, length[3] = { s->nz, s->ny, s->nx };
    int64_t reach[3], c[3], shift2 = 0;
    lines l;

    memset(&l, 0, sizeof l);
    for (int a = 0; a < 3; a++)
        reach[a] = length[a] > 1 ? 5 * s->radius64 / (4 * (int64_t)s->scale[a]) : 0;
    for (int64_t z = lower(at[0], reach[0]); z <= upper(at[0], reach[0], length[0]); z++)
        for (int64_t y = lower(at[1], reach[1]); y <= upper(at[1], reach[1], length[1]); y++)
            for (int64_t x = lower(at[2], reach[2]); x <= upper(at[2], reach[2], length[2]); x++) {
                const int64_t d[3] = { 4 * (z - at[0]) * s->scale[0], 4 * (y - at[1]) * s->scale[1],
                                       4 * (x - at[2]) * s->scale[2] };
                int64_t u[3];
                const uint32_t weight = line_at(r, z, y, x, u);

                if (weight != 0)
                    add_line(s, d, u, weight, &l);
            }
    if (!solve(&l, s->nz == 1, c))
        return;
    for (int a = 0; a < 3; a++)
        shift2 += c[a] * c[a];
    if (shift2 > 4 * s->radius64 * s->radius64)
        return;
    for (int a = 0; a < 3; a++) {
        const int64_t moved = 4 * at[a] * s->scale[a] + c[a];

        if (moved < -2 * (int64_t)s->scale[a] || moved >= (4 * length[a] - 2) * s->scale[a])
            return;
    }
    for (int a = 0; a < 3; a++)
        p->at[a] = (double)(4 * at[a] * s->scale[a] + c[a]) / (double)(4 * s->scale[a]);
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
    voting_peaks found = { 0, 0, NULL };
    voting_scheme s;
    voting_levels levels;
    tc_status st = voting_scheme_init(p, task->item, task->item->name, &s, err);

    if (st == TC_OK)
        st = voting_levels_init(p, &s, task->pixels, &levels, err);
    if (st == TC_OK)
        st = find_peaks(&s, voting_votes_const(state), &found, err);
    if (st == TC_OK)
        st = voting_suppress(&s, &found, err);
    if (st == TC_OK) {
        const refiner r = { p, &s, levels.floor, voting_votes_const(state) + s.n };

        apply_threshold(p, &found);
        for (size_t i = 0; p->refine && i < found.n; i++)
            refine_peak(&r, &found.list[i]);
        st = add_points(task, item_index, &found, out, err);
    }
    free(found.list);
    return st;
}
