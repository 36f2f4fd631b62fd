/*
 * What the host and the kernels of cellcount agree on.
 */
#ifndef AN_CELLCOUNT_LAYOUT_H
#define AN_CELLCOUNT_LAYOUT_H

/* Pixels of a tile's side: a word of the mask. */
#define CC_TILE 32
/* Runs that can begin in a word. */
#define CC_NODES (CC_TILE / 2)
/* Pixels of a column that a work-item takes in the distance transform. */
#define CC_STRETCH 128
/* Words that a work-item takes where roots are counted and numbered. */
#define CC_PER_ITEM 4
/* Rows that a work-item takes where labels are written. */
#define CC_PAINT_ROWS 4
/* The greatest radius of a background; rows that a work-group takes in an opening by a disc. */
#define CC_MOST_RADIUS 255
#define CC_DISC_ROWS 16
/* Of the Gaussian filter: bits of the sum of all weights (AN_GAUSS_BITS), and bits of a grey value
 * behind the binary point. */
#define CC_WEIGHT_BITS 16
#define CC_GREY_BITS 8

/* Groups of kernels (an_analysis.kernels): for 8 bits; for 16 bits; those that prepare grey values,
 * without discs; with discs; those that find regions; those that split them by distance. */
#define CC_KERNELS_8 1
#define CC_KERNELS_16 2
#define CC_KERNELS_PREPARE 4
#define CC_KERNELS_DISC 8
#define CC_KERNELS_REGIONS 16
#define CC_KERNELS_SPLIT 32

/* A row of the table of regions; sums are 64 bits, the low half first. */
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
