/*
 * Union-find over numbers from 0, for C and OpenCL C. The root of a set is its smallest
 * number, so the sets and their roots do not depend on the order of the unions or on the threads
 * that do them.
 *
 * Each number has a node, an integer, which holds its link to the parent; a root is its own parent.
 * In C a link is ~parent, which is negative; values >= 0 are free for the caller's use in place of
 * a root's link. On a device the link is the parent itself.
 *
 * Functions with `shared` in their names may run in several threads at once, but only with each
 * other; the others are for one thread at a time. A union only ever links a root to
 * a smaller number, so repeated tries come to an end.
 */
#ifndef AN_UNION_FIND_H
#define AN_UNION_FIND_H

#include "app/analysis/common/core.h"

#ifdef __OPENCL_VERSION__

#define UF_LINK(parent) (parent)
typedef volatile __global tc_i32 *uf_nodes;

/* Reads a link that other work-items may change. An atomic function makes all work-items that read
 * the same root wait for each other. It is not needed with NVIDIA's compiler (which defines the
 * macro below), as a volatile read is a relaxed atomic read in PTX's memory model. */
TC_INLINE tc_i32 uf_load(uf_nodes node)
{
#ifdef __NV_CL_C_VERSION
    return *node;
#else
    return atomic_or(node, 0);
#endif
}

/* Changes *node, which is the link of the root `root`, to `parent`, which is smaller. Returns the
 * old link: `root`, or another parent if another work-item has linked the root meanwhile; the
 * caller must then join that parent with `parent`. (Uses atomic_min, as a compare-and-exchange
 * takes up to 8% longer on a GPU if many work-items do it.) */
TC_INLINE tc_i32 uf_link_root(uf_nodes node, tc_i32 root, tc_i32 parent)
{
    (void)root;
    return atomic_min(node, parent);
}

#else

#define UF_LINK(parent) (~(parent))
typedef int32_t *uf_nodes;

/* The root of i's set. */
TC_INLINE int32_t uf_find(int32_t *nodes, int32_t i)
{
    int32_t parent = ~nodes[i];

    while (parent != i) {
        const int32_t next = ~nodes[parent];

        nodes[i] = ~next; /* links i to its grandparent, which halves the path for later calls */
        i = parent;
        parent = next;
    }
    return i;
}

/* Joins the sets of the different roots a and b; returns the root of the union. */
TC_INLINE int32_t uf_link(int32_t *nodes, int32_t a, int32_t b)
{
    if (a < b) {
        nodes[b] = ~a;
        return a;
    }
    nodes[a] = ~b;
    return b;
}

TC_INLINE int32_t uf_load(const int32_t *node)
{
    return __atomic_load_n(node, __ATOMIC_RELAXED);
}

TC_INLINE void uf_store(int32_t *node, int32_t value)
{
    __atomic_store_n(node, value, __ATOMIC_RELAXED);
}

/* Changes the link in *node from `root` to `parent`, unless another thread has changed it. Returns
 * the link before. */
TC_INLINE int32_t uf_link_root(int32_t *node, int32_t root, int32_t parent)
{
    __atomic_compare_exchange_n(node, &root, parent, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return root;
}

#endif

/* The root of i's set, while other threads may join sets. */
TC_INLINE tc_i32 uf_find_shared(uf_nodes nodes, tc_i32 i)
{
    tc_i32 parent = UF_LINK(uf_load(&nodes[i]));

    while (parent != i) {
        i = parent;
        parent = UF_LINK(uf_load(&nodes[i]));
    }
    return i;
}

/* Joins the sets of a and b. Returns the number that is no longer a root, or 0 (which always is a
 * root) if a and b were in one set already. A root only gets a root as its parent, so that paths
 * stay short. In each round the larger of the two numbers is replaced by its parent. So two numbers
 * with the same root meet at the root without reading the root's node, which all threads would
 * otherwise read at once; and the loop ends in whatever order the threads run. */
TC_INLINE tc_i32 uf_union_shared(uf_nodes nodes, tc_i32 a, tc_i32 b)
{
    while (a != b) {
        const tc_i32 larger = a > b ? a : b;
        tc_i32 smaller = a > b ? b : a, parent = UF_LINK(uf_load(&nodes[larger]));

        if (parent == larger) {
            smaller = uf_find_shared(nodes, smaller);
            parent = UF_LINK(uf_link_root(&nodes[larger], UF_LINK(larger), UF_LINK(smaller)));
            if (parent == larger)
                return larger;
        }
        a = parent;
        b = smaller;
    }
    return 0;
}

/* Does the same as uf_union_shared, but is faster for numbers that often have the same parent. */
TC_INLINE tc_i32 uf_union_shared_fast(uf_nodes nodes, tc_i32 a, tc_i32 b)
{
    return a != b && uf_load(&nodes[a]) != uf_load(&nodes[b]) ? uf_union_shared(nodes, a, b) : 0;
}

#endif
