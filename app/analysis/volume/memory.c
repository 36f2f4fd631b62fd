/* volume: computes the peak memory that the analysis of a stack takes from the numbers of its
 * components, cells, saddles between maxima, and voxels of plateaus (vol_contents). */
#include "app/analysis/volume/cpu.h"
#include "app/base/numbers.h"

static uint64_t voxels_of(const wu_item *item)
{
    return (uint64_t)item->nx * item->ny * item->nz;
}

vol_contents vol_most_contents(const vol_params *p, const wu_item *item)
{
    /* At most every other voxel of a row begins a component; a cell has at least min_voxels. */
    const uint64_t n = voxels_of(item),
                   most_components = (uint64_t)item->ny * item->nz * ((item->nx + (uint64_t)1) / 2);

    /* Any two adjacent maxima have a saddle. The bound allows 10 saddles (with corners 20) for each
     * possible maximum, but not more than 2 for each voxel. */
    return (vol_contents){
        .components = most_components,
        .cells = tc_smaller(most_components, n / (uint64_t)(p->min_voxels > 2 ? p->min_voxels : 1)),
        .saddles = tc_smaller((p->corners ? 20 : 10) * most_components, 2 * n),
        .plateaus = n,
        .written = sizeof(vol_state) + (n + 1) * sizeof(int32_t)
    };
}

void vol_memory_of(const vol_params *p, const wu_item *item, const vol_contents *c, an_plan *out)
{
    /* The bytes of a row of the result. The terms are the columns, in this order: item, label and
     * voxels; volume; bbox; centroid; border. */
    enum { ROW_BYTES = 3 * 8 + 8 + 6 * 8 + 3 * 8 + 1 };
    const uint64_t n = voxels_of(item);
    const uint64_t always = n * (item->bits / 8) + c->written; /* the pixels and the state */
    /* The larger of two lists that do not exist at the same time: the saddles, which take twice
     * their size while they are sorted, and the border voxels of plateaus. */
    const uint64_t lists =
        p->watershed ? tc_larger(c->saddles * 2 * sizeof(ws_saddle), c->plateaus * 6) : 0;
    /* While components are found: the bits of the roots; the watershed's plane of directions; and
     * the lists, or later the sizes of the components. */
    const uint64_t working =
        (uint64_t)item->ny * item->nz * lab_stride(item->nx) * sizeof(uint64_t) +
        (p->watershed ? n * sizeof(int32_t) : 0) +
        tc_larger(lists, c->components * sizeof(uint32_t));
    const uint64_t finishing = c->cells * (sizeof(vol_cell) + ROW_BYTES);

    out->memory_bytes = PLAN_PROGRAM_BYTES + always + tc_larger(working, finishing);
    /* Cells are measured with a table for each thread only if all tables together take at most a
     * byte for each voxel. So there is more than one table only if two fit. */
    if (2 * c->cells * sizeof(vol_cell) <= n)
        out->thread_bytes += c->cells * sizeof(vol_cell);
}

/* --- the contents of a stack ----------------------------------------------------------------- */

/* Processes the item up to the beginning of phase `until`. */
static tc_status step_until(void *worker, vol_state *state, vol_phase until, tc_err *err)
{
    uint64_t chunks = 0;
    tc_status status = TC_MORE;

    while (status == TC_MORE)
        status = vol_host_step(worker, state, until, &chunks, err);
    return status;
}

/* Returns the number of bytes of the state in pages of memory that contain a label other than 0;
 * the other pages are assumed to take no memory. A state of at least 4 MiB has pages of 2 MiB and
 * begins at the beginning of a page (os_alloc_zeroed); a smaller state has pages of 4 KiB. */
static uint64_t written_bytes(const vol_worker *w, const vol_state *state)
{
    enum { WORD = sizeof(int32_t), HEAD = offsetof(vol_state, nodes) / WORD };
    const size_t words = HEAD + w->n + 1,
                 page = (words * WORD < (size_t)4 << 20 ? 4096 : (size_t)2 << 20) / WORD;
    uint64_t pages = 1;

    for (size_t first = page; first < words; first += page) {
        const size_t end = words - first < page ? words : first + page;
        bool any = false;

        for (size_t i = first; !any && i < end; i++)
            any = state->nodes[i - HEAD] != 0;
        pages += any;
    }
    return tc_smaller(pages * page, words) * WORD;
}

/* Called by an_use_worker: processes the phases up to VOL_SIZES, and sets *contents to the numbers
 * that were found. */
static tc_status count_contents(void *worker, void *state_data, void *contents, tc_err *err)
{
    const vol_worker *const w = worker;
    vol_state *const state = state_data;
    vol_contents *const c = contents;
    tc_status status = step_until(worker, state, w->params->watershed ? VOL_EDGES : VOL_PAINT, err);

    if (status == TC_OK && w->params->watershed) {
        c->plateaus = 0;
        for (size_t i = 0; i < w->n; i++)
            c->plateaus += w->map.up[i] == WS_UNKNOWN;
    } else if (status == TC_OK && !vol_has_blur(w->params)) {
        c->written = written_bytes(w, state);
    }
    if (status == TC_OK)
        status = step_until(worker, state, VOL_RELABEL, err);
    c->saddles = w->saddles;
    c->components = (uint64_t)w->cells;
    c->cells = state->cells;
    return status;
}

tc_status vol_memory(const an_work *work, an_plan *plan, tc_err *err)
{
    vol_contents c = vol_most_contents(work->params, work->item);
    const tc_status status = an_use_worker(&vol_cpu, work, count_contents, &c, err);

    if (status == TC_OK) {
        plan->thread_bytes = vol_thread_bytes(work->params, work->item);
        vol_memory_of(work->params, work->item, &c, plan);
    }
    return status;
}
