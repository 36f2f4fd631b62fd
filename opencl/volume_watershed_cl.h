/* The part of volume's OpenCL backend that is a watershed's. */
#ifndef OCL_VOLUME_WATERSHED_CL_H
#define OCL_VOLUME_WATERSHED_CL_H

#include "app/analysis/volume/volume.h"
#include "opencl/worker.h"

extern const ocl_launcher vol_watershed_launcher;
/* As an_backend's. */
tc_status vol_watershed_step(void *worker, vol_state *state, uint64_t *chunks_done, tc_err *err);
tc_status vol_watershed_finish(void *worker, const vol_state *state, size_t item_index,
                               wu_output *out, tc_err *err);

#endif
