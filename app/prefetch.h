/*
 * Decodes the pixels of the next item in a background thread, while a device computes the current
 * item or the main thread finishes it. The pixels of the first item are decoded while the device is
 * prepared.
 *
 * Decoding uses the job's threads besides the main one. If the job has only one thread, decoding
 * runs only while the main thread sleeps, as during long launches of a device. Decoding pauses
 * while the task is suspended.
 */
#ifndef APP_PREFETCH_H
#define APP_PREFETCH_H

#include "app/base/condition.h"
#include "app/base/background.h"
#include "workunits/format/job.h"

typedef struct prefetch {
    const wu_job *job;
    tc_background background; /* controls when the background thread runs */
    tc_poll poll;             /* polls `background` */
    bool has_thread;          /* the thread exists; it decodes `item` or has decoded it */
    pthread_t thread;
    size_t item;
    wu_pixels pixels; /* the decoded pixels; valid when the thread has ended */
    tc_status status; /* the result of decoding; valid when the thread has ended */
    pthread_mutex_t lock;
    tc_condition end; /* signalled when has_ended is set */
    bool has_ended;   /* protected by lock */
} prefetch;

/* Initializes *a without starting to decode. The job must outlast *a, and job->threads must be set.
 */
void prefetch_init(prefetch *a, const wu_job *job);
/* Stops the thread and frees its results. */
void prefetch_destroy(prefetch *a);
/* Starts to decode an item. Does nothing if there is no item with this index, while an item is
 * being decoded, or while prefetch_take has not taken a decoded item. prefetch_take reports errors.
 */
void prefetch_begin(prefetch *a, size_t item);
/* Returns whether the item is decoded, after waiting up to `seconds` for that. */
bool prefetch_has_ended(prefetch *a, double seconds);
/* Does the same as wu_item_load; but if this item is being decoded in the background, waits for its
 * pixels and moves them to *out. */
tc_status prefetch_take(prefetch *a, size_t item, const tc_poll *poll, wu_pixels *out, tc_err *err);

#endif
