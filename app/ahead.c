#include "app/ahead.h"

#include "app/base/os.h"
#include "app/base/pool.h"

void ahead_init(ahead *a, const wu_job *job)
{
    *a = (ahead){ .job = job };
    tc_gate_init(&a->gate, job->threads > 1);
    a->poll = (tc_poll){ tc_gate_ask, &a->gate };
    pthread_mutex_init(&a->lock, NULL);
    tc_bell_init(&a->end);
}

static void *decode(void *user)
{
    ahead *const a = user;
    tc_err ignored;

    a->status = wu_item_load_beside(a->job, a->item, &a->poll, &a->pixels, &ignored);
    pthread_mutex_lock(&a->lock);
    a->has_ended = true;
    tc_bell_ring(&a->end);
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

void ahead_begin(ahead *a, size_t item)
{
    if (a->is_under_way || item >= a->job->n_items)
        return;
    a->item = item;
    a->has_ended = false;
    a->is_under_way = os_thread(&a->thread, decode, a);
}

static void join(ahead *a)
{
    if (a->is_under_way)
        pthread_join(a->thread, NULL);
    a->is_under_way = false;
}

bool ahead_has_ended(ahead *a, double seconds)
{
    bool has_ended;

    pthread_mutex_lock(&a->lock);
    if (!a->has_ended)
        tc_bell_wait(&a->end, &a->lock, seconds);
    has_ended = a->has_ended;
    pthread_mutex_unlock(&a->lock);
    return has_ended;
}

static tc_status wait(ahead *a, const tc_poll *poll, tc_err *err)
{
    tc_status status = TC_OK;

    tc_gate_lift(&a->gate);
    while (status == TC_OK && !ahead_has_ended(a, AN_STEP_SECONDS))
        status = tc_ask(poll, err);
    tc_gate_drop(&a->gate);
    return status;
}

tc_status ahead_take(ahead *a, size_t item, const tc_poll *poll, wu_pixels *out, tc_err *err)
{
    tc_status status = TC_OK;

    if (!a->is_under_way || a->item != item)
        return wu_item_load(a->job, item, out, err);
    status = wait(a, poll, err);
    if (status != TC_OK)
        return status;
    join(a);
    *out = a->pixels;
    a->pixels = (wu_pixels){ .nx = 0 };
    /* Whatever it was: here it is told, or was of the moment. */
    return a->status == TC_OK ? TC_OK : wu_item_load(a->job, item, out, err);
}

void ahead_end(ahead *a)
{
    tc_gate_end(&a->gate);
    join(a);
    wu_pixels_free(&a->pixels);
    tc_gate_destroy(&a->gate);
    tc_bell_destroy(&a->end);
    pthread_mutex_destroy(&a->lock);
}
