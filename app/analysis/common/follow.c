/* Finds single components by a flood fill: see follow.h. */
#include "app/analysis/common/follow.h"

#include <assert.h>
#include <stdlib.h>

#include "app/base/random.h"

static size_t pixels_of(const an_follow *f)
{
    return (size_t)f->px->nx * f->px->ny * f->px->nz;
}

tc_status an_follow_begin(an_follow *f, size_t room, tc_err *err)
{
    assert(room > 0);
    f->room = room;
    f->queue = malloc(room * sizeof *f->queue);
    f->seen = calloc(pixels_of(f) / 8 + 1, 1);
    return f->queue == NULL || f->seen == NULL ? tc_no_memory(err, "the pixels") : TC_OK;
}

void an_follow_end(an_follow *f)
{
    free(f->queue);
    free(f->seen);
}

bool an_follow_takes(const an_follow *f, size_t pixel)
{
    return (wu_grey(f->px, pixel) >= f->threshold) == f->above;
}

bool an_follow_find(const an_follow *f, size_t most, uint64_t *random, size_t *pixel)
{
    const size_t n = pixels_of(f);
    size_t i = (size_t)tc_random_below(n, random);

    for (; most > 0 && !an_follow_takes(f, i); most--)
        i = i + 1 < n ? i + 1 : 0;
    *pixel = i;
    return most > 0;
}

static bool is_seen(const an_follow *f, size_t i)
{
    return (f->seen[i / 8] >> i % 8 & 1) != 0;
}

static void extend_component(an_component *c, const uint32_t at[3], uint32_t grey)
{
    for (int k = 0; k < 3; k++) {
        c->lo[k] = c->pixels == 0 || at[k] < c->lo[k] ? at[k] : c->lo[k];
        c->hi[k] = c->pixels == 0 || at[k] >= c->hi[k] ? at[k] + 1 : c->hi[k];
        c->sum[k] += at[k];
    }
    c->grey += grey;
    c->pixels++;
}

/* Adds the neighbour (dz, dy, dx) of the pixel `at` to the queue if it belongs to the component and
 * is new. false: the queue is full. */
static bool visit_neighbour(an_follow *f, const uint32_t at[3], int dz, int dy, int dx, size_t *end)
{
    const int64_t z = (int64_t)at[0] + dz, y = (int64_t)at[1] + dy, x = (int64_t)at[2] + dx;
    size_t i;

    if (z < 0 || z >= f->px->nz || y < 0 || y >= f->px->ny || x < 0 || x >= f->px->nx)
        return true;
    i = ((size_t)z * f->px->ny + (size_t)y) * f->px->nx + (size_t)x;
    if (is_seen(f, i) || !an_follow_takes(f, i))
        return true;
    if (*end == f->room)
        return false;
    f->seen[i / 8] |= (uint8_t)(1u << i % 8);
    f->queue[(*end)++] = i;
    return true;
}

void an_follow_component(an_follow *f, size_t pixel, an_component *out)
{
    assert(an_follow_takes(f, pixel));
    static const int steps[10][3] = { { 0, -1, 0 }, { 0, 1, 0 }, { 0, 0, -1 },  { 0, 0, 1 },
                                      { -1, 0, 0 }, { 1, 0, 0 }, { 0, -1, -1 }, { 0, -1, 1 },
                                      { 0, 1, -1 }, { 0, 1, 1 } };
    const size_t slice = (size_t)f->px->nx * f->px->ny;
    size_t end = 1;

    *out = (an_component){ .whole = true };
    f->seen[pixel / 8] |= (uint8_t)(1u << pixel % 8);
    f->queue[0] = pixel;
    for (size_t next = 0; next < end; next++) {
        const size_t i = f->queue[next];
        const uint32_t at[3] = { (uint32_t)(i / slice), (uint32_t)(i % slice / f->px->nx),
                                 (uint32_t)(i % slice % f->px->nx) };

        extend_component(out, at, wu_grey(f->px, i));
        for (int k = 0; k < 10 && out->whole; k++)
            if ((k < 4 || k > 5 || f->through) && (k < 6 || f->corners))
                out->whole = visit_neighbour(f, at, steps[k][0], steps[k][1], steps[k][2], &end);
    }
    for (size_t i = 0; i < end; i++)
        f->seen[f->queue[i] / 8] = 0;
}
