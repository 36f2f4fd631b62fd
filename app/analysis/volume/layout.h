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

#endif
