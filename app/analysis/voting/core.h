/*
 * The arithmetic of voting that both backends share.
 */
#ifndef VOTING_CORE_H
#define VOTING_CORE_H

#include "app/analysis/common/core.h"

#ifdef __OPENCL_VERSION__
/* The language's own functions: Oclgrind does not know the intrinsics that
 * compilers make of the usual expressions. */
#define VOTING_SIZE(a) abs((tc_i64)(a))
#define VOTING_QUOTIENT(a, b) ((a) / (b))
#define VOTING_LARGER(a, b) max((tc_u64)(a), (tc_u64)(b))
#else
TC_INLINE tc_u64 voting_size(tc_i64 a)
{
    return (tc_u64)(a < 0 ? -a : a);
}
#define VOTING_SIZE(a) voting_size(a)
/* a / b rounded down, a < 2^52 and b < 2^52, several times as fast as that of integers: a
 * quotient that is not whole is at least 1/b below the next whole number, too much for
 * the rounding of a double to bridge if a < 2^52. */
#define VOTING_QUOTIENT(a, b) ((tc_u64)((double)(a) / (double)(b)))
#define VOTING_LARGER(a, b) ((a) > (b) ? (a) : (b))
#endif

/* A voter is a word: direction in bits 0-15, weight (0: none) in bits 16-27. */
#define VOTING_DIR(voter) ((voter) & 0xffffu)
#define VOTING_WEIGHT(voter) ((voter) >> 16)
/*
 * Weights are less than 2^12, so a sum over at most 2^20 voters fits 32 bits.
 * The ball of the largest radius has fewer pixels than that: 137,065 in 3D
 * (radius 32), 50,617 in 2D (radius 127), and coarser spacings make it smaller.
 */
#define VOTING_WEIGHT_LIMIT 4096u

/* Pixels [lo, hi] of a row, relative to the voter; none where lo > hi. */
typedef struct voting_span {
    signed char lo, hi;
} voting_span;

/* The blur's sums: 16-bit pixels times weights of 2^12 in all are less than
 * 2^28 and leave 20 bits (4 of fraction); the next sums are less than 2^32. */
#define VOTING_ROUND_FIRST(sum) (((sum) + 128u) >> 8)
#define VOTING_ROUND_NEXT(sum) (((sum) + 2048u) >> 12)

/* What the kernels need of an item; axes are z, y, x. */
#define VOTING_HALF_LIMIT 58
typedef struct voting_shape {
    tc_u64 floor;
    tc_i32 n[3];
    tc_i32 reach[3];
    tc_i32 inverse[3];          /* negative for dark cells */
    tc_i32 taps[3];             /* of the blur, on either side */
    tc_u32 blur[3][VOTING_HALF_LIMIT];
    tc_i32 n_dirs, side, root, shift, wide;     /* wide: 16-bit pixels */
    tc_i32 padding;
} voting_shape;

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
    const tc_u64 size = VOTING_SIZE(a);
    const tc_i32 c = (tc_i32)VOTING_QUOTIENT(2 * (tc_u64)side * size + most, 2 * most);

    return a < 0 ? -c : c;
}

TC_INLINE tc_u64 voting_most(tc_i64 z, tc_i64 y, tc_i64 x)
{
    const tc_u64 sz = VOTING_SIZE(z), sy = VOTING_SIZE(y), sx = VOTING_SIZE(x);
    const tc_u64 zy = VOTING_LARGER(sz, sy);

    return VOTING_LARGER(zy, sx);
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

#endif
