/* volume: the memory that a stack takes at the peak, by what is in it. */
#include "app/analysis/volume/cpu.h"
#include "app/base/numbers.h"

static uint64_t voxels_of(const wu_item *item)
{
    return (uint64_t)item->nx * item->ny * item->nz;
}

vol_contents vol_most_contents(const vol_params *p, const wu_item *item)
{
    /* Cells have membrane between them in every row, and no fewer voxels than is asked for. */
    const uint64_t n = voxels_of(item),
                   apart = (uint64_t)item->ny * item->nz * ((item->nx + (uint64_t)1) / 2);

    /* Of each two maxima that meet a saddle, of which there is a plane or two at most. */
    return (vol_contents){ .components = apart,
                           .cells = tc_smaller(
                               apart, n / (uint64_t)(p->min_voxels > 2 ? p->min_voxels : 1)),
                           .saddles = tc_smaller((p->corners ? 20 : 10) * apart, 2 * n),
                           .plateaus = n,
                           .written = sizeof(vol_state) + (n + 1) * sizeof(int32_t) };
}

void vol_memory_of(const vol_params *p, const wu_item *item, const vol_contents *c, an_plan *out)
{
    /* of the result: item, label, voxels; volume; box; centroid; border */
    enum { ROW_BYTES = 3 * 8 + 8 + 6 * 8 + 3 * 8 + 1 };
    const uint64_t n = voxels_of(item);
    const uint64_t kept = n * (item->bits / 8) + c->written;
    /* Saddles, twice while they are sorted; or before that the borders of plateaus. */
    const uint64_t lists =
        p->watershed ? tc_larger(c->saddles * 2 * sizeof(ws_saddle), c->plateaus * 6) : 0;
    const uint64_t working =
        (uint64_t)item->ny * item->nz * lab_stride(item->nx) * sizeof(uint64_t) +
        (p->watershed ? n * sizeof(int32_t) : 0) +
        tc_larger(lists, c->components * sizeof(uint32_t));
    const uint64_t finishing = c->cells * (sizeof(vol_cell) + ROW_BYTES);

    out->memory_bytes = PLAN_PROGRAM + kept + tc_larger(working, finishing);
    /* Each thread has a table, if all of them together are no more than a byte a voxel. */
    if (2 * c->cells * sizeof(vol_cell) <= n)
        out->thread_bytes += c->cells * sizeof(vol_cell);
}

/* --- what is in a stack ---------------------------------------------------------------------- */

static tc_status step_until(void *worker, vol_state *state, vol_phase until, tc_err *err)
{
    uint64_t chunks = 0;
    tc_status status = TC_MORE;

    while (status == TC_MORE)
        status = vol_host_step(worker, state, until, &chunks, err);
    return status;
}

/* Bytes of the pages that labels are written to; a large state has large pages and begins with one
 * (os_zeroed). */
static uint64_t written(const vol_worker *w, const vol_state *state)
{
    enum { WORD = sizeof(int32_t), HEAD = offsetof(vol_state, nodes) / WORD };
    const size_t all = HEAD + w->n + 1,
                 page = (all * WORD < (size_t)4 << 20 ? 4096 : (size_t)2 << 20) / WORD;
    uint64_t pages = 1;

    for (size_t at = page; at < all; at += page) {
        const size_t end = all - at < page ? all : at + page;
        bool any = false;

        for (size_t i = at; !any && i < end; i++)
            any = state->nodes[i - HEAD] != 0;
        pages += any;
    }
    return tc_smaller(pages * page, all) * WORD;
}

/* Does as much of the work as the contents depend on. */
static tc_status look(void *worker, void *state_at, void *contents, tc_err *err)
{
    const vol_worker *const w = worker;
    vol_state *const state = state_at;
    vol_contents *const c = contents;
    tc_status status = step_until(worker, state, w->params->watershed ? VOL_EDGES : VOL_PAINT, err);

    if (status == TC_OK && w->params->watershed) {
        c->plateaus = 0;
        for (size_t i = 0; i < w->n; i++)
            c->plateaus += w->map.up[i] == WS_UNKNOWN;
    } else if (status == TC_OK && !vol_blurs(w->params)) {
        c->written = written(w, state);
    }
    if (status == TC_OK)
        status = step_until(worker, state, VOL_LAST, err);
    c->saddles = w->saddles;
    c->components = (uint64_t)w->cells;
    c->cells = state->cells;
    return status;
}

tc_status vol_memory(const an_work *work, an_plan *plan, tc_err *err)
{
    vol_contents c = vol_most_contents(work->params, work->item);
    const tc_status status = an_look(&vol_cpu, work, look, &c, err);

    if (status == TC_OK) {
        plan->thread_bytes = vol_thread_bytes(work->params, work->item);
        vol_memory_of(work->params, work->item, &c, plan);
    }
    return status;
}
