/* The table of volume's cells, computed on a device from the voxels' labels, so that the labels
 * need not be copied to the host. */
#ifndef OCL_VOLUME_TABLE_CL_H
#define OCL_VOLUME_TABLE_CL_H

#include "app/analysis/volume/volume.h"
#include "opencl/worker.h"

/* Allocates the worker's buffer number `buffer` for a table of `cells` cells, and sets *made to
 * true. Does not allocate it, and sets *made to false, if the result has labels, if a repair
 * changes the labels, or if the table would be too large. */
tc_status vol_table_begin(ocl_worker *w, int buffer, uint64_t cells, bool *made, tc_err *err);
/* Makes the result, as an_backend's finish does, from the table. head: a copy of the state without
 * its planes, with the device's counts. */
tc_status vol_table_finish(ocl_worker *w, int buffer, vol_state *head, size_t item_index,
                           wu_output *out, tc_err *err);

#endif
