/*
 * glcm: constants and buffer layouts that the host code and the OpenCL kernels share.
 *
 * Planes of grey levels, and of the ROI (1 for pixels that have a window), hold the ROI's bounding
 * box and a margin around it, which is as wide as a window extends beyond its centre. The planes
 * are stored column by column: the row index varies fastest, so that work-items on neighbouring
 * rows read neighbouring pixels.
 */
#ifndef GLCM_LAYOUT_H
#define GLCM_LAYOUT_H

#include "app/analysis/common/core.h"
#include "app/analysis/glcm/core.h"

/* Number of all features: the 13 of core.h, and those of more_core.h, which need double precision.
 */
#define GLCM_ALL_FEATURES 24

/* Groups of kernels, as bits of an_analysis.kernels. */
#define GLCM_KERNELS_LOCAL 1   /* histograms in local memory */
#define GLCM_KERNELS_GLOBAL 2  /* histograms in global memory */
#define GLCM_KERNELS_MORE 4    /* features beyond the 13 */
#define GLCM_KERNELS_WHOLE 8   /* one matrix of the whole ROI */
#define GLCM_KERNELS_NARROW 16 /* windows of fewer than 1024 pairs */
#define GLCM_KERNELS_WIDE 32   /* windows of at least 1024 pairs */
#define GLCM_KERNELS_MAPS 64   /* maps */

/* Value of a pixel outside the picture in a plane of grey levels. */
#define GLCM_OUTSIDE 0x8000

/* The number of 64-bit words that are stored for each window: its glcm_sums; the word of idm also
 * has the number n of pairs, in its bits from GLCM_N_SHIFT on. Features beyond the 13, if there are
 * any, follow as further words. Word w of all windows of a chunk is stored from element
 * glcm_work.words + w * (number of windows) on. */
#define GLCM_WORDS 9
#define GLCM_N_SHIFT 50

/* The greatest number of windows that a work-item slides over before it counts a whole window
 * again. */
#define GLCM_SEGMENT 256

/* The greatest number of rows of a lens (glcm_lens: the first pixels of an offset's pairs in a
 * window). */
#define GLCM_MAX_LENS_ROWS 127

/* The number of work-items in a work-group of the kernel that computes features. */
#define GLCM_GROUP 64
/* The number of windows that such a work-group processes. */
#define GLCM_GROUP_WINDOWS 2048

/* A chunk of a batch: the windows of a tile of a slice, with one offset and one number of levels.
 * Its windows are numbered (x, y) from (0, 0). */
typedef struct glcm_work {
    tc_i64 plane;         /* index in the grey planes of the pixel of window (0,0) */
    tc_i64 roi;           /* index in the ROI planes of the pixel of window (0,0) */
    tc_i64 words;         /* index of the first word of the chunk's windows (GLCM_WORDS) */
    tc_i32 stride;        /* elements from a column to the next, in both planes */
    tc_i32 partner;       /* elements from the first pixel of a pair to the second */
    tc_i32 columns, rows; /* number of windows */
    tc_i32 first_move;    /* index of the offset's first glcm_move */
    tc_i32 moves;         /* number of glcm_moves of the offset */
    tc_u32 levels;
    tc_i32 partial;    /* index of the statistics of the chunk's first work-group */
    tc_i32 transposed; /* for maps: whether window (x,y) is the window of pixel (y,x) */
    tc_i32 interior;   /* whether the pixels of all pairs of all windows are within the picture */
    tc_i32 map_x0, map_y0; /* for maps: the pixel of window (0,0) */
    tc_i32 line0, lines;   /* for GLCM_BAND: index of row 0 among the view's lines; number of the
                              view's lines */
    tc_i32 map[GLCM_ALL_FEATURES]; /* maps: for each feature, the index of its plane, or -1 */
} glcm_work;

/* A row of an offset's lens. When the window moves to the next column, one pair of the row leaves
 * the window and one enters it. leave, enter: distances, in elements of a plane, from the window's
 * centre to the first pixel of these pairs. count: number of pairs in the row. */
typedef struct glcm_move {
    tc_i32 leave, enter, count, reserved;
} glcm_move;

#endif
