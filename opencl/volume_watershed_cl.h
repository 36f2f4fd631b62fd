/* The part of volume's OpenCL backend that separates cells by a watershed. */
#ifndef OCL_VOLUME_WATERSHED_CL_H
#define OCL_VOLUME_WATERSHED_CL_H

#include "app/analysis/volume/volume.h"
#include "opencl/worker.h"

extern const ocl_launcher vol_watershed_launcher;
/* The members `step` and `finish` of the an_backend (analysis.h). */
tc_status vol_watershed_step(void *worker, vol_state *state, uint64_t *chunks_done, tc_err *err);
tc_status vol_watershed_finish(void *worker, const vol_state *state, size_t item_index,
                               wu_output *out, tc_err *err);

#endif
