/*
 * Converts colours to one grey value: a channel, the mean of red, green and blue, or the amount of
 * a stain.
 */
#ifndef WU_COLOUR_H
#define WU_COLOUR_H

#include "workunits/tools/picture.h"

/* How colours are converted to grey. */
typedef struct wu_colour {
    const char *option; /* the option's name, for messages; NULL: colours are not converted */
    unsigned channel;   /* number of the channel, for wu_picture_want: 1 red, 2 green, 3 blue, ...;
                           0: the mean of red, green and blue, or a stain */
    bool is_name;       /* the channel was given as red, green or blue, not as a number */
    bool is_stain;      /* the amount of a stain is computed */
    int64_t weight[3];  /* for a stain: weights of the optical densities of red, green and blue, in
                           grey values per unit of density, times 2^16 */
    int32_t density[256]; /* optical density -log10(v / 255) of sample v, times 2^16; the density of
                             v = 0 is taken as 6 */
} wu_colour;

/* Reads the values of the options --channel, --stain and --stains, which are NULL if not given.
 * channel: grey, red, green, blue or a number from 1. stain: the name of one of `stains`. stains:
 * "he", "hdab", or the path of a JSON file with two or three stains and their optical densities,
 * {"NAME": [red, green, blue], ...}. TC_USAGE, TC_BAD_INPUT. */
tc_status wu_colour_choose(const char *channel, const char *stain, const char *stains,
                           wu_colour *out, tc_err *err);

/* Converts a page of 8 bits to grey in place: to (R+G+B)/3, or to the amount of the stain. A grey
 * page is changed only by a stain, for which R = G = B is its grey value. */
void wu_colour_apply(const wu_colour *colour, uint8_t *data, wu_picture_info *info);

#endif
