/*
 * voting: points moved from the peaks to where the gradients around them meet.
 */
#include "app/analysis/voting/voting.h"

#include <string.h>

/* The point nearest to the lines along the gradients of the voters around a
 * peak, in the sense of least squares (R. Parthasarathy, Rapid, accurate
 * particle tracking by calculation of radial symmetry centers, 2012).
 * Sums of weight * (|u|^2 I - u u^T) / |u|^2, coordinates relative to the peak
 * in 1/256 of the finest pixel. */
typedef struct lines {
    int64_t m[3][3], v[3];
} lines;

typedef struct refiner {
    const voting_scheme *s;
    const uint32_t *blurred;
    voting_peaks *found;
} refiner;

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

    if (most == 0 || size < r->s->shape.floor)
        return 0;
    for (int a = 0; a < 3; a++)
        u[a] = voting_component(g[a], most, 64);
    return voting_weight(size, r->s->shape.root);
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
    voting_gradient(&s->shape, r->blurred + (z * s->ny + y) * s->nx + x, (tc_i32)z, (tc_i32)y, (tc_i32)x, g);
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

/* So many peaks are a part: long against the pool's lock. */
enum { PEAKS_OF_PART = 4 };

static void refine_some(void *user, unsigned thread, size_t part)
{
    const refiner *const r = user;
    const size_t end = (part + 1) * PEAKS_OF_PART;

    (void)thread;
    for (size_t i = part * PEAKS_OF_PART; i < end && i < r->found->n; i++)
        refine_peak(r, &r->found->list[i]);
}

tc_status voting_refine(const voting_scheme *s, const uint32_t *blurred, an_pool *pool, voting_peaks *p,
                        const tc_poll *poll, tc_err *err)
{
    refiner r = { s, blurred, p };
    size_t kept = 0;

    const tc_status st = an_pool_run_polled(pool, refine_some, &r, p->n / PEAKS_OF_PART + 1, poll, err);

    for (size_t i = 0; i < p->n; i++)
        if (p->list[i].score > 0)
            p->list[kept++] = p->list[i];
    p->n = kept;
    return st;
}
