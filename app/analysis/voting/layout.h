/*
 * voting: constants and types that the host code and the OpenCL kernels share.
 */
#ifndef VOTING_LAYOUT_H
#define VOTING_LAYOUT_H

#include "app/analysis/common/core.h"

/* A voter is a 32-bit word: the index of its direction in bits 0 to 15, and its weight in bits 16
 * to 27. A pixel that is not a voter has the weight 0. */
#define VOTING_DIR(voter) ((voter) & 0xffffu)
#define VOTING_WEIGHT(voter) ((voter) >> 16)
#define VOTING_VOTER(weight, dir) ((tc_u32)(weight) << 16 | (dir))
/*
 * Weights are less than this limit, 2^12, so the sum over at most 2^20 voters fits in 32 bits. The
 * ball of the largest radius has fewer pixels: 137,065 in 3D (radius 32), 50,617 in 2D (radius
 * 127); different spacings along the axes only reduce the number.
 */
#define VOTING_WEIGHT_LIMIT 4096u

/* A range [lo, hi] of rows, or of pixels of a row, relative to the voter; it is empty if lo > hi.
 * On a device it is a vector, which one instruction reads. */
#ifdef __OPENCL_VERSION__
typedef char2 voting_span;
#define VOTING_LO(span) ((tc_i32)(span).x)
#define VOTING_HI(span) ((tc_i32)(span).y)
#else
typedef struct voting_span {
    signed char lo, hi;
} voting_span;
#define VOTING_LO(span) ((tc_i32)(span).lo)
#define VOTING_HI(span) ((tc_i32)(span).hi)
#endif

/* The number of 64-bit sums that a device returns for each peak: the six of the lower triangle of
 * voting_lines.m, and the three of voting_lines.v. */
#define VOTING_LINE_SUMS 9
/* The number of work-items in the work-group that computes the sums of a peak. */
#define VOTING_LINE_GROUP 32

/* The greatest number of weights of a blur on each side of the middle weight: 3.5 times
 * VOTING_MAX_SIGMA, which is 56, plus one. */
#define VOTING_MAX_HALF 57

/* The values that kernels need, which depend on the parameters and the item. Axes are z, y, x. */
typedef struct voting_shape {
    tc_u64 floor;      /* least length (voting_length) of the gradient of a voter */
    tc_i32 n[3];       /* pixels along each axis */
    tc_i32 reach[3];   /* radius in pixels along each axis, rounded down */
    tc_i32 inverse[3]; /* factor of the gradient: 4096 / voting_scheme.scale, rounded; negative for
                          dark cells */
    tc_i32 taps[3];    /* weights of the blur on each side of the middle one, along each axis */
    tc_u32 blur[3][VOTING_MAX_HALF + 1]; /* [axis][distance]: weights, 4096 in all */
    tc_i32 side;  /* directions are integer points on the surface of the cube [-side, side]^3, or in
                     images on the border of the square [-side, side]^2 */
    tc_i32 root;  /* whether a weight is the square root of the gradient */
    tc_i32 shift; /* the largest shift with which the item's pixels fit in 16 bits */
    tc_i32 dirs;  /* number of directions */
} voting_shape;

#endif
