/*
 * Pictures made smaller for a page, and what packing keeps of an item for it.
 */
#ifndef WU_SHRINK_H
#define WU_SHRINK_H

#include "app/analysis/analysis.h"
#include "workunits/tools/picture.h"

enum {
    WU_REPORT_ITEMS = 200,     /* that are shown, unless it is set */
    WU_REPORT_BYTES = 12 << 20 /* that their pictures take before they are compressed, about; */
}; /*   their outlines half as much */

/* How many pixels of a picture, along x and y, become one of a page with `n` such pictures. */
uint32_t wu_shrink_step(const wu_picture_info *info, size_t n);

/* The mean of each step x step pixels of a page: [sy][sx][channels]. *out: free(). */
tc_status wu_shrink(const wu_picture_info *info, uint32_t step, const void *samples,
                    const char *shown, uint16_t **out, tc_err *err);

/* An image as its file has it. */
typedef struct wu_seen {
    unsigned channels; /* 0: nothing is kept */
    an_survey survey;
    uint16_t *small; /* owned: by the step for all items that the page shows */
} wu_seen;

void wu_seen_free(wu_seen *seen, size_t n);

#endif
