/*
 * Work on an open device: buffers under a budget, launches whose time is
 * measured, and a pace that keeps a launch short.
 *
 * Everything goes through the device's one in-order queue, so a launch sees
 * what was written before it. Sizes and offsets are bytes unless said
 * otherwise. Failures are TC_DEVICE; the caller then goes back to the last
 * state that it has on the host.
 */
#ifndef OCL_WORK_H
#define OCL_WORK_H

#include "opencl/device.h"

/* --- buffers --------------------------------------------------------------------------------- */

/* Device memory. Zeroed means none. */
typedef struct ocl_buffer {
    cl_mem memory;
    size_t bytes;
} ocl_buffer;

/*
 * Allocates bytes on the device; the content is undefined. `what` says in
 * messages what it is for. *buffer: free with ocl_buffer_free. TC_INTERNAL for no bytes.
 * TC_DEVICE when the device refuses. TC_TOO_LARGE when it always would: a single
 * buffer may not be that large, or the program's share of the device would be
 * exceeded (ocl_device.memory_limit). Many drivers allocate late: the first command that
 * touches the buffer may be the one that fails.
 */
tc_status ocl_buffer_new(ocl_device *device, size_t bytes, const char *what, ocl_buffer *buffer,
                         tc_err *err);
/* Frees and zeroes; fine for a buffer that is zeroed. */
void ocl_buffer_free(ocl_device *device, ocl_buffer *buffer);

/* Copies to, from the device; return when it is done. A read waits for the
 * launches before it. TC_INTERNAL if the range is not inside the buffer. */
tc_status ocl_write(ocl_device *device, const ocl_buffer *buffer, size_t offset, const void *from,
                    size_t bytes, tc_err *err);
tc_status ocl_read(ocl_device *device, const ocl_buffer *buffer, size_t offset, void *to,
                   size_t bytes, tc_err *err);
/* Zeroes the whole buffer, from the host: for once an item, not for once a
 * launch (kernels clear their own accumulators). */
tc_status ocl_zero(ocl_device *device, const ocl_buffer *buffer, tc_err *err);
/* Oclgrind's --uninitialized takes all of a buffer that the host wrote in parts
 * (with an offset, or by clEnqueueFillBuffer) for uninitialized. Whole writes,
 * and buffers that only kernels write, are understood. */

/* --- launches -------------------------------------------------------------------------------- */

/* A kernel with what the device says of it. Made by ocl_kernel_new (program.h). */
typedef struct ocl_kernel {
    cl_kernel handle;
    const char *name;     /* not owned */
    size_t max_group;     /* work-items of a group that this kernel can have */
    size_t multiple;      /* a group should be a multiple of this (warp, wavefront) */
    cl_ulong local_bytes; /* local memory that it takes by itself */
} ocl_kernel;

/* An argument: the address and size of a value, or local memory. */
typedef struct ocl_arg {
    size_t bytes;
    const void *value;
} ocl_arg;
#define OCL_ARG(variable) { sizeof(variable), &(variable) }
#define OCL_BUFFER(buffer) { sizeof(cl_mem), &(buffer).memory }
#define OCL_LOCAL(size) { (size), NULL }

/* Sets one argument. */
tc_status ocl_set_arg(ocl_device *device, const ocl_kernel *kernel, size_t index,
                      const ocl_arg *arg, tc_err *err);
/* Sets the first count arguments, in order. */
tc_status ocl_set_args(ocl_device *device, const ocl_kernel *kernel, const ocl_arg *args,
                       size_t count, tc_err *err);

/* Launches that are timed together, from the first's start to the last's end.
 * Only the first has an event, and when the batch is waited for a marker behind
 * the last: an event for each costs some drivers as much as a short kernel.
 * Zeroed means none. */
typedef struct ocl_batch {
    cl_event first, last;
    double queued_ms; /* clock when the first was queued */
    bool more;        /* launches followed the first */
} ocl_batch;

/*
 * Queues a launch in the batch. dimensions 1..3; start may be NULL (0,0,0);
 * local may be NULL (the driver's choice), otherwise each global size is a
 * multiple of it. A launch of no work-items is left out.
 */
tc_status ocl_launch(ocl_device *device, const ocl_kernel *kernel, cl_uint dimensions,
                     const size_t *start, const size_t *global, const size_t *local,
                     ocl_batch *batch, tc_err *err);
/*
 * Waits for the batch and empties it, whatever the outcome. *ms is the time that
 * it took on the device (0 if it was empty). expected_ms, about how long it will
 * take (0 if unknown), lets the wait sleep: some drivers spin in their own wait
 * and would hold a processor core all the time.
 */
tc_status ocl_batch_wait(ocl_device *device, ocl_batch *batch, double expected_ms, double *ms,
                         tc_err *err);
/* Empties the batch without a wait; what is queued still runs. */
void ocl_batch_drop(ocl_device *device, ocl_batch *batch);

/* Milliseconds of a clock that only goes forward. */
double ocl_clock_ms(void);

/* n rounded up to a multiple of `multiple` (>= 1). */
size_t ocl_round_up(size_t n, size_t multiple);

/* --- pace ------------------------------------------------------------------------------------ */

/*
 * How much work goes into the next launch, so that one takes about target_ms:
 * a desktop on the same GPU stays usable and no driver's watchdog fires. Work is
 * counted in whatever the caller's kernels take (rows, offsets, iterations).
 * The results must not depend on it.
 */
typedef struct ocl_pace {
    double target_ms;
    uint64_t now;   /* work of the next launch */
    uint64_t most;  /* never more than this */
    double last_ms; /* what the last launch took; for ocl_batch_wait */
    double first;   /* the guess that it began with, which may be less than 1 */
    double *grown;  /* where now / first is kept; NULL: nowhere */
    bool bold;      /* all work is about alike, and grows by more: see ocl_pace_took */
} ocl_pace;

/* Starts with `first`, but at least 1 and at most `most`: a careful guess, since it is launched
 * before anything is known of the device. Two milliseconds on the slowest one that there is. */
void ocl_pace_init(ocl_pace *pace, double target_ms, uint64_t first, uint64_t most);
/* The work for the next launch when `left` is left: at least 1 unless left is 0. */
uint64_t ocl_pace_next(const ocl_pace *pace, uint64_t left);
/* Learns from a launch of `work` that took ms: shrinks at once; grows at most to twice as much, and
 * only after a launch of as much as it had asked for. A bold one grows to four times as much
 * where that should take half of what is wanted. */
void ocl_pace_took(ocl_pace *pace, uint64_t work, double ms);

#endif
