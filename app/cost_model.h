/*
 * The cost of each part of a job, in operations of one CPU core, and how much faster than a core
 * the device does the chunks. The fraction done that people see is computed from these.
 */
#ifndef APP_COST_MODEL_H
#define APP_COST_MODEL_H

#include "app/analysis/analysis.h"

/* How long an item took, in seconds. chunks: its chunks, which the device does; host: what the CPU
 * does before and after them. */
typedef struct item_times {
    double chunks, host;
} item_times;

typedef struct cost_model {
    size_t n; /* number of items */
    double *host,
        *chunks;     /* [n + 1]: operations of all items before item i, by the host and in chunks */
    double *writing; /* [n + 1]: estimated operations of writing the outputs of items i to n - 1 */
    double opening,
        identifying; /* operations of reading the work unit, and of its SHA-256 at the end */
    double byte; /* operations of writing a byte of the result that is compressed then; one that was
                    compressed before costs 1 / WU_COPIED of it */
    double speed; /* how many times as fast as a core the chunks are done; 1: by the CPU */
    double known_host, known_chunks; /* operations of the items that the device has done */
    item_times known;                /* the sum of their times */
    size_t n_known;                  /* their number */
} cost_model;

/* Fills *w; the caller frees it with cost_model_free, also after a failure. */
tc_status cost_model_make(const an_unit *unit, bool on_device, cost_model *w, tc_err *err);
void cost_model_free(cost_model *w);

/* Operations before item i. i == n: before the result is written, without the SHA-256. */
double cost_before(const cost_model *w, size_t i);
/* Operations of the whole job, if the first `done` items are done and spool_to_write gives `bytes`
 * for them; writing the outputs of the others is estimated. */
double cost_total(const cost_model *w, size_t done, double bytes);

/* To be called when the device has done item i in these times: computes the speed from all items
 * that it has done so far. The first one, during which the driver may compile kernels, is left out
 * as soon as there is a second. */
void cost_learn(cost_model *w, size_t i, const item_times *times);
/* To be called when the CPU does the remaining items. */
void cost_on_cpu(cost_model *w);

#endif
