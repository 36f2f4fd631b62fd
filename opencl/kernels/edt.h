/*
 * The exact squared Euclidean distance transform on a device; edt_core.h describes the method. Each
 * voxel has a side, 1 (inside) or 0 (outside), and gets the distance to the nearest voxel of the
 * other side. A run is a sequence of voxels of one side. The pass along x reads the sides of a row
 * as bits in local memory. In the passes along y and z a work-item processes a line of voxels, or
 * the runs that begin in a part of the line. It reads the line twice: first to find the parabolas
 * whose lower envelope gives the distances, then to compute the distances. Adjacent work-items have
 * lines that are adjacent along x, so that together they access memory contiguously.
 *
 * The includer defines EDT_SIDE(l, i), the side of voxel i of the picture, on line l, and
 * EDT_WANTED(inside), whether voxels of that side get distances (otherwise 0).
 */
#ifndef OCL_EDT_H
#define OCL_EDT_H

#include "app/analysis/common/edt_core.h"

/* Returns the number of the first bit of the run of equal bits, in a row, that contains bit x.
 * flip: all ones if bit x is set, else 0. */
static inline tc_u32 edt_run_begin(__local const tc_u32 *bits, tc_u32 flip, tc_u32 x)
{
    tc_u32 w = x / 32, changes = (bits[w] ^ flip) & ((1u << x % 32) - 1u);

    while (changes == 0 && w > 0)
        changes = bits[--w] ^ flip;
    return changes != 0 ? w * 32 + 32u - (tc_u32)clz(changes) : 0u;
}

/* Returns the end of the same run: the number of the bit after the run's last bit. */
static inline tc_u32 edt_run_end(__local const tc_u32 *bits, tc_u32 flip, tc_u32 x, tc_u32 nx)
{
    const tc_u32 words = (nx + 31) / 32;
    tc_u32 w = x / 32, changes = (bits[w] ^ flip) & ~((2u << x % 32) - 1u);

    while (changes == 0 && w + 1 < words)
        changes = bits[++w] ^ flip;
    /* Takes the lowest set bit; it may lie beyond nx, where the bits are undefined. */
    return changes != 0 ? TC_MIN(w * 32 + 31u - (tc_u32)clz(changes & (0u - changes)), nx) : nx;
}

/* The squared distance from voxel x to the nearest voxel of the other side in its row: the result
 * of the pass along x. */
static inline tc_u32 edt_along_x(__local const tc_u32 *bits, tc_u32 x, tc_u32 nx)
{
    const tc_u32 inside = bits[x / 32] >> x % 32 & 1u, flip = inside ? 0xffffffffu : 0u;

    if (!EDT_WANTED(inside))
        return 0;
    return edt_run_distance(x, edt_run_begin(bits, flip, x), edt_run_end(bits, flip, x, nx), nx);
}

/* A line of n voxels: the first voxel has index `at`, and neighbours are `stride` apart. The arrays
 * have an element for each voxel of the picture. `parabolas` stores the parabolas of the line's
 * runs, each as site | start << 16. The parabolas of a run are stored from the element of the run's
 * first voxel on, and end with EDT_NONE or where the next run begins. They fit, as at most m
 * parabolas start in a run of m voxels. */
struct edt_line {
    __global const tc_u32 *d2;  /* squared distances of the passes so far */
    __global const tc_u8 *side; /* for the includer's EDT_SIDE */
    __global tc_u32 *parabolas;
    tc_u64 at, stride;
    tc_u32 n, inside; /* inside: the side of the current run; 2 before the first run */
};
#define EDT_NONE 0xffffffffu
#define EDT_IN_LINE(l, i) ((l)->at + (i) * (l)->stride)

/* Stores parabola number k of the run's envelope. */
static inline void edt_store(const edt_line *l, const edt_envelope *e, tc_u32 k, edt_parabola p)
{
    l->parabolas[EDT_IN_LINE(l, e->first + k)] = p.site | p.start << 16;
}

/* Unpacks a stored parabola. Its apex has height 0 if its site is not in the run, but is the voxel
 * before or after it. inside: the run's side. */
static inline edt_parabola edt_unpack(const edt_line *l, tc_u32 packed, tc_u32 inside)
{
    edt_parabola p;
    const tc_u64 i = EDT_IN_LINE(l, packed & 0xffffu);

    p.site = packed & 0xffffu;
    p.start = packed >> 16;
    p.height = EDT_SIDE(l, i) == inside ? l->d2[i] : 0u;
    return p;
}

/* Parabola number k of the run's envelope. */
static inline edt_parabola edt_stored(const edt_line *l, const edt_envelope *e, tc_u32 k)
{
    return edt_unpack(l, l->parabolas[EDT_IN_LINE(l, e->first + k)], l->inside);
}

/* Marks the end of the run's parabolas by EDT_NONE. If the mark is at the next run's first voxel,
 * the next run's parabolas overwrite the mark. */
static inline void edt_end_run(const edt_line *l, const edt_envelope *e)
{
    if (e->first + e->count < l->n)
        l->parabolas[EDT_IN_LINE(l, e->first + e->count)] = EDT_NONE;
}

/* Returns the first voxel of the first run that begins at `from` or later; n if there is none. */
static inline tc_u32 edt_first(const edt_line *l, tc_u32 from)
{
    tc_u32 u = from;

    while (from > 0 && u < l->n &&
           EDT_SIDE(l, EDT_IN_LINE(l, u)) == EDT_SIDE(l, EDT_IN_LINE(l, from - 1)))
        u++;
    return u;
}

/* Finds and stores the parabolas of the runs that begin at `first` (the start of a run) or later,
 * but before `to`. Returns the end of the last of these runs. Where a run ends is not known before
 * the end is reached, so a parabola may be stored that starts beyond it, at most at the first voxel
 * of the next run; processing that run overwrites it. */
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

/* The second pass along the line: edt_walk_at returns the squared distance of voxel u. It is called
 * for one voxel after another, beginning with the first voxel of a run. */
typedef struct edt_walk {
    edt_parabola current; /* the lowest parabola at the current voxel */
    tc_u32 last_side;     /* the previous voxel's side; 2 if there is none */
    tc_u32 next;          /* the next parabola of the run, as stored; EDT_NONE if there is none */
    tc_u32 next_voxel;    /* the voxel where `next` is stored */
} edt_walk;

static inline edt_walk edt_walk_begin(void)
{
    edt_walk w;

    w.current.site = w.current.start = w.next_voxel = 0;
    w.current.height = EDT_FAR;
    w.last_side = 2;
    w.next = EDT_NONE;
    return w;
}

static inline tc_u32 edt_walk_at(const edt_line *l, edt_walk *w, tc_u32 u, tc_u32 inside)
{
    if (inside != w->last_side) {
        w->current.site = w->next_voxel = u;
        w->current.height = EDT_FAR;
        w->next = EDT_WANTED(inside) ? l->parabolas[EDT_IN_LINE(l, u)] : EDT_NONE;
        w->last_side = inside;
    }
    if (w->next >> 16 == u) {
        w->current = edt_unpack(l, w->next, inside);
        w->next_voxel++;
        w->next = w->next_voxel < l->n ? l->parabolas[EDT_IN_LINE(l, w->next_voxel)] : EDT_NONE;
    }
    return EDT_WANTED(inside) ? edt_value(w->current.height, w->current.site, u) : 0u;
}

#endif
