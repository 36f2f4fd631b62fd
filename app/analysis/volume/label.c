/*
 * volume: joins the runs of non-membrane voxels into connected components. A row is an array of
 * bits, in words of 64 voxels; a run is a series of ones in a row. The node of a run in the
 * union-find is that of its first voxel. A run that touches the border of the stack (or of its
 * slice, if each slice is analysed by itself) belongs to node 0, the outside. Where two runs of
 * neighbouring rows overlap, they share a segment of adjacent voxels. The segments of a word are
 * found by bit operations; then one union for each segment joins the two runs. Rows are numbered
 * through all slices. A node that is not a root holds ~parent, the complement of its parent's
 * index, and a root holds ~ of its own index (union_find.h); so ~nodes[i] is the parent of node i.
 */
#include <assert.h>
#include <string.h>

#include "app/analysis/volume/volume.h"

/* A row whose runs are joined with those of other rows. */
typedef struct line {
    uint64_t *words; /* [stride]: a one for each voxel that is not membrane */
    size_t row;      /* number of the row */
    size_t node0;    /* index of the node of the row's voxel 0 */
    size_t last_run; /* the first voxel of the run that contains voxel nx - 1; nx if no run does */
    bool border;     /* the whole row is at the border (vol_border_row) */
} line;

/* The lines that are in use at a time: NOW, row y of slice z; ABOVE, row y - 1 of slice z; ACROSS,
 * row y of slice z - 1; CORNER, row y - 1 of slice z - 1. */
enum { NOW, ABOVE, ACROSS, CORNER, LINES };

size_t vol_label_scratch(const vol_stack *s)
{
    return LINES * s->stride * sizeof(uint64_t);
}

/* Makes empty lines in the scratch memory. */
static void make_lines(const vol_stack *s, uint64_t *scratch, line lines[LINES])
{
    memset(scratch, 0, vol_label_scratch(s));
    for (size_t i = 0; i < LINES; i++)
        lines[i] = (line){ .words = scratch + i * s->stride, .last_run = s->nx };
}

static void swap_lines(line *a, line *b)
{
    const line t = *a;

    *a = *b;
    *b = t;
}

/* Returns the first voxel of the run that contains a voxel v, or of the run whose last voxel is
 * v - 1; if there is no such run, returns v. Voxels are numbered from the beginning of the row.
 * word: word i of the row, to which v belongs; below: a mask of the word's bits below v. open: the
 * first voxel of the run that continues from word i - 1, or 64 i if no run does. For v = 64 (i + 1)
 * (below is all ones), the result is `open` for the next word. */
static inline size_t run_start(uint64_t word, uint64_t below, size_t i, size_t open)
{
    const uint64_t gaps = ~word & below;

    return gaps == 0 ? open : 64 * i + 64 - (size_t)__builtin_clzll(gaps);
}

bool vol_border_row(const vol_stack *s, size_t row)
{
    return vol_is_border_row((uint32_t)(row % s->ny), (uint32_t)(row / s->ny), s->ny, s->nz,
                             s->is_3d) != 0;
}

/* Reads a row into a line. */
static void read_line(const vol_stack *s, size_t row, line *l)
{
    const size_t x = s->nx - 1;
    const uint64_t bit = (uint64_t)1 << x % 64;
    size_t open = 0;

    s->row(s->source, row, l->words);
    l->row = row;
    l->node0 = 1 + row * s->nx;
    l->border = vol_border_row(s, row);
    l->last_run = s->nx;
    if ((l->words[x / 64] & bit) == 0) /* no run contains the last voxel, x */
        return;
    for (size_t i = 0; i < x / 64; i++)
        open = run_start(l->words[i], ~(uint64_t)0, i, open);
    l->last_run = run_start(l->words[x / 64], bit - 1, x / 64, open);
}

/* The node of the line's run that begins at voxel `start`; 0, the outside, if the run is at the
 * border. */
static inline int32_t node_of(const line *l, size_t start)
{
    return l->border || start == 0 || start == l->last_run ? 0 : (int32_t)(l->node0 + start);
}

/* --- runs of a word -------------------------------------------------------------------------- */

/* The runs of a word of NOW that are not at the border, as bits of the word. starts: the first
 * voxels of the runs that begin in the word. whole: all voxels of the runs that lie completely in
 * it. */
typedef struct runs {
    uint64_t starts, whole;
} runs;

static runs runs_of(const vol_stack *s, const line *now, size_t i)
{
    /* before: 1 if the voxel before the word is in a run. In front of the row it is 1, so that a
     * run which begins at voxel 0, and is therefore at the border, does not count as beginning
     * here. */
    const uint64_t word = now->words[i], before = i > 0 ? now->words[i - 1] >> 63 : 1;
    /* last: the bit of the word's last voxel; continues: whether the run of this voxel goes on in
     * the next word, or ends at the row's end and is therefore at the border */
    const uint64_t last = (uint64_t)1 << (i + 1 < s->stride ? 63 : (s->nx - 1) % 64);
    const bool continues =
        (word & last) != 0 && (i + 1 == s->stride || (now->words[i + 1] & 1) != 0);
    runs r = { vol_starts(word, before), word };

    if (r.starts == 0 || now->border)
        return (runs){ 0, 0 };
    if (before != 0)
        r.whole &= r.whole + 1; /* clears the run that begins at bit 0, if there is one */
    if (continues) {
        const uint64_t gaps = ~word & (last - 1);

        /* Clears the run that contains the last voxel: keeps the bits up to the highest gap. */
        r.whole &= gaps == 0 ? 0 : ~(uint64_t)0 >> __builtin_clzll(gaps);
    }
    if (i == now->last_run / 64)
        /* This run ends at the row's end, and is at the border. */
        r.starts &= ~((uint64_t)1 << now->last_run % 64);
    return r;
}

/* Returns a word with a bit for each whole run that shares a voxel with `other`: the bit of the
 * first such voxel. If this is not the run's first voxel, it is found by an addition: a one is
 * added at the run's first voxel, the carry passes the voxels that are not in `other`, and it stops
 * at the first voxel that is in `other`. */
static uint64_t first_common(const runs *r, uint64_t other)
{
    const uint64_t both = r->whole & other, rest = r->whole & ~other, begin = r->starts & r->whole;

    return both & (begin | (rest + (begin & rest)));
}

/* --- the trees of the union-find ------------------------------------------------------------- */

/* Joins the trees of nodes a and b. Returns the node that is no longer a root, or 0 if a and b were
 * in one tree already. */
static inline int32_t join_roots(int32_t *nodes, int32_t a, int32_t b)
{
    int32_t root_a, root_b, root;

    /* In most cases the parents of a and b (~nodes[a], ~nodes[b]) have the same parent, so a and b
     * are in one tree. */
    if (nodes[~nodes[a]] == nodes[~nodes[b]])
        return 0;
    root_a = uf_find(nodes, a);
    root_b = uf_find(nodes, b);
    if (root_a == root_b)
        return 0;
    root = uf_link(nodes, root_a, root_b);
    /* Node 0, the outside, is always a root. It must not be written to, as all threads read it. */
    if (a != 0)
        nodes[a] = ~root;
    if (b != 0)
        nodes[b] = ~root;
    return root == root_a ? root_b : root_a;
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

/* Word i of NOW and of another line. open_now, open_other: the parameter `open` of run_start for
 * this word in the two lines. */
typedef struct pair {
    const line *now, *other;
    size_t i, open_now, open_other;
} pair;

/* The node of the run that contains voxel v of word i. below: a mask of the word's bits below v. */
static inline int32_t node_at(const line *l, size_t i, size_t open, uint64_t below)
{
    return node_of(l, run_start(l->words[i], below, i, open));
}

/* Advances the pair to the next word of both lines. */
static inline void next_word(pair *p)
{
    p->open_now = run_start(p->now->words[p->i], ~(uint64_t)0, p->i, p->open_now);
    p->open_other = run_start(p->other->words[p->i], ~(uint64_t)0, p->i, p->open_other);
    p->i++;
}

/* Makes roots of the runs that begin in word i, at the voxels `starts`. */
static void make_roots(const vol_stack *s, const line *now, size_t i, uint64_t starts)
{
    for (; starts != 0; starts &= starts - 1) {
        const size_t node = now->node0 + 64 * i + (size_t)__builtin_ctzll(starts);

        s->nodes[node] = ~(int32_t)node;
    }
}

/* Each of the `voxels` (bits of the word) must be in a run of NOW and in a run of the other line.
 * The run of NOW gets as its parent an ancestor (mostly the root) of the other line's run. Each run
 * of NOW must be a tree by itself and contain only one of the voxels. Returns a bit for the first
 * voxel of each of these runs of NOW. */
static uint64_t adopt_parents(const vol_stack *s, const pair *p, uint64_t voxels)
{
    uint64_t starts = 0;

    for (; voxels != 0; voxels &= voxels - 1) {
        const uint64_t below = (voxels & -voxels) - 1; /* the bits below the lowest of `voxels` */
        const size_t start = run_start(p->now->words[p->i], below, p->i, p->open_now);

        s->nodes[p->now->node0 + start] =
            s->nodes[~s->nodes[node_at(p->other, p->i, p->open_other, below)]];
        starts |= (uint64_t)1 << start % 64;
    }
    return starts;
}

/* Joins the runs of the two lines that contain each of the `voxels`. shared: other threads join
 * runs at the same time. */
static void join_voxels(const vol_stack *s, const pair *p, uint64_t voxels, bool shared)
{
    for (; voxels != 0; voxels &= voxels - 1) {
        const uint64_t below = (voxels & -voxels) - 1;
        const int32_t a = node_at(p->now, p->i, p->open_now, below);
        const int32_t b = node_at(p->other, p->i, p->open_other, below);

        unmark_root(s, shared ? uf_union_shared_fast(s->nodes, a, b) : join_roots(s->nodes, a, b),
                    shared);
    }
}

/* Returns a bit for the last voxel of each segment (series of ones in `segments`) that has no voxel
 * in common with `connected`. These segments are found by an addition: the voxels that `connected`
 * and `segments` have in common are added to `segments`. If a segment has such voxels, a carry sets
 * the bit after its end. If it has none, this bit remains 0, and the segment is one of those that
 * are returned. If a segment reaches bit 63, the carry leaves the word, so that the sum becomes
 * less than `segments`. */
static uint64_t unconnected_ends(uint64_t segments, uint64_t connected)
{
    const uint64_t sum = segments + (segments & connected);
    const uint64_t open_end = sum < segments ? 0 : segments & (uint64_t)1 << 63;

    return (segments << 1 & ~segments & ~sum) >> 1 | open_end;
}

/* Joins the runs of NOW with the overlapping runs of ACROSS; if `above`, also with those of ABOVE
 * (otherwise they are already joined). If is_new, the runs of NOW have no nodes yet: the function
 * makes the nodes, and gives most runs the parent of the first run that they touch. This is faster
 * than a union, and unions take most of the time if the picture is noisy, with many short runs. If
 * not is_new, other threads may join other lines at the same time. A segment that NOW and ACROSS
 * share needs no union if ABOVE and CORNER both contain a voxel next to it, as the runs of ABOVE
 * and CORNER already connect the runs of NOW and ACROSS. */
static void join_line(const vol_stack *s, const line lines[LINES], bool is_new, bool above)
{
    const line *const now = &lines[NOW];
    pair with_above = { now, &lines[ABOVE], 0, 0, 0 },
         with_across = { now, &lines[ACROSS], 0, 0, 0 };
    uint64_t before = 0;

    for (size_t i = 0; i < s->stride; i++) {
        /* the voxels that NOW shares with ABOVE and with ACROSS */
        const uint64_t shared_above = now->words[i] & lines[ABOVE].words[i],
                       shared_across = now->words[i] & lines[ACROSS].words[i];
        uint64_t first = 0, connected;

        if (is_new) {
            const runs r = runs_of(s, now, i);

            first = first_common(&r, shared_above | shared_across);
            make_roots(s, now, i, r.starts);
            s->roots[now->row * s->stride + i] =
                r.starts & ~(adopt_parents(s, &with_above, first & shared_above) |
                             adopt_parents(s, &with_across, first & ~shared_above));
        }
        const uint64_t joined = above ? vol_starts(shared_above, before) & ~first : 0;

        if (joined != 0)
            join_voxels(s, &with_above, joined, !is_new);
        /* No union with ACROSS is needed at a voxel where ABOVE and CORNER touch, or where
         * adopt_parents has already linked a run to its run of ACROSS. */
        connected = (lines[ABOVE].words[i] & lines[CORNER].words[i]) | (first & ~shared_above);
        const uint64_t ends = unconnected_ends(shared_across, connected);

        if (ends != 0)
            join_voxels(s, &with_across, ends, !is_new);
        before = shared_above >> 63;
        next_word(&with_above);
        next_word(&with_across);
    }
}

void vol_label_band(const vol_stack *s, size_t row0, size_t row1, uint64_t *scratch)
{
    assert(row0 <= row1 && row1 <= (size_t)s->ny * s->nz);
    line lines[LINES];

    make_lines(s, scratch, lines);
    for (size_t row = row0; row < row1; row++) {
        if (row % s->ny == 0) /* the first row of a slice has no row above it */
            memset(lines[ABOVE].words, 0, s->stride * sizeof(uint64_t));
        read_line(s, row, &lines[NOW]);
        if (s->is_3d && row >= row0 + s->ny)
            read_line(s, row - s->ny, &lines[ACROSS]);
        join_line(s, lines, /* is_new */ true, /* above */ true);
        swap_lines(&lines[NOW], &lines[ABOVE]);
        swap_lines(&lines[ACROSS], &lines[CORNER]);
    }
}

/* A seam is the border between a band of rows, [row0, row1), and the rows before it. Only the first
 * rows of the band have neighbours before row0: the row above row0 is row0 - 1, and in 3D the first
 * ny rows are adjacent to rows of the previous slice. vol_label_band has already joined each row
 * after row0 with the row above it. */
void vol_label_seam(const vol_stack *s, size_t row0, size_t row1, uint64_t *scratch)
{
    assert(row0 <= row1 && row1 <= (size_t)s->ny * s->nz);
    line lines[LINES];

    make_lines(s, scratch, lines);
    for (size_t row = row0; row < row1 && row < row0 + (s->is_3d ? s->ny : 1); row++) {
        read_line(s, row, &lines[NOW]);
        if (row % s->ny == 0)
            memset(lines[ABOVE].words, 0, s->stride * sizeof(uint64_t));
        else if (row == row0)
            read_line(s, row - 1, &lines[ABOVE]);
        if (s->is_3d && row >= s->ny)
            read_line(s, row - s->ny, &lines[ACROSS]);
        join_line(s, lines, /* is_new */ false, /* above */ row == row0);
        swap_lines(&lines[NOW], &lines[ABOVE]);
        swap_lines(&lines[ACROSS], &lines[CORNER]);
    }
}

size_t vol_runs(const vol_stack *s, size_t row, uint32_t *edges)
{
    uint64_t words[LAB_MAX_STRIDE];

    s->row(s->source, row, words);
    return lab_find_runs(words, s->nx, false, edges);
}
