/*
 * What the host and the kernels of volume agree on.
 */
#ifndef AN_VOLUME_LAYOUT_H
#define AN_VOLUME_LAYOUT_H

/* Voxels of a tile: a word of the mask along x. */
#define VOL_TX 32
#define VOL_TY 8
#define VOL_TZ 8
/* Words of the mask whose bits are counted together. */
#define VOL_CHUNK 128
/* Voxels of a work-item that paints. */
#define VOL_PER_ITEM 16

/* Rows of a slice that a work-item measures; columns of the table of cells that a device makes:
 * sums of coordinates in two words, the lower first; half-open bounds. */
#define VOL_DOWN 32
#define VOL_SUM_Z 0
#define VOL_SUM_Y 2
#define VOL_SUM_X 4
#define VOL_VOXELS 6
#define VOL_LO 7
#define VOL_HI 10
#define VOL_COLUMNS 13

/* Of the Gaussian filter: bits of all weights together (AN_GAUSS_BITS), and of a grey value behind
 * the point; the height of a voxel of 0, which no grey value reaches. */
#define VOL_WEIGHT_BITS 16
#define VOL_GREY_BITS 8
#define VOL_TOP (1 << 24)
/* A watershed's table of saddles: what a free slot has, and how many slots are tried. The list that
 * is made of it has columns: the numbers of the two maxima, that of the earlier voxel first, and
 * the height. */
#define VOL_FREE 0xffffffffu
#define VOL_PROBES 64
#define VOL_SADDLE 3
/* Columns of the table of maxima, by their numbers: voxel; height; the maximum that stands for the
 * hill, as joined so far; of one that does, the first of its saddles, from the highest down, by
 * height and by the voxels of its two maxima, and the maximum that it is joined with by that. */
#define VOL_VOXEL 0
#define VOL_HEIGHT 1
#define VOL_HILL 2
#define VOL_BEST 3
#define VOL_EARLIER 4
#define VOL_LATER 5
#define VOL_NEXT 6
#define VOL_MAXIMUM 7

#endif
