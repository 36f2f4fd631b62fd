/* levelset: from the final phi to arrays. */
#include "app/analysis/levelset/levelset.h"

tc_status ls_finish(const an_task *task, size_t item_index, const void *state, wu_output *out, tc_err *err)
{
    const ls_params *const p = task->params;
    const wu_item *const item = task->item;
    const ls_head *const head = state;
    const size_t voxels = (size_t)item->nx * item->ny * item->nz;
    const float *const phi = ls_phi_const(state);
    int64_t inside = 0;
    uint8_t *mask;
    tc_status st = ls_expect(p, item, out, err);

    (void)item_index;
    if (st == TC_OK)
        st = wu_output_allocate(out, 0, err);
    if (st != TC_OK)
        return st;
    mask = out->arrays[out->n - 1].data;
    for (size_t i = 0; i < voxels; i++) {
        mask[i] = phi[i] < 0;
        inside += mask[i];
    }
    *(int64_t *)wu_output_data(out, "inside_voxels") = inside;
    *(double *)wu_output_data(out, "measure") = ls_measure(item, inside);
    *(int64_t *)wu_output_data(out, "iterations_run") = (int64_t)ls_iterations_at(p, head->head.units_done);
    *(uint8_t *)wu_output_data(out, "converged") = ls_has_converged(p, head);
    return TC_OK;
}
