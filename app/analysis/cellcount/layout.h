/*
 * cellcount: constants that the host code and the OpenCL kernels share.
 */
#ifndef AN_CELLCOUNT_LAYOUT_H
#define AN_CELLCOUNT_LAYOUT_H

/* Side, in pixels, of the tiles in which components are labelled. It is also the number of bits of
 * a word of the mask. */
#define CC_TILE 32
/* The greatest number of runs of pixels that can begin in a word of the mask. */
#define CC_NODES (CC_TILE / 2)
/* Pixels of a column that a work-item computes in kernels that process columns (the distance
 * transform, and cc_sums). */
#define CC_COLUMN_PIXELS 128
/* Words of the mask that a work-item processes when the roots of components are counted and
 * numbered. */
#define CC_WORDS_PER_ITEM 4
/* Rows that a work-item processes when labels are written. */
#define CC_PAINT_ROWS 4
/* The greatest radius, in pixels, of a background's disc or square and of a window. */
#define CC_MOST_RADIUS 255
/* Rows that a work-group computes in an opening by a disc. */
#define CC_DISC_ROWS 16
/* Gaussian filter: the sum of all weights is 2^CC_WEIGHT_BITS (as AN_GAUSS_BITS). */
#define CC_WEIGHT_BITS 16
/* Gaussian filter: fraction bits of a grey value after the first pass and before the second one. */
#define CC_GREY_BITS 8

/* Groups of kernels, as bits of the mask that an_analysis.kernels returns. */
#define CC_KERNELS_8 1        /* for pictures of 8 bits */
#define CC_KERNELS_16 2       /* for pictures of 16 bits */
#define CC_KERNELS_PREPARE 4  /* prepare grey values, except for discs */
#define CC_KERNELS_DISC 8     /* minima and maxima within a disc */
#define CC_KERNELS_REGIONS 16 /* find regions */
#define CC_KERNELS_SPLIT 32   /* split regions by distance */

/* Indices of the 32-bit columns of a row of the table of regions. A sum takes two of them, the low
 * half first. */
enum {
    CC_SUM_Y = 0,
    CC_SUM_X = 2,
    CC_SUM_GREY = 4,
    CC_AREA = 6,
    CC_Y0,
    CC_X0,
    CC_Y1,
    CC_X1,
    CC_COLUMNS
};

#endif
