/*
 * The union-find of app/analysis/common/union_find.h for a tile whose links are in local memory.
 * While work-items change links, links are accessed by atomic functions only.
 */
#ifndef OCL_UNION_FIND_H
#define OCL_UNION_FIND_H

#include "app/analysis/common/union_find.h"

/* Joins the sets of nodes a and b. In each round the larger node gets the smaller one as its
 * parent. If the larger node was not a root, the next round joins its former parent with the
 * smaller node. Each round continues with a smaller node, so the loop ends, however work-items
 * interleave. (This function avoids atomic reads of local memory such as atomic_or(.., 0), which
 * PoCL 3.1 compiles to wrong code.) */
static void unite_in_tile(volatile __local int *link, int a, int b)
{
    while (a != b) {
        const int larger = TC_MAX(a, b), smaller = TC_MIN(a, b);

        a = atomic_min(&link[larger], smaller);
        b = a == larger ? a : smaller;
    }
}

/* Returns the root of node i. No work-item may change links at the same time. */
static int root_in_tile(__local const int *link, int i)
{
    while (link[i] != i)
        i = link[i];
    return i;
}

#endif
