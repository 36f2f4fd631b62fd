/*
 * levelset: the constants that the host and the OpenCL kernels share.
 */
#ifndef LEVELSET_LAYOUT_H
#define LEVELSET_LAYOUT_H

/* Indices of the words of ctl, an array in which the kernels report to the host about a batch of
 * iterations. U is F |grad phi| (levelset.h). */
#define LS_CTL_MOST 0u   /* two words, for even and odd iterations: the bits of the largest |U| */
#define LS_CTL_CHANGE 2u /* last iteration in which a voxel changed sides */
#define LS_CTL_BAD 3u    /* first iteration after which phi was not finite; LS_NEVER: none */
#define LS_CTL_SEEN 4u   /* bit 0: some voxel is outside; bit 1: some voxel is inside */
#define LS_CTL_LISTED 5u /* two words, used in turn: the number of blocks in the list */
#define LS_CTL_WORDS 8u  /* number of words of ctl */

#define LS_NEVER 0xffffffffu
/* Is passed in place of the index of a word of ctl, to process all tiles instead of the list. */
#define LS_NOT_LISTED 0xffffffffu
/* Work-items of a work-group, for kernels whose groups are not tiles. */
#define LS_GROUP 64u

#endif
