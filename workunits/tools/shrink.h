/*
 * Scales pictures down for the report's HTML page, and the small copies of them that pack keeps for
 * that page.
 */
#ifndef WU_SHRINK_H
#define WU_SHRINK_H

#include "app/analysis/analysis.h"
#include "workunits/tools/picture.h"

enum {
    WU_REPORT_ITEMS = 200, /* items whose pictures a page shows, unless --items says otherwise */
    WU_REPORT_BYTES = 12 << 20 /* about the bytes of all pictures of a page before compression; the
                                  outlines drawn over them may take half as much */
};

/* The side of the squares of pixels that become one pixel on a page with `n` such pictures. */
uint32_t wu_shrink_step(const wu_picture_info *info, size_t n);

/* Computes the mean of each square of step x step pixels of a page: [sy][sx][channels], sx and sy
 * being nx / step and ny / step, rounded up, with as many bits a sample as the picture has. shown:
 * the file that messages name. *out: free(). */
tc_status wu_shrink(const wu_picture_info *info, uint32_t step, const void *samples,
                    const char *shown, void **out, tc_err *err);

/* What pack keeps of an image for the page: its colours, even where the work unit has only grey. */
typedef struct wu_seen {
    unsigned channels; /* of `small`: 1 or 3. 0: nothing is kept, as of stacks */
    an_survey survey;
    void *small; /* from wu_shrink, by the step for the number of items on the page; owned */
} wu_seen;

/* Frees the array and its pictures; seen may be NULL. */
void wu_seen_free(wu_seen *seen, size_t n);

#endif
