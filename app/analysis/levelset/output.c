/* levelset: declares the arrays of a result, and makes them from the final phi. */
#include "app/analysis/levelset/levelset.h"

#include <stdio.h>

double ls_inside_volume(const wu_item *item, int64_t inside)
{
    return (double)inside *
           (item->is_stack ? item->spacing[0] * item->spacing[1] * item->spacing[2] : 1.0);
}

tc_status ls_declare_arrays(const void *params, const wu_item *item, wu_output *out, tc_err *err)
{
    /* Name, type, role, table, title; then the unit, if the array has one. */
    static const wu_declaration arrays[] = {
        { "inside_voxels", WU_I64, WU_VALUE, "items", "inside_voxels", .unit = "voxel" },
        { "measure", WU_F64, WU_VALUE, "items",
          .title = "measure" }, /* the number of pixels; for a stack um^3 */
        { "iterations_run", WU_I64, WU_VALUE, "items", .title = "iterations_run" },
        { "converged", WU_BOOL, WU_VALUE, "items", .title = "converged" },
        [LS_OUT_MASK] = { "mask_{item}", WU_U8, WU_MASK, .title = "inside" },
        /* The words of kept sides (levelset.h, "stretches"), if any are kept. */
        [LS_OUT_HISTORY] = { "history_{item}", WU_I32, .role = WU_PROOF },
    };

    return wu_output_declare(out, arrays, LS_OUT_HISTORY + (ls_history_every(params) > 0), item,
                             err);
}

tc_status ls_check_state(const an_work *work, const void *state, tc_err *err)
{
    const size_t voxels = (size_t)work->item->nx * work->item->ny * work->item->nz;
    const float *const phi = ls_phi_const(state);
    tc_status status = TC_OK;

    for (size_t i = 0, end; status == TC_OK && i < voxels;) {
        bool finite = true;

        for (end = tc_block_end(i, voxels); i < end; i++)
            finite = finite && __builtin_isfinite(phi[i]);
        status = finite ? tc_call_poll(work->poll, err)
                        : tc_fail(err, TC_BAD_INPUT, "the level set is damaged");
    }
    return status;
}

tc_status ls_finish(const an_work *work, size_t item_index, const void *state, wu_output *out,
                    tc_err *err)
{
    const ls_params *const p = work->params;
    const wu_item *const item = work->item;
    const ls_head *const head = state;
    const size_t voxels = (size_t)item->nx * item->ny * item->nz;
    const float *const phi = ls_phi_const(state);
    int64_t inside = 0;
    uint8_t *mask;
    return_if_error(ls_declare_arrays(p, item, out, err));

    (void)item_index;
    if (ls_history_every(p) > 0) {
        const ls_size size = ls_size_of(item);

        wu_output_lend(&out->arrays[LS_OUT_HISTORY],
                       (const unsigned char *)state + ls_history_at(&size));
    }
    return_if_error(wu_output_allocate(out, 0, err));
    mask = out->arrays[LS_OUT_MASK].data;
    for (size_t i = 0, end; i < voxels;) {
        for (end = tc_block_end(i, voxels); i < end; i++) {
            mask[i] = phi[i] < 0;
            inside += mask[i];
        }
        return_if_error(tc_call_poll(work->poll, err));
    }
    *(int64_t *)wu_output_data(out, "inside_voxels") = inside;
    *(double *)wu_output_data(out, "measure") = ls_inside_volume(item, inside);
    *(int64_t *)wu_output_data(out, "iterations_run") =
        (int64_t)ls_iterations_at(p, head->head.chunks_done);
    *(uint8_t *)wu_output_data(out, "converged") = ls_has_converged(p, head);
    return TC_OK;
}

bool ls_note_result(const void *params, const wu_item *item, const wu_output *out, char *text,
                    size_t size)
{
    const int64_t inside = *(const int64_t *)wu_output_data(out, "inside_voxels");
    const bool fills_picture = inside == (int64_t)item->nx * item->ny * item->nz;

    (void)params;
    if (inside != 0 && !fills_picture)
        return false;
    if (fills_picture)
        snprintf(
            text, size,
            "the level set fills the whole picture: with this --param epsilon all greys count as "
            "the target's; make epsilon smaller, or choose another target");
    else
        snprintf(text, size,
                 "the level set has vanished: set --param target to the grey of the structure, or "
                 "make epsilon or alpha greater");
    return true;
}
