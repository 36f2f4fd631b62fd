/* Copies data to and from a device through a staging buffer in pinned memory, which the host's
 * threads fill or empty while the device transfers the other half. */
#include "opencl/staging.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "app/base/pool.h"

enum {
    HALF = 8 << 20,  /* bytes of a half of the staging buffer */
    PIECE = 1 << 19, /* bytes that a thread copies at a time */
    MAX_THREADS = 8  /* the most threads that copy; 8 threads use the memory's whole bandwidth */
};

struct ocl_staging {
    cl_mem memory;
    unsigned char *host; /* [2 * HALF]: `memory`, mapped into the host's address space; NULL if the
                            allocation failed */
    an_pool *pool;
};

/* --- pinned memory --------------------------------------------------------------------------- */

/* Allocates and maps the buffer, and creates the threads. Returns false if one of these fails. */
static bool make_staging(ocl_device *d, ocl_staging *s)
{
    cl_int code = CL_SUCCESS;
    tc_err ignored;

    s->memory =
        d->api.clCreateBuffer(d->context, CL_MEM_ALLOC_HOST_PTR, 2 * (size_t)HALF, NULL, &code);
    if (s->memory != NULL && code == CL_SUCCESS)
        s->host =
            d->api.clEnqueueMapBuffer(d->queue, s->memory, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
                                      2 * (size_t)HALF, 0, NULL, NULL, &code);
    return s->host != NULL && code == CL_SUCCESS &&
           an_pool_create(d->threads < MAX_THREADS ? d->threads : MAX_THREADS, &s->pool,
                          &ignored) == TC_OK;
}

/* Frees the buffer and the threads, and zeroes *s. */
static void free_staging_buffer(ocl_device *d, ocl_staging *s)
{
    if (s->host != NULL)
        d->api.clEnqueueUnmapMemObject(d->queue, s->memory, s->host, 0, NULL, NULL);
    if (s->memory != NULL)
        d->api.clReleaseMemObject(s->memory);
    an_pool_destroy(&s->pool);
    memset(s, 0, sizeof *s);
}

/* Implements ocl_device.free_staging. Must be called before the queue is released. */
static void free_staging(ocl_device *d)
{
    free_staging_buffer(d, d->staging);
    free(d->staging);
    d->staging = NULL;
}

bool ocl_uses_staging(ocl_device *d, size_t bytes)
{
    if (bytes < OCL_STAGING_LEAST || d->threads == 0 || d->info.type & CL_DEVICE_TYPE_CPU)
        return false;
    if (d->staging == NULL) {
        d->staging = calloc(1, sizeof *d->staging);
        d->free_staging = free_staging;
        if (d->staging != NULL && !make_staging(d, d->staging))
            free_staging_buffer(d, d->staging); /* host is then NULL; no later call tries again */
    }
    return d->staging != NULL && d->staging->host != NULL;
}

/* --- copies by threads of the host ----------------------------------------------------------- */

typedef struct copy_job {
    unsigned char *to;
    const unsigned char *from;
    size_t n;
} copy_job;

/* For an_pool_run: copies piece number `part`. */
static void copy_piece(void *user, unsigned thread, size_t part)
{
    const copy_job *const c = user;
    const size_t at = part * PIECE, left = c->n - at;

    (void)thread;
    memcpy(c->to + at, c->from + at, left < PIECE ? left : PIECE);
}

/* Copies n bytes by several threads. */
static void copy_by_threads(const ocl_staging *s, void *to, const void *from, size_t n)
{
    copy_job c = { to, from, n };

    an_pool_run(s->pool, copy_piece, &c, (n + PIECE - 1) / PIECE);
}

/* --- copies by the device -------------------------------------------------------------------- */

/* Waits until the device's transfer to or from a half of the buffer is complete. *event: the
 * transfer; NULL if there is none. */
static tc_status end_half(const ocl_device *d, cl_event *event, const char *call, tc_err *err)
{
    cl_int code;

    if (*event == NULL)
        return TC_OK;
    code = d->api.clWaitForEvents(1, event);
    d->api.clReleaseEvent(*event);
    *event = NULL;
    return code == CL_SUCCESS ? TC_OK : ocl_fail(d, call, code, err);
}

/* Calls end_half for both halves. Returns `status` if it is an error, else the first error of the
 * two calls. */
static tc_status end_both(const ocl_device *d, cl_event event[2], tc_status status,
                          const char *call, tc_err *err)
{
    for (int i = 0; i < 2; i++) {
        tc_err ignored;
        const tc_status end = end_half(d, &event[i], call, status == TC_OK ? err : &ignored);

        status = status == TC_OK ? end : status;
    }
    return status;
}

tc_status ocl_staged_write(ocl_device *d, cl_mem buffer, size_t offset, const void *from,
                           size_t bytes, tc_err *err)
{
    assert(d->staging != NULL && bytes > 0);
    const ocl_staging *const s = d->staging;
    cl_event event[2] = { NULL, NULL };
    tc_status status = TC_OK;

    for (size_t at = 0, n; status == TC_OK && at < bytes; at += n) {
        const size_t half = at / HALF % 2;
        unsigned char *const stage = s->host + half * HALF;

        n = bytes - at < HALF ? bytes - at : HALF;
        status = end_half(d, &event[half], "clEnqueueWriteBuffer", err);
        if (status != TC_OK)
            break;
        copy_by_threads(s, stage, (const unsigned char *)from + at, n);
        const cl_int code = d->api.clEnqueueWriteBuffer(d->queue, buffer, CL_FALSE, offset + at, n,
                                                        stage, 0, NULL, &event[half]);
        if (code != CL_SUCCESS || d->api.clFlush(d->queue) != CL_SUCCESS)
            status = ocl_fail(d, "clEnqueueWriteBuffer", code, err);
    }
    return end_both(d, event, status, "clEnqueueWriteBuffer", err);
}

tc_status ocl_staged_read(ocl_device *d, cl_mem buffer, size_t offset, void *to, size_t bytes,
                          tc_err *err)
{
    assert(d->staging != NULL && bytes > 0);
    const ocl_staging *const s = d->staging;
    cl_event event[2] = { NULL, NULL };
    tc_status status = TC_OK;

    /* The data are transferred into the two halves of the staging buffer in turn. Up to two
     * transfers are queued before the wait for the first of them. */
    for (size_t queued = 0, at = 0; status == TC_OK && at < bytes;) {
        for (; status == TC_OK && queued < bytes && queued < at + 2 * (size_t)HALF;
             queued += HALF) {
            const size_t half = queued / HALF % 2,
                         n = bytes - queued < HALF ? bytes - queued : HALF;
            const cl_int code =
                d->api.clEnqueueReadBuffer(d->queue, buffer, CL_FALSE, offset + queued, n,
                                           s->host + half * HALF, 0, NULL, &event[half]);

            if (code != CL_SUCCESS)
                status = ocl_fail(d, "clEnqueueReadBuffer", code, err);
        }
        const size_t half = at / HALF % 2, n = bytes - at < HALF ? bytes - at : HALF;

        if (status == TC_OK)
            status = end_half(d, &event[half], "clEnqueueReadBuffer", err);
        if (status == TC_OK)
            copy_by_threads(s, (unsigned char *)to + at, s->host + half * HALF, n);
        at += n;
    }
    return end_both(d, event, status, "clEnqueueReadBuffer", err);
}
