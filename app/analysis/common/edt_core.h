/*
 * The exact squared Euclidean distance transform along one line, for C and OpenCL C.
 *
 * A mask divides the pixels into two sides. The transform is separable: a pass along x computes for
 * every pixel the squared distance to the nearest pixel of the other side in its own line; a pass
 * along another axis then computes a line's values `out` from the values g of the pass before it:
 *   out(u) = min over i of g(i) + (u - i)^2,
 * the lower envelope of parabolas (A. Meijster, J. Roerdink, W. Hesselink, "A general algorithm for
 * computing distance transforms in linear time", 2000). All arithmetic is in integers, so every
 * implementation gives the same bits.
 *
 * Both sides are transformed at once. A line consists of runs of pixels that are on the same side.
 * The pixels next to the two ends of a run are on the other side. For a pixel of the run no pixel
 * beyond them is nearer. So each run is transformed by itself, with a parabola of height 0 beyond
 * either end.
 */
#ifndef AN_EDT_CORE_H
#define AN_EDT_CORE_H

#include "app/analysis/common/core.h"

/* The transform's value if there is no pixel of the other side, or if the squared distance is at
 * least this value. */
#define EDT_FAR 0xffffffffu

/* A parabola of the lower envelope: its apex is at (site, height), and from `start` on it is the
 * lowest one. */
typedef struct edt_parabola {
    tc_u32 site, height, start;
} edt_parabola;

/* The lower envelope over [first, end) of a line: `count` parabolas. They are stored by edt_store
 * and read by edt_stored, which C and OpenCL C implement differently; `last` is a copy of the last
 * one. */
typedef struct edt_envelope {
    tc_u32 first, end, count;
    edt_parabola last;
} edt_envelope;
#ifdef __OPENCL_VERSION__
typedef struct edt_line edt_line;
static inline void edt_store(const edt_line *line, const edt_envelope *e, tc_u32 k, edt_parabola p);
static inline edt_parabola edt_stored(const edt_line *line, const edt_envelope *e, tc_u32 k);
#else
typedef struct edt_line {
    edt_parabola *parabolas; /* [length + 2] */
} edt_line;
#define edt_store(line, e, k, p) ((line)->parabolas[k] = (p))
#define edt_stored(line, e, k) ((line)->parabolas[k])
#endif

/* The parabola's value at u, at most EDT_FAR. */
TC_INLINE tc_u32 edt_value(tc_u32 height, tc_u32 site, tc_u32 u)
{
    const tc_u64 d = u > site ? u - site : site - u;
    const tc_u64 v = d * d + height;

    return v < EDT_FAR ? (tc_u32)v : EDT_FAR;
}

/* Whether the parabola at site u, which is after p.site, hides parabola p of the envelope, that is,
 * whether it is already lower where p starts. height: the height of the apex at u. */
TC_INLINE tc_u32 edt_hides(tc_u32 u, tc_u32 height, edt_parabola p)
{
    const tc_u64 a = p.start > p.site ? p.start - p.site : p.site - p.start;
    const tc_u64 b = p.start > u ? p.start - u : u - p.start;

    return p.height + a * a > height + b * b ? 1u : 0u;
}

/* The first position x at which the parabola at site u is below p, the last parabola that it does
 * not hide: (x - u)^2 + height < (x - p.site)^2 + p.height. Solved for x, this is x > top / twice;
 * `top` is not negative. */
TC_INLINE tc_u64 edt_cross(edt_parabola p, tc_u32 u, tc_u32 height)
{
    const tc_u32 offset = u - p.site, twice = 2 * offset;
    const tc_u64 top = (tc_u64)offset * ((tc_u64)u + p.site) + height - p.height;

    /* A 32-bit division is several times faster on a GPU. */
    if (top >> 32 == 0)
        return (tc_u64)((tc_u32)top / twice) + 1;
    return top / twice + 1;
}

/* Adds the parabola of site u to the envelope. Sites must be added in ascending order. */
TC_INLINE void edt_push(const edt_line *line, edt_envelope *e, tc_u32 u, tc_u32 height)
{
    tc_u64 start = e->first;

    while (e->count > 0 && edt_hides(u, height, e->last)) {
        e->count--;
        if (e->count > 0)
            e->last = edt_stored(line, e, e->count - 1);
    }
    if (e->count > 0)
        start = edt_cross(e->last, u, height);
    if (start < e->end) {
        e->last.site = u;
        e->last.height = height;
        e->last.start = (tc_u32)start;
        edt_store(line, e, e->count, e->last);
        e->count++;
    }
}

/* Begins the envelope of the run [first, end). The pixel before the run, if there is one, is of the
 * other side and adds a parabola of height 0. */
TC_INLINE edt_envelope edt_begin(const edt_line *line, tc_u32 first, tc_u32 end)
{
    edt_envelope e = { first, end, 0, { 0, 0, 0 } };

    if (first > 0)
        edt_push(line, &e, first - 1, 0);
    return e;
}

/* Adds pixel u of the run. d2: its squared distance after the earlier passes. */
TC_INLINE void edt_add(const edt_line *line, edt_envelope *e, tc_u32 u, tc_u32 d2)
{
    if (d2 != EDT_FAR)
        edt_push(line, e, u, d2);
}

/* Ends the envelope of the run, which ends before pixel u. If the line of n pixels does not end
 * there, pixel u is of the other side and adds a parabola of height 0. */
TC_INLINE void edt_end(const edt_line *line, edt_envelope *e, tc_u32 u, tc_u32 n)
{
    e->end = u;
    if (u < n)
        edt_push(line, e, u, 0);
}

/* The result of the first pass for pixel x of the run [a,b) in a line of n pixels: the squared
 * distance to the nearer of the two pixels next to the run. */
TC_INLINE tc_u32 edt_run_distance(tc_u32 x, tc_u32 a, tc_u32 b, tc_u32 n)
{
    const tc_u32 left = a > 0 ? x - a + 1 : EDT_FAR, right = b < n ? b - x : EDT_FAR;
    const tc_u32 d = left < right ? left : right;

    /* A line has at most 65535 pixels, so d * d fits. */
    return d == EDT_FAR ? EDT_FAR : d * d;
}

#endif
