/* Which of the summits of a distance map are cells. */
#include <stdlib.h>
#include <string.h>

#include "app/analysis/cellcount.h"
#include "app/analysis/cellcount_core.h"

bool cc_passes_add(cc_passes *p, int32_t a, int32_t b, uint32_t d2)
{
    if (p->n == p->room) {
        const size_t room = p->room == 0 ? 1024 : 2 * p->room;
        cc_pass *const list = realloc(p->list, room * sizeof *list);

        if (list == NULL)
            return false;
        p->list = list;
        p->room = room;
    }
    p->list[p->n++] = (cc_pass){ a < b ? a : b, a < b ? b : a, d2 };
    return true;
}

static int by_pair(const void *va, const void *vb)
{
    const cc_pass *const a = va, *const b = vb;

    if (a->a != b->a)
        return a->a < b->a ? -1 : 1;
    if (a->b != b->b)
        return a->b < b->b ? -1 : 1;
    return a->d2 != b->d2 ? (a->d2 > b->d2 ? -1 : 1) : 0;
}

static int by_height(const void *va, const void *vb)
{
    const cc_pass *const a = va, *const b = vb;

    if (a->d2 != b->d2)
        return a->d2 > b->d2 ? -1 : 1;
    return by_pair(a, b);
}

void cc_passes_merge(cc_passes *p)
{
    size_t kept = 0;

    if (p->n > 0)
        qsort(p->list, p->n, sizeof *p->list, by_pair);
    for (size_t i = 0; i < p->n; i++)
        if (kept == 0 || p->list[i].a != p->list[kept - 1].a || p->list[i].b != p->list[kept - 1].b)
            p->list[kept++] = p->list[i];
    p->n = kept;
}

static int32_t summit_of(int32_t *up, int32_t i)
{
    while (up[i] != i) {
        up[i] = up[up[i]];
        i = up[i];
    }
    return i;
}

/* From the highest pass down, a summit that does not rise enough above the way
 * to a higher one becomes part of it. */
void cc_join_summits(cc_passes *p, const uint32_t *d2, int32_t *up)
{
    if (p->n > 0)
        qsort(p->list, p->n, sizeof *p->list, by_height);
    for (size_t i = 0; i < p->n; i++) {
        const int32_t a = summit_of(up, p->list[i].a), b = summit_of(up, p->list[i].b);
        const bool a_higher = cc_higher(d2[a], a, d2[b], b);
        const int32_t low = a_higher ? b : a, high = a_higher ? a : b;

        if (a != b && !cc_apart(d2[low], p->list[i].d2))
            up[low] = high;
    }
}
