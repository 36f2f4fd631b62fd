/* Traces the outlines of regions of a label picture. */
#include "workunits/tools/outline.h"

#include <assert.h>
#include <stddef.h>

/* The label of a pixel; 0 outside the picture. */
static uint32_t label_of(const wu_label_grid *g, int64_t x, int64_t y)
{
    return x < 0 || y < 0 || x >= g->nx || y >= g->ny ? 0 : g->label[(size_t)y * g->nx + (size_t)x];
}

bool wu_outline_begins(const wu_label_grid *g, int64_t x, int64_t y)
{
    const uint32_t label = label_of(g, x, y);
    return label != 0 && !g->traced[(size_t)y * g->nx + (size_t)x] &&
           label_of(g, x, y - 1) != label;
}

/* In this function, `side` is the side of pixel (x, y) along which the path runs: 0 is the upper
 * side, to the right; 1 the right side, down; 2 the lower side, to the left; 3 the left side, up.
 * (cx, cy) is the end of the path. */
void wu_outline_follow(const wu_label_grid *g, int64_t x, int64_t y, wu_corner *corner, void *user)
{
    assert(wu_outline_begins(g, x, y));
    static const int dx[] = { 1, 0, -1, 0 }, dy[] = { 0, 1, 0, -1 };
    const uint32_t label = label_of(g, x, y);
    const int64_t x0 = x, y0 = y;
    int64_t cx = x, cy = y;
    int side = 0;
    corner(user, cx, cy);
    do {
        /* If the pixel ahead does not have the label, the path turns right at the end of the side.
         * If it has, the path goes straight on, or turns left if the pixel to the left of the pixel
         * ahead has the label, too. */
        const int left = (side + 3) % 4;
        int next = (side + 1) % 4;
        if (side == 0)
            g->traced[(size_t)y * g->nx + (size_t)x] = true;
        cx += dx[side];
        cy += dy[side];
        if (label_of(g, x + dx[side], y + dy[side]) == label) {
            x += dx[side];
            y += dy[side];
            next = side;
            if (label_of(g, x + dx[left], y + dy[left]) == label) {
                x += dx[left];
                y += dy[left];
                next = left;
            }
        }
        if (next != side)
            corner(user, cx, cy);
        side = next;
    } while (x != x0 || y != y0 || side != 0);
    if (cx != x0 || cy != y0)
        corner(user, x0, y0);
}
