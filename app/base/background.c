/* Pauses background threads by a condition variable: see background.h. */
#include "app/base/background.h"

#include <assert.h>

void tc_background_init(tc_background *background, bool allowed)
{
    *background = (tc_background){ .allowed = allowed };
    pthread_mutex_init(&background->lock, NULL);
    pthread_cond_init(&background->changed, NULL);
}

void tc_background_destroy(tc_background *background)
{
    pthread_cond_destroy(&background->changed);
    pthread_mutex_destroy(&background->lock);
}

static bool may_run(const tc_background *background)
{
    return background->allowed > 0 && background->pauses == 0;
}

/* Adds `allowed` and `pauses` (each 1, 0 or -1) to the two counters, and wakes the waiting threads
 * if they may run now. background: NULL does nothing. */
static void add_counts(tc_background *background, int allowed, int pauses)
{
    if (background == NULL)
        return;
    pthread_mutex_lock(&background->lock);
    assert(allowed >= 0 || background->allowed > 0);
    assert(pauses >= 0 || background->pauses > 0);
    background->allowed += (unsigned)allowed;
    background->pauses += (unsigned)pauses;
    if (may_run(background))
        pthread_cond_broadcast(&background->changed);
    pthread_mutex_unlock(&background->lock);
}

void tc_background_allow_threads(tc_background *background)
{
    add_counts(background, 1, 0);
}

void tc_background_disallow_threads(tc_background *background)
{
    add_counts(background, -1, 0);
}

void tc_background_pause_threads(tc_background *background)
{
    add_counts(background, 0, 1);
}

void tc_background_resume_threads(tc_background *background)
{
    add_counts(background, 0, -1);
}

void tc_background_stop_threads(tc_background *background)
{
    pthread_mutex_lock(&background->lock);
    background->stopped = true;
    pthread_cond_broadcast(&background->changed);
    pthread_mutex_unlock(&background->lock);
}

tc_status tc_background_wait_allowed(void *user, tc_err *err)
{
    tc_background *const background = user;
    bool stopped;

    (void)err;
    pthread_mutex_lock(&background->lock);
    while (!may_run(background) && !background->stopped)
        pthread_cond_wait(&background->changed, &background->lock);
    stopped = background->stopped;
    pthread_mutex_unlock(&background->lock);
    return stopped ? TC_TRY_LATER : TC_OK;
}
