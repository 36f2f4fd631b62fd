/*
 * What the host and the kernels of levelset agree on.
 */
#ifndef LEVELSET_LAYOUT_H
#define LEVELSET_LAYOUT_H

/* Words of ctl, which tells the host what a batch of iterations met. */
#define LS_CTL_MOST 0u   /* two: bits of the largest |U|, by the iteration's parity */
#define LS_CTL_CHANGE 2u /* last iteration with a change of side */
#define LS_CTL_BAD 3u    /* first iteration after which phi was not finite; LS_NEVER */
#define LS_CTL_SEEN 4u   /* sides seen: 1 outside, 2 inside */
#define LS_CTL_LISTED 5u /* two: blocks in the list */
#define LS_CTL_WORDS 8u

#define LS_NEVER 0xffffffffu
/* In place of a word of ctl: the step takes all tiles, not those of the list. */
#define LS_NOT_LISTED 0xffffffffu
/* Work-items of a group, where a tile does not say. */
#define LS_GROUP 64u

#endif
