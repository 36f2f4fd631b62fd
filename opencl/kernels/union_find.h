/*
 * Union-find in OpenCL C. link[i] is the parent of node i, itself for a root; a
 * root is the smallest node of its set. While links are changed they are touched by
 * atomic functions only.
 */
#ifndef OCL_UNION_FIND_H
#define OCL_UNION_FIND_H

/* Joins the sets of nodes a and b of a tile. A larger node gets the smaller as its
 * parent; if it was no root, what was its parent and the smaller one are then to be
 * joined. Each round goes on with a smaller node, so it ends, however work-items take
 * turns. (PoCL 3.1 optimises atomic reads of local memory, atomic_or(.., 0) and the
 * like, into wrong code; this needs none.) */
static void unite_in_tile(volatile __local int *link, int a, int b)
{
    while (a != b) {
        const int larger = max(a, b), smaller = min(a, b);

        a = atomic_min(&link[larger], smaller);
        b = a == larger ? a : smaller;
    }
}

/* A link that others may change. */
static int parent_of(volatile __global int *link, int i)
{
    return atomic_or(&link[i], 0);
}

/* Joins the sets of a and b. Over a whole picture trees must stay low, so a root
 * gets a root as its parent. Only the larger node climbs: two that have the same root
 * meet there and don't read it, as all work-items would. It ends as above. */
static void unite(volatile __global int *link, int a, int b)
{
    while (a != b) {
        const int larger = max(a, b);
        int smaller = min(a, b), parent = parent_of(link, larger);

        if (parent == larger) {
            int next = parent_of(link, smaller);

            while (next != smaller) {
                smaller = next;
                next = parent_of(link, smaller);
            }
            parent = atomic_min(&link[larger], smaller);
            if (parent == larger)
                return;
        }
        a = parent;
        b = smaller;
    }
}

#endif
