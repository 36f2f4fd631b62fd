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

#include "app/analysis/params.h"
#include "app/base/status.h"
#include "workunits/format/job.h"
#include "workunits/format/result.h"

typedef struct an_state_head {
    uint64_t chunks_done; /* of plan.chunks */
} an_state_head;

/* PLAN_THREAD: bytes of a thread's stack and the allocator's for it; PLAN_PROGRAM: of the program
 * itself. */
enum { PLAN_PIXELS_A_ROW = 16, PLAN_THREAD = 256 << 10, PLAN_PROGRAM = 6 << 20 };

/* What an item will take. Pure: a function of parameters and item only, never
 * of the device or the number of threads. */
typedef struct an_plan {
    uint64_t chunks; /* of the work: each about equally long, or as `spent` says */
    size_t state_bytes;
    uint64_t memory_bytes; /* at the peak on the CPU, program, pixels and state included, whatever
                              the pixels are, ... */
    uint64_t thread_bytes; /* ... for each thread besides ... */
    uint64_t device_bytes; /* ... and with a device what it needs more in the host's memory */
    uint64_t most_rows;    /* that the item's table can have, if it has one; 0: as many as pixels */
    /* For rsc_fpops_est, in flops of the client's Whetstone; the sum of the parts that follow and
     * of the chunks. */
    double flops;
    double open_flops;     /* its part in opening the unit, before any item */
    double load_flops;     /* before the first chunk: reading the pixels */
    double finish_flops;   /* after the last: the item's arrays */
    double compress_flops; /* compressing those of them that are pictures, into the spool */
    double identify_flops; /* its part in the unit's SHA-256, when all items are done */
    double write_flops;    /* writing the result: a guess, since once the arrays are known ... */
    double byte_flops;     /* ... each byte of those compressed then takes so many: WU_COPIED */
} an_plan;

/* How many rows the item's table can have, and how many bytes they may take in memory: a row
 * for PLAN_PIXELS_A_ROW pixels, and so much in any case. A server refuses results with more. */
#define AN_ROWS_BYTES ((uint64_t)512 << 20)
uint64_t an_most_rows(const an_plan *plan, const wu_item *item);
uint64_t an_rows_bytes(const wu_item *item, uint64_t row_bytes);
/* Of arrays as `expect` declares them those of a row of the table; 0: there is none. */
uint64_t an_row_bytes(const wu_output *expected);

/* One item being worked on: everything a backend may read. */
typedef struct an_work {
    const void *params;
    const wu_item *item;
    const wu_pixels *pixels;
    an_plan plan;
    unsigned threads;          /* >= 1 */
    const tc_poll *poll;       /* tc_ask(poll), wherever something lasts; NULL: none */
    struct ocl_device *device; /* NULL for the CPU backend */
    double launch_ms;          /* longest launch wanted on a device */
    double speed; /* of the device's chunks over a core's: for an_spent; 0: AN_DEVICE_SPEED */
    /* Once all chunks are done, a device's state may lack what the result is made without. */
    bool result_only;
} an_work;

/* How the chunks get done: on the CPU, or on an OpenCL device. */
typedef struct an_backend {
    const char *name; /* "cpu", "opencl" */
    /* All functions but close ask work->poll where they last longer than 50 ms, and give up with
     * TC_TRY_LATER if that says so. */
    /* Prepares the worker from the state as it stands (new or resumed). */
    tc_status (*open)(const an_work *work, const void *state, void **worker, tc_err *err);
    /* Does some chunks. On the CPU a step takes at most about 0.2 s of work per thread, on a
     * device at most about launch_ms. *chunks_done is the position reached.
     * TC_MORE: call again; TC_OK: all chunks are done and in the state. TC_TRY_LATER: the
     * step counts for nothing, and what was done before it can be synced.
     * A device backend may keep its work on the device until sync. */
    tc_status (*step)(void *worker, void *state, uint64_t *chunks_done, tc_err *err);
    /* Makes the state hold everything done so far. On an error the state is
     * what it was; after TC_TRY_LATER it counts once a further call has succeeded. Ask an_sync.
     * NULL: the backend works in the state itself. */
    tc_status (*sync)(void *worker, void *state, tc_err *err);
    /* Frees the worker; *worker becomes NULL. */
    void (*close)(void **worker);
    /* Makes the result from what the worker has once all chunks are done, as the analysis' finish
     * from the state, which needs no sync then and stays what it was. TC_MORE, or NULL: it cannot;
     * after a sync the analysis can. */
    tc_status (*finish)(void *worker, void *state, size_t item_index, wu_output *out, tc_err *err);
} an_backend;

/* What whoever packs an item knows of its pixels afterwards. */
typedef struct an_survey {
    uint32_t lo, hi; /* least and greatest grey value */
    uint64_t inside; /* pixels within the mask, if it has one */
    uint64_t rgb[3]; /* sums of its colours, before they become grey */
} an_survey;

typedef struct an_selftest an_selftest;
struct an_pictures;
struct an_suggestion;

/* Whether an analysis computes in double precision on a device. */
typedef enum an_doubles {
    AN_NO_DOUBLES,
    AN_SOME_DOUBLES, /* some of what can be asked for does; of the rest nothing */
    AN_ALL_DOUBLES
} an_doubles;

typedef struct an_analysis {
    const char *name;
    const char *summary; /* one line for people */
    const char *cite;    /* whose method it is; NULL: none to name */
    const char
        *shorter; /* what makes a long job shorter: for people; NULL: smaller pictures alone */
    size_t params_bytes; /* of its struct of parameters, which begins with an an_params_head */
    const an_param *parameters; /* ended by one without a key */
    /* What no table can say: how keys depend on each other, and what follows from them. The struct
     * is filled. `where` begins messages ("FILE: job.json: parameters"). NULL: nothing. */
    tc_status (*derive_params)(void *params, const char *where, tc_err *err);
    /* Frees what the struct owns; NULL: nothing. */
    void (*clear_params)(void *params);
    /* Whether this item suits the parameters (size, mask present, ...): ask an_check_item. NULL:
     * all do. */
    tc_status (*check_item)(const void *params, const wu_item *item, const char *where,
                            tc_err *err);
    /* What a scientist should know of an item that does suit: a sentence with a
     * remedy. False: nothing. NULL: there never is anything. */
    bool (*note)(const void *params, const wu_item *item, char *text, size_t size);
    /* The same of its pixels, for pack. NULL: nothing. */
    bool (*note_survey)(const void *params, const wu_item *item, const an_survey *survey,
                        char *text, size_t size);
    /* Whether pixels such as these suit, as check_item. NULL: all do. */
    tc_status (*check_survey)(const void *params, const wu_item *item, const an_survey *survey,
                              const char *where, tc_err *err);
    /* The same as note of what came out, as finish gave it: a result that says nothing. show has
     * the arrays with rows alone, any numbers in them, and the item's size only (else 0) where
     * there is a picture of it. */
    bool (*note_result)(const void *params, const wu_item *item, const wu_output *out, char *text,
                        size_t size);
    tc_status (*plan)(const void *params, const wu_item *item, an_plan *plan, tc_err *err);
    /* Where memory goes by what is in the pixels: the plan's becomes that of these. Does a part of
     * the work for it. NULL: it does not. */
    tc_status (*memory)(const an_work *work, an_plan *plan, tc_err *err);
    /* Which share of what all chunks take has been spent when so many are done: 0 to 1, never
     * less for more. By parameters, item and plan alone: a task that goes on from a checkpoint
     * tells no less than before. NULL: they are equally long. */
    double (*spent)(const an_work *work, uint64_t chunks_done);
    /* Fills the zeroed state for a new item: ask an_init. Asks work->poll. NULL: it stays zero. */
    tc_status (*init)(const an_work *work, void *state, tc_err *err);
    /* Whether a state that comes from a checkpoint can have come about: positions that
     * there are, indices within their tables, numbers that are some. A state that passes
     * harms nobody, whatever else it holds. chunks_done is at most plan.chunks. TC_BAD_INPUT
     * says what is wrong; NULL: all bytes do. */
    tc_status (*check_state)(const an_work *work, const void *state, tc_err *err);
    /* From the final state, which arrays may be lent (wu_output_lend), to the item's arrays. Shared
     * by both backends; it asks work->poll. */
    tc_status (*finish)(const an_work *work, size_t item_index, const void *state, wu_output *out,
                        tc_err *err);
    /* What is found so far at a pixel or voxel of the item, for those who watch: 0 nothing, 1 to
     * 255 what is to be distinguished, or with found_amounts how much. Any state will do. NULL:
     * there is nothing to see. */
    uint8_t (*found)(const an_work *work, const void *state, size_t voxel);
    /* The WU_ONCE arrays, declared and filled; NULL: there are none. */
    tc_status (*constants)(const void *params, wu_output *out, tc_err *err);
    /* Declares the arrays that finish gives for an item, in its order: all that is
     * known of them elsewhere. One table may have any number of rows an item. */
    tc_status (*expect)(const void *params, const wu_item *item, wu_output *out, tc_err *err);
    /* Whether this item can have given these arrays, shaped as expect says:
     * values within their bounds, sums that agree, all that can be found without
     * computing it again. TC_BAD_INPUT with the first fault (check.h). */
    tc_status (*check_result)(const void *params, const wu_item *item, const wu_output *out,
                              tc_err *err);
    /* Whether the item's pixels can have given these arrays, which check_result has passed: as
     * much as a small part of the work tells. What is looked at is chosen by *random
     * (app/base/random.h), so that nobody knows it beforehand. TC_BAD_INPUT: they cannot;
     * TC_NO_MATCH: they hardly can, which only computing the item again can tell. NULL:
     * nothing is looked at. */
    tc_status (*check_pixels)(const an_work *work, const wu_output *out, uint64_t *random,
                              tc_err *err);
    /* Parameters that pictures suggest, besides those that are given (suggest.h). `out` is empty,
     * with an object of parameters; an_suggestion_free also after a failure. NULL: none. */
    tc_status (*suggest)(const struct an_pictures *pictures, const json_t *given,
                         struct an_suggestion *out, tc_err *err);
    /* What check_pixels costs on average, besides reading the pixels, as a share of the plan's
     * operations, as measured (docs/validation.md), and what is in doubt though it is right and so
     * computed again: so many items of a result are looked at that it comes to a fiftieth, and at
     * least one. work: without pixels. */
    double (*pixels_share)(const an_work *work);
    const an_backend *cpu; /* the OpenCL backend: ocl_backend() */
    bool found_amounts;
    bool takes_labels; /* its items have label pictures; those of others have none */
    bool takes_mask;   /* its items may have a mask; check_item says when */
    bool one_kind;     /* a job has images or stacks, not both: rows differ in length */
    bool takes_cubes;  /* what it measures in stacks of unknown spacing takes voxels for cubes */
    bool uses_floats;  /* fp32 in a result path: the device must round as IEEE says */
    an_doubles doubles;
    /* A bit for each group of kernels, and each form that they are compiled in, that an item may
     * take on a device: a self-test that takes no others tells what a job's items will meet. NULL:
     * every test does. */
    uint32_t (*kernels)(const void *params, const wu_item *item);
    const an_selftest *selftests; /* ended by an entry without parameters (selftest.h) */
} an_analysis;

/* All analyses, in the order of analyses.def, ended by NULL. */
extern const an_analysis *const an_table[];
/* By name, or NULL. */
const an_analysis *an_find(const char *name);

/* The parameters that the JSON says, for the functions above: defaults filled in, everything
 * checked, unknown keys errors. *params: an_params_free. */
tc_status an_parse(const an_analysis *analysis, const json_t *json, const char *where,
                   void **params, tc_err *err);
void an_params_free(const an_analysis *analysis, void **params);
/* As JSON, complete, defaults included, presets resolved. The caller's. */
json_t *an_params_as_run(const void *params);

/* Whether the analysis takes an item. `where` begins messages. */
tc_status an_check_item(const an_analysis *analysis, const void *params, const wu_item *item,
                        const char *where, tc_err *err);

/* A work unit and what its analysis says of it. */
typedef struct an_unit {
    wu_job *job;
    const an_analysis *analysis;
    void *params;
} an_unit;

/* Reads a work unit, its parameters with it, and checks that the analysis
 * takes its items. *out: an_unit_free. */
tc_status an_unit_read(const char *path, an_unit *out, tc_err *err);
/* The same under a poll: wu_job_read_polled. */
tc_status an_unit_read_polled(const char *path, const tc_poll *poll, an_unit *out, tc_err *err);
/* As wu_job_read_heads does. */
tc_status an_unit_read_heads(const char *path, an_unit *out, tc_err *err);
void an_unit_free(an_unit *unit);

/* What all chunks take, of plan.flops. */
static inline double an_chunks_flops(const an_plan *plan)
{
    return plan->flops - plan->open_flops - plan->load_flops - plan->finish_flops -
           plan->compress_flops - plan->identify_flops - plan->write_flops;
}

/* The sum of all, of a plan that has the item's own of before, after and of the result. */
void an_plan_flops(an_plan *plan, const wu_item *item, double chunks);

/* For load_flops: what reading an item takes, by the bytes that it is decompressed to and by those
 * in the file. */
double an_reading_flops(const wu_item *item);

/* How many times as fast as a core a device does chunks, about, before anything is known of
 * it. */
#define AN_DEVICE_SPEED 50
/* Operations of a plan that a core does in a second, within a factor of two or three. */
#define AN_CORE_SPEED 5e9
/* What an item counts compared with others, all but its part in writing the result. Chunks count
 * less on a device, which is `speed` times as fast: reading and finishing are the host's there,
 * too. */
double an_weight(const an_plan *plan, double speed);
/* Which share of it has been spent when so many chunks are done, reading included: 0 to 1. */
double an_spent(const an_analysis *analysis, const an_work *work, uint64_t chunks_done);
/* The same when that share of its arrays, 0 to 1, is compressed. */
double an_spent_packing(const an_work *work, double share);

/* Does the work from start to end with nothing in between, in a zeroed state of
 * plan.state_bytes. deadline: in tc_seconds, 0 for none; TC_TRY_LATER after it. */
tc_status an_work_run(const an_analysis *analysis, const an_backend *backend, const an_work *work,
                      void *state, double deadline, tc_err *err);
/* The same on the CPU, by the plan of `work`, to the item's arrays: wu_output_free. */
tc_status an_compute(const an_analysis *analysis, const an_work *work, size_t index,
                     double deadline, wu_output *out, tc_err *err);
/* Opens a worker on a new state for `look`, which does a part of the work and notes what it found
 * there. */
tc_status an_look(const an_backend *backend, const an_work *work,
                  tc_status (*look)(void *worker, void *state, void *found, tc_err *err),
                  void *found, tc_err *err);
/* A box of an item's pixels as pixels of their own, wu_pixels_free also after a failure; from and
 * size: z, y, x. */
tc_status an_copy_box(const wu_pixels *px, const uint32_t from[3], const uint32_t size[3],
                      wu_pixels *out, tc_err *err);

/* The analysis' init and the backend's sync, or what their absence stands for. */
tc_status an_init(const an_analysis *analysis, const an_work *work, void *state, tc_err *err);
tc_status an_sync(const an_backend *backend, void *worker, void *state, tc_err *err);

#endif
