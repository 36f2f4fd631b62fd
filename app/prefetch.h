/*
 * The pixels of the next item, decoded while a device works on this one, or the main thread
 * finishes it, and those of the first one while a device is made ready.
 *
 * As many threads do that as there are, besides the main one. Where that is the only one it is done
 * only while that sleeps, as it does during a device's launches that last. While the task is
 * suspended nothing is decoded.
 */
#ifndef APP_PREFETCH_H
#define APP_PREFETCH_H

#include "app/base/condition.h"
#include "app/base/background.h"
#include "workunits/format/job.h"

typedef struct prefetch {
    const wu_job *job;
    tc_background
        background; /* for the main thread: held while it asks the client, lifted while it sleeps */
    tc_poll poll;   /* at the background */
    bool is_under_way; /* in the thread: of item `item`, into pixels and status until has_ended */
    pthread_t thread;
    size_t item;
    wu_pixels pixels;
    tc_status status;
    pthread_mutex_t lock;
    tc_condition end;
    bool has_ended; /* under lock */
} prefetch;

/* Nothing is under way. The job, which must outlast it, has got its threads. */
void prefetch_init(prefetch *a, const wu_job *job);
/* Stops what is under way. */
void prefetch_end(prefetch *a);
/* Begins with that item, if there is one and none is under way. What fails then fails where it is
 * taken. */
void prefetch_begin(prefetch *a, size_t item);
/* Whether it is done, which is waited for so long. */
bool prefetch_has_ended(prefetch *a, double seconds);
/* wu_item_load, of what was decoded ahead if it is that item, which is waited for. */
tc_status prefetch_take(prefetch *a, size_t item, const tc_poll *poll, wu_pixels *out, tc_err *err);

#endif
