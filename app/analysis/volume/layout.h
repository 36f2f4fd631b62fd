/*
 * volume: the sizes, constants and table columns that the host and the OpenCL kernels share.
 */
#ifndef AN_VOLUME_LAYOUT_H
#define AN_VOLUME_LAYOUT_H

/* The size of a tile in voxels. The mask has a 1 bit for each voxel that is not membrane; a tile's
 * voxels along x are the bits of one word of the mask. */
#define VOL_TX 32
#define VOL_TY 8
#define VOL_TZ 8
/* The number of words of a mask whose bits one work-item counts. */
#define VOL_WORDS_PER_ITEM 128
/* The number of voxels that one work-item labels. */
#define VOL_VOXELS_PER_ITEM 16

/* The number of rows of a slice that one work-item measures. */
#define VOL_ROWS_PER_ITEM 32
/* Columns, of 32-bit words, of the table of cells that a device makes. VOL_SUM_Z to VOL_SUM_X are
 * sums of the voxels' coordinates, of two words each, the low word first; VOL_VOXELS is the number
 * of voxels; VOL_LO and VOL_HI are the bounding box, of three words each (z, y, x), VOL_HI being
 * exclusive. VOL_COLUMNS is the number of columns. */
#define VOL_SUM_Z 0
#define VOL_SUM_Y 2
#define VOL_SUM_X 4
#define VOL_VOXELS 6
#define VOL_LO 7
#define VOL_HI 10
#define VOL_COLUMNS 13

/* The weights of the Gaussian filter have the sum 2^VOL_WEIGHT_BITS (AN_GAUSS_BITS). A filtered
 * grey value has VOL_GREY_BITS fractional bits. A voxel's height is VOL_TOP minus its filtered grey
 * value. */
#define VOL_WEIGHT_BITS 16
#define VOL_GREY_BITS 8
#define VOL_TOP (1 << 24)
/* The watershed's hash table of saddles: VOL_FREE_SLOT marks a free slot; VOL_PROBES is the number
 * of slots that are tried for an entry. */
#define VOL_FREE_SLOT 0xffffffffu
#define VOL_PROBES 64
/* The number of columns of the list of saddles: the numbers of the two maxima (the one whose voxel
 * comes first in raster order first) and the saddle's height. */
#define VOL_SADDLE_COLUMNS 3
/* Columns of the table of maxima. VOL_VOXEL is the index of the maximum's voxel, VOL_HEIGHT its
 * height. A hill is a set of maxima that have been joined; one of its maxima represents the hill,
 * and VOL_HILL is the number of this representative. The row of a representative also describes the
 * hill's highest saddle: VOL_BEST is the saddle's height, VOL_EARLIER and VOL_LATER are the voxels
 * of the two maxima on its sides, and VOL_NEXT is the number of the maximum with which the hill is
 * joined at this saddle. VOL_MAXIMUM_COLUMNS is the number of columns. */
#define VOL_VOXEL 0
#define VOL_HEIGHT 1
#define VOL_HILL 2
#define VOL_BEST 3
#define VOL_EARLIER 4
#define VOL_LATER 5
#define VOL_NEXT 6
#define VOL_MAXIMUM_COLUMNS 7

#endif
