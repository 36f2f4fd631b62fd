/* Labels the connected components of a binary picture, run by run: see label.h. */
#include "app/analysis/common/label.h"

#include <assert.h>
#include <string.h>

size_t lab_find_runs(const uint64_t *words, uint32_t nx, bool zeros, uint32_t *edges)
{
    const uint64_t flip = zeros ? ~(uint64_t)0 : 0;
    const size_t stride = lab_stride(nx);
    uint64_t before = 0; /* the last pixel of the word before */
    size_t n = 0;

    for (size_t i = 0; i < stride; i++) {
        uint64_t word = words[i] ^ flip, change;

        if (i + 1 == stride && nx % 64 != 0)
            word &= ((uint64_t)1 << nx % 64) - 1;
        change = word ^ (word << 1 | before); /* 1 where a pixel differs from the one before it */
        before = word >> 63;
        while (change != 0) {
            edges[n++] = (uint32_t)(i * 64) + (uint32_t)__builtin_ctzll(change);
            change &= change - 1; /* clears the lowest bit */
        }
    }
    if (n % 2 != 0) /* the last run reaches the end of the row */
        edges[n++] = nx;
    return n / 2;
}

size_t lab_find_row_runs(const lab_picture *p, size_t row, uint32_t *edges)
{
    return lab_find_runs(p->bits + row * p->stride, p->nx, p->zeros, edges);
}

/* The runs of a row: their edges as lab_find_runs sets them, and for each run the root of its id at
 * the time when the row was labelled. */
typedef struct line {
    uint32_t *edges;
    int32_t *id;
    size_t runs;
} line;

enum { LINES = 2 };

/* The scratch memory has LINES lines, each with room for the runs of a row (nx + 2 elements, see
 * lab_find_runs). */
size_t lab_scratch_bytes(const lab_picture *p)
{
    return LINES * ((size_t)p->nx + 2) * (sizeof(uint32_t) + sizeof(int32_t));
}

/* Divides the scratch memory into two lines. */
static void divide_scratch(const lab_picture *p, void *scratch, line lines[LINES])
{
    const size_t room = (size_t)p->nx + 2;
    uint32_t *const edges = scratch;
    int32_t *const ids = (int32_t *)(void *)(edges + LINES * room);

    for (int i = 0; i < LINES; i++)
        lines[i] = (line){ .edges = edges + (size_t)i * room, .id = ids + (size_t)i * room };
}

/* Labels the runs of a row, which are in `current`; `above` has the runs of the row above. reach: 1
 * if pixels that touch at a corner are connected, otherwise 0. next: the first unused id. Returns
 * the first unused id after that. */
static int32_t join_above(const lab_picture *p, size_t row, line *current, const line *above,
                          uint32_t reach, int32_t next)
{
    int32_t *const ids = p->ids, *const starts = lab_row_starts(p, row);
    size_t j = 0;

    for (size_t k = 0; k < current->runs; k++) {
        const uint32_t a = current->edges[2 * k], b = current->edges[2 * k + 1];
        int32_t root = next;

        while (j < above->runs && above->edges[2 * j + 1] + reach <= a)
            j++; /* skips the runs above that end before this run */
        if (j < above->runs && above->edges[2 * j] < b + reach) {
            root = uf_find(ids, above->id[j]);
            /* The last run above that touches this run may also touch the next run, so it is not
             * skipped. */
            while (above->edges[2 * j + 1] < b && j + 1 < above->runs &&
                   above->edges[2 * j + 2] < b + reach) {
                const int32_t other = uf_find(ids, above->id[++j]);

                if (other != root)
                    root = uf_link(ids, root, other);
            }
        } else {
            ids[next] = ~next;
            next++;
        }
        starts[k] = root;
        current->id[k] = root;
    }
    return next;
}

int32_t lab_label_band(const lab_picture *p, size_t row0, size_t row1, void *scratch)
{
    assert(p->nx <= 65535 && row0 < row1 && row1 <= p->ny);
    assert(p->stride == lab_stride(p->nx) && p->room >= lab_max_runs(p->nx));
    int32_t next = (int32_t)lab_max_ids(p->nx, row0);
    size_t begin = row0 * p->room;
    line lines[LINES];
    line *current = &lines[0], *above = &lines[1];

    divide_scratch(p, scratch, lines);
    for (size_t row = row0; row < row1; row++) {
        line *const previous = above;

        current->runs = lab_find_row_runs(p, row, current->edges);
        if (p->begins != NULL)
            p->begins[row] = begin;
        begin += current->runs;
        next = join_above(p, row, current, above, p->eight_connected, next);
        above = current;
        current = previous;
    }
    return next;
}

void lab_join_seam(const lab_picture *p, size_t row, void *scratch)
{
    assert(row < p->ny);
    const uint32_t reach = p->eight_connected;
    line lines[LINES];
    const line *const current = &lines[0], *const above = &lines[1];
    size_t j = 0;

    if (row == 0)
        return;
    const int32_t *const starts = lab_row_starts(p, row), *const others =
                                                              lab_row_starts(p, row - 1);
    divide_scratch(p, scratch, lines);
    lines[0].runs = lab_find_row_runs(p, row, current->edges);
    lines[1].runs = lab_find_row_runs(p, row - 1, above->edges);
    for (size_t k = 0; k < current->runs; k++) {
        const uint32_t a = current->edges[2 * k], b = current->edges[2 * k + 1];

        while (j < above->runs && above->edges[2 * j + 1] + reach <= a)
            j++;
        for (; j < above->runs && above->edges[2 * j] < b + reach; j++) {
            uf_union_shared_fast(p->ids, starts[k], others[j]);
            if (above->edges[2 * j + 1] >= b) /* it may also touch the next run */
                break;
        }
    }
}
