/* The rules of the watershed in watershed.h, compiled as C and as OpenCL C: which neighbour the
 * path uphill goes to from each pixel. */
#ifndef AN_WATERSHED_CORE_H
#define AN_WATERSHED_CORE_H

#include "app/analysis/common/core.h"

/* Special values of up[i] (watershed.h), which otherwise is the index of the pixel that the path
 * from pixel i goes to. WS_NO_HILL: the pixel belongs to no hill. WS_UNKNOWN: the pixel is on a
 * plateau, and it is not known yet where its path goes. */
#define WS_NO_HILL (-1)
#define WS_UNKNOWN (-2147483647 - 1)
/* A preliminary value of `up` for a pixel of a plateau: its path goes to pixel i, unless another
 * pixel is found that is earlier in raster order. The earlier pixel i is, the greater is the value.
 */
#define WS_PENDING(i) (-2 - (i))

/* The size of the picture, nx * ny * nz pixels, and which pixels are neighbours. Two pixels are
 * neighbours if their coordinates differ by 1 along one axis; with `corners`, also if they differ
 * by 1 along several axes. They may differ along z only if `depth` is 1, not 0. */
typedef struct ws_shape {
    tc_i32 nx, ny, nz;
    tc_i32 corners, depth;
} ws_shape;

/* Whether the step (dx, dy, dz), each -1 to 1, leads to a neighbour. */
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

/* Returns the index of the highest of a pixel and its neighbours. If several are equally high, it
 * returns the first of these in raster order; but with `plateaus` it returns the pixel itself, if
 * no neighbour is higher. height: may point to any slice of the picture; z is counted from this
 * slice. */
TC_INLINE tc_i32 ws_highest_neighbour(TC_GLOBAL const tc_u32 *height, const ws_shape *s, tc_i32 x,
                                      tc_i32 y, tc_i32 z, int plateaus)
{
    const tc_i32 start = (z * s->ny + y) * s->nx + x;
    tc_i32 best = start;
    tc_u32 most = height[start];

    for (int dz = -s->depth; dz <= s->depth; dz++)
        for (int dy = -1; dy <= 1; dy++)
            for (int dx = -1; dx <= 1; dx++) {
                const tc_i32 neighbour = start + (dz * s->ny + dy) * s->nx + dx;

                if (!ws_is_step(dx, dy, dz, s->corners) || !ws_is_within(s, x + dx, y + dy, z + dz))
                    continue;
                if (height[neighbour] > most ||
                    (height[neighbour] == most && !plateaus && neighbour < best)) {
                    best = neighbour;
                    most = height[neighbour];
                }
            }
    return best;
}

#endif
