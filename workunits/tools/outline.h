/*
 * Traces the outlines of the regions of a label picture as closed paths along the sides of pixels.
 */
#ifndef WU_OUTLINE_H
#define WU_OUTLINE_H

#include <stdbool.h>
#include <stdint.h>

/* A picture of labels, and the state of tracing its outlines. */
typedef struct wu_label_grid {
    uint32_t nx, ny;
    const uint32_t *label; /* [ny][nx]; 0: no region */
    bool *traced; /* [ny][nx] whether the outline at the pixel's upper side was traced; the caller
                     sets all to false at first */
} wu_label_grid;

/* A function of this type is called for each corner of an outline. (x, y): the corner's position in
 * pixels; (0, 0) is the upper left corner of the picture. */
typedef void wu_corner(void *user, int64_t x, int64_t y);

/* Whether an outline that is not traced yet runs along the upper side of pixel (x, y). */
bool wu_outline_begins(const wu_label_grid *grid, int64_t x, int64_t y);
/* Traces the outline from the upper left corner of pixel (x, y), for which wu_outline_begins must
 * be true, around the pixels of its label that are connected by sides. The region is on the right:
 * the path runs clockwise (y pointing down) around a region and counterclockwise around a hole in
 * it. corner is called for the starting point, for each corner, and for the starting point again.
 * The signed areas enclosed by a region's outlines (negative for holes) add up to its area. */
void wu_outline_follow(const wu_label_grid *grid, int64_t x, int64_t y, wu_corner *corner,
                       void *user);

#endif
