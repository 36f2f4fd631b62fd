/*
 * Estimates the operations, memory and disk space that a work unit needs on a volunteer's computer,
 * for the server that creates the job. The estimates depend on the work unit alone.
 */
#ifndef WU_NEEDS_H
#define WU_NEEDS_H

#include <stdint.h>

#include "app/base/status.h"
#include "workunits/format/job.h"

/* The estimates for a work unit. */
typedef struct wu_needs {
    double operations;     /* operations of all items, in flops of the Whetstone benchmark */
    uint64_t memory_bytes; /* peak memory of the largest item, with the pixels of an item that is
                              loaded ahead; without the memory of threads */
    uint64_t thread_bytes; /* additional memory for each thread */
    uint64_t device_bytes; /* additional memory of the host if an OpenCL device is used */
    uint64_t most_memory_bytes; /* what memory_bytes would be if the items had those pixels for
                                   which the analysis needs the most memory */
    uint64_t state_bytes;       /* size of the largest item's checkpoint */
    uint64_t pixels;            /* number of pixels or voxels of all items */
    uint64_t output_bytes;      /* size of the result's arrays whose shapes are known beforehand */
    uint64_t row_bytes; /* size of one row (a region, a point) of the arrays whose number of rows
                           is not known beforehand */
    uint64_t most_rows_bytes;  /* the greatest size that all rows of one item can have together */
    uint64_t taken_rows_bytes; /* for the same item, size of the rows that a server accepts by
                                  default (an_rows_bytes) */
} wu_needs;

/* Computes the needs from the analysis' plan of each item. TC_BAD_INPUT if this program has no such
 * analysis, or if the job does not suit it: the message says why. */
tc_status wu_needs_find(const wu_job *job, wu_needs *out, tc_err *err);

#endif
