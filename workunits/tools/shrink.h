/*
 * Scales pictures down for the report's HTML page. Also declares the reduced pictures that pack
 * keeps for this page.
 */
#ifndef WU_SHRINK_H
#define WU_SHRINK_H

#include "app/analysis/analysis.h"
#include "workunits/tools/picture.h"

enum {
    WU_REPORT_ITEMS = 200, /* the most items whose pictures a page shows, unless --items is given */
    WU_REPORT_BYTES = 12 << 20 /* approximate limit of the bytes of all pictures of a page before
                                  compression; the outlines drawn over them may take half as much */
};

/* Returns the side, in pixels, of the squares of the picture that become one pixel each on a page
 * with n pictures of this size. */
uint32_t wu_shrink_step(const wu_picture_info *info, size_t n);

/* Computes the mean of each square of step x step pixels of a picture. Sets *out to the means, to
 * be freed by free(): [sy][sx][channels], where sx and sy are nx / step and ny / step, rounded up,
 * with info->bits bits a sample. shown: the name of the file in messages. */
tc_status wu_shrink_picture(const wu_picture_info *info, uint32_t step, const void *samples,
                            const char *shown, void **out, tc_err *err);
/* Computes one row of these means, out[sx][channels], from `rows` rows of samples, at most `step`.
 * sums: memory for nx * channels numbers. */
void wu_shrink_rows(const wu_picture_info *info, uint32_t step, uint32_t rows, const void *samples,
                    uint32_t *sums, void *out);

/* The reduced picture of an image that pack keeps for the page: in colour, even if the work unit
 * has only grey. */
typedef struct wu_thumbnail {
    unsigned channels; /* channels of `small`: 1 or 3; 0 if no picture is kept, as for stacks */
    an_survey survey;  /* the survey of all pixels of the image */
    void *small; /* the picture that wu_shrink_picture returned; its step is wu_shrink_step for the
                    number of items on the page; owned */
} wu_thumbnail;

/* Frees the array and its pictures; thumbnails may be NULL. */
void wu_thumbnails_free(wu_thumbnail *thumbnails, size_t n);

#endif
