/* Manages the buffers, kernels, launches and paces of a device backend's worker. */
#include "opencl/worker.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/base/background.h"
#include "app/base/os.h"

tc_status ocl_worker_open(const ocl_launcher *launcher, const an_work *work, const void *state,
                          void **worker, tc_err *err)
{
    assert(work->device != NULL && launcher->worker_bytes >= sizeof(ocl_worker));
    ocl_worker *const w = calloc(1, launcher->worker_bytes);

    *worker = w;
    if (w == NULL)
        return tc_no_memory(err, launcher->name);
    w->launcher = launcher;
    w->work = work;
    w->device = work->device;
    w->device->threads = work->threads;
    const tc_status status = launcher->open(w, state, err);
    if (status != TC_OK)
        ocl_worker_close(worker);
    return status;
}

void ocl_worker_close(void **worker)
{
    ocl_worker *const w = *worker;

    *worker = NULL;
    if (w == NULL)
        return;
    ocl_batch_drop(w->device, &w->batch);
    for (int i = 0; i < OCL_MOST_KERNELS; i++)
        ocl_kernel_free(w->device, &w->kernel[i]);
    for (int i = 0; i < OCL_MOST_BUFFERS; i++)
        ocl_buffer_free(w->device, &w->buffer[i]);
    if (w->launcher->free != NULL)
        w->launcher->free(w);
    free(w);
}

/* --- kernels --------------------------------------------------------------------------------- */

size_t ocl_group_size(const ocl_device *device, size_t most)
{
    assert(most > 0 && (most & (most - 1)) == 0); /* a power of two */
    while (most > device->info.max_group)
        most /= 2;
    return most;
}

tc_status ocl_build_kernels(ocl_worker *w, const ocl_source *source, bool floats,
                            const char *const *names, size_t n, tc_err *err, const char *format,
                            ...)
{
    assert(n <= OCL_MOST_KERNELS);
    char defines[128];
    cl_program program = NULL;
    va_list args;
    int length;

    va_start(args, format);
    length = vsnprintf(defines, sizeof defines, format, args);
    va_end(args);
    if (length < 0 || (size_t)length >= sizeof defines)
        return tc_fail(err, TC_INTERNAL, "%s: the defines are too long", source->name);
    return_if_error(ocl_program_build(w->device, source, defines, floats, &program, err));
    for (size_t i = 0; i < n; i++) {
        if (names[i] != NULL)
            return_if_error(ocl_kernel_new(w->device, program, names[i], &w->kernel[i], err));
        return_if_error(tc_call_poll(w->work->poll, err));
    }
    return TC_OK;
}

/* --- buffers --------------------------------------------------------------------------------- */

tc_status ocl_make_buffers(ocl_worker *w, const ocl_buffer_need *needs, size_t n, tc_err *err)
{
    for (size_t i = 0; i < n; i++) {
        const ocl_buffer_need *const need = &needs[i];

        assert(need->buffer >= 0 && need->buffer < OCL_MOST_BUFFERS);
        assert(w->buffer[need->buffer].memory == NULL);
        if (need->bytes == 0)
            continue;
        return_if_error(
            ocl_buffer_new(w->device, need->bytes, need->what, &w->buffer[need->buffer], err));
        if (need->from != NULL)
            return_if_error(ocl_upload(w, need->buffer, 0, need->from, need->bytes, err));
    }
    return TC_OK;
}

const void *ocl_pixels_from(const wu_pixels *px, size_t first)
{
    return px->bits == 16 ? (const void *)(px->u16 + first) : px->u8 + first;
}

/* The most bytes that are copied between two calls of tc_call_poll. Copying this many bytes takes
 * about 10 ms, even to memory that is used for the first time. */
#define TRANSFER ((size_t)1 << 25)

/* Copies bytes from `from` to the buffer, or, if `from` is NULL, from the buffer to `to`. */
static tc_status transfer_bytes(ocl_worker *w, int buffer, size_t offset, const unsigned char *from,
                                unsigned char *to, size_t bytes, tc_err *err)
{
    assert(buffer >= 0 && buffer < OCL_MOST_BUFFERS);

    for (size_t at = 0, n; at < bytes; at += n) {
        n = bytes - at < TRANSFER ? bytes - at : TRANSFER;
        return_if_error(
            from != NULL ? ocl_write(w->device, &w->buffer[buffer], offset + at, from + at, n, err)
                         : ocl_read(w->device, &w->buffer[buffer], offset + at, to + at, n, err));
        if (at + n < bytes)
            return_if_error(tc_call_poll(w->work->poll, err));
    }
    return TC_OK;
}

tc_status ocl_upload(ocl_worker *w, int buffer, size_t offset, const void *from, size_t bytes,
                     tc_err *err)
{
    return transfer_bytes(w, buffer, offset, from, NULL, bytes, err);
}

tc_status ocl_download(ocl_worker *w, int buffer, size_t offset, void *to, size_t bytes,
                       tc_err *err)
{
    return transfer_bytes(w, buffer, offset, NULL, to, bytes, err);
}

/* Returns the total number of bytes of the n parts. */
static size_t parts_bytes(const ocl_part *parts, size_t n)
{
    size_t bytes = 0;

    for (size_t i = 0; i < n; i++)
        bytes += parts[i].bytes;
    return bytes;
}

/* Reads the parts one after another into `copy`, or, if `copy` is NULL, to their destinations. */
static tc_status read_parts(ocl_worker *w, const ocl_part *parts, size_t n, unsigned char *copy,
                            tc_err *err)
{
    for (size_t i = 0, at = 0; i < n; at += parts[i++].bytes)
        return_if_error(ocl_download(w, parts[i].buffer, 0, copy != NULL ? copy + at : parts[i].to,
                                     parts[i].bytes, err));
    return TC_OK;
}

/* Copies a part from `from` to its destination, and calls work->poll between pieces. */
static tc_status copy_part(const ocl_worker *w, const ocl_part *part, const unsigned char *from,
                           tc_err *err)
{
    unsigned char *const to = part->to;

    for (size_t at = 0, n; at < part->bytes; at += n) {
        n = part->bytes - at < TRANSFER ? part->bytes - at : TRANSFER;
        memcpy(to + at, from + at, n);
        if (at + n < part->bytes)
            return_if_error(tc_call_poll(w->work->poll, err));
    }
    return TC_OK;
}

tc_status ocl_download_parts(ocl_worker *w, const ocl_part *parts, size_t n, bool zero, tc_err *err)
{
    if (w->is_inconsistent)
        return tc_fail(err, TC_TRY_LATER, "stopped");
    unsigned char *const copy = zero ? NULL : os_alloc_zeroed(parts_bytes(parts, n) + 1);
    tc_status status = zero || copy != NULL ? read_parts(w, parts, n, copy, err)
                                            : tc_no_memory(err, w->launcher->name);

    for (size_t i = 0, at = 0; i < n; at += parts[i++].bytes) {
        if (zero && status != TC_OK)
            memset(parts[i].to, 0, parts[i].bytes);
        else if (!zero && status == TC_OK)
            status = copy_part(w, &parts[i], copy + at, err);
    }
    free(copy);
    return status;
}

/* --- launches -------------------------------------------------------------------------------- */

ocl_grid ocl_grid_of(size_t group, size_t x, size_t y, size_t z)
{
    return (ocl_grid){ { ocl_round_up(x, group), y, z }, { group, 1, 1 }, { 0 } };
}

/* Records in *old the value that an argument is about to be set to. Returns false if the argument
 * already has this value. An argument that is local memory has no value, and is set each time; so
 * is a value that is too large for *old. */
static bool record_change(ocl_last_value *old, const ocl_arg *arg)
{
    if (arg->value != NULL && old->bytes == arg->bytes &&
        memcmp(old->value, arg->value, arg->bytes) == 0)
        return false;
    old->bytes = arg->value != NULL && arg->bytes <= sizeof old->value ? arg->bytes : 0;
    if (old->bytes > 0)
        memcpy(old->value, arg->value, arg->bytes);
    return true;
}

/* Sets argument i of a kernel, unless it already has this value. */
static tc_status set_arg(ocl_worker *w, int kernel, size_t i, const ocl_arg *arg, tc_err *err)
{
    ocl_last_value *const old = i < OCL_REMEMBERED_ARGS ? &w->set[kernel][i] : NULL;

    if (old != NULL && !record_change(old, arg))
        return TC_OK;
    const tc_status status = ocl_set_arg(w->device, &w->kernel[kernel], i, arg, err);
    if (status != TC_OK && old != NULL)
        old->bytes = 0;
    return status;
}

tc_status ocl_queue(ocl_worker *w, int kernel, ocl_grid grid, const ocl_arg *args, size_t n,
                    tc_err *err)
{
    assert(kernel >= 0 && kernel < OCL_MOST_KERNELS);
    assert(w->kernel[kernel].handle != NULL);

    for (size_t i = 0; i < n; i++)
        return_if_error(set_arg(w, kernel, i, &args[i], err));
    return ocl_launch(w->device, &w->kernel[kernel], 3, grid.start, grid.global,
                      grid.local[0] > 0 ? grid.local : NULL, &w->batch, err);
}

void ocl_pace_begin(ocl_worker *w, ocl_pace *pace, double first, uint64_t most)
{
    assert(first >= 0);
    ocl_device *const d = w->device;
    double *const growth = w->n_paces < OCL_MOST_PACES ? &d->growth[w->n_paces++] : NULL;

    if (d->growth_params != w->work->params)
        memset(d->growth, 0, sizeof d->growth);
    d->growth_params = w->work->params;
    /* The first launch's amount of work. */
    const double amount = growth != NULL && *growth > 0 ? first * *growth : first;
    /* The target is less than launch_ms, as the times of launches of equal work differ by a tenth.
     */
    ocl_pace_init(pace, 0.85 * w->work->launch_ms, amount < (double)most ? (uint64_t)amount : most,
                  most);
    pace->first = first;
    pace->growth = growth;
}

/* Called after launches that took took_ms. Sleeps until the share of launches in the elapsed time
 * is at most d->share. Of the time that the host has worked between launches, at most 100 ms count.
 */
static void sleep_between_launches(ocl_worker *w, double took_ms)
{
    ocl_device *const d = w->device;
    const double earliest = ocl_clock_ms() - took_ms - 100;
    double left;
    tc_err ignored;

    if (!(d->share > 0 && d->share < 1))
        return;
    d->next_launch_ms =
        (d->next_launch_ms > earliest ? d->next_launch_ms : earliest) + took_ms / d->share;
    tc_background_allow_threads(d->background);
    while ((left = d->next_launch_ms - ocl_clock_ms()) > 0 &&
           tc_call_poll(w->work->poll, &ignored) == TC_OK)
        os_sleep((left < 50 ? left : 50) * 1e-3);
    tc_background_disallow_threads(d->background);
}

tc_status ocl_end_launch(ocl_worker *w, tc_status status, ocl_pace *pace, uint64_t work,
                         tc_err *err)
{
    w->took_ms = 0;
    if (status == TC_OK)
        status = ocl_batch_wait(w->device, &w->batch, pace->last_ms, &w->took_ms, err);
    ocl_batch_drop(w->device, &w->batch);
    if (status == TC_OK)
        ocl_pace_adjust(pace, work, w->took_ms);
    sleep_between_launches(w, w->took_ms);
    return status;
}

tc_status ocl_poll_in_step(ocl_worker *w, tc_err *err)
{
    const tc_status status = tc_call_poll(w->work->poll, err);

    w->is_inconsistent = w->is_inconsistent || status != TC_OK;
    return status;
}
