/* Decodes the next item's pixels in a background thread: see prefetch.h. */
#include "app/prefetch.h"

#include <assert.h>

#include "app/base/os.h"
#include "app/base/pool.h"

void prefetch_init(prefetch *a, const wu_job *job)
{
    *a = (prefetch){ .job = job };
    tc_background_init(&a->background, job->threads > 1);
    a->poll = (tc_poll){ tc_background_wait_allowed, &a->background };
    pthread_mutex_init(&a->lock, NULL);
    tc_condition_init(&a->end);
}

/* The background thread. */
static void *decode_item(void *user)
{
    prefetch *const a = user;
    tc_err ignored;

    a->status = wu_item_load_in_background(a->job, a->item, &a->poll, &a->pixels, &ignored);
    pthread_mutex_lock(&a->lock);
    a->has_ended = true;
    tc_condition_signal(&a->end);
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

void prefetch_begin(prefetch *a, size_t item)
{
    if (a->has_thread || item >= a->job->n_items)
        return;
    a->item = item;
    a->has_ended = false;
    a->has_thread = os_create_thread(&a->thread, decode_item, a);
}

/* Waits until the background thread has ended, if there is one. */
static void join_thread(prefetch *a)
{
    if (a->has_thread)
        pthread_join(a->thread, NULL);
    a->has_thread = false;
}

bool prefetch_has_ended(prefetch *a, double seconds)
{
    bool has_ended;

    pthread_mutex_lock(&a->lock);
    if (!a->has_ended)
        tc_condition_wait(&a->end, &a->lock, seconds);
    has_ended = a->has_ended;
    pthread_mutex_unlock(&a->lock);
    return has_ended;
}

/* Waits until the item is decoded, and polls meanwhile. */
static tc_status wait_until_decoded(prefetch *a, const tc_poll *poll, tc_err *err)
{
    tc_status status = TC_OK;

    tc_background_allow_threads(&a->background);
    while (status == TC_OK && !prefetch_has_ended(a, AN_STEP_SECONDS))
        status = tc_call_poll(poll, err);
    tc_background_disallow_threads(&a->background);
    return status;
}

tc_status prefetch_take(prefetch *a, size_t item, const tc_poll *poll, wu_pixels *out, tc_err *err)
{
    assert(item < a->job->n_items);

    if (!a->has_thread || a->item != item)
        return wu_item_load(a->job, item, out, err);
    return_if_error(wait_until_decoded(a, poll, err));
    join_thread(a);
    *out = a->pixels;
    a->pixels = (wu_pixels){ .nx = 0 };
    /* After an error the item is loaded again, so that the error is either reported here or was
     * temporary. */
    return a->status == TC_OK ? TC_OK : wu_item_load(a->job, item, out, err);
}

void prefetch_destroy(prefetch *a)
{
    tc_background_stop_threads(&a->background);
    join_thread(a);
    wu_pixels_free(&a->pixels);
    tc_background_destroy(&a->background);
    tc_condition_destroy(&a->end);
    pthread_mutex_destroy(&a->lock);
}
