/*
 * The ways around regions of a label picture, along the sides of pixels.
 */
#ifndef WU_OUTLINE_H
#define WU_OUTLINE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct wu_label_grid {
    uint32_t nx, ny;
    const uint32_t *label; /* [ny][nx]; 0: of no region */
    bool *seen; /* [ny][nx], false at first: the way by this pixel's upper side is done */
} wu_label_grid;

/* Where the way turns, in sides of pixels: (0, 0) is the upper left corner of the picture. */
typedef void wu_corner(void *user, int64_t x, int64_t y);

/* Whether a way that is not done yet comes by the upper side of pixel (x, y). */
bool wu_outline_begins(const wu_label_grid *grid, int64_t x, int64_t y);
/* The way that begins at the upper left corner of such a pixel, around the pixels of its label that
 * touch side by side: with the region on its right, so clockwise around a region and the other way
 * around a hole in it. corner: called first for the beginning, then for each corner, at last for
 * the beginning again. The sum over a region's ways of the areas that they enclose (of a hole, less
 * than 0) is its area. */
void wu_outline_follow(const wu_label_grid *grid, int64_t x, int64_t y, wu_corner *corner,
                       void *user);

#endif
