/* Detects parts of an image that a program drew (a frame around the field, letters, a scale bar),
 * and images that are label pictures. */
#include <math.h>
#include <stdlib.h>

#include "workunits/tools/report.h"

enum {
    MOST_ROWS = 1000
}; /* approximate limit of the rows, evenly spaced, in which a frame is sought */

/* A grey value counts as equal to the least or greatest value of the image if the two differ by at
 * most this share of the range. */
static const double near_part = 1.0 / 32;

static bool is_near(uint32_t value, uint32_t extreme, const wu_range *range)
{
    return fabs((double)value - extreme) <= near_part * (range->hi - range->lo);
}

/* Whether a frame of the value `extreme` surrounds the field of view: the corners and both ends of
 * rows have this value, and hardly any pixels between the ends have it. */
static bool has_frame_of(const wu_pixels *px, uint32_t extreme, const wu_range *range)
{
    const size_t nx = px->nx, ny = px->ny, corners[] = { 0, nx - 1, (ny - 1) * nx, ny * nx - 1 };
    uint64_t frame = 0;  /* number of pixels at the ends of rows that have the value */
    uint64_t inside = 0; /* number of pixels between these ends */
    uint64_t holes = 0;  /* number of pixels inside that have the value, too */
    for (int k = 0; k < 4; k++)
        if (!is_near(wu_grey_value(px, corners[k]), extreme, range))
            return false;
    for (size_t y = 0; y < ny; y += ny / MOST_ROWS + 1) {
        size_t from = 0, to = nx;
        while (from < to && is_near(wu_grey_value(px, y * nx + from), extreme, range))
            from++;
        while (to > from && is_near(wu_grey_value(px, y * nx + to - 1), extreme, range))
            to--;
        frame += nx - (to - from);
        inside += to - from;
        for (size_t x = from; x < to; x++)
            holes += is_near(wu_grey_value(px, y * nx + x), extreme, range);
        if (holes > (frame + inside) / 20 + nx) /* too many to satisfy the condition below */
            return false;
    }
    const double all = (double)(frame + inside);
    return (double)frame > 0.03 * all && (double)inside > 0.2 * all &&
           (double)holes < 0.05 * (double)inside;
}

const char *wu_find_frame(const wu_pixels *px, const wu_range *range)
{
    if (px->nz > 1 || range->lo >= range->hi)
        return NULL;
    return has_frame_of(px, range->lo, range)   ? "dark"
           : has_frame_of(px, range->hi, range) ? "bright"
                                                : NULL;
}

/* Looks at the pairs of neighbouring pixels around `at` in which exactly one pixel has the extreme
 * value (the greatest grey value if `bright`, else the least). The edges are one pixel wide if in
 * nearly all pairs the two values differ by more than half of the distance of the extreme value
 * from the median. No lens makes such edges, so they were drawn. A single pixel of the value, which
 * has only four pairs, is a hot pixel if in all of them the values differ by more than three
 * quarters of this distance, which the noise of few photons hardly does. */
bool wu_is_drawn(const wu_pixels *px, size_t z, const double at[2], double radius, bool bright,
                 const wu_range *range)
{
    const int64_t cy = llround(at[0]), cx = llround(at[1]), reach = (int64_t)fmin(radius, 20) + 2;
    const uint32_t extreme = bright ? range->hi : range->lo;
    const double from_median = fabs((double)extreme - range->median);
    uint32_t all = 0;               /* number of pairs */
    uint32_t hard = 0, hardest = 0; /* number of pairs that differ by more than half, and by more
                                       than three quarters, of from_median */
    if (from_median <= 0.2 * (range->hi - range->lo))
        return false;
    for (int64_t y = cy - reach; y <= cy + reach; y++)
        for (int64_t x = cx - reach; x <= cx + reach; x++) {
            static const int64_t step[4][2] = { { 0, 1 }, { 0, -1 }, { 1, 0 }, { -1, 0 } };
            if (y < 1 || x < 1 || y + 1 >= px->ny || x + 1 >= px->nx)
                continue;
            const size_t i = (z * px->ny + (size_t)y) * px->nx + (size_t)x;
            const uint32_t v = wu_grey_value(px, i);
            for (int d = 0; is_near(v, extreme, range) && d < 4; d++) {
                const int64_t other = (int64_t)i + step[d][0] * px->nx + step[d][1];
                const uint32_t w = wu_grey_value(px, (size_t)other);
                const double step_height = fabs((double)v - w);
                if (is_near(w, extreme, range))
                    continue;
                all++;
                hard += 2 * step_height > from_median;
                hardest += 4 * step_height > 3 * from_median;
            }
        }
    return all >= 8 ? hard > 0.8 * all : all >= 4 && hardest == all;
}

/* Whether one of the pixels [x0, x1) of a row has this value. row: z * ny + y. */
static bool has_value(const wu_pixels *px, size_t row, size_t x0, size_t x1, uint32_t value)
{
    for (size_t x = x0; x < x1; x++)
        if (wu_grey_value(px, row * px->nx + x) == value)
            return true;
    return false;
}

/* A label picture has 0 between patches of other values. Nearly every value occurs in one patch
 * only, and if there are only a few values, there are no large gaps between them. A patch is
 * counted at each run of pixels that has no pixel of the same value above it (in the row or slice
 * before), so that a convex patch is counted once. In a picture with too many patches, the search
 * ends after a few rows. */
tc_status wu_find_labels(const wu_pixels *px, const wu_range *range, bool *labels, tc_err *err)
{
    enum {
        /* Conditions for a label picture: */
        FEWEST = 3,      /* it has at least FEWEST different values besides 0; */
        TOPS = 3,        /* at most TOPS counted patches (tops of patches) for each value; */
        LEAST_AREA = 10, /* on average at least LEAST_AREA pixels for each value; */
        ZEROS = 50,      /* at least one 0 among ZEROS pixels; */
        MANY = 16,       /* and if it has fewer than MANY values, */
        GAPS = 4,        /* their range is less than GAPS times their number. */
        SLACK = 64       /* patches beyond TOPS for each value at which the search ends */
    };
    const size_t rows = (size_t)px->ny * px->nz, nx = px->nx;
    uint64_t patches = 0, inside = 0, values = 0;
    uint32_t least = range->hi;
    *labels = false;
    if (range->lo > 0)
        return TC_OK;
    TC_AUTOFREE bool *const seen = calloc((size_t)range->hi + 1, sizeof *seen);
    if (seen == NULL)
        return tc_no_memory(err, "labels");
    for (size_t row = 0; row < rows && patches <= TOPS * values + SLACK; row++)
        for (size_t x = 0, end; x < nx; x = end) {
            const uint32_t value = wu_grey_value(px, row * nx + x);
            for (end = x + 1; end < nx && wu_grey_value(px, row * nx + end) == value;)
                end++;
            if (value == 0)
                continue;
            inside += end - x;
            values += !seen[value];
            seen[value] = true;
            least = value < least ? value : least;
            patches += !(row % px->ny > 0 && has_value(px, row - 1, x, end, value)) &&
                       !(row >= px->ny && has_value(px, row - px->ny, x, end, value));
        }
    *labels = values >= FEWEST && patches <= TOPS * values && inside >= LEAST_AREA * values &&
              ZEROS * (rows * nx - inside) >= rows * nx &&
              (values >= MANY || range->hi - least < GAPS * values);
    return TC_OK;
}
