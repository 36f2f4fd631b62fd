/* For the benches alone: what some backends let them see. */
#ifndef OCL_BENCH_H
#define OCL_BENCH_H

#include "app/analysis/analysis.h"

/* Device milliseconds that a worker of ocl_cellcount has spent from the picture to the labels,
 * both in device memory, Otsu's histogram and holes left out; and on measuring the regions. */
void cc_opencl_times(const void *worker, double *label_ms, double *measure_ms);
#endif
