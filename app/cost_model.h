/*
 * How much of a job's work is in each of its parts, in operations of one core, and how much faster
 * a device does its own: what the fraction done goes by.
 */
#ifndef APP_COST_MODEL_H
#define APP_COST_MODEL_H

#include "app/analysis/analysis.h"

/* Seconds of an item: of the chunks, with all that the device does, and of what the host does
 * before and after them. */
typedef struct item_times {
    double chunks, host;
} item_times;

typedef struct cost_model {
    size_t n;              /* items */
    double *host, *chunks; /* [n + 1]: operations of the items before one */
    double *writing;       /* [n + 1]: a guess of what writing items i and later takes */
    double opening, identifying,
        byte; /* the unit, before and after all items; writing a byte of what is compressed then */
    double speed; /* of the chunks, in those of a core; 1 where the CPU does them */
    double known_host, known_chunks; /* operations of items whose times are known */
    item_times known;
    size_t n_known;
} cost_model;

/* The caller frees with cost_model_free, also after a failure. */
tc_status cost_model_make(const an_unit *unit, bool on_device, cost_model *w, tc_err *err);
void cost_model_free(cost_model *w);

/* Before item i; i == n: before the result is written, but for what identifying the unit takes. */
double cost_before(const cost_model *w, size_t i);
/* All of it when so many items are done, which have that many bytes to write. */
double cost_total(const cost_model *w, size_t done, double bytes);

/* Item i has been done by the device, in that time: speed is that of all such items so far, but of
 * the first, while which a driver compiles, only until there is another. */
void cost_learn(cost_model *w, size_t i, const item_times *times);
/* The CPU does what is left. */
void cost_on_cpu(cost_model *w);

#endif
