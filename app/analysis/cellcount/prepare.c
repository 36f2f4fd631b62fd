/*
 * cellcount on the CPU: prepares grey values for the threshold. The steps are a Gaussian filter;
 * then the subtraction of the background, which is estimated as the mean of the surrounding pixels,
 * by lines fitted to them, or by an opening (for dark cells a closing) with a disc; then, for a
 * local threshold, the subtraction of the local mean. All steps compute in integers. Each reads one
 * plane and writes another, both with the picture's number of bits.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/cellcount/core.h"
#include "app/analysis/cellcount/cpu.h"
#include "app/base/os.h"

/* Greatest width, in pixels, of a piece (a rectangle that a thread processes at a time) in a
 * Gaussian filter or an opening. */
enum { TILE_COLUMNS = 512 };
/* Greatest height, in pixels, of a piece in an opening. */
enum { TILE_ROWS = 64 };
/* Number of values that a vectorised loop of disc_body.h processes at a time. */
enum { BLOCK = 64 };

/* Columns [x0, x1) of rows [y0, y1). */
typedef struct piece {
    int64_t x0, x1, y0, y1;
} piece;

/* --- rows ------------------------------------------------------------------------------------ */

/* Sets out[i] to the grey value of pixel at + i, for i < n. */
static void read_values(const wu_pixels *px, size_t at, size_t n, uint16_t *out)
{
    if (px->u8 != NULL)
        for (size_t i = 0; i < n; i++)
            out[i] = px->u8[at + i];
    else
        memcpy(out, px->u16 + at, n * sizeof *out);
}

static void write_values(const wu_pixels *px, size_t at, size_t n, const uint16_t *values)
{
    if (px->u8 != NULL)
        for (size_t i = 0; i < n; i++)
            px->u8[at + i] = (uint8_t)values[i];
    else
        memcpy(px->u16 + at, values, n * sizeof *values);
}

/* The greatest value that a pixel can have. */
static uint32_t greatest_pixel(const wu_pixels *px)
{
    return px->bits == 8 ? UINT8_MAX : UINT16_MAX;
}

/* --- smooth ---------------------------------------------------------------------------------- */

/* The width of a piece. */
static size_t piece_columns(size_t nx)
{
    return nx < TILE_COLUMNS ? nx : TILE_COLUMNS;
}

/* Returns the number of uint32_t elements of scratch memory that smooth_piece needs: two rows of a
 * piece with margins (values, line), 2 radius + 1 rows that are filtered along x (ring), and a row
 * of results (out). */
static size_t smooth_scratch(uint32_t nx, int radius)
{
    const size_t taps = 2 * (size_t)radius + 1, n = piece_columns(nx);

    return 2 * (n + taps) + (taps + 1) * n;
}

/* Filters row y of the piece along x. Sets `out` to the result in units of 2^-CC_GREY_BITS. values,
 * line: scratch memory for the row with its margins. */
static void smooth_x(const cc_prepare *p, const wu_pixels *in, const piece *at, int64_t y,
                     uint32_t *line, uint16_t *values, uint32_t *out)
{
    const int64_t nx = in->nx, radius = p->gauss.radius;
    const int64_t lo = at->x0 > radius ? at->x0 - radius : 0,
                  hi = at->x1 + radius < nx ? at->x1 + radius : nx;
    const uint32_t *lines[2 * AN_GAUSS_MAX_RADIUS + 1];

    read_values(in, (size_t)(y * nx + lo), (size_t)(hi - lo), values);
    for (int64_t x = at->x0 - radius; x < at->x1 + radius; x++)
        line[x - at->x0 + radius] = values[(x < lo ? lo : x < hi ? x : hi - 1) - lo];
    for (int64_t k = 0; k <= 2 * radius; k++)
        lines[k] = line + k;
    an_gauss_blur(p->gauss.weight, p->gauss.radius, lines, (size_t)(at->x1 - at->x0),
                  AN_GAUSS_BITS - CC_GREY_BITS, in->bits == 16, out);
}

/* Filters a piece along x and then along y. A ring buffer holds the last 2 radius + 1 rows that
 * were filtered along x: row y is at index y modulo (2 radius + 1). */
static void smooth_piece(const cc_prepare *p, const wu_pixels *in, const wu_pixels *to,
                         const piece *at, void *scratch)
{
    const int64_t h = p->gauss.radius, taps = 2 * h + 1, ny = in->ny;
    const size_t n = (size_t)(at->x1 - at->x0);
    uint16_t *const values = scratch;
    uint32_t *const line = (uint32_t *)scratch + n + (size_t)taps;
    uint32_t *const ring = line + n + (size_t)taps;
    uint32_t *const out = ring + (size_t)taps * n;
    const uint32_t *lines[2 * AN_GAUSS_MAX_RADIUS + 1];

    for (int64_t y = at->y0 - h; y < at->y1 + h; y++) {
        const int64_t done = y - h; /* the row whose filtering along y is now possible */

        if (y >= 0 && y < ny)
            smooth_x(p, in, at, y, line, values, ring + (size_t)(y % taps) * n);
        if (done < at->y0)
            continue;
        for (int64_t j = done - h; j <= done + h; j++)
            lines[j - done + h] = ring + (size_t)((j < 0 ? 0 : j < ny ? j : ny - 1) % taps) * n;
        an_gauss_blur(p->gauss.weight, p->gauss.radius, lines, n, AN_GAUSS_BITS, in->bits == 16,
                      out);
        for (size_t x = 0; x < n; x++) /* rounds to whole grey values */
            values[x] = (uint16_t)((out[x] + (1 << (CC_GREY_BITS - 1))) >> CC_GREY_BITS);
        write_values(to, (size_t)(done * in->nx + at->x0), n, values);
    }
}

/* --- the mean of the surroundings ------------------------------------------------------------ */

/* The pixels of a row or column that are at most `radius` away from a pixel and lie within the
 * picture. */
typedef struct span {
    int64_t first, n; /* index of the first pixel, and number of pixels */
    int64_t u;        /* twice the distance from the middle of the span to the pixel itself */
} span;

static span span_of(int64_t at, int64_t radius, int64_t length)
{
    const int64_t first = at > radius ? at - radius : 0,
                  end = at + radius < length ? at + radius + 1 : length;

    return (span){ first, end - first, 2 * at - first - end + 1 };
}

/* Fits a line to the a->n values in the span around a pixel. Returns a->n times the line's value at
 * the pixel. sum: the sum of the values; moment: the sum of each value times its index in the row
 * or column. In the middle of a span (u is 0) the line's value is the mean. */
static int64_t fitted_value(const span *a, int64_t sum, int64_t moment)
{
    return a->u == 0 ? sum
                     : sum + cc_line_rise(2 * moment - (2 * a->first + a->n - 1) * sum, a->u, a->n);
}

/* A thread's sums, for each column, over the column's values in the rows around the current row.
 * All arrays have nx elements, and lie in the thread's scratch memory. */
typedef struct column_sums {
    int64_t *moments;      /* `lines` only: sum of each value of a column times its row */
    int32_t *sums;         /* sum of a column's values */
    int32_t *fitted;       /* `lines` only: the result of column_values */
    uint16_t *values;      /* grey values of the current row */
    uint16_t *changed_row; /* grey values of the row that is added or subtracted */
    bool lines;            /* the background is lines, not a mean */
} column_sums;

static column_sums init_columns(void *scratch, size_t nx, bool lines)
{
    int64_t *const moments = scratch;
    int32_t *const sums = (int32_t *)(moments + nx);
    uint16_t *const values = (uint16_t *)(sums + 2 * nx);

    memset(scratch, 0, nx * (sizeof *moments + sizeof *sums));
    return (column_sums){ moments, sums, sums + nx, values, values + nx, lines };
}

static size_t columns_scratch(size_t nx)
{
    return nx * (sizeof(int64_t) + 2 * sizeof(int32_t) + 2 * sizeof(uint16_t));
}

/* Adds row y, if there is one, to the sums of columns (sign 1), or subtracts it (-1). */
static void add_row(const column_sums *c, const wu_pixels *in, int64_t y, int32_t sign)
{
    if (y < 0 || y >= in->ny)
        return;
    read_values(in, (size_t)y * in->nx, in->nx, c->changed_row);
    for (size_t x = 0; x < in->nx; x++)
        c->sums[x] += sign * c->changed_row[x];
    for (size_t x = 0; c->lines && x < in->nx; x++)
        c->moments[x] += sign * y * c->changed_row[x];
}

/* Returns [nx] values. These are the columns' sums or, with `lines`, for each column the number of
 * its values times the value, at the current row, of the line fitted to them. rows: the span of
 * rows around the current row. */
static const int32_t *column_values(const column_sums *c, const span *rows, size_t nx)
{
    if (!c->lines || rows->u == 0)
        return c->sums;
    for (size_t x = 0; x < nx; x++)
        c->fitted[x] = (int32_t)fitted_value(rows, c->sums[x], c->moments[x]);
    return c->fitted;
}

/* Removes the local mean from each value of a row, by cc_remove_background with the level `middle`
 * and the greatest value `most`. column: the sums of the columns over `rows` rows. The number n of
 * pixels in a mean rarely changes from one pixel to the next. So a multiplication by the reciprocal
 * of n, which is computed when n changes, replaces the division. */
static void level_row(const int32_t *column, int64_t nx, int64_t radius, int64_t rows,
                      uint32_t middle, bool ratio, uint32_t most, uint16_t *values)
{
    uint64_t sum = 0, n = 0, inverse = 0;

    for (int64_t x = 0; x < radius && x < nx; x++)
        sum += (uint64_t)column[x];
    for (int64_t x = 0; x < nx; x++) {
        const int64_t first = x > radius ? x - radius : 0,
                      end = x + radius < nx ? x + radius + 1 : nx;
        uint64_t rounded, mean;

        if (n != (uint64_t)(rows * (end - first))) {
            n = (uint64_t)(rows * (end - first));
            inverse = UINT64_MAX / n;
        }
        sum += x + radius < nx ? (uint64_t)column[x + radius] : 0;
        rounded = sum + n / 2;
        mean = tc_mulhi(rounded, inverse); /* floor(rounded / n), or one less */
        mean += rounded - mean * n >= n;
        values[x] = (uint16_t)cc_remove_background(values[x], (uint32_t)mean, middle, ratio, most);
        sum -= x >= radius ? (uint64_t)column[x - radius] : 0;
    }
}

/* Does the same as level_row, with the value of a line fitted to `column` in place of the mean.
 * column: the values that column_values returned. */
static void level_by_lines(const int32_t *column, int64_t nx, int64_t radius, int64_t rows,
                           uint32_t middle, bool ratio, uint32_t most, uint16_t *values)
{
    int64_t sum = 0, moment = 0;

    for (int64_t x = 0; x < radius && x < nx; x++) {
        sum += column[x];
        moment += x * column[x];
    }
    for (int64_t x = 0; x < nx; x++) {
        const span around = span_of(x, radius, nx);
        const int64_t entering = x + radius < nx ? column[x + radius] : 0,
                      leaving = x >= radius ? column[x - radius] : 0;
        uint32_t ground;

        sum += entering;
        moment += (x + radius) * entering;
        ground = cc_background_at(fitted_value(&around, sum, moment), rows * around.n, most);
        values[x] = (uint16_t)cc_remove_background(values[x], ground, middle, ratio, most);
        sum -= leaving;
        moment -= (x - radius) * leaving;
    }
}

/* Removes the background from rows [y0, y1). The background is the mean of a square of side 2
 * radius + 1 around each pixel, as far as the square lies within the picture; with `lines`, it is
 * the value of lines fitted in this square, first along each column, then along the row. */
static void mean_rows(const wu_pixels *in, const wu_pixels *to, int64_t radius, bool lines,
                      uint32_t middle, bool ratio, int64_t y0, int64_t y1, void *scratch)
{
    const int64_t nx = in->nx;
    const column_sums c = init_columns(scratch, in->nx, lines);

    for (int64_t y = y0 - radius; y < y0 + radius; y++)
        add_row(&c, in, y, 1);
    for (int64_t y = y0; y < y1; y++) {
        const span rows = span_of(y, radius, in->ny);
        const int32_t *column;

        add_row(&c, in, y + radius, 1);
        column = column_values(&c, &rows, in->nx);
        read_values(in, (size_t)(y * nx), (size_t)nx, c.values);
        if (lines)
            level_by_lines(column, nx, radius, rows.n, middle, ratio, greatest_pixel(in), c.values);
        else
            level_row(column, nx, radius, rows.n, middle, ratio, greatest_pixel(in), c.values);
        write_values(to, (size_t)(y * nx), (size_t)nx, c.values);
        add_row(&c, in, y - radius, -1);
    }
}

/* --- the greatest value within a disc -------------------------------------------------------- */

/* The disc's row at distance dy from the middle row has 2 w + 1 pixels; returns w. */
static int64_t half_width(int64_t radius, int64_t dy)
{
    int64_t w = 0;

    while ((w + 1) * (w + 1) + dy * dy <= radius * radius)
        w++;
    return w;
}

/* Returns the number of powers of two (1, 2, 4, ...) up to 2 radius + 1, the width of the disc. For
 * each power, disc_tile.maxima contains the maxima of that number of adjacent pixels. */
static int count_powers(int64_t radius)
{
    int n = 1;

    while ((int64_t)1 << n <= 2 * radius + 1)
        n++;
    return n;
}

uint32_t cc_disc_row(int64_t radius, int64_t dy)
{
    assert(dy >= -radius && dy <= radius);
    const int64_t w = half_width(radius, dy);

    return (uint32_t)w | (uint32_t)(count_powers(w) - 1) << 16;
}

/* The number of elements of a row of disc_tile.maxima: the piece's columns, margins, and padding
 * for the last block. */
static size_t tile_stride(size_t columns, int64_t radius)
{
    return (columns + 2 * (size_t)radius + 2 * (size_t)BLOCK - 1) / BLOCK * BLOCK;
}

/* Bytes of scratch memory for disc_tile.maxima, with padding after the last row, as loops over
 * blocks read past its end. */
static size_t disc_scratch(uint32_t nx, int64_t radius)
{
    const size_t rows = (TILE_ROWS + 2 * (size_t)radius) * (size_t)count_powers(radius);

    return ((rows + 1) * tile_stride(piece_columns(nx), radius) + 2 * (size_t)radius) *
           sizeof(uint16_t);
}

/* A row of the disc. The greatest value in it is the greater of the maxima of two overlapping runs
 * of 2^power pixels, which together cover the row. For column x of a piece, the first run begins at
 * column x + first of the tile (which has a margin), and the second run `second` pixels later. */
typedef struct disc_line {
    int power;
    int64_t first, second;
} disc_line;

/* A piece, and the maxima of the pixels in and around it, as far as the disc reaches. */
typedef struct disc_tile {
    const wu_pixels *in;
    piece at;
    int64_t radius;
    int powers;     /* count_powers(radius) */
    size_t columns; /* number of columns of the piece with its margins */
    size_t stride;  /* tile_stride of the piece */
    uint16_t flip;  /* values are combined with this by exclusive or: 0 to find maxima; all ones,
                       which reverses the order of values, to find minima */
    void *maxima;   /* [rows][powers][stride] of the pixels' type: element (y, power, x) is the
                       greatest of the 2^power pixels of row y from column x on */
    disc_line lines[CC_MOST_RADIUS + 1]; /* rows of the disc, by distance from the middle one */
} disc_tile;

#define DISC_VALUE uint8_t
#define DISC_NAME(name) name##_u8
#include "app/analysis/cellcount/disc_body.h"

#define DISC_VALUE uint16_t
#define DISC_NAME(name) name##_u16
#include "app/analysis/cellcount/disc_body.h"

/* Sets `to`, for each pixel of a piece, to the greatest value (or with `least` the least value) of
 * `in` within the disc around the pixel. If `from` is not NULL, this value is the background, and
 * `to` is set to the pixel's value in `from` with the background removed. */
static void disc_piece(const cc_prepare *p, const wu_pixels *in, const wu_pixels *from,
                       const wu_pixels *to, bool least, const piece *at, void *scratch)
{
    const int64_t radius = p->params->radius;
    disc_tile t = { .in = in,
                    .at = *at,
                    .radius = radius,
                    .powers = count_powers(radius),
                    .columns = (size_t)(at->x1 - at->x0) + 2 * (size_t)radius,
                    .stride = tile_stride((size_t)(at->x1 - at->x0), radius),
                    .flip = least ? (uint16_t)greatest_pixel(in) : 0,
                    .maxima = scratch };

    for (int64_t dy = 0; dy <= radius; dy++) {
        const int64_t w = half_width(radius, dy);
        const int power = count_powers(w) - 1;

        t.lines[dy] = (disc_line){ power, radius - w, 2 * w + 1 - ((int64_t)1 << power) };
    }
    if (in->u8 != NULL)
        process_tile_u8(p, &t, from, to);
    else
        process_tile_u16(p, &t, from, to);
}

/* --- the steps ------------------------------------------------------------------------------- */

bool cc_has_preparation(const cc_params *p)
{
    return p->smooth > 0 || p->background || p->threshold_word == CC_LOCAL;
}

bool cc_has_step(const cc_params *p, cc_phase step)
{
    switch (step) {
    case CC_SMOOTH: return p->smooth > 0;
    case CC_EXTREME: return p->background && p->ground == CC_OPENING;
    case CC_GROUND: return p->background;
    default: return p->threshold_word == CC_LOCAL;
    }
}

size_t cc_prepare_scratch(const cc_params *p, uint32_t nx)
{
    const size_t smooth =
        p->smooth > 0 ? smooth_scratch(nx, an_gauss_radius(p->smooth)) * sizeof(uint32_t) : 0;
    const size_t mean = columns_scratch(nx),
                 disc = p->ground == CC_OPENING ? disc_scratch(nx, p->radius) : 0;

    return smooth > mean ? smooth > disc ? smooth : disc : mean > disc ? mean : disc;
}

/* Chooses the planes that a step reads and writes. The steps write planes 0 and 1 in turn, except
 * for CC_EXTREME, which writes plane 2. */
void cc_prepare_step(cc_prepare *p, cc_phase step)
{
    assert(cc_has_step(p->params, step));
    const wu_pixels *const result_so_far = p->current;

    p->step = step;
    if (step == CC_EXTREME)
        return;
    p->input = result_so_far;
    p->current = result_so_far == &p->planes[0] ? &p->planes[1] : &p->planes[0];
}

/* Returns the width (x1) and height (y1) of the pieces that a step divides `rows` rows into. */
static piece piece_size(const cc_params *p, cc_phase step, uint32_t nx, uint32_t rows)
{
    const bool disc = step == CC_EXTREME || (step == CC_GROUND && p->ground == CC_OPENING);

    return (piece){ .x1 = step == CC_SMOOTH || disc ? (int64_t)piece_columns(nx) : nx,
                    .y1 = disc && rows > TILE_ROWS ? TILE_ROWS : rows };
}

size_t cc_prepare_pieces(const cc_params *p, cc_phase step, uint32_t nx, uint32_t rows)
{
    const piece size = piece_size(p, step, nx, rows);

    return (size_t)((nx + size.x1 - 1) / size.x1 * ((rows + size.y1 - 1) / size.y1));
}

/* Processes piece `number` of rows [y0, y0 + rows) in the current step. */
static void prepare_piece(const cc_prepare *p, uint32_t y0, uint32_t rows, size_t number,
                          void *scratch)
{
    const cc_params *const params = p->params;
    const wu_pixels *const in = p->current;
    const uint32_t middle = cc_middle_grey(in->bits);
    const piece size = piece_size(params, p->step, in->nx, rows);
    const int64_t in_row = (in->nx + size.x1 - 1) / size.x1;
    const int64_t end = (int64_t)y0 + rows < in->ny ? (int64_t)y0 + rows : in->ny;
    piece at = { .x0 = (int64_t)number % in_row * size.x1,
                 .y0 = y0 + (int64_t)number / in_row * size.y1 };

    at.x1 = at.x0 + size.x1 < in->nx ? at.x0 + size.x1 : in->nx;
    at.y1 = at.y0 + size.y1 < end ? at.y0 + size.y1 : end;
    if (at.y0 >= at.y1)
        return; /* the last band has fewer rows */
    switch (p->step) {
    case CC_SMOOTH: smooth_piece(p, p->input, p->current, &at, scratch); break;
    case CC_EXTREME: /* an opening takes minima, then maxima; for dark cells the reverse */
        disc_piece(p, p->current, NULL, &p->planes[2], params->bright, &at, scratch);
        break;
    case CC_GROUND:
        if (params->ground == CC_OPENING)
            disc_piece(p, &p->planes[2], p->input, p->current, !params->bright, &at, scratch);
        else
            mean_rows(p->input, p->current, params->radius, params->ground == CC_LINES, middle,
                      params->ratio, at.y0, at.y1, scratch);
        break;
    default: /* CC_LOCAL_MEAN: a mean, not lines; it is subtracted, not divided by */
        mean_rows(p->input, p->current, params->window / 2, false, middle, false, at.y0, at.y1,
                  scratch);
    }
}

/* Allocates a plane of the size and type of `like`. Returns false if there is not enough memory. */
static bool make_plane(const wu_pixels *like, wu_pixels *out)
{
    const size_t n = (size_t)like->nx * like->ny;

    *out = (wu_pixels){ .nx = like->nx, .ny = like->ny, .nz = 1, .bits = like->bits };
    if (like->u8 != NULL)
        out->u8 = os_alloc_zeroed(n);
    else
        out->u16 = os_alloc_zeroed(n * sizeof *out->u16);
    return out->u8 != NULL || out->u16 != NULL;
}

tc_status cc_prepare_begin(cc_prepare *p, const cc_params *params, const wu_pixels *pixels,
                           tc_err *err)
{
    const int steps =
        (params->smooth > 0) + params->background + (params->threshold_word == CC_LOCAL);
    bool good = true;

    *p = (cc_prepare){ .params = params, .current = pixels };
    if (params->smooth > 0)
        p->gauss = an_gauss_make(params->smooth);
    for (int i = 0; i < 3; i++)
        if (i < 2 ? i < steps : cc_has_step(params, CC_EXTREME))
            good = good && make_plane(pixels, &p->planes[i]);
    return good ? TC_OK : tc_no_memory(err, "the grey values");
}

tc_status cc_prepare_all(cc_prepare *p, const cc_params *params, const wu_pixels *pixels,
                         tc_err *err)
{
    TC_AUTOFREE void *const scratch = malloc(cc_prepare_scratch(params, pixels->nx));
    return_if_error(cc_prepare_begin(p, params, pixels, err));

    if (scratch == NULL)
        return tc_no_memory(err, "the grey values");
    for (cc_phase step = CC_SMOOTH; step < CC_HISTOGRAM; step++)
        if (cc_has_step(params, step)) {
            cc_prepare_step(p, step);
            for (size_t i = 0; i < cc_prepare_pieces(params, step, pixels->nx, pixels->ny); i++)
                prepare_piece(p, 0, pixels->ny, i, scratch);
        }
    return TC_OK;
}

void cc_prepare_end(cc_prepare *p)
{
    for (int i = 0; i < 3; i++) {
        free(p->planes[i].u8);
        free(p->planes[i].u16);
    }
    *p = (cc_prepare){ .current = NULL };
}

/* --- the phases ------------------------------------------------------------------------------ */

/* Processes a part of the current phase: a piece of a band of rows. */
static void prepare_part(cc_worker *w, size_t part, cc_scratch *s)
{
    const uint32_t rows = cc_band_rows(w->nx);
    const size_t pieces = cc_prepare_pieces(w->params, w->phase, w->nx, rows);

    prepare_piece(&w->prepare, (uint32_t)(part / pieces) * rows, rows, part % pieces, s->prepare);
}

const cc_work cc_preparing = { prepare_part, NULL };
