/* Makes pictures smaller for a page. */
#include "workunits/tools/shrink.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

enum {
    LEAST_SIDE = 160,
    MOST_SIDE = 1200, /* pixels of a picture on the page */
    COLUMNS = 16,     /* at once */
    MOST_ROWS = 257   /* of 8 bits, whose sums 16 bits hold */
};

typedef uint8_t column_bytes __attribute__((vector_size(COLUMNS), aligned(1)));
typedef uint16_t column_words __attribute__((vector_size(2 * COLUMNS)));
typedef uint32_t column_sums __attribute__((vector_size(4 * COLUMNS), aligned(4), may_alias));

/* As large as all pictures together leave room for. */
uint32_t wu_shrink_step(const wu_picture_info *info, size_t n)
{
    assert(n > 0);
    const double room = (double)WU_REPORT_BYTES / (double)(n * info->channels);
    const double side = fmin(fmax(sqrt(room), LEAST_SIDE), MOST_SIDE);
    return (uint32_t)ceil((info->nx > info->ny ? info->nx : info->ny) / side);
}

/* Sums of n columns of some rows; deep: 16 bits. */
static void add_rows(const uint8_t *rows, size_t n, uint32_t n_rows, bool deep, uint32_t *sums)
{
    const uint16_t *const words = (const void *)rows;
    size_t i = 0;
    for (; !deep && n_rows <= MOST_ROWS && n - i >= COLUMNS; i += COLUMNS) {
        column_words sum = { 0 };
        for (uint32_t k = 0; k < n_rows; k++)
            sum += __builtin_convertvector(*(const column_bytes *)(const void *)(rows + k * n + i),
                                           column_words);
        *(column_sums *)(void *)(sums + i) = __builtin_convertvector(sum, column_sums);
    }
    for (; i < n; i++) {
        sums[i] = 0;
        for (uint32_t k = 0; k < n_rows; k++)
            sums[i] += deep ? words[k * n + i] : rows[k * n + i];
    }
}

/* The means of `columns` pixels each, the last of fewer. */
static void take_means(const uint32_t *sums, uint32_t nx, unsigned channels, uint32_t step,
                       uint32_t rows, uint16_t *out)
{
    /* 1 / n in 2^-40, rounded up: with sum * n below 2^40 the excess of the product is less than
     * 1 / n, and cannot reach the next whole number. */
    const uint64_t per_pixel = ((uint64_t)1 << 40) / ((uint64_t)step * rows) + 1;
    for (uint32_t x = 0; x < nx; x += step) {
        const uint32_t columns = nx - x < step ? nx - x : step, n = columns * rows;
        for (unsigned c = 0; c < channels; c++) {
            const uint32_t *const from = sums + (size_t)x * channels + c;
            uint64_t sum = 0;
            for (uint32_t k = 0; k < columns; k++)
                sum += from[(size_t)k * channels];
            *out++ =
                (uint16_t)(columns == step && sum * n < (uint64_t)1 << 40 ? sum * per_pixel >> 40
                                                                          : sum / n);
        }
    }
}

tc_status wu_shrink(const wu_picture_info *info, uint32_t step, const void *samples,
                    const char *shown, uint16_t **out, tc_err *err)
{
    assert(step >= 1 && (info->bits == 8 || info->bits == 16));
    const size_t wide = (size_t)info->nx * info->channels, size = info->bits / 8,
                 row = (size_t)((info->nx + step - 1) / step) * info->channels;
    const uint32_t sy = (info->ny + step - 1) / step;
    uint32_t *const sums = malloc(wide * sizeof *sums); /* of at most 65,535 rows */
    *out = malloc(row * sy * sizeof **out);
    for (uint32_t y = 0; sums != NULL && *out != NULL && y < sy; y++) {
        const uint32_t from = y * step, left = info->ny - from, rows = left < step ? left : step;
        add_rows((const uint8_t *)samples + from * wide * size, wide, rows, size == 2, sums);
        take_means(sums, info->nx, info->channels, step, rows, *out + y * row);
    }
    free(sums);
    return sums != NULL && *out != NULL ? TC_OK : tc_no_memory(err, shown);
}

void wu_seen_free(wu_seen *seen, size_t n)
{
    for (size_t i = 0; seen != NULL && i < n; i++)
        free(seen[i].small);
    free(seen);
}
