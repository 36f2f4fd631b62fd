/*
 * Parameters that pictures suggest: an analysis that can tell some of its own from what it is to
 * see has the function `suggest` (analysis.h). It tells what it went by as curves, so that a person
 * can judge it.
 */
#ifndef AN_SUGGEST_H
#define AN_SUGGEST_H

#include "app/analysis/analysis.h"

enum { AN_MAX_PICTURES = 16, AN_MAX_CURVES = 12 };
/* What of a picture is looked at: its middle, at most so many pixels along a side. */
enum { AN_LOOKED_AT = 512 };

/* Pictures to go by: grey, without masks; a slice of each stack, a part of large ones. */
typedef struct an_pictures {
    size_t n;
    wu_item items[AN_MAX_PICTURES]; /* name, nx, ny and bits; one slice */
    wu_pixels pixels[AN_MAX_PICTURES];
    const struct an_pictures *whole; /* the same, whole but of fewer pixels; NULL: as above */
    bool of_stacks;
    double unit; /* what a pixel is long in the unit of a stack's spacing; 1 of pictures */
    unsigned threads;
    const tc_poll *poll; /* NULL: none */
} an_pictures;

/* What a suggestion is seen from: bars, or a line through points, and the value that was taken. */
typedef struct an_curve {
    char title[200];
    const char *x_name, *y_name;
    bool bars;
    size_t n;
    double *x, *y; /* owned */
    double mark;   /* on the x axis */
} an_curve;

typedef struct an_suggestion {
    json_t *parameters; /* that were not given; owned */
    char why[800];      /* for people */
    char doubt[300];    /* for people: why it may not suit all pictures; "": no doubt */
    const char *each;   /* such a doubt of each picture, or NULL */
    size_t n_curves;
    an_curve curves[AN_MAX_CURVES];
} an_suggestion;

void an_suggestion_free(an_suggestion *s);

/* --- for the functions of analyses ----------------------------------------------------------- */

/* Takes a value for a key unless it is in `given`. value: taken over, also after a failure. */
tc_status an_suggest(an_suggestion *s, const json_t *given, const char *key, json_t *value,
                     tc_err *err);
/* Room for a curve of n points at 0. NULL: no memory, or no room for more curves. */
an_curve *an_add_curve(an_suggestion *s, const char *x_name, const char *y_name, size_t n);
/* Does the analysis on picture i with the parameters that JSON says. *out: wu_output_free. */
tc_status an_try(const an_analysis *analysis, const an_pictures *pictures, size_t i,
                 const json_t *parameters, wu_output *out, tc_err *err);

/* A picture's middle, AN_LOOKED_AT pixels along a side at most, as a picture of its own. *out:
 * wu_pixels_free. */
tc_status an_copy_middle(const wu_pixels *px, wu_pixels *out, tc_err *err);
/* How many pixels that has. */
double an_looked_at(const wu_item *item);

/* For qsort of areas (int64_t), ascending. */
int an_compare_areas(const void *a, const void *b);

#endif
