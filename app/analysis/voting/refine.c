/*
 * voting: refines points. Each peak is moved to the point where the gradients around it meet. This
 * is the point nearest, in least squares, to the lines along the gradients of the voters around the
 * peak (R. Parthasarathy, Rapid, accurate particle tracking by calculation of radial symmetry
 * centers, 2012). Axes are in the order z, y, x; distances are in 1/256 of the finest pixel, unless
 * stated otherwise. As voting_scheme.scale has the spacings in 1/64 of the finest pixel,
 * neighbouring pixels are 4 * scale apart.
 */
#include "app/analysis/voting/voting.h"

#include <assert.h>
#include <string.h>

/* The arguments of voting_refine, for the pool's threads. Variables of this type are called r. */
typedef struct refiner {
    const voting_scheme *s;
    const uint32_t *blurred;
    const voting_lines *lines; /* the sums of each peak, or NULL: computed from `blurred` */
    voting_peaks *peaks;       /* the peaks to refine */
} refiner;

/* Vectors for four pixels of a row. */
typedef uint32_t u4 __attribute__((vector_size(16)));
typedef int32_t i4 __attribute__((vector_size(16)));
typedef float f4 __attribute__((vector_size(16)));
typedef uint64_t u64_2 __attribute__((vector_size(16)));

static u4 load4(const uint32_t *from)
{
    u4 v;

    memcpy(&v, from, sizeof v);
    return v;
}

/* A row of the blurred picture near a peak. */
typedef struct row_around {
    int32_t z, y;
    int64_t dz, dy;              /* offset from the peak */
    const uint32_t *pixels;      /* the row's first pixel in the blurred picture */
    const uint32_t *next[2];     /* the next row along z [0] and y [1]; at the picture's border the
                                    row itself */
    const uint32_t *previous[2]; /* the previous row along z and y; at the border the row itself */
} row_around;

/* Finds which of pixels x to x + 3 have gradients that point towards the peak within 30 degrees
 * (cos^2 is 0.75): sets their lanes of *facing to all ones, the others to 0. Returns whether any
 * lane is set. dx: offset of pixel x from the peak. This rules out most pixels without a root or
 * division. It never rules out a pixel that voting_add_line accepts: such a pixel's direction, in
 * integers, is within 22.5 degrees and has an error of less than one degree, and the errors of
 * single precision are far smaller. */
static bool may_face4(const refiner *r, const row_around *row, int32_t x, int64_t dx, i4 *facing)
{
    const voting_shape *const s = &r->s->shape;
    const float step = (float)(4 * r->s->scale[2]);
    const f4 gz = __builtin_convertvector(
                      (i4)(load4(row->next[0] + x) - load4(row->previous[0] + x)), f4) *
                  (float)s->inverse[0],
             gy = __builtin_convertvector(
                      (i4)(load4(row->next[1] + x) - load4(row->previous[1] + x)), f4) *
                  (float)s->inverse[1],
             gx = __builtin_convertvector(
                      (i4)(load4(row->pixels + x + 1) - load4(row->pixels + x - 1)), f4) *
                  (float)s->inverse[2];
    const f4 d = (f4){ 0, 1, 2, 3 } * step + (float)dx;
    const float dz = (float)row->dz, dy = (float)row->dy;
    const f4 dot = -(gz * dz + gy * dy + gx * d);

    *facing = (dot > 0) &
              (dot * dot >= (gz * gz + gy * gy + gx * gx) * (d * d + (dz * dz + dy * dy)) * 0.75f);
    const u64_2 any = (u64_2)*facing;
    return (any[0] | any[1]) != 0;
}

typedef __int128 i128;

/* Returns a / b rounded to the nearest integer, b > 0. */
static int64_t rounded_quotient(i128 a, i128 b)
{
    return (int64_t)(a < 0 ? -((-a + b / 2) / b) : (a + b / 2) / b);
}

/* The determinant of m. */
static i128 det3(const int64_t m[3][3])
{
    return m[0][0] * ((i128)m[1][1] * m[2][2] - (i128)m[1][2] * m[2][1]) -
           m[0][1] * ((i128)m[1][0] * m[2][2] - (i128)m[1][2] * m[2][0]) +
           m[0][2] * ((i128)m[1][0] * m[2][1] - (i128)m[1][1] * m[2][0]);
}

/* Prepares the equations m c = v (voting_lines) for solve_lines. flat: the item is an image, and
 * the equation of z is replaced by one with the solution z = 0. Then m and v are scaled down, so
 * that the entries of m are below 2^34. The entries of v, at most 2^17 times as large, are then
 * below 2^52. */
static void prepare_lines(voting_lines *l, bool flat)
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

/* Whether the lines cross rather than run nearly parallel. Lines from all around a cell's centre
 * cross; lines from one side, along a slightly bent edge, are nearly parallel. Let N be the sum of
 * weight * u u^T / |u|^2 over the voters, with u the direction of a voter's gradient. Then m is
 * tr(N) I - N (voting_lines). If all lines are parallel, N has a single eigenvalue that is not 0,
 * tr(N). The lines cross if N's largest eigenvalue is less than 19/20 of tr(N); in a stack 47/48,
 * as only a cap of a cell at the border may be visible. So m's smallest eigenvalue must be more
 * than 1/40 (in a stack 1/96) of tr(m) = 2 tr(N). This is the case if the matrix 40 m - tr(m) I (96
 * m - tr(m) I) is positive definite, that is, if its leading minors are positive. Its entries are
 * below 2^41. */
static bool lines_cross(const voting_lines *l, bool flat)
{
    const int64_t trace = l->m[0][0] + l->m[1][1] + l->m[2][2];
    int64_t b[3][3];

    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++)
            b[i][k] = (flat ? 40 : 96) * l->m[i][k] - (i == k ? trace : 0);
    return b[0][0] > 0 && (i128)b[0][0] * b[1][1] > (i128)b[0][1] * b[0][1] && det3(b) > 0;
}

/* Solves m c = v by Cramer's rule. c: the point where the lines meet, relative to the peak. No
 * product exceeds 2^123. The lines must cross (lines_cross), so the determinant is positive.
 * Returns false if a coordinate of c exceeds 2^20. */
static bool solve_lines(const voting_lines *l, int64_t c[3])
{
    const i128 det = det3(l->m);

    for (int a = 0; a < 3; a++) {
        int64_t m[3][3];

        memcpy(m, l->m, sizeof m);
        for (int b = 0; b < 3; b++)
            m[b][a] = l->v[b]; /* replaces column a */
        i128 d = det3(m);
        if (d / det > 1 << 20 || d / det < -(1 << 20))
            return false;
        c[a] = rounded_quotient(d, det);
    }
    return true;
}

/* Adds the gradient of pixel x of a row to the sums. dx: the pixel's offset from the peak. */
static void add_pixel(const refiner *r, const row_around *row, int32_t x, int64_t dx,
                      voting_lines *l)
{
    const int64_t d[3] = { row->dz, row->dy, dx };
    int64_t g[3];

    voting_gradient(&r->s->shape, row->pixels + x, row->z, row->y, x, g);
    voting_add_line(&r->s->shape, d, g, l);
}

/* Adds the gradients of pixels x to `to` of a row to the sums. peak_x: the peak's column. */
static void add_row(const refiner *r, const row_around *row, int32_t peak_x, int32_t x, int32_t to,
                    voting_lines *l)
{
    const int64_t step = 4 * (int64_t)r->s->scale[2]; /* distance of neighbouring pixels along x */
    const int32_t nx = (int32_t)r->s->nx;
    i4 facing;

    while (x <= to) {
        const int64_t dx = step * (x - peak_x);

        /* may_face4 reads pixels x - 1 to x + 4, so these must be in the row. */
        if (x == 0 || x + 3 > to || x + 4 >= nx) {
            add_pixel(r, row, x, dx, l);
            x++;
            continue;
        }
        if (may_face4(r, row, x, dx, &facing))
            for (int i = 0; i < 4; i++)
                if (facing[i])
                    add_pixel(r, row, x + i, dx + i * step, l);
        x += 4;
    }
}

/* Row y of slice z, near peak p. */
static row_around row_at(const refiner *r, const voting_peak *p, int64_t z, int64_t y)
{
    const voting_scheme *const s = r->s;
    const size_t plane = (size_t)s->ny * s->nx;
    const uint32_t *const pixels = r->blurred + ((size_t)z * s->ny + (size_t)y) * s->nx;

    return (row_around){ .z = (int32_t)z,
                         .y = (int32_t)y,
                         .dz = 4 * (z - p->z) * s->scale[0],
                         .dy = 4 * (y - p->y) * s->scale[1],
                         .pixels = pixels,
                         .next = { z + 1 < s->nz ? pixels + plane : pixels,
                                   y + 1 < s->ny ? pixels + s->nx : pixels },
                         .previous = { z > 0 ? pixels - plane : pixels,
                                       y > 0 ? pixels - s->nx : pixels } };
}

/* The sums over all pixels within 5/4 of the radius of peak p. */
static voting_lines lines_around(const refiner *r, const voting_peak *p)
{
    const voting_scheme *const s = r->s;
    const int64_t peak[3] = { p->z, p->y, p->x }, length[3] = { s->nz, s->ny, s->nx };
    int64_t reach[3], from[3], to[3];
    voting_lines l;

    memset(&l, 0, sizeof l);
    for (int a = 0; a < 3; a++) {
        reach[a] = length[a] > 1 ? 5 * s->radius64 / (4 * (int64_t)s->scale[a]) : 0;
        from[a] = peak[a] > reach[a] ? peak[a] - reach[a] : 0;
        to[a] = peak[a] + reach[a] < length[a] ? peak[a] + reach[a] : length[a] - 1;
    }
    for (int64_t z = from[0]; z <= to[0]; z++)
        for (int64_t y = from[1]; y <= to[1]; y++) {
            const row_around row = row_at(r, p, z, y);
            /* Squares of distances in 1/256 pixel. As radius64 is in 1/64 pixel, 5/4 of the radius
             * is 5 * radius64. rest: what the square of the distance along x may be at most. */
            const int64_t rest = 25 * s->radius64 * s->radius64 - row.dz * row.dz - row.dy * row.dy;
            int64_t k = reach[2]; /* the row has the pixels at most k columns from the peak */

            while (k >= 0 && 16 * k * k * s->scale[2] * s->scale[2] > rest)
                k--;
            if (k >= 0)
                add_row(r, &row, (int32_t)p->x, (int32_t)(p->x > k ? p->x - k : 0),
                        (int32_t)(p->x + k <= to[2] ? p->x + k : to[2]), &l);
        }
    return l;
}

/* Moves a peak by c. Leaves it where it is if it would move farther than half the radius (2 *
 * radius64 in 1/256 pixel) or out of the picture, which extends half a pixel beyond the centres of
 * its outer pixels. Either can happen with a cell that the border cuts. */
static void move_peak(const voting_scheme *s, const int64_t c[3], voting_peak *p)
{
    const int64_t peak[3] = { p->z, p->y, p->x }, length[3] = { s->nz, s->ny, s->nx };

    if (c[0] * c[0] + c[1] * c[1] + c[2] * c[2] > 4 * s->radius64 * s->radius64)
        return;
    for (int a = 0; a < 3; a++) {
        const int64_t position = 4 * peak[a] * s->scale[a] + c[a];

        if (position < -2 * (int64_t)s->scale[a] || position >= (4 * length[a] - 2) * s->scale[a])
            return;
    }
    for (int a = 0; a < 3; a++)
        p->point[a] = (double)(4 * peak[a] * s->scale[a] + c[a]) / (double)(4 * s->scale[a]);
}

/* Refines a peak. If the lines do not cross, the peak is no cell, and its score becomes 0. lines:
 * the peak's sums; if NULL, they are computed here. */
static void refine_peak(const refiner *r, const voting_lines *lines, voting_peak *p)
{
    const bool flat = r->s->nz == 1;
    voting_lines l = lines != NULL ? *lines : lines_around(r, p);
    int64_t c[3];

    for (int a = 0; a < 3; a++)
        for (int b = 0; b < a; b++)
            l.m[b][a] = l.m[a][b]; /* only the lower triangle is set */
    prepare_lines(&l, flat);
    if (!lines_cross(&l, flat))
        p->score = 0;
    else if (solve_lines(&l, c))
        move_peak(r->s, c, p);
}

/* The number of peaks in a part of the work: enough to make the cost of the pool's lock, taken once
 * for each part, negligible. */
enum { PEAKS_OF_PART = 4 };

/* Called by the pool's threads: refines the peaks of a part. */
static void refine_part(void *user, unsigned thread, size_t part)
{
    const refiner *const r = user;
    const size_t end = (part + 1) * PEAKS_OF_PART;

    (void)thread;
    for (size_t i = part * PEAKS_OF_PART; i < end && i < r->peaks->n; i++)
        refine_peak(r, r->lines != NULL ? &r->lines[i] : NULL, &r->peaks->list[i]);
}

tc_status voting_refine(const voting_scheme *s, const uint32_t *blurred, const voting_lines *lines,
                        an_pool *pool, voting_peaks *p, const tc_poll *poll, tc_err *err)
{
    assert(blurred != NULL || lines != NULL);
    refiner r = { s, blurred, lines, p };
    size_t n_kept = 0;

    const tc_status status =
        an_pool_run_polled(pool, refine_part, &r, p->n / PEAKS_OF_PART + 1, poll, err);

    for (size_t i = 0; i < p->n; i++)
        if (p->list[i].score > 0)
            p->list[n_kept++] = p->list[i];
    p->n = n_kept;
    return status;
}
