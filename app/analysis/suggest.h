/*
 * Suggests parameters from pictures: an analysis that can do so has the function `suggest`
 * (analysis.h). A suggestion contains curves that show what it is based on, so that a person can
 * judge it.
 */
#ifndef AN_SUGGEST_H
#define AN_SUGGEST_H

#include "app/analysis/analysis.h"

enum {
    AN_MAX_PICTURES = 16, /* greatest number of pictures that a suggestion is made from */
    AN_MAX_CURVES = 12,   /* greatest number of curves of a suggestion */
    AN_MIDDLE_SIDE = 512  /* a suggestion uses only the middle of each picture: at most this many
                           pixels along a side */
};

/* The pictures that a suggestion is made from: grey, without masks, one slice of each stack, and
 * only a part of large pictures. */
typedef struct an_pictures {
    size_t n;
    wu_item items[AN_MAX_PICTURES]; /* only name, nx, ny and bits are set; nz is 1 */
    wu_pixels pixels[AN_MAX_PICTURES];
    /* The same pictures, complete but reduced in size; NULL if `pixels` already contains the
     * complete pictures. */
    const struct an_pictures *whole;
    bool of_stacks; /* the pictures are slices of stacks */
    double unit;    /* the length of a pixel in the unit of the stack's spacing; 1 for images */
    unsigned threads;
    const tc_poll *poll; /* may be NULL */
} an_pictures;

/* A curve that shows what a suggestion is based on: bars or a line through points, and a mark at
 * the suggested value. */
typedef struct an_curve {
    char title[200];
    const char *x_name, *y_name;
    bool bars;     /* draw bars, not a line */
    size_t n;      /* number of points */
    double *x, *y; /* owned */
    double mark;   /* the suggested value, on the x axis */
} an_curve;

typedef struct an_suggestion {
    json_t *parameters; /* the suggested parameters, without those that were given; owned */
    char why[800];      /* text for people: how the parameters were found */
    char doubt[300];    /* text for people: why the parameters may not suit all pictures, or "" */
    const char *each_doubt; /* text for people: a doubt that concerns each picture alone; or NULL */
    size_t n_curves;
    an_curve curves[AN_MAX_CURVES];
} an_suggestion;

void an_suggestion_free(an_suggestion *s);

/* --- for the functions of analyses ----------------------------------------------------------- */

/* Suggests a value for a key, unless the key is in `given`. Takes over the reference to value, also
 * after a failure. */
tc_status an_suggest_value(an_suggestion *s, const json_t *given, const char *key, json_t *value,
                           tc_err *err);
/* Adds a curve of n points, all 0. Returns NULL if there is no memory, or there are already
 * AN_MAX_CURVES curves. */
an_curve *an_add_curve(an_suggestion *s, const char *x_name, const char *y_name, size_t n);
/* Runs the analysis on picture i with these parameters. *out: freed by wu_output_free. */
tc_status an_try_parameters(const an_analysis *analysis, const an_pictures *pictures, size_t i,
                            const json_t *parameters, wu_output *out, tc_err *err);

/* Copies a picture's middle, of up to AN_MIDDLE_SIDE pixels along a side. *out: freed by
 * wu_pixels_free. */
tc_status an_copy_middle(const wu_pixels *px, wu_pixels *out, tc_err *err);
/* The number of pixels that an_copy_middle copies of an item's image. */
double an_middle_pixels(const wu_item *item);

/* Compares two areas (int64_t) for qsort, ascending. */
int an_compare_areas(const void *a, const void *b);

#endif
