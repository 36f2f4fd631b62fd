#include "app/analysis/label.h"

#include <string.h>

size_t lab_runs(const lab_picture *p, size_t row, uint32_t *edges)
{
    uint64_t made[LAB_MAX_STRIDE];
    const uint64_t *const words = p->bits == NULL ? made : p->bits + row * p->stride;
    const uint64_t flip = p->zeros ? ~(uint64_t)0 : 0;
    uint64_t before = 0;       /* the last pixel of the word before */
    size_t n = 0;

    if (p->bits == NULL)
        p->row(p->source, row, made);
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

/* The runs of a row, and roots of theirs as of when they were made. */
typedef struct line {
    uint32_t *edges;
    int32_t *id;
    size_t runs;
} line;

enum { LINES = 3 };

/* Each line has room for a row. */
size_t lab_scratch_bytes(const lab_picture *p)
{
    return LINES * ((size_t)p->nx + 2) * (sizeof(uint32_t) + sizeof(int32_t));
}

static void lay_out(const lab_picture *p, void *scratch, line lines[LINES])
{
    const size_t room = (size_t)p->nx + 2;
    uint32_t *const edges = scratch;
    int32_t *const ids = (int32_t *)(void *)(edges + LINES * room);

    for (int i = 0; i < LINES; i++)
        lines[i] = (line){ .edges = edges + (size_t)i * room, .id = ids + (size_t)i * room };
}

/* The id of a run of a row that has one. */
static int32_t id_of(const lab_picture *p, size_t row, bool border, const uint32_t *edges)
{
    return p->starts != NULL ? p->starts[row * p->nx + edges[0]] : lab_id(p, row, border, edges[0], edges[1]);
}

bool lab_border_row(const lab_picture *p, size_t row)
{
    const size_t y = row % p->ny, z = row / p->ny;

    return y == 0 || y + 1 == p->ny || (p->through && (z == 0 || z + 1 == p->nz));
}

/* Gives ids to the runs of a row, which are in `now`: those of the runs they
 * touch above, else new ones, from `next` on where there is a plane of starts.
 * Returns the next free id. reach: 1 where corners count. */
static int32_t join_above(const lab_picture *p, size_t row, line *now, const line *above, uint32_t reach,
                          int32_t next)
{
    int32_t *const starts = p->starts, *const ids = p->ids;
    const bool border = starts == NULL && lab_border_row(p, row);
    size_t j = 0;

    for (size_t k = 0; k < now->runs; k++) {
        const uint32_t a = now->edges[2 * k], b = now->edges[2 * k + 1];
        const int32_t id = starts != NULL ? next : lab_id(p, row, border, a, b);
        const bool outside = starts == NULL && id == 0;
        int32_t root = id;

        while (j < above->runs && above->edges[2 * j + 1] + reach <= a)
            j++;
        if (j < above->runs && above->edges[2 * j] < b + reach) {
            const int32_t first = uf_find(ids, above->id[j]);

            root = outside && first != 0 ? uf_link(ids, 0, first) : first;
            /* The last run that touches this one may touch the next as well. */
            while (above->edges[2 * j + 1] < b && j + 1 < above->runs && above->edges[2 * j + 2] < b + reach) {
                const int32_t other = uf_find(ids, above->id[++j]);

                if (other != root)
                    root = uf_link(ids, root, other);
            }
        }
        if (root == id)
            next++;
        if (!outside && (root == id || starts == NULL))
            ids[id] = ~root;
        if (starts != NULL)
            starts[row * p->nx + a] = root;
        now->id[k] = root;
    }
    return next;
}

/* Joins two ids. shared: other threads may do so too. */
static void join_ids(int32_t *ids, int32_t a, int32_t b, bool shared)
{
    /* Many have the same parent already. */
    if (a == b || uf_load(&ids[a]) == uf_load(&ids[b]))
        return;
    if (shared) {
        uf_union_shared(ids, a, b);
    } else {
        const int32_t r = uf_find(ids, a), s = uf_find(ids, b);

        if (r != s)
            uf_link(ids, r, s);
    }
}

/* Joins the runs of two rows that have their ids. */
static void join_lines(const lab_picture *p, size_t row, const line *now, size_t other_row, const line *other,
                       uint32_t reach, bool shared)
{
    const bool border = p->starts == NULL && lab_border_row(p, row);
    const bool other_border = p->starts == NULL && lab_border_row(p, other_row);
    size_t j = 0;

    for (size_t k = 0; k < now->runs; k++) {
        const uint32_t a = now->edges[2 * k], b = now->edges[2 * k + 1];

        while (j < other->runs && other->edges[2 * j + 1] + reach <= a)
            j++;
        for (; j < other->runs && other->edges[2 * j] < b + reach; j++) {
            join_ids(p->ids, id_of(p, row, border, now->edges + 2 * k),
                     id_of(p, other_row, other_border, other->edges + 2 * j), shared);
            if (other->edges[2 * j + 1] >= b)
                break;
        }
    }
}

int32_t lab_band(const lab_picture *p, size_t row0, size_t row1, void *scratch)
{
    int32_t next = (int32_t)lab_ids(p->nx, row0);
    line lines[LINES];
    line *now = &lines[0], *above = &lines[1], *before = &lines[2];

    lay_out(p, scratch, lines);
    for (size_t row = row0; row < row1; row++) {
        line *const done = above;

        if (row % p->ny == 0)
            above->runs = 0;
        now->runs = lab_runs(p, row, now->edges);
        next = join_above(p, row, now, above, p->diagonal, next);
        if (p->through && row >= row0 + p->ny) {
            before->runs = lab_runs(p, row - p->ny, before->edges);
            join_lines(p, row, now, row - p->ny, before, 0, false);
        }
        above = now;
        now = done;
    }
    return next;
}

static void join_rows(const lab_picture *p, size_t row, size_t other_row, uint32_t reach, line lines[2])
{
    lines[0].runs = lab_runs(p, row, lines[0].edges);
    lines[1].runs = lab_runs(p, other_row, lines[1].edges);
    join_lines(p, row, &lines[0], other_row, &lines[1], reach, true);
}

void lab_seam(const lab_picture *p, size_t row0, size_t row1, void *scratch)
{
    line lines[LINES];

    lay_out(p, scratch, lines);
    if (row0 % p->ny != 0)
        join_rows(p, row0, row0 - 1, p->diagonal, lines);
    for (size_t row = row0; p->through && row < row1 && row < row0 + p->ny; row++)
        if (row >= p->ny)
            join_rows(p, row, row - p->ny, 0, lines);
}
