/* Scales pictures down for the report's HTML page, by the mean of squares of pixels. */
#include "workunits/tools/shrink.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LEAST_SIDE = 160, /* the fewest pixels of the longer side of a picture on the page */
    MOST_SIDE = 1200, /* the most pixels of the longer side of a picture on the page */
    COLUMNS = 16,     /* number of samples in a vector */
    AT_ONCE =
        256 * COLUMNS, /* the most samples of a row whose sums stay in the processor's cache */
    MOST_ROWS = 257 /* the most samples of 8 bits whose sum fits into 16 bits: 257 * 255 = 65535 */
};

/* Vectors of COLUMNS samples of 8 bits, and of their sums. */
typedef uint8_t column_bytes __attribute__((vector_size(COLUMNS), aligned(1)));
typedef uint16_t column_words __attribute__((vector_size(2 * COLUMNS), aligned(2), may_alias));

/* Returns the smallest step with which n pictures of this size fit into WU_REPORT_BYTES. Keeps the
 * longer side of the reduced picture between LEAST_SIDE and MOST_SIDE. */
uint32_t wu_shrink_step(const wu_picture_info *info, size_t n)
{
    assert(n > 0);
    const double room = (double)WU_REPORT_BYTES / (double)(n * info->channels);
    const double side = fmin(fmax(sqrt(room), LEAST_SIDE), MOST_SIDE);
    return (uint32_t)ceil((info->nx > info->ny ? info->nx : info->ny) / side);
}

/* Sets words[i] to the sum of column i of n_rows rows, at most MOST_ROWS, of n samples of 8 bits.
 * n: a multiple of COLUMNS. row: the samples of a whole row. */
static void add_bytes(const uint8_t *rows, size_t row, size_t n, uint32_t n_rows, uint16_t *words)
{
    memset(words, 0, n * sizeof *words);
    for (uint32_t k = 0; k < n_rows; k++, rows += row)
        for (size_t i = 0; i < n; i += COLUMNS)
            *(column_words *)(void *)(words + i) += __builtin_convertvector(
                *(const column_bytes *)(const void *)(rows + i), column_words);
}

/* Sets sums[i] to the sum of column i of n_rows rows of n samples. deep: whether samples have 16
 * bits, not 8. */
static void add_rows(const uint8_t *rows, size_t n, uint32_t n_rows, bool deep, uint32_t *sums)
{
    const uint16_t *const samples = (const void *)rows;
    uint16_t words[AT_ONCE];
    size_t i = 0;
    while (!deep && n_rows <= MOST_ROWS && n - i >= COLUMNS) {
        const size_t whole = (n - i) / COLUMNS * COLUMNS, part = whole < AT_ONCE ? whole : AT_ONCE;
        add_bytes(rows + i, n, part, n_rows, words);
        for (size_t k = 0; k < part; k++)
            sums[i + k] = words[k];
        i += part;
    }
    for (; i < n; i++) {
        sums[i] = 0;
        for (uint32_t k = 0; k < n_rows; k++)
            sums[i] += deep ? samples[k * n + i] : rows[k * n + i];
    }
}

/* Sets sum[c] to the sum of channel c of n pixels. */
static inline void add_pixels(const uint32_t *pixels, uint32_t n, unsigned channels,
                              uint64_t sum[3])
{
    uint64_t red = 0, green = 0, blue = 0;
    if (channels == 1)
        for (uint32_t k = 0; k < n; k++)
            red += pixels[k];
    else
        for (uint32_t k = 0; k < n; k++) {
            red += pixels[3 * (size_t)k];
            green += pixels[3 * (size_t)k + 1];
            blue += pixels[3 * (size_t)k + 2];
        }
    sum[0] = red;
    sum[1] = green;
    sum[2] = blue;
}

/* Computes a row of means. Each mean is that of a square: `step`
 * pixels along x (the last one: the remaining pixels) and `rows` pixels along y. sums: the sum of
 * each column over these rows. deep: whether the samples of `out` have 16 bits, not 8. */
static void compute_means(const uint32_t *sums, uint32_t nx, unsigned channels, uint32_t step,
                          uint32_t rows, bool deep, void *out)
{
    /* 1 / n as a fixed-point number in units of 2^-40, rounded up, with n = step * rows. If
     * sum * n < 2^40, the product is too large by less than 1 / n, so its whole part is exact. */
    const uint64_t per_pixel = ((uint64_t)1 << 40) / ((uint64_t)step * rows) + 1;
    size_t at = 0;
    for (uint32_t x = 0; x < nx; x += step) {
        const uint32_t columns = nx - x < step ? nx - x : step, n = columns * rows;
        uint64_t sum[3];
        add_pixels(sums + (size_t)x * channels, columns, channels, sum);
        for (unsigned c = 0; c < channels; c++) {
            const uint64_t mean = columns == step && sum[c] * n < (uint64_t)1 << 40
                                      ? sum[c] * per_pixel >> 40
                                      : sum[c] / n;
            if (deep)
                ((uint16_t *)out)[at++] = (uint16_t)mean;
            else
                ((uint8_t *)out)[at++] = (uint8_t)mean;
        }
    }
}

void wu_shrink_rows(const wu_picture_info *info, uint32_t step, uint32_t rows, const void *samples,
                    uint32_t *sums, void *out)
{
    assert(step >= 1 && rows >= 1 && rows <= step && (info->bits == 8 || info->bits == 16));
    const bool deep = info->bits == 16;
    add_rows(samples, (size_t)info->nx * info->channels, rows, deep, sums);
    compute_means(sums, info->nx, info->channels, step, rows, deep, out);
}

tc_status wu_shrink_picture(const wu_picture_info *info, uint32_t step, const void *samples,
                            const char *shown, void **out, tc_err *err)
{
    const size_t row_samples = (size_t)info->nx * info->channels, size = info->bits / 8,
                 row = (size_t)((info->nx + step - 1) / step) * info->channels;
    const uint32_t sy = (info->ny + step - 1) / step;
    /* The sums do not overflow, since at most 65,535 rows of samples up to 65,535 are added. */
    uint32_t *const sums = malloc(row_samples * sizeof *sums);
    *out = malloc(row * sy * size);
    for (uint32_t y = 0; sums != NULL && *out != NULL && y < sy; y++) {
        const uint32_t from = y * step, left = info->ny - from;
        wu_shrink_rows(info, step, left < step ? left : step,
                       (const uint8_t *)samples + from * row_samples * size, sums,
                       (uint8_t *)*out + y * row * size);
    }
    free(sums);
    return sums != NULL && *out != NULL ? TC_OK : tc_no_memory(err, shown);
}

void wu_thumbnails_free(wu_thumbnail *thumbnails, size_t n)
{
    for (size_t i = 0; thumbnails != NULL && i < n; i++)
        free(thumbnails[i].small);
    free(thumbnails);
}
