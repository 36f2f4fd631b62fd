/*
 * volume: joins the runs of non-membrane voxels into connected components. A row is an array of
 * bits, in words of 64 voxels. A run (of ones of a row) has a node of the union-find, that of its
 * first voxel. Two runs of neighbouring rows overlap in a segment of voxels; the segments of whole
 * words are found by bit operations, and then one union is done for each. Rows are numbered through
 * all slices.
 */
#include <assert.h>
#include <string.h>

#include "app/analysis/volume/volume.h"

/* A row whose runs are joined with those of other rows. */
typedef struct line {
    uint64_t *words; /* [stride] */
    size_t row;
    size_t nodes; /* the node of its voxel 0 */
    size_t last;  /* the first voxel of the run that contains voxel nx - 1; nx: there is none */
    bool border;  /* vol_border_row */
} line;

/* The lines that are in use at a time: NOW, row y of slice z; ABOVE, row y - 1 of slice z; ACROSS,
 * row y of slice z - 1; CORNER, row y - 1 of slice z - 1. */
enum { NOW, ABOVE, ACROSS, CORNER, LINES };

size_t vol_label_scratch(const vol_stack *s)
{
    return LINES * s->stride * sizeof(uint64_t);
}

/* Makes empty lines in the scratch memory. */
static void lay_out(const vol_stack *s, uint64_t *scratch, line lines[LINES])
{
    memset(scratch, 0, vol_label_scratch(s));
    for (size_t i = 0; i < LINES; i++)
        lines[i] = (line){ .words = scratch + i * s->stride, .last = s->nx };
}

static void swap_lines(line *a, line *b)
{
    const line t = *a;

    *a = *b;
    *b = t;
}

/* Returns the first voxel of the run that reaches the voxel after the bits `below` of word i;
 * `below` is a mask of the word's lowest bits. open: the first voxel of the run that reaches the
 * word's voxel 0. If no run reaches a voxel, it is the voxel itself. */
static inline size_t start_of(uint64_t word, uint64_t below, size_t i, size_t open)
{
    const uint64_t gaps = ~word & below;

    return gaps == 0 ? open : 64 * i + 64 - (size_t)__builtin_clzll(gaps);
}

bool vol_border_row(const vol_stack *s, size_t row)
{
    return vol_is_border_row((uint32_t)(row % s->ny), (uint32_t)(row / s->ny), s->ny, s->nz,
                             s->through) != 0;
}

/* Reads a row into a line. */
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

/* The node of the line's run that begins at voxel `start`. */
static inline int32_t node_of(const line *l, size_t start)
{
    return l->border || start == 0 || start == l->last ? 0 : (int32_t)(l->nodes + start);
}

/* --- runs of a word -------------------------------------------------------------------------- */

/* The runs of a word of NOW. starts: the first voxels of runs that begin in it and are not at the
 * border. whole: all voxels of the runs that lie within the word and are not at the border. */
typedef struct runs {
    uint64_t starts, whole;
} runs;

static runs runs_of(const vol_stack *s, const line *now, size_t i)
{
    const uint64_t word = now->words[i], before = i > 0 ? now->words[i - 1] >> 63 : 1;
    const uint64_t last = (uint64_t)1 << (i + 1 < s->stride ? 63 : (s->nx - 1) % 64);
    const bool continues =
        (word & last) != 0 && (i + 1 == s->stride || (now->words[i + 1] & 1) != 0);
    runs r = { vol_starts(word, before), word };

    if (r.starts == 0 || now->border)
        return (runs){ 0, 0 };
    if (before != 0)
        r.whole &= r.whole + 1; /* without the run at bit 0 */
    if (continues) {
        const uint64_t gaps = ~word & (last - 1);

        r.whole &= gaps == 0 ? 0 : ~(uint64_t)0 >> __builtin_clzll(gaps);
    }
    if (i == now->last / 64)
        r.starts &= ~((uint64_t)1 << now->last % 64);
    return r;
}

/* Returns, for each whole run, the first of its voxels that is also in `other`: adding a one at the
 * run's first voxel carries through its voxels outside `other` to that one. */
static uint64_t first_in(const runs *r, uint64_t other)
{
    const uint64_t both = r->whole & other, rest = r->whole & ~other, begin = r->starts & r->whole;

    return both & (begin | (rest + (begin & rest)));
}

/* --- trees ----------------------------------------------------------------------------------- */

/* Joins the trees of nodes a and b. Returns the node that is no longer a root; 0: they were one
 * tree already. */
static inline int32_t join_roots(int32_t *nodes, int32_t a, int32_t b)
{
    int32_t of_a, of_b, kept;

    /* Most pairs have parents with the same link, so are one tree already. */
    if (nodes[~nodes[a]] == nodes[~nodes[b]])
        return 0;
    of_a = uf_find(nodes, a);
    of_b = uf_find(nodes, b);
    if (of_a == of_b)
        return 0;
    kept = uf_link(nodes, of_a, of_b);
    /* Node 0, the outside, which all threads join nodes with, always is a root and must not be
     * written to. */
    if (a != 0)
        nodes[a] = ~kept;
    if (b != 0)
        nodes[b] = ~kept;
    return kept == of_a ? of_b : of_a;
}

/* Clears the bit in `roots` of a node that is no longer a root; node 0 has none. shared: other
 * threads may change the same word. */
static inline void unmark_root(const vol_stack *s, int32_t node, bool shared)
{
    const uint32_t voxel = (uint32_t)node - 1, row = voxel / s->nx, x = voxel % s->nx;

    if (node == 0)
        return;
    if (shared)
        __atomic_fetch_and(&s->roots[row * s->stride + x / 64], ~((uint64_t)1 << x % 64),
                           __ATOMIC_RELAXED);
    else
        s->roots[row * s->stride + x / 64] &= ~((uint64_t)1 << x % 64);
}

/* Word i of NOW and of another line. open_now, open_other: the first voxels of the runs that reach
 * this word's voxel 0 (start_of). */
typedef struct pair {
    const line *now, *other;
    size_t i, open_now, open_other;
} pair;

/* The node of the run at the voxel after the bits `below` of word i. */
static inline int32_t node_at(const line *l, size_t i, size_t open, uint64_t below)
{
    return node_of(l, start_of(l->words[i], below, i, open));
}

static inline void next_word(pair *p)
{
    p->open_now = start_of(p->now->words[p->i], ~(uint64_t)0, p->i, p->open_now);
    p->open_other = start_of(p->other->words[p->i], ~(uint64_t)0, p->i, p->open_other);
    p->i++;
}

/* Makes the runs that begin in word i at the voxels `starts` roots. */
static void make_roots(const vol_stack *s, const line *now, size_t i, uint64_t starts)
{
    for (; starts != 0; starts &= starts - 1) {
        const size_t node = now->nodes + 64 * i + (size_t)__builtin_ctzll(starts);

        s->nodes[node] = ~(int32_t)node;
    }
}

/* Gives the runs of NOW at the voxels `at` the parents of the other line's runs there. The runs of
 * NOW must be trees of one run, with one voxel of `at` each. Returns the first voxels of these
 * runs. */
static uint64_t join_pair(const vol_stack *s, const pair *p, uint64_t at)
{
    uint64_t starts = 0;

    for (; at != 0; at &= at - 1) {
        const uint64_t below = (at & -at) - 1;
        const size_t start = start_of(p->now->words[p->i], below, p->i, p->open_now);

        s->nodes[p->now->nodes + start] =
            s->nodes[~s->nodes[node_at(p->other, p->i, p->open_other, below)]];
        starts |= (uint64_t)1 << start % 64;
    }
    return starts;
}

/* Joins the runs of the two lines at each of the voxels `at`. shared: other threads join at the
 * same time. */
static void join_at(const vol_stack *s, const pair *p, uint64_t at, bool shared)
{
    for (; at != 0; at &= at - 1) {
        const uint64_t below = (at & -at) - 1;
        const int32_t a = node_at(p->now, p->i, p->open_now, below);
        const int32_t b = node_at(p->other, p->i, p->open_other, below);

        unmark_root(s, shared ? uf_join_shared(s->nodes, a, b) : join_roots(s->nodes, a, b),
                    shared);
    }
}

/* Returns the last voxel of each segment (run of ones in `segments`) that has no voxel of `done`:
 * adding the voxels of `done` carries to the ends of the other segments. A segment that reaches bit
 * 63 is returned if its sum has not carried out of the word. */
static uint64_t ends_without(uint64_t segments, uint64_t done)
{
    const uint64_t sum = segments + (segments & done);
    const uint64_t open_end = sum < segments ? 0 : segments & (uint64_t)1 << 63;

    return (segments << 1 & ~segments & ~sum) >> 1 | open_end;
}

/* Joins the runs of NOW with those of ACROSS, and if `above` with those of ABOVE; otherwise these
 * are joined already. fresh: NOW has no nodes yet; makes them, and gives most runs the parent of
 * the first run that they touch, since joining trees takes most of the time in noise. If not fresh,
 * other threads may join other lines at the same time. A segment that NOW and ACROSS share needs no
 * union if ABOVE and CORNER both have a voxel next to it, as the runs are then connected through
 * these. */
static void join_line(const vol_stack *s, const line lines[LINES], bool fresh, bool above)
{
    const line *const now = &lines[NOW];
    pair up = { now, &lines[ABOVE], 0, 0, 0 }, back = { now, &lines[ACROSS], 0, 0, 0 };
    uint64_t before = 0;

    for (size_t i = 0; i < s->stride; i++) {
        const uint64_t both = now->words[i] & lines[ABOVE].words[i],
                       through = now->words[i] & lines[ACROSS].words[i];
        uint64_t first = 0, done;

        if (fresh) {
            const runs r = runs_of(s, now, i);

            first = first_in(&r, both | through);
            make_roots(s, now, i, r.starts);
            s->roots[now->row * s->stride + i] =
                r.starts & ~(join_pair(s, &up, first & both) | join_pair(s, &back, first & ~both));
        }
        const uint64_t joined = above ? vol_starts(both, before) & ~first : 0;

        if (joined != 0)
            join_at(s, &up, joined, !fresh);
        done = (lines[ABOVE].words[i] & lines[CORNER].words[i]) | (first & ~both);
        const uint64_t ends = ends_without(through, done);

        if (ends != 0)
            join_at(s, &back, ends, !fresh);
        before = both >> 63;
        next_word(&up);
        next_word(&back);
    }
}

void vol_label_band(const vol_stack *s, size_t row0, size_t row1, uint64_t *scratch)
{
    assert(row0 <= row1 && row1 <= (size_t)s->ny * s->nz);
    line lines[LINES];

    lay_out(s, scratch, lines);
    for (size_t row = row0; row < row1; row++) {
        if (row % s->ny == 0)
            memset(lines[ABOVE].words, 0, s->stride * sizeof(uint64_t));
        read_line(s, row, &lines[NOW]);
        if (s->through && row >= row0 + s->ny)
            read_line(s, row - s->ny, &lines[ACROSS]);
        join_line(s, lines, true, true);
        swap_lines(&lines[NOW], &lines[ABOVE]);
        swap_lines(&lines[ACROSS], &lines[CORNER]);
    }
}

void vol_label_seam(const vol_stack *s, size_t row0, size_t row1, uint64_t *scratch)
{
    assert(row0 <= row1 && row1 <= (size_t)s->ny * s->nz);
    line lines[LINES];

    lay_out(s, scratch, lines);
    for (size_t row = row0; row < row1 && row < row0 + (s->through ? s->ny : 1); row++) {
        read_line(s, row, &lines[NOW]);
        if (row % s->ny == 0)
            memset(lines[ABOVE].words, 0, s->stride * sizeof(uint64_t));
        else if (row == row0)
            read_line(s, row - 1, &lines[ABOVE]);
        if (s->through && row >= s->ny)
            read_line(s, row - s->ny, &lines[ACROSS]);
        join_line(s, lines, false, row == row0);
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
