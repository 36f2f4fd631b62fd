/*
 * The exact squared Euclidean distance transform on a device; edt_core.h says what it
 * computes. Along x each row has its sides as bits in local memory; along y and z a
 * work-item has a line, or the runs that begin in a stretch of it, neighbours along x side
 * by side so that they read and write whole lines of memory, and goes along it twice.
 *
 * The includer has said before: EDT_SIDE(l, i), which side voxel i of the picture is of
 * (l: its line), and EDT_WANTED(inside), whether those of a side are to have distances
 * (others have 0).
 */
#ifndef OCL_EDT_H
#define OCL_EDT_H

#include "app/analysis/common/edt_core.h"

/* The run of equal bits that bit x of a row is in, [a, b). flip: all ones if bit x is
 * set. */
static inline tc_u32 edt_run_begin(__local const tc_u32 *bits, tc_u32 flip, tc_u32 x)
{
    tc_u32 w = x / 32, found = (bits[w] ^ flip) & ((1u << x % 32) - 1u);

    while (found == 0 && w > 0)
        found = bits[--w] ^ flip;
    return found != 0 ? w * 32 + 32u - (tc_u32)clz(found) : 0u;
}

static inline tc_u32 edt_run_end(__local const tc_u32 *bits, tc_u32 flip, tc_u32 x, tc_u32 nx)
{
    const tc_u32 words = (nx + 31) / 32;
    tc_u32 w = x / 32, found = (bits[w] ^ flip) & ~((2u << x % 32) - 1u);

    while (found == 0 && w + 1 < words)
        found = bits[++w] ^ flip;
    /* The lowest bit; behind the row's end there is nothing. */
    return found != 0 ? TC_MIN(w * 32 + 31u - (tc_u32)clz(found & (0u - found)), nx) : nx;
}

/* What the pass along x gives a voxel. */
static inline tc_u32 edt_along_x(__local const tc_u32 *bits, tc_u32 x, tc_u32 nx)
{
    const tc_u32 inside = bits[x / 32] >> x % 32 & 1u, flip = inside ? 0xffffffffu : 0u;

    if (!EDT_WANTED(inside))
        return 0;
    return edt_in_run(x, edt_run_begin(bits, flip, x), edt_run_end(bits, flip, x, nx), nx);
}

/* A line of n voxels, at..., `stride` apart: squared distances so far, sides, and
 * room for the parabolas of its runs. One is kept as site | start << 16; those of a run
 * lie from its first voxel on, ended by EDT_NONE or the next run's. A run of m
 * voxels has at most m that start in it. */
struct edt_line {
    __global const tc_u32 *d2;
    __global const tc_u8 *side;
    __global tc_u32 *kept;
    tc_u64 at, stride;
    tc_u32 n, inside; /* inside: the side of the run under way */
};
#define EDT_NONE 0xffffffffu
#define EDT_IN_LINE(l, i) ((l)->at + (i) * (l)->stride)

static inline void edt_keep(const edt_line *l, const edt_envelope *e, tc_u32 k, edt_parabola p)
{
    l->kept[EDT_IN_LINE(l, e->first + k)] = p.site | p.start << 16;
}

/* Before its first voxel and behind its end a run has apexes of height 0. */
static inline edt_parabola edt_unpack(const edt_line *l, tc_u32 kept, tc_u32 inside)
{
    edt_parabola p;
    const tc_u64 i = EDT_IN_LINE(l, kept & 0xffffu);

    p.site = kept & 0xffffu;
    p.start = kept >> 16;
    p.height = EDT_SIDE(l, i) == inside ? l->d2[i] : 0u;
    return p;
}

static inline edt_parabola edt_kept(const edt_line *l, const edt_envelope *e, tc_u32 k)
{
    return edt_unpack(l, l->kept[EDT_IN_LINE(l, e->first + k)], l->inside);
}

/* No more parabolas of a run. In the next one's first place this is written over, if that
 * has any. */
static inline void edt_end_run(const edt_line *l, const edt_envelope *e)
{
    if (e->first + e->count < l->n)
        l->kept[EDT_IN_LINE(l, e->first + e->count)] = EDT_NONE;
}

/* Where the first run begins that does so from `from` on; n: none does. */
static inline tc_u32 edt_first(const edt_line *l, tc_u32 from)
{
    tc_u32 u = from;

    while (from > 0 && u < l->n &&
           EDT_SIDE(l, EDT_IN_LINE(l, u)) == EDT_SIDE(l, EDT_IN_LINE(l, from - 1)))
        u++;
    return u;
}

/* The envelopes of the runs from the one at `first` on that begin before `to`. Returns
 * where the last of them ends. That is not known while it is gone along: what begins
 * behind its end is kept in the first place of the next run at most, before that run is. */
static inline tc_u32 edt_find(edt_line *l, tc_u32 first, tc_u32 to)
{
    edt_envelope e = edt_begin(l, 0, l->n);
    tc_u32 u = first;

    l->inside = 2;
    for (; u < l->n; u++) {
        /* Both at once: the second would wait for the first. */
        const tc_u32 inside = EDT_SIDE(l, EDT_IN_LINE(l, u)), d2 = l->d2[EDT_IN_LINE(l, u)];

        if (inside != l->inside) {
            if (u > first && EDT_WANTED(l->inside)) {
                edt_end(l, &e, u, l->n);
                edt_end_run(l, &e);
            }
            if (u >= to)
                return u;
            l->inside = inside;
            if (EDT_WANTED(inside))
                e = edt_begin(l, u, l->n);
        }
        if (EDT_WANTED(inside))
            edt_add(l, &e, u, d2);
    }
    if (u > first && EDT_WANTED(l->inside))
        edt_end_run(l, &e);
    return u;
}

/* Goes along the line once more: the squared distance at u, for u = first, first + 1, ... */
typedef struct edt_walk {
    edt_parabola now;
    tc_u32 before, next, place;
} edt_walk;

static inline edt_walk edt_walk_begin(void)
{
    edt_walk w;

    w.now.site = w.now.start = w.place = 0;
    w.now.height = EDT_FAR;
    w.before = 2;
    w.next = EDT_NONE;
    return w;
}

static inline tc_u32 edt_walk_at(const edt_line *l, edt_walk *w, tc_u32 u, tc_u32 inside)
{
    if (inside != w->before) {
        w->now.site = w->place = u;
        w->now.height = EDT_FAR;
        w->next = EDT_WANTED(inside) ? l->kept[EDT_IN_LINE(l, u)] : EDT_NONE;
        w->before = inside;
    }
    if (w->next >> 16 == u) {
        w->now = edt_unpack(l, w->next, inside);
        w->place++;
        w->next = w->place < l->n ? l->kept[EDT_IN_LINE(l, w->place)] : EDT_NONE;
    }
    return EDT_WANTED(inside) ? edt_value(w->now.height, w->now.site, u) : 0u;
}

#endif
