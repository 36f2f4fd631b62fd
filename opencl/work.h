/*
 * Buffers, kernel launches and copies on an open device: a limit on the memory used, the measured
 * time of launches, and how much work the next launch is to have (its pace).
 *
 * All commands go through the device's one in-order queue, so a launch sees what was written before
 * it. Sizes and offsets are in bytes unless stated otherwise. Failures are TC_DEVICE; the caller
 * then continues from the last state that it has on the host.
 */
#ifndef OCL_WORK_H
#define OCL_WORK_H

#include "opencl/device.h"

/* --- buffers --------------------------------------------------------------------------------- */

/* Device memory. All members are zero if none is allocated. */
typedef struct ocl_buffer {
    cl_mem memory;
    size_t bytes;
} ocl_buffer;

/*
 * Allocates bytes on the device; the content is undefined. what: the purpose, for messages.
 * *buffer: free with ocl_buffer_free. TC_INTERNAL for 0 bytes.
 * TC_DEVICE: the device refuses. TC_TOO_LARGE: trying again cannot help, because a single buffer
 * may not be that large (ocl_info.max_alloc_bytes), or ocl_device.memory_limit would be exceeded.
 * Many drivers allocate late, so that the first command that uses the buffer may fail instead.
 */
tc_status ocl_buffer_new(ocl_device *device, size_t bytes, const char *what, ocl_buffer *buffer,
                         tc_err *err);
/* Frees and zeroes the buffer, which may be zeroed already. */
void ocl_buffer_free(ocl_device *device, ocl_buffer *buffer);

/* Copy to or from the device, and return when the copy is complete; so a read waits for the
 * launches queued before it. TC_INTERNAL if the range is not inside the buffer. */
tc_status ocl_write(ocl_device *device, const ocl_buffer *buffer, size_t offset, const void *from,
                    size_t bytes, tc_err *err);
tc_status ocl_read(ocl_device *device, const ocl_buffer *buffer, size_t offset, void *to,
                   size_t bytes, tc_err *err);
/* Zeroes the whole buffer by copying zeros from the host, which is slow: for use once per item, not
 * once per launch (kernels clear their own accumulators). */
tc_status ocl_zero_buffer(ocl_device *device, const ocl_buffer *buffer, tc_err *err);
/* Oclgrind's --uninitialized wrongly reports buffers that the host writes in parts (with an offset,
 * or by clEnqueueFillBuffer), but not buffers that are written whole, or by kernels alone. */

/* --- launches -------------------------------------------------------------------------------- */

/* A kernel and its limits on the device. Made by ocl_kernel_new (program.h). */
typedef struct ocl_kernel {
    cl_kernel handle;
    const char *name;     /* not owned */
    size_t max_group;     /* the most work-items of a work-group of this kernel */
    size_t multiple;      /* a work-group's size should be a multiple of this (warp, wavefront) */
    cl_ulong local_bytes; /* local memory that the kernel itself declares, without its arguments */
} ocl_kernel;

/* A kernel's argument: the size and address of a value, or NULL and the size of local memory. */
typedef struct ocl_arg {
    size_t bytes;
    const void *value;
} ocl_arg;
/* Initialisers of an ocl_arg: a variable, a buffer, or `size` bytes of local memory. */
#define OCL_ARG(variable) { sizeof(variable), &(variable) }
#define OCL_BUFFER(buffer) { sizeof(cl_mem), &(buffer).memory }
#define OCL_LOCAL(size) { (size), NULL }

/* Sets one argument. */
tc_status ocl_set_arg(ocl_device *device, const ocl_kernel *kernel, size_t index,
                      const ocl_arg *arg, tc_err *err);
/* Sets the first `count` arguments. */
tc_status ocl_set_args(ocl_device *device, const ocl_kernel *kernel, const ocl_arg *args,
                       size_t count, tc_err *err);

/* Launches that are timed together, from the start of the first to the end of the last. With some
 * drivers an event takes as long as a short kernel, so only the first launch has an event; waiting
 * for the batch queues a marker with a second event. A zeroed batch is empty. */
typedef struct ocl_batch {
    cl_event first, last;
    double queued_ms; /* ocl_clock_ms when the first launch was queued */
    bool has_several; /* the batch has launches after the first */
} ocl_batch;

/*
 * Queues a launch and adds it to the batch. dimensions: 1 to 3. start: offset of the global ids, or
 * NULL (0). local: the size of a work-group, or NULL (the driver chooses); each global size is a
 * multiple of it. Does nothing if a global size is 0.
 */
tc_status ocl_launch(ocl_device *device, const ocl_kernel *kernel, cl_uint dimensions,
                     const size_t *start, const size_t *global, const size_t *local,
                     ocl_batch *batch, tc_err *err);
/*
 * Waits for the batch and empties it, also on an error. Sets *ms to the time that the batch took on
 * the device (0 if it was empty). expected_ms: about how long the batch will take, or 0 if unknown.
 * If expected_ms is 2 or more, this thread mostly sleeps: in clWaitForEvents some drivers keep a
 * processor core busy.
 */
tc_status ocl_batch_wait(ocl_device *device, ocl_batch *batch, double expected_ms, double *ms,
                         tc_err *err);
/* Empties the batch without waiting; launches that are queued still run. */
void ocl_batch_drop(ocl_device *device, ocl_batch *batch);

/* The time of a monotonic clock, in milliseconds. */
double ocl_clock_ms(void);

/* n rounded up to a multiple of `multiple` (>= 1). */
size_t ocl_round_up(size_t n, size_t multiple);

/* --- pace ------------------------------------------------------------------------------------ */

/*
 * Determines how much work the next launch does, so that a launch takes about target_ms: then a
 * desktop on the same GPU stays usable, and no driver's watchdog ends the launch. The unit of work
 * is the caller's (rows, offsets, iterations). The results must not depend on how the work is
 * divided.
 */
typedef struct ocl_pace {
    double target_ms;
    uint64_t next_work; /* the amount of work of the next launch */
    uint64_t max_work;  /* the most that `next_work` may become */
    double last_ms;     /* the duration of the last launch, and the expected one of the next */
    double first;       /* the first guess of `next_work`, which may be less than 1 */
    double *growth;  /* receives next_work / first whenever `next_work` changes; NULL if that is not
                        recorded */
    bool even_units; /* all units of work take about equally long, so `next_work` may become four
                        times as large at once (ocl_pace_adjust) */
} ocl_pace;

/* Initialises the pace for launches of about target_ms. Sets `next_work` to `first`, but to at
 * least 1 and at most `max_work`. This device's speed is not known yet, so `first` should be the
 * work that the slowest device does in about two milliseconds. */
void ocl_pace_init(ocl_pace *pace, double target_ms, uint64_t first, uint64_t most);
/* The work of the next launch, where `left` is the work that remains: at least 1 unless left is
 * 0. */
uint64_t ocl_pace_next(const ocl_pace *pace, uint64_t left);
/* Adjusts `next_work` after a launch of `work` units that took ms. If the launch took longer than
 * target_ms, `next_work` shrinks at once. It grows only if the launch did at least `next_work`
 * units: to at most twice its value or, with even_units, to four times its value if a launch of
 * that size should take at most half of target_ms. */
void ocl_pace_adjust(ocl_pace *pace, uint64_t work, double ms);

#endif
