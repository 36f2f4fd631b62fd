/*
 * The exact squared Euclidean distance transform on a device; edt_core.h has the method. Each voxel
 * is inside or outside (its side, 1 or 0), and a run is a sequence of voxels of one side. The pass
 * along x has the sides of a row as bits in local memory. In the passes along y and z a work-item
 * processes a line, or the runs that begin in a part of it, and reads it twice: to find the
 * parabolas, then for the distances. Adjacent work-items have lines that are adjacent along x, so
 * that together they access memory contiguously.
 *
 * The includer defines EDT_SIDE(l, i), the side of voxel i of the picture, on line l, and
 * EDT_WANTED(inside), whether voxels of that side get distances (otherwise 0).
 */
#ifndef OCL_EDT_H
#define OCL_EDT_H

#include "app/analysis/common/edt_core.h"

/* The first bit of the run of equal bits of a row that contains bit x. flip: all ones if bit x is
 * set, else 0. */
static inline tc_u32 edt_run_begin(__local const tc_u32 *bits, tc_u32 flip, tc_u32 x)
{
    tc_u32 w = x / 32, found = (bits[w] ^ flip) & ((1u << x % 32) - 1u);

    while (found == 0 && w > 0)
        found = bits[--w] ^ flip;
    return found != 0 ? w * 32 + 32u - (tc_u32)clz(found) : 0u;
}

/* The end of that run: the bit after its last one. */
static inline tc_u32 edt_run_end(__local const tc_u32 *bits, tc_u32 flip, tc_u32 x, tc_u32 nx)
{
    const tc_u32 words = (nx + 31) / 32;
    tc_u32 w = x / 32, found = (bits[w] ^ flip) & ~((2u << x % 32) - 1u);

    while (found == 0 && w + 1 < words)
        found = bits[++w] ^ flip;
    /* The lowest bit found; the bits beyond nx may be anything. */
    return found != 0 ? TC_MIN(w * 32 + 31u - (tc_u32)clz(found & (0u - found)), nx) : nx;
}

/* The squared distance of voxel x within its row: the result of the pass along x. */
static inline tc_u32 edt_along_x(__local const tc_u32 *bits, tc_u32 x, tc_u32 nx)
{
    const tc_u32 inside = bits[x / 32] >> x % 32 & 1u, flip = inside ? 0xffffffffu : 0u;

    if (!EDT_WANTED(inside))
        return 0;
    return edt_in_run(x, edt_run_begin(bits, flip, x), edt_run_end(bits, flip, x, nx), nx);
}

/* A line of n voxels: the first has index `at`, and they are `stride` apart. The arrays have an
 * element for each voxel of the picture. `kept` stores the parabolas of the line's runs, each as
 * site | start << 16. The parabolas of a run are stored from the element of the run's first voxel
 * on, and end with EDT_NONE or where the next run begins; there is room, since at most m parabolas
 * start in a run of m voxels. */
struct edt_line {
    __global const tc_u32 *d2;  /* squared distances of the passes so far */
    __global const tc_u8 *side; /* for the includer's EDT_SIDE */
    __global tc_u32 *kept;
    tc_u64 at, stride;
    tc_u32 n, inside; /* inside: the side of the run that is being processed; 2: none yet */
};
#define EDT_NONE 0xffffffffu
#define EDT_IN_LINE(l, i) ((l)->at + (i) * (l)->stride)

/* Stores parabola number k of the run's envelope. */
static inline void edt_keep(const edt_line *l, const edt_envelope *e, tc_u32 k, edt_parabola p)
{
    l->kept[EDT_IN_LINE(l, e->first + k)] = p.site | p.start << 16;
}

/* A stored parabola. Its apex has height 0 if the site is not in the run, but next to its first or
 * last voxel. inside: the run's side. */
static inline edt_parabola edt_unpack(const edt_line *l, tc_u32 kept, tc_u32 inside)
{
    edt_parabola p;
    const tc_u64 i = EDT_IN_LINE(l, kept & 0xffffu);

    p.site = kept & 0xffffu;
    p.start = kept >> 16;
    p.height = EDT_SIDE(l, i) == inside ? l->d2[i] : 0u;
    return p;
}

/* Parabola number k of the run's envelope. */
static inline edt_parabola edt_kept(const edt_line *l, const edt_envelope *e, tc_u32 k)
{
    return edt_unpack(l, l->kept[EDT_IN_LINE(l, e->first + k)], l->inside);
}

/* Marks the end of the run's parabolas by EDT_NONE. If the mark is at the next run's first voxel,
 * that run's parabolas overwrite it. */
static inline void edt_end_run(const edt_line *l, const edt_envelope *e)
{
    if (e->first + e->count < l->n)
        l->kept[EDT_IN_LINE(l, e->first + e->count)] = EDT_NONE;
}

/* The first voxel of the first run that begins at `from` or later; n if there is none. */
static inline tc_u32 edt_first(const edt_line *l, tc_u32 from)
{
    tc_u32 u = from;

    while (from > 0 && u < l->n &&
           EDT_SIDE(l, EDT_IN_LINE(l, u)) == EDT_SIDE(l, EDT_IN_LINE(l, from - 1)))
        u++;
    return u;
}

/* Finds and stores the parabolas of the runs that begin at `first` (the start of a run) or later,
 * but before `to`. Returns the end of the last of these runs. A run's end is not known before it is
 * reached, so a parabola may be stored that starts beyond it, but at most at the first voxel of the
 * next run, which is processed later. */
static inline tc_u32 edt_find(edt_line *l, tc_u32 first, tc_u32 to)
{
    edt_envelope e = edt_begin(l, 0, l->n);
    tc_u32 u = first;

    l->inside = 2;
    for (; u < l->n; u++) {
        /* Both are read at once, as a read that depended on `inside` would have to wait. */
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

/* The second pass along the line: edt_walk_at returns the squared distance of voxel u; it is called
 * for the voxels of the runs one after another, from the start of a run on. */
typedef struct edt_walk {
    edt_parabola now; /* the lowest parabola at the current voxel */
    tc_u32 before;    /* the previous voxel's side; 2: none */
    tc_u32 next;      /* the next parabola of the run, as stored; EDT_NONE: none */
    tc_u32 place;     /* the voxel where `next` is stored */
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
