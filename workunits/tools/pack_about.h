/*
 * Uses what picture files record besides their samples: the size of pixels, times, orientation.
 */
#ifndef WU_PACK_ABOUT_H
#define WU_PACK_ABOUT_H

#include "workunits/tools/sources.h"

/* Sets item->um, the size of a pixel or voxel, of each item, to the size `given` by --spacing, or
 * to the size that its file records. given: z, y, x in micrometres; x 0: not given; z 0: two
 * numbers were given; z -1: one number, which is only for images. Prints notes about recorded
 * properties that are not used as the user may expect. TC_BAD_INPUT becomes the item's fault. */
tc_status wu_use_recorded_sizes(wu_sources *sources, const double given[3], tc_err *err);

#endif
