/*
 * Draws into an RGB picture of 8 bits: pixels, rectangles, text in a small font; and colours for
 * values and labels.
 */
#ifndef WU_CANVAS_H
#define WU_CANVAS_H

#include <stdint.h>

#include "app/base/status.h"

/* A colour. */
typedef struct wu_rgb {
    uint8_t r, g, b;
} wu_rgb;

/* A picture that is drawn into. */
typedef struct wu_canvas {
    uint32_t nx, ny; /* width and height in pixels */
    uint8_t *data;   /* [ny][nx][3], owned */
} wu_canvas;

/* Makes a canvas of one colour. what: the name of the picture in messages. TC_BAD_INPUT: the size
 * is beyond a work unit's limits. wu_canvas_free must be called, also after a failure. */
tc_status wu_canvas_init(wu_canvas *canvas, uint64_t nx, uint64_t ny, wu_rgb colour,
                         const char *what, tc_err *err);
void wu_canvas_free(wu_canvas *canvas);

/* Sets a pixel; does nothing outside the canvas. */
void wu_canvas_set(wu_canvas *canvas, uint64_t x, uint64_t y, wu_rgb colour);
/* Fills the part of a rectangle of nx x ny pixels at (x, y) that is on the canvas. */
void wu_canvas_fill(wu_canvas *canvas, uint64_t x, uint64_t y, uint64_t nx, uint64_t ny,
                    wu_rgb colour);

/* Draws text with its upper left corner at (x, y). The font has digits, capital letters (which are
 * also used for lower-case ones) and . - + ( ) , = : / _ ; any other character is a gap. A
 * character takes WU_CHAR_NX x WU_CHAR_NY dots of scale x scale pixels. */
enum {
    WU_CHAR_NX = 6, /* width of a character in dots */
    WU_CHAR_NY = 7  /* height of a character in dots */
};
void wu_canvas_text(wu_canvas *canvas, uint64_t x, uint64_t y, uint64_t scale, const char *text,
                    wu_rgb colour);

/* Draws white text with a black shadow, legible on any background, at scale 1. */
void wu_canvas_shadowed_text(wu_canvas *canvas, uint64_t x, uint64_t y, const char *text);
/* Draws a slice's number into the upper left corner of the slice, a rectangle of nx x ny pixels at
 * (x, y), if the number fits. */
void wu_canvas_number(wu_canvas *canvas, uint64_t x, uint64_t y, uint64_t nx, uint64_t ny,
                      uint32_t number);

/* A picture whose longer side has fewer pixels than this is enlarged by a whole factor. */
enum { WU_SMALL_SIDE = 300 };
/* The smallest whole factor that makes a side of `side` pixels at least `least` pixels long; 1 if
 * side is 0. */
uint64_t wu_enlargement(uint64_t side, uint64_t least);

/* Writes the canvas as a PNG file. */
tc_status wu_canvas_write(const wu_canvas *canvas, const char *path, tc_err *err);

/* The colour of a value in [0, 1], from dark violet through blue and green to pale yellow, with
 * evenly increasing brightness: a cubehelix (D. A. Green, "A colour scheme for the display of
 * astronomical intensity images", Bulletin of the Astronomical Society of India 39 (2011), 289). */
wu_rgb wu_colour_map(double value);

/* A colour for a label: consecutive numbers get very different hues. */
wu_rgb wu_label_colour(uint32_t label);

/* The mixture (1 - share) * a + share * b. */
wu_rgb wu_blend(wu_rgb a, wu_rgb b, double share);

#endif
