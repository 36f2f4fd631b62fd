/*
 * What texcell shows of its work, for texcell_graphics: a small file, written every few seconds
 * while somebody looks, and at most for 0.5% of the time. Nothing depends on it.
 */
#ifndef APP_VIEW_H
#define APP_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "app/analysis/analysis.h"
#include "wrapper/bw.h"

enum { VIEW_SIDE = 384 };

/* Both lie in the slot. The graphics program writes VIEW_WATCHED anew each second: while it does
 * so, and for some seconds after, texcell writes VIEW_FILE. So neither waits for the other, and
 * each may be killed. */
#define VIEW_FILE "texcell_view"
#define VIEW_WATCHED "texcell_watched"
#define VIEW_MAGIC "TCVIEW1"

/* The file, little-endian. Texts are UTF-8, ended by a zero; crc: CRC-32 of all that follows it, as
 * the file may be read while it is written. */
typedef struct view_file {
    char magic[8];
    uint32_t crc;
    uint32_t nx, ny;        /* of the picture: 1 to VIEW_SIDE */
    uint32_t amounts;       /* 1: found says how much, else what */
    double fraction;        /* of the task */
    uint64_t item, n_items; /* which item, from 0 */
    char analysis[32], name[136], about[504];
    bw_volunteer volunteer;
    uint8_t grey[VIEW_SIDE *
                 VIEW_SIDE]; /* nx * ny of them: the item, or its middle slice, made smaller */
    uint8_t found[VIEW_SIDE * VIEW_SIDE]; /* an_analysis.found of the same places */
} view_file;

typedef struct view {
    double next, began; /* tc_seconds: when to look next, and when this picture was begun */
} view;

/* Whether somebody looks, and it is time for another picture. */
bool view_wanted(view *v);
/* Writes it. fraction: of the task; item: its index. What fails is tried another time. */
void view_write(view *v, const an_analysis *analysis, const an_work *work, const void *state,
                double fraction, size_t item, const wu_job *job);

#endif
