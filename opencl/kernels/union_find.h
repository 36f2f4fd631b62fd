/*
 * The union-find of app/analysis/common/union_find.h for a tile whose links are in local memory.
 * While work-items change links, links are accessed by atomic functions only.
 */
#ifndef OCL_UNION_FIND_H
#define OCL_UNION_FIND_H

#include "app/analysis/common/union_find.h"

/* Joins the sets of nodes a and b. In each round the larger node gets the smaller as its parent; if
 * the larger was not a root, its former parent and the smaller node remain to be joined. Each round
 * continues with a smaller node, so the loop ends, however work-items interleave. (PoCL 3.1
 * compiles atomic reads of local memory, atomic_or(.., 0) and the like, to wrong code; this needs
 * none.) */
static void unite_in_tile(volatile __local int *link, int a, int b)
{
    while (a != b) {
        const int larger = TC_MAX(a, b), smaller = TC_MIN(a, b);

        a = atomic_min(&link[larger], smaller);
        b = a == larger ? a : smaller;
    }
}

/* The root of node i; for use when no work-item changes links any more. */
static int root_in_tile(__local const int *link, int i)
{
    while (link[i] != i)
        i = link[i];
    return i;
}

#endif
