/* Finds single components by a flood fill: see follow.h. */
#include "app/analysis/common/follow.h"

#include <assert.h>
#include <stdlib.h>

#include "app/base/random.h"

static size_t count_pixels(const an_follow *f)
{
    return (size_t)f->px->nx * f->px->ny * f->px->nz;
}

tc_status an_follow_begin(an_follow *f, size_t room, tc_err *err)
{
    assert(room > 0);
    f->room = room;
    f->queue = malloc(room * sizeof *f->queue);
    f->queued = calloc(count_pixels(f) / 8 + 1, 1);
    return f->queue == NULL || f->queued == NULL ? tc_no_memory(err, "the pixels") : TC_OK;
}

void an_follow_end(an_follow *f)
{
    free(f->queue);
    free(f->queued);
}

bool an_follow_accepts(const an_follow *f, size_t pixel)
{
    return (wu_grey_value(f->px, pixel) >= f->threshold) == f->above;
}

bool an_follow_find(const an_follow *f, size_t most, uint64_t *random, size_t *pixel)
{
    const size_t n = count_pixels(f);
    size_t i = (size_t)tc_random_below(n, random);

    for (; most > 0 && !an_follow_accepts(f, i); most--)
        i = i + 1 < n ? i + 1 : 0;
    *pixel = i;
    return most > 0;
}

static bool is_queued(const an_follow *f, size_t i)
{
    return (f->queued[i / 8] >> i % 8 & 1) != 0;
}

/* Adds a pixel to the component's sums and bounding box. */
static void extend_component(an_component *c, const uint32_t position[3], uint32_t grey)
{
    for (int k = 0; k < 3; k++) {
        c->lo[k] = c->pixels == 0 || position[k] < c->lo[k] ? position[k] : c->lo[k];
        c->hi[k] = c->pixels == 0 || position[k] >= c->hi[k] ? position[k] + 1 : c->hi[k];
        c->sum[k] += position[k];
    }
    c->grey += grey;
    c->pixels++;
}

/* Adds a neighbour of the pixel at `position` to the queue, if it belongs to the component and is
 * not in the queue yet. Returns false if the queue is full. */
static bool visit_neighbour(an_follow *f, const uint32_t position[3], int dy, int dx, size_t *end)
{
    const int64_t y = (int64_t)position[1] + dy, x = (int64_t)position[2] + dx;
    size_t i;

    if (y < 0 || y >= f->px->ny || x < 0 || x >= f->px->nx)
        return true;
    i = ((size_t)position[0] * f->px->ny + (size_t)y) * f->px->nx + (size_t)x;
    if (is_queued(f, i) || !an_follow_accepts(f, i))
        return true;
    if (*end == f->room)
        return false;
    f->queued[i / 8] |= (uint8_t)(1u << i % 8);
    f->queue[(*end)++] = i;
    return true;
}

void an_follow_component(an_follow *f, size_t pixel, an_component *out)
{
    assert(an_follow_accepts(f, pixel));
    static const int steps[8][2] = { { -1, 0 },  { 1, 0 },  { 0, -1 }, { 0, 1 },
                                     { -1, -1 }, { -1, 1 }, { 1, -1 }, { 1, 1 } };
    const size_t slice = (size_t)f->px->nx * f->px->ny;
    size_t end = 1;

    *out = (an_component){ .whole = true };
    f->queued[pixel / 8] |= (uint8_t)(1u << pixel % 8);
    f->queue[0] = pixel;
    for (size_t next = 0; next < end; next++) {
        const size_t i = f->queue[next];
        const uint32_t position[3] = { (uint32_t)(i / slice), (uint32_t)(i % slice / f->px->nx),
                                       (uint32_t)(i % slice % f->px->nx) };

        extend_component(out, position, wu_grey_value(f->px, i));
        for (int k = 0; k < (f->corners ? 8 : 4) && out->whole; k++)
            out->whole = visit_neighbour(f, position, steps[k][0], steps[k][1], &end);
    }
    for (size_t i = 0; i < end; i++) /* clears `queued` for the next call */
        f->queued[f->queue[i] / 8] = 0;
}
