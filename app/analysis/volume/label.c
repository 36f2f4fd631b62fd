/*
 * volume: components by rows of bits, 64 voxels at a time. Rows are numbered through
 * all slices; a run of a row is named by its node. Runs overlap in segments, which
 * are found for whole words; what is done one by one is the unions.
 */
#include <string.h>

#include "app/analysis/volume/volume.h"

typedef struct line {
    uint64_t *words;           /* [stride] */
    size_t row;
    size_t nodes;              /* the node of its voxel 0 */
    size_t last;               /* where the run begins that ends at the border; nx: there is none */
    bool border;               /* all of its runs are at the border */
} line;

/* NOW and ABOVE are in a slice, ACROSS and CORNER in the one before it. */
enum { NOW, ABOVE, ACROSS, CORNER, LINES };

size_t vol_label_scratch(const vol_stack *s)
{
    return (LINES + 1) * s->stride * sizeof(uint64_t);
}

/* Lines without a voxel. Returns the rest of the scratch memory: a word for each
 * word of a line. */
static uint64_t *lay_out(const vol_stack *s, uint64_t *scratch, line lines[LINES])
{
    memset(scratch, 0, vol_label_scratch(s));
    for (size_t i = 0; i < LINES; i++)
        lines[i] = (line){ .words = scratch + i * s->stride, .last = s->nx };
    return scratch + LINES * s->stride;
}

static void swap_lines(line *a, line *b)
{
    const line t = *a;

    *a = *b;
    *b = t;
}

/* Where the run begins that has the voxel above the bits `below` of word i; open: where
 * the one begins that has the voxel before the word. */
static inline size_t start_of(uint64_t word, uint64_t below, size_t i, size_t open)
{
    const uint64_t gaps = ~word & below;

    return gaps == 0 ? open : 64 * i + 64 - (size_t)__builtin_clzll(gaps);
}

bool vol_border_row(const vol_stack *s, size_t row)
{
    return vol_is_border_row((uint32_t)(row % s->ny), (uint32_t)(row / s->ny), s->ny, s->nz, s->through) != 0;
}

static void read_line(const vol_stack *s, size_t row, line *l)
{
    const size_t x = s->nx - 1;
    const uint64_t bit = (uint64_t)1 << x % 64;
    size_t open = 0;

    s->row(s->source, row, l->words);
    l->row = row;
    l->nodes = 1 + row * s->nx;
    l->border = vol_border_row(s, row);
    l->last = s->nx;
    if ((l->words[x / 64] & bit) == 0)
        return;
    for (size_t i = 0; i < x / 64; i++)
        open = start_of(l->words[i], ~(uint64_t)0, i, open);
    l->last = start_of(l->words[x / 64], bit - 1, x / 64, open);
}

static inline int32_t node_of(const line *l, size_t start)
{
    return l->border || start == 0 || start == l->last ? 0 : (int32_t)(l->nodes + start);
}

/* A tree for each run that is not at the border. */
static void plant(const vol_stack *s, const line *l)
{
    uint64_t before = 1;       /* a run that begins with the row is at the border */
    uint16_t trees = 0;

    for (size_t i = 0; !l->border && i < s->stride; i++) {
        const uint64_t word = l->words[i];

        for (uint64_t starts = vol_starts(word, before); starts != 0; starts &= starts - 1) {
            const size_t start = 64 * i + (size_t)__builtin_ctzll(starts);

            if (start == l->last)
                continue;
            s->nodes[l->nodes + start] = ~(int32_t)(l->nodes + start);
            trees++;
        }
        before = word >> 63;
    }
    s->roots[l->row] = trees;
}

/* The first voxels of the segments in which two rows overlap. */
static void overlaps(const vol_stack *s, const line *a, const line *b, uint64_t *at)
{
    uint64_t before = 0;

    for (size_t i = 0; i < s->stride; i++) {
        const uint64_t both = a->words[i] & b->words[i];

        at[i] = vol_starts(both, before);
        before = both >> 63;
    }
}

/* The last voxels of the segments in which NOW and ACROSS overlap, by words. Not of those
 * that ABOVE and CORNER have a voxel of, too: there the way through those is a connection
 * already. Adding that voxel carries to the end of its segment. */
static void overlaps_across(const vol_stack *s, const line lines[LINES], uint64_t *at)
{
    for (size_t i = 0; i < s->stride; i++) {
        const uint64_t both = lines[NOW].words[i] & lines[ACROSS].words[i];
        const uint64_t all = both & lines[ABOVE].words[i] & lines[CORNER].words[i], sum = both + all;
        const uint64_t open_end = sum < both ? 0 : both & (uint64_t)1 << 63;

        at[i] = (both << 1 & ~both & ~sum) >> 1 | open_end;
    }
}

/* Joins two trees. Returns the root that there was and is no more, 0 if there is none. */
static inline int32_t join(int32_t *nodes, int32_t a, int32_t b)
{
    int32_t kept;

    /* Many have the same parent already. */
    if (nodes[a] == nodes[b])
        return 0;
    a = uf_find(nodes, a);
    b = uf_find(nodes, b);
    if (a == b)
        return 0;
    kept = uf_link(nodes, a, b);
    return kept == a ? b : a;
}

/* A node that is a root no more, 0 for none: most often of the row that is done just
 * now. */
static inline void uproot(const vol_stack *s, const line *l, int32_t node)
{
    if ((size_t)node >= l->nodes)
        s->roots[l->row]--;
    else if (node > 0)
        s->roots[((size_t)node - 1) / s->nx]--;
}

/* Joins runs of two rows that have the voxels in `at` in common. shared: other threads may
 * join others, and roots are not counted. */
static void join_lines(const vol_stack *s, const line *a, const line *b, const uint64_t *at, bool shared)
{
    size_t open_a = 0, open_b = 0;

    if (a->border && b->border)
        return;
    for (size_t i = 0; i < s->stride; i++) {
        const uint64_t in_a = a->words[i], in_b = b->words[i];

        for (uint64_t left = at[i]; left != 0; left &= left - 1) {
            const uint64_t below = (left & -left) - 1;
            const int32_t p = node_of(a, start_of(in_a, below, i, open_a));
            const int32_t q = node_of(b, start_of(in_b, below, i, open_b));

            if (shared)
                uf_join_shared(s->nodes, p, q);
            else
                uproot(s, a, join(s->nodes, p, q));
        }
        open_a = start_of(in_a, ~(uint64_t)0, i, open_a);
        open_b = start_of(in_b, ~(uint64_t)0, i, open_b);
    }
}

void vol_label_band(const vol_stack *s, size_t row0, size_t row1, uint64_t *scratch)
{
    line lines[LINES];
    uint64_t *const at = lay_out(s, scratch, lines);

    for (size_t row = row0; row < row1; row++) {
        if (row % s->ny == 0)
            memset(lines[ABOVE].words, 0, s->stride * sizeof(uint64_t));
        read_line(s, row, &lines[NOW]);
        plant(s, &lines[NOW]);
        overlaps(s, &lines[NOW], &lines[ABOVE], at);
        join_lines(s, &lines[NOW], &lines[ABOVE], at, false);
        if (s->through && row >= row0 + s->ny) {
            read_line(s, row - s->ny, &lines[ACROSS]);
            overlaps_across(s, lines, at);
            join_lines(s, &lines[NOW], &lines[ACROSS], at, false);
        }
        swap_lines(&lines[NOW], &lines[ABOVE]);
        swap_lines(&lines[ACROSS], &lines[CORNER]);
    }
}

void vol_label_seam(const vol_stack *s, size_t row0, size_t row1, uint64_t *scratch)
{
    line lines[LINES];
    uint64_t *const at = lay_out(s, scratch, lines);

    for (size_t row = row0; row < row1 && row < row0 + (s->through ? s->ny : 1); row++) {
        read_line(s, row, &lines[NOW]);
        if (row % s->ny == 0) {
            memset(lines[ABOVE].words, 0, s->stride * sizeof(uint64_t));
        } else if (row == row0) {
            read_line(s, row - 1, &lines[ABOVE]);
            overlaps(s, &lines[NOW], &lines[ABOVE], at);
            join_lines(s, &lines[NOW], &lines[ABOVE], at, true);
        }
        if (s->through && row >= s->ny) {
            read_line(s, row - s->ny, &lines[ACROSS]);
            overlaps_across(s, lines, at);
            join_lines(s, &lines[NOW], &lines[ACROSS], at, true);
        }
        swap_lines(&lines[NOW], &lines[ABOVE]);
        swap_lines(&lines[ACROSS], &lines[CORNER]);
    }
}

size_t vol_runs(const vol_stack *s, size_t row, uint32_t *edges)
{
    uint64_t words[LAB_MAX_STRIDE];

    s->row(s->source, row, words);
    return lab_edges(words, s->nx, false, edges);
}
