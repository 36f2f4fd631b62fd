/* The watershed transform on the CPU: see watershed.h. */
#include "app/analysis/common/watershed.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "app/analysis/common/union_find.h"
#include "app/base/array.h"
#include "app/base/os.h"
#include "app/base/sort.h"

enum {
    MOST_STEPS = 26, /* greatest number of neighbours of a pixel */
    RECENT_BITS = 12 /* ws_list.recent has 2^RECENT_BITS elements */
};

void ws_list_drop(ws_list *list)
{
    free(list->saddles);
    free(list->pixels);
    free(list->recent);
    memset(list, 0, sizeof *list);
}

/* --- neighbours ------------------------------------------------------------------------------ */

/* The steps from a pixel to its neighbours, in raster order; variables of this type are called w.
 */
typedef struct steps {
    int n, before; /* number of steps; the first `before` of them lead to pixels that are earlier in
                      raster order */
    int8_t dx[MOST_STEPS], dy[MOST_STEPS], dz[MOST_STEPS];
    ptrdiff_t offset[MOST_STEPS]; /* index of the neighbour minus index of the pixel */
} steps;

static steps steps_of(const ws_shape *s)
{
    steps w = { .n = 0 };

    for (int dz = -s->depth; dz <= s->depth; dz++)
        for (int dy = -1; dy <= 1; dy++)
            for (int dx = -1; dx <= 1; dx++)
                if (ws_is_step(dx, dy, dz, s->corners)) {
                    w.dx[w.n] = (int8_t)dx;
                    w.dy[w.n] = (int8_t)dy;
                    w.dz[w.n] = (int8_t)dz;
                    w.offset[w.n++] = ((ptrdiff_t)dz * s->ny + dy) * s->nx + dx;
                }
    w.before = w.n / 2;
    return w;
}

/* A pixel's coordinates. */
typedef struct position_xyz {
    int32_t x, y, z;
} position_xyz;

/* The coordinates of pixel i. */
static position_xyz position_of(const ws_shape *s, size_t i)
{
    const size_t row = i / (size_t)s->nx;

    return (position_xyz){ (int32_t)(i % (size_t)s->nx), (int32_t)(row % (size_t)s->ny),
                           (int32_t)(row / (size_t)s->ny) };
}

/* Whether step k from a pixel leads to a pixel of the picture. */
static inline bool step_is_within(const ws_shape *s, const steps *w, position_xyz position, int k)
{
    return ws_is_within(s, position.x + w->dx[k], position.y + w->dy[k], position.z + w->dz[k]);
}

/* Whether all neighbours of the pixels of a row are in the picture, except for those of its first
 * and last pixel. */
static bool is_inner_row(const ws_shape *s, position_xyz position)
{
    return position.y > 0 && position.y + 1 < s->ny &&
           (!s->depth || (position.z > 0 && position.z + 1 < s->nz));
}

/* --- uphill ---------------------------------------------------------------------------------- */

/* Does the same as ws_highest_neighbour, but only for a pixel i whose neighbours are all in the
 * picture. */
static inline size_t highest_around(const uint32_t *height, size_t i, const steps *w, bool plateaus)
{
    uint32_t most = height[i];
    ptrdiff_t best = 0; /* offset of the best pixel so far from pixel i */

    for (int k = 0; k < w->before; k++) {
        const uint32_t h = height[(ptrdiff_t)i + w->offset[k]];
        /* of pixels of equal height the first in raster order is taken, if need be instead of i */
        const bool better = h > most || (h == most && best == 0 && !plateaus);

        most = better ? h : most;
        best = better ? w->offset[k] : best;
    }
    for (int k = w->before; k < w->n; k++) {
        const uint32_t h = height[(ptrdiff_t)i + w->offset[k]];

        best = h > most ? w->offset[k] : best;
        most = h > most ? h : most;
    }
    return (size_t)((ptrdiff_t)i + best);
}

/* Does WS_ASCEND for rows [row0, row1). */
static void ascend_rows(const ws_map *m, size_t row0, size_t row1)
{
    const ws_shape *const s = &m->shape;
    const size_t nx = (size_t)s->nx;
    const steps w = steps_of(s);

    for (size_t row = row0; row < row1; row++) {
        const position_xyz position = position_of(s, row * nx);
        const bool inner = is_inner_row(s, position);

        for (size_t x = 0; x < nx; x++) {
            const size_t i = row * nx + x;
            size_t to;

            if (m->height[i] == 0) {
                m->up[i] = WS_NO_HILL;
                continue;
            }
            to = inner && x > 0 && x + 1 < nx
                     ? highest_around(m->height, i, &w, m->plateaus)
                     : (size_t)ws_highest_neighbour(m->height, s, (int32_t)x, position.y,
                                                    position.z, m->plateaus);
            m->up[i] = m->plateaus && to == i ? WS_UNKNOWN : (int32_t)to;
        }
    }
}

/* --- plateaus -------------------------------------------------------------------------------- */

/* Appends pixel i to list->pixels. */
static void add_pixel(ws_list *list, size_t i)
{
    int32_t *const pixels =
        tc_array_grow(list->pixels, list->n_pixels, &list->pixel_room, sizeof *pixels);

    if (pixels == NULL) {
        list->no_memory = true;
        return;
    }
    list->pixels = pixels;
    list->pixels[list->n_pixels++] = (int32_t)i;
}

/* Does WS_EDGES for rows [row0, row1): collects the pixels of plateaus that are next to the
 * plateau's upper border: their `up` is not known, but they have a neighbour of equal height whose
 * `up` is known. */
static void edge_rows(const ws_map *m, size_t row0, size_t row1, ws_list *list)
{
    const ws_shape *const s = &m->shape;
    const size_t end = row1 * (size_t)s->nx;
    const steps w = steps_of(s);

    for (size_t i = row0 * (size_t)s->nx; i < end; i++) {
        position_xyz position;

        if (m->up[i] != WS_UNKNOWN)
            continue;
        position = position_of(s, i);
        for (int k = 0; k < w.n; k++) {
            const size_t neighbour = (size_t)((ptrdiff_t)i + w.offset[k]);

            /* Other threads may set values to WS_PENDING meanwhile, which are negative like
             * WS_UNKNOWN. */
            if (step_is_within(s, &w, position, k) && m->height[neighbour] == m->height[i] &&
                uf_load(&m->up[neighbour]) >= 0) {
                uf_store(&m->up[i], WS_PENDING((int32_t)neighbour));
                add_pixel(list, i);
                break;
            }
        }
    }
}

/* Goes one step further into plateaus: from the pixels of list `from`, for which `up` is known, to
 * their neighbours of equal height, which are added to list `to`. The preliminary value of `up` of
 * a neighbour becomes WS_PENDING(i), unless the neighbour's value already leads to a pixel before i
 * or is final. Such values are at least WS_PENDING(i). */
static tc_status enter_plateaus(const ws_map *m, const steps *w, const ws_list *from, ws_list *to,
                                const tc_poll *poll, tc_err *err)
{
    enum { BLOCK = 1 << 16 }; /* pixels from one call of the poll to the next */

    for (size_t n = 0; n < from->n_pixels; n++) {
        const int32_t i = from->pixels[n];
        const position_xyz position = position_of(&m->shape, (size_t)i);

        for (int k = 0; k < w->n; k++) {
            const ptrdiff_t neighbour = i + w->offset[k];

            if (!step_is_within(&m->shape, w, position, k) ||
                m->height[neighbour] != m->height[i] || m->up[neighbour] >= WS_PENDING(i))
                continue;
            if (m->up[neighbour] == WS_UNKNOWN)
                add_pixel(to, (size_t)neighbour);
            m->up[neighbour] = WS_PENDING(i);
        }
        if (n % BLOCK == 0)
            return_if_error(tc_call_poll(poll, err));
    }
    return TC_OK;
}

/* Makes the preliminary values of `up` of the list's pixels final, from WS_PENDING(i) to i. The
 * macro is its own inverse. */
static tc_status settle_pixels(const ws_map *m, const ws_list *list, const tc_poll *poll,
                               tc_err *err)
{
    if (list->no_memory)
        return tc_no_memory(err, "the plateaus");

    for (size_t i = 0, end; i < list->n_pixels;) {
        for (end = tc_block_end(i, list->n_pixels); i < end; i++)
            m->up[list->pixels[i]] = WS_PENDING(m->up[list->pixels[i]]);
        return_if_error(tc_call_poll(poll, err));
    }
    return TC_OK;
}

/* Completes WS_EDGES: goes from the pixels of the lists into the plateaus, step by step. */
static tc_status cross_plateaus(const ws_map *m, ws_list *lists, size_t n_lists,
                                const tc_poll *poll, tc_err *err)
{
    const steps w = steps_of(&m->shape);
    ws_list current = { .n = 0 }, next = { .n = 0 };
    tc_status status = TC_OK;

    for (size_t k = 0; status == TC_OK && k < n_lists; k++)
        status = settle_pixels(m, &lists[k], poll, err);
    for (size_t k = 0; k < n_lists; k++) {
        if (status == TC_OK)
            status = enter_plateaus(m, &w, &lists[k], &current, poll, err);
        free(lists[k].pixels);
        lists[k].pixels = NULL;
        lists[k].n_pixels = lists[k].pixel_room = 0;
    }
    while (status == TC_OK && (current.n_pixels > 0 || current.no_memory)) {
        ws_list previous;

        status = settle_pixels(m, &current, poll, err);
        if (status == TC_OK)
            status = enter_plateaus(m, &w, &current, &next, poll, err);
        previous = current;
        current = next;
        next = previous;
        next.n_pixels = 0;
    }
    ws_list_drop(&current);
    ws_list_drop(&next);
    return status;
}

/* Does WS_FLAT for rows [row0, row1). */
static void flat_rows(const ws_map *m, size_t row0, size_t row1)
{
    const size_t nx = (size_t)m->shape.nx;

    for (size_t i = row0 * nx; i < row1 * nx; i++)
        if (m->up[i] == WS_UNKNOWN)
            m->up[i] = UF_LINK((int32_t)i);
}

/* Does WS_FLAT_JOIN for rows [row0, row1). Neighbours of equal height belong to the same plateau,
 * so they are nodes of the union-find, too. The link to node 0 has the same value as WS_NO_HILL; so
 * pixels that belong to no hill are recognised by their height, 0. */
static void flat_join_rows(const ws_map *m, size_t row0, size_t row1)
{
    const ws_shape *const s = &m->shape;
    const steps w = steps_of(s);

    for (size_t i = row0 * (size_t)s->nx; i < row1 * (size_t)s->nx; i++) {
        position_xyz position;

        if (uf_load(&m->up[i]) >= 0 || m->height[i] == 0)
            continue;
        position = position_of(s, i);
        for (int k = 0; k < w.before; k++) {
            const size_t neighbour = (size_t)((ptrdiff_t)i + w.offset[k]);

            if (step_is_within(s, &w, position, k) && m->height[neighbour] == m->height[i])
                uf_union_shared_fast(m->up, (int32_t)i, (int32_t)neighbour);
        }
    }
}

/* --- maxima ---------------------------------------------------------------------------------- */

/* The next pixel on the path from pixel i. On a plateau up[i] is a link of the union-find, which is
 * negative. */
static inline int32_t next_of(int32_t *up, int32_t i)
{
    const int32_t next = uf_load(&up[i]);

    return next < 0 ? UF_LINK(next) : next;
}

/* Follows the path from pixel i to its end, and lets all pixels of the path lead there. Other
 * threads may do the same: whatever they write leads to the same end. */
static int32_t follow_up(int32_t *up, int32_t i)
{
    int32_t end = i, next;

    while ((next = next_of(up, end)) != end)
        end = next;
    do {
        next = next_of(up, i);
        uf_store(&up[i], end);
        i = next;
    } while (i != end);
    return end;
}

/* Does WS_MAXIMA for rows [row0, row1). */
static void top_rows(const ws_map *m, size_t row0, size_t row1)
{
    const size_t nx = (size_t)m->shape.nx;

    for (size_t i = row0 * nx; i < row1 * nx; i++)
        if (m->height[i] != 0)
            follow_up(m->up, (int32_t)i);
}

/* --- saddles --------------------------------------------------------------------------------- */

/* Adds a saddle between the maxima a and b. If list->recent refers to a saddle of this pair, the
 * height of that saddle is raised instead. The list may still contain several saddles of a pair, as
 * list->recent refers only to the last saddle for each hash. */
static void add_saddle(ws_list *list, int32_t a, int32_t b, uint32_t height)
{
    const int32_t lo = a < b ? a : b, hi = a < b ? b : a;
    const uint32_t hash = /* both indices multiplied by large odd constants */
        ((uint32_t)lo * 2654435769u ^ (uint32_t)hi * 2246822519u) >> (32 - RECENT_BITS);
    const uint32_t index = list->recent[hash];
    ws_saddle *saddles;

    if (index < list->n && list->saddles[index].a == lo && list->saddles[index].b == hi) {
        list->saddles[index].height =
            height > list->saddles[index].height ? height : list->saddles[index].height;
        return;
    }
    saddles = tc_array_grow(list->saddles, list->n, &list->room, sizeof *saddles);
    if (saddles == NULL) {
        list->no_memory = true;
        return;
    }
    list->saddles = saddles;
    list->recent[hash] = (uint32_t)list->n;
    list->saddles[list->n++] = (ws_saddle){ lo, hi, height };
}

/* Compares two saddles for sorting: by their maxima; of the same maxima, the higher saddle comes
 * first. */
static int by_pair(const void *va, const void *vb)
{
    const ws_saddle *const a = va, *const b = vb;

    if (a->a != b->a)
        return a->a < b->a ? -1 : 1;
    if (a->b != b->b)
        return a->b < b->b ? -1 : 1;
    return a->height != b->height ? (a->height > b->height ? -1 : 1) : 0;
}

/* A key for sorting saddles in ascending order of keys: the highest saddles come first. */
static uint32_t height_key(const void *saddle)
{
    return ~((const ws_saddle *)saddle)->height;
}

/* Keeps only the highest saddle of each pair of maxima among the saddles from index `from` on,
 * which are sorted by by_pair. */
static void keep_highest(ws_list *p, size_t from)
{
    size_t n = from;

    for (size_t i = from; i < p->n; i++)
        if (n == from || p->saddles[i].a != p->saddles[n - 1].a ||
            p->saddles[i].b != p->saddles[n - 1].b)
            p->saddles[n++] = p->saddles[i];
    p->n = n;
}

/* Whether the maxima a and b remain separate at a saddle of this height. If so, they remain
 * separate there later, too: they can only be joined with higher maxima, and m->is_separate is
 * monotonic. */
static bool is_separate(const ws_map *m, int32_t a, int32_t b, uint32_t saddle)
{
    return m->is_separate(m->rule, m->height[a] < m->height[b] ? m->height[a] : m->height[b],
                          saddle);
}

/* Finds the saddles between the pixels of a row and their neighbours later in the raster. */
static void saddles_of_row(const ws_map *m, const steps *w, size_t row, ws_list *list)
{
    const ws_shape *const s = &m->shape;
    const size_t nx = (size_t)s->nx;
    position_xyz position = position_of(s, row * nx);
    const bool inner = is_inner_row(s, position);

    for (position.x = 0; position.x < s->nx; position.x++) {
        const size_t i = row * nx + (size_t)position.x;
        const int32_t maximum = m->up[i];
        const bool is_inner = inner && position.x > 0 && position.x + 1 < s->nx;

        if (maximum < 0)
            continue;
        for (int k = w->before; k < w->n; k++) {
            const ptrdiff_t neighbour = (ptrdiff_t)i + w->offset[k];

            if (!is_inner && !step_is_within(s, w, position, k))
                continue;
            if (m->up[neighbour] != maximum && m->up[neighbour] >= 0) {
                const uint32_t saddle =
                    m->height[i] < m->height[neighbour] ? m->height[i] : m->height[neighbour];

                if (!is_separate(m, maximum, m->up[neighbour], saddle))
                    add_saddle(list, maximum, m->up[neighbour], saddle);
            }
        }
    }
}

/* Does WS_SADDLES for rows [row0, row1). */
static void saddle_rows(const ws_map *m, size_t row0, size_t row1, ws_list *list)
{
    const size_t before = list->n;
    const steps w = steps_of(&m->shape);

    if (list->recent == NULL)
        list->recent = calloc((size_t)1 << RECENT_BITS, sizeof *list->recent);
    if (list->recent == NULL) {
        list->no_memory = true;
        return;
    }
    for (size_t row = row0; row < row1; row++)
        saddles_of_row(m, &w, row, list);
    /* Keeps one saddle for each pair of maxima. */
    if (list->n > before)
        qsort(list->saddles + before, list->n - before, sizeof *list->saddles, by_pair);
    keep_highest(list, before);
}

/* Moves the saddles of all lists to the empty list `gathered`. */
static tc_status gather_saddles(ws_list *lists, size_t n_lists, ws_list *gathered,
                                const tc_poll *poll, tc_err *err)
{
    tc_status status = TC_OK;
    size_t n = 0;

    for (size_t k = 0; k < n_lists; k++)
        n += lists[k].n;
    gathered->saddles = os_alloc_zeroed((n + 1) * sizeof *gathered->saddles);
    if (gathered->saddles == NULL)
        return tc_no_memory(err, "the saddles");
    for (size_t k = 0; k < n_lists; k++) {
        ws_list *const p = &lists[k];

        for (size_t i = 0, end; status == TC_OK && i < p->n;
             i = end, status = tc_call_poll(poll, err)) {
            end = tc_block_end(i, p->n);
            memcpy(gathered->saddles + gathered->n, p->saddles + i, (end - i) * sizeof *p->saddles);
            gathered->n += end - i;
        }
        ws_list_drop(p);
    }
    return status;
}

/* Returns the maximum at the end of the path of joined maxima from i; shortens the path. */
static int32_t maximum_of(int32_t *up, int32_t i)
{
    while (up[i] != i) {
        up[i] = up[up[i]];
        i = up[i];
    }
    return i;
}

/* Joins maxima at those saddles where m->is_separate is false. saddles: sorted, the highest saddles
 * first. */
static tc_status join_maxima(const ws_map *m, const ws_list *saddles, const tc_poll *poll,
                             tc_err *err)
{
    const uint32_t *const height = m->height;

    for (size_t i = 0; i < saddles->n; i++) {
        const ws_saddle *const s = &saddles->saddles[i];
        const int32_t a = maximum_of(m->up, s->a), b = maximum_of(m->up, s->b);
        const bool a_higher = height[a] > height[b] || (height[a] == height[b] && a < b);
        const int32_t low = a_higher ? b : a, high = a_higher ? a : b;

        if (a != b && !m->is_separate(m->rule, height[low], s->height))
            m->up[low] = high;
        return_if_error(tc_call_poll(poll, err));
    }
    return TC_OK;
}

/* Completes WS_SADDLES: sorts the saddles of all lists, and joins maxima at them. */
static tc_status join_hills(const ws_map *m, ws_list *lists, size_t n_lists, const tc_poll *poll,
                            tc_err *err)
{
    TC_AUTO(ws_list_drop) ws_list all = { .n = 0 };
    return_if_error(gather_saddles(lists, n_lists, &all, poll, err));

    /* Several saddles of the same pair of maxima do no harm: if m->is_separate is true at the
     * highest of them, it is also true at the lower ones. */
    return_if_error(
        tc_sort_by_key(all.saddles, all.n, sizeof *all.saddles, height_key, by_pair, poll, err));
    return join_maxima(m, &all, poll, err);
}

/* --- hills ----------------------------------------------------------------------------------- */

void ws_find_first_pixels(const ws_map *m, size_t row0, size_t row1, int32_t *first,
                          bool (*counts)(const void *user, size_t i), const void *user)
{
    assert(row0 <= row1 && row1 <= (size_t)m->shape.ny * (size_t)m->shape.nz);
    const size_t nx = (size_t)m->shape.nx;

    for (size_t i = row0 * nx; i < row1 * nx; i++) {
        int32_t *slot, current;

        if (uf_load(&m->up[i]) < 0)
            continue;
        slot = &first[follow_up(m->up, (int32_t)i)];
        current = uf_load(slot);
        if ((int32_t)i >= current || (counts != NULL && !counts(user, i)))
            continue;
        while ((int32_t)i < current &&
               !__atomic_compare_exchange_n(slot, &current, (int32_t)i, false, __ATOMIC_RELAXED,
                                            __ATOMIC_RELAXED))
            ;
    }
}

/* --- part by part ---------------------------------------------------------------------------- */

void ws_process_rows(const ws_map *m, ws_part part, size_t row0, size_t row1, ws_list *list)
{
    assert(row0 <= row1 && row1 <= (size_t)m->shape.ny * (size_t)m->shape.nz);
    switch (part) {
    case WS_ASCEND: ascend_rows(m, row0, row1); break;
    case WS_EDGES: edge_rows(m, row0, row1, list); break;
    case WS_FLAT: flat_rows(m, row0, row1); break;
    case WS_FLAT_JOIN: flat_join_rows(m, row0, row1); break;
    case WS_MAXIMA: top_rows(m, row0, row1); break;
    case WS_SADDLES: saddle_rows(m, row0, row1, list); break;
    }
}

tc_status ws_complete_part(const ws_map *m, ws_part part, ws_list *lists, size_t n_lists,
                           const tc_poll *poll, tc_err *err)
{
    return part == WS_EDGES     ? cross_plateaus(m, lists, n_lists, poll, err)
           : part == WS_SADDLES ? join_hills(m, lists, n_lists, poll, err)
                                : TC_OK;
}
