/*
 * How much of a job's work is in each of its parts, in operations of one core, and how much faster
 * a device does its own: what the fraction done goes by.
 */
#ifndef APP_WEIGHTS_H
#define APP_WEIGHTS_H

#include "app/analysis/analysis.h"

/* Seconds of an item: of the portions, with all that the device does, and of what the host does
 * before and after them. */
typedef struct item_times {
    double portions, host;
} item_times;

typedef struct weights {
    size_t n;                /* items */
    double *host, *portions; /* [n + 1]: operations of the items before one */
    double *writing;         /* [n + 1]: a guess of what writing items i and later takes */
    double opening, identifying,
        byte;     /* the unit, before and after all items; writing a byte of what is packed then */
    double speed; /* of the portions, beside a core's; 1 where the CPU does them */
    double known_host, known_portions; /* operations of items whose times are known */
    item_times known;
    size_t n_known;
} weights;

/* The caller frees with weights_free, also after a failure. */
tc_status weights_of(const an_unit *unit, bool on_device, weights *w, tc_err *err);
void weights_free(weights *w);

/* Before item i; i == n: before the result is written, but for what identifying the unit takes. */
double weights_before(const weights *w, size_t i);
/* All of it when so many items are done, which have that many bytes to write. */
double weights_whole(const weights *w, size_t done, double bytes);

/* Item i has been done by the device, in that time: speed is that of all such items so far, but of
 * the first, while which a driver compiles, only until there is another. */
void weights_learn(weights *w, size_t i, const item_times *times);
/* The CPU does what is left. */
void weights_on_cpu(weights *w);

#endif
