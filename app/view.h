/*
 * A picture of the current item for the screensaver, texcell_graphics: a small file, which texcell
 * writes every few seconds while the screensaver runs, in at most 0.5% of the time. Results do not
 * depend on it.
 */
#ifndef APP_VIEW_H
#define APP_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "app/analysis/analysis.h"
#include "wrapper/bw.h"

enum { VIEW_SIDE = 384 }; /* the largest width and height of the picture, in pixels */

/* Two files in the slot folder. texcell_graphics writes VIEW_WATCHED every second; while it does
 * so, and for some seconds after, texcell writes VIEW_FILE. So neither program waits for the other,
 * and each may be killed. */
#define VIEW_FILE "texcell_view"
#define VIEW_WATCHED "texcell_watched"
#define VIEW_MAGIC "TCVIEW1"

/* The content of VIEW_FILE, little-endian. Texts are UTF-8 and end with a NUL. */
typedef struct view_file {
    char magic[8];
    uint32_t crc;     /* CRC-32 of all bytes after this field, since the file may be read while
                         it is written */
    uint32_t nx, ny;  /* width and height of the picture, 1 to VIEW_SIDE */
    uint32_t amounts; /* 1: `found` contains amounts; 0: kinds or numbers of objects */
    double fraction;  /* fraction of the task that is done, 0 to 1 */
    uint64_t item, n_items; /* index of the current item, and the number of items */
    char analysis[32], name[136], about[504];
    bw_volunteer volunteer;
    /* [ny * nx] grey values of the image, or of the stack's middle slice, reduced in size. */
    uint8_t grey[VIEW_SIDE * VIEW_SIDE];
    uint8_t found[VIEW_SIDE * VIEW_SIDE]; /* [ny * nx] what the analysis has found at the same
                                             pixels (an_analysis.preview); 0: nothing */
} view_file;

typedef struct view {
    double next;  /* the earliest time (tc_seconds) of the next picture */
    double began; /* the time (tc_seconds) when the last view_is_due began */
} view;

/* Whether texcell_graphics is running and the next picture is due. */
bool view_is_due(view *v);
/* Writes the file. fraction: the fraction of the task that is done. item: the item's index. A
 * failure is ignored, as another picture follows. */
void view_write(view *v, const an_analysis *analysis, const an_work *work, const void *state,
                double fraction, size_t item, const wu_job *job);

#endif
