/*
 * The exact squared Euclidean distance transform along one line, written once
 * for C and OpenCL C.
 *
 * The transform is separable: after a pass along x every pixel knows the
 * squared distance to the nearest pixel of the other side in its own line; a
 * pass along another axis combines lines by
 *   out(u) = min over i of g(i) + (u - i)^2,
 * the lower envelope of parabolas (A. Meijster, J. Roerdink, W. Hesselink, "A
 * general algorithm for computing distance transforms in linear time", 2000).
 * All of it is in integers, so every way to compute it gives the same bits.
 *
 * Two sides at once: the pixels of a line form runs of one side. What lies
 * beyond the first pixel of the other side is never nearer than that pixel, so
 * each run is transformed by itself, with a parabola of height 0 at either end.
 */
#ifndef AN_EDT_CORE_H
#define AN_EDT_CORE_H

#include "app/analysis/common/core.h"

/* No pixel of the other side, or none whose squared distance is below this. */
#define EDT_FAR 0xffffffffu

/* A parabola of the envelope: apex at (site, height), lowest from start on. */
typedef struct edt_piece {
    tc_u32 site, height, start;
} edt_piece;

/* min(height + (u - site)^2, EDT_FAR) */
TC_INLINE tc_u32 edt_value(tc_u32 height, tc_u32 site, tc_u32 u)
{
    const tc_u64 d = u > site ? u - site : site - u;
    const tc_u64 v = d * d + height;

    return v < EDT_FAR ? (tc_u32)v : EDT_FAR;
}

/* Whether the parabola of a later site u hides a piece: at the piece's start it
 * is lower already. */
TC_INLINE tc_u32 edt_hides(tc_u32 u, tc_u32 height, edt_piece piece)
{
    const tc_u64 a = piece.start > piece.site ? piece.start - piece.site : piece.site - piece.start;
    const tc_u64 b = piece.start > u ? piece.start - u : u - piece.start;

    return piece.height + a * a > height + b * b ? 1u : 0u;
}

/* First place where the parabola of a later site u is below that of the last
 * piece that it does not hide: where (x-u)^2 + height < (x-i)^2 + g, i and g
 * the piece's. The numerator is not negative. */
TC_INLINE tc_u64 edt_cross(edt_piece piece, tc_u32 u, tc_u32 height)
{
    const tc_u32 apart = u - piece.site, twice = 2 * apart;
    const tc_u64 top = (tc_u64)apart * ((tc_u64)u + piece.site) + height - piece.height;

    /* The short division is several times faster on a GPU. */
    if (top >> 32 == 0)
        return (tc_u64)((tc_u32)top / twice) + 1;
    return top / twice + 1;
}

/* Adds the parabola of site u to the envelope of `count` pieces over [first,
 * end); sites come in ascending order. Returns the new count. */
TC_INLINE tc_u32 edt_push(edt_piece *pieces, tc_u32 count, tc_u32 u, tc_u32 height, tc_u32 first, tc_u32 end)
{
    tc_u64 start = first;

    while (count > 0 && edt_hides(u, height, pieces[count - 1]))
        count--;
    if (count > 0)
        start = edt_cross(pieces[count - 1], u, height);
    if (start < end) {
        pieces[count].site = u;
        pieces[count].height = height;
        pieces[count].start = (tc_u32)start;
        count++;
    }
    return count;
}

/* The squared distance to the nearer end of the run [a,b) of a line of n
 * pixels: what the first pass gives. */
TC_INLINE tc_u32 edt_in_run(tc_u32 x, tc_u32 a, tc_u32 b, tc_u32 n)
{
    const tc_u32 left = a > 0 ? x - a + 1 : EDT_FAR, right = b < n ? b - x : EDT_FAR;
    const tc_u32 d = left < right ? left : right;

    /* A side is at most 65535, so d * d fits. */
    return d == EDT_FAR ? EDT_FAR : d * d;
}

#endif
