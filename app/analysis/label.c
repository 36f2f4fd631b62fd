#include "app/analysis/label.h"

#include <string.h>

size_t lab_runs(const lab_picture *p, size_t row, uint32_t *edges)
{
    const uint64_t *const words = p->bits + row * p->stride;
    const uint64_t flip = p->zeros ? ~(uint64_t)0 : 0;
    uint64_t before = 0;       /* the last pixel of the word before */
    size_t n = 0;

    for (size_t i = 0; i < p->stride; i++) {
        uint64_t word = words[i] ^ flip, change;

        if (i + 1 == p->stride && p->nx % 64 != 0)
            word &= ((uint64_t)1 << p->nx % 64) - 1;
        change = word ^ (word << 1 | before);
        before = word >> 63;
        while (change != 0) {
            edges[n++] = (uint32_t)(i * 64) + (uint32_t)__builtin_ctzll(change);
            change &= change - 1;
        }
    }
    if (n % 2 != 0)
        edges[n++] = p->nx;
    return n / 2;
}

/* The runs of a row and what their nodes were linked to when they were made. */
typedef struct line {
    uint32_t *edges;
    int32_t *node;
    size_t runs;
} line;

/* Two lines, each with room for a row. */
size_t lab_scratch_bytes(const lab_picture *p)
{
    return 2 * ((size_t)p->nx + 2) * (sizeof(uint32_t) + sizeof(int32_t));
}

static void lay_out(const lab_picture *p, void *scratch, line *a, line *b)
{
    const size_t room = (size_t)p->nx + 2;

    a->edges = scratch;
    b->edges = a->edges + room;
    a->node = (int32_t *)(void *)(b->edges + room);
    b->node = a->node + room;
    a->runs = b->runs = 0;
}

/* Makes the nodes of a row whose runs are in `now`, and links them with those
 * of the row above. reach: 1 where corners count. */
static void join_above(const lab_picture *p, size_t row, line *now, const line *above, uint32_t reach)
{
    const int32_t base = (int32_t)(row * p->nx);
    size_t j = 0;

    for (size_t k = 0; k < now->runs; k++) {
        const uint32_t a = now->edges[2 * k], b = now->edges[2 * k + 1];
        int32_t root = -1;

        while (j < above->runs && above->edges[2 * j + 1] + reach <= a)
            j++;
        /* The last run that touches this one may touch the next as well. */
        for (; j < above->runs && above->edges[2 * j] < b + reach; j++) {
            const int32_t other = uf_find(p->nodes, above->node[j]);

            if (root < 0)
                root = other;
            else if (other != root)
                root = uf_link(p->nodes, root, other);
            if (above->edges[2 * j + 1] >= b)
                break;
        }
        if (root < 0)
            root = base + (int32_t)a;
        p->nodes[base + (int32_t)a] = ~root;
        now->node[k] = root;
    }
}

/* Links two rows whose nodes there are. */
static void join_rows(const lab_picture *p, size_t row, size_t other_row, uint32_t reach, bool shared,
                      void *scratch)
{
    const int32_t base = (int32_t)(row * p->nx), other_base = (int32_t)(other_row * p->nx);
    line now, other;
    size_t j = 0;

    lay_out(p, scratch, &now, &other);
    now.runs = lab_runs(p, row, now.edges);
    other.runs = lab_runs(p, other_row, other.edges);
    for (size_t k = 0; k < now.runs; k++) {
        const uint32_t a = now.edges[2 * k], b = now.edges[2 * k + 1];

        while (j < other.runs && other.edges[2 * j + 1] + reach <= a)
            j++;
        for (; j < other.runs && other.edges[2 * j] < b + reach; j++) {
            const int32_t i = base + (int32_t)a, o = other_base + (int32_t)other.edges[2 * j];

            if (shared) {
                uf_union_shared(p->nodes, i, o);
            } else {
                const int32_t r = uf_find(p->nodes, i), s = uf_find(p->nodes, o);

                if (r != s)
                    uf_link(p->nodes, r, s);
            }
            if (other.edges[2 * j + 1] >= b)
                break;
        }
    }
}

void lab_band(const lab_picture *p, size_t row0, size_t row1, void *scratch)
{
    line now, above, swap;

    lay_out(p, scratch, &now, &above);
    for (size_t row = row0; row < row1; row++) {
        if (row % p->ny == 0)
            above.runs = 0;
        now.runs = lab_runs(p, row, now.edges);
        join_above(p, row, &now, &above, p->diagonal);
        swap = now;
        now = above;
        above = swap;
    }
    if (p->through)
        for (size_t row = row0 + p->ny; row < row1; row++)
            join_rows(p, row, row - p->ny, 0, false, scratch);
}

void lab_seam(const lab_picture *p, size_t row0, size_t row1, void *scratch)
{
    if (row0 % p->ny != 0)
        join_rows(p, row0, row0 - 1, p->diagonal, true, scratch);
    for (size_t row = row0; p->through && row < row1 && row < row0 + p->ny; row++)
        if (row >= p->ny)
            join_rows(p, row, row - p->ny, 0, true, scratch);
}
