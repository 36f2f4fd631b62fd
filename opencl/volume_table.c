/* Makes volume's result from the table of cells that a device has computed. */
#include "opencl/volume_table.h"

#include <stdlib.h>

#include "app/analysis/volume/layout.h"

tc_status vol_table_begin(ocl_worker *w, int buffer, uint64_t cells, bool *made, tc_err *err)
{
    const an_work *const work = w->work;
    const vol_params *const p = work->params;
    const uint64_t row = VOL_COLUMNS * sizeof(cl_uint),
                   voxels = (uint64_t)work->item->nx * work->item->ny * work->item->nz;
    /* The host holds the table in two forms (vol_table_finish), which must together take no more
     * memory than the labels would. */
    const bool small = cells * (row + sizeof(vol_cell)) <= voxels * sizeof(int32_t);
    const ocl_buffer_need need = { buffer, cells * row, "volume", NULL };

    *made = work->result_only && !p->labels && !p->repair && small;
    const tc_status status = *made ? ocl_make_buffers(w, &need, 1, err) : TC_OK;
    *made = *made && status == TC_OK;
    return status == TC_TOO_LARGE ? TC_OK : status;
}

/* A 64-bit number from two words, the low half first. */
static uint64_t join_halves(const cl_uint *low)
{
    return low[0] | (uint64_t)low[1] << 32;
}

/* Converts a row of the device's table to a vol_cell. */
static vol_cell cell_of(const cl_uint *row)
{
    vol_cell c = { .voxels = row[VOL_VOXELS],
                   .sum = { join_halves(row + VOL_SUM_Z), join_halves(row + VOL_SUM_Y),
                            join_halves(row + VOL_SUM_X) } };

    for (int k = 0; k < 3; k++) {
        c.lo[k] = row[VOL_LO + k];
        c.hi[k] = row[VOL_HI + k];
    }
    return c;
}

tc_status vol_table_finish(ocl_worker *w, int buffer, vol_state *head, size_t item_index,
                           wu_output *out, tc_err *err)
{
    const size_t n = (size_t)head->cells, bytes = n * VOL_COLUMNS * sizeof(cl_uint);
    cl_uint *const rows = malloc(bytes + 1);
    vol_cell *const cells = malloc((n + 1) * sizeof *cells);
    tc_status status = rows == NULL || cells == NULL ? tc_no_memory(err, "the cells")
                                                     : ocl_download(w, buffer, 0, rows, bytes, err);

    for (size_t i = 0, end; status == TC_OK && i < n; status = tc_call_poll(w->work->poll, err))
        for (end = tc_block_end(i, n); i < end; i++)
            cells[i] = cell_of(rows + i * VOL_COLUMNS);
    free(rows);
    if (status == TC_OK)
        status = vol_finish_cells(w->work, item_index, head, cells, out, err);
    free(cells);
    return status;
}
