/*
 * cellcount: the greatest value within the disc around each pixel of a tile. prepare.c, which
 * defines the types used here, includes this file once for each type of grey value. It must define
 * DISC_VALUE, the type, and DISC_NAME, which appends the type to a function's name; both are
 * undefined again at the end.
 *
 * A disc is the union of its rows. The maximum of a row is the greater of the maxima of two
 * overlapping runs of 2^power pixels, which together cover the row. The maxima of runs of 2^power
 * pixels, for all powers, are computed once for each pixel of the tile (disc_tile.maxima).
 *
 * Compilers make vector code of the loops over BLOCK values. These loops may pass the end of a row,
 * into the padding of tile_stride.
 */

/* The row of t->maxima for row y of the picture: element x is the greatest of the 2^power pixels
 * that begin at column x of the tile, margin included. */
static DISC_VALUE *DISC_NAME(maxima)(const disc_tile *t, int64_t y, int power)
{
    return (DISC_VALUE *)t->maxima +
           ((size_t)(y - t->at.y0 + t->radius) * (size_t)t->powers + (size_t)power) * t->stride;
}

/* Returns a pointer to the pixel with index `at`. */
static const DISC_VALUE *DISC_NAME(row)(const wu_pixels *px, size_t at)
{
    return (const DISC_VALUE *)(px->u8 != NULL ? (const void *)px->u8 : px->u16) + at;
}

/* Fills row y of t->maxima for all powers. Pixels beyond the picture are 0, so they are never
 * greater than others. */
static void DISC_NAME(read_row)(const disc_tile *t, int64_t y)
{
    const int64_t from = t->at.x0 - t->radius, lo = from > 0 ? from : 0;
    const int64_t hi = t->at.x1 + t->radius < t->in->nx ? t->at.x1 + t->radius : t->in->nx;
    DISC_VALUE *row = DISC_NAME(maxima)(t, y, 0);

    memset(row, 0, t->stride * sizeof *row);
    if (y >= 0 && y < t->in->ny) {
        const size_t before = (size_t)(lo - from), n = (size_t)(hi - lo);

        memcpy(row + before, DISC_NAME(row)(t->in, (size_t)(y * t->in->nx + lo)), n * sizeof *row);
        for (size_t x = 0; t->flip != 0 && x < t->stride; x += BLOCK)
            for (size_t k = 0; k < BLOCK; k++)
                row[x + k] ^= (DISC_VALUE)t->flip;
        memset(row, 0, before * sizeof *row);
        memset(row + before + n, 0, (t->stride - before - n) * sizeof *row);
    }
    for (int power = 1; power < t->powers; power++) {
        const size_t pixels = (size_t)1 << power;
        const DISC_VALUE *const other = row + pixels / 2;
        DISC_VALUE *const next = DISC_NAME(maxima)(t, y, power);

        for (size_t x = 0; x + pixels <= t->columns; x += BLOCK) {
            DISC_VALUE most[BLOCK]; /* compilers do not vectorise a loop that writes to `next` */

            for (size_t k = 0; k < BLOCK; k++)
                most[k] = row[x + k] > other[x + k] ? row[x + k] : other[x + k];
            memcpy(next + x, most, sizeof most);
        }
        row = next;
    }
}

/* Sets most[k] to the greatest value within the disc around pixel x + k of row y; x is counted from
 * the tile's first column. */
static void DISC_NAME(disc_block)(const disc_tile *t, int64_t y, size_t x, DISC_VALUE most[BLOCK])
{
    memset(most, 0, BLOCK * sizeof *most);
    for (int64_t dy = -t->radius; dy <= t->radius; dy++) {
        const disc_line *const line = &t->lines[dy < 0 ? -dy : dy];
        const DISC_VALUE *const a = DISC_NAME(maxima)(t, y + dy, line->power) + line->first + x;
        const DISC_VALUE *const b = a + line->second;

        for (size_t k = 0; k < BLOCK; k++) {
            const DISC_VALUE more = a[k] > b[k] ? a[k] : b[k];

            most[k] = more > most[k] ? more : most[k];
        }
    }
}

/* Writes into `to`, for each pixel of the tile, the greatest value within the disc around it (with
 * t->flip, the least). If `from` is not NULL, this value is the background, and the pixel's value
 * in `from` is written with this background removed. */
static void DISC_NAME(process_tile)(const cc_prepare *p, const disc_tile *t, const wu_pixels *from,
                                    const wu_pixels *to)
{
    const cc_params *const params = p->params;
    const uint32_t greatest = greatest_pixel(t->in);
    /* The grey value that the background becomes. */
    const uint32_t level =
        params->bright ? params->ratio ? cc_middle_grey(t->in->bits) : 0 : greatest;
    const size_t n = (size_t)(t->at.x1 - t->at.x0);

    for (int64_t y = t->at.y0 - t->radius; y < t->at.y1 + t->radius; y++)
        DISC_NAME(read_row)(t, y);
    for (int64_t y = t->at.y0; y < t->at.y1; y++)
        for (size_t x = 0; x < n; x += BLOCK) {
            const size_t first = (size_t)(y * t->in->nx + t->at.x0) + x,
                         m = n - x < BLOCK ? n - x : BLOCK;
            const DISC_VALUE *const values = from != NULL ? DISC_NAME(row)(from, first) : NULL;
            DISC_VALUE *const out = (DISC_VALUE *)(uintptr_t)DISC_NAME(row)(to, first);
            DISC_VALUE most[BLOCK];

            DISC_NAME(disc_block)(t, y, x, most);
            for (size_t k = 0; k < BLOCK; k++)
                most[k] ^= (DISC_VALUE)t->flip;
            for (size_t k = 0; values != NULL && k < m; k++)
                most[k] = (DISC_VALUE)cc_remove_background(values[k], most[k], level, params->ratio,
                                                           greatest);
            memcpy(out, most, m * sizeof *out);
        }
}

#undef DISC_VALUE
#undef DISC_NAME
