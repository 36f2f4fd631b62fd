/* cellcount: the arithmetic of pixels and of maxima, compiled as C and as OpenCL C. */
#ifndef AN_CELLCOUNT_CORE_H
#define AN_CELLCOUNT_CORE_H

#include "app/analysis/common/core.h"

/* Returns a word with a bit for each of n pixels (1 <= n <= 64), set if the pixel belongs to a
 * cell. below: a bit for each pixel, set if its grey value is below the threshold. */
TC_INLINE tc_u64 cc_cell_bits(tc_u64 below, tc_u32 n, int bright)
{
    return (bright ? ~below : below) & ~(tc_u64)0 >> (64 - n);
}

/* Whether a region with this half-open box touches the border of the picture of nx x ny pixels. */
TC_INLINE int cc_at_border(tc_u32 x0, tc_u32 y0, tc_u32 x1, tc_u32 y1, tc_u32 nx, tc_u32 ny)
{
    return x0 == 0 || y0 == 0 || x1 == nx || y1 == ny;
}

/* --- grey values ----------------------------------------------------------------------------- */

/* Returns grey value v with the background, which has the value `ground` at this pixel, replaced by
 * `level`: level + v - ground, or with `ratio` level * v / ground, rounded; in both cases clamped
 * to 0 to `most`. */
TC_INLINE tc_u32 cc_remove_background(tc_u32 v, tc_u32 ground, tc_u32 level, int ratio, tc_u32 most)
{
    if (ratio) {
        const tc_u64 q = ((tc_u64)v * level + ground / 2) / (ground > 0 ? ground : 1);

        return q < most ? (tc_u32)q : most;
    }
    return v + level < ground ? 0 : v + level - ground < most ? v + level - ground : most;
}

/* Fits a line to n consecutive values by least squares. Returns n times the difference, rounded,
 * between the line's value at distance u / 2 from the middle of the values and their mean. moment:
 * the sum of each value times twice its distance from the middle. */
TC_INLINE tc_i64 cc_line_rise(tc_i64 moment, tc_i64 u, tc_i64 n)
{
    const tc_i64 denominator = n > 1 ? n * n - 1 : 1, rise = 3 * u * moment + denominator / 2;

    return rise / denominator - (rise % denominator < 0);
}

/* Returns the background at a pixel: sum / n, rounded, clamped to 0 to `most`. sum: the sum of the
 * n values around the pixel, or n times the value of fitted lines, which may be below 0 or above
 * `most`. */
TC_INLINE tc_u32 cc_background_at(tc_i64 sum, tc_i64 n, tc_u32 most)
{
    const tc_i64 mean = (sum + n / 2) / n;

    return sum < 0 ? 0 : mean < most ? (tc_u32)mean : most;
}

/* --- split ----------------------------------------------------------------------------------- */

/* Whether a maximum of the distance map, next to a higher maximum, is a cell of its own. maximum,
 * saddle: the squared distances, saddle <= maximum, at the maximum and at the saddle between the
 * two maxima. The distance at the maximum must exceed that at the saddle by 3/4 pixel, as the pixel
 * grid alone causes smaller differences, and by about a twentieth (in squares: a tenth), as rough
 * outlines of large cells cause smaller differences, too.
 *     sqrt(maximum) - sqrt(saddle) >= 3/4  <=>  16 (maximum - saddle) - 9 >= 24 sqrt(saddle) */
TC_INLINE int cc_is_separate_maximum(tc_u32 maximum, tc_u32 saddle)
{
    const tc_u64 rise = (tc_u64)maximum - saddle;

    if (rise == 0 || (tc_u64)saddle * 10 >= (tc_u64)maximum * 9)
        return 0;
    /* 24 sqrt(saddle) is below 2^21, so a rise of 2^20 is enough, and squares stay below 2^64. */
    return rise >= 1u << 20 || (16 * rise - 9) * (16 * rise - 9) >= 576 * (tc_u64)saddle;
}

#endif
