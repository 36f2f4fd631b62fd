/*
 * voting: the arithmetic of pixels and voters, compiled as C and as OpenCL C. Axes are in the order
 * z, y, x.
 */
#ifndef VOTING_CORE_H
#define VOTING_CORE_H

#include "app/analysis/voting/layout.h"

#ifdef __OPENCL_VERSION__
#define VOTING_QUOTIENT(a, b) ((a) / (b))
#else
/* a / b rounded down, for a < 2^52 and b < 2^52, in double precision: several times as fast as a
 * division of integers. It is exact, since a quotient that is not an integer is at least 1/b below
 * the next integer, which is more than the rounding error if a < 2^52. The casts are to signed
 * integers, as processors convert these with one instruction. */
#define VOTING_QUOTIENT(a, b) ((tc_u64)(tc_i64)((double)(tc_i64)(a) / (double)(tc_i64)(b)))
#endif

/* The rounding of the blur's sums. The weights along an axis add up to 2^12. Along the first axis,
 * sums of 16-bit pixels are below 2^28. They are rounded to 20 bits, of which 4 are fraction bits.
 * Along each further axis, sums of these values are below 2^32, and are rounded to 20 bits again.
 */
#define VOTING_ROUND_FIRST(sum) (((sum) + 128u) >> 8)
#define VOTING_NEXT_BITS 12
#define VOTING_ROUND_NEXT(sum) (((sum) + (1u << (VOTING_NEXT_BITS - 1))) >> VOTING_NEXT_BITS)

/* The gradient of the blurred picture at the pixel to which `here` points, along one axis. i: the
 * pixel's coordinate on this axis, from 0 to n - 1; stride: elements from a pixel to the next one
 * along the axis; inverse: voting_shape.inverse of this axis. */
TC_INLINE tc_i64 voting_slope(TC_GLOBAL const tc_u32 *here, tc_i32 i, tc_i32 n, tc_index stride,
                              tc_i32 inverse)
{
    const tc_i64 up = here[i + 1 < n ? stride : 0], down = *(here - (i > 0 ? stride : 0));

    return inverse * (up - down);
}

/* Sets g to the gradient of the blurred picture at the pixel (z, y, x), to which `here` points. */
TC_INLINE void voting_gradient(TC_CONSTANT const voting_shape *s, TC_GLOBAL const tc_u32 *here,
                               tc_i32 z, tc_i32 y, tc_i32 x, tc_i64 g[3])
{
    const tc_index nx = (tc_index)s->n[2];

    g[0] = voting_slope(here, z, s->n[0], nx * (tc_index)s->n[1], s->inverse[0]);
    g[1] = voting_slope(here, y, s->n[1], nx, s->inverse[1]);
    g[2] = voting_slope(here, x, s->n[2], 1, s->inverse[2]);
}

/* The length of a gradient. Each component is a difference of blurred pixels (below 2^21) times at
 * most 2^6, so the sum of squares is below 2^56. */
TC_INLINE tc_u64 voting_length(tc_i64 gz, tc_i64 gy, tc_i64 gx)
{
    return tc_sqrt_round((tc_u64)(gz * gz + gy * gy + gx * gx));
}

/* A voter's weight, at most 2^12 - 1, from the length of its gradient, which is below 2^28. With
 * `root` it is the square root of length / 16, else length / 2^15. */
TC_INLINE tc_u32 voting_weight(tc_u64 length, int root)
{
    return (tc_u32)(root ? tc_sqrt_round(length >> 4) : length >> 15);
}

/* A component of a direction, from the component a of a vector: side * a / most, rounded. most: the
 * largest absolute value of the vector's components. */
TC_INLINE tc_i32 voting_component(tc_i64 a, tc_u64 most, int side)
{
    const tc_u64 size = TC_ABS(a);
    const tc_i32 c = (tc_i32)VOTING_QUOTIENT(2 * (tc_u64)side * size + most, 2 * most);

    return a < 0 ? -c : c;
}

/* The largest absolute value of three components. */
TC_INLINE tc_u64 voting_max_component(tc_i64 z, tc_i64 y, tc_i64 x)
{
    const tc_u64 sz = TC_ABS(z), sy = TC_ABS(y), sx = TC_ABS(x);
    const tc_u64 zy = TC_MAX(sz, sy);

    return TC_MAX(zy, sx);
}

/* The code of a vector's direction: its index in voting_tables.dir_of_code. most:
 * voting_max_component(z, y, x), which must be > 0. flat: the item is an image. */
TC_INLINE tc_u32 voting_direction_code(tc_i64 z, tc_i64 y, tc_i64 x, tc_u64 most, int side,
                                       int flat)
{
    const tc_i32 cz = flat ? 0 : voting_component(z, most, side) + side;
    const tc_i32 cy = voting_component(y, most, side) + side;
    const tc_i32 cx = voting_component(x, most, side) + side;

    return (tc_u32)((cz * (2 * side + 1) + cy) * (2 * side + 1) + cx);
}

/* The voter (VOTING_VOTER: weight and direction) of a pixel with the gradient g; 0 if the pixel
 * does not vote. */
TC_INLINE tc_u32 voting_voter(TC_CONSTANT const voting_shape *s, const tc_i64 g[3],
                              TC_GLOBAL const tc_u16 *dir_of_code)
{
    const tc_u64 most = voting_max_component(g[0], g[1], g[2]);
    tc_u64 length;

    if (most == 0)
        return 0;
    length = voting_length(g[0], g[1], g[2]);
    if (length < s->floor)
        return 0;
    return VOTING_VOTER(
        voting_weight(length, s->root),
        dir_of_code[voting_direction_code(g[0], g[1], g[2], most, s->side, s->n[0] == 1)]);
}

/* --- points ---------------------------------------------------------------------------------- */

/* Sums over the pixels around a peak. From them follows the point that is nearest, in least
 * squares, to all the lines through these pixels along their gradients. For a pixel at d, whose
 * gradient has the direction u, let P = 2^12 weight * (|u|^2 I - u u^T) / |u|^2. Then m is the sum
 * of P and v is the sum of P d. Positions d are relative to the peak, in 1/256 of the finest pixel.
 * Only the lower triangle of m is set. */
typedef struct voting_lines {
    tc_i64 m[3][3], v[3];
} voting_lines;

/* Adds the gradient g of the pixel at d, relative to the peak, to the sums. Leaves it out if the
 * pixel is not a voter, or if its gradient does not point towards the peak within 22.5 degrees. u
 * is the gradient's direction as a point on the surface of the cube [-64, 64]^3. |d| < 2^16 and
 * |u|^2 < 2^14, so dot^2 * 2^10 < 2^57. A term of the sums is less than 2^12 * 2^12 * 2^16, and
 * there are less than 2^20 terms. */
TC_INLINE void voting_add_line(TC_CONSTANT const voting_shape *s, const tc_i64 d[3],
                               const tc_i64 g[3], voting_lines *l)
{
    const tc_i64 cos2 = 874; /* cos(22.5 degrees)^2 in 1/1024 */
    const tc_u64 most = voting_max_component(g[0], g[1], g[2]);
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
    const tc_i64 t = (voting_weight(length, s->root) << 12) / (tc_u32)u2; /* 2^12 weight / |u|^2 */
    for (int a = 0; a < 3; a++) {
        l->v[a] += t * (u2 * d[a] + u[a] * dot);
        for (int b = 0; b < a; b++)
            l->m[a][b] -= t * u[a] * u[b];
        l->m[a][a] += t * (u2 - u[a] * u[a]);
    }
}

/* --- cones ----------------------------------------------------------------------------------- */

/* The index, in voting_tables.rows, of the rows in which the cone of direction `dir` has spans in
 * layer dz. Layer dz is the slice dz slices after that of the voter. */
TC_INLINE size_t voting_rows_at(TC_CONSTANT const voting_shape *s, tc_u32 dir, tc_i32 dz)
{
    return (size_t)(dz + s->reach[0]) * (size_t)s->dirs + dir;
}

/* The number of elements of voting_tables.spans that a layer takes: a span for each row, dy being
 * -reach_y to reach_y, and padding, as four spans are read at once. The shape of the array is
 * [n_dirs][2 reach_z + 1][voting_spans_of_layer]. */
TC_INLINE size_t voting_spans_of_layer(tc_i32 reach_y)
{
    return ((size_t)(2 * reach_y + 1) + 3) & ~(size_t)3;
}

/* The index, in voting_tables.spans, of the span in the first row, dy = -reach_y, of layer dz. */
TC_INLINE size_t voting_spans_at(TC_CONSTANT const voting_shape *s, tc_u32 dir, tc_i32 dz)
{
    return ((size_t)dir * (size_t)(2 * s->reach[0] + 1) + (size_t)(dz + s->reach[0])) *
           voting_spans_of_layer(s->reach[1]);
}

/* A span cut off at the border of the picture: [lo, hi], relative to the voter. */
typedef struct voting_part {
    tc_i32 lo, hi;
} voting_part;
/* The part of a span within the picture. at: the voter's coordinate along the axis of the span; n:
 * the length of the picture along this axis. */
TC_INLINE voting_part voting_clip_span(voting_span span, tc_i32 at, tc_i32 n)
{
    voting_part p;

    p.lo = TC_MAX(VOTING_LO(span), -at);
    p.hi = TC_MIN(VOTING_HI(span), n - 1 - at);
    return p;
}

/* --- turning --------------------------------------------------------------------------------- */

#ifdef __NV_CL_C_VERSION
/* Keeps NVIDIA's driver 580.159 from unrolling loops over a few pixels. The unrolled loops take
 * longer, and in one case gave wrong votes: the driver's PTX was right, but its translation at
 * optimisation levels 1 to 4 was not. */
#define VOTING_NO_UNROLL _Pragma("unroll 1")
#else
#define VOTING_NO_UNROLL
#endif

/* The largest of the sums of a row's pixels [lo, hi]. The position of that pixel is not recorded,
 * so that compilers vectorise the loop. */
TC_INLINE tc_u32 voting_most_votes(TC_GLOBAL const tc_u32 *row, voting_part p)
{
    tc_u32 most = 0;

    VOTING_NO_UNROLL
    for (tc_i32 dx = p.lo; dx <= p.hi; dx++)
        most = row[dx] > most ? row[dx] : most;
    return most;
}

/* Returns the voter of pixel (z, y, x) after it has turned towards the pixel with the largest sum
 * in its cone; if several pixels have that sum, towards the first. votes: points to the sum of
 * pixel (z, y, x); spans, rows, dir_of_offset: of voting_tables. */
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

    VOTING_NO_UNROLL
    for (tc_i32 dz = -rz; dz <= rz; dz++) {
        if (z + dz < 0 || z + dz >= s->n[0])
            continue;
        const voting_part ys =
            voting_clip_span(rows[voting_rows_at(s, VOTING_DIR(voter), dz)], y, s->n[1]);
        TC_GLOBAL const voting_span *const layer =
            spans + voting_spans_at(s, VOTING_DIR(voter), dz);
        VOTING_NO_UNROLL
        for (tc_i32 dy = ys.lo; dy <= ys.hi; dy++) {
            const tc_u32 most = voting_most_votes(votes + (dz * plane + dy * nx),
                                                  voting_clip_span(layer[dy + ry], x, s->n[2]));

            if (most > best) {
                best = most;
                best_z = dz;
                best_y = dy;
            }
        }
    }
    if (best == 0)
        return voter;
    dx = voting_clip_span(
             spans[voting_spans_at(s, VOTING_DIR(voter), best_z) + (size_t)(best_y + ry)], x,
             s->n[2])
             .lo;
    VOTING_NO_UNROLL
    while (votes[best_z * plane + best_y * nx + dx] != best)
        dx++;
    return VOTING_VOTER(
        VOTING_WEIGHT(voter),
        dir_of_offset[((best_z + rz) * (2 * ry + 1) + best_y + ry) * (2 * rx + 1) + dx + rx]);
}

#endif
