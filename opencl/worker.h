/*
 * The part of a device backend's worker that all analyses have: buffers, kernels and launches, and
 * the functions that create, use and release them.
 *
 * A backend (NAME_cl.c) numbers its buffers and kernels by enums. Its worker begins with an
 * ocl_worker named ocl, and its ocl_launcher says how the worker is made:
 *
 *     enum { PIXELS, MASK, BUFFERS };
 *     enum { K_MASK, KERNELS };
 *     typedef struct cl_worker { ocl_worker ocl; ... } cl_worker;
 *
 *     static const ocl_launcher launcher = { "NAME", sizeof(cl_worker), open_worker, free_worker };
 *     static tc_status cl_open(const an_work *work, const void *state, void **worker, tc_err *err)
 *     {
 *         return ocl_worker_open(&launcher, work, state, worker, err);
 *     }
 *     const an_backend ocl_NAME = { "opencl", cl_open, cl_step, cl_sync, ocl_worker_close };
 *
 * open_worker builds the kernels (ocl_build_kernels), sets the paces (ocl_pace_begin) and allocates
 * the buffers from a table (ocl_make_buffers). cl_step does as much work as its pace allows: it
 * queues launches (OCL_QUEUE), and calls ocl_end_launch, which waits for them, or drops the batch
 * if queuing failed:
 *
 *     const uint64_t n = ocl_pace_next(&w->pace, left);
 *     tc_status status = OCL_QUEUE(w, K_MASK, ocl_grid_of(64, nx, n, 1), err,
 *                              OCL_BUFFER_ARG(w, PIXELS),
 *                              OCL_BUFFER_ARG(w, MASK), OCL_UINT(first));
 *     status = ocl_end_launch(&w->ocl, status, &w->pace, n, err);
 *
 * cl_sync reads with ocl_download_parts, which copies everything or nothing. As everywhere in
 * opencl/, failures of the device are TC_DEVICE or TC_TOO_LARGE, with a message.
 */
#ifndef OCL_WORKER_H
#define OCL_WORKER_H

#include "app/analysis/analysis.h"
#include "app/base/numbers.h"
#include "app/base/pool.h"
#include "opencl/program.h"

enum {
    OCL_MOST_BUFFERS = 24,   /* the most buffers of a worker */
    OCL_MOST_KERNELS = 40,   /* the most kernels of a worker */
    OCL_REMEMBERED_ARGS = 24 /* number of a kernel's arguments whose values are stored, so that an
                                unchanged value is not set again */
};

/* How the worker of a backend is made. */
typedef struct ocl_launcher {
    const char *name;    /* the analysis' name, for messages */
    size_t worker_bytes; /* the size of the backend's worker, which begins with an ocl_worker */
    /* Prepares the worker, which is zeroed except for launcher, work and device of its ocl. */
    tc_status (*open)(void *worker, const void *state, tc_err *err);
    /* Frees the worker's members other than ocl, also if open has failed; NULL if none has to be
     * freed. */
    void (*free)(void *worker);
} ocl_launcher;

/* The value to which a kernel's argument was last set; bytes is 0 if the value is not known. */
typedef struct ocl_last_value {
    size_t bytes;
    unsigned char value[8];
} ocl_last_value;

typedef struct ocl_worker {
    const ocl_launcher *launcher;
    const an_work *work;
    ocl_device *device;
    ocl_buffer buffer[OCL_MOST_BUFFERS];                       /* numbered by the backend's enum */
    ocl_kernel kernel[OCL_MOST_KERNELS];                       /* numbered by the backend's enum */
    ocl_last_value set[OCL_MOST_KERNELS][OCL_REMEMBERED_ARGS]; /* by kernel and argument */
    ocl_batch batch;      /* launches queued since the last wait */
    size_t n_paces;       /* number of calls of ocl_pace_begin */
    bool is_inconsistent; /* a step has stopped halfway (ocl_poll_in_step), so the buffers do not
                           * contain a valid state
                           */
    double took_ms;       /* device time of the launches that ocl_end_launch last waited for */
} ocl_worker;

/* The functions for open and close of an an_backend. If opening fails, *worker is NULL. */
tc_status ocl_worker_open(const ocl_launcher *launcher, const an_work *work, const void *state,
                          void **worker, tc_err *err);
void ocl_worker_close(void **worker);

/* --- kernels --------------------------------------------------------------------------------- */

/* A backend whose work consists of stages lists them by a macro LIST(STAGE), which applies
 * STAGE(stage, kernel) to each, where kernel is a kernel's name or NULL. With these two macros as
 * STAGE, the list becomes the enumerators, and the array of the kernels' names. */
#define OCL_STAGE_NUMBER(stage, kernel) stage,
#define OCL_STAGE_KERNEL(stage, kernel) kernel,

/* The number of work-items for a work-group: `most`, a power of two, halved until the device allows
 * it. */
size_t ocl_group_size(const ocl_device *device, size_t most);

/* Builds a program and makes kernel i of the worker, i < n, from names[i] (strings that outlive the
 * worker); leaves kernel i unchanged if names[i] is NULL. format and the arguments that follow
 * (printf style) make the flags `defines` of ocl_program_build, which also describes `floats`. */
tc_status ocl_build_kernels(ocl_worker *w, const ocl_source *source, bool floats,
                            const char *const *names, size_t n, tc_err *err, const char *format,
                            ...) TC_FORMAT(7, 8);

/* --- buffers --------------------------------------------------------------------------------- */

/* A buffer that a backend needs. */
typedef struct ocl_buffer_need {
    int buffer;       /* the buffer's number; the buffer is not allocated yet */
    uint64_t bytes;   /* the buffer's size; 0: the buffer is not needed and not allocated */
    const char *what; /* the buffer's purpose, for messages */
    const void *from; /* the buffer's initial content; NULL: the content is undefined */
} ocl_buffer_need;
/* Allocates the buffers. After an error, the buffers that were allocated remain until the worker is
 * closed. */
tc_status ocl_make_buffers(ocl_worker *w, const ocl_buffer_need *needs, size_t n, tc_err *err);

/* Copy bytes to (ocl_upload) or from (ocl_download) a buffer, from `offset` on, in pieces, and call
 * work->poll between the pieces. If bytes is 0, the buffer need not exist. */
tc_status ocl_upload(ocl_worker *w, int buffer, size_t offset, const void *from, size_t bytes,
                     tc_err *err);
tc_status ocl_download(ocl_worker *w, int buffer, size_t offset, void *to, size_t bytes,
                       tc_err *err);

/* The address of the grey value of pixel `first`, of 8 or 16 bits. */
const void *ocl_pixels_from(const wu_pixels *px, size_t first);

/* The first bytes of a buffer, and the place on the host to which they are copied. */
typedef struct ocl_part {
    int buffer;
    size_t bytes; /* 0: nothing is copied */
    void *to;
} ocl_part;
/* Copies the parts to the host. An error leaves the destinations unchanged: the parts are first
 * read into temporary memory. zero: the destinations contain zeros, so the parts are read into them
 * directly, and zeroed after an error. Also returns TC_TRY_LATER if the worker is inconsistent. */
tc_status ocl_download_parts(ocl_worker *w, const ocl_part *parts, size_t n, bool zero,
                             tc_err *err);

/* --- launches -------------------------------------------------------------------------------- */

/* The size of a launch; the arrays are along x, y and z. */
typedef struct ocl_grid {
    size_t global[3]; /* work-items of the launch */
    size_t local[3];  /* work-items of a work-group; if local[0] is 0, the driver chooses them */
    size_t start[3];  /* the first work-item's global id */
} ocl_grid;
/* Returns a grid of x * y * z work-items in work-groups of `group` work-items along x; x is rounded
 * up to a multiple of `group`. */
ocl_grid ocl_grid_of(size_t group, size_t x, size_t y, size_t z);

/* n / unit, rounded up. */
static inline uint32_t ocl_unit_count(uint64_t n, uint64_t unit)
{
    return (uint32_t)tc_div_ceil(n, unit);
}

/* Queues a launch of the worker's kernel number `kernel`. Arguments that have the same value as in
 * the kernel's previous launch are not set again, since setting all takes longer than a small
 * kernel. */
tc_status ocl_queue(ocl_worker *w, int kernel, ocl_grid grid, const ocl_arg *args, size_t n,
                    tc_err *err);
/* Calls ocl_queue for a backend's worker, with the kernel's arguments as the macro's last ones:
 * OCL_BUFFER_ARG, OCL_LOCAL, OCL_INT, OCL_UINT, ... */
#define OCL_QUEUE(w, kernel, grid, err, ...)                             \
    ocl_queue(&(w)->ocl, kernel, grid, (const ocl_arg[]){ __VA_ARGS__ }, \
              sizeof((const ocl_arg[]){ __VA_ARGS__ }) / sizeof(ocl_arg), err)
/* An argument that is the worker's buffer number i. */
#define OCL_BUFFER_ARG(w, i) OCL_BUFFER((w)->ocl.buffer[i])
/* Arguments: a number of the kernel's type int, uint, long or float. */
/* clang-format off */
#define OCL_INT(v) { sizeof(cl_int), &(const cl_int){ (cl_int)(v) } }
#define OCL_UINT(v) { sizeof(cl_uint), &(const cl_uint){ (cl_uint)(v) } }
#define OCL_LONG(v) { sizeof(cl_long), &(const cl_long){ (cl_long)(v) } }
#define OCL_FLOAT(v) { sizeof(cl_float), &(const cl_float){ (cl_float)(v) } }
/* clang-format on */

/* Calls ocl_pace_init for a pace of the worker. The pace begins with `first` times the factor by
 * which the same pace has grown during the job's earlier items; so a backend must begin its paces
 * in the same order for every item. `first` is less than 1 if a launch of one unit may take too
 * long. */
void ocl_pace_begin(ocl_worker *w, ocl_pace *pace, double first, uint64_t most);

/* Ends a batch of launches. status: the result of queuing them. If it is TC_OK, waits for the batch
 * and adjusts the pace (ocl_pace_adjust) to the time that `work` took; otherwise drops the batch
 * and returns status. Then sleeps if launches may take only a share of the time (ocl_device.share),
 * and calls work->poll meanwhile; a request to stop ends the sleep, but is not returned. */
tc_status ocl_end_launch(ocl_worker *w, tc_status status, ocl_pace *pace, uint64_t work,
                         tc_err *err);
/* Calls work->poll between launches of a step that changes the state's buffers in place. If the
 * poll requests to stop, the worker becomes inconsistent (ocl_worker.is_inconsistent). */
tc_status ocl_poll_in_step(ocl_worker *w, tc_err *err);

#endif
