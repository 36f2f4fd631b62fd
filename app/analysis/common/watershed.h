/*
 * A watershed transform that assigns pixels to hills: from every pixel a path leads uphill, step by
 * step, to a regional maximum; the saddles between maxima decide which maxima belong to one hill.
 * The result does not depend on the order in which pixels are visited. From a pixel with a higher
 * neighbour, the path goes to the highest one, or to the first in raster order if several are
 * equally high. On a plateau (a connected set of pixels of equal height) it goes to the nearest
 * pixel, counted in steps, that has a higher neighbour; these pixels are the plateau's upper
 * border. The pixels of a plateau that is a maximum are one set of a union-find.
 * docs/dev/analyses/volume.md has the definition.
 *
 * The transform is computed in parts, in the order of ws_part: ws_process_rows does a part for a
 * band of rows (numbered through all slices), in any number of threads; when all rows are done,
 * ws_complete_part completes the part. WS_EDGES is needed only with `plateaus`.
 * ws_find_first_pixels is called last.
 */
#ifndef AN_WATERSHED_H
#define AN_WATERSHED_H

#include <stdbool.h>
#include <stddef.h>

#include "app/analysis/common/watershed_core.h"
#include "app/base/poll.h"

/* The saddle between two maxima: their indices, a < b, and the saddle's height. */
typedef struct ws_saddle {
    int32_t a, b;
    uint32_t height;
} ws_saddle;

/* The saddles and plateau pixels that one thread finds. Must be zeroed before the first use; freed
 * by ws_list_drop. */
typedef struct ws_list {
    ws_saddle *saddles; /* [n] */
    int32_t *pixels;    /* [n_pixels] pixels of plateaus */
    uint32_t *recent; /* by the hash of a pair of maxima: the index in `saddles` of the last saddle
                         that was added for a pair with this hash */
    size_t n, room, n_pixels, pixel_room; /* used and allocated elements of the two lists */
    bool no_memory;                       /* an element could not be added */
} ws_list;

typedef struct ws_map {
    ws_shape shape;
    /* Whether paths on plateaus lead to the plateau's upper border; if not, they lead to the first
     * neighbour of equal height in raster order. */
    bool plateaus;
    const uint32_t *height; /* [nz][ny][nx]; pixels of height 0 belong to no hill */
    int32_t *up; /* [nz][ny][nx] the pixel to which the path goes from each pixel; WS_NO_HILL: it
                    has no path. A maximum has its own index or, after WS_SADDLES, that of the
                    maximum that it is joined with */
    /* Whether a maximum remains a hill of its own next to a higher maximum, given its height and
     * the saddle's height. Must be monotonic: if true, it must also be true for a higher maximum
     * and for a lower saddle. rule: user data. */
    bool (*is_separate)(const void *rule, uint32_t maximum, uint32_t saddle);
    const void *rule;
} ws_map;

/* Frees the list's memory and zeroes it. */
void ws_list_drop(ws_list *list);

/* The parts of the computation. Each must be done for all rows before the next one begins. */
typedef enum ws_part {
    WS_ASCEND, /* sets `up` to each pixel's highest neighbour, if that is higher */
    WS_EDGES,  /* collects the pixels of plateaus next to a pixel whose direction is known;
                  ws_complete_part then continues from these into the plateaus, step by step */
    /* The next three parts deal with the plateaus that remain. These have no upper border, so they
     * are maxima. */
    WS_FLAT,      /* makes each of their pixels a node of a union-find */
    WS_FLAT_JOIN, /* joins the pixels of each plateau */
    WS_MAXIMA,    /* sets `up` to the maximum that each pixel leads to */
    WS_SADDLES /* collects the saddles within these rows and between the last of them and the next
                  row, except saddles at which is_separate is true; ws_complete_part then joins
                  maxima, from the highest saddle down, where is_separate is false: up[maximum]
                  becomes the maximum that it is joined with */
} ws_part;

/* Does a part for rows [row0, row1). list: the thread's own list; if memory runs out, this is
 * recorded in the list, and ws_complete_part reports it. */
void ws_process_rows(const ws_map *m, ws_part part, size_t row0, size_t row1, ws_list *list);
/* Completes a part after ws_process_rows has done all rows, and empties the lists. Returns
 * TC_NO_MEMORY, or TC_TRY_LATER from the poll. */
tc_status ws_complete_part(const ws_map *m, ws_part part, ws_list *lists, size_t n_lists,
                           const tc_poll *poll, tc_err *err);
/* For rows [row0, row1): sets `up` to the maximum of each pixel's hill, and lowers first[maximum],
 * which must initially be INT32_MAX, to the index of the hill's first pixel for which `counts`
 * returns true, or of its first pixel if `counts` is NULL. */
void ws_find_first_pixels(const ws_map *m, size_t row0, size_t row1, int32_t *first,
                          bool (*counts)(const void *user, size_t i), const void *user);

#endif
