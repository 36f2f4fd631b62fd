/*
 * Uses what picture files record besides their samples: the size of pixels, times, orientation.
 */
#ifndef WU_PACK_ABOUT_H
#define WU_PACK_ABOUT_H

#include "workunits/tools/sources.h"

/* Sets item->um, the size of a pixel or voxel, of each item: `given` by --spacing (z, y, x in
 * micrometres; x 0: nothing was given; z 0: two numbers; z -1: one number, for images alone), or
 * what its file says. Prints notes about the recorded properties that are not used as a person may
 * expect. TC_BAD_INPUT becomes the item's fault. */
tc_status wu_use_about(wu_sources *sources, const double given[3], tc_err *err);

#endif
