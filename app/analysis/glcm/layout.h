/*
 * What the host and the kernels of glcm agree on: compiled as C and as
 * OpenCL C. Planes of grey levels and of the ROI (1 where a window is centred)
 * hold the ROI's bounding box with a margin, column by column: the row index
 * runs fastest, so that work-items on neighbouring rows read neighbouring
 * pixels. The margin is as wide as anything a window in the box can reach.
 */
#ifndef GLCM_LAYOUT_H
#define GLCM_LAYOUT_H

#include "app/analysis/common/core.h"
#include "app/analysis/glcm/core.h"

/* Features that there are: the 13, and those of more_core.h, which stands on double precision. */
#define GLCM_ALL 24

/* Groups of an_analysis.kernels: histograms in local memory, and in global memory; features beyond
 * the 13; the matrix of a whole picture; windows of few pairs, and of many; maps. */
#define GLCM_KERNELS_LOCAL 1
#define GLCM_KERNELS_GLOBAL 2
#define GLCM_KERNELS_MORE 4
#define GLCM_KERNELS_WHOLE 8
#define GLCM_KERNELS_NARROW 16
#define GLCM_KERNELS_WIDE 32
#define GLCM_KERNELS_MAPS 64

/* A pixel outside the picture, in a plane of grey levels. */
#define GLCM_OUTSIDE 0x8000

/* Words of 64 bits kept for each window: the glcm_sums, n in the top 14 bits of
 * idm; with more features these behind them. Plane w of a chunk begins at word + w * windows. */
#define GLCM_WORDS 9
#define GLCM_N_SHIFT 50

/* Windows that one work-item slides over before it starts anew, at the most. */
#define GLCM_SEGMENT 256

/* Rows of a lens of pairs, at the most. */
#define GLCM_ROWS 127

/* Work-items of a group of the feature kernel, and windows a group takes. */
#define GLCM_GROUP 64
#define GLCM_GROUP_WINDOWS 2048

/* One chunk of a batch: one (offset, levels) over one band of one slice. */
typedef struct glcm_work {
    tc_i64 plane;             /* of the pixel of window (0,0) in the grey planes */
    tc_i64 roi;               /* of window (0,0) in the ROI planes */
    tc_i64 words;             /* where its words begin */
    tc_i32 stride;            /* from a column to the next, in both */
    tc_i32 partner;           /* from a base pixel to the other end of its pair */
    tc_i32 columns, rows;     /* of windows */
    tc_i32 first_move, moves; /* in the table of moves */
    tc_u32 levels;
    tc_i32 partial;        /* its first group's statistics */
    tc_i32 transposed;     /* maps: window (x,y) is pixel (y,x) */
    tc_i32 interior;       /* no pair of any window has an end outside the picture */
    tc_i32 map_x0, map_y0; /* maps: pixel of window (0,0) */
    tc_i32 line0, lines;   /* of row 0 among those of the view; bands */
    tc_i32 map[GLCM_ALL];  /* maps: plane of each feature, or -1 */
} glcm_work;

/* A row of the lens of pairs, as distances in a plane from the centre: the pair
 * that leaves when the window moves on, the one that enters, pairs between. */
typedef struct glcm_move {
    tc_i32 leave, enter, count, reserved;
} glcm_move;

#endif
