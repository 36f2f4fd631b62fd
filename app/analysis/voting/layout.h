/*
 * What the host and the kernels of voting agree on: compiled as C and as OpenCL C.
 */
#ifndef VOTING_LAYOUT_H
#define VOTING_LAYOUT_H

#include "app/analysis/common/core.h"

/* A voter is a word: direction in bits 0-15, weight (0: none) in bits 16-27. */
#define VOTING_DIR(voter) ((voter) & 0xffffu)
#define VOTING_WEIGHT(voter) ((voter) >> 16)
#define VOTING_VOTER(weight, dir) ((tc_u32)(weight) << 16 | (dir))
/*
 * Weights are less than 2^12, so a sum over at most 2^20 voters fits 32 bits.
 * The ball of the largest radius has fewer pixels than that: 137,065 in 3D
 * (radius 32), 50,617 in 2D (radius 127), and coarser spacings make it smaller.
 */
#define VOTING_WEIGHT_LIMIT 4096u

/* Rows or pixels [lo, hi] relative to the voter; none where lo > hi. On a device a
 * vector, which one instruction reads. */
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

/* Longs that a device gives for each peak: the lower half of m and v of voting_lines. */
#define VOTING_LINE_SUMS 9
/* Work-items of a group that takes a peak. */
#define VOTING_LINE_GROUP 32

/* What follows from parameters, item and pixels; axes are z, y, x. */
#define VOTING_MAX_HALF 57 /* of a blur kernel: 3.5 sigma and one */
typedef struct voting_shape {
    tc_u64 floor;      /* least length of a voter's gradient, as voting_length gives it */
    tc_i32 n[3];       /* pixels */
    tc_i32 reach[3];   /* pixels that the ball reaches */
    tc_i32 inverse[3]; /* 4096 / scale, rounded, negative for dark cells: for the gradient */
    tc_i32 taps[3];    /* of the blur, on either side */
    tc_u32 blur[3][VOTING_MAX_HALF + 1]; /* [axis][distance], the sum is 4096 */
    tc_i32 side;  /* directions are points on the surface of the cube [-side, side]^d */
    tc_i32 root;  /* weight by the root of the gradient */
    tc_i32 shift; /* pixels << shift fill 16 bits */
    tc_i32 dirs;  /* how many there are */
} voting_shape;

#endif
