/*
 * volume: the phases of method watershed on the CPU, which make labels from the heights of the
 * voxels. Cells are the hills of the heights: the dark regions between bright membranes.
 */
#include "app/analysis/common/union_find.h"
#include "app/analysis/volume/cpu.h"

uint32_t vol_least_rise(const vol_params *p)
{
    return (uint32_t)(p->h * (1 << VOL_GREY_BITS) + 0.5);
}

/* Implements ws_map.is_separate: whether the maximum is at least h higher than the saddle. rule:
 * the vol_params. */
static bool is_separate_by_height(const void *rule, uint32_t maximum, uint32_t saddle)
{
    return maximum - saddle >= vol_least_rise(rule);
}

ws_map vol_map_of(const vol_params *p, const wu_item *item)
{
    return (ws_map){ .shape = { (int32_t)item->nx, (int32_t)item->ny, (int32_t)item->nz, p->corners,
                                p->is_3d },
                     .plateaus = true,
                     .is_separate = is_separate_by_height,
                     .rule = p };
}

/* Returns the part of the watershed (ws_part) that corresponds to the current phase; both enums
 * have these parts in the same order. */
static ws_part part_of(const vol_worker *w)
{
    return (ws_part)(w->phase - VOL_ASCEND + WS_ASCEND);
}

/* A phase from VOL_ASCEND to VOL_SADDLES, for a band. */
static void uphill_band(vol_worker *w, size_t band, vol_scratch *s)
{
    const vol_range r = vol_band(w, band);

    ws_process_rows(&w->map, part_of(w), r.from, r.to, s->list);
}

static tc_status end_uphill(vol_worker *w, vol_state *state, tc_err *err)
{
    (void)state;
    for (unsigned t = 0; t < w->work->threads; t++)
        w->saddles += w->lists[t].n;
    return ws_complete_part(&w->map, part_of(w), w->lists, w->work->threads, w->work->poll, err);
}

/* --- labels ---------------------------------------------------------------------------------- */

/* Returns the plane of all voxels' nodes. Until VOL_CLEAR it holds heights. In VOL_FIRST the
 * element of each cell's maximum becomes the index of the cell's first voxel; in VOL_NUMBER_CELLS
 * it becomes ~label. */
static int32_t *plane_of(const vol_worker *w)
{
    return w->stack.nodes + 1;
}

/* Replaces the band's heights by INT32_MAX, which is greater than any voxel's index, as
 * ws_find_first_pixels keeps the least index. */
static void clear_band(vol_worker *w, size_t band, vol_scratch *s)
{
    const vol_range r = vol_band(w, band);

    (void)s;
    for (size_t i = r.from * w->nx; i < r.to * w->nx; i++)
        plane_of(w)[i] = INT32_MAX;
}

/* Whether voxel i belongs to a cell and not to the membrane. Is passed to ws_find_first_pixels.
 * user: the worker. */
static bool is_of_cell(const void *user, size_t i)
{
    const vol_worker *const w = user;

    return w->params->fill || !vol_is_membrane(wu_grey_value(w->work->pixels, i), w->threshold);
}

static void find_first_band(vol_worker *w, size_t band, vol_scratch *s)
{
    const vol_range r = vol_band(w, band);

    (void)s;
    ws_find_first_pixels(&w->map, r.from, r.to, plane_of(w), is_of_cell, w);
}

/* Counts the first voxels of cells in a band. */
static void count_first_band(vol_worker *w, size_t band, vol_scratch *s)
{
    const vol_range r = vol_band(w, band);
    int32_t n = 0;

    (void)s;
    for (size_t i = r.from * w->nx; i < r.to * w->nx; i++)
        n += plane_of(w)[w->map.up[i]] == (int32_t)i;
    w->cells_before[band + 1] = n;
}

static tc_status end_count_first(vol_worker *w, vol_state *state, tc_err *err)
{
    (void)err;
    w->cells_before[0] = 0;
    for (size_t i = 0; i < w->bands; i++)
        w->cells_before[i + 1] += w->cells_before[i];
    w->cells = w->cells_before[w->bands];
    state->cells = (uint64_t)w->cells;
    return TC_OK;
}

/* Numbers the cells whose first voxels are in a band, in raster order of these voxels. */
static void number_cells_band(vol_worker *w, size_t band, vol_scratch *s)
{
    const vol_range r = vol_band(w, band);
    int32_t label = w->cells_before[band];

    (void)s;
    for (size_t i = r.from * w->nx; i < r.to * w->nx && label < w->cells_before[band + 1]; i++)
        if (uf_load(&plane_of(w)[w->map.up[i]]) == (int32_t)i)
            uf_store(&plane_of(w)[w->map.up[i]], ~++label);
}

/* Replaces the band's directions in map.up by the labels of the voxels. */
static void label_band(vol_worker *w, size_t band, vol_scratch *s)
{
    const vol_range r = vol_band(w, band);

    for (size_t i = r.from * w->nx; i < r.to * w->nx; i++) {
        const bool cell = is_of_cell(w, i);

        s->empty += cell;
        w->map.up[i] = cell ? ~plane_of(w)[w->map.up[i]] : 0;
    }
}

static tc_status end_label(vol_worker *w, vol_state *state, tc_err *err)
{
    (void)err;
    state->membrane = w->n;
    for (unsigned t = 0; t < w->work->threads; t++)
        state->membrane -= w->scratch[t].empty;
    return TC_OK;
}

/* Copies the band's labels from map.up to the state. */
static void copy_band(vol_worker *w, size_t band, vol_scratch *s)
{
    const vol_range r = vol_band(w, band);

    (void)s;
    for (size_t i = r.from * w->nx; i < r.to * w->nx; i++)
        plane_of(w)[i] = w->map.up[i];
}

const vol_work vol_uphill = { uphill_band, end_uphill };
const vol_work vol_clear = { clear_band, NULL };
const vol_work vol_first = { find_first_band, NULL };
const vol_work vol_count_first = { count_first_band, end_count_first };
const vol_work vol_number_cells = { number_cells_band, NULL };
const vol_work vol_label = { label_band, end_label };
const vol_work vol_copy = { copy_band, vol_clear_first_node };
