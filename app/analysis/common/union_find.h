/*
 * Union-find over numbers from 0, for C and OpenCL C. The root of a set is its smallest
 * number, so whatever the order of the unions, and whoever does them, the sets and their
 * roots are the same.
 *
 * A node holds its link; a root's is to itself. In C a link is ~parent, a negative
 * number: values >= 0 are the caller's, to put something where a root was. On a device
 * it is the parent.
 *
 * The plain functions are for one thread at a time; the shared ones may run on
 * several threads at once, among themselves. A union only ever links a root to
 * a smaller number, so a retry is always nearer to the end.
 */
#ifndef AN_UNION_FIND_H
#define AN_UNION_FIND_H

#include "app/analysis/common/core.h"

#ifdef __OPENCL_VERSION__

#define UF_LINK(parent) (parent)
typedef volatile __global tc_i32 *uf_nodes;

/* A link that others may change. Where all work-items read the same root an atomic function makes a
 * queue of them; with NVIDIA's compiler (which defines this) a volatile read is an atomic one,
 * relaxed, as the memory model of PTX says. */
TC_INLINE tc_i32 uf_load(uf_nodes at)
{
#ifdef __NV_CL_C_VERSION
    return *at;
#else
    return atomic_or(at, 0);
#endif
}

/* Links a root to `now`, which is smaller. Returns what was there: `root`, or else the
 * parent that it has got meanwhile, which is then to be joined with `now`. (atomic_min:
 * where many do so a compare-and-exchange takes up to 8% longer on a GPU.) */
TC_INLINE tc_i32 uf_lower(uf_nodes at, tc_i32 root, tc_i32 now)
{
    (void)root;
    return atomic_min(at, now);
}

#else

#define UF_LINK(parent) (~(parent))
typedef int32_t *uf_nodes;

TC_INLINE int32_t uf_find(int32_t *nodes, int32_t i)
{
    int32_t parent = ~nodes[i];

    while (parent != i) {
        const int32_t next = ~nodes[parent];

        nodes[i] = ~next; /* halves the path */
        i = parent;
        parent = next;
    }
    return i;
}

/* a and b are roots. Returns the root of the union. */
TC_INLINE int32_t uf_link(int32_t *nodes, int32_t a, int32_t b)
{
    if (a < b) {
        nodes[b] = ~a;
        return a;
    }
    nodes[a] = ~b;
    return b;
}

TC_INLINE int32_t uf_load(const int32_t *at)
{
    return __atomic_load_n(at, __ATOMIC_RELAXED);
}

TC_INLINE void uf_store(int32_t *at, int32_t value)
{
    __atomic_store_n(at, value, __ATOMIC_RELAXED);
}

TC_INLINE int32_t uf_lower(int32_t *at, int32_t root, int32_t now)
{
    __atomic_compare_exchange_n(at, &root, now, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return root;
}

#endif

TC_INLINE tc_i32 uf_find_shared(uf_nodes nodes, tc_i32 i)
{
    tc_i32 parent = UF_LINK(uf_load(&nodes[i]));

    while (parent != i) {
        i = parent;
        parent = UF_LINK(uf_load(&nodes[i]));
    }
    return i;
}

/* Joins the sets of a and b. Over a whole picture trees must stay low, so a root
 * gets a root as its parent. Only the larger node climbs: two that have the same root
 * meet there and don't read it, as all work-items would. Each round goes on with a
 * smaller node, so it ends, however threads take turns. Returns the number that is no longer
 * a root; 0, which always is one, if nothing was joined. */
TC_INLINE tc_i32 uf_union_shared(uf_nodes nodes, tc_i32 a, tc_i32 b)
{
    while (a != b) {
        const tc_i32 larger = a > b ? a : b;
        tc_i32 smaller = a > b ? b : a, parent = UF_LINK(uf_load(&nodes[larger]));

        if (parent == larger) {
            smaller = uf_find_shared(nodes, smaller);
            parent = UF_LINK(uf_lower(&nodes[larger], UF_LINK(larger), UF_LINK(smaller)));
            if (parent == larger)
                return larger;
        }
        a = parent;
        b = smaller;
    }
    return 0;
}

/* uf_union_shared for numbers many of which have the same parent already. */
TC_INLINE tc_i32 uf_join_shared(uf_nodes nodes, tc_i32 a, tc_i32 b)
{
    return a != b && uf_load(&nodes[a]) != uf_load(&nodes[b]) ? uf_union_shared(nodes, a, b) : 0;
}

#endif
