/*
 * The sizes and tables that the host and the kernels of volume agree on.
 */
#ifndef AN_VOLUME_LAYOUT_H
#define AN_VOLUME_LAYOUT_H

/* Voxels of a tile along each axis. Along x they are the bits of one word of the mask. */
#define VOL_TX 32
#define VOL_TY 8
#define VOL_TZ 8
/* Words of the mask whose bits one work-item counts. */
#define VOL_CHUNK 128
/* Voxels to which one work-item gives their labels. */
#define VOL_PER_ITEM 16

/* Rows of a slice that one work-item measures. */
#define VOL_DOWN 32
/* Columns of the table of cells that a device makes. Each sum of coordinates has two words, the
 * lower one first; the bounds are half-open. */
#define VOL_SUM_Z 0
#define VOL_SUM_Y 2
#define VOL_SUM_X 4
#define VOL_VOXELS 6
#define VOL_LO 7
#define VOL_HI 10
#define VOL_COLUMNS 13

/* Of the Gaussian filter: its weights' sum is 2^VOL_WEIGHT_BITS (AN_GAUSS_BITS); a filtered grey
 * value has VOL_GREY_BITS bits of fraction. A voxel's height is VOL_TOP less that. */
#define VOL_WEIGHT_BITS 16
#define VOL_GREY_BITS 8
#define VOL_TOP (1 << 24)
/* The watershed's hash table of saddles: what a free slot contains, and how many slots are tried.
 */
#define VOL_FREE 0xffffffffu
#define VOL_PROBES 64
/* Columns of the list of saddles: the numbers of the two maxima, first the one whose voxel comes
 * first, and the height. */
#define VOL_SADDLE 3
/* Columns of the table of maxima. A hill is a set of maxima that have been joined, and one of them
 * stands for it (VOL_HILL). Of that one, BEST, EARLIER and LATER tell the hill's highest saddle, by
 * its height and the voxels of its two maxima, and NEXT the maximum that it is joined with there.
 */
#define VOL_VOXEL 0
#define VOL_HEIGHT 1
#define VOL_HILL 2
#define VOL_BEST 3
#define VOL_EARLIER 4
#define VOL_LATER 5
#define VOL_NEXT 6
#define VOL_MAXIMUM 7

#endif
