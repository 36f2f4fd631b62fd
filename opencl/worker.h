/*
 * What the launchers (NAME_cl.c) do alike: the worker of a device backend with its
 * buffers, kernels and launches, made and released together.
 *
 * A launcher names its buffers and kernels by enums, and its worker begins with
 * an ocl_worker called ocl:
 *
 *     enum { PIXELS, MASK, BUFFERS };
 *     enum { K_MASK, KERNELS };
 *     typedef struct cl_worker { ocl_worker ocl; ... } cl_worker;
 *
 *     static const ocl_launcher launcher = { "NAME", sizeof(cl_worker), open_parts, free_parts };
 *     static tc_status cl_open(const an_work *work, const void *state, void **worker, tc_err *err)
 *     {
 *         return ocl_worker_open(&launcher, work, state, worker, err);
 *     }
 *     const an_backend ocl_NAME = { "opencl", cl_open, cl_step, cl_sync, ocl_worker_close };
 *
 * open_parts builds the kernels (ocl_build), sets the paces (ocl_pace_begin) and makes the buffers,
 * from a table (ocl_make_buffers). A step takes as much work as its pace allows, queues launches
 * (OCL_QUEUE), and ends with ocl_end_launch, which waits, and drops what is queued
 * where that failed:
 *
 *     const uint64_t n = ocl_pace_next(&w->pace, left);
 *     tc_status status = OCL_QUEUE(w, K_MASK, ocl_grid_of(64, nx, n, 1), err,
 *                              OCL_HELD(w, PIXELS), OCL_HELD(w, MASK), OCL_UINT(first));
 *     status = ocl_end_launch(&w->ocl, status, &w->pace, n, err);
 *
 * A sync reads with ocl_fetch, all or nothing. As everywhere in opencl/, failures are
 * TC_DEVICE or TC_TOO_LARGE, with a message.
 */
#ifndef OCL_WORKER_H
#define OCL_WORKER_H

#include "app/analysis/analysis.h"
#include "app/base/numbers.h"
#include "app/base/pool.h"
#include "opencl/program.h"

enum { OCL_MOST_BUFFERS = 24, OCL_MOST_KERNELS = 40, OCL_REMEMBERED_ARGS = 24 };

/* A launcher: how its worker is made. */
typedef struct ocl_launcher {
    const char *name; /* of the analysis, for messages */
    size_t worker_bytes;
    /* Prepares a zeroed worker, whose ocl has its work and device already. */
    tc_status (*open)(void *worker, const void *state, tc_err *err);
    /* Frees what is not ocl's, also of a worker half made; NULL: nothing. */
    void (*free)(void *worker);
} ocl_launcher;

/* What an argument of a kernel was set to last; 0 bytes: not known. */
typedef struct ocl_set_value {
    size_t bytes;
    unsigned char value[8];
} ocl_set_value;

typedef struct ocl_worker {
    const ocl_launcher *launcher;
    const an_work *work;
    ocl_device *device;
    ocl_buffer buffer[OCL_MOST_BUFFERS]; /* by the launcher's enums */
    ocl_kernel kernel[OCL_MOST_KERNELS];
    ocl_set_value set[OCL_MOST_KERNELS][OCL_REMEMBERED_ARGS];
    ocl_batch batch; /* launches queued since the last wait */
    size_t n_paces;
    bool torn;      /* the work was stopped within a step: what is on the device is no state */
    double took_ms; /* device time of what ocl_end_launch waited for last */
} ocl_worker;

/* For an an_backend: open makes the worker, and leaves none behind if it fails;
 * close releases all of it. */
tc_status ocl_worker_open(const ocl_launcher *launcher, const an_work *work, const void *state,
                          void **worker, tc_err *err);
void ocl_worker_close(void **worker);

/* --- kernels --------------------------------------------------------------------------------- */

/* Of a list STAGE(stage, kernel) ..., each stage of a launcher with the kernel's name or NULL: the
 * enumerators and the names. */
#define OCL_STAGE_NUMBER(stage, kernel) stage,
#define OCL_STAGE_KERNEL(stage, kernel) kernel,

/* Work-items of a group: `most`, a power of two, halved until the device has it. */
size_t ocl_group_size(const ocl_device *device, size_t most);

/* Builds a program and makes its kernels: kernel i is names[i] (strings that outlive
 * the worker), none where that is NULL. floats, and format of the defines: see
 * ocl_program_build. */
tc_status ocl_build(ocl_worker *w, const ocl_source *source, bool floats, const char *const *names,
                    size_t n, tc_err *err, const char *format, ...) TC_FORMAT(7, 8);

/* --- buffers --------------------------------------------------------------------------------- */

/* A buffer that a launcher needs. */
typedef struct ocl_need {
    int buffer;       /* which; there is none yet */
    uint64_t bytes;   /* 0: it is not needed */
    const char *what; /* it is for, in messages */
    const void *from; /* its content; NULL: undefined */
} ocl_need;
tc_status ocl_make_buffers(ocl_worker *w, const ocl_need *needs, size_t n, tc_err *err);

/* Bytes of a buffer from `offset` on: ocl_write, ocl_read; 0 bytes are fine, whatever the
 * buffer. */
tc_status ocl_put(ocl_worker *w, int buffer, size_t offset, const void *from, size_t bytes,
                  tc_err *err);
tc_status ocl_get(ocl_worker *w, int buffer, size_t offset, void *to, size_t bytes, tc_err *err);

/* Pixels from `first` on, 8 or 16 bits of each. */
const void *ocl_pixels_from(const wu_pixels *px, size_t first);

/* The first bytes of a buffer, and where they go. */
typedef struct ocl_part {
    int buffer;
    size_t bytes; /* 0: nothing */
    void *to;
} ocl_part;
/* Reads the parts, all of them or none: through memory of its own, which is saved
 * where the places are zero as yet, and are so again after a failure. TC_TRY_LATER also
 * where the worker is torn. */
tc_status ocl_fetch(ocl_worker *w, const ocl_part *parts, size_t n, bool zero, tc_err *err);

/* --- launches -------------------------------------------------------------------------------- */

/* Work-items in all, and of a group; local[0] == 0: the driver's choice; the number of the
 * first. */
typedef struct ocl_grid {
    size_t global[3], local[3], start[3];
} ocl_grid;
/* x * y * z work-items in groups of `group` along x, which is rounded up. */
ocl_grid ocl_grid_of(size_t group, size_t x, size_t y, size_t z);

/* Units that n take. */
static inline uint32_t ocl_units(uint64_t n, uint64_t unit)
{
    return (uint32_t)tc_quotient_up(n, unit);
}

/* Queues a launch of a kernel. Arguments that are as at the last launch are not
 * set again: that would take longer than a small kernel does. */
tc_status ocl_queue(ocl_worker *w, int kernel, ocl_grid grid, const ocl_arg *args, size_t n,
                    tc_err *err);
/* The same for a launcher's worker, with the arguments one by one: */
#define OCL_QUEUE(w, kernel, grid, err, ...)                             \
    ocl_queue(&(w)->ocl, kernel, grid, (const ocl_arg[]){ __VA_ARGS__ }, \
              sizeof((const ocl_arg[]){ __VA_ARGS__ }) / sizeof(ocl_arg), err)
/* one of its buffers, local memory (OCL_LOCAL), or a number. */
#define OCL_HELD(w, i) OCL_BUFFER((w)->ocl.buffer[i])
/* clang-format off */
#define OCL_INT(v) { sizeof(cl_int), &(const cl_int){ (cl_int)(v) } }
#define OCL_UINT(v) { sizeof(cl_uint), &(const cl_uint){ (cl_uint)(v) } }
#define OCL_LONG(v) { sizeof(cl_long), &(const cl_long){ (cl_long)(v) } }
#define OCL_FLOAT(v) { sizeof(cl_float), &(const cl_float){ (cl_float)(v) } }
/* clang-format on */

/* ocl_pace_init for a worker: each of its paces, in the same order for every item, as the next goes
 * on with what the one before has learned of the device: how many times `first` it bears. Less than
 * 1 says that even one is more than a careful guess. */
void ocl_pace_begin(ocl_worker *w, ocl_pace *pace, double first, uint64_t most);

/* Ends what was queued with `status`: waits for it, and lets the pace learn that `work`
 * took as long; or, where status is a failure, drops it and returns status. Then rests, where
 * launches are to have a share of the time only, and asks work->poll meanwhile, which has the last
 * word elsewhere. */
tc_status ocl_end_launch(ocl_worker *w, tc_status status, ocl_pace *pace, uint64_t work,
                         tc_err *err);
/* Between launches of a step that changes a state in place: asks work->poll; a stop leaves it
 * torn. */
tc_status ocl_ask(ocl_worker *w, tc_err *err);

#endif
