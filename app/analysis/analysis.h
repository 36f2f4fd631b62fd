/*
 * The interface that every analysis implements, and the table of them.
 *
 * An analysis is a const struct of functions. run.c drives it:
 *
 *   an_parse -> check_item -> plan -> init (or a checkpoint) ->
 *   backend open -> step, step, ... (sync where a checkpoint is due) -> close
 *   -> finish
 *
 * The state is one flat block, pointer-free and little-endian, of
 * plan.state_bytes bytes, and canonical: the same work gives the same bytes
 * whichever backend did it. It begins with an an_state_head, in which the
 * analysis keeps its position; the rest is its own.
 */
#ifndef AN_ANALYSIS_H
#define AN_ANALYSIS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "app/status.h"
#include "workunits/job.h"
#include "workunits/result.h"

typedef struct an_state_head {
    uint64_t units_done;       /* of plan.units */
} an_state_head;

/* What an item will take. Pure: a function of parameters and item only, never
 * of the device or the number of threads. */
typedef struct an_plan {
    uint64_t units;            /* units of work, each a part of about equal length */
    size_t state_bytes;
    uint64_t memory_bytes;     /* host memory at the peak, pixels and state included */
    double flops;              /* elementary operations, for rsc_fpops_est */
} an_plan;

/* One item being worked on: everything a backend may read. */
typedef struct an_task {
    const void *params;
    const wu_item *item;
    const wu_pixels *pixels;
    an_plan plan;
    unsigned threads;          /* >= 1 */
    struct ocl_device *device; /* NULL for the CPU backend */
    double slice_ms;           /* longest launch wanted on a device */
} an_task;

/* How the units get done: on the CPU, or on an OpenCL device. */
typedef struct an_backend {
    const char *name;          /* "cpu", "opencl" */
    /* Prepares the worker from the state as it stands (new or resumed). */
    tc_status (*open)(const an_task *task, const void *state, void **worker, tc_err *err);
    /* Does some units. On the CPU a step takes at most about 0.2 s of work per thread, on a
     * device at most about slice_ms. *units_done is the position reached.
     * TC_MORE: call again; TC_OK: all units are done and in the state.
     * A device backend may keep its work on the device until sync. */
    tc_status (*step)(void *worker, void *state, uint64_t *units_done, tc_err *err);
    /* Makes the state hold everything done so far. On an error the state is
     * what it was. A backend that works in the state itself: an_always_synced. */
    tc_status (*sync)(void *worker, void *state, tc_err *err);
    /* Frees the worker; *worker becomes NULL. */
    void (*close)(void **worker);
} an_backend;

typedef struct an_selftest an_selftest;

/* An array that a result must hold, for those who check results. */
#define AN_ANY_LENGTH UINT64_MAX
typedef struct an_expected {
    wu_array_info info;        /* name owned; a shape may be AN_ANY_LENGTH */
    /* Whether the values are possible ones; NULL: any are. TC_BAD_INPUT with
     * the first that is not. */
    tc_status (*check)(const void *params, const wu_array_info *info, const void *data, tc_err *err);
} an_expected;

/* Appends to a list (*list: NULL at first) and frees it. */
tc_status an_expected_add(an_expected **list, size_t *n, const an_expected *entry, tc_err *err);
void an_expected_free(an_expected **list, size_t n);

typedef struct an_analysis {
    const char *name;
    const char *summary;       /* one line for people */
    size_t params_bytes;       /* of its struct of parameters */
    /* Fills the zeroed struct from JSON: defaults, everything checked; unknown
     * keys are errors. `where` begins messages ("FILE: job.json"). */
    tc_status (*read_params)(const json_t *json, void *params, const char *where, tc_err *err);
    /* Frees what the struct owns; NULL: nothing. */
    void (*clear_params)(void *params);
    /* The parameters as run, complete, defaults included; caller owns it. */
    json_t *(*params_json)(const void *params);
    /* Whether this item suits the parameters (size, mask present, ...). */
    tc_status (*check_item)(const void *params, const wu_item *item, const char *where, tc_err *err);
    tc_status (*plan)(const void *params, const wu_item *item, an_plan *plan, tc_err *err);
    /* Fills the zeroed state for a new item. */
    tc_status (*init)(const an_task *task, void *state, tc_err *err);
    /* From the final state to the item's arrays. Shared by both backends. */
    tc_status (*finish)(const an_task *task, size_t item_index, const void *state,
                        wu_output *out, tc_err *err);
    /* The WU_ONCE arrays. */
    tc_status (*constants)(const void *params, wu_output *out, tc_err *err);
    /* The other arrays of a result of this job. *list: an_expected_free. */
    tc_status (*expect)(const void *params, const wu_job *job, an_expected **list, size_t *n, tc_err *err);
    const an_backend *cpu;     /* the OpenCL backend: ocl_backend() */
    bool one_kind;             /* a job has images or stacks, not both: rows differ in length */
    bool uses_floats;          /* fp32 in a result path: the device must round as IEEE says */
    const an_selftest *selftests;   /* ended by an entry without parameters (selftest.h) */
} an_analysis;

/* All analyses, ended by NULL. */
extern const an_analysis *const an_table[];
/* By name, or NULL. */
const an_analysis *an_find(const char *name);

/* The parameters that the JSON says, for the functions above. *params:
 * an_params_free. */
tc_status an_parse(const an_analysis *analysis, const json_t *json, const char *where,
                   void **params, tc_err *err);
void an_params_free(const an_analysis *analysis, void **params);

/* A work unit and what its analysis says of it. */
typedef struct an_unit {
    wu_job *job;
    const an_analysis *analysis;
    void *params;
} an_unit;

/* Reads a work unit, its parameters with it, and checks that the analysis
 * takes its items. *out: an_unit_free. */
tc_status an_unit_read(const char *path, an_unit *out, tc_err *err);
void an_unit_free(an_unit *unit);

tc_status an_always_synced(void *worker, void *state, tc_err *err);

extern const an_analysis an_glcm;
extern const an_analysis an_cellcount;
extern const an_analysis an_levelset;
extern const an_analysis an_voting;
extern const an_analysis an_volume;

#endif
