/*
 * The interface that every analysis implements, and the functions that are the same for all.
 *
 * An analysis is a const struct of functions, an_analysis. app/item.c processes an item of a job by
 * calling these functions in this order:
 *
 *   an_parse_params -> check_item -> plan -> init (or a checkpoint) ->
 *   backend open -> step, step, ... (sync where a checkpoint is due) -> close
 *   -> finish
 *
 * An item's work is divided into chunks; a step does one or more of them. The state is what
 * checkpoints store, so that the work can be continued from it. It is one block of plan.state_bytes
 * bytes, little-endian and without pointers. After the same number of chunks the state has the same
 * bytes, whichever backend did them. It begins with an an_state_head; the rest is defined by the
 * analysis.
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
    uint64_t chunks_done; /* the number of chunks that are done, at most plan.chunks */
} an_state_head;

enum {
    PLAN_PIXELS_A_ROW = 16, /* a table may have one row for this many pixels (an_rows_bytes) */
    PLAN_THREAD_BYTES = 64 << 10, /* bytes of a thread's stack and of the memory that the allocator
                               keeps for the thread */
    PLAN_PROGRAM_BYTES = 13 << 19 /* bytes of the program itself */
};

/* The size of an item's work. Depends only on the parameters and the item, never on the device or
 * the number of threads. Operations ("flops") are those of the BOINC client's Whetstone benchmark.
 */
typedef struct an_plan {
    uint64_t chunks; /* the number of chunks; all take equally long, unless the analysis has
                        `time_share` */
    size_t state_bytes;
    bool sparse_state; /* most of the state may never be written, so that large pages of memory
                          would waste memory */
    /* Peak memory on the CPU with one thread, including program, pixels and state, for any values
     * of the pixels. */
    uint64_t memory_bytes;
    uint64_t thread_bytes; /* additional memory for each further thread */
    uint64_t device_bytes; /* additional memory of the host if a device is used */
    uint64_t most_rows; /* greatest number of rows of the item's table; 0: its number of pixels */
    /* All operations, for BOINC's rsc_fpops_est: the sum of those of the chunks and of open_flops
     * to write_flops. */
    double flops;
    double open_flops;     /* before all items: reading the item's part of the work unit */
    double load_flops;     /* before the first chunk: decoding the pixels */
    double finish_flops;   /* after the last chunk: making the item's arrays */
    double compress_flops; /* compressing the item's WU_PER_ITEM arrays into the spool */
    double identify_flops; /* after all items: the item's part of the work unit's SHA-256 */
    double write_flops;    /* writing the item's arrays to the result: an estimate */
    /* Operations for writing a byte of an array that is compressed when the result is written.
     * Writing a byte that was compressed before costs 1 / WU_COPY_SPEEDUP of this. */
    double byte_flops;
} an_plan;

/* The greatest number of rows of the item's table. */
uint64_t an_most_rows(const an_plan *plan, const wu_item *item);
/* The greatest number of bytes that the rows of the item's table may take in memory, if a row takes
 * row_bytes. A server rejects results with more. The limit is one row for every PLAN_PIXELS_A_ROW
 * pixels, but at least AN_ROWS_BYTES. */
#define AN_ROWS_BYTES ((uint64_t)512 << 20)
uint64_t an_rows_bytes(const wu_item *item, uint64_t row_bytes);
/* The bytes of one row of the item's table, given the arrays that an_analysis.declare_arrays
 * declares; 0 if there is no table. */
uint64_t an_row_bytes(const wu_output *expected);

/* An item that is being processed: everything that a backend may read. */
typedef struct an_work {
    const void *params;
    const wu_item *item;
    const wu_pixels *pixels;
    an_plan plan;
    unsigned threads;          /* >= 1 */
    const tc_poll *poll;       /* passed to tc_call_poll about every 50 ms; NULL if there is none */
    struct ocl_device *device; /* NULL for the CPU backend */
    double launch_ms;          /* the longest time that a launch on a device may take, in ms */
    /* The speed at which the device does chunks, relative to a CPU core; an_spent_share uses it. 0
     * means AN_DEVICE_SPEED. */
    double speed;
    /* If set, then after the last chunk, those parts of the state that `finish` does not use need
     * not be copied from the device. */
    bool result_only;
} an_work;

/* Functions that do the chunks: on the CPU, or on an OpenCL device. All except close call
 * work->poll if they take longer than 50 ms, and return TC_TRY_LATER if the poll returns it. A
 * worker is the backend's data for one item. */
typedef struct an_backend {
    const char *name; /* "cpu", "opencl" */
    /* Creates the worker from the current state (new or from a checkpoint). */
    tc_status (*open)(const an_work *work, const void *state, void **worker, tc_err *err);
    /* Does some chunks. On the CPU a step takes at most about 0.2 s, on a device at most about
     * launch_ms. Sets *chunks_done to the number of chunks that are done so far. Returns TC_MORE if
     * chunks remain, and TC_OK if all chunks are done and in the state. If it returns TC_TRY_LATER,
     * this step has no effect; chunks that earlier steps did can still be synced. A device's
     * backend may keep the work on the device until sync. */
    tc_status (*step)(void *worker, void *state, uint64_t *chunks_done, tc_err *err);
    /* Updates the state with everything done so far. After an error the state is unchanged; after
     * TC_TRY_LATER it is invalid until another call has succeeded. Called by an_sync. NULL: the
     * backend works in the state itself. */
    tc_status (*sync)(void *worker, void *state, tc_err *err);
    /* Frees the worker and sets *worker to NULL. */
    void (*close)(void **worker);
    /* Makes the item's arrays when all chunks are done, as an_analysis.finish does, but from the
     * worker, without a sync; the state is unchanged. If the backend cannot do so, this is NULL or
     * returns TC_MORE; then use sync and an_analysis.finish. */
    tc_status (*finish)(void *worker, void *state, size_t item_index, wu_output *out, tc_err *err);
} an_backend;

/* Facts about an item's pixels, which texcell-wu pack computes. */
typedef struct an_survey {
    uint32_t lo, hi;    /* smallest and largest grey value */
    uint64_t inside;    /* number of pixels in the mask, if there is one */
    uint64_t rgb[3];    /* sums of red, green and blue over all pixels, before conversion to grey */
    unsigned n_values;  /* number of different grey values, counted up to 3; 0 if it is not known */
    uint32_t values[2]; /* the first two of them */
    uint64_t saturated; /* number of pixels of the greatest value of 8, 10, 12, 14 or 16 bits; 0 if
                           `hi` is not such a value, and for colours */
} an_survey;

/* The note about an item whose pixels all have one grey value. It replaces the note of note_result,
 * as no parameter helps. */
#define AN_SAME_GREY "all pixels have the same grey"

typedef struct an_selftest an_selftest;
struct an_pictures;
struct an_suggestion;

/* Whether an analysis uses double precision on a device. */
typedef enum an_doubles {
    AN_NO_DOUBLES,
    AN_SOME_DOUBLES, /* only for some parameters or features */
    AN_ALL_DOUBLES
} an_doubles;

typedef struct an_analysis {
    const char *name;
    const char *summary;        /* a description in one line */
    const char *cite;           /* the publication of the method; NULL if there is none */
    const char *shorten_advice; /* text for people: which changes of parameters make a job take less
                            time; NULL if there are none */
    size_t params_bytes; /* size of the struct of parameters, which begins with an_params_head */
    const an_param *parameters; /* the table of parameters, ended by an entry without a key */
    /* Checks what the table cannot express (keys that depend on each other), and computes the
     * fields of the struct that are derived from others. where: the text that messages begin with
     * ("FILE: job.json: parameters"). NULL if there is nothing to do. */
    tc_status (*derive_params)(void *params, const char *where, tc_err *err);
    /* Frees what the struct owns, but not the struct; NULL if it owns nothing. */
    void (*clear_params)(void *params);
    /* Checks that the parameters can be used for this item (its size, a mask, ...). Called by
     * an_check_item. NULL: they can be used for every item. */
    tc_status (*check_item)(const void *params, const wu_item *item, const char *where,
                            tc_err *err);
    /* Writes a note for the scientist about an item that passed check_item: a sentence about a
     * possible problem, with a remedy. Returns false if there is no note. NULL: there never is one.
     */
    bool (*note_item)(const void *params, const wu_item *item, char *text, size_t size);
    /* Writes a note about the item's pixels, as `note_item` does, for texcell-wu pack. NULL: there
     * never is one. */
    bool (*note_survey)(const void *params, const wu_item *item, const an_survey *survey,
                        char *text, size_t size);
    /* Checks that pixels with this survey can be used, as check_item does for the item. NULL: all
     * pixels can be used. */
    tc_status (*check_survey)(const void *params, const wu_item *item, const an_survey *survey,
                              const char *where, tc_err *err);
    /* Writes a note, as `note_item` does, if an item's arrays, as finish makes them, are
     * meaningless. texcell-wu show passes less: only the arrays that have rows, with arbitrary
     * values in them, and an item of which only the size is set (0 if the result has no picture of
     * the item). NULL: there never is a note. */
    bool (*note_result)(const void *params, const wu_item *item, const wu_output *out, char *text,
                        size_t size);
    /* Computes the plan of an item. */
    tc_status (*plan)(const void *params, const wu_item *item, an_plan *plan, tc_err *err);
    /* For an analysis whose memory depends on the values of the pixels: replaces the plan's bytes
     * of memory by the bytes that these pixels need. To find them it does a part of the work. NULL:
     * the memory does not depend on the values. */
    tc_status (*memory)(const an_work *work, an_plan *plan, tc_err *err);
    /* The share of the chunks' total time that chunks_done chunks take: 0 to 1, never decreasing.
     * Depends only on parameters, item and plan, so that a job that continues from a checkpoint
     * shows no less progress than before. NULL: all chunks take equally long. */
    double (*time_share)(const an_work *work, uint64_t chunks_done);
    /* Fills the zeroed state of a new item, polling work->poll. Called by an_init. NULL: the state
     * remains zero. */
    tc_status (*init)(const an_work *work, void *state, tc_err *err);
    /* Checks a state from a checkpoint: positions and indices must be in range, numbers valid, so
     * that no state that passes can make the program fail. The caller has checked that chunks_done
     * is at most plan.chunks. Returns TC_BAD_INPUT with a message that says what is wrong. NULL:
     * all bytes are valid. */
    tc_status (*check_state)(const an_work *work, const void *state, tc_err *err);
    /* Makes the item's arrays from the final state, which they may refer to (wu_output_lend). Used
     * for both backends; polls work->poll. */
    tc_status (*finish)(const an_work *work, size_t item_index, const void *state, wu_output *out,
                        tc_err *err);
    /* Returns what the screensaver, texcell_graphics, shows at a pixel or voxel of the current
     * state: 0 for nothing, else a number from 1 to 255 that distinguishes objects or, with
     * preview_amounts, is an amount. Must accept any state. NULL: nothing is shown. */
    uint8_t (*preview)(const an_work *work, const void *state, size_t voxel);
    /* Adds the arrays that a result contains once, not for each item (WU_ONCE), with their values.
     * NULL: there are none. */
    tc_status (*add_constants)(const void *params, wu_output *out, tc_err *err);
    /* Declares the arrays that finish makes for an item, in the same order; other code learns
     * about the arrays only from here. One table may have any number of rows per item. */
    tc_status (*declare_arrays)(const void *params, const wu_item *item, wu_output *out,
                                tc_err *err);
    /* Checks whether these arrays, which have the shapes that declare_arrays declares, are possible
     * for this item. It checks bounds of values, sums that must agree, and everything else that can
     * be checked without the pixels. Returns TC_BAD_INPUT with a message about the first fault
     * (check.h).
     */
    tc_status (*check_result)(const void *params, const wu_item *item, const wu_output *out,
                              tc_err *err);
    /* Checks whether these arrays, which have passed check_result, are possible for the item's
     * pixels, by a small part of the work. *random (app/base/random.h) chooses which part, so that
     * nobody can know it beforehand. Returns TC_BAD_INPUT if they are not possible, and TC_NO_MATCH
     * if they are improbable, so that only computing the item again can decide. NULL: the item is
     * always computed again instead. */
    tc_status (*check_pixels)(const an_work *work, const wu_output *out, uint64_t *random,
                              tc_err *err);
    /* The name of an array that has an int64 for each item: how many regions, cells, points or
     * voxels it contains, of which there may be none. NULL: there is no such array. */
    const char *count_name;
    /* Suggests parameters for the pictures, besides those that are given (suggest.h). `out` is
     * empty, except for an empty object of parameters; it is freed by an_suggestion_free, also
     * after a failure. NULL: no suggestions. */
    tc_status (*suggest)(const struct an_pictures *pictures, const json_t *given,
                         struct an_suggestion *out, tc_err *err);
    /* The average cost of check_pixels for an item, as a share of its plan's operations, as
     * measured (docs/validation.md). The cost does not include reading the pixels. It includes
     * computing again the correct items that check_pixels finds improbable. The validator checks as
     * many items of a result as it can with a fiftieth of the result's operations, but at least
     * one. work->pixels is not set. If pixels_share is NULL, but check_pixels is not, the share
     * is 1. */
    double (*pixels_share)(const an_work *work);
    /* An estimate of the item's operations from its mask or labels: work->pixels has only these, of
     * a stack only of one slice (wu_item_load_regions). If work->pixels is NULL, the greatest
     * that any mask or labels give. NULL: they change little. */
    double (*flops_inside)(const an_work *work);
    /* Returns the number of steps that are planned for each item if items may end after fewer of
     * them, else 0. The array steps_name has an int64 for each item, the number of its steps. Then
     * check_end checks the pixels of each item for which check_pixels is not called, in the same
     * way, but at nearly no cost. NULL: items do not end early. */
    uint64_t (*most_steps)(const void *params);
    const char *steps_name;
    tc_status (*check_end)(const an_work *work, const wu_output *out, tc_err *err);
    const an_backend *cpu;    /* the CPU backend; ocl_backend() returns the OpenCL backend */
    bool preview_amounts;     /* `preview` returns amounts */
    bool takes_labels;        /* items must have label pictures; for other analyses they must not */
    bool takes_mask;          /* items may have a mask; check_item says when */
    bool forbids_mixed_kinds; /* a job must not have both images and stacks, as their rows differ in
                                 length */
    bool assumes_cubic_voxels; /* if a stack's spacing is unknown, its voxels are assumed to be
                                  cubes */
    bool uses_floats; /* results depend on single precision: the device must round as IEEE 754 */
    an_doubles doubles;
    /* Which kernels an item may use on a device: a bit for each group of kernels and for each
     * variant that they are compiled in. A job needs only those self-tests whose kernels are all
     * used by its items. NULL: a job needs all self-tests. */
    uint32_t (*kernels)(const void *params, const wu_item *item);
    const an_selftest *selftests; /* [] ended by an entry whose parameters are NULL (selftest.h) */
} an_analysis;

/* All analyses in the order of analyses.def, ended by NULL. */
extern const an_analysis *const an_analyses[];
/* The analysis of this name, or NULL if there is none. */
const an_analysis *an_find_analysis(const char *name);

/* Reads and checks the parameters in `json` (an_params_read, derive_params). *params is the
 * analysis' struct, to be passed to its functions and freed by an_params_free. where: the text that
 * messages begin with. */
tc_status an_parse_params(const an_analysis *analysis, const json_t *json, const char *where,
                          void **params, tc_err *err);
void an_params_free(const an_analysis *analysis, void **params);
/* The complete parameters as JSON, with defaults, and presets replaced by their values. The caller
 * owns the reference. */
json_t *an_params_as_run(const void *params);

/* Checks that the analysis can be done on this item. where: the text that messages begin with. */
tc_status an_check_item(const an_analysis *analysis, const void *params, const wu_item *item,
                        const char *where, tc_err *err);

/* A work unit that was read, with its analysis and parameters. */
typedef struct an_unit {
    wu_job *job;
    const an_analysis *analysis;
    void *params;
} an_unit;

/* Reads a work unit and its parameters, and checks that the analysis can be done on its items.
 * *out: freed by an_unit_free. */
tc_status an_unit_read(const char *path, an_unit *out, tc_err *err);
/* Does the same as an_unit_read, and polls meanwhile (wu_job_read_polled). */
tc_status an_unit_read_polled(const char *path, const tc_poll *poll, an_unit *out, tc_err *err);
/* Does the same as an_unit_read, but reads the work unit by wu_job_read_heads. */
tc_status an_unit_read_heads(const char *path, an_unit *out, tc_err *err);
void an_unit_free(an_unit *unit);

/* The operations of all chunks. */
static inline double an_chunks_flops(const an_plan *plan)
{
    return plan->flops - plan->open_flops - plan->load_flops - plan->finish_flops -
           plan->compress_flops - plan->identify_flops - plan->write_flops;
}

/* Completes a plan: computes open_flops, identify_flops and flops; the other parts must be set.
 * chunks: the operations of all chunks. */
void an_complete_plan(an_plan *plan, const wu_item *item, double chunks);

/* The operations of reading an item's pixels, for load_flops, from their bytes in memory and in the
 * file. */
double an_reading_flops(const wu_item *item);

/* The speed at which a device is assumed to do chunks, relative to a core, until it is measured. */
#define AN_DEVICE_SPEED 50
/* Operations of a plan that a core does in a second, accurate to a factor of two or three. */
#define AN_CORE_SPEED 5e9
/* The cost of an item's own work, from decoding its pixels to compressing its arrays, in operations
 * of a CPU core. speed: the speed at which the chunks are done, relative to a core (1 on the CPU);
 * all other work is always done by the CPU. */
double an_item_cost(const an_plan *plan, double speed);
/* The share of an_item_cost, 0 to 1, that is spent when chunks_done chunks are done. */
double an_spent_share(const an_analysis *analysis, const an_work *work, uint64_t chunks_done);
/* The share of an_item_cost, 0 to 1, that is spent when the given share of the item's arrays is
 * compressed. */
double an_spent_share_compressing(const an_work *work, double share);

/* Does all chunks of an item, without checkpoints, in a zeroed state of plan.state_bytes. deadline:
 * a time of tc_seconds, after which TC_TRY_LATER is returned; 0 if there is none. */
tc_status an_run_chunks(const an_analysis *analysis, const an_backend *backend, const an_work *work,
                        void *state, double deadline, tc_err *err);
/* Processes an item on the CPU completely. work->plan must be set. *out: the item's arrays, freed
 * by wu_output_free. index: the item's index in the job. deadline: see an_run_chunks. */
tc_status an_compute_item(const an_analysis *analysis, const an_work *work, size_t index,
                          double deadline, wu_output *out, tc_err *err);
/* Opens a worker on a zeroed state, and calls `use` with it, which does a part of the work and
 * writes what it finds to *result. */
tc_status an_use_worker(const an_backend *backend, const an_work *work,
                        tc_status (*use)(void *worker, void *state, void *result, tc_err *err),
                        void *result, tc_err *err);
/* Copies a box of an item's pixels to *out, which is freed by wu_pixels_free, also after a failure.
 * from, size: z, y, x. */
tc_status an_copy_box(const wu_pixels *px, const uint32_t from[3], const uint32_t size[3],
                      wu_pixels *out, tc_err *err);

/* Calls the analysis' init; does nothing if it is NULL. */
tc_status an_init(const an_analysis *analysis, const an_work *work, void *state, tc_err *err);
/* Calls the backend's sync; does nothing if it is NULL. */
tc_status an_sync(const an_backend *backend, void *worker, void *state, tc_err *err);

#endif
