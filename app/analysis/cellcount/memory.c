/* cellcount: estimates the greatest amount of memory that the analysis of a picture uses at a time,
 * which depends on the picture's contents (cc_contents). */
#include "app/analysis/cellcount/cpu.h"
#include "app/analysis/suggest.h"
#include "app/base/numbers.h"

enum { PAGE = 4096 /* bytes of a page of memory */ };

/* Returns the greatest number of regions that a result can have. It is the smaller of two numbers:
 * of isolated pixels that fit into the picture, and of regions of min_area pixels that fill it. The
 * number also holds for a split, since no two of its maxima touch. */
static uint64_t most_regions(const cc_params *p, const wu_item *item)
{
    const uint64_t nx = item->nx, ny = item->ny;
    const uint64_t isolated =
        p->eight_connected ? (nx + 1) / 2 * ((ny + 1) / 2) : (nx * ny + 1) / 2;

    return tc_smaller(isolated, nx * ny / (uint64_t)(p->min_area > 1 ? p->min_area : 1));
}

cc_contents cc_most_contents(const cc_params *p, const wu_item *item)
{
    const cc_params unfiltered = { .eight_connected = p->eight_connected };
    const uint64_t n = (uint64_t)item->nx * item->ny, runs = lab_max_ids(item->nx, item->ny),
                   most = most_regions(&unfiltered, item);
    const bool by_grey = p->split == CC_INTENSITY;

    return (cc_contents){ .runs = runs,
                          .ids = p->split && !p->fill_holes ? most : runs,
                          .components = most,
                          .regions = most_regions(p, item),
                          .saddles = by_grey ? tc_smaller(4 * most, n) : runs / 2,
                          .plateaus = by_grey ? n : 0 };
}

/* Returns the bytes of lab_picture.starts or lab_picture.ids that are written, in whole pages: each
 * band's part may begin in a page of its own. ids: the number of elements that are written. */
static uint64_t ids_bytes(const wu_item *item, uint64_t ids)
{
    return tc_smaller(lab_max_ids(item->nx, item->ny) * sizeof(int32_t),
                      ids * sizeof(int32_t) + cc_bands(item->nx, item->ny) * (uint64_t)PAGE);
}

/* Returns the bytes that a split needs in addition to planes: the larger of those for the saddles,
 * which exist twice while they are sorted, and for the borders of plateaus, which exist earlier (6
 * bytes for each pixel of a plateau). */
static uint64_t split_bytes(const cc_contents *c)
{
    return tc_larger(c->saddles * 2 * sizeof(ws_saddle), c->plateaus * 6);
}

void cc_memory_of(const cc_params *p, const wu_item *item, const cc_contents *c, an_plan *out)
{
    /* Bytes of a row of the result's table: item, label, area; box; centroid; mean; border. */
    enum { ROW_BYTES = 3 * 8 + 4 * 8 + 2 * 8 + 8 + 1 };
    const uint64_t n = (uint64_t)item->nx * item->ny, sample = item->bits / 8;
    const uint64_t table = (c->regions + 1) * sizeof(cc_region);
    const bool in_state = c->regions < cc_table_rows(item->nx, item->ny);
    const bool plane = p->labels || p->split || !in_state;
    const uint64_t pixels = n * (sample + (item->n_masks > 0));
    /* If the plane is not written, the state's head occupies a page. The table may begin anywhere
     * in a page, so it may occupy a further page. */
    const uint64_t state_pages =
        (plane ? n * sizeof(int32_t) : PAGE) + (in_state ? table + PAGE : 0);
    const uint64_t bits = lab_stride(item->nx) * item->ny * sizeof(uint64_t);
    const int steps =
        cc_has_step(p, CC_SMOOTH) + cc_has_step(p, CC_GROUND) + cc_has_step(p, CC_LOCAL_MEAN);
    const uint64_t prepared_bytes =
        (uint64_t)((steps < 2 ? steps : 2) + cc_has_step(p, CC_EXTREME)) * n * sample;
    const uint64_t labelling_bytes =
        p->split ? n * (sizeof(int32_t) + (p->split == CC_DISTANCE)) + ids_bytes(item, c->ids)
                 : (p->labels ? 0 : ids_bytes(item, c->runs) + item->ny * sizeof(size_t)) +
                       ids_bytes(item, c->ids);
    const uint64_t areas = cc_has_filters(p) ? c->components * sizeof(uint32_t) : 0;
    const uint64_t sieve_bytes = cc_needs_boxes(p) ? c->components * sizeof(cc_filter_values) : 0;
    const uint64_t phases_bytes = state_pages + bits + prepared_bytes + labelling_bytes +
                                  tc_larger(p->split ? split_bytes(c) : 0, areas + sieve_bytes);
    const uint64_t finish_bytes = state_pages + (in_state ? 0 : table) + c->regions * ROW_BYTES;
    /* window "auto" analyses the picture's middle, with at most 64 bytes for each pixel, planes
     * included. */
    const uint64_t window_search = p->window_auto ? (uint64_t)an_middle_pixels(item) * 64 : 0;

    /* 1/32 is added, as each allocation is rounded up to pages. */
    out->memory_bytes = PLAN_PROGRAM_BYTES + pixels +
                        tc_larger(phases_bytes, tc_larger(finish_bytes, window_search)) / 32 * 33;
    /* If two tables fit into a plane, each thread has its own table (cc_measure_begin). */
    if (2 * table <= n * sizeof(int32_t))
        out->thread_bytes += table;
}

/* --- the contents of a picture --------------------------------------------------------------- */

static tc_status run_until(void *worker, void *state, cc_phase until, tc_err *err)
{
    uint64_t chunks = 0;
    tc_status status = TC_MORE;

    while (status == TC_MORE)
        status = cc_host_step(worker, state, until, &chunks, err);
    return status;
}

static void count_runs(const cc_worker *w, cc_contents *c)
{
    c->runs = 0;
    /* With fill_holes, runs of background are stored, of which a row has at most one more than runs
     * of cells. */
    for (uint32_t y = 0; y < w->ny; y++)
        c->runs += lab_find_row_runs(&w->picture, y, w->scratch[0].edges) + w->params->fill_holes;
}

/* For an_use_worker: runs the phases that the contents depend on, and counts the contents. */
static tc_status count_contents(void *worker, void *state, void *contents, tc_err *err)
{
    const cc_worker *const w = worker;
    cc_contents *const c = contents;
    const size_t n = (size_t)w->nx * w->ny;
    tc_status status = run_until(worker, state, CC_HOLES, err);

    if (status == TC_OK)
        count_runs(w, c);
    if (status == TC_OK && w->params->split == CC_INTENSITY) {
        status = run_until(worker, state, CC_EDGES, err);
        c->plateaus = 0;
        for (size_t i = 0; status == TC_OK && i < n; i++)
            c->plateaus += w->up[i] == WS_UNKNOWN;
    }
    if (status == TC_OK)
        status = run_until(worker, state, CC_PAINT, err);
    /* With fill_holes the number of ids that the background used is no longer known; it was at most
     * the number of runs. */
    c->ids = w->params->fill_holes ? c->runs : 0;
    for (uint32_t band = 0; !w->params->fill_holes && status == TC_OK && band < w->bands; band++)
        c->ids += (uint64_t)w->end[band] - lab_max_ids(w->nx, (size_t)band * cc_band_rows(w->nx));
    c->components = (uint64_t)w->first[w->bands];
    c->regions = w->regions;
    c->saddles = w->saddles;
    return status;
}

tc_status cc_memory(const an_work *work, an_plan *plan, tc_err *err)
{
    cc_contents c = cc_most_contents(work->params, work->item);
    const tc_status status = an_use_worker(&cc_cpu, work, count_contents, &c, err);

    if (status == TC_OK) {
        plan->thread_bytes = cc_thread_bytes(work->params, work->item);
        cc_memory_of(work->params, work->item, &c, plan);
    }
    return status;
}
