/*
 * The kernels of cellcount.cl that prepare grey values for the threshold, by the same steps as
 * app/analysis/cellcount/prepare.c: Gaussian filter, then subtraction of the background. Each step
 * reads the grey values from one plane and writes them to another; `sums` holds 32-bit intermediate
 * values, one for each pixel. A launch processes the rows from first_row on. Kernels whose
 * work-items process several rows each also get end_row, the row after the launch's last row.
 */
#ifndef OCL_CELLCOUNT_PREPARE_H
#define OCL_CELLCOUNT_PREPARE_H

#include "opencl/kernels/blur.h"

/* `#pragma unroll 1` is used for loops that contain 64-bit divisions, which take long to compile if
 * the loop is unrolled. */

/* --- smooth ---------------------------------------------------------------------------------- */

/* Sets `sums` to the values of `in` filtered along x, with CC_GREY_BITS fraction bits. A work-item
 * computes a pixel. weight: [radius + 1], the weight at each distance. */
__kernel GROUP_ATTRIBUTE void cc_smooth_x(__global const PIXEL *in, __constant uint *weight,
                                          int radius, __global uint *sums, int nx, int first_row)
{
    const int x = (int)get_global_id(0), i = ((int)get_global_id(1) + first_row) * nx + x;

    /* Pixel i is value number x of a line of nx adjacent values (step 1). */
    if (x < nx)
        sums[i] =
            rounded(blurred_pixels(in, weight, radius, i, x, nx, 1), CC_WEIGHT_BITS - CC_GREY_BITS);
}

/* Sets `out` to the values of cc_smooth_x filtered along y, rounded to whole grey values. A
 * work-item computes a pixel. */
__kernel GROUP_ATTRIBUTE void cc_smooth_y(__global const uint *sums, __constant uint *weight,
                                          int radius, __global PIXEL *out, int nx, int ny,
                                          int first_row)
{
    const int x = (int)get_global_id(0), y = (int)get_global_id(1) + first_row, i = y * nx + x;

    if (x < nx)
        out[i] = (PIXEL)((rounded(blurred(sums, weight, radius, i, y, ny, nx), CC_WEIGHT_BITS) +
                          (1 << (CC_GREY_BITS - 1))) >>
                         CC_GREY_BITS);
}

/* --- the mean of the surroundings ------------------------------------------------------------ */

/* Fits a straight line to the n values within `radius` of position `at` in a row or column of
 * `length` values, and returns n times the line's value at `at`. If `at` is in the middle of the n
 * values, this is the sum of the values. Otherwise an end of the row or column is within the
 * radius, and cc_line_rise returns the difference from the sum. sum: the sum of the values. moment:
 * the sum of value times position. */
long cc_line_sum(int at, int radius, int length, long sum, long moment)
{
    const int first = TC_MAX(0, at - radius), n = TC_MIN(length, at + radius + 1) - first,
              u = 2 * (at - first) - n + 1; /* twice the distance from the middle to `at` */

    /* The moment becomes the sum of each value times twice its distance from the middle, which is
     * at (2 first + n - 1) / 2. */
    return u == 0 ? sum : sum + cc_line_rise(2 * moment - (2 * first + n - 1) * sum, u, n);
}

/* Sets `sums`, for each pixel, to the sum of the values of the pixel's column in the 2 radius + 1
 * rows around it, or, if `fits_lines` is set, to the result of cc_line_sum. A work-item computes
 * CC_COLUMN_PIXELS rows of a column. */
__kernel GROUP_ATTRIBUTE void cc_sums(__global const PIXEL *in, __global int *sums, int radius,
                                      int fits_lines, int nx, int ny, int first_row, int end_row)
{
    const int x = (int)get_global_id(0), y0 = first_row + (int)get_global_id(1) * CC_COLUMN_PIXELS;
    int sum = 0;
    long moment = 0;

    if (x >= nx)
        return;
    for (int y = TC_MAX(0, y0 - radius); y < TC_MIN(ny, y0 + radius); y++) {
        sum += in[y * nx + x];
        moment += (long)y * in[y * nx + x];
    }
#pragma unroll 1
    for (int y = y0; y < TC_MIN(end_row, y0 + CC_COLUMN_PIXELS); y++) {
        const int entering = y + radius < ny ? in[(y + radius) * nx + x] : 0;
        const int leaving = y >= radius ? in[(y - radius) * nx + x] : 0;

        sum += entering;
        moment += (long)(y + radius) * entering;
        sums[y * nx + x] = fits_lines ? (int)cc_line_sum(y, radius, ny, sum, moment) : sum;
        sum -= leaving;
        moment -= (long)(y - radius) * leaving;
    }
}

/* Removes from each value (by cc_remove_background) the mean of the values in the square of side
 * 2 radius + 1 around its pixel or, with `fits_lines`, the value of the fitted lines. middle,
 * ratio: the grey value that replaces the background, and the way, as `level` and `ratio` of
 * cc_remove_background. sums: the result of cc_sums. A work-item computes CC_TILE pixels of a row.
 */
__kernel GROUP_ATTRIBUTE void cc_mean(__global const PIXEL *in, __global const int *sums,
                                      __global PIXEL *out, int radius, int fits_lines, uint middle,
                                      int ratio, int nx, int ny, int first_row)
{
    const int x0 = (int)get_global_id(0) * CC_TILE, y = (int)get_global_id(1) + first_row;
    const int rows = TC_MIN(ny, y + radius + 1) - TC_MAX(0, y - radius);
    long sum = 0, moment = 0;

    if (x0 >= nx)
        return;
    for (int x = TC_MAX(0, x0 - radius); x < TC_MIN(nx, x0 + radius); x++) {
        sum += sums[y * nx + x];
        moment += (long)x * sums[y * nx + x];
    }
#pragma unroll 1
    for (int x = x0; x < TC_MIN(nx, x0 + CC_TILE); x++) {
        const int n = rows * (TC_MIN(nx, x + radius + 1) - TC_MAX(0, x - radius));
        const int entering = x + radius < nx ? sums[y * nx + x + radius] : 0;
        const int leaving = x >= radius ? sums[y * nx + x - radius] : 0;
        uint background;

        sum += entering;
        moment += (long)(x + radius) * entering;
        background = cc_background_at(fits_lines ? cc_line_sum(x, radius, nx, sum, moment) : sum, n,
                                      (PIXEL)~0);
        out[y * nx + x] =
            (PIXEL)cc_remove_background(in[y * nx + x], background, middle, ratio, (PIXEL)~0);
        sum -= leaving;
        moment -= (long)(x - radius) * leaving;
    }
}

#if KERNELS & CC_KERNELS_DISC
/* --- the greatest or least value within a disc ----------------------------------------------- */

/*
 * Sets `out` to the greatest value within the disc around each pixel if flip is 0, or to the least
 * value if flip has all bits of a value set: values are combined with flip by exclusive or, before
 * and after. If removes_background is set, this extreme value is the background, and `out` becomes
 * the value of `from` with the background removed (by cc_remove_background; middle, ratio: as for
 * cc_mean). disc[|dy|] describes the disc's row dy, of 2 w + 1 pixels: bits 0 to 15 are w, the bits
 * above are the greatest k with 2^k <= 2 w + 1.
 *
 * A work-group computes GROUP columns of CC_DISC_ROWS rows. It reads the rows of the picture that
 * the discs of these pixels reach, one after another. For each row it computes in local memory, for
 * each pixel, the maximum of 2^power pixels: this pixel and those to its right, for power 0, 1, 2,
 * and so on. The maximum over a row of a disc is the greater of two such maxima, which overlap: one
 * begins at the left end of the disc's row, the other ends at its right end.
 */
__kernel GROUP_ATTRIBUTE void cc_disc(__global const PIXEL *in, __global const PIXEL *from,
                                      __global PIXEL *out, __constant uint *disc, int radius,
                                      uint flip, int removes_background, uint middle, int ratio,
                                      int nx, int ny, int first_row, int end_row)
{
    __local PIXEL line[2][GROUP + 2 * CC_MOST_RADIUS]; /* maxima of one power and of the next */
    const int local_id = (int)get_local_id(0), x = (int)get_global_id(0),
              left = x - local_id - radius, width = GROUP + 2 * radius;
    const int y0 = first_row + (int)get_global_id(1) * CC_DISC_ROWS;
    const int top = TC_MAX(0, y0 - radius),
              bottom = TC_MIN(ny, TC_MIN(end_row, y0 + CC_DISC_ROWS) + radius);
    PIXEL most[CC_DISC_ROWS];

    for (int k = 0; k < CC_DISC_ROWS; k++)
        most[k] = 0;
    for (int y = top; y < bottom; y++) {
        const int widest = (int)(disc[0] >> 16);
        int line_index = 0;

        /* 0 for pixels outside the picture does not change a maximum. */
        for (int c = local_id; c < width; c += GROUP)
            line[0][c] = left + c >= 0 && left + c < nx ? (PIXEL)(in[y * nx + left + c] ^ flip) : 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int power = 0; power <= widest; power++) {
            for (int k = 0; k < CC_DISC_ROWS; k++) {
                const int distance = y - y0 - k, dy = TC_MAX(distance, -distance),
                          half_width = dy <= radius ? (int)(disc[dy] & 0xffff) : 0;

                if (dy <= radius && (int)(disc[dy] >> 16) == power) {
                    const int a = local_id + radius - half_width,
                              b = local_id + radius + half_width + 1 - (1 << power);
                    const PIXEL left_part = line[line_index][a], right_part = line[line_index][b],
                                both = TC_MAX(left_part, right_part);

                    most[k] = TC_MAX(most[k], both);
                }
            }
            if (power < widest)
                for (int c = local_id; c < width; c += GROUP) {
                    const PIXEL here = line[line_index][c],
                                further = line[line_index][TC_MIN(c + (1 << power), width - 1)];

                    line[1 - line_index][c] = TC_MAX(here, further);
                }
            barrier(CLK_LOCAL_MEM_FENCE);
            line_index = 1 - line_index;
        }
    }
    for (int k = 0; k < CC_DISC_ROWS; k++)
        if (x < nx && y0 + k < end_row)
            out[(y0 + k) * nx + x] = (PIXEL)(most[k] ^ flip);
    if (!removes_background || x >= nx)
        return;
#pragma unroll 1
    for (int y = y0; y < TC_MIN(end_row, y0 + CC_DISC_ROWS); y++) {
        const int i = y * nx + x;

        out[i] = (PIXEL)cc_remove_background(from[i], out[i], middle, ratio, (PIXEL)~0);
    }
}
#endif /* CC_KERNELS_DISC */

#endif
