/*
 * Union-find over numbers from 0. The root of a set is its smallest number, so
 * whatever the order of the unions, and whoever does them, the sets and their
 * roots are the same.
 *
 * nodes[i] holds ~parent, a negative number; a root is its own parent. Values
 * >= 0 are the caller's, to put something where a root was.
 *
 * The plain functions are for one thread at a time; the shared ones may run on
 * several threads at once, among themselves. A union only ever links a root to
 * a smaller number, so a retry is always nearer to the end.
 */
#ifndef AN_UNION_FIND_H
#define AN_UNION_FIND_H

#include <stdint.h>

static inline int32_t uf_find(int32_t *nodes, int32_t i)
{
    int32_t parent = ~nodes[i];

    while (parent != i) {
        const int32_t next = ~nodes[parent];

        nodes[i] = ~next;      /* halves the path */
        i = parent;
        parent = next;
    }
    return i;
}

/* a and b are roots. Returns the root of the union. */
static inline int32_t uf_link(int32_t *nodes, int32_t a, int32_t b)
{
    if (a < b) {
        nodes[b] = ~a;
        return a;
    }
    nodes[a] = ~b;
    return b;
}

static inline int32_t uf_load(const int32_t *at)
{
    return __atomic_load_n(at, __ATOMIC_RELAXED);
}

static inline void uf_store(int32_t *at, int32_t value)
{
    __atomic_store_n(at, value, __ATOMIC_RELAXED);
}

static inline int32_t uf_find_shared(const int32_t *nodes, int32_t i)
{
    for (;;) {
        const int32_t parent = ~uf_load(&nodes[i]);

        if (parent == i)
            return i;
        i = parent;
    }
}

static inline void uf_union_shared(int32_t *nodes, int32_t a, int32_t b)
{
    for (;;) {
        int32_t expected;

        a = uf_find_shared(nodes, a);
        b = uf_find_shared(nodes, b);
        if (a == b)
            return;
        if (a < b) {
            const int32_t t = a;

            a = b;
            b = t;
        }
        expected = ~a;
        if (__atomic_compare_exchange_n(&nodes[a], &expected, ~b, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return;
    }
}

/* uf_union_shared for numbers many of which have the same parent already. */
static inline void uf_join_shared(int32_t *nodes, int32_t a, int32_t b)
{
    if (a != b && uf_load(&nodes[a]) != uf_load(&nodes[b]))
        uf_union_shared(nodes, a, b);
}

#endif
