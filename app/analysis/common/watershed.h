/*
 * A watershed, upside down: every pixel leads uphill, step by step, to a regional maximum, and
 * the saddles between maxima say which of them stand for one hill. Nothing depends on the order
 * in which pixels are visited: a pixel leads to its highest neighbour, of equal ones to the first
 * in the raster; on a plateau to where its upper border is nearest, by steps; and the pixels of
 * a plateau that is a maximum are one set of a union-find. docs/dev/analyses/volume.md has the
 * definition.
 *
 * What is done, each for bands of rows (which count through all slices) by any number of
 * threads: ws_rows and ws_end for each ws_part in its order, WS_EDGES only with `plateaus`; then
 * ws_first.
 */
#ifndef AN_WATERSHED_H
#define AN_WATERSHED_H

#include <stdbool.h>
#include <stddef.h>

#include "app/analysis/common/watershed_core.h"
#include "app/base/poll.h"

/* The saddle between two maxima: their indices, a < b, and its height. */
typedef struct ws_saddle {
    int32_t a, b;
    uint32_t height;
} ws_saddle;

/* What a thread finds; zeroed at first. ws_list_drop frees it. */
typedef struct ws_list {
    ws_saddle *saddles;
    int32_t *pixels;  /* of plateaus */
    uint32_t *recent; /* where in the list of saddles a pair may be found, by its hash */
    size_t n, room, n_pixels, pixel_room;
    bool no_memory;
} ws_list;

typedef struct ws_map {
    ws_shape shape;
    /* Plateaus are walked by steps; else pixels lead to the first of their neighbours there */
    bool plateaus;
    const uint32_t *height; /* [nz][ny][nx]; 0: ground, which is of no hill */
    int32_t *up; /* [nz][ny][nx]: where each leads; WS_GROUND. In the end: to the hill's maximum */
    /* Whether a maximum is a hill of its own next to a higher one, by its height and the saddle's:
     * if it is, a higher one is with a lower saddle, too. */
    bool (*apart)(const void *rule, uint32_t maximum, uint32_t saddle);
    const void *rule;
} ws_map;

void ws_list_drop(ws_list *list);

/* The way to the hills, part by part; each is done for all rows, in bands side by side, before the
 * next. */
typedef enum ws_part {
    WS_ASCEND, /* up: each pixel's highest neighbour, if that is higher */
    WS_EDGES,  /* pixels of plateaus that are one step from the upper border, into the list; in the
                * end plateaus are walked from there, step by step */
    WS_FLAT,
    WS_FLAT_JOIN, /* the plateaus that are left have no upper border: the pixels of each become a
                     tree */
    WS_TOPS,      /* up becomes the maximum that each pixel leads to */
    WS_SADDLES /* the saddles of these rows, and from the last of them to the next, into the list;
                * not those of maxima that are apart anyway. In the end, from the highest saddle
                * down, maxima that are not apart are joined: up[maximum] becomes the one that it is
                * joined with */
} ws_part;

/* Rows [row0, row1) of a part. Out of memory is kept in the list, which is one
 * thread's. */
void ws_rows(const ws_map *m, ws_part part, size_t row0, size_t row1, ws_list *list);
/* What comes after a part's rows; empties what the part has put into the lists. */
tc_status ws_end(const ws_map *m, ws_part part, ws_list *lists, size_t n_lists, const tc_poll *poll,
                 tc_err *err);
/* up becomes the hill's maximum, and first[maximum], INT32_MAX to begin with, the first pixel of
 * the hill that `counts` says yes to (NULL: of all). */
void ws_first(const ws_map *m, size_t row0, size_t row1, int32_t *first,
              bool (*counts)(const void *user, size_t i), const void *user);

#endif
