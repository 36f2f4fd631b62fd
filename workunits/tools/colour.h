/*
 * Colours to one grey value: a channel, or how much there is of a stain.
 */
#ifndef WU_COLOUR_H
#define WU_COLOUR_H

#include "workunits/tools/picture.h"

typedef struct wu_colour {
    const char *shown; /* the option, for messages; NULL: colours stay as they are */
    unsigned channel;  /* from 1, for wu_picture_want: 1 red, 2 green, 3 blue; 0: the mean of these,
                          or a stain */
    bool is_name;      /* of the channel: it is of colours */
    bool is_stain;
    int64_t weight[3]; /* of the densities of red, green, blue, in 2^-16: grey values per density */
    int32_t density[256]; /* -log10(v / 255) in 2^-16, that of 0 being 6 */
} wu_colour;

/* channel: grey, red, green, blue or a number from 1. stain: one of `stains`, which is he, hdab or
 * a JSON file of two or three stains, {"NAME": [red, green, blue], ...}: their densities. NULL: not
 * given. TC_USAGE, TC_BAD_INPUT. */
tc_status wu_colour_choose(const char *channel, const char *stain, const char *stains,
                           wu_colour *out, tc_err *err);

/* Makes a page of 8 bits grey, in place: the mean of its colours, or a stain. A grey one stays as
 * it is, but for a stain. */
void wu_colour_apply(const wu_colour *colour, uint8_t *data, wu_picture_info *info);

#endif
