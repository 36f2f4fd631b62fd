/* Allocates buffers, launches kernels and copies data on an open device, and measures the times. */
#include "opencl/work.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "app/base/background.h"
#include "app/base/os.h"
#include "opencl/staging.h"

/* --- buffers --------------------------------------------------------------------------------- */

tc_status ocl_buffer_new(ocl_device *device, size_t bytes, const char *what, ocl_buffer *buffer,
                         tc_err *err)
{
    cl_int code = CL_SUCCESS;
    const double mib = 1.0 / (1 << 20);

    memset(buffer, 0, sizeof *buffer);
    if (bytes == 0)
        return tc_fail(err, TC_INTERNAL, "an empty device buffer for %s", what);
    if (bytes > device->info.max_alloc_bytes)
        return tc_fail(err, TC_TOO_LARGE,
                       "%s: %.1f MiB for %s, but a buffer can have %.1f MiB at most",
                       device->info.name, (double)bytes * mib, what,
                       (double)device->info.max_alloc_bytes * mib);
    /* memory_used never exceeds memory_limit, so the difference doesn't wrap. */
    if (bytes > device->memory_limit - device->memory_used)
        return tc_fail(err, TC_TOO_LARGE,
                       "%s: %.1f MiB for %s are too much: %.1f of the %.1f MiB that this program "
                       "may use are in use",
                       device->info.name, (double)bytes * mib, what,
                       (double)device->memory_used * mib, (double)device->memory_limit * mib);
    cl_mem memory =
        device->api.clCreateBuffer(device->context, CL_MEM_READ_WRITE, bytes, NULL, &code);
    if (memory == NULL || code != CL_SUCCESS)
        return tc_fail(err, TC_DEVICE, "%s: cannot allocate %.1f MiB of device memory for %s: %s",
                       device->info.name, (double)bytes * mib, what, ocl_error_name(code));
    device->memory_used += bytes;
    buffer->memory = memory;
    buffer->bytes = bytes;
    return TC_OK;
}

void ocl_buffer_free(ocl_device *device, ocl_buffer *buffer)
{
    if (buffer->memory != NULL) {
        device->api.clReleaseMemObject(buffer->memory);
        device->memory_used -= buffer->bytes;
    }
    memset(buffer, 0, sizeof *buffer);
}

/* Checks that bytes [offset, offset + bytes) are inside the buffer. */
static tc_status check_range(const ocl_buffer *buffer, size_t offset, size_t bytes, tc_err *err)
{
    if (buffer->memory == NULL || offset > buffer->bytes || bytes > buffer->bytes - offset)
        return tc_fail(err, TC_INTERNAL,
                       "bytes %zu to %zu+%zu are not inside a device buffer of %zu bytes", offset,
                       offset, bytes, buffer->bytes);
    return TC_OK;
}

double ocl_clock_ms(void)
{
    return tc_seconds() * 1e3;
}

/* Copies bytes from `from` to the buffer, or, if `from` is NULL, from the buffer to `to`. */
static tc_status copy_bytes(ocl_device *device, const ocl_buffer *buffer, size_t offset,
                            const void *from, void *to, size_t bytes, tc_err *err)
{
    tc_status status = check_range(buffer, offset, bytes, err);
    cl_int code = CL_SUCCESS;
    if (status != TC_OK || bytes == 0)
        return status;
    const double start = ocl_clock_ms();
    if (ocl_uses_staging(device, bytes))
        status = from != NULL ? ocl_staged_write(device, buffer->memory, offset, from, bytes, err)
                              : ocl_staged_read(device, buffer->memory, offset, to, bytes, err);
    else if (from != NULL)
        code = device->api.clEnqueueWriteBuffer(device->queue, buffer->memory, CL_TRUE, offset,
                                                bytes, from, 0, NULL, NULL);
    else
        code = device->api.clEnqueueReadBuffer(device->queue, buffer->memory, CL_TRUE, offset,
                                               bytes, to, 0, NULL, NULL);
    device->times.transfers += ocl_clock_ms() - start;
    device->times.bytes += bytes;
    if (code != CL_SUCCESS)
        return ocl_fail(device, from != NULL ? "clEnqueueWriteBuffer" : "clEnqueueReadBuffer", code,
                        err);
    return status;
}

tc_status ocl_write(ocl_device *device, const ocl_buffer *buffer, size_t offset, const void *from,
                    size_t bytes, tc_err *err)
{
    assert(from != NULL || bytes == 0);
    return copy_bytes(device, buffer, offset, from, NULL, bytes, err);
}

tc_status ocl_read(ocl_device *device, const ocl_buffer *buffer, size_t offset, void *to,
                   size_t bytes, tc_err *err)
{
    return copy_bytes(device, buffer, offset, NULL, to, bytes, err);
}

tc_status ocl_zero_buffer(ocl_device *device, const ocl_buffer *buffer, tc_err *err)
{
    void *zeros = calloc(1, buffer->bytes > 0 ? buffer->bytes : 1);
    if (zeros == NULL)
        return tc_no_memory(err, "clearing device memory");
    const tc_status status = ocl_write(device, buffer, 0, zeros, buffer->bytes, err);
    free(zeros);
    return status;
}

/* --- launches -------------------------------------------------------------------------------- */

tc_status ocl_set_arg(ocl_device *device, const ocl_kernel *kernel, size_t index,
                      const ocl_arg *arg, tc_err *err)
{
    const cl_int code =
        device->api.clSetKernelArg(kernel->handle, (cl_uint)index, arg->bytes, arg->value);
    if (code != CL_SUCCESS)
        return tc_fail(err, TC_DEVICE, "%s: argument %zu of kernel %s: %s", device->info.name,
                       index, kernel->name, ocl_error_name(code));
    return TC_OK;
}

tc_status ocl_set_args(ocl_device *device, const ocl_kernel *kernel, const ocl_arg *args,
                       size_t count, tc_err *err)
{
    for (size_t i = 0; i < count; i++)
        return_if_error(ocl_set_arg(device, kernel, i, &args[i], err));
    return TC_OK;
}

tc_status ocl_launch(ocl_device *device, const ocl_kernel *kernel, cl_uint dimensions,
                     const size_t *start, const size_t *global, const size_t *local,
                     ocl_batch *batch, tc_err *err)
{
    assert(dimensions >= 1 && dimensions <= 3);
    const bool first = batch->first == NULL;
    for (cl_uint i = 0; i < dimensions; i++) {
        assert(local == NULL || global[i] % local[i] == 0);
        if (global[i] == 0)
            return TC_OK;
    }
    const cl_int code =
        device->api.clEnqueueNDRangeKernel(device->queue, kernel->handle, dimensions, start, global,
                                           local, 0, NULL, first ? &batch->first : NULL);
    if (code != CL_SUCCESS) {
        size_t items = 1;
        for (cl_uint i = 0; local != NULL && i < dimensions; i++)
            items *= local[i];
        /* group_limit lets the caller try again with work-groups of at most the size that the
         * driver reports for this kernel. */
        if (items > kernel->max_group)
            device->group_limit = kernel->max_group;
        return tc_fail(err, TC_DEVICE, "%s: launch of kernel %s: %s", device->info.name,
                       kernel->name, ocl_error_name(code));
    }
    if (first)
        batch->queued_ms = ocl_clock_ms();
    else
        batch->has_several = true;
    return TC_OK;
}

/* Sleeps until the event is complete. Returns early on an error, which the clWaitForEvents that
 * follows reports. Also returns early if the event takes much longer than expected: a hanging
 * driver is detected (guard.h) only while a single call, such as clWaitForEvents, does not return,
 * not during the short calls made here. */
static void sleep_until_done(ocl_device *device, cl_event event, double expected_ms)
{
    const double poll = 0.2e-3;                                    /* seconds */
    const double until = ocl_clock_ms() + 10 * expected_ms + 1000; /* when to return in any case */
    cl_int state = CL_QUEUED;
    if (device->api.clFlush(device->queue) != CL_SUCCESS)
        return;
    tc_background_allow_threads(
        device->background); /* other threads may use this one's processor core */
    /* Sleeps for three quarters of the expected time, but at most for 75 ms; then polls. */
    os_sleep(expected_ms < 100 ? expected_ms * 0.75e-3 : 75e-3);
    while (device->api.clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state,
                                      &state, NULL) == CL_SUCCESS &&
           state > CL_COMPLETE && ocl_clock_ms() < until)
        os_sleep(poll);
    tc_background_disallow_threads(device->background);
}

/* Sets *ms to the device's time from the start of the batch's first launch to the end of `last`. If
 * the driver does not report this time, sets *ms to the host's time since the first launch was
 * queued. */
static tc_status batch_time(ocl_device *device, const ocl_batch *batch, cl_event last, double *ms,
                            tc_err *err)
{
    cl_ulong start = 0, end = 0;
    cl_int code = device->api.clGetEventProfilingInfo(batch->first, CL_PROFILING_COMMAND_START,
                                                      sizeof start, &start, NULL);
    if (code == CL_SUCCESS)
        code = device->api.clGetEventProfilingInfo(last, CL_PROFILING_COMMAND_END, sizeof end, &end,
                                                   NULL);
    if (code != CL_SUCCESS && code != CL_PROFILING_INFO_NOT_AVAILABLE)
        return ocl_fail(device, "clGetEventProfilingInfo", code, err);
    *ms = code == CL_SUCCESS && end > start ? (double)(end - start) * 1e-6
                                            : ocl_clock_ms() - batch->queued_ms;
    return TC_OK;
}

tc_status ocl_batch_wait(ocl_device *device, ocl_batch *batch, double expected_ms, double *ms,
                         tc_err *err)
{
    tc_status status = TC_OK;

    *ms = 0;
    if (batch->first == NULL)
        return TC_OK;
    if (batch->has_several) { /* there are launches after the first; they have no events */
        const cl_int code =
            device->api.clEnqueueMarkerWithWaitList(device->queue, 0, NULL, &batch->last);
        if (code != CL_SUCCESS) {
            ocl_batch_drop(device, batch);
            return ocl_fail(device, "clEnqueueMarkerWithWaitList", code, err);
        }
    }
    const cl_event last = batch->has_several ? batch->last : batch->first;
    if (expected_ms >= 2 && !(device->info.type & CL_DEVICE_TYPE_CPU))
        sleep_until_done(device, last, expected_ms);
    const cl_int code = device->api.clWaitForEvents(1, &last);
    if (code != CL_SUCCESS)
        status = ocl_fail(device, "clWaitForEvents", code, err);
    else
        status = batch_time(device, batch, last, ms, err);
    device->times.kernels += *ms;
    if (*ms > device->times.longest)
        device->times.longest = *ms;
    ocl_batch_drop(device, batch);
    return status;
}

void ocl_batch_drop(ocl_device *device, ocl_batch *batch)
{
    if (batch->first != NULL)
        device->api.clReleaseEvent(batch->first);
    if (batch->last != NULL)
        device->api.clReleaseEvent(batch->last);
    memset(batch, 0, sizeof *batch);
}

size_t ocl_round_up(size_t n, size_t multiple)
{
    assert(multiple >= 1);
    const size_t remainder = n % multiple;
    return remainder == 0 ? n : n + (multiple - remainder);
}

/* --- pace: the amount of work of a launch, in the caller's unit ------------------------------- */

void ocl_pace_init(ocl_pace *pace, double target_ms, uint64_t first, uint64_t most)
{
    pace->target_ms = target_ms > 0.1 ? target_ms : 0.1;
    pace->max_work = most > 0 ? most : 1;
    pace->next_work = first > 0 ? first : 1;
    if (pace->next_work > pace->max_work)
        pace->next_work = pace->max_work;
    pace->last_ms = 0;
    pace->first = (double)first;
    pace->growth = NULL;
    pace->even_units = false;
}

uint64_t ocl_pace_next(const ocl_pace *pace, uint64_t left)
{
    assert(pace->next_work >= 1);
    return left < pace->next_work ? left : pace->next_work;
}

void ocl_pace_adjust(ocl_pace *pace, uint64_t work, double ms)
{
    /* The aim is a little less than the target, because launches with equal amounts of work take
     * different times. */
    const double aim = 0.8 * pace->target_ms;
    const uint64_t before = pace->next_work;
    pace->last_ms = ms;
    if (work == 0)
        return;
    if (ms > pace->target_ms) {
        const uint64_t fitting = (uint64_t)((double)work * (aim / ms));
        if (fitting < pace->next_work)
            pace->next_work = fitting > 0 ? fitting : 1;
    } else if (work >= pace->next_work && ms < aim) {
        /* The amount at most doubles. But if all units of work take equally long, and four times
         * the work should take at most aim / 2, it may quadruple. */
        const uint64_t factor = pace->even_units && ms * 8 <= aim ? 4 : 2;
        const uint64_t limit =
            pace->next_work <= pace->max_work / factor ? pace->next_work * factor : pace->max_work;
        const uint64_t fits = ms * 2 <= aim ? limit : (uint64_t)((double)work * (aim / ms));
        pace->next_work = fits < limit ? (fits > pace->next_work ? fits : pace->next_work) : limit;
    }
    if (pace->growth != NULL && pace->next_work != before)
        *pace->growth = (double)pace->next_work / pace->first;
}
