/*
 * What a work unit will take on a volunteer's computer, for those who create
 * the job: a function of the work unit alone.
 */
#ifndef WU_NEEDS_H
#define WU_NEEDS_H

#include <stdint.h>

#include "app/base/status.h"
#include "workunits/format/job.h"

typedef struct wu_needs {
    double operations;     /* all items; one takes as long as a flop of the Whetstone benchmark */
    uint64_t memory_bytes; /* at the peak, that of the largest item and the next one's pixels,
                              without threads */
    uint64_t thread_bytes; /* and for each thread */
    uint64_t device_bytes; /* or more of the host's where a device does the work */
    uint64_t most_memory_bytes; /* that any pixels of these sizes take */
    uint64_t state_bytes;       /* a checkpoint, that of the largest item */
    uint64_t pixels;            /* or voxels, all items */
    uint64_t output_bytes;      /* the result's arrays whose shapes are known before */
    uint64_t row_bytes;         /* a row of each array whose length is not: a region, a point */
    uint64_t most_rows_bytes;   /* all rows that an item can have, of the one with most ... */
    uint64_t taken_rows_bytes;  /* ... and what a server takes of it unless it is set */
} wu_needs;

/* Asks the analysis. TC_BAD_INPUT where it is not known here, or where the job
 * does not suit it: the message says why. */
tc_status wu_needs_find(const wu_job *job, wu_needs *out, tc_err *err);

#endif
