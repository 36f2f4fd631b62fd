/*
 * The arithmetic of voting that both backends share.
 */
#ifndef VOTING_CORE_H
#define VOTING_CORE_H

#include "app/analysis/voting/layout.h"

#ifdef __OPENCL_VERSION__
#define VOTING_QUOTIENT(a, b) ((a) / (b))
#else
/* a / b rounded down, a < 2^52 and b < 2^52, several times as fast as that of integers: a
 * quotient that is not whole is at least 1/b below the next whole number, too much for
 * the rounding of a double to bridge if a < 2^52. Processors convert signed integers at once. */
#define VOTING_QUOTIENT(a, b) ((tc_u64)(tc_i64)((double)(tc_i64)(a) / (double)(tc_i64)(b)))
#endif

/* The blur's sums: 16-bit pixels times weights of 2^12 in all are less than
 * 2^28 and leave 20 bits (4 of fraction); the next sums are less than 2^32. */
#define VOTING_ROUND_FIRST(sum) (((sum) + 128u) >> 8)
#define VOTING_NEXT_BITS 12
#define VOTING_ROUND_NEXT(sum) (((sum) + (1u << (VOTING_NEXT_BITS - 1))) >> VOTING_NEXT_BITS)

/* The gradient of the blurred picture at the pixel `here`, along one axis: `i` of n pixels
 * along it, `stride` from one to the next. */
TC_INLINE tc_i64 voting_slope(TC_GLOBAL const tc_u32 *here, tc_i32 i, tc_i32 n, tc_index stride,
                              tc_i32 inverse)
{
    const tc_i64 up = here[i + 1 < n ? stride : 0], down = *(here - (i > 0 ? stride : 0));

    return inverse * (up - down);
}

TC_INLINE void voting_gradient(TC_CONSTANT const voting_shape *s, TC_GLOBAL const tc_u32 *here,
                               tc_i32 z, tc_i32 y, tc_i32 x, tc_i64 g[3])
{
    const tc_index nx = (tc_index)s->n[2];

    g[0] = voting_slope(here, z, s->n[0], nx * (tc_index)s->n[1], s->inverse[0]);
    g[1] = voting_slope(here, y, s->n[1], nx, s->inverse[1]);
    g[2] = voting_slope(here, x, s->n[2], 1, s->inverse[2]);
}

/* Length of a gradient in 2^-6 of the blurred picture's steps. Components are
 * differences (less than 2^21) times at most 2^6: the square fits 2^56. */
TC_INLINE tc_u64 voting_length(tc_i64 gz, tc_i64 gy, tc_i64 gx)
{
    return tc_sqrt_round((tc_u64)(gz * gz + gy * gy + gx * gx));
}

/* Weight from that length (less than 2^28): its root, at most 2^12 - 1; or the
 * length itself, coarser. */
TC_INLINE tc_u32 voting_weight(tc_u64 length, int root)
{
    return (tc_u32)(root ? tc_sqrt_round(length >> 4) : length >> 15);
}

/* One component of a direction: side * a / most, rounded, 0 <= a <= most. */
TC_INLINE tc_i32 voting_component(tc_i64 a, tc_u64 most, int side)
{
    const tc_u64 size = TC_ABS(a);
    const tc_i32 c = (tc_i32)VOTING_QUOTIENT(2 * (tc_u64)side * size + most, 2 * most);

    return a < 0 ? -c : c;
}

TC_INLINE tc_u64 voting_most(tc_i64 z, tc_i64 y, tc_i64 x)
{
    const tc_u64 sz = TC_ABS(z), sy = TC_ABS(y), sx = TC_ABS(x);
    const tc_u64 zy = TC_MAX(sz, sy);

    return TC_MAX(zy, sx);
}

/* Where a vector's direction stands in the table of codes; most =
 * voting_most(z, y, x) > 0. flat: the picture has no z. */
TC_INLINE tc_u32 voting_code(tc_i64 z, tc_i64 y, tc_i64 x, tc_u64 most, int side, int flat)
{
    const tc_i32 cz = flat ? 0 : voting_component(z, most, side) + side;
    const tc_i32 cy = voting_component(y, most, side) + side;
    const tc_i32 cx = voting_component(x, most, side) + side;

    return (tc_u32)((cz * (2 * side + 1) + cy) * (2 * side + 1) + cx);
}

/* The voter that a gradient makes; 0: none. */
TC_INLINE tc_u32 voting_voter(TC_CONSTANT const voting_shape *s, const tc_i64 g[3],
                              TC_GLOBAL const tc_u16 *dir_of_code)
{
    const tc_u64 most = voting_most(g[0], g[1], g[2]);
    tc_u64 length;

    if (most == 0)
        return 0;
    length = voting_length(g[0], g[1], g[2]);
    if (length < s->floor)
        return 0;
    return VOTING_VOTER(voting_weight(length, s->root),
                        dir_of_code[voting_code(g[0], g[1], g[2], most, s->side, s->n[0] == 1)]);
}

/* --- points ---------------------------------------------------------------------------------- */

/* Sums of weight * (|u|^2 I - u u^T) / |u|^2 over the gradients around a peak, coordinates relative
 * to it in 1/256 of the finest pixel. Of m the lower half is kept. */
typedef struct voting_lines {
    tc_i64 m[3][3], v[3];
} voting_lines;

/* A gradient g at d (from the peak). It counts if it is a voter's and looks to the peak,
 * within 22.5 degrees; u is its direction in a cube of half side 64. |d| < 2^16 and |u|^2 < 2^14:
 * dot^2 * 2^10 < 2^57. A term of the sums is less than 2^12 * 2^12 * 2^16, and there are less than
 * 2^20 of them. */
TC_INLINE void voting_add_line(TC_CONSTANT const voting_shape *s, const tc_i64 d[3],
                               const tc_i64 g[3], voting_lines *l)
{
    const tc_i64 cos2 = 874;
    const tc_u64 most = voting_most(g[0], g[1], g[2]);
    tc_i64 u[3];

    if (most == 0)
        return;
    for (int a = 0; a < 3; a++)
        u[a] = voting_component(g[a], most, 64);
    const tc_i64 d2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
    const tc_i64 u2 = u[0] * u[0] + u[1] * u[1] + u[2] * u[2];
    const tc_i64 dot = -(u[0] * d[0] + u[1] * d[1] + u[2] * d[2]);

    if (dot <= 0 || dot * dot * 1024 < cos2 * u2 * d2)
        return;
    const tc_u64 length = voting_length(g[0], g[1], g[2]);

    if (length < s->floor)
        return;
    const tc_i64 t = (voting_weight(length, s->root) << 12) / (tc_u32)u2;
    for (int a = 0; a < 3; a++) {
        l->v[a] += t * (u2 * d[a] + u[a] * dot);
        for (int b = 0; b < a; b++)
            l->m[a][b] -= t * u[a] * u[b];
        l->m[a][a] += t * (u2 - u[a] * u[a]);
    }
}

/* --- cones ----------------------------------------------------------------------------------- */

/* Where the rows of a direction's cone in a layer (slice dz around the voter) stand in
 * [2 reach_z + 1][n_dirs]. */
TC_INLINE size_t voting_rows_at(TC_CONSTANT const voting_shape *s, tc_u32 dir, tc_i32 dz)
{
    return (size_t)(dz + s->reach[0]) * (size_t)s->dirs + dir;
}

/* Spans are in [n_dirs][2 reach_z + 1][2 reach_y + 1], with some to spare behind the rows of each
 * layer: four are read at once. */
TC_INLINE size_t voting_spans_of_layer(tc_i32 reach_y)
{
    return ((size_t)(2 * reach_y + 1) + 3) & ~(size_t)3;
}

/* Where the span of a layer's first row stands, dy = -reach_y. */
TC_INLINE size_t voting_spans_at(TC_CONSTANT const voting_shape *s, tc_u32 dir, tc_i32 dz)
{
    return ((size_t)dir * (size_t)(2 * s->reach[0] + 1) + (size_t)(dz + s->reach[0])) *
           voting_spans_of_layer(s->reach[1]);
}

/* What of a span around `at` is within [0, n). */
typedef struct voting_part {
    tc_i32 lo, hi;
} voting_part;
TC_INLINE voting_part voting_within(voting_span span, tc_i32 at, tc_i32 n)
{
    voting_part p;

    p.lo = TC_MAX(VOTING_LO(span), -at);
    p.hi = TC_MIN(VOTING_HI(span), n - 1 - at);
    return p;
}

/* --- turning --------------------------------------------------------------------------------- */

#ifdef __NV_CL_C_VERSION
/* NVIDIA's driver 580.159 unrolls loops over a few pixels, which takes longer, and once found other
 * votes than there are: the PTX that it makes is right, and gives the right votes when the driver
 * translates it without optimising, wrong ones at its levels 1 to 4. */
#define VOTING_ONE_BY_ONE _Pragma("unroll 1")
#else
#define VOTING_ONE_BY_ONE
#endif

/* The largest sum of a row's pixels [lo, hi]: compilers make vectors of it. */
TC_INLINE tc_u32 voting_most_votes(TC_GLOBAL const tc_u32 *row, voting_part p)
{
    tc_u32 most = 0;

    VOTING_ONE_BY_ONE
    for (tc_i32 dx = p.lo; dx <= p.hi; dx++)
        most = row[dx] > most ? row[dx] : most;
    return most;
}

/* The voter at (z, y, x) turned to the first of the largest sums in its cone; votes: of
 * its own pixel. */
TC_INLINE tc_u32 voting_turned(TC_CONSTANT const voting_shape *s, tc_u32 voter, tc_i32 z, tc_i32 y,
                               tc_i32 x, TC_GLOBAL const tc_u32 *votes,
                               TC_GLOBAL const voting_span *spans,
                               TC_GLOBAL const voting_span *rows,
                               TC_GLOBAL const tc_u16 *dir_of_offset)
{
    const tc_i32 rz = s->reach[0], ry = s->reach[1], rx = s->reach[2];
    const tc_i64 nx = s->n[2], plane = nx * s->n[1];
    tc_i32 best_z = 0, best_y = 0, dx;
    tc_u32 best = 0;

    VOTING_ONE_BY_ONE
    for (tc_i32 dz = -rz; dz <= rz; dz++) {
        if (z + dz < 0 || z + dz >= s->n[0])
            continue;
        const voting_part ys =
            voting_within(rows[voting_rows_at(s, VOTING_DIR(voter), dz)], y, s->n[1]);
        TC_GLOBAL const voting_span *const layer =
            spans + voting_spans_at(s, VOTING_DIR(voter), dz);
        VOTING_ONE_BY_ONE
        for (tc_i32 dy = ys.lo; dy <= ys.hi; dy++) {
            const tc_u32 most = voting_most_votes(votes + (dz * plane + dy * nx),
                                                  voting_within(layer[dy + ry], x, s->n[2]));

            if (most > best) {
                best = most;
                best_z = dz;
                best_y = dy;
            }
        }
    }
    if (best == 0)
        return voter;
    dx = voting_within(spans[voting_spans_at(s, VOTING_DIR(voter), best_z) + (size_t)(best_y + ry)],
                       x, s->n[2])
             .lo;
    VOTING_ONE_BY_ONE
    while (votes[best_z * plane + best_y * nx + dx] != best)
        dx++;
    return VOTING_VOTER(
        VOTING_WEIGHT(voter),
        dir_of_offset[((best_z + rz) * (2 * ry + 1) + best_y + ry) * (2 * rx + 1) + dx + rx]);
}

#endif
