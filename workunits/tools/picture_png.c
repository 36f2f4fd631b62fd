/* PNG through libpng. */
#include <png.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "workunits/format/job.h"
#include "workunits/tools/picture_format.h"

typedef struct png_state {
    png_structp png;
    png_infop info;
    char message[200];         /* of the error that libpng jumped out with */
    bool palette;              /* raw rows are indices, one byte each */
    unsigned raw_channels;     /* of the rows as libpng gives them, alpha included */
    unsigned n_colours;        /* of the palette */
    uint8_t colour[256][4];    /* red, green, blue, alpha */
    uint8_t *raw;              /* decoded page with alpha or indices, or NULL */
} png_state;

static void on_error(png_structp png, png_const_charp message)
{
    png_state *state = png_get_error_ptr(png);
    snprintf(state->message, sizeof state->message, "%s", message);
    png_longjmp(png, 1);
}

/* Warnings concern ancillary chunks, of which only tRNS matters here. */
static void on_warning(png_structp png, png_const_charp message)
{
    (void)png;
    (void)message;
}

static tc_status fail_png(const wu_picture *picture, tc_err *err)
{
    const png_state *state = picture->state;
    return tc_fail(err, TC_BAD_INPUT, "%s: damaged PNG: %s", picture->path, state->message);
}

/* Whether every entry of the palette is a grey; such pictures become grey. */
static bool palette_is_grey(const png_state *state)
{
    for (unsigned i = 0; i < state->n_colours; i++) {
        const uint8_t *c = state->colour[i];
        if (c[0] != c[1] || c[1] != c[2])
            return false;
    }
    return true;
}

static void take_palette(png_state *state)
{
    png_colorp entries = NULL;
    int n = 0;
    png_get_PLTE(state->png, state->info, &entries, &n);
    png_bytep alpha = NULL;
    int n_alpha = 0;
    png_get_tRNS(state->png, state->info, &alpha, &n_alpha, NULL);
    state->palette = true;
    state->n_colours = (unsigned)n;
    for (int i = 0; i < n && i < 256; i++) {
        state->colour[i][0] = entries[i].red;
        state->colour[i][1] = entries[i].green;
        state->colour[i][2] = entries[i].blue;
        state->colour[i][3] = alpha != NULL && i < n_alpha ? alpha[i] : 255;
    }
}

/* Reads the header and asks for the transformations; jumps on a PNG error. */
static tc_status read_header(wu_picture *picture, tc_err *err)
{
    png_state *state = picture->state;
    png_structp png = state->png;
    png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);   /* ours have a better message */
    png_init_io(png, picture->file);
    png_read_info(png, state->info);

    const int colour = png_get_color_type(png, state->info);
    const int depth = png_get_bit_depth(png, state->info);
    const tc_status status = wu_picture_set_size(picture, png_get_image_width(png, state->info),
                                                 png_get_image_height(png, state->info), err);
    if (status != TC_OK)
        return status;
    if ((colour & PNG_COLOR_MASK_COLOR) != 0 && depth == 16)
        return wu_picture_refuse_rgb16(picture, err);

    if (colour == PNG_COLOR_TYPE_PALETTE) {
        take_palette(state);
        png_set_packing(png);
    } else {
        png_set_expand(png);    /* 1, 2, 4 bits to 8; tRNS to alpha */
        png_set_swap(png);      /* 16 bits: PNG is big-endian, the host is not */
    }
    png_set_interlace_handling(png);
    png_read_update_info(png, state->info);
    state->raw_channels = png_get_channels(png, state->info);
    picture->info.bits = depth == 16 ? 16 : 8;
    if (state->palette)
        picture->info.channels = palette_is_grey(state) ? 1 : 3;
    else
        picture->info.channels = state->raw_channels >= 3 ? 3 : 1;
    return TC_OK;
}

static tc_status open_png(wu_picture *picture, tc_err *err)
{
    png_state *state = calloc(1, sizeof *state);
    picture->state = state;
    if (state == NULL)
        return tc_no_memory(err, picture->path);
    state->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, state, on_error, on_warning);
    if (state->png != NULL)
        state->info = png_create_info_struct(state->png);
    if (state->info == NULL)
        return tc_no_memory(err, picture->path);
    if (setjmp(png_jmpbuf(state->png)) != 0)
        return fail_png(picture, err);
    return read_header(picture, err);
}

/* Palette indices to colours. */
static tc_status map_palette(wu_picture *picture, uint8_t *out, tc_err *err)
{
    const png_state *state = picture->state;
    const unsigned channels = picture->info.channels;
    const size_t n = (size_t)picture->info.nx * picture->info.ny;
    for (size_t i = 0; i < n; i++) {
        const unsigned index = state->raw[i];
        if (index >= state->n_colours)
            return tc_fail(err, TC_BAD_INPUT, "%s: damaged PNG: a pixel has colour %u of %u",
                           picture->path, index, state->n_colours);
        memcpy(out + i * channels, state->colour[index], channels);
        if (state->colour[index][3] != 255)
            picture->alpha_dropped = true;
    }
    return TC_OK;
}

/* Copies all channels but the last, which is alpha. */
static void drop_alpha(wu_picture *picture, uint8_t *out)
{
    const png_state *state = picture->state;
    const size_t sample = picture->info.bits / 8;
    const size_t keep = picture->info.channels * sample;
    const size_t step = keep + sample;
    const size_t n = (size_t)picture->info.nx * picture->info.ny;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *pixel = state->raw + i * step;
        memcpy(out + i * keep, pixel, keep);
        if (pixel[keep] != 255 || pixel[step - 1] != 255)
            picture->alpha_dropped = true;
    }
}

/* Every pass over every row, then the end of the file; jumps on an error. */
static void read_rows(const wu_picture *picture, uint8_t *to, size_t row_bytes)
{
    const png_state *state = picture->state;
    const int passes = png_get_interlace_type(state->png, state->info) == PNG_INTERLACE_NONE ? 1 : 7;
    for (int pass = 0; pass < passes; pass++)
        for (uint32_t y = 0; y < picture->info.ny; y++)
            png_read_row(state->png, to + y * row_bytes, NULL);
    png_read_end(state->png, NULL);
}

static tc_status next_png(wu_picture *picture, void *pixels, tc_err *err)
{
    png_state *state = picture->state;
    const size_t row_bytes = png_get_rowbytes(state->png, state->info);
    const bool direct = !state->palette && state->raw_channels == picture->info.channels;
    if (!direct) {
        state->raw = malloc(row_bytes * picture->info.ny);
        if (state->raw == NULL)
            return tc_no_memory(err, picture->path);
    }
    if (setjmp(png_jmpbuf(state->png)) != 0)
        return fail_png(picture, err);
    read_rows(picture, direct ? pixels : state->raw, row_bytes);
    if (direct)
        return TC_OK;
    if (state->palette)
        return map_palette(picture, pixels, err);
    drop_alpha(picture, pixels);
    return TC_OK;
}

static void close_png(wu_picture *picture)
{
    png_state *state = picture->state;
    if (state == NULL)
        return;
    png_destroy_read_struct(&state->png, &state->info, NULL);
    free(state->raw);
    free(state);
    picture->state = NULL;
}

const wu_picture_decoder wu_picture_png = { "PNG", open_png, next_png, close_png };
