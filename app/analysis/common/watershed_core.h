/* The rules of a watershed, for C and OpenCL C: which pixel each pixel leads to. */
#ifndef AN_WATERSHED_CORE_H
#define AN_WATERSHED_CORE_H

#include "app/analysis/common/core.h"

/* In place of the pixel that one leads to: it is ground, or on a plateau and not yet known. */
#define WS_GROUND (-1)
#define WS_UNKNOWN (-2147483647 - 1)
/* Not final: a pixel of a plateau leads to pixel i, or to an earlier one yet to be found.
 * Of two the greater is the earlier pixel. */
#define WS_PENDING(i) (-2 - (i))

/* Of nx x ny x nz pixels. A neighbour differs by 1 along one axis, or with `corners` along
 * one or more; along z only with `depth`. */
typedef struct ws_shape {
    tc_i32 nx, ny, nz;
    tc_i32 corners, depth;
} ws_shape;

/* Whether (dx, dy, dz), each -1 to 1, leads from a pixel to a neighbour. */
TC_INLINE int ws_is_step(int dx, int dy, int dz, int corners)
{
    const int axes = (dx != 0) + (dy != 0) + (dz != 0);

    return axes == 1 || (axes > 1 && corners);
}

/* Whether (x, y, z) is a pixel of the picture. */
TC_INLINE int ws_is_within(const ws_shape *s, tc_i32 x, tc_i32 y, tc_i32 z)
{
    return x >= 0 && x < s->nx && y >= 0 && y < s->ny && z >= 0 && z < s->nz;
}

/* The highest of a pixel and its neighbours; of equal ones the first in the raster, or
 * with `plateaus` the pixel itself, and else the first. `height` may begin with a later slice
 * than the first, z counting from there. */
TC_INLINE tc_i32 ws_highest(TC_GLOBAL const tc_u32 *height, const ws_shape *s, tc_i32 x, tc_i32 y,
                            tc_i32 z, int plateaus)
{
    const tc_i32 here = (z * s->ny + y) * s->nx + x;
    tc_i32 best = here;
    tc_u32 most = height[here];

    for (int dz = -s->depth; dz <= s->depth; dz++)
        for (int dy = -1; dy <= 1; dy++)
            for (int dx = -1; dx <= 1; dx++) {
                const tc_i32 there = here + (dz * s->ny + dy) * s->nx + dx;

                if (!ws_is_step(dx, dy, dz, s->corners) || !ws_is_within(s, x + dx, y + dy, z + dz))
                    continue;
                if (height[there] > most || (height[there] == most && !plateaus && there < best)) {
                    best = there;
                    most = height[there];
                }
            }
    return best;
}

#endif
