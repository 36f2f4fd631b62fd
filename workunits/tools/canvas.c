/* Draws rectangles and text into an RGB picture, and computes colours for values and labels. */
#include "workunits/tools/canvas.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "workunits/format/job.h"
#include "workunits/format/png_io.h"

#define PI 3.14159265358979323846

tc_status wu_canvas_init(wu_canvas *canvas, uint64_t nx, uint64_t ny, wu_rgb colour,
                         const char *what, tc_err *err)
{
    assert(nx > 0 && ny > 0);
    *canvas = (wu_canvas){ 0 };
    if (nx > WU_MAX_SIDE || ny > WU_MAX_SIDE || nx * ny > WU_MAX_VOXELS)
        return tc_fail(err, TC_BAD_INPUT, "%s: cannot be drawn in %llu x %llu pixels", what,
                       (unsigned long long)nx, (unsigned long long)ny);
    canvas->data = malloc((size_t)(nx * ny * 3));
    if (canvas->data == NULL)
        return tc_no_memory(err, what);
    canvas->nx = (uint32_t)nx;
    canvas->ny = (uint32_t)ny;
    wu_canvas_fill(canvas, 0, 0, nx, ny, colour);
    return TC_OK;
}

void wu_canvas_free(wu_canvas *canvas)
{
    free(canvas->data);
    *canvas = (wu_canvas){ 0 };
}

void wu_canvas_set(wu_canvas *canvas, uint64_t x, uint64_t y, wu_rgb colour)
{
    if (x >= canvas->nx || y >= canvas->ny)
        return;
    uint8_t *pixel = canvas->data + (y * canvas->nx + x) * 3;
    pixel[0] = colour.r;
    pixel[1] = colour.g;
    pixel[2] = colour.b;
}

void wu_canvas_fill(wu_canvas *canvas, uint64_t x, uint64_t y, uint64_t nx, uint64_t ny,
                    wu_rgb colour)
{
    for (uint64_t j = y; j < y + ny && j < canvas->ny; j++)
        for (uint64_t i = x; i < x + nx && i < canvas->nx; i++)
            wu_canvas_set(canvas, i, j, colour);
}

/* The quotient least / side is rounded up. */
uint64_t wu_enlargement(uint64_t side, uint64_t least)
{
    return side == 0 || side >= least ? 1 : (least + side - 1) / side;
}

void wu_canvas_shadowed_text(wu_canvas *canvas, uint64_t x, uint64_t y, const char *text)
{
    wu_canvas_text(canvas, x + 1, y + 1, 1, text, (wu_rgb){ 0, 0, 0 });
    wu_canvas_text(canvas, x, y, 1, text, (wu_rgb){ 255, 255, 255 });
}

void wu_canvas_number(wu_canvas *canvas, uint64_t x, uint64_t y, uint64_t nx, uint64_t ny,
                      uint32_t number)
{
    char text[16];
    const uint64_t width = (uint64_t)snprintf(text, sizeof text, "%u", number) * WU_CHAR_NX;
    /* The number is 2 pixels from the corner; its shadow takes one more pixel. */
    if (width + 3 <= nx && WU_CHAR_NY + 3 <= ny)
        wu_canvas_shadowed_text(canvas, x + 2, y + 2, text);
}

tc_status wu_canvas_write(const wu_canvas *canvas, const char *path, tc_err *err)
{
    const wu_png_info info = {
        .width = canvas->nx, .height = canvas->ny, .bits = 8, .channels = 3
    };
    return wu_png_write_file(path, &info, canvas->data, err);
}

/* --- text ------------------------------------------------------------------------------------ */

/* The picture of a character: seven rows of five dots each, the leftmost dot in bit 4. */
typedef struct glyph {
    char character;
    uint8_t rows[WU_CHAR_NY];
} glyph;

static const glyph font[] = {
    { '0', { 0x0e, 0x11, 0x13, 0x15, 0x19, 0x11, 0x0e } },
    { '1', { 0x04, 0x0c, 0x04, 0x04, 0x04, 0x04, 0x0e } },
    { '2', { 0x0e, 0x11, 0x01, 0x06, 0x08, 0x10, 0x1f } },
    { '3', { 0x1f, 0x02, 0x04, 0x02, 0x01, 0x11, 0x0e } },
    { '4', { 0x02, 0x06, 0x0a, 0x12, 0x1f, 0x02, 0x02 } },
    { '5', { 0x1f, 0x10, 0x1e, 0x01, 0x01, 0x11, 0x0e } },
    { '6', { 0x06, 0x08, 0x10, 0x1e, 0x11, 0x11, 0x0e } },
    { '7', { 0x1f, 0x01, 0x02, 0x04, 0x08, 0x08, 0x08 } },
    { '8', { 0x0e, 0x11, 0x11, 0x0e, 0x11, 0x11, 0x0e } },
    { '9', { 0x0e, 0x11, 0x11, 0x0f, 0x01, 0x02, 0x0c } },
    { 'A', { 0x0e, 0x11, 0x11, 0x1f, 0x11, 0x11, 0x11 } },
    { 'B', { 0x1e, 0x11, 0x11, 0x1e, 0x11, 0x11, 0x1e } },
    { 'C', { 0x0e, 0x11, 0x10, 0x10, 0x10, 0x11, 0x0e } },
    { 'D', { 0x1c, 0x12, 0x11, 0x11, 0x11, 0x12, 0x1c } },
    { 'E', { 0x1f, 0x10, 0x10, 0x1e, 0x10, 0x10, 0x1f } },
    { 'F', { 0x1f, 0x10, 0x10, 0x1e, 0x10, 0x10, 0x10 } },
    { 'G', { 0x0e, 0x11, 0x10, 0x17, 0x11, 0x11, 0x0f } },
    { 'H', { 0x11, 0x11, 0x11, 0x1f, 0x11, 0x11, 0x11 } },
    { 'I', { 0x0e, 0x04, 0x04, 0x04, 0x04, 0x04, 0x0e } },
    { 'J', { 0x07, 0x02, 0x02, 0x02, 0x02, 0x12, 0x0c } },
    { 'K', { 0x11, 0x12, 0x14, 0x18, 0x14, 0x12, 0x11 } },
    { 'L', { 0x10, 0x10, 0x10, 0x10, 0x10, 0x10, 0x1f } },
    { 'M', { 0x11, 0x1b, 0x15, 0x15, 0x11, 0x11, 0x11 } },
    { 'N', { 0x11, 0x11, 0x19, 0x15, 0x13, 0x11, 0x11 } },
    { 'O', { 0x0e, 0x11, 0x11, 0x11, 0x11, 0x11, 0x0e } },
    { 'P', { 0x1e, 0x11, 0x11, 0x1e, 0x10, 0x10, 0x10 } },
    { 'Q', { 0x0e, 0x11, 0x11, 0x11, 0x15, 0x12, 0x0d } },
    { 'R', { 0x1e, 0x11, 0x11, 0x1e, 0x14, 0x12, 0x11 } },
    { 'S', { 0x0f, 0x10, 0x10, 0x0e, 0x01, 0x01, 0x1e } },
    { 'T', { 0x1f, 0x04, 0x04, 0x04, 0x04, 0x04, 0x04 } },
    { 'U', { 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x0e } },
    { 'V', { 0x11, 0x11, 0x11, 0x11, 0x11, 0x0a, 0x04 } },
    { 'W', { 0x11, 0x11, 0x11, 0x15, 0x15, 0x1b, 0x11 } },
    { 'X', { 0x11, 0x11, 0x0a, 0x04, 0x0a, 0x11, 0x11 } },
    { 'Y', { 0x11, 0x11, 0x0a, 0x04, 0x04, 0x04, 0x04 } },
    { 'Z', { 0x1f, 0x01, 0x02, 0x04, 0x08, 0x10, 0x1f } },
    { '.', { 0x00, 0x00, 0x00, 0x00, 0x00, 0x0c, 0x0c } },
    { ',', { 0x00, 0x00, 0x00, 0x00, 0x0c, 0x04, 0x08 } },
    { ':', { 0x00, 0x0c, 0x0c, 0x00, 0x0c, 0x0c, 0x00 } },
    { '-', { 0x00, 0x00, 0x00, 0x1f, 0x00, 0x00, 0x00 } },
    { '+', { 0x00, 0x04, 0x04, 0x1f, 0x04, 0x04, 0x00 } },
    { '=', { 0x00, 0x00, 0x1f, 0x00, 0x1f, 0x00, 0x00 } },
    { '(', { 0x02, 0x04, 0x08, 0x08, 0x08, 0x04, 0x02 } },
    { ')', { 0x08, 0x04, 0x02, 0x02, 0x02, 0x04, 0x08 } },
    { '/', { 0x00, 0x01, 0x02, 0x04, 0x08, 0x10, 0x00 } },
    { '_', { 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x1f } },
};

/* The picture of a character, or NULL. */
static const glyph *find_glyph(char c)
{
    const char capital = (char)toupper((unsigned char)c);
    for (size_t i = 0; i < sizeof font / sizeof font[0]; i++)
        if (font[i].character == capital)
            return &font[i];
    return NULL;
}

void wu_canvas_text(wu_canvas *canvas, uint64_t x, uint64_t y, uint64_t scale, const char *text,
                    wu_rgb colour)
{
    assert(scale >= 1);
    for (size_t i = 0; text[i] != '\0'; i++, x += WU_CHAR_NX * scale) {
        const glyph *g = find_glyph(text[i]);
        for (unsigned row = 0; g != NULL && row < WU_CHAR_NY; row++)
            for (unsigned dot = 0; dot < 5; dot++)
                if ((g->rows[row] >> (4 - dot) & 1) != 0)
                    wu_canvas_fill(canvas, x + dot * scale, y + row * scale, scale, scale, colour);
    }
}

/* --- colours --------------------------------------------------------------------------------- */

/* Converts a value from 0..1 to 0..255. */
static uint8_t to_byte(double value)
{
    return value <= 0 ? 0 : value >= 1 ? 255 : (uint8_t)lround(value * 255);
}

wu_rgb wu_colour_map(double value)
{
    assert(value >= 0 && value <= 1);
    /* The colour map cubehelix of D. A. Green ("A colour scheme for the display of astronomical
     * intensity images", 2011): a helix in RGB space that starts at the hue `start` (1 red, 2
     * green, 3 blue) and winds `rotations` times around the grey diagonal. The radius of the helix,
     * and so the saturation of the colours, is proportional to `saturation`. The darkest and
     * brightest parts of the helix, which look black and white, are left out. */
    const double start = 0.5, rotations = -0.75, saturation = 1.5, darkest = 0.14, brightest = 0.92;
    const double grey = darkest + (brightest - darkest) * value; /* the place on the diagonal */
    const double angle = 2 * PI * (start / 3 + 1 + rotations * grey);
    const double amplitude = saturation * grey * (1 - grey) / 2; /* distance from the diagonal */
    const double c = cos(angle), s = sin(angle);
    /* The constants are those of the article. They give two directions along which the perceived
     * brightness does not change. */
    return (wu_rgb){ to_byte(grey + amplitude * (-0.14861 * c + 1.78277 * s)),
                     to_byte(grey + amplitude * (-0.29227 * c - 0.90649 * s)),
                     to_byte(grey + amplitude * (1.97294 * c)) };
}

wu_rgb wu_label_colour(uint32_t label)
{
    /* Hues in steps of the golden ratio (its fractional part) around the colour circle, at full
     * brightness. In each sixth of the circle one component is 1, one is `low`, and one rises or
     * falls between them. */
    const double turn = 0.61803398874989485 * label;
    const double hue = (turn - floor(turn)) * 6;
    const double rise = hue - floor(hue), low = 0.3;
    const double rising = low + (1 - low) * rise, falling = 1 - (1 - low) * rise;
    static const int order[6][3] = { { 3, 1, 0 }, { 2, 3, 0 }, { 0, 3, 1 },
                                     { 0, 2, 3 }, { 1, 0, 3 }, { 3, 0, 2 } };
    const double parts[4] = { low, rising, falling, 1 };
    const int *rgb = order[(int)hue % 6]; /* indices in parts */
    return (wu_rgb){ to_byte(parts[rgb[0]]), to_byte(parts[rgb[1]]), to_byte(parts[rgb[2]]) };
}

wu_rgb wu_blend(wu_rgb a, wu_rgb b, double share)
{
    assert(share >= 0 && share <= 1);
    const double rest = 1 - share;
    return (wu_rgb){ to_byte((a.r * rest + b.r * share) / 255),
                     to_byte((a.g * rest + b.g * share) / 255),
                     to_byte((a.b * rest + b.b * share) / 255) };
}
