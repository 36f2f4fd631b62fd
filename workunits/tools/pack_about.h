/*
 * What picture files say besides their samples: sizes of pixels, times, orientation.
 */
#ifndef WU_PACK_ABOUT_H
#define WU_PACK_ABOUT_H

#include "workunits/tools/sources.h"

/* Sets the size of each item's pixels or voxels: what is `given` (z, y, x in micrometres; x 0:
 * nothing, z 0: not of z, -1: of pictures alone), or what its file says. Tells what a person would
 * not expect. TC_BAD_INPUT is the item's fault. */
tc_status wu_use_about(wu_sources *sources, const double given[3], tc_err *err);

#endif
