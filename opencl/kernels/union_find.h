/*
 * The union-find of app/analysis/common/union_find.h in local memory. While links are
 * changed they are touched by atomic functions only.
 */
#ifndef OCL_UNION_FIND_H
#define OCL_UNION_FIND_H

#include "app/analysis/common/union_find.h"

/* Joins the sets of nodes a and b of a tile. A larger node gets the smaller as its
 * parent; if it was no root, what was its parent and the smaller one are then to be
 * joined. Each round goes on with a smaller node, so it ends, however work-items take
 * turns. (PoCL 3.1 optimises atomic reads of local memory, atomic_or(.., 0) and the
 * like, into wrong code; this needs none.) */
static void unite_in_tile(volatile __local int *link, int a, int b)
{
    while (a != b) {
        const int larger = TC_MAX(a, b), smaller = TC_MIN(a, b);

        a = atomic_min(&link[larger], smaller);
        b = a == larger ? a : smaller;
    }
}

/* When links are changed no more. */
static int root_in_tile(__local const int *link, int i)
{
    while (link[i] != i)
        i = link[i];
    return i;
}

#endif
