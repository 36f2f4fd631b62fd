/*
 * The cost of each part of a job, in operations of one CPU core. An item's main work consists of
 * "chunks", which the device does if one is used; the CPU ("the host") does the rest. The model
 * also measures the device's speed relative to a core. The fraction of the job that is done, as
 * shown to people, is computed from these.
 */
#ifndef APP_COST_MODEL_H
#define APP_COST_MODEL_H

#include "app/analysis/analysis.h"

/* The duration of an item's parts, in seconds. */
typedef struct item_times {
    double chunks; /* the item's chunks, which the device does */
    double host;   /* the CPU's work before and after the chunks */
} item_times;

typedef struct cost_model {
    size_t n;       /* number of items */
    double *host;   /* [n + 1]: operations of the host for all items before item i */
    double *chunks; /* [n + 1]: operations of the chunks of all items before item i */
    double *
        writing_cost; /* [n + 1]: estimated operations of writing the outputs of items i to n - 1 */
    double reading_cost; /* operations of reading the work unit */
    double sha256_cost; /* operations of computing the work unit's SHA-256, at the end of the job */
    /* Operations of writing a byte of an array that is compressed only when the result is written.
     * A byte that was compressed before costs 1 / WU_COPY_SPEEDUP as much. */
    double byte_cost;
    double speed; /* the speed at which the chunks are done, relative to a core; 1 if the CPU does
                     them */
    /* The next four members refer to the items that the device has done so far. */
    double done_host;      /* operations of the host */
    double done_chunks;    /* operations of the chunks */
    item_times done_times; /* sum of the items' times */
    size_t n_done_items;   /* number of these items */
} cost_model;

/* Fills *w; the caller frees it with cost_model_free, also after a failure. */
tc_status cost_model_make(const an_unit *unit, bool on_device, cost_model *w, tc_err *err);
void cost_model_free(cost_model *w);

/* Returns the operations of the job before item i. i == n: the operations before the result is
 * written, without the SHA-256. */
double cost_before(const cost_model *w, size_t i);
/* Returns the operations of the whole job. done: the number of items that are done; bytes: the
 * value of spool_writing_cost for these items. For all other items the cost of writing is
 * estimated. */
double cost_total(const cost_model *w, size_t done, double bytes);

/* Must be called when the device has done item i in these times. Computes w->speed from all items
 * that the device has done so far. If there are several, the first one is left out, as the driver
 * may have compiled kernels during it. */
void cost_add_times(cost_model *w, size_t i, const item_times *times);
/* Must be called when the CPU does the remaining items. */
void cost_use_cpu(cost_model *w);

#endif
