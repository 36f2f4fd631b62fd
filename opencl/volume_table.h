/* The table of volume's cells, which a device makes of their labels where nobody asks for these. */
#ifndef OCL_VOLUME_TABLE_CL_H
#define OCL_VOLUME_TABLE_CL_H

#include "app/analysis/volume/volume.h"
#include "opencl/worker.h"

/* Makes room for so many cells in a buffer. *made: whether it is to be used; not where labels are
 * wanted, where what a repair took has to be seen in them, or where there is no room. */
tc_status vol_table_begin(ocl_worker *w, int buffer, uint64_t cells, bool *made, tc_err *err);
/* As an_backend's finish. head: a copy of the state's, with what the device has counted. */
tc_status vol_table_finish(ocl_worker *w, int buffer, vol_state *head, size_t item_index,
                           wu_output *out, tc_err *err);

#endif
