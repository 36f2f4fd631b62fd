/*
 * voting: makes the tables of directions and cones. A voter is a pixel that votes for the pixels in
 * a cone in front of it, whose axis has one of many fixed directions. In each row of pixels around
 * the voter a cone covers an interval, called a span. Axes are in the order z, y, x.
 */
#include "app/analysis/voting/voting.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

size_t voting_offset_rows(const voting_scheme *s)
{
    return (2 * (size_t)s->shape.reach[0] + 1) * (2 * (size_t)s->shape.reach[1] + 1);
}

/* The number of elements of voting_tables.spans that belong to one direction. */
static size_t cone_spans(const voting_scheme *s)
{
    return (2 * (size_t)s->shape.reach[0] + 1) * voting_spans_of_layer(s->shape.reach[1]);
}

size_t voting_span_count(const voting_scheme *s)
{
    return s->n_dirs * cone_spans(s);
}

size_t voting_code_count(const voting_scheme *s)
{
    const size_t points = 2 * (size_t)s->shape.side + 1; /* along an edge of the cube */

    return s->nz > 1 ? points * points * points : points * points;
}

size_t voting_tables_bytes(const voting_scheme *s)
{
    const size_t rows = voting_offset_rows(s);

    /* For each direction: 3 bytes of dirs, its spans, and an element of voting_tables.rows for each
     * slice within reach. Then `ends`, dir_of_code and dir_of_offset. */
    return s->n_dirs *
               (3 + (cone_spans(s) + 2 * (size_t)s->shape.reach[0] + 1) * sizeof(voting_span)) +
           rows +
           (voting_code_count(s) + rows * (2 * (size_t)s->shape.reach[2] + 1)) * sizeof(uint16_t);
}

/* Fills dirs and dir_of_code. A direction is an integer point on the surface of a cube, or in
 * images on the border of a square, with coordinates from -side to side. The direction's code is
 * the index of its point among all integer points of the cube. Directions are numbered in the order
 * of their codes. */
static void make_dirs(const voting_scheme *s, voting_tables *t)
{
    const int side = s->shape.side, depth = s->nz > 1 ? side : 0;
    size_t code = 0, n = 0;

    for (int z = -depth; z <= depth; z++)
        for (int y = -side; y <= side; y++)
            for (int x = -side; x <= side; x++, code++) {
                if (abs(z) != side && abs(y) != side && abs(x) != side)
                    continue;
                t->dir_of_code[code] = (uint16_t)n;
                t->dirs[n][0] = (int8_t)z;
                t->dirs[n][1] = (int8_t)y;
                t->dirs[n][2] = (int8_t)x;
                n++;
            }
}

/* Fills dir_of_offset, for all offsets within reach. */
static void make_offsets(const voting_scheme *s, voting_tables *t)
{
    uint16_t *out = t->dir_of_offset;

    for (int z = -s->shape.reach[0]; z <= s->shape.reach[0]; z++)
        for (int y = -s->shape.reach[1]; y <= s->shape.reach[1]; y++)
            for (int x = -s->shape.reach[2]; x <= s->shape.reach[2]; x++, out++) {
                const int64_t vz = (int64_t)z * s->scale[0], vy = (int64_t)y * s->scale[1];
                const int64_t vx = (int64_t)x * s->scale[2];
                const uint64_t most = voting_max_component(vz, vy, vx);

                *out = most == 0 ? 0
                                 : t->dir_of_code[voting_direction_code(vz, vy, vx, most,
                                                                        s->shape.side, s->nz == 1)];
            }
}

/* Fills `ends`: the last pixel of each row that is within the ball. */
static void make_ends(const voting_scheme *s, voting_tables *t)
{
    const int64_t radius2 = s->radius64 * s->radius64;
    int8_t *out = t->ends;

    for (int z = -s->shape.reach[0]; z <= s->shape.reach[0]; z++)
        for (int y = -s->shape.reach[1]; y <= s->shape.reach[1]; y++) {
            const int64_t dz = (int64_t)z * s->scale[0], dy = (int64_t)y * s->scale[1];
            const int64_t rest = radius2 - dz * dz - dy * dy;
            int x = s->shape.reach[2];

            while (x >= 0 && (int64_t)x * x * s->scale[2] * s->scale[2] > rest)
                x--;
            *out++ = (int8_t)x;
        }
}

tc_status voting_tables_init(const voting_scheme *s, voting_tables *t, tc_err *err)
{
    const size_t rows = voting_offset_rows(s);

    memset(t, 0, sizeof *t);
    t->round = -1;
    t->dirs = calloc(s->n_dirs, sizeof *t->dirs);
    t->dir_of_code = calloc(voting_code_count(s), sizeof *t->dir_of_code);
    t->dir_of_offset = calloc(rows * (2 * (size_t)s->shape.reach[2] + 1), sizeof *t->dir_of_offset);
    t->spans = calloc(voting_span_count(s), sizeof *t->spans);
    t->rows = calloc(s->n_dirs * (2 * (size_t)s->shape.reach[0] + 1), sizeof *t->rows);
    t->ends = calloc(rows, sizeof *t->ends);
    if (t->dirs == NULL || t->dir_of_code == NULL || t->dir_of_offset == NULL || t->spans == NULL ||
        t->rows == NULL || t->ends == NULL) {
        voting_tables_free(t);
        return tc_no_memory(err, "the tables of cones");
    }
    make_dirs(s, t);
    make_offsets(s, t);
    make_ends(s, t);
    return TC_OK;
}

void voting_tables_free(voting_tables *t)
{
    free(t->dirs);
    free(t->dir_of_code);
    free(t->dir_of_offset);
    free(t->spans);
    free(t->rows);
    free(t->ends);
    memset(t, 0, sizeof *t);
}

/* A row of pixels near a voter, and a cone of direction u: the values from which is_covered finds
 * whether the cone covers a pixel of the row. (dz, dy, dx) is the offset of a pixel from the voter,
 * in 1/64 of the smallest spacing. */
typedef struct row_test {
    int64_t zy_dot;      /* uz dz + uy dy, which is the same for all pixels of the row */
    int64_t zy_square;   /* dz^2 + dy^2, which is the same for all pixels of the row */
    int64_t ux, scale_x; /* x component of u; spacing of pixels along x, voting_scheme.scale[2] */
    int end;             /* the ball covers pixels -end to end of the row */
    uint64_t limit;      /* cos^2 of the half-angle * |u|^2, in units of 2^-20 */
} row_test;

/* Whether the cone covers pixel x of the row; x is relative to the voter. The pixel must be in the
 * ball, and its offset d must be within the half-angle of u: dot = u.d > 0 and dot^2 >= cos^2 |u|^2
 * |d|^2. With |u| <= 91 (2D, side 64) and |d| <= 64 * 127 + 63, dot < 2^20: all products fit 64
 * bits. */
static bool is_covered(const row_test *r, int x)
{
    const int64_t dx = x * r->scale_x, dot = r->zy_dot + r->ux * dx;
    const int64_t square = r->zy_square + dx * dx;

    return x >= -r->end && x <= r->end && dot > 0 &&
           ((uint64_t)(dot * dot) << 20) >= r->limit * (uint64_t)square;
}

/* Returns the position in the row, rounded down to a pixel, where the offset has the smallest angle
 * to the direction u. If the cone covers any pixel of the row, it covers this one or the next. With
 * a = zy_dot, q = zy_square and u = ux, the cosine of the angle is (a + u dx) / sqrt(q + dx^2), up
 * to the factor 1 / |u|. If a > 0, it is greatest at dx = u q / a. Otherwise it is positive only on
 * one side of dx = 0, where it increases with |dx|. */
static int nearest_offset(const row_test *r)
{
    int64_t x = r->ux > 0 ? r->end : -r->end;

    if (r->zy_dot > 0) {
        const int64_t a = r->ux * r->zy_square, b = r->zy_dot * r->scale_x;

        x = a >= 0 ? a / b : -((-a + b - 1) / b);
    }
    return (int)(x < -r->end ? -r->end : x > r->end ? r->end : x);
}

/* The span of a row of which the cone covers no pixel: hi is less than lo. */
static const voting_span no_span = { 1, 0 };

/* The pixels of the row that the cone covers; they are an interval, as the cone is convex. */
static voting_span span_of(const row_test *r)
{
    int lo = nearest_offset(r), hi;

    if (!is_covered(r, lo))
        lo++;
    if (!is_covered(r, lo))
        return no_span;
    for (hi = lo; is_covered(r, hi + 1); hi++)
        ;
    while (is_covered(r, lo - 1))
        lo--;
    return (voting_span){ (signed char)lo, (signed char)hi };
}

/* Fills `out` with the spans of direction u in all rows around a voter. cos2: voting_scheme.cos2 of
 * the round. */
static void make_spans(const voting_scheme *s, const voting_tables *t, const int8_t u[3],
                       uint32_t cos2, voting_span *out)
{
    const int64_t length2 = u[0] * u[0] + u[1] * u[1] + u[2] * u[2];
    const int8_t *end = t->ends;

    for (int z = -s->shape.reach[0]; z <= s->shape.reach[0];
         z++, out += voting_spans_of_layer(s->shape.reach[1]))
        for (int y = -s->shape.reach[1]; y <= s->shape.reach[1]; y++, end++) {
            const int64_t dz = (int64_t)z * s->scale[0], dy = (int64_t)y * s->scale[1];
            const row_test r = { u[0] * dz + u[1] * dy,
                                 dz * dz + dy * dy,
                                 u[2],
                                 s->scale[2],
                                 *end,
                                 (uint64_t)cos2 * (uint64_t)length2 };

            out[y + s->shape.reach[1]] = *end < 0 ? no_span : span_of(&r);
        }
}

/* Fills `out` with the spans of direction u, which has negative components, by mirroring the spans
 * `from`. They are those of the direction whose components are the absolute values of u's
 * components. */
static void mirror_spans(const voting_scheme *s, const int8_t u[3], const voting_span *from,
                         voting_span *out)
{
    const int rz = s->shape.reach[0], ry = s->shape.reach[1],
              stride = (int)voting_spans_of_layer(ry);

    for (int z = -rz; z <= rz; z++, out += stride)
        for (int y = -ry; y <= ry; y++) {
            const int fz = u[0] < 0 ? -z : z, fy = u[1] < 0 ? -y : y;
            const voting_span f = from[(fz + rz) * stride + fy + ry];

            out[y + ry] = u[2] >= 0 || f.lo > f.hi
                              ? f
                              : (voting_span){ (signed char)-f.hi, (signed char)-f.lo };
        }
}

/* Sets the first and last row with a span in each layer, for one direction. spans: the direction's
 * spans; rows: the direction's element in the first layer of voting_tables.rows. */
static void make_rows(const voting_scheme *s, const voting_span *spans, voting_span *rows)
{
    const int ry = s->shape.reach[1];

    for (int z = 0; z <= 2 * s->shape.reach[0];
         z++, spans += voting_spans_of_layer(ry), rows += s->n_dirs) {
        int lo = -ry, hi = ry;

        while (lo <= hi && spans[lo + ry].lo > spans[lo + ry].hi)
            lo++;
        while (hi > lo && spans[hi + ry].lo > spans[hi + ry].hi)
            hi--;
        *rows = lo <= hi ? (voting_span){ (signed char)lo, (signed char)hi } : no_span;
    }
}

/* The number of directions in a part of the work of the pool's threads. */
enum { DIRS_PER_PART = 64 };

/* A pass over all directions that makes the cones of a round; in later rounds they are narrower. */
typedef struct table_pass {
    const voting_scheme *s;
    voting_tables *t;
    int round;
    bool mirrored; /* this is the second pass: it makes the directions with negative components, by
                      mirroring directions that the first pass has made */
} table_pass;

/* Makes the spans and rows of direction number i, if the direction belongs to this pass. */
static void make_direction(const table_pass *m, size_t i)
{
    const voting_scheme *const s = m->s;
    const voting_tables *const t = m->t;
    const int8_t *const u = t->dirs[i];
    voting_span *const spans = t->spans + i * cone_spans(s);

    if ((u[0] < 0 || u[1] < 0 || u[2] < 0) != m->mirrored)
        return;
    if (m->mirrored) {
        const int z = abs(u[0]) + (s->nz > 1 ? s->shape.side : 0), y = abs(u[1]) + s->shape.side,
                  x = abs(u[2]) + s->shape.side;
        const size_t points = 2 * (size_t)s->shape.side + 1;
        const size_t code = ((size_t)z * points + (size_t)y) * points + (size_t)x;

        mirror_spans(s, u, t->spans + t->dir_of_code[code] * cone_spans(s), spans);
    } else {
        make_spans(s, t, u, s->cos2[m->round], spans);
    }
    make_rows(s, spans, t->rows + i);
}

/* Called by the pool's threads: makes the directions of one part. */
static void make_part(void *user, unsigned thread, size_t part)
{
    const table_pass *const m = user;
    const size_t end = (part + 1) * DIRS_PER_PART;

    (void)thread;
    for (size_t i = part * DIRS_PER_PART; i < end && i < m->s->n_dirs; i++)
        make_direction(m, i);
}

tc_status voting_tables_set_round(const an_work *work, const voting_scheme *s, voting_tables *t,
                                  int round, an_pool *pool, tc_err *err)
{
    assert(round >= 0 && round < s->rounds);
    const size_t parts = s->n_dirs / DIRS_PER_PART + 1;
    table_pass m = { s, t, round, false };
    tc_status status;

    if (t->round == round)
        return TC_OK;
    status = an_pool_run_polled(pool, make_part, &m, parts, work->poll, err);
    m.mirrored = true;
    if (status == TC_OK)
        status = an_pool_run_polled(pool, make_part, &m, parts, work->poll, err);
    t->round = status == TC_OK ? round : -1; /* -1: the tables are incomplete */
    return status;
}
